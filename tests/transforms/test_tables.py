"""Region tables as a step of a pipeline of one's own."""

import json
import re
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from scipy import ndimage as ndi
from skimage import measure

import beam_volumes as bv
from beam_volumes.across.tables import known_properties
from beam_volumes.base.geometry import Grid
from beam_volumes.transforms.steps.slabs import read_slab
from tests.transforms.trees import membranes, stored

UPPER = ((0, 1), (0, 1), (0, 1))
NAMES = ("area", "bbox", "centroid", "intensity_max", "intensity_mean", "inertia_tensor_eigvals")


def check(labels, em, names, spacing):
    """A step that compares all rows with scikit-image, and faces with those counted here."""

    def compare(rows):
        rows = sorted(rows, key=lambda row: row.label)
        fields = getattr(rows[0], "_fields", None) or [*rows[0].as_dict()]
        got = {n: np.array([getattr(row, n) for row in rows]) for n in fields}
        want = measure.regionprops_table(
            labels, em.astype(float), ("label", *NAMES), spacing=spacing
        )
        for name, column in want.items():
            field = name.replace("-", "_")
            np.testing.assert_allclose(got[field], column, rtol=1e-9, atol=1e-9, err_msg=name)
        if "surface_area_faces" in names:
            padded = np.pad(labels, 1)
            for k, n in enumerate(got["label"]):
                area = sum(
                    np.count_nonzero(np.diff(padded == n, axis=a)) * np.prod(spacing) / spacing[a]
                    for a in range(3)
                )
                assert got["surface_area_faces"][k] == pytest.approx(area)
        assert next(iter(got)) == "label" and len(got["label"]) > 10

    return compare


@pytest.mark.parametrize("faces", [True, False])
def test_tables(tmp_path, faces):
    array = membranes((20, 24, 28))
    em = stored(tmp_path, array, "em.zarr", chunks=(5, 12, 14))
    labels = ndi.label(array > 140)[0].astype("u2")
    how = {"halo": UPPER} if faces else {}
    read = bv.ReadSlabs(stored(tmp_path, labels), depth=8, tile=(16, 14), **how)
    names = (*NAMES, "surface_area_faces") if faces else NAMES
    table = bv.RegionTable(read, em * np.float32(0.5), names, spacing=(4, 1, 2))
    with beam.Pipeline("FnApiRunner") as p:
        rows = p | read | beam.Reshuffle() | table
        _ = (
            rows
            | beam.combiners.ToList()
            | beam.Map(check(labels, array / 2, names, (4.0, 1.0, 2.0)))
        )


def test_after_labelling(tmp_path):
    """Labels measured in the pipeline that makes them."""
    array = membranes((20, 24, 28))
    em = stored(tmp_path, array)
    mask = em > 140
    read = bv.ReadSlabs(mask, depth=8, tile=(8, 28), halo=UPPER)
    label = bv.LabelComponents(read)
    with beam.Pipeline("FnApiRunner") as p:
        merged = p | read | label | bv.MergeEquivalences(label)
        labels = merged["answers"] | bv.RelabelSlabs(mask, label)
        rows = labels | bv.RegionTable(label, em, NAMES)
        expected = ndi.label(array > 140)[0]
        _ = (
            rows
            | beam.combiners.ToList()
            | beam.Map(check(expected, array, NAMES, (1.0, 1.0, 1.0)))
        )


def rows_of(table, slabs, tmp_path):
    """The rows of a table, with the names of its fields, in the order of labels."""
    with beam.Pipeline("FnApiRunner") as p:
        rows = slabs(p) | table
        _ = (
            rows
            | beam.Map(lambda row: json.dumps(row.as_dict()))
            | beam.io.WriteToText(str(tmp_path / "rows"), shard_name_template="")
        )
    found = map(json.loads, (tmp_path / "rows").read_text().splitlines())
    return sorted(found, key=lambda row: row["label"])


@pytest.mark.parametrize("dtype", ["u1", "i4", "u8"])
def test_every_property_of_regionprops_table(tmp_path, dtype):
    """Labels in a plane and in a volume, of any dtype, with several channels of intensities."""
    array = membranes((9, 20, 22))
    volume = ndi.label(array > 165)[0]
    for labels, image in ((volume, array), (volume[4], array[4])):
        name, axes = f"labels-{labels.ndim}.zarr", "zyx"[-labels.ndim :]
        v = stored(tmp_path, np.where(labels, labels % 100 + 1, 0).astype(dtype), name)
        em = bv.open(np.stack([image, 255 - image]), axes=f"c{axes}")
        bv.compute(em.to(tmp_path / f"em-{labels.ndim}.zarr"), runner=None)
        em = bv.open(str(tmp_path / f"em-{labels.ndim}.zarr"))
        names = [*known_properties(labels.ndim, True), "intensity_quantile-0.25", "area_filled"]
        want = bv.regionprops_table(v, em, properties=names).compute().to_pylist()
        read = bv.ReadSlabs(v, depth=4, tile=(8, 22), halo=3)
        found = rows_of(
            bv.RegionTable(read, em, names),
            lambda p, v=v: p | bv.ReadSlabs(v, 4, (8, 22), 3),
            tmp_path,
        )
        fields = [{re.sub("[-.]", "_", n): x for n, x in row.items()} for row in want]
        assert str(found) == str(fields) and len(found) > 3 and len(fields[0]) > 60
        area = measure.regionprops_table(np.asarray(v).astype("i8"), properties=("label", "area"))
        assert [(row["label"], row["area"]) for row in found] == [*zip(*area.values(), strict=True)]


@pytest.mark.parametrize("spacing", [None, 2.0])
def test_filled_areas_of_holes_across_slabs(tmp_path, spacing):
    """The largest hole spans all slabs; it has labels of its own."""
    labels = np.zeros((12, 14, 16), "u2")
    labels[1:11, 1:13, 1:13] = 7
    labels[2:10, 2:12, 2:12] = 0
    labels[4:8, 5:9, 5:9] = 300
    labels[5:7, 6:8, 6:8] = 0
    labels[0:3, :, 14] = 9
    for array in (labels, labels[5]):
        v = stored(tmp_path, array, f"{array.ndim}.zarr")
        for names in (["area_filled"], ["bbox", "area_filled", "area"]):
            read = bv.ReadSlabs(v, depth=3, tile=(6, 16))
            how = {"properties": names, "spacing": spacing}
            want = bv.regionprops_table(v, **how).compute().to_pylist()
            found = rows_of(bv.RegionTable(read, **how), lambda p, read=read: p | read, tmp_path)
            fields = [{n.replace("-", "_"): x for n, x in row.items()} for row in want]
            assert found == fields and len(found) >= 2
        one = 1 if spacing is None else spacing**array.ndim
        whole = {3: 10 * 12 * 12, 2: 12 * 12}[array.ndim]
        assert found[0]["area_filled"] == whole * one > found[0]["area"]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.int32(-3), "the label -3 is negative; labels must be"),
        (np.uint64(2**63 + 1), r"label 9223372036854775809 is too large .* by relabel_sequential"),
    ],
)
@pytest.mark.parametrize("names", [["area"], ["area_filled"]])
def test_labels_that_rows_cannot_have(tmp_path, label, message, names):
    array = np.zeros((6, 7, 8), label.dtype)
    array[4:] = label
    read = bv.ReadSlabs(stored(tmp_path, array), depth=3)
    with pytest.raises(Exception, match=message), beam.Pipeline("FnApiRunner") as p:
        _ = p | read | bv.RegionTable(read, properties=names)


def test_filled_areas_need_stored_labels(tmp_path):
    v = stored(tmp_path, np.ones((6, 7, 8), "u1"))
    read, names = bv.ReadSlabs(v, depth=3), ["area", "area_filled"]
    remedy = r"; write the labels with WriteSlabs, and use ReadSlabs of the result, or Compute\("
    computed = bv.ReadSlabs(v.astype("u4"), depth=3)
    for slabs, why in (
        (read.grid, "Grid does not read stored labels"),
        (bv.SlabGrid(v, depth=3), "SlabGrid does not read stored labels"),
        (bv.LabelComponents(read.grid), "LabelComponents does not read stored labels"),
        (computed, "is computed"),
    ):
        with pytest.raises(ValueError, match=f"RegionTable: area_filled reads .*{why}{remedy}"):
            bv.RegionTable(slabs, properties=names)
    table = bv.RegionTable(read, properties=names)
    other = bv.ReadSlabs(stored(tmp_path, np.zeros((6, 7, 8), "u1"), "other.zarr"), depth=3)
    for wrong in (other, read):
        p = beam.Pipeline("FnApiRunner")
        slabs = p | wrong
        if wrong is read:
            slabs |= beam.MapTuple(lambda key, slab: (key, slab))
        with pytest.raises(ValueError, match=f"a step after ReadSlabs may change them{remedy}"):
            slabs | table


def test_perimeters_are_those_of_scikit_image(tmp_path):
    """Contours cross the borders of tiles; with the halo that the error asks for."""
    labels = ndi.label(membranes((24, 40, 44))[7] > 150)[0].astype("u2")
    v, names = stored(tmp_path, labels), ("perimeter", "perimeter_crofton")
    with pytest.raises(ValueError, match=r"read them with halo=\(\(0, 0\), \(2, 3\), \(2, 3\)\)"):
        bv.RegionTable(bv.ReadSlabs(v, depth=1, tile=(16, 12)), properties=names)
    read = bv.ReadSlabs(v, depth=1, tile=(16, 12), halo=3)
    rows = rows_of(bv.RegionTable(read, properties=names), lambda p: p | read, tmp_path)
    want = measure.regionprops_table(labels, properties=("label", *names))
    assert len(rows) == len(want["label"]) > 3
    for name, column in want.items():
        np.testing.assert_allclose([row[name] for row in rows], column, rtol=1e-12)


def test_labels_of_other_dtypes_and_divisions_without_a_volume(tmp_path):
    """A step in between may make labels of another dtype than the volume's; a grid has none."""
    array = membranes((8, 9, 10))
    em = stored(tmp_path, array)
    labels = ndi.label(array > 140)[0]
    want = [(k, float(n)) for k, n in enumerate(np.bincount(labels.ravel())[1:], 1)]
    read = bv.ReadSlabs(em > 140, depth=3, halo=1)
    label = bv.LabelComponents(read)

    def cells(p):
        own = bv.ReadSlabs(em > 140, depth=3, halo=1)
        return p | own | bv.LabelSlabs(own, dtype="u8")

    for slabs in (read, label, read.grid, bv.SlabGrid(em > 140, depth=3)):
        rows = rows_of(bv.RegionTable(slabs, properties=["area"]), cells, tmp_path)
        assert [(row["label"], row["area"]) for row in rows] == want
    plane = bv.ReadSlabs(em[4] > 140, depth=1)
    fields = bv.RegionTable(bv.LabelComponents(plane)).columns["rows"]
    assert "centroid-1" in fields and "centroid-2" not in fields


def failing(tmp_path, table, slabs):
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | beam.Create([(slab.key, slab) for slab in slabs]) | table


def test_refusals(tmp_path):
    labels = stored(tmp_path, np.ones((6, 7, 8), "u1"))
    read = bv.ReadSlabs(labels, depth=3)
    bare, other = (read_slab(k, labels, read.grid, ((0, 0),) * 3) for k in range(2))
    with pytest.raises(ValueError, match=r"halo=.*or leave surface_area_faces out of properties="):
        bv.RegionTable(read)
    with pytest.raises(Exception, match=r"RegionTable: slab \(0, 0, 0\).*halo=.*or leave surface"):
        failing(tmp_path, bv.RegionTable(read.grid), [bare])
    area = bv.RegionTable(read, properties=["area"])
    with pytest.raises(Exception, match="is not in the grid"):
        failing(tmp_path, bv.RegionTable(Grid((6, 7, 8), (2, 7, 8)), properties=["area"]), [bare])
    with pytest.raises(
        Exception, match=r"RegionTable: 1 slab, .* did not arrive: give all slabs \["
    ):
        failing(tmp_path, area, [bare])
    with pytest.raises(Exception, match=r"RegionTable: 1 slab, .*, arrived more than once"):
        failing(tmp_path, area, [bare, other, bare])
    with pytest.raises(
        Exception, match=r"slab \(0, 0, 0\): it has dtype bool, but labels must be integers"
    ):
        failing(tmp_path, area, [replace(bare, data=bare.data > 0)])
    nan = stored(tmp_path, np.full((6, 7, 8), np.nan, "f4"), "nan.zarr")
    with pytest.raises(Exception, match=r'RegionTable: slab \(0, 0, 0\): .*nan="omit"'):
        failing(tmp_path, bv.RegionTable(read, nan, ["intensity_max"]), [bare, other])
    with pytest.raises(ValueError, match="no property 'aera'"):
        bv.RegionTable(read, properties=["aera"])
    with pytest.raises(ValueError, match=r"RegionTable: labels of .* crop them to one shape"):
        bv.RegionTable(read, labels[1:])
    with pytest.raises(ValueError, match="which a grid does not have"):
        bv.RegionTable(read.grid, spacing=2)
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.RegionTable(
            read, bv.open(np.zeros((6, 7, 8), "f4").repeat(9000, 2))[:, :, :8], ["intensity_max"]
        )
    with pytest.raises(TypeError, match="RegionTable: labels have dtype float32"):
        bv.RegionTable(bv.ReadSlabs(nan, depth=3))
