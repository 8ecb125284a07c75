"""Region tables: exact sums per label that blocks add up, and properties computed of them.

`regions` folds a block of labels into a `Regions`, sorted by label. `merge` adds any number of
them, in any order and grouping, with the same bits. `properties` computes the columns of any rows,
with scikit-image's names. `beam_volumes.across.rounds.tables` merges the parts of many slabs.

Coordinates are summed as whole voxels from the volume's origin, in wide integers that do not
overflow (axes below 2**29 voxels). Central moments shift these sums exactly to near the centroid
before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from beam_volumes.across.exact import Wide, add_groups, window
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.labels import regions as kernels

_PRODUCTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # zz, yy, xx, zy, zx, yx

GEOMETRY = (
    "num_pixels",
    "area",
    "bbox",
    "centroid",
    "extent",
    "equivalent_diameter_area",
    "axis_major_length",
    "axis_minor_length",
    "inertia_tensor_eigvals",
    "principal_axes",
    "orientation",
    "surface_area_faces",
    "touches_border",
)
#: Properties that regions along one axis do not have.
_PLANAR = (
    "axis_major_length",
    "axis_minor_length",
    "inertia_tensor_eigvals",
    "principal_axes",
    "orientation",
)
INTENSITY = (
    "intensity_min",
    "intensity_max",
    "intensity_mean",
    "intensity_std",
    "intensity_sum",
    "centroid_weighted",
)


#: The arrays of `Regions` that each property needs, in addition to counts; ``"intensity"`` are the sums of
#: intensities.
_ARRAYS = {
    **dict.fromkeys(("num_pixels", "area", "equivalent_diameter_area"), ()),
    **dict.fromkeys(("bbox", "extent", "touches_border"), ("box",)),
    **dict.fromkeys(("centroid", *_PLANAR), ("box", "sums")),
    "surface_area_faces": ("faces",),
    **dict.fromkeys(("intensity_min", "intensity_max"), ()),
    **dict.fromkeys(("intensity_mean", "intensity_std", "intensity_sum"), ("intensity",)),
    "centroid_weighted": ("box", "sums", "intensity"),
}


def arrays_for(names: Iterable[str] | None) -> frozenset[str]:
    """The arrays that properties need; all by default.

    >>> sorted(arrays_for(["label", "area", "centroid"]))
    ['box', 'sums']
    """
    names = _ARRAYS if names is None else names
    return frozenset(array for name in names for array in _ARRAYS.get(name, ()))


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
    sums: Wide  #: Of v, v**2, z*v, y*v and x*v.


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
        none, no_sums = np.empty((n, 0), np.int64), Wide(0, np.zeros((n, 0, 1), np.int64))
        if inner is not None and "intensity" not in arrays:
            inner = replace(inner, sums=no_sums)
        return Regions(
            self.label,
            self.count,
            self.box if "box" in arrays else none,
            self.faces if "faces" in arrays else none,
            self.sums if "sums" in arrays else no_sums,
            inner,
        )

    @property
    def nbytes(self) -> int:
        total = self.label.nbytes + self.count.nbytes + self.box.nbytes + self.faces.nbytes
        total += self.sums.digits.nbytes
        if self.intensities is not None:
            i = self.intensities
            total += i.count.nbytes + i.minimum.nbytes + i.maximum.nbytes + i.sums.digits.nbytes
        return total


def as_labels(labels: np.ndarray) -> np.ndarray:
    """A block of labels as unsigned integers with the same bits."""
    if labels.dtype.kind not in "bui":
        raise TypeError(f"labels of {labels.dtype}: use bool or integers")
    if labels.dtype.kind == "i" and labels.size and (minimum := labels.min()) < 0:
        raise ValueError(
            f"a label of {minimum}: labels are 0 (background) or positive; bv.where(labels > 0, "
            "labels, 0) makes those below 0 background"
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
) -> Regions:
    """The contribution of one block: its core's voxels, and the faces at their upper sides.

    ``labels``, bool or integers (slices, rows, columns): the core, and one more plane at the upper
    side of each axis if a neighbour follows.
    ``intensity``: of the core: bool, integers, float16, float32 or float64.
    ``nan``, {"raise", "omit"}: whether non-finite intensities raise an error or are left out.
    ``core``: the shape of the core, by default the whole block. With 0 slices, only faces between
    the single given slice and ``below`` count.
    ``below``, ndarray (rows, columns): the slice of labels before the block, if its upper faces
    have not been counted yet.
    ``with_faces``: whether to count faces; otherwise they are all 0.
    ``arrays``: the arrays of the result, by default all; see `arrays_for`.
    """
    arrays = arrays_for(None) if arrays is None else arrays
    own = labels.shape if core is None else core
    if intensity is not None and intensity.shape != own:
        raise ValueError(f"intensities of shape {intensity.shape} for labels of shape {own}")
    if max(shape) >= 1 << 29:
        raise ValueError(f"a volume of {shape}: an axis of a region table is below 2**29 voxels")
    labels = as_labels(labels)
    below = np.empty((0, 0), labels.dtype) if below is None else as_labels(below)
    longest = max(own)
    if longest > 1 << 15 or math.prod(own) * longest**2 >= 1 << 62:
        halves = _halves(labels, below, own, origin, shape, intensity, nan, with_faces)
        return merge(halves).only(arrays)
    if not with_faces:
        labels, below = labels[tuple(slice(0, n) for n in own)], below[:0]
    label, keys, place = kernels.table_of(labels, below)
    first = tuple(o == 0 for o in origin)
    last = tuple(o + n == s for o, n, s in zip(origin, own, shape, strict=True))
    moments = np.zeros((len(label), 10), np.int64)
    box = np.full((len(label), 6), 1 << 40, np.int64)
    box[:, 3:] = -(1 << 40)
    faces = np.zeros((len(label), 3), np.int64)
    counted = faces if with_faces else faces[:0]
    kernels.geometry(labels, below, own, first, last, keys, place, moments, box, counted)
    has_voxels = moments[:, 0] > 0
    box[has_voxels] += np.array(origin * 2, np.int64)
    count = moments[:, 0].copy()
    sums = _from_origin(moments, origin) if "sums" in arrays else Wide.of(moments[:, :0])
    inner = None
    if intensity is not None:
        core_labels = labels[tuple(slice(0, n) for n in own)]
        inner = _intensities(core_labels, intensity, origin, keys, place, count, nan)
    used = has_voxels | faces.any(axis=1)
    part = Regions(label, count, box, faces, sums, inner).only(arrays)
    return part if used.all() else part[used]


def _halves(labels, below, own, origin, shape, intensity, nan, with_faces) -> list[Regions]:
    """Split the block into two."""
    axis = int(np.argmax(own))
    middle = own[axis] // 2

    def cut(array, a, b, axes=axis):
        return array[(slice(None),) * axes + (slice(a, b),)]

    parts = []
    for a, b, stop in ((0, middle, middle + 1), (middle, own[axis], None)):
        start = tuple(o + a * (i == axis) for i, o in enumerate(origin))
        core = tuple(b - a if i == axis else n for i, n in enumerate(own))
        values = None if intensity is None else cut(intensity, a, b)
        under: np.ndarray | None = below
        if axis == 0:
            under = below if a == 0 else None
        elif below.size:
            under = cut(below, a, stop, axis - 1)
        block = cut(labels, a, stop)
        parts.append(regions(block, start, shape, values, nan, core, under, with_faces))
    return parts


def _from_origin(moments: np.ndarray, origin: tuple[int, int, int]) -> Wide:
    """Convert sums of coordinates and products from the block's origin to the volume's."""
    local, at = Wide.integers(moments), np.array(origin)
    first = local[:, 1:4] + local[:, :1].times(at)
    i, j = np.transpose(_PRODUCTS)
    second = local[:, 4:] + local[:, 1 + j].times(at[i]) + first[:, i].times(at[j])
    return _stack(first, second)


def _stack(*columns: Wide) -> Wide:
    """Stack columns."""
    first, width = window(list(columns))
    return Wide.of(np.concatenate([c.spread(first, width) for c in columns], axis=1), first)


def _intensities(labels, values, origin, keys, place, count, nan) -> Intensities:
    n = len(count)
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    values = kernel_array(values)
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise TypeError(f"intensities of {values.dtype}: use bool, integers or floats to 64 bit")
    if values.dtype.kind == "f":
        return _float_intensities(labels, values, origin, keys, place, n, nan)
    info = np.iinfo(values.dtype)
    minimum, maximum = np.full(n, info.max, values.dtype), np.full(n, info.min, values.dtype)
    cells = np.zeros((n, 16), np.int64)
    kernels.integers(labels, values, keys, place, minimum, maximum, cells)
    parts = {name: Wide.of(cells[:, None, a:b]) for name, (a, b) in kernels.INTEGER_CELLS.items()}
    weighted = [parts[a] + parts["sum"].times(o) for a, o in zip("zyx", origin, strict=True)]
    sums = _stack(parts["sum"], parts["square"], *weighted)
    return Intensities(count.copy(), minimum, maximum, sums)


def _float_intensities(labels, values, origin, keys, place, n, nan) -> Intensities:
    only_extremes = nan == EXTREMES
    first, width = (0, 1) if only_extremes else _digits(values, nan)
    minimum, maximum = np.full(n, np.inf), np.full(n, -np.inf)
    cells = np.zeros((n, 5, width), np.int64)
    count = np.zeros(n, np.int64)
    how = 32 * first, only_extremes
    kernels.floats(labels, values, origin, keys, place, *how, count, minimum, maximum, cells)
    dtype = values.dtype
    return Intensities(count, minimum.astype(dtype), maximum.astype(dtype), Wide.of(cells, first))


def _digits(values: np.ndarray, nan: str) -> tuple[int, int]:
    """The first digit of the sums of floats, and the number of digits."""
    min_size, max_size, bad = kernels.magnitudes(values)
    single = values.dtype.itemsize == 4
    if bad and nan == "raise":
        raise ValueError(
            f'{bad} intensities are NaN or infinite: give nan="omit" to leave them out'
        )
    if max_size >= 2.0**511:
        raise ValueError(f"an intensity of {max_size:g}: its square is no float64")
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
        raise ValueError("region tables with and without intensities do not merge")
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
        inner = Intensities(
            reduced(np.add, (i.count for i in several)),
            reduced(np.minimum, (i.minimum for i in several)),
            reduced(np.maximum, (i.maximum for i in several)),
            add_groups([i.sums for i in several], order, starts),
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
        inner,
    )


def batches(part: Regions, maximum: int = 4_000_000) -> Iterator[Regions]:
    """The rows in pieces of at most about ``maximum`` bytes."""
    rows = max(1, int(maximum * len(part) // max(1, part.nbytes)))
    for i in range(0, len(part), rows):
        yield part[i : i + rows]


def default_properties(ndim: int = 3, intensity: bool = False) -> tuple[str, ...]:
    """The names of properties."""
    skip = {1: _PLANAR, 2: ()}.get(ndim, ("orientation",))
    return tuple(p for p in GEOMETRY + (INTENSITY if intensity else ()) if p not in skip)


def properties(
    part: Regions,
    shape: tuple[int, int, int],
    names: Sequence[str] | None = None,
    spacing: tuple[float, float, float] = (1.0, 1.0, 1.0),
    axes: tuple[int, ...] = (0, 1, 2),
) -> dict[str, np.ndarray]:
    """The columns of a table, by name, ``label`` first; rows are sorted by label.

    ``part``: any rows of the merged parts of all blocks.
    ``shape``: of the volume.
    ``names``: scikit-image's names of properties; those with several columns are numbered as there
    (``bbox-0`` ...). ``principal_axes-i-j`` is component ``j`` (z, y, x) of the direction of the
    ``i``-th longest axis; its largest component is positive.
    ``spacing``: of a voxel along z, y, x.
    ``axes``: the visible ones of z, y, x; columns are numbered by their position here. Formulas are
    from skimage.measure.regionprops: central moments of voxel centres; the lengths of the axes
    belong to an ellipsoid with the same moments. Values that are undefined there (a region of zero
    weight) are NaN.
    """
    ndim = len(axes)
    names = default_properties(ndim, part.intensities is not None) if names is None else names
    unknown = [n for n in names if n not in ("label", *default_properties(ndim, True))]
    if unknown:
        raise ValueError(f"no region property {', '.join(unknown)} in {ndim}-D")
    part = part[part.count > 0]
    table: dict[str, np.ndarray] = {"label": part.label}
    finish = _Finish(part, shape, spacing, axes)
    for name in names:
        if name == "label":
            continue
        if name in INTENSITY and part.intensities is None:
            raise ValueError(f"{name} needs intensities")
        column = getattr(finish, name)()
        if column.ndim == 1:
            table[name] = column
        else:
            for index in np.ndindex(*column.shape[1:]):
                at = (slice(None), *index)
                table["-".join([name, *map(str, index)])] = column[at]
    return table


class _Finish:
    """One method per property; arrays are (labels,) or (labels, axes)."""

    def __init__(self, part, shape, spacing, axes):
        self.part, self.axes, self.ndim = part, axes, len(axes)
        self.shape = shape
        self.spacing = np.array(spacing, np.float64)[list(axes)]
        self.voxel = math.prod(self.spacing.tolist())
        self._eigen = None

    def num_pixels(self):
        return self.part.count

    def area(self):
        return self.part.count * self.voxel

    def bbox(self):
        return self.part.box[:, [*self.axes, *(a + 3 for a in self.axes)]]

    def touches_border(self):
        ends = np.array([self.shape[a] for a in self.axes])
        box = self.bbox()
        return ((box[:, : self.ndim] == 0) | (box[:, self.ndim :] == ends)).any(axis=1)

    def _floor(self):
        """The centroid in whole voxels, rounded down, so that exact shifted sums are small."""
        box = self.part.box
        guess = np.floor(self.part.sums[:, :3].floats() / self.part.count[:, None])
        return np.clip(guess.astype(np.int64), box[:, :3], box[:, 3:] - 1)

    def _about(self, at):
        """Mean offsets from a point, as float64 (labels, 3)."""
        count = Wide.integers(self.part.count)
        shifted = [self.part.sums[:, a] + count.times(-at[:, a]) for a in range(3)]
        return shifted, np.stack([s.floats() for s in shifted], 1) / self.part.count[:, None]

    def centroid(self):
        at = self._floor()
        return ((at + self._about(at)[1])[:, list(self.axes)]) * self.spacing

    def _central(self):
        """Variances and covariances of the coordinates, (labels, ndim, ndim)."""
        part, at = self.part, self._floor()
        first, mean = self._about(at)
        n = self.ndim
        result = np.empty((len(part), n, n))
        for k, (i, j) in enumerate(_PRODUCTS):
            if i not in self.axes or j not in self.axes:
                continue
            # sum((i - ai) (j - aj)) = Sij - ai Sj - aj (Si - ai N)
            exact = part.sums[:, 3 + k] + part.sums[:, j].times(-at[:, i])
            exact = exact + first[i].times(-at[:, j])
            value = exact.floats() / part.count - mean[:, i] * mean[:, j]
            a, b = self.axes.index(i), self.axes.index(j)
            result[:, a, b] = result[:, b, a] = value * (self.spacing[a] * self.spacing[b])
        return result

    def _axes(self):
        if self._eigen is None:
            central = self._central()
            trace = np.trace(central, axis1=1, axis2=2)
            inertia = trace[:, None, None] * np.eye(self.ndim) - central
            self._inertia = inertia
            # ascending inertia is descending extent: the first vector is the longest axis
            values, vectors = np.linalg.eigh(inertia)
            self._eigen = np.maximum(values[:, ::-1], 0), np.swapaxes(vectors, 1, 2)
        return self._eigen

    def inertia_tensor_eigvals(self):
        return self._axes()[0]

    def principal_axes(self):
        vectors = self._axes()[1]
        largest = np.abs(vectors).argmax(axis=2)[..., None]
        return vectors * np.sign(np.take_along_axis(vectors, largest, axis=2))

    def axis_major_length(self):
        e = self._axes()[0]
        if self.ndim == 2:
            return 4 * np.sqrt(e[:, 0])
        return np.sqrt(10 * np.maximum(e[:, 0] + e[:, 1] - e[:, 2], 0))

    def axis_minor_length(self):
        e = self._axes()[0]
        if self.ndim == 2:
            return 4 * np.sqrt(e[:, 1])
        return np.sqrt(10 * np.maximum(-e[:, 0] + e[:, 1] + e[:, 2], 0))

    def orientation(self):
        self._axes()
        a, b, c = self._inertia[:, 0, 0], self._inertia[:, 0, 1], self._inertia[:, 1, 1]
        round_ = np.where(b < 0, np.pi / 4, -np.pi / 4)
        return np.where(a - c == 0, round_, 0.5 * np.arctan2(-2 * b, c - a))

    def extent(self):
        box = self.bbox()
        sides = box[:, self.ndim :] - box[:, : self.ndim]
        return self.part.count / np.prod(sides.astype(np.float64), axis=1)

    def equivalent_diameter_area(self):
        return (2 * self.ndim * self.area() / np.pi) ** (1 / self.ndim)

    def surface_area_faces(self):
        each = [self.voxel / s for s in self.spacing]
        return sum(self.part.faces[:, a] * f for a, f in zip(self.axes, each, strict=True))

    def intensity_min(self):
        return self._where_known(self.part.intensities.minimum)

    def intensity_max(self):
        return self._where_known(self.part.intensities.maximum)

    def _where_known(self, values):
        """NaN for labels without a value; integers always have one."""
        known = self.part.intensities.count > 0
        return values if known.all() else np.where(known, values, values.dtype.type(np.nan))

    def intensity_sum(self):
        inner = self.part.intensities
        if inner.minimum.dtype.kind == "f":
            return inner.sums[:, 0].floats()
        unsigned = inner.minimum.dtype.kind == "u"
        return inner.sums[:, 0].int64("intensity_sum", np.uint64 if unsigned else np.int64)

    def intensity_mean(self):
        inner = self.part.intensities
        with np.errstate(invalid="ignore", divide="ignore"):
            return inner.sums[:, 0].floats() / inner.count

    def intensity_std(self):
        """From exact integers: the square root of n S2 - S1**2, over n."""
        inner = self.part.intensities
        totals, unit = inner.sums[:, 0].python()
        squares, square_unit = inner.sums[:, 1].python()
        low = min(2 * unit, square_unit)
        up, square_up = 2 * unit - low, square_unit - low
        result = np.full(len(totals), np.nan)
        for i, (n, s, q) in enumerate(zip(inner.count.tolist(), totals, squares, strict=True)):
            if n:
                spread = max(0, n * (q << square_up) - (s * s << up))
                result[i] = math.sqrt(_scaled(spread, n * n, low))
        return result

    def centroid_weighted(self):
        sums = self.part.intensities.sums
        at = self._floor()
        columns = []
        total = sums[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            for a in self.axes:
                offset = (sums[:, 2 + a] + total.times(-at[:, a])).floats() / total.floats()
                columns.append(at[:, a] + offset)
        return np.stack(columns, axis=1) * self.spacing


def _scaled(numerator: int, denominator: int, unit: int) -> float:
    """``numerator / denominator * 2**unit`` of integers of any size, rounded once."""
    if unit < 0:
        return numerator / (denominator << -unit)
    return (numerator << unit) / denominator
