"""-0.0 comes before 0.0 in every kernel of ranks, and from every start."""

import numpy as np
import pytest
import scipy.ndimage as ndi

from beam_volumes.kernels.filters.columns import columns_of, extremum_of_columns
from beam_volumes.kernels.filters.extremum import extremum_box, extremum_footprint
from beam_volumes.kernels.filters.median import median3
from beam_volumes.kernels.filters.rank import rank_footprint
from beam_volumes.kernels.filters.rank_walk import rank_walk
from beam_volumes.kernels.geometry.downsample import pick
from beam_volumes.kernels.rows import rows_of
from tests.kernels.rings import apply, ball, centre, with_scratch

#: In the order in which filters take them.
VALUES = [-1.0, -0.0, 0.0, 1.0]
CUBE, BOX, CROSS, BALL = np.ones((3, 3, 3)), np.ones((2, 5, 9)), ball(1), ball(2)
#: By name: the kernel, the footprint, the kernel's parameters, the rank.
KERNELS = {
    "median": (median3, CUBE, (), 13),
    "footprint rank": (rank_footprint, BALL, (np.argwhere(BALL), 14), 14),
    "walk": (rank_walk, BOX, (2, 5, 9, 40), 40),
    "box minimum": (extremum_box, BOX, (2, 5, 9, False), 0),
    "box maximum": (extremum_box, BOX, (2, 5, 9, True), -1),
    "few taps minimum": (extremum_footprint, CROSS, (np.argwhere(CROSS), False), 0),
    "few taps maximum": (extremum_footprint, CROSS, (np.argwhere(CROSS), True), -1),
    "footprint minimum": (extremum_footprint, BALL, (np.argwhere(BALL), False), 0),
    "footprint maximum": (extremum_footprint, BALL, (np.argwhere(BALL), True), -1),
    "columns minimum": (
        extremum_of_columns, BALL, (*columns_of(np.argwhere(BALL), 5), 5, 5, False), 0
    ),
    "columns maximum": (
        extremum_of_columns, BALL, (*columns_of(np.argwhere(BALL), 5), 5, 5, True), -1
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", KERNELS)
def test_zeros_are_ordered(name, dtype):
    """Bit by bit, also in windows of little else, and next to NaNs."""
    kernel, footprint, parameters, rank = KERNELS[name]
    rng = np.random.default_rng(5)
    for shares in ([0.1, 0.4, 0.4, 0.1], [0, 0.9, 0.1, 0], [0, 0.1, 0.9, 0], [0.45, 0.1, 0, 0.45]):
        places = rng.choice(4, (6, 40, 37), p=shares)
        expected = np.array(VALUES, dtype)[ndi.rank_filter(places, rank, footprint=footprint)]
        volume = np.array(VALUES, dtype)[places]
        shape = footprint.shape
        assert apply(kernel, volume, centre(shape), shape, *parameters).tobytes() == (
            expected.tobytes()
        )
        holes = rng.random(volume.shape) < 0.002
        volume[holes] = np.nan
        reached = ndi.maximum_filter(holes, footprint=footprint)
        expected[reached] = np.nan
        assert apply(kernel, volume, centre(shape), shape, *parameters).tobytes() == (
            expected.tobytes()
        )


@pytest.mark.parametrize("method", range(4))
def test_downsampling_orders_zeros(method):
    places = np.random.default_rng(6).choice(4, (4, 6, 40), p=[0.1, 0.4, 0.4, 0.1])
    volume = np.array(VALUES, np.float32)[places]
    out = np.empty((2, 3, 20), np.float32)
    src, to = rows_of(volume, np.arange(4), 0, 0), rows_of(out, np.arange(2), 0, 0)
    call = src, to, 0, 3, 20, 6, 40, np.full(3, 2), method
    pick(*with_scratch(pick, call))
    windows = places.reshape(2, 2, 3, 2, 20, 2).transpose(0, 2, 4, 1, 3, 5).reshape(-1, 8)
    windows.sort(axis=1)
    if method < 3:
        taken = windows[:, (0, 7, 3)[method]]
    else:  # the most frequent value, the smallest of several; both zeros are one
        counts = np.stack(
            [(windows == 0).sum(1), np.isin(windows, (1, 2)).sum(1), (windows == 3).sum(1)]
        )
        has_minus = (windows == 1).any(1)
        taken = np.where(has_minus, [[0], [1], [3]], [[0], [2], [3]])[
            counts.argmax(0), np.arange(len(windows))
        ]
    assert out.tobytes() == np.array(VALUES, np.float32)[taken].tobytes()
