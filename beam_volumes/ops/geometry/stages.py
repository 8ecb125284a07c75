"""Stages with a new grid: separable resampling, affine maps, windows, coordinates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges, Triple, pad_index
from beam_volumes.kernels.geometry import downsample as windows
from beam_volumes.kernels.geometry import resample as kernels
from beam_volumes.kernels.geometry import splines
from beam_volumes.kernels.geometry.resample import MODES
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.parameters.building import kernel_constant
from beam_volumes.sweep.stage import Block, KernelStage, Regrid, digest

#: More positions than any axis has.
_ALL = 1 << 62
#: Sums of coordinates up to this are rounded by less than a voxel.
_EXACT = float(1 << 48)
#: Boundary modes that mirror the volume.
MIRRORED = ("reflect", "mirror", "grid-mirror")


@dataclass(frozen=True)
class Along:
    """The voxels of an axis of extent ``n`` that the result uses; see `taps`."""

    # Without interpolation, they are ``n - 1 - v`` if ``flipped``, else ``v // repeat * step - before``,
    # padded by ``mode`` (one of `beam_volumes.base.geometry.pad_index`).

    n: int
    before: int = 0
    mode: str = "constant"
    flipped: bool = False
    repeat: int = 1
    step: int = 1

    @property
    def count(self) -> int:
        """The number of voxels for each voxel of the result."""
        return 1

    @property
    def spacing(self) -> float:
        """The maximum distance between positions, for mirrored ones."""
        return 1.0

    def near(self, v: int) -> int:
        """The voxel at position v, which may be outside."""
        return self.n - 1 - v if self.flipped else v // self.repeat * self.step - self.before

    @property
    def turns(self) -> int:
        """How many positions outside of `inner` use voxels that are not in order, on each side."""
        return _ALL if self.mode in MIRRORED else 0

    def inner(self, count: int) -> Range:
        """The range of positions below ``count`` that are certainly inside."""
        padded = self.repeat == self.step == 1 and not self.flipped
        return (self.before, self.before + self.n) if padded else (0, count)

    def needs(self, start: int, stop: int, count: int) -> Range:
        """The range of voxels for positions of a result of ``count``."""
        parts = [(start, start + 1), (stop - 1, stop)]
        if turns := self.turns:
            # Elsewhere voxels are in order, so the outer positions suffice.
            a, b = self.inner(count)
            parts += [(max(start, a - turns), min(stop, a)), (max(start, a), max(start, a) + 1)]
            parts += [(min(stop, b) - 1, min(stop, b)), (max(start, b), min(stop, b + turns))]
        taken: list[int] = []
        for a, b in parts:
            if not start <= a < b <= stop:
                continue
            if (b - a - 2) * self.spacing > 2 * self.n:
                return 0, self.n
            index, _ = self.taps(a, b)
            taken += index[index >= 0].tolist()
            if (index < 0).any():
                # Clip to the edge, so a range never needs more than a wider one.
                taken += [min(max(self.near(v), 0), self.n - 1) for v in (a, b - 1)]
        return min(taken), max(taken) + 1

    def taps(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        """Voxels (negative: none) and weights for positions ``start`` to ``stop``, a row for each."""
        if self.flipped:
            index = self.n - 1 - np.arange(start, stop, dtype=np.int64)
        elif self.repeat == self.step == 1:
            index = pad_index(start - self.before, stop - self.before, self.n, self.mode)
        else:
            index = np.arange(start, stop, dtype=np.int64) // self.repeat * self.step
        return index[:, None], np.ones((len(index), 1))


@dataclass(frozen=True)
class Between(Along):
    """Position v is ``(v + shift + half) * scale - half + lead``; ``count`` voxels around it are used."""

    shift: float = 0.0
    scale: float = 1.0
    half: float = 0.0
    order: int = 1
    lead: int = 0

    @property
    def count(self) -> int:
        return self.order + 1

    @property
    def reach(self) -> int:
        """The number of voxels before the two around a position, and after them."""
        return (self.order + 1) // 2 if self.order > 1 else 0

    @property
    def spacing(self) -> float:
        return self.scale

    def near(self, v: int) -> int:
        return math.floor((v + self.shift + self.half) * self.scale - self.half + self.lead)

    @property
    def turns(self) -> int:
        if self.reach and self.scale and self.mode not in MIRRORED:
            # Splines are mirrored at the edges also where coordinates are not.
            return math.ceil((2 * self.reach + 2) / self.scale) + 2
        return super().turns

    def inner(self, count: int) -> Range:
        if not self.scale:
            return 0, count
        ends = self.reach - self.lead, self.n - 2 - self.reach - self.lead
        lo, hi = ((c + self.half) / self.scale - self.half - self.shift for c in ends)
        first = max(0, min(math.ceil(lo) + 1, count))
        return first, max(first, min(math.floor(hi), count))

    def taps(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        index, weight = (np.empty((stop - start, self.count), d) for d in (np.int64, np.float64))
        at, more = (start, self.shift, self.scale, self.half), (MODES[self.mode], index, weight)
        if self.order > 1:
            splines.spline_taps_along(*at, self.lead, self.n, *more)
        else:
            kernels.taps_along(*at, self.n, *more)
        return index, weight


@dataclass(frozen=True, eq=False)
class Axes(KernelStage, Regrid):
    """Separable resampling: one voxel, or a weighted mean, along each axis; ``cval`` outside."""

    along: tuple[Along, Along, Along]
    cval: float = 0.0

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return self.along[axis].needs(*wanted[axis], self.grid[axis])

    @property
    def stride(self) -> Triple | None:
        for a, n in zip(self.along, self.grid, strict=True):
            if (
                type(a) is not Along
                or a.flipped
                or a.before
                or a.repeat > 1
                or n != -(-a.n // a.step)
            ):
                return None
        z, y, x = (a.step for a in self.along)
        return (z, y, x)

    def inner(self, axis: int) -> Range:
        return self.along[axis].inner(self.grid[axis])

    @property
    def weighted(self) -> bool:
        return any(a.count > 1 for a in self.along)

    @property
    def is_spline(self) -> bool:
        return any(a.count > 2 for a in self.along)

    @property
    def cost(self) -> float:
        z, y, x = (a.count for a in self.along)
        if self.is_spline:
            return 3.0 + 0.5 * z * y * max(1.0, self.along[2].spacing) + 1.5 * x
        return 1.5 * z * y * x

    def token(self) -> str:
        along = [repr(a) for a in self.along]
        return digest(
            type(self).__name__, self.name, self.dtype, self.of, self.grid, along, repr(self.cval)
        )

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        if not self.weighted:
            return ()
        needed = min(self.of[2], math.ceil(cols * self.along[2].spacing) + 16)
        return self.kernel.scratch(rows, cols, depth, self.dtype, needed)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        # `arguments` has indices and weights, and numpy's temporaries for one axis.
        temporary = 40 * max(rows, cols, depth)
        return (
            super().scratch_bytes(rows, cols, depth)
            + self.device_scratch(rows, cols, depth)
            + temporary
        )

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        # The indices and weights.
        return 16 * sum(a.count * n for a, n in zip(self.along, (depth, rows, cols), strict=True))

    @property
    def kernel(self) -> Any:
        if self.is_spline:
            return splines.interpolate_spline
        return kernels.interpolate if self.weighted else kernels.gather

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        block, (z, y, x) = inputs[0], out.start
        ranges = (z, z + out.depth), (y + y0, y + y1), (x, x + out.cols)
        (iz, wz), (iy, wy), (ix, wx) = (a.taps(*r) for a, r in zip(self.along, ranges, strict=True))
        for i, first in zip((iz, iy, ix), block.start, strict=True):
            np.subtract(i, first, out=i, where=i >= 0)
        where = block, out, y0, y1, out.cols
        if self.weighted:
            return *where, iz, wz, iy, wy, ix, wx, kernel_constant(self.dtype, self.cval)
        iz, iy, ix = (np.ascontiguousarray(i[:, 0]) for i in (iz, iy, ix))
        return *where, iz, iy, ix, self.dtype.type(self.cval)


@dataclass(frozen=True, eq=False)
class Affine(KernelStage, Regrid):
    """The voxel at ``matrix @ position + offset``, or an interpolation around it.

    ``taps`` is for each axis 1, or the order of interpolation plus 1; all 1 for the nearest voxel.
    """

    matrix: np.ndarray
    offset: np.ndarray
    taps: np.ndarray
    mode: str
    cval: float

    @property
    def kernel(self) -> Any:
        return splines.affine_spline if self.taps.max() > 2 else kernels.affine

    def reach(self, axis: int) -> float:
        """The extent of positions along an axis of the input for one position along this axis."""
        others = [a for a in range(3) if a != axis]
        return sum(abs(self.matrix[axis, a]) * (self.grid[a] - 1) for a in others)

    @property
    def coupled(self) -> frozenset[int]:
        pairs = np.argwhere((self.matrix != 0) & ~np.eye(3, dtype=bool))
        return frozenset(pairs.ravel().tolist())

    def needs(self, axis: int, wanted: Ranges) -> Range:
        n = self.of[axis]
        row = self.matrix[axis].tolist()
        ends = [(w * a, w * (b - 1)) for w, (a, b) in zip(row, wanted, strict=True) if w]
        if max(map(abs, [self.offset[axis], *(v for end in ends for v in end)])) > _EXACT:
            return 0, n
        # One more voxel, because bounds and coordinates are rounded in different orders.
        around = int(self.taps[axis]) // 2 if self.taps[axis] > 2 else 0
        lo = math.floor(sum(map(min, ends)) + self.offset[axis]) - 1 - around
        hi = math.ceil(sum(map(max, ends)) + self.offset[axis]) + 2 + around
        if hi - lo >= 2 * n:
            return 0, n
        if self.mode in MIRRORED:
            # Whole periods can be ignored.
            period = 2 * n if self.mode != "mirror" else max(1, 2 * n - 2)
            lo, hi = lo % period, hi - (lo - lo % period)
            index = pad_index(lo, hi, n, self.mode)
            return int(index.min()), int(index.max()) + 1
        if around:
            # Splines are mirrored at the edges, where they use as many voxels inside.
            lo, hi = (
                min(lo, n - 2 - 2 * around) if hi > n else lo,
                max(hi, 3 + 2 * around) if lo < 0 else hi,
            )
        lo, hi = max(0, min(lo, n - 1)), min(n, max(hi, 1))
        return lo, hi

    def inner(self, axis: int) -> Range:
        scale, reach, n = float(self.matrix[axis, axis]), self.reach(axis), self.grid[axis]
        if not scale > 0:
            return 0, 0
        minimum = self.offset[axis] + sum(
            min(0.0, self.matrix[axis, a] * (self.grid[a] - 1)) for a in range(3) if a != axis
        )
        # For a tiny scale, these may be infinite.
        around = int(self.taps[axis]) // 2 if self.taps[axis] > 2 else 0
        begin, end = (
            min(max(-1.0, at / scale), float(n))
            for at in (
                float(around - minimum),
                float(self.of[axis] - 2 - around - minimum - reach),
            )
        )
        first = min(math.ceil(begin) + 1, n)
        return first, max(first, math.floor(end))

    @property
    def cost(self) -> float:
        base, each = (2.0, 1.2) if self.taps.max() > 2 else (1.0, 0.3)
        return base + each * math.prod(self.taps.tolist())

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return self.kernel.scratch(rows, cols, depth, self.dtype, None, self.of)

    def token(self) -> str:
        how = self.matrix, self.offset, self.taps, self.mode, repr(self.cval)
        return digest(type(self).__name__, self.name, self.dtype, self.of, self.grid, *how)

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        block = inputs[0]
        return (
            block, out, y0, y1, out.cols, block.start, self.of, out.start,
            self.matrix, self.offset, self.taps, MODES[self.mode],
            kernel_constant(self.dtype, self.cval),
        )  # fmt: skip


#: Methods of downsampling, with their number in ``kernels.geometry.downsample.pick``.
METHODS = {"mean": -1, "min": 0, "max": 1, "median": 2, "mode": 3}


@dataclass(frozen=True, eq=False)
class Downsample(KernelStage, Regrid):
    """One voxel for each window of ``factors``."""

    factors: Triple
    method: str

    @property
    def stride(self) -> Triple:
        return self.factors

    def needs(self, axis: int, wanted: Ranges) -> Range:
        f, (start, stop) = self.factors[axis], wanted[axis]
        return start * f, min(stop * f, self.of[axis])

    @property
    def window(self) -> int:
        """The number of voxels in the largest window."""
        return math.prod(map(min, self.factors, self.of))

    @property
    def cost(self) -> float:
        each = {"mean": 0.7, "min": 0.7, "max": 0.7}.get(self.method, 4.0)
        return 1.0 + each * self.window

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        factors = np.minimum(self.factors, self.of)
        return self.kernel.scratch(
            rows, cols, depth, self.dtype, *self.of[1:], factors, self.method
        )

    @property
    def kernel(self) -> Any:
        return windows.mean if self.method == "mean" else windows.pick

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        block, factors = inputs[0], np.array(self.factors)
        where = block, out, y0, y1, out.cols, block.rows, block.cols, factors
        return where if self.method == "mean" else (*where, METHODS[self.method])


@dataclass(frozen=True, eq=False)
class Positions(Regrid):
    """Coordinates of voxels along an axis: ``first + index * step``, without input."""

    axis: int
    first: float
    step: float

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        start = out.start[self.axis] + (y0 if self.axis == 1 else 0)
        count = (out.depth, y1 - y0, out.cols)[self.axis]
        index = np.arange(start, start + count)
        at = index if self.dtype.kind == "i" else self.first + index * self.step
        for k in range(out.depth):
            plane = out.slice(k, y0, y1)
            plane[...] = at[k] if self.axis == 0 else at[:, None] if self.axis == 1 else at

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 32 * max(rows, cols, depth)
