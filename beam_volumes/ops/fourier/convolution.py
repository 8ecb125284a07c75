"""Convolution by Fourier transforms of blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.linear import convolve
from beam_volumes.ops.fourier.blocks import BlockFunction, Transforms, in_blocks, kernel_of
from beam_volumes.ops.parameters.building import triple
from beam_volumes.ops.parameters.docs import documented_like


class Convolved(BlockFunction):
    """A convolution."""

    def made(self, over: Transforms) -> Callable[[np.ndarray], np.ndarray]:
        return partial(over.filtered, spectrum=over.of_kernel(self.kernel))


@documented_like(convolve)
def fftconvolve(
    volume: Volume,
    weights: ArrayLike,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    patch: int | Sequence[int] | None = None,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Convolve with a large array of weights, using Fourier transforms of blocks.

    Use it for more than about a hundred weights: the time hardly depends on their number.

    Parameters
    ----------
    weights : array_like of float
        The weights, with one dimension per axis.
    %(mode_unwrapped)s
    %(patch_of_block)s

    Raises
    ------
    ValueError
        If a parameter is out of range, or does not have one entry for each axis. On computation, if
        a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``dtype`` is not supported.

    See Also
    --------
    convolve : adds up the products one by one, for small arrays of weights.

    Notes
    -----
    The result equals `convolve` within 16 units in the last place of the result's dtype. This error
    is relative to the sum of the weights' magnitudes times the largest voxel. Computation is in
    float64. Blocks start at the first voxel of the volume, and overlap by the extent of the
    weights, so the result does not depend on slabs. `scipy.signal.fftconvolve` with ``mode="same"``
    gives the same result for odd extents and ``mode="constant"``.

    One sweep. A slab needs whole blocks, and memory for six arrays of float64 of a block's shape.

    References
    ----------
    `scipy.signal.fftconvolve`, `scipy.signal.oaconvolve`.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 0, 1, 0, 0]], "u1"))
    >>> np.asarray(bv.fftconvolve(v, [[1, 2, 4]])).round(3) + 0.0
    array([[0., 1., 2., 4., 0.]], dtype=float32)
    """
    volume = as_volume(volume)
    name = "fftconvolve"
    kernel = kernel_of(volume, weights, "weights", name)
    extent = triple(kernel.shape)
    after = triple([n // 2 for n in extent])
    before = triple([n - 1 - a for n, a in zip(extent, after, strict=True)])
    make = partial(Convolved, name, "", kernel)
    return in_blocks(volume, name, make, extent, (before, after), patch, mode, cval, dtype)
