"""The public names of the package, and the modules that define them, which are imported on first use.

Importing numba or Apache Beam takes seconds and 100 MB, and many programs need neither. After a change,
``make docs`` writes the stub ``beam_volumes/__init__.pyi``, where editors and type checkers find the
signatures and documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from beam_volumes.base.hints import hint

_PACKAGE = "beam_volumes"

#: Modules of the package, with their public names.
PUBLIC_NAMES = {
    "drive.add_levels": "add_levels",
    "drive.compute": "compute plan",
    "drive.verify": "verify",
    "graph.opening": "from_dask open",
    "graph.options": "options",
    "graph.scalar": "Scalar",
    "graph.table": "Table TableTarget",
    "graph.volume": "Target Volume",
    "ops.elementary": (
        "arccos arcsin arctan arctan2 cos cosh expm1 log1p log2 log10 power sin sinh tan tanh"
    ),
    "ops.extrema.blobs": "blob_dog blob_doh blob_log",
    "ops.extrema.canny": "canny",
    "ops.extrema.extrema": "local_maxima local_minima",
    "ops.extrema.peaks": "peak_local_max",
    "ops.extrema.reconstruction": "h_maxima h_minima reconstruction",
    "ops.extrema.templates": "match_template",
    "ops.filters.background": "rolling_ball",
    "ops.filters.classification.forests": "PixelClassifier",
    "ops.filters.classification.pixels": "classify pixel_classifier",
    "ops.filters.denoise": "denoise_bilateral denoise_nl_means estimate_sigma",
    "ops.filters.derivatives": (
        "gaussian_gradient_magnitude gaussian_laplace generic_gradient_magnitude "
        "generic_laplace laplace prewitt sobel"
    ),
    "ops.filters.edges": "farid gabor roberts scharr",
    "ops.filters.features": "features shape_index",
    "ops.filters.generic": "generic_filter",
    "ops.filters.iterated.diffusion": (
        "curvature_anisotropic_diffusion gradient_anisotropic_diffusion"
    ),
    "ops.filters.linear": "convolve correlate gaussian_filter uniform_filter",
    "ops.filters.local_ranks": "autolevel enhance_contrast entropy local_rank",
    "ops.filters.local_thresholds": (
        "denoise_wiener difference_of_gaussians threshold_local threshold_niblack "
        "threshold_sauvola unsharp_mask"
    ),
    "ops.filters.one_axis": (
        "convolve1d correlate1d gaussian_filter1d maximum_filter1d minimum_filter1d "
        "uniform_filter1d"
    ),
    "ops.filters.overlap": "map_overlap",
    "ops.filters.patterns": "local_binary_pattern",
    "ops.filters.rank": "maximum_filter median_filter minimum_filter percentile_filter rank_filter",
    "ops.filters.splines": "spline_filter spline_filter1d",
    "ops.filters.tensors": (
        "frangi hessian_matrix hessian_matrix_eigvals meijering sato structure_tensor "
        "structure_tensor_eigenvalues"
    ),
    "ops.filters.total_variation": "denoise_tv_chambolle",
    "ops.fourier.convolution": "fftconvolve",
    "ops.fourier.deconvolution": "gaussian_psf richardson_lucy richardson_lucy_residuals wiener",
    "ops.fourier.transforms": (
        "butterworth fftn fftshift fourier_ellipsoid fourier_filter fourier_gaussian fourier_shift "
        "fourier_uniform ifftn ifftshift irfftn rfftn"
    ),
    "ops.geometry.alignment": "apply_transforms",
    "ops.geometry.channels": "channels stack",
    "ops.geometry.fusion": "fuse",
    "ops.geometry.joining": "concatenate",
    "ops.geometry.rearrange": "coordinates flip pad transpose",
    "ops.geometry.registration.elastic": "register_elastic",
    "ops.geometry.registration.gains": "match_tiles",
    "ops.geometry.registration.sequences": "register_frames register_slices",
    "ops.geometry.registration.tiles": "register_tiles",
    "ops.geometry.registration.volumes": "fit_transform register",
    "ops.geometry.resampling": "downsample upsample",
    "ops.geometry.tile_files": "open_tiles save_transforms",
    "ops.intensity.bias": "fit_bias",
    "ops.intensity.bias_fields": "n4_bias_field_correction",
    "ops.intensity.colour": "combine_stains hed2rgb rgb2gray rgb2hed rgb2hsv separate_stains",
    "ops.intensity.colour_spaces": "hsv2rgb lab2rgb rgb2lab",
    "ops.intensity.comparisons": (
        "mean_squared_error normalized_mutual_information normalized_root_mse "
        "peak_signal_noise_ratio structural_similarity"
    ),
    "ops.intensity.exposure": (
        "adjust_gamma adjust_log adjust_sigmoid equalize_hist match_histograms rescale_intensity"
    ),
    "ops.intensity.flat_field": "estimate_flat_field",
    "ops.intensity.local_equalization": "equalize_adapthist",
    "ops.intensity.missing": "fill_missing",
    "ops.intensity.noise": "random_noise",
    "ops.intensity.slice_contrast": "normalize_slices",
    "ops.interpolation.fields": "map_coordinates warp",
    "ops.interpolation.grids": "affine_transform rotate shift zoom",
    "ops.interpolation.profiles": "profile_line",
    "ops.interpolation.resizing": "resample rescale resize",
    "ops.interpolation.transform_files": "open_transform",
    "ops.labels.agglomerate": "agglomerate cut",
    "ops.labels.boundaries": "find_boundaries label2rgb mark_boundaries",
    "ops.labels.components": (
        "apply_hysteresis_threshold area_closing area_opening binary_fill_holes "
        "binary_propagation clear_border diameter_closing diameter_opening keep_largest label "
        "remove_small_holes remove_small_objects"
    ),
    "ops.labels.comprehension": "find_objects labeled_comprehension",
    "ops.labels.flood": "flood flood_fill",
    "ops.labels.instances": "map_instances stitch",
    "ops.labels.meshes": "meshes",
    "ops.labels.objects": "for_each_label",
    "ops.labels.outlines": "outlines",
    "ops.labels.painting": "map_labels",
    "ops.labels.relabel": "keep_labels relabel",
    "ops.labels.scores": (
        "adapted_rand_error boundary_scores contingency hausdorff_distance segment_iou "
        "variation_of_information"
    ),
    "ops.labels.sequential": "join_segmentations relabel_sequential",
    "ops.labels.skeletons": "skeleton_table",
    "ops.labels.tables": "region_adjacency regionprops_table",
    "ops.labels.tracking": "track",
    "ops.labels.watershed": "watershed watershed_affinities",
    "ops.measure.by_label.calls": (
        "center_of_mass extrema histogram max maximum_position mean median min "
        "minimum_position std sum variance"
    ),
    "ops.measure.distributions": "percentile",
    "ops.measure.places": "argmax argmin",
    "ops.measure.statistics": "all any correlation count_nonzero covariance joint_histogram",
    "ops.measure.thresholds": (
        "threshold_isodata threshold_li threshold_minimum threshold_moments "
        "threshold_multiotsu threshold_otsu threshold_triangle threshold_yen"
    ),
    "ops.morphology.basic": (
        "binary_closing binary_dilation binary_erosion binary_opening grey_closing "
        "grey_dilation grey_erosion grey_opening"
    ),
    "ops.morphology.differences": (
        "binary_hit_or_miss black_tophat morphological_gradient morphological_laplace white_tophat"
    ),
    "ops.morphology.distance": (
        "cumsum distance_transform_cdt distance_transform_edt expand_labels signed_distance"
    ),
    "ops.morphology.footprints": "ball cross cube",
    "ops.morphology.thinning": "skeletonize",
    "ops.networks.predict": "predict",
    "ops.networks.probe": "probe_model",
    "ops.pointwise": "abs clip exp log sqrt where",
    "plan.estimating": "Estimate estimate",
    "plan.plan": "Plan",
    "session.masks": "MaskWarning",
    "show.pages.tiles_page": "tiles_report",
    "show.preview": "preview",
    "show.viewer.view": "view",
    "storage.formats.unfinished": "UnfinishedWarning",
    "studio.serve": "studio",
    "transforms": (
        "ApplyStages Compute ComputeAll Failed LabelComponents LabelSlabs MeasureSlabs "
        "MergeEquivalences Predict ReadAll ReadSlabs RegionTable RegisterSlices RegisterTiles RelabelSlabs "
        "Slab SlabGrid SlabKey SlabScan WatchSlices WriteSlabs"
    ),
    "version": "__version__",
}

#: Each public name, with its module relative to the package.
EXPORTS = dict(sorted((n, f".{m}") for m, names in PUBLIC_NAMES.items() for n in names.split()))


def public(name: str) -> Any:
    """Return a public name of the package; import its module if necessary."""
    return getattr(import_module(EXPORTS[name], _PACKAGE), name)


def lazy(
    package: str, space: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` for a package; ``space`` is its globals."""

    def get(name: str) -> Any:
        if name not in EXPORTS:
            found = hint(name, EXPORTS)
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{'; ' if found else ''}{found}"
            )
        space[name] = public(name)
        return space[name]

    return get, lambda: list(EXPORTS), list(EXPORTS)
