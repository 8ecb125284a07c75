"""Calls of scikit-image and scipy filters as their documentation types them, with their own answers.

Only the name of the module is different, except where the comment says so.
"""

import numpy as np
import pytest
import scipy.ndimage as ndi
from skimage import exposure, feature, filters, measure, morphology, restoration, segmentation
from skimage.filters import rank
from skimage.morphology import ball, disk

import beam_volumes as bv

random = np.random.default_rng(7)
#: A smooth image from 0 to 1, the same in 8 bits, a volume, and a mask.
IMAGE = ndi.gaussian_filter(random.random((60, 70)), 2)
IMAGE = (IMAGE - IMAGE.min()) / np.ptp(IMAGE)
BYTES = (IMAGE * 255).astype("u1")
VOLUME = ndi.gaussian_filter(random.random((12, 30, 34)), 1)
MASK = VOLUME > 0.5
TEMPLATE = IMAGE[20:31, 30:39]

#: A call of bv, the same call of the library, and the largest difference; 0 for equal ones.
CALLS = {
    "gaussian_filter(image, sigma=1)": (bv, ndi, IMAGE, 1e-12),
    "gaussian_filter(volume, sigma=(1, 2, 2), mode='nearest')": (bv, ndi, VOLUME, 1e-12),
    "gaussian_laplace(image, sigma=1)": (bv, ndi, IMAGE, 1e-12),
    "gaussian_gradient_magnitude(image, sigma=5)": (bv, ndi, IMAGE, 1e-12),
    "median_filter(image, size=3)": (bv, ndi, BYTES, 0),
    "maximum_filter(volume, size=20)": (bv, ndi, VOLUME, 0),
    "percentile_filter(image, percentile=20, size=20)": (bv, ndi, BYTES, 0),
    "rank_filter(image, rank=42, size=20)": (bv, ndi, BYTES, 0),
    "uniform_filter(image, size=20)": (bv, ndi, IMAGE, 1e-12),
    "prewitt(image)": (bv, ndi, IMAGE, 1e-12),
    "convolve(image, np.ones((3, 3)), mode='constant', cval=0.0)": (bv, ndi, IMAGE, 1e-12),
    "correlate1d(image, weights=[1, 3])": (bv, ndi, IMAGE, 1e-12),
    "white_tophat(image, size=5)": (bv, ndi, BYTES, 0),
    "binary_opening(mask, structure=np.ones((3, 3, 3)))": (bv, ndi, MASK, 0),
    "spline_filter(image, order=3)": (bv, ndi, IMAGE, 1e-12),
    "zoom(image, 3.0, order=1)": (bv, ndi, IMAGE, 1e-12),
    "rotate(image, 45, reshape=False, order=1)": (bv, ndi, IMAGE, 1e-12),
    "shift(volume, (0.5, 1, -2.25), order=3)": (bv, ndi, VOLUME, 1e-12),
    "gaussian_filter(image, sigma=2, mode='wrap')": (bv, ndi, IMAGE, 1e-12),
    "median_filter(volume, size=(3, 1, 5), mode='grid-wrap')": (bv, ndi, VOLUME, 0),
    "spline_filter1d(image, order=5, axis=0)": (bv, ndi, IMAGE, 1e-12),
    "zoom(image, 2, order=3)": (bv, ndi, IMAGE, 1e-12),
    "rotate(volume, 30, axes=(0, 2), order=2, mode='grid-wrap')": (bv, ndi, VOLUME, 1e-12),
    "affine_transform(image, np.array([[0.9, 0.1], [-0.1, 0.9]]), order=3)": (
        bv,
        ndi,
        IMAGE,
        1e-12,
    ),
    # where it is out of memory, the reach of the positions is needed, too
    "map_coordinates(image, np.indices(image.shape) + 0.25, order=1, **reach)": (
        bv,
        ndi,
        IMAGE,
        1e-12,
    ),
    "morphological_gradient(image, size=3)": (bv, ndi, BYTES, 0),
    "morphological_laplace(image, size=3)": (bv, ndi, IMAGE, 1e-12),
    "sobel(image, axis=0)": (bv, ndi, IMAGE, 1e-12),
    "cumsum(image, axis=0)": (bv, np, IMAGE, 1e-12),
    "argmax(image, axis=1)": (bv, np, IMAGE, 0),
    "argmin(volume, axis=0)": (bv, np, VOLUME, 0),
    "profile_line(image, (3, 2), (50, 61))": (bv, measure, IMAGE, 1e-12),
    "scharr(image)": (bv, filters, IMAGE, 1e-12),
    "farid(image)": (bv, filters, IMAGE, 1e-12),
    "roberts(image)": (bv, filters, IMAGE, 1e-12),
    "gabor(image, frequency=0.6)": (bv, filters, IMAGE, 1e-12),
    "unsharp_mask(image, radius=5, amount=2)": (bv, filters, IMAGE, 1.0),  # not cut to 0 to 1
    "difference_of_gaussians(image, 2, 10)": (bv, filters, IMAGE, 1e-5),
    "threshold_local(image, block_size=35, offset=0.1)": (bv, filters, IMAGE, 1e-12),
    "threshold_sauvola(image, window_size=25)": (bv, filters, IMAGE, 1e-12),
    "threshold_niblack(image, window_size=15, k=0.8)": (bv, filters, IMAGE, 1e-12),
    "threshold_otsu(image)": (bv, filters, BYTES, 1e-12),
    "threshold_multiotsu(image)": (bv, filters, BYTES, 1e-12),
    "threshold_li(image)": (bv, filters, BYTES, 1e-12),
    "hessian_matrix_eigvals(module.hessian_matrix(image, sigma=1.5, **derivatives))": (
        bv,
        feature,
        IMAGE,
        1e-12,
    ),
    "sato(image, sigmas=[1], black_ridges=False)": (bv, filters, IMAGE, 1e-9),
    "frangi(image, sigmas=[1, 2])": (bv, filters, IMAGE, 1e-9),
    "meijering(image, sigmas=[2])": (bv, filters, IMAGE, 1e-6),
    "entropy(image, disk(5))": (bv, rank, BYTES, 1e-6),
    "autolevel(image, disk(5))": (bv, rank, BYTES, 0),
    "enhance_contrast(image, footprint=disk(5))": (bv, rank, BYTES, 0),
    "white_tophat(image, ball(2))": (bv, morphology, (VOLUME * 255).astype("u1"), 0),
    "match_template(image, template)": (bv, feature, IMAGE, 1e-5),
    "match_template(image, template, pad_input=True)": (bv, feature, IMAGE, 1e-5),
    "canny(image, sigma=3)": (bv, feature, IMAGE, 0),
    "rolling_ball(image, radius=15)": (bv, restoration, BYTES, 0),
    # with centred windows and patches, see their notes
    "denoise_bilateral(image, sigma_color=0.05, sigma_spatial=2)": (bv, restoration, IMAGE, 0.1),
    "denoise_nl_means(image, patch_size=5, patch_distance=4, h=0.08)": (
        bv,
        restoration,
        IMAGE,
        0.05,
    ),
    "denoise_tv_chambolle(image, weight=0.1)": (bv, restoration, IMAGE, 0.005),
    "match_histograms(image, image // 2)": (bv, exposure, BYTES, 1e-5),
    "equalize_adapthist(image, clip_limit=0.03)": (bv, exposure, BYTES, 1e-5),
    "equalize_hist(image)": (bv, exposure, BYTES, 1e-7),
    "adjust_gamma(image, 2)": (bv, exposure, IMAGE, 1e-12),
    "rescale_intensity(image)": (bv, exposure, BYTES, 0),
    "find_boundaries(labels, mode='inner')": (bv, segmentation, BYTES // 64, 0),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_its_answer(call):
    package, library, x, tolerance = CALLS[call]
    names = {
        **dict.fromkeys(("image", "volume", "mask", "labels"), x),
        **{"np": np, "disk": disk, "ball": ball, "template": TEMPLATE},
    }
    reach, derivatives = {"max_displacement": 1}, {"use_gaussian_derivatives": True}
    ours = eval(f"module.{call}", {**names, "module": package, "reach": reach, "derivatives": {}})
    theirs = eval(
        f"module.{call}", {**names, "module": library, "reach": {}, "derivatives": derivatives}
    )
    several = isinstance(ours, tuple)
    for own, other in zip(
        ours if several else [ours], theirs if several else [theirs], strict=True
    ):
        own = np.asarray(own)
        assert own.shape == np.shape(other)
        np.testing.assert_allclose(
            own.astype("f8"), np.asarray(other, "f8"), rtol=0, atol=tolerance
        )
