"""Blocks of slices as elements: the table of `register_slices`, to the bit."""

import apache_beam as beam
import numpy as np
import pytest
import scipy.linalg
import scipy.ndimage as ndi
import tensorstore as ts
from apache_beam.testing.util import assert_that

import beam_volumes as bv
from beam_volumes.ops.geometry.registration.links import nearest_rotations
from beam_volumes.transforms.steps.register import _aligned, _links
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


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("skip", 5, "skip=5 is not a sequence of whole numbers"),
        ("min_quality", "high", "min_quality='high' is not a number"),
        ("min_quality", True, "min_quality=True is not a number"),
        ("max_shift", [1, 2], r"max_shift=\[1, 2\] is not a number or None"),
        ("trend", None, "trend=None is not a text or a number"),
        ("neighbors", 2, "has no parameter 'neighbors'; did you mean neighbours="),
        ("stack", None, "expected a Volume or an array, not NoneType None"),
    ],
)
def test_wrong_types_are_refused_as_by_the_function(stack, name, value, message):
    errors = []
    for function in (bv.RegisterSlices, bv.register_slices):
        with pytest.raises(TypeError, match=message) as refused:
            function(**{"stack": stack, name: value})
        errors.append(str(refused.value).replace("RegisterSlices", "register_slices"))
    assert errors[0] == errors[1]


@pytest.mark.parametrize(
    ("name", "value"), [("max_shift", "far"), ("min_quality", [0.5]), ("tiles", None)]
)
def test_wrong_types_of_tiles_are_refused(stack, name, value):
    given = {"tiles": [stack, stack], "positions": [(0, 0, 0), (0, 0, 60)], name: value}
    with pytest.raises(TypeError, match=f"RegisterTiles: {name}=.* is not a"):
        bv.RegisterTiles(**given)


def test_slices_to_skip_are_read_once(stack):
    assert bv.RegisterSlices(stack, skip=iter([2, 16])).slices.pairs.skipped == {2, 16}
    first = stack[:5]
    expected = bv.register_slices(first, skip=[2, 4], max_side=48).to_pyarrow()
    found = bv.register_slices(first, skip=(k for k in (2, 4)), max_side=48).to_pyarrow()
    assert found.equals(expected) and found["links"].to_pylist()[2] == 0


def test_blocks_that_are_too_large_for_a_worker_are_refused(tmp_path):
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/empty.zarr"}
    ts.open(spec, create=True, dtype=ts.float32, shape=(400, 2048, 2048)).result()
    volume = bv.open(str(tmp_path / "empty.zarr"))
    bv.RegisterSlices(volume, max_side=2048, neighbours=48)
    message = r"hold 65 downsampled slices, 1\.0 GiB.*smaller neighbours= \(now 49\) or max_side="
    with pytest.raises(ValueError, match=message):
        bv.RegisterSlices(volume, max_side=2048, neighbours=49)
    bv.RegisterSlices(volume, max_side=1024, neighbours=49)


def test_repeated_elements_and_waiting_for_none_give_one_table(stack, tmp_path):
    def save(table, name):
        with open(tmp_path / name, "a", encoding="utf-8") as file:
            file.write(f"{table['links'].to_pylist()}\n")

    first = stack[:20]
    expected = bv.register_slices(first, max_side=48)
    with beam.Pipeline("FnApiRunner") as p:
        for name, given in (("none", []), ("some", [1, 1, 2])):
            before = p | f"Create {name}" >> beam.Create(given)
            table = before | name >> bv.RegisterSlices(first, max_side=48)
            _ = table | f"Save {name}" >> beam.Map(save, name)
    for name in ("none", "some"):
        assert (tmp_path / name).read_text() == f"{expected['links'].to_pylist()}\n"
    slices = bv.RegisterSlices(first, max_side=48).slices
    found = [pair for block in slices.blocks for pair in _links(block, slices)]
    assert _aligned(found[::-1] + found, slices).to_pyarrow().equals(expected.to_pyarrow())


@pytest.mark.parametrize("axes", [2, 3])
def test_nearest_rotations_are_polar_factors(axes):
    matrices = np.eye(axes) + np.random.default_rng(0).normal(size=(50, axes, axes)) * 0.1
    expected = [scipy.linalg.polar(m)[0] for m in matrices]
    np.testing.assert_allclose(nearest_rotations(matrices), expected, rtol=0, atol=1e-14)
    assert np.array_equal(nearest_rotations(matrices)[7:9], nearest_rotations(matrices[7:9]))
