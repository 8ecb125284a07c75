"""Units, voxel sizes and directions of axes: every reader converts, refuses or leaves them open."""

import json

import numpy as np
import pytest
import tifffile
import xarray
import zarr

import beam_volumes as bv
from beam_volumes.base.space import AXES, METRES, Space
from beam_volumes.cli.main import main
from beam_volumes.storage.sources.axes import UNITS, in_one_unit, unit_name

h5py = pytest.importorskip("h5py")
SHAPE = (4, 5, 6)
ARRAY = np.arange(120, dtype="u1").reshape(SHAPE)
SPACE = ("z", "y", "x")


def ngff(path, scale, units, translation=(0.0, 0.0, 0.0), names=SPACE):
    bv.compute(bv.open(ARRAY).to(path), runner=None, progress=False)
    document = json.loads((path / "zarr.json").read_text())
    image = document["attributes"]["ome"]["multiscales"][0]
    axes = zip(names, units, strict=True)
    image["axes"] = [{"name": n, "type": "space", **({"unit": u} if u else {})} for n, u in axes]
    steps = [{"type": "scale", "scale": scale}, {"type": "translation", "translation": translation}]
    image["datasets"][0]["coordinateTransformations"] = steps
    (path / "zarr.json").write_text(json.dumps(document))
    return path


def n5(path, scale, units, translation=(0.0, 0.0, 0.0)):
    bv.compute(bv.open(ARRAY).to(path), runner=None, progress=False)
    attributes = json.loads((path / "attributes.json").read_text())
    attributes = {
        k: attributes[k] for k in ("n5", "dimensions", "blockSize", "dataType", "compression")
    }
    lies = {"axes": SPACE, "scale": scale, "translate": translation, "units": units}
    (path / "attributes.json").write_text(json.dumps({**attributes, "transform": lies}))
    return path


def n5_resolution(path, scale, units, translation=None):
    n5(path, [1, 1, 1], ["", "", ""])
    attributes = json.loads((path / "attributes.json").read_text())
    attributes |= {"resolution": scale[::-1], "units": units[::-1]}
    del attributes["transform"]
    (path / "attributes.json").write_text(json.dumps(attributes))
    return path


def quoted(units):
    return " ".join(f'"{u}"' for u in units[::-1])


def nrrd(path, scale, units, translation=(0.0, 0.0, 0.0)):
    vectors = " ".join(
        "({},{},{})".format(*(s if k == d else 0 for k in range(3)))
        for d, s in enumerate(scale[::-1])
    )
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 6 5 4\nencoding: raw\nspace dimension: 3\n"
    head += f"space directions: {vectors}\nspace units: {quoted(units)}\n"
    head += "space origin: ({},{},{})\n\n".format(*translation[::-1])
    path.write_bytes(head.encode() + ARRAY.tobytes())
    return path


def nrrd_spacings(path, scale, units, translation=None):
    head = "NRRD0004\ntype: uint8\ndimension: 3\nsizes: 6 5 4\nencoding: raw\n"
    head += f"spacings: {' '.join(map(str, scale[::-1]))}\n"
    head += f"units: {quoted(units)}\n\n"
    path.write_bytes(head.encode() + ARRAY.tobytes())
    return path


def hdf5(path, scale, units, translation=(0.0, 0.0, 0.0)):
    with h5py.File(path, "w") as file:
        node = file.create_dataset("a", data=ARRAY)
        node.attrs.update(voxel_size=scale, unit=units, origin=translation)
    return path


def minc(path, scale, units, translation=(0.0, 0.0, 0.0)):
    with h5py.File(path, "w") as file:
        for a, step, unit, start in zip(SPACE, scale, units, translation, strict=True):
            node = file.create_dataset(f"minc-2.0/dimensions/{a}space", data=0)
            node.attrs.update(step=float(step), units=unit, start=float(start))
        node = file.create_dataset("minc-2.0/image/0/image", data=ARRAY)
        node.attrs.update(dimorder=b"zspace,yspace,xspace")
    return path


def imagej(path, scale, units, translation=None):
    z, y, x = ("".join(c if c.isascii() else f"\\u{ord(c):04X}" for c in u) for u in units)
    text = f"ImageJ=1.54f\nimages=4\nslices=4\nunit={x}\nyunit={y}\nzunit={z}\nspacing={scale[0]}\n"
    resolution = (1 / scale[2], 1 / scale[1])
    how = {"photometric": "minisblack", "metadata": None, "resolution": resolution}
    tifffile.imwrite(path, ARRAY, description=text, **how)
    return path


def ome_tiff(path, scale, units, translation=None):
    sizes = "".join(
        f' PhysicalSize{a.upper()}="{s}" PhysicalSize{a.upper()}Unit="{u}"'
        for a, s, u in zip(SPACE, scale, units, strict=True)
        if s is not None
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" SizeT="1" SizeC="1" SizeZ="4" SizeY="5" SizeX="6" '
        f'Type="uint8" DimensionOrder="XYZCT"{sizes}><TiffData/></Pixels></Image></OME>'
    )
    how = {"photometric": "minisblack", "metadata": None, "description": text.encode()}
    tifffile.imwrite(path, ARRAY, **how)
    return path


def of_xarray(path, scale, units, translation=(0.0, 0.0, 0.0)):
    at = {
        a: (a, o + s * np.arange(n), {"units": u})
        for a, s, u, o, n in zip(SPACE, scale, units, translation, SHAPE, strict=True)
    }
    return xarray.DataArray(ARRAY, dims=SPACE, coords=at)


MAKERS = {
    "a.ome.zarr": ngff,
    "a.n5": n5,
    "b.n5": n5_resolution,
    "a.nrrd": nrrd,
    "b.nrrd": nrrd_spacings,
    "a.h5": hdf5,
    "a.mnc": minc,
    "a.tif": imagej,
    "a.ome.tif": ome_tiff,
    "xarray": of_xarray,
}


@pytest.mark.parametrize("name", MAKERS)
def test_units_that_differ_are_not_dropped(tmp_path, name):
    v = bv.open(MAKERS[name](tmp_path / name, [1, 200, 250], ["µm", "nm", "nm"]))
    assert v.unit == "micrometer"
    np.testing.assert_allclose(v.voxel_size, (1, 0.2, 0.25), rtol=1e-6)
    assert v.voxel_size[0] / v.voxel_size[1] == pytest.approx(5, rel=1e-6)


@pytest.mark.parametrize("name", MAKERS)
def test_two_names_of_a_unit_are_one(tmp_path, name):
    v = bv.open(MAKERS[name](tmp_path / name, [1, 2, 4], ["micron", "um", "micrometer"]))
    assert (v.voxel_size, v.unit) == ((1, 2, 4), "micrometer")


@pytest.mark.parametrize("name", ["a.ome.zarr", "a.n5", "a.nrrd", "a.h5", "a.mnc", "xarray"])
def test_origins_are_converted_as_sizes_are(tmp_path, name):
    made = MAKERS[name](tmp_path / name, [1, 200, 250], ["um", "nm", "nm"], [3, 400, 0])
    assert bv.open(made).origin == pytest.approx((3, 0.4, 0))


@pytest.mark.parametrize("name", MAKERS)
def test_lengths_that_cannot_be_compared_are_not_known(tmp_path, name):
    v = bv.open(MAKERS[name](tmp_path / name, [1, 200, 250], ["um", "pixel", "parsec"]))
    assert v.voxel_size is None and not any(v.origin)
    np.testing.assert_array_equal(np.asarray(v), ARRAY)


@pytest.mark.parametrize("name", ["a.ome.zarr", "a.n5", "a.nrrd", "b.nrrd", "a.mnc"])
def test_axes_that_run_backwards_are_refused_alike(tmp_path, name, capsys):
    # Their first voxels lie at 1, 100 and 8.
    at = [1.0, 100.0, 8.0]
    path = MAKERS[name](tmp_path / name, [1, -2, 4], ["um"] * 3, at)
    with pytest.raises(ValueError, match=r"revers.*give affine='drop'.* or affine='reorient'"):
        bv.open(path)
    stored, turned = bv.open(path, affine="drop"), bv.open(path, affine="reorient")
    np.testing.assert_array_equal(np.asarray(stored), ARRAY)
    np.testing.assert_array_equal(np.asarray(turned), ARRAY[:, ::-1])
    assert stored.voxel_size == turned.voxel_size == (1, 2, 4)
    assert stored.origin == (0, 0, 0)
    assert turned.origin == ((0, -8, 0) if name == "b.nrrd" else (1, 100 - 2 * 4, 8))
    np.testing.assert_array_equal(np.asarray(turned[1:3, 1:, 2]), ARRAY[:, ::-1][1:3, 1:, 2])
    assert main(["info", str(path)]) == 0
    told = capsys.readouterr().out
    assert "4 x 5 x 6" in told and "--option affine=reorient" in told and "affine='" not in told
    assert main(["preview", str(path), str(tmp_path / "p.png")]) == 0
    assert "--option affine=drop" in capsys.readouterr().err
    assert main(["stats", str(path)]) == 2
    assert "--option affine=drop" in capsys.readouterr().err


@pytest.mark.parametrize("index", [None, {"c": 1}])
def test_channels_behind_axes_that_run_backwards(tmp_path, index):
    path = tmp_path / "a.ome.zarr"
    two = np.stack([ARRAY, ARRAY + 1])
    bv.compute(bv.open(two).to(path), runner=None, progress=False)
    document = json.loads((path / "zarr.json").read_text())
    level = document["attributes"]["ome"]["multiscales"][0]["datasets"][0]
    level["coordinateTransformations"] = [{"type": "scale", "scale": [1, -1, 2, -3]}]
    (path / "zarr.json").write_text(json.dumps(document))
    wanted = two[:, ::-1, :, ::-1] if index is None else two[1, ::-1, :, ::-1]
    np.testing.assert_array_equal(np.asarray(bv.open(path, affine="reorient", index=index)), wanted)


@pytest.mark.parametrize("size", [(0, 1, 1), (1, -2, 1), (1, 1, np.inf), (np.nan, 1, 1)])
def test_no_space_has_a_size_that_is_none(size):
    with pytest.raises(ValueError, match=r"a voxel size of .* is not finite and positive"):
        Space(voxel_size=size)
    with pytest.raises(ValueError, match="voxel_size"):
        bv.open(ARRAY, voxel_size=size)


@pytest.mark.parametrize("name", ["a.ome.zarr", "a.n5"])
def test_a_size_of_0_is_refused_unless_it_is_replaced(tmp_path, name, capsys):
    path = MAKERS[name](tmp_path / name, [1, 0, 4], ["um"] * 3)
    with pytest.raises(
        ValueError, match=r"the voxel size in its metadata is 1 x 0 x 4; give voxel_size="
    ):
        bv.open(path)
    assert bv.open(path, voxel_size=(1, 2, 4), unit="um").voxel_size == (1, 2, 4)
    assert bv.open(path, affine="drop").voxel_size is None
    assert main(["info", str(path)]) == 0
    assert "--voxel-size" in capsys.readouterr().out


def test_a_size_that_a_file_does_not_give_is_not_known(tmp_path):
    assert (
        bv.open(ome_tiff(tmp_path / "a.ome.tif", [None, 0.1, 0.2], ["um"] * 3)).voxel_size is None
    )
    path = tmp_path / "a.tif"
    how = {"resolution": (1e5, 1e5), "resolutionunit": "CENTIMETER", "metadata": None}
    with tifffile.TiffWriter(path) as file:
        for plane in ARRAY:
            file.write(plane, contiguous=False, photometric="minisblack", **how)
    assert bv.open(path).shape == SHAPE and bv.open(path).voxel_size is None
    tifffile.imwrite(path, ARRAY[0], photometric="minisblack", **how)
    assert bv.open(path).voxel_size == pytest.approx((0.1, 0.1))
    tifffile.imwrite(tmp_path / "b.tif", ARRAY[1], photometric="minisblack", **how)
    assert bv.open([path, tmp_path / "b.tif"]).voxel_size is None
    text = "ImageJ=1.54f\nimages=4\nslices=4\nunit=um\n"
    how = {"photometric": "minisblack", "metadata": None, "resolution": (10, 10)}
    tifffile.imwrite(path, ARRAY, description=text, **how)
    assert bv.open(path).voxel_size is None


def test_imagej_has_units_in_escaped_letters_and_negative_spacing(tmp_path):
    v = bv.open(imagej(tmp_path / "a.tif", [-3, 2, 4], ["Å"] * 3))
    assert v.unit == "angstrom" and v.voxel_size == pytest.approx((3, 2, 4))


def test_symbols_of_units_differ_by_their_case():
    assert unit_name("mm") == "millimeter" and unit_name("Micron") == "micrometer"
    for text in ("Mm", "NM", "µM", "PM"):
        with pytest.raises(ValueError, match="is not a unit of length"):
            unit_name(text)
    for name, others in UNITS.items():
        assert in_one_unit([name, *others, None])[0] == name and name in METRES


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([5, "y", "x"], r"axes\[0\].name is 5, not a text"),
        ([None, "y", "x"], r"axes\[0\].name is missing"),
        (["z", "z", "x"], r"axes is \['z', 'z', 'x'\], with a repeated name"),
        (["c", "z", "y", "x"], "its metadata list 4 axes, but the array has 3 dimensions"),
    ],
)
def test_ome_axes_that_are_none_are_refused(tmp_path, names, says):
    path = ngff(
        tmp_path / "a.ome.zarr", [1] * len(names), [""] * len(names), [0] * len(names), names
    )
    with pytest.raises(ValueError, match=says):
        bv.open(path)


@pytest.mark.parametrize("sform", ["mirrored", "empty"])
def test_info_and_preview_describe_a_nifti_file_whose_axes_are_unclear(tmp_path, sform, capsys):
    nibabel = pytest.importorskip("nibabel")
    affine = np.diag([-2.0, 2, 3, 1]) if sform == "mirrored" else np.zeros((4, 4))
    image = nibabel.Nifti1Image(ARRAY.T, None)
    image.header.set_sform(affine, code=1)
    path = str(tmp_path / "a.nii")
    nibabel.save(image, path)
    with pytest.raises((ValueError, OSError), match="affine='drop'"):
        bv.open(path)
    assert main(["info", path]) == 0
    told = capsys.readouterr().out
    assert "4 x 5 x 6" in told and "--option affine=drop" in told
    assert main(["preview", path, str(tmp_path / "p.png")]) == 0
    assert main(["stats", path]) == 2


ENDS = {"input": {"path": "0"}, "output": {"name": "intrinsic"}}


def ngff06(path, array, axes, *steps, version="0.6", **image):
    """An image of OME-Zarr 0.6 with one level."""
    group = zarr.create_group(path, overwrite=True)
    group.create_array("0", data=array)
    kinds = {"t": "time", "c": "channel"}
    described = [
        {"name": a, "type": kinds.get(a, "space")} | ({} if a in kinds else {"unit": "micrometer"})
        for a in axes
    ]
    other = [{"name": a, "type": "space"} for a in "abc"[: len(axes)]]
    systems = [{"name": "world", "axes": other}, {"name": "intrinsic", "axes": described}]
    dataset = {"path": "0", "coordinateTransformations": list(steps)}
    about = {"coordinateSystems": systems, "datasets": [dataset], **image}
    group.attrs["ome"] = {"version": version, "multiscales": [about]}
    return path


@pytest.mark.parametrize("version", ["0.6", "0.6rc0", "0.6.dev4"])
def test_axes_and_positions_of_ome_zarr_06_are_those_of_the_coordinate_system(tmp_path, version):
    scale, shift = {"type": "scale", "scale": [0.25, 0.5, 2]}, {"type": "translation"}
    sequence = [scale, {**shift, "translation": [3, 2, 1]}]
    path = ngff06(
        tmp_path / "a.ome.zarr",
        ARRAY.T,
        "xyz",
        {"type": "sequence", "transformations": sequence, **ENDS},
        version=version,
        # It leads from the system of the levels to another one.
        coordinateTransformations=[
            {
                "type": "scale",
                "scale": [7, 7, 7],
                "input": {"name": "intrinsic"},
                "output": {"name": "world"},
            }
        ],
    )
    v = bv.open(path)
    assert v.space == Space(AXES, (2.0, 0.5, 0.25), "micrometer", (1.0, 2.0, 3.0))
    np.testing.assert_array_equal(np.asarray(v), ARRAY)
    film = np.arange(48, dtype="u2").reshape(2, 1, 3, 2, 4)
    v = bv.open(
        ngff06(path, film, "tczyx", {"type": "scale", "scale": [9, 1, 3, 2, 1], **ENDS}),
        index={"c": 0},
    )
    assert (v.axes, v.voxel_size) == (("t", "z", "y", "x"), (3.0, 2.0, 1.0))
    np.testing.assert_array_equal(np.asarray(v), film[:, 0])
    v = bv.open(ngff06(path, ARRAY, "zyx", {"type": "identity", **ENDS}))
    assert (v.voxel_size, v.unit, v.origin) == (None, "micrometer", (0, 0, 0))


@pytest.mark.parametrize(
    ("step", "size"),
    [
        ({"type": "affine", "affine": [[2, 0, 0, 5], [0, 3, 4, 6], [0, -4, 3, 7]]}, (2, 5, 5)),
        ({"type": "rotation", "rotation": [[1, 0, 0], [0, 0, -1], [0, 1, 0]]}, (1, 1, 1)),
        ({"type": "mapAxis", "mapAxis": [0, 2, 1]}, (1, 1, 1)),
    ],
)
def test_turned_axes_of_ome_zarr_06_are_refused_unless_they_are_dropped(tmp_path, step, size):
    path = ngff06(tmp_path / "a.ome.zarr", ARRAY, "zyx", {**step, **ENDS})
    with pytest.raises(ValueError, match=r"rotate or shear its axes; give affine='drop'"):
        bv.open(path)
    v = bv.open(path, affine="drop")
    assert (v.voxel_size, v.origin) == (size, (0, 0, 0))
    np.testing.assert_array_equal(np.asarray(v), ARRAY)
    diagonal = {"type": "affine", "affine": [[2, 0, 0, 5], [0, 3, 0, 6], [0, 0, 4, 7]], **ENDS}
    v = bv.open(ngff06(path, ARRAY, "zyx", diagonal))
    assert (v.voxel_size, v.origin) == ((2, 3, 4), (5, 6, 7))


@pytest.mark.parametrize(
    ("step", "match"),
    [
        ({"scale2": [1, 1, 1], **ENDS}, r"\[0\].type is missing"),
        ({"type": ["scale"], "scale": [1, 1, 1], **ENDS}, r"type is \['scale'\], not a text"),
        ({"type": "sequence", **ENDS}, "transformations is missing"),
        ({"type": "affine", "affine": [[1, 0, 0]] * 3, **ENDS}, "not 4 numbers"),
        ({"type": "mapAxis", "mapAxis": [0, 0, 1], **ENDS}, "not the numbers of 3 axes"),
        ({"type": "sequence", "transformations": "scale", **ENDS}, "not a list"),
        ({"type": "scale", "scale": [1, 1], **ENDS}, "not 3 numbers"),
        ({"type": "scale", "scale": [1, 1, 1], "output": {"name": "none"}}, "output of the levels"),
        ({"type": "scale", "scale": [1, 1, 1]}, "output of the levels"),
    ],
)
def test_invalid_metadata_of_ome_zarr_06_are_refused(tmp_path, step, match):
    with pytest.raises(ValueError, match=f"invalid OME metadata.*{match}"):
        bv.open(ngff06(tmp_path / "a.ome.zarr", ARRAY, "zyx", step))


@pytest.mark.parametrize(
    "step",
    [
        {"type": "displacements", "path": "d"},
        {"type": "coordinates", "path": "c"},
        {"type": "affine", "path": "a"},
        {"type": "rotation", "scale": [2, 2, 2]},
        {"type": "byDimension", "transformations": [{"type": "scale", "scale": [2, 2, 2]}]},
        {"type": "inverseOf", "transformation": {"type": "scale", "scale": [2, 2, 2]}},
        {"type": "bijection", "forward": {"type": "identity"}, "inverse": {"type": "identity"}},
        {"type": "of the future", "translation": [1, 2, 3]},
    ],
)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_no_transformation_of_ome_zarr_06_is_ignored(tmp_path, step, depth):
    kind = step["type"]
    for _ in range(depth):
        scale = {"type": "scale", "scale": [3, 3, 3]}
        step = {"type": "sequence", "transformations": [scale, step]}
    path = ngff06(tmp_path / "a.ome.zarr", ARRAY, "zyx", {**step, **ENDS})
    with pytest.raises(
        ValueError, match=f"the '{kind}' at .* is not supported; give affine='drop'"
    ):
        bv.open(path)
    v = bv.open(path, affine="drop")
    assert (v.voxel_size, v.origin) == (None, (0, 0, 0))
    np.testing.assert_array_equal(np.asarray(v), ARRAY)


@pytest.mark.parametrize("version", ["0.4", "0.5"])
def test_transformations_of_later_versions_are_refused_by_name_before_06(tmp_path, version):
    key, turn = "zarr.json" if version == "0.5" else ".zattrs", np.eye(3).tolist()

    def turned(document):
        about = document["attributes"]["ome"] if version == "0.5" else document
        level = about["multiscales"][0]["datasets"][0]
        level["coordinateTransformations"].append({"type": "rotation", "rotation": turn})

    path = edited("a.ome.zarr", key, turned, ome_version=version)(tmp_path)
    with pytest.raises(ValueError, match=r"the 'rotation' at .* is not supported"):
        bv.open(path)
    assert bv.open(path, affine="drop").voxel_size is None


def test_levels_and_positions_that_are_added_to_ome_zarr_06_are_valid(tmp_path):
    schema = pytest.importorskip("ngff_zarr.validate", reason="ngff-zarr needs Python 3.11")
    step = {"type": "scale", "scale": [4, 2, 2], **ENDS}
    path = ngff06(tmp_path / "a.ome.zarr", np.zeros((8, 16, 16), "u1"), "zyx", step)
    bv.add_levels(path, 2, factors=2)
    bv.save_transforms([path], [(1.0, 2.5, 0.0)])
    v, below = bv.open(path), bv.open(path, level=1)
    assert (v.voxel_size, v.origin) == ((4, 2, 2), (4, 5, 0))
    assert (below.voxel_size, below.origin) == ((8, 4, 4), (6, 6, 1))
    schema.validate(dict(zarr.open_group(path, mode="r").attrs), version="0.6")


def edited(name, key, change, **how):
    """A function that writes an output, and changes a document."""

    def write(folder):
        bv.compute(bv.open(ARRAY).to(folder / name, **how), runner=None, progress=False)
        file = folder / name / key
        document = json.loads(file.read_text())
        change(document)
        file.write_text(json.dumps(document))
        return folder / name

    return write


def of_ome(version):
    return edited(
        "a.ome.zarr", "zarr.json", lambda d: d["attributes"]["ome"].update(version=version)
    )


def new_ome_tiff(folder):
    description = (
        '<OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2031-01"><Image ID="Image:0"><Pixels '
        'ID="Pixels:0" DimensionOrder="XYZCT" Type="uint8" SizeX="6" SizeY="5" SizeZ="4" SizeC="1" '
        'SizeT="1"><TiffData/></Pixels></Image></OME>'
    )
    path = folder / "a.ome.tif"
    tifffile.imwrite(path, ARRAY, photometric="minisblack", description=description, metadata=None)
    return path


def new_nrrd(folder):
    path = nrrd(folder / "a.nrrd", [1, 1, 1], ["um"] * 3)
    path.write_bytes(path.read_bytes().replace(b"NRRD0004", b"NRRD0006", 1))
    return path


@pytest.mark.parametrize(
    ("write", "match"),
    [
        (of_ome(version="0.7"), "OME-Zarr 0.7"),
        (of_ome(version="0.10"), "OME-Zarr 0.10"),
        (of_ome(version=1), "OME-Zarr 1"),
        (of_ome(version="0.6"), "coordinateSystems is missing"),
        (
            edited(
                "a.ome.zarr",
                ".zattrs",
                lambda d: d["multiscales"][0].update(version="0.9.dev1"),
                ome_version="0.4",
            ),
            "OME-Zarr 0.9.dev1",
        ),
        (edited("a.ome.zarr", "zarr.json", lambda d: d.update(zarr_format=4)), "zarr_format=4"),
        (edited("a.zarr", "zarr.json", lambda d: d.update(zarr_format=4)), "zarr_format=4"),
        (
            edited("a.zarr", ".zarray", lambda d: d.update(zarr_format=1), zarr_version=2),
            "zarr_format=1",
        ),
        (
            edited("a.ome.zarr", ".zgroup", lambda d: d.update(zarr_format=3), ome_version="0.4"),
            "zarr_format=3",
        ),
        (edited("a.n5", "attributes.json", lambda d: d.update(n5="5.0.0")), "N5 5.0.0"),
        (
            edited("a.precomputed", "info", lambda d: d.update({"@type": "volume_v2"})),
            "unknown @type 'volume_v2'",
        ),
        (new_ome_tiff, "schema '2031-01'"),
        (new_nrrd, "NRRD of version 6"),
    ],
)
def test_unknown_versions_are_refused_by_name(tmp_path, write, match):
    path = write(tmp_path)
    with pytest.raises(ValueError, match=rf"{path.name}.*{match}"):
        bv.open(path)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda v: v.to(3), TypeError, "path=3 is not a path"),
        (lambda v: v.to(3, foo=1), TypeError, "path=3 is not a path"),
        (lambda v: v.to("a\0b.zarr"), ValueError, "zero byte"),
        (lambda _: bv.open("a\0b.zarr"), ValueError, "zero byte"),
        (lambda _: bv.open(3), TypeError, "cannot open an object of type int"),
    ],
)
def test_what_is_no_place_is_refused(call, error, says):
    with pytest.raises(error, match=says):
        call(bv.open(np.zeros((2, 3, 4), "u1")))
