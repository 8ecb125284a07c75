"""Device code: twins of host kernels for NVIDIA GPUs, with the same bits.

The twin of ``beam_volumes.kernels.<path>.<name>`` is ``beam_volumes.kernels.cuda.<path>.<name>``, unless
`_ELSEWHERE` has it. It is a function with the same arguments, unless it documents others, and
``stream=None``. ``lines`` and ``firsts`` of `beam_volumes.kernels.rows.Rows` are device arrays of
``numba.cuda``; other arrays may be in host memory. It starts device code and returns before the end.
`beam_volumes.kernels.cuda.pointwise.apply` is for chains of elementwise functions, and has no host kernel of
the same name.

Device code is compiled by ``numba-cuda`` instead of CuPy's ``RawModule``, because numba's simulator runs it
in tests without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

#: Kernels with a twin in another module: on a device, ranks over any box are computed alike.
_ELSEWHERE = {
    "filters.columns.extremum_of_columns": "filters.extremum.extremum_of_columns",
    "filters.median.median3": "filters.rank.median3",
    "filters.rank_box.rank_box": "filters.rank.rank_of_box",
    "filters.rank_walk.rank_walk": "filters.rank.rank_of_box",
    "morphology.ball.binary_ball": "morphology.footprint.binary_ball",
}
#: The kernels with a twin, by their path and name in `beam_volumes.kernels`. Importing them needs
#: ``numba-cuda``; this module does not.
TWINS: frozenset[str] = frozenset(
    {
        *_ELSEWHERE,
        "filters.eigen.eigenvalue",
        "filters.eigen.eigenvalue_of_spread",
        "filters.eigen.ridge",
        "filters.eigen.spread",
        "filters.extremum.extremum_box",
        "filters.extremum.extremum_footprint",
        "filters.gradient.gradient_magnitude",
        "filters.rank.rank_footprint",
        "filters.separable.correlate",
        "filters.separable.correlate_nd",
        "filters.uniform.uniform_box",
        "geometry.downsample.mean",
        "geometry.downsample.pick",
        "geometry.resample.affine",
        "geometry.resample.gather",
        "geometry.resample.interpolate",
        "intensity.colour.of_three",
        "intensity.curve.along_curve",
        "intensity.curve.shift_and_scale",
        "labels.components.count_runs",
        "labels.components.find_runs",
        "measure.accumulate.extent",
        "measure.accumulate.moments",
        "measure.digests.digest",
        "measure.histogram.bin_counts",
        "measure.histogram.radix_counts",
        "morphology.distance.along_x",
        "morphology.distance.along_y",
        "morphology.distance.backward",
        "morphology.distance.ends",
        "morphology.distance.forward",
        "morphology.footprint.binary_footprint",
        "morphology.footprint.grey_footprint",
        "rows.pad_margins",
    }
)


def run_bytes(slices: int, rows: int, cols: int, is_joined: bool) -> int:
    """Bytes of the arrays of device memory for the runs of any mask of this shape."""
    runs = (cols + 1) // 2 if is_joined else cols
    return 8 * (slices * rows + 1) + 3 * (4 * slices * rows * runs + 8)


def twin(name: str) -> Callable[..., None]:
    """The device function of a kernel in `TWINS`."""
    module, _, function = _ELSEWHERE.get(name, name).rpartition(".")
    return getattr(import_module(f"{__name__}.{module}"), function)  # type: ignore[no-any-return]
