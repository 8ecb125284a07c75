"""The transforms of many images from links between pairs of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve_banded, cholesky_banded
from scipy.sparse.csgraph import (
    breadth_first_order,
    connected_components,
    minimum_spanning_tree,
    reverse_cuthill_mckee,
)
from scipy.sparse.linalg import SuperLU, splu
from scipy.special import fdtri

from beam_volumes.ops.geometry.registration.images import MIN_ALONE, MIN_EVIDENCE, Link

#: Weight of the given places relative to links: they decide only what links leave open.
_WEAK = 1e-4
#: Weight of the identity relative to links, which otherwise decide little beyond thin overlaps.
_STIFFNESS = 0.03
#: Solutions by which the sum of absolute residuals decreases.
_ABSOLUTE_STEPS = 8
#: Solutions with a decreasing scale of residuals, at least.
_MIN_STEPS = 3
#: The finest scale relative to the maximum residual: many small residuals can hide a large contradiction.
_FINE = 0.25
#: The least factor of a weight: without it, rounding errors could make equations singular.
_MIN_FACTOR = 1e-4
#: The median distance of linked images, in the order of Cuthill and McKee, above which equations are solved
#: iteratively. It is smaller in planes of images; in large blocks of images, factors would fill the memory.
_MAX_DISTANCE = 1000
#: The error of iterative solutions relative to the start from 0; the second if another solution follows.
_TOLERANCE, _ROUGH = 1e-9, 1e-3
_MAX_ITERATIONS = 20_000
#: The last change of matrices with a reference, and the maximum number of steps to it.
_MIN_STEP, _MAX_STEPS = 1e-7, 10
#: The last change of places for rounding errors, in voxels, and the maximum number of changes.
_MIN_CHANGE, _MAX_CHANGES = 1e-6, 4
#: The probability with which unrelated links seem to agree, for ratios of squares up to a limit, which is
#: enough if all links agree. For larger ratios, which small groups need, the probability is the third number.
_MAX_CHANCE, _ENOUGH, _MAX_CHANCE_OF_FEW = 0.01, 6.0, 0.05
#: The maximum distance in voxels by which loops of links that may be chance miss their start.
_MAX_MISSED = 0.5
#: How often a loop of some links is found: from each link of three, and from both diagonals of four.
_FOUND = {2: 1, 3: 3, 4: 2}
#: Matrices, places and residuals.
_Solved: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Pairs of images, with the rows of their equations, (pairs, rows, unknowns), and the wanted values.
_Part: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Links with rows of equations in memory at a time.
_LINKS_AT_ONCE = 1 << 13
#: Equations from this number on are solved as a band if it is as narrow.
_MIN_LARGE, _MAX_WIDTH = 1 << 12, 64


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
    reach: np.ndarray | None = None,
    separation: float = 0.0,
    may_be_unrelated: bool = False,
) -> Placed:
    """Solve for the transforms by least squares, and leave out links that contradict the others.

    ``given`` are the places before, and ``neighbours`` pairs that keep their given distance without links.
    With ``reach``, the maximum error of given distances, translations that may be chance are also used if
    their loops close, and structures at a distance of ``separation`` voxels determine them. If links
    ``may_be_unrelated``, residuals above ``max_residual`` are only accepted in groups that agree better
    than unrelated links. Links that are not numbers are left out, and their residuals are NaN.
    """
    unknown = dict.fromkeys(links, math.nan)
    links = {pair: link for pair, link in links.items() if link.is_finite}
    # If links contradict each other, those that most others agree with are used first. The worst links are
    # removed, and the transforms solved again, until no residual is above ``max_residual`` and three times
    # the median. A link that no loop of other links confirms is then only used if it is far above chance,
    # because its residual is always 0. If it is in a loop with removed links that are as far above chance,
    # one of these links is wrong, and none is used. The image ``reference`` has the identity. If None, the
    # mean of all matrices is the identity, and linked images keep the mean of their given places. If these
    # have independent errors, and links are right, the sum of squared errors cannot increase.
    system = _Equations.of(links, given, neighbours, model, reference, spacing)
    significant = system.evidence >= MIN_EVIDENCE
    kept = significant
    solved = system.solved(np.where(kept, system.weights, 0.0))
    returning = [_joining, _consistent] if (solved[2][kept] > max_residual).any() else []
    if returning:
        kept = _agreeing(system, significant, solved, max_residual)
        solved = system.solved(np.where(kept, system.weights, 0.0), solved)
    while True:
        residuals = solved[2]
        limit = _limit(residuals[kept], max_residual)
        worst = residuals[kept].max(initial=0.0)
        if worst > limit:
            # A wrong link also bends the links next to it, so only the worst are removed at a time.
            kept = kept & (residuals <= max(limit, 0.7 * worst))
        elif returning:
            groups = connected(system.ends[kept], len(given))[system.ends]
            kept = kept | (
                significant & returning.pop(0)(system.evidence, groups, residuals <= limit)
            )
        elif (
            may_be_unrelated
            and worst > max_residual
            and (unrelated := system.unrelated(kept, significant, residuals)).any()
        ):
            kept = kept & ~unrelated
        else:
            bridges, uncontradicted = (
                bridges_of(map(tuple, system.ends[some].tolist()), len(given))
                for some in (kept, kept | (system.evidence >= MIN_ALONE))
            )
            weak = {p for p in bridges if p not in uncontradicted or links[p].evidence < MIN_ALONE}
            if not weak:
                break
            kept = kept & [pair not in weak for pair in links]
        solved = system.solved(np.where(kept, system.weights, 0.0), solved)
    if reach is not None:
        possible = _Weak.of(links, reach, separation)
        while (closing := possible.closing(kept, solved[1])).any():
            changed = system.solved(np.where(kept | closing, system.weights, 0.0), solved)
            wrong = closing & (changed[2] > max_residual)
            if (changed[2][kept] > max(limit, max_residual)).any():
                wrong = closing
            if wrong.any():
                possible = replace(possible, candidates=possible.candidates & ~wrong)
            else:
                kept, solved = kept | closing, changed
        residuals = solved[2]
        bridges = bridges_of(map(tuple, system.ends[kept].tolist()), len(given))
    used = tuple(pair for pair, is_kept in zip(links, kept, strict=True) if is_kept)
    of_pairs = unknown | dict(zip(links, residuals.tolist(), strict=True))
    return Placed(*solved[:2], used, of_pairs, frozenset(used) - bridges)


def _limit(residuals: np.ndarray, max_residual: float) -> float:
    """Return the residual above which links contradict others."""
    if not len(residuals):
        return 0.0
    return max(max_residual, 3 * float(np.sort(residuals)[len(residuals) // 2]))


def _agreeing(
    system: _Equations, significant: np.ndarray, solved: _Solved, max_residual: float
) -> np.ndarray:
    """Return which links agree with the transforms that most links agree with."""
    # The least sum of absolute residuals is the start. The scale of residuals that count then decreases, with
    # the weights of Geman and McClure.
    #
    # M. J. Black and A. Rangarajan, "On the unification of line processes, outlier rejection, and robust
    # statistics with applications in early vision", International Journal of Computer Vision 19, 1996.
    # Wrong links can have large weights, so all but tiny weights become similar, but not equal.
    if system.model == "translation":
        system = replace(system, reference=None)
    elif system.reference is not None:
        # Wrong links turn and move far images so much that no weights of residuals would undo it.
        likely = system.likely(significant)
        solved = system.solved(np.where(likely, system.weights, 0.0))
    weights = system.weights / (system.weights + 0.1 * np.median(system.weights[significant]))
    weights = weights * significant
    finest = _FINE * max_residual
    for _ in range(_ABSOLUTE_STEPS):
        factors = 1 / np.sqrt(np.maximum(solved[2], finest))
        solved = system.solved(weights * factors, solved, _ROUGH)
    scale = solved[2][significant].max()
    limit = _limit(solved[2][significant], finest)
    # The first steps decide which link of a single loop is wrong, where all residuals may be similar.
    for step in itertools.count():
        if scale <= limit and step >= _MIN_STEPS:
            break
        scale = max(scale / 2, finest)
        factors = np.maximum(1 / (1 + (solved[2] / scale) ** 2), _MIN_FACTOR)
        solved = system.solved(weights * factors, solved, _ROUGH)
        limit = _limit(solved[2][significant], finest)
    return np.asarray(significant & (solved[2] <= limit))


def _joining(evidence: np.ndarray, groups: np.ndarray, _: np.ndarray) -> np.ndarray:
    """Return links of the most evidence that join groups without a loop."""
    found, above = np.zeros(len(groups), bool), dict[int, int]()

    def top(group: int) -> int:
        while (parent := above.get(group, group)) != group:
            above[group] = above.get(parent, parent)
            group = parent
        return group

    across = np.flatnonzero((groups[:, 0] != groups[:, 1]) & (evidence >= MIN_EVIDENCE))
    for n in across[np.argsort(-evidence[across], kind="stable")].tolist():
        a, b = map(top, groups[n].tolist())
        found[n] = a != b
        above[a] = b
    return found


def _consistent(_: np.ndarray, groups: np.ndarray, agree: np.ndarray) -> np.ndarray:
    """Return the links within groups that agree with them."""
    return np.asarray(agree & (groups[:, 0] == groups[:, 1]))


def nearest_rotations(matrices: np.ndarray) -> np.ndarray:
    """Return the orthogonal factors of the polar decompositions of many matrices."""
    left, _, right = np.linalg.svd(matrices)
    return left @ right


def connected(pairs: Collection[tuple[int, int]] | np.ndarray, count: int) -> np.ndarray:
    """Return for each image the number of its group; pairs connect the images of a group."""
    ends = np.asarray(pairs if isinstance(pairs, np.ndarray) else list(pairs), int)
    ends = ends.reshape(-1, 2).T
    graph = sparse.coo_matrix((np.ones(ends.shape[1]), ends), (count, count))
    return np.asarray(connected_components(graph, directed=False)[1])


def bridges_of(pairs: Iterable[tuple[int, int]], count: int) -> set[tuple[int, int]]:
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


@dataclass(frozen=True)
class _Weak:
    """Translations that may be chance, and are used if loops of them close."""

    ends: np.ndarray  #: The images of each link, (links, 2)
    shifts: np.ndarray  #: (links, axes)
    features: np.ndarray  #: Of each link, in the first image; NaN if unknown
    candidates: np.ndarray  #: Whether a link may be used
    error: float  #: The distance by which the only loop of a link may miss its start
    separation: float  #: The distance from which structures are different

    @classmethod
    def of(
        cls, links: Mapping[tuple[int, int], Link], reach: np.ndarray, separation: float
    ) -> _Weak:
        # Unrelated links have any shifts within the reach. A loop of them closes with this error in less
        # than one in a thousand cases.
        ndim = len(reach)
        volume = float(np.prod(2 * reach + 1)) * math.exp(-MIN_EVIDENCE)
        error = (volume * math.gamma(ndim / 2 + 1)) ** (1 / ndim) / math.sqrt(math.pi)
        unknown = np.full(ndim, np.nan)
        features = [unknown if k.feature is None else k.feature for k in links.values()]
        return cls(
            np.array(list(links), int).reshape(-1, 2),
            np.array([k.shift for k in links.values()]).reshape(-1, ndim),
            np.array(features).reshape(-1, ndim),
            np.array([-math.inf < k.evidence < MIN_ALONE for k in links.values()], bool),
            error,
            separation,
        )

    def max_missed(self, loops: float) -> float:
        """Return the distance by which one of several loops of a link may miss its start."""
        return min(self.error * max(loops, 1.0) ** (-1 / self.shifts.shape[1]), _MAX_MISSED)

    def closing(self, kept: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Return links that close a loop: with kept links, or of up to four groups that these connect."""
        groups = connected(self.ends[kept], len(places))
        some = np.flatnonzero(self.candidates & ~kept & np.isfinite(self.features).all(axis=1))
        found = np.zeros(len(kept), bool)
        ways: dict[int, list[_Way]] = {}
        for n in some.tolist():
            i, j = self.ends[n].tolist()
            a, b = int(groups[i]), int(groups[j])
            here = places[i] + self.features[n]
            there = places[j] + self.features[n] - self.shifts[n]
            if a == b:
                found[n] = np.linalg.norm(here - there) <= self.max_missed(1)
                continue
            ways.setdefault(a, []).append(_Way(b, (n,), here - there, here, there, 0.0))
            ways.setdefault(b, []).append(_Way(a, (n,), there - here, there, here, 0.0))
        for length in (1, 2):
            if found.any():
                break
            closed = list[tuple[list[int], float]]()
            tried = [0.0] * len(kept)
            for a, first in ways.items():
                by_end: dict[int, list[_Way]] = {}
                for way in first:
                    further = ways[way.end] if length > 1 else []
                    for whole in (way, *(way.then(w) for w in further if w.end != a)):
                        if whole.end > a:
                            by_end.setdefault(whole.end, []).append(whole)
                for same in by_end.values():
                    for one, other in itertools.combinations(same, 2):
                        if not self._is_loop(one, other):
                            continue
                        loop = [*one.links, *other.links]
                        for n in loop:
                            tried[n] += 1 / _FOUND[len(loop)]
                        missed = float(np.linalg.norm(one.shift - other.shift))
                        if missed <= self.max_missed(1):
                            closed.append((loop, missed))
            for loop, missed in closed:
                if missed <= self.max_missed(min(tried[n] for n in loop)):
                    found[loop] = True
        return found

    def _is_loop(self, one: _Way, other: _Way) -> bool:
        """Whether two ways are a loop, and not all links are of the same structure.

        Links of one structure in each image always close.
        """
        if not set(one.links).isdisjoint(other.links):
            return False
        distances = [
            float(np.linalg.norm(one.first - other.first)),
            float(np.linalg.norm(one.last - other.last)),
        ]
        return max(*distances, one.separation, other.separation) >= self.separation


@dataclass(frozen=True)
class _Way:
    """Links from one group of images to another."""

    end: int  #: The group at the end
    links: tuple[int, ...]
    shift: np.ndarray  #: By which the group at the end moves relative to the first one
    first: np.ndarray  #: The position of the structure of the first link in the first group
    last: np.ndarray  #: The same of the last link at the end
    separation: float  #: The distance of the structures of successive links

    def then(self, way: _Way) -> _Way:
        return _Way(
            way.end,
            self.links + way.links,
            self.shift + way.shift,
            self.first,
            way.last,
            float(np.linalg.norm(self.last - way.first)),
        )


@dataclass(frozen=True)
class _Equations:
    """Links as arrays, and the transforms that solve them with some weights."""

    ends: np.ndarray  #: The images of each link, (links, 2)
    weights: np.ndarray
    evidence: np.ndarray
    points: np.ndarray  #: (links, axes, points)
    there: np.ndarray  #: The points in the other image
    maps: np.ndarray  #: The matrix of each link
    given: np.ndarray
    neighbours: np.ndarray  #: (pairs, 2)
    model: str
    reference: int | None
    spacing: np.ndarray

    @classmethod
    def of(
        cls,
        links: Mapping[tuple[int, int], Link],
        given: np.ndarray,
        neighbours: Sequence[tuple[int, int]],
        model: str,
        reference: int | None,
        spacing: np.ndarray,
    ) -> _Equations:
        every = list(links.values())
        no_points, ndim = np.zeros((0, given.shape[1], 1)), given.shape[1]
        return cls(
            np.array(list(links), int).reshape(-1, 2),
            np.array([link.weight for link in every], np.float64),
            np.array([link.evidence for link in every], np.float64),
            np.stack([link.points for link in every]) if every else no_points,
            np.stack([link.ends for link in every]) if every else no_points,
            np.array([link.matrix for link in every], np.float64).reshape(-1, ndim, ndim),
            given,
            np.array(neighbours, int).reshape(-1, 2),
            model,
            reference,
            spacing,
        )

    def solved(
        self, weights: np.ndarray, start: _Solved | None = None, tolerance: float = _TOLERANCE
    ) -> _Solved:
        """Return the matrices and places that solve the links, and the residuals of all links.

        Links without weight are left out. Large systems are solved iteratively from ``start``.
        """
        heaviest = weights.max(initial=0.0) or 1.0
        some = np.flatnonzero(weights)
        scaled = weights[some] / heaviest
        before = self.given if start is None else start[1]
        if self.model == "translation":
            matrices = np.tile(np.eye(self.given.shape[1]), (len(self.given), 1, 1))
        elif self.reference is None:
            matrices = self._projected(self._linear_parts(some, scaled))
        else:
            return self._refined(some, scaled, start, tolerance)
        return self._with_residuals(
            matrices, self._places(some, scaled, matrices, before, tolerance)
        )

    def _projected(self, matrices: np.ndarray) -> np.ndarray:
        """Return the nearest matrices that the model allows."""
        if self.model != "rigid":
            return matrices
        turns = nearest_rotations(matrices * self.spacing[:, None] / self.spacing)
        return turns / self.spacing[:, None] * self.spacing

    def _with_residuals(self, matrices: np.ndarray, places: np.ndarray) -> _Solved:
        i, j = self.ends.T
        here = matrices[i] @ self.points + places[i][:, :, None]
        there = matrices[j] @ self.there + places[j][:, :, None]
        residuals = np.linalg.norm(here - there, axis=1).max(axis=1, initial=0.0)
        return matrices, places, residuals

    def _refined(
        self, some: np.ndarray, weights: np.ndarray, start: _Solved | None, tolerance: float
    ) -> _Solved:
        """Return a solution with the matrix of the reference, by steps of Gauss and Newton."""
        # Links that disagree a little have only small solutions far from a single reference, because small
        # images agree best. Each step therefore uses points that agree by the transforms before it: a change
        # of all transforms together then changes no residual.
        tree, joins = self._tree(some)
        matrices = self._composed(tree) if start is None else start[0]
        places = self._places(some, weights, matrices, self.given, tolerance)
        for _ in range(_MAX_STEPS if tolerance < _ROUGH else 1):
            changed = self._step(some, weights, joins, matrices, places)
            change = abs(changed - matrices).max()
            matrices = changed
            places = self._places(some, weights, matrices, self.given, tolerance)
            if change < _MIN_STEP:
                break
        return self._with_residuals(matrices, places)

    def _step(
        self,
        some: np.ndarray,
        weights: np.ndarray,
        joins: np.ndarray,
        matrices: np.ndarray,
        places: np.ndarray,
    ) -> np.ndarray:
        """Return the matrices of the next step; all images of ``joins`` get the same matrix.

        The unknowns of an image are the entries of its matrix in the model, and the change of its place.
        """
        count, ndim = self.given.shape
        if self.model == "rigid":
            # Rotations about the middles of images, and movements of these middles. Steps of affine maps
            # that are projected to rotations do not approach the least squares of thousands of images.
            # A rotation of all images together only leaves residuals as they are if these are lengths: in
            # voxels of different sizes along the axes, the step would turn the reference, too.
            sizes = self.spacing[:, None] / math.prod(self.spacing.tolist()) ** (1 / ndim)
            middle = self.points.mean(axis=(0, 2)) if len(self.points) else np.zeros(ndim)
            middles = (matrices @ middle + places)[:, :, None]
            scale = float(abs((self.points - middle[:, None]) * sizes).max(initial=0.0)) or 1.0
            jumps = self._turns_between(matrices, joins) * scale
            unknowns = len(_skew(ndim)) + ndim
        else:
            # The positions of the first points in the other images; means of both could be a single point.
            scale = float(abs(self.points).max(initial=0.0)) or 1.0
            inverse = np.linalg.inv(matrices)
            jumps = (matrices[joins[:, 0]] - matrices[joins[:, 1]]).transpose(0, 2, 1) * scale
            size = abs(np.linalg.det(matrices)) ** (1 / ndim)
            unknowns = ndim + 1
        columns = jumps.shape[2]

        def equations(links: np.ndarray, heavy: np.ndarray) -> _Part:
            ends = self.ends[links]
            i, j = ends.T
            here = matrices[i] @ self.points[links] + places[i][:, :, None]
            there = matrices[j] @ self.there[links] + places[j][:, :, None]
            if self.model == "rigid":
                near, far = (
                    np.einsum("kab,lbp->lpak", _skew(ndim), (here - middles[k]) * sizes) / scale
                    for k in (i, j)
                )
                here, there = here * sizes, there * sizes
                one = np.broadcast_to(np.eye(ndim), (*near.shape[:3], ndim))
            else:
                met = inverse[j] @ (here - places[j][:, :, None])
                near, far = (
                    e.transpose(0, 2, 1)[:, :, None] / scale for e in (self.points[links], met)
                )
                one = np.ones((*near.shape[:3], 1))
                heavy = heavy / np.sqrt(size[i] * size[j])
            rows = np.concatenate([near, one, -far, -one], axis=3) * heavy[:, None, None, None]
            rows = rows.reshape(len(rows), math.prod(rows.shape[1:3]), 2 * unknowns)
            wanted = (there - here).transpose(0, 2, 1).reshape(*rows.shape[:2], columns)
            return ends, rows, wanted * heavy[:, None, None]

        # Arrays with several rows for each link stay small.
        starts = range(0, len(some), _LINKS_AT_ONCE)
        parts = (
            equations(*(each[k : k + _LINKS_AT_ONCE] for each in (some, weights))) for k in starts
        )
        jumps = np.pad(jumps, ((0, 0), (0, unknowns - jumps.shape[1]), (0, 0)))
        same = joins, _jump(unknowns, len(joins)), jumps
        normal, sums = _normal(itertools.chain(parts, [same]), count)
        fixed = np.arange(count) == self.reference
        anchor = sparse.diags(np.repeat(fixed, unknowns).astype(float))
        found = _solver(normal + anchor)(sums).reshape(count, unknowns, columns) / scale
        found[fixed] = 0.0
        if self.model != "rigid":
            return matrices + found[:, :ndim].transpose(0, 2, 1)
        turns = np.einsum("kab,nk->nab", _skew(ndim), found[:, : len(_skew(ndim)), 0])
        scaled = matrices * self.spacing[:, None] / self.spacing
        return self._projected(_rotations(turns) @ scaled / self.spacing[:, None] * self.spacing)

    def _turns_between(self, matrices: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """Return the rotations that turn the second images of pairs to the first, as (pairs, angles, 1)."""
        scaled = matrices * self.spacing[:, None] / self.spacing
        between = scaled[pairs[:, 0]] @ scaled[pairs[:, 1]].transpose(0, 2, 1)
        ndim = between.shape[1]
        halves = np.einsum("kab,nab->nk", _skew(ndim), between) / 2  # the sine along the axis
        cosine = (np.trace(between, axis1=1, axis2=2) - (ndim - 2)) / 2
        angle = np.arctan2(np.linalg.norm(halves, axis=1), cosine)
        return (halves / np.sinc(angle / np.pi)[:, None])[:, :, None]

    def unrelated(
        self, kept: np.ndarray, significant: np.ndarray, residuals: np.ndarray
    ) -> np.ndarray:
        """Return the links of groups that agree no better than unrelated links.

        The transforms of n images explain the squares of n - 1 links, even if these are unrelated, and the
        other links close loops. An F test compares what transforms explain with what remains. It counts one
        number for each link, since rotations decide most residuals. If links of a group were left out, the
        other ones may agree because they were selected.
        """
        count, ndim = self.given.shape
        same = np.tile(np.eye(ndim), (count, 1, 1))
        before = self._with_residuals(same, self.given)[2]
        groups = connected(self.ends[kept], count)
        first, second = groups[self.ends.T]
        total, left, links, selected = (
            np.bincount(first, each, minlength=count)
            for each in (
                kept * before**2,
                kept * residuals**2,
                kept,
                significant & ~kept & (first == second),
            )
        )
        free = np.maximum(np.bincount(groups, minlength=count) - 1, 1)
        loops = links - free
        usual, few = (
            fdtri(free, np.maximum(loops, 1), 1 - p) for p in (_MAX_CHANCE, _MAX_CHANCE_OF_FEW)
        )
        required = np.minimum(usual, np.where(selected > 0, np.maximum(few, _ENOUGH), _ENOUGH))
        agree = (loops <= 0) | ((total - left) * loops >= required * free * left)
        return np.asarray(kept & ~agree[first])

    def _tree(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return links and neighbours that connect all images without a loop, and these neighbours.

        Links are preferred to neighbours; links of loops that close, and of near images, to others. The
        first are numbers of links, and then of neighbours.
        """
        count, links = len(self.given), len(self.ends)
        some = some[np.argsort(self._ranks[some])]
        numbers = np.append(some, links + np.arange(len(self.neighbours)))
        ends = np.sort(np.concatenate([self.ends, self.neighbours])[numbers], axis=1)
        keys, first = np.unique(ends @ [count, 1], return_index=True)
        costs = sparse.coo_matrix((first + 1.0, (keys // count, keys % count)), (count, count))
        tree = numbers[minimum_spanning_tree(costs).data.astype(int) - 1]
        return tree, self.neighbours[tree[tree >= links] - links]

    def likely(self, some: np.ndarray) -> np.ndarray:
        """Return some links: those in loops that close, and those that connect further images."""
        tree = self._tree(np.flatnonzero(some))[0]
        found = some & self._closes
        found[tree[tree < len(found)]] = True
        return found

    @cached_property
    def _closes(self) -> np.ndarray:
        """Whether a link is in a loop of three links that misses its start as little as most do."""
        return self._loops <= _limit(self._loops[np.isfinite(self._loops)], 0.0)

    @cached_property
    def _ranks(self) -> np.ndarray:
        """The order in which links are preferred before any solution."""
        i, j = self.ends.T
        ranks = np.empty(len(i), int)
        ranks[np.lexsort((-self.evidence, abs(j - i), ~self._closes))] = np.arange(len(i))
        return ranks

    @cached_property
    def _loops(self) -> np.ndarray:
        """The least distance by which a loop of three links misses its start, for each link."""
        count, loops = len(self.given), np.full(len(self.ends), np.inf)
        order = np.lexsort(self.ends.T[::-1])
        i, j = self.ends[order].T
        keys = i * count + j
        begins, stops = np.searchsorted(i, j), np.searchsorted(i, j, side="right")
        for n in range(int((stops - begins).max(initial=0))):
            first = np.flatnonzero(begins + n < stops)
            second = begins[first] + n
            wanted = i[first] * count + j[second]
            direct = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
            is_loop = keys[direct] == wanted
            loop = order[np.stack([first, second, direct])[:, is_loop]]
            a, b, c = loop
            # The map of a link follows from its points and their positions in the other image.
            start = (self.there[b] - self.maps[b] @ self.points[b])[:, :, :1]
            missed = self.maps[b] @ self.there[a] + start
            missed -= (
                self.maps[c] @ self.points[a]
                + ((self.there[c] - self.maps[c] @ self.points[c])[:, :, :1])
            )
            distance = np.linalg.norm(missed, axis=1).max(axis=1, initial=0.0)
            for each in loop:
                np.minimum.at(loops, each, distance)
        return loops

    def _composed(self, tree: np.ndarray) -> np.ndarray:
        """Return the matrices that follow from the links of a tree, from the reference on."""
        count, ndim = self.given.shape
        i, j = np.concatenate([self.ends, self.neighbours])[tree].T
        maps = np.concatenate([self.maps, np.tile(np.eye(ndim), (len(self.neighbours), 1, 1))])
        graph = sparse.coo_matrix((np.ones(len(tree)), (i, j)), (count, count)).tocsr()
        above = breadth_first_order(graph, self.reference, directed=False)[1]
        above[above < 0] = np.flatnonzero(above < 0)
        matrices = np.tile(np.eye(ndim), (count, 1, 1))
        down, up = above[j] == i, above[i] == j
        matrices[j[down]] = np.linalg.inv(maps[tree[down]])
        matrices[i[up]] = maps[tree[up]]
        while (above != above[above]).any():
            matrices, above = matrices[above] @ matrices, above[above]
        return matrices

    def _linear_parts(self, some: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the matrices of affine maps that agree best where links map their points.

        The unknowns of an image are the rows of its transposed matrix, and its place.
        """
        count, ndim = self.given.shape
        near, far = (
            each[some].transpose(0, 2, 1).reshape(-1, ndim) for each in (self.points, self.there)
        )
        scale = float(abs(near).max(initial=0.0)) or 1.0
        unknown = np.repeat(self.ends[some] * (ndim + 1), self.points.shape[2], axis=0)
        heavy = np.repeat(weights, self.points.shape[2])[:, None]
        one = np.ones((len(near), 1))
        rows = [np.hstack([near / scale, one, -far / scale, -one]) * heavy]
        columns = [(unknown[:, :, None] + np.arange(ndim + 1)).reshape(len(near), 2 * (ndim + 1))]
        wanted = [np.zeros((len(near), ndim))]
        identity = np.concatenate(
            [np.tile(scale * np.eye(ndim), (count, 1, 1)), self.given[:, None]], axis=1
        ).reshape(-1, ndim)
        anchored = np.arange(count * (ndim + 1)).reshape(count, -1)[:, :ndim].ravel()
        anchored = np.append(anchored, ndim)
        rows.append(np.full((len(anchored), 1), _STIFFNESS))
        columns.append(anchored[:, None])
        wanted.append(_STIFFNESS * identity[anchored])
        pairs = (self.neighbours[:, None] * (ndim + 1) + np.arange(ndim + 1)[:, None]).reshape(
            -1, 2
        )
        rows.append(np.tile([-_WEAK, _WEAK], (len(pairs), 1)))
        columns.append(pairs)
        wanted.append(_WEAK * (identity[pairs[:, 1]] - identity[pairs[:, 0]]))
        found = _least_squares(rows, columns, wanted, len(identity))
        # Row b of the solution has entries (a, b) of the matrix for all a.
        found = found.reshape(count, ndim + 1, ndim)[:, :ndim].transpose(0, 2, 1) / scale
        # All matrices together are smaller than the identity, since this makes residuals smaller.
        return np.linalg.inv(found.mean(axis=0)) @ found

    def _places(
        self,
        some: np.ndarray,
        weights: np.ndarray,
        matrices: np.ndarray,
        start: np.ndarray,
        tolerance: float,
    ) -> np.ndarray:
        """Return places such that links map the mean of their points to the same position."""
        count = len(self.given)
        ends, k = self.ends[some], self.reference
        centre, there = (each[some].mean(axis=2)[:, :, None] for each in (self.points, self.there))
        wanted = (matrices[ends[:, 0]] @ centre - matrices[ends[:, 1]] @ there)[:, :, 0]
        groups = connected(ends, count)
        if k is None:
            anchors = np.unique(groups, return_index=True)[1]
        else:
            i, j = self.neighbours.T
            ends = np.concatenate([ends, self.neighbours])
            wanted = np.concatenate([wanted, self.given[j] - self.given[i]])
            weights = np.concatenate([weights, np.full(len(i), _WEAK)])
            anchors = np.array([k])
        matrix = _rows(np.stack([-weights, weights], axis=1), ends, count)
        normal, sums = (matrix.T @ matrix).tocsr(), matrix.T @ (weights[:, None] * wanted)
        if k is None and self._is_wide:
            places = _iterated(normal, sums, start, tolerance)
        else:
            anchor = sparse.coo_matrix((np.ones(len(anchors)), (anchors, anchors)), normal.shape)
            sums[anchors] += self.given[anchors]
            solve = _solver(normal + anchor)
            places = solve(sums)
            # In chains, rounding errors are not small compared with the weights of neighbours.
            for _ in range(0 if k is None else _MAX_CHANGES):
                left = wanted - np.diff(places[ends], axis=1)[:, 0]
                change = solve(matrix.T @ (weights[:, None] * left))
                places += change
                if abs(change).max() < _MIN_CHANGE:
                    break
        if k is not None:
            return places + (self.given[k] - places[k])
        means = [np.bincount(groups, e) / np.bincount(groups) for e in (self.given - places).T]
        return places + np.stack(means, axis=1)[groups]

    @cached_property
    def _is_wide(self) -> bool:
        """Whether the factors of the equations of places would fill the memory."""
        count = len(self.given)
        if count < _MAX_DISTANCE or not len(self.ends):
            return False
        graph = sparse.coo_matrix((np.ones(len(self.ends)), self.ends.T), (count, count)).tocsr()
        rank = np.argsort(reverse_cuthill_mckee((graph + graph.T).tocsr(), symmetric_mode=True))
        return bool(np.median(abs(np.diff(rank[self.ends], axis=1))) > _MAX_DISTANCE)


def _rows(entries: np.ndarray, columns: np.ndarray, unknowns: int) -> sparse.csr_matrix:
    """Return a sparse matrix with the same number of entries in each row."""
    starts = np.arange(len(entries) + 1) * entries.shape[1]
    return sparse.csr_matrix((entries.ravel(), columns.ravel(), starts), (len(entries), unknowns))


def _jump(unknowns: int, count: int) -> np.ndarray:
    """Return the rows by which pairs of images have a difference of their unknowns."""
    one = np.eye(unknowns)
    return np.tile(np.hstack([-one, one]), (count, 1, 1))


def _normal(parts: Iterable[_Part], count: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return the normal equations of pairs of images, with their rows and wanted values, and their sums."""
    found = []
    for pairs, rows, wanted in parts:
        n, unknowns, turned = len(pairs), rows.shape[2] // 2, rows.transpose(0, 2, 1)
        blocks = (turned @ rows).reshape(n, 2, unknowns, 2, unknowns)
        own = np.stack([blocks[:, k, :, k] for k in (0, 1)], axis=1)
        total = (turned @ wanted).reshape(n, 2, unknowns, wanted.shape[2])
        found.append((pairs, own, blocks[:, 0, :, 1].copy(), total))
    ends, own, across, total = map(np.concatenate, zip(*found, strict=True))
    images = np.arange(count)
    squares = _summed(own, ends, count)
    i, j = ends.T
    rows, columns = np.concatenate([images, i, j]), np.concatenate([images, j, i])
    order = np.lexsort((columns, rows))
    blocks = np.concatenate([squares, across, across.transpose(0, 2, 1)])[order]
    starts = np.append(0, np.cumsum(np.bincount(rows, minlength=count)))
    matrix = sparse.bsr_matrix((blocks, columns[order], starts), (count * unknowns,) * 2)
    return matrix.tocsr(), _summed(total, ends, count).reshape(count * unknowns, -1)


def _summed(values: np.ndarray, ends: np.ndarray, count: int) -> np.ndarray:
    """Return the sums for each image of arrays (pairs, 2, ...) for both ends of pairs."""
    images, shape = ends.ravel(), values.shape[2:]
    columns = values.reshape(len(images), math.prod(shape)).T
    sums = [np.bincount(images, column, count) for column in columns]
    return np.stack(sums, axis=1).reshape(count, *shape)


def _skew(ndim: int) -> np.ndarray:
    """Return the skew matrices of rotations, (rotations, axes, axes)."""
    found = []
    for a, b in itertools.combinations(range(ndim), 2):
        found.append(np.zeros((ndim, ndim)))
        found[-1][a, b], found[-1][b, a] = -1.0, 1.0
    return np.array(found)


def _rotations(skew: np.ndarray) -> np.ndarray:
    """Return the rotations of skew matrices, by the formula of Rodrigues."""
    angle = np.sqrt((skew**2).sum(axis=(1, 2)) / 2)[:, None, None]
    first, second = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi)) ** 2 / 2
    return np.eye(skew.shape[1]) + first * skew + second * (skew @ skew)


def _least_squares(
    rows: list[np.ndarray], columns: list[np.ndarray], wanted: list[np.ndarray], unknowns: int
) -> np.ndarray:
    """Return the unknowns that solve blocks of equations, each with the same number of entries."""
    matrix = sparse.vstack(
        [_rows(entries, of, unknowns) for entries, of in zip(rows, columns, strict=True)]
    ).tocsr()
    return _solver((matrix.T @ matrix).tocsr())(matrix.T @ np.concatenate(wanted))


def _solver(normal: sparse.csr_matrix) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that solves symmetric positive definite equations."""
    below = sparse.tril(normal, format="coo")
    distances = below.row - below.col
    width = int(distances.max(initial=0)) + 1
    if normal.shape[0] >= _MIN_LARGE and width <= _MAX_WIDTH:
        # Images of a stack are only linked to near ones.
        band = np.zeros((width, normal.shape[0]), order="F")
        band[distances, below.col] = below.data
        with suppress(np.linalg.LinAlgError):  # rounding errors of nearly singular equations
            factor = cholesky_banded(band, overwrite_ab=True, lower=True, check_finite=False)
            if np.isfinite(factor).all():  # LAPACK does not stop at NaN
                return partial(cho_solve_banded, (factor, True), check_finite=False)
    return factorized(normal.tocsc()).solve  # type: ignore[no-any-return]


def factorized(normal: sparse.csc_matrix) -> SuperLU:
    """Return the factors of a symmetric positive definite matrix."""
    return splu(
        normal,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def _iterated(
    normal: sparse.csr_matrix, wanted: np.ndarray, start: np.ndarray, tolerance: float
) -> np.ndarray:
    """Return a solution by conjugate gradients; the number of threads changes no bit."""
    # The matrix is singular: all places of a group may move together.
    diagonal = normal.diagonal()
    inverse = 1 / np.where(diagonal > 0, diagonal, 1.0)[:, None]
    found, error = start, wanted - normal @ start
    enough = tolerance**2 * (inverse * wanted * wanted).sum(axis=0)
    way = inverse * error
    length = (error * way).sum(axis=0)
    for _ in range(_MAX_ITERATIONS):
        if (length <= enough).all():
            break
        ahead = normal @ way
        curvature = (way * ahead).sum(axis=0)
        step = np.divide(length, curvature, out=np.zeros_like(length), where=curvature > 0)
        found, error = found + step * way, error - step * ahead
        before, length = length, (inverse * error * error).sum(axis=0)
        way = (
            inverse * error
            + np.divide(length, before, out=np.zeros_like(length), where=before > 0) * way
        )
    return found
