"""Displacements of many slices at the nodes of a grid, from displacements of blocks of pairs of slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import ndimage, sparse
from scipy.sparse.linalg import splu

from beam_volumes.ops.geometry.registration.images import MIN_ALONE, MIN_EVIDENCE

#: The stiffness of a grid against bending and against stretching, relative to a block of correlation 0.5.
_BENDING, _STRETCHING = 0.02, 1e-3
#: The difference of a block and the median of its neighbours, in downsampled voxels, that is accepted in any
#: case, and the number of median differences of these neighbours that is accepted as well.
_MAX_RESIDUAL, _MAX_SPREADS = 1.0, 3.0
#: Neighbours without which a block must be far above chance.
_MIN_NEIGHBOURS = 3
#: Residuals of blocks and of pairs of slices, in downsampled voxels, that halve a weight, at least.
_SCALE = 0.3
_STEPS = 4
#: The largest weight of a block: the deformation within a block limits its accuracy.
_MAX_WEIGHT = 10.0
#: Weights of nodes without a block, relative to their neighbours and to all nodes of the pair.
_NEAR, _FAR = 0.1, 1e-3
#: Weight of no displacement, which decides only what pairs leave open.
_WEAK = 1e-7


@dataclass(frozen=True)
class Blocks:
    """The displacements of the blocks of a pair of slices, in downsampled voxels.

    The position ``centres`` in the first slice corresponds to ``centres + shifts`` in the second one.
    """

    centres: np.ndarray  #: (2, rows, columns), in nodes of the grid
    shifts: np.ndarray  #: (2, rows, columns)
    evidence: np.ndarray  #: (rows, columns)
    quality: np.ndarray  #: (rows, columns)

    @property
    def significant(self) -> np.ndarray:
        """Which blocks are above chance and agree with their neighbours.

        J. Westerweel and F. Scarano, "Universal outlier detection for PIV data", Experiments in Fluids 39,
        2005.
        """
        kept = self.evidence >= MIN_EVIDENCE
        for _ in range(2):
            around = np.stack([_neighbours(np.where(kept, s, np.nan)) for s in self.shifts])
            count = np.isfinite(around[0]).sum(axis=0)
            filled = np.where(count > 0, around, 0.0)
            median = np.nanmedian(filled, axis=1)
            spread = np.nanmedian(np.linalg.norm(filled - median[:, None], axis=0), axis=0)
            distance = np.linalg.norm(self.shifts - median, axis=0)
            agrees = distance <= _MAX_RESIDUAL + _MAX_SPREADS * spread
            kept = kept & np.where(count < _MIN_NEIGHBOURS, self.evidence >= MIN_ALONE, agrees)
        return kept


def _neighbours(grid: np.ndarray) -> np.ndarray:
    """Return the eight neighbours of each node, NaN outside."""
    padded = np.pad(grid, 1, constant_values=np.nan)
    rows, columns = grid.shape
    offsets = [(a, b) for a in range(3) for b in range(3) if (a, b) != (1, 1)]
    return np.stack([padded[a : a + rows, b : b + columns] for a, b in offsets])


class Mesh:
    """A grid that resists bending, which is fitted to the displacements of blocks."""

    def __init__(self, shape: tuple[int, int]):
        self.shape = shape
        first = [sparse.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(n - 1, n)) for n in shape]
        second = [
            sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(max(n - 2, 0), n))
            for n in shape
        ]
        rows, columns = (sparse.eye_array(n) for n in shape)
        bending = [
            sparse.kron(second[0], columns),
            sparse.kron(rows, second[1]),
            np.sqrt(2.0) * sparse.kron(first[0], first[1]),
        ]
        stretching = [sparse.kron(first[0], columns), sparse.kron(rows, first[1])]
        self._stretching = sparse.csr_array(sum(d.T @ d for d in stretching))
        self._stiffness = sparse.csc_array(
            _BENDING * sum(d.T @ d for d in bending) + _STRETCHING * self._stretching
        )

    def fitted(self, blocks: Blocks, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return smooth displacements and their weights, from the blocks that are ``kept``.

        Outliers lose weight by the function of Geman and McClure.
        """
        quality = np.where(kept, blocks.quality, 0.0).clip(0, 1 - 1 / _MAX_WEIGHT)
        weights = (quality / (1 - quality)).ravel()
        given = np.where(kept, blocks.shifts, 0.0).reshape(2, -1)
        at_blocks = self._interpolation(blocks.centres.reshape(2, -1))
        robust, fitted = weights, given
        for _ in range(_STEPS):
            weighted = at_blocks.T @ sparse.diags_array(robust)
            system = splu(sparse.csc_array(weighted @ at_blocks + self._stiffness))
            fitted = np.stack([system.solve(weighted @ g) for g in given])
            residuals = np.linalg.norm(fitted @ at_blocks.T - given, axis=0)
            scale = max(_SCALE, 2 * float(np.median(residuals[weights > 0])))
            robust = weights / (1 + (residuals / scale) ** 2) ** 2
        agrees = ((weights > 0) & (residuals <= scale)).reshape(self.shape)
        # Blocks reach to the nodes around their own.
        self._continue(fitted, ndimage.maximum_filter(agrees, 3, mode="constant").ravel())
        sure = robust.reshape(self.shape)
        sure = sure + _NEAR * ndimage.uniform_filter(sure, 3, mode="constant") + _FAR * sure.mean()
        return fitted.reshape(2, *self.shape), sure

    def _continue(self, fitted: np.ndarray, known: np.ndarray) -> None:
        """Replace displacements of nodes that are not ``known`` such that the grid stretches least.

        Each is a mean of displacements around it. A grid that bends least would continue slopes instead.
        """
        if known.all():
            return
        of_others = self._stretching[~known]
        system = splu(sparse.csc_array(of_others[:, ~known]))
        fitted[:, ~known] = system.solve(-(of_others[:, known] @ fitted[:, known].T)).T

    def _interpolation(self, centres: np.ndarray) -> sparse.csr_array:
        """Return the matrix of linear interpolation at positions between nodes, (positions, nodes)."""
        limits = np.array(self.shape)[:, None] - 1
        first = np.clip(np.floor(centres).astype(int), 0, np.maximum(limits - 1, 0))
        part = centres - first
        rows = np.arange(centres.shape[1])
        found = sparse.csr_array((len(rows), int(np.prod(self.shape))))
        for step in np.ndindex(2, 2):
            weight = np.where(np.array(step)[:, None], part, 1 - part).prod(axis=0)
            index = np.minimum(first + np.array(step)[:, None], limits)
            columns = np.ravel_multi_index(tuple(index), self.shape)
            found = found + sparse.csr_array((weight, (rows, columns)), found.shape)
        return found


def joined(
    pairs: Mapping[tuple[int, int], tuple[np.ndarray, np.ndarray]], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return displacements of slices with the differences of ``pairs``, and which slices are linked.

    Each node is a chain of slices. The mean displacement of linked slices is zero, and pairs that contradict
    others lose weight.
    """
    if not pairs:
        return np.zeros((0,)), np.zeros(count, bool)
    first, second = np.array(list(pairs)).T
    # Nodes come first, and pairs last.
    weights = np.stack([w for _, w in pairs.values()], axis=-1)
    shifts = np.stack([s for s, _ in pairs.values()], axis=-1).transpose(1, 2, 3, 0)
    shape = weights.shape[:2]
    reach = int((second - first).max())
    found = np.zeros((*shape, count, 2))
    for node in np.ndindex(*shape):
        given, own = shifts[node], weights[node]
        robust = own / own.max()
        for step in range(2 * _STEPS):
            at = _chain(first, second, given, robust, count, reach)
            residuals = np.linalg.norm(at[second] - at[first] - given, axis=1)
            # The least sum of absolute residuals is the start.
            relative = residuals / _SCALE
            factors = 1 / (1 + relative) if step < _STEPS else 1 / (1 + relative**2) ** 2
            robust = own / own.max() * factors
        found[node] = at
    linked = np.zeros(count, bool)
    linked[first] = linked[second] = True
    return found.transpose(2, 3, 0, 1), linked


def _chain(
    first: np.ndarray,
    second: np.ndarray,
    given: np.ndarray,
    weights: np.ndarray,
    count: int,
    reach: int,
) -> np.ndarray:
    """Return positions along a chain, (count, 2), by least squares."""
    bands = np.zeros((reach + 1, count))  # the lower bands of the normal equations
    bands[0] = _WEAK
    for ends in (first, second):
        bands[0] += np.bincount(ends, weights, count)
    np.subtract.at(bands, (second - first, first), weights)
    pulls = [
        np.bincount(second, weights * g, count) - np.bincount(first, weights * g, count)
        for g in given.T
    ]
    return np.asarray(scipy.linalg.solveh_banded(bands, np.stack(pulls, axis=1), lower=True))
