"""Positions of voxels in the coordinates of ITK: x, y, z in physical units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume
from beam_volumes.storage.sources.axes import unit_name

#: Entries of matrices that are this close to an integer are rounded to it, so voxels are copied.
WHOLE = 1e-9


@dataclass(frozen=True, eq=False)
class Frame:
    """The map from x, y, z indices to positions; ``forward`` is homogeneous."""

    forward: np.ndarray
    size: np.ndarray
    spacing: np.ndarray
    direction: np.ndarray

    @property
    def origin(self) -> np.ndarray:
        return self.forward[:-1, -1]


def frames(fixed: Volume, moving: Volume, unit: Any, direction: Any, name: str) -> list[Frame]:
    """Return the frames of two volumes, with lengths in ``unit``, or the unit of ``fixed``."""
    if fixed.space.axes != moving.space.axes or len(fixed.space.axes) < 2:
        raise ValueError(
            f"{name}: the volumes have the axes {', '.join(fixed.space.axes)} and "
            f"{', '.join(moving.space.axes)}; both need z, y and x, or y and x"
        )
    if unit is not None and not isinstance(unit, str):
        raise TypeError(f"{name}: unit={unit!r} is not a unit of length such as 'mm'")
    n = len(fixed.space.axes)
    wanted = unit_name(unit) or fixed.space.unit or moving.space.unit
    turns = _directions(direction, n, name)
    result = []
    for v, turn in zip((fixed, moving), turns, strict=True):
        if unit is not None and v.space.unit is None and v.space.knows_size:
            raise ValueError(
                f"{name}: unit={unit!r} needs volumes with a unit; open them with unit="
            )
        visible = [*v.space.visible][::-1]
        space = v.space.in_unit(wanted)
        spacing = np.array(space.voxel_size or (1.0,) * 3)[visible]
        forward = np.eye(n + 1)
        forward[:n, :n], forward[:n, n] = turn * spacing, np.array(space.origin)[visible]
        result.append(Frame(forward, np.array(v.grid_shape)[visible], spacing, turn))
    return result


def _directions(direction: Any, n: int, name: str) -> Sequence[np.ndarray]:
    if direction is None:
        return [np.eye(n)] * 2
    try:
        found = np.asarray(direction, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: direction={direction!r} is not made of numbers") from None
    if found.shape == (n, n):
        found = np.stack([found, found])
    is_turn = found.shape == (2, n, n) and np.allclose(
        found @ found.transpose(0, 2, 1), np.eye(n), atol=1e-4
    )
    if not is_turn:
        raise ValueError(
            f"{name}: direction={direction!r} is not a matrix of {n} x {n} for both volumes or each, "
            "with perpendicular columns of length 1"
        )
    return [*found]


def reversed_axes(matrix: np.ndarray) -> np.ndarray:
    """Return a homogeneous matrix of x, y, z for z, y, x, or the other way round."""
    n = len(matrix) - 1
    order = [*range(n)[::-1], n]
    return matrix[np.ix_(order, order)]


def voxels_of(linear: np.ndarray, fixed: Frame, moving: Frame) -> np.ndarray:
    """Return the matrix that maps z, y, x indices of one volume to the other; ``linear`` maps positions."""
    found = np.linalg.inv(moving.forward) @ linear @ fixed.forward
    found = reversed_axes(found)
    whole = np.rint(found)
    found = np.where(abs(found - whole) <= WHOLE, whole, found)
    found[-1] = [0.0] * (len(found) - 1) + [1.0]
    return found


def positions_of(matrix: np.ndarray, fixed: Frame, moving: Frame) -> np.ndarray:
    """Return the inverse of `voxels_of`."""
    found = moving.forward @ reversed_axes(matrix) @ np.linalg.inv(fixed.forward)
    found[-1] = [0.0] * (len(found) - 1) + [1.0]
    return found
