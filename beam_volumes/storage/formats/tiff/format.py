"""TIFF files: multi-page, BigTIFF, tiled, ImageJ, OME-TIFF, whole slides.

Opening reads metadata: the chain of pages, the first page's tags, and the descriptions of ImageJ,
OME or a slide scanner, which tifffile parses. A read decodes the tiles or strips that it needs, on
TensorStore's threads; only parts of tables of tiles are cached.
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import tifffile

from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.tensorstore_spec import TOO_LARGE
from beam_volumes.storage.formats.format import WHOLE, Format, Listing, OpenRequest, Options
from beam_volumes.storage.formats.metadata import RefusedXml, parsed_xml
from beam_volumes.storage.formats.tiff import files as tags
from beam_volumes.storage.formats.tiff.files import Chain, File, Numbers, opened_file
from beam_volumes.storage.formats.tiff.metadata import (
    Ome,
    UnknownSchema,
    check_parsed,
    check_schema,
    first_of,
    metadata_of,
    tag_of,
    whole,
)
from beam_volumes.storage.formats.tiff.reading import Page, Pages, TiffReader
from beam_volumes.storage.formats.tiff.segments import JPEGS, OLD_JPEG, Segments
from beam_volumes.storage.places.errors import VolumeError, damaged
from beam_volumes.storage.places.outside import check_key, named_file
from beam_volumes.storage.places.place import Place, Spec, join
from beam_volumes.storage.places.remote_file import Stream
from beam_volumes.storage.sources.axes import Selection, select
from beam_volumes.storage.sources.numbered import MISSING, ZEROS, check_missing, stand_ins
from beam_volumes.storage.sources.source import Source, check_dtype

SUFFIXES = (".tif", ".tiff", ".btf", ".tf8", ".svs", ".lsm", ".stk", ".ndpi", ".scn", ".qptiff")
#: The end of the name of a file with the metadata of OME-TIFF files, and its maximal size.
COMPANION, _MAX_XML = ".companion.ome", 1 << 28
#: With this many pages, tags are not read page by page if avoidable.
MANY = 512

#: Names of the samples of a pixel, by their number.
COLOURS: dict[int, Sequence[str]] = {
    2: ("grey", "alpha"),
    3: ("red", "green", "blue"),
    4: ("red", "green", "blue", "alpha"),
}
#: The tags that determine how a page is decoded; for JPEG, its streams do so, too.
_DECIDING = (
    *(256, 257, 258, 259, 262, 266, 277, 278, 284, 292, 293, 305, 317, 322, 323, 338, 339),
    *(530, 32997, 32998, 42113),
)
#: Segments by the values of these tags: pages of many files are alike.
_known: dict[Any, Segments] = {}


class Tiff(Format):
    """A TIFF file."""

    title = "a TIFF file"
    open_options: ClassVar[Options] = {"missing": MISSING}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        found = _found(place)
        if found is None:
            return None
        check_missing(request.option("missing", "error"), place.text)
        first, companion = found
        file = opened_file(first.spec)
        chain = tags.walk(file)
        with _metadata(file, first, companion) as tiff:
            image = _Image.of(tiff, chain, file, first, request)
        return image.source(place, request)

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        """List the images of a file, and the levels of the selected one."""
        found = _found(place)
        if found is None:
            return None
        file = opened_file(found[0].spec)
        if len(tags.walk(file).offsets) >= MANY:  # inspecting each page takes long
            return None
        with _metadata(file, *found) as tiff:
            series = tiff.series
            levels = series[_series(tiff, dataset, place)].levels if series else ()
            names = [str(s.name) or str(k) for k, s in enumerate(series)]
        return Listing(
            tuple(names) if len(names) > 1 else (),
            tuple(map(str, range(len(levels)))) if len(levels) > 1 else (),
        )


def stage_positions(place: Place) -> tuple[list[Space | None], list[str]] | None:
    """Return the position of each image of an OME-TIFF, as far as known, and the files of its set.

    None for other places.
    """
    found = _found(place)
    if found is None:
        return None
    with _metadata(opened_file(found[0].spec), *found) as tiff:
        if not tiff.is_ome:
            return [None] * len(tiff.series), []
        ome = Ome.of(tiff, str(tiff.series[0].kind) if tiff.series else "")
        return [ome.stage_position(k) for k in range(len(tiff.series))], ome.files


def check_whole(path: str, there: int) -> None:
    """Refuse a local OME-TIFF file as one of so many slices if its set has more, and some are not there."""
    with tifffile.TiffFile(path) as tiff:
        ome = Ome(str(tiff.pages.first.description)) if tiff.is_ome else None
    absent = [] if ome is None else ome.absent(os.path.dirname(path))
    if ome is not None and absent and there < len({*ome.files}):
        raise VolumeError(
            f"{printable(path)} belongs to a set with the file {printable(absent[0])!r}, which "
            'does not exist; restore it, or open this file with missing="fill"'
        )


def _is_tiff(place: Place) -> bool:
    """Whether a TIFF file is at a place, by its first bytes, or in a bucket by its name."""
    path = place.local
    if path is None:
        return str(place.spec.get("path", "")).lower().endswith(SUFFIXES) and "*" not in place.text
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        found = tags.flavour(file.read(16))
    if found is None and path.lower().endswith((".tif", ".tiff")):
        raise damaged(path, "it has no TIFF header")
    return found is not None


def _found(place: Place) -> tuple[Place, Companion | None] | None:
    """Return the TIFF file at a place, or the first one of a companion file, with its metadata."""
    if place.text.lower().endswith(COMPANION):
        companion = Companion.at(place)
        return None if companion is None else (companion.first, companion)
    return (place, None) if _is_tiff(place) else None


@contextlib.contextmanager
def _metadata(
    file: File, place: Place, companion: Companion | None = None
) -> Iterator[tifffile.TiffFile]:
    """Open a file with tifffile, including other files of its set, and the file of its metadata."""

    def opened() -> tifffile.TiffFile:
        xml = None if companion is None else companion.xml_of(place, own_id)
        if place.local is not None:
            return tifffile.TiffFile(place.local, omexml=xml)
        stream = io.BufferedReader(Stream(file), 1 << 16)
        return tifffile.TiffFile(stream, name=os.path.basename(place.text), omexml=xml)

    own_id = ""
    with _understood(file, opened) as tiff:
        xml = (tiff.ome_metadata or "") if tiff.is_ome else ""
        ome = Ome(xml if "BinaryOnly" in xml else "")
        name = ome.elsewhere
        if companion is not None or name is None:
            if companion is None:
                _check_named(tiff, file)
            else:
                companion.check(tiff, place)
            yield tiff
            return
        companion, own_id = Companion.at(_sibling(place, name)), ome.id
        if companion is None and place.local is not None and os.path.islink(place.local):
            companion = Companion.at(_sibling(Place.of(os.path.realpath(place.local)), name))
        if companion is None and tiff.is_micromanager:  # it has its own index of planes
            yield tiff
            return
        if companion is None:
            raise VolumeError(
                f"{printable(place.text)} has its metadata, such as the order of its planes, in "
                f"{printable(name)}, which does not exist; restore it"
            )
    with _understood(file, opened) as tiff:
        companion.check(tiff, place)
        yield tiff


def _sibling(place: Place, name: str) -> Place:
    """Return the place of a file that another one names."""
    if place.local is not None:
        return Place.of(named_file(place.local, name))
    check_key(place.text, name)
    folder = str(place.spec["path"]).rpartition("/")[0]
    return Place(join({**place.spec, "path": folder}, name))


def _files_named(root: Element) -> list[Element]:
    """Return the elements that name TIFF files."""
    return [e for e in root.iter() if tag_of(e) == "UUID" and "FileName" in e.attrib]


@dataclass(frozen=True)
class Companion:
    """A file with the metadata of OME-TIFF files: OME-XML, or one of them."""

    place: Place
    root: Element

    @classmethod
    def at(cls, place: Place) -> Companion | None:
        """Read the metadata at a place; None if no file is there."""
        path = place.local
        folder, _, name = str(place.spec["path"]).rpartition("/")
        data: str | bytes | None
        if path is not None and not os.path.isfile(path):
            return None
        if path is not None and _is_tiff(place):
            with _understood(opened_file(place.spec), lambda: tifffile.TiffFile(str(path))) as tiff:
                data = str(tiff.pages.first.description)
        elif path is not None and os.path.getsize(path) > _MAX_XML:
            raise VolumeError(f"{printable(place.text)} has more than {_MAX_XML >> 20} MiB of XML")
        else:
            data = Place({**place.spec, "path": f"{folder}/"}).read(name)
        if data is None:
            return None
        try:
            root = parsed_xml(data)
            check_schema(ElementTree.tostring(ElementTree.Element(root.tag), encoding="unicode"))
        except (RefusedXml, UnknownSchema) as error:
            raise ValueError(f"{printable(place.text)}: {error}") from None
        except (ElementTree.ParseError, ValueError) as error:
            raise damaged(place.text, f"it is not valid XML: {error}") from None
        if any(tag_of(e) == "BinaryOnly" for e in root):
            raise damaged(place.text, "its metadata refer to a further file")
        return cls(place, root)

    @property
    def first(self) -> Place:
        """The first TIFF file that exists."""
        places = [_sibling(self.place, e.attrib["FileName"]) for e in _files_named(self.root)]
        if not places:
            raise damaged(self.place.text, "it lists no TIFF file")
        for place in places:
            if place.local is None or os.path.isfile(place.local):
                return place
        raise VolumeError(
            f"{printable(self.place.text)} refers to {printable(places[0].text)}, which does not "
            "exist; restore it"
        )

    def check(self, tiff: tifffile.TiffFile, place: Place) -> None:
        """Refuse metadata that tifffile replaces by the order of pages, because they contradict a file."""
        if not tiff.series or tiff.series[0].kind != "ome":
            raise damaged(
                self.place.text, f"its sizes or planes differ from {printable(place.text)}"
            )

    def xml_of(self, place: Place, own_id: str) -> str:
        """Return the metadata for tifffile, which opens the file at a place, and others by their paths."""
        root = copy.deepcopy(self.root)
        named = _files_named(root)
        places = [_sibling(self.place, e.attrib["FileName"]).text for e in named]
        if place.local is not None and os.path.islink(place.local):
            real = os.path.realpath(place.local)
            places = [place.text if os.path.realpath(p) == real else p for p in places]
        if place.text not in places:  # it was renamed
            ids = [(e.text or "").strip() for e in named]
            places = [
                place.text if own_id and i == own_id else p
                for i, p in zip(ids, places, strict=True)
            ]
        if named and place.text not in places:
            raise VolumeError(
                f"{printable(self.place.text)} has the metadata of other files, but not of "
                f"{printable(place.text)}; restore its own metadata"
            )
        for element, path in zip(named, places, strict=True):
            element.text = path
            element.set("FileName", path)
        root.set("UUID", place.text)
        return ElementTree.tostring(root, encoding="unicode")


@contextlib.contextmanager
def _understood(
    file: File, open_it: Callable[[], tifffile.TiffFile]
) -> Iterator[tifffile.TiffFile]:
    """Open a file with tifffile; its errors become a `VolumeError`."""
    try:
        with open_it() as tiff:
            yield tiff
    except (VolumeError, FileNotFoundError):
        raise
    except ValueError as error:
        if isinstance(error, tifffile.TiffFileError):
            raise file.damaged(str(error)) from None
        if os.path.basename(file.name) not in str(error):  # an error of tifffile
            raise ValueError(f"{printable(file.name)} cannot be read: {error}") from None
        raise
    except NotImplementedError as error:
        raise ValueError(f"{printable(file.name)} is not supported: {error}") from None
    except Exception as error:
        raise file.damaged(f"{type(error).__name__}: {error}") from None


def _check_named(tiff: tifffile.TiffFile, file: File) -> None:
    """Refuse unknown metadata, and files of a set outside this file's folder, before any is opened.

    XML that takes too much memory is refused, too, before tifffile parses it.
    """
    if tiff.is_ome:
        check_schema(tiff.ome_metadata or "")
    description = str(tiff.pages.first.description)
    files: Sequence[str] = ()
    if "<" in description:
        ome = Ome(description)
        check_parsed(tiff, ome, description, file.name)
        files = ome.files
    if not tiff.filehandle.is_file:  # then tifffile opens no others
        return
    names: list[str] = [*files] if tiff.is_ome else []
    if tiff.is_ndtiff:
        index = os.path.join(os.path.dirname(file.name), "NDTiff.index")
        names += [str(entry[1]) for entry in tifffile.tifffile.read_ndtiff_index(index)]
    for name in names:
        named_file(file.name, name)


@dataclass(frozen=True)
class _Image:
    """An image of a file."""

    tiff: tifffile.TiffFile
    key: Any  #: Its first page; all are alike
    segments: Segments
    pages: Pages
    places: tuple[Spec, ...]
    leading: tuple[tuple[str, int], ...]  #: As in `TiffReader`
    kind: str  #: The kind of metadata
    #: Length and width of a voxel in voxels of the finest level
    scale: tuple[float, float] = (1.0, 1.0)
    number: int = 0  #: Its number among the file's images
    finest: Any = None  #: The first page of its finest level, if different

    @classmethod
    def of(
        cls, tiff: tifffile.TiffFile, chain: Chain, file: File, place: Place, request: OpenRequest
    ) -> _Image:
        dataset, level = request.dataset, request.level
        if tiff.is_ndpi:
            raise ValueError(
                f"{place.text} is a Hamamatsu NDPI slide with tiles that are parts of one JPEG, which is not "
                "supported; convert it to a tiled TIFF"
            )
        if tiff.is_lsm and file.size >= 1 << 32:
            raise ValueError(
                f"{place.text} is an LSM file of 4 GiB or more, which is not supported; convert it"
            )
        if len(chain.offsets) >= MANY and dataset is None and level is None and chain.alike:
            found = _many(tiff, chain, place)
            if found is not None:
                return found
        series = tiff.series
        if not series:
            raise file.damaged("it has no image")
        number = _series(tiff, dataset, place)
        levels = list(series[number].levels)
        if level is not None and not 0 <= int(level) < len(levels):
            raise ValueError(
                f"level={level}: {place.text} has {len(levels)} level{'s' * (len(levels) > 1)}, "
                "from 0 on"
            )
        part = levels[int(level or 0)]
        key, full = part.keyframe, levels[0].keyframe
        segments = _segments(key, place)
        leading = _leading(part, key, file)
        places, pages = _pages(part, segments, math.prod(n for _, n in leading), file, place)
        scale = (full.imagelength / key.imagelength, full.imagewidth / key.imagewidth)
        kind = str(series[number].kind)
        return cls(tiff, key, segments, pages, places, leading, kind, scale, number, full)

    def source(self, place: Place, request: OpenRequest) -> Source:
        metadata = metadata_of(
            self.tiff, self.finest or self.key, self.kind, self.number, self.scale
        )
        names, sizes = self._names(place)
        shown = [d for d in range(len(names)) if names[d]]
        channels = list(metadata.channels) or self._colours(names, sizes)
        _check_size(self.segments, opened_file(self.places[0]), place)
        index = request.index
        chosen = select(
            [names[d] for d in shown], [sizes[d] for d in shown], request, place.text, channels
        )
        _check_axes(chosen, [sizes[d] for d in shown], index, place)
        fixed = {shown[d]: i for d, i in chosen.fixed}
        fixed |= {d: 0 for d in range(len(names)) if not names[d]}
        dims = tuple((a, shown[d]) for a, d in chosen.dims)
        selection = Selection(tuple(sorted(fixed.items())), dims)
        pages, lost = self._mended(fixed, place, request.option("missing", "error"))
        reader = TiffReader(
            self.places,
            pages,
            self.leading,
            self.segments,
            selection,
            metadata.mask and self.segments.dtype == np.uint8,
            opened_file(self.places[0]).flavour.order,
            lost,
        )
        axes = selection.axes
        if "z" in metadata.axes and "z" not in axes and "z" not in (index or {}):
            axes = AXES
        space = replace(
            Space() if metadata.flat and "z" in axes else metadata.space,
            axes=axes,
            leading=selection.leading,
            channels=chosen.channels,
        )
        chunk = [max(1, min(c, n)) for c, n in zip(self._chunk(reader), sizes, strict=True)]
        is_encoded = not self.segments.is_plain
        return selection.source(place.text, reader, reader.dtype, sizes, chunk, space, is_encoded)

    def _chunk(self, reader: TiffReader) -> list[int]:
        """Return the part of each axis that is decoded at a time, axes of a page last."""
        return [1] * len(self.leading) + list(reader.chunk)

    def _colours(self, names: Sequence[str], sizes: Sequence[int]) -> list[str]:
        """Return the names of channels that are samples of a pixel."""
        if "c" not in names or max(self.segments.shape[0], self.segments.shape[4]) < 2:
            return []
        return list(colours_of(sizes[names.index("c")], int(self.key.photometric)))

    def _names(self, place: Place) -> tuple[list[str], list[int]]:
        """Return names and extents of all axes, a page's last; empty names for extent 1."""
        names = [a for a, _ in self.leading]
        sp, d, y, x, sc = self.segments.shape
        if d > 1 and "z" in names:
            raise ValueError(
                f"{place.text} is a stack of pages with depth, which is not supported; convert it"
            )
        if sp > 1 and sc > 1:
            raise ValueError(
                f"{place.text} has pages of {sp} planes of {sc} samples, which are not supported; convert it"
            )
        samples = "s" if "c" in names else "c"
        names += [samples if sp > 1 else "", "z" if d > 1 else "", "y", "x"]
        names.append(samples if sc > 1 else "")
        return names, [*(n for _, n in self.leading), sp, d, y, x, sc]

    def _absent(self, place: Place) -> str:
        """Describe the missing file of a set."""
        folder = self.tiff.filehandle.dirname
        xml = self.tiff.ome_metadata or ""
        names = [] if place.local is None else Ome(xml).absent(folder)
        if not names:
            return "a file of the set is missing or incomplete"
        is_folder = os.path.isdir(os.path.join(folder, names[0]))
        found = "is a folder" if is_folder else "does not exist"
        return f"the file {printable(names[0])!r} of the set {found}"

    def _mended(
        self, fixed: Mapping[int, int], place: Place, missing: str
    ) -> tuple[Pages, dict[str, str]]:
        """Return the pages with replacements of missing ones, and the replacements by name.

        Missing pages are never silently zeros. Slices along z replace each other.
        """
        if self.pages.offsets is None:
            return self.pages, {}
        sizes = [n for _, n in self.leading]
        offsets = self.pages.offsets.array()
        files = np.zeros_like(offsets) if self.pages.files is None else self.pages.files.array()
        numbers = np.arange(len(offsets)).reshape(sizes)
        gone = (offsets == 0).reshape(sizes)
        chosen = tuple(fixed.get(d, slice(None)) for d in range(len(sizes)))
        if not gone[chosen].any():
            return self.pages, {}
        if missing == "error":
            raise VolumeError(
                f"{printable(place.text)}: {int(gone.sum())} of its {gone.size} pages are missing: "
                f"{self._absent(place)}; restore it, select existing pages by index=, or give "
                'missing="repeat" or missing="fill"'
            )
        names = [a for a, _ in self.leading]
        lost: dict[str, str] = {}
        along = np.moveaxis(numbers, names.index("z"), -1) if "z" in names else numbers[..., None]
        for stack in along.reshape(-1, along.shape[-1]):
            there = np.flatnonzero(offsets[stack])
            absent = np.flatnonzero(offsets[stack] == 0)
            wanted = np.isin(stack, numbers[chosen])
            if not wanted[absent].any():
                continue
            if missing == "repeat" and not len(there):
                raise VolumeError(
                    f"{printable(place.text)}: missing='repeat' is not possible, since all slices of a "
                    f'stack are missing ({self._called(stack[0])} and following); give missing="fill"'
                )
            for z, k in stand_ins(there, absent, missing).items():
                if wanted[z]:
                    lost[self._called(stack[z])] = ZEROS if k is None else self._called(stack[k])
                if k is not None:
                    offsets[stack[z]], files[stack[z]] = offsets[stack[k]], files[stack[k]]
        several = None if self.pages.files is None else Numbers.of(files)
        return replace(self.pages, offsets=Numbers.of(offsets), files=several), lost

    def _called(self, page: int) -> str:
        """Return a page's name for messages: its position along each axis."""
        at = np.unravel_index(page, [n for _, n in self.leading]) if self.leading else ()
        return ", ".join(f"{a} {int(i)}" for (a, _), i in zip(self.leading, at, strict=True)) or "0"


def _check_axes(
    chosen: Selection, sizes: Sequence[int], index: Mapping[str, int | str] | None, place: Place
) -> None:
    """Refuse a single row or column, and axes that a volume does not have."""
    if not {"y", "x"} <= set(chosen.axes):
        raise ValueError(
            f"index={dict(index or {})}: take a row or column of {place.text} by slicing instead"
        )
    for axis, d in chosen.dims:
        if axis not in (*chosen.leading, *chosen.axes):
            raise ValueError(
                f"{place.text} has {sizes[d]} along an axis {axis}, which is not one of t, c, z, "
                f"y, x; choose one by index={{{axis!r}: 0}}"
            )


def page_of(file: File, place: Place, name: str) -> Page:
    """Return the first page of a file, decoded as by `Tiff`; ``name`` is for messages."""
    directory = file.directory(tags.first_directory(file))
    jpeg = directory.number(file, tags.COMPRESSION, 1) in JPEGS
    key: Any = (file.flavour, *((c, directory.data(file, c)) for c in _DECIDING))
    segments = None if jpeg else _known.get(key)
    if segments is None:
        stream = io.BufferedReader(Stream(file), 1 << 16)
        with _understood(file, lambda: tifffile.TiffFile(stream)) as tiff:
            segments = _segments(tiff.pages.first, place)
        if len(_known) >= 256:
            _known.clear()
        _known[key] = segments
    _check_size(segments, file, place)
    return Page(file, directory, segments, lambda: name)


def colours_of(samples: int, photometric: int) -> Sequence[str]:
    """Return the names of the samples of a pixel, if they are grey or red, green and blue.

    >>> colours_of(3, 2), colours_of(4, 5)
    (('red', 'green', 'blue'), ())
    """
    return COLOURS.get(samples, ()) if photometric in (1, 2, 6) else ()


def _check_size(s: Segments, file: File, place: Place) -> None:
    """Refuse tiles that are too large for a file of this size, or for memory."""
    nbytes = math.prod(s.tile) * s.shape[4] * s.dtype.itemsize
    if s.is_plain and not s.tiled:  # only the needed rows are read
        nbytes, limit = s.row_bytes, file.size
    else:
        limit = (64 << 20) + 4096 * file.size
    if nbytes > min(TOO_LARGE, limit):
        raise VolumeError(
            f"{printable(place.text)} declares tiles or strips of {' x '.join(map(str, s.tile))} voxels "
            f"in {file.size} bytes; restore it, or convert it to smaller tiles"
        )


def _series(tiff: tifffile.TiffFile, dataset: str | None, place: Place) -> int:
    """Return the number of an image, given its name or number; by default the first of this file."""
    series = tiff.series
    if dataset is None:
        if len(series) == 1 or not tiff.is_ome or place.text.lower().endswith(COMPANION):
            return 0
        own = (any(p is not None and p.parent is tiff for p in s.pages) for s in series)
        return next((k for k, is_own in enumerate(own) if is_own), 0)
    names = [str(s.name) for s in series]
    if dataset in names:
        return names.index(dataset)
    if str(dataset).isdigit() and int(dataset) < len(series):
        return int(dataset)
    known = ", ".join(f"{k} ({n})" if n else str(k) for k, n in enumerate(names[:20]))
    raise ValueError(f"dataset={dataset!r}: {place.text} has the images {printable(known)}")


def _leading(part: Any, key: Any, file: File) -> tuple[tuple[str, int], ...]:
    """Return the axes along which the pages of a series are ordered."""
    axes, sizes = list(str(part.axes)), [int(n) for n in part.shape]
    page = math.prod(int(n) for n in key.shape)
    inside = 1
    while axes and inside < page:
        axes.pop()
        inside *= sizes.pop()
    if inside != page:
        raise file.damaged(f"its images of {part.shape} do not consist of pages of {key.shape}")
    kept = [(a, n) for a, n in zip(axes, sizes, strict=True) if n != 1]
    return _named(kept)


def _named(axes: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Name axes t, c and z, as far as their letters or their number determine them.

    >>> _named([("T", 3), ("Z", 5)]), _named([("I", 7)]), _named([("Q", 2), ("Q", 9)])
    ((('t', 3), ('z', 5)), (('z', 7),), (('c', 2), ('z', 9)))
    """
    names = [a.lower() if a in "TCZ" else "" for a, _ in axes]
    unknown = [k for k, name in enumerate(names) if not name]
    free = [a for a in "zct" if a not in names]
    if "z" in names:
        free = []
    for k, name in zip(reversed(unknown), free, strict=False):
        names[k] = name
    for k, (letter, _) in enumerate(axes):
        if not names[k]:
            names[k] = letter.lower()
            while names.count(names[k]) > 1:
                names[k] += "'"
    return tuple((name, n) for name, (_, n) in zip(names, axes, strict=True))


def _segments(page: Any, place: Place) -> Segments:
    """Return how the tiles of a page are decoded."""
    if page.dtype is None or 0 in page.shaped:
        raise ValueError(
            f"{place.text} has pages of {page.shape} voxels of {page.bitspersample} bits, which are not "
            "supported; convert it"
        )
    dtype = check_dtype(place.text, np.dtype(page.dtype))
    if isinstance(page.bitspersample, tuple):
        raise ValueError(
            f"{place.text} has samples of {page.bitspersample} bits, which are not supported; convert it to "
            "8 bits each"
        )
    compression = int(page.compression)
    colours: tuple[Any, Any] = (None, None)
    if compression in JPEGS:
        colours = tifffile.tifffile.jpeg_decode_colorspace(
            page.photometric, page.planarconfig, page.extrasamples, page.is_jfif
        )
        colours = tuple(c if c is None or isinstance(c, str) else int(c) for c in colours)  # type: ignore[assignment]
    elif (
        page.is_subsampled and page.photometric == 6 and compression not in (OLD_JPEG, 33003, 33005)
    ):
        raise ValueError(
            f"{place.text} has subsampled colours, which are not supported; convert it"
        )
    sp, d, y, x, sc = (int(n) for n in page.shaped)
    if page.is_tiled and compression != OLD_JPEG:
        tile = (int(page.tiledepth), int(page.tilelength), int(page.tilewidth))
    elif compression == OLD_JPEG:
        tile = (1, y, x)
    else:
        tile = (1, max(1, min(int(page.rowsperstrip or y), y)), x)
    if min(tile) < 1:
        raise ValueError(
            f"{place.text} has tiles of {tile} voxels, which are not supported; convert it"
        )
    segments = Segments(
        shape=(sp, d, y, x, sc),
        tile=tile,
        tiled=bool(page.is_tiled) and compression != OLD_JPEG,
        dtype=dtype,
        bits=int(page.bitspersample),
        compression=compression,
        predictor=int(page.predictor),
        fill_order=int(page.fillorder),
        t4=int(page.tags.valueof(292) or 0),
        colours=colours,
        fill=page.nodata if isinstance(page.nodata, int | float) else 0,
    )
    refused = segments.refusal()
    if refused is not None:
        raise ValueError(f"{place.text}: {refused}; convert it")
    return segments


def _pages(
    part: Any, segments: Segments, count: int, file: File, place: Place
) -> tuple[tuple[Spec, ...], Pages]:
    """Return the files and the pages of a series."""
    # For these kinds, one page may represent all pages.
    is_uniform = str(part.kind) in ("shaped", "imagej", "stk", "uniform", "generic")
    pages = (
        [] if is_uniform and segments.is_plain and part.dataoffset is not None else list(part.pages)
    )
    parents = {id(p.parent): p.parent for p in pages if p is not None}
    if len(parents) <= 1 and segments.is_plain and part.dataoffset is not None:
        at = int(part.dataoffset)
        owner = next(iter(parents.values()), None)
        spec = place.spec if owner is None else _spec_of(owner, place)
        file = opened_file(spec)
        if at + count * segments.page_bytes > file.size:
            raise file.damaged(
                f"its voxels need {count * segments.page_bytes} bytes at {at}, but the file has "
                f"{file.size} bytes"
            )
        return (spec,), Pages(None, voxels=at)
    if len(pages) != count:
        raise file.damaged(f"its metadata describe {count} pages, but it has {len(pages)}")
    # The requested file comes first; other files of the set are in its folder.
    places = [place.spec]
    number: dict[int, int] = {}
    for known, parent in parents.items():
        spec = _spec_of(parent, place)
        if spec == place.spec:
            number[known] = 0
        else:
            number[known] = len(places)
            places.append(spec)
    offsets = [0 if p is None else int(p.offset) for p in pages]
    files = [0 if p is None else number[id(p.parent)] for p in pages]
    several = Numbers.of(files) if len(places) > 1 else None
    return tuple(places), Pages(Numbers.of(offsets), several)


def _spec_of(owner: tifffile.TiffFile, place: Place) -> Spec:
    """Return the place of a file that tifffile has opened, given the requested one."""
    path = str(owner.filehandle.path)
    if place.local is None or os.path.realpath(path) == os.path.realpath(place.local):
        return place.spec
    return {**place.spec, "path": path}


def _many(tiff: tifffile.TiffFile, chain: Chain, place: Place) -> _Image | None:
    """Return an image of many equal pages without inspecting each; None if that is not possible."""
    own = ("lsm", "stk", "svs", "scn", "qpi", "bif", "philips", "fluoview", "nih", "mmstack",
           "scanimage", "sis", "mdgel", "avs", "ndtiff", "indica", "micromanager")  # fmt: skip
    if any(getattr(tiff, f"is_{kind}", False) for kind in own):
        return None
    page, n = tiff.pages.first, len(chain.offsets)
    if page.subifds:
        return None
    offsets = chain.offsets
    kind = "uniform"
    leading: tuple[tuple[str, int], ...] = (("z", n),)
    if tiff.is_ome:
        kind = "ome"
        found = _planes(tiff.ome_metadata or "", chain.offsets, page, place)
        if found is None:
            return None
        leading, offsets = found
    elif tiff.is_imagej:
        kind = "imagej"
        meta = tiff.imagej_metadata or {}
        order = [("t", "frames"), ("z", "slices"), ("c", "channels")]
        sizes = [(a, whole(meta.get(name, 1))) for a, name in order]
        if meta.get("order", "czt") not in ("czt", "default") or page.shaped[0] > 1:
            return None
        if math.prod(k for _, k in sizes) != n:
            return None
        leading = tuple((a, k) for a, k in sizes if k > 1)
    elif tiff.is_shaped:
        kind = "shaped"
        meta = tifffile.tifffile.shaped_description_metadata(str(page.description))
        shape = tuple(whole(k) for k in meta.get("shape", ()))
        axes = str(meta.get("axes", "Q" * len(shape)))
        inside = len(page.shape)
        if meta.get("truncated") or len(axes) != len(shape) or shape[-inside:] != page.shape:
            return None
        if math.prod(shape[:-inside]) != n:
            return None
        leading = _named([(a, k) for a, k in zip(axes, shape[:-inside], strict=False) if k != 1])
    pages = Pages(Numbers.of(offsets))
    return _Image(tiff, page, _segments(page, place), pages, (place.spec,), leading, kind)


def _planes(
    xml: str, chain: np.ndarray, page: Any, place: Place
) -> tuple[tuple[tuple[str, int], ...], np.ndarray] | None:
    """Return the axes of an OME-TIFF's pages, and the page of each plane; None for complex ones."""
    images = Ome(xml).images
    if len(images) != 1:
        return None
    pixels = first_of(images[0], "Pixels")
    if pixels is None:
        return None
    samples = int(page.samplesperpixel)
    sizes = {a: whole(pixels.get(f"Size{a}")) for a in "TCZ"}
    order = str(pixels.get("DimensionOrder", ""))[2:]
    if sizes["C"] % samples or set(order) != set("TCZ"):
        return None
    sizes["C"] //= samples
    n = math.prod(sizes.values())
    if not 0 < n <= len(chain):
        return None
    planes = np.zeros(n, np.int64)
    # Strides of the axes in the file's order, the fastest first.
    steps = {order[0]: 1, order[1]: sizes[order[0]], order[2]: sizes[order[0]] * sizes[order[1]]}
    for data in pixels:
        if tag_of(data) != "TiffData":
            continue
        for uuid in data:
            name = uuid.get("FileName")
            if name and os.path.join(os.path.dirname(place.text), name) != place.text:
                return None
        first = sum(whole(data.get(f"First{a}", 0)) * steps[a] for a in "TCZ")
        ifd = whole(data.get("IFD", 0))
        one = 1 if "IFD" in data.attrib else n - first
        count = whole(data.get("PlaneCount", one))
        if ifd < 0 or first < 0 or count < 0 or first + count > n or ifd + count > len(chain):
            return None
        planes[first : first + count] = chain[ifd : ifd + count]
    leading = tuple((a.lower(), sizes[a]) for a in reversed(order) if sizes[a] > 1)
    return leading, planes


FORMATS = (Tiff(),)
