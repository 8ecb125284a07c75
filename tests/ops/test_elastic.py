"""Displacements within slices: found in damaged sections of known truth, and applied as by scipy."""

import gc
import math
import subprocess
import sys
import tracemalloc
from functools import cache

import dask.array
import numpy as np
import pyarrow as pa
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv

import beam_volumes as bv
from beam_volumes.ops.geometry.displacements import Grid
from beam_volumes.ops.geometry.registration import elastic
from beam_volumes.ops.geometry.registration.meshes import Blocks, Mesh, joined
from beam_volumes.ops.geometry.registration.trends import Trend, smoothed
from tests.catalogue import voxels
from tests.tiers import dtypes_drawn, examples

COUNT, SIDE = 8, 144
TORN, FOLDED, MISSING = 5, 2, 4
GRID = np.mgrid[:SIDE, :SIDE].astype(float)


def fields(count, side, seed, amplitude=2.0, scale=30):
    """Smooth displacements of each slice in voxels, (count, 2, side, side)."""
    noise = np.random.default_rng(seed).normal(size=(count, 2, side, side))
    smooth = ndi.gaussian_filter(noise, (0, 0, scale, scale))
    return amplitude * smooth / smooth.std()


def at(field, positions):
    return np.stack([ndi.map_coordinates(f, positions, order=1, mode="nearest") for f in field])


def tissue_at(field, positions):
    """Where the tissue at positions of a slice was before it moved by a field."""
    before = positions.copy()
    for _ in range(25):
        before = positions - at(field, before)
    return before


def sections(moved, depth=3.0, seed=1):
    """A tissue that changes along z, each slice deformed by a field, with noise."""
    count, _, side, _ = moved.shape
    rng = np.random.default_rng(seed)
    wide = ndi.gaussian_filter(rng.normal(size=(count, side + 40, side + 40)), (depth, 2, 2))
    wide = 128 + 30 * wide / wide.std()
    grid = np.mgrid[:side, :side].astype(float)
    planes = [
        ndi.map_coordinates(plane, tissue_at(field, grid) + 20, order=3)
        for plane, field in zip(wide, moved, strict=True)
    ]
    return np.clip(np.stack(planes) + rng.normal(0, 4, (count, side, side)), 1, 255).astype("u1")


@cache
def damaged():
    """Sections with a fold, a tear that opens, and a missing slice; their fields, and intact voxels."""
    moved = fields(COUNT, SIDE, 0, 1.5, 32)
    moved += np.random.default_rng(5).normal(0, 2, (COUNT, 2, 1, 1))
    stack = sections(moved)
    intact = np.ones(stack.shape, bool)
    y, x = GRID
    tear = abs(y - 90 + x / 8) < 5
    stack[TORN][tear] = 0
    intact[TORN][abs(y - 90 + x / 8) < 20] = False
    fold = abs(x - 50 - y / 5) < 4
    stack[FOLDED][fold] = 20
    intact[FOLDED][abs(x - 50 - y / 5) < 20] = False
    stack[MISSING] = 0
    intact[MISSING] = False
    edge = 20
    intact[:, :edge] = intact[:, -edge:] = intact[:, :, :edge] = intact[:, :, -edge:] = False
    return stack, moved, intact


def error_of(table, displacements=None):
    """The distance in voxels between the tissue of aligned slices and its mean position, as rms."""
    _, moved, intact = damaged()
    grid = None if displacements is None else Grid.of_table(displacements, COUNT, "test")
    found = []
    for z in range(COUNT):
        matrix = np.array([[table[f"m_{a}{b}"][z].as_py() for b in "yx"] for a in "yx"])
        place = np.array([table[a][z].as_py() for a in "yx"])
        here = GRID if grid is None else GRID + grid.at(z, GRID)
        source = np.einsum("ab,byx->ayx", np.linalg.inv(matrix), here - place[:, None, None])
        found.append(tissue_at(moved[z], source))
    found = np.where(intact[:, None], found, np.nan)
    distance = found - np.nanmean(found, axis=0)
    return float(np.sqrt(np.nanmean((distance**2).sum(axis=1))))


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@pytest.mark.parametrize("nodata", [None, 0])
def test_damaged_sections(nodata):
    """Smooth fields of a few voxels are found next to a fold, a tear and a missing slice."""
    stack, _, _ = damaged()
    table = bv.register_slices(stack, model="affine", nodata=nodata).to_pyarrow()
    found = bv.register_elastic(stack, table, trend="keep", nodata=nodata)
    before, after = error_of(table), error_of(table, found)
    # Black voxels of a tear that are compared bias the blocks around it.
    assert after < (0.6 if nodata is None else 0.4) and after < 0.7 * before
    by = np.stack([np.asarray(found[c]).reshape(COUNT, -1) for c in ("d_y", "d_x")])
    links = np.asarray(found["links"]).reshape(COUNT, -1)
    assert not by[:, MISSING].any() and not links[MISSING].any()
    assert (links[[0, 3, 7]] > 0).mean() > 0.8


def test_slow_movements_of_the_tissue_remain():
    count, side, sigma = 14, 96, 3
    slow = np.linspace(-3, 3, side)[:, None] * np.sin(np.arange(count) / 5)[:, None, None, None]
    jitter = fields(count, side, 3, 1.0, 24)
    moved = jitter + slow * np.array([1.0, 0.5])[:, None, None]
    stack = sections(moved, depth=4.0)
    nodes = np.linspace(0, side - 1, 4)[1:3]
    inner = np.stack(np.meshgrid(nodes, nodes, indexing="ij"))
    wanted = np.stack([at(m, inner) for m in moved])
    flat = wanted.reshape(count, -1)
    fast = wanted - smoothed(flat, np.ones(count, bool), sigma).reshape(wanted.shape)
    errors = []
    for trend in (sigma, "keep"):
        table = bv.register_elastic(stack, neighbours=2, trend=trend)
        found = np.stack(
            [np.asarray(table[c]).reshape(count, 4, 4) for c in ("d_y", "d_x")], axis=1
        )
        errors.append(float(np.sqrt(((found[:, :, 1:3, 1:3] - fast) ** 2).sum(axis=1).mean())))
    assert errors[0] < 0.4 and errors[1] > 2 * errors[0]


def test_slices_that_share_nothing_are_not_deformed():
    stack = np.random.default_rng(0).normal(size=(3, 70, 66)).astype("f4")
    table = bv.register_elastic(stack, skip=[2])
    assert not any(np.asarray(table[c]).any() for c in ("d_y", "d_x", "links"))
    assert table["quality"].null_count == len(table)
    aligned = np.asarray(bv.apply_transforms(stack, None, displacements=table))
    np.testing.assert_array_equal(aligned, stack)


def test_two_slices_have_no_trend():
    stack = sections(fields(2, 64, 0, 1.0, 16))
    table, kept = (
        bv.register_elastic(stack, **how).to_pyarrow() for how in ({}, {"trend": "keep"})
    )
    assert table.equals(kept) and max(map(abs, table["d_y"].to_pylist())) > 0.5


@pytest.mark.parametrize("shape", [(1, 40, 40), (2, 1, 1), (2, 1, 50), (3, 6, 6), (3, 20, 64)])
@pytest.mark.parametrize("dtype", ["u1", "?", "f4"])
def test_little_tissue(shape, dtype):
    """One slice, rows of voxels, planes smaller than a block, and missing voxels give finite tables."""
    stack = voxels(shape, dtype, 0)
    if dtype == "f4":
        stack[..., ::3] = np.nan
    table = bv.register_elastic(stack)
    by = np.array([np.asarray(table[c]) for c in ("y", "x", "d_y", "d_x")])
    assert np.isfinite(by).all() and abs(by[2:]).max() <= 16
    aligned = np.asarray(bv.apply_transforms(stack.astype("f4"), None, displacements=table))
    assert aligned.shape == shape


def test_threads_and_chunks_give_the_same_table(monkeypatch):
    stack = sections(fields(4, 96, 0, 1.0, 16))
    tables = []
    for threads, chunks in ((1, (1, 96, 96)), (2, (3, 17, 40))):
        monkeypatch.setattr("os.cpu_count", lambda threads=threads: threads)
        chunked = dask.array.from_array(stack, chunks=chunks)
        tables.append(bv.register_elastic(bv.open(chunked), [(0, 0.5)] * 4).to_pyarrow())
    assert tables[0].equals(tables[1]) and np.asarray(tables[0]["links"]).any()


def traced(work):
    """The peak of memory of Python's objects and arrays while a function runs."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_nodes_and_pairs_need_the_declared_memory(monkeypatch):
    """With an eighth of the bytes of a node or of a pair, the declaration is too small."""
    count, side, reach = 8, 100, 3
    # Blocks and deformed planes have declarations of their own.
    monkeypatch.setattr(
        elastic._Elastic, "_block", lambda s, a, b, q, node: (*node, 0.3, 0, 99, 0.8)
    )
    monkeypatch.setattr(elastic, "_deformed", lambda plane, splines, z: plane)
    for name in ("_DEFORM_BYTES", "_MESH_BYTES"):
        monkeypatch.setattr(elastic, name, 0)
    planes = np.random.default_rng(0).normal(size=(count, side, side)).astype("f4")
    how = elastic._Elastic.of(planes, None, 8, None, 1024, None, None)
    slow = Trend.of(20, None, planes.shape, np.ones(2), "translation", None, "test")

    def work(compared=count):
        how.registered(planes, range(compared), reach, 0.3, slow, 1, False)

    work(3)  # imports; fewer slices have no trend
    measured = traced(work)
    declared = how.needs(reach).images - 4 * planes.size
    assert 0.6 * declared < measured < declared


def test_deformed_planes_need_the_declared_memory():
    plane = np.ones((256, 256), "f4")
    splines = Grid.through(np.zeros(2), np.full(2, 51.0), np.ones((1, 2, 6, 6)))
    measured = traced(lambda: elastic._deformed(plane, splines, 0)) / plane.size
    assert 0.6 * elastic._DEFORM_BYTES < measured < elastic._DEFORM_BYTES


def test_meshes_need_the_declared_memory():
    """In a new process, because the memory of SuperLU is only a part of the memory of the process."""
    code = """if True:
        import numpy as np
        from beam_volumes.ops.geometry.registration.meshes import Blocks, Mesh
        from beam_volumes.plan.cost.machine import peak_memory, resident_memory

        def fit(n):
            at = np.mgrid[:n, :n].astype(float)
            known = np.ones((n, n), bool)
            known[n // 2 :, n // 2 :] = False
            Mesh((n, n)).fitted(Blocks(at, np.sin(at / 3), 99.0 * known, 0.8 * known), known)

        fit(8)
        before = resident_memory()
        fit(60)
        print(peak_memory() - before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    declared = 60**2 * math.log2(60**2) * elastic._MESH_BYTES
    assert 0.5 * declared < int(done.stdout) < declared


def test_downsampled_planes_and_positions_of_transforms():
    """Displacements are in voxels, at positions of the aligned volume; slabs and threads change nothing."""
    moved = 2 * fields(2, 192, 4, 1.0, 40)
    stack = sections(ndi.zoom(moved, (1, 1, 1, 1)), depth=8.0)
    places = [(0.0, 0.0), (4.0, -7.0)]
    table = bv.register_elastic(stack, places, max_side=128, trend="keep", spacing=64)
    assert min(table["x"].to_pylist()) == -7 + 0.5
    assert max(map(abs, table["d_y"].to_pylist())) > 1
    again = bv.register_elastic(bv.open(stack), places, max_side=128, trend="keep", spacing=64)
    assert again.to_pyarrow().equals(table.to_pyarrow())


@dtypes_drawn(["u1", "?", "f2", "f4", "i8"])
@settings(max_examples=examples(25))
@given(data=st.data())
def test_displacements_as_by_scipy(dtypes, data):
    """Each slice in slabs of any size, against scipy at the positions of the splines."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    shape = tuple(data.draw(st.integers(1, n), "n") for n in (4, 14, 14))
    rng = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    x = voxels(shape, dtype, 3, narrow=True)
    nodes = tuple(data.draw(st.integers(1, 5), "nodes") for _ in range(2))
    y0, x0 = rng.normal(0, 2, 2)
    lines = np.arange(shape[0]), y0 + 3.5 * np.arange(nodes[0]), x0 + 2.5 * np.arange(nodes[1])
    columns = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(3, -1)
    by = rng.normal(0, 2, (2, columns.shape[1]))
    table = dict(zip(("z", "y", "x", "d_y", "d_x"), (*columns, *by), strict=True))
    matrices = np.eye(2) + rng.normal(0, data.draw(st.sampled_from([0, 0.2])), (shape[0], 2, 2))
    places = rng.normal(0, 2, (shape[0], 2))
    transforms = np.concatenate([matrices, places[:, :, None]], axis=2)
    order = 0 if dtype == "?" else data.draw(st.sampled_from([0, 1]), "order")
    mode = data.draw(st.sampled_from(["constant", "nearest"]), "mode")
    box = data.draw(st.booleans(), "bounding_box")
    result = bv.apply_transforms(
        bv.open(x),
        transforms,
        bounding_box=box,
        order=order,
        mode=mode,
        cval=1,
        displacements=table,
    )
    slab = tuple(data.draw(st.integers(1, n), "slab") for n in result.shape)
    ours = bv.compute(result, runner=None, slab=slab)
    np.testing.assert_array_equal(ours, np.asarray(result))
    grid = Grid.of_table(table, shape[0], "test")
    first = np.array([int(o) for o in result.origin[1:]])[:, None, None]
    here = np.mgrid[: result.shape[1], : result.shape[2]].astype(float) + first
    for z in range(shape[0]):
        moved = here + grid.at(z, here) - places[z][:, None, None]
        source = np.einsum("ab,byx->ayx", np.linalg.inv(matrices[z]), moved)
        # Positions that are this close to a voxel's border may be rounded to either side.
        is_safe = (
            (abs(source % 1 - 0.5) > 1e-9).all(axis=0)
            if order == 0
            else np.ones(source[0].shape, bool)
        )
        is_safe &= (abs(source) > 1e-9).all(axis=0)
        twin = ndi.map_coordinates(
            x[z].astype("f8"), source, order=order, mode=mode, cval=1, prefilter=False
        )
        atol = {"f": 2e-2 if dtype == "f2" else 1e-4, "u": 0.501, "i": 0.501, "b": 0}[x.dtype.kind]
        np.testing.assert_allclose(
            ours[z][is_safe].astype("f8"), twin[is_safe], rtol=1e-3, atol=atol
        )


def test_missing_voxels_stay_where_they_are():
    x = voxels((2, 30, 30), "f4", 0)
    x[0, 10, 10] = np.nan
    table = columns_of_nodes(2, 30)
    ours = np.asarray(bv.apply_transforms(x, None, displacements=table))
    assert 1 <= np.isnan(ours[0]).sum() <= 9 and not np.isnan(ours[1]).any()


@pytest.mark.parametrize("seed", range(12))
def test_far_displacements_and_single_nodes(seed):
    """Threads and slabs give the same bits; `tests/kernels/test_bounds.py` repeats this test."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 15, 3).tolist())
    nodes = [1 if seed % 3 == k else int(rng.integers(1, 6)) for k in range(2)]
    lines = np.arange(shape[0]), 3.5 * np.arange(nodes[0]) - 1, 2.5 * np.arange(nodes[1])
    columns = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(3, -1)
    by = rng.normal(0, (0.1, 2, 50)[seed % 3], (2, columns.shape[1]))
    table = dict(zip(("z", "y", "x", "d_y", "d_x"), (*columns, *by), strict=True))
    x = voxels(shape, "f4" if seed % 2 else "u1", seed)
    transforms = np.concatenate(
        [np.eye(2) + rng.normal(0, 0.2, (shape[0], 2, 2)), rng.normal(0, 2, (shape[0], 2, 1))], 2
    )
    for mode in ("constant", "nearest"):
        how = {"mode": mode, "order": seed // 2 % 2, "bounding_box": seed < 6}
        result = bv.apply_transforms(bv.open(x), transforms, displacements=table, **how)
        slab = tuple(int(rng.integers(1, n + 1)) for n in result.shape)
        ours = bv.compute(result, runner=None, slab=slab, threads=2)
        np.testing.assert_array_equal(ours, bv.compute(result, runner=None, threads=1))


def test_voxels_of_weight_zero_are_not_read():
    x = np.array([[[1, 2, 3], [np.nan, np.nan, np.nan]]], "f4")
    nodes = {"z": [0], "y": [0.0], "x": [0.0], "d_y": [-1e3], "d_x": [0.0]}
    ours = np.asarray(bv.apply_transforms(x, None, mode="nearest", displacements=nodes))
    np.testing.assert_array_equal(ours, [[[1, 2, 3]] * 2])


def test_bounding_box_is_not_larger_than_displacements_need():
    rng = np.random.default_rng(0)
    by = rng.normal(0, 2, (3, 2, 5, 4))
    grid = Grid.through(np.zeros(2), np.array([10.0, 9.0]), by)
    there = np.mgrid[-5:50, -5:40]
    found = np.stack([grid.at(z, there) for z in range(3)])
    low, high = grid.bounds
    assert (low <= found.min(axis=(2, 3))).all() and (high >= found.max(axis=(2, 3))).all()
    assert max(-low.min(), high.max()) < 1.5 * abs(found).max()


def columns_of_nodes(count, side, **changes):
    lines = np.arange(count), np.linspace(0, side - 1, 3), np.linspace(0, side - 1, 3)
    z, y, x = np.stack(np.meshgrid(*lines, indexing="ij")).reshape(3, -1)
    by = np.random.default_rng(0).normal(size=(2, len(z)))
    return {"z": z, "y": y, "x": x, "d_y": by[0], "d_x": by[1], **changes}


def test_tables_and_files_are_equal(tmp_path):
    x = voxels((3, 20, 20), "u1", 0)
    table = pa.table(columns_of_nodes(3, 20))
    mixed = table.take(np.random.default_rng(1).permutation(len(table)))
    csv.write_csv(mixed, tmp_path / "d.csv")
    ours = [
        np.asarray(bv.apply_transforms(x, [(0, 1.5)] * 3, displacements=d))
        for d in (table, mixed, tmp_path / "d.csv")
    ]
    np.testing.assert_array_equal(ours[0], ours[1])
    np.testing.assert_array_equal(ours[0], ours[2])


def test_splines_pass_through_nodes_and_keep_straight_lines():
    rng = np.random.default_rng(0)
    nodes = rng.normal(size=(2, 2, 4, 5))
    first, step = np.array([3.0, -2.0]), np.array([8.0, 5.0])
    y, x = (f + s * np.arange(n) for f, s, n in zip(first, step, (4, 5), strict=True))
    there = np.stack(np.meshgrid(y, x, indexing="ij"))
    grid = Grid.through(first, step, nodes)
    np.testing.assert_allclose(grid.at(1, there), nodes[1], atol=1e-12)
    line = (0.1 * there[0] - 0.2 * there[1])[None, None].repeat(2, 1)
    inside = there[:, :-1, :-1] + 2.3
    found = Grid.through(first, step, line).at(0, inside)
    np.testing.assert_allclose(found[0], 0.1 * inside[0] - 0.2 * inside[1], atol=1e-12)
    low, high = grid.bounds
    assert (low <= nodes.min(axis=(2, 3))).all() and (high >= nodes.max(axis=(2, 3))).all()


def blocks_of(shifts, evidence=50.0):
    shape = shifts.shape[1:]
    centres = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij")).astype(float)
    return Blocks(centres, shifts, np.full(shape, evidence), np.full(shape, 0.8))


def test_blocks_that_disagree_with_their_neighbours_are_not_used():
    y, x = np.mgrid[:6, :7]
    shifts = np.stack([0.5 * x - 0.3 * y, 0.2 * y + 0.1 * x])
    wrong = shifts.copy()
    wrong[:, 2, 3] += 6
    kept = blocks_of(wrong).significant
    assert not kept[2, 3] and kept.sum() == kept.size - 1
    fitted, weights = Mesh((6, 7)).fitted(blocks_of(wrong), kept)
    assert abs(fitted - shifts).max() < 0.1
    assert weights[2, 3] < weights[2, 4] / 2
    assert not blocks_of(shifts, 1.0).significant.any()


def test_slopes_do_not_continue_beyond_blocks():
    """Nodes that no block covers have means of displacements around them, and holes are filled smoothly."""
    y, x = np.mgrid[:12, :16]
    shifts = np.stack([2.0 * np.sin(x / 4), 0.5 * x])
    kept = (x < 5) & (abs(y - 6) < 4)
    fitted, _ = Mesh((12, 16)).fitted(blocks_of(np.where(kept, shifts, 99.0)), kept)
    covered = ndi.maximum_filter(kept, 3)
    low, high = (f(fitted[:, covered], axis=1) for f in (np.min, np.max))
    assert (fitted.min(axis=(1, 2)) >= low - 1e-9).all()
    assert (fitted.max(axis=(1, 2)) <= high + 1e-9).all()
    assert high[1] < 2.7 and abs(fitted - shifts)[:, kept].max() < 0.1
    kept = (abs(y - 6) > 2) | (abs(x - 7) > 2)
    fitted, _ = Mesh((12, 16)).fitted(blocks_of(np.where(kept, shifts, 99.0)), kept)
    assert abs(fitted - shifts).max() < 0.3


def test_pairs_that_contradict_others_lose_weight():
    """A chain of slices with a wrong pair, a slice without pairs, and a gap that others bridge."""
    truth = np.random.default_rng(0).normal(0, 2, (8, 2, 1, 1))
    truth[4] = 0
    ones = np.ones((1, 1))
    pairs = {
        (i, j): (truth[j] - truth[i], ones)
        for i in range(8)
        for j in range(i + 1, min(i + 4, 8))
        if 4 not in (i, j)
    }
    pairs[2, 3] = (pairs[2, 3][0] + 5.0, ones)
    found, linked = joined(pairs, 8)
    assert linked.tolist() == [k != 4 for k in range(8)] and not found[4].any()
    distance = (found - truth)[linked]
    assert abs(distance - distance.mean(axis=0)).max() < 0.05


@pytest.mark.parametrize(
    "how, message",
    [
        ({"spacing": 4}, "spacing=4 is less than 8 voxels of planes"),
        (
            {"spacing": 20, "max_displacement": 30},
            "max_displacement=30 is more than the distance of nodes, 20",
        ),
        ({"max_displacement": -1}, "max_displacement=-1"),
        ({"neighbours": 0}, "neighbours=0"),
        ({"skip": [9]}, "skip=9 is not a number from 0 to 2"),
        ({"min_quality": 2}, "min_quality=2"),
        ({"trend": "slow"}, "trend='slow' is not available"),
        ({"transforms": [(0, 0)]}, "transforms has 1 entries for 3 slices"),
        (
            {"transforms": [(1e9, 0), (0, 0), (0, 0)]},
            "transforms place the slices in 1000000040 x 40",
        ),
        ({"mask": np.ones((3, 9, 9), bool)}, "mask of the stack has the shape"),
        ({"nodata": 300}, "nodata=300 is not a value of uint8"),
    ],
)
def test_refused_parameters(how, message):
    with pytest.raises(ValueError, match=f"register_elastic: .*{message}"):
        bv.register_elastic(np.ones((3, 40, 40), "u1"), **how)


def test_refused_volumes():
    with pytest.raises(ValueError, match="z, y and x are needed"):
        bv.register_elastic(np.ones((40, 40)))
    movie = bv.open(np.ones((2, 3, 9, 9)), axes="tzyx")
    with pytest.raises(ValueError, match="displacements= are for slices"):
        bv.apply_transforms(movie, None, displacements=columns_of_nodes(3, 9))


@pytest.mark.parametrize(
    "table, message",
    [
        ([1, 2], "is not a table; give the result of register_elastic"),
        ({"z": [0]}, "has no column 'y'"),
        (columns_of_nodes(2, 9), "has 2 slices, 0 to 1, for 3 slices"),
        (
            columns_of_nodes(3, 9, z=columns_of_nodes(3, 9)["z"] + 0.5),
            "has 3 slices, 0.5 to 2.5, for",
        ),
        ({c: [] for c in ["z", "y", "x", "d_y", "d_x"]}, "has 0 slices for 3 slices"),
        (columns_of_nodes(3, 9, d_x=["a"] * 27), "an entry is not a number"),
        (columns_of_nodes(3, 9, d_y=[np.nan] * 27), "entries that are NaN or infinite"),
        (
            {k: v[:-1] for k, v in columns_of_nodes(3, 9).items()},
            "has 26 rows, which are no grid of 3 x 3 x 3",
        ),
        (columns_of_nodes(3, 9, x=np.tile([0, 1, 5], 9)), "in distances from 1 to 4 along x"),
        (columns_of_nodes(3, 9, d_y=[0.0]), "columns of different lengths"),
    ],
)
def test_refused_tables(table, message):
    with pytest.raises((ValueError, TypeError), match=message):
        bv.apply_transforms(np.ones((3, 9, 9)), None, displacements=table)
