"""Results as elements that every SDK of Beam knows: rows with a schema, and plain numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints.row_type import RowTypeConstraint

from beam_volumes.graph.nodes import Value

#: The types of fields and numbers, by the kind of numpy's dtype.
_KINDS = {"b": bool, "i": int, "u": int, "f": float, "c": complex}


def row_of_kinds(kinds: Mapping[str, Any]) -> RowTypeConstraint:
    """The type of rows with fields of these types."""
    return RowTypeConstraint.from_fields(list(kinds.items()))


def field_of(column: str) -> str:
    """The name of a column as a field: attributes have no ``-`` and no ``.``.

    >>> field_of("centroid-0"), field_of("intensity_quantile-0.25")
    ('centroid_0', 'intensity_quantile_0_25')
    """
    return re.sub(r"\W", "_", column)


def rows_of(columns: Mapping[str, np.ndarray]) -> beam.PTransform:
    """From batches of a table's rows to its rows: dicts of columns like these to `apache_beam.Row`."""
    kinds = {field_of(name): _KINDS[column.dtype.kind] for name, column in columns.items()}
    return beam.FlatMap(_rows).with_output_types(row_of_kinds(kinds))


def _rows(batch: Mapping[str, np.ndarray]) -> Iterator[beam.Row]:
    names = [field_of(name) for name in batch]
    for name, column in batch.items():
        if column.dtype == np.uint64 and column.max(initial=0) > np.iinfo(np.int64).max:
            raise ValueError(
                f"{name} {column.max()} is too large for rows of Beam, which have integers up to 2**63 - 1: "
                "renumber labels by relabel_sequential, or write the table to a file by Compute"
            )
    for values in zip(*(column.tolist() for column in batch.values()), strict=True):
        yield beam.Row(**dict(zip(names, values, strict=True)))


def type_of_number(value: Value) -> Any:
    """The type of the elements that hold a number: Python's, or an array."""
    return np.ndarray if value.shape else _KINDS[value.dtype.kind]


def as_element(number: Any) -> Any:
    """Return a number as an element of that type.

    >>> as_element(np.float64(2.5)), as_element(np.arange(2))
    (2.5, array([0, 1]))
    """
    return number if np.ndim(number) else np.asarray(number).item()
