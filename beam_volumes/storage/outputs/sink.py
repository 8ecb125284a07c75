"""Sinks: output arrays as descriptions that travel; created once, then only opened and written."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import parsed_json
from beam_volumes.storage.formats import registry
from beam_volumes.storage.formats.format import Content, OutputRequest, WritableFormat
from beam_volumes.storage.outputs.parts import PartedOutput
from beam_volumes.storage.places.claims import Document, changed, replaced
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.storage.places.ownership import UNFINISHED, OwnedOutput
from beam_volumes.storage.places.place import Place, output_spec, url
from beam_volumes.storage.sources.pyramid import (
    OPTIONS,
    Level,
    Pyramid,
    factors_between,
    smaller,
    space_of,
)
from beam_volumes.storage.sources.source import Source, digest


class OwnedArray(PartedOutput, OwnedOutput):
    """An output array as its format makes and recognises it."""

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
        """Its metadata files by their names, which name no run yet."""
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
        """Its metadata as they are stored now, by their names."""
        home = Place(self.home)
        return {name: parsed_json(home.read(name) or b"{}") for name in self._documents}


@dataclass(frozen=True, eq=False)
class Sink(OwnedArray):
    """An output array: what it is to be, and all that a run does with it.

    How that is done, its format knows.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def stores_empty(self) -> bool:
        """Whether units of zeros alone are stored too."""
        return self.scratch or not self.writer.omits_empty

    def holds(self, dtype: np.dtype) -> bool:
        """Whether voxels of a dtype come back from it as they were."""
        voxels = np.dtype(bool) if self.mask else self.dtype
        return dtype == voxels and not self.writer.loses(self)

    def open(self) -> ts.TensorStore:
        """The handle for `write_units`, with domain ``[0, shape)`` of z, y, x, shared by this process.

        At the far edges it reaches further than its domain tells, so that whole units can be written; or it
        ends there, and says so, if units are cut off there too.
        """
        return opened("write" + self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        z, y, x = (slice(0, n) for n in self.shape)
        view = self.writer.open_units(self)[..., z, y, x]
        for n, u, k in zip(self.leading, self.leading_unit, self.at or (), strict=True):
            # What is one of several units is chosen; what lies in each unit stays in front.
            view = view[k] if u < n or n == 1 else view[ts.d[0].transpose[3]]
        return view if self.writer.clips_units else view[ts.d[:3].mark_bounds_implicit[False:True]]

    def finish(self, run_id: str | None = None, durable: bool = False) -> None:
        """Assemble the output once all its units are there; repeating it is harmless."""
        if self.assembles:
            self.assemble_with(run_id, durable, lambda is_ours: self.writer.assemble(self, is_ours))

    def complete_metadata(self, run_id: str) -> None:
        """Add metadata that depend on stored voxels; once is enough."""

        def change(document: dict[str, Any]) -> bool:
            noted = self.writer.noted(document)
            is_ours = isinstance(noted, dict) and noted.get("run") == run_id
            return is_ours and self.writer.add_voxel_metadata(self.whole, document)

        changed(self.document, change)

    def is_finished(self) -> bool:
        """Whether units have been put together, so that they are no objects of their own any more."""
        return self.assembles and bool(self.state().get("finished"))

    def read_back(self) -> Source:
        """The output as a source, or the part that it is of one; nothing is read to make it."""
        return self._stored.as_mask() if self.mask else self._stored

    @cached_property
    def _stored(self) -> Source:
        """The same as it is stored: uint8 for masks."""
        source = self.writer.read_back(self)
        if self.at is not None:
            axes = zip(self.space.leading, self.at, self.leading_unit, self.leading, strict=True)
            for axis, k, u, n in axes:
                if u < n and axis in source.space.leading:
                    source = source.point(axis, k)
        return source

    def open_back(self) -> ts.TensorStore:
        """What is stored: z, y, x, and samples if units hold several."""
        source = self._stored
        if not source.leading:
            return source.open()
        handle = opened("back" + source.token(), source.reader.open)
        return handle[ts.d[0].transpose[3]]

    def read_all(self) -> ts.TensorStore:
        """What is stored of the whole: its leading axes, z, y and x, also those of one point."""
        return self.writer.read_back(replace(self, at=None)).reader.open()

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        options = data.pop("options")
        return {**data, **options, "dtype": self.dtype.str}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sink:
        """What `to_dict` told of, from JSON too.

        Examples
        --------
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
        """The sink's identity for fingerprints: its place and everything stored in it but voxels."""
        return self._token

    @cached_property
    def _token(self) -> str:
        level = () if self.level is None else (self.level,)
        return digest(self.kvstore, self.at, *level, *self.writer.identity(self.whole))


def _encoded(content: Content) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content, indent=1).encode()


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
    """Describe an output array; nothing is made yet.

    - ``path``: where it goes: a path, a URL or the spec of a TensorStore key-value store.
    - ``shape``: of z, y, x; axes that ``space`` hides have extent 1 and are not stored.
    - ``dtype``: of the voxels; where a format has no bool, it is stored as uint8 0 and 1.
    - ``space``: axes, voxel size, unit and origin.
    - ``leading``: extents of the axes before these that ``space`` names.
    - ``format``: the name of a format; by default the one that the path ends with.
    - ``labels``: whether voxels are labels.
    - ``**options``: what the format takes: see `Volume.to`.

    Raises `ValueError`: the format cannot hold the dtype, or does not take an option of another
    one.
    """
    spec = output_spec(path if isinstance(path, str | os.PathLike) else dict(path))
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
    """As which dtype voxels are stored, if the format can hold it."""
    stored = writer.stored_dtype(dtype).newbyteorder("=")
    if stored not in writer.dtypes:
        allowed = ", ".join(d.name for d in writer.dtypes)
        raise ValueError(
            f"{name}: {writer.name} cannot hold {stored}; convert by astype() to one of {allowed}"
        )
    return stored


def _check_place(
    writer: WritableFormat, name: str, spec: Mapping[str, Any], shape: Triple, space: Space
) -> None:
    """Refuse axes that are hidden and have several voxels, and one file in a bucket."""
    hidden = [a for a in AXES if a not in space.axes and shape[AXES.index(a)] != 1]
    if hidden:
        raise ValueError(
            f"{name}: the axis {hidden[0]} is not among {space.axes} but has extent {shape}"
        )
    if writer.is_file and spec.get("driver") != "file":
        raise ValueError(f"{name}: {writer.name} is one file, for local disks; write .zarr there")


def _pyramid(writer: WritableFormat, sink: Sink, factors: Sequence[Triple], method: str) -> Pyramid:
    """The levels of an output, each with chunks like those of the first."""
    levels = [Level(sink.shape, sink.chunk, sink.shard, sink.space)]
    for by in factors:
        shape = smaller(levels[-1].shape, by)
        chunk, shard = writer.level_chunks(sink, shape)
        levels.append(Level(shape, chunk, shard, space_of(levels[-1].space, by, method)))
    return Pyramid(sink.name, method, tuple(factors), tuple(levels))


def _leading_units(
    writer: WritableFormat, name: str, space: Space, leading: tuple[int, ...], given: dict[str, Any]
) -> tuple[int, ...]:
    """How many points of each leading axis a chunk holds; what ``given`` says of it is taken out."""
    if not leading:
        return ()
    if writer.channels == "none":
        raise ValueError(
            f"{name}: {writer.name} holds one channel of one point in time, and the volume has "
            f"{' x '.join(map(str, leading))}; choose one, as v[0], or write .zarr or .ome.zarr"
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
                    f"{name}: shards={sizes!r} hold {asked} channels, and chunks {units}"
                )
    if writer.channels == "together" and units[-1:] != leading[-1:] and space.has_channels:
        raise ValueError(
            f"{name}: chunks of {writer.name} hold all channels, {leading[-1]}, not {units[-1]}"
        )
    if space.times and units[0] != 1:
        raise ValueError(f"{name}: chunks of {units[0]} points in time; a chunk holds one")
    if any(u not in (1, n) for u, n in zip(units, leading, strict=True)):
        raise ValueError(
            f"{name}: chunks of {units[-1]} channels; a chunk holds one channel, or all {leading[-1]}"
        )
    return units


def _given(options: Mapping[str, Any], writer: WritableFormat, name: str) -> dict[str, Any]:
    """The options of an output that its format takes; others may be None."""
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
            f"{name}: there is no option {option}={value!r}{hint}; {writer.name} takes "
            f"{', '.join(writer.options) or 'none'}"
        )
    return {option: value for option, value in options.items() if option in writer.options}
