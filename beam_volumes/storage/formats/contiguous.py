"""Uncompressed contiguous voxels in a file, read and written at their positions."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.format import (
    CHUNKS,
    Layout,
    Options,
    OutputRequest,
    WritableFormat,
)
from beam_volumes.storage.places.context import callback, context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Place, Spec
from beam_volumes.storage.places.positioned import read_at, stamp_of, write_box
from beam_volumes.storage.sources.axes import DEFAULT_AXES, IndexRequest, Selection, select
from beam_volumes.storage.sources.chunking import CHUNK_BYTES
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source, TokenOfFields, check_dtype

#: Bytes that are read at a time, and bytes of whole planes.
PIECE, PLANES = 1 << 20, 64 << 10


def piece_of(shape: Sequence[int], itemsize: int, first: int = 0) -> tuple[int, ...]:
    """Return the part of an array that is read at a time: rows of a plane, or small planes.

    ``shape`` has the slowest dimension first; ``first`` is the slowest spatial one.
    """
    piece = [1] * len(shape)
    for axis in reversed(range(first, len(shape))):
        limit = PLANES if axis == first and axis < len(shape) - 2 else PIECE
        room = max(1, limit // (math.prod(piece) * itemsize))
        piece[axis] = max(1, min(shape[axis], room))
        if piece[axis] < shape[axis]:
            break
    return tuple(piece)


def slowest(chosen: Selection) -> int:
    """Return the first spatial dimension of a file."""
    return min((d for a, d in chosen.dims if a in AXES), default=0)


@dataclass(frozen=True, eq=False)
class ContiguousReader(TokenOfFields):
    """Contiguous voxels in a local file."""

    file: Spec
    shape: tuple[int, ...]  #: In the file's order, the slowest dimension first
    stored: str  #: The dtype in the file, with its byte order
    dtype: np.dtype  #: The dtype of voxels, of the same size; nonzero is True for bool
    at: int  #: Position of the first voxel
    chosen: Selection  #: The selected dimensions

    portable = True
    remote = False

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (Extent(self.file),)

    @property
    def piece(self) -> tuple[int, ...]:
        return piece_of(self.shape, self.dtype.itemsize, slowest(self.chosen))

    @property
    def decode_bytes(self) -> int:
        """The bytes of a piece, if it has more than one time point or channel."""
        fixed = math.prod(self.piece[d] for d, _ in self.chosen.fixed)
        return math.prod(self.piece) * self.dtype.itemsize if fixed > 1 else 0

    def open(self) -> ts.TensorStore:
        stamp_of(self.file["path"])  # raises if it is missing
        store = ts.virtual_chunked(
            callback(self._read),
            dtype=self.dtype,
            shape=self.shape,
            chunk_layout=ts.ChunkLayout(chunk_shape=self.piece),
            context=context(),
        )
        return self.chosen.apply(store)

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        stored = np.dtype(self.stored)
        first = np.ravel_multi_index(domain.inclusive_min, self.shape)
        data = read_at(
            self.file["path"], self.at + int(first) * stored.itemsize, out.size * stored.itemsize
        )
        copy_voxels(np.frombuffer(data, stored).reshape(out.shape), out)


def copy_voxels(stored: np.ndarray, out: np.ndarray) -> None:
    """Copy stored voxels, in any byte order, to an array."""
    if out.dtype != bool:
        out[...] = stored if stored.dtype.kind != "b" else stored.view(np.uint8)
    else:  # numpy's bools are 0 and 1 only
        np.not_equal(stored.view(np.uint8) if stored.dtype.itemsize == 1 else stored, 0, out=out)


def contiguous(name: str, reader: ContiguousReader, space: Space) -> Source:
    """Return a source of contiguous voxels in a file of sufficient length."""
    check_dtype(name, reader.dtype)
    return reader.chosen.source(
        name, reader, reader.dtype, reader.shape, reader.piece, space, encoded=False
    )


def plain_array(
    place: Place,
    shape: tuple[int, ...],
    stored: np.dtype,
    at: int,
    is_fortran: bool,
    request: IndexRequest,
) -> Source:
    """Return a source of a file with one array and default axes, which remain if their extent is 1."""
    axes = DEFAULT_AXES[len(shape)]
    if is_fortran:  # x is the slowest dimension
        axes, shape = axes[::-1], shape[::-1]
    chosen = select(axes, shape, replace(request, keep=True), printable(place.text))
    native = stored.newbyteorder("=")
    reader = ContiguousReader(place.spec, shape, stored.str, native, at, chosen)
    return contiguous(place.text, reader, chosen.space())


def all_of(d: Description) -> Selection:
    """Select all stored axes of an output."""
    axes = enumerate(d.space.all_axes)
    return Selection((), tuple((a, k) for k, a in axes), d.space.channels)


def check_length(name: str, path: str, at: int, nbytes: int) -> None:
    """Refuse a file that is shorter than its voxels."""
    size = os.path.getsize(path)
    if at + nbytes > size:
        raise VolumeError(
            f"{name} is cut off: its voxels need {nbytes:,} bytes from byte {at:,} on, but it has {size:,} "
            "bytes; restore it"
        )


def points_of(d: Description) -> list[int]:
    """Return the positions of a unit's samples among all time points and channels."""
    if not d.leading:
        return [0]
    first = [k * u for k, u in zip(d.at or (), d.leading_unit, strict=True)]
    return [
        int(np.ravel_multi_index([a + k for a, k in zip(first, part, strict=True)], d.leading))
        for part in np.ndindex(*d.leading_unit)
    ]


def _rows(shape: Triple, itemsize: int) -> Triple:
    """Return a chunk of whole rows: 4 MiB, of at most 16 slices."""
    depth = max(1, min(16, shape[0]))
    rows = max(1, 2 * CHUNK_BYTES // max(1, depth * shape[2] * itemsize))
    return depth, rows, max(1, shape[2])


class InPlace(WritableFormat):
    """A file of the final size, with units written at their positions.

    By default, units have whole rows, so writes are long.
    """

    is_file = True
    channels = "apart"
    options: ClassVar[Options] = {"chunks": CHUNKS}

    def header(self, d: Description) -> bytes:
        return b""

    def layout(self, wanted: OutputRequest) -> Layout:
        return Layout(wanted.chunk(_rows))

    def make(self, d: Description) -> None:
        header = self.header(d)
        with open(d.kvstore["path"], "wb") as file:
            file.write(header)
            file.truncate(len(header) + d.nbytes)

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        box = d.grid.box(d.grid.index(cell))
        little = voxels.astype(d.dtype.newbyteorder("<"), copy=False)
        each = math.prod(d.shape) * d.dtype.itemsize
        samples = little.reshape((d.samples, *box.shape))
        for point, sample in zip(points_of(d), samples, strict=True):
            at = len(self.header(d)) + point * each
            write_box(d.kvstore["path"], at, d.shape, box, sample)

    def read_back(self, d: Description) -> Source:
        shape, stored = tuple(d.stored(d.shape, d.leading)), d.dtype.newbyteorder("<").str
        at = len(self.header(d))
        reader = ContiguousReader(d.kvstore, shape, stored, d.dtype, at, all_of(d))
        return contiguous(d.name, reader, d.space)
