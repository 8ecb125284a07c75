"""Direct storage: reads of raw chunks on a disk straight to the ring of a device, by kvikio.

A chunk is read into a buffer of the device, and device code copies its voxels to the ring.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.raw import RawChunk, RawChunks, raw_chunks
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.device import Device, DeviceLost
from beam_volumes.sweep.rings import Ring
from beam_volumes.sweep.stage import Block

#: Chunks of a source that are read at the same time.
BUFFERS = 4
#: Bytes of the host for kvikio's own buffers: two of its default size.
KVIKIO_BYTES = 32 << 20

_INSTALL = "install it with: pip install 'beam-volumes[cuda]'"


def reason_against(source: Source) -> str:
    """Why a source cannot be read straight to a device; empty if it can."""
    if source.in_memory:
        return "it is in memory"
    chunks = raw_chunks(source)
    return chunks if isinstance(chunks, str) else _missing()


def way() -> str:
    """How kvikio reads on this machine."""
    if reason := _missing():
        return f"but not on this machine: {reason}"
    if import_module("kvikio.cufile_driver").get("is_gds_available"):
        return "by GPUDirect Storage"
    return "by kvikio's POSIX reads, because this machine has no GPUDirect Storage"


def _missing() -> str:
    try:
        import_module("kvikio")
    except (ImportError, OSError, RuntimeError) as error:  # it, or a library that it loads
        name = getattr(error, "name", None) or "kvikio"
        return f"the package {name} is missing; {_INSTALL}"
    return ""


class _Chunk(NamedTuple):
    raw: RawChunk
    wanted: Box  #: A part of its box.
    ring: Ring


class _Started(NamedTuple):
    chunk: _Chunk
    buffer: Any
    reading: _Reading


class _Reading:
    """A chunk that is being read to a buffer, or the error that prevents it."""

    def __init__(self, path: str, at: int, size: int, buffer: Any, is_fill: bool):
        self._path, self._size = path, size
        self._begun: Any = None
        self._error: Exception | None = None
        if not path:
            return
        try:
            found = os.stat(path).st_size
            if found < at + size if at else found != size:
                raise VolumeError(
                    f"{path} has {found:,} bytes instead of {at + size:,}: the stored data are "
                    "damaged: restore or rewrite them"
                )
            file = import_module("kvikio").CuFile(path)
            self._begun = file, file.pread(buffer, size, at)
        except FileNotFoundError:
            if not is_fill:
                self._error = VolumeError(f"{path}, a chunk of the volume, is missing: restore it")
        except Exception as error:
            self._error = error

    def result(self) -> bool:
        """Wait for the end, and return whether the chunk is stored."""
        try:
            if self._error is not None:
                raise self._error
            if self._begun is None:
                return False
            file, reading = self._begun
            with file:
                found = reading.get()
            if found != self._size:
                raise RuntimeError(f"{found:,} of {self._size:,} bytes were read")
        except VolumeError:
            raise
        except Exception as error:  # kvikio's are RuntimeErrors
            raise OSError(f"{self._path} cannot be read to the device: {error}") from error
        return True


class DirectReader:
    """Starts reads of a source's boxes into its ring, in the order of calls."""

    def __init__(self, source: Source, device: Device):
        chunks = raw_chunks(source)
        reason = chunks if isinstance(chunks, str) else _missing()
        if reason or not isinstance(chunks, RawChunks):
            raise DeviceLost(f"the plan reads {source.name} straight to the device: {reason}")
        # Opened for its fill value, and to refuse a volume that has changed.
        fill = source.open().fill_value
        self._bits = np.dtype(f"u{source.dtype.itemsize}")
        self._fill = np.asarray(0 if fill is None else fill, source.dtype).view(self._bits)[()]
        self._source, self._chunks, self._device = source, chunks, device
        #: Buffers without a read, each with a function that waits for its last copy.
        self._free = deque(
            (device.empty(chunks.chunk, self._bits), device.launched()) for _ in range(BUFFERS)
        )
        self._waiting: deque[_Chunk] = deque()
        self._started: deque[_Started] = deque()
        self._asked = self._copied = 0

    def __call__(self, box: Box, ring: Ring) -> DirectRead:
        """Start reading a box."""
        for raw in self._chunks.touched(box):
            self._waiting.append(_Chunk(raw, raw.box.intersect(box), ring))
            self._asked += 1
        self._start()
        return DirectRead(self, self._asked)

    def wait(self, count: int) -> None:
        """Wait until the first chunks are read, and start to copy them to the ring."""
        try:
            while self._copied < count:
                self._finish()
        except BaseException:
            for started in self._started:  # into buffers that will be freed
                with contextlib.suppress(Exception):
                    started.reading.result()
            self._waiting.clear()
            self._started.clear()
            raise

    def _start(self) -> None:
        while self._waiting and self._free:
            chunk, (buffer, wait) = self._waiting.popleft(), self._free.popleft()
            wait()
            path, at, box = chunk.raw
            size = box.size * self._bits.itemsize
            reading = _Reading(path, at, size, buffer, self._chunks.is_fill)
            self._started.append(_Started(chunk, buffer, reading))

    def _finish(self) -> None:
        chunk, buffer, reading = self._started.popleft()
        self._copy(chunk, buffer, reading.result())
        self._copied += 1
        self._free.append((buffer, self._device.launched()))
        self._start()

    def _copy(self, chunk: _Chunk, buffer: Any, is_stored: bool) -> None:
        (z, y, x), ring = chunk.wanted.ranges, chunk.ring
        rows, cols = y[1] - y[0], x[1] - x[0]
        slots = ring.slots(np.arange(*z, dtype=np.int64))
        out = Block(ring.array.view(self._bits), slots, y[0] - ring.y, x[0] - ring.x, rows, cols)
        depth, height, wide = chunk.raw.box.shape
        voxels = Block(buffer, np.arange(depth, dtype=np.int64), 0, 0, height, wide)
        indices = [
            np.arange(a - first, b - first, dtype=np.int64)
            for (a, b), first in zip((z, y, x), chunk.raw.box.start, strict=True)
        ]
        if not is_stored:
            indices[0][:] = -1
        self._device.launch(
            "geometry.resample.gather", voxels, out, 0, rows, cols, *indices, self._fill
        )


class DirectRead:
    """A read that has started."""

    def __init__(self, reader: DirectReader, count: int):
        self._reader, self._count = reader, count

    def result(self) -> None:
        """Wait for the chunks; kernels that are launched afterwards see their voxels."""
        self._reader.wait(self._count)
