"""Numbers of all time points: the states of the points are merged before the number is finished.

They are computed in passes of their own, before the passes that use them. Such a pass has a slab
for each time point. A point returns the states of its reductions, which are merged like the
states of slabs, so memory does not grow with the number of points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.base.geometry import Lattice
from beam_volumes.graph.nodes import (
    FoldValue,
    FoundValue,
    times_below,
    with_sources,
    without_voxels,
)
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.traversal import numbers_across
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import roots_of
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.sweep.program import FoldEdge
from beam_volumes.sweep.reduction import Reduction, Slices
from beam_volumes.sweep.stage import digest

#: Numbers that earlier passes compute, by token.
Before = Mapping[str, FoundValue]
#: Plans targets, given the numbers of earlier passes.
Planner = Callable[[Sequence[Any], RunOptions, Before], Plan]


@dataclass(frozen=True, eq=False)
class Unfinished(Reduction):
    """A reduction of one time point that returns its state, to be merged with other points."""

    whole: Reduction

    @classmethod
    def of(cls, whole: Reduction) -> Unfinished:
        return cls(whole.name, whole.dtype, whole.shape, whole)

    @property
    def cost(self) -> float:
        return self.whole.cost

    @property
    def state_bytes(self) -> int:
        return self.whole.state_bytes

    def peak_bytes(self, threads: int) -> int:
        return self.whole.peak_bytes(threads)

    def with_room(self, spare_bytes: int) -> Unfinished:
        return replace(self, whole=self.whole.with_room(spare_bytes))

    def zero(self) -> Any:
        return self.whole.zero()

    @property
    def joins_slices(self) -> bool:
        return self.whole.joins_slices

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Any:
        return self.whole.fold_slices(slices, values)

    def pieces(self, state: Any) -> Iterable[tuple[int, Any]]:
        return self.whole.pieces(state)

    def put_together(self, pieces: Mapping[int, Any]) -> Any:
        return self.whole.put_together(pieces)

    def merge(self, a: Any, b: Any) -> Any:
        return self.whole.merge(a, b)

    def finish(self, state: Any, values: tuple[Any, ...]) -> Any:
        return state

    def token(self) -> str:
        return digest("unfinished", self.whole.token())


def with_known(items: Iterable[Any], before: Before) -> tuple[Any, ...]:
    """Nodes, values or barriers with known numbers replaced by the results of earlier passes."""
    return with_sources(items, lambda source: source, before) if before else tuple(items)


def plan_across(targets: Sequence[Any], options: RunOptions, planner: Planner) -> Plan:
    """Plan targets, preceded by the numbers of all points that they depend on."""
    found = numbers_across(root for t in targets for root in roots_of(t))
    if not found:
        return planner(targets, options, {})
    rounds, asked = _rounds(found), options.workers
    while True:
        plans, before = [], dict[str, FoundValue]()
        for folds in rounds:
            plans.append(_round(folds, options, planner, before))
            before |= {f.token: v for f, v in zip(folds, without_voxels(folds), strict=True)}  # type: ignore[misc]
        plans.append(planner(targets, options, before))
        workers = [p.workers for p in plans if p.passes]
        if len({*workers}) < 2:
            made = _one_plan(plans, found)
            return replace(made, workers_asked=asked)
        options = replace(options, workers=min(workers))


def _rounds(found: Sequence[FoldValue]) -> list[list[FoldValue]]:
    """Group numbers by pass: the same number of points, and the same depth of dependencies."""
    depth = _depths(found)
    rounds: dict[tuple[int, int], list[FoldValue]] = {}
    for fold in found:
        times = times_below([*fold.nodes, *fold.parameters])
        rounds.setdefault((depth[fold.token], times), []).append(fold)
    return [rounds[key] for key in sorted(rounds)]


def _depths(found: Sequence[FoldValue]) -> dict[str, int]:
    """By token, the number of passes across points until a number is known."""
    depth: dict[str, int] = {}
    for fold in found:
        inner = numbers_across([*fold.nodes, *fold.parameters])
        depth[fold.token] = max((depth[f.token] for f in inner), default=0) + 1
    return depth


def _round(
    folds: Sequence[FoldValue], options: RunOptions, planner: Planner, before: Before
) -> Plan:
    """Plan the pass that computes some numbers of all points."""
    states = [FoldValue.of(Unfinished.of(f.reduction), f.fed, f.parameters) for f in folds]
    plan = planner([Scalar(v) for v in states], options, before)
    (whole,) = plan.passes
    points = Lattice(whole.program.shape)
    edges = tuple(
        FoldEdge(f.token, f.reduction, (), points, tuple(v.token for v in f.parameters))
        for f in folds
    )
    own = without_voxels(v for f in folds for v in f.parameters)
    values = (*before.values(), *own)
    taken = tuple({v.token: v for v in values}.values())
    program = replace(whole.program, folds=edges)
    return replace(plan, passes=(replace(whole, program=program, values=taken),))


def _one_plan(plans: Sequence[Plan], found: Sequence[FoldValue]) -> Plan:
    """Join several plans that run one after the other."""
    last = plans[-1]
    passes = [p for plan in plans for p in plan.passes]
    places = [plan.scratch_place for plan in plans if plan.scratch_place is not None]
    inner = {v.token for f in found for v in f.parameters}
    depth = _depths(found)
    sweeps = {f.name: depth[f.token] for f in found if f.token not in inner}
    fingerprint: dict[str, str] = {}
    for k, plan in enumerate(plans[:-1]):
        fingerprint |= {f"across points {k + 1}, {name}": t for name, t in plan.fingerprint.items()}
    return replace(
        last,
        passes=tuple(replace(p, index=k) for k, p in enumerate(passes)),
        base=max(p.base for p in plans),
        kernels=max((p.kernels for p in plans), key=len),
        smallest_memory=max(p.smallest_memory for p in plans),
        reasons=tuple(dict.fromkeys(reason for p in plans for reason in p.reasons)),
        scratch_place=places[-1] if places else None,
        sweeps=sweeps | last.sweeps,
        fingerprint=last.fingerprint | fingerprint,
        planner=None,
    )
