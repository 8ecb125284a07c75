"""scipy.ndimage for volumes that do not fit in memory, on any Apache Beam runner.

Examples in docstrings assume ``import numpy as np`` and ``import beam_volumes as bv``. Those that write
something write it to the current directory.
"""

from typing import TYPE_CHECKING, Any

from beam_volumes.drive.compute import compute
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Scalar, Target, Volume, open, options
from beam_volumes.ops.filters.derivatives import (
    gaussian_gradient_magnitude,
    gaussian_laplace,
    generic_gradient_magnitude,
    generic_laplace,
    laplace,
    prewitt,
    sobel,
)
from beam_volumes.ops.filters.generic import generic_filter
from beam_volumes.ops.filters.linear import convolve, correlate, gaussian_filter, uniform_filter
from beam_volumes.ops.filters.local_thresholds import (
    difference_of_gaussians,
    threshold_local,
    threshold_niblack,
    threshold_sauvola,
    unsharp_mask,
)
from beam_volumes.ops.filters.one_axis import (
    convolve1d,
    correlate1d,
    gaussian_filter1d,
    maximum_filter1d,
    minimum_filter1d,
    uniform_filter1d,
)
from beam_volumes.ops.filters.overlap import map_overlap
from beam_volumes.ops.filters.rank import (
    maximum_filter,
    median_filter,
    minimum_filter,
    percentile_filter,
    rank_filter,
)
from beam_volumes.ops.filters.tensors import (
    frangi,
    hessian_matrix,
    hessian_matrix_eigvals,
    sato,
    structure_tensor,
    structure_tensor_eigenvalues,
)
from beam_volumes.ops.geometry.rearrange import coordinates, flip, pad, transpose
from beam_volumes.ops.geometry.resampling import (
    affine_transform,
    downsample,
    rotate,
    shift,
    upsample,
    zoom,
)
from beam_volumes.ops.intensity.exposure import (
    adjust_gamma,
    adjust_log,
    adjust_sigmoid,
    equalize_hist,
    rescale_intensity,
)
from beam_volumes.ops.intensity.slice_contrast import normalize_slices
from beam_volumes.ops.labels.components import (
    apply_hysteresis_threshold,
    binary_fill_holes,
    binary_propagation,
    clear_border,
    keep_largest,
    label,
    remove_small_holes,
    remove_small_objects,
)
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.tables import region_adjacency, regionprops_table
from beam_volumes.ops.measure.reductions import (
    histogram,
    max,
    mean,
    min,
    percentile,
    std,
    sum,
    variance,
)
from beam_volumes.ops.measure.statistics import (
    all,
    any,
    center_of_mass,
    correlation,
    count_nonzero,
    covariance,
    extrema,
    joint_histogram,
    maximum_position,
    minimum_position,
)
from beam_volumes.ops.measure.thresholds import (
    threshold_isodata,
    threshold_li,
    threshold_minimum,
    threshold_multiotsu,
    threshold_otsu,
    threshold_triangle,
    threshold_yen,
)
from beam_volumes.ops.morphology.basic import (
    binary_closing,
    binary_dilation,
    binary_erosion,
    binary_opening,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
)
from beam_volumes.ops.morphology.differences import (
    binary_hit_or_miss,
    black_tophat,
    morphological_gradient,
    morphological_laplace,
    white_tophat,
)
from beam_volumes.ops.morphology.distance import cumsum, distance_transform_edt, signed_distance
from beam_volumes.ops.morphology.footprints import ball, cross, cube
from beam_volumes.ops.pointwise import abs, clip, exp, log, sqrt, where
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.planner import plan
from beam_volumes.runs.verify import verify
from beam_volumes.version import __version__

if TYPE_CHECKING:
    from beam_volumes.transforms import (
        ApplyStages,
        Compute,
        ComputeAll,
        LabelComponents,
        MergeEquivalences,
        ReadSlabs,
        RegionTable,
        RelabelSlabs,
        Slab,
        SlabScan,
        WriteSlabs,
    )

#: Imported when first asked for: Apache Beam takes a second and 100 MB that in-process runs can spare.
_TRANSFORMS = (
    "ApplyStages",
    "Compute",
    "ComputeAll",
    "LabelComponents",
    "MergeEquivalences",
    "ReadSlabs",
    "RegionTable",
    "RelabelSlabs",
    "Slab",
    "SlabScan",
    "WriteSlabs",
)

__all__ = [
    "ApplyStages",
    "Compute",
    "ComputeAll",
    "LabelComponents",
    "MergeEquivalences",
    "Plan",
    "ReadSlabs",
    "RegionTable",
    "RelabelSlabs",
    "Scalar",
    "Slab",
    "SlabScan",
    "Table",
    "TableTarget",
    "Target",
    "Volume",
    "WriteSlabs",
    "__version__",
    "abs",
    "adjust_gamma",
    "adjust_log",
    "adjust_sigmoid",
    "affine_transform",
    "all",
    "any",
    "apply_hysteresis_threshold",
    "ball",
    "binary_closing",
    "binary_dilation",
    "binary_erosion",
    "binary_fill_holes",
    "binary_hit_or_miss",
    "binary_opening",
    "binary_propagation",
    "black_tophat",
    "center_of_mass",
    "clear_border",
    "clip",
    "compute",
    "convolve",
    "convolve1d",
    "coordinates",
    "correlate",
    "correlate1d",
    "correlation",
    "count_nonzero",
    "covariance",
    "cross",
    "cube",
    "cumsum",
    "difference_of_gaussians",
    "distance_transform_edt",
    "downsample",
    "equalize_hist",
    "exp",
    "extrema",
    "flip",
    "frangi",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "generic_filter",
    "generic_gradient_magnitude",
    "generic_laplace",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
    "hessian_matrix",
    "hessian_matrix_eigvals",
    "histogram",
    "joint_histogram",
    "keep_largest",
    "label",
    "laplace",
    "log",
    "map_overlap",
    "max",
    "maximum_filter",
    "maximum_filter1d",
    "maximum_position",
    "mean",
    "median_filter",
    "min",
    "minimum_filter",
    "minimum_filter1d",
    "minimum_position",
    "morphological_gradient",
    "morphological_laplace",
    "normalize_slices",
    "open",
    "options",
    "pad",
    "percentile",
    "percentile_filter",
    "plan",
    "prewitt",
    "rank_filter",
    "region_adjacency",
    "regionprops_table",
    "relabel",
    "remove_small_holes",
    "remove_small_objects",
    "rescale_intensity",
    "rotate",
    "sato",
    "shift",
    "signed_distance",
    "sobel",
    "sqrt",
    "std",
    "structure_tensor",
    "structure_tensor_eigenvalues",
    "sum",
    "threshold_isodata",
    "threshold_li",
    "threshold_local",
    "threshold_minimum",
    "threshold_multiotsu",
    "threshold_niblack",
    "threshold_otsu",
    "threshold_sauvola",
    "threshold_triangle",
    "threshold_yen",
    "transpose",
    "uniform_filter",
    "uniform_filter1d",
    "unsharp_mask",
    "upsample",
    "variance",
    "verify",
    "where",
    "white_tophat",
    "zoom",
]


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMS:
        from beam_volumes import transforms

        return getattr(transforms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
