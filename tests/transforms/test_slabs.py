"""Slabs as elements: read, filtered and written one by one, with the whole volume's voxels."""

import pickle
import re
import threading
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.base.geometry import NO_HALO, Box, Grid
from beam_volumes.base.space import Space
from beam_volumes.storage.places.claims import ANY, Superseded
from beam_volumes.transforms import SlabKey
from beam_volumes.transforms.slab import SlabCoder, SlabKeyCoder
from beam_volumes.transforms.steps.grids import as_halo, slab_grid
from beam_volumes.transforms.steps.slabs import apply_stages, read_slab
from beam_volumes.transforms.steps.write import write_slab
from tests.tiers import examples
from tests.transforms.trees import chunk_files, membranes, stored
from tests.waiting import PATIENCE


def slabs_of(volume, step, halo):
    grid = Grid(volume.node.shape, step)
    return [read_slab(i, volume, grid, halo) for i in range(len(grid))]


def assembled(slabs):
    out = np.zeros(slabs[0].shape, slabs[0].data.dtype)
    for slab in slabs:
        out[slab.core.slices] = slab.voxels
    return out


FUNCTIONS = {
    "median": (lambda v: bv.median_filter(v, 3), 1),
    "gaussian": (lambda v: bv.gaussian_filter(v, 0.6, truncate=3, mode="mirror"), 2),
    "chain": (
        lambda v: bv.maximum_filter(bv.uniform_filter(v, 3, mode="constant", cval=7), 3) - v,
        2,
    ),
    "opening": (lambda v: bv.binary_opening(v > 100), 2),
    "pointwise": (lambda v: (v * 2).clip(10, 200), 0),
    "nothing": (lambda v: v, 0),
}


@settings(max_examples=examples(40))
@given(
    shape=st.tuples(*[st.integers(1, 9)] * 3),
    step=st.tuples(*[st.integers(1, 9)] * 3),
    name=st.sampled_from(sorted(FUNCTIONS)),
    more=st.integers(0, 2),
)
def test_slabs_of_any_cut_give_the_volume_bit_by_bit(shape, step, name, more):
    function, need = FUNCTIONS[name]
    v = bv.open(membranes(shape))
    halo = as_halo(need + more, v.axes)
    ours = assembled([apply_stages(s, function) for s in slabs_of(v, step, halo)])
    theirs = np.asarray(function(v))
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


def test_stages_one_after_the_other_use_up_the_halo():
    v = bv.open(membranes((12, 6, 6)))
    (slab,) = [s for s in slabs_of(v, (4, 6, 6), as_halo(3, v.axes)) if s.key.z == 4]
    once = apply_stages(slab, lambda v: bv.median_filter(v, 3))
    twice = apply_stages(once, lambda v: bv.minimum_filter(v, 5))
    assert [s.halo[0] for s in (slab, once, twice)] == [(3, 3), (2, 2), (0, 0)]
    expected = np.asarray(bv.minimum_filter(bv.median_filter(v, 3), 5))
    np.testing.assert_array_equal(twice.data, expected[4:8])
    with pytest.raises(ValueError, match=r"slab \(4, 0, 0\).*halo=\(\(1, 1\)"):
        apply_stages(twice, lambda v: bv.median_filter(v, 3))


def test_a_function_of_one_slab_may_read_another_volume_and_keep_the_space(tmp_path):
    array = membranes((6, 7, 8))
    other = stored(tmp_path, array)
    v = bv.open(array, voxel_size=(4, 1, 1), unit="nm")
    slabs = [
        apply_stages(s, lambda v: v - other) for s in slabs_of(v, (4, 7, 8), as_halo(0, v.axes))
    ]
    assert not assembled(slabs).any()
    assert slabs[0].space.voxel_size == (4, 1, 1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda v: v - bv.mean(v), "needs mean"),
        (lambda v: bv.mean(v), "not a volume"),
        (lambda v: v[:2], "slicing is not possible"),
        (lambda v: v[0], "slicing is not possible"),
        (lambda v: bv.flip(v), "flip and transpose are not possible"),
        (lambda v: bv.flip(bv.median_filter(v, 3), 0), "whole of median_filter"),
        (lambda v: bv.shift(v, 1), "shift moves voxels"),
        (lambda v: bv.sobel(v, mode="wrap"), "sobel with mode='wrap' needs the other end"),
        (lambda v: bv.downsample(v, (1, 1, 2), "stride"), "downsample is not possible"),
        (lambda v: bv.label(v > 3), "whole of"),
    ],
)
def test_what_is_no_stage_is_refused(function, message):
    slab = slabs_of(bv.open(membranes((6, 7, 8))), (4, 7, 8), as_halo(1, "zyx"))[0]
    with pytest.raises(ValueError, match=message):
        apply_stages(slab, function)


@pytest.mark.parametrize("dtype", ["?", "u1", "i8", "f2", "f8"])
def test_coders_give_back_what_they_took_and_always_the_same_bytes(dtype):
    v = bv.open(membranes((6, 7, 8)), voxel_size=(4, 1, 1), unit="nm").astype(dtype)
    slab = slabs_of(v, (2, 4, 8), as_halo(1, v.axes))[3]
    coder = beam.coders.registry.get_coder(type(slab))
    assert isinstance(coder, SlabCoder) and coder.is_deterministic()
    data = coder.encode(slab)
    back = coder.decode(data)
    assert (back.key, back.core, back.halo, back.shape) == (
        slab.key,
        slab.core,
        slab.halo,
        slab.shape,
    )
    assert back.space == slab.space and isinstance(back.space, Space)
    assert back.data.dtype == slab.data.dtype
    np.testing.assert_array_equal(back.data, slab.data)
    assert coder.encode(back) == data == coder.encode(pickle.loads(pickle.dumps(slab)))
    assert len(data) < slab.data.nbytes + 500


def test_keys_are_tuples_of_ints():
    coder = beam.coders.registry.get_coder(SlabKey)
    assert isinstance(coder, SlabKeyCoder) and coder.is_deterministic()
    key = SlabKey(1, 2**40, 3)
    assert coder.decode(coder.encode(key)) == key == (1, 2**40, 3, "")
    of = SlabKey(1, 2**40, 3, "s3://bucket/é.zarr")
    assert coder.decode(coder.encode(of)) == of and str(of) == f"{key} of s3://bucket/é.zarr"
    slab = slabs_of(bv.open(membranes((6, 7, 8))), (2, 4, 8), as_halo(1, "zyx"))[3]
    assert [type(k) for k in slab.key] == [int, int, int, str]


def test_large_slabs_are_refused_with_what_would_do():
    v = bv.open(
        {"driver": "zarr3", "kvstore": "memory://", "metadata": _metadata((1000, 4096, 4096))}
    )
    with pytest.raises(ValueError, match=r"tile=\(512, 512\)") as caught:
        slab_grid(v, 24, None)
    assert "8.0 MiB" in str(caught.value)
    assert slab_grid(v, 24, (512, 512)).step == (24, 512, 512)
    flat = bv.open(
        {"driver": "zarr3", "kvstore": "memory://", "metadata": _metadata((1000, 512, 512))}
    )
    with pytest.raises(ValueError, match="use depth=16 or tile=") as caught:
        slab_grid(flat, 32, None, as_halo(2, flat.axes))
    assert slab_grid(flat, 16, None, as_halo(2, flat.axes)).step == (16, 512, 512)


def _metadata(shape):
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "uint8",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16, 512, 512]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0,
        "codecs": [{"name": "bytes"}],
    }


@pytest.mark.parametrize("halo", [-1, (1, 2), (1, 1, (1, 2, 3)), 1.5])
def test_halos_that_mean_nothing(halo):
    with pytest.raises(ValueError, match="halo="):
        bv.ReadSlabs(bv.open(membranes()), halo=halo)


def test_the_chain_of_three_is_the_computed_volume(tmp_path):
    em = stored(tmp_path, membranes((40, 24, 28)), chunks=(8, 24, 28))
    how = {"chunks": (16, 12, 14)}
    bv.compute(bv.median_filter(em, 3).to(tmp_path / "reference.zarr", **how), runner=None)
    with beam.Pipeline("FnApiRunner") as p:
        slabs = p | bv.ReadSlabs(em, depth=32, halo=(2, 2, 2))
        smooth = slabs | bv.ApplyStages(lambda v: bv.median_filter(v, 3))
        paths = smooth | bv.WriteSlabs(tmp_path / "out.zarr", like=em, **how)
        # What is written can be read by the next step.
        read = paths | bv.ReadAll(depth=16) | beam.Map(lambda pair: pair[0][:3])
        assert_that(read, equal_to([(z, 0, 0) for z in (0, 16, 32)]))
        # Through a shuffle, by key, as somebody's own steps may do; and computed before they are read.
        maxima = (
            p
            | "Filtered" >> bv.ReadSlabs(bv.median_filter(em, 3), depth=16, tile=(12, 14))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, slabs: (key, next(iter(slabs))))
        )
        _ = maxima | "Again" >> bv.WriteSlabs(tmp_path / "again.zarr", like=em, **how)
    expected = chunk_files(tmp_path / "reference.zarr")
    assert chunk_files(tmp_path / "out.zarr") == expected == chunk_files(tmp_path / "again.zarr")


def test_writing_what_does_not_fit_is_refused(tmp_path):
    em = bv.open(membranes((8, 6, 6)))
    slab = slabs_of(em, (3, 6, 6), as_halo(0, em.axes))[1]

    def sink(volume=em, **how):
        how.setdefault("chunks", (2, 6, 6))
        return bv.WriteSlabs(tmp_path / "out.zarr", like=volume, **how).sink

    with pytest.raises(ValueError, match=r"\(3, 0, 0\).*multiple of 2, or write with chunks="):
        write_slab(slab, sink())
    with pytest.raises(ValueError, match=r"shape .*like="):
        write_slab(slab, sink(em[:4]))
    with pytest.raises(ValueError, match=r"uint8.*float32.*like="):
        write_slab(slab, sink(em.astype("f4")))
    sink().create("somebody's run")
    with pytest.raises(ValueError, match="overwrite=True"):
        sink()
    assert sink(overwrite=True).name == str(tmp_path / "out.zarr")
    with pytest.raises(ValueError, match="memory"):
        bv.WriteSlabs("memory://out.zarr", like=em)
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.ReadSlabs(bv.open(np.zeros((3, 700, 700), "u1")))
    with pytest.raises(ValueError, match="needs mean"):
        bv.ReadSlabs(em - bv.mean(em))


def test_a_slab_says_what_it_is():
    slab = slabs_of(bv.open(membranes((8, 6, 6))), (3, 6, 6), as_halo(1, "zyx"))[1]
    assert repr(slab) == "<Slab [3:6, 0:6, 0:6], halo ((1, 1), (0, 0), (0, 0)), uint8 of (8, 6, 6)>"
    assert slab.box == Box((2, 0, 0), (7, 6, 6))
    with pytest.raises(ValueError, match=r"voxels of shape \(5, 5, 6\)"):
        bv.Slab(slab.core, slab.halo, slab.data[:, :5], slab.shape)


class Blackens(beam.DoFn):
    """A step that changes the slab that it is given, or a copy."""

    def __init__(self, copies):
        self.copies = copies

    def process(self, pair):
        key, slab = pair
        if self.copies:
            slab = slab.copy()
        slab.data[...] = 0
        yield key, slab


@pytest.mark.parametrize("copies", [True, False])
def test_a_step_that_writes_into_voxels_changes_no_other_branch(tmp_path, copies):
    em = stored(tmp_path, np.full((4, 5, 6), 7, "u1"))
    p = beam.Pipeline("FnApiRunner")
    slabs = p | bv.ReadSlabs(em, depth=2)
    for name in ("A", "Zz"):
        black = slabs | f"{name} black" >> beam.ParDo(Blackens(copies))
        for some, want, of in ((black, 0, "black"), (slabs, 7, "seven")):
            found = some | f"{name} {of} max" >> beam.MapTuple(lambda _, s: int(s.voxels.max()))
            assert_that(found, equal_to([want, want]), f"{name} {of} want")
    if copies:
        p.run().wait_until_finish()
    else:
        with pytest.raises(Exception, match="read-only"):
            p.run().wait_until_finish()


def test_slabs_are_read_only_wherever_they_come_from():
    array = membranes((6, 7, 8))
    slab = slabs_of(bv.open(array), (2, 7, 8), as_halo(1, "zyx"))[1]
    own = bv.Slab(slab.core, slab.halo, array[1:5], slab.shape)
    changed = apply_stages(slab, lambda v: v + 1)
    for some in (slab, own, changed, replace(slab), *map(unpickled, (slab, own))):
        assert not some.data.flags.writeable and not some.voxels.flags.writeable
    copy = own.copy()
    copy.voxels[...] = 0
    assert array.flags.writeable and array[2:4].any() and not copy.voxels.any()
    assert np.shares_memory(own.data, array)  # not a copy


def unpickled(slab):
    return pickle.loads(pickle.dumps(slab))


def test_a_late_slab_is_not_written_into_what_another_run_has_made_since(tmp_path):
    em = bv.open(membranes((4, 8, 8)))
    slabs = slabs_of(em, (2, 8, 8), NO_HALO)
    write = bv.WriteSlabs(tmp_path / "out.zarr", like=em, chunks=(2, 8, 8))
    slow = bv.WriteSlabs(tmp_path / "out.zarr", like=em, chunks=(2, 8, 8))
    write.sink.create(write.outputs.run_id, replaces=write.outputs.replaces)
    write_slab(slabs[0], write.sink, write.outputs.run_id)
    with pytest.raises(Superseded, match="since this run was requested"):
        slow.sink.create(slow.outputs.run_id, replaces=slow.outputs.replaces)
    bv.compute((em + 1).to(tmp_path / "out.zarr"), runner=None, overwrite=True, progress=False)
    with pytest.raises(Superseded, match=r"slab \(2, 0, 0\): .* belongs to another run"):
        write_slab(slabs[1], write.sink, write.outputs.run_id)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), np.asarray(em) + 1)


def test_an_output_that_appears_before_the_pipeline_starts_is_not_replaced(tmp_path):
    """The error names the remedies of WriteSlabs, which has no resume=."""
    em = stored(tmp_path, membranes((4, 8, 8)))
    write = bv.WriteSlabs(tmp_path / "out.zarr", like=em, chunks=(2, 8, 8))
    stored(tmp_path, np.zeros((4, 8, 8), "u1"), "out.zarr")
    write.outputs = replace(write.outputs, replaces=ANY)  # as if no run had made it
    with (
        pytest.raises(Exception, match="exists: pass overwrite=True") as error,
        beam.Pipeline("FnApiRunner") as p,
    ):
        _ = p | bv.ReadSlabs(em, depth=2) | write
    assert "resume=" not in str(error.value)
    assert not np.asarray(bv.open(tmp_path / "out.zarr")).any()


@pytest.mark.parametrize("known", [True, False])
def test_of_two_pipelines_that_write_parts_of_a_volume_at_once_one_fails(tmp_path, known):
    """The parts of the other are complete, and nothing else is written."""
    em = bv.open(np.maximum(membranes((8, 8, 8)), 1))
    start, came = threading.Barrier(2), {}

    def pipeline(k):
        p = beam.Pipeline("FnApiRunner")
        slabs = p | bv.ReadSlabs(em, depth=2) | beam.Filter(lambda pair: pair[0].z // 4 == k)
        like = {"like": em} if known else {}
        _ = slabs | bv.WriteSlabs(tmp_path / "out.zarr", partial=True, chunks=(2, 8, 8), **like)
        return p

    def run(k, p):
        start.wait()
        try:
            came[k] = p.run().wait_until_finish()
        except Exception as error:
            came[k] = str(error)

    threads = [threading.Thread(target=run, args=(k, pipeline(k))) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    (won,) = (k for k, result in came.items() if result == "DONE")
    assert re.search("out.zarr.*(exists|has started to write it)", came[1 - won])
    want = np.where(np.arange(8)[:, None, None] // 4 == won, np.asarray(em), 0)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), want)


def test_a_slab_is_its_data_for_numpy():
    """Core and halo; read-only unless it is a copy."""
    data = np.arange(24, dtype="u2").reshape(2, 3, 4)
    slab = bv.Slab(Box((1, 0, 0), (2, 3, 4)), ((1, 0), (0, 0), (0, 0)), data, (9, 3, 4))
    assert np.shares_memory(np.asarray(slab), data) and not np.asarray(slab).flags.writeable
    own = np.array(slab)
    own[:] = 0
    assert own.dtype == "u2" and np.sum(slab) == data.sum() == 276
    np.testing.assert_array_equal(np.asarray(slab, "f4"), data.astype("f4"))
    np.testing.assert_array_equal(np.percentile(slab, [0, 100]), [0, 23])
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert np.asarray(slab, copy=True).flags.writeable
        with pytest.raises(ValueError, match="copy"):
            np.asarray(slab, "f4", copy=False)
