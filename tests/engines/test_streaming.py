"""A volume that is being acquired, on Flink with checkpoints and on Prism: all as the batch run gives it."""

import os
import signal
import threading
import time
from pathlib import Path

import apache_beam as beam
import imagecodecs
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.storage.places.ownership import UNFINISHED
from tests.engines.conftest import prism
from tests.transforms.trees import chunk_files, membranes

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

SHAPE, DEPTH, LOST = (20, 24, 28), 4, 9
PROPERTIES = ["area", "centroid"]
HOW = {"chunks": (DEPTH, 24, 28)}
#: What a streaming job needs of Flink: docs/how-to/flink.md explains why.
FLINK = ["--checkpointing_interval=1000", "--finish_bundle_before_checkpointing"]
#: And of Prism.
PRISM = ["--experiments=prism_disable_sdf_split"]


def write(folder, z, plane):
    """Write a slice under another name first."""
    other = folder / f"unfinished-{z}"
    other.write_bytes(imagecodecs.png_encode(plane))
    os.replace(other, folder / f"s_{z:03d}.png")


def note(pair, path):
    with open(path, "a") as file:
        file.write(f"{pair[0].z}\n")
    return pair


@pytest.fixture(autouse=True)
def cancelled(request):
    """Free the slots of the cluster for the next test."""
    running = "cluster" in request.fixturenames and request.getfixturevalue("cluster")
    yield
    if running:
        running.cancel()


@pytest.fixture
def scan(tmp_path):
    """A folder, and slices for it in no order; one of them never comes."""
    (tmp_path / "scan").mkdir()
    array = membranes(SHAPE)
    return (
        tmp_path,
        array,
        [z for z in np.random.default_rng(2).permutation(len(array)) if z != LOST],
    )


MEASURED = {
    "mean": bv.mean,
    "high": lambda v: bv.percentile(bv.median_filter(v, 3), 99),
    "bright": lambda v: bv.label(v > 140).num_labels,
}


def measure(watch):
    return bv.MeasureSlabs(watch, **MEASURED)


def keep(value, path):
    """Keep the elements, which are the same if they come again."""
    path = Path(path)
    other = path.parents[1] / f"{path.name}.{os.getpid()}"  # not where files are counted
    other.write_text(repr(value))
    os.replace(other, path)


def pipeline(folder, options):
    watch = bv.WatchSlices(
        folder / "scan" / "s_{z}.png",
        SHAPE,
        "u1",
        DEPTH,
        1,
        interval=0.2,
        end_marker=folder / "scan" / "ended",
        missing="fill",
    )
    p = beam.Pipeline(options=PipelineOptions([*options, "--streaming"]))
    slabs, told = p | watch
    smooth = slabs | "Median" >> bv.ApplyStages(lambda v: bv.median_filter(v, 3))
    noted = smooth | "Note" >> beam.Map(note, str(folder / "smooth.txt")).with_output_types(
        smooth.element_type
    )
    _ = noted | "Smooth" >> bv.WriteSlabs(folder / "smooth.zarr", like=watch.volume, **HOW)
    labels = slabs | "Bright" >> bv.ApplyStages(lambda v: v > 140) | bv.LabelSlabs(watch)
    like = watch.volume.astype("u4")
    _ = labels | "Labels" >> bv.WriteSlabs(folder / "labels.zarr", like=like, **HOW)
    table = labels | bv.RegionTable(watch, properties=PROPERTIES)
    (folder / "table").mkdir()
    row = "Keep rows" >> beam.Map(lambda row: keep(tuple(row), folder / "table" / str(row.label)))
    _ = table | row
    for name, number in (slabs | measure(watch)).items():
        _ = number | f"Keep {name}" >> beam.Map(keep, str(folder / name))
    (folder / "told").mkdir()
    _ = told | "Told" >> beam.Map(lambda row: keep(row.message, folder / "told" / row.box))
    return p


def until(what, seconds=600):
    """Wait for what a loaded machine may take long for."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def written(folder, name):
    path = folder / f"{name}.zarr"
    return set(chunk_files(path)) if (path / "zarr.json").exists() else set()


def ended(folder):
    (folder / "scan" / "ended").touch()


def all_there(folder):
    """Wait for all results; the job would be cancelled before it has written them otherwise."""
    for name in ("labels", "smooth"):
        until(lambda name=name: len(written(folder, name)) == 5)
        # The note goes last: a volume that is read before is refused as changed.
        document = folder / f"{name}.zarr" / "zarr.json"
        until(lambda document=document: UNFINISHED not in document.read_text())
    rows = int(np.asarray(bv.open(folder / "labels.zarr")).max())
    until(lambda: len(list((folder / "table").iterdir())) == rows)
    for name in MEASURED:
        until((folder / name).exists)
    until(lambda: any((folder / "told").iterdir()))


def check(folder):
    """All is what the batch run gives of the folder as it is in the end, byte by byte."""
    em = bv.open(str(folder / "scan" / "s_*.png"), missing="fill")
    labels = bv.label(em > 140)
    bv.compute(
        bv.median_filter(em, 3).to(folder / "want.zarr", **HOW),
        labels.to(folder / "want-labels.zarr", **HOW),
        runner=None,
    )
    assert chunk_files(folder / "smooth.zarr") == chunk_files(folder / "want.zarr")
    assert chunk_files(folder / "labels.zarr") == chunk_files(folder / "want-labels.zarr")
    table = bv.regionprops_table(labels, properties=PROPERTIES).compute()
    rows = {str(row["label"]): repr((*row.values(),)) for row in table.to_pylist()}
    assert {row.name: row.read_text() for row in (folder / "table").iterdir()} == rows
    for name, function in MEASURED.items():
        assert (folder / name).read_text() == repr(np.asarray(function(em).compute()).item())
    told = {told.name: told.read_text() for told in (folder / "told").iterdir()}
    assert told == {"[8:12, 0:24, 0:28]": repr(f"is missing slice {LOST}, read as zeros")}


def test_flink_taskmanagers_killed_twice_while_slices_come(cluster, scan):
    folder, array, order = scan
    options = [*cluster.options, *FLINK, "--job_name=acquired"]

    def come(first, last):
        for z in order:
            if first <= z < last:
                write(folder / "scan", z, array[z])

    def kill(number):
        before = cluster.job("acquired")["timestamps"]["RESTARTING"]
        os.kill(cluster.taskmanager(number), signal.SIGKILL)
        until(lambda: cluster.job("acquired")["timestamps"]["RESTARTING"] > before)
        cluster.taskmanager(number)

    result = pipeline(folder, options).run()
    try:
        # Two slabs have all their slices; some of them come twice.
        come(0, 9)
        come(0, 6)
        until(lambda: written(folder, "smooth"))
        kill(1)
        # One more slab has them; it is written by those that were started again.
        come(11, 17)
        until(lambda: len(written(folder, "smooth")) > 2)
        kill(2)
        come(9, 20)
        ended(folder)
        all_there(folder)
    finally:
        result.cancel()
    check(folder)
    slabs = [int(line) for line in (folder / "smooth.txt").read_text().split()]
    # Since the last checkpoint steps are repeated: a slab may be computed again, and is written the same.
    assert set(slabs) == set(range(0, 20, DEPTH))
    assert len(slabs) <= 5 * (1 + cluster.restarts("acquired"))


def test_prism_while_slices_come(scan, tmp_path):
    folder, array, order = scan

    def acquire():
        for z in order:
            write(folder / "scan", z, array[z])
            time.sleep(0.02)
        ended(folder)

    with prism(tmp_path) as engine:
        acquiring = threading.Thread(target=acquire)
        acquiring.start()
        result = pipeline(
            folder, [f"--runner={engine.how['runner']}", *engine.how["options"], *PRISM]
        ).run()
        acquiring.join()
        assert result.wait_until_finish() == "DONE"
    check(folder)
    slabs = sorted(map(int, (folder / "smooth.txt").read_text().split()))
    assert slabs == list(range(0, 20, DEPTH))


def smooth_and_labels(pipeline, folder, name, shape, **options):
    """Watch the slices of a volume; write them smoothed, and the labels of what is bright."""
    watch = bv.WatchSlices(folder / name / "s_{z}.png", shape, "u1", DEPTH, 1, interval=0.2)
    how = {"chunks": (DEPTH, *shape[1:]), **options}
    slabs, _ = pipeline | f"Watch {name}" >> watch
    smooth = slabs | f"Median {name}" >> bv.ApplyStages(lambda v: bv.median_filter(v, 3))
    out = bv.WriteSlabs(folder / f"{name}.zarr", like=watch.volume, **how)
    _ = smooth | f"Write {name}" >> out
    bright = slabs | f"Bright {name}" >> bv.ApplyStages(lambda v: v > 140)
    labels = bright | f"Label {name}" >> bv.LabelSlabs(watch)
    out = bv.WriteSlabs(folder / f"{name}-labels.zarr", like=watch.volume.astype("u4"), **how)
    _ = labels | f"Write labels {name}" >> out


def finished(folder, name):
    documents = [folder / f"{output}.zarr" / "zarr.json" for output in (name, f"{name}-labels")]
    return all(d.exists() and UNFINISHED not in d.read_text() for d in documents)


def check_smooth_and_labels(folder, name, array):
    smooth, labels = (bv.open(folder / f"{output}.zarr") for output in (name, f"{name}-labels"))
    np.testing.assert_array_equal(smooth, np.asarray(bv.median_filter(array, 3)))
    np.testing.assert_array_equal(labels, ndimage.label(array > 140)[0])


def test_flink_two_volumes_at_once(cluster, tmp_path):
    """One pipeline watches two folders; slices of both come in turns, and one volume ends first."""
    arrays = {"left": membranes(SHAPE), "right": membranes((12, 20, 16), seed=5)}
    options = [*cluster.options, *FLINK, "--streaming", "--job_name=two-volumes"]
    p = beam.Pipeline(options=PipelineOptions(options))
    for name, array in arrays.items():
        (tmp_path / name).mkdir()
        smooth_and_labels(p, tmp_path, name, array.shape)
    result = p.run()
    try:
        for z in range(len(arrays["right"])):
            for name, array in arrays.items():
                write(tmp_path / name, z, array[z])
        until(lambda: finished(tmp_path, "right"))
        assert not finished(tmp_path, "left")
        for z in range(len(arrays["right"]), len(arrays["left"])):
            write(tmp_path / "left", z, arrays["left"][z])
        until(lambda: finished(tmp_path, "left"))
    finally:
        result.cancel()
    for name, array in arrays.items():
        check_smooth_and_labels(tmp_path, name, array)
