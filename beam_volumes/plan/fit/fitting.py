"""Make passes of cuts: choose slabs and windows that fit the memory, and compute their cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.nodes import (
    BarrierValue,
    Node,
    SourceNode,
    StageNode,
    Value,
    values_below,
    without_voxels,
)
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.traffic import chunks_read, units_written
from beam_volumes.plan.cut.passes import Choice, Cut, describe_cuts, in_order
from beam_volumes.plan.cut.segments import on_device, on_host
from beam_volumes.plan.fit.advice import PlanRefused, Remedy, visible
from beam_volumes.plan.fit.alternatives import suited
from beam_volumes.plan.fit.partitioning import (
    Partitioning,
    TooLarge,
    choose,
    fit,
    fits,
    natural_depth,
    peak,
    preferred_window,
    smallest_partitions,
)
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.sweep.device import DEVICE
from beam_volumes.sweep.program import End, Output, Program
from beam_volumes.sweep.schedule import OVERLAPS


@dataclass(frozen=True)
class Limits:
    """The limits of a partition: bytes for a slab, and the user's slab and window."""

    budget: int
    concurrency: Concurrency
    slab: Sequence[int] | None
    window: int | None
    device: str = "cpu"  #: Where stages may run: see `segments.on_device`.

    def program(self, c: Cut) -> Program:
        """The program of a cut, divided between host and device."""
        return on_device(c.program(), self.device, self.concurrency.threads)


def fitted(
    cuts: list[Cut], stored: dict[str, Any], limits: Limits, choices: list[Choice]
) -> tuple[list[Pass], list[Value], Partitioning, list[str]]:
    """Return the passes of cuts, their values, the largest of the smallest partitions, and reasons.

    The reasons explain the number of passes, their dependencies, and why nodes are stored, read
    back or computed again.
    """
    cuts = in_order(cuts, stored)
    separate, reasons = _separate(cuts, limits)
    if len(separate) > len(cuts):
        cuts = in_order(separate, stored)
    programs = [limits.program(c) for c in cuts]
    values = [_needed_values(c) for c in cuts]
    reasons = [*describe_cuts(cuts, choices), *reasons, *_waits(cuts, programs, values)]
    passes: list[Pass | None] = [None] * len(programs)
    smallest = Partitioning(Grid((0, 0, 0), (1, 1, 1)), 1, OVERLAPS[-1], ())
    groups = _same_slabs(programs)
    if limits.slab is not None:
        _check_units([[programs[k] for k in together] for together in groups], limits.slab)
    for together in groups:
        members = suited([programs[k] for k in together], lambda ps: _within(ps, limits))
        for k, program in zip(together, members, strict=True):
            programs[k] = program
        try:
            parts = _partitions(members, limits)
        except TooLarge as error:
            parts = error.smallest
        # All passes are partitioned before the budget is refused: the smallest memory must suffice
        # for each.
        chosen = limits.slab is not None or limits.window is not None
        slab, window = parts[0].grid.step, parts[0].window
        lowest = (
            fit(members, slab, window, limits.concurrency, budget=0)
            if chosen
            else min(smallest_partitions(members, limits.concurrency), parts, key=peak)
        )
        smallest = max(smallest, *lowest, key=lambda p: p.memory)
        for k, part in zip(together, parts, strict=True):
            passes[k] = costed(k, programs[k], part, without_voxels(values[k]), limits.budget)
    found = with_room_for_answers([p for p in passes if p is not None], limits.budget)
    return found, [v for vs in values for v in vs], smallest, reasons


def _waits(
    cuts: list[Cut], programs: Sequence[Program], values: Sequence[Sequence[Value]]
) -> list[str]:
    """Describe what each pass needs from earlier ones."""
    found: dict[str, tuple[int, str]] = {}
    kept: dict[str, tuple[int, str]] = {}
    lines = []
    for k, (c, program, own) in enumerate(zip(cuts, programs, values, strict=True)):
        tokens = {
            v.barrier.token if isinstance(v, BarrierValue) else v.token for v in values_below(own)
        }
        needs = {found[t] for t in (*tokens, *program.barriers) if t in found}
        needs |= {kept[n.token] for n in c.reached if n.token in c.before}
        for before in sorted({i for i, _ in needs}):
            names = ", ".join(sorted(name for i, name in needs if i == before))
            lines.append(f"pass {k + 1} waits for pass {before + 1}: it needs {names}")
        found |= {f.token: (k, f.reduction.name) for f in program.folds}
        found |= {b.token: (k, b.survey.name) for b in program.surveys}
        for n, _ in c.outputs:
            kept.setdefault(n.token, (k, f"the stored {n.name}"))
    return lines


def _same_slabs(programs: Sequence[Program]) -> list[list[int]]:
    """Group passes that need the same slabs: surveys, and passes that use their answers."""
    groups: list[set[int]] = []
    for k, program in enumerate(programs):
        linked = {k, *(j for j, p in enumerate(programs) if _surveyed(p) & set(program.barriers))}
        touched = [g for g in groups if g & linked]
        groups = [g for g in groups if not g & linked] + [linked.union(*touched)]
    return sorted(sorted(g) for g in groups)


def _surveyed(program: Program) -> set[str]:
    return {b.token for b in program.surveys}


def _separate(cuts: list[Cut], limits: Limits) -> tuple[list[Cut], list[str]]:
    """Give outputs separate passes if their write units do not fit together."""
    separate: list[Cut] = []
    reasons = []
    for c in cuts:
        units = {s.unit for _, s in c.outputs}
        if len(units) > 1 and limits.slab is None:
            program = limits.program(c)
            try:
                choose([program], limits.budget, limits.concurrency)
            except TooLarge:
                reasons.append(
                    "outputs of one pass have separate sweeps: the least common multiple of their "
                    f"write units {sorted(units)} does not fit the memory"
                )
                for k, output in enumerate(c.outputs):
                    first = k == 0
                    folds, barriers = (c.folds, c.barriers) if first else ([], [])
                    separate.append(
                        Cut(c.level, c.shape, [output], folds, barriers, lattices=c.lattices)
                    )
                continue
        separate.append(c)
    return separate, reasons


def too_coarse(cuts: list[Cut], stored: dict[str, Any], limits: Limits) -> dict[str, str]:
    """Find levels with write units that would make slabs too large.

    By token of the nearest finer output that they depend on, from which a later pass computes them:
    why.
    """
    found: dict[str, str] = {}
    for c in in_order(cuts, stored):
        nodes = [*(n for n, _ in c.outputs), *(f.nodes[0] for f in c.folds)]
        if 0 in c.shape or all(max(c.lattices[n.token].step) == 1 for n in nodes):
            continue
        program = limits.program(c)
        ends = sorted(zip(program.ends, nodes, strict=True), key=lambda e: _coarseness(e[0]))
        minimum = math.inf
        for end, node in ends:
            if _coarseness(end) > minimum:
                break  # still coarser levels are checked in the later pass
            why = _too_coarse(program, end, limits)
            finer = None if why is None else _finer_output(c, node)
            if why is not None and finer is None and program.barriers:
                finer = node.inputs[0]
            if why is not None and finer is not None:
                minimum = _coarseness(end)
                found[finer.token] = why
        if minimum == math.inf and limits.slab is None and not _is_affordable(program, limits):
            finer = _finer_output(c, ends[-1][1])
            if finer is not None:
                found[finer.token] = f"slabs of whole write units of {finer.name} need less memory"
    return found


def _too_coarse(program: Program, end: End, limits: Limits) -> str | None:
    """Why slabs should not contain whole units of an end; None if they can."""
    if _coarseness(end) == 1:
        return None
    z, y, x = (u * f for u, f in zip(end.unit, end.lattice.step, strict=True))
    whole = f"to hold whole write units {z} slices deep"
    if isinstance(end, Output):
        whole = f"to hold whole write units of {end.sink.name}"
    if limits.slab is None:
        fine = tuple(e for e in program.outputs if _coarseness(e) == 1)
        deep = natural_depth(replace(program, outputs=fine), limits.concurrency)
        if min(z, program.shape[0]) > deep:
            return f"slabs would have to be {z} slices deep {whole}"
        return None
    slab = slab_shape(limits.slab, program.shape)
    for s, u, n in zip(slab, (z, y, x), program.shape, strict=True):
        # Nodes that depend on answers are only known inside their slab.
        if s < n and (u > s or (program.barriers and s % u)):
            return f"slabs would have to be multiples of {z} x {y} x {x} {whole}"
    return None


def _coarseness(end: End) -> int:
    return math.prod(end.lattice.step)


def _is_affordable(program: Program, limits: Limits) -> bool:
    try:
        choose([program], limits.budget, limits.concurrency)
    except TooLarge:
        return False
    return True


def _finer_output(c: Cut, node: Node) -> Node | None:
    """The nearest output of a pass that a node depends on, following first operands."""
    written = {n.token for n, s in c.outputs if s.holds(n.dtype)}
    while node.inputs:
        node = node.inputs[0]
        if node.token in c.before:
            return None
        if node.token in written and not isinstance(node, SourceNode):
            return node
    return None


def _partitions(programs: Sequence[Program], limits: Limits) -> list[Partitioning]:
    """Partitions of passes that share slabs and windows."""
    if limits.slab is None:
        found = choose(programs, limits.budget, limits.concurrency)
        if limits.window is None:
            return found
        return fit(programs, found[0].grid.step, limits.window, limits.concurrency, limits.budget)
    shape = _asked_slab(programs, limits.slab)
    width = limits.window or preferred_window(programs, (shape[1], shape[2]))
    return fit(programs, shape, width, limits.concurrency, limits.budget)


def _asked_slab(programs: Sequence[Program], slab: Sequence[int]) -> Triple:
    """The user's slab, extended along axes where stages need the whole volume."""
    shape = programs[0].shape
    spans = {a for p in programs for a in p.spans}
    z, y, x = (
        max(1, n) if a in spans else s
        for a, (s, n) in enumerate(zip(slab_shape(slab, shape), shape, strict=True))
    )
    return (z, y, x)


def _check_units(groups: Sequence[Sequence[Program]], asked: Sequence[int]) -> None:
    """Refuse slabs that cut through a write unit of an output that covers its whole domain.

    Crops and levels are accepted: a slab writes all of their units that begin in it. Outputs that
    depend on answers are never crops: their voxels are only known inside their slab.
    """
    for axis in range(3):
        whole = [
            (o, o.unit[axis], _asked_slab(programs, asked)[axis], p.shape[axis])
            for programs in groups
            for p in programs
            for o in p.outputs
            if max(o.lattice.step) == 1 and o.lattice.shape[axis] == p.shape[axis]
        ]
        cut = next(((o, u, s) for o, u, s, n in whole if s % u and s < n), None)
        if cut is not None:
            output, unit, s = cut
            # Intermediates have chunks that divide the slabs.
            minimum = math.lcm(unit, *(u for o, u, *_ in whole if not o.sink.scratch))
            minimum = min(minimum, max(n for *_, n in whole))
            raise PlanRefused(
                f"slab {tuple(asked)}: {s} along {'zyx'[axis]} is not a multiple of {unit}, the write "
                f"unit of {output.sink.name}; use a multiple of {minimum}",
                candidates=_units_in_slabs(output, asked),
            )


def _units_in_slabs(output: Output, asked: Sequence[int]) -> list[Remedy]:
    """Slabs of whole write units, and units that divide the slabs."""
    sink, shape = output.sink, output.lattice.shape
    name = sink.name if sink.at is None or sink.name[-1] != "]" else sink.name.rpartition("[")[0]
    slab = slab_shape(asked, shape)
    larger = tuple(-(-s // u) * u for s, u in zip(slab, sink.unit, strict=True))
    found = [Remedy({"slab": larger[3 - len(asked) :]})]
    whole = [s >= n for s, n in zip(slab, shape, strict=True)]

    def divided(unit: Triple, by: Callable[[int, int], int]) -> tuple[int, ...]:
        """The unit, changed where slabs cut through it."""
        sizes = zip(unit, slab, whole, strict=True)
        return visible(sink, [u if w or s % u == 0 else by(u, s) for u, s, w in sizes])

    if sink.shard is None:
        return [*found, Remedy({"chunks": divided(sink.chunk, lambda _, s: s)}, name)]
    units = {"chunks": divided(sink.chunk, math.gcd), "shards": divided(sink.shard, math.gcd)}
    return [*found, Remedy({"shards": False}, name), Remedy(units, name)]


def _within(programs: Sequence[Program], limits: Limits) -> list[Partitioning]:
    """As `_partitions`, but refuse slabs and windows of the user that do not fit."""
    parts = _partitions(programs, limits)
    if not fits(parts, limits.budget, limits.concurrency):
        raise TooLarge(parts)
    return parts


def slab_shape(slab: Sequence[int], shape: Triple) -> Triple:
    """The user's slab along z, y and x, no larger than the volume."""
    numbers = list(slab)
    if len(numbers) == 2 and shape[0] == 1:
        numbers.insert(0, 1)
    if len(numbers) != 3:
        raise ValueError(f"slab {tuple(slab)} needs one number per axis z, y, x")
    z, y, x = (min(s, max(1, n)) for s, n in zip(numbers, shape, strict=True))
    return (z, y, x)


def cut_across(p: Pass, slab: Sequence[int] | None) -> bool:
    """Whether the user's slab divides planes."""
    return slab is not None and slab_shape(slab, p.program.shape)[1:] != p.program.shape[1:]


def _needed_values(c: Cut) -> tuple[Value, ...]:
    """The lazy scalars that a pass's stages and folds use."""
    values = {v.token: v for f in c.folds for v in f.parameters}
    values |= {v.token: v for b in c.barriers for v in b.parameters}
    for node in c.reached:
        if isinstance(node, StageNode) and node.token not in c.before:
            values.update((v.token, v) for v in node.parameters)
    return tuple(values.values())


def costed(
    index: int, program: Program, part: Partitioning, values: tuple[Value, ...], budget: int
) -> Pass:
    """Make a pass, with its I/O and the bytes that its surveys, or else its reductions, may keep."""
    reads = chunks_read(program, part.grid)
    units = units_written(program)
    part = part.grown(budget)
    if program.folds and not program.surveys and not part.has_answers:
        spare = max(0, budget - part.memory) // len(program.folds)
        folds = (replace(f, reduction=f.reduction.with_room(spare)) for f in program.folds)
        program = replace(program, folds=tuple(folds))
    return Pass(
        index,
        program,
        part,
        values,
        reads=tuple(reads),
        bytes_written=sum(size for _, size in units),
        units_written=sum(n for n, _ in units),
        limit_bytes=part.limit_bytes(budget),
        merge_limit_bytes=part.merge_limit_bytes(budget),
    )


def with_room_for_answers(passes: Sequence[Pass], budget: int) -> list[Pass]:
    """Let surveys find no more in a slab than later passes can take as answers.

    Results of a pass that takes answers itself get the memory that these leave.
    """
    room: dict[str, int] = {}
    for p in passes:
        tokens = p.program.barriers
        for token in tokens:
            own = p.partition.answer_limit_bytes(budget) // len(tokens)
            room[token] = min(own, room.get(token, own))
    found = []
    largest: dict[str, int] = {}  # the answers that surveys can lead to
    for p in passes:
        rooms = [
            int(room[b.token] / b.survey.answer_share) if b.token in room else p.limit_bytes
            for b in p.program.surveys
        ]
        answers = sum(largest.get(token, 0) for token in p.program.barriers)
        left = p.limit_bytes - max(0, answers - p.partition.answer_bytes)
        limit = max(p.partition.reserved, min(left, sum(rooms)))
        for b in p.program.surveys:
            if b.token in room:
                largest[b.token] = min(room[b.token], int(limit * b.survey.answer_share))
        found.append(replace(p, limit_bytes=limit) if rooms else p)
    return found


def without_device(p: Pass, budget: int, concurrency: Concurrency) -> Pass | None:
    """A pass with the same slabs and all stages on the host; None if ``budget`` bytes do not suffice.

    Its windows are smaller if necessary, except with surveys and completions, which share windows.
    """
    program, window = on_host(p.program), p.partition.window
    while True:
        (part,) = fit([program], p.grid.step, window, concurrency, budget)
        if part.memory <= budget:
            limit = min(p.limit_bytes, part.limit_bytes(budget))
            return replace(p, program=program, partition=part, limit_bytes=limit)
        if window == 1 or program.surveys or program.barriers:
            return None
        window //= 2


def refuse_device(passes: Sequence[Pass], concurrency: Concurrency) -> None:
    """Raise an error that names the smallest slab, its largest part, and a device memory that works."""
    part = max((p.partition for p in passes), key=lambda part: part.device_memory)
    item = max((i for i in part.parts if i.place == DEVICE), key=lambda i: i.bytes)
    need = concurrency.workers * part.device_memory
    slab = " x ".join(map(str, part.grid.step))
    raise MemoryTooSmall(
        f"device_memory {format_bytes(concurrency.device_memory)} is too small for "
        f"{counted(concurrency.workers, 'slab')} in flight: the smallest slab, {slab}, takes "
        f"{format_bytes(part.device_memory)}. Its largest part is {item.name} with "
        f"{format_bytes(item.bytes)}. A device_memory of {need} bytes ({format_bytes(need)}) works",
        Remedy({"device_memory": need}),
        candidates=[Remedy({"device": "cpu"})],
    )


class MemoryTooSmall(PlanRefused):
    """No slabs fit the memory; the message names the smallest memory that works."""


def refuse(part: Partitioning, total: int, base: int, concurrency: Concurrency) -> None:
    """Raise an error that names the largest part and the smallest memory that works."""
    need = memory.of_machine(base, part.memory, concurrency)
    raise MemoryTooSmall(
        f"memory {format_bytes(total)} is too small for "
        f"{counted(concurrency.processes, 'process')} of {format_bytes(base)} without voxels and "
        f"{counted(concurrency.workers, 'slab')} in flight of "
        f"at least {format_bytes(part.memory)}. Its largest part is {part.largest.name} with "
        f"{format_bytes(part.largest.bytes)}. "
        f"The smallest memory that works is {need} bytes ({format_bytes(need)})",
        Remedy({"memory": need}),
    )
