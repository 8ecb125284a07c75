"""Outlines of labels as polygons along the edges of pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds import outlines as rows
from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.space import METRES, Space
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.surveys.table_surveys import SHARE, Rows, RowSurveyor, TableSurvey
from beam_volumes.ops.parameters.building import first_channel
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.survey import Surveyor

#: Pixels per corner, for reserved memory.
_PIXELS_PER_CORNER = 200
#: Bytes of a corner while slabs are merged.
_ROW_BYTES = 16


@documented
def outlines(labels: Volume, *, like: Volume | None = None) -> Table:
    """Compute the outlines of the regions of a label image.

    Written as GeoJSON, they are polygons that QuPath, GeoPandas and shapely can read.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Labels with two axes, y and x, bool or integers from 0; 0 is background.
    like : Volume, optional
        A volume that defines the pixels for the coordinates, such as the finest level of the slide.
        By default, coordinates are in pixels of the labels.

    Returns
    -------
    Table
        A lazy table of the corners of all outlines, sorted by ``label``, then ``y``, then ``x``.
        Coordinates refer to the corners of pixels: the first pixel extends from 0 to 1. ``corner``
        describes the turn as a sum. The sum includes 4 if the outline continues to the right
        instead of the left, and 2 if it continues down instead of up. The sum includes 1 if the
        pixel in between belongs to the label. ``table.to("regions.geojson")`` writes polygons with
        holes: one for each label, or several if its pixels are not connected by sides.

    Raises
    ------
    ValueError
        If the labels have different axes, or ``like`` lacks one of them. On computation, if a label
        is negative, or the corners need more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures the same regions.
    meshes : computes surfaces of objects in 3-D.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Corners are independent of slabs. Memory
    grows with the corners of a slab and, while GeoJSON is written, with the corners of the largest
    label, about 200 bytes each.

    Polygons are valid according to GeoJSON and OGC: they neither cross themselves nor touch
    themselves along lines. Pixels of a label that share only a corner are separate polygons.

    References
    ----------
    H. Butler et al., "The GeoJSON Format", RFC 7946, 2016.

    Examples
    --------
    >>> labels = np.array([[5, 5, 5], [5, 0, 5], [5, 5, 5]], "u1")
    >>> _ = bv.compute(bv.outlines(labels).to("regions.geojson"), runner=None)
    >>> print(open("regions.geojson").read())  # doctest: +ELLIPSIS
    {"type": "FeatureCollection", "features": [
    {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [3, 0], [3, 3], ...
    """
    name = "outlines"
    labels = one_channel(labels)
    if labels.axes != ("y", "x"):
        raise ValueError(
            f"{name}: the labels have the axes {' '.join(labels.axes)}, but outlines need an "
            "image of y and x; choose a slice, as in labels[0]"
        )
    if labels.dtype.kind not in "bui":
        raise TypeError(f"{name}: labels have dtype {labels.dtype}; use bool or integers")
    place: tuple[Any, tuple[float, float]] = (None, (0.0, 0.0))
    if like is not None:
        other = first_channel(as_volume(like))
        sized = labels.voxel_size is not None or other.voxel_size is not None
        # Without voxel sizes, volumes of one shape are assumed to have the same position.
        if sized or other.grid_shape != labels.grid_shape:
            place = _place(labels.space, other.space, name)
    return Table(Barrier.of(OutlineSurvey(name, *place), labels.nodes))


def _place(own: Space, other: Space, name: str) -> tuple[Any, tuple[float, float]]:
    """Return the scale and the offset from corners of pixels to another space."""
    if not {"y", "x"} <= set(other.axes):
        raise ValueError(f"{name}: like has the axes {' '.join(other.axes)}; y and x are needed")
    if own.voxel_size is None or other.voxel_size is None:
        which = "the labels have" if own.voxel_size is None else "like has"
        raise ValueError(
            f"{name}: {which} no voxel size, and the shapes differ; open the slide with voxel_size="
        )
    units = [METRES.get(s.unit or "") for s in (own, other)]
    if own.unit != other.unit and None in units:
        raise ValueError(f"{name}: the labels are in {own.unit}, but like is in {other.unit}")
    unit = 1.0 if own.unit == other.unit else float(units[0]) / float(units[1])  # type: ignore[arg-type]
    scale, offset = [], []
    for axis in (1, 2):
        size, other_size = own.voxel_size[axis], other.voxel_size[axis]
        first, other_first = own.origin[axis] - size / 2, other.origin[axis] - other_size / 2
        # Ratios of pixels are integers, up to the rounding of voxel sizes.
        scale.append(_whole(size * unit / other_size))
        offset.append(_whole((first * unit - other_first) / other_size))
    if scale == [1.0, 1.0] and offset == [0.0, 0.0]:
        return None, (0.0, 0.0)
    return tuple(scale), (offset[0], offset[1])


def _whole(number: float) -> float:
    near = round(number)
    return float(near) if abs(number - near) < 1e-6 * max(1, abs(near)) else number


@dataclass(frozen=True, eq=False)
class OutlineSurvey(TableSurvey):
    """The corners of labels' outlines."""

    #: `scale`, `offset`: for `beam_volumes.across.rounds.outlines.CornerRows`.
    scale: tuple[float, float] | None
    offset: tuple[float, float]

    cost = 4.0
    row_bytes = _ROW_BYTES

    def table(self, shape: Triple) -> rows.CornerRows:
        return rows.corner_rows(shape[2], self.scale, self.offset)

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        pixels = (shape[1] + 2) * (shape[2] + 2)
        return 8 * pixels + 2 * _ROW_BYTES * (pixels // _PIXELS_PER_CORNER)

    def state_bytes(self, shape: Triple, windows: int) -> int:
        return 5 * _ROW_BYTES * (shape[1] * shape[2] // _PIXELS_PER_CORNER + 1024)

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        return _Corners(self, grid, index, limit_bytes)


class _Corners(RowSurveyor):
    """The corners of one slab."""

    def __init__(self, survey: OutlineSurvey, grid: Grid, index: int, limit_bytes: int) -> None:
        self.box, self.shape = grid.box(index), grid.shape
        self.table = survey.table(grid.shape)
        self.rows = Rows(self.table.merge, survey.row_bytes, limit_bytes)
        self.rows.add(self.table.empty())

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        (plane,) = arrays[0]
        if plane.dtype.kind == "i" and plane.size and plane.min() < 0:
            raise ValueError(f"outlines: a label is {plane.min()}; labels must be at least 0")

        def strip(a: int, b: int) -> Any:
            return rows.corners(self.table, plane, self.box.start, self.shape, (a, b))

        _, height, _ = self.box.shape
        for part in in_strips(height, plane.size // SHARE, threads, strip):
            self.rows.add(part)
