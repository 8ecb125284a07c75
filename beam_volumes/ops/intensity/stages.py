"""The stage of piecewise linear curves, and curves from lazy numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import ConstantValue, Formula, FormulaValue, Value
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.kernels.intensity import curve
from beam_volumes.ops.measure.threshold_formulas import bin_edges
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.sweep.stage import Block, KernelStage


@dataclass(frozen=True, eq=False)
class Curve(KernelStage):
    """A piecewise linear function; its points are an array of two rows, xs and ys, which may be lazy."""

    cost = 5.0
    kernel = staticmethod(curve.along_curve)

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return 16 << 16  # the points; curves of 16 bits have one for each value

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        xs, ys = np.ascontiguousarray(values[0], dtype=np.float64)
        whole = inputs[0].ring.dtype.kind in "bui"
        table = whole and xs[0] == np.floor(xs[0]) and xs[-1] - xs[0] == len(xs) - 1
        return inputs[0], out, y0, y1, out.cols, xs, ys, table


def on_curve(volume: Volume, name: str, points: Value | np.ndarray, dtype: np.dtype) -> Volume:
    """Apply a curve, with points that may be lazy, to a volume."""
    value = points if isinstance(points, Value) else ConstantValue.of(points)
    return stage_in(dtype, volume, Curve(name, kernel_dtype(dtype)), value)


@dataclass(frozen=True, eq=False)
class Ends(Formula):
    """The line between two points (x0, x1, y0, y1); constant if both x are equal."""

    def evaluate(self, *arguments: Any) -> Any:
        x0, x1, y0, y1 = map(float, arguments)
        if x0 == x1:
            y0 = y1 = min(max(x0, y0), y1)
        elif not x0 < x1:
            raise ValueError(f"{self.name}: the range from {x0:g} to {x1:g} is empty")
        return np.array([[x0, x1], [y0, y1]])


@dataclass(frozen=True, eq=False)
class CumulativeShare(Formula):
    """The fraction of voxels up to each value (from counts), or up to each bin's centre (and extremes)."""

    source: np.dtype

    def evaluate(self, *arguments: Any) -> Any:
        counts = arguments[0]
        total = counts.sum()
        if not total:
            raise ValueError(
                f"{self.name} of no voxels: the mask selects none, or all are left out"
            )
        if len(arguments) == 1:
            first = 0 if self.source.kind == "b" else int(np.iinfo(self.source).min)
            centers = np.arange(first, first + len(counts))
        else:
            _, low, high = arguments
            edges = bin_edges(low, high, len(counts), self.source)
            centers = (edges[:-1] + edges[1:]) / 2.0
        return np.stack([centers.astype(np.float64), np.cumsum(counts) / total])


@dataclass(frozen=True, eq=False)
class Matching(Formula):
    """A curve to the values of a reference with the same `CumulativeShare`."""

    def evaluate(self, *arguments: Any) -> Any:
        (values, shares), (wanted, shares_there) = arguments
        found = np.diff(shares_there, prepend=0.0) > 0
        return np.stack([values, np.interp(shares, shares_there[found], wanted[found])])


def ends(name: str, x0: Value, x1: Value, y0: Value, y1: Value) -> FormulaValue:
    return FormulaValue.of(Ends(name), (x0, x1, y0, y1), np.dtype(np.float64), (2, 2))


def cumulative_share(name: str, source: np.dtype, bins: int, *values: Value) -> FormulaValue:
    formula = CumulativeShare(name, source)
    return FormulaValue.of(formula, values, np.dtype(np.float64), (2, bins))
