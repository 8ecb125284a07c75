"""Mappings from labels to new values, in memory or in Parquet files, and checks of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.lookup import Mapping
from beam_volumes.ops.parameters.checks import is_number, is_whole
from beam_volumes.storage.formats.tables.parquet import ParquetTable
from beam_volumes.storage.inputs.arrays import exact_array, refuse_masked
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import digest


def mapping_arrays(mapping: Any, name: str = "relabel") -> tuple[np.ndarray, np.ndarray]:
    """The labels (uint64) and the values of a mapping in memory.

    >>> mapping_arrays({3: 1, 70: 2})
    (array([ 3, 70], dtype=uint64), array([1, 2]))
    """
    pair = (list(mapping), list(mapping.values())) if isinstance(mapping, AnyMapping) else mapping
    if len(pair) != 2:
        raise ValueError(
            f"{name}: the mapping has {len(pair)} items; give two arrays, labels and values"
        )
    for items in pair:
        refuse_masked(items)
    old, new = (
        exact_array(items, f"{name}: the mapping") if np.size(items) else np.empty(0, np.uint64)
        for items in pair
    )
    if old.ndim != 1 or old.shape != new.shape:
        raise ValueError(
            f"{name}: the mapping has labels of shape {old.shape} and values of shape "
            f"{new.shape}; give one value for each label"
        )
    if old.dtype.kind not in "bui":
        raise TypeError(f"{name}: the mapping has labels of {old.dtype}; labels must be integers")
    if new.dtype.kind not in "buif":
        raise TypeError(f"{name}: the mapping has values of {new.dtype}; values must be numbers")
    if old.dtype.kind == "i" and len(old) and old.min() < 0:
        raise ValueError(f"{name}: the mapping has label {old.min()}; labels must not be negative")
    return old.astype(np.uint64), new


def check_labels(dtype: Any, name: str) -> None:
    if np.dtype(dtype).kind not in "bui":
        raise TypeError(f"{name}: labels have dtype {np.dtype(dtype)}; use bool or integers")


def check_missing(missing: Any, dtype: np.dtype, labels: np.dtype, name: str) -> None:
    if isinstance(missing, str):
        if missing not in ("error", "keep"):
            raise ValueError(f'{name}: missing={missing!r}; use "error", "keep" or a number')
        # labels of all dtypes are not negative
        bits = 1 if labels.kind == "b" else 8 * labels.itemsize - (labels.kind == "i")
        if missing == "keep" and (1 << bits) - 1 > _whole_numbers(dtype):
            raise TypeError(
                f'{name}: missing="keep" is not available, because {dtype} cannot hold all labels of '
                f"{labels}; give dtype= or a different missing="
            )
        return
    if not is_number(missing) and not isinstance(missing, bool | np.bool_):
        raise TypeError(f'{name}: missing={missing!r}; use "error", "keep" or a number')
    fits = True
    if dtype.kind in "ui":
        limits = np.iinfo(dtype)
        fits = bool(missing == missing // 1 and limits.min <= missing <= limits.max)
    elif is_whole(missing) and dtype.kind == "f":
        fits = bool(abs(missing) <= np.finfo(dtype).max and int(dtype.type(missing)) == missing)
    if not fits:
        raise ValueError(f"{name}: missing={missing!r} does not fit the result's {dtype}")


def _whole_numbers(dtype: np.dtype) -> int:
    """The largest n for which a dtype holds all integers from 0 to n."""
    if dtype.kind == "b":
        return 1
    return int(np.iinfo(dtype).max) if dtype.kind in "ui" else 2 << np.finfo(dtype).nmant


@dataclass(frozen=True, eq=False)
class ParquetMapping(Mapping):
    """Two columns of Parquet files, with a part for each row group."""

    table: ParquetTable
    columns: tuple[str, str]  #: The columns of labels and values.

    @classmethod
    def of(
        cls, place: Any, columns: Sequence[str] | None = None, name: str = "relabel"
    ) -> ParquetMapping:
        """Open a file or a directory of files, by default with its first two columns."""
        table = ParquetTable.of(place)
        have = table.schema
        label, value = columns or (*have, "", "")[:2]
        dtypes = []
        for column, kinds in ((label, "bui"), (value, "buif")):
            if column not in have:
                raise ValueError(
                    f"{name}: {table.name} has the columns {', '.join(have)}; give the columns of "
                    "labels and new values"
                )
            dtype = have[column]
            if dtype is None or dtype.kind not in kinds:
                what = "integers" if kinds == "bui" else "numbers"
                raise TypeError(f"{name}: column {column} of {table.name} does not contain {what}")
            dtypes.append(dtype)
        return cls(dtypes[1], table.rows, table, (label, value))

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.table.extents

    @property
    def operand(self) -> str:
        return self.table.name

    def parts(self) -> Iterable[tuple[int, ...]]:
        self.table.check_unchanged()
        return self.table.groups()

    def read(self, part: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        found = self.table.read(part, self.columns)
        labels, values = (found[c] for c in self.columns)
        return mapping_arrays((labels, values), f"the mapping {self.table.name}")

    def token(self) -> str:
        return digest("ParquetMapping", self.table, self.columns)

    def token_now(self) -> str:
        return digest("ParquetMapping", ParquetTable.of(self.table.name), self.columns)
