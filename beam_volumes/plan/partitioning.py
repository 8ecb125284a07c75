"""Choosing slabs, tiles and windows for a program so that a sweep stays within its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from beam_volumes.geometry import Grid, Triple, cells_touched
from beam_volumes.storage.sink import write_overhead_bytes
from beam_volumes.storage.source import Source, read_overhead_bytes
from beam_volumes.sweep.program import Edge, Output, Program, Range
from beam_volumes.sweep.resources import aligned
from beam_volumes.sweep.schedule import OVERLAPS, Overlap, gathered, layer_of, schedule

#: Voxels a window should have: enough that a round of threads costs little beside the work.
_WINDOW_VOXELS = 8 << 20
#: Slabs should not read more than this share again at their ends.
_AMPLIFICATION = 0.10
#: A slab should be at least so many voxels, where parallelism does not ask for less, and at most so many.
_LEAST_VOXELS, _MOST_VOXELS = 1 << 26, 1 << 32


@dataclass(frozen=True)
class Crew:
    """Who does the work on a machine.

    Attributes
    ----------
    workers : int
        Slabs in flight.
    processes : int
        That they are spread over.
    threads : int
        Of each process.
    """

    workers: int = 1
    processes: int = 1
    threads: int = 1

    @property
    def sweeps(self) -> int:
        """The most slabs in flight in a process."""
        return -(-self.workers // self.processes)

    def share(self, size: int) -> int:
        """What a slab has of bytes that each process has once."""
        return -(-size * self.processes // self.workers)


@dataclass(frozen=True)
class MemoryItem:
    """One contribution to a sweep's peak memory."""

    name: str
    bytes: int
    reserved: bool = False


@dataclass(frozen=True)
class Partitioning:
    """How a pass is cut up and what that costs.

    Attributes
    ----------
    grid : Grid
        The slabs.
    window : int
        Slices finished at a time.
    overlap : Overlap
        What there is room for.
    parts : tuple of MemoryItem
        The peak memory of a slab, step by step.
    """

    grid: Grid
    window: int
    overlap: Overlap
    parts: tuple[MemoryItem, ...]

    @property
    def memory(self) -> int:
        return sum(p.bytes for p in self.parts)

    @property
    def reserved(self) -> int:
        """Bytes set aside for what grows with what is found."""
        return sum(p.bytes for p in self.parts if p.reserved)

    @property
    def largest(self) -> MemoryItem:
        return max(self.parts, key=lambda p: p.bytes, default=MemoryItem("nothing", 0))


class TooLarge(Exception):
    """No partition of some programs fits; carries the smallest ones."""

    def __init__(self, smallest: list[Partitioning]):
        self.smallest = smallest


def write_grid(programs: Sequence[Program]) -> Triple:
    """The least common multiple of the outputs' write units."""
    unit = [1, 1, 1]
    for output in _outputs(programs):
        unit = [math.lcm(a, b) for a, b in zip(unit, output.sink.unit, strict=True)]
    return (unit[0], unit[1], unit[2])


def choose(programs: Sequence[Program], budget: int, crew: Crew) -> list[Partitioning]:
    """Partitions of programs over one domain, all with the same slabs and windows.

    That whose slabs' peak stays under ``budget`` with the fewest chunks read twice; of equals the one
    with larger tiles, then larger windows. Room to read ahead is given up where more than a tenth
    would be read twice, room to write behind where nothing else would do.

    Raises
    ------
    TooLarge
        Even the smallest tiles and windows need more.
    """
    if 0 in programs[0].shape:
        return least(programs, crew)
    best: list[Partitioning] | None = None
    least_read = math.inf
    for overlap in OVERLAPS[:2]:
        for tile in _tiles_for(programs, crew.workers):
            parts = _fitting(programs, tile, overlap, budget, crew)
            if parts is None:
                continue
            read = max(
                _amplification_inside(p, part.grid) for p, part in zip(programs, parts, strict=True)
            )
            if read < 0.97 * least_read:
                best, least_read = parts, read
            if least_read <= 1 + _AMPLIFICATION or read > 1.5 * least_read:
                break
        if least_read <= 1 + _AMPLIFICATION:
            break
    if best is not None:
        return best
    smallest = least(programs, crew)
    if peak(smallest) > budget:
        raise TooLarge(smallest)
    tile = (smallest[0].grid.step[1], smallest[0].grid.step[2])
    slab = (_depth(programs, tile, crew.workers), *tile)
    parts = [measure(p, slab, 1, OVERLAPS[-1], crew) for p in programs]
    return parts if peak(parts) <= budget else smallest


def peak(parts: Sequence[Partitioning]) -> int:
    """What the most demanding of several needs."""
    return max(p.memory for p in parts)


def _outputs(programs: Sequence[Program]) -> list[Output]:
    return [o for p in programs for o in p.outputs]


def _fitting(
    programs: Sequence[Program],
    tile: tuple[int, int],
    overlap: Overlap,
    budget: int,
    crew: Crew,
) -> list[Partitioning] | None:
    """The largest window with which slabs of a tile fit the budget.

    Room to read ahead may take half of the window, and no more: stages share work among its slices.
    """
    slab = (_depth(programs, tile, crew.workers), *tile)
    if any(_rings_at_least(p, slab) > budget for p in programs):
        return None

    def measured(window: int) -> list[Partitioning]:
        return [measure(p, slab, window, overlap, crew) for p in programs]

    window = preferred_window(programs, tile)
    narrowest = max(1, window // 2) if overlap.ahead else 1
    narrow = measured(narrowest)
    if peak(narrow) > budget and not any(p.surveys or p.barriers for p in programs):
        return None
    while window > narrowest:
        parts = measured(window)
        if peak(parts) <= budget:
            return parts
        window //= 2
    return narrow if peak(narrow) <= budget else None


def _amplification_inside(program: Program, grid: Grid) -> float:
    """How often a slab in the middle of the volume makes chunks be read, on average."""
    read = needed = 0.0
    box = grid.box(len(grid) // 2) if len(grid) else None
    if box is None:
        return 1.0
    chunks = [1.0] * len(program.steps)
    for axis in range(3):
        span = (box.start[axis], box.stop[axis])
        for i, (a, b) in enumerate(program.regions(axis, span)):
            source = program.steps[i].source
            if source is not None:
                size = source.chunk[axis]
                cells = cells_touched(a, b, size, source.chunk_origin[axis])
                # Chunks that reach beyond the slab are shared fairly if it is smaller than they are.
                chunks[i] *= cells * size
    for i, step in enumerate(program.steps):
        if step.source is not None:
            read += chunks[i] * step.dtype.itemsize
            needed += (
                max(box.size, step.source.chunk_bytes / step.dtype.itemsize) * step.dtype.itemsize
            )
    return read / needed if needed else 1.0


def least(programs: Sequence[Program], crew: Crew) -> list[Partitioning]:
    """The partitions with the smallest peak."""
    tile = _tiles(programs)[-1]
    depth = _depth(programs, tile, 1) if _spans(programs, 0) else write_grid(programs)[0]
    slab = (depth, *tile)
    return [measure(p, slab, 1, OVERLAPS[-1], crew) for p in programs]


def _tiles(programs: Sequence[Program]) -> list[tuple[int, int]]:
    """Tiles from the whole plane down to one unit, rows halved before columns."""
    unit = write_grid(programs)
    whole = [max(1, n) for n in programs[0].shape]
    # Without an output nothing forces tiles, but tiny ones would only re-read halos.
    unit_y, unit_x = (
        n if _spans(programs, axis) else u if _outputs(programs) else min(n, 64)
        for axis, u, n in zip((1, 2), unit[1:], whole[1:], strict=True)
    )
    y, x = whole[1], whole[2]
    tiles = [(y, x)]
    while y > unit_y or x > unit_x:
        # Square tiles have the least halo; rows of a thousand voxels are as fast as longer ones.
        if y > unit_y and (y >= x or x <= max(unit_x, 1024)):
            y = _half(y, unit_y)
        else:
            x = _half(x, unit_x)
        tiles.append((y, x))
    return tiles


def _spans(programs: Sequence[Program], axis: int) -> bool:
    """Whether slabs have to be as wide as the volume along an axis."""
    return any(axis in p.spans for p in programs)


def _half(n: int, unit: int) -> int:
    """About half of ``n``, in whole units."""
    return max(unit, (n + 2 * unit - 1) // (2 * unit) * unit)


def _tiles_for(programs: Sequence[Program], workers: int) -> list[tuple[int, int]]:
    """The tiles to choose from: where slabs are as deep as the volume, they alone give slabs enough.

    Unless they make chunks, such as whole slices, be read again.
    """
    tiles = _tiles(programs)
    if not _spans(programs, 0):
        return tiles
    shape = programs[0].shape
    depth, rows, cols = shape
    enough = [
        (y, x)
        for y, x in tiles
        if -(-rows // y) * -(-cols // x) >= workers and depth * y * x <= _MOST_VOXELS
    ] or tiles[-1:]
    one, many = (
        max(_amplification_inside(p, Grid(shape, (depth, *some[0]))) for p in programs)
        for some in (tiles, enough)
    )
    return enough if many <= (1 + _AMPLIFICATION) * one else tiles


def preferred_window(programs: Sequence[Program], tile: tuple[int, int]) -> int:
    depth = max((o.sink.unit[0] for o in _outputs(programs)), default=64)
    nz = max(1, programs[0].shape[0])
    stages = [s.stage for p in programs for s in p.steps if s.stage is not None]
    shared = max((s.preferred_slices for s in stages), default=1)
    return max(1, min(32, depth, nz, max(shared, round(_WINDOW_VOXELS / (tile[0] * tile[1])))))


def _depth(programs: Sequence[Program], tile: tuple[int, int], workers: int) -> int:
    """Slab depth: few voxels read twice, but slabs enough for the workers and for a retry to be cheap."""
    shape = programs[0].shape
    nz = max(1, shape[0])
    unit = write_grid(programs)[0]
    if _spans(programs, 0):
        return -(-nz // unit) * unit
    steps = [s for p in programs for s in p.steps]
    layers = [s.source.chunk[0] for s in steps if s.source is not None]
    step = math.lcm(unit, *(d for d in layers if d < nz))
    if step > nz // max(1, workers):
        step = unit
    plane = tile[0] * tile[1]
    tiles = math.prod(-(-n // t) for n, t in zip(shape[1:], tile, strict=True)) or 1
    twice = max(map(_read_twice, programs))
    wanted = max(twice / _AMPLIFICATION, _LEAST_VOXELS / plane)
    parallel = nz * tiles / (4 * workers)
    depth = min(max(wanted, parallel), _MOST_VOXELS / plane, nz)
    if nz * tiles < workers * depth:
        depth = nz * tiles / workers
    return min(max(step, round(depth / step) * step), -(-nz // unit) * unit)


def _read_twice(program: Program) -> int:
    """Slices that a slab reads beyond its own, in whole layers of chunks."""
    middle = program.shape[0] // 2
    most = 0
    regions = program.regions(0, (middle, min(middle + 1, max(program.shape[0], 1))))
    for step, (lo, hi) in zip(program.steps, regions, strict=True):
        if step.source is not None and hi - lo > 1:
            depth = min(step.source.chunk[0], program.shape[0])
            most = max(most, -(-(hi - lo - 1) // depth) * depth)
    return most


def fit(
    programs: Sequence[Program], slab: Triple, window: int, crew: Crew, budget: int
) -> list[Partitioning]:
    """Partitions into given slabs and windows, with room for as much overlap as the budget has."""
    for overlap in OVERLAPS:
        parts = [measure(p, slab, window, overlap, crew) for p in programs]
        if peak(parts) <= budget:
            break
    return parts


def measure(
    program: Program, slab: Triple, window: int, overlap: Overlap, crew: Crew
) -> Partitioning:
    """The peak memory of the largest slab of a grid."""
    grid = Grid(program.shape, slab)
    if len(grid) == 0:
        return Partitioning(grid, window, overlap, ())
    capacity = [0] * len(program.steps)
    longest = [0] * len(program.steps)
    copies = [0] * len(program.steps)
    for z in _representatives(program, grid, 0):
        for part in _shortened(program, z, window):
            depths, strides, wrapped = _rings(program, part, window, overlap)
            capacity = list(map(max, capacity, depths))
            longest = list(map(max, longest, strides))
            copies = list(map(max, copies, wrapped))
    rows, cols = ([0] * len(program.steps) for _ in range(2))
    for axis, size in ((1, rows), (2, cols)):
        for span in _representatives(program, grid, axis):
            for i, (a, b) in enumerate(program.extents(axis, program.regions(axis, span))):
                size[i] = max(size[i], b - a)

    def copied(edges: Sequence[Edge], plane: int) -> int:
        """Bytes of the windows that are no arrays as they lie."""
        return sum(copies[e.step] * plane * program.steps[e.step].dtype.itemsize for e in edges)

    parts = []
    scratch = 0
    for i, step in enumerate(program.steps):
        depth = capacity[i] + program.constant_slice(i)
        name = f"{step.name} ({depth} slices of {rows[i]} x {cols[i]} {step.dtype})"
        parts.append(MemoryItem(name, aligned(depth * rows[i] * cols[i] * step.dtype.itemsize)))
        if step.stage is not None:
            strips = max(1, min(crew.threads, rows[i]))
            one = step.stage.scratch(-(-rows[i] // strips), cols[i], longest[i])
            scratch = max(scratch, strips * one)
            if step.stage.carried is not None:
                plane = rows[i] * cols[i] * step.stage.carried.nbytes
                parts.append(MemoryItem(f"{step.name} (a plane from slice to slice)", plane))
        if step.completion is not None:
            voxels, windows = (longest[i], rows[i], cols[i]), -(-slab[0] // window) + 1
            inputs = tuple(program.steps[e.step].dtype for e in step.edges)
            working = step.completion.working_bytes(voxels, inputs)
            scratch = max(scratch, working + copied(step.edges, rows[i] * cols[i]))
            kept = step.completion.state_bytes((slab[0], rows[i], cols[i]), windows)
            parts.append(MemoryItem(f"{step.name} (answer)", kept))
    for seen in program.surveys:
        wide = [min(n, s + seen.survey.upper) for n, s in zip(program.shape, slab, strict=True)]
        inputs = tuple(program.steps[e.step].dtype for e in seen.edges)
        voxels = (min(window, wide[0]), wide[1], wide[2])
        working = seen.survey.working_bytes(voxels, inputs)
        scratch = max(scratch, working + copied(seen.edges, wide[1] * wide[2]))
        kept = seen.survey.state_bytes((wide[0], wide[1], wide[2]), -(-slab[0] // window) + 1)
        parts.append(MemoryItem(f"{seen.survey.name} (what is found)", kept, True))
    for fold in program.folds:
        parts.append(
            MemoryItem(f"{fold.reduction.name} (state)", fold.reduction.peak_bytes(crew.threads))
        )
    reads = read_overhead_bytes(
        [s.source for s in program.steps if s.source is not None], crew.threads
    )
    writes = write_overhead_bytes(
        [(o.sink, (min(slab[0], o.sink.unit[0]), slab[1], slab[2])) for o in program.outputs],
        crew.threads,
        crew.sweeps,
    )
    once = "" if crew.sweeps == 1 else ", of which a process has one part"
    parts += [
        MemoryItem("scratch of a stage", scratch),
        MemoryItem(f"decoding{once}", crew.share(reads)),
        MemoryItem(f"encoding{once}", crew.share(writes)),
    ]
    return Partitioning(grid, window, overlap, tuple(p for p in parts if p.bytes))


def _representatives(program: Program, grid: Grid, axis: int) -> list[Range]:
    """Ranges of the first, last and middle cells along an axis: one of them is the most costly.

    In the middle, as many as begin elsewhere in a layer of what is read. Where steps have grids of
    their own, also others, and those where padding begins and ends.
    """
    n, step, count = grid.shape[axis], grid.step[axis], grid.counts[axis]
    picks = {0, 1, count // 2, count - 2, count - 1}
    if axis == 0:
        depths = [s.source.chunk[0] for s in program.steps if s.source is not None]
        phases = max((d // math.gcd(d, step) for d in depths), default=1)
        if program.regrids:
            phases = max([32, *depths])
        first = max(0, (count - phases) // 2)
        picks |= set(range(first, first + phases))
    for regrid in program.regrids:
        for end in regrid.inner(axis):
            picks |= {end // step + k for k in (-1, 0, 1)}
        picks |= {count * k // 8 for k in range(8)}
    return [(k * step, min(n, k * step + step)) for k in sorted(picks) if 0 <= k < count]


def _shortened(program: Program, z: Range, window: int) -> list[Range]:
    """A long slab's beginning and end: between them its course repeats."""
    middle, whole = program.shape[0] // 2, program.shape[0]
    halo = max(b - a for a, b in program.regions(0, (middle, min(middle + 1, whole))))
    # What is padded is no part of the course, and a layer of what is coarser lasts longer.
    halo += sum(r.grid[0] - (r.inner(0)[1] - r.inner(0)[0]) for r in program.regrids)
    layers = [
        layer_of(program, i)[0] * max(1, -(-whole // max(1, step.shape[0])))
        for i, step in enumerate(program.steps)
    ]
    # Each layer has met windows in every way once.
    period = max(
        (window * d if program.regrids else math.lcm(window, d) for d in layers if d < whole),
        default=window,
    )
    most = 2 * (halo + max(layers) + window) + period
    most = -(-most // window) * window
    if z[1] - z[0] <= 2 * most:
        return [z]
    return [(z[0], z[0] + most), (z[1] - (z[1] - z[0]) % most - most, z[1])]


#: What `_rings` has found, for as long as the program is there: it may hold arrays.
_found: WeakKeyDictionary[Program, dict] = WeakKeyDictionary()


def _rings(
    program: Program, z: Range, window: int, overlap: Overlap
) -> tuple[list[int], list[int], list[int]]:
    """Per step the slices its ring holds in a slab, the most that are computed at once, and the most
    that are copied to be an array."""
    known = _found.setdefault(program, {})
    if (z, window, overlap) not in known:
        known[z, window, overlap] = _scheduled(program, z, window, overlap)
    return known[z, window, overlap]


def _scheduled(
    program: Program, z: Range, window: int, overlap: Overlap
) -> tuple[list[int], list[int], list[int]]:
    plan = schedule(program, z, window, overlap)
    longest = [0] * len(program.steps)
    before = [lo for lo, _ in plan.regions]
    for w in plan.windows:
        longest = [max(n, b - a) for n, a, b in zip(longest, before, w.tops, strict=True)]
        before = w.tops
    return plan.capacity, longest, gathered(program, plan)


def _rings_at_least(program: Program, slab: Triple) -> int:
    """A lower bound of a slab's peak memory, from the halos alone: quick."""
    box = Grid(program.shape, slab).box(0)
    middle = min(program.shape[0] - 1, box.stop[0] // 2)
    depths = program.regions(0, (middle, middle + 1))
    rows, cols = (program.regions(a, (box.start[a], box.stop[a])) for a in (1, 2))
    return (
        sum(
            (z[1] - z[0]) * (y[1] - y[0]) * (x[1] - x[0]) * step.dtype.itemsize
            for step, z, y, x in zip(program.steps, depths, rows, cols, strict=True)
            if step.source is None
        )
        // 2
    )


@dataclass(frozen=True)
class Read:
    """What all slabs of a pass read of a source, in chunks; in voxels where it is in memory.

    Attributes
    ----------
    of : str
        What is read: sources of one token are parts of one array.
    name : str
    units : int
    cells : tuple of (int, int)
        Along each axis the range of the array's units that are needed at all.
    unit_bytes : int
    in_memory : bool
    """

    of: str
    name: str
    units: int
    cells: tuple[Range, Range, Range]
    unit_bytes: int
    in_memory: bool

    @property
    def bytes(self) -> int:
        return self.units * self.unit_bytes

    @property
    def bytes_once(self) -> int:
        """Of the units that are needed at all."""
        return math.prod(b - a for a, b in self.cells) * self.unit_bytes


def chunks_read(program: Program, grid: Grid) -> list[Read]:
    """What is read of each source step.

    Boxes are products of ranges, so the total over all slabs is the product of totals per axis.
    """
    totals: list[list[int]] = []
    for axis in range(3):
        sums = [0] * len(program.steps)
        for k in range(grid.counts[axis] if len(grid) else 0):
            span = (k * grid.step[axis], min(grid.shape[axis], (k + 1) * grid.step[axis]))
            for i, (a, b) in enumerate(program.regions(axis, span)):
                source = program.steps[i].source
                if source is not None:
                    sums[i] += source.units_touched(axis, (a, b))
        totals.append(sums)
    whole = [program.regions(axis, (0, grid.shape[axis])) for axis in range(3)] if len(grid) else []
    return [
        Read(
            step.source.reader.token(),
            step.source.name,
            math.prod(sums[i] for sums in totals),
            tuple(  # type: ignore[arg-type]
                _cells(step.source, axis, whole[axis][i]) if whole else (0, 0) for axis in range(3)
            ),
            math.prod(step.source.read_unit) * step.dtype.itemsize,
            step.source.held,
        )
        for i, step in enumerate(program.steps)
        if step.source is not None
    ]


def _cells(source: Source, axis: int, span: Range) -> Range:
    """The chunks of what a source is part of, along an axis, that a range of it touches."""
    size, at = source.read_unit[axis], source.offset[axis]
    first = at + (0 if source.held else source.chunk_origin[axis])
    # Parts that begin elsewhere count chunks from the same place.
    start = (span[0] + at - first) // size + first // size
    return start, start + source.units_touched(axis, span)


def chunks_needed(boxes: Sequence[tuple[Range, Range, Range]]) -> int:
    """How many chunks are in any of some boxes of chunks."""
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
    """Per output: its write units, and bytes of voxels."""
    return [
        (
            math.prod(-(-n // u) for n, u in zip(program.shape, o.sink.unit, strict=True)),
            math.prod(program.shape) * o.sink.dtype.itemsize,
        )
        for o in program.outputs
    ]
