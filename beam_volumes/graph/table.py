"""The lazy table that measurements of a whole volume give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.volume import computed
from beam_volumes.storage.table_sink import TableSink

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

    def at(self, index: Any, column: str) -> np.ndarray:
        """Compute it, in this process, and look up labels, as `scipy.ndimage`'s ``labels=, index=`` do.

        Parameters
        ----------
        index : int or sequence of int
            Labels in any order.
        column : str
            ``"intensity_mean"`` for scipy's ``mean``, ``"intensity_sum"`` for ``sum_labels``,
            ``"centroid_weighted"`` for ``center_of_mass``, and so on; all of its columns if it has
            several.

        Returns
        -------
        numpy.ndarray
            An entry, or for several columns a row, for each label. Of labels that are not there NaN, or
            0 in columns of integers.

        Examples
        --------
        >>> import numpy as np
        >>> import beam_volumes as bv
        >>> labels, em = np.array([[1, 1, 2]], "u1"), np.array([[3.0, 5.0, 7.0]])
        >>> bv.regionprops_table(labels, em).at([2, 1, 9], "intensity_mean")
        array([ 7.,  4., nan])
        """
        names = [n for n in self.columns if n == column or n.startswith(f"{column}-")]
        if not names:
            raise ValueError(f"no column {column!r}; there are {', '.join(self.columns)}")
        table = self.to_pyarrow()
        labels = table[table.column_names[0]].to_numpy()
        wanted = np.asarray(index)
        at = np.minimum(np.searchsorted(labels, wanted), max(0, len(labels) - 1))
        results = []
        for name in names:
            values = table[name].to_numpy()
            found = np.full(wanted.shape, np.nan if values.dtype.kind == "f" else 0, values.dtype)
            if len(labels):
                np.copyto(found, values[at], where=labels[at] == wanted)
            results.append(found)
        return results[0] if len(results) == 1 else np.stack(results, axis=-1)

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
