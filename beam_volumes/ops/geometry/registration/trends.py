"""Slow movements of tissue in the transforms of slices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded, solveh_banded
from scipy.special import expit

from beam_volumes.ops.geometry.registration.links import nearest_rotations
from beam_volumes.ops.geometry.transforms import matrices_of
from beam_volumes.ops.parameters import checks as par

#: Matrices and places, (slices, axes, axes) and (slices, axes).
Path = tuple[np.ndarray, np.ndarray]
#: Ratios of the squares of steps of a walk and of independent movements that are tried.
_RATIOS = 2.0 ** np.arange(-16, 9)
#: The logarithm of the ratio of likelihoods at which slow movements are real with a probability of 1/2. With
#: larger ones, small real movements are removed; with smaller ones, slices that do not move are moved.
_REAL = 6.0
#: The logarithm is divided by this, because errors of successive links are not independent.
_SIMILAR = 2.0
#: A smaller share of a slow movement is not removed.
_MIN_REMOVED = 1e-3


@dataclass(frozen=True, eq=False)
class Trend:
    """Removes the slow movement of transforms, or replaces it with the movement of a ``prior``."""

    sigma: float  #: In slices; infinite for straight lines
    middle: np.ndarray  #: Of a plane, in voxels
    spacing: np.ndarray
    model: str
    prior: Path | None
    reference: int | None  #: The slice that is not moved

    @classmethod
    def of(
        cls,
        trend: Any,
        prior: Any,
        shape: Sequence[int],
        spacing: np.ndarray,
        model: str,
        reference: int | None,
        name: str,
    ) -> Trend | None:
        """Parse the parameters; None if the slow movement is kept."""
        check_trend(trend, prior, name)
        if trend == "keep":
            return None
        sigma = math.inf if trend == "remove" else par.positive(trend, "trend", name)
        given = None
        if prior is not None:
            each = "slices of the volume"
            given = matrices_of(prior, ("y", "x"), shape[0], name, each, "prior")
        return cls(sigma, (np.array(shape[1:]) - 1) / 2, spacing, model, given, reference)

    def replaced(self, path: Path, is_linked: np.ndarray) -> Path:
        """Return transforms with a different slow movement; only linked slices determine the present one."""
        if not is_linked.any():
            return path
        turn, centre = self._slow(path, is_linked)
        matrices = np.linalg.solve(turn, path[0])
        places = np.linalg.solve(turn, (path[1] - centre)[:, :, None])[:, :, 0]
        if self.prior is not None:
            turn, centre = self._slow(self.prior, np.ones(len(is_linked), bool))
            return turn @ matrices, np.einsum("zab,zb->za", turn, places) + centre
        places = places + self.middle
        if self.reference is not None:
            still, there = matrices[self.reference], places[self.reference]
            matrices = np.linalg.solve(still, matrices)
            places = np.linalg.solve(still, (places - there).T).T
        return matrices, places

    def _slow(self, path: Path, counts: np.ndarray) -> Path:
        """Return the smooth matrices, and the smooth positions of the middle of each slice."""
        matrices, places = path
        count, n = places.shape
        columns = np.concatenate([matrices.reshape(count, -1), matrices @ self.middle + places], 1)
        smooth = smoothed(columns, counts, self.sigma)
        turns = smooth[:, : n * n].reshape(count, n, n)
        if self.model == "rigid":
            scale = self.spacing[:, None] / self.spacing
            turns = nearest_rotations(turns * scale) / scale
        return turns, smooth[:, n * n :]


def check_trend(trend: Any, prior: Any, name: str) -> None:
    """Refuse an unknown trend, and a prior without one."""
    if isinstance(trend, str) and trend not in ("keep", "remove"):
        raise ValueError(
            f'{name}: trend={trend!r} is not available; use "keep", "remove" or a number of slices'
        )
    if prior is not None and trend == "keep":
        raise ValueError(
            f'{name}: prior= replaces a trend, and trend="keep" has none; give trend= a number of slices, '
            'or "remove"'
        )


def smoothed(columns: np.ndarray, counts: np.ndarray, sigma: float) -> np.ndarray:
    """Smooth columns of numbers along rows by straight lines with Gaussian weights around each row."""
    # Only rows that ``counts`` determine the result. Unlike means, lines do not shorten the ends of a path.
    #
    # W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots", Journal of the
    # American Statistical Association 74, 1979.
    at, known = np.flatnonzero(counts), columns[counts]
    result = np.empty_like(columns)
    for k in range(len(columns)):
        away = (at - k).astype(np.float64)
        nearest = abs(away).min()
        weights = np.exp((nearest**2 - away**2) / (2 * sigma**2))
        weights /= weights.sum()
        mean, middle = weights @ known, weights @ away
        spread = weights @ (away - middle) ** 2
        # A row beyond the weight of all others has no slope.
        slope = (weights * (away - middle)) @ known / spread if spread > 1e-6 else 0.0
        result[k] = mean - middle * slope
    return result


def accidental(
    columns: np.ndarray, at: np.ndarray, groups: np.ndarray, variance: float, ndim: int
) -> np.ndarray | None:
    """Return the expected slow part of positions that is due to errors of links; None if it is real.

    ``columns`` are positions of slices ``at``. From slice to slice, errors of links add ``variance`` to the
    square of errors. Steps between ``groups`` are unknown.
    """
    # Slices jitter around a random walk of such errors. This is compared with a walk of larger steps along a
    # straight line, which is a real movement. Ratios of steps and jitter are given, and jitter is optimal.
    # The result is the slow movement times the probability of the former.
    kept = np.flatnonzero(np.diff(groups) == 0)
    if not len(kept):
        return None
    steps, lengths = np.diff(columns, axis=0)[kept], np.diff(at)[kept].astype(np.float64)
    neighbours = np.where(np.append(np.diff(kept) == 1, False), -1.0, 0.0)
    count, smallest = len(kept) * ndim, variance / ndim

    def likelihood(squares: float, jitter: float, size: float) -> float:
        return -(count * math.log(jitter) + ndim * size + squares / jitter) / 2

    errors, real, found = -math.inf, -math.inf, 1.0
    for ratio in _RATIOS.tolist():
        factor = cholesky_banded(np.stack([2 + ratio * lengths, neighbours]), lower=True)
        solved = cho_solve_banded((factor, True), np.c_[steps, lengths])
        size = 2 * float(np.log(factor[0]).sum())
        squares = float((steps * solved[:, :-1]).sum())
        line = lengths @ solved
        left = max(squares - float((line[:-1] ** 2).sum() / line[-1]), 0.0)
        limit = smallest / ratio
        small = max(min(squares / count, limit), 1e-12 * limit)
        if (here := likelihood(squares, small, size)) > errors:
            errors, found = here, ratio
        real = max(real, likelihood(left, max(left / count, limit), size))
    share = float(expit((_REAL - (real - errors)) / _SIMILAR))
    if share < _MIN_REMOVED:
        return None
    stiffness = 1 / (found * np.diff(at))
    band = np.stack([np.ones(len(at)), np.append(-stiffness, 0.0)])
    band[0, :-1] += stiffness
    band[0, 1:] += stiffness
    slow = solveh_banded(band, columns, lower=True)
    return np.asarray(share * slow + (1 - share) * slow.mean(axis=0))
