"""Blobs from the peaks of all scales: overlapping ones are removed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import scipy

from beam_volumes.across.rounds.extrema import PEAK_BYTES
from beam_volumes.across.rounds.gathered import GatheredStep, Given
from beam_volumes.across.rounds.records import RecordRows, Records

#: The number of blobs in a batch, to find their neighbours.
BATCH = 200


@dataclass(frozen=True, eq=False)
class Blobs(GatheredStep):
    """The rows of blobs, from the strongest on; equally strong ones in raster order, then by scale.

    Inputs, one per scale, have ``label``, the linear index of a voxel plus one, and ``intensity_max``.
    """

    shape: tuple[int, ...]  #: Shape of the volume.
    axes: tuple[str, ...]  #: Names of the axes.
    dtype: np.dtype  #: Dtype of responses.
    #: The standard deviations of each scale, for each axis or for all.
    sigmas: tuple[tuple[float, ...], ...]
    overlap: float

    gathered = "peaks"
    remedy = ", or a higher threshold"

    @property
    def used(self) -> Mapping[str, tuple[tuple[str, ...], int]]:
        columns = ("label", "intensity_max")
        return {f"scale{k}": (columns, PEAK_BYTES) for k in range(len(self.sigmas))}

    @property
    def rows(self) -> RecordRows:
        places = tuple((axis, "<i8") for axis in self.axes)
        sizes = tuple((name, "<f8") for name in self.size_names)
        return RecordRows((("rank", "<u8"), *places, *sizes, ("intensity", self.dtype.str)))

    @property
    def size_names(self) -> tuple[str, ...]:
        if len(self.sigmas[0]) == 1:
            return ("sigma",)
        return tuple(f"sigma_{axis}" for axis in self.axes)

    def made(self, given: Given) -> Records:
        parts = [given[entry] for entry in self.entries]
        labels = np.concatenate([labels for labels, _ in parts]).astype(np.int64) - 1
        heights = np.concatenate([heights for _, heights in parts]).astype(self.dtype)
        scales = np.repeat(np.arange(len(parts)), [len(labels) for labels, _ in parts])
        order = np.lexsort((scales, labels, -heights))
        labels, heights, scales = labels[order], heights[order], scales[order]
        places = np.stack(np.unravel_index(labels, self.shape), axis=1)
        sizes = np.array(self.sigmas)[scales].reshape(len(labels), len(self.sigmas[0]))
        kept = without_overlapping(places.astype(np.float64), sizes, self.overlap)
        columns = {
            "rank": np.arange(1, len(kept) + 1),
            **dict(zip(self.axes, places[kept].T, strict=True)),
            **dict(zip(self.size_names, sizes[kept].T, strict=True)),
            "intensity": heights[kept],
        }
        return self.rows.records(columns)


def without_overlapping(places: np.ndarray, sigmas: np.ndarray, overlap: float) -> np.ndarray:
    """The blobs that remain if of two that overlap by a larger fraction, the smaller one is removed.

    Pairs are compared in order of the blobs. A removed blob removes no others.

    >>> without_overlapping(np.array([[0.0, 0], [1, 0], [9, 0]]), np.array([[2.0], [3], [2]]), 0.5)
    array([1, 2])
    """
    is_kept = np.ones(len(places), bool)
    for a, b in _near(places, sigmas):
        over = overlaps(places[a], sigmas[a], places[b], sigmas[b]) > overlap
        first_is_larger = sigmas[a, -1] > sigmas[b, -1]
        for one, other, larger in zip(
            a[over].tolist(), b[over].tolist(), first_is_larger[over].tolist(), strict=True
        ):
            if is_kept[one] and is_kept[other]:
                is_kept[other if larger else one] = False
    return np.flatnonzero(is_kept)


def _near(places: np.ndarray, sigmas: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All pairs of blobs that may overlap, the earlier one first, in batches and in order."""
    scales, scale_of = np.unique(sigmas, axis=0, return_inverse=True)
    members = [np.flatnonzero(scale_of.ravel() == k) for k in range(len(scales))]
    trees = [scipy.spatial.cKDTree(places[of]) for of in members]
    for start in range(0, len(places), BATCH):
        batch = np.arange(start, min(start + BATCH, len(places)))
        pairs = []
        for scale, of, tree in zip(scales, members, trees, strict=True):
            larger = np.maximum(sigmas[batch], scale).max(axis=1)
            ends = sigmas[batch, -1], scale[-1]
            share = np.minimum(*ends) / np.maximum(*ends)
            reach = larger * (1 + share) * math.sqrt(places.shape[1]) * (1 + 1e-9)
            found = tree.query_ball_point(places[batch], reach)
            first = np.repeat(batch, [len(own) for own in found])
            second = of[np.fromiter(itertools.chain.from_iterable(found), np.int64, len(first))]
            is_later = second > first
            pairs.append((first[is_later], second[is_later]))
        a, b = (np.concatenate(side) for side in zip(*pairs, strict=True))
        order = np.lexsort((b, a))
        yield a[order], b[order]


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
