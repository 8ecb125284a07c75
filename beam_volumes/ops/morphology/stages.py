"""Stages along whole columns or rows of a plane, limited distances and the nearest labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Halo, Triple
from beam_volumes.kernels.morphology import chamfer
from beam_volumes.kernels.morphology import distance as kernels
from beam_volumes.kernels.morphology.distance import REACH, Metric
from beam_volumes.kernels.morphology.nearest import (
    background_along_x,
    background_along_y,
    nearest,
)
from beam_volumes.sweep.stage import Block, InStrips, Padding, Stage, Work


def _envelope_bytes(how: Metric, voxels: int) -> int:
    """Device memory for parabolas of float64: their positions, edges, and marks of lines."""
    return (8 + 4 + 1) * voxels + 3 * 8 if how.dtype.kind == "f" else 0


@dataclass(frozen=True, eq=False)
class DistanceAlongY(Stage):
    """Squared distances within z and y in ``how.dtype``, from distances along z."""

    how: Metric

    spans = (1,)
    cost = 6.0
    compiled = True

    @property
    def kernel_name(self) -> str:
        return "morphology.distance.along_y"

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return _envelope_bytes(self.how, rows * cols * depth)

    def launch(
        self, device: Any, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        more = self.how.far, *self.how.weights[:2]
        device.launch(self.kernel_name, inputs[0], out, out.rows, out.cols, *more)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return (130 * rows + 256 * REACH + 256) * self.dtype.itemsize + 16 * rows

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        of = self.how.dtype.type
        far, (wz, wy, _) = of(self.how.far), (of(w) for w in self.how.weights)
        for k in range(out.depth):
            distance, squared = inputs[0].slice(k)[None], out.slice(k)[None]
            kernels.along_y(distance, squared, y0, y1, REACH, far, wz, wy)


@dataclass(frozen=True, eq=False)
class DistanceAlongX(Stage):
    """Distances, or without ``root`` their squares, from squared distances within z and y."""

    how: Metric
    root: bool

    spans = (2,)
    cost = 4.0
    compiled = True

    @property
    def kernel_name(self) -> str:
        return "morphology.distance.along_x"

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return _envelope_bytes(self.how, rows * cols * depth)

    def launch(
        self, device: Any, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        more = self.how.far, self.how.weights[2], self.how.scale, self.root
        device.launch(self.kernel_name, inputs[0], out, out.rows, out.cols, *more)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 2 * (cols + REACH) * self.how.dtype.itemsize + 16 * cols

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        of = self.how.dtype.type
        far, weight = of(self.how.far), of(self.how.weights[2])
        for k in range(out.depth):
            squared, distance = inputs[0].slice(k)[None], out.slice(k)[None]
            kernels.along_x(
                squared, distance, y0, y1, REACH, far, weight, self.how.scale, self.root
            )


@dataclass(frozen=True, eq=False)
class ChamferAlongY(Stage):
    """Chessboard or taxicab distances within z and y, from distances along z."""

    chessboard: bool

    spans = (1,)
    cost = 8.0
    compiled = True

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 4 * (chamfer.COLUMNS + 3) * rows

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            chamfer.along_y(inputs[0].slice(k), out.slice(k), y0, y1, self.chessboard)


@dataclass(frozen=True, eq=False)
class ChamferAlongX(Stage):
    """Chessboard or taxicab distances from distances within z and y; -1 without background."""

    chessboard: bool

    spans = (2,)
    cost = 6.0
    compiled = True

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 21 * cols

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            chamfer.along_x(inputs[0].slice(k), out.slice(k), y0, y1, self.chessboard, -1)


@dataclass(frozen=True, eq=False)
class BoundedDistance(Stage):
    """``minimum(distance, max_distance)``, or its square without ``root``, from a neighbourhood."""

    sampling: tuple[float, float, float]
    max_distance: float
    root: bool

    #: Outside of the volume there is no background.
    padding = Padding(("constant",) * 3, 1.0)  # type: ignore[arg-type]
    compiled = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((r, r) for r in kernels.bounded_reach(self.max_distance, self.sampling))
        return ((z, y, x),)

    @property
    def cost(self) -> float:
        return 8.0 + 0.15 * sum(kernels.bounded_reach(self.max_distance, self.sampling))

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        z, y, x = kernels.bounded_reach(self.max_distance, self.sampling)
        high, wide, reach = rows + 2 * y, cols + 2 * x, 2 * max(z, y, x) + 2
        voxels = (depth + 2 * z) * high * wide
        results = (4 if self.root else 8) * depth * rows * cols
        # The joined mask, distances along z, which of them are far or the results, a plane of squares
        # and one of distances, and scratch of the passes.
        passes = 8 * (high + rows) * wide + 8 * (131 * high + 130 * reach + 5 * wide)
        return 5 * voxels + max(depth * high * wide, results) + passes

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = kernels.bounded_reach(self.max_distance, self.sampling)
        mask = inputs[0].array(y0, y1 + 2 * y)
        core = (slice(z, z + out.depth), slice(y, y + y1 - y0), slice(x, x + out.cols))
        planes = kernels.bounded(mask, self.sampling, self.max_distance, core, self.root)
        for k, plane in enumerate(planes):
            out.slice(k, y0, y1)[...] = plane


@dataclass(frozen=True, eq=False)
class NearestLabel(Stage):
    """The nearest label up to ``max_distance``; the smallest of equally near ones."""

    reach: Triple  #: ``max_distance`` in voxels along z, y, x.
    sampling: tuple[float, float, float]  #: The extent of a voxel in units of ``scale``.
    scale: float
    max_distance: float

    #: There are no labels outside of the volume.
    padding = Padding(("constant",) * 3, 0.0)  # type: ignore[arg-type]
    compiled = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((r, r) for r in self.reach)
        return ((z, y, x),)

    @property
    def cost(self) -> float:
        return 8.0 + 1.2 * sum(self.reach)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        z, y, x = self.reach
        high, wide = rows + 2 * y, cols + 2 * x
        item = self._dtype.itemsize
        # The joined labels in their own dtype and in the kernel's, steps and labels along z, a
        # plane of squares, the result, and rows.
        joined = 2 * item * (depth + 2 * z) * high * wide
        along_z = (4 + item) * depth * high * wide
        return joined + along_z + 8 * high * (wide + 1) + item * depth * rows * cols + 64 * wide

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(np.uint64 if self.dtype.itemsize == 8 else np.uint32)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        labels = inputs[0].array(y0, y1 + 2 * self.reach[1])
        unsigned = labels.view(f"u{labels.dtype.itemsize}")
        found = np.empty((out.depth, y1 - y0, out.cols), self._dtype)
        how = self.reach, self.sampling, self.scale, self.max_distance
        nearest(np.array(unsigned, self._dtype), found, *how)
        for k in range(out.depth):
            out.slice(k, y0, y1)[...] = found[k].astype(unsigned.dtype).view(self.dtype)


@dataclass(frozen=True, eq=False)
class NearestBackground(Stage):
    """Places of the nearest background within z and y (``axis`` 1), or of the volume (2); 0 is none."""

    axis: int
    how: Metric
    rows: int  #: Of the volume.

    cost = 25.0
    compiled = True

    @property
    def spans(self) -> tuple[int, ...]:
        return (self.axis,)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 40 * (rows if self.axis == 1 else cols)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        of = np.float64 if self.how.dtype.kind == "f" else np.int64
        weights = tuple(map(of, self.how.weights))
        z, y, _ = out.start
        for k in range(out.depth):
            planes = inputs[0].slice(k), out.slice(k)
            if self.axis == 1:
                background_along_y(*planes, y0, y1, z + k, weights)
            else:
                background_along_x(*planes, y0, y1, (z + k, y), self.rows, weights)


@dataclass(frozen=True, eq=False)
class CumsumAlong(Stage):
    """Running sums along y (``axis`` 1) or x (2)."""

    axis: int

    cost = 1.5

    @property
    def spans(self) -> tuple[int, ...]:
        return (self.axis,)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return rows * cols * self.dtype.itemsize  # numpy converts a slice before adding

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        some = np.s_[:, y0:y1] if self.axis == 1 else np.s_[y0:y1]
        last = np.s_[-1:] if self.axis == 1 else np.s_[:, -1:]
        for k in range(out.depth):
            sums = out.slice(k)[some]
            np.cumsum(inputs[0].slice(k)[some], axis=self.axis - 1, dtype=self.dtype, out=sums)
            _one_nan(sums[last], sums)


@dataclass(frozen=True, eq=False)
class CumsumAlongZ(Stage):
    """Running sums of floats along z, which round, slice by slice from the volume's first slice."""

    spans = (0,)
    cost = 1.5

    def begin(self, box: Box) -> Work:
        # Adding -0.0 changes no number, including signed zeros.
        return InStrips(self, (np.full(box.shape[1:], self.dtype.type(-0.0)),))

    def kept_bytes(self, rows: int, cols: int) -> int:
        return rows * cols * self.dtype.itemsize

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return 1 << 18  # numpy converts piecewise

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        total = values[-1][y0:y1]
        for k in range(out.depth):
            np.add(total, inputs[0].slice(k, y0, y1), out=total)
            out.slice(k, y0, y1)[...] = total
        _one_nan(total, total, *(out.slice(k, y0, y1) for k in range(out.depth)))


def _one_nan(last: np.ndarray, *sums: np.ndarray) -> None:
    """Set every NaN to the same bits; an added NaN is still in the last sum.

    numpy's loops select the bits of either operand.
    """
    if last.dtype.kind == "f" and np.isnan(last).any():
        for part in sums:
            part[np.isnan(part)] = np.nan
