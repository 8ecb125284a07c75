"""A thinned copy of a stored volume in memory: slices of it, histograms and tables come from one read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.show.sampling import FEWEST, Section, along, coarser, fitting
from beam_volumes.storage.sources.source import Source

#: Channels that a copy has.
MAX_CHANNELS = 4


@dataclass(frozen=True, eq=False)
class Thinned:
    """A volume at low resolution.

    Attributes
    ----------
    of : Volume
        The volume, at its first point in time, with the channels that were read.
    voxels : numpy.ndarray
        One for each channel, then z, y, x.
    step : tuple of int
        Of the level that was read, one voxel in so many was.
    level : int
        Which level of a pyramid; 0 is the finest.
    """

    of: Volume
    voxels: np.ndarray
    step: Triple
    level: int

    def section(self, axis: int, k: int) -> Section:
        """The slice ``k`` along an axis."""
        plane = np.take(self.voxels, k, axis + 1)
        rows, columns = along(axis)
        whole = self.of.grid_shape
        at = (2 * k + 1) * whole[axis] // (2 * self.voxels.shape[axis + 1])
        return Section(
            axis,
            at,
            plane if rows < columns else np.swapaxes(plane, 1, 2),
            ((0, whole[rows]), (0, whole[columns])),
        )

    @property
    def how(self) -> str:
        """What was read, in words."""
        if set(self.step) == {1}:
            text = "every voxel"
        else:
            text = f"one voxel in {' x '.join(map(str, self.step))} (z, y, x)"
        return f"{text} of level {self.level} of its pyramid" if self.level else text


def thinned(volume: Volume, most: int = 256, most_bytes: int = 2 << 30) -> Thinned | None:
    """Read a stored volume thinned; None if that would take more than so many bytes of chunks."""
    if volume.space.times:
        volume = at_points(volume, 0)
    if len(volume.nodes) > MAX_CHANNELS:
        volume = volume.sel(c=list(range(MAX_CHANNELS)))
    sources = [n.source for n in volume.nodes if isinstance(n, SourceNode)]
    if len(sources) < len(volume.nodes) or 0 in volume.grid_shape:
        return None
    of = [[source, *coarser(source)] for source in sources]
    level = fitting(of[0], most) if len({len(levels) for levels in of}) == 1 else 0
    taken = [levels[level] for levels in of]
    step = _step(taken[0], most, most_bytes // len(taken))
    if step is None:
        return None
    index = tuple(
        slice(min(s // 2, n - 1), None, s) for s, n in zip(step, taken[0].shape, strict=True)
    )
    voxels = np.stack([_read(source, index) for source in taken])
    return Thinned(volume, voxels, step, level)


def _read(source: Source, index: tuple[slice, ...]) -> np.ndarray:
    if source.array is not None:
        return np.asarray(source.array[index])
    return np.asarray(source.open()[index].read().result())


def _step(source: Source, most: int, most_bytes: int) -> Triple | None:
    """How a volume is thinned along z, y and x; None if it cannot be thinned enough."""
    step = [max(1, -(-n // most)) for n in source.shape]

    def touched(a: int) -> int:
        n = source.shape[a]
        return min(source.units_touched(a, (0, n)), -(-n // step[a]))

    each = math.prod(source.read_unit) * source.dtype.itemsize * source.channels_per_chunk
    while touched(0) * touched(1) * touched(2) * each > most_bytes:
        a = max(range(3), key=lambda k: (touched(k), -step[k]))
        if source.shape[a] // (2 * step[a]) < FEWEST:
            return None
        step[a] *= 2
    return (step[0], step[1], step[2])
