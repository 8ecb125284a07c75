"""The rows of a table, the objects that they describe, and gates on their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.table import ComputedTable
from beam_volumes.show.pages.table_page import dataset_of, is_table

#: Rows of a table that are shown.
MAX_ROWS = 2000


@dataclass(frozen=True, eq=False)
class Rows:
    """The first rows of a table of labels.

    Examples
    --------
    >>> rows = Rows([{"label": 7, "centroid-0": 1, "centroid-1": 2}], "table", (1, 5, 4), (1, 2))
    >>> rows.place(rows.rows[0]), rows.of_label(7), rows.numbers()
    ((0.5, 0.3, 0.625), 0, ['label', 'centroid-0', 'centroid-1'])
    """

    rows: Sequence[Mapping[str, Any]]
    #: The step that measures the labels.
    step: str
    #: The shape of the labels along z, y and x, and the axes that users see.
    shape: Triple
    visible: tuple[int, ...]

    def numbers(self) -> list[str]:
        """Return the columns that have numbers."""
        return [n for n, v in self.rows[0].items() if isinstance(v, int | float)]

    def column(self, name: str) -> np.ndarray:
        """Return a column of numbers."""
        return np.array([row[name] for row in self.rows], np.float64)

    def of_label(self, label: int) -> int | None:
        """Return the row of a label; None if it has none."""
        return next((k for k, row in enumerate(self.rows) if row.get("label") == label), None)

    def place(self, row: Mapping[str, Any]) -> tuple[float, float, float] | None:
        """Return the position of an object by its row, from 0 to 1; None without bbox or centroid."""
        many = len(self.visible)
        if f"bbox-{2 * many - 1}" in row:
            centres = [(row[f"bbox-{k}"] + row[f"bbox-{k + many}"] - 1) / 2 for k in range(many)]
        elif f"centroid-{many - 1}" in row:
            centres = [row[f"centroid-{k}"] for k in range(many)]
        else:
            return None
        at = [0.5] * 3
        for a, centre in zip(self.visible, centres, strict=True):
            at[a] = min(max((int(centre + 0.5) + 0.5) / self.shape[a], 0.0), 1.0)
        return at[0], at[1], at[2]


def first_rows(result: Any) -> list[dict[str, Any]]:
    """Return the first rows of a table that a run has returned or written; none of other results."""
    if isinstance(result, ComputedTable):
        return result.to_pyarrow().slice(0, MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
    if isinstance(result, str) and is_table(result):
        return dataset_of(result).head(MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
    return []
