"""Lazy tables: the measurements of a whole volume."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.base.higher import driver, html_of
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.protocols import computed
from beam_volumes.storage.inputs.arrays import exact_array
from beam_volumes.storage.outputs.table_sink import TableSink

if TYPE_CHECKING:
    import pandas
    import pyarrow


def _structured(rows: pyarrow.Table, dtype: Any) -> np.ndarray:
    """Return rows as an array with a field for each column."""
    columns = [column.to_numpy() for column in rows.columns]
    kinds = [(name, c.dtype) for name, c in zip(rows.column_names, columns, strict=True)]
    array = np.empty(rows.num_rows, kinds)
    for name, column in zip(rows.column_names, columns, strict=True):
        array[name] = column
    return array if dtype is None else array.astype(dtype)


class ComputedTable(dict[str, "pyarrow.ChunkedArray"]):
    """The rows of a computed table, as a dict of columns.

    ``pd.DataFrame(rows)``, ``polars.DataFrame(rows)``, ``pyarrow.table(rows)`` and ``dict(rows)`` accept it.
    It also has the attributes and methods of `pyarrow.Table`; ``rows.to_pyarrow()`` returns a real table for
    functions that accept nothing else. Its length is the number of rows.

    >>> rows = bv.compute(bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]))
    >>> {name: column.to_pylist() for name, column in dict(rows).items()}
    {'label': [1, 2], 'area': [2.0, 1.0]}
    >>> rows.num_rows, rows.to_pydict() == rows.to_pyarrow().to_pydict()
    (2, True)
    """

    __slots__ = ("_rows",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, rows: pyarrow.Table):
        super().__init__(zip(rows.column_names, rows.columns, strict=True))
        self._rows = rows

    def __reduce__(self) -> Any:
        return type(self), (self._rows,)

    def __getattr__(self, name: str) -> Any:
        if name == "_rows":  # before __init__
            raise AttributeError(name)
        return getattr(self._rows, name)

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return _structured(self._rows, dtype)

    def __getitem__(self, name: Any) -> pyarrow.ChunkedArray:
        return self._rows[name]

    def __eq__(self, other: object) -> bool:
        return self.equals(other)

    def __ne__(self, other: object) -> bool:
        return not self.equals(other)

    def __repr__(self) -> str:
        return repr(self._rows)

    def equals(self, other: Any, **how: Any) -> bool:
        """Compare the rows with another table, as `pyarrow.Table.equals`.

        Parameters
        ----------
        other : ComputedTable or pyarrow.Table
            The other table.
        **how : options
            Options of `pyarrow.Table.equals`.

        Returns
        -------
        bool
            Whether names, dtypes and values are the same.

        Examples
        --------
        >>> rows = bv.compute(bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]))
        >>> rows.equals(rows.to_pyarrow())
        True
        """
        other = other._rows if isinstance(other, ComputedTable) else other
        return isinstance(other, type(self._rows)) and bool(self._rows.equals(other, **how))

    def to_pyarrow(self) -> pyarrow.Table:
        """Return a pyarrow table.

        Returns
        -------
        pyarrow.Table
            The same rows.

        Examples
        --------
        >>> rows = bv.compute(bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]))
        >>> type(rows.to_pyarrow()).__name__
        'Table'
        """
        return self._rows


class Table(dict[str, np.ndarray]):
    """A lazy table of measurements, sorted by its first column.

    `regionprops_table` and `region_adjacency` return tables. `compute` returns the rows, which pandas,
    polars and ``dict()`` accept. ``table.to(path)`` sets a path for `compute` to write to,
    including for tables larger than memory.

    A table is a dict of columns, as in scikit-image. ``table["area"]``, ``pd.DataFrame(table)``,
    ``np.asarray(table)`` (an array with a field for each column) and similar calls compute it once
    in this process and keep the rows. It has no ``len``, because the number of rows is unknown
    before.

    Attributes
    ----------
    columns : dict
        Names and dtypes of the columns, in order.

    Examples
    --------
    >>> table = bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"])
    >>> table
    <lazy table regionprops_table: label, area>
    >>> table.to_pyarrow().to_pydict()
    {'label': [1, 2], 'area': [2.0, 1.0]}
    """

    __slots__ = ("_rows", "barrier")
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __init__(self, barrier: Barrier):
        super().__init__()
        self.barrier = barrier
        self._rows: pyarrow.Table | None = None

    def __reduce__(self) -> Any:
        return type(self), (self.barrier,)

    # Methods of a dict of columns.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise TypeError(
            f"{self!r} has no length before it is computed; use len(table.columns) for its "
            "columns, and len(bv.compute(table)) for its rows"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return _structured(self._kept(), dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.columns:
            raise KeyError(
                f"there is no column {name!r}; the columns are {', '.join(self.columns)}"
            )
        column: np.ndarray = self._kept()[name].to_numpy()
        return column

    def keys(self) -> Any:
        """Return the names of the columns.

        Returns
        -------
        collections.abc.KeysView
            The names, in order.

        Examples
        --------
        >>> list(bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).keys())
        ['label', 'area']
        """
        return self.columns.keys()

    def values(self) -> Any:
        """Compute the columns.

        Returns
        -------
        list of numpy.ndarray
            The columns, in order.

        Examples
        --------
        >>> bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).values()
        [array([1, 2], dtype=uint64), array([2., 1.])]
        """
        return [self[name] for name in self.columns]

    def items(self) -> Any:
        """Compute the columns and return them with their names.

        Returns
        -------
        list of tuple
            Names and columns, in order.

        Examples
        --------
        >>> bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).items()
        [('label', array([1, 2], dtype=uint64)), ('area', array([2., 1.]))]
        """
        return [(name, self[name]) for name in self.columns]

    def get(self, name: str, default: Any = None) -> Any:
        """Compute a column, if it exists.

        Parameters
        ----------
        name : str
            Name of the column.
        default : object, optional
            Result if the column does not exist.

        Returns
        -------
        numpy.ndarray or object
            The column.

        Examples
        --------
        >>> bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).get("size", 0)
        0
        """
        return self[name] if name in self.columns else default

    def _kept(self) -> pyarrow.Table:
        if self._rows is None:
            self._rows = self.to_pyarrow()
        return self._rows

    def compute(self, **options: Any) -> ComputedTable:
        """Compute the table.

        Parameters
        ----------
        **options : options
            Options of `beam_volumes.compute`.

        Returns
        -------
        ComputedTable
            The rows, sorted by the first column: a dict of columns, with the methods of `pyarrow.Table`.

        Raises
        ------
        TypeError
            If an option does not exist or has the wrong type.
        ValueError
            If an option is out of range or the memory limit is too small for any plan.

        Examples
        --------
        >>> bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).compute().num_rows
        2
        """
        result: ComputedTable = driver().compute(self, **options)
        return result

    @property
    def columns(self) -> dict[str, np.dtype]:
        """Names and dtypes of the columns, in order."""
        empty = self.barrier.survey.no_rows(self.barrier.shape)
        return {name: column.dtype for name, column in empty.items()}

    def __repr__(self) -> str:
        return f"<lazy table {self.barrier.name}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str | None:
        return html_of(self)

    def to(self, path: Any, *, format: str | None = None) -> TableTarget:
        """Set the path to write the table to; `compute` writes it.

        Parameters
        ----------
        path : str, os.PathLike or dict
            A path that ends in ``.parquet`` (a folder with a file for each range of labels, for
            pyarrow and pandas), ``.csv`` or ``.jsonl`` (a single local file), or ``.geojson`` (a
            single local file, for `outlines`).
        format : {"parquet", "csv", "jsonl", "geojson"}, optional
            The format; required if the extension is ambiguous.

        Returns
        -------
        TableTarget
            The table and its path, for `compute`.

        Raises
        ------
        ValueError
            If the format is unknown, not possible at that path, or does not support the columns.

        Examples
        --------
        >>> table = bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"])
        >>> _ = bv.compute(table.to("cells.csv"), runner=None)
        >>> print(open("cells.csv").read())
        label,area
        1,2.0
        2,1.0
        <BLANKLINE>
        """
        sink = TableSink.of(path, format)
        sink.writer.check(sink.name, self.columns)
        return TableTarget(self, sink)

    def at(self, index: Any, column: str) -> np.ndarray:
        """Compute the table in this process and look up labels.

        Use it like ``index`` in the measurements of `scipy.ndimage`.

        Parameters
        ----------
        index : int or sequence of int
            Labels, in any order.
        column : str
            Name of a column: ``"intensity_mean"`` for scipy's ``mean``, ``"intensity_sum"`` for
            ``sum_labels``, ``"centroid_weighted"`` for ``center_of_mass``, and so on. A property with
            several columns returns all of them.

        Returns
        -------
        numpy.ndarray
            A number for each label, or a row for several columns. Missing labels are NaN, or 0 in
            columns of integers.

        Raises
        ------
        ValueError
            If there is no such column.
        TypeError
            If ``index`` does not consist of integers.

        Examples
        --------
        >>> labels, em = np.array([[1, 1, 2]], "u1"), np.array([[3.0, 5.0, 7.0]])
        >>> bv.regionprops_table(labels, em).at([2, 1, 9], "intensity_mean")
        array([ 7.,  4., nan])
        """
        names = [n for n in self.columns if n == column or n.startswith(f"{column}-")]
        if not names:
            raise ValueError(
                f"there is no column {column!r}; the columns are {', '.join(self.columns)}"
            )
        table = self._kept()
        labels = table[table.column_names[0]].to_numpy()
        wanted = exact_array(index, "index") if np.size(index) else np.empty(0, labels.dtype)
        if wanted.dtype.kind not in "bui":
            raise TypeError(f"index={index!r}: labels must be integers")
        info = np.iinfo(labels.dtype)
        possible = (wanted >= info.min) & (wanted <= info.max)
        wanted = wanted.astype(labels.dtype)  # different dtypes are compared as float64
        at = np.minimum(np.searchsorted(labels, wanted), max(0, len(labels) - 1))
        results = []
        for name in names:
            values = table[name].to_numpy()
            found = np.full(wanted.shape, np.nan if values.dtype.kind == "f" else 0, values.dtype)
            if len(labels):
                np.copyto(found, values[at], where=possible & (labels[at] == wanted))
            results.append(found)
        return results[0] if len(results) == 1 else np.stack(results, axis=-1)

    def to_pyarrow(self) -> pyarrow.Table:
        """Compute the table in this process.

        Returns
        -------
        pyarrow.Table
            The rows, sorted by the first column.

        Examples
        --------
        >>> bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"]).to_pyarrow().num_rows
        2
        """
        rows: ComputedTable = computed(self)
        return rows.to_pyarrow()

    def to_pandas(self) -> pandas.DataFrame:
        """Compute the table in this process as a data frame; needs pandas.

        Returns
        -------
        pandas.DataFrame
            The rows, sorted by the first column.

        Raises
        ------
        ImportError
            If pandas is not installed.

        Examples
        --------
        >>> table = bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"])
        >>> table.to_pandas()["area"].tolist()
        [2.0, 1.0]
        """
        return self.to_pyarrow().to_pandas()


@dataclass(frozen=True, eq=False)
class TableTarget:
    """A table and the path to write it to, as returned by `Table.to`.

    Attributes
    ----------
    table : Table
        The table.
    sink : TableSink
        Path and format; ``sink.name`` is the path or URL.

    Examples
    --------
    >>> table = bv.regionprops_table(np.array([[1, 1, 2]], "u1"), properties=["area"])
    >>> table.to("cells.parquet").sink.format
    'parquet'
    """

    table: Table
    sink: TableSink

    def __repr__(self) -> str:
        return f"<Target {self.sink.name} of {self.table!r}>"
