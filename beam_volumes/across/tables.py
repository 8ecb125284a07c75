"""Region tables: exact sums per label that blocks add up, and properties computed of them.

`regions` folds a block of labels into a `Regions`, sorted by label. `merge` adds any number of
them, in any order and grouping, with the same bits. `properties` computes the columns of any rows,
with scikit-image's names. `beam_volumes.across.rounds.tables` merges the parts of many slabs.

Coordinates are summed as whole voxels from the volume's origin, in wide integers that do not
overflow (axes below 2**29 voxels). Central moments shift these sums exactly to near the centroid
before rounding.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from beam_volumes.across.exact import Wide, add_groups, stacked
from beam_volumes.across.properties import (
    CUBES,
    MAX_ORDER,
    MOMENTS,
    MONOMIALS,
    PRODUCTS,
    PROPERTIES,
    QUANTILE,
    WEIGHTED_MOMENTS,
    Finish,
)
from beam_volumes.across.ragged import Ragged, corners_of, counted, joined, split_values
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.labels import contours, hulls
from beam_volumes.kernels.labels import regions as kernels
from beam_volumes.kernels.scratch import arrays as allocated

#: Properties that need intensities.
WITH_INTENSITY = frozenset(name for name, p in PROPERTIES.items() if p.needs_intensity)


def arrays_for(names: Iterable[str] | None) -> frozenset[str]:
    """The arrays that properties need; all by default.

    >>> sorted(arrays_for(["label", "area", "centroid"]))
    ['box', 'sums']
    """
    names = default_properties(2, True) if names is None else names
    rows = (PROPERTIES.get(name.partition("-")[0]) for name in names)
    return frozenset(array for row in rows if row is not None for array in row.arrays.split())


#: The place of an extreme that a part does not have.
_NOWHERE = np.int64((1 << 63) - 1)
#: For ``nan=``: compute only extremes, including infinite values, and no sums. Not offered to
#: users.
EXTREMES = "extremes"


@dataclass(frozen=True, eq=False)
class Intensities:
    """The intensities of some labels; arrays are per label."""

    count: np.ndarray  #: int64. Voxels with a finite intensity.
    #: Minimum and maximum in the intensities' dtype; its largest and smallest value if the count is
    #: 0.
    minimum: np.ndarray
    maximum: np.ndarray
    #: int64 (labels, 2). The first voxel with the minimum, and with the maximum: indices into the
    #: flattened volume.
    places: np.ndarray
    sums: Wide  #: Of v, v**2, z*v, y*v and x*v, or the first of these that a property needs.
    values: Ragged  #: int64. Each value, ascending, and its voxels.
    weighted: Wide  #: Of v times `beam_volumes.across.properties.MONOMIALS`.


@dataclass(frozen=True, eq=False)
class Regions:
    """Sums over blocks of a label volume; sorted by label, arrays are per label.

    Arrays that no property needs have no columns.
    """

    label: np.ndarray  #: uint64. Without 0.
    count: np.ndarray  #: int64. Voxels; 0 for a label with only faces.
    box: np.ndarray  #: int64 (labels, 6). Minimum z, y, x, and maximum plus one.
    faces: np.ndarray  #: int64 (labels, 3). Faces across z, y, x to other labels.
    sums: Wide  #: Of z, y, x, zz, yy, xx, zy, zx, yx.
    cubes: Wide  #: Of `beam_volumes.across.properties.CUBES`.
    #: int64 (labels, 6). Sums of `beam_volumes.kernels.labels.contours.window_table`.
    windows: np.ndarray
    contour: np.ndarray  #: int64 (labels, 3). Voxels of each class of contours.
    points: Ragged  #: int32. Voxels with the same convex hull as all.
    intensities: Intensities | None = None

    def __len__(self) -> int:
        return len(self.label)

    def __getitem__(self, rows: slice | np.ndarray) -> Regions:
        """Select rows."""
        inner = self.intensities
        if inner is not None:
            inner = Intensities(*(getattr(inner, f.name)[rows] for f in fields(inner)))
        own = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name != "intensities"}
        return Regions(**own, intensities=inner)

    def only(self, arrays: frozenset[str]) -> Regions:
        """Leave out all other arrays (see `arrays_for`)."""
        n, inner = len(self), self.intensities
        none, no_sums = np.empty((n, 0), np.int64), _no_sums(n)
        if inner is not None and "places" not in arrays:
            inner = replace(inner, places=none)
        if inner is not None and "intensity" not in arrays:
            inner = replace(inner, sums=no_sums)
        elif inner is not None:
            inner = replace(inner, sums=inner.sums[:, : sums_for(arrays)])
        if inner is not None and "values" not in arrays:
            inner = replace(inner, values=Ragged.empty(n, 2, np.int64))
        if inner is not None and "weighted" not in arrays:
            inner = replace(inner, weighted=no_sums)
        return Regions(
            self.label,
            self.count,
            self.box if "box" in arrays else none,
            self.faces if "faces" in arrays else none,
            self.sums if "sums" in arrays else no_sums,
            self.cubes if "cubes" in arrays else no_sums,
            self.windows if "windows" in arrays else none,
            self.contour if "contour" in arrays else none,
            self.points if "points" in arrays else Ragged.empty(n, 3, np.int32),
            inner,
        )

    @property
    def nbytes(self) -> int:
        total = self.label.nbytes + self.count.nbytes + self.box.nbytes + self.faces.nbytes
        total += self.sums.digits.nbytes + self.cubes.digits.nbytes
        total += self.windows.nbytes + self.contour.nbytes + self.points.nbytes
        if self.intensities is not None:
            i = self.intensities
            total += i.count.nbytes + i.minimum.nbytes + i.maximum.nbytes + i.places.nbytes
            total += i.sums.digits.nbytes + i.values.nbytes + i.weighted.digits.nbytes
        return total

    @property
    def exact(self) -> tuple[Wide, ...]:
        """The arrays of exact numbers."""
        inner = self.intensities
        of_intensities = () if inner is None else (inner.sums, inner.weighted)
        return self.sums, self.cubes, *of_intensities


def sums_for(arrays: frozenset[str]) -> int:
    """The number of sums of intensities that arrays need."""
    if "products" in arrays:
        return 5
    return 2 if "squares" in arrays else int("intensity" in arrays)


def _no_sums(rows: int) -> Wide:
    return Wide(0, np.zeros((rows, 0, 1), np.int64))


def as_labels(labels: np.ndarray) -> np.ndarray:
    """A block of labels as unsigned integers with the same bits."""
    if labels.dtype.kind not in "bui":
        raise TypeError(f"labels have dtype {labels.dtype}; use bool or integers")
    if labels.dtype.kind == "i" and labels.size and (minimum := labels.min()) < 0:
        raise ValueError(
            f"the label {minimum} is negative; labels must be 0 (background) or positive. "
            "bv.where(labels > 0, labels, 0) makes negative labels background"
        )
    return labels.view(np.dtype(f"u{labels.dtype.itemsize}"))


def regions(
    labels: np.ndarray,
    origin: tuple[int, int, int],
    shape: tuple[int, int, int],
    intensity: np.ndarray | None = None,
    nan: str = "raise",
    core: tuple[int, int, int] | None = None,
    below: np.ndarray | None = None,
    with_faces: bool = True,
    arrays: frozenset[str] | None = None,
    hidden: int | None = None,
    contour: np.ndarray | None = None,
) -> Regions:
    """The contribution of one block: its core's voxels, and the faces at their upper sides.

    ``labels`` are the core, and one more plane at the upper side of each axis if a neighbour follows.
    """
    # ``intensity`` and ``contour``, classes for the array ``"contour"``, are of the core. With 0 slices in
    # ``core``, only faces between the single given slice and ``below`` count: the slice of labels before the
    # block, if its upper faces have not been counted yet; as large as a slice of ``labels`` for windows of
    # voxels. ``hidden`` is the axis of z, y, x that a plane does not have.
    arrays = arrays_for(None) if arrays is None else arrays
    own = labels.shape if core is None else core
    if intensity is not None and intensity.shape != own:
        raise ValueError(
            f"the intensities have shape {intensity.shape}, but the labels have shape {own}"
        )
    if max(shape) >= 1 << 29:
        raise ValueError(
            f"a volume of shape {shape} is too large; each axis must have fewer than 2**29 voxels"
        )
    labels = as_labels(labels)
    below = np.empty((0, 0), labels.dtype) if below is None else as_labels(below)
    block = _Block(labels, below, own, origin, shape, hidden, contour)
    how = intensity, nan, with_faces, arrays
    longest = max(own)
    power = 3 if "cubes" in arrays else 2
    if (
        longest > 1 << (10 if "weighted" in arrays else 15)
        or math.prod(own) * longest**power >= 1 << 62
    ):
        return merge(_halves(block, *how))
    return _of_block(block, *how)


@dataclass(frozen=True)
class _Block:
    """A block of labels; see `regions`."""

    labels: np.ndarray
    below: np.ndarray
    core: tuple[int, int, int]
    origin: tuple[int, int, int]
    shape: tuple[int, int, int]
    hidden: int | None
    contour: np.ndarray | None

    @property
    def inner(self) -> np.ndarray:
        """The labels of the core."""
        return self.labels[tuple(slice(0, n) for n in self.core)]

    @property
    def ends(self) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """Whether the volume starts with the first plane of each axis, and ends with the last of the core."""
        first = tuple(o == 0 for o in self.origin)
        sides = zip(self.origin, self.core, self.shape, strict=True)
        return first, tuple(o + n == s for o, n, s in sides)


def _of_block(block: _Block, intensity, nan, with_faces, arrays) -> Regions:
    if not with_faces and "windows" not in arrays:
        block = replace(block, labels=block.inner, below=block.below[:0])
    labels, below, own, origin = block.labels, block.below, block.core, block.origin
    label, keys, place = kernels.table_of(labels, below)
    n = len(label)
    moments = np.zeros((n, 10 if arrays & {"sums", "cubes"} else 1), np.int64)
    box = np.full((n, 6), 1 << 40, np.int64)
    box[:, 3:] = -(1 << 40)
    faces = np.zeros((n, 3), np.int64)
    counted_faces = faces if with_faces else faces[:0]
    kernels.geometry(labels, below, own, *block.ends, keys, place, moments, box, counted_faces)
    points = Ragged.empty(n, 3, np.int32)
    if "points" in arrays:
        points = _points(block, box, keys, place)
    has_voxels = moments[:, 0] > 0
    box[has_voxels] += np.array(origin * 2, np.int64)
    count = moments[:, 0].copy()
    sums = cubes = Wide.of(moments[:, :0])
    if "sums" in arrays:
        sums = _from_origin(Wide.integers(moments), origin)
    if "cubes" in arrays:
        cells = np.zeros((n, len(CUBES)), np.int64)
        kernels.cubes(block.inner, keys, place, cells)
        local = Wide.integers(moments), Wide.integers(cells)
        cubes = _cubes_from_origin(*local, sums, origin)
    windows = np.zeros((n, 6 if "windows" in arrays else 0), np.int64)
    if "windows" in arrays:
        how = own, *block.ends, keys, place
        contours.windows(labels, below, *how, _window_table(block.hidden), windows)
    contour = np.zeros((n, 3 if "contour" in arrays else 0), np.int64)
    if "contour" in arrays:
        if block.contour is None:
            raise ValueError("perimeters need the classes of contours")
        contours.count_classes(block.inner, block.contour, keys, place, contour)
    inner = None
    if intensity is not None:
        inner = _intensities(
            block.inner, intensity, origin, keys, place, count, nan, sums_for(arrays)
        )
        values = Ragged.empty(n, 2, np.int64)
        if "values" in arrays:
            values = _values(block.inner, intensity, keys, place, n)
        inner = replace(inner, values=values)
        if "places" in arrays:
            inner = replace(inner, places=_places(block, intensity, inner, keys, place))
        if "weighted" in arrays:
            weighted = _weighted(block.inner, intensity, origin, keys, place, n, nan)
            inner = replace(inner, weighted=weighted)
    used = has_voxels | faces.any(axis=1) | windows.any(axis=1)
    part = Regions(label, count, box, faces, sums, cubes, windows, contour, points, inner)
    part = part.only(arrays)
    return part if used.all() else part[used]


_window_table = functools.cache(contours.window_table)


def _points(block: _Block, box: np.ndarray, keys: np.ndarray, place: np.ndarray) -> Ragged:
    """The vertices of hulls, from the vertices in each slice."""
    rows, at = hulls.slice_corners(block.inner, box, keys, place)
    found = Ragged.of(rows, (at + np.array(block.origin)).astype(np.int32), len(box))
    return corners_of(found)


def _places(
    block: _Block, intensity: np.ndarray, found: Intensities, keys: np.ndarray, place: np.ndarray
) -> np.ndarray:
    """The first voxels with the minimum and the maximum of each label."""
    values = kernel_array(intensity.view(np.uint8) if intensity.dtype.kind == "b" else intensity)
    places = np.full((len(found.count), 2), _NOWHERE)
    how = block.origin, block.shape, keys, place, found.minimum, found.maximum, places
    kernels.places(block.inner, values, *how)
    return places


def _values(
    labels: np.ndarray, intensity: np.ndarray, keys: np.ndarray, place: np.ndarray, n: int
) -> Ragged:
    """The values of integers of up to 16 bits in each label, with their counts."""
    values = kernel_array(intensity.view(np.uint8) if intensity.dtype.kind == "b" else intensity)
    scratch = allocated(kernels.labelled_values.scratch(labels.size))
    found, counts = kernels.labelled_values(labels, values, keys, place, scratch)
    rows, value = split_values(found)
    return Ragged.of(rows, np.stack([value, counts], axis=1), n)


def _halves(block: _Block, intensity, nan, with_faces, arrays) -> list[Regions]:
    """Split the block into two."""
    own, origin, below = block.core, block.origin, block.below
    axis = int(np.argmax(own))
    middle = own[axis] // 2

    def cut(array, a, b, axes=axis):
        return array[(slice(None),) * axes + (slice(a, b),)]

    parts = []
    for a, b, stop in ((0, middle, middle + 1), (middle, own[axis], None)):
        start: Any = tuple(o + a * (i == axis) for i, o in enumerate(origin))
        core: Any = tuple(b - a if i == axis else n for i, n in enumerate(own))
        values = None if intensity is None else cut(intensity, a, b)
        contour = None if block.contour is None else cut(block.contour, a, b)
        under: np.ndarray | None = below
        if axis == 0:
            under = below if a == 0 else None
        elif below.size:
            under = cut(below, a, stop, axis - 1)
        half = cut(block.labels, a, stop)
        how = under, with_faces, arrays, block.hidden, contour
        parts.append(regions(half, start, block.shape, values, nan, core, *how))
    return parts


def _from_origin(local: Wide, origin: tuple[int, int, int]) -> Wide:
    """Convert sums of coordinates and products from the block's origin to the volume's."""
    at = np.array(origin)
    first = local[:, 1:4] + local[:, :1].times(at)
    i, j = np.transpose(PRODUCTS)
    second = local[:, 4:] + local[:, 1 + j].times(at[i]) + first[:, i].times(at[j])
    return stacked(first, second)


def _cubes_from_origin(local: Wide, cubes: Wide, sums: Wide, origin: tuple[int, int, int]) -> Wide:
    """Convert sums of products of three coordinates; ``sums`` are from the volume's origin."""
    at = np.array(origin)
    i, j, k = np.transpose(CUBES)
    ij, ik, jk = (
        [PRODUCTS.index(p) for p in zip(*two, strict=True)] for two in ((i, j), (i, k), (j, k))
    )
    # (i + o_i) (j + o_j) (k + o_k), with the origin o, is i j k + j k o_i + i k o_j + k o_i o_j, and the
    # product of i and j from the volume's origin, times o_k.
    result = cubes + sums[:, np.array(ij) + 3].times(at[k])
    result = result + local[:, np.array(jk) + 4].times(at[i])
    result = result + local[:, np.array(ik) + 4].times(at[j])
    return result + local[:, 1 + k].times(at[i]).times(at[j])


def _weighted(labels, values, origin, keys, place, n, nan) -> Wide:
    """Sums of intensities times `MONOMIALS`, from the volume's origin."""
    values = kernel_array(values.view(np.uint8) if values.dtype.kind == "b" else values)
    first, width = (0, 6) if values.dtype.kind in "ui" else _digits(values, nan)
    parts = [values]
    if values.dtype.kind in "ui" and values.itemsize == 8:
        low = values & values.dtype.type(0xFFFFFFFF)
        parts = [low.astype(np.float64), (values - low).astype(np.float64)]
    cells = np.zeros((n, len(MONOMIALS), width), np.int64)
    exponents = np.array([[m.count(axis) for axis in range(3)] for m in MONOMIALS])
    for part in parts:
        kernels.weighted(labels, part, keys, place, 32 * first, exponents, cells)
    found = Wide.of(cells, first)
    local, cubes = found[:, :10], found[:, 10:]
    sums = _from_origin(local, origin)
    return stacked(local[:, :1], sums, _cubes_from_origin(local, cubes, sums, origin))


def _intensities(labels, values, origin, keys, place, count, nan, number) -> Intensities:
    n = len(count)
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    values = kernel_array(values)
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise TypeError(
            f"intensities have dtype {values.dtype}; use bool, integers or floats of up to 64 bits"
        )
    if values.dtype.kind == "f":
        return _float_intensities(labels, values, origin, keys, place, n, nan, number)
    info = np.iinfo(values.dtype)
    minimum, maximum = np.full(n, info.max, values.dtype), np.full(n, info.min, values.dtype)
    cells = np.zeros((n, 16 if number else 0), np.int64)
    kernels.integers(labels, values, keys, place, minimum, maximum, cells)
    none = np.empty((n, 0), np.int64), Ragged.empty(n, 2, np.int64)
    if not number:
        return Intensities(
            count.copy(), minimum, maximum, none[0], _no_sums(n), none[1], _no_sums(n)
        )
    parts = {name: Wide.of(cells[:, None, a:b]) for name, (a, b) in kernels.INTEGER_CELLS.items()}
    weighted = [parts[a] + parts["sum"].times(o) for a, o in zip("zyx", origin, strict=True)]
    sums = stacked(parts["sum"], parts["square"], *weighted)
    return Intensities(count.copy(), minimum, maximum, none[0], sums, none[1], _no_sums(n))


def _float_intensities(labels, values, origin, keys, place, n, nan, number) -> Intensities:
    only_extremes = nan == EXTREMES
    first, width = (0, 1) if only_extremes else _digits(values, nan)
    minimum, maximum = np.full(n, np.inf), np.full(n, -np.inf)
    cells = np.zeros((n, 0 if only_extremes else number, width), np.int64)
    count = np.zeros(n, np.int64)
    how = 32 * first, only_extremes
    kernels.floats(labels, values, origin, keys, place, *how, count, minimum, maximum, cells)
    dtype = values.dtype
    ends = minimum.astype(dtype), maximum.astype(dtype)
    none = np.empty((n, 0), np.int64), Ragged.empty(n, 2, np.int64)
    return Intensities(count, *ends, none[0], Wide.of(cells, first), none[1], _no_sums(n))


def _digits(values: np.ndarray, nan: str) -> tuple[int, int]:
    """The first digit of the sums of floats, and the number of digits."""
    *sizes, bad = kernels.magnitudes(values)
    if bad and nan == "raise":
        raise ValueError(
            f'{bad} intensities are NaN or infinite: give nan="omit" to leave them out'
        )
    if sizes[1] >= 2.0**511:
        raise ValueError(
            f"an intensity of {sizes[1]:g} is too large; its square does not fit float64"
        )
    return digits_between(sizes[0], sizes[1], values.dtype)


def digits_between(min_size: float, max_size: float, dtype: np.dtype) -> tuple[int, int]:
    """The first digit of the sums of floats with sizes in a range, and the number of digits."""
    single = dtype.itemsize == 4
    # of the first bit of the smallest value
    low = math.frexp(min_size)[1] - 1 if max_size else 0
    high = math.frexp(max_size)[1]
    # The last bit of v and of its square (in two halves for float64), in whole digits.
    last = max(-1074, min(low - 52, 2 * (low if single else low - 52) - 52))
    first = last // 32
    return first, (max(high + 30, 2 * high) - 32 * first) // 32 + 4


def merge(parts: Iterable[Regions]) -> Regions:
    """Merge parts: the same bits in any order and grouping."""
    parts = list(parts)
    if not parts:
        raise ValueError("no region tables to merge")
    if len({p.intensities is None for p in parts}) > 1:
        raise ValueError("region tables with and without intensities cannot be merged")
    labels = np.concatenate([p.label for p in parts])
    if labels.size == 0 or len(parts) == 1:
        return parts[0]
    order = np.argsort(labels)
    labels = labels[order]
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))

    def reduced(ufunc, arrays):
        return ufunc.reduceat(np.concatenate(list(arrays))[order], starts, axis=0)

    inner = None
    if parts[0].intensities is not None:
        several = [p.intensities for p in parts if p.intensities is not None]
        minimum = reduced(np.minimum, (i.minimum for i in several))
        maximum = reduced(np.maximum, (i.maximum for i in several))
        places = [i.places for i in several]
        if places[0].size:
            rows = (np.searchsorted(labels[starts], p.label) for p in parts)
            places = [
                np.where(_are_extreme(i, minimum[at], maximum[at]), i.places, _NOWHERE)
                for i, at in zip(several, rows, strict=True)
            ]
        inner = Intensities(
            reduced(np.add, (i.count for i in several)),
            minimum,
            maximum,
            reduced(np.minimum, places),
            add_groups([i.sums for i in several], order, starts),
            counted(joined([i.values for i in several], order, starts)),
            add_groups([i.weighted for i in several], order, starts),
        )
    box = np.concatenate([
        reduced(np.minimum, (p.box[:, :3] for p in parts)),
        reduced(np.maximum, (p.box[:, 3:] for p in parts)),
    ], axis=1)  # fmt: skip
    return Regions(
        labels[starts],
        reduced(np.add, (p.count for p in parts)),
        box,
        reduced(np.add, (p.faces for p in parts)),
        add_groups([p.sums for p in parts], order, starts),
        add_groups([p.cubes for p in parts], order, starts),
        reduced(np.add, (p.windows for p in parts)),
        reduced(np.add, (p.contour for p in parts)),
        corners_of(joined([p.points for p in parts], order, starts)),
        inner,
    )


def _are_extreme(part: Intensities, minimum: np.ndarray, maximum: np.ndarray) -> np.ndarray:
    """Whether the extremes of a part are the given ones, (labels, 2)."""
    return np.stack([part.minimum == minimum, part.maximum == maximum], axis=1)


def batches(part: Regions, maximum: int = 4_000_000) -> Iterator[Regions]:
    """The rows in pieces of at most about ``maximum`` bytes."""
    rows = max(1, int(maximum * len(part) // max(1, part.nbytes)))
    for i in range(0, len(part), rows):
        yield part[i : i + rows]


def default_properties(ndim: int = 3, intensity: bool = False) -> tuple[str, ...]:
    """The names of the properties that are computed by default."""
    return tuple(p for p in known_properties(ndim, intensity) if not PROPERTIES[p].by_request)


def known_properties(ndim: int = 3, intensity: bool = False) -> tuple[str, ...]:
    """The names of all properties."""
    return tuple(
        name
        for name, p in PROPERTIES.items()
        if ndim in p.ndims and (intensity or not p.needs_intensity)
    )


def properties(
    part: Regions,
    shape: tuple[int, int, int],
    names: Sequence[str] | None = None,
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0),
    axes: tuple[int, ...] = (0, 1, 2),
) -> dict[str, np.ndarray]:
    """The columns of a table, ``label`` first, of any rows of the merged parts; sorted by label.

    ``spacing`` is of a voxel along z, y, x; columns are numbered by positions in the visible ``axes``.
    """
    # Names and formulas are from skimage.measure.regionprops: central moments of voxel centres; the lengths
    # of the axes belong to an ellipsoid with the same moments. Values that are undefined there (a region of
    # zero weight) are NaN. ``principal_axes-i-j`` is component ``j`` (z, y, x) of the direction of the
    # ``i``-th longest axis; its largest component is positive. Moments have orders up to 3 in total.
    ndim = len(axes)
    names = default_properties(ndim, part.intensities is not None) if names is None else names
    known = ("label", *known_properties(ndim, True), QUANTILE)
    unknown = [n for n in names if n.partition("-")[0] not in known]
    if unknown:
        raise ValueError(f"there is no region property {', '.join(unknown)} in {ndim}-D")
    if not part.count.all():
        part = part[part.count > 0]
    table: dict[str, np.ndarray] = {"label": part.label}
    finish = Finish(part, shape, spacing, axes)
    for name in names:
        if name == "label":
            continue
        base, _, number = name.partition("-")
        if base in WITH_INTENSITY and part.intensities is None:
            raise ValueError(f"{name} needs intensities")
        column = getattr(finish, base)(*map(float, [number] if number else []))
        if column.ndim == 1:
            table[name] = column
        else:
            for index in np.ndindex(*column.shape[1:]):
                if base in (*MOMENTS, *WEIGHTED_MOMENTS) and sum(index) > MAX_ORDER:
                    continue
                at = (slice(None), *index)
                table["-".join([name, *map(str, index)])] = column[at]
    return table
