"""Levels that are added to a volume of one size: their locations and the updated metadata.

Each level is an output below the volume: a zarr array or a precomputed volume. The volume's
metadata are changed once, by a conditional write, when all levels exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES, LEADING, Space
from beam_volumes.base.text import counted
from beam_volumes.storage.formats.chunked import ome, ome_metadata, precomputed, zarr
from beam_volumes.storage.formats.format import WritableFormat
from beam_volumes.storage.formats.metadata import Foreign
from beam_volumes.storage.inputs.opening import asked_at, open_source
from beam_volumes.storage.outputs.sink import Sink, make_sink
from beam_volumes.storage.places.claims import Document, changed
from beam_volumes.storage.places.place import Place
from beam_volumes.storage.sources.pyramid import Level, Pyramid
from beam_volumes.storage.sources.source import Source


class HasLevels(ValueError):
    """A volume already has levels."""


@dataclass(frozen=True)
class Added:
    """The levels to add to a volume."""

    name: str  #: The volume's place
    format: str  #: The name of its format
    source: Source  #: The volume itself
    pyramid: Pyramid  #: The level of the volume first
    sinks: tuple[Sink, ...]  #: The outputs of the coarser levels
    paths: tuple[str, ...]  #: The paths of all levels in the volume's metadata

    def register(self) -> None:
        """List the levels in the volume's metadata. It can be repeated."""
        place, _ = asked_at(self.name)
        if self.format == "precomputed":
            changed(Document(place.directory, precomputed.INFO), self._in_info)
            return
        is_3 = zarr.find(place).version == 3  # type: ignore[union-attr]
        changed(Document(place.directory, "zarr.json" if is_3 else ".zattrs"), self._in_attributes)
        if not is_3 and place.read(".zmetadata") is not None:
            changed(Document(place.directory, ".zmetadata"), self._consolidated)

    def _check(self, listed: Sequence[str]) -> bool:
        """Whether these levels are already listed."""
        if tuple(listed) == self.paths:
            return True
        if len(listed) > 1:
            raise _has_levels(self.name, listed)
        return False

    # OME-Zarr

    def _in_attributes(self, document: dict[str, Any]) -> bool:
        """Add the levels to a group's document; False if they are listed already."""
        attributes = document.get("attributes", document)
        about = attributes.get("ome", attributes)
        image = about["multiscales"][0]
        if self._check([d["path"] for d in image["datasets"]]):
            return False
        axes = self.sinks[0].space.all_axes if self.sinks else ()
        for k, path in enumerate(self.paths[1:], 1):
            level = ome_metadata.level_transformations(image, path, self.pyramid, k, axes)
            image["datasets"].append({"path": path, "coordinateTransformations": level})
        labels = self.source.labels or self.source.dtype.kind == "b"
        if self.sinks and not labels and "omero" not in about:
            last = self.sinks[-1]
            finest = replace(last, space=self.pyramid.levels[0].space)
            about["omero"] = {"channels": ome_metadata.channels_metadata(finest, last.read_all())}
        image |= ome_metadata.method_metadata(self.pyramid, [a for a in axes if a in LEADING])
        known = document.get("consolidated_metadata")
        if isinstance(known, dict) and isinstance(known.get("metadata"), dict):
            for sink, path in zip(self.sinks, self.paths[1:], strict=True):
                known["metadata"][path] = sink.documents_there()["zarr.json"]
        return True

    def _consolidated(self, document: dict[str, Any]) -> bool:
        """Add the levels to the consolidated metadata of zarr v2."""
        known = document["metadata"]
        known[".zattrs"] = asked_at(self.name)[0].json(".zattrs")
        for sink, path in zip(self.sinks, self.paths[1:], strict=True):
            for key, content in sink.documents_there().items():
                known[f"{path}/{key}"] = content
        return True

    # precomputed

    def _in_info(self, info: dict[str, Any]) -> bool:
        if self._check([s["key"] for s in info["scales"]]):
            return False
        for sink, path in zip(self.sinks, self.paths[1:], strict=True):
            (scale,) = sink.documents_there()[precomputed.INFO]["scales"]
            info["scales"].append({**scale, "key": path})
        info.setdefault(zarr.OURS, {})["pyramid"] = precomputed.method_metadata(self.pyramid)
        return True


def added(
    path: str | os.PathLike[str],
    levels: str | int = "auto",
    method: str | None = None,
    factors: Any = None,
) -> Added:
    """Describe the levels to add to a volume; nothing is created.

    Raises `ValueError` for a format without levels, an unsupported layout, or an invalid option.
    """
    place, formats = asked_at(os.fspath(path))
    for volume_format in formats:
        if isinstance(volume_format, ome.OmeZarr | precomputed.Precomputed):
            found = volume_format.open_place(place)
            if found is not None:
                break
    else:
        raise ValueError(
            f"{place.text} is neither OME-Zarr nor precomputed; other formats have no levels: "
            "write one of these by convert, with levels"
        )
    asked = {"levels": levels, "method": method, "factors": factors}
    make = _of_ome if volume_format.name == "ome-zarr" else _of_precomputed
    source = open_source(os.fspath(path))
    result = make(volume_format, place, source, asked)
    if not result.sinks:
        raise ValueError(
            f"{place.text}: levels={levels!r} adds none: "
            + (
                "it has 256 voxels or less along each axis; give a number of levels"
                if levels == "auto"
                else "the volume itself is one; give 2 or more, or 'auto'"
            )
        )
    return result


def _has_levels(name: str, listed: Sequence[str]) -> HasLevels:
    shown = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
    return HasLevels(
        f"{name} already has {counted(len(listed), 'level')} ({shown}), and levels are only added to a "
        "volume without any; rewrite it by convert, with levels"
    )


def _of_ome(
    volume_format: WritableFormat, place: Place, source: Source, asked: Mapping[str, Any]
) -> Added:
    node = zarr.find(place)
    assert node is not None
    about = node.attributes.get("ome", node.attributes)
    foreign = Foreign(place.text, "OME metadata")
    images = foreign.list(about.get("multiscales"), "multiscales")
    if len(images) != 1:
        raise ValueError(f"{place.text} is a group of several images; give the path of one of them")
    image = foreign.mapping(images[0], "multiscales[0]")
    datasets = [
        foreign.mapping(d, "datasets") for d in foreign.list(image.get("datasets"), "datasets")
    ]
    listed = [foreign.text(d.get("path"), "datasets.path") for d in datasets]
    if len(listed) > 1:
        raise _has_levels(place.text, listed)
    array = place.below(listed[0])
    stored = zarr.stored_as(array)
    axes, _ = ome_metadata.axes_of(image, foreign)
    names = tuple(str(a).lower() for a in axes or AXES[-len(stored.shape) :])
    order = tuple(a for a in (*LEADING, *AXES) if a in names)
    if names != order or len(names) != len(stored.shape):
        raise ValueError(
            f"{place.text} has the axes {', '.join(names)}, and levels are written as t, c, z, y, x; "
            "rewrite it by convert, with levels"
        )
    if stored.dtype != (np.dtype("u1") if source.dtype.kind == "b" else source.dtype):
        raise ValueError(
            f"{place.text} is stored as {stored.dtype}, and its levels would be uint8; "
            "rewrite it by convert, with levels"
        )
    leading = tuple(n for a, n in zip(names, stored.shape, strict=True) if a in LEADING)
    space = replace(
        source.space,
        leading=tuple(a for a in names if a in LEADING),
        times=leading[0] if "t" in names else 0,
    )
    how = {
        "chunks": [stored.chunk[k] for k, a in enumerate(names) if a in AXES],
        "shards": None
        if stored.shard is None
        else [stored.shard[k] for k, a in enumerate(names) if a in AXES],
        "codec": stored.codec,
    }
    version = {2: "0.4", 3: "0.5"}[node.version]
    first = _first(
        volume_format, place, source, space, leading, {**how, **asked, "ome_version": version}
    )
    pyramid = first.pyramid or Pyramid(first.name, "mean", ())
    root = listed[0].removesuffix("0") if listed[0].endswith("0") else ""
    paths = [listed[0], *(f"{root}{k}" for k in range(1, len(pyramid.levels)))]
    how = {"codec": stored.codec, "zarr_version": node.version}
    sinks = [
        _level(place.below(path), level, source, leading, "zarr", how)
        for level, path in zip(pyramid.levels[1:], paths[1:], strict=True)
    ]
    return Added(place.text, volume_format.name, source, pyramid, tuple(sinks), tuple(paths))


def _of_precomputed(
    volume_format: WritableFormat, place: Place, source: Source, asked: Mapping[str, Any]
) -> Added:
    info = place.json(precomputed.INFO) or {}
    scales = info["scales"]
    if len(scales) > 1:
        raise _has_levels(place.text, [str(s.get("key")) for s in scales])
    scale = scales[0]
    space, leading = source.space, source.leading
    chunk = scale["chunk_sizes"][0][::-1]
    encoding = scale["encoding"]
    level = scale.get("jpeg_quality" if encoding == "jpeg" else "png_level")
    codec: Any = "none" if encoding == "raw" else encoding
    if isinstance(level, int) and encoding in ("jpeg", "png"):
        codec = {"name": encoding, "level": level}
    how = {
        "chunks": [chunk[a] for a in space.visible],
        "shards": True if scale.get("sharding") is not None else None,
        "codec": codec,
        "type": info.get("type"),
    }
    first = _first(volume_format, place, source, space, leading, {**how, **asked})
    pyramid = first.pyramid or Pyramid(first.name, "mean", ())
    paths, sinks = [str(scale["key"])], []
    for k, one in enumerate(pyramid.levels[1:], 1):
        key = precomputed.scale_key(first.of_level(k))
        own = {"codec": codec, "type": info.get("type")}
        sinks.append(_level(place.below(key), one, source, leading, "precomputed", own))
        # A level is a separate volume with one scale.
        paths.append(f"{key}/{key}")
    return Added(place.text, volume_format.name, source, pyramid, tuple(sinks), tuple(paths))


def _level(
    place: Place,
    level: Level,
    source: Source,
    leading: Sequence[int],
    format: str,
    how: Mapping[str, Any],
) -> Sink:
    sink = make_sink(
        place.spec,
        shape=level.shape,
        dtype=source.dtype,
        space=level.space,
        leading=leading,
        format=format,
        **{k: v for k, v in how.items() if v is not None},
    )
    # As in a pyramid of a single run, chunks in shards may be larger than the level.
    sink = replace(sink, chunk=level.chunk, shard=level.shard)
    sink.writer.check(sink)
    return sink


def _first(
    volume_format: WritableFormat,
    place: Place,
    source: Source,
    space: Space,
    leading: Sequence[int],
    options: Mapping[str, Any],
) -> Sink:
    """Describe the stored volume as an output of this package, with the requested levels."""
    return make_sink(
        place.spec,
        shape=source.shape,
        dtype=source.dtype,
        space=space,
        leading=leading,
        format=volume_format.name,
        labels=source.labels,
        **{k: v for k, v in options.items() if v is not None},
    )
