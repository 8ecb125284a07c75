"""Volumes of many time points: each point is a run by itself, and a slab of the run of all.

One point is planned. The run has one pass with a slab for each point: a worker runs all passes of
the point, and records the outputs and results. Points are therefore distributed, retried and
resumed like slabs, in any number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Grid, Lattice
from beam_volumes.graph.nodes import FoundValue, Value, times_below, values_below
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.traversal import Item, holds_voxels
from beam_volumes.graph.volume import Target
from beam_volumes.plan.fit.partitioning import Partitioning
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.sources.source import Source, ViewReader
from beam_volumes.sweep.program import Edge, FoldEdge, Output, Program
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.schedule import OVERLAPS


def times_of(targets: Sequence[Any]) -> int:
    """The number of time points of targets; 0 if they have no such axis."""
    # Numbers that depend on no voxels, only on numbers of all points, can be combined with any
    # target.
    #
    # Raises ValueError: targets have different numbers of points.
    found: dict[int, Any] = {}
    for t in targets:
        roots = roots_of(t)
        if not isinstance(t, Scalar) or holds_voxels(roots):
            found.setdefault(times_below(roots), t)
    if len(found) > 1:
        (n, one), (m, other), *_ = found.items()
        raise ValueError(
            f"{one!r} has {n or 'no'} time points, but {other!r} has {m or 'none'}; compute them "
            "one after the other"
        )
    return next(iter(found), 0)


def roots_of(target: Any) -> tuple[Item, ...]:
    """The nodes, values or barriers that a target is computed from."""
    if isinstance(target, Scalar):
        return (target.value,)
    if isinstance(target, Table | TableTarget):
        return ((target if isinstance(target, Table) else target.table).barrier,)
    if isinstance(target, Target):
        return tuple(node for volume, _ in target.written for node in volume.nodes)
    return tuple(target.nodes)


@dataclass(frozen=True, eq=False)
class PerPoint(Reduction):
    """The results of all time points, by the number of the point."""

    def zero(self) -> dict[int, Any]:
        return {}

    def merge(self, a: dict[int, Any], b: dict[int, Any]) -> dict[int, Any]:
        return a | b

    def finish(self, state: dict[int, Any], values: tuple[Any, ...]) -> np.ndarray:
        return np.array([state[k] for k in range(self.shape[0])], self.dtype).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class PointsPass(Pass):
    """A pass that has time points as slabs, each computed by the plan ``point``."""

    @property
    def times(self) -> int:
        return self.program.shape[0]

    @property
    def of_all_points(self) -> tuple[str, ...]:
        folds = (f.reduction for f in self.program.folds)
        return tuple(dict.fromkeys(r.name for r in folds if not isinstance(r, PerPoint)))

    @property
    def chunks_read(self) -> int:
        return self.times * sum(p.chunks_read for p in self.point.passes)

    @property
    def bytes_read(self) -> int:
        return self.times * int(self.point.bytes_read)

    @property
    def bytes_needed(self) -> int:
        return self.times * sum(p.bytes_needed for p in self.point.passes)

    @property
    def voxels(self) -> int:
        return self.times * sum(p.voxels for p in self.point.passes)

    def to_dict(self) -> dict[str, Any]:
        numbers = super().to_dict()
        return {**numbers, "points": self.times, "point": self.point.to_dict()}


def rows_token(barrier: str) -> str:
    """The token of the number of shards of a table that each point has written."""
    return f"{barrier} shards"


def of_points(point: Plan, times: int, before: Collection[str] = ()) -> Plan:
    """Return the plan of many time points, made from the plan of one.

    Its outputs, tables and results cover all points. Numbers that only depend on numbers known
    ``before`` (tokens) are not computed for each point.
    """
    mine = [s for s in point.results if isinstance(s, Sink)]
    values = [v for v in point.results if isinstance(v, Value) and found_here(v, before)]
    points = Lattice((times, 1, 1))
    folds = [
        FoldEdge(v.token, PerPoint(v.name, v.dtype, (times, *v.shape)), (), points) for v in values
    ]
    folds += [
        FoldEdge(rows_token(token), PerPoint("shards", np.dtype(np.int64), (times,)), (), points)
        for token in point.tables
    ]
    program = Program(
        (times, 1, 1), (), tuple(Output(Edge(0), s, points) for s in mine), tuple(folds)
    )
    maximum = max(point.passes, key=lambda p: p.slab_memory, default=None)
    grid = Grid((times, 1, 1), (1, 1, 1))
    partition = Partitioning(grid, 1, OVERLAPS[0], ())
    if maximum is not None:
        own = maximum.partition
        partition = replace(partition, parts=own.parts, merge=own.merge)
    whole = PointsPass(
        index=0,
        program=program,
        partition=partition,
        values=(),
        reads=(),
        bytes_written=times * point.bytes_written,
        units_written=times * sum(p.units_written for p in point.passes),
    )
    kept = tuple(s for s in point.intermediates if any(s is r for r in point.results))
    between = tuple(s for s in point.intermediates if s not in kept)
    whole = replace(
        whole, point=replace(point, workers=1, processes=1, intermediates=between, tables={})
    )
    return replace(point, passes=(whole,), intermediates=kept, slab=None, window=None, planner=None)


def found_here(value: Value, before: Collection[str]) -> bool:
    """Whether a value depends on a number that is not known before."""
    return any(isinstance(v, FoundValue) and v.token not in before for v in values_below([value]))


def at_point(point: Plan, k: int, of: Callable[[Sink], Sink]) -> Plan:
    """Return the plan of point ``k``; ``of`` maps an output to the part of this point."""
    # Outputs of earlier passes of the same point that are read back.
    written = {
        part.read_back().reader.token(): part
        for p in point.passes
        for part in (o.sink for o in p.program.outputs)
        if part.space.times and part.at is not None and part.samples == 1
    }

    def source(s: Source) -> Source:
        if isinstance(s.reader, ViewReader):
            return replace(s, reader=replace(s.reader, source=source(s.reader.source)))
        part = written.get(s.reader.token())
        if part is not None:
            now = of(part).read_back()
            return replace(s, name=now.name, reader=now.reader)
        return s.point("t", k) if "t" in s.space.leading else s

    def sink(s: Sink) -> Sink:
        return of(s) if s.space.times and s.at is not None else s

    def moved(p: Pass) -> Pass:
        steps = tuple(
            s if s.source is None else replace(s, source=source(s.source)) for s in p.program.steps
        )
        outputs = tuple(replace(o, sink=sink(o.sink)) for o in p.program.outputs)
        return replace(p, program=replace(p.program, steps=steps, outputs=outputs))

    return replace(point, passes=tuple(map(moved, point.passes)))
