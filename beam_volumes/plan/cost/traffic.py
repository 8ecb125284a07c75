"""I/O of slabs: chunks read of each source, how many of them repeatedly, and units written."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Grid, Range, cells_touched
from beam_volumes.plan.cost.rings import along, results_along
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.program import Program

#: Slabs that are followed through a program at a time.
_TOGETHER = 256


@dataclass(frozen=True)
class Read:
    """The chunks of a source that all slabs of a pass read; voxels for arrays in memory."""

    of: str  #: The array: sources with the same token are parts of one array.
    name: str
    units: int
    #: The range of chunks that are needed, along each axis.
    cells: tuple[Range, Range, Range]
    unit_bytes: int
    in_memory: bool

    @property
    def bytes(self) -> int:
        return self.units * self.unit_bytes

    @property
    def bytes_needed(self) -> int:
        """Bytes of the chunks that are needed, each counted once."""
        return math.prod(b - a for a, b in self.cells) * self.unit_bytes


def chunks_read(program: Program, grid: Grid) -> list[Read]:
    """Return the chunks read for each source step."""
    together = program.decoded
    sources: dict[int, Any] = {some[0]: program.steps[some[0]].source for some in together}

    def touched(axis: int, regions: Sequence[Range]) -> list[int]:
        return [sources[some[0]].units_touched(axis, _union(regions, some)) for some in together]

    units = of_all_slabs(program, grid, touched, "chunks") if len(grid) else [0] * len(together)
    everything = Box.of_shape(grid.shape).ranges
    whole = [program.regions(axis, everything) for axis in range(3)] if len(grid) else []
    return [
        Read(
            source.stack or source.reader.token(),
            source.name,
            count,
            tuple(  # type: ignore[arg-type]
                _cells(source, axis, _union(whole[axis], some)) if whole else (0, 0)
                for axis in range(3)
            ),
            math.prod(source.read_unit) * source.channels_per_chunk * source.dtype.itemsize,
            source.in_memory,
        )
        for some, count in zip(together, units, strict=True)
        for source in [sources[some[0]]]
    ]


def of_all_slabs(
    program: Program,
    grid: Grid,
    counted: Callable[[int, Sequence[Range]], list[int]],
    keep: str = "",
) -> list[int]:
    """Sum a product over the axes of some count over all slabs."""
    # Boxes are products of ranges, so the sum is a product of sums per axis. Only along coupled axes
    # each slab is evaluated.
    #
    # ``counted``: receives an axis and the range of each step along it; returns numbers.
    # ``keep``: a name for sums that are kept for grids and programs that are alike along an axis.
    groups = [sorted(program.coupled)] + [[a] for a in range(3) if a not in program.coupled]
    total: list[int] = []
    for group in filter(None, groups):
        known: dict = {}
        if keep and group[0] not in program.coupled:
            known = results_along(program, group[0])
        key = keep, along(program, grid, group[0])
        if key not in known:
            known[key] = _sums(program, grid, group, counted)
        sums = known[key]
        total = [a * b for a, b in zip(total, sums, strict=True)] if total else sums
    return total


def _sums(
    program: Program,
    grid: Grid,
    group: Sequence[int],
    counted: Callable[[int, Sequence[Range]], list[int]],
) -> list[int]:
    """The sums over all ranges along a group of axes."""
    sums: list[int] = []
    z, y, x = (grid.ranges(a) if a in group else [(0, grid.shape[a])] for a in range(3))
    boxes = itertools.product(z, y, x)
    while some := list(itertools.islice(boxes, _TOGETHER)):
        regions = [zip(*program.regions_of(a, some), strict=True) for a in group]
        for of_axes in zip(*regions, strict=True):
            each = [counted(a, own) for a, own in zip(group, of_axes, strict=True)]
            products = [math.prod(counts) for counts in zip(*each, strict=True)]
            sums = [a + b for a, b in zip(sums, products, strict=True)] if sums else products
    return sums


def _union(regions: Sequence[Range], steps: Sequence[int]) -> Range:
    """The range that some steps need along an axis."""
    return min(regions[i][0] for i in steps), max(regions[i][1] for i in steps)


def _cells(source: Source, axis: int, span: Range) -> Range:
    """The chunks of the whole array that a range of a source touches along an axis."""
    size, at = source.read_unit[axis], source.offset[axis]
    first = at + (0 if source.in_memory else source.chunk_origin[axis])
    # All parts of an array count chunks from the same origin.
    start = (span[0] + at - first) // size + first // size
    return start, start + source.units_touched(axis, span)


def chunks_needed(boxes: Sequence[tuple[Range, Range, Range]]) -> int:
    """The number of chunks in the union of some boxes of chunks."""
    edges = [sorted({e for box in boxes for e in box[axis]}) for axis in range(3)]
    inside = np.zeros([max(0, len(e) - 1) for e in edges], bool)
    for box in boxes:
        inside[
            tuple(slice(e.index(a), e.index(b)) for e, (a, b) in zip(edges, box, strict=True))
        ] = True
    z, y, x = np.nonzero(inside)
    sizes = [np.diff(np.array(e, object)) for e in edges]
    return int((sizes[0][z] * sizes[1][y] * sizes[2][x]).sum())


def units_written(program: Program) -> list[tuple[int, int]]:
    """For each output, its write units and bytes of voxels."""
    return [
        (
            math.prod(-(-n // u) for n, u in zip(o.lattice.shape, o.sink.unit, strict=True)),
            math.prod(o.lattice.shape) * o.sink.dtype.itemsize,
        )
        for o in program.outputs
    ]


def amplification_inside(program: Program, grid: Grid) -> float:
    """How often a slab in the middle of the volume reads its chunks, on average."""
    read = needed = 0.0
    box = grid.box(len(grid) // 2) if len(grid) else None
    if box is None:
        return 1.0
    chunks = [1.0] * len(program.steps)
    for axis in range(3):
        for i, (a, b) in enumerate(program.regions(axis, box.ranges)):
            source = program.steps[i].source
            if source is not None:
                size = source.chunk[axis]
                cells = cells_touched(a, b, size, source.chunk_origin[axis])
                # Slabs smaller than a chunk share its cost.
                chunks[i] *= cells * size
    for i, step in enumerate(program.steps):
        if step.source is not None:
            read += chunks[i] * step.dtype.itemsize
            needed += (
                max(box.size, step.source.chunk_bytes / step.dtype.itemsize) * step.dtype.itemsize
            )
    return read / needed if needed else 1.0
