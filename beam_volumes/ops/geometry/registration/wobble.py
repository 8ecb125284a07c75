"""Translations of single slices of tiles, from links between slices of neighbouring tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lsqr

from beam_volumes.ops.geometry.registration.links import bridges_of, connected, factorized

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
#: Links with residuals of at most this many expected errors do not contradict others, either.
_ERRORS = 4.0
#: Links with residuals of more than this many medians of all contradict others, if these are more voxels.
_TYPICAL, _FINE_SCALE = 8.0, 0.3
#: The least probability and factor of a link that is compared with others, and the weight that keeps slices
#: without links where they are.
_MIN_RIGHT, _MIN_WEIGHT, _GROUND = 0.01, 1e-4, 1e-8
#: The number of deviations from which a change of successive slices is a jump, and the change of weights
#: after which no further solution is needed.
_JUMP, _SETTLED = 3.0, 1e-3
#: Links of successive slices on each side, from which the next movement is expected.
_WINDOW = 3
#: Steps of expectation and maximization, and links of other pairs that each pair adds to its own.
_EXPECTATIONS, _FEW = 20, 4.0
#: The usual deviation of links far from their neighbours, relative to the reach.
_FAR = 0.125
#: The usual shares of links that are near their neighbours, far from them, and wrong.
_SHARES = (0.78, 0.02, 0.2)
#: The probability from which a link is used that no loop confirms: a wrong link does more harm than a right
#: one that is not used.
_MIN_PROBABILITY = 0.75
#: Pairs with at most this many links are compared with the distance of their tiles. The mean of links may
#: differ by this many voxels and this share of the links, and by this many deviations due to missing links.
_MAX_FEW, _BALANCE, _MISSING = 8, 0.15, 2.0
#: The least sum of densities.
_TINY = 1e-300
#: The probability from which a link that disagrees is as probable as those that it contradicts.
_PROBABLE = 0.9
#: The share of wrong links up to which two links that agree far from all others are no chance.
_FEW_WRONG = 0.1
#: The share of the links of a tile that must agree with the solution.
_MIN_AGREEING = 0.6


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
    counts: Sequence[int],
    links: Sequence[SliceLinks],
    fixed: int | None,
    reach: np.ndarray,
    by_slices: Collection[int] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Return the movement of each slice of all tiles, (slices, 2), and which links agree with them.

    Tiles have ``counts`` of slices. Without links, slices follow their neighbours as far as the movements of
    successive slices are alike. ``reach`` is the largest difference of a link along both axes. Positions of
    the tiles ``by_slices`` follow from these links.
    """
    # The movements of a tile are an autoregressive process of order 1. The correlation of successive slices
    # follows from all links, and the deviation, too. A single tile of many may wobble: its own links show
    # this if the deviation is much larger. The mean of the solution is the most probable movement, so slices
    # without links have at most the expected error of the tile's own position.
    #
    # Loops of links show which links are wrong. The links that agree are therefore chosen without expected
    # movements, which would reject jumps. If most links of a tile contradict each other, the tile does not
    # move. A link without a loop must be probable from the other links of its pair: a single slice that moves
    # far from all others does not differ from a wrong link, and keeps the expected position.
    total = sum(counts)
    ends = np.concatenate([np.empty((0, 2), int), *(one.ends for one in links)])
    away = np.concatenate([np.empty((0, 2)), *(one.away for one in links)])
    errors = np.concatenate([np.empty(0), *(one.errors for one in links)])
    if not len(ends):
        return np.zeros((total, 2)), np.zeros(0, bool)
    of_ends = np.repeat(np.arange(len(counts)), counts)[ends]
    linked = [one for one in links if len(one.ends)]
    right = _probabilities(linked, reach, np.full(len(ends), np.nan))
    still = np.arange(len(counts)) == fixed
    tried = np.ones(len(ends), bool)
    while True:
        agreeing = _agreeing(total, ends, away, errors, right, tried)
        every, some = (
            np.bincount(of_ends[which].ravel(), minlength=len(counts))
            for which in (tried, agreeing)
        )
        wrong = (some < _MIN_AGREEING * every) & ~still
        if not wrong.any():
            break
        # The links of the tile with most wrong links may also be most wrong links of its neighbours.
        shares = np.where(wrong, some / np.maximum(every, 1), np.inf)
        worst = shares == shares.min()
        still = still | worst
        tried = tried & ~worst[of_ends].any(axis=1)
    if not agreeing.any():
        return np.zeros((total, 2)), agreeing
    if agreeing.sum() < (1 - _FEW_WRONG) * tried.sum():
        agreeing = agreeing & ~_improbable(total, ends, agreeing, right)
    by_loops = _in_loops(total, ends, agreeing)
    # If a link is only in a loop with a probable link that disagrees, one of them is wrong.
    doubtful = _in_loops(total, ends, agreeing | (tried & (right > _PROBABLE))) & ~by_loops
    agreeing = agreeing & ~doubtful
    # A loop does not confirm the other links: these must agree with links of their pair.
    known = np.where(by_loops, 1.0, np.where(agreeing, np.nan, 0.0))
    probable = agreeing & (_probabilities(linked, reach, known) > _MIN_PROBABILITY)
    is_whole = np.asarray(~np.isin(of_ends, list(by_slices)).any(axis=1))
    agreeing = by_loops | (probable & _balanced(counts, linked, by_loops | probable, is_whole))
    if not agreeing.any():
        return np.zeros((total, 2)), agreeing
    prior = _prior(counts, _chosen(links, agreeing), still)
    differences = _differences(total, ends[agreeing])
    heavy = 1 / errors[agreeing] ** 2
    is_sure = np.zeros(total, bool)
    is_sure[ends[agreeing]] = True
    may_jump = is_sure & np.append(False, is_sure[:-1])
    of_links = differences.T @ sparse.diags(heavy) @ differences
    wanted = differences.T @ (heavy[:, None] * away[agreeing])
    alike = np.ones(total)
    for _ in range(_STEPS):
        normal = of_links + prior.T @ sparse.diags(alike) @ prior
        found = np.asarray(factorized(normal.tocsc()).solve(wanted))
        squares = ((prior @ found) ** 2).sum(axis=1)
        before, alike = alike, np.where(may_jump, 1 / np.maximum(1, squares / _JUMP**2), 1)
        if abs(alike - before).max() < _SETTLED:
            break
    return found, agreeing


def _differences(total: int, ends: np.ndarray) -> sparse.csr_matrix:
    """Return the matrix of differences of the slices at both ends of links."""
    rows, signs = np.arange(len(ends)), np.ones(len(ends))
    return sparse.coo_matrix(
        (np.concatenate([-signs, signs]), (np.tile(rows, 2), ends.T.ravel())), (len(ends), total)
    ).tocsr()


def _agreeing(
    total: int,
    ends: np.ndarray,
    away: np.ndarray,
    errors: np.ndarray,
    right: np.ndarray,
    tried: np.ndarray,
) -> np.ndarray:
    """Return which of the links that are ``tried`` agree with most others; links without loops do."""
    # The least sum of absolute residuals is the start. The scale of residuals then decreases.
    differences = _differences(total, ends)
    # Wrong links can have small errors, so all but tiny weights become similar, but not equal.
    heavy = 1 / errors**2
    heavy = heavy / (heavy + 0.1 * np.median(heavy))
    own = np.where(tried, np.maximum(right, _MIN_RIGHT) * heavy, 0.0)
    scales = np.maximum(_SCALE, _ERRORS * errors)
    ground = sparse.identity(total) * _GROUND
    factors, scale = np.ones(len(ends)), np.inf
    for step in range(2 * _STEPS):
        weights = own * factors
        normal = differences.T @ sparse.diags(weights) @ differences + ground
        found = factorized(normal.tocsc()).solve(differences.T @ (weights[:, None] * away))
        residuals = np.linalg.norm(differences @ found - away, axis=1)
        if step < _STEPS:
            factors = errors / np.maximum(residuals, errors)
        else:
            scale = max(_SCALE, min(residuals[tried].max(initial=0.0), scale) / 2)
            factors = 1 / (1 + (residuals / np.maximum(scale, scales)) ** 2) ** 2
        factors = np.maximum(factors, _MIN_WEIGHT)
    agreeing = tried & (residuals <= scales)
    # If most links agree better than this, others are more probably wrong.
    typical = float(np.median((residuals / errors)[agreeing])) if agreeing.any() else 0.0
    fine = np.maximum(_FINE_SCALE, np.maximum(_ERRORS, _TYPICAL * typical) * errors)
    agreeing = agreeing & (residuals <= fine)
    # A slice with contradictions may have a single link left, which nothing confirms.
    contradicted = np.bincount(ends[~agreeing].ravel(), minlength=total) > 0
    while True:
        single = contradicted & (np.bincount(ends[agreeing].ravel(), minlength=total) == 1)
        loose = agreeing & (right <= 0.5) & single[ends].any(axis=1)
        if not loose.any():
            return np.asarray(agreeing)
        agreeing = agreeing & ~loose


def _in_loops(total: int, ends: np.ndarray, some: np.ndarray) -> np.ndarray:
    """Return which of ``some`` links are in a loop of these links."""
    unconfirmed = bridges_of(map(tuple, ends[some].tolist()), total)
    return some & [(min(pair), max(pair)) not in unconfirmed for pair in map(tuple, ends.tolist())]


def _improbable(total: int, ends: np.ndarray, some: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return which of ``some`` links are improbable, and move slices that at most two of these link."""
    probable = some & (right > 0.5)
    groups = connected(ends[probable], total)[ends]
    left = some & ~probable & (groups[:, 0] != groups[:, 1])
    found = np.zeros(len(ends), bool)
    while True:
        is_few = np.bincount(groups[left].ravel(), minlength=total) <= 2
        few = left & is_few[groups].any(axis=1)
        if not few.any():
            return found
        found, left = found | few, left & ~few


def _balanced(
    counts: Sequence[int], links: Sequence[SliceLinks], some: np.ndarray, is_whole: np.ndarray
) -> np.ndarray:
    """Return whether ``some`` links agree with the distance of their whole tiles, if a pair has few links."""
    # The movements of all slices of a tile have a mean near 0. A wrong link of few changes the mean of the
    # links. If some links are missing, the mean of the others is only near 0. Right links that are not used
    # are not missing if the mean of all links is near 0.
    of_slice = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum([0, *counts])
    found = []
    for one, own in zip(links, _parts_of(links, some & is_whole), strict=True):
        is_balanced = True
        if own.any() and len(own) <= _MAX_FEW:
            i, j = of_slice[one.ends[0]]
            shift = int(one.ends[0, 0] - first[i] - (one.ends[0, 1] - first[j]))
            slices = min(counts[i], counts[j] + shift) - max(0, shift)
            is_balanced = any(_has_no_mean(away, slices) for away in (one.away[own], one.away))
        found.append(np.full(len(own), is_balanced))
    return np.concatenate(found)


def _has_no_mean(away: np.ndarray, slices: int) -> bool:
    """Return whether the links of some of the ``slices`` have a mean near 0."""
    square = float((away**2).sum(axis=1).mean())
    missing = square * max(0.0, 1 - len(away) / slices) / len(away)
    limit = _BALANCE**2 * (1 + square) + _MISSING**2 * missing
    return bool((away.mean(axis=0) ** 2).sum() <= limit)


def of_whole_tiles(
    counts: Sequence[int], links: Sequence[SliceLinks], tiles: Collection[int]
) -> tuple[np.ndarray, list[SliceLinks]]:
    """Return movements of some ``tiles`` by the medians of links, (tiles, 2), and the links after them."""
    of_slice = np.repeat(np.arange(len(counts)), counts)
    pairs = [of_slice[one.ends[0]] if len(one.ends) else None for one in links]
    is_free = np.isin(np.arange(len(counts)), list(tiles))
    known = [
        (pair, np.median(one.away, axis=0), math.sqrt(len(one.ends)))
        for pair, one in zip(pairs, links, strict=True)
        if pair is not None and is_free[pair].any()
    ]
    moved = np.zeros((len(counts), 2))
    if not known:
        return moved, list(links)
    heavy = np.array([weight for _, _, weight in known])
    rows = np.tile(np.arange(len(known)), 2)
    columns = np.array([pair for pair, _, _ in known]).T.ravel()
    shape = len(known), len(counts)
    matrix = sparse.coo_matrix((np.concatenate([-heavy, heavy]), (rows, columns)), shape).tocsc()
    # The smallest solution: tiles that only link to each other keep their mean.
    for axis in range(2):
        wanted = heavy * [away[axis] for _, away, _ in known]
        moved[is_free, axis] = lsqr(matrix[:, is_free], wanted, atol=1e-10, btol=1e-10)[0]
    after = [
        one if pair is None else replace(one, away=one.away - (moved[pair[1]] - moved[pair[0]]))
        for pair, one in zip(pairs, links, strict=True)
    ]
    return moved, after


def _chosen(links: Sequence[SliceLinks], which: np.ndarray) -> list[SliceLinks]:
    """Return some of all links."""
    return [
        SliceLinks(one.ends[part], one.away[part], one.errors[part])
        for one, part in zip(links, _parts_of(links, which), strict=True)
        if part.any()
    ]


def _parts_of(links: Sequence[SliceLinks], which: np.ndarray) -> list[np.ndarray]:
    """Return the part of an array of all links for each pair."""
    starts = np.cumsum([0, *(len(one.ends) for one in links)])
    return [which[a:b] for a, b in itertools.pairwise(starts.tolist())]


def _prior(
    counts: Sequence[int], links: Sequence[SliceLinks], still: np.ndarray
) -> sparse.dia_matrix:
    """Return the matrix of expected movements without links."""
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
    step[still[of_tile]] = 1 / _FIXED
    before = -correlation * step
    before[first] = 0.0
    return sparse.diags([step, before[1:]], [0, -1])


def _probabilities(links: Sequence[SliceLinks], reach: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return the probability that each link is right, from the other links of its pair.

    Right links are near others of the pair, or few are farther from them. Wrong ones are anywhere within
    reach. ``known`` are probabilities, or NaN.
    """
    # A. P. Dempster, N. M. Laird and D. B. Rubin, "Maximum likelihood from incomplete data via the EM
    # algorithm", Journal of the Royal Statistical Society B 39, 1977.
    of = np.repeat(np.arange(len(links)), [len(one.ends) for one in links])
    squares = _squares(links, known)
    density = 1 / float(np.prod(2 * reach + 1))
    far = 2 * (_FAR * float(reach.min())) ** 2
    near = max(float(np.median(squares[3])) / math.log(2), 2 * _MIN_DEVIATION**2)
    start = np.array([near, far, *_SHARES])[:, None]
    usual = np.repeat(start, len(links), axis=1)
    for _ in range(2):
        sums, before = np.zeros((5, len(links))), usual
        for _ in range(_EXPECTATIONS):
            parts = _parts(squares, known, density, _means(sums, before)[:, of])
            sums = np.stack([np.bincount(of, row, len(links)) for row in parts])
        # What is usual follows from the other pairs.
        usual = _means(sums.sum(axis=1, keepdims=True) - sums, start)
    # A link is no evidence for itself.
    parts = _parts(squares, known, density, _means(sums[:, of] - parts, before[:, of]))
    return np.asarray(1 - parts[4])


def _means(sums: np.ndarray, usual: np.ndarray) -> np.ndarray:
    """Return the mean squares and shares of links from sums of `_parts`; few links are ``usual``."""
    counts = sums[2:]
    squares = (sums[:2] + _FEW * usual[:2]) / (counts[:2] + _FEW)
    return np.concatenate([squares, (counts + _FEW * usual[2:]) / (counts.sum(axis=0) + _FEW)])


def _parts(squares: np.ndarray, known: np.ndarray, density: float, means: np.ndarray) -> np.ndarray:
    """Return the probabilities of links to be near their neighbours, far from them, or wrong, (5, links).

    The first two rows are the squared distances of the first two kinds, times their probability.
    """
    mean = np.maximum(means[:2], 2 * _MIN_DEVIATION**2)
    every = squares[[0, 1, 2, 3, 3]]
    widths = mean[[0, 0, 0, 0, 1]]
    right = means[[2, 2, 2, 2, 3]] * np.exp(-every / widths) / (math.pi * widths)
    right[:4] /= 4
    right[:, known == 0] = 0
    wrong = np.where(known == 1, 0, means[4] * density)
    right /= np.maximum(right.sum(axis=0) + wrong, _TINY)
    weighted = right * np.where(np.isfinite(every), every, 0)
    near, far = right[:4].sum(axis=0), right[4]
    return np.stack([weighted[:4].sum(axis=0), weighted[4], near, far, 1 - near - far])


def _squares(links: Sequence[SliceLinks], known: np.ndarray) -> np.ndarray:
    """Return squared distances of each link from others of its pair, (4, links), or infinity without these.

    The largest of two links before it, of two after it, and of the next on both sides; and of the median of
    those around it. Wrong links are left out.
    """
    # Two wrong links in succession may agree by chance, three hardly.
    gap = np.full((_WINDOW, 2), np.nan)
    padded = np.concatenate([part for one in links for part in (gap, one.away)] + [gap])
    is_gap = np.concatenate(
        [part for one in links for part in (gap[:, 0] != 0, np.zeros(len(one.ends), bool))]
        + [gap[:, 0] != 0]
    )
    own = np.flatnonzero(~is_gap)
    away = padded[own]
    padded[own[known == 0]] = np.nan
    around = [padded[own + k] for k in range(-_WINDOW, _WINDOW + 1) if k]
    still = np.zeros(away.shape)  # the mean movement of a tile; a single neighbour may be wrong
    middle = np.nanmedian(np.stack([*around, still, still]), axis=0)
    # The next links that are not wrong; gaps are NaN and stop.
    place, stops = np.arange(len(padded)), is_gap | np.isfinite(padded[:, 0])
    before = np.maximum.accumulate(np.where(stops, place, 0))
    after = np.minimum.accumulate(np.where(stops, place, len(padded) - 1)[::-1])[::-1]
    left, right = before[own - 1], after[own + 1]
    farther = before[np.maximum(left - 1, 0)], after[np.minimum(right + 1, len(padded) - 1)]
    distances = [
        ((away - one) ** 2).sum(axis=1)
        for one in (*(padded[at] for at in (left, right, *farther)), middle)
    ]
    one, two, first, last, centre = np.nan_to_num(distances, nan=np.inf)
    return np.stack([np.maximum(one, first), np.maximum(two, last), np.maximum(one, two), centre])


def _deviation(links: Sequence[SliceLinks]) -> float:
    """Return the deviation of movements from the median of links, which have the movements of two slices."""
    square = np.median(np.concatenate([one.away for one in links]) ** 2) / _MEDIAN_SQUARE
    error = np.median(np.concatenate([one.errors for one in links]) ** 2)
    return max(math.sqrt(max(0.0, square - error) / 2), _MIN_DEVIATION)


def _correlation(links: Sequence[SliceLinks]) -> float:
    """Return the correlation of successive slices, from medians."""
    square = np.median(np.concatenate([one.away for one in links]) ** 2)
    changes = [
        np.diff(one.away, axis=0)[(np.diff(one.ends, axis=0) == 1).all(axis=1)] for one in links
    ]
    steps = np.concatenate(changes)
    if not steps.size or not square:
        return 0.0
    found = float(np.clip(1 - np.median(steps**2) / (2 * square), 0.0, _MAX_CORRELATION))
    return found * len(steps) / (len(steps) + _FEW)  # few links are alike by chance
