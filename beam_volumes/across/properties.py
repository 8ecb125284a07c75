"""Properties of regions, computed from the exact sums of `beam_volumes.across.tables`.

Formulas are from skimage.measure.regionprops.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import partialmethod
from typing import NamedTuple

import numpy as np

from beam_volumes.across.exact import Wide, stacked
from beam_volumes.across.ragged import FEW_POINTS, corners
from beam_volumes.kernels.labels.contours import CROFTON, PERIMETER
from beam_volumes.kernels.labels.hulls import farthest, rows_inside

#: Products of coordinates in `beam_volumes.across.tables.Regions.sums`: zz, yy, xx, zy, zx, yx.
PRODUCTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
#: Products of three coordinates in `beam_volumes.across.tables.Regions.cubes`.
CUBES = (
    *((0, 0, 0), (1, 1, 1), (2, 2, 2), (0, 0, 1), (0, 0, 2)),
    *((0, 1, 1), (0, 2, 2), (1, 1, 2), (1, 2, 2), (0, 1, 2)),
)
#: Products of up to three coordinates.
MONOMIALS = ((), (0,), (1,), (2,), *PRODUCTS, *CUBES)
#: Properties with an exponent of each axis, and the largest sum of exponents.
MOMENTS = ("moments", "moments_central", "moments_normalized")
WEIGHTED_MOMENTS = ("moments_weighted", "moments_weighted_central", "moments_weighted_normalized")
MAX_ORDER = 3
#: How far beyond a hull a voxel may be, as in scikit-image.
_TOLERANCE = 1e-10


@dataclass(frozen=True)
class Property:
    """A property of regions; the method of its name computes it."""

    #: Arrays of `beam_volumes.across.tables.Regions` that it needs in addition to counts, separated by
    #: spaces; ``"intensity"`` are the sums of intensities, ``"squares"`` of their squares, and ``"products"``
    #: of both and of products with coordinates.
    arrays: str
    ndims: tuple[int, ...] = (1, 2, 3)  #: Numbers of axes for which it is defined.
    needs_intensity: bool = False
    by_request: bool = False  #: Whether it is left out of the default columns.


#: The name of a quantile in a table, before the number.
QUANTILE = "intensity_quantile"
#: All properties, in the order of the default columns. A quantile is not listed: its name needs a number.
PROPERTIES = {
    "num_pixels": Property(""),
    "area": Property(""),
    "bbox": Property("box"),
    "centroid": Property("box sums"),
    "extent": Property("box"),
    "equivalent_diameter_area": Property(""),
    "axis_major_length": Property("box sums", ndims=(2, 3)),
    "axis_minor_length": Property("box sums", ndims=(2, 3)),
    "inertia_tensor_eigvals": Property("box sums", ndims=(2, 3)),
    "principal_axes": Property("box sums", ndims=(2, 3)),
    "orientation": Property("box sums", ndims=(2,)),
    "surface_area_faces": Property("faces"),
    "touches_border": Property("box"),
    "intensity_min": Property("", needs_intensity=True),
    "intensity_max": Property("", needs_intensity=True),
    "intensity_mean": Property("intensity", needs_intensity=True),
    "intensity_std": Property("intensity squares", needs_intensity=True),
    "intensity_sum": Property("intensity", needs_intensity=True),
    "centroid_weighted": Property("box sums intensity products", needs_intensity=True),
    "area_bbox": Property("box", by_request=True),
    "centroid_local": Property("box sums", by_request=True),
    "inertia_tensor": Property("box sums", ndims=(2, 3), by_request=True),
    "eccentricity": Property("box sums", ndims=(2,), by_request=True),
    "euler_number": Property("windows", ndims=(2, 3), by_request=True),
    "perimeter": Property("contour", ndims=(2,), by_request=True),
    "perimeter_crofton": Property("windows", ndims=(2,), by_request=True),
    "area_convex": Property("box points", ndims=(2, 3), by_request=True),
    "solidity": Property("box points", ndims=(2, 3), by_request=True),
    "feret_diameter_max": Property("box points", ndims=(2, 3), by_request=True),
    "moments": Property("box sums cubes", by_request=True),
    "moments_central": Property("box sums cubes", by_request=True),
    "moments_normalized": Property("box sums cubes", by_request=True),
    "moments_hu": Property("box sums cubes", ndims=(2,), by_request=True),
    "intensity_median": Property("values", needs_intensity=True, by_request=True),
    "minimum_position": Property("places", needs_intensity=True, by_request=True),
    "maximum_position": Property("places", needs_intensity=True, by_request=True),
    "centroid_weighted_local": Property(
        "box sums intensity products", needs_intensity=True, by_request=True
    ),
    "moments_weighted": Property("box weighted", needs_intensity=True, by_request=True),
    "moments_weighted_central": Property("box weighted", needs_intensity=True, by_request=True),
    "moments_weighted_normalized": Property("box weighted", needs_intensity=True, by_request=True),
    "moments_weighted_hu": Property(
        "box weighted", ndims=(2,), needs_intensity=True, by_request=True
    ),
    QUANTILE: Property("values", ndims=(), needs_intensity=True, by_request=True),
}


class _Sizes:
    """Sizes, places and axes of regions: a method for each property.

    Arrays are (labels,), (labels, axes) or (labels, axes, axes).
    """

    def __init__(self, part, shape, spacing, axes):
        self.part, self.axes, self.ndim = part, axes, len(axes)
        self.shape = shape
        self.spacing = np.array(spacing, np.float64)[list(axes)]
        self.voxel = math.prod(self.spacing.tolist())
        self._eigen = self._hull = None

    def num_pixels(self):
        return self.part.count

    def area(self):
        return self.part.count * self.voxel

    def bbox(self):
        return self.part.box[:, [*self.axes, *(a + 3 for a in self.axes)]]

    def _voxels_of_box(self):
        box = self.bbox()
        sides = box[:, self.ndim :] - box[:, : self.ndim]
        return np.prod(sides.astype(np.float64), axis=1)

    def area_bbox(self):
        return self._voxels_of_box() * self.voxel

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

    def centroid_local(self):
        """From the corner of the box."""
        at = self._floor()
        offset = at - self.part.box[:, :3] + self._about(at)[1]
        return offset[:, list(self.axes)] * self.spacing

    def _central(self):
        """Variances and covariances of the coordinates, (labels, ndim, ndim)."""
        part, at = self.part, self._floor()
        first, mean = self._about(at)
        n = self.ndim
        result = np.empty((len(part), n, n))
        for k, (i, j) in enumerate(PRODUCTS):
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

    def inertia_tensor(self):
        self._axes()
        return self._inertia

    def eccentricity(self):
        """Of an ellipse with the same moments; 0 for a single voxel."""
        major, minor = self._axes()[0].T
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(major > 0, minor / major, 1.0)
        return np.sqrt(np.maximum(1 - ratio, 0))

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
        return np.where(a - c == 0, round_, 0.5 * np.arctan2(0.0 - 2 * b, c - a))

    def extent(self):
        return self.part.count / self._voxels_of_box()

    def equivalent_diameter_area(self):
        return (2 * self.ndim * self.area() / np.pi) ** (1 / self.ndim)


class _Weights(NamedTuple):
    """Weights of voxels: 1, or intensities."""

    sums: Wide  #: Of weights times `MONOMIALS`.
    total: np.ndarray
    near: np.ndarray  #: The centroid in whole voxels, rounded down, (labels, 3).
    mean: np.ndarray  #: The centroid from there.

    @classmethod
    def of(cls, sums, box):
        first = sums[:, :4].floats()
        total = first[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            guess = np.nan_to_num(np.floor(first[:, 1:] / total[:, None]))
            near = np.clip(guess, box[:, :3], box[:, 3:] - 1).astype(np.int64)
            shifted = sums[:, 1:4] + sums[:, :1].times(-near)
            return cls(sums, total, near, shifted.floats() / total[:, None])

    def of_offsets(self, axes, at):
        """The sums of products of offsets from a point along some axes, rounded once."""
        total = Wide.integers(np.zeros(len(at), np.int64))
        for chosen in itertools.product((False, True), repeat=len(axes)):
            term = self.sums[:, MONOMIALS.index(tuple(itertools.compress(axes, chosen)))]
            for axis, is_kept in zip(axes, chosen, strict=True):
                term = term if is_kept else term.times(-at[:, axis])
            total = total + term
        return total.floats()


class _Moments(_Sizes):
    """Sums of products of up to three coordinates, with an exponent of each axis."""

    def _weights(self, weighted):
        part = self.part
        if weighted:
            return _Weights.of(part.intensities.weighted, part.box)
        count = Wide.integers(part.count[:, None])
        return _Weights.of(stacked(count, part.sums, part.cubes), part.box)

    def _by_exponent(self, value):
        """``value(axes)`` for all exponents of up to three axes; others are NaN."""
        result = np.full((MAX_ORDER + 1,) * self.ndim + (len(self.part),), np.nan)
        for powers in np.ndindex(*result.shape[:-1]):
            if sum(powers) <= MAX_ORDER:
                axes = tuple(np.repeat(self.axes, powers).tolist())
                result[powers] = value(axes) * math.prod((self.spacing**powers).tolist())
        return np.moveaxis(result, -1, 0)

    def moments(self, weighted=False):
        """From the corner of the box."""
        weights = self._weights(weighted)
        return self._by_exponent(lambda axes: weights.of_offsets(axes, self.part.box))

    def moments_central(self, weighted=False):
        weights = self._weights(weighted)
        _, total, at, mean = weights

        def central(axes):
            if len(axes) < 2:
                return np.where(total != 0, 0.0, np.nan) if axes else total
            found = weights.of_offsets(axes, at)
            if len(axes) == 2:
                return found - total * mean[:, axes[0]] * mean[:, axes[1]]
            for k in range(3):
                i, j = axes[:k] + axes[k + 1 :]
                found = found - weights.of_offsets((i, j), at) * mean[:, axes[k]]
            return found + 2 * total * np.prod(mean[:, list(axes)], axis=1)

        return self._by_exponent(central)

    def moments_normalized(self, weighted=False):
        result = np.moveaxis(self.moments_central(weighted), 0, -1)
        total = result[(0,) * self.ndim].copy()
        with np.errstate(invalid="ignore", divide="ignore"):
            for powers in np.ndindex(*result.shape[:-1]):
                order = sum(powers)
                scale = total ** (order / self.ndim + 1) * self.spacing.min() ** order
                result[powers] /= np.nan if order < 2 else scale
        return np.moveaxis(result, -1, 0)

    def moments_hu(self, weighted=False):
        nu = np.moveaxis(self.moments_normalized(weighted), 0, -1)
        a, b, c, d = nu[3, 0], nu[2, 1], nu[1, 2], nu[0, 3]
        both, difference, twice = nu[2, 0] + nu[0, 2], nu[2, 0] - nu[0, 2], 2 * nu[1, 1]
        p, q, u, v = a + c, b + d, a - 3 * c, 3 * b - d
        s, t = p * (p * p - 3 * q * q), q * (3 * p * p - q * q)
        columns = [both, difference**2 + twice**2, u * u + v * v, p * p + q * q, u * s + v * t]
        columns += [difference * (p * p - q * q) + 2 * twice * p * q, v * s - u * t]
        return np.stack(columns, axis=1)

    moments_weighted = partialmethod(moments, True)
    moments_weighted_central = partialmethod(moments_central, True)
    moments_weighted_normalized = partialmethod(moments_normalized, True)
    moments_weighted_hu = partialmethod(moments_hu, True)


class _Shapes(_Moments):
    """Outlines and convex hulls of regions."""

    def surface_area_faces(self):
        each = [self.voxel / s for s in self.spacing]
        return sum(self.part.faces[:, a] * f for a, f in zip(self.axes, each, strict=True))

    def euler_number(self):
        return self.part.windows[:, 0] // 8

    def perimeter_crofton(self):
        return self.part.windows[:, 1:] @ np.array(CROFTON) * self.spacing[0]

    def perimeter(self):
        return self.part.contour @ np.array(PERIMETER) * self.spacing[0]

    def _hulls(self):
        """The voxels in the hull of each region, and its ends, one region after the other."""
        axes = list(self.axes)
        parts = self.part.points.split(), self.bbox(), self.part.count.tolist()
        for points, box, count in zip(*parts, strict=True):
            yield _hull(points[:, axes], box[: self.ndim], box[self.ndim :], count)

    def _convex(self):
        if self._hull is None:
            self._hull = np.array([n for n, _ in self._hulls()], np.float64)
        return self._hull

    def area_convex(self):
        return self._convex() * self.voxel

    def solidity(self):
        return self.part.count / self._convex()

    def feret_diameter_max(self):
        return np.array([_diameter(ends, self.spacing) for _, ends in self._hulls()])


class _Intensities(_Shapes):
    """Statistics of intensities."""

    def intensity_min(self):
        return self._where_known(self.part.intensities.minimum)

    def intensity_max(self):
        return self._where_known(self.part.intensities.maximum)

    def minimum_position(self):
        return self._positions(0)

    def maximum_position(self):
        return self._positions(1)

    def _positions(self, column):
        """In voxels; 0 for labels without a value, as in scipy."""
        inner = self.part.intensities
        known = inner.count > 0
        at = np.unravel_index(np.where(known, inner.places[:, column], 0), self.shape)
        return np.stack(at, axis=1)[:, list(self.axes)]

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
        return self._weighted_from(np.zeros_like(self.part.box))

    def centroid_weighted_local(self):
        """From the corner of the box."""
        return self._weighted_from(self.part.box)

    def _weighted_from(self, corner):
        sums = self.part.intensities.sums
        at = self._floor()
        columns = []
        total = sums[:, 0]
        with np.errstate(invalid="ignore", divide="ignore"):
            for a in self.axes:
                offset = (sums[:, 2 + a] + total.times(-at[:, a])).floats() / total.floats()
                columns.append(at[:, a] - corner[:, a] + offset)
        return np.stack(columns, axis=1) * self.spacing

    def intensity_median(self):
        return self.intensity_quantile(0.5)

    def intensity_quantile(self, q):
        """As `numpy.quantile`, from counts of values; NaN for labels without any."""
        values = self.part.intensities.values
        ends = np.cumsum(values.sizes)
        before = np.concatenate([[0], np.cumsum(values.entries[:, 1])])
        first, last = before[ends - values.sizes], before[ends]
        at = np.maximum(q * (last - first - 1.0), 0)
        whole = np.floor(at)
        share = at - whole
        low = np.minimum(first + whole.astype(np.int64), last - 1)
        ranks = np.stack([low, np.minimum(low + 1, last - 1)])
        found = np.minimum(np.searchsorted(before, ranks, side="right") - 1, len(before) - 2)
        if not len(values.entries):
            return np.full(len(values), np.nan)
        a, b = values.entries[:, 0][found].astype(np.float64)
        between = np.where(share < 0.5, a + (b - a) * share, b - (b - a) * (1 - share))
        return np.where(last > first, between, np.nan)


#: All properties.
Finish = _Intensities


def _hull(points, start, stop, count):
    """The number of voxels in a hull, and voxels with the same hull.

    As in scikit-image, a hull contains the centres of the faces of its voxels.
    """
    from scipy.spatial import ConvexHull

    sides = (stop - start).tolist()
    ndim = len(sides)
    if count == math.prod(sides):
        return count, np.array(list(itertools.product(*((0, n - 1) for n in sides))))
    faces = ConvexHull(np.unique(_around(points - start), axis=0)).equations
    padded = np.zeros((len(faces), 4))
    padded[:, 3 - ndim :] = faces
    rows = rows_inside(padded, (1,) * (3 - ndim) + tuple(sides), _TOLERANCE)
    ends = np.concatenate([rows[:, [0, 1, 2]], rows[:, [0, 1, 3]]])[:, 3 - ndim :]
    return (rows[:, 3] - rows[:, 2] + 1).sum(), ends


def _around(voxels):
    """The centres of the faces of voxels."""
    ndim = voxels.shape[1]
    offsets = np.concatenate([np.eye(ndim), -np.eye(ndim)]) / 2
    return (voxels[:, None] + offsets).reshape(-1, ndim)


def _diameter(voxels, spacing):
    """The largest distance between centres of faces of some voxels."""
    from scipy.spatial import ConvexHull

    points = _around(corners(voxels) if len(voxels) > FEW_POINTS else voxels)
    if len(points) > FEW_POINTS:
        points = points[ConvexHull(points).vertices]
    return math.sqrt(farthest(points * spacing))


def _scaled(numerator: int, denominator: int, unit: int) -> float:
    """``numerator / denominator * 2**unit`` of integers of any size, rounded once."""
    if unit < 0:
        return numerator / (denominator << -unit)
    return (numerator << unit) / denominator
