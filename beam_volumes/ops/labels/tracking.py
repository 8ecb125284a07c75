"""Tracks of objects through the time points of a label volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching
from scipy.spatial import cKDTree

from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.scores import contingency
from beam_volumes.ops.labels.surveys.table_surveys import check_objects
from beam_volumes.ops.labels.tables import regionprops_table
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

#: The cost of an object without a link; links cost up to 1.
_UNLINKED = 1.05
_MIN_IOU = 0.1
#: Objects that are assigned at a time, in addition to a connected group: the time grows with their square.
_BATCH = 1000
#: Pairs of objects that are considered, of about 100 bytes each.
_MAX_PAIRS = 50_000_000


@documented
def track(
    labels: Volume,
    *,
    max_distance: float | str | None = None,
    min_iou: float | None = None,
    max_gap: int = 0,
    divisions: bool = False,
    spacing: float | Sequence[float] | str | None = None,
    **options: Any,
) -> ComputedTable:
    """Track the objects of a movie over time.

    Use it for segmented cells or particles. `relabel` with the result gives each object the same
    label at all time points.

    Parameters
    ----------
    labels : Volume
        Integer labels with a time axis; 0 is background.
    max_distance : float or str, optional
        Maximum distance between centroids for linking objects of two time points, in the unit of
        ``spacing``. With ``spacing="voxel_size"``, it can be a length such as ``"5 um"``. By
        default, objects are linked by their overlap.
    min_iou : float, optional
        Minimum intersection over union for linking two objects by their overlap; 0.1 by default.
        Linking by overlap is suitable if objects move less than their size.
    max_gap : int, default: 0
        The number of time points for which an object may be missing.
    divisions : bool, default: False
        Whether to detect divisions. If a new object appears next to an existing track, that track
        ends and two daughter tracks start. Objects that enter the image or were missed before can
        look like daughters, so use it only for cells that divide.
    %(spacing)s
    **options : options
        Options of `beam_volumes.compute`, such as ``runner`` and ``workers``.

    Returns
    -------
    ComputedTable
        A row for each object at each time point. The columns are ``t``, ``label``, ``track`` (from
        1), ``parent`` (the track that divided, or 0), and ``centroid-0``, ... in the unit of
        ``spacing``.

    Raises
    ------
    ValueError
        If a parameter is out of range, ``max_distance`` and ``min_iou`` are both set, or the labels
        have no time axis.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    relabel : writes tracks as labels.
    regionprops_table : measures the objects.
    register_frames : aligns the frames of a movie that drifts.

    Notes
    -----
    One sweep measures the objects. Overlaps need one more sweep for each time difference between
    linked objects. The tables of all time points and the pairs of nearby objects are held in
    memory, about 100 bytes for each object and each pair.

    Links between consecutive time points minimize the sum of costs: squared distances, or 1 minus
    the intersection over union. A second assignment then closes gaps and finds divisions. It links
    each new object with the end of a track, or with an object of the previous time point that
    already has a successor. An object has at most two daughters.

    References
    ----------
    K. Jaqaman et al., "Robust single-particle tracking in live-cell time-lapse sequences", Nature
    Methods 5 (2008); `scipy.sparse.csgraph.min_weight_full_bipartite_matching`.

    Examples
    --------
    >>> frames = [[[1, 1, 0, 0, 0, 3]], [[0, 5, 5, 0, 0, 3]], [[0, 0, 7, 0, 2, 2]]]
    >>> labels = bv.open(np.array(frames), axes="tyx")
    >>> tracks = bv.track(labels, max_distance=1.5)
    >>> tracks["track"].to_pylist()
    [1, 2, 2, 1, 2, 1]
    >>> columns = ("t", "label", "track")
    >>> np.asarray(bv.relabel(labels, tracks, columns=columns))[:, 0].tolist()
    [[1, 1, 0, 0, 0, 2], [0, 1, 1, 0, 0, 2], [0, 0, 1, 0, 2, 2]]
    """
    name = "track"
    v = one_channel(as_volume(labels))
    check_objects(v.dtype, name)
    if not v.space.times:
        raise ValueError(
            f"{name}: the volume has the axes {', '.join(v.axes)}, but no time axis; open it with "
            'axes="tzyx" or axes="tyx"'
        )
    if max_distance is not None and min_iou is not None:
        raise ValueError(f"{name}: give max_distance= or min_iou=, not both")
    gap = par.whole_number(max_gap, "max_gap", name, 0)
    par.voxel_sizes(v, spacing, "spacing", name)
    maximum = 0.0
    if max_distance is not None:
        maximum = par.max_distance(v, max_distance, "max_distance", spacing, "spacing", name)
    minimum = _MIN_IOU if min_iou is None else min_iou
    if not par.is_number(minimum) or not 0 < minimum <= 1:
        raise ValueError(f"{name}: min_iou={min_iou!r}; give a number above 0, up to 1")
    lags = range(1, min(gap + 1, v.space.times - 1) + 1)
    measured = regionprops_table(v, properties=["num_pixels", "centroid"], spacing=spacing)
    objects = _Objects.of(measured.compute(**options), v.space.times)
    if max_distance is None:
        shared = [contingency(v[:-k], v[k:]).compute(**options) for k in lags]
        pairs = [objects.overlaps(k, rows, minimum) for k, rows in zip(lags, shared, strict=True)]
    else:
        pairs = [objects.near(k, maximum) for k in lags]
    return objects.table(*_tracks(objects, pairs, bool(divisions)))


#: Possible links: the earlier and the later object by row, and the cost from 0 to 1.
Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class _Objects:
    """The objects of all time points, sorted by time and label."""

    columns: dict[str, np.ndarray]
    ends: np.ndarray  #: The first row of each time point, and the number of rows.

    @classmethod
    def of(cls, rows: ComputedTable, times: int) -> _Objects:
        columns = {c: rows[c].to_numpy() for c in rows.column_names}
        return cls(columns, np.searchsorted(columns["t"], np.arange(times + 1)))

    def near(self, lag: int, maximum: float) -> Pairs:
        """Return the pairs of objects within a distance, ``lag`` time points apart."""
        centres = np.stack([v for c, v in self.columns.items() if c.startswith("centroid")], axis=1)
        found = []
        trees = [cKDTree(centres[a:b]) for a, b in pairwise(self.ends)]
        total = sum(
            int(a.count_neighbors(b, maximum)) for a, b in zip(trees, trees[lag:], strict=False)
        )
        if total > _MAX_PAIRS:
            raise ValueError(
                f"track: max_distance={maximum:g}: {total:,} pairs of objects are within this "
                "distance, which is too many for the memory; give a shorter distance"
            )
        for t, (tree, other) in enumerate(zip(trees, trees[lag:], strict=False)):
            pairs = tree.sparse_distance_matrix(other, maximum, output_type="ndarray")
            a, b = self.ends[t] + pairs["i"], self.ends[t + lag] + pairs["j"]
            found.append((a, b, (pairs["v"] / maximum) ** 2))
        return _joined(found)

    def overlaps(self, lag: int, shared: ComputedTable, minimum: float) -> Pairs:
        """Return the pairs of objects with an intersection over union, ``lag`` time points apart."""
        t, one, other, count = (shared[c].to_numpy() for c in shared.column_names)
        kept = (one != 0) & (other != 0)
        t, one, other, count = t[kept], one[kept], other[kept], count[kept]
        a, b = self._rows(t, one), self._rows(t + lag, other)
        sizes = self.columns["num_pixels"]
        iou = count / (sizes[a] + sizes[b] - count)
        kept = iou >= minimum
        return a[kept], b[kept], 1 - iou[kept]

    def _rows(self, t: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Return the rows of labels, which are sorted by their time points."""
        found = []
        for k, (first, end) in enumerate(pairwise(self.ends)):
            wanted = labels[slice(*np.searchsorted(t, [k, k + 1]))]
            found.append(first + np.searchsorted(self.columns["label"][first:end], wanted))
        return np.concatenate(found)

    def table(self, tracks: np.ndarray, parents: np.ndarray) -> ComputedTable:
        import pyarrow

        given = dict(self.columns)
        first = {c: given.pop(c) for c in ("t", "label")}
        del given["num_pixels"]
        return ComputedTable(pyarrow.table({**first, "track": tracks, "parent": parents, **given}))


def _joined(found: list[Pairs]) -> Pairs:
    nothing = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    a, b, costs = zip(nothing, *found, strict=True)
    return np.concatenate(a), np.concatenate(b), np.concatenate(costs)


def _assigned(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return the links with the lowest sum of costs; every object is in at most one."""
    if not len(pairs[0]):
        return pairs[:2]
    # Groups of objects without pairs between them are independent.
    a, b = np.unique(pairs[0], return_inverse=True), np.unique(pairs[1], return_inverse=True)
    n, m = len(a[0]), len(b[0])
    graph = coo_array((np.ones(len(a[1]), bool), (a[1], n + b[1])), (n + m, n + m))
    _, group = connected_components(graph, directed=False)
    batch = (np.cumsum(np.bincount(group[n:])) // _BATCH)[group[a[1]]]
    order = np.argsort(batch, kind="stable")
    parts = np.split(order, np.flatnonzero(np.diff(batch[order])) + 1)
    found = [_assigned_together(*(each[part] for each in pairs)) for part in parts]
    first, second = zip(*found, strict=True)
    return np.concatenate(first), np.concatenate(second)


def _assigned_together(
    a: np.ndarray, b: np.ndarray, costs: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the links of pairs, in one problem."""
    rows, row = np.unique(b, return_inverse=True)
    columns, column = np.unique(a, return_inverse=True)
    n, m = len(rows), len(columns)
    # A column of its own for each row without a link. All costs are raised by 1: 0 would be no edge.
    row = np.concatenate([row, np.arange(n)])
    column = np.concatenate([column, m + np.arange(n)])
    weights = np.concatenate([costs + 1, np.full(n, _UNLINKED + 1)])
    found = min_weight_full_bipartite_matching(csr_array((weights, (row, column)), (n, m + n)))
    linked = found[1] < m
    return columns[found[1][linked]], rows[found[0][linked]]


def _tracks(
    objects: _Objects, pairs: list[Pairs], divisions: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the track of each object, and the track that divided, from pairs by distance in time."""
    times = objects.columns["t"]
    count = len(times)
    before, after = np.full(count, -1), np.full(count, -1)
    first, second, costs = pairs[0] if pairs else _joined([])
    point = times[first]
    for t in range(len(objects.ends) - 2):
        of_point = slice(*np.searchsorted(point, [t, t + 1]))
        a, b = _assigned((first[of_point], second[of_point], costs[of_point]))
        before[b], after[a] = a, b
    found = []
    for lag, (a, b, costs) in enumerate(pairs, 1):
        ends = (after[a] >= 0) if lag == 1 else (after[a] < 0)
        chosen = (before[b] < 0) & ends & (divisions or lag > 1)
        found.append((a[chosen], b[chosen], costs[chosen]))
    a, b = _assigned(_joined(found))
    before[b] = a
    divided = np.zeros(count, bool)
    divided[a] = after[a] >= 0
    tracks, parents = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    number = 0
    for k, earlier in enumerate(before.tolist()):
        if earlier >= 0 and not divided[earlier]:
            tracks[k], parents[k] = tracks[earlier], parents[earlier]
            continue
        number += 1
        tracks[k], parents[k] = number, tracks[earlier] if earlier >= 0 else 0
    return tracks, parents
