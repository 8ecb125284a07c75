"""CUDA devices by numba, for `beam_volumes.sweep.device`.

Voxels cross the bus in whole rows of a ring, which are one piece of memory on both sides, several slices
at a time. Margins of rows are filled afterwards. The host prepares slices in pinned memory while the
previous ones are copied, and kernels of the same sweep wait for copies by events.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numba import cuda
from numba.core import config
from numba.cuda.cudadrv import driver
from numba.cuda.cudadrv.driver import CudaAPIError

from beam_volumes.base.text import format_bytes
from beam_volumes.kernels.cuda import twin
from beam_volumes.kernels.cuda.launching import Scratch, free_unused, on_device, scratch_rows
from beam_volumes.sweep.device import (
    DeviceInfo,
    DeviceLost,
    NoDevice,
    OutOfDeviceMemory,
    slices_of_piece,
)
from beam_volumes.sweep.stage import Block, with_blocks

#: The package that must be installed: numba's own `numba.cuda` is older, except for the simulator.
PACKAGE = "numba" if config.ENABLE_CUDASIM else "numba_cuda"  # type: ignore[attr-defined]
#: CUDA's code for memory that does not suffice, as a number or a name.
_OUT_OF_MEMORY = 2, "CUDA_ERROR_OUT_OF_MEMORY"


def number() -> int:
    """The number of devices that this process may use."""
    return len(cuda.gpus) if cuda.is_available() else 0


def devices() -> list[DeviceInfo]:
    """The devices that this process may use."""
    try:
        return [_described(i) for i in range(number())]
    except Exception as error:
        raise NoDevice(f"a CUDA device of this machine does not work: {error}") from error


def _described(index: int) -> DeviceInfo:
    with cuda.gpus[index]:
        context = cuda.current_context()
        free, total = context.get_memory_info()
        name = getattr(context.device, "name", "simulated")
    runtime = cuda.runtime.get_version()
    supported = getattr(driver, "get_version", lambda: runtime)()
    versions = (".".join(map(str, version)) for version in (runtime, supported))
    return DeviceInfo(name.decode() if isinstance(name, bytes) else name, total, free, *versions)


class Cuda:
    """The use of a CUDA device by one sweep: a stream for kernels, and one for copies each way.

    The device is the one of the calling thread until `close`.
    """

    def __init__(self, index: int = 0) -> None:
        cuda.current_context()  # for arrays that this thread frees after `close`
        self._current = ExitStack()
        self._current.enter_context(cuda.gpus[index])
        free_unused()  # of the slab before
        self.name = f"CUDA device {index}"
        self.incoming, self.computing, self.outgoing = (cuda.stream() for _ in range(3))
        self._scratch = Scratch()
        self._staged: list[np.ndarray] = []
        #: For each part of the staged memory, the event after its last copy.
        self._copied: list[Any] = []
        self._turns = itertools.cycle(range(2))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        with _translated(f"allocating {format_bytes(int(np.prod(shape)) * dtype.itemsize)}"):
            return cuda.device_array(shape, dtype)

    def fill(self, ring: Any, slot: int, value: Any) -> None:
        with _translated("filling a slice"):
            plane = np.full(ring.shape[1:], value, ring.dtype)
            ring[slot].copy_to_device(plane)

    def zeros(self, size: int) -> Any:
        with _translated(f"allocating {format_bytes(8 * size)}"):
            return cuda.to_device(np.zeros(size, np.int64))

    def taken(self, cells: Any) -> np.ndarray:
        with _translated("copying counts from the device"):
            self.computing.synchronize()
            found: np.ndarray = cells.copy_to_host()
            cells.copy_to_device(np.zeros_like(found))
            return found

    def reserve(self, size: int) -> None:
        with _translated(f"allocating {format_bytes(size)}"):
            self._scratch.reserve(size)

    def launch(self, kernel: str, *arguments: Any) -> None:
        with _translated(kernel), self._scratch.used():
            twin(kernel)(*with_blocks(arguments, _rows), stream=self.computing)

    def launched(self) -> Callable[[], None]:
        with _translated("waiting for device code"):
            event = cuda.event()
            event.record(self.computing)

        def wait() -> None:
            with _translated("waiting for device code"):
                event.synchronize()

        return wait

    def runs(self, mask: Block, links: np.ndarray, is_joined: bool) -> tuple[np.ndarray, ...]:
        with _translated("finding components"), self._scratch.used():
            rows, size, stream = _rows(mask), (mask.rows, mask.cols), self.computing
            counts = scratch_rows(1, 1, mask.depth * mask.rows + 1, np.int64, stream).lines[0]
            twin("labels.components.count_runs")(rows, *size, is_joined, counts, stream=stream)
            offsets = self._read(counts)
            offsets[1:], offsets[0] = np.cumsum(offsets[:-1]), 0
            counts.copy_to_device(offsets, stream=stream)
            if not offsets[-1]:
                return offsets, *np.zeros((3, 0), np.int32)
            runs = [
                scratch_rows(1, 1, int(offsets[-1]), np.int32, stream).lines[0] for _ in range(3)
            ]
            find = twin("labels.components.find_runs")
            find(rows, *size, links, is_joined, counts, *runs, stream=stream)
            return offsets, *map(self._read, runs)

    def _read(self, array: Any) -> np.ndarray:
        found: np.ndarray = array.copy_to_host(stream=self.computing)
        self.computing.synchronize()
        return found

    def to_device(self, voxels: Block, out: Block) -> None:
        with _translated("copying to the device"):
            self._wait(self.computing, self.incoming)  # kernels may still read the slots
            for a, b in _pieces(out):
                there = _flat(out, a, b)
                staged, turn = self._stage(out, b - a)
                for k in range(a, b):
                    staged[k - a, : out.rows, out.x : out.x + out.cols] = voxels.slice(k)
                there.copy_to_device(staged.reshape(-1)[: there.size], stream=self.incoming)
                self._copied[turn].record(self.incoming)
            self._wait(self.incoming, self.computing)

    def to_host(self, voxels: Block, out: Block) -> None:
        with _translated("copying from the device"):
            self._wait(self.computing, self.outgoing)
            waiting: tuple[int, np.ndarray, int] | None = None
            for a, b in _pieces(voxels):
                there = _flat(voxels, a, b)
                staged, turn = self._stage(voxels, b - a)
                there.copy_to_host(staged.reshape(-1)[: there.size], stream=self.outgoing)
                self._copied[turn].record(self.outgoing)
                self._take(waiting, voxels, out)
                waiting = a, staged, turn
            self._take(waiting, voxels, out)

    def _take(self, waiting: tuple[int, np.ndarray, int] | None, voxels: Block, out: Block) -> None:
        if waiting is not None:
            first, staged, turn = waiting
            self._copied[turn].synchronize()
            for k, plane in enumerate(staged, first):
                out.slice(k)[...] = plane[: voxels.rows, voxels.x : voxels.x + voxels.cols]

    def _stage(self, block: Block, slices: int) -> tuple[np.ndarray, int]:
        """Pinned memory for slices of a device ring, when its last copy has ended.

        A slice begins with its first row that is copied.
        """
        height, wide = block.ring.shape[1:]
        plane = _plane(block)
        if not self._staged or self._staged[0].size < plane * slices:
            self._synchronize()
            size = plane * min(slices_of_piece(plane), len(block.ring))
            self._staged = [cuda.pinned_array(size, np.uint8) for _ in range(2)]
            self._copied = [cuda.event() for _ in range(2)]
        turn = next(self._turns)
        self._copied[turn].synchronize()
        staged = self._staged[turn][: plane * slices].view(block.ring.dtype)
        return staged.reshape(slices, height, wide), turn

    @staticmethod
    def _wait(first: Any, then: Any) -> None:
        """Let a stream wait for the present work of another."""
        event = cuda.event()
        event.record(first)
        event.wait(then)

    def _synchronize(self) -> None:
        for stream in (self.incoming, self.computing, self.outgoing):
            stream.synchronize()

    def close(self) -> None:
        try:
            self._synchronize()
            self._scratch = Scratch()
            free_unused()
            self._current.close()
        except Exception:  # the device is lost, and the sweep's own error is raised
            return


def open_device(index: int) -> Cuda:
    with _translated("opening the device"):
        return Cuda(index)


def _rows(block: Block) -> Any:
    """The rows of a block for device code."""
    rows = block.as_rows
    return rows._replace(firsts=on_device(rows.firsts))


def _plane(block: Block) -> int:
    return int(np.prod(block.ring.shape[1:])) * block.ring.dtype.itemsize


def _pieces(block: Block) -> list[tuple[int, int]]:
    """Ranges of slices that are one piece of memory, as many as are copied at the same time."""
    slots, limit = block.slots, slices_of_piece(_plane(block))
    cuts = [0, *(np.flatnonzero(np.diff(slots) != 1) + 1).tolist(), len(slots)]
    return [
        (k, min(k + limit, stop))
        for start, stop in itertools.pairwise(cuts)
        for k in range(start, stop, limit)
    ]


def _flat(block: Block, a: int, b: int) -> Any:
    """Slices of a device ring, from the first row to the last, with all between, as a 1-D array."""
    _, height, wide = block.ring.shape
    first = (int(block.slots[a]) * height + block.y) * wide
    size = ((b - a - 1) * height + block.rows) * wide
    return block.ring.reshape(block.ring.size)[first : first + size]


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Raise errors of the driver as errors of this package."""
    try:
        yield
    except CudaAPIError as error:
        code = getattr(error, "code", None)
        if code in _OUT_OF_MEMORY or getattr(code, "name", None) in _OUT_OF_MEMORY:
            raise OutOfDeviceMemory(f"{doing}: {error}") from error
        raise DeviceLost(f"the CUDA device has failed while {doing}: {error}") from error
