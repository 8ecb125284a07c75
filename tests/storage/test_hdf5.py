"""HDF5: files that h5py wrote, read by us; files that we wrote, read by h5py."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.geometry import Box
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.session import merging, slabs
from beam_volumes.session.begin import begin
from beam_volumes.storage import open_source
from beam_volumes.storage.errors import VolumeError
from beam_volumes.storage.formats import hdf5_files, hdf5_reader, hdf5_trial
from beam_volumes.storage.ownership import OutputExistsError

h5py = pytest.importorskip("h5py")

SHAPE = (11, 23, 17)
CHUNKED = {"chunks": (4, 8, 5)}
KINDS = {
    "contiguous": {},
    "chunks": CHUNKED,
    "resizable": {**CHUNKED, "maxshape": (None, None, None)},
    "one chunk": {"chunks": SHAPE},
    "gzip": {**CHUNKED, "compression": "gzip"},
    "gzip, shuffled": {**CHUNKED, "compression": "gzip", "shuffle": True},
    "lzf": {"chunks": (3, 7, 16), "compression": "lzf", "shuffle": True},
    "summed": {**CHUNKED, "compression": "gzip", "shuffle": True, "fletcher32": True},
    "scaled": {**CHUNKED, "scaleoffset": 0},
}
DTYPES = ["bool", "u1", ">u2", "<i4", "u8", "f2", ">f4", "f8"]


def voxels(stored="u2", shape=SHAPE):
    found = np.random.default_rng(3).integers(0, 200, shape)
    return (found > 100 if np.dtype(stored) == bool else found).astype(stored)


def write(path, array, name="volumes/raw", libver=None, block=0, attributes=None, **how):
    with h5py.File(path, "w", libver=libver, userblock_size=block) as file:
        node = file.create_dataset(name, data=array, **how)
        node.attrs.update(attributes or {})
    return path


def counting(monkeypatch):
    """Sizes of what is read of files by position."""
    sizes = []
    read = hdf5_reader.read_from

    def counted(handle, path, at, size):
        sizes.append(size)
        return read(handle, path, at, size)

    monkeypatch.setattr(hdf5_reader, "read_from", counted)
    return sizes


# -- reading -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stored", DTYPES)
def test_voxels_of_any_dtype_and_filter(tmp_path, stored, kind):
    if kind == "scaled" and np.dtype(stored).kind not in "iu":
        pytest.skip("HDF5 scales integers")
    array = voxels(stored)
    source = open_source(write(tmp_path / "a.h5", array, **KINDS[kind]))
    assert source.dtype == array.dtype.newbyteorder("=")
    np.testing.assert_array_equal(source.read(), array)
    np.testing.assert_array_equal(source.read(Box((3, 7, 4), (5, 9, 17))), array[3:5, 7:9, 4:17])
    if kind != "contiguous":
        assert source.chunk == KINDS[kind]["chunks"]
        assert bool(source.reader.remark) == (kind == "scaled")


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("block", [0, 1024])
@pytest.mark.parametrize("kind", ["contiguous", "chunks", "one chunk", "gzip"])
def test_versions_of_the_format(tmp_path, libver, block, kind):
    """Each has an index of chunks of its own; a user's block shifts all positions."""
    array = voxels()
    path = write(tmp_path / "a.bin", array, libver=libver, block=block, **KINDS[kind])
    np.testing.assert_array_equal(open_source(path).read(), array)


@pytest.mark.parametrize("name", ["Blosc", "Zstd", "LZ4", "Bitshuffle"])
def test_filters_of_others(tmp_path, name):
    plugin = pytest.importorskip("hdf5plugin")
    array = voxels()
    path = write(tmp_path / "a.h5", array, **CHUNKED, **getattr(plugin, name)())
    source = open_source(path)
    np.testing.assert_array_equal(source.read(), array)
    said = "read one part at a time under h5py's lock: its filter 32008 is not undone here"
    assert source.reader.remark == (said if name == "Bitshuffle" else "")


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 40, 30), (5, 1, 7), (9, 1, 1)])
@pytest.mark.parametrize("chunks", [None, (1, 1, 1), (1, 1, 2)])
def test_odd_sizes(tmp_path, shape, chunks):
    if chunks is not None and any(c > n for c, n in zip(chunks, shape, strict=True)):
        chunks = (1, 1, 1)
    array = voxels(shape=shape)
    np.testing.assert_array_equal(
        open_source(write(tmp_path / "a.h5", array, chunks=chunks)).read(), array
    )


def test_images_and_further_axes(tmp_path):
    image = bv.open(write(tmp_path / "a.h5", voxels(shape=(20, 30)), chunks=(7, 9)))
    assert image.axes == ("y", "x")
    np.testing.assert_array_equal(np.asarray(image), voxels(shape=(20, 30)))
    array = voxels(shape=(2, 3, 4, 5, 6))
    path = write(tmp_path / "b.h5", array, chunks=(1, 2, 2, 5, 3), compression="gzip")
    source = open_source(path, index={"t": 1, "c": 2})
    np.testing.assert_array_equal(source.read(), array[1, 2])
    assert source.chunk == (2, 5, 3) and source.decode_bytes == 2 * 2 * 5 * 3 * 2
    every = open_source(path)
    assert every.leading == (2, 3) and every.leading_chunk == (1, 2)
    np.testing.assert_array_equal(every.read(), array)


def test_channels_of_a_chunk_are_decoded_once(tmp_path, monkeypatch):
    array = voxels(shape=(3, 8, 10, 12))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("v", data=np.moveaxis(array, 0, -1), chunks=(4, 5, 12, 3))
        for k, axis in enumerate("zyxc"):
            file["v"].dims[k].label = axis
        file["v"].attrs["channels"] = ["a", "b", "c"]
    volume = bv.open(tmp_path / "a.h5")
    assert volume.shape == (3, 8, 10, 12)
    sizes = counting(monkeypatch)
    bv.compute((volume + 1).to(tmp_path / "b.h5", chunks=(4, 5, 12)), runner=None)
    assert sizes == [4 * 5 * 12 * 3 * 2] * 4
    back = bv.open(tmp_path / "b.h5")
    np.testing.assert_array_equal(np.asarray(back), array + 1)


def test_what_is_not_stored_is_the_fill_value(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        node = file.create_dataset("v", (20, 30, 40), ">i2", chunks=(5, 5, 5), fillvalue=-7)
        node[3:7, 2:9, 1:30] = 5
        wanted = node[...]
    np.testing.assert_array_equal(open_source(path).read(), wanted)
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (20, 30, 40), "f4", fillvalue=np.nan)
    assert np.isnan(open_source(path).read()).all()


def test_a_read_decodes_the_chunks_that_it_touches(tmp_path, monkeypatch):
    sizes = counting(monkeypatch)
    source = open_source(write(tmp_path / "a.h5", voxels(), chunks=(4, 8, 5)))
    assert not sizes
    source.read(Box((3, 7, 4), (5, 9, 6)))  # on both sides of a corner
    assert sizes == [4 * 8 * 5 * 2] * 8
    source.read(Box((0, 0, 0), (1, 1, 1)))
    assert len(sizes) == 9
    assert sum(sizes) == 9 * 320


def test_threads_and_other_processes(tmp_path):
    array = voxels(shape=(40, 60, 50))
    path = write(tmp_path / "a.h5", array, chunks=(5, 20, 20), compression="gzip", shuffle=True)
    source = open_source(path)
    found = [np.empty(0)] * 8

    def read(k):
        found[k] = source.read(Box((k * 5, 0, 0), (k * 5 + 5, 60, 50)))

    threads = [threading.Thread(target=read, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(np.concatenate(found), array)
    (tmp_path / "source").write_bytes(pickle.dumps(source))
    program = (
        "import pickle, sys, numpy as np\n"
        f"source = pickle.load(open({str(tmp_path / 'source')!r}, 'rb'))\n"
        "print(int(source.read().sum()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == str(int(array.sum())), done.stderr


def test_a_file_that_is_replaced_is_read_anew(tmp_path):
    path = tmp_path / "a.h5"
    for k in range(3):
        array = voxels() + k
        write(path, array, **CHUNKED, compression="gzip")
        source = open_source(path)
        np.testing.assert_array_equal(source.read(), array)
    write(path, voxels(shape=(5, 6, 7)), chunks=(2, 2, 2))
    with pytest.raises(VolumeError, match="has changed since it was opened"):
        source.read()
    path.unlink()
    with pytest.raises(VolumeError, match="is missing"):
        source.read()


# -- which array -------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=rf"choose an array by dataset=: .*{listed}"):
        bv.open(path)
    for wrong in ("volumes/more", "away", "nowhere", "raw"):
        with pytest.raises(ValueError, match=f"dataset='{wrong}': there is none.*{listed}"):
            bv.open(path, dataset=wrong)
    with pytest.raises(ValueError, match="names one already"):
        bv.open(f"{path}:/volumes/raw", dataset="volumes/raw")
    with pytest.raises(ValueError, match=r"names holds object; voxels are one of"):
        bv.open(path, dataset="names")
    with pytest.raises(ValueError, match=r"level=1: .*is one array"):
        bv.open(path, dataset="volumes/raw", level=1)
    with pytest.raises(ValueError, match="level=0: there are no levels"):
        bv.open(path, level=0)
    assert np.asarray(bv.open(f"{path}:table")).shape == (9, 3)
    with h5py.File(path, "w") as file:
        file["names"] = ["a", "b"]
    with pytest.raises(ValueError, match="holds no dataset of voxels"):
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
    """Its voxels are unsigned, though the file says otherwise; the XML beside it has their size."""
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
    with pytest.raises(ValueError, match="setups of several shapes: choose one by dataset="):
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
    volume = bv.open(path)
    assert volume.voxel_size == (2.0, 1.5, 1.0) and volume.unit == "millimeter"
    assert volume.origin == (-10.0, 3.0, 0.0)
    wanted = array / 200 * (high - low)[:, None, None] + low[:, None, None]
    assert volume.dtype == "f4"
    np.testing.assert_allclose(np.asarray(volume), wanted, rtol=1e-6)
    with h5py.File(path, "r+") as file:
        file["minc-2.0/image/0/image-min"][...], file["minc-2.0/image/0/image-max"][...] = 0, 200
    labels = bv.open(path)
    assert labels.dtype == "i2"
    np.testing.assert_array_equal(np.asarray(labels), array)
    with h5py.File(path, "r+") as file:
        del file["minc-2.0/image/0/image-min"]
        file["minc-2.0/image/0/image-min"] = np.zeros(4)
    with pytest.raises(VolumeError, match="should be alike"):
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


# -- damage ------------------------------------------------------------------------------------------


def test_damaged_files(tmp_path):
    path = tmp_path / "a.h5"
    array = voxels(shape=(20, 40, 50))
    write(path, array, chunks=(5, 20, 25), compression="gzip", shuffle=True)
    whole = path.read_bytes()
    for size in (8, 100, 700, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(VolumeError, match=r"a\.h5.*(cannot be read as HDF5|cut off)"):
            open_source(path).read()
    with h5py.File(tmp_path / "b.h5", "w") as file:
        pass
    path.write_bytes(whole)
    with h5py.File(path) as file:
        found = file["volumes/raw"].id.get_chunk_info(3)
    broken = bytearray(whole)
    broken[found.byte_offset + found.size // 2] ^= 255
    broken[found.byte_offset + 3] ^= 255
    path.write_bytes(broken)
    source = open_source(path)
    with pytest.raises(VolumeError, match=r"its chunk \(0, 1, 1\) is damaged"):
        source.read()
    np.testing.assert_array_equal(source.read(Box((5, 0, 0), (10, 40, 50))), array[5:10])
    path.write_bytes(b"not HDF5")
    with pytest.raises(ValueError, match="of no known format"):
        bv.open(path)


def test_a_checksum_tells(tmp_path):
    path = write(tmp_path / "a.h5", voxels(), chunks=SHAPE, fletcher32=True)
    with h5py.File(path) as file:
        found = file["volumes/raw"].id.get_chunk_info(0)
    data = bytearray(path.read_bytes())
    data[found.byte_offset + 5] ^= 1
    path.write_bytes(data)
    with pytest.raises(VolumeError, match="is damaged: its checksum"):
        open_source(path).read()


def test_chunks_that_decode_to_more_or_less(tmp_path):
    """What a chunk says of its size is not believed."""
    import zlib

    path = tmp_path / "a.h5"
    for data in (zlib.compress(bytes(1 << 22)), zlib.compress(b"123"), b"x"):
        with h5py.File(path, "w") as file:
            node = file.create_dataset("v", (4, 4, 4), "u2", chunks=(4, 4, 4), compression="gzip")
            node.id.write_direct_chunk((0, 0, 0), data)
        with pytest.raises(VolumeError, match=r"chunk \(0, 0, 0\) is damaged"):
            open_source(path).read()


def test_a_large_volume_of_no_voxels_opens(tmp_path):
    """Nothing is allocated for a shape that a file claims."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("v", (1 << 20, 1 << 20, 1 << 20), "u8", chunks=(64, 64, 64))
    source = open_source(path)
    assert not source.read(Box((5, 5, 1 << 19), (6, 7, (1 << 19) + 3))).any()
    assert "more than" in source.reader.remark


def test_bytes_at_random_are_no_crash(tmp_path):
    path = tmp_path / "a.h5"
    write(path, voxels(), **CHUNKED, compression="gzip", attributes={"element_size_um": [1, 1, 1]})
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(8, min(4000, len(data)), 3):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            open_source(path).read(Box((0, 0, 0), (1, 1, 1)))
        except (ValueError, OSError) as error:
            assert str(error).count("\n") == 0


@pytest.fixture
def another_trial():
    hdf5_trial._end()
    hdf5_trial._known.clear()
    yield
    hdf5_trial._end()


@pytest.mark.parametrize(
    ("program", "told"),
    [
        ("print('ready', flush=True); input(); os.abort()", "library crashes on its metadata"),
        ("print('ready', flush=True); input(); time.sleep(99)", "has not ended in 0.5 s reading"),
    ],
)
def test_a_library_that_does_not_come_back(tmp_path, monkeypatch, another_trial, program, told):
    """HDF5's own has been seen to crash, and to go on for ever, where one bit was another one."""
    path = write(tmp_path / "a.h5", voxels())
    right = hdf5_trial._PROGRAM
    monkeypatch.setattr(hdf5_trial, "_PROGRAM", "import os, time\n" + program)
    monkeypatch.setattr(hdf5_trial, "PATIENCE", 0.5 if "0.5" in told else 20.0)
    if "0.5" in told:
        monkeypatch.setattr(hdf5_trial, "_line", patient(hdf5_trial._line))
    with pytest.raises(VolumeError, match=rf"a\.h5 is damaged: HDF5's (library )?{told}"):
        bv.open(path)
    monkeypatch.setattr(hdf5_trial, "_PROGRAM", right)
    monkeypatch.setattr(hdf5_trial, "PATIENCE", 20.0)
    assert bv.open(path).shape == SHAPE


def patient(line):
    """Waits as long as it takes for the other process to start."""
    started = []

    def waited(other):
        if not started:
            started.append(other)
            return other.stdout.readline()
        return line(other)

    return waited


def test_where_no_other_process_can_be_started(tmp_path, monkeypatch, another_trial):
    monkeypatch.setattr(sys, "executable", "")
    assert bv.open(write(tmp_path / "a.h5", voxels())).shape == SHAPE


def test_without_h5py(tmp_path, monkeypatch):
    path = write(tmp_path / "a.h5", voxels())
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ValueError, match=r"needs h5py: pip install 'beam-volumes\[hdf5\]'"):
        bv.open(path)
    with pytest.raises(ValueError, match=r"needs h5py: pip install 'beam-volumes\[hdf5\]'"):
        bv.open(voxels()).to(tmp_path / "b.h5")


# -- writing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["gzip", "lzf", "none", {"name": "gzip", "level": 9}])
@pytest.mark.parametrize("dtype", ["bool", "u1", "u2", "i4", "u8", "f2", "f4"])
def test_written_and_read_by_h5py(tmp_path, codec, dtype):
    path, array = tmp_path / "a.h5", voxels(dtype)
    array[8:] = 0  # chunks of zeros are not stored
    volume = bv.open(array, voxel_size=(4, 3, 2), unit="nm")
    back = bv.compute(volume.to(path, chunks=(4, 8, 5), codec=codec, dataset="a/b"), runner=None)
    with h5py.File(path) as file:
        node = file["a/b"]
        np.testing.assert_array_equal(node[...], array)
        np.testing.assert_allclose(node.attrs["element_size_um"], [0.004, 0.003, 0.002])
        assert [d.label for d in node.dims] == ["z", "y", "x"]
        assert node.chunks == (4, 8, 5) and node.attrs["axes"] == "zyx"
        assert node.id.get_num_chunks() == 2 * 3 * 4
    for found in (back, bv.open(path)):
        assert found.dtype == dtype and found.voxel_size == (4.0, 3.0, 2.0)
        assert found.unit == "nanometer"
        np.testing.assert_array_equal(np.asarray(found), array)
    assert bv.verify(path, checksums=True) == []
    kept = sorted(os.listdir(tmp_path / ".a.h5.parts"))
    assert kept == ["_beam_volumes.json", "_beam_volumes_provenance.json"]


def test_noise_is_stored_as_it_is(tmp_path):
    """A chunk that a codec makes longer is stored without it."""
    array = np.random.default_rng(0).integers(0, 256, (16, 64, 64)).astype("u1")
    for codec in ("gzip", "lzf"):
        path = tmp_path / f"{codec}.h5"
        bv.compute(bv.open(array).to(path, codec=codec), runner=None)
        assert path.stat().st_size < array.nbytes + 16384
        with h5py.File(path) as file:
            np.testing.assert_array_equal(file["data"][...], array)
        np.testing.assert_array_equal(np.asarray(bv.open(path)), array)


def test_where_voxels_lie_and_images(tmp_path):
    volume = bv.open(voxels(), voxel_size=(4, 3, 2), unit="um")[2:, 3:]
    bv.compute(volume.to(tmp_path / "a.h5"), runner=None)
    found = bv.open(tmp_path / "a.h5")
    assert found.origin == (8.0, 9.0, 0.0) and found.unit == "micrometer"
    image = bv.open(voxels(shape=(1, 20, 30))[0], voxel_size=(4, 5), unit="nm")
    bv.compute(image.to(tmp_path / "b.hdf5"), runner=None)
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert file["data"].shape == (20, 30)
    found = bv.open(tmp_path / "b.hdf5")
    assert found.axes == ("y", "x") and found.voxel_size == (4.0, 5.0)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(image))


@pytest.mark.parametrize("chunks", [None, (4, 8, 5), (1, 4, 8, 5), (3, 4, 8, 5)])
@pytest.mark.parametrize("codec", ["gzip", "none"])
def test_channels_are_written(tmp_path, chunks, codec):
    array = voxels("u2", (3, *SHAPE))
    volume = bv.stack([bv.open(a) for a in array], names=["DAPI", "GFP", "RFP"])
    path = tmp_path / "a.h5"
    back = bv.compute(volume.to(path, chunks=chunks, codec=codec), runner=None)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["data"][...], array)
        assert list(file["data"].attrs["channels"]) == ["DAPI", "GFP", "RFP"]
        assert file["data"].attrs["axes"] == "czyx"
        assert file["data"].chunks[0] == (chunks[0] if chunks and len(chunks) == 4 else 1)
    for found in (back, bv.open(path)):
        np.testing.assert_array_equal(np.asarray(found), array)
    np.testing.assert_array_equal(np.asarray(bv.open(path, index={"c": "GFP"})), array[1])
    assert bv.verify(path, checksums=True) == []


def test_options_that_are_refused(tmp_path):
    volume = bv.open(voxels())
    for how, told in (
        ({"codec": "zstd"}, "HDF5 takes gzip, lzf or none"),
        ({"codec": {"name": "gzip", "level": 11}}, "level from 0 to 9"),
        ({"codec": {"name": "lzf", "level": 1}}, "level from 0 to 9"),
        ({"dataset": "a//b"}, "give a path in the file"),
        ({"dataset": ""}, "give a path in the file"),
        ({"dataset": "a/../b"}, "give a path in the file"),
        ({"chunks": (1, 2)}, "give a positive whole number"),
    ):
        with pytest.raises(ValueError, match=told):
            volume.to(tmp_path / "a.h5", **how)
    with pytest.raises(ValueError, match="is one file, for local disks"):
        volume.to("memory://a.h5")
    with pytest.raises(ValueError, match="HDF5 files are read from a disk"):
        bv.open("memory://a.h5:/raw")


def test_a_run_goes_on_where_it_stopped(tmp_path):
    path, alone = tmp_path / "a.h5", tmp_path / "b.h5"

    def target(place):
        return bv.maximum_filter(bv.open(voxels()), 3).to(place, chunks=(2, 23, 17))

    bv.compute(target(alone), runner=None)
    first = begin(bv.plan(target(path), slab=(2, 23, 17)), RunOptions())
    first.prepare()
    for slab in (0, 3):
        slabs.sweep_slab(first, 0, slab, {})
    assert not path.exists()
    assert bv.verify(path)
    with pytest.raises(OutputExistsError, match="resume=True"):
        bv.compute(target(path), runner=None)
    bv.compute(target(path), runner=None, resume=True, slab=(2, 23, 17))
    assert path.read_bytes() == alone.read_bytes()
    merging.finish_pass(first, 0, {}, {})  # a late attempt
    bv.compute(target(path), runner=None, resume=True, slab=(2, 23, 17))
    assert path.read_bytes() == alone.read_bytes()
    assert bv.verify(path, checksums=True) == []


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


def test_a_file_that_is_being_written(tmp_path):
    write(tmp_path / "a.h5", voxels())
    with (
        h5py.File(tmp_path / "a.h5", "r+"),
        pytest.raises(VolumeError, match="is open to write in this process: close it first"),
    ):
        bv.open(tmp_path / "a.h5")
    program = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print(flush=True); input()"
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "a.h5")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    other.stdout.readline()
    with pytest.raises(VolumeError, match="another program has it open to write; wait for its end"):
        bv.open(tmp_path / "a.h5")
    other.communicate(b"end")
    assert bv.open(tmp_path / "a.h5").shape == SHAPE


def test_the_program_says_so(tmp_path):
    """Whatever is decoded under a lock is said by the plan."""
    plugin = pytest.importorskip("hdf5plugin")
    path = write(tmp_path / "a.h5", voxels(), **CHUNKED, **plugin.Bitshuffle())
    told = bv.plan(bv.maximum_filter(bv.open(path), 3).to(tmp_path / "b.zarr")).explain()
    assert "under h5py's lock: its filter 32008" in told
