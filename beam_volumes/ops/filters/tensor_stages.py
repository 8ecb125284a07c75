"""Stages on the elements of a symmetric matrix at every voxel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.kernels.filters import eigen
from beam_volumes.kernels.filters.gradient import second_difference
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.filters.stages import Neighbourhood
from beam_volumes.sweep.stage import Block, KernelStage, Padding


@dataclass(frozen=True, eq=False)
class Symmetric(KernelStage):
    """A function of a symmetric matrix; inputs are its diagonal, then the upper triangle row by row."""

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        needed = getattr(self.kernel, "scratch", None)
        return needed(rows, cols, depth, self.dtype) if needed else ()

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        if len(inputs) == 3:  # 2 x 2 matrices, as elements of 3 x 3
            a, b, c = inputs
            inputs = (a, b, b, c, c, c)
        return inputs, out, y0, y1, out.cols, *self.parameters(values)

    def parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """The kernel's arguments after those in `beam_volumes.kernels.rows`."""
        return ()


@dataclass(frozen=True, eq=False)
class Eigenvalue(Symmetric):
    """One eigenvalue; number 0 is the largest."""

    number: int
    ndim: int

    kernel = staticmethod(eigen.eigenvalue)

    @property
    def cost(self) -> float:
        return 60.0 if self.ndim == 3 else 4.0

    def parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return self.ndim, self.number


@dataclass(frozen=True, eq=False)
class Spread(Symmetric):
    """The common intermediate result of all eigenvalues of 3 x 3 float32 matrices."""

    cost = 12.0
    kernel = staticmethod(eigen.spread)


@dataclass(frozen=True, eq=False)
class EigenvalueOfSpread(Symmetric):
    """One eigenvalue from the spread and the diagonal."""

    number: int

    cost = 2.0
    kernel = staticmethod(eigen.eigenvalue_of_spread)

    def parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.number,)


@dataclass(frozen=True, eq=False)
class Ridge(Symmetric):
    """A measure of ridges from a Hessian matrix; gamma may be a lazy value."""

    ndim: int
    alpha: float
    beta: float
    gamma: float | None
    power: float
    sign: float

    kernel = staticmethod(eigen.ridge)

    @property
    def cost(self) -> float:
        return 90.0 if self.dtype.itemsize == 8 else 40.0

    def parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        gamma = float(values[0]) if self.gamma is None else self.gamma
        return self.ndim, self.alpha, self.beta, gamma, self.power, self.sign


@dataclass(frozen=True, eq=False)
class SecondDifference(Neighbourhood):
    """The differences along two axes of a volume of some shape, like `numpy.gradient` twice."""

    axes: tuple[int, int]
    shape: Triple

    shift_invariant = False
    cost = 1.0
    kernel = staticmethod(second_difference)

    @classmethod
    def of(
        cls, name: str, dtype: np.dtype, axes: tuple[int, int], shape: Triple
    ) -> SecondDifference:
        z, y, x = (axes.count(a) for a in range(3))
        extent = (2 * z + 1, 2 * y + 1, 2 * x + 1)
        return cls(name, dtype, (z, y, x), extent, Padding(("nearest",) * 3), axes, shape)

    def parameters(self) -> tuple[Any, ...]:
        return *self.axes, self.before, self.shape

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        where = self.before, out.start, self.shape
        return inputs[0], out, y0, y1, out.cols, *self.axes, *where
