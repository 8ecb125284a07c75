"""The lazy table that measurements of a whole volume give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.volume import computed
from beam_volumes.storage.tables import TableSink

if TYPE_CHECKING:
    import pandas
    import pyarrow


class Table:
    """A table that is computed when it is asked for, sorted by its first column.

    `compute` gives a `pyarrow.Table`; ``table.to(path)`` says where it is to be written, which may be
    larger than memory.

    Attributes
    ----------
    columns : dict
        Names of the columns, in order, and their dtypes.
    """

    __slots__ = ("barrier",)

    def __init__(self, barrier: Barrier):
        self.barrier = barrier

    @property
    def columns(self) -> dict[str, np.dtype]:
        empty = self.barrier.survey.no_rows(self.barrier.shape)
        return {name: column.dtype for name, column in empty.items()}

    def __repr__(self) -> str:
        return f"<lazy table {self.barrier.name}: {', '.join(self.columns)}>"

    def to(self, path: Any, *, format: str | None = None) -> TableTarget:
        """Say where the table is to be written; `compute` does it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            Ends in ``.parquet`` (a folder of one file per range of labels, as pyarrow and pandas read
            it), ``.csv`` or ``.jsonl`` (one local file).
        format : {"parquet", "csv", "jsonl"}, optional
            Instead of by the ending.
        """
        return TableTarget(self, TableSink.of(path, format))

    def to_pyarrow(self) -> pyarrow.Table:
        """Compute it, in this process."""
        return computed(self)

    def to_pandas(self) -> pandas.DataFrame:
        """Compute it, in this process; needs pandas."""
        return self.to_pyarrow().to_pandas()


@dataclass(frozen=True, eq=False)
class TableTarget:
    """A table and where it is to be written."""

    table: Table
    sink: TableSink

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.table!r}>"
