"""Sinks: output arrays as descriptions that travel; created once, then only opened and written."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.geometry import Triple
from beam_volumes.space import AXES, Space
from beam_volumes.storage.claims import Document, replaced
from beam_volumes.storage.context import opened
from beam_volumes.storage.description import Description
from beam_volumes.storage.formats import registry
from beam_volumes.storage.formats.format import Content, WritableFormat
from beam_volumes.storage.ownership import OwnedOutput
from beam_volumes.storage.place import Place, kvstore_spec, url
from beam_volumes.storage.source import Source, digest


@dataclass(frozen=True, eq=False)
class Sink(Description, OwnedOutput):
    """An output array: what it is to be, and all that a run does with it.

    How that is done, its format knows.
    """

    @property
    def its(self) -> WritableFormat:
        """The format."""
        return registry.format_named(self.format)

    @property
    def is_file(self) -> bool:
        return self.its.is_file

    @property
    def assembles(self) -> bool:
        return self.its.assembles

    @property
    def kind(self) -> str:
        return self.format

    @property
    def stores_empty(self) -> bool:
        """Whether units of zeros alone are stored too."""
        return self.scratch or not self.its.omits_empty

    @property
    def copies(self) -> int:
        """How often a unit is held while it is written, beside the array that it comes from."""
        return self.its.copies(self)

    def holds(self, dtype: np.dtype) -> bool:
        """Whether voxels of a dtype come back from it as they were."""
        return self.dtype == self.its.stored_dtype(dtype)

    # whose it is

    @property
    def _key(self) -> str:
        return next(iter(self.its.documents(self, "")))

    def _found(self) -> bytes | None:
        return self.its.found(Place.of(self.home))

    def _noted(self, document: Mapping[str, Any]) -> Any:
        return self.its.noted(document)

    def _document_of(self, noted: Mapping[str, Any]) -> bytes:
        if set(noted) == {"run"}:
            return _encoded(self.its.documents(self, noted["run"])[self._key])
        return _encoded(self.its.note(self, noted))

    def _is_replaceable(self) -> bool:
        place = Place.of(self.kvstore)
        return place.local is None or self.its.is_there(place)

    def _is_in_bucket(self) -> bool:
        return self.its.is_there(Place.of(self.kvstore))

    def _make_rest(self, run_id: str, is_ours: Callable[[], bool]) -> bool:
        documents = self.its.documents(self, run_id)
        others = (
            replaced(Document(self.home, key), _encoded(content), is_ours)
            for key, content in documents.items()
            if key != self._key
        )
        if not all(others) or not is_ours():
            return False
        self.its.make(self)
        return True

    # using it

    def open(self) -> ts.TensorStore:
        """The handle for `write_units`, with domain ``[0, shape)`` of z, y, x, shared by this process.

        At the far edges it reaches further than its domain tells, so that whole units can be written.
        """
        return opened("write" + self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        view = self.its.open_units(self)[tuple(slice(0, n) for n in self.shape)]
        return view[ts.d[:].mark_bounds_implicit[False:True]]

    def finish(self, run_id: str | None = None, durable: bool = False) -> None:
        """Make the output whole once all its units are there; once is enough.

        Parameters
        ----------
        run_id : str, optional
            The run whose it must be.
        durable : bool
            Whether a disk holds it before it is said to be whole.
        """
        if self.assembles:
            self.finish_once(run_id, durable, lambda is_ours: self.its.assemble(self, is_ours))

    def is_finished(self) -> bool:
        """Whether units have been put together, so that they are no objects of their own any more."""
        return self.assembles and bool(self.state().get("finished"))

    def read_back(self) -> Source:
        """The output as a source; nothing is read to make it."""
        return self.its.read_back(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain data."""
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
        known: dict[str, Any] = {f.name: data[f.name] for f in fields(cls) if f.name in data}
        for name in ("shape", "chunk", "shard", "codec"):
            known[name] = None if known[name] is None else tuple(known[name])
        space: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in known["space"].items()
        }
        options = registry.format_named(data["format"]).options
        known["options"] = {name: data[name] for name in options if name in data}
        return cls(**{**known, "dtype": np.dtype(known["dtype"]), "space": Space(**space)})

    def token(self) -> str:
        """The sink's identity for fingerprints: its place and everything stored in it but voxels."""
        return digest(self.kvstore, *self.its.identity(self))


def _encoded(content: Content) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content, indent=1).encode()


def make_sink(
    path: str | os.PathLike[str] | Mapping[str, Any],
    *,
    shape: Sequence[int],
    dtype: Any,
    space: Space | None = None,
    format: str | None = None,
    **options: Any,
) -> Sink:
    """Describe an output array; nothing is made yet.

    Parameters
    ----------
    path : str, os.PathLike or dict
        Where it goes: a path, a URL or the spec of a TensorStore key-value store.
    shape : sequence of int
        Of z, y, x; axes that ``space`` hides have extent 1 and are not stored.
    dtype : dtype
        Of the voxels; where a format has no bool, it is stored as uint8 0 and 1.
    space : Space, optional
        Axes, voxel size, unit and origin.
    format : str, optional
        The name of a format; by default the one that the path ends with.
    **options
        What the format takes: see `Volume.to`.

    Raises
    ------
    ValueError
        The format cannot hold the dtype, or does not take an option of another one.
    TypeError
        No format takes an option.
    """
    spec = kvstore_spec(path if isinstance(path, str | os.PathLike) else dict(path))
    name = url(spec).rstrip("/")
    space = Space() if space is None else space
    its = registry.format_of(name) if format is None else registry.format_named(format)
    z, y, x = (int(n) for n in shape)
    full: Triple = (z, y, x)
    hidden = [a for a in AXES if a not in space.axes and full[AXES.index(a)] != 1]
    if hidden:
        raise ValueError(
            f"{name}: the axis {hidden[0]} is not among {space.axes} but has extent {full}"
        )
    stored = its.stored_dtype(np.dtype(dtype)).newbyteorder("=")
    if stored not in its.dtypes:
        allowed = ", ".join(d.name for d in its.dtypes)
        raise ValueError(
            f"{name}: {its.name} cannot hold {stored}; convert by astype() to one of {allowed}"
        )
    if its.is_file and spec.get("driver") != "file":
        raise ValueError(f"{name}: {its.name} is one file, for local disks; write .zarr there")
    layout = its.layout(name, full, stored, space, **_given(options, its, name))
    sink = Sink(
        name=name,
        format=its.name,
        shape=full,
        dtype=stored,
        chunk=layout.chunk,
        shard=layout.shard,
        codec=layout.codec,
        space=space,
        kvstore={**spec, "path": str(spec["path"]).rstrip("/")} if its.is_file else spec,
        options=layout.options,
    )
    its.check(sink)
    return sink


def _given(options: Mapping[str, Any], its: WritableFormat, name: str) -> dict[str, Any]:
    """The options of an output that its format takes; others may be None."""
    for option, value in options.items():
        if option in its.options or (value is None and option in registry.options()):
            continue
        others = [f for f in registry.writable().values() if option in f.options]
        if others:
            endings = ", ".join(suffix for f in others for suffix in f.suffixes)
            raise ValueError(f"{name}: {option}={value!r} is for {endings} outputs")
        raise TypeError(
            f"{name}: there is no option {option}={value!r}; {its.name} takes {', '.join(its.options)}"
        )
    return {option: value for option, value in options.items() if option in its.options}
