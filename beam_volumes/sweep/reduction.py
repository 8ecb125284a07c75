"""The interface of reductions over the whole volume: a mergeable state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.kernels.cuda import TWINS
from beam_volumes.sweep.stage import PlainData


@dataclass(frozen=True, eq=False)
class Reduction(PlainData):
    """Folds all voxels into a small state that merges exactly, in any order and grouping.

    Subclasses are frozen dataclasses of plain data with the methods below. The state is a small
    picklable object; ``merge`` must be associative and commutative to the bit.
    """

    name: str  #: Name in messages and plans, e.g. ``"min"``.
    dtype: np.dtype  #: Dtype of the result.
    shape: tuple[int, ...]  #: Shape of the result; ``()`` for a scalar.

    @property
    def cost(self) -> float:
        """Approximate nanoseconds per voxel on one core."""
        return 1.0

    @property
    def state_bytes(self) -> int:
        """Approximate size of a state."""
        return 64

    def peak_bytes(self, threads: int) -> int:
        """Maximum bytes of the states of a slab, folded in strips by ``threads`` threads."""
        return (threads + 2) * 2 * self.state_bytes

    def zero(self) -> Any:
        """The state without voxels."""
        raise NotImplementedError

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        """The state of a 2-D view of voxels (only where the bool ``mask`` is true, if given).

        ``values`` are the evaluated lazy scalars of the reduction.
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
        """`fold` for a reduction of several volumes, or one that depends on positions.

        ``others`` are the same view of the further volumes. ``start`` is the z, y, x of the view's
        first voxel in the reduced volume (for a crop: in the crop).
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
        """The state of consecutive slices, the first at ``start``: merges `fold_at` of each.

        The sweep calls this. Reductions with a large state should fill one for all slices.
        """
        z, y, x = start
        state = self.zero()
        for k, view in enumerate(voxels):
            where = None if mask is None else mask[k]
            there = tuple(other[k] for other in others)
            state = self.merge(state, self.fold_at(view, where, values, there, (z + k, y, x)))
        return state

    def pieces(self, state: Any) -> Iterable[tuple[int, Any]]:
        """Split a state into numbered pieces of a few megabytes; equal numbers `merge`."""
        return [(0, state)]

    def put_together(self, pieces: Mapping[int, Any]) -> Any:
        """Join the merged pieces of `pieces`, by number."""
        return pieces[0]

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    @property
    def kernel_name(self) -> str:
        """Path and name of the kernel in `beam_volumes.kernels.cuda.measure` for states on a device.

        Empty if it has no device code.
        """
        return ""

    @property
    def has_device_code(self) -> bool:
        """Whether a device folds voxels into ``cells``, from which `of_cells` makes a state."""
        return self.kernel_name in TWINS

    @property
    def cells(self) -> int:
        """The number of int64 cells of a state on a device."""
        return 0

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of the kernel after the cells."""
        return ()

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> Any:
        """The state of the cells, which have started as zeros."""
        raise NotImplementedError

    def finish(self, state: Any, values: tuple[Any, ...]) -> Any:
        """The result: a numpy scalar or array of `dtype` and `shape`."""
        raise NotImplementedError
