"""Functions of scipy and scikit-image for the voxels of each label, by boxes that are read from storage."""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.options import options
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.objects import EachLabel, Region, StoredObjects, for_each_label
from beam_volumes.ops.labels.regions import boxes_of
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.table_surveys import check_objects
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import representable
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.inputs.arrays import exact_array
from beam_volumes.sweep.stage import identity

#: Bytes of a list's entry, and of the slices of an object.
_ENTRY, _SLICES = 8, 400


@documented
def find_objects(labels: Volume, max_label: int = 0) -> list[tuple[slice, ...] | None]:
    """Compute the bounding box of each label as slices.

    Parameters
    ----------
    %(labels)s
    max_label : int, default: 0
        The largest label to search; all by default.

    Returns
    -------
    list of tuple of slice
        The bounding boxes of labels 1, 2, ..., or None for missing labels. The boxes are computed
        immediately, in the current process.

    Raises
    ------
    ValueError
        If ``max_label`` is negative, or the list would exceed ``options.max_inmemory`` because
        labels are many or large.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or
        ``max_label`` is not an int.

    See Also
    --------
    regionprops_table : returns boxes as rows of a lazy table, for any number of labels.
    for_each_label : applies a function to each box.

    Notes
    -----
    One sweep; labels from `label` share its second sweep.

    References
    ----------
    `scipy.ndimage.find_objects`.

    Examples
    --------
    >>> bv.find_objects(np.array([[1, 1, 0], [0, 3, 3]], "u1"))
    [(slice(0, 1, None), slice(0, 2, None)), None, (slice(1, 2, None), slice(1, 3, None))]
    """
    name = "find_objects"
    labels = one_channel(labels)
    check_objects(labels.dtype, name)
    try:
        maximum = operator.index(max_label)
    except TypeError:
        raise TypeError(f"{name}: max_label={max_label!r} is not an int") from None
    if maximum < 0:
        raise ValueError(f"{name}: max_label={max_label!r}: give 0 for all labels")
    rows = boxes_of(labels).to_pyarrow().to_pydict()
    found = rows.pop("label")
    count = maximum or max(found, default=0)
    nbytes = _ENTRY * count + _SLICES * len(found)
    if nbytes > options.max_inmemory:
        raise ValueError(
            f"{name}: a list of {count:,} entries needs about {format_bytes(nbytes)}, more than "
            f"options.max_inmemory, {format_bytes(options.max_inmemory)}: regionprops_table(labels, "
            'properties=["bbox"]) returns rows, and relabel makes labels smaller'
        )
    result: list[tuple[slice, ...] | None] = [None] * count
    ends = list(rows.values())
    half = len(ends) // 2
    for k, number in enumerate(found):
        if number <= count:
            result[number - 1] = tuple(slice(ends[a][k], ends[a + half][k]) for a in range(half))
    return result


@documented
def labeled_comprehension(
    volume: Volume,
    labels: Volume,
    index: Any,
    func: Callable[..., Any],
    out_dtype: DTypeLike,
    default: Any,
    pass_positions: bool = False,
) -> Any:
    """Apply a function to the voxels of selected labels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A stored volume with the values for the function.
    labels : Volume or numpy.ndarray
        Stored labels of the same shape, bool or integers from 0.
    index : int or array_like of int
        The labels, above 0.
    func : callable
        A function of the voxels of a label in raster order that returns a number. With
        ``pass_positions``, the second argument is the linear indices of the voxels in the volume.
    out_dtype : dtype
        The dtype of the result.
    default : number
        The result for missing labels.
    pass_positions : bool, default: False
        Whether to pass positions to the function.

    Returns
    -------
    numpy.ndarray or number
        A number for each entry of ``index``, computed immediately, in this process.

    Raises
    ------
    ValueError
        If a volume is computed instead of stored, shapes differ, or ``index`` is None or has labels
        below 1. If a label's bounding box needs more memory than is available.
    TypeError
        If an input is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    for_each_label : returns a lazy table, on any runner.
    regionprops_table : computes sums, means etc., without a box in memory.

    Notes
    -----
    One sweep finds the bounding boxes; then the boxes of the labels in ``index`` are read.

    References
    ----------
    `scipy.ndimage.labeled_comprehension`.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0], [0, 2, 2]], "u1")
    >>> image = np.array([[1, 5, 9], [9, 2, 4]], "u1")
    >>> bv.labeled_comprehension(image, labels, [1, 2, 3], np.ptp, int, -1)
    array([ 4,  2, -1])
    """
    name = "labeled_comprehension"
    opened = one_channel(as_volume(volume))
    if index is None or labels is None:
        raise ValueError(
            f"{name}: without labels or index the function would get all voxels at once: give the labels "
            "to process"
        )
    wanted = exact_array(index, f"{name}: index") if np.size(index) else np.empty(0, np.uint64)
    if wanted.dtype.kind not in "ui":
        raise TypeError(f"{name}: index={index!r}: labels must be integers")
    if wanted.size and wanted.min() < 1:
        raise ValueError(
            f"{name}: index has label {wanted.min()}; labels must be above 0, the background"
        )
    wanted = wanted.astype(np.uint64)
    dtype = np.dtype(out_dtype)
    if dtype.kind in "biu" and not representable(default, dtype):
        raise ValueError(
            f"{name}: default={default!r} is not a {dtype} number; use another out_dtype"
        )
    call = Comprehension(func, bool(pass_positions), opened.shape)
    objects = StoredObjects.of(labels, (opened,), 0, name)
    labels = one_channel(labels)
    step = EachLabel(
        name, call, (("value", dtype.str),), objects, identity(None, None),
        only=tuple(np.unique(wanted).tolist()),
    )  # fmt: skip
    # As in scipy, a mask is label 1.
    numbers = labels.astype(np.uint8) if labels.dtype.kind == "b" else labels
    boxes = boxes_of(numbers)
    rows = Table(then(step, [boxes], name)).to_pyarrow()
    found, values = rows["label"].to_numpy(), rows["value"].to_numpy()
    result = np.full(wanted.shape, default, dtype)
    if len(found):
        at = np.minimum(np.searchsorted(found, wanted), len(found) - 1)
        np.copyto(result, values[at], where=found[at] == wanted)
    return result[()]


@dataclass(frozen=True)
class Comprehension:
    """Calls scipy's function of voxels for a region."""

    function: Callable[..., Any]
    with_positions: bool
    shape: tuple[int, ...]  #: The shape of the volume.

    def __call__(self, region: Region) -> dict[str, Any]:
        voxels = region.images[0][region.mask]
        if not self.with_positions:
            return {"value": self.function(voxels)}
        at = [a + start for a, start in zip(np.nonzero(region.mask), region.start, strict=True)]
        return {"value": self.function(voxels, np.ravel_multi_index(at, self.shape))}


def with_functions(
    table: Table,
    labels: Volume,
    intensity: Volume | None,
    functions: Mapping[Callable[..., Any], Any],
    shown: Sequence[str],
    what: str,
) -> Table:
    """Append columns with functions of each region's mask and intensities to a table with boxes."""
    extra = Extra(tuple(functions), intensity is not None, what)
    made = for_each_label(
        labels,
        extra,
        dict(zip(extra.names, functions.values(), strict=True)),
        volumes=() if intensity is None else (intensity,),
    )
    steps = made.barrier.survey.steps  # type: ignore[attr-defined]
    columns = table.columns
    carried = tuple((name, columns[name].str) for name in shown if name != "label")
    return Table(then(replace(steps[-1], name=what, carried=carried), [table], what))


def with_filled_areas(
    table: Table, labels: Volume, spacing: Any, shown: Sequence[str], what: str
) -> Table:
    """Append ``area_filled`` to a table with boxes, from stored labels."""
    area: dict[Callable[..., Any], Any] = {
        FilledArea.of(labels, spacing, what): np.dtype(np.float64)
    }
    return with_functions(table, labels, None, area, shown, what)


@dataclass(frozen=True)
class FilledArea:
    """The area of a region with its holes, in units of the size of a voxel."""

    voxel: float
    __name__ = "area_filled"

    @classmethod
    def of(cls, labels: Volume, spacing: Any, what: str) -> FilledArea:
        sizes = par.voxel_sizes(labels, spacing, "spacing", what)
        return cls(math.prod(sizes[a] for a in labels.space.visible))

    def __call__(self, mask: np.ndarray) -> float:
        from scipy.ndimage import binary_fill_holes

        return float(binary_fill_holes(mask, np.ones((3,) * mask.ndim)).sum() * self.voxel)


class Extra:
    """scikit-image's ``extra_properties``: functions of a mask, or of a mask and intensities."""

    def __init__(
        self, functions: tuple[Callable[..., Any], ...], with_intensity: bool, what: str
    ) -> None:
        self.functions, self.what = functions, what
        self.names = [str(getattr(f, "__name__", f)) for f in functions]
        self.takes = []
        for name, function in zip(self.names, functions, strict=True):
            if not callable(function):
                raise TypeError(f"{what}: extra_properties: {function!r} is not a function")
            self.takes.append(len(inspect.signature(function).parameters))
            if self.takes[-1] not in (1, 2):
                raise TypeError(
                    f"{what}: extra_properties: {name} has {self.takes[-1]} parameters; it must "
                    "accept a region's mask, or its mask and intensities"
                )
            if self.takes[-1] == 2 and not with_intensity:
                raise ValueError(f"{what}: extra_properties: {name} needs intensity=")

    def __call__(self, region: Region) -> dict[str, Any]:
        given: list[Any] = [region.mask]
        for image in region.images:  # channels last, as in scikit-image
            given.append(np.moveaxis(image, 0, -1) if image.ndim > region.mask.ndim else image)
        found = {}
        for name, function, takes in zip(self.names, self.functions, self.takes, strict=True):
            value = function(*given[:takes])
            if np.ndim(value):
                raise ValueError(
                    f"{name} returned an array of {np.shape(value)}; it must return a number"
                )
            found[name] = value
        return found
