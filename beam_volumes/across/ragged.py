"""Any number of entries for each row of a table: vertices of hulls, and counts of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Points of a label that are kept without looking for a hull.
FEW_POINTS = 64


@dataclass(frozen=True, eq=False)
class Ragged:
    """Entries of rows, one row after the other."""

    sizes: np.ndarray  #: int64. The number of entries of each row.
    entries: np.ndarray  #: Entries along the first axis.

    @classmethod
    def of(cls, rows: np.ndarray, entries: np.ndarray, n: int) -> Ragged:
        """From entries in any order, and the row of each."""
        if (rows[1:] < rows[:-1]).any():
            entries = entries[np.argsort(rows, kind="stable")]
        return cls(np.bincount(rows, minlength=n).astype(np.int64), entries)

    @classmethod
    def empty(cls, n: int, columns: int, dtype: type) -> Ragged:
        return cls(np.zeros(n, np.int64), np.empty((0, columns), dtype))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, rows: slice | np.ndarray) -> Ragged:
        chosen = np.arange(len(self.sizes))[rows]
        sizes = self.sizes[chosen]
        first = (np.cumsum(self.sizes) - self.sizes)[chosen]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return Ragged(sizes, self.entries[np.repeat(first, sizes) + within])

    @property
    def nbytes(self) -> int:
        return self.sizes.nbytes + self.entries.nbytes

    @property
    def rows(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def split(self) -> list[np.ndarray]:
        """The entries of each row."""
        return np.split(self.entries, np.cumsum(self.sizes)[:-1]) if len(self.sizes) else []


def joined(parts: Sequence[Ragged], order: np.ndarray, starts: np.ndarray) -> Ragged:
    """The entries of groups of the rows of all parts, after sorting these by ``order``."""
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.arange(len(starts)), np.diff([*starts, len(order)]))
    first = np.cumsum([0, *map(len, parts)])
    rows = [group[a + p.rows] for a, p in zip(first, parts, strict=False)]
    return Ragged.of(np.concatenate(rows), np.concatenate([p.entries for p in parts]), len(starts))


def split_values(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows and values of `beam_volumes.kernels.labels.regions.labelled_values`."""
    return keys >> 17, (keys & 0x1FFFF) - (1 << 15)


def counted(values: Ragged) -> Ragged:
    """Values (the first column) once for each row and in order, with their counts (the second) added."""
    value, count = values.entries.T
    if not len(value):
        return values
    keys = (values.rows << 17) + (value + (1 << 15))
    order = np.argsort(keys, kind="stable")  # runs that are sorted
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    rows, value = split_values(keys[starts])
    counts = np.add.reduceat(count[order], starts)
    return Ragged.of(rows, np.stack([value, counts], axis=1), len(values))


def corners_of(points: Ragged) -> Ragged:
    """Drop points within the hulls of the others, of rows with many points."""
    if (points.sizes <= FEW_POINTS).all():
        return points
    kept = [corners(own) if len(own) > FEW_POINTS else own for own in points.split()]
    return Ragged(np.array([len(own) for own in kept], np.int64), np.concatenate(kept))


def corners(points: np.ndarray) -> np.ndarray:
    """The vertices of the hull of integer points; all of them if they are in an oblique plane."""
    from scipy.spatial import ConvexHull, QhullError

    points = np.unique(points, axis=0)
    axes = np.flatnonzero(np.ptp(points, axis=0))
    if len(axes) == 1:
        return points[[0, -1]]
    try:
        return points[np.sort(ConvexHull((points - points[0])[:, axes]).vertices)]
    except QhullError:  # in a plane that is not parallel to the axes
        return points
