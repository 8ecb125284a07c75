"""Steps for extrema: peaks that are far enough apart, and the heights of floods in basins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from beam_volumes.across.rounds.gathered import GatheredStep, Given
from beam_volumes.across.rounds.records import RecordRows, Records
from beam_volumes.kernels.labels.saddles import lowest_floods

#: Bytes for a peak.
PEAK_BYTES = 300
#: Peaks that are compared with each other in one step.
BATCH = 1000


@dataclass(frozen=True, eq=False)
class Peaks(GatheredStep):
    """The rows of peaks, from the highest on; equally high ones in raster order.

    The input is a table of ``label``, the linear index of a voxel plus one, and ``intensity_max``.
    """

    shape: tuple[int, ...]  #: Shape of the volume.
    axes: tuple[str, ...]  #: Names of the axes.
    dtype: np.dtype  #: Dtype of intensities.
    #: Minimum distance of peaks, for each axis or for all.
    distance: tuple[int, ...]
    p_norm: float
    maximum: int | None  #: Maximum number of peaks.

    gathered = "peaks"
    remedy = ", a higher threshold, or a larger min_distance"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        return {"peaks": (("label", "intensity_max"), PEAK_BYTES)}

    @property
    def rows(self) -> RecordRows:
        places = tuple((axis, "<i8") for axis in self.axes)
        return RecordRows((("rank", "<u8"), *places, ("intensity", self.dtype.str)))

    def made(self, given: Given) -> Records:
        labels, heights = given["peaks"]
        order = np.argsort(labels)
        order = order[::-1][np.argsort(heights[order][::-1], kind="stable")][::-1]
        labels, heights = labels[order], heights[order]
        at = np.unravel_index(labels.astype(np.int64) - 1, self.shape)
        places = np.stack(at, axis=1).reshape(-1, len(self.shape))
        chosen = without_near(places, self.distance, self.p_norm, self.maximum)
        columns = dict(zip(self.axes, places[chosen].T, strict=True))
        ranks = np.arange(1, len(chosen) + 1)
        return self.rows.records({"rank": ranks, **columns, "intensity": heights[chosen]})


def without_near(
    places: np.ndarray, distance: tuple[int, ...], p_norm: float, maximum: int | None
) -> np.ndarray:
    """The points that remain if each one, in order, removes later ones nearer than a distance.

    >>> without_near(np.array([[0], [2], [3], [5]]), (3,), np.inf, None)
    array([0, 2])
    """
    maximum = len(places) if maximum is None else maximum
    if max(distance) <= 1:
        return np.arange(min(maximum, len(places)))
    scaled, near = places.astype(np.float64), float(distance[0])
    if len(set(distance)) > 1:
        # A distance of 0 along an axis separates all different positions.
        scaled, near = scaled / np.maximum(distance, 1e-9), 1.0
    metric: dict[str, Any] = {"metric": "minkowski", "p": p_norm}
    if p_norm == np.inf:
        metric = {"metric": "chebyshev"}
    kept: list[int] = []
    for start in range(0, len(places), BATCH):
        batch = scaled[start : start + BATCH]
        free = np.ones(len(batch), bool)
        if kept:
            free = cKDTree(scaled[kept]).query(batch, p=p_norm)[0] >= near
        close = cdist(batch, batch, **metric) < near
        for k in range(len(batch)):
            if free[k]:
                kept.append(start + k)
                free[k + 1 :] &= ~close[k, k + 1 :]
        if len(kept) >= maximum:
            break
    return np.array(kept[:maximum], np.int64)


#: Bytes for a basin, and for a pass.
BASIN_BYTES, PASS_BYTES = 150, 100


@dataclass(frozen=True, eq=False)
class Floods(GatheredStep):
    """For each basin the lowest level of a flood that comes from the level of any basin.

    The first input is a table of pairs of basins and the passes between them (``label_a``,
    ``label_b``, ``boundary_min``), the second one of all basins and their levels.
    """

    dtype: np.dtype  #: Dtype of levels.
    levels: tuple[str, str]  #: Columns of basins and levels.
    #: The sign of zero in results: rows arrive in any order, so no row can determine it.
    zero: float

    gathered = "basins and passes between them"
    remedy = ", or smooth the volume first"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        passes = ("label_a", "label_b", "boundary_min")
        return {"passes": (passes, PASS_BYTES), "levels": (self.levels, BASIN_BYTES)}

    @property
    def rows(self) -> RecordRows:
        return RecordRows((("label", "<u8"), ("level", self.dtype.str)))

    def made(self, given: Given) -> Records:
        labels, own = given["levels"]
        order = np.argsort(labels)
        labels, own = labels[order], own[order]
        a, b, height = given["passes"]
        order = np.argsort(height, kind="stable")
        ends = [np.searchsorted(labels, side[order].astype(labels.dtype)) for side in (a, b)]
        floods = lowest_floods(
            ends[0].astype(np.int64),
            ends[1].astype(np.int64),
            np.where(height == 0, self.zero, height)[order],
            np.where(own == 0, self.zero, own.astype(np.float64)),
        )
        return self.rows.of(label=labels, level=floods.astype(self.dtype))
