"""Voxels of HDF5 datasets: chunks that are read at their positions, or parts that h5py reads.

h5py returns the positions of chunks. They are read and decoded here, on TensorStore's threads,
since h5py has one global lock. Encodings that only its library supports are read through h5py,
under that lock; the reader's remark reports it.
"""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.text import printable
from beam_volumes.storage.formats.contiguous import copy_voxels
from beam_volumes.storage.formats.hdf5.arrays import Paths, got
from beam_volumes.storage.formats.hdf5.files import missing_files_of, opened_file
from beam_volumes.storage.formats.hdf5.filters import FLETCHER, OURS, SHUFFLE, undone
from beam_volumes.storage.places.context import callback, context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.positioned import Stamp, read_from, reading, stamp_of
from beam_volumes.storage.sources.axes import Selection
from beam_volumes.storage.sources.source import TokenOfFields

#: Maximal number of chunks that are listed: 16 bytes each.
MAX_CHUNKS = 1 << 22


@dataclass(frozen=True, eq=False)
class Hdf5Reader(TokenOfFields):
    """Equal datasets of an HDF5 file, joined along the axes that have several of them."""

    file: Spec
    others: tuple[str, ...]  #: Other files with some of its bytes
    datasets: Paths  #: One or several equal datasets, along axes before the axes of each
    #: Shape of a dataset, and of its visible part
    whole: tuple[int, ...]
    shape: tuple[int, ...]
    #: Chunk of a dataset; the part that is read at a time, if it has no chunks
    chunk: tuple[int, ...]
    #: The filters of its chunks with their parameters, in order of application
    filters: tuple[tuple[int, tuple[int, ...]], ...]
    fill: str  #: The fill value's bytes, as hexadecimal digits
    stored: str  #: The dtype in the file, with its byte order
    dtype: np.dtype  #: The dtype of the voxels
    scaling: tuple[np.ndarray, np.ndarray] | None  #: As in `arrays.Array`
    #: The selected dimensions, after the axes of ``datasets``
    chosen: Selection
    remark: str = ""  #: Why it is read through h5py under its lock; empty if it is not
    #: Whether missing sources are read as fill values; else they are an error
    fills: bool = False
    #: Missing files and datasets, and their replacements
    lost: Mapping[str, str] = field(default_factory=dict)

    portable = True
    remote = False

    @property
    def path(self) -> str:
        return str(self.file["path"])

    @property
    def extents(self) -> tuple[Extent, ...]:
        others = (Extent({"driver": "file", "path": path}) for path in self.others)
        return (Extent(self.file), *others)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (*self.datasets.sizes, *self.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The part of all dimensions that is read at a time."""
        each = (*(1 for _ in self.datasets.sizes), *self.chunk)
        return tuple(max(1, min(c, n)) for c, n in zip(each, self.sizes, strict=True))

    @property
    def codec(self) -> str:
        """A description of the encoding of chunks."""
        names = (OURS.get(number, f"filter {number}") for number, _ in self.filters)
        return ", then ".join(names) or "none"

    @property
    def decode_bytes(self) -> int:
        """The bytes of a chunk with all its points and channels, scaled as float64."""
        itemsize = self.dtype.itemsize if self.scaling is None else 8
        return math.prod(self.chunks) * itemsize

    def open(self) -> ts.TensorStore:
        stamp_of(self.path)  # raises if it is missing
        read = _Locked(self).read if self.remark else _Chunks(self).read
        store = ts.virtual_chunked(
            callback(read),
            dtype=self.dtype,
            shape=self.sizes,
            chunk_layout=ts.ChunkLayout(chunk_shape=self.chunks),
            context=context(),
        )
        return self.chosen.apply(store)

    # used by the opened array

    def at(self, domain: ts.IndexDomain) -> tuple[int, tuple[slice, ...]]:
        """Return the number of the dataset in a domain, and the part of it."""
        first = len(self.datasets.sizes)
        which = 0
        for n, a in zip(self.datasets.sizes, domain.inclusive_min, strict=False):
            which = which * n + a
        ends = zip(domain.inclusive_min[first:], domain.exclusive_max[first:], strict=True)
        return which, tuple(slice(a, b) for a, b in ends)

    def put(self, stored: np.ndarray, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Copy stored voxels of a part of a dataset to an array, scaled if necessary."""
        out = out[(0,) * (out.ndim - stored.ndim)]
        if self.scaling is None:
            copy_voxels(stored, out)
            return
        slope, intercept = self.scaling
        where = part[: slope.ndim]
        rest = (Ellipsis,) + (np.newaxis,) * (stored.ndim - slope.ndim)
        voxels = stored * slope[where][rest]
        voxels += intercept[where][rest]
        out[...] = voxels

    def node(self, file: Any, which: int) -> Any:
        """Return a dataset of an open file, checking that it has not changed."""
        name = f"{printable(self.path)}:{printable(self.datasets[which])}"
        node = got(file, self.datasets[which], check=False)  # it was checked when it was opened
        if node is None:
            raise VolumeError(f"{name} is missing; restore it, or leave it out by index=")
        actual = os.path.abspath(os.fsdecode(node.file.filename))
        if actual != os.path.abspath(self.path):
            raise VolumeError(
                f"{name} is in another file, {printable(actual)}; choose it by dataset="
            )
        if tuple(node.shape) != self.whole or stored_dtype(node).str != self.stored:
            raise VolumeError(
                f"{name} is {tuple(node.shape)} of {stored_dtype(node)}, not {self.whole} of "
                f"{np.dtype(self.stored)}; if it has changed since it was opened, open it again"
            )
        return node


class _Chunks:
    """Chunks that are located once, read at their positions, and decoded here."""

    def __init__(self, reader: Hdf5Reader) -> None:
        self._reader = reader
        self._counts = tuple(-(-n // c) for n, c in zip(reader.whole, reader.chunk, strict=True))
        self._lock = threading.Lock()
        self._stamp: Stamp | None = None
        self._tables: OrderedDict[int, np.ndarray] = OrderedDict()

    def read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        reader = self._reader
        which, part = reader.at(domain)
        cell = tuple(s.start // c for s, c in zip(part, reader.chunk, strict=True))
        index = int(np.ravel_multi_index(cell, self._counts))
        inside = tuple(
            slice(s.start - k * c, s.stop - k * c)
            for s, k, c in zip(part, cell, reader.chunk, strict=True)
        )
        with reading(reader.path) as handle:
            entry = self._table(which, Stamp.of(os.fstat(handle)))[index]
            at, size, mask = (int(entry[name]) for name in ("at", "size", "mask"))
            # Only the list refers to the data, so that it is freed when it is decoded.
            data = [read_from(handle, reader.path, at, size)] if size else []
        if data:
            block = decoded(data.pop(), reader, mask, reader.datasets[which], cell)
        else:
            stored = np.dtype(reader.stored)
            block = np.broadcast_to(
                np.frombuffer(bytes.fromhex(reader.fill), stored)[0], reader.chunk
            )
        reader.put(block[inside], part, out)

    def _table(self, which: int, stamp: Stamp) -> np.ndarray:
        """Return position, size and filter mask of a dataset's chunks, cached by stamp."""
        with self._lock:
            if stamp != self._stamp:
                self._tables.clear()
                self._stamp = stamp
            if which not in self._tables:
                self._tables[which] = self._found(which)
                if stamp_of(self._reader.path) != stamp:
                    self._stamp = None
                    raise VolumeError(
                        f"{self._reader.path} changes while it is read; wait until it is written"
                    )
                max_tables = max(1, MAX_CHUNKS // max(1, math.prod(self._counts)))
                while len(self._tables) > max_tables:
                    self._tables.popitem(last=False)
            self._tables.move_to_end(which)
            return self._tables[which]

    def _found(self, which: int) -> np.ndarray:
        reader, counts = self._reader, self._counts
        table = np.zeros(
            math.prod(counts), [("at", np.uint64), ("size", np.uint32), ("mask", np.uint32)]
        )
        at, size, mask = table["at"], table["size"], table["mask"]
        strides = [math.prod(counts[d + 1 :]) for d in range(len(counts))]
        steps = tuple(zip(reader.chunk, strides, strict=True))
        with opened_file(reader.path) as file:
            node = reader.node(file, which)
            if tuple(node.chunks or ()) != reader.chunk or filters_of(node) != reader.filters:
                raise VolumeError(
                    f"{printable(reader.path)}:{printable(node.name)} has different chunks than "
                    "before, or than the other datasets; open it again"
                )

            def note(found: Any) -> None:
                where = zip(found.chunk_offset, steps, strict=True)
                k = sum(o // c * s for o, (c, s) in where)
                at[k], size[k], mask[k] = found.byte_offset, found.size, found.filter_mask

            node.id.chunk_iter(note)
            if file.userblock_size and size.any():
                at += np.uint64(_shift(node, reader, table, file.userblock_size))
        return table


def _shift(node: Any, reader: Hdf5Reader, table: np.ndarray, block: int) -> int:
    """Return the offset of positions: some versions count from the end of the user block."""
    index = int(np.flatnonzero(table["size"])[0])
    counts = [-(-n // c) for n, c in zip(reader.whole, reader.chunk, strict=True)]
    cell = np.unravel_index(index, counts)
    offset = tuple(int(k) * c for k, c in zip(cell, reader.chunk, strict=True))
    _, data = node.id.read_direct_chunk(offset)
    with reading(reader.path) as handle:
        for shift in (0, block):
            if read_from(handle, reader.path, int(table["at"][index]) + shift, len(data)) == data:
                return shift
    raise VolumeError(
        f"{reader.path} is damaged: its chunks are not at their positions; restore it"
    )


class _Locked:
    """Datasets that h5py reads, one part at a time in a process.

    The file is closed after each part, or it could not be written while this process lives.
    """

    def __init__(self, reader: Hdf5Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()
        self._checked: set[int] = set()

    def read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        reader = self._reader
        which, part = reader.at(domain)
        with self._lock, opened_file(reader.path) as file:
            node = reader.node(file, which)
            if not reader.fills and which not in self._checked:
                check_all_is_there(node, f"{reader.path}:{printable(node.name)}")
                self._checked.add(which)
            stored = np.asarray(node[part])
        reader.put(stored, part, out)


def check_all_is_there(node: Any, name: str) -> None:
    """Refuse a dataset with missing source files or datasets."""
    absent = missing_files_of(node)
    if absent:
        more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
        raise VolumeError(
            f"{name} needs {printable(absent[0])}{more}, which is missing or too short; restore it, or "
            'give missing="fill" to read fill values in its place'
        )


def decoded(
    data: bytes, reader: Hdf5Reader, mask: int, dataset: str, cell: Sequence[int]
) -> np.ndarray:
    """Undo the filters of a chunk; return the stored voxels."""
    stored = np.dtype(reader.stored)
    nbytes = math.prod(reader.chunk) * stored.itemsize
    sums = sum(number == FLETCHER for number, _ in reader.filters)
    room = nbytes + 4 * sums
    try:
        for k in reversed(range(len(reader.filters))):
            if not mask >> k & 1:
                data = undone(data, *reader.filters[k], room)
        if len(data) != nbytes:
            raise ValueError(f"it has {len(data):,} bytes, not {nbytes:,}")
    except Exception as error:
        stated = " ".join(str(error).split())
        raise VolumeError(
            f"{printable(reader.path)}:{printable(dataset)}: its chunk {tuple(map(int, cell))} is "
            f"damaged: {stated}; restore it"
        ) from None
    return np.frombuffer(data, stored).reshape(reader.chunk)


def stored_dtype(node: Any) -> np.dtype:
    """Return the dtype of a dataset with its byte order, without h5py's metadata."""
    return np.dtype(node.dtype.str)


def filters_of(node: Any) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the filters of a dataset in order of application."""
    plist = node.id.get_create_plist()
    found = (plist.get_filter(k) for k in range(plist.get_nfilters()))
    return tuple((int(f[0]), parameters_of(int(f[0]), f[2])) for f in found)


def parameters_of(number: int, values: Any) -> tuple[int, ...]:
    """Return the parameters that are needed to undo a filter."""
    return (int(values[0]),) if number == SHUFFLE and values else ()
