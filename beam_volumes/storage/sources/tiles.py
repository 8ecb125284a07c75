"""Tiles: overlapping sources, blended into one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.kernels.geometry.content import ARRAYS, content_dtype, local_variance, radii
from beam_volumes.kernels.geometry.fusion import BLENDINGS, blend, tile_boxes, voxels_of_cells
from beam_volumes.kernels.geometry.masked_fusion import FADE, blend_valid, fade
from beam_volumes.kernels.scratch import arrays, nbytes
from beam_volumes.storage.places.context import callback, threads, waiting_context
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.sources.source import ForwardingReader, Source, TokenOfFields

#: Target bytes of a cell of the result, which is read and blended at a time.
CELL_BYTES = 16 << 20
#: The same if voxels around a cell are also read and filtered, in more memory than the cell.
CONTENT_BYTES = 4 << 20
#: Rounding errors of the range that a tile covers, in voxels.
_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class TilesReader(TokenOfFields):
    """Tiles of one dtype, blended into a volume: see `beam_volumes.kernels.geometry.fusion`."""

    parts: tuple[Source, ...]  #: The different tiles
    which: np.ndarray  #: (tiles,); the number of each tile in ``parts``
    shape: Triple
    dtype: np.dtype
    inverse: np.ndarray  #: (tiles, 3, 3); with ``shift``, maps the volume to a tile
    shift: np.ndarray  #: (tiles, 3)
    gain: np.ndarray  #: (tiles,)
    offset: np.ndarray  #: (tiles,)
    order: int
    blending: str
    fill: float
    cell: Triple  #: The shape that is read and blended at a time
    width: np.ndarray  #: (tiles, 3); where weights become 1: see `kernels.geometry.fusion.blend`
    #: The largest ``decode_bytes`` of other time points, which share the plan
    reserved: int = 0

    _kernel: ClassVar[Any] = staticmethod(blend)

    @cached_property
    def _margin(self) -> np.ndarray:
        """The voxels around a box of a tile that are read, along each axis."""
        return np.zeros(3, np.int64)

    @cached_property
    def portable(self) -> bool:
        return all(part.portable for part in self.sources)

    @cached_property
    def kernels(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        return frozenset[tuple[str, tuple[str, ...]]]().union(*(p.kernels for p in self.sources))

    @cached_property
    def remote(self) -> bool:
        return any(part.reader.remote for part in self.sources)

    @cached_property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(extent for part in self.sources for extent in part.reader.extents)

    @cached_property
    def decode_bytes(self) -> int:
        return max(self.reserved, self._own_bytes)

    @property
    def _own_bytes(self) -> int:
        """The bytes of the voxels of tiles, of the result, of a chunk and of the kernel, for one cell."""
        voxels, tiles, _ = self._voxels_of_cells
        scratch = nbytes(self._kernel.scratch(tiles, self.cell[2]))
        # Plans count the result twice, as measured for decoders. Computed tiles do not need twice as much.
        voxels += math.prod(self.cell)
        return voxels * self._itemsize + self._bytes_at_a_time // 2 + scratch

    @property
    def _bytes_at_a_time(self) -> int:
        """The bytes for reading the box of one tile."""
        return self._bytes_to_read(self.parts, self.which)

    def _bytes_to_read(self, sources: Sequence[Source], which: np.ndarray) -> int:
        """The maximal bytes for reading a box of a source; ``which`` has the source of each tile, or -1."""
        boxes = np.zeros((len(sources) + 1, 3), np.int64)
        np.maximum.at(boxes, which, self._boxes)
        return max(
            source.bytes_to_read((int(z), int(y), int(x)))
            for source, (z, y, x) in zip(sources, boxes, strict=False)
        )

    @cached_property
    def _boxes(self) -> np.ndarray:
        """The largest box of each tile that a cell reads, (tiles, 3)."""
        boxes = np.ceil(np.einsum("tab,b->ta", abs(self.inverse), self.cell)) + 3 + 2 * self._margin
        return np.minimum(boxes, self._extent).astype(np.int64)

    @cached_property
    def times_read(self) -> float:
        """How often the chunks of the tiles are read for the whole volume, on average."""
        needed = -(-self._extent // self._chunk) * self._chunk
        return float(self._voxels_of_cells[2] / needed.prod(axis=1).sum())

    @property
    def remark(self) -> str:
        how = next((f"; {part.remark}" for part in self.parts if part.remark), "")
        return f"{len(self.which)} tiles; their chunks are read {self.times_read:.2g} times on average{how}"

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that is read."""
        return self.parts

    def token(self) -> str:
        return self._token

    @cached_property
    def _token(self) -> str:
        return super().token()

    @cached_property
    def bounds(self) -> np.ndarray:
        """The range of the volume that each tile covers, int64 (tiles, 3, 2)."""
        forward = inverted(self.inverse)
        centre = (self._extent - 1) / 2 - self.shift
        middle = np.einsum("tab,tb->ta", forward, centre)
        reach = np.einsum("tab,tb->ta", abs(forward), self._extent / 2)
        low, high = np.ceil(middle - reach - _MARGIN), np.floor(middle + reach + _MARGIN) + 1
        whole = np.array(self.shape)
        return np.stack([low.clip(0, whole), high.clip(0, whole)], axis=-1).astype(np.int64)

    def open(self) -> ts.TensorStore:
        return ts.virtual_chunked(
            callback(self._read),
            dtype=self.dtype,
            shape=self.shape,
            chunk_layout=ts.ChunkLayout(chunk_shape=self.cell),
            # These reads wait for reads of the tiles, which need the threads of the other context.
            context=waiting_context() if self.remote else waiting_context(threads()),
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        start = np.array(domain.inclusive_min, np.int64)
        stop = np.array(domain.exclusive_max, np.int64)
        where = self.inverse, self.shift, self._extent
        near = self._near(start, stop)
        found, boxes = tile_boxes(
            start, stop, *(each[near] for each in (self.bounds, *where)), self.order
        )
        tiles = near[found]
        sizes = (boxes[:, :, 1] - boxes[:, :, 0]).prod(axis=1)
        ends = np.cumsum(sizes)
        dtype = kernel_dtype(self.parts[0].dtype)
        data = np.empty(int(sizes.sum()), np.uint8 if dtype.kind == "b" else dtype)
        parts = [
            (int(t), box, data[end - size : end].reshape(box[:, 1] - box[:, 0]))
            for t, box, end, size in zip(tiles, boxes, ends, sizes, strict=True)
        ]
        blended = self._loaded(parts, data)
        dtype = kernel_dtype(self.dtype)
        result = np.empty(out.shape, np.uint8 if dtype.kind == "b" else dtype)
        blended(
            ends - sizes,
            boxes,
            self.bounds[tiles],
            *(each[tiles] for each in (*where, self.gain, self.offset)),
            start,
            self.order,
            BLENDINGS[self.blending],
            self.width[tiles],
            self.fill,
            result,
            arrays(self._kernel.scratch(len(tiles), out.shape[2])),
        )
        out[...] = result

    def _loaded(
        self, parts: Sequence[tuple[int, np.ndarray, np.ndarray]], data: np.ndarray
    ) -> Callable[..., None]:
        """Read boxes of tiles into parts of ``data``, and return the kernel that blends it."""
        for t, box, into in parts:
            into[...] = _voxels(self.parts[self.which[t]], box)
        return partial(self._kernel, data)

    def _near(self, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Return the tiles that may overlap a box, in order, by their range along one axis."""
        axis, longest, order, low = self._index
        first, end = np.searchsorted(low, [start[axis] - longest + 1, stop[axis]])
        return np.sort(order[first:end])

    @cached_property
    def _index(self) -> tuple[int, int, np.ndarray, np.ndarray]:
        """The axis with most tiles in a row, the longest range, and the tiles by their first voxel."""
        low = self.bounds[:, :, 0]
        longest = (self.bounds[:, :, 1] - low).max(axis=0).clip(1)
        axis = int(np.argmax(np.ptp(low, axis=0) / longest))
        order = np.argsort(low[:, axis], kind="stable")
        return axis, int(longest[axis]), order, low[order, axis]

    def moved(self, move: Callable[[Spec], Spec]) -> TilesReader:
        return replace(self, parts=tuple(part.moved(part.name, move) for part in self.parts))

    @cached_property
    def _extent(self) -> np.ndarray:
        return np.array([part.shape for part in self.parts], np.int64)[self.which]

    @cached_property
    def _chunk(self) -> np.ndarray:
        return np.array([part.read_unit for part in self.parts], np.int64)[self.which]

    @property
    def _itemsize(self) -> int:
        return max(kernel_dtype(d).itemsize for d in (self.parts[0].dtype, self.dtype))

    @cached_property
    def _voxels_of_cells(self) -> tuple[int, int, int]:
        """The voxels and the number of tiles that a cell needs at most; voxels in chunks of all cells."""
        order = np.argsort(self.bounds[:, 0, 0], kind="stable")
        where = self.bounds, self.inverse, self.shift, self._extent, self.order, self._chunk
        return voxels_of_cells(np.array(self.shape), np.array(self.cell), order, *where)


@dataclass(frozen=True, eq=False)
class ValidTilesReader(TilesReader):
    """Tiles with voxels that are not valid, or weights by content."""

    masks: tuple[Source, ...] = ()  #: The different masks
    #: (tiles,); the number of each tile's mask, or -1
    which_mask: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    nodata: Any = None  #: The value of voxels that are not valid, of the dtype of the tiles
    #: Standard deviations of `kernels.geometry.content`, if weights depend on content
    sigmas: tuple[float, float, float] | None = None

    _kernel = staticmethod(blend_valid)

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.parts, *self.masks)

    @property
    def _own_bytes(self) -> int:
        """Also the distances of all voxels, and the voxels and the mask of a tile with a margin."""
        margin = int(self._boxes.prod(axis=1).max())
        read = self.masks if self.nodata is None and self.sigmas is None else self.sources
        each, content = max(source.dtype.itemsize for source in read) + 3, 0
        if self.sigmas is not None:
            itemsize = content_dtype(self.parts[0].dtype).itemsize
            each += ARRAYS * itemsize
            content = self._voxels_of_cells[0] * itemsize
        return super()._own_bytes + self._voxels_of_cells[0] + content + margin * each

    @property
    def _bytes_at_a_time(self) -> int:
        masks = self._bytes_to_read(self.masks, self.which_mask) if self.masks else 0
        return max(super()._bytes_at_a_time, masks)

    @property
    def remark(self) -> str:
        margin = int(self._margin.max())
        return f"{super().remark}, without margins of {margin} voxels around blocks"

    @cached_property
    def _margin(self) -> np.ndarray:
        return np.maximum(FADE, radii(self.sigmas or (0.0, 0.0, 0.0)))

    def moved(self, move: Callable[[Spec], Spec]) -> ValidTilesReader:
        parts, masks = (
            tuple(source.moved(source.name, move) for source in sources)
            for sources in (self.parts, self.masks)
        )
        return replace(self, parts=parts, masks=masks)

    def _loaded(
        self, parts: Sequence[tuple[int, np.ndarray, np.ndarray]], data: np.ndarray
    ) -> Callable[..., None]:
        near, begin = np.empty(data.size, np.uint8), 0
        dtype = self.parts[0].dtype
        content = np.empty(0 if self.sigmas is None else data.size, content_dtype(dtype))
        for t, box, into in parts:
            part = slice(begin, begin + into.size)
            where = near[part].reshape(into.shape)
            begin += into.size
            is_marked = self.nodata is not None or self.which_mask[t] >= 0
            if not is_marked and self.sigmas is None:
                into[...], where[...] = _voxels(self.parts[self.which[t]], box), FADE
                continue
            low = np.maximum(box[:, 0] - self._margin, 0)
            high = np.minimum(box[:, 1] + self._margin, self._extent[t])
            outer = np.stack([low, high], axis=1)
            inner = tuple(slice(int(a), int(b)) for a, b in box - low[:, None])
            valid = np.ones(high - low, bool)
            if self.which_mask[t] >= 0:
                valid &= _voxels(self.masks[self.which_mask[t]], outer) != 0
            if self.nodata is None and self.sigmas is None:
                into[...] = _voxels(self.parts[self.which[t]], box)
            else:
                voxels = _voxels(self.parts[self.which[t]], outer)
                if self.nodata is not None:
                    valid &= voxels == voxels if np.isnan(self.nodata) else voxels != self.nodata
                into[...] = voxels[inner]
                if self.sigmas is not None:
                    known = valid & np.isfinite(voxels) if dtype.kind == "f" else valid
                    some = known if is_marked or dtype.kind == "f" else None
                    found = local_variance(voxels, some, self.sigmas)[inner]
                    content[part] = found.reshape(-1)
            distances = valid.view(np.uint8)
            fade(distances)
            where[...] = distances[inner]
        return partial(self._kernel, data, near, content)


@dataclass(frozen=True, eq=False)
class FramesReader(ForwardingReader):
    """Tiles with time points; each has its own reader."""

    whole: TilesReader  #: Its parts have all time points
    inverse: np.ndarray  #: (sets, tiles, 3, 3); one set for all time points, or one for each
    shift: np.ndarray  #: (sets, tiles, 3)
    times: tuple[int, int]  #: The range of time points

    @cached_property
    def inner(self) -> TilesReader:
        return self.point(0)

    @property
    def sources(self) -> tuple[Source, ...]:
        """Everything that is read, with all time points."""
        return self.whole.sources

    def point(self, at: int) -> TilesReader:
        """Return the reader of a time point."""
        t = self.times[0] + at
        k = t if len(self.inverse) > 1 else 0
        return replace(
            self.whole,
            parts=tuple(part.point("t", t) for part in self.whole.parts),
            inverse=self.inverse[k],
            shift=self.shift[k],
        )

    def along_time(self, at: int | tuple[int, int]) -> TilesReader | FramesReader:
        """Return the reader of a time point, or a range of them."""
        if isinstance(at, int):
            return self.point(at)
        first = self.times[0]
        return replace(self, times=(first + at[0], first + at[1]))

    def open(self) -> ts.TensorStore:
        count = self.times[1] - self.times[0]
        return ts.stack([self.point(k).open() for k in range(count)])

    def moved(self, move: Callable[[Spec], Spec]) -> FramesReader:
        return replace(self, whole=self.whole.moved(move))


def _voxels(source: Source, box: np.ndarray) -> np.ndarray:
    """Read a box, (3, 2)."""
    (z0, z1), (y0, y1), (x0, x1) = box.tolist()
    return source.read_here(Box((z0, y0, x0), (z1, y1, x1)))


def different(matrices: np.ndarray) -> np.ndarray:
    """Return the first of equal matrices, or all if they differ; most tiles are only moved."""
    return matrices[:1] if (matrices == matrices[:1]).all() else matrices


def inverted(matrices: np.ndarray) -> np.ndarray:
    """Return the inverse of each matrix."""
    return np.broadcast_to(np.linalg.inv(different(matrices)), matrices.shape)


def fused(
    parts: Sequence[Source],
    which: np.ndarray,
    *,
    shape: Triple,
    dtype: np.dtype,
    space: Space,
    matrices: tuple[np.ndarray, np.ndarray],
    corrections: tuple[np.ndarray, np.ndarray],
    order: int,
    blending: str,
    fill: float,
    width: np.ndarray,
    masks: Sequence[Source | None] = (),
    nodata: Any = None,
    sigmas: tuple[float, float, float] | None = None,
) -> Source:
    """Return the volume of some tiles of one dtype; ``which`` has the number of each tile among ``parts``.

    ``matrices`` are ``inverse`` and ``shift`` of `FramesReader`, ``corrections`` are ``gain`` and ``offset``.
    ``masks`` has a mask or None for each tile.
    """
    cell = _cell(parts, shape, dtype.itemsize, CELL_BYTES if sigmas is None else CONTENT_BYTES)
    own: dict[str, Any] = {
        "parts": tuple(parts),
        "which": which,
        "shape": shape,
        "dtype": dtype,
        "inverse": matrices[0][0],
        "shift": matrices[1][0],
        "gain": corrections[0],
        "offset": corrections[1],
        "order": order,
        "blending": blending,
        "fill": fill,
        "cell": cell,
        "width": width,
    }
    reader = TilesReader(**own)
    if nodata is not None or sigmas or any(mask is not None for mask in masks):
        known = {id(mask): mask for mask in masks if mask is not None}
        numbers = {key: k for k, key in enumerate(known)}
        which_mask = np.array([numbers.get(id(mask), -1) for mask in masks] or [-1] * len(which))
        reader = ValidTilesReader(
            **own,
            masks=tuple(known.values()),
            which_mask=which_mask,
            nodata=nodata,
            sigmas=sigmas,
        )
    encoded = any(source.encoded for source in reader.sources)
    leading = parts[0].leading
    if leading:
        frames = FramesReader(reader, *matrices, (0, leading[0]))
        if len(matrices[0]) > 1:
            needed = max(frames.point(k).decode_bytes for k in range(leading[0]))
            frames = replace(frames, whole=replace(reader, reserved=needed))
    return Source(
        name=f"fusion of {len(which)} tiles ({parts[0].name}, ...)",
        shape=shape,
        dtype=dtype,
        chunk=cell,
        space=space,
        reader=frames if leading else reader,
        encoded=encoded,
        leading=leading,
        leading_chunk=(1,) * len(leading),
    )


def _cell(parts: Sequence[Source], shape: Triple, itemsize: int, target: int) -> Triple:
    """Return the shape that is read at a time: large compared with the chunks of the tiles.

    A cell begins inside of chunks, so along each axis ``1 + chunk / cell`` as many are read.
    """
    chunk = [max(min(p.read_unit[a], p.shape[a]) for p in parts) for a in range(3)]
    cell = [min(n, c) for n, c in zip(shape, chunk, strict=True)]
    while True:
        able = [a for a in range(3) if cell[a] < shape[a]]
        axis = min(able, key=lambda a: (cell[a] / chunk[a], -a), default=None)
        if axis is None or 2 * math.prod(cell) * itemsize > target:
            return (cell[0], cell[1], cell[2])
        cell[axis] = min(shape[axis], 2 * cell[axis])
