"""What the sweep knows of a whole-volume reduction: a mergeable state."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from beam_volumes.sweep.stage import digest


@dataclass(frozen=True, eq=False)
class Reduction:
    """Folds all voxels into a small state that merges exactly, in any order and grouping.

    A subclass is a frozen dataclass of plain data beside the functions below. The state is a small
    picklable object; ``merge`` must be associative and commutative to the bit.

    Attributes
    ----------
    name : str
        What messages and plans call it, e.g. ``"min"``.
    dtype : numpy.dtype
        Of the result.
    shape : tuple of int
        Of the result; ``()`` for a scalar.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def cost(self) -> float:
        """Rough nanoseconds per voxel on one core."""
        return 1.0

    @property
    def state_bytes(self) -> int:
        """Rough size of a state."""
        return 64

    def zero(self) -> Any:
        """The state of no voxels."""
        raise NotImplementedError

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        """The state of a 2-D view of voxels (those where the bool ``mask`` is true, if given).

        ``values`` are the evaluated lazy scalars the reduction was built with.
        """
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def finish(self, state: Any, values: tuple[Any, ...]) -> Any:
        """The result: a numpy scalar or array of `dtype` and `shape`."""
        raise NotImplementedError

    def token(self) -> str:
        return digest(type(self).__name__, *(getattr(self, f.name) for f in fields(self)))
