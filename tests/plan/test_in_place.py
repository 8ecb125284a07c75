"""Nothing is read and written at once, under any name."""

import os

import apache_beam as beam
import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorstore as ts

import beam_volumes as bv
from beam_volumes.ops.labels import relabel
from beam_volumes.storage.places.extent import Bytes, Extent, stores
from beam_volumes.transforms import ReadSlabs, WriteSlabs

VOXELS = np.arange(4 * 8 * 8, dtype="u1").reshape(4, 8, 8)
REFUSED = "in place|two targets|the folder of the run"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A zarr array, an OME-Zarr image, slices, a table, a memory map, and links to some."""
    monkeypatch.chdir(tmp_path)
    quiet = {"runner": None, "progress": False, "keep_journal": False}
    volume = bv.open(VOXELS)
    bv.compute(volume.to(tmp_path / "a.zarr"), **quiet)
    bv.compute(volume.to(tmp_path / "g.ome.zarr"), **quiet)
    (tmp_path / "stack").mkdir()
    for z, plane in enumerate(VOXELS):
        (tmp_path / "stack" / f"s{z}.png").write_bytes(imagecodecs.png_encode(plane))
    rows = np.arange(256, dtype="u8")
    pq.write_table(pa.table({"label": rows, "value": rows}), tmp_path / "m.parquet")
    np.save(tmp_path / "a.zarr" / "map.npy", VOXELS)
    os.symlink(tmp_path / "a.zarr", tmp_path / "link.zarr")
    os.symlink(tmp_path, tmp_path / "up")
    return tmp_path


def zarr(place, **more):
    return {"driver": "zarr3", "kvstore": place, **more}


INPUTS = {
    "the same": (lambda d: f"{d}/a.zarr", "a.zarr"),
    "a slash": (lambda d: f"{d}/a.zarr/", "a.zarr"),
    "output with a slash": (lambda d: f"{d}/a.zarr", "a.zarr/"),
    "a URL": (lambda d: f"file://{d}/a.zarr", "a.zarr"),
    "two dots": (lambda d: f"{d}/stack/../a.zarr", "a.zarr"),
    "a link": (lambda d: f"{d}/link.zarr", "a.zarr"),
    "output by a link": (lambda d: f"{d}/a.zarr", "link.zarr"),
    "a linked parent": (lambda d: f"{d}/up/up/a.zarr", "up/a.zarr"),
    "a spec": (lambda d: zarr({"driver": "file", "path": f"{d}/a.zarr"}), "a.zarr"),
    "a spec with a URL": (lambda d: zarr(f"file://{d}/a.zarr/"), "a.zarr"),
    "a relative spec": (lambda d: zarr({"driver": "file", "path": "a.zarr"}), "a.zarr"),
    "an open store": (lambda d: ts.open(zarr(f"file://{d}/a.zarr")).result(), "a.zarr"),
    "a store behind a store": (
        lambda d: {"driver": "cast", "dtype": "float32", "base": zarr(f"file://{d}/a.zarr")},
        "a.zarr",
    ),
    "a layer of a stack": (
        lambda d: {
            "driver": "stack",
            "dtype": "uint8",
            "layers": [zarr(f"file://{d}/a.zarr", schema={"domain": {"shape": [4, 8, 8]}})],
        },
        "a.zarr",
    ),
    "a level": (lambda d: f"{d}/g.ome.zarr/0", "g.ome.zarr"),
    "output in a level": (lambda d: f"{d}/g.ome.zarr", "g.ome.zarr/0/x.zarr"),
    "a crop": (lambda d: bv.open(f"{d}/a.zarr")[1:3, 2:], "a.zarr"),
    "a view": (lambda d: bv.flip(bv.open(f"{d}/a.zarr"), 0), "link.zarr"),
    "a number of it": (lambda d: bv.open(VOXELS) > bv.mean(bv.open(f"{d}/a.zarr")), "a.zarr"),
    "slices around": (lambda d: f"{d}/stack", "stack/x.zarr"),
    "slices inside": (lambda d: f"{d}/stack/*.png", "stack"),
    "a slice inside": (lambda d: f"{d}/stack/s0.png", "up/stack"),
    "a memory map": (lambda d: np.load(d / "a.zarr" / "map.npy", mmap_mode="r"), "a.zarr"),
    "a view of a map": (
        lambda d: np.asarray(np.load(d / "a.zarr" / "map.npy", mmap_mode="r"))[1:].view("i1"),
        "a.zarr",
    ),
    "a table": (lambda d: bv.relabel(bv.open(VOXELS), d / "m.parquet", dtype="u1"), "m.parquet"),
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_are_never_cleared_under_another_name(folder, name):
    given, output = INPUTS[name]
    volume = bv.open(given(folder))
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    target = (volume + 1).to(f"{folder}/{output}", format="zarr")
    with pytest.raises(ValueError, match=REFUSED):
        bv.compute(target, runner=None, overwrite=True, progress=False)
    with pytest.raises(ValueError, match=REFUSED):
        bv.Compute(target, overwrite=True)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before


def test_what_lies_beside_an_input_may_be_written(folder):
    for given, output in (
        ("a.zarr", "a.zarr2"),
        ("g.ome.zarr", "g.ome.zarr/1"),
        ("stack/*.png", "stack/x.zarr"),
        ("stack", "stack.zarr"),
    ):
        bv.plan((bv.open(folder / given) + 1).to(folder / output, format="zarr"))


@pytest.mark.parametrize("rows", [10, 10_000])
def test_a_table_that_labels_are_looked_up_in_is_not_replaced(folder, monkeypatch, rows):
    monkeypatch.setattr(relabel, "IN_MEMORY", rows)
    table = bv.regionprops_table(bv.relabel(bv.open(VOXELS), folder / "m.parquet", dtype="u1"))
    before = (folder / "m.parquet").read_bytes()
    for output in ("m.parquet", "up/m.parquet"):
        with pytest.raises(ValueError, match="in place"):
            bv.compute(table.to(folder / output), runner=None, overwrite=True, progress=False)
    assert (folder / "m.parquet").read_bytes() == before


def test_targets_are_not_nested(folder):
    volume = bv.open(VOXELS)
    for first, second in (
        ("n.zarr", "n.zarr/x.zarr"),
        ("n.zarr/x.zarr", "n.zarr/"),
        ("n.zarr", "up/n.zarr"),
        ("n.zarr", "n.zarr.run"),
        ("n.zarr", "n.zarr.run/x.zarr"),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            bv.plan(
                volume.to(folder / first, format="zarr"),
                (volume + 1).to(f"{folder}/{second}", format="zarr"),
            )
    with pytest.raises(ValueError, match="two targets"):
        bv.plan(
            volume.to(folder / ".t.csv.parts", format="zarr"),
            bv.regionprops_table(volume).to(folder / "t.csv"),
        )


def test_a_journal_is_kept_apart_from_inputs_and_outputs(folder):
    target = bv.open(folder / "a.zarr").to(folder / "out.zarr")
    for journal in ("a.zarr", "a.zarr/j", "out.zarr", "out.zarr/j", "up/link.zarr", "."):
        with pytest.raises(ValueError, match="the folder of the run"):
            bv.compute(
                target, runner=None, journal=folder / journal, overwrite=True, progress=False
            )
    assert not (folder / "out.zarr").exists()
    os.rename(folder / "g.ome.zarr", folder / "b.zarr.run")
    with pytest.raises(ValueError, match="the folder of the run"):
        bv.plan(bv.open(folder / "b.zarr.run").to(folder / "b.zarr"))
    bv.compute(target, runner=None, journal=folder / "j", progress=False)


def test_slabs_are_not_written_over_what_they_were_read_from(folder):
    stored = bv.open(folder / "a.zarr")
    with pytest.raises(ValueError, match="in place"):
        WriteSlabs(folder / "link.zarr", like=stored, overwrite=True)
    pipeline = beam.Pipeline()
    slabs = pipeline | ReadSlabs(stored) | beam.Map(lambda slab: slab)
    with pytest.raises(ValueError, match="in place"):
        _ = slabs | WriteSlabs(folder / "link.zarr", like=bv.open(VOXELS), overwrite=True)


def test_two_steps_of_a_pipeline_do_not_write_one_place(folder):
    """This is refused when the pipeline is built; one step may be applied twice."""
    volume = bv.open(VOXELS)
    out = folder / "both.zarr"
    pipeline = beam.Pipeline()
    slabs = pipeline | ReadSlabs(volume)
    some = WriteSlabs(out, partial=True)
    _ = slabs | "One" >> some
    _ = slabs | "Again" >> some
    also = r"the step 'One' of this pipeline also writes .*both.zarr/?; write to another path, or Flatten"
    with pytest.raises(ValueError, match=f"^WriteSlabs: {also}".replace("One", "(One|Again)")):
        _ = slabs | "Two" >> WriteSlabs(out, partial=True)
    with pytest.raises(ValueError, match=r"^WriteSlabs: the step"):
        _ = slabs | "Three" >> WriteSlabs(out, like=volume, overwrite=True)
    with pytest.raises(ValueError, match=r"^Compute: the step"):
        _ = pipeline | "Compute" >> bv.Compute(volume.to(out))
    _ = pipeline | "Other" >> bv.Compute(volume.to(folder / "other.zarr"))
    with pytest.raises(ValueError, match="the step 'Other' of this pipeline also writes"):
        _ = slabs | "Four" >> WriteSlabs(folder / "other.zarr")
    _ = slabs | "Each" >> WriteSlabs(lambda volume: str(out))  # only workers know the path


def s3(path, **more):
    return {"driver": "s3", "bucket": "some-bucket", "path": path, **more}


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [
        (s3("x/y"), s3("x/y/"), True),
        (s3("x"), s3("x/y"), True),
        (s3("x/y"), s3("x/yz"), False),
        (s3(""), s3("x"), True),
        (s3("x//y"), s3("./x/z/../y"), True),
        ("s3://some-bucket/x/y", s3("x/y"), True),
        (s3("x"), s3("x", endpoint="http://localhost:9000"), True),
        (
            s3("x", endpoint="http://127.0.0.1:9000/"),
            s3("x", endpoint="http://localhost:9000"),
            True,
        ),
        (s3("x", endpoint="http://a.org"), s3("x", endpoint="http://b.org"), False),
        (s3("x"), {"driver": "gcs", "bucket": "other", "path": "x"}, False),
        (
            {"driver": "http", "base_url": "https://storage.googleapis.com/lab", "path": "a/b"},
            {"driver": "gcs", "bucket": "lab", "path": "a"},
            True,
        ),
        ("https://some-bucket.s3.amazonaws.com/x/y", s3("x"), True),
        ("https://somewhere.org/x/y", s3("x"), False),
        ("memory://x", {"driver": "memory", "path": "x/y"}, True),
        ("memory://x", "file:///x", False),
        ("file:///x.zip|zip:a/", "file:///x.zip", True),
        ("file:///x.zip|zip:a/", "file:///x.zip|zip:b/", False),
        ("file:///x/|ocdbt:a/", "file:///x/|ocdbt:a/b/", True),
        ({"driver": "kvstack", "layers": [{"base": "file:///x/"}]}, "file:///x/y", True),
    ],
)
def test_places_are_compared_by_what_they_are(a, b, met):
    a, b = (Bytes([Extent(place)]) for place in (a, b))
    assert a.meet(b) is met and b.meet(a) is met


def test_an_array_rests_on_all_its_stores():
    spec = {"driver": "stack", "layers": [zarr("file:///a/"), {"base": zarr("file:///b/")}]}
    assert [e.store for e in stores(spec)] == ["file:///a/", "file:///b/"]
