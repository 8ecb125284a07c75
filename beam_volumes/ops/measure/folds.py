"""Whole-volume reductions: ``min``, ``mean``, ``percentile`` and others, as states that merge.

Every state consists of exact integers, counts, or extremes. Merging is therefore associative and commutative
to the bit, and the result does not depend on slabs. Rounding happens once, in ``finish``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from beam_volumes.kernels.measure import accumulate
from beam_volumes.kernels.measure.histogram import (
    bin_counts,
    digit_bits,
    radix_counts,
    scratch_of_bins,
    value_counts,
)
from beam_volumes.kernels.scratch import nbytes
from beam_volumes.ops.measure import percentile_formulas, threshold_formulas
from beam_volumes.ops.measure.rounding import root, rounded
from beam_volumes.sweep.reduction import Reduction, Slices

#: Counts per message of a state: 1 MiB.
_PIECE = 1 << 17
#: Cells of a device for copies of few counters, so that fewer threads wait for the same one.
_SHARED_CELLS = 1 << 13
_EXTENT = "measure.accumulate.extent"


@dataclass(frozen=True, eq=False)
class Fold(Reduction):
    """A reduction of voxels of one dtype, which refuses or ignores NaN and infinity."""

    source: np.dtype  #: The dtype of voxels.
    #: {"raise", "omit"}: how to treat non-finite voxels.
    nan: str

    @staticmethod
    def check(name: str, source: Any, nan: str) -> np.dtype:
        """The dtype of voxels, if this reduction supports it."""
        if nan not in ("raise", "omit"):
            raise ValueError(f'{name}: nan={nan!r}; use "raise" or "omit"')
        accumulate.key_bits(np.dtype(source))  # refuses unsupported dtypes
        return np.dtype(source).newbyteorder("=")

    def strict(self, bad: int) -> None:
        if bad and self.nan == "raise":
            raise ValueError(
                f'{self.name}: {bad} voxels are NaN or infinite; nan="omit" ignores them where a '
                "function has it, and np.nan_to_num replaces them"
            )

    @property
    def has_device_code(self) -> bool:
        is_half = self.source.kind == "f" and self.source.itemsize == 2
        return super().has_device_code and not is_half

    def some(self, count: int) -> None:
        if count == 0:
            raise ValueError(
                f"{self.name} of no voxels: the volume is empty, the mask selects none, "
                "or all were left out as NaN or infinite"
            )


@dataclass(frozen=True, eq=False)
class Count(Fold):
    """The number of voxels under the mask."""

    cost = 0.3
    kernel_name = _EXTENT
    cells = 4

    @classmethod
    def of(cls, source: Any, nan: str = "raise", name: str = "count") -> Count:
        return cls(name, np.dtype(np.int64), (), cls.check(name, source, nan), nan)

    def zero(self) -> int:
        return 0

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> int:
        count, bad = accumulate.count(voxels, mask)
        self.strict(bad)
        return int(count)

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> int:
        self.strict(int(cells[1]))
        return int(cells[0])

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int, values: tuple[Any, ...]) -> np.int64:
        return np.int64(state)


@dataclass(frozen=True, eq=False)
class _Extreme(Fold):
    """The state is the smallest or largest voxel, or None. -0.0 is less than 0.0.

    With the internal ``nan="NaN"``, only NaN is ignored, and the result without voxels is NaN.
    """

    cost = 1.0
    cells = 4

    @property
    def kernel_name(self) -> str:
        return "" if self.nan == "NaN" else _EXTENT

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> Any:
        count, bad, *keys = cells.view(np.uint64)
        self.strict(int(bad))
        if not count:
            return None
        return self.extreme(*accumulate.from_keys(np.array([~keys[0], keys[1]]), self.source))

    @classmethod
    def of(cls, source: Any, nan: str = "raise", name: str = "") -> _Extreme:
        name = name or cls.__name__.lower()
        source = cls.check(name, source, nan)
        return cls(name, source, (), source, nan)

    def zero(self) -> None:
        return None

    def extreme(self, low: Any, high: Any) -> Any:
        raise NotImplementedError

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        if self.nan == "NaN" and self.source.kind == "f":
            voxels = voxels if mask is None else voxels[mask]
            if voxels.size == 0 or np.isnan(low := np.fmin.reduce(voxels, axis=None)):
                return None
            return self.extreme(low + 0, np.fmax.reduce(voxels, axis=None) + 0)
        _, bad, low, high = accumulate.extent(voxels, mask)
        self.strict(bad)
        return self.extreme(low, high)

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        if a == b:  # equal zeros are ordered by their keys
            a, b = (a, b) if np.signbit(a) else (b, a)
        return self.extreme(a, b) if a <= b else self.extreme(b, a)

    def finish(self, state: Any, values: tuple[Any, ...]) -> np.generic:
        if state is None and self.nan == "NaN" and self.source.kind == "f":
            return self.dtype.type(np.nan)
        self.some(state is not None)
        return self.dtype.type(state)


@dataclass(frozen=True, eq=False)
class Min(_Extreme):
    """The smallest voxel."""

    def extreme(self, low: Any, high: Any) -> Any:
        return low


@dataclass(frozen=True, eq=False)
class Max(_Extreme):
    """The largest voxel."""

    def extreme(self, low: Any, high: Any) -> Any:
        return high


@dataclass(frozen=True, eq=False)
class Moments(Fold):
    """The state is the number of voxels, their exact sum, and the sum of their squares if needed."""

    squares: ClassVar[bool] = False
    root: ClassVar[bool] = False
    state_bytes = 1024
    joins_slices = True
    kernel_name = "measure.accumulate.moments"

    @property
    def cells(self) -> int:
        return 2 + accumulate.exponents(self.source) * accumulate.DIGITS

    def peak_bytes(self, threads: int) -> int:
        return super().peak_bytes(threads) + threads * nbytes(
            accumulate.scratch_of_moments(self.source)
        )

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.squares,)

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> tuple[int, int, int]:
        self.strict(int(cells[1]))
        total, square = accumulate.combined(cells[2:].reshape(-1, accumulate.DIGITS))
        return int(cells[0]), total, square

    @property
    def cost(self) -> float:
        return 4.0 if self.source.kind == "f" else 1.0

    def zero(self) -> tuple[int, int, int]:
        return 0, 0, 0

    def fold(
        self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]
    ) -> tuple[int, int, int]:
        return self.fold_slices(Slices([voxels], None if mask is None else [mask]), values)

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> tuple[int, int, int]:
        count, bad, total, square = accumulate.moments_of_slices(
            slices.voxels, slices.mask, self.squares
        )
        self.strict(bad)
        return int(count), total, square

    def merge(self, a: tuple[int, int, int], b: tuple[int, int, int]) -> tuple[int, int, int]:
        return a[0] + b[0], a[1] + b[1], a[2] + b[2]

    @property
    def one(self) -> int:
        """1 in the unit of the sum."""
        return 1 << accumulate.unit(self.source)

    def ratio(self, state: tuple[int, int, int]) -> tuple[int, int]:
        """The exact result as a fraction (not reduced), or its square for a ``root``."""
        raise NotImplementedError


def _mean_dtype(source: np.dtype) -> np.dtype:
    return source if source.kind == "f" else np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class Sum(Moments):
    """The exact sum in numpy's dtype (64-bit for integers); 0 without voxels.

    A sum of integers that exceeds 64 bits is an error. A sum of floats is rounded once, and may be infinite.
    """

    @classmethod
    def of(cls, source: Any, nan: str = "raise", name: str = "sum") -> Sum:
        source = cls.check(name, source, nan)
        dtype = {"u": np.dtype(np.uint64), "f": source}.get(source.kind, np.dtype(np.int64))
        return cls(name, dtype, (), source, nan)

    def ratio(self, state: tuple[int, int, int]) -> tuple[int, int]:
        return state[1], self.one

    def finish(self, state: tuple[int, int, int], values: tuple[Any, ...]) -> np.generic:
        total, one = self.ratio(state)
        if self.dtype.kind == "f":
            return rounded(Fraction(total, one), self.dtype)
        if not np.iinfo(self.dtype).min <= total <= np.iinfo(self.dtype).max:
            raise ValueError(
                f"{self.name}: the exact sum {total} does not fit {self.dtype}; "
                "use mean, or astype(float) first"
            )
        return self.dtype.type(total)


@dataclass(frozen=True, eq=False)
class Mean(Moments):
    """The exact mean, rounded once: float64 for integers, else the voxels' dtype."""

    @classmethod
    def of(cls, source: Any, nan: str = "raise", name: str = "mean") -> Mean:
        source = cls.check(name, source, nan)
        return cls(name, _mean_dtype(source), (), source, nan)

    def ratio(self, state: tuple[int, int, int]) -> tuple[int, int]:
        count, total, _ = state
        return total, count * self.one

    def finish(self, state: tuple[int, int, int], values: tuple[Any, ...]) -> np.generic:
        self.some(state[0])
        return rounded(Fraction(*self.ratio(state)), self.dtype)


@dataclass(frozen=True, eq=False)
class Var(Moments):
    """The exact variance, rounded once; the divisor is the number of voxels minus ``ddof``."""

    ddof: int

    squares = True
    cost = 5.0

    @classmethod
    def of(cls, source: Any, nan: str = "raise", ddof: int = 0, name: str = "") -> Var:
        name = name or cls.__name__.lower()
        source = cls.check(name, source, nan)
        return cls(name, _mean_dtype(source), (), source, nan, ddof)

    def ratio(self, state: tuple[int, int, int]) -> tuple[int, int]:
        count, total, square = state
        below = count * max(0, count - self.ddof)
        return count * square - total * total, below * self.one**2

    def variance(self, state: tuple[int, int, int]) -> Fraction:
        count = state[0]
        self.some(count)
        if count <= self.ddof:
            raise ValueError(
                f"{self.name} with ddof={self.ddof} needs more than {self.ddof} voxels, not {count}"
            )
        return Fraction(*self.ratio(state))

    def finish(self, state: tuple[int, int, int], values: tuple[Any, ...]) -> np.generic:
        return rounded(self.variance(state), self.dtype)


@dataclass(frozen=True, eq=False)
class Std(Var):
    """The exact standard deviation, rounded once."""

    root = True

    def finish(self, state: tuple[int, int, int], values: tuple[Any, ...]) -> np.generic:
        return rounded(root(self.variance(state)), self.dtype)


@dataclass(frozen=True, eq=False)
class Counts(Fold):
    """The state is an array of counts."""

    @property
    def counters(self) -> tuple[int, ...]:
        """The shape of the state."""
        return self.shape

    @property
    def state_bytes(self) -> int:
        return 8 * math.prod(self.counters)

    @property
    def device_counters(self) -> tuple[int, ...]:
        """The shape of the counts on a device."""
        return self.counters

    @property
    def cells(self) -> int:
        n = math.prod(self.device_counters)
        return 1 + n * max(1, _SHARED_CELLS // n)

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> np.ndarray:
        self.strict(int(cells[0]))
        return cells[1:].reshape(-1, *self.device_counters).sum(axis=0)

    def zero(self) -> Any:
        return np.zeros(self.counters, np.int64)

    def merge(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a + b

    def pieces(self, state: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        counts = state.reshape(-1)
        for number, start in enumerate(range(0, max(1, counts.size), _PIECE)):
            yield number, counts[start : start + _PIECE]

    def put_together(self, pieces: Mapping[int, np.ndarray]) -> np.ndarray:
        return np.concatenate([pieces[k] for k in sorted(pieces)]).reshape(self.counters)


@dataclass(frozen=True, eq=False)
class IntegerCounts(Counts):
    """Counts of each value of bool or an integer dtype of up to 16 bits.

    The result has one count per value in ascending order, from the smallest possible one.
    """

    cost = 2.0
    kernel_name = "measure.histogram.radix_counts"

    @property
    def device_counters(self) -> tuple[int, ...]:
        return (1 << digit_bits(self.source),)

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return math.prod(self.device_counters), 0, None

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> np.ndarray:
        return super().of_cells(cells, values)[: math.prod(self.counters)]

    @classmethod
    def of(cls, source: Any, name: str = "histogram") -> IntegerCounts:
        source = cls.check(name, source, "raise")
        if not threshold_formulas.counts_every_value(source):
            raise TypeError(f"{name}: {source} has too many values to count each")
        bins = 2 if source.kind == "b" else 1 << 8 * source.itemsize
        return cls(name, np.dtype(np.int64), (bins,), source, "raise")

    def fold(
        self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]
    ) -> np.ndarray:
        return value_counts(voxels, mask)[0]

    def finish(self, state: np.ndarray, values: tuple[Any, ...]) -> Any:
        return state


@dataclass(frozen=True, eq=False)
class ThresholdOfValues(IntegerCounts):
    """A threshold of integers of up to 16 bits, from exact counts, in one sweep."""

    extra: tuple[Any, ...] = ()  #: Arguments of the method in addition to the counts.

    @classmethod
    def of(  # type: ignore[override]
        cls, method: str, source: Any, extra: tuple[Any, ...] = (), shape: tuple[int, ...] = ()
    ) -> ThresholdOfValues:
        source = IntegerCounts.of(source, method).source
        dtype = threshold_formulas.result_dtype(method, source)
        return cls(method, dtype, shape, source, "raise", extra)

    @property
    def counters(self) -> tuple[int, ...]:
        return IntegerCounts.of(self.source, self.name).shape

    def finish(self, state: np.ndarray, values: tuple[Any, ...]) -> Any:
        return threshold_formulas.of_values(self.name, state, self.source, self.extra)


@dataclass(frozen=True, eq=False)
class DistinctCounts(Fold):
    """The distinct voxels in ascending order as float64, and their counts; nothing of more than ``limit``.

    The result has two rows of ``limit`` columns; unused columns are zeros.
    """

    limit: int

    cost = 15.0
    joins_slices = True

    @classmethod
    def of(cls, source: Any, limit: int, name: str) -> DistinctCounts:
        source = cls.check(name, source, "raise")
        return cls(name, np.dtype(np.float64), (2, limit), source, "raise", limit)

    @property
    def state_bytes(self) -> int:
        return 16 * self.limit

    def peak_bytes(self, threads: int) -> int:
        # Sorted voxels, their values next to a state, and both in ascending order.
        return (threads + 2) * 128 * self.limit

    def zero(self) -> Any:
        return np.empty(0, self.source), np.empty(0, np.int64)

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> Any:
        chosen = voxels if mask is None else voxels[mask]
        state, step = self.zero(), max(1, 2 * self.limit // max(1, chosen[:1].size))
        for k in range(0, len(chosen), step):
            part = chosen[k : k + step]
            if part.dtype.kind == "f":
                self.strict(part.size - int(np.isfinite(part).sum()))
                part = part + part.dtype.type(0)  # one zero of both
            state = self.merge(state, np.unique(part, return_counts=True))
            if state is None:
                break
        return state

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Any:
        state = self.zero()
        for view in slices.views():
            state = self.merge(state, self.fold_view(view, values))
            if state is None:
                break
        return state

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None or len(a[0]) > self.limit or len(b[0]) > self.limit:
            return None
        if not len(a[0]):
            return b
        found, place = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
        if len(found) > self.limit:
            return None
        counts = np.zeros(len(found), np.int64)
        np.add.at(counts, place, np.concatenate([a[1], b[1]]))
        return found, counts

    def finish(self, state: Any, values: tuple[Any, ...]) -> np.ndarray:
        result = np.zeros(self.shape)
        if state is not None:
            result[:, : len(state[0])] = state
        return result


@dataclass(frozen=True, eq=False)
class Histogram(Counts):
    """Counts in equal bins, exactly ``numpy.histogram(volume, bins, range)``."""

    bins: int
    #: If None, ``values`` are the range: two lazy scalars, usually the extremes.
    range: tuple[float, float] | None

    cost = 4.0
    kernel_name = "measure.histogram.bin_counts"

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        edges = self.edges(values)
        return (edges if edges.dtype == np.float64 else edges.astype(np.float32),)

    @classmethod
    def of(
        cls,
        source: Any,
        bins: int,
        range: tuple[float, float] | None = None,
        nan: str = "raise",
        name: str = "histogram",
    ) -> Histogram:
        source = cls.check(name, source, nan)
        if bins < 1:
            raise ValueError(f"{name} needs at least one bin, not {bins}")
        if range is not None:
            threshold_formulas.bin_edges(*range, bins, source)
        return cls(name, np.dtype(np.int64), (bins,), source, nan, bins, range)

    @property
    def counters(self) -> tuple[int, ...]:
        return (self.bins,)

    def peak_bytes(self, threads: int) -> int:
        # Each thread has its state, the edges, scratch, and the sum of its counts.
        own = nbytes(scratch_of_bins(self.bins, np.dtype(np.float64))) + 3 * self.state_bytes
        return max(super().peak_bytes(threads), threads * own + self.state_bytes)

    def edges(self, values: tuple[Any, ...]) -> np.ndarray:
        """The ``bins + 1`` edges in numpy's dtype."""
        low, high = values if self.range is None else self.range
        return threshold_formulas.bin_edges(low, high, self.bins, self.source)

    def fold(
        self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]
    ) -> np.ndarray:
        counts, bad = bin_counts(voxels, self.edges(values), mask)
        self.strict(bad)
        return counts

    def finish(self, state: np.ndarray, values: tuple[Any, ...]) -> Any:
        return state


@dataclass(frozen=True, eq=False)
class ThresholdOfBins(Histogram):
    """A threshold of floats and wide integers, in bins between the extremes.

    ``values`` are the smallest and largest voxel of the same volume under the same mask.
    """

    extra: tuple[Any, ...] = ()

    @classmethod
    def of(  # type: ignore[override]
        cls,
        method: str,
        source: Any,
        bins: int = 256,
        nan: str = "raise",
        extra: tuple[Any, ...] = (),
        shape: tuple[int, ...] = (),
    ) -> ThresholdOfBins:
        source = cls.check(method, source, nan)
        dtype = threshold_formulas.result_dtype(method, source)
        return cls(method, dtype, shape, source, nan, bins, None, extra)

    def fold(
        self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]
    ) -> np.ndarray:
        if values[0] == values[1]:
            return self.zero()  # a constant volume has no bins
        return super().fold(voxels, mask, values)

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        if values[0] == values[1]:
            return (np.full(self.bins + 1, np.inf),)
        return super().device_parameters(values)

    def finish(self, state: np.ndarray, values: tuple[Any, ...]) -> Any:
        low, high = values
        return threshold_formulas.of_bins(self.name, state, low, high, self.source, self.extra)


@dataclass(frozen=True, eq=False)
class RadixCounts(Counts):
    """One level of an exact percentile: counts of the next digit of the order-preserving keys."""

    # A percentile takes ``percentile_levels(dtype)`` successive levels. The first has no ``values``; each
    # further one has the previous result as its only value. The result is the *search* (see
    # `beam_volumes.ops.measure.percentile_formulas`), and at the last level the percentile, equal to
    # ``numpy.percentile(volume, q)``.

    q: float | tuple[float, ...]  #: Percentiles in [0, 100]; a tuple gives an array.
    level: int

    kernel_name = "measure.histogram.radix_counts"

    @classmethod
    def of(
        cls, source: Any, q: Any, level: int = 0, nan: str = "raise", name: str = "percentile"
    ) -> RadixCounts:
        source = cls.check(name, source, nan)
        levels = percentile_formulas.percentile_levels(source)
        if not 0 <= level < levels:
            raise ValueError(f"{name} of {source} has levels 0 to {levels - 1}, not {level}")
        if np.ndim(q) > 1 or np.asarray(q).dtype.kind not in "iuf":
            raise TypeError(f"{name}: q={q!r} is neither a number nor a sequence of numbers")
        if not np.size(q):
            raise ValueError(f"{name}: q={q!r} is empty: give at least one percentile, 0 to 100")
        q = tuple(float(p) for p in q) if np.ndim(q) else float(q)
        percentile_formulas.percentile_ranks(1, q)
        wanted = len(q) if isinstance(q, tuple) else 1
        if level < levels - 1:
            return cls(name, np.dtype(np.uint64), (2 * wanted, 3), source, nan, q, level)
        shape = (wanted,) if isinstance(q, tuple) else ()
        return cls(
            name, percentile_formulas.percentile_dtype(source, q), shape, source, nan, q, level
        )

    @property
    def cost(self) -> float:
        return 2.0 if self.level == 0 else 3.0

    @property
    def state_bytes(self) -> int:
        return 8 * math.prod(self.device_counters)

    @property
    def device_counters(self) -> tuple[int, ...]:
        groups = 1 if self.level == 0 else 2 * (len(self.q) if isinstance(self.q, tuple) else 1)
        return groups, 1 << digit_bits(self.source)

    def _prefixes(self, values: tuple[Any, ...]) -> np.ndarray | None:
        return percentile_formulas.next_prefixes(values[0]) if self.level else None

    def device_parameters(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        return math.prod(self.device_counters), self.level, self._prefixes(values)

    def of_cells(self, cells: np.ndarray, values: tuple[Any, ...]) -> np.ndarray:
        prefixes = self._prefixes(values)
        return super().of_cells(cells, values)[: 1 if prefixes is None else len(prefixes)]

    @property
    def counters(self) -> tuple[int, ...]:
        return -1, 1 << digit_bits(self.source)  # a row for each prefix, as many as voxels need

    @property
    def last(self) -> bool:
        return self.level == percentile_formulas.percentile_levels(self.source) - 1

    def zero(self) -> None:
        return None

    def fold(
        self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]
    ) -> np.ndarray:
        counts, bad = radix_counts(voxels, self.level, self._prefixes(values), mask)
        self.strict(bad)
        return counts

    def merge(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return b if a is None else a
        return a + b

    def pieces(self, state: np.ndarray | None) -> Iterator[tuple[int, np.ndarray]]:
        return iter(()) if state is None else super().pieces(state)

    def finish(self, state: Any, values: tuple[Any, ...]) -> Any:
        if state is None or not state.any():
            self.some(0)
        if self.level == 0:
            search = percentile_formulas.first_search(state, self.q)
        else:
            search = percentile_formulas.next_search(values[0], state)
        return (
            percentile_formulas.percentile_of_search(search, self.q, self.source)
            if self.last
            else search
        )
