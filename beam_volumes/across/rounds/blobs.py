"""Blobs from the peaks of all scales: overlapping ones are removed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from beam_volumes.across.rounds.extrema import NearbyStep
from beam_volumes.across.rounds.records import Records
from beam_volumes.across.rounds.tables import Columns

#: The maximum number of blobs in a batch, to find their neighbours.
BATCH = 200
#: The approximate number of pairs of a batch.
PAIRS = 20_000


@dataclass(frozen=True, eq=False)
class Blobs(NearbyStep):
    """Blobs, from the strongest on; equally strong ones in raster order, then by scale.

    The inputs are the peaks of each scale. Overlapping blobs form groups; a blob only depends on its group.
    """

    #: The standard deviations of each scale, for each axis or for all.
    sigmas: tuple[tuple[float, ...], ...]
    overlap: float

    remedy = ", or use a higher threshold"

    @property
    def entries(self) -> tuple[str, ...]:
        return tuple(f"scale{k}" for k in range(len(self.sigmas)))

    @property
    def size_names(self) -> tuple[str, ...]:
        if len(self.sigmas[0]) == 1:
            return ("sigma",)
        return tuple(f"sigma_{axis}" for axis in self.axes)

    @cached_property
    def _reaches(self) -> np.ndarray:
        """The distance within which a blob of each scale may overlap another one."""
        scales = np.array(self.sigmas)
        return np.array([reach(s[None], scales, len(self.shape)).max() for s in scales])

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_reaches"}

    @property
    def max_reach(self) -> float:
        return float(self._reaches.max())

    def _scales(self, rows: Columns) -> np.ndarray:
        return (rows["place"] % self.kinds).astype(np.int64)

    def _sizes(self, rows: Columns) -> np.ndarray:
        return np.array(self.sigmas)[self._scales(rows)].reshape(-1, len(self.sigmas[0]))

    def reaches(self, rows: Columns) -> np.ndarray:
        return self._reaches[self._scales(rows)]

    def decided(self, rows: Records, is_open: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        places, sizes = self.positions(rows.columns).astype(np.float64), self._sizes(rows.columns)
        return without_overlapping(places, sizes, self.overlap, is_open)

    def ranked(self, rows: Columns) -> Columns:
        return {
            **dict(zip(self.axes, self.positions(rows).T, strict=True)),
            **dict(zip(self.size_names, self._sizes(rows).T, strict=True)),
            "intensity": rows["intensity"],
        }


def without_overlapping(
    places: np.ndarray, sigmas: np.ndarray, overlap: float, is_open: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The blobs that remain if of two that overlap by a larger fraction, the smaller one is removed.

    Pairs are compared in order of the blobs. A removed blob removes no others. Open blobs may overlap others
    that are not given: they wait, with all blobs of their groups. The second result are waiting blobs.

    >>> points, sizes = np.array([[0.0, 0], [1, 0], [9, 0]]), np.array([[2.0], [3], [2]])
    >>> without_overlapping(points, sizes, 0.5, np.zeros(3, bool))
    (array([1, 2]), array([], dtype=int64))
    >>> without_overlapping(points, sizes, 0.5, np.array([1, 0, 0], bool))
    (array([2]), array([0, 1]))
    """
    is_kept, links = np.ones(len(places), bool), _Groups(len(places))
    for a, b in _near(places, sigmas):
        over = overlaps(places[a], sigmas[a], places[b], sigmas[b]) > overlap
        first, second = a[over], b[over]
        if is_open.any():
            links.add(first, second)
        first_is_larger = sigmas[first, -1] > sigmas[second, -1]
        for one, other, larger in zip(
            first.tolist(), second.tolist(), first_is_larger.tolist(), strict=True
        ):
            if is_kept[one] and is_kept[other]:
                is_kept[other if larger else one] = False
    group = links.groups()
    waits = np.isin(group, group[is_open])
    return np.flatnonzero(is_kept & ~waits), np.flatnonzero(waits)


class _Groups:
    """Connected groups of blobs. Dense blobs have many pairs, so that not all of these are kept."""

    def __init__(self, number: int) -> None:
        self.group = np.arange(number)
        self.pairs: list[np.ndarray] = []
        self.pending = 0

    def add(self, first: np.ndarray, second: np.ndarray) -> None:
        known = self.group[first], self.group[second]
        is_new = known[0] != known[1]
        self.pairs.append(np.stack(known)[:, is_new])
        self.pending += np.count_nonzero(is_new)
        if self.pending > len(self.group):
            self.groups()

    def groups(self) -> np.ndarray:
        """The number of the group of each blob."""
        if self.pending:
            first, second = np.concatenate(self.pairs, axis=1)
            number = len(self.group)
            links = scipy.sparse.coo_array(
                (np.ones(len(first), bool), (first, second)), (number, number)
            )
            _, joined = scipy.sparse.csgraph.connected_components(links, directed=False)
            self.group, self.pairs, self.pending = joined[self.group], [], 0
        return self.group


def reach(sigmas: np.ndarray, others: np.ndarray, ndim: int) -> np.ndarray:
    """The distance within which blobs may overlap."""
    share = np.minimum(sigmas[:, -1], others[:, -1]) / np.maximum(sigmas[:, -1], others[:, -1])
    larger: np.ndarray = np.maximum(sigmas, others).max(axis=1)
    return larger * (1 + share) * math.sqrt(ndim) * (1 + 1e-9)


def _near(places: np.ndarray, sigmas: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of blobs that may overlap, the earlier one first, in batches and in order."""
    scales, scale_of = np.unique(sigmas, axis=0, return_inverse=True)
    members = [np.flatnonzero(scale_of.ravel() == k) for k in range(len(scales))]
    trees = [scipy.spatial.cKDTree(places[of]) for of in members]
    start, size = 0, 1
    while start < len(places):
        batch = np.arange(start, min(start + size, len(places)))
        pairs = []
        for scale, of, tree in zip(scales, members, trees, strict=True):
            around = reach(sigmas[batch], scale[None], places.shape[1])
            found = tree.query_ball_point(places[batch], around)
            first = np.repeat(batch, [len(own) for own in found])
            second = of[np.fromiter(itertools.chain.from_iterable(found), np.int64, len(first))]
            is_later = second > first
            pairs.append((first[is_later], second[is_later]))
        a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
        order = np.lexsort((b, a))
        yield a[order], b[order]
        start += size
        # Dense blobs have many pairs, and small batches.
        size = max(1, min(BATCH, 2 * size, PAIRS * size // max(1, len(a))))


def overlaps(
    places: np.ndarray, sigmas: np.ndarray, others: np.ndarray, other_sigmas: np.ndarray
) -> np.ndarray:
    """The fraction of the smaller of two disks or balls inside the other; their radii are root(n) sigma.

    Each blob is compared with one of the others.

    >>> overlaps(np.zeros((2, 2)), np.ones((2, 1)), np.array([[0, 0], [9, 0]]), np.full((2, 1), 2.0))
    array([1., 0.])
    >>> overlaps(np.zeros((1, 3)), np.ones((1, 1)), np.array([[0, 0, 1]]), np.ones((1, 1))).round(3)
    array([0.579])
    """
    ndim = places.shape[1]
    is_larger = sigmas[:, -1:] > other_sigmas[:, -1:]
    scale = np.where(is_larger, sigmas, other_sigmas)
    small = np.minimum(sigmas[:, -1], other_sigmas[:, -1]) / scale[:, -1]
    d = np.sqrt(np.square((others - places) / (scale * math.sqrt(ndim))).sum(axis=1))
    inside, outside = d <= 1 - small, d > 1 + small
    d = np.where(inside | outside, 1, d)
    if ndim == 1:
        fraction = (1 + small - d) / (2 * small)
    elif ndim == 2:
        angle = np.arccos(((d * d + 1 - small**2) / (2 * d)).clip(-1, 1))
        other = np.arccos(((d * d + small**2 - 1) / (2 * d * small)).clip(-1, 1))
        sides = (1 + small - d) * (d - small + 1) * (d + small - 1) * (d + small + 1)
        area = angle + small**2 * other - 0.5 * np.sqrt(np.abs(sides))
        fraction = area / (math.pi * small**2)
    else:
        longer = d * d + 2 * d * (1 + small) - 3 * (1 - small) ** 2
        volume = math.pi / (12 * d) * (1 + small - d) ** 2 * longer
        fraction = volume / (4 / 3 * math.pi * small**3)
    return np.where(inside, 1.0, np.where(outside, 0.0, fraction))
