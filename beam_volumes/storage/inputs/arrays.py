"""Numpy arrays as sources, and in-memory outputs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.claims import ANY, Watched
from beam_volumes.storage.places.context import callback, context
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.transfer import crc32
from beam_volumes.storage.sources.axes import DEFAULT_AXES, IndexRequest, select
from beam_volumes.storage.sources.source import Source, check_dtype

#: Larger arrays are not sent to other processes.
PORTABLE_BYTES = 1 << 20
#: Bytes of an array that are summarized at a time for its token.
_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class ArrayReader:
    """An array in memory, possibly memory-mapped, with the axes z, y, x after leading axes."""

    # Bytes in another byte order are swapped when they are copied. ``place`` identifies the content of a
    # memory-mapped file, if known; the token then does not need the content.

    array: np.ndarray
    extents: tuple[Extent, ...] = ()
    place: str | None = None
    _digest: list[str] = field(default_factory=list, repr=False)

    in_memory = True
    remote = False

    @property
    def portable(self) -> bool:
        return self.array.nbytes <= PORTABLE_BYTES

    def open(self) -> ts.TensorStore:
        if self.array.dtype.isnative:
            return ts.array(self.array, copy=False, write=False, context=context())
        dtype = self.array.dtype.newbyteorder("=")
        return ts.virtual_chunked(
            callback(self._read), dtype=dtype, shape=self.array.shape, context=context()
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: object) -> None:
        out[...] = self.array[domain.index_exp]

    def token(self) -> str:
        if not self._digest:
            dtype = self.array.dtype.newbyteorder("=")
            h = hashlib.blake2b(f"{dtype.str}{self.array.shape}".encode(), digest_size=16)
            if self.place is not None and not self.portable:
                h.update(self.place.encode())
                self._digest.append(h.hexdigest())
                return self._digest[0]
            for piece in _pieces(self.array):
                h.update(piece.data if self.portable else _summary(piece))
            self._digest.append(h.hexdigest())
        return self._digest[0]


@dataclass(frozen=True, eq=False)
class MappedMask:
    """Bytes of a file that is mapped as bool: nonzero is true. Only `open` has voxels, for all paths."""

    bytes: ArrayReader
    chunk: Triple

    in_memory = False
    remote = False

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.bytes.extents

    @property
    def portable(self) -> bool:
        return self.bytes.portable

    def open(self) -> ts.TensorStore:
        shape = self.bytes.array.shape
        return ts.virtual_chunked(
            callback(self._read),
            dtype=bool,
            shape=shape,
            chunk_layout=ts.ChunkLayout(chunk_shape=((1,) * (len(shape) - 3) + self.chunk)),
            context=context(),
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: object) -> None:
        np.not_equal(self.bytes.array[domain.index_exp], 0, out=out)

    def token(self) -> str:
        return f"mask of {self.bytes.token()}"


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the bytes of an array in pieces of whole planes, or whole rows of large planes."""
    for part in array if array[:1].nbytes > _PIECE else [array]:
        step = max(1, _PIECE // max(1, part[:1].nbytes))
        for at in range(0, len(part), step):
            native = np.ascontiguousarray(part[at : at + step], part.dtype.newbyteorder("="))
            yield native.reshape(-1).view(np.uint8)


def _summary(piece: np.ndarray) -> bytes:
    """Return the CRC-32 and the sum of the 64-bit words of a piece.

    A cryptographic hash would take longer than most kernels.
    """
    words = piece[: piece.size // 8 * 8].view(np.uint64)
    return f"{crc32(piece)} {words.sum()};".encode()


@dataclass(frozen=True, eq=False)
class ArraySink(Sink):
    """An output in this process's memory instead of at its place.

    It has the write units of the output it replaces, so the plan is the same for both.
    """

    _arrays: list[np.ndarray] = field(default_factory=list, repr=False)

    portable = False

    @classmethod
    def of(cls, sink: Sink) -> ArraySink:
        return cls(**{f.name: getattr(sink, f.name) for f in fields(sink)})

    @property
    def array(self) -> np.ndarray:
        """The voxels, once created; the array of a part is a view of the whole."""
        return self._arrays[0] if self.at is None else self._arrays[0][self.at]

    def exists(self) -> bool:
        return bool(self._arrays)

    def existing_run(self) -> str | None:
        return None

    def begun_run(self) -> str | None:
        return None

    def watched(self, run_id: str) -> Watched | None:
        return None

    def create(
        self,
        run_id: str,
        overwrite: bool = False,
        replaces: str | None = ANY,
        unfinished: Mapping[str, Any] | None = None,
        in_parts: bool = False,
        can_resume: bool = True,
    ) -> None:
        if not self._arrays:
            self._arrays.append(np.empty((*self.leading, *self.shape), self.dtype))

    def read_back(self) -> Source:
        return replace(super().read_back(), reader=ArraySinkReader(self), encoded=False)


@dataclass(frozen=True, eq=False)
class ArraySinkReader:
    """Reads the array of an `ArraySink`."""

    sink: ArraySink

    in_memory = True
    portable = False
    remote = False
    extents = ()

    @property
    def array(self) -> np.ndarray:
        return self.sink.array

    def open(self) -> ts.TensorStore:
        return ts.array(self.array, copy=False, write=False, context=context())

    def token(self) -> str:
        return self.sink.token()


def map_of(array: np.ndarray) -> np.memmap | None:
    """Return the memory map that an array is or is a view of, or None."""
    part: object = array
    found = None
    while isinstance(part, np.ndarray):
        if isinstance(part, np.memmap) and part.filename is not None:
            found = part
        part = part.base
    return found


def file_of(array: np.ndarray) -> str | None:
    """Return the file that an array's memory is a map of, by any library, or None."""
    whole = map_of(array)
    if whole is not None:
        return os.fspath(whole.filename)  # type: ignore[arg-type]
    part: object = array
    while isinstance(part, np.ndarray):
        part = part.base
    if part is None or not array.size:
        return None
    at = array.ctypes.data
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            for line in maps:
                span, _, _, _, inode, *name = line.split(None, 5)
                first, last = (int(end, 16) for end in span.split("-"))
                if first <= at < last:
                    path = name[0].rstrip("\n") if name and inode != "0" else ""
                    return path if os.path.isfile(path) else None
    except OSError:  # not Linux
        pass
    return None


def _place_of(array: np.ndarray, whole: np.memmap, name: str) -> str | None:
    """Return the identity of an array in a memory map: its file, position and modification time.

    None if the array may differ from the file (copy-on-write).
    """
    if whole.mode == "c":
        return None
    if whole.mode != "r":
        whole.flush()  # later writes change the modification time
    try:
        file = os.stat(name)
    except OSError:
        return None
    at = whole.offset + array.ctypes.data - whole.ctypes.data
    path = os.path.realpath(name)
    # Include some rows: another file may have this path now.
    rows = hashlib.blake2b(digest_size=16)
    for k in range(16):
        z, y = divmod(k * len(array) * array.shape[1] // 16, array.shape[1])
        rows.update(np.ascontiguousarray(array[z, y]).view(np.uint8).data)
    of = (path, at, array.strides, array.dtype.str, file.st_size, file.st_mtime_ns)
    return f"{of} {rows.hexdigest()}"


def refuse_masked(array: object) -> None:
    """Refuse a masked array: no operation here would honour its mask."""
    if isinstance(array, np.ma.MaskedArray):
        what = f"masked array of shape {array.shape}" if array.ndim else "masked number"
        raise TypeError(
            f"a {what} would lose its mask; fill it (a.filled(0)), or give a.data, and ~a.mask as "
            "mask= to functions that accept one"
        )


def open_array(array: np.ndarray, request: IndexRequest | None = None) -> Source:
    """Return a source of an array's voxels; the array must not change while it is used."""
    refuse_masked(array)
    name = f"a numpy array of shape {array.shape}"
    dtype = check_dtype(name, array.dtype)
    if array.ndim not in DEFAULT_AXES:
        raise ValueError(
            f"{name} has {array.ndim} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x)"
        )
    request = replace(request or IndexRequest(), keep=True)
    chosen = select(DEFAULT_AXES[array.ndim], array.shape, request, name)
    fixed = dict(chosen.fixed)
    view = np.asarray(array)[tuple(fixed.get(d, slice(None)) for d in range(array.ndim))]
    first = len(chosen.leading)
    shown = tuple(slice(None) if a in chosen.axes else None for a in AXES)
    view = view[(slice(None),) * first + shown]
    z, y, x = view.shape[first:]
    whole, file = map_of(array), file_of(array)
    if dtype.kind == "b":  # bytes that are viewed as bool: nonzero is true
        view = view.view(np.uint8)
        if whole is None:
            view = view != 0 if view.max(initial=0) > 1 else view.view(bool)
    place = None
    if whole is not None and file is not None and view.size:
        place = _place_of(view, whole, file)
    extents = [] if file is None else [Extent({"driver": "file", "path": file})]
    reader: ArrayReader | MappedMask
    reader = whole_array = ArrayReader(view, tuple(extents), place)
    chunk = 1, max(1, y), max(1, x)
    if view.dtype.kind != dtype.kind:
        chunk = 1, max(1, min(y, _PIECE // max(1, x))), max(1, x)
        reader = MappedMask(whole_array, chunk)
    return Source(
        name=name,
        shape=(z, y, x),
        dtype=dtype,
        chunk=chunk,
        space=chosen.space(),
        reader=reader,
        encoded=False,
        leading=view.shape[:first],
        leading_chunk=(1,) * first,
    )


def exact_array(given: object, what: str) -> np.ndarray:
    """Return numbers as an array that represents Python's integers exactly.

    numpy converts a mix of integers above and below 2**63 to float64, and larger ones to objects.

    >>> exact_array([1, 2**63 + 1], "index")
    array([                  1, 9223372036854775809], dtype=uint64)
    """
    array = np.asarray(given)
    if array.dtype.kind not in "fO" or (isinstance(given, np.ndarray) and array.dtype.kind == "f"):
        return array
    items = np.asarray(given, object).ravel().tolist()
    whole = [item for item in items if _is_whole(item)]
    if not whole:
        return array
    if len(whole) == len(items):
        low, high = int(min(whole)), int(max(whole))
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return np.asarray(given, object).astype(dtype)
        both = f"{low} and {high}: no integer dtype holds both"
        one = high if low >= -(2**63) else low
        too_large = not -(2**63) <= one < 2**64
        raise ValueError(f"{what} has {f'{one}: no integer dtype holds it' if too_large else both}")
    if array.dtype.kind == "f":
        for item in whole:
            if int(float(item)) != item:
                raise ValueError(
                    f"{what} has {item} next to fractional numbers; float64 would round it"
                )
    return array


def _is_whole(item: object) -> bool:
    return isinstance(item, int | np.integer) and not isinstance(item, bool)
