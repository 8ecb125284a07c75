"""Relabelling by a mapping, and selection of labels."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds.lookup import BUCKET, VOXELS, Mapping, TableLookup
from beam_volumes.graph.keywords import named_checked
from beam_volumes.graph.nodes import AcrossNode, Barrier, SourceNode, StageNode
from beam_volumes.graph.stages import Repeated
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.stored_tables import as_table, column_values
from beam_volumes.ops.labels.surveys.chain_survey import Chain, StoredSurvey, then
from beam_volumes.ops.labels.surveys.label_surveys import (
    FilterSurvey,
    Lookup,
    LookupAtPoint,
    LookupCompletion,
    LookupSurvey,
    TallySurvey,
    UniqueSurvey,
)
from beam_volumes.ops.labels.surveys.mappings import (
    ParquetMapping,
    check_labels,
    check_missing,
    mapping_arrays,
)
from beam_volumes.ops.parameters.building import stage_of
from beam_volumes.ops.pointwise import where
from beam_volumes.storage.inputs.opening import open_source
from beam_volumes.storage.places.extent import Extent

#: Maximum rows of a mapping that every worker keeps in memory.
IN_MEMORY = 1_000_000


@named_checked
def relabel(
    labels: Volume,
    mapping: Table | Any,
    *,
    missing: Any = "error",
    dtype: DTypeLike | None = None,
    columns: Sequence[str] | None = None,
) -> Volume:
    """Replace labels by the values of a mapping.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels, bool or integers from 0.
    mapping : dict, pair of array_like, table, Table or path
        New values by label: a dict, two arrays (labels and values), or a table. A table can be a
        pyarrow or pandas table, a lazy table such as from `cut`, a Parquet file, or a folder of
        Parquet files. Integers are kept exactly, up to uint64; fractional values need a float
        ``dtype``.
    missing : {"error", "keep"} or number, default: "error"
        How to treat labels that the mapping lacks: raise an error on computation, keep the labels,
        or replace them with this number. 0 stays 0 unless it is mapped.
    dtype : dtype, optional
        Dtype of the result; the dtype of the mapping's values by default.
    columns : sequence of str, optional
        For a table, the columns of labels and of new values; the first two by default. Three names,
        such as ``("t", "label", "track")``, are columns of time points, labels and new values. Each
        time point then has its own mapping, as in the result of `track`.

    Returns
    -------
    Volume
        A volume of ``dtype``.

    Raises
    ------
    ValueError
        If ``dtype`` cannot hold the values, or the table lacks the columns. On computation, if a
        label is missing. The message contains the label.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or the mapping
        has an unsupported type.

    See Also
    --------
    regionprops_table : measures regions, to select values.
    cut : returns lazy tables of labels and segments.
    track : returns tables of labels and tracks for each time point.

    Notes
    -----
    One sweep. Every worker keeps mappings of time points in memory. All other lazy tables, and
    files with more than a million rows, are looked up by key in one additional sweep. In this case,
    no worker holds the whole mapping. If a lazy table depends on volumes, they must have the
    labels' shape, and are processed in the first of the two sweeps.

    References
    ----------
    `skimage.util.map_array`.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 7, 9], [7, 7, 0]], "u4"))
    >>> np.asarray(bv.relabel(labels, {7: 1, 9: 200}, dtype="u1"))
    array([[  0,   1, 200],
           [  1,   1,   0]], dtype=uint8)
    """
    labels = as_volume(labels)
    if columns is not None and len(columns) == 3 and not isinstance(columns, str):
        return _by_point(labels, mapping, columns, missing=missing, dtype=dtype)
    if isinstance(mapping, Table):
        return by_table(labels, mapping, columns, missing=missing, dtype=dtype)
    origin: tuple[Extent, ...] = ()
    if isinstance(mapping, str | os.PathLike):
        found = ParquetMapping.of(mapping, columns)
        if found.rows > IN_MEMORY:
            return by_key(labels, found, missing=missing, dtype=dtype)
        mapping, origin = _whole(found), found.extents
    elif hasattr(mapping, "column_names") or hasattr(mapping, "to_numpy"):
        mapping = _columns(mapping, columns)
    elif not isinstance(mapping, AnyMapping | tuple | list):
        raise TypeError(
            f"relabel: a mapping of {type(mapping).__name__}: give a dict, two arrays, a table, or the "
            "path of a Parquet file"
        )
    return stage_of(labels, Lookup.of(labels.dtype, mapping, missing, dtype, origin=origin))


@named_checked
def keep_labels(
    labels: Volume,
    table: Table | Any,
    column: str,
    *,
    low: float | None = None,
    high: float | None = None,
) -> Volume:
    """Keep the labels with a measurement in a range, and set all other voxels to 0.

    Use it to select objects by any column of a table, such as their area, intensity or shape.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels, bool or integers from 0.
    table : Table, table or path
        Measurements with a column ``label``, such as the result of `regionprops_table`. Pass a lazy
        table, a pyarrow or pandas table, a Parquet file, or a folder of Parquet files.
    column : str
        The name of a numeric column.
    low, high : float, optional
        The range, including both ends; if one end is missing, the range is unlimited on that side.
        NaN is not in any range.

    Returns
    -------
    Volume
        A volume of the labels' dtype. Labels without a row are set to 0.

    Raises
    ------
    ValueError
        If neither end is given, ``low`` is above ``high``, or the table lacks the columns.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype, or the table
        has an unsupported type.

    See Also
    --------
    remove_small_objects, keep_largest : select by size without a table.
    relabel : replaces labels by the values of a column.

    Notes
    -----
    The function needs the same sweeps as `relabel` with this table. The column is looked up as
    float64.

    References
    ----------
    `skimage.util.map_array` and ``numpy.where``.

    Examples
    --------
    >>> labels = np.array([[1, 1, 0, 2, 3, 3, 3]])
    >>> sizes = bv.regionprops_table(labels, properties=["area"])
    >>> np.asarray(bv.keep_labels(labels, sizes, "area", low=2, high=2))
    array([[1, 1, 0, 0, 0, 0, 0]])
    """
    if low is None and high is None:
        raise ValueError("keep_labels: no range is given; give low=, high=, or both")
    lowest, highest = -math.inf if low is None else low, math.inf if high is None else high
    if not lowest <= highest:
        raise ValueError(f"keep_labels: no number is in the range of low={low!r} and high={high!r}")
    labels = as_volume(labels)
    try:
        values = relabel(
            labels, table, columns=("label", column), missing=math.nan, dtype=np.float64
        )
    except (ValueError, TypeError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"keep_labels: column={column!r} of the table: {error}") from None
    return where((values >= lowest) & (values <= highest), labels, 0)


def by_key(
    labels: Volume, mapping: Mapping, *, missing: Any = "error", dtype: Any = None
) -> Volume:
    """Apply `relabel` with a mapping of any size, by looking up each slab's labels in the mapping's parts."""
    each = voxels_per_label(labels.node)
    survey = LookupSurvey.of(labels.dtype, mapping, missing, dtype, voxels_per_label=each)
    return _looked_up(labels, survey, survey.dtype)


def by_table(
    labels: Volume,
    mapping: Table,
    columns: Sequence[str] | None = None,
    *,
    missing: Any = "error",
    dtype: DTypeLike | None = None,
) -> Volume:
    """Apply `relabel` with a table that is computed in the same run."""
    name = "relabel"
    check_labels(labels.dtype, name)
    have = mapping.columns
    chosen = tuple(columns or (*have, "", "")[:2])
    if len(chosen) != 2 or not set(chosen) <= set(have):
        raise ValueError(
            f"{name}: the table has the columns {', '.join(have)}; give columns=(labels, values), two of them"
        )
    for column, kinds in zip(chosen, ("bui", "buif"), strict=True):
        if have[column].kind not in kinds:
            raise TypeError(f"{name}: column {column} of the table is of {have[column]}")
    to = np.dtype(dtype if dtype is not None else have[chosen[1]])
    check_missing(missing, to, labels.dtype, name)
    buckets = max(1, math.prod(labels.node.shape) // VOXELS // BUCKET)
    step = TableLookup(name, (chosen[0], chosen[1]), have[chosen[1]], to, missing, buckets)
    each = voxels_per_label(labels.node)
    tallies = Chain((TallySurvey(name, (), 1, voxels_per_label=each),), ((labels.node,),))
    barrier = then(step, [tallies, mapping], name)
    made = AcrossNode.of(barrier, LookupCompletion(name, to, each), (labels.node,))
    return labels.derive(made)


def _by_point(
    labels: Volume, mapping: Any, columns: Sequence[str], *, missing: Any, dtype: DTypeLike | None
) -> Volume:
    """Apply `relabel` with a mapping for each time point."""
    name, labels = "relabel", one_channel(labels)
    times = labels.space.times
    if not times:
        raise ValueError(
            f"{name}: columns={tuple(columns)!r} has a column of time points, and the labels have "
            f"none; give columns={tuple(columns[1:])!r}"
        )
    table = as_table(mapping, columns, name, "mapping", whole=columns[:2])
    if not isinstance(table.barrier.survey, StoredSurvey):
        raise TypeError(f"{name}: {mapping!r} is not computed; give mapping.compute()")
    stored = table.barrier.survey.table
    parts = [stored.read(part) for part in stored.parts()]
    points, *pair = (np.concatenate([part[c] for part in parts]) for c in columns)
    check_labels(labels.dtype, name)
    old, new = mapping_arrays(pair, name)
    order = np.argsort(points, kind="stable")
    ends = np.searchsorted(points[order], np.arange(times + 1))
    each = tuple(
        Lookup.of(labels.dtype, (old[rows], new[rows]), missing, dtype, origin=stored.extents)
        for rows in (order[a:b] for a, b in pairwise(ends))
    )
    numbers = open_source(np.arange(times).reshape(-1, 1, 1, 1), axes="tzyx")
    repeated = Repeated("broadcast", numbers.dtype, (1, 1, 1), labels.node.shape)
    point = StageNode.of(repeated, (SourceNode.of(numbers),))
    return labels.derive(
        StageNode.of(LookupAtPoint(name, each[0].dtype, each), (labels.node, point))
    )


def filtered(labels: Volume, name: str, keep: Keep | None, k_largest: int | None = None) -> Volume:
    """Return the labels selected by their size over the whole volume, 0 for others."""
    axes = labels.space.visible
    each = voxels_per_label(labels.node)
    survey = FilterSurvey.of(labels.dtype, keep, k_largest, axes, name=name, voxels_per_label=each)
    return _looked_up(labels, survey, labels.dtype)


def _looked_up(labels: Volume, survey: UniqueSurvey, dtype: Any) -> Volume:
    barrier = Barrier.of(survey, (labels.node,))
    completion = LookupCompletion(survey.name, dtype, survey.voxels_per_label)
    return labels.derive(AcrossNode.of(barrier, completion, (labels.node,)))


def _whole(mapping: ParquetMapping) -> Any:
    parts = [mapping.read(part) for part in mapping.parts()]
    if not parts:
        return np.empty(0, np.uint64), np.empty(0, mapping.dtype)
    return tuple(map(np.concatenate, zip(*parts, strict=True)))


def _columns(table: Any, columns: Sequence[str] | None) -> Any:
    """Return two columns of a pyarrow or pandas table."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    chosen = list(columns or names[:2])
    if len(chosen) != 2 or not set(chosen) <= set(names):
        raise ValueError(
            f"relabel: the table has the columns {', '.join(map(str, names))}; give columns=(labels, "
            "values), two of them"
        )
    return tuple(column_values(table[c], f"relabel: column {c}") for c in chosen)
