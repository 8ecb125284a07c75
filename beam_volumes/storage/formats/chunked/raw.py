"""Zarr arrays with chunks that are plain files of voxels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.storage.sources.raw import RawChunks

#: The metadata that define how chunks are stored, by TensorStore's driver.
_NEEDED = {
    "zarr": {"dtype", "chunks", "compressor", "filters", "order", "dimension_separator"},
    "zarr3": {"data_type", "codecs", "chunk_grid", "chunk_key_encoding"},
}


@dataclass(frozen=True, kw_only=True)
class ZarrChunks(RawChunks):
    """The files of an array's chunks."""

    prefix: str  #: Path of all files, up to the indices of the chunk.
    separator: str  #: Between the indices of a chunk.
    leading: tuple[int, ...]  #: Indices before those along z, y and x.

    def place(self, cell: tuple[int, ...]) -> tuple[str, int]:
        return self.prefix + self.separator.join(map(str, (*self.leading, *cell))), 0


def zarr_chunks(spec: Mapping[str, Any], leading: Sequence[int], offset: Triple) -> RawChunks | str:
    """Return the chunks of a TensorStore spec, as `beam_volumes.storage.sources.raw.raw_chunks`."""
    driver, store, metadata = spec.get("driver"), spec.get("kvstore"), spec.get("metadata", {})
    if driver not in _NEEDED or not isinstance(store, dict) or store.get("driver") != "file":
        return "it is not a zarr array on a disk"
    if not _NEEDED[driver] <= metadata.keys():
        return "its specification does not describe how chunks are stored"
    stored = (_of_zarr3 if driver == "zarr3" else _of_zarr2)(metadata)
    if isinstance(stored, str):
        return stored
    dtype, chunk, prefix, separator = stored
    indices = _indices(spec, leading)
    spatial = len(chunk) - 3
    if indices is None or any(c != 1 for c in chunk[:spatial]) or spatial != len(indices):
        return "its chunks contain several channels, or are not along z, y and x"
    z, y, x = chunk[spatial:]
    return ZarrChunks(
        dtype,
        (z, y, x),
        offset,
        is_fill=spec.get("fill_missing_data_reads", True),
        prefix=os.path.join(store["path"], prefix),
        separator=separator,
        leading=indices,
    )


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


def _indices(spec: Mapping[str, Any], leading: Sequence[int]) -> tuple[int, ...] | None:
    """The indices before z, y and x of a spec's array; None if its axes are not in this order."""
    transform = ts.Spec(spec).transform
    if transform is None:
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
