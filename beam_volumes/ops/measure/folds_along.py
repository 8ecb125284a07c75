"""Reductions along some of the axes, to arrays with a cell for every line of voxels.

A slab computes only a part of the result, so a state is a set of parts with positions. Cells are integers (or
keys) like the states of the whole-volume reductions of `beam_volumes.ops.measure.folds`. Parts at the same
position are merged at once, others at the end. Results are identical to whole-volume reductions of each line.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across.exact import Wide
from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.kernels.measure import accumulate, projection
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.folds import Fold
from beam_volumes.ops.measure.pair_folds import Position
from beam_volumes.ops.measure.rounding import quotients
from beam_volumes.sweep.reduction import Slices
from beam_volumes.sweep.stage import digest

#: Maximum bytes of a result: every worker that needs it receives it, and states are even larger.
LIMIT = 256 << 20

#: Cells with room for float64 of any size: more cells need spare memory, or a smaller range of voxels.
_ANY_RANGE = 1 << 14
#: Maximum digits of a sum and of a sum of squares of floats, by size of the dtype: float32 of any size, and
#: float64 from 1e-50 to 1e50, or of a usual range with two fill values.
_DIGITS = {4: (10, 19), 8: (14, 24)}
#: Digits of float64 of any size.
_ANY_DIGITS = (67, 133)
#: Number of cells that are converted to results at a time.
_CELLS = 1 << 16
#: Bytes of a state's cells per message.
_PIECE = 1 << 20

Parts = dict[Box, Any]


@dataclass(frozen=True, eq=False)
class Digits:
    """Cells of exact numbers like `Wide`, with carries that are made only when necessary."""

    first: int
    cells: np.ndarray  #: int64, digits along the last axis.
    voxels: int  #: Maximum number of voxels that were added to a cell.

    def __add__(self, other: Digits) -> Digits:
        first, width = _span([self, other])
        cells = np.zeros((*self.cells.shape[:-1], width), np.int64)
        for part in (self, other):
            at = part.first - first
            cells[..., at : at + part.cells.shape[-1]] += part.cells
        if self.voxels + other.voxels > projection.MAXIMUM:
            carried = Wide.of(cells, first)
            return Digits(carried.first, carried.digits, 1)
        return Digits(first, cells, self.voxels + other.voxels)


@dataclass(frozen=True, eq=False)
class FloatDigits:
    """Cells of exact numbers with only the digits that voxels need."""

    columns: np.ndarray  #: Positions of digits, ascending.
    cells: np.ndarray  #: int32, digits along the last axis.

    def __add__(self, other: FloatDigits) -> FloatDigits:
        both = projection.joined_digits((self.columns, self.cells), (other.columns, other.cells))
        return FloatDigits(*both)


def _span(parts: Sequence[Digits]) -> tuple[int, int]:
    """The first digit and the number of digits that contain all of them."""
    first = min(p.first for p in parts)
    return first, max(p.first + p.cells.shape[-1] for p in parts) - first


@dataclass(frozen=True, eq=False)
class Along(Fold):
    """A reduction along those axes of z, y, x that are not ``kept``."""

    kept: tuple[bool, bool, bool]
    #: Extent of the result in z, y, x, 1 along reduced axes; ``shape`` omits axes that are not visible.
    extent: Triple

    @property
    def cell_bytes(self) -> int:
        """Approximate bytes of a cell of the state."""
        raise NotImplementedError

    #: States in memory while two are merged, for any number of threads.
    copies: ClassVar[int] = 5

    @property
    def state_bytes(self) -> int:
        return 1024 + math.prod(self.extent) * self.cell_bytes

    def peak_bytes(self, threads: int) -> int:
        return self.copies * self.state_bytes

    def zero(self) -> Parts:
        return {}

    def part(self, voxels: Sequence[np.ndarray], mask: Sequence[np.ndarray] | None) -> Any:
        """The cells of some slices."""
        raise NotImplementedError

    def joined(self, a: Any, b: Any) -> Any:
        """Merge cells at the same position."""
        raise NotImplementedError

    def results(self, cells: Box, parts: list[tuple[Box, Any]]) -> np.ndarray:
        """The result in a box of cells, from all parts that intersect it."""
        raise NotImplementedError

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Parts:
        shape = (len(slices.voxels), *slices.voxels[0].shape)
        if self._voxels(shape) > projection.MAXIMUM and max(shape[:2]) > 1:
            return self._in_halves(slices)
        return {self.cells_of(slices): self.part(slices.voxels, slices.mask)}

    def cells_of(self, slices: Slices) -> Box:
        shape, start = (len(slices.voxels), *slices.voxels[0].shape), slices.start
        begin = tuple(a if k else 0 for a, k in zip(start, self.kept, strict=True))
        end = tuple(a + n if k else 1 for a, n, k in zip(start, shape, self.kept, strict=True))
        return Box(begin, end)  # type: ignore[arg-type]

    def _voxels(self, shape: Sequence[int]) -> int:
        """The number of voxels of a box that belong to one cell."""
        return math.prod(n for n, k in zip(shape, self.kept, strict=True) if not k)

    def _in_halves(self, slices: Slices) -> Parts:
        voxels, mask, _, (z, y, x) = slices
        state: Parts = {}
        by_slice = len(voxels) > 1
        n = len(voxels) if by_slice else len(voxels[0])
        for half in (slice(0, n // 2), slice(n // 2, n)):
            some, where = (
                None if v is None else v[half] if by_slice else [v[0][half]] for v in (voxels, mask)
            )
            at = (z + half.start, y, x) if by_slice else (z, y + half.start, x)
            state = self.merge(state, self.fold_slices(Slices(some, where, start=at), ()))  # type: ignore[arg-type]
        return state

    def merge(self, a: Parts, b: Parts) -> Parts:
        merged = dict(a)
        for box, part in b.items():
            merged[box] = self.joined(merged[box], part) if box in merged else part
        return merged

    def cut_out(self, part: Any, at: tuple[slice, slice, slice]) -> Any:
        """Select some of the cells."""
        raise NotImplementedError

    def pieces(self, state: Parts) -> Iterator[tuple[int, Parts]]:
        maximum = max(1, _PIECE // self.cell_bytes)
        for number, cells in enumerate(blocks(self.extent, maximum)):
            piece: Parts = {}
            for box, part in state.items():
                both = box.intersect(cells)
                if both.size:
                    piece[both] = self.cut_out(part, both.translate([-a for a in box.start]).slices)
            if piece:
                yield number, piece

    def put_together(self, pieces: Mapping[int, Parts]) -> Parts:
        state: Parts = {}
        for piece in pieces.values():
            state = self.merge(state, piece)
        return state

    def cells_at_once(self, state: Parts) -> int:
        """Number of cells that are converted to results at a time."""
        return _CELLS

    def finish(self, state: Parts, values: tuple[Any, ...]) -> np.ndarray:
        result = np.empty(self.extent, self.dtype)
        for cells in blocks(self.extent, self.cells_at_once(state)):
            parts = [(box, p) for box, p in state.items() if box.intersect(cells).size]
            result[cells.slices] = self.results(cells, parts)
        return result.reshape(self.shape)


def blocks(extent: Triple, maximum: int = _CELLS) -> Iterator[Box]:
    """Divide an extent into boxes with a limited number of cells."""
    if not math.prod(extent):
        return iter(())
    _, ny, nx = extent
    cols = min(nx, maximum)
    rows = min(ny, max(1, maximum // cols))
    return iter(Grid(extent, (max(1, maximum // (cols * rows)), rows, cols)))


def shared(cells: Box, box: Box) -> tuple[Any, Any]:
    """The intersection of two boxes, as slices of both."""
    both = box.intersect(cells)
    return tuple(both.translate([-a for a in b.start]).slices for b in (cells, box))  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class ExtremeAlong(Along):
    """The smallest or largest voxels: cells are order-preserving keys, and whether there are any."""

    largest: bool

    copies: ClassVar[int] = 2

    cost = 1.5

    @property
    def cell_bytes(self) -> int:
        return self.source.itemsize + 1

    def part(
        self, voxels: Sequence[np.ndarray], mask: Sequence[np.ndarray] | None
    ) -> tuple[np.ndarray, np.ndarray]:
        best, found, bad = projection.extremes(voxels, mask, self.kept, self.largest)
        self.strict(bad)
        return best, found

    def joined(self, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(a[0], b[0]), a[1] | b[1]

    def cut_out(self, part: Any, at: tuple[slice, slice, slice]) -> tuple[np.ndarray, np.ndarray]:
        return part[0][at], part[1][at]

    def results(self, cells: Box, parts: list[tuple[Box, Any]]) -> np.ndarray:
        u = accumulate.unsigned(self.source)
        every = np.iinfo(u).max
        keys, found = np.full(cells.shape, every, u), np.zeros(cells.shape, bool)
        for box, (best, there) in parts:
            here, from_ = shared(cells, box)
            np.minimum(keys[here], best[from_], out=keys[here])
            found[here] |= there[from_]
        values = accumulate.from_keys(~keys if self.largest else keys, self.source)
        if not found.all():
            if self.dtype.kind != "f":
                raise ValueError(
                    f"{self.name} of no voxels in {np.sum(~found)} elements of the result, and {self.dtype} "
                    "has no NaN for them: reduce volume.astype(float), or use a larger mask"
                )
            values[~found] = np.nan
        return values


@dataclass(frozen=True, eq=False)
class PlaceAlong(Along):
    """Where the smallest or largest voxel of each line is, the first: cells are keys and places.

    The smallest pair of both is the result.
    """

    largest: bool
    axis: int  #: The reduced axis of z, y, x.

    copies: ClassVar[int] = 3

    cost = 2.0

    @property
    def cell_bytes(self) -> int:
        return self.source.itemsize + 8

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Parts:
        found = None
        if self.axis == 2 and slices.mask is None and self.source != np.float16:
            found = self._in_rows(slices)
        if found is not None:
            return {self.cells_of(slices): found}
        how = self.kept, self.largest, self.axis, slices.start[self.axis]
        *part, bad = projection.first_extremes(slices.voxels, slices.mask, *how)
        self.strict(bad)
        return {self.cells_of(slices): tuple(part)}

    def _in_rows(self, slices: Slices) -> tuple[np.ndarray, np.ndarray] | None:
        """The cells of rows, by numpy's loops for this processor; None if a voxel is not finite."""
        rows = np.arange(len(slices.voxels[0]))
        places = [v.argmax(1) if self.largest else v.argmin(1) for v in slices.voxels]
        found = np.array([v[rows, p] for v, p in zip(slices.voxels, places, strict=True)])
        if self.source.kind == "f":
            # A NaN is the first extreme of its row, so the other end can only be infinite.
            ends = [v.min() if self.largest else v.max() for v in slices.voxels]
            if not (np.isfinite(found).all() and np.isfinite(ends).all()):
                return None
            found += 0  # makes both zeros equal
        keys = accumulate.to_keys(found)
        keys = ~keys if self.largest else keys
        return keys[..., None], np.array(places, np.int64)[..., None] + slices.start[2]

    def joined(self, a: Any, b: Any) -> tuple[np.ndarray, np.ndarray]:
        first = (a[0] < b[0]) | ((a[0] == b[0]) & (a[1] < b[1]))
        return np.where(first, a[0], b[0]), np.where(first, a[1], b[1])

    def cut_out(self, part: Any, at: tuple[slice, slice, slice]) -> tuple[np.ndarray, np.ndarray]:
        return part[0][at], part[1][at]

    def results(self, cells: Box, parts: list[tuple[Box, Any]]) -> np.ndarray:
        u = accumulate.unsigned(self.source)
        found = np.full(cells.shape, np.iinfo(u).max, u), np.full(cells.shape, projection.NOWHERE)
        for box, part in parts:
            here, from_ = shared(cells, box)
            found[0][here], found[1][here] = self.joined(
                self.cut_out(found, here), self.cut_out(part, from_)
            )
        if (empty := found[1] == projection.NOWHERE).any():
            raise ValueError(
                f"{self.name} of no voxels in {np.sum(empty)} elements of the result: the volume is empty, "
                "the mask selects none, or all were left out as NaN or infinite"
            )
        return found[1]


@dataclass(frozen=True, eq=False)
class MomentsAlong(Along):
    """Sums, means, variances: cells are states of ``whole``, the reduction of all axes."""

    whole: folds.Moments
    spare_bytes: int | None = 0  #: For digits, beyond `peak_bytes`; None for voxels of any size.

    @property
    def cost(self) -> float:
        return 1.5 * self.whole.cost

    @property
    def cell_bytes(self) -> int:
        if self.source.kind == "f":
            total, square = (4 * n for n in _DIGITS[max(4, self.source.itemsize)])
        else:
            total, square = (8, 8) if self.source.itemsize <= 2 else (16, 40)
        return 8 + total + (square if self.whole.squares else 0)

    @property
    def state_bytes(self) -> int:
        usual = super().state_bytes
        if self.source != np.float64:
            return usual
        cells = min(_ANY_RANGE, math.prod(self.extent))
        return max(usual, 1024 + cells * (8 + 4 * self._sum_of(_ANY_DIGITS)))

    def peak_bytes(self, threads: int) -> int:
        if self.source.kind != "f":
            return super().peak_bytes(threads)
        # Two states and their sum, or two states and digits before carries.
        return 3 * self.state_bytes + min(projection.BEFORE_CARRIES, self.state_bytes)

    def _sum_of(self, digits: tuple[int, int]) -> int:
        return digits[0] + self.whole.squares * digits[1]

    def token(self) -> str:
        # Memory does not change results. Earlier versions had the last value as a field.
        *shared, _ = (getattr(self, f.name) for f in fields(self))
        return digest(type(self).__name__, *shared, self.spare_bytes is not None)

    def with_room(self, spare_bytes: int) -> MomentsAlong:
        return replace(self, spare_bytes=spare_bytes)

    @property
    def max_digits(self) -> int | None:
        """Maximum digits of a cell, so that states fit the memory; None for voxels of any size."""
        if self.source != np.float64 or self.spare_bytes is None:
            return None
        room = self.state_bytes + self.spare_bytes // 3 - 1024
        digits = (room // max(1, math.prod(self.extent)) - 8) // 4
        return None if digits >= self._sum_of(_ANY_DIGITS) else digits

    def part(
        self, voxels: Sequence[np.ndarray], mask: Sequence[np.ndarray] | None
    ) -> tuple[np.ndarray, Any, Any]:
        if self.source.kind == "f":
            squares = self.whole.squares
            sums = projection.float_sums(voxels, mask, self.kept, squares, self.max_digits)
            self.strict(sums.bad)
            square = FloatDigits(sums.square_columns, sums.square) if squares else None
            return sums.counts, FloatDigits(sums.columns, sums.total), square
        found = projection.sums(voxels, mask, self.kept, self.whole.squares)
        self.strict(found.bad)
        maximum = self._voxels((len(voxels), *voxels[0].shape))
        total = Digits(found.first, found.total, maximum)
        in_squares = Digits(found.square_first, found.square, maximum)
        return found.counts, total, in_squares if self.whole.squares else None

    def joined(self, a: Any, b: Any) -> tuple[np.ndarray, Any, Any]:
        if self.max_digits is not None:
            pairs = [(a[i].columns, b[i].columns) for i in (1, 2)[: 1 + self.whole.squares]]
            digits = sum(len(np.union1d(*pair)) for pair in pairs)
            projection.check_digits(digits, self.max_digits)
        return a[0] + b[0], a[1] + b[1], a[2] + b[2] if self.whole.squares else None

    def cells_at_once(self, state: Parts) -> int:
        if self.source.kind != "f":
            return super().cells_at_once(state)
        # Results are computed from all digits in between.
        used = [d.columns for part in state.values() for d in part[1:] if d is not None]
        ends = np.concatenate([c[[0, -1]] for c in used if len(c)] or [np.zeros(2, np.int64)])
        return max(1, 8 * _CELLS // max(8, int(np.ptp(ends)) + 1))

    def cut_out(self, part: Any, at: tuple[slice, slice, slice]) -> tuple[np.ndarray, Any, Any]:
        count, *digits = part
        total, square = (None if d is None else replace(d, cells=d.cells[at]) for d in digits)
        assert total is not None
        return count[at], total, square

    def results(self, cells: Box, parts: list[tuple[Box, Any]]) -> np.ndarray:
        inside = [(*shared(cells, box), part) for box, part in parts]
        count = np.zeros(cells.shape, np.int64)
        for here, from_, part in inside:
            count[here] += part[0][from_]
        if self._small(int(count.max(initial=0))):
            return self._of_small(count, [(here, from_, part[1]) for here, from_, part in inside])
        counts = count.ravel().tolist()
        integers = _float_integers if self.source.kind == "f" else _integers
        totals, squares = (
            integers(cells.shape, [(here, from_, part[i]) for here, from_, part in inside])
            if i == 1 or self.whole.squares
            else [0] * len(counts)
            for i in (1, 2)
        )
        states = zip(counts, totals, squares, strict=True)
        if self.dtype.kind != "f":
            for total in (min(totals), max(totals)):
                self.whole.finish((0, total, 0), ())  # refuses sums that do not fit
            return np.array(totals, self.dtype).reshape(cells.shape)
        above, below = zip(*map(self.whole.ratio, states), strict=True)
        return quotients(above, below, self.dtype, self.whole.root).reshape(cells.shape)

    def _small(self, count: int) -> bool:
        """Whether sums of this many voxels are integers that float64 holds exactly."""
        return (
            self.source.kind != "f"
            and not self.whole.squares
            and count << 8 * self.source.itemsize < 1 << 53
        )

    def _of_small(self, count: np.ndarray, parts: list[tuple[Any, Any, Digits]]) -> np.ndarray:
        """Compute sums and means of small sums: a division rounds once, and all are divided at once."""
        totals = np.zeros(count.shape, np.int64)
        for here, from_, part in parts:
            for i in range(part.cells.shape[-1]):
                if part.first + i < 2:  # higher digits are the sign
                    totals[here] += part.cells[from_][..., i] << 32 * (part.first + i)
        if self.dtype.kind != "f":
            return totals.astype(self.dtype)
        empty = np.full(count.shape, np.nan)
        return np.divide(totals, count, out=empty, where=count > 0)


def _integers(shape: Triple, parts: list[tuple[Any, Any, Digits]]) -> list[int]:
    """The sums at their positions in a block, as Python integers."""
    if not parts:
        return [0] * math.prod(shape)
    first, width = _span([p for _, _, p in parts])
    total = Wide.of(np.zeros((*shape, width), np.int64), first)
    for here, from_, part in parts:
        digits = np.zeros((*shape, width), np.int64)
        at = part.first - first
        digits[here][..., at : at + part.cells.shape[-1]] = part.cells[from_]
        total += Wide.of(digits, first)
    numbers, unit = total.python()
    return [n << unit for n in numbers]


def _float_integers(shape: Triple, parts: list[tuple[Any, Any, FloatDigits]]) -> list[int]:
    """The sums of floats at their positions in a block, as Python integers."""
    used = [p.columns for _, _, p in parts if len(p.columns)]
    if not used:
        return [0] * math.prod(shape)
    first, end = min(int(c[0]) for c in used), max(int(c[-1]) for c in used) + 1
    digits = np.zeros((*shape, end - first), np.int64)
    for here, from_, part in parts:
        digits[here][..., part.columns - first] += part.cells[from_]
    numbers, unit = Wide.of(digits, first).python()
    return [n << unit for n in numbers]


def along(whole: Fold, shape: Triple, kept: tuple[bool, bool, bool], axes: Sequence[int]) -> Along:
    """A whole-volume reduction (`Min`, `Max`, `Sum`, `Mean`, `Var`, `Std`, `Position`) along the other axes.

    ``axes`` are the visible axes of the result.
    """
    extent = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    size = math.prod(extent) * whole.dtype.itemsize
    if size > LIMIT:
        wide = " x ".join(str(extent[a]) for a in axes)
        raise ValueError(
            f"{whole.name} along these axes of a volume of shape {shape} (z, y, x) would be an "
            f"array of {wide} {whole.dtype}, {size >> 20} MiB; the maximum is {LIMIT >> 20} MiB; "
            "crop the volume (volume[:, :4096]) and reduce it part by part"
        )
    common = (whole.name, whole.dtype, tuple(extent[a] for a in axes), whole.source, whole.nan)
    if isinstance(whole, Position):
        (axis,) = set(whole.axes) - set(axes)
        return PlaceAlong(*common, kept, extent, whole.largest, axis)  # type: ignore[arg-type]
    if isinstance(whole, folds.Moments):
        return MomentsAlong(*common, kept, extent, whole)  # type: ignore[arg-type]
    if isinstance(whole, folds.Min | folds.Max):
        return ExtremeAlong(*common, kept, extent, isinstance(whole, folds.Max))  # type: ignore[arg-type]
    raise TypeError(f"{whole.name} is not available along axes")
