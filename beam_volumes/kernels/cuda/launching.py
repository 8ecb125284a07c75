"""Launch of device code, and the device memory it needs.

All modules next to this one make their kernels here, and no other module asks for a device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda
from numba.core import config

from beam_volumes.kernels.rows import Rows

#: Whether device code is interpreted by numba's simulator.
SIMULATED = bool(config.ENABLE_CUDASIM)  # type: ignore[attr-defined]
# A window of a small volume is a small grid, about which numba would warn.
config.CUDA_LOW_OCCUPANCY_WARNINGS = False  # type: ignore[attr-defined]
#: Threads of a block along x, y and z. A warp reads neighbouring voxels of a row. In the simulator it is one:
#: when a thread leaves a device function, the simulator's `cuda` is taken from the others, too.
THREADS = (1, 1, 1) if SIMULATED else (32, 4, 2)
#: At most this many blocks along x, y and z; a thread then computes several voxels.
BLOCKS = (2, 2, 1) if SIMULATED else (2**16 - 1,) * 3
#: Bytes to which intermediate results are aligned, for any dtype.
_ALIGNED = 8


def device_function(function: Callable[..., Any]) -> Any:
    """Compile a function that device code calls. The simulator calls it as it is."""
    return function if SIMULATED else cuda.jit(device=True)(function)


def per_voxel(body: Callable[..., None]) -> Any:
    """Make a kernel that calls ``body(k, y, x, *arguments)`` for every voxel of a box."""
    # One voxel per thread is simple, and neighbouring threads read the same voxels from the caches. Tiles in
    # shared memory may be faster, which only measurements on a device can show.
    voxel = cuda.jit(device=True)(body)

    @cuda.jit
    def kernel(slices, rows, cols, arguments):
        x0, y0, k0 = cuda.grid(3)  # type: ignore
        step_x, step_y, step_k = cuda.gridsize(3)
        for k in range(k0, slices, step_k):
            for y in range(y0, rows, step_y):
                for x in range(x0, cols, step_x):
                    voxel(k, y, x, *arguments)

    return kernel


def launch(kernel: Any, box: tuple[int, int, int], stream: Any, *arguments: Any) -> None:
    """Start a kernel of `per_voxel` for ``slices, rows, cols``, without waiting for its end."""
    if min(box) <= 0:
        return
    threads = tuple(min(t, n) for t, n in zip(THREADS, box[::-1], strict=True))
    wanted = (-(-n // t) for n, t in zip(box[::-1], threads, strict=True))
    blocks = tuple(min(b, limit) for b, limit in zip(wanted, BLOCKS, strict=True))
    kernel[blocks, threads, stream or 0](*box, arguments)


def on_device(array: Any, stream: Any = None) -> Any:
    """A parameter, such as weights, as a device array for a stream.

    Equal parameters are copied only once.
    """
    if not isinstance(array, np.ndarray):
        return array
    array = np.ascontiguousarray(array)
    return _copied(stream or _device(), array.tobytes(), array.dtype.str, array.shape)


@lru_cache(maxsize=1024)
def _copied(where: Any, content: bytes, dtype: str, shape: tuple[int, ...]) -> Any:
    # Copied in the order of the stream: without one, a copy would wait for all streams.
    stream = 0 if isinstance(where, int) else where
    return cuda.to_device(np.frombuffer(content, dtype).reshape(shape), stream=stream)


def _device() -> int:
    return 0 if SIMULATED else int(cuda.get_current_device().id)


class Scratch:
    """Device memory for intermediate results, which all launches on a stream use one after the other.

    Otherwise each launch would allocate its own, which takes long, and numba frees memory only after a while.
    """

    def __init__(self) -> None:
        self._memory: Any = None
        self._used = 0

    def reserve(self, size: int) -> None:
        """Have memory for launches that need up to ``size`` bytes."""
        if size and (self._memory is None or self._memory.size < size):
            self._memory = None
            free_unused()
            self._memory = cuda.device_array(size, np.uint8)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Let `scratch_rows` of a launch take this memory."""
        self._used = 0
        token = _scratch.set(self)
        try:
            yield
        finally:
            _scratch.reset(token)

    def take(self, shape: tuple[int, int], dtype: np.dtype) -> Any:
        """A part of the memory, or None if there is not enough."""
        start, size = self._used, shape[0] * shape[1] * dtype.itemsize
        if self._memory is None or start + size > self._memory.size:
            return None
        self._used += -(-size // _ALIGNED) * _ALIGNED
        return self._memory[start : start + size].view(dtype).reshape(shape)


_scratch: ContextVar[Scratch | None] = ContextVar("scratch", default=None)


def free_unused() -> None:
    """Wait for the device, and free memory without users."""
    if not SIMULATED:
        cuda.current_context().deallocations.clear()


def scratch_rows(slices: int, rows: int, cols: int, dtype: Any, stream: Any) -> Rows:
    """Uninitialized rows in device memory, for intermediate results."""
    shape, kind, own = (slices * rows, cols), np.dtype(dtype), _scratch.get()
    lines = own.take(shape, kind) if own is not None else None
    if lines is None:
        lines = cuda.device_array(shape, kind, stream=stream or 0)
    return Rows(lines, on_device(np.arange(slices) * rows, stream), 0)


def unsigned(rows: Rows) -> Rows:
    """The same rows as unsigned integers of the voxels' width."""
    return viewed(rows, np.dtype(f"u{rows.lines.dtype.itemsize}"))


def numbers(rows: Rows) -> Rows:
    """The same rows, with bool as uint8."""
    return viewed(rows, np.dtype("u1")) if rows.lines.dtype == np.bool_ else rows


def viewed(rows: Rows, dtype: np.dtype) -> Rows:
    same = rows.lines.dtype == dtype
    return rows if same else Rows(rows.lines.view(dtype), rows.firsts, rows.left)
