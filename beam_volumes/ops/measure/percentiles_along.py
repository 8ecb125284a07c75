"""Percentiles along some of the axes: of collected lines of voxels, or by a radix search for each line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.kernels.measure.accumulate import from_keys, key_bits, unsigned
from beam_volumes.kernels.measure.histogram import BYTE, digits_along
from beam_volumes.ops.measure import percentile_formulas as formulas
from beam_volumes.ops.measure.folds_along import LIMIT, Along, Parts, blocks, shared
from beam_volumes.sweep.reduction import Slices

#: Bytes of lines that are sorted at a time.
_GATHERED = 16 << 20


@dataclass(frozen=True, eq=False)
class RadixCountsAlong(Along):
    """One level of exact percentiles along axes, like `folds.RadixCounts` for a whole volume."""

    # Digits have 8 bits for all dtypes: 65536 counts for every slice would be too many. The result of a level
    # is a search for every cell in raster order. The last level yields the percentiles, NaN for lines without
    # voxels.

    q: float | tuple[float, ...]
    level: int

    @classmethod
    def of(
        cls,
        source: Any,
        q: float | tuple[float, ...],
        level: int,
        nan: str,
        shape: Triple,
        kept: tuple[bool, bool, bool],
        axes: Sequence[int],
    ) -> RadixCountsAlong:
        name = "percentile"
        source = cls.check(name, source, nan)
        extent = _extent(shape, kept)
        wanted = len(q) if isinstance(q, tuple) else 1
        counts = _count_bytes(wanted) * math.prod(extent)
        if counts > LIMIT:
            maximum = LIMIT // _count_bytes(wanted)
            axis = max((n, "zyx"[a]) for a, n in enumerate(extent))[1]
            fewer = f" (fewer percentiles than {wanted} at a time allow more)" if wanted > 1 else ""
            raise ValueError(
                f"{name} along these axes has {math.prod(extent):,} elements in its result, and its lines "
                f"are too long to collect; {maximum:,} are the maximum{fewer}: crop the volume along {axis}, "
                "or another axis that is kept, and compute percentiles part by part"
            )
        if level < levels(source) - 1:
            result: tuple[int, ...] = (math.prod(extent), 2 * wanted, 3)
            dtype = np.dtype(np.uint64)
        else:
            result = _result(q, extent, axes)
            dtype = formulas.percentile_dtype(source, q)
        return cls(name, dtype, result, source, nan, kept, extent, q, level)  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        return 2.0 if self.level == 0 else 3.0

    @property
    def groups(self) -> int:
        """The number of prefixes for which the next digits are counted."""
        return 1 if self.level == 0 else 2 * (len(self.q) if isinstance(self.q, tuple) else 1)

    @property
    def cell_bytes(self) -> int:
        return 8 * BYTE * self.groups

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> Parts:
        cells = self.cells_of(slices)
        prefixes = self._prefixes(values[0], cells) if self.level else None
        counts, bad = digits_along(slices.voxels, slices.mask, self.kept, self.level, prefixes)
        self.strict(bad)
        return {cells: counts}

    def _prefixes(self, searches: np.ndarray, cells: Box) -> np.ndarray:
        """The prefixes of the cells of a box, padded to equal length by the last one."""
        some = searches.reshape(*self.extent, *searches.shape[1:])[cells.slices]
        found = np.empty((cells.size, self.groups), np.uint64)
        for at, search in zip(found, some.reshape(cells.size, *searches.shape[1:]), strict=True):
            prefixes = formulas.next_prefixes(search)
            at[: len(prefixes)], at[len(prefixes) :] = prefixes, prefixes[-1]
        return found

    def joined(self, a: Any, b: Any) -> np.ndarray:
        return a + b

    def cut_out(self, part: Any, at: tuple[slice, slice, slice]) -> np.ndarray:
        return part[at]

    def finish(self, state: Parts, values: tuple[Any, ...]) -> np.ndarray:
        cells = np.zeros((*self.extent, self.groups, BYTE), np.int64)
        for box, part in state.items():
            cells[box.slices] += part
        counts = cells.reshape(-1, self.groups, BYTE)
        wanted = len(self.q) if isinstance(self.q, tuple) else 1
        searches = np.zeros((len(counts), 2 * wanted, 3), np.uint64)
        for i, own in enumerate(counts):
            if self.level:
                before = values[0][i]
                if before[0, formulas.SIZE]:
                    own = own[: len(formulas.next_prefixes(before))]
                    searches[i] = formulas.next_search(before, own)
            elif own.any():
                searches[i] = formulas.first_search(own, self.q)
        return searches if self.level < levels(self.source) - 1 else self._percentiles(searches)

    def _percentiles(self, searches: np.ndarray) -> np.ndarray:
        found = np.full((len(searches), searches.shape[1] // 2), np.nan, self.dtype)
        for i, search in enumerate(searches):
            if search[0, formulas.SIZE]:
                found[i] = formulas.percentile_of_search(search, self.q, self.source)
        return found.T.reshape(self.shape)


@dataclass(frozen=True, eq=False)
class GatheredAlong(Along):
    """Exact percentiles along axes from collected lines, in one sweep."""

    # A cell has the order-preserving keys of its line, in the chunks of slabs and windows, and the number of
    # voxels that count. Ignored voxels have the largest key, so they are last.

    q: float | tuple[float, ...]
    line: int  #: Voxels per line.

    #: A part has its keys, two more arrays of them, and which of the voxels count.
    copies: ClassVar[int] = 4

    cost = 20.0

    @classmethod
    def of(
        cls,
        source: Any,
        q: float | tuple[float, ...],
        nan: str,
        shape: Triple,
        kept: tuple[bool, bool, bool],
        axes: Sequence[int],
    ) -> GatheredAlong:
        name = "percentile"
        source, extent = cls.check(name, source, nan), _extent(shape, kept)
        dtype, line = formulas.percentile_dtype(source, q), _line(shape, kept)
        return cls(name, dtype, _result(q, extent, axes), source, nan, kept, extent, q, line)  # type: ignore[arg-type]

    @property
    def cell_bytes(self) -> int:
        return 8 + self.line * self.source.itemsize

    def part(
        self, voxels: Sequence[np.ndarray], mask: Sequence[np.ndarray] | None
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        keys = np.stack(voxels).view(unsigned(self.source))
        of = key_bits(self.source)
        used = None if mask is None else np.stack(mask)
        if self.source.kind == "f":
            finite = (keys & of.magnitude) < of.infinite
            bad = int(np.count_nonzero(~finite if used is None else used & ~finite))
            self.strict(bad)
            if bad:
                used = finite if used is None else used & finite
        keys ^= np.where(keys & of.sign, of.negative, of.positive)
        along = tuple(a for a, kept in enumerate(self.kept) if not kept)
        if used is None:
            cells = tuple(n if k else 1 for n, k in zip(keys.shape, self.kept, strict=True))
            return (keys,), np.full(cells, keys.size // math.prod(cells))
        keys[~used] = np.iinfo(keys.dtype).max
        return (keys,), used.sum(along, np.int64, keepdims=True)

    def joined(self, a: Any, b: Any) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        return (*a[0], *b[0]), a[1] + b[1]

    def cut_out(
        self, part: Any, at: tuple[slice, slice, slice]
    ) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        chunks, counts = part
        return tuple(chunk[self._of_lines(at)] for chunk in chunks), counts[at]

    def _of_lines(self, cells: tuple[slice, slice, slice]) -> tuple[slice, slice, slice]:
        """The position of the voxels of cells in a chunk."""
        z, y, x = (c if k else slice(None) for c, k in zip(cells, self.kept, strict=True))
        return z, y, x

    def finish(self, state: Parts, values: tuple[Any, ...]) -> np.ndarray:
        wanted = len(self.q) if isinstance(self.q, tuple) else 1
        found = np.empty((wanted, *self.extent), self.dtype)
        for cells in blocks(self.extent, max(1, _GATHERED // self.cell_bytes)):
            parts = [(box, p) for box, p in state.items() if box.intersect(cells).size]
            own = self._percentiles(cells, parts).reshape(wanted, *cells.shape)
            at = (slice(None), *cells.slices)
            found[at] = own
        return found.reshape(self.shape)

    def _percentiles(self, cells: Box, parts: list[tuple[Box, Any]]) -> np.ndarray:
        """Percentiles of a block of cells, in the first axis."""
        # Lines become contiguous. Their lengths may differ between slabs along kept axes.
        along = [a for a, kept in enumerate(self.kept) if not kept]
        keys = unsigned(self.source)
        lines = np.full((*cells.shape, self.line), np.iinfo(keys).max, keys)
        counts, filled = np.zeros(cells.shape, np.int64), np.zeros(cells.shape, np.int64)
        for box, (chunks, count) in parts:
            here, from_ = shared(cells, box)
            counts[here] += count[from_]
            for chunk in chunks:
                some = chunk[self._of_lines(from_)]
                some = np.moveaxis(some, along, range(3 - len(along), 3))
                some = some.reshape(*lines[here].shape[:-1], -1)
                n = some.shape[-1]
                for begin in np.unique(filled[here]).tolist():
                    same = filled[here] == begin
                    if same.all():
                        lines[here][..., begin : begin + n] = some
                    else:
                        lines[here][same, begin : begin + n] = some[same]
                filled[here] += n
        return self._of_lines_alike(lines.reshape(-1, self.line), counts.ravel())

    def _of_lines_alike(self, lines: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Percentiles of lines of keys, in the first axis, for all lines of one length together."""
        wanted = len(self.q) if isinstance(self.q, tuple) else 1
        found = np.full((wanted, len(lines)), np.nan, self.dtype)
        for size in np.unique(counts[counts > 0]).tolist():
            lower, upper, gamma = formulas.percentile_ranks(size, self.q)
            alike = counts == size
            some = lines if alike.all() else lines[alike]
            some.partition(np.unique([lower, upper]), axis=1)
            below, above = (from_keys(some[:, r].T, self.source) for r in (lower, upper))
            found[:, alike] = formulas.between(below, above, gamma[:, None], self.dtype)
        return found


def _extent(shape: Triple, kept: tuple[bool, bool, bool]) -> Triple:
    z, y, x = (n if k else 1 for n, k in zip(shape, kept, strict=True))
    return (z, y, x)


def _line(shape: Triple, kept: tuple[bool, bool, bool]) -> int:
    """Voxels per line."""
    return math.prod(n for n, k in zip(shape, kept, strict=True) if not k)


def _result(q: Any, extent: Triple, axes: Sequence[int]) -> tuple[int, ...]:
    """The shape of the percentiles."""
    return (*((len(q),) if isinstance(q, tuple) else ()), *(extent[a] for a in axes))


def _count_bytes(wanted: int) -> int:
    """Bytes of the counts of a cell at the second level."""
    return 8 * BYTE * 2 * wanted


def gathers(dtype: np.dtype, q: Any, shape: Triple, kept: tuple[bool, bool, bool]) -> bool:
    """Whether lines are collected: if they are within the limit of a state, and smaller than counts."""
    line = _line(shape, kept) * np.dtype(dtype).itemsize
    wanted = len(q) if isinstance(q, tuple) else 1
    return line <= _count_bytes(wanted) and line * math.prod(_extent(shape, kept)) <= LIMIT


def levels(dtype: np.dtype) -> int:
    """The number of sweeps of percentiles along axes: 1, 2, 4 or 8 for 8, 16, 32 and 64 bits."""
    return np.dtype(dtype).itemsize
