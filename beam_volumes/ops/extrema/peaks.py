"""Peaks: positions of local maxima with a minimum distance from higher ones."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.across.rounds.extrema import (
    MAX_LOG_POWER,
    FirstIfFew,
    NearbyStep,
    Peaks,
    PeaksAmongLabels,
    PeaksOfLabels,
    Ranked,
    RankedOfLabels,
)
from beam_volumes.base.geometry import Halo
from beam_volumes.base.space import AXES
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.extrema.peaks import label_peaks
from beam_volumes.ops.filters.rank import maximum_filter
from beam_volumes.ops.geometry.rearrange import coordinates
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.tables import extremes_of_labels, regionprops_table
from beam_volumes.ops.measure.folds import Max, Min
from beam_volumes.ops.measure.reductions import fold
from beam_volumes.ops.measure.statistics import all as every
from beam_volumes.ops.morphology.basic import binary_dilation, grey_dilation, grey_erosion
from beam_volumes.ops.morphology.footprints import cross
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import kernel_input, stage_of_volumes
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.stage import Block, KernelStage, Padding


@documented
def peak_local_max(
    image: Volume,
    min_distance: int | Sequence[int] = 1,
    threshold_abs: float | None = None,
    threshold_rel: float | None = None,
    exclude_border: bool | int | Sequence[int] = True,
    num_peaks: float | None = None,
    footprint: ArrayLike | None = None,
    labels: Volume | None = None,
    num_peaks_per_label: float | None = None,
    p_norm: float | None = None,
) -> Table:
    """Find the positions of peaks with a minimum distance between them.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. Voxels near NaN are not peaks; infinite voxels
        are compared like other voxels.
    min_distance : int or sequence of int, default: 1
        The smallest distance between two peaks, in steps along each axis. A peak is the maximum of
        all voxels within this distance. One number for all axes or one per axis.
    threshold_abs : float, optional
        Peaks must be higher than this; by default, higher than the smallest voxel.
    threshold_rel : float, optional
        Peaks must also be higher than this fraction of the largest voxel.
    exclude_border : bool, int or sequence of int, default: True
        Minimum distance of peaks from the border, in voxels. True is ``min_distance``, False is 0.
    num_peaks : float, optional
        The maximum number of peaks, highest first; all by default, or with inf.
    footprint : array_like, optional
        The neighbourhood in which a peak is the maximum, instead of a box of ``min_distance``.
    labels : Volume or numpy.ndarray, optional
        Labels; 0 is background. Peaks of each label are found independently of voxels outside of
        the label.
    num_peaks_per_label : float, optional
        The maximum number of peaks of each label; all by default, or with inf.
    p_norm : float, optional
        The norm of distances between peaks, at least 1: inf, the default, is the largest difference
        along an axis, and 2 is the Euclidean distance.

    Returns
    -------
    Table
        A lazy table with a row for each peak. The columns are ``rank`` (1, 2, ... from the highest
        peak), the position (``z``, ``y``, ``x``), and the ``intensity``. Equal peaks are in raster
        order. With ``labels``, there is a column ``label``, and peaks are ordered by label unless
        ``num_peaks`` excludes some.

    Raises
    ------
    ValueError
        If a parameter is out of range. On computation, if the peaks need more memory than is
        available.
    TypeError
        If ``image`` is neither a volume nor an array, or a parameter has a wrong type.

    See Also
    --------
    local_maxima : plateaus, as a mask.
    h_maxima : maxima with a minimum height.

    Notes
    -----
    Peaks and their order are identical to scikit-image's, which returns the positions as an array.
    Two sweeps: the first finds the smallest and largest voxel and detects constant volumes, and the
    second finds the peaks. With ``labels``, there are two more sweeps, because in a label with a
    single intensity, only single voxels are peaks. Peaks are compared in a tree. The largest step
    holds the peaks near the ends of some ranges of slices, about 300 bytes each. If memory is too
    small for them, an error is raised.

    References
    ----------
    `skimage.feature.peak_local_max`.

    Examples
    --------
    >>> image = np.zeros((7, 7))
    >>> image[3, 4], image[3, 2] = 1, 1.5
    >>> table = bv.peak_local_max(image)
    >>> np.stack([table["y"], table["x"]], axis=1)
    array([[3, 2],
           [3, 4]])
    >>> bv.peak_local_max(image, min_distance=2)["x"]
    array([2])
    """
    name = "peak_local_max"
    each = _max_count(num_peaks_per_label, name, "num_peaks_per_label")
    image = one_channel(as_volume(image))
    if image.dtype.kind == "b":
        image = image.astype(np.uint8)
    axes = image.space.axes
    shape, first = image.shape[-len(axes) :], image.ndim - len(axes)
    distance = whole_numbers_of(min_distance, len(shape), "min_distance", name)
    p_norm = math.inf if p_norm is None else p_norm
    if not par.is_number(p_norm) or not p_norm >= 1:
        raise ValueError(f"{name}: p_norm={p_norm!r} is not a number from 1 to inf")
    if p_norm < math.inf and p_norm * math.log(max(2, *shape)) > MAX_LOG_POWER:
        raise ValueError(
            f"{name}: p_norm={p_norm!r} is too large for distances of {max(shape)} voxels; use numpy.inf"
        )
    count = _max_count(num_peaks, name)
    if isinstance(exclude_border, bool | np.bool_):
        border = distance if exclude_border else (0,) * len(shape)
    else:
        border = whole_numbers_of(exclude_border, len(shape), "exclude_border", name)
    border = tuple(min(width, n) for width, n in zip(border, shape, strict=True))
    if footprint is None:
        # Voxels beyond the volume would not change the highest one.
        reach = [min(d, max(1, n - 1)) for d, n in zip(distance, shape, strict=True)]
        footprint = np.ones([2 * r + 1 for r in reach], bool)
    element = par.element(footprint, "footprint", name) != 0
    if not image.size:
        threshold_abs, threshold_rel = 0, None
    low = end_of(Min, image) if threshold_abs is None else threshold_abs
    if threshold_rel is not None:
        share = apply_ufunc("multiply", end_of(Max, image), threshold_rel)
        low = apply_ufunc("fmax", low, share)
    peaks = apply_ufunc("greater", image, low)
    regions = None if labels is None else _inner(labels, image, border, name)
    if regions is not None:
        peaks = peaks & _peaks_of_labels(image, regions, element)
    elif element.size > 1 and math.prod(shape) > 1:
        if element.all():
            highest = maximum_filter(image, size=element.shape, mode="nearest")
        else:
            highest = maximum_filter(image, footprint=element, mode="nearest")
        same = apply_ufunc("equal", image, highest)
        varied = apply_ufunc("logical_not", every(same))
        peaks = apply_ufunc("logical_and", peaks & same, varied)
    index: Any = None
    for axis, (n, width) in enumerate(zip(shape, border, strict=True)):
        at = coordinates(image, first + axis)
        index = at if index is None else index * n + at
        if width:
            peaks = peaks & (at >= width) & (at < n - width)
    places = where(peaks, index + 1, 0).astype(np.uint64)
    table = extremes_of_labels(places, image, "intensity_max")
    dtype = table.columns["intensity_max"]
    # No two voxels are as far apart as the sum of all lengths.
    alike = distance if len(set(distance)) > 1 else (min(distance[0], sum(shape)),)
    how = name, shape, tuple(axes), dtype, alike, float(p_norm), count
    if regions is None:
        return ranked(Peaks(*how), [table], count)
    around = extremes_of_labels(places, regions, "intensity_max")
    of_labels = PeaksOfLabels(*how)
    spaced = Table(then(of_labels, [table, around], name))
    found = Table(then(RankedOfLabels(name, of_labels, None, each), [spaced], name))
    if count is None:
        return found
    numbered = Ranked(name, PeaksAmongLabels(*how), count)
    fewer = Table(then(numbered, [Table(then(numbered.of, [found], name))], name))
    return Table(then(FirstIfFew(name, count, numbered), [found, fewer], name))


def ranked(step: NearbyStep, tables: Sequence[Table], maximum: int | None = None) -> Table:
    """Return the rows that remain, with their ranks."""
    remaining = Table(then(step, tables, step.name))
    return Table(then(Ranked(step.name, step, maximum), [remaining], step.name))


@dataclass(frozen=True, eq=False)
class LabelPeaks(KernelStage):
    """Whether a voxel is the highest of its label in a footprint. Inputs are the image and the labels."""

    element: np.ndarray

    kernel = staticmethod(label_peaks)
    #: Outside of the volume there are no labels.
    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        return 2.0 + 0.6 * self.element.sum()

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((n // 2, n - 1 - n // 2) for n in self.element.shape)
        return ((z, y, x),) * 2

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        margin = tuple(n // 2 for n in self.element.shape)
        steps = np.ascontiguousarray(np.argwhere(self.element) - margin, np.int64).reshape(-1, 3)
        distances = np.abs(steps).max(axis=1, initial=0)
        steps = steps[np.argsort(distances, kind="stable")]
        near = int(np.count_nonzero(distances <= 1))
        return *inputs, out, y0, y1, out.cols, steps, near, margin


def _inner(labels: Any, image: Volume, border: Sequence[int], name: str) -> Volume:
    """Return the labels of an image as uint64, without the border."""
    regions = one_channel(as_volume(labels))
    check_labels(regions.dtype, name)
    if regions.axes != image.axes or regions.shape != image.shape:
        raise ValueError(
            f"{name}: labels of shape {regions.shape} ({' '.join(regions.axes)}) and an image of shape "
            f"{image.shape} ({' '.join(image.axes)}) do not match; crop them to one shape first"
        )
    regions, first = regions.astype(np.uint64), image.ndim - len(border)
    for axis, width in enumerate(border):
        if width:
            at, n = coordinates(image, first + axis), image.shape[first + axis]
            regions = where((at >= width) & (at < n - width), regions, np.uint64(0))
    return regions


def _peaks_of_labels(image: Volume, regions: Volume, element: np.ndarray) -> Volume:
    """Return the voxels that are the highest of their label in a footprint."""
    if element.size == 1:
        return regions != 0
    image, axes = kernel_input(image), image.space.axes
    footprint = np.expand_dims(element, tuple(a for a in range(3) if AXES[a] not in axes))
    stage = LabelPeaks("peaks of labels", np.dtype(bool), footprint)
    same = stage_of_volumes(stage, [image, regions])
    # In a label of one value, only voxels that a binary opening of the label removes are peaks.
    lowest = regionprops_table(regions, same.astype(np.uint8), ["intensity_min"])
    flat = relabel(regions, lowest)
    near: dict[str, Any] = {"footprint": cross(1, len(axes)), "mode": "constant"}
    pure = grey_dilation(regions, **near) == grey_erosion(regions, **near)
    opened = binary_dilation(pure & (regions != 0), near["footprint"])
    return (regions != 0) & where(flat == 0, same, ~opened)


def end_of(kind: type[Min | Max], image: Volume) -> Scalar:
    """Return the smallest or largest voxel, including infinite ones, ignoring NaN."""
    return fold(replace(kind.of(image.dtype), nan="NaN"), image, None)


def whole_numbers_of(given: Any, count: int, what: str, name: str) -> tuple[int, ...]:
    """Return one number of voxels for each axis, at least 0."""
    numbers = (given,) * count if np.ndim(given) == 0 else tuple(given)
    if len(numbers) != count:
        raise ValueError(
            f"{name}: {what}={given!r}: give one number, or one for each of {count} axes"
        )
    for number in numbers:
        if not par.is_whole(number):
            raise TypeError(f"{name}: {what}={given!r} is not a whole number of voxels")
        if number < 0:
            raise ValueError(f"{name}: {what}={given!r} is negative; give 0 or more")
    return tuple(operator.index(n) for n in numbers)


def _max_count(num_peaks: Any, name: str, what: str = "num_peaks") -> int | None:
    if num_peaks is None:
        return None
    if not par.is_number(num_peaks) or not num_peaks >= 0:
        raise ValueError(f"{name}: {what}={num_peaks!r}: give a number of peaks, or inf")
    return None if math.isinf(num_peaks) else int(num_peaks)
