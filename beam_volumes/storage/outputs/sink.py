"""Sinks: descriptions of output arrays for workers; created once, then opened and written."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import lined_json, parsed_json
from beam_volumes.storage.formats import registry
from beam_volumes.storage.formats.format import Content, OutputRequest, WritableFormat
from beam_volumes.storage.places.claims import Document, changed, replaced
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.storage.places.names import NameGrid
from beam_volumes.storage.places.ownership import UNFINISHED, Documents, OwnedOutput
from beam_volumes.storage.places.place import Place, output_spec, url
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.pyramid import (
    OPTIONS,
    Level,
    Pyramid,
    factors_between,
    smaller,
    space_of,
)
from beam_volumes.storage.sources.source import Source, digest

_P = TypeVar("_P", bound="PartedOutput")


class PartedOutput(Description):
    """An output that is written in parts with the axes z, y, x."""

    @property
    def parts(self: _P) -> tuple[_P, ...]:
        """The parts along leading axes, each with the axes z, y, x; itself without such axes.

        A part is one unit thick: one channel, or all channels if a chunk holds all.
        """
        if self.pyramid is not None and self.level is None:
            return tuple(part for level in self.every_level for part in level.parts)
        if self.at is not None or not self.leading:
            return (self,)
        counts = [
            1 if a == "t" else n for a, n in zip(self.space.leading, self._units_along, strict=True)
        ]
        return tuple(self._part(at) for at in np.ndindex(*counts))

    def at_time(self: _P, k: int) -> _P:
        """Return the part of time point ``k``, given the part of another time point."""
        assert self.at is not None
        whole = replace(self, at=None, name=self.name.rpartition("[")[0])
        return whole._part((k, *self.at[1:]))

    def _part(self: _P, at: tuple[int, ...]) -> _P:
        axes = zip(self.space.leading, at, self._units_along, strict=True)
        which = ", ".join(f"{a}={k}" for a, k, n in axes if n > 1 or a == "t")
        return replace(self, at=at, name=f"{self.name}[{which}]" if which else self.name)

    @property
    def _units_along(self) -> list[int]:
        """The number of units along each leading axis."""
        return [n // u for n, u in zip(self.leading, self.leading_unit, strict=True)]

    @property
    def unit_count(self) -> int:
        """The number of units, including all parts."""
        if self.pyramid is not None and self.level is None:
            return sum(level.unit_count for level in self.every_level)
        parts = 1 if self.at is not None else math.prod(self._units_along)
        return parts * len(self.grid)

    def unit_of(self, part: PartedOutput, unit: int) -> int:
        """Return the number of a part's unit among all units."""
        if self.pyramid is not None and self.level is None:
            assert part.level is not None
            finer = sum(level.unit_count for level in self.every_level[: part.level])
            return finer + self.of_level(part.level).unit_of(part, unit)
        assert part.at is not None
        k = int(np.ravel_multi_index(part.at, self._units_along))
        return k * len(self.grid) + unit

    def located(self: _P, unit: int) -> tuple[_P, int]:
        """Return the part that contains a unit, and the unit's number there."""
        if self.pyramid is not None and self.level is None:
            for level in self.every_level:
                if unit < level.unit_count:
                    return level.located(unit)
                unit -= level.unit_count
        if self.at is not None or not self.leading:
            return self, unit
        k, own = divmod(unit, len(self.grid))
        at = np.unravel_index(k, self._units_along)
        return self._part(tuple(int(a) for a in at)), own


class OwnedArray(PartedOutput, OwnedOutput):
    """An output array, as created and recognised by its format."""

    @cached_property
    def writer(self) -> WritableFormat:
        return registry.format_named(self.format)

    @property
    def is_file(self) -> bool:
        return self.writer.is_file

    @property
    def assembles(self) -> bool:
        return self.writer.is_assembled(self)

    @property
    def kind(self) -> str:
        return self.format

    @property
    def provenance_key(self) -> str:
        return self.writer.provenance_key(self)

    @cached_property
    def _documents(self) -> dict[str, Content]:
        """The metadata files by name, without a run."""
        return self.writer.documents(self.whole)

    @property
    def _key(self) -> str:
        return next(iter(self._documents))

    def _found(self) -> bytes | None:
        return self.writer.found(Place(self.home))

    def _noted(self, document: Mapping[str, Any]) -> Any:
        return self.writer.noted(document)

    def _document_of(self, noted: Mapping[str, Any]) -> bytes:
        if not set(noted) <= {"run", UNFINISHED}:
            return _encoded(self.writer.note(self, noted))
        document = deepcopy(self._documents[self._key])
        if isinstance(document, dict):
            self.writer.noted(document).update(noted)
        return _encoded(document)

    def _is_replaceable(self) -> bool:
        place = Place(self.kvstore)
        return place.local is None or self.writer.is_there(place)

    def _owned(self) -> Callable[[str], bool] | None:
        return None if self.is_file else self.writer.owned(self, Place(self.home))

    def _other(self) -> str | None:
        path = str(self.kvstore["path"])
        return self.writer.other_than(self, path) if self.is_file and os.path.isfile(path) else None

    def _grids(self, json: Documents) -> list[NameGrid] | None:
        # Other writes may leave chunks of a replaced output as they were.
        return self.writer.name_grids(json) if self.writer.replaces_units(self) else None

    def _own_document(self, name: str) -> Any:
        return self._documents.get(name)

    def _is_in_bucket(self) -> bool:
        return self.writer.is_there(Place(self.kvstore))

    def _make_rest(self, run_id: str, is_ours: Callable[[], bool]) -> bool:
        others = (
            replaced(Document(self.home, key), _encoded(content), is_ours)
            for key, content in self._documents.items()
            if key != self._key
        )
        if not all(others) or not is_ours():
            return False
        self.writer.make(self)
        return True

    def documents_there(self) -> dict[str, Any]:
        """Return the stored metadata files by name."""
        home = Place(self.home)
        return {name: parsed_json(home.read(name) or b"{}") for name in self._documents}


@dataclass(frozen=True, eq=False)
class Sink(OwnedArray):
    """An output array: its description, and the operations of a run. The format implements them."""

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def stores_empty(self) -> bool:
        """Whether units of zeros are stored, too."""
        return self.scratch or not self.writer.omits_empty

    def holds(self, dtype: np.dtype) -> bool:
        """Whether the output stores voxels of a dtype without loss."""
        voxels = np.dtype(bool) if self.mask else self.dtype
        return dtype == voxels and not self.writer.loses(self)

    def open(self) -> ts.TensorStore:
        """Return the handle for `write_units`, shared by this process, for ``[0, shape)`` of z, y, x.

        At the far edges it accepts whole units beyond that, except for formats with clipped units.
        """
        return opened("write" + self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        z, y, x = (slice(0, n) for n in self.shape)
        view = self.writer.open_units(self)[..., z, y, x]
        for n, u, k in zip(self.leading, self.leading_unit, self.at or (), strict=True):
            # Select along axes with several units; move an axis inside units to the end.
            view = view[k] if u < n or n == 1 else view[ts.d[0].transpose[3]]
        return view if self.writer.clips_units else view[ts.d[:3].mark_bounds_implicit[False:True]]

    def finish(self, run_id: str | None = None, durable: bool = False) -> None:
        """Assemble the output when all units are written. It can be repeated."""
        if self.assembles:
            self.assemble_with(run_id, durable, lambda is_ours: self.writer.assemble(self, is_ours))

    def complete_metadata(self, run_id: str) -> None:
        """Add metadata that depend on stored voxels. It can be repeated."""

        def change(document: dict[str, Any]) -> bool:
            noted = self.writer.noted(document)
            is_ours = isinstance(noted, dict) and noted.get("run") == run_id
            return is_ours and self.writer.add_voxel_metadata(self.whole, document)

        changed(self.document, change)

    def is_finished(self) -> bool:
        """Whether units are assembled, so they are no longer separate objects."""
        return self.assembles and bool(self.state().get("finished"))

    def read_back(self) -> Source:
        """Return the output, or its part, as a source, without reading anything."""
        return self._stored.as_mask() if self.mask else self._stored

    @cached_property
    def _stored(self) -> Source:
        """The source of the stored voxels: uint8 for masks."""
        source = self.writer.read_back(self)
        if self.at is not None:
            axes = zip(self.space.leading, self.at, self.leading_unit, self.leading, strict=True)
            for axis, k, u, n in axes:
                if (u < n or n == 1) and axis in source.space.leading:
                    source = source.point(axis, k)
        return source

    def open_back(self) -> ts.TensorStore:
        """Open the stored voxels: z, y, x, and samples if units contain several."""
        source = self._stored
        if not source.leading:
            return source.open()
        handle = opened("back" + source.token(), source.reader.open)
        return handle[ts.d[0].transpose[3]]

    def read_all(self) -> ts.TensorStore:
        """Open the whole stored array with its leading axes, regardless of the part."""
        return self.writer.read_back(replace(self, at=None)).reader.open()

    def to_dict(self) -> dict[str, Any]:
        # Not `asdict` of all fields, which copies all metadata.
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "options"}
        pyramid = None if self.pyramid is None else asdict(self.pyramid)
        nested = {"space": asdict(self.space), "pyramid": pyramid, "dtype": self.dtype.str}
        return {**data, **self.options, **nested}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sink:
        """Invert `to_dict`, also after JSON.

        >>> import json
        >>> sink = make_sink("a.zarr", shape=(8, 9, 9), dtype="u2")
        >>> Sink.from_dict(json.loads(json.dumps(sink.to_dict()))).token() == sink.token()
        True
        """
        refuse_variables(data["kvstore"], str(data["name"]))
        known: dict[str, Any] = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        for name in ("shape", "chunk", "shard", "codec", "leading", "leading_unit", "at"):
            known[name] = None if known.get(name) is None else tuple(known[name])
        space: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in known["space"].items()
        }
        if known.get("pyramid") is not None:
            known["pyramid"] = Pyramid.from_dict(known["pyramid"])
        options = registry.format_named(data["format"]).options
        own = {f.name for f in fields(cls)}
        known["options"] = {
            name: data[name] for name in options if name in data and name not in own
        }
        return cls(**{**known, "dtype": np.dtype(known["dtype"]), "space": Space(**space)})

    def token(self) -> str:
        """Return the sink's identity for fingerprints: its place, and its content except voxels."""
        return self._token

    @cached_property
    def _token(self) -> str:
        level = () if self.level is None else (self.level,)
        return digest(self.kvstore, self.at, *level, *self.writer.identity(self.whole))


def _encoded(content: Content) -> bytes:
    return content if isinstance(content, bytes) else lined_json(content)


def make_sink(
    path: str | os.PathLike[str] | Mapping[str, Any],
    *,
    shape: Sequence[int],
    dtype: Any,
    space: Space | None = None,
    leading: Sequence[int] = (),
    format: str | None = None,
    labels: bool = False,
    **options: Any,
) -> Sink:
    """Describe an output array; nothing is created. ``options`` of the format are described in `Volume.to`.

    Axes that ``space`` hides have extent 1 in ``shape`` and are not stored; ``leading`` are the others.
    """
    spec = output_spec(dict(path) if isinstance(path, Mapping) else path)
    name = url(spec).rstrip("/")
    space = Space() if space is None else space.unsliced()
    writer = registry.format_of(name) if format is None else registry.format_named(format)
    spec, by_name = writer.placed(spec)
    name = url(spec).rstrip("/")
    given = {k: v for k, v in options.items() if v is not None or k not in by_name}
    z, y, x = (int(n) for n in shape)
    full: Triple = (z, y, x)
    stored = _stored_dtype(writer, name, np.dtype(dtype))
    _check_place(writer, name, spec, full, space)
    given = _given({**by_name, **given}, writer, name)
    before = tuple(int(n) for n in leading)
    units = _leading_units(writer, name, space, before, given)
    levels = {k: given.pop(k) for k in OPTIONS if k in given}
    factors = factors_between(name, full, space, **levels)
    parts = math.prod(-(-n // u) for n, u in zip(before, units, strict=True))
    layout = writer.layout(OutputRequest(name, full, stored, space, given, parts))
    sink = Sink(
        name=name,
        format=writer.name,
        shape=full,
        dtype=stored,
        chunk=layout.chunk,
        shard=layout.shard,
        codec=layout.codec,
        space=space,
        kvstore={**spec, "path": str(spec["path"]).rstrip("/")} if writer.is_file else spec,
        options=layout.options,
        leading=before,
        leading_unit=units,
        mask=np.dtype(dtype).kind == "b" and stored.kind != "b",
        labels=labels,
    )
    if factors:
        is_labels = sink.mask or writer.holds_labels(sink)
        method = levels.get("method") or ("mode" if is_labels else "mean")
        sink = replace(sink, pyramid=_pyramid(writer, sink, factors, method))
    writer.check(sink)
    return sink


def _stored_dtype(writer: WritableFormat, name: str, dtype: np.dtype) -> np.dtype:
    """Return the dtype of the stored voxels, if the format supports it."""
    stored = writer.stored_dtype(dtype).newbyteorder("=")
    if stored not in writer.dtypes:
        allowed = ", ".join(d.name for d in writer.dtypes)
        raise ValueError(
            f"{name}: {writer.name} cannot store {stored}; convert by astype() to one of {allowed}"
        )
    return stored


def _check_place(
    writer: WritableFormat, name: str, spec: Mapping[str, Any], shape: Triple, space: Space
) -> None:
    """Refuse hidden axes with several voxels, and single-file formats in a bucket."""
    hidden = [a for a in AXES if a not in space.axes and shape[AXES.index(a)] != 1]
    if hidden:
        raise ValueError(
            f"{name}: the axis {hidden[0]} is not among {space.axes} but has extent {shape}"
        )
    if writer.is_file and spec.get("driver") != "file":
        raise ValueError(
            f"{name}: {writer.name} is a single file, for local disks; write .zarr there"
        )


def _pyramid(writer: WritableFormat, sink: Sink, factors: Sequence[Triple], method: str) -> Pyramid:
    """Return the levels of an output, with chunks like the chunks of the first."""
    levels = [Level(sink.shape, sink.chunk, sink.shard, sink.space)]
    for by in factors:
        shape = smaller(levels[-1].shape, by)
        chunk, shard = writer.level_chunks(sink, shape)
        levels.append(Level(shape, chunk, shard, space_of(levels[-1].space, by, method)))
    return Pyramid(sink.name, method, tuple(factors), tuple(levels))


def _leading_units(
    writer: WritableFormat, name: str, space: Space, leading: tuple[int, ...], given: dict[str, Any]
) -> tuple[int, ...]:
    """The number of points of each leading axis in a chunk; takes options from ``given``."""
    if not leading:
        return ()
    if writer.channels == "none":
        raise ValueError(
            f"{name}: {writer.name} stores one channel of one time point, but the volume has "
            f"{' x '.join(map(str, leading))}; select one, such as v[0], or write .zarr or "
            ".ome.zarr"
        )
    units = (1,) * len(leading)
    if writer.channels == "together":
        units = tuple(1 if a == "t" else n for a, n in zip(space.leading, leading, strict=True))
    for option in ("chunks", "shards"):
        sizes = given.get(option)
        if isinstance(sizes, Sequence | np.ndarray) and len(sizes) == len(space.all_axes):
            asked = tuple(int(n) for n in sizes[: len(leading)])
            given[option] = list(sizes[len(leading) :])
            if option == "chunks":
                units = asked
            elif asked != units:
                raise ValueError(
                    f"{name}: shards={sizes!r} have {asked} channels, but chunks have {units}; "
                    "give equal numbers"
                )
    if writer.channels == "together" and units[-1:] != leading[-1:] and space.has_channels:
        raise ValueError(
            f"{name}: chunks have {units[-1]} channels, but a chunk of {writer.name} must contain "
            f"all {leading[-1]}"
        )
    if space.times and units[0] != 1:
        raise ValueError(
            f"{name}: chunks have {units[0]} time points, but a chunk can only contain one"
        )
    if any(u not in (1, n) for u, n in zip(units, leading, strict=True)):
        raise ValueError(
            f"{name}: chunks have {units[-1]} channels, but a chunk must contain one channel, or "
            f"all {leading[-1]}"
        )
    return units


def _given(options: Mapping[str, Any], writer: WritableFormat, name: str) -> dict[str, Any]:
    """Return the options that the format accepts; other options must be None."""
    for option, value in options.items():
        if option in writer.options or (value is None and option in registry.options()):
            continue
        others = [f for f in registry.writable().values() if option in f.options]
        if others:
            endings = ", ".join(suffix for f in others for suffix in f.suffixes)
            raise ValueError(f"{name}: {option}={value!r} is for {endings} outputs")
        close = difflib.get_close_matches(option, registry.options(), 1, 0.6)
        hint = f"; did you mean {close[0]}=?" if close else ""
        raise TypeError(
            f"{name}: there is no option {option}={value!r}{hint}; {writer.name} accepts "
            f"{', '.join(writer.options) or 'none'}"
        )
    return {option: value for option, value in options.items() if option in writer.options}
