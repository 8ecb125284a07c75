"""Image, label and region layers as Neuroglancer's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.space import Space
from beam_volumes.show.colours import Window
from beam_volumes.show.pages.table_page import dataset_of
from beam_volumes.show.viewer.chunks import nanometres

#: Maximal number of regions that are shown: the largest ones.
MAX_REGIONS = 2000
#: Initial size of a panel in pixels.
PIXELS = 360

State = dict[str, Any]


def image_layer(
    name: str,
    url: str,
    space: Space | None,
    window: Window,
    colour: tuple[int, int, int] | None = None,
) -> State:
    """Return a layer of intensities; one of several channels has its own colour."""
    low, high = window
    if not low < high:
        high = low + 1
    shown = "emitGrayscale(normalized());"
    if colour is not None:
        red, green, blue = (f"{c / 255:.3f}" for c in colour)
        shown = f"emitRGB(vec3({red}, {green}, {blue}) * normalized());"
    layer = {
        "type": "image",
        "name": name,
        "source": _source(url, space),
        "shader": f"#uicontrol invlerp normalized\nvoid main() {{\n  {shown}\n}}\n",
        "shaderControls": {"normalized": {"range": [low, high]}},
    }
    if colour is not None:
        layer |= {"blend": "additive", "opacity": 1}
    return layer


def label_layer(name: str, url: str, space: Space | None) -> State:
    """Return a layer of segments, all of them in colours."""
    return {
        "type": "segmentation",
        "name": name,
        "source": _source(url, space),
        "selectedAlpha": 0.5,
        "segments": [],
    }


def _source(url: str, space: Space | None) -> Any:
    """Return the source of a layer, with its origin unless the file defines it."""
    if space is None or not any(space.origin):
        return {"url": url}
    size = space.voxel_size or (1.0, 1.0, 1.0)
    moved = [o / s if s else 0.0 for o, s in zip(space.origin, size, strict=True)][::-1]
    matrix = [[float(i == j) for j in range(3)] + [moved[i]] for i in range(3)]
    return {"url": url, "transform": {"matrix": matrix, "outputDimensions": dimensions(space)}}


def dimensions(space: Space) -> State:
    """Return the axes of a view with positions in voxels, for Neuroglancer."""
    z, y, x = nanometres(space)
    return {"x": [x * 1e-9, "m"], "y": [y * 1e-9, "m"], "z": [z * 1e-9, "m"]}


@dataclass(frozen=True)
class Regions:
    """Regions of a table."""

    layer: State  #: Boxes, or centres if the table has no boxes
    shown: int  #: Number of shown regions, of ``rows``
    rows: int


def region_layer(name: str, path: str, space: Space) -> Regions:
    """Return the largest regions of a table of labels as boxes, or as points.

    Raises ValueError if the table has neither boxes nor centroids.
    """
    columns, rows = _largest(path)
    many = len(columns["label"])
    annotations = []
    start = np.array(space.origin) / np.array(space.voxel_size or (1.0, 1.0, 1.0))
    for k in range(many):
        at: dict[str, Any] = {"id": str(k), "description": f"label {int(columns['label'][k])}"}
        if "bbox-0" in columns:
            low = [float(columns[f"bbox-{a}"][k]) + start[a] for a in (2, 1, 0)]
            high = [float(columns[f"bbox-{a + 3}"][k]) + start[a] for a in (2, 1, 0)]
            at |= {"type": "axis_aligned_bounding_box", "pointA": low, "pointB": high}
        else:
            point = [float(columns[f"centroid-{a}"][k]) + 0.5 + start[a] for a in (2, 1, 0)]
            at |= {"type": "point", "point": point}
        annotations.append(at)
    layer = {
        "type": "annotation",
        "name": name,
        "source": {
            "url": "local://annotations",
            "transform": {"outputDimensions": dimensions(space)},
        },
        "annotationColor": "#ffd400",
        "annotations": annotations,
    }
    return Regions(layer, many, rows)


def _largest(path: str) -> tuple[dict[str, np.ndarray], int]:
    """Return the position columns of the largest regions, and the number of all."""
    table = dataset_of(path)
    names = table.schema.names
    boxes = [f"bbox-{k}" for k in range(6)]
    centres = [f"centroid-{k}" for k in range(3)]
    wanted = boxes if set(boxes) <= set(names) else centres
    if not {"label", *wanted} <= set(names):
        raise ValueError(
            f"{path} has no columns with positions of regions ({', '.join(names)}); measure bbox or "
            "centroid of a volume with the axes z, y, x"
        )
    sizes = ["area"] if "area" in names else []
    kept: dict[str, np.ndarray] | None = None
    rows = 0
    for batch in table.to_batches(columns=["label", *wanted, *sizes]):
        rows += batch.num_rows
        part = {n: batch.column(n).to_numpy(zero_copy_only=False) for n in batch.schema.names}
        if kept is not None:
            part = {n: np.concatenate([kept[n], part[n]]) for n in kept}
        if sizes:
            order = np.argsort(-part["area"], kind="stable")[:MAX_REGIONS]
            part = {n: column[order] for n, column in part.items()}
        kept = {n: column[:MAX_REGIONS] for n, column in part.items()}
    if kept is None:
        kept = {n: np.empty(0) for n in ["label", *wanted]}
    return kept, rows


def state(
    layers: Sequence[Mapping[str, Any]], space: Space, shape: Sequence[int], fits: bool = True
) -> State:
    """Return the whole state: layers, and panels that show the middle of a volume.

    With ``fits`` the whole volume is shown, else as many voxels as there are pixels.
    """
    size = nanometres(space)
    start = [
        o / s if s else 0.0 for o, s in zip(space.origin, space.voxel_size or (1,) * 3, strict=True)
    ]
    middle = [a + n // 2 + 0.5 for a, n in zip(start, shape, strict=True)]
    longest = max(n * s for n, s in zip(shape, size, strict=True)) / min(size)
    flat = "z" not in space.axes
    return {
        "dimensions": dimensions(space),
        "position": middle[::-1],
        "crossSectionScale": longest / (PIXELS * (2 if flat else 1)) if fits else 1.0,
        "projectionScale": longest * 1.6,
        "layers": list(layers),
        "layout": "xy" if flat else "4panel",
        "showAxisLines": True,
        "showSlices": True,
        "selectedLayer": {"visible": False},
    }
