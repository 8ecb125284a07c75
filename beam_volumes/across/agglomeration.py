"""Regions merged by the order of their boundaries, as a greedy order does, whatever is known first.

The order is total. The better score comes first; of equal scores that of the smaller names, the larger of the
two names compared first. Scores are integers or fractions of integers, and compared as such. A merged region
has the larger name of its two. So a merge never makes a boundary better: neither its score, since the score
of two boundaries together lies between theirs, nor its names. Two regions that are each other's best are
therefore merged by the greedy order too, whatever happens elsewhere, before or after.

`settle` merges what can be merged while some regions are *open*: those that have boundaries elsewhere, which
may come later. What rests on them is left for later.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

#: What is known of a boundary. Those of two boundaries of one pair add up to one.
Boundary = Any
#: Digits of a ratio, in which fractions of integers below 2**64 that differ do so.
_SHIFT = 128


@dataclass(frozen=True)
class Linkage:
    """How boundaries add up, and their score.

    Attributes
    ----------
    name : {"mean", "max", "min", "quantile", "lowest"}
        ``"lowest"``: boundaries are heights, the least of which counts, and less is better.
    quantile : float
        For ``"quantile"``: the share of faces with a smaller affinity, at most.
    """

    name: str
    quantile: float = 0.5

    @property
    def add(self) -> Callable[[Boundary, Boundary], Boundary]:
        if self.name == "mean":
            return lambda a, b: (a[0] + b[0], a[1] + b[1])
        if self.name == "quantile":
            return lambda a, b: a + b
        return max if self.name == "max" else min  # "min", and "lowest"

    @property
    def key(self) -> Callable[[Boundary], Any]:
        """What scores are compared by, which is the same for equal scores alone."""
        if self.name == "mean":
            return lambda b: (b[0] << _SHIFT) // b[1]
        if self.name == "lowest":
            return lambda b: -b
        return self._rank if self.name == "quantile" else lambda b: b

    def _rank(self, counts: np.ndarray) -> int:
        sums = np.cumsum(counts)
        # Of n sorted values the one at floor(q * (n - 1)), by whole numbers.
        share = Fraction(self.quantile)
        at = int(sums[-1] - 1) * share.numerator // share.denominator
        return int(np.searchsorted(sums, at, side="right"))

    def score(self, boundary: Boundary) -> float:
        """The score, rounded once."""
        if self.name == "mean":
            return boundary[0] / boundary[1]
        return float(self.key(boundary))

    def least(self, threshold: float) -> Any:
        """The key that the score has to reach."""
        if self.name != "mean":
            return threshold
        ratio = Fraction(threshold)
        return -((-ratio.numerator << _SHIFT) // ratio.denominator)


@dataclass(frozen=True)
class Merge:
    """Two regions that became one, which has the name ``b``, the larger one."""

    a: int
    b: int
    score: float
    size: int


@dataclass
class Graph:
    """Boundaries between regions, and the sizes of regions.

    Attributes
    ----------
    edges : dict
        By pair of names, the smaller first.
    sizes : dict
        Of all regions with edges.
    """

    edges: dict[tuple[int, int], Boundary] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)


def settle(
    graph: Graph,
    linkage: Linkage,
    threshold: float,
    max_size: int | None = None,
    min_size: int | None = None,
    is_open: Callable[[int], bool] = lambda name: False,
) -> tuple[list[Merge], Graph]:
    """Merge all that can be merged now.

    Parameters
    ----------
    graph : Graph
        All boundaries of regions that are not open.
    linkage : Linkage
    threshold : float
        Boundaries of a lower score are not merged.
    max_size : int, optional
        No region becomes larger than that.
    min_size : int, optional
        Of two regions that merge one is smaller than that.
    is_open : callable
        Whether a region may have other boundaries elsewhere.

    Returns
    -------
    merges : list of Merge
        In the order in which they were made.
    left : Graph
        What may be merged later: regions that never will be are left out.

    Examples
    --------
    >>> graph = Graph({(1, 2): (9, 1), (2, 3): (8, 1), (1, 3): (2, 1)}, {1: 1, 2: 1, 3: 1})
    >>> settle(graph, Linkage("mean"), 5.0)[0]
    [Merge(a=1, b=2, score=9.0, size=2), Merge(a=2, b=3, score=5.0, size=3)]
    >>> merges, left = settle(graph, Linkage("mean"), 5.0, is_open=lambda name: name == 3)
    >>> merges, left.edges
    ([Merge(a=1, b=2, score=9.0, size=2)], {(2, 3): (10, 2)})
    """
    add, key, least = linkage.add, linkage.key, linkage.least(threshold)
    # Regions by number: of two that merge the one with more neighbours stays, under the name of both.
    names = list(graph.sizes)
    number = {name: i for i, name in enumerate(names)}
    sizes = [graph.sizes[name] for name in names]
    stuck = [is_open(name) for name in names]
    gone = [False] * len(names)
    around: list[dict[int, list[Any]]] = [{} for _ in names]
    heap: list[tuple[Any, int, int, int, int]] = []
    for (a, b), boundary in graph.edges.items():
        i, j = number[a], number[b]
        if i == j:
            continue
        around[i][j] = around[j][i] = [boundary, -key(boundary)]
        heap.append((around[i][j][1], max(a, b), min(a, b), i, j))
    heapq.heapify(heap)
    merges: list[Merge] = []
    while heap:
        low, larger, smaller, i, j = heap[0]
        if -low < least:
            break
        edge = None if gone[i] or gone[j] else around[i].get(j)
        if edge is None or edge[1] != low:  # another entry has what became of it
            heapq.heappop(heap)
            continue
        a, b = names[i], names[j]
        if (larger, smaller) != (max(a, b), min(a, b)):  # it has got worse since
            heapq.heapreplace(heap, (low, max(a, b), min(a, b), i, j))
            continue
        heapq.heappop(heap)
        size = sizes[i] + sizes[j]
        if (max_size is not None and size > max_size) or (
            min_size is not None and min(sizes[i], sizes[j]) >= min_size
        ):  # nor will regions that hold them
            del around[i][j], around[j][i]
            continue
        if stuck[i] or stuck[j]:  # the best of either, so that neither can do anything else
            stuck[i] = stuck[j] = True
            continue
        merges.append(Merge(min(a, b), max(a, b), linkage.score(edge[0]), size))
        if len(around[i]) < len(around[j]):
            i, j = j, i
        gone[j] = True
        names[i], sizes[i] = max(a, b), size
        del around[i][j], around[j][i]
        for k, other in around[j].items():
            del around[k][j]
            own = around[i].get(k)
            if own is not None:
                boundary = add(own[0], other[0])
                other = [boundary, -key(boundary)]
            around[i][k] = around[k][i] = other
            c, d = names[i], names[k]
            heapq.heappush(heap, (other[1], max(c, d), min(c, d), i, k))
        around[j] = {}
    # Of regions whose best boundary is below the threshold nothing ever changes.
    left = Graph()
    for i, others in enumerate(around):
        for j, edge in others.items():
            if i < j and stuck[i] and stuck[j]:
                a, b = names[i], names[j]
                left.edges[min(a, b), max(a, b)] = edge[0]
                left.sizes[a], left.sizes[b] = sizes[i], sizes[j]
    return merges, left


def together(graphs: Iterable[Graph], linkage: Linkage) -> Graph:
    """Several graphs as one; of regions that several have the sizes are equal."""
    add, whole = linkage.add, Graph()
    for graph in graphs:
        whole.sizes |= graph.sizes
        for pair, boundary in graph.edges.items():
            own = whole.edges.get(pair)
            whole.edges[pair] = boundary if own is None else add(own, boundary)
    return whole


def roots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where chains of merges of ``a`` (increasing) into ``b`` end.

    Examples
    --------
    >>> roots(np.array([1, 4, 6]), np.array([4, 9, 7]))
    array([9, 9, 7])
    """
    ends = b.copy()
    if not len(a):
        return ends
    while True:
        at = np.minimum(np.searchsorted(a, ends), len(a) - 1)
        further = a[at] == ends
        if not further.any():
            return ends
        ends = np.where(further, ends[at], ends)
