"""Basins of heights or affinities: the minimum spanning forest of voxels by a total order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beam_volumes.across.agglomeration import Linkage, Needed
from beam_volumes.across.rounds.agglomeration import Agglomeration
from beam_volumes.across.rounds.cutting import Marking
from beam_volumes.across.tables import EXTREMES
from beam_volumes.graph.nodes import AcrossNode, Barrier, Node, StageNode
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.agglomerate import cut, with_needed
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
from beam_volumes.ops.morphology.basic import grey_erosion
from beam_volumes.ops.morphology.footprints import cross
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel, kernel_input
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.survey import VOXELS_PER_LABEL

_BYTE = np.dtype(np.uint8)
#: Expected voxels per basin for affinities of a network; 14 were measured without smoothing.
_BASIN_OF_AFFINITIES = 16


@documented
def watershed(
    height: Volume,
    markers: Volume | None = None,
    mask: Volume | None = None,
    *,
    connectivity: int = 1,
    watershed_line: bool = False,
) -> Volume:
    """Divide a volume into watershed basins.

    Parameters
    ----------
    height : Volume or numpy.ndarray
        Heights, such as membrane probabilities, which may be infinite. NaN is only allowed outside
        of ``mask``.
    markers : Volume or numpy.ndarray, optional
        Labels from which basins grow, and 0 elsewhere. Labels may be negative. Without markers,
        there is a basin for each minimum.
    mask : Volume or numpy.ndarray, optional
        Only voxels with a nonzero mask are divided; the result is 0 elsewhere.
    connectivity : {1}, default: 1
        Must be 1: voxels that share a face are neighbours.
    watershed_line : bool, default: False
        Whether to separate basins with voxels of value 0. A voxel becomes 0 if it shares a face
        with a basin with a smaller label.

    Returns
    -------
    Volume
        Without markers, labels 1, 2, ... in the raster order of the basins' first voxels, as uint32
        (uint64 for volumes of 2**32 or more voxels). With markers, their labels in their dtype, and
        0 where no marker is connected.

    Raises
    ------
    ValueError
        If shapes differ or ``connectivity`` is not 1. On computation, if a height is NaN, or the
        basins need more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype; with markers, if
        heights are integers of 64 bits.

    See Also
    --------
    watershed_affinities : uses affinities between voxels.
    agglomerate : merges basins.

    Notes
    -----
    Each voxel follows its lowest neighbour, unless this is higher than the voxel. Among equal
    neighbours, the previous ones along z, y, x have priority, then the next ones along x, y, z. All
    voxels with the same end form a basin. This choice orders edges by height, then by linear index.
    Flat regions are divided by this order, not by distance: smooth such heights, or use markers.

    With markers, voxels of a marker do not follow a neighbour. Basins without a marker join the
    basin across their lowest pass, until all have a marker. The height of a pass is the higher of
    two neighbours; equal passes are ordered by labels as in `agglomerate`.

    The result is unique and independent of slabs. The result differs from
    `skimage.segmentation.watershed`, which floods from a queue. If no heights are equal, the
    results can only differ where floods meet.

    Two sweeps for the basins, or three with markers. Basins are merged like components in `label`.
    With markers, they are then merged as in `agglomerate`, and marked as in `cut`.

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
    >>> np.asarray(bv.watershed(height, watershed_line=True))
    array([[1, 1, 1, 0, 2, 2, 2, 0]], dtype=uint32)
    """
    basins = _divided(height, markers, mask, connectivity)
    if not watershed_line or basins.dtype == bool:
        return basins
    highest = basins.dtype.type(np.iinfo(basins.dtype).max)
    near = cross(1, len(basins.space.axes))
    around = grey_erosion(where(basins == 0, highest, basins), footprint=near)
    return where(around < basins, basins.dtype.type(0), basins)


def _divided(height: Any, markers: Any, mask: Any, connectivity: Any) -> Volume:
    name = "watershed"
    height = one_channel(as_volume(height))
    if connectivity != 1 or isinstance(connectivity, bool):
        raise ValueError(
            f"{name}: connectivity={connectivity!r}: only connectivity=1, across faces, is available"
        )
    if height.dtype.kind not in "buif" or height.dtype.itemsize > 8:
        raise TypeError(
            f"{name}: heights have dtype {height.dtype}; use bool, integers or floats of up to 64 "
            "bits"
        )
    roles: Volume | None = None
    volumes = [height]
    marked = None
    if markers is not None:
        marked = one_channel(as_volume(markers))
        if marked.dtype.kind not in "bui":
            raise TypeError(f"{name}: markers have dtype {marked.dtype}; use bool or integers")
        if height.dtype.kind in "ui" and height.dtype.itemsize == 8:
            raise TypeError(
                f"{name}: heights of {height.dtype} are not available with markers, because "
                "passes are compared as float64; cast the heights with astype first"
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
    needed = Needed(Linkage("lowest"), -math.inf, by_forest=True)
    edges = with_needed(Table(Barrier.of(passes, (basins, heights.node))), needed)
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
    """Divide a volume into basins according to the affinities between its voxels.

    Parameters
    ----------
    affinities : Volume or numpy.ndarray
        A volume with three channels (axes c, z, y, x), of at most 32 bits. The channels are the
        affinity of each voxel with the previous voxel along z, y and x. NaN means no affinity.
    low : float
        Voxels with a lower affinity are not joined. Voxels with only lower affinities become 0.
    high : float, optional
        Voxels with at least this affinity are always joined.
    min_size : int, optional
        Minimum number of voxels of a basin. Neighbouring basins are merged in descending order of
        their affinities, as long as one of the two is smaller than ``min_size``.

    Returns
    -------
    Volume
        Labels 1, 2, ... in the raster order of the basins' first voxels, as uint32 (uint64 for
        volumes of 2**32 or more voxels). With ``min_size``, a merged basin keeps the largest of its
        labels, so some numbers are not used.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there are not three channels. On computation, if the
        basins need more memory than is available.
    TypeError
        If ``affinities`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    watershed : uses heights.
    region_adjacency, agglomerate : merge basins by all affinities between them.

    Notes
    -----
    Each voxel follows its edge with the largest affinity. Equal edges are ordered by their upper
    voxel in raster order, then by axis. All voxels with the same end form a basin. The result is
    unique and independent of slabs, because the edges have a total order.

    Two sweeps for the basins, or three with ``min_size``. Basins are merged like components in
    `label`. With ``min_size``, they are then merged as in `agglomerate`.

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
    graph = with_needed(graph, Needed(Linkage("max"), float(low), by_forest=True))
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

    ``remedy`` is a remedy for NaN, in addition to replacing it.
    """
    if roles is None:
        roles = ((heights == heights) | True).astype(np.uint8)
    way = ByHeight(f"{name} descent", _BYTE, heights.node.shape, remedy)
    choices = StageNode.of(way, (heights.node, roles.node))
    marker_nodes = () if marked is None else (_as_integers(marked).node,)
    return _basins(name, StageNode.of(Codes(f"{name} links", _BYTE), (choices, *marker_nodes)))


def _as_integers(volume: Volume) -> Volume:
    return volume.astype(np.uint8) if volume.dtype.kind == "b" else volume


def _basins(name: str, codes: Node, voxels: int = VOXELS_PER_LABEL) -> Node:
    """Return the node of labels of components with codes; ``voxels`` are expected per component."""
    dtype = np.dtype(np.uint32 if math.prod(codes.shape) < 1 << 32 else np.uint64)
    barrier = Barrier.of(EdgeSurvey.of(name, dtype), (codes,))
    return AcrossNode.of(barrier, RelabelEdges.of(name, dtype, voxels), (codes,))
