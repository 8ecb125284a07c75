"""Chunks that are unpacked here and then decoded by TensorStore."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.storage.formats.chunked.tensorstore_spec import SpecReader
from beam_volumes.storage.places.context import callback, waiting_context
from beam_volumes.storage.places.errors import VolumeError, explain
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.source import ForwardingReader


@dataclass(frozen=True, eq=False)
class Repacked(ForwardingReader):
    """Chunks in separate files, which are read here and decoded by TensorStore."""

    packed: SpecReader  #: The spec of the volume, which cannot read those files
    name: str  #: The name in messages
    is_strict: bool = False  #: Whether missing chunks are an error

    @property
    def inner(self) -> SpecReader:
        return self.packed

    @property
    def _whole(self) -> dict[str, Any]:
        """The stored volume, the fastest dimension first."""
        return {k: v for k, v in self.packed.spec.items() if k != "transform"}

    def open(self) -> ts.TensorStore:
        whole = ts.Spec(self._whole)
        layout = whole.chunk_layout
        stored = ts.virtual_chunked(
            callback(self._read),
            dtype=whole.dtype,
            domain=whole.domain,
            chunk_layout=ts.ChunkLayout(
                chunk_shape=layout.read_chunk.shape, grid_origin=layout.grid_origin
            ),
            context=waiting_context(),
        )
        return stored[ts.IndexTransform(json=self.packed.spec["transform"])]

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        spec = self._whole
        whole = ts.Spec(spec)
        assert whole.domain is not None
        first, end = whole.domain.inclusive_min, whole.domain.exclusive_max
        chunk: Any = whole.chunk_layout.read_chunk.shape
        spans, cell = [], []
        for at, a, b, c in zip(domain.inclusive_min, first, end, chunk, strict=True):
            cell.append((at - a) // c)
            start = a + cell[-1] * c
            spans.append((start, min(start + c, b)))
        key = self.key(spec, spans, cell)
        voxels = math.prod(b - a for a, b in spans)
        data = self.unpacked(key, 2 * voxels * out.dtype.itemsize + (1 << 20))
        if data is None:
            if self.is_strict:
                raise VolumeError(f"{self.name}: its chunk {key} is missing; restore it")
            out[...] = 0
            return
        # TensorStore decodes it from a private in-memory store.
        private = ts.Context({"data_copy_concurrency": {"limit": 1}})
        memory = {"driver": "memory", "path": "v/"}
        ts.KvStore.open(memory, context=private).result().write(key, data).result()
        store = ts.open(
            {**spec, "kvstore": memory}, open=True, assume_metadata=True, context=private
        ).result()
        try:
            asked = zip(domain.inclusive_min, domain.exclusive_max, strict=True)
            out[...] = store[tuple(slice(a, b) for a, b in asked)].read().result()
        except ValueError as error:
            raise explain(error, f"reading {key} of {self.name}") from None

    def key(
        self, spec: Mapping[str, Any], spans: Sequence[tuple[int, int]], cell: Sequence[int]
    ) -> str:
        """Return a chunk's name, from its span of voxels and its position in the grid."""
        raise NotImplementedError

    def unpacked(self, key: str, max_bytes: int) -> bytes | None:
        """Return a chunk for TensorStore, of at max_bytes ``max_bytes``; None if it is missing."""
        raise NotImplementedError


class Unpacked(Repacked):
    """Chunks of precomputed volumes, some or all gzipped, as cloud-volume writes them on a disk."""

    def key(
        self, spec: Mapping[str, Any], spans: Sequence[tuple[int, int]], cell: Sequence[int]
    ) -> str:
        return f"{spec['scale_metadata']['key']}/" + "_".join(f"{a}-{b}" for a, b in spans[:3])

    def unpacked(self, key: str, max_bytes: int) -> bytes | None:
        path = os.path.join(self._whole["kvstore"]["path"], key)
        try:
            with open(f"{path}.gz", "rb") as file:
                packed = file.read(max_bytes)
        except FileNotFoundError:
            try:
                with open(path, "rb") as file:
                    return file.read(max_bytes)
            except FileNotFoundError:
                return None
        unpack = zlib.decompressobj(wbits=31)
        try:
            data = unpack.decompress(packed, max_bytes)
        except zlib.error as error:
            raise VolumeError(
                f"{self.name}: its chunk {key}.gz is damaged: {error}; restore it"
            ) from None
        if not unpack.eof:
            raise VolumeError(
                f"{self.name}: its chunk {key}.gz is damaged: it is too short or too long; restore it"
            )
        return data


class Varlength(Repacked):
    """Blocks of N5 with their number of elements, which TensorStore does not support."""

    def key(
        self, spec: Mapping[str, Any], spans: Sequence[tuple[int, int]], cell: Sequence[int]
    ) -> str:
        return "/".join(map(str, cell))

    def unpacked(self, key: str, max_bytes: int) -> bytes | None:
        data = Place(self._whole["kvstore"]).read(key)
        return None if data is None else _of_default_mode(data)


def is_varlength(block: bytes) -> bool:
    """Whether a block of N5 has its number of elements in its header."""
    return block[:2] == b"\0\1"


def _of_default_mode(block: bytes) -> bytes:
    """Convert a block of N5 to the default header, without its number of elements."""
    if not is_varlength(block):
        return block
    head = 4 + 4 * int.from_bytes(block[2:4], "big")
    return b"\0\0" + block[2:head] + block[head + 4 :]
