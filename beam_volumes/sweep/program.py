"""Programs: the steps of one sweep, and the boxes that each of them needs for a box of the result.

A program is a graph of steps in topological order. Each step yields one array. Each edge between
two steps has an offset (of a crop), a halo and a padding. Boxes are products, so ranges are
computed per axis: `regions` returns the range of each step for a box of the output, `extents` the
range in its ring along y and x. Along z, `schedule` moves a window through the slab. The range
along an axis only depends on the box's range along that axis, except for `coupled` axes of stages
that change the grid, such as the axes of a rotated plane.

Results leave the sweep at ends. The `Lattice` of an end is its position in the domain: it may be a
crop, or a level of a pyramid. A slab has the units of an end that begin in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Halo, Lattice, Range, Ranges, Triple, source_ranges
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.device import DEVICE, HOST
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Padding, Regrid, Stage
from beam_volumes.sweep.survey import Completion, Survey

REFLECTED = Padding()
#: Cached results of `Program.regions`.
_KNOWN = 256
#: The range of a step that a box does not need.
_UNUSED: Range = (0, 0)


@dataclass(frozen=True)
class Edge:
    """One use of a step's array: voxel v of the user reads around voxel ``v + offset`` of ``step``.

    A user that changes the grid (``regrid``) maps its voxels before the offset.
    """

    step: int
    offset: Triple = (0, 0, 0)
    halo: Halo = NO_HALO
    padding: Padding = REFLECTED
    regrid: Regrid | None = None

    def needs(self, axis: int, boxes: Sequence[Ranges], size: int) -> list[Range]:
        """The range of the step that a box of the user needs along an axis."""
        own = [b[axis] if self.regrid is None else self.regrid.needs(axis, b) for b in boxes]
        return self.along(axis, own, size)

    def along(self, axis: int, wanted: Sequence[Range], size: int) -> list[Range]:
        """As `needs`, for a range of voxels of the user or its regrid."""
        by = self.offset[axis]
        spans = [(a + by, b + by) for a, b in wanted]
        return source_ranges(spans, self.halo[axis], size, self.padding.modes[axis])


@dataclass(frozen=True, eq=False)
class Step:
    """One array of a sweep.

    It is read from ``source``, or computed from other steps by ``stage``, or by ``completion`` with
    the slab's answer from ``barrier``.
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
    place: str = HOST  #: Where its ring is, and its stage runs; see `beam_volumes.sweep.device`.
    #: Numbers of the dtypes of its values, or arrays without elements; to ask the stage for device code.
    examples: tuple[np.ndarray, ...] = ()


class End:
    """A result of a sweep.

    ``unit``: a slab has the units that begin in it.
    """

    lattice: Lattice

    @property
    def unit(self) -> Triple:
        return (1, 1, 1)

    @property
    def edges(self) -> tuple[Edge, ...]:
        raise NotImplementedError

    def share(self, axis: int, span: Range) -> Range:
        """The range that a slab has of it; may be empty."""
        return self.shares(axis, [span])[0]

    def shares(self, axis: int, spans: Sequence[Range]) -> list[Range]:
        """As `share`, for several slabs."""
        firsts = self.lattice.firsts(axis, [at for span in spans for at in span], self.unit[axis])
        return list(zip(firsts[::2], firsts[1::2], strict=True))

    def during(self, windows: Sequence[Range], shares: Sequence[Range]) -> list[Range]:
        """The range of its slab's share that each window finishes along z."""
        firsts = self.lattice.firsts(0, [at for window in windows for at in window])
        return [
            (min(max(a, lo), hi), min(max(b, lo), hi))
            for a, b, (lo, hi) in zip(firsts[::2], firsts[1::2], shares, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Output(End):
    """A step written to a sink; the sink's voxel v is the step's ``v + edge.offset``."""

    edge: Edge
    sink: Sink
    lattice: Lattice

    @cached_property
    def unit(self) -> Triple:
        return self.sink.unit

    @property
    def edges(self) -> tuple[Edge, ...]:
        return (self.edge,)


class FedEdges(NamedTuple):
    """The input of a reduction, its mask, and further inputs."""

    voxels: Edge
    mask: Edge | None = None
    others: tuple[Edge, ...] = ()


@dataclass(frozen=True, eq=False)
class FoldEdge(End):
    """A reduction of steps; its result has the token ``token``."""

    token: str
    reduction: Reduction
    fed: tuple[FedEdges, ...]
    lattice: Lattice
    values: tuple[str, ...] = ()

    @property
    def edges(self) -> tuple[Edge, ...]:
        return tuple(
            edge
            for fed in self.fed
            for edge in (fed.voxels, fed.mask, *fed.others)
            if edge is not None
        )


@dataclass(frozen=True, eq=False)
class Surveyed:
    """A survey of steps; its summary has the token of the barrier.

    The steps must have the shape of the domain, because the merge uses its slabs.
    """

    token: str
    survey: Survey
    edges: tuple[Edge, ...]
    values: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of one sweep over a domain of ``shape``, and its results.

    ``stacks``: groups of sources that are decoded from the same units. ``coupled``: axes that
    slabs' ranges along other axes depend on.
    """

    shape: Triple
    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    folds: tuple[FoldEdge, ...]
    surveys: tuple[Surveyed, ...] = ()
    users: tuple[tuple[tuple[int, Edge], ...], ...] = field(init=False)
    stacks: tuple[tuple[int, ...], ...] = field(init=False)
    coupled: frozenset[int] = field(init=False)
    #: By which results leave the sweep, surveys apart.
    ends: tuple[End, ...] = field(init=False)
    #: Recent results of `regions`: planning, and tiles of one row, repeat the same ranges.
    _known: dict[Any, list[Range]] = field(init=False, repr=False, default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"_known": {}}

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
        coupled = (axis for regrid in self.regrids for axis in regrid.coupled)
        object.__setattr__(self, "coupled", frozenset(coupled))
        object.__setattr__(self, "ends", (*self.outputs, *self.folds))

    @cached_property
    def barriers(self) -> tuple[str, ...]:
        """The barriers that its slabs need answers of."""
        return tuple(dict.fromkeys(s.barrier for s in self.steps if s.completion is not None))

    @cached_property
    def uses_device(self) -> bool:
        """Whether stages run on a device."""
        return any(s.place == DEVICE for s in self.steps)

    @cached_property
    def folds_on_device(self) -> tuple[FoldEdge, ...]:
        """The reductions with states on a device."""
        return tuple(
            f for f in self.folds if any(self.steps[e.step].place == DEVICE for e in f.edges)
        )

    @cached_property
    def surveys_on_device(self) -> tuple[Survey, ...]:
        """The surveys with inputs on a device."""
        on_device = [self.steps[s.edges[0].step].place == DEVICE for s in self.surveys]
        return tuple(s.survey for s, there in zip(self.surveys, on_device, strict=True) if there)

    @cached_property
    def halves_on_device(self) -> tuple[Survey | Completion, ...]:
        """The surveys and completions with inputs on a device."""
        completions = [
            s.completion for s in self.steps if s.completion is not None and s.place == DEVICE
        ]
        return (*completions, *self.surveys_on_device)

    @cached_property
    def spans(self) -> frozenset[int]:
        """The axes along which a slab must be as wide as the volume."""
        return frozenset(a for s in self.steps if s.stage is not None for a in s.stage.spans)

    @property
    def regrids(self) -> list[Regrid]:
        """The stages that change the grid of an input; stages without inputs have positions only."""
        return [s.stage for s in self.steps if isinstance(s.stage, Regrid) and s.edges]

    def grains(self, axis: int) -> set[int]:
        """The extents of the cells that stages compute at a time, along an axis."""
        return {s.stage.grain[axis] for s in self.steps if s.stage is not None} - {1}

    def reach(self, upper: bool, axis: int, wanted: Range) -> Range:
        """The range of a slab for a survey or completion."""
        return wanted[0], min(wanted[1] + upper, self.shape[axis])

    def surveyed_shape(self, upper: bool, slab: Triple) -> Triple:
        """The shape of the largest slab for a survey: its core, with ``upper`` also the planes beyond."""
        z, y, x = (min(n, s + upper) for n, s in zip(self.shape, slab, strict=True))
        return z, y, x

    def survey_limits(self, slab: Triple, windows: int, limit_bytes: int) -> list[int]:
        """Divide the memory for surveys by the minimum of each."""
        minima = [
            s.survey.state_bytes(self.surveyed_shape(s.survey.upper, slab), windows)
            for s in self.surveys
        ]
        total = sum(minima)
        if not total:
            return [limit_bytes // len(minima) for _ in minima]
        return [limit_bytes * minimum // total for minimum in minima]

    def sinks_of(self, step: int) -> list[Output]:
        return [o for o in self.outputs if o.edge.step == step]

    @cached_property
    def decoded(self) -> tuple[tuple[int, ...], ...]:
        """The sources, in groups that are decoded together."""
        separate = [
            (i,)
            for i, s in enumerate(self.steps)
            if s.source is not None and not any(i in stack for stack in self.stacks)
        ]
        return tuple(sorted([*separate, *self.stacks]))

    def regions(self, axis: int, wanted: Ranges) -> list[Range]:
        """For each step the range along an axis that a box of the domain needs; may be empty.

        The box's ranges along other axes are only used if ``axis`` is `coupled`.
        """
        return [ranges for (ranges,) in self.regions_of(axis, [wanted])]

    def regions_of(self, axis: int, boxes: Sequence[Ranges]) -> list[list[Range]]:
        """As `regions`, for several boxes: for each step, its range for each box."""
        together = axis in self.coupled
        keys = [(axis, tuple(box) if together else tuple(box[axis])) for box in boxes]
        known = {key: self._known.get(key) for key in keys}
        missing = {k: box for k, box in zip(keys, boxes, strict=True) if known[k] is None}
        if missing:
            axes = sorted(self.coupled) if together else [axis]
            found = self._regions(axes, list(missing.values()))[axis]
            new = dict(zip(missing, map(list, zip(*found, strict=True)), strict=True))
            known.update(new)
            if len(self._known) + len(new) > _KNOWN:
                self._known.clear()
            self._known.update(new)
        per_box = [known[key] or [] for key in keys]
        return [[ranges[i] for ranges in per_box] for i in range(len(self.steps))]

    def _regions(
        self, axes: Sequence[int], boxes: Sequence[Ranges]
    ) -> dict[int, list[list[Range]]]:
        """For each independent axis and step, the range for each box; empty if it is not needed."""
        found = {a: [[_UNUSED] * len(boxes) for _ in self.steps] for a in axes}

        def widen(edge: Edge, axis: int, by: list[Range]) -> None:
            used = [k for k, (lo, hi) in enumerate(by) if lo < hi]
            if not used:
                return
            own = found[axis][edge.step]
            size = self.steps[edge.step].shape[axis]
            reached = edge.along(axis, [by[k] for k in used], size)
            for k, (lo, hi) in zip(used, reached, strict=True):
                low, high = own[k]
                own[k] = (min(lo, low), max(hi, high)) if low < high else (lo, hi)

        def taken(edge: Edge, user: int, axis: int) -> list[Range]:
            """The ranges through an edge, before its offset and halo."""
            own = found[axis][user]
            if edge.regrid is None:
                return own
            # A box may be unused along a coupled axis only.
            z, y, x = (found[a][user] if a in found else [(0, 1)] * len(own) for a in range(3))
            return [
                edge.regrid.needs(axis, box) if all(a < b for a, b in box) else _UNUSED
                for box in zip(z, y, x, strict=True)
            ]

        for axis in axes:
            wanted = [box[axis] for box in boxes]
            for end in self.ends:
                shares = end.shares(axis, wanted)
                for edge in end.edges:
                    widen(edge, axis, shares)
            for surveyed in self.surveys:
                upper = surveyed.survey.upper
                reached = [self.reach(upper, axis, along) for along in wanted]
                for edge in surveyed.edges:
                    widen(edge, axis, reached)
        for i in range(len(self.steps) - 1, -1, -1):
            step = self.steps[i]
            for axis in axes:
                if step.completion is not None:
                    # The same rows and columns as its survey, and slices above only for other steps.
                    upper, wanted = step.completion.upper, [box[axis] for box in boxes]
                    found[axis][i] = [
                        self.reach(upper and (axis > 0 or used[1] > own[1]), axis, own)
                        for own, used in zip(wanted, found[axis][i], strict=True)
                    ]
                # If a stage spans z, slabs are as deep as the volume, and begin with the first
                # slice.
                if axis and step.stage is not None and axis in step.stage.spans:
                    whole = (0, step.shape[axis])
                    found[axis][i] = [whole if a < b else _UNUSED for a, b in found[axis][i]]
            for axis in axes:
                for edge in step.edges:
                    widen(edge, axis, taken(edge, i, axis))
        for stack in self.stacks if 0 in axes else ():
            # Sources that are decoded together are read together.
            unions = []
            for ranges in zip(*(found[0][i] for i in stack), strict=True):
                used = [(a, b) for a, b in ranges if a < b]
                union = (min(lo for lo, _ in used), max(hi for _, hi in used)) if used else _UNUSED
                unions.append(union)
            for i in stack:
                found[0][i] = unions
        return found

    def extents(self, axis: int, regions: list[Range]) -> list[Range]:
        """For each step the range of its ring along y or x: the region and the padding."""
        extents = list(regions)
        for i, users in enumerate(self.users):
            lo, hi = regions[i]
            for user, edge in users:
                if edge.regrid is not None or regions[user][0] == regions[user][1]:
                    continue
                a, b = (w + edge.offset[axis] for w in regions[user])
                lo, hi = min(lo, a - edge.halo[axis][0]), max(hi, b + edge.halo[axis][1])
            size = self.steps[i].shape[axis]
            # Padding is outside the volume only.
            inside = regions[i]
            extents[i] = (
                lo if lo < 0 else inside[0],
                hi if hi > size else inside[1],
            )
        return extents

    def padding(self, step: int) -> Padding:
        """The padding of a step, which all its padded users share by compilation."""
        return next((e.padding for _, e in self.users[step] if e.halo != NO_HALO), Padding())

    def constant_slice(self, step: int) -> bool:
        """Whether the step's ring needs a slice of the constant outside the volume along z."""
        return any(
            e.halo[0] != (0, 0) and e.padding.modes[0] in ("constant", "grid-constant")
            for _, e in self.users[step]
        )
