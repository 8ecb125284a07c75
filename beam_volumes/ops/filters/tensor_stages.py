"""Stages on the elements of a symmetric matrix at every voxel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from beam_volumes.kernels.filters import eigen
from beam_volumes.sweep.stage import Block, Stage


@dataclass(frozen=True, eq=False)
class Symmetric(Stage):
    """A function of a symmetric matrix; inputs are its diagonal, then the upper triangle row by row."""

    compiled = True

    def scratch(self, rows: int, cols: int, depth: int) -> int:
        return 6 * 8 * eigen.CHUNK

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        kernel, parameters = self.kernel(values)
        matrix = tuple(block.as_rows for block in inputs)
        if len(inputs) == 3:  # 2 x 2 matrices, as elements of 3 x 3
            a, b, c = matrix
            matrix = (a, b, b, c, c, c)
        kernel(matrix, out.as_rows, y0, y1, out.cols, *parameters)

    def kernel(self, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """A kernel of `beam_volumes.kernels.filters.eigen`, and its parameters."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Eigenvalue(Symmetric):
    """One eigenvalue; number 0 is the largest."""

    number: int
    ndim: int

    @property
    def cost(self) -> float:
        return 60.0 if self.ndim == 3 else 4.0

    def kernel(self, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return eigen.eigenvalue, (self.ndim, self.number)


@dataclass(frozen=True, eq=False)
class Spread(Symmetric):
    """The common intermediate result of all eigenvalues of 3 x 3 float32 matrices."""

    cost = 12.0

    def kernel(self, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return eigen.spread, ()


@dataclass(frozen=True, eq=False)
class EigenvalueOfSpread(Symmetric):
    """One eigenvalue from the spread and the diagonal."""

    number: int

    cost = 2.0

    def kernel(self, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return eigen.eigenvalue_of_spread, (self.number,)


@dataclass(frozen=True, eq=False)
class Ridge(Symmetric):
    """A measure of ridges from a Hessian matrix; gamma may be a lazy value."""

    ndim: int
    alpha: float
    beta: float
    gamma: float | None
    power: float
    sign: float

    @property
    def cost(self) -> float:
        return 90.0 if self.dtype.itemsize == 8 else 40.0

    def kernel(self, values: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        gamma = float(values[0]) if self.gamma is None else self.gamma
        return eigen.ridge, (self.ndim, self.alpha, self.beta, gamma, self.power, self.sign)
