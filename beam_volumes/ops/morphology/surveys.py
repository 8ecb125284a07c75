"""Scans along z as surveys and completions: distances to background, and running sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from beam_volumes.across import scans
from beam_volumes.across.rounds.flow import Flow
from beam_volumes.across.rounds.scans import scan_flow
from beam_volumes.across.scans import Distance
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.morphology import distance as kernels
from beam_volumes.sweep.device import Device, MaskThere
from beam_volumes.sweep.stage import Block
from beam_volumes.sweep.survey import Completer, Completion, Survey, Surveyor, check_same, digested


@dataclass(frozen=True)
class Windows:
    """Data of a slab's first sweep for its second: background after each window, and digests."""

    depth: int  #: Slices of the slab.
    ends: tuple[int, ...]  #: Slices of the slab before each window's end.
    #: For each window, the slices from its end to the next background voxel of each column in the
    #: slab, or `FAR`: `scans.packed`.
    planes: tuple[bytes, ...]
    digests: tuple[int, ...]  #: A digest of each window's voxels.


def _plane_bytes(shape: Triple, windows: int) -> int:
    """Bytes of the planes of a slab's windows without compression."""
    itemsize = scans.plane_dtype(shape[0]).itemsize
    return windows * (shape[1] * shape[2] * itemsize * 257 // 256 + 256)


@dataclass(frozen=True, eq=False)
class DistanceSurvey(Survey):
    """Distances from a slab's ends to background, column by column. The input is a mask."""

    # The summary is `Windows`, and `Distance` from the slab's last and first slice. The answer is the same
    # windows and the distances before and after the slab, or None.

    upper = False
    cost = 0.5
    #: One thread compresses the planes between windows.
    serial: ClassVar[float] = 0.35
    planes_there = 2

    def has_device_code(self, inputs: int) -> bool:
        return True

    def planes_copied(self, windows: int) -> tuple[int, int]:
        return 1, windows + 1

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return 12 * shape[1] * shape[2]

    def state_bytes(self, shape: Triple, windows: int) -> int:
        # Two planes, and more when they are joined at the end.
        return 48 * shape[1] * shape[2] + 2 * _plane_bytes(shape, windows)

    def begin(
        self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int
    ) -> _DistanceSurveyor:
        return _DistanceSurveyor(grid.box(index).shape)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return scan_flow(grid, scans.distance_combine, itemsize=4, backward=True)


class _ColumnsThere:
    """Two planes of distances on a device: to the background before and after a window."""

    def __init__(self, device: Device, before: np.ndarray):
        self.device, self.cells, size = device, device.zeros(1), before.shape
        ring = device.empty((2, *size), before.dtype)
        self.before, self.after = (Block(ring, np.array([k]), 0, 0, *size) for k in range(2))
        self.write(before, self.before)

    def write(self, plane: np.ndarray, there: Block) -> None:
        self.device.to_device(_of_plane(plane), there)

    def read(self, there: Block) -> np.ndarray:
        plane = np.empty((there.rows, there.cols), np.int32)
        self.device.to_host(there, _of_plane(plane))
        return plane

    def launch(self, kernel: str, *blocks: Block) -> None:
        size = self.before.rows, self.before.cols
        self.device.launch(f"morphology.distance.{kernel}", *blocks, *size)

    def digest(self, mask: Block) -> int:
        self.device.launch("measure.digests.digest", mask, mask.rows, mask.cols, self.cells)
        return int(self.device.taken(self.cells)[0]) % 2**64


def _of_plane(plane: np.ndarray) -> Block:
    return Block(plane[None], np.array([0]), 0, 0, *plane.shape)


class _DistanceSurveyor(Surveyor):
    there: _ColumnsThere | None = None  #: If the masks are on a device.

    def __init__(self, shape: Triple):
        self.depth, self.rows, self.cols = shape
        self.below = np.full((self.rows, self.cols), kernels.FAR, np.int32)
        self.above = np.empty((self.rows, self.cols), np.int32)
        self.depths: list[int] = []
        self.planes: list[bytes] = []
        self.digests: list[int] = []

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        (mask,) = arrays
        if isinstance(mask, MaskThere):
            self.digests.append(self._feed_there(mask))
        else:
            voxels = _voxels(mask)

            def strip(y0: int, y1: int) -> None:
                kernels.ends(voxels, self.below, self.above, y0, y1)

            self.digests.append(digested(voxels, threads, strip))
        self.depths.append(mask.shape[0])
        self.planes.append(scans.packed(self.above, self.depth))

    def _feed_there(self, mask: MaskThere) -> int:
        there = self.there = self.there or _ColumnsThere(mask.device, self.below)
        there.launch("ends", mask.block, there.before, there.after)
        self.above = there.read(there.after)
        return there.digest(mask.block)

    def finish(self) -> tuple[Windows, Distance, Distance]:
        if self.there is not None:
            self.below = self.there.read(self.there.before)
        follows = Distance(0, np.full((self.rows, self.cols), kernels.FAR, np.int32))
        planes, ends, end = [], [], self.depth
        for depth, data in zip(self.depths[::-1], self.planes[::-1], strict=True):
            planes.append(scans.packed(follows.distance, self.depth))
            ends.append(end)
            end -= depth
            own = scans.unpacked(data, self.depth, self.rows, self.cols)
            follows = scans.distance_combine(follows, Distance(depth, own))
        windows = Windows(self.depth, tuple(ends[::-1]), tuple(planes[::-1]), tuple(self.digests))
        return windows, Distance(self.depth, self.below), follows


@dataclass(frozen=True, eq=False)
class DistanceAlongZ(Completion):
    """Slices to the nearest background voxel of the column, or `FAR`: the completion of `DistanceSurvey`."""

    #: Whether steps to background in slices before are negative, also if both are as near.
    signed: bool = False

    upper = False
    grows = False
    cost = 1.0
    #: As for the survey.
    serial: ClassVar[float] = 0.15
    planes_there = 2

    def has_device_code(self, inputs: int) -> bool:
        return not self.signed

    def planes_copied(self, windows: int) -> tuple[int, int]:
        return windows + 1, 0

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return (36 if self.signed else 32) * shape[1] * shape[2]

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return 12 * shape[1] * shape[2] + _plane_bytes(shape, windows)

    def begin(self, grid: Grid, index: int, answer: Any) -> _DistanceCompleter:
        return _DistanceCompleter(grid.box(index).shape, self.signed, *answer)


class _DistanceCompleter(Completer):
    there: _ColumnsThere | None = None  #: If the masks are on a device.

    def __init__(
        self,
        shape: Triple,
        signed: bool,
        windows: Windows,
        before: Distance | None,
        after: Distance | None,
    ):
        _, self.rows, self.cols = shape
        self.signed = signed
        self.windows, self.after = windows, after
        self.carry = scans.distance_carry(before, self.rows, self.cols)
        self.done = 0

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        after, first = self._after(self.done), self.windows.digests[self.done]
        self.done += 1
        if isinstance(arrays[0], MaskThere):
            check_same(self._run_there(arrays[0], after, out), first)
            return
        mask = _voxels(arrays[0])

        def strip(y0: int, y1: int) -> None:
            for k in range(out.depth):
                kernels.forward(mask[k : k + 1], self.carry, out.slice(k)[None], y0, y1)
            for k in range(out.depth - 1, -1, -1):
                steps = out.slice(k, y0, y1)
                upward = steps.copy() if self.signed else None
                kernels.backward(out.slice(k)[None], after, y0, y1)
                if upward is not None:
                    is_before = (steps == upward) & (steps != kernels.FAR)
                    np.negative(steps, out=steps, where=is_before)

        check_same(digested(mask, threads, strip), first)

    def _run_there(self, mask: MaskThere, after: np.ndarray, out: Block) -> int:
        there = self.there = self.there or _ColumnsThere(mask.device, self.carry)
        there.write(after, there.after)
        there.launch("forward", mask.block, there.before, out)
        there.launch("backward", out, there.after)
        return there.digest(mask.block)

    def _after(self, window: int) -> np.ndarray:
        """The distances to background in slices after a window."""
        own, left = self.windows, self.windows.depth - self.windows.ends[window]
        plane = scans.unpacked(own.planes[window], own.depth, self.rows, self.cols)
        within = Distance(left, plane)
        return scans.combined(scans.distance_combine, self.after, within).distance


def _voxels(mask: np.ndarray) -> np.ndarray:
    """A mask as bytes for kernels."""
    return mask.view(np.uint8) if mask.dtype == bool else mask


@dataclass(frozen=True, eq=False)
class CumsumSurvey(Survey):
    """The sum of each column of integers of a slab. Summary and answer are as in `DistanceSurvey`.

    Instead of windows they contain digests.
    """

    upper = False
    cost = 0.8

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return 1 << 18  # numpy converts piecewise

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return 8 * shape[1] * shape[2]

    def begin(
        self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int
    ) -> _CumsumSurveyor:
        return _CumsumSurveyor(grid.box(index).shape)

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Flow:
        return scan_flow(grid, scans.cumsum_combine)


class _CumsumSurveyor(Surveyor):
    def __init__(self, shape: Triple):
        self.shape = shape[1:]
        self.total: np.ndarray | None = None
        self.digests: list[int] = []

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        (voxels,) = arrays
        if self.total is None:
            self.total = np.zeros(self.shape, scans.cumsum_dtype(voxels.dtype))
        total = self.total

        def strip(a: int, b: int) -> None:
            for plane in voxels:
                np.add(total[a:b], plane[a:b], out=total[a:b])

        self.digests.append(digested(voxels, threads, strip))

    def finish(self) -> tuple[tuple[int, ...], np.ndarray | None, None]:
        return tuple(self.digests), self.total, None


@dataclass(frozen=True, eq=False)
class CumsumAlongZ(Completion):
    """Running sums along z of integers: the completion of `CumsumSurvey`; dtype is `scans.cumsum_dtype`."""

    upper = False
    grows = False
    cost = 1.5

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        return 1 << 18

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return 16 * shape[1] * shape[2]

    def begin(self, grid: Grid, index: int, answer: Any) -> _CumsumCompleter:
        digests, before, _ = answer
        return _CumsumCompleter(grid.box(index).shape, self.dtype, digests, before)


class _CumsumCompleter(Completer):
    def __init__(
        self, shape: Triple, dtype: np.dtype, digests: tuple[int, ...], before: np.ndarray | None
    ):
        self.digests = iter(digests)
        self.total = np.zeros(shape[1:], dtype) if before is None else before.astype(dtype)

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        voxels, total = arrays[0], self.total

        def strip(y0: int, y1: int) -> None:
            for k in range(out.depth):
                np.add(total[y0:y1], voxels[k, y0:y1], out=total[y0:y1])
                out.slice(k, y0, y1)[...] = total[y0:y1]

        check_same(digested(voxels, threads, strip), next(self.digests))
