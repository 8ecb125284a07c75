"""N5: arrays, and groups of arrays that are levels of one image (``s0``, ``s1``, ...)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.repacked import Varlength, is_varlength
from beam_volumes.storage.formats.chunked.tensorstore_spec import (
    MISSING,
    ArrayMetadata,
    SpecReader,
    open_spec,
    open_to_write,
)
from beam_volumes.storage.formats.chunked.zarr import (
    OURS,
    contents_text,
    found_below,
    is_mask,
    names_in,
    own_attributes,
)
from beam_volumes.storage.formats.format import (
    CHUNKS,
    WHOLE,
    Content,
    Layout,
    Listing,
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
from beam_volumes.storage.places.names import NameGrid
from beam_volumes.storage.places.ownership import Documents
from beam_volumes.storage.places.place import Place, join
from beam_volumes.storage.places.positioned import first_bytes
from beam_volumes.storage.sources.axes import AFFINE, letters_of_axes
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.source import DTYPES, Source

ATTRIBUTES = "attributes.json"
#: Codecs with their default levels.
CODECS: dict[str, int | None] = {
    "none": None,
    "gzip": 5,
    "zstd": 1,
    "blosc": 5,
    "bzip2": 9,
    "xz": 6,
}
#: Major versions that are read; they differ in the API, not in the stored arrays.
VERSIONS = ("1", "2", "3", "4")
#: Default axes, the fastest first.
DIMENSIONS = {2: "xy", 3: "xyz", 4: "xyzc", 5: "xyzct"}
#: Maximal number of levels.
MAX_LEVELS = 64
#: Depth of the search for arrays in a group, and the maximal number of folders.
DEEP, LOOKED_AT = 5, 2000
#: Blocks that are inspected to find their kind.
_LOOKED_AT = 16


class N5(WritableFormat):
    """An array of N5, or a level of a group of arrays."""

    title = "N5"
    name = "n5"
    suffixes = (".n5",)
    schemes = ("n5",)
    dtypes = tuple(t for t in DTYPES if t.kind != "b" and t != np.float16)
    omits_empty = True
    channels = "apart"
    open_options: ClassVar[Options] = {"missing": MISSING, "affine": AFFINE}
    options: ClassVar[Options] = {
        "chunks": CHUNKS,
        "codec": (
            "str or mapping",
            '``"gzip"`` (the default, level 5; all readers know it), ``"zstd"``, ``"blosc"`` '
            '(lz4, shuffled), ``"bzip2"``, ``"xz"`` or ``"none"``; with a level as '
            '``{"name": "gzip", "level": 1}``.',
        ),
    }

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        root, dataset, level = place.json(ATTRIBUTES), request.dataset, request.level
        if root is None and (dataset is None or place.below(dataset).json(ATTRIBUTES) is None):
            return None
        found: Mapping[str, Any] = root or {}
        _check_version(place, found)
        if dataset is not None:
            if "dimensions" in found:
                raise ValueError(
                    f"dataset={dataset!r}: {place.text} is a single array; omit dataset="
                )
            inside = place.below(dataset).json(ATTRIBUTES)
            if inside is None:
                raise ValueError(
                    f"dataset={dataset!r} does not exist in {place.text}; {_contents(place)}"
                )
            place, found = place.below(dataset), inside
            _check_version(place, found)
        if "dimensions" in found:
            if level is not None:
                raise ValueError(
                    f"level={level}: {place.text} is one array; open the group of its levels"
                )
            return _array(place, found, {}, 0, place.text, request)
        levels = list(_levels(place))
        if not levels:
            if root is not None and dataset is None and "n5" not in root:
                return None
            raise ValueError(
                f"{place.text} is an N5 group; choose an array by dataset=: {_contents(place)}"
            )
        k = level_among(level, len(levels), place.text)
        below = place.below(f"s{k}")
        return _array(below, levels[k], found, k, place.text if k == 0 else below.text, request)

    def levels(self, place: Place) -> Sequence[str]:
        return [f"s{k}" for k, _ in enumerate(_levels(place))]

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        at = place if dataset is None else place.below(dataset)
        attributes = at.json(ATTRIBUTES)
        if attributes is None or "dimensions" in attributes:
            return None
        levels = self.levels(at)
        if levels:
            return Listing(levels=tuple(levels))
        if dataset is None and "n5" not in attributes:
            return None
        found, is_all = _arrays(at)
        return Listing(tuple(found), is_volume=False, is_all=is_all, what="an N5 group")

    # writing

    def layout(self, wanted: OutputRequest) -> Layout:
        codec = codec_and_level(wanted.name, wanted.option("codec", "gzip"), "N5", CODECS)
        return Layout(wanted.chunk(), None, codec)

    def documents(self, d: Description) -> dict[str, Content]:
        metadata = self._metadata(d, d.shape)
        # TensorStore and Neuroglancer read axes, units and resolution; n5-viewer reads
        # pixelResolution; followers of COSEM read transform.
        pixel = {"unit": d.space.unit or "pixel", "dimensions": metadata["resolution"]}
        transform = {
            "axes": metadata["axes"][::-1],
            "scale": metadata["resolution"][::-1],
            "translate": d.stored(d.space.origin, (0.0,) * len(d.leading)),
            "units": metadata["units"][::-1],
        }
        ours = own_attributes(d, leading=False)
        metadata |= {"pixelResolution": pixel, "transform": transform, OURS: ours}
        return {ATTRIBUTES: {"n5": "2.0.0", **metadata}}

    def note(self, d: Description, noted: Mapping[str, Any]) -> Content:
        """Return a group: until another run's chunks are cleared, there is no array."""
        return {"n5": "2.0.0", OURS: dict(noted)}

    def noted(self, document: Mapping[str, Any]) -> Any:
        return document.get(OURS)

    def found(self, home: Place) -> bytes | None:
        return home.read(ATTRIBUTES)

    def is_there(self, place: Place) -> bool:
        return place.read(ATTRIBUTES) is not None

    def owned(self, d: Description, home: Place) -> Callable[[str], bool]:
        return owned_names(r"\d+(?:/\d+)*", (ATTRIBUTES,), ("",))

    def name_grids(self, json: Documents) -> list[NameGrid] | None:
        found = json(ATTRIBUTES) or {}
        if "dimensions" not in found:
            return []
        try:
            axes = zip(found["dimensions"], found["blockSize"], strict=True)
            return [NameGrid("", tuple(-(-int(n) // int(block)) for n, block in axes), "/")]
        except (ValueError, KeyError, TypeError, ZeroDivisionError):
            return None

    def key(self, d: Description, cell: Triple) -> str:
        return "/".join(str(c) for c in reversed(d.stored(cell, d.at or ())))

    def row(self, d: Description, cell: Triple) -> str:
        """Return the common prefix of the units along the last stored axis that is in the name."""
        return f"{self.key(d, cell).rpartition('/')[0]}/" if len(d.space.visible) > 1 else ""

    def cell(self, d: Description, key: str) -> Triple | None:
        parts = key.split("/")[::-1]
        axes, leading = d.space.visible, list(map(str, d.at or ()))
        if len(parts) != len(leading) + len(axes) or not all(p.isdigit() for p in parts):
            return None
        if parts[: len(leading)] != leading:
            return None
        at = dict(zip(axes, map(int, parts[len(leading) :]), strict=True))
        return (at.get(0, 0), at.get(1, 0), at.get(2, 0))

    def open_units(self, d: Description) -> ts.TensorStore:
        """Open the array with assumed metadata of the volume rounded up to whole units."""
        store = open_to_write(self._spec(d, d.whole_units()), d.name).T
        shown = tuple(slice(None) if a in d.space.axes else ts.newaxis for a in AXES)
        return store[(slice(None),) * len(d.leading) + shown]

    def read_back(self, d: Description) -> Source:
        about = ArrayMetadata(name=d.name, axes=d.space.all_axes[::-1], channels=d.space.channels)
        return replace(open_spec(self._spec(d, d.shape), about, request_of(d)), space=d.space)

    def _spec(self, d: Description, shape: Triple) -> dict[str, Any]:
        return {
            "driver": "n5",
            "kvstore": join(d.kvstore, directory=True),
            "metadata": self._metadata(d, shape),
        }

    def _metadata(self, d: Description, shape: Triple) -> dict[str, Any]:
        """Return the metadata that TensorStore knows, for a given shape."""
        name, level = d.codec
        compression: dict[str, Any] = {"type": "raw" if name == "none" else name}
        if name == "blosc":
            compression |= {"cname": "lz4", "clevel": level, "shuffle": 1, "blocksize": 0}
        elif name in ("bzip2", "xz"):
            compression["blockSize" if name == "bzip2" else "preset"] = level
        elif name != "none":
            compression["level"] = level
        space, n = d.space, len(d.leading)
        unit = space.unit or ""
        return {
            "dimensions": d.stored(shape, d.leading)[::-1],
            "blockSize": d.stored(d.chunk, d.leading_unit)[::-1],
            "dataType": d.dtype.name,
            "compression": compression,
            "axes": list(space.all_axes[::-1]),
            "units": d.stored((unit,) * 3, ("",) * n)[::-1],
            "resolution": d.stored(space.voxel_size or (1.0, 1.0, 1.0), (1.0,) * n)[::-1],
        }


FORMATS = (N5(),)


# reading


def _check_version(place: Place, attributes: Mapping[str, Any]) -> None:
    """Refuse a container of an unknown major version."""
    version = str(attributes.get("n5", "1"))
    if version.partition(".")[0] not in VERSIONS:
        raise ValueError(
            f"{place.text} is N5 {printable(version)[:20]}, but only versions {VERSIONS[0]} to "
            f"{VERSIONS[-1]} are supported; convert it to one of them"
        )


def _array(
    place: Place,
    own: Mapping[str, Any],
    group: Mapping[str, Any],
    level: int,
    name: str,
    request: OpenRequest,
) -> Source:
    """Open an array by its attributes and its group's."""
    foreign = Foreign(place.text, "N5 attributes")
    dimensions = foreign.list(own.get("dimensions"), "dimensions")
    rank = len(dimensions)
    axes = _axes(own, group, rank)
    scale, translation, units = _grid(own, group, level, axes, foreign)
    if own.get("isLabelMultiset") is True:
        raise ValueError(
            f"{place.text} has a list of labels in each voxel (isLabelMultiset), which is not supported; "
            "convert it to scalar labels, e.g. by paintera-convert to-scalar"
        )
    spec: dict[str, Any] = {"driver": "n5", "kvstore": place.directory}
    if "compression" not in own and isinstance(own.get("compressionType"), str):
        # Metadata of the first version of N5.
        metadata = {k: own[k] for k in ("dimensions", "blockSize", "dataType", "axes") if k in own}
        metadata["compression"] = {"type": own["compressionType"]}
        spec |= {"metadata": metadata, "assume_metadata": True}
    ours = own.get(OURS)
    request = replace(request, keep=request.keep or isinstance(ours, dict))
    about = ArrayMetadata(
        name=name,
        axes=axes,
        channels=names_in(ours.get("channels")) if isinstance(ours, dict) else (),
        scale=scale,
        translation=translation,
        units=units,
    )
    source = open_spec(spec, about, request)
    if isinstance(source.reader, SpecReader) and any(map(is_varlength, _some_blocks(place, rank))):
        is_strict = request.option("missing") == "error"
        source = replace(source, reader=Varlength(source.reader, name, is_strict))
    return source.as_mask() if is_mask(own) else source


def _some_blocks(place: Place, rank: int) -> list[bytes]:
    """The first bytes of some stored blocks: local ones of one folder, or the first remote one."""
    if place.local is None:
        return [place.read("/".join("0" * rank)) or b""]
    found = [place.local]
    for _ in range(rank):
        with os.scandir(found[0]) as entries:
            found = [e.path for e in islice((e for e in entries if e.name.isdecimal()), _LOOKED_AT)]
        if not found or not os.path.isdir(found[0]):
            break
    return [first_bytes(path, 4) for path in found]


def _axes(own: Mapping[str, Any], group: Mapping[str, Any], rank: int) -> Sequence[str] | None:
    """Return the names of the dimensions, the fastest first."""
    for attributes in (own, group):
        found = attributes.get("axes")
        if isinstance(found, list) and all(isinstance(a, str) for a in found):
            letters = letters_of_axes(found, rank)
            if letters is not None:
                return letters
    return DIMENSIONS.get(rank)


def _grid(
    own: Mapping[str, Any],
    group: Mapping[str, Any],
    level: int,
    axes: Sequence[str] | None,
    foreign: Foreign,
) -> tuple[Sequence[float] | None, Sequence[float] | None, Sequence[Any] | None]:
    """Return voxel size, position of the first voxel and unit per dimension, as far as known."""
    # A level's own voxel size is its size, unless it has factors: then it is the size of the finest level,
    # like the group's. A voxel of a coarser level is centred on the voxels it was made of.
    if axes is None:
        return None, None, None
    rank = len(axes)
    ours = own.get(OURS)
    if isinstance(ours, dict) and "run" in ours and "transform" in own:
        # This package's note distinguishes a size of 1 from an unknown one.
        unknown = "voxel_size" not in ours
        unit = ours.get("unit")
    else:
        unknown, unit = False, None
    units: Sequence[Any] | None
    transform = own.get("transform")
    if isinstance(transform, dict) and isinstance(transform.get("axes"), list):
        scale, translation, found = _transform(transform, axes, foreign)
        if unknown:
            scale = None
        return scale, translation, [unit] * rank if unit else found
    factors = own.get("downsamplingFactors")
    if factors is None and group:
        factors = group.get("scales", group.get("downsamplingFactors"))
        factors = factors[level] if isinstance(factors, list) and level < len(factors) else None
        if level == 0 and factors is None:
            factors = [1] * rank
    known = None if factors is None else foreign.numbers(factors, "downsamplingFactors", None)
    if known is not None and (len(known) > rank or not all(f > 0 for f in known)):
        raise foreign.error("downsamplingFactors", f"{factors!r}, not {rank} numbers above 0")
    size, units, is_own = None, None, False
    for attributes in (own, group):
        if size is None:
            size, units = _resolution(attributes, rank, foreign)
            is_own = attributes is own
    if size is None:
        return None, None, None
    if known is None:
        return (size, None, units) if is_own else (None, None, None)
    by = [*known, *[1.0] * (rank - len(known))]
    shift = [s * (f - 1) / 2 for s, f in zip(size, by, strict=True)]
    return [s * f for s, f in zip(size, by, strict=True)], shift, units


def _transform(
    transform: Mapping[str, Any], axes: Sequence[str], foreign: Foreign
) -> tuple[list[float] | None, list[float] | None, list[Any]]:
    """Return scale, translation and units of ``transform``, with lists in the order of its axes."""
    names = [str(a).lower() for a in transform["axes"]]

    def per_axis(what: str, default: float) -> list[float] | None:
        if transform.get(what) is None:
            return None
        numbers = foreign.numbers(transform[what], f"transform.{what}", len(names))
        by_name = dict(zip(names, numbers, strict=True))
        return [by_name.get(a, default) for a in axes]

    units = foreign.list(transform.get("units"), "transform.units")
    of = {n: u for n, u in zip(names, units, strict=False) if n in AXES}
    return per_axis("scale", 1.0), per_axis("translate", 0.0), [of.get(a) for a in axes]


def _resolution(
    attributes: Mapping[str, Any], rank: int, foreign: Foreign
) -> tuple[list[float] | None, list[Any] | None]:
    """Return the voxel size and units in the attributes of an array or group."""
    what, units = "resolution", attributes.get("units")
    found: Any = attributes.get("resolution")
    if found is None:
        what, found = "pixelResolution", attributes.get("pixelResolution")
        if isinstance(found, dict):
            found, units = found.get("dimensions"), found.get("unit")
    if found is None:
        return None, None
    numbers = list(foreign.numbers(found, what, None))
    # Spatial axes come first; channels and time may be missing.
    if len(numbers) > rank or (len(numbers) < min(rank, 3)) or not all(n > 0 for n in numbers):
        raise foreign.error(what, f"{found!r}, not {rank} numbers above 0")
    several = units if isinstance(units, list) and len(units) > 1 else None
    if several is None:
        several = [units[0] if isinstance(units, list) and units else units] * rank
    more = [None] * (rank - len(several))
    return [*numbers, *[1.0] * (rank - len(numbers))], [*several, *more][:rank]


def _levels(place: Place) -> Iterator[Mapping[str, Any]]:
    """Yield the attributes of the arrays ``s0``, ``s1`` and so on of a group."""
    for k in range(MAX_LEVELS):
        attributes = place.below(f"s{k}").json(ATTRIBUTES)
        if attributes is None or "dimensions" not in attributes:
            return
        yield attributes


def _contents(place: Place) -> str:
    return contents_text(place, _arrays(place)[0])


def _arrays(place: Place) -> tuple[list[str], bool]:
    """Return the arrays below a local group, and whether all were found."""
    return found_below(place, lambda p: "dimensions" in (p.json(ATTRIBUTES) or ()), DEEP, LOOKED_AT)
