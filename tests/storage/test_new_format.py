"""A new format is one module and one line: here are three, which nothing else knows of.

One keeps each unit in a file of its own. One is a single file, put together of its units at the end. One is a
single file that units are written into.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.base.space import Space
from beam_volumes.cli.options import opened, opening
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage.formats import registry
from beam_volumes.storage.formats.format import WHOLE, Format, Layout, WritableFormat
from beam_volumes.storage.inputs.opening import reopened
from beam_volumes.storage.places.context import context
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.single_file import put_together
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source, digest

# -- the first format: everything that the package has to be told of it ------------------------------


class Npys(WritableFormat):
    """A directory of ``.npy`` files, and their description."""

    title = "a directory of .npy files"
    name = "npys"
    suffixes = (".npys",)
    dtypes = tuple(d for d in DTYPES if d != np.float16)

    def open_place(self, place, request=WHOLE):
        told = place.json("what.json")
        if told is None:
            return None
        how = {k: tuple(v) for k, v in told["space"].items() if isinstance(v, list)}
        source = self.read_back(
            Description(
                name=place.text,
                format=self.name,
                shape=tuple(told["shape"]),
                dtype=np.dtype(told["dtype"]),
                chunk=tuple(told["chunk"]),
                shard=None,
                codec=("none", None),
                space=Space(**{**told["space"], **how}),
                kvstore=place.spec,
            )
        )
        return source.as_mask() if told["mask"] else source

    def documents(self, d):
        space = {"axes": d.space.axes, "voxel_size": d.space.voxel_size, "unit": d.space.unit}
        told = {
            "shape": d.shape,
            "dtype": d.dtype.str,
            "chunk": d.chunk,
            "space": space,
            "mask": d.mask,
        }
        return {**super().documents(d), "what.json": told}

    def key(self, d, cell):
        return "-".join(map(str, cell)) + ".npy"

    def cell(self, d, key):
        parts = key.removesuffix(".npy").split("-")
        return tuple(map(int, parts)) if key.endswith(".npy") else None

    def encode(self, d, voxels):
        data = io.BytesIO()
        np.save(data, voxels)
        return data.getvalue()

    def decode(self, d, data, shape):
        return np.load(io.BytesIO(data))


# -- the second one ----------------------------------------------------------------------------------


class Brick(WritableFormat):
    """A line of JSON, and voxels: one file."""

    title = "a brick"
    name = "brick"
    suffixes = (".brick",)
    options: ClassVar = {"depth": ("int", "Slices that are written at a time.")}
    is_file = True
    assembles = True
    dtypes = DTYPES

    def open_place(self, place, request=WHOLE):
        if place.local is None or not place.local.endswith(".brick"):
            return None
        with open(place.local, "rb") as file:
            head = json.loads(file.readline())
            at = file.tell()
        shape, dtype = tuple(head["shape"]), np.dtype(head["dtype"])
        return _brick(place.text, shape, dtype, 1, Space(), MapReader(place.spec, shape, dtype, at))

    def stored_dtype(self, dtype):
        return dtype

    def layout(self, wanted):
        depth = wanted.option("depth", 2)
        return Layout((depth, *wanted.shape[1:]), options={"depth": depth})

    def key(self, d, cell):
        return f"unit-{cell[0]}"

    def cell(self, d, key):
        return (int(key.removeprefix("unit-")), 0, 0) if key.startswith("unit-") else None

    def encode(self, d, voxels):
        return voxels.tobytes()

    def _head(self, d):
        head = {"shape": d.shape, "dtype": d.dtype.str}
        return json.dumps(head).encode().ljust(127) + b"\n"  # voxels are aligned as in memory

    def assemble(self, d, is_ours):
        home = self.home(d)["path"]

        def content():
            yield self._head(d)
            for z in range(d.grid.counts[0]):
                with open(os.path.join(home, self.key(d, (z, 0, 0))), "rb") as file:
                    yield file.read()

        put_together(d.kvstore["path"], home, content(), is_ours)
        return {"bytes": os.path.getsize(d.kvstore["path"])}

    def read_back(self, d):
        reader = MapReader(d.kvstore, d.shape, d.dtype, len(self._head(d)))
        return _brick(d.name, d.shape, d.dtype, d.chunk[0], d.space, reader)


def _brick(name, shape, dtype, depth, space, reader):
    chunk = (depth, *shape[1:])
    return Source(name, shape, dtype, chunk, space, reader, encoded=False)


@dataclass(frozen=True, eq=False)
class MapReader:
    place: dict
    shape: tuple
    dtype: np.dtype
    at: int

    portable = True
    remote = False

    @property
    def extents(self):
        return (Extent(self.place),)

    def open(self):
        voxels = np.memmap(self.place["path"], self.dtype, "r", self.at, self.shape)
        return ts.array(voxels, copy=False, write=False, context=context())

    def token(self):
        return digest("brick", self.place, self.shape, self.dtype.str, self.at)


# -- the third one -----------------------------------------------------------------------------------


class Bare(WritableFormat):
    """Voxels and nothing else, each unit at its place in the file."""

    name = "bare"
    suffixes = (".bare",)
    is_file = True

    def layout(self, wanted):
        return Layout((2, *wanted.shape[1:]))

    def make(self, d):
        with open(d.kvstore["path"], "wb") as file:
            file.truncate(d.nbytes)

    def write_unit(self, d, cell, voxels):
        at = cell[0] * d.unit_bytes
        handle = os.open(d.kvstore["path"], os.O_WRONLY)
        try:
            os.pwrite(handle, voxels.tobytes(), at)
        finally:
            os.close(handle)

    def read_back(self, d):
        return _brick(
            d.name, d.shape, d.dtype, 2, d.space, MapReader(d.kvstore, d.shape, d.dtype, 0)
        )


# -- one that is only read, and has to be told how ---------------------------------------------------


class Rows(Format):
    """Bytes in rows of the given length."""

    title = "rows of bytes"
    open_options: ClassVar = {"row": ("int", "How many bytes a row has.")}

    def open_place(self, place, request=WHOLE):
        row = request.option("row")
        if place.local is None or not place.local.endswith(".rows"):
            return None
        if row is None:
            raise ValueError(f"{place.text}: say row=, how many bytes a row has")
        shape = (1, os.path.getsize(place.local) // row, row)
        dtype = np.dtype("u1")
        return _brick(place.text, shape, dtype, 1, Space(), MapReader(place.spec, shape, dtype, 0))


FORMATS = (Npys(), Brick(), Bare(), Rows())

# -- the line, and what comes of it ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(registry, "MODULES", [*registry.MODULES, __name__])


SHAPE = (9, 20, 30)
NAMES = ["out.npys", "out.brick"]


def voxels(dtype="u2", shape=SHAPE):
    return np.random.default_rng(5).integers(0, 200, shape).astype(dtype)


def files(path):
    """All files of an output, its run's journal aside."""
    own = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return {p.name: p.read_bytes() for p in own}


def target(path, array, **how):
    """An output of a filter, and its expected voxels."""
    v = bv.open(array)
    chunks = {"chunks": (2, 16, 16)} if path.suffix == ".npys" else {"depth": 2}
    return bv.maximum_filter(v, 3).to(path, **chunks, **how)


def expected(array):
    return np.asarray(bv.maximum_filter(bv.open(array), 3))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "bool"])
def test_written_and_opened(tmp_path, name, dtype):
    array = voxels(dtype) if dtype != "bool" else voxels() > 120
    path = tmp_path / name
    slab = (4, 16, 30) if name == "out.npys" else (4, 20, 30)
    back = bv.compute(target(path, array), runner=None, slab=slab, workers=2)
    assert back.shape == SHAPE
    for volume in (back, bv.open(path)):
        assert volume.dtype == dtype
        assert np.array_equal(np.asarray(volume), expected(array))
    assert bv.verify(path) == bv.verify(path, checksums=True) == []
    again = bv.gaussian_filter(bv.open(path).astype("f4"), 1)
    assert np.array_equal(again, bv.gaussian_filter(bv.open(expected(array)).astype("f4"), 1))


def test_written_in_place(tmp_path):
    array, path = voxels(), tmp_path / "a.bare"
    wanted = bv.maximum_filter(bv.open(array), 3).to(path)
    first = begin(bv.plan(wanted, slab=(2, 20, 30)), RunOptions())
    first.prepare()
    slabs.sweep_slab(first, 0, 1, {})
    assert path.stat().st_size == array.nbytes
    again = bv.maximum_filter(bv.open(array), 3).to(path)
    found = bv.compute(again, runner=None, resume=True, slab=(2, 20, 30))
    assert np.array_equal(np.asarray(found), expected(array))
    assert path.read_bytes() == expected(array).tobytes()
    assert bv.verify(path, checksums=True) == []
    path.unlink()
    assert "missing" in bv.verify(path)[0]
    with pytest.raises(ValueError, match="is missing"):
        bv.compute(again, runner=None, resume=True, slab=(2, 20, 30))


def test_voxel_size_and_two_dimensions(tmp_path):
    image = bv.open(voxels(shape=(1, 20, 30))[0], voxel_size=(4, 5), unit="nm")
    found = bv.compute(image.to(tmp_path / "a.npys"), runner=None)
    assert found.voxel_size == (4.0, 5.0) and found.unit == "nanometer" and found.ndim == 2
    assert np.array_equal(np.asarray(bv.open(tmp_path / "a.npys")), np.asarray(image))


@pytest.mark.parametrize("name", NAMES)
def test_runs_go_on_where_they_stopped(tmp_path, name):
    array = voxels()
    path = tmp_path / name
    alone = tmp_path / "alone" / name
    alone.parent.mkdir()
    bv.compute(target(alone, array), runner=None)
    first = begin(bv.plan(target(path, array), slab=(2, 20, 30)), RunOptions())
    first.prepare()
    for slab in (0, 3):
        slabs.sweep_slab(first, 0, slab, {})
    assert path.exists() == (name == "out.npys")  # a single file is there once it is whole
    problems = bv.verify(path)
    assert problems and all("not finished" in p or "unit" in p for p in problems)
    with pytest.raises(OutputExistsError, match="resume=True"):
        bv.compute(target(path, array), runner=None)
    bv.compute(target(path, array), runner=None, resume=True, slab=(2, 20, 30))
    noted = {"_beam_volumes.json", "_beam_volumes_provenance.json"}
    assert {n: d for n, d in files(path).items() if n not in noted} == {
        n: d for n, d in files(alone).items() if n not in noted
    }
    assert bv.verify(path, checksums=True) == []
    # A late attempt of the same run does no harm, and neither does one that resumes what has ended.
    merging.finish_pass(first, 0, {}, {})
    bv.compute(target(path, array), runner=None, resume=True, slab=(2, 20, 30))
    assert np.array_equal(np.asarray(bv.open(path)), expected(array))
    assert bv.verify(path, checksums=True) == []


@pytest.mark.parametrize("name", NAMES)
def test_replaced_when_asked(tmp_path, name):
    path = tmp_path / name
    bv.compute(target(path, voxels()), runner=None)
    with pytest.raises(OutputExistsError, match="overwrite=True"):
        bv.compute(target(path, voxels("u1")), runner=None)
    bv.compute(target(path, voxels("u1")), runner=None, overwrite=True)
    assert bv.open(path).dtype == "u1" and bv.verify(path, checksums=True) == []
    shutil.rmtree(f"{path}.run")
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.mkdir()
    (path / "precious.txt").write_text("x")
    with pytest.raises(OutputExistsError, match=f"is not {path.suffix[1:]}"):
        bv.compute(target(path, voxels()), runner=None, overwrite=True)
    assert (path / "precious.txt").exists()


@pytest.mark.parametrize("name", NAMES)
def test_damage_is_found(tmp_path, name):
    path = tmp_path / name
    bv.compute(target(path, voxels()), runner=None)
    file = path / "0-1-1.npy" if path.is_dir() else path
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert bv.verify(path) == []
    (problem,) = bv.verify(path, checksums=True)
    assert "checksum" in problem and str(path) in problem
    file.unlink()
    (problem,) = bv.verify(path)
    assert "missing" in problem or "gone" in problem


def test_a_unit_of_zeros_is_written(tmp_path):
    path = tmp_path / "a.npys"
    bv.compute(bv.open(np.zeros(SHAPE, "u1")).to(path, chunks=8), runner=None)
    assert len(list(path.glob("*.npy"))) == 2 * 3 * 4
    assert bv.verify(path, checksums=True) == []


def test_what_it_does_not_take_is_said(tmp_path):
    v = bv.open(voxels())
    with pytest.raises(ValueError, match=r"depth=3 is for \.brick outputs"):
        v.to(tmp_path / "a.npys", depth=3)
    with pytest.raises(ValueError, match=r"codec='zstd' is for \.ome\.zarr, \.zarr, .*outputs"):
        v.to(tmp_path / "a.brick", codec="zstd")
    with pytest.raises(TypeError, match="no option colour='red'; npys accepts chunks"):
        v.to(tmp_path / "a.npys", colour="red")
    with pytest.raises(ValueError, match=r"npys cannot store float16; convert by astype\(\)"):
        v.astype("f2").to(tmp_path / "a.npys")
    with pytest.raises(ValueError, match="assembled from all its units"):
        bv.WriteSlabs(tmp_path / "a.brick", like=v, partial=True)
    with pytest.raises(ValueError, match=r"brick is a single file, for local disks"):
        v.to("memory://a.brick")
    with pytest.raises(ValueError, match=r"end it with .*\.zarr or .*\.npys or \.brick"):
        v.to(tmp_path / "a.mystery")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"supported are .*a directory of \.npy files, a brick"):
        bv.open(tmp_path / "empty")


def test_in_memory_and_through_slabs(tmp_path):
    beam = pytest.importorskip("apache_beam")
    like = bv.open(voxels())
    bv.compute(like.to("memory://somewhere/a.npys", chunks=8), runner=None)
    assert np.array_equal(np.asarray(bv.open("memory://somewhere/a.npys")), voxels())
    for name in NAMES:
        how = {"chunks": (2, 20, 30)} if name == "out.npys" else {"depth": 2}
        with beam.Pipeline("FnApiRunner") as p:
            _ = p | bv.ReadSlabs(like, depth=2) | bv.WriteSlabs(tmp_path / name, like=like, **how)
        assert np.array_equal(np.asarray(bv.open(tmp_path / name)), voxels())


def test_info_names_it(tmp_path):
    """The command reads the same list: with the module's name, it knows the format."""
    bv.compute(bv.open(voxels()).to(tmp_path / "a.npys"), runner=None)
    program = (
        "from beam_volumes.cli.verbs import info\n"
        "from beam_volumes.cli.main import main\n"
        "from beam_volumes.storage.formats import registry\n"
        f"registry.MODULES.append({__name__!r})\n"
        f"main(['info', {str(tmp_path / 'a.npys')!r}])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "a directory of .npy files" in found.stdout, found.stderr


def test_options_of_a_format_that_is_opened(tmp_path):
    path, other = tmp_path / "a.rows", tmp_path / "a.npys"
    path.write_bytes(bytes(range(12)))
    bv.compute(bv.open(voxels()).to(other), runner=None)
    rows = bv.open(path, row=4)
    assert np.array_equal(rows, np.arange(12).reshape(1, 3, 4))
    assert np.array_equal(reopened(rows.node.source).read(), np.arange(12).reshape(1, 3, 4))
    with pytest.raises(ValueError, match="say row=, how many bytes"):
        bv.open(path)
    with pytest.raises(
        ValueError, match=r"row=4 is for rows of bytes; .*a\.npys is a directory of"
    ):
        bv.open(other, row=4)
    with pytest.raises(ValueError, match="row=4 is for paths and URLs only"):
        bv.open(voxels(), row=4)
    with pytest.raises(TypeError, match=r"no option raw=4 of open; the options are .*level, .*row"):
        bv.open(path, raw=4)
    assert bv.open(other, row=None).shape == SHAPE
    info = argparse.ArgumentParser()
    opening(info)
    chosen = info.parse_args(["--option", "row=3"])
    assert opened(str(path), chosen).shape == (1, 4, 3)
    with pytest.raises(ValueError, match="write it as NAME=VALUE"):
        opened(str(path), info.parse_args(["--option", "row"]))


def test_a_place_of_a_new_format_is_asked_once(tmp_path):
    bv.compute(bv.open(voxels()).to(tmp_path / "a.npys"), runner=None)
    place = Place.of(tmp_path / "a.npys")
    opened = [f.name for f in FORMATS if f.open_place(place) is not None]
    assert opened == ["npys"]
