"""A filter as one adds it: this one file, and its name in ``beam_volumes/base/public_names.py``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.jit import kernel
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.parameters.neighbourhood import Footprint


@kernel
def spread(src, out, y0, y1, nx, offsets):
    """Subtract the smallest voxel under a footprint from the largest; see `beam_volumes.kernels.rows`."""
    for k in range(out.firsts.size):
        for y in range(y0, y1):
            for x in range(nx):
                dz, dy, dx = offsets[0]
                low = high = src.lines[src.firsts[k + dz] + y + dy, src.left + x + dx]
                for i in range(1, len(offsets)):
                    dz, dy, dx = offsets[i]
                    voxel = src.lines[src.firsts[k + dz] + y + dy, src.left + x + dx]
                    low, high = min(low, voxel), max(high, voxel)
                out.lines[out.firsts[k] + y, out.left + x] = high - low


@dataclass(frozen=True, eq=False)
class Spread(Neighbourhood):
    """The largest less the smallest voxel under a footprint."""

    offsets: np.ndarray

    kernel = staticmethod(spread)

    @property
    def cost(self) -> float:
        return 1.0 * len(self.offsets)

    def parameters(self) -> tuple[Any, ...]:
        return (self.offsets,)


@documented
def spread_filter(
    volume: Volume,
    size: int | Sequence[int] | None = None,
    footprint: Any = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Subtract the smallest voxel under a box or footprint from the largest.

    Parameters
    ----------
    %(volume)s
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s

    Returns
    -------
    %(same_dtype)s

    Raises
    ------
    %(rank_errors)s

    See Also
    --------
    morphological_gradient : the same, with a structuring element that may have heights.

    Notes
    -----
    %(halo)s

    References
    ----------
    `scipy.ndimage.morphological_gradient`.

    Examples
    --------
    >>> np.asarray(spread_filter(bv.open(np.array([[5, 1, 4, 9, 8]])), (1, 3)))
    array([[4, 4, 8, 5, 1]])
    """
    volume = as_volume(volume)
    around = Footprint.of(volume, "spread_filter", size, footprint, origin, axes, mode, cval)
    return stage_in(volume.dtype, volume, Spread(*around.fields(volume.dtype), around.offsets))
