"""Later passes read back an output instead of computing it again, and the plan shows this."""

import itertools
from collections import Counter

import numpy as np
import pytest

import beam_volumes as bv
from tests.plan.test_plan import lazy, stages

rng = np.random.default_rng(5)
VOXELS = rng.integers(0, 255, (40, 48, 56)).astype("u1")


def computed(plan):
    """How many passes run each stage."""
    return Counter(name for p in plan.passes for name in stages(p))


def test_a_filter_and_what_is_downsampled_of_it_take_one_pass(tmp_path):
    v = lazy((256, 512, 512))
    smooth = bv.gaussian_filter(v, 2)
    levels = [smooth]
    for _ in range(5):
        levels.append(bv.downsample(levels[-1], 2))
    targets = [w.to(tmp_path / f"{k}.zarr", chunks=8) for k, w in enumerate(levels)]
    for order in (targets, targets[::-1]):
        plan = bv.plan(*order, memory="2GiB", workers=1)
        assert len(plan.passes) == 1 and computed(plan)["gaussian_filter"] == 1
        assert plan.bytes_read == v.nbytes and plan.times_read == {v.node.source.name: 1.0}
        assert plan.bytes_written == sum(t.volume.nbytes for t in targets)
    # Deep units of coarse levels are no reason for slabs as deep.
    v = lazy((1024, 512, 512))
    levels = [bv.gaussian_filter(v, 2)]
    for _ in range(5):
        levels.append(bv.downsample(levels[-1], 2))
    targets = [w.to(tmp_path / f"{k}.zarr", chunks=(16, 64, 64)) for k, w in enumerate(levels)]
    plan = bv.plan(*targets, memory="2GiB", workers=8)
    first, second = plan.passes
    assert first.grid.step[0] == 256 and second.program.shape == levels[5].shape
    assert second.bytes_read == levels[4].nbytes
    text = plan.explain(verbose=True)
    assert "stored for pass 2: slabs would have to be 512 slices deep to hold whole write" in text
    assert f"{tmp_path}/4.zarr is read 1.00 times, in pass 2" in text


def test_a_part_beside_the_whole_takes_one_pass(tmp_path):
    v = lazy((256, 512, 512))
    smooth = bv.gaussian_filter(v, 2)
    targets = smooth.to(tmp_path / "a.zarr"), smooth[16:].to(tmp_path / "b.zarr")
    (only,) = bv.plan(*targets, bv.max(smooth[100:, 7:])).passes
    assert only.bytes_read == v.nbytes
    # Parts that have little in common are not swept together.
    ends = smooth[:9].to(tmp_path / "a.zarr"), smooth[240:].to(tmp_path / "b.zarr")
    assert [p.program.shape[0] for p in bv.plan(*ends).passes] == [9, 16]


def test_what_is_computed_again_is_told(tmp_path):
    v = lazy((256, 512, 512))
    dearer = v.astype("f8") + 1
    plan = bv.plan(dearer.to(tmp_path / "a.zarr"), bv.max(bv.pad(dearer, 1)))
    assert len(plan.passes) == 2
    why = f": computed again in pass 2: reading it back from {tmp_path}/a.zarr"
    assert f"(astype(memory://nowhere.zarr/) + 1){why}" in plan.explain(verbose=True)
    smooth = bv.gaussian_filter(v, 2)
    plan = bv.plan(*(bv.pad(smooth, k).to(tmp_path / f"{k}.zarr") for k in (2, 4)))
    assert computed(plan)["gaussian_filter"] == 2 and plan.bytes_read >= 2 * v.nbytes
    assert "gaussian_filter: computed again in pass 2: it writes" in plan.explain(verbose=True)


def test_parts_of_an_input_are_counted_where_they_overlap(tmp_path):
    v = lazy((256, 512, 512))
    name = v.node.source.name
    for a, b, times in (
        (v[:128], v[128:], 1.0),
        (v[:128], v[64:192], 4 / 3),
        (v[:, :64, :64], v[:, 448:, 448:], 1.0),
        (v[10:20], v[20:30], 1.5),
    ):
        plan = bv.plan((a + 1).to(tmp_path / "a.zarr"), bv.max(b))
        assert plan.times_read[name] == pytest.approx(times), (a, b)


def test_a_mask_that_labels_need_is_stored_once(tmp_path):
    v = lazy((256, 512, 512))
    mask = bv.median_filter(v, 5) > 9
    plan = bv.plan(mask.to(tmp_path / "m.zarr"), bv.label(mask).to(tmp_path / "l.zarr"))
    assert not plan.intermediates and computed(plan)["median_filter"] == 1
    assert plan.bytes_written == mask.nbytes + 4 * v.size
    assert f"(median_filter > 9): read back from {tmp_path}/m.zarr in pass 2" in plan.explain(
        verbose=True
    )
    # A target of another dtype does not hold the node's voxels.
    wide = bv.gaussian_filter(v, 2)
    plan = bv.plan(wide.to(tmp_path / "w.zarr", dtype="u1"), bv.pad(wide, 2).to("d.zarr"))
    assert computed(plan)["gaussian_filter"] == 2


def test_outputs_with_sweeps_of_their_own_read_each_other(tmp_path):
    v = lazy((64, 4096, 4096))
    filtered = bv.median_filter(v, 5)
    targets = (
        filtered.to(tmp_path / "a.zarr", chunks=(16, 500, 500)),
        bv.binary_erosion(filtered > 3).to(tmp_path / "b.zarr", chunks=(16, 512, 512)),
    )
    whole = bv.plan(*targets, memory="16GiB")
    assert len(whole.passes) == 1 and not whole.reasons
    apart = bv.plan(*targets, memory="700MiB")
    assert any("separate sweeps" in r for r in apart.reasons)
    assert computed(apart)["median_filter"] == 1 and len(apart.passes) == 2
    assert f"median_filter: read back from {tmp_path}/a.zarr in pass 2" in apart.explain(
        verbose=True
    )


def graph():
    """Targets of several shapes that rest on each other, one on both other shapes."""
    v = bv.open(VOXELS)
    smooth = bv.median_filter(v, 3)
    half = bv.downsample(smooth, 2)
    mask = bv.binary_opening(smooth > bv.threshold_otsu(smooth))
    return {
        "smooth": smooth,
        "half": half,
        "back": bv.zoom(half, 2, order=1),
        "part": bv.gaussian_filter(smooth[7:, 3:], 1),
        "turned": bv.flip(smooth, 0),
        "mask": mask,
        "labels": bv.label(mask),
        "some": bv.binary_dilation(mask[:, 5:]),
    }


ALONE = {}


def alone(name):
    if not ALONE:
        ALONE.update({n: np.asarray(v) for n, v in graph().items()})
    return ALONE[name]


HOW = {
    "plain": {},
    "sharded": {"shards": (16, 32, 32), "chunks": (8, 16, 16)},
    "zarr v2": {"zarr_version": 2, "codec": "blosc"},
    "OME-Zarr": {"format": "ome-zarr", "codec": None},
}


@pytest.mark.parametrize("how", HOW)
def test_what_is_read_back_gives_the_same_bits(how, tmp_path):
    volumes = graph()
    for names in (list(volumes), list(volumes)[::-1]):
        targets = [volumes[n].to(tmp_path / f"{n}.zarr", **HOW[how]) for n in names]
        plan = bv.plan(*targets)
        assert computed(plan)["median_filter"] == 1
        results = bv.compute(*targets, runner=None, overwrite=True)
        for name, result in zip(names, results, strict=True):
            assert np.array_equal(np.asarray(result), alone(name)), name
        assert bv.verify(tmp_path / f"{names[0]}.zarr", checksums=True) == []


def test_results_in_memory_are_read_back(tmp_path):
    volumes = graph()
    for names in (list(volumes), ["half", "smooth", "some", "mask"]):
        for how in ({}, {"journal": tmp_path / f"{len(names)}.run"}):
            results = bv.compute(*(volumes[n] for n in names), runner=None, **how)
            for name, result in zip(names, results, strict=True):
                assert result.dtype == alone(name).dtype and np.array_equal(result, alone(name))


def test_what_comes_back_in_memory_is_read_back_by_no_name_of_a_file():
    smooth = bv.median_filter(bv.open(VOXELS), 5)
    plan = bv.plan(smooth, bv.pad(smooth, 2))
    assert computed(plan)["median_filter"] == 1
    assert "median_filter: read back from the result in memory in pass 2" in plan.explain(
        verbose=True
    )


def test_memory_of_this_process_is_read_back():
    volumes = graph()
    targets = [v.to(f"memory://read-back/{n}.zarr") for n, v in volumes.items()]
    for (name, _), result in zip(volumes.items(), bv.compute(*targets, runner=None), strict=True):
        assert np.array_equal(np.asarray(result), alone(name)), name


def test_a_run_that_reads_back_is_resumed(tmp_path):
    """It fails again and again, and goes on from there."""
    failures = itertools.count()
    v = bv.open(VOXELS)

    def fails(block):
        if next(failures) % 3 == 2:
            raise RuntimeError("now")
        return block

    def targets():
        smooth = bv.median_filter(v, 3)
        half = bv.downsample(smooth, 2)
        once = bv.map_overlap(fails, half, name="fails", version="1", dtype=half.dtype)
        return smooth.to(tmp_path / "a.zarr", chunks=16), once.to(tmp_path / "b.zarr", chunks=8)

    plan = bv.plan(*targets())
    assert computed(plan)["median_filter"] == 1
    for attempt in range(40):
        try:
            a, b = bv.compute(*targets(), runner=None, resume=attempt > 0, slab=(16, 16, 16))
            break
        except RuntimeError:
            pass
    assert attempt > 1
    assert np.array_equal(np.asarray(a), alone("smooth"))
    assert np.array_equal(np.asarray(b), alone("half"))
    assert bv.verify(tmp_path / "a.zarr", checksums=True) == []


def test_a_pipeline_reads_back(tmp_path):
    volumes = graph()
    np_in = bv.compute(bv.open(VOXELS).to(tmp_path / "in.zarr"), runner=None)
    smooth = bv.median_filter(np_in, 3)
    half, part = bv.downsample(smooth, 2), bv.gaussian_filter(smooth[7:, 3:], 1)
    targets = [
        half.to(tmp_path / "half.zarr"),
        part.to(tmp_path / "part.zarr"),
        smooth.to(tmp_path / "smooth.zarr"),
    ]
    assert computed(bv.plan(*targets))["median_filter"] == 1
    results = bv.compute(*targets, runner="FnApiRunner", progress=False)
    for name, result in zip(("half", "part", "smooth"), results, strict=True):
        assert np.array_equal(np.asarray(result), alone(name)), name
    assert set(volumes) > {"half"}


def test_only_labels_that_are_stored_between_passes_are_compressed(tmp_path):
    labels = bv.relabel_sequential(bv.watershed(lazy((128, 256, 256))))[0]
    plan = bv.plan(labels.to(tmp_path / "out.zarr"), memory="1GiB")
    sinks = [o.sink for p in plan.passes for o in p.program.outputs if o.sink.scratch]
    assert {(s.dtype.itemsize, s.codec[0]) for s in sinks} == {(1, "none"), (4, "blosc")}
