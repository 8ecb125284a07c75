"""Selects the kernel of a filter, by its footprint and the dtype of voxels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from beam_volumes.kernels.filters import columns
from beam_volumes.kernels.filters import extremum as extremum_kernels
from beam_volumes.ops.filters import stages
from beam_volumes.ops.parameters.neighbourhood import Footprint
from beam_volumes.sweep.stage import Padding, Stage


def extremum(around: Footprint, dtype: np.dtype, largest: bool) -> stages.Neighbourhood:
    """The minimum or maximum over a box, or over a footprint by columns or by single voxels."""
    common = around.fields(dtype)
    if around.is_box:
        return stages.ExtremumBox(*common, largest)
    around.needs_one_mode("the footprint is not a box")
    offsets = around.offsets
    # A vector has as many bytes as a loop processes: columns are not faster.
    few = len(offsets) <= extremum_kernels.FEW_TAPS or dtype.itemsize == 1
    found = None if few else columns.columns_of(offsets, around.shape[0])
    if found is None:
        return stages.ExtremumFootprint(*common, offsets, largest)
    return stages.ExtremumColumns(*common, found, largest)


def rank(around: Footprint, dtype: np.dtype, number: int) -> stages.Neighbourhood:
    """The value of a rank; the median of 3 x 3 x 3 voxels uses a sorting network."""
    offsets = around.offsets
    if number in (0, len(offsets) - 1) and len(offsets) > 1:
        return extremum(around, dtype, number > 0)
    common = around.fields(dtype)
    if not around.is_box:
        around.needs_one_mode("the footprint is not a box")
    elif around.shape == (3, 3, 3) and number == 13:
        return stages.Median3(*common)
    elif _counts_in_bytes(around, dtype):
        return stages.RankBox(*common, number)
    elif len(offsets) * dtype.itemsize > 400 and max(around.shape) <= 256:
        return stages.RankWalk(*common, number)
    return stages.RankFootprint(*common, offsets, number)


def _counts_in_bytes(box: Footprint, dtype: np.dtype) -> bool:
    """Whether `stages.RankBox` supports a box, and is the fastest."""
    size = math.prod(box.shape)
    fits = dtype.itemsize == 1 and box.shape[0] < 256 and size < 1 << 16
    return fits and (dtype.kind == "b" or size > 200)


def mean(box: Footprint, dtype: np.dtype, wanted: np.dtype) -> stages.Uniform | None:
    """The mean of a box of small integers by exact sums; None if weights along each axis are used."""
    types = _sum_types(dtype, box)
    if types is None or (box.has_constant and box.cval != 0):
        return None
    common = box.fields(wanted, Padding(box.modes))
    real = np.float64 if wanted == np.float64 else np.float32
    return stages.Uniform(*common, *types, real(1 / math.prod(box.shape)))


def _sum_types(dtype: np.dtype, box: Footprint) -> tuple[np.dtype, np.dtype] | None:
    """Integer types for the sums over a box's z and y, and over the box; None if 32 bits are too few."""
    if dtype.kind not in "bui" or dtype.itemsize > 2:
        return None
    largest = 1 if dtype.kind == "b" else max(-np.iinfo(dtype).min, np.iinfo(dtype).max)
    kind = "i" if dtype.kind == "i" else "u"
    types = []
    for count in (math.prod(box.shape[:2]), math.prod(box.shape)):
        bits = int(largest * count).bit_length() + (kind == "i")
        if bits > 32:
            return None
        types.append(np.dtype(f"{kind}{2 if bits <= 16 else 4}"))
    return types[0], types[1]


def gradient_magnitude(
    box: Footprint, dtype: np.dtype, real: np.dtype, centre: int
) -> stages.GradientMagnitude | None:
    """Sobel's (``centre`` 2) or Prewitt's (1) gradient along three axes at once; None if not supported."""
    constant = box.has_constant and box.cval != 0
    if box.shape != (3, 3, 3) or len(set(box.modes)) > 1 or constant or real == np.float16:
        return None
    kind: Any = real.type
    if dtype.itemsize <= 2:  # 16 times a voxel is exact
        kind = np.int16 if dtype.itemsize == 1 else np.int32
    return stages.GradientMagnitude(
        *box.fields(real, Padding(box.modes)), kind(centre), real.type(0)
    )


def binary(element: Footprint, dilation: bool) -> stages.BinaryFootprint | stages.BinaryBall:
    """Binary erosion or dilation by a ball or ellipsoid, or by single voxels."""
    common, offsets = element.fields(np.dtype(bool)), element.offsets
    ball = _as_ball(element.inside)
    if ball is None:
        return stages.BinaryFootprint(*common, offsets, dilation)
    return stages.BinaryBall(*common, *ball, dilation)


def _as_ball(element: np.ndarray) -> tuple[np.ndarray, int] | None:
    """Squared lengths per axis and the largest one inside, if an element is a ball; else None.

    Lengths are in voxels, or in fractions of the radii for an ellipsoid.
    """
    radii = [n // 2 for n in element.shape]
    if any(n % 2 == 0 for n in element.shape) or max(radii) >= 254:
        return None
    whole = math.lcm(*(r for r in radii if r))
    for weights in ([1, 1, 1], [(whole // r) ** 2 if r else 1 for r in radii]):
        reach = np.arange(max(radii) + 2, dtype=np.int64)
        steps = np.array(weights)[:, None] * reach**2
        z, y, x = (steps[a][np.abs(np.arange(-r, r + 1))] for a, r in enumerate(radii))
        squared = z[:, None, None] + y[:, None] + x
        limit = int(squared[element].max())
        ends = max(int(steps[a, r]) for a, r in enumerate(radii))
        if ends <= limit < 1 << 15 and np.array_equal(element, squared <= limit):
            dtype = np.uint8 if limit < 1 << 7 else np.uint16
            return np.minimum(steps, limit + 1).astype(dtype), limit
    return None


def grey(element: Footprint, dtype: np.dtype, dilation: bool) -> stages.Neighbourhood:
    """Grey erosion or dilation: an extremum, unless the structuring element has heights."""
    heights = None if element.numbers is None else element.numbers[element.inside]
    if heights is None or not heights.any():
        return extremum(element, dtype, dilation)
    element.needs_one_mode("the structure is not flat")
    common = element.fields(dtype)
    return stages.GreyFootprint(*common, element.offsets, heights, dilation)


#: Cheaper alternatives to stages.
_CHEAPER: tuple[tuple[tuple[type[Stage], ...], str], ...] = (
    (
        (stages.CorrelateNd,),
        "weights that are an outer product run as correlate1d along each axis, and gaussian or box "
        "weights as gaussian_filter and uniform_filter",
    ),
    (
        (stages.RankFootprint, stages.ExtremumFootprint, stages.ExtremumColumns),
        "a box (size:) is cheaper than a footprint",
    ),
    ((stages.GreyFootprint,), "a flat footprint is cheaper than a structure of heights"),
    (
        (stages.Overlap, stages.GenericFootprint),
        "it is a function of your own: the filters of this package are compiled and threaded",
    ),
)


def cheaper(stage: Stage) -> str:
    """A cheaper alternative to a stage, if the task allows it; "" without one."""
    return next((text for kinds, text in _CHEAPER if isinstance(stage, kinds)), "")
