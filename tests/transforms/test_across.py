"""All that reaches across slabs in one pipeline: scipy's numbers, and the same files as without Beam."""

import json
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from scipy import ndimage as ndi
from skimage.filters import apply_hysteresis_threshold
from skimage.measure import label as skimage_label
from skimage.morphology import remove_small_holes
from skimage.segmentation import clear_border

import beam_volumes as bv
from beam_volumes.ops.labels import relabel
from tests.across import test_tables
from tests.ops.test_components import full, in_raster_order
from tests.tiers import few
from tests.transforms.trees import chunk_files, stored


@dataclass(frozen=True)
class Case:
    """A volume, how it is cut, and the mode of Beam in addition to this process, if any."""

    shape: tuple
    slab: tuple
    chunks: tuple
    density: float = 0.5
    window: int | None = None
    mode: str | None = None


CASES = {
    "slabs of planes": Case((17, 20, 24), (4, 20, 24), (2, 10, 12)),
    "2x2 tiles": Case((10, 24, 28), (5, 12, 14), (5, 6, 14), window=2, mode="in_memory"),
    "3x2 tiles": Case((13, 27, 22), (4, 9, 11), (4, 9, 11), window=3),
    "tiles in processes": Case((12, 20, 26), (6, 10, 13), (3, 10, 13), mode="multi_processing"),
    "thin slabs": Case((16, 18, 20), (3, 18, 20), (3, 9, 10)),
    "slabs one voxel thick": Case((7, 12, 16), (1, 12, 8), (1, 4, 8), window=1),
    "one slab": Case((11, 16, 12), (11, 16, 12), (4, 8, 12)),
    "sparse": Case((14, 25, 21), (4, 13, 7), (2, 13, 7), density=0.05),
    "dense": Case((14, 21, 25), (7, 7, 13), (7, 7, 13), density=0.9),
    "odd tiles": Case((7, 17, 11), (3, 8, 7), (3, 8, 7), density=0.3, mode="in_memory"),
}


def voxels(case, seed):
    """Blobs and speckle: components across many slabs, and many that touch no face of theirs."""
    random = np.random.default_rng(seed)
    smooth = ndi.uniform_filter(random.random(case.shape), 3)
    blobs = smooth > np.quantile(smooth, 1 - case.density / 2)
    mask = blobs | (random.random(case.shape) < case.density / 10)
    em = random.integers(1, 200, case.shape, np.uint8) + 40 * mask.astype(np.uint8)
    values = (mask * random.integers(0, 4, case.shape)).astype(np.int16)
    return mask, em, values


STRUCTURE = np.zeros((3, 3, 3), bool)
STRUCTURE[[0, 1, 2], [0, 1, 2], [1, 1, 1]] = STRUCTURE[1, 1, :] = True


def volumes(mask, em, values, mapping, odd):
    """Lazy volumes by name; every second case takes what works on masks, the others on labels."""
    cells = bv.label(mask)
    some = values if odd else mask
    return {
        "label": cells,
        "more": bv.label(mask, structure=STRUCTURE) if odd else bv.label(mask, 3),
        "by value": bv.label(values, 2, by_value=True, background=1),
        "small objects": bv.remove_small_objects(some, 80 if odd else 5),
        "small holes": bv.remove_small_holes(mask, 5),
        "filled": bv.binary_fill_holes(mask),
        "largest": bv.keep_largest(some, 2),
        "inside": bv.clear_border(some),
        "grown": bv.binary_propagation(em > 230, mask=mask),
        "hysteresis": bv.apply_hysteresis_threshold(em, 150, 232),
        "new values": bv.relabel(values, {1: 7, 2: 300}, missing="keep"),
        "by key": bv.relabel(cells, mapping, missing=9),
        "third": bv.where(cells == 3, em, 0),
        "distance": bv.distance_transform_edt(mask, (2.5, 1, 1.5)),
        "squares": bv.distance_transform_edt(mask, squared=True),
        "near": bv.distance_transform_edt(mask, max_distance=3),
        "signed": bv.signed_distance(mask),
        "sums": bv.cumsum(em),
        "sums along x": bv.cumsum(values, 2),
    }


def expected(mask, em, values, mapping, odd):
    """What `volumes` must give."""
    cells = ndi.label(mask)[0]
    some = values if odd else cells
    sizes = np.bincount(some.ravel(), minlength=2)
    order = 1 + np.argsort(-sizes[1:], kind="stable")
    some_of = (lambda kept: np.where(kept, values, 0)) if odd else (lambda kept: kept)
    far = ndi.distance_transform_edt(mask)
    by_key = np.full(cells.max() + 1, 9, np.int32)
    by_key[0] = 0
    by_key[mapping["label"]] = mapping["neuron"]
    return {
        "label": cells,
        "more": ndi.label(mask, STRUCTURE if odd else full(3))[0],
        "by value": in_raster_order(skimage_label(values, background=1, connectivity=2)),
        "small objects": some_of((some > 0) & (sizes[some] > (80 if odd else 5))),
        "small holes": remove_small_holes(mask, max_size=5),
        "filled": ndi.binary_fill_holes(mask),
        "largest": some_of(np.isin(some, order[:2])),
        "inside": clear_border(values if odd else mask),
        "grown": ndi.binary_propagation(em > 230, mask=mask),
        "hysteresis": apply_hysteresis_threshold(em, 150, 232),
        "new values": np.array([0, 7, 300, 3])[values],
        "by key": by_key[cells],
        "third": np.where(cells == 3, em, 0),
        "distance": ndi.distance_transform_edt(mask, (2.5, 1, 1.5)).astype("f4"),
        "squares": np.rint(far**2),
        "near": np.minimum(far, 3).astype("f4"),
        "signed": far.astype("f4") - ndi.distance_transform_edt(~mask).astype("f4"),
        "sums": np.cumsum(em, 0, np.uint64),
        "sums along x": np.cumsum(values, 2, np.int64),
    }


def measures(mask, em, values):
    """Lazy tables, numbers and projections by name; all come back in memory."""
    cells = bv.label(mask)
    return {
        "regions": bv.regionprops_table(cells, em),
        "adjacency": bv.region_adjacency(values, em, bins=4, range=(0, 256)),
        "count": cells.num_labels,
        "highest": bv.max(em, 0),
        "mean": bv.mean(em, (1, 2)),
        "area": bv.sum(mask, "y"),
        "third": bv.max(bv.where(cells == 3, em, 0)),
        "labelled": bv.mean(cells, "z"),
    }


def check_measures(got, mask, em, values):
    cells, n = ndi.label(mask)
    regions = got["regions"].to_pydict()
    columns = {name: np.array(column) for name, column in regions.items()}
    test_tables.check(columns, cells, em, (1, 1, 1))
    rows = got["adjacency"].to_pylist()
    faces = {tuple(row.values())[:2]: list(row.values())[2:5] for row in rows}
    assert faces == faces_of(values)
    assert got["count"] == n
    assert got["third"] == np.where(cells == 3, em, 0).max()
    np.testing.assert_array_equal(got["highest"], em.max(0))
    np.testing.assert_array_equal(got["mean"], em.mean((1, 2)))
    np.testing.assert_array_equal(got["area"], mask.sum(1))
    np.testing.assert_array_equal(got["labelled"], cells.mean(0))


def faces_of(labels):
    """By pair of labels, the faces they share along each axis."""
    faces = {}
    for axis in range(3):
        a, b = (np.moveaxis(labels, axis, 0)[s].ravel() for s in (slice(1, None), slice(-1)))
        for pair in np.sort(np.stack([a, b], 1)[(a != b) & (a > 0) & (b > 0)]).tolist():
            faces.setdefault(tuple(pair), [0, 0, 0])[axis] += 1
    return faces


@pytest.mark.parametrize("name", few(CASES, ["2x2 tiles"]))
def test_all_in_one_pipeline(name, tmp_path, monkeypatch):
    case = CASES[name]
    arrays = voxels(case, sum(map(ord, name)))
    stored_ = [stored(tmp_path, a, f"in-{k}.zarr", chunks=(5, 8, 9)) for k, a in enumerate(arrays)]
    inputs = (stored_[0] != 0, *stored_[1:])
    # Every second component, in two files of a folder: read by key, in pieces.
    monkeypatch.setattr(relabel, "IN_MEMORY", 0)
    old = np.arange(1, ndi.label(arrays[0])[1] + 1, 2)
    mapping = {"label": old, "neuron": (old * 3 % 17).astype("i4")}
    (tmp_path / "map.parquet").mkdir()
    for k in range(2):
        part = {column: values[k::2] for column, values in mapping.items()}
        pq.write_table(pa.table(part), tmp_path / "map.parquet" / f"{k}.parquet")

    odd = list(CASES).index(name) % 2

    def run(folder, **how):
        lazy = volumes(*inputs, tmp_path / "map.parquet", odd)
        out = [v.to(folder / f"{n}.zarr", chunks=case.chunks) for n, v in lazy.items()]
        small = measures(*inputs)
        out += [small["regions"].to(folder / f"table.{e}") for e in ("parquet", "csv", "jsonl")]
        results = bv.compute(
            *out, *small.values(), slab=case.slab, workers=2, progress=False, **how
        )
        return dict(zip(small, results[len(out) :], strict=True))

    ways = {"alone": run(tmp_path / "alone", runner=None)}
    if case.mode is not None:
        mode = f"--direct_running_mode={case.mode}"
        ways["beam"] = run(tmp_path / "beam", options=[mode], window=case.window)
    got = ways["alone"]
    for n, theirs in expected(*arrays, mapping, odd).items():
        ours = np.asarray(bv.open(tmp_path / "alone" / f"{n}.zarr"))
        np.testing.assert_array_equal(ours, theirs, err_msg=n)
        files = [chunk_files(tmp_path / way / f"{n}.zarr") for way in ways]
        assert all(f == files[0] for f in files), n
    check_measures(got, *arrays)
    for n, one in ways.get("beam", {}).items():
        same = got[n].equals(one) if hasattr(one, "equals") else np.array_equal(got[n], one)
        assert same, n
    for way in ways:
        assert got["regions"].equals(pq.read_table(tmp_path / way / "table.parquet"))
        convert = pa.csv.ConvertOptions(
            column_types={f.name: f.type for f in got["regions"].schema}
        )
        table = pa.csv.read_csv(tmp_path / way / "table.csv", convert_options=convert)
        assert got["regions"].equals(table)
        lines = (tmp_path / way / "table.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == got["regions"].to_pylist()
