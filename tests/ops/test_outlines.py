"""Outlines of labels, as shapely reads them, compared with the squares of their pixels."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi

import beam_volumes as bv
from tests.tiers import examples

shapely = pytest.importorskip("shapely")

QUIET = {"runner": None, "progress": False, "overwrite": True}


def written(table, path, **how):
    bv.compute(table.to(path), **QUIET, **how)
    return json.loads(path.read_text())["features"]


def squares(mask, scale=(1, 1), offset=(0, 0)):
    y, x = np.nonzero(mask)
    (sy, sx), (oy, ox) = scale, offset
    return shapely.union_all(
        shapely.box(x * sx + ox, y * sy + oy, (x + 1) * sx + ox, (y + 1) * sy + oy)
    )


@st.composite
def images(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = draw(st.tuples(st.integers(1, 20), st.integers(1, 20)))
    kind = draw(st.sampled_from(["noise", "mask", "components", "far apart", "nothing"]))
    if kind == "noise":
        return random.integers(0, 3, shape).astype("u1")
    if kind == "mask":
        return random.random(shape) < 0.6
    if kind == "components":
        return ndi.label(ndi.uniform_filter(random.random(shape), 3) > 0.5)[0].astype("i4")
    far = random.integers(0, 2, shape).astype("u8") + np.uint64(2**63)
    return far * (random.random(shape) < (0.8 if kind == "far apart" else 0))


@given(labels=images(), data=st.data())
@settings(max_examples=examples(30), deadline=None)
def test_polygons_are_valid_and_hold_the_pixels_of_their_label(tmp_path_factory, labels, data):
    path = tmp_path_factory.getbasetemp() / "regions.geojson"
    table = bv.outlines(labels)
    slab = (1, *(data.draw(st.integers(1, n)) for n in labels.shape))
    features = written(table, path, slab=slab)
    text = path.read_bytes()
    assert features == written(table, path) and text == path.read_bytes()
    found = [f["properties"]["label"] for f in features]
    assert found == [int(label) for label in np.unique(labels) if label]
    for label, feature in zip(found, features, strict=True):
        shape = shapely.geometry.shape(feature["geometry"])
        mask = labels == np.asarray(label, labels.dtype)
        assert shape.is_valid and shape.area == mask.sum() and shape.equals(squares(mask))
        for polygon in getattr(shape, "geoms", [shape]):
            assert polygon.exterior.is_ccw and not any(r.is_ccw for r in polygon.interiors)
    assert table.to(path).sink.read().equals(table.to_pyarrow())


def test_places_are_told_in_pixels_of_another_level(tmp_path):
    slide = bv.open(np.zeros((50, 70), "u1"), voxel_size=(0.25, 0.5), unit="um")
    mask = np.zeros((13, 18), bool)
    mask[2:5, 3:7] = mask[11:, 16:] = True
    coarse = bv.downsample(slide, 4)
    tissue = bv.open(mask, voxel_size=coarse.voxel_size, unit=coarse.unit, origin=coarse.origin)
    features = written(bv.outlines(tissue, like=slide), tmp_path / "tissue.geojson")
    shape = shapely.geometry.shape(features[0]["geometry"])
    assert shape.equals(squares(mask, (4, 4)))
    moved = bv.outlines(tissue[2:, 3:], like=slide[:, 4:])
    shape = shapely.geometry.shape(written(moved, tmp_path / "tissue.geojson")[0]["geometry"])
    assert shape.equals(squares(mask, (4, 4), (0, -4)))


def test_what_cannot_be_outlined_is_refused(tmp_path):
    image = np.zeros((4, 5), "i2")
    with pytest.raises(ValueError, match="outlines: the labels have the axes z y x"):
        bv.outlines(np.zeros((2, 3, 4), "u1"))
    with pytest.raises(TypeError, match="float32"):
        bv.outlines(np.zeros((2, 3), "f4"))
    with pytest.raises(ValueError, match="no voxel size"):
        bv.outlines(image, like=bv.open(np.zeros((8, 10)), voxel_size=(1, 1)))
    with pytest.raises(ValueError, match=r"cells\.geojson: GeoJSON stores tables of bv\.outlines"):
        bv.regionprops_table(image).to(tmp_path / "cells.geojson")
    image[2, 2] = -7
    with pytest.raises(ValueError, match="a label is -7"):
        bv.compute(bv.outlines(image), runner=None, progress=False)
