"""Writes coverage.md: the functions of the package, and the functions of other packages that it lacks.

``make docs``; with ``--check`` nothing is written, and the exit code is 1 if the page is not current. Names
are read from `beam_volumes` and `scipy.ndimage` as they are installed. A function that no table names gets
a row by its family; the page is current with this row and without it. ``tests/test_coverage.py`` plans an
example of each function, and compares passes and kinds with the tables here. It also tries every value in
`VALUES`.
"""

# ruff: noqa: E501

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from skimage import (
    color,
    exposure,
    feature,
    filters,
    measure,
    metrics,
    morphology,
    registration,
    restoration,
    segmentation,
    transform,
    util,
)

import beam_volumes as bv
from beam_volumes.base.exports import EXPORTS
from beam_volumes.graph.elementwise import SUPPORTED
from beam_volumes.graph.keywords import ALIASES

SKIMAGE = [exposure, feature, filters, measure, morphology, restoration, segmentation]
FOOTPRINTS = {"ball", "cube", "cross"}

PAGE = Path(__file__).parent / "reference/coverage.md"

#: Functions, what tests hold them against, kind, sweeps.
FUNCTIONS = [
    ("abs clip exp log sqrt where", "numpy", "pointwise", "1"),
    ("arccos arcsin arctan arctan2 cos cosh expm1 log10 log1p log2 power sin sinh tan tanh",
     "numpy in wider floats, within 2 ulp", "pointwise", "1"),
    ("adjust_gamma adjust_log adjust_sigmoid", "scikit-image", "pointwise", "1"),
    ("rgb2hed hed2rgb separate_stains combine_stains rgb2gray rgb2hsv", "scikit-image on float64", "pointwise", "1"),
    ("rescale_intensity", "scikit-image", "pointwise", "1; 2 with `in_range=\"image\"`"),
    ("random_noise", "moments, counts and scikit-image's scale", "pointwise", "1; 2 if the smallest voxel decides"),
    ("normalize_slices", "numpy, scikit-image, slice by slice", "number, then pointwise",
     "2; for percentiles, one for each 8 bits and one"),
    ("fit_bias", "numpy's least squares, slice by slice", "number, then pointwise", "2"),
    ("equalize_hist", "scikit-image", "pointwise", "2 for integers to 16 bits, otherwise 3"),
    ("match_histograms", "scikit-image", "pointwise", "2 for integers to 16 bits, otherwise 3"),
    ("equalize_adapthist", "scikit-image", "number, then pointwise", "4"),
    ("relabel", "a numpy table lookup", "pointwise; across, for mappings of over a million rows",
     "1; 2"),
    ("keep_labels", "scikit-image's table and numpy", "across", "2"),
    ("gaussian_filter uniform_filter convolve correlate", "scipy on float64", "neighbourhood", "1"),
    ("gaussian_filter1d uniform_filter1d convolve1d correlate1d", "scipy on float64",
     "neighbourhood", "1"),
    ("sobel prewitt laplace gaussian_laplace gaussian_gradient_magnitude generic_gradient_magnitude generic_laplace", "scipy on float64", "neighbourhood", "1"),
    ("median_filter maximum_filter minimum_filter percentile_filter rank_filter maximum_filter1d "
     "minimum_filter1d", "scipy, bit for bit", "neighbourhood", "1"),
    ("grey_erosion grey_dilation grey_opening grey_closing white_tophat black_tophat "
     "morphological_gradient morphological_laplace", "scipy, bit for bit", "neighbourhood", "1"),
    ("binary_erosion binary_dilation binary_opening binary_closing binary_hit_or_miss",
     "scipy, bit for bit", "neighbourhood", "1"),
    ("entropy autolevel enhance_contrast", "scikit-image", "neighbourhood", "1"),
    ("rolling_ball", "scikit-image, bit for bit", "neighbourhood", "1"),
    ("denoise_bilateral", "scikit-image with centred distances, and the formula along three axes", "neighbourhood",
     "1; 2 without `sigma_color=`"),
    ("denoise_nl_means", "the formula on float64", "neighbourhood", "1"),
    ("denoise_tv_chambolle", "scikit-image with `eps=0`", "neighbourhood", "1"),
    ("unsharp_mask difference_of_gaussians threshold_local threshold_niblack threshold_sauvola",
     "scikit-image on float64", "neighbourhood", "1"),
    ("scharr farid roberts gabor", "scikit-image on float64", "neighbourhood", "1"),
    ("denoise_wiener", "scipy.signal's `wiener` on float64", "neighbourhood", "1; 2 without `noise=`"),
    ("structure_tensor structure_tensor_eigenvalues hessian_matrix hessian_matrix_eigvals sato",
     "scikit-image on float64", "neighbourhood", "1"),
    ("frangi", "scikit-image on float64", "neighbourhood", "1; 2 without `gamma=`"),
    ("meijering", "scikit-image on float64", "neighbourhood", "2"),
    ("features", "scikit-image", "neighbourhood", "1"),
    ("classify", "scikit-learn, bit for bit; probabilities of boosted trees within 1e-15", "pointwise", "1"),
    ("generic_filter", "scipy with the same function", "neighbourhood", "1"),
    ("map_overlap", "the function on the whole array", "neighbourhood", "1"),
    ("fftconvolve", "scipy's `convolve` on float64", "patches", "1"),
    ("richardson_lucy wiener", "scikit-image on float64, in the inside", "patches", "1"),
    ("richardson_lucy_residuals", "the result of `richardson_lucy`, convolved", "number", "1"),
    ("fftn ifftn rfftn", "numpy", "lines", "3; 1 without z"),
    ("irfftn", "numpy", "lines", "2; 1 without z"),
    ("fftshift ifftshift", "numpy, bit for bit", "regrid", "1"),
    ("fourier_gaussian fourier_uniform fourier_ellipsoid fourier_shift", "scipy on float64", "pointwise", "1"),
    ("fourier_filter", "numpy's `fftn` and `ifftn`", "lines", "3; 1 without z"),
    ("predict", "one pass of ONNX Runtime over the whole, bit for bit; blended: numpy, within 1 ulp", "patches", "1"),
    ("pad", "numpy, bit for bit", "regrid", "1"),
    ("flip transpose", "numpy", "regrid", "1; 2 to reverse z or reorder axes of an expression"),
    ("downsample", "tensorstore (means of floats: summed in float64), bit for bit", "regrid", "1"),
    ("upsample", "scipy, bit for bit", "regrid", "1"),
    ("shift zoom affine_transform rotate", "scipy, bit for bit; splines: on float64", "regrid", "1"),
    ("map_coordinates warp", "scipy, bit for bit; splines: on float64", "neighbourhood", "1"),
    ("spline_filter spline_filter1d", "scipy on float64", "neighbourhood", "1"),
    ("coordinates", "numpy", "regrid", "1"),
    ("apply_transforms", "scipy slice by slice, bit for bit", "regrid", "1"),
    ("fuse", "weighted means of all tiles in numpy, and scipy", "regrid", "1"),
    ("min max sum mean std variance all any count_nonzero", "exact sums in numpy",
     "number, also with `axis=`", "1"),
    ("argmax argmin", "numpy", "number, also with `axis=`", "1"),
    ("extrema minimum_position maximum_position center_of_mass", "scipy", "number", "1"),
    ("profile_line", "scikit-image", "table", "1, of boxes along the line"),
    ("covariance correlation", "exact sums, numpy", "number", "1"),
    ("histogram joint_histogram", "numpy", "number", "1; 2 without `range=`"),
    ("estimate_sigma", "PyWavelets' db2 in numpy", "number", "2; 4 for float64 and integers of 32 and 64 bits"),
    ("percentile median", "numpy, `array_equal`; labels scipy", "number", "1 to 16 bits, 2 to 32, 4 to 64; with `axis=` 1 for short lines, otherwise one for each 8 bits"),
    ("threshold_otsu threshold_li threshold_yen threshold_triangle threshold_isodata "
     "threshold_minimum", "scikit-image", "number", "1 for integers to 16 bits, otherwise 2"),
    ("threshold_moments", "the formula of ITK and Fiji; SimpleITK", "number", "1 for integers to 16 bits, otherwise 2"),
    ("threshold_multiotsu", "scikit-image, and an exhaustive search", "number",
     "1 for integers to 16 bits, otherwise 2"),
    ("label", "scipy, `array_equal`; `by_value` scikit-image", "across", "2"),
    ("remove_small_objects remove_small_holes clear_border apply_hysteresis_threshold",
     "scikit-image", "across", "2"),
    ("area_opening area_closing", "scikit-image", "across; neighbourhood for grey values", "2; 1"),
    ("diameter_opening diameter_closing", "scikit-image", "neighbourhood", "1"),
    ("flood flood_fill", "scikit-image", "across", "3"),
    ("keep_largest", "sizes of scipy's labels", "across", "2"),
    ("binary_fill_holes binary_propagation", "scipy", "across", "2"),
    ("distance_transform_edt signed_distance", "scipy",
     "across; neighbourhood with `max_distance=`",
     "2, or 4 where planes do not fit in memory; 1"),
    ("expand_labels", "scikit-image, and all pairs of voxels in numpy", "neighbourhood", "1"),
    ("reconstruction h_maxima h_minima", "scikit-image", "across", "3"),
    ("blob_log blob_dog blob_doh", "scikit-image on float64", "table", "1; 2 with `threshold_rel=`"),
    ("match_template", "scikit-image", "patches", "1"),
    ("canny", "scikit-image, slice by slice", "across", "2; more with `use_quantiles=`"),
    ("local_maxima local_minima", "scikit-image", "across", "2"),
    ("peak_local_max", "scikit-image", "table", "2"),
    ("distance_transform_cdt", "scipy, `array_equal`", "across", "2, or 4 where planes do not fit in memory"),
    ("cumsum", "numpy with an axis, which is 0 by default", "across for integers along the first axis (floats: slice by slice); otherwise along whole rows or columns", "2; 1"),
    ("regionprops_table", "scikit-image on float64", "table", "1; for `label`, its second"),
    ("region_adjacency", "a count of all faces in numpy", "table", "1; for `label`, its second"),
    ("watershed", "the forest of edges in order, in Python; scikit-image except where floods meet", "across",
     "2; 3 with `markers=`"),
    ("map_labels", "a loop over all objects, in Python", "across", "2"),
    ("map_instances", "a loop over all tiles, in Python", "across", "2"),
    ("stitch", "a loop over all blocks, in Python", "across", "2"),
    ("watershed_affinities", "the forest of edges in order, in Python", "across", "2; 3 with `min_size=`"),
    ("agglomerate cut", "a greedy loop over all pairs", "table", "the sweeps of its table"),
    ("find_objects", "scipy", "table", "1"),
    ("labeled_comprehension", "scipy", "table", "1, and each object's box"),
    ("for_each_label", "scipy's `labeled_comprehension`", "table", "1, and each object's box"),
    ("outlines", "shapely on the squares of pixels", "table", "1; for `label`, its second"),
    ("meshes", "closed surfaces of the objects' extents and volumes", "table", "1, and each object's box"),
    ("boundary_scores", "`skimage.segmentation.find_boundaries`", "number", "1"),
    ("find_boundaries mark_boundaries", "scikit-image", "neighbourhood", "1"),
    ("label2rgb", "scikit-image", "pointwise", "1"),
    ("relabel_sequential join_segmentations", "scikit-image", "across", "2"),
    ("contingency segment_iou", "counts of all pairs in numpy", "table", "1"),
    ("variation_of_information adapted_rand_error", "scikit-image", "number", "1"),
    ("ball cube cross", "scikit-image's footprints", "array", "none"),
    ("gaussian_psf", "scipy's `gaussian_filter` of one voxel", "array", "none"),
]  # fmt: skip

#: Kinds of functions, by the word that begins the third column of `FUNCTIONS`.
KINDS = {
    "pointwise": "uses one voxel; fused with any sweep",
    "neighbourhood": "needs a halo; fused with any sweep",
    "patches": "works on patches with a margin, such as a network; fused with any sweep",
    "lines": "transforms whole lines; spectra of slices are stored, and read again along z",
    "regrid": "returns another shape; fused with any sweep",
    "number": "a lazy number; operations that use it need a later sweep",
    "across": "depends on the whole volume: one sweep collects information, which is merged, and the next sweep writes",
    "table": "a lazy table, a list or an array, collected in one sweep and merged",
    "array": "an array that does not depend on a volume",
}

#: Kind and sweeps of a function that the table does not name, by its family in `ops`.
FAMILIES = {
    "pointwise": ("pointwise", "1"),
    "elementary": ("pointwise", "1"),
    "intensity": ("pointwise", "1"),
    "filters": ("neighbourhood", "1"),
    "morphology": ("neighbourhood", "1"),
    "extrema": ("across", "2"),
    "geometry": ("regrid", "1"),
    "interpolation": ("regrid", "1"),
    "measure": ("number", "1"),
    "labels": ("across", "2"),
    "networks": ("patches", "1"),
    "fourier": ("patches", "1"),
}
#: In place of the reference of such a function, which no test names here.
NO_TWIN = "no reference"

#: Functions that are not operations.
AROUND = (
    "open plan compute verify probe_model register_slices register_frames register_tiles register "
    "fit_transform track pixel_classifier open_tiles save_transforms tiles_report"
)

_PER_LABEL = "with the same `labels=` and `index=`"

#: Functions of scipy.ndimage with another name here, or none, and the reason.
SCIPY = {
    "distance_transform_bf": ("distance_transform_edt", "only the Euclidean metric"),
    "generate_binary_structure": ("cross cube", "`cross(1)`, `cube(3)`; or any array"),
    "generic_filter1d": ("map_overlap", "with `depth` along one axis; scipy's function gets whole lines, while a sweep along z "
                         "only holds the slices that it needs"),
    "geometric_transform": ("affine_transform map_coordinates", "with the positions as a volume, and a limit of their distance"),
    "iterate_structure": ("ball cross cube", "with any radius; morphology has `iterations=`"),
    "maximum": ("max", _PER_LABEL),
    "minimum": ("min", _PER_LABEL),
    "standard_deviation": ("std", _PER_LABEL),
    "sum_labels": ("sum", _PER_LABEL),
    "value_indices": ("regionprops_table", "boxes and counts; lists of all voxels are as large as the volume"),
    "vectorized_filter": ("map_overlap", "a function of blocks"),
    "watershed_ift": ("watershed", "basins of a total order instead of a queue; costs of the lowest pass"),
}  # fmt: skip

#: Functions of scikit-image with another name here, or none, and the reason.
SCIKIT = {
    "gaussian": ("gaussian_filter", "integers keep their scale"),
    "rank.mean rank.minimum rank.maximum rank.percentile rank.gradient": (
        "uniform_filter minimum_filter maximum_filter percentile_filter morphological_gradient", ""),
    "rank.geometric_mean rank.majority rank.modal rank.pop rank.windowed_histogram": (
        "generic_filter", "with your function of a neighbourhood"),
    "dilation erosion opening closing": ("grey_dilation grey_erosion grey_opening grey_closing", "scipy's names"),
    "skeletonize thin medial_axis convex_hull_image convex_hull_object": (
        "map_labels", "of whole objects: thinning goes on from all sides until nothing changes, and slabs cannot do it apart"),
    "max_tree max_tree_local_maxima": (
        "area_opening diameter_opening h_maxima", "a tree has as many nodes as the volume has voxels"),
    "remove_objects_by_distance": ("peak_local_max", "each removal depends on those before, of the whole volume"),
    "regionprops": ("regionprops_table for_each_label", "objects are passed to a function"),
    "euler_number perimeter perimeter_crofton inertia_tensor inertia_tensor_eigvals moments moments_central "
    "moments_normalized moments_hu centroid": ("regionprops_table", "a column; moments of order 3 and less"),
    "find_contours marching_cubes mesh_surface_area": ("outlines meshes", "of labels, as tables and files"),
    "pearson_corr_coeff manders_coloc_coeff manders_overlap_coeff": (
        "correlation joint_histogram sum", "Manders' coefficients are quotients of sums"),
    "shannon_entropy blur_effect is_low_contrast cumulative_distribution": ("histogram percentile", "numbers of a histogram"),
    "mean_squared_error normalized_root_mse peak_signal_noise_ratio": ("mean", "of `(a - b) ** 2`"),
    "structural_similarity": ("gaussian_filter uniform_filter", "its local means and variances are filters"),
    "normalized_mutual_information": ("joint_histogram", "a number of it"),
    "hausdorff_distance": ("distance_transform_edt max", "the largest distance to the other mask"),
    "corner_harris corner_shi_tomasi corner_foerstner shape_index": (
        "structure_tensor hessian_matrix_eigvals", "formulas of their elements"),
    "local_binary_pattern graycomatrix hog": ("map_overlap", "scikit-image's, for blocks with a margin"),
    "multiscale_basic_features": ("features", ""),
    "denoise_tv_bregman denoise_wavelet": (
        "denoise_tv_chambolle denoise_nl_means", "their sweeps over the image depend on each other at any distance"),
    "inpaint_biharmonic": ("map_labels", "of each hole in its box, with `pad=`"),
    "unwrap_phase": ("", "the path of unwrapping depends on the whole volume"),
    "random_walker slic felzenszwalb quickshift active_contour chan_vese": (
        "watershed agglomerate pixel_classifier predict", "iterations over the whole image, or a queue of it"),
    "rgb2lab rgb2luv rgb2xyz rgb2ycbcr lab2rgb hsv2rgb": (
        "channels", "formulas of the channels; `rgb2hsv`, `rgb2gray` and stains are there"),
    "resize rescale pyramid_reduce downscale_local_mean": ("zoom downsample", ""),
    "radon iradon hough_line hough_circle": ("", "sums over the whole image along lines"),
    "warp_polar swirl": ("map_coordinates", "with the positions as a volume"),
    "phase_cross_correlation optical_flow_tvl1 optical_flow_ilk": (
        "register register_slices", "translations, rotations and affine maps; dense flow is not offered"),
    "montage": ("concatenate preview", "slices side by side"),
}  # fmt: skip

_V = bv.open(np.arange(60, dtype="u1").reshape(3, 4, 5))
_ASYMMETRIC = [[[1, 1, 0]]]

#: Values of parameters that functions of the same name do not accept here, and calls that are refused.
VALUES = [
    ("affine_transform, rotate, shift, zoom", "`mode=\"wrap\"`, which repeats all voxels but one: `\"grid-wrap\"` repeats the volume",
     [lambda: bv.shift(_V, 1, mode="wrap"), lambda: bv.rotate(_V, 9, mode="wrap")]),
    ("binary morphology", "`iterations=0` (until nothing changes): its extent is not known beforehand; "
     "`binary_propagation` is the exact answer for dilations", [lambda: bv.binary_dilation(_V > 7, iterations=0)]),
    ("binary_fill_holes, binary_propagation, label", "a `structure` that is not symmetric under reflection",
     [lambda: bv.binary_fill_holes(_V > 7, _ASYMMETRIC), lambda: bv.label(_V > 7, _ASYMMETRIC),
      lambda: bv.binary_propagation(_V > 9, _ASYMMETRIC, mask=_V > 7)]),
    ("distance_transform_cdt", "a `metric` other than the two with names and their structures",
     [lambda: bv.distance_transform_cdt(_V > 7, _ASYMMETRIC)]),
    ("affine_transform", "a matrix that reverses z, or a slice that needs more than 256 others, which are held in memory",
     [lambda: bv.affine_transform(_V, np.diag([-1, 1, 1]))]),
    ("distance_transform_cdt", "`return_indices=True`: `distance_transform_edt` has it",
     [lambda: bv.distance_transform_cdt(_V > 7, return_indices=True)]),
]  # fmt: skip

#: Parameters that functions of the same name do not have here, and why; none has scipy's `output=`.
PARAMETERS = {
    "scipy.ndimage": [
        ("binary_closing binary_dilation binary_erosion binary_opening", "brute_force", "changes how scipy iterates, not the result"),
        ("binary_fill_holes binary_propagation", "origin axes", "connectivity has no origin, and applies to all directions"),
        ("binary_propagation", "border_value", "the outside is background"),
        ("distance_transform_cdt distance_transform_edt", "return_distances distances indices", "distances are always returned"),
        ("gaussian_gradient_magnitude gaussian_laplace", "kwargs", "only `truncate=` is passed to `gaussian_filter`"),
        ("fourier_ellipsoid fourier_gaussian fourier_shift fourier_uniform", "n axis", "spectra from `fftn` are complete, and are filtered along all axes"),
        ("generic_filter", "extra_keywords", "the function is compiled with positional arguments; use a closure"),
        ("generic_gradient_magnitude generic_laplace", "extra_arguments", "the derivative is called with keywords: `extra_keywords=`"),
        ("histogram", "min max", "as in numpy: `range=`"),
    ],
    "skimage": [
        ("watershed", "compactness offset", "these act on a queue, and basins of a total order have none"),
        ("area_opening area_closing diameter_opening diameter_closing", "parent tree_traverser", "there is no tree"),
        ("flood_fill", "in_place", "results are new, and nothing is changed in place"),
        ("local_maxima local_minima", "indices", "`peak_local_max` returns positions"),
        ("reconstruction", "offset", "always the centre of the footprint"),
        ("clear_border", "bgval mask", "removed voxels are 0, and the border is the border of the volume"),
        ("difference_of_gaussians unsharp_mask", "channel_axis", "the axis c of a volume always contains channels"),
        ("frangi", "scale_range scale_step", "scikit-image's old names for `sigmas=`"),
        ("hessian_matrix structure_tensor", "order", "elements are in the order z, y, x"),
        ("hessian_matrix", "use_gaussian_derivatives", "always True"),
        ("join_segmentations", "return_mapping", "`contingency(joined, s1)` has the label in `s1` of each joined one"),
        ("label", "return_num", "`Volume.num_labels`"),
        ("regionprops_table", "cache separator", "columns have scikit-image's names with `-`"),
        ("remove_small_holes", "area_threshold", "scikit-image's old name for `max_size=`"),
        ("threshold_isodata threshold_minimum threshold_multiotsu threshold_otsu threshold_yen", "hist", "the histogram is computed here"),
        ("threshold_isodata", "return_all", "the lowest threshold is returned"),
        ("threshold_li", "tolerance initial_guess iter_callback", "computed from counts, until convergence"),
        ("threshold_minimum", "max_num_iter", "scikit-image's default"),
        ("unsharp_mask", "preserve_range", "always True"),
        ("wiener", "K filter_params impulse_response predefined_filter", "`skimage.filters.wiener` is another function"),
        ("wiener", "reg is_real", "always the Laplacian, of real images"),
        ("richardson_lucy", "num_iter", "here `iterations=`"),
        ("richardson_lucy", "filter_epsilon", "divisors below 1e-12 become 1e-12"),
        ("richardson_lucy wiener", "clip", "voxels keep their scale"),
        ("equalize_adapthist match_histograms", "channel_axis", "the axis c of a volume always contains channels"),
        ("rolling_ball", "nansafe workers num_threads", "a result is NaN exactly where the ball contains NaN; `workers=` is an option of a run"),
        ("canny", "mask", "multiply the result by an eroded mask"),
        ("denoise_bilateral", "bins", "weights are computed, not looked up"),
        ("denoise_nl_means", "fast_mode preserve_range", "always True"),
        ("denoise_tv_chambolle", "eps", "all iterations are computed; scikit-image stops by a number of the whole image"),
        ("denoise_bilateral denoise_nl_means denoise_tv_chambolle estimate_sigma", "channel_axis", "the axis c of a volume always contains channels"),
        ("estimate_sigma", "average_sigmas", "one number for all channels; select one with `sel`"),
        ("farid roberts scharr", "mask", "multiply the result by an eroded mask"),
    ],
}  # fmt: skip

#: dask-image's public functions by module, as its version 2025.11 lists them.
DASK = {
    "ndfilters": "convolve correlate gaussian gaussian_filter gaussian_gradient_magnitude gaussian_laplace "
    "generic_filter laplace maximum_filter median_filter minimum_filter percentile_filter prewitt rank_filter "
    "sobel threshold_local uniform_filter",
    "ndfourier": "fourier_gaussian fourier_shift fourier_uniform",
    "ndinterp": "affine_transform map_coordinates rotate spline_filter spline_filter1d",
    "ndmeasure": "area center_of_mass extrema histogram label labeled_comprehension maximum maximum_position "
    "mean median minimum minimum_position standard_deviation sum sum_labels variance",
    "ndmorph": "binary_closing binary_dilation binary_erosion binary_opening",
    "imread": "imread",
}
DASK_ONLY = {
    "area": ("regionprops_table", ""),
    "gaussian": ("gaussian_filter", "an old name"),
    "imread": ("open", ""),
}

#: StackProcessing (arXiv 2601.18407): what its signature file, src/StackProcessing/StackProcessing.fsi of
#: sporring/stackProcessing, lists for images; its plumbing (windows, zips, taps, file names) is left out.
STACK = {
    "read, readFiles, readChunks, readRandom": ("open", "and slicing"),
    "write, writeInChunks, writeChunkSlices": ("Volume.to", "slices are written as PNG or TIFF"),
    "cast": ("Volume.astype", ""),
    "add, sub, mul, div and their pairs and scalars": ("add subtract multiply divide", ""),
    "maxOfPair, minOfPair": ("maximum minimum", "numpy's"),
    "abs, exp, log, sqrt": ("abs exp log sqrt", ""),
    "round, square": ("rint square", "numpy's"),
    "log10, sin, cos, tan, asin, acos, atan": ("log10 sin cos tan arcsin arccos arctan", ""),
    "getMinMax, computeStats": ("min max mean std variance sum", "separate functions, computed in one sweep"),
    "histogram": ("histogram", "bins, not a table of values"),
    "discreteGaussian, convGauss": ("gaussian_filter", ""),
    "convolve, conv": ("convolve", ""),
    "finiteDiff": ("correlate1d", "with the weights of the difference"),
    "erode, dilate, opening, closing": (
        "binary_erosion binary_dilation binary_opening binary_closing", "with `structure=ball(r)`"),
    "binaryFillHoles": ("binary_fill_holes", "for the whole volume"),
    "connectedComponents and its translation tables": ("label", ""),
    "relabelComponents": ("remove_small_objects", "labels are not ordered by size"),
    "watershed": ("watershed", "basins of a total order instead of a queue"),
    "signedDistanceMap": ("signed_distance", ""),
    "otsuThreshold": ("threshold_otsu", ""),
    "momentsThreshold": ("threshold_moments", ""),
    "threshold": ("greater_equal less_equal logical_and", "comparisons"),
    "addNormalNoise": ("random_noise", "the numbers are computed from a seed and the voxel's index"),
    "ImageConstantPad, createPadding": ("pad", ""),
    "permuteAxes": ("transpose", ""),
    "resampleAffineTrilinearSlices": ("affine_transform", "`order=1`"),
    "createByEuler2DTransform": ("affine_transform apply_transforms", "one map for all slices, or one for each"),
    "show, plot": ("view preview", "in a browser, and as an image file"),
}  # fmt: skip

INTRODUCTION = """\
# Functions

This page lists all functions, the reference that tests compare them with, and their number of sweeps over the volume.
Operations share sweeps: a chain takes as many as its longest sequence of dependent operations. A sweep that only writes
is counted for the operation that it writes.
"""

NOTES = """\
`label` of `remove_small_objects`, `keep_largest`, ... takes two sweeps, not four: it reuses the components that these
have found. A label volume (integers) is filtered by value, and a mask by component.
"""


REGIONS = """\
`regionprops_table` has all properties of scikit-image that are numbers. Its `area_filled` reads the boxes of regions from
stored labels, and `for_each_label` passes `image`, `coords` and other arrays of a region to a function.
"""


def current() -> bool:
    """Whether the page is current; functions without a row in the tables may be on it or not."""
    text = PAGE.read_text()
    return text == page({name for name in _unlisted() if f"`{name}`" not in text})


def page(without: Collection[str] = ()) -> str:
    """The whole page; some functions that no table names may be left out."""
    check()
    out = [INTRODUCTION, _table(("Kind", ""), list(KINDS.items()))]
    ufuncs = ("arithmetic, comparisons, logic", "numpy", "pointwise", "1")
    rows = [(_names(names), *facts) for names, *facts in FUNCTIONS]
    shown = _functions() - set(without)
    rows += [row for name in sorted(shown & _unlisted()) if (row := found_row(name)) is not None]
    out += [_table(("function", "checked against", "kind", "sweeps"), [ufuncs, *rows]), NOTES]
    out.append(f"Volumes support these of numpy's ufuncs: {_names(' '.join(sorted(SUPPORTED)))}.\n")
    transforms = [n for n, module in EXPORTS.items() if module == ".transforms" and n != "Slab"]
    around = [*AROUND.split(), *sorted(n for n in shown & _unlisted() if found_row(n) is None)]
    out.append(
        f"These are transforms for your own pipelines: {_names(' '.join(transforms))}.\n"
        f"Other functions are {_names(' '.join(around))}.\n"
    )
    out.append("## Compared with other packages\n\n### scipy.ndimage\n")
    same = sorted(set(ndimage.__all__) & shown)
    out.append(f"Functions with the same name ({len(same)}): {_names(' '.join(same))}.\n")
    others = {name: answer for name, answer in SCIPY.items() if name not in shown}
    out.append(_table(("scipy.ndimage", "here", ""), _others(others)))
    out.append("Functions with the same name do not accept these values of parameters:\n")
    out.append(_table(("function", "without"), [row[:2] for row in VALUES]))
    out.append("They do not have these parameters. None of them has `output=`.\n")
    out.append(_table(("function", "without", ""), _parameters("scipy.ndimage")))
    out.append("### scikit-image\n\nFunctions with the same name do not have these parameters:\n")
    out.append(_table(("function", "without", ""), _parameters("skimage")))
    out.append("Other functions have another name here, or none:\n")
    answers = {_names(names): answer for names, answer in SCIKIT.items()}
    out.append(_table(("scikit-image", "here", ""), _others(answers, code=False)))
    out.append(REGIONS)
    out.append("### dask-image\n")
    known = {**others, **DASK_ONLY}
    for module, names in DASK.items():
        here = [n for n in names.split() if n not in known]
        if here:
            out.append(f"`{module}`, functions with the same name: {_names(' '.join(here))}.\n")
    there = {f"{m}.{n}": known[n] for m, names in DASK.items() for n in names.split() if n in known}
    out.append(_table(("dask-image", "here", ""), _others(there)))
    out.append("### StackProcessing\n")
    out.append(_table(("StackProcessing", "here", ""), _others(STACK, code=False)))
    return "\n".join(out)


def found_row(name: str) -> tuple[str, str, str, str] | None:
    """The row of a function that no table names, by where it lives; None if it is no operation.

    Examples
    --------
    >>> found_row("median_filter")
    ('`median_filter`', 'no reference', 'neighbourhood', '1')
    """
    _, room, *rest = EXPORTS[name].split(".")
    return (f"`{name}`", NO_TWIN, *FAMILIES[rest[0]]) if room == "ops" else None


def check() -> None:
    """Every name is where it should be, and is one."""
    listed = _listed()
    ours = set(listed)  # other functions have rows by their families
    if gone := ours - _functions():
        raise ValueError(f"no functions of beam_volumes: {sorted(gone)}")
    if len(listed) != len(set(listed)):
        raise ValueError(f"listed twice: {sorted({n for n in listed if listed.count(n) > 1})}")
    theirs = set(ndimage.__all__) | {"vectorized_filter"}  # this since scipy 1.16
    _same(set(SCIPY), theirs - ours, "functions of scipy.ndimage without one of the same name here")
    _same(
        {n for names in DASK.values() for n in names.split()} - ours - set(SCIPY),
        set(DASK_ONLY),
        "functions of dask-image alone",
    )
    if unknown := {kind for *_, kind, _ in FUNCTIONS if re.match(r"\w+", kind)[0] not in KINDS}:
        raise ValueError(f"kinds without an explanation: {sorted(unknown)}")
    names_of_scikit = {n for names in SCIKIT for n in names.split()}
    known = {
        n
        for module in (*SKIMAGE, color, metrics, registration, transform, util)
        for n in dir(module)
    }
    known |= {f"rank.{n}" for n in dir(filters.rank)}
    if wrong := (names_of_scikit - known) | (names_of_scikit & ours - set(ndimage.__all__)):
        raise ValueError(
            f"no functions of scikit-image without one of the same name: {sorted(wrong)}"
        )
    for answers in (SCIPY, SCIKIT, DASK_ONLY, STACK):
        for name, (here, _) in answers.items():
            methods = {f"Volume.{m}" for m in dir(bv.Volume)}
            if set(here.split()) - ours - set(bv.__all__) - set(SUPPORTED) - methods:
                raise ValueError(f"{name}: there is no {here}")

    of_scipy = set(ndimage.__all__)  # scikit-image has other functions of these names
    for package, modules, names in (
        ("scipy.ndimage", [ndimage], ours & of_scipy),
        ("skimage", SKIMAGE, ours - of_scipy - FOOTPRINTS),
    ):
        listed_here = {
            (f, p) for fs, ps, _ in PARAMETERS[package] for f in fs.split() for p in ps.split()
        }
        for module in modules:
            for name in names:
                if unexplained := _missing(module, name) - {p for f, p in listed_here if f == name}:
                    raise ValueError(f"{name} of {module.__name__} has {unexplained}, ours has not")
        for name, parameter in listed_here:
            if parameter in inspect.signature(getattr(bv, name)).parameters:
                raise ValueError(f"{name} does have {parameter}")


def _missing(module: Any, name: str) -> set[str]:
    """Parameters of a function of another module that ours of the same name lacks."""
    if not callable(theirs := getattr(module, name, None)):
        return set()
    _, *others = inspect.signature(theirs).parameters
    accepted = {"output", "out", *ALIASES}
    return set(others) - set(inspect.signature(getattr(bv, name)).parameters) - accepted


def _parameters(package: str) -> list[tuple[str, str, str]]:
    return [
        (
            _names(functions),
            ", ".join(f"`{p}=`" for p in parameters.split()).replace("kwargs=", "**kwargs"),
            why,
        )
        for functions, parameters, why in PARAMETERS[package]
    ]


def _same(listed: set[str], real: set[str], what: str) -> None:
    if listed != real:
        raise ValueError(
            f"{what}: not listed {sorted(real - listed)}, no more there {sorted(listed - real)}"
        )


def _listed() -> list[str]:
    """The functions that the table names, and those around them."""
    return [n for names, *_ in FUNCTIONS for n in names.split()] + AROUND.split()


def _unlisted() -> set[str]:
    return _functions() - set(_listed())


def _functions() -> set[str]:
    return {n for n in bv.__all__ if inspect.isfunction(getattr(bv, n))}


def _names(names: str) -> str:
    return ", ".join(f"`{n}`" for n in names.split())


def _others(answers: dict[str, tuple[str, str]], code: bool = True) -> list[tuple[str, str, str]]:
    return [
        (f"`{name}`" if code else name, _names(here) or "left out", why)
        for name, (here, why) in answers.items()
    ]


def _table(head: tuple[str, ...], rows: list) -> str:
    lines = [head, ("---",) * len(head), *rows]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return re.sub(r" +\|", " |", text)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if current() else "docs/reference/coverage.md is not current: make docs")
    PAGE.write_text(page())
