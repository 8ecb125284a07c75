"""Tiles and transforms in files of BigStitcher, TeraStitcher, OME-TIFF and OME-Zarr."""

import json
import os

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import tifffile

import beam_volumes as bv
from tests.catalogue import voxels

PLACES = [(0, 0, 0), (1, 4, 20), (0, 30, 2.5)]
SCALE = np.array([3.0, 1.0, 1.0])  # the calibration of voxels of 1.5 x 0.5 x 0.5


def tile_of(k):
    return voxels((4, 36, 28), "u2", k)


def affine(matrix, place):
    """A matrix of z, y and x in BigStitcher's order."""
    rows = np.c_[np.asarray(matrix, float)[::-1, ::-1], np.asarray(place, float)[::-1]]
    return " ".join(map(str, rows.ravel()))


def write_bigstitcher(path, loader, turn=None, channels=("0", "0", "0"), times=("0",)):
    setups, views = "", ""
    for k, place in enumerate(PLACES):
        setups += (
            f"<ViewSetup><id>{k}</id><size>28 36 4</size><voxelSize><unit>µm</unit><size>0.5 0.5 1.5"
            f"</size></voxelSize><attributes><channel>{channels[k]}</channel></attributes></ViewSetup>"
        )
        for t in times:
            views += f'<ViewRegistration timepoint="{t}" setup="{k}">'
            for name, matrix, shift in (
                ("Stitching Transform", np.eye(3) if turn is None else turn, SCALE * place),
                ("calibration", np.diag(SCALE), (0, 0, 0)),
            ):
                views += (
                    f'<ViewTransform type="affine"><Name>{name}</Name><affine>{affine(matrix, shift)}'
                    "</affine></ViewTransform>"
                )
            views += "</ViewRegistration>"
    path.write_text(
        f"<?xml version='1.0' encoding='UTF-8'?><SpimData version='0.2'><BasePath type='relative'>."
        f"</BasePath><SequenceDescription>{loader}<ViewSetups>{setups}<Attributes name='channel'>"
        "<Channel><id>0</id><name>DAPI</name></Channel><Channel><id>1</id><name>GFP</name></Channel>"
        f"</Attributes></ViewSetups></SequenceDescription><ViewRegistrations>{views}"
        "</ViewRegistrations><StitchingResults/></SpimData>",
        encoding="utf-8",
    )
    return path


def in_zarr(folder):
    groups = ""
    for k in range(3):
        bv.compute(bv.open(tile_of(k)).to(folder / "all.zarr" / f"s{k}.ome.zarr"))
        groups += f'<zgroup setup="{k}" tp="0" path="s{k}.ome.zarr" indicies="0 0"/>'
    groups = f"<zgroups>{groups}</zgroups>"
    return f'<ImageLoader format="bdv.multimg.zarr"><zarr>all.zarr</zarr>{groups}</ImageLoader>'


def in_n5(folder):
    for k in range(3):
        bv.compute(
            bv.open(tile_of(k)).to(folder / "a.n5" / f"setup{k}" / "timepoint0" / "s0", format="n5")
        )
    return '<ImageLoader format="bdv.n5"><n5 type="relative">a.n5</n5></ImageLoader>'


def in_hdf5(folder):
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        for k in range(3):
            file[f"t00000/s{k:02d}/0/cells"] = tile_of(k).view("i2")
            file[f"s{k:02d}/resolutions"] = [[1.0, 1.0, 1.0]]
    return '<ImageLoader format="bdv.hdf5"><hdf5 type="relative">a.h5</hdf5></ImageLoader>'


def in_tiffs(folder):
    files = ""
    for k in range(3):
        tifffile.imwrite(folder / f"t{k}.tif", tile_of(k), photometric="minisblack")
        files += (
            f'<FileMapping view_setup="{k}" timepoint="0" series="0" channel="0"><file type="relative">'
            f"t{k}.tif</file></FileMapping>"
        )
    return f'<ImageLoader format="spimreconstruction.filemap2"><files>{files}</files></ImageLoader>'


@pytest.mark.parametrize("write", [in_zarr, in_n5, in_hdf5, in_tiffs])
def test_bigstitcher(tmp_path, write):
    path = write_bigstitcher(tmp_path / "dataset.xml", write(tmp_path))
    tiles, transforms = bv.open_tiles(path)
    for k, tile in enumerate(tiles):
        np.testing.assert_array_equal(np.asarray(tile), tile_of(k))
        assert (tile.voxel_size, tile.unit) == ((1.5, 0.5, 0.5), "micrometer")
    np.testing.assert_array_equal(transforms, [np.c_[np.eye(3), p] for p in PLACES])
    fused = bv.fuse(tiles, transforms)
    np.testing.assert_array_equal(bv.fuse(tiles, PLACES)[:, :9, :9], fused[:, :9, :9])


def test_bigstitcher_is_written_back(tmp_path):
    """Other views and everything else in the file remain."""
    turn = np.array([[1, 0.1, 0], [0, 1, 0.2], [0.3, 0, 1]])
    path = write_bigstitcher(tmp_path / "a.xml", in_zarr(tmp_path), turn, channels=("0", "0", "1"))
    index = {"c": "DAPI"}
    _, transforms = bv.open_tiles(path, index=index)
    wanted = (turn * SCALE) / SCALE[:, None]
    np.testing.assert_allclose(transforms[1], np.c_[wanted, PLACES[1]])
    moved = np.array([np.c_[np.eye(3), (1, 2, 3.25)], np.c_[wanted, (4, 5, 6)]])
    bv.save_transforms(path, moved, tmp_path / "b.xml", index=index)
    _, again = bv.open_tiles(tmp_path / "b.xml", index=index)
    np.testing.assert_allclose(again, moved, rtol=1e-14)
    np.testing.assert_array_equal(again[0], moved[0])
    _, other = bv.open_tiles(tmp_path / "b.xml", index={"c": 1})
    np.testing.assert_array_equal(other, bv.open_tiles(path, index={"c": 1})[1])
    assert "StitchingResults" in (tmp_path / "b.xml").read_text()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        bv.save_transforms(path, moved, tmp_path / "b.xml", index=index)


def test_an_export_of_bigdataviewer(tmp_path):
    """It has one transform without a name, from voxels to micrometers."""
    path = write_bigstitcher(tmp_path / "a.xml", in_zarr(tmp_path))
    size = np.array([1.5, 0.5, 0.5])
    text = path.read_text(encoding="utf-8")
    for k, place in enumerate(PLACES):
        begin = text.index(f'setup="{k}"><ViewTransform')
        end = text.index("</ViewRegistration>", begin)
        matrix = f"<affine>{affine(np.diag(size), size * place)}</affine>"
        one = f'setup="{k}"><ViewTransform type="affine">{matrix}</ViewTransform>'
        text = text[:begin] + one + text[end:]
    path.write_text(text, encoding="utf-8")
    _, transforms = bv.open_tiles(path)
    np.testing.assert_array_equal(transforms, [np.c_[np.eye(3), p] for p in PLACES])
    bv.save_transforms(path, PLACES, tmp_path / "b.xml")
    np.testing.assert_array_equal(bv.open_tiles(tmp_path / "b.xml")[1], transforms)
    assert f"<affine>{affine(np.diag(size), (0, 0, 0))}" in (tmp_path / "b.xml").read_text()


def test_terastitcher(tmp_path):
    """Also if the folder of the stacks is not where the file says."""
    stacks = ""
    for k, (z, y, x) in enumerate(PLACES):
        bv.compute(bv.open(tile_of(k)).to(tmp_path / "0" / str(k), format="tiff-slices"))
        stacks += (
            f'<Stack ROW="0" COL="{k}" ABS_V="{y}" ABS_H="{x}" ABS_D="{z}" DIR_NAME="0/{k}" '
            'Z_RANGES="[0,4)"><NORTH_displacements/></Stack>'
        )
    stacks += '<Stack ROW="1" COL="0" ABS_V="0" ABS_H="0" ABS_D="0" DIR_NAME="none" Z_RANGES=""/>'
    (tmp_path / "import.xml").write_text(
        '<?xml version="1.0" encoding="UTF-8" ?><!DOCTYPE TeraStitcher SYSTEM "TeraStitcher.DTD">'
        r'<TeraStitcher volume_format="TiledXY|2Dseries"><stacks_dir value="C:\data" />'
        f'<voxel_dims V="0.8" H="-0.8" D="1" /><STACKS>{stacks}</STACKS></TeraStitcher>'
    )
    tiles, transforms = bv.open_tiles(tmp_path / "import.xml")
    np.testing.assert_array_equal(transforms[:, :, 3], PLACES)
    np.testing.assert_array_equal(np.asarray(tiles[2]), tile_of(2))
    assert (tiles[0].voxel_size, tiles[0].unit) == ((1, 0.8, 0.8), "micrometer")
    text = (tmp_path / "import.xml").read_text()
    (tmp_path / "import.xml").write_text(text.replace("voxel_dims", "dims"))
    with pytest.raises(ValueError, match="there is no 'voxel_dims'"):
        bv.open_tiles(tmp_path / "import.xml")


def write_ome_tiff(path, k, unit):
    z, y, x = PLACES[k]
    by = 1000 if unit == "nm" else 1
    tifffile.imwrite(
        path,
        tile_of(k),
        ome=True,
        metadata={
            "axes": "ZYX",
            **{"PhysicalSizeZ": 1.5, "PhysicalSizeY": 0.5, "PhysicalSizeX": 0.5},
            "Plane": {
                "PositionZ": [1.5 * (z + i) * by for i in range(4)],
                "PositionY": [0.5 * y * by] * 4,
                "PositionX": [0.5 * x * by] * 4,
                **({} if unit is None else {f"Position{a}Unit": [unit] * 4 for a in "XYZ"}),
            },
        },
    )  # fmt: skip


@pytest.mark.parametrize("unit", [None, "nm"])
def test_stage_positions_of_ome_tiff(tmp_path, unit):
    for k in range(3):
        write_ome_tiff(tmp_path / f"{k}.ome.tif", k, unit)
    tiles, transforms = bv.open_tiles(tmp_path / "*.ome.tif")
    np.testing.assert_allclose(transforms[:, :, 3], PLACES)
    np.testing.assert_array_equal(np.asarray(tiles[1]), tile_of(1))
    tifffile.imwrite(
        tmp_path / "2.ome.tif",
        tile_of(2),
        metadata={"axes": "ZYX", "PhysicalSizeZ": 1, "PhysicalSizeY": 1, "PhysicalSizeX": 1},
    )
    with pytest.raises(ValueError, match=r"2.ome.tif has no stage position, unlike other tiles"):
        bv.open_tiles(tmp_path / "*.ome.tif")
    tifffile.imwrite(
        tmp_path / "0.tif",
        tile_of(0),
        imagej=True,
        resolution=(2, 2),
        metadata={"spacing": 1, "unit": "um"},
    )
    with pytest.raises(ValueError, match="same position in their metadata; give a table"):
        bv.open_tiles([tmp_path / "0.tif"] * 2)


@pytest.mark.parametrize("is_set", [False, True])
def test_files_with_metadata_of_several_images(tmp_path, is_set):
    """Each has two images, or both have one and the metadata of the other, as Micro-Manager writes."""
    of_file = {"a.ome.tif": [0, 1], "b.ome.tif": [2, 0]}
    for name, ids in of_file.items():
        images = ""
        for n, k in enumerate([0, 1] if is_set else ids):
            z, y, x = np.multiply(PLACES[k], (1.5, 0.5, 0.5))
            planes = f'<TiffData IFD="{4 * n}" PlaneCount="4"/>'
            if is_set:
                file, id_ = list(of_file)[k], f"urn:uuid:0000000{k}-0000-0000-0000-000000000000"
                planes = f'<TiffData PlaneCount="4"><UUID FileName="{file}">{id_}</UUID></TiffData>'
            images += (
                f'<Image ID="Image:{n}"><Pixels ID="Pixels:{n}" DimensionOrder="XYZCT" Type="uint16" '
                'SizeX="28" SizeY="36" SizeZ="4" SizeC="1" SizeT="1" PhysicalSizeX="0.5" PhysicalSizeY="0.5" '
                f'PhysicalSizeZ="1.5"><Channel ID="Channel:{n}:0" SamplesPerPixel="1"/>{planes}<Plane '
                f'TheZ="0" TheC="0" TheT="0" PositionX="{x}" PositionY="{y}" PositionZ="{z}"/>'
                "</Pixels></Image>"
            )
        own = f' UUID="urn:uuid:0000000{list(of_file).index(name)}-0000-0000-0000-000000000000"'
        schema = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
        text = f'<?xml version="1.0" encoding="UTF-8"?><OME xmlns="{schema}"{own}>{images}</OME>'
        with tifffile.TiffWriter(tmp_path / name) as file:
            stored = [list(of_file).index(name)] if is_set else ids
            for n, page in enumerate(np.concatenate([tile_of(k) for k in stored])):
                about = text.encode() if n == 0 else None
                file.write(page, description=about, metadata=None, contiguous=False)
    wanted = [0, 1] if is_set else [0, 1, 2, 0]
    tiles, transforms = bv.open_tiles(tmp_path / "*.ome.tif")
    np.testing.assert_allclose(transforms[:, :, 3], [PLACES[k] for k in wanted])
    for tile, k in zip(tiles, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(tile), tile_of(k))


def test_positions_of_ome_zarr_are_read_and_written(tmp_path):
    """Also of coarser levels: the centre of their first voxel is elsewhere."""
    for k, version in enumerate(("0.4", "0.5", "0.5")):
        tile = bv.open(tile_of(k), voxel_size=(1.5, 0.5, 0.5), unit="um", origin=(3, 0, 0))
        bv.compute(tile.to(tmp_path / f"{k}.ome.zarr", ome_version=version, levels=2))
    paths = [tmp_path / f"{k}.ome.zarr" for k in range(3)]
    before = bv.open(paths[1], level=1).origin
    for _ in range(2):
        bv.save_transforms(paths, PLACES)
    tiles, transforms = bv.open_tiles(tmp_path / "*.ome.zarr")
    np.testing.assert_array_equal(transforms[:, :, 3], PLACES)
    after = bv.open(paths[1], level=1).origin
    np.testing.assert_allclose(
        np.subtract(after, before), np.multiply(PLACES[1], tiles[1].voxel_size) - (3, 0, 0)
    )
    for source in ("tiles.csv", paths):
        with pytest.raises(ValueError, match="not an XML file of BigStitcher"):
            bv.save_transforms(source, PLACES, tmp_path / "a.xml")
    with pytest.raises(ValueError, match="positions only"):
        bv.save_transforms(paths, [np.eye(3) * 2] * 3)
    # All are checked before the first is written.
    file = paths[0] / ".zattrs"
    written = file.read_bytes()
    bv.compute(tiles[2].to(tmp_path / "2.zarr"))
    for bad, message in (
        (tmp_path / "2.zarr", "not one OME-Zarr image"),
        (paths[2], "several units"),
    ):
        if bad == paths[2]:
            axes = json.loads((bad / "zarr.json").read_text())
            axes["attributes"]["ome"]["multiscales"][0]["axes"][-1]["unit"] = "nanometer"
            (bad / "zarr.json").write_text(json.dumps(axes))
        with pytest.raises(ValueError, match=message):
            bv.save_transforms([paths[0], bad], np.add(PLACES[:2], 9))
        assert file.read_bytes() == written


@pytest.mark.parametrize("version", [2, 3])
def test_multiview_stitcher(tmp_path, version):
    """Trees of xarray, with coordinates of voxels and named transforms of coordinates."""
    zarr = pytest.importorskip("zarr")
    turn = np.array([[1, 0, 0], [0, 1, 0.01], [0, 0, 1]])
    for k, place in enumerate(PLACES):
        group = zarr.open_group(tmp_path / f"{k}.zarr", mode="w", zarr_format=version)
        scale = group.create_group("scale0")

        def write(name, values, *axes, scale=scale):
            names = {"dimension_names": axes} if version == 3 else {}
            array = scale.create_array(name, data=np.asarray(values), **names)
            if version == 2:
                array.attrs["_ARRAY_DIMENSIONS"] = list(axes)

        write("image", tile_of(k)[None, None], *"tczyx")
        for a, n, size, first in zip("zyx", (4, 36, 28), (1.5, 0.5, 0.5), (3, 0, 1), strict=True):
            write(a, first + size * np.arange(n), a)
        write("t", [0.0], "t")
        write("stage", [np.eye(4)], "t", "x_in", "x_out")
        moved = np.eye(4)
        moved[:3, :3], moved[:3, 3] = turn, np.multiply(place, (1.5, 0.5, 0.5))
        write("registered", [moved], "t", "x_in", "x_out")
    with pytest.raises(
        ValueError, match="transforms registered, stage; choose one by transform_key="
    ):
        bv.open_tiles(tmp_path / "*.zarr")
    tiles, transforms = bv.open_tiles(tmp_path / "*.zarr", transform_key="registered")
    np.testing.assert_array_equal(np.asarray(tiles[1]), tile_of(1))
    assert tiles[1].voxel_size == (1.5, 0.5, 0.5)
    wanted = [np.c_[turn, np.add(p, (2, 0.02, 2))] for p in PLACES]
    np.testing.assert_allclose(transforms, wanted)
    assert bv.fuse(tiles, transforms).ndim == 3
    group = zarr.open_group(tmp_path / "0.zarr" / "scale0")
    for name, values in (("flat", np.eye(3)), ("lost", np.full((4, 4), np.nan))):
        group.create_array(name, data=values)
        with pytest.raises(
            ValueError, match=f"the transform {name} of .* is not a homogeneous matrix"
        ):
            bv.open_tiles(tmp_path / "0.zarr", transform_key=name)
    for values in (np.arange(36)[::-1], np.r_[np.arange(35), 40], np.full(36, np.nan)):
        group["y"][:] = values
        with pytest.raises(ValueError, match=r"coordinates y of .* do not increase in equal steps"):
            bv.open_tiles(tmp_path / "0.zarr", transform_key="stage")


def test_tables_with_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("in")
    for k in range(3):
        bv.compute(bv.open(tile_of(k)).to(f"in/{k}.zarr"))
    lines = ["path,x,y,z", *(f"{k}.zarr,{x},{y},{z}" for k, (z, y, x) in enumerate(PLACES))]
    (tmp_path / "in" / "tiles.csv").write_text("\n".join(lines))
    table = {"path": [f"in/{k}.zarr" for k in range(3)]}
    table |= {a: [p[i] for p in PLACES] for i, a in enumerate("zyx")}
    for source in ("in/tiles.csv", table, pyarrow.table(table), pyarrow.record_batch(table)):
        tiles, transforms = bv.open_tiles(source)
        np.testing.assert_array_equal(transforms[:, :, 3], PLACES)
        np.testing.assert_array_equal(np.asarray(tiles[2]), tile_of(2))
    with pytest.raises(ValueError, match="source has no rows"):
        bv.open_tiles({column: [] for column in table})
    for blank in ("", None):
        with pytest.raises(ValueError, match="source has no path in row 1"):
            bv.open_tiles(table | {"path": ["in/0.zarr", blank, "in/2.zarr"]})
    (tmp_path / "in" / "tiles.csv").write_bytes(b"path,z,y,x\n\xff,0,0,0\n")
    with pytest.raises(ValueError, match=r"source='in/tiles.csv' is not a CSV file"):
        bv.open_tiles("in/tiles.csv")


def test_two_columns_of_one_name_are_refused_in_every_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    slices = np.zeros((2, 5, 6), "u1")
    says = "has several columns called 'y'; rename or remove all but one"
    for text in ("y,x,y\n0,0,1\n0,0,1\n", "y,x, y \n0,0,1\n0,0,1\n"):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(ValueError, match=f"t.csv' {says}"):
            bv.apply_transforms(slices, "t.csv")
    (tmp_path / "tiles.csv").write_text("path,y,y,x\n0.zarr,0,1,2\n")
    with pytest.raises(ValueError, match=f"tiles.csv' {says}"):
        bv.open_tiles("tiles.csv")
    two = [np.zeros(2), np.zeros(2), np.ones(2)]
    names = ["y", "x", "y"]
    for table in (
        pyarrow.table(two, names=names),
        pandas.DataFrame(np.stack(two, 1), columns=names),
    ):
        with pytest.raises(ValueError, match=f"apply_transforms: transforms {says}"):
            bv.apply_transforms(slices, table)
        with pytest.raises(ValueError, match=f"open_tiles: source {says}"):
            bv.open_tiles(table)
    edges = pyarrow.table(
        [[1], [2], [0.5], [3]], names=["label_a", "label_b", "affinity_max", "label_a"]
    )
    pyarrow.parquet.write_table(edges, "edges.parquet")
    for table in (edges, "edges.parquet"):
        with pytest.raises(ValueError, match="has several columns called 'label_a'"):
            bv.agglomerate(table, linkage="max", threshold=0.1)


def test_rows_of_a_csv_file_with_more_or_fewer_values_than_columns_are_refused(tmp_path):
    path, slices = tmp_path / "t.csv", np.zeros((2, 5, 6), "u1")
    for row in ("1,5,0", "1"):  # a decimal comma; a missing value
        path.write_text(f"y,x\n0,0\n{row}\n")
        with pytest.raises(ValueError, match=r"row 1 of .*t.csv' has \d values for 2 columns"):
            bv.apply_transforms(slices, path)
    path.write_text("y,x,\n0,0,\n\n1,2,,\n")
    assert bv.apply_transforms(slices, path).shape == slices.shape


def test_refusals(tmp_path):
    loader = in_tiffs(tmp_path)
    path = write_bigstitcher(tmp_path / "a.xml", loader, channels=("0", "1", "1"), times=("0", "3"))
    with pytest.raises(ValueError, match=r"time points 0, 3; choose one by index=\{'t'"):
        bv.open_tiles(path)
    with pytest.raises(
        ValueError, match=r"channels 0 \(DAPI\), 1 \(GFP\); choose one by index={'c'"
    ):
        bv.open_tiles(path, index={"t": 0})
    with pytest.raises(ValueError, match="no axis 'channel' to choose from"):
        bv.open_tiles(path, index={"t": 0, "channel": 1})
    text = path.read_text()
    path.write_text(text[: text.index("<ViewRegistrations>")] + "</SpimData>")
    with pytest.raises(ValueError, match="there is no 'ViewRegistration'"):
        bv.open_tiles(path)
    path.write_text(text.replace('timepoint="3"', 'timepoint="three"'))
    with pytest.raises(ValueError, match=r"a\.xml has text in place of a number: .*'three'"):
        bv.open_tiles(path)
    path.write_text(text.replace("<SpimData", '<!DOCTYPE a [<!ENTITY e "ha">]><SpimData', 1))
    with pytest.raises(ValueError, match="declares entities"):
        bv.open_tiles(path)
    path.write_text(text.replace("filemap2", "stack.ij"))
    with pytest.raises(ValueError, match="resave them in BigStitcher as HDF5"):
        bv.open_tiles(path, index={"t": 0, "c": 0})
    path.write_text(text.replace(">t0.tif", ">../../t0.tif"))
    with pytest.raises(ValueError, match="outside its folder"):
        bv.open_tiles(path, index={"t": 0, "c": 0})
    path.write_text(text[:-20])
    with pytest.raises(ValueError, match="not valid XML"):
        bv.open_tiles(path)
    path.write_text("<svg/>")
    with pytest.raises(ValueError, match="XML of svg, not of BigStitcher"):
        bv.open_tiles(path)
    with pytest.raises(TypeError, match="neither a path"):
        bv.open_tiles(5)
    with pytest.raises(FileNotFoundError, match="does not exist; give an existing file"):
        bv.open_tiles("nowhere.xml")


STACK = voxels((12, 20, 34), "u2", 5)


def write_terastitcher(path, stacks, kind="2Dseries"):
    """A project of stacks that are 14 voxels apart; each gives its attributes."""
    rows = ""
    for k, stack in enumerate(stacks):
        given = {"ABS_V": 0, "ABS_H": 14 * k, "ABS_D": 0, "Z_RANGES": "[0,12)"} | stack
        rows += "<Stack " + " ".join(f'{a}="{v}"' for a, v in given.items()) + "/>"
    path.write_text(
        f'<TeraStitcher volume_format="TiledXY|{kind}"><stacks_dir value="."/><voxel_dims V="1" H="1" D="2"/>'
        f"<STACKS>{rows}</STACKS></TeraStitcher>"
    )
    return path


def write_slices(folder, planes, names="{:06d}.tif"):
    folder.mkdir(parents=True, exist_ok=True)
    for z, plane in enumerate(planes):
        tifffile.imwrite(folder / names.format(10 * z), plane, photometric="minisblack")


def test_slices_of_terastitcher_are_where_their_ranges_are(tmp_path):
    """Sparse stacks begin later, and have gaps."""
    right = STACK.copy()
    right[[0, 1, 5, 6], :, 20:] = 0
    there = [2, 3, 4, 7, 8, 9, 10, 11]
    write_slices(tmp_path / "a" / "a", STACK[:, :, :20])
    write_slices(tmp_path / "a" / "b", STACK[there, :, 14:])
    stacks = [{"DIR_NAME": r"a\a"}, {"DIR_NAME": r"a\b", "Z_RANGES": "[2,5); [7,12)"}]
    path = write_terastitcher(tmp_path / "a.xml", stacks)
    tiles, transforms = bv.open_tiles(path)
    np.testing.assert_array_equal(transforms[:, :, 3], [(0, 0, 0), (2, 0, 14), (7, 0, 14)])
    np.testing.assert_array_equal(np.asarray(bv.fuse(tiles, transforms, blending="first")), right)
    np.testing.assert_array_equal(np.asarray(bv.fuse(tiles, path, blending="first")), right)
    for ranges, message in (("[2,12)", "10 slices of .* but there are 8 images"),
                            ("[7,12);[2,5)", "not made of increasing ranges"),
                            ("[0,999999999999)", "999999999999 slices"),
                            ("(2,5]", "not made of increasing ranges")):  # fmt: skip
        stacks[1]["Z_RANGES"] = ranges
        with pytest.raises(ValueError, match=message):
            bv.open_tiles(write_terastitcher(tmp_path / "a.xml", stacks))


def test_a_stack_of_terastitcher_has_the_images_of_its_expression_only(tmp_path):
    """Channels and stacks may share a folder."""
    for name, planes in (("left", STACK[:, :, :20]), ("right", STACK[:, :, 14:])):
        write_slices(tmp_path, planes, name + "_{:06d}_C00.tif")
        write_slices(tmp_path, planes[:, ::-1], name + "_{:06d}_C01.tif")
    stacks = [{"DIR_NAME": "", "IMG_REGEX": rf"{n}_[0-9]+_C00\.tif"} for n in ("left", "right")]
    path = write_terastitcher(tmp_path / "a.xml", stacks)
    found = np.asarray(bv.fuse(*bv.open_tiles(path), blending="first"))
    np.testing.assert_array_equal(found, STACK)
    with pytest.raises(ValueError, match="no axis c to choose from"):
        bv.open_tiles(path, index={"c": 1})
    for expression, kind, message in (
        ("_C00", FileNotFoundError, "no images that match IMG_REGEX='_C00'"),  # all of a name
        ("(.*", ValueError, "is not a regular expression"),
        ("(a+)+", ValueError, "may take for ever"),
        (".*.*.*.*.*", ValueError, "may take for ever"),
        (r".*\.tif", ValueError, "12 slices of .* but there are 48 images"),
    ):
        stacks[0]["IMG_REGEX"] = expression
        with pytest.raises(kind, match=message):
            bv.open_tiles(write_terastitcher(tmp_path / "a.xml", stacks))


@pytest.mark.parametrize("declared", [True, False])
def test_blocks_of_terastitcher_are_stacked(tmp_path, declared):
    left, right = STACK[:, :, :20], STACK[:, :, 14:]
    for name, planes in (("0", left[:5]), ("50", left[5:])):
        write_slices(tmp_path / "a", [planes], f"{name:0>6}.tif")
    write_slices(tmp_path / "b", [right[5:]], "000050.tif")
    about = {"N_BLOCKS": 2, "BLOCK_SIZES": "5,7", "BLOCKS_ABS_D": "0,5"} if declared else {}
    stacks = [{"DIR_NAME": "a", **about}, {"DIR_NAME": "b", **about, "Z_RANGES": "[5,12)"}]
    path = write_terastitcher(tmp_path / "a.xml", stacks, "3Dseries")
    expected = STACK.copy()
    expected[:5, :, 20:] = 0
    found = np.asarray(bv.fuse(*bv.open_tiles(path), blending="first"))
    np.testing.assert_array_equal(found, expected)
    if declared:
        stacks[0]["BLOCK_SIZES"] = "5,6"
        with pytest.raises(ValueError, match=r"has 12 slices, but .* declares 11"):
            bv.open_tiles(write_terastitcher(tmp_path / "a.xml", stacks, "3Dseries"))
        stacks[0]["BLOCK_SIZES"] = "5"
        with pytest.raises(ValueError, match="1 BLOCK_SIZES and 2 BLOCKS_ABS_D"):
            bv.open_tiles(write_terastitcher(tmp_path / "a.xml", stacks, "3Dseries"))


def write_views(path, views, names=()):
    """A project of BigStitcher: an image, the extent z, y, x of its voxels, and its transforms."""
    setups, registrations, files = "", "", ""
    for k, (image, size, transforms) in enumerate(views):
        tifffile.imwrite(path.parent / f"v{k}.tif", image, photometric="minisblack")
        files += f'<FileMapping view_setup="{k}" timepoint="0"><file>v{k}.tif</file></FileMapping>'
        extent = " ".join(map(str, size[::-1]))
        setups += f"<ViewSetup><id>{k}</id>"
        if size:
            setups += f"<voxelSize><unit>µm</unit><size>{extent}</size></voxelSize>"
        setups += "</ViewSetup>"
        registrations += f'<ViewRegistration timepoint="0" setup="{k}">'
        for n, (matrix, place) in enumerate(transforms):
            registrations += f"<ViewTransform><Name>{names[n] if names else n}</Name>"
            registrations += f"<affine>{affine(matrix, place)}</affine></ViewTransform>"
        registrations += "</ViewRegistration>"
    path.write_text(
        '<SpimData><SequenceDescription><ImageLoader format="spimreconstruction.filemap2"><files>'
        f"{files}</files></ImageLoader><ViewSetups>{setups}</ViewSetups></SequenceDescription>"
        f"<ViewRegistrations>{registrations}</ViewRegistrations></SpimData>",
        encoding="utf-8",
    )
    return path


def scaled(*scales):
    return np.diag(np.array(scales, float)), (0, 0, 0)


def moved(z, y, x):
    return np.eye(3), (z, y, x)


HALF = (1, 0.5, 0.5)  # micrometers; the calibration of BigStitcher is then 2, 1, 1
SIZE = "0.5 0.5 1"
C, S = np.cos(0.3), np.sin(0.3)
TURN = np.array([[1, 0, 0], [0, C, -S], [0, S, C]])
SHEAR = np.array([[1, 0, 0], [0, 1, 0], [0.4, 0, 1]])


@pytest.mark.parametrize(
    ("transforms", "linear", "place"),
    [
        ([moved(0, 0, 14), scaled(2, 1, 1)], np.eye(3), (0, 0, 14)),
        ([moved(4, 0, 14), scaled(2, 1, 1), moved(0, 0, 0)], np.eye(3), (2, 0, 14)),
        ([moved(0, 0, 14), scaled(2, 1, 1), moved(0, 0, 3)], np.eye(3), (0, 0, 17)),
        ([scaled(2, 1, 1), moved(1, 0, 14)], np.eye(3), (1, 0, 14)),
        ([scaled(1, 0.5, 0.5), moved(1, 0, 14)], np.eye(3), (1, 0, 14)),  # of BigDataViewer
        ([(np.diag([1, 0.5, 0.5]), (1, 0, 7))], np.eye(3), (1, 0, 14)),
        ([scaled(2, 1, 1), (TURN, (0, 0, 0))], TURN, (0, 0, 0)),
        ([(TURN @ np.diag([1, 0.5, 0.5]), (0, 1, 7))], TURN, (0, 2, 14)),
        ([(SHEAR, (0, 0, 0)), scaled(2, 1, 1)], np.eye(3) + 0.8 * np.eye(3)[::-1] * [1, 0, 0], (0, 0, 0)),
        ([(SHEAR @ np.diag([2, 1, 1]), (0, 0, 6))], np.eye(3) + 0.8 * np.eye(3)[::-1] * [1, 0, 0], (0, 0, 6)),
        ([moved(0, 0, 14)], np.eye(3), (0, 0, 14)),  # without a calibration
        ([scaled(1.02, 1, 0.98), scaled(2, 1, 1), moved(0, 0, 0)], np.diag([1.02, 1, 0.98]), (0, 0, 0)),
    ],
)  # fmt: skip
def test_registrations_of_bigstitcher_in_any_order_place_voxels_of_the_stated_size(
    tmp_path, transforms, linear, place
):
    image = tile_of(0)
    other = [moved(0, 0, 0), *transforms]
    path = write_views(tmp_path / "a.xml", [(image, HALF, transforms), (image, HALF, other)])
    tiles, found = bv.open_tiles(path)
    assert [(t.voxel_size, t.unit) for t in tiles] == [(HALF, "micrometer")] * 2
    np.testing.assert_allclose(found, [np.c_[linear, place]] * 2, rtol=1e-12, atol=1e-9)
    if np.array_equal(linear, np.eye(3)):
        np.testing.assert_array_equal(found[:, :, :3], [np.eye(3)] * 2)  # for register_tiles
        fused = bv.fuse(tiles, found)
        assert (fused.shape, fused.voxel_size) == (image.shape, HALF)
    new = np.array([np.c_[np.diag([1.3, 1, 1]), (1, 2, 3)], np.c_[TURN, (4, 5, 6)]])
    bv.save_transforms(path, new, tmp_path / "b.xml")
    np.testing.assert_allclose(bv.open_tiles(tmp_path / "b.xml")[1], new, rtol=1e-12, atol=1e-12)


def test_setups_of_different_voxel_sizes_are_fused_at_their_extents(tmp_path):
    """A voxel of the second is a block of 1 x 2 x 2 of the first."""
    whole = voxels((4, 20, 34), "u2", 3) & 0x3FFF
    blocks = whole[:, :, 14:].reshape(4, 10, 2, 10, 2).mean(axis=(2, 4)).round().astype("u2")
    views = [
        (whole[:, :, :20], HALF, [moved(0, 0, 0), scaled(2, 1, 1)]),
        (blocks, (1, 1, 1), [moved(0, 0, 14), scaled(2, 2, 2)]),
    ]
    path = write_views(tmp_path / "a.xml", views)
    tiles, transforms = bv.open_tiles(path)
    assert [t.voxel_size for t in tiles] == [HALF, (1, 1, 1)]
    for source in (transforms, path):
        fused = bv.fuse(tiles, source, blending="first", order=0)
        assert (fused.shape, fused.voxel_size) == (whole.shape, HALF)
        right = whole.copy()
        right[:, :, 20:] = blocks.repeat(2, 1).repeat(2, 2)[:, :, 6:]
        np.testing.assert_array_equal(np.asarray(fused), right)
    # In micrometers, a matrix of one scales nothing else.
    size = np.array(HALF)
    lengths = [(0, 0, 0), transforms[1][:, 3] * size]
    again = bv.fuse(tiles, lengths, physical=True, blending="first", order=0)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(fused))
    with pytest.raises(ValueError, match=r"the voxel size of .* is 1x0.5x0.5 .* has 1x1x1"):
        bv.fuse(tiles, transforms[:, :, 3])
    bv.save_transforms(path, transforms, tmp_path / "b.xml")
    np.testing.assert_allclose(bv.open_tiles(tmp_path / "b.xml")[1], transforms, rtol=1e-12)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            SIZE,
            "0.5 0 1.5",
            r"voxelSize/size of the ViewSetup 1 is '0.5 0 1.5', not three positive",
        ),
        (SIZE, "0.5 0.5 -1.5", "size of the ViewSetup 1 is '0.5 0.5 -1.5'"),
        (SIZE, "0.5 NaN 1.5", "size of the ViewSetup 1 is '0.5 NaN 1.5'"),
        (SIZE, "0.5 0.5 inf", "size of the ViewSetup 1 is '0.5 0.5 inf'"),
        (SIZE, "1e999 0.5 1.5", "size of the ViewSetup 1 is '1e999"),
        (SIZE, "0.5 0.5", "size of the ViewSetup 1 is '0.5 0.5', not three"),
        (SIZE, "a b c", "size of the ViewSetup 1 is 'a b c'"),
        (SIZE, "", "size of the ViewSetup 1 is '', not"),
        (f"<size>{SIZE}</size>", "", "size of the ViewSetup 1 is '', not"),
        ("µm", "furlong", "voxelSize/unit of the ViewSetup 1 is 'furlong', not a unit of length"),
    ],
)
def test_a_wrong_voxel_size_of_bigstitcher_is_refused_by_its_element(tmp_path, old, new, message):
    path = write_views(tmp_path / "a.xml", [(tile_of(k), HALF, [moved(0, 0, k)]) for k in range(2)])
    text = path.read_text(encoding="utf-8")
    begin = text.index("<id>1</id>")
    path.write_text(text[:begin] + text[begin:].replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"a\.xml: .*{message}"):
        bv.open_tiles(path)


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("µm", "micrometer"), ("μm", "micrometer"), ("um", "micrometer"), (" micrometer ", "micrometer"),
        ("Micron", "micrometer"), ("microns", "micrometer"), ("nm", "nanometer"), ("mm", "millimeter"),
        ("pixels", None), ("px", None), ("", None),
    ],
)  # fmt: skip
def test_units_of_bigstitcher(tmp_path, unit, name):
    path = write_views(tmp_path / "a.xml", [(tile_of(0), HALF, [moved(0, 0, 0)])])
    text = path.read_text(encoding="utf-8").replace("µm", unit)
    path.write_text(text, encoding="utf-8")
    tile = bv.open_tiles(path)[0][0]
    assert (tile.voxel_size, tile.unit) == (HALF, name)


@pytest.mark.parametrize("given", ["0", "nan", "-inf", "1e999", "", "wide", "--1"])
def test_a_wrong_voxel_size_of_terastitcher_is_refused_by_its_element(tmp_path, given):
    path = tmp_path / "a.xml"
    for dims in (f'V="1" H="{given}" D="2"', 'V="1" D="2"'):
        path.write_text(
            f'<TeraStitcher volume_format="TiledXY|2Dseries"><stacks_dir value="."/><voxel_dims {dims}/>'
            "<STACKS/></TeraStitcher>"
        )
        with pytest.raises(
            ValueError, match=r"a\.xml: voxel_dims has H='.*', not a length in micro"
        ):
            bv.open_tiles(path)


def test_a_voxel_size_is_not_needed_and_may_have_other_units(tmp_path):
    views = [(tile_of(0), (), [moved(2, 0, 14), scaled(2, 1, 1)])] * 2
    tiles, transforms = bv.open_tiles(write_views(tmp_path / "a.xml", views))
    assert tiles[0].voxel_size is None
    np.testing.assert_array_equal(transforms, [np.c_[np.eye(3), (1, 0, 14)]] * 2)
    views = [(tile_of(0), HALF, views[0][2]), (tile_of(0), (1000, 500, 500), views[0][2])]
    path = write_views(tmp_path / "a.xml", views)
    text = path.read_text(encoding="utf-8")
    begin = text.rindex("<unit>µm")
    path.write_text(text[:begin] + text[begin:].replace("µm", "nm", 1), encoding="utf-8")
    tiles, transforms = bv.open_tiles(path)
    assert [t.unit for t in tiles] == ["micrometer", "nanometer"]
    np.testing.assert_array_equal(transforms, [np.c_[np.eye(3), (1, 0, 14)]] * 2)
    assert bv.fuse(tiles, transforms).shape == tile_of(0).shape


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<id>1</id>", "<id> 00</id>", "has ViewSetup 0 twice"),
        ('timepoint="0" setup="1"', 'timepoint="00" setup="0"', r"ViewRegistration \('0', '0'\) twice"),
        ('view_setup="1"', 'view_setup="0"', r"FileMapping \('0', '0'\) twice"),
        ('setup="1"', 'setup="2"', "setup 1 has no ViewRegistration at the time point 0"),
    ],
)  # fmt: skip
def test_no_setup_is_lost(tmp_path, old, new, message):
    views = [(tile_of(k), HALF, [moved(0, 0, k), scaled(2, 1, 1)]) for k in range(2)]
    path = write_views(tmp_path / "a.xml", views)
    text = path.read_text(encoding="utf-8")
    begin = text.index("<ViewRegistrations>") if old == 'setup="1"' else 0
    path.write_text(text[:begin] + text[begin:].replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        bv.open_tiles(path)
    views = [(tile_of(0), HALF, [scaled(2, 1, 0)])]
    with pytest.raises(ValueError, match="setup 0 has no inverse"):
        bv.open_tiles(write_views(tmp_path / "a.xml", views))
