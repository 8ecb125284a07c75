"""Arrays that TensorStore's drivers open, from a spec."""

from __future__ import annotations

import io
import json
import math
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.raw import zarr_chunks
from beam_volumes.storage.formats.format import WHOLE, OpenRequest
from beam_volumes.storage.places.context import context
from beam_volumes.storage.places.credentials import as_given, check_no_secrets, with_secrets
from beam_volumes.storage.places.errors import VolumeError, explain
from beam_volumes.storage.places.extent import Extent, stores
from beam_volumes.storage.places.place import Place, Spec, is_local, url
from beam_volumes.storage.places.remote_file import Object, Stream
from beam_volumes.storage.sources.axes import (
    Selection,
    UnclearSize,
    check_affine,
    converted,
    names_of_axes,
    oriented,
    select,
)
from beam_volumes.storage.sources.raw import RawChunks
from beam_volumes.storage.sources.source import DTYPES, Source, _normal, digest

#: The option of formats with chunks that may be missing.
MISSING = (
    '``"fill"`` (the default) or ``"error"``',
    "Whether missing chunks are read as the fill value, or are an error.",
)
#: Maximal size of a chunk, which is decoded as a whole.
TOO_LARGE = 16 << 30

#: Metadata of an N5 array that define its storage.
_N5 = {"dimensions", "blockSize", "dataType", "compression", "axes"}
#: Members of specs that create or clear arrays: a source never does.
_WRITING = ("create", "delete_existing", "open", "open_mode")


@dataclass(frozen=True, eq=False)
class SpecReader:
    """A TensorStore spec with an index transform to leading axes and z, y, x."""

    spec: dict[str, Any]

    @property
    def _kvstore(self) -> dict[str, Any]:
        store = self.spec
        while "kvstore" in store or "base" in store:
            inner = store.get("kvstore", store.get("base"))
            if not isinstance(inner, dict):
                return {"driver": str(inner).partition(":")[0]}
            store = inner
        return store

    @property
    def portable(self) -> bool:
        return self._kvstore.get("driver") not in ("memory", "array")

    @property
    def remote(self) -> bool:
        return self._kvstore.get("driver") not in ("memory", "array", "file")

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(stores(self.spec))

    def open(self) -> ts.TensorStore:
        return _open(self.spec)

    def raw_chunks(self, leading: Sequence[int], offset: Triple) -> RawChunks | str:
        """Return the chunks that are plain voxels, or why they are not."""
        return zarr_chunks(self.spec, leading, offset)

    def moved(self, move: Callable[[Spec], Spec]) -> SpecReader:
        """Return the reader after the key-value store was moved."""
        return SpecReader(_moved(self.spec, move))

    def token(self) -> str:
        return digest({k: v for k, v in self.spec.items() if k != "context"})


@dataclass(frozen=True)
class ArrayMetadata:
    """Metadata of an array in addition to its TensorStore spec; sequences are per dimension."""

    name: str | None = None  #: The name in messages; by default its place
    axes: Sequence[str | None] | None = None
    channels: Sequence[str] = ()
    #: Voxel size, and the position of index 0; the volume's origin is the start of its domain
    scale: Sequence[float] | None = None
    translation: Sequence[float] | None = None
    unit: str | None = None
    units: Sequence[Any] | None = None  #: Instead of ``unit``, as in `axes.in_one_unit`


UNKNOWN = ArrayMetadata()


def open_spec(
    spec: Mapping[str, Any], about: ArrayMetadata = UNKNOWN, request: OpenRequest = WHOLE
) -> Source:
    """Return a source for a TensorStore spec.

    Metadata are only read if the spec does not contain them.
    """
    spec = {k: v for k, v in spec.items() if k not in _WRITING}
    check_no_secrets(spec)
    name = _name(spec) if about.name is None else about.name
    missing, affine = request.option("missing", "fill"), request.option("affine")
    if "tiff" in _drivers(spec):
        raise ValueError(
            f"{name}: TensorStore's driver 'tiff' reads wrong voxels from some files; pass the path of the "
            "TIFF file to open() instead"
        )
    if missing not in ("fill", "error"):
        raise ValueError(f"{name}: missing={missing!r} is not valid; use 'fill' or 'error'")
    check_affine(affine, name)
    if missing == "error":
        spec["fill_missing_data_reads"] = False
    known = _with_metadata(spec, name)
    domain = known.domain
    assert domain is not None
    labels = about.axes or (domain.labels if any(domain.labels) else None)
    names = names_of_axes(labels, domain.rank, name)
    # An array without names keeps its axes.
    request = replace(request, keep=request.keep or labels is None)
    chosen = select(names, domain.shape, request, name, about.channels)
    space, back = _space(known, about, names, chosen, name, affine)
    return oriented(_source(known, spec, chosen, space, name), back, affine)


def _with_metadata(spec: dict[str, Any], name: str) -> ts.Spec:
    """Return the spec with the array's metadata, which are read if necessary."""
    try:
        known = ts.Spec(spec)
        complete = (
            known.domain is not None
            and known.dtype is not None
            and all(
                -ts.inf < a and b < ts.inf
                for a, b in zip(known.domain.inclusive_min, known.domain.exclusive_max, strict=True)
            )
        )
        if not (complete and _chunks(known)):
            store = _open(spec)
            known = ts.Spec(_json(store.spec(), spec))
            if known.domain is None or _chunks(known) is None:
                known = store.spec()
    except (ValueError, TypeError, KeyError) as error:
        raise explain(error, f"opening {name}") from None
    check_all_is_read(known.to_json())
    assert known.dtype is not None
    if known.dtype.numpy_dtype not in DTYPES:
        raise ValueError(
            f"{name} has dtype {known.dtype.name}; voxels are one of {', '.join(d.name for d in DTYPES)}"
        )
    return known


def _space(
    known: ts.Spec,
    about: ArrayMetadata,
    names: Sequence[str],
    chosen: Selection,
    name: str,
    affine: str | None,
) -> tuple[Space, list[bool]]:
    """Return the space of voxels, and the reversed axes of z, y, x."""
    scale, translation, unit, units = about.scale, about.translation, about.unit, about.units
    domain = known.domain
    assert domain is not None
    rank, remedy = domain.rank, "correct the metadata, or open the array by a TensorStore spec"
    if units is not None and len(units) != rank:
        raise ValueError(
            f"{name}: its metadata list {len(units)} axes, but the array has {rank} dimensions; "
            f"{remedy}"
        )
    if scale is None:
        scale, units = _units(known.dimension_units, names, units or [unit] * rank)
    for what, numbers in (("voxel size", scale), ("origin", translation)):
        if numbers is not None and not _are_numbers(numbers, rank):
            raise ValueError(
                f"{name}: the {what} in its metadata is {numbers!r}, not {rank} numbers, one for each "
                f"axis; {remedy}"
            )
    if units is not None:
        spatial = [d for d, axis in enumerate(names) if axis in AXES]
        unit, (scale, translation) = _converted(units, spatial, scale, translation)
    steps = zip(
        translation or (0.0,) * rank, domain.inclusive_min, scale or (1.0,) * rank, strict=True
    )
    origin = chosen.triple([float(o + k * s) for o, k, s in steps], 0.0)
    if scale is None:
        return chosen.space(None, unit, origin), [False] * 3
    size = chosen.triple([float(s) for s in scale], 1.0)
    z, y, x = map(abs, size)
    if all(0 < s < math.inf for s in (z, y, x)):
        return chosen.space((z, y, x), unit, origin), [s < 0 for s in size]
    if affine != "drop":
        raise UnclearSize(
            f"{name}: the voxel size in its metadata is {z:g} x {y:g} x {x:g}; give voxel_size=, or "
            "affine='drop' to take voxels without a size"
        )
    return chosen.space(), [False] * 3


def _source(
    known: ts.Spec, spec: dict[str, Any], chosen: Selection, space: Space, name: str
) -> Source:
    view = chosen.apply(known)
    shape, dtype, before = view.domain.shape, known.dtype.numpy_dtype, len(chosen.leading)  # type: ignore[union-attr]
    chunk = tuple(c or n or 1 for c, n in zip(_chunks(view) or shape, shape, strict=True))
    if _chunks(view) and math.prod(chunk) * dtype.itemsize > TOO_LARGE:
        raise ValueError(
            f"{name} has chunks of {' x '.join(map(str, chunk))} voxels, more than {TOO_LARGE >> 30} GiB "
            "each, and a chunk is decoded as a whole; store it in smaller ones"
        )
    grid = view.chunk_layout.grid_origin or (0,) * len(shape)
    return Source(
        name=name,
        shape=shape[before:],
        dtype=dtype,
        chunk=chunk[before:],  # type: ignore[arg-type]
        chunk_origin=_normal([g or 0 for g in grid[before:]], chunk[before:]),  # type: ignore[arg-type]
        space=space,
        reader=SpecReader(_json(view, spec)),
        encoded=_encoded(spec | view.to_json()),
        leading=tuple(shape[:before]),
        leading_chunk=tuple(chunk[:before]),
    )


def _moved(spec: dict[str, Any], move: Callable[[Spec], Spec]) -> dict[str, Any]:
    below = "kvstore" if "kvstore" in spec else "base"
    inner = spec.get(below)
    if not isinstance(inner, dict):
        return spec
    if below == "kvstore" and "base" not in inner:
        return {**spec, below: move(inner)}
    return {**spec, below: _moved(inner, move)}


def _drivers(spec: Any) -> set[str]:
    if not isinstance(spec, Mapping):
        return set()
    below = [spec.get("base"), *(spec.get("layers") or ())]
    return {str(spec.get("driver"))}.union(*map(_drivers, below))


def _are_numbers(found: Any, count: int) -> bool:
    """Whether an untrusted value is a list of ``count`` finite numbers."""
    return (
        isinstance(found, list | tuple)
        and len(found) == count
        and all(isinstance(n, int | float) and math.isfinite(n) for n in found)
    )


def _open(spec: Mapping[str, Any]) -> ts.TensorStore:
    assume = bool(spec.get("assume_metadata"))
    return ts.open(
        with_secrets(spec), open=True, read=True, assume_metadata=assume, context=context()
    ).result()


def open_to_write(spec: Mapping[str, Any], name: str) -> ts.TensorStore:
    """Open an array with assumed metadata, without labels of dimensions."""
    try:
        store = ts.open(spec, open=True, assume_metadata=True, context=context()).result()
    except ValueError as error:
        raise explain(error, f"opening {name}") from None
    return store[ts.d[:].label[("",) * store.rank]]


def _json(view: ts.Spec, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a view's spec as plain data, with the user's context and without mutable metadata."""
    text = as_given(view.to_json(), given)
    text.pop("context", None)
    if "context" in given:
        text["context"] = given["context"]
    if isinstance(text.get("metadata"), dict):
        # N5 stores attributes together with the array's metadata.
        kept = _N5 if text.get("driver") == "n5" else set(text["metadata"]) - {"attributes"}
        text["metadata"] = {k: v for k, v in text["metadata"].items() if k in kept}
    if given.get("assume_metadata"):
        text["assume_metadata"] = True
    _drop_context(text)
    return text


def _drop_context(spec: Any) -> None:
    """Remove the process's context from a key-value store's spec."""
    if isinstance(spec, dict):
        for key in (
            "file_io_concurrency",
            "file_io_sync",
            "file_io_locking",
            "file_io_mode",
            "file_io_retries",
        ):
            spec.pop(key, None)
        for key in ("cache_pool", "data_copy_concurrency", "memory_key_value_store"):
            if not isinstance(spec.get(key), dict) or not spec.get(key):
                spec.pop(key, None)
        for value in spec.values():
            _drop_context(value)


def _chunks(spec: Any) -> Sequence[int | None] | None:
    shape = spec.chunk_layout.read_chunk.shape
    return None if shape is None or not any(shape) else shape


def _units(
    units: Sequence[Any] | None, axes: Sequence[str], foreign: Sequence[Any]
) -> tuple[list[float] | None, Sequence[Any]]:
    """Return voxel sizes and units from TensorStore's dimension units and other metadata."""
    known = dict(zip(axes, units or (), strict=False))
    found = {a: u for a, u in known.items() if a in AXES and u is not None}
    if not found:
        return None, foreign
    sizes = [found[a].multiplier if a in found else 1.0 for a in axes]
    each = zip(axes, foreign, strict=True)
    return sizes, [(found[a].base_unit or unit) if a in found else None for a, unit in each]


def _converted(
    units: Sequence[Any], spatial: Sequence[int], *lengths: Sequence[float] | None
) -> tuple[str | None, list[list[float] | None]]:
    """Convert lengths along spatial dimensions to one unit; see `axes.converted`."""
    unit, found = converted(
        [units[d] for d in spatial],
        *(None if given is None else [given[d] for d in spatial] for given in lengths),
    )
    whole: list[list[float] | None] = []
    for given, values in zip(lengths, found, strict=True):
        whole.append(None if given is None or values is None else list(given))
        for d, value in zip(spatial, values or (), strict=False):
            whole[-1][d] = value  # type: ignore[index]
    return unit, whole


def _encoded(spec: Mapping[str, Any]) -> bool:
    text = json.dumps(spec.get("metadata", {}))
    if spec.get("driver") == "zarr":
        return '"compressor": null' not in text
    if spec.get("driver") == "zarr3":
        return any(f'"{c}"' in text for c in ("zstd", "blosc", "gzip"))
    return spec.get("driver") != "array"


def _name(spec: Mapping[str, Any]) -> str:
    place = spec.get("kvstore", spec)
    if isinstance(place, str):
        return place
    return (
        url(dict(place))
        if isinstance(place, Mapping) and "path" in place
        else str(spec.get("driver"))
    )


def check_all_is_read(spec: Any) -> None:
    """Refuse an array in a zip file with members that TensorStore would read as fill values."""
    # It ignores members that are compressed more than a thousand times, encrypted, compressed by other
    # methods, or have names that begin with a slash. ``spec`` is from `tensorstore.Spec.to_json`.
    if not isinstance(spec, Mapping):
        return
    for inner in (spec.get("kvstore"), spec.get("base"), *spec.get("layers", ())):
        check_all_is_read(inner)
    base = spec.get("base")
    if spec.get("driver") != "zip" or not isinstance(base, dict):
        return
    name = printable(url(base))
    # Only members of the array matter.
    below = str(spec.get("path", "")).encode()
    read = set(Place({"driver": "zip", "base": base, "path": ""}).store.list().result())
    try:
        with _bytes(base) as file, zipfile.ZipFile(file) as archive:
            members = ((m, _name_of(m)) for m in archive.infolist() if not m.is_dir())
            lost = [m for m, n in members if n not in read and n.lstrip(b"/").startswith(below)]
    except (zipfile.BadZipFile, NotImplementedError, EOFError, struct.error) as error:
        raise VolumeError(f"{name} is damaged: {error}; restore it") from None
    if not lost:
        return
    first = lost[0]
    how = f"{first.file_size:,} bytes in {first.compress_size:,}, method {first.compress_type}"
    how += ", encrypted" if first.flag_bits & 1 else ""
    more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    raise ValueError(
        f"{name}: {printable(first.filename)} ({how}){more} cannot be read from the zip file; unzip it, or "
        "rewrite it without compressing its members (zipfile.ZIP_STORED)"
    )


def _name_of(member: zipfile.ZipInfo) -> bytes:
    return member.orig_filename.encode("utf-8" if member.flag_bits & 0x800 else "cp437")


def _bytes(base: Spec) -> Any:
    if is_local(base):
        return open(base["path"], "rb")
    return io.BufferedReader(Stream(Object(base)), 1 << 16)
