"""What is there of an output's write units, and whether it is what was written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.geometry import Triple
from beam_volumes.storage import kvstore
from beam_volumes.storage.checksums import checksum
from beam_volumes.storage.context import context
from beam_volumes.storage.errors import explain
from beam_volumes.storage.sink import Sink

#: Decoded bytes that are read at a time to look at units.
_AT_A_TIME = 64 << 20
#: Bytes of what is remembered of listings.
_REMEMBERED = 32 << 20


class Listing:
    """Which of a sink's units the store holds, by listing its layers, each once as far as possible."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        _, ny, nx = sink.grid.counts
        self._layer: Triple = (1, ny, nx)
        remember = max(2, _REMEMBERED // max(1024, ny * nx))
        self._listed = lru_cache(maxsize=remember)(self._list)

    def has(self, index: int) -> bool:
        """Whether a unit is stored."""
        _, ny, nx = self._layer
        z, rest = divmod(index, ny * nx)
        return bool(self._listed(z)[rest])

    def _list(self, z: int) -> np.ndarray:
        sink, (_, ny, nx) = self._sink, self._layer
        axes = sink.space.visible
        root = "0/" if sink.format == "ome-zarr" else ""
        prefix = root + ("c/" if sink.zarr_version == 3 else "") + (f"{z}/" if 0 in axes else "")
        found = np.zeros(ny * nx, bool)
        try:
            directory = kvstore.join(sink.kvstore, directory=True)
            store = ts.KvStore.open(directory, context=context()).result()
            last = prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else ""
            keys = store.list(ts.KvStore.KeyRange(prefix, last)).result()
        except ValueError as error:
            raise explain(error, f"listing {sink.name}") from None
        for key in keys:
            parts = key.decode().removeprefix(prefix).split("/")
            if len(parts) == len(axes) - (0 in axes) and all(p.isdigit() for p in parts):
                cell = dict(zip((a for a in axes if a), map(int, parts), strict=True))
                y, x = cell.get(1, 0), cell.get(2, 0)
                if y < ny and x < nx:
                    found[y * nx + x] = True
        return found


class Reading:
    """Decodes units, a bounded number of bytes at a time, and tells what is wrong with them."""

    def __init__(self) -> None:
        self._bytes = 0
        self._handles: dict[str, ts.TensorStore] = {}
        self._flying: deque[tuple[str, Sink, int | None, Any]] = deque()

    def read(self, name: str, sink: Sink, index: int, expected: int | None) -> Iterator[str]:
        """Begin with a unit; yields what is wrong with those whose turn came before.

        Parameters
        ----------
        name : str
            How the unit is called.
        sink : Sink
        index : int
        expected : int or None
            The checksum that it should have.
        """
        try:
            if sink.name not in self._handles:
                self._handles[sink.name] = sink.read_back().open()
        except OSError as error:
            yield f"{name} {error}"
            return
        while self._flying and self._bytes + sink.unit_bytes > _AT_A_TIME:
            yield from self._next()
        self._bytes += sink.unit_bytes
        voxels = self._handles[sink.name][sink.grid.box(index).slices].read()
        self._flying.append((name, sink, expected, voxels))

    def rest(self) -> Iterator[str]:
        """Wait for all that was begun."""
        while self._flying:
            yield from self._next()

    def _next(self) -> Iterator[str]:
        name, sink, expected, voxels = self._flying.popleft()
        self._bytes -= sink.unit_bytes
        try:
            if expected not in (None, checksum(voxels.result())):
                yield f"{name} does not hold the voxels that were written (checksum)"
        except ValueError as error:
            yield f"{name} cannot be read: {str(explain(error, 'reading')).removeprefix('reading: ')}"
