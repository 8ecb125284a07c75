"""Chunks that are plain files of voxels, which other programs than TensorStore can read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.storage.formats.chunked.tensorstore_spec import SpecReader
from beam_volumes.storage.sources.source import PointReader, Source

#: The metadata that define how chunks are stored, by TensorStore's driver.
_NEEDED = {
    "zarr": {"dtype", "chunks", "compressor", "filters", "order", "dimension_separator"},
    "zarr3": {"data_type", "codecs", "chunk_grid", "chunk_key_encoding"},
}


@dataclass(frozen=True)
class RawChunks:
    """The files of a volume's chunks: voxels of the dtype of the volume, in C order."""

    prefix: str  #: Path of all files, up to the indices of the chunk.
    separator: str  #: Between the indices of a chunk.
    leading: tuple[int, ...]  #: Indices before those along z, y and x.
    chunk: Triple
    offset: Triple  #: The position of voxel (0, 0, 0) of the volume in the array.
    is_fill: bool  #: Whether missing files are the fill value, or an error.

    def touched(self, box: Box) -> Iterator[tuple[str, Box]]:
        """The file of each chunk in a box of the volume, and the chunk's box, which may be larger."""
        ranges = (
            range((a + o) // c, -(-(b + o) // c))
            for a, b, o, c in zip(box.start, box.stop, self.offset, self.chunk, strict=True)
        )
        for cell in itertools.product(*ranges):
            z, y, x = (k * c - o for k, c, o in zip(cell, self.chunk, self.offset, strict=True))
            stop = z + self.chunk[0], y + self.chunk[1], x + self.chunk[2]
            indices = self.separator.join(map(str, (*self.leading, *cell)))
            yield self.prefix + indices, Box((z, y, x), stop)


def raw_chunks(source: Source) -> RawChunks | str:
    """Return the files of a source's chunks, or the reason why they are not plain voxels on this disk.

    Only uses metadata that `bv.open` has read.
    """
    reader = source.reader
    leading = reader.at if isinstance(reader, PointReader) else ()
    whole = reader.whole if isinstance(reader, PointReader) else reader
    spec: dict[str, Any] = whole.spec if isinstance(whole, SpecReader) else {}
    driver, store, metadata = spec.get("driver"), spec.get("kvstore"), spec.get("metadata", {})
    if driver not in _NEEDED or not isinstance(store, dict) or store.get("driver") != "file":
        return "it is not a zarr array on a disk"
    if not _NEEDED[driver] <= metadata.keys():
        return "its specification does not describe how chunks are stored"
    stored = (_of_zarr3 if driver == "zarr3" else _of_zarr2)(metadata)
    if isinstance(stored, str):
        return stored
    dtype, chunk, prefix, separator = stored
    if dtype != source.dtype:
        return f"its voxels are stored as {dtype}, not as {source.dtype}"
    indices = _indices(spec, leading)
    spatial = len(chunk) - 3
    if indices is None or any(c != 1 for c in chunk[:spatial]) or spatial != len(indices):
        return "its chunks contain several channels, or are not along z, y and x"
    z, y, x = chunk[spatial:]
    folder = os.path.join(store["path"], prefix)
    is_fill = spec.get("fill_missing_data_reads", True)
    return RawChunks(folder, separator, indices, (z, y, x), source.offset, is_fill)


def _of_zarr2(metadata: Mapping[str, Any]) -> tuple[np.dtype, Sequence[int], str, str] | str:
    """Dtype, chunk, prefix and separator, or a reason."""
    if metadata["compressor"] is not None or metadata["filters"]:
        return "its chunks are compressed"
    if metadata["order"] != "C" or not isinstance(metadata["dtype"], str):
        return "its chunks are not in C order, or have several fields"
    separator = metadata["dimension_separator"]
    return np.dtype(metadata["dtype"]), metadata["chunks"], "", separator


def _of_zarr3(metadata: Mapping[str, Any]) -> tuple[np.dtype, Sequence[int], str, str] | str:
    codecs = [codec["name"] for codec in metadata["codecs"]]
    if "sharding_indexed" in codecs:
        return "its chunks are in shards"
    if codecs != ["bytes"]:
        return f"its chunks are encoded by {', '.join(c for c in codecs if c != 'bytes')}"
    endian = metadata["codecs"][0].get("configuration", {}).get("endian", "little")
    dtype = np.dtype(metadata["data_type"]).newbyteorder("<" if endian == "little" else ">")
    encoding = metadata["chunk_key_encoding"]
    default = encoding["name"] == "default"
    separator = encoding.get("configuration", {}).get("separator", "/" if default else ".")
    chunk = metadata["chunk_grid"]["configuration"]["chunk_shape"]
    return dtype, chunk, f"c{separator}" if default else "", separator


def _indices(spec: Mapping[str, Any], leading: Sequence[Any]) -> tuple[int, ...] | None:
    """The indices before z, y and x of a spec's array; None if its axes are not in this order."""
    transform = ts.Spec(spec).transform
    if transform is None or not all(isinstance(k, int) for k in leading):
        return None
    found, n = [], transform.output_rank - 3
    for d, axis in enumerate(transform.output):
        of = axis.input_dimension
        if axis.method == ts.OutputIndexMethod.constant:
            found.append(axis.offset)
        elif of is None or axis.stride != 1 or axis.offset != 0:
            return None
        elif d < n and of < len(leading):
            found.append(leading[of])
        elif of - len(leading) != d - n:
            return None
    return tuple(found) if len(found) == n else None
