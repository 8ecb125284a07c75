"""Fusion of tiles against weighted means in numpy, and scipy's interpolation."""

import csv
import itertools
import time

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.kernels.geometry.content import local_variance
from beam_volumes.kernels.geometry.fusion import BLENDINGS
from beam_volumes.kernels.geometry.masked_fusion import FADE
from tests.catalogue import voxels
from tests.tiers import dtypes_drawn, examples

DTYPES = ["u1", "u2", "i2", "u4", "i4", "f2", "f4", "f8"]


def sampled(tile, at, order):
    """The voxels of a tile at positions, and where it covers them."""
    inside = np.ones(at[0].shape, bool)
    whole, fractions = [], []
    for u, n in zip(at, tile.shape, strict=True):
        inside &= (u >= -0.5) & (u < n - 0.5)
        c = np.clip(u, 0, n - 1) if order else np.clip(np.floor(u + 0.5), 0, n - 1)
        whole.append(np.floor(c).astype(int))
        fractions.append(c - whole[-1])
    corners = {}
    for corner in itertools.product((0, 1), repeat=3):
        index = [i + (k & (f > 0)) for i, k, f in zip(whole, corner, fractions, strict=True)]
        corners[corner] = tile[tuple(index)].astype("f8")
    for axis in (2, 1, 0):
        f = fractions[axis]
        corners = {
            key[:-1]: np.where(f == 0, a, a + f * (corners[(*key[:-1], 1)] - a))
            for key, a in corners.items()
            if key[-1] == 0
        }
    return corners[()], inside


def weight(at, shape, blending, widths=None):
    result = 1.0
    for u, n, width in zip(at, shape, widths or (np.inf,) * 3, strict=True):
        distance = np.minimum(u, n - 1 - u) + 1
        if blending == "cosine":
            width = min(width, 0.5 * (n + 1))
            distance = 0.5 - 0.5 * np.cos(np.pi * np.minimum(1, distance / width))
        elif widths:
            distance = np.minimum(1, distance / width)
        result = result * distance
    return result if blending in ("linear", "cosine") else np.ones_like(at[0])


def sampled_valid(tile, valid, at, order, blending):
    """The means of valid voxels at positions, where they cover them, and the factors of weights."""
    value, inside = sampled(tile, at, order)
    near = np.full(tile.shape, FADE, "f8")
    if not valid.all():
        near = np.minimum(ndi.distance_transform_cdt(valid, "taxicab"), FADE).astype("f8")
    distance = sampled(near, at, order)[0] / FADE
    whole, fractions = [], []
    for u, n in zip(at, tile.shape, strict=True):
        c = np.clip(u, 0, n - 1) if order else np.clip(np.floor(u + 0.5), 0, n - 1)
        whole.append(np.floor(c).astype(int))
        fractions.append(c - whole[-1])
    inside &= valid[tuple(i + (f >= 0.5) for i, f in zip(whole, fractions, strict=True))]
    total, weights, every = np.zeros(inside.shape), np.zeros(inside.shape), inside.copy()
    for corner in itertools.product((0, 1), repeat=3):
        index = tuple(i + (k & (f > 0)) for i, k, f in zip(whole, corner, fractions, strict=True))
        w = 1.0
        for k, f in zip(corner, fractions, strict=True):
            w = w * (f if k else 1 - f)
        every &= valid[index]
        counts = valid[index] & (w > 0)
        total += np.where(counts, w * tile[index].astype("f8"), 0)
        weights += np.where(counts, w, 0)
    with np.errstate(all="ignore"):
        value = np.where(every, value, total / weights)
    if blending == "cosine":
        distance = 0.5 - 0.5 * np.cos(np.pi * distance)
    return value, inside, distance if blending in ("linear", "cosine") else np.ones_like(value)


def reference(
    tiles, places, shape, gain, offset, blending="linear", order=1, fill=0, dtype=None, valid=None,
    blend_width=None,
    content=None,
):  # fmt: skip
    total, weights, last = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    count = np.zeros(shape, int)
    dtype = np.dtype(dtype or tiles[0].dtype)
    for t, (tile, place) in enumerate(zip(tiles, places, strict=True)):
        first = np.clip(np.floor(place).astype(int), 0, shape)
        stop = np.clip(np.ceil(place).astype(int) + tile.shape, first, shape)
        box = tuple(map(slice, first, stop))
        at = np.indices(stop - first) + first[:, None, None, None] - place[:, None, None, None]
        if valid is None:
            value, inside = sampled(tile, at, order)
            factor = 1.0
        else:
            value, inside, factor = sampled_valid(tile, valid[t], at, order, blending)
        value = value * gain[t] + offset[t]
        if blending == "first":
            inside &= count[box] == 0
        if blending == "max":
            value = np.where(count[box] > 0, np.fmax(total[box], value), value)
            total[box][inside] = value[inside]
        else:
            w = weight(at, tile.shape, blending, blend_width) * factor
            if content is not None:
                w = w * (sampled(content[t], at, order)[0] + 1e-200)
            total[box][inside] += (w * value)[inside]
            weights[box][inside] += w[inside]
        last[box][inside] = value[inside]
        count[box] += inside
    with np.errstate(all="ignore"):
        result = total if blending == "max" else total / weights
    result = np.where(count == 1, last, np.where(count == 0, fill, result))
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        result = np.clip(np.rint(result), info.min, info.max)
    return result.astype(dtype)


@st.composite
def mosaics(draw, dtype):
    tiles, places = [], []
    for _ in range(draw(st.integers(1, 6), "tiles")):
        shape = tuple(draw(st.integers(1, n)) for n in (7, 9, 12))
        tiles.append(voxels(shape, dtype, draw(st.integers(0, 99)), narrow=True))
        whole = [draw(st.integers(-8, 8)) for _ in range(3)]
        part = [draw(st.sampled_from([0, 0, 0.5, 0.25, 0.3, -0.7])) for _ in range(3)]
        places.append(np.add(whole, part))
    return tiles, np.array(places)


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(60))
@given(data=st.data())
def test_moved_tiles_are_means_in_numpy_in_any_slabs(dtypes, data):
    """Bit for bit, except with cosines, which numpy computes otherwise."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    tiles, places = data.draw(mosaics(dtype))
    n = len(tiles)
    blending = data.draw(st.sampled_from(sorted(BLENDINGS)), "blending")
    order = data.draw(st.sampled_from([0, 1, 1]), "order")
    target = data.draw(st.sampled_from([dtype, "f8", "u1"]), "target")
    gain = data.draw(st.sampled_from([np.ones(n), np.linspace(0.5, 1.5, n)]), "gain")
    offset = data.draw(st.sampled_from([np.zeros(n), np.arange(n) - 1.5]), "offset")
    shape = data.draw(st.sampled_from([None, (5, 9, 20)]), "shape")
    how = {"blending": blending, "order": order, "fill": 3, "dtype": target}
    if blending in ("linear", "cosine"):
        how["blend_width"] = data.draw(st.sampled_from([None, (2, 1.5, 4)]), "width")
    result = bv.fuse(tiles, places, shape=shape, gain=gain, offset=offset, **how)
    start = np.array(result.origin) if shape is None else np.zeros(3)
    expected = reference(tiles, places - start, result.shape, gain, offset, **how)
    slab = tuple(data.draw(st.integers(1, m)) for m in result.shape)
    window = data.draw(st.sampled_from([None, 1, 3]))
    got = bv.compute(result, runner=None, slab=slab, window=window)
    if blending == "cosine":
        is_whole = np.dtype(target).kind in "iu"
        close = 2e-3 if target == "f2" else 1e-6
        np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), close, is_whole)
    else:
        np.testing.assert_array_equal(got, expected)


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(40), deadline=None)
@given(data=st.data())
def test_valid_voxels_of_tiles_are_means_in_numpy_in_any_slabs(dtypes, data):
    """Bit for bit, by masks, by a value without data, and by both."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    tiles, places = data.draw(mosaics(dtype))
    n, rng = len(tiles), np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    share = data.draw(st.sampled_from([0.0, 0.5, 0.97, 1.0]), "share")
    valid = [rng.random(tile.shape) < share for tile in tiles]
    masks = [v if k % 2 else v.astype("i4") * 3 for k, v in enumerate(valid)]
    nodata = None
    if data.draw(st.booleans(), "nodata"):
        nodata = tiles[0].ravel()[0].item()
        masks[0], valid[0] = None, np.ones(tiles[0].shape, bool)
        same = [np.isnan(t) if nodata != nodata else t == nodata for t in tiles]
        valid = [v & ~s for v, s in zip(valid, same, strict=True)]
    blending = data.draw(st.sampled_from(sorted(BLENDINGS)), "blending")
    order = data.draw(st.sampled_from([0, 1, 1]), "order")
    gain, offset = np.linspace(0.5, 1.5, n), np.arange(n) - 1.5
    how = {"blending": blending, "order": order, "fill": 3}
    if blending in ("linear", "cosine"):
        how["blend_width"] = data.draw(st.sampled_from([None, (2, 1.5, 4)]), "width")
    result = bv.fuse(tiles, places, gain=gain, offset=offset, mask=masks, nodata=nodata, **how)
    where = places - np.array(result.origin)
    expected = reference(tiles, where, result.shape, gain, offset, valid=valid, **how)
    slab = tuple(data.draw(st.integers(1, m)) for m in result.shape)
    got = bv.compute(result, runner=None, slab=slab, window=data.draw(st.sampled_from([None, 1])))
    if blending == "cosine":
        is_whole = np.dtype(dtype).kind in "iu"
        close = 2e-3 if dtype == "f2" else 1e-6
        np.testing.assert_allclose(got.astype("f8"), expected.astype("f8"), close, is_whole)
    else:
        np.testing.assert_array_equal(got, expected)


def test_stored_tiles_with_masks_are_the_same_in_blocks(tmp_path, monkeypatch):
    """Rotated tiles in blocks of few voxels; a mask of all voxels changes no bit."""
    from beam_volumes.storage.sources import tiles as sources

    rng = np.random.default_rng(0)
    tiles = [voxels((20, 40, 44), "f4", k) for k in range(3)]
    masks = [ndi.gaussian_filter(rng.normal(size=t.shape), 3) < 0.05 for t in tiles]
    opened, stored = [], []
    for k, (tile, mask) in enumerate(zip(tiles, masks, strict=True)):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(8, 16, 16)))
        bv.compute(bv.open(mask).to(tmp_path / f"m{k}.zarr", chunks=(5, 20, 9)))
        opened.append(bv.open(tmp_path / f"{k}.zarr"))
        stored.append(bv.open(tmp_path / f"m{k}.zarr"))
    transforms = np.tile(np.eye(3, 4), (3, 1, 1))
    transforms[1, 1:, 1:3] = [[0.96, -0.28], [0.28, 0.96]]
    transforms[:, :, 3] = [(0, 0, 0), (3.5, 10, 8), (-2, 5.25, 30)]
    whole = bv.compute(bv.fuse(tiles, transforms, mask=masks), runner=None)
    every = [np.ones(t.shape, bool) for t in tiles]
    same = bv.compute(bv.fuse(tiles, transforms, mask=every), runner=None)
    np.testing.assert_array_equal(same, np.asarray(bv.fuse(tiles, transforms)))
    assert (whole != same).any()
    monkeypatch.setattr(sources, "CELL_BYTES", 1 << 14)
    fused = bv.fuse(opened, transforms, mask=stored)
    assert fused.node.source.chunk != fused.shape
    for slab in (None, (7, 20, 30)):
        np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), whole)
    assert "3 tiles; their chunks are read" in bv.plan(fused).explain(verbose=True)


def test_masks_of_channels_and_planes_are_fused():
    image = voxels((3, 20, 30), "u1", 2)
    valid = np.indices((20, 18))[1] < 15
    right = bv.open(image[..., 12:], axes="cyx")
    damaged = bv.open(np.where(valid, image[..., :18], 255).astype("u1"), axes="cyx")
    fused = bv.fuse([damaged, right], [(0, 0), (0, 12)], mask=[valid, None])
    np.testing.assert_array_equal(np.asarray(fused), image)
    masks = [np.ones((20, 30), bool), np.zeros((20, 30), bool)]
    one = bv.fuse([image[0], image[1]], [(0, 0), (0, 0)], mask=masks)
    np.testing.assert_array_equal(np.asarray(one), image[0])
    assert np.asarray(bv.fuse([np.ones((1, 1), "u1")], [(0, 0)], nodata=1, fill=9)).tolist() == [
        [9]
    ]


@settings(max_examples=examples(25))
@given(data=st.data())
def test_turned_tiles_are_scipys(data):
    """Rotated, sheared, scaled and mirrored; and the same bits in any slabs."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999), "seed"))
    tiles = [voxels((6, 8, 10), "f4", k) for k in range(3)]
    forward = np.eye(3) + rng.normal(0, data.draw(st.sampled_from([0.02, 0.5])), (3, 3, 3))
    forward[0] *= data.draw(st.sampled_from([1, -1, 2]))
    if min(abs(np.linalg.det(forward))) < 0.1:
        forward = np.eye(3)[None].repeat(3, axis=0)
    places = rng.uniform(-5, 5, (3, 3))
    transforms = np.concatenate([forward, places[:, :, None]], axis=2)
    result = bv.fuse(tiles, transforms, blending="mean")
    start = np.array(result.origin)
    inverse = np.linalg.inv(forward)
    shift = -np.einsum("tab,tb->ta", inverse, places - start)
    whole = bv.compute(result, runner=None)
    grid = np.indices(result.shape).reshape(3, -1)
    total, count = np.zeros(whole.size), np.zeros(whole.size)
    near = np.zeros(whole.size, bool)
    for tile, m, s in zip(tiles, inverse, shift, strict=True):
        at = m @ grid + s[:, None]
        inside = np.ones(whole.size, bool)
        for u, n in zip(at, tile.shape, strict=True):
            inside &= (u >= -0.5) & (u < n - 0.5)
            near |= (abs(u + 0.5) < 1e-9) | (abs(u - n + 0.5) < 1e-9)
        total += np.where(inside, ndi.map_coordinates(tile, at, order=1, mode="nearest"), 0)
        count += inside
    expected = np.where(count, total / np.maximum(count, 1), 0).reshape(whole.shape)
    near = near.reshape(whole.shape)
    np.testing.assert_allclose(whole[~near], expected[~near], 1e-4, 1e-3)
    slab = tuple(data.draw(st.integers(max(1, m // 3), m)) for m in result.shape)
    parts = bv.compute(result, runner=None, slab=slab)
    assert parts.tobytes() == whole.tobytes()


def test_tiles_of_one_image_give_it_back(tmp_path):
    """Stored in chunks, at whole positions: from positions, tables, files and the tiles' own origins."""
    image = voxels((12, 40, 50), "u2", 1)
    places = [(z, y, x) for z in (0, 4) for y in (0, 15) for x in (0, 20, 25)]
    opened = []
    for k, (z, y, x) in enumerate(places):
        tile = bv.open(
            image[z : z + 8, y : y + 25, x : x + 30],
            voxel_size=(4, 2, 2),
            unit="nm",
            origin=(4 * z, 2 * y, 2 * x),
        )
        path = tmp_path / f"{k}.zarr"
        bv.compute(tile.to(path, chunks=(3, 16, 16)))
        opened.append(bv.open(path))
    table = {a: [p[i] for p in places] for i, a in enumerate("zyx")}
    with open(tmp_path / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerows([["name", "x", "y", "z"], *(("a", x, y, z) for z, y, x in places)])
    nanometers = [(4 * z, 2 * y, 2 * x) for z, y, x in places]
    for fused in (
        bv.fuse(opened, places),
        bv.fuse(opened, table),
        bv.fuse(opened, tmp_path / "t.csv"),
        bv.fuse(opened, None),
        bv.fuse(opened, nanometers, physical=True),
    ):
        assert (fused.voxel_size, fused.unit) == ((4, 2, 2), "nanometer")
        assert fused.origin == (0, 0, 0)
        for how in ({"slab": (5, 13, 50)}, {"slab": (12, 11, 7)}):
            np.testing.assert_array_equal(bv.compute(fused, runner=None, **how), image)
    inner = bv.gaussian_filter(fused[3:9, 5:, 7:44], 1)
    np.testing.assert_array_equal(
        bv.compute(inner, runner=None, slab=(2, 9, 11)),
        np.asarray(bv.gaussian_filter(bv.open(image)[3:9, 5:, 7:44], 1)),
    )
    bv.compute(fused.to(tmp_path / "all.zarr", chunks=12), runner="FnApiRunner", slab=(12, 12, 12))
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "all.zarr")), image)
    half = bv.fuse(opened, None, voxel_size=(4, 4, 4), order=0)
    np.testing.assert_array_equal(np.asarray(half), image[:, ::2, ::2])
    assert half.voxel_size == (4, 4, 4)


def test_planes_and_channels_are_fused():
    image = voxels((3, 20, 30), "u1", 2)
    left, right = (bv.open(image[..., s], axes="cyx") for s in (np.s_[:18], np.s_[12:]))
    fused = bv.fuse([left, right], [(0, 0), (0, 12)])
    assert fused.axes == ("c", "y", "x")
    np.testing.assert_array_equal(np.asarray(fused), image)
    masks = [image[0, :, :18] > 90, image[0, :, 12:] > 90]
    mask = bv.fuse(masks, [(0, 0), (0, 12)], order=0, blending="max")
    np.testing.assert_array_equal(np.asarray(mask), image[0] > 90)


def test_widths_of_blends_are_lengths_of_each_tile():
    fine = bv.open(np.zeros((20, 40), "f4"), voxel_size=(1, 1), unit="um")
    coarse = bv.open(np.full((10, 20), 60, "f4"), voxel_size=(2, 2), unit="um", origin=(0, 20))
    volume = bv.fuse([fine, coarse], None, blend_width="10 um", order=0)
    x = np.arange(20, 39, 2)
    first, second = np.minimum(1, (40 - x) / 10), np.minimum(1, ((x - 20) / 2 + 1) / 5)
    row = np.asarray(volume)[10 - int(volume.origin[0])]
    np.testing.assert_allclose(row[x], 60 * second / (first + second), 1e-6)
    for width in (1, (1, 0.5)):
        same = bv.fuse([fine, fine], [(0, 0), (0, 5)], blend_width=width)
        np.testing.assert_array_equal(
            same, bv.fuse([fine, fine], [(0, 0), (0, 5)], blending="mean")
        )


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_time_points_are_fused_one_by_one(tmp_path, dtype):
    """From files with chunks of several time points, with masks, and with one or several transforms."""
    image = voxels((3, 2, 7, 21, 30), dtype, 4)
    tiles, opened = [image[..., :18], image[..., 11:]], []
    for k, tile in enumerate(tiles):
        path = tmp_path / f"{k}.zarr"
        bv.compute(bv.open(tile, axes="tczyx").to(path, chunks=(4, 9, 10)))
        opened.append(bv.open(path))
    mask = np.random.default_rng(0).random((7, 21, 18)) < 0.9
    moving = np.array([[(0, 0, 0), (t - 0.5, 1.25 * t, 11)] for t in range(3)])
    turned = np.tile(np.eye(3, 4), (3, 2, 1, 1))
    turned[..., 3] = moving
    turned[1, 1, 1:, 1:3] = [[0.96, -0.28], [0.28, 0.96]]
    for sets, is_per_frame, how in (
        (moving[0], False, {}),
        (list(moving), True, {"mask": [mask, None]}),
        (turned, True, {}),
    ):
        fused = bv.fuse(opened, sets, per_frame=is_per_frame, **how)
        assert fused.axes == ("t", "c", "z", "y", "x")
        start = np.array(fused.origin)
        for slab in (None, (3, 10, 13)):
            got = bv.compute(fused, runner=None, slab=slab)
            for t in range(3):
                one = np.array(sets[t] if is_per_frame else sets, "f8")
                one[..., -1 if one.ndim == 3 else slice(None)] -= start
                expected = bv.fuse(
                    [bv.open(tile[t], axes="czyx") for tile in tiles],
                    one,
                    shape=fused.shape[2:],
                    **how,
                )
                np.testing.assert_array_equal(got[t], expected)
                np.testing.assert_array_equal(fused[t], got[t])
        np.testing.assert_array_equal(fused[1:, 1], got[1:, 1])
    out = tmp_path / "out.zarr"
    bv.compute(fused.to(out, chunks=8), runner="FnApiRunner")
    np.testing.assert_array_equal(bv.open(out), got)


def test_the_plan_covers_the_time_point_that_needs_most_memory(monkeypatch):
    """With most tiles in a block, or the widest margins around it."""
    from beam_volumes.storage.sources import tiles as sources

    tile = bv.open(np.zeros((2, 40, 40, 40), "u1"), axes="tzyx")
    apart = [(0, 0, 0), (40, 0, 0), (0, 40, 0), (0, 0, 40)]
    together = [(0, 0, 0)] * 4
    moving = bv.fuse([tile] * 4, [apart, together], per_frame=True)
    needed = [moving[t].node.source.reader.decode_bytes for t in range(2)]
    assert needed[0] == needed[1] > 4 * 40**3
    smaller = bv.fuse([tile] * 4, apart)
    assert smaller.node.source.decode_bytes == moving.node.source.decode_bytes
    monkeypatch.setattr(sources, "CONTENT_BYTES", 1 << 12)
    scaled = [np.diag(np.full(3, scale)) for scale in (1, 0.2)]
    how = {"weights": "content", "content_sigma": 1, "shape": (40, 40, 40)}
    found = [
        bv.fuse([tile], sets, per_frame=True, **how).node.source.decode_bytes
        for sets in ([scaled[:1]] * 2, [scaled[1:]] * 2, [scaled[:1], scaled[1:]])
    ]
    assert found[0] < found[1] == found[2]


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "f4", "f8"])
def test_local_variances_are_scipys(dtype):
    """And the same bits in any box with a margin."""
    rng, sigmas = np.random.default_rng(0), (1, 2.5, 0)
    array = rng.integers(0, 100, (9, 41, 30)).astype(dtype)
    exact = array.astype("f8")
    mean = ndi.gaussian_filter(exact, sigmas, truncate=3)
    wide = [2 * s for s in sigmas]
    expected = ndi.gaussian_filter((exact - mean) ** 2, wide, truncate=3)
    got = local_variance(array, None, sigmas)
    np.testing.assert_allclose(got, expected, 1e-5)
    part = local_variance(array[:, 5:], None, sigmas)
    np.testing.assert_array_equal(part[:, 23:], got[:, 28:])
    valid = rng.random(array.shape) < 0.6
    share = ndi.gaussian_filter(valid * 1.0, sigmas, truncate=3)
    mean = ndi.gaussian_filter(exact * valid, sigmas, truncate=3) / share
    square = ndi.gaussian_filter((exact - mean) ** 2 * valid, wide, truncate=3)
    expected = square / ndi.gaussian_filter(valid * 1.0, wide, truncate=3)
    marked = np.where(valid, array, np.nan) if dtype[0] == "f" else array
    np.testing.assert_allclose(local_variance(marked, valid, sigmas), expected, 1e-4)
    assert not local_variance(np.full((3, 4, 5), 7, dtype), None, (1, 1, 1)).any()
    if dtype == "f8":
        large = bv.fuse([exact * 1e200] * 2, [(0, 0, 0)] * 2, weights="content")
        np.testing.assert_allclose(large, exact * 1e200)


@dtypes_drawn(["u1", "u2", "i4", "f4", "f8"])
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_weights_by_content_are_the_same_in_any_slabs(dtypes, data):
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    tiles, places = data.draw(mosaics(dtype))
    rng, sigma = np.random.default_rng(data.draw(st.integers(0, 99), "seed")), (0.5, 1, 0.7)
    blending = data.draw(st.sampled_from(["linear", "mean"]), "blending")
    order, masks = data.draw(st.sampled_from([0, 1, 1]), "order"), None
    valid = [np.ones(t.shape, bool) for t in tiles]
    if data.draw(st.booleans(), "masks"):
        valid = masks = [rng.random(t.shape) < 0.8 for t in tiles]
    has_valid = masks is not None or dtype[0] == "f"
    content = [
        local_variance(t, v if has_valid else None, sigma)
        for t, v in zip(tiles, valid, strict=True)
    ]
    how = {"blending": blending, "order": order, "fill": 3}
    if blending == "linear":
        how["blend_width"] = data.draw(st.sampled_from([None, (2, 1.5, 4), (0.5, 1, 99)]), "width")
    fused = bv.fuse(tiles, places, mask=masks, weights="content", content_sigma=sigma, **how)
    n = len(tiles)
    expected = reference(
        tiles,
        places - np.array(fused.origin),
        fused.shape,
        np.ones(n),
        np.zeros(n),
        valid=masks,
        content=content,
        **how,
    )
    slab = tuple(data.draw(st.integers(1, m)) for m in fused.shape)
    np.testing.assert_array_equal(bv.compute(fused, runner=None, slab=slab), expected)


def test_a_sharp_tile_outweighs_a_blurred_one(tmp_path, monkeypatch):
    """From files in blocks of few voxels, rotated too; NaN and constant tiles change nothing else."""
    from beam_volumes.storage.sources import tiles as sources

    rng = np.random.default_rng(0)
    world = (100 + 40 * ndi.gaussian_filter(rng.normal(size=(12, 60, 90)), 1)).astype("f4")
    blurred = ndi.gaussian_filter(world, 3)
    tiles, places = [world[:, :, :60], blurred[:, :, 25:]], [(0, 0, 0), (0, 0, 25)]
    overlap = np.s_[:, 5:-5, 27:58]

    def error(volume):
        return abs(np.asarray(volume) - world)[overlap].mean()

    fused = bv.fuse(tiles, places, weights="content")
    assert error(fused) < 0.1 * error(bv.fuse(tiles, places))
    tiles[0] = tiles[0].copy()
    tiles[0][5, 30, 40] = np.nan
    with_nan = np.asarray(bv.fuse(tiles, places, weights="content"))
    assert np.argwhere(np.isnan(with_nan)).tolist() == [[5, 30, 40]]
    flat = [np.full((20, 20), k, "u1") for k in (5, 9)]
    np.testing.assert_array_equal(
        bv.fuse(flat, [(0, 0), (0, 10)], weights="content"), bv.fuse(flat, [(0, 0), (0, 10)])
    )
    opened = []
    for k, tile in enumerate(tiles):
        bv.compute(bv.open(tile).to(tmp_path / f"{k}.zarr", chunks=(5, 16, 17)))
        opened.append(bv.open(tmp_path / f"{k}.zarr"))
    turned = np.tile(np.eye(3, 4), (2, 1, 1))
    turned[1, 1:, 1:3] = [[0.96, -0.28], [0.28, 0.96]]
    turned[1, :, 3] = (0.5, 10, 25)
    how = {"weights": "content", "content_sigma": (1, 2, 2), "blend_width": 6}
    for transforms in (places, turned):
        whole = np.asarray(bv.fuse(tiles, transforms, **how))
        with monkeypatch.context() as patch:
            patch.setattr(sources, "CONTENT_BYTES", 1 << 13)
            blocks = bv.fuse(opened, transforms, **how)
            assert blocks.node.source.chunk != blocks.shape
            for slab in (None, (7, 20, 30)):
                np.testing.assert_array_equal(bv.compute(blocks, runner=None, slab=slab), whole)


def test_blocks_with_weights_by_content_need_the_declared_memory():
    import tracemalloc

    rng = np.random.default_rng(0)
    for dtype, more in (("u1", {}), ("f4", {}), ("u2", {"nodata": 3})):
        tile = rng.integers(0, 200, (150, 150, 150)).astype(dtype)
        fused = bv.fuse([tile, tile], [(0, 0, 0), (3, 5, 90)], weights="content", **more)
        np.asarray(fused[:9, :9, :9])  # compiles
        source = fused.node.source
        store = source.reader.open()
        part = tuple(slice(0, n) for n in source.chunk)
        tracemalloc.start()
        store[part].read().result()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0.3 * source.decode_bytes < peak < source.decode_bytes + 2 * source.chunk_bytes


def test_a_nan_stays_where_it_is():
    tiles = [np.ones((4, 4), "f4"), np.full((4, 4), 3, "f4")]
    tiles[0][1, 3] = np.nan
    for blending in ("linear", "mean", "max"):
        got = np.asarray(bv.fuse(tiles, [(0, 0), (0, 2)], blending=blending))
        assert np.argwhere(np.isnan(got)).tolist() == [[1, 3]]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("weights", [None, "content"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_voxel_makes_its_positions_infinite(value, weights, turned):
    """On both sides of the voxel, unless it is excluded; positions that do not use it keep their bits."""
    rng = np.random.default_rng(0)
    tiles = [rng.normal(size=(9, 12)).astype("f4") for _ in range(2)]
    at = np.array([[1, 0, 0.25], [0, 1, 0.5], [0, 0, 1]])
    if turned:
        at[:2, :2] = [[0.8, -0.6], [0.6, 0.8]]
    places = np.stack([at, at])
    places[1, 1, 2] += 7
    how = {"weights": weights, "blending": "linear", "content_sigma": 0.5 if weights else None}
    finite = np.asarray(bv.fuse(tiles, places, **how))
    bad = [tile.copy() for tile in tiles]
    bad[0][4, 9], marked = value, [np.zeros_like(tile) for tile in tiles]
    marked[0][4, 9] = 1
    used = np.asarray(bv.fuse(marked, places, blending="max")) > 0
    got = np.asarray(bv.fuse(bad, places, **how))
    assert used.sum() > 2 and (got[used] == value).all() and np.isfinite(got[~used]).all()
    if not weights:
        np.testing.assert_array_equal(got[~used], finite[~used])
    masks = [np.isfinite(bv.open(tile)) for tile in bad]
    assert np.isfinite(np.asarray(bv.fuse(bad, places, mask=masks, **how))).all()
    bad[0][4, 8] = -value
    got = np.asarray(bv.fuse(bad, places, **how))
    assert np.isnan(got).any() and (got == value).any() and (got == -value).any()


def test_the_plan_shows_how_often_chunks_are_read(tmp_path):
    """And takes no longer than 2 s for many tiles."""
    path = tmp_path / "tile.zarr"
    bv.compute(bv.open(np.zeros((64, 64, 64), "u1")).to(path, chunks=(32, 32, 32)))
    tile = bv.open(path)
    places = np.stack(np.meshgrid(*[np.arange(n) * 50 for n in (20, 20, 25)], indexing="ij"), -1)
    bv.plan(bv.fuse([tile] * 8, places.reshape(-1, 3)[:8]).to(tmp_path / "few.zarr"))  # imports
    begun = time.process_time()
    fused = bv.fuse([tile] * 10_000, places.reshape(-1, 3) + 0.3)
    planned = bv.plan(fused.to(tmp_path / "all.zarr"), memory="1GB")
    assert time.process_time() - begun < 2
    assert "10000 tiles; their chunks are read 1." in planned.explain(verbose=True)
    source = fused.node.source
    assert source.reader.times_read == pytest.approx(1.5, abs=0.4)


def _movie(times):
    return bv.open(np.zeros((times, 3, 4, 5), "u1"), axes="tzyx")


REFUSED = {
    "tiles": lambda v: bv.fuse([], []),
    "2 tiles": lambda v: bv.fuse([v, v], [(0, 0, 0)]),
    "z, y, x": lambda v: bv.fuse([v], [(0, 0)]),
    "no inverse": lambda v: bv.fuse([v], [np.zeros((3, 4))]),
    "tile 1 needs mean, a number of a whole volume; compute it first": lambda v: bv.fuse(
        [v, (v - bv.mean(v)).astype("u1")], [(0, 0, 0), (0, 0, 1)]
    ),
    "tile 0 cannot be computed in blocks, because of label; write the tile first": lambda v: (
        bv.fuse([bv.label(v > 0, dtype="u4")], [(0, 0, 0)])
    ),
    "cannot be computed in blocks, because of flip": lambda v: bv.fuse(
        [bv.flip(v + 1)], [(0, 0, 0)]
    ),
    "cannot be computed in blocks, because of cumsum": lambda v: bv.fuse(
        [bv.cumsum(v.astype("f4"))], [(0, 0, 0)]
    ),
    "cannot be computed in blocks, because of wrap": lambda v: bv.fuse(
        [bv.gaussian_filter(v - np.ones((3, 4), "u1"), 1, mode="wrap")], [(0, 0, 0)]
    ),
    "has dtype float32": lambda v: bv.fuse([v, np.zeros((2, 2, 2), "f4")], [(0, 0, 0), (0, 0, 1)]),
    "32 bits": lambda v: bv.fuse([np.zeros((2, 2, 2), "i8")], [(0, 0, 0)]),
    "bool": lambda v: bv.fuse([np.zeros((2, 2, 2), "?")], [(0, 0, 0)]),
    "voxel size": lambda v: bv.fuse([v], None),
    "no column 'z'": lambda v: bv.fuse([v], {"x": [1], "y": [1]}),
    r"shapes z: \(2,\), y: \(2,\), x: \(1,\)": lambda v: bv.fuse(
        [v, v], {"z": [0, 0], "y": [0, 1], "x": [1]}
    ),
    r"transforms\[1\] has numbers that are missing": lambda v: bv.fuse(
        [v, v], {"z": [0, 0], "y": [0, 1], "x": [1, None]}
    ),
    "the mask of tile 1 needs mean": lambda v: bv.fuse(
        [v, v], [(0, 0, 0)] * 2, mask=[None, v > bv.mean(v)]
    ),
    "mask has 1 entries for 2 tiles": lambda v: bv.fuse([v, v], [(0, 0, 0)] * 2, mask=[v]),
    "mask of tile 0 has dtype float32": lambda v: bv.fuse(
        [v], [(0, 0, 0)], mask=np.ones((2, 3, 4), "f4")
    ),
    "shape 2 x 3 x 5, but needs 2 x 3 x 4": lambda v: bv.fuse(
        [v], [(0, 0, 0)], mask=np.ones((2, 3, 5), "?")
    ),
    "nodata=-1 is not a value of uint8": lambda v: bv.fuse([v], [(0, 0, 0)], nodata=-1),
    "tile 1 has the axes z y x": lambda v: bv.fuse([_movie(2), v], [(0, 0, 0)] * 2),
    "tile 1 has 3 time points, and tile 0 2": lambda v: bv.fuse(
        [_movie(2), _movie(3)], [(0, 0, 0)] * 2
    ),
    "per_frame=True needs tiles with a time axis": lambda v: bv.fuse(
        [v], [[(0, 0, 0)]], per_frame=True
    ),
    "a list of 2 sets of transforms, one for each time point, and transforms has 1 entries": (
        lambda v: bv.fuse([_movie(2)], [[(0, 0, 0)]], per_frame=True)
    ),
    "transforms has the type dict": lambda v: bv.fuse([_movie(2)], {"z": [0]}, per_frame=True),
    r"transforms\[1\] has 2 entries for 1 tiles": lambda v: bv.fuse(
        [_movie(2)], [[(0, 0, 0)], [(0, 0, 0)] * 2], per_frame=True
    ),
    "per_frame='yes' is neither True nor False": lambda v: bv.fuse(
        [v], [(0, 0, 0)], per_frame="yes"
    ),
    "weights='variance' is not available": lambda v: bv.fuse([v], [(0, 0, 0)], weights="variance"),
    "content_sigma=2 has no effect without weights=": lambda v: bv.fuse(
        [v], [(0, 0, 0)], content_sigma=2
    ),
    "content_sigma=0 has a largest value of 0 voxels; use 0.2 to 64 voxels": lambda v: bv.fuse(
        [v], [(0, 0, 0)], weights="content", content_sigma=0
    ),
    "content_sigma='1 nm' has a largest value of 0.1 voxels": lambda v: bv.fuse(
        [v.with_space(voxel_size=10, unit="nm")],
        [(0, 0, 0)],
        weights="content",
        content_sigma="1 nm",
    ),
    "content_sigma='1e400 nm' is not a length": lambda v: bv.fuse(
        [v.with_space(voxel_size=10, unit="nm")],
        [(0, 0, 0)],
        weights="content",
        content_sigma="1e400 nm",
    ),
    r"transforms=array\(3\) is neither a list": lambda v: bv.fuse([v], np.array(3)),
    "transforms has the type ndarray": lambda v: bv.fuse([_movie(2)], np.array(3), per_frame=True),
    r"transforms\[1\]=None, but tiles have one origin": lambda v: bv.fuse(
        [_movie(2)], [[(0, 0, 0)], None], per_frame=True
    ),
    "does not go with blending='first'": lambda v: bv.fuse(
        [v], [(0, 0, 0)], weights="content", blending="first"
    ),
    "give a number of voxels": lambda v: bv.fuse(
        [bv.open(np.ones((3, 3, 3), "u1"), voxel_size=s, unit="nm") for s in (1, 2)],
        [(0, 0, 0)] * 2,
        physical=True,
        weights="content",
        content_sigma="2 nm",
    ),
    "blend_width=0 is not positive": lambda v: bv.fuse([v], [(0, 0, 0)], blend_width=0),
    "blend_width=nan is not a finite length": lambda v: bv.fuse(
        [v], [(0, 0, 0)], blend_width=np.nan
    ),
    "blend_width='3 um'": lambda v: bv.fuse([v], [(0, 0, 0)], blend_width="3 um"),
    "does not go with blending='max'": lambda v: bv.fuse(
        [v], [(0, 0, 0)], blend_width=3, blending="max"
    ),
}


@pytest.mark.parametrize("remedy", REFUSED)
def test_refusals(remedy):
    with pytest.raises((ValueError, TypeError), match=remedy):
        REFUSED[remedy](bv.open(np.zeros((2, 3, 4), "u1")))


def test_tiles_that_repeat():
    """The objects do not matter: a list with one tile twice, or with a copy."""
    a, b = np.random.default_rng(0).integers(0, 255, (2, 4, 5, 6), "u1")
    places = np.array([(0, 0, 0), (2, 3, 1), (3, 0, 4)])
    twice = np.asarray(bv.fuse([a, b, a], places))
    np.testing.assert_array_equal(bv.fuse([a, b, a.copy()], places.tolist()), twice)
