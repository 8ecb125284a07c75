"""A volume that is being acquired, on Prism: nothing is lost, and nothing comes twice."""

import os
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


def check(folder):
    assert chunk_files(folder / "smooth.zarr") == chunk_files(folder / "want.zarr")
    assert chunk_files(folder / "labels.zarr") == chunk_files(folder / "want-labels.zarr")
    assert not (folder / "told").exists()


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
