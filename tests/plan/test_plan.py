"""The plan's numbers: passes, fusion, slabs, I/O, memory, and the reasons given."""

import json
import pickle
import re
import tracemalloc
from functools import cached_property

import cloudpickle
import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.geometry import Box
from beam_volumes.plan.cost.machine import parse_bytes, peak_memory
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.places import stored_size
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.program import Program
from tests.tiers import few, thorough

GB = 1 << 30


def lazy(shape, dtype="u1", chunks=(16, 64, 64), path="nowhere.zarr"):
    """A zarr that is a spec only: nothing of it exists."""
    return bv.open(
        {
            "driver": "zarr3",
            "kvstore": {"driver": "memory", "path": f"{path}/"},
            "create": True,
            "open": True,
            "schema": {
                "dtype": np.dtype(dtype).name,
                "domain": {"shape": list(shape)},
                "chunk_layout": {"chunk": {"shape": list(chunks)}},
            },
        }
    )


@pytest.fixture
def v():
    return lazy((200, 300, 400))


def stages(p):
    return [s.name for s in p.program.steps if s.stage is not None]


def test_one_pass_fuses_everything(v, tmp_path):
    a = bv.gaussian_filter(v, 2)
    out = (bv.median_filter(a, 3) - bv.uniform_filter(a, 5)) * 2 + 1
    plan = bv.plan(out.to(tmp_path / "o.zarr"), bv.max(out), memory="2GiB")
    (only,) = plan.passes
    # The arithmetic is one stage, unless something else looks inside.
    *filters, last = stages(only)
    assert filters[0] == "gaussian_filter" and last == "add"
    assert sorted(filters[1:]) == ["median_filter", "uniform_filter"]
    assert [f.reduction.name for f in only.program.folds] == ["max"]
    assert only.values == () and plan.sinks[0].name.endswith("o.zarr")


def test_a_value_that_is_used_twice_is_no_part_of_a_chain(v, tmp_path):
    square = v.astype("f4") * 2
    plan = bv.plan((bv.gaussian_filter(square, 1) + square).to(tmp_path / "o.zarr"))
    assert stages(plan.passes[0]) == [
        "(astype(memory://nowhere.zarr/) * 2)",
        "gaussian_filter",
        "add",
    ]


@pytest.mark.parametrize(
    ("dtype", "name", "passes"),
    [
        ("u1", "otsu", 1),
        ("u2", "otsu", 1),
        ("i2", "otsu", 1),
        ("i4", "otsu", 2),
        ("f4", "otsu", 2),
        ("u2", "percentile", 1),
        ("f4", "percentile", 2),
        ("i4", "percentile", 2),
        ("f8", "percentile", 4),
        ("i8", "percentile", 4),
        ("f4", "mean", 1),
        ("f4", "histogram", 2),
    ],
)
def test_sweeps_of_scalars(dtype, name, passes, tmp_path):
    v = lazy((40, 50, 60), dtype)
    scalar = {
        "otsu": lambda: bv.threshold_otsu(v),
        "percentile": lambda: bv.percentile(v, 50),
        "mean": lambda: bv.mean(v),
        "histogram": lambda: bv.histogram(v)[0],
    }[name]()
    assert len(bv.plan(scalar).passes) == passes
    if name == "histogram":
        assert len(bv.plan(bv.histogram(v, range=(0, 1))[0]).passes) == 1
        return
    plan = bv.plan((v > scalar).to(tmp_path / "o.zarr"))
    assert len(plan.passes) == passes + 1
    sweeps = plan.sweeps
    assert max(sweeps.values()) == passes
    assert f"takes {passes} sweep" in plan.explain(verbose=True)


def test_scalars_of_one_level_share_a_pass(v, tmp_path):
    out = (v - bv.min(v)) / (bv.max(v) - bv.min(v)) + bv.mean(v) * bv.std(v)
    plan = bv.plan(out.to(tmp_path / "o.zarr"), bv.sum(v))
    assert len(plan.passes) == 2
    names = sorted(f.reduction.name for f in plan.passes[0].program.folds)
    assert names == ["max", "mean", "min", "std", "sum"]
    assert not plan.passes[1].program.folds


def test_slabs_are_aligned_to_all_outputs(v, tmp_path):
    a = v.to(tmp_path / "a.zarr", chunks=(12, 100, 40))
    b = (v + 1).to(tmp_path / "b.zarr", chunks=(8, 60, 100))
    (p,) = bv.plan(a, b, memory="2GiB").passes
    z, y, x = p.grid.step
    assert z % 24 == 0 or z >= 200
    assert y % 300 == 0 and (x % 200 == 0)
    assert p.units_written == 17 * 3 * 10 + 25 * 5 * 4
    assert p.bytes_written == 2 * 200 * 300 * 400


def test_misaligned_slabs_are_refused(v, tmp_path):
    out = v.to(tmp_path / "a.zarr", chunks=(16, 64, 64))
    with pytest.raises(
        ValueError, match=r"24 along z is not a multiple of 16, .* unit of .*a.zarr"
    ):
        bv.plan(out, slab=(24, 300, 400))
    with pytest.raises(ValueError, match="100 along x"):
        bv.plan(out, slab=(32, 64, 100))
    for bad in ((0, 1, 1), (16, 64), (16, 64, 64, 64)):
        with pytest.raises(ValueError, match="slab"):
            bv.plan(out, slab=bad)
    with pytest.raises(TypeError, match="slab=16 is not a sequence of whole numbers"):
        bv.plan(out, slab=16)
    (p,) = bv.plan(out, slab=(32, 128, 400)).passes
    assert p.grid.step == (32, 128, 400) and len(p.grid) == 7 * 3


def test_a_message_names_the_write_unit_of_an_output_and_not_what_lies_between(v, tmp_path):
    out = bv.label(v > 1).to(tmp_path / "a.zarr", chunks=(16, 64, 64))
    with pytest.raises(
        ValueError, match=r"96 along y .* of 64, the write unit .*a\.zarr; .* of 64;"
    ):
        bv.plan(out, slab=(16, 96, 64))
    # What two outputs have in common is the remedy, and the unit is of one of them.
    more = (v + 1).to(tmp_path / "b.zarr", chunks=(16, 48, 64))
    with pytest.raises(ValueError, match=r"64 along y .* of 48, .*b\.zarr; use a multiple of 192"):
        bv.plan(out, more, slab=(16, 64, 64))


@pytest.mark.parametrize("slab", [(9, 31, 4), (11, 14, 4), (5, 15, 4), (2, 3, 1)])
def test_a_crop_and_the_whole_volume_may_be_cut_anyhow(slab):
    x = np.random.default_rng(0).integers(0, 255, (11, 31, 4), "u1")
    w = bv.maximum_filter(bv.open(x), 3)
    whole = np.asarray(w)
    crops = np.s_[5:11, 15:28, :2], np.s_[:6, :13, 1:], np.s_[3:, 14:]
    found = bv.compute(w, *(w[c] for c in crops), slab=slab, runner=None, progress=False)
    np.testing.assert_array_equal(found[0], whole)
    for crop, part in zip(crops, found[1:], strict=True):
        np.testing.assert_array_equal(part, whole[crop])


def test_decoded_and_stored_bytes_are_told_apart_and_tables_counted(tmp_path):
    labels = np.zeros((32, 256, 256), "u4")  # 8 MiB of zeros, and one chunk with a label
    labels[0, 0, 0] = 1
    source = bv.compute(bv.open(labels).to(tmp_path / "l.zarr", chunks=(8, 128, 128)), runner=None)
    table = bv.regionprops_table(source)
    text = bv.plan((source + 1).to(tmp_path / "o.zarr"), table.to(tmp_path / "t.csv")).explain(
        verbose=True
    )
    assert "MiB decoded, 1.00x the chunks" in text
    row = sum(dtype.itemsize for dtype in table.columns.values())
    assert f"before compression, and the rows of 1 table, {row} bytes each" in text
    assert f"t.csv (csv), {row} bytes each before encoding" in text
    stored = sum(f.stat().st_size for f in (tmp_path / "l.zarr").rglob("*") if f.is_file())
    assert stored < 1 << 18
    assert re.search(r"l\.zarr is read .*; its files take [\d.]+ (B|KiB) as stored", text)
    # In memory nothing is stored.
    assert "as stored" not in bv.plan(bv.mean(bv.open(labels))).explain(verbose=True)


@pytest.mark.parametrize("separator", [".", "/"])
def test_the_stored_bytes_of_many_files_are_estimated(separator, tmp_path, monkeypatch):
    looked_at = []
    real = stored_size._size
    monkeypatch.setattr(stored_size, "_size", lambda file: looked_at.append(file) or real(file))
    place = tmp_path / "v.zarr"
    spec = {
        "driver": "zarr",
        "kvstore": {"driver": "file", "path": f"{place}/"},
        "metadata": {"shape": [16, 128, 128], "chunks": [1, 8, 8], "dtype": "|u1"},
    }
    spec["metadata"]["dimension_separator"] = separator
    noise = np.random.default_rng(0).integers(0, 255, (16, 128, 128), "u1")
    noise[:, :64] = 1  # compresses well
    ts.open(spec, create=True).result()[...] = noise
    sizes = [f.stat().st_size for f in place.rglob("*") if f.is_file()]
    assert len(sizes) == 16 * 16 * 16 + 1
    v = bv.open(place)
    looked_at.clear()
    text = bv.plan((v + 1).to(tmp_path / "o.zarr")).explain()
    about = re.search(
        r"its files take about ([\d.]+ \w+) as stored, by the sizes of a sample", text
    )
    assert parse_bytes(about[1]) == pytest.approx(sum(sizes), rel=0.2)
    assert len(set(looked_at)) < 1500
    # What cannot be counted quickly is left out.
    monkeypatch.setattr(stored_size, "_MAX_ENTRIES", 10)
    assert "as stored" not in bv.plan((v + 1).to(tmp_path / "o.zarr")).explain()


def test_stored_bytes_are_estimated_by_names_and_left_out_where_they_cannot_be_had(tmp_path):
    for k in range(3000):
        (tmp_path / f"{k}.tif").write_bytes(bytes(100 + k // 100))
    size = sum(f.stat().st_size for f in tmp_path.iterdir())
    names = [f"{k}.tif" for k in range(3000)]
    slices = Extent({"driver": "file", "path": f"{tmp_path}/"}, names)
    assert stored_size.stored_bytes([slices]) is None
    assert stored_size.sampled_bytes([slices, slices]) == pytest.approx(size, rel=0.02)
    bucket = Extent({"driver": "gcs", "bucket": "b", "path": "v.zarr/"})
    gone = Extent({"driver": "file", "path": f"{tmp_path}/gone"})
    for extents in ([bucket], [slices, bucket], [gone], []):
        assert stored_size.sampled_bytes(extents) is None


#: What plans are made of in unlike ways: by tiles, in whole planes or columns, again and again, across slabs.
WAYS = {
    "a number": lambda v: bv.gaussian_filter(v, 2) > bv.threshold_otsu(bv.gaussian_filter(v, 2)),
    "equalize": lambda v: bv.equalize_hist(bv.gaussian_filter(v, 2)),
    "projection": lambda v: v - v.max(axis="z", keepdims=True),
    "distance": lambda v: bv.distance_transform_edt(v > 3),
    "zoom": lambda v: bv.zoom(v, 0.5),
    "rotate": lambda v: bv.rotate(v, 30),
    "transpose": lambda v: bv.transpose(v, (2, 1, 0)),
    "network": lambda v: bv.predict(
        v, lambda x: x * 2.0, context=2, normalize=("1%", "99%"), name="q", version=1
    ),
    "label": lambda v: bv.label(bv.gaussian_filter(v, 2) > 3),
    "small objects": lambda v: bv.remove_small_objects(v > 3, 50),
    "watershed": lambda v: bv.watershed(-bv.distance_transform_edt(v > 3)),
    "markers": lambda v: bv.watershed(bv.gaussian_filter(v, 2), bv.label(v < 60)),
    "reconstruction": lambda v: bv.reconstruction(bv.grey_erosion(v, 5), v),
    "h_maxima": lambda v: bv.h_maxima(bv.gaussian_filter(v, 3), 10.0),
    "peaks": lambda v: bv.peak_local_max(bv.gaussian_filter(v, 2), 5),
    "table": lambda v: bv.regionprops_table(bv.label(v > 3), v),
    "adjacency": lambda v: bv.region_adjacency(bv.watershed(v), v),
}


@pytest.mark.parametrize(
    "chunks", few([(64, 64, 64), (2, 512, 512), (256, 32, 32)], [(64, 64, 64)])
)
@pytest.mark.parametrize("way", WAYS)
def test_the_smallest_memory_that_a_plan_names_works(way, chunks, tmp_path):
    made = WAYS[way](lazy((256, 512, 512), chunks=chunks))
    target = made.to(tmp_path / ("o.parquet" if isinstance(made, bv.Table) else "o.zarr"))
    memory = bv.plan(target, memory=8 * GB).smallest_memory
    assert bv.plan(target, memory=memory).smallest_memory <= memory


def test_the_smallest_memory_that_a_refusal_names_works(tmp_path):
    target = WAYS["peaks"](lazy((256, 512, 512), chunks=(64, 64, 64))).to(tmp_path / "o.parquet")
    with pytest.raises(ValueError, match="smallest memory that works is") as refused:
        bv.plan(target, memory="200MiB")
    named = int(re.search(r"works is (\d+) bytes", str(refused.value))[1])
    assert bv.plan(target, memory=named).smallest_memory <= named


def test_aligned_reads_are_not_amplified(v, tmp_path):
    out = (v + 1).to(tmp_path / "a.zarr", chunks=(16, 64, 64))
    for slab in (None, (16, 64, 64), (64, 300, 400)):
        plan = bv.plan(out, slab=slab)
        assert plan.read_amplification == 1.0
        assert plan.passes[0].chunks_read == 13 * 5 * 7


def test_halos_are_counted_to_the_chunk(tmp_path):
    """Input chunks 64 deep, slabs 96, halo 25, two tiles each way."""
    v = lazy((288, 128, 128), "u2", (64, 32, 32))
    out = bv.uniform_filter(v, 51).to(tmp_path / "o.zarr", chunks=(32, 64, 64))
    (p,) = bv.plan(out, slab=(96, 64, 64)).passes
    # z: [0,121) 2, [71,217) 3 (1..3), [167,288) 3 (2..4); y, x: [0,89) 3, [39,128) 3 of 4.
    assert p.chunks_read == (2 + 3 + 3) * (3 + 3) * (3 + 3)
    assert p.bytes_read == p.chunks_read * 64 * 32 * 32 * 2
    assert p.bytes_needed == 5 * 4 * 4 * 64 * 32 * 32 * 2
    assert p.read_amplification == p.bytes_read / p.bytes_needed


@pytest.mark.parametrize("crop", [0, 3])
def test_plans_that_are_alike_along_some_axes_have_their_own_counts(crop, tmp_path):
    """Sums along an axis are kept for other plans; each chunk, crop and halo has its own."""
    how = RunOptions(slab=(16, 32, 64), memory="2GiB", base=214 << 20)
    shape, chunk = (64, 96, 128), (16, 32, 64)
    other = lazy(shape, "u1", chunk, path="other.zarr")[crop:]
    for size in (1, 3, 5):
        for chunks in [(16, 32, 32), (16, 16, 32), (32, 32, 16), chunk]:
            v = bv.uniform_filter(lazy(shape, "u1", chunks)[crop:], (1, size, size)) + other
            (p,) = make_plan([v.to(tmp_path / "out.zarr", chunks=chunk)], how).passes
            for read, (i,) in zip(p.reads, p.program.decoded, strict=True):
                source, want = p.program.steps[i].source, 0
                for k in range(len(p.grid)):
                    ranges = p.grid.box(k).ranges
                    spans = [p.program.regions(axis, ranges)[i] for axis in range(3)]
                    want += np.prod([source.units_touched(*a) for a in enumerate(spans)])
                assert read.units == want


def test_cheap_steps_are_computed_again_and_dear_ones_stored(v, tmp_path):
    cheap = v + 1
    plan = bv.plan((cheap > bv.mean(cheap)).to(tmp_path / "o.zarr"))
    assert not plan.intermediates and plan.bytes_written == v.size
    assert any(re.search(r"computed again in pass 2: about .* against", r) for r in plan.reasons)
    dear = bv.median_filter(bv.median_filter(v, 7), 9)
    plan = bv.plan((dear > bv.mean(dear)).to(tmp_path / "o.zarr"))
    (kept,) = plan.intermediates
    assert plan.bytes_written == 2 * v.size
    assert [o.sink for o in plan.passes[0].program.outputs] == [kept]
    assert stages(plan.passes[1]) == ["(median_filter > mean)"]
    assert any("stored for pass 2" in r for r in plan.reasons)
    # What the user writes anyway is read back, not stored twice.
    plan = bv.plan(
        (dear > bv.mean(dear)).to(tmp_path / "o.zarr"), dear.to(tmp_path / "d.zarr"), memory="4GiB"
    )
    assert not plan.intermediates and plan.bytes_written == 2 * v.size


def test_a_function_that_is_not_deterministic_runs_once(v, tmp_path):
    noise = bv.map_overlap(lambda a: a, v, name="noise", deterministic=False)
    plan = bv.plan((noise > bv.mean(noise)).to(tmp_path / "o.zarr"))
    assert len(plan.intermediates) == 1
    assert any("noise: stored" in r and "not deterministic" in r for r in plan.reasons)
    again = [s for p in plan.passes for s in stages(p)].count("noise")
    assert again == 1


CHAINS = {
    "one filter": lambda v: bv.gaussian_filter(v, 2),
    "chain": lambda v: bv.binary_opening(bv.median_filter(bv.gaussian_filter(v, 1), 3) > 9),
    "two passes": lambda v: (lambda s: s < bv.threshold_otsu(s))(bv.gaussian_filter(v, 2)),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("shards", [None, (64, 128, 128)])
def test_the_smallest_memory_is_the_smallest(name, shards, tmp_path):
    v = lazy((500, 2000, 2000), chunks=(32, 128, 128))
    how = {"chunks": (16, 64, 64), "shards": shards}
    out = CHAINS[name](v).to(tmp_path / "o.zarr", **how)
    plan = bv.plan(out, memory="8GiB", workers=2)
    assert plan.predicted_memory <= plan.memory and plan.smallest_memory <= plan.predicted_memory
    least = bv.plan(out, memory=plan.smallest_memory, workers=2)
    assert least.predicted_memory <= plan.smallest_memory == least.smallest_memory
    for memory in (plan.smallest_memory - 1, "100MB"):
        with pytest.raises(ValueError, match="too small") as refused:
            bv.plan(out, memory=memory, workers=2)
        message = str(refused.value)
        assert f"works is {plan.smallest_memory} bytes" in message
        assert re.search(r"Its largest part is .+ with", message)


def test_memory_is_what_it_says(v, tmp_path):
    out = bv.gaussian_filter(v, 2).to(tmp_path / "o.zarr")
    plan = make_plan([out], RunOptions(memory="2GiB", workers=3, base=100 << 20))
    p = plan.passes[0]
    assert p.slab_memory == sum(part.bytes for part in p.partition.parts) == plan.slab_memory
    assert plan.predicted_memory == plan.base + 3 * plan.slab_memory <= 2 * GB
    more = make_plan([out], RunOptions(memory="2GiB", workers=4, processes=4, base=100 << 20))
    assert more.predicted_memory == 4 * more.base + 4 * more.slab_memory
    for bad in ("lots", "-1GB", 0, True, "1.2.3GB"):
        with pytest.raises((ValueError, TypeError), match="memory"):
            bv.plan(out, memory=bad)


def test_the_memory_of_a_chain_does_not_depend_on_the_volume_s_depth(tmp_path):
    def ours(depth):
        v = lazy((depth, 512, 512), chunks=(16, 512, 512))
        out = bv.gaussian_filter(v, 2).to(tmp_path / "o.zarr", chunks=(16, 512, 512))
        return bv.plan(out, memory="8GiB").slab_memory

    assert ours(20000) == ours(2000)


@thorough
def test_petascale(tmp_path):
    """5,000 x 350,000 x 500,000: nothing read, nothing listed."""
    v = lazy((5_000, 350_000, 500_000), chunks=(64, 256, 256))
    smooth = bv.gaussian_filter(v, 1.5)
    chain = bv.binary_opening(
        bv.median_filter(smooth - bv.gaussian_filter(v, 3), 3) > 0, bv.cross(1)
    )
    out = chain.to(tmp_path / "o.zarr")
    before = peak_memory()
    plan = bv.plan(out, memory="8GiB")
    text = plan.explain(verbose=True)
    assert peak_memory() - before < 200e6
    assert len(cloudpickle.dumps(plan)) < 100_000
    (p,) = plan.passes
    assert plan.predicted_memory <= 8 * GB and len(text) < 10_000
    # Slabs are counted, not listed: the box of any is worked out from its index.
    n = len(p.grid)
    assert n > 100_000
    last = p.grid.box(n - 1)
    assert last.stop == (5_000, 350_000, 500_000)
    assert all(a % s == 0 for a, s in zip(last.start, p.grid.step, strict=True))
    assert plan.bytes_written == 5_000 * 350_000 * 500_000
    assert 1 <= plan.read_amplification < 2


def test_slabs_tile_the_volume(v, tmp_path):
    out = v.to(tmp_path / "o.zarr", chunks=(16, 64, 64))
    (p,) = bv.plan(out, slab=(48, 128, 192)).passes
    seen = np.zeros((200, 300, 400), "u1")
    for i in range(len(p.grid)):
        seen[p.grid.box(i).slices] += 1
    assert (seen == 1).all()
    assert p.grid.box(0) == Box((0, 0, 0), (48, 128, 192))


def test_explain_and_to_dict(v, tmp_path):
    smooth = bv.gaussian_filter(v, 2, mode="mirror")
    plan = bv.plan(
        (smooth < bv.threshold_otsu(smooth)).to(tmp_path / "o.zarr"), memory="2GiB", workers=2
    )
    text = plan.explain(verbose=True)
    for part in (
        "3 passes",
        "gaussian_filter (float32)",
        "halo 8+8 8+8 8+8 mirror",
        "windows of",
        "slab",
        "base",
        " slab; budget 2.0 GiB",
        "smallest that works",
        "x the chunks that each pass needs",
        "units of",
        "threshold_otsu takes 2 sweeps",
        "why:",
        "s to compute and read, against",
    ):
        assert part in text, part
    numbers = json.loads(json.dumps(plan.to_dict()))
    assert numbers["predicted_memory"] == plan.predicted_memory
    assert numbers["smallest_memory"] == plan.smallest_memory
    assert [p["slabs"] for p in numbers["passes"]] == [len(p.grid) for p in plan.passes]
    assert numbers["passes"][2]["stages"] == stages(plan.passes[2])
    assert sum(p["bytes_read"] for p in numbers["passes"]) == plan.bytes_read
    assert sum(numbers["passes"][0]["parts"].values()) == numbers["passes"][0]["slab_memory"]


def test_explain_of_labels_and_tables(v, tmp_path):
    cells = bv.label(bv.gaussian_filter(v, 2) > bv.mean(v))
    table = bv.regionprops_table(cells, v)
    plan = bv.plan(cells.to(tmp_path / "o.zarr"), table.to(tmp_path / "t.csv"), cells.num_labels)
    text = plan.explain(verbose=True)
    for part in (
        "label (first sweep) of (gaussian_filter > mean), up to ",
        "a step of the merge",
        "takes the answers of pass 2, in the same slabs and windows",
        "with the answers of pass 2 to label",
        f"write the rows of regionprops_table to {tmp_path}/t.csv (csv)",
        "pass 2 waits for pass 1: it needs mean",
        "label count takes 1 sweep",
    ):
        assert part in text, part
    assert re.search("pass 3 waits for pass 2: it needs .*label", text)
    assert [p["surveys"] for p in plan.to_dict()["passes"]] == [
        [],
        ["label"],
        ["regionprops_table"],
    ]


def test_outputs_are_never_inputs(tmp_path):
    stored = bv.compute(
        bv.open(np.zeros((4, 8, 8), "u1")).to(tmp_path / "in.zarr"), runner=None, progress=False
    )
    other = bv.open(np.ones((4, 8, 8), "u1"))
    for volume in (stored + 1, other + bv.max(stored), other + bv.max(other, mask=stored > 0)):
        with pytest.raises(ValueError, match="in place"):
            bv.plan(volume.to(tmp_path / "in.zarr"))
    with pytest.raises(ValueError, match="in place"):
        bv.plan((other + 1).to(tmp_path / "in.zarr"), bv.max(stored))
    with pytest.raises(ValueError, match="two targets"):
        bv.plan(other.to(tmp_path / "o.zarr"), (other + 1).to(tmp_path / "o.zarr"))


def test_what_cannot_be_planned():
    with pytest.raises(ValueError, match="nothing to plan"):
        bv.plan()
    with pytest.raises(TypeError, match="ndarray"):
        bv.plan(np.zeros((3, 3)))
    v = lazy((4, 5, 6))
    for how in ({"workers": 0}, {"threads": 1.5}, {"window": -1}):
        with pytest.raises(ValueError, match=next(iter(how))):
            bv.plan(v + 1, **how)


def test_plans_of_deep_graphs_pickle():
    v = bv.open(np.zeros((4, 8, 8), bool))
    deep = bv.binary_dilation(v, iterations=600)
    plan = bv.plan((deep > bv.mean(deep)), bv.max(deep))
    again = pickle.loads(pickle.dumps(plan))
    assert again.to_dict() == plan.to_dict()
    assert len(pickle.dumps(plan)) < 5_000_000


@pytest.mark.parametrize(
    "how",
    [
        {"shards": True},
        {"shards": (512, 512, 512), "chunks": (64, 64, 64)},
        {"shards": (1024, 1024, 1024), "chunks": (32, 64, 64)},
        {"shards": (2048, 128, 64), "chunks": (64, 64, 64)},
        {"chunks": (1000, 100, 333)},
        {"chunks": (97, 1021, 2048)},
    ],
)
def test_what_lies_between_passes_takes_no_shards_of_memory(how, tmp_path):
    v = lazy((4096, 4096, 4096), chunks=(64, 64, 64))
    smooth = bv.median_filter(bv.median_filter(v, 7), 9)
    target = (smooth > bv.threshold_otsu(smooth)).to(tmp_path / "o.zarr", **how)
    plan = bv.plan(target, memory="900GiB")
    (kept,) = plan.intermediates
    assert all(u % c == 0 for u, c in zip(target.sink.unit, kept.unit, strict=True))
    assert kept.unit_bytes <= max(8 << 20, 97 * 1021 * 512)
    # The pass that writes the output reads no more at once than one that reads a usual input.
    usual = lazy(v.shape, "u1", kept.unit)
    alone = bv.plan((usual > bv.threshold_otsu(usual)).to(target.sink.name, **how), memory="900GiB")
    assert plan.passes[-1].slab_memory <= alone.passes[-1].slab_memory
    assert plan.smallest_memory < alone.smallest_memory + (200 << 20)


def test_what_lies_between_passes_of_odd_slabs_has_no_slivers():
    v = lazy((524, 524, 524), chunks=(64, 64, 64))
    smooth = bv.median_filter(bv.median_filter(v, 7), 9)
    for slab in ((131, 131, 131), (130, 130, 130), (524, 97, 524), (16, 251, 509)):
        plan = bv.plan(bv.label(smooth > bv.threshold_otsu(smooth)), memory="40GiB", slab=slab)
        for kept in plan.intermediates:
            assert kept.unit_bytes >= 1 << 19
            for s, c, n in zip(slab, kept.unit, v.shape, strict=True):
                assert s % c == 0 or s >= n


@pytest.mark.parametrize("crop", [slice(0, 1), slice(None)])
def test_a_chunk_that_is_deep_does_not_make_the_plan_large(crop):
    v = lazy((1 << 24, 1, 1), chunks=(1 << 24, 1, 1))[crop]
    tracemalloc.start()
    try:
        bv.plan(v, memory="2GiB")
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()


def test_a_plan_is_explained_in_a_line_for_each_pass():
    """Details follow when they are asked for, and stages have names of their own."""
    v = bv.open(np.zeros((40, 64, 64), "f4"))
    plan = bv.plan(bv.watershed(bv.gaussian_filter(v, 2)))
    text = plan.explain()
    lines = [line for line in text.splitlines() if line.startswith("pass ")]
    assert len(lines) == len(plan.passes) and len(text.splitlines()) <= 5 + len(plan.passes)
    assert "gaussian_filter" in lines[0] and "1 slab of 40 x 64 x 64" in lines[0]
    details = plan.explain(verbose=True)
    assert details.startswith(text) and "why:" in details and "halo" in details
    for p in plan.passes:
        names = [s.name for s in p.program.steps if s.source is None]
        assert len(set(names)) == len(names), names


def test_the_largest_scratch_names_its_stage():
    v = bv.open(np.zeros((40, 64, 64), "f4"))
    (p,) = bv.plan(bv.median_filter(bv.gaussian_filter(v, 1), 5)).passes
    (scratch,) = [item.name for item in p.partition.parts if "scratch" in item.name]
    assert scratch.removeprefix("scratch of ") in ("median_filter", "gaussian_filter")
    assert scratch in bv.plan(bv.median_filter(bv.gaussian_filter(v, 1), 5)).explain()


def test_callers_cannot_change_the_kept_values_of_a_plan(v, tmp_path):
    cells = bv.label(v > 140)
    plan = bv.plan(
        cells.to(tmp_path / "cells.zarr"), bv.regionprops_table(cells, v).to(tmp_path / "t.csv")
    )
    assert isinstance(plan.outputs, tuple) and len(plan.outputs) == 2
    names = [n for n, kind in vars(Program).items() if isinstance(kind, cached_property)]
    assert "decoded" in names
    for p in plan.swept:
        lists = [
            n for n in names if not isinstance(getattr(p.program, n), tuple | frozenset | bool)
        ]
        assert not lists
