"""Merging of regions by the affinities between them, and segments from a table of merges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from beam_volumes.across.agglomeration import Linkage, Needed
from beam_volumes.across.rounds.agglomeration import NEEDED, Agglomeration
from beam_volumes.across.rounds.cutting import Cutting
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.ops.labels.stored_tables import as_table
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

LINKAGES = ("mean", "max", "min", "quantile")


@documented
def agglomerate(
    edges: Table | Any,
    linkage: str = "mean",
    *,
    threshold: float,
    quantile: float = 0.5,
    sizes: Table | Any = None,
    max_size: int | None = None,
) -> Table:
    """Merge regions in descending order of the affinities between them.

    Parameters
    ----------
    edges : Table, table, dict or path
        A row for each pair of touching regions, as from `region_adjacency` with ``affinities``. The
        table can be a lazy table, a pyarrow or pandas table, a dict of columns, or the path of
        Parquet files. ``label_a`` and ``label_b`` are the labels, integers from 0. Multiple rows
        for a pair are combined. Rows with an ``affinity_count`` of 0 are ignored.
    linkage : {"mean", "max", "min", "quantile"}, default: "mean"
        The score of two regions, computed from all faces between them. ``"mean"`` needs the columns
        ``affinity_sum`` (integers) and ``affinity_count``, ``"max"`` needs ``affinity_max``, and
        ``"min"`` needs ``affinity_min``. ``"quantile"`` needs ``affinity_histogram-0`` to ``-255``,
        as from ``bins=256`` for uint8 affinities.
    threshold : float
        Minimum score for merging two regions.
    quantile : float, default: 0.5
        The quantile, from 0 to 1: the smallest affinity that at least this fraction of the faces
        does not exceed (numpy's ``"inverted_cdf"``).
    sizes : Table, table, dict or path, optional
        Sizes of all regions: columns ``label`` and ``num_pixels``, as from `regionprops_table`,
        with one row for each label. By default each region has size 1.
    max_size : int, optional
        The maximum size of a region: larger merges are skipped.

    Returns
    -------
    Table
        A lazy table of merges, sorted by ``label_a``. In each merge, region ``label_a`` becomes a
        part of region ``label_b``. The merged region keeps ``label_b``, which is the larger label.
        ``score`` is the score of the merge, and ``size`` is the size of the merged region. Each
        label occurs at most once in ``label_a``.

    Raises
    ------
    ValueError
        If a parameter is out of range or the table lacks a column. On computation, if a region has
        no size, or a step of the merge needs more memory than is available.
    TypeError
        If ``edges`` or ``sizes`` is not a table, or a column does not contain numbers.

    See Also
    --------
    region_adjacency : computes edges.
    cut : computes segments from merges, for `relabel`.

    Notes
    -----
    No sweeps are needed except for ``edges``. The result is the same as for greedy merging: the
    best pair is merged, the boundaries of the two regions are combined, and so on. Scores are
    compared as fractions of integers. Pairs with equal scores are ordered by their larger label,
    then by their smaller label.

    Ranges of labels are merged in a tree. A worker holds the pairs that cross the borders of a
    range, about 100 to 230 bytes each (4,200 to 6,500 for quantiles). There are few such pairs if
    nearby regions have similar labels, as with `label` and `watershed`. In the worst case, one
    worker must hold the whole table; if memory is too small, an error is raised. Sums and counts in
    a worker must be below 2**62.

    References
    ----------
    Lu, Zlateski and Seung, "Large-scale image segmentation based on distributed clustering
    algorithms", arXiv:2106.10795; `higra.binary_partition_tree`.

    Examples
    --------
    >>> edges = {"label_a": [1, 2, 1], "label_b": [2, 3, 3], "affinity_sum": [9, 8, 2],
    ...          "affinity_count": [1, 1, 1]}
    >>> merges = bv.agglomerate(edges, threshold=4)
    >>> merges.to_pyarrow().to_pydict()
    {'label_a': [1, 2], 'label_b': [2, 3], 'score': [9.0, 5.0], 'size': [2, 3]}
    """
    name = "agglomerate"
    if linkage not in LINKAGES:
        raise ValueError(f"{name}: linkage={linkage!r}; use one of {', '.join(LINKAGES)}")
    if not par.is_number(threshold) or not np.isfinite(threshold):
        raise ValueError(f"{name}: threshold={threshold!r}: give a number")
    if not par.is_number(quantile) or not 0 <= quantile <= 1:
        raise ValueError(f"{name}: quantile={quantile!r}: give a number from 0 to 1")
    if max_size is not None:
        max_size = par.whole_number(max_size, "max_size", name)
    counts = NEEDED[linkage][linkage == "mean" :] if linkage in ("mean", "quantile") else ()
    needed = ("label_a", "label_b", *NEEDED[linkage])
    whole = ("label_a", "label_b", *counts)
    # Pairs without an affinity are left out.
    also = () if counts else ("affinity_count",)
    table = as_table(edges, needed, name, "edges", whole, also)
    if linkage == "mean" and table.columns["affinity_sum"].kind == "f":
        raise TypeError(
            f"{name}: affinity_sum has floats, but sums are compared exactly, as integers; scale "
            "and round the affinities first, e.g. to uint8"
        )
    how = Linkage(linkage, float(quantile))
    inputs = [with_needed(table, Needed(how, float(threshold), by_forest=max_size is None))]
    if sizes is not None:
        columns = ("label", "num_pixels")
        inputs.append(as_table(sizes, columns, name, "sizes", columns))
    step = Agglomeration(
        name, linkage, float(quantile), float(threshold), max_size, sizes is not None
    )
    return Table(then(step, inputs, name))


def with_needed(edges: Table, needed: Needed) -> Table:
    """Return the boundaries that `Agglomeration` needs, with only the columns that it reads."""
    barrier = edges.barrier
    if type(barrier.survey) is not AdjacencySurvey:
        return edges
    used = ("label_a", "label_b", *NEEDED[needed.linkage.name], "affinity_count")
    columns = tuple(name for name in edges.columns if name in used)
    return Table(
        Barrier.of(replace(barrier.survey, columns=columns, needed=needed), barrier.operands)
    )


@documented
def cut(merges: Table | Any, threshold: float | None = None) -> Table:
    """Compute segments from the merges with a minimum score.

    Parameters
    ----------
    merges : Table, table, dict or path
        The merges from `agglomerate`: a lazy table, a pyarrow or pandas table, a dict of columns,
        or the path of Parquet files.
    threshold : float, optional
        The minimum score of merges to apply; all by default.

    Returns
    -------
    Table
        A lazy table with columns ``label`` and ``segment``, the largest label of the segment. It
        has a row for each label that was merged into a larger label. All other labels do not
        change; to apply the table, use ``bv.relabel(labels, table, missing="keep")``.

    Raises
    ------
    ValueError
        If a column is missing. On computation, if ``merges`` is not a table of merges or needs more
        memory than is available.
    TypeError
        If ``merges`` is not a table.

    See Also
    --------
    agglomerate : computes merges.
    relabel : accepts the result.

    Notes
    -----
    No sweeps are needed except for ``merges``. Segments are the same as from `agglomerate` with
    this threshold, if it is at least the original threshold. Ranges of labels are processed in a
    tree, as in `agglomerate`. A worker holds the merges that cross the borders of ranges, about 100
    bytes each; if memory is too small, an error is raised.

    References
    ----------
    `higra.labelisation_horizontal_cut_from_threshold`, for trees in memory.

    Examples
    --------
    >>> merges = {"label_a": [1, 2, 4], "label_b": [2, 3, 5], "score": [9.0, 5.0, 8.0]}
    >>> bv.cut(merges, 6).to_pyarrow().to_pydict()
    {'label': [1, 4], 'segment': [2, 5]}
    """
    name = "cut"
    if threshold is not None and (not par.is_number(threshold) or np.isnan(threshold)):
        raise ValueError(f"{name}: threshold={threshold!r}: give a number")
    pair = ("label_a", "label_b")
    table = as_table(merges, (*pair, "score"), name, "merges", pair)
    limit = None if threshold is None else float(threshold)
    return Table(then(Cutting(name, limit), [table], name))
