"""Whether a second sweep sees the voxels of the first: digests of windows, taken strip by strip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from beam_volumes.kernels.measure.digests import digest
from beam_volumes.sweep.resources import in_strips


def digested(
    voxels: np.ndarray, threads: int, strip: Callable[[int, int], object], share: int = 1
) -> int:
    """Do work on strips of a window's rows; the digest of its voxels, which each is taken into before.

    ``share`` voxels are as much work as one is, mostly.
    """

    def both(y0: int, y1: int) -> int:
        found = digest(voxels, y0, y1)
        strip(y0, y1)
        return found

    return sum(in_strips(voxels.shape[1], voxels.size // share, threads, both)) % 2**64


def check_same(found: int, first: int) -> None:
    """Raise an error if a window's digest is not that of the first sweep."""
    if found != first:
        raise ValueError(
            "its voxels differ from those of the first sweep: the input has changed, or an operation "
            "before gives other voxels when run again; materialise it (deterministic=False)"
        )
