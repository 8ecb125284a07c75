"""Structure tensors, Hessian matrices, eigenvalues and ridge measures, named as in scikit-image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.derivatives import sobel
from beam_volumes.ops.filters.linear import gaussian_filter
from beam_volumes.ops.filters.tensor_stages import (
    Eigenvalue,
    EigenvalueOfSpread,
    Ridge,
    Spread,
    Symmetric,
)
from beam_volumes.ops.measure.reductions import max as greatest
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of_volumes
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import where

Sigma = float | str | Sequence[float | str]


@documented
def structure_tensor(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, ...]:
    """Compute the structure tensor: smoothed products of Sobel derivatives.

    Parameters
    ----------
    %(intensities)s
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the smoothing Gaussian, in voxels or as a length such as
        ``"15 nm"``. Lengths need a volume with a voxel size. One value for all axes or one per
        axis.
    %(mode_constant)s
    %(cval)s
    %(dtype)s

    Returns
    -------
    tuple of Volume
        The upper triangle, row by row: zz, zy, zx, yy, yx, xx, or yy, yx, xx for a volume with two
        axes. The elements are float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes. ``dtype`` overrides this.

    Raises
    ------
    %(linear_errors)s

    See Also
    --------
    structure_tensor_eigenvalues : computes the eigenvalues from this result.

    Notes
    -----
    One sweep, with a halo of ``4 * sigma + 1`` voxels. Windows of all elements are in memory at the
    same time.

    References
    ----------
    `skimage.feature.structure_tensor`.

    Examples
    --------
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> np.asarray(bv.structure_tensor(square, 0.1)[1]).astype(int)[1]
    array([ 0,  1,  3,  0, -3, -1,  0])
    """
    volume = as_volume(volume)
    options: dict[str, Any] = {"mode": mode, "cval": cval, "dtype": dtype}
    slopes = [sobel(volume, a, **options) for a in par.axes_of_space(volume)]
    products = (apply_ufunc("multiply", a, b) for a, b in combinations_with_replacement(slopes, 2))
    return tuple(gaussian_filter(p, sigma, **options) for p in products)


@named_checked
def structure_tensor_eigenvalues(tensor: Sequence[Volume]) -> tuple[Volume, ...]:
    """Compute the eigenvalues of a structure tensor, in descending order.

    Parameters
    ----------
    tensor : sequence of Volume
        The six elements from `structure_tensor`, or three for two axes; all float32, or all
        float64.

    Returns
    -------
    tuple of Volume
        One volume for each axis, with the dtype of the elements.

    Raises
    ------
    ValueError
        If there are not three or six elements.
    TypeError
        If the elements are not all float32, or all float64.

    See Also
    --------
    hessian_matrix_eigvals : does the same for a Hessian matrix.

    Notes
    -----
    float32 uses a closed form, with an error of 2e-7 of the largest eigenvalue, and float64 uses
    Jacobi rotations. For three axes and float32, a common intermediate result is computed once and
    needs 8 bytes for each voxel of a window.

    References
    ----------
    `skimage.feature.structure_tensor_eigenvalues`.

    Examples
    --------
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> first, second = bv.structure_tensor_eigenvalues(bv.structure_tensor(square, 0.1))
    >>> np.asarray(first).astype(int)[3]
    array([ 0, 16, 16,  0, 16, 16,  0])
    """
    return _eigenvalues(tensor, "structure_tensor_eigenvalues")


@documented_like(structure_tensor)
def hessian_matrix(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, ...]:
    """Compute the Hessian matrix of a smoothed volume from Gaussian derivatives.

    Each element is computed by two successive first derivatives with ``sigma / sqrt(2)``.

    Parameters
    ----------
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the Gaussian, in voxels or as a length such as ``"15 nm"``. Lengths
        need a volume with a voxel size. One value for all axes or one per axis.

    See Also
    --------
    hessian_matrix_eigvals : computes the eigenvalues from this result.

    Notes
    -----
    Nine Gaussian filters with a radius of 5.7 sigma each, in one sweep. A window contains 22 slices
    for each unit of sigma, plus two for the derivatives.

    References
    ----------
    `skimage.feature.hessian_matrix` with ``use_gaussian_derivatives=True``.

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 100, "u1"), 3))
    >>> np.asarray(bv.hessian_matrix(spot, 1)[0]).round(1)[:, 3]
    array([  1.4,   7. ,  -1.4, -14.1,  -1.4,   7. ,   1.4], dtype=float32)
    """
    volume = as_volume(volume)
    name = "hessian_matrix"
    chosen = par.axes_of(volume, None, name)
    sigmas = par.lengths(volume, sigma, chosen, "sigma")
    # Truncated as in scikit-image; for small sigmas it takes 100, where all weights are 0.
    reach = 8.0 if all(sigmas[a] > 1 for a in chosen) else 9.0
    small = [sigmas[a] / math.sqrt(2) for a in chosen]
    options: dict[str, Any] = {"mode": mode, "cval": cval, "truncate": reach, "dtype": dtype}

    def slope(v: Volume, axis: int) -> Volume:
        return gaussian_filter(
            v, small, [int(a == axis) for a in par.axes_of_space(volume)], **options
        )

    slopes = {a: slope(volume, a) for a in par.axes_of_space(volume)}
    return tuple(slope(slopes[a], b) for a, b in combinations_with_replacement(slopes, 2))


@named_checked
def hessian_matrix_eigvals(hessian: Sequence[Volume]) -> tuple[Volume, ...]:
    """Compute the eigenvalues of a symmetric matrix at every voxel, in descending order.

    Parameters
    ----------
    hessian : sequence of Volume
        The six elements from `hessian_matrix`, or three for two axes; all float32, or all float64.

    Returns
    -------
    tuple of Volume
        One volume for each axis, with the dtype of the elements.

    Raises
    ------
    ValueError
        If there are not three or six elements.
    TypeError
        If the elements are not all float32, or all float64.

    Notes
    -----
    float32 uses a closed form, with an error of 2e-7 of the largest eigenvalue, and float64 uses
    Jacobi rotations. For three axes and float32, a common intermediate result is computed once and
    needs 8 bytes for each voxel of a window.

    References
    ----------
    `skimage.feature.hessian_matrix_eigvals`.

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 100, "u1"), 3))
    >>> first, second = bv.hessian_matrix_eigvals(bv.hessian_matrix(spot, 1))
    >>> np.asarray(second)[3, 3].round(1)
    np.float32(-14.1)
    """
    return _eigenvalues(hessian, "hessian_matrix_eigvals")


def _eigenvalues(elements: Sequence[Volume], name: str) -> tuple[Volume, ...]:
    ordered = _ordered(elements, name)
    dtype, ndim = ordered[0].dtype, _axes(ordered)
    if ndim == 3 and dtype.itemsize == 4:
        spread = _made(ordered, Spread(name, np.dtype("u8")))
        return tuple(
            _made([spread, *ordered[:3]], EigenvalueOfSpread(name, dtype, k)) for k in range(ndim)
        )
    return tuple(_made(ordered, Eigenvalue(name, dtype, k, ndim)) for k in range(ndim))


def _axes(elements: Sequence[Volume]) -> int:
    return 3 if len(elements) == 6 else 2


def _ordered(elements: Sequence[Volume], name: str) -> list[Volume]:
    """Check the elements of a matrix; return the diagonal, then the others."""
    volumes = [as_volume(e) for e in elements]
    if len(volumes) not in (3, 6):
        raise ValueError(
            f"{name}: got {len(volumes)} volumes; give the six elements of the matrix, or three "
            "for two axes"
        )
    if {v.dtype for v in volumes} not in ({np.dtype("f4")}, {np.dtype("f8")}):
        raise TypeError(
            f"{name}: the elements have the dtypes "
            f"{', '.join(sorted({str(v.dtype) for v in volumes}))}; give all as float32, or all "
            "as float64"
        )
    places = list(combinations_with_replacement(range(_axes(volumes)), 2))
    diagonal = [v for v, (a, b) in zip(volumes, places, strict=True) if a == b]
    return diagonal + [v for v, (a, b) in zip(volumes, places, strict=True) if a != b]


def _made(ordered: Sequence[Volume], stage: Symmetric, *values: Scalar) -> Volume:
    return stage_of_volumes(stage, ordered, *(v.value for v in values))


@documented
def frangi(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    alpha: float = 0.5,
    beta: float = 0.5,
    gamma: float | None = None,
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a vessel.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A volume or an array with two or three axes. Scale floats to the range from 0 to 1 first;
        integers keep their scale.
    sigmas : float or sequence of float, default: (1, 3, 5, 7, 9)
        Standard deviations in voxels, one for each scale. The result is the maximum over scales.
    alpha : float, default: 0.5
        Larger values suppress plates more.
    beta : float, default: 0.5
        Smaller values suppress blobs more.
    gamma : float, optional
        The required amount of structure; by default half of the maximum at the first scale,
        ignoring NaN. The default needs an additional sweep.
    black_ridges : bool, default: True
        Whether to find dark ridges on a bright background, instead of bright ridges.
    %(mode)s
    %(cval)s

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for bool, integers of up to 16 bits, float16 and float32;
        float64 for other dtypes.

    Raises
    ------
    %(errors)s

    See Also
    --------
    sato : another measure, without parameters to tune.

    Notes
    -----
    One sweep, or two without ``gamma``. The halo is about 12 times the largest of ``sigmas`` on
    each side: compute large scales on a downsampled volume (`downsample`).

    References
    ----------
    `skimage.filters.frangi`; A. F. Frangi et al., "Multiscale vessel enhancement filtering", MICCAI
    1998.

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.frangi(bv.open(line), [1]))[3:6, 4].round(2)
    array([0.02, 0.86, 0.02], dtype=float32)
    """
    alpha = par.positive(alpha, "alpha", "frangi")
    beta = par.positive(beta, "beta", "frangi")
    gamma = None if gamma is None else par.positive(gamma, "gamma", "frangi")
    options: dict[str, Any] = {"mode": mode, "cval": cval}
    sign = 1.0 if black_ridges else -1.0
    structure: Scalar | None = None
    best = None
    for sigma in _scales(sigmas, "frangi"):
        matrix = _ordered(hessian_matrix(volume, sigma, **options), "frangi")
        dtype = matrix[0].dtype
        if gamma is None and not matrix[0].size:
            gamma = 1.0  # does not matter without voxels
        if gamma is None and structure is None:
            # The default gamma is made of squares.
            maximum = math.sqrt(float(np.finfo(dtype).max)) / 8
            if "constant" in str(mode) and not abs(cval) <= maximum:
                raise ValueError(
                    f"frangi: cval={cval!r} is too large for the default gamma, which needs its "
                    f"square in {dtype}; give gamma="
                )
            strength = _made(
                matrix, Ridge("frangi", dtype, _axes(matrix), alpha, beta, 0.0, 1.0, sign)
            )
            half = apply_ufunc("multiply", greatest(strength, nan="omit"), 0.5)
            # Any number will do without structure.
            structure = apply_ufunc("add", half, apply_ufunc("equal", half, 0))
        lazies = () if structure is None else (structure,)
        ridge = _made(
            matrix, Ridge("frangi", dtype, _axes(matrix), alpha, beta, gamma, 1.0, sign), *lazies
        )
        best = ridge if best is None else apply_ufunc("maximum", best, ridge)
    assert best is not None
    return best


@documented_like(frangi)
def meijering(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    alpha: float | None = None,
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a neurite.

    Parameters
    ----------
    %(intensities)s
    alpha : float, optional
        The weight of the other eigenvalues, from -1000 to 1000, which selects long and flat
        structures. By default ``1 / (axes + 1)``, where ``axes`` is the number of axes.

    See Also
    --------
    frangi : a measure that distinguishes tubes from plates and blobs.
    sato : a measure on the scale of the intensities, in one sweep.

    Notes
    -----
    Two sweeps: each scale is divided by its maximum, without NaN. The halo is about 12 times the
    largest of ``sigmas`` on each side. The measure jumps to 0 where a negative eigenvalue outweighs
    a positive one; in float32, voxels near this limit may differ from scikit-image's.

    References
    ----------
    `skimage.filters.meijering`; E. Meijering et al., "Design and validation of a tool for neurite
    tracing and analysis in fluorescence microscopy images", Cytometry Part A 58 (2004).

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.meijering(bv.open(line), [1]))[2:7, 4].round(1)
    array([0. , 0.1, 1. , 0.1, 0. ], dtype=float32)
    """
    if alpha is not None and not (par.is_number(alpha) and -1000 <= alpha <= 1000):
        raise ValueError(f"meijering: alpha={alpha!r} is not a number from -1000 to 1000")
    best = None
    for sigma in _scales(sigmas, "meijering"):
        matrix = hessian_matrix(volume, sigma, mode=mode, cval=cval)
        values = list(_eigenvalues(matrix, "meijering"))
        if not black_ridges:
            values = [apply_ufunc("negative", v) for v in reversed(values)]
        ridge = _neuriteness(values, 1 / (len(values) + 1) if alpha is None else float(alpha))
        best = ridge if best is None else apply_ufunc("maximum", best, ridge)
    assert best is not None
    return best


def _neuriteness(values: list[Volume], alpha: float) -> Volume:
    """Divide the largest of the weighted eigenvalues by its maximum; negative ones become 0."""

    def weighted(own: int) -> Volume:
        others = [v for k, v in enumerate(values) if k != own]
        total = others[0] if len(others) == 1 else apply_ufunc("add", *others)
        return apply_ufunc("add", values[own], apply_ufunc("multiply", total, alpha))

    # Eigenvalues are in order, so one of these has the largest magnitude.
    first, last = weighted(0), weighted(len(values) - 1)
    sizes = [apply_ufunc("absolute", v) for v in (first, last)]
    larger = apply_ufunc("greater_equal", *sizes)
    strength = apply_ufunc("maximum", where(larger, first, last), 0.0)
    if not strength.size:
        return strength
    maximum = greatest(strength, nan="omit")
    # Any number will do without structure.
    divisor = apply_ufunc("add", maximum, apply_ufunc("equal", maximum, 0))
    return apply_ufunc("divide", strength, divisor)


@documented
def sato(
    volume: Volume,
    sigmas: float | Sequence[float] = (1, 3, 5, 7, 9),
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
) -> Volume:
    """Measure how similar the neighbourhood of each voxel is to a tube.

    Parameters
    ----------
    %(intensities)s
    sigmas : float or sequence of float, default: (1, 3, 5, 7, 9)
        Standard deviations in voxels, one for each scale. The result is the maximum over scales.
    black_ridges : bool, default: True
        Whether to find dark ridges on a bright background, instead of bright ridges.
    %(mode)s
    %(cval)s

    Returns
    -------
    Volume
        A volume on the scale of the intensities: float32 for bool, integers of up to 16 bits,
        float16 and float32; float64 for other dtypes.

    Raises
    ------
    %(errors)s

    See Also
    --------
    frangi : a measure that distinguishes tubes from plates and blobs.

    Notes
    -----
    One sweep. The halo is about 12 times the largest of ``sigmas`` on each side: compute large
    scales on a downsampled volume (`downsample`).

    References
    ----------
    `skimage.filters.sato`; Y. Sato et al., "Three-dimensional multi-scale line filter for
    segmentation and visualization of curvilinear structures in medical images", Medical Image
    Analysis 2 (1998).

    Examples
    --------
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.sato(bv.open(line), [1]))[2:7, 4].round(1)
    array([ 0. ,  6.2, 62.6,  6.2,  0. ], dtype=float32)
    """
    options: dict[str, Any] = {"mode": mode, "cval": cval}
    sign = 1.0 if black_ridges else -1.0
    best = None
    for sigma in _scales(sigmas, "sato"):
        matrix = _ordered(hessian_matrix(volume, sigma, **options), "sato")
        stage = Ridge(
            "sato", matrix[0].dtype, _axes(matrix), 0.0, 0.0, 0.0, float(sigma) ** 2, sign
        )
        tube = _made(matrix, stage)
        best = tube if best is None else apply_ufunc("maximum", best, tube)
    assert best is not None
    return best


def _scales(sigmas: Any, name: str) -> list[float]:
    scales = [sigmas] if isinstance(sigmas, int | float) else list(sigmas)
    for s in scales:
        if not par.is_number(s) or not s > 0:
            raise ValueError(f"{name}: sigmas={sigmas!r}: {s!r} is not a positive number")
    if not scales:
        raise ValueError(f"{name}: sigmas is empty")
    return [float(s) for s in scales]
