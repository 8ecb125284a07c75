"""Voxels that lie side by side in a file, without a codec: read and written at their positions."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from beam_volumes.storage.sources.axes import DEFAULT_AXES, Selection, select
from beam_volumes.storage.sources.chunking import CHUNK_BYTES
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source, TokenOfFields, check_dtype

#: Bytes that are read in one piece, and how many of whole planes.
PIECE, PLANES = 1 << 20, 64 << 10


def piece_of(shape: Sequence[int], itemsize: int, first: int = 0) -> tuple[int, ...]:
    """What is read of an array in one piece: rows of a plane, or small planes; it lies side by side.

    - ``shape``: the dimension that is slowest first.
    - ``first``: the slowest one of space: a piece has one position of those before it.

    Examples
    --------
    >>> piece_of((500, 4000, 4000), 2)
    (1, 131, 4000)
    >>> piece_of((500, 100, 100), 1)
    (6, 100, 100)
    """
    piece = [1] * len(shape)
    for axis in reversed(range(first, len(shape))):
        most = PLANES if axis == first and axis < len(shape) - 2 else PIECE
        room = max(1, most // (math.prod(piece) * itemsize))
        piece[axis] = max(1, min(shape[axis], room))
        if piece[axis] < shape[axis]:
            break
    return tuple(piece)


def slowest(chosen: Selection) -> int:
    """The first dimension of a file that is one of space."""
    return min((d for a, d in chosen.dims if a in AXES), default=0)


@dataclass(frozen=True, eq=False)
class ContiguousReader(TokenOfFields):
    """Voxels side by side in a local file."""

    file: Spec
    shape: tuple[int, ...]  #: Of the dimensions as they lie in the file, the slowest first
    stored: str  #: The dtype in the file, with its order of bytes
    dtype: np.dtype  #: That of voxels: of the same size; if it is bool, whatever is not 0 is True
    at: int  #: Where the first voxel is
    chosen: Selection  #: Which of the dimensions are z, y and x

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
        """Of a piece, if it holds more than one point or channel."""
        fixed = math.prod(self.piece[d] for d, _ in self.chosen.fixed)
        return math.prod(self.piece) * self.dtype.itemsize if fixed > 1 else 0

    def open(self) -> ts.TensorStore:
        stamp_of(self.file["path"])  # it is there
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
    """Copy voxels as they are stored to where they are wanted, of whatever order of bytes."""
    if out.dtype != bool:
        out[...] = stored if stored.dtype.kind != "b" else stored.view(np.uint8)
    else:  # a byte that is neither 0 nor 1 is no bool of numpy's
        np.not_equal(stored.view(np.uint8) if stored.dtype.itemsize == 1 else stored, 0, out=out)


def contiguous(name: str, reader: ContiguousReader, space: Space) -> Source:
    """A source of voxels side by side in a file, which is known to be long enough."""
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
    index: Mapping[str, int | str] | None,
) -> Source:
    """A file of one array, whose axes are those of an array of so many dimensions."""
    axes = DEFAULT_AXES[len(shape)]
    if is_fortran:  # x is the slowest then
        axes, shape = axes[::-1], shape[::-1]
    chosen = select(axes, shape, index, printable(place.text))
    native = stored.newbyteorder("=")
    reader = ContiguousReader(place.spec, shape, stored.str, native, at, chosen)
    return contiguous(place.text, reader, chosen.space())


def all_of(d: Description) -> Selection:
    """All axes of an output, as they are stored."""
    axes = enumerate(d.space.all_axes)
    return Selection((), tuple((a, k) for k, a in axes), d.space.channels)


def check_length(name: str, path: str, at: int, nbytes: int) -> None:
    """Refuse a file that is shorter than what is said to be in it."""
    size = os.path.getsize(path)
    if at + nbytes > size:
        raise VolumeError(
            f"{name} is cut off: its voxels take {nbytes:,} bytes from byte {at:,} on, but it has {size:,} "
            "bytes; restore it"
        )


def points_of(d: Description) -> list[int]:
    """The places of a unit's samples among all points and channels of an output."""
    if not d.leading:
        return [0]
    first = [k * u for k, u in zip(d.at or (), d.leading_unit, strict=True)]
    return [
        int(np.ravel_multi_index([a + k for a, k in zip(first, part, strict=True)], d.leading))
        for part in np.ndindex(*d.leading_unit)
    ]


def _rows(shape: Triple, itemsize: int) -> Triple:
    """Whole rows, as many as take 4 MiB, of no more than 16 slices."""
    depth = max(1, min(16, shape[0]))
    rows = max(1, 2 * CHUNK_BYTES // max(1, depth * shape[2] * itemsize))
    return depth, rows, max(1, shape[2])


class InPlace(WritableFormat):
    """A file of the right size, into which units are written where they belong.

    Units reach from one end of x to the other, so that a write is of long pieces, unless ``chunks`` says
    otherwise.
    """

    is_file = True
    channels = "apart"
    options: ClassVar[Options] = {"chunks": CHUNKS}

    def header(self, d: Description) -> bytes:
        """What comes before the voxels."""
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
