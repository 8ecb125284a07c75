"""Resampling by whole factors: coarser and finer grids."""

from __future__ import annotations

from collections.abc import Sequence

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import Node, SourceNode, StageNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.geometry.rearrange import by_axes, check_indexable, refuse_empty
from beam_volumes.ops.geometry.stages import METHODS, Along, Between, Downsample
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input, triple
from beam_volumes.ops.parameters.docs import documented

#: Maximum number of voxels in a window of downsampling.
_MAX_WINDOW = 1 << 20


@documented
def downsample(volume: Volume, factors: int | Sequence[int], method: str = "mean") -> Volume:
    """Combine each window of ``factors`` voxels into one voxel.

    Windows start at the first voxel and are clipped at the far edges.

    Parameters
    ----------
    %(volume)s
    factors : int or sequence of int
        Extent of windows in voxels; one number for all axes or one per axis.
    method : {"mean", "min", "max", "median", "mode", "stride"}, default: "mean"
        How to combine the voxels of a window. Means of integers are rounded half to even. The
        median of an even number of voxels is the lower of the middle two. ``"mode"`` is the most
        frequent value; if there are several, the smallest is used. ``"stride"`` is the first voxel.

    Returns
    -------
    Volume
        A volume of the input's dtype. The voxels of the result are larger by ``factors``, and its
        origin is in the centre of the first window (unchanged for ``"stride"``). A voxel is NaN if
        its window contains a NaN.

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
            f"downsample: method={method!r} is not available; use one of {', '.join([*METHODS, 'stride'])}"
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
    """Divide each voxel into ``factors`` voxels along the axes.

    Parameters
    ----------
    %(volume)s
    factors : int or sequence of int
        Number of new voxels per voxel; one value for all axes or one per axis.
    order : {0, 1}, default: 0
        0 repeats voxels, like `numpy.repeat`; 1 interpolates linearly between their centres, and is
        constant outside.
    like : Volume, optional
        The original input of `downsample`, which determines the shape of the result. The extents of
        this volume need not be multiples of ``factors``.

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
    v = of_order(volume, order, "upsample")
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


def of_order(volume: Volume, order: int, name: str, maximum: int = 1) -> Volume:
    """Return the volume, if it supports an order of interpolation."""
    v = refuse_empty(as_volume(volume), name)
    if not par.is_whole(order) or not 0 <= order <= maximum:
        raise ValueError(
            f"{name}: order={order!r} is not available; use order=0 (the nearest voxel) or order=1 (linear)"
            + (f", up to order={maximum} (splines)" if maximum > 1 else "")
        )
    if order and v.dtype == bool:
        raise TypeError(
            f"{name}: a bool volume cannot be interpolated; use order=0, or astype('f4') first"
        )
    return v
