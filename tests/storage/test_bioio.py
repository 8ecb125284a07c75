"""Files that bioio opens, if it is asked to."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.storage.inputs.opening import open_source

tifffile = pytest.importorskip("tifffile")


def write(path, shape, axes, **how):
    array = np.random.default_rng(1).integers(0, 250, shape).astype("u2")
    tifffile.imwrite(path, array, metadata={"axes": axes}, photometric="minisblack", **how)
    return array


def test_it_is_named_where_nothing_else_reads_a_file(tmp_path):
    (tmp_path / "a.xyz").write_bytes(b"what is this")
    with pytest.raises(ValueError, match='reader="bioio"'):
        bv.open(tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="reader='bioformats'"):
        bv.open(tmp_path / "a.xyz", reader="bioformats")
    with pytest.raises(FileNotFoundError):
        bv.open(tmp_path / "b.xyz", reader="bioio")


def test_without_bioio(tmp_path, monkeypatch):
    write(tmp_path / "a.tif", (2, 3, 4), "ZYX")
    monkeypatch.setitem(__import__("sys").modules, "bioio", None)
    with pytest.raises(ValueError, match=r"pip install 'beam-volumes\[bioio\]'"):
        bv.open(tmp_path / "a.tif", reader="bioio")


def test_planes(tmp_path):
    pytest.importorskip("bioio")
    pytest.importorskip("bioio_tifffile")
    path = tmp_path / "a.tif"
    array = write(path, (2, 3, 4, 5, 6), "TCZYX")
    volume = bv.open(path, reader="bioio", index={"t": 1})
    assert volume.dtype == "u2" and volume.axes == ("c", "z", "y", "x")
    assert np.array_equal(np.asarray(volume), array[1])
    assert np.array_equal(np.asarray(volume[:, 1:3, 2:4]), array[1, :, 1:3, 2:4])
    source = open_source(path, reader="bioio", index={"t": 0, "c": 2})
    source = pickle.loads(pickle.dumps(source))
    assert np.array_equal(source.read(), array[0, 2])
    tifffile.imwrite(tmp_path / "rgb.tif", array[0, 0, :3].transpose(1, 2, 0), photometric="rgb")
    colours = bv.open(tmp_path / "rgb.tif", reader="bioio")
    assert colours.channels == ("red", "green", "blue")
    assert np.array_equal(np.asarray(colours).squeeze(), array[0, 0, :3])
    (tmp_path / "b.tif").write_bytes(b"II*\0nonsense")
    with pytest.raises(OSError, match="bioio cannot read it"):
        bv.open(tmp_path / "b.tif", reader="bioio")
