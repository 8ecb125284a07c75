"""What scipy, scikit-image, numpy and dask have under other names than this package: what to type here.

People type first what they know. One table answers them, whoever is asked: the package, or a volume.
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
_REGIONS = "bv.regionprops_table(labels, intensity, properties=[{}]) measures each label"
_BLOCK = "it is not offered; bv.map_overlap(function, v, depth=...) applies a function to overlapping blocks"
_RANGE = "(v / 255) rescales, v.astype() converts, and bv.rescale_intensity stretches"
_AXES = "bv.transpose reorders the axes, and bv.flip reverses them"

#: Names that are elsewhere, and what does it here.
INSTEAD = {
    # files
    **dict.fromkeys(("imread", "read", "open_zarr", "from_zarr", "from_url"), _FILES),
    "load": f"{_FILES}, and np.asarray computes an array",
    **dict.fromkeys(("imread_collection", "ImageCollection", "MultiImage"), _MANY),
    **dict.fromkeys(("imsave", "imwrite", "save", "to_zarr", "store", "write"), _WRITES),
    # dask
    "run": "bv.compute computes and writes",
    "map_blocks": "bv.map_overlap(function, v, depth=0) is that",
    "rechunk": "v.to(path, chunks=...) stores other chunks",
    "from_array": "bv.open opens arrays",
    "asarray": "np.asarray computes an array, and bv.open opens one",
    "array": "bv.open opens arrays",
    "from_zarr": f"{_FILES}, and arrays of zarr",
    "persist": "bv.compute(v.to(path)) stores it, and gives a volume that reads it",
    # numbers of a volume
    "var": "variance is what it is called",
    "median": "percentile(v, 50) is the median, and median_filter that of neighbourhoods",
    "quantile": "percentile(v, 100 * q) gives it",
    "average": "mean is what it is called",
    "standard_deviation": "std is what it is called",
    "threshold_mean": "mean is that",
    "ptp": "max and min give it",
    "prod": "sum of the log gives its logarithm",
    "norm": "sqrt(sum(v * v)) gives it",
    "unique": "regionprops_table counts voxels of each label, and histogram those of each value",
    "bincount": "regionprops_table counts voxels of each label, and histogram those of each value",
    **dict.fromkeys(("argmax", "nanargmax"), "maximum_position gives the position"),
    **dict.fromkeys(("argmin", "nanargmin"), "minimum_position gives the position"),
    **{
        f"nan{n}": f"{n}(v, nan='omit') leaves NaN out"
        for n in ("max", "min", "mean", "sum", "std")
    },
    "nanvar": "variance(v, nan='omit') leaves NaN out",
    **dict.fromkeys(("allclose", "isclose", "array_equal"), _UFUNC.format("allclose")),
    # of each label
    **dict.fromkeys(("regionprops", "value_indices"), "did you mean 'regionprops_table'?"),
    "sum_labels": _REGIONS.format("'intensity_sum'"),
    "centroid": "center_of_mass is that of a volume; regionprops_table has those of labels",
    "maximum": _UFUNC.format("maximum") + "; max is a number, maximum_filter takes neighbourhoods",
    "minimum": _UFUNC.format("minimum") + "; min is a number, minimum_filter takes neighbourhoods",
    "relabel_sequential": "bv.relabel takes a mapping; bv.label numbers components from 1 on",
    "map_array": "bv.relabel(labels, mapping) is that",
    "marching_cubes": "bv.meshes(labels) writes surfaces",
    "mesh_surface_area": "regionprops_table has surface_area_faces; bv.meshes(labels) writes surfaces",
    "find_boundaries": "bv.morphological_gradient(labels, 3) > 0 is that",
    "generate_binary_structure": "structure= takes an array, and connectivity= a number",
    "iterate_structure": "iterations= repeats a structure",
    # filters and morphology
    "gaussian": "did you mean 'gaussian_filter'?",
    **dict.fromkeys(("uniform", "box_filter", "mean_filter"), "did you mean 'uniform_filter'?"),
    "gradient": "bv.convolve1d(v, [-0.5, 0, 0.5], axis) differentiates; gaussian_filter takes order=1",
    **dict.fromkeys(
        ("sobel_h", "sobel_v", "prewitt_h", "prewitt_v"), "bv.sobel and bv.prewitt take axis="
    ),
    "hessian": "did you mean 'hessian_matrix'?",
    "rank": "bv.rank_filter, bv.median_filter and bv.percentile_filter are there",
    "dilation": "binary_dilation and grey_dilation do that",
    "erosion": "binary_erosion and grey_erosion do that",
    "opening": "binary_opening and grey_opening do that",
    "closing": "binary_closing and grey_closing do that",
    "skeletonize": "thinning goes on from all sides until nothing changes, in no order that sweeps have; "
    "bv.for_each_label gives each object to skimage.morphology.skeletonize",
    **{
        f"isotropic_{n}": f"bv.binary_{n}(mask, structure=bv.ball(radius)) is that"
        for n in ("dilation", "erosion", "opening", "closing")
    },
    **dict.fromkeys(
        ("ball_kernel", "disk", "diamond", "octahedron", "footprint_rectangle", "star", "square"),
        _SHAPE,
    ),
    "distance_transform": "did you mean 'distance_transform_edt'?",
    "distance_transform_bf": "distance_transform_edt and distance_transform_cdt are there",
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
    "invert": "~v inverts a mask, and 255 - v bytes",
    "equalize_adapthist": "it is not offered; equalize_hist and normalize_slices are there",
    "match_histograms": "it is not offered; normalize_slices brings slices to one contrast",
    # shapes
    "crop": _SLICES,
    "slice": _SLICES,
    "resize": "zoom and downsample do that",
    "rescale": "zoom resamples, and rescale_intensity changes the values",
    **dict.fromkeys(
        ("downscale_local_mean", "block_reduce", "pyramid_reduce", "coarsen"),
        "bv.downsample(v, factors) is that",
    ),
    **dict.fromkeys(
        ("pyramid_gaussian", "multiscale"), "v.to('x.ome.zarr', levels='auto') stores a pyramid"
    ),
    "warp": "affine_transform, rotate, shift and zoom are there",
    "map_coordinates": "it is not offered; affine_transform, rotate, shift and zoom are there",
    "geometric_transform": "it is not offered; affine_transform, rotate, shift and zoom are there",
    **dict.fromkeys(("rot90", "swapaxes", "moveaxis"), _AXES),
    "roll": "bv.concatenate([v[-n:], v[:-n]]) is that",
    **dict.fromkeys(("vstack", "hstack", "dstack", "append"), "did you mean 'concatenate'?"),
    **dict.fromkeys(("reshape", "ravel", "flatten"), "a volume keeps its axes"),
    "squeeze": "v[0] drops an axis",
    **dict.fromkeys(("zeros", "ones", "full", "empty"), "bv.open(np.zeros(shape)) makes a volume"),
    # numpy's functions of voxels
    **{
        name: _UFUNC.format(name)
        for name in (
            *(
                "ceil",
                "floor",
                "rint",
                "round",
                "sign",
                "add",
                "subtract",
                "multiply",
                "divide",
            ),
            *("isnan", "isfinite", "nan_to_num", "square", "logical_and"),
            *("logical_or", "logical_not", "diff", "copy"),
        )
    },
    # what needs more than a neighbourhood, or is not there
    **dict.fromkeys(
        (
            *(
                "canny",
                "hog",
                "gabor",
                "scharr",
                "farid",
                "roberts",
                "meijering",
                "butterworth",
                "wiener",
            ),
            *(
                "spline_filter",
                "spline_filter1d",
                "generic_filter1d",
            ),
            *("denoise_bilateral", "denoise_nl_means", "denoise_tv_chambolle"),
            *(
                "rolling_ball",
                "skeletonize",
                "thin",
                "medial_axis",
                "blob_log",
            ),
            *(
                "blob_dog",
                "expand_labels",
                "richardson_lucy",
                "local_binary_pattern",
                "vectorized_filter",
            ),
        ),
        _BLOCK,
    ),
    **dict.fromkeys(
        ("fourier_gaussian", "fourier_uniform", "fourier_shift", "fourier_ellipsoid", "fftn"),
        "what is made of Fourier transforms of the whole volume is not offered; bv.convolve takes weights",
    ),
    **dict.fromkeys(
        ("random_walker", "slic", "felzenszwalb", "active_contour", "chan_vese", "quickshift"),
        "it is not offered; bv.watershed, bv.agglomerate and bv.predict segment",
    ),
}


def hint(name: str, known: Collection[str]) -> str:
    """Say what does what a name is asked for; nothing if nobody knows.

    Examples
    --------
    >>> hint("gausian_filter", ["gaussian_filter", "label"]), hint("otsu", ["threshold_otsu"])
    ("did you mean 'gaussian_filter'?", "did you mean 'threshold_otsu'?")
    >>> hint("imread", []), hint("nothing", [])
    ('bv.open opens files', '')
    """
    if name.startswith("_"):
        return ""
    if name in INSTEAD:
        return INSTEAD[name]
    close = difflib.get_close_matches(name, known, 1, 0.75)
    if not close:  # a word of a longer name
        words = set(name.lower().split("_"))
        close = sorted((k for k in known if words <= set(k.lower().split("_"))), key=len)
    return f"did you mean {close[0]!r}?" if close else ""
