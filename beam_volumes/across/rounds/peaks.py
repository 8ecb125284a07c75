"""Of a table of peaks those that are far enough from higher ones, by height."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from beam_volumes.across.rounds.chains import TableStep
from beam_volumes.across.rounds.floods import Onward
from beam_volumes.across.rounds.flow import Flow, Key, Message, Round
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import Columns, table_flow
from beam_volumes.base.text import format_bytes

#: What is held for a peak.
PEAK_BYTES = 300
#: Peaks that are compared with each other at once.
BATCH = 1000


@dataclass(frozen=True, eq=False)
class Peaks(TableStep):
    """The rows of peaks, from the highest on; equally high ones in raster order.

    The input is a table of ``label``, the linear index of a voxel plus one, and ``intensity_max``.
    """

    shape: tuple[int, ...]  #: Of the volume.
    axes: tuple[str, ...]  #: Their names.
    dtype: np.dtype  #: Of intensities.
    #: For each axis, how far apart peaks have to be; or one number for all.
    distance: tuple[int, ...]
    p_norm: float
    most: int | None  #: Peaks at most.

    entries = ("peaks",)

    @property
    def rows(self) -> RecordRows:
        places = tuple((axis, "<i8") for axis in self.axes)
        return RecordRows((("rank", "<u8"), *places, ("intensity", self.dtype.str)))

    def flow(self, limit_bytes: int | None = None) -> Flow:
        table = table_flow(
            self.rows, 1, limit_bytes=limit_bytes, row_bytes=8 * len(self.rows.names)
        )
        first, *rest = table.rounds
        return Flow(
            (
                Onward("peaks", ("all",), ("label", "intensity_max")),
                _Chosen("all", first.to, first, self, limit_bytes),
                *rest,
            ),
            table.ports,
        )

    def no_rows(self) -> Columns:
        return self.rows.columns(self.rows.empty())


@dataclass(frozen=True, eq=False)
class _Chosen(Round):
    """Under ``()``: the peaks that remain."""

    table: Round
    of: Peaks
    limit_bytes: int | None

    def step(self, key: Key, values: list[Any]) -> Iterator[Message]:
        parts = list({shard: part for shard, *part in values}.values())
        need = PEAK_BYTES * sum(len(p[0]) for p in parts)
        if self.limit_bytes is not None and need > self.limit_bytes:
            raise ValueError(
                f"{self.of.name}: all peaks meet in one step, {format_bytes(need)}; a worker has "
                f"{format_bytes(self.limit_bytes)} for it: give more memory=, a higher threshold, or a "
                "larger min_distance"
            )
        labels, heights = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
        order = np.argsort(labels)
        order = order[::-1][np.argsort(heights[order][::-1], kind="stable")][::-1]
        labels, heights = labels[order], heights[order]
        at = np.unravel_index(labels.astype(np.int64) - 1, self.of.shape)
        places = np.stack(at, axis=1).reshape(-1, len(self.of.shape))
        chosen = without_near(places, self.of.distance, self.of.p_norm, self.of.most)
        columns = dict(zip(self.of.axes, places[chosen].T, strict=True))
        kind = self.of.rows
        made = {"rank": np.arange(1, len(chosen) + 1), **columns, "intensity": heights[chosen]}
        yield from self.table.step(key or (0,), [kind.records(made)])


def without_near(
    places: np.ndarray, distance: tuple[int, ...], p_norm: float, maximum: int | None
) -> np.ndarray:
    """Which points remain if each one, in order, drops those that come after and are nearer than a distance.

    >>> without_near(np.array([[0], [2], [3], [5]]), (3,), np.inf, None)
    array([0, 2])
    """
    maximum = len(places) if maximum is None else maximum
    if max(distance) <= 1:
        return np.arange(min(maximum, len(places)))
    scaled, near = places.astype(np.float64), float(distance[0])
    if len(set(distance)) > 1:
        # What is no distance along an axis is far.
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
