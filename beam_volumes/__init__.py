"""scipy.ndimage for volumes that do not fit in memory, on any Apache Beam runner."""

from typing import TYPE_CHECKING, Any

from beam_volumes.drive.compute import compute
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.volume import Scalar, Target, Volume, open, options
from beam_volumes.ops.components import (
    apply_hysteresis_threshold,
    binary_fill_holes,
    binary_propagation,
    clear_border,
    keep_largest,
    label,
    remove_small_holes,
    remove_small_objects,
)
from beam_volumes.ops.derivatives import (
    gaussian_gradient_magnitude,
    gaussian_laplace,
    generic_gradient_magnitude,
    generic_laplace,
    laplace,
    prewitt,
    sobel,
)
from beam_volumes.ops.distance import cumsum, distance_transform_edt, signed_distance
from beam_volumes.ops.linear import (
    convolve,
    correlate,
    gaussian_filter,
    uniform_filter,
)
from beam_volumes.ops.morphology import (
    ball,
    binary_closing,
    binary_dilation,
    binary_erosion,
    binary_opening,
    cross,
    cube,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
)
from beam_volumes.ops.morphology_differences import (
    binary_hit_or_miss,
    black_tophat,
    morphological_gradient,
    morphological_laplace,
    white_tophat,
)
from beam_volumes.ops.one_axis import (
    convolve1d,
    correlate1d,
    gaussian_filter1d,
    maximum_filter1d,
    minimum_filter1d,
    uniform_filter1d,
)
from beam_volumes.ops.overlap import map_overlap
from beam_volumes.ops.pointwise import abs, clip, exp, log, sqrt, where
from beam_volumes.ops.rank import (
    maximum_filter,
    median_filter,
    minimum_filter,
    percentile_filter,
    rank_filter,
)
from beam_volumes.ops.rearrange import coordinates, flip, pad, transpose
from beam_volumes.ops.reductions import (
    histogram,
    max,
    mean,
    min,
    percentile,
    std,
    sum,
    threshold_otsu,
    variance,
)
from beam_volumes.ops.relabel import relabel
from beam_volumes.ops.resampling import (
    affine_transform,
    downsample,
    rotate,
    shift,
    upsample,
    zoom,
)
from beam_volumes.ops.statistics import (
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
from beam_volumes.ops.tables import region_adjacency, regionprops_table
from beam_volumes.plan.plan import Plan, plan
from beam_volumes.version import __version__

if TYPE_CHECKING:
    from beam_volumes.transforms import (
        ApplyStages,
        Compute,
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
    "distance_transform_edt",
    "downsample",
    "exp",
    "extrema",
    "flip",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "generic_gradient_magnitude",
    "generic_laplace",
    "grey_closing",
    "grey_dilation",
    "grey_erosion",
    "grey_opening",
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
    "rotate",
    "shift",
    "signed_distance",
    "sobel",
    "sqrt",
    "std",
    "sum",
    "threshold_otsu",
    "transpose",
    "uniform_filter",
    "uniform_filter1d",
    "upsample",
    "variance",
    "where",
    "white_tophat",
    "zoom",
]


def __getattr__(name: str) -> Any:
    if name in _TRANSFORMS:
        from beam_volumes import transforms

        return getattr(transforms, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
