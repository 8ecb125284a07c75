"""Zarr arrays, versions 2 and 3, sharded or not; arrays in groups by ``dataset=``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, Space
from beam_volumes.storage.formats.chunked.tensorstore_spec import (
    MISSING,
    ArrayMetadata,
    open_spec,
    open_to_write,
)
from beam_volumes.storage.formats.format import (
    CHUNKS,
    WHOLE,
    Content,
    Layout,
    OpenRequest,
    Options,
    OutputRequest,
    WritableFormat,
    codec_and_level,
    owned_names,
    request_of,
)
from beam_volumes.storage.places.context import context
from beam_volumes.storage.places.names import NameGrid, noted_grids
from beam_volumes.storage.places.outside import check_key
from beam_volumes.storage.places.ownership import REPLACED, Documents
from beam_volumes.storage.places.place import Place, join
from beam_volumes.storage.sources.axes import AFFINE
from beam_volumes.storage.sources.chunking import whole_chunks
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.numbered import natural_key
from beam_volumes.storage.sources.source import Source

#: The attribute with this package's metadata.
OURS = "beam_volumes"
#: Codecs by zarr version, with their default levels.
CODECS: dict[int, dict[str, int | None]] = {
    3: {"none": None, "zstd": 1, "gzip": 5, "blosc": 5},
    2: {"none": None, "zstd": 1, "zlib": 5, "blosc": 5},
}
_CHUNK = r"c|(?:c[./])?\d+(?:[./]\d+)*"
_DOCUMENTS = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
INNER_CHUNK: Triple = (16, 128, 128)


@dataclass
class Node:
    """An array or a group; ``document`` is an array's metadata."""

    place: Place
    version: int
    is_array: bool
    attributes: dict[str, Any]
    document: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spec(self) -> dict[str, Any]:
        driver = "zarr3" if self.version == 3 else "zarr"
        spec: dict[str, Any] = {"driver": driver, "kvstore": self.place.directory}
        value = self.document.get("fill_value")
        mended = _fill_value(value, self.document.get("dtype", self.document.get("data_type")))
        nested = {"dimension_separator": "/"} if self._is_nested else {}
        if mended is not value or nested:
            metadata = {k: v for k, v in self.document.items() if k != "attributes"}
            spec |= {"metadata": {**metadata, "fill_value": mended, **nested}}
            spec["assume_metadata"] = True
        return spec

    @property
    def _is_nested(self) -> bool:
        """Whether a local array has chunks in folders without declaring it.

        Old releases of zarr-python wrote these; TensorStore would read fill values.
        """
        if self.version != 2 or not self.is_array or "dimension_separator" in self.document:
            return False
        if self.place.local is None or len(self.document.get("shape") or ()) < 2:
            return False
        with os.scandir(self.place.local) as entries:
            first = next((e for e in entries if e.name[0].isdecimal()), None)
        return first is not None and first.name.isdecimal() and first.is_dir()


def _fill_value(value: Any, kind: Any) -> Any:
    """Convert a fill value that zarr-python accepts to one that TensorStore accepts.

    >>> _fill_value("7", "<u2"), _fill_value(0, "bool"), _fill_value(False, "|i1"), _fill_value("nan", "<f4")
    (7, False, 0, 'NaN')
    >>> _fill_value("0x7fc00000", "float32")
    '0x7fc00000'
    """
    try:
        dtype = np.dtype(kind)
    except TypeError:
        return value
    is_number = isinstance(value, bool | int | float)
    if dtype.kind == "b" and is_number and not isinstance(value, bool) and value in (0, 1):
        return bool(value)
    if dtype.kind in "iu" and isinstance(value, bool):
        return int(value)
    if dtype.kind in "iu" and isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):
        return int(value)
    if dtype.kind != "f" or value in ("NaN", "Infinity", "-Infinity"):
        return value
    if isinstance(value, str) and not re.search("[_xX]", value):
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def find(place: Place) -> Node | None:
    """Return the zarr array or group at a place, or None."""
    meta = place.json("zarr.json")
    if meta is not None:
        attributes = meta.get("attributes") or {}
        if not isinstance(attributes, dict):
            raise ValueError(
                f"{place.text}: the attributes in its zarr.json are {attributes!r}, not an object; correct "
                "them"
            )
        _check_format(place, meta, 3)
        return Node(place, 3, meta.get("node_type") == "array", attributes, meta)
    array = place.json(".zarray")
    group = place.json(".zgroup") if array is None else None
    if array is None and group is None and place.read(".zattrs") is None:
        return None
    _check_format(place, array or group or {}, 2)
    return Node(place, 2, array is not None, place.json(".zattrs") or {}, array or {})


def _check_format(place: Place, document: Mapping[str, Any], version: int) -> None:
    """Refuse an array or group of another version of zarr than its document is for."""
    if (found := document.get("zarr_format", version)) != version:
        raise ValueError(
            f"{place.text} has zarr_format={found!r}, but only versions 2 and 3 are supported; "
            "convert it to one of them"
        )


def read_array(node: Node) -> np.ndarray:
    """Return a small array."""
    store = ts.open(node.spec, open=True, read=True, context=context()).result()
    return np.asarray(store.read().result())


@dataclass(frozen=True)
class StoredArray:
    """How an array is stored, along all of its dimensions."""

    shape: tuple[int, ...]
    dtype: np.dtype
    chunk: tuple[int, ...]
    shard: tuple[int, ...] | None
    codec: Any  #: As in `Volume.to`; the default for codecs that are not supported for writing


def stored_as(place: Place) -> StoredArray:
    node = find(place)
    if node is None or not node.is_array:
        raise OSError(f"{place.text}: there is no zarr array; check the path")
    store = ts.open(node.spec, open=True, read=True, context=context()).result()
    layout, whole = store.chunk_layout, store.shape
    read, write = layout.read_chunk.shape or whole, layout.write_chunk.shape or whole
    chunk = tuple(c or n for c, n in zip(read, whole, strict=True))
    shard = tuple(c or n for c, n in zip(write, whole, strict=True))
    found = store.codec.to_json() if store.codec is not None else {}
    return StoredArray(
        tuple(store.shape),
        store.dtype.numpy_dtype,
        chunk,
        shard if shard != chunk else None,
        _as_option(found, node.version),
    )


def _as_option(found: Mapping[str, Any], version: int) -> Any:
    """Convert a codec of TensorStore to an option of `Volume.to`."""
    if version == 2:
        one = found.get("compressor")
        name, how = (one or {}).get("id", "none"), one or {}
    else:
        steps = list(found.get("codecs", ()))
        for step in steps:
            if step.get("name") == "sharding_indexed":
                steps = list(step["configuration"].get("codecs", ()))
        left = [s for s in steps if s.get("name") not in ("bytes", "transpose", "crc32c")]
        name = left[0]["name"] if left else "none"
        how = left[0].get("configuration", {}) if left else {}
    level = how.get("clevel", how.get("level"))
    if name not in CODECS[version]:
        return "zstd"
    top = 22 if name == "zstd" else 9
    if isinstance(level, int) and 0 <= level <= top and name != "none":
        return {"name": name, "level": level}
    return name


def images_in(attributes: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the images of a group by its attributes; empty if they are damaged."""
    ome = attributes.get("ome", attributes)
    images = ome.get("multiscales") if isinstance(ome, dict) else None
    found = images if isinstance(images, list) else []
    return [image for image in found if isinstance(image, dict)]


def paths_of(image: Mapping[str, Any]) -> list[str]:
    """Return the paths of an image's levels, finest first."""
    datasets = image.get("datasets")
    found = datasets if isinstance(datasets, list) else []
    return [str(d["path"]) for d in found if isinstance(d, dict) and "path" in d]


def _name_grids(json: Documents, folders: Iterable[str]) -> list[NameGrid] | None:
    """Return the names of chunks of arrays in some folders; None if they are unknown."""
    found = []
    for folder in folders:
        check_key("an image", folder)
        document = json(f"{folder}zarr.json")
        version = 2 if document is None else 3
        document = document or json(f"{folder}.zarray")
        if document is None:
            continue
        try:
            start, separator = "", document.get("dimension_separator")
            chunk = document.get("chunks")
            if version == 3:
                encoding = document["chunk_key_encoding"]
                is_default = encoding["name"] == "default"
                usual = "/" if is_default else "."
                separator = encoding.get("configuration", {}).get("separator", usual)
                start = f"c{separator}" if is_default else ""
                chunk = document["chunk_grid"]["configuration"]["chunk_shape"]
            counts = tuple(
                -(-int(n) // int(c)) for n, c in zip(document["shape"], chunk, strict=True)
            )
        except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError):
            return None
        # Old releases of zarr-python did not declare nested folders.
        for form in "./" if separator is None else separator:
            found.append(NameGrid(folder + start, counts, form))
    return found


def is_mask(attributes: Mapping[str, Any]) -> bool:
    """Whether this package has marked an array of uint8 as bool, by its attributes."""
    ours = attributes.get(OURS)
    return isinstance(ours, dict) and ours.get("mask") is True


class Zarr(WritableFormat):
    """An array of zarr, which may be in a group."""

    title = "zarr (v2, v3)"
    name = "zarr"
    suffixes = (".zarr",)
    schemes = ("zarr", "zarr2", "zarr3")
    omits_empty = True
    channels = "apart"
    open_options: ClassVar[Options] = {"missing": MISSING, "affine": AFFINE}
    options: ClassVar[Options] = {
        "chunks": CHUNKS,
        "shards": (
            "bool, int or sequence of int",
            "Put the chunks into shard files of this shape. True chooses one: 16 slices deep, up to "
            "2,048 x 2,048, with chunks of 16 x 128 x 128. The default is True for zarr v3 with more than "
            "10 million chunks; None and False write each chunk as a file.",
        ),
        "codec": (
            "str or mapping",
            '``"zstd"`` (the default, level 1), ``"blosc"`` (lz4, shuffled), ``"gzip"`` (zarr v3), '
            '``"zlib"`` (zarr v2) or ``"none"``; with a level as ``{"name": "zstd", "level": 5}``.',
        ),
        "zarr_version": ("3 (the default) or 2", "OME-Zarr 0.4 is stored as 2, 0.5 as 3."),
    }

    def array_of(self, d: Description) -> tuple[str, ...]:
        """Return the path of the array below the output's place."""
        return ()

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        node, dataset = find(place), request.dataset
        if node is None:
            return None
        if not node.is_array:
            if dataset is None:
                raise ValueError(
                    f"{place.text} is a zarr group; choose an array by dataset=: {_contents(place)}"
                )
            below = find(place.below(dataset))
            if below is None or not below.is_array:
                raise ValueError(
                    f"dataset={dataset!r}: there is no such zarr array in {place.text}; {_contents(place)}"
                )
            node, dataset = below, None
        if dataset is not None:
            raise ValueError(f"dataset={dataset!r}: {place.text} is a single array; omit dataset=")
        if request.level is not None:
            raise ValueError(
                f"level={request.level}: {node.place.text} is a plain array; only OME-Zarr has levels"
            )
        ours = node.attributes.get(OURS)
        request = replace(request, keep=request.keep or isinstance(ours, dict))
        ours = ours if isinstance(ours, dict) else {}
        names = node.attributes.get("_ARRAY_DIMENSIONS")
        about = ArrayMetadata(
            name=node.place.text,
            axes=names if isinstance(names, list) else None,
            channels=names_in(ours.get("channels")),
            scale=ours.get("voxel_size"),
            translation=ours.get("origin"),
            unit=ours.get("unit"),
        )
        source = open_spec(node.spec, about, request)
        return source.as_mask() if is_mask(node.attributes) else source

    def layout(self, wanted: OutputRequest) -> Layout:
        name, shape, chunk = wanted.name, wanted.shape, wanted.chunk()
        known = ("zarr_version", "ome_version")
        given = {k: wanted.options[k] for k in known if k in wanted.options}
        options = self.versions(name, wanted.space, **given)
        version = options["zarr_version"]
        codec = wanted.option("codec", "zstd")
        which = codec_and_level(name, codec, f"zarr v{version}", CODECS[version])
        shards = wanted.shards(chunk, able=version == 3)
        if shards is None or shards is False:
            return Layout(chunk, None, which, options)
        if version == 2:
            raise ValueError(f"{name}: shards={shards} needs zarr v3 (OME-Zarr 0.5)")
        has_chunks = wanted.option("chunks") is not None
        chunk = wanted.chunk(lambda *_: INNER_CHUNK)
        if shards is True:
            return Layout(chunk, whole_chunks((16, 2048, 2048), chunk, shape), which, options)
        shard = wanted.per_axis("shards")
        assert shard is not None
        if not has_chunks:
            z, y, x = (
                max(d for d in range(1, min(i, w) + 1) if w % d == 0)
                for i, w in zip(INNER_CHUNK, shard, strict=True)
            )
            chunk = (z, y, x)
        if any(w % i for w, i in zip(shard, chunk, strict=True)):
            raise ValueError(
                f"{name}: shards {shard} are not whole multiples of the chunks {chunk}"
            )
        return Layout(chunk, whole_chunks(shard, chunk, shape), which, options)

    def versions(
        self, name: str, space: Space, *, zarr_version: int | None = None
    ) -> dict[str, Any]:
        """Check and return the versions of an output as options."""
        if zarr_version not in (None, 2, 3):
            raise ValueError(f"{name}: zarr_version={zarr_version!r}; use 3 or 2")
        return {"zarr_version": zarr_version or 3}

    def check(self, d: Description) -> None:
        ts.Spec(self.spec(d, d.shape))

    def identity(self, d: Description) -> Sequence[Any]:
        return (d.format, d.options.get("ome_version"), self.documents(d))

    def copies(self, d: Description) -> int:
        """Return 2, a copy and the encoded unit, or 3 with blosc's buffer."""
        return 3 if d.codec[0] == "blosc" else 2

    # documents

    def documents(self, d: Description) -> dict[str, Content]:
        ours, array = own_attributes(d), array_metadata(d, d.shape)
        if _version(d) == 3:
            return {"zarr.json": {**array, "attributes": {OURS: ours}}}
        attributes = {"_ARRAY_DIMENSIONS": list(d.space.all_axes), OURS: ours}
        return {".zattrs": attributes, ".zarray": array}

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """Return a group: until another run's chunks are cleared, there is no array."""
        attributes = {OURS: dict(noted)}
        if _version(d) == 2:
            return attributes
        return {"zarr_format": 3, "node_type": "group", "attributes": attributes}

    def noted(self, document: Mapping[str, Any]) -> Any:
        attributes = document.get("attributes", document)
        return attributes.get(OURS) if isinstance(attributes, dict) else None

    def found(self, home: Place) -> bytes | None:
        data = home.read("zarr.json")
        return home.read(".zattrs") if data is None else data

    def is_there(self, place: Place) -> bool:
        return any(
            place.read(k) is not None for k in ("zarr.json", ".zarray", ".zgroup", ".zattrs")
        )

    def owned(self, d: Description, home: Place) -> Callable[[str], bool]:
        try:
            node = find(home)
        except (OSError, ValueError):  # damaged metadata name no arrays
            node = None
        folders = [""]
        if node is not None and not node.is_array:
            # A run that was interrupted while clearing may have left chunks of any level.
            note = node.attributes.get(OURS) or {}
            is_ours = "preparing" in note or REPLACED in note
            images = images_in(node.attributes)
            folders += [f"{re.escape(path)}/" for image in images for path in paths_of(image)]
            if is_ours:
                left = (grid.prefix for grid in noted_grids(note.get(REPLACED, ())))
                folders = [
                    "",
                    r"\d+/",
                    *(re.escape(re.sub(r"c[/.]$", "", prefix)) for prefix in left),
                ]
        return owned_names(_CHUNK, _DOCUMENTS, folders)

    def name_grids(self, json: Documents) -> list[NameGrid] | None:
        document = json("zarr.json")
        attributes = json(".zattrs") if document is None else document.get("attributes")
        if (document or {}).get("node_type") == "array" or json(".zarray") is not None:
            folders = [""]
        else:
            paths = (path for image in images_in(attributes or {}) for path in paths_of(image))
            folders = [f"{path}/" for path in paths]
        return _name_grids(json, folders)

    # units

    def key(self, d: Description, cell: Triple) -> str:
        return self._root(d) + "/".join(map(str, d.stored(cell)))

    def cell(self, d: Description, key: str) -> Triple | None:
        if not key.startswith(self._root(d)):
            return None
        parts = key.removeprefix(self._root(d)).split("/")
        axes = d.space.visible
        if len(parts) != len(axes) or not all(p.isdigit() for p in parts):
            return None
        at = dict(zip(axes, map(int, parts), strict=True))
        return (at.get(0, 0), at.get(1, 0), at.get(2, 0))

    def layer(self, d: Description, z: int) -> str:
        return self._root(d) + (f"{z}/" if 0 in d.space.visible else "")

    def row(self, d: Description, cell: Triple) -> str:
        return f"{self.key(d, cell).rpartition('/')[0]}/"

    def _root(self, d: Description) -> str:
        """Return the common prefix of the names of units, also of a part."""
        array = self.array_of(d)
        parts = (*array, "c") if _version(d) == 3 else array
        return "".join(f"{part}/" for part in (*parts, *(d.at or ())))

    def spec(self, d: Description, shape: Triple) -> dict[str, Any]:
        """Return TensorStore's spec of the array with a given shape, without reading anything."""
        spec: dict[str, Any] = {
            "driver": "zarr3" if _version(d) == 3 else "zarr",
            "kvstore": join(d.kvstore, *self.array_of(d), directory=True),
            "metadata": array_metadata(d, shape),
        }
        if d.scratch:
            spec |= {"fill_missing_data_reads": False, "store_data_equal_to_fill_value": True}
        return spec

    def open_units(self, d: Description) -> ts.TensorStore:
        """Open the array with assumed metadata of the volume rounded up to whole units.

        So the far edges can be written without reading. The assumed metadata are never stored.
        """
        store = open_to_write(self.spec(d, d.whole_units()), d.name)
        shown = tuple(slice(None) if a in d.space.axes else ts.newaxis for a in AXES)
        return store[(slice(None),) * len(d.leading) + shown]

    def read_back(self, d: Description) -> Source:
        space, n = d.space, len(d.leading)
        about = ArrayMetadata(
            name=d.name,
            axes=space.all_axes,
            channels=space.channels,
            scale=None if space.voxel_size is None else d.stored(space.voxel_size, (1.0,) * n),
            translation=d.stored(space.origin, (0.0,) * n),
            unit=space.unit,
        )
        # The spec of a part has an extent of 1 along axes of other points.
        return open_spec(self.spec(d, d.shape), about, WHOLE if d.at else request_of(d))


FORMATS = (Zarr(),)


def own_attributes(d: Description, leading: bool = True) -> dict[str, Any]:
    """Return this package's attributes of an output, optionally with values for leading axes."""
    space, n = d.space, len(d.leading) if leading else 0
    ours: dict[str, Any] = {"run": ""}
    if space.voxel_size is not None:
        ours["voxel_size"] = d.stored(space.voxel_size, (1.0,) * n)
    if any(space.origin):
        ours["origin"] = d.stored(space.origin, (0.0,) * n)
    if space.unit is not None:
        ours["unit"] = space.unit
    if space.channels:
        ours["channels"] = list(space.channels)
    if d.mask:
        ours["mask"] = True
    return ours


def names_in(found: Any) -> Sequence[str]:
    """Return the names of channels, if valid, else none."""
    return found if isinstance(found, list) and all(isinstance(n, str) for n in found) else ()


def _contents(place: Place) -> str:
    return contents_text(place, found_below(place, _is_array, 2, 1000)[0])


def contents_text(place: Place, arrays: Sequence[str]) -> str:
    """Describe the contents of a local group."""
    if place.local is None:
        return "its arrays are not listed for a remote group"
    return f"it contains {', '.join(arrays[:20]) or 'no arrays'}"


def _is_array(place: Place) -> bool:
    try:
        node = find(place)
    except (OSError, ValueError):  # damaged
        return True
    return node is not None and node.is_array


def found_below(
    place: Place, look: Callable[[Place], bool | None], deep: int, at_most: int
) -> tuple[list[str], bool]:
    """Return folders below a local place that ``look`` accepts, and whether all were inspected.

    Folders for which it is False are searched, up to the depth ``deep``, and not if it is None.
    """
    if place.local is None:
        return [], False
    found: list[str] = []
    folders, looked = [""], 0
    for _ in range(deep):
        below: list[str] = []
        for folder in folders:
            with os.scandir(os.path.join(place.local, folder)) as entries:
                names = [e.name for e in entries if e.is_dir() and e.name[0] != "."]
            below += [os.path.join(folder, name) for name in sorted(names, key=natural_key)]
        folders = []
        for name in below:
            looked += 1
            if looked > at_most:
                return found, False
            is_meant = look(place.below(name))
            if is_meant:
                found.append(name)
            elif is_meant is not None:
                folders.append(name)
    return sorted(found, key=natural_key), True


# writing metadata


def _version(d: Description) -> int:
    version: int = d.options["zarr_version"]
    return version


def array_metadata(d: Description, shape: Triple) -> dict[str, Any]:
    """Return the metadata document of an array with a given shape."""
    return _metadata2(d, shape) if _version(d) == 2 else _metadata3(d, shape)


def _metadata2(d: Description, shape: Triple) -> dict[str, Any]:
    name, level = d.codec
    compressor: dict[str, Any] | None = {"id": name, "level": level}
    if name == "none":
        compressor = None
    elif name == "blosc":
        compressor = {"id": "blosc", "cname": "lz4", "clevel": level, "shuffle": 1, "blocksize": 0}
    return {
        "zarr_format": 2,
        "shape": d.stored(shape, d.leading),
        "chunks": d.stored(d.chunk, d.leading_unit),
        "dtype": d.dtype.newbyteorder("<").str,
        "compressor": compressor,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": "/",
    }


def _metadata3(d: Description, shape: Triple) -> dict[str, Any]:
    name, level = d.codec
    codecs: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if d.dtype.itemsize == 1:
        codecs = [{"name": "bytes"}]
    if name == "blosc":
        blosc = {
            "cname": "lz4",
            "clevel": level,
            "shuffle": "shuffle" if d.dtype.itemsize > 1 else "noshuffle",
            "typesize": d.dtype.itemsize,
            "blocksize": 0,
        }
        codecs.append({"name": "blosc", "configuration": blosc})
    elif name == "zstd":
        codecs.append({"name": "zstd", "configuration": {"level": level, "checksum": False}})
    elif name != "none":
        codecs.append({"name": name, "configuration": {"level": level}})
    if d.shard is not None:
        sharding = {
            "chunk_shape": d.stored(d.chunk, d.leading_unit),
            "codecs": codecs,
            "index_codecs": [
                {"name": "bytes", "configuration": {"endian": "little"}},
                {"name": "crc32c"},
            ],
            "index_location": "end",
        }
        codecs = [{"name": "sharding_indexed", "configuration": sharding}]
    unit = d.stored(d.unit, d.leading_unit)
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": d.stored(shape, d.leading),
        "data_type": d.dtype.name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": unit}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0 if d.dtype.kind in "ui" else 0.0,
        "codecs": codecs,
        "dimension_names": list(d.space.all_axes),
    }
