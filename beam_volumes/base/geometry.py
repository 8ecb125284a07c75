"""Boxes, halos and grids: the integer geometry that every layer shares.

Everything inside the package is three-dimensional, in the order z, y, x; an axis the user does not
see has extent 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Triple = tuple[int, int, int]
Range = tuple[int, int]
#: A range of each axis.
Ranges = tuple[Range, Range, Range]
#: Voxels needed (before, after) a voxel along z, y, x.
Halo = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]

NO_HALO: Halo = ((0, 0), (0, 0), (0, 0))


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
    """A box cut into cells of one ``step``: index -> box in O(1), nothing listed.

    Cells are counted in raster order; those at the far edges are clipped to the shape.
    """

    shape: Triple
    step: Triple

    @property
    def counts(self) -> Triple:
        z, y, x = (-(-n // s) for n, s in zip(self.shape, self.step, strict=True))
        return (z, y, x)

    def __len__(self) -> int:
        return math.prod(self.counts)

    def cell(self, index: int) -> Triple:
        """The (z, y, x) position of cell ``index`` in the grid."""
        _, ny, nx = self.counts
        if not 0 <= index < len(self):
            raise IndexError(f"cell {index} of a grid of {len(self)}")
        return (index // (ny * nx), index // nx % ny, index % nx)

    def index(self, cell: Triple) -> int:
        """The number of the cell at a (z, y, x) position in the grid."""
        _, ny, nx = self.counts
        return (cell[0] * ny + cell[1]) * nx + cell[2]

    def box(self, index: int) -> Box:
        cell = self.cell(index)
        start = tuple(c * s for c, s in zip(cell, self.step, strict=True))
        stop = tuple(min(a + s, n) for a, s, n in zip(start, self.step, self.shape, strict=True))
        return Box(start, stop)  # type: ignore[arg-type]

    def ranges(self, axis: int) -> list[Range]:
        """Those of all cells along an axis."""
        n, step = self.shape[axis], self.step[axis]
        return [(a, min(n, a + step)) for a in range(0, n, step)]

    def __iter__(self) -> Iterator[Box]:
        return (self.box(i) for i in range(len(self)))


@dataclass(frozen=True)
class Lattice:
    """Where the voxels of an array lie in a domain of slabs: voxel v at ``start + v * step``.

    A crop begins elsewhere; a level of a pyramid has one voxel for several of the domain.

    Examples
    --------
    >>> level = Lattice((5, 5, 5), step=(2, 2, 2))
    >>> level.within(0, (4, 8)), level.within(0, (4, 8), unit=4)
    ((2, 4), (4, 4))
    """

    shape: Triple
    start: Triple = (0, 0, 0)
    step: Triple = (1, 1, 1)

    def within(self, axis: int, span: tuple[int, int], unit: int = 1) -> tuple[int, int]:
        """The voxels that lie in a range of the domain; in whole units, those of units that begin there."""
        first, last = self.firsts(axis, span, unit)
        return first, last

    def firsts(self, axis: int, places: Sequence[int], unit: int = 1) -> list[int]:
        """The first voxel at or after each place in the domain; of units, the first that begins there."""
        n, start, step = self.shape[axis], self.start[axis], self.step[axis]
        return [min(max(0, -((start - at) // step // unit) * unit), n) for at in places]

    def until(self, axis: int, stop: int) -> int:
        """Up to where in the domain the voxels before ``stop`` lie."""
        return self.start[axis] + (stop - 1) * self.step[axis] + 1

    def above(self, start: Triple, factor: Triple = (1, 1, 1)) -> Lattice:
        """The same in what this domain is a crop of, from ``start``, or a level of, by ``factor``.

        Examples
        --------
        >>> Lattice((5, 5, 5), step=(2, 2, 2)).above((3, 0, 0))
        Lattice(shape=(5, 5, 5), start=(3, 0, 0), step=(2, 2, 2))
        """
        moved = (a * f + s for a, f, s in zip(self.start, factor, start, strict=True))
        steps = (a * f for a, f in zip(self.step, factor, strict=True))
        return Lattice(self.shape, tuple(moved), tuple(steps))  # type: ignore[arg-type]


def cells_touched(start: int, stop: int, step: int, origin: int = 0) -> int:
    """How many cells of a regular grid ``origin + k * step`` the range ``[start, stop)`` touches."""
    if stop <= start:
        return 0
    return (stop - 1 - origin) // step - (start - origin) // step + 1


def pad_index(start: int, stop: int, size: int, mode: str) -> np.ndarray:
    """Where a padded axis takes its values from.

    Parameters
    ----------
    start, stop : int
        Range of padded coordinates; those below 0 or from ``size`` on lie outside.
    size : int
        Extent of the axis.
    mode : str
        One of scipy.ndimage's boundary modes except ``wrap``.

    Returns
    -------
    numpy.ndarray of int64
        For each padded coordinate the coordinate in ``[0, size)`` that it repeats, or -1 where the
        constant ``cval`` stands.

    Examples
    --------
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

    Outside voxels that repeat an inside one count as that one. Never empty while ``start < stop``
    and ``size > 0``.
    """
    return source_ranges([(start, stop)], halo, size, mode)[0]


def source_ranges(
    spans: Sequence[Range], halo: tuple[int, int], size: int, mode: str
) -> list[Range]:
    """`source_range` of each of several spans."""
    found = []
    for start, stop in spans:
        first, last = start - halo[0], stop + halo[1]
        lo, hi = max(0, first), min(size, last)
        for outside in ((first, 0), (size, last)):
            if outside[0] < outside[1] and (again := _repeated(*outside, size, mode)) is not None:
                lo, hi = min(lo, again[0]), max(hi, again[1] + 1)
        found.append((lo, max(hi, lo + 1)))
    return found


def _repeated(start: int, stop: int, size: int, mode: str) -> tuple[int, int] | None:
    """The least and the last of a range's `pad_index`, without making it; None for constants.

    Planning asks so often that arrays would be most of what it takes. Back and forth over the axis,
    a range has its ends where it begins, where it ends, or where it turns.
    """
    if not size or mode in ("constant", "grid-constant"):
        return None
    if mode == "nearest" or size == 1:
        first, last = (min(max(i, 0), size - 1) for i in (start, stop - 1))
        return first, last
    mirrors = mode == "mirror"  # its turns are not repeated
    if not mirrors and mode not in ("reflect", "grid-mirror"):
        raise ValueError(f"unknown boundary mode {mode!r}")
    length = size - 1 if mirrors else size
    turns = range(-(-start // length) * length, stop, length)[:3]
    found = []
    for i in (start, stop - 1, *turns):
        at = i % (2 * length)
        found.append(at if at < size else 2 * length - at - (not mirrors))
    return min(found), max(found)
