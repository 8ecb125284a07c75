"""Deconvolution in blocks and Fourier transforms, against scipy and scikit-image on the whole volume."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.ndimage as ndi
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import fft, signal
from skimage import filters, restoration

import beam_volumes as bv
from beam_volumes.ops.fourier.convolution import Convolved
from beam_volumes.ops.fourier.deconvolution import RichardsonLucy, Wiener
from tests.catalogue import MODES, assert_linear_close, largest, padded, shapes, voxels

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "f8"])
@settings(max_examples=8)
@given(data=st.data())
def test_fftconvolve(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=30, voxels=3000), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    extent = tuple(data.draw(st.sampled_from([1, 2, 3, 5, 8])) for _ in shape)
    weights = np.random.default_rng(1).normal(size=extent)
    modes = [data.draw(st.sampled_from(MODES)) for _ in shape]
    patch = tuple(data.draw(st.integers(e, e + 9)) for e in extent)
    ours = bv.fftconvolve(x, weights, mode=modes, cval=3, patch=patch)
    slab = tuple(data.draw(st.integers(-(-n // 3), n)) for n in shape)
    whole = bv.compute(ours, runner=None)
    assert bv.compute(ours, runner=None, slab=slab, window=2).tobytes() == whole.tobytes()
    twin = padded(lambda a: ndi.convolve(a, weights), x.astype("f8"), extent, modes, 3)
    assert_linear_close(whole, twin, np.abs(weights).sum(), largest(x, 3))


def test_fftconvolve_is_scipys_same():
    x, weights = RNG.random((20, 30)), RNG.random((7, 9))
    ours = np.asarray(bv.fftconvolve(x, weights, mode="constant"))
    np.testing.assert_allclose(ours, signal.fftconvolve(x, weights, "same"), atol=1e-12)


PSF = bv.gaussian_psf((0.9, 0.7, 0.7), truncate=3.5)
#: Photons of points on a background.
POINTS = RNG.poisson(ndi.convolve(5 + 500.0 * (RNG.random((50, 54, 58)) < 0.02), PSF)).astype("u2")
#: Voxels that the edges do not reach.
INSIDE = (slice(20, -20),) * 3


def cuts(item, whole):
    for cut in ({"slab": (17, 54, 58), "window": 5}, {"slab": (50, 30, 31), "workers": 2}):
        assert np.asarray(bv.compute(item, runner=None, **cut)).tobytes() == whole.tobytes()


def test_richardson_lucy_is_scikit_images_in_the_inside_for_every_cut():
    theirs = restoration.richardson_lucy(POINTS.astype("f8"), PSF, 10, clip=False)[INSIDE]
    whole = np.asarray(bv.richardson_lucy(POINTS, PSF, 10))
    assert whole.dtype == np.float32
    np.testing.assert_allclose(whole[INSIDE], theirs, rtol=1e-4)
    blocks = bv.richardson_lucy(POINTS, PSF, 10, patch=(40, 48, 48))
    found = np.asarray(blocks)
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5 * whole.max())
    cuts(blocks, found)


def test_residuals_of_each_iteration(tmp_path):
    """Equal to the difference of the volume and the convolved result, for every cut and runner."""
    found = bv.richardson_lucy_residuals(POINTS, PSF, 4, patch=(48, 44, 44))
    numbers = np.asarray(found)
    for k in (1, 4):
        sharp = bv.richardson_lucy(POINTS, PSF, k, patch=(48, 44, 44))
        difference = POINTS - np.asarray(bv.fftconvolve(sharp, PSF), "f8")
        np.testing.assert_allclose(numbers[k - 1], np.sqrt((difference**2).mean()), rtol=1e-5)
    cuts(found, numbers)
    movie = bv.open(np.stack([POINTS, POINTS // 2]), axes="tzyx")
    each = np.asarray(bv.richardson_lucy_residuals(movie, PSF, 4, patch=(48, 44, 44)))
    assert each.shape == (2, 4)
    assert each[0].tobytes() == numbers.tobytes()


@pytest.mark.parametrize("balance", [0.01, 1])
def test_wiener_is_scikit_images_in_the_inside_for_every_cut(balance):
    image = POINTS.astype("f8")
    psf = np.einsum("i,j,k->ijk", [0.2, 0.7, 0.1], [0.1, 0.2, 0.6, 0.1], [0.2, 0.8])
    theirs = restoration.wiener(image, psf, balance, clip=False)[INSIDE]
    blocks = bv.wiener(image, psf, balance, patch=44)
    found = np.asarray(blocks)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found[INSIDE], theirs, atol=1e-4 * theirs.max())
    cuts(blocks, found)


def test_slices_channels_and_stored_functions(tmp_path):
    planes = POINTS[:3, :40, :40]
    flat = PSF[len(PSF) // 2] / PSF[len(PSF) // 2].sum()
    bv.compute(bv.open(flat[None]).to(f"{tmp_path}/psf.tif"))
    ours = np.asarray(bv.richardson_lucy(planes, f"{tmp_path}/psf.tif", 5))
    bv.compute(bv.open(flat[None], voxel_size=3, unit="nm").to(f"{tmp_path}/psf.zarr"))
    with pytest.raises(ValueError, match="voxel size"):
        sized = bv.open(planes, voxel_size=4, unit="nm")
        bv.richardson_lucy(sized, f"{tmp_path}/psf.zarr", 5)
    one = np.asarray(bv.richardson_lucy(planes[1], flat, 5))
    np.testing.assert_allclose(ours[1], one, rtol=1e-6)
    both = bv.open(np.stack([planes, planes[::-1]]), axes="czyx")
    np.testing.assert_array_equal(
        np.asarray(bv.richardson_lucy(both, flat[None], 5))[1, ::-1], ours
    )
    assert np.asarray(bv.wiener(np.zeros((0, 4, 4)), flat[None], 1)).shape == (0, 4, 4)


def test_total_variation_is_the_published_step():
    image, spread = POINTS[0].astype("f8") + 1, np.array([[1.0, 2, 1]])
    spread /= spread.sum()
    stage = RichardsonLucy("r", "", spread[None], (1, *image.shape), 4, 0.01, np.dtype("f8"))
    ours = stage.made(stage.over(1))(image[None])[0]
    estimate = np.full(image.shape, 0.5)
    for _ in range(4):
        step = np.roll(estimate, -1, 1) - estimate
        step /= np.sqrt(step**2 + 1e-12)
        ratio = image / ndi.convolve(estimate, spread, mode="wrap")
        estimate /= 1 - 0.01 * (step - np.roll(step, 1, 1))
        estimate *= ndi.correlate(ratio, spread, mode="wrap")
    np.testing.assert_allclose(ours, estimate, rtol=1e-9)
    flat = [np.asarray(bv.richardson_lucy(POINTS[:9], PSF, 10, tv=t)) for t in (0, 0.05)]
    rough = [np.abs(np.diff(a)).mean() for a in flat]
    assert rough[1] < 0.99 * rough[0]


@pytest.mark.parametrize(
    "model",
    [
        (Convolved,),
        (Wiener, 0.1),
        (RichardsonLucy, 3, 0.0, np.dtype("f8")),
        (RichardsonLucy, 3, 0.01, np.dtype("f4")),
    ],
)
def test_memory_of_a_block_is_declared(model):
    kind, *how = model
    block = kind("f", "", PSF, (48, 60, 64), *how)
    image = np.full((1, 1, *block.patch), 7, block.takes)
    tracemalloc.start()
    block._load(1)(image)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.6 * block.arrays < peak / image.nbytes <= block.arrays


def test_refusals():
    v = bv.open(np.ones((8, 9, 10)))
    for psf, message in (
        (np.zeros((3, 3, 3)), "psf has the sum 0"),
        (PSF - 0.001, "psf has negative numbers"),
        (PSF[0], "psf has shape .* of 3 axes"),
    ):
        with pytest.raises(ValueError, match=message):
            bv.richardson_lucy(v, psf)
    with pytest.raises(ValueError, match="tv=1"):
        bv.richardson_lucy(v, PSF, tv=1)
    with pytest.raises(ValueError, match="balance=0"):
        bv.wiener(v, PSF, 0)
    with pytest.raises(ValueError, match=r"patch=9 is too small; it must have at least \["):
        bv.wiener(v, PSF, 1, patch=9)
    with pytest.raises(ValueError, match="'wrap' is not available"):
        bv.fftconvolve(v, PSF, mode="wrap")
    with pytest.raises(TypeError, match="iterations="):
        bv.richardson_lucy(v, PSF, num_iter=3)
    hole = np.ones((8, 9, 10))
    hole[4, 4, 4] = np.nan
    with pytest.raises(ValueError, match=r"NaN or infinite.*isfinite"):
        np.asarray(bv.fftconvolve(hole, PSF))


def test_gaussian_psf():
    point = np.zeros((9, 7, 5))
    point[4, 3, 2] = 1
    expected = ndi.gaussian_filter(point, (1, 0.7, 0.4))
    np.testing.assert_allclose(bv.gaussian_psf((1, 0.7, 0.4)), expected, atol=1e-15)
    assert bv.gaussian_psf(1, 2).shape == (9, 9)
    with pytest.raises(ValueError, match="sigma=-1"):
        bv.gaussian_psf(-1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_batches_of_lines_do_not_change_bits(dtype):
    for n in (2, 7, 64, 101, 1009):
        lines = RNG.normal(size=(19, n)).astype(dtype)
        for x in (lines, lines + 1j * lines[::-1]):
            whole = fft.fft(x, axis=1)
            for a, b in ((0, 1), (3, 8), (18, 19), (1, 17)):
                assert fft.fft(x[a:b], axis=1).tobytes() == whole[a:b].tobytes()
                across = fft.fft(np.ascontiguousarray(x[a:b].T), axis=0)
                assert np.ascontiguousarray(across.T).tobytes() == whole[a:b].tobytes()
                halves = fft.irfft(x, axis=1)
                assert fft.irfft(x[a:b], axis=1).tobytes() == halves[a:b].tobytes()
                across = fft.irfft(np.ascontiguousarray(x[a:b].T), axis=0)
                assert np.ascontiguousarray(across.T).tobytes() == halves[a:b].tobytes()


def of_complex(volume):
    real, imag = np.asarray(volume)
    return real + 1j * imag


@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "f8"])
@settings(max_examples=5)
@given(data=st.data())
def test_fftn_and_ifftn(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=20, voxels=1500), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    axes = data.draw(st.sampled_from([None, (-1,), (-2, -1), (-ndim,)]), "axes")
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]), "norm")
    spectrum = bv.fftn(x, axes, norm)
    theirs = np.fft.fftn(x.astype("f8"), axes=axes, norm=norm)
    eps = 8 * np.finfo(spectrum.dtype).eps * np.abs(theirs).max(initial=1.0)
    np.testing.assert_allclose(of_complex(spectrum), theirs, atol=eps)
    back = bv.ifftn(spectrum, axes, norm)
    found = np.asarray(back)
    eps = 16 * np.finfo(spectrum.dtype).eps * largest(x)
    np.testing.assert_allclose(found[0], x, atol=eps)
    np.testing.assert_allclose(found[1], np.zeros(shape), atol=eps)
    slab = tuple(data.draw(st.integers(-(-n // 2), n)) for n in shape)
    assert bv.compute(back, runner=None, slab=slab, window=2).tobytes() == found.tobytes()
    for ours, function in ((bv.fftshift, np.fft.fftshift), (bv.ifftshift, np.fft.ifftshift)):
        np.testing.assert_array_equal(np.asarray(ours(x, axes)), function(x, axes))


@pytest.mark.parametrize("dtype", ["u1", "f8"])
@settings(max_examples=5)
@given(data=st.data())
def test_rfftn_and_irfftn(dtype, data):
    ndim = data.draw(st.sampled_from([2, 3]))
    shape = data.draw(shapes(ndim, most=20, voxels=1500), "shape")
    x = voxels(shape, dtype, data.draw(st.integers(0, 99)), narrow=True)
    axes = data.draw(st.sampled_from([None, (-1,), (-1, -2), (-1, -ndim), (-ndim,)]), "axes")
    norm = data.draw(st.sampled_from(["backward", "ortho", "forward"]), "norm")
    half = bv.rfftn(x, axes, norm)
    theirs = np.fft.rfftn(x.astype("f8"), axes=axes, norm=norm)
    eps = 8 * np.finfo(half.dtype).eps * np.abs(theirs).max(initial=1.0)
    np.testing.assert_allclose(of_complex(half), theirs, atol=eps)
    extents = shape if axes is None else [shape[a] for a in axes]
    back = bv.irfftn(half, extents, axes, norm)
    found = np.asarray(back)
    assert found.dtype == half.dtype
    np.testing.assert_allclose(found, x, atol=16 * np.finfo(half.dtype).eps * largest(x))
    slab = tuple(data.draw(st.integers(-(-n // 2), n)) for n in shape)
    assert bv.compute(back, runner=None, slab=slab, window=2).tobytes() == found.tobytes()


def test_fourier_filters_of_spectra():
    x = RNG.random((6, 11, 14))
    spectrum, theirs = bv.fftn(x), np.fft.fftn(x)
    for name, number in (
        ("fourier_gaussian", (1, 0.5, 0)),
        ("fourier_uniform", (3, 2.5, 1)),
        ("fourier_ellipsoid", (3, 2.5, 40)),
        ("fourier_shift", (1.5, -2, 0.25)),
    ):
        filtered = getattr(bv, name)(spectrum, number)
        ours = of_complex(filtered)
        assert (
            bv.compute(filtered, runner=None, slab=(2, 5, 7)).tobytes()
            == np.asarray(filtered).tobytes()
        )
        expected = getattr(ndi, name)(theirs, number)
        np.testing.assert_allclose(ours, expected, atol=1e-12 * np.abs(theirs).max())
        with pytest.raises(ValueError, match="channels real and imag"):
            getattr(bv, name)(bv.open(x), number)
    plane = RNG.random((40, 30))
    for size in (0, 2.5, (1, 90)):  # Bessel's function in planes
        ours = of_complex(bv.fourier_ellipsoid(bv.fftn(plane), size))
        with np.errstate(invalid="ignore"):
            expected = ndi.fourier_ellipsoid(np.fft.fftn(plane), size)
        np.testing.assert_allclose(ours, expected, atol=1e-12 * plane.sum())


def low(*frequencies):
    return 1 / (1 + sum((20 + k) * f**2 for k, f in enumerate(frequencies))) + 0.5j * frequencies[0]


@pytest.mark.parametrize("name", ["gaussian", "uniform", "shift", "ellipsoid"])
def test_spectra_without_voxels(name):
    spectrum = bv.fftn(bv.open(np.zeros((0, 4, 5), "f4")))
    assert np.asarray(getattr(bv, f"fourier_{name}")(spectrum, 2)).shape == (2, 0, 4, 5)


@pytest.mark.parametrize("axes", [None, (1, 2), (0, 2), (2, 0), (-1, 0, 1), (0,), (1,)])
def test_fourier_filter(axes):
    x = RNG.random((6, 11, 14))
    ours = bv.fourier_filter(x, low, axes=axes, name="low", version=1)
    chosen = range(3) if axes is None else [a % 3 for a in axes]
    sparse = [
        np.fft.fftfreq(x.shape[a]).reshape([-1 if b == a else 1 for b in range(3)]) for a in chosen
    ]
    expected = np.fft.ifftn(np.fft.fftn(x, axes=chosen) * low(*sparse), axes=chosen).real
    found = np.asarray(ours)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert bv.compute(ours, runner=None, slab=(2, 5, 14)).tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", ["u1", "f4", "f8"])
@pytest.mark.parametrize("axes", [None, (1, 2), (0,)])
def test_butterworth(dtype, axes):
    x = (RNG.random((6, 11, 14)) * 200).astype(dtype)
    atol = 1e-11 if dtype == "f8" else 1e-4
    for how in (
        {},
        {"cutoff_frequency_ratio": 0.1, "high_pass": False, "order": 8, "npad": 3},
        {"cutoff_frequency_ratio": 0.5, "order": 0.7, "squared_butterworth": False, "npad": 1},
        {"order": 300},  # scikit-image's factors overflow
    ):
        made = bv.butterworth(x, axes=axes, **how)
        ours = np.asarray(made)
        assert ours.dtype == ("f8" if dtype == "f8" else "f4") and ours.shape == x.shape
        whole = 11 if axes == (0,) else 14
        slab = (6, 5, 7) if axes == (0,) else (2, 5, whole)
        assert bv.compute(made, runner=None, slab=slab).tobytes() == ours.tobytes()
        if how.get("order") == 300:
            assert np.isfinite(ours).all()
            continue
        wide, dims = x.astype("f8"), (0, 1, 2) if axes is None else axes
        theirs = np.empty(x.shape)
        for at in np.ndindex(*(1 if a in dims else n for a, n in enumerate(x.shape))):
            part = tuple(slice(None) if a in dims else i for a, i in enumerate(at))
            theirs[part] = filters.butterworth(wide[part], **how)
        np.testing.assert_allclose(ours, theirs, atol=atol)


def test_butterworth_of_channels_tiny_volumes_and_bad_parameters():
    x = RNG.random((2, 3, 8, 9))
    for axes in ("czyx", "tzyx"):
        ours = np.asarray(bv.butterworth(bv.open(x, axes=axes), 0.1, npad=2))
        np.testing.assert_array_equal(ours[1], np.asarray(bv.butterworth(x[1], 0.1, npad=2)))
    space = bv.open(x[0], voxel_size=(3, 2, 2), unit="nm", origin=(9, 0, 4))
    made = bv.butterworth(space, npad=4)
    assert made.origin == space.origin and made.voxel_size == space.voxel_size
    for shape in ((1, 1), (1, 7), (0, 4)):
        assert np.asarray(bv.butterworth(np.ones(shape, "u1"), npad=1)).shape == shape
    x[0, 1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        np.asarray(bv.butterworth(x[0]))
    for how, message in (
        ({"cutoff_frequency_ratio": 0}, "cutoff_frequency_ratio=0 is not"),
        ({"cutoff_frequency_ratio": 0.6}, "cutoff_frequency_ratio=0.6 is above 0.5"),
        ({"order": -1}, "order=-1 is not"),
        ({"npad": -1}, "npad=-1 is not a whole number"),
    ):
        with pytest.raises(ValueError, match=f"butterworth: {message}"):
            bv.butterworth(x[1], **how)


def test_planes_that_do_not_fit_are_stored(tmp_path):
    large = bv.open(np.broadcast_to(np.uint8(0), (30, 9000, 9000)))
    target = bv.fftn(large).to(f"{tmp_path}/large.zarr")
    assert [len(bv.plan(target, memory=m).passes) for m in ("24GiB", "1200MiB")] == [3, 5]


def test_refusals_of_transforms():
    hole = np.ones((4, 5, 6))
    hole[1, 2, 3] = np.inf
    with pytest.raises(ValueError, match=r"NaN or infinite.*isfinite"):
        np.asarray(bv.fftn(hole))
    with pytest.raises(ValueError, match="norm='x'"):
        bv.fftn(hole, norm="x")
    with pytest.raises(ValueError, match="contains no axis"):
        bv.fftn(hole, ())
    with pytest.raises(ValueError, match=r"does not fit a spectrum.* give 6 or 7"):
        bv.irfftn(bv.rfftn(hole), (4, 5, 8))
    with pytest.raises(ValueError, match="select one channel"):
        bv.fftn(bv.open(np.ones((3, 4, 5)), axes="cyx"))
    with pytest.raises(ValueError, match="func returned shape"):
        np.asarray(bv.fourier_filter(np.ones((4, 5, 6)), lambda *f: np.ones(7)))


def test_a_psf_with_much_of_its_sum_at_its_border_warns():
    image, psf = np.ones((1, 24, 24), "f4"), bv.gaussian_psf((0, 2, 2))
    for wrong in (psf + 0.01 * psf.max(), bv.gaussian_psf((0, 2, 2), truncate=1.5)):
        for function, how in ((bv.richardson_lucy, {}), (bv.wiener, {"balance": 0.1})):
            with pytest.warns(UserWarning, match=r"outermost voxels of psf have \d+% of its sum"):
                function(image, wrong, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for right in (psf, np.ones((1, 3, 5)), bv.gaussian_psf((0, 0.7, 3))):
            bv.richardson_lucy(image, right)
