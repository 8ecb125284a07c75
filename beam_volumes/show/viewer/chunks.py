"""A volume as Neuroglancer's precomputed chunks, which are read or computed on request."""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import METRES, Space
from beam_volumes.drive.compute import run
from beam_volumes.graph.nodes import CropNode, Node, SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.show.sampling import coarser, read_at
from beam_volumes.storage.sources.source import Source

#: Size of a chunk in voxels, bytes read at a time, and bytes cached.
SIDE, MAX_READ, KEPT = 64, 64 << 20, 256 << 20
#: The coarsest scale has at most this many voxels along each axis.
SMALLEST = 256
#: Limits the number of expressions that are computed at a time.
_AT_A_TIME = threading.Semaphore(2)
_KEY = re.compile(r"(\d+)-(\d+)_(\d+)-(\d+)_(\d+)-(\d+)")

Read = Callable[[Box], np.ndarray]


@dataclass(frozen=True, eq=False)
class Scale:
    """One resolution of a volume."""

    shape: Triple
    times: tuple[float, float, float]  #: Size of a voxel in voxels of the finest scale
    chunk: Triple  #: The part that is requested at a time
    fetch: Triple  #: The part that is read at a time, a multiple of ``chunk``
    read: Read


class Chunks:
    r"""Serves one channel of a volume; ``node`` has no values that depend on the whole volume."""

    def __init__(self, node: Node, space: Space, labels: bool) -> None:
        self.space, self.labels = space, labels
        self.dtype = served_dtype(node.dtype, labels)
        if isinstance(node, SourceNode):
            self.scales = list(_stored_scales(node.source))
        else:
            self.scales = [_computed_scale(node)]
        self._kept: OrderedDict[tuple[int, Triple], np.ndarray] = OrderedDict()
        self._lock = threading.Lock()
        self._busy: dict[tuple[int, Triple], threading.Lock] = {}

    def info(self) -> dict[str, Any]:
        """Return the document ``info``."""
        size = nanometres(self.space)
        return {
            "@type": "neuroglancer_multiscale_volume",
            "type": "segmentation" if self.labels else "image",
            "data_type": self.dtype.name,
            "num_channels": 1,
            "scales": [
                {
                    "key": str(k),
                    "size": list(reversed(s.shape)),
                    "resolution": [n * t for n, t in zip(size, s.times, strict=True)][::-1],
                    "voxel_offset": [0, 0, 0],
                    "chunk_sizes": [list(reversed(s.chunk))],
                    "encoding": "raw",
                }
                for k, s in enumerate(self.scales)
            ],
        }

    def chunk(self, scale: str, name: str) -> bytes | None:
        """Return the bytes of a chunk by its name; None if it does not exist."""
        match = _KEY.fullmatch(name)
        if match is None or not scale.isdecimal() or int(scale) >= len(self.scales):
            return None
        x0, x1, y0, y1, z0, z1 = map(int, match.groups())
        box, s = Box((z0, y0, x0), (z1, y1, x1)), self.scales[int(scale)]
        wanted = Box(
            box.start,
            tuple(min(a + c, n) for a, c, n in zip(box.start, s.chunk, s.shape, strict=True)),  # type: ignore[arg-type]
        )
        if box != wanted or any(a % c for a, c in zip(box.start, s.chunk, strict=True)):
            return None
        cell = tuple(a // f for a, f in zip(box.start, s.fetch, strict=True))
        part = self._fetched(int(scale), cell)  # type: ignore[arg-type]
        inside = box.translate([-c * f for c, f in zip(cell, s.fetch, strict=True)])
        return np.ascontiguousarray(part[inside.slices]).tobytes()

    def _fetched(self, k: int, cell: Triple) -> np.ndarray:
        """Read a part once, on one thread, for all requests of its chunks."""
        key, s = (k, cell), self.scales[k]
        with self._lock:
            busy = self._busy.setdefault(key, threading.Lock())
        with busy:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            start = tuple(c * f for c, f in zip(cell, s.fetch, strict=True))
            stop = tuple(min(a + f, n) for a, f, n in zip(start, s.fetch, s.shape, strict=True))
            part = served(s.read(Box(start, stop)), self.dtype)  # type: ignore[arg-type]
            with self._lock:
                self._kept[key] = part
                while sum(p.nbytes for p in self._kept.values()) > KEPT and len(self._kept) > 1:
                    old, _ = self._kept.popitem(last=False)
                    self._busy.pop(old, None)
        return part


def served_dtype(dtype: np.dtype, labels: bool) -> np.dtype:
    """Return the dtype of served voxels: Neuroglancer has no bool, float64 and int64.

    >>> served_dtype(np.dtype("f8"), False).name, served_dtype(np.dtype("i8"), True).name
    ('float32', 'uint64')
    """
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "f" or (dtype.itemsize == 8 and not labels):
        return np.dtype(np.float32)
    return np.dtype(np.uint64) if dtype.itemsize == 8 else dtype


def served(voxels: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return served voxels, in little-endian bytes."""
    with np.errstate(over="ignore"):
        return voxels.astype(dtype.newbyteorder("<"), copy=False)


def nanometres(space: Space) -> tuple[float, float, float]:
    """Return the voxel size in nm; without a unit of length, 1 counts as 1 nm.

    >>> nanometres(bv.open(np.zeros((4, 5, 6)), voxel_size=(2, 1, 0.5), unit="um").space)
    (2000.0, 1000.0, 500.0)
    """
    size = space.voxel_size or (1.0, 1.0, 1.0)
    times = float(METRES.get(space.unit or "", "1e-9")) * 1e9
    z, y, x = (round(abs(s) * times, 9) or 1.0 for s in size)
    return (z, y, x)


def _stored_scales(source: Source) -> list[Scale]:
    """Return the levels of a stored volume, and further subsampled ones until it is small."""
    whole = source.shape
    scales = []
    levels = [source, *coarser(source)]
    for level in levels:
        scales.append(_subsampled(level, (1, 1, 1), whole))
    last, step = levels[-1], [1, 1, 1]
    size = list(last.space.voxel_size or (1.0, 1.0, 1.0))
    while max(scales[-1].shape) > SMALLEST:
        # Subsample the finest axes until voxels are nearly isotropic, then all.
        finest = min(abs(s) * k for s, k in zip(size, step, strict=True)) or 1.0
        fine = [
            n > 1 and abs(s) * k < 2 * finest
            for n, s, k in zip(scales[-1].shape, size, step, strict=True)
        ]
        if not any(f and n > SMALLEST for f, n in zip(fine, scales[-1].shape, strict=True)):
            fine = [n > 1 for n in scales[-1].shape]
        step = [2 * k if f else k for k, f in zip(step, fine, strict=True)]
        scale = _subsampled(last, (step[0], step[1], step[2]), whole)
        if _cost(last, scale.chunk, step) > 4 * MAX_READ:
            break
        scales.append(scale)
    return scales


def _subsampled(source: Source, step: Triple, whole: Triple) -> Scale:
    """Return a scale with every n-th voxel of a source."""
    z, y, x = (-(-n // s) for n, s in zip(source.shape, step, strict=True))
    shape = (z, y, x)
    chunk = [min(SIDE, n) for n in shape]
    while _cost(source, chunk, step) > MAX_READ and max(chunk) > 8:
        # Reduce slices first: chunks are often whole slices.
        a = max(range(3), key=lambda k: (chunk[k] * step[k], -k))
        chunk[a] = max(1, chunk[a] // 2)
    fetch = [
        min(-(-n // c) * c, -(-max(c, -(-u // s)) // c) * c)
        for n, c, u, s in zip(shape, chunk, source.read_unit, step, strict=True)
    ]
    if math.prod(fetch) * source.dtype.itemsize > MAX_READ:
        fetch = chunk

    def read(box: Box) -> np.ndarray:
        index = tuple(
            slice(min(a * s + s // 2, n - 1), min(b * s, n) if b * s < n else n, s)
            for a, b, s, n in zip(box.start, box.stop, step, source.shape, strict=True)
        )
        return read_at(source, index)

    times = tuple(n / m * 1.0 for n, m in zip(whole, source.shape, strict=True))
    scale = tuple(_near(t) * s for t, s in zip(times, step, strict=True))
    return Scale(shape, scale, (chunk[0], chunk[1], chunk[2]), (fetch[0], fetch[1], fetch[2]), read)  # type: ignore[arg-type]


def _near(ratio: float) -> float:
    """Return the ratio of a level, rounded to an integer if it is close to one."""
    whole = round(ratio)
    return float(whole) if whole and abs(ratio - whole) < 0.1 * whole else ratio


def _cost(source: Source, chunk: Any, step: Any) -> int:
    """Return the bytes of stored chunks that are decoded for one served chunk."""
    units = 1
    for a in range(3):
        n, unit = source.shape[a], source.read_unit[a]
        length = min(n, chunk[a] * step[a])
        units *= max(1, min(-(-length // unit), chunk[a])) * unit
    return units * source.dtype.itemsize * source.channels_per_chunk


def _computed_scale(node: Node) -> Scale:
    z, y, x = (min(SIDE, n) for n in node.shape)

    def read(box: Box) -> np.ndarray:
        part = Volume(CropNode.of(node, box), Space())
        with _AT_A_TIME:
            found = run([part], RunOptions(runner=None, progress=False)).results[0]
        return np.asarray(found).reshape(box.shape)

    return Scale(node.shape, (1.0, 1.0, 1.0), (z, y, x), (z, y, x), read)
