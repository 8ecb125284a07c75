"""No key of a merge has more than its share, however many slabs there are: 100,000, without voxels."""

import numpy as np
import pytest

from beam_volumes.across.components import Interface, SlabSummary
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import group_by_key, run
from beam_volumes.across.rounds.scans import scan_flow
from beam_volumes.base.geometry import Grid
from beam_volumes.transforms.passes import slab_ranges
from beam_volumes.transforms.rounds import MAX_PIECE, pieces
from tests.tiers import thorough

#: Slabs of 16 x 256 x 256, and few or many of them.
FEW, MANY = Grid((160, 2560, 2560), (16, 256, 256)), Grid((320, 10240, 10240), (16, 256, 256))
NO_IDS, NOTHING = np.empty(0, np.uint64), np.empty(0, np.int64)


def nothing_found(grid, index):
    """What a slab without components leaves: it has faces all the same."""
    cell, faces = grid.cell(index), {}
    for axis in range(3):
        upper = tuple(c + (a == axis) for a, c in enumerate(cell))
        here = [cell] * (cell[axis] > 0) + [upper] * (upper[axis] < grid.counts[axis])
        faces |= {(axis, *above): Interface(NOTHING, 0) for above in here}
    return SlabSummary(cell, NO_IDS, {}, faces, (), ())


def components(grid):
    return component_flow(grid), ((((k,)), nothing_found(grid, k)) for k in range(len(grid)))


def scans(grid):
    flow = scan_flow(grid, lambda a, b: a + b, itemsize=8, forward=True, backward=False, radix=16)
    return flow, (((k,), (None, 1, 1)) for k in range(len(grid)))


@pytest.mark.parametrize("made", [components, scans])
@pytest.mark.parametrize("grid", [FEW, pytest.param(MANY, marks=thorough)], ids=["1000", "32000"])
def test_no_key_has_more_than_its_share(made, grid):
    flow, given = made(grid)
    most = []

    def group(pairs):
        groups = list(group_by_key(pairs))
        most.append(max((len(values) for _, values in groups), default=0))
        largest = max((values for _, values in groups), key=len, default=[])
        assert all(len(piece) < MAX_PIECE + 100 for value in largest for piece in pieces(value))
        return groups

    out = run(flow, given, group)
    assert len(out["answers"]) == len(grid)
    # A node of a tree has so many children: a key does not get more where there are more slabs.
    assert max(most) <= 64, most
    # Nor does the job, which contains ranges of slabs.
    assert len(slab_ranges(len(grid))) <= 1000
