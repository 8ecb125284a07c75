"""Peaks that are far enough apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from beam_volumes.across.rounds.gathered import GatheredStep, Given
from beam_volumes.across.rounds.records import RecordRows, Records

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
    with_regions: bool = False  #: Whether the second input has the label around each peak.
    each: int | None = None  #: Maximum number of peaks of a label.

    gathered = "peaks"
    remedy = ", a higher threshold, or a larger min_distance"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        names = ("label", "intensity_max")
        regions = {"regions": (names, 16)} if self.with_regions else {}
        return {"peaks": (names, PEAK_BYTES), **regions}

    @property
    def rows(self) -> RecordRows:
        places = tuple((axis, "<i8") for axis in self.axes)
        label = (("label", "<u8"),) if self.with_regions else ()
        return RecordRows((("rank", "<u8"), *label, *places, ("intensity", self.dtype.str)))

    def made(self, given: Given) -> Records:
        labels, heights = given["peaks"]
        order = np.argsort(labels)
        order = order[::-1][np.argsort(heights[order][::-1], kind="stable")][::-1]
        labels, heights = labels[order], heights[order]
        at = np.unravel_index(labels.astype(np.int64) - 1, self.shape)
        places = np.stack(at, axis=1).reshape(-1, len(self.shape))
        columns = {}
        if self.with_regions:
            around, region = given["regions"]
            columns["label"] = region[np.argsort(around)[np.searchsorted(np.sort(around), labels)]]
            chosen = self._of_regions(places, columns["label"])
        else:
            chosen = self._spaced(places, self.maximum)
        columns |= dict(zip(self.axes, places.T, strict=True)) | {"intensity": heights}
        ranks = np.arange(1, len(chosen) + 1)
        return self.rows.records({"rank": ranks} | {c: v[chosen] for c, v in columns.items()})

    def _spaced(self, places: np.ndarray, maximum: int | None) -> np.ndarray:
        return without_near(places, self.distance, self.p_norm, maximum)

    def _of_regions(self, places: np.ndarray, region: np.ndarray) -> np.ndarray:
        """Return the peaks of each label, by label; or the highest if there are too many."""
        by_label = np.argsort(region, kind="stable")
        groups = np.split(by_label, np.flatnonzero(np.diff(region[by_label])) + 1)
        chosen = np.concatenate([some[self._spaced(places[some], self.each)] for some in groups])
        if self.maximum is None or len(chosen) <= self.maximum:
            return chosen
        chosen.sort()  # from the highest on
        return chosen[self._spaced(places[chosen], self.maximum)]


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
            free = scipy.spatial.cKDTree(scaled[kept]).query(batch, p=p_norm)[0] >= near
        close = scipy.spatial.distance.cdist(batch, batch, **metric) < near
        for k in range(len(batch)):
            if free[k]:
                kept.append(start + k)
                free[k + 1 :] &= ~close[k, k + 1 :]
        if len(kept) >= maximum:
            break
    return np.array(kept[:maximum], np.int64)
