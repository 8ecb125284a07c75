"""User functions of blocks with an overlap."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.base.geometry import Halo
from beam_volumes.base.nesting import calling
from beam_volumes.graph.arithmetic import check_alike
from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.stages import interleaved_dtype, separated
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.filters import stages
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, exact, first_channel, stage_of_volumes
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import Padding, identity

#: Voxels along each axis of the block that shows what a function returns, without and with its overlap.
_PROBE, _MAX_PROBE = 4, 32


@documented
def map_overlap(
    func: Callable[..., np.ndarray],
    *volumes: Volume,
    depth: int | Sequence[int | tuple[int, int]] = 0,
    dtype: DTypeLike | None = None,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    name: str | None = None,
    version: str | int | None = None,
    deterministic: bool = True,
    mixes: str | None = None,
    channels: int | Sequence[str] | None = None,
) -> Volume:
    """Apply your own function to blocks with an overlap.

    Parameters
    ----------
    func : callable
        A function of one array (z, y, x) for each volume, with ``depth`` additional voxels on each
        side. The function returns an array of the same shape, or of the shape without the overlap.
        Each voxel of the result may depend only on voxels within ``depth``, not on the position of
        blocks. Several threads call the function, and it must not compute with this package.
    *volumes : Volume or numpy.ndarray
        One or more volumes of the same shape. The function is called separately for each channel; a
        volume without channels is passed to every call.
    depth : int or sequence, default: 0
        The overlap in voxels: one number for all axes, or for each axis a number or a pair
        ``(before, after)``.
    dtype : dtype, optional
        The dtype of the result. By default, the dtype that the function returns for a small block
        of ones, or the dtype of the first volume if this call fails.
    %(mode)s
    %(cval)s
    %(name_and_version)s
    deterministic : bool, default: True
        Set it to False if a second call may return different bits. In this case, the result is
        stored, and never computed twice.
    mixes : {"channels"}, optional
        ``"channels"`` if the function processes all channels at once. All arrays and the result
        then have the axes c, z, y, x, even for volumes without channels.
    channels : int or sequence of str, optional
        Number or names of the result's channels with ``mixes``; by default the first volume's.

    Returns
    -------
    Volume
        A volume of ``dtype``, on the grid of the first volume.

    Raises
    ------
    ValueError
        If no volume is given, shapes differ, or a parameter is out of range. On computation, if the
        function returns a different kind of number from ``dtype``, or integers that ``dtype``
        cannot hold.
    TypeError
        If ``func`` is not callable, or a volume is neither a volume nor an array.

    See Also
    --------
    generic_filter : applies a compiled function to the voxels around each voxel.

    Notes
    -----
    One sweep, with ``depth`` as halo. The planner assumes that the function needs memory for its
    inputs and two float64 arrays per block; additional memory is not planned.

    References
    ----------
    `dask.array.map_overlap`.

    Examples
    --------
    >>> v = bv.open(np.arange(5.0)[None])
    >>> np.asarray(bv.map_overlap(lambda a: a - np.roll(a, 1, axis=2), v, depth=(0, 1)))
    array([[0., 1., 1., 1., 1.]])
    """
    if not callable(func):
        raise TypeError(
            f"map_overlap: func={func!r} is not callable; the function comes first, then the volumes"
        )
    if not volumes:
        raise ValueError("map_overlap: give at least one volume")
    opened = [as_volume(v) for v in volumes]
    first = next((v for v in opened if v.space.has_channels), opened[0])
    if mixes not in (None, "channels"):
        raise ValueError(f'map_overlap: mixes={mixes!r}; use "channels" or leave it out')
    if mixes is None and channels is not None:
        raise ValueError(f'map_overlap: channels={channels!r} is for mixes="channels"')
    for v in opened:
        # With mixed channels, volumes may have different numbers of them.
        check_alike("map_overlap", *(map(first_channel, (first, v)) if mixes else (first, v)))
    chosen = par.axes_of(first, None, "map_overlap")
    halo = []
    for d in par.per_axis(depth, chosen, 0, "depth"):
        pair = tuple(d) if isinstance(d, Sequence) else (d, d)
        if len(pair) != 2 or not all(isinstance(n, int | np.integer) and n >= 0 for n in pair):
            raise ValueError(
                f"map_overlap: depth={depth!r} must consist of whole numbers of at least 0"
            )
        par.not_too_long(max(pair), f"map_overlap: depth={depth!r}")
        halo.append((int(pair[0]), int(pair[1])))
    z, y, x = halo
    modes = par.modes_of(mode, chosen, "map_overlap")
    if any("constant" in m for m in modes):
        for v in opened:
            constant_in(v.dtype, cval, "cval", "map_overlap")
    whole = next((v.dtype for v in opened if v.dtype.kind in "iu"), first.dtype)
    padding = Padding(modes, exact(cval, whole))
    what = name or str(getattr(func, "__name__", "map_overlap"))
    of = checked_dtype(_returned(func, opened, (z, y, x), mixes) if dtype is None else dtype)
    how = (func, (z, y, x), padding)
    if mixes is None:
        who = (len(opened), deterministic, identity(name, version))
        return stage_of_volumes(stages.Overlap(what, of, *how, *who), opened)
    names, count = _names(channels, first)
    sizes = tuple(len(v.nodes) for v in opened)
    who = (sum(sizes), deterministic, identity(name, version))
    stage = stages.Overlap(what, interleaved_dtype(of, count), *how, *who, sizes)
    mixed = StageNode.of(stage, tuple(n for v in opened for n in v.nodes))
    shared = shared_space(what, *opened)
    return Volume(separated(mixed, what), shared.with_leading(shared.times, True, names))


def _returned(
    func: Callable[..., np.ndarray], volumes: Sequence[Volume], halo: Halo, mixes: str | None
) -> np.dtype:
    """Return the dtype that a function returns for a block of ones; if it fails, the first dtype."""
    around = zip(volumes[0].grid_shape, halo, strict=True)
    shape = [min(min(n, _PROBE) + sum(ends), _MAX_PROBE) for n, ends in around]
    blocks = [np.ones((len(v.nodes), *shape) if mixes else shape, v.dtype) for v in volumes]
    with calling("map_overlap"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(func(*blocks)).dtype
        except Exception:  # of such a small block: the run raises it with its place
            return volumes[0].dtype


def _names(channels: int | Sequence[str] | None, like: Volume) -> tuple[tuple[str, ...], int]:
    """Return the names of a result's channels, as far as known, and their number."""
    if channels is None:
        return like.space.channels, len(like.nodes)
    if isinstance(channels, int | np.integer):
        if channels < 1:
            raise ValueError(f"map_overlap: channels={channels!r}; give at least one")
        return (), int(channels)
    names = tuple(map(str, channels))
    if not names or len({*names}) != len(names):
        raise ValueError(f"map_overlap: channels={channels!r}; give one or more different names")
    return names, len(names)
