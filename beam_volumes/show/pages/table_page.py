"""The report of a table: its columns with their ranges, and the first rows."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from beam_volumes.base.text import format_number
from beam_volumes.show.pages import charts
from beam_volumes.show.pages.page import Page

#: Maximal numbers of rows and columns, and the formats of tables by suffix.
ROWS, COLUMNS = 12, 40
#: Maximal number of rows that are drawn one by one.
MAX_DRAWN = 100_000
FORMATS = {".parquet": "parquet", ".csv": "csv", ".jsonl": "json"}


def is_table(path: str) -> bool:
    """Whether a path has the suffix of a table."""
    return os.path.splitext(path.rstrip("/"))[1].lower() in FORMATS


def dataset_of(path: str) -> Any:
    """Open a table, a file or a folder of shards, as a dataset of pyarrow."""
    import pyarrow.dataset as ds

    ending = os.path.splitext(path.rstrip("/"))[1]
    files: Any = path
    if os.path.isdir(path):
        names = sorted(n for n in os.listdir(path) if n[0] not in "._" and n.endswith(ending))
        files = [os.path.join(path, n) for n in names]
    return ds.dataset(files, format=FORMATS[ending.lower()])


def add_table(page: Page, path: str, heading: str) -> None:
    """Add a local table to a page; it is read batch by batch."""
    page.heading(heading)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} does not exist")
    table = dataset_of(path)
    columns = {name: _Column() for name in table.schema.names[:COLUMNS]}
    rows, first = 0, None
    for batch in table.to_batches(columns=list(columns)):
        if first is None and batch.num_rows:
            first = batch.slice(0, ROWS)
        rows += batch.num_rows
        for name, column in columns.items():
            column.add(batch.column(name))
    page.table({"rows": f"{rows:,}", "columns": len(table.schema.names)})
    if not rows:
        return
    page.rows(["column", "min", "mean", "max"], [[n, *c.texts()] for n, c in columns.items()])
    if first is not None:
        page.words("The first rows:")
        found = first.to_pylist()
        page.rows(list(columns), [[_text(row[name]) for name in columns] for row in found])
    if {"links", "quality", "residual"} <= columns.keys() and rows <= MAX_DRAWN:
        _add_transforms(page, columns)
    if "area" in columns and columns["area"].sample:
        sizes = np.log10(np.maximum(np.concatenate(columns["area"].sample), 1e-9))
        counts, _ = np.histogram(sizes, 48)
        low, high = float(10 ** sizes.min()), float(10 ** sizes.max())
        page.side_by_side(
            [charts.histogram(counts.tolist(), low, high, "area (bins of equal ratio)")]
        )


def _add_transforms(page: Page, columns: dict[str, _Column]) -> None:
    """Add what a registration found: positions in their order, and how well they agree."""
    parts = {name: np.concatenate(c.sample) for name, c in columns.items() if c.sample}
    lonely = np.flatnonzero(parts["links"] == 0).tolist()
    page.heading("Registration")
    page.table({"rows without links": ", ".join(map(str, lonely[:40])) or "none"})
    page.side_by_side(
        [
            *(charts.series(f"position {a}", parts[a].tolist()) for a in "zyx" if _moves(parts, a)),
            *(
                charts.series(f"{n} of rows with links", parts[n].tolist())
                for n in ("quality", "residual")
                if n in parts
            ),
        ]
    )


def _moves(parts: dict[str, np.ndarray], axis: str) -> bool:
    """Whether an axis has positions: the first column is the number of a slice or a frame."""
    return axis in parts and axis != next(iter(parts))


class _Column:
    """Range and mean of a column of numbers, batch by batch."""

    def __init__(self) -> None:
        self.count, self.total = 0, 0.0
        self.low, self.high = np.inf, -np.inf
        self.sample: list[np.ndarray] = []

    def add(self, column: Any) -> None:
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "iuf":
            return
        values = values.astype(np.float64)
        values = values[np.isfinite(values)]
        if not values.size:
            return
        self.count += values.size
        self.total += float(values.sum())
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())
        if sum(map(len, self.sample)) < 1_000_000:
            self.sample.append(values)

    def texts(self) -> list[str]:
        if not self.count:
            return ["", "", ""]
        return [_text(float(v)) for v in (self.low, self.total / self.count, self.high)]


def _text(value: Any) -> str:
    return format_number(value) if isinstance(value, float) else str(value)
