"""The grid of patches over a volume: input and output ranges of each patch.

The grid starts at the volume's origin and never moves, so patches do not depend on slabs, tiles or windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from beam_volumes.base.geometry import Triple, pad_index, source_range
from beam_volumes.kernels.elementary.exp_log import exp_value, few
from beam_volumes.sweep.stage import Block, digest

Range = tuple[int, int]


@dataclass(frozen=True)
class Patches:
    """Patches along z, y and x: patch ``k`` computes ``made`` voxels of the result from ``k * step``."""

    of: Triple  #: Shape of the volume.
    patch: Triple  #: Input extent of the network.
    scale: Triple  #: Voxels of the volume per voxel of the result.
    before: Triple  #: Voxels of a patch before the first one with a used result.
    made: Triple  #: Voxels of the result that a patch contributes.
    #: Voxels of the result between the starts of two patches: less than ``made`` if they overlap.
    step: Triple
    skipped: Triple  #: Voxels of the network's output before the first used one.
    edges: tuple[str, str, str]  #: How to extend the volume beyond its edges.
    cval: float = 0.0  #: The constant beyond the edges.
    #: Whether results of several patches are added; else each voxel comes from one patch.
    blended: bool = False

    def token(self) -> str:
        return digest("patches", repr(self))

    @cached_property
    def grid(self) -> Triple:
        """Shape of the result: one voxel for each started ``scale`` of the volume."""
        z, y, x = (-(-n // s) for n, s in zip(self.of, self.scale, strict=True))
        return (z, y, x)

    @cached_property
    def counts(self) -> Triple:
        z, y, x = (
            max(1, -(-(n - made) // step) + 1)
            for n, made, step in zip(self.grid, self.made, self.step, strict=True)
        )
        return (z, y, x)

    def over(self, axis: int, wanted: Range) -> range:
        """The patches along an axis with results in a range."""
        made, step = self.made[axis], self.step[axis]
        first = max(0, (wanted[0] - made) // step + 1)
        return range(first, min(self.counts[axis], (wanted[1] - 1) // step + 1))

    def makes(self, axis: int, k: int) -> Range:
        """The range of patch ``k`` in the result along an axis, clipped to the volume."""
        start = k * self.step[axis]
        return start, min(start + self.made[axis], self.grid[axis])

    def taken(self, axis: int, k: int) -> np.ndarray:
        """The input voxels of patch ``k`` along an axis, or -1 for the constant."""
        first = k * self.step[axis] * self.scale[axis] - self.before[axis]
        n = self.of[axis]
        stop = first + self.patch[axis]
        known = min(stop, max(n, self._end(axis)))
        index = pad_index(first, known, n, self.edges[axis])
        # Voxels that no result depends on repeat the edge, so no more are read for them.
        return np.pad(index, (0, stop - known), mode="edge")

    def needs(self, axis: int, wanted: Range) -> Range:
        """The range of the volume's axis for a range of the result."""
        over = self.over(axis, wanted)
        scale, step = self.scale[axis], self.step[axis]
        start = over[0] * step * scale - self.before[axis]
        stop = over[-1] * step * scale - self.before[axis] + self.patch[axis]
        stop = max(start + 1, min(stop, max(self._end(axis), self.of[axis])))
        n = self.of[axis]
        inside = min(max(start, 0), n - 1), min(max(stop, 1), n)
        halo = max(0, inside[0] - start), max(0, stop - inside[1])
        return source_range(*inside, halo, n, self.edges[axis])

    def _end(self, axis: int) -> int:
        """The end of voxels that matter beyond the volume: all voxels of patches that are blended."""
        if self.blended:
            last = (self.counts[axis] - 1) * self.step[axis] * self.scale[axis]
            return last - self.before[axis] + self.patch[axis]
        after = self.patch[axis] - self.before[axis] - self.made[axis] * self.scale[axis]
        return self.grid[axis] * self.scale[axis] + after

    def within(self, start: Triple, stop: Triple) -> Iterator[Triple]:
        """The patches with results in a box, in raster order."""
        z, y, x = (self.over(a, (start[a], stop[a])) for a in range(3))
        return ((i, j, k) for i in z for j in y for k in x)

    def gather(self, block: Block, cell: Triple, to: np.ndarray) -> None:
        """Copy the input of a patch from a block that contains it."""
        z, y, x = (_relative(self.taken(a, cell[a]), block.start[a]) for a in range(3))
        rows, cols = _run(y), _run(x)
        for k, at in enumerate(z):
            if at < 0:
                to[k] = self.cval
                continue
            plane = block.slice(int(at))
            to[k] = plane[rows][:, cols]
            to[k][y < 0] = self.cval
            to[k][:, x < 0] = self.cval


def _relative(index: np.ndarray, first: int) -> np.ndarray:
    return np.where(index >= 0, index - first, -1)


def _run(index: np.ndarray) -> slice | np.ndarray:
    """Positions as a slice if they are contiguous."""
    first = int(index[0])
    if first >= 0 and np.array_equal(index, np.arange(first, first + len(index))):
        return slice(first, first + len(index))
    return np.maximum(index, 0)


#: Weights for the voxels of a patch.
BLENDS = ("bump", "gaussian", "linear", "none")


def profile(blend: str, n: int) -> np.ndarray:
    """The weights of ``n`` voxels along an axis, before normalization.

    >>> profile("linear", 5).tolist()
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """
    # ``"bump"`` is chunkflow's ``exp(-1 / (t (1 - t)))``, ``"gaussian"`` nnU-Net's with a standard deviation
    # of an eighth of the patch, ``"linear"`` rises from each end to the middle, and ``"none"`` is constant.
    i = np.arange(n, dtype=np.float64)
    if blend == "bump":
        t = (i + 1) / (n + 1)
        return np.array(few(exp_value, [4 - 1 / (a * (1 - a)) for a in t.tolist()]))
    if blend == "gaussian":
        u = (i - (n - 1) / 2) / (n / 8)
        return np.array(few(exp_value, [-0.5 * a * a for a in u.tolist()]))
    if blend == "linear":
        return np.minimum(i + 1, n - i)
    return np.ones(n)


@lru_cache(1024)
def weights(blend: str, n: int, step: int, k: int, count: int) -> np.ndarray:
    """The weights of patch ``k`` of ``count``; weights of all patches add up to 1 for each voxel.

    >>> weights("linear", 4, 2, 0, 2).tolist(), weights("linear", 4, 2, 1, 2).tolist()
    ([1.0, 1.0, 0.6666666666666666, 0.3333333333333333], [0.3333333333333333, 0.6666666666666666, 1.0, 1.0])
    """
    own = profile(blend, n)
    total = np.zeros(n)
    reach = (n - 1) // step
    for other in range(max(0, k - reach), min(count, k + reach + 1)):
        shift = (other - k) * step
        a, b = max(0, shift), min(n, n + shift)
        total[a:b] += own[a - shift : b - shift]
    result = own / total
    result.flags.writeable = False
    return result
