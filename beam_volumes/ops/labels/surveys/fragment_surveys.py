"""Stitching of overlapping tiles in two sweeps: matching of fragments, then their ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.components import Interface, InterfaceKey
from beam_volumes.across.fragments import Pairs, TilePart, merged
from beam_volumes.across.merge import COMPONENT_BYTES, NodeSummary, loads
from beam_volumes.across.rounds.components import tree_of
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.across.rounds.fragments import SlabFragments, TileIds, fragment_flow
from beam_volumes.across.tables import as_labels
from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.labels import lookup as lookups
from beam_volumes.kernels.labels.contingency import count_labels
from beam_volumes.kernels.labels.fragments import beginnings
from beam_volumes.ops.labels.surveys.merge_estimate import Load, MergeEstimate, expected_load
from beam_volumes.ops.labels.surveys.tilings import Tiling
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block
from beam_volumes.sweep.survey import (
    Completer,
    Completion,
    MergeSize,
    NoRoom,
    Survey,
    Surveyor,
    check_same,
    digested,
)

#: Expected voxels per fragment, and the bytes of one.
_SPARSE, _FRAGMENT = 500, 100
#: Bytes per pair of fragments in a step of the merge.
_PAIR = COMPONENT_BYTES + 24


@dataclass(frozen=True, eq=False)
class FragmentLoad(MergeEstimate):
    """The memory of the largest step of the merge of tiles."""

    @classmethod
    def of_tiles(cls, grid: Grid, limit_bytes: int, name: str) -> FragmentLoad:
        return cls(name, np.dtype(np.int64), (), grid, limit_bytes, None)

    def of_slab(self, summary: Any) -> Load:
        tiles: SlabFragments = summary
        nodes: Counter = Counter()
        for cell, part in tiles.tiles.items():
            for axis, pairs in part.pairs.items():
                z, y, x = (c + (a == axis) for a, c in enumerate(cell))
                joined = np.flatnonzero((pairs.labels != 0).all(axis=1))
                faces: dict[InterfaceKey, Interface] = {(axis, z, y, x): Interface(joined, 0)}
                for side in (cell, (z, y, x)):
                    up = NodeSummary((0, *side), np.empty(0, np.uint64), {}, faces)
                    nodes.update(loads(tree_of(self.grid), up))
        none = np.zeros(3, np.int64)
        return Load((nodes,), none, none, _PAIR)

    def _remedy(self, state: Load, maximum: int) -> str:
        more = -(-(maximum * state.bytes - self.limit_bytes) // (1 << 20))
        return (
            f"use larger tiles, or a memory= that is larger by {more} MiB for each slab in flight"
        )


@dataclass(frozen=True, eq=False)
class FragmentSurvey(Survey):
    """Labels of overlapping tiles to be stitched."""

    # The inputs are the labels of each voxel's own tile and, if tiles overlap, the labels of the tiles with
    # each of `Tiling.parities`, 0 where there is none. Earlier stages select them from the labels of tiles,
    # so a slab only gets its core.

    tiling: Tiling
    rule: str
    threshold: float  #: As for `beam_volumes.across.fragments.matches`.
    dtype: np.dtype  #: The dtype of ids.

    upper = False

    @property
    def cost(self) -> float:
        return 5.0 + 5.0 * len(self.tiling.doubled)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return math.prod(shape) // _SPARSE * 4 * _FRAGMENT + (1 << 16)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return math.prod(shape) // _SPARSE * _FRAGMENT * (1 + len(self.tiling.doubled))

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Fragments(self, grid, index, limit_bytes)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return fragment_flow(grid, self.tiling, self.rule, self.threshold, self.dtype)

    def empty_numbers(self) -> dict[str, Any]:
        return {"count": 0}

    def merge_size(self, grid: Grid) -> MergeSize:
        axes = self.tiling.axes
        # Each voxel that two tiles share may be another pair.
        wider = [a.tile / a.step for a in axes]
        densest = [math.prod(wider) / w * a.overlap for a, w in zip(axes, wider, strict=True)]
        expected, maximum = (
            round(expected_load(self.tiling.grid, None, np.array(density)) * _PAIR)
            for density in ([_SPARSE ** (-2 / 3) * (m > 0) for m in densest], densest)
        )
        return MergeSize(expected=min(expected, maximum), maximum=maximum)

    def load(
        self, grid: Grid, limit_bytes: int, workers: int | None, slab_limit_bytes: int
    ) -> FragmentLoad:
        return FragmentLoad.of_tiles(self.tiling.grid, limit_bytes, self.name)


class _Fragments(Surveyor):
    def __init__(self, survey: FragmentSurvey, grid: Grid, index: int, limit_bytes: int):
        self.survey, self.tiling, self.limit_bytes = survey, survey.tiling, limit_bytes
        self.box = grid.box(index)
        self.grid = grid
        self.parts: dict[Triple, list[TilePart]] = {}
        self.bytes = 0
        self.digests: list[int] = []

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        owned, *covered = map(as_labels, arrays)
        start = (self.box.start[0] + z[0], *self.box.start[1:])
        window = Box(start, (self.box.start[0] + z[1], *self.box.stop[1:]))
        self.digests.append(digested(owned, threads, lambda y0, y1: None))
        jobs = list(self._jobs(window))

        def some(a: int, b: int) -> list[tuple[Triple, TilePart]]:
            return [
                (cell, self._found(owned, covered, window, cell, box, axis))
                for cell, box, axis in jobs[a:b]
            ]

        for strip in in_strips(len(jobs), owned.size, threads, some):
            for cell, part in strip:
                self._add(cell, part)

    def _jobs(self, window: Box) -> Iterator[tuple[Triple, Box, int | None]]:
        """The parts of a window that a tile owns, or (with an axis) shares with the next one."""
        for cell in self.tiling.owners(window):
            yield cell, self.tiling.owned(cell).intersect(window), None
        for axis in self.tiling.doubled:
            for cell in self.tiling.sharers(window, axis):
                box = self.tiling.shared(cell, axis).intersect(window)
                if box.size:
                    yield cell, box, axis

    def _found(
        self,
        owned: np.ndarray,
        covered: list[np.ndarray],
        window: Box,
        cell: Triple,
        box: Box,
        axis: int | None,
    ) -> TilePart:
        where = box.translate([-a for a in window.start]).slices
        if axis is None:
            labels, first, sizes = beginnings(owned[where])
            k, j, i = np.unravel_index(first, box.shape)
            _, ny, nx = self.tiling.shape
            start = box.start
            index = ((k + start[0]) * ny + j + start[1]) * nx + i + start[2]
            return TilePart(labels, index, sizes, {})
        z, y, x = (c + (a == axis) for a, c in enumerate(cell))
        below, above = (covered[self.tiling.parity(c)][where] for c in (cell, (z, y, x)))
        pairs, counts = count_labels(below, above)
        some = pairs.any(axis=1)
        part = TilePart.empty()
        return TilePart(
            part.labels, part.first, part.sizes, {axis: Pairs(pairs[some], counts[some])}
        )

    def _add(self, cell: Triple, part: TilePart) -> None:
        parts = self.parts.setdefault(cell, [])
        parts.append(part)
        self.bytes += part.nbytes
        if len(parts) > 8:
            whole = merged(parts)
            self.bytes += whole.nbytes - sum(p.nbytes for p in parts)
            self.parts[cell] = [whole]
        if self.bytes > self.limit_bytes:
            for tile, some in self.parts.items():
                self.parts[tile] = [merged(some)]
            self.bytes = sum(p.nbytes for (p,) in self.parts.values())
        if self.bytes > self.limit_bytes:
            raise NoRoom(
                f"{self.survey.name}: tiles in the slab {self.box} need more memory than the "
                f"{format_bytes(self.limit_bytes)} that the budget leaves for it"
            )

    def finish(self) -> SlabFragments:
        tiles = {cell: merged(parts) for cell, parts in sorted(self.parts.items())}
        return SlabFragments(tiles, tuple(self.digests))


@dataclass(frozen=True, eq=False)
class Stitch(Completion):
    """Writes the answer for each label of a voxel's own tile."""

    tiling: Tiling

    upper = False
    yields_labels = True
    cost = 4.0

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return math.prod(shape) // _SPARSE * _FRAGMENT

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        return _Stitcher(self, grid.box(index), *answer)


class _Stitcher(Completer):
    def __init__(self, how: Stitch, box: Box, ids: dict[Triple, TileIds], digests: tuple[int, ...]):
        self.how, self.box = how, box
        self.digests = iter(digests)
        self.tables = {
            cell: (*lookups.indexed(tile.labels), tile.ids.astype(how.dtype))
            for cell, tile in ids.items()
        }

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        labels = as_labels(arrays[0])
        start = (self.box.start[0] + z[0], *self.box.start[1:])
        stop = (self.box.start[0] + z[1], *self.box.stop[1:])
        window = Box(start, stop)

        def strip(y0: int, y1: int) -> None:
            rows = Box((start[0], start[1] + y0, start[2]), (stop[0], start[1] + y1, stop[2]))
            for cell in self.how.tiling.owners(rows):
                box = self.how.tiling.owned(cell).intersect(rows)
                k, y, x = box.translate([-a for a in window.start]).slices
                for at in range(k.start, k.stop):
                    self._write(cell, labels[at, y, x], out.slice(at)[y, x])

        check_same(digested(labels, threads, strip), next(self.digests))

    def _write(self, cell: Triple, labels: np.ndarray, out: np.ndarray) -> None:
        zero = self.how.dtype.type(0)
        unknown = lookups.look_up(labels, out, *self.tables[cell], zero, lookups.REFUSE, zero)
        if unknown:
            raise ValueError(
                f"label {unknown} of the tile {cell} did not exist in the first sweep: the input "
                "has changed, or the function returns different labels in a second call; make it "
                "return the same labels, for example with a fixed seed"
            )
