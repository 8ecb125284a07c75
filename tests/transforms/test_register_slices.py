"""Blocks of slices as elements: the table of `register_slices`, to the bit."""

import apache_beam as beam
import numpy as np
import pytest
import scipy.ndimage as ndi
import tensorstore as ts
from apache_beam.testing.util import assert_that

import beam_volumes as bv
from tests.transforms.trees import stored


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """40 sections with jitter, a missing one, noise and a black border, in chunks of 3 slices."""
    rng = np.random.default_rng(0)
    world = ndi.gaussian_filter(rng.normal(size=(40, 100, 110)), (1.5, 2, 2))
    planes = [ndi.shift(p, rng.uniform(-3, 3, 2), order=1)[8:-8, 8:-9] for p in world]
    planes = 100 + 500 * np.stack(planes)
    planes += rng.normal(size=planes.shape)
    planes[17] = 0
    planes[:, :, :5] = 0
    how = {"voxel_size": (40, 4, 4), "unit": "nm"}
    volume = bv.open(planes.clip(0, 255).astype("u1"), **how)
    return stored(tmp_path_factory.mktemp("stack"), volume, chunks=(3, 32, 32))


@pytest.fixture(scope="module")
def mask(stack, tmp_path_factory):
    mask = np.ones(stack.shape, bool)
    mask[:, 40:50, 60:] = False
    mask[30] = False
    return stored(tmp_path_factory.mktemp("mask"), mask, chunks=(7, 40, 93))


def cases(mask):
    prior = np.column_stack([np.arange(40) * 0.1, np.zeros(40)])
    return {
        "default": {},
        "rigid": {"model": "rigid", "neighbours": 2, "trend": 5.0, "prior": prior, "reference": 3},
        "mask": {"mask": mask, "nodata": 0, "max_side": 48, "skip": [2, 16], "trend": "remove"},
        "affine": {"model": "affine", "max_shift": 10, "min_quality": 0.5, "max_side": 48},
        "keypoints": {"model": "rigid", "method": "keypoints", "neighbours": 1},
        "far": {"neighbours": 25, "nodata": 0, "max_side": 30},
    }


@pytest.mark.parametrize("name", cases(None))
def test_a_runner_gives_the_same_table(stack, mask, name):
    how = cases(mask)[name]
    expected = bv.register_slices(stack, **how)
    step = bv.RegisterSlices(stack, **how)
    assert step.slices.blocks == [(0, 18), (18, 36), (36, 40)]

    def same(found):
        (table,) = found
        assert table.to_pyarrow().equals(expected.to_pyarrow())

    with beam.Pipeline("FnApiRunner") as p:
        before = p | beam.Create([1])
        assert_that(before | step, same)


def test_blocks_do_not_change_links(stack):
    slices = bv.RegisterSlices(stack, max_side=48, neighbours=3).slices
    whole = slices.links((0, 40))
    assert 90 < len(whole) <= 3 * 40 - 6
    parts = [link for k in range(0, 40, 7) for link in slices.links((k, min(k + 7, 40))).items()]
    assert len(parts) == len(whole)
    table = slices.pairs.solved(dict(reversed(parts)))
    assert table.to_pyarrow().equals(slices.pairs.solved(whole).to_pyarrow())


@pytest.mark.parametrize(
    ("shape", "chunks", "depth"),
    [
        ((70, 64, 64), (32, 64, 64), 32),
        ((70, 64, 64), (5, 64, 64), 20),
        ((70, 4096, 4096), (1, 1024, 1024), 16),
        ((70, 4096, 4096), (64, 1024, 1024), 16),
        ((70, 8192, 8192), (1, 1024, 1024), 4),
    ],
)
def test_blocks_are_whole_chunks_unless_these_are_large(tmp_path, shape, chunks, depth):
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/empty.zarr"}
    layout = ts.ChunkLayout(chunk_shape=chunks)
    ts.open(spec, create=True, dtype=ts.uint8, shape=shape, chunk_layout=layout).result()
    volume = bv.open(str(tmp_path / "empty.zarr"))
    assert volume.chunks == chunks
    blocks = bv.RegisterSlices(volume, max_side=8192).slices.blocks
    assert blocks[0] == (0, depth) and blocks[-1][1] == 70


def test_slices_that_workers_cannot_read_are_refused(stack):
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.RegisterSlices(np.zeros((3, 400, 400)))
    with pytest.raises(ValueError, match="RegisterSlices: skip=40 is not a number from 0 to 39"):
        bv.RegisterSlices(stack, skip=[40])


def test_slices_without_common_keypoints_are_refused(tmp_path):
    noise = np.random.default_rng(1).normal(size=(3, 24, 24)).astype("f4")
    step = bv.RegisterSlices(stored(tmp_path, noise), model="rigid", method="keypoints")
    p = beam.Pipeline("FnApiRunner")
    _ = p | step
    with pytest.raises(Exception, match="no two images share enough keypoints"):
        p.run()
