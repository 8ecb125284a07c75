"""Files that name other files: those elsewhere are read only where that is allowed, and all are listed."""

import json
import pickle

import cloudpickle
import numpy as np
import pytest
import tifffile

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.storage.places.outside import OutsideError, check_key, check_path

h5py = pytest.importorskip("h5py")
SHAPE = (2, 3, 4)
ARRAY = np.arange(24, dtype="u1").reshape(SHAPE)


def nrrd(header, named, other):
    other.write_bytes(ARRAY.tobytes())
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 4 3 2\nencoding: raw\n"
    header.write_text(f"{head}data file: {named}\n\n")


def metaimage(header, named, other):
    other.write_bytes(ARRAY.tobytes())
    head = "ObjectType = Image\nNDims = 3\nDimSize = 4 3 2\nElementType = MET_UCHAR\n"
    header.write_text(f"{head}ElementDataFile = {named}\n")


def virtual(header, named, other):
    with h5py.File(other, "w") as file:
        file["a"] = ARRAY
    layout = h5py.VirtualLayout(SHAPE, "u1")
    layout[:] = h5py.VirtualSource(named, "a", SHAPE)
    with h5py.File(header, "w") as file:
        file.create_virtual_dataset("a", layout)


def external_link(header, named, other):
    with h5py.File(other, "w") as file:
        file["a"] = ARRAY
    with h5py.File(header, "w") as file:
        file["a"] = h5py.ExternalLink(named, "/a")
        file["soft"] = h5py.SoftLink("/a")


def raw_of_hdf5(header, named, other):
    other.write_bytes(ARRAY.tobytes())
    with h5py.File(header, "w") as file:
        file.create_dataset("a", SHAPE, "u1", external=[(named, 0, ARRAY.nbytes)])


def ome_tiff(header, named, other):
    tifffile.imwrite(other, ARRAY[1], photometric="minisblack", metadata=None)
    planes = "".join(
        f'<TiffData FirstZ="{z}" IFD="0" PlaneCount="1">'
        f'<UUID FileName="{name}">urn:uuid:{z}</UUID></TiffData>'
        for z, name in enumerate([header.name, named])
    )
    text = (
        '<?xml version="1.0"?>'
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:0">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" SizeT="1" SizeC="1" SizeZ="2" SizeY="3" SizeX="4" '
        f'Type="uint8" DimensionOrder="XYZCT">{planes}</Pixels></Image></OME>'
    )
    tifffile.imwrite(header, ARRAY[0], photometric="minisblack", metadata=None, description=text)


CASES = {
    "a.nhdr": nrrd,
    "a.mhd": metaimage,
    "v.h5:a": virtual,
    "l.h5:a": external_link,
    "s.h5:soft": external_link,
    "e.h5:a": raw_of_hdf5,
    "a.ome.tif": ome_tiff,
}


@pytest.fixture
def trusted():
    bv.options.outside = True
    yield
    bv.options.outside = False


@pytest.mark.parametrize("how", ["absolute", "above"])
@pytest.mark.parametrize("name", CASES)
def test_a_file_elsewhere_is_not_read(tmp_path, name, how, capsys):
    folder = tmp_path / "given"
    folder.mkdir()
    other = tmp_path / "other.bin"
    named = str(other) if how == "absolute" else "../other.bin"
    CASES[name](folder / name.partition(":")[0], named, other)
    path = str(folder / name)
    with pytest.raises(ValueError, match=r"refers to the .*, which is outside its folder"):
        bv.open(path)
    assert main(["info", path]) == 2
    assert "set --outside" in capsys.readouterr().err
    if (name, how) == ("e.h5:a", "above"):
        return  # HDF5 looks for it in the current directory
    assert main(["info", path, "--outside"]) == 0
    told = capsys.readouterr().out
    assert "also reads" in told and str(other) in told
    assert bv.options.outside is False


@pytest.mark.parametrize("name", CASES)
def test_a_file_elsewhere_is_read_if_that_is_allowed(tmp_path, name, trusted):
    folder = tmp_path / "given"
    folder.mkdir()
    other = tmp_path / "other.bin"
    CASES[name](
        folder / name.partition(":")[0], str(other) if name == "e.h5:a" else "../other.bin", other
    )
    np.testing.assert_array_equal(np.asarray(bv.open(str(folder / name))), ARRAY)


def test_workers_read_it_if_their_caller_allows_that(tmp_path, trusted):
    (tmp_path / "given").mkdir()
    path = tmp_path / "given" / "a.nhdr"
    nrrd(path, "../other.bin", tmp_path / "other.bin")
    each = bv.ComputeAll(lambda path: {"sum": bv.sum(bv.open(path))}).computing
    read = bv.ReadAll().opened
    bv.options.outside = False  # as in a worker
    each, read = (pickle.loads(cloudpickle.dumps(step)) for step in (each, read))
    assert each(path)[1] == {"sum": ARRAY.sum()}
    assert read("a", path).volume.shape == ARRAY.shape
    with pytest.raises(OutsideError):
        bv.open(path)
    with pytest.raises(OutsideError):
        bv.ComputeAll(lambda path: {"sum": bv.sum(bv.open(path))}).computing(path)


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_the_folder_is_read(tmp_path, name, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # HDF5 looks for raw files there
    CASES[name](tmp_path / name.partition(":")[0], "other.bin", tmp_path / "other.bin")
    np.testing.assert_array_equal(np.asarray(bv.open(str(tmp_path / name))), ARRAY)
    assert main(["info", str(tmp_path / name)]) == 0
    assert str(tmp_path / "other.bin") in capsys.readouterr().out


@pytest.mark.parametrize("key", ["..", "a/../../b", "/etc", "file:///etc", r"..\b"])
def test_keys_that_lead_out_of_a_group(key):
    with pytest.raises(OutsideError):
        check_key("a.zarr", key)


@pytest.mark.parametrize("key", ["../other.zarr", "/etc", "0/../../other.zarr"])
def test_an_image_has_no_array_elsewhere(tmp_path, key):
    bv.compute(bv.open(ARRAY).to(tmp_path / "a.ome.zarr"), runner=None, progress=False)
    path = tmp_path / "a.ome.zarr" / "zarr.json"
    document = json.loads(path.read_text())
    document["attributes"]["ome"]["multiscales"][0]["datasets"][0]["path"] = key
    path.write_text(json.dumps(document))
    with pytest.raises(OutsideError, match="which is outside the group"):
        bv.open(tmp_path / "a.ome.zarr")


def test_a_plate_leads_to_no_well_elsewhere(tmp_path):
    attributes = {"ome": {"version": "0.5", "plate": {"wells": [{"path": "../B/3"}]}}}
    document = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
    (tmp_path / "zarr.json").write_text(json.dumps(document))
    with pytest.raises(OutsideError, match=r"\.\./B/3"):
        bv.open(tmp_path, well="../B/3")


def table(folder, name):
    (folder / "tiles.csv").write_text(f"path,z,y,x\n{name},0,0,0\n")
    return lambda: bv.open_tiles("tiles.csv")


def terastitcher(folder, name):
    (folder / "a.xml").write_text(
        f'<TeraStitcher><stacks_dir value="."/><voxel_dims V="1" H="1" D="1"/><STACKS><Stack '
        f'DIR_NAME="{name}" ABS_V="0" ABS_H="0" ABS_D="0"/></STACKS></TeraStitcher>'
    )
    return lambda: bv.open_tiles("a.xml")


def bigstitcher(folder, name):
    (folder / "a.xml").write_text(
        '<SpimData><SequenceDescription><ImageLoader format="spimreconstruction.filemap2"><files>'
        f'<FileMapping view_setup="0" timepoint="0"><file>{name}</file></FileMapping></files></ImageLoader>'
        "<ViewSetups><ViewSetup><id>0</id></ViewSetup></ViewSetups></SequenceDescription><ViewRegistrations>"
        '<ViewRegistration timepoint="0" setup="0"/></ViewRegistrations></SpimData>'
    )
    return lambda: bv.open_tiles("a.xml")


def header(write, own):
    def reader(folder, name):
        write(folder / own, name, folder / "other.bin")
        return lambda: bv.open(own)

    return reader


READERS = {
    "table": table,
    "terastitcher": terastitcher,
    "bigstitcher": bigstitcher,
    "nrrd": header(nrrd, "a.nhdr"),
    "metaimage": header(metaimage, "a.mhd"),
    "ome-tiff": header(ome_tiff, "a.ome.tif"),
}


@pytest.mark.parametrize(
    "name", ["http://127.0.0.1:9/a.zarr", "file:///etc", "n5://../a", r"..\b.npy", "../b.npy"]
)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_named_by_a_relative_path_leads_to_no_url_and_no_other_folder(
    tmp_path, monkeypatch, reader, name
):
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "b.npy", ARRAY)
    monkeypatch.chdir(tmp_path / "in")
    opening = READERS[reader](tmp_path / "in", name)
    with pytest.raises(OutsideError, match=r"which is (a URL|outside its folder)"):
        opening()


def test_a_table_leads_to_no_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.save(tmp_path / "b.npy", ARRAY)
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        table(tmp_path / "in", "~/b.npy")()


def test_names_with_separators_of_windows_are_found(tmp_path):
    (tmp_path / "in").mkdir()
    nrrd(tmp_path / "a.nhdr", r"in\a.raw", tmp_path / "in" / "a.raw")
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "a.nhdr")), ARRAY)
    np.save(tmp_path / "in" / "b.npy", ARRAY)
    (tmp_path / "tiles.csv").write_text("path,z,y,x\nin\\b.npy,0,0,0\n")
    np.testing.assert_array_equal(np.asarray(bv.open_tiles(tmp_path / "tiles.csv")[0][0]), ARRAY)
    (tmp_path / r"in\b.npy").write_bytes((tmp_path / "in" / "b.npy").read_bytes()[:-1] + b"\x99")
    assert np.asarray(bv.open_tiles(tmp_path / "tiles.csv")[0][0])[-1, -1, -1] == 0x99


def test_an_entity_hides_no_file_of_a_set(tmp_path):
    """Its characters may be escaped, so that the names are not in the text."""
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "a.ome.tif"
    ome_tiff(path, "../other.bin", tmp_path / "other.bin")
    with tifffile.TiffFile(path) as file:
        text = file.ome_metadata
    start, end = text.index("<TiffData"), text.index("</Pixels>")
    hidden = text[start:end].replace("FileName", "&#70;ileName").replace('"', "&#34;")
    dtd = f'<!DOCTYPE OME [<!ENTITY e "{hidden}">]>'
    text = text[:start] + "&e;" + text[end:]
    text = text.replace("?>", f"?>{dtd}", 1)
    tifffile.imwrite(path, ARRAY[0], photometric="minisblack", metadata=None, description=text)
    with pytest.raises(ValueError, match="declares entities"):
        bv.open(path)


def test_names_that_begin_alike_are_no_folder(tmp_path):
    with pytest.raises(OutsideError):
        check_path(str(tmp_path / "a" / "h.nhdr"), str(tmp_path / "ab" / "x.raw"))
    with pytest.raises(TypeError, match="True or False"):
        bv.options.outside = 1
