"""What the verb writes is what the functions would: chunks, codecs, dtypes, ranges, crops and channels."""

import json
import re

import numpy as np
import pytest
import zarr
from skimage import exposure

import beam_volumes as bv

NONE = ("--runner", "none", "--quiet")


@pytest.fixture
def convert(command):
    """Convert, and expect that it works: standard output."""

    def run(*arguments):
        code, out, err = command("convert", *arguments, *NONE)
        assert code == 0, err
        return out

    return run


def test_any_to_any(work, convert, command):
    how = ("--voxel-size", "40,8,8", "--unit", "nm", "--origin", "80,16,0")
    said = convert("slices", "em.ome.zarr", "--chunks", "4,8,16", "--codec", "zstd:5", *how)
    assert said.strip().endswith("em.ome.zarr")
    voxels = np.asarray(bv.open("slices"))
    metadata = json.loads((work / "em.ome.zarr/0/zarr.json").read_text())
    assert metadata["chunk_grid"]["configuration"]["chunk_shape"] == [4, 8, 16]
    assert metadata["codecs"][-1]["configuration"]["level"] == 5
    convert("em.ome.zarr", "old.zarr", "--store", "zarr_version=2", "--codec", "none")
    convert("old.zarr", "back", "--format", "zarr", "--shards", "auto", "--chunks", "4")
    for name in ("em.ome.zarr", "old.zarr", "back"):
        found = bv.open(name)
        np.testing.assert_array_equal(found, voxels)
        assert found.voxel_size == (40, 8, 8) and found.unit == "nanometer"
        assert found.origin == (80, 16, 0)
    assert zarr.open("old.zarr", mode="r").metadata.zarr_format == 2
    assert zarr.open("back", mode="r").shards is not None
    assert bv.verify("back", checksums=True) == []


def test_crop_dtype_and_range(work, convert):
    voxels = np.asarray(bv.open("slices"))
    convert("slices", "part.zarr", "--crop", "2:5,,-9:", "--dtype", "f4")
    np.testing.assert_array_equal(bv.open("part.zarr"), voxels[2:5, :, -9:].astype("f4"))
    convert("slices", "wide.zarr", "--rescale", "--dtype", "uint16")
    wide = np.asarray(bv.open("wide.zarr"))
    assert wide.dtype == "u2" and wide.min() == 0 and wide.max() == 65535
    convert("slices", "bright.zarr", "--rescale", "100,200")
    want = exposure.rescale_intensity(voxels.astype("f8"), (100, 200), (0, 255))
    bright = np.asarray(bv.open("bright.zarr"))
    assert bright.dtype == "u1"
    np.testing.assert_allclose(bright, want, atol=0.501)
    convert("slices", "unit.zarr", "--rescale", "0,255", "--dtype", "float32")
    np.testing.assert_allclose(bv.open("unit.zarr"), voxels / 255, rtol=1e-6)


def test_channels_datasets_and_points(work, convert):
    array = np.random.default_rng(0).integers(0, 99, (3, 5, 6, 7), "u1")
    several = bv.stack(list(array), names=["DAPI", "GFP", "RFP"])
    bv.compute(several.to("cells.ome.zarr"), runner=None, progress=False)
    convert("cells.ome.zarr", "one.zarr", "--channels", "GFP")
    np.testing.assert_array_equal(bv.open("one.zarr"), array[1])
    said = convert("cells.ome.zarr", "two.ome.zarr", "--channels", "RFP,0")
    assert said.endswith("/two.ome.zarr\n")
    two = bv.open("two.ome.zarr")
    assert two.channels == ("RFP", "DAPI")
    np.testing.assert_array_equal(two, array[[2, 0]])
    convert("cells.ome.zarr", "same.zarr", "--dataset", "0", "--index", "c=2")
    np.testing.assert_array_equal(bv.open("same.zarr"), array[2])


def test_overwrite_resume_and_the_plan(work, convert, command):
    convert("slices", "a.zarr")
    code, _, err = command("convert", "slices", "a.zarr", *NONE)
    assert code == 2 and "--overwrite" in err
    convert("slices", "a.zarr", "--overwrite", "--dtype", "u2")
    assert bv.open("a.zarr").dtype == "u2"
    convert("slices", "a.zarr", "--resume", "--dtype", "u2")
    code, out, _ = command("convert", "slices", "b.zarr", "--dry-run", *NONE)
    assert code == 0 and "1 pass" in out and not (work / "b.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing", "a.zarr"], "nothing does not exist"),
        (["slices", "a.mystery"], "the format cannot be inferred from the name"),
        (["slices", "a", "--format", "mystery"], "--format mystery; use one of"),
        (["slices", "a.zarr", "--codec", "zstd:high"], "write it as NAME or NAME:LEVEL"),
        (["slices", "a.zarr", "--codec", "magic"], "codec='magic'; zarr v3 supports"),
        (["slices", "a.zarr", "--dtype", "colour"], "--dtype colour does not exist"),
        (["slices", "a.zarr", "--dtype", "complex64"], "complex64.*; use bool, an integer"),
        (["slices", "a.zarr", "--chunks", "0"], "--chunks 0 is not valid; give whole numbers of at least 1"),
        (["slices", "a.zarr", "--chunks", "8,8"], "chunks=.*give a positive whole number"),
        (["slices", "a.zarr", "--rescale", "5,2"], "--rescale 5,2: give two increasing numbers"),
        (["slices", "a.zarr", "--rescale", "--dtype", "bool"], "--rescale cannot map to bool"),
        (["slices", "a.zarr", "--crop", "99:"], "contains no voxel of a volume"),
        (["slices", "a.zarr", "--axes", "tyx", "--crop", "99:"], r"contains no voxel of .* \(t, y, x\)"),
        (["slices", "a.zarr", "--channels", "DAPI"], "has no channel axis"),
        (["slices", "a.zarr", "--store", "colour"], "--store colour: write it as NAME=VALUE"),
        (["slices", "a.zarr", "--store", "colour=red"], "no option colour='red'"),
        (["slices", "slices/a.zarr"], "slices"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line(work, command, arguments, said):
    code, out, err = command("convert", *arguments, *NONE)
    assert code == 2 and out == "" and err.count("\n") == 1
    assert re.search(said, err), err
    assert not (work / "a.zarr").exists()
