"""OME-Zarr images: 0.4 and earlier on zarr v2, 0.5 on zarr v3."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_volumes.space import AXES, Space
from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.description import Description
from beam_volumes.storage.formats.format import Content, Options
from beam_volumes.storage.formats.tensorstore_spec import open_spec
from beam_volumes.storage.formats.zarr import OURS, Zarr, array_metadata, find
from beam_volumes.storage.place import Place
from beam_volumes.storage.source import Source

#: The zarr version that each version is stored as.
VERSIONS = {"0.4": 2, "0.5": 3}


class OmeZarr(Zarr):
    """A zarr group that holds one image with the one level ``"0"``."""

    title = "OME-Zarr"
    name = "ome-zarr"
    suffixes = (".ome.zarr",)
    options: ClassVar[Options] = {
        **Zarr.options,
        "ome_version": ('``"0.5"`` (the default) or ``"0.4"``', "The version of OME-Zarr."),
    }
    array = ("0",)

    def open_place(
        self,
        place: Place,
        *,
        index: Mapping[str, int | str] | None = None,
        dataset: str | None = None,
        level: int | None = None,
    ) -> Source | None:
        node = find(place)
        if node is None or node.is_array:
            return None
        metadata = _Metadata(place.text)
        ome = node.attributes.get("ome")
        ome = metadata.mapping(node.attributes if ome is None else ome, "ome")
        images = metadata.list(ome.get("multiscales"), "multiscales")
        if not images:
            if dataset is None and (
                "bioformats2raw.layout" in ome or "plate" in ome or "well" in ome
            ):
                raise ValueError(
                    f"{place.text} holds several images: choose one by dataset=, e.g. dataset='0'"
                )
            if dataset is None:
                return None
            return self.open_place(place.below(dataset), index=index, level=level)
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
                return self.open_place(place.below(dataset), index=index, level=level)
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

    def documents(self, d: Description, run_id: str) -> dict[str, Content]:
        array = array_metadata(d, d.shape)
        attributes = {**_image_metadata(d), OURS: {"run": run_id}}
        if d.options["zarr_version"] == 3:
            group = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
            return {"zarr.json": group, "0/zarr.json": array}
        return {".zattrs": attributes, ".zgroup": {"zarr_format": 2}, "0/.zarray": array}


FORMATS = (OmeZarr(),)


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


def _image_metadata(d: Description) -> dict[str, Any]:
    """The attributes of a group that holds one image with the one level ``"0"``."""
    space, version = d.space, d.options["ome_version"]
    axes = [
        {"name": a, "type": "space", **({"unit": space.unit} if space.unit else {})}
        for a in space.axes
    ]
    steps: list[dict[str, Any]] = [
        {"type": "scale", "scale": d.stored(space.voxel_size or (1.0, 1.0, 1.0))}
    ]
    if any(space.origin):
        steps.append({"type": "translation", "translation": d.stored(space.origin)})
    image: dict[str, Any] = {
        "name": os.path.basename(d.name.rstrip("/")).removesuffix(".ome.zarr"),
        "axes": axes,
        "datasets": [{"path": "0", "coordinateTransformations": steps}],
    }
    if version == "0.4":
        return {"multiscales": [{"version": "0.4", **image}]}
    return {"ome": {"version": version, "multiscales": [image]}}
