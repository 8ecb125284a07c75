"""TIFF files as outputs: contiguous and written in place, or tiles assembled at the end."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.storage.formats.format import Layout, NumberedUnits, Options, OutputRequest
from beam_volumes.storage.formats.metadata import MASK_OPTION, as_bytes, mask_value
from beam_volumes.storage.formats.tiff import files as tags
from beam_volumes.storage.formats.tiff import layout as at_rest
from beam_volumes.storage.formats.tiff.layout import LONG, LONG8, SHORT, Entry
from beam_volumes.storage.formats.tiff.reading import Pages, TiffReader
from beam_volumes.storage.formats.tiff.segments import CODECS, Segments, encode
from beam_volumes.storage.places.positioned import write_to
from beam_volumes.storage.places.single_file import pieces, put_together
from beam_volumes.storage.sources.axes import Selection
from beam_volumes.storage.sources.chunking import default_chunk, no_larger
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source

#: Minimal bytes of voxels that are written in place at a time.
_IN_PLACE = 2 << 20
#: Bytes of directories that are written at a time.
_AT_A_TIME = 1 << 20
CODEC_OPTION = (
    "str or mapping",
    '``"none"`` (the default of slices, and of ``.tif``: one contiguous file that ImageJ opens), '
    '``"deflate"`` (the default of ``.ome.tif``), ``"zstd"`` or ``"lzw"``; with a level as '
    '``{"name": "zstd", "level": 5}``.',
)


def codec_of(name: str, given: Any, default: str) -> tuple[str, int | None]:
    """Return the option ``codec`` as a name and a level."""
    if given is None:
        return default, None
    known = ", ".join(["none", *CODECS])
    wanted, level = given, None
    if isinstance(given, Mapping):
        wanted, level = given.get("name"), given.get("level")
        if set(given) - {"name", "level"} or not isinstance(level, int | None):
            raise ValueError(f"{name}: codec={given!r}; give a name and a level")
    wanted = "deflate" if wanted == "zlib" else wanted
    if wanted not in ("none", *CODECS):
        raise ValueError(f"{name}: codec={given!r}; use one of {known}")
    return str(wanted), level


class TiffOutput(NumberedUnits):
    """A TIFF file; a BigTIFF from 4 GiB on."""

    name = "tiff"
    suffixes = (".tif", ".tiff")
    dtypes = DTYPES
    options: ClassVar[Options] = {"codec": CODEC_OPTION, "mask_value": MASK_OPTION}
    is_file = True
    channels = "apart"
    default_codec = "none"

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        return dtype  # masks are bytes in the file only

    def layout(self, wanted: OutputRequest) -> Layout:
        name, shape, itemsize = wanted.name, wanted.shape, wanted.dtype.itemsize
        codec = codec_of(name, wanted.option("codec"), self.default_codec)
        kept = mask_value(name, wanted.option("mask_value"), wanted.dtype)
        if min(shape) < 1:
            raise ValueError(
                f"{name}: a volume of {shape} is empty; a TIFF file has at least one voxel"
            )
        if max(shape[1:]) >= 1 << 31:
            raise ValueError(f"{name}: a page of a TIFF file cannot have {shape[1:]} voxels")
        _, y, x = shape
        row = x * itemsize
        if not self.is_contiguous(codec[0]):
            z, cy, cx = default_chunk(shape, itemsize)
            ty, tx = tile_of(shape, itemsize)
            chunk = (z, max(1, cy // ty) * ty, max(1, cx // tx) * tx)
        elif y * row >= 2 * _IN_PLACE:
            chunk = (1, max(1, _IN_PLACE // row), x)
        else:
            chunk = (max(1, _IN_PLACE // max(1, y * row)), y, x)
        return Layout(no_larger(chunk, shape), codec=codec, options=kept)

    def is_contiguous(self, codec: str) -> bool:
        """Whether voxels are contiguous, so units are written at their positions."""
        return codec == "none"

    def is_assembled(self, d: Description) -> bool:
        return not self.is_contiguous(d.codec[0])

    def description(self, d: Description) -> bytes:
        return at_rest.imagej(d)

    def leading(self, d: Description) -> tuple[tuple[str, int], ...]:
        """Return the axes along which pages are ordered, the last one fastest, as in ImageJ."""
        sizes = dict(zip(d.space.leading, d.leading, strict=True))
        return tuple((a, d.shape[0] if a == "z" else sizes[a]) for a in "tzc" if a in {"z", *sizes})

    def page(self, d: Description, z: int) -> int:
        """Return the page of a slice at the leading position of ``d``."""
        at = dict(zip(d.space.leading, d.at or (0,) * len(d.leading), strict=True)) | {"z": z}
        page = 0
        for axis, n in self.leading(d):
            page = page * n + at[axis]
        return page

    # in place

    def _contiguous(self, d: Description) -> tuple[bool, int, int, int]:
        """Return whether it is BigTIFF, sizes of the first and other directories, and the start."""
        big, first, other, begin = False, 0, 0, 0
        for big in (False, True):
            first = at_rest.directory_bytes(self._entries(d, 0, 0, big), big)
            other = at_rest.directory_bytes(self._entries(d, 1, 0, big), big)
            begin = at_rest.header_bytes(big) + first + (at_rest.page_count(d) - 1) * other
            begin += -begin % 4096
            if begin + d.nbytes <= at_rest.CLASSIC_BYTES:
                break
        return big, first, other, begin

    def _entries(self, d: Description, page: int, at: int, big: bool) -> list[Entry]:
        """Return the tags of a page with voxels in one strip."""
        wide = LONG8 if big else LONG
        found = [
            *at_rest.sample_tags(d),
            (tags.COMPRESSION, SHORT, 1),
            (tags.STRIP_OFFSETS, wide, at),
            (tags.ROWS_PER_STRIP, LONG, d.shape[1]),
            (tags.STRIP_COUNTS, wide, _page_bytes(d)),
        ]
        return found if page else [*found, *self._about(d)]

    def _about(self, d: Description) -> list[Entry]:
        """Return the tags that only the first page has."""
        return [
            (at_rest.DESCRIPTION, at_rest.ASCII, self.description(d)),
            (at_rest.SOFTWARE, at_rest.ASCII, b"beam_volumes"),
        ]

    def make(self, d: Description) -> None:
        if self.is_assembled(d):
            return
        big, first, other, begin = self._contiguous(d)
        count = at_rest.page_count(d)
        # An existing file is not cleared: another attempt may be writing voxels.
        handle = os.open(d.kvstore["path"], os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(handle, begin + d.nbytes)
            at = at_rest.header_bytes(big)
            data, start = [at_rest.header(at, big)], 0
            for page in range(count):
                size = other if page else first
                following = at + size if page + 1 < count else None
                entries = self._entries(d, page, begin + page * _page_bytes(d), big)
                data.append(at_rest.directory(entries, at, following, big))
                at += size
                if at - start > _AT_A_TIME or following is None:
                    write_to(handle, b"".join(data), start)
                    data, start = [], at
        finally:
            os.close(handle)

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        if self.is_assembled(d):
            super().write_unit(d, cell, voxels)
            return
        z, y, _ = (c * u for c, u in zip(cell, d.unit, strict=True))
        stored = np.ascontiguousarray(as_bytes(d, voxels))
        stored = stored.astype(stored.dtype.newbyteorder("<"), copy=False)
        begin = self._contiguous(d)[3] + y * d.shape[2] * stored.dtype.itemsize
        handle = os.open(d.kvstore["path"], os.O_WRONLY)
        try:
            for k, plane in enumerate(stored):
                write_to(handle, plane.data.cast("B"), begin + self.page(d, z + k) * _page_bytes(d))
        finally:
            os.close(handle)

    # tiles

    def key(self, d: Description, cell: Triple) -> str | None:
        return super().key(d, cell) if self.is_assembled(d) else None

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        """Encode the tiles of a unit: their number, lengths and bytes, slice by slice."""
        ty, tx = tile_of(d.shape, d.dtype.itemsize)
        voxels = as_bytes(d, voxels)
        predictor = _predictor(d)
        tiles = []
        for plane in voxels:
            for y in range(0, plane.shape[0], ty):
                for x in range(0, plane.shape[1], tx):
                    part = plane[y : y + ty, x : x + tx]
                    if part.shape != (ty, tx):
                        whole = np.zeros((ty, tx), part.dtype)
                        whole[: part.shape[0], : part.shape[1]] = part
                        part = whole
                    tiles.append(encode(part, *d.codec, predictor))
        lengths = np.array([len(t) for t in tiles], "<u4")
        return b"".join([struct.pack("<I", len(tiles)), lengths.tobytes(), *tiles])

    def assemble(self, d: Description, is_ours: Callable[[], bool]) -> Mapping[str, Any]:
        home = self.home(d)["path"]
        ty, tx = tile_of(d.shape, d.dtype.itemsize)
        _, ny, nx = d.shape
        count = at_rest.page_count(d)
        counts = np.zeros((count, -(-ny // ty), -(-nx // tx)), np.uint32)
        places = np.zeros(counts.shape, np.int64)
        at = 0
        paths = []
        for point in np.ndindex(*d.leading):
            part = replace(d, at=point) if d.leading else d
            for index in range(len(d.grid)):
                cell, box = d.grid.cell(index), d.grid.box(index)
                path = os.path.join(home, str(self.key(part, cell)))
                with open(path, "rb") as file:
                    (n,) = struct.unpack("<I", file.read(4))
                    lengths = np.frombuffer(file.read(4 * n), "<u4")
                (z0, y0, x0), (z1, y1, x1) = box.start, box.stop
                pages = [self.page(part, z) for z in range(z0, z1)]
                where = np.ix_(pages, range(y0 // ty, -(-y1 // ty)), range(x0 // tx, -(-x1 // tx)))
                shape = counts[where].shape
                counts[where] = lengths.reshape(shape)
                ends = at + np.cumsum(lengths, dtype=np.int64)
                places[where] = (ends - lengths).reshape(shape)
                at = int(ends[-1])
                paths.append((path, 4 + 4 * n))
        big, begin, entries, sizes = False, 0, 0, [0, 0]
        for big in (False, True):
            begin = at_rest.header_bytes(big)
            sizes = [
                at_rest.directory_bytes(self._tile_tags(d, page, counts[0], places[0], big), big)
                for page in (0, 1)
            ]
            entries = sizes[0] + (count - 1) * sizes[1]
            if begin + at + 8 + entries <= at_rest.CLASSIC_BYTES:
                break
        first = begin + at + -(begin + at) % 8

        def content() -> Iterator[bytes]:
            yield at_rest.header(first, big)
            for path, head in paths:
                left = head
                for data in pieces(path):
                    yield data[left:]
                    left = max(0, left - len(data))
            yield bytes(first - begin - at)
            here = first
            for page in range(count):
                size = sizes[1] if page else sizes[0]
                following = here + size if page + 1 < count else None
                made = self._tile_tags(d, page, counts[page], places[page] + begin, big)
                yield at_rest.directory(made, here, following, big)
                here += size

        put_together(d.kvstore["path"], home, content(), is_ours)
        return {"bytes": first + entries}

    def _tile_tags(
        self, d: Description, page: int, counts: np.ndarray, places: np.ndarray, big: bool
    ) -> list[Entry]:
        ty, tx = tile_of(d.shape, d.dtype.itemsize)
        codec = d.codec[0]
        found = [
            *at_rest.sample_tags(d),
            (tags.COMPRESSION, SHORT, CODECS[codec][0] if codec in CODECS else 1),
            (tags.PREDICTOR, SHORT, _predictor(d)),
            (tags.TILE_WIDTH, LONG, tx),
            (tags.TILE_LENGTH, LONG, ty),
            (tags.TILE_OFFSETS, LONG8 if big else LONG, places.ravel()),
            (tags.TILE_COUNTS, LONG, counts.ravel()),
        ]
        return found if page else [*found, *self._about(d)]

    # read back

    def read_back(self, d: Description) -> Source:
        """Return the file as a source; the positions of pages are found when it is opened."""
        _, y, x = d.shape
        mask = d.dtype.kind == "b"
        dtype = np.dtype(np.uint8) if mask else d.dtype
        how: dict[str, Any] = {}
        if self.is_assembled(d):
            codec = d.codec[0]
            number = CODECS[codec][0] if codec in CODECS else 1
            how = {"compression": number, "predictor": _predictor(d)}
            tile = (1, *tile_of(d.shape, d.dtype.itemsize))
            pages = Pages(None)
        else:
            tile, pages = (1, y, x), Pages(None, voxels=self._contiguous(d)[3])
        segments = Segments(
            (1, 1, y, x, 1), tile, self.is_assembled(d), dtype, 8 * dtype.itemsize, **how
        )
        leading = self.leading(d)
        n = len(leading)
        dims = (*((a, k) for k, (a, _) in enumerate(leading)), ("y", n + 2), ("x", n + 3))
        selection = Selection(((n, 0), (n + 1, 0), (n + 4, 0)), dims)
        reader = TiffReader((d.kvstore,), pages, leading, segments, selection, mask)
        return Source(
            name=d.name,
            shape=d.shape,
            dtype=d.dtype,
            chunk=no_larger((1, reader.chunk[2], reader.chunk[3]), d.shape),
            space=d.space,
            reader=reader,
            encoded=self.is_assembled(d),
            leading=d.leading,
            leading_chunk=(1,) * len(d.leading),
        )


class OmeTiff(TiffOutput):
    """An OME-TIFF of tiles."""

    name = "ome-tiff"
    suffixes = (".ome.tif", ".ome.tiff")
    dtypes = tuple(d for d in DTYPES if d.name not in ("int64", "uint64", "float16"))
    default_codec = "deflate"

    def is_contiguous(self, codec: str) -> bool:
        return False

    def leading(self, d: Description) -> tuple[tuple[str, int], ...]:
        return (*zip(d.space.leading, d.leading, strict=True), ("z", d.shape[0]))

    def description(self, d: Description) -> bytes:
        return at_rest.ome(d)


def tile_of(shape: Triple, itemsize: int) -> tuple[int, int]:
    """Return the tile of a file: up to 512 x 512, in multiples of 16 as TIFF requires.

    >>> tile_of((5, 4000, 300), 1)
    (512, 304)
    """
    edge = 512 if itemsize < 4 else 256
    y, x = (min(edge, n + -n % 16) for n in shape[1:])
    return y, x


def _predictor(d: Description) -> int:
    """Return predictor 2 (differences along rows) for integers that all readers support, else 1."""
    whole = d.dtype.kind in "ui" and d.dtype.itemsize <= 4
    return 2 if whole and d.codec[0] != "none" else 1


def _page_bytes(d: Description) -> int:
    return d.shape[1] * d.shape[2] * d.dtype.itemsize


FORMATS = (TiffOutput(), OmeTiff())
