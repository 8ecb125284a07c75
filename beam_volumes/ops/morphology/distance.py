"""Operations along whole axes: distance transforms and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from beam_volumes.across.scans import cumsum_dtype
from beam_volumes.base.geometry import connectivity_structure
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.nodes import AcrossNode, Barrier
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.morphology import distance as kernels
from beam_volumes.ops.geometry.channels import stack
from beam_volumes.ops.geometry.rearrange import coordinates
from beam_volumes.ops.morphology import stages as scan_stages
from beam_volumes.ops.morphology import surveys as scan_surveys
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input, stage_of
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where


@overload
def distance_transform_edt(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    squared: bool = False,
    max_distance: float | str | None = None,
    return_indices: Literal[False] = False,
) -> Volume: ...
@overload
def distance_transform_edt(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    squared: bool = False,
    max_distance: float | str | None = None,
    return_indices: Literal[True],
) -> tuple[Volume, Volume]: ...
@documented
def distance_transform_edt(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    squared: bool = False,
    max_distance: float | str | None = None,
    return_indices: bool = False,
) -> Volume | tuple[Volume, Volume]:
    """Compute the exact Euclidean distance of each foreground voxel to the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground; all other voxels
        have distance 0.
    %(sampling)s
    squared : bool, default: False
        Whether to return squared distances, as float64. With a sampling of 1, they are exact
        integers.
    max_distance : float or str, optional
        The maximum distance, in the unit of ``sampling``, or a length such as ``"200 nm"`` with
        ``sampling="voxel_size"``. With a maximum distance, the transform is a filter with a halo of
        this length, in one sweep. An error is raised if it is too large for the memory. By default,
        there is no limit.
    return_indices : bool, default: False
        Whether to also return the position of the nearest background voxel.

    Returns
    -------
    distances : Volume
        A float32 volume: the distance in float64, rounded once. The distance is +inf if the whole
        volume has no background; in this case, scipy's result is undefined.
    indices : Volume
        With ``return_indices=True``, an int32 volume with a channel for each axis: the index of the
        nearest background voxel. If several are equally near, it is the first in raster order
        (undefined in scipy). The index is -1 beyond ``max_distance`` and if there is no background.

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    signed_distance : computes distances on both sides.

    Notes
    -----
    Two sweeps: the first finds the distance to the background along z in each slab, and the second
    computes the distances in whole planes. A slab keeps one small number for each column of voxels
    and each window between the two sweeps. With ``max_distance``, one sweep.

    References
    ----------
    `scipy.ndimage.distance_transform_edt`; A. Meijster, J. Roerdink, W. Hesselink, "A general
    algorithm for computing distance transforms in linear time" (2000); P. F. Felzenszwalb, D. P.
    Huttenlocher, "Distance transforms of sampled functions", Theory of Computing 8 (2012).

    Examples
    --------
    >>> row = bv.open(np.array([[1, 1, 1, 0, 1]]))
    >>> np.asarray(bv.distance_transform_edt(row))
    array([[3., 2., 1., 0., 1.]], dtype=float32)
    >>> np.asarray(bv.distance_transform_edt(row, squared=True, max_distance=2))
    array([[4., 4., 1., 0., 1.]])
    >>> distances, at = bv.distance_transform_edt(row, return_indices=True)
    >>> np.asarray(at.sel(c="x"))
    array([[3, 3, 3, 3, 3]], dtype=int32)
    """
    name = "distance_transform_edt"
    mask = _foreground(mask)
    steps = par.voxel_sizes(mask, sampling, "sampling", name)
    maximum = None
    if max_distance is not None:
        maximum = par.max_distance(mask, max_distance, "max_distance", sampling, "sampling", name)
    distances = _distances(mask, steps, maximum, not squared, name)
    if not return_indices:
        return distances
    return distances, _indices(mask, steps, maximum, name)


def _distances(
    mask: Volume,
    steps: tuple[float, float, float],
    maximum: float | None,
    root: bool,
    name: str,
) -> Volume:
    dtype = np.dtype(np.float32 if root else np.float64)
    if maximum is not None and maximum < math.hypot(*np.multiply(mask.node.shape, steps)):
        return stage_of(mask, scan_stages.BoundedDistance(name, dtype, steps, maximum, root))
    how = kernels.metric(mask.node.shape, steps)
    along_y = scan_stages.DistanceAlongY(f"{name} along y", how.dtype, how)
    along_x = scan_stages.DistanceAlongX(f"{name} along x", dtype, how, root)
    found = stage_of(stage_of(_along_z(mask, name), along_y), along_x)
    if maximum is None:
        return found
    return apply_ufunc("minimum", found, dtype.type(maximum if root else maximum**2))


def _indices(
    mask: Volume, steps: tuple[float, float, float], maximum: float | None, name: str
) -> Volume:
    """Return the positions of the nearest background voxels, or -1 beyond ``maximum``."""
    mask = one_channel(mask)
    shape = mask.shape[par.axes_of_space(mask).start :]
    strides = [math.prod(shape[a + 1 :]) for a in range(len(shape))]
    near = _places(mask, steps, maximum, strides, f"{name} indices")
    at = near - np.uint64(1)
    found = [
        where(near == 0, np.int32(-1), (at // np.uint64(k) % np.uint64(n)).astype(np.int32))
        for k, n in zip(strides, shape, strict=True)
    ]
    return stack(found, names=mask.space.axes)


def _places(
    mask: Volume,
    steps: tuple[float, float, float],
    maximum: float | None,
    strides: Sequence[int],
    name: str,
) -> Volume:
    """Return the nearest background voxel by its place in raster order from 1, or 0."""
    if maximum is None:
        how = kernels.metric(mask.node.shape, steps)
        near = _along_z(mask, name, signed=True)
        for axis, along in ((1, "y"), (2, "x")):
            stage = scan_stages.NearestBackground(
                f"{name} along {along}", np.dtype(np.uint64), axis, how, mask.node.shape[1]
            )
            near = stage_of(near, stage)
        return near
    place: Any = np.uint64(1)
    for axis, stride in zip(par.axes_of_space(mask), strides, strict=True):
        place = coordinates(mask, axis).astype(np.uint64) * np.uint64(stride) + place
    labels = where(mask, np.uint64(0), place)
    return stage_of(labels, _nearest_label(labels, steps, maximum, name))


#: scipy's names of metrics, and whether they are the chessboard metric.
_METRICS = {"chessboard": True, "taxicab": False, "cityblock": False, "manhattan": False}


@documented
def distance_transform_cdt(
    mask: Volume, metric: Any = "chessboard", *, return_indices: bool = False
) -> Volume:
    """Compute the chessboard or taxicab distance of each foreground voxel to the background.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground; all other voxels
        have distance 0.
    metric : {"chessboard", "taxicab", "cityblock", "manhattan"} or array_like, default: "chessboard"
        The metric. A diagonal step has length 1 in ``"chessboard"``; in the other metrics, its
        length is the number of axes. Alternatively, an equivalent structure: all neighbours, or
        only those that share a face.
    return_indices : bool, default: False
        Not available; True raises an error.

    Returns
    -------
    Volume
        An int32 volume of steps; -1 everywhere if the whole volume has no background.

    Raises
    ------
    %(errors)s

    See Also
    --------
    distance_transform_edt : computes Euclidean distances.

    Notes
    -----
    Two sweeps: the first finds the distance to the background along z in each slab, and the second
    computes the distances in whole planes. A slab keeps one small number for each column of voxels
    and each window between the two sweeps.

    References
    ----------
    `scipy.ndimage.distance_transform_cdt`; A. Meijster, J. Roerdink, W. Hesselink, "A general
    algorithm for computing distance transforms in linear time" (2000).

    Examples
    --------
    >>> v = bv.open(np.array([[1, 1, 1], [1, 1, 1], [1, 1, 0]]))
    >>> np.asarray(bv.distance_transform_cdt(v))
    array([[2, 2, 2],
           [2, 1, 1],
           [2, 1, 0]], dtype=int32)
    >>> np.asarray(bv.distance_transform_cdt(v, "taxicab"))
    array([[4, 3, 2],
           [3, 2, 1],
           [2, 1, 0]], dtype=int32)
    """
    name = "distance_transform_cdt"
    mask = _foreground(mask)
    if return_indices:
        raise ValueError(
            f"{name}: return_indices=True is not available; use distance_transform_edt"
        )
    chessboard = _is_chessboard(name, metric, len(mask.space.axes))
    if sum(mask.node.shape) >= int(kernels.FAR):
        raise ValueError(f"{name}: distances in a volume of {mask.shape} do not fit in int32")
    along_y = scan_stages.ChamferAlongY(f"{name} along y", np.dtype(np.int32), chessboard)
    along_x = scan_stages.ChamferAlongX(name, np.dtype(np.int32), chessboard)
    return stage_of(stage_of(_along_z(mask, name), along_y), along_x)


def _is_chessboard(name: str, metric: Any, ndim: int) -> bool:
    if isinstance(metric, str):
        if metric not in _METRICS:
            raise ValueError(f"{name}: metric={metric!r}; use one of {', '.join(_METRICS)}")
        return _METRICS[metric]
    structure = par.element(metric, "metric", name) != 0
    if structure.shape == (3,) * ndim:
        if structure.all():
            return True
        if np.array_equal(structure, connectivity_structure(1, ndim)):
            return False
    raise ValueError(
        f"{name}: metric={metric!r}: give a name, {', '.join(_METRICS)}, or one of the equivalent "
        f"structures of {ndim} axes; others are not available"
    )


def _along_z(mask: Volume, name: str, signed: bool = False) -> Volume:
    """Compute slices to the nearest background voxel of the same column."""
    if mask.node.shape[0] == 1:
        return where(mask, kernels.FAR, np.int32(0))
    barrier = Barrier.of(scan_surveys.DistanceSurvey(name), (mask.node,))
    completion = scan_surveys.DistanceAlongZ(f"{name} along z", np.dtype(np.int32), signed)
    return mask.derive(AcrossNode.of(barrier, completion, (mask.node,)))


@documented
def signed_distance(
    mask: Volume,
    sampling: float | Sequence[float] | str | None = None,
    *,
    max_distance: float | str | None = None,
) -> Volume:
    """Compute the distance to the boundary of a mask: positive inside, negative outside.

    Inside, it is the distance to the nearest background voxel; outside, minus the distance to the
    nearest foreground voxel. Voxels count as points, so the boundary is half way between 1 and -1,
    and no voxel is 0.

    Parameters
    ----------
    mask : Volume or numpy.ndarray
        A volume or an array with up to three axes. Nonzero voxels are foreground.
    %(sampling)s
    max_distance : float or str, optional
        The maximum distance, in the unit of ``sampling``, or a length such as ``"200 nm"`` with
        ``sampling="voxel_size"``. With a maximum distance, the transform is a filter with a halo of
        this length, in one sweep.

    Returns
    -------
    Volume
        A float32 volume; +inf everywhere without background, -inf without foreground.

    Raises
    ------
    %(errors)s

    See Also
    --------
    distance_transform_edt : computes distances inside only.

    Notes
    -----
    Two sweeps for both sides together, as in `distance_transform_edt`. With ``max_distance``, one
    sweep.

    References
    ----------
    `scipy.ndimage.distance_transform_edt` of the mask and of its complement.

    Examples
    --------
    >>> np.asarray(bv.signed_distance(bv.open(np.array([[1, 1, 1, 0, 0]]))))
    array([[ 3.,  2.,  1., -1., -2.]], dtype=float32)
    """
    mask = _foreground(mask)
    inside = distance_transform_edt(mask, sampling, max_distance=max_distance)
    return inside - distance_transform_edt(~mask, sampling, max_distance=max_distance)


@documented
def expand_labels(
    labels: Volume,
    distance: float | str = 1,
    spacing: float | Sequence[float] | str | None = None,
) -> Volume:
    """Expand labels into the background up to a distance, without overlap.

    Use it to grow cells from nuclei, or to add a margin around each object.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Bool or integer labels. 0 is background; all other voxels keep their label.
    distance : float or str, default: 1
        The maximum distance from a label, in the unit of ``spacing``, or a length such as ``"200
        nm"`` with ``spacing="voxel_size"``. 0 returns the labels. An error is raised if it is too
        large for the memory.
    spacing : float, sequence of float or "voxel_size", optional
        Extent of a voxel: one value for all axes or one per axis; 1 by default. ``"voxel_size"``
        uses the voxel size of the volume.

    Returns
    -------
    Volume
        A volume of the input's dtype. A background voxel gets the label of the nearest labelled
        voxel, or the smallest label if several are equally near. (In scikit-image, this depends on
        the direction.)

    Raises
    ------
    %(errors)s

    See Also
    --------
    distance_transform_edt : computes the distances, with ``return_indices=True`` also positions.
    watershed : expands labels along intensities.

    Notes
    -----
    One sweep, with a halo of ``distance`` along each axis. Time grows with the distance in voxels.

    References
    ----------
    `skimage.segmentation.expand_labels`.

    Examples
    --------
    >>> row = bv.open(np.array([[0, 0, 1, 0, 0, 0, 2]]))
    >>> np.asarray(bv.expand_labels(row, 2))
    array([[1, 1, 1, 1, 1, 2, 2]])
    >>> np.asarray(bv.expand_labels(row, 30, spacing=[40, 20]))
    array([[0, 1, 1, 1, 0, 2, 2]])
    """
    name = "expand_labels"
    labels = as_volume(labels)
    if labels.dtype.kind not in "bui":
        raise TypeError(f"{name}: labels have dtype {labels.dtype}; use bool or integers")
    steps = par.voxel_sizes(labels, spacing, "spacing", name)
    if distance == 0:
        return labels
    maximum = par.max_distance(labels, distance, "distance", spacing, "spacing", name)
    return stage_of(labels, _nearest_label(labels, steps, maximum, name))


def _nearest_label(
    labels: Volume, steps: tuple[float, float, float], maximum: float, name: str
) -> scan_stages.NearestLabel:
    shape = labels.grid_shape
    reach = tuple(
        min(r, n - 1) for r, n in zip(kernels.bounded_reach(maximum, steps), shape, strict=True)
    )
    long = [s for s, n in zip(steps, shape, strict=True) if n > 1]
    equal = len(set(long)) == 1  # squared distances are then exact integers
    units = ((1.0,) * 3, long[0]) if equal else (steps, 1.0)
    return scan_stages.NearestLabel(name, labels.dtype, reach, *units, maximum)  # type: ignore[arg-type]


@documented
def cumsum(volume: Volume, axis: int = 0) -> Volume:
    """Compute running sums along an axis.

    Parameters
    ----------
    %(volume)s
    axis : int, default: 0
        The axis, counted from 0, or backwards from -1. numpy's running sum of the flattened array
        is not available.

    Returns
    -------
    Volume
        An int64 volume for bool and signed integers, uint64 for unsigned integers, or float64 for
        floats. Integers wrap around, as in numpy.

    Raises
    ------
    ValueError
        If the axis does not exist.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``axis`` is not an int.

    Notes
    -----
    One sweep along y and x. Along z, integers need two sweeps: one for the sums of slabs, and one
    for the voxels. Floats along z need one sweep, but slabs as deep as the volume. Floats are added
    in order from the first voxel, like float64 in numpy.

    References
    ----------
    `numpy.cumsum`.

    Examples
    --------
    >>> np.asarray(bv.cumsum(bv.open(np.array([[1, 5], [2, 6]]))))
    array([[ 1,  5],
           [ 3, 11]])
    """
    volume = as_volume(volume)
    along = par.axis_of(volume, axis, "cumsum")
    dtype = cumsum_dtype(volume.dtype)
    if volume.node.shape[along] == 1:
        return volume.astype(dtype)
    if along:
        stage = scan_stages.CumsumAlong("cumsum", dtype, along)
        return stage_of(kernel_input(volume), stage)
    if dtype.kind == "f":
        return stage_of(volume, scan_stages.CumsumAlongZ("cumsum", dtype))
    barrier = Barrier.of(scan_surveys.CumsumSurvey("cumsum"), (volume.node,))
    completion = scan_surveys.CumsumAlongZ("cumsum", dtype)
    return volume.derive(AcrossNode.of(barrier, completion, (volume.node,)))


def _foreground(mask: Volume) -> Volume:
    mask = as_volume(mask)
    return mask if mask.dtype == bool else mask != 0
