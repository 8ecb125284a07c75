"""OME-Zarr images: 0.4 and earlier on zarr v2, 0.5 on zarr v3."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beam_volumes.space import AXES
from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.formats.tensorstore_spec import open_spec
from beam_volumes.storage.formats.zarr import find
from beam_volumes.storage.place import Place
from beam_volumes.storage.source import Source


def open_place(
    place: Place,
    *,
    index: Mapping[str, int | str] | None = None,
    dataset: str | None = None,
    level: int | None = None,
) -> Source | None:
    """A level of the image at a place, or None if it is no OME-Zarr image."""
    node = find(place)
    if node is None or node.is_array:
        return None
    metadata = _Metadata(place.text)
    ome = node.attributes.get("ome")
    ome = metadata.mapping(node.attributes if ome is None else ome, "ome")
    images = metadata.list(ome.get("multiscales"), "multiscales")
    if not images:
        if dataset is None and ("bioformats2raw.layout" in ome or "plate" in ome or "well" in ome):
            raise ValueError(
                f"{place.text} holds several images: choose one by dataset=, e.g. dataset='0'"
            )
        if dataset is None:
            return None
        return open_place(place.below(dataset), index=index, level=level)
    image = metadata.mapping(images[0], "multiscales[0]")
    levels = [
        metadata.mapping(d, f"datasets[{k}]")
        for k, d in enumerate(metadata.list(image.get("datasets"), "datasets"))
    ]
    paths = [metadata.text(d.get("path"), f"datasets[{k}].path") for k, d in enumerate(levels)]
    if not paths:
        raise metadata.error("datasets", "empty")
    if dataset is not None:
        if dataset not in paths:
            return open_place(place.below(dataset), index=index, level=level)
        if level is not None:
            raise ValueError(
                f"dataset={dataset!r} and level={level} both choose a level; give one of them"
            )
        level = paths.index(dataset)
    level = 0 if level is None else level
    if not 0 <= level < len(paths):
        raise ValueError(f"level={level}: {place.text} has the levels 0 to {len(paths) - 1}")
    array = find(place.below(paths[level]))
    if array is None or not array.is_array:
        raise OSError(
            f"{place.text}: the metadata name level {paths[level]!r}, but no zarr array is there"
        )
    axes, unit = _axes(image, metadata)
    scale, translation = _grid(levels[level], image, metadata)
    omero = metadata.mapping(ome.get("omero") or {}, "omero")
    channels = [
        str(metadata.mapping(c, f"omero.channels[{k}]").get("label", k))
        for k, c in enumerate(metadata.list(omero.get("channels"), "omero.channels"))
    ]
    return open_spec(
        array.spec,
        name=place.text if level == 0 else array.place.text,
        axes=axes,
        index=index,
        channels=channels,
        scale=scale,
        translation=translation,
        unit=unit,
    )


@dataclass(frozen=True)
class _Metadata:
    """What other programs have written, which may be anything.

    Attributes
    ----------
    name : str
        How messages name the image.
    """

    name: str

    def error(self, what: str, found: Any) -> ValueError:
        return ValueError(
            f"{self.name}: its OME metadata are not as they should be: {what} is {found}; mend them, or "
            "open one of its arrays by a path of its own"
        )

    def mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(what, f"{value!r}, not an object")
        return value

    def list(self, value: Any, what: str) -> Sequence[Any]:
        """None, for what is not there, is an empty list."""
        if value is not None and not isinstance(value, list):
            raise self.error(what, f"{value!r}, not a list")
        return value or []

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise self.error(what, "missing" if value is None else f"{value!r}, not a text")
        return str(value)

    def numbers(self, value: Any, what: str, many: int | None) -> Sequence[float]:
        """Finite ones, as many as axes or as those that go with them."""
        found = self.list(value, what)
        if not all(isinstance(n, int | float) and math.isfinite(n) for n in found):
            raise self.error(what, f"{value!r}, not a list of numbers")
        if many is not None and len(found) != many:
            raise self.error(what, f"{value!r}, not {many} numbers")
        return [float(n) for n in found]


def _axes(image: Mapping[str, Any], metadata: _Metadata) -> tuple[list[str] | None, str | None]:
    """The names of the axes, and the unit that the spatial ones have in common."""
    names: list[str] = []
    units: list[Any] = []
    for k, axis in enumerate(metadata.list(image.get("axes"), "axes")):
        if isinstance(axis, str):  # of versions before 0.4
            names.append(axis)
            continue
        described = metadata.mapping(axis, f"axes[{k}]")
        names.append(metadata.text(described.get("name"), f"axes[{k}].name"))
        if names[-1].lower() in AXES and described.get("unit") not in (None, *units):
            units.append(described["unit"])
    try:
        return names or None, unit_name(units[0]) if len(units) == 1 else None
    except ValueError:
        return names or None, None


def _grid(
    dataset: Mapping[str, Any], image: Mapping[str, Any], metadata: _Metadata
) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """Voxel size and origin per dimension: the level's own transformations, then the image's."""
    scale: Sequence[float] | None = None
    shift: Sequence[float] | None = None
    what = "coordinateTransformations"
    axes = len(metadata.list(image.get("axes"), "axes")) or None
    steps = [*metadata.list(dataset.get(what), what), *metadata.list(image.get(what), what)]
    for k, item in enumerate(steps):
        step = metadata.mapping(item, f"{what}[{k}]")
        known = next((len(v) for v in (scale, shift) if v is not None), axes)
        if "scale" in step:
            by = metadata.numbers(step["scale"], f"{what}[{k}].scale", known)
            scale = by if scale is None else [a * b for a, b in zip(scale, by, strict=True)]
            shift = shift and [a * b for a, b in zip(shift, by, strict=True)]
        elif "translation" in step:
            by = metadata.numbers(step["translation"], f"{what}[{k}].translation", known)
            shift = by if shift is None else [a + b for a, b in zip(shift, by, strict=True)]
    return scale, shift


def image_metadata(
    version: str,
    name: str,
    axes: Sequence[str],
    voxel_size: Sequence[float],
    origin: Sequence[float],
    unit: str | None,
) -> dict[str, Any]:
    """The attributes of a group that holds one image with the one level ``"0"``."""
    described = [{"name": a, "type": "space", **({"unit": unit} if unit else {})} for a in axes]
    steps: list[dict[str, Any]] = [{"type": "scale", "scale": list(voxel_size)}]
    if any(origin):
        steps.append({"type": "translation", "translation": list(origin)})
    image: dict[str, Any] = {
        "name": name,
        "axes": described,
        "datasets": [{"path": "0", "coordinateTransformations": steps}],
    }
    if version == "0.4":
        return {"multiscales": [{"version": "0.4", **image}]}
    return {"ome": {"version": version, "multiscales": [image]}}
