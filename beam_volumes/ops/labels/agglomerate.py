"""Regions merged by what lies between them, and the segments that a table of merges leaves."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.across.rounds.agglomeration import NEEDED, Agglomeration, Cutting
from beam_volumes.graph.table import Table
from beam_volumes.ops.labels.stored_tables import as_table
from beam_volumes.ops.labels.surveys.chain_survey import then
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
    """Merge regions in the order of the affinities between them, the best first.

    Parameters
    ----------
    edges : Table, table, dict or path
        A row for each pair of regions that touch, as `region_adjacency` with ``affinities``
        makes: a lazy table, a pyarrow or pandas table, a dict of columns, or the path of Parquet
        files. ``label_a`` and ``label_b`` are the labels, integers from 0 on. Rows of one pair are
        added.
    linkage : {"mean", "max", "min", "quantile"}, default: "mean"
        The score of two regions, of all faces between them: the mean affinity (of columns
        ``affinity_sum``, of integers, and ``affinity_count``), the largest (``affinity_max``),
        the smallest (``affinity_min``), or a quantile (of ``affinity_histogram-0`` to ``-255``,
        as ``bins=256`` makes for affinities of uint8).
    threshold : float
        Regions of a score of at least that are merged.
    quantile : float, default: 0.5
        Which quantile, from 0 to 1: the least affinity that at least that share
        of the faces does not exceed (numpy's ``"inverted_cdf"``).
    sizes : Table, table, dict or path, optional
        Sizes of all regions: columns ``label`` and ``num_pixels``, as `regionprops_table` makes, with
        one row for each label.
        Without it each region has size 1.
    max_size : int, optional
        No region becomes larger than that: such merges are left out, and the next best is made.

    Returns
    -------
    Table
        A lazy table of merges, by ``label_a``: that region became a part of ``label_b``, the larger
        label, under whose name both go on; ``score`` and the ``size`` of both. No label is twice
        in ``label_a``.

    Raises
    ------
    ValueError
        If a parameter is out of its range or the table lacks a column; when it is computed, if a
        region has no size, or a step of the merge takes more memory than there is.
    TypeError
        If ``edges`` or ``sizes`` is no table, or a column is not of numbers.

    See Also
    --------
    region_adjacency : makes edges.
    cut : makes segments of merges, for `relabel`.

    Notes
    -----
    No sweep but those that make ``edges``. The result is that of the greedy order: the best pair is
    merged, the boundaries of the two are put together, and so on. Scores are compared as fractions
    of integers. Among equal scores the pair comes first whose larger label is smaller, then the one
    whose smaller label is.

    Labels are cut into ranges, which are merged in a tree. What a worker holds is what reaches out
    of a range, about 350 bytes for a pair (8,700 for quantiles). It is least where regions that are
    near each other have near labels, as those of `label` and `watershed` have. A table in which all reaches
    everywhere needs one worker that holds it; one without room for it refuses it. Sums and counts of
    what meets in a worker stay below 2**62.

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
    table = as_table(edges, needed, name, "edges", ("label_a", "label_b", *counts))
    if linkage == "mean" and table.columns["affinity_sum"].kind == "f":
        raise TypeError(
            f"{name}: affinity_sum of floats: sums are compared exactly, as integers; scale and round the "
            "affinities first, e.g. to uint8"
        )
    inputs = [table]
    if sizes is not None:
        columns = ("label", "num_pixels")
        inputs.append(as_table(sizes, columns, name, "sizes", columns))
    step = Agglomeration(
        name, linkage, float(quantile), float(threshold), max_size, sizes is not None
    )
    return Table(then(step, inputs, name))


@documented
def cut(merges: Table | Any, threshold: float | None = None) -> Table:
    """Find the segments that merges of at least a score make of regions.

    Parameters
    ----------
    merges : Table, table, dict or path
        As `agglomerate` makes: a lazy table, a pyarrow or pandas table, a dict of columns, or the
        path of Parquet files.
    threshold : float, optional
        The least score of merges that are made; by default all are.

    Returns
    -------
    Table
        A lazy table with columns ``label`` and ``segment``, the largest label of its segment: a row
        for each label that became a part of another. Other labels keep their number:
        ``bv.relabel(labels, table, missing="keep")``.

    Raises
    ------
    ValueError
        If a column is missing; when it is computed, if ``merges`` is no table of merges or takes
        more memory than there is.
    TypeError
        If ``merges`` is no table.

    See Also
    --------
    agglomerate : makes merges.
    relabel : takes the result as it is.

    Notes
    -----
    No sweep but those that make ``merges``. The segments are those that `agglomerate` finds with
    that threshold, if it is not below the one that it had. All merges that count meet in one
    worker, of about 100 bytes each; one without room for them refuses them.

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
