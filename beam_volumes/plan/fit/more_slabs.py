"""Have more slabs in flight than the default if cores would be idle."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.graph.nodes import Value
from beam_volumes.plan.cost.concurrency import Concurrency, more_workers
from beam_volumes.plan.cost.memory import left_for_slab
from beam_volumes.plan.fit.fitting import costed, with_room_for_answers
from beam_volumes.plan.fit.partitioning import Partitioning, fit
from beam_volumes.plan.fit.planned_pass import Pass, serial_share

#: With more slabs, each must still have room for this many times the expected results of surveys.
_ROOM = 8


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


def with_more_slabs(
    found: Fit, total: int, base: int, processes: int | None, threads: int | None
) -> Fit:
    """Have more slabs in flight until the cores are busy, with the same slabs and windows."""
    # Smaller slabs would have more to merge than idle cores are worth. Room to read ahead is kept.
    #
    # ``total``, ``base``: bytes of the machine, and of a process without voxels.
    # ``processes``, ``threads``: None is a process for each slab in flight, and all cores.
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
