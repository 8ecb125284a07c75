"""Rows of plain columns, sorted by one or two labels, mergeable in any order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from beam_volumes.across.rounds.tables import Columns, RowKind, mixed


@dataclass(frozen=True, eq=False)
class Records:
    """Some rows: columns of the same length, by name."""

    columns: Columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, rows: slice | np.ndarray) -> Records:
        return Records({name: column[rows] for name, column in self.columns.items()})

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns.values())


@dataclass(frozen=True, eq=False)
class RecordRows(RowKind):
    """Records with labels (uint64) as first columns, sorted by these.

    >>> kind = RecordRows((("label", "<u8"), ("count", "<i8")), added=("count",))
    >>> a = kind.of(label=[7, 2], count=[1, 5])
    >>> kind.columns(kind.merge([a, kind.of(label=[7], count=[3])]))
    {'label': array([2, 7], dtype=uint64), 'count': array([5, 4])}
    """

    names: tuple[tuple[str, str], ...]  #: Names and dtypes of the columns.
    labels: int = 1  #: Number of first columns that are labels.
    #: Columns that are added for rows with the same labels. Other columns are equal for them.
    added: tuple[str, ...] = ()

    def of(self, **columns: object) -> Records:
        return self.records(columns)

    def records(self, columns: Mapping[str, object]) -> Records:
        """Columns in order, each with its dtype."""
        return Records({name: np.asarray(columns[name], dtype) for name, dtype in self.names})

    def empty(self) -> Records:
        return Records({name: np.empty(0, dtype) for name, dtype in self.names})

    def _of_labels(self, part: Records) -> list[np.ndarray]:
        return list(part.columns.values())[: self.labels]

    def keys(self, part: Records) -> np.ndarray:
        own = self._of_labels(part)
        if len(own) == 1:
            return own[0]
        kind = np.dtype([(name, np.uint64) for name, _ in self.names[: self.labels]])
        return np.ascontiguousarray(np.stack(own, axis=1)).view(kind)[:, 0]

    def hashes(self, part: Records) -> np.ndarray:
        first, *more = self._of_labels(part)
        found = mixed(first)
        for label in more:
            found = mixed(found ^ label)
        return found

    def merge(self, parts: Iterable[Records]) -> Records:
        parts = list(parts)
        together = {
            name: np.concatenate([p.columns[name] for p in parts]) for name, _ in self.names
        }
        own = list(together.values())[: self.labels]
        if not len(own[0]):
            return Records(together)
        order = np.lexsort(own[::-1])
        differ = np.zeros(len(order) - 1, bool)
        for column in own:
            sorted_ = column[order]
            differ |= sorted_[1:] != sorted_[:-1]
        starts = np.flatnonzero(np.concatenate([[True], differ]))
        del sorted_, differ
        first = order[starts]
        sums = {name: np.add.reduceat(together[name][order], starts) for name in self.added}
        del order, starts  # so that a merge needs few copies of narrow rows
        return Records({
            name: sums[name] if name in sums else column[first]
            for name, column in together.items()
        })  # fmt: skip

    def columns(self, part: Records) -> Columns:
        return dict(part.columns)
