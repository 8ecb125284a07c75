"""The memory of the merge of components, estimated before it starts."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.components import SlabSummary
from beam_volumes.across.merge import bytes_per_component, leaf, loads
from beam_volumes.across.rounds.components import tree_of
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.sweep.stage import digest
from beam_volumes.sweep.survey import MergeLoad


@dataclass(frozen=True, eq=False)
class Load:
    """The contributions of slabs to the merge."""

    #: For each node of the tree, an upper bound of the components in messages of its children. Each
    #: counter is at least twice as large as the next, so adding many slabs is fast.
    nodes: tuple[Counter, ...]
    #: `members`, `area`: int64 (3). 2-D components in the faces across each axis, and the pixels
    #: of these faces.
    members: np.ndarray
    area: np.ndarray
    bytes: int  #: Bytes per component in a step of the merge.
    dense: float = 0.0  #: Components per voxel in the densest slab.

    def total(self) -> Counter:
        """The sum over all slabs, by node."""
        nodes: Counter = Counter()
        for counter in self.nodes:
            nodes.update(counter)
        return nodes


@dataclass(frozen=True, eq=False)
class MergeEstimate(MergeLoad):
    """The memory of the largest step of the merge; an error if a worker does not have it.

    >>> from beam_volumes.across.components import Interface
    >>> grid, some = Grid((2, 100, 100), (1, 100, 100)), np.arange(5000)
    >>> face = {(0, 1, 0, 0): Interface(some, 0)}
    >>> load = MergeEstimate.of(grid, limit_bytes=1_000_000)
    >>> state = load.zero()
    >>> for z in range(2):
    ...     slab = SlabSummary((z, 0, 0), some.astype("u8"), {}, face, (some,), (0,))
    ...     state = load.merge(state, load.of_slab(slab))
    >>> try:
    ...     load.finish(state)
    ... except ValueError as error:
    ...     print(str(error).split(": ")[-1])
    use slab=(2, 100, 100), or a memory= that is larger by 1 MiB for each slab in flight
    """

    grid: Grid  #: The slabs.
    limit_bytes: int  #: Maximum bytes of a step of the merge.
    radix: Triple | None  #: As for `component_flow`.
    #: Slabs in flight, if they can be reduced: a single one would have the memory of all.
    workers: int | None = None
    slab_bytes: int = 0  #: Bytes per component of a slab in a sweep.
    slab_limit_bytes: int = 0  #: Maximum bytes of the components of a slab in a sweep.
    #: Whether slabs are elements of a pipeline, which have no ``slab=``.
    are_elements: bool = False

    @classmethod
    def of(
        cls,
        grid: Grid,
        limit_bytes: int,
        radix: Triple | None = None,
        name: str = "label",
        workers: int | None = None,
        slab_bytes: int = 0,
        slab_limit_bytes: int = 0,
    ) -> MergeEstimate:
        how = grid, limit_bytes, radix, workers, slab_bytes, slab_limit_bytes
        return cls(name, np.dtype(np.int64), (), *how)

    def token(self) -> str:
        grid = self.grid
        return digest(
            type(self).__name__, self.name, grid.shape, grid.step, self.limit_bytes, self.radix
        )

    def zero(self) -> Load:
        return Load((), np.zeros(3, np.int64), np.zeros(3, np.int64), 0)

    def of_slab(self, summary: SlabSummary) -> Load:
        members, area = np.zeros((2, 3), np.int64)
        z, y, x = summary.cell
        _, ny, nx = self.grid.counts
        shape = self.grid.box((z * ny + y) * nx + x).shape
        for (axis, *_), (found, _) in summary.interfaces.items():
            members[axis] += len(found)
            area[axis] += np.prod(shape) // shape[axis]
        up, _, _ = leaf(summary)
        nodes = Counter(loads(tree_of(self.grid, self.radix), up))
        dense = len(summary.ids) / max(1, _labelled(self.grid.shape, shape))
        return Load((nodes,), members, area, bytes_per_component(summary.payload), dense)

    def merge(self, a: Load, b: Load) -> Load:
        nodes = sorted((*a.nodes, *b.nodes), key=len)
        largest_first: list[Counter] = []
        while nodes:
            counter = nodes.pop()
            while largest_first and len(counter) * 2 > len(largest_first[-1]):
                counter = Counter(counter)
                counter.update(largest_first.pop())  # adds
            largest_first.append(counter)
        return Load(
            tuple(largest_first),
            a.members + b.members,
            a.area + b.area,
            max(a.bytes, b.bytes),
            max(a.dense, b.dense),
        )

    def finish(self, state: Load, values: tuple[Any, ...] = ()) -> np.int64:
        maximum = max(state.total().values(), default=0)
        if maximum * state.bytes > self.limit_bytes:
            raise ValueError(
                f"{self.name}: merging the slabs combines {maximum} components at once, of "
                f"{state.bytes} bytes each: {format_bytes(maximum * state.bytes)}, but a worker "
                f"only has {format_bytes(self.limit_bytes)} for it: {self._remedy(state, maximum)}"
            )
        return np.int64(maximum * state.bytes)

    def scaled(self, states: Iterable[Load], grid: Grid) -> int:
        """The bytes of the largest step for other slabs of such voxels."""
        state = functools.reduce(self.merge, states)
        density, scale = self._scale(state, max(state.total().values(), default=0))
        return round(expected_load(grid, self.radix, density) * scale)

    def _scale(self, state: Load, maximum: int) -> tuple[np.ndarray, float]:
        """The components per pixel of faces, and the bytes of a step for each expected component.

        The ratio of the measured to the expected load is assumed to be the same for other slabs.
        """
        density = state.members / np.maximum(state.area, 1)
        expected = max(expected_load(self.grid, self.radix, density), 1e-9)
        return density, maximum / expected * state.bytes

    def _remedy(self, state: Load, maximum: int) -> str:
        """Suggest larger slabs or more memory, with one slab in flight if possible."""
        density, scale = self._scale(state, maximum)
        limit = self.limit_bytes * (self.workers or 1)
        fewer = "" if self.workers in (None, 1) else "workers=1 and "
        more = -(-(maximum * state.bytes - limit) // (1 << 20))  # rounded up to suffice
        if more <= 0:
            return "use workers=1"
        each = " for each slab in flight" if self.workers is None else ""
        memory = f"{fewer}a memory= that is larger by {more} MiB{each}"
        for step in _larger(self.grid):
            in_slab = state.dense * _labelled(self.grid.shape, step) * self.slab_bytes
            if in_slab > self.slab_limit_bytes * (self.workers or 1):
                continue  # a sweep with such slabs would be refused
            if expected_load(Grid(self.grid.shape, step), self.radix, density) * scale <= limit:
                return f"use {fewer}{self._slabs(step)}, or {memory}"
        return f"no size of slabs is sufficient; give {memory}"

    def _slabs(self, step: Triple) -> str:
        if self.are_elements:
            return f"slabs with depth={step[0]} and tile={step[1:]}"
        return f"slab={step}"


def _labelled(whole: Triple, step: Triple) -> int:
    """Voxels that a slab labels: its own, and the planes shared with the next slabs."""
    return math.prod(min(n, s + 1) for n, s in zip(whole, step, strict=True))


def _larger(grid: Grid) -> list[Triple]:
    """Deeper slabs and larger tiles, smallest first."""
    axes = []
    for n, s in zip(grid.shape, grid.step, strict=True):
        axes.append(sorted({min(n, s << k) for k in range(max(1, n).bit_length() + 1)}))
    steps: list[Triple] = [(z, y, x) for z, y, x in itertools.product(*axes)]
    # Prefer deeper slabs of equal size: tiles have a larger halo along y and x.
    return sorted(steps, key=lambda s: (s[0] * s[1] * s[2], -s[0]))[1:]


def times(grid: Grid, part: Grid) -> float:
    """How many times a part fits into a volume."""
    return math.prod(grid.shape) / math.prod(part.shape)


def expected_load(grid: Grid, radix: Triple | None, density: np.ndarray) -> float:
    """Components in the largest step, from the components per pixel of a face across each axis."""
    return _expected_load(grid, radix, tuple(map(float, density)))


@functools.lru_cache(4096)  # a search for slabs asks for the same grids several times
def _expected_load(grid: Grid, radix: Triple | None, density: tuple[float, ...]) -> float:
    tree = tree_of(grid, radix)
    largest = 0.0
    for level in range(1, tree.levels + 1):
        counts = tree.counts_at(level - 1)
        block = [
            min(n, s * r ** (level - 1))
            for n, s, r in zip(grid.shape, grid.step, tree.radix, strict=True)
        ]
        members = [min(r, c) for r, c in zip(tree.radix, counts, strict=True)]
        total = 0.0
        for axis in range(3):
            m, c = members[axis], counts[axis]
            faces = 2 * m - (2 if c <= m else 1 if c <= 2 * m else 0)  # none at the volume's ends
            extent = [min(n, b * k) for n, b, k in zip(grid.shape, block, members, strict=True)]
            total += faces * math.prod(extent[:axis] + extent[axis + 1 :]) * density[axis]
        largest = max(largest, total)
    return largest
