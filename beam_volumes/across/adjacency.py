"""Touching pairs of labels: their faces per axis, and a boundary volume between them, mergeable.

`adjacency` folds a block of labels into an `Adjacency`, sorted by pair. `merge` adds them, with the
same bits in any order and grouping. `columns` makes the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from beam_volumes.across.exact import Wide, add_groups
from beam_volumes.across.tables import EXTREMES, as_labels
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.labels import adjacency as kernels
from beam_volumes.kernels.labels.regions import magnitudes
from beam_volumes.kernels.scratch import arrays as allocated


@dataclass(frozen=True, eq=False)
class Adjacency:
    """The touching pairs of some blocks, sorted; arrays are per pair.

    Arrays that no column of the table needs have no columns.
    """

    #: uint64 (pairs, 2). The smaller label first; 0 is background and has no pairs.
    pairs: np.ndarray
    faces: np.ndarray  #: int64 (pairs, 3). Across z, y, x.
    used: np.ndarray  #: int64. Faces with a finite boundary value; 0 without a boundary volume.
    extremes: np.ndarray  #: float64 (pairs, 2). Minimum and maximum of these values.
    sums: Wide  #: Sums of these values.
    bins: np.ndarray  #: int64 (pairs, bins). Their histogram.

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, rows: slice | np.ndarray) -> Adjacency:
        return Adjacency(
            self.pairs[rows],
            self.faces[rows],
            self.used[rows],
            self.extremes[rows],
            self.sums[rows],
            self.bins[rows],
        )

    def only(self, arrays: frozenset[str]) -> Adjacency:
        """Leave out all other arrays (see `arrays_for`)."""
        n = len(self)
        return replace(
            self,
            faces=self.faces if "faces" in arrays else np.empty((n, 0), np.int64),
            extremes=self.extremes if "extremes" in arrays else np.empty((n, 0)),
            sums=self.sums if "sums" in arrays else Wide(0, np.zeros((n, 0), np.int64)),
        )

    @property
    def nbytes(self) -> int:
        arrays = (self.pairs, self.faces, self.used, self.extremes, self.sums.digits, self.bins)
        return sum(a.nbytes for a in arrays)

    @property
    def exact(self) -> tuple[Wide, ...]:
        """The array of exact numbers."""
        return (self.sums,)


#: The array that each kind of column needs, in addition to pairs and the number of values.
_ARRAYS = {"faces": "faces", "min": "extremes", "max": "extremes", "mean": "sums", "sum": "sums"}


def arrays_for(names: Iterable[str] | None) -> frozenset[str]:
    """The arrays that columns need; all by default.

    >>> sorted(arrays_for(["label_a", "faces-0", "affinity_sum"]))
    ['faces', 'sums']
    """
    if names is None:
        return frozenset(_ARRAYS.values())
    kinds = (name.split("-")[0].split("_")[-1] for name in names)
    return frozenset(_ARRAYS[kind] for kind in kinds if kind in _ARRAYS)


def adjacency(
    labels: np.ndarray,
    boundary: np.ndarray | tuple[np.ndarray, ...] | None = None,
    value: str = "max",
    edges: np.ndarray | None = None,
    nan: str = "raise",
    core: tuple[int, int, int] | None = None,
    below: tuple[np.ndarray, np.ndarray | None] | None = None,
    arrays: frozenset[str] | None = None,
) -> Adjacency:
    """The contribution of one block: the faces at the upper sides of its core's voxels.

    ``labels`` are the core, and one more plane at the upper side of each axis if a neighbour follows.
    """
    # ``boundary`` has the shape of ``labels``; for ``value="upper"``, one volume for faces across each of z,
    # y, x. ``edges`` of the histogram are ascending; the last bin is closed. With 0 slices in ``core``, only
    # faces between the single given slice and ``below`` count: the slice of labels, and of the boundary or
    # None, before the block, if its upper faces have not been counted yet. For ``nan``, see also `EXTREMES`.
    arrays = arrays_for(None) if arrays is None else arrays
    if value not in RULES:
        raise ValueError(f"value={value!r}: use one of {', '.join(RULES)}")
    across: tuple[np.ndarray, ...] = ()
    if boundary is not None:
        across = boundary if isinstance(boundary, tuple) else (boundary,) * 3
    for other in across:
        if other.shape != labels.shape:
            raise ValueError(
                f"the boundary has shape {other.shape}, but the labels have shape {labels.shape}"
            )
    edges = np.empty(0) if edges is None else np.asarray(edges, np.float64)
    if edges.size == 1 or (np.diff(edges) <= 0).any():
        raise ValueError("a histogram needs at least two ascending edges")
    own = labels.shape if core is None else core
    labels = as_labels(labels)
    under = np.empty((0, 0), labels.dtype) if below is None else as_labels(below[0])
    base, width = 0, 1
    values: tuple[np.ndarray, ...] = (labels,) * 3
    values_under = under
    if boundary is not None:
        values = tuple(map(_numbers, across))
        values_under = np.empty((0, 0), values[0].dtype)
        if below is not None and below[1] is not None:
            values_under = _numbers(below[1])
    only_extremes = nan == EXTREMES
    if boundary is not None and not only_extremes:
        sizes = [magnitudes(v) for v in (values if value == "upper" else values[:1])]
        minimum, maximum = min(s[0] for s in sizes), max(s[1] for s in sizes)
        bad = sum(s[2] for s in sizes)
        if bad and nan == "raise":
            raise ValueError(
                f'{bad} boundary values are NaN or infinite; give nan="omit" to leave them out'
            )
        also_least, also_most, _ = magnitudes(values_under[None])
        minimum, maximum = min(minimum, also_least), max(maximum, also_most)
        first = None
        if all(v.dtype.kind in "iu" for v in values):
            first = -1 if value == "mean" else 0
        first, width = digits_between(minimum, maximum, first)
        base = 32 * first
    if "sums" not in arrays:
        width = 0
    # Pairs are numbered when they are found, so neighbouring voxels have pairs near each other in memory.
    how = boundary is not None, RULES[value], only_extremes, edges, base
    places = labels, under, (values[0], values[1], values[2]), values_under, own
    scratch = allocated(kernels.scratch_of(labels.shape[2]))
    widths = 3 if "faces" in arrays else 0, width, max(0, edges.size - 1)
    rows, at = [*_room(_FIRST_ROOM, *widths)], (0, 2, 0, 0)
    while True:
        table = np.zeros(2 * len(rows[0]), np.int32)
        kernels.fill(table, rows[0], at[3])
        at = kernels.faces(*places, at, (*how, table, *rows), scratch)
        del table
        if at[0] == labels.shape[0] * labels.shape[1]:
            break
        for k in range(len(rows)):
            rows[k] = _grown(rows[k], at[3])
    order = _order(rows[0][: at[3]], None)
    # The arrays have room for more pairs: each is released when it was copied.
    pairs, faces, count, extremes, cells, bins = (rows.pop(0)[: at[3]][order] for _ in range(6))
    sums = Wide.of(cells, base // 32)
    return Adjacency(pairs, faces, count, extremes, sums, bins).only(arrays)


def digits_between(minimum: float, maximum: float, first: int | None = None) -> tuple[int, int]:
    """The first digit of the sums of values with sizes in a range, and the number of digits."""
    if first is None:
        low = math.frexp(minimum)[1] - 1 if maximum else 0
        # a mean of two values needs at most half of the last bit of the smaller one
        first = max(-1074, low - 54) // 32
    return first, (math.frexp(maximum)[1] + 1 - 32 * first) // 32 + 4


#: Pairs for which a block has room at first.
_FIRST_ROOM = 1024


def _room(pairs: int, faces: int, digits: int, bins: int) -> tuple[np.ndarray, ...]:
    """Arrays for pairs, faces, used, extremes, cells and bins, as `kernels.faces` needs them."""
    whole = (np.empty((pairs, columns), np.int64) for columns in (digits, bins))
    extremes = np.empty((pairs, 2))
    of_pairs = np.empty((pairs, 2), np.uint64), np.empty((pairs, faces), np.int64)
    return *of_pairs, np.empty(pairs, np.int64), extremes, *whole


def _grown(array: np.ndarray, pairs: int) -> np.ndarray:
    """An array with room for four times as many pairs, and those that were found."""
    larger = np.empty((4 * len(array), *array.shape[1:]), array.dtype)
    larger[:pairs] = array[:pairs]
    return larger


def _order(pairs: np.ndarray, kind: Literal["stable"] | None = "stable") -> np.ndarray:
    """The order that sorts pairs; equal ones are in any order. "stable" is fast for sorted parts in a row."""
    if len(pairs) and pairs[:, 1].max() < 1 << 32:  # the larger label
        return np.argsort(pairs[:, 0] << np.uint64(32) | pairs[:, 1], kind=kind)
    return np.lexsort((pairs[:, 1], pairs[:, 0]))


#: Kernels for the value of a face.
RULES = {"max": kernels.LARGEST, "mean": kernels.MEAN, "upper": kernels.OWN}


def _numbers(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "b":
        return values.view(np.uint8)
    return kernel_array(values)


def merge(parts: Iterable[Adjacency]) -> Adjacency:
    """Merge parts: the same bits in any order and grouping."""
    parts = list(parts)
    if not parts:
        raise ValueError("no adjacencies to merge")
    if len(parts) == 1 or not any(map(len, parts)):
        return parts[0]
    pairs = np.concatenate([p.pairs for p in parts])
    order = _order(pairs)
    pairs = pairs[order]
    (a, before), (b, other) = ((pairs[1:, k], pairs[:-1, k]) for k in (0, 1))
    starts = np.flatnonzero(np.concatenate([[True], (a != before) | (b != other)]))

    def reduced(ufunc, arrays):
        return ufunc.reduceat(np.concatenate(arrays)[order], starts, axis=0)

    minimum = reduced(np.minimum, [p.extremes[:, :1] for p in parts])
    maximum = reduced(np.maximum, [p.extremes[:, 1:] for p in parts])
    return Adjacency(
        pairs[starts],
        reduced(np.add, [p.faces for p in parts]),
        reduced(np.add, [p.used for p in parts]),
        np.concatenate([minimum, maximum], axis=1),
        add_groups([p.sums for p in parts], order, starts),
        reduced(np.add, [p.bins for p in parts]),
    )


def columns(
    part: Adjacency,
    boundary: bool = False,
    axes: tuple[int, ...] = (0, 1, 2),
    names: tuple[str, ...] | None = None,
) -> dict[str, np.ndarray]:
    """The table, or the columns ``names``, sorted by ``label_a``, then ``label_b``."""
    # ``faces-0`` ...; with ``boundary`` also ``boundary_mean``, ``boundary_min``, ``boundary_max`` (NaN if no
    # face has a value) and ``boundary_histogram-0`` ...
    arrays = arrays_for(names)
    table = _pairs_and_faces(part, arrays, axes)
    some = part.used > 0
    if boundary:
        if "sums" in arrays:
            with np.errstate(invalid="ignore", divide="ignore"):
                table["boundary_mean"] = part.sums.floats() / part.used
        if "extremes" in arrays:
            table["boundary_min"] = np.where(some, part.extremes[:, 0], np.nan)
            table["boundary_max"] = np.where(some, part.extremes[:, 1], np.nan)
        for i in range(part.bins.shape[1]):
            table[f"boundary_histogram-{i}"] = part.bins[:, i]
    return table if names is None else {name: table[name] for name in names}


def _pairs_and_faces(
    part: Adjacency, arrays: frozenset[str], axes: tuple[int, ...]
) -> dict[str, np.ndarray]:
    table = {"label_a": part.pairs[:, 0], "label_b": part.pairs[:, 1]}
    if "faces" in arrays:
        table |= {f"faces-{k}": part.faces[:, axis] for k, axis in enumerate(axes)}
    return table


def affinity_columns(
    part: Adjacency,
    dtype: np.dtype,
    axes: tuple[int, ...] = (0, 1, 2),
    names: tuple[str, ...] | None = None,
) -> dict[str, np.ndarray]:
    """The table of affinities, or the columns ``names``: ``label_a``, ``label_b``, ``faces-0`` ..."""
    # ``affinity_count``, the faces that have one; ``affinity_sum``, exact, only of integers;
    # ``affinity_mean`` (NaN without faces); ``affinity_min`` and ``affinity_max`` (0 without faces), of the
    # dtype; and ``affinity_histogram-0`` ...
    arrays = arrays_for(names)
    table = _pairs_and_faces(part, arrays, axes)
    table["affinity_count"] = part.used
    if "sums" in arrays:
        if dtype.kind != "f":
            table["affinity_sum"] = part.sums.int64("a sum of affinities")
        if names is None or "affinity_mean" in names:
            with np.errstate(invalid="ignore", divide="ignore"):
                table["affinity_mean"] = part.sums.floats() / part.used
    if "extremes" in arrays:
        ends = np.where(part.used[:, None] > 0, part.extremes, 0).astype(dtype)
        table["affinity_min"], table["affinity_max"] = ends[:, 0], ends[:, 1]
    for i in range(part.bins.shape[1]):
        table[f"affinity_histogram-{i}"] = part.bins[:, i]
    return table if names is None else {name: table[name] for name in names}
