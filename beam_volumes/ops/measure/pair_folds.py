"""Reductions of two volumes, and reductions that depend on positions of voxels, with exact states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from beam_volumes.across.exact import Wide
from beam_volumes.kernels.measure import accumulate, projection
from beam_volumes.kernels.measure.joint import count_pairs
from beam_volumes.ops.measure.folds import Counts, Fold
from beam_volumes.ops.measure.rounding import root, rounded
from beam_volumes.sweep.reduction import Slices, View
from beam_volumes.sweep.stage import digest

Sums = tuple[int, int, int, int, int, int]


@dataclass(frozen=True, eq=False)
class Covariance(Fold):
    """The 2 x 2 covariance matrix of two volumes of promoted dtype ``source``, each number rounded once.

    The state is the number of pairs, and the exact sums of a, b, a a, a b, b b.
    """

    ddof: int

    state_bytes = 4096
    joins_slices = True

    @classmethod
    def of(cls, source: Any, ddof: int = 1, name: str = "covariance") -> Covariance:
        source = cls.check(name, source, "raise")
        return cls(name, np.dtype(np.float64), (2, 2), source, "raise", ddof)

    @property
    def cost(self) -> float:
        return 20.0 if self.source.kind == "f" else 8.0

    def zero(self) -> Sums:
        return 0, 0, 0, 0, 0, 0

    def fold_view(self, view: View, values: tuple[Any, ...]) -> Sums:
        mask = view.mask
        a = view.voxels.astype(self.source, copy=False)
        b = view.others[0].astype(self.source, copy=False)
        n, bad, sum_a, sum_aa = accumulate.moments(a, mask, squares=True)
        _, bad_b, sum_b, sum_bb = accumulate.moments(b, mask, squares=True)
        self.strict(bad + bad_b)
        return int(n), sum_a, sum_b, sum_aa, projection.products(a, b, mask), sum_bb

    def merge(self, a: Sums, b: Sums) -> Sums:
        return tuple(x + y for x, y in zip(a, b, strict=True))  # type: ignore[return-value]

    def central(self, state: Sums) -> tuple[int, int, int]:
        """The moments about the mean, times the squared number of pairs."""
        n, a, b, aa, ab, bb = state
        self.some(n)
        return n * aa - a * a, n * ab - a * b, n * bb - b * b

    def finish(self, state: Sums, values: tuple[Any, ...]) -> np.ndarray:
        n = state[0]
        aa, ab, bb = self.central(state)
        if n <= self.ddof:
            raise ValueError(
                f"{self.name} with ddof={self.ddof} needs more than {self.ddof} voxels, not {n}"
            )
        below = n * (n - self.ddof) << 2 * accumulate.unit(self.source)
        numbers = [rounded(Fraction(m, below), self.dtype) for m in (aa, ab, ab, bb)]
        return np.array(numbers, self.dtype).reshape(2, 2)


@dataclass(frozen=True, eq=False)
class Correlation(Covariance):
    """Pearson's correlation of two volumes, rounded once; NaN if one is constant."""

    @classmethod
    def of(cls, source: Any, ddof: int = 0, name: str = "correlation") -> Correlation:
        source = cls.check(name, source, "raise")
        return cls(name, np.dtype(np.float64), (), source, "raise", ddof)

    def finish(self, state: Sums, values: tuple[Any, ...]) -> Any:
        aa, ab, bb = self.central(state)
        if aa == 0 or bb == 0:
            return np.float64(np.nan)
        size = root(Fraction(ab * ab, aa * bb))
        return rounded(size if ab >= 0 else -size, self.dtype)


@dataclass(frozen=True)
class Bins:
    """Equal bins between two numbers, as in ``numpy.histogram2d``."""

    number: int
    #: Dtype to which numbers are converted, for extremes the promoted dtype of both volumes. numpy's
    #: edges are float32 or float16 between numbers of these dtypes, otherwise float64.
    cast: np.dtype | None = None

    def edges(self, low: Any, high: Any) -> np.ndarray:
        if self.cast is not None:
            low, high = (np.asarray(end).astype(self.cast)[()] for end in (low, high))
        if not np.isfinite(float(high) - float(low)):
            raise ValueError(
                f"joint_histogram: the values from {low} to {high} are too far apart for equal bins; "
                "scale the volume"
            )
        _, (edges,) = np.histogramdd(np.empty((0, 1)), self.number, range=[(low, high)])
        return edges

    def token(self) -> str:
        return digest("bins", self.number, str(self.cast))


@dataclass(frozen=True, eq=False)
class JointHistogram(Counts):
    """Counts of pairs in a grid of equal bins, identical to ``numpy.histogram2d``."""

    #: ``values`` are the lower and upper end of the first volume's range, then of the second's.
    bins: tuple[Bins, Bins]

    cost = 10.0
    joins_slices = True

    @classmethod
    def of(
        cls, source: Any, bins: tuple[Bins, Bins], name: str = "joint_histogram"
    ) -> JointHistogram:
        source = cls.check(name, source, "raise")
        shape = (bins[0].number, bins[1].number)
        return cls(name, np.dtype(np.int64), shape, source, "raise", bins)

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> np.ndarray:
        edges = self.bins[0].edges(*values[:2]), self.bins[1].edges(*values[2:])
        counts, bad = self.zero(), 0
        for view in slices.views():
            bad += count_pairs(view.voxels, view.others[0], edges, counts, view.mask)
        self.strict(bad)
        return counts

    def finish(self, state: np.ndarray, values: tuple[Any, ...]) -> np.ndarray:
        return state


@dataclass(frozen=True, eq=False)
class CenterOfMass(Fold):
    """The mean position of voxels weighted by their values, each number rounded once.

    The state is the number of voxels, their exact sum, and its moments along z, y, x.
    """

    axes: tuple[int, ...]

    state_bytes = 4096

    @classmethod
    def of(
        cls, source: Any, axes: Sequence[int], nan: str = "raise", name: str = "center_of_mass"
    ) -> CenterOfMass:
        source = cls.check(name, source, nan)
        return cls(name, np.dtype(np.float64), (len(axes),), source, nan, tuple(axes))

    @property
    def cost(self) -> float:
        return 20.0 if self.source.kind == "f" else 6.0

    def zero(self) -> tuple[int, ...]:
        return 0, 0, 0, 0, 0

    def fold_view(self, view: View, values: tuple[Any, ...]) -> tuple[int, ...]:
        masks, start = None if view.mask is None else [view.mask], view.start
        moments = []
        for axis in (1, 2):
            found = projection.sums([view.voxels], masks, (False, axis == 1, axis == 2))
            self.strict(found.bad)
            line = Wide.of(found.total, found.first).python()
            weights = [n << line[1] for n in line[0]]
            moments.append(sum(w * (start[axis] + i) for i, w in enumerate(weights)))
        total = sum(weights)
        return int(found.counts.sum()), total, total * start[0], *moments

    def merge(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def finish(self, state: tuple[int, ...], values: tuple[Any, ...]) -> np.ndarray:
        count, total, *moments = state
        self.some(count)
        if total == 0:
            return np.full(self.shape, np.nan)
        return np.array([rounded(Fraction(moments[a], total), self.dtype) for a in self.axes])


@dataclass(frozen=True, eq=False)
class Position(Fold):
    """The position of the smallest or largest voxel, the first in raster order.

    The state is the order-preserving key (inverted for maxima) and the position; the smallest is the result.
    """

    axes: tuple[int, ...]
    largest: bool

    @classmethod
    def of(
        cls, source: Any, axes: Sequence[int], largest: bool, nan: str = "raise", name: str = ""
    ) -> Position:
        name = name or ("maximum_position" if largest else "minimum_position")
        source = cls.check(name, source, nan)
        return cls(name, np.dtype(np.int64), (len(axes),), source, nan, tuple(axes), largest)

    def zero(self) -> None:
        return None

    def fold_view(self, view: View, values: tuple[Any, ...]) -> tuple[int, int, int, int] | None:
        key, row, col, bad = projection.first_extreme(view.voxels, view.mask, self.largest)
        self.strict(bad)
        start = view.start
        return None if row < 0 else (key, start[0], start[1] + row, start[2] + col)

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return min(a, b)

    def finish(self, state: Any, values: tuple[Any, ...]) -> np.ndarray:
        self.some(state is not None)
        return np.array([state[1 + a] for a in self.axes], np.int64)
