"""Stacks of PNG, JPEG or TIFF slices: a directory, a glob, or a single image.

Opening lists the names and reads the header of the first slice. A read decodes only the slices it
needs, on TensorStore's threads, and caches nothing. Missing numbers are an error, unless
``missing=`` chooses a replacement.
"""

from __future__ import annotations

import fnmatch
import glob
import math
import os
import re
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import tensorstore as ts

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.codestreams import jpeg_size, plausible, png_size
from beam_volumes.storage.formats.format import RUN, WHOLE, Format, OpenRequest, Options
from beam_volumes.storage.formats.metadata import Mark
from beam_volumes.storage.formats.tiff.files import DESCRIPTION, PHOTOMETRIC, File
from beam_volumes.storage.formats.tiff.format import check_whole, colours_of, page_of
from beam_volumes.storage.formats.tiff.reading import Page
from beam_volumes.storage.places.context import callback, context, waiting_context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Place, Spec, is_pattern, join, kvstore_spec, url
from beam_volumes.storage.sources.axes import select
from beam_volumes.storage.sources.numbered import (
    MISSING,
    ZEROS,
    Series,
    check_missing,
    describe_lost,
    in_natural_order,
    series_of,
)
from beam_volumes.storage.sources.source import Source, TokenOfFields, check_dtype
from beam_volumes.storage.sources.stack import of_slices

PNG, JPEG, TIFF = (".png",), (".jpg", ".jpeg"), (".tif", ".tiff")
#: Suffixes of single images; a TIFF file may contain a whole volume.
SINGLE = PNG + JPEG
SUFFIXES = SINGLE + TIFF
#: Such a file may be of a set of files.
OME_TIFF = (".ome.tif", ".ome.tiff")

#: Colour types of PNG without alpha.
_NO_ALPHA = (0, 2)

#: The key of the volume's metadata in the document of a folder.
VOLUME = "volume"

#: Slices decoded in this process so far, for tests.
decoded = 0
_count = threading.Lock()


@dataclass(frozen=True, eq=False)
class SliceReader(TokenOfFields):
    """Slices in one directory, in order."""

    directory: Spec  #: The key-value store of the directory
    names: Series | tuple[str, ...]
    #: Shape of a decoded slice: y, x, and samples if there are several
    shape: tuple[int, ...]
    dtype: np.dtype
    folder: bool = False  #: Whether the whole directory was opened, or only these names
    mask: bool = False  #: Whether nonzero values are True
    #: The replacement of each missing slice; None for zeros
    instead: Mapping[int, int | None] = field(default_factory=dict)

    @property
    def portable(self) -> bool:
        return self.directory.get("driver") != "memory"

    @property
    def remote(self) -> bool:
        return self.directory.get("driver") not in ("file", "memory")

    @property
    def extents(self) -> tuple[Extent, ...]:
        if self.folder:
            return (Extent(self.directory),)
        folders: dict[str, list[str]] = {}
        for i in range(len(self.names)):
            folder, _, name = self.names[i].rpartition("/")
            folders.setdefault(folder, []).append(name)
        return tuple(Extent(join(self.directory, f), n) for f, n in folders.items())

    @property
    def decode_bytes(self) -> int:
        """The bytes of a decoded slice, with all samples."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def lost(self) -> dict[str, str]:
        """The missing slices and their replacements, by name."""
        return {
            self.names[z]: ZEROS if k is None else self.names[k] for z, k in self.instead.items()
        }

    @property
    def remark(self) -> str:
        return describe_lost(self.lost)

    def open(self) -> ts.TensorStore:
        y, x, *samples = self.shape
        return ts.virtual_chunked(
            callback(self._read),
            dtype=np.dtype(bool) if self.mask else self.dtype,
            shape=[*samples, len(self.names), y, x],
            chunk_layout=ts.ChunkLayout(chunk_shape=[*samples, 1, max(1, y), max(1, x)]),
            context=waiting_context() if self.remote else context(),
        )

    def source(self, name: str, space: Space) -> Source:
        y, x, *samples = self.shape
        return Source(
            name=name,
            shape=(len(self.names), y, x),
            dtype=np.dtype(bool) if self.mask else self.dtype,
            chunk=(1, max(1, y), max(1, x)),
            space=space,
            reader=self,
            leading=tuple(samples),
            leading_chunk=tuple(samples),
        )

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        *samples, z, y, x = domain.index_exp
        for k in range(z.start, z.stop):
            stands_in = self.instead.get(k, k)
            if stands_in is None:
                out[..., k - z.start, :, :] = 0
                continue
            image = self.decoded(stands_in)[y, x]
            if self.mask:
                image = image != 0
            if samples:
                out[:, k - z.start] = np.moveaxis(image[..., samples[0]], -1, 0)
            else:
                out[k - z.start] = image

    def decoded(self, z: int) -> np.ndarray:
        """Return slice ``z``, decoded and checked."""
        global decoded
        name = self.names[z]
        path = url(join(self.directory, name))
        data = _content(self.directory, name, path)
        claimed = _claimed(data, name, path)
        if claimed is not None and claimed[:2] != self.shape[:2]:
            self._check((*claimed[:2], *self.shape[2:]), self.dtype, path)
        image = _decode(data, name, path, self._check)
        with _count:
            decoded += 1
        self._check(image.shape, image.dtype, path)
        return image

    def _check(self, shape: tuple[int, ...], dtype: np.dtype, path: str) -> None:
        if shape != self.shape or dtype != self.dtype:
            raise VolumeError(
                f"slice {printable(path)} is {_what(shape, dtype)}, but {printable(self.names[0])} is "
                f"{_what(self.shape, self.dtype)}; the slices of a stack must be alike: convert it, or "
                "leave it out by a glob"
            )


class Slices(Format):
    """A stack of images, one for each slice."""

    title = "a directory or glob of PNG, JPEG or TIFF slices"
    open_options: ClassVar[Options] = {"missing": MISSING}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        found = _find(place)
        if found is None:
            return None
        missing = check_missing(request.option("missing", "error"), place.text)
        request.refuse_parts(place.text, "a stack of slices")
        directory, listed, single = found
        if is_pattern(place.local or "") and _has_volumes(directory, listed):
            return None  # they are joined as a list of them is
        names, instead = series_of(in_natural_order(listed), place.text, missing)
        first = url(join(directory, names[0]))
        shape, dtype, channels = _header(directory, names[0], first)
        if place.local is not None and names[0].lower().endswith(OME_TIFF):
            check_whole(os.path.join(str(directory["path"]), names[0]), len(names))
        check_dtype(f"slice {first}", dtype)
        mark = None if single else Mark.read((_document(directory) or {}).get(VOLUME))
        if mark is not None and len(shape) == 3 and len(mark.space.channels) == shape[2]:
            channels = mark.space.channels
        chosen = select("yxc"[: len(shape)], shape, request, place.text, channels)
        if len(chosen.axes) < 2:
            raise ValueError(
                f"index={dict(request.index or {})}: take a row or column of slices by slicing instead"
            )
        space = Space(axes=("y", "x") if single else AXES)
        if mark is not None:
            space = replace(mark.space, axes=space.axes if len(names) > 1 else mark.space.axes)
        reader = SliceReader(
            directory,
            names,
            shape,
            dtype,
            folder=not single
            and (os.path.isdir(place.local) if place.local else not glob.has_magic(place.text)),
            mask=mark is not None and mark.mask and dtype == np.uint8,
            instead=instead,
        )
        several = ("c",) if len(shape) == 3 else ()
        space = replace(space, leading=several, channels=tuple(channels) if several else ())
        source = reader.source(place.text, space)
        fixed = dict(chosen.fixed)
        return source.point("c", fixed[2]) if 2 in fixed else source

    def open_many(self, names: Sequence[str], first: Source) -> Source | None:
        endings = {name[-5:].rpartition(".")[2].lower() for name in names}
        kinds = {_kind(f".{e}") for e in endings if f".{e}" in SUFFIXES}
        if len(kinds) != 1 or not all(f".{e}" in SUFFIXES for e in endings):
            return None
        split = [name.rpartition("/") for name in names]
        folders = {folder for folder, _, _ in split}
        folder = os.path.commonpath(folders)
        directory = join({"driver": "file", "path": folder}, directory=True)
        try:
            shape, dtype, _ = _header(directory, os.path.relpath(names[0], folder), names[0])
        except ValueError:
            return None  # e.g. several pages
        y, x, *samples = shape
        alike = (1, y, x), dtype, tuple(samples)
        if (first.shape, first.dtype, first.leading) != alike:
            return None
        there = {folder: {*_listed(folder)} for folder in folders if os.path.isdir(folder)}
        for at, _, name in split:
            if name not in there.get(at, ()):
                raise FileNotFoundError(f"{printable(f'{at}/{name}')} does not exist")
        cut = len(folder.rstrip("/")) + 1
        reader = SliceReader(directory, tuple(name[cut:] for name in names), shape, dtype)
        name = f"{first.name} and {len(names) - 1} more"
        return replace(reader.source(name, of_slices(first.space)), asked=first.asked)


FORMATS = (Slices(),)


# finding files


def _find(place: Place) -> tuple[Spec, list[str], bool] | None:
    """Return the directory and names of the slices, and whether it is a single image."""
    if place.local is None:
        return _find_remote(place)
    path = place.local
    if os.path.isfile(path):
        if not path.lower().endswith(SINGLE):
            return None
        return _directory(place, os.path.dirname(path)), [os.path.basename(path)], True
    if os.path.isdir(path):
        names = _images(_listed(path), place)
        return (_directory(place, path), names, False) if names else None
    if not glob.has_magic(path):
        return None
    folder, pattern = os.path.split(path)
    if glob.has_magic(folder):
        paths = [p for p in glob.glob(path) if os.path.isfile(p)]
        folder = os.path.commonpath([os.path.dirname(p) for p in paths]) if paths else folder
        names = [os.path.relpath(p, folder) for p in paths]
    else:
        names = fnmatch.filter(_listed(folder), pattern) if os.path.isdir(folder) else []
        names = [n for n in names if not n.startswith(".")]
    if not any(n.lower().endswith(SUFFIXES) for n in names):
        return None
    return _directory(place, folder), _images(names, place, all_of_them=True), False


def _find_remote(place: Place) -> tuple[Spec, list[str], bool] | None:
    path = str(place.spec.get("path", ""))
    folder, _, last = path.rstrip("/").rpartition("/")
    if last.lower().endswith(SINGLE) and not glob.has_magic(last):
        return _directory(place, folder), [last], True
    if not glob.has_magic(last):
        folder, last = path.rstrip("/"), ""
    if not place.can_list:
        return None
    directory = _directory(place, folder)
    if glob.has_magic(folder):
        raise ValueError(f"{place.text}: in a bucket only the last part of a path may be a pattern")
    names = [key for key in Place.of(directory).names() if "/" not in key]
    if not last:
        names = _images(names, place)
        return (directory, names, False) if names else None
    names = fnmatch.filter(names, last)
    if not names:
        raise FileNotFoundError(f"no files match {place.text}; check the pattern")
    return directory, _images(names, place, all_of_them=True), False


def _directory(place: Place, folder: str) -> Spec:
    return join({**place.spec, "path": folder}, directory=True)


def _document(directory: Spec) -> dict[str, Any] | None:
    """Read this package's document in a folder."""
    try:
        return Place.of(directory).json(RUN)
    except (OSError, ValueError):  # of another program
        return None


def _listed(folder: str) -> list[str]:
    with os.scandir(folder) as entries:
        return [e.name for e in entries if not e.name.startswith(".") and e.is_file()]


def _images(names: list[str], place: Place, all_of_them: bool = False) -> list[str]:
    """Return the names of slices, which must have one format."""
    images = [n for n in names if n.lower().endswith(SUFFIXES)]
    if all_of_them and len(images) < len(names):
        other = sorted(set(names) - set(images))[0]
        raise ValueError(
            f"{place.text}: {other} is not a slice; slices are {', '.join(SUFFIXES)} files"
        )
    kinds = sorted(set(map(_kind, images)), key=("PNG", "JPEG", "TIFF").index)
    if len(kinds) > 1:
        raise ValueError(
            f"{place.text} contains {' and '.join(kinds)} files; select some by a glob, e.g. '*.png'"
        )
    return images


def _kind(name: str) -> str:
    """Return the kind of image, by its name."""
    lower = name.lower()
    return "PNG" if lower.endswith(PNG) else "JPEG" if lower.endswith(JPEG) else "TIFF"


class _NotASliceError(ValueError):
    """A TIFF file is not one plain image."""


#: A glob of up to this number of files is a stack of volumes if any of them is one.
_PEEKED = 256
#: What ImageJ and tifffile write for images without pages of their own, behind the first one.
_MORE = re.compile(rb'^ImageJ=.*?\nimages=(\d+)|"truncate": true', re.S)


def _has_volumes(directory: Spec, names: Sequence[str]) -> bool:
    """Whether some of the first local files have several pages."""
    paths = [url(join(directory, n)) for n in (*names[:_PEEKED], names[-1]) if _kind(n) == "TIFF"]
    return any(map(_is_volume, paths))


def _is_volume(path: str) -> bool:
    try:
        _page(File(_local(path)), path)
    except _NotASliceError:
        return True
    except (ValueError, OSError):  # of a damaged file, which is reported when it is read
        pass
    return False


def _has_more(page: Page) -> bool:
    """Whether a file has voxels of more images than one."""
    if page.directory.following:
        return True
    text = page.directory.data(page.file, DESCRIPTION) or b""
    found = _MORE.search(text[:4096])
    count = int(found[1] or 2) if found else 1
    layout = page.segments
    return count > 1 and layout.is_plain and count * layout.page_bytes <= page.file.size


# decoding


def slice_content(path: str) -> bytes:
    folder, _, name = path.rpartition("/")
    return _content(join(kvstore_spec(folder or "."), directory=True), name, path)


def decoded_slice(data: bytes, path: str) -> np.ndarray:
    """Return the voxels of a slice from its file's content."""
    return _decode(data, path.rpartition("/")[2], path)


def _content(directory: Spec, name: str, path: str) -> bytes:
    if directory.get("driver") == "file":
        try:
            with open(path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            raise VolumeError(f"slice {printable(path)} is missing: restore it") from None
        except OSError as error:
            raise VolumeError(
                f"slice {printable(path)} cannot be read: {error.strerror or error}"
            ) from None
    data = Place.of(directory).read(name)
    if data is None:
        raise VolumeError(f"slice {printable(path)} is missing: restore it")
    return data


def _claimed(data: bytes, name: str, path: str) -> tuple[int, int, int] | None:
    """Return rows, columns and samples of a PNG or JPEG header; None for TIFF."""
    if _kind(name) == "TIFF":
        return None
    try:
        return (png_size if _kind(name) == "PNG" else jpeg_size)(data)
    except ValueError as error:
        raise VolumeError(
            f"slice {printable(path)} is damaged ({len(data)} bytes): {error}; restore it"
        ) from None


def _first(data: bytes, name: str, path: str) -> np.ndarray:
    """Decode the first slice, for properties that its header does not have."""
    claimed = _claimed(data, name, path)
    if claimed is not None and not plausible(math.prod(claimed), len(data)):
        raise VolumeError(
            f"slice {printable(path)} is damaged: its header declares {claimed[0]} x {claimed[1]} pixels, "
            f"too many for {len(data):,} bytes; restore it"
        )
    return _decode(data, name, path)


def _decode(
    data: bytes,
    name: str,
    path: str,
    check: Callable[[tuple[int, ...], np.dtype, str], None] | None = None,
) -> np.ndarray:
    """Decode a slice; ``check`` gets shape and dtype before, if the header has them."""
    if _kind(name) == "TIFF":
        try:
            page = _page(File(_local(path), data), path)
        except VolumeError:
            raise
        except ValueError as error:  # valid, but unlike the first
            raise VolumeError(str(error)) from None
        if check is not None:
            check(_shape(page), page.segments.dtype, path)
        return _plane(page)
    try:
        if _kind(name) == "PNG":
            image = imagecodecs.png_decode(data)
            return _without_alpha(image) if data[25] in _NO_ALPHA else image
        if data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda"):  # the decoder fills in missing data
            raise ValueError("it is cut off")
        return imagecodecs.jpeg_decode(data)
    except Exception as error:
        raise VolumeError(
            f"slice {printable(path)} is damaged ({len(data)} bytes): {error}; restore it"
        ) from None


def _without_alpha(image: np.ndarray) -> np.ndarray:
    """Return the stored samples of a PNG: the decoder adds alpha for a transparent colour."""
    stored = {2: 1, 4: 3}.get(image.shape[2] if image.ndim == 3 else 0)
    if stored is None:
        return image
    return np.ascontiguousarray(image[..., 0] if stored == 1 else image[..., :stored])


def _local(path: str) -> Spec:
    """Return a place with this name, for messages."""
    return {"driver": "file", "path": path}


def _page(file: File, path: str) -> Page:
    """Return the single page of a TIFF slice."""
    name = f"slice {printable(path)}"
    page = page_of(file, Place.of(_local(path)), name)
    if _has_more(page):
        raise _NotASliceError(
            f"{name} has several pages; slices of a stack have one page each: to join the pages of all "
            "files, give a list of them, or on a disk a glob"
        )
    planes, depth, _, _, samples = page.segments.shape
    if depth > 1 or min(planes, samples) > 1:
        raise _NotASliceError(
            f"{name} has {planes} x {depth} planes of {samples} samples and is not a plain 2-D image; "
            "slices of a stack have one image each"
        )
    return page


def _shape(page: Page) -> tuple[int, ...]:
    planes, _, y, x, samples = page.segments.shape
    return (y, x) if planes * samples == 1 else (y, x, planes * samples)


def _plane(page: Page) -> np.ndarray:
    """Return a page as y, x, and samples if there are several."""
    voxels = page.whole()[:, 0]
    if len(voxels) > 1:
        return np.ascontiguousarray(np.moveaxis(voxels[..., 0], 0, -1))
    return voxels[0] if voxels.shape[-1] > 1 else voxels[0, ..., 0]


class _Header(NamedTuple):
    """Properties of the first slice, which all slices must have."""

    shape: tuple[int, ...]
    dtype: np.dtype
    channels: Sequence[str]


def _header(directory: Spec, name: str, path: str) -> _Header:
    """Return a slice's properties, reading as little of it as possible."""
    shape, dtype, photometric = _shape_of(directory, name, path)
    samples = shape[2] if len(shape) == 3 else 1
    return _Header(shape, dtype, colours_of(samples, photometric))


def _shape_of(directory: Spec, name: str, path: str) -> tuple[tuple[int, ...], np.dtype, int]:
    """Return shape and dtype of a slice, and its photometric interpretation as a TIFF number."""
    local = directory.get("driver") == "file"
    if _kind(name) == "JPEG":
        image = _first(_content(directory, name, path), name, path)
        return image.shape, image.dtype, 5 if image.shape[2:] == (4,) else 2  # four samples: CMYK
    if _kind(name) == "PNG":
        if local:
            with open(path, "rb") as file:
                head = file.read(26)
        else:
            head = _content(directory, name, path)[:26]
        if len(head) < 26 or head[:8] != b"\x89PNG\r\n\x1a\n" or head[12:16] != b"IHDR":
            raise VolumeError(
                f"slice {printable(path)} is damaged: it has no PNG header; restore it"
            )
        x, y, depth, colour = struct.unpack(">IIBB", head[16:26])
        if colour == 3:
            image = _first(_content(directory, name, path), name, path)
            return image.shape, image.dtype, 2
        samples = {0: 1, 2: 3, 4: 2, 6: 4}.get(colour, 1)
        shape = (y, x, samples) if samples > 1 else (y, x)
        return shape, np.dtype("u2" if depth == 16 else "u1"), 2
    page = _page(
        File(_local(path)) if local else File(_local(path), _content(directory, name, path)), path
    )
    return _shape(page), page.segments.dtype, page.directory.number(page.file, PHOTOMETRIC, 1)


def _what(shape: Sequence[int], dtype: Any) -> str:
    return f"{' x '.join(map(str, shape))} {np.dtype(dtype).name}"
