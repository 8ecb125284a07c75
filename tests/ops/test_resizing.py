"""Volumes of another shape or voxel size, against scikit-image and SimpleITK."""

import warnings

import numpy as np
import pytest
import skimage.transform as transform
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from tests.catalogue import DTYPES, voxels
from tests.peers import peer
from tests.tiers import dtypes_drawn, examples

MODES = ["constant", "edge", "reflect", "symmetric", "wrap"]
V = bv.open(np.arange(6 * 7 * 8, dtype="u1").reshape(6, 7, 8), voxel_size=(40, 10, 10), unit="nm")


def parts(draw, shape):
    return {
        "slab": tuple(draw(st.integers(1, n)) for n in shape),
        "window": draw(st.sampled_from([None, 1, 3])),
        "runner": None,
    }


def assert_close(ours, theirs, x):
    """The dtype of the input, and the values up to its precision."""
    assert ours.dtype == x.dtype
    assert ours.shape == theirs.shape
    if x.dtype.kind in "bui":
        close = np.abs(ours.astype("f8") - theirs) <= 0.5 + 1e-6 * np.abs(x.astype("f8")).max()
        assert close.all()
    else:
        eps = 64 * float(np.finfo(x.dtype).eps) * float(np.abs(x.astype("f8")).max(initial=0))
        np.testing.assert_allclose(ours.astype("f8"), theirs, rtol=0, atol=eps)


@dtypes_drawn(DTYPES)
@settings(max_examples=examples(80))
@given(data=st.data())
def test_shapes_and_factors_of_scikit_image(dtypes, data):
    draw = data.draw
    dtype = np.dtype(draw(st.sampled_from(dtypes), "dtype"))
    order = 0 if dtype.kind == "b" else draw(st.sampled_from([None, 0, 1, 1, 2, 3, 5]), "order")
    shape = draw(st.sampled_from([(9, 14, 15), (12, 10, 31), (10, 17)]), "shape")
    if (order or 1) < 2:  # scipy's splines of short axes are approximate
        shape = draw(st.sampled_from([shape, (1, 7, 30), (1, 1), (2, 3, 1)]), "short shape")
    narrow = dtype.itemsize > 2 and dtype.kind in "ui"
    x = voxels(shape, dtype, draw(st.integers(0, 99), "seed"), narrow=narrow)
    how = {
        "order": order,
        "mode": draw(st.sampled_from(MODES), "mode"),
        "cval": x.flat[x.size // 2].item() + 0,
        "clip": draw(st.booleans(), "clip"),
        "anti_aliasing": draw(st.sampled_from([None, None, False, True]), "anti-aliasing"),
    }
    if how["anti_aliasing"] and (dtype.kind == "b" or (dtype.kind in "ui" and order == 0)):
        how["anti_aliasing"] = None  # scikit-image refuses the first, and truncates the second
    if draw(st.booleans(), "sigma"):
        how["anti_aliasing_sigma"] = tuple(draw(st.sampled_from([0, 0.4, 2])) for _ in shape)
    if draw(st.booleans(), "by factors"):
        name, size = "rescale", tuple(draw(st.sampled_from([0.01, 0.3, 1, 1.7])) for _ in shape)
    else:
        name, size = "resize", tuple(draw(st.integers(1, 2 * n + 1)) for n in shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a sigma along axes that grow
        given = x if dtype.kind in "bf" or order == 0 else x.astype("f8")
        theirs = getattr(transform, name)(given, size, preserve_range=True, **how)
    result = getattr(bv, name)(bv.open(x), size, **how)
    assert_close(bv.compute(result, **parts(draw, result.shape)), theirs.astype("f8"), x)


@settings(max_examples=examples(40))
@given(data=st.data())
def test_floats_are_smoothed_and_zoomed_to_the_bit(data):
    """With NaN and infinities; a shape alone, and NaN that clipping ignores."""
    draw = data.draw
    dtype, order = draw(st.sampled_from(["f4", "f8"])), draw(st.sampled_from([0, 1, 3]))
    x = voxels((9, 11, 12), dtype, draw(st.integers(0, 9)), nan=0.01, inf=0.005)
    grid = tuple(draw(st.integers(1, 2 * n)) for n in x.shape)
    factors = [n / m for n, m in zip(x.shape, grid, strict=True)]
    sigma = [max(0, f - 1) / 2 for f in factors]
    smooth = bv.gaussian_filter(bv.open(x), sigma, mode="nearest")
    by = [1 / f for f in factors]
    expected = bv.zoom(smooth, by, order=order, mode="nearest", grid_mode=True)
    result = bv.resize(x, grid, order, "edge")
    expected, found = (bv.compute(v, **parts(draw, grid)) for v in (expected, result))
    if order > 1:
        finite = x[np.isfinite(x)]
        expected = expected.clip(finite.min(), finite.max())
    np.testing.assert_array_equal(found, expected)


def test_the_range_of_clipping_includes_the_value_outside():
    x = np.array([[50, 90, 50, 90, 90, 50, 90, 50]], "u1")
    free, bound, outside = (
        np.asarray(bv.resize(x, (1, 21), 3, mode, clip=clip)).tolist()[0]
        for mode, clip in (("edge", False), ("edge", True), ("constant", True))
    )
    assert min(free) < 50
    assert max(free) > 90
    assert bound == np.clip(free, 50, 90).tolist()
    assert 0 <= min(outside) < 50
    assert max(outside) == 90
    nothing = np.full((4, 5), np.nan)
    with pytest.raises(ValueError, match=r"NaN|no voxel"):
        bv.compute(bv.resize(nothing, (8, 8), 3), runner=None)
    assert np.isnan(bv.compute(bv.resize(nothing, (8, 8), 3, clip=False), runner=None)).all()


def test_channels_and_time_points_are_resized_separately():
    x = np.random.default_rng(1).integers(0, 99, (2, 5, 8, 9)).astype("f4")
    for axes in ("czyx", "tzyx"):
        v = bv.open(x, axes=axes, voxel_size=(4, 1, 1), unit="um")
        found = bv.resize(v, (7, 4, 5), anti_aliasing_sigma=("4 um", 1, 0.5))
        single = [np.asarray(bv.resize(part, (7, 4, 5), anti_aliasing_sigma=1)) for part in x]
        other = [np.asarray(bv.resize(p, (7, 4, 5), anti_aliasing_sigma=(1, 1, 0.5))) for p in x]
        np.testing.assert_array_equal(np.asarray(found), np.stack(other))
        assert not np.array_equal(np.stack(single), np.stack(other))
        assert found.axes == tuple(axes)
        assert np.asarray(bv.rescale(v, 0.5, 3)).shape == (2, 2, 4, 4)
        assert bv.resample(v, 2).shape == (2, 10, 4, 4)


def test_sweeps():
    assert len(bv.plan(bv.resize(V, (3, 3, 3))).passes) == 1
    assert len(bv.plan(bv.resize(V, (3, 3, 3), 3)).passes) == 3
    assert len(bv.plan(bv.resize(V, (3, 3, 3), 3, clip=False)).passes) == 1


def test_voxel_sizes():
    """The corner of the volume stays, and the voxel size is as given."""
    sliced = V[1:]
    for length, shape, size, origin in (
        ("10 nm", (20, 7, 8), (10, 10, 10), (25, 0, 0)),
        ("0.02 um", (10, 4, 4), (20, 20, 20), (30, 5, 5)),
        ((40, "15 nm", 10), (5, 5, 8), (40, 15, 10), (40, 2.5, 0)),
        ((80, 10, 10), (2, 7, 8), (80, 10, 10), (60, 0, 0)),
        (0.1, (2000, 700, 800), (0.1, 0.1, 0.1), (20.05, -4.95, -4.95)),
    ):
        v = bv.resample(sliced, length)
        assert (v.shape, v.voxel_size, v.unit) == (shape, size, "nanometer")
        np.testing.assert_allclose(v.origin, origin)
    small = bv.resize(sliced, (10, 7, 4))
    assert (small.voxel_size, small.origin) == ((20, 10, 20), (30, 0, 5))
    small = bv.rescale(sliced, (2, 1, 0.5))
    assert (small.voxel_size, small.origin) == ((20, 10, 20), (30, 0, 5))
    np.testing.assert_array_equal(np.asarray(bv.resample(sliced, (40, 10, 10))), V[1:])
    third = bv.open(np.arange(10.0)[None], voxel_size=0.3)
    assert bv.resample(third, 0.1).shape == (3, 30)
    plane = bv.resample(V[2], "20 nm")
    assert (plane.shape, plane.voxel_size) == ((4, 4), (20, 20))


@pytest.mark.parametrize("order", [0, 1])
@settings(max_examples=examples(20))
@given(data=st.data())
def test_grids_of_simpleitk(order, data):
    itk = peer("SimpleITK")
    draw = data.draw
    x = voxels((7, 9, 11), "f4", draw(st.integers(0, 9)))
    old, new = (tuple(draw(st.sampled_from([1.0, 0.7, 2.5, 3])) for _ in x.shape) for _ in "ab")
    image = itk.GetImageFromArray(x)
    image.SetSpacing(old[::-1])
    v = bv.open(x, voxel_size=old)
    found = bv.resample(v, new, order, anti_aliasing=False)
    resampling = itk.ResampleImageFilter()
    resampling.SetSize(found.shape[::-1])
    resampling.SetOutputSpacing(found.voxel_size[::-1])
    resampling.SetOutputOrigin(found.origin[::-1])
    resampling.SetInterpolator(itk.sitkLinear if order else itk.sitkNearestNeighbor)
    resampling.SetDefaultPixelValue(np.nan)
    theirs = itk.GetArrayFromImage(resampling.Execute(image))
    inside = ~np.isnan(theirs)  # it interpolates up to half a voxel outside
    assert inside.any()
    got = bv.compute(found, **parts(draw, found.shape))
    if not order:  # positions in the middle of two voxels are rounded up here, or down there
        for axis, (n, o, s) in enumerate(zip(found.shape, old, new, strict=True)):
            is_between = np.abs(((np.arange(n) + 0.5) * s / o) % 1) < 1e-9
            inside &= ~is_between.reshape([-1 if a == axis else 1 for a in range(3)])
    np.testing.assert_allclose(got[inside], theirs[inside], rtol=0, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bv.resize(V, (3, 3)), "output_shape=.* 2 entries for 3 axes"),
        (lambda: bv.resize(V, (3, 0, 3)), "output_shape=.*: 0 is not a whole number of at least 1"),
        (lambda: bv.resize(V, 10**9), "output_shape=1000000000 .* too large to index"),
        (lambda: bv.resize(V[:, :0], 3), "has no voxels"),
        (lambda: bv.resize(V, 3, order=6), "order=6 is not available"),
        (lambda: bv.resize(V > 3, 3, order=1), "use order=0, or astype"),
        (lambda: bv.resize(V > 3, 3, anti_aliasing=True), "anti_aliasing=True of a bool volume"),
        (lambda: bv.resize(V, 3, mode="nearest"), "mode='nearest' is not .* constant, edge"),
        (lambda: bv.resize(V, 3, cval=-1), "cval=-1 is not a uint8 number"),
        (lambda: bv.resize(V, 3, anti_aliasing_sigma=-1), "anti_aliasing_sigma=-1"),
        (lambda: bv.resize(V, 3, anti_aliasing_sigma=1e9), "anti_aliasing_sigma=1.* too large"),
        (lambda: bv.rescale(V, 0), "scale=0 is not made of positive, finite numbers"),
        (lambda: bv.rescale(V, (1, 2)), "scale=.* 2 entries for 3 axes"),
        (lambda: bv.rescale(V, 1e308), "scale=1e[+]308"),
        (lambda: bv.resample(np.asarray(V), 3), "no voxel size; open it with voxel_size="),
        (lambda: bv.resample(V, "10 px"), "voxel_size='10 px' is not a length"),
        (lambda: bv.resample(V, -1), "voxel_size=.* above 0"),
        (lambda: bv.resample(V, "1 um"), "voxel_size='1 um' is at least twice .* along z"),
        (lambda: bv.resample(bv.open(np.ones((2, 2)), voxel_size=2), "1 nm"), "with a unit"),
    ],
)
def test_mistakes(call, said):
    with pytest.raises((ValueError, TypeError), match=said) as error:
        call()
    assert "\n" not in str(error.value)
