"""Find and decode the tiles and strips of a TIFF file's pages."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.base.geometry import Triple
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.tiff import files as tags
from beam_volumes.storage.formats.tiff.files import Directory, File, Numbers, opened_file
from beam_volumes.storage.formats.tiff.segments import OLD_JPEG, Segments
from beam_volumes.storage.places.context import callback, context, waiting_context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec, url
from beam_volumes.storage.sources.axes import Selection
from beam_volumes.storage.sources.numbered import describe_lost
from beam_volumes.storage.sources.raw import RawChunks
from beam_volumes.storage.sources.source import TokenOfFields

#: Bytes of strips that are decoded together, and of uncompressed rows. A strip may be one row.
STRIPS, ROWS = 1 << 18, 1 << 20
#: Maximal bytes of a table of old JPEG.
_OLD_TABLE = 16 + 256
#: Pages that are known to be like the first, at a time.
_ALIKE = 4096
#: Tiles and strips decoded in this process so far, for tests.
decoded = 0
_count = threading.Lock()


@dataclass(frozen=True)
class Pages:
    """The positions of the pages of an image."""

    #: The directories of pages in order; 0 for a missing one. None for all directories of the file,
    #: found when it is opened
    offsets: Numbers | None
    files: Numbers | None = None  #: The file of each page; None for a single file
    #: The position of the first voxel, if all pages are contiguous and uncompressed
    voxels: int | None = None


@dataclass(frozen=True, eq=False)
class TiffReader(TokenOfFields):
    """An image of some pages."""

    places: tuple[Spec, ...]  #: The files
    pages: Pages
    #: The axes along which pages are ordered, the last one fastest: name and extent
    leading: tuple[tuple[str, int], ...]
    segments: Segments
    #: The fixed and the selected axes, among these and then a page's five
    selection: Selection
    mask: bool = False  #: Whether nonzero values are True
    byte_order: Any = "<"  #: Byte order of contiguous voxels
    #: Missing pages and their replacements, by name: another page, already in ``pages``, or zeros
    lost: Mapping[str, str] = field(default_factory=dict)

    @property
    def remark(self) -> str:
        return describe_lost(self.lost)

    @property
    def portable(self) -> bool:
        return self.places[0].get("driver") != "memory"

    @property
    def remote(self) -> bool:
        return self.places[0].get("driver") not in ("file", "memory")

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(Extent(place) for place in self.places)

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(bool) if self.mask else self.segments.dtype

    @property
    def chunk(self) -> tuple[int, int, int, int, int]:
        """The part of a page (separate samples, z, y, x, samples) that is decoded at once."""
        s = self.segments
        _, _, y, x, sc = s.shape
        td, th, tw = s.tile
        if s.tiled:
            return 1, td, th, tw, sc
        row = max(1, s.row_bytes)
        if s.is_plain:
            return 1, 1, max(1, min(y, ROWS // row)), max(1, x), sc
        together = max(1, STRIPS // max(1, th * row))
        return 1, 1, max(1, min(y, th * together)), max(1, x), sc

    @property
    def decode_bytes(self) -> int:
        """The bytes that are decoded at once, with all samples."""
        return math.prod(self.chunk) * self.segments.dtype.itemsize

    def whole(self) -> ts.TensorStore:
        """Open all axes: the axes of pages in order, then a page's own."""
        leading = [n for _, n in self.leading]
        k = len(leading)
        return ts.virtual_chunked(
            callback(_Reading(self).read),
            dtype=self.dtype,
            shape=[*leading, *self.segments.shape],
            chunk_layout=ts.ChunkLayout(
                chunk_shape=[1] * k + list(self.chunk),
                # numpy separates the samples of a pixel once: TensorStore takes twice as long.
                inner_order=[*range(k), k, k + 4, k + 1, k + 2, k + 3],
            ),
            context=waiting_context() if self.remote else context(),
        )

    def open(self) -> ts.TensorStore:
        return self.selection.apply(self.whole())

    def raw_chunks(self, leading: Sequence[int], offset: Triple) -> RawChunks | str:
        """Return the tiles or rows that are plain voxels, or why they are not."""
        s, k, dims = self.segments, len(self.leading), dict(self.selection.dims)
        if len(self.places) > 1 or self.places[0].get("driver") != "file":
            return "it is not one file on a disk"
        if not s.is_plain:
            return "its tiles are encoded"
        if self.lost or s.fill:
            return "some of its pages or tiles may be missing"
        is_upright = (dims.get("y"), dims.get("x")) == (k + 2, k + 3) and dims.get("z", -1) < k
        if s.shape[1] > 1 or s.shape[4] > 1 or not is_upright:
            return "its tiles contain several channels, or are not along y and x"
        together = self.pages.voxels is not None or (not s.tiled and s.tile[1] >= s.shape[2])
        if not (together or s.tiled):
            return "its pages consist of several strips"
        fixed = dict(self.selection.fixed)
        fixed |= zip((dims[a] for a in self.selection.leading), leading, strict=True)
        return RawPages(
            s.dtype.newbyteorder(self.byte_order),
            (1, self.chunk[2], self.chunk[3]),
            offset,
            s.shape[2] if together else None,
            reader=self,
            at=tuple(fixed.get(d, 0) for d in range(k + 1)),
            z=dims.get("z"),
        )


@dataclass(frozen=True, kw_only=True)
class RawPages(RawChunks):
    """Tiles of pages, or rows of contiguous ones."""

    reader: TiffReader
    at: tuple[int, ...]  #: The position along the axes of pages, and the separate sample.
    z: int | None  #: The axis of pages along z.

    def place(self, cell: tuple[int, ...]) -> tuple[str, int]:
        at = list(self.at)
        if self.z is not None:
            at[self.z] = cell[0]
        page = 0
        for (_, n), i in zip(self.reader.leading, at[:-1], strict=True):
            page = page * n + i
        place = self._reading.placed(page, at[-1], cell[1], cell[2])
        return (self.reader.places[0]["path"], place) if place else ("", 0)

    @cached_property
    def _reading(self) -> _Reading:
        return _Reading(self.reader)


class _Reading:
    """Decodes the tiles of an image in this process."""

    def __init__(self, reader: TiffReader) -> None:
        self._r, self._s = reader, reader.segments
        self._leading = [n for _, n in reader.leading]
        pages = reader.pages
        self._offsets = None if pages.offsets is None else pages.offsets.array()
        self._files = None if pages.files is None else pages.files.array()
        self._walked: File | None = None
        self._lock = threading.Lock()
        #: Directories of pages that are known to be like the first, by number.
        self._alike: dict[int, Directory] = {}
        if pages.offsets is None and pages.voxels is None:
            self._found(opened_file(reader.places[0]))

    def _found(self, file: File) -> np.ndarray:
        """Return the directories of a file, which may have been rewritten."""
        with self._lock:
            if self._walked is not file or self._offsets is None:
                offsets = tags.walk(file).offsets
                count = math.prod(self._leading)
                if len(offsets) != count:
                    raise VolumeError(
                        f"{printable(file.name)} has {len(offsets)} pages, not {count}; open it again"
                    )
                self._offsets, self._walked = offsets, file
            return self._offsets

    def read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        at, stop = domain.inclusive_min, domain.exclusive_max
        k = len(self._leading)
        ranges = [range(a, b) for a, b in zip(at[:k], stop[:k], strict=True)]
        for where in np.ndindex(*map(len, ranges)):
            page = 0
            for n, r, i in zip(self._leading, ranges, where, strict=True):
                page = page * n + r[i]
            for s in range(at[k], stop[k]):
                part = out[where][s - at[k]]
                self._read_page(page, s, at[k + 1 :], stop[k + 1 :], part)

    def _read_page(
        self, page: int, sample: int, at: Sequence[int], stop: Sequence[int], out: np.ndarray
    ) -> None:
        (z0, y0, x0, c0), (z1, y1, x1, c1) = at, stop
        if self._r.pages.voxels is not None:
            file = opened_file(self._r.places[0])
            for z in range(z0, z1):
                rows = self._rows(file, self._row(page, sample, z, y0), y1 - y0, page)
                out[z - z0] = rows[:, x0:x1, c0:c1]
            return
        if self._r.lost and self._offsets is not None and self._offsets[page] == 0:
            out[...] = 0
            return
        self._page(page).read(sample, at, stop, out)

    def placed(self, page: int, sample: int, iy: int, ix: int) -> int:
        """Return the position of a cell of `TiffReader.chunk`, if it is uncompressed; 0 without voxels."""
        s, y = self._s, iy * self._r.chunk[2]
        if self._r.pages.voxels is not None:
            return self._row(page, sample, 0, y)
        found = self._page(page)
        if s.tiled:
            return found.placed(s.index(sample, 0, iy, ix))
        strip = found.placed(s.index(sample, 0, 0, 0))
        return strip and strip + y * s.row_bytes

    def _row(self, page: int, sample: int, z: int, y: int) -> int:
        """Return the position of a row of contiguous pages."""
        s, first = self._s, self._r.pages.voxels
        assert first is not None
        return (
            first + (((page * s.shape[0] + sample) * s.shape[1] + z) * s.shape[2] + y) * s.row_bytes
        )

    def _page(self, page: int) -> Page:
        """Return a page that is like the first."""
        file, directory = self._directory(page)
        if self._alike.get(page) is not directory:
            self._check(file, directory, page)
            if len(self._alike) >= _ALIKE:
                self._alike.clear()
            self._alike[page] = directory
        return Page(file, directory, self._s, lambda: self._where(page))

    def _rows(self, file: File, at: int, count: int, page: int) -> np.ndarray:
        """Read uncompressed rows."""
        s = self._s
        data = file.read(count * s.row_bytes, at, f"page {page}")
        _counted()
        found = np.frombuffer(data, s.dtype.newbyteorder(self._r.byte_order))
        return found.reshape(count, s.tile[2], s.shape[4])

    def _directory(self, page: int) -> tuple[File, Directory]:
        if self._r.pages.offsets is None:
            file = opened_file(self._r.places[0])
            return file, file.directory(int(self._found(file)[page]))
        assert self._offsets is not None
        at = int(self._offsets[page])
        which = 0 if self._files is None else int(self._files[page])
        if at == 0:
            raise VolumeError(
                f"{self._where(page)} is missing: its file is missing or incomplete; restore it, or select "
                "existing pages by index="
            )
        file = opened_file(self._r.places[which])
        return file, file.directory(at)

    def _where(self, page: int) -> str:
        sizes = self._leading
        at = np.unravel_index(page, sizes) if sizes else ()
        names = [f"{a} {int(i)}" for (a, _), i in zip(self._r.leading, at, strict=True)]
        of = printable(url(self._r.places[0]))
        return f"the page {', '.join(names)} of {of}" if names else f"the page of {of}"

    def _check(self, file: File, found: Directory, page: int) -> None:
        """Refuse a page that is unlike the first."""
        s = self._s
        if page == 0:
            return
        for code, expected in (
            (tags.WIDTH, s.shape[3]),
            (tags.LENGTH, s.shape[2]),
            (tags.COMPRESSION, s.compression),
            (tags.BITS, s.bits),
            (tags.PREDICTOR, s.predictor),
            (tags.SAMPLES, s.shape[0] * s.shape[4]),
            *(((tags.TILE_WIDTH, s.tile[2]), (tags.TILE_LENGTH, s.tile[1])) if s.tiled else ()),
        ):
            number = found.number(file, code, tags.ALIKE[code])
            if number != expected:
                raise VolumeError(
                    f"{self._where(page)} is unlike the first: tag {code} is {number}, not {expected}; "
                    "the pages of a volume must be alike"
                )


@dataclass(frozen=True, eq=False)
class Page:
    """A page of a file; any part of it can be decoded."""

    file: File
    directory: Directory
    segments: Segments
    name: Callable[[], str]  #: Returns the name for messages

    def whole(self) -> np.ndarray:
        """Decode all: separate samples, depth, length, width, samples."""
        s, shape = self.segments, self.segments.shape
        if s.is_plain and not s.tiled:
            offsets, counts = self._all_strips()
            together = len(offsets) == s.count and counts.sum() == s.page_bytes
            if together and offsets[0] and (np.diff(offsets) == counts[:-1]).all():
                data = self.file.read(s.page_bytes, int(offsets[0]), self.name())
                _counted()
                stored = s.dtype.newbyteorder(self.directory.order)
                return np.frombuffer(data, stored).reshape(shape).astype(s.dtype, copy=False)
        out = np.empty(shape, s.dtype)
        for sample in range(shape[0]):
            self.read(sample, (0, 0, 0, 0), shape[1:], out[sample])
        return out

    def read(self, sample: int, at: Sequence[int], stop: Sequence[int], out: np.ndarray) -> None:
        s = self.segments
        (z0, y0, x0, c0), (z1, y1, x1, c1) = at, stop
        td, th, tw = s.tile
        for iz in range(z0 // td, -(-z1 // td)):
            za, zb = max(z0, iz * td), min(z1, (iz + 1) * td)
            for ix in range(x0 // tw, -(-x1 // tw)):
                xa, xb = max(x0, ix * tw), min(x1, (ix + 1) * tw)
                grid = range(y0 // th, -(-y1 // th))
                tiles = self._tiles((sample, iz, ix), grid, (y0, y1))
                for iy, (top, found) in zip(grid, tiles, strict=True):
                    ya, yb = max(y0, iy * th), min(y1, (iy + 1) * th)
                    z, x = za - iz * td, xa - ix * tw
                    out[za - z0 : zb - z0, ya - y0 : yb - y0, xa - x0 : xb - x0] = found[
                        z : z + zb - za, ya - top : yb - top, x : x + xb - xa, c0:c1
                    ]

    def _tiles(
        self, at: tuple[int, int, int], rows: range, wanted: tuple[int, int]
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the decoded tiles or strips of a column, each with its first row in the page.

        ``at``: sample, and position along depth and width; ``rows`` along length; ``wanted``: rows of pixels.
        """
        # Only wanted rows are read of uncompressed strips.
        s, file, found = self.segments, self.file, self.directory
        if s.compression == OLD_JPEG:
            yield 0, self._of_libtiff()
            return
        sample, iz, ix = at
        indices = [s.index(sample, iz, iy, ix) for iy in rows]
        offsets, counts = self._places(indices)
        tables = file.data(found, tags.JPEG_TABLES)
        near = _Near(file)
        for k, iy in enumerate(rows):
            top = iy * s.tile[1]
            n = s.rows(top)
            shape = (s.tile[0], n, s.tile[2], s.shape[4])
            place, count = int(offsets[k]), int(counts[k])
            if place == 0 or count == 0:  # empty tiles need not be stored
                yield top, np.full(shape, s.fill, s.dtype)
                continue
            if s.compression == 1:
                need = s.tile[0] * n * s.row_bytes
                if s.is_plain and not s.tiled:
                    first, last = max(wanted[0] - top, 0), min(wanted[1] - top, n)
                    place, need = place + first * s.row_bytes, (last - first) * s.row_bytes
                    top, shape = top + first, (1, last - first, *shape[2:])
                if 0 <= count < need and s.tiled:
                    raise file.damaged(f"{self._called(iz, iy, ix)} has {count} bytes, not {need}")
                count = need
            elif count < 0:
                raise file.damaged(f"its page at {found.at} has no lengths of its tiles")
            ahead = int(offsets[-1] + counts[-1]) if s.compression != 1 else place + count
            data = near.read(count, place, ahead, lambda iy=iy: self._called(iz, iy, ix))  # type: ignore[misc]
            _counted()
            if s.is_plain:
                voxels = np.frombuffer(data, s.dtype.newbyteorder(file.flavour.order))
                yield top, voxels.reshape(shape)
                continue
            try:
                tile = s.decode(data, file.flavour.order, top, tables)
            except Exception as error:
                raise VolumeError(
                    f"{self._called(iz, iy, ix)} is damaged ({count} bytes at {place} of "
                    f"{printable(file.name)}): {error}; restore it"
                ) from None
            yield top, tile

    def placed(self, index: int) -> int:
        """Return the position of an uncompressed tile or strip; 0 if it is not stored."""
        (offset,), (count,) = self._places([index])
        need = self.segments.nbytes if self.segments.tiled else 0
        if offset and 0 < count < need:
            raise self.file.damaged(f"tile {index} of {self.name()} has {count} bytes, not {need}")
        return int(offset) if count else 0

    def _of_libtiff(self) -> np.ndarray:
        """Decode the page by libtiff, from a copy of the file with only this page."""
        s, file, found = self.segments, self.file, self.directory
        copy = np.zeros(file.size, np.uint8)  # unused parts take no memory

        def put(at: int, count: int) -> None:
            part = file.pread(count, at)
            copy[max(0, at) :][: len(part)] = np.frombuffer(part, np.uint8)

        f = file.flavour
        put(0, f.head)
        copy[f.head - f.position.size : f.head] = np.frombuffer(f.position.pack(found.at), np.uint8)
        put(found.at, found.length)
        for code, (kind, count, at) in found.tags.items():
            if code not in found.inline:
                put(at, tags.SIZES.get(kind, 1) * count)
        offsets, counts = self._all_strips()
        for at, count in zip(offsets.tolist(), counts.tolist(), strict=True):
            put(at, count)
        stream = found.number(file, tags.JPEG_STREAM, -1)
        put(stream, found.number(file, tags.JPEG_LENGTH, int(offsets.min()) - stream))
        for code in tags.OLD_TABLES:
            for at in found.numbers(file, code).tolist():
                put(at, _OLD_TABLE)
        _counted()
        try:
            image = imagecodecs.tiff_decode(copy.data)  # type: ignore[arg-type]
            return s.fitted(np.asarray(image), (s.tile[0], *s.shape[2:]))
        except Exception as error:
            raise VolumeError(f"{self.name()} is damaged: {error}; restore it") from None

    def _all_strips(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and lengths of all strips or tiles."""
        file, found = self.file, self.directory
        tiled = tags.TILE_OFFSETS in found.tags
        offsets = found.numbers(file, tags.TILE_OFFSETS if tiled else tags.STRIP_OFFSETS)
        counts = found.numbers(file, tags.TILE_COUNTS if tiled else tags.STRIP_COUNTS)
        if not len(offsets) or len(offsets) != len(counts):
            raise file.damaged(f"its page at {found.at} has no positions of its strips")
        return offsets, counts

    def _called(self, iz: int, iy: int, ix: int) -> str:
        where = (iz, iy, ix) if self.segments.tile[0] > 1 else (iy, ix)
        return f"tile {where} of {self.name()}"

    def _places(self, indices: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions and lengths of tiles; -1 for unknown lengths."""
        file, found = self.file, self.directory
        at, count = (
            (tags.TILE_OFFSETS, tags.TILE_COUNTS)
            if tags.TILE_OFFSETS in found.tags
            else (tags.STRIP_OFFSETS, tags.STRIP_COUNTS)
        )
        first, n = indices[0], indices[-1] - indices[0] + 1
        if n > 4 * len(indices) + 1024:  # a column of a wide page
            some = [self._places([k]) for k in indices]
            return np.concatenate([o for o, _ in some]), np.concatenate([c for _, c in some])
        offsets = file.table(found, at, first, n)
        counts = file.table(found, count, first, n)
        if len(offsets) < n:
            raise file.damaged(f"its page at {found.at} has no position of tile {indices[-1]}")
        if len(counts) < n:
            counts = np.full(n, -1, np.int64)
        if n == len(indices):
            return offsets, counts
        which = np.asarray(indices) - first
        return offsets[which], counts[which]


class _Near:
    """Reads adjacent parts of a file at once, such as the strips of a page."""

    def __init__(self, file: File) -> None:
        self._file, self._data, self._at = file, b"", 0

    def read(self, count: int, at: int, ahead: int, what: Callable[[], str]) -> bytes:
        start = at - self._at
        if not 0 <= start <= len(self._data) - count:
            if at < 0 or count < 0 or at + count > self._file.size:
                self._file.read(count, at, what())  # raises the error
            more = ahead - at
            more = more if count < more <= 1 << 20 else count
            self._data, self._at, start = self._file.pread(more, at), at, 0
            if len(self._data) < count:
                raise self._file.damaged(f"{what()} cannot be read: the file has ended")
        return self._data[start : start + count]


def _counted() -> None:
    global decoded
    with _count:
        decoded += 1
