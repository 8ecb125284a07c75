"""Instance segmentation tile by tile, and stitching of segmentations in blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.across.fragments import RULES
from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import AcrossNode, Barrier, Node, StageNode
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.geometry.joining import concatenate
from beam_volumes.ops.geometry.stages import Along, Axes
from beam_volumes.ops.labels.surveys.fragment_surveys import FragmentSurvey, Stitch
from beam_volumes.ops.labels.surveys.instance_stages import FUNCTION_BYTES, Tiles
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.surveys.tilings import Covered, Owned, Tiling
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel, triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.stage import identity

_UINT32_VOXELS = 1 << 32
#: Bytes for a voxel that a function may take.
MAX_VOXEL_BYTES = 1 << 16


@documented
def map_instances(
    volume: Volume,
    function: Callable[[np.ndarray], np.ndarray],
    tile: int | Sequence[int],
    overlap: int | Sequence[int],
    stitch: str = "iou",
    threshold: float = 0.5,
    *,
    dtype: DTypeLike | None = None,
    voxel_bytes: int = FUNCTION_BYTES,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Segment objects tile by tile with your own function, and stitch the results.

    Use it for functions that return labels, such as Cellpose, StarDist, micro-SAM or a watershed.
    Overlapping tiles form a grid over the volume that is independent of slabs.

    Parameters
    ----------
    %(volume)s
    function : callable
        A function of the voxels of a tile, an array with the volume's axes (c first if there are
        channels). The function returns labels: integers of the tile's shape without c, 0 for
        background. It must return the same labels for the same voxels. Several threads call the
        function, and it must not compute with this package.
    tile : int or sequence of int
        Extent of a tile in voxels. The last tiles are clipped at the end of the volume.
    overlap : int or sequence of int
        Number of voxels shared by adjacent tiles, up to half a tile. If the overlap is at least the
        size of the largest object, each object is complete in some tile.
    %(stitching)s
    voxel_bytes : int, default: 24
        Memory in bytes that the function needs for each voxel of a tile, in addition to its input.
        The plan includes this memory.
    %(name_and_version)s

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the objects' first voxels. Its `Volume.num_labels` is
        the lazy number of objects.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the function does not return labels, or
        the objects need more memory than is available.
    TypeError
        If ``volume`` is neither a volume nor an array, or ``function`` is not callable.

    See Also
    --------
    stitch : stitches existing segmentations in blocks.
    predict : runs networks that return voxels instead of labels.
    map_overlap : runs functions of voxels and their neighbourhoods.

    Notes
    -----
    The first half of an overlap belongs to the lower tile, the rest to the upper one; each voxel
    gets its label from the tile that it belongs to. An object that lies only in voxels of other
    tiles can join objects, but has no voxels in the result. Labels are joined across faces of
    tiles; across edges and corners, they are joined through the tiles in between.

    Two sweeps. A slab runs the function on all tiles that intersect it. The labels of tiles are
    stored for the second sweep, so the function runs once for each tile and slab. Slabs need the
    fewest calls if their extents are multiples of ``tile - overlap``. Tiles are merged in a tree,
    like the slabs of `label`.

    References
    ----------
    Matching by intersection over union in overlaps: `Stringer et al., Cellpose, Nature Methods 2021
    <https://doi.org/10.1038/s41592-020-01018-x>`_, and cellpose's ``stitch3D`` for slices.

    Examples
    --------
    >>> from scipy import ndimage
    >>> def bright(tile):
    ...     return ndimage.label(tile > 5)[0]
    >>> v = bv.open(np.array([[9, 0, 7, 8, 8, 9, 0, 6, 0, 0, 9]], "u1"))
    >>> np.asarray(bv.map_instances(v, bright, tile=(1, 4), overlap=(0, 2), name="bright", version=1))
    array([[1, 0, 2, 2, 2, 2, 0, 3, 0, 0, 4]], dtype=uint32)
    """
    what = "map_instances"
    v = as_volume(volume)
    if not callable(function):
        raise TypeError(
            f"{what}: function={function!r} is not callable: give a function of an array that returns labels"
        )
    voxel_bytes = par.whole_number(voxel_bytes, "voxel_bytes", what, 0)
    if voxel_bytes > MAX_VOXEL_BYTES:
        raise ValueError(
            f"{what}: voxel_bytes={voxel_bytes} is too large; the maximum is {MAX_VOXEL_BYTES:,} "
            "bytes"
        )
    axes = v.space.visible
    shape = first_channel(v).grid_shape
    tiling = _tiling(
        shape,
        triple(par.whole_numbers(tile, axes, 1, "tile", 1, what)),
        triple(par.whole_numbers(overlap, axes, 0, "overlap", 0, what)),
        what,
    )
    called = name or str(getattr(function, "__name__", type(function).__name__))
    voxel_bytes += max(0, len(v.nodes) * v.dtype.itemsize - 8)  # channels
    stage = Tiles(
        f"{what} {called}", np.dtype(np.uint32), shape, tiling.tiled_shape, tiling, function, axes,
        v.space.has_channels, identity(name, version), voxel_bytes,
    )  # fmt: skip
    found = StageNode.of(stage, v.nodes)
    return first_channel(v).derive(_put_together(found, tiling, stitch, threshold, dtype, what))


@documented
def stitch(
    blocks: Any,
    overlap: int | Sequence[int],
    stitch: str = "iou",
    threshold: float = 0.5,
    *,
    dtype: DTypeLike | None = None,
) -> Volume:
    """Stitch a segmentation from overlapping blocks with independent labels.

    Parameters
    ----------
    blocks : nested sequence of Volume or numpy.ndarray
        Labels of the blocks, in lists that are nested like the volume's axes. The outer list is
        along the first axis, its lists along the second, and so on. All blocks have the same shape,
        except that the last along each axis may be smaller. The same label in two blocks means
        different objects.
    overlap : int or sequence of int
        Number of voxels shared by adjacent blocks, up to half a block.
    %(stitching)s

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the objects' first voxels, with the origin of the
        first block.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the blocks do not fit together.
    TypeError
        If a block is not a volume of integers.

    See Also
    --------
    map_instances : runs a function block by block, and stitches the results.

    Notes
    -----
    Two sweeps; the stitching rule and memory are as in `map_instances`. `concatenate` joins the
    blocks first, so use it for up to a few hundred blocks.

    References
    ----------
    Matching by intersection over union in overlaps: `Stringer et al., Cellpose, Nature Methods 2021
    <https://doi.org/10.1038/s41592-020-01018-x>`_.

    Examples
    --------
    >>> left, right = np.array([[5, 0, 7, 7]], "u8"), np.array([[3, 3, 3, 0, 5]], "u8")
    >>> np.asarray(bv.stitch([[left, right[:, :4]]], overlap=(0, 2)))
    array([[1, 0, 2, 2, 2, 0]], dtype=uint32)
    """
    what = "stitch"
    first: Any = blocks
    while isinstance(first, list | tuple):
        if not first:
            raise ValueError(f"{what}: give at least one block")
        first = first[0]
    like = one_channel(as_volume(first))
    check_labels(like.dtype, what)
    joined, extents = _joined(blocks, 0, like, what)
    axes = like.space.visible
    shared = par.whole_numbers(overlap, axes, 0, "overlap", 0, what)
    sizes = [like.grid_shape[a] for a in range(3)]
    shape = [
        (len(e) - 1) * (n - o) + e[-1] if len(e) > 1 else n
        for e, n, o in zip(extents, sizes, shared, strict=True)
    ]
    for a, (e, n, o) in enumerate(zip(extents, sizes, shared, strict=True)):
        if any(m != n for m in e[:-1]) or (len(e) > 1 and not o < e[-1] <= n):
            raise ValueError(
                f"{what}: blocks of {e} voxels along {'zyx'[a]} do not fit together; all must "
                f"have {n} voxels, like the first, but the last one may have {o + 1} or more"
            )
    tiling = _tiling(triple(shape), triple(sizes), triple(shared), what)
    labels = _put_together(joined.node, tiling, stitch, threshold, dtype, what)
    return like.derive(labels)


def _joined(blocks: Any, depth: int, like: Volume, what: str) -> tuple[Volume, list[list[int]]]:
    """Join blocks without overlap; also return the extents of blocks along each axis."""
    if not isinstance(blocks, list | tuple):
        block = one_channel(as_volume(blocks))
        check_labels(block.dtype, what)
        if depth != len(block.space.axes) or block.axes != like.axes:
            raise ValueError(
                f"{what}: a block with the axes {' '.join(block.axes)} in lists of depth {depth}; lists must "
                "be nested as deep as blocks have axes, and all must have the same axes"
            )
        return block, [[n] for n in block.grid_shape]
    axes = like.space.visible
    if depth >= len(axes):
        raise ValueError(
            f"{what}: lists are nested deeper than the {len(axes)} axes of the blocks; give one list for each"
        )
    if not blocks:
        raise ValueError(f"{what}: an empty list of blocks; give one or more")
    parts = [_joined(b, depth + 1, like, what) for b in blocks]
    axis = axes[depth]
    extents = [e for _, e in parts]
    for e in extents[1:]:
        if any(e[a] != extents[0][a] for a in range(3) if a != axis):
            raise ValueError(
                f"{what}: adjacent blocks along {'zyx'[axis]} differ along another axis: "
                f"{extents[0]} and {e}; blocks must form a grid"
            )
    own = [list(e) for e in extents[0]]
    own[axis] = [n for e in extents for n in e[axis]]
    wide = np.result_type(*(v.dtype for v, _ in parts))
    if wide.kind not in "bui":
        wide = np.dtype(np.uint64)
    volumes = [v.astype(wide).with_space(like) for v, _ in parts]
    return (volumes[0] if len(volumes) == 1 else concatenate(volumes, depth)), own


def _tiling(shape: Triple, tile: Triple, overlap: Triple, what: str) -> Tiling:
    for axis, t, o in zip("zyx", tile, overlap, strict=True):
        if 2 * o > t:
            raise ValueError(
                f"{what}: overlap={o} along {axis} is more than half a tile of {t}; use tile={2 * o} or more "
                "there"
            )
    if 0 in shape:
        tile = shape  # the function is not called for an empty volume
    tile = triple([max(1, min(t, n)) for t, n in zip(tile, shape, strict=True)])
    overlap = triple([o if t < n else 0 for o, t, n in zip(overlap, tile, shape, strict=True)])
    return Tiling(shape, tile, overlap)


def _put_together(
    found: Node, tiling: Tiling, rule: str, threshold: float, dtype: Any, what: str
) -> Node:
    """Return the node of stitched labels from the labels of all tiles without overlap."""
    if rule not in RULES:
        raise ValueError(f"{what}: stitch={rule!r}; use one of {', '.join(map(repr, RULES))}")
    if not par.is_number(threshold) or not 0 < threshold <= 1:
        raise ValueError(f"{what}: threshold={threshold!r}: give a number above 0 and up to 1")
    wanted = np.dtype(dtype) if dtype is not None else None
    if wanted is None:
        small = math.prod(tiling.shape) < _UINT32_VOXELS
        wanted = np.dtype(np.uint32 if small else np.uint64)
    if wanted.kind not in "iu":
        raise TypeError(f"{what}: dtype={dtype!r}: labels must be integers")
    if found.dtype.kind == "b":
        raise TypeError(f"{what}: blocks have dtype bool; label them first")
    owned = _chosen(found, tiling, what, None)
    covered = [_chosen(found, tiling, what, p) for p in tiling.parities] if tiling.doubled else []
    survey = FragmentSurvey(what, tiling, rule, float(threshold), wanted)
    barrier = Barrier.of(survey, (owned, *covered))
    return AcrossNode.of(barrier, Stitch(what, wanted, tiling), (owned,))


def _chosen(found: Node, tiling: Tiling, what: str, parity: Triple | None) -> Node:
    """Select the labels of each voxel's own tile, or of the tiles with a parity."""
    if not math.prod(tiling.shape):
        return found
    along: list[Along] = []
    for k, axis in enumerate(tiling.axes):
        if parity is None or k not in tiling.doubled:
            along.append(Owned(axis.tiled_extent, axis=axis))
        else:
            along.append(Covered(axis.tiled_extent, axis=axis, odd=parity[k]))
    z, y, x = along
    stage = Axes(f"{what} tiles", found.dtype, tiling.tiled_shape, tiling.shape, (z, y, x), 0)
    return StageNode.of(stage, (found,))
