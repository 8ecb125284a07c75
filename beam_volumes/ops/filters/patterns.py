"""Patterns of the voxels around each voxel, named as in scikit-image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.filters import binary_pattern as kernels
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in, triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Block, Padding

#: Points of a pattern: patterns are numbers of 31 bits in scikit-image.
_MAX_POINTS = 31


@dataclass(frozen=True, eq=False)
class BinaryPattern(Neighbourhood):
    """Comparisons of voxels with points; see `beam_volumes.kernels.filters.binary_pattern`."""

    rows: np.ndarray
    columns: np.ndarray
    method: int

    shift_invariant = False
    kernel = staticmethod(kernels.local_binary_pattern)

    @property
    def cost(self) -> float:
        return 10.0 + 6.0 * self.rows.size

    def parameters(self) -> tuple[Any, ...]:
        return self.rows, self.columns, self.method

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return *super().arguments(inputs, out, y0, y1, values), self.before, out.start


@documented
def local_binary_pattern(volume: Volume, P: int, R: float, method: str = "default") -> Volume:
    """Compare each voxel with points on a circle in its slice, a measure of texture.

    Use histograms of the result, or the result itself, as features of a texture. They do not depend
    on brightness.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with up to three axes. Integers are recommended: rounding of floats
        changes comparisons of equal values.
    P : int
        Number of points on the circle, from 1 to 31. Points between pixels are interpolated
        linearly.
    R : float
        Radius of the circle in pixels, rounded to float32.
    method : {"default", "ror", "uniform", "nri_uniform", "var"}, default: "default"
        How the comparisons become a number. A bit is 1 if the point is not below the voxel.

        - ``"default"``: the number with these bits.
        - ``"ror"``: the smallest number among all rotations of the bits.
        - ``"uniform"``: the number of ones if the bits change up to twice, otherwise ``P + 1``.
        - ``"nri_uniform"``: each pattern with up to two changes has its own number. All others are
          ``P * (P - 1) + 2``.
        - ``"var"``: the variance of the points, a measure of contrast instead of a pattern.

    Returns
    -------
    Volume
        A volume of the smallest of uint8, uint16 and uint32 that holds all patterns. For ``"var"``,
        a float64 volume, which is NaN where all points are equal.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    entropy : a measure of texture that ignores the order of voxels.
    features : features of several scales for a classifier.

    Notes
    -----
    One sweep, slice by slice, with a halo of ``R`` pixels, rounded up. Points beyond the edges are 0.
    The numbers equal scikit-image's, which are float64.

    References
    ----------
    `skimage.feature.local_binary_pattern`; T. Ojala et al., "Multiresolution gray-scale and rotation
    invariant texture classification with local binary patterns", IEEE Transactions on Pattern
    Analysis and Machine Intelligence 24 (2002).

    Examples
    --------
    >>> step = bv.open(np.array([[1, 1, 9, 9]] * 3, "u1"))
    >>> np.asarray(bv.local_binary_pattern(step, 8, 1, "uniform"))[1]
    array([5, 8, 5, 5], dtype=uint8)
    """
    volume, name = as_volume(volume), "local_binary_pattern"
    count = par.whole_number(P, "P", name)
    if count > _MAX_POINTS:
        raise ValueError(f"{name}: P={P!r}; give up to {_MAX_POINTS} points")
    radius = float(np.float32(par.positive(R, "R", name)))
    if method not in kernels.METHODS:
        names = ", ".join(map(repr, kernels.METHODS))
        raise ValueError(f"{name}: method={method!r}; use one of {names}")
    par.not_too_long(2 * radius + 1, f"{name}: R={R!r}")
    angles = 2 * np.pi * np.arange(count, dtype=np.float64) / count
    rows, columns = np.round(-radius * np.sin(angles), 5), np.round(radius * np.cos(angles), 5)
    # Points that are farther away than a slice is long are beyond its edges, wherever they are.
    rows, columns = (
        np.clip(a, -n, n) for a, n in zip((rows, columns), volume.shape[-2:], strict=True)
    )
    before = triple([0, *(int(np.ceil(np.abs(a).max())) for a in (rows, columns))])
    extent = triple([2 * n + 1 for n in before])
    largest = {"uniform": count + 1, "nri_uniform": count * (count - 1) + 2}
    codes = np.min_scalar_type(largest.get(method, 2**count - 1))
    dtype = np.dtype(np.float64) if method == "var" else codes
    source = volume.astype(np.uint8) if volume.dtype.kind == "b" else volume
    edges = Padding(("constant",) * 3, 0.0)
    stage = BinaryPattern(
        name, dtype, before, extent, edges, rows, columns, kernels.METHODS.index(method)
    )
    return stage_in(dtype, source, stage)
