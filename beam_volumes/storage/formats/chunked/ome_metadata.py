"""Metadata of OME-Zarr images: axes, positions, levels, colours and windows."""

from __future__ import annotations

import colorsys
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import AXES
from beam_volumes.storage.formats.metadata import Foreign
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.pyramid import Pyramid, middle_of
from beam_volumes.version import __version__


def axes_of(
    image: Mapping[str, Any], metadata: Foreign
) -> tuple[list[str] | None, list[Any] | None]:
    """Return the names of the axes and their units."""
    names: list[str] = []
    units: list[Any] = []
    for k, axis in enumerate(metadata.list(image.get("axes"), "axes")):
        if isinstance(axis, str):  # before version 0.4
            names.append(axis)
            units.append(None)
            continue
        described = metadata.mapping(axis, f"axes[{k}]")
        if not isinstance(described.get("name"), str):
            given = described.get("name")
            raise metadata.error(
                f"axes[{k}].name", "missing" if given is None else f"{given!r}, not a text"
            )
        names.append(described["name"])
        units.append(described.get("unit"))
    if len({name.lower() for name in names}) < len(names):
        raise metadata.error("axes", f"{names}, with a repeated name")
    return names or None, units or None


def grid_of(
    dataset: Mapping[str, Any], image: Mapping[str, Any], metadata: Foreign
) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """Return voxel size and origin per dimension, from transformations of level and image."""
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
        elif step.get("type", "identity") != "identity":
            raise metadata.error(
                f"{what}[{k}]", f"{dict(step)}, not a scale or translation in numbers"
            )
    return scale, shift


def image_metadata(d: Description) -> dict[str, Any]:
    space, version = d.space, d.options["ome_version"]
    kinds = {"t": "time", "c": "channel"}
    axes = [{"name": a, "type": kinds[a]} for a in space.leading] + [
        {"name": a, "type": "space", **({"unit": space.unit} if space.unit else {})}
        for a in space.axes
    ]
    image: dict[str, Any] = {
        "name": os.path.basename(d.name.rstrip("/")).removesuffix(".ome.zarr"),
        "axes": axes,
        "datasets": [
            {"path": str(k), "coordinateTransformations": _transformations(level)}
            for k, level in enumerate(d.every_level)
        ],
    }
    if d.pyramid is not None:
        image |= method_metadata(d.pyramid, space.leading)
    about: dict[str, Any] = {}
    if "c" in space.leading:
        about["omero"] = {"channels": _channels(d)}
    if d.labels and "c" not in space.leading:
        about["image-label"] = {"version": version, "colors": _colours_of_labels()}
    if version == "0.4":
        return {"multiscales": [{"version": "0.4", **image}], **about}
    return {"ome": {"version": version, "multiscales": [image], **about}}


def method_metadata(pyramid: Pyramid, leading: Sequence[str]) -> dict[str, Any]:
    """Describe how levels were made, for the metadata of an image."""
    axes = pyramid.levels[0].space.visible
    return {
        "type": pyramid.method,
        "metadata": {
            "description": "each level is made of the one before, in windows that begin at its first voxel",
            "method": "beam_volumes.downsample",
            "version": __version__,
            "kwargs": {
                "method": pyramid.method,
                "factors": [[1] * len(leading) + [by[a] for a in axes] for by in pyramid.factors],
            },
        },
    }


def level_transformations(
    first: Mapping[str, Any], pyramid: Pyramid, k: int, axes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the transformations of a level, given the first level's metadata."""
    what = Foreign(pyramid.name, "OME metadata")
    scale, shift = grid_of(first, {}, what)
    scale = scale or [1.0] * len(axes)
    shift = shift or [0.0] * len(axes)
    by = [1.0] * len(axes)
    for factors in pyramid.factors[:k]:
        for a, axis in enumerate(axes):
            if axis in AXES:
                by[a] *= factors[AXES.index(axis)]
    steps = [{"type": "scale", "scale": [s * f for s, f in zip(scale, by, strict=True)]}]
    middle = middle_of(pyramid.method)
    moved = [o + s * middle * (f - 1) for o, s, f in zip(shift, scale, by, strict=True)]
    if any(moved):
        steps.append({"type": "translation", "translation": moved})
    return steps


def _transformations(d: Description) -> list[dict[str, Any]]:
    ones, zeros = (1.0,) * len(d.leading), (0.0,) * len(d.leading)
    steps = [{"type": "scale", "scale": d.stored(d.space.voxel_size or (1.0, 1.0, 1.0), ones)}]
    if any(d.space.origin):
        steps.append({"type": "translation", "translation": d.stored(d.space.origin, zeros)})
    return steps


def _colours_of_labels(count: int = 64) -> list[dict[str, Any]]:
    """Return distinct colours of the first labels; the background is transparent."""
    found = [{"label-value": 0, "rgba": [0, 0, 0, 0]}]
    for k in range(1, count):
        rgb = colorsys.hsv_to_rgb(k * 0.6180339887 % 1.0, 0.65 + 0.35 * (k % 2), 0.95)
        found.append({"label-value": k, "rgba": [*(round(255 * v) for v in rgb), 255]})
    return found


#: Common colours of channels; a single one is white.
_COLOURS = ("FF0000", "00FF00", "0000FF", "FFFF00", "FF00FF", "00FFFF", "FFFFFF")
#: Percentiles that are shown as black and white.
_SHOWN = (0.5, 99.5)
#: Maximal number of voxels of a channel for these percentiles.
_MAX_VOXELS = 1 << 24


def _channels(d: Description) -> list[dict[str, Any]]:
    """Describe channels for viewers; OME-Zarr requires a window of values for each."""
    count = d.leading[d.space.leading.index("c")] if "c" in d.space.leading else 1
    names = d.space.channels or [str(k) for k in range(count)]
    low, high = (0, 1) if d.dtype.kind == "f" else (np.iinfo(d.dtype).min, np.iinfo(d.dtype).max)
    window = {"min": int(low), "max": int(high), "start": int(low), "end": int(high)}
    return [
        {
            "label": names[k] if k < len(names) else str(k),
            "color": _COLOURS[k % len(_COLOURS)] if count > 1 else "FFFFFF",
            "active": True,
            "window": window,
        }
        for k in range(count)
    ]


def channels_metadata(d: Description, coarsest: ts.TensorStore) -> list[dict[str, Any]]:
    """Describe channels for viewers, with windows by percentiles of a coarse level."""
    found = _channels(d)
    times = d.leading[0] if "t" in d.space.leading else 0
    for k, channel in enumerate(found):
        one = coarsest[times // 2] if times > 1 else coarsest
        one = one[k] if len(found) > 1 else one
        channel["window"] = _window(_some_planes(one), channel["window"])
    return found


def _some_planes(volume: ts.TensorStore) -> np.ndarray:
    """Read all voxels of a small volume, else some distant planes or their central parts."""
    nz, ny, nx = volume.shape
    side = math.isqrt(_MAX_VOXELS)
    rows, columns = (slice((n - min(n, side)) // 2, (n + min(n, side)) // 2) for n in (ny, nx))
    count = max(1, min(nz, _MAX_VOXELS // max(1, min(ny, side) * min(nx, side))))
    planes = [(2 * i + 1) * nz // (2 * count) for i in range(count)]
    voxels: np.ndarray = volume[planes, rows, columns].read().result()
    return voxels


def _window(voxels: np.ndarray, whole: dict[str, Any]) -> dict[str, Any]:
    """Return the window between two percentiles of voxels, rounded to existing values."""
    if voxels.dtype.kind == "f":
        voxels = voxels[np.isfinite(voxels)]
    if not voxels.size:
        return whole
    ends = np.percentile(voxels, _SHOWN, method="nearest")
    if ends[0] == ends[1]:
        ends = np.array([voxels.min(), voxels.max()])
    start, end = (v.item() for v in ends)
    if start == end:
        return whole
    if voxels.dtype.kind != "f":
        return {**whole, "start": start, "end": end}
    return {
        "min": voxels.min().item(), "max": voxels.max().item(), "start": start, "end": end
    }  # fmt: skip
