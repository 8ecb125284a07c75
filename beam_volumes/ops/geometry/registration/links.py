"""The transforms of many images from links between pairs of them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from beam_volumes.ops.geometry.registration.images import MIN_ALONE, MIN_EVIDENCE, Link

#: Weight of the given places relative to links: they decide only what links leave open.
_WEAK = 1e-4
#: Weight of the identity relative to links, which otherwise decide little beyond thin overlaps.
_STIFFNESS = 0.03


@dataclass(frozen=True)
class Placed:
    """The transforms of all images, and the links that agree with them.

    Index u of image k is at ``matrices[k] @ u + places[k]``.
    """

    matrices: np.ndarray
    places: np.ndarray
    used: tuple[tuple[int, int], ...]
    residuals: Mapping[tuple[int, int], float]  #: Of all links, in voxels
    #: The used links that agree with others: without one of them, others still link its images
    confirmed: frozenset[tuple[int, int]] = frozenset()

    @property
    def used_by_image(self) -> list[list[tuple[int, int]]]:
        """The used links of each image."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.places]
        for pair in self.used:
            for k in pair:
                found[k].append(pair)
        return found

    @property
    def confirmed_images(self) -> list[bool]:
        """Whether an image has a link that others confirm."""
        return [not self.confirmed.isdisjoint(pairs) for pairs in self.used_by_image]


def corners(ranges: Iterable[tuple[float, float]]) -> np.ndarray:
    """Return the corners of a box, (axes, corners)."""
    return np.array(list(itertools.product(*ranges)), np.float64).T


def placed(
    links: Mapping[tuple[int, int], Link],
    given: np.ndarray,
    neighbours: Sequence[tuple[int, int]],
    *,
    model: str,
    reference: int | None,
    max_residual: float,
    spacing: np.ndarray,
) -> Placed:
    """Solve for the transforms by least squares, and leave out links that contradict the others.

    ``given`` are the places before, and ``neighbours`` pairs that keep their given distance without links.
    """
    # The worst links are removed, and the transforms solved again, until no residual is above
    # ``max_residual`` and three times the median. A link that no loop of other links confirms is then only
    # used if it is far above chance: its residual is always 0. The image ``reference`` has the identity. If
    # None, the mean of all matrices is the identity, and linked images keep the mean of their given places.
    # If these have independent errors, and links are right, the sum of squared errors cannot increase.
    kept = {p: link for p, link in links.items() if link.evidence >= MIN_EVIDENCE}
    while True:
        if model == "translation":
            matrices = np.tile(np.eye(given.shape[1]), (len(given), 1, 1))
        else:
            matrices = _linear_parts(kept, given, neighbours, reference)
        if model == "rigid":
            scaled = matrices * spacing[:, None] / spacing
            turns = np.stack([scipy.linalg.polar(m)[0] for m in scaled])
            matrices = turns / spacing[:, None] * spacing
        places = _places(kept, matrices, given, neighbours, reference)
        residuals = {p: _residual(*p, link, matrices, places) for p, link in links.items()}
        present = sorted(residuals[pair] for pair in kept)
        limit = max(max_residual, 3 * present[len(present) // 2]) if present else 0.0
        worst = max(present, default=0.0)
        if worst <= limit:
            bridges = _bridges(kept, len(given))
            weak = {pair for pair in bridges if kept[pair].evidence < MIN_ALONE}
            if not weak:
                return Placed(matrices, places, tuple(kept), residuals, frozenset(kept) - bridges)
            kept = {pair: link for pair, link in kept.items() if pair not in weak}
            continue
        # A wrong link also bends the links next to it, so only the worst are removed at a time.
        kept = {
            pair: link for pair, link in kept.items() if residuals[pair] <= max(limit, 0.7 * worst)
        }


def connected(pairs: Collection[tuple[int, int]], count: int) -> np.ndarray:
    """Return for each image the number of its group; pairs connect the images of a group."""
    ends = np.array(list(pairs), int).reshape(-1, 2).T
    graph = sparse.coo_matrix((np.ones(len(pairs)), ends), (count, count))
    return np.asarray(connected_components(graph, directed=False)[1])


def _bridges(pairs: Iterable[tuple[int, int]], count: int) -> set[tuple[int, int]]:
    """Return the pairs that are the only connection of their images.

    R. E. Tarjan, "A note on finding the bridges of a graph", Information Processing Letters 2, 1974.
    """
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for i, j in pairs:
        neighbours[i].append(j)
        neighbours[j].append(i)
    visited, lowest = [-1] * count, [0] * count
    found, number = set[tuple[int, int]](), itertools.count()
    for root in range(count):
        if visited[root] >= 0:
            continue
        visited[root] = lowest[root] = next(number)
        path = [(root, -1, iter(neighbours[root]))]
        while path:
            k, before, others = path[-1]
            for n in others:
                if visited[n] < 0:
                    visited[n] = lowest[n] = next(number)
                    path.append((n, k, iter(neighbours[n])))
                    break
                if n != before:
                    lowest[k] = min(lowest[k], visited[n])
            else:
                path.pop()
                if before >= 0:
                    lowest[before] = min(lowest[before], lowest[k])
                    if lowest[k] > visited[before]:
                        found.add((min(k, before), max(k, before)))
    return found


def _linear_parts(
    links: Mapping[tuple[int, int], Link],
    given: np.ndarray,
    neighbours: Sequence[tuple[int, int]],
    reference: int | None,
) -> np.ndarray:
    """Return the matrices of affine maps that agree best where links map their points.

    The unknowns of an image are the rows of its transposed matrix, and its place.
    """
    count, ndim = given.shape
    heaviest = max((link.weight for link in links.values()), default=1.0)
    scale = max((abs(link.points).max() for link in links.values()), default=1.0)
    system = _System(count * (ndim + 1), ndim)

    def term(k: int, index: np.ndarray, sign: float = 1.0) -> dict[int, float]:
        unknown = k * (ndim + 1)
        return {unknown + n: sign * v for n, v in enumerate((*(index / scale).tolist(), 1.0))}

    for (i, j), link in links.items():
        for near, far in zip(link.points.T, link.ends.T, strict=True):
            terms = term(i, near) | term(j, far, -1.0)
            system.add(terms, np.zeros(ndim), link.weight / heaviest)
    wanted = np.concatenate([np.tile(scale * np.eye(ndim), (count, 1, 1)), given[:, None]], axis=1)
    for k in range(count) if reference is None else [reference]:
        for n in range(ndim + (k == (reference or 0))):
            weight = _STIFFNESS if reference is None else 1.0
            system.add({k * (ndim + 1) + n: 1.0}, wanted[k, n], weight)
    for i, j in neighbours:
        for n in range(ndim + 1):
            terms = {j * (ndim + 1) + n: 1.0, i * (ndim + 1) + n: -1.0}
            system.add(terms, wanted[j, n] - wanted[i, n], _WEAK)
    # Row b of the solution has entries (a, b) of the matrix for all a.
    found = system.solved().reshape(count, ndim + 1, ndim)[:, :ndim].transpose(0, 2, 1) / scale
    # All matrices together are smaller than the identity, since this makes residuals smaller.
    anchor = found.mean(axis=0) if reference is None else found[reference]
    return np.linalg.inv(anchor) @ found


def _places(
    links: Mapping[tuple[int, int], Link],
    matrices: np.ndarray,
    given: np.ndarray,
    neighbours: Sequence[tuple[int, int]],
    reference: int | None,
) -> np.ndarray:
    """Return places such that links map the mean of their points to the same position."""
    heaviest = max((link.weight for link in links.values()), default=1.0)
    system = _System(*given.shape)
    for (i, j), link in links.items():
        centre = link.points.mean(axis=1)
        there = link.matrix @ centre + link.offset
        wanted = matrices[i] @ centre - matrices[j] @ there
        system.add({j: 1.0, i: -1.0}, wanted, link.weight / heaviest)
    if reference is not None:
        for i, j in neighbours:
            system.add({j: 1.0, i: -1.0}, given[j] - given[i], _WEAK)
        system.add({reference: 1.0}, given[reference], 1.0)
        places = system.solved()
        return places + (given[reference] - places[reference])
    groups = connected(links, len(given))
    for k in np.unique(groups, return_index=True)[1].tolist():
        system.add({k: 1.0}, given[k], 1.0)
    places = system.solved()
    means = [np.bincount(groups, e) / np.bincount(groups) for e in (given - places).T]
    return places + np.stack(means, axis=1)[groups]


def _residual(i: int, j: int, link: Link, matrices: np.ndarray, places: np.ndarray) -> float:
    here = matrices[i] @ link.points + places[i][:, None]
    there = matrices[j] @ link.ends + places[j][:, None]
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
