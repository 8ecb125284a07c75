"""The branches of skeletons, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, one_channel
from beam_volumes.kernels.labels import skeletons as kernels
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.labels.components import label
from beam_volumes.ops.labels.regions import region_table, with_operands
from beam_volumes.ops.labels.surveys.branches import Branches, steps
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.tables import extremes_of_labels
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_of
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.stage import Block, Padding

#: The fields of a 3 x 3 x 3 neighbourhood with background beyond the edges.
_AROUND = (1, 1, 1), (3, 3, 3), Padding(("constant",) * 3, 0.0)


@dataclass(frozen=True, eq=False)
class Codes(Neighbourhood):
    """The neighbours of each voxel; see `beam_volumes.kernels.labels.skeletons`."""

    cost = 8.0
    kernel = staticmethod(kernels.codes)

    def parameters(self) -> tuple[Any, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class Lengths(Neighbourhood):
    """The length of a branch at each of its voxels."""

    halves: np.ndarray

    cost = 4.0
    kernel = staticmethod(kernels.lengths)

    def parameters(self) -> tuple[Any, ...]:
        return (self.halves,)


@dataclass(frozen=True, eq=False)
class Ends(Neighbourhood):
    """The positions of ends of branches, and of junctions."""

    shape: Triple
    last: bool

    shift_invariant = False
    cost = 4.0
    kernel = staticmethod(kernels.ends)

    def parameters(self) -> tuple[Any, ...]:
        return self.shape, self.last

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return inputs[0], out, y0, y1, out.cols, out.start, *self.parameters()


@documented
def skeleton_table(
    skeleton: Volume,
    distances: Volume | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = "raise",
) -> Table:
    """Measure every branch of a skeleton: its length, its ends, and the junctions that it joins.

    Use it to count and measure the segments of vessels, neurites and fibres, or as a graph with
    junctions as nodes and branches as edges.

    Parameters
    ----------
    skeleton : Volume or numpy.ndarray
        Lines that are one voxel wide, such as the result of `skeletonize`: a mask, or integer
        labels with a different label for each object. 0 is background.
    distances : Volume or numpy.ndarray, optional
        A volume of the same shape, for the column ``radius_mean``. `distance_transform_edt` of the
        mask before thinning contains the radius at each voxel.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite distances raise an error on computation or are ignored.

    Returns
    -------
    Table
        A lazy table with a row for each branch, in the raster order of their first voxels:

        - ``label``: the number of the branch: 1, 2, ...
        - ``skeleton``: the label of its object. The components of a mask are numbered as by
          `label`.
        - ``branch_type``: 0 between two free ends, 1 between a free end and a junction, 2 between
          two junctions, and 3 for a closed loop without junctions. The numbers are skan's.
        - ``num_pixels``: its voxels, without junction voxels.
        - ``length``: the sum of the Euclidean steps from end to end.
        - ``distance``: the Euclidean distance between both ends.
        - ``tortuosity``: the length divided by the distance; inf for loops, NaN for single voxels.
        - ``start-0``, ... and ``end-0``, ...: both ends, in voxels. The start precedes the end in
          raster order. For closed loops, both are the first voxel.
        - ``junction_start`` and ``junction_end``: the junction at each end, 1, 2, ...; 0 for a free
          end.
        - ``radius_mean``: the mean of ``distances`` at its voxels, without junction voxels.

    Raises
    ------
    ValueError
        If shapes differ or a parameter is out of range. On computation, if the label of a branch
        is negative, a distance is NaN or infinite and ``nan="raise"``, or the branches need more
        memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    skeletonize : thins objects to lines.
    regionprops_table : measures whole objects.

    Notes
    -----
    Neighbours are voxels of one label that share a face, an edge or a corner. A voxel with more
    than two neighbours belongs to a junction, and neighbouring voxels of junctions are one
    junction. Branches are the components of the remaining voxels.

    A branch ends at the junction voxel that it touches, or at its own last voxel. Its length
    includes the step to that junction voxel, but no steps between voxels of a junction. Two
    junctions that touch are therefore one junction, without a branch. Where lines are wider than
    one voxel, most voxels belong to junctions.

    Two sweeps, with a halo of two voxels: the first numbers branches and junctions, and the second
    measures them. Memory grows with the branches of one slab, about 1 kB each. Branches of all slabs
    are then combined in groups of up to a million, about 700 bytes each. With less memory there are
    more groups.

    References
    ----------
    `skan.summarize`, which divides junctions of several voxels into branches of one step; J. Nunez-
    Iglesias et al., "A new Python library to analyse skeleton images confirms malaria parasite
    remodelling of the red blood cell membrane skeleton", PeerJ 6 (2018).

    Examples
    --------
    >>> lines = np.zeros((5, 7), bool)
    >>> lines[2, :4] = lines[1, 4] = lines[0, 5] = lines[3, 4] = lines[4, 5] = True
    >>> table = bv.skeleton_table(lines)
    >>> np.stack([table["start-0"], table["start-1"], table["end-0"], table["end-1"]], axis=1)
    array([[0, 5, 2, 3],
           [2, 0, 2, 3],
           [2, 3, 4, 5]])
    >>> table["length"].round(2), table["junction_end"]
    (array([2.83, 3.  , 2.83]), array([1, 1, 0], dtype=uint64))
    """
    name = "skeleton_table"
    distances = None if distances is None else one_channel(distances)
    labels, operands = with_operands(skeleton, distances, name, "distances")
    check_labels(labels.dtype, name)
    sizes = par.voxel_sizes(labels, spacing, "spacing", name)
    visible, shape = labels.space.visible, labels.node.shape
    is_mask = labels.dtype.kind == "b"

    codes = stage_of(labels, Codes(name, np.dtype(np.uint32), *_AROUND))
    lengths = stage_of(codes, Lengths(name, np.dtype(np.float64), *_AROUND, steps(sizes) / 2))
    firsts, lasts = (
        stage_of(codes, Ends(name, np.dtype(np.int64), *_AROUND, shape, last))
        for last in (False, True)
    )
    in_junction = codes >= np.uint32(1 << kernels.JUNCTION)
    in_branch = (codes != np.uint32(0)) & ~in_junction

    def numbered(part: Volume) -> Volume:
        if is_mask:
            return label(part, len(visible))
        return label(where(part, labels, labels.dtype.type(0)), len(visible), by_value=True)

    branches, junctions = numbered(in_branch), numbered(in_junction)
    objects = label(labels, len(visible)) if is_mask else labels
    places = where(in_junction, lasts, np.int64(0))
    tables = [
        region_table(branches, lengths, ["num_pixels", "intensity_sum"], None, "raise", name),
        extremes_of_labels(branches, firsts, "intensity_min"),
        extremes_of_labels(branches, lasts, "intensity_max"),
        extremes_of_labels(branches, objects, "intensity_max"),
    ]
    if distances is not None:
        zero = distances.dtype.type(0)
        of_branches = where(in_branch, operands[1], zero)  # NaN elsewhere is fine
        tables.append(region_table(branches, of_branches, ["intensity_mean"], None, nan, name))
    tables.append(extremes_of_labels(places, junctions, "intensity_max"))
    step = Branches(
        name,
        tuple(shape[a] for a in visible),
        tuple(sizes[a] for a in visible),
        distances is not None,
    )
    return Table(then(step, tables, name))
