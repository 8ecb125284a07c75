"""Passes made of cuts: programs with slabs and windows that fit the memory, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from beam_volumes.geometry import Grid, Triple
from beam_volumes.graph.nodes import (
    BarrierValue,
    StageNode,
    Value,
    values_below,
    without_voxels,
)
from beam_volumes.graph.volume import format_bytes
from beam_volumes.plan import budget as machine
from beam_volumes.plan.compile import ancestors, compile_program
from beam_volumes.plan.partition import (
    Partition,
    TooLarge,
    choose,
    chunks_read,
    least,
    measure,
    preferred_window,
    units_written,
    write_grid,
)
from beam_volumes.plan.passes import Cut
from beam_volumes.plan.plan import Pass
from beam_volumes.sweep.program import Program


@dataclass(frozen=True)
class Limits:
    """What a partition has to go by: bytes for a slab, and what the user has said."""

    budget: int
    workers: int
    threads: int
    slab: Sequence[int] | None
    window: int | None


def fitted(
    cuts: list[Cut], stored: dict[str, Any], limits: Limits, reasons: list[str]
) -> tuple[list[Pass], list[Value], Partition]:
    """The passes of cuts, the values they take, and the largest of their smallest partitions."""
    separate = _separate(cuts, stored, limits, reasons)
    programs, values = [], []
    for c in separate:
        before = _before(c, cuts, stored)
        programs.append(compile_program(c.shape, c.outputs, c.folds, c.barriers, before))
        values.append(_needed_values(c, before))
    reasons += _waits(separate, programs, values, stored)
    passes: list[Pass | None] = [None] * len(programs)
    smallest = Partition(Grid((0, 0, 0), (1, 1, 1)), 1, False, ())
    for together in _same_slabs(programs):
        members = [programs[k] for k in together]
        try:
            parts = _partitions(members, limits)
        except TooLarge as error:
            parts = error.smallest
        # All passes are looked at before the budget is refused: it must do for each.
        chosen = limits.slab is not None or limits.window is not None
        for low in parts if chosen else least(members, limits.threads):
            smallest = max(smallest, low, key=lambda p: p.memory)
        for k, part in zip(together, parts, strict=True):
            passes[k] = costed(k, programs[k], part, without_voxels(values[k]), limits.budget)
    return [p for p in passes if p is not None], [v for vs in values for v in vs], smallest


def _waits(
    cuts: list[Cut],
    programs: Sequence[Program],
    values: Sequence[Sequence[Value]],
    stored: dict[str, Any],
) -> list[str]:
    """What each pass needs of those before it."""
    found: dict[str, tuple[int, str]] = {}
    kept: dict[int, tuple[int, str]] = {}
    for k, (c, program) in enumerate(zip(cuts, programs, strict=True)):
        found |= {f.token: (k, f.reduction.name) for f in program.folds}
        found |= {b.token: (k, b.survey.name) for b in program.surveys}
        kept |= {
            id(stored[n.token]): (k, f"the stored {n.name}")
            for n, _ in c.outputs
            if n.token in stored
        }
    lines = []
    for k, (program, own) in enumerate(zip(programs, values, strict=True)):
        tokens = {
            v.barrier.token if isinstance(v, BarrierValue) else v.token for v in values_below(own)
        }
        needs = {found[t] for t in (*tokens, *program.barriers) if t in found}
        read = [id(s.source.stored) for s in program.steps if s.source is not None]
        needs |= {kept[i] for i in read if i in kept}
        for before in sorted({i for i, _ in needs if i < k}):
            names = ", ".join(sorted(name for i, name in needs if i == before))
            lines.append(f"pass {k + 1} comes after pass {before + 1}, of which it needs {names}")
    return lines


def _same_slabs(programs: Sequence[Program]) -> list[list[int]]:
    """Passes in groups that have one grid of slabs: where answers go, and where they come from."""
    groups: list[set[int]] = []
    for k, program in enumerate(programs):
        linked = {k, *(j for j, p in enumerate(programs) if _surveyed(p) & set(program.barriers))}
        touched = [g for g in groups if g & linked]
        groups = [g for g in groups if not g & linked] + [linked.union(*touched)]
    return sorted(sorted(g) for g in groups)


def _surveyed(program: Program) -> set[str]:
    return {b.token for b in program.surveys}


def _before(c: Cut, cuts: Sequence[Cut], stored: dict[str, Any]) -> dict[str, Any]:
    """What is stored before a pass begins: what it stores itself it must compute."""
    later = {n.token for other in cuts if other.level >= c.level for n, _ in other.outputs}
    return {token: source for token, source in stored.items() if token not in later}


def _separate(
    cuts: list[Cut], stored: dict[str, Any], limits: Limits, reasons: list[str]
) -> list[Cut]:
    """Give outputs of one pass sweeps of their own where their write units do not fit together."""
    separate: list[Cut] = []
    for c in cuts:
        units = {s.unit for _, s in c.outputs}
        if len(units) > 1 and limits.slab is None:
            before = _before(c, cuts, stored)
            program = compile_program(c.shape, c.outputs, c.folds, c.barriers, before)
            try:
                choose([program], limits.budget, limits.workers, limits.threads)
            except TooLarge:
                reasons.append(
                    "outputs of one pass have sweeps of their own: the least common multiple of their "
                    f"write units {sorted(units)} is beyond the budget"
                )
                for k, output in enumerate(c.outputs):
                    first = k == 0
                    folds, barriers = (c.folds, c.barriers) if first else ([], [])
                    separate.append(Cut(c.level, c.shape, [output], folds, barriers))
                continue
        separate.append(c)
    return separate


def _partitions(programs: Sequence[Program], limits: Limits) -> list[Partition]:
    """Partitions of passes that have the same slabs and windows."""
    if limits.slab is None and limits.window is None:
        return choose(programs, limits.budget, limits.workers, limits.threads)
    if limits.slab is None:
        found = choose(programs, limits.budget, limits.workers, limits.threads)
        width = machine.checked_count("window", limits.window, 1)
        step, overlap = found[0].grid.step, found[0].overlap
        return [measure(p, step, width, overlap, limits.threads) for p in programs]
    asked = slab_shape(limits.slab, programs[0].shape)
    spans = {a for p in programs for a in p.spans}
    shape: Triple = tuple(  # type: ignore[assignment]
        max(1, n) if a in spans else s
        for a, s, n in zip(range(3), asked, programs[0].shape, strict=True)
    )
    unit = write_grid(programs)
    for axis, n, s, u in zip("zyx", programs[0].shape, shape, unit, strict=True):
        if s % u and s < n:
            raise ValueError(
                f"slab {tuple(limits.slab)}: {s} along {axis} is not a multiple of the output's write unit "
                f"{u}; use a multiple of {u}, or chunks={s} along {axis}"
            )
    preferred = preferred_window(programs, (shape[1], shape[2]))
    width = machine.checked_count("window", limits.window, preferred)
    return [measure(p, shape, width, True, limits.threads) for p in programs]


def slab_shape(slab: Sequence[int], shape: Triple) -> Triple:
    """The slab that a user asked for, along z, y and x, no larger than the volume."""
    if not isinstance(slab, Iterable):
        raise TypeError(f"slab={slab!r} is not a sequence: it needs one number per axis z, y, x")
    numbers = [machine.checked_count("slab", int(n), 1) for n in slab]
    if len(numbers) == 2 and shape[0] == 1:
        numbers.insert(0, 1)
    if len(numbers) != 3:
        raise ValueError(f"slab {tuple(slab)} needs one number per axis z, y, x")
    z, y, x = (min(s, max(1, n)) for s, n in zip(numbers, shape, strict=True))
    return (z, y, x)


def cut_across(p: Pass, slab: Sequence[int] | None) -> bool:
    """Whether tiles were asked for where a stage needs whole planes."""
    return slab is not None and slab_shape(slab, p.program.shape)[1:] != p.program.shape[1:]


def _needed_values(c: Cut, stored: dict[str, Any]) -> tuple[Value, ...]:
    """The lazy scalars that a pass's stages and folds take."""
    values = {v.token: v for f in c.folds for v in f.parameters}
    values |= {v.token: v for b in c.barriers for v in b.parameters}
    for node in ancestors(c.ends, stored):
        if isinstance(node, StageNode) and node.token not in stored:
            values.update((v.token, v) for v in node.parameters)
    return tuple(values.values())


def costed(
    index: int, program: Program, part: Partition, values: tuple[Value, ...], budget: int
) -> Pass:
    """A pass with what it reads and writes, and what its surveys may keep of the budget."""
    reads = chunks_read(program, part.grid)
    units = units_written(program)
    return Pass(
        index,
        program,
        part,
        values,
        bytes_read=sum(n * size for n, _, size in reads),
        bytes_once=sum(n * size for _, n, size in reads),
        chunks_read=sum(n for n, _, _ in reads),
        bytes_written=sum(size for _, size in units),
        units_written=sum(n for n, _ in units),
        room=max(part.reserved, budget - part.memory + part.reserved),
    )


def refuse(part: Partition, total: int, base: int, workers: int, processes: int) -> None:
    """Raise what says which part is too large, and the smallest memory that would do."""
    need = processes * base + workers * part.memory
    raise ValueError(
        f"memory {format_bytes(total)} is too small: {processes} process(es) take {format_bytes(base)} each "
        f"before any voxel, and {workers} slab(s) in flight at least {format_bytes(part.memory)} each, the "
        f"largest part being {part.largest.name} with {format_bytes(part.largest.bytes)}. "
        f"The smallest memory that works is {need} bytes ({format_bytes(need)}); "
        "fewer workers or smaller output chunks need less"
    )
