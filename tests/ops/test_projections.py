"""Reductions along axes: of every line the bits of the whole-volume reduction, however it is cut."""

import math
import tracemalloc

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.kernels.measure import projection
from beam_volumes.ops.measure import folds, over_channels, percentiles_along
from beam_volumes.ops.measure import folds_along as projections
from beam_volumes.sweep.reduction import Slices
from tests.catalogue import DTYPES, shapes, voxels
from tests.tiers import few
from tests.transforms.trees import membranes, stored

FOLDS = {
    "min": folds.Min,
    "max": folds.Max,
    "sum": folds.Sum,
    "mean": folds.Mean,
    "variance": folds.Var,
    "std": folds.Std,
}


def line_by_line(name, x, axis, mask=None, nan="raise"):
    """The whole-volume reduction of each line; NaN of lines without voxels."""
    axes = tuple(a % x.ndim for a in np.atleast_1d(axis).tolist())
    kept = [a for a in range(x.ndim) if a not in axes]
    shape = [x.shape[a] for a in kept]
    lines = x.transpose(*kept, *axes).reshape(math.prod(shape), -1)
    keep = np.ones(x.shape, bool) if mask is None else mask != 0
    keep = keep.transpose(*kept, *axes).reshape(lines.shape)
    reduction = FOLDS[name].of(x.dtype, nan)
    found = []
    for line, where in zip(lines, keep, strict=True):
        try:
            found.append(reduction.finish(reduction.fold(line[None], where[None], ()), ()))
        except ValueError as error:
            assert "no voxels" in str(error)
            found.append(np.nan)
    return np.array(found, reduction.dtype).reshape(shape)


def same_bits(ours, theirs):
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_array_equal(ours, theirs)
    assert np.where(ours == ours, ours, 0).tobytes() == np.where(ours == ours, theirs, 0).tobytes()


@pytest.mark.parametrize("dtype", [*DTYPES, "u8"])
@settings(max_examples=8)
@given(data=st.data())
def test_lines_are_reduced_as_volumes_are(dtype, data):
    draw = data.draw
    ndim = draw(st.sampled_from([2, 3, 3]))
    shape = draw(shapes(ndim))
    axis = draw(st.sets(st.integers(0, ndim - 1), min_size=1, max_size=ndim - 1))
    said = [draw(st.sampled_from([a, a - ndim, "zyx"[a + 3 - ndim]])) for a in axis]
    said = said[0] if len(said) == 1 and draw(st.booleans()) else tuple(said)
    rare = draw(st.sampled_from([0, 0.1]))
    x = voxels(shape, dtype, draw(st.integers(0, 99)), nan=rare, inf=rare)
    if x.dtype.kind == "f" and draw(st.booleans()):
        with np.errstate(over="ignore"):
            x *= 10.0 ** np.random.default_rng(0).integers(-300, 300, shape)
    if x.dtype.kind in "iu" and x.itemsize == 8:
        x >>= 8  # sums fit 64 bits
    mask = voxels(shape, "u1", 1, narrow=True) if draw(st.booleans()) else None
    how = {"nan": "omit"} | ({} if mask is None else {"mask": bv.open(mask)})
    names = ["sum", "mean", "variance", "std"]
    wanted = {n: line_by_line(n, x, list(axis), mask, "omit") for n in FOLDS if n in names}
    if x.dtype.kind == "f" or mask is None:
        wanted |= {n: line_by_line(n, x, list(axis), mask, "omit") for n in ("min", "max")}
    lazy = [getattr(bv, n)(bv.open(x), said, **how) for n in wanted]
    slab = tuple(draw(st.integers(1, n)) for n in shape)
    window = draw(st.sampled_from([None, 1, 2, 40]))
    most = draw(st.sampled_from([projection.MAXIMUM, 4]))  # carries, and blocks in halves
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "MAXIMUM", most)
        patch.setattr(projections, "_CELLS", draw(st.sampled_from([1 << 16, 7])))
        got = bv.compute(*lazy, runner=None, slab=slab, window=window)
    for (_, theirs), promised, ours in zip(wanted.items(), lazy, got, strict=True):
        assert promised.shape == ours.shape and promised.dtype == ours.dtype
        same_bits(ours, theirs)


@pytest.mark.parametrize("dtype", ["?", *DTYPES, "u8"])
@settings(max_examples=6)
@given(data=st.data())
def test_places_of_extremes_are_numpys(dtype, data):
    draw = data.draw
    ndim = draw(st.sampled_from([2, 3, 3]))
    shape = draw(shapes(ndim))
    x = voxels(shape, dtype, draw(st.integers(0, 99)), narrow=draw(st.booleans()))
    if x.dtype.kind == "f" and draw(st.booleans()):
        x[...] = np.random.default_rng(0).choice([0.0, -0.0, -1, 1], shape)  # equal zeros
    axis = draw(st.sampled_from([None, *range(-ndim, ndim)]))
    name = axis if axis is None or draw(st.booleans()) else "zyx"[axis % ndim + 3 - ndim]
    lazy = [bv.argmax(bv.open(x), name), bv.argmin(bv.open(x), name), bv.max(bv.open(x), name)]
    slab = tuple(draw(st.integers(1, n)) for n in shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projections, "_PIECE", draw(st.sampled_from([1 << 20, 500])))
        window = draw(st.sampled_from([None, 1, 2, 40]))
        got = bv.compute(*lazy, runner=None, slab=slab, window=window)
    for promised, ours, theirs in zip(lazy, got, (x.argmax(axis), x.argmin(axis)), strict=False):
        assert promised.dtype == np.int64 and promised.shape == np.shape(theirs)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_places_along_rows_with_one_voxel_that_is_not_finite(dtype, value):
    x = np.random.default_rng(1).standard_normal((3, 4, 37)).astype(dtype)
    x[1, 2, 5] = value
    for ours, theirs, other in ((bv.argmin, np.argmin, np.inf), (bv.argmax, np.argmax, -np.inf)):
        with pytest.raises(ValueError, match="1 voxels are NaN or infinite"):
            ours(x, 2).compute()
        expected = theirs(np.where(np.isfinite(x), x, other), 2)
        np.testing.assert_array_equal(ours(x, 2, nan="omit").compute(), expected)


def test_places_where_voxels_do_not_count():
    x = np.array([[np.nan, 1, 3], [2, np.inf, 2]])
    assert bv.argmax(x, "x", nan="omit").compute().tolist() == [2, 0]
    assert bv.argmin(x, 1, mask=x != 1, nan="omit").compute().tolist() == [2, 0]
    channels = bv.open(np.stack([x[:, 2:], -x[:, 2:]]), axes="cyx")
    assert channels.argmax("y").compute().tolist() == [[0], [1]]
    for how, message in (({}, "2 voxels are NaN"), ({"mask": x == 9, "nan": "omit"}, "no voxels")):
        with pytest.raises(ValueError, match=message):
            bv.argmax(x, 0, **how).compute()
    for axis, error, message in (
        ("c", ValueError, "along the axis c are not available"),
        ("z", ValueError, "the volume's axes are c, y, x"),
        ((0, 1), TypeError, "give one axis"),
    ):
        with pytest.raises(error, match=message):
            bv.argmax(channels, axis)


@pytest.mark.parametrize("dtype", [*DTYPES, "u8"])
@settings(max_examples=5)
@given(data=st.data())
def test_percentiles_of_lines_are_those_of_volumes(dtype, data):
    draw = data.draw
    ndim = draw(st.sampled_from([2, 3, 3]))
    shape = draw(shapes(ndim, voxels=600))
    axis = tuple(draw(st.sets(st.integers(0, ndim - 1), min_size=1, max_size=ndim - 1)))
    rare = draw(st.sampled_from([0, 0.1]))
    seed, narrow = draw(st.integers(0, 99)), draw(st.booleans())
    x = voxels(shape, dtype, seed, narrow=narrow, nan=rare, inf=rare)
    mask = voxels(shape, "u1", 1, narrow=True) if draw(st.booleans()) else np.ones(shape, "u1")
    q = draw(st.sampled_from([50, 0, 33.4, (1, 99), (75, 0, 100, 25)]))
    gathered = draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(percentiles_along, "gathers", lambda *_: gathered)
        lazy = bv.percentile(bv.open(x), q, axis, mask=bv.open(mask), nan="omit")
    slab = tuple(draw(st.integers(1, n)) for n in shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projections, "_PIECE", draw(st.sampled_from([1 << 20, 5000])))
        ours = bv.compute(lazy, runner=None, slab=slab, window=draw(st.sampled_from([None, 1, 3])))
    kept = [a for a in range(ndim) if a not in axis]
    expected = np.full((*np.shape(q), *(shape[a] for a in kept)), np.nan, lazy.dtype)
    keep = np.isfinite(x) & (mask != 0)
    for at in np.ndindex(*(shape[a] for a in kept)):
        key = tuple(at[kept.index(a)] if a in kept else slice(None) for a in range(ndim))
        if keep[key].any():
            line = bv.open(x[key][keep[key]][None])
            expected[(..., *at)] = bv.compute(bv.percentile(line, q), runner=None)
    assert ours.shape == lazy.shape
    same_bits(ours, expected)


@pytest.mark.parametrize("dtype", few([*DTYPES, "u8"], ["u1", "f4"]))
@settings(max_examples=6)
@given(data=st.data())
def test_channels_of_each_voxel_are_reduced_as_lines_are(dtype, data):
    draw = data.draw
    shape = (draw(st.integers(2, 4)), *draw(shapes(3, voxels=100)))
    rare = draw(st.sampled_from([0, 0.1]))
    x = voxels(
        shape, dtype, draw(st.integers(0, 99)), narrow=draw(st.booleans()), nan=rare, inf=rare
    )
    if x.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            x *= draw(st.sampled_from([1, x.dtype.type(1 / 3), 1e-30, 1e30]))
    if x.dtype.kind in "iu" and x.itemsize == 8:
        x >>= 8  # sums fit 64 bits
    masked = draw(st.sampled_from([None, 1, len(x)]))
    mask, how = np.ones(shape, "u1"), {"nan": "omit"}
    if masked is not None:
        some = voxels((masked, *shape[1:]), "u1", 1, narrow=True)
        how["mask"] = bv.open(some if masked > 1 else some[0])
        mask = np.broadcast_to(some, shape)
    v = bv.open(x)
    names = ["sum", "mean", "variance", "std"]
    names += ["min", "max"] if x.dtype.kind == "f" or masked is None else []
    lazy = [getattr(bv, n)(v, draw(st.sampled_from(["c", 0, (-4,)])), **how) for n in names]
    lazy.append(bv.percentile(v, 40, "c", **how) if x.dtype.kind == "f" or masked is None else v[0])
    assert {w.axes for w in lazy} == {("z", "y", "x")}
    slab = tuple(draw(st.integers(1, n)) for n in shape[1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_channels, "_CELLS", draw(st.sampled_from([1 << 12, 7])))
        got = bv.compute(*lazy, runner=None, slab=slab, window=draw(st.sampled_from([None, 1, 3])))
    for name, ours in zip(names, got, strict=False):
        same_bits(np.asarray(ours), line_by_line(name, x, 0, mask, "omit"))
    if len(names) == 6:
        keep = np.isfinite(x) & (mask != 0)
        for at in np.ndindex(*shape[1:]):
            line = x[(slice(None), *at)][keep[(slice(None), *at)]]
            one = (
                np.percentile(
                    line.astype("i8") if x.itemsize < 8 and x.dtype.kind != "f" else line, 40
                )
                if len(line)
                else np.nan
            )
            np.testing.assert_array_equal(np.asarray(got[-1])[at], one)


def test_channels_of_each_voxel_as_numpy_has_them():
    x = voxels((3, 4, 20, 30), "u2", 4)
    v = bv.open(x, voxel_size=(4, 2, 2), unit="nm")
    for name in ("mean", "sum", "min", "max", "std", "var", "any", "all"):
        ours, theirs = getattr(v, name)(axis="c"), getattr(x, name)(axis=0)
        assert ours.dtype == theirs.dtype and ours.voxel_size == (4, 2, 2)
        close = (
            np.testing.assert_allclose if name in ("std", "var") else np.testing.assert_array_equal
        )
        close(np.asarray(ours), theirs)
    np.testing.assert_array_equal(np.asarray(np.median(v, axis=0)), np.median(x, axis=0))
    np.testing.assert_array_equal(np.asarray(bv.count_nonzero(v, "c")), (x != 0).sum(0))
    grey = bv.gaussian_filter(bv.mean(v, axis="c"), 1)  # a volume as any other, in the same sweep
    assert len(bv.plan(grey).passes) == 1
    whole = np.asarray(bv.gaussian_filter(bv.open(x.mean(0)), 1))
    np.testing.assert_array_equal(
        np.asarray(bv.compute(grey, runner=None, slab=(1, 20, 30))), whole
    )
    np.testing.assert_array_equal(v.max("c", keepdims=True), x.max(0, keepdims=True))
    with pytest.raises(ValueError, match="the volume's axes are c, z, y, x"):
        v.max(("c", "t"), keepdims=True)
    both = bv.percentile(v, (5, 95), "c")
    assert both.channels == ("5", "95")
    np.testing.assert_array_equal(np.asarray(both), np.percentile(x, (5, 95), axis=0))
    with pytest.raises(ValueError, match=r'mean: 1 voxels are NaN.*nan="omit"'):
        bv.compute(bv.mean(bv.stack([np.float32([[1]]), np.float32([[np.nan]])]), "c"), runner=None)


@pytest.mark.parametrize("axis", few([0, "y", (1, 2), (-1, "z")], [(1, 2)]))
def test_as_numpy_has_it_in_strips(axis):
    """Large enough for strips of rows on two threads, and a crop of a computed volume."""
    x = voxels((9, 130, 140), "i2", 2)
    v = np.maximum(bv.open(x), 0)[2:, 1:129, 3:]
    y = np.maximum(x, 0)[2:, 1:129, 3:]
    numbers = {"y": 1, (-1, "z"): (-1, 0)}.get(axis, axis)
    lazy = [getattr(bv, n)(v, axis) for n in ("min", "max", "sum", "mean")]
    lazy += [bv.percentile(v, (20, 50), axis)]
    lazy += [bv.count_nonzero(v, axis), bv.any(v, axis), bv.all(v, axis)]
    expected = [y.min(numbers), y.max(numbers), y.sum(numbers), y.mean(numbers)]
    expected += [np.percentile(y, (20, 50), numbers)]
    expected += [np.count_nonzero(y, numbers), (y != 0).any(numbers), (y != 0).all(numbers)]
    for how in ({"threads": 1}, {"threads": 2}, {"threads": 2, "slab": (3, 50, 140)}):
        for ours, theirs in zip(bv.compute(*lazy, runner=None, **how), expected, strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)


def test_sums_of_floats_are_those_of_fsum():
    x = np.random.default_rng(0).normal(size=(11, 6, 7)) * 10.0 ** np.arange(-150, 160, 47)
    ours = np.asarray(bv.sum(bv.open(x), axis=("z", "y")))
    np.testing.assert_array_equal(ours, [math.fsum(x[..., i].ravel()) for i in range(7)])
    np.testing.assert_array_equal(np.asarray(bv.sum(bv.open(x - x), "z")), np.zeros((6, 7)))


@pytest.mark.parametrize("name", ["mean", "std"])
def test_sums_of_a_large_range_have_room_or_are_refused(name):
    rng = np.random.default_rng(0)
    x = 10.0 ** rng.uniform(-150, 150, (4, 512, 256))
    low, high = (10.0 ** rng.uniform(a, a + 40, (2, 512, 256)) for a in (-150, 110))
    each = np.concatenate([low, high])
    reduced = getattr(bv, name)
    few = x[:, :64, :64]  # room for any range
    same_bits(np.asarray(reduced(bv.open(few), axis=0)), line_by_line(name, few, 0))
    usual = np.where(x > 1e-10, np.minimum(x, 1e10), 0)
    for y, slab in ((x, None), (each, (2, 512, 256)), (usual, None)):
        whole = reduced(bv.open(y), axis=0)
        how = {"runner": None, "progress": False, "slab": slab, "workers": 1}
        crop = y[:, :9, :9]
        found = bv.compute(whole, memory="4 GiB", **how)
        same_bits(found[:9, :9], line_by_line(name, crop, 0))
        memory = bv.plan(whole, slab=slab, workers=1).smallest_memory
        if y is usual:
            assert np.array_equal(bv.compute(whole, memory=memory, **how), found)
        else:
            with pytest.raises(ValueError, match=r"too much in size.*increase memory=.*bv\.where"):
                bv.compute(whole, memory=memory, **how)


@pytest.mark.parametrize("name", ["sum", "std"])
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("f4", (1e20,)),
        ("f4", (9.97e36, -3.4e38, 1e-45)),
        ("f4", 10.0 ** np.arange(-45, 39)),
        ("f8", (9.97e36,)),
        ("f8", (-1.7e308, 1e20)),
        ("f8", (5e-324, 1e20)),
    ],
)
def test_sums_of_fill_values_have_room_for_any_number_of_cells(name, dtype, fill):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 150, 150)).astype(dtype)
    with np.errstate(under="ignore"):
        x = np.where(rng.random(x.shape) < 0.5, rng.choice(np.array(fill, dtype), x.shape), x)
    whole = getattr(bv, name)(bv.open(x), axis=0)
    for slab in (None, (1, 150, 150)):
        found = bv.compute(whole, runner=None, progress=False, slab=slab)
        same_bits(found[:9, :9], line_by_line(name, x[:, :9, :9], 0))


def test_sums_over_channels_of_wide_rows_have_room_for_any_range():
    x = 10.0 ** np.random.default_rng(0).uniform(-150, 150, (2, 1, 1, 20_000))
    found = np.asarray(bv.std(bv.open(x, axes="czyx"), axis="c"))
    same_bits(found[0, :, :40], line_by_line("std", x[:, 0, :, :40], 0))


@pytest.mark.parametrize("name", ["mean", "std"])
@pytest.mark.parametrize(
    ("dtype", "low", "side", "spare_bytes"),
    [("f4", 1e-37, 64, 0), ("f8", 1e-300, 64, 0), ("f8", 1e-300, 256, 3 << 26)],
)
def test_merged_sums_of_any_range_need_what_is_declared(name, dtype, low, side, spare_bytes):
    size = math.log10(low)
    x = (10.0 ** np.random.default_rng(0).uniform(size, -size, (2, side, side))).astype(dtype)
    along = projections.along(FOLDS[name].of(dtype), x.shape, (False, True, True), (1, 2))
    along = along.with_room(spare_bytes)
    slices = [Slices([x[k]], None, start=(k, 0, 0)) for k in range(2)]
    along.fold_slices(slices[0], ())  # loads kernels
    state = along.zero()
    tracemalloc.start()
    try:
        for one in slices:
            state = along.merge(state, along.fold_slices(one, ()))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert along.state_bytes / 2 < peak <= along.peak_bytes(1) + spare_bytes


def test_lines_without_voxels():
    x = np.arange(24, dtype="f4").reshape(2, 3, 4)
    mask = np.ones(x.shape, bool)
    mask[:, 1] = False
    how = {"mask": bv.open(mask), "axis": ("z", "x")}
    for name in ("min", "max", "mean", "std"):
        assert np.isnan(np.asarray(getattr(bv, name)(bv.open(x), **how))).tolist() == [0, 1, 0]
    assert np.asarray(bv.sum(bv.open(x), **how))[1] == 0
    with pytest.raises(ValueError, match="min of no voxels in 1 elements"):
        bv.compute(bv.min(bv.open(x.astype("u1")), **how), runner=None)
    assert np.isnan(np.asarray(bv.std(bv.open(x[:1]), "z", ddof=1))).all()
    empty = bv.open(np.zeros((0, 4, 5), "u2"))
    np.testing.assert_array_equal(np.asarray(bv.sum(empty, axis=0)), np.zeros((4, 5)))
    assert np.isnan(np.asarray(bv.mean(empty, axis=0))).all()
    assert np.asarray(bv.mean(empty, axis=2)).shape == (0, 4)
    x[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r'1 voxels are NaN or infinite; nan="omit"'):
        bv.compute(bv.mean(bv.open(x), "x"), runner=None)


def test_what_is_refused(monkeypatch):
    v = bv.open(np.full((3, 4, 5), 2**62))
    with pytest.raises(ValueError, match=r"sum: the exact sum .* does not fit int64"):
        bv.compute(bv.sum(v, "z"), runner=None)
    with pytest.raises(ValueError, match="axis='t'; the volume's axes are z, y, x"):
        bv.sum(v, "t")
    with pytest.raises(ValueError, match="axes are y, x"):
        bv.sum(v[0], "z")
    with pytest.raises(ValueError, match="lists an axis twice"):
        bv.sum(v, (1, "y"))
    with pytest.raises(ValueError, match="0 to 2"):
        bv.sum(v, 3)
    flat = np.broadcast_to(np.uint8(0), (5000, 300, 305))
    with pytest.raises(
        ValueError, match=r"91,500 elements .* 65,536 are the maximum: crop .* along x"
    ):
        bv.percentile(bv.open(flat), 50, "z")
    with pytest.raises(ValueError, match=r"32,768 are the maximum .fewer percentiles than 2"):
        bv.percentile(bv.open(np.broadcast_to(np.uint8(0), (9000, 300, 305))), [50, 60], "z")
    for q in ([], (), np.array([])):
        for axis in (None, 0):
            with pytest.raises(ValueError, match=r"percentile: q=.* is empty"):
                bv.percentile(v, q, axis)
    for q in ("50", None, [[50, 60], [70, 80]], True):
        with pytest.raises(TypeError, match=r"q=.* (is not|is neither) a number"):
            bv.percentile(v, q)
    monkeypatch.setattr(projections, "LIMIT", 100)
    with pytest.raises(ValueError, match=r"4 x 5 int64.*crop the volume"):
        bv.sum(v, "z")
    assert bv.sum(v, ("z", "y")).shape == (5,)


def test_percentiles_of_many_short_lines_are_offered_and_take_one_sweep():
    x = voxels((96, 200, 210), "f4", 5)
    lazy = bv.percentile(bv.open(x), [50, 60], axis=0)
    assert bv.plan(lazy).sweeps == {"percentile": 1}
    ours = bv.compute(lazy, runner=None, slab=(40, 100, 210), threads=2)
    same_bits(ours, np.percentile(x, [50, 60], 0))


def test_a_lazy_array_in_an_expression():
    x = membranes()
    v = bv.open(x)
    brightest = bv.mean(v, ("y", "x"))
    np.testing.assert_array_equal(np.asarray(v > brightest[3]), x > x[3].mean())


def test_inside_a_pipeline(tmp_path, monkeypatch):
    monkeypatch.setattr(projections, "_PIECE", 2000)  # states travel in pieces
    x = membranes()
    v = stored(tmp_path, x, chunks=(5, 12, 14))
    with beam.Pipeline("FnApiRunner") as p:
        done = p | bv.Compute(bv.mean(v, "z"), bv.percentile(v, 50, ("y", "x")), slab=(7, 12, 14))
        for name, expected in (("mean", x.mean(0)), ("percentile", np.percentile(x, 50, (1, 2)))):
            found = done[name] | name >> beam.Map(np.ndarray.tolist)
            assert_that(found, equal_to([expected.tolist()]), f"is {name}")
