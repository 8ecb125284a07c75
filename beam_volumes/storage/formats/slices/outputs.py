"""Folders of slices as outputs: PNG and TIFF, one image for each slice."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base import codecs as imagecodecs
from beam_volumes.base.geometry import Triple
from beam_volumes.storage.formats.format import (
    PROVENANCE,
    RUN,
    Content,
    Layout,
    Options,
    OutputRequest,
    WritableFormat,
)
from beam_volumes.storage.formats.metadata import MASK_OPTION, Mark, as_bytes, mask_value
from beam_volumes.storage.formats.slices.format import VOLUME, SliceReader
from beam_volumes.storage.formats.tiff import files as tags
from beam_volumes.storage.formats.tiff import layout as at_rest
from beam_volumes.storage.formats.tiff.layout import LONG, SHORT
from beam_volumes.storage.formats.tiff.outputs import CODEC_OPTION, codec_of
from beam_volumes.storage.formats.tiff.segments import CODECS, encode
from beam_volumes.storage.places.place import Place, Spec, join
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.numbered import Series
from beam_volumes.storage.sources.source import DTYPES, Source

_NAMES_OPTION = (
    "str",
    'The names of slices, with a star for their number: ``"cell_*.png"``. A path may also end with it. '
    "All numbers have as many digits as the last one.",
)
#: The key of the names and the number of slices in a folder's document.
SLICES = "slices"
#: Maximal size of a slice.
_MAX_BYTES = 1 << 31


class SliceOutput(WritableFormat):
    """A folder of images: slices are units, written whole."""

    ending = ""
    channels = "together"
    #: Maximal number of channels.
    max_channels = 1
    options: ClassVar[Options] = {"names": _NAMES_OPTION, "mask_value": MASK_OPTION}

    def placed(self, spec: Spec) -> tuple[Spec, dict[str, Any]]:
        path = str(spec.get("path", ""))
        folder, _, last = path.rstrip("/").rpartition("/")
        if "*" in last:
            return {**spec, "path": folder or "."}, {"names": last}
        if "*" in path:
            raise ValueError(
                f"{path}: only the last part of a path may have a star, for the number"
            )
        return spec, {}

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        return dtype  # masks are bytes in the files only

    def layout(self, wanted: OutputRequest) -> Layout:
        name, shape, dtype = wanted.name, wanted.shape, wanted.dtype
        names = wanted.option("names") or f"*{self.ending}"
        if names.count("*") != 1 or "/" in names or not names.lower().endswith(self.endings):
            raise ValueError(
                f"{name}: names={names!r}; give one star for the number, and an ending of "
                f"{', '.join(self.endings)}"
            )
        if min(shape) < 1:
            raise ValueError(
                f"{name}: a slice of {shape[1:]} voxels is empty; slices have at least one voxel"
            )
        if shape[1] * shape[2] * dtype.itemsize > _MAX_BYTES:
            raise ValueError(
                f"{name}: a slice of {shape[1]} x {shape[2]} voxels takes more than 2 GiB; write .tif, or "
                "a format of chunks"
            )
        kept = mask_value(name, wanted.option("mask_value"), dtype)
        return Layout((1, shape[1], shape[2]), options={"names": names, **kept})

    def check(self, d: Description) -> None:
        if set(d.space.leading) - {"c"}:
            raise ValueError(
                f"{d.name}: {self.name} stores channels, but no time points; select a time point, "
                "such as v[0]"
            )
        if d.samples > self.max_channels:
            raise ValueError(
                f"{d.name}: {self.name} stores up to {self.max_channels} channels, but the volume "
                f"has {d.samples}; select some, or write .ome.tif"
            )

    @property
    def endings(self) -> tuple[str, ...]:
        return tuple(suffix.lstrip("*") for suffix in self.suffixes)

    def documents(self, d: Description) -> dict[str, Content]:
        slices = {"names": d.options["names"], "count": d.shape[0]}
        return {RUN: {"run": "", VOLUME: Mark.of(d).to_dict(), SLICES: slices}}

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """Return the note with the existing slices, until they are deleted."""
        there = Place(self.home(d)).json(RUN) or {}
        return {**noted, **({SLICES: there[SLICES]} if SLICES in there else {})}

    def noted(self, document: Mapping[str, Any]) -> Any:
        return document

    def owned(self, d: Description, home: Place) -> Callable[[str], bool]:
        slices = (home.json(RUN) or {}).get(SLICES)
        slices = slices if isinstance(slices, dict) else {}
        names, count = slices.get("names", d.options["names"]), slices.get("count", d.shape[0])
        before, after = map(re.escape, str(names).split("*"))
        named = re.compile(rf"{before}(\d+){after}")

        def is_owned(name: str) -> bool:
            found = named.fullmatch(name)
            number = "" if found is None else found[1]
            is_slice = number and int(number) < count and len(number) == len(str(count - 1))
            return bool(is_slice) or name in (RUN, PROVENANCE)

        return is_owned

    def _name(self, d: Description, z: int) -> str:
        before, after = str(d.options["names"]).split("*")
        return f"{before}{z:0{len(str(d.shape[0] - 1))}d}{after}"

    def key(self, d: Description, cell: Triple) -> str | None:
        return self._name(d, cell[0])

    def cell(self, d: Description, key: str) -> Triple | None:
        before, after = map(re.escape, str(d.options["names"]).split("*"))
        found = re.fullmatch(rf"{before}(\d+){after}", key)
        if found is None or self._name(d, int(found.group(1))) != key:
            return None
        return (int(found.group(1)), 0, 0)

    def decode(self, d: Description, data: bytes, shape: Triple) -> np.ndarray:
        raise NotImplementedError  # read back as slices

    def read_back(self, d: Description) -> Source:
        nz, y, x = d.shape
        before, after = str(d.options["names"]).split("*")
        names = Series(before, 0, 1, nz, len(str(nz - 1)), after)
        mask = d.dtype.kind == "b"
        dtype = np.dtype(np.uint8) if mask else d.dtype
        shape = (y, x) if d.samples == 1 else (y, x, d.samples)
        # A single channel is not an axis.
        space = d.space.of_one("c") if d.leading and d.samples == 1 else d.space
        directory = join(d.kvstore, directory=True)
        reader = SliceReader(directory, names, shape, dtype, folder=True, mask=mask)
        return reader.source(d.name, space)


def _image(d: Description, voxels: np.ndarray) -> np.ndarray:
    """Return a slice as an image: y, x, and samples if there are several."""
    stored = as_bytes(d, voxels)
    if d.samples == 1:
        return np.ascontiguousarray(stored.reshape(stored.shape[-2:]))
    return np.ascontiguousarray(np.moveaxis(stored[:, 0], 0, -1))


class PngSlices(SliceOutput):
    """A folder of PNG images."""

    name = "png"
    suffixes = ("*.png",)
    ending = ".png"
    dtypes = tuple(np.dtype(t) for t in ("bool", "u1", "u2"))
    max_channels = 4

    def copies(self, d: Description) -> int:
        """Return 3: a contiguous copy, the encoded one, and libpng's buffer."""
        return 3

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        return bytes(imagecodecs.png_encode(_image(d, voxels)))


class TiffSlices(SliceOutput):
    """A folder of TIFF images."""

    name = "tiff-slices"
    suffixes = ("*.tif", "*.tiff")
    ending = ".tif"
    dtypes = DTYPES
    max_channels = 1000
    options: ClassVar[Options] = {**SliceOutput.options, "codec": CODEC_OPTION}

    def layout(self, wanted: OutputRequest) -> Layout:
        codec = codec_of(wanted.name, wanted.option("codec"), "none")
        return replace(super().layout(wanted), codec=codec)

    def copies(self, d: Description) -> int:
        """Return 3: a contiguous copy, its strips, and the file."""
        return 3

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        plane = _image(d, voxels)
        codec, level = d.codec
        whole = plane.dtype.kind in "ui" and plane.dtype.itemsize <= 4
        predictor = 2 if whole and codec != "none" else 1
        rows = max(1, min(plane.shape[0], (1 << 18) // max(1, plane[:1].nbytes)))
        strips = [
            encode(plane[y : y + rows], codec, level, predictor)
            for y in range(0, plane.shape[0], rows)
        ]
        counts = np.array([len(s) for s in strips], np.int64)
        places = 8 + np.cumsum(counts) - counts
        at = int(8 + counts.sum())
        at += -at % 8
        entries = [
            *at_rest.sample_tags(d, d.samples),
            (tags.COMPRESSION, SHORT, CODECS[codec][0] if codec in CODECS else 1),
            (tags.PREDICTOR, SHORT, predictor),
            (tags.STRIP_OFFSETS, LONG, places),
            (tags.ROWS_PER_STRIP, LONG, rows),
            (tags.STRIP_COUNTS, LONG, counts),
        ]
        directory = at_rest.directory(entries, at, None, False)
        padding = bytes(at - 8 - int(counts.sum()))
        return b"".join([at_rest.header(at, False), *strips, padding, directory])


FORMATS = (PngSlices(), TiffSlices())
