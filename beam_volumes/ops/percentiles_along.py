"""Percentiles along some of the axes: of every line of voxels, by the radix search of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.geometry import Box, Triple
from beam_volumes.kernels.histogram import BYTE, digits_along
from beam_volumes.ops import percentile_formulas as formulas
from beam_volumes.ops.projections import LIMIT, Along, Parts


@dataclass(frozen=True, eq=False)
class RadixCountsAlong(Along):
    """One level of exact percentiles along axes, as `folds.RadixCounts` is one of a whole volume's.

    Digits have 8 bits, whatever the dtype: counts of 65536 for every slice would be too large. The
    result of a level is a search for every cell, one after the other in raster order; that of the last
    one the percentiles, NaN where a line has no voxels.

    Attributes
    ----------
    q : float, or tuple of float
    level : int
    """

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
        extent = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
        wanted = len(q) if isinstance(q, tuple) else 1
        counts = 8 * BYTE * 2 * wanted * math.prod(extent)
        if counts > LIMIT:
            raise ValueError(
                f"{name} along these axes of a volume of shape {shape} (z, y, x) needs {counts >> 20} MiB "
                f"of counts; it may have {LIMIT >> 20} MiB: crop the volume (volume[:4096]) and find its "
                "percentiles part by part"
            )
        if level < levels(source) - 1:
            result: tuple[int, ...] = (math.prod(extent), 2 * wanted, 3)
            dtype = np.dtype(np.uint64)
        else:
            result = (*((wanted,) if isinstance(q, tuple) else ()), *(extent[a] for a in axes))
            dtype = formulas.percentile_dtype(source, q)
        return cls(name, dtype, result, source, nan, kept, extent, q, level)  # type: ignore[arg-type]

    @property
    def cost(self) -> float:
        return 2.0 if self.level == 0 else 3.0

    @property
    def groups(self) -> int:
        """Of how many prefixes the next digits are counted."""
        return 1 if self.level == 0 else 2 * (len(self.q) if isinstance(self.q, tuple) else 1)

    @property
    def cell_bytes(self) -> int:
        return 8 * BYTE * self.groups

    def fold_slices(
        self,
        voxels: Sequence[np.ndarray],
        mask: Sequence[np.ndarray] | None,
        values: tuple[Any, ...],
        others: tuple[Sequence[np.ndarray], ...],
        start: Triple,
    ) -> Parts:
        cells = self.cells_of(voxels, start)
        prefixes = self._prefixes(values[0], cells) if self.level else None
        counts, bad = digits_along(voxels, mask, self.kept, self.level, prefixes)
        self.strict(bad)
        return {cells: counts}

    def _prefixes(self, searches: np.ndarray, cells: Box) -> np.ndarray:
        """Those of the cells of a box, each with as many: the last one again and again."""
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


def levels(dtype: np.dtype) -> int:
    """How many sweeps percentiles along axes take: 1, 2, 4 or 8 for 8, 16, 32 and 64 bits."""
    return np.dtype(dtype).itemsize
