"""The page of functions agrees with plans of the functions: passes, kinds, and values that are refused."""

import math
import re
import runpy
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import beam_volumes as bv
from beam_volumes.across.tables import known_properties
from tests.tiers import few

ROOT = Path(__file__).parents[1]
COVERAGE = runpy.run_path(str(ROOT / "docs/coverage.py"))
FACTS = {name: facts for names, *facts in COVERAGE["FUNCTIONS"] for name in names.split()}

V = bv.open(np.random.default_rng(0).integers(0, 256, (6, 8, 10), "u1"))
F = bv.open(np.asarray(V) / 256)
M = V > 90
LABELS = bv.open(np.arange(480, dtype="u4").reshape(6, 8, 10) // 40)
RGB = bv.open(np.zeros((3, 8, 10), "u1"), axes="cyx")
AFFINITIES = bv.open(np.full((3, 6, 8, 10), 99, "u1"), axes="czyx")
SPECTRUM = bv.stack([F, F], ["real", "imag"])
EDGES = bv.region_adjacency(LABELS, affinities=AFFINITIES)


def first(volumes):
    return volumes[0]


def network(batch):
    return batch


def tiles(tile):
    return (tile > 90).astype("u4")


def classifier():
    return RandomForestClassifier(2, random_state=0).fit([[1.0], [2.0]], [1, 2])


def by_name(*rows):
    return {name: arguments for names, arguments in rows for name in names.split()}


OF_VOLUME = by_name(
    (
        "min max sum mean median std variance extrema minimum_position maximum_position center_of_mass",
        (),
    ),
    ("argmax argmin", ()),
    ("abs exp log sqrt sin cos tan arctan sinh cosh tanh expm1 log1p log2 log10", ()),
    ("sobel prewitt laplace sato cumsum local_maxima local_minima peak_local_max unsharp_mask", ()),
    ("scharr farid roberts meijering features shape_index", ()),
    ("canny blob_log blob_dog equalize_adapthist denoise_nl_means estimate_sigma", ()),
    ("denoise_tv_chambolle", (10,)),
    ("gradient_anisotropic_diffusion curvature_anisotropic_diffusion", ()),
    ("adjust_gamma adjust_log adjust_sigmoid normalize_slices fit_bias equalize_hist", ()),
    ("n4_bias_field_correction", (2,)),
    ("threshold_otsu threshold_li threshold_yen threshold_triangle threshold_isodata", ()),
    ("threshold_minimum threshold_moments threshold_multiotsu threshold_niblack", ()),
    ("threshold_sauvola threshold_local", ()),
    ("gaussian_filter gaussian_filter1d gaussian_laplace gaussian_gradient_magnitude", (1,)),
    ("difference_of_gaussians pad", (1,)),
    ("median_filter maximum_filter minimum_filter uniform_filter percentile", (3,)),
    ("maximum_filter1d minimum_filter1d uniform_filter1d h_maxima h_minima", (3,)),
    ("grey_erosion grey_dilation grey_opening grey_closing white_tophat black_tophat", (3,)),
    ("morphological_gradient morphological_laplace upsample downsample zoom shift", (3,)),
    ("resize rescale", (3,)),
    ("percentile_filter rank_filter", (3, 3)),
    ("diameter_opening diameter_closing", (3,)),
    ("fftn ifftn rfftn fftshift ifftshift butterworth", ()),
    (
        "convolve correlate fftconvolve richardson_lucy richardson_lucy_residuals",
        (np.ones((3, 3, 3)),),
    ),
    ("entropy autolevel enhance_contrast", (3,)),
    ("local_rank", ("modal", 3)),
    ("local_binary_pattern", (8, 1)),
    ("convolve1d correlate1d", ([1, 2, 1],)),
    ("spline_filter spline_filter1d", (3,)),
    ("generic_gradient_magnitude", ("sobel",)),
    ("generic_laplace", (lambda v, axis, **how: bv.correlate1d(v, [1, -2, 1], axis),)),
    ("apply_hysteresis_threshold", (50, 90)),
    ("affine_transform", (np.eye(3),)),
    ("clip", (0, 90)),
    ("flood", ((0, 0, 0),)),
    ("flood_fill", ((0, 0, 0), 7)),
    ("coordinates", (0,)),
    ("flip", (2,)),
    ("generic_filter", (np.max, 3)),
    ("rotate", (30,)),
    ("transpose", ((0, 2, 1),)),
)
OF_MASK = by_name(
    ("binary_erosion binary_dilation binary_opening binary_closing binary_fill_holes", ()),
    ("binary_hit_or_miss all any count_nonzero label remove_small_objects skeletonize", ()),
    ("skeleton_table", ()),
    ("remove_small_holes clear_border keep_largest signed_distance area_opening area_closing", ()),
    ("distance_transform_cdt distance_transform_edt", ()),
    ("binary_propagation", (None, M)),
)
#: A call of each function that is not one with a volume or a mask and numbers.
OTHERS = {
    "adapted_rand_error": lambda: first(bv.adapted_rand_error(LABELS, LABELS)),
    "agglomerate": lambda: bv.agglomerate(EDGES, "mean", threshold=1),
    "apply_transforms": lambda: bv.apply_transforms(V, [(0, 0.5)] * len(V)),
    "arccos": lambda: bv.arccos(F),
    "arcsin": lambda: bv.arcsin(F),
    "arctan2": lambda: bv.arctan2(F, F),
    "blob_doh": lambda: bv.blob_doh(V[0]),
    "boundary_scores": lambda: first(bv.boundary_scores(LABELS, LABELS)),
    "classify": lambda: bv.classify(F, classifier()),
    "combine_stains": lambda: bv.combine_stains(RGB, np.eye(3)),
    "contingency": lambda: bv.contingency(LABELS, LABELS),
    "correlation": lambda: bv.correlation(V, V),
    "covariance": lambda: bv.covariance(V, V),
    "cut": lambda: bv.cut(bv.agglomerate(EDGES, "mean", threshold=1), 2),
    "denoise_wiener": lambda: bv.denoise_wiener(V, noise=3.0),
    "denoise_bilateral": lambda: bv.denoise_bilateral(V, sigma_color=9),
    "expand_labels": lambda: bv.expand_labels(LABELS, 2),
    "fill_missing": lambda: bv.fill_missing(V, [1, 2], "linear"),
    "find_objects": lambda: bv.find_objects(LABELS),
    "find_boundaries": lambda: bv.find_boundaries(LABELS),
    "for_each_label": lambda: bv.for_each_label(LABELS, lambda r: {"n": 1}, {"n": "i8"}),
    "fourier_ellipsoid": lambda: bv.fourier_ellipsoid(SPECTRUM, 1),
    "fourier_filter": lambda: bv.fourier_filter(V, lambda *f: 1.0, name="n", version=1),
    "fourier_gaussian": lambda: bv.fourier_gaussian(SPECTRUM, 1),
    "fourier_shift": lambda: bv.fourier_shift(SPECTRUM, 1),
    "fourier_uniform": lambda: bv.fourier_uniform(SPECTRUM, 1),
    "frangi": lambda: bv.frangi(V, gamma=1.0),
    "fuse": lambda: bv.fuse([V, V], [(0, 0, 0), (0, 0, 5)]),
    "gabor": lambda: first(bv.gabor(V, 0.25)),
    "hsv2rgb": lambda: bv.hsv2rgb(RGB),
    "irfftn": lambda: bv.irfftn(SPECTRUM),
    "hausdorff_distance": lambda: bv.hausdorff_distance(M, V > 99),
    "hed2rgb": lambda: bv.hed2rgb(RGB),
    "hessian_matrix": lambda: first(bv.hessian_matrix(V)),
    "hessian_matrix_eigvals": lambda: first(bv.hessian_matrix_eigvals(bv.hessian_matrix(V))),
    "histogram": lambda: first(bv.histogram(V, 8, (0, 255))),
    "joint_histogram": lambda: first(bv.joint_histogram(V, V, 8, [(0, 255), (0, 255)])),
    "join_segmentations": lambda: bv.join_segmentations(LABELS, LABELS),
    "lab2rgb": lambda: bv.lab2rgb(RGB),
    "label2rgb": lambda: bv.label2rgb(LABELS, V),
    "labeled_comprehension": lambda: bv.labeled_comprehension(V, LABELS, [1], np.max, float, 0),
    "match_histograms": lambda: bv.match_histograms(V, V),
    "map_coordinates": lambda: bv.map_coordinates(V, np.indices(V.shape), max_displacement=1),
    "map_labels": lambda: bv.map_labels(LABELS, lambda r: r.mask, name="n", version=1),
    "map_instances": lambda: bv.map_instances(V, tiles, (6, 8, 8), (2, 2, 2), name="n", version=1),
    "match_template": lambda: bv.match_template(V, np.arange(8).reshape(2, 2, 2)),
    "map_overlap": lambda: bv.map_overlap(np.abs, V, name="n", version=1),
    "mark_boundaries": lambda: bv.mark_boundaries(V, LABELS),
    "meshes": lambda: bv.meshes(LABELS, "meshes"),
    "mean_squared_error": lambda: bv.mean_squared_error(V, F),
    "normalized_mutual_information": lambda: bv.normalized_mutual_information(V, F),
    "normalized_root_mse": lambda: bv.normalized_root_mse(V, F),
    "outlines": lambda: bv.outlines(LABELS[0]),
    "peak_signal_noise_ratio": lambda: bv.peak_signal_noise_ratio(V, F),
    "power": lambda: bv.power(F, 0.3),
    "predict": lambda: bv.predict(V, network, patch=4, context=0, name="n", version=1),
    "random_noise": lambda: bv.random_noise(V, seed=1),
    "reconstruction": lambda: bv.reconstruction(V - np.minimum(V, 9), V),
    "region_adjacency": lambda: bv.region_adjacency(LABELS),
    "regionprops_table": lambda: bv.regionprops_table(LABELS),
    "profile_line": lambda: bv.profile_line(V[3], (1, 2), (4, 5)),
    "relabel": lambda: bv.relabel(LABELS, {1: 2}, missing=0),
    "keep_labels": lambda: bv.keep_labels(LABELS, bv.regionprops_table(LABELS), "area", low=1),
    "relabel_sequential": lambda: first(bv.relabel_sequential(LABELS)),
    "resample": lambda: bv.resample(V.with_space(voxel_size=(3, 2, 1)), 2),
    "rescale_intensity": lambda: bv.rescale_intensity(V, in_range=(0, 90)),
    "rolling_ball": lambda: bv.rolling_ball(V, radius=3),
    "rgb2gray": lambda: bv.rgb2gray(RGB),
    "rgb2hed": lambda: bv.rgb2hed(RGB),
    "rgb2hsv": lambda: bv.rgb2hsv(RGB),
    "rgb2lab": lambda: bv.rgb2lab(RGB),
    "segment_iou": lambda: bv.segment_iou(LABELS, LABELS),
    "separate_stains": lambda: bv.separate_stains(RGB, np.eye(3)),
    "stitch": lambda: bv.stitch([[[LABELS, LABELS]]], overlap=2),
    "structural_similarity": lambda: bv.structural_similarity(V, F, win_size=3, data_range=99),
    "structure_tensor": lambda: first(bv.structure_tensor(V)),
    "structure_tensor_eigenvalues": lambda: first(
        bv.structure_tensor_eigenvalues(bv.structure_tensor(V))
    ),
    "variation_of_information": lambda: first(bv.variation_of_information(LABELS, LABELS)),
    "warp": lambda: bv.warp(V, np.zeros((3, *V.shape)), max_displacement=1),
    "watershed": lambda: bv.watershed(V),
    "watershed_affinities": lambda: bv.watershed_affinities(AFFINITIES, low=1),
    "wiener": lambda: bv.wiener(V, np.ones((3, 3, 3)), 0.1),
    "where": lambda: bv.where(M, V, 0),
}
#: Functions that return an array at once.
UNPLANNED = ["ball", "cube", "cross", "gaussian_psf"]


def made(name):
    if name in OTHERS:
        return OTHERS[name]()
    volume, arguments = (V, OF_VOLUME[name]) if name in OF_VOLUME else (M, OF_MASK[name])
    return getattr(bv, name)(volume, *arguments)


@pytest.mark.parametrize("name", sorted(FACTS.keys() - set(UNPLANNED)))
def test_kind_and_sweeps_are_those_of_a_plan(name, tmp_path):
    _, kind, sweeps = FACTS[name]
    result = made(name)
    is_volume = isinstance(result, bv.Volume)
    assert is_volume == kind.startswith(
        ("number, then", "point", "neigh", "patch", "lines", "regrid", "across")
    ), kind
    if isinstance(result, bv.Scalar):
        assert kind.startswith(("number", "table"))
    if isinstance(result, bv.Volume | bv.Scalar | bv.Table):
        target = result.to(tmp_path / "out.zarr") if is_volume else result
        passes = len(bv.plan(target, memory="4GiB").passes)
        # The first number holds for the examples here; tables of tables share the sweep of their table.
        assert passes == int((re.match(r"\d", sweeps) or "1")[0])


#: Options that change what a function computes.
OPTIONS = {
    "blob_log anisotropic": lambda: bv.blob_log(F, (1, 2, 1), (2, 4, 2), 3, 0.05),
    "canny in planes": lambda: bv.canny(F, (0, 1, 1), 0.1, 0.2),
    "center_of_mass of labels": lambda: bv.center_of_mass(V, LABELS, [3, 1]),
    "distance_transform_edt indices": lambda: bv.distance_transform_edt(
        V < 50, [3, 1, 2], return_indices=True
    ),
    "extrema of labels": lambda: bv.extrema(V, LABELS, [2, 7]),
    "features": lambda: bv.features(V, [1, 2], structure=True),
    "fill_missing of nodata": lambda: bv.fill_missing(V, nodata=0, max_gap=2),
    "flood with a tolerance": lambda: bv.flood(V, (3, 4, 5), tolerance=90),
    "gabor": lambda: bv.gabor(V, 0.25, 0.5),
    "gaussian_filter wrap": lambda: bv.gaussian_filter(V, 1, mode="wrap"),
    "grey_dilation wrap": lambda: bv.grey_dilation(V, 3, mode="grid-wrap"),
    "histogram of labels": lambda: bv.histogram(V, 8, (0, 255), labels=LABELS, index=[1, 4]),
    "label2rgb alone": lambda: bv.label2rgb(LABELS),
    "label2rgb of means": lambda: bv.label2rgb(LABELS, V, kind="avg"),
    "map_coordinates wrap": lambda: bv.map_coordinates(
        F, np.indices(V.shape) + 0.7, max_displacement=1, order=3, mode="grid-wrap"
    ),
    "median of labels": lambda: bv.median(V, LABELS, [5, 2]),
    "median_filter wrap": lambda: bv.median_filter(V, 3, mode="wrap"),
    "peak_local_max of labels": lambda: bv.peak_local_max(
        V, 1, labels=LABELS, num_peaks_per_label=2
    ),
    "regionprops_table": lambda: bv.regionprops_table(LABELS, V, known_properties(3, True)),
    "regionprops_table floats": lambda: bv.regionprops_table(
        LABELS, F, ["moments_weighted_central", "moments_weighted", "centroid_weighted"]
    ),
    "regionprops_table planes": lambda: bv.regionprops_table(
        LABELS[2], V[2], known_properties(2, True), intensity_quantiles=[0.3]
    ),
    "relabel_sequential by size": lambda: bv.relabel_sequential(LABELS, by="size", min_size=3),
    "resize order 3": lambda: bv.resize(V, 3, order=3),
    "rotate order 3": lambda: bv.rotate(V, 20, axes=(0, 2), reshape=False, order=3),
    "rotate wrap": lambda: bv.rotate(V, 20, mode="grid-wrap"),
    "shift order 5": lambda: bv.shift(F, (0.5, -1.25, 2), order=5, prefilter=False),
    "std of labels": lambda: bv.std(V, labels=LABELS, index=[5, 2]),
    "watershed_line": lambda: bv.watershed(V, watershed_line=True),
    "zoom order 3": lambda: bv.zoom(V, 1.7, order=3, mode="mirror"),
}


@pytest.mark.parametrize("seed", few([0, 1], [0]))
@pytest.mark.parametrize("name", sorted({*FACTS, *OPTIONS} - {*UNPLANNED, "meshes"}))
def test_no_bit_depends_on_slabs(name, seed):
    results = OPTIONS[name]() if name in OPTIONS else made(name)
    results = results if isinstance(results, tuple) else (results,)
    lazy = [r for r in results if isinstance(r, bv.Volume | bv.Scalar | bv.Table)]
    random = np.random.default_rng([seed, *name.encode()])
    slab = V.shape
    while not 1 < math.prod(-(-n // s) for n, s in zip(V.shape, slab, strict=True)) <= 40:
        slab = tuple(random.integers(1, n + 1).tolist() for n in V.shape)
    partitions = [{"slab": V.shape}, {"slab": slab, "window": random.choice([None, 1, 2])}]
    for result in lazy:
        bits = {
            np.asarray(bv.compute(result, runner=None, progress=False, **how)).tobytes()
            for how in partitions
        }
        assert len(bits) == 1


CALLS = [
    (f"{names} {k}", call) for names, _, calls in COVERAGE["VALUES"] for k, call in enumerate(calls)
]


@pytest.mark.parametrize("call", [c for _, c in CALLS], ids=[i for i, _ in CALLS])
def test_values_that_the_page_denies_are_refused(call):
    with pytest.raises((ValueError, TypeError)):
        call()


def test_names_of_dask_image_are_all_listed():
    pytest.importorskip("dask_image")
    for module, names in COVERAGE["DASK"].items():
        if module != "imread":  # this one declares no names
            assert set(import_module(f"dask_image.{module}").__all__) == set(names.split()), module
