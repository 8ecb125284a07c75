"""Reads into and writes from arrays, with a bounded number of bytes in flight.

TensorStore copies directly between chunks and an array, which may be strided. It would start a
large transfer all at once and keep every encoded chunk in memory. Here a transfer is divided into
pieces of whole chunks, and a process-wide lane starts a piece when another ends. The memory for
chunks is therefore known: `in_flight` bytes.
"""

from __future__ import annotations

import itertools
import math
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.storage.places.context import context, threads
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.place import url

#: Target size of one piece, in decoded bytes.
PIECE = 4 << 20
#: Approximate memory that threads and the allocator keep after transfers.
KEPT = 16 << 20
_LOCAL, _MAXIMUM = 16 << 20, 64 << 20


def in_flight(chunk_bytes: int, threads: int, remote: bool) -> int:
    """Return the decoded bytes of chunks that a process reads, or writes, at a time."""
    # One chunk for each thread, up to 64 MiB; a larger chunk is processed alone. Buckets always get 64 MiB,
    # since more requests hide their latency.
    return max(
        chunk_bytes, _MAXIMUM if remote else max(_LOCAL, min(threads * chunk_bytes, _MAXIMUM))
    )


class Transfer:
    """A read or write in progress."""

    def __init__(self, verb: str, box: Box, handle: ts.TensorStore) -> None:
        self._of = verb, box, handle
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._left = 0
        self._error: BaseException | None = None

    @property
    def doing(self) -> str:
        """The action, for messages."""
        verb, box, handle = self._of
        return f"{verb} {box} of {describe(handle)}"

    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._done.is_set()

    def result(self, timeout: float | None = None) -> None:
        """Wait for the end; an error names the volume, the box and the remedy."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"{self.doing}: not done after {timeout} s")
        if self._error is not None:
            raise explain(self._error, self.doing) from None

    @property
    def failed(self) -> bool:
        return self._error is not None

    def _expect(self, pieces: int) -> None:
        self._left = pieces
        if not pieces:
            self._done.set()

    def _ended(self, error: BaseException | None) -> None:
        with self._lock:
            self._error = self._error or error
            self._left -= 1
            if not self._left:
                self._done.set()


#: Starts a piece, and calls its argument from any thread when the piece has ended. It must not
#: block: pieces start in TensorStore's threads.
Begin = Callable[[Callable[[BaseException | None], None]], None]


@dataclass(frozen=True)
class _Piece:
    """A piece of a transfer: its bytes, and the limit of all bytes in flight with it."""

    cost: int
    limit: int
    transfer: Transfer
    begin: Begin


class _Lane:
    """Starts pieces in order while the bytes in flight fit; one may always run."""

    def __init__(self) -> None:
        self._bytes = 0
        self._pumping = False
        self._lock = threading.Lock()
        self._waiting: deque[_Piece] = deque()

    def add(self, piece: _Piece) -> None:
        with self._lock:
            self._waiting.append(piece)

    def pump(self) -> None:
        """Start the pieces that fit now; it is called again whenever a piece ends.

        Only one thread at a time does so, to avoid recursion when pieces end at once.
        """
        with self._lock:
            if self._pumping:
                return
            self._pumping = True
        while (piece := self._next()) is not None:
            if piece.transfer.failed:
                self._end(piece, None)
                continue
            try:
                piece.begin(lambda error, piece=piece: self._ended(piece, error))  # type: ignore[misc]
            except Exception as error:
                self._end(piece, error)

    def _next(self) -> _Piece | None:
        with self._lock:
            piece = self._waiting[0] if self._waiting else None
            if piece is None or (self._bytes and self._bytes + piece.cost > piece.limit):
                # each piece that ends later pumps again
                self._pumping = False
                return None
            self._bytes += piece.cost
            return self._waiting.popleft()

    def _ended(self, piece: _Piece, error: BaseException | None) -> None:
        self._end(piece, error)
        self.pump()

    def _end(self, piece: _Piece, error: BaseException | None) -> None:
        with self._lock:
            self._bytes -= piece.cost
        piece.transfer._ended(error)


#: Pending futures, kept alive until their callbacks have run.
_flying: dict[int, Any] = {}


def _when(future: Any, then: Callable[[BaseException | None], None]) -> None:
    def ended(future: Any) -> None:
        _flying.pop(id(future), None)
        then(future.exception())

    _flying[id(future)] = future
    future.add_done_callback(ended)


_lanes = {(kind, remote): _Lane() for kind in ("read", "write") for remote in (False, True)}


def read_into(handle: ts.TensorStore, box: Box, out: np.ndarray) -> Transfer:
    """Start reading a box inside the handle's domain into an array of its shape and dtype, possibly strided.

    ``out`` must not be used until the transfer is done.
    """
    _check(handle, box, out)
    layout = handle.chunk_layout
    chunk = _or_shape(layout.read_chunk.shape, handle.shape)
    shard = _or_shape(layout.write_chunk.shape, chunk)
    origin = _or_shape(layout.grid_origin, (0, 0, 0))
    inner = math.prod(-(-s // c) for s, c in zip(shard, chunk, strict=True))
    itemsize = out.dtype.itemsize
    # Each piece of a shard reads the shard's index again: keep that below a hundredth.
    target = max(PIECE, 128 * 16 * inner) if inner > 1 else PIECE
    transfer = Transfer("reading", box, handle)
    remote = _remote(handle)
    lane, limit = _lanes["read", remote], in_flight(math.prod(chunk) * itemsize, threads(), remote)
    target_store = ts.array(out, dtype=handle.dtype, copy=False, write=True, context=context())
    pieces = list(_pieces(box, chunk, origin, target // itemsize)) if out.size else []
    transfer._expect(len(pieces))
    for piece in pieces:
        local = piece.translate([-a for a in box.start])

        def begin(then: Any, piece: Box = piece, local: Box = local) -> None:
            there = target_store[local.slices][ts.d[:].translate_to[piece.start]]
            _when(there.write(handle[piece.slices]).commit, then)

        cost = _decoded(piece, chunk, origin) * itemsize
        lane.add(_Piece(cost, limit, transfer, begin))
    lane.pump()
    return transfer


def read_channels(
    handle: ts.TensorStore, parts: Sequence[tuple[int, Box, np.ndarray]], remote: bool
) -> Transfer:
    """Start reading boxes of several channels into arrays, if chunks contain several channels.

    ``handle`` has the axes c, z, y, x; ``parts`` are channels, boxes and arrays.
    """
    # Each chunk is decoded once, into an array of all requested channels, and copied from there.
    channels = [c for c, _, _ in parts]
    first, last = min(channels), max(channels) + 1
    z, y, x = (
        (min(b.start[a] for _, b, _ in parts), max(b.stop[a] for _, b, _ in parts))
        for a in range(3)
    )
    box = Box((z[0], y[0], x[0]), (z[1], y[1], x[1]))
    layout = handle.chunk_layout
    chunk4 = [
        c or n for c, n in zip(layout.read_chunk.shape or (None,) * 4, handle.shape, strict=True)
    ]
    chunk = _or_shape(chunk4[1:], handle.shape[1:])
    origin = _or_shape((layout.grid_origin or (0, 0, 0, 0))[1:], (0, 0, 0))
    itemsize = handle.dtype.numpy_dtype.itemsize
    voxel_bytes = max(chunk4[0], last - first) * itemsize
    transfer = Transfer("reading", box, handle)
    lane = _lanes["read", remote]
    limit = in_flight(math.prod(chunk) * voxel_bytes, threads(), remote)
    pieces = list(_pieces(box, chunk, origin, PIECE // voxel_bytes)) if box.size else []
    transfer._expect(len(pieces))
    for piece in pieces:

        def begin(then: Any, piece: Box = piece) -> None:
            decoded = np.empty((last - first, *piece.shape), handle.dtype.numpy_dtype)

            def ended(error: BaseException | None) -> None:
                for c, wanted, out in parts if error is None else ():
                    common = piece.intersect(wanted)
                    if common.size:
                        to = common.translate([-a for a in wanted.start]).slices
                        of = common.translate([-a for a in piece.start]).slices
                        out[to] = decoded[c - first][of]
                then(error)

            into = ts.array(decoded, dtype=handle.dtype, copy=False, write=True, context=context())
            z, y, x = piece.slices
            there = handle[first:last, z, y, x]
            _when(into.write(there).commit, ended)

        lane.add(_Piece(_decoded(piece, chunk, origin) * voxel_bytes, limit, transfer, begin))
    lane.pump()
    return transfer


def write_units(handle: ts.TensorStore, box: Box, array: np.ndarray) -> Transfer:
    """Start writing whole units: each is one write to the store, without reading.

    ``array``, possibly strided, must not be changed until the transfer is done.
    """
    # ``box`` starts on the grid of write units and ends on it or at the edge of the volume. Units at the far
    # edges count as whole; their parts outside the volume are written as the fill value. ``array`` has the
    # handle's dtype, or bool for 0 and 1 of one byte. If units contain several channels, both have a fourth
    # axis for them.
    if array.dtype == bool and handle.dtype.numpy_dtype in (np.uint8, np.int8):
        array = array.view(handle.dtype.numpy_dtype)
    _check(handle, box, array)
    layout = handle.chunk_layout.write_chunk.shape
    unit = _or_shape(layout and layout[:3], handle.shape[:3])
    for axis, a, b, u, n in zip("zyx", box.start, box.stop, unit, handle.shape[:3], strict=True):
        if a % u or (b % u and b != n):
            raise ValueError(
                f"writing {box} of {describe(handle)}: {axis} {a}:{b} is not made of whole write units "
                f"of {u} (volume {n}); align the slabs to the units {unit}"
            )
    transfer = Transfer("writing", box, handle)
    remote = _remote(handle)
    cost = math.prod((*unit, *array.shape[3:])) * array.dtype.itemsize
    lane, limit = _lanes["write", remote], in_flight(cost, threads(), remote)
    source = ts.array(array, dtype=handle.dtype, copy=False, context=context())
    units = list(_pieces(box, unit, (0, 0, 0), 1)) if array.size else []
    transfer._expect(len(units))
    for piece in units:
        local = piece.translate([-a for a in box.start])

        def begin(then: Any, piece: Box = piece, local: Box = local) -> None:
            data = source[local.slices][ts.d[:3].translate_to[piece.start]]
            _write_unit(handle, piece, unit, data, then)

        lane.add(_Piece(cost, limit, transfer, begin))
    lane.pump()
    return transfer


def _write_unit(
    handle: ts.TensorStore, piece: Box, unit: Triple, data: ts.TensorStore, then: Any
) -> None:
    ends = not any(handle.domain.implicit_upper_bounds)  # the store has the extent of the volume
    layout = handle.chunk_layout
    many = ends and layout.read_chunk.shape != layout.write_chunk.shape
    if (ends or piece.shape == unit) and not many:
        write = handle[piece.slices].write(data, can_reference_source_data_indefinitely=True)
        _when(write.commit, then)
        return
    # One transaction covers the unit with all chunks of a shard, so TensorStore reads nothing.
    transaction = ts.Transaction()
    store = handle.with_transaction(transaction)
    parts: list[tuple[Box, Any]] = [(piece, data)]
    stop = list(piece.stop)
    for axis, u in enumerate(unit):
        end = piece.start[axis] + u
        if stop[axis] < end and not ends:
            start = (*piece.start[:axis], stop[axis], *piece.start[axis + 1 :])
            beyond = Box(start, (*stop[:axis], end, *stop[axis + 1 :]))  # type: ignore[arg-type]
            parts.append((beyond, 0 if handle.fill_value is None else handle.fill_value))
            stop[axis] = end
    left, failed = len(parts), None
    lock = threading.Lock()

    def copied(error: BaseException | None) -> None:
        nonlocal left, failed
        with lock:
            left, failed = left - 1, failed or error
            if left:
                return
        if failed is None:
            _when(transaction.commit_async(), then)
        else:
            transaction.abort()
            then(failed)

    for box, value in parts:
        write = store[box.slices].write(value, can_reference_source_data_indefinitely=True)
        _when(write.copy, copied)


def describe(handle: ts.TensorStore) -> str:
    """Return the name of an opened array for messages."""
    if handle.kvstore is None:
        return "the volume"
    # TensorStore leaks some 250 bytes each time: only use this for messages.
    spec = handle.kvstore.spec().to_json()
    # TensorStore has no URL for S3 servers other than Amazon's.
    text = url(spec) if "bucket" in spec else str(handle.kvstore.url)
    return text.removeprefix("file://").rstrip("/")


def _remote(handle: ts.TensorStore) -> bool:
    if handle.kvstore is None:
        return False
    try:
        return not str(handle.kvstore.url).startswith(("file:", "memory:"))
    except (NotImplementedError, ValueError):  # no URL for S3 servers other than Amazon's
        return True


def _check(handle: ts.TensorStore, box: Box, array: np.ndarray) -> None:
    if array.shape[:3] != box.shape or array.ndim != handle.rank:
        raise ValueError(f"an array of shape {array.shape} does not fit {box} of shape {box.shape}")
    if array.dtype != handle.dtype.numpy_dtype:
        raise TypeError(
            f"an array of {array.dtype} does not fit {describe(handle)} of {handle.dtype.name}"
        )
    domain = Box(handle.domain.inclusive_min[:3], handle.domain.exclusive_max[:3])  # type: ignore[arg-type]
    if not domain.contains(box):
        raise ValueError(f"the box {box} reaches outside {describe(handle)} of {domain}")


def _or_shape(values: Sequence[int | None] | None, default: Sequence[int]) -> Triple:
    z, y, x = (v or d for v, d in zip(values or (None, None, None), default, strict=True))
    return (z, y, x)


def _pieces(box: Box, chunk: Triple, origin: Triple, voxels: int) -> Iterator[Box]:
    """Cut a box into pieces of whole chunks, each of about ``voxels`` or one chunk."""
    step = list(chunk)
    for axis in (2, 1, 0):
        have = math.prod(step)
        extent = box.stop[axis] - box.start[axis]
        wanted = max(1, voxels // max(1, have))
        step[axis] = chunk[axis] * wanted
        if step[axis] < extent + chunk[axis]:
            break
    cuts = []
    for a, b, s, o in zip(box.start, box.stop, step, origin, strict=True):
        first = a + s - (a - o) % s
        edges = [a, *range(first, b, s), b]
        cuts.append(list(itertools.pairwise(edges)))
    for z in cuts[0]:
        for y in cuts[1]:
            for x in cuts[2]:
                yield Box((z[0], y[0], x[0]), (z[1], y[1], x[1]))


def _decoded(box: Box, chunk: Triple, origin: Triple) -> int:
    """Return the number of voxels in all chunks that a box touches."""
    n = 1
    for a, b, c, o in zip(box.start, box.stop, chunk, origin, strict=True):
        n *= c * ((b - 1 - o) // c - (a - o) // c + 1)
    return n


#: Bytes of strided voxels that are copied at a time, so they stay in the processor's cache.
_COPY = 1 << 18


@lru_cache(maxsize=1)
def _fastest() -> Callable[[Any, int], int]:
    try:
        import imagecodecs  # libdeflate's takes a third of the time

        if imagecodecs.deflate_crc32(b"crc32", 0) == zlib.crc32(b"crc32"):
            return imagecodecs.deflate_crc32
    except ImportError:  # not installed, or built without it
        pass
    return zlib.crc32


def crc32(data: Any, found: int = 0) -> int:
    """Return the CRC-32 of bytes that follow bytes with the CRC-32 ``found``."""
    return _fastest()(data, found)


def checksum(voxels: np.ndarray) -> int:
    """Return the checksum of a unit's voxels.

    >>> checksum(np.arange(8, dtype="u1").reshape(2, 2, 2)) == zlib.crc32(bytes(range(8)))
    True
    """
    found = 0
    planes = max(1, _COPY // max(1, voxels[:1].nbytes))
    rows = max(1, _COPY // max(1, voxels[:1, :1].nbytes))
    for z in range(0, len(voxels), planes):
        some = voxels[z : z + planes]
        for y in range(0, some.shape[1], rows) if planes == 1 else (0,):
            part = np.ascontiguousarray(some[:, y : y + rows] if planes == 1 else some)
            found = crc32(part.reshape(-1).view(np.uint8), found)
    return found
