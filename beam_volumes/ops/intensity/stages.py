"""The stage of piecewise linear curves, and curves from lazy numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.graph.nodes import ConstantValue, Formula, FormulaValue, Value
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.kernels.intensity import curve
from beam_volumes.ops.measure.threshold_formulas import bin_centers, bin_edges, counts_every_value
from beam_volumes.ops.parameters.building import stage_in
from beam_volumes.sweep.stage import Block, KernelStage

#: float64 has all integers up to this one.
_EXACT = 1 << 53
#: The smallest ratio of a range to the distance of its float64 numbers: results are then exact to 2**-32.
_STEPS = 1 << 32


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
        low, high = arguments[:2]
        spacing = np.spacing(max(abs(x0), abs(x1)))
        is_rounded = all(isinstance(n, int | np.integer) for n in (low, high)) and spacing > 1
        if is_rounded and low != high and x1 - x0 < spacing * _STEPS:
            raise ValueError(
                f"{self.name}: the numbers from {low} to {high} are too close to each other for float64, "
                "which rounds them; subtract their minimum before"
            )
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
            centers = bin_centers(low, high, len(counts), self.source)
        return np.stack([centers.astype(np.float64), np.cumsum(counts) / total])


@dataclass(frozen=True, eq=False)
class Matching(Formula):
    """A curve to the values of a reference with the same cumulative share of voxels."""

    # Its operands are, for each volume, the counts of every value, or the distinct values with their counts,
    # the counts of bins, and the extremes.

    source: np.dtype
    reference: np.dtype

    def evaluate(self, *arguments: Any) -> Any:
        own = 1 if counts_every_value(self.source) else 4
        lowest, highest, counts = self._classes(self.source, arguments[:own])
        low, high, there = self._classes(self.reference, arguments[own:])
        found = there > 0
        values = low[found] + (high[found] / 2 - low[found] / 2)  # of any size
        shares = np.cumsum(there[found]) / there.sum()
        wanted = np.cumsum(counts) / counts.sum()
        with np.errstate(all="ignore"):
            matched = np.interp(wanted, shares, values)
        steep = ~np.isfinite(matched)  # a slope beyond float64
        matched[steep] = np.ldexp(np.interp(wanted[steep], shares, np.ldexp(values, -64)), 64)
        if np.array_equal(lowest, highest):
            return np.stack([lowest, matched])
        # All voxels of a bin get one value, like the equal voxels of scikit-image.
        return np.stack([np.ravel([lowest, highest], "F"), np.repeat(matched, 2)])

    @staticmethod
    def _classes(source: np.dtype, arguments: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """The lowest and highest value of voxels that are treated alike, and their number, as float64."""
        if len(arguments) == 1:
            counts = arguments[0]
            first = 0 if source.kind == "b" else int(np.iinfo(source).min)
            values = np.arange(first, first + len(counts), dtype=np.float64)
            return values, values, counts
        (values, numbers), counts, low, high = arguments
        if numbers.any():
            values, numbers = values[numbers > 0], numbers[numbers > 0]
            return values, values, numbers
        edges = bin_edges(low, high, len(counts), source).astype(np.float64)
        below = np.nextafter(edges[1:-1], -np.inf)
        return edges[:-1], np.maximum(np.append(below, edges[-1]), edges[:-1]), counts


@dataclass(frozen=True, eq=False)
class WideEnough(Formula):
    """The upper end of a range of floats, increased if there are too few numbers for so many bins."""

    bins: int

    def evaluate(self, *arguments: Any) -> Any:
        low, high = arguments
        with np.errstate(over="ignore"):
            spacing = np.spacing(max(abs(low), abs(high)))
            wide = low + 2 * self.bins * spacing
        return max(high, wide) if np.isfinite(wide) else high


@dataclass(frozen=True, eq=False)
class ExactInFloat64(Formula):
    """The upper end of a range of integers, refused where float64 has not all of them."""

    def evaluate(self, *arguments: Any) -> Any:
        low, high = arguments
        if int(low) < -_EXACT or int(high) > _EXACT:
            remedy = "subtract their minimum, or " if int(high) - int(low) <= _EXACT else ""
            raise ValueError(
                f"{self.name}: integers from {low} to {high} are beyond 2**53, where float64 rounds them; "
                f'{remedy}round them with astype("float64")'
            )
        return high


def ends(name: str, x0: Value, x1: Value, y0: Value, y1: Value) -> FormulaValue:
    return FormulaValue.of(Ends(name), (x0, x1, y0, y1), np.dtype(np.float64), (2, 2))


def cumulative_share(name: str, source: np.dtype, bins: int, *values: Value) -> FormulaValue:
    formula = CumulativeShare(name, source)
    return FormulaValue.of(formula, values, np.dtype(np.float64), (2, bins))
