"""Plates, wells, series and labels of OME-Zarr, made by zarr-python with the metadata of the standard."""

import copy
import json
import shutil

import numpy as np
import pytest
import zarr

import beam_volumes as bv
from beam_volumes.cli.main import main
from beam_volumes.recipes.each import Item, items
from tests.storage.test_odd_metadata import refusals

SHAPE = (3, 10, 12)


def image(group, path, value, **attributes):
    """An image of one level in a group."""
    inside = group.require_group(path) if path else group
    level = inside.create_array("0", shape=SHAPE, dtype="u2", chunks=SHAPE)
    level[:] = value
    described = {
        "axes": [{"name": a, "type": "space", "unit": "micrometer"} for a in "zyx"],
        "datasets": [
            {"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [2, 1, 1]}]}
        ],
    }
    put(inside, {"multiscales": [{"version": "0.4", **described}], **attributes})


def put(group, attributes):
    """OME's attributes, as the version of zarr has them."""
    v2 = group.metadata.zarr_format == 2
    group.attrs.update(attributes if v2 else {"ome": {"version": "0.5", **attributes}})


@pytest.fixture(params=[2, 3])
def plate(tmp_path, request):
    root = zarr.open_group(tmp_path / "plate.zarr", mode="w", zarr_format=request.param)
    wells = ["A/1", "A/2", "B/3"]
    put(
        root,
        {
            "plate": {
                "name": "test",
                "rows": [{"name": "A"}, {"name": "B"}],
                "columns": [{"name": "1"}, {"name": "2"}, {"name": "3"}],
                "wells": [
                    {"path": w, "rowIndex": "AB".index(w[0]), "columnIndex": int(w[2]) - 1}
                    for w in wells
                ],
                "field_count": 2,
            }
        },
    )
    for k, well in enumerate(wells):
        inside = root.require_group(well)
        fields = ["0", "1"] if well != "A/2" else ["0"]
        put(inside, {"well": {"images": [{"path": f} for f in fields]}})
        for f in fields:
            image(inside, f, 10 * k + int(f))
    return tmp_path / "plate.zarr"


def test_a_field_of_a_well(plate):
    for how, value in (
        ({"well": "B/3", "field": 0}, 20),
        ({"well": "B3", "field": 1}, 21),
        ({"well": "A/1", "field": "1"}, 1),
        ({"well": "A/2"}, 10),
        ({"dataset": "B/3/1"}, 21),
        ({"well": "B/3", "field": 1, "level": 0}, 21),
    ):
        found = bv.open(plate, **how)
        assert found.voxel_size == (2, 1, 1) and found.unit == "micrometer"
        assert np.all(np.asarray(found) == value)
    assert np.all(np.asarray(bv.open(plate / "A" / "1", field=1)) == 1)


def test_what_there_is_is_told(plate, tmp_path, capsys):
    for how, says in (
        ({}, r"is a plate of 3 wells \(A/1, A/2, B/3\); choose one by well='A/1'"),
        ({"well": "C/1"}, r"well='C/1': .* is a plate of 3 wells"),
        ({"well": "B/3"}, r"B/3 is a well with 2 fields \(0, 1\); choose one by field=0"),
        ({"well": "B/3", "field": 2}, "field=2: .* is a well with 2 fields"),
        ({"well": "B/3", "field": "x"}, "field='x'"),
        ({"dataset": "A/1/0", "well": "A/1"}, "well='A/1'"),
    ):
        with pytest.raises(ValueError, match=says):
            bv.open(plate, **how)
    with pytest.raises(ValueError, match="is not a plate; omit well="):
        bv.open(plate / "A" / "1" / "0", well="A/1")
    with pytest.raises(ValueError, match="is not a well; omit field="):
        bv.open(plate / "A" / "1" / "0", field=0)
    main(["info", str(plate), "--option", "well=B/3", "--option", "field=1"])
    assert "3 x 10 x 12" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"well='A/1' is for OME-Zarr.*; .* is zarr"):
        bv.open(plate / "A" / "1" / "0" / "0", well="A/1")


def test_each_image_of_a_plate_is_a_volume(plate, tmp_path):
    found = items(str(plate))
    assert [item.name for item in found] == [
        f"plate/{name}" for name in ("A/1/0", "A/1/1", "A/2/0", "B/3/0", "B/3/1")
    ]
    for item, value in zip(found, (0, 1, 10, 20, 21), strict=True):
        assert np.all(np.asarray(bv.open(item.path)) == value)
    assert [item.name for item in items(f"{plate}/B/[0-9]")] == ["3/0", "3/1"]
    assert items(str(plate), collections=False) == [Item(str(plate), "plate")]
    shutil.rmtree(plate / "A" / "2")  # it fails by itself, and the others do not
    assert [item.name for item in items(str(plate))][2:4] == ["plate/A/2", "plate/B/3/0"]
    for path in ("../../etc", "B/../../x", ["B"]):
        group = zarr.open_group(plate)
        ome = copy.deepcopy(dict(group.attrs))
        (ome.get("ome", ome))["plate"]["wells"][0]["path"] = path
        group.attrs.update(ome)
        assert items(str(plate)) == [Item(str(plate), "plate")]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("listed", [True, False])
def test_series_of_bioformats2raw(tmp_path, zarr_format, listed):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    put(root, {"bioformats2raw.layout": 3})
    image(root, "0", 5)
    if listed:
        put(root.require_group("OME"), {"series": ["0"]})
    assert np.all(np.asarray(bv.open(tmp_path / "a.zarr")) == 5)
    image(root, "1", 6)
    if listed:
        put(root.require_group("OME"), {"series": ["0", "1"]})
    with pytest.raises(ValueError, match=r"has several images; .*dataset='0': there are 0, 1"):
        bv.open(tmp_path / "a.zarr")
    assert np.all(np.asarray(bv.open(tmp_path / "a.zarr", dataset="1")) == 6)
    assert [item.name for item in items(str(tmp_path / "a.zarr"))] == ["a/0", "a/1"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_labels(tmp_path, zarr_format):
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    image(root, "", 5)
    put(root.require_group("labels"), {"labels": ["nuclei", "cells"]})
    image(root, "labels/nuclei", 7, **{"image-label": {"source": {"image": "../../"}}})
    assert np.all(np.asarray(bv.open(tmp_path / "a.zarr")) == 5)
    assert np.all(np.asarray(bv.open(tmp_path / "a.zarr", dataset="labels/nuclei")) == 7)
    with pytest.raises(ValueError, match="choose one by dataset=: there are 'nuclei', 'cells'"):
        bv.open(tmp_path / "a.zarr", dataset="labels")


def test_odd_metadata_are_told_of_by_name(plate):
    where = plate / ("zarr.json" if (plate / "zarr.json").exists() else ".zattrs")
    below = plate / "B" / "3" / where.name
    odds = (None, 5, "x", [], {}, [5], [None], [{}], [{"path": 5}], [{"path": ["B"]}])
    refused = 0
    for file, what, inner in ((where, "plate", "wells"), (below, "well", "images")):
        good = json.loads(file.read_text())
        home = ("attributes", "ome") if "ome" in good.get("attributes", {}) else ()
        places = [(*home, what), (*home, what, inner)]
        refused += refusals(
            file, good, places, odds, lambda: bv.open(plate, well="B/3", field=0), "plate.zarr"
        )
    assert refused > 30


def test_fields_of_a_well_are_tiles(plate):
    """With positions that are written to their metadata."""
    well = f"{plate}/B/3"
    with pytest.raises(ValueError, match="same position in their metadata"):
        bv.open_tiles(well)
    bv.save_transforms(well, [(0, 0, 0), (0, 0, 9.5)])
    tiles, transforms = bv.open_tiles(well)
    assert transforms[:, :, 3].tolist() == [[0, 0, 0], [0, 0, 9.5]]
    assert bv.fuse(tiles, transforms).shape == (3, 10, 21)
