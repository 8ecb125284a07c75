"""Outlines as GeoJSON (RFC 7946): a feature for each label, for QuPath, GeoPandas and shapely."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from beam_volumes.kernels.labels import outlines as kernels
from beam_volumes.storage.formats.tables.format import Columns, OneFile, Sums
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.single_file import put_together

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("label", "y", "x", "corner")
_HEAD, _TAIL = b'{"type": "FeatureCollection", "features": [\n', b"\n]}\n"


class GeoJson(OneFile):
    """One file with a line for each label; shards contain its corners."""

    name = "geojson"
    items = "features"

    def check(self, name: str, columns: Mapping[str, Any]) -> None:
        if tuple(columns) != COLUMNS:
            raise ValueError(
                f"{name}: GeoJSON stores tables of bv.outlines, and this table has the columns "
                f"{', '.join(columns)}; write .parquet or .csv"
            )

    def encode(self, columns: Columns) -> bytes:
        rows = np.empty(len(columns["label"]), [(n, c.dtype.str) for n, c in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        file = io.BytesIO()
        np.save(file, rows)
        return file.getvalue()

    def assemble(
        self, place: str, home: str, shards: list[str], is_ours: Callable[[], bool]
    ) -> Mapping[str, Any]:
        sums, count = Sums(), 0

        def content() -> Iterator[bytes]:
            nonlocal count
            yield _HEAD
            for rows in _whole_labels(home, shards):
                for feature in features(rows):
                    yield (b",\n" if count else b"") + json.dumps(feature).encode()
                    count += 1
            yield _TAIL

        put_together(place, home, sums.of(content()), is_ours)
        return {"crc32": sums.crc32, "features": count}

    def other_lines(self, noted: Mapping[str, Any]) -> int:
        # The last feature has no comma; without features there is one empty line.
        return 2 if noted["features"] else 3

    def read(self, name: str, place: Spec, shards: list[str], noted: Mapping[str, Any]) -> pa.Table:
        import pyarrow as pa

        with open(place["path"], "rb") as file:
            found = json.load(file)["features"]
        rows = np.concatenate([_rows([])] + [_corners(feature) for feature in found])
        rows.sort(order=list(COLUMNS))
        _part(rows)
        return pa.table({name: rows[name] for name in COLUMNS})


FORMATS = (GeoJson(),)


def _whole_labels(home: str, shards: list[str]) -> Iterator[np.ndarray]:
    """Yield the rows of shards in order, with all rows of a label together."""
    pending: list[np.ndarray] = []
    for shard in shards:
        rows = np.load(os.path.join(home, shard))
        if not len(rows):
            continue
        # The last label may continue in the next shard.
        cut = int(np.searchsorted(rows["label"], rows["label"][-1]))
        if pending and pending[-1]["label"][-1] != rows["label"][0]:
            yield np.concatenate(pending)
            pending = []
        if cut:
            yield np.concatenate([*pending, rows[:cut]])
            pending = []
        pending.append(rows[cut:])
    if pending:
        yield np.concatenate(pending)


def features(rows: np.ndarray) -> Iterator[dict[str, Any]]:
    """Yield a feature for each label; the rows must have all corners of their labels.

    Examples
    --------
    >>> square = [(7, 0, 0, 7), (7, 0, 2, 3), (7, 2, 0, 5), (7, 2, 2, 1)]
    >>> dtype = [("label", "u8"), ("y", "i8"), ("x", "i8"), ("corner", "u1")]
    >>> next(features(np.array(square, dtype)))["geometry"]
    {'type': 'Polygon', 'coordinates': [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]}
    """
    labels, first = np.unique(rows["label"], return_index=True)
    first = np.append(first, len(rows)).astype(np.int64)
    y, x = (np.unique(rows[axis], return_inverse=True)[1].astype(np.int64) for axis in ("y", "x"))
    corners = rows["corner"].astype(np.int64)
    # Vertical edges connect neighbours of a column, horizontal ones of a row.
    of = np.searchsorted(labels, rows["label"])
    down = np.lexsort(((corners & kernels.DOWN) != 0, y, x, of))
    below = np.empty(len(rows), np.int64)
    below[down[0::2]], below[down[1::2]] = down[1::2], down[0::2]
    vertices, starts, outer = kernels.rings(first, y, x, corners, below, int(x.max()) + 1)
    points = np.stack([rows["x"][vertices], rows["y"][vertices]], axis=1)
    of_ring = of[vertices[starts[:-1]]]
    polygons: dict[int, list[list[list[Any]]]] = {}
    inside: dict[int, list[int]] = {}
    for ring, parent in enumerate(outer.tolist()):
        if parent >= 0:
            inside.setdefault(parent, []).append(ring)
    bounds = starts.tolist()

    def closed(ring: int) -> list[list[Any]]:
        found: list[list[Any]] = points[bounds[ring] : bounds[ring + 1]].tolist()
        return [*found, found[0]]

    for ring, parent in enumerate(outer.tolist()):
        if parent < 0:
            shape = [closed(r) for r in (ring, *inside.get(ring, ()))]
            polygons.setdefault(int(of_ring[ring]), []).append(shape)  # type: ignore[arg-type]
    for k, label in enumerate(labels.tolist()):
        several = len(polygons[k]) > 1
        yield {
            "type": "Feature",
            "geometry": {
                "type": "MultiPolygon" if several else "Polygon",
                "coordinates": polygons[k] if several else polygons[k][0],
            },
            # The properties that QuPath uses.
            "properties": {"objectType": "annotation", "name": str(label), "label": label},
        }


def _rows(places: Any) -> np.ndarray:
    """Return empty rows for some positions."""
    dtype = np.float64 if np.asarray(places).dtype.kind == "f" and len(places) else np.int64
    return np.empty(len(places), [("label", "u8"), ("y", dtype), ("x", dtype), ("corner", "u1")])


def _part(rows: np.ndarray) -> None:
    """Assign the corners where two rings of a label meet to one of its pixels each."""
    a, b = rows[:-1], rows[1:]
    first = np.flatnonzero((a["label"] == b["label"]) & (a["y"] == b["y"]) & (a["x"] == b["x"]))
    corners = rows["corner"][first]
    falling = np.isin(corners >> 1, (0, 3)) == (corners & kernels.INSIDE != 0)
    rows["corner"][first] = np.where(falling, 1, 3)
    rows["corner"][first + 1] = np.where(falling, 7, 5)


def _corners(feature: Mapping[str, Any]) -> np.ndarray:
    """Return the rows of a feature."""
    shape = feature["geometry"]["coordinates"]
    polygons = [shape] if feature["geometry"]["type"] == "Polygon" else shape
    found = []
    for ring in (ring for polygon in polygons for ring in polygon):
        xy = np.array(ring[:-1])
        before, after = np.roll(xy, 1, axis=0) - xy, np.roll(xy, -1, axis=0) - xy
        arms = before + after
        # The label is on the right of the path, which turns right around the label's own pixels.
        turn = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        rows = _rows(xy)
        rows["label"], rows["x"], rows["y"] = feature["properties"]["label"], xy[:, 0], xy[:, 1]
        rows["corner"] = 4 * (arms[:, 0] > 0) + 2 * (arms[:, 1] > 0) + (turn < 0)
        found.append(rows)
    return np.concatenate(found)
