"""A pipeline in somebody else's style: their keys, windows, filters, side inputs, failures and metrics."""

import logging
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
import tifffile
from apache_beam.metrics.metric import Lineage, MetricsFilter
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.display import DisplayData
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.drive.pipelines import pipeline_options
from tests.transforms.trees import membranes, stored

SHAPE, DEPTH = (12, 10, 11), 4


def counted(result):
    found = result.metrics().query(MetricsFilter().with_namespace("beam_volumes"))
    totals = {}
    for c in found["counters"]:
        totals[c.key.metric.name] = totals.get(c.key.metric.name, 0) + c.committed
    return totals


def broken(volume):
    """Raises for the slab that begins with slice 4: only its block begins at 3."""
    if volume.node.source.block.start[0] == 3:
        raise OSError("this slab is cursed")
    return volume > 140


def strangers(tmp_path, array, p):
    """Lay out the pipeline, with its expected result."""
    em = stored(tmp_path, array, chunks=(4, 10, 11))
    cut = bv.SlabGrid(em, DEPTH)
    copied = p | bv.Compute(copy=(em + 1).to(tmp_path / "copy.zarr"), average=bv.mean(em))
    assert copied.keys() == {"copy", "average"}
    # What `Compute` writes does not exist yet: its readers wait, and are opened in the workers.
    again = copied["copy"] | bv.ReadAll(lambda path: bv.open(path) - 1, depth=DEPTH, halo=1)
    ours = again | "Mine" >> beam.MapTuple(
        lambda key, slab: (
            bv.SlabKey(*key[:3]),
            bv.Slab(slab.core, slab.halo, slab.data, slab.shape),
        )
    )
    # Their own keys, a shuffle, windows, a filter that keeps all, and a side input.
    theirs = (
        ours
        | "Keys" >> beam.MapTuple(lambda key, slab: (f"z{key.z}", slab))
        | beam.GroupByKey()
        | beam.FlatMapTuple(lambda _, slabs: [TimestampedValue((s.key, s), s.key.z) for s in slabs])
        | beam.WindowInto(FixedWindows(5))
        | beam.Filter(lambda pair, mean: mean > 0, beam.pvalue.AsSingleton(copied["average"]))
    )
    bright = theirs | "Bright" >> bv.ApplyStages(lambda v: v > 140)
    upper = theirs | "Upper" >> beam.Filter(lambda pair: pair[0].z >= DEPTH)
    lower = theirs | "Lower" >> beam.Filter(lambda pair: pair[0].z < DEPTH)
    halves = [
        some | f"Bright {k}" >> bv.ApplyStages(lambda v: v > 140)
        for k, some in enumerate((upper, lower))
    ]
    label = bv.LabelSlabs(cut, min_size=3)
    labels = tuple(halves) | beam.Flatten() | "Label" >> label
    _ = labels | "Labels" >> bv.WriteSlabs(tmp_path / "labels.zarr", chunks=(4, 10, 11))
    # One slab fails: it is reported, the others are written.
    good, bad = theirs | "Broken" >> bv.ApplyStages(broken).with_exception_handling()
    some = bv.WriteSlabs(tmp_path / "some.zarr", like=em > 0, partial=True, chunks=(4, 10, 11))
    paths, unwritten = good | "Some" >> some.with_exception_handling(threshold=0)
    assert_that(paths, equal_to([str(tmp_path / "some.zarr")]), "paths")
    assert_that(unwritten, equal_to([]), "none")
    told = bv.Failed(
        "ApplyStages", "", "[4:8, 0:10, 0:11]", "broken", "OSError", "this slab is cursed"
    )
    assert_that(bad, equal_to([told]), "told")
    return bright


def check(tmp_path, array, result, lineage=True):
    """The output equals scipy's, and the report is there."""
    want, _ = ndi.label(array > 140)
    keep = np.bincount(want.ravel()) >= 3
    keep[0] = False
    np.testing.assert_array_equal(
        bv.open(tmp_path / "labels.zarr"), np.where(keep, np.cumsum(keep), 0)[want]
    )
    written = (array > 140) & (np.arange(12) // 4 != 1)[:, None, None]
    np.testing.assert_array_equal(bv.open(tmp_path / "some.zarr"), written)
    totals = counted(result)
    assert totals["failed"] == 1 and totals["bytes_written"] >= 5 * array.nbytes // 3
    assert totals["slabs"] > 10 and totals["voxels"] > 3 * array.size
    if not lineage:
        return
    assert f"filesystem:{tmp_path}/in.zarr" in Lineage.query(result.metrics(), Lineage.SOURCE)
    assert {f"filesystem:{tmp_path}/{name}.zarr" for name in ("copy", "labels", "some")} <= (
        Lineage.query(result.metrics(), Lineage.SINK)
    )


def test_a_strangers_pipeline(tmp_path):
    array = membranes(SHAPE)
    p = beam.Pipeline("FnApiRunner")
    bright = strangers(tmp_path, array, p)
    # Not on engines: of numbers in windows, Prism as of 2.77 gives `assert_that` none.
    count = bright | beam.combiners.Count.Globally().without_defaults()
    assert_that(count, equal_to([2, 1]), "n")
    result = p.run()
    result.wait_until_finish()
    check(tmp_path, array, result)


class Invert(beam.DoFn):
    """A step that keeps a table for its worker, and changes copies of slabs."""

    def setup(self):
        self.table = np.arange(256, dtype="u1")[::-1].copy()

    def process(self, element):
        key, slab = element
        mine = slab.copy()
        mine.data[...] = self.table[mine.data]
        yield key, mine


class Sizes(beam.DoFn):
    """The voxels of each label in a slab of labels."""

    def process(self, element):
        _, slab = element
        labels, counts = np.unique(slab.voxels, return_counts=True)
        yield from ((k, n) for k, n in zip(labels.tolist(), counts.tolist(), strict=True) if k)


def test_slabs_through_own_steps_and_tables_joined_with_their_sums(tmp_path):
    array = membranes(SHAPE)
    em = stored(tmp_path, array, chunks=(4, 10, 11))
    read = bv.ReadSlabs(em, DEPTH, halo=1)
    with beam.Pipeline("FnApiRunner") as p:
        dark = p | read | beam.ParDo(Invert()) | bv.ApplyStages(lambda v: v > 115)
        labels = dark | bv.LabelSlabs(bv.SlabGrid(em, DEPTH))
        _ = labels | bv.WriteSlabs(tmp_path / "dark.zarr", chunks=(4, 10, 11))
        rows = labels | bv.RegionTable(read, properties=["area", "centroid"])
        joined = {
            "row": rows | beam.Map(lambda row: (int(row.label), row)),
            "size": labels | beam.ParDo(Sizes()) | beam.CombinePerKey(sum),
        } | beam.CoGroupByKey()
        found = joined | beam.MapTuple(lambda k, v: (k, [r.area for r in v["row"]], v["size"]))
        want, count = ndi.label(255 - array > 115)
        sizes = np.bincount(want.ravel())[1:].tolist()
        assert_that(found, equal_to([(k, [n], [n]) for k, n in enumerate(sizes, 1)]))
    np.testing.assert_array_equal(bv.open(tmp_path / "dark.zarr"), want)
    assert count > 2


def test_bytes_are_counted_that_steps_on_slabs_read(tmp_path):
    """Whole chunks of stored volumes, and no voxels of slabs."""
    em = stored(tmp_path, membranes(SHAPE), chunks=(4, 10, 11))
    bright = stored(tmp_path, membranes(SHAPE) > 140, "bright.zarr", chunks=(6, 10, 11))
    read = bv.ReadSlabs(em, depth=DEPTH, halo=((1, 0), (0, 0), (0, 0)))
    every = bv.ReadAll(depth=6)
    p = beam.Pipeline("FnApiRunner")
    slabs = p | "Slabs" >> read
    _ = slabs | "Add" >> bv.ApplyStages(lambda v: v + bright)
    _ = slabs | "Double" >> bv.ApplyStages(lambda v: v * 2)
    _ = slabs | "Sum" >> bv.MeasureSlabs(read, sum=lambda v: bv.sum(v, mask=bright))
    _ = p | beam.Create([em.node.source.name]) | "All" >> every
    _ = (
        p
        | "Again" >> beam.Create([em.node.source.name])
        | "Mean" >> bv.ComputeAll(lambda path: {"mean": bv.mean(bv.open(path))})
    )
    result = p.run()
    result.wait_until_finish()
    found = {}
    counters = result.metrics().query(MetricsFilter().with_name("bytes_read"))["counters"]
    for c in counters:
        step = c.key.step.partition("/")[0]
        found[step] = found.get(step, 0) + c.committed
    # The halo is in the chunk before. Slabs of 6 slices touch two chunks of 4, and slab 4:8 two of 6.
    chunk, other = 4 * 10 * 11, (1 + 2 + 1) * 6 * 10 * 11
    assert found == {
        "Slabs": 5 * chunk,
        "Add": other,
        "Sum": other,
        "All": 4 * chunk,
        "Mean": 3 * chunk,
    }


def test_what_is_counted(tmp_path):
    em = stored(tmp_path, membranes(SHAPE), chunks=(4, 10, 11))
    compute = bv.Compute((em + 1).to(tmp_path / "out.zarr", chunks=(4, 10, 11)), slab=(4, 10, 11))
    # As if a worker had died of its first slab.
    compute.session.journal.start(0, 0)
    p = beam.Pipeline("FnApiRunner")
    _ = p | compute
    result = p.run()
    result.wait_until_finish()
    assert {"slabs": 3, "voxels": 1320, "retries": 1}.items() <= counted(result).items()
    found = result.metrics().query(MetricsFilter().with_namespace("beam_volumes"))
    each = {d.key.metric.name: d.committed for d in found["distributions"]}
    assert each["bytes_written_per_slab"].sum == each["bytes_read_per_slab"].sum == 1320
    assert each["bytes_read_per_slab"].count == each["milliseconds_per_slab"].count == 3
    assert each["peak_memory_bytes"].min > 1 << 20


def measured(path):
    cells = bv.label(bv.open(path) > 0)
    return {"cells": cells.to(f"{path}.cells.zarr"), "count": cells.num_labels}


@pytest.mark.thorough
def test_two_hundred_volumes_with_dead_letters(tmp_path):
    arrays = np.random.default_rng(0).random((200, 6, 10, 12)) < 0.1
    paths = [str(tmp_path / f"{k:03d}.tif") for k in range(200)]
    for k, (path, array) in enumerate(zip(paths, arrays, strict=True)):
        if k % 40:
            tifffile.imwrite(path, array.astype("u1"))
        elif k:  # the first one is missing
            Path(path).write_bytes(b"junk")
    with beam.Pipeline("FnApiRunner") as p:
        each = bv.ComputeAll(measured, memory="2GiB", journal=None).with_exception_handling()
        good, bad = p | beam.Create(paths) | each
        counts = good | beam.MapTuple(lambda path, found: (path, int(found["count"])))
        want = {path: ndi.label(array) for path, array in zip(paths, arrays, strict=True)}
        bad_ones = paths[::40]
        wanted = [(path, n) for path, (_, n) in want.items() if path not in bad_ones]
        assert_that(counts, equal_to(wanted), "counts")
        dead = bad | beam.Map(lambda f: (f.volume, f.error))
        errors = ["FileNotFoundError", *["VolumeError"] * 4]
        assert_that(dead, equal_to([*zip(bad_ones, errors, strict=True)]), "dead")
    for path, _ in wanted:
        np.testing.assert_array_equal(bv.open(f"{path}.cells.zarr"), want[path][0])


def test_volumes_that_are_elements_and_those_that_cannot_be_opened(tmp_path):
    arrays = {name: membranes((k + 5, 6, 7), k) for k, name in enumerate("abc")}
    paths = [stored(tmp_path, a, f"{n}.zarr").node.source.name for n, a in arrays.items()]
    lost = str(tmp_path / "lost.zarr")
    with beam.Pipeline("FnApiRunner") as p:
        read = bv.ReadAll(depth=4, halo=1).with_exception_handling()
        slabs, bad = p | beam.Create([*paths, lost]) | read
        smooth = slabs | bv.ApplyStages(lambda v: bv.median_filter(v, 3))
        _ = smooth | bv.WriteSlabs(lambda name: f"{name.rstrip('/')}.out.zarr", chunks=(2, 6, 7))
        assert_that(bad | beam.Map(lambda f: (f.step, f.volume)), equal_to([("ReadAll", lost)]))
    for name, array in arrays.items():
        got = np.asarray(bv.open(tmp_path / f"{name}.zarr.out.zarr"))
        np.testing.assert_array_equal(got, ndi.median_filter(array, 3))
    with (
        pytest.raises(Exception, match=r"a.zarr.out.zarr/? is not complete: 42 of 210 voxels"),
        beam.Pipeline("FnApiRunner") as p,
    ):
        slabs = p | beam.Create(paths[:1]) | bv.ReadAll(depth=4)
        _ = (
            slabs
            | beam.Filter(lambda pair: pair[0].z == 0)
            | bv.WriteSlabs(lambda name: f"{name.rstrip('/')}.out.zarr", overwrite=True, chunks=2)
        )


def same(name):
    return name


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (
            "one.zarr",
            "slabs of one output are from different volumes: .*function of the volume's name",
        ),
        (same, "is also an input; write to another path, never in place"),
    ],
)
def test_volumes_that_would_be_written_over_one_another_or_in_place(tmp_path, path, says):
    arrays = [membranes((4, 6, 7), k) for k in range(2)]
    names = [stored(tmp_path, a, f"{k}.zarr").node.source.name for k, a in enumerate(arrays)]
    write = bv.WriteSlabs(path if callable(path) else tmp_path / path, overwrite=True, chunks=2)
    for shuffled in (False, True):
        with pytest.raises(Exception, match=says), beam.Pipeline("FnApiRunner") as p:
            slabs = p | beam.Create(names) | bv.ReadAll(depth=2)
            _ = (slabs | beam.Reshuffle() if shuffled else slabs) | write
    for name, array in zip(names, arrays, strict=True):
        np.testing.assert_array_equal(bv.open(name), array)


def test_what_a_transform_is_applied_to_and_what_it_leaves_alone(tmp_path):
    em = stored(tmp_path, membranes((4, 5, 6)))
    p = beam.Pipeline("FnApiRunner")
    one = p | beam.Create([1])
    for transform in (bv.ReadSlabs(em), bv.Compute(bv.mean(em))):
        with pytest.raises(TypeError, match="applied to a pipeline, or to a PCollection"):
            (one, one) | transform
    with pytest.raises(
        TypeError, match=r"Compute: memry='1GiB' is not a lazy .* and there is no option"
    ):
        bv.Compute(bv.mean(em), memry="1GiB")
    shown = DisplayData.create_from(bv.ReadSlabs(em, 2)).items
    assert {item.key: item.value for item in shown}["slabs"] == 2
    root = logging.getLogger()
    kept, root.handlers[:] = root.handlers[:], []
    try:
        given = beam.options.pipeline_options.PipelineOptions(["--job_name=mine"])
        root.handlers[:] = []
        options = pipeline_options(given)
        assert root.handlers == []
        options.view_as(beam.options.pipeline_options.DirectOptions).direct_num_workers = 7
        assert given.get_all_options()["direct_num_workers"] != 7
    finally:
        root.handlers[:] = kept
