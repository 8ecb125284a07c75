"""Sinks: output arrays as descriptions that travel; created once, then only opened and written."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.geometry import Grid, Triple
from beam_volumes.space import AXES, Space
from beam_volumes.storage import kvstore
from beam_volumes.storage.claims import ANY, Document, Superseded, Watched, prepare, replaced
from beam_volumes.storage.context import context, opened
from beam_volumes.storage.errors import explain
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.formats.ome import image_metadata
from beam_volumes.storage.formats.tensorstore_spec import open_spec
from beam_volumes.storage.formats.zarr import OURS
from beam_volumes.storage.place import Place
from beam_volumes.storage.remove import clear
from beam_volumes.storage.source import DTYPES, Source, digest
from beam_volumes.storage.transfer import KEPT, Transfer, in_flight, write_units

__all__ = [
    "OutputExistsError",
    "Sink",
    "Transfer",
    "default_chunk",
    "make_sink",
    "write_overhead_bytes",
    "write_units",
]

#: Default chunks hold at least this much before compression, if the volume does.
CHUNK_BYTES = 2 << 20
#: Formats by what paths end with; the longest ending wins.
SUFFIXES = {".ome.zarr": "ome-zarr", ".zarr": "zarr"}
#: What each format can hold (bool is stored as uint8 0 and 1).
FORMAT_DTYPES = {"zarr": DTYPES, "ome-zarr": DTYPES}
#: Codecs by zarr version, with the level each has by default.
CODECS: dict[int, dict[str, int | None]] = {
    3: {"none": None, "zstd": 1, "gzip": 5, "blosc": 5},
    2: {"none": None, "zstd": 1, "zlib": 5, "blosc": 5},
}
INNER_CHUNK: Triple = (16, 128, 128)
OME_VERSIONS = {"0.4": 2, "0.5": 3}


class OutputExistsError(FileExistsError, ValueError):
    """An output exists and was not asked to be replaced or continued."""


def check_replaces(name: str, replaces: str | None, run: str | None) -> None:
    """Refuse to replace what another run has begun since it was looked at."""
    if replaces != ANY and run not in (None, replaces):
        raise Superseded(
            f"{name}: the run {run} has begun to write it since this one was asked for, and goes on; this "
            "one writes nothing: start it again with overwrite=True when the other has ended or is stopped"
        )


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode()


def _begun(data: bytes | None, name: str) -> tuple[str | None, bool]:
    """The run that a zarr document names, and whether the output is ready."""
    if data is None:
        return None, False
    try:
        document = json.loads(data)
    except ValueError as error:
        raise OSError(f"the metadata of {name} are damaged: {error}") from None
    attributes = document.get("attributes", document) if isinstance(document, dict) else None
    ours = attributes.get(OURS) if isinstance(attributes, dict) else None
    if not isinstance(ours, dict):
        return None, False
    return ours.get("run"), "preparing" not in ours


def _ready_run(data: bytes | None) -> str | None:
    run, is_ready = _begun(data, "an output")
    return run if is_ready else None


@dataclass(frozen=True, eq=False)
class Sink:
    """An output array.

    Attributes
    ----------
    name : str
        How messages name it: its path or URL.
    format : str
        ``"zarr"`` or ``"ome-zarr"``.
    shape, chunk : tuple of int
        Of z, y, x, also where the file has fewer axes.
    shard : tuple of int or None
    dtype : numpy.dtype
        As stored: uint8 for bool.
    codec : tuple
        Name and level.
    space : Space
    kvstore : dict
        The place of the array or, for OME-Zarr, of the group.
    zarr_version : int
    ome_version : str or None
    scratch : bool
        Whether it is a run's own, between its passes: all its chunks are stored, and one that is not
        there is an error where it is read.
    """

    name: str
    format: str
    shape: Triple
    dtype: np.dtype
    chunk: Triple
    shard: Triple | None
    codec: tuple[str, int | None]
    space: Space
    kvstore: dict[str, Any]
    zarr_version: int = 3
    ome_version: str | None = None
    scratch: bool = False

    @property
    def unit(self) -> Triple:
        """What is written at once: the shard, or else the chunk."""
        return self.shard or self.chunk

    @property
    def grid(self) -> Grid:
        """The write units."""
        return Grid(self.shape, self.unit)

    @property
    def unit_bytes(self) -> int:
        return math.prod(self.unit) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def portable(self) -> bool:
        """Whether other processes can open it."""
        return self.kvstore.get("driver") != "memory"

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where it is stored: all of it is cleared before it is written."""
        return (Extent(self.kvstore),)

    def holds(self, dtype: np.dtype) -> bool:
        """Whether voxels of a dtype come back from it as they were; bool is stored as 0 and 1."""
        return self.dtype == (np.dtype(np.uint8) if dtype.kind == "b" else dtype)

    # what is there

    def exists(self) -> bool:
        """Whether something is at the output's place."""
        place = Place.of(self.kvstore)
        if place.local is not None:
            if os.path.isdir(place.local):
                with os.scandir(place.local) as entries:
                    return any(True for _ in entries)
            return os.path.lexists(place.local)
        return self._is_zarr(place)

    def existing_run(self) -> str | None:
        """The id of the run that created what is there, if one of ours did."""
        run, is_ready = self._begun()
        return run if is_ready else None

    def begun_run(self) -> str | None:
        """The same, or of the run that is creating it."""
        return self._begun()[0]

    def _begun(self) -> tuple[str | None, bool]:
        place = Place.of(self.kvstore)
        if place.local is not None and not os.path.isdir(place.local):
            return None, False
        data = place.read("zarr.json")
        return _begun(place.read(".zattrs") if data is None else data, self.name)

    def watched(self, run_id: str) -> Watched | None:
        """By what is seen whether the output is still that of the run which writes it."""
        return Watched.of(self._document, run_id, _ready_run)

    @staticmethod
    def _is_zarr(place: Place) -> bool:
        return any(
            place.read(k) is not None for k in ("zarr.json", ".zarray", ".zgroup", ".zattrs")
        )

    # making it

    def create(self, run_id: str, overwrite: bool = False, replaces: str | None = ANY) -> None:
        """Make the output ready to be written, once per run.

        Called again by the same run (a retry), also at the same time, it changes nothing. What another run
        left is cleared only with ``overwrite``, and only if it is zarr.

        Parameters
        ----------
        run_id : str
        overwrite : bool
        replaces : str, optional
            The run, or None, that was there when the run was asked for.

        Raises
        ------
        OutputExistsError
            If something else is there.
        Superseded
            If another run is there than ``replaces``.
        """

        def refuse(run: str | None) -> None:
            now = run or self.begun_run()
            if now == run_id or not self.exists():  # a twin of this attempt was quicker
                return
            check_replaces(self.name, replaces, now)
            if not overwrite:
                raise OutputExistsError(
                    f"the output {self.name} exists: pass overwrite=True to replace it, resume=True to "
                    "continue the run that began it, or choose another path"
                )
            place = Place.of(self.kvstore)
            if place.local is not None and not self._is_zarr(place):
                raise OutputExistsError(
                    f"the output {self.name} exists and is not zarr, so overwrite=True does not delete "
                    "it; remove it yourself or choose another path"
                )

        first, *others = self._documents(run_id).items()

        def written(attempt: str | None) -> bytes:
            # Until the chunks of another run are cleared, there is no array.
            return _encoded(first[1] if attempt is None else self._claim(run_id, attempt))

        def make(is_ours: Callable[[], bool]) -> bool:
            directory = self._document.folder
            return clear(directory, self._document.key, is_ours) and all(
                replaced(Document(directory, key), _encoded(value), is_ours)
                for key, value in others
            )

        prepare(
            self._document,
            run_id,
            begun=lambda data: _begun(data, self.name),
            written=written,
            refuse=refuse,
            make=make,
        )

    @property
    def _document(self) -> Document:
        """The one that says which run's the output is."""
        directory = kvstore.join(self.kvstore, directory=True)
        return Document(directory, "zarr.json" if self.zarr_version == 3 else ".zattrs")

    def _claim(self, run_id: str, attempt: str) -> dict[str, Any]:
        attributes = {OURS: {"run": run_id, "preparing": attempt}}
        if self.zarr_version == 2:
            return attributes
        return {"zarr_format": 3, "node_type": "group", "attributes": attributes}

    # metadata

    @property
    def _visible(self) -> tuple[int, ...]:
        return self.space.visible

    def _seen(self, triple: Sequence[Any]) -> list[Any]:
        return [triple[a] for a in self._visible]

    def _metadata(self, shape: Triple) -> dict[str, Any]:
        """The array's own metadata document."""
        name, level = self.codec
        if self.zarr_version == 2:
            compressor: dict[str, Any] | None = {"id": name, "level": level}
            if name == "none":
                compressor = None
            elif name == "blosc":
                compressor = {
                    "id": "blosc",
                    "cname": "lz4",
                    "clevel": level,
                    "shuffle": 1,
                    "blocksize": 0,
                }
            return {
                "zarr_format": 2,
                "shape": self._seen(shape),
                "chunks": self._seen(self.chunk),
                "dtype": self.dtype.newbyteorder("<").str,
                "compressor": compressor,
                "fill_value": 0,
                "order": "C",
                "filters": None,
                "dimension_separator": "/",
            }
        codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if self.dtype.itemsize == 1:
            codecs = [{"name": "bytes"}]
        if name == "blosc":
            blosc = {
                "cname": "lz4",
                "clevel": level,
                "shuffle": "shuffle" if self.dtype.itemsize > 1 else "noshuffle",
                "typesize": self.dtype.itemsize,
                "blocksize": 0,
            }
            codecs.append({"name": "blosc", "configuration": blosc})
        elif name == "zstd":
            codecs.append({"name": "zstd", "configuration": {"level": level, "checksum": False}})
        elif name != "none":
            codecs.append({"name": name, "configuration": {"level": level}})
        if self.shard is not None:
            sharding = {
                "chunk_shape": self._seen(self.chunk),
                "codecs": codecs,
                "index_codecs": [
                    {"name": "bytes", "configuration": {"endian": "little"}},
                    {"name": "crc32c"},
                ],
                "index_location": "end",
            }
            codecs = [{"name": "sharding_indexed", "configuration": sharding}]
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": self._seen(shape),
            "data_type": self.dtype.name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": self._seen(self.unit)},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0 if self.dtype.kind in "ui" else 0.0,
            "codecs": codecs,
            "dimension_names": list(self.space.axes),
        }

    def _documents(self, run_id: str) -> dict[str, Any]:
        """The metadata files below the output's place, the one that names the run first."""
        space = self.space
        ours: dict[str, Any] = {"run": run_id}
        array = self._metadata(self.shape)
        if self.format == "zarr":
            if space.voxel_size is not None:
                ours["voxel_size"] = self._seen(space.voxel_size)
            if any(space.origin):
                ours["origin"] = self._seen(space.origin)
            if space.unit is not None:
                ours["unit"] = space.unit
            if self.zarr_version == 3:
                return {"zarr.json": {**array, "attributes": {OURS: ours}}}
            attributes = {"_ARRAY_DIMENSIONS": list(space.axes), OURS: ours}
            return {".zattrs": attributes, ".zarray": array}
        image = image_metadata(
            str(self.ome_version),
            os.path.basename(self.name.rstrip("/")).removesuffix(".ome.zarr"),
            space.axes,
            self._seen(space.voxel_size or (1.0, 1.0, 1.0)),
            self._seen(space.origin),
            space.unit,
        )
        attributes = {**image, OURS: ours}
        if self.zarr_version == 3:
            group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
            return {"zarr.json": group, "0/zarr.json": array}
        return {".zattrs": attributes, ".zgroup": {"zarr_format": 2}, "0/.zarray": array}

    def _spec(self, shape: Triple) -> dict[str, Any]:
        parts = ("0",) if self.format == "ome-zarr" else ()
        spec: dict[str, Any] = {
            "driver": "zarr3" if self.zarr_version == 3 else "zarr",
            "kvstore": kvstore.join(self.kvstore, *parts, directory=True),
            "metadata": self._metadata(shape),
        }
        if self.scratch:
            spec |= {"fill_missing_data_reads": False, "store_data_equal_to_fill_value": True}
        return spec

    # using it

    def open(self) -> ts.TensorStore:
        """The handle for `write_units`, with domain ``[0, shape)`` of z, y, x, shared by this process.

        Its metadata are assumed, not read. They are those of the volume rounded up to whole units,
        so that the far edges can be written without reading; nothing of that is stored.
        """
        return opened("write" + self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        z, y, x = (-(-n // u) * u for n, u in zip(self.shape, self.unit, strict=True))
        try:
            store = ts.open(
                self._spec((z, y, x)), open=True, assume_metadata=True, context=context()
            ).result()
        except ValueError as error:
            raise explain(error, f"opening {self.name}") from None
        store = store[ts.d[:].label[("",) * store.rank]]
        view = store[tuple(slice(None) if a in self.space.axes else ts.newaxis for a in AXES)]
        view = view[tuple(slice(0, n) for n in self.shape)]
        return view[ts.d[:].mark_bounds_implicit[False:True]]

    def read_back(self) -> Source:
        """The output as a source; nothing is read to make it."""
        space = self.space
        return open_spec(
            self._spec(self.shape),
            name=self.name,
            axes=space.axes,
            scale=None if space.voxel_size is None else self._seen(space.voxel_size),
            translation=self._seen(space.origin),
            unit=space.unit,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain data."""
        return {**asdict(self), "dtype": self.dtype.str}

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
        return cls(**{**known, "dtype": np.dtype(known["dtype"]), "space": Space(**space)})

    def token(self) -> str:
        """The sink's identity for fingerprints: its place and everything stored in it but voxels."""
        return digest(self.kvstore, self.format, self.ome_version, self._documents(""))


def write_overhead_bytes(
    written: Sequence[tuple[Sink, Sequence[int]]], threads: int = 1, sweeps: int = 1
) -> int:
    """About how many bytes a process takes to write, beside the arrays it writes from, at most.

    Each of its ``sweeps`` writes a box of a shape to each sink; they share a lane for what is local and
    one for what is not. The units in flight are held copied and encoded (as large again when they do
    not compress), and once more while blosc works; one is being put together. With incompressible
    voxels on two threads 24 to 61 MB were measured for chunks of 4 MiB, 130 to 193 MB for chunks and
    shards of 64 MiB.
    """
    total = KEPT if written else 0
    for remote in (False, True):
        most = boxes = unit = 0
        for sink, shape in written:
            if remote != (sink.kvstore.get("driver") not in ("file", "memory")):
                continue
            copies = 3 if sink.codec[0] == "blosc" else 2
            units = math.prod(-(-n // u) for n, u in zip(shape, sink.unit, strict=True))
            most = max(most, copies * in_flight(sink.unit_bytes, threads, remote))
            boxes += sweeps * copies * units * sink.unit_bytes
            unit = max(unit, sink.unit_bytes)
        total += min(most, boxes) + unit
    return total


def default_chunk(shape: Triple, itemsize: int) -> Triple:
    """The chunk of an output whose user did not choose one.

    16 slices of 512 x 512 voxels (256 x 256 from 4 bytes a voxel on): 4 or 8 MiB. Where the volume is
    smaller than that along an axis, the others grow, y and x first, until a chunk holds 2 MiB. It
    depends on nothing else.

    Examples
    --------
    >>> default_chunk((5000, 4000, 4000), 1)
    (16, 512, 512)
    >>> default_chunk((1, 20000, 20000), 1)
    (1, 1024, 2048)
    """
    edge = 512 if itemsize < 4 else 256
    chunk = [max(1, min(c, n)) for c, n in zip((16, edge, edge), shape, strict=True)]
    while math.prod(chunk) * itemsize < CHUNK_BYTES:
        able = [a for a in (2, 1, 0) if chunk[a] < shape[a]]
        if not able:
            break
        plane = [a for a in able if a > 0]
        axis = min(plane, key=lambda a: chunk[a]) if plane else 0
        chunk[axis] = min(2 * chunk[axis], shape[axis])
    z, y, x = chunk
    return (z, y, x)


def make_sink(
    path: str | os.PathLike[str] | Mapping[str, Any],
    *,
    shape: Sequence[int],
    dtype: Any,
    space: Space | None = None,
    format: str | None = None,
    chunks: int | Sequence[int] | None = None,
    shards: bool | int | Sequence[int] | None = None,
    codec: str | Mapping[str, Any] | None = "zstd",
    ome_version: str | None = None,
    zarr_version: int | None = None,
) -> Sink:
    """Describe an output array; nothing is made yet.

    Parameters
    ----------
    path : str, os.PathLike or dict
        Where it goes: a path, a URL or the spec of a TensorStore key-value store.
    shape : sequence of int
        Of z, y, x; axes that ``space`` hides have extent 1 and are not stored.
    dtype : dtype
        Of the voxels; bool is stored as uint8 0 and 1.
    space : Space, optional
        Axes, voxel size, unit and origin.
    format : {"zarr", "ome-zarr"}, optional
        By default what the path ends with: ``.zarr`` or ``.ome.zarr``.
    chunks : int or sequence of int, optional
        One number, or one per axis of the output; by default see `default_chunk`.
    shards : bool, int or sequence of int, optional
        Put the chunks into shard files of this shape. True chooses one: 16 slices deep, up to
        2,048 x 2,048, with chunks of 16 x 128 x 128.
    codec : str or mapping, optional
        ``"zstd"`` (level 1), ``"blosc"`` (lz4, shuffled), ``"gzip"`` (zarr v3), ``"zlib"`` (zarr
        v2), ``"none"`` or None; with a level as ``{"name": "zstd", "level": 5}``.
    ome_version : {"0.5", "0.4"}, optional
        Of OME-Zarr; 0.4 is stored as zarr v2.
    zarr_version : {3, 2}, optional
        Of plain zarr.
    """
    spec = kvstore.kvstore_spec(path if isinstance(path, str | os.PathLike) else dict(path))
    name = kvstore.url(spec).rstrip("/")
    space = Space() if space is None else space
    format = _format(name, format)
    z, y, x = (int(n) for n in shape)
    full: Triple = (z, y, x)
    hidden = [a for a in AXES if a not in space.axes and full[AXES.index(a)] != 1]
    if hidden:
        raise ValueError(
            f"{name}: the axis {hidden[0]} is not among {space.axes} but has extent {full}"
        )
    stored = np.dtype(np.uint8) if np.dtype(dtype) == bool else np.dtype(dtype).newbyteorder("=")
    if stored not in FORMAT_DTYPES[format]:
        allowed = ", ".join(d.name for d in FORMAT_DTYPES[format])
        raise ValueError(
            f"{name}: {format} cannot hold {stored}; convert by astype() to one of {allowed}"
        )
    version = _versions(name, format, ome_version, zarr_version)
    if format == "ome-zarr" and len(space.axes) < 2:
        raise ValueError(f"{name}: OME-Zarr needs 2 or 3 axes, not {space.axes}; write plain .zarr")
    shard: Triple | None = None
    if shards is not None and shards is not False:
        if version == 2:
            raise ValueError(f"{name}: shards={shards} needs zarr v3 (OME-Zarr 0.5)")
        if shards is True:
            inner = _triple("chunks", chunks, space, full, name) or _min(INNER_CHUNK, full)
            shard = _whole((16, 2048, 2048), inner, full)
        else:
            wanted = _triple("shards", shards, space, None, name)
            given = _triple("chunks", chunks, space, full, name)
            if given is None:
                inner = tuple(  # type: ignore[assignment]
                    max(d for d in range(1, min(i, w) + 1) if w % d == 0)
                    for i, w in zip(INNER_CHUNK, wanted, strict=True)  # type: ignore[arg-type]
                )
            else:
                inner = given
            if any(w % i for w, i in zip(wanted, inner, strict=True)):  # type: ignore[arg-type]
                raise ValueError(
                    f"{name}: shards {wanted} are not whole multiples of the chunks {inner}"
                )
            shard = _whole(wanted, inner, full)  # type: ignore[arg-type]
        chunk = inner
    else:
        chunk = _triple("chunks", chunks, space, full, name) or default_chunk(full, stored.itemsize)
    sink = Sink(
        name=name,
        format=format,
        shape=full,
        dtype=stored,
        chunk=chunk,
        shard=shard,
        codec=_codec(name, codec, version),
        space=space,
        kvstore=spec,
        zarr_version=version,
        ome_version=(ome_version or "0.5") if format == "ome-zarr" else None,
    )
    ts.Spec(sink._spec(full))
    return sink


def _format(name: str, format: str | None) -> str:
    if format is None:
        for suffix, found in SUFFIXES.items():
            if name.endswith(suffix):
                return found
        raise ValueError(
            f"{name}: cannot tell the format from the name; end it with {' or '.join(SUFFIXES)}, or pass "
            f"format= one of {', '.join(FORMAT_DTYPES)}"
        )
    if format not in FORMAT_DTYPES:
        raise ValueError(f"format={format!r}; use one of {', '.join(FORMAT_DTYPES)}")
    return format


def _versions(name: str, format: str, ome: str | None, zarr: int | None) -> int:
    if format == "zarr":
        if ome is not None:
            raise ValueError(f"{name}: ome_version={ome!r} is for .ome.zarr outputs")
        if zarr not in (None, 2, 3):
            raise ValueError(f"{name}: zarr_version={zarr!r}; use 3 or 2")
        return zarr or 3
    if ome is not None and ome not in OME_VERSIONS:
        raise ValueError(f"{name}: ome_version={ome!r}; use one of {', '.join(OME_VERSIONS)}")
    version = OME_VERSIONS[ome or "0.5"]
    if zarr not in (None, version):
        raise ValueError(
            f"{name}: OME-Zarr {ome or '0.5'} is stored as zarr v{version}, not v{zarr}; "
            f"choose ome_version={'0.4' if zarr == 2 else '0.5'!r}"
        )
    return version


def _codec(
    name: str, codec: str | Mapping[str, Any] | None, version: int
) -> tuple[str, int | None]:
    given = dict(codec) if isinstance(codec, Mapping) else {"name": codec or "none"}
    known = CODECS[version]
    which = given.pop("name", None)
    if which not in known:
        raise ValueError(f"{name}: codec={codec!r}; zarr v{version} takes {', '.join(known)}")
    level = given.pop("level", known[which])
    top = {"zstd": 22}.get(which, 9)
    if given or (level is not None and (known[which] is None or not 0 <= int(level) <= top)):
        raise ValueError(
            f"{name}: codec={codec!r}; give a name and a level from 0 to {top}, nothing else"
        )
    return (which, None if level is None else int(level))


def _triple(
    option: str,
    value: int | Sequence[int] | None,
    space: Space,
    shape: Triple | None,
    name: str,
) -> Triple | None:
    """An option given per visible axis as z, y, x, no larger than the volume."""
    if value is None:
        return None
    n = len(space.axes)
    values = list(value) if isinstance(value, Sequence | np.ndarray) else [value] * n
    if (
        len(values) == 3
        and n < 3
        and all(values[a] == 1 for a in range(3) if a not in space.visible)
    ):
        values = [values[a] for a in space.visible]
    if len(values) != n or any(int(v) != v or v < 1 for v in values):
        raise ValueError(
            f"{name}: {option}={value!r}; give a positive whole number, or one per axis "
            f"{', '.join(space.axes)}"
        )
    full = [1, 1, 1]
    for axis, v in zip(space.visible, values, strict=True):
        full[axis] = int(v)
    triple: Triple = (full[0], full[1], full[2])
    return triple if shape is None else _min(triple, shape)


def _min(a: Triple, shape: Triple) -> Triple:
    z, y, x = (max(1, min(c, n)) for c, n in zip(a, shape, strict=True))
    return (z, y, x)


def _whole(wanted: Triple, inner: Triple, shape: Triple) -> Triple:
    """``wanted`` as a multiple of ``inner`` that is not larger than it must be for ``shape``."""
    z, y, x = (
        i * max(1, min(w // i, -(-n // i))) for w, i, n in zip(wanted, inner, shape, strict=True)
    )
    return (z, y, x)
