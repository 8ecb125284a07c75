"""Suggestions for names of scipy, scikit-image, numpy and dask that this package does not have.

The package and its volumes share one table. `tests/test_hints.py` evaluates each hint "EXPRESSION is that"
and compares the result with the other library.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection

_FILES = "bv.open opens files"
_WRITES = "bv.compute(volume.to(path)) writes files"
_MANY = "bv.open takes a list or a glob of files"
_SHAPE = (
    "scikit-image's works here, as footprint= and structure=; bv.ball, bv.cube and bv.cross are 3-D"
)
_SLICES = "volumes are cropped by slices, v[10:20]"
_UFUNC = "np.{} works on volumes, and is lazy"
_NOT_OFFERED = "it is not offered"
_OF_ALL = "it is not offered: each voxel depends on the whole image"
_THINNED = (
    "it is not offered: thinning goes on from all sides until nothing changes, in no order that sweeps have; "
    "bv.map_labels gives each object to a function such as skimage.morphology.skeletonize"
)
_PARTS = "it is not offered; {} do its parts"
_COUNTS = (
    "bv.regionprops_table(labels, properties=['num_pixels']) counts the voxels of each label, and "
    "bv.histogram of each value"
)
_BALL = "bv.ball(radius, mask.ndim)"
_ERODED = f"bv.binary_erosion(mask, {_BALL}, border_value=1)"
_DILATED = f"bv.binary_dilation(mask, {_BALL})"
_RANGE = "(v / 255) rescales, v.astype() converts, and bv.rescale_intensity stretches"
_AXES = "bv.transpose reorders the axes, and bv.flip reverses them"

#: Names of other libraries, and what to use here.
INSTEAD = {
    # files
    **dict.fromkeys(("imread", "read", "open_zarr", "from_zarr", "from_url"), _FILES),
    "load": f"{_FILES}, and np.asarray computes an array",
    **dict.fromkeys(("imread_collection", "ImageCollection", "MultiImage"), _MANY),
    **dict.fromkeys(("imsave", "imwrite", "save", "to_zarr", "store", "write"), _WRITES),
    # dask
    "run": "bv.compute computes and writes",
    "map_blocks": "bv.map_overlap(function, v) is that",
    "rechunk": "v.to(path, chunks=...) stores other chunks",
    "from_array": "bv.open opens arrays",
    "asarray": "np.asarray computes an array, and bv.open opens one",
    "array": "bv.open opens arrays",
    "from_zarr": f"{_FILES}, and arrays of zarr",
    "persist": "bv.compute(v.to(path)) stores it, and gives a volume that reads it",
    # numbers of a volume
    "var": "bv.variance(v) is that",
    "quantile": "bv.percentile(v, 100 * q) is that",
    "average": "bv.mean(v) is that",
    "standard_deviation": "bv.std(v) is that",
    "threshold_mean": "bv.mean(v) is that",
    **dict.fromkeys(("amax", "amin"), "bv.max and bv.min are numpy's"),
    "ptp": "bv.max(v) - bv.min(v) is that",
    "prod": "np.exp(bv.sum(np.log(v))) is that, rounded, for voxels above 0",
    "norm": "np.sqrt(bv.sum(v.astype(float) ** 2)) is that",
    **dict.fromkeys(("unique", "bincount"), _COUNTS),
    **dict.fromkeys(
        ("argrelmax", "argrelextrema"), "bv.local_maxima and bv.peak_local_max find maxima"
    ),
    "argrelmin": "bv.local_minima finds minima",
    "nanargmax": "bv.argmax(v, nan='omit') leaves out NaN",
    "nanargmin": "bv.argmin(v, nan='omit') leaves out NaN",
    **{
        f"nan{n}": f"bv.{n}(v, nan='omit') is that, where no voxel is infinite"
        for n in ("max", "min", "mean", "sum", "std")
    },
    "nanvar": "bv.variance(v, nan='omit') is that, where no voxel is infinite",
    "nanmedian": "bv.percentile(v, 50, nan='omit') is that, where no voxel is infinite",
    "nanpercentile": "bv.percentile(v, q, nan='omit') is that, where no voxel is infinite",
    **{n: f"np.{n}(v, w) is that" for n in ("allclose", "isclose", "array_equal")},
    # of each label
    "regionprops": "did you mean 'regionprops_table'?",
    "value_indices": "bv.find_objects has boxes of labels, and bv.for_each_label their voxels",
    "sum_labels": "bv.sum(v, labels=labels, index=old) is that, for the labels old",
    "centroid": "bv.center_of_mass(v) is that; bv.regionprops_table has the centroids of labels",
    **dict.fromkeys(
        ("moments", "moments_central", "moments_normalized", "moments_hu"),
        "bv.regionprops_table(labels, properties=['moments_central']) has them for each label",
    ),
    "maximum": "np.maximum(v, w) is that; bv.max is a number, with labels= one for each label, and "
    "bv.maximum_filter takes neighbourhoods",
    "minimum": "np.minimum(v, w) is that; bv.min is a number, with labels= one for each label, and "
    "bv.minimum_filter takes neighbourhoods",
    "map_array": "bv.relabel(labels, (old, new), missing=0) is that",
    "contingency_table": "bv.contingency counts the voxels of each pair of labels, as a table",
    "marching_cubes": "bv.meshes writes surfaces",
    "mesh_surface_area": "bv.regionprops_table has surface_area_faces, which counts faces of voxels",
    "watershed_ift": "bv.watershed takes markers; where floods meet, its basins may differ",
    "generate_binary_structure": "structure= takes an array, and connectivity= a number",
    "iterate_structure": "iterations= repeats a structure",
    # filters and morphology
    "gaussian": "bv.gaussian_filter(v, sigma, mode='nearest') is that, of floats; integers are scaled there",
    **dict.fromkeys(("uniform", "box_filter", "mean_filter"), "did you mean 'uniform_filter'?"),
    "gradient": "bv.correlate1d(v, [-0.5, 0, 0.5], axis) is that, except at the ends of the axis; "
    "bv.morphological_gradient subtracts the minimum of a footprint from its maximum",
    **{
        f"{name}_{way}": f"bv.{name}(v, axis={axis}) / {by} is that, of floats; integers are scaled there"
        for name, by in (("sobel", 4), ("prewitt", 3))
        for axis, way in enumerate("hv")
    },
    **{
        f"{name}_{way}": f"bv.{name}(v, axis={axis}) is that, of floats; integers are scaled there"
        for name in ("scharr", "farid")
        for axis, way in enumerate("hv")
    },
    "hessian": "it is not offered; bv.sato and bv.frangi find ridges",
    "hessian_matrix_det": "bv.blob_doh finds its maxima; bv.hessian_matrix has the derivatives",
    "rank": "bv.entropy, bv.autolevel, bv.median_filter, bv.rank_filter and others are there, without it",
    "otsu": "bv.threshold_otsu is of a whole volume; bv.threshold_local takes neighbourhoods",
    **{
        n: f"bv.grey_{n}(v, footprint=bv.cross(1, v.ndim)) is that; bv.binary_{n} is for masks"
        for n in ("dilation", "erosion", "opening", "closing")
    },
    **dict.fromkeys(
        ("convex_hull_image", "convex_hull_object"),
        "bv.map_labels gives each object to a function such as skimage.morphology.convex_hull_image",
    ),
    "match_segments": "bv.segment_iou is a table of the best partners, with their IoU and dice",
    "montage": "np.concatenate(np.asarray(v), axis=1) puts the slices of a small volume side by side",
    "z_project": "v.max(axis='z') is that, and v.mean(axis='z') averages",
    **dict.fromkeys(("skeletonize", "thin", "medial_axis"), _THINNED),
    "isotropic_erosion": f"{_ERODED} is that",
    "isotropic_dilation": f"{_DILATED} is that",
    "isotropic_opening": f"{_DILATED.replace('mask,', _ERODED + ',')} is that",
    "isotropic_closing": f"{_ERODED.replace('mask,', _DILATED + ',')} is that",
    "ellipsoid_kernel": "scikit-image's works here, as kernel= of bv.rolling_ball",
    **dict.fromkeys(
        ("ball_kernel", "disk", "diamond", "octahedron", "footprint_rectangle", "star", "square"),
        _SHAPE,
    ),
    "distance_transform": "did you mean 'distance_transform_edt'?",
    "distance_transform_bf": "bv.distance_transform_edt(mask) is that, with metric='euclidean'",
    # intensities and dtypes
    **dict.fromkeys(
        (
            *(
                "img_as_float",
                "img_as_float32",
                "img_as_float64",
                "img_as_ubyte",
                "img_as_uint",
                "img_as_int",
            ),
            *("img_as_bool", "normalize"),
        ),
        _RANGE,
    ),
    "invert": "~mask is that, and 255 - v of bytes",
    "equalize": "it is not offered; bv.equalize_hist takes the whole volume, and bv.equalize_adapthist tiles",
    # shapes
    "crop": f"{_SLICES}; the box of a label is bbox in bv.regionprops_table",
    "slice": _SLICES,
    "resize": "bv.zoom resamples by any factors, and bv.downsample takes means of blocks",
    "rescale": "bv.zoom resamples, and bv.rescale_intensity changes the values",
    "downscale_local_mean": "bv.downsample(v.astype(float), factors) is that, where factors divide the shape",
    **dict.fromkeys(
        ("block_reduce", "coarsen"),
        "bv.downsample takes the mean, minimum, maximum, median or mode of blocks",
    ),
    "pyramid_reduce": "it is not offered; bv.gaussian_filter and bv.downsample do its parts",
    **dict.fromkeys(
        ("pyramid_gaussian", "multiscale"),
        "v.to('x.ome.zarr', levels='auto') stores a pyramid of means",
    ),
    "estimate_transform": "bv.fit_transform fits one to pairs of points",
    "phase_cross_correlation": "bv.register finds the shift of two volumes",
    "ransac": "bv.fit_transform has max_residual=",
    "geometric_transform": (
        "it is not offered; bv.affine_transform takes a matrix, and bv.map_coordinates a volume of positions"
    ),
    **dict.fromkeys(
        ("AffineTransform", "matrix_transform"), "bv.affine_transform takes a matrix, of z, y, x"
    ),
    **dict.fromkeys(("rot90", "swapaxes", "moveaxis", "fliplr", "flipud"), _AXES),
    "roll": "bv.concatenate([v[-n:], v[:-n]]) is that, with axis=0",
    "vstack": "bv.concatenate([v, w], axis=0) is that",
    "hstack": "bv.concatenate([v, w], axis=1) is that",
    "dstack": "bv.concatenate([v, w], axis=2) is that",
    "append": "bv.concatenate([v, w]) is that, with axis=0",
    "concatenate_images": _MANY,
    **dict.fromkeys(("reshape", "ravel", "flatten"), "a volume keeps its axes"),
    "squeeze": "v[0] drops an axis",
    **dict.fromkeys(("zeros", "ones", "full", "empty"), "bv.open(np.zeros(shape)) makes a volume"),
    # numpy's functions of voxels
    **{
        name: _UFUNC.format(name)
        for name in (
            *("ceil", "floor", "rint", "round", "sign", "add", "subtract", "multiply", "divide"),
            *("isnan", "isfinite", "isinf", "nan_to_num", "square", "logical_and", "logical_or"),
            *("logical_not", "diff", "copy", "fabs", "fmax", "fmin"),
            *("acos", "asin", "atan", "atan2", "pow"),
        )
    },
    # convolutions of scipy.signal
    **dict.fromkeys(
        ("convolve2d", "oaconvolve"),
        "bv.convolve(v, weights, mode='constant') is that, with mode='same'",
    ),
    "correlate2d": "bv.correlate(v, weights, mode='constant') is that, with mode='same'",
    **dict.fromkeys(
        ("deconvolve", "unsupervised_wiener"), "bv.richardson_lucy and bv.wiener deconvolve"
    ),
    "order_filter": "bv.rank_filter selects a voxel of a footprint by its rank",
    "multiscale_basic_features": "bv.features computes them as channels",
    # beyond neighbourhoods, or not offered
    **dict.fromkeys(
        (*("denoise_wavelet", "decimate", "resample"),),
        _OF_ALL,
    ),
    "denoise_tv_bregman": "bv.denoise_tv_chambolle minimizes the total variation",
    **dict.fromkeys(
        (
            *("correlation_lags", "lab2rgb"),
            *("threshold", "mean_percentile", "pop_percentile", "sum_percentile"),
            *("mean_bilateral", "noise_filter"),
        ),
        _NOT_OFFERED,
    ),
    **dict.fromkeys(
        ("hog", "local_binary_pattern", "graycomatrix"),
        "bv.map_overlap gives blocks with a margin to a function of scikit-image",
    ),
    **dict.fromkeys(
        ("max_tree", "max_tree_local_maxima"),
        "a tree has as many nodes as the volume has voxels; bv.area_opening, bv.diameter_opening and "
        "bv.h_maxima filter by components",
    ),
    "find_contours": "bv.outlines traces labels, and objects of a mask",
    **dict.fromkeys(
        ("mean_squared_error", "peak_signal_noise_ratio"),
        "bv.mean((v - w) ** 2) is the mean of squares",
    ),
    **dict.fromkeys(
        ("pearson_corr_coeff", "manders_overlap_coeff"),
        "bv.correlation(v, w) compares two channels",
    ),
    "manders_coloc_coeff": "bv.sum(v, mask=mask) / bv.sum(v) is that",
    **dict.fromkeys(
        ("perimeter", "perimeter_crofton", "euler_number", "inertia_tensor"),
        "bv.regionprops_table(labels) has it for each label, by its name in properties=",
    ),
    **dict.fromkeys(
        ("generic_filter1d", "vectorized_filter"),
        "it is not offered; bv.generic_filter takes a compiled function of neighbourhoods",
    ),
    "butterworth": "bv.fourier_filter multiplies frequencies by any function of them",
    **dict.fromkeys(
        ("fft", "ifft", "fft2", "ifft2", "rfft", "irfft"),
        "bv.fftn, bv.rfftn and their inverses transform along any axes",
    ),
    **dict.fromkeys(
        ("random_walker", "slic", "felzenszwalb", "active_contour", "chan_vese", "quickshift"),
        "it is not offered; bv.watershed, bv.agglomerate and bv.predict segment",
    ),
}


def hint(name: str, known: Collection[str]) -> str:
    """Suggest a public name instead of another one; "" without a suggestion.

    Names of numpy are not treated as misspelt: `sort` is not `sqrt`.

    Examples
    --------
    >>> hint("gausian_filter", ["gaussian_filter", "label"]), hint("li", ["threshold_li"])
    ("did you mean 'gaussian_filter'?", "did you mean 'threshold_li'?")
    >>> hint("imread", []), hint("nothing", []), hint("sort", ["sqrt"])
    ('bv.open opens files', '', '')
    """
    if name.startswith("_"):
        return ""
    if name in INSTEAD:
        return INSTEAD[name]
    import numpy as np

    if hasattr(np, name):
        return ""
    close = difflib.get_close_matches(name, known, 1, 0.75)
    if not close:  # a word of a longer name
        words = set(name.lower().split("_"))
        close = sorted((k for k in known if words <= set(k.lower().split("_"))), key=len)
    return f"did you mean {close[0]!r}?" if close else ""


#: Attributes of arrays of other libraries, and what to use here.
INSTEAD_OF_METHODS = {
    "values": "np.asarray(v) computes the array",
    "to_numpy": "np.asarray(v) computes the array",
    "data": "np.asarray(v) computes the array",
    "numpy": "np.asarray(v) computes the array",
    "tolist": "np.asarray(v).tolist() computes the voxels",
    "reshape": "a volume keeps its axes; np.asarray(v).reshape(...) computes an array first",
    "ravel": "a volume keeps its axes; np.asarray(v).ravel() computes an array first",
    "flatten": "a volume keeps its axes; np.asarray(v).ravel() computes an array first",
    "rechunk": "v.to(path, chunks=...) stores other chunks",
    "numblocks": "v.chunks is the shape of a stored chunk",
    "fill": "a volume is never changed; bv.where(mask, v, 0) makes a new one",
    "view": "v.astype(dtype) converts; bv.view(v) shows the volume",
    "coords": "v.origin and v.voxel_size are the position and size of voxels",
    "persist": "v.to(path) and bv.compute store it, and give a volume that reads it",
    "save": "bv.compute(v.to(path)) writes it",
    "to_zarr": "bv.compute(v.to('out.zarr')) writes it",
    "plot": "np.asarray(v[0]) is an array to be shown",
    "isel": "v.sel(c=...) chooses channels, and v[10:20] slices",
    "dims": "v.axes are the names of the axes",
    "name": "v.to(path) gives it a place; it has no name",
}


def method_hint(name: str, methods: Collection[str], exports: Collection[str]) -> str:
    """Suggest something for an attribute that volumes lack; "" without a suggestion."""
    if name in INSTEAD_OF_METHODS:
        return f": {INSTEAD_OF_METHODS[name]}"
    if name in exports:
        return f": write bv.{name}(v, ...)"
    if name in INSTEAD:
        return f": {INSTEAD[name]}"
    if close := difflib.get_close_matches(name, methods, 1, 0.7):
        return f"; did you mean {close[0]!r}?"
    if close := difflib.get_close_matches(name, exports, 1, 0.75):
        return f"; did you mean bv.{close[0]}(v, ...)?"
    return ""
