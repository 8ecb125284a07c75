"""Tables as text: CSV and JSON lines, assembled from shards."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.storage.formats.tables.format import Columns, OneFile, Sums
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.single_file import pieces, put_together

if TYPE_CHECKING:
    import pyarrow as pa


#: The file with the dtypes of columns, among the shards.
_COLUMNS = "columns.json"


class TextTable(OneFile):
    """Lines of text, one for each row; the dtypes are stored in the note."""

    def rows(self, columns: Columns) -> str:
        raise NotImplementedError

    def head(self, names: Sequence[str]) -> str:
        return ""

    def encode(self, columns: Columns) -> bytes:
        return self.rows(columns).encode()

    def side_files(self, columns: Columns) -> dict[str, bytes]:
        dtypes = {name: column.dtype.str for name, column in columns.items()}
        return {_COLUMNS: json.dumps(dtypes).encode()}

    def assemble(
        self, place: str, home: str, shards: list[str], is_ours: Callable[[], bool]
    ) -> Mapping[str, Any]:
        with open(os.path.join(home, _COLUMNS), "rb") as file:
            columns = json.load(file)
        parts = (data for shard in shards for data in pieces(os.path.join(home, shard)))
        sums, head = Sums(), self.head(list(columns)).encode()
        put_together(place, home, sums.of(chain([head], parts)), is_ours)
        rows = sums.lines - self.other_lines({"columns": columns})
        return {"columns": columns, "crc32": sums.crc32, "rows": rows}

    def other_lines(self, noted: Mapping[str, Any]) -> int:
        return self.head(list(noted["columns"] or {})).count("\n")

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        import pyarrow as pa

        fields = [(name, pa.from_numpy_dtype(np.dtype(d))) for name, d in noted["columns"].items()]
        return self.parse(place["path"], pa.schema(fields))

    def parse(self, path: str, schema: pa.Schema) -> pa.Table:
        raise NotImplementedError


class Csv(TextTable):
    """Comma-separated values with a header line."""

    name = "csv"

    def head(self, names: Sequence[str]) -> str:
        return _csv_lines([names])

    def rows(self, columns: Columns) -> str:
        return _csv_lines(_rows(columns, "", "inf"))

    def parse(self, path: str, schema: pa.Schema) -> pa.Table:
        import pyarrow.csv

        types = {field.name: field.type for field in schema}
        convert = pyarrow.csv.ConvertOptions(column_types=types)
        return pyarrow.csv.read_csv(path, convert_options=convert)


class JsonLines(TextTable):
    """A JSON object for each row."""

    name = "jsonl"

    def rows(self, columns: Columns) -> str:
        names = [json.dumps(name) for name in columns]
        # JSON has no infinity; all readers parse this number as infinity.
        return "".join(
            "{" + ", ".join(f"{n}: {v}" for n, v in zip(names, row, strict=True)) + "}\n"
            for row in _rows(columns, "null", "1e999")
        )

    def parse(self, path: str, schema: pa.Schema) -> pa.Table:
        import pyarrow.json

        if os.path.getsize(path) == 0:
            return schema.empty_table()
        explicit = pyarrow.json.ParseOptions(explicit_schema=schema)
        return pyarrow.json.read_json(path, parse_options=explicit)


FORMATS = (Csv(), JsonLines())


def csv_text(columns: Columns) -> str:
    """Return a whole table as CSV.

    >>> print(csv_text({"label": np.array([1, 2]), "mean": np.array([0.5, np.nan])}), end="")
    label,mean
    1,0.5
    2,
    """
    table = Csv()
    return table.head(list(columns)) + table.rows(columns)


def _texts(column: np.ndarray, null: str, infinite: str) -> list[str]:
    """Format values exactly; NaN is ``null``."""
    if column.dtype.kind == "b":
        return ["true" if v else "false" for v in column.tolist()]
    if column.dtype.kind in "ui":
        return list(map(str, column.tolist()))
    if column.dtype == np.float64:
        texts = list(map(repr, column.tolist()))
    else:
        texts = column.astype(str).tolist()
    for i in np.flatnonzero(~np.isfinite(column)).tolist():
        v = float(column[i])
        texts[i] = null if math.isnan(v) else infinite if v > 0 else "-" + infinite
    return texts


def _rows(columns: Columns, null: str, infinite: str) -> Iterator[tuple[str, ...]]:
    return zip(*(_texts(np.asarray(c), null, infinite) for c in columns.values()), strict=True)


def _csv_lines(rows: Iterable[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
