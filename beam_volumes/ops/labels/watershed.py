"""Basins of heights or affinities: the minimum spanning forest of voxels under a total order."""

from __future__ import annotations

import math

import numpy as np

from beam_volumes.across.rounds.agglomeration import Agglomeration, Marking
from beam_volumes.across.tables import EXTREMES
from beam_volumes.graph.nodes import AcrossNode, Barrier, Node, StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.agglomerate import cut
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.component_surveys import EdgeSurvey, RelabelEdges
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey
from beam_volumes.ops.labels.surveys.watershed_stages import ByAffinity, ByHeight, Codes, HighCodes
from beam_volumes.ops.labels.tables import (
    check_affinities,
    extremes_of_labels,
    region_adjacency,
    regionprops_table,
)
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel, kernel_input
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.survey import VOXELS_PER_LABEL

_BYTE = np.dtype(np.uint8)
#: Basins of a network's affinities, as they are, had 14 voxels.
_BASIN_OF_AFFINITIES = 16


@documented
def watershed(
    height: Volume,
    markers: Volume | None = None,
    mask: Volume | None = None,
    *,
    connectivity: int = 1,
) -> Volume:
    """Divide a volume into the basins that water would gather in.

    Parameters
    ----------
    height : Volume or numpy.ndarray
        Heights, e.g. probabilities of membranes; they may be infinite. No NaN, except where ``mask``
        leaves it out.
    markers : Volume or numpy.ndarray, optional
        Labels from which the basins grow, 0 elsewhere; they may be negative. Without it there is a basin
        for each minimum.
    mask : Volume or numpy.ndarray, optional
        Voxels that are divided, where it is not 0; the result is 0 elsewhere.
    connectivity : {1}, default: 1
        Voxels are neighbours that share a face; no other value is possible.

    Returns
    -------
    Volume
        Without markers labels 1, 2, ... in the raster order of the basins' first voxels, uint32 (uint64
        for volumes of 2**32 voxels and more). With markers their labels, of their dtype; 0 where no
        marker is connected.

    Raises
    ------
    ValueError
        If shapes differ or ``connectivity`` is not 1; when it is computed, if a height is NaN, or
        the basins take more memory than is left.
    TypeError
        If an input is neither a volume nor an array, or of another dtype; with markers, if heights
        are integers of 64 bits.

    See Also
    --------
    watershed_affinities : of affinities between voxels.
    agglomerate : merges basins.

    Notes
    -----
    Each voxel follows its lowest neighbour, if that is not higher; of equally low ones the first of those
    before it along z, y, x and after it along x, y, z. The voxels that come to one end are a basin.
    This is the order of edges by height and then by linear index. A flat part may be divided, by
    that order and not by distance: smooth such heights, or give markers.

    With markers, a voxel of a marker follows nothing, and basins without a marker join the one
    across their lowest pass until all have one. The height of a pass is that of the higher one of two
    neighbours; among passes of one height the order is that of labels in `agglomerate`.

    There is one result, however the volume is cut. It is not that of `skimage.segmentation.watershed`,
    which floods from a queue: without equal heights the two may differ where floods meet alone.

    Two sweeps for the basins, three with markers. Basins are merged as
    components of `label` are. With markers all basins meet in one worker, of about 100 bytes each;
    one without room for them refuses them.

    References
    ----------
    `skimage.segmentation.watershed`; Cousty, Bertrand, Najman and Couprie, "Watershed cuts: minimum
    spanning forests and the drop of water principle", IEEE TPAMI 31 (2009).

    Examples
    --------
    >>> height = np.array([[1, 2, 5, 3, 0, 4, 7, 6]], "u1")
    >>> np.asarray(bv.watershed(height))
    array([[1, 1, 1, 2, 2, 2, 2, 3]], dtype=uint32)
    >>> markers = np.array([[4, 0, 0, 0, 0, 0, 0, 9]], "u2")
    >>> np.asarray(bv.watershed(height, markers))
    array([[4, 4, 4, 4, 4, 4, 4, 9]], dtype=uint16)
    """
    name = "watershed"
    height = one_channel(as_volume(height))
    if connectivity != 1 or isinstance(connectivity, bool):
        raise ValueError(
            f"{name}: connectivity={connectivity!r}: basins are connected across faces alone, which is 1"
        )
    if height.dtype.kind not in "buif" or height.dtype.itemsize > 8:
        raise TypeError(
            f"{name}: heights of {height.dtype}: use bool, integers or floats to 64 bit"
        )
    roles: Volume | None = None
    volumes = [height]
    marked = None
    if markers is not None:
        marked = one_channel(as_volume(markers))
        if marked.dtype.kind not in "bui":
            raise TypeError(f"{name}: markers of {marked.dtype}: use bool or integers")
        if height.dtype.kind in "ui" and height.dtype.itemsize == 8:
            raise TypeError(
                f"{name}: heights of {height.dtype} with markers: passes are compared as float64; cast the "
                "heights with astype first"
            )
        roles = where(marked != 0, np.uint8(2), np.uint8(1))
        volumes.append(marked)
    if mask is not None:
        inside = one_channel(as_volume(mask))
        roles = where(inside != 0, np.uint8(1) if roles is None else roles, np.uint8(0))
        volumes.append(inside)
    for v in volumes[1:]:
        if v.shape != height.shape or v.axes != height.axes:
            raise ValueError(
                f"{name}: heights of shape {height.shape} ({' '.join(height.axes)}) and markers or mask of "
                f"shape {v.shape} ({' '.join(v.axes)}) do not match; crop them to one shape first"
            )
    space = shared_space(name, *volumes)
    heights = kernel_input(_as_integers(height))
    divided = Volume(basins_of(name, heights, roles, marked, "leave them out by mask=, or "), space)
    if marked is None:
        return divided
    basins = divided.node
    each = voxels_per_label(basins)
    passes = AdjacencySurvey(name, heights.dtype, "max", 0, None, EXTREMES, voxels_per_label=each)
    edges = Table(Barrier.of(passes, (basins, heights.node)))
    ends = "intensity_min", "intensity_max"
    marks = extremes_of_labels(divided, _as_integers(marked), *ends)
    step = Agglomeration(name, "lowest", 0.5, -math.inf, 1, True, ("label", *ends), marks=True)
    merges = Table(then(step, [edges, marks], name))
    dtype = marks.columns["intensity_max"]
    marking = Marking(name, dtype, ("label", *ends))
    table = Table(then(marking, [merges, marks], name))
    return relabel(divided, table, dtype=marked.dtype)


@documented
def watershed_affinities(
    affinities: Volume,
    low: float,
    high: float | None = None,
    *,
    min_size: int | None = None,
) -> Volume:
    """Divide a volume into basins of the affinities between its voxels.

    Parameters
    ----------
    affinities : Volume or numpy.ndarray
        Three channels (axis c before z, y, x): of each voxel how much it belongs together with the
        one before it along z, y and x. Numbers of at most 32 bits; NaN is no affinity.
    low : float
        Voxels of an affinity below that are not joined. A voxel without any other becomes 0.
    high : float, optional
        Voxels of at least that affinity are joined in any case.
    min_size : int, optional
        Basins of fewer voxels join a neighbour, pairs of the largest affinity first, as long as one
        of the two is smaller than that.

    Returns
    -------
    Volume
        Labels, uint32 (uint64 for volumes of 2**32 voxels and more): 1, 2, ... in the raster order of
        the basins' first voxels; with ``min_size`` those that remain, each the largest of what it
        is of.

    Raises
    ------
    ValueError
        If a parameter is out of its range, or there are not three channels; when it is computed,
        if the basins take more memory than is left.
    TypeError
        If ``affinities`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    watershed : of heights.
    region_adjacency, agglomerate : merge basins by all affinities between them.

    Notes
    -----
    Each voxel follows its edge of the largest affinity; of equal ones the first by the upper voxel
    in raster order, then by axis. The voxels that come to one end are a basin. There is one result,
    however the volume is cut: the forest is that of a total order.

    Two sweeps for the basins, three with ``min_size``. Basins are merged as components of `label`
    are; with ``min_size`` they are then merged in the tree of `agglomerate`.

    References
    ----------
    Zlateski and Seung, "Image segmentation by size-dependent single linkage clustering of a
    watershed basin graph", arXiv:1505.00249.

    Examples
    --------
    >>> across_x = np.array([[[0, 9, 8, 2, 7]]], "u1")
    >>> affinities = np.stack([np.zeros_like(across_x), np.zeros_like(across_x), across_x])
    >>> np.asarray(bv.watershed_affinities(affinities, low=3))[0, 0]
    array([1, 1, 1, 2, 2], dtype=uint32)
    """
    name = "watershed_affinities"
    affinities = as_volume(affinities)
    check_affinities(affinities, name)
    for what, number in (("low", low), ("high", high)):
        if number is not None and (not par.is_number(number) or math.isnan(number)):
            raise ValueError(f"{name}: {what}={number!r}: give a number")
    if high is not None and high < low:
        raise ValueError(f"{name}: high={high!r} is less than low={low!r}")
    if min_size is not None:
        min_size = par.whole_number(min_size, "min_size", name)
    edges = kernel_input(affinities)
    nodes = edges.nodes
    choices = StageNode.of(ByAffinity(f"{name} ascent", _BYTE, nodes[0].shape, float(low)), nodes)
    if high is None:
        codes = StageNode.of(Codes(f"{name} links", _BYTE), (choices,))
    else:
        codes = StageNode.of(HighCodes(f"{name} links", _BYTE, float(high)), (choices, *nodes))
    basins = Volume(_basins(name, codes, _BASIN_OF_AFFINITIES), first_channel(affinities).space)
    if min_size is None:
        return basins
    graph = region_adjacency(basins, affinities=edges, nan="omit")
    sizes = regionprops_table(basins, properties=["num_pixels"])
    step = Agglomeration(name, "max", 0.5, float(low), None, True, min_size=min_size)
    merges = Table(then(step, [graph, sizes], name))
    return relabel(basins, cut(merges), missing="keep", dtype=basins.dtype)


def basins_of(
    name: str,
    heights: Volume,
    roles: Volume | None = None,
    marked: Volume | None = None,
    remedy: str = "",
) -> Node:
    """Return the node of the basins of heights; by default every voxel is free.

    ``remedy`` is what the caller can do about NaN, in addition to replacing it.
    """
    if roles is None:
        roles = ((heights == heights) | True).astype(np.uint8)
    way = ByHeight(f"{name} descent", _BYTE, heights.node.shape, remedy)
    choices = StageNode.of(way, (heights.node, roles.node))
    beside = () if marked is None else (_as_integers(marked).node,)
    return _basins(name, StageNode.of(Codes(f"{name} links", _BYTE), (choices, *beside)))


def _as_integers(volume: Volume) -> Volume:
    return volume.astype(np.uint8) if volume.dtype.kind == "b" else volume


def _basins(name: str, codes: Node, voxels: int = VOXELS_PER_LABEL) -> Node:
    """Return the node of labels of components whose edges codes tell, which may well have so many voxels."""
    dtype = np.dtype(np.uint32 if math.prod(codes.shape) < 1 << 32 else np.uint64)
    barrier = Barrier.of(EdgeSurvey.of(name, dtype), (codes,))
    return AcrossNode.of(barrier, RelabelEdges.of(name, dtype, voxels), (codes,))
