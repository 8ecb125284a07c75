"""Numbers of each label of an index: picked from a table of labels, or rows of a joint histogram.

Most numbers are of a whole volume, so `calls` imports this module and tables of labels on first use.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.picked import Picked
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import BarrierValue, Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_mask, as_volume, one_channel
from beam_volumes.ops.labels.relabel import relabel
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.table_surveys import check_counted
from beam_volumes.ops.labels.tables import regionprops_table
from beam_volumes.ops.measure import reductions, statistics
from beam_volumes.ops.measure.folds_along import LIMIT
from beam_volumes.ops.pointwise import where
from beam_volumes.storage.inputs.arrays import exact_array

#: What to do for medians of values that cannot be counted.
_ANY_MEDIAN = "use bv.labeled_comprehension(volume, labels, index, np.median, float, np.nan)"


def of_each(
    whole: functools.partial[Any],
    name: str,
    volume: Any,
    labels: Volume,
    index: Any,
    mask: Any,
    nan: str,
    properties: tuple[str, ...],
) -> Any:
    """Return the number of each label of ``index``."""
    wanted = exact_array(index, f"{name}: index") if np.size(index) else np.empty(0, np.uint64)
    if wanted.dtype.kind not in "ui":
        raise TypeError(f"{name}: index={index!r}: labels must be integers")
    if wanted.size and wanted.min() < 0:
        raise ValueError(f"{name}: index has label {wanted.min()}; labels must be at least 0")
    if labels.dtype.kind == "b":
        labels = labels.astype(np.uint8)
    if wanted.size and wanted.min() == 0:
        labels, wanted = _from_one(labels, wanted, name)
    if mask is not None:
        labels = where(as_mask(mask), labels, labels.dtype.type(0))
    if not properties:
        return _counts(whole, volume, labels, wanted)
    if "intensity_median" in properties:
        check_counted(as_volume(volume).dtype, name, _ANY_MEDIAN)
    table = regionprops_table(labels, one_channel(volume), properties, nan=nan)
    found = _picked(table, properties, wanted, as_volume(volume).dtype, name)
    return found if len(found) > 1 else found[0]


def _from_one(labels: Volume, wanted: np.ndarray, name: str) -> tuple[Volume, np.ndarray]:
    """Increase all labels by 1, so that background is a label like others."""
    of = np.dtype(np.int64 if labels.dtype.kind == "i" else np.uint64)
    if wanted.max() >= np.iinfo(of).max:
        raise ValueError(
            f"{name}: index has both 0 and {wanted.max()}; measure one of them separately"
        )
    # Negative labels stay negative, and are refused.
    return labels.astype(of) + (labels >= 0), wanted.astype(np.uint64) + np.uint64(1)


def _picked(
    table: Table, properties: tuple[str, ...], wanted: np.ndarray, source: np.dtype, name: str
) -> tuple[Scalar, ...]:
    """Return properties of the labels of ``index``; ``source`` is the volume's dtype."""
    numbers, nbytes = [], 0
    for p in properties:
        columns = tuple(c for c in table.columns if c.partition("-")[0] == p)
        numbers.append((p, columns, table.columns[columns[0]]))
        nbytes += wanted.size * len(columns) * numbers[-1][2].itemsize
    if nbytes > LIMIT:
        raise ValueError(
            f"{name}: {wanted.size:,} labels need {format_bytes(nbytes)}, but the maximum is "
            f"{format_bytes(LIMIT)}; use regionprops_table(labels, volume), which has a row for "
            "each label"
        )
    chain = then(Picked(name, wanted.astype(np.uint64).ravel(), tuple(numbers)), [table], name)
    found = []
    for p, columns, dtype in numbers:
        value = BarrierValue.of(chain, p, dtype, (math.prod(wanted.shape), len(columns)))
        shape = wanted.shape + (value.shape[1:] if columns[0] != p else ())
        to = source if p in ("intensity_min", "intensity_max") else dtype
        found.append(Scalar(FormulaValue.of(Reshaped("reshape", shape, to), (value,), to, shape)))
    return tuple(found)


def _counts(
    whole: functools.partial[Any], volume: Any, labels: Volume, wanted: np.ndarray
) -> tuple[Scalar, Scalar]:
    """Return counts of each label, as columns of one joint histogram, and edges that all share."""
    bins, range, nan = (whole.keywords[n] for n in ("bins", "range", "nan"))
    known, rows = np.unique(wanted, return_inverse=True)
    count = len(known) or 1
    numbers = relabel(labels, (known, np.arange(1, len(known) + 1, dtype=np.uint32)), missing=0)
    volume, inside = one_channel(volume), numbers != 0
    whole(volume, mask=inside)  # refuses wrong bins and ranges
    if (nbytes := 8 * count * bins) > LIMIT:
        raise ValueError(
            f"{whole.func.__name__}: {count:,} labels with bins={bins} need "
            f"{format_bytes(nbytes)}, but the maximum is {format_bytes(LIMIT)}; give fewer labels "
            "or bins"
        )
    if range is None:
        range = [f(volume, mask=inside, nan=nan) for f in (reductions.min, reductions.max)]
    found, _, edges = statistics.joint_histogram(
        numbers, volume, (count, bins), ((1, count + 1), range), nan=nan
    )
    shape = (*wanted.shape, bins)
    chosen = Rows("rows", rows.ravel(), shape)
    return Scalar(FormulaValue.of(chosen, (found.value,), found.dtype, shape)), edges


@dataclass(frozen=True, eq=False)
class Rows(Formula):
    """Rows of an array, in another shape."""

    rows: np.ndarray
    shape: tuple[int, ...]

    def evaluate(self, *arguments: Any) -> Any:
        return np.reshape(arguments[0][self.rows], self.shape)


@dataclass(frozen=True, eq=False)
class Reshaped(Formula):
    """An array in another shape and dtype."""

    shape: tuple[int, ...]
    dtype: np.dtype

    def evaluate(self, *arguments: Any) -> Any:
        return np.reshape(arguments[0], self.shape).astype(self.dtype)[()]
