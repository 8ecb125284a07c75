"""Choose slabs, tiles and windows for a program so that a sweep fits its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.plan.cost import memory
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.memory import MemoryItem
from beam_volumes.plan.cost.traffic import amplification_inside
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.sweep.device import DEVICE, HOST
from beam_volumes.sweep.program import Output, Program
from beam_volumes.sweep.schedule import OVERLAPS, Overlap

#: Voxels of a window: enough to make the overhead of threads negligible.
_WINDOW_VOXELS = 8 << 20
#: The same for programs of more stages, such as Hessian matrices: each has a ring, and together they work
#: long enough on fewer voxels.
_MANY_STAGES, _WINDOW_VOXELS_OF_MANY = 8, 1 << 20
#: The same for programs with stages on a device, where a launch takes longer than a kernel of few slices.
_WINDOW_VOXELS_OF_DEVICE, _WINDOW_SLICES_OF_DEVICE = 32 << 20, 64
#: Slabs should read at most this share repeatedly at their borders.
_AMPLIFICATION = 0.10
#: With overlap or likely results, one part in so many of the budget is left for answers.
_ANSWERS = 8
#: Maximum number of windows of a slab, unless the user asks for narrower ones.
_MAX_WINDOWS = 1 << 12
#: Minimum voxels of a slab, unless parallelism needs smaller ones, and maximum.
_MIN_VOXELS, _MAX_VOXELS = 1 << 26, 1 << 32
#: Slabs that each slot of a machine gets, if there are enough voxels: where machines wait for the last slabs
#: of a pass, those are a small part of it.
_SLABS_EACH = 4
#: On several machines slabs may have as few voxels, where not all would get one otherwise.
_SMALLEST_VOXELS = 1 << 22


@dataclass(frozen=True)
class Partitioning:
    """The slabs and windows of a pass, and their memory."""

    grid: Grid  #: The slabs.
    window: int  #: Slices computed at a time.
    overlap: Overlap  #: Room for reading ahead and writing behind.
    parts: tuple[MemoryItem, ...]  #: The peak memory of a slab's sweep, part by part.
    #: The peak memory of a step of the merges, which begin when the sweep has freed its memory: the
    #: step, and memory of the sweep that is not free.
    merge: tuple[MemoryItem, ...] = ()

    @property
    def memory(self) -> int:
        """The peak of a slab: in its sweep, or in the merges after it."""
        return max(self.sweep_memory, self.merge_memory)

    @property
    def sweep_memory(self) -> int:
        return sum(p.bytes for p in self.parts if p.place == HOST)

    @property
    def device_memory(self) -> int:
        """The peak of a slab's sweep in device memory."""
        return sum(p.bytes for p in self.parts if p.place == DEVICE)

    @property
    def merge_memory(self) -> int:
        return sum(p.bytes for p in self.merge)

    @property
    def kept(self) -> int:
        """Bytes of the sweep that are not free while its merges run."""
        return sum(p.bytes for p in self.merge[1:])

    def limit_bytes(self, budget: int) -> int:
        """Bytes that surveys may keep of a slab that may take ``budget`` bytes."""
        return max(self.reserved, budget - self.sweep_memory + self.reserved)

    @property
    def has_answers(self) -> bool:
        """Whether its memory grows with the results of an earlier pass."""
        return any(p.is_answer for p in self.parts)

    @property
    def likely(self) -> int:
        """The peak memory of its sweep, with all results of their likely size."""
        return sum(max(p.bytes, p.likely) for p in self.parts if p.place == HOST)

    @property
    def answer_bytes(self) -> int:
        """Bytes of answers that are part of its memory."""
        return sum(p.bytes for p in self.parts if p.is_answer)

    def answer_limit_bytes(self, budget: int) -> int:
        """Bytes that answers may take in a slab that may take ``budget`` bytes.

        Results in the same sweep get the rest: half of the spare memory, unless answers then have too little.
        """
        spare = max(0, budget - self.sweep_memory)
        own = max(spare // 2, budget // _ANSWERS) if self.reserved else spare
        return self.answer_bytes + min(spare, own)

    def merge_limit_bytes(self, budget: int) -> int:
        """Bytes that a step of the merges may hold."""
        return max(self.merge_memory, budget) - self.kept

    @property
    def reserved(self) -> int:
        """Bytes reserved for results that depend on the voxels."""
        return sum(p.bytes for p in self.parts if p.minimum)

    def room(self, times: int) -> int:
        """Bytes for ``times`` the minimum of these results, or for their likely size."""
        return sum(max(times * p.minimum, p.likely) for p in self.parts if p.minimum)

    def grown(self, budget: int) -> Partitioning:
        """Grow the parts, and the step of the merges, to their likely size, as far as the budget allows."""
        # If no slabs fit with this size, they are chosen by the minimum, so that no run is refused for
        # results that it may not have.
        # Runs with fewer labels take less memory than predicted. Without room, a slab reports an
        # error at its end, and a merge before it begins.
        parts, merge = self.parts, self.merge
        wanted = [max(0, p.likely - p.bytes) for p in parts]
        # A slab may only have labels for which answers have room, and these may be more than is likely.
        rest = budget - budget // _ANSWERS if self.has_answers else budget
        spare = min(max(0, rest - self.sweep_memory), sum(wanted))
        if spare:
            share = spare / sum(wanted)
            parts = tuple(
                replace(p, bytes=p.bytes + int(share * more))
                for p, more in zip(parts, wanted, strict=True)
            )
        if merge:
            room = min(merge[0].likely, budget - self.kept)
            merge = (replace(merge[0], bytes=max(merge[0].bytes, room)), *merge[1:])
        return replace(self, parts=parts, merge=merge)

    @property
    def largest(self) -> MemoryItem:
        is_merge = self.merge_memory > self.sweep_memory
        parts = self.merge if is_merge else [p for p in self.parts if p.place == HOST]
        return max(parts, key=lambda p: p.bytes, default=MemoryItem("nothing", 0))


class TooLarge(Exception):
    """No partition of some programs fits; has the smallest ones."""

    def __init__(self, smallest: list[Partitioning]):
        self.smallest = smallest


def write_grid(programs: Sequence[Program], stored: Sequence[Sink] = ()) -> Triple:
    """The least common multiple of the write units of outputs and the windows of levels.

    ``stored``: outputs to ignore, because their units follow from the slabs.
    """
    unit = [1, 1, 1]
    for end in (e for p in programs for e in p.ends):
        if isinstance(end, Output) and end.sink in stored:
            continue
        for axis, (u, f) in enumerate(zip(end.unit, end.lattice.step, strict=True)):
            unit[axis] = math.lcm(unit[axis], u * f)
    return (unit[0], unit[1], unit[2])


def choose(
    programs: Sequence[Program], budget: int, concurrency: Concurrency
) -> list[Partitioning]:
    """Partition programs over one domain, all with the same slabs and windows.

    Raises TooLarge: even the smallest tiles and windows do not fit.
    """
    # Of the partitions that fit ``budget``, choose the one with the fewest repeated reads, then the
    # largest tiles, then the largest windows. Room to read ahead is given up if more than a tenth
    # would be read repeatedly, room to write behind if nothing else fits. Slabs with results and merges
    # that are expected to fit come first, then those with such results.
    if 0 in programs[0].shape:
        return smallest_partitions(programs, concurrency)
    # Merges of tables need the same memory for all slabs.
    expected = (budget, budget), (budget, math.inf), (math.inf, math.inf)
    tried = (_best(programs, budget, concurrency, *likely) for likely in expected)
    best = next(filter(None, tried), None)
    if best is not None:
        if any(p.has_answers for p in best):
            return fit(programs, best[0].grid.step, best[0].window, concurrency, budget)
        return best
    smallest = smallest_partitions(programs, concurrency)
    if not fits(smallest, budget, concurrency):
        raise TooLarge(smallest)
    tile = (smallest[0].grid.step[1], smallest[0].grid.step[2])
    slab = (_depth(programs, tile, concurrency), *tile)
    parts = [partitioned(p, slab, _narrowest(slab[0]), OVERLAPS[-1], concurrency) for p in programs]
    return parts if fits(parts, budget, concurrency) else smallest


def _best(
    programs: Sequence[Program],
    budget: int,
    concurrency: Concurrency,
    likely_budget: float,
    merge_budget: float,
) -> list[Partitioning] | None:
    """The best partition, among slabs with results and with merges that are expected to fit these budgets."""
    surveys, unit = [s.survey for p in programs for s in p.surveys], write_grid(programs)[0]
    best: list[Partitioning] | None = None
    minimum_read = math.inf
    for overlap in OVERLAPS[:2]:
        for tile in _tiles_for(programs, concurrency):
            reads = []
            depths = _depths(programs, tile, concurrency)
            for depth in depths:
                grid = Grid(programs[0].shape, (depth, *tile))
                if any(s.merge_size(grid).expected > merge_budget for s in surveys):
                    continue
                parts = _fitting(programs, (depth, *tile), overlap, budget, concurrency)
                if parts is None:
                    continue
                if any(p.likely > likely_budget for p in parts):
                    if (half := _half(depth, unit)) < min(depths):
                        depths.append(half)
                    continue
                read = max(
                    amplification_inside(p, part.grid)
                    for p, part in zip(programs, parts, strict=True)
                )
                reads.append(read)
                if read < 0.97 * minimum_read:
                    best, minimum_read = parts, read
            if reads and (minimum_read <= 1 + _AMPLIFICATION or min(reads) > 1.5 * minimum_read):
                break
        if minimum_read <= 1 + _AMPLIFICATION:
            break
    return best


def fits(parts: Sequence[Partitioning], budget: int, concurrency: Concurrency) -> bool:
    """Whether slabs in flight fit the memory, and their share of the device's."""
    device = concurrency.device_share
    return peak(parts) <= budget and all(p.device_memory <= device for p in parts)


def peak(parts: Sequence[Partitioning]) -> int:
    """The largest memory of several partitions."""
    return max(p.memory for p in parts)


def _outputs(programs: Sequence[Program]) -> list[Output]:
    return [o for p in programs for o in p.outputs]


def _fitting(
    programs: Sequence[Program],
    slab: Triple,
    overlap: Overlap,
    budget: int,
    concurrency: Concurrency,
) -> list[Partitioning] | None:
    """The partitions with the largest window that fit the budget.

    Reading ahead may take at most half of the window: stages share work among its slices.
    """

    def fitting(window: int) -> list[Partitioning] | None:
        if any(memory.lower_bound(p, slab, window, concurrency) > budget for p in programs):
            return None
        parts = []
        for p in programs:
            parts.append(partitioned(p, slab, window, overlap, concurrency))
            if not fits(parts[-1:], budget, concurrency):
                return None
        return parts

    narrowest = _narrowest(slab[0])
    window = max(narrowest, preferred_window(programs, (slab[1], slab[2])))
    widest = fitting(window)
    if widest is not None:
        return widest
    narrowest = max(narrowest, window // 2) if overlap.read_ahead else narrowest
    narrow = fitting(narrowest)
    if narrow is None and not any(p.surveys or p.barriers for p in programs):
        return None
    while (window := window // 2) > narrowest:
        parts = fitting(window)
        if parts is not None:
            return parts
    return narrow


def smallest_partitions(
    programs: Sequence[Program], concurrency: Concurrency
) -> list[Partitioning]:
    """The partitions with the smallest slabs and windows."""
    unit, nz = write_grid(programs)[0], max(1, programs[0].shape[0])
    depth = -(-nz // unit) * unit if _spans(programs, 0) else unit
    slab = (depth, *_tiles(programs)[-1])
    return [partitioned(p, slab, _narrowest(slab[0]), OVERLAPS[-1], concurrency) for p in programs]


def smaller_slab(programs: Sequence[Program], grid: Grid, stored: Sequence[Sink]) -> Triple | None:
    """A slab with about a quarter of the voxels, in whole write units; None if there is none.

    ``programs``: all that have these slabs. ``stored``: as for `write_grid`.
    """
    slab, wanted = list(grid.step), 4.0
    for axis, (n, unit) in enumerate(zip(grid.step, write_grid(programs, stored), strict=True)):
        part = math.ceil(n / wanted / unit) * unit
        if part < n and not _spans(programs, axis):
            slab[axis] = part
            wanted *= part / n
    z, y, x = slab
    return None if (z, y, x) == grid.step else (z, y, x)


def _narrowest(depth: int) -> int:
    """Slices of the smallest window for a slab; a schedule lists all windows."""
    return max(1, -(-depth // _MAX_WINDOWS))


def _tiles(programs: Sequence[Program]) -> list[tuple[int, int]]:
    """Tiles from the whole plane down to one unit, rows halved before columns."""
    unit = write_grid(programs)
    whole = [max(1, n) for n in programs[0].shape]
    # Without an output, tiles could be tiny, but halos would be read repeatedly.
    unit_y, unit_x = (
        n if _spans(programs, axis) else u if _outputs(programs) else min(n, 64)
        for axis, u, n in zip((1, 2), unit[1:], whole[1:], strict=True)
    )
    y, x = whole[1], whole[2]
    tiles = [(y, x)]
    while y > unit_y or x > unit_x:
        # Square tiles have the smallest halo; rows of a thousand voxels are as fast as longer ones.
        if y > unit_y and (y >= x or x <= max(unit_x, 1024)):
            y = _half(y, unit_y)
        else:
            x = _half(x, unit_x)
        tiles.append((y, x))
    return tiles


def _spans(programs: Sequence[Program], axis: int) -> bool:
    """Whether slabs must be as wide as the volume along an axis."""
    return any(axis in p.spans for p in programs)


def _half(n: int, unit: int) -> int:
    """About half of ``n``, in whole units."""
    return max(unit, (n + 2 * unit - 1) // (2 * unit) * unit)


def _tiles_for(programs: Sequence[Program], concurrency: Concurrency) -> list[tuple[int, int]]:
    """The tiles to choose from: those with enough slabs, where slabs are deep or machines are many.

    All of them where smaller tiles would read chunks, such as whole slices, several times.
    """
    tiles = _tiles(programs)
    is_whole = _spans(programs, 0)
    if not is_whole and concurrency.machines == 1:
        return tiles
    shape = programs[0].shape
    depth = shape[0] if is_whole else min(shape[0], write_grid(programs)[0])
    wanted = concurrency.slots
    if not is_whole:
        voxels = math.prod(shape)
        wanted = min(wanted, voxels // _SMALLEST_VOXELS)
        wanted = max(wanted, min(_SLABS_EACH * concurrency.slots, voxels // _MIN_VOXELS))
    enough = [
        (y, x)
        for y, x in tiles
        if len(Grid(shape, (depth, y, x))) >= wanted and depth * y * x <= _MAX_VOXELS
    ] or tiles[-1:]
    one, many = (
        max(amplification_inside(p, Grid(shape, (depth, *some[0]))) for p in programs)
        for some in (tiles, enough)
    )
    return enough if many <= (1 + _AMPLIFICATION) * one else tiles


def preferred_window(programs: Sequence[Program], tile: tuple[int, int]) -> int:
    depth = max((o.unit[0] * o.lattice.step[0] for o in _outputs(programs)), default=64)
    nz = max(1, programs[0].shape[0])
    if any(s.place == DEVICE for p in programs for s in p.steps):
        slices = round(_WINDOW_VOXELS_OF_DEVICE / (tile[0] * tile[1]))
        return max(1, min(_WINDOW_SLICES_OF_DEVICE, nz, slices))
    stages = [[s.stage for s in p.steps if s.stage is not None] for p in programs]
    shared = max((s.preferred_slices for some in stages for s in some), default=1)
    is_many = max(map(len, stages)) > _MANY_STAGES
    voxels = _WINDOW_VOXELS_OF_MANY if is_many else _WINDOW_VOXELS
    return max(1, min(32, depth, nz, max(shared, round(voxels / (tile[0] * tile[1])))))


def _depth(programs: Sequence[Program], tile: tuple[int, int], concurrency: Concurrency) -> int:
    """Slab depth: few repeated reads, but enough slabs for the workers and for cheap retries."""
    shape = programs[0].shape
    nz = max(1, shape[0])
    unit = write_grid(programs)[0]
    if _spans(programs, 0):
        return -(-nz // unit) * unit
    steps = [s for p in programs for s in p.steps]
    layers = [s.source.chunk[0] for s in steps if s.source is not None]
    step = math.lcm(unit, *(d for d in layers if d < nz))
    slots = concurrency.slots
    if step > nz // slots:
        step = unit
    plane = tile[0] * tile[1]
    tiles = math.prod(-(-n // t) for n, t in zip(shape[1:], tile, strict=True)) or 1
    twice = max(_read_twice(p, tile) for p in programs)
    wanted = max(twice / _AMPLIFICATION, _MIN_VOXELS / plane)
    parallel = nz * tiles / (_SLABS_EACH * slots)
    depth = min(max(wanted, parallel), _MAX_VOXELS / plane, nz)
    smallest = 0.0
    if concurrency.machines > 1:
        depth = min(depth, max(parallel, _MIN_VOXELS / plane))
        smallest = min(depth, _SMALLEST_VOXELS / plane)
    if nz * tiles < slots * depth:
        depth = max(nz * tiles / slots, smallest)
    return min(max(step, round(depth / step) * step), -(-nz // unit) * unit)


def natural_depth(program: Program, concurrency: Concurrency) -> int:
    """The depth of slabs of whole planes, or a larger one that is as good."""
    tile = max(1, program.shape[1]), max(1, program.shape[2])
    return max(_depth([program], tile, concurrency), _MIN_VOXELS // math.prod(tile))


def _depths(
    programs: Sequence[Program], tile: tuple[int, int], concurrency: Concurrency
) -> list[int]:
    """Slab depths to try: with enough tiles, also the depth of the deepest chunks."""
    shape = programs[0].shape
    found = [_depth(programs, tile, concurrency)]
    layers = [
        min(s.source.chunk[0], shape[0])
        for p in programs
        for s in p.steps
        if s.source is not None and not s.source.in_memory
    ]
    unit = write_grid(programs)[0]
    whole = min(-(-max(layers, default=1) // unit), -(-max(1, shape[0]) // unit)) * unit
    tiles = math.prod(-(-n // t) for n, t in zip(shape[1:], tile, strict=True))
    if whole > found[0] and tiles >= concurrency.slots and math.prod((whole, *tile)) <= _MAX_VOXELS:
        found.append(whole)
    return found


def _read_twice(program: Program, tile: tuple[int, int]) -> int:
    """Slices that a slab reads in addition to its own, in whole layers of chunks."""
    middle = program.shape[0] // 2
    maximum = 0
    one = (middle, min(middle + 1, max(program.shape[0], 1)))
    y, x = (_middle(n, t) for n, t in zip(program.shape[1:], tile, strict=True))
    regions = program.regions(0, (one, y, x))
    for step, (lo, hi) in zip(program.steps, regions, strict=True):
        if step.source is not None and hi - lo > 1:
            depth = min(step.source.chunk[0], program.shape[0])
            maximum = max(maximum, -(-(hi - lo - 1) // depth) * depth)
    return maximum


def _middle(n: int, step: int) -> tuple[int, int]:
    """The range of the middle cell of an axis."""
    start = n // 2 // step * step
    return start, min(max(1, n), start + step)


def fit(
    programs: Sequence[Program], slab: Triple, window: int, concurrency: Concurrency, budget: int
) -> list[Partitioning]:
    """Partitions with given slabs and windows, with as much overlap as fits the budget.

    Overlap leaves a share of the budget for answers: with more memory there is room for more of them.
    """
    for overlap in OVERLAPS:
        parts = [partitioned(p, slab, window, overlap, concurrency) for p in programs]
        rest = budget - budget // _ANSWERS if any(p.has_answers for p in parts) else budget
        if fits(parts, rest, concurrency):
            break
    return parts


def partitioned(
    program: Program, slab: Triple, window: int, overlap: Overlap, concurrency: Concurrency
) -> Partitioning:
    """A program in given slabs and windows, with its memory."""
    grid = Grid(program.shape, slab)
    parts = memory.of_slab(program, grid, window, overlap, concurrency)
    merge = memory.of_merge(program, grid, parts, concurrency.threads)
    return Partitioning(grid, window, overlap, parts, merge)
