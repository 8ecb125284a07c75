"""Greedy merging of regions in the order of their boundaries' scores, on arrays.

Boundaries are rows of arrays, and regions are numbered in the order of their names. Scores never improve, so
two regions that are each other's best neighbours are merged in the greedy order, too, regardless of other
merges. `merge_nearest` looks for such pairs from region to region, which are near each other in memory. A
region with very many neighbours would be searched again after each of its merges. `merge_greedily` merges
those with a queue of all boundaries.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel

#: The score: the mean, maximum or minimum of values, or a quantile of a histogram.
MEAN, LARGEST, SMALLEST, QUANTILE = 0, 1, 2, 3

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
#: Quotients of int64 with a larger relative difference are in the order of their float64 approximations.
_CLOSE = 2.0**-50


@row_kernel
def _product(a, b):
    """The product of two uint64: its upper and lower 64 bits."""
    a0, a1, b0, b1 = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low = a0 * b0
    middle = a1 * b0 + (low >> _HALF)
    other = a0 * b1 + (middle & _LOW)
    high = a1 * b1 + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW)


@row_kernel
def _order(a, b, c, d):
    """-1, 0 or 1 if ``a / b`` is less than, equal to or greater than ``c / d``: exact, for b, d > 0."""
    small = np.int64(1) << np.int64(31)
    if -small < a < small and -small < c < small and b < small and d < small:
        left, right = a * d, c * b
        return np.int64(left > right) - np.int64(left < right)
    if a >= 0 and c < 0:
        return np.int64(1)
    if a < 0 and c >= 0:
        return np.int64(-1)
    high, low = _product(np.uint64(abs(a)), np.uint64(d))
    other_high, other_low = _product(np.uint64(abs(c)), np.uint64(b))
    found = np.int64(high > other_high) - np.int64(high < other_high)
    if found == 0:
        found = np.int64(low > other_low) - np.int64(low < other_low)
    return found if a >= 0 else -found


@row_kernel
def _rank(counts, numerator, denominator):
    """The first bin up to which a given fraction of all values, and at least one value, is counted."""
    total = np.int64(0)
    for k in range(counts.size):
        total += counts[k]
    wanted = min(total, np.int64(total * (numerator / denominator)))
    while wanted > 0 and _order(wanted - 1, total, numerator, denominator) >= 0:
        wanted -= 1
    while wanted < total and _order(wanted, total, numerator, denominator) < 0:
        wanted += 1
    wanted = max(wanted, np.int64(1))
    below = np.int64(0)
    for k in range(counts.size):
        below += counts[k]
        if below >= wanted:
            return np.float64(k)
    return np.float64(counts.size)


@row_kernel
def _home(key, mask):
    mixed = (key ^ (key >> np.uint64(29))) * _MULTIPLIER
    return np.int64(mixed >> np.uint64(24)) & mask


@row_kernel
def _pair(i, j):
    return (np.uint64(min(i, j)) << _HALF) | np.uint64(max(i, j))


@row_kernel
def _slot(rows, links, i, j):
    """The slot of the boundary of two regions, or the free slot for it."""
    mask = rows.size - 1
    key = _pair(i, j)
    at = _home(key, mask)
    while rows[at] >= 0 and _pair(links[rows[at], 0], links[rows[at], 1]) != key:
        at = (at + 1) & mask
    return at


@row_kernel
def _remove(rows, links, i, j):
    """Remove the boundary of two regions, and move back entries that it had displaced."""
    mask = rows.size - 1
    hole = _slot(rows, links, i, j)
    at = (hole + 1) & mask
    while rows[at] >= 0:
        home = _home(_pair(links[rows[at], 0], links[rows[at], 1]), mask)
        if ((at - home) & mask) >= ((at - hole) & mask):
            rows[hole] = rows[at]
            hole = at
        at = (at + 1) & mask
    rows[hole] = -1


@row_kernel
def _add(how, e, f, fractions, scores, bins, share):
    """Add the values of boundary ``f`` to boundary ``e``."""
    if how == MEAN:
        fractions[e, 0] += fractions[f, 0]
        fractions[e, 1] += fractions[f, 1]
    elif how == SMALLEST:
        scores[e] = min(scores[e], scores[f])
    else:
        for k in range(bins.shape[1]):
            bins[e, k] += bins[f, k]
        scores[e] = _rank(bins[e], share[0], share[1])


@row_kernel
def _score(how, e, fractions, scores):
    """The score of a boundary, approximate for means."""
    return fractions[e, 0] / fractions[e, 1] if how == MEAN else scores[e]


@row_kernel
def _compared(how, e, p, f, q, fractions, column):
    """-1, 0 or 1 if the score of boundary ``e`` is less than, equal to or greater than the score of ``f``.

    ``p`` and ``q`` are `_score` of both. Means are fractions of ``column`` and the following one.
    """
    if how == MEAN and abs(p - q) <= _CLOSE * max(abs(p), abs(q)):
        a, b = column, column + 1
        return _order(fractions[e, a], fractions[e, b], fractions[f, a], fractions[f, b])
    return np.int64(p > q) - np.int64(p < q)


@row_kernel
def _last(how, e, fractions, last):
    """The last known score of a boundary, approximate for means."""
    return fractions[e, 2] / fractions[e, 3] if how == MEAN else last[e]


@row_kernel
def _before(how, e, f, fractions, last, names):
    """Whether boundary ``e`` comes before ``f`` by their last known scores."""
    p, q = _last(how, e, fractions, last), _last(how, f, fractions, last)
    order = _compared(how, e, p, f, q, fractions, 2)
    return order > 0 or (order == 0 and names[e] < names[f])


@row_kernel
def _refresh(how, e, numbers, links, fractions, scores, last, names):
    """Update the last known score of a boundary for the queue."""
    i, j = numbers[links[e, 0]], numbers[links[e, 1]]
    names[e] = (np.uint64(max(i, j)) << _HALF) | np.uint64(min(i, j))
    if how == MEAN:
        fractions[e, 2] = fractions[e, 0]
        fractions[e, 3] = fractions[e, 1]
    else:
        last[e] = scores[e]


@row_kernel
def _reaches(how, e, fraction, threshold, fractions, scores):
    """Whether the score of a boundary is >= the threshold."""
    if how == MEAN:
        return _order(fractions[e, 0], fractions[e, 1], fraction[0], fraction[1]) >= 0
    return scores[e] >= threshold


@row_kernel
def _refused(max_size, min_size, a, b):
    """Whether two sizes are too large for a merge; they only grow."""
    return (0 <= max_size < a + b) or (0 <= min_size <= min(a, b))


@row_kernel
def _root(parent, i):
    """The region that contains region ``i``; shortens the way to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = np.int64(parent[i])
    return i


@row_kernel
def _combine(how, share, i, edges, lists, parent):
    """Combine the boundaries between region ``i`` and each of its neighbours; return their number."""
    links, fractions, scores, bins = edges
    heads, tails, marks = lists
    count, before, half = 0, np.int64(-1), np.int64(heads[i])
    while half >= 0:
        e, s = half >> 1, half & 1
        after = np.int64(links[e, 2 + s])
        k = i if links[e, 0] < 0 else _root(parent, np.int64(links[e, 1 - s]))
        if k != i:
            links[e, s] = i
            links[e, 1 - s] = k
            f = np.int64(marks[k])  # of this region, or of another one
            if f >= 0 and f != e and _pair(links[f, 0], links[f, 1]) == _pair(i, k):
                _add(how, f, e, fractions, scores, bins, share)
                k = i
            else:
                marks[k] = e
        if k != i:
            count += 1
            before = half
        else:
            links[e, 0] = -1
            if before < 0:
                heads[i] = after
            else:
                links[before >> 1, 2 + (before & 1)] = after
        half = after
    tails[i] = before
    return count


@row_kernel
def _best(how, limits, i, links, fractions, scores, sizes, head):
    """The best boundary of region ``i``, and its neighbour; -1 if there is none.

    Removes boundaries of regions that are too large for a merge.
    """
    best, near, p = np.int64(-1), np.int64(-1), 0.0
    half = np.int64(head)
    while half >= 0:
        e, s = half >> 1, half & 1
        k = np.int64(links[e, 1 - s])
        if _refused(limits[0], limits[1], sizes[i], sizes[k]):
            links[e, 0] = -1
        else:
            q = _score(how, e, fractions, scores)
            order = np.int64(1) if best < 0 else _compared(how, e, q, best, p, fractions, 0)
            if order > 0 or (order == 0 and k < near):
                best, near, p = e, k, q
        half = np.int64(links[e, 2 + s])
    return best, near


@kernel
def merge_nearest(
    how, share, fraction, threshold, limits, max_neighbours, edges, regions, lists, found
):
    """Merge pairs that are each other's best neighbours, as long as this is certain.

    Returns the number of merges, and whether a region has too many neighbours. Links left are >= 0.
    """
    # ``how`` is the kind of score; ``share`` the quantile and ``fraction`` the threshold of means, each a
    # fraction of two int64; ``threshold`` is for other scores. ``limits`` are two int64: pairs of a larger
    # size, and pairs with both sizes at least the second, are left; -1 for none. Regions with more than
    # ``max_neighbours`` neighbours are treated as ``stuck``.
    #
    # Boundaries have ``edges``: ``links`` int32 (n, 4), with regions in the first two columns; ``fractions``
    # int64 (n, 2), sums and counts; ``scores`` float64; ``bins`` int64 (n, bins). Arrays that a score does
    # not need may be empty. Rows of a pair are combined, except between stuck regions. Regions, in the order
    # of names, have ``regions``: ``sizes`` int64, ``stuck`` bool, and ``parent`` int32 (0, 1, ...), which
    # leads to the region that contains a region.
    #
    # ``lists`` is scratch, int32: three times -1 for each region, and one more number than regions. ``found``
    # receives merges: ``pairs`` int32 (n, 2), ``fractions`` int64 (n, 2) or ``scores`` float64, ``sizes``
    # int64, with room for the smaller number of boundaries and regions.
    links, fractions, scores, bins = edges
    sizes, stuck, parent = regions
    heads, tails, marks, chain = lists
    pairs, parts, best_scores, totals = found
    for e in range(links.shape[0]):
        if how == QUANTILE:
            scores[e] = _rank(bins[e], share[0], share[1])
        for s in range(2):
            i = links[e, s]
            links[e, 2 + s] = heads[i]
            if heads[i] < 0:
                tails[i] = 2 * e + s
            heads[i] = 2 * e + s
    merges, postponed = 0, False
    for start in range(parent.size):
        # A merged region has the larger number, so it is a later start.
        while parent[start] == start and not stuck[start]:
            # Each region of the chain is the best neighbour of the one before.
            chain[0] = start
            length, is_stuck = 1, False
            while length > 0:
                i = np.int64(chain[length - 1])
                degree = _combine(how, share, i, edges, (heads, tails, marks), parent)
                e, k = _best(how, limits, i, links, fractions, scores, sizes, heads[i])
                if e < 0 or not _reaches(how, e, fraction, threshold, fractions, scores):
                    break
                if degree > max_neighbours or stuck[k]:
                    postponed |= degree > max_neighbours
                    is_stuck = True
                    break
                if length == 1 or chain[length - 2] != k:
                    chain[length] = k
                    length += 1
                    continue
                a, b = min(i, k), max(i, k)
                pairs[merges, 0] = a
                pairs[merges, 1] = b
                if how == MEAN:
                    parts[merges, 0] = fractions[e, 0]
                    parts[merges, 1] = fractions[e, 1]
                else:
                    best_scores[merges] = scores[e]
                sizes[b] += sizes[a]
                totals[merges] = sizes[b]
                merges += 1
                links[e, 0] = -1
                parent[a] = b
                tail = np.int64(tails[a])
                links[tail >> 1, 2 + (tail & 1)] = heads[b]
                heads[b] = heads[a]
                length -= 2
            if length > 0 and not is_stuck:
                break  # no boundary of this region reaches the threshold
            for at in range(length):
                stuck[chain[at]] = True
    for e in range(links.shape[0]):
        if links[e, 0] >= 0:
            i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
            links[e, 0] = min(i, j) if i != j and stuck[i] and stuck[j] else -1
            links[e, 1] = max(i, j)
    return merges, postponed


@kernel
def find_waiting(how, share, edges, regions):
    """Find regions that do not merge until others do: their best boundaries lead to those."""
    # A best boundary stays the best one, because scores never improve.
    #
    # ``edges`` are as for `merge_nearest`, with the two first columns of ``links``. ``regions`` are bool
    # ``comes``, regions with boundaries to be added later, which is overwritten; bool ``waits``, regions that
    # wait in any case, which receives the others; and ``best``, scratch: int32 (-1).
    links, fractions, scores, bins = edges
    comes, waits, best = regions
    for e in range(links.shape[0]):
        if how == QUANTILE:
            scores[e] = _rank(bins[e], share[0], share[1])
        q = _score(how, e, fractions, scores)
        for s in range(2):
            i, k, f = links[e, s], links[e, 1 - s], np.int64(best[links[e, s]])
            if f >= 0:
                p = _score(how, f, fractions, scores)
                order = _compared(how, e, q, f, p, fractions, 0)
                if order < 0 or (order == 0 and links[f, 0] + links[f, 1] - i <= k):
                    continue
            best[i] = e
    for start in range(best.size):
        i = start
        while not waits[i] and not comes[i] and best[i] >= 0:
            comes[i] = True  # has been here
            i = links[best[i], 0] + links[best[i], 1] - i
        if waits[i]:
            k = start
            while k != i:
                waits[k] = True
                k = links[best[k], 0] + links[best[k], 1] - k


@row_kernel
def _sift(how, heap, count, at, fractions, last, names):
    """Restore the heap's order from one entry downwards."""
    e = heap[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and _before(how, heap[child + 1], heap[child], fractions, last, names):
            child += 1
        if not _before(how, heap[child], e, fractions, last, names):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = e


@kernel
def merge_greedily(how, share, fraction, threshold, limits, edges, regions, rows, heap, found):
    """As `merge_nearest`, but merge the best of all pairs repeatedly, for any number of neighbours.

    Returns the number of merges; ``links`` of remaining boundaries are indices of ``sizes``, others are < 0.
    """
    # When two regions merge, their boundaries move to the list of the merged region. If two boundaries then
    # have the same pair, the one with the better score absorbs the other. A queue orders boundaries by their
    # last known scores. It suffices to update the score of a boundary at the head of the queue.
    #
    # ``edges`` also have scratch: ``names`` uint64 and ``last`` float64, or two columns of ``fractions``.
    # ``regions`` are ``sizes``, ``stuck``, and int32 scratch: ``numbers`` (0, 1, ...), ``heads`` (-1) and
    # ``degrees`` (0). ``rows`` is scratch: int32 (-1), with a power of two above the number of boundaries as
    # length. ``heap`` is int32 with the length of boundaries.
    links, fractions, scores, bins, last, names = edges
    sizes, stuck, numbers, heads, degrees = regions
    pairs, parts, best_scores, totals = found
    max_size, min_size = limits
    count = 0
    for e in range(links.shape[0]):
        if how == QUANTILE:
            scores[e] = _rank(bins[e], share[0], share[1])
        at = _slot(rows, links, links[e, 0], links[e, 1])
        if rows[at] >= 0:
            _add(how, np.int64(rows[at]), e, fractions, scores, bins, share)
            links[e, 0] = -1
            continue
        rows[at] = e
        for s in range(2):
            i = links[e, s]
            links[e, 2 + s] = heads[i]
            heads[i] = 2 * e + s
            degrees[i] += 1
    for e in range(links.shape[0]):
        if links[e, 0] < 0:
            continue
        _refresh(how, e, numbers, links, fractions, scores, last, names)
        if _reaches(how, e, fraction, threshold, fractions, scores):
            heap[count] = e
            count += 1
    for at in range(count // 2 - 1, -1, -1):
        _sift(how, heap, count, at, fractions, last, names)
    merges = 0
    while count:
        e = np.int64(heap[0])
        if links[e, 0] >= 0:
            i, j = np.int64(links[e, 0]), np.int64(links[e, 1])
            a, b = numbers[i], numbers[j]
            now = (np.uint64(max(a, b)) << _HALF) | np.uint64(min(a, b))
            same = names[e] == now
            if how == MEAN:
                same &= fractions[e, 2] == fractions[e, 0] and fractions[e, 3] == fractions[e, 1]
            else:
                same &= last[e] == scores[e]
            if not same:  # it has become worse since then
                _refresh(how, e, numbers, links, fractions, scores, last, names)
                if _reaches(how, e, fraction, threshold, fractions, scores):
                    _sift(how, heap, count, 0, fractions, last, names)
                    continue
                i = np.int64(-1)
        else:
            i = j = np.int64(-1)
        count -= 1
        heap[0] = heap[count]
        _sift(how, heap, count, 0, fractions, last, names)
        if i < 0:
            continue
        size = sizes[i] + sizes[j]
        if _refused(max_size, min_size, sizes[i], sizes[j]):
            _remove(rows, links, i, j)
            links[e, 0] = -1
            degrees[i] -= 1
            degrees[j] -= 1
            continue
        if stuck[i] or stuck[j]:  # the best pair of either, so neither can merge with another
            stuck[i] = True
            stuck[j] = True
            continue
        a, b = numbers[i], numbers[j]
        pairs[merges, 0] = min(a, b)
        pairs[merges, 1] = max(a, b)
        totals[merges] = size
        if how == MEAN:
            parts[merges, 0] = fractions[e, 0]
            parts[merges, 1] = fractions[e, 1]
        else:
            best_scores[merges] = scores[e]
        merges += 1
        _remove(rows, links, i, j)
        links[e, 0] = -1
        degrees[i] -= 1
        degrees[j] -= 1
        if degrees[i] < degrees[j]:
            i, j = j, i
        numbers[i] = max(a, b)
        sizes[i] = size
        half = np.int64(heads[j])
        heads[j] = -1
        while half >= 0:
            e, s = half >> 1, half & 1
            after = np.int64(links[e, 2 + s])
            if links[e, 0] >= 0:
                k = np.int64(links[e, 1 - s])
                _remove(rows, links, j, k)
                at = _slot(rows, links, i, k)
                kept = True
                if rows[at] < 0:
                    rows[at] = e
                    degrees[i] += 1
                else:
                    f = np.int64(rows[at])
                    degrees[k] -= 1
                    if _before(how, e, f, fractions, last, names):
                        _add(how, e, f, fractions, scores, bins, share)
                        rows[at] = e
                        links[f, 0] = -1
                    else:
                        _add(how, f, e, fractions, scores, bins, share)
                        links[e, 0] = -1
                        kept = False
                if kept:
                    links[e, s] = i
                    links[e, 2 + s] = heads[i]
                    heads[i] = half
            half = after
    return merges


@row_kernel
def _sift_names(names, rows, count, at):
    """Restore the order of a heap of names and rows from one entry downwards."""
    name, row = names[at], rows[at]
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and names[child + 1] < names[child]:
            child += 1
        if names[child] >= name:
            break
        names[at], rows[at] = names[child], rows[child]
        at = child
    names[at], rows[at] = name, row


@kernel
def merge_in_order(limits, links, scores, left, regions, heap, found):
    """As `merge_greedily`, for scores that never change: the best of two boundaries of a pair counts.

    Returns the number of merges; ``left``, bool, receives which boundaries remain; a pair may have several.
    """
    # Boundaries are in descending order of ``scores``, float64; all reach the threshold. ``links`` is int32
    # (n, 2), the regions of each. ``regions`` are ``sizes`` int64, ``stuck`` bool, and ``parent`` int32 (0,
    # 1, ...), which leads to the region that contains a region. ``heap`` is scratch: uint64 and int32 with
    # the length of the largest number of equal scores. ``found`` receives merges: ``pairs`` int32 (n, 2),
    # ``scores`` float64 and ``sizes`` int64, with room for the smaller number of boundaries and regions.
    max_size, min_size = limits
    sizes, stuck, parent = regions
    names, rows = heap
    pairs, best, totals = found
    merges, start = 0, 0
    while start < scores.size:
        stop = start + 1
        while stop < scores.size and scores[stop] == scores[start]:
            stop += 1
        count = 0
        for e in range(start, stop):
            i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
            left[e] = i != j and not _refused(max_size, min_size, sizes[i], sizes[j])
            if left[e] and not (stuck[i] and stuck[j]):
                names[count] = (np.uint64(max(i, j)) << _HALF) | np.uint64(min(i, j))
                rows[count] = e
                count += 1
        for at in range(count // 2 - 1, -1, -1):
            _sift_names(names, rows, count, at)
        while count:
            e = np.int64(rows[0])
            i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
            a, b = min(i, j), max(i, j)
            now = (np.uint64(b) << _HALF) | np.uint64(a)
            if a != b and now != names[0]:  # it has become worse since then
                names[0] = now
                _sift_names(names, rows, count, 0)
                continue
            count -= 1
            names[0], rows[0] = names[count], rows[count]
            _sift_names(names, rows, count, 0)
            left[e] = a != b and not _refused(max_size, min_size, sizes[a], sizes[b])
            if not left[e]:
                continue
            if stuck[a] or stuck[b]:  # the best pair of either, so neither can merge with another
                stuck[a] = True
                stuck[b] = True
                continue
            left[e] = False
            parent[a] = b
            sizes[b] += sizes[a]
            pairs[merges, 0] = a
            pairs[merges, 1] = b
            best[merges] = scores[e]
            totals[merges] = sizes[b]
            merges += 1
        start = stop
    for e in range(scores.size):
        if left[e]:
            i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
            links[e, 0] = min(i, j)
            links[e, 1] = max(i, j)
            left[e] = i != j and not _refused(max_size, min_size, sizes[i], sizes[j])
    return merges


@kernel
def join_in_order(links, scores, parent, bypassed):
    """Join all regions with boundaries, and find boundaries with a way around them that scores better."""
    # Boundaries are in descending order of ``scores``, float64; ``links`` is int32 (n, 2), the regions of
    # each. ``parent``, int32 (0, 1, ...), receives a region of each connected part. ``bypassed``, bool (n,),
    # receives whether other boundaries connect the two regions, each with a better score.
    start = 0
    while start < scores.size:
        stop = start + 1
        while stop < scores.size and scores[stop] == scores[start]:
            stop += 1
        for e in range(start, stop):
            i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
            bypassed[e] = i == j
        for e in range(start, stop):
            if not bypassed[e]:
                i, j = _root(parent, np.int64(links[e, 0])), _root(parent, np.int64(links[e, 1]))
                parent[min(i, j)] = max(i, j)
        start = stop
    for i in range(parent.size):
        parent[i] = _root(parent, i)
