"""Structure tensors, Hessian matrices, their eigenvalues, and ridges, named as in scikit-image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.volume import Scalar, Volume, apply_ufunc, as_volume
from beam_volumes.ops import parameters as par
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

Sigma = float | str | Sequence[float | str]


def structure_tensor(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
    dtype: Any = None,
) -> tuple[Volume, ...]:
    """The elements of the structure tensor: products of Sobel derivatives, smoothed.

    Parameters
    ----------
    volume : Volume
        Intensities stay on their scale, where scikit-image brings integers to 0 to 1.
    sigma : float, str or sequence
        Standard deviation of the Gaussian that smooths.
    mode, cval, dtype
        As of `gaussian_filter`.

    Returns
    -------
    tuple of Volume
        The upper triangle row by row: zz, zy, zx, yy, yx, xx; of two axes yy, yx, xx. See
        `skimage.feature.structure_tensor`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> np.asarray(bv.structure_tensor(square, 0.1)[1]).astype(int)[1]
    array([ 0,  1,  3,  0, -3, -1,  0])
    """
    volume = as_volume(volume)
    options: dict[str, Any] = {"mode": mode, "cval": cval, "dtype": dtype}
    slopes = [sobel(volume, a, **options) for a in range(volume.ndim)]
    products = (apply_ufunc("multiply", a, b) for a, b in combinations_with_replacement(slopes, 2))
    return tuple(gaussian_filter(p, sigma, **options) for p in products)


def structure_tensor_eigenvalues(tensor: Sequence[Volume]) -> tuple[Volume, ...]:
    """The eigenvalues of a structure tensor, descending; see `hessian_matrix_eigvals`.

    Parameters
    ----------
    tensor : sequence of Volume
        What `structure_tensor` gives.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> square = bv.open(np.pad(np.ones((3, 3), "u1"), 2))
    >>> first, second = bv.structure_tensor_eigenvalues(bv.structure_tensor(square, 0.1))
    >>> np.asarray(first).astype(int)[3]
    array([ 0, 16, 16,  0, 16, 16,  0])
    """
    return _eigenvalues(tensor, "structure_tensor_eigenvalues")


def hessian_matrix(
    volume: Volume,
    sigma: Sigma = 1.0,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
    dtype: Any = None,
) -> tuple[Volume, ...]:
    """The elements of the Hessian matrix of a smoothed volume, by Gaussian derivatives.

    Two first derivatives one after the other, each of ``sigma / sqrt(2)``.

    Parameters
    ----------
    volume : Volume
        Intensities stay on their scale, where scikit-image brings integers to 0 to 1.
    sigma : float, str or sequence
        Standard deviation.
    mode, cval, dtype
        As of `gaussian_filter`.

    Returns
    -------
    tuple of Volume
        The upper triangle row by row: zz, zy, zx, yy, yx, xx; of two axes yy, yx, xx. See
        `skimage.feature.hessian_matrix` with ``use_gaussian_derivatives=True``.

    Notes
    -----
    Nine Gaussian filters, of a radius of 5.7 sigma each: a window holds 22 slices for each unit of
    sigma and two more of the derivatives.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> spot = bv.open(np.pad(np.full((1, 1), 100, "u1"), 3))
    >>> np.asarray(bv.hessian_matrix(spot, 1)[0]).round(1)[:, 3]
    array([  1.4,   7. ,  -1.4, -14.1,  -1.4,   7. ,   1.4], dtype=float32)
    """
    volume = as_volume(volume)
    name = "hessian_matrix"
    chosen = par.axes_of(volume, None, name)
    sigmas = par.lengths(volume, sigma, chosen, "sigma")
    # As scikit-image cuts them off; of small sigmas it takes 100, where there is nothing left.
    reach = 8.0 if all(sigmas[a] > 1 for a in chosen) else 9.0
    small = [sigmas[a] / math.sqrt(2) for a in chosen]
    options: dict[str, Any] = {"mode": mode, "cval": cval, "truncate": reach, "dtype": dtype}

    def slope(v: Volume, axis: int) -> Volume:
        return gaussian_filter(v, small, [int(a == axis) for a in range(volume.ndim)], **options)

    slopes = [slope(volume, a) for a in range(volume.ndim)]
    pairs = combinations_with_replacement(range(volume.ndim), 2)
    return tuple(slope(slopes[a], b) for a, b in pairs)


def hessian_matrix_eigvals(hessian: Sequence[Volume]) -> tuple[Volume, ...]:
    """The eigenvalues of a symmetric matrix at every voxel, descending.

    Parameters
    ----------
    hessian : sequence of Volume
        Six volumes, of two axes three, as `hessian_matrix` gives them.

    Returns
    -------
    tuple of Volume
        As many as there are axes; see `skimage.feature.hessian_matrix_eigvals`. Of float32 by a
        closed form, good to 2e-7 of the greatest; of float64 by Jacobi's rotations.

    Notes
    -----
    Of three axes and float32, what all eigenvalues have in common is computed once, and takes 8 bytes a
    voxel of a window.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
    """The diagonal, and then what is above it."""
    volumes = [as_volume(e) for e in elements]
    if len(volumes) not in (3, 6):
        raise ValueError(
            f"{name}: {len(volumes)} volumes; give the six (of two axes three) elements of the matrix"
        )
    if {v.dtype for v in volumes} not in ({np.dtype("f4")}, {np.dtype("f8")}):
        raise TypeError(
            f"{name}: elements of {', '.join(sorted({str(v.dtype) for v in volumes}))}; give all of "
            "float32, or all of float64"
        )
    places = list(combinations_with_replacement(range(_axes(volumes)), 2))
    diagonal = [v for v, (a, b) in zip(volumes, places, strict=True) if a == b]
    return diagonal + [v for v, (a, b) in zip(volumes, places, strict=True) if a != b]


def _made(ordered: Sequence[Volume], stage: Symmetric, *values: Scalar) -> Volume:
    nodes = tuple(v.node for v in ordered)
    return ordered[0].derive(StageNode.of(stage, nodes, tuple(v.value for v in values)))


def frangi(
    volume: Volume,
    sigmas: Sequence[float] = (1, 3, 5, 7, 9),
    alpha: float = 0.5,
    beta: float = 0.5,
    gamma: float | None = None,
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
) -> Volume:
    """How much every voxel looks like a vessel; see `skimage.filters.frangi`.

    Parameters
    ----------
    volume : Volume
        Floats are best brought to 0 to 1 first; integers stay on their scale.
    sigmas : sequence of float
        Scales, of which the best counts.
    alpha, beta : float
        How much plates and blobs are held against it.
    gamma : float, optional
        How much structure there has to be. By default half of the greatest there is at the first scale,
        NaNs apart, which takes a sweep over the volume before.
    black_ridges : bool
        Dark ridges on bright ground, or bright ones.
    mode, cval
        As of `gaussian_filter`.

    Returns
    -------
    Volume
        From 0 to 1, a float as of `gaussian_filter`.

    References
    ----------
    A. F. Frangi et al., "Multiscale vessel enhancement filtering", MICCAI 1998.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> line = np.full((9, 9), 200, "u1")
    >>> line[4] = 20
    >>> np.asarray(bv.frangi(bv.open(line), [1]))[3:6, 4].round(2)
    array([0.02, 0.86, 0.02], dtype=float32)
    """
    for what, number in (("alpha", alpha), ("beta", beta), ("gamma", gamma)):
        if number is not None and not number > 0:
            raise ValueError(f"frangi: {what}={number!r} is not a positive number")
    options: dict[str, Any] = {"mode": mode, "cval": cval}
    sign = 1.0 if black_ridges else -1.0
    structure: Scalar | None = None
    best = None
    for sigma in _scales(sigmas, "frangi"):
        matrix = _ordered(hessian_matrix(volume, sigma, **options), "frangi")
        dtype = matrix[0].dtype
        if gamma is None and structure is None:
            strength = _made(
                matrix, Ridge("frangi", dtype, _axes(matrix), alpha, beta, 0.0, 1.0, sign)
            )
            half = apply_ufunc("multiply", greatest(strength, nan="omit"), 0.5)
            # Without any structure it does not matter.
            structure = apply_ufunc("add", half, apply_ufunc("equal", half, 0))
        lazies = () if structure is None else (structure,)
        ridge = _made(
            matrix, Ridge("frangi", dtype, _axes(matrix), alpha, beta, gamma, 1.0, sign), *lazies
        )
        best = ridge if best is None else apply_ufunc("maximum", best, ridge)
    assert best is not None
    return best


def sato(
    volume: Volume,
    sigmas: Sequence[float] = (1, 3, 5, 7, 9),
    black_ridges: bool = True,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
) -> Volume:
    """How much every voxel looks like a tube; see `skimage.filters.sato`.

    Parameters as of `frangi`.

    Returns
    -------
    Volume
        A float as of `gaussian_filter`, on the scale of the intensities.

    References
    ----------
    Y. Sato et al., "Three-dimensional multi-scale line filter for segmentation and visualization of
    curvilinear structures in medical images", Medical Image Analysis 2 (1998).

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
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
        if isinstance(s, bool) or not isinstance(s, int | float | np.number) or not s > 0:
            raise ValueError(f"{name}: sigmas={sigmas!r}: {s!r} is not a positive number")
    if not scales:
        raise ValueError(f"{name}: sigmas is empty")
    return [float(s) for s in scales]
