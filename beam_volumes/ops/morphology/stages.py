"""Stages along whole columns or rows of a plane, limited distances and the nearest labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Halo, Triple
from beam_volumes.kernels.measure import running_sums
from beam_volumes.kernels.morphology import chamfer
from beam_volumes.kernels.morphology import distance as kernels
from beam_volumes.kernels.morphology.distance import REACH, Metric
from beam_volumes.kernels.morphology.nearest import (
    background_along_x,
    background_along_y,
    line_scratch,
    nearest,
)
from beam_volumes.kernels.scratch import Scratch, arrays
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

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.along_y.scratch(rows, cols, depth, self.dtype, REACH)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        of = self.how.dtype.type
        far, (wz, wy, _) = of(self.how.far), (of(w) for w in self.how.weights)
        scratch = arrays(self.scratch(out.rows, y1 - y0, out.depth))
        for k in range(out.depth):
            distance, squared = inputs[0].slice(k)[None], out.slice(k)[None]
            kernels.along_y(distance, squared, y0, y1, REACH, far, wz, wy, True, scratch)


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

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.along_x.scratch(rows, cols, depth, self.how.dtype, REACH)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        of = self.how.dtype.type
        how = of(self.how.far), of(self.how.weights[2]), self.how.scale, self.root, True
        scratch = arrays(self.scratch(y1 - y0, out.cols, out.depth))
        for k in range(out.depth):
            squared, distance = inputs[0].slice(k)[None], out.slice(k)[None]
            kernels.along_x(squared, distance, y0, y1, REACH, *how, scratch)


@dataclass(frozen=True, eq=False)
class ChamferAlongY(Stage):
    """Chessboard or taxicab distances within z and y, from distances along z."""

    chessboard: bool

    spans = (1,)
    cost = 8.0
    compiled = True

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return chamfer.along_y.scratch(rows, cols, depth, self.dtype)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        scratch = arrays(self.scratch(out.rows, y1 - y0, out.depth))
        for k in range(out.depth):
            chamfer.along_y(inputs[0].slice(k), out.slice(k), y0, y1, self.chessboard, scratch)


@dataclass(frozen=True, eq=False)
class ChamferAlongX(Stage):
    """Chessboard or taxicab distances from distances within z and y; -1 without background."""

    chessboard: bool

    spans = (2,)
    cost = 6.0
    compiled = True

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return chamfer.along_x.scratch(rows, cols, depth, self.dtype)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        how = self.chessboard, -1, arrays(self.scratch(y1 - y0, out.cols, out.depth))
        for k in range(out.depth):
            chamfer.along_x(inputs[0].slice(k), out.slice(k), y0, y1, *how)


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

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        how = self.sampling, self.max_distance
        return kernels.bounded.scratch(rows, cols, depth, self.dtype, *how)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        ((_, _), (above, below), _) = self.halos[0]
        mask = (inputs[0].slice(k, y0, y1 + above + below) for k in range(inputs[0].depth))
        result = (out.slice(k, y0, y1) for k in range(out.depth))
        scratch = arrays(self.scratch(y1 - y0, out.cols, out.depth))
        kernels.bounded(mask, result, self.sampling, self.max_distance, self.root, scratch)


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

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        around = tuple(n + 2 * r for n, r in zip((depth, rows, cols), self.reach, strict=True))
        labels = (around, self._dtype), ((depth, rows, cols), self._dtype)
        return *labels, *nearest.scratch(rows, cols, depth, self._dtype, self.reach)

    @property
    def _dtype(self) -> np.dtype:
        return np.dtype(np.uint64 if self.dtype.itemsize == 8 else np.uint32)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        labels, found, *scratch = arrays(self.scratch(y1 - y0, out.cols, out.depth))
        unsigned = f"u{self.dtype.itemsize}"
        for k in range(len(labels)):
            labels[k] = inputs[0].slice(k, y0, y0 + labels.shape[1]).view(unsigned)
        how = self.reach, self.sampling, self.scale, self.max_distance
        nearest(labels, found, *how, tuple(scratch))
        for k in range(out.depth):
            out.slice(k, y0, y1).view(unsigned)[...] = found[k]


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

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return line_scratch(rows if self.axis == 1 else cols, self._of)

    @property
    def _of(self) -> type[np.float64 | np.int64]:
        return np.float64 if self.how.dtype.kind == "f" else np.int64

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        weights = tuple(map(self._of, self.how.weights))
        scratch = arrays(self.scratch(out.rows, out.cols, out.depth))
        z, y, _ = out.start
        for k in range(out.depth):
            planes = inputs[0].slice(k), out.slice(k)
            if self.axis == 1:
                background_along_y(*planes, y0, y1, z + k, weights, scratch)
            else:
                at = z + k, y
                background_along_x(*planes, y0, y1, at, self.rows, weights, scratch)


@dataclass(frozen=True, eq=False)
class CumsumAlong(Stage):
    """Running sums along y (``axis`` 1) or x (2)."""

    axis: int

    cost = 1.0
    compiled = True

    @property
    def spans(self) -> tuple[int, ...]:
        return (self.axis,)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        rows = inputs[0].as_rows, out.as_rows
        if self.axis == 1:
            running_sums.along_y(*rows, y0, y1, out.rows)
        else:
            running_sums.along_x(*rows, y0, y1, out.cols)


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
