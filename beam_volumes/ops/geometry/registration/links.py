"""The transforms of many images from links between pairs of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.linalg import spsolve

from beam_volumes.ops.geometry.registration.images import Link

#: Weight of the given places relative to links: they decide only what links leave open.
_WEAK = 1e-4


@dataclass(frozen=True)
class Placed:
    """The transforms of all images, and the links that agree with them.

    Index u of image k is at ``matrices[k] @ u + places[k]``.
    """

    matrices: np.ndarray
    places: np.ndarray
    used: tuple[tuple[int, int], ...]
    residuals: Mapping[tuple[int, int], float]  #: Of all links, in voxels


def placed(
    links: Mapping[tuple[int, int], Link],
    given: np.ndarray,
    neighbours: Sequence[tuple[int, int]],
    *,
    model: str,
    reference: int,
    extent: Sequence[int],
    max_residual: float,
) -> Placed:
    """Solve for the transforms by least squares, and leave out links that contradict the others.

    The worst links are removed, and the transforms solved again, until no residual is above
    ``max_residual`` and three times the median.

    - ``given``: the places before, (images, axes).
    - ``neighbours``: pairs that keep their given distance where no links decide it.
    - ``extent``: the shape of an image; residuals are measured at its corners.
    """
    kept = dict(links)
    centre = (np.array(extent) - 1) / 2
    corners = np.array(list(itertools.product(*((0, n - 1) for n in extent)))).T
    while True:
        matrices = _linear_parts(kept, neighbours, len(given), reference, len(centre), model)
        places = _places(kept, matrices, given, neighbours, reference, centre)
        residuals = {
            pair: _residual(link, pair, matrices, places, corners) for pair, link in links.items()
        }
        present = sorted(residuals[pair] for pair in kept)
        limit = max(max_residual, 3 * present[len(present) // 2]) if present else 0.0
        worst = max(present, default=0.0)
        if worst <= limit:
            return Placed(matrices, places, tuple(kept), residuals)
        # A wrong link also bends the links next to it, so only the worst are removed at a time.
        kept = {
            pair: link for pair, link in kept.items() if residuals[pair] <= max(limit, 0.7 * worst)
        }


def _linear_parts(
    links: Mapping[tuple[int, int], Link],
    neighbours: Sequence[tuple[int, int]],
    count: int,
    reference: int,
    ndim: int,
    model: str,
) -> np.ndarray:
    """Return matrices M with ``M[j] @ link = M[i]`` for each link from i to j."""
    if model == "translation":
        return np.tile(np.eye(ndim), (count, 1, 1))
    heaviest = max((link.weight for link in links.values()), default=1.0)
    system = _System(count * ndim, ndim)
    for (i, j), link in links.items():
        weight = link.weight / heaviest
        for b in range(ndim):
            terms = {j * ndim + a: link.matrix[a, b] for a in range(ndim)}
            system.add({**terms, i * ndim + b: -1.0}, np.zeros(ndim), weight)
    for i, j in neighbours:
        for b in range(ndim):
            system.add({j * ndim + b: 1.0, i * ndim + b: -1.0}, np.zeros(ndim), _WEAK)
    for b in range(ndim):
        system.add({reference * ndim + b: 1.0}, np.eye(ndim)[b], 1.0)
    # Row b of the solution has entries (a, b) of the matrix for all a.
    matrices = system.solved().reshape(count, ndim, ndim).transpose(0, 2, 1)
    anchor = np.linalg.inv(matrices[reference])
    matrices = anchor @ matrices
    if model == "rigid":
        matrices = np.stack([scipy.linalg.polar(m)[0] for m in matrices])
    return matrices


def _places(
    links: Mapping[tuple[int, int], Link],
    matrices: np.ndarray,
    given: np.ndarray,
    neighbours: Sequence[tuple[int, int]],
    reference: int,
    centre: np.ndarray,
) -> np.ndarray:
    """Return places such that links map each centre to the same position."""
    heaviest = max((link.weight for link in links.values()), default=1.0)
    system = _System(len(given), len(centre))
    for (i, j), link in links.items():
        there = link.matrix @ centre + link.offset
        wanted = matrices[i] @ centre - matrices[j] @ there
        system.add({j: 1.0, i: -1.0}, wanted, link.weight / heaviest)
    for i, j in neighbours:
        system.add({j: 1.0, i: -1.0}, given[j] - given[i], _WEAK)
    system.add({reference: 1.0}, given[reference], 1.0)
    places = system.solved()
    return places + (given[reference] - places[reference])


def _residual(
    link: Link,
    pair: tuple[int, int],
    matrices: np.ndarray,
    places: np.ndarray,
    corners: np.ndarray,
) -> float:
    i, j = pair
    here = matrices[i] @ corners + places[i][:, None]
    there = matrices[j] @ (link.matrix @ corners + link.offset[:, None]) + places[j][:, None]
    return float(np.linalg.norm(here - there, axis=0).max())


class _System:
    """Weighted linear equations with several right-hand sides."""

    def __init__(self, unknowns: int, columns: int):
        self.unknowns, self.columns = unknowns, columns
        self.rows: list[int] = []
        self.cols: list[int] = []
        self.entries: list[float] = []
        self.wanted: list[np.ndarray] = []

    def add(self, terms: Mapping[int, float], wanted: np.ndarray, weight: float) -> None:
        row = len(self.wanted)
        self.rows += [row] * len(terms)
        self.cols += terms.keys()
        self.entries += [weight * value for value in terms.values()]
        self.wanted.append(weight * np.asarray(wanted, np.float64))

    def solved(self) -> np.ndarray:
        """Return the solution of least squares, (unknowns, columns)."""
        shape = len(self.wanted), self.unknowns
        matrix = sparse.csr_matrix((self.entries, (self.rows, self.cols)), shape)
        normal, wanted = (matrix.T @ matrix).tocsc(), matrix.T @ np.stack(self.wanted)
        return np.asarray(spsolve(normal, wanted)).reshape(self.unknowns, self.columns)
