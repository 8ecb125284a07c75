"""The examples, as programs and on data of one's own."""

import csv
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from imagecodecs import imread
from scipy import ndimage as ndi

import beam_volumes as bv
from beam_volumes.runs import Journal
from tests.transforms.fusion import recording
from tests.transforms.trees import membranes
from tests.transforms.trees import stored as written

EXAMPLES = Path(__file__).parent.parent / "examples"


#: Labels need all slices, and these slabs cannot be read again, so they wait for their labels.
WAITING = "Cells/Relabel/Meet/All"


@pytest.fixture(autouse=True)
def stored(monkeypatch):
    """The examples' runners store no voxels between steps."""
    found = recording(monkeypatch)
    yield
    assert found and {f for some in found for f in some if not f.startswith(WAITING)} == set()


@pytest.fixture
def program(tmp_path, monkeypatch, capsys):
    """Run an example as a program: its functions, and its output."""

    def run(name):
        monkeypatch.setattr(sys, "argv", [name, str(tmp_path)])
        found = runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return found, capsys.readouterr().out

    return run


def test_exposure(program, tmp_path):
    found, said = program("exposure.py")
    with open(tmp_path / "exposures.csv") as file:
        exposures = np.array([float(row["exposure"]) for row in csv.DictReader(file)], "f4")
    stack = np.asarray(bv.open(tmp_path / "stack.zarr"))
    want = ndi.median_filter(stack / exposures[:, None, None], 3)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "even.zarr")), want)
    assert found["parse"]("3,0.5") == (3, 0.5) and "even.zarr: means" in said


def test_bright_cells(program, tmp_path):
    found, said = program("bright_cells.py")
    em = bv.open(tmp_path / "volume.zarr")
    cells = np.asarray(bv.label(bv.gaussian_filter(em, 1) > 140))
    values = np.asarray(em)
    labels = np.arange(1, cells.max() + 1)
    sizes, means = ndi.sum(cells > 0, cells, labels), ndi.mean(values, cells, labels)
    kept = (sizes >= 50) & (means >= 175)
    assert 2 < kept.sum() < len(labels)
    table = np.concatenate([[0], np.where(kept, means.round(), 0)]).astype("u1")
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "bright.zarr")), table[cells])
    assert str(np.unique(table)[1:].tolist()) in said
    found["run"](tmp_path / "volume.zarr", tmp_path / "none.zarr", 140, 10**6, 0)
    assert not np.asarray(bv.open(tmp_path / "none.zarr")).any()


def classes_of(folder):
    """The rows that the example writes: cells with area and class, and the sum of areas of each class."""
    labels, count = ndi.label(np.asarray(bv.open(folder / "cells.zarr")) > 100)
    areas = np.bincount(labels.ravel())[1:].tolist()
    # Balls and rods alternate, and a ball has more voxels.
    cells = [[k, area, float(area < max(areas))] for k, area in enumerate(areas, 1)]
    assert count == 144 and {kind for *_, kind in cells} == {0, 1}
    return cells, [[k, sum(a for _, a, kind in cells if kind == k)] for k in (0, 1)]


def test_classify(program, tmp_path):
    found, said = program("classify.py")
    cells, sums = classes_of(tmp_path)
    (path,) = tmp_path.glob("kinds.csv-*")
    lines = sorted([*map(float, line.split(","))] for line in path.read_text().splitlines()[1:])
    assert lines == cells
    assert said == "kind,area\n" + "".join(f"{k},{area:.1f}\n" for k, area in sums) + "\n"
    # A crop has the cell in its middle, and zeros outside of the volume.
    em = np.asarray(bv.open(tmp_path / "cells.zarr"))
    row = SimpleNamespace(label=3, centroid_0=1.2, centroid_1=94.6, centroid_2=50)
    want = np.pad(em, 6)[1 + 2 : 1 + 10, 95:107, 50:62]
    label, crop = found["crop"](row, found["padded"](bv.open(tmp_path / "cells.zarr")))
    assert label == 3 and np.array_equal(crop, want.ravel()) and crop.any()


def test_screening(program, tmp_path):
    found, said = program("screening.py")
    rows = {row["volume"]: row for row in csv.DictReader(said.splitlines()[:4])}
    for k in range(3):
        em = bv.open(tmp_path / f"well{k}.zarr")
        smooth = bv.gaussian_filter(em, 1)
        mask = np.asarray(bv.remove_small_objects(smooth > bv.percentile(smooth, 90), min_size=20))
        want, count = ndi.label(mask)
        row = rows[f"well{k}"]
        assert int(row["cells"]) == count > 1
        assert row["mean_area"] == f"{mask.sum() / count:.1f}"
        np.testing.assert_array_equal(np.asarray(bv.open(row["labels"])), want)
    assert "lost.zarr,'FileNotFoundError" in said
    # A second pipeline of that name computes the volume that is new, and no other.
    journal = Journal.open(tmp_path / "well0.cells.ome.zarr.run")
    begun = journal.attempts_of(0)
    written(tmp_path, membranes(), "lost.zarr")
    paths = [str(tmp_path / f"{name}.zarr") for name in ("well0", "well1", "well2", "lost")]
    found["run"](paths, str(tmp_path / "again"), "first screen")
    again = (tmp_path / "again.csv").read_text().splitlines()
    assert set(said.splitlines()[:4]) < set(again) and len(again) == 5
    assert journal.attempts_of(0) == begun
    assert not (tmp_path / "again.errors.csv").read_text()


def test_acquisition(tmp_path, capsys):
    found = runpy.run_path(str(EXAMPLES / "acquisition.py"))
    found["main"](tmp_path, ["--runner=FnApiRunner"], (12, 21, 32))
    read = [imread(path) for path in sorted((tmp_path / "scan").glob("slice_*.png"))]
    smooth = ndi.median_filter(np.stack(read), 3)
    np.testing.assert_array_equal(bv.open(tmp_path / "smooth.zarr"), smooth)
    np.testing.assert_array_equal(bv.open(tmp_path / "preview.zarr"), smooth[:, ::2, ::2])
    labels, _ = ndi.label(smooth > 140)
    sizes = np.bincount(labels.ravel())[1:]
    cells = np.asarray(bv.open(tmp_path / "cells.zarr"))
    assert (np.bincount(cells.ravel())[1:] == sizes[sizes >= 20]).all() and cells.max() > 0
    rows = [line.split(",") for line in (tmp_path / "cells.csv").read_text().splitlines()]
    assert sorted(float(row[1]) for row in rows) == sorted(sizes[sizes >= 20])
    assert f"{len(rows)} cells" in capsys.readouterr().out
