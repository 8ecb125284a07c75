"""A program: the steps of one sweep, and where in each of them a box of the result comes from.

A program is a graph of steps in topological order. Each step yields one array; each edge between two
steps has an offset (of a crop), a halo and a padding. All questions are asked per axis, because boxes
are products: which range of each step does a range of the output need (`regions`), what does its ring
buffer have to hold along y and x (`extents`). Along z, `schedule` moves a window through the slab.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.geometry import NO_HALO, Halo, Triple, source_range
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.source import Source
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Padding, Regrid, Stage
from beam_volumes.sweep.survey import Completion, Survey

Range = tuple[int, int]

REFLECTED = Padding()


@dataclass(frozen=True)
class Edge:
    """One use of a step's array: voxel v of the user reads around voxel ``v + offset`` of ``step``.

    A user with a grid of its own (``regrid``) says itself which voxels it reads, before the offset.
    """

    step: int
    offset: Triple = (0, 0, 0)
    halo: Halo = NO_HALO
    padding: Padding = REFLECTED
    regrid: Regrid | None = None

    def needs(self, axis: int, wanted: Range, size: int) -> Range:
        """What a range of the user needs of the step along an axis."""
        if self.regrid is not None:
            wanted = self.regrid.needs(axis, wanted)
        a, b = wanted[0] + self.offset[axis], wanted[1] + self.offset[axis]
        before, after = self.halo[axis]
        if before <= a and b + after <= size:
            return a - before, b + after
        return source_range(a, b, (before, after), size, self.padding.modes[axis])


@dataclass(frozen=True, eq=False)
class Step:
    """One array of a sweep.

    It is read from ``source``, or computed from other steps by ``stage``, or by ``completion`` with the
    slab's answer from ``barrier``.
    """

    name: str
    shape: Triple
    dtype: np.dtype
    source: Source | None = None
    stage: Stage | None = None
    edges: tuple[Edge, ...] = ()
    values: tuple[str, ...] = ()
    completion: Completion | None = None
    barrier: str = ""


@dataclass(frozen=True, eq=False)
class Output:
    """A step written to a sink; the sink's voxel v is the step's ``v + edge.offset``."""

    edge: Edge
    sink: Sink


@dataclass(frozen=True, eq=False)
class FoldEdge:
    """A reduction of a step (where another is true); its result is known under ``token``.

    ``others`` are further steps that it takes the voxels of.
    """

    token: str
    reduction: Reduction
    voxels: Edge
    mask: Edge | None = None
    values: tuple[str, ...] = ()
    others: tuple[Edge, ...] = ()


@dataclass(frozen=True, eq=False)
class Surveyed:
    """A survey that is fed steps; its summary is that of the barrier ``token``."""

    token: str
    survey: Survey
    edges: tuple[Edge, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of one sweep over a domain of ``shape``, and what it yields.

    ``stacks`` are the sources that are decoded from the same slices, where there are several.
    """

    shape: Triple
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    folds: tuple[FoldEdge, ...]
    surveys: tuple[Surveyed, ...] = ()
    users: tuple[tuple[tuple[int, Edge], ...], ...] = field(init=False)
    stacks: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        users: list[list[tuple[int, Edge]]] = [[] for _ in self.steps]
        for i, step in enumerate(self.steps):
            for e in step.edges:
                users[e.step].append((i, e))
        object.__setattr__(self, "users", tuple(map(tuple, users)))
        stacks: dict[str, list[int]] = {}
        for i, step in enumerate(self.steps):
            if step.source is not None and step.source.stack is not None:
                stacks.setdefault(step.source.stack, []).append(i)
        several = (tuple(steps) for steps in stacks.values() if len(steps) > 1)
        object.__setattr__(self, "stacks", tuple(several))

    @property
    def barriers(self) -> tuple[str, ...]:
        """The barriers whose answers its slabs take."""
        return tuple(dict.fromkeys(s.barrier for s in self.steps if s.completion is not None))

    @property
    def spans(self) -> frozenset[int]:
        """The axes along which a slab has to be as wide as the volume."""
        return frozenset(a for s in self.steps if s.stage is not None for a in s.stage.spans)

    @property
    def regrids(self) -> list[Regrid]:
        """The stages whose grids are their own."""
        return [s.stage for s in self.steps if isinstance(s.stage, Regrid)]

    def reach(self, upper: bool, axis: int, wanted: Range) -> Range:
        """What a survey or a completion has to do with of a slab's range along an axis."""
        return wanted[0], min(wanted[1] + upper, self.shape[axis])

    def ends(self) -> Iterator[Edge]:
        """The edges by which results leave the sweep, those to surveys apart."""
        yield from (o.edge for o in self.outputs)
        for f in self.folds:
            yield f.voxels
            if f.mask is not None:
                yield f.mask
            yield from f.others

    def sinks_of(self, step: int) -> list[Output]:
        return [o for o in self.outputs if o.edge.step == step]

    def regions(self, axis: int, wanted: Range) -> list[Range]:
        """Per step the range along an axis that a range of the domain needs."""
        regions: list[Range | None] = [None] * len(self.steps)

        def widen(edge: Edge, by: Range) -> None:
            lo, hi = edge.needs(axis, by, self.steps[edge.step].shape[axis])
            old = regions[edge.step]
            regions[edge.step] = (lo, hi) if old is None else (min(lo, old[0]), max(hi, old[1]))

        for edge in self.ends():
            widen(edge, wanted)
        for seen in self.surveys:
            for edge in seen.edges:
                widen(edge, self.reach(seen.survey.upper, axis, wanted))
        for i in range(len(self.steps) - 1, -1, -1):
            step = self.steps[i]
            if step.completion is not None:
                # Whatever is used of it, it has to see what its survey saw.
                regions[i] = self.reach(step.completion.upper, axis, wanted)
            # Slabs are as deep as the volume where a stage spans z: it begins with the first slice.
            spans = step.stage.spans if step.stage is not None and axis else ()
            if regions[i] is not None and axis in spans:
                regions[i] = (0, step.shape[axis])
            region = regions[i]
            if region is not None:
                for edge in step.edges:
                    widen(edge, region)
        for stack in self.stacks if axis == 0 else ():
            # What is decoded together is read together.
            ranges = [r for r in (regions[i] for i in stack) if r is not None]
            union = min(lo for lo, _ in ranges), max(hi for _, hi in ranges)
            for i in stack:
                regions[i] = union
        return [r for r in regions if r is not None]

    def extents(self, axis: int, regions: list[Range]) -> list[Range]:
        """Per step what its ring covers along y or x: the region, and rims where users pad it."""
        extents = list(regions)
        for i, users in enumerate(self.users):
            lo, hi = regions[i]
            for user, edge in users:
                if edge.regrid is not None:
                    continue
                a, b = (w + edge.offset[axis] for w in regions[user])
                lo, hi = min(lo, a - edge.halo[axis][0]), max(hi, b + edge.halo[axis][1])
            size = self.steps[i].shape[axis]
            # A ring never reaches into the inside of the volume beyond its region.
            inside = regions[i]
            extents[i] = (
                lo if lo < 0 else inside[0],
                hi if hi > size else inside[1],
            )
        return extents

    def padding(self, step: int) -> Padding:
        """The one padding that all padded users of a step share (`compile` sees to it)."""
        return next((e.padding for _, e in self.users[step] if e.halo != NO_HALO), Padding())

    def constant_slice(self, step: int) -> bool:
        """Whether the step's ring needs a slice of the constant beyond the volume's z edges."""
        return any(
            e.halo[0] != (0, 0) and e.padding.modes[0] in ("constant", "grid-constant")
            for _, e in self.users[step]
        )


def reversed_view(items: list[Any]) -> Iterator[Any]:
    """Items from the last to the first, each looked up only when it is asked for."""
    return (items[i] for i in range(len(items) - 1, -1, -1))
