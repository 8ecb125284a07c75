"""Scans over slabs in one process: summaries of slabs, and the values carried into each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from beam_volumes.across import scans


def carries(
    summaries: Sequence[Any], combine: scans.Combine, backward: bool = False, radix: int = 16
) -> list[Any]:
    """What is carried into each slab; None where nothing is (the first, or backward the last).

    ``combine(a, b)`` gets neighbours in the order of the scan: backward, ``a`` is the upper one.

    >>> carries(["a", "b", "c", "d"], lambda a, b: a + b, radix=2)
    [None, 'a', 'ab', 'abc']
    >>> carries(["a", "b", "c", "d"], lambda a, b: a + b, backward=True)
    ['dcb', 'dc', 'd', None]
    """
    levels = [list(summaries)[:: -1 if backward else 1]]
    while len(levels[-1]) > radix:
        below = levels[-1]
        levels.append(
            [scans.up(below[i : i + radix], combine) for i in range(0, len(below), radix)]
        )
    into: list[Any] = [None]
    for members in reversed(levels):
        into = [
            carry
            for i, above in enumerate(into)
            for carry in scans.down(above, members[i * radix : (i + 1) * radix], combine)
        ]
    return into[:: -1 if backward else 1]


def distance_summary(mask: np.ndarray, backward: bool = False) -> scans.Distance:
    """The `Distance` of some slices of a mask (not 0 is foreground)."""
    background = mask[::-1] == 0 if not backward else mask == 0
    first = background.argmax(axis=0).astype(np.int32)
    return scans.Distance(len(mask), np.where(background.any(axis=0), first, scans.FAR))


def cumsum_summary(voxels: np.ndarray) -> np.ndarray:
    """The sum of each column."""
    return voxels.sum(axis=0, dtype=scans.cumsum_dtype(voxels.dtype))


def cumsum_slices(voxels: np.ndarray, carry: np.ndarray | None) -> np.ndarray:
    """The running sums of some slices, from the values carried into them."""
    result = voxels.astype(scans.cumsum_dtype(voxels.dtype))
    if carry is not None:
        result[0] += carry
    return np.cumsum(result, axis=0, out=result)
