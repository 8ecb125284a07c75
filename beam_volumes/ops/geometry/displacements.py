"""Displacements within slices, at the nodes of a grid."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from scipy import ndimage

from beam_volumes.ops.geometry.transforms import columns_of, real_numbers, table_of
from beam_volumes.sweep.stage import PlainData

#: The columns of a table of displacements.
COLUMNS = ("z", "y", "x", "d_y", "d_x")
#: The largest difference of distances between nodes, relative to their distance.
_EVEN = 1e-6


@dataclass(frozen=True, eq=False)
class Grid(PlainData):
    """Cubic B-splines through displacements at the nodes of a grid, with natural ends."""

    first: np.ndarray  #: The position of the first node along y and x
    step: np.ndarray  #: The distance of nodes
    coefficients: np.ndarray  #: (slices, 2, rows, columns), with one around the nodes, at least 4

    @classmethod
    def through(cls, first: np.ndarray, step: np.ndarray, nodes: np.ndarray) -> Grid:
        """Return the splines through ``nodes``, (slices, 2, rows, columns)."""
        return cls(first, step, _coefficients(_coefficients(nodes, 2), 3))

    @classmethod
    def of_table(cls, table: Any, count: int, name: str) -> Grid:
        """Return the splines of a table with `COLUMNS`; errors are for ``displacements`` of a function."""
        what = f"{name}: displacements"
        if isinstance(table, str | os.PathLike):
            table = table_of(table, name, "displacements")
        if (columns := columns_of(table, what)) is None:
            raise TypeError(
                f"{what}={table!r} is not a table; give the result of register_elastic, or its CSV file"
            )
        if missing := [c for c in COLUMNS if c not in columns]:
            raise ValueError(
                f"{what} has no column {missing[0]!r} (columns: {', '.join(map(str, columns))}); give the "
                "result of register_elastic"
            )
        try:
            z, y, x, *by = (real_numbers(columns[c]).ravel() for c in COLUMNS)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{what}: an entry is not a number: {error}") from None
        if len({z.size, y.size, x.size, *(b.size for b in by)}) > 1:
            raise ValueError(
                f"{what} has columns of different lengths; give one number for each row"
            )
        if not np.isfinite([z, y, x, *by]).all():
            raise ValueError(f"{what} has entries that are NaN or infinite; give finite numbers")
        slices, *axes = np.unique(z), np.unique(y), np.unique(x)
        if slices.tolist() != list(range(count)):
            found = f"{len(slices)} slices" + (
                f", {slices[0]:g} to {slices[-1]:g}," if len(z) else ""
            )
            raise ValueError(
                f"{what} has {found} for {count} slices of the volume; give rows for each slice z from 0 to "
                f"{count - 1}"
            )
        order = np.lexsort((x, y, z))
        shape = (count, *map(len, axes))
        whole = np.stack(np.meshgrid(slices, *axes, indexing="ij")).reshape(3, -1)
        if len(z) != whole.shape[1] or (np.stack([z, y, x])[:, order] != whole).any():
            raise ValueError(
                f"{what} has {len(z)} rows, which are no grid of {' x '.join(map(str, shape))} nodes; give "
                "one row for each slice and node"
            )
        steps = [np.diff(a) for a in axes]
        for axis, s in zip("yx", steps, strict=True):
            if len(s) and np.ptp(s) > _EVEN * s.mean():
                raise ValueError(
                    f"{what} has nodes in distances from {s.min():g} to {s.max():g} along {axis}; give nodes "
                    "in equal distances"
                )
        nodes = np.stack([b[order].reshape(shape) for b in by], axis=1)
        step = np.array([s.mean() if len(s) else 1.0 for s in steps])
        return cls.through(np.array([a[0] for a in axes]), step, nodes)

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Limits of the displacements of each slice, (slices, 2): of their Bézier points between nodes."""
        # Coefficients around the nodes are far larger than any displacement.
        limits = np.empty((2, len(self.coefficients), 2))
        for z, coefficients in enumerate(self.coefficients):
            points = _bezier_points(_bezier_points(coefficients, 1), 2)
            limits[:, z] = points.min(axis=(1, 2)), points.max(axis=(1, 2))
        return limits[0], limits[1]

    def at(self, z: int, positions: np.ndarray) -> np.ndarray:
        """Return the displacements of a slice at positions, both (2, ...)."""
        around = (slice(None), *(None,) * (positions.ndim - 1))
        index = (positions - self.first[around]) / self.step[around] + 1.0
        for i, n in zip(index, self.coefficients.shape[2:], strict=True):
            np.clip(i, 1, n - 2, out=i)
        return np.stack(
            [
                ndimage.map_coordinates(c, index, order=3, mode="nearest", prefilter=False)
                for c in self.coefficients[z]
            ]
        )


def _coefficients(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the coefficients of natural splines along an axis, with one more on each side."""
    values = np.moveaxis(values, axis, 0)
    n = len(values)
    if n == 1:  # any position is between four coefficients
        return np.moveaxis(np.repeat(values, 4, axis=0), 0, axis)
    bands = np.ones((3, n))
    bands[1, 1:-1] = 4.0
    bands[1, [0, -1]] = 6.0
    bands[0, 1] = bands[2, -2] = 0.0  # the second derivative is 0 at the ends
    inner = scipy.linalg.solve_banded((1, 1), bands, 6.0 * values.reshape(n, -1)).reshape(
        values.shape
    )
    ends = 2 * inner[:1] - inner[1:2], 2 * inner[-1:] - inner[-2:-1]
    return np.moveaxis(np.concatenate([ends[0], inner, ends[1]]), 0, axis)


def _bezier_points(coefficients: np.ndarray, axis: int) -> np.ndarray:
    """Return the nodes along an axis, and the two Bézier points between them, from coefficients."""
    c = np.moveaxis(coefficients, axis, 0)
    nodes = (c[:-2] + 4 * c[1:-1] + c[2:]) / 6
    left, right = c[1:-2], c[2:-1]
    points = [nodes, (2 * left + right) / 3, (left + 2 * right) / 3]
    return np.moveaxis(np.concatenate(points), 0, axis)
