"""Sections of stored volumes at low resolution, with bounded reading for volumes of any size."""

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

#: Minimal number of rows or columns of a subsampled section.
FEWEST = 24

Range = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Section:
    """A plane of a volume, or a part of one."""

    axis: int  #: The axis of z, y, x that it is normal to
    at: int  #: Position along that axis, in voxels of the whole volume
    voxels: np.ndarray  #: Channels, then rows and columns along the other two axes
    spans: tuple[Range, Range]  #: The ranges of rows and columns, in voxels of the whole volume


class TooExpensive(ValueError):
    """Looking at a volume would read more than the limit."""


def along(axis: int) -> tuple[int, int]:
    """Return the axes of a section's rows and columns.

    >>> [along(axis) for axis in range(3)]
    [(1, 2), (0, 2), (1, 0)]
    """
    return ((1, 2), (0, 2), (1, 0))[axis]


def coarser(source: Source) -> list[Source]:
    """Return the coarser levels of a source's pyramid with the same part of the volume.

    Empty without other levels, or if the source is a view. The finest comes first.
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
    except (ValueError, OSError):  # a damaged level must not prevent showing the volume
        return []
    return found


def _scaled(source: Source, whole: Triple, level: Triple) -> Box:
    """Return the part of a level that corresponds to a source's part of the finest one."""
    start, stop = [], []
    for a, n, o, m in zip(source.offset, source.shape, whole, level, strict=True):
        start.append(min(a * m // max(1, o), m))
        stop.append(min(-(-(a + n) * m // max(1, o)), m))
    return Box(tuple(start), tuple(stop))  # type: ignore[arg-type]


def fitting(levels: Sequence[Source], max_size: int) -> int:
    """Return the coarsest level with at least ``max_size`` voxels along its longest axis."""
    enough = [k for k, source in enumerate(levels) if max(source.shape) >= max_size]
    return enough[-1] if enough else 0


def steps_of(source: Source, axes: Sequence[int], max_size: int, max_bytes: int) -> tuple[int, ...]:
    """Return the steps along some axes that make a part of a volume small and quick to read.

    Raises `TooExpensive` if even large steps need more than ``max_bytes`` of chunks.
    """
    steps = [max(1, -(-source.shape[a] // max_size)) for a in axes]

    def touched(k: int) -> int:
        n, a = source.shape[axes[k]], axes[k]
        return min(source.units_touched(a, (0, n)), -(-n // steps[k]))

    each = math.prod(source.read_unit) * source.dtype.itemsize * source.channels_per_chunk
    while (size := math.prod(map(touched, range(len(axes)))) * each) > max_bytes:
        k = max(range(len(axes)), key=lambda k: (touched(k), -steps[k]))
        if source.shape[axes[k]] // (2 * steps[k]) < FEWEST:
            raise TooExpensive(
                f"a section along {' and '.join(AXES[a] for a in axes)} of {source.name} reads "
                f"{format_bytes(size)} of chunks even if it is subsampled"
            )
        steps[k] *= 2
    return tuple(steps)


def read_at(source: Source, index: tuple[int | slice, ...]) -> np.ndarray:
    """Read the voxels of an index."""
    if source.array is not None:
        return np.asarray(source.array[index])
    return np.asarray(source.open()[index].read().result())


def sampled(sources: Sequence[Source], axis: int, at: float, steps: Sequence[int]) -> np.ndarray:
    """Read a subsampled plane of several channels, from the middle row and column of each step.

    ``at`` is the position along the axis, from 0 to 1.
    """
    planes = []
    for source in sources:
        rows, columns = along(axis)
        index: list[int | slice] = [0, 0, 0]
        index[axis] = min(int(at * source.shape[axis]), source.shape[axis] - 1)
        for a, step in zip((rows, columns), steps, strict=True):
            index[a] = slice(min(step // 2, source.shape[a] - 1), None, step)
        plane = read_at(source, tuple(index))
        planes.append(plane if rows < columns else plane.T)
    return np.stack(planes)
