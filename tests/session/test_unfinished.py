"""Opening an unfinished output warns, and names the command that continues the run."""

import json
import os
import re
import warnings

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.runs.journal import Journal
from beam_volumes.session import merging, slabs
from beam_volumes.show.napari_reader import get_reader
from beam_volumes.storage.formats.tables.parquet import ParquetTable
from beam_volumes.storage.outputs import sink as sinks
from beam_volumes.storage.outputs.sink import Sink

VOXELS = 1 + np.arange(8 * 8 * 8, dtype="u2").reshape(8, 8, 8) % 251
QUIET = {"runner": None, "progress": False}
#: Those that look whole while they are not.
THERE = {
    "a.zarr": {"chunks": (2, 8, 8)},
    "v2.zarr": {"chunks": (2, 8, 8), "zarr_version": 2},
    "a.ome.zarr": {"chunks": (2, 8, 8), "levels": 2},
    "a.n5": {"chunks": (2, 8, 8)},
    "a.precomputed": {"chunks": (2, 8, 8)},
    "slices/*.png": {},
    "slices/s*.tif": {},
    "a.npy": {"chunks": (2, 8, 8)},
    "a.tif": {},
    "a.mrc": {"chunks": (2, 8, 8)},
    "a.nrrd": {"chunks": (2, 8, 8)},
    "a.mha": {"chunks": (2, 8, 8)},
}
#: Formats without files before the output is complete.
ASSEMBLED = {"a.tif": {"codec": "zlib"}, "a.h5": {}, "a.nii.gz": {}}


def interrupted(monkeypatch, target, at=1, **options):
    sweep_slab = slabs.sweep_slab

    def sweep(session, pass_index, index, *args):
        if index >= at:
            raise KeyboardInterrupt
        return sweep_slab(session, pass_index, index, *args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as stopped:
        patch.setattr(slabs, "sweep_slab", sweep)
        bv.compute(target, workers=1, **QUIET, **options)
    return str(stopped.value)


def told(path, open_=bv.open):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        open_(str(path))
    return [str(w.message) for w in found if w.category is bv.UnfinishedWarning]


def target_of(tmp_path, out, voxels=VOXELS):
    return bv.open(voxels.astype("i2") if out.endswith("mrc") else voxels).to(
        tmp_path / out, **THERE.get(out, {})
    )


@pytest.mark.parametrize("out", THERE)
def test_an_unfinished_output_does_not_open_in_silence(tmp_path, monkeypatch, out):
    path = (tmp_path / out).parent if "*" in out else tmp_path / out
    slab = (1 if "*" in out else 4 if "levels" in THERE[out] else 2, 8, 8)
    slab, at = (None, 0) if out == "a.tif" else (slab, 1)
    interrupted(monkeypatch, target_of(tmp_path, out), at, slab=slab)
    (said,) = told(path)
    how = f"has not ended; to continue, run beam-volumes resume {path}"
    assert re.fullmatch(
        rf"{re.escape(str(path))} is unfinished: its run \w+ {re.escape(how)}", said
    )
    bv.compute(target_of(tmp_path, out), workers=1, slab=slab, resume=True, **QUIET)
    assert not told(path)
    said = interrupted(monkeypatch, target_of(tmp_path, out), at, slab=slab, overwrite=True)
    assert f"the previous content of {path} was deleted" in said
    (said,) = told(path)
    assert "the previous output was deleted" in said
    bv.compute(target_of(tmp_path, out), workers=1, overwrite=True, **QUIET)
    assert not told(path)
    np.testing.assert_array_equal(bv.open(path), VOXELS)


@pytest.mark.parametrize("out", ASSEMBLED)
def test_an_output_that_is_not_there_yet_says_what_writes_it(tmp_path, monkeypatch, out):
    target = bv.open(VOXELS).to(tmp_path / out, **ASSEMBLED[out])
    bv.compute(target, **QUIET)
    interrupted(monkeypatch, target, at=0, overwrite=True)
    words = r"does not exist.*; .* is unfinished: its run \w+ .*previous output was deleted; to continue, run"
    with pytest.raises(FileNotFoundError, match=words):
        bv.open(tmp_path / out)
    bv.compute(target, resume=True, **QUIET)
    assert not told(tmp_path / out)


@pytest.mark.parametrize("out", ["a.zarr", "a.n5", "a.precomputed", "slices/*.png"])
def test_a_run_that_stops_while_it_clears_an_output_says_that_this_is_gone(
    tmp_path, monkeypatch, out
):
    path = (tmp_path / out).parent if "*" in out else tmp_path / out
    bv.compute(target_of(tmp_path, out), **QUIET)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Sink, "_make_rest", stop)
        bv.compute(target_of(tmp_path, out), overwrite=True, **QUIET)
    with pytest.raises(
        (ValueError, OSError), match=r"is unfinished: .* the previous output was deleted"
    ):
        bv.open(path)


def test_parts_of_an_unfinished_output_say_so(tmp_path, monkeypatch):
    interrupted(monkeypatch, target_of(tmp_path, "a.ome.zarr"), slab=(4, 8, 8))
    interrupted(monkeypatch, target_of(tmp_path, "slices/*.png"), slab=(1, 8, 8))
    spec = {"driver": "zarr3", "kvstore": f"file://{tmp_path}/a.ome.zarr/1/"}
    for path in (tmp_path / "a.ome.zarr" / "0", tmp_path / "slices" / "0.png"):
        assert len(told(path)) == 1
    assert len(told(tmp_path / "slices" / "*.png")) == 1
    assert len(told("", lambda _: bv.open([tmp_path / "slices" / "0.png"] * 3))) == 1
    assert len(told("", lambda _: bv.open(spec))) == 1
    assert len(told(tmp_path / "a.ome.zarr", lambda path: bv.open(path, level=1))) == 1


def test_every_output_of_a_run_says_where_it_is_continued(tmp_path, monkeypatch):
    volume = bv.open(VOXELS)
    targets = [volume.to(tmp_path / "a.zarr"), (volume + 1).to(tmp_path / "b.npy")]
    interrupted(monkeypatch, targets, at=0)
    assert told(tmp_path / "b.npy")[0].endswith(
        f"to continue, run beam-volumes resume {tmp_path / 'a.zarr'}"
    )
    bv.compute(targets, overwrite=True, **QUIET)
    interrupted(monkeypatch, targets, at=0, overwrite=True, journal=tmp_path / "j")
    assert told(tmp_path / "b.npy")[0].endswith(
        f"to continue, run beam-volumes resume {tmp_path / 'j'}/"
    )


def test_an_unfinished_table_does_not_open_in_silence(tmp_path, monkeypatch):
    table = bv.regionprops_table(bv.open(VOXELS), properties=["label", "num_pixels"])

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(merging, "finish_merge", stop)
        bv.compute(table.to(tmp_path / "t.parquet"), **QUIET)
    (said,) = told(tmp_path / "t.parquet", ParquetTable.of)
    assert "t.parquet is unfinished" in said
    assert len(told("", lambda _: bv.relabel(VOXELS, tmp_path / "t.parquet", missing="keep"))) > 0
    bv.compute(table.to(tmp_path / "t.parquet"), resume=True, **QUIET)
    assert not told(tmp_path / "t.parquet", ParquetTable.of)


@pytest.mark.filterwarnings("always")
def test_the_command_line_and_napari_warn_in_one_line(tmp_path, monkeypatch, capsys):
    interrupted(monkeypatch, target_of(tmp_path, "a.zarr"), slab=(2, 8, 8))
    path = str(tmp_path / "a.zarr")
    assert main(["info", path]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert said[0].startswith(f"beam-volumes: warning: {path} is unfinished: its run ")
    assert told(path, lambda p: get_reader(p)(p))


def test_what_an_output_says_is_shown_and_not_obeyed(tmp_path):
    """A file may contain anything: its name for the run's place is quoted, and made printable."""
    bv.compute(target_of(tmp_path, "a.zarr"), **QUIET)
    document = json.loads((tmp_path / "a.zarr" / "zarr.json").read_text())
    how = {"start": "x; rm -rf /\n\x1b[2J", "by": "resume", "replaced": False}
    document["attributes"]["beam_volumes"] = {"run": "r", "unfinished": how}
    (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(document))
    (said,) = told(tmp_path / "a.zarr")
    assert "resume 'x; rm -rf /" in said
    assert "\n" not in said and "\x1b" not in said
    for wrong in ([], {"unfinished": 1}, {"unfinished": {}}, None):
        document["attributes"]["beam_volumes"] = wrong
        (tmp_path / "a.zarr" / "zarr.json").write_text(json.dumps(document))
        assert not told(tmp_path / "a.zarr")


def test_whole_outputs_have_no_note_of_it(tmp_path):
    bv.compute(target_of(tmp_path, "a.zarr"), **QUIET)
    assert b"unfinished" not in (tmp_path / "a.zarr" / "zarr.json").read_bytes()
    assert os.path.exists(tmp_path / "a.zarr.run")
    assert sinks.UNFINISHED == "unfinished"


def test_the_manifest_is_not_read_for_each_output(tmp_path, monkeypatch):
    load, read = Journal.load, []
    monkeypatch.setattr(Journal, "load", lambda place: read.append(place) or load(place))
    counts = []
    for n in (1, 3):
        targets = [(bv.open(VOXELS) + k).to(tmp_path / f"{n}-{k}.zarr") for k in range(n)]
        read.clear()
        bv.compute(targets, **QUIET)
        counts.append(len(read))
    assert counts[0] == counts[1] <= 4
