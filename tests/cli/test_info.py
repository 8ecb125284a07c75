"""`info` describes volumes, groups and runs, and checks a volume by reading it."""

import json
import shutil

import h5py
import numpy as np
import pytest
import tifffile
import zarr

import beam_volumes as bv
from beam_volumes.kernels import cache
from beam_volumes.plan.cost.machine import cores
from beam_volumes.runs.failure import as_data
from beam_volumes.runs.journal import find_run
from beam_volumes.storage.formats.registry import formats


@pytest.fixture
def info(command):
    """The output of `info` as JSON, with its exit code."""

    def run(*arguments):
        code, out, err = command("info", *arguments, "--json")
        assert code in (0, 1), err
        return code, json.loads(out)

    return run


def text(command, *arguments):
    """The output as lines: names and texts."""
    code, out, err = command("info", *arguments)
    assert code in (0, 1), err
    return {line.split("  ")[0]: line.partition("  ")[2].strip() for line in out.splitlines()}


def wrote(path, volume, **how):
    bv.compute(volume.to(path, **how), runner=None, progress=False)


def test_the_machine(command):
    code, out, _ = command("info", "--machine", "--json")
    found = json.loads(out)
    assert code == 0 and found["cores"] == cores() and found["versions"]["numpy"] == np.__version__
    assert found["kernels"]["path"] == str(cache.folder())
    told = text(command, "--machine")
    assert told["beam_volumes"] == bv.__version__ and told["kernels"].endswith(str(cache.folder()))
    for both in ((), ("somewhere", "--machine")):
        code, _, err = command("info", *both)
        assert code == 2 and "a PATH or --machine" in err


def test_a_volume(work, info, command):
    voxels = np.arange(9 * 20 * 30, dtype="u2").reshape(9, 20, 30)
    v = bv.open(voxels, voxel_size=(40, 8, 8), unit="nm", origin=(80, 0, 16))
    wrote("a.ome.zarr", v, chunks=(4, 16, 16), codec="zstd")
    code, found = info("a.ome.zarr")
    assert code == 0 and found["kind"] == "volume" and found["format"] == "OME-Zarr"
    assert found["axes"] == ["z", "y", "x"] and found["shape"] == [9, 20, 30]
    assert (found["dtype"], found["voxels"], found["bytes"]) == ("uint16", 5400, 10800)
    assert found["chunks"] == [4, 16, 16] and found["chunk_bytes"] == 2048
    assert found["codec"] == "zstd level 1"
    assert found["voxel_size"] == [40, 8, 8] and found["unit"] == "nanometer"
    assert found["origin"] == [80, 0, 16]
    files = [p for p in (work / "a.ome.zarr/0").rglob("*") if p.is_file()]
    assert found["stored"] == {
        "files": len(files),
        "bytes": sum(p.stat().st_size for p in files),
        "is_all": True,
    }
    assert found["sweep"] == {"chunks": 12, "bytes": 12 * 2048}
    assert [level["shape"] for level in found["levels"]] == [[9, 20, 30]]
    said = text(command, "a.ome.zarr")
    assert said["codec"] == "zstd level 1" and said["origin"] == "80, 0, 16 nanometer"
    assert said["a sweep"] == "reads 24.0 KiB in 12 chunks"
    wrote("b.zarr", v, shards=(8, 32, 32), chunks=(4, 16, 16), codec="none")
    assert info("b.zarr")[1]["codec"] == "none, in shards"
    wrote("c.zarr", v, zarr_version=2, codec="blosc")
    assert info("c.zarr")[1]["codec"] == "blosc (lz4) level 5"


def test_of_channels(work, info, command):
    array = np.random.default_rng(0).integers(0, 9, (3, 4, 5, 6), "u1")
    volume = bv.stack(list(array), names=["DAPI", "GFP", "RFP"])
    wrote("c.ome.zarr", volume)
    _, found = info("c.ome.zarr", "--stats", "--check")
    assert found["axes"] == ["c", "z", "y", "x"] and found["channels"] == ["DAPI", "GFP", "RFP"]
    assert found["stats"]["mean"] == array.mean() and found["check"]["damaged"] == []
    assert text(command, "c.ome.zarr")["channels"] == "DAPI, GFP, RFP"


def test_statistics(work, info, command):
    rng = np.random.default_rng(0)
    voxels = rng.normal(size=(7, 30, 20)).astype("f4")
    voxels[2, 3, 4] = np.nan
    wrote("f.zarr", bv.open(voxels))
    _, found = info("f.zarr", "--stats", "--memory", "1GiB")
    stats, good = found["stats"], voxels[np.isfinite(voxels)].astype("f8")
    assert stats["min"] == good.min() and stats["not finite"] == 1
    np.testing.assert_allclose([stats["mean"], stats["std"]], [good.mean(), good.std()], rtol=1e-5)
    assert sum(stats["histogram"]) == good.size and len(stats["edges"]) == 33
    said = text(command, "f.zarr", "--stats")
    assert said["voxels"].endswith("1 voxels are not finite") and "█" in said["histogram"]
    wrote("flat.zarr", bv.open(np.zeros((3, 4, 5), "u1")))
    assert info("flat.zarr", "--stats")[1]["stats"]["max"] == 0


def test_damage_is_named(work, info, command):
    voxels = np.random.default_rng(0).integers(1, 99, (8, 20, 30), "u1")
    voxels[4:, 16:] = 0
    wrote("a.zarr", bv.open(voxels), chunks=(4, 8, 16), codec="zstd")
    code, found = info("a.zarr", "--check")
    assert code == 0
    assert found["check"] == {"chunks": 12, "not stored": 2, "damaged": [], "is_all": True}
    assert text(command, "a.zarr", "--check")["check"].startswith(
        "12 chunks can be read; 2 of them"
    )
    for cell in ("c/0/1/1", "c/1/0/0"):
        file = work / "a.zarr" / cell
        file.write_bytes(file.read_bytes()[:-5])
    code, found = info("a.zarr", "--check")
    assert code == 1 and found["check"]["chunks"] == 12
    assert [d["where"] for d in found["check"]["damaged"]] == ["[0:4,8:16,16:30]", "[4:8,0:8,0:16]"]
    code, out, _ = command("info", "a.zarr", "--check")
    assert code == 1 and "10 chunks can be read" in out
    assert "damaged: [4:8,0:8,0:16]: " in out and "c/1/0/0" in out
    (work / "slices/z3.tif").write_bytes(b"II*\0")
    code, found = info("slices", "--check")
    (damage,) = found["check"]["damaged"]
    assert code == 1 and damage["where"] == "[3:4,0:20,0:30]" and "z3.tif" in damage["why"]


def test_groups_and_plates(work, info, command):
    plate = zarr.open_group("plate.zarr", mode="w")
    for well in ("A/2", "A/10"):
        plate.create_group(well)
    image = np.zeros((4, 5, 6), "u1")
    for well in ("A/2", "A/10"):
        for field in (0, 1):
            wrote(f"plate.zarr/{well}/{field}", bv.open(image), format="ome-zarr")
    code, found = info("plate.zarr")
    assert code == 0 and found["kind"] == "group"
    assert [v["dataset"] for v in found["volumes"]] == ["A/2/0", "A/2/1", "A/10/0", "A/10/1"]
    assert {tuple(v["shape"]) for v in found["volumes"]} == {(4, 5, 6)}
    assert "  A/10/1: 4 x 5 x 6 (z y x), uint8, 120 B" in command("info", "plate.zarr")[1]
    _, within = info("plate.zarr", "--dataset", "A/10")
    assert [v["dataset"] for v in within["volumes"]] == ["A/10/0", "A/10/1"]
    _, one = info("plate.zarr", "--dataset", within["volumes"][1]["dataset"])
    assert one["kind"] == "volume" and one["shape"] == [4, 5, 6]


def test_what_files_hold(work, info):
    with h5py.File("several.h5", "w") as file:
        file["volumes/raw"] = np.zeros((4, 5, 6), "u1")
        file["volumes/labels"] = np.zeros((4, 5, 6), "u4")
    _, found = info("several.h5")
    assert {v["dataset"]: v["dtype"] for v in found["volumes"]} == {
        "/volumes/raw": "uint8",
        "/volumes/labels": "uint32",
    }
    assert info("several.h5", "--dataset", "volumes/raw")[1]["shape"] == [4, 5, 6]
    with h5py.File("one.h5", "w") as file:
        file["raw"] = np.zeros((4, 5, 6), "u1")
    assert info("one.h5")[1]["kind"] == "volume"
    with tifffile.TiffWriter("p.ome.tif") as file:
        file.write(np.zeros((64, 64), "u1"), subifds=1, tile=(16, 16))
        file.write(np.zeros((32, 32), "u1"), subfiletype=1, tile=(16, 16))
    _, found = info("p.ome.tif")
    assert [level["shape"] for level in found["levels"]] == [[64, 64], [32, 32]]


def test_a_run(work, info, command):
    v = bv.open("slices")
    wrote("a.zarr", bv.maximum_filter(v, 3))
    _, found = info("a.zarr.run")
    assert found["kind"] == "run" and found["state"] == "ended"
    assert [p["done"] for p in found["passes"]] == [p["slabs"] for p in found["passes"]]
    assert found["outputs"] == [str(work / "a.zarr")]
    assert found["inputs"] == [str(work / "slices")] and found["bytes_written"] == v.nbytes
    said = text(command, "a.zarr.run")
    assert said["run"].endswith(", ended") and said["pass 1"].startswith("1 of 1 slabs of")
    for record in (work / "a.zarr.run").rglob("records/0-*/*"):
        record.unlink()
    assert info("a.zarr.run")[1]["passes"][0]["done"] == 0
    journal = find_run("a.zarr")
    for _ in range(2):
        journal.note_failure("sweep", "launch", as_data(OSError(28, "No space left")))
    failed = work / "a.zarr.run/runs" / journal.run_id
    (failed / "ended").unlink()
    _, found = info("a.zarr.run")
    assert found["state"] == "failed" and "No space left" in found["failure"]
    assert "No space left" in text(command, "a.zarr.run")["failed"]
    shutil.rmtree("a.zarr.run")
    assert command("info", "a.zarr.run")[0] == 2


def test_specs_arrays_in_memory_and_what_is_not_there(work, info, command):
    wrote("a.zarr", bv.open("slices"))
    spec = {"driver": "zarr3", "kvstore": f"file://{work}/a.zarr/"}
    _, found = info(json.dumps(spec))
    assert found["shape"] == [12, 20, 30] and found["stored"]["files"] == 3
    assert command("info", "nowhere", "--json")[0] == 2


def test_formats_say_what_a_place_holds(work):
    """No format falls over a place that is not its own."""
    from beam_volumes.storage.places.place import Place

    (work / "empty").mkdir()
    (work / "text.txt").write_text("text")
    for name in ("empty", "text.txt", "nowhere", "slices", "slices/z0.tif", "memory://x/a.zarr"):
        for format in formats():
            listing = format.listing(Place.of(name))
            assert listing is None or listing.is_volume
