"""Geometry against numpy, scipy and tensorstore on the whole volume."""

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.ndimage as ndi
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.ops.geometry.stages import Along, Axes, Between
from beam_volumes.sweep.rings import ring_shapes
from beam_volumes.sweep.schedule import Overlap, schedule
from tests import catalogue as cat
from tests.catalogue import DTYPES, voxels
from tests.catalogue_geometry import FAMILIES, downsampled, half_precision
from tests.tiers import dtypes_drawn, examples


@dtypes_drawn(DTYPES)
@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_twin(family, dtypes, data):
    """For opened and computed volumes, in slabs of any size."""
    dtype = data.draw(st.sampled_from(dtypes), "dtype")
    ndim = data.draw(st.sampled_from([3, 3, 2]), "ndim")
    shape = data.draw(st.one_of(*[cat.shapes(ndim)] * 4, st.just((1,) * ndim)), "shape")
    op = data.draw(FAMILIES[family](shape, dtype), "op")
    nan = data.draw(st.sampled_from([0, 0, 0.01]), "nan")
    # scipy takes 64-bit integers through doubles.
    narrow = dtype == "i8" or data.draw(st.booleans(), "narrow")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=narrow, nan=nan)
    v = bv.open(x)
    if data.draw(st.booleans(), "computed"):
        v = bv.map_overlap(lambda a: a[...], v, depth=0, name="same")
    result = op.ours(v)
    slab = tuple(data.draw(st.integers(1, n)) for n in result.shape)
    window = data.draw(st.sampled_from([None, 1, 3]))
    op.check(bv.compute(result, runner=None, slab=slab, window=window), x)


def _axes():
    """Axes of all kinds: padded, flipped, repeated, thinned and interpolated, with few voxels."""
    for n, mode in itertools.product((1, 2, 3, 6), ("reflect", "mirror", "nearest", "constant")):
        yield from (Along(n, before, mode) for before in (0, 1, 5))
        for shift, scale, order in itertools.product((0.3, -4.0), (0.0, 0.4, 1.0, 2.5), (0, 1, 3)):
            yield Between(n, mode=mode, shift=shift, scale=scale, order=order)
    yield from (Along(6, flipped=True), Along(6, repeat=3), Along(6, step=2))


def test_needed_voxels_of_an_axis_contain_all_that_are_used():
    """For each range of positions, also far outside of the volume."""
    for along in _axes():
        for start, length in itertools.product(range(9), (1, 2, 3, 8)):
            if (along.flipped or along.step > 1) and start + length > along.n // along.step:
                continue
            low, high = along.needs(start, start + length, 24)
            index, _ = along.taps(start, start + length)
            used = index[index >= 0]
            assert 0 <= low < high <= along.n, along
            assert not used.size or (low <= used.min() and used.max() < high), (
                along,
                start,
                length,
            )


def test_downsampling_decides_ties_as_it_says():
    """Means half to even, the lower of two medians, the smallest of the most frequent."""
    pairs = np.array([[[0, 1, 1, 2, 2, 3, 254, 255, 9, 4]]], "u1")
    for method, expected in {
        "mean": [0, 2, 2, 254, 6],
        "median": [0, 1, 2, 254, 4],
        "mode": [0, 1, 2, 254, 4],
    }.items():
        for dtype in ("u1", "f4") if method != "mean" else ("u1",):
            ours = bv.downsample(bv.open(pairs.astype(dtype)), (1, 1, 2), method)
            assert np.asarray(ours).ravel().tolist() == expected, (method, dtype)
    signed = bv.open(np.array([[[-1, 0, -2, -1, -3, -2, -128, -127]]], "i1"))
    assert np.asarray(bv.downsample(signed, (1, 1, 2))).ravel().tolist() == [0, -2, -2, -128]


@pytest.mark.parametrize(
    "factors", [(2, 2, 2), (1, 2, 2), (2, 1, 2), (1, 1, 2), (2, 2, 1), (2, 1, 1)]
)
def test_means_of_floats_are_sums_in_the_order_of_voxels(factors):
    """To the bit, where another order rounds otherwise; a sum begins with 0, not with -0."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((5, 7, 37)) * 10.0 ** rng.integers(-20, 20, (5, 7, 37))
    x[:2, :2] = -0.0
    x[4, 4, 4], x[0, 6, ::5] = np.nan, np.inf
    for dtype in "f4", "f8":
        a = x.astype(dtype)
        found = bv.compute(bv.downsample(bv.open(a), factors), runner=None, slab=(2, 3, 40))
        expected = downsampled(a, factors, "mean")
        expected[np.isnan(expected)] = np.nan
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["i2", "i4", "u4", "i8", "u8"])
def test_means_of_integers_at_the_ends_of_their_range_do_not_overflow(kind):
    """Windows of two voxels have kernels of their own; others do not."""
    ends = np.iinfo(kind)
    some = [ends.min, ends.min + 1, ends.max - 1, ends.max, ends.max // 2, ends.max // 2 + 1]
    a = np.random.default_rng(0).choice(np.array(some, kind), (4, 5, 9))
    a[:2, :2, :4] = ends.max
    for factors in ((2, 2, 2), (2, 3, 2)):
        found = np.asarray(bv.downsample(bv.open(a), factors))
        for at in np.ndindex(found.shape):
            window = tuple(slice(i * f, (i + 1) * f) for i, f in zip(at, factors, strict=True))
            voxels = [int(v) for v in a[window].ravel()]
            assert found[at] == round(Fraction(sum(voxels), len(voxels))), (at, voxels)


def test_the_space_follows_the_voxels():
    v = bv.open(np.zeros((8, 9, 10), "u1"), voxel_size=(4, 2, 1), unit="nm")[1:]
    assert v.origin == (4, 0, 0)
    cases = {
        bv.pad(v, [(1, 0), (2, 3), (0, 4)]): ((4, 2, 1), (0, -4, 0)),
        bv.flip(v): ((4, 2, 1), (4, 0, 0)),
        bv.transpose(v, (2, 0, 1)): ((1, 4, 2), (0, 4, 0)),
        bv.downsample(v, (2, 3, 1)): ((8, 6, 1), (6, 2, 0)),
        bv.downsample(v, (2, 3, 1), "stride"): ((8, 6, 1), (4, 0, 0)),
        bv.upsample(v, (2, 4, 1)): ((2, 0.5, 1), (3, -0.75, 0)),
        bv.upsample(bv.downsample(v, (2, 4, 1)), (2, 4, 1)): ((4, 2, 1), (4, 0, 0)),
        bv.shift(v, 3): ((4, 2, 1), (4, 0, 0)),
        bv.zoom(v, (13 / 7, 1, 1)): ((2, 2, 1), (4, 0, 0)),
        bv.zoom(v, (2, 1, 1), grid_mode=True): ((2, 2, 1), (3, 0, 0)),
        bv.rotate(v, 20): ((4, 2, 1), (4, 0, 0)),
    }
    for got, (size, origin) in cases.items():
        assert (got.voxel_size, got.origin, got.unit) == (size, origin, "nanometer"), got
    plane = bv.transpose(v[:, 3])
    assert (plane.axes, plane.shape, plane.voxel_size) == (("z", "x"), (10, 7), (1, 4))
    same = np.asarray(bv.shift(v + 1, ("8 nm", "-4 nm", 0)))
    np.testing.assert_array_equal(same, np.asarray(bv.shift(v + 1, (2, -2, 0), order=0)))


@pytest.mark.parametrize("axis", range(3))
def test_coordinates(axis):
    v = bv.open(np.zeros((5, 6, 7), "u1"), voxel_size=(4, 2, 1), unit="nm")[2:, 1:]
    indices = np.indices(v.shape)[axis]
    where = bv.coordinates(v, axis)
    got = bv.compute(where, bv.max(where), runner=None, slab=(2, 3, 2))
    cat.assert_same(got[0], indices)
    assert got[1] == indices.max()
    physical = indices * v.voxel_size[axis] + v.origin[axis]
    distance = np.abs(bv.coordinates(v, axis, physical=True) - 5)
    cat.assert_same(bv.compute(distance, runner=None, slab=(2, 3, 2)), np.abs(physical - 5))


def test_slices_in_between_are_not_read(tmp_path):
    a = voxels((17, 24, 20), "u2")
    bv.compute(bv.open(a).to(tmp_path / "in.zarr", chunks=(1, 24, 10)))
    v = bv.open(tmp_path / "in.zarr", voxel_size=(3, 2, 1))[1:]
    every = bv.downsample(v, (5, 2, 1), "stride")
    assert (every.voxel_size, every.origin) == ((15, 4, 1), (3, 0, 0))
    plan = bv.plan(every.to(tmp_path / "out.zarr"))
    assert plan.passes[0].chunks_read == 4 * 2
    cat.assert_same(np.asarray(every), a[1::5, ::2])


def test_labels_and_numbers_on_other_grids():
    """Before and after what reaches through the whole volume."""
    a = ndi.uniform_filter(np.random.default_rng(0).random((20, 24, 18)), 3) > 0.5
    coarse = downsampled(a, (2, 1, 3), "max")[::-1]
    labels = ndi.label(coarse)[0]
    expected = downsampled(labels, (1, 2, 2), "mode").transpose(2, 0, 1)
    cells = bv.label(bv.flip(bv.downsample(bv.open(a) + False, (2, 1, 3), "max"), 0))
    result = bv.transpose(bv.downsample(cells, (1, 2, 2), "mode"), (2, 0, 1))
    padded = bv.pad(result, 1, constant_values=7)
    for slab in (None, (3, 4, 5)):
        got = bv.compute(result, bv.sum(padded), cells.num_labels, runner=None, slab=slab)
        np.testing.assert_array_equal(got[0], expected)
        assert got[1:] == (np.pad(expected, 1, constant_values=7).sum(), labels.max())


def test_what_is_read_is_read_once(tmp_path):
    """Views of a source need no sweep; for computed volumes, flips along y and x need none."""
    bv.compute(bv.open(voxels((16, 24, 20), "u2")).to(tmp_path / "in.zarr", chunks=(4, 8, 5)))
    v = bv.open(tmp_path / "in.zarr")[1:]
    assert bv.transpose(v).chunks == (5, 8, 4)
    turned = bv.flip(bv.transpose(v, (2, 0, 1)), 0)
    plan = bv.plan(turned.to(tmp_path / "out.zarr", chunks=(5, 4, 8)))
    assert len(plan.passes) == 1
    assert plan.passes[0].chunks_read == 4 * 3 * 4
    every = bv.downsample(bv.transpose(v)[:, :, 2:3], (1, 3, 1), "stride")
    cat.assert_same(np.asarray(every), np.asarray(v).transpose()[:, ::3, 2:3])
    smooth = bv.median_filter(v, 3)
    for op, passes in {
        lambda v: bv.flip(v, (1, 2)): 1,
        lambda v: bv.downsample(bv.pad(v, 3), 2): 1,
        lambda v: bv.flip(v, 0): 2,
        lambda v: bv.transpose(v): 2,
        lambda v: bv.flip(bv.transpose(bv.transpose(v)), ()): 1,
        lambda v: bv.downsample(bv.label(v > 9), 2): 2,
    }.items():
        assert len(bv.plan(op(smooth)).passes) == passes


def test_memory_is_what_the_plan_says(tmp_path):
    """The rings of every slab, wherever padding lies and however grids differ."""
    chunk = (4, 5, 6)
    bv.compute(bv.open(np.ones((300, 5, 6), "u1")).to(tmp_path / "in.zarr", chunks=chunk))
    v = bv.open(tmp_path / "in.zarr")
    tilt = [[0.9, -3, 0.2], [0, 1, 0], [0, 0, 1]]
    for result in (
        bv.pad(v, [(700, 100), (0, 0), (0, 0)], "edge"),
        bv.pad(v, [(90, 3), (0, 0), (0, 0)], "symmetric"),
        bv.shift(v, (55, 0, 0), mode="mirror"),
        bv.affine_transform(v, tilt, (-40.5, 0, 0), mode="reflect"),
        bv.maximum_filter(bv.upsample(bv.maximum_filter(v, 3), (3, 1, 1), order=1), 3),
        bv.downsample(bv.pad(v, 20, "reflect"), (5, 2, 2)),
        bv.zoom(v, (0.3, 2, 1)),
        bv.zoom(v, (0.3, 2, 1), order=3),
        bv.affine_transform(v, tilt, (-40.5, 0, 0), order=5, mode="nearest"),
        bv.maximum_filter(bv.gaussian_filter(v, 2)[11:290], (9, 1, 1)),
        bv.where(bv.coordinates(v, 0) % 7 > 3, bv.maximum_filter(v, 3), v),
    ):
        for depth, window in ((20, 5), (result.shape[0], 2), (200, 3)):
            slab = (min(depth, result.shape[0]), *result.shape[1:])
            (p,) = bv.plan(result, slab=slab, window=window).passes
            said = sum(part.bytes for part in p.partition.parts if "slices of" in part.name)
            for box in p.grid:
                course = schedule(p.program, box.ranges, window, Overlap())
                y, x = (p.program.extents(a, p.program.regions(a, box.ranges)) for a in (1, 2))
                rings = ring_shapes(p.program, course, (y, x))
                assert sum(np.prod(n) * d.itemsize for n, d in rings) <= said, (result, box)


@pytest.mark.parametrize("mode", ["constant", "reflect", "nearest"])
def test_what_a_turn_needs_follows_the_tile(mode, tmp_path):
    """Chunks that no voxel of a slab comes from are not read, and the bits are scipy's."""
    a = voxels((5, 90, 110), "u1")
    v = bv.compute(bv.open(a).to(tmp_path / "in.zarr", chunks=(5, 10, 10)), runner=None)
    tilt = [[1, 0.1, 0], [0.05, 0.8, 0.6], [0, -0.6, 0.8]]
    for turned, expected in (
        (
            bv.rotate(v, 30, mode=mode),
            half_precision(ndi.rotate, a, angle=30, axes=(2, 1), order=1, mode=mode),
        ),
        (
            bv.affine_transform(v, tilt, (-2, 7, 9), mode=mode),
            half_precision(
                ndi.affine_transform, a, matrix=tilt, offset=(-2, 7, 9), order=1, mode=mode
            ),
        ),
    ):
        slab = (5, 16, 16)
        cat.assert_same(bv.compute(turned, runner=None, slab=slab), expected)
        (p,) = bv.plan(turned, slab=slab).passes
        rings = [part.name for part in p.partition.parts if "slices of" in part.name]
        sides = [n for name in rings for n in re.findall(r"of (\d+) x (\d+)", name)]
        assert len(rings) >= 2 and all(int(n) < 30 for pair in sides for n in pair), rings
        assert p.chunks_read < 12 * len(p.grid)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_rows_of_many_columns_are_turned(dtype):
    """In each plane and in all, also where a weight of 0 meets NaN and infinities."""
    x = voxels((6, 40, 700), dtype, nan=0.001, inf=0.001)
    tilt = np.array([[1, 0.02, 0.003], [0.05, 0.9, 0.01], [-0.2, 0.03, 0.95]])
    for axes, order in itertools.product(((1, 2), (0, 2), (0, 1)), (0, 1)):
        how = {"reshape": False, "order": order, "mode": "constant", "cval": 7}
        expected = ndi.rotate(x, 0.4, axes, **how)
        cat.assert_same(bv.rotate(x, 0.4, axes, **how).compute(runner=None), expected)
    how = {"order": 1, "mode": "reflect"}
    expected = ndi.affine_transform(x, tilt, (0, -2, 9), **how)
    cat.assert_same(bv.affine_transform(x, tilt, (0, -2, 9), **how).compute(runner=None), expected)


def test_each_channel_is_turned():
    colours = [voxels((20, 30), "u1"), 255 - voxels((20, 30), "u1")]
    turned = bv.rotate(bv.stack(colours), 30).compute(runner=None)
    for found, colour in zip(turned, colours, strict=True):
        cat.assert_same(found, bv.rotate(colour, 30).compute(runner=None))


V = bv.open(np.zeros((300, 40, 9), "u1"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bv.pad(V, 1, "mean"), "pad: mode='mean' is not available; use one of constant"),
        (lambda: bv.pad(V, (1, 2, 3)), "pair for each of the 3 axes"),
        (lambda: bv.pad(V, -1), "whole numbers of at least 0"),
        (lambda: bv.pad(V, 1, constant_values=-1), "constant_values=-1 is not a uint8 number"),
        (lambda: bv.pad(V[4:4], 1), "has no voxels"),
        (lambda: bv.flip(V, 3), "axis=3"),
        (lambda: bv.transpose(V, (0, 1)), "lists 2 of 3 axes"),
        (lambda: bv.transpose(V, (0, 1, 1)), "lists an axis twice"),
        (lambda: bv.coordinates(V, 0, physical=True), "needs a voxel size"),
        (lambda: bv.downsample(V, 0), "not a whole number of at least 1"),
        (lambda: bv.downsample(V, 2, "average"), "use one of mean, min"),
        (lambda: bv.upsample(V, 2, order=3), "use order=0 .* or order=1"),
        (lambda: bv.upsample(V[:, :, :2], 2, like=V), "like has .* make only"),
        (lambda: bv.upsample(V > 3, 2, order=1), "use order=0, or astype"),
        (lambda: bv.shift(V, 1, mode="wrap"), "mode='wrap' is not available"),
        (lambda: bv.shift(V, 1, cval=-1), "cval=-1 is not a uint8 number"),
        (lambda: bv.shift(V, "3 nm"), "needs a voxel size"),
        (lambda: bv.shift(V, np.inf), "is not finite"),
        (lambda: bv.zoom(V, -1), "positive numbers"),
        (lambda: bv.zoom(V, 0.01), "leaves no voxels"),
        (lambda: bv.affine_transform(V, np.eye(2)), "for 3 axes it must be 3 x 3"),
        (lambda: bv.affine_transform(V, [-1, 1, 1]), "reverses the order of slices"),
        (lambda: bv.rotate(V[:, 3], 5), "y and x are needed"),
        (lambda: bv.rotate(V, 5, (1, 1)), "lists an axis twice"),
        (lambda: bv.rotate(V, 5, 1), "are not two axes"),
        (lambda: bv.zoom(V, 2, order=6), "order=6 is not available; .* up to order=5"),
        (lambda: bv.spline_filter(V, 6), "order=6 is not a whole number from 0 to 5"),
    ],
)
def test_mistakes(call, said):
    with pytest.raises((ValueError, TypeError), match=said) as error:
        call()
    assert "\n" not in str(error.value)


def test_a_steep_turn_takes_the_memory_that_it_needs(tmp_path):
    """A slice of the result reaches through more than 256 slices."""
    x = np.random.default_rng(3).integers(0, 256, (300, 90, 8), "u1")
    turn = np.array([[0.3, 4, 0], [-0.9, 0.3, 0], [0, 0, 1]])
    offset = (-90, 60, 0)
    bv.compute(bv.open(x).to(tmp_path / "x.zarr", chunks=(16, 16, 8)), runner=None)
    turned = bv.affine_transform(bv.open(tmp_path / "x.zarr"), turn, offset)
    expected = np.floor(ndi.affine_transform(x.astype("f8"), turn, offset, order=1) + 0.5)
    assert expected.any()
    for slab in None, (75, 20, 8):
        np.testing.assert_array_equal(bv.compute(turned, runner=None, slab=slab), expected)

    zarr.create_array(tmp_path / "large.zarr", shape=(512, 512, 512), chunks=(64,) * 3, dtype="u1")
    large = bv.open(tmp_path / "large.zarr")
    result = bv.affine_transform(large, turn).to(tmp_path / "out.zarr", chunks=(64,) * 3)
    with pytest.raises(ValueError, match="smallest memory that works is") as refused:
        bv.plan(result, memory="300MiB", slab=(64, 64, 512))
    least = int(re.findall(r"works is (\d+) bytes", str(refused.value))[0])
    assert bv.plan(result, memory=least, slab=(64, 64, 512)).predicted_memory <= least


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda v: bv.pad(v, 10**12), "pad_width=1000000000000"),
        (lambda v: bv.upsample(v, 10**9), "factors=1000000000"),
        (lambda v: bv.zoom(v, 1e9), "zoom=1000000000.0"),
        (lambda v: bv.affine_transform(v, [1, 1, 1], output_shape=[10**9] * 3), "output_shape="),
    ],
)
def test_what_cannot_be_counted_is_refused(call, said):
    with pytest.raises(ValueError, match=f"{said}.* too large to index its voxels"):
        call(bv.open(np.zeros((4, 6, 7), "u1")))


def test_rows_of_splines_fit_their_scratch():
    """A kernel sums the columns between the first and the last that it needs."""
    rng = np.random.default_rng(0)
    for mode in ("reflect", "mirror", "nearest", "constant", "grid-constant") * 50:
        n, start, cols = (int(rng.integers(low, high)) for low, high in ((1, 90), (0, 90), (1, 60)))
        shift, scale = float(rng.normal(0, 50)), float(rng.choice([0.0, 1.0, rng.uniform(0.01, 5)]))
        x = Between(n, 0, mode, shift=shift, scale=scale, order=5)
        stage = Axes("zoom", np.dtype("f4"), (n,) * 3, (n,) * 3, (Along(n), Along(n), x))
        ((shape, _),) = stage.scratch(1, cols, 1)
        index, _ = x.taps(start, start + cols)
        inside = index[index >= 0]
        assert not inside.size or np.ptp(inside) < shape[0]


def test_far_coordinates_need_the_whole_axis():
    """They are rounded by several voxels, so windows that follow from them would be too small."""
    v = bv.open(np.zeros((129, 26, 3), np.float32))
    matrix = [[2, 0, 0], [0, -0.55, -0.83], [0, 0.83, -0.55]]
    stage = bv.affine_transform(v, matrix, (1e17, -0.5, 0), mode="reflect").node.stage
    wanted = (37, 38), (0, 26), (0, 3)
    assert stage.needs(0, wanted) == (0, 129)
    assert stage.needs(1, wanted) != (0, 129)
