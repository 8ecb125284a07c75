"""Chunks that are plain voxels in files on a disk, which other programs than TensorStore can read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.storage.sources.source import PointReader, Source


class RawChunk(NamedTuple):
    """Voxels of the dtype of the volume, in C order and one piece."""

    path: str  #: Its file; empty if it is not stored, which means zeros.
    at: int  #: The position of its first byte; 0 if it is the whole file.
    box: Box  #: Its voxels, in coordinates of the volume, which it may exceed.


@dataclass(frozen=True)
class RawChunks:
    """The places of a volume's chunks."""

    dtype: np.dtype  #: As stored, with its byte order.
    chunk: Triple
    offset: Triple  #: The position of voxel (0, 0, 0) of the volume in the array.
    #: Rows of the array, if the last chunks end there; else they are whole.
    rows: int | None = None
    is_fill: bool = False  #: Whether missing files are the fill value, or an error.

    def touched(self, box: Box) -> Iterator[RawChunk]:
        """Each chunk with voxels in a box of the volume."""
        ranges = (
            range((a + o) // c, -(-(b + o) // c))
            for a, b, o, c in zip(box.start, box.stop, self.offset, self.chunk, strict=True)
        )
        for cell in itertools.product(*ranges):
            start = [k * c for k, c in zip(cell, self.chunk, strict=True)]
            stop = [a + c for a, c in zip(start, self.chunk, strict=True)]
            stop[1] = stop[1] if self.rows is None else min(stop[1], self.rows)
            z, y, x = ((a - o, b - o) for a, b, o in zip(start, stop, self.offset, strict=True))
            path, at = self.place(cell)
            yield RawChunk(path, at, Box((z[0], y[0], x[0]), (z[1], y[1], x[1])))

    def place(self, cell: tuple[int, ...]) -> tuple[str, int]:
        """Return the file of a chunk and its position there, as in `RawChunk`."""
        raise NotImplementedError


def raw_chunks(source: Source) -> RawChunks | str:
    """Return the places of a source's chunks, or the reason why they are not plain voxels on this disk."""
    # Only uses metadata that `bv.open` has read. Readers offer it by a method ``raw_chunks`` of the positions
    # along leading axes, and of the position of voxel (0, 0, 0).
    reader = source.reader
    at = reader.at if isinstance(reader, PointReader) else ()
    whole = reader.whole if isinstance(reader, PointReader) else reader
    leading = [k for k in at if isinstance(k, int)]
    made = getattr(whole, "raw_chunks", None)
    if made is None or source.leading:
        return "it is neither a zarr array nor a TIFF file on a disk"
    found: RawChunks | str = made(leading, source.offset)
    if isinstance(found, str):
        return found
    if found.dtype != source.dtype:
        return f"its voxels are stored as {found.dtype}, not as {source.dtype}"
    if found.chunk != source.chunk:
        return "its tiles are larger than its pages"
    return found
