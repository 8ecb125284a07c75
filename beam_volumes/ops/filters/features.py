"""Features of pixels at several scales, for classifiers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters.derivatives import generic_gradient_magnitude
from beam_volumes.ops.filters.linear import gaussian_filter
from beam_volumes.ops.filters.tensor_stages import SecondDifference
from beam_volumes.ops.filters.tensors import (
    hessian_matrix_eigvals,
    structure_tensor,
    structure_tensor_eigenvalues,
)
from beam_volumes.ops.geometry.channels import channels, stack
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of
from beam_volumes.ops.parameters.docs import documented


@documented
def features(
    volume: Volume,
    sigmas: float | str | Sequence[Any] = (0.5, 1, 2, 4, 8),
    *,
    intensity: bool = True,
    edges: bool = True,
    texture: bool = True,
    structure: bool = False,
) -> Volume:
    """Compute features of each voxel at several scales, as channels for a classifier.

    Parameters
    ----------
    %(intensities)s
    sigmas : sequence, default: (0.5, 1, 2, 4, 8)
        Standard deviations of the Gaussians that smooth the volume, one for each scale. Each is a
        number of voxels, a length such as ``"15 nm"``, or a sequence of these with one entry per
        axis.
    intensity : bool, default: True
        Whether to include the smoothed volume.
    edges : bool, default: True
        Whether to include the magnitude of the Sobel gradient.
    texture : bool, default: True
        Whether to include the eigenvalues of the Hessian matrix, in descending order.
    structure : bool, default: False
        Whether to include the eigenvalues of the structure tensor, which is smoothed by half of the
        scale. scikit-image does not have this feature.

    Returns
    -------
    Volume
        A volume with the axis c first, scale after scale: float32 for bool, integers of up to 16 bits,
        float16 and float32, otherwise float64. Channels have names such as ``"edges 2"``. If the
        input has several channels, their features follow one another, and the names begin with the
        channel's name or number.

    Raises
    ------
    ValueError
        If a parameter is out of range, a scale occurs twice, or no feature is selected.
    TypeError
        If ``volume`` is neither a volume nor an array, or a scale is not a length.

    See Also
    --------
    pixel_classifier : learns classes from features.

    Notes
    -----
    One sweep. The halo is four times the largest of ``sigmas`` (six times with ``structure``) plus
    two voxels. Windows of all features are in memory at the same time. Compute large scales on a
    downsampled volume (`downsample`).

    Eigenvalues of float32 have an error of 2e-7 of the largest one.

    References
    ----------
    `skimage.feature.multiscale_basic_features`.

    Examples
    --------
    >>> step = bv.open(np.array([[0, 0, 0, 8, 8, 8]], "u1"))
    >>> found = bv.features(step, [1], texture=False)
    >>> found.channels
    ('intensity 1', 'edges 1')
    >>> np.asarray(found)[1, 0].round(1)
    array([0.3, 1.7, 3.6, 3.6, 1.7, 0.3], dtype=float32)
    """
    volume = as_volume(volume)
    if not (intensity or edges or texture or structure):
        raise ValueError("features: no feature is selected")
    scales = _scales(volume, sigmas)
    made: dict[str, Volume] = {}
    for k, channel in enumerate(channels(volume)):
        own = volume.channels[k] if volume.channels else str(k)
        prefix = f"{own} " if volume.space.has_channels else ""
        for text, sigma in scales.items():
            smooth = gaussian_filter(channel, sigma, mode="nearest")
            if intensity:
                made[f"{prefix}intensity {text}"] = smooth
            if edges:
                made[f"{prefix}edges {text}"] = _edges(smooth)
            several = {"texture": _texture(smooth)} if texture else {}
            if structure:
                tensor = structure_tensor(smooth, [s / 2 for s in sigma], mode="nearest")
                several["structure"] = structure_tensor_eigenvalues(tensor)
            for name, values in several.items():
                made |= {f"{prefix}{name} {text} {i}": v for i, v in enumerate(values)}
    return stack(list(made.values()), list(made))


@documented
def shape_index(
    volume: Volume,
    sigma: float | str | Sequence[float | str] = 1.0,
    *,
    mode: str | Sequence[str] = "constant",
    cval: float = 0.0,
    axes: Sequence[int] = (-2, -1),
) -> Volume:
    """Classify the curvature around each voxel of a plane, from cups to caps.

    The intensities of a plane are the heights of a surface. Use the index to find ridges, saddles and
    blobs regardless of their contrast.

    Parameters
    ----------
    %(intensities)s
    sigma : float, str or sequence of them, default: 1.0
        Standard deviation of the smoothing Gaussian, in voxels or as a length such as
        ``"15 nm"``. Lengths need a volume with a voxel size. One value for both axes or one per
        axis.
    %(mode_constant)s
    %(cval)s
    axes : sequence of int, default: (-2, -1)
        The two axes of the planes, counted from 0, or backwards from -1. By default, each slice is
        a plane.

    Returns
    -------
    Volume
        A volume from -1 to 1, and NaN where the plane is flat: float32 for bool, integers of up to
        16 bits, float16 and float32; float64 for other dtypes. -1 is a cup, -0.5 a rut, 0 a saddle,
        0.5 a ridge and 1 a cap.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If ``axes`` are not
        two axes. If a length has a unit but the volume has no voxel size.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    hessian_matrix_eigvals : computes the two curvatures.
    sato : finds ridges in three dimensions.

    Notes
    -----
    One sweep. The halo is ``4 * sigma`` plus two voxels along the two axes. The second derivatives are
    differences of the smoothed volume. Where the curvatures almost vanish, the result depends on
    rounding.

    References
    ----------
    `skimage.feature.shape_index`; J. J. Koenderink, A. J. van Doorn, "Surface shape and curvature
    scales", Image and Vision Computing 10 (1992).

    Examples
    --------
    >>> spot = bv.open(np.pad(np.full((1, 1), 4, "f8"), 2))
    >>> np.asarray(bv.shape_index(spot, 0.1))[2]
    array([-0.5,  nan, -1. ,  nan, -0.5])
    """
    volume, name = as_volume(volume), "shape_index"
    plane = sorted(par.axes_of(volume, axes, name))
    if len(plane) != 2:
        raise ValueError(
            f"{name}: axes={axes!r} has {len(plane)} axes; give the two axes of planes"
        )
    smooth = gaussian_filter(volume, sigma, mode=mode, cval=cval, axes=axes)
    first, second = hessian_matrix_eigvals(_second_differences(smooth, plane, name))
    ratio = apply_ufunc(
        "divide", apply_ufunc("add", second, first), apply_ufunc("subtract", second, first)
    )
    return apply_ufunc("multiply", apply_ufunc("arctan", ratio), smooth.dtype.type(2 / np.pi))


def _scales(volume: Volume, sigmas: Any) -> dict[str, list[float]]:
    """Return the voxels of each scale along the visible axes, by its text."""
    given: list[Any] = [sigmas] if isinstance(sigmas, str | int | float) else list(sigmas)
    axes = volume.space.visible
    scales: dict[str, list[float]] = {}
    for sigma in given:
        lengths = par.lengths(volume, sigma, axes, "sigmas")
        several = sigma if np.ndim(sigma) else [sigma]
        text = "x".join(s if isinstance(s, str) else f"{s:g}" for s in several)
        if text in scales:
            raise ValueError(f"features: sigmas={sigmas!r} has {text} twice")
        scales[text] = [lengths[a] for a in axes]
    if not scales:
        raise ValueError("features: sigmas is empty")
    return scales


def _edges(smooth: Volume) -> Volume:
    """Compute the magnitude of the Sobel gradient on scikit-image's scale."""
    axes = len(smooth.space.axes)
    length = generic_gradient_magnitude(smooth, "sobel", mode="nearest")
    return apply_ufunc("multiply", length, smooth.dtype.type(4.0 ** (1 - axes) * axes**-0.5))


def _texture(smooth: Volume) -> tuple[Volume, ...]:
    elements = _second_differences(smooth, smooth.space.visible, "features")
    if len(elements) < 3:
        return tuple(elements)  # a row has one second derivative
    return hessian_matrix_eigvals(elements)


def _second_differences(smooth: Volume, axes: Sequence[int], name: str) -> list[Volume]:
    """Compute the elements of the Hessian matrix of some axes."""
    shape = smooth.nodes[0].shape
    return [
        stage_of(smooth, SecondDifference.of(name, smooth.dtype, pair, shape))
        for pair in combinations_with_replacement(axes, 2)
    ]
