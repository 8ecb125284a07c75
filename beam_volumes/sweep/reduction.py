"""The interface of reductions over the whole volume: a mergeable state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.kernels.cuda import TWINS
from beam_volumes.sweep.stage import PlainData


class View(NamedTuple):
    """A part of one slice, to be folded."""

    voxels: np.ndarray
    mask: np.ndarray | None  #: Bool; only voxels where it is true are folded.
    others: tuple[np.ndarray, ...]  #: The same part of the further volumes.
    #: The z, y, x of its first voxel in the reduced volume (for a crop: in the crop).
    start: Triple


class Slices(NamedTuple):
    """The same part of consecutive slices, as in `View`; the first begins at ``start``."""

    voxels: Sequence[np.ndarray]
    mask: Sequence[np.ndarray] | None = None
    others: tuple[Sequence[np.ndarray], ...] = ()
    start: Triple = (0, 0, 0)

    def views(self) -> Iterator[View]:
        z, y, x = self.start
        for k, voxels in enumerate(self.voxels):
            mask = None if self.mask is None else self.mask[k]
            yield View(voxels, mask, tuple(other[k] for other in self.others), (z + k, y, x))


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
        # Each thread merges two states to a third one; then theirs are merged one by one.
        return (threads + 1) * 3 * self.state_bytes

    def with_room(self, spare_bytes: int) -> Reduction:
        """The same reduction, with states that may have more bytes if voxels need them."""
        return self

    def zero(self) -> Any:
        """The state without voxels."""
        raise NotImplementedError

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        """The state of a 2-D view of voxels (only where the bool ``mask`` is true, if given).

        ``values`` are the evaluated lazy scalars of the reduction.
        """
        raise NotImplementedError

    def fold_view(self, view: View, values: tuple[Any, ...]) -> Any:
        """`fold` for a reduction of several volumes, or one that depends on positions."""
        return self.fold(view.voxels, view.mask, values)

    @property
    def joins_slices(self) -> bool:
        """Whether consecutive slices may come as one slice with all their rows: fewer calls.

        By default, this is so if the reduction gets no positions.
        """
        kind = type(self)
        overridden = kind.fold_view, kind.fold_slices
        return overridden == (Reduction.fold_view, Reduction.fold_slices)

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Any:
        """The state of consecutive slices: merges `fold_view` of each.

        The sweep calls this. Reductions with a large state should fill one for all slices.
        """
        state = self.zero()
        for view in slices.views():
            state = self.merge(state, self.fold_view(view, values))
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
