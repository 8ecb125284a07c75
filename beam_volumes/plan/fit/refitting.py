"""Fit passes again if that is better: with more slabs in flight, or sources stored in other chunks first.

More slabs than the default are in flight if cores would be idle.

A source is first stored in other chunks if slabs would read its chunks many times. Slabs consist of whole
write units. If they also consist of whole chunks, each chunk is read once. If both together do not fit the
memory, for example for columns of voxels that become planes, the source is first stored in chunks between
the two. Each of two sweeps then moves it once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import SourceNode, Value
from beam_volumes.plan.cost.concurrency import Concurrency, more_workers
from beam_volumes.plan.cost.memory import left_for_slab
from beam_volumes.plan.fit.fitting import costed, with_room_for_answers
from beam_volumes.plan.fit.partitioning import Partitioning, fit, write_grid
from beam_volumes.plan.fit.planned_pass import Pass, serial_share
from beam_volumes.storage.sources.chunking import no_larger
from beam_volumes.storage.sources.source import Source

#: With more slabs, each must still have room for this many times the expected results of surveys.
_ROOM = 8
#: A source that is read this many times is considered; two stages must move this factor less.
_TIMES, _LESS = 2.0, 1.5
#: With at most this amplification, no further chunks are tried.
_GOOD_ENOUGH = 1.1
#: Minimum and maximum bytes of a chunk between two stages.
_MINIMUM, _MAXIMUM = 1 << 18, 32 << 20
#: Number of the best candidates that are planned.
_TRIED = 4


@dataclass(frozen=True)
class Fit:
    """The passes of a plan that fit a concurrency."""

    concurrency: Concurrency
    budget: int  #: Bytes for each slab in flight.
    passes: list[Pass]
    used: list[Value]  #: Lazy numbers that the passes use.
    smallest: Partitioning  #: The largest of the passes' smallest partitions.
    reasons: list[str]
    intermediates: tuple[Any, ...]  #: Outputs that the run stores for itself.

    @property
    def fits(self) -> bool:
        return self.is_within_budget and self.is_within_device

    @property
    def is_within_budget(self) -> bool:
        return all(p.slab_memory <= self.budget for p in self.passes)

    @property
    def is_within_device(self) -> bool:
        share = self.concurrency.device_share
        return all(p.partition.device_memory <= share for p in self.passes)


#: Plans the passes again, given the chunks of sources to store first, by token.
Refit = Callable[[Mapping[str, Triple]], Fit]


def with_more_slabs(
    found: Fit, total: int, base: int, processes: int | None, threads: int | None
) -> Fit:
    """Have more slabs in flight until the cores are busy, with the same slabs and windows.

    ``total``, ``base``: bytes of the machine, and of a process without voxels.
    """
    # Smaller slabs would have more to merge than idle cores are worth. Room to read ahead is kept.
    # ``processes`` None is a process for each slab in flight, and ``threads`` None all cores.
    serial = serial_share(found.passes)
    across = (p for p in found.passes if p.program.surveys or p.program.barriers)
    maximum = max((len(p.grid) for p in across), default=1)
    for more_slabs in more_workers(serial, processes, threads, maximum):
        concurrency = replace(more_slabs, device_memory=found.concurrency.device_memory)
        budget = left_for_slab(total, base, concurrency)
        parts = (_with_concurrency(p, concurrency, budget) for p in found.passes)
        passes = with_room_for_answers([*parts], budget)
        more = replace(found, concurrency=concurrency, budget=budget, passes=passes)
        if more.fits and all(map(_is_as_good, passes, found.passes)):
            why = (
                f"{concurrency.workers} slabs in flight: one thread does about {serial:.0%} of a "
                "slab's work, and fewer slabs would leave cores idle"
            )
            return replace(more, reasons=[*found.reasons, why])
    return found


def _with_concurrency(p: Pass, concurrency: Concurrency, budget: int) -> Pass:
    (part,) = fit([p.program], p.grid.step, p.partition.window, concurrency, budget)
    return costed(p.index, p.program, part, p.values, budget)


def _is_as_good(new: Pass, old: Pass) -> bool:
    """Whether a pass still reads ahead, and has room for the results of surveys and their merges."""
    has_room = (
        new.limit_bytes >= new.partition.room(_ROOM)
        and new.partition.merge_memory >= old.partition.merge_memory
    )
    return has_room and new.partition.overlap == old.partition.overlap


def in_two_stages(found: Fit, refit: Refit) -> Fit:
    """The passes of a plan, with sources stored in other chunks first if that moves less."""
    chosen: dict[str, Triple] = {}
    for alike, unit in _read_often(found):
        source = alike[0]
        tokens = [SourceNode.of(s).token for s in alike]
        best: Fit | None = None
        chunks: dict[str, Triple] = {}
        for chunk in between(source.shape, source.dtype.itemsize, source.chunk, unit, found.budget):
            asked = {**chosen, **dict.fromkeys(tokens, chunk)}
            again = refit(asked)
            if again.is_within_budget and (best is None or _moved(again) < _moved(best)):
                best, chunks = again, asked
                if all(p.read_amplification < _GOOD_ENOUGH for p in again.passes):
                    break
        if best is not None and (
            not found.is_within_budget or _LESS * _moved(best) <= _moved(found)
        ):
            minimum = min(found.smallest, best.smallest, key=lambda part: part.memory)
            found, chosen = replace(best, smallest=minimum), chunks
    return found


def _read_often(planned: Fit) -> list[tuple[list[Source], Triple]]:
    """Sources that passes read many times, with the write units of the passes.

    Sources with the same shape and chunks, such as the channels of a volume, are grouped.
    """
    written = {o.sink.name for p in planned.passes for o in p.program.outputs}
    found: dict[tuple[Triple, Triple, Triple], dict[str, Source]] = {}
    for p in planned.passes:
        read = {r.name: r for r in p.reads}
        for step in p.program.steps:
            source = step.source
            if (
                source is None
                or source.in_memory
                or source.name in written
                or not p.program.outputs
            ):
                continue
            r = read.get(source.name)
            if r is None:  # a channel that is decoded with another
                continue
            if r.bytes > _TIMES * r.bytes_needed and r.bytes - r.bytes_needed > 2 * source.nbytes:
                unit = write_grid([p.program])
                alike = found.setdefault((source.shape, source.chunk, unit), {})
                alike[source.token()] = source
    return [(list(alike.values()), unit) for (_, _, unit), alike in found.items()]


def _moved(planned: Fit) -> int:
    return sum(p.bytes_read + p.bytes_written for p in planned.passes)


def between(shape: Triple, itemsize: int, chunk: Triple, unit: Triple, budget: int) -> list[Triple]:
    """Chunks in which to store a source between two sweeps, the best first.

    The first sweep needs memory for whole source chunks and whole new chunks, the second for whole
    new chunks and whole write units. Of those that fit, the largest chunks need the fewest files.

    ``shape``, ``itemsize``, ``chunk``: of the source.

    >>> between((4096, 8192, 8192), 1, (4096, 64, 64), (1, 8192, 8192), 1 << 30)[0]
    (4, 64, 1024)
    """
    first, last = no_larger(chunk, shape), no_larger(unit, shape)
    maximum = max(_MINIMUM, min(_MAXIMUM, budget // 16))
    minimum = min(_MINIMUM, math.prod(shape) * itemsize)

    def cost(c: Triple) -> tuple[int, int]:
        needed = max(_both(first, c), _both(c, last)) * itemsize
        # All sweeps that fit move the same number of bytes.
        return (max(needed, budget // 2).bit_length(), -math.prod(c))

    able = [
        (z, y, x)
        for z, y, x in product(*map(_ladder, first, last))
        if minimum <= z * y * x * itemsize <= maximum
    ]
    return sorted(able, key=cost)[:_TRIED]


def _both(a: Triple, b: Triple) -> int:
    """Approximate voxels of the smallest box of whole chunks of both kinds."""
    return math.prod(map(max, a, b))


def _ladder(a: int, b: int) -> list[int]:
    """From one extent to another in factors of four."""
    low, high = min(a, b), max(a, b)
    found = [low]
    while found[-1] * 4 < high:
        found.append(found[-1] * 4)
    return [*found, high] if high > low else found
