"""Translations of single slices of tiles, from links between slices of neighbouring tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from beam_volumes.ops.geometry.registration.links import factorized

#: The limits of the expected error of a link, in voxels, and the error of a link of weight 1.
_MIN_ERROR, _MAX_ERROR, _ERROR = 0.03, 1.0, 2.0
#: The least deviation of the movements, in voxels, and their largest correlation in successive slices.
_MIN_DEVIATION, _MAX_CORRELATION = 0.05, 0.98
#: The deviation of a tile relative to all others from which it is not chance.
_LARGER = 2.0
#: The deviation of a tile that does not move.
_FIXED = 1e-4
#: The median of squares of standard normal numbers.
_MEDIAN_SQUARE = 0.4549
#: Solutions with a decreasing scale of residuals, which ends at this many voxels.
_STEPS, _SCALE = 8, 0.5


@dataclass(frozen=True)
class SliceLinks:
    """Measured positions of slices of a tile relative to slices of another tile."""

    ends: (
        np.ndarray
    )  #: The numbers of both slices, (links, 2); successive links are of successive slices
    away: np.ndarray  #: The difference from the distance of the tiles, (links, axes)
    errors: np.ndarray  #: The expected error, in voxels

    @classmethod
    def of(
        cls, ends: Sequence[tuple[int, int]], away: Sequence[np.ndarray], weights: Sequence[float]
    ) -> SliceLinks:
        """Return links from their weights, which are inverse errors up to a factor."""
        return cls(
            np.array(ends, int).reshape(-1, 2),
            np.array(away, np.float64).reshape(-1, 2),
            np.clip(_ERROR / np.array(weights, np.float64), _MIN_ERROR, _MAX_ERROR),
        )


def movements(
    counts: Sequence[int], links: Sequence[SliceLinks], fixed: int | None = None
) -> np.ndarray:
    """Return the movement of each slice of all tiles, (slices, 2); tiles have ``counts`` of slices.

    Without links, slices follow their neighbours as far as the movements of successive slices are alike.
    """
    # The movements of a tile are an autoregressive process of order 1. The correlation of successive slices
    # follows from all links, and the deviation, too. A single tile of many may wobble: its own links show
    # this if the deviation is much larger. The mean of the solution is the most probable movement, so slices
    # without links have at most the expected error of the tile's own position.
    total = sum(counts)
    links = [one for one in links if len(one.ends)]
    if not links:
        return np.zeros((total, 2))
    first = np.cumsum([0, *counts])[:-1]
    of_tile = np.repeat(np.arange(len(counts)), counts)
    correlation = _correlation(links)
    of_links: list[list[SliceLinks]] = [[] for _ in counts]
    for one in links:
        for k in of_tile[one.ends[0]]:
            of_links[k].append(one)
    own = np.array([_deviation(some or links) for some in of_links])
    usual = _deviation(links)
    deviation = np.where(own > _LARGER * usual, own, usual)[of_tile]
    step = 1 / (deviation * np.sqrt(1 - correlation**2))
    step[first] = 1 / deviation[first]
    if fixed is not None:
        step[of_tile == fixed] = 1 / _FIXED
    before = -correlation * step
    before[first] = 0.0
    prior = sparse.diags([step, before[1:]], [0, -1])
    ends = np.concatenate([one.ends for one in links])
    away = np.concatenate([one.away for one in links])
    errors = np.concatenate([one.errors for one in links])
    rows = np.arange(len(ends))
    signs = np.ones(len(ends))
    differences = sparse.coo_matrix(
        (np.concatenate([-signs, signs]), (np.tile(rows, 2), ends.T.ravel())), (len(ends), total)
    ).tocsr()
    found, factors = np.zeros((total, 2)), signs
    scale = np.inf
    for _ in range(_STEPS):
        weights = factors / errors**2
        normal = differences.T @ sparse.diags(weights) @ differences + prior.T @ prior
        found = factorized(normal.tocsc()).solve(differences.T @ (weights[:, None] * away))
        residuals = np.linalg.norm(differences @ found - away, axis=1)
        scale = max(_SCALE, min(residuals.max(), scale) / 2)
        factors = 1 / (1 + (residuals / scale) ** 2) ** 2
    return np.asarray(found)


def _deviation(links: Sequence[SliceLinks]) -> float:
    """Return the deviation of movements from the median of links, which have the movements of two slices."""
    square = np.median(np.concatenate([one.away for one in links]) ** 2) / _MEDIAN_SQUARE
    return max(float(np.sqrt(square / 2)), _MIN_DEVIATION)


def _correlation(links: Sequence[SliceLinks]) -> float:
    """Return the correlation of successive slices, from medians."""
    square = np.median(np.concatenate([one.away for one in links]) ** 2)
    changes = [
        np.diff(one.away, axis=0)[(np.diff(one.ends, axis=0) == 1).all(axis=1)] for one in links
    ]
    steps = np.concatenate(changes)
    if not steps.size or not square:
        return 0.0
    return float(np.clip(1 - np.median(steps**2) / (2 * square), 0.0, _MAX_CORRELATION))
