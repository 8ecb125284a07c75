"""Check which write units of an output exist, and whether they contain the written voxels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.transfer import checksum

#: Decoded bytes that are read at a time.
_AT_A_TIME = 64 << 20
#: Bytes of cached listings.
_REMEMBERED = 32 << 20
#: Outputs with more units are listed row by row, not layer by layer.
_UNITS = 100_000


class Listing:
    """The stored units of a sink, by listing each of its layers or rows once, as far as possible."""

    def __init__(self, sink: Sink) -> None:
        self._sink, self._format = sink, sink.writer
        # If units are not separate objects, only reading shows whether they exist.
        self._is_whole = self._format.key(sink, (0, 0, 0)) is None or sink.is_finished()
        nz, ny, nx = sink.grid.counts
        self._by_row = nz * ny * nx > _UNITS
        names = max(nz, ny, nx) if self._by_row else ny * nx
        remember = max(2, _REMEMBERED // max(1024, 8 * names))
        self._listed = lru_cache(maxsize=remember)(self._list)

    def has(self, index: int) -> bool:
        if self._is_whole:
            return True
        sink, cell = self._sink, self._sink.grid.cell(index)
        by_row, format = self._by_row, self._format
        listed = self._listed(format.row(sink, cell) if by_row else format.layer(sink, cell[0]))
        at = int(np.searchsorted(listed, index))
        return at < len(listed) and bool(listed[at] == index)

    def _list(self, prefix: str) -> np.ndarray:
        """Return the numbers of the units below a prefix, sorted."""
        sink = self._sink
        names = Place(sink.home).names(prefix)
        cells = (self._format.cell(sink, prefix + name) for name in names)
        counts = sink.grid.counts
        found = [
            sink.grid.index(cell)
            for cell in cells
            if cell is not None and all(c < n for c, n in zip(cell, counts, strict=True))
        ]
        return np.sort(np.array(found, np.int64))


class Reading:
    """Decodes units, a bounded number of bytes at a time, and reports problems."""

    def __init__(self) -> None:
        self._bytes = 0
        self._handles: dict[str, ts.TensorStore] = {}
        self._flying: deque[tuple[str, Sink, int | None, Any]] = deque()

    def read(self, name: str, sink: Sink, index: int, expected: int | None) -> Iterator[str]:
        """Start reading a unit; yields problems of units that were started before."""
        try:
            if sink.name not in self._handles:
                # Checksums are computed from the stored voxels, also for masks.
                self._handles[sink.name] = sink.open_back()
        except OSError as error:
            yield f"{name} {error}"
            return
        while self._flying and self._bytes + sink.unit_bytes > _AT_A_TIME:
            yield from self._next()
        self._bytes += sink.unit_bytes
        voxels = self._handles[sink.name][sink.grid.box(index).slices].read()
        comes_back = not sink.writer.loses(sink)
        self._flying.append((name, sink, expected if comes_back else None, voxels))

    def rest(self) -> Iterator[str]:
        """Wait for all reads that were started."""
        while self._flying:
            yield from self._next()

    def _next(self) -> Iterator[str]:
        name, sink, expected, voxels = self._flying.popleft()
        self._bytes -= sink.unit_bytes
        try:
            if expected not in (None, checksum(voxels.result())):
                yield f"{name} differs from the voxels that were written (checksum)"
        except (ValueError, OSError) as error:
            yield f"{name} cannot be read: {str(explain(error, 'reading')).removeprefix('reading: ')}"
