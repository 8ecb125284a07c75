"""Neuroglancer's precomputed volumes, with chunks in separate files or in shards."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import Space
from beam_volumes.storage.formats.chunked.precomputed_shards import Shards, shard_layouts
from beam_volumes.storage.formats.chunked.repacked import Unpacked
from beam_volumes.storage.formats.chunked.tensorstore_spec import (
    MISSING,
    ArrayMetadata,
    open_spec,
    open_to_write,
)
from beam_volumes.storage.formats.chunked.zarr import OURS, is_mask, names_in
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
    level_among,
    owned_names,
    request_of,
)
from beam_volumes.storage.formats.metadata import Foreign
from beam_volumes.storage.places.names import NameGrid, noted_grids
from beam_volumes.storage.places.outside import check_key
from beam_volumes.storage.places.ownership import REPLACED, Documents
from beam_volumes.storage.places.place import Place, join
from beam_volumes.storage.sources.chunking import no_larger
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.pyramid import OPTIONS as PYRAMID
from beam_volumes.storage.sources.pyramid import Pyramid, middle_of
from beam_volumes.storage.sources.source import Source

#: Names of chunks and of shards.
_CHUNK = r"-?\d+--?\d+(?:_-?\d+--?\d+)*(?:\.gz)?|[0-9a-f]+\.shard"
INFO = "info"
VOLUME = "neuroglancer_multiscale_volume"
#: Encodings that TensorStore decodes.
ENCODINGS = ("raw", "jpeg", "png", "compressed_segmentation")
#: Codecs with their default levels.
CODECS: dict[str, int | None] = {
    "none": None,
    "jpeg": 90,
    "png": 6,
    "compressed_segmentation": None,
}
DTYPES = tuple(np.dtype(t) for t in ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "f4"))
#: The dtypes of codecs that do not support all.
CODEC_DTYPES = {
    "jpeg": ("uint8",),
    "png": ("uint8", "uint16"),
    "compressed_segmentation": ("uint32", "uint64"),
}
TYPES = ("image", "segmentation")
#: Edge of the default chunk, and its minimal size if the volume is thin.
EDGE, CHUNK_BYTES = 64, 256 << 10
#: Maximal size of the shards that ``shards=True`` chooses.
SHARD_BYTES = 64 << 20


class Precomputed(WritableFormat):
    """A scale of a precomputed volume; outputs without levels have one scale."""

    title = "neuroglancer precomputed"
    name = "precomputed"
    suffixes = (".precomputed",)
    schemes = ("precomputed", "neuroglancer-precomputed")
    dtypes = DTYPES
    omits_empty = True
    clips_units = True
    channels = "together"
    open_options: ClassVar[Options] = {"missing": MISSING}
    options: ClassVar[Options] = {
        "chunks": (CHUNKS[0], "One number, or one for each axis; by default 64."),
        "shards": (
            "bool, int or sequence of int",
            "Put the chunks into shard files of this shape; True chooses one of 64 MiB at most. Only some "
            "shapes are possible: the shape of a chunk, doubled along x, then y, then z, and so on. "
            "The default is True with more than 10 million chunks; None and False write each chunk as "
            "a file.",
        ),
        "codec": (
            "str or mapping",
            '``"none"``, ``"png"`` (8 and 16 bits), ``"jpeg"`` (8 bits; loses detail) or '
            '``"compressed_segmentation"`` (32 and 64 bits; the default of segmentations that it supports). '
            "Shards are also compressed by gzip. With a level as "
            '``{"name": "jpeg", "level": 75}``.',
        ),
        "type": (
            '``"image"`` or ``"segmentation"``',
            "How viewers show it; by default as a segmentation for uint32 and uint64.",
        ),
        **PYRAMID,
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        info = _info(place)
        if info is None:
            return None
        foreign = Foreign(place.text, "info")
        scales = [foreign.mapping(s, f"scales[{k}]") for k, s in enumerate(info["scales"])]
        if not scales:
            raise foreign.error("scales", "empty")
        keys = [foreign.text(s.get("key"), f"scales[{k}].key") for k, s in enumerate(scales)]
        for key in keys:
            check_key(place.text, key)
        k = _which_scale(keys, place, request)
        name = place.text if k == 0 else place.below(keys[k]).text
        is_strict = request.option("missing") == "error"
        is_packed = _check(scales[k], place, keys[k], is_strict, name)
        sizes = _sizes(scales[: k + 1], foreign)
        ours = info.get(OURS)
        ours = ours if isinstance(ours, dict) else {}
        if ours.get("axes") == ["y", "x"]:
            request = replace(request, index={"z": 0, **(request.index or {})})
        made = ours.get("pyramid")
        middle = middle_of(str(made.get("method")) if isinstance(made, dict) else "")
        about = ArrayMetadata(
            name=name,
            axes=("x", "y", "z", "c"),
            channels=names_in(ours.get("channels")),
            scale=[*sizes[k], 1.0],
            # A voxel of a coarser scale is centred on the voxels it was made of.
            translation=[*(middle * (b - a) for a, b in zip(sizes[0], sizes[k], strict=True)), 0.0],
            unit="nanometer",
        )
        spec = {"driver": "neuroglancer_precomputed", "kvstore": place.directory, "scale_index": k}
        source = open_spec(spec, about, request)
        if is_packed:
            unpacked = Unpacked(source.reader, name, is_strict)  # type: ignore[arg-type]
            source = replace(source, reader=unpacked)
        source = replace(source, labels=info.get("type") == "segmentation")
        if k > 0:
            return source
        source = replace(source, space=_exact(source.space, ours))
        return source.as_mask() if is_mask(info) else source

    def levels(self, place: Place) -> Sequence[str]:
        info = _info(place) or {}
        return [str(s.get("key")) for s in info.get("scales", ()) if isinstance(s, dict)]

    # writing

    def layout(self, wanted: OutputRequest) -> Layout:
        name, dtype, kind = wanted.name, wanted.dtype, wanted.option("type")
        codec = wanted.option("codec")
        which_type = kind or ("segmentation" if dtype.name in ("uint32", "uint64") else "image")
        if which_type not in TYPES:
            raise ValueError(f"{name}: type={kind!r}; use one of {', '.join(TYPES)}")
        if which_type == "segmentation" and dtype.kind == "f":
            raise ValueError(
                f"{name}: type={kind!r} needs integers, not {dtype}; convert by astype()"
            )
        if codec is None:
            fits = (
                which_type == "segmentation"
                and dtype.name in CODEC_DTYPES["compressed_segmentation"]
            )
            codec = "compressed_segmentation" if fits else "none"
        codec = {"raw": "none"}.get(codec, codec) if isinstance(codec, str) else codec
        which = codec_and_level(name, codec, "precomputed", CODECS)
        supported = CODEC_DTYPES.get(which[0])
        if supported is not None and dtype.name not in supported:
            raise ValueError(
                f"{name}: codec={which[0]!r} supports {' and '.join(supported)}, not {dtype}; choose another "
                "codec, or convert by astype()"
            )
        chunk = wanted.chunk(default_chunk)
        return Layout(chunk, _shard(wanted, chunk), which, {"type": which_type})

    def holds_labels(self, d: Description) -> bool:
        return d.labels or d.options["type"] == "segmentation"

    def level_chunks(self, d: Description, shape: Triple) -> tuple[Triple, Triple | None]:
        chunk = no_larger(d.chunk, shape)
        if d.shard is None:
            return chunk, None
        possible = [s.shape for s in shard_layouts(shape, chunk)]
        limit = max(math.prod(d.shard), math.prod(chunk))
        return chunk, [s for s in possible if math.prod(s) <= limit][-1]

    def loses(self, d: Description) -> bool:
        return d.codec[0] == "jpeg"

    def check(self, d: Description) -> None:
        if "t" in d.space.leading:
            raise ValueError(
                f"{d.name}: precomputed has no time, but the volume has {d.leading[0]} time points; "
                "select one by v[0], or write .zarr or .ome.zarr"
            )
        counts = {"jpeg": (1, 3), "png": (1, 2, 3, 4)}.get(d.codec[0])
        if counts is not None and d.samples not in counts:
            raise ValueError(
                f"{d.name}: codec={d.codec[0]!r} supports {' or '.join(map(str, counts))} channels, not "
                f"{d.samples}; choose another codec"
            )

    def copies(self, d: Description) -> int:
        return 2 if d.shard is None else 4

    def documents(self, d: Description) -> dict[str, Content]:
        space = d.space
        ours: dict[str, Any] = {
            "run": "",
            "axes": list(space.axes),
            "voxel_size": None if space.voxel_size is None else list(space.voxel_size),
            "origin": list(space.origin),
            "unit": space.unit,
        }
        if space.channels:
            ours["channels"] = list(space.channels)
        if d.mask:
            ours["mask"] = True
        if d.pyramid is not None:
            ours["pyramid"] = method_metadata(d.pyramid)
        info = {
            "@type": VOLUME,
            "type": d.options["type"],
            "data_type": d.dtype.name,
            "num_channels": d.samples,
            "scales": [_scale(level) for level in d.every_level],
            OURS: ours,
        }
        return {INFO: info}

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """Return no scales: until another run's chunks are cleared, there is no volume."""
        return {"@type": VOLUME, OURS: dict(noted)}

    def noted(self, document: Mapping[str, Any]) -> Any:
        return document.get(OURS)

    def found(self, home: Place) -> bytes | None:
        return home.read(INFO)

    def is_there(self, place: Place) -> bool:
        try:
            info = place.json(INFO)
        except OSError:
            return False
        return info is not None and (info.get("@type") == VOLUME or "scales" in info)

    def owned(self, d: Description, home: Place) -> Callable[[str], bool]:
        try:
            info = home.json(INFO) or {}
        except OSError:
            info = {}
        keys = [scale["key"] for scale in _scales(info)]
        noted = (info.get(OURS) or {}).get(REPLACED, ())
        keys += [grid.prefix.strip("/") for grid in noted_grids(noted)]
        # A run that was interrupted while clearing may have left chunks of any scale. An added
        # level is a volume in the folder of its scale.
        folders = [re.escape(key) for key in keys] or [r"[\d.e+-]+_[\d.e+-]+_[\d.e+-]+"]
        return owned_names(_CHUNK, (INFO,), ["", *(f"(?:{f}/){{1,2}}" for f in folders)])

    def name_grids(self, json: Documents) -> list[NameGrid] | None:
        found = _name_grids(json(INFO) or {})
        for scale in _scales(json(INFO) or {}):
            # An added level is a volume in the folder of its scale.
            folder = f"{scale['key']}/"
            check_key("a scale", folder)
            added = _name_grids(json(folder + INFO) or {}, folder)
            found = None if found is None or added is None else found + added
        return found

    def replaces_units(self, d: Description) -> bool:
        """Whether writing a unit replaces its object: a shard of zeros is not written or deleted."""
        return d.shard is None

    # units

    def key(self, d: Description, cell: Triple) -> str:
        root = f"{scale_key(d)}/"
        if d.shard is not None:
            return root + _shards(d).name(cell)
        box = d.grid.box(d.grid.index(cell))
        offset = _voxel_offset(d.space)
        spans = (f"{a + o}-{b + o}" for a, b, o in zip(box.start, box.stop, offset, strict=True))
        return root + "_".join(reversed(list(spans)))

    def cell(self, d: Description, key: str) -> Triple | None:
        root = f"{scale_key(d)}/"
        if not key.startswith(root):
            return None
        name = key.removeprefix(root)
        if d.shard is not None:
            return _shards(d).cell(name)
        offset = _voxel_offset(d.space)
        try:
            starts = [int(span.rpartition("-")[0]) for span in name.split("_")][::-1]
            z, y, x = ((s - o) // u for s, o, u in zip(starts, offset, d.unit, strict=True))
        except ValueError:
            return None
        inside = all(0 <= c < n for c, n in zip((z, y, x), d.grid.counts, strict=True))
        return (z, y, x) if inside and self.key(d, (z, y, x)) == key else None

    def layer(self, d: Description, z: int) -> str:
        return f"{scale_key(d)}/"

    def row(self, d: Description, cell: Triple) -> str:
        key = self.key(d, cell)
        if d.shard is not None:  # named by hexadecimal numbers
            root = self.layer(d, cell[0])
            return root + key.removeprefix(root).removesuffix(".shard")[:-3]
        return f"{key.rpartition('_')[0]}_"

    def open_units(self, d: Description) -> ts.TensorStore:
        view = open_to_write(self._spec(d), d.name).T
        view = view if d.leading else view[0]
        return view[ts.d[:].translate_to[(0,) * view.rank]]

    def read_back(self, d: Description) -> Source:
        index: dict[str, int | str] = {a: 0 for a in "z" if a not in d.space.axes}
        if not d.leading:
            index["c"] = 0
        about = ArrayMetadata(name=d.name, axes=("x", "y", "z", "c"), channels=d.space.channels)
        source = open_spec(self._spec(d), about, request_of(d, index))
        return replace(source, space=d.space, labels=d.options["type"] == "segmentation")

    def _spec(self, d: Description) -> dict[str, Any]:
        return {
            "driver": "neuroglancer_precomputed",
            "kvstore": join(d.kvstore, directory=True),
            "scale_index": d.level or 0,
            "multiscale_metadata": {
                "type": d.options["type"],
                "data_type": d.dtype.name,
                "num_channels": d.samples,
            },
            "scale_metadata": _for_tensorstore(_scale(d)),
        }


FORMATS = (Precomputed(),)


# reading


def _scales(info: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the scales of an existing output that have a key."""
    found = info.get("scales")
    scales = [s for s in found if isinstance(s, dict)] if isinstance(found, list) else []
    return [s for s in scales if isinstance(s.get("key"), str)]


def _name_grids(info: Mapping[str, Any], folder: str = "") -> list[NameGrid] | None:
    """Return the names of chunks of all scales; None if they are unknown."""
    found = []
    try:
        for scale in _scales(info):
            prefix, sharding = f"{folder}{scale['key']}/", scale.get("sharding")
            if sharding is not None:
                found.append(NameGrid(prefix, (1 << int(sharding["shard_bits"]),), "x"))
                continue
            start = tuple(map(int, scale.get("voxel_offset", (0, 0, 0))))
            size = tuple(map(int, scale["size"]))
            for chunk in scale["chunk_sizes"]:
                step = tuple(map(int, chunk))
                counts = tuple(-(-n // c) for n, c in zip(size, step, strict=True))
                stop = tuple(a + n for a, n in zip(start, size, strict=True))
                found.append(NameGrid(prefix, counts, "-", step, start, stop))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None
    return found


def _info(place: Place) -> Mapping[str, Any] | None:
    """Return the ``info`` of a volume; None if the place is of another format."""
    try:
        info = place.json(INFO)
    except OSError:  # a file with this name may have any content
        return None
    if info is None:
        return None
    kind = info.get("@type")
    if isinstance(kind, str) and kind.startswith("neuroglancer_") and kind != VOLUME:
        what = kind.removeprefix("neuroglancer_").replace("_", " ")
        raise ValueError(
            f"{place.text} contains {what} of Neuroglancer, not voxels; open the folder of a volume"
        )
    if kind not in (None, VOLUME) and "scales" in info:
        raise ValueError(
            f"{place.text}: its info has the unknown @type {kind!r}; convert it to {VOLUME!r}"
        )
    if not isinstance(info.get("scales"), list):
        if kind != VOLUME:
            return None
        noted = "its run has not started to write it" if OURS in info else "correct it"
        raise ValueError(f"{place.text}: its info has no scales; {noted}")
    return info


def _which_scale(keys: Sequence[str], place: Place, request: OpenRequest) -> int:
    dataset, level = request.dataset, request.level
    if dataset is not None:
        if dataset not in keys:
            raise ValueError(f"dataset={dataset!r}: {place.text} has the scales {', '.join(keys)}")
        if level is not None:
            raise ValueError(
                f"dataset={dataset!r} and level={level} both choose a scale; give one of them"
            )
        level = keys.index(dataset)
    return level_among(level, len(keys), place.text)


def _sizes(scales: Sequence[Mapping[str, Any]], foreign: Foreign) -> list[Sequence[float]]:
    """Return the voxel sizes of scales, as x, y, z."""
    sizes = []
    for i, scale in enumerate(scales):
        size = foreign.numbers(scale.get("resolution"), f"scales[{i}].resolution", 3)
        if not min(size) > 0:
            raise foreign.error(f"scales[{i}].resolution", f"{list(size)}, not 3 numbers above 0")
        sizes.append(size)
    return sizes


def _check(scale: Mapping[str, Any], place: Place, key: str, is_strict: bool, name: str) -> bool:
    """Refuse unsupported encodings; return whether chunks are gzipped files.

    cloud-volume writes these on a disk, where TensorStore would not find them.
    """
    encoding = scale.get("encoding")
    if isinstance(encoding, str) and encoding not in ENCODINGS:
        raise ValueError(
            f"{name} has chunks encoded as {encoding!r}; the supported encodings are "
            f"{', '.join(ENCODINGS)}: convert it with cloud-volume or igneous"
        )
    if scale.get("sharding") is not None:
        if is_strict:
            raise ValueError(
                f"missing='error': {name} is sharded, and missing chunks of shards are always read as the "
                "fill value; omit missing="
            )
        return False
    folder = None if place.local is None else os.path.join(place.local, key)
    if folder is None or not os.path.isdir(folder):
        return False
    with os.scandir(folder) as entries:
        names = [entry.name for entry in itertools.islice(entries, 100)]
    for suffix, tool in ((".br", "brotli -d --rm"), (".zstd", "zstd -d --rm"), (".xz", "unxz")):
        if any(n.endswith(suffix) for n in names):
            raise ValueError(
                f"{name} has chunks in compressed files ({suffix}), which are not supported; unpack them "
                f"first: {tool} {folder}/*{suffix}"
            )
    return any(n.endswith(".gz") for n in names)


def _exact(space: Space, ours: Mapping[str, Any]) -> Space:
    """Return the noted space with its own unit and origin, if it agrees with the document."""
    size, origin, unit = ours.get("voxel_size"), ours.get("origin"), ours.get("unit")
    try:
        noted = replace(
            space,
            voxel_size=None if size is None else _triple(size),
            unit=unit,
            origin=_triple(origin),
        )
        offset = _triple(_voxel_offset(noted))
        resolution = _resolution(noted)
    except (TypeError, ValueError, KeyError, OverflowError):
        return space
    assert space.voxel_size is not None
    found = [o / s for o, s in zip(space.origin, space.voxel_size, strict=True)]
    same = np.allclose(resolution, space.voxel_size, rtol=1e-9, atol=0) and np.allclose(
        offset, found, rtol=1e-9, atol=1e-6
    )
    return noted if same else space


def _triple(values: Any) -> tuple[float, float, float]:
    z, y, x = (float(v) for v in values)
    return (z, y, x)


# writing


def default_chunk(shape: Triple, itemsize: int) -> Triple:
    """Return cubes of 64 voxels, enlarged for thin volumes until they have 256 KiB.

    >>> default_chunk((1000, 1000, 1000), 1), default_chunk((1, 5000, 5000), 1)
    ((64, 64, 64), (1, 512, 512))
    """
    chunk = [max(1, min(EDGE, n)) for n in shape]
    while math.prod(chunk) * itemsize < CHUNK_BYTES:
        able = [a for a in (2, 1, 0) if chunk[a] < shape[a]]
        if not able:
            break
        axis = min(able, key=lambda a: chunk[a])
        chunk[axis] = min(2 * chunk[axis], shape[axis])
    z, y, x = chunk
    return (z, y, x)


def _shard(wanted: OutputRequest, chunk: Triple) -> Triple | None:
    """Return the requested shard, or the largest one up to the limit; None without shards."""
    shards, shape = wanted.shards(chunk), wanted.shape
    if shards is None or shards is False:
        return None
    possible = [s.shape for s in shard_layouts(shape, chunk)]
    if shards is True:
        small = [s for s in possible if math.prod(s) * wanted.dtype.itemsize <= SHARD_BYTES]
        return small[-1] if small else possible[0]
    asked = wanted.per_axis("shards")
    assert asked is not None
    whole = [-(-n // c) * c for n, c in zip(shape, chunk, strict=True)]
    z, y, x = (min(w, n) for w, n in zip(asked, whole, strict=True))
    if (z, y, x) not in possible:
        visible = wanted.space.visible
        shown = ", ".join("x".join(str(s[a]) for a in visible) for s in possible)
        raise ValueError(
            f"{wanted.name}: shards={shards!r} is not possible for chunks of "
            f"{'x'.join(str(chunk[a]) for a in visible)}; use one of {shown}"
        )
    return (z, y, x)


def _resolution(space: Space) -> tuple[float, float, float]:
    """Return the voxel size in nanometers, 1 if unknown."""
    z, y, x = (float(f"{v:.12g}") for v in space.in_unit("nanometer").voxel_size or (1.0,) * 3)
    return (z, y, x)


def _voxel_offset(space: Space) -> Triple:
    """Return the origin rounded to whole voxels."""
    size = space.voxel_size or (1.0, 1.0, 1.0)
    z, y, x = (math.floor(o / s + 0.5 + 1e-9) for o, s in zip(space.origin, size, strict=True))
    return (z, y, x)


def method_metadata(pyramid: Pyramid) -> dict[str, Any]:
    """Describe how levels were made, for the ``info``."""
    return {"method": pyramid.method, "factors": [list(by) for by in pyramid.factors]}


def scale_key(d: Description) -> str:
    """Return the name of a scale: its resolution."""
    return "_".join(f"{r:.12g}" for r in reversed(_resolution(d.space)))


def _scale(d: Description) -> dict[str, Any]:
    name, level = d.codec
    scale: dict[str, Any] = {
        "key": scale_key(d),
        "size": list(d.shape[::-1]),
        "resolution": list(_resolution(d.space)[::-1]),
        "voxel_offset": list(_voxel_offset(d.space)[::-1]),
        "chunk_sizes": [list(d.chunk[::-1])],
        "encoding": "raw" if name == "none" else name,
    }
    if name == "jpeg":
        scale["jpeg_quality"] = level
    elif name == "png":
        scale["png_level"] = level
    elif name == "compressed_segmentation":
        scale["compressed_segmentation_block_size"] = [8, 8, 8]
    if d.shard is not None:
        scale["sharding"] = _shards(d).metadata(is_packed=name in ("jpeg", "png"))
    return scale


def _for_tensorstore(scale: Mapping[str, Any]) -> dict[str, Any]:
    known = {k: v for k, v in scale.items() if k != "chunk_sizes"}
    return {**known, "chunk_size": scale["chunk_sizes"][0]}


def _shards(d: Description) -> Shards:
    return next(s for s in shard_layouts(d.shape, d.chunk) if s.shape == d.shard)
