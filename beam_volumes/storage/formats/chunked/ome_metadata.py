"""Metadata of OME-Zarr images: axes, positions, levels, colours and windows."""

from __future__ import annotations

import colorsys
import itertools
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import AXES
from beam_volumes.base.text import printable
from beam_volumes.storage.formats.metadata import Foreign
from beam_volumes.storage.sources.axes import UnclearSpace, turned
from beam_volumes.storage.sources.description import Description
from beam_volumes.storage.sources.pyramid import Pyramid, middle_of
from beam_volumes.version import __version__

_STEPS = "coordinateTransformations"
#: Transformations along the axes, and since version 0.6 others with a matrix.
_STRETCHES, _TURNS = ("scale", "translation"), ("affine", "rotation", "mapAxis")
#: The versions of OME-Zarr that are read, and releases and drafts of them.
_KNOWN = re.compile(r"0\.[1-6](?![0-9])")


def check_version(metadata: Foreign, *documents: Any) -> None:
    """Refuse documents of an unknown version of OME-Zarr."""
    for document in documents:
        version = document.get("version") if isinstance(document, dict) else None
        if version is not None and not _KNOWN.match(str(version)):
            raise ValueError(
                f"{metadata.name} is OME-Zarr {printable(str(version))[:20]}, but only versions "
                "0.1 to 0.6 are supported; convert it to one of them, or open one of its arrays "
                "by its own path"
            )


def axes_of(
    image: Mapping[str, Any], metadata: Foreign
) -> tuple[list[str] | None, list[Any] | None]:
    """Return the names of the axes and their units."""
    names: list[str] = []
    units: list[Any] = []
    for k, axis in enumerate(_axes(image, metadata)):
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


def _axes(image: Mapping[str, Any], metadata: Foreign) -> Sequence[Any]:
    """Return the axes of an image, since version 0.6 from the coordinate system of its levels."""
    what = "coordinateSystems"
    if what not in image:
        return metadata.list(image.get("axes"), "axes")
    systems = [
        metadata.mapping(s, f"{what}[{k}]") for k, s in enumerate(metadata.list(image[what], what))
    ]
    named = {_output(level) for level in metadata.list(image.get("datasets"), "datasets")}
    found = [
        s for s in systems if s.get("name") in named or (named == {None} and len(systems) == 1)
    ]
    if len(named) != 1 or len(found) != 1:
        names = [s.get("name") for s in systems]
        raise metadata.error(what, f"{names}, not one with the output of the levels")
    return metadata.list(found[0].get("axes"), f"{what}.axes")


def _output(level: Any) -> str | None:
    """Return the name of the coordinate system of a level, if it is known."""
    steps = level.get(_STEPS) if isinstance(level, dict) else None
    last = steps[-1] if isinstance(steps, list) and steps else None
    output = last.get("output") if isinstance(last, dict) else None
    name = output.get("name") if isinstance(output, dict) else output
    return name if isinstance(name, str) else None


def grid_of(
    dataset: Mapping[str, Any],
    image: Mapping[str, Any],
    metadata: Foreign,
    affine: str | None = None,
) -> tuple[Sequence[float] | None, Sequence[float] | None]:
    """Return voxel size and origin per dimension, from transformations of level and image.

    Since version 0.6, transformations of an image lead to other coordinate systems, and are not applied.
    """
    matrix: np.ndarray | None = None
    shift: np.ndarray | None = None
    axes = len(_axes(image, metadata)) or None
    is_06 = "coordinateSystems" in image
    steps = [dataset.get(_STEPS)] if is_06 else [dataset.get(_STEPS), image.get(_STEPS)]
    for what, step in _flattened(_STEPS, steps, metadata):
        known = next((len(v) for v in (matrix, shift) if v is not None), axes)
        kind = _kind_of(step, what, metadata)
        if kind == "identity":
            continue
        if kind not in (*_STRETCHES, *(_TURNS if is_06 else ())) or kind not in step:
            if affine == "drop":
                return None, None
            raise UnclearSpace(
                f"{metadata.name}: the {printable(kind)[:40]!r} at {what} is not supported; give "
                "affine='drop' to take voxels as they are stored, without their size and origin"
            )
        if kind == "scale":
            by = np.array(metadata.numbers(step["scale"], f"{what}.scale", known))
            matrix = np.diag(by) if matrix is None else matrix * by[:, None]
            shift = None if shift is None else shift * by
        elif kind == "translation":
            by = np.array(metadata.numbers(step["translation"], f"{what}.translation", known))
            shift = by if shift is None else shift + by
        else:
            turn, moved = _matrix(step, kind, what, metadata, known)
            matrix = turn if matrix is None else turn @ matrix
            shift = moved if shift is None else turn @ shift + moved
    if matrix is None:
        return None, None if shift is None else shift.tolist()
    if (abs(matrix - np.diag(matrix.diagonal())) > 1e-9 * abs(matrix).max()).any():
        if affine != "drop":
            raise turned(metadata.name, "its metadata rotate or shear its axes", can_reorient=False)
        return np.linalg.norm(matrix, axis=0).tolist(), None
    return matrix.diagonal().tolist(), None if shift is None else shift.tolist()


def _flattened(
    where: str, lists: Sequence[Any], metadata: Foreign
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield transformations with their places in the metadata, and the steps of sequences one by one."""
    for k, item in enumerate(itertools.chain(*(metadata.list(found, where) for found in lists))):
        what = f"{where}[{k}]"
        step = metadata.mapping(item, what)
        if step.get("type") == "sequence":
            inner = f"{what}.transformations"
            if "transformations" not in step:
                raise metadata.error(inner, "missing")
            yield from _flattened(inner, [step.get("transformations")], metadata)
        else:
            yield what, step


def _kind_of(step: Mapping[str, Any], what: str, metadata: Foreign) -> str:
    """Return the type of a transformation; before version 0.4, some have none."""
    kind = step.get("type", next((k for k in _STRETCHES if k in step), None))
    return metadata.text(kind, f"{what}.type")


def _matrix(
    step: Mapping[str, Any], kind: str, what: str, metadata: Foreign, axes: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and the shift of a transformation with a matrix in the metadata."""
    rows = metadata.list(step.get(kind), f"{what}.{kind}")
    n = len(rows) if axes is None else axes
    if kind == "mapAxis":
        if sorted(map(str, rows)) != sorted(map(str, range(n))):
            raise metadata.error(
                f"{what}.{kind}", f"{step.get(kind)!r}, not the numbers of {n} axes"
            )
        return np.eye(n)[[int(r) for r in rows]], np.zeros(n)
    columns = n + 1 if kind == "affine" else n
    if len(rows) != n:
        raise metadata.error(f"{what}.{kind}", f"{step.get(kind)!r}, not {n} rows of numbers")
    found = np.array([metadata.numbers(r, f"{what}.{kind}", columns) for r in rows])
    return found[:, :n], found[:, n] if kind == "affine" else np.zeros(n)


def steps_of(
    path: str, image: Mapping[str, Any], scale: Sequence[float], shift: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the transformations of a level at a path, as the version of its image has them."""
    steps: list[dict[str, Any]] = [{"type": "scale", "scale": list(scale)}]
    if any(shift):
        steps.append({"type": "translation", "translation": list(shift)})
    if "coordinateSystems" not in image:
        return steps
    one = steps[0] if len(steps) == 1 else {"type": "sequence", "transformations": steps}
    given = image["datasets"][0][_STEPS][-1]
    return [{**one, "input": {"path": path}, "output": given.get("output")}]


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
    image: Mapping[str, Any], path: str, pyramid: Pyramid, k: int, axes: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the transformations of a level at a path, given the image's metadata."""
    what, first = Foreign(pyramid.name, "OME metadata"), image["datasets"][0]
    own = {key: value for key, value in image.items() if key != _STEPS}
    scale, shift = grid_of(first, own, what)
    scale = scale or [1.0] * len(axes)
    shift = shift or [0.0] * len(axes)
    by = [1.0] * len(axes)
    for factors in pyramid.factors[:k]:
        for a, axis in enumerate(axes):
            if axis in AXES:
                by[a] *= factors[AXES.index(axis)]
    middle = middle_of(pyramid.method)
    moved = [o + s * middle * (f - 1) for o, s, f in zip(shift, scale, by, strict=True)]
    return steps_of(path, image, [s * f for s, f in zip(scale, by, strict=True)], moved)


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
    for k, channel in enumerate(found):
        chosen = [
            n // 2 if a == "t" else k for n, a in zip(d.leading, d.space.leading, strict=True)
        ]
        channel["window"] = _window(_some_planes(coarsest[tuple(chosen)]), channel["window"])
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
