"""Region tables as a step of a pipeline of one's own."""

import apache_beam as beam
import numpy as np
import pytest
from scipy import ndimage as ndi
from skimage import measure

import beam_volumes as bv
from beam_volumes.base.geometry import Grid
from beam_volumes.transforms.steps.slabs import read_slab
from beam_volumes.transforms.steps.tables import measure_slab
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


def test_refusals(tmp_path):
    labels = stored(tmp_path, np.ones((6, 7, 8), "u1"))
    read = bv.ReadSlabs(labels, depth=3)
    bare, grid = read_slab(0, labels, read.grid, ((0, 0),) * 3), read.grid
    with pytest.raises(
        ValueError, match=r"slab \(0, 0, 0\).*halo=.*or leave it out of properties="
    ):
        measure_slab(bare, grid, bv.RegionTable(read).survey, None)
    area = bv.RegionTable(read, properties=["area"]).survey
    with pytest.raises(ValueError, match="is not in the grid"):
        measure_slab(bare, Grid((6, 7, 8), (2, 7, 8)), area, None)
    nan = stored(tmp_path, np.full((6, 7, 8), np.nan, "f4"), "nan.zarr")
    with pytest.raises(ValueError, match=r"slab \(0, 0, 0\): .*nan=\"omit\""):
        measure_slab(bare, grid, bv.RegionTable(read, nan, ["intensity_max"]).survey, nan)
    with pytest.raises(ValueError, match="no property 'aera'"):
        bv.RegionTable(read, properties=["aera"])
    with pytest.raises(ValueError, match="crop them to the same shape"):
        bv.RegionTable(read, labels[1:])
    with pytest.raises(ValueError, match="which a grid does not have"):
        bv.RegionTable(grid, spacing=2)
    with pytest.raises(ValueError, match="is in the memory of this process"):
        bv.RegionTable(read, bv.open(np.zeros((6, 7, 8), "f4").repeat(9000, 2))[:, :, :8])
    with pytest.raises(TypeError, match="labels of float32"):
        bv.RegionTable(bv.ReadSlabs(nan, depth=3))
