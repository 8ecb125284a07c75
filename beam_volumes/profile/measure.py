"""Measure time and memory of a plan's run by activity, and predict them for another plan."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import dataclass, replace

from beam_volumes.base.geometry import Box
from beam_volumes.plan.cost.machine import peak_memory
from beam_volumes.plan.fit.planned_pass import Pass, swept
from beam_volumes.plan.plan import Plan
from beam_volumes.session.local import run_local
from beam_volumes.session.session import Session
from beam_volumes.sweep.activity import Activity, Meter

#: Kinds of activities.
READING, COMPUTING, WRITING = ("read",), ("stage", "fold", "survey", "pad"), ("check", "write")


@dataclass(frozen=True)
class Item:
    """The time of an activity of a pass while nothing else ran."""

    #: Index of the pass.
    index: int
    activity: Activity
    #: Wall seconds, and CPU seconds of all cores.
    wall: float
    cpu: float


@dataclass(frozen=True)
class Measured:
    """Time and memory of a run."""

    plan: Plan
    #: In the order of their start.
    items: tuple[Item, ...]
    #: CPU seconds of the run that measured ``items``, including all other work.
    cpu: float
    #: Wall and CPU seconds of a run as planned.
    seconds: float
    busy: float
    #: For ``"read"`` and ``"write"``: the share of time that sweeps waited for it in that run.
    waits: dict[str, float]
    #: Peak memory of the process, in bytes.
    peak_memory: int

    @property
    def voxels(self) -> int:
        """Number of voxels of all passes."""
        return sum(p.voxels for p in self.plan.passes)

    @property
    def rest(self) -> float:
        """CPU seconds outside of items, such as merging and bookkeeping."""
        return max(0.0, self.cpu - sum(item.cpu for item in self.items))

    def share(self, *kinds: str, index: int | None = None) -> float:
        """The share of CPU seconds of some kinds of activities, optionally of one pass."""
        found = (i for i in self.items if i.activity.kind in kinds and index in (None, i.index))
        return sum(i.cpu for i in found) / self.whole

    @property
    def whole(self) -> float:
        """Total CPU seconds."""
        return sum(item.cpu for item in self.items) + self.rest


def measure(plan: Plan) -> Measured:
    """Run a plan in this process without a journal: as planned, and then one activity at a time.

    This replaces its outputs twice. The caller removes the intermediates of the run.
    """
    meters, seconds, busy = timed(plan)
    total = sum(s.wall for m in meters for s in m.spent.values())
    waits = {
        kind: sum(s.wall for m in meters for a, s in m.spent.items() if a.kind == kind)
        / (total or 1)
        for kind in ("read", "write")
    }
    meters, _, cpu = timed(replace(plan, workers=1), unoverlapped=True)
    items = tuple(
        Item(index, activity, spent.wall, spent.cpu)
        for index, meter in enumerate(meters)
        for activity, spent in meter.spent.items()
    )
    return Measured(plan, items, cpu, seconds, busy, waits, peak_memory())


def timed(plan: Plan, unoverlapped: bool = False) -> tuple[tuple[Meter, ...], float, float]:
    """Run a plan; return a meter for each pass, wall seconds and CPU seconds."""
    meters = tuple(Meter(unoverlapped) for _ in plan.passes)
    session = Session(plan, uuid.uuid4().hex, None, overwrite=True, meters=meters)
    wall, cpu = time.perf_counter(), time.process_time()
    run_local(session)
    return meters, time.perf_counter() - wall, time.process_time() - cpu


def needed(p: Pass) -> list[int]:
    """For each step of a pass, count the voxels that are needed, each once."""
    whole = Box.of_shape(p.grid.shape).ranges
    regions = [p.program.regions(axis, whole) for axis in range(3)]
    return [math.prod(b - a for a, b in step) for step in zip(*regions, strict=True)]


def foreseen(measured: Measured, plan: Plan) -> Measured | None:
    """Predict the times of another plan with the same steps; None if their passes differ."""
    # Stages are scaled by the voxels they compute, including halos, reading by the chunks read, and the rest
    # by voxels.
    pairs = list(zip(measured.plan.passes, plan.passes, strict=False))
    count = len(measured.plan.passes)
    if count != len(plan.passes) or any(_steps(p) != _steps(q) for p, q in pairs):
        return None
    work = [(_work(p), _work(q)) for p, q in pairs]
    larger = sum(q.voxels for _, q in pairs) / max(1, measured.voxels)
    items = []
    for item in measured.items:
        own, other = work[item.index]
        kind, i = item.activity.kind, item.activity.index
        if kind not in own:
            kind, i = "voxels", 0
        ratio = other[kind][i] / own[kind][i] if own[kind][i] else larger
        items.append(replace(item, wall=item.wall * ratio, cpu=item.cpu * ratio))
    before = sum(item.wall for item in measured.items)
    ratio = sum(item.wall for item in items) / before if before else larger
    return replace(
        measured,
        plan=plan,
        items=tuple(items),
        cpu=sum(item.cpu for item in items) + larger * measured.rest,
        seconds=ratio * measured.seconds,
        busy=ratio * measured.busy,
    )


def _steps(p: Pass) -> list[str]:
    return [step.name if step.source is None else "" for step in p.program.steps]


def _work(p: Pass) -> dict[str, list[int]]:
    """The amount of work by kind of activity."""
    voxels = swept(p)
    reads = [0] * len(p.program.steps)
    for together, read in zip(p.program.decoded, p.reads, strict=True):
        reads[together[0]] = read.bytes
    return {"read": reads, "stage": voxels, "voxels": [p.voxels]}
