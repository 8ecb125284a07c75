"""Slices that come out of order, late, twice, damaged or not at all: slabs equal the whole volume's."""

import os
from pathlib import Path

import apache_beam as beam
import imagecodecs
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.base.geometry import Grid
from beam_volumes.transforms.steps.watch import Kept, Needs, Pattern, Poll
from tests.transforms.trees import chunk_files, membranes

TestStream.__test__ = False  # for pytest, which would collect it
SHAPE, HOW = (11, 9, 10), {"chunks": (4, 9, 10)}


def write(folder, z, plane):
    """Write a slice under another name first, as a microscope should."""
    path = folder / f"s_{z + 1:03d}.png"
    other = folder / "unfinished"
    other.write_bytes(imagecodecs.png_encode(plane))
    os.replace(other, path)
    return str(path)


@pytest.fixture
def scan(tmp_path):
    folder = tmp_path / "scan"
    folder.mkdir()
    array = membranes(SHAPE)
    return array, [write(folder, z, plane) for z, plane in enumerate(array)]


def watch(tmp_path, **how):
    return bv.WatchSlices(tmp_path / "scan" / "s_{z}.png", SHAPE, "u1", 4, 1, first=1, **how)


def rewritten(path):
    """A slice that is written again when it is named so: slabs were made of it before."""
    if path.startswith("again "):
        path = path.removeprefix("again ")
        write(Path(path).parent, 1, np.full(SHAPE[1:], 7, "u1"))
    return path


@pytest.mark.parametrize("streaming", [True, False])
def test_it_is_the_batch_run_byte_by_byte(tmp_path, scan, streaming):
    array, paths = scan
    em = bv.open(array)
    bv.compute(
        bv.median_filter(em, 3).to(tmp_path / "want.zarr", **HOW),
        bv.label(em > 140).to(tmp_path / "labels.zarr", **HOW),
        runner=None,
    )
    order = [*np.random.default_rng(1).permutation(11), 3, 3, 8]
    came = [paths[z] for z in order]
    look = watch(tmp_path)
    other = str(tmp_path / "scan" / "notes.txt")
    if streaming:
        stream = TestStream().advance_watermark_to(0).add_elements([*came[:5], other])
        stream = stream.advance_watermark_to(100).add_elements(came[5:9])
        # Late, behind the watermark.
        stream = stream.add_elements([TimestampedValue(path, 3) for path in came[9:]])
        given = stream.advance_watermark_to_infinity()
        options = PipelineOptions(["--streaming"])
        p = beam.Pipeline("BundleBasedDirectRunner", options)
    else:
        given, p = beam.Create([*came, other]), beam.Pipeline("FnApiRunner")
    slabs, told = p | given | look
    smooth = slabs | "Median" >> bv.ApplyStages(lambda v: bv.median_filter(v, 3))
    paths = smooth | "Smooth" >> bv.WriteSlabs(tmp_path / "out.zarr", like=look.volume, **HOW)
    labels = slabs | "Bright" >> bv.ApplyStages(lambda v: v > 140) | bv.LabelSlabs(look)
    like = look.volume.astype("u4")
    _ = labels | "Labels" >> bv.WriteSlabs(tmp_path / "got.zarr", like=like, **HOW)
    assert_that(told, equal_to([]), "told")
    assert_that(paths, equal_to([str(tmp_path / "out.zarr")]), "paths")
    p.run().wait_until_finish()
    assert chunk_files(tmp_path / "out.zarr") == chunk_files(tmp_path / "want.zarr")
    assert chunk_files(tmp_path / "got.zarr") == chunk_files(tmp_path / "labels.zarr")


@pytest.mark.parametrize("streaming", [True, False])
def test_what_is_missing_damaged_or_written_again_is_told(tmp_path, scan, streaming):
    array, paths = scan
    # Slabs are [0:4], [4:8] and [8:11], and need a slice more on both sides.
    Path(paths[6]).write_bytes(Path(paths[6]).read_bytes()[:60])
    far = write(tmp_path / "scan", 98, array[0])
    expected = [
        ("", "come", "would be slice 98 of 11; check shape= and first="),
        ("[4:8", "read", "is damaged (60 bytes)"),
        ("[4:8", "wait", "is missing slice 6"),
        ("[8:1", "wait", "is missing slices 9, 10"),
    ]
    if streaming:
        expected.append(("[0:4", "use", "s_002.png, was written again after it was used"))
        stream = TestStream().advance_watermark_to(0).add_elements(paths[:5])
        stream = stream.advance_watermark_to(10).add_elements([f"again {paths[1]}"])
        stream = stream.add_elements([*paths[5:9], far])
        # This runner emits results of timers only if its watermark stops before the end of time.
        stream = stream.advance_watermark_to(int(float(GlobalWindow().max_timestamp())) - 60)
        given = stream.advance_watermark_to_infinity()
        p = beam.Pipeline("BundleBasedDirectRunner", PipelineOptions(["--streaming"]))
    else:
        given, p = beam.Create([*paths[:9], far]), beam.Pipeline("FnApiRunner")

    def check(found):
        assert len(found) == len(expected), found
        for box, stage, text in expected:
            assert any(b[:4] == box and s == stage and text in m for b, s, m in found), (
                text,
                found,
            )

    with p:
        slabs, told = p | given | beam.Map(rewritten) | watch(tmp_path)
        whole = slabs | beam.MapTuple(lambda key, slab: (key.z, slab.data.tobytes()))
        assert_that(whole, equal_to([(0, array[:5].tobytes())]), "slabs")
        assert_that(told | "Rows" >> beam.Map(lambda f: (f.box, f.stage, f.message)), check, "rows")


def test_looking_ends_when_all_slices_are_there_and_do_not_change(tmp_path, scan):
    _, paths = scan
    poll, glob = Poll(Pattern(str(tmp_path / "scan/s_{z}.png"), 1), 11), str(tmp_path / "scan/s_*")
    os.remove(paths[4])
    assert not poll(glob).is_complete and not poll(glob).is_complete
    write(tmp_path / "scan", 4, np.zeros(SHAPE[1:], "u1"))
    assert not poll(glob).is_complete
    result = poll(glob)
    assert result.is_complete and [o.value[0] for o in result.outputs] == list(range(11))


def test_which_slabs_need_a_slice():
    for depth, halo in ((4, (1, 2)), (1, (0, 3)), (20, (1, 1)), (3, (0, 0))):
        needs = Needs(Grid(SHAPE, (depth, 9, 10)), (halo, (0, 0), (0, 0)))
        for z in range(11):
            boxes = [needs.box(i) for i in range(len(needs.grid))]
            want = [i for i, b in enumerate(boxes) if b.start[0] <= z < b.stop[0]]
            assert list(needs.slabs(z)) == want
    with pytest.raises(ValueError, match=r"needs one \{z\}"):
        bv.WatchSlices("scan/*.png", SHAPE, "u1")


def test_what_a_runner_keeps_is_read_by_jobs_that_come_after(tmp_path):
    """The bytes are the same as in the first version, because an updated job must read them."""
    first = b'\x01{"came":[[3,"scan/\\u00e9.png",90,1.5],[4,"b",7,0.0]],"made":{"3":"00ff"}}'
    kept = Kept({3: (3, "scan/é.png", 90, 1.5), 4: (4, "b", 7, 0.0)}, {3: b"\x00\xff"})
    assert Kept.decoded(first) == kept and kept.encoded() == first
    assert Kept.decoded(b'\x01{"came":[],"made":null}') == Kept({}) == Kept.decoded(None)
    with pytest.raises(ValueError, match="version 2, and this program reads version 1"):
        Kept.decoded(b"\x02whatever")
    # No class of this package is in the coders of the state, or of what comes to the step that keeps it.
    p = beam.Pipeline()
    _ = p | watch(tmp_path)
    proto = p.to_runner_api()
    pardos = (t for t in proto.components.transforms.values() if "pardo" in t.spec.urn)
    (step,) = (t for t in pardos if "/Gather" in t.unique_name)
    payload = beam_runner_api_pb2.ParDoPayload.FromString(step.spec.payload)
    coders = [payload.state_specs["kept"].read_modify_write_spec.coder_id]
    coders += [proto.components.pcollections[c].coder_id for c in step.inputs.values()]
    while coders:
        coder = proto.components.coders[coders.pop()]
        assert "python" not in coder.spec.urn, coder
        coders += coder.component_coder_ids


def streamed(tmp_path, paths):
    """A streaming pipeline, and its slabs of slices that arrive before and behind the watermark."""
    stream = TestStream().advance_watermark_to(0).add_elements(paths[:5]).advance_watermark_to(9)
    stream = stream.add_elements([TimestampedValue(path, 3) for path in paths[5:]])
    p = beam.Pipeline("BundleBasedDirectRunner", PipelineOptions(["--streaming"]))
    return p, (p | stream.advance_watermark_to_infinity() | watch(tmp_path)).slabs


def side_inputs(pipeline):
    """The names of steps with side inputs, which Flink cannot keep in its checkpoints."""
    found = []

    class Finder(PipelineVisitor):
        def visit_transform(self, step):
            found.extend([step.full_label] if step.side_inputs else [])

    pipeline.visit(Finder())
    return found


def test_components_are_counted_in_streaming_without_side_inputs(tmp_path, scan):
    array, paths = scan
    p, slabs = streamed(tmp_path, paths)
    functions = {"count": lambda v: bv.label(v > 140).num_labels, "mean": bv.mean}
    found = slabs | bv.MeasureSlabs(watch(tmp_path), memory="1GiB", **functions)
    label = bv.LabelComponents(watch(tmp_path))
    bright = slabs | "Bright" >> bv.ApplyStages(lambda v: v > 140)
    merged = bright | label | bv.MergeEquivalences(label, memory="1GiB")
    count = ndimage.label(array > 140)[1]
    assert_that(found["count"], equal_to([count]), "count")
    assert_that(found["mean"], equal_to([bv.open(array).mean().compute()]), "mean")
    numbers = merged["numbers"] | beam.MapTuple(lambda _, found: found["count"])
    assert_that(numbers, equal_to([count]), "numbers")
    assert not [
        step for step in side_inputs(p) if not step.startswith(("count", "mean", "numbers"))
    ]
    p.run().wait_until_finish()


def test_components_that_do_not_fit_are_refused_in_streaming(tmp_path, scan):
    _, paths = scan
    p, slabs = streamed(tmp_path, paths)
    label = bv.LabelComponents(watch(tmp_path))
    bright = slabs | "Bright" >> bv.ApplyStages(lambda v: v > 140)
    _ = bright | label | bv.MergeEquivalences(label, memory="1 KB")
    with pytest.raises(Exception, match="merging the slabs combines"):
        p.run().wait_until_finish()
