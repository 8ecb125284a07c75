"""Match fragments of overlapping tiles by their shared voxels.

A *fragment* is the set of voxels of a tile with one label. Two neighbouring tiles share voxels. The
counts of shared voxels for each pair of fragments decide which of them are joined. A slab reports
its part of each tile (`TilePart`); the parts of a tile merge exactly, in any order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

#: Rules to join fragments.
RULES = ("iou", "touch", "largest")


@dataclass(frozen=True, eq=False)
class Pairs:
    """Voxels shared by a tile and the next one along an axis, by label; 0 in one of them."""

    labels: np.ndarray  #: uint64 (n, 2). In the tile, and in the next one.
    counts: np.ndarray  #: int64 (n)

    @property
    def nbytes(self) -> int:
        return self.labels.nbytes + self.counts.nbytes


@dataclass(frozen=True, eq=False)
class TilePart:
    """The part of a tile in a slab."""

    labels: np.ndarray  #: uint64 (n). Of voxels that the tile owns, increasing.
    first: np.ndarray  #: int64 (n). The index in the volume of the first voxel of each.
    sizes: np.ndarray  #: int64 (n). Number of voxels that the tile owns of each.
    pairs: Mapping[int, Pairs]  #: Shared voxels, by axis.

    @property
    def nbytes(self) -> int:
        own = self.labels.nbytes + self.first.nbytes + self.sizes.nbytes
        return own + sum(p.nbytes for p in self.pairs.values())

    @classmethod
    def empty(cls) -> TilePart:
        none = np.empty(0, np.int64)
        return cls(np.empty(0, np.uint64), none, none, {})


def merged(parts: Iterable[TilePart]) -> TilePart:
    """Merge the parts of a tile from several slabs or windows.

    >>> def part(*labels):
    ...     n = np.arange(len(labels))
    ...     return TilePart(np.array(labels, "u8"), n, n + 1, {})
    >>> whole = merged([part(3, 8), part(8)])
    >>> whole.labels.tolist(), whole.first.tolist(), whole.sizes.tolist()
    ([3, 8], [0, 0], [1, 3])
    """
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    labels, place = np.unique(
        np.concatenate([np.empty(0, np.uint64), *(p.labels for p in parts)]), return_inverse=True
    )
    first = np.full(len(labels), np.iinfo(np.int64).max)
    sizes = np.zeros(len(labels), np.int64)
    if parts:
        np.minimum.at(first, place, np.concatenate([p.first for p in parts]))
        np.add.at(sizes, place, np.concatenate([p.sizes for p in parts]))
    axes = sorted({a for p in parts for a in p.pairs})
    return TilePart(
        labels, first, sizes, {a: added([p.pairs[a] for p in parts if a in p.pairs]) for a in axes}
    )


def added(parts: Iterable[Pairs]) -> Pairs:
    """Add up counts of equal pairs, sorted by pair."""
    parts = list(parts)
    labels, place = np.unique(
        np.concatenate([np.empty((0, 2), np.uint64), *(p.labels for p in parts)]),
        axis=0,
        return_inverse=True,
    )
    counts = np.zeros(len(labels), np.int64)
    np.add.at(counts, place.reshape(-1), np.concatenate([counts[:0], *(p.counts for p in parts)]))
    return Pairs(labels, counts)


def matches(pairs: Pairs, rule: str, threshold: float) -> np.ndarray:
    """The pairs of fragments (uint64, two columns) to join by one of `RULES`, sorted.

    ``pairs`` are `added`, of all voxels that two tiles share.

    >>> labels = np.array([[1, 5], [1, 6], [2, 6], [0, 6]], "u8")
    >>> pairs = added([Pairs(labels, np.array([8, 2, 3, 2]))])
    >>> [matches(pairs, rule, 0.5).tolist() for rule in RULES]
    [[[1, 5]], [[1, 5], [1, 6], [2, 6]], [[1, 5], [2, 6]]]
    """
    # ``"touch"``: they share a voxel. ``"iou"``: they share at least ``threshold`` of the voxels that either
    # has there. ``"largest"``: each shares more voxels with the other than with any third one; the smaller
    # label wins ties.
    both = (pairs.labels != 0).all(axis=1)
    found, counts = pairs.labels[both], pairs.counts[both]
    if rule == "touch" or not len(found):
        return found
    if rule == "iou":
        below, above = (_sizes(pairs, side)[_places(pairs, side)][both] for side in (0, 1))
        return found[counts / (below + above - counts) >= threshold]
    best = [_best(found[:, side], found[:, 1 - side], counts) for side in (0, 1)]
    return found[best[0] & best[1]]


def _places(pairs: Pairs, side: int) -> np.ndarray:
    return np.unique(pairs.labels[:, side], return_inverse=True)[1].reshape(-1)


def _sizes(pairs: Pairs, side: int) -> np.ndarray:
    """Voxels of each label of a side, by its position."""
    place = _places(pairs, side)
    sizes = np.zeros(place.max(initial=-1) + 1, np.int64)
    np.add.at(sizes, place, pairs.counts)
    return sizes


def _best(own: np.ndarray, other: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Whether each pair has the most voxels of its own label; the smaller other label wins."""
    order = np.lexsort((other, -counts, own))
    is_first = np.ones(len(own), bool)
    is_first[1:] = own[order][1:] != own[order][:-1]
    best = np.zeros(len(own), bool)
    best[order] = is_first
    return best
