"""Chunks of precomputed volumes that are files with gzip around them, as cloud-volume writes on a disk."""

from __future__ import annotations

import math
import os
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.storage.callbacks import callback
from beam_volumes.storage.context import waiting_context
from beam_volumes.storage.errors import VolumeError, explain
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.formats.tensorstore_spec import SpecReader
from beam_volumes.storage.source import TokenOfFields


@dataclass(frozen=True, eq=False)
class Unpacked(TokenOfFields):
    """Chunks in files of their own, some or all with gzip around them.

    Attributes
    ----------
    packed : Reader
        Opens the same volume, but does not find those files.
    name : str
        How messages name it.
    is_strict : bool
        Whether a chunk that is not stored is an error.
    """

    packed: SpecReader
    name: str
    is_strict: bool = False

    remote = False

    @property
    def portable(self) -> bool:
        return self.packed.portable

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.packed.extents

    @property
    def _whole(self) -> dict[str, Any]:
        """The volume as it is stored: x, y, z, channels."""
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
        spans = []
        for at, a, b, c in zip(domain.inclusive_min, first, end, chunk, strict=True):
            start = a + (at - a) // c * c
            spans.append((start, min(start + c, b)))
        scale = spec["scale_metadata"]
        key = f"{scale['key']}/" + "_".join(f"{a}-{b}" for a, b in spans[:3])
        voxels = math.prod(b - a for a, b in spans)
        data = self._unpacked(key, 2 * voxels * out.dtype.itemsize + (1 << 20))
        if data is None:
            if self.is_strict:
                raise VolumeError(f"{self.name}: its chunk {key} is missing")
            out[...] = 0
            return
        # TensorStore decodes it, from a place in memory that nobody else sees.
        alone = ts.Context({"data_copy_concurrency": {"limit": 1}})
        memory = {"driver": "memory", "path": "v/"}
        ts.KvStore.open(memory, context=alone).result().write(key, data).result()
        store = ts.open(
            {**spec, "kvstore": memory}, open=True, assume_metadata=True, context=alone
        ).result()
        try:
            asked = zip(domain.inclusive_min, domain.exclusive_max, strict=True)
            out[...] = store[tuple(slice(a, b) for a, b in asked)].read().result()
        except ValueError as error:
            raise explain(error, f"reading {key} of {self.name}") from None

    def _unpacked(self, key: str, most: int) -> bytes | None:
        """The file of a chunk, without what is around it; None if there is none."""
        path = os.path.join(self._whole["kvstore"]["path"], key)
        try:
            with open(f"{path}.gz", "rb") as file:
                packed = file.read(most)
        except FileNotFoundError:
            try:
                with open(path, "rb") as file:
                    return file.read(most)
            except FileNotFoundError:
                return None
        unpack = zlib.decompressobj(wbits=31)
        try:
            data = unpack.decompress(packed, most)
        except zlib.error as error:
            raise VolumeError(f"{self.name}: its chunk {key}.gz is damaged: {error}") from None
        if not unpack.eof:
            raise VolumeError(
                f"{self.name}: its chunk {key}.gz is damaged: it ends too early, or too late"
            )
        return data
