"""A subsampled copy of a stored volume in memory, read once for slices and histograms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.indexing import at_points
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.show.sampling import (
    Section,
    TooExpensive,
    along,
    coarser,
    fitting,
    read_at,
    steps_of,
)

#: Maximal number of channels.
MAX_CHANNELS = 4


@dataclass(frozen=True, eq=False)
class Subsampled:
    """A volume at low resolution."""

    of: Volume  #: The volume, at its first time point, with the channels that were read
    voxels: np.ndarray  #: Channels, then z, y, x
    step: Triple  #: Steps between the voxels that were read
    level: int  #: The level of the pyramid; 0 is the finest

    def section(self, axis: int, k: int) -> Section:
        """Return slice ``k`` along an axis."""
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
        """A description of the resolution."""
        if set(self.step) == {1}:
            text = "every voxel"
        else:
            text = f"one voxel in {' x '.join(map(str, self.step))} (z, y, x)"
        return f"{text} of level {self.level} of its pyramid" if self.level else text


def subsampled(volume: Volume, max_size: int = 256, max_bytes: int = 2 << 30) -> Subsampled | None:
    """Read a stored volume subsampled; None if that needs more than ``max_bytes`` of chunks."""
    if volume.space.times:
        volume = at_points(volume, 0)
    if len(volume.nodes) > MAX_CHANNELS:
        volume = volume.sel(c=list(range(MAX_CHANNELS)))
    sources = [n.source for n in volume.nodes if isinstance(n, SourceNode)]
    if len(sources) < len(volume.nodes) or 0 in volume.grid_shape:
        return None
    of = [[source, *coarser(source)] for source in sources]
    level = fitting(of[0], max_size) if len({len(levels) for levels in of}) == 1 else 0
    taken = [levels[level] for levels in of]
    try:
        z, y, x = steps_of(taken[0], (0, 1, 2), max_size, max_bytes // len(taken))
    except TooExpensive:
        return None
    index = tuple(
        slice(min(s // 2, n - 1), None, s) for s, n in zip((z, y, x), taken[0].shape, strict=True)
    )
    voxels = np.stack([read_at(source, index) for source in taken])
    return Subsampled(volume, voxels, (z, y, x), level)
