"""Local variance of tiles, as a measure of how much detail they show at a position.

S. Preibisch, T. Rohlfing, M. P. Hasak and P. Tomancak, "Mosaicing of single plane illumination microscopy
images using groupwise registration and fast content-based image fusion", Proc. SPIE 6914, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_volumes.kernels.elementary.exp_log import gaussian_weights
from beam_volumes.kernels.jit import kernel

#: Standard deviations at which Gaussian kernels end.
_TRUNCATE = 3.0
#: The deviation from the local mean, relative to it, that may be a rounding error.
_ROUNDING = 2.0**-16
#: The largest squared deviation, so that sums of weighted voxels are finite.
_MAX_SQUARE = 1e100
#: Arrays of the size of the voxels that `local_variance` needs.
ARRAYS = 7


def radii(sigmas: Sequence[float]) -> tuple[int, int, int]:
    """Return the voxels around a position on which its variance depends, along each axis."""
    z, y, x = (_radius(s) + _radius(2 * s) for s in sigmas)
    return z, y, x


def _radius(sigma: float) -> int:
    return int(_TRUNCATE * sigma + 0.5)


def content_dtype(dtype: np.dtype) -> np.dtype:
    """Return the dtype of variances: squares of other dtypes may exceed float32."""
    return np.dtype(np.float32 if dtype.kind in "bui" and dtype.itemsize <= 2 else np.float64)


def local_variance(
    voxels: np.ndarray, valid: np.ndarray | None, sigmas: Sequence[float]
) -> np.ndarray:
    """Return the smoothed square of the deviation from the smoothed array.

    With ``valid``, only these voxels count.
    """
    # The second Gaussian has twice the standard deviations ``sigmas``. The array is reflected at its edges.
    # Each voxel is the same sequence of operations, wherever the array begins.
    dtype = content_dtype(voxels.dtype)
    wide, scratch = [2 * s for s in sigmas], np.empty(voxels.shape, dtype)
    limits = dtype.type(_ROUNDING), dtype.type(min(_MAX_SQUARE, float(np.finfo(dtype).max)))
    if valid is None:
        result = voxels.astype(dtype)
        mean = _smoothed(result.copy(), sigmas, scratch)
        _deviate(result.reshape(-1), mean.reshape(-1), *limits)
        return _smoothed(result, wide, scratch)
    share = valid.astype(dtype)
    result = np.where(valid, voxels, 0).astype(dtype)
    mean = _smoothed(result.copy(), sigmas, scratch)
    _divide(mean.reshape(-1), _smoothed(share.copy(), sigmas, scratch).reshape(-1))
    _deviate(result.reshape(-1), mean.reshape(-1), *limits)
    result *= share
    del mean
    result = _smoothed(result, wide, scratch)
    _divide(result.reshape(-1), _smoothed(share, wide, scratch).reshape(-1))
    return result


def _smoothed(array: np.ndarray, sigmas: Sequence[float], scratch: np.ndarray) -> np.ndarray:
    """Smooth an array in place; ``scratch`` has its shape and dtype."""
    for axis, (sigma, n) in enumerate(zip(sigmas, array.shape, strict=True)):
        radius = _radius(sigma)
        if not radius:
            continue
        index = np.arange(-radius, n + radius) % (2 * n)
        index = np.where(index < n, index, 2 * n - 1 - index)
        lines = (int(np.prod(array.shape[:axis])), n, int(np.prod(array.shape[axis + 1 :])))
        weights = gaussian_weights(sigma, radius).astype(array.dtype)
        line = np.empty(n + 2 * radius, array.dtype)
        _smooth(array.reshape(lines), weights, index, line, scratch.reshape(lines))
        array[...] = scratch
    return array


@kernel
def _smooth(array, weights, index, line, out):
    """Correlate the second axis with ``weights``; ``index`` has the voxels of an extended line."""
    for o in range(array.shape[0]):
        if array.shape[2] == 1:
            for i in range(line.size):
                line[i] = array[o, index[i], 0]
            for i in range(out.shape[1]):
                out[o, i, 0] = 0
            for k in range(weights.size):
                for i in range(out.shape[1]):
                    out[o, i, 0] += weights[k] * line[i + k]
        else:
            for i in range(out.shape[1]):
                for x in range(out.shape[2]):
                    out[o, i, x] = 0
                for k in range(weights.size):
                    j = index[i + k]
                    for x in range(out.shape[2]):
                        out[o, i, x] += weights[k] * array[o, j, x]


@kernel
def _deviate(values, means, rounding, largest):
    """Replace values by the square of their difference from means; rounding errors are 0."""
    for i in range(values.size):
        d = values[i] - means[i]
        values[i] = min(d * d, largest) if abs(d) > rounding * abs(means[i]) else 0


@kernel
def _divide(values, shares):
    """Divide values by shares; they are 0 where no voxel counts."""
    for i in range(values.size):
        values[i] = values[i] / shares[i] if shares[i] > 0 else 0
