"""Resampling: coarser, finer or transformed grids, by nearest neighbours or linear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import Node, SourceNode, StageNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.rearrange import by_axes, check_indexable, refuse_empty
from beam_volumes.ops.geometry.stages import METHODS, Affine, Along, Between, Downsample
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, kernel_input, triple
from beam_volumes.ops.parameters.docs import documented, documented_like

#: Maximum number of voxels in a window of downsampling.
_MAX_WINDOW = 1 << 20


@documented
def downsample(volume: Volume, factors: int | Sequence[int], method: str = "mean") -> Volume:
    """Combine windows of ``factors`` voxels into one voxel each.

    Windows start at the first voxel, and are clipped at the far edges.

    Parameters
    ----------
    %(volume)s
    factors : int or sequence of int
        Extent of windows in voxels; one number for all axes, or one for each.
    method : {"mean", "min", "max", "median", "mode", "stride"}, default: "mean"
        The result for a window. Means of integers are rounded half to even. The median of an even
        number of voxels is the lower middle one. ``"mode"`` is the most frequent value, the
        smallest of several. ``"stride"`` is the first voxel.

    Returns
    -------
    Volume
        A volume of the input's dtype. Its voxels are larger by ``factors``, and its origin is in the
        centre of the first window (unchanged for ``"stride"``). A voxel is NaN if its window
        contains a NaN.

    Raises
    ------
    %(errors)s

    See Also
    --------
    upsample : the inverse.
    zoom : resamples by any factors.

    Notes
    -----
    A slice of the result needs ``factors`` slices of the volume, and is computed in the same sweep.
    Each level of a pyramid is computed from the previous one.

    References
    ----------
    `tensorstore.downsample`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3], [4, 6, 8]], "u1"), voxel_size=10, unit="nm")
    >>> small = bv.downsample(v, 2)
    >>> np.asarray(small), small.voxel_size, small.origin
    (array([[3, 6]], dtype=uint8), (20.0, 20.0), (5.0, 5.0))
    """
    v = refuse_empty(as_volume(volume), "downsample")
    by = triple(par.whole_numbers(factors, v.space.visible, 1, "factors", 1))
    shape = v.grid_shape
    grid = triple([-(-n // f) for n, f in zip(shape, by, strict=True)])
    if method == "stride":
        return _every(v, by)
    if method not in METHODS:
        raise ValueError(
            f"downsample: method={method!r} is not offered; use one of {', '.join([*METHODS, 'stride'])}"
        )
    source = kernel_input(v)
    stage = Downsample("downsample", source.dtype, shape, grid, by, method)
    if stage.window > _MAX_WINDOW:
        raise ValueError(
            f"downsample: factors={factors!r} make windows of {stage.window} voxels, and {_MAX_WINDOW} are "
            "the maximum; use several steps"
        )
    z, y, x = ((f - 1) / 2 for f in by)
    space = v.space.resampled(by, (z, y, x))
    return source.map_channels(lambda node: StageNode.of(stage, (node,)), space).astype(v.dtype)


def _every(volume: Volume, step: Triple) -> Volume:
    """Take every ``step``-th voxel; slices of opened volumes in between are not read."""
    first = volume.nodes[0]
    if isinstance(first, SourceNode):
        source = first.source
        thin = triple([s if c == 1 else 1 for s, c in zip(step, source.chunk, strict=True)])
        space = volume.space.resampled(thin, (0.0, 0.0, 0.0))
        volume = volume.map_channels(lambda node: _thinned(node, thin), space)
        step = triple([s // t for s, t in zip(step, thin, strict=True)])
    if step == (1, 1, 1):
        return volume
    shape = volume.grid_shape
    along = [Along(n, step=s) for n, s in zip(shape, step, strict=True)]
    grid = [-(-n // s) for n, s in zip(shape, step, strict=True)]
    space = volume.space.resampled(step, (0.0, 0.0, 0.0))
    return by_axes("downsample", volume, along, grid, space)


def _thinned(node: Node, step: Triple) -> Node:
    assert isinstance(node, SourceNode)
    return SourceNode.of(node.source.subsampled(step))


@documented
def upsample(
    volume: Volume,
    factors: int | Sequence[int],
    *,
    order: int = 0,
    like: Volume | None = None,
) -> Volume:
    """Divide each voxel into ``factors`` voxels.

    Parameters
    ----------
    %(volume)s
    factors : int or sequence of int
        Number of voxels per voxel; one for all axes, or one for each.
    order : {0, 1}, default: 0
        0 repeats voxels, like `numpy.repeat`; 1 is linear between their centres, and constant
        outside.
    like : Volume, optional
        The input of `downsample`, which determines the shape of the result; its extents need not be
        multiples of ``factors``.

    Returns
    -------
    Volume
        A volume of the input's dtype with smaller voxels and the same physical extent; integers are
        rounded half away from zero.

    Raises
    ------
    %(resampling_errors)s

    See Also
    --------
    downsample : the inverse.
    zoom : resamples by any factors.

    Notes
    -----
    %(streams)s

    References
    ----------
    `scipy.ndimage.zoom` with ``grid_mode=True, mode="nearest"``.

    Examples
    --------
    >>> v = bv.open(np.array([[0, 8]], "u1"))
    >>> np.asarray(bv.upsample(v, (1, 4))), np.asarray(bv.upsample(v, (1, 4), order=1))
    (array([[0, 0, 0, 0, 8, 8, 8, 8]], dtype=uint8), array([[0, 0, 1, 3, 5, 7, 8, 8]], dtype=uint8))
    """
    v = _of_order(volume, order, "upsample")
    by = par.whole_numbers(factors, v.space.visible, 1, "factors", 1)
    shape = v.grid_shape
    along: list[Along] = []
    for axis, (n, f) in enumerate(zip(shape, by, strict=True)):
        if order == 0 or axis not in v.space.visible:
            along.append(Along(n, repeat=f))
        else:
            along.append(Between(n, mode="nearest", scale=1 / f, half=0.5))
    z, y, x = (1 / f for f in by)
    first = ((z - 1) / 2, (y - 1) / 2, (x - 1) / 2)
    grid = [n * f for n, f in zip(shape, by, strict=True)]
    check_indexable(grid, f"upsample: factors={factors!r}")
    if like is not None:
        edges = as_volume(like).grid_shape
        if any(edge > n for edge, n in zip(edges, grid, strict=True)):
            raise ValueError(
                f"upsample: like has {edges} voxels along z, y and x, and factors={factors!r} make only "
                f"{tuple(grid)}"
            )
        grid = list(edges)
    return by_axes("upsample", v, along, grid, v.space.resampled((z, y, x), first))


@documented
def shift(
    volume: Volume,
    shift: float | str | Sequence[float | str],
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Volume:
    """Shift the voxels of a volume.

    Parameters
    ----------
    %(volume)s
    shift : float, str or sequence of them
        Distance in voxels, or as a length such as ``"-15 nm"``, which needs a volume with a voxel
        size. One for all axes, or one for each.
    %(order)s
    %(outside)s
    %(outside_cval)s

    Returns
    -------
    %(resampled)s

    Raises
    ------
    %(resampling_errors)s

    See Also
    --------
    affine_transform : also rotates and scales.
    pad : adds voxels around a volume.

    Notes
    -----
    The result has the shape and the origin of the input.

    %(streams)s

    References
    ----------
    `scipy.ndimage.shift`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"))
    >>> np.asarray(bv.shift(v, (0, 0.5)))
    array([[ 0, 15, 30]], dtype=uint8)
    """
    v = _of_order(volume, order, "shift")
    visible = v.space.visible
    by = [_signed(v, s, a) for a, s in enumerate(par.per_axis(shift, visible, 0.0, "shift"))]
    where = _one_mode(mode, "shift")
    outside = constant_in(v.dtype, cval, "cval", "shift")
    along = [
        Between(n, mode=where, shift=-s, order=order) if a in visible else Along(n)
        for a, (n, s) in enumerate(zip(v.grid_shape, by, strict=True))
    ]
    return by_axes("shift", v, along, v.grid_shape, v.space, outside)


@documented
def zoom(
    volume: Volume,
    zoom: float | Sequence[float],
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    grid_mode: bool = False,
) -> Volume:
    """Resample a volume by any factors.

    Parameters
    ----------
    %(volume)s
    zoom : float or sequence of float
        Factors for the number of voxels, which is rounded; one for all axes, or one for each.
    %(order)s
    %(outside)s
    %(outside_cval)s
    grid_mode : bool, default: False
        Whether to keep the extent of the volume, instead of the centres of its outer voxels.

    Returns
    -------
    Volume
        A volume of the input's dtype with a new voxel size and origin; integers are rounded half
        away from zero.

    Raises
    ------
    %(resampling_errors)s

    See Also
    --------
    downsample : uses all voxels of windows, for integer factors.
    upsample : uses integer factors.

    Notes
    -----
    %(streams)s

    When shrinking, each voxel of the result uses two voxels along each axis: smooth the volume
    before, or use `downsample`.

    References
    ----------
    `scipy.ndimage.zoom`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"), voxel_size=2)
    >>> np.asarray(bv.zoom(v, (1, 5 / 3))), bv.zoom(v, (1, 5 / 3)).voxel_size
    (array([[10, 15, 20, 30, 40]], dtype=uint8), (2.0, 1.0))
    """
    v = _of_order(volume, order, "zoom")
    visible, shape = v.space.visible, v.grid_shape
    by = par.per_axis(zoom, visible, 1.0, "zoom")
    for z in by:
        if isinstance(z, str | bool) or not (math.isfinite(z) and z > 0):
            raise ValueError(f"zoom: zoom={zoom!r} is not made of positive numbers")
    grid = [round(n * float(z)) for n, z in zip(shape, by, strict=True)]
    if 0 in grid:
        raise ValueError(f"zoom: zoom={zoom!r} leaves no voxels of the shape {v.shape}")
    check_indexable(grid, f"zoom: zoom={zoom!r}")
    where, outside = _one_mode(mode, "zoom"), constant_in(v.dtype, cval, "cval", "zoom")
    half = 0.5 if grid_mode else 0.0
    scales, along = [], []
    for axis, (n, m) in enumerate(zip(shape, grid, strict=True)):
        inner = 0 if grid_mode else 1
        scale = (n - inner) / (m - inner) if m > inner else 1.0
        scales.append(scale)
        is_visible = axis in visible
        along.append(
            Between(n, mode=where, scale=scale, half=half, order=order) if is_visible else Along(n)
        )
    z, y, x = (s if s > 0 else 1.0 for s in scales)
    first = (half * (z - 1), half * (y - 1), half * (x - 1))
    return by_axes("zoom", v, along, grid, v.space.resampled((z, y, x), first), outside)


@documented
def affine_transform(
    volume: Volume,
    matrix: ArrayLike,
    offset: float | Sequence[float] = 0.0,
    output_shape: Sequence[int] | None = None,
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Volume:
    """Apply an affine map to the grid of a volume.

    Position o of the result corresponds to position ``matrix @ o + offset`` of the volume.

    Parameters
    ----------
    %(volume)s
    matrix : array_like of float
        A square matrix, its diagonal, or a homogeneous matrix with the offset in its last
        column.
    offset : float or sequence of float, default: 0.0
        In voxels; one number for all axes, or one for each. A homogeneous matrix includes it.
    output_shape : sequence of int, optional
        Shape of the result; the shape of the volume by default.
    %(order)s
    %(outside)s
    %(outside_cval)s

    Returns
    -------
    Volume
        A volume of the input's dtype, voxel size, unit and origin; integers are rounded half away
        from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the order of slices would be reversed; the message
        describes the remedy.
    TypeError
        If ``volume`` is neither a volume nor an array, or of bool with ``order=1``.

    See Also
    --------
    rotate : rotates in the plane of the last two axes.
    flip, transpose : reverse and permute axes.

    Notes
    -----
    Each slice of the result keeps the slices of the volume that its voxels need in memory. A steep
    tilt is therefore computed in tiles, and their edges are read several times.

    %(streams)s

    References
    ----------
    `scipy.ndimage.affine_transform`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2], [3, 4]], "u1"))
    >>> np.asarray(bv.affine_transform(v, [[0, 1], [-1, 0]], offset=(0, 1)))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """
    return _affine("affine_transform", volume, matrix, offset, output_shape, order, mode, cval)


@documented_like(shift)
def rotate(
    volume: Volume,
    angle: float,
    *,
    reshape: bool = True,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Volume:
    """Rotate a volume in the plane of its last two axes.

    Parameters
    ----------
    %(volume)s
    angle : float
        In degrees.
    reshape : bool, default: True
        Whether to enlarge the result to contain the whole rotated plane, or to keep the shape.
    %(order)s
    %(outside)s
    %(outside_cval)s

    See Also
    --------
    affine_transform : applies any linear map.
    transpose : exchanges axes.

    Notes
    -----
    Voxels are assumed to be square in this plane. Right angles are exact.

    %(streams)s

    References
    ----------
    `scipy.ndimage.rotate`.

    Examples
    --------
    >>> np.asarray(bv.rotate(bv.open(np.array([[1, 2], [3, 4]], "u1")), 90))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """
    v = _of_order(volume, order, "rotate")
    if 1 not in v.space.visible or 2 not in v.space.visible:
        raise ValueError(f"rotate: the volume has the axes {', '.join(v.axes)}; y and x are needed")
    if isinstance(angle, str | bool) or not math.isfinite(angle):
        raise ValueError(f"rotate: angle={angle!r} is not a number of degrees")
    cos, sin = _cos_sin(float(angle))
    turn = np.array([[cos, sin], [-sin, cos]])
    plane = np.array(v.grid_shape[1:])
    high, wide = plane.tolist()
    corners = turn @ np.array([[0, 0, high, high], [0, wide, 0, wide]])
    shape = (np.ptp(corners, axis=1) + 0.5).astype(int) if reshape else plane
    centre = (plane - 1) / 2 - turn @ ((shape - 1) / 2)
    matrix = np.eye(len(v.space.axes))
    matrix[-2:, -2:] = turn
    output = [*(v.grid_shape[a] for a in v.space.visible[:-2]), *shape.tolist()]
    offset = [0.0] * (len(v.space.axes) - 2) + centre.tolist()
    return _affine("rotate", v, matrix, offset, output, order, mode, cval)


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Return both, exact for right angles as in scipy."""
    turn = degrees % 360
    if turn % 90 == 0:
        quarter = int(turn // 90)
        return (1.0, 0.0, -1.0, 0.0)[quarter], (0.0, 1.0, 0.0, -1.0)[quarter]
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def _affine(
    name: str,
    volume: Volume,
    matrix: Any,
    offset: Any,
    output_shape: Sequence[int] | None,
    order: int,
    mode: str,
    cval: float,
) -> Volume:
    v = _of_order(volume, order, name)
    visible = list(v.space.visible)
    inner, inner_offset = _matrix(v, matrix, offset, name)
    full, add = np.eye(3), np.zeros(3)
    full[np.ix_(visible, visible)] = inner
    add[visible] = inner_offset
    grid = list(v.grid_shape)
    if output_shape is not None:
        given = list(output_shape)
        if len(given) != len(v.space.axes):
            raise ValueError(
                f"{name}: output_shape={output_shape!r} has {len(given)} entries for {len(v.space.axes)} axes"
            )
        grid = par.whole_numbers(given, visible, 1, "output_shape", 1)
        check_indexable(grid, f"{name}: output_shape={output_shape!r}")
    source = kernel_input(v)
    taps = np.array([1 + order if a in visible else 1 for a in range(3)])
    how = full, add, taps, _one_mode(mode, name), constant_in(v.dtype, cval, "cval", name)
    stage = Affine(name, source.dtype, source.grid_shape, triple(grid), *how)
    if full[0, 0] < 0:
        raise ValueError(
            f"{name}: the matrix reverses the order of slices ({full[0, 0]:g} at its upper left), which a "
            "sweep along z cannot; use bv.flip along the first axis before, and the matrix without it"
        )
    return source.map_channels(lambda node: StageNode.of(stage, (node,)), v.space).astype(v.dtype)


def _matrix(v: Volume, matrix: Any, offset: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and offset over the visible axes."""
    m = np.asarray(matrix, np.float64)
    add = np.array(par.per_axis(offset, v.space.visible, 0.0, "offset"), np.float64)
    add = add[list(v.space.visible)]
    n = len(v.space.axes)
    if m.shape == (n,):
        m = np.diag(m)
    elif m.shape in ((n, n + 1), (n + 1, n + 1)):
        if len(m) > n and not np.array_equal(m[n], [0.0] * n + [1.0]):
            raise ValueError(
                f"{name}: the last row of a homogeneous matrix is zeros and a one, not {m[n]}"
            )
        m, add = m[:n, :n], m[:n, n]
    if m.shape != (n, n):
        raise ValueError(
            f"{name}: a matrix of shape {m.shape}; for {n} axes it is {n} x {n}, its diagonal, or "
            f"homogeneous ({n} x {n + 1} or {n + 1} x {n + 1})"
        )
    if not (np.isfinite(m).all() and np.isfinite(add).all()):
        raise ValueError(
            f"{name}: matrix and offset must be finite, not {m.tolist()}, {add.tolist()}"
        )
    return m, add


def _of_order(volume: Volume, order: int, name: str) -> Volume:
    """Return the volume, if it supports an order of interpolation."""
    v = refuse_empty(as_volume(volume), name)
    if isinstance(order, bool) or order not in (0, 1):
        raise ValueError(
            f"{name}: order={order!r} is not offered: splines of higher orders reach through the whole "
            "volume; use order=0 (the nearest voxel) or order=1 (linear)"
        )
    if order == 1 and v.dtype == bool:
        raise TypeError(
            f"{name}: a bool volume cannot be interpolated; use order=0, or astype('f4') first"
        )
    return v


def _one_mode(mode: str, name: str) -> str:
    return par.modes_of(mode, (0, 1, 2), name)[0] if isinstance(mode, str) else _refuse(mode, name)


def _refuse(mode: Any, name: str) -> str:
    raise TypeError(f"{name}: mode={mode!r} is not a text; there is one mode for all axes")


def _signed(v: Volume, length: Any, axis: int) -> float:
    """Return a length in voxels, which may be negative."""
    if isinstance(length, str):
        text = length.strip()
        size = par.in_voxels(v, text.lstrip("+-"), axis, "shift")
        return -size if text.startswith("-") else size
    if not par.is_number(length):
        raise TypeError(f"shift={length!r} is not a length")
    if not math.isfinite(length):
        raise ValueError(f"shift={length!r}: a length is finite")
    return float(length)
