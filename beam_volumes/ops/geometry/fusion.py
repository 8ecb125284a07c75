"""Fusion of overlapping tiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.spaces import shared_size
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.geometry.fusion import BLENDINGS
from beam_volumes.ops.geometry.computed_tiles import tile_source
from beam_volumes.ops.geometry.rearrange import check_indexable, refuse_empty
from beam_volumes.ops.geometry.tile_slices import moved_slices, slices_of
from beam_volumes.ops.geometry.transforms import is_listed, matrices_of
from beam_volumes.ops.geometry.validity import masks_of, nodata_of
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.sources.source import DTYPES, Source
from beam_volumes.storage.sources.tiles import fused, inverted

#: Positions that are this close to a whole voxel, in voxels, are rounded to it.
_WHOLE = 1e-6
#: The standard deviations of weights by content, in voxels: narrower means are the voxel itself.
_MIN_SIGMA, _MAX_SIGMA = 0.2, 64


@documented
def fuse(
    tiles: Sequence[Volume],
    transforms: Any,
    *,
    physical: bool = False,
    shape: Sequence[int] | None = None,
    voxel_size: float | Sequence[float] | None = None,
    blending: str = "linear",
    blend_width: float | str | Sequence[float | str] | None = None,
    weights: str | None = None,
    content_sigma: float | str | Sequence[float | str] | None = None,
    per_frame: bool = False,
    order: int = 1,
    fill: float = 0,
    dtype: DTypeLike | None = None,
    gain: float | Sequence[float] = 1.0,
    offset: float | Sequence[float] = 0.0,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
) -> Volume:
    """Fuse overlapping tiles into one volume.

    Use it for the tiles of a microscope with a moving stage, once their positions are known. The
    volume is lazy, so filters, labels and pyramids are computed in the same sweep.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with the same dtype, axes, channels and time points. They are opened, or computed from
        opened volumes, such as ``(tile - dark) / flat``. A tile extends half a voxel beyond the
        centres of its outer voxels. Channels and time points are fused one by one. Tiles with a
        different voxel size from the first need matrices that scale them, or ``physical=True``.
    transforms : array_like, table, path or None
        For each tile, the position of its first voxel, or a matrix that maps its indices to
        positions. A matrix is square, or homogeneous with the position in its last column.
        Positions have an entry for each spatial axis. A table can be a DataFrame or the path of a
        CSV file. The table has columns named z, y and x, and a row for each tile, in order. With
        columns named tile and slice, it has a row for each slice of each tile, as found by
        `register_tiles` with ``model="slices"``. With None, tiles are placed by their own origins.
    physical : bool, default: False
        Whether ``transforms`` uses the unit of the tiles instead of voxels. In this unit, matrices
        map indices times the voxel size.
    shape : sequence of int, optional
        Shape of the result, which then begins at position 0. By default, the result covers all
        tiles.
    voxel_size : float or sequence of float, optional
        Voxel size of the result, in the unit of the tiles; the first tile's by default.
        Larger voxels are sampled, not averaged.
    blending : {"linear", "cosine", "max", "mean", "first"}, default: "linear"
        How to combine overlapping tiles. ``"linear"`` is a weighted mean. Weights are proportional
        to the distance from the tile's border along each axis, so they change linearly from one
        tile to the next. ``"cosine"`` changes more smoothly. ``"first"`` is the first tile in the
        given order.
    blend_width : float, str or sequence of these, optional
        The distance from a tile's border at which weights of ``"linear"`` and ``"cosine"`` stop
        increasing: a number of voxels of the tile, or a length such as ``"2 um"``; one for all axes
        or one per axis. By default, weights increase to the tile's centre. Distances begin one
        voxel outside of the tile, so a width of 1 voxel is the mean.
    weights : {"content"}, optional
        Whether weights also depend on voxels. With ``"content"``, they are multiplied by the local
        variance, so a sharp tile outweighs a blurred one, and details of slightly misaligned tiles
        appear once. For all blending but ``"max"`` and ``"first"``.
    content_sigma : float, str or sequence of these, optional
        For ``weights="content"``: the standard deviation of the Gaussian that computes the local
        mean, in voxels or as a length; 4 voxels by default. The largest must be from 0.2 to 64
        voxels. Squared deviations are smoothed with twice this. Use about the size of the smallest
        details.
    per_frame : bool, default: False
        Whether the tiles move in time: ``transforms`` is then a list of transforms of all tiles, one
        for each time point. Otherwise, all time points have the same transforms.
    order : {0, 1}, default: 1
        The order of interpolation: 0 is the nearest voxel of a tile, 1 is linear. Positions within
        1e-6 of an integer are rounded; voxels are then copied, not interpolated.
    fill : float, default: 0
        The value outside of all tiles.
    dtype : dtype, optional
        Dtype of the result; the tiles' dtype by default. Integers are rounded half to even and
        clipped to the dtype's range.
    gain : float or sequence of float, default: 1.0
        Factor for the voxels; one value for all tiles or one per tile.
    offset : float or sequence of float, default: 0.0
        Number to add after applying ``gain``; one value for all tiles or one per tile.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, one channel, and bool or integer
        voxels. Masks may be computed, like tiles.
    nodata : float, optional
        The value of voxels without data in the tiles, such as 0 for black borders. They are not
        used.

    Returns
    -------
    Volume
        A volume; its origin is the position of its first voxel.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the tiles differ in axes, channels, time points or voxel
        size. If a computed tile needs all of its voxels at once, such as ``tile - tile.mean()``,
        labels, or a network. If a mask differs from its tile in shape, axes or voxel size, or the
        number of masks is wrong.
    TypeError
        If a tile is neither a volume nor an array, or has integers of 64 bits. If tiles have
        different dtypes, or are bool and would be interpolated or averaged. If a mask has floats.

    See Also
    --------
    concatenate : joins volumes that do not overlap.
    affine_transform : transforms one volume.

    Notes
    -----
    One sweep. The result is computed in blocks of about 16 MiB, which read only the parts of tiles
    that they need. Chunks of tiles that span several blocks are read several times; `Plan.explain`
    with ``verbose=True`` shows how often on average. The bytes that a plan reads are counted in
    blocks of the result. If several runs need the result, write it once. Values are computed as
    float64, from positions in the whole volume, and summed in the order of the tiles.

    With ``weights="content"``, variances are computed in each tile, from all its valid voxels in
    about nine ``content_sigma`` around a voxel. Blocks are then about 4 MiB, read this margin, and
    need seven floating-point numbers for each voxel that is read, which the plan includes.

    All time points have one shape, which covers the tiles of all of them. A mask is used for all
    channels and time points of its tile. Each time point reads, or computes, its own parts of tiles.

    Each block computes the parts of computed tiles that it needs, with their halos, in one thread.
    The voxels are the same as of tiles that were written first. Filters with large halos are
    computed repeatedly near the borders of blocks, so it is faster to write such tiles first.

    With ``mask`` or ``nodata``, a tile covers a position if its nearest voxel is valid. Values are
    interpolated between valid voxels only. Weights of ``"linear"`` and ``"cosine"`` also decrease
    within 8 voxels of voxels that are not valid. Distances are sums of steps along the axes, also
    between slices. Blocks read a margin of 8 voxels for this. Voxels that no tile covers are
    ``fill``.

    NaN and infinite voxels are values unless they are excluded, as in weighted means of numpy: each
    position that depends on an infinite voxel is infinite, or NaN if two have different signs.
    ``mask=np.isfinite(tile)`` excludes all of them.

    If the table has a row for each slice, slices are moved and interpolated by `apply_transforms`,
    and then fused along z as float32, or float64 for wide dtypes. NaN voxels are then not used.

    References
    ----------
    S. Preibisch, S. Saalfeld and P. Tomancak, "Globally optimal stitching of tiled 3D microscopic
    image acquisitions", Bioinformatics 25, 2009.

    S. Preibisch, T. Rohlfing, M. P. Hasak and P. Tomancak, "Mosaicing of single plane illumination
    microscopy images using groupwise registration and fast content-based image fusion", Proc. SPIE
    6914, 2008.

    Examples
    --------
    >>> left, right = np.full((2, 5), 10, "u1"), np.full((2, 5), 40, "u1")
    >>> fused = bv.fuse([left, right], [(0, 0), (0, 3)])
    >>> np.asarray(fused)[0]
    array([10, 10, 10, 20, 30, 40, 40, 40], dtype=uint8)

    Tiles are corrected as they are fused:

    >>> flat = np.array([1, 1, 1, 2, 2], "f4")
    >>> np.asarray(bv.fuse([bv.open(t) / flat for t in (left, right)], [(0, 0), (0, 5)]))[0]
    array([10., 10., 10.,  5.,  5., 40., 40., 40., 20., 20.], dtype=float32)
    """
    if (rows := slices_of(transforms, "fuse")) is not None:
        if physical:
            raise ValueError(
                "fuse: physical=True does not go with transforms that have a row for each slice, in voxels; "
                "leave it out"
            )
        own = _alike(tiles)[0][0].dtype
        _check_dtype(own, order, blending)  # of the tiles, since slices are interpolated as floats
        target = own if dtype is None else dtype
        tiles, transforms = moved_slices(tiles, rows, order, mask, nodata, "fuse")
        mask, nodata, dtype = None, np.nan, target
    opened, which = _alike(tiles)
    first, count = opened[0], len(which)
    if blending not in BLENDINGS:
        raise ValueError(
            f"fuse: blending={blending!r} is not available; use one of {', '.join(BLENDINGS)}"
        )
    _check_dtype(first.dtype, order, blending)
    target = np.dtype(first.dtype if dtype is None else dtype)
    if target not in DTYPES or (target.itemsize == 8 and target.kind in "iu"):
        raise TypeError(f"fuse: dtype={target} is not available; use at most 32 bits, or float64")
    space, of_tiles = _sizes(opened, which)
    if transforms is None:
        physical = True
    if physical and space.voxel_size is None:
        raise ValueError(
            f"fuse: physical=True or transforms={transforms!r} needs the voxel size of the tiles; open "
            "them with voxel_size=, or give transforms in voxels"
        )
    sets = [
        _matrices(opened, which, space, given, name)
        for given, name in _sets(transforms, first.space.times, per_frame)
    ]
    if of_tiles is not None and not physical:
        for matrices, _ in sets:
            _check_scales(of_tiles, matrices, opened, which)
    masks = [] if mask is None else masks_of(mask, [opened[k] for k in which], "fuse", "tile")
    grids = [
        _Grid.of(opened, which, space, of_tiles, matrices, physical, voxel_size)
        for matrices in sets
    ]
    grid = grids[0]
    start, whole = _bounding_box(grids) if shape is None else ([0, 0, 0], _shape(first, shape))
    check_indexable(whole, "fuse: the extent of all tiles")
    made: dict[str, Any] = {
        "shape": triple(whole),
        "dtype": target,
        "space": grid.space(start).of_one("c"),
        "matrices": _stacked(grid.inverse(start) for grid in grids),
        "corrections": tuple(
            _of_tiles(value, count, what) for value, what in ((gain, "gain"), (offset, "offset"))
        ),
        "order": order,
        "blending": blending,
        "fill": constant_in(target, fill, "fill", "fuse"),
        "width": _widths(opened, which, blend_width, blending),
        "sigmas": _sigmas(opened, weights, content_sigma, blending),
        "masks": _sources_of(masks),
        "nodata": nodata_of(nodata, first.dtype, "fuse"),
    }
    arrays = dict[str, Source]()
    named = [f"fuse: tile {k}" for k in np.unique(which, return_index=True)[1].tolist()]
    parts = [
        [
            tile_source(v.nodes[c], v.space, name, arrays)
            for v, name in zip(opened, named, strict=True)
        ]
        for c in range(len(first.nodes))
    ]
    nodes = tuple(SourceNode.of(fused(some, which, **made)) for some in parts)
    return Volume(nodes, grid.space(start))


def _alike(tiles: Sequence[Any]) -> tuple[list[Volume], np.ndarray]:
    """Return the different objects among tiles, if they are alike, and the number of each tile.

    They have one dtype, axes, channels and number of time points.
    """
    given = list(tiles)  # keeps objects of a lazy sequence, and so their ids
    numbers = dict[int, int]()
    which = np.fromiter((numbers.setdefault(id(v), len(numbers)) for v in given), np.int64)
    if not len(which):
        raise ValueError("fuse: give at least one tile")
    at = np.unique(which, return_index=True)[1].tolist()
    opened = [as_volume(given[k]) for k in at]
    first = opened[0]
    for k, v in zip(at, opened, strict=True):
        refuse_empty(v, "fuse")
        if v.dtype != first.dtype:
            raise TypeError(
                f"fuse: tile {k} has dtype {v.dtype}, and tile 0 {first.dtype}; write one of them in "
                "the dtype of the other first"
            )
        if (v.axes, len(v.nodes), v.channels) != (first.axes, len(first.nodes), first.channels):
            raise ValueError(
                f"fuse: tile {k} has the axes {' '.join(v.axes)} and {len(v.nodes)} channels, and "
                f"tile 0 {' '.join(first.axes)} and {len(first.nodes)}; choose the same channels "
                "of each with sel(c=)"
            )
        if v.space.times != first.space.times:
            raise ValueError(
                f"fuse: tile {k} has {v.space.times} time points, and tile 0 {first.space.times}; select "
                "the same ones of each, such as tile[:5]"
            )
    return opened, which


def _sizes(opened: Sequence[Volume], which: np.ndarray) -> tuple[Space, np.ndarray | None]:
    """Return the space of the result, and the voxel size of each tile if they differ."""
    try:
        return shared_size("fuse", *opened), None
    except ValueError:
        first = opened[0].space
        sizes = [v.space.in_unit(first.unit).voxel_size for v in opened]
        if first.unit is None or None in sizes:
            raise
        return replace(first, origin=(0.0, 0.0, 0.0), sliced_from=None), np.array(sizes)[which]


def _check_scales(
    sizes: np.ndarray, matrices: np.ndarray, opened: Sequence[Volume], which: np.ndarray
) -> None:
    """Refuse tiles with a voxel size other than the first one's, if their matrices do not have it."""
    extents = np.linalg.norm(matrices * sizes[0][:, None], axis=1)
    wrong = (abs(extents - sizes) > abs(extents - sizes[0])).any(axis=1)
    if wrong.any():
        shared_size("fuse", opened[0], opened[which[int(wrong.argmax())]])


def _check_dtype(dtype: np.dtype, order: int, blending: str) -> None:
    if isinstance(order, bool) or order not in (0, 1):
        raise ValueError(
            f"fuse: order={order!r} is not available; use order=0 (the nearest voxel) or order=1 (linear)"
        )
    if dtype.itemsize == 8 and dtype.kind in "iu":
        raise TypeError(
            f"fuse: tiles of {dtype} are not available, since float64 would round them; write them as "
            "32 bits first"
        )
    if dtype.kind == "b" and (order or blending not in ("first", "max")):
        raise TypeError(
            'fuse: bool tiles cannot be averaged; use order=0 and blending="max" or "first"'
        )


def _sets(transforms: Any, times: int, per_frame: bool) -> list[tuple[Any, str]]:
    """Return the transforms of all time points, or of each, and their name for messages."""
    if not isinstance(per_frame, (bool, np.bool_)):
        raise TypeError(f"fuse: per_frame={per_frame!r} is neither True nor False")
    if not per_frame:
        return [(transforms, "transforms")]
    if not times:
        raise ValueError(
            "fuse: per_frame=True needs tiles with a time axis; without it, give one set of transforms"
        )
    is_list = is_listed(transforms)
    if not is_list or len(transforms) != times:
        given = f"{len(transforms)} entries" if is_list else f"the type {type(transforms).__name__}"
        raise ValueError(
            f"fuse: per_frame=True needs a list of {times} sets of transforms, one for each time point, and "
            f"transforms has {given}"
        )
    for t, given in enumerate(transforms):
        if given is None:
            raise TypeError(
                f"fuse: transforms[{t}]=None, but tiles have one origin for all time points; give "
                "transforms, or transforms=None without per_frame"
            )
    return [(given, f"transforms[{t}]") for t, given in enumerate(transforms)]


def _widths(
    opened: Sequence[Volume], which: np.ndarray, blend_width: Any, blending: str
) -> np.ndarray:
    """Return for each tile and axis the distance from its border where weights become 1, in voxels."""
    widths = np.full((len(opened), 3), np.inf)
    if blend_width is None:
        return widths[which]
    if blending not in ("linear", "cosine"):
        raise ValueError(
            f"fuse: blend_width={blend_width!r} does not go with blending={blending!r}, which has no "
            'weights; use blending="linear" or "cosine"'
        )
    for k, v in enumerate(opened):
        visible = list(v.space.visible)
        found = np.array(par.lengths(v, blend_width, visible, "blend_width"))[visible]
        if not (found > 0).all():
            raise ValueError(
                f'fuse: blend_width={blend_width!r} is not positive; use blending="first" to cut tiles'
            )
        widths[k, visible] = found
    return widths[which]


def _sigmas(
    opened: Sequence[Volume], weights: Any, content_sigma: Any, blending: str
) -> tuple[float, float, float] | None:
    """Return the standard deviations of weights by content, in voxels."""
    if weights is None:
        if content_sigma is not None:
            raise ValueError(
                f'fuse: content_sigma={content_sigma!r} has no effect without weights="content"; add it'
            )
        return None
    if weights != "content":
        raise ValueError(f'fuse: weights={weights!r} is not available; use "content" or None')
    if blending in ("max", "first"):
        raise ValueError(
            f'fuse: weights="content" does not go with blending={blending!r}, which has no weights; use '
            'blending="linear", "cosine" or "mean"'
        )
    found = set()
    for v in opened:
        visible = list(v.space.visible)
        given = 4.0 if content_sigma is None else content_sigma
        z, y, x = par.lengths(v, given, visible, "content_sigma")
        if not _MIN_SIGMA <= max(z, y, x) <= _MAX_SIGMA:
            raise ValueError(
                f"fuse: content_sigma={content_sigma!r} has a largest value of {max(z, y, x):.3g} voxels; "
                f"use {_MIN_SIGMA} to {_MAX_SIGMA} voxels, and downsample the volume for larger details"
            )
        found.add((z, y, x))
    if len(found) > 1:
        raise ValueError(
            f"fuse: content_sigma={content_sigma!r} differs in voxels, since the tiles have different voxel "
            "sizes; give a number of voxels"
        )
    return found.pop()


def _stacked(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return arrays with an entry for each time point."""
    inverse, shift = zip(*pairs, strict=True)
    return np.stack(inverse), np.stack(shift)


def _sources_of(masks: Sequence[Volume | None]) -> list[Source | None]:
    """Return the source of each mask; masks that are equal objects have one source."""
    found = dict[int, Source]()
    for k, mask in enumerate(masks):
        if mask is not None and id(mask) not in found:
            found[id(mask)] = tile_source(mask.node, mask.space, f"fuse: the mask of tile {k}", {})
    return [None if mask is None else found[id(mask)] for mask in masks]


def _of_tiles(value: Any, tiles: int, what: str) -> np.ndarray:
    """Return a number for each tile."""
    try:
        found = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"fuse: {what}={value!r} is not made of numbers") from None
    if found.shape not in ((), (tiles,)) or not np.isfinite(found).all():
        raise ValueError(
            f"fuse: {what}={value!r} is neither a finite number nor one for each of {tiles} tiles"
        )
    return np.broadcast_to(found, (tiles,)).copy()


def _shape(first: Volume, shape: Sequence[int]) -> list[int]:
    given = list(shape)
    if len(given) != len(first.space.axes):
        raise ValueError(
            f"fuse: shape={shape!r} has {len(given)} entries for {len(first.space.axes)} spatial axes"
        )
    return par.whole_numbers(given, first.space.visible, 1, "shape", 1)


def _matrices(
    opened: Sequence[Volume], which: np.ndarray, space: Space, transforms: Any, what: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix, (tiles, 3, 3), and a position, (tiles, 3), for each tile."""
    visible, tiles = list(space.visible), len(which)
    matrices, places = np.tile(np.eye(3), (tiles, 1, 1)), np.zeros((tiles, 3))
    if transforms is None:
        places[:] = np.array([v.space.in_unit(space.unit).origin for v in opened])[which]
        return matrices, places
    found = matrices_of(transforms, space.axes, tiles, "fuse", "tiles", what)
    matrices[:, np.array(visible)[:, None], visible], places[:, visible] = found
    return matrices, places


@dataclass(frozen=True)
class _Grid:
    """The tiles on a grid of the result that begins at position 0.

    Index u of a tile is at ``forward @ u + place`` of this grid.
    """

    tiles: Space
    forward: np.ndarray
    place: np.ndarray
    extent: np.ndarray
    step: np.ndarray  #: The extent of a voxel of the result in voxels of the tiles.

    @classmethod
    def of(
        cls,
        opened: Sequence[Volume],
        which: np.ndarray,
        space: Space,
        of_tiles: np.ndarray | None,
        matrices: tuple[np.ndarray, np.ndarray],
        physical: bool,
        voxel_size: float | Sequence[float] | None,
    ) -> _Grid:
        own = np.array(space.voxel_size or (1.0, 1.0, 1.0))
        step = np.ones(3)
        if voxel_size is not None:
            if space.voxel_size is None:
                raise ValueError(
                    "fuse: voxel_size= needs the voxel size of the tiles; open them with voxel_size="
                )
            sizes = np.array(par.per_axis(voxel_size, space.visible, None, "voxel_size", "fuse"))
            step = np.where([s is None for s in sizes], 1.0, [s or 0 for s in sizes] / own)
            if not (np.isfinite(step).all() and (step > 0).all()):
                raise ValueError(f"fuse: voxel_size={voxel_size!r} is not made of positive numbers")
        size = own if physical else np.ones(3)
        tile = size if of_tiles is None or not physical else of_tiles[:, None]
        forward = matrices[0] * (tile / (size * step)[:, None])
        place = matrices[1] / (size * step)
        rounded = np.rint(place)
        place = np.where(abs(place - rounded) < _WHOLE, rounded, place)
        return cls(space, forward, place, np.array([v.grid_shape for v in opened])[which], step)

    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest position that a tile covers."""
        middle = np.einsum("tab,tb->ta", self.forward, (self.extent - 1) / 2) + self.place
        reach = np.einsum("tab,tb->ta", abs(self.forward), self.extent / 2)
        return (middle - reach).min(axis=0), (middle + reach).max(axis=0)

    def inverse(self, start: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the maps from the result, which begins at voxel ``start``, to the tiles."""
        place = self.place - np.array(start, np.float64)
        diagonal = np.einsum("taa->ta", self.forward)
        is_scaled = (self.forward == diagonal[:, :, None] * np.eye(3)).all(axis=(1, 2))
        inverse = np.where(
            is_scaled[:, None, None],
            np.eye(3) / np.where(is_scaled[:, None], diagonal, 1.0)[:, :, None],
            inverted(self.forward),
        )
        return inverse, -np.einsum("tab,tb->ta", inverse, place)

    def space(self, start: Sequence[int]) -> Space:
        own = self.tiles.voxel_size
        dz, dy, dx = (np.array(own or (1.0, 1.0, 1.0)) * self.step).tolist()
        origin = (dz * start[0], dy * start[1], dx * start[2])
        return replace(self.tiles, voxel_size=None if own is None else (dz, dy, dx), origin=origin)


def _bounding_box(grids: Sequence[_Grid]) -> tuple[list[int], list[int]]:
    """Return the first voxel of the box of all tiles at all time points, and its shape."""
    lowest, highest = zip(*(grid.bounds() for grid in grids), strict=True)
    low = np.ceil(np.min(lowest, axis=0) - _WHOLE)
    high = np.ceil(np.max(highest, axis=0) - _WHOLE)
    if max(abs(low).max(), abs(high).max()) >= 2**53:
        raise ValueError("fuse: the positions are too large to index voxels")
    return [int(n) for n in low], [max(1, int(n)) for n in high - low]
