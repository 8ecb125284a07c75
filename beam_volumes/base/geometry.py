"""Boxes, halos and grids: integer geometry for all layers.

Internally everything is three-dimensional, in the order z, y, x. An axis that users do not see has extent 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

Triple = tuple[int, int, int]
Range = tuple[int, int]
#: One range per axis.
Ranges = tuple[Range, Range, Range]
#: Voxels needed (before, after) a voxel along z, y, x.
Halo = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]

NO_HALO: Halo = ((0, 0), (0, 0), (0, 0))
#: Numbers of neighbours at 1, 2 and 3 steps, by the number of axes. cc3d selects a connectivity by them.
_NEIGHBOURS = {2: (4, 8), 3: (6, 18, 26)}


@dataclass(frozen=True, order=True)
class Box:
    """A half-open box of voxels, ``start <= index < stop``, in z, y, x."""

    start: Triple
    stop: Triple

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> Box:
        z, y, x = shape
        return cls((0, 0, 0), (int(z), int(y), int(x)))

    @property
    def shape(self) -> Triple:
        (a, b, c), (d, e, f) = self.start, self.stop
        return (d - a, e - b, f - c)

    @property
    def size(self) -> int:
        return math.prod(max(0, n) for n in self.shape)

    @property
    def ranges(self) -> Ranges:
        z, y, x = zip(self.start, self.stop, strict=True)
        return (z, y, x)

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        z, y, x = (slice(a, b) for a, b in zip(self.start, self.stop, strict=True))
        return (z, y, x)

    def intersect(self, other: Box) -> Box:
        start = tuple(map(max, self.start, other.start))
        stop = tuple(map(min, self.stop, other.stop))
        return Box(start, tuple(map(max, start, stop)))  # type: ignore[arg-type]

    def contains(self, other: Box) -> bool:
        return all(a <= b for a, b in zip(self.start, other.start, strict=True)) and all(
            a >= b for a, b in zip(self.stop, other.stop, strict=True)
        )

    def translate(self, offset: Sequence[int]) -> Box:
        return Box(
            tuple(a + o for a, o in zip(self.start, offset, strict=True)),  # type: ignore[arg-type]
            tuple(a + o for a, o in zip(self.stop, offset, strict=True)),  # type: ignore[arg-type]
        )

    def expand(self, halo: Halo) -> Box:
        return Box(
            tuple(a - before for a, (before, _) in zip(self.start, halo, strict=True)),  # type: ignore[arg-type]
            tuple(b + after for b, (_, after) in zip(self.stop, halo, strict=True)),  # type: ignore[arg-type]
        )

    def __str__(self) -> str:
        return "[" + ", ".join(f"{a}:{b}" for a, b in zip(self.start, self.stop, strict=True)) + "]"


@dataclass(frozen=True)
class Grid:
    """A box divided into cells of shape ``step``, in raster order; the last cells are clipped."""

    shape: Triple
    step: Triple

    @property
    def counts(self) -> Triple:
        z, y, x = (-(-n // s) for n, s in zip(self.shape, self.step, strict=True))
        return (z, y, x)

    def __len__(self) -> int:
        return math.prod(self.counts)

    def cell(self, index: int) -> Triple:
        """The (z, y, x) position of a cell in the grid."""
        _, ny, nx = self.counts
        if not 0 <= index < len(self):
            raise IndexError(f"cell {index} does not exist in a grid of {len(self)} cells")
        return (index // (ny * nx), index // nx % ny, index % nx)

    def index(self, cell: Triple) -> int:
        """The index of the cell at a (z, y, x) position in the grid."""
        _, ny, nx = self.counts
        return (cell[0] * ny + cell[1]) * nx + cell[2]

    def box(self, index: int) -> Box:
        cell = self.cell(index)
        start = tuple(c * s for c, s in zip(cell, self.step, strict=True))
        stop = tuple(min(a + s, n) for a, s, n in zip(start, self.step, self.shape, strict=True))
        return Box(start, stop)  # type: ignore[arg-type]

    def ranges(self, axis: int) -> list[Range]:
        n, step = self.shape[axis], self.step[axis]
        return [(a, min(n, a + step)) for a in range(0, n, step)]

    def __iter__(self) -> Iterator[Box]:
        return (self.box(i) for i in range(len(self)))


@dataclass(frozen=True)
class Lattice:
    """The positions of an array's voxels in a domain of slabs: voxel v is at ``start + v * step``.

    A crop has another start. A level of a pyramid has a larger step.

    >>> level = Lattice((5, 5, 5), step=(2, 2, 2))
    >>> level.within(0, (4, 8)), level.within(0, (4, 8), unit=4)
    ((2, 4), (4, 4))
    """

    shape: Triple
    start: Triple = (0, 0, 0)
    step: Triple = (1, 1, 1)

    def within(self, axis: int, span: tuple[int, int], unit: int = 1) -> tuple[int, int]:
        """The voxels in a range of the domain; with ``unit``, the voxels of all units that start in it."""
        first, last = self.firsts(axis, span, unit)
        return first, last

    def firsts(self, axis: int, places: Sequence[int], unit: int = 1) -> list[int]:
        """The first voxel, or first voxel of a unit, at or after each position in the domain."""
        n, start, step = self.shape[axis], self.start[axis], self.step[axis]
        return [min(max(0, -((start - at) // step // unit) * unit), n) for at in places]

    def until(self, axis: int, stop: int) -> int:
        """The end of the voxels before ``stop``, in the domain."""
        return self.start[axis] + (stop - 1) * self.step[axis] + 1

    def above(self, start: Triple, factor: Triple = (1, 1, 1)) -> Lattice:
        """The lattice in a larger domain: this domain starts at ``start``, or is coarser by ``factor``.

        >>> Lattice((5, 5, 5), step=(2, 2, 2)).above((3, 0, 0))
        Lattice(shape=(5, 5, 5), start=(3, 0, 0), step=(2, 2, 2))
        """
        moved = (a * f + s for a, f, s in zip(self.start, factor, start, strict=True))
        steps = (a * f for a, f in zip(self.step, factor, strict=True))
        return Lattice(self.shape, tuple(moved), tuple(steps))  # type: ignore[arg-type]


def cells_touched(start: int, stop: int, step: int, origin: int = 0) -> int:
    """How many cells of the grid ``origin + k * step`` intersect the range ``[start, stop)``."""
    if stop <= start:
        return 0
    return (stop - 1 - origin) // step - (start - origin) // step + 1


def pad_index(start: int, stop: int, size: int, mode: str) -> np.ndarray:
    """The source coordinate of each padded coordinate in ``[start, stop)``; -1 stands for ``cval``.

    ``size`` is the extent of the axis, and ``mode`` a boundary mode of scipy.ndimage other than ``wrap``.

    >>> pad_index(-2, 5, 3, "reflect").tolist()
    [1, 0, 0, 1, 2, 2, 1]
    >>> pad_index(-2, 5, 3, "mirror").tolist()
    [2, 1, 0, 1, 2, 1, 0]
    """
    index = np.arange(start, stop, dtype=np.int64)
    if mode in ("reflect", "grid-mirror"):
        index = np.mod(index, 2 * size)
        return np.where(index < size, index, 2 * size - 1 - index)
    if mode == "mirror":
        if size == 1:
            return np.zeros_like(index)
        index = np.mod(index, 2 * size - 2)
        return np.where(index < size, index, 2 * size - 2 - index)
    if mode == "nearest":
        return np.clip(index, 0, size - 1)
    if mode in ("constant", "grid-constant"):
        return np.where((index >= 0) & (index < size), index, -1)
    raise ValueError(f"unknown boundary mode {mode!r}")


def source_range(
    start: int, stop: int, halo: tuple[int, int], size: int, mode: str
) -> tuple[int, int]:
    """The range of an axis that outputs ``[start, stop)`` read through a padded halo.

    A padded voxel counts as the voxel that it repeats. The range is not empty if ``start < stop`` and
    ``size > 0``.
    """
    return source_ranges([(start, stop)], halo, size, mode)[0]


def source_ranges(
    spans: Sequence[Range], halo: tuple[int, int], size: int, mode: str
) -> list[Range]:
    before, after = halo
    found = []
    for start, stop in spans:
        first, last = start - before, stop + after
        if 0 <= first < last <= size:  # most ranges of a long schedule
            found.append((first, last))
            continue
        lo, hi = max(0, first), min(size, last)
        for outside in ((first, 0), (size, last)):
            if outside[0] < outside[1] and (again := _repeated(*outside, size, mode)) is not None:
                lo, hi = min(lo, again[0]), max(hi, again[1] + 1)
        found.append((lo, max(hi, lo + 1)))
    return found


def _repeated(start: int, stop: int, size: int, mode: str) -> tuple[int, int] | None:
    """The minimum and maximum of `pad_index` over a range, without the array; None for constants.

    Planning calls this often. The extremes of a reflected range are at its start, at its end, or at a turn.
    """
    if not size or mode in ("constant", "grid-constant"):
        return None
    if mode == "nearest" or size == 1:
        first, last = (min(max(i, 0), size - 1) for i in (start, stop - 1))
        return first, last
    mirrors = mode == "mirror"  # voxels at the turns are not repeated
    if not mirrors and mode not in ("reflect", "grid-mirror"):
        raise ValueError(f"unknown boundary mode {mode!r}")
    length = size - 1 if mirrors else size
    turns = range(-(-start // length) * length, stop, length)[:3]
    found = []
    for i in (start, stop - 1, *turns):
        at = i % (2 * length)
        found.append(at if at < size else 2 * length - at - (not mirrors))
    return min(found), max(found)


def check_connectivity(connectivity: Any, ndim: int, name: str = "") -> None:
    """Refuse a connectivity that is not a number of steps along axes.

    >>> check_connectivity(26, 3, "label")
    Traceback (most recent call last):
    ValueError: label: connectivity=26; 26 neighbours are connectivity=3
    >>> check_connectivity(3, 2)
    Traceback (most recent call last):
    ValueError: connectivity=3; give 1 to 2, the steps along axes to a neighbour
    """
    whole = isinstance(connectivity, Integral) and not isinstance(connectivity, bool)
    if whole and 1 <= connectivity <= max(1, ndim):
        return
    counts = _NEIGHBOURS.get(ndim, ())
    if whole and connectivity in counts:
        remedy = f"{connectivity} neighbours are connectivity={counts.index(connectivity) + 1}"
    else:
        remedy = f"give 1 to {ndim}, the steps along axes to a neighbour"
    raise ValueError(f"{name}{': ' if name else ''}connectivity={connectivity!r}; {remedy}")


def connectivity_structure(connectivity: int, ndim: int = 3, name: str = "") -> np.ndarray:
    """The voxels at most ``connectivity`` steps along axes away, with 3 entries along each axis.

    >>> [int(connectivity_structure(c).sum()) for c in (1, 2, 3)]
    [7, 19, 27]
    """
    check_connectivity(connectivity, ndim, name)
    steps = np.abs(np.indices((3,) * ndim) - 1).sum(axis=0)
    return np.asarray(steps <= connectivity)
