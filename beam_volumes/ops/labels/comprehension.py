"""What scipy and scikit-image do with the voxels of each label: by boxes that are cut out of storage."""

from __future__ import annotations

import inspect
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
from beam_volumes.ops.labels.objects import Region, for_each_label
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.tables import regionprops_table
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.inputs.arrays import exact_array

#: What an entry of a list takes, and an object's slices.
_ENTRY, _SLICES = 8, 400


@documented
def find_objects(labels: Volume, max_label: int = 0) -> list[tuple[slice, ...] | None]:
    """Find the box of each label, as slices.

    Parameters
    ----------
    %(labels)s
    max_label : int, default: 0
        The largest label that is looked for; all by default.

    Returns
    -------
    list of tuple of slice
        For label 1, 2, ... its box, or None where there is no such label. It is computed now, in this
        process.

    Raises
    ------
    ValueError
        If ``max_label`` is negative, or the list takes more than ``options.max_inmemory``, for there
        are many labels or large ones.
    TypeError
        If ``labels`` is neither a volume nor an array, or of another dtype, or ``max_label`` is not an
        int.

    See Also
    --------
    regionprops_table : the same boxes as rows of a lazy table, of any number of labels.
    for_each_label : a function of each box.

    Notes
    -----
    One sweep; for labels of `label` it is the second of its two.

    References
    ----------
    `scipy.ndimage.find_objects`.

    Examples
    --------
    >>> bv.find_objects(np.array([[1, 1, 0], [0, 3, 3]], "u1"))
    [(slice(0, 1, None), slice(0, 2, None)), None, (slice(1, 2, None), slice(1, 3, None))]
    """
    name = "find_objects"
    try:
        maximum = operator.index(max_label)
    except TypeError:
        raise TypeError(f"{name}: max_label={max_label!r} is not an int") from None
    if maximum < 0:
        raise ValueError(f"{name}: max_label={max_label!r}: 0 is for all labels")
    rows = regionprops_table(labels, properties=["bbox"]).to_pyarrow().to_pydict()
    found = rows.pop("label")
    count = maximum or max(found, default=0)
    nbytes = _ENTRY * count + _SLICES * len(found)
    if nbytes > options.max_inmemory:
        raise ValueError(
            f"{name}: a list of {count:,} entries takes about {format_bytes(nbytes)}, more than "
            f"options.max_inmemory, {format_bytes(options.max_inmemory)}: regionprops_table(labels, "
            'properties=["bbox"]) has them as rows, or number the labels anew by relabel'
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
    """Apply a function to the voxels of each of some labels.

    Parameters
    ----------
    volume : Volume or numpy.ndarray
        A stored volume, of whose voxels the function is given.
    labels : Volume or numpy.ndarray
        Labels as they are stored, of bool or integers from 0 on, of the same shape.
    index : int or array_like of int
        The labels, above 0.
    func : callable
        Takes the voxels of a label, in raster order, and with ``pass_positions`` their linear indices in
        the volume; gives a number.
    out_dtype : dtype
        The dtype of the result.
    default : number
        The result for a label that there is not.
    pass_positions : bool, default: False
        Whether the function is given positions, too.

    Returns
    -------
    numpy.ndarray or number
        A number for each entry of ``index``. It is computed now, in this process.

    Raises
    ------
    ValueError
        If a volume is computed instead of stored, shapes differ, ``index`` is None or has 0 or negative
        labels; when a label's box takes more memory than is left.
    TypeError
        If an input is neither a volume nor an array, or of another dtype.

    See Also
    --------
    for_each_label : gives a lazy table, on any runner.
    regionprops_table : sums, means and the like, without a box in memory.

    Notes
    -----
    One sweep finds the boxes; then those of the labels in ``index`` are read.

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
            f"{name}: without labels or index the function would be given all voxels at once: give "
            "those labels that count"
        )
    wanted = exact_array(index, f"{name}: index") if np.size(index) else np.empty(0, np.uint64)
    if wanted.dtype.kind not in "ui":
        raise TypeError(f"{name}: index={index!r}: labels are integers")
    if wanted.size and wanted.min() < 1:
        raise ValueError(
            f"{name}: index has label {wanted.min()}: labels are above 0, the background"
        )
    wanted = wanted.astype(np.uint64)
    dtype = np.dtype(out_dtype)
    call = Comprehension(func, bool(pass_positions), opened.shape)
    table = for_each_label(labels, call, {"value": dtype}, volumes=(opened,))
    steps = table.barrier.survey.steps  # type: ignore[attr-defined]
    only = tuple(np.unique(wanted).tolist())
    boxes = regionprops_table(one_channel(labels), properties=["bbox"])
    rows = Table(then(replace(steps[-1], name=name, only=only), [boxes], name)).to_pyarrow()
    found, values = rows["label"].to_numpy(), rows["value"].to_numpy()
    result = np.full(wanted.shape, default, dtype)
    if len(found):
        at = np.minimum(np.searchsorted(found, wanted), len(found) - 1)
        np.copyto(result, values[at], where=found[at] == wanted)
    return result[()]


@dataclass(frozen=True)
class Comprehension:
    """scipy's function of voxels, as one of a region."""

    function: Callable[..., Any]
    with_positions: bool
    shape: tuple[int, ...]  #: Of the volume.

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
    """Put columns of functions of a region's mask and intensities behind those of a table with boxes."""
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


class Extra:
    """scikit-image's ``extra_properties``: each is a function of a mask, or of a mask and intensities."""

    def __init__(
        self, functions: tuple[Callable[..., Any], ...], with_intensity: bool, what: str
    ) -> None:
        self.functions, self.what = functions, what
        self.names = [str(getattr(f, "__name__", f)) for f in functions]
        self.takes = []
        for name, function in zip(self.names, functions, strict=True):
            if not callable(function):
                raise TypeError(f"{what}: extra_properties: {function!r} is no function")
            self.takes.append(len(inspect.signature(function).parameters))
            if self.takes[-1] not in (1, 2):
                raise TypeError(
                    f"{what}: extra_properties: {name} takes {self.takes[-1]} parameters; it takes a "
                    "region's mask, or that and its intensities"
                )
            if self.takes[-1] == 2 and not with_intensity:
                raise ValueError(f"{what}: extra_properties: {name} needs intensity=")

    def __call__(self, region: Region) -> dict[str, Any]:
        given: list[Any] = [region.mask]
        for image in region.images:  # channels last, as scikit-image has them
            given.append(np.moveaxis(image, 0, -1) if image.ndim > region.mask.ndim else image)
        found = {}
        for name, function, takes in zip(self.names, self.functions, self.takes, strict=True):
            value = function(*given[:takes])
            if np.ndim(value):
                raise ValueError(
                    f"{name} gives an array of {np.shape(value)}: a column has one number each"
                )
            found[name] = value
        return found
