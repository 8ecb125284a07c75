"""HDF5: which array of a file is the volume, and its axes and space, as programs write it."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage import open_source
from beam_volumes.storage.formats.hdf5 import files as hdf5_files
from beam_volumes.storage.places.errors import VolumeError
from tests.storage.files_of_h5py import CHUNKED, KINDS, SHAPE, voxels, write

h5py = pytest.importorskip("h5py")


def test_the_array_is_chosen(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["volumes/raw"] = voxels()
        file["volumes/labels"] = voxels("u8", (5, 6, 7))
        file["table"] = np.zeros((9, 3))
        file["names"] = ["a", "b"]
        file["loop"] = file["/"]
        file["away"] = h5py.ExternalLink("no.h5", "/x")
        file["nowhere"] = h5py.SoftLink("/no")
    for place, how in (
        (f"{path}:/volumes/raw", {}),
        (f"{path}:volumes/raw", {}),
        (path, {"dataset": "volumes/raw"}),
        (path, {"dataset": "/volumes/raw/"}),
        (str(path), {"dataset": "loop/volumes/raw"}),
    ):
        volume = bv.open(place, **how)
        np.testing.assert_array_equal(np.asarray(volume), voxels())
    listed = r"/volumes/labels \(5 x 6 x 7 uint64\), /volumes/raw \(11 x 23 x 17 uint16\)"
    with pytest.raises(ValueError, match=rf"choose an array by dataset= .*{listed}"):
        bv.open(path)
    for wrong in ("volumes/more", "away", "nowhere", "raw"):
        with pytest.raises(ValueError, match=f"dataset='{wrong}' does not exist in.*{listed}"):
            bv.open(path, dataset=wrong)
    with pytest.raises(ValueError, match="already contains a dataset"):
        bv.open(f"{path}:/volumes/raw", dataset="volumes/raw")
    with pytest.raises(ValueError, match=r"names has the type object; voxels are one of"):
        bv.open(path, dataset="names")
    with pytest.raises(ValueError, match=r"level=1: .*is one array"):
        bv.open(path, dataset="volumes/raw", level=1)
    with pytest.raises(ValueError, match="level=0: there are no levels"):
        bv.open(path, level=0)
    assert np.asarray(bv.open(f"{path}:table")).shape == (9, 3)
    with h5py.File(path, "w") as file:
        file["names"] = ["a", "b"]
    with pytest.raises(ValueError, match=r"no array to open in .*a.h5, which contains no dataset"):
        bv.open(path)


def test_files_that_are_linked(tmp_path):
    write(tmp_path / "other.h5", voxels(), name="x", **CHUNKED)
    path = tmp_path / "a.h5"
    layout = h5py.VirtualLayout(SHAPE, "u2")
    layout[...] = h5py.VirtualSource(tmp_path / "other.h5", "x", SHAPE)
    with h5py.File(path, "w") as file:
        file["linked"] = h5py.ExternalLink("other.h5", "/x")
        file.create_virtual_dataset("virtual", layout)
        out = [(str(tmp_path / "bare"), 0, h5py.h5f.UNLIMITED)]
        node = file.create_dataset("external", SHAPE, "u2", external=out)
        node[...] = voxels()
    for name in ("linked", "virtual", "external"):
        source = open_source(path, dataset=name)
        np.testing.assert_array_equal(source.read(), voxels())
        files = {e.store["path"] for e in source.reader.extents}
        assert files & {str(tmp_path / "other.h5"), str(tmp_path / "bare")}


def test_axes_and_voxels_as_they_are_said(tmp_path):
    path = tmp_path / "a.h5"
    array = voxels(shape=(5, 6, 7))

    def opened(**attributes):
        return bv.open(write(path, array, attributes=attributes))

    imagej = opened(element_size_um=[2.0, 0.5, 0.25])
    assert imagej.voxel_size == (2.0, 0.5, 0.25) and imagej.unit == "micrometer"
    cremi = opened(resolution=[40, 4, 4], offset=[120.0, 8.0, 0.0])
    assert cremi.voxel_size == (40.0, 4.0, 4.0) and cremi.unit == "nanometer"
    assert cremi.origin == (120.0, 8.0, 0.0)
    tags = {"axes": [{"key": k, "typeFlags": 2, "resolution": 0} for k in "xyz"]}
    ilastik = opened(axistags=json.dumps(tags), element_size_um=[1, 2, 3])
    assert ilastik.shape == (7, 6, 5) and ilastik.voxel_size == (3.0, 2.0, 1.0)
    np.testing.assert_array_equal(np.asarray(ilastik), array.transpose())
    with h5py.File(path, "w") as file:
        file["v"] = voxels(shape=(5, 6, 7, 2))
        for k, axis in enumerate("zyxc"):
            file["v"].dims[k].label = axis
        file["v"].attrs["element_size_um"] = [3, 2, 1]
    labelled = bv.open(path, index={"c": 1})
    np.testing.assert_array_equal(np.asarray(labelled), voxels(shape=(5, 6, 7, 2))[..., 1])
    assert labelled.voxel_size == (3.0, 2.0, 1.0)


@pytest.mark.parametrize(
    "attributes",
    [
        {"element_size_um": [0.0, 1.0, 1.0]},
        {"element_size_um": [1.0, np.nan, 1.0]},
        {"element_size_um": [1.0, 2.0]},
        {"element_size_um": "large"},
        {"element_size_um": np.zeros(8000)},
        {"resolution": 300, "unit": "dpi"},
        {"axes": "abc", "axistags": "{", "DIMENSION_LABELS": ["z", "z", "z"]},
        {"axistags": json.dumps({"axes": 3})},
        {"bool": b"yes"},
    ],
)
def test_what_makes_no_sense_is_not_said(tmp_path, attributes):
    volume = bv.open(write(tmp_path / "a.h5", voxels(), attributes=attributes))
    assert volume.voxel_size is None and volume.axes == ("z", "y", "x")
    np.testing.assert_array_equal(np.asarray(volume), voxels())


def test_levels_of_a_group(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for k in range(3):
            file[f"raw/s{k}"] = voxels(shape=(16 >> k, 32 >> k, 32 >> k))
        file["raw/s0"].attrs.update(resolution=[8, 4, 4], offset=[80, 0, 0])
    assert bv.open(path).shape == (16, 32, 32)
    second = bv.open(path, level=1)
    assert second.shape == (8, 16, 16) and second.voxel_size == (16.0, 8.0, 8.0)
    assert second.origin == (84.0, 2.0, 2.0) and second.unit == "nanometer"
    assert bv.open(f"{path}:raw", level=2).shape == (4, 8, 8)
    with pytest.raises(ValueError, match=r"level=3: .* has the levels 0 to 2"):
        bv.open(path, level=3)


def letters(text):
    return np.array([c.encode() for c in text], "S1")


def test_imaris(tmp_path):
    """Sizes and extents are letters; datasets are padded to whole chunks."""
    path = tmp_path / "a.ims"
    array = {(t, c): voxels("u1", (10, 20, 30)) + t * 2 + c for t in (0, 1) for c in (0, 1)}
    with h5py.File(path, "w") as file:
        image = file.create_group("DataSetInfo/Image")
        for k, (low, high) in enumerate([(-3, 27), (0, 40), (5, 25)]):
            image.attrs[f"ExtMin{k}"], image.attrs[f"ExtMax{k}"] = (
                letters(str(low)),
                letters(str(high)),
            )
        image.attrs["Unit"] = letters("um")
        for c, name in enumerate(["DAPI", "GFP"]):
            file.create_group(f"DataSetInfo/Channel {c}").attrs["Name"] = letters(name)
        for level in (0, 1):
            for (t, c), full in array.items():
                part = full[:: level + 1, :: level + 1, :: level + 1]
                group = file.create_group(
                    f"DataSet/ResolutionLevel {level}/TimePoint {t}/Channel {c}"
                )
                for axis, n in zip("ZYX", part.shape, strict=True):
                    group.attrs[f"ImageSize{axis}"] = letters(str(n))
                padded = np.pad(part, [(0, -n % 8) for n in part.shape])
                group.create_dataset("Data", data=padded, chunks=(8, 8, 8), compression="gzip")
                group["Histogram"] = np.zeros(256, "u8")
    with pytest.raises(ValueError, match="no such channel; channels: DAPI, GFP"):
        bv.open(path, index={"c": "RFP"})
    every = open_source(path)
    assert every.space.leading == ("t", "c") and every.space.channels == ("DAPI", "GFP")
    assert every.leading == (2, 2) and every.leading_chunk == (1, 1)
    for (t, c), wanted in array.items():
        np.testing.assert_array_equal(every.point("t", t).point("c", c).read(), wanted)
    point = pickle.loads(pickle.dumps(open_source(path, index={"t": 1})))
    np.testing.assert_array_equal(point.read(), [array[1, 0], array[1, 1]])
    volume = bv.open(path, index={"t": 1, "c": "GFP"})
    np.testing.assert_array_equal(np.asarray(volume), array[1, 1])
    assert volume.voxel_size == (2.0, 2.0, 1.0) and volume.unit == "micrometer"
    assert volume.origin == (6.0, 1.0, -2.5)
    half = bv.open(path, level=1, index={"t": 0, "c": 0})
    np.testing.assert_array_equal(np.asarray(half), array[0, 0][::2, ::2, ::2])
    assert half.voxel_size == (4.0, 4.0, 2.0) and half.origin == (7.0, 2.0, -2.0)
    one = bv.open(f"{path}:/DataSet/ResolutionLevel 0/TimePoint 0/Channel 1/Data")
    assert one.shape == (10, 20, 30) and one.voxel_size == (2.0, 2.0, 1.0)
    with pytest.raises(ValueError, match=r"level=2: .* has the levels 0 to 1"):
        bv.open(path, level=2)
    with h5py.File(path, "r+") as file:
        del file["DataSet/ResolutionLevel 0/TimePoint 1/Channel 1/Data"]
    with pytest.raises(VolumeError, match=r"there are no voxels at .*TimePoint 1/Channel 1/Data"):
        bv.open(path, index={"t": 1, "c": 1})


def test_bigdataviewer(tmp_path):
    """Its voxels are unsigned, against the file's dtype; the XML next to it has their size."""
    path = tmp_path / "a.h5"
    array = (voxels("u2", (8, 12, 10)) + 40000).astype("u2")
    with h5py.File(path, "w") as file:
        for setup in (0, 1):
            file[f"s{setup:02d}/resolutions"] = np.array([[1.0, 1, 1], [2, 2, 1]])
            file[f"s{setup:02d}/subdivisions"] = np.array([[16, 16, 16], [16, 16, 16]])
            for level, part in enumerate([array, array[:, ::2, ::2]]):
                file.create_dataset(
                    f"t00000/s{setup:02d}/{level}/cells",
                    data=(part + setup).view("i2"),
                    chunks=(4, 4, 4),
                    compression="gzip",
                )
    (tmp_path / "a.xml").write_text(
        "<SpimData><SequenceDescription><ViewSetups><ViewSetup><id>0</id><voxelSize><unit>µm</unit>"
        "<size>0.25 0.5 2.0</size></voxelSize></ViewSetup></ViewSetups></SequenceDescription></SpimData>"
    )
    volume = bv.open(path, index={"c": 0})
    assert volume.dtype == "u2" and volume.voxel_size == (2.0, 0.5, 0.25)
    np.testing.assert_array_equal(np.asarray(volume), array)
    half = bv.open(path, level=1, index={"c": 1})
    np.testing.assert_array_equal(np.asarray(half), array[:, ::2, ::2] + 1)
    half = bv.open(path, level=1, index={"c": 0})
    assert half.voxel_size == (2.0, 1.0, 0.5) and half.origin == (0.0, 0.25, 0.125)
    assert half.unit == "micrometer"
    (tmp_path / "a.xml").write_text("<SpimData")
    assert bv.open(path, index={"c": 0}).voxel_size is None
    with h5py.File(path, "r+") as file:
        del file["t00000/s01/0"]
        file["t00000/s01/0/cells"] = np.zeros((3, 3, 3), "i2")
    with pytest.raises(ValueError, match="setups of several shapes; choose one by dataset="):
        bv.open(path)
    assert bv.open(f"{path}:t00000/s01/0/cells").shape == (3, 3, 3)


def test_minc(tmp_path):
    path = tmp_path / "a.mnc"
    array = voxels("i2", (5, 6, 7))
    low, high = np.linspace(0, 1, 5), np.linspace(2, 9, 5)
    with h5py.File(path, "w") as file:
        for axis, step, start in (("z", 2.0, -10.0), ("y", 1.5, 3.0), ("x", -1.0, 4.0)):
            node = file.create_dataset(f"minc-2.0/dimensions/{axis}space", data=0)
            node.attrs.update(step=step, start=start)
        node = file.create_dataset("minc-2.0/image/0/image", data=array, chunks=(1, 6, 7))
        node.attrs.update(dimorder=b"zspace,yspace,xspace", valid_range=[0.0, 200.0])
        file["minc-2.0/image/0/image-min"], file["minc-2.0/image/0/image-max"] = low, high
    with pytest.raises(ValueError, match="metadata reverse x in space; give affine='drop'"):
        bv.open(path)
    volume, turned = bv.open(path, affine="drop"), bv.open(path, affine="reorient")
    assert volume.voxel_size == turned.voxel_size == (2.0, 1.5, 1.0) and volume.unit == "millimeter"
    assert volume.origin == (0.0, 0.0, 0.0) and turned.origin == (-10.0, 3.0, 4.0 - 6)
    np.testing.assert_array_equal(np.asarray(turned), np.asarray(volume)[:, :, ::-1])
    wanted = array / 200 * (high - low)[:, None, None] + low[:, None, None]
    assert volume.dtype == "f4"
    np.testing.assert_allclose(np.asarray(volume), wanted, rtol=1e-6)
    with h5py.File(path, "r+") as file:
        file["minc-2.0/image/0/image-min"][...], file["minc-2.0/image/0/image-max"][...] = 0, 200
    labels = bv.open(path, affine="drop")
    assert labels.dtype == "i2"
    np.testing.assert_array_equal(np.asarray(labels), array)
    with h5py.File(path, "r+") as file:
        del file["minc-2.0/image/0/image-min"]
        file["minc-2.0/image/0/image-min"] = np.zeros(4)
    with pytest.raises(VolumeError, match="must be equal"):
        bv.open(path)


def test_minc_of_others():
    """A file that MINC's own tools wrote, as nibabel has one to test itself."""
    nibabel = pytest.importorskip("nibabel")
    path = os.path.join(os.path.dirname(nibabel.__file__), "tests", "data", "small.mnc")
    if not os.path.exists(path):
        pytest.skip("this nibabel has no test data")
    with open(path, "rb") as file:
        if file.read(8) != hdf5_files.MAGIC:
            pytest.skip("this is MINC 1")
    image = nibabel.load(path)
    np.testing.assert_allclose(np.asarray(bv.open(path)), image.get_fdata(), rtol=1e-5)


def test_what_the_command_says(tmp_path, capsys):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("raw", data=voxels(), **KINDS["gzip, shuffled"])
        file["labels"] = voxels("u8")
        for k in range(2):
            file[f"pyramid/s{k}"] = voxels(shape=(8 >> k, 8 >> k, 8 >> k))
    assert main(["info", str(path)]) == 0
    told = capsys.readouterr().out
    assert "labels" in told and "pyramid/s1" in told
    assert main(["info", f"{path}:raw", "--check"]) == 0
    told = capsys.readouterr().out
    assert "11 x 23 x 17 (z y x)" in told and "shuffle, then gzip" in told
    assert main(["info", str(path), "--dataset", "pyramid"]) == 0
    told = capsys.readouterr().out
    assert "level 1" in told and "4 x 4 x 4" in told


@pytest.mark.parametrize(
    ("stored", "said", "meant"),
    [
        *(("i2", "int16", "i2"), ("i2", "uint16", "u2"), ("i2", None, "u2"), ("u2", "int16", "i2")),
        *(
            ("i1", "uint8", "u1"),
            ("u1", None, "u1"),
            ("f4", "float32", "f4"),
            ("i4", "int16", "i4"),
        ),
    ],
)
def test_integers_of_bigdataviewer_have_the_sign_that_their_setup_says(
    tmp_path, stored, said, meant
):
    voxels = np.array([[[-5, 3], [7, -128]]]).astype(stored)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t00000/s00/0/cells"] = voxels
        file["s00/resolutions"] = np.ones((1, 3))
        if said is not None:
            file["s00"].attrs["dataType"] = said
    for dataset in (None, "t00000/s00/0/cells"):
        found = bv.open(tmp_path / "a.h5", dataset=dataset)
        assert found.dtype == meant
        np.testing.assert_array_equal(np.asarray(found).reshape(voxels.shape), voxels.view(meant))
