"""Stages on the elements of a symmetric matrix at every voxel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.kernels import eigen
from beam_volumes.sweep.stage import Block, Stage


@dataclass(frozen=True, eq=False)
class Symmetric(Stage):
    """Something made of a matrix; inputs are its diagonal and then what is above it, row by row."""

    @property
    def compiled(self) -> bool:
        return True

    @property
    def cost(self) -> float:
        return 60.0 if self.dtype.itemsize == 8 else 12.0

    def scratch(self, rows: int, cols: int, depth: int) -> int:
        return 6 * 8 * eigen.CHUNK

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            self.rows([i.slice(k, y0, y1) for i in inputs], values, out.slice(k, y0, y1))

    def rows(self, elements: list[np.ndarray], values: tuple[Any, ...], out: np.ndarray) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Eigenvalue(Symmetric):
    """One eigenvalue; number 0 is the greatest."""

    number: int

    def rows(self, elements: list[np.ndarray], values: tuple[Any, ...], out: np.ndarray) -> None:
        rows = eigen.eigenvalue_rows if len(elements) == 6 else eigen.eigenvalue_rows_2d
        rows(*elements, self.number, out)


@dataclass(frozen=True, eq=False)
class Ridge(Symmetric):
    """A measure of ridges from a Hessian matrix; gamma may be a lazy value."""

    alpha: float
    beta: float
    gamma: float | None
    power: float
    sign: float

    @property
    def cost(self) -> float:
        return 90.0 if self.dtype.itemsize == 8 else 40.0

    def rows(self, elements: list[np.ndarray], values: tuple[Any, ...], out: np.ndarray) -> None:
        gamma = float(values[0]) if self.gamma is None else self.gamma
        if len(elements) == 6:
            eigen.ridge_rows(*elements, self.alpha, self.beta, gamma, self.power, self.sign, out)
        else:
            eigen.ridge_rows_2d(*elements, self.beta, gamma, self.power, self.sign, out)
