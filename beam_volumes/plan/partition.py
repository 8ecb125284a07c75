"""Choosing slabs, tiles and windows for a program so that a sweep stays within its memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beam_volumes.geometry import Grid, Triple, cells_touched
from beam_volumes.storage.sink import write_overhead_bytes
from beam_volumes.storage.source import read_overhead_bytes
from beam_volumes.sweep.program import Program, Range
from beam_volumes.sweep.resources import aligned
from beam_volumes.sweep.schedule import schedule

#: Voxels a window should have: enough that a stage's call costs little beside its work.
_WINDOW_VOXELS = 1 << 20
#: Slabs should not read more than this share again at their ends.
_AMPLIFICATION = 0.10
#: A slab should be at least so many voxels, where parallelism does not ask for less, and at most so many.
_LEAST_VOXELS, _MOST_VOXELS = 1 << 26, 1 << 30
#: Windows of a slab that are walked to find its largest rings; the course repeats.
_WALKED = 384


@dataclass(frozen=True)
class Part:
    """One contribution to a sweep's peak memory."""

    name: str
    bytes: int


@dataclass(frozen=True)
class Partition:
    """How a pass is cut up and what that costs.

    Attributes
    ----------
    grid : Grid
        The slabs.
    window : int
        Slices finished at a time.
    overlap : bool
        Whether there is room to read ahead and write behind.
    parts : tuple of Part
        The peak memory of a slab, step by step.
    """

    grid: Grid
    window: int
    overlap: bool
    parts: tuple[Part, ...]

    @property
    def memory(self) -> int:
        return sum(p.bytes for p in self.parts)

    @property
    def largest(self) -> Part:
        return max(self.parts, key=lambda p: p.bytes, default=Part("nothing", 0))


class TooLarge(Exception):
    """No partition of a program fits; carries the smallest one."""

    def __init__(self, smallest: Partition):
        self.smallest = smallest


def write_grid(program: Program) -> Triple:
    """The least common multiple of the outputs' write units."""
    unit = [1, 1, 1]
    for output in program.outputs:
        unit = [math.lcm(a, b) for a, b in zip(unit, output.sink.unit, strict=True)]
    return (unit[0], unit[1], unit[2])


def choose(program: Program, budget: int, workers: int, threads: int) -> Partition:
    """The partition whose slabs' peak stays under ``budget`` with the fewest voxels read twice.

    Whole planes before tiles, prefetching before tiles, larger windows before smaller ones.

    Raises
    ------
    TooLarge
        Even the smallest tiles and windows need more.
    """
    smallest: Partition | None = None
    for tile, window, overlap in _candidates(program):
        depth = _depth(program, tile, workers)
        part = measure(program, (depth, *tile), window, overlap, threads)
        if part.memory <= budget:
            return part
        if smallest is None or part.memory < smallest.memory:
            smallest = part
    assert smallest is not None
    raise TooLarge(smallest)


def least(program: Program, threads: int) -> Partition:
    """The partition with the smallest peak."""
    unit = write_grid(program)
    return measure(program, (unit[0], *_tiles(program)[-1]), 1, False, threads)


def _tiles(program: Program) -> list[tuple[int, int]]:
    """Tiles from the whole plane down to one unit, rows halved before columns."""
    unit = write_grid(program)
    whole = [max(1, n) for n in program.shape]
    # Without an output nothing forces tiles, but tiny ones would only re-read halos.
    unit_y, unit_x = (u if program.outputs else min(n, 64) for u, n in zip(unit[1:], whole[1:], strict=True))
    y, x = whole[1], whole[2]
    tiles = [(y, x)]
    while y > unit_y or x > unit_x:
        # Rows are contiguous in memory and in chunks: cut them last.
        if y > unit_y and (y >= 4 * unit_y or x <= y or x <= unit_x):
            y = max(unit_y, -(-(-(-y // 2)) // unit_y) * unit_y)
        else:
            x = max(unit_x, -(-(-(-x // 2)) // unit_x) * unit_x)
        tiles.append((y, x))
    return tiles


def _candidates(program: Program) -> Iterator[tuple[tuple[int, int], int, bool]]:
    for tile in _tiles(program):
        best = preferred_window(program, tile)
        for window in dict.fromkeys((best, max(1, best // 2), max(1, best // 4), 1)):
            yield tile, window, True
    for tile in _tiles(program)[-2:]:
        yield tile, 1, False


def preferred_window(program: Program, tile: tuple[int, int]) -> int:
    depth = max((o.sink.unit[0] for o in program.outputs), default=64)
    return max(1, min(32, depth, max(1, program.shape[0]), round(_WINDOW_VOXELS / (tile[0] * tile[1]))))


def _depth(program: Program, tile: tuple[int, int], workers: int) -> int:
    """Slab depth: few voxels read twice, but slabs enough for the workers and for a retry to be cheap."""
    nz = max(1, program.shape[0])
    unit = write_grid(program)[0]
    layers = [s.source.chunk[0] for s in program.steps if s.source is not None]
    step = math.lcm(unit, *(d for d in layers if d < nz))
    if step > nz // max(1, workers):
        step = unit
    plane = tile[0] * tile[1]
    tiles = math.prod(-(-n // t) for n, t in zip(program.shape[1:], tile, strict=True)) or 1
    halo = max((lo for lo in _halo_depths(program)), default=0)
    wanted = max(halo / _AMPLIFICATION, _LEAST_VOXELS / plane)
    parallel = nz / max(1.0, 4 * workers / tiles)
    depth = min(max(wanted, parallel), max(_MOST_VOXELS / plane, halo))
    if nz / depth < workers / tiles:
        depth = nz * tiles / workers
    return min(max(step, round(depth / step) * step), -(-nz // unit) * unit)


def _halo_depths(program: Program) -> Iterator[int]:
    middle = program.shape[0] // 2
    regions = program.regions(0, (middle, min(middle + 1, max(program.shape[0], 1))))
    for step, (lo, hi) in zip(program.steps, regions, strict=True):
        if step.source is not None:
            yield max(0, hi - lo - 1)


def measure(program: Program, slab: Triple, window: int, overlap: bool, threads: int) -> Partition:
    """The peak memory of the largest slab of a grid."""
    grid = Grid(program.shape, slab)
    if len(grid) == 0:
        return Partition(grid, window, overlap, ())
    capacity = [0] * len(program.steps)
    longest = [0] * len(program.steps)
    for z in _representatives(grid, 0):
        for part in _shortened(z, window):
            plan = schedule(program, part, window, overlap)
            before = [lo for lo, _ in plan.regions]
            for w in plan.windows:
                longest = [max(n, b - a) for n, a, b in zip(longest, before, w.tops, strict=True)]
                before = w.tops
            capacity = list(map(max, capacity, plan.capacity))
    rows, cols = ([0] * len(program.steps) for _ in range(2))
    for axis, size in ((1, rows), (2, cols)):
        for span in _representatives(grid, axis):
            for i, (a, b) in enumerate(program.extents(axis, program.regions(axis, span))):
                size[i] = max(size[i], b - a)
    parts = []
    scratch = 0
    for i, step in enumerate(program.steps):
        depth = capacity[i] + program.constant_slice(i)
        name = f"{step.name} ({depth} slices of {rows[i]} x {cols[i]} {step.dtype})"
        parts.append(Part(name, aligned(depth * rows[i] * cols[i] * step.dtype.itemsize)))
        if step.stage is not None:
            strips = max(1, min(threads, rows[i]))
            one = step.stage.scratch(-(-rows[i] // strips), cols[i], longest[i])
            scratch = max(scratch, strips * one)
    for fold in program.folds:
        parts.append(Part(f"{fold.reduction.name} (state)", (threads + 2) * 2 * fold.reduction.state_bytes))
    reads = sum(
        read_overhead_bytes(s.source, threads) for s in program.steps if s.source is not None
    )
    writes = sum(
        write_overhead_bytes(o.sink, (min(slab[0], o.sink.unit[0]), slab[1], slab[2])) for o in program.outputs
    )
    parts += [Part("scratch of a stage", scratch), Part("decoding", reads), Part("encoding", writes)]
    return Partition(grid, window, overlap, tuple(p for p in parts if p.bytes))


def _representatives(grid: Grid, axis: int) -> list[Range]:
    """Ranges of the first, last and middle cells along an axis: one of them is the most costly."""
    n, step, count = grid.shape[axis], grid.step[axis], grid.counts[axis]
    picks = sorted({0, min(1, count - 1), count // 2, max(0, count - 2), count - 1})
    return [(k * step, min(n, k * step + step)) for k in picks]


def _shortened(z: Range, window: int) -> Sequence[Range]:
    """A long slab's beginning and end."""
    most = _WALKED * window
    if z[1] - z[0] <= 2 * most:
        return [z]
    return [(z[0], z[0] + most), (z[1] - (z[1] - z[0] - most) % most - most, z[1])]


def chunks_read(program: Program, grid: Grid) -> list[tuple[int, int, int]]:
    """Per source step: chunks that all slabs read, chunks its needed region has, bytes of a chunk.

    Boxes are products of ranges, so the total over all slabs is the product of totals per axis.
    """
    result = []
    per_axis: list[list[int]] = []
    for axis in range(3):
        sums = [0] * len(program.steps)
        for k in range(grid.counts[axis] if len(grid) else 0):
            span = (k * grid.step[axis], min(grid.shape[axis], (k + 1) * grid.step[axis]))
            for i, (a, b) in enumerate(program.regions(axis, span)):
                source = program.steps[i].source
                if source is not None:
                    sums[i] += cells_touched(a, b, source.chunk[axis], source.chunk_origin[axis])
        per_axis.append(sums)
    for i, step in enumerate(program.steps):
        if step.source is None:
            continue
        read = math.prod(sums[i] for sums in per_axis)
        once = 1 if len(grid) else 0
        for axis in range(3):
            if len(grid):
                a, b = program.regions(axis, (0, grid.shape[axis]))[i]
                once *= cells_touched(a, b, step.source.chunk[axis], step.source.chunk_origin[axis])
        result.append((read, once, math.prod(step.source.chunk) * step.dtype.itemsize))
    return result


def units_written(program: Program) -> list[tuple[int, int]]:
    """Per output: its write units, and bytes of voxels."""
    return [
        (
            math.prod(-(-n // u) for n, u in zip(program.shape, o.sink.unit, strict=True)),
            math.prod(program.shape) * o.sink.dtype.itemsize,
        )
        for o in program.outputs
    ]
