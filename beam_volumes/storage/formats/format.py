"""The interface of formats: how volumes are read from files and written to them.

Each module of this folder has one or a few formats in its ``FORMATS``; `registry` lists the
modules. All other code asks the format whether it can open a place, for documents, units and files,
and for a handle.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.base.text import printable
from beam_volumes.storage.places.context import callback, context, waiting_context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.names import NameGrid
from beam_volumes.storage.places.ownership import Documents, home_of
from beam_volumes.storage.places.place import Place, Spec
from beam_volumes.storage.sources.axes import IndexRequest
from beam_volumes.storage.sources.chunking import default_chunk, no_larger, per_axis, whole_chunks
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source, digest

#: The document with the note of the run, for formats without other metadata.
RUN = "_beam_volumes.json"

#: The provenance document in an output's home.
PROVENANCE = "_beam_volumes_provenance.json"

#: The content of a document: bytes, or data for JSON.
Content = Mapping[str, Any] | bytes

#: Options of an output or an input: type and description.
Options = Mapping[str, tuple[str, str]]

#: The default of options for which None is a value.
DEFAULT = "default"

#: An output with more chunks is sharded by default: each chunk is an object, and requests are paid for.
MAX_OBJECTS = 10**7


@dataclass(frozen=True)
class Listing:
    """The contents of a place, to select from."""

    datasets: tuple[str, ...] = ()  #: Values of ``dataset=``
    #: The names of a pyramid's levels, the finest first; empty without a pyramid
    levels: tuple[str, ...] = ()
    is_volume: bool = True  #: Whether it opens without a ``dataset=``
    is_all: bool = True  #: Whether the listing is complete
    what: str = "a group"  #: The kind of place, for messages


@dataclass(frozen=True)
class OpenRequest(IndexRequest):
    """The user's options for a place, as in `open_source`."""

    dataset: str | None = None
    level: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  #: As in `Format.open_options`

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def of_format(self, format: Format) -> OpenRequest:
        """Return the request with the options that a format has."""
        own = {name: v for name, v in self.options.items() if name in format.open_options}
        return replace(self, options=own)

    def refuse_parts(self, name: str, what: str) -> None:
        """Refuse ``dataset`` and ``level`` for a format without them."""
        for option, value in (("dataset", self.dataset), ("level", self.level)):
            if value is not None:
                raise ValueError(
                    f"{option}={value!r}: {printable(name)} is {what} and has none; omit it"
                )


#: A request without options.
WHOLE = OpenRequest()


def request_of(d: Description, index: Mapping[str, int | str] | None = None) -> OpenRequest:
    """Return the request for an output, with all axes of its volume."""
    return OpenRequest(index, keep=bool(d.leading))


class Format:
    """A format that can be read."""

    title = ""  #: The name in messages; empty if it opens nothing
    #: Schemes that select this format, as in ``n5://s3://bucket/a``
    schemes: tuple[str, ...] = ()
    #: The options of `open_place` that only some formats have; only passed if given
    open_options: ClassVar[Options] = {}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        """Open a place, which caches the small files that were read; None if it is not of this format.

        A format refuses ``request.options`` that it does not support.
        """
        return None

    def open_many(self, names: Sequence[str], first: Source) -> Source | None:
        """Open many local files of one slice each as a volume, given the opened first one.

        None if they are not of this format, or cannot be checked when they are read.
        """
        return None

    def levels(self, place: Place) -> Sequence[str]:
        """Return the names of the levels of a place, the finest first."""
        return ()

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        """List the contents of a place, or of a ``dataset`` in it; reads little metadata.

        None if it is of another format, or is a single volume without levels.
        """
        names = self.levels(place if dataset is None else place.below(dataset))
        return Listing(levels=tuple(names)) if names else None

    def members(self, place: Place) -> Sequence[str]:
        """Return the paths of the volumes of a collection, relative to its place.

        Empty for single volumes and other formats.
        """
        return ()


@dataclass(frozen=True)
class Layout:
    """The fields of a `Description` that a format chooses by an output's options."""

    chunk: Triple
    shard: Triple | None = None
    codec: tuple[str, int | None] = ("none", None)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputRequest:
    """A requested output with the options of its format."""

    name: str
    shape: Triple
    dtype: np.dtype  #: As stored
    space: Space
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: int = 1  #: How many arrays of this shape there are: one for each channel and time point.

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def per_axis(self, option: str) -> Triple | None:
        return per_axis(option, self.option(option), self.space, self.name)

    def chunk(self, default: Callable[[Triple, int], Triple] = default_chunk) -> Triple:
        """Return the chunk of the option ``chunks``, or the default, clipped to the volume."""
        chunk = self.per_axis("chunks") or default(self.shape, self.dtype.itemsize)
        return no_larger(chunk, self.shape)

    def shards(self, chunk: Triple, able: bool = True) -> Any:
        """The option ``shards``: by default True where more than `MAX_OBJECTS` chunks would be objects.

        ``able``: whether the version of the format has shards.
        """
        shards = self.option("shards", DEFAULT)
        if not isinstance(shards, str) or shards != DEFAULT:
            return shards
        chunks = math.prod(-(-n // c) for n, c in zip(self.shape, chunk, strict=True))
        return True if able and chunks * self.parts > MAX_OBJECTS else None


def level_among(level: int | None, count: int, name: str) -> int:
    """Return the requested level of a pyramid, 0 by default, checked."""
    level = 0 if level is None else level
    if not 0 <= level < count:
        raise ValueError(f"level={level}: {name} has the levels 0 to {count - 1}")
    return level


def codec_and_level(
    name: str, codec: str | Mapping[str, Any] | None, of: str, known: Mapping[str, int | None]
) -> tuple[str, int | None]:
    """Return the name and level of the option ``codec`` of the output ``name`` in the format ``of``.

    ``known``: the codecs of the format, with their default levels.
    """
    given: dict[str, Any] = dict(codec) if isinstance(codec, Mapping) else {"name": codec or "none"}
    which = given.pop("name", None)
    if which not in known:
        raise ValueError(f"{name}: codec={codec!r}; {of} supports {', '.join(known)}")
    level = given.pop("level", known[which])
    top = {"zstd": 22, "jpeg": 100}.get(which, 9)
    is_number = isinstance(level, int) and not isinstance(level, bool)
    if given or (
        level is not None and (known[which] is None or not is_number or not 0 <= level <= top)
    ):
        raise ValueError(f"{name}: codec={codec!r}; give only a name and a level from 0 to {top}")
    return (which, level)


CHUNKS = ("int or sequence of int", "One number, or one for each axis; by default 2 MiB or more.")


class DescribedFormat(Format):
    """A format with a description of its outputs: options and metadata files."""

    name = ""  #: The value of ``format=``
    #: Suffixes of paths of this format
    suffixes: tuple[str, ...] = ()
    dtypes: tuple[np.dtype, ...] = DTYPES  #: The dtypes it can store
    #: The options of `layout`, with types and descriptions
    options: ClassVar[Options] = {"chunks": CHUNKS}
    #: Whether an output is one local file. Units and the note of the run are in a folder next to
    #: it; units are removed at the end.
    is_file = False
    assembles = False  #: Whether an output is assembled from its units at the end
    omits_empty = False  #: Whether units of zeros are not stored
    #: "none" without channels; "apart" if chunks have one channel, or all on request; "together" if
    #: chunks always have all
    channels = "none"
    #: Whether `open_units` ends at the volume's edges: units there are written clipped
    clips_units = False

    # describing an output

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype of stored voxels: uint8 0 and 1 for bool."""
        return np.dtype(np.uint8) if dtype.kind == "b" else dtype

    def layout(self, wanted: OutputRequest) -> Layout:
        """Evaluate the options of an output; an error names the option and its valid values."""
        return Layout(wanted.chunk())

    def placed(self, spec: Spec) -> tuple[Spec, dict[str, Any]]:
        """Return the place of a given path, and options that are part of its name."""
        return spec, {}

    def is_assembled(self, d: Description) -> bool:
        """Whether this output is assembled, if that depends on the output."""
        return self.assembles

    def check(self, d: Description) -> None:
        """Refuse outputs that cannot be stored, in addition to `layout`."""

    def identity(self, d: Description) -> Sequence[Any]:
        """Return everything that is stored except voxels, as plain data for a token."""
        stored: tuple[Any, ...] = (d.shape, d.dtype.str, d.chunk, d.shard, d.codec, repr(d.space))
        if d.leading:
            stored += (d.leading, d.leading_unit)
        if d.mask:  # the header is longer, and True may be another number
            stored += ("mask",)
        return (d.format, dict(d.options), stored, self.documents(d))

    def holds_labels(self, d: Description) -> bool:
        """Whether an output is declared as labels."""
        return d.labels

    def level_chunks(self, d: Description, shape: Triple) -> tuple[Triple, Triple | None]:
        """Return the chunk and the shard of a coarser level of an output."""
        chunk = d.chunk if d.shard is not None else no_larger(d.chunk, shape)
        return chunk, None if d.shard is None else whole_chunks(d.shard, chunk, shape)

    def loses(self, d: Description) -> bool:
        """Whether writing changes voxels."""
        return False

    def copies(self, d: Description) -> int:
        """Return the number of copies of a unit while it is written, in addition to the array."""
        return 2

    # making an output

    def documents(self, d: Description) -> dict[str, Content]:
        """Return the metadata files by their names in the output's home.

        The note in the first one has an empty ``run``.
        """
        return {RUN: {"run": ""}}

    def provenance_key(self, d: Description) -> str:
        """Return the name of the provenance document in the output's home."""
        return PROVENANCE

    def make(self, d: Description) -> None:
        """Create a file of the right size for the units, if needed."""

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """Return the first document while its note has more than the run."""
        return noted

    def noted(self, document: Mapping[str, Any]) -> Any:
        """Return the note in the first document, not a copy."""
        return document

    def found(self, home: Place) -> bytes | None:
        """Return the first document of an existing output."""
        return home.read(RUN)

    def is_there(self, place: Place) -> bool:
        """Whether an output of this format exists at a place, so it may be replaced."""
        if self.is_file:
            return place.local is not None and not os.path.isdir(place.local)
        return place.read(RUN) is not None

    def owned(self, d: Description, home: Place) -> Callable[[str], bool] | None:
        """Return a predicate of names below an output's home that are part of the output.

        Other files are never deleted with it. None if all files are part of it.
        """
        return None

    def name_grids(self, json: Documents) -> list[NameGrid] | None:
        """Return the names of chunks by the documents of an output; None if they are unknown."""
        return None

    def replaces_units(self, d: Description) -> bool:
        """Whether writing a unit replaces or deletes the object that has its name."""
        return True

    def other_than(self, d: Description, path: str) -> str | None:
        """Name foreign content in the file of an existing output."""
        return None


class WritableFormat(DescribedFormat):
    """A format that can be written: processes write whole units in parallel."""

    # By default, units are separate objects: `encode` and `decode` convert voxels, and `key` names them.
    # Other formats override `write_unit` or `open_units`, and `read_back`. Formats of a single file have
    # ``is_file``; with ``assembles``, `assemble` combines all units at the end.

    def key(self, d: Description, cell: Triple) -> str | None:
        """Return the name of a unit in the output's home; None if it is not a separate object."""
        return None

    def cell(self, d: Description, key: str) -> Triple | None:
        """Return the unit with a name; None if it is not the name of a unit."""
        return None

    def layer(self, d: Description, z: int) -> str:
        """Return the common prefix of the names of a layer's units, to limit listings."""
        return ""

    def row(self, d: Description, cell: Triple) -> str:
        """Return the common prefix of the names of a unit and of some near it, at most a few thousand."""
        return self.layer(d, cell[0])

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        """Encode the unit at ``d.at`` along the leading axes; at the far edges it is clipped to the volume.

        ``voxels`` are z, y, x, after an axis of channels if units have several (``d.samples``).
        """
        raise NotImplementedError

    def decode(self, d: Description, data: bytes, shape: Triple) -> np.ndarray:
        """Decode a unit to the voxels of `encode`."""
        raise NotImplementedError

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        """Store a unit atomically; called in parallel on threads of TensorStore."""
        key = self.key(d, cell)
        assert key is not None
        Place(self.home(d)).write(key, self.encode(d, voxels))

    def home(self, d: Description) -> Spec:
        """Return the folder of units and documents."""
        return home_of(d.kvstore, self.is_file)

    def open_units(self, d: Description) -> ts.TensorStore:
        """Open an array for writing: leading axes, then z, y, x rounded up to whole units.

        Its write chunks are the units. It is not rounded up if the format `clips_units`.
        """

        def write(domain: ts.IndexDomain, voxels: np.ndarray, _: Any) -> None:
            *leading, z, y, x = domain.inclusive_min
            cell = (z // d.unit[0], y // d.unit[1], x // d.unit[2])
            nz, ny, nx = d.shape
            inside = voxels[..., : nz - z, : ny - y, : nx - x]
            self.write_unit(part_of(d, leading), cell, one_unit(d, inside))

        return ts.virtual_chunked(
            write_function=write,
            dtype=d.dtype,
            shape=(*d.leading, *d.whole_units()),
            chunk_layout=ts.ChunkLayout(chunk_shape=(*d.leading_unit, *d.unit)),
            context=waiting_context() if d.remote else context(),
        )

    def assemble(self, d: Description, is_ours: Callable[[], bool]) -> Mapping[str, Any]:
        """Assemble the output from its units; return entries for the note.

        ``is_ours``: whether the run still owns the output; checked before any visible change.
        """
        return {}

    def add_voxel_metadata(self, d: Description, document: dict[str, Any]) -> bool:
        """Add metadata that depend on stored voxels; False if there are none."""
        return False

    def read_back(self, d: Description) -> Source:
        """Return the output as a source, without reading anything."""
        return Source(
            name=d.name,
            shape=d.shape,
            dtype=d.dtype,
            chunk=d.unit,
            space=d.space,
            reader=UnitReader(self, replace(d, at=None)),
            leading=d.leading,
            leading_chunk=d.leading_unit,
        )


class NumberedUnits(WritableFormat):
    """A format with units named by their numbers, in folders along the first axes."""

    def key(self, d: Description, cell: Triple) -> str | None:
        return "/".join(map(str, (*(d.at or ()), *cell)))

    def cell(self, d: Description, key: str) -> Triple | None:
        parts, at = key.split("/"), [str(k) for k in d.at or ()]
        if len(parts) != len(at) + 3 or not all(p.isdigit() for p in parts) or parts[:-3] != at:
            return None
        return (int(parts[-3]), int(parts[-2]), int(parts[-1]))

    def layer(self, d: Description, z: int) -> str:
        return "".join(f"{k}/" for k in (*(d.at or ()), z))

    def row(self, d: Description, cell: Triple) -> str:
        return f"{self.layer(d, cell[0])}{cell[1]}/"


def part_of(d: Description, leading: Sequence[int]) -> Description:
    """Return the part of an output at a position along the leading axes."""
    if not d.leading:
        return d
    return replace(d, at=tuple(k // u for k, u in zip(leading, d.leading_unit, strict=True)))


def one_unit(d: Description, voxels: np.ndarray) -> np.ndarray:
    """Reshape a unit to z, y, x, after an axis of channels if it has several, and back."""
    shape = voxels.shape[-3:]
    return voxels.reshape(shape if d.samples == 1 else (d.samples, *shape))


def owned_names(
    chunk: str, documents: Sequence[str], folders: Sequence[str]
) -> Callable[[str], bool]:
    """Return a predicate of names of chunks and documents of an array, in some folders.

    ``chunk`` and ``folders``, empty or ending with a slash, are regular expressions.

    >>> owned = owned_names("[0-9]+", ["zarr.json"], ["", "0/"])
    >>> owned("0/7"), owned("zarr.json"), owned("notes.txt"), owned("labels/zarr.json")
    (True, True, False, False)
    """
    known = "|".join(map(re.escape, (*documents, RUN, PROVENANCE)))
    name_of = re.compile(rf"(?:{'|'.join(folders)})(?:{known}|{chunk})")
    return lambda name: name_of.fullmatch(name) is not None


@dataclass(frozen=True, eq=False)
class UnitReader:
    """Units that are separate objects, decoded by a `WritableFormat`."""

    format: WritableFormat
    d: Description

    @property
    def portable(self) -> bool:
        return self.d.portable

    @property
    def remote(self) -> bool:
        return self.d.remote

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (Extent(self.format.home(self.d)),)

    @property
    def decode_bytes(self) -> int:
        return self.d.unit_bytes

    def open(self) -> ts.TensorStore:
        return ts.virtual_chunked(
            callback(self._read),
            dtype=self.d.dtype,
            shape=(*self.d.leading, *self.d.shape),
            chunk_layout=ts.ChunkLayout(chunk_shape=(*self.d.leading_unit, *self.d.unit)),
            context=waiting_context() if self.remote else context(),
        )

    def moved(self, move: Callable[[Spec], Spec]) -> UnitReader:
        return replace(self, d=replace(self.d, kvstore=move(self.d.kvstore)))

    def token(self) -> str:
        return digest("units", self.d.kvstore, self.format.identity(self.d))

    def _read(self, domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
        *leading, z, y, x = domain.inclusive_min
        start, stop = domain.inclusive_min[-3:], domain.exclusive_max[-3:]
        d = part_of(self.d, leading)
        z, y, x = (a // u for a, u in zip(start, d.unit, strict=True))
        box = d.grid.box(d.grid.index((z, y, x)))
        key = self.format.key(d, (z, y, x))
        assert key is not None
        data = Place(self.format.home(d)).read(key)
        if data is None and (d.scratch or not self.format.omits_empty):
            raise VolumeError(f"{d.name}: its unit {key} is missing; write the output again")
        if data is None:
            out[...] = 0
            return
        asked = Box(start, stop).translate([-a for a in box.start])  # type: ignore[arg-type]
        zs, ys, xs = asked.slices
        voxels = self.format.decode(d, data, box.shape)[..., zs, ys, xs]
        if d.samples > 1:
            first, last = (
                domain.inclusive_min[len(leading) - 1],
                domain.exclusive_max[len(leading) - 1],
            )
            voxels = voxels[first:last]
        out[...] = voxels.reshape(out.shape)
