"""Positions that look like a template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
from scipy.ndimage import uniform_filter1d

from beam_volumes.graph.volume import Volume, one_channel
from beam_volumes.ops.networks.models import Model, Network
from beam_volumes.ops.networks.predict import predict
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import digest

#: numpy's boundary modes, and scipy's.
_MODES = {"constant": "constant", "edge": "nearest", "reflect": "mirror", "symmetric": "reflect"}
#: The extent of blocks by the number of axes, if the template is not larger.
_BLOCK = {1: 1 << 16, 2: 1024, 3: 128}
#: The largest number of voxels of a template.
_MAX_VOXELS = 1 << 19
#: Windows with less variance, relative to the squares of all voxels of a block, are constant.
_CONSTANT = 1e-13


@dataclass(frozen=True, eq=False)
class Template(Model):
    """The correlation of each window of a block with a template."""

    template: np.ndarray

    @property
    def accelerated(self) -> bool:
        return False

    def token(self) -> str:
        return digest(type(self).__name__, self.template)

    def _load(self, threads: int) -> Network:
        centred = self.template - self.template.mean()

        def call(batch: np.ndarray) -> np.ndarray:
            blocks = batch.reshape(-1, *batch.shape[-centred.ndim :])
            return np.stack([_correlated(b, centred) for b in blocks]).reshape(batch.shape)

        return call


def _correlated(block: np.ndarray, template: np.ndarray) -> np.ndarray:
    """Return the correlation of a template with the window around each voxel, where there is one."""
    found = np.zeros(block.shape, np.float32)
    shape = template.shape
    if any(n < t for n, t in zip(block.shape, shape, strict=True)):
        return found
    inside = tuple(
        slice(t // 2, t // 2 + n - t + 1) for t, n in zip(shape, block.shape, strict=True)
    )
    known = np.isfinite(block)
    all_known = known.all()
    voxels = np.where(known, block, 0).astype(np.float64)
    voxels -= voxels.mean()
    if not all_known:
        voxels *= known
    sizes = [scipy.fft.next_fast_len(n, real=True) for n in block.shape]
    spectrum = scipy.fft.rfftn(voxels, sizes)
    spectrum *= scipy.fft.rfftn(template, sizes).conj()
    whole = tuple(slice(n - t + 1) for n, t in zip(block.shape, shape, strict=True))
    result = scipy.fft.irfftn(spectrum, sizes)[whole]
    sums = _means(voxels, shape)[inside]
    voxels *= voxels
    variances = _means(voxels, shape)[inside] - sums * sums
    varies = variances > _CONSTANT * voxels.sum() / template.size
    result[~varies] = 0
    variances[~varies] = 1
    result /= np.sqrt(variances * (template.size * np.square(template).sum()))
    if not all_known:
        result[_means((~known).astype(np.float64), shape)[inside] * template.size > 0.5] = np.nan
    found[inside] = result
    return found


def _means(voxels: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the mean of the window around each voxel."""
    for axis, size in enumerate(shape):
        voxels = uniform_filter1d(voxels, size, axis, mode="constant")
    return voxels


@documented
def match_template(
    volume: Volume,
    template: Any,
    pad_input: bool = False,
    mode: str = "constant",
    constant_values: float = 0.0,
) -> Volume:
    """Compute how similar each position in a volume is to a template.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with two or three axes and no channels.
    template : array_like
        A small volume with the same axes and up to half a million voxels, such as 64 x 64 x 64.
    pad_input : bool, default: False
        If True, the result has the shape of the volume, and each voxel is the similarity with the
        template centred there. If False, the result is smaller, and each voxel is the similarity
        with the template beginning there.
    mode : {"constant", "edge", "reflect", "symmetric"}, default: "constant"
        How to extend the volume beyond its edges with ``pad_input``: by ``constant_values``, or by
        the outer voxels (``"edge"``). ``"reflect"`` mirrors the volume without its outer voxels,
        and ``"symmetric"`` with them.
    constant_values : float, default: 0.0
        The value beyond the edges for ``"constant"``.

    Returns
    -------
    Volume
        A float32 volume: Pearson's correlation of the template and the surrounding voxels, from -1
        to 1. The result is 0 where the surrounding voxels are constant, and NaN where any of them
        is NaN or infinite.

    Raises
    ------
    ValueError
        If the template is larger than the volume or constant, has different axes or too many
        voxels, or a parameter is out of range.
    TypeError
        If an input is neither a volume nor an array, or the volume has several channels.

    See Also
    --------
    peak_local_max : finds the best places of the result.
    correlate : does not divide by the variance.

    Notes
    -----
    One sweep. Blocks at fixed positions are Fourier transformed, so the result does not depend on
    slabs. The last bits may depend on scipy's version. Blocks have 128 voxels along each axis in
    three dimensions, or more for templates of more than 32. Voxels are first rounded to float32.
    The error is about 1e-6.

    References
    ----------
    `skimage.feature.match_template`; J. P. Lewis, "Fast normalized cross-correlation", Industrial Light
    and Magic (1995).

    Examples
    --------
    >>> image = np.zeros((6, 7))
    >>> image[2:4, 3:5] = [[1, 2], [3, 4]]
    >>> found = bv.match_template(image, [[1, 2], [3, 4]])
    >>> found.shape, np.unravel_index(np.asarray(found).argmax(), found.shape)
    ((5, 6), (np.int64(2), np.int64(3)))
    """
    name = "match_template"
    volume = one_channel(volume)
    pattern = _checked(template, volume, name)
    if mode not in _MODES:
        raise ValueError(f"{name}: mode={mode!r}; use one of {', '.join(map(repr, _MODES))}")
    if not par.is_number(constant_values) or not abs(constant_values) <= 1e30:
        raise ValueError(f"{name}: constant_values={constant_values!r} is not a number up to 1e30")
    shape = pattern.shape
    before = [t // 2 for t in shape]
    after = [t - 1 - b for t, b in zip(shape, before, strict=True)]
    sizes = volume.shape[-len(shape) :]
    block = []
    for n, t in zip(sizes, shape, strict=True):
        cell = max(_BLOCK[len(shape)], 4 * t) - t + 1  # of few blocks with one size
        block.append(-(-n // -(-n // cell)) + t - 1)
    axes = {1: 2}.get(len(shape), len(shape))
    model = Template(name, digest(pattern), ndim=axes, channels=1, template=pattern)
    found = predict(
        volume, model, mode="valid", patch=block, context=list(zip(before, after, strict=True)),
        edges=_MODES[mode], cval=float(constant_values), batch=1,
    )[0]  # fmt: skip
    if pad_input:
        return found
    inside: Any = tuple(slice(b, n - a) for b, a, n in zip(before, after, found.shape, strict=True))
    return found[inside]


def _checked(template: Any, volume: Volume, name: str) -> np.ndarray:
    try:
        pattern = np.asarray(template, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: template={template!r} is not an array of numbers") from None
    shape = volume.shape
    if pattern.ndim != len(shape) or any(t > n for t, n in zip(pattern.shape, shape, strict=True)):
        raise ValueError(
            f"{name}: the template has shape {pattern.shape}, but the volume has shape {shape}; a "
            "template must have the same axes, and not be larger"
        )
    if pattern.size > _MAX_VOXELS or not pattern.size:
        raise ValueError(
            f"{name}: the template has {pattern.size:,} voxels; use 1 to "
            f"{_MAX_VOXELS:,}, or downsample both"
        )
    if not np.isfinite(pattern).all() or (pattern == pattern.flat[0]).all():
        raise ValueError(
            f"{name}: the template is constant or not finite, so nothing correlates with it"
        )
    return pattern
