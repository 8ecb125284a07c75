"""HDF5: any dataset of voxels, also of Imaris, BigDataViewer, MINC, ilastik and CREMI.

An output file is assembled at the end of a run, from chunks that workers have encoded.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import METRES
from beam_volumes.storage.formats.contiguous import all_of
from beam_volumes.storage.formats.format import (
    CHUNKS,
    WHOLE,
    Layout,
    Listing,
    NumberedUnits,
    OpenRequest,
    Options,
    OutputRequest,
    codec_and_level,
)
from beam_volumes.storage.formats.hdf5 import layouts
from beam_volumes.storage.formats.hdf5.arrays import ATTRIBUTES, Paths
from beam_volumes.storage.formats.hdf5.files import is_hdf5, library, opened_file, split
from beam_volumes.storage.formats.hdf5.filters import (
    DEFLATE,
    LZF,
    SHUFFLE,
    shorter,
    shuffled,
)
from beam_volumes.storage.formats.hdf5.reader import Hdf5Reader, parameters_of
from beam_volumes.storage.formats.hdf5.source import source_of
from beam_volumes.storage.formats.hdf5.trial import tried
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.places.single_file import write_whole
from beam_volumes.storage.sources.axes import AFFINE
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import Source

_MISSING = (
    '``"error"`` (the default) or ``"fill"``',
    "Whether missing source files of a virtual dataset are an error, or are read as fill values.",
)
#: Codecs with their default levels.
CODECS: dict[str, int | None] = {"gzip": 1, "lzf": None, "none": None}
#: The header of a unit's file: the mask of filters that were left out.
_MASK = struct.Struct("<I")


class Hdf5(NumberedUnits):
    """A file with one dataset as an output, or any dataset of a file as an input."""

    title = "HDF5"
    name = "hdf5"
    suffixes = (".h5", ".hdf5")
    is_file = True
    assembles = True
    channels = "apart"
    open_options: ClassVar[Options] = {"missing": _MISSING, "affine": AFFINE}
    options: ClassVar[Options] = {
        "chunks": CHUNKS,
        "codec": (
            "str or mapping",
            '``"gzip"`` (the default, level 1, shuffled), ``"lzf"`` or ``"none"``; with a level as '
            '``{"name": "gzip", "level": 6}``.',
        ),
        "dataset": ("str", 'The path of the array in the file; ``"data"`` by default.'),
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        if place.local is None:
            if re.search(r"\.(h5|hdf5|ims)(:/|$)", place.text.lower()):
                raise ValueError(
                    f"{place.text}: HDF5 files are only read from a disk; copy it, or open a .zarr there"
                )
            return None
        path, inside = split(place.local)
        if not is_hdf5(path):
            return None
        if inside is not None:
            if request.dataset is not None:
                raise ValueError(
                    f"dataset={request.dataset!r}: {place.text} already contains a dataset; give one of them"
                )
            request = replace(request, dataset=inside)
        missing = request.option("missing", "error")
        if missing not in ("error", "fill"):
            raise ValueError(f"missing={missing!r}: {place.text} is HDF5; use 'error' or 'fill'")
        library(path)
        tried(path, request.dataset, ATTRIBUTES)
        with opened_file(path) as file:
            return source_of(file, path, request)

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        if place.local is None:
            return None
        path, inside = split(place.local)
        if not is_hdf5(path):
            return None
        library(path)
        tried(path, inside if dataset is None else dataset, ATTRIBUTES)
        with opened_file(path) as file:
            return layouts.listing(file, path, inside if dataset is None else dataset)

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        return dtype

    def layout(self, wanted: OutputRequest) -> Layout:
        name, dataset = wanted.name, wanted.option("dataset")
        library(name)
        chunk = wanted.chunk()
        if math.prod(chunk) * wanted.dtype.itemsize >= 1 << 32:
            raise ValueError(
                f"{name}: chunks={wanted.option('chunks')} is too large; a chunk of HDF5 must be "
                "smaller than 4 GiB"
            )
        path = "data" if dataset is None else dataset.strip("/")
        parts = path.split("/")
        if not all(parts) or {".", ".."} & set(parts) or "\x00" in path:
            raise ValueError(
                f"{name}: dataset={dataset!r}; give a path in the file, e.g. 'volumes/raw'"
            )
        return Layout(
            chunk,
            None,
            codec_and_level(name, wanted.option("codec", "gzip"), "HDF5", CODECS),
            {"dataset": path},
        )

    def copies(self, d: Description) -> int:
        """Return 3: a contiguous copy, a shuffled one, and the encoded one with its mask."""
        return 3

    def other_than(self, d: Description, path: str) -> str | None:
        if not is_hdf5(path):
            return None
        h5py = library(path)
        with suppress(OSError), opened_file(path) as file:  # a damaged file counts as empty
            at: Any = file
            for part in [*d.options["dataset"].split("/"), ""]:
                if not isinstance(at, h5py.Group):
                    break
                other = next((name for name in at if name != part), None)
                if other is not None:
                    return f"{at.name.rstrip('/')}/{other}"
                at = at.get(part)
        return None

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        """Encode a whole chunk by its filters; a chunk of zeros is empty."""
        whole = voxels.astype(_little(d.dtype), copy=False)
        if whole.shape[-3:] != d.chunk:
            whole = np.zeros((*voxels.shape[:-3], *d.chunk), _little(d.dtype))
            whole[tuple(slice(0, n) for n in voxels.shape)] = voxels
        plain = np.ascontiguousarray(whole).reshape(-1).view(np.uint8)
        if not plain.any():
            return b""
        data: Any = plain
        del plain, whole
        mask, (codec, level) = 0, d.codec
        filters = _written(d)
        for k, number in enumerate(filters):
            if number == SHUFFLE:
                data = shuffled(data, d.dtype.itemsize)
                continue
            encoded = shorter(data, codec, level)
            if encoded is None:
                mask |= 1 << k
            else:
                data = encoded
        return b"".join((_MASK.pack(mask), data))

    def assemble(self, d: Description, is_ours: Callable[[], bool]) -> Mapping[str, Any]:
        home = self.home(d)["path"]
        place = d.kvstore["path"]
        h5py = library(d.name)

        def write(path: str) -> None:
            with h5py.File(path, "x") as file:
                how: dict[str, Any] = {"gzip": {"compression_opts": d.codec[1]}}.get(d.codec[0], {})
                node = file.create_dataset(
                    d.options["dataset"],
                    shape=tuple(d.stored(d.shape, d.leading)),
                    dtype=_little(d.dtype),
                    chunks=tuple(d.stored(d.chunk, d.leading_unit)),
                    compression=None if d.codec[0] == "none" else d.codec[0],
                    shuffle=SHUFFLE in _written(d),
                    track_times=False,
                    **how,
                )
                for name, value in _attributes(d).items():
                    node.attrs[name] = value
                for k, axis in enumerate(d.space.all_axes):
                    node.dims[k].label = axis
                for part, cell in _units(d):
                    with open(os.path.join(home, str(self.key(part, cell))), "rb") as unit:
                        data = unit.read()
                    if data:
                        (mask,) = _MASK.unpack_from(data)
                        before = zip(part.at or (), d.leading_unit, strict=True)
                        z, y, x = (i * c for i, c in zip(cell, d.chunk, strict=True))
                        at = d.stored((z, y, x), [k * u for k, u in before])
                        node.id.write_direct_chunk(tuple(at), data[_MASK.size :], mask)

        write_whole(place, home, write, is_ours)
        return {"bytes": os.path.getsize(place)}

    def read_back(self, d: Description) -> Source:
        itemsize = d.dtype.itemsize
        values = {SHUFFLE: (itemsize,), DEFLATE: (d.codec[1] or 0,), LZF: None}
        reader = Hdf5Reader(
            file=d.kvstore,
            others=(),
            datasets=Paths(("/" + d.options["dataset"],)),
            whole=tuple(d.stored(d.shape, d.leading)),
            shape=tuple(d.stored(d.shape, d.leading)),
            chunk=tuple(d.stored(d.chunk, d.leading_unit)),
            filters=tuple((n, parameters_of(n, values.get(n))) for n in _written(d)),
            fill=bytes(itemsize).hex(),
            stored=_little(d.dtype).str,
            dtype=d.dtype,
            scaling=None,
            chosen=all_of(d),
        )
        return reader.chosen.source(
            d.name, reader, d.dtype, reader.sizes, reader.chunk, d.space, d.codec[0] != "none"
        )


FORMATS = (Hdf5(),)


def _little(dtype: np.dtype) -> np.dtype:
    """Return the dtype in a file: masks are bytes 0 and 1."""
    return np.dtype(np.uint8) if dtype.kind == "b" else dtype.newbyteorder("<")


def _written(d: Description) -> tuple[int, ...]:
    number = {"gzip": DEFLATE, "lzf": LZF}.get(d.codec[0])
    if number is None:
        return ()
    return (SHUFFLE, number) if d.dtype.itemsize > 1 else (number,)


def _units(d: Description) -> Iterator[tuple[Description, Triple]]:
    """Yield all units of an output with their parts."""
    counts = [n // u for n, u in zip(d.leading, d.leading_unit, strict=True)]
    for at in np.ndindex(*counts):
        part = replace(d, at=at if d.leading else None)
        for k in range(len(d.grid)):
            yield part, d.grid.cell(k)


def _attributes(d: Description) -> dict[str, Any]:
    """Return the attributes of other programs and of this package."""
    space = d.space
    found: dict[str, Any] = {"axes": "".join(space.all_axes)}
    if space.channels:
        found["channels"] = list(space.channels)
    if space.voxel_size is not None:
        size = d.stored(space.voxel_size)
        found["voxel_size"] = size
        if space.unit in METRES:
            found["element_size_um"] = d.stored(space.in_unit("micrometer").voxel_size or ())
    if space.unit is not None:
        found["unit"] = space.unit
    if any(space.origin):
        found["origin"] = d.stored(space.origin)
    if d.dtype.kind == "b":
        found["bool"] = True
    return found
