"""What to use here instead of names of other libraries that this package does not have.

The package, its volumes, the command line and docs/reference/coverage.md share these tables. A hint "write
`EXPRESSION`" is evaluated by `tests/test_hints.py`, which compares the result with the other library.
"""

# ruff: noqa: E501

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Sequence
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")

_FILES = "use `bv.open`, which opens files and arrays"
_MANY = "use `bv.open`, which accepts a list or a glob of files"
_WRITES = "use `bv.compute(v.to(path))`, which writes files"
_SHAPE = "use scikit-image's as `footprint=` or `structure=`; `bv.ball`, `bv.cube` and `bv.cross` are 3-D"
_SLICES = "slice the volume, as in `v[10:20]`"
_COUNTS = (
    "use `bv.regionprops_table(labels, properties=['num_pixels'])` to count each label, and "
    "`bv.histogram` to count each value"
)
_SCALED = "; the volume must be float, because scikit-image rescales integers"
_FINITE = ", if no voxel is infinite"
_BALL = "bv.ball(radius, mask.ndim)"
_ERODED = f"bv.binary_erosion(mask, {_BALL}, border_value=1)"
_DILATED = f"bv.binary_dilation(mask, {_BALL})"
_RANGE = "use `v / 255` or `v.astype(dtype)`; `bv.rescale_intensity` stretches the range"
_AXES = "use `bv.transpose`, which reorders the axes, and `bv.flip`, which reverses them"
_THRESHOLDED = "compare the volume with a number, as in `(v >= lower) & (v <= upper)`"
_REGION = (
    "use `bv.regionprops_table(labels)`, which has it for each label by its name in `properties=`"
)
_WHOLE_OBJECT = "use `bv.map_labels`, which passes each whole object to a function such as "
_WHOLE_IMAGE = "not available, because each voxel depends on the whole image"
_CHANNELS = "not available; compute it from the volumes of `bv.channels`"
_OF_HISTOGRAM = "compute it from the numbers of `bv.histogram`"
_TENSORS = "compute it from the volumes of `bv.structure_tensor` or `bv.hessian_matrix_eigvals`"
_SEGMENTS = (
    "not available, because it iterates over the whole image; use `bv.watershed`, `bv.agglomerate`, "
    "`bv.pixel_classifier` or `bv.predict`"
)
_TREE = (
    "not available, because a tree has as many nodes as the volume has voxels; use `bv.area_opening`, "
    "`bv.diameter_opening` or `bv.h_maxima`"
)
_FLOW = "not available; `bv.register_elastic` finds displacements within slices, `bv.register` an affine map"
_PER_LABEL = ", with the same `labels=` and `index=`"
_SCIKIT_BLOCKS = "use `bv.map_overlap`, which passes blocks with a margin to scikit-image's"
_RANK_BLOCKS = "use `bv.generic_filter`, which accepts a compiled function of a neighbourhood"
_PYRAMID = "use `v.to('x.ome.zarr', levels='auto')`, which stores a pyramid of means"

#: Names of other libraries, separated by spaces, and what to use here.
_ROWS = (
    # files
    ("imread read open_zarr from_zarr from_url load", _FILES),
    ("imread_collection ImageCollection MultiImage concatenate_images", _MANY),
    ("imsave imwrite save to_zarr store write", _WRITES),
    # dask
    ("run", "use `bv.compute`, which computes and writes"),
    ("map_blocks", "write `bv.map_overlap(function, v)`"),
    ("rechunk", "use `v.to(path, chunks=...)`, which stores other chunks"),
    ("from_array array", "use `bv.open`, which opens arrays"),
    ("asarray", "use `np.asarray` to compute an array, and `bv.open` to open one"),
    ("persist", "use `bv.compute(v.to(path))`, which stores it and returns a volume that reads it"),
    # numbers of a volume
    ("var", "write `bv.variance(v)`"),
    ("quantile", "write `bv.percentile(v, 100 * q)`"),
    ("average", "write `bv.mean(v)`"),
    ("standard_deviation", f"write `bv.std(v)`{_PER_LABEL}"),
    ("threshold_mean", "write `bv.mean(v)`"),
    ("amax", "write `bv.max(v)`"),
    ("amin", "write `bv.min(v)`"),
    ("ptp", "write `bv.max(v) - bv.min(v)`"),
    ("prod", "write `np.exp(bv.sum(np.log(v)))`, which is rounded, for voxels above 0"),
    ("norm", "write `np.sqrt(bv.sum(v.astype(float) ** 2))`"),
    ("unique bincount", _COUNTS),
    ("argrelmax argrelextrema", "use `bv.local_maxima` or `bv.peak_local_max`"),
    ("argrelmin", "use `bv.local_minima`"),
    ("nanargmax", "use `bv.argmax(v, nan='omit')`"),
    ("nanargmin", "use `bv.argmin(v, nan='omit')`"),
    *(
        (f"nan{n}", f"write `bv.{n}(v, nan='omit')`{_FINITE}")
        for n in ("max", "min", "mean", "sum", "std")
    ),
    ("nanvar", f"write `bv.variance(v, nan='omit')`{_FINITE}"),
    ("nanmedian", f"write `bv.percentile(v, 50, nan='omit')`{_FINITE}"),
    ("nanpercentile", f"write `bv.percentile(v, q, nan='omit')`{_FINITE}"),
    *((n, f"write `np.{n}(v, w)`") for n in ("allclose", "isclose", "array_equal")),
    (
        "shannon_entropy blur_effect is_low_contrast cumulative_distribution",
        _OF_HISTOGRAM,
    ),
    # of each label
    ("regionprops", "use `bv.regionprops_table`, or `bv.for_each_label` with a function of objects"),
    ("area", "use `bv.regionprops_table(labels, properties=['area'])`"),
    ("value_indices", "use `bv.find_objects` for boxes of labels, and `bv.for_each_label` for voxels"),
    ("sum_labels", "write `bv.sum(v, labels=labels, index=old)`, for the labels `old`"),
    ("centroid", "write `bv.center_of_mass(v)`; `bv.regionprops_table` has the centroids of labels"),
    (
        "moments moments_central moments_normalized moments_hu",
        "use `bv.regionprops_table(labels, properties=['moments_central'])`, to the order 3",
    ),
    (
        "perimeter perimeter_crofton euler_number inertia_tensor inertia_tensor_eigvals",
        _REGION,
    ),
    (
        "maximum",
        f"write `np.maximum(v, w)`; `bv.max` is a number{_PER_LABEL}, and `bv.maximum_filter` "
        "has neighbourhoods",
    ),
    (
        "minimum",
        f"write `np.minimum(v, w)`; `bv.min` is a number{_PER_LABEL}, and `bv.minimum_filter` "
        "has neighbourhoods",
    ),
    ("map_array", "write `bv.relabel(labels, (old, new), missing=0)`"),
    ("contingency_table", "use `bv.contingency`, a table of the voxels of each pair of labels"),
    ("marching_cubes", "use `bv.meshes`, which writes the surface of each label"),
    (
        "mesh_surface_area",
        "use `bv.regionprops_table(labels, properties=['surface_area_faces'])`, which counts faces of voxels",
    ),
    ("watershed_ift", "use `bv.watershed` with `markers=`; where floods meet, basins may differ"),
    (
        "generate_binary_structure",
        "use `bv.cross(1)`, `bv.cube(3)` or any array as `structure=`; `connectivity=` is a number",
    ),
    ("iterate_structure", "use `bv.ball`, `bv.cross` or `bv.cube` of any radius, or `iterations=`"),
    # filters and morphology
    ("gaussian", f"write `bv.gaussian_filter(v, sigma, mode='nearest')`{_SCALED}"),
    ("uniform box_filter mean_filter", "use `bv.uniform_filter`"),
    (
        "gradient",
        "write `bv.correlate1d(v, [-0.5, 0, 0.5], axis)`, except at the ends of the axis; "
        "`bv.morphological_gradient` subtracts the minimum of a footprint from its maximum",
    ),
    *(
        (f"{name}_{way}", f"write `bv.{name}(v, axis={axis}){by}`{_SCALED}")
        for name, by in (("sobel", " / 4"), ("prewitt", " / 3"), ("scharr", ""), ("farid", ""))
        for axis, way in enumerate("hv")
    ),
    ("hessian", "not available; use `bv.sato` or `bv.frangi` to find ridges"),
    ("hessian_matrix_det", "use `bv.blob_doh` for its maxima, or `bv.hessian_matrix`"),
    ("corner_harris corner_shi_tomasi corner_foerstner corner_kitchen_rosenfeld", _TENSORS),
    (
        "rank",
        "use `bv.entropy`, `bv.autolevel` and `bv.enhance_contrast`, and `bv.local_rank` for other names such as "
        "rank.modal; `bv.percentile_filter` has percentiles",
    ),
    (
        "geometric_mean modal noise_filter pop subtract_mean",
        "use `bv.local_rank`, which has the statistics of neighbourhoods by their names",
    ),
    ("majority mode_filter", "use `bv.local_rank(v, 'modal', size)`, which has the most frequent value"),
    ("windowed_histogram", "write `bv.local_rank((v == k).astype('u2'), 'sum', size) / bv.local_rank(v.astype('u2'), 'pop', size)` for the share of the value k"),
    ("gradient_percentile", "write `bv.percentile_filter(v, high, size) - bv.percentile_filter(v, low, size)`, except at the edges"),
    ("threshold_percentile", "write `v >= bv.percentile_filter(v, percentile, size)`, except at the edges"),
    ("autolevel_percentile enhance_contrast_percentile", "compute it from `bv.percentile_filter` at a low and a high percentile"),
    ("sum_percentile mean_percentile pop_percentile subtract_mean_percentile", _RANK_BLOCKS),
    ("mean_bilateral", f"{_RANK_BLOCKS}; `bv.denoise_bilateral` has weights that decrease with the difference"),
    ("sum_bilateral pop_bilateral", _RANK_BLOCKS),
    ("threshold", f"{_THRESHOLDED}; `bv.local_rank(v, 'threshold', size)` compares with local means"),
    ("otsu", "use `bv.threshold_otsu` for the volume, or `bv.local_rank(v, 'otsu', size)` for neighbourhoods"),
    *(
        (n, f"write `bv.grey_{n}(v, footprint=bv.cross(1, v.ndim))`; `bv.binary_{n}` is for masks")
        for n in ("dilation", "erosion", "opening", "closing")
    ),
    (
        "convex_hull_image convex_hull_object",
        f"{_WHOLE_OBJECT}skimage.morphology.convex_hull_image",
    ),
    ("skeletonize_3d thin", "use `bv.skeletonize`"),
    ("analyze_skeleton", "use `bv.skeleton_table`, a table of the branches of a skeleton"),
    ("medial_axis", "use `bv.skeletonize`, and `bv.distance_transform_edt` for the distances"),
    ("remove_objects_by_distance", "not available, because each removal depends on earlier ones; use `bv.peak_local_max`"),
    ("match_segments", "use `bv.segment_iou`, a table of the best partners with their IoU and dice"),
    ("montage", "use `np.concatenate(np.asarray(v), axis=1)` for a small volume, or `bv.preview`"),
    ("z_project", "write `v.max(axis='z')`; `v.mean(axis='z')` averages"),
    ("isotropic_erosion", f"write `{_ERODED}`"),
    ("isotropic_dilation", f"write `{_DILATED}`"),
    ("isotropic_opening", f"write `{_DILATED.replace('mask,', _ERODED + ',')}`"),
    ("isotropic_closing", f"write `{_ERODED.replace('mask,', _DILATED + ',')}`"),
    ("ellipsoid_kernel", "use scikit-image's as `kernel=` of `bv.rolling_ball`"),
    ("ball_kernel disk diamond octahedron footprint_rectangle star", _SHAPE),
    ("distance_transform", "use `bv.distance_transform_edt`"),
    ("distance_transform_bf", "write `bv.distance_transform_edt(mask)`; it has the Euclidean metric only"),
    # intensities and dtypes
    (
        "img_as_float img_as_float32 img_as_float64 img_as_ubyte img_as_uint img_as_int img_as_bool normalize",
        _RANGE,
    ),
    ("invert", "write `~mask`; for bytes, `255 - v`"),
    ("equalize", "use `bv.equalize_hist` for the volume, or `bv.equalize_adapthist` for tiles; `bv.local_rank` equalizes the histogram around each voxel"),
    # shapes
    ("crop", f"{_SLICES}; the box of a label is `bbox` of `bv.regionprops_table`"),
    ("slice", _SLICES),
    ("resample_poly", "use `bv.rescale`, which smooths the volume before it shrinks"),
    ("residue residuez", "not available, because it divides polynomials; use scipy's"),
    (
        "downscale_local_mean",
        "write `bv.downsample(v.astype(float), factors)`, where the factors divide the shape",
    ),
    (
        "block_reduce coarsen",
        "use `bv.downsample`, which has the mean, minimum, maximum, median and mode of blocks",
    ),
    ("pyramid_reduce", "use `bv.gaussian_filter` and `bv.downsample`"),
    ("pyramid_gaussian multiscale", _PYRAMID),
    ("estimate_transform", "use `bv.fit_transform`, which fits a transform to pairs of points"),
    (
        "ThinPlateSplineTransform",
        "use `bv.open_transform` with a file of landmarks and `model='thin_plate_spline'`",
    ),
    ("phase_cross_correlation", "use `bv.register`, which finds the shift between two volumes"),
    ("optical_flow_tvl1 optical_flow_ilk", _FLOW),
    ("ransac", "use `bv.fit_transform` with `max_residual=`"),
    (
        "geometric_transform",
        "use `bv.affine_transform` with a matrix, or `bv.map_coordinates` with a volume of positions",
    ),
    ("warp_polar swirl", "use `bv.map_coordinates` with a volume of positions"),
    (
        "AffineTransform matrix_transform",
        "use `bv.affine_transform` with a matrix in the order z, y, x",
    ),
    ("rot90 swapaxes moveaxis fliplr flipud", _AXES),
    ("roll", "write `bv.concatenate([v[-n:], v[:-n]])`, along the first axis"),
    ("vstack", "write `bv.concatenate([v, w], axis=0)`"),
    ("hstack", "write `bv.concatenate([v, w], axis=1)`"),
    ("dstack", "write `bv.concatenate([v, w], axis=2)`"),
    ("append", "write `bv.concatenate([v, w])`, along the first axis"),
    ("reshape ravel flatten", "not available, because a volume keeps its axes"),
    ("squeeze", "use `v[0]`, which drops an axis"),
    ("zeros ones full empty", "use `bv.open(np.zeros(shape))`"),
    # numpy's functions of voxels
    *(
        (name, f"use `np.{name}`, which is lazy for volumes")
        for name in (
            *("ceil", "floor", "rint", "round", "sign", "add", "subtract", "multiply", "divide"),
            *("isnan", "isfinite", "isinf", "nan_to_num", "square", "logical_and", "logical_or", "logical_not", "diff"),
            *("copy", "fabs", "fmax", "fmin", "acos", "asin", "atan", "atan2", "pow"),
        )
    ),
    # scipy.signal
    ("convolve2d oaconvolve", "write `bv.convolve(v, weights, mode='constant')`, as with `mode='same'`"),
    ("correlate2d", "write `bv.correlate(v, weights, mode='constant')`, as with `mode='same'`"),
    ("deconvolve unsupervised_wiener", "use `bv.richardson_lucy` or `bv.wiener`"),
    ("order_filter", "use `bv.rank_filter`, which selects a voxel of a footprint by its rank"),
    ("multiscale_basic_features", "use `bv.features`, which computes them as channels"),
    ("denoise_wavelet decimate unwrap_phase", _WHOLE_IMAGE),
    ("radon iradon hough_line hough_circle", _WHOLE_IMAGE),
    ("anisotropic_diffusion perona_malik", "use `bv.gradient_anisotropic_diffusion`"),
    ("n4 n4itk abp_n4 n3_bias_field_correction", "use `bv.n4_bias_field_correction`"),
    ("denoise_tv_bregman", "use `bv.denoise_tv_chambolle`, which minimizes the total variation"),
    ("correlation_lags", "not available"),
    ("rgb2luv rgb2xyz rgb2ycbcr", _CHANNELS),
    (
        "deltaE_cie76 deltaE_ciede94 deltaE_ciede2000 deltaE_cmc",
        "not available; compute it from the channels of `bv.rgb2lab`",
    ),
    ("hog graycomatrix", _SCIKIT_BLOCKS),
    (
        "inpaint_biharmonic inpaint",
        "not available, because each voxel depends on all voxels around a hole; "
        f"{_WHOLE_OBJECT}skimage.restoration.inpaint_biharmonic, with `pad=`; `bv.fill_missing` fills slices",
    ),
    ("interpolate_na fillna ffill bfill", "use `bv.fill_missing` for slices, or `bv.where(np.isnan(v), value, v)`"),
    ("max_tree max_tree_local_maxima", _TREE),
    ("find_contours", "use `bv.outlines`, which traces labels, and objects of a mask"),
    # comparisons
    ("pearson_corr_coeff manders_overlap_coeff", "use `bv.correlation(v, w)`"),
    ("manders_coloc_coeff", "write `bv.sum(v, mask=mask) / bv.sum(v)`"),
    # other operations
    ("generic_filter1d vectorized_filter", f"{_RANK_BLOCKS}, or `bv.map_overlap` with a function of blocks"),
    (
        "fft ifft fft2 ifft2 rfft irfft",
        "use `bv.fftn`, `bv.rfftn` or their inverses, which transform along any axes",
    ),
    ("random_walker slic felzenszwalb active_contour chan_vese quickshift", _SEGMENTS),
)  # fmt: skip

#: Names of libraries that are compared with this package by hand, and what to use here.
LIBRARIES = {
    "cc3d": (
        ("connected_components", "use `bv.label`; connectivity 6, 18 and 26 is `connectivity=1`, 2 and 3 here"),
        ("dust", "use `bv.remove_small_objects`, or `bv.relabel_sequential` with `min_size=`"),
        ("largest_k", "use `bv.keep_largest` with `k=`; `bv.relabel_sequential` with `by='size'` sorts labels by size"),
        ("contacts region_graph", "use `bv.region_adjacency`, a table of touching labels and their faces"),
        ("statistics", "use `bv.regionprops_table`"),
        ("renumber", "use `bv.relabel_sequential`"),
        ("each", "use `bv.for_each_label`, which passes each object to a function"),
        ("voxel_connectivity_graph color_connectivity_graph", "not available; use `bv.region_adjacency`"),
    ),
    "skan": (
        ("summarize Skeleton branch_statistics", "use `bv.skeleton_table`, a table of the branches of a skeleton"),
        ("skeleton_to_csgraph make_degree_image", "not available; the junctions of `bv.skeleton_table` are the nodes of a graph"),
    ),
    "SimpleITK": (
        ("ReadImage ImageFileReader ImageSeriesReader", _FILES),
        ("WriteImage ImageFileWriter ImageSeriesWriter", _WRITES),
        ("GetImageFromArray GetArrayFromImage GetArrayViewFromImage", "use `bv.open` and `np.asarray`"),
        ("Cast", "use `v.astype(dtype)`"),
        ("DiscreteGaussian SmoothingRecursiveGaussian RecursiveGaussian", "use `bv.gaussian_filter`; sigma is a number of voxels or a length"),
        ("Median", "use `bv.median_filter`; a radius r is `size=2 * r + 1`"),
        ("Mean BoxMean", "use `bv.uniform_filter`; a radius r is `size=2 * r + 1`"),
        ("Bilateral", "use `bv.denoise_bilateral`"),
        ("GradientAnisotropicDiffusion", "use `bv.gradient_anisotropic_diffusion`"),
        ("CurvatureAnisotropicDiffusion", "use `bv.curvature_anisotropic_diffusion`"),
        ("CurvatureFlow MinMaxCurvatureFlow", "not available; use `bv.curvature_anisotropic_diffusion`"),
        ("GradientMagnitude", "use `bv.generic_gradient_magnitude`"),
        ("GradientMagnitudeRecursiveGaussian", "use `bv.gaussian_gradient_magnitude`"),
        ("Laplacian", "use `bv.laplace`"),
        ("LaplacianRecursiveGaussian", "use `bv.gaussian_laplace`"),
        ("SobelEdgeDetection", "use `bv.sobel`"),
        ("CannyEdgeDetection", "use `bv.canny`, slice by slice"),
        ("ObjectnessMeasure", "use `bv.frangi` or `bv.sato`"),
        ("BinaryDilate DilateObjectMorphology", "use `bv.binary_dilation`"),
        ("BinaryErode ErodeObjectMorphology", "use `bv.binary_erosion`"),
        ("BinaryMorphologicalOpening", "use `bv.binary_opening`"),
        ("BinaryMorphologicalClosing", "use `bv.binary_closing`"),
        ("GrayscaleDilate", "use `bv.grey_dilation`"),
        ("GrayscaleErode", "use `bv.grey_erosion`"),
        ("GrayscaleMorphologicalOpening", "use `bv.grey_opening`"),
        ("GrayscaleMorphologicalClosing", "use `bv.grey_closing`"),
        ("WhiteTopHat", "use `bv.white_tophat`"),
        ("BlackTopHat", "use `bv.black_tophat`"),
        ("BinaryFillhole VotingBinaryIterativeHoleFilling", "use `bv.binary_fill_holes`"),
        ("GrayscaleFillhole GrayscaleGrindPeak ReconstructionByDilation ReconstructionByErosion", "use `bv.reconstruction`"),
        ("HMaxima HConvex", "use `bv.h_maxima`"),
        ("HMinima HConcave", "use `bv.h_minima`"),
        ("RegionalMaxima", "use `bv.local_maxima`"),
        ("RegionalMinima", "use `bv.local_minima`"),
        ("AreaOpening BinaryOpeningByReconstruction", "use `bv.area_opening` or `bv.remove_small_objects`"),
        ("BinaryThinning BinaryThinning3D", "use `bv.skeletonize`"),
        ("OtsuThreshold", "use `v > bv.threshold_otsu(v)`"),
        ("OtsuMultipleThresholds", "use `bv.threshold_multiotsu`"),
        ("LiThreshold", "use `v > bv.threshold_li(v)`"),
        ("YenThreshold", "use `v > bv.threshold_yen(v)`"),
        ("TriangleThreshold", "use `v > bv.threshold_triangle(v)`"),
        ("MomentsThreshold", "use `v > bv.threshold_moments(v)`"),
        ("IsoDataThreshold", "use `v > bv.threshold_isodata(v)`"),
        ("BinaryThreshold Threshold", _THRESHOLDED),
        ("DoubleThreshold", "use `bv.apply_hysteresis_threshold`"),
        ("ConnectedThreshold ConfidenceConnected NeighborhoodConnected IsolatedConnected", "use `bv.flood`, or `bv.binary_propagation` of seeds with a `mask=`"),
        ("ConnectedComponent ScalarConnectedComponent", "use `bv.label`; ScalarConnectedComponent is `by_value=True`"),
        ("RelabelComponent", "use `bv.relabel_sequential` with `by='size'` and `min_size=`"),
        ("ChangeLabel", "use `bv.relabel`"),
        ("LabelContour", "use `bv.find_boundaries`"),
        ("LabelOverlay LabelToRGB", "use `bv.label2rgb`"),
        ("LabelOverlapMeasures", "use `bv.contingency` or `bv.segment_iou`"),
        ("LabelShapeStatistics LabelIntensityStatistics LabelStatistics", "use `bv.regionprops_table`"),
        ("Statistics MinimumMaximum", "use `bv.min`, `bv.max`, `bv.mean`, `bv.std` or `bv.sum`"),
        ("MorphologicalWatershed", "use `bv.watershed`"),
        ("MorphologicalWatershedFromMarkers", "use `bv.watershed` with `markers=`"),
        ("SignedMaurerDistanceMap SignedDanielssonDistanceMap ApproximateSignedDistanceMap", "use `bv.signed_distance`"),
        ("DanielssonDistanceMap", "use `bv.distance_transform_edt`"),
        ("HausdorffDistance", "compute it from `bv.distance_transform_edt`"),
        ("RescaleIntensity IntensityWindowing ShiftScale", "use `bv.rescale_intensity`, or arithmetic"),
        ("Normalize", "use `(v - bv.mean(v)) / bv.std(v)`"),
        ("HistogramMatching", "use `bv.match_histograms`"),
        ("AdaptiveHistogramEqualization", "use `bv.equalize_adapthist`"),
        ("InvertIntensity", "use `255 - v`, for bytes"),
        ("N4BiasFieldCorrection", "use `bv.n4_bias_field_correction`, which downsamples by `shrink_factor`"),
        ("Resample", "use `bv.resample` for a voxel size, or `bv.affine_transform` for any grid; `anti_aliasing=False` does not smooth"),
        ("BinShrink Shrink", "use `bv.downsample`"),
        ("Expand", "use `bv.upsample`, or `bv.rescale` for any factors"),
        ("Flip", "use `bv.flip`"),
        ("PermuteAxes", "use `bv.transpose`"),
        ("ConstantPad MirrorPad WrapPad ZeroFluxNeumannPad", "use `bv.pad`"),
        ("Crop RegionOfInterest Extract", _SLICES),
        ("Compose", "use `bv.stack`"),
        ("Mask", "use `bv.where(mask, v, 0)`"),
        ("AdditiveGaussianNoise ShotNoise SaltAndPepperNoise", "use `bv.random_noise`"),
        ("RichardsonLucyDeconvolution", "use `bv.richardson_lucy`"),
        ("WienerDeconvolution", "use `bv.wiener`"),
        ("FFTConvolution", "use `bv.fftconvolve`"),
        ("ForwardFFT", "use `bv.fftn`"),
        ("InverseFFT", "use `bv.ifftn`"),
        ("ReadTransform TransformixImage", "use `bv.open_transform`, which opens files of ITK and elastix"),
        ("WriteTransform", "use `bv.save_transforms([fixed, moving], matrix, 'x.tfm')`"),
        ("ImageRegistrationMethod Elastix", "use `bv.register`, which finds shifts, rotations and affine maps"),
    ),
    "StackProcessing": (
        ("readFiles readChunks readRandom", _FILES),
        ("writeInChunks writeChunkSlices", _WRITES),
        ("cast", "use `v.astype(dtype)`"),
        ("sub mul div", "use arithmetic, as in `v - w`"),
        ("maxOfPair", "use `np.maximum(v, w)`"),
        ("minOfPair", "use `np.minimum(v, w)`"),
        ("getMinMax computeStats", "use `bv.min`, `bv.max`, `bv.mean`, `bv.std`, `bv.variance` or `bv.sum`, in one sweep"),
        ("discreteGaussian convGauss", "use `bv.gaussian_filter`"),
        ("conv", "use `bv.convolve`"),
        ("finiteDiff", "use `bv.correlate1d` with the weights of the difference"),
        ("erode", "use `bv.binary_erosion` with `structure=bv.ball(r)`"),
        ("dilate", "use `bv.binary_dilation` with `structure=bv.ball(r)`"),
        ("binaryFillHoles", "use `bv.binary_fill_holes`, for the whole volume"),
        ("connectedComponents", "use `bv.label`, without translation tables"),
        ("relabelComponents", "use `bv.remove_small_objects`; labels are not ordered by size"),
        ("signedDistanceMap", "use `bv.signed_distance`"),
        ("otsuThreshold", "use `v > bv.threshold_otsu(v)`"),
        ("momentsThreshold", "use `v > bv.threshold_moments(v)`"),
        ("addNormalNoise", "use `bv.random_noise`"),
        ("ImageConstantPad createPadding", "use `bv.pad`"),
        ("permuteAxes", "use `bv.transpose`"),
        ("resampleAffineTrilinearSlices", "use `bv.affine_transform` with `order=1`"),
        ("createByEuler2DTransform", "use `bv.affine_transform` for one map, or `bv.apply_transforms` for one for each slice"),
        ("plot", "use `bv.view` in a browser, or `bv.preview` for an image file"),
    ),
}  # fmt: skip

#: Each name, and what to use here.
INSTEAD = {
    name: text
    for rows in (*LIBRARIES.values(), _ROWS)
    for names, text in rows
    for name in names.split()
}


def hint(name: str, known: Collection[str]) -> str:
    """Suggest a public name instead of another one; "" without a suggestion.

    Names of numpy are not treated as misspelt: `sort` is not `sqrt`.

    >>> hint("gausian_filter", ["gaussian_filter", "label"]), hint("li", ["threshold_li"])
    ("did you mean 'gaussian_filter'?", "did you mean 'threshold_li'?")
    >>> hint("imread", []), hint("nothing", []), hint("sort", ["sqrt"])
    ('use `bv.open`, which opens files and arrays', '', '')
    """
    if name.startswith("_"):
        return ""
    name = name.removesuffix("ImageFilter") or name  # SimpleITK has a class for each function
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
    "fill": "volumes cannot be changed; bv.where(mask, v, 0) makes a new one",
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


#: Names of parameters in scikit-image that are accepted for ours.
ALIASES = {"intensity_image": "intensity", "label_image": "labels"}
#: Names of parameters in other libraries, and their names here.
_ELSEWHERE = {
    **{other: (ours,) for other, ours in ALIASES.items()},
    "input": ("volume", "labels", "mask", "a"),
    "image": ("volume", "labels", "mask", "a"),
    "im": ("volume", "labels", "mask", "a"),
    "array": ("volume", "labels", "mask", "a"),
    "selem": ("footprint", "structure"),
    "structuring_element": ("footprint", "structure"),
    "kernel_size": ("size",),
    "num_iter": ("iterations",),
    "ksize": ("size",),
    "radius": ("size",),
    "voxel_size": ("spacing",),
    "sampling": ("spacing",),
    "num_workers": ("workers",),
    "n_jobs": ("workers",),
    "path": ("targets",),
}

#: Parameters of other libraries that no function here has, and why.
_NOWHERE = {
    "output": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "out": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "inplace": "results are new, and nothing is changed in place",
    "in_place": "results are new, and nothing is changed in place",
    "channel_axis": "channels are an axis c of the volume, and each is filtered by itself",
    "multichannel": "channels are an axis c of the volume, and each is filtered by itself",
    "preserve_range": "voxels are never rescaled",
    "fast_mode": "it is always on",
    "backend": "there is one backend",
    "return_num": "labels.num_labels is their number",
    "scheduler": "runner= chooses where it runs, and workers= and threads= the parallelism",
    "across": "the function finds objects in each time point. Numbers such as mean and threshold_otsu "
    "have across='t'; rows of tables identify an object by its t and label together",
    "chunks": "chunks belong to the output: result.to(path, chunks=...)",
}


def parameter_hint(name: str, known: Sequence[str]) -> str:
    """Suggest a parameter for an unknown one.

    >>> parameter_hint("sgima", ["volume", "sigma"])
    '; did you mean sigma=?'
    >>> parameter_hint("intensity_image", ["labels", "intensity"])
    '; it is intensity= here'
    """
    for other in _ELSEWHERE.get(name, ()):
        if other in known:
            return f"; it is {other}= here"
    if name in _NOWHERE:
        return f": {_NOWHERE[name]}"
    if close := difflib.get_close_matches(name.lower(), known, 1, 0.6):
        return f"; did you mean {close[0]}=?"
    return f"; there are {', '.join(known)}"


def check_names(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Raise an error for a parameter that a function does not have."""
    for name in given:
        if name not in known:
            raise TypeError(f"{function} has no parameter {name!r}{parameter_hint(name, known)}")


def checked_methods(kind: type[T]) -> type[T]:
    """Class decorator: the public methods refuse unknown parameters as functions do.

    >>> @checked_methods
    ... class Image:
    ...     def mean(self, axis=None): ...
    >>> Image().mean(axes=0)
    Traceback (most recent call last):
    TypeError: mean has no parameter 'axes'; did you mean axis=?
    """
    for name, method in list(vars(kind).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(kind, name, _checked_method(method))
    return kind


def _checked_method(method: FunctionType) -> Callable[..., Any]:
    parameters = inspect.signature(method).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return method
    _, *known = [p.name for p in parameters]

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_names(method.__name__, kwargs, known)
        return method(self, *args, **kwargs)

    return called
