"""How much the merge of components will hold at once, known before it starts."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.components import SlabSummary
from beam_volumes.across.merge import bytes_per_component, leaf, loads
from beam_volumes.across.rounds.components import tree_of
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import digest


@dataclass(frozen=True, eq=False)
class Load:
    """What slabs will give to the merge."""

    #: By node of the tree, how many components its children tell it of, at most: their sum. Each is
    #: at least twice as large as the next, so that many slabs are added up in little time.
    nodes: tuple[Counter, ...]
    #: `members`, `area`: int64 (3). 2-D components in the faces perpendicular to each axis,
    #: and pixels of those faces.
    members: np.ndarray
    area: np.ndarray
    bytes: int  #: Per component, of what a step of the merge holds.
    dense: float = 0.0  #: Components per voxel, of the slab that has the most.

    def total(self) -> Counter:
        """By node, over all slabs."""
        nodes: Counter = Counter()
        for counter in self.nodes:
            nodes.update(counter)
        return nodes


@dataclass(frozen=True, eq=False)
class MergeEstimate(Reduction):
    """The largest step of the merge, in bytes; refused if a worker has no room for it.

    It folds no voxels: its states are `of_slab` and what they merge to.

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
    limit_bytes: int  #: Bytes that one step of the merge may hold.
    radix: Triple | None  #: As of `component_flow`.
    #: Slabs in flight, if there can be fewer: a single one would have the memory of all.
    workers: int | None = None
    slab_bytes: int = 0  #: Bytes that a sweep holds per component of its slab.

    @classmethod
    def of(
        cls,
        grid: Grid,
        limit_bytes: int,
        radix: Triple | None = None,
        name: str = "label",
        workers: int | None = None,
        slab_bytes: int = 0,
    ) -> MergeEstimate:
        return cls(name, np.dtype(np.int64), (), grid, limit_bytes, radix, workers, slab_bytes)

    def token(self) -> str:
        grid = self.grid
        return digest(
            type(self).__name__, self.name, grid.shape, grid.step, self.limit_bytes, self.radix
        )

    def zero(self) -> Load:
        return Load((), np.zeros(3, np.int64), np.zeros(3, np.int64), 0)

    def of_slab(self, summary: SlabSummary) -> Load:
        """The state of one slab."""
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
                f"{self.name}: merging the slabs takes in {maximum} components at once, of {state.bytes} "
                f"bytes each: {format_bytes(maximum * state.bytes)}, and a worker has "
                f"{format_bytes(self.limit_bytes)} for it: {self._remedy(state, maximum)}"
            )
        return np.int64(maximum * state.bytes)

    def _remedy(self, state: Load, maximum: int) -> str:
        """What would do; with one slab in flight, which has the memory of all, where there can be fewer."""
        density = state.members / np.maximum(state.area, 1)
        # Where measured and expected differ, here, they will there.
        scale = maximum / max(expected_load(self.grid, self.radix, density), 1e-9) * state.bytes
        limit = self.limit_bytes * (self.workers or 1)
        alone = "" if self.workers is None else "workers=1 and "
        more = -(-(maximum * state.bytes - limit) // (1 << 20))  # what is offered has to do
        if more <= 0:
            return "use workers=1"
        each = " for each slab in flight" if self.workers is None else ""
        memory = f"{alone}a memory= that is larger by {more} MiB{each}"
        for step in _larger(self.grid):
            if state.dense * _labelled(self.grid.shape, step) * self.slab_bytes > limit:
                continue  # the sweep of such a slab would be refused
            if expected_load(Grid(self.grid.shape, step), self.radix, density) * scale <= limit:
                return f"use {alone}slab={step}, or {memory}"
        return f"no size of slabs would do; give {memory}"


def _labelled(whole: Triple, step: Triple) -> int:
    """Voxels that a slab labels: its own, and the planes that it shares with the next ones."""
    return math.prod(min(n, s + 1) for n, s in zip(whole, step, strict=True))


def _larger(grid: Grid) -> list[Triple]:
    """Deeper slabs and larger tiles, the smallest first."""
    axes = []
    for n, s in zip(grid.shape, grid.step, strict=True):
        axes.append(sorted({min(n, s << k) for k in range(max(1, n).bit_length() + 1)}))
    steps: list[Triple] = [(z, y, x) for z, y, x in itertools.product(*axes)]
    # Of equally large ones the deeper: tiles cost what the halo along y and x does.
    return sorted(steps, key=lambda s: (s[0] * s[1] * s[2], -s[0]))[1:]


def expected_load(grid: Grid, radix: Triple | None, density: np.ndarray) -> float:
    """Components that the largest step takes in, from those per pixel of a face across each axis."""
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
            area = np.prod(extent) / extent[axis]
            total += faces * area * density[axis]
        largest = max(largest, total)
    return largest
