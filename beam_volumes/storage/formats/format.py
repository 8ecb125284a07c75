"""What a format is: all that the package knows of how volumes are read from files and written to them.

A module of this folder holds one format or a few, and names them in its ``FORMATS``; `registry` lists the
modules. Everything else asks the format: whether a place is of it, which documents, units and files there
are, and how they are opened.
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
from beam_volumes.storage.places.ownership import home_of
from beam_volumes.storage.places.place import Place, Spec
from beam_volumes.storage.sources.chunking import default_chunk, no_larger, per_axis, whole_chunks
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source, digest

#: The document of formats that have no other place for what a run notes of itself.
RUN = "_beam_volumes.json"

#: The document that says what an output was made of, in its home.
PROVENANCE = "_beam_volumes_provenance.json"

#: What a document holds: bytes, or what is written as JSON.
Content = Mapping[str, Any] | bytes

#: What may be said of how an output is stored, or an input opened: the type of an option, and what it means.
Options = Mapping[str, tuple[str, str]]

#: The default of options whose None has a meaning.
DEFAULT = "default"

#: An output with more chunks is sharded by default: each chunk is an object, and requests are paid for.
MAX_OBJECTS = 10**7


@dataclass(frozen=True)
class Listing:
    """What a place holds, to choose from."""

    datasets: tuple[str, ...] = ()  #: What ``dataset=`` takes
    #: The levels of a pyramid by their names, the finest first; none if there is one alone
    levels: tuple[str, ...] = ()
    is_volume: bool = True  #: Whether it opens without a ``dataset=``
    is_all: bool = True  #: Whether there is no more, beyond what was looked at
    what: str = "a group"  #: How messages call such a place


@dataclass(frozen=True)
class OpenRequest:
    """What the user asks for of a place, as `open_source` takes it."""

    index: Mapping[str, int | str] | None = None
    dataset: str | None = None
    level: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  #: Those of `Format.open_options`

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def of_format(self, format: Format) -> OpenRequest:
        """The same with those options alone that a format has."""
        own = {name: v for name, v in self.options.items() if name in format.open_options}
        return replace(self, options=own)

    def refuse_parts(self, name: str, what: str) -> None:
        """Refuse ``dataset`` and ``level`` where a format has neither."""
        for option, value in (("dataset", self.dataset), ("level", self.level)):
            if value is not None:
                raise ValueError(f"{option}={value!r}: {printable(name)} is {what} and has none")


#: All of a place, as it opens by itself.
WHOLE = OpenRequest()


class Format:
    """A format that can be read."""

    title = ""  #: How messages call what it opens; empty if it opens nothing
    #: What may stand before a place, as in ``n5://s3://bucket/a``, to have it asked alone
    schemes: tuple[str, ...] = ()
    #: The keywords of `open_place` that not every format has, with their types and meanings. They
    #: are given only if the user gives them.
    open_options: ClassVar[Options] = {}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        """Open a place; None if it is not of this format.

        ``place`` remembers the small files that were read there. ``request.options`` are those of the
        format's `open_options` that were given. A format refuses what it does not know of the others.
        """
        return None

    def open_many(self, names: Sequence[str], first: Source) -> Source | None:
        """Many local files of one slice each as a volume, of which only the first one has been opened.

        None if they are not of this format, or not such that each can be looked at when it is read.
        """
        return None

    def levels(self, place: Place) -> Sequence[str]:
        """The names of what ``level=`` chooses among at a place, the finest first."""
        return ()

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        """What there is to choose from at a place, or in what ``dataset`` names there.

        None if it is not of this format, or is one volume and nothing else, as far as `levels` says. Only
        metadata are read, and no more of them than are soon read.
        """
        names = self.levels(place if dataset is None else place.below(dataset))
        return Listing(levels=tuple(names)) if names else None

    def members(self, place: Place) -> Sequence[str]:
        """The paths, below a place that is a collection, of volumes of which each opens by itself.

        None of what is one volume, or of another format.
        """
        return ()


@dataclass(frozen=True)
class Layout:
    """What a format makes of the options of an output: fields of its `Description`."""

    chunk: Triple
    shard: Triple | None = None
    codec: tuple[str, int | None] = ("none", None)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class OutputRequest:
    """An output that is asked for, with the options of its format."""

    name: str
    shape: Triple
    dtype: np.dtype  #: As stored
    space: Space
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: int = (
        1  #: How many arrays of this shape there are: one for each channel and point in time.
    )

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def per_axis(self, option: str) -> Triple | None:
        return per_axis(option, self.option(option), self.space, self.name)

    def chunk(self, default: Callable[[Triple, int], Triple] = default_chunk) -> Triple:
        """The chunk that ``chunks`` states, or the default, no larger than the volume."""
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


def codec_and_level(
    name: str, codec: str | Mapping[str, Any] | None, of: str, known: Mapping[str, int | None]
) -> tuple[str, int | None]:
    """A codec's name and level, as an option says them.

    - ``name``, ``of``: how messages call the output, and its format.
    - ``known``: the codecs of the format, with the level each has by default.
    """
    given: dict[str, Any] = dict(codec) if isinstance(codec, Mapping) else {"name": codec or "none"}
    which = given.pop("name", None)
    if which not in known:
        raise ValueError(f"{name}: codec={codec!r}; {of} takes {', '.join(known)}")
    level = given.pop("level", known[which])
    top = {"zstd": 22, "jpeg": 100}.get(which, 9)
    is_number = isinstance(level, int) and not isinstance(level, bool)
    if given or (
        level is not None and (known[which] is None or not is_number or not 0 <= level <= top)
    ):
        raise ValueError(
            f"{name}: codec={codec!r}; give a name and a level from 0 to {top}, nothing else"
        )
    return (which, level)


CHUNKS = ("int or sequence of int", "One number, or one for each axis; by default 2 MiB or more.")


class DescribedFormat(Format):
    """A format with what it says of its outputs: options, metadata files, and what belongs to them."""

    name = ""  #: What ``format=`` takes
    #: What paths end with that are of this format unless they say otherwise
    suffixes: tuple[str, ...] = ()
    dtypes: tuple[np.dtype, ...] = DTYPES  #: What it holds
    #: The keywords that `layout` takes, with their types and meanings
    options: ClassVar[Options] = {"chunks": CHUNKS}
    #: Whether an output is one file, on a disk. Units, and what is noted of the run, are in a
    #: folder beside it; units are removed in the end.
    is_file = False
    assembles = False  #: Whether an output is to be assembled once all its units are there
    omits_empty = False  #: Whether units of zeros alone are not stored
    #: Whether it holds channels, and whether a chunk has one of them unless it is asked for all, or
    #: always has all
    channels = "none"
    #: Whether `open_units` ends where the volume does, instead of where whole units do: units at
    #: its far edges are written as they are
    clips_units = False

    # describing an output

    def stored_dtype(self, dtype: np.dtype) -> np.dtype:
        """As which dtype voxels are stored: bool as uint8 0 and 1."""
        return np.dtype(np.uint8) if dtype.kind == "b" else dtype

    def layout(self, wanted: OutputRequest) -> Layout:
        """Evaluate the options of an output; an error names the option, its value and what it may be."""
        return Layout(wanted.chunk())

    def placed(self, spec: Spec) -> tuple[Spec, dict[str, Any]]:
        """Where a place that a user gives is, and which options it tells by its name."""
        return spec, {}

    def is_assembled(self, d: Description) -> bool:
        """Whether this one is to be assembled, where that is not so of all outputs."""
        return self.assembles

    def check(self, d: Description) -> None:
        """Refuse outputs that cannot be stored, beyond what `layout` refuses."""

    def identity(self, d: Description) -> Sequence[Any]:
        """Everything that is stored but voxels, as plain data: with the place it makes up a token."""
        stored: tuple[Any, ...] = (d.shape, d.dtype.str, d.chunk, d.shard, d.codec, repr(d.space))
        if d.leading:
            stored += (d.leading, d.leading_unit)
        if d.mask:  # a header that says so is longer; what is true may be another number
            stored += ("mask",)
        return (d.format, dict(d.options), stored, self.documents(d))

    def holds_labels(self, d: Description) -> bool:
        """Whether an output is told to be one of labels, where its voxels do not say so."""
        return d.labels

    def level_chunks(self, d: Description, shape: Triple) -> tuple[Triple, Triple | None]:
        """The chunk and the shard of a coarser level of an output, of a shape."""
        chunk = d.chunk if d.shard is not None else no_larger(d.chunk, shape)
        return chunk, None if d.shard is None else whole_chunks(d.shard, chunk, shape)

    def loses(self, d: Description) -> bool:
        """Whether writing changes voxels."""
        return False

    def copies(self, d: Description) -> int:
        """How often a unit is held while it is written, beside the array that it comes from."""
        return 2

    # making an output

    def documents(self, d: Description) -> dict[str, Content]:
        """The metadata files by their names in the output's home.

        What the first one notes has a ``run``, which is empty here.
        """
        return {RUN: {"run": ""}}

    def provenance_key(self, d: Description) -> str:
        """The name of the document that says what the output was made of, in its home."""
        return PROVENANCE

    def make(self, d: Description) -> None:
        """Make what units are written into, if that is not there of itself: a file of the right size."""

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """The first document while it says more than which run's the output is."""
        return noted

    def noted(self, document: Mapping[str, Any]) -> Any:
        """What a first document notes: a part of it, not a copy."""
        return document

    def found(self, home: Place) -> bytes | None:
        """The first document of whatever output is there."""
        return home.read(RUN)

    def is_there(self, place: Place) -> bool:
        """Whether an output of this format is at a place, so that it may be replaced."""
        if self.is_file:
            return place.local is not None and not os.path.isdir(place.local)
        return place.read(RUN) is not None

    def owned(self, d: Description, home: Place) -> Callable[[str], bool] | None:
        """Say which files below the home of an output are part of what is there, by their names.

        Others are never deleted with it. None if all of them are.
        """
        return None

    def other_than(self, d: Description, path: str) -> str | None:
        """Name what the file of an output, which is there, holds besides the output."""
        return None


class WritableFormat(DescribedFormat):
    """A format that can be written too: many processes at once write units, each of them whole.

    As it stands, units are objects of their own: `encode` makes them of voxels, `decode` voxels of them, and
    `key` names them. What is written in another way has its own `write_unit` or `open_units`, and its own
    `read_back`. What is one file has ``is_file``; ``assembles`` and `assemble` make an output whole once all
    its units are there.
    """

    def key(self, d: Description, cell: Triple) -> str | None:
        """The name of a unit in the output's home; None if it is no object of its own."""
        return None

    def cell(self, d: Description, key: str) -> Triple | None:
        """Which unit has a name; None if it is no unit's."""
        return None

    def layer(self, d: Description, z: int) -> str:
        """What all names of the units of a layer begin with, to list no more than is needed."""
        return ""

    def encode(self, d: Description, voxels: np.ndarray) -> bytes:
        """A unit as it is stored; at the far edges it has no more voxels than the volume.

        Of z, y, x; with an axis of channels before them if units have several (``d.samples``).
        ``d.at`` tells which unit along the leading axes it is.
        """
        raise NotImplementedError

    def decode(self, d: Description, data: bytes, shape: Triple) -> np.ndarray:
        """The voxels of a unit, as `encode` takes them."""
        raise NotImplementedError

    def write_unit(self, d: Description, cell: Triple, voxels: np.ndarray) -> None:
        """Store a unit, whole or not at all; several at once, on threads of TensorStore."""
        key = self.key(d, cell)
        assert key is not None
        Place(self.home(d)).write(key, self.encode(d, voxels))

    def home(self, d: Description) -> Spec:
        """The folder of units and documents."""
        return home_of(d.kvstore, self.is_file)

    def open_units(self, d: Description) -> ts.TensorStore:
        """What is written to: z, y, x rounded up to whole units, which are its write chunks.

        It is not rounded up if the format `clips_units`. Leading axes stand before these, if there are any.
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
        """Make the output whole of its units; what is given back is noted.

        - ``is_ours``: says whether it is still this run's to be made; to be asked before anything
          that others see.
        """
        return {}

    def add_voxel_metadata(self, d: Description, document: dict[str, Any]) -> bool:
        """Add to the first document what depends on stored voxels; False if there is nothing."""
        return False

    def read_back(self, d: Description) -> Source:
        """The output as a source; nothing is read to make it."""
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
    """A format whose units are called by their numbers, in folders of those along the first axes."""

    def key(self, d: Description, cell: Triple) -> str | None:
        return "/".join(map(str, (*(d.at or ()), *cell)))

    def cell(self, d: Description, key: str) -> Triple | None:
        parts, at = key.split("/"), [str(k) for k in d.at or ()]
        if len(parts) != len(at) + 3 or not all(p.isdigit() for p in parts) or parts[:-3] != at:
            return None
        return (int(parts[-3]), int(parts[-2]), int(parts[-1]))

    def layer(self, d: Description, z: int) -> str:
        return "".join(f"{k}/" for k in (*(d.at or ()), z))


def part_of(d: Description, leading: Sequence[int]) -> Description:
    """The part of an output that has the unit at a place along the leading axes."""
    if not d.leading:
        return d
    return replace(d, at=tuple(k // u for k, u in zip(leading, d.leading_unit, strict=True)))


def one_unit(d: Description, voxels: np.ndarray) -> np.ndarray:
    """A unit as z, y, x, behind an axis of channels if it has several; or the other way round."""
    shape = voxels.shape[-3:]
    return voxels.reshape(shape if d.samples == 1 else (d.samples, *shape))


def owned_names(
    chunk: str, documents: Sequence[str], folders: Sequence[str]
) -> Callable[[str], bool]:
    """Whether a name is that of a chunk or of a document of an array, in one of some folders.

    - ``chunk``: a regular expression of the names of chunks.
    - ``folders``: regular expressions of the folders of arrays, each empty or with a slash at its
      end.

    Examples
    --------
    >>> owned = owned_names("[0-9]+", ["zarr.json"], ["", "0/"])
    >>> owned("0/7"), owned("zarr.json"), owned("notes.txt"), owned("labels/zarr.json")
    (True, True, False, False)
    """
    known = "|".join(map(re.escape, (*documents, RUN, PROVENANCE)))
    name_of = re.compile(rf"(?:{'|'.join(folders)})(?:{known}|{chunk})")
    return lambda name: name_of.fullmatch(name) is not None


@dataclass(frozen=True, eq=False)
class UnitReader:
    """Units that are objects of their own, as a `WritableFormat` decodes them."""

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
            raise VolumeError(f"{d.name}: its unit {key} is missing; write it anew")
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
