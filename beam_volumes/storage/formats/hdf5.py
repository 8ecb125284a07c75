"""HDF5: any dataset of voxels, those of Imaris, BigDataViewer, MINC, ilastik and CREMI among them.

h5py reads metadata alone, and says where chunks lie. They are read by their positions and decoded by us,
on TensorStore's threads, for h5py has one lock for all that it does. What only its library can decode is
read through h5py, under that lock; the reader's remark says so.
"""

from __future__ import annotations

import math
import os
import re
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, ClassVar

import imagecodecs
import numpy as np
import tensorstore as ts

from beam_volumes.geometry import Triple
from beam_volumes.space import METRES, Space
from beam_volumes.storage.axes import Selection, names_of_axes, select
from beam_volumes.storage.chunking import default_chunk, no_larger, per_axis
from beam_volumes.storage.context import context
from beam_volumes.storage.description import Description
from beam_volumes.storage.errors import VolumeError, alone
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.formats import hdf5_layouts as layouts
from beam_volumes.storage.formats.contiguous import (
    all_of,
    contiguous,
    copy_voxels,
    piece_of,
    slowest,
)
from beam_volumes.storage.formats.format import CHUNKS, Layout, Listing, Options, WritableFormat
from beam_volumes.storage.formats.hdf5_trial import tried
from beam_volumes.storage.optional import needed
from beam_volumes.storage.place import Place, Spec
from beam_volumes.storage.positioned import Stamp, read_from, reading, stamp_of
from beam_volumes.storage.single_file import written_whole
from beam_volumes.storage.source import Source, digest
from beam_volumes.text import printable

MAGIC = b"\x89HDF\r\n\x1a\n"
SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5", ".ims", ".mnc", ".nwb")
#: The filters of HDF5 that are undone here: their numbers.
DEFLATE, SHUFFLE, FLETCHER = 1, 2, 3
LZF, BLOSC, LZ4, ZSTD = 32000, 32001, 32004, 32015
OURS = {
    DEFLATE: "gzip",
    SHUFFLE: "shuffle",
    FLETCHER: "fletcher32",
    LZF: "lzf",
    BLOSC: "blosc",
    LZ4: "lz4",
    ZSTD: "zstd",
}
#: More chunks than that are not listed: 16 bytes each.
_CHUNKS = 1 << 22
#: Bytes of a unit's file before its data: which filters were left out.
_MASK = struct.Struct("<I")


# reading


@dataclass(frozen=True, eq=False)
class Hdf5Reader:
    """Datasets of an HDF5 file, alike and side by side along the axes that have several of them.

    Attributes
    ----------
    file : dict
    others : tuple of str
        Other files that hold some of its bytes.
    datasets : Paths
        One, or several that are alike, along axes before those of each.
    whole, shape : tuple of int
        Of a dataset, and of what is seen of it.
    chunk : tuple of int
        Of a dataset; what is read at a time, if it has no chunks.
    filters : tuple of (int, tuple of int)
        The filters of its chunks, with their parameters, as they are applied.
    fill : str
        The bytes of a voxel of chunks that are not stored, as hexadecimal digits.
    stored : str
        The dtype in the file, with its order of bytes.
    dtype : numpy.dtype
        Of the voxels.
    scaling : tuple of numpy.ndarray or None
        As of `hdf5_layouts.Array`.
    chosen : Selection
        Which of the dimensions, those of ``datasets`` first, are leading axes, z, y and x.
    remark : str
        Why it is read through h5py, under its lock; empty if it is not.
    """

    file: Spec
    others: tuple[str, ...]
    datasets: layouts.Paths
    whole: tuple[int, ...]
    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    filters: tuple[tuple[int, tuple[int, ...]], ...]
    fill: str
    stored: str
    dtype: np.dtype
    scaling: tuple[np.ndarray, np.ndarray] | None
    chosen: Selection
    remark: str = ""

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
        """Of all dimensions."""
        return (*self.datasets.sizes, *self.shape)

    @property
    def chunks(self) -> tuple[int, ...]:
        """What is read at a time, of all dimensions."""
        each = (*(1 for _ in self.datasets.sizes), *self.chunk)
        return tuple(max(1, min(c, n)) for c, n in zip(each, self.sizes, strict=True))

    @property
    def codec(self) -> str:
        """How chunks are encoded, in words."""
        names = (OURS.get(number, f"filter {number}") for number, _ in self.filters)
        return ", then ".join(names) or "none"

    @property
    def decode_bytes(self) -> int:
        """Of a chunk, with all its points and channels, scaled as float64."""
        itemsize = self.dtype.itemsize if self.scaling is None else 8
        return math.prod(self.chunks) * itemsize

    def open(self) -> ts.TensorStore:
        stamp_of(self.path)  # it is there
        read = _Locked(self).read if self.remark else _Chunks(self).read
        store = ts.virtual_chunked(
            alone(read),
            dtype=self.dtype,
            shape=self.sizes,
            chunk_layout=ts.ChunkLayout(chunk_shape=self.chunks),
            context=context(),
        )
        return self.chosen.apply(store)

    def token(self) -> str:
        what = (repr(self.datasets), self.whole, self.shape, self.chunk, self.filters, self.fill)
        scaling = [a.tobytes().hex() for a in self.scaling or ()]
        of = (self.stored, self.dtype.str, scaling, self.chosen.fixed, self.chosen.dims)
        return digest("hdf5", self.file, what, of)

    # used by what it opens

    def at(self, domain: ts.IndexDomain) -> tuple[int, tuple[slice, ...]]:
        """Which dataset a domain is of, and which part of it."""
        first = len(self.datasets.sizes)
        which = 0
        for n, a in zip(self.datasets.sizes, domain.inclusive_min, strict=False):
            which = which * n + a
        ends = zip(domain.inclusive_min[first:], domain.exclusive_max[first:], strict=True)
        return which, tuple(slice(a, b) for a, b in ends)

    def put(self, stored: np.ndarray, part: tuple[slice, ...], out: np.ndarray) -> None:
        """Voxels of a part of a dataset, as they are stored, put where they are wanted."""
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
        """A dataset of an open file, if it is what it was when the volume was opened."""
        name = f"{printable(self.path)}:{printable(self.datasets[which])}"
        node = layouts.got(file, self.datasets[which])
        if node is None:
            raise VolumeError(f"{name} is missing: restore it, or leave it out by index=")
        if tuple(node.shape) != self.whole or _stored(node).str != self.stored:
            raise VolumeError(
                f"{name} is {tuple(node.shape)} of {_stored(node)}, not {self.whole} of "
                f"{np.dtype(self.stored)}: if it has changed since it was opened, open it anew"
            )
        return node


class _Chunks:
    """Chunks that are found once, read by their positions, and decoded by us."""

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
            # One that is not kept here is let go of as soon as it is decoded.
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
        """Position, size and filter mask of a dataset's chunks, of the file with a stamp."""
        with self._lock:
            if stamp != self._stamp:
                self._tables.clear()
                self._stamp = stamp
            if which not in self._tables:
                self._tables[which] = self._found(which)
                if stamp_of(self._reader.path) != stamp:
                    self._stamp = None
                    raise VolumeError(
                        f"{self._reader.path} is being written while it is read; wait for its end"
                    )
                most = max(1, _CHUNKS // max(1, math.prod(self._counts)))
                while len(self._tables) > most:
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
            if tuple(node.chunks or ()) != reader.chunk or _filters(node) != reader.filters:
                raise VolumeError(
                    f"{printable(reader.path)}:{printable(node.name)} is stored in other "
                    "chunks than it was, or than its siblings; open it anew"
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
    """What is to be added to positions: some versions of HDF5 count from the end of a user's block."""
    index = int(np.flatnonzero(table["size"])[0])
    counts = [-(-n // c) for n, c in zip(reader.whole, reader.chunk, strict=True)]
    cell = np.unravel_index(index, counts)
    offset = tuple(int(k) * c for k, c in zip(cell, reader.chunk, strict=True))
    _, data = node.id.read_direct_chunk(offset)
    with reading(reader.path) as handle:
        for shift in (0, block):
            if read_from(handle, reader.path, int(table["at"][index]) + shift, len(data)) == data:
                return shift
    raise VolumeError(f"{reader.path} is damaged: its chunks are not where it says; restore it")


class _Locked:
    """Datasets that h5py reads, one part at a time in a process.

    The file is closed after each, or nobody could write it while this process lives.
    """

    def __init__(self, reader: Hdf5Reader) -> None:
        self._reader = reader
        self._lock = threading.Lock()

    def read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        reader = self._reader
        which, part = reader.at(domain)
        with self._lock, opened_file(reader.path) as file:
            node = reader.node(file, which)
            stored = np.asarray(node[part])
        reader.put(stored, part, out)


def decoded(
    data: bytes, reader: Hdf5Reader, mask: int, dataset: str, cell: Sequence[int]
) -> np.ndarray:
    """A chunk's voxels as they are stored.

    Raises
    ------
    VolumeError
        It is not what its filters make of so many voxels.
    """
    stored = np.dtype(reader.stored)
    nbytes = math.prod(reader.chunk) * stored.itemsize
    sums = sum(number == FLETCHER for number, _ in reader.filters)
    room = nbytes + 4 * sums
    try:
        for k in reversed(range(len(reader.filters))):
            if not mask >> k & 1:
                data = _undone(data, *reader.filters[k], room)
        if len(data) != nbytes:
            raise ValueError(f"it has {len(data):,} bytes, not {nbytes:,}")
    except Exception as error:
        told = " ".join(str(error).split())
        raise VolumeError(
            f"{printable(reader.path)}:{printable(dataset)}: its chunk {tuple(map(int, cell))} is "
            f"damaged: {told}; restore it"
        ) from None
    return np.frombuffer(data, stored).reshape(reader.chunk)


def _undone(data: Any, number: int, values: Sequence[int], room: int) -> Any:
    """Data before a filter; never more than ``room`` bytes."""
    if number == SHUFFLE:
        return _unshuffled(data, values[0])
    if number == FLETCHER:
        return _summed(data)
    if number == DEFLATE:
        return imagecodecs.deflate_decode(data, out=room)
    if number == LZF:
        return imagecodecs.lzf_decode(data, out=room)
    if number == ZSTD:
        return imagecodecs.zstd_decode(data, out=room)
    if number == BLOSC:
        return imagecodecs.blosc_decode(data, out=room)
    return _lz4(data, room)


def _summed(data: Any) -> Any:
    """Data before their checksum, which is compared."""
    said = int.from_bytes(data[-4:], "little")
    found = imagecodecs.h5checksum_fletcher32(data[:-4])
    # Some versions of the library have swapped the bytes of each half.
    swapped = int.from_bytes(
        bytes(np.frombuffer(found.to_bytes(4, "little"), ">u2").astype("<u2").tobytes()), "little"
    )
    if said not in (found, swapped):
        raise ValueError("its checksum is another one")
    return data[:-4]


def _unshuffled(data: Any, size: int) -> Any:
    """Bytes that were sorted by their position in a voxel."""
    planes = np.frombuffer(data, np.uint8)
    n = len(planes) // max(1, size)
    if size <= 1 or n <= 1:
        return data
    if size > 16:
        raise ValueError(f"its bytes are shuffled as of voxels of {size:,} bytes")
    voxels = np.empty(len(planes), np.uint8)
    rows = voxels[: n * size].reshape(n, size)
    for k in range(size):
        rows[:, k] = planes[k * n : (k + 1) * n]
    voxels[n * size :] = planes[n * size :]
    return voxels.data


def _shuffled(data: np.ndarray, size: int) -> Any:
    """Bytes sorted by their position in a voxel."""
    planes = np.empty((size, len(data) // size), np.uint8)
    rows = data.reshape(-1, size)
    for k in range(size):
        planes[k] = rows[:, k]
    return planes.reshape(-1).data


def _lz4(data: bytes, room: int) -> bytes:
    """Blocks of LZ4, as the filter 32004 has them: sizes are big-endian."""
    total, block = struct.unpack_from(">QI", data)
    if total > room or not block:
        raise ValueError(f"it is said to have {total:,} bytes")
    at, left, parts = 12, total, []
    while left:
        (size,) = struct.unpack_from(">I", data, at)
        part, wanted = data[at + 4 : at + 4 + size], min(block, left)
        parts.append(part if size == wanted else imagecodecs.lz4_decode(part, out=wanted))
        if not parts[-1] or len(parts[-1]) != wanted:
            raise ValueError("one of its blocks is cut off")
        at, left = at + 4 + size, left - wanted
    return b"".join(parts)


# opening


def _h5py(name: str) -> Any:
    return needed("h5py", "hdf5", f"{printable(name)} is HDF5")


@contextmanager
def opened_file(path: str) -> Iterator[Any]:
    """An HDF5 file, open to be read; whatever is wrong with it is a `VolumeError`."""
    h5py = _h5py(path)
    with _damage(path), h5py.File(path, "r") as file:
        if file.mode != "r":  # what it holds may not be on the disk yet
            raise VolumeError(f"{printable(path)} is open to write in this process: close it first")
        yield file


@contextmanager
def _damage(path: str) -> Iterator[None]:
    """Say of errors of h5py which file they are of; those of ours do."""
    try:
        yield
    except VolumeError:
        raise
    except Exception as error:
        told = " ".join(str(error).split())
        if isinstance(error, ValueError) and path in told:
            raise
        if "unable to lock file" in told:
            raise VolumeError(
                f"{printable(path)} is locked: another program has it open to write; wait for its end"
            ) from None
        raise VolumeError(
            f"{printable(path)} cannot be read as HDF5: {printable(told)[:300]}; restore it"
        ) from None


class Hdf5(WritableFormat):
    """A file with one dataset where we write it, or any dataset of a file."""

    title = "HDF5"
    name = "hdf5"
    suffixes = (".h5", ".hdf5")
    is_file = True
    assembles = True
    channels = "apart"
    options: ClassVar[Options] = {
        "chunks": CHUNKS,
        "codec": (
            "str or mapping",
            '``"gzip"`` (the default, level 1, shuffled), ``"lzf"`` or ``"none"``; with a level as '
            '``{"name": "gzip", "level": 6}``.',
        ),
        "dataset": ("str", 'The path of the array in the file; ``"data"`` by default.'),
    }

    def open_place(
        self,
        place: Place,
        *,
        index: Mapping[str, int | str] | None = None,
        dataset: str | None = None,
        level: int | None = None,
        **options: Any,
    ) -> Source | None:
        if place.local is None:
            if re.search(r"\.(h5|hdf5|ims)(:/|$)", place.text.lower()):
                raise ValueError(
                    f"{place.text}: HDF5 files are read from a disk; copy it to one, or open a .zarr there"
                )
            return None
        path, inside = split(place.local)
        if not is_hdf5(path):
            return None
        if inside is not None:
            if dataset is not None:
                raise ValueError(
                    f"dataset={dataset!r}: {place.text} names one already; give one of them"
                )
            dataset = inside
        _h5py(path)
        tried(path, dataset, layouts.ATTRIBUTES)
        with opened_file(path) as file:
            return _source(file, path, index, dataset, level)

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        """The datasets of a file, or the levels of a pyramid."""
        if place.local is None:
            return None
        path, inside = split(place.local)
        if not is_hdf5(path):
            return None
        _h5py(path)
        tried(path, inside if dataset is None else dataset, layouts.ATTRIBUTES)
        with opened_file(path) as file:
            return layouts.listing(file, path, inside if dataset is None else dataset)

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        return dtype

    def layout(
        self,
        name: str,
        shape: Triple,
        dtype: np.dtype,
        space: Space,
        *,
        chunks: int | Sequence[int] | None = None,
        codec: str | Mapping[str, Any] | None = "gzip",
        dataset: str | None = None,
        **options: Any,
    ) -> Layout:
        _h5py(name)
        given = per_axis("chunks", chunks, space, name)
        chunk = no_larger(given or default_chunk(shape, dtype.itemsize), shape)
        if math.prod(chunk) * dtype.itemsize >= 1 << 32:
            raise ValueError(f"{name}: chunks={chunks}: a chunk of HDF5 has less than 4 GiB")
        path = "data" if dataset is None else dataset.strip("/")
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\x00" in path:
            raise ValueError(
                f"{name}: dataset={dataset!r}; give a path in the file, e.g. 'volumes/raw'"
            )
        return Layout(chunk, None, _codec(name, codec), {"dataset": path})

    def copies(self, d: Description) -> int:
        """Copied, and as two of it made contiguous, shuffled, encoded and put behind its mask."""
        return 3

    def key(self, d: Description, cell: Triple) -> str:
        return "/".join(map(str, (*(d.at or ()), *cell)))

    def cell(self, d: Description, key: str) -> Triple | None:
        parts = key.split("/")
        at = [str(k) for k in d.at or ()]
        if len(parts) != len(at) + 3 or not all(p.isdigit() for p in parts):
            return None
        if parts[:-3] != at:
            return None
        return (int(parts[-3]), int(parts[-2]), int(parts[-1]))

    def layer(self, d: Description, z: int) -> str:
        return "".join(f"{k}/" for k in (*(d.at or ()), z))

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        """A whole chunk after its filters; nothing, of one of zeros."""
        whole = voxels.astype(_little(d.dtype), copy=False)
        if whole.shape[-3:] != d.chunk:
            whole = np.zeros((*voxels.shape[:-3], *d.chunk), _little(d.dtype))
            whole[tuple(slice(0, n) for n in voxels.shape)] = voxels
        plain = np.ascontiguousarray(whole).reshape(-1).view(np.uint8)
        if not plain.any():
            return b""
        data: Any = plain
        del plain, whole
        mask, (codec, level) = 0, d.codec
        filters = _written(d)
        for k, number in enumerate(filters):
            if number == SHUFFLE:
                data = _shuffled(data, d.dtype.itemsize)
                continue
            shorter = _shorter(data, codec, level)
            if shorter is None:
                mask |= 1 << k
            else:
                data = shorter
        return b"".join((_MASK.pack(mask), data))

    def assemble(self, d: Description, is_ours: Callable[[], bool]) -> Mapping[str, Any]:
        home = self.home(d)["path"]
        place = d.kvstore["path"]
        h5py = _h5py(d.name)

        def write(path: str) -> None:
            with h5py.File(path, "x") as file:
                how: dict[str, Any] = {"gzip": {"compression_opts": d.codec[1]}}.get(d.codec[0], {})
                node = file.create_dataset(
                    d.options["dataset"],
                    shape=tuple(d.stored(d.shape, d.leading)),
                    dtype=_little(d.dtype),
                    chunks=tuple(d.stored(d.chunk, d.leading_unit)),
                    compression=None if d.codec[0] == "none" else d.codec[0],
                    shuffle=SHUFFLE in _written(d),
                    track_times=False,
                    **how,
                )
                for name, value in _attributes(d).items():
                    node.attrs[name] = value
                for k, axis in enumerate(d.space.all_axes):
                    node.dims[k].label = axis
                for part, cell in _units(d):
                    with open(os.path.join(home, self.key(part, cell)), "rb") as unit:
                        data = unit.read()
                    if data:
                        (mask,) = _MASK.unpack_from(data)
                        before = zip(part.at or (), d.leading_unit, strict=True)
                        z, y, x = (i * c for i, c in zip(cell, d.chunk, strict=True))
                        at = d.stored((z, y, x), [k * u for k, u in before])
                        node.id.write_direct_chunk(tuple(at), data[_MASK.size :], mask)

        written_whole(place, home, write, is_ours)
        return {"bytes": os.path.getsize(place)}

    def read_back(self, d: Description) -> Source:
        itemsize = d.dtype.itemsize
        values = {SHUFFLE: (itemsize,), DEFLATE: (d.codec[1] or 0,), LZF: None}
        reader = Hdf5Reader(
            file=d.kvstore,
            others=(),
            datasets=layouts.Paths(("/" + d.options["dataset"],)),
            whole=tuple(d.stored(d.shape, d.leading)),
            shape=tuple(d.stored(d.shape, d.leading)),
            chunk=tuple(d.stored(d.chunk, d.leading_unit)),
            filters=tuple((n, _parameters(n, values.get(n))) for n in _written(d)),
            fill=bytes(itemsize).hex(),
            stored=_little(d.dtype).str,
            dtype=d.dtype,
            scaling=None,
            chosen=all_of(d),
        )
        return Source(
            name=d.name,
            shape=d.shape,
            dtype=d.dtype,
            chunk=d.chunk,
            chunk_origin=(0, 0, 0),
            space=d.space,
            reader=reader,
            encoded=d.codec[0] != "none",
            leading=d.leading,
            leading_chunk=d.leading_unit,
        )


FORMATS = (Hdf5(),)


def split(path: str) -> tuple[str, str | None]:
    """A path as that of a file and, after a colon, that of a dataset inside.

    Examples
    --------
    >>> split("/no/such/folder/file.h5:/volumes/raw")
    ('/no/such/folder/file.h5', '/volumes/raw')
    """
    if os.path.exists(path):
        return path, None
    for found in re.finditer(":", path):
        file, inside = path[: found.start()], path[found.end() :]
        if os.path.isfile(file) or (
            file.lower().endswith(SUFFIXES) and not os.path.isdir(os.path.dirname(file))
        ):
            return file, inside or None
    return path, None


def is_hdf5(path: str) -> bool:
    """Whether a file begins with HDF5's signature, or has it where that may be after a user's block."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            at = 0
            while at <= 1 << 20:
                file.seek(at)
                found = file.read(len(MAGIC))
                if found == MAGIC:
                    return True
                if len(found) < len(MAGIC):
                    return False
                at = 2 * at or 512
    except OSError:
        pass
    return False


def _source(
    file: Any,
    path: str,
    index: Mapping[str, int | str] | None,
    dataset: str | None,
    level: int | None,
) -> Source:
    found = layouts.find(file, path, dataset, level)
    node = found.node
    name = f"{path}:{printable(node.name)}"
    whole = tuple(node.shape)
    shape = found.sizes or whole
    paths = found.paths or layouts.Paths((node.name,))
    if set(found.apart) & set(found.axes or ()):
        raise VolumeError(f"{name} is damaged: its axes are {found.axes}; restore it")
    inner = names_of_axes(found.axes, len(shape), name)
    axes, sizes = [*found.apart, *inner], [*paths.sizes, *shape]
    chosen = select(axes, sizes, index, path, found.channels)
    # Datasets that are not asked for are none of it.
    paths, chosen = _taken(paths, chosen)
    if paths[0] != node.name and found.paths is not None:
        node = layouts.present(file, paths[0], path)
    name = path if dataset is None and len(paths) > 1 else f"{path}:{printable(node.name)}"
    if tuple(node.shape) != whole:
        raise VolumeError(
            f"{name} is {node.shape}, but {printable(found.node.name)} is {whole}: choose one by dataset="
        )
    space = Space(
        chosen.axes,
        found.voxel_size,
        found.unit,
        found.origin,
        leading=chosen.leading,
        channels=chosen.channels,
    )
    dtype = layouts.dtype_of(node)
    assert dtype is not None
    stored = _stored(node)
    if found.dtype is not None:  # as large as what is stored
        dtype = np.dtype(found.dtype)
    if found.is_mask and dtype == np.uint8:
        dtype = np.dtype(bool)
    if found.scaling is not None:
        dtype = np.dtype(np.float32 if stored.itemsize <= 2 else np.float64)
    # A file that was linked to from this one.
    real = os.path.abspath(os.path.join(os.path.dirname(path), os.fsdecode(node.file.filename)))
    spec = {"driver": "file", "path": real}
    chunk = tuple(node.chunks or ())
    why, others = _why_locked(node, real, stored)
    if not chunk and not why and found.scaling is None and len(paths) == 1:
        at = node.id.get_offset()
        nbytes = math.prod(whole) * stored.itemsize
        if at is not None and at + nbytes <= os.path.getsize(real):
            return contiguous(
                name,
                spec,
                shape=whole,
                stored=stored,
                at=at,
                chosen=chosen,
                space=space,
                dtype=dtype,
            )
        if at is not None:
            raise VolumeError(
                f"{name} is cut off: its voxels take {nbytes:,} bytes from byte {at:,} on, but {real} has "
                f"{os.path.getsize(real):,}; restore it"
            )
    if not chunk:
        chunk = piece_of(whole, stored.itemsize, max(0, slowest(chosen) - len(paths.numbers)))
        why = why or "it has no chunks"
    reader = Hdf5Reader(
        file=spec,
        others=others,
        datasets=paths if found.paths is not None else layouts.Paths((node.name,)),
        whole=whole,
        shape=tuple(shape),
        chunk=chunk,
        filters=_filters(node),
        fill=_fill(node, stored),
        stored=stored.str,
        dtype=dtype,
        scaling=found.scaling,
        chosen=chosen,
        remark=f"read one part at a time under h5py's lock: {why}" if why else "",
    )
    return Source(
        name=name,
        shape=chosen.triple(reader.sizes, 1),
        dtype=dtype,
        chunk=chosen.triple(reader.chunks, 1),
        chunk_origin=(0, 0, 0),
        space=space,
        reader=reader,
        encoded=bool(reader.filters),
        leading=chosen.before(reader.sizes),
        leading_chunk=chosen.before(reader.chunks),
    )


def _taken(paths: layouts.Paths, chosen: Selection) -> tuple[layouts.Paths, Selection]:
    """The datasets that are left of several, and the selection among these."""
    apart = len(paths.numbers)
    fixed = {d: k for d, k in chosen.fixed if d < apart}
    place = {d: k for k, d in enumerate(d for d in range(apart + 5) if d not in fixed)}
    left = Selection(
        tuple((place[d], k) for d, k in chosen.fixed if d not in fixed),
        tuple((a, place[d]) for a, d in chosen.dims),
        chosen.channels,
    )
    return paths.taken(fixed), left


def _stored(node: Any) -> np.dtype:
    """The dtype of a dataset, with its order of bytes and without what h5py has put beside it."""
    return np.dtype(node.dtype.str)


def _fill(node: Any, stored: np.dtype) -> str:
    try:
        value = np.asarray(node.fillvalue)
        found = value.astype(node.dtype) if value.shape == () else np.zeros((), stored)
    except Exception:  # none is defined
        found = np.zeros((), stored)
    return found.tobytes().hex()


def _filters(node: Any) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The filters of a dataset, in the order in which they are applied."""
    plist = node.id.get_create_plist()
    found = (plist.get_filter(k) for k in range(plist.get_nfilters()))
    return tuple((int(f[0]), _parameters(int(f[0]), f[2])) for f in found)


def _parameters(number: int, values: Any) -> tuple[int, ...]:
    """What of a filter's parameters it takes to undo it."""
    return (int(values[0]),) if number == SHUFFLE and values else ()


def _why_locked(node: Any, path: str, stored: np.dtype) -> tuple[str, tuple[str, ...]]:
    """Why a dataset has to be read by h5py, if it has to, and which other files it has bytes in."""
    h5py = _h5py(path)
    plist = node.id.get_create_plist()
    folder = os.path.dirname(path)
    if plist.get_layout() == h5py.h5d.VIRTUAL:
        files = {s.file_name for s in node.virtual_sources()} - {"."}
        return "it is a virtual dataset", tuple(sorted(os.path.join(folder, f) for f in files))
    if plist.get_external_count():
        files = {os.fsdecode(plist.get_external(k)[0]) for k in range(plist.get_external_count())}
        return "its voxels are in other files", tuple(
            sorted(os.path.join(folder, f) for f in files)
        )
    if plist.get_layout() == h5py.h5d.COMPACT:
        return "it is stored in its own header", ()
    for number, _ in _filters(node):
        if number not in OURS:
            _check_filter(h5py, plist, number, f"{path}:{printable(node.name)}")
            return f"its filter {number} is not undone here", ()
    kind = node.id.get_type()
    if kind.get_class() == h5py.h5t.ENUM:
        kind = kind.get_super()
        stored = np.dtype(np.int8) if stored.kind == "b" else stored
    if not kind.equal(h5py.h5t.py_create(stored)):
        return "its numbers are not those of this machine", ()
    chunks = node.chunks
    if chunks:
        counts = [-(-n // c) for n, c in zip(node.shape, chunks, strict=True)]
        if math.prod(counts) > _CHUNKS:
            return f"it has more than {_CHUNKS:,} chunks", ()
        if not hasattr(node.id, "chunk_iter"):
            return "this version of h5py does not list chunks", ()
    return "", ()


def _check_filter(h5py: Any, plist: Any, number: int, name: str) -> None:
    """Refuse a dataset that h5py has no filter for."""
    if h5py.h5z.filter_avail(number):
        return
    with suppress(ImportError):
        import_module("hdf5plugin")
    if not h5py.h5z.filter_avail(number):
        raise ValueError(
            f"{name}: its chunks are encoded by filter {number}, which h5py does not have: "
            "pip install hdf5plugin"
        )


# writing


def _little(dtype: np.dtype) -> np.dtype:
    """As which dtype voxels lie in a file: masks as bytes 0 and 1."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")


def _written(d: Description) -> tuple[int, ...]:
    """The filters of an output."""
    number = {"gzip": DEFLATE, "lzf": LZF}.get(d.codec[0])
    if number is None:
        return ()
    return (SHUFFLE, number) if d.dtype.itemsize > 1 else (number,)


def _shorter(data: Any, codec: str, level: int | None) -> bytes | None:
    """Encoded data; None if they would not be shorter."""
    if codec == "gzip":
        found = imagecodecs.deflate_encode(data, level=level)
        return bytes(found) if len(found) < len(data) else None
    try:
        found = imagecodecs.lzf_encode(data)
    except Exception:  # there is no room for what is longer
        return None
    return bytes(found) if 0 < len(found) < len(data) else None


def _codec(name: str, codec: str | Mapping[str, Any] | None) -> tuple[str, int | None]:
    given = dict(codec) if isinstance(codec, Mapping) else {"name": codec or "none"}
    which: Any = given.pop("name", None)
    level: Any = given.pop("level", None)
    if which not in ("gzip", "lzf", "none"):
        raise ValueError(f"{name}: codec={codec!r}; HDF5 takes gzip, lzf or none")
    if which == "gzip":
        level = 1 if level is None else level
    if given or (level is not None and (which != "gzip" or level not in range(10))):
        raise ValueError(
            f"{name}: codec={codec!r}; of gzip give a level from 0 to 9, as {{'name': 'gzip', 'level': 6}}"
        )
    return (which, level)


def _units(d: Description) -> Iterator[tuple[Description, Triple]]:
    """All units of an output, with the part of it that each is in."""
    counts = [n // u for n, u in zip(d.leading, d.leading_unit, strict=True)]
    for at in np.ndindex(*counts):
        part = replace(d, at=at if d.leading else None)
        for k in range(len(d.grid)):
            yield part, d.grid.cell(k)


def _attributes(d: Description) -> dict[str, Any]:
    """What other programs look for, and what ours does."""
    space = d.space
    found: dict[str, Any] = {"axes": "".join(space.all_axes)}
    if space.channels:
        found["channels"] = list(space.channels)
    if space.voxel_size is not None:
        size = d.stored(space.voxel_size)
        found["voxel_size"] = size
        if space.unit in METRES:
            found["element_size_um"] = d.stored(space.in_unit("micrometer").voxel_size or ())
    if space.unit is not None:
        found["unit"] = space.unit
    if any(space.origin):
        found["origin"] = d.stored(space.origin)
    if d.dtype.kind == "b":
        found["bool"] = True
    return found
