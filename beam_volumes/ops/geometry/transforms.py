"""Given transforms: positions, matrices, tables and files."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from beam_volumes.base.text import check_columns
from beam_volumes.storage.inputs.tile_projects import project_tiles
from beam_volumes.storage.sources.tiles import different

#: The functions that make the tables of others.
_MAKERS = {"apply_transforms": "register_slices or register_frames", "fuse": "register_tiles"}


def matrices_of(
    transforms: Any, axes: Sequence[str], count: int, name: str, each: str, what: str = "transforms"
) -> tuple[np.ndarray, np.ndarray]:
    """Return a matrix, (count, axes, axes), and a position, (count, axes), for each tile or slice.

    A table or a CSV file has a column for each axis, and optionally each pair of axes, such as ``m_yx``.
    """
    # ``name`` is the function, ``each`` the plural of tile or slice, and ``what`` the parameter, for
    # messages.
    n = len(axes)
    if isinstance(transforms, str | os.PathLike) and str(transforms).lower().endswith(".xml"):
        at = ["zyx".index(a) for a in axes]
        tiles = project_tiles(existing(transforms, name, what), {})
        transforms = [tile.matrix[at][:, [*at, 3]] for tile in tiles]
    elif isinstance(transforms, str | os.PathLike):
        transforms = table_of(transforms, name, what)
    if (table := columns_of(transforms, f"{name}: {what}")) is not None:
        transforms = _of_columns(table, axes, name, what)
    if not is_listed(transforms):
        raise TypeError(
            f"{name}: {what}={transforms!r} is neither a list of positions or matrices nor a table"
        )
    if len(transforms) != count:
        raise ValueError(
            f"{name}: {what} has {len(transforms)} entries for {count} {each}; give one for each"
        )
    matrices, places = np.tile(np.eye(n), (count, 1, 1)), np.zeros((count, n))
    for t, m in _equal_shapes(transforms, name, what):
        if m.shape[1:] in ((n, n + 1), (n + 1, n + 1)):
            is_wrong = (m[:, n:] != [0.0] * n + [1.0]).any(axis=(1, 2))
            if is_wrong.any():
                k = int(is_wrong.argmax())
                raise ValueError(
                    f"{name}: {what}[{t + k}]: the last row of a homogeneous matrix must be zeros "
                    f"and a one, not {m[k, n].tolist()}"
                )
            places[t : t + len(m)], m = m[:, :n, n], m[:, :n, :n]
        elif m.shape[1:] == (n,):
            places[t : t + len(m)] = m
            continue
        if m.shape[1:] != (n, n):
            raise ValueError(
                f"{name}: {what}[{t}] has shape {m.shape[1:]}; for the axes {', '.join(axes)} it "
                f"is a position of {n} numbers, or a matrix of {n} x {n}, {n} x {n + 1} or {n + 1} x "
                f"{n + 1}"
            )
        matrices[t : t + len(m)] = m
    is_finite = np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(places).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"{name}: {what}[{int(is_finite.argmin())}] has numbers that are missing, NaN or infinite; "
            "give finite ones"
        )
    sizes = abs(np.linalg.det(different(matrices)))
    if (sizes < 1e-12).any():
        t = int(sizes.argmin())
        raise ValueError(
            f"{name}: {what}[{t}] has no inverse, so the extent along some axis would be zero"
        )
    return matrices, places


def is_listed(given: Any) -> bool:
    """Whether an object is a sequence or an array with a first axis."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, str | bytes)


def _equal_shapes(transforms: Any, name: str, what: str) -> Iterator[tuple[int, np.ndarray]]:
    """Yield entries of one shape, with the index of the first."""
    try:
        yield 0, real_numbers(transforms)
        return
    except (TypeError, ValueError):  # several shapes, or no numbers
        pass
    for t, one in enumerate(transforms):
        try:
            yield t, real_numbers(one)[None]
        except (TypeError, ValueError):
            raise TypeError(f"{name}: {what}[{t}]={one!r} is not made of real numbers") from None


def real_numbers(given: Any) -> np.ndarray:
    """Return a float64 array; numpy would discard imaginary parts with a warning."""
    if np.asarray(given).dtype.kind == "c":
        raise TypeError("complex numbers are not real")
    return np.asarray(given, np.float64)


def table_of(path: str | os.PathLike[str], name: str, what: str) -> Mapping[str, list[str]]:
    """Return the columns of a CSV file."""
    try:
        with open(existing(path, name, what), newline="", encoding="utf-8-sig") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{name}: {what}={os.fspath(path)!r} is not a CSV file: {error}") from None
    if not rows:
        raise ValueError(f"{name}: {what}={os.fspath(path)!r} has no rows below its header")
    names = [column.strip() for column in header]
    check_columns(filter(None, names), f"{name}: {what}={os.fspath(path)!r}")
    for k, row in enumerate(rows):
        if len(row) < len(names) or any(map(str.strip, row[len(names) :])):
            raise ValueError(
                f"{name}: row {k} of {what}={os.fspath(path)!r} has {len(row)} values for {len(names)} "
                "columns; write numbers with points, and texts with commas in quotes"
            )
    return {column: [row[k] for row in rows] for k, column in enumerate(names) if column}


def existing(path: str | os.PathLike[str], name: str, what: str) -> str:
    """Return the absolute path of a file."""
    found = os.path.abspath(os.path.expanduser(path))
    if "://" in os.fspath(path):
        raise ValueError(
            f"{name}: {what}={os.fspath(path)!r} is a URL, and only files on this machine are read; "
            "download it"
        )
    if os.path.exists(found) and not os.path.isfile(found):
        kind = "a folder" if os.path.isdir(found) else "a device or a pipe"
        raise ValueError(f"{name}: {what}={os.fspath(path)!r} is {kind}; give a file")
    if not os.path.isfile(found):
        made = f", such as the table of {_MAKERS[name]}" if name in _MAKERS else ""
        raise FileNotFoundError(
            f"{name}: {what}={os.fspath(path)!r} does not exist; give an existing file{made}"
        )
    return found


def columns_of(given: Any, what: str) -> Any:
    """Return the columns of a table by their names; None for others. ``what`` is its name in messages."""
    if isinstance(given, Mapping):
        return given
    if (names := getattr(given, "column_names", getattr(given, "columns", None))) is not None:
        check_columns(names, what)
    if hasattr(given, "column_names"):  # pyarrow's tables do not look up names
        return dict(zip(given.column_names, given.columns, strict=True))
    return given if hasattr(given, "columns") else None


def _of_columns(table: Any, axes: Sequence[str], name: str, what: str) -> np.ndarray:
    """Return matrices with a column for the position, (rows, axes, axes + 1)."""
    pairs = [[matrix_column(a, b) for b in axes] for a in axes]
    has_matrices = pairs[0][0] in table
    wanted = [*axes, *(p for row in pairs for p in row if has_matrices)]
    missing = [column for column in wanted if column not in table]
    if missing:
        known = ", ".join(map(str, table)) or "none"
        raise ValueError(
            f"{name}: {what} has no column {missing[0]!r} (columns: {known}); rename its columns"
        )
    try:
        found = {column: real_numbers(table[column]) for column in wanted}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {what}: an entry is not a number: {error}") from None
    shapes = {column: numbers.shape for column, numbers in found.items()}
    if len({*shapes.values()}) > 1 or len(shapes[axes[0]]) != 1:
        listed = ", ".join(f"{column}: {shape}" for column, shape in shapes.items())
        raise ValueError(
            f"{name}: {what} has columns of the shapes {listed}; give one number for each row and "
            "column"
        )
    n, rows = len(axes), len(found[axes[0]])
    result = np.tile(np.eye(n, n + 1), (rows, 1, 1))
    for i, a in enumerate(axes):
        result[:, i, n] = found[a]
        for j in range(n if has_matrices else 0):
            result[:, i, j] = found[pairs[i][j]]
    return result


def matrix_column(row: str, column: str) -> str:
    """Return the name of the column with an entry of the matrices."""
    return f"m_{row}{column}"


def matrix_columns(matrices: np.ndarray, axes: Sequence[str]) -> dict[str, np.ndarray]:
    """Return a column for each entry of the matrices."""
    pairs = itertools.product(enumerate(axes), repeat=2)
    return {matrix_column(a, b): matrices[:, n, m] for (n, a), (m, b) in pairs}
