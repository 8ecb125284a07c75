"""Sections of stored volumes at low resolution: few chunks are read, whatever the volume's size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import AXES
from beam_volumes.base.text import format_bytes
from beam_volumes.storage.inputs.opening import asked_at, open_source
from beam_volumes.storage.sources.source import Source

#: Rows or columns of a section that are left at least when it is thinned to read less.
FEWEST = 24

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Section:
    """A plane of a volume, or a part of one.

    Attributes
    ----------
    axis : int
        Which of z, y, x it is normal to.
    at : int
        Where along that axis, in voxels of the whole volume.
    voxels : numpy.ndarray
        One for each channel, then rows and columns along the other two axes.
    spans : tuple of (int, int)
        The range of rows and that of columns that it covers, in voxels of the whole volume.
    """

    axis: int
    at: int
    voxels: np.ndarray
    spans: tuple[Range, Range]


class TooDear(ValueError):
    """What is to be looked at would take more reading than is allowed."""


def along(axis: int) -> tuple[int, int]:
    """The axes of a section's rows and columns.

    Examples
    --------
    >>> [along(axis) for axis in range(3)]
    [(1, 2), (0, 2), (1, 0)]
    """
    return ((1, 2), (0, 2), (1, 0))[axis]


def coarser(source: Source) -> list[Source]:
    """The levels of a pyramid that lie below a source, finest first, with the same part of the volume.

    None if there are no others, or the source is not as it was opened.
    """
    asked = dict(source.asked or {})
    path, points = asked.get("path_or_spec"), asked.pop("points", ())
    if not isinstance(path, str) or source.stored is not source:
        return []
    try:
        place, formats = asked_at(path)
        names = next((n for n in (f.levels(place) for f in formats) if n), ())
        first = asked.get("level") or 0
        if len(names) < first + 2 or asked.get("dataset") in names:
            return []
        whole = open_source(**asked)
        found = []
        for level in range(first + 1, len(names)):
            one = open_source(**{**asked, "level": level})
            if one.space.all_axes != whole.space.all_axes:
                return []
            for axis, at in points:
                one = one.point(axis, at)
            box = _scaled(source, whole.shape, one.shape)
            found.append(one.crop(box))
    except (ValueError, OSError):  # a damaged level is no reason to show nothing
        return []
    return found


def _scaled(source: Source, whole: Triple, level: Triple) -> Box:
    """The part of a level that a source is of the finest one."""
    start, stop = [], []
    for a, n, o, m in zip(source.offset, source.shape, whole, level, strict=True):
        start.append(min(a * m // max(1, o), m))
        stop.append(min(-(-(a + n) * m // max(1, o)), m))
    return Box(tuple(start), tuple(stop))  # type: ignore[arg-type]


def fitting(levels: Sequence[Source], most: int) -> int:
    """The coarsest of these levels that still has ``most`` voxels along its longest axis."""
    enough = [k for k, source in enumerate(levels) if max(source.shape) >= most]
    return enough[-1] if enough else 0


def steps_of(source: Source, axis: int, most: int, most_bytes: int) -> tuple[int, int]:
    """How a section is thinned along its rows and columns, so that it is small and soon read.

    Raises
    ------
    TooDear
        Even thin ones need more than ``most_bytes`` of chunks.
    """
    axes = along(axis)
    steps = [max(1, -(-source.shape[a] // most)) for a in axes]

    def touched(k: int) -> int:
        n, a = source.shape[axes[k]], axes[k]
        return min(source.units_touched(a, (0, n)), -(-n // steps[k]))

    each = math.prod(source.read_unit) * source.dtype.itemsize * source.channels_per_chunk
    while touched(0) * touched(1) * each > most_bytes:
        k = int((touched(1), -steps[1]) > (touched(0), -steps[0]))
        if source.shape[axes[k]] // (2 * steps[k]) < FEWEST:
            raise TooDear(
                f"a section along {AXES[axes[0]]} and {AXES[axes[1]]} of {source.name} reads "
                f"{format_bytes(touched(0) * touched(1) * each)} of chunks even if it is thinned"
            )
        steps[k] *= 2
    return steps[0], steps[1]


def sampled(sources: Sequence[Source], axis: int, at: float, steps: tuple[int, int]) -> np.ndarray:
    """Every so many-th row and column of a plane of several channels, the middle one of each few.

    ``at`` is from 0 to 1 along the axis.
    """
    planes = []
    for source in sources:
        rows, columns = along(axis)
        index: list[int | slice] = [0, 0, 0]
        index[axis] = min(int(at * source.shape[axis]), source.shape[axis] - 1)
        for a, step in zip((rows, columns), steps, strict=True):
            index[a] = slice(min(step // 2, source.shape[a] - 1), None, step)
        if source.array is not None:
            plane = np.asarray(source.array[tuple(index)])
        else:
            plane = np.asarray(source.open()[tuple(index)].read().result())
        planes.append(plane if rows < columns else plane.T)
    return np.stack(planes)
