"""OME-Zarr images: 0.4 and earlier on zarr v2, 0.5 on zarr v3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.place import Place
from beam_volumes.storage.source import Source
from beam_volumes.storage.spec import open_spec
from beam_volumes.storage.zarr import find


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
    ome = node.attributes.get("ome", node.attributes)
    images = ome.get("multiscales")
    if not images:
        if dataset is None and ("bioformats2raw.layout" in ome or "plate" in ome or "well" in ome):
            raise ValueError(
                f"{place.text} holds several images: choose one by dataset=, e.g. dataset='0'"
            )
        if dataset is None:
            return None
        return open_place(place.below(dataset), index=index, level=level)
    image = images[0]
    paths = [str(d["path"]) for d in image["datasets"]]
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
    axes = [a if isinstance(a, str) else a["name"] for a in image.get("axes", ())] or None
    scale, translation = _grid(image["datasets"][level], image)
    channels = [
        str(c.get("label", k)) for k, c in enumerate((ome.get("omero") or {}).get("channels", ()))
    ]
    return open_spec(
        array.spec,
        name=place.text if level == 0 else array.place.text,
        axes=axes,
        index=index,
        channels=channels,
        scale=scale,
        translation=translation,
        unit=_unit(image.get("axes", ())),
    )


def _grid(
    dataset: Mapping[str, Any], image: Mapping[str, Any]
) -> tuple[list[float] | None, list[float] | None]:
    """Voxel size and origin per dimension: the level's own transformations, then the image's."""
    scale: list[float] | None = None
    shift: list[float] | None = None
    for step in (
        *dataset.get("coordinateTransformations", ()),
        *image.get("coordinateTransformations", ()),
    ):
        if "scale" in step:
            by = [float(s) for s in step["scale"]]
            scale = by if scale is None else [a * b for a, b in zip(scale, by, strict=True)]
            shift = shift and [a * b for a, b in zip(shift, by, strict=True)]
        elif "translation" in step:
            by = [float(t) for t in step["translation"]]
            shift = by if shift is None else [a + b for a, b in zip(shift, by, strict=True)]
    return scale, shift


def _unit(axes: Sequence[Any]) -> str | None:
    units = {
        a.get("unit") for a in axes if isinstance(a, dict) and str(a.get("name")).lower() in "zyx"
    }
    units.discard(None)
    try:
        return unit_name(units.pop()) if len(units) == 1 else None
    except ValueError:
        return None


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
