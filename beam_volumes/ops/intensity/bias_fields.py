"""Smooth bias fields of whole volumes, as N4 finds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.fft

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.elementary import exp_log
from beam_volumes.ops.geometry.channels import channels, stack
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.measure.folds_along import ExtremeAlong
from beam_volumes.ops.measure.reductions import fold
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, Regrid

#: Maximum voxels of the downsampled volume.
_MAX_VOXELS = 1 << 22
#: Bytes of the fit per voxel of the downsampled volume, and per position along an axis.
_FIT_BYTES, _BASIS_BYTES = 112, 128
_MAX_POINTS = 1 << 17  # all workers receive the control points
_MAX_LEVELS, _MAX_ITERATIONS, _MAX_BINS = 16, 1000, 10_000
#: Estimates of intensities with a smaller share of the largest weight are rounding errors.
_SMALL = 1e-12
_LOG2 = 0.6931471805599453


class Basis(NamedTuple):
    """The cubic B-splines at positions along an axis: the first control point, and weights."""

    first: np.ndarray
    weights: np.ndarray  #: (control points per position, positions)

    @classmethod
    def of(cls, positions: np.ndarray, n: int, points: int) -> Basis:
        """Return the splines of ``points`` control points along ``n`` voxels; one point is a constant."""
        if points == 1:
            return cls(np.zeros(positions.shape, np.int64), np.ones((1, *positions.shape)))
        u = positions * ((points - 3) / (n - 1))
        first = np.minimum(u.astype(np.int64), points - 4)
        t = u - first
        s = 1 - t
        near = [(3 * v - 6) * v * v + 4 for v in (t, s)]
        return cls(first, np.stack([s * s * s, *near, t * t * t]) / 6)

    def __call__(self, points: np.ndarray, axis: int) -> np.ndarray:
        """Evaluate the splines along an axis; each value has the same bits among any others."""
        along = [1] * points.ndim
        along[axis] = -1
        total: Any = 0.0
        for k, weights in enumerate(self.weights):
            total = total + points.take(self.first + k, axis) * weights.reshape(along)
        return total  # type: ignore[no-any-return]

    def summed(self, values: np.ndarray, weights: np.ndarray, axis: int, points: int) -> np.ndarray:
        """Add weighted values to the control points of their positions."""
        values = np.moveaxis(values, axis, 0)
        total = np.zeros((points, *values.shape[1:]))
        starts = np.searchsorted(self.first, np.arange(points + 1))
        for m in np.unique(self.first):
            span = slice(starts[m], starts[m + 1])
            for k, w in enumerate(weights[:, span]):
                total[m + k] += (values[span] * w.reshape(-1, *[1] * (values.ndim - 1))).sum(0)
        return np.moveaxis(total, 0, axis)


def _approximated(
    residual: np.ndarray, inside: np.ndarray, basis: Sequence[Basis], points: Triple
) -> np.ndarray:
    """Return the control points for scattered values, those ``inside``, by Lee, Wolberg and Shin."""
    # Weights are products of weights along axes, so sums over voxels are sums along one axis after the other.
    squares = [b.weights * b.weights for b in basis]
    cubes = [b.weights * s / s.sum(0) for b, s in zip(basis, squares, strict=True)]
    above, below = residual, inside.astype(np.float64)
    for a in _by_reduction(residual.shape, points):
        above = basis[a].summed(above, cubes[a], a, points[a])
        below = basis[a].summed(below, squares[a], a, points[a])
    return np.divide(above, below, out=np.zeros(points), where=below > 0)


def _by_reduction(shape: Sequence[int], points: Triple) -> list[int]:
    """Order the axes so that intermediate results are small."""
    return sorted(range(3), key=lambda a: points[a] / shape[a])


def _evaluated(control: np.ndarray, basis: Sequence[Basis]) -> np.ndarray:
    order = _by_reduction([b.first.size for b in basis], triple(control.shape))
    for a in reversed(order):
        control = basis[a](control, a)
    return control


def _refined(control: np.ndarray) -> np.ndarray:
    """Halve the distance of control points along all axes; the spline does not change."""
    for axis in range(3):
        c = np.moveaxis(control, axis, 0)
        if len(c) > 1:
            fine = np.empty((2 * len(c) - 3, *c.shape[1:]))
            fine[::2] = (c[:-1] + c[1:]) / 2
            fine[1::2] = (c[:-2] + 6 * c[1:-1] + c[2:]) / 8
            control = np.moveaxis(fine, 0, axis)
    return control


def _applied(function: Callable[..., None], values: np.ndarray) -> np.ndarray:
    out = np.empty((1, values.size))
    function(values.reshape(1, -1), out)
    return out[0]


def _sharpened(values: np.ndarray, bins: int, width: float, noise: float) -> np.ndarray:
    """Estimate logarithms of intensities without bias, by deconvolution of their histogram."""
    low, step = values.min(), np.ptp(values) / (bins - 1)
    if not step > 0:
        return values
    place = (values - low) / step
    index = np.minimum(place.astype(np.int64), bins - 2)
    place -= index
    counts = np.bincount(index, 1 - place, bins) + np.bincount(index + 1, place, bins)
    size = 2 << (bins - 1).bit_length()
    start = (size - bins) // 2
    padded = np.zeros(size)
    padded[start : start + bins] = counts
    distance = np.minimum(np.arange(size), size - np.arange(size)) * (step / width)
    gaussian = _applied(exp_log.exp, -4 * _LOG2 * distance * distance)
    blur = scipy.fft.rfft(gaussian).real * (2 * math.sqrt(_LOG2 / math.pi) * (step / width))
    wiener = blur / (blur * blur + noise)
    sharp = np.maximum(scipy.fft.irfft(scipy.fft.rfft(padded) * wiener, size), 0)
    intensities = low + (np.arange(size) - start) * step
    above, below = (
        scipy.fft.irfft(scipy.fft.rfft(u) * blur, size) for u in (intensities * sharp, sharp)
    )
    is_known = below > _SMALL * below.max()
    expected = np.divide(above, below, out=intensities, where=is_known)[start : start + bins]
    return expected[index] * (1 - place) + expected[index + 1] * place  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class FitField(ExtremeAlong):
    """Control points of the logarithm of a bias field; the state contains all voxels.

    ``shape`` is the number of control points of the last level.
    """

    whole: Triple  #: The shape of the volume that was downsampled
    offset: Triple
    step: Triple
    points: Triple  #: The number of control points of the first level
    iterations: tuple[int, ...]  #: Of each level
    threshold: float
    width: float
    noise: float
    bins: int

    def peak_bytes(self, threads: int) -> int:
        fit = _FIT_BYTES * math.prod(self.extent) + _BASIS_BYTES * sum(self.extent)
        return max(super().peak_bytes(threads), self.state_bytes + fit)

    def finish(self, state: Any, values: tuple[Any, ...]) -> np.ndarray:
        e = self.extent
        collect = ExtremeAlong(self.name, self.dtype, e, self.source, self.nan, self.kept, e, False)
        image = collect.finish(state, ())
        with np.errstate(invalid="ignore"):
            inside = image > 0
        if not inside.any():
            return np.zeros(self.shape)
        log = _applied(exp_log.log, image[inside])
        grid = zip(self.offset, self.step, e, self.whole, strict=True)
        positions = [(start + step * np.arange(n), whole) for start, step, n, whole in grid]
        residual = image  # in the same memory
        residual[...] = 0
        control, field = np.zeros(self.points), np.zeros(log.shape)
        for level, iterations in enumerate(self.iterations):
            control = _refined(control) if level else control
            points = triple(control.shape)
            basis = [Basis.of(*p, n) for p, n in zip(positions, points, strict=True)]
            for _ in range(iterations):
                even = log - field
                residual[inside] = even - _sharpened(even, self.bins, self.width, self.noise)
                control = control + _approximated(residual, inside, basis, points)
                new = _evaluated(control, basis)[inside]
                change = _applied(exp_log.exp, new - field)
                field = new
                if change.std() <= self.threshold * change.mean():
                    break
        return control - field.mean()  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class BiasField(Regrid):
    """The exponential of a B-spline, without input; a lazy array has the control points."""

    points: Triple  #: The number of control points along each axis

    compiled = True
    cost = 35.0

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        _, py, px = self.points
        return 40 * rows * cols + 32 * px * (rows + 2 * py) + 128 * (rows + cols + depth)

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return 0, 0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = out.start
        ranges = (z, z + out.depth), (y + y0, y + y1), (x, x + out.cols)
        of_z, of_y, of_x = (
            Basis.of(np.arange(*r), n, points)
            for r, n, points in zip(ranges, self.grid, self.points, strict=True)
        )
        control = np.asarray(values[0])
        for k in range(out.depth):
            plane = Basis(of_z.first[k : k + 1], of_z.weights[:, k : k + 1])(control, 0)[0]
            exp_log.exp(of_x(of_y(plane, 0), 1), out.slice(k, y0, y1))


@documented
def n4_bias_field_correction(
    volume: Volume,
    shrink_factor: int | Sequence[int] = 4,
    *,
    mask: Volume | None = None,
    maximum_number_of_iterations: Sequence[int] = (50, 50, 50, 50),
    convergence_threshold: float = 0.001,
    bias_field_full_width_at_half_maximum: float = 0.15,
    wiener_filter_noise: float = 0.01,
    number_of_histogram_bins: int = 200,
    number_of_control_points: int | Sequence[int] = 4,
    return_bias_field: bool = False,
) -> Volume:
    """Correct uneven brightness with the N4 algorithm.

    Use it for smooth shading of a whole volume, such as the bias of an MRI coil or of a light sheet.
    The bias is a smooth factor. N4 selects the one that makes the histogram of intensities sharp.

    Parameters
    ----------
    %(volume)s
    shrink_factor : int or sequence of int, default: 4
        The field is fitted to one voxel of each window of this size; one value for all axes or one
        per axis.
    %(where)s
        Select the tissue without background. All other voxels are corrected as well.
    maximum_number_of_iterations : sequence of int, default: (50, 50, 50, 50)
        The maximum number of iterations at each level. Each level has half the distance of control
        points of the level before.
    convergence_threshold : float, default: 0.001
        A level ends when the factors of an iteration have a smaller coefficient of variation.
    bias_field_full_width_at_half_maximum : float, default: 0.15
        The width of the histogram of the bias, as a natural logarithm of the intensity.
    wiener_filter_noise : float, default: 0.01
        The noise of the Wiener filter that deconvolves the histogram.
    number_of_histogram_bins : int, default: 200
        The number of bins of the histogram, at least 2.
    number_of_control_points : int or sequence of int, default: 4
        The number of control points of the first level, at least 4; one value for all axes or one
        per axis.
    return_bias_field : bool, default: False
        Return the bias field instead of the corrected volume.

    Returns
    -------
    Volume
        The volume divided by its bias field. The field is float32, and float64 for a float64 volume.
        The result has the dtype of numpy's division.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the volume has no
        voxels, the shape of ``mask`` differs, or the downsampled volume has more than four million
        voxels.
    TypeError
        If an input is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    fit_bias : fits a polynomial to each slice.
    rolling_ball : finds a background to subtract.

    Notes
    -----
    Two sweeps: the first reads the downsampled volume, and the second computes the result. The
    field is fitted between them, in one thread, with about 120 bytes per downsampled voxel. The
    second sweep evaluates the field at each voxel.

    Voxels that are 0, negative, NaN or infinite are not included in the fit. Without included
    voxels, the field is 1. Fields are scaled, so that their geometric mean over included voxels is
    1. Each channel and each time point has its own field.

    References
    ----------
    ``N4BiasFieldCorrection`` of SimpleITK; N. J. Tustison et al., "N4ITK: improved N3 bias
    correction", IEEE Trans. Medical Imaging 29 (2010); S. Lee, G. Wolberg, S. Y. Shin, "Scattered
    data interpolation with multilevel B-splines", IEEE Trans. Visualization and Computer Graphics 3
    (1997).

    Examples
    --------
    >>> tissue = np.where(np.indices((8, 32, 32)).sum(0) // 8 % 2, 100.0, 200.0)
    >>> shading = np.linspace(0.8, 1.2, 32)
    >>> v = bv.open(tissue * shading)
    >>> even = np.asarray(bv.n4_bias_field_correction(v, shrink_factor=2))
    >>> bright = tissue == 200
    >>> float((even[bright].std() / even[bright].mean()).round(2))
    0.0
    """
    name = "n4_bias_field_correction"
    v = refuse_empty(as_volume(volume), name)
    where = [] if mask is None else [as_volume(mask)]
    for m in where:
        if m.grid_shape != v.grid_shape or len(m.nodes) not in (1, len(v.nodes)):
            raise ValueError(
                f"{name}: the mask has the shape {m.shape} ({', '.join(m.axes)}), but the volume has "
                f"the shape {v.shape} ({', '.join(v.axes)})"
            )
    visible = v.space.visible
    factors = par.whole_numbers(shrink_factor, visible, 1, "shrink_factor", 1, name)
    shape = v.grid_shape
    step = triple([min(s, n) for s, n in zip(factors, shape, strict=True)])
    offset = triple([(s - 1) // 2 for s in step])
    extent = _extent(shape, step)
    if math.prod(extent) > _MAX_VOXELS:
        enough = max(factors)
        while math.prod(_extent(shape, (enough,) * 3)) > _MAX_VOXELS:
            enough += 1
        raise ValueError(
            f"{name}: shrink_factor={shrink_factor!r} leaves {math.prod(extent):,} voxels, and the "
            f"maximum is {_MAX_VOXELS:,}; give shrink_factor={enough}"
        )
    given = par.whole_numbers(
        number_of_control_points, visible, 4, "number_of_control_points", 4, name
    )
    first = triple([p if n > 1 else 1 for p, n in zip(given, extent, strict=True)])
    iterations = _iterations(maximum_number_of_iterations, name)
    points = triple([(p - 3 << len(iterations) - 1) + 3 if p > 1 else 1 for p in first])
    if math.prod(points) > _MAX_POINTS:
        raise ValueError(
            f"{name}: number_of_control_points={number_of_control_points!r} makes "
            f"{math.prod(points):,} at the last of {len(iterations)} levels, and the maximum is "
            f"{_MAX_POINTS:,}; give fewer, or fewer levels in maximum_number_of_iterations"
        )
    bins = par.whole_number(number_of_histogram_bins, "number_of_histogram_bins", name, 2)
    if bins > _MAX_BINS:
        raise ValueError(f"{name}: number_of_histogram_bins={bins}; the maximum is {_MAX_BINS:,}")
    numbers = {
        "convergence_threshold": convergence_threshold,
        "bias_field_full_width_at_half_maximum": bias_field_full_width_at_half_maximum,
        "wiener_filter_noise": wiener_filter_noise,
    }
    threshold, width, noise = (par.positive(n, what, name) for what, n in numbers.items())
    dtype = np.dtype(np.float64 if v.dtype == np.float64 else np.float32)
    grid = (shape, offset, step, first)
    fit = FitField(
        name, np.dtype(np.float64), points, dtype, "omit", (True, True, True), extent, False, *grid,
        iterations, threshold, width, noise, bins,
    )  # fmt: skip
    stage = BiasField(f"{name} (field)", dtype, (0, 0, 0), shape, points)
    middle = (..., *(slice(offset[a], None, step[a]) for a in visible))

    def field_of(one: Volume, *where: Volume) -> Volume:
        fitted = fold(fit, one[middle].astype(dtype), where[0][middle] if where else None)
        return Volume(StageNode.of(stage, (), (fitted.value,)), shared_space(name, one, *where))

    if v.space.has_channels:
        masks = [channels(m) if m.space.has_channels else [m] * len(v.nodes) for m in where]
        field = stack([field_of(*one) for one in zip(channels(v), *masks, strict=True)], v.channels)
    else:
        field = field_of(v, *where)
    return field if return_bias_field else v / field


def _extent(shape: Triple, step: Sequence[int]) -> Triple:
    """Return the number of voxels from the middle of each window."""
    along = zip(shape, step, strict=True)
    return triple([-(-(n - (min(s, n) - 1) // 2) // s) for n, s in along])


def _iterations(given: Sequence[int], name: str) -> tuple[int, ...]:
    """Return the maximum number of iterations at each level."""
    what = "maximum_number_of_iterations"
    if not 0 < len(given) <= _MAX_LEVELS:
        raise ValueError(f"{name}: {what}={given!r}; give 1 to {_MAX_LEVELS} numbers, one a level")
    numbers = tuple(par.whole_number(n, what, name, 0) for n in given)
    if max(numbers) > _MAX_ITERATIONS:
        raise ValueError(f"{name}: {what}={given!r}; the maximum is {_MAX_ITERATIONS:,}")
    return numbers
