"""OME-Zarr images: 0.4 and earlier on zarr v2, 0.5 and 0.6 on zarr v3; and zarr in zip files."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.chunked.ome_metadata import (
    axes_of,
    channels_metadata,
    check_version,
    grid_of,
    image_metadata,
    steps_of,
)
from beam_volumes.storage.formats.chunked.tensorstore_spec import MISSING, ArrayMetadata, open_spec
from beam_volumes.storage.formats.chunked.zarr import (
    OURS,
    Node,
    Zarr,
    array_metadata,
    find,
    found_below,
    images_in,
    is_mask,
    paths_of,
)
from beam_volumes.storage.formats.format import (
    PROVENANCE,
    WHOLE,
    Content,
    Format,
    Listing,
    OpenRequest,
    Options,
    level_among,
)
from beam_volumes.storage.formats.metadata import Foreign
from beam_volumes.storage.places.claims import Document, changed
from beam_volumes.storage.places.outside import check_key
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.axes import AFFINE
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.pyramid import OPTIONS as PYRAMID
from beam_volumes.storage.sources.source import Source

#: The zarr version of each OME-Zarr version.
VERSIONS = {"0.4": 2, "0.5": 3}
#: Maximal number of names in messages.
SHOWN = 10
#: Depth of the search for arrays in a group, and the maximal number of folders.
_DEEP, _LOOKED_AT = 4, 10_000
_GROUP = "a zarr group"


class OmeZarr(Zarr):
    """A zarr group with one image: its levels are the arrays ``"0"``, ``"1"`` and so on."""

    title = "OME-Zarr"
    name = "ome-zarr"
    suffixes = (".ome.zarr",)
    options: ClassVar[Options] = {
        **Zarr.options,
        **PYRAMID,
        "ome_version": ('``"0.5"`` (the default) or ``"0.4"``', "The version of OME-Zarr."),
    }
    open_options: ClassVar[Options] = {
        "missing": MISSING,
        "affine": AFFINE,
        "well": ("str", 'The well of a plate, e.g. ``"B/3"``.'),
        "field": ("int or str", "The image of a well, a number from 0 or a name."),
    }

    def array_of(self, d: Description) -> tuple[str, ...]:
        return (str(d.level or 0),)

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        node = find(place)
        if node is None or node.is_array:
            return None
        metadata = Foreign(
            place.text, "OME metadata", "correct them, or open one of its arrays by its own path"
        )
        ome = node.attributes.get("ome")
        ome = metadata.mapping(node.attributes if ome is None else ome, "ome")
        images = [
            metadata.mapping(m, f"multiscales[{k}]")
            for k, m in enumerate(metadata.list(ome.get("multiscales"), "multiscales"))
        ]
        check_version(metadata, ome if "ome" in node.attributes else None, *images)
        check_version(metadata, *(ome.get(k) for k in ("plate", "well", "image-label")))
        for k, found in enumerate(images):
            if str(ome.get("version")).startswith("0.6") and "coordinateSystems" not in found:
                raise metadata.error(f"multiscales[{k}].coordinateSystems", "missing")
        below = _below(place, ome, bool(images), metadata, request)
        if below is not None:
            return self.open_place(*below)
        if not images:
            return None
        image, dataset = _image_of(images, request.dataset, place)
        levels, paths = ([], []) if image is None else _checked_levels(image, place, metadata)
        if dataset is not None and dataset not in paths:
            return self.open_place(place.below(dataset), _plain(request))
        assert image is not None
        level = request.level
        if dataset is not None:
            if level is not None:
                raise ValueError(
                    f"dataset={dataset!r} and level={level} both choose a level; give one of them"
                )
            level = paths.index(dataset)
        level = level_among(level, len(paths), place.text)
        array = find(place.below(paths[level]))
        if array is None or not array.is_array:
            raise OSError(
                f"{place.text} has no zarr array for level {paths[level]!r} of its metadata; restore it"
            )
        axes, units = axes_of(image, metadata)
        affine = request.option("affine")
        is_own = isinstance(node.attributes.get(OURS), dict)
        request = replace(request, keep=request.keep or is_own)
        scale, translation = grid_of(levels[level], image, metadata, affine)
        about = ArrayMetadata(
            name=place.text if level == 0 else array.place.text,
            axes=axes,
            channels=_channels(ome, metadata),
            scale=scale,
            translation=translation,
            units=units,
        )
        source = replace(open_spec(array.spec, about, request), labels="image-label" in ome)
        return source.as_mask() if is_mask(array.attributes) else source

    def levels(self, place: Place) -> Sequence[str]:
        node = find(place)
        return [] if node is None else _levels(node)

    def listing(self, place: Place, dataset: str | None = None) -> Listing | None:
        """List the levels of an image, or the arrays and images of another group."""
        at = place if dataset is None else place.below(dataset)
        if dataset is not None and (whole := find(place)) is not None:
            images = images_in(whole.attributes)
            if len(images) > 1 and dataset in (names := _names(images)):
                return Listing(levels=tuple(paths_of(images[names.index(dataset)])))
        node = find(at)
        if node is None or node.is_array:
            return None
        levels = _levels(node)
        if levels:
            return Listing(levels=tuple(levels))
        if names := _names(images_in(node.attributes)):
            return Listing(tuple(names), is_volume=False, what="a zarr group of several images")
        try:
            return None if self.open_place(at) is not None else _inside(at)
        except (ValueError, OSError):  # several images
            return _inside(at)

    def members(self, place: Place) -> Sequence[str]:
        """Return the fields of a plate or well, or the series of bioformats2raw."""
        node = find(place)
        if node is None or node.is_array:
            return ()
        metadata = Foreign(place.text, "OME metadata")
        ome = metadata.mapping(node.attributes.get("ome", node.attributes), "ome")
        if "plate" in ome:
            wells = _paths(ome["plate"], "plate", "wells", metadata)
            # A missing well is a volume that fails.
            below = {well: self.members(place.below(well)) for well in wells}
            return [f"{well}/{f}" if f else well for well in wells for f in below[well] or ("",)]
        if "well" in ome:
            return _paths(ome["well"], "well", "images", metadata)
        if "bioformats2raw.layout" in ome and not ome.get("multiscales"):
            return _series(place, metadata)
        return ()

    def versions(
        self,
        name: str,
        space: Space,
        *,
        ome_version: str | None = None,
        zarr_version: int | None = None,
    ) -> dict[str, Any]:
        if ome_version is not None and ome_version not in VERSIONS:
            raise ValueError(
                f"{name}: ome_version={ome_version!r}; use one of {', '.join(VERSIONS)}"
            )
        ome = ome_version or "0.5"
        version = VERSIONS[ome]
        if zarr_version not in (None, version):
            raise ValueError(
                f"{name}: OME-Zarr {ome} is stored as zarr v{version}, not v{zarr_version}; "
                f"choose ome_version={'0.4' if zarr_version == 2 else '0.5'!r}"
            )
        if len(space.axes) < 2:
            raise ValueError(
                f"{name}: OME-Zarr needs 2 or 3 axes, not {space.axes}; write plain .zarr"
            )
        return {"zarr_version": version, "ome_version": ome}

    def provenance_key(self, d: Description) -> str:
        """Return a name next to the chunks: in a group it would look like a damaged member."""
        return f"0/{PROVENANCE}"

    def add_voxel_metadata(self, d: Description, document: dict[str, Any]) -> bool:
        """Add windows of intensities, from percentiles of the coarsest level; labels have none."""
        if d.pyramid is None or d.labels or d.mask:
            return False
        attributes = document.get("attributes", document)
        about = attributes.get("ome", attributes)
        coarsest = self.read_back(d.of_level(len(d.pyramid.levels) - 1)).reader.open()
        omero = {"channels": channels_metadata(d, coarsest)}
        if about.get("omero") == omero:
            return False
        about["omero"] = omero
        return True

    def documents(self, d: Description) -> dict[str, Content]:
        attributes = {**image_metadata(d), OURS: {"run": ""}}
        mask = {OURS: {"mask": True}}
        is_v3 = d.options["zarr_version"] == 3
        found: dict[str, Content] = {".zattrs": attributes, ".zgroup": {"zarr_format": 2}}
        if is_v3:
            found = {
                "zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attributes}
            }
        for k, level in enumerate(d.every_level):
            array = array_metadata(level, level.shape)
            if is_v3:
                found[f"{k}/zarr.json"] = {**array, "attributes": mask} if d.mask else array
                continue
            found[f"{k}/.zarray"] = array
            if d.mask:
                found[f"{k}/.zattrs"] = mask
        return found


def image_to_move(
    place: Place, axes: Sequence[str], size: np.ndarray, origin: np.ndarray
) -> Callable[[], None]:
    """Return a function that sets the position of an image's first voxel, if it can be stored; repeatable."""
    # The position along ``axes`` is in the unit of the voxel size. The translations of all levels are changed
    # by the same amount.
    node = find(place)
    if node is None or node.is_array or len(images_in(node.attributes)) != 1:
        raise ValueError(f"{place.text} is not one OME-Zarr image; only these store positions")
    metadata = Foreign(place.text, "OME metadata")

    def move(document: dict[str, Any]) -> bool:
        attributes = document.get("attributes", document)
        image = attributes.get("ome", attributes)["multiscales"][0]
        levels, paths = _checked_levels(image, place, metadata)
        names = [str(a).lower() for a in axes_of(image, metadata)[0] or AXES]
        at = [names.index(a) for a in axes]
        scale, begin = (
            np.array(g or [0.0] * len(names)) for g in grid_of(levels[0], image, metadata)
        )
        if not np.allclose(scale[at], size):
            raise ValueError(
                f"{place.text} has axes with several units; rewrite it by convert to store a position"
            )
        by = np.zeros(len(names))
        by[at] = origin - begin[at]
        outer, _ = grid_of({}, image, metadata)
        own = {key: value for key, value in image.items() if key != "coordinateTransformations"}
        for level, path in zip(levels, paths, strict=True):
            by_level, begins = grid_of(level, own, metadata)
            shift = np.array(begins or [0.0] * len(names)) + by / (outer or 1)
            steps = steps_of(path, image, by_level or [1.0] * len(names), shift.tolist())
            level["coordinateTransformations"] = steps  # type: ignore[index]
        return True

    def copied(document: dict[str, Any]) -> bool:
        document["metadata"][".zattrs"] = place.json(".zattrs")
        return True

    def write() -> None:
        changed(Document(place.directory, "zarr.json" if node.version == 3 else ".zattrs"), move)
        if node.version != 3 and place.read(".zmetadata") is not None:
            changed(Document(place.directory, ".zmetadata"), copied)

    move(copy.deepcopy(dict(node.attributes)))  # for its errors
    return write


def _plain(request: OpenRequest, **options: Any) -> OpenRequest:
    """Return the request for a place below, without the parts that were resolved."""
    own = {k: v for k, v in request.options.items() if k not in ("well", "field")}
    return replace(request, dataset=None, options={**own, **options})


def _below(
    place: Place, ome: Mapping[str, Any], has_images: bool, metadata: Foreign, request: OpenRequest
) -> tuple[Place, OpenRequest] | None:
    """Return the requested place below a plate, a well or a collection; None for an image."""
    dataset, well, field = request.dataset, request.option("well"), request.option("field")
    if dataset is None and "plate" in ome:
        below = _well(place, metadata.mapping(ome["plate"], "plate"), metadata, well)
        return below, _plain(request, **({} if field is None else {"field": field}))
    if well is not None:
        raise ValueError(f"well={well!r}: {place.text} is not a plate; omit well=")
    if dataset is None and "well" in ome:
        below = _field(place, metadata.mapping(ome["well"], "well"), metadata, field)
        return below, _plain(request)
    if field is not None:
        raise ValueError(f"field={field!r}: {place.text} is not a well; omit field=")
    if has_images:
        return None
    if dataset is None and "bioformats2raw.layout" in ome:
        dataset = _only_series(place, metadata)
    if dataset is None and isinstance(ome.get("labels"), list):
        names = ", ".join(repr(n) for n in ome["labels"][:SHOWN])
        raise ValueError(
            f"{place.text} contains labels; choose one by dataset=: there are {names or 'none'}"
        )
    return None if dataset is None else (place.below(dataset), _plain(request))


def _checked_levels(
    image: Mapping[str, Any], place: Place, metadata: Foreign
) -> tuple[list[Mapping[str, Any]], list[str]]:
    levels = [
        metadata.mapping(d, f"datasets[{k}]")
        for k, d in enumerate(metadata.list(image.get("datasets"), "datasets"))
    ]
    paths = [metadata.text(d.get("path"), f"datasets[{k}].path") for k, d in enumerate(levels)]
    if not paths:
        raise metadata.error("datasets", "empty")
    for path in paths:
        check_key(place.text, path)
    return levels, paths


def _channels(ome: Mapping[str, Any], metadata: Foreign) -> list[str]:
    omero = metadata.mapping(ome.get("omero") or {}, "omero")
    return [
        str(metadata.mapping(c, f"omero.channels[{k}]").get("label", k))
        for k, c in enumerate(metadata.list(omero.get("channels"), "omero.channels"))
    ]


def _names(images: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of several images of a group, or numbers for missing or repeated names."""
    names = [str(image.get("name") or "") for image in images]
    return [n if n and names.count(n) == 1 else str(k) for k, n in enumerate(names)]


def _image_of(
    images: Sequence[Mapping[str, Any]], dataset: str | None, place: Place
) -> tuple[Mapping[str, Any] | None, str | None]:
    """Return the selected image of a group, or None, and the rest of ``dataset``."""
    if len(images) == 1:
        return images[0], dataset
    names = _names(images)
    if dataset is None:
        raise ValueError(
            f"{place.text} has {len(images)} images; choose one by dataset=, e.g. dataset={names[0]!r}: "
            f"there are {_some(names)}"
        )
    for known, image in zip(names, images, strict=True):
        if dataset == known:
            return image, None
    with_it = [image for image in images if dataset in paths_of(image)]
    if with_it:
        return with_it[0], dataset
    if dataset.isdecimal() and int(dataset) < len(images):
        return images[int(dataset)], None
    if find(place.below(dataset)) is None:
        raise ValueError(
            f"dataset={dataset!r}: {place.text} has no such image; there are {_some(names)}"
        )
    return None, dataset


def _levels(node: Node) -> list[str]:
    """Return the paths of the levels of a group's only image; empty without one."""
    images = images_in(node.attributes)
    return paths_of(images[0]) if len(images) == 1 else []


def _inside(place: Place) -> Listing:
    """List the arrays and images below a local group: fields of a plate, labels of an image."""

    def look(below: Place) -> bool | None:
        inside = find(below)
        return None if inside is None else inside.is_array or bool(images_in(inside.attributes))

    found, is_all = found_below(place, look, _DEEP, _LOOKED_AT)
    return Listing(tuple(found), is_volume=False, is_all=is_all, what=_GROUP)


def _well(
    plate_place: Place, plate: Mapping[str, Any], metadata: Foreign, well: str | None
) -> Place:
    paths = _paths(plate, "plate", "wells", metadata)
    about = f"{plate_place.text} is a plate of {len(paths)} wells ({_some(paths)})"
    if well is None:
        raise ValueError(f"{about}; choose one by well={paths[0] if paths else 'B/3'!r}")
    for path in paths:
        if str(well) in (path, path.replace("/", "")):
            return plate_place.below(path)
    raise ValueError(f"well={well!r}: there is no such well; {about}")


def _field(
    well_place: Place, well: Mapping[str, Any], metadata: Foreign, field: int | str | None
) -> Place:
    """Return the requested image of a well; it may be omitted if there is only one."""
    paths = _paths(well, "well", "images", metadata)
    about = f"{well_place.text} is a well with {len(paths)} fields ({_some(paths)})"
    if field is None and len(paths) == 1:
        return well_place.below(paths[0])
    if field is None:
        raise ValueError(f"{about}; choose one by field=0")
    if isinstance(field, str):
        if field in paths:
            return well_place.below(field)
    elif 0 <= field < len(paths):
        return well_place.below(paths[field])
    raise ValueError(f"field={field!r}: there is no such field; {about}")


def _paths(of: Any, what: str, key: str, metadata: Foreign) -> list[str]:
    """Return the paths of the wells of a plate, or of the images of a well."""
    entries = metadata.list(metadata.mapping(of, what).get(key), f"{what}.{key}")
    found = [
        metadata.text(
            metadata.mapping(e, f"{what}.{key}[{k}]").get("path"), f"{what}.{key}[{k}].path"
        )
        for k, e in enumerate(entries)
    ]
    for path in found:
        check_key(metadata.name, path)
    return found


def _series(place: Place, metadata: Foreign) -> list[str]:
    """Return the images of a bioformats2raw group."""
    listing = find(place.below("OME"))
    listed = None if listing is None else listing.attributes.get("ome", listing.attributes)
    if isinstance(listed, dict) and "series" in listed:
        found = metadata.list(listed["series"], "series")
        names = [metadata.text(n, f"series[{k}]") for k, n in enumerate(found)]
        for name in names:
            check_key(place.text, name)
        return names
    there = itertools.takewhile(
        lambda name: find(place.below(name)) is not None, map(str, itertools.count())
    )
    return list(there)


def _only_series(place: Place, metadata: Foreign) -> str:
    """Return the only image of a bioformats2raw group; several require a choice."""
    names = _series(place, metadata)
    if len(names) == 1:
        return names[0]
    raise ValueError(
        f"{place.text} has several images; choose one by dataset=, e.g. dataset='0': there are "
        f"{_some(names)}"
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "") or "none"


_ZIPS = (".zip", ".ozx")
#: Magics of zip files, with files and empty.
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
#: The formats of their folders.
_IN_ZIPS = (OmeZarr(), Zarr())


class ZippedZarr(Format):
    """A zarr array or group in a zip file, opened as by `OmeZarr` and `Zarr`."""

    title = "zarr in a zip file"
    schemes = ("zip",)
    open_options: ClassVar[Options] = {**OmeZarr.open_options, **Zarr.open_options}

    def open_place(self, place: Place, request: OpenRequest = WHOLE) -> Source | None:
        root = _root(place)
        if root is None:
            return None
        for format in _IN_ZIPS:
            source = format.open_place(root, request.of_format(format))
            if source is not None:
                return source
        raise ValueError(f"{place.text} is a zip file without zarr metadata; {_zip_contents(root)}")

    def levels(self, place: Place) -> list[str]:
        root = _root(place)
        return [] if root is None else list(OmeZarr().levels(root))


def _root(place: Place) -> Place | None:
    """Return the root or the only folder of a zip file that is a zarr node, or None."""
    if not str(place.spec.get("path", "")).rstrip("/").lower().endswith(_ZIPS):
        return None
    if place.local is not None:
        if not os.path.isfile(place.local):
            return None
        with open(place.local, "rb") as file:
            if file.read(4) not in _ZIP_MAGIC:
                raise OSError(
                    f"{place.text} is damaged: it has no header of a zip file; restore it"
                )
    base = {**place.spec, "path": str(place.spec["path"]).rstrip("/")}
    root = Place({"driver": "zip", "base": base, "path": ""}).remembering()
    if find(root) is not None:
        return root
    folders = {name.partition("/")[0] for name in root.names() if "/" in name}
    if len(folders) == 1 and find(below := root.below(*folders)) is not None:
        return below
    return root


def _zip_contents(root: Place) -> str:
    names = root.names()
    shown = ", ".join(printable(n) for n in names[:5])
    return f"it contains {shown}{', ...' if len(names) > 5 else ''}" if names else "it is empty"


FORMATS = (OmeZarr(), ZippedZarr())
