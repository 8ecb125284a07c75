"""More slabs in flight than by default, where one would leave cores idle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.graph.nodes import Value
from beam_volumes.plan.crew import Crew, larger_crews
from beam_volumes.plan.partitioning import WINDOW_VOXELS, Partitioning
from beam_volumes.plan.planned_pass import Pass
from beam_volumes.plan.work import computing, moving, serial_share
from beam_volumes.text import counted


@dataclass(frozen=True)
class Fit:
    """The passes of a plan as they fit a crew.

    Attributes
    ----------
    crew : Crew
    budget : int
        Bytes that each slab in flight may take.
    passes : list of Pass
    used : list of Value
        The lazy numbers that the passes take.
    smallest : Partitioning
        The largest of the passes' smallest partitions.
    reasons : list of str
    intermediates : tuple of sinks
        What is stored for the run alone.
    """

    crew: Crew
    budget: int
    passes: list[Pass]
    used: list[Value]
    smallest: Partitioning
    reasons: list[str]
    intermediates: tuple[Any, ...]

    @property
    def is_within_budget(self) -> bool:
        return all(p.slab_memory <= self.budget for p in self.passes)

    def seconds(self, serial: float) -> float:
        """About how long it takes, where one thread does a share of a slab's work alone."""
        computed = computing(self.passes) / self.crew.busy(serial)
        moved = moving(self.passes) / (self.crew.processes * self.crew.threads)
        return (computed + moved) / 1e9

    def beats(self, other: Fit, serial: float) -> bool:
        """Whether it can be had, in windows no narrower, and takes less time."""
        if not self.is_within_budget or len(self.passes) != len(other.passes):
            return False
        windows = zip(self.passes, other.passes, strict=True)
        return (
            max(len(p.grid) for p in self.passes) >= self.crew.workers
            and all(own.partition.window >= its.partition.window for own, its in windows)
            and self.seconds(serial) < other.seconds(serial)
        )


def busier(
    fit: Fit, fit_to: Callable[[Crew], Fit], processes: int | None, threads: int | None
) -> Fit:
    """The plan for as many slabs in flight as keep the cores busy, if they cost no more than fewer.

    Parameters
    ----------
    fit : Fit
        For as many as there are by default.
    fit_to : callable
        Gives that for another crew.
    processes, threads : int, optional
        As asked for: None is a process for each slab in flight, and all cores.
    """
    serial = serial_share(fit.passes)
    most = max((p.voxels for p in fit.passes), default=0) // WINDOW_VOXELS
    crews = list(larger_crews(serial, processes, threads, most))
    alone = f"one thread does about {serial:.0%} of a slab's work alone"
    for crew in crews:
        other = fit_to(crew)
        if other.beats(fit, serial):
            why = f"{crew.workers} slabs in flight: {alone}, and one slab would leave cores idle"
            return replace(other, reasons=[*other.reasons, why])
    if not crews:
        return fit
    why = (
        f"{counted(fit.crew.workers, 'slab')} in flight: {alone}, but more slabs would gain nothing, or have "
        "no room in memory"
    )
    return replace(fit, reasons=[*fit.reasons, why])
