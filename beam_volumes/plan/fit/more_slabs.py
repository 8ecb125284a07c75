"""More slabs in flight than by default, where those would leave cores idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.graph.nodes import Value
from beam_volumes.plan.cost.concurrency import Concurrency, larger_crews
from beam_volumes.plan.cost.memory import left_for_slab
from beam_volumes.plan.fit.fitting import costed
from beam_volumes.plan.fit.partitioning import Partitioning, fit
from beam_volumes.plan.fit.planned_pass import Pass, serial_share

#: More slabs leave each so many times what surveys are reckoned to find; voxels decide what they do.
_ROOM = 8


@dataclass(frozen=True)
class Fit:
    """The passes of a plan as they fit a crew."""

    concurrency: Concurrency
    budget: int  #: Bytes that each slab in flight may take.
    passes: list[Pass]
    used: list[Value]  #: The lazy numbers that the passes take.
    smallest: Partitioning  #: The largest of the passes' smallest partitions.
    reasons: list[str]
    intermediates: tuple[Any, ...]  #: What is stored for the run alone.

    @property
    def is_within_budget(self) -> bool:
        return all(p.slab_memory <= self.budget for p in self.passes)


def with_more_slabs(
    found: Fit, total: int, base: int, processes: int | None, threads: int | None
) -> Fit:
    """Have as many of a plan's slabs in flight as keep the cores busy.

    Slabs and windows stay, for smaller ones have more to merge than idle cores are worth; nor is room to
    read ahead given up.

    ``total``, ``base``: bytes of the machine, and of a process before any voxel.
    ``processes``, ``threads``: as asked for: None is a process for each slab in flight, and all cores.
    """
    serial = serial_share(found.passes)
    across = (p for p in found.passes if p.program.surveys or p.program.barriers)
    maximum = max((len(p.grid) for p in across), default=1)
    for concurrency in larger_crews(serial, processes, threads, maximum):
        budget = left_for_slab(total, base, concurrency)
        passes = [_with_crew(p, concurrency, budget) for p in found.passes]
        more = replace(found, concurrency=concurrency, budget=budget, passes=passes)
        if more.is_within_budget and all(map(_is_as_good, passes, found.passes)):
            why = (
                f"{concurrency.workers} slabs in flight: one thread does about {serial:.0%} of a slab's work "
                "alone, and fewer slabs would leave cores idle"
            )
            return replace(more, reasons=[*found.reasons, why])
    return found


def _with_crew(p: Pass, concurrency: Concurrency, budget: int) -> Pass:
    (part,) = fit([p.program], p.grid.step, p.partition.window, concurrency, budget)
    return costed(p.index, p.program, part, p.values, budget)


def _is_as_good(new: Pass, old: Pass) -> bool:
    """Whether a pass reads ahead as it did, and has room for what surveys may find."""
    has_room = new.limit_bytes >= new.partition.room(_ROOM)
    return has_room and new.partition.overlap == old.partition.overlap
