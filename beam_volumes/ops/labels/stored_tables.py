"""Existing tables as operands, in memory or in Parquet files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.chains import StoredTable
from beam_volumes.across.rounds.flow import Key
from beam_volumes.across.rounds.tables import Columns
from beam_volumes.base.text import check_columns
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import as_volume
from beam_volumes.ops.labels.surveys.chain_survey import StoredSurvey
from beam_volumes.storage.formats.tables.parquet import ParquetTable
from beam_volumes.storage.inputs.arrays import exact_array, refuse_masked
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import digest

#: Rows per part of a table in memory.
_ROWS = 1 << 17


@dataclass(frozen=True, eq=False)
class ArrayTable(StoredTable):
    """Columns in memory, sent with a plan."""

    columns: tuple[np.ndarray, ...]
    what: str  #: The parameter's name.

    @property
    def operand(self) -> str:
        return self.what

    @property
    def rows(self) -> int:
        return len(self.columns[0])

    def parts(self) -> Sequence[Key]:
        return [(i,) for i in range(max(1, -(-len(self.columns[0]) // _ROWS)))]

    def read(self, part: Key) -> Columns:
        rows = slice(part[0] * _ROWS, (part[0] + 1) * _ROWS)
        return {name: c[rows] for (name, _), c in zip(self.names, self.columns, strict=True)}

    def token(self) -> str:
        return digest("ArrayTable", self.names, self.columns)


@dataclass(frozen=True, eq=False)
class ParquetColumns(StoredTable):
    """Columns of numbers in Parquet files, with a part for each row group."""

    table: ParquetTable

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.table.extents

    @property
    def operand(self) -> str:
        return self.table.name

    @property
    def rows(self) -> int:
        return self.table.rows

    def parts(self) -> Sequence[Key]:
        self.table.check_unchanged()
        return self.table.groups() or [(-1, -1)]

    def read(self, part: Key) -> Columns:
        if part[0] < 0:  # files without row groups
            return {name: np.empty(0, dtype) for name, dtype in self.names}
        return self.table.read(part, tuple(name for name, _ in self.names))

    def token(self) -> str:
        return digest("ParquetColumns", self.names, self.table)

    def token_now(self) -> str:
        return digest("ParquetColumns", self.names, ParquetTable.of(self.table.name))


def as_table(
    given: Any,
    needed: Sequence[str],
    name: str,
    what: str,
    whole: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Table:
    """Return a lazy table with the needed columns, from a table, columns or Parquet files.

    Columns in ``whole`` must have integers: labels and counts. Columns in ``optional`` may be missing.
    """
    table = _table(given, needed, name, what, optional)
    stored = getattr(table.barrier.survey, "table", None)
    for column in whole:
        dtype = table.columns[column]
        if dtype.kind not in "ui":
            raise TypeError(
                f"{name}: column {column} of {what} has dtype {dtype}, but labels and counts must "
                "be integers; convert it first"
            )
        if isinstance(stored, ArrayTable):  # the values of other tables are checked later
            values = stored.columns[list(needed).index(column)]
            if len(values) and values.min() < 0:
                raise ValueError(
                    f"{name}: column {column} of {what} has {values.min()}: it must be at least 0"
                )
    return table


def _table(
    given: Any, needed: Sequence[str], name: str, what: str, optional: Sequence[str]
) -> Table:
    if isinstance(given, Table):
        table = given
        _check(list(table.columns), needed, name, what)
        return table
    stored: StoredTable
    if isinstance(given, str | os.PathLike):
        found = ParquetTable.of(given)
        _check(list(found.schema), needed, name, what)
        also = [c for c in optional if c in found.schema]
        dtypes = {column: found.schema[column] for column in (*needed, *also)}
        for column, dtype in dtypes.items():
            if dtype is None:
                raise TypeError(f"{name}: column {column} of {found.name} does not contain numbers")
        stored = ParquetColumns(
            tuple((c, d.str) for c, d in dtypes.items() if d is not None), found
        )
    else:
        stored = _in_memory(given, needed, name, what, optional)
    nothing = as_volume(np.zeros((1, 1, 1), np.uint8)).node
    return Table(Barrier.of(StoredSurvey(what, stored), (nothing,)))


def column_values(column: Any, what: str) -> np.ndarray:
    """Return a column of a table in memory as an array; an error if a value is missing."""
    refuse_masked(column)
    empty = getattr(column, "null_count", 0)  # a number in pyarrow, a method in polars
    if empty() if callable(empty) else empty:
        raise ValueError(f"{what} has rows without a value")
    if hasattr(column, "to_numpy"):
        values = column.to_numpy()
        return exact_array(values, what) if values.dtype == object else values
    return exact_array(column, what) if len(column) else np.empty(0, np.uint64)


def _in_memory(
    given: Any, needed: Sequence[str], name: str, what: str, optional: Sequence[str]
) -> ArrayTable:
    if isinstance(given, Mapping):
        have: list[Any] = list(given)
    elif hasattr(given, "column_names"):
        have = list(given.column_names)
    elif hasattr(given, "columns"):
        have = list(given.columns)
    else:
        raise TypeError(
            f"{name}: {what} has type {type(given).__name__}; give a table, a dict of columns, or "
            "the path of Parquet files"
        )
    _check(have, needed, name, what)
    needed = [*needed, *(c for c in optional if c in have)]
    columns = []
    for column in needed:
        values = column_values(given[column], f"{name}: column {column} of {what}")
        if values.ndim != 1 or values.dtype.kind not in "uif":
            raise TypeError(
                f"{name}: column {column} of {what} has shape {values.shape} and dtype "
                f"{values.dtype}; give a column of numbers"
            )
        columns.append(np.ascontiguousarray(values))
    if len({len(c) for c in columns}) > 1:
        raise ValueError(f"{name}: the columns of {what} differ in length")
    names = tuple((c, v.dtype.str) for c, v in zip(needed, columns, strict=True))
    return ArrayTable(names, tuple(columns), what)


def _check(have: Sequence[Any], needed: Sequence[str], name: str, what: str) -> None:
    check_columns([c for c in have if c in needed], f"{name}: {what}")
    missing = [c for c in needed if c not in have]
    if missing:
        some = ", ".join(map(str, have[:12])) + (", ..." if len(have) > 12 else "")
        raise ValueError(f"{name}: {what} has no column {', '.join(missing[:3])}; it has {some}")
