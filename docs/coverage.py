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
from beam_volumes.base.hints import ALIASES, INSTEAD, LIBRARIES
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.graph.elementwise import SUPPORTED

SKIMAGE = [exposure, feature, filters, measure, morphology, restoration, segmentation]
#: All modules of scikit-image with functions that are compared.
SCIKIT = [*SKIMAGE, filters.rank, color, metrics, registration, transform, util]
FOOTPRINTS = {"ball", "cube", "cross"}

PAGE = Path(__file__).parent / "reference/coverage.md"

#: Functions, what tests hold them against, kind, sweeps.
FUNCTIONS = [
    ("abs clip exp log sqrt where", "numpy", "pointwise", "1"),
    ("arccos arcsin arctan arctan2 cos cosh expm1 log10 log1p log2 power sin sinh tan tanh",
     "numpy in wider floats, within 2 ulp", "pointwise", "1"),
    ("adjust_gamma adjust_log adjust_sigmoid", "scikit-image", "pointwise", "1"),
    ("rgb2hed hed2rgb separate_stains combine_stains rgb2gray rgb2hsv hsv2rgb rgb2lab lab2rgb", "scikit-image on float64", "pointwise", "1"),
    ("rescale_intensity", "scikit-image", "pointwise", "1; 2 with `in_range=\"image\"`"),
    ("random_noise", "moments, counts and scikit-image's scale", "pointwise", "1; 2 if the smallest voxel decides"),
    ("fill_missing", "numpy.interp, slice by slice", "neighbourhood; number, then neighbourhood, with `nodata`", "1; 2"),
    ("normalize_slices", "numpy, scikit-image, slice by slice", "number, then pointwise",
     "2; for percentiles, one for each 8 bits and one"),
    ("fit_bias", "numpy's least squares, slice by slice", "number, then pointwise", "2"),
    ("n4_bias_field_correction", "SimpleITK", "number, then pointwise", "2"),
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
    ("skeletonize", "its topology and width, and the place of scikit-image's", "neighbourhood", "1"),
    ("entropy autolevel enhance_contrast local_rank", "scikit-image", "neighbourhood", "1"),
    ("rolling_ball", "scikit-image, bit for bit", "neighbourhood", "1"),
    ("denoise_bilateral", "scikit-image with centred distances, and the formula along three axes", "neighbourhood",
     "1; 2 without `sigma_color=`"),
    ("denoise_nl_means", "the formula on float64", "neighbourhood", "1"),
    ("denoise_tv_chambolle", "scikit-image with `eps=0`", "neighbourhood", "1"),
    ("gradient_anisotropic_diffusion curvature_anisotropic_diffusion", "SimpleITK", "neighbourhood",
     "6; 1, and 1 for each mean of the gradient"),
    ("unsharp_mask difference_of_gaussians threshold_local threshold_niblack threshold_sauvola",
     "scikit-image on float64", "neighbourhood", "1"),
    ("scharr farid roberts gabor", "scikit-image on float64", "neighbourhood", "1"),
    ("denoise_wiener", "scipy.signal's `wiener` on float64", "neighbourhood", "1; 2 without `noise=`"),
    ("structure_tensor structure_tensor_eigenvalues hessian_matrix hessian_matrix_eigvals sato",
     "scikit-image on float64", "neighbourhood", "1"),
    ("frangi", "scikit-image on float64", "neighbourhood", "1; 2 without `gamma=`"),
    ("meijering", "scikit-image on float64", "neighbourhood", "2"),
    ("features shape_index local_binary_pattern", "scikit-image", "neighbourhood", "1"),
    ("classify", "scikit-learn, bit for bit; probabilities of boosted trees within 1e-15", "pointwise", "1"),
    ("generic_filter", "scipy with the same function", "neighbourhood", "1"),
    ("map_overlap", "the function on the whole array", "neighbourhood", "1"),
    ("fftconvolve", "scipy's `convolve` on float64", "patches", "1"),
    ("richardson_lucy wiener", "scikit-image on float64, away from the edges", "patches", "1"),
    ("richardson_lucy_residuals", "the result of `richardson_lucy`, convolved", "number", "1"),
    ("fftn ifftn rfftn", "numpy", "lines", "3; 1 without z"),
    ("irfftn", "numpy", "lines", "2; 1 without z"),
    ("fftshift ifftshift", "numpy, bit for bit", "regrid", "1"),
    ("fourier_gaussian fourier_uniform fourier_ellipsoid fourier_shift", "scipy on float64", "pointwise", "1"),
    ("fourier_filter", "numpy's `fftn` and `ifftn`", "lines", "3; 1 without z"),
    ("butterworth", "scikit-image on float64", "lines", "3; 1 without z"),
    ("predict", "one pass of ONNX Runtime over the whole, bit for bit; blended: numpy, within 1 ulp", "patches", "1"),
    ("pad", "numpy, bit for bit", "regrid", "1"),
    ("flip transpose", "numpy", "regrid", "1; 2 to reverse z or reorder axes of an expression"),
    ("downsample", "tensorstore (means of floats: summed in float64), bit for bit", "regrid", "1"),
    ("upsample", "scipy, bit for bit", "regrid", "1"),
    ("shift zoom affine_transform rotate", "scipy, bit for bit; splines: on float64", "regrid", "1"),
    ("resize rescale", "scikit-image on floats", "regrid", "1; up to 3 for clipping with `order=2` to `5`"),
    ("resample", "SimpleITK", "regrid", "1; up to 3 for clipping with `order=2` to `5`"),
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
    (
        "mean_squared_error normalized_root_mse peak_signal_noise_ratio structural_similarity",
        "scikit-image",
        "number",
        "1",
    ),
    ("normalized_mutual_information hausdorff_distance", "scikit-image", "number", "2"),
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
    ("skeleton_table", "a walk along every branch, in Python", "table", "2"),
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
    ("label2rgb", "scikit-image", "pointwise; across, for `kind=\"avg\"`", "1; 2"),
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
    "patches": "processes patches with a margin, such as a network; fused with any sweep",
    "lines": "transforms whole lines; spectra of slices are stored and read again along z",
    "regrid": "returns a different grid or shape; fused with any sweep",
    "number": "a lazy number; operations that use it need a later sweep",
    "across": "depends on the whole volume: the first sweep collects information, which is merged, and the next sweep writes the result",
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
    "register_elastic estimate_flat_field match_tiles fit_transform track pixel_classifier open_tiles "
    "open_transform save_transforms tiles_report"
)

_V = bv.open(np.arange(60, dtype="u1").reshape(3, 4, 5))
_ASYMMETRIC = [[[1, 1, 0]]]

#: Values of parameters that functions of the same name do not accept here, and calls that are refused.
VALUES = [
    ("affine_transform, rotate, shift, zoom", "`mode=\"wrap\"`, which repeats all voxels but one: use `\"grid-wrap\"` to repeat the volume",
     [lambda: bv.shift(_V, 1, mode="wrap"), lambda: bv.rotate(_V, 9, mode="wrap")]),
    ("binary morphology", "`iterations=0` (until nothing changes): its extent is not known in advance; use "
     "`binary_propagation` for dilations", [lambda: bv.binary_dilation(_V > 7, iterations=0)]),
    ("binary_fill_holes, binary_propagation, label", "a `structure` that is not symmetric under reflection",
     [lambda: bv.binary_fill_holes(_V > 7, _ASYMMETRIC), lambda: bv.label(_V > 7, _ASYMMETRIC),
      lambda: bv.binary_propagation(_V > 9, _ASYMMETRIC, mask=_V > 7)]),
    ("distance_transform_cdt", "a `metric` other than the two named metrics and their structures",
     [lambda: bv.distance_transform_cdt(_V > 7, _ASYMMETRIC)]),
    ("affine_transform", "a matrix that reverses z, or slices that need more than 256 input slices, which are held in memory",
     [lambda: bv.affine_transform(_V, np.diag([-1, 1, 1]))]),
    ("distance_transform_cdt", "`return_indices=True`: use `distance_transform_edt`",
     [lambda: bv.distance_transform_cdt(_V > 7, return_indices=True)]),
]  # fmt: skip

#: Parameters that functions of the same name do not have here, and why; none has scipy's `output=`.
PARAMETERS = {
    "scipy.ndimage": [
        ("binary_closing binary_dilation binary_erosion binary_opening", "brute_force", "only changes how scipy iterates, not the result"),
        ("binary_fill_holes binary_propagation", "origin axes", "connectivity has no origin, and applies to all directions"),
        ("binary_propagation", "border_value", "the outside is background"),
        ("distance_transform_cdt distance_transform_edt", "return_distances distances indices", "distances are always returned"),
        ("gaussian_gradient_magnitude gaussian_laplace", "kwargs", "only `truncate=` is passed to `gaussian_filter`"),
        ("fourier_ellipsoid fourier_gaussian fourier_shift fourier_uniform", "n axis", "spectra from `fftn` are complete and filtered along all axes"),
        ("generic_filter", "extra_keywords", "the function is compiled with positional arguments; use a closure"),
        ("generic_gradient_magnitude generic_laplace", "extra_arguments", "the derivative is called with keywords: `extra_keywords=`"),
        ("histogram", "min max", "as in numpy: `range=`"),
    ],
    "skimage": [
        ("watershed", "compactness offset", "these require a queue, which this algorithm does not use"),
        ("area_opening area_closing diameter_opening diameter_closing", "parent tree_traverser", "no tree is used"),
        ("flood_fill", "in_place", "volumes are never changed in place"),
        ("local_maxima local_minima", "indices", "`peak_local_max` returns positions"),
        ("skeletonize", "method", "one method for two and three dimensions"),
        ("reconstruction", "offset", "always the centre of the footprint"),
        ("clear_border", "bgval mask", "removed voxels are 0; only the border of the volume is used"),
        ("butterworth difference_of_gaussians unsharp_mask", "channel_axis", "the axis c of a volume always contains channels"),
        ("frangi", "scale_range scale_step", "scikit-image's old names for `sigmas=`"),
        ("hessian_matrix structure_tensor", "order", "elements are in the order z, y, x"),
        ("hessian_matrix", "use_gaussian_derivatives", "always True"),
        ("join_segmentations", "return_mapping", "`contingency(joined, s1)` returns the label in `s1` for each joined label"),
        ("label", "return_num", "`Volume.num_labels`"),
        ("regionprops_table", "cache separator", "columns have scikit-image's names with `-`"),
        ("remove_small_holes", "area_threshold", "scikit-image's old name for `max_size=`"),
        ("threshold_isodata threshold_minimum threshold_multiotsu threshold_otsu threshold_yen", "hist", "the histogram is always computed"),
        ("threshold_isodata", "return_all", "the lowest threshold is returned"),
        ("threshold_li", "tolerance initial_guess iter_callback", "computed from counts, until convergence"),
        ("threshold_minimum", "max_num_iter", "always scikit-image's default"),
        ("unsharp_mask", "preserve_range", "always True"),
        ("wiener", "K filter_params impulse_response predefined_filter", "`skimage.filters.wiener` is another function"),
        ("wiener", "reg is_real", "always the Laplacian; images are real"),
        ("resize rescale", "preserve_range", "always True"),
        ("rescale", "channel_axis", "the axis c of a volume always contains channels"),
        ("richardson_lucy", "num_iter", "called `iterations=` here"),
        ("richardson_lucy", "filter_epsilon", "divisors below 1e-12 become 1e-12"),
        ("richardson_lucy wiener", "clip", "voxels keep their scale"),
        ("equalize_adapthist match_histograms", "channel_axis", "the axis c of a volume always contains channels"),
        ("rolling_ball", "nansafe workers num_threads", "a result is NaN exactly where the ball contains NaN; `workers=` is an option of a run"),
        ("canny", "mask", "multiply the result by an eroded mask"),
        ("denoise_bilateral", "bins", "weights are computed exactly"),
        ("denoise_nl_means", "fast_mode preserve_range", "always True"),
        ("denoise_tv_chambolle", "eps", "all iterations are computed; the criterion of scikit-image depends on the whole image"),
        ("denoise_bilateral denoise_nl_means denoise_tv_chambolle estimate_sigma", "channel_axis", "the axis c of a volume always contains channels"),
        ("estimate_sigma", "average_sigmas", "one number for all channels; select a channel with `sel`"),
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
INTRODUCTION = """\
# How functions are checked

This page lists all functions, the reference that tests compare them with, and their number of sweeps over the volume.
Operations share sweeps: a chain takes as many sweeps as its longest sequence of dependent operations. A sweep that only
writes a result is counted for the operation that computes it.
"""

NOTES = """\
`label` of `remove_small_objects`, `keep_largest`, ... takes two sweeps, not four, because it reuses their components.
Label volumes (integers) are filtered by value, and masks by component.
"""


REGIONS = """\
`regionprops_table` supports all numeric properties of scikit-image. Its `area_filled` reads the bounding boxes of regions
from stored labels. `for_each_label` passes `image`, `coords` and other arrays of a region to a function.
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
    out.append(_others("scipy.ndimage", _theirs([ndimage], shown)))
    out.append("Functions with the same name do not accept these parameter values:\n")
    out.append(_table(("function", "without"), [row[:2] for row in VALUES]))
    out.append("They do not have these parameters. None of them has `output=`.\n")
    out.append(_table(("function", "without", ""), _parameters("scipy.ndimage")))
    out.append("### scikit-image\n\nFunctions with the same name do not have these parameters:\n")
    out.append(_table(("function", "without", ""), _parameters("skimage")))
    out.append("These functions have a different name here, or are not available:\n")
    out.append(_others("scikit-image", _theirs(SCIKIT, shown)))
    out.append(REGIONS)
    out.append("### dask-image\n")
    for module, names in DASK.items():
        here = [n for n in names.split() if n in shown]
        if here:
            out.append(f"`{module}`, functions with the same name: {_names(' '.join(here))}.\n")
    out.append(_others("dask-image", {n for ns in DASK.values() for n in ns.split()} - shown))
    for library, answers in LIBRARIES.items():
        names = {n for ns, _ in answers for n in ns.split()}
        out.append(f"### {library}\n")
        out.append(_others(library, names))
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
    if unknown := {kind for *_, kind, _ in FUNCTIONS if re.match(r"\w+", kind)[0] not in KINDS}:
        raise ValueError(f"kinds without an explanation: {sorted(unknown)}")
    theirs = {*ndimage.__all__, *(n for names in DASK.values() for n in names.split())}
    if unanswered := theirs - ours - set(INSTEAD):
        raise ValueError(f"functions without an answer in hints.py: {sorted(unanswered)}")
    if wrong := _functions() & set(INSTEAD):
        raise ValueError(f"hints.py answers for functions of beam_volumes: {sorted(wrong)}")

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


def _listed() -> list[str]:
    """The functions that the table names, and those around them."""
    return [n for names, *_ in FUNCTIONS for n in names.split()] + AROUND.split()


def _unlisted() -> set[str]:
    return _functions() - set(_listed())


def _functions() -> set[str]:
    return {n for n in bv.__all__ if inspect.isfunction(getattr(bv, n))}


def _names(names: str) -> str:
    return ", ".join(f"`{n}`" for n in names.split())


def _theirs(modules: list[Any], ours: set[str]) -> set[str]:
    """Names of functions of modules that are not in `ours`, and that have an answer here."""
    names = {n for m in modules for n in getattr(m, "__all__", dir(m)) if callable(getattr(m, n))}
    return (names & set(INSTEAD)) - ours


def _others(library: str, names: set[str]) -> str:
    """A table of what to use here, with a row for names that have the same answer."""
    rows: dict[str, list[str]] = {}
    for name in INSTEAD:
        if name in names:
            rows.setdefault(INSTEAD[name], []).append(name)
    return _table((library, "here"), [(_names(" ".join(ns)), text) for text, ns in rows.items()])


def _table(head: tuple[str, ...], rows: list) -> str:
    lines = [head, ("---",) * len(head), *rows]
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return re.sub(r" +\|", " |", text)


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if current() else "docs/reference/coverage.md is not current: make docs")
    PAGE.write_text(page())
