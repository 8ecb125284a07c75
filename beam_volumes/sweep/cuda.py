"""CUDA devices by numba, for `beam_volumes.sweep.device`.

Voxels cross the bus in whole rows of a ring, which are one piece of memory on both sides, several slices
at a time. Margins of rows are filled afterwards. The host prepares slices in pinned memory while the
previous ones are copied.

Kernels and copies each way have a stream, and wait for each other by events: kernels for all copies to the
device so far, and a copy for the last kernel that uses its slots. So a copy of a window runs at the same
time as the kernels of another one.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from beam_volumes.sweep.resources import in_strips
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
    """The use of a CUDA device by the sweeps of one arena, one after the other.

    It has a stream for kernels, and one for copies each way. Memory is kept for sweeps of the same program.
    """

    def __init__(self, index: int = 0) -> None:
        self.index, self.name = index, f"CUDA device {index}"
        with cuda.gpus[index]:
            self.incoming, self.computing, self.outgoing = (cuda.stream() for _ in range(3))
        self._threads = 1
        self._program: Callable[[], Any] = lambda: None
        self._forget()

    def _forget(self) -> None:
        #: The memory of arrays, in the order of calls of `empty`.
        self._memory: list[Any] = []
        self._taken = 0
        self._scratch = Scratch()
        self._staged_in, self._staged_out = _Staging(), _Staging()
        #: Arrays that are copied to or from the host, by `id`, and for each slot the event after the
        #: last kernel that uses it.
        self._used: dict[int, tuple[Any, np.ndarray]] = {}

    @contextmanager
    def used(self, program: Any = None, threads: int = 1) -> Iterator[None]:
        cuda.current_context()  # for arrays that this thread frees afterwards
        with cuda.gpus[self.index]:
            if self._program() is not program:
                self._forget()
                self._program = weakref.ref(program)
            free_unused()  # of the slab before
            self._threads, self._taken = threads, 0
            yield
            with _translated("waiting for device code"):
                self._synchronize()
            self._used.clear()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        size = int(np.prod(shape)) * dtype.itemsize
        with _translated(f"allocating {format_bytes(size)}"):
            if not size:
                return cuda.device_array(shape, dtype)
            if self._taken == len(self._memory):
                self._memory.append(None)
            k, self._taken = self._taken, self._taken + 1
            if self._memory[k] is None or self._memory[k].size < size:
                self._memory[k] = None  # free the old piece first
                free_unused()
                self._memory[k] = cuda.device_array(size, np.uint8)
            return self._memory[k][:size].view(dtype).reshape(shape)

    def fill(self, ring: Any, slot: int, value: Any) -> None:
        with _translated("filling a slice"):
            plane = np.full(ring.shape[1:], value, ring.dtype)
            ring[slot].copy_to_device(plane, stream=self.computing)

    def zeros(self, size: int) -> Any:
        with _translated(f"allocating {format_bytes(8 * size)}"):
            return cuda.to_device(np.zeros(size, np.int64), stream=self.computing)

    def taken(self, cells: Any) -> np.ndarray:
        with _translated("copying counts from the device"):
            found = self._read(cells)
            cells.copy_to_device(np.zeros_like(found), stream=self.computing)
            return found

    def reserve(self, size: int) -> None:
        with _translated(f"allocating {format_bytes(size)}"):
            self._scratch.reserve(size)

    def launch(self, kernel: str, *arguments: Any) -> None:
        with _translated(kernel), self._scratch.used():
            twin(kernel)(*with_blocks(arguments, self._rows), stream=self.computing)
            self._note_used(arguments)

    def _rows(self, block: Block) -> Any:
        """The rows of a block for device code."""
        rows = block.as_rows
        return rows._replace(firsts=on_device(rows.firsts, self.computing))

    def _note_used(self, arguments: tuple[Any, ...]) -> None:
        """Note that a kernel has been started that uses blocks, or all slots of arrays."""
        blocks: list[Block] = []
        with_blocks(arguments, blocks.append)
        slots = [(b.ring, b.slots) for b in blocks] + [(a, slice(None)) for a in arguments]
        noted = [(self._used[id(ring)][1], at) for ring, at in slots if id(ring) in self._used]
        if noted:
            event = self._recorded(self.computing)
            for events, at in noted:
                events[at] = event

    def _wait_for_kernels(self, block: Block, stream: Any) -> None:
        """Let a stream wait for the kernels so far that use a block of an array."""
        ring = block.ring
        if id(ring) not in self._used:
            events = np.full(len(ring), self._recorded(self.computing), object)
            self._used[id(ring)] = ring, events
        for event in set(self._used[id(ring)][1][block.slots]):
            event.wait(stream)

    @staticmethod
    def _recorded(stream: Any) -> Any:
        """An event after the present work of a stream."""
        event = cuda.event()
        event.record(stream)
        return event

    def launched(self) -> Callable[[], None]:
        with _translated("waiting for device code"):
            event = self._recorded(self.computing)

        def wait() -> None:
            with _translated("waiting for device code"):
                event.synchronize()

        return wait

    def runs(self, mask: Block, links: np.ndarray, is_joined: bool) -> tuple[np.ndarray, ...]:
        with _translated("finding components"), self._scratch.used():
            rows, size, stream = self._rows(mask), (mask.rows, mask.cols), self.computing
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
            self._wait_for_kernels(out, self.incoming)
            for a, b in _pieces(out):
                staged, copied = self._staged_in.taken(out, b - a)
                self._copy(_inside(staged, out), [voxels.slice(k) for k in range(a, b)])
                there = _flat(out, a, b)
                there.copy_to_device(staged.reshape(-1)[: there.size], stream=self.incoming)
                copied.record(self.incoming)
            self._recorded(self.incoming).wait(self.computing)

    def to_host(self, voxels: Block, out: Block) -> None:
        with _translated("copying from the device"):
            self._wait_for_kernels(voxels, self.outgoing)
            finish: list[Callable[[], None]] = []
            for a, b in _pieces(voxels):
                finish.append(self._start_to_host(voxels, out, a, b))
                if len(finish) == 2:  # the host copies one part while the other is copied
                    finish.pop(0)()
            for last in finish:
                last()

    def _start_to_host(self, voxels: Block, out: Block, a: int, b: int) -> Callable[[], None]:
        """Start to copy a piece, and return a function that waits and copies it from pinned memory."""
        staged, copied = self._staged_out.taken(voxels, b - a)
        there = _flat(voxels, a, b)
        there.copy_to_host(staged.reshape(-1)[: there.size], stream=self.outgoing)
        copied.record(self.outgoing)

        def finish() -> None:
            copied.synchronize()
            self._copy([out.slice(k) for k in range(a, b)], _inside(staged, voxels))

        return finish

    def _copy(self, to: Any, voxels: Any) -> None:
        """Copy slices between rings of the host and pinned memory, in threads."""

        def strip(a: int, b: int) -> None:
            for plane, source in zip(to[a:b], voxels[a:b], strict=True):
                plane[...] = source

        in_strips(len(to), len(to) * to[0].size, self._threads, strip)

    def _synchronize(self) -> None:
        for stream in (self.incoming, self.computing, self.outgoing):
            stream.synchronize()

    def close(self) -> None:
        try:
            with cuda.gpus[self.index]:
                self._synchronize()
                self._forget()
                free_unused()
        except Exception:  # the device is lost, and the sweep's own error is raised
            return


class _Staging:
    """Pinned memory for copies one way, in two parts: the host uses one while the other is copied."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []
        #: For each part, the event after its last copy.
        self._copied: list[Any] = []
        self._turns = itertools.cycle(range(2))

    def taken(self, block: Block, slices: int) -> tuple[np.ndarray, Any]:
        """A part for slices of a device ring, when its last copy has ended, and its event.

        A slice begins with its first row that is copied.
        """
        height, wide = block.ring.shape[1:]
        plane = _plane(block)
        if not self._parts or self._parts[0].size < plane * slices:
            for event in self._copied:
                event.synchronize()
            size = plane * min(slices_of_piece(plane), len(block.ring))
            self._parts = [cuda.pinned_array(size, np.uint8) for _ in range(2)]
            self._copied = [cuda.event() for _ in range(2)]
        turn = next(self._turns)
        self._copied[turn].synchronize()
        staged = self._parts[turn][: plane * slices].view(block.ring.dtype)
        return staged.reshape(slices, height, wide), self._copied[turn]


def open_device(index: int) -> Cuda:
    with _translated("opening the device"):
        return Cuda(index)


def _plane(block: Block) -> int:
    return int(np.prod(block.ring.shape[1:])) * block.ring.dtype.itemsize


def _inside(staged: np.ndarray, block: Block) -> np.ndarray:
    """The voxels of a block in pinned memory."""
    return staged[:, : block.rows, block.x : block.x + block.cols]


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
