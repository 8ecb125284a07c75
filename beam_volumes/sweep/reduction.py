"""What the sweep knows of a whole-volume reduction: a mergeable state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.sweep.stage import PlainData


@dataclass(frozen=True, eq=False)
class Reduction(PlainData):
    """Folds all voxels into a small state that merges exactly, in any order and grouping.

    A subclass is a frozen dataclass of plain data beside the functions below. The state is a small
    picklable object; ``merge`` must be associative and commutative to the bit.
    """

    name: str  #: What messages and plans call it, e.g. ``"min"``.
    dtype: np.dtype  #: Of the result.
    shape: tuple[int, ...]  #: Of the result; ``()`` for a scalar.

    @property
    def cost(self) -> float:
        """Rough nanoseconds per voxel on one core."""
        return 1.0

    @property
    def state_bytes(self) -> int:
        """Rough size of a state."""
        return 64

    def peak_bytes(self, threads: int) -> int:
        """The most bytes that states of a slab take together, folded in strips by so many threads."""
        return (threads + 2) * 2 * self.state_bytes

    def zero(self) -> Any:
        """The state of no voxels."""
        raise NotImplementedError

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        """The state of a 2-D view of voxels (those where the bool ``mask`` is true, if given).

        ``values`` are the evaluated lazy scalars the reduction was built with.
        """
        raise NotImplementedError

    def fold_at(
        self,
        voxels: np.ndarray,
        mask: np.ndarray | None,
        values: tuple[Any, ...],
        others: tuple[np.ndarray, ...],
        start: Triple,
    ) -> Any:
        """`fold` for a reduction of several volumes, or one that depends on where voxels lie.

        ``others`` are the same view of the further volumes, and ``start`` is the z, y, x of the
        view's first voxel in the volume that is reduced (of a crop: in the crop).
        """
        return self.fold(voxels, mask, values)

    def fold_slices(
        self,
        voxels: Sequence[np.ndarray],
        mask: Sequence[np.ndarray] | None,
        values: tuple[Any, ...],
        others: tuple[Sequence[np.ndarray], ...],
        start: Triple,
    ) -> Any:
        """The state of consecutive slices, the first at ``start``: `fold_at` of each, merged.

        What the sweep calls. A reduction with a large state does better to fill one for them all.
        """
        z, y, x = start
        state = self.zero()
        for k, view in enumerate(voxels):
            where = None if mask is None else mask[k]
            there = tuple(other[k] for other in others)
            state = self.merge(state, self.fold_at(view, where, values, there, (z + k, y, x)))
        return state

    def pieces(self, state: Any) -> Iterable[tuple[int, Any]]:
        """A state as numbered pieces of few megabytes each; those of one number `merge`."""
        return [(0, state)]

    def put_together(self, pieces: Mapping[int, Any]) -> Any:
        """The state that `pieces` made pieces of, merged by number."""
        return pieces[0]

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def finish(self, state: Any, values: tuple[Any, ...]) -> Any:
        """The result: a numpy scalar or array of `dtype` and `shape`."""
        raise NotImplementedError
