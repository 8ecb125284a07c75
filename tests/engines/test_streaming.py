"""A volume that is being acquired, on Flink with checkpoints and on Prism: nothing is lost or comes twice."""

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

import beam_volumes as bv
from tests.engines.conftest import prism
from tests.transforms.trees import chunk_files, membranes

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

SHAPE, DEPTH = (20, 24, 28), 4
HOW = {"chunks": (DEPTH, 24, 28)}
#: What a streaming job needs of Flink: docs/runners.md says why.
FLINK = ["--checkpointing_interval=1000", "--finish_bundle_before_checkpointing"]


def write(folder, z, plane):
    """Write a slice under another name first."""
    other = folder / f"unfinished-{z}"
    other.write_bytes(imagecodecs.png_encode(plane))
    os.replace(other, folder / f"s_{z:03d}.png")


def note(pair, path):
    with open(path, "a") as file:
        file.write(f"{pair[0].z}\n")
    return pair


@pytest.fixture
def scan(tmp_path):
    """Slices in no order, the wanted outputs, and where those of the stream go."""
    (tmp_path / "scan").mkdir()
    array = membranes(SHAPE)
    em = bv.open(array)
    bv.compute(
        bv.median_filter(em, 3).to(tmp_path / "want.zarr", **HOW),
        bv.label(em > 140).to(tmp_path / "want-labels.zarr", **HOW),
        runner=None,
    )
    return tmp_path, array, np.random.default_rng(2).permutation(len(array))


def pipeline(folder, options):
    watch = bv.WatchSlices(folder / "scan" / "s_{z}.png", SHAPE, "u1", DEPTH, 1, interval=0.2)
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
    _ = told | beam.Map(lambda row: Path(folder, "told").write_text(row.message))
    return p


def until(what, seconds=300):
    """Wait for what a loaded machine may take long for."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def written(folder, name):
    path = folder / f"{name}.zarr"
    return set(chunk_files(path)) if (path / "zarr.json").exists() else set()


def check(folder):
    assert chunk_files(folder / "smooth.zarr") == chunk_files(folder / "want.zarr")
    assert chunk_files(folder / "labels.zarr") == chunk_files(folder / "want-labels.zarr")
    assert not (folder / "told").exists()


def test_flink_a_taskmanager_killed_while_slices_come(cluster, scan):
    folder, array, order = scan
    options = [*cluster.options, *FLINK, "--job_name=acquired"]
    victim = cluster.taskmanager(1)
    result = pipeline(folder, options).run()
    try:
        # Some slabs are written; then a TaskManager dies, and slices go on coming, some of them twice.
        for z in order[:14]:
            write(folder / "scan", z, array[z])
        for z in range(6):
            write(folder / "scan", z, array[z])
        until(lambda: written(folder, "smooth"))
        os.kill(victim, signal.SIGKILL)
        cluster.taskmanager(1)
        for z in order[14:]:
            write(folder / "scan", z, array[z])
        until(lambda: written(folder, "labels") == set(chunk_files(folder / "want-labels.zarr")))
        until(lambda: written(folder, "smooth") == set(chunk_files(folder / "want.zarr")))
        said = cluster.job("acquired")
        assert said["timestamps"]["RESTARTING"] > 0
    finally:
        result.cancel()
    check(folder)
    slabs = [int(line) for line in (folder / "smooth.txt").read_text().split()]
    # Since the last checkpoint steps are repeated: a slab may be computed again, and is written the same.
    assert set(slabs) == set(range(0, 20, DEPTH)) and len(slabs) <= 2 * 5


def test_prism_while_slices_come(scan, tmp_path):
    folder, array, order = scan

    def acquire():
        for z in order:
            write(folder / "scan", z, array[z])
            time.sleep(0.02)

    with prism(tmp_path) as engine:
        acquiring = threading.Thread(target=acquire)
        acquiring.start()
        result = pipeline(
            folder, [f"--runner={engine.how['runner']}", *engine.how["options"]]
        ).run()
        acquiring.join()
        assert result.wait_until_finish() == "DONE"
    check(folder)
    slabs = sorted(map(int, (folder / "smooth.txt").read_text().split()))
    assert slabs == list(range(0, 20, DEPTH))
