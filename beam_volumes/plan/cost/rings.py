"""The largest rings that the steps of a program need in any slab of a grid.

A `schedule` determines the rings of a slab. Scheduling every slab would take too long. Slabs at the
same phase relative to the chunks are equal, and so are all windows in the middle of a deep slab.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from beam_volumes.base.geometry import Grid, Range, Ranges
from beam_volumes.sweep.program import Edge, Program
from beam_volumes.sweep.schedule import Overlap, delays, layer_of, maxima, schedules

#: If slabs have more phases than this, only those near so many borders of chunks are scheduled.
MAX_PHASES, MAX_BORDERS = 512, 8
#: Slabs are scheduled together, up to so many windows at a time.
_MAX_WINDOWS = 1 << 12


class Rings(NamedTuple):
    """For each step, the maximum over all slabs."""

    slices: list[int]  #: Slices in its ring.
    new: list[int]  #: Slices computed at a time.
    copied: list[int]  #: Slices that are copied for surveys and completions.
    #: Rows and columns of a slice with padding.
    rows: list[int]
    cols: list[int]


def largest_rings(program: Program, grid: Grid, window: int, overlap: Overlap) -> Rings:
    """Return rings that suffice for each slab of a grid."""
    slices, new, copied = _along_z(program, grid, window, overlap)
    return rings_of_planes(program, grid)._replace(slices=slices, new=new, copied=copied)


def rings_of_planes(program: Program, grid: Grid) -> Rings:
    """Return rings without slices, which need no schedule."""
    none = [0] * len(program.steps)
    rows, cols = (_in_plane(program, grid, axis) for axis in (1, 2))
    return Rings(none, none, none, rows, cols)


def _along_z(
    program: Program, grid: Grid, window: int, overlap: Overlap
) -> tuple[list[int], list[int], list[int]]:
    """The slices, new slices and copies of `Rings`."""
    known, key = results_along(program, 0), (along(program, grid, 0), window, overlap)
    if key not in known:
        parts = _distinct(program, _shortened(program, list(_slabs(program, grid, 0)), window))
        longest = max((b - a for (a, b), _, _ in parts), default=1)
        together = max(1, _MAX_WINDOWS * window // longest)
        found = [
            maxima(program, schedules(program, parts[k : k + together], window, overlap))
            for k in range(0, len(parts), together)
        ]
        slices, new, copied = (
            [max(values) for values in zip(*some, strict=True)] for some in zip(*found, strict=True)
        )
        known[key] = slices, new, copied
    return known[key]


def _in_plane(program: Program, grid: Grid, axis: int) -> list[int]:
    """For each step, the maximum number of rows or columns in any slab."""
    known, key = results_along(program, axis), along(program, grid, axis)
    if key not in known:
        maximum = [0] * len(program.steps)
        regions = program.regions_of(axis, list(_slabs(program, grid, axis)))
        for own in zip(*regions, strict=True):
            extents = program.extents(axis, list(own))
            maximum = list(map(max, maximum, (b - a for a, b in extents)))
        known[key] = maximum
    return known[key]


def along(program: Program, grid: Grid, axis: int) -> Hashable:
    """What ranges along an axis depend on: tiles of different shapes have the same along z."""
    return grid if axis in program.coupled else (grid.shape[axis], grid.step[axis])


def _slabs(program: Program, grid: Grid, axis: int) -> Iterator[Ranges]:
    """A sample of slabs that includes the most costly one along an axis."""
    ranges: list[list[Range]] = [[(0, n)] for n in grid.shape]
    if axis not in program.coupled:
        ranges[axis] = _representatives(program, grid, axis)
    for other in program.coupled if axis in program.coupled else ():
        picks = _representatives(program, grid, other)
        # Of all combinations only some: scheduling a slab takes time.
        maximum = len(picks) if axis == 0 == other else 3 if axis == 0 else 8
        ranges[other] = list(dict.fromkeys(picks[:: max(1, len(picks) // maximum)] + picks[-1:]))
    return itertools.product(*ranges)  # type: ignore[return-value]


def _representatives(program: Program, grid: Grid, axis: int) -> list[Range]:
    """Ranges of the first, last and middle cells along an axis; they include the most costly one.

    In the middle one range for each phase relative to the layers that are read. If steps have grids
    of their own, some more, and those where padding begins and ends.
    """
    n, step, count = grid.shape[axis], grid.step[axis], grid.counts[axis]
    picks = {0, 1, count // 2, count - 2, count - 1}
    depths = list(program.grains(axis))
    if axis == 0:
        depths += [s.source.chunk[0] for s in program.steps if s.source is not None]
    if axis == 0 or depths:
        phases = max((d // math.gcd(d, step) for d in depths), default=1)
        if program.regrids and axis == 0:
            phases = max([32, *depths])
        first = max(0, (count - phases) // 2)
        last = min(count, first + phases)
        if last - first <= MAX_PHASES:
            picks |= set(range(first, last))
        else:
            picks |= _at_borders(program, grid, axis, depths)
    for regrid in program.regrids:
        for end in regrid.inner(axis):
            picks |= {end // step + k for k in (-1, 0, 1)}
        picks |= {count * k // 8 for k in range(8)}
    return [(k * step, min(n, k * step + step)) for k in sorted(picks) if 0 <= k < count]


def _at_borders(program: Program, grid: Grid, axis: int, depths: list[int]) -> set[int]:
    """Cells along an axis near borders of layers; other cells are all equal.

    Used if layers are too deep to try each phase.
    """
    n, step = grid.shape[axis], grid.step[axis]
    whole = [(0, extent) for extent in program.shape]
    whole[axis] = (n // 2, min(n, n // 2 + 1))
    z, y, x = whole
    reach = max(b - a for a, b in program.regions(axis, (z, y, x)))
    found: set[int] = set()
    for depth in depths:
        borders = -(-n // depth)
        for k in range(MAX_BORDERS + 1):
            border = borders * k // MAX_BORDERS * depth
            for at in (border - reach, border, border + reach):
                found |= {at // step - 1, at // step, at // step + 1}
    return found


def _shortened(program: Program, slabs: Sequence[Ranges], window: int) -> list[Ranges]:
    """The slabs, of long ones the beginning and the end: their schedules repeat in between."""
    limits = {plane: _repeating(program, window, plane) for plane in {(y, x) for _, y, x in slabs}}
    found: dict[Ranges, None] = {}
    for z, y, x in slabs:
        (start, stop), limit = z, limits[y, x]
        if stop - start <= 2 * limit:
            found[z, y, x] = None
        else:
            found[(start, start + limit), y, x] = None
            found[(stop - (stop - start) % limit - limit, stop), y, x] = None
    return list(found)


def _repeating(program: Program, window: int, plane: tuple[Range, Range]) -> int:
    """The slices after which the schedule of a slab has seen all that happens in its middle."""
    middle, whole = program.shape[0] // 2, program.shape[0]
    halo = max(b - a for a, b in program.regions(0, ((middle, min(middle + 1, whole)), *plane)))
    halo += window * max(delays(program))
    # Padding is not scheduled, and a layer of a coarser input lasts longer.
    regrids = program.regrids
    halo += sum(r.grid[0] - (r.inner(0)[1] - r.inner(0)[0]) for r in regrids)
    layers = [
        layer_of(program, i)[0] * max(1, -(-whole // max(1, step.shape[0])))
        for i, step in enumerate(program.steps)
    ]
    layers += program.grains(0)
    # After a period, each layer has had every offset relative to the windows.
    period = max(
        (window * d if regrids else math.lcm(window, d) for d in layers if d < whole),
        default=window,
    )
    limit = 2 * (halo + max(layers) + window) + period
    return -(-limit // window) * window


def _distinct(program: Program, slabs: list[Ranges]) -> list[Ranges]:
    """The slabs, without those that equal another one, moved by whole layers inside the volume."""
    if program.regrids:
        return slabs
    depths = [layer_of(program, i)[0] for i in range(len(program.steps))]
    units = [end.unit[0] * end.lattice.step[0] for end in program.ends]
    layers = math.lcm(*depths, *units, *program.grains(0))
    shares = [end.shares(0, [z for z, _, _ in slabs]) for end in program.ends]
    regions = program.regions_of(0, slabs)
    found: dict[Hashable, Ranges] = {}
    for k, ((start, stop), *plane) in enumerate(slabs):
        reached, shared = ([ranges[k] for ranges in of] for of in (regions, shares))
        key: Hashable = slabs[k]
        if all(a > 0 and b < s.shape[0] for (a, b), s in zip(reached, program.steps, strict=True)):
            moved = tuple((a - start, b - start) for a, b in (*reached, *shared))
            key = start % layers, stop - start, moved, *plane
        found.setdefault(key, slabs[k])
    return list(found.values())


#: Results of `_along_z`, `_in_plane` and of counts of slabs by axis. Weak keys: a program may contain arrays.
_found: WeakKeyDictionary[Program, dict[int, dict]] = WeakKeyDictionary()
#: The same by the geometry of programs along an axis, for many volumes that differ in their names only, and
#: for chunks that differ along other axes only.
_alike: OrderedDict[Hashable, dict] = OrderedDict()
_MAX_ALIKE = 192


def results_along(program: Program, axis: int) -> dict:
    """The results known along an axis for a program, or for one with the same geometry."""
    of_program = _found.setdefault(program, {})
    if axis not in of_program:
        geometry = _geometry(program, axis)
        of_program[axis] = {} if geometry is None else _alike.setdefault(geometry, {})
        while len(_alike) > _MAX_ALIKE:
            _alike.popitem(last=False)
    return of_program[axis]


def _geometry(program: Program, axis: int) -> Hashable | None:
    """All that schedules and extents along an axis depend on; None if a stage has a grid of its own."""
    if program.regrids:
        return None

    def of_edges(edges: Iterable[Edge]) -> tuple:
        return tuple((e.step, e.offset[axis], e.halo[axis], e.padding.modes[axis]) for e in edges)

    steps = tuple(
        (
            s.shape[axis],
            s.source and (s.source.chunk[axis], s.source.chunk_origin[axis], s.source.in_memory),
            s.stage and (s.stage.grain[axis], s.stage.spans),
            s.completion and s.completion.upper,
            of_edges(s.edges),
        )
        for s in program.steps
    )
    ends = tuple(
        (
            e.lattice.shape[axis],
            e.lattice.start[axis],
            e.lattice.step[axis],
            e.unit[axis],
            of_edges(e.edges),
        )
        for e in program.ends
    )
    surveys = tuple((s.survey.upper, of_edges(s.edges)) for s in program.surveys)
    late = tuple(delays(program))
    shape = program.shape[axis]
    return axis, shape, steps, program.stacks, ends, len(program.outputs), surveys, late
