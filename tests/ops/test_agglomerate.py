"""Agglomeration against a greedy loop over all boundaries, for any ranges, slabs and runner."""

import functools
import itertools
import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.across import agglomeration
from beam_volumes.across.adjacency import adjacency
from beam_volumes.across.agglomeration import (
    Boundaries,
    Linkage,
    Needed,
    Regions,
    roots,
    settle,
    settle_in_parts,
)
from beam_volumes.across.rounds import agglomeration as agglomeration_rounds
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.across.rounds.agglomeration import (
    HISTOGRAM,
    MERGE_BYTES,
    NODE_BYTES,
    Agglomeration,
)
from beam_volumes.across.rounds.chains import Within, chained
from beam_volumes.across.rounds.cutting import Cutting, Marking
from beam_volumes.across.rounds.flow import Flow, Round
from beam_volumes.sweep.survey import VOXELS_PER_LABEL
from tests.across.groups import shuffling
from tests.tiers import examples, thorough

ADD = {
    "mean": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "max": max,
    "min": min,
    "quantile": lambda a, b: tuple(x + y for x, y in zip(a, b, strict=True)),
}


def score_of(linkage, boundary, quantile):
    if linkage == "mean":
        return Fraction(*boundary)
    if linkage == "quantile":
        values = [v for v, n in enumerate(boundary) for _ in range(n)]
        return values[max(0, math.ceil(Fraction(quantile) * len(values)) - 1)]
    return boundary


def greedy(edges, linkage, threshold, sizes, max_size=None, quantile=0.5):
    """The best of all pairs, again and again."""
    edges, sizes, merges = dict(edges), dict(sizes), []
    while True:
        fits = [p for p in edges if max_size is None or sizes[p[0]] + sizes[p[1]] <= max_size]
        score = functools.partial(score_of, linkage, quantile=quantile)
        best = max(fits, key=lambda p: (score(edges[p]), -p[1], -p[0]), default=None)
        if best is None or score(edges[best]) < threshold:
            return sorted(merges)
        a, b = best
        sizes[b] += sizes.pop(a)
        merges.append((a, b, float(score(edges[best])), sizes[b]))
        old, edges = edges, {}
        for (p, q), boundary in old.items():
            pair = tuple(sorted(b if r == a else r for r in (p, q)))
            if pair[0] != pair[1]:
                own = edges.get(pair)
                edges[pair] = boundary if own is None else ADD[linkage](own, boundary)


def columns_of(edges, linkage):
    found = {"label_a": [a for a, _ in edges], "label_b": [b for _, b in edges]}
    found = {name: np.array(c, np.uint64) for name, c in found.items()}
    values = list(edges.values())
    if linkage == "mean":
        found["affinity_sum"] = np.array([s for s, _ in values], np.int64)
        found["affinity_count"] = np.array([n for _, n in values], np.int64)
    elif linkage == "quantile":
        table = np.zeros((len(values), 256), np.int64)
        table[:, :5] = np.array(values, np.int64).reshape(-1, 5)
        found |= dict(zip(HISTOGRAM, table.T, strict=True))
    else:
        found[f"affinity_{linkage}"] = np.array(values, np.uint8)
    return found


class Given(Round):
    def step(self, key, values):
        yield "rows", key, values[0]


def by_rounds(shards, sizes, random, limit=None, **how):
    """The merges of a table in shards, by shuffled rounds over a tree of ranges."""
    source = Flow((Given("slabs", ("rows",)),), ("rows",))
    step = Agglomeration("agglomerate", with_sizes=sizes is not None, **how)
    sources = [source] if sizes is None else [source, source]
    flow = chained(sources, [(step, tuple(range(len(sources))))], limit)
    given_ = [((k,), (s,) if sizes is None else (s, sizes[k])) for k, s in enumerate(shards)]
    found = rounds.run(flow, given_, shuffling(random))["rows"]
    tables = [c for _, c in sorted(found, key=lambda r: r[0])]
    return [r for c in tables for r in zip(*(v.tolist() for v in c.values()), strict=True)]


@st.composite
def graphs(draw):
    linkage = draw(st.sampled_from(sorted(ADD)))
    kind = draw(st.sampled_from(["random", "chain", "hub"]))
    count = draw(st.integers(2, 14))
    far = draw(st.sampled_from([1, 1000, 2**59]))
    if kind == "random":
        pairs = [
            p for p in itertools.combinations(range(1, count + 1), 2) if draw(st.integers(0, 4)) < 3
        ]
    elif kind == "chain":
        pairs = [(k, k + 1) for k in range(1, count)]
    else:
        hub = draw(st.integers(1, count))
        pairs = [tuple(sorted((hub, k))) for k in range(1, count + 1) if k != hub]
    few = st.integers(0, 4)
    if linkage == "mean":
        value = st.integers(1, 3).flatmap(lambda n: few.map(lambda v: (v * n, n)))
    elif linkage == "quantile":
        value = st.tuples(*[st.integers(0, 2)] * 5).filter(any)
    else:
        value = few
    edges = {(a * far, b * far): draw(value) for a, b in pairs}
    return linkage, edges


@pytest.mark.parametrize("number", [24, pytest.param(150, marks=thorough)])
def test_it_is_the_greedy_order(number):
    some = given(graphs(), st.integers(0, 8), st.integers(0, 2**32), st.booleans(), st.data())
    settings(max_examples=number, deadline=None, derandomize=True)(some(greedy_order))()


def greedy_order(graph, twice, seed, limited, data):
    linkage, edges = graph
    random = np.random.default_rng(seed)
    threshold = twice / 2
    quantile = data.draw(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]))
    labels = sorted({r for p in edges for r in p})
    sizes = {r: 1 if not limited else int(random.integers(1, 5)) for r in labels}
    max_size = int(random.integers(2, 14)) if limited else None
    expected = greedy(edges, linkage, threshold, sizes, max_size, quantile)
    whole = columns_of(edges, linkage)
    of = random.integers(0, 4, len(edges))
    shards = [{n: c[of == k] for n, c in whole.items()} for k in range(4)]
    beside = None
    if limited:
        rows = {"label": np.array(labels, np.uint64), "num_pixels": np.array(list(sizes.values()))}
        of = random.integers(0, 4, len(labels))
        beside = [{n: c[of == k] for n, c in rows.items()} for k in range(4)]
    for leaf, radix, levels, neighbours in (
        (1, 2, 3, 256),
        (2, 3, 2, 256),
        (2, 3, 2, 2),
        (1, 2, 0, 256),
    ):
        tree = {"leaf": leaf, "radix": radix, "depth": levels}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(agglomeration, "MAX_NEIGHBOURS", neighbours)
            got = by_rounds(
                shards, beside, random, linkage=linkage, quantile=quantile, threshold=threshold,
                max_size=max_size, **tree,
            )  # fmt: skip
        assert got == expected, (tree, neighbours)
    with pytest.MonkeyPatch.context() as patch:  # a node adds few boundaries at a time
        patch.setitem(NODE_BYTES, linkage, (1 << 20, 0))
        patch.setattr(agglomeration_rounds._Room, "__call__", lambda *_: 1 + seed % 3)
        got = by_rounds(
            shards, beside, random, linkage=linkage, quantile=quantile, threshold=threshold,
            max_size=max_size, radix=2, depth=2, limit=1 << 19,
        )  # fmt: skip
    assert got == expected


def settled(edges, linkage, threshold, **limits):
    """Merges of all boundaries at once, as rows."""
    known = np.array(list(edges.values()))
    a, b = (np.array([p[k] for p in edges], np.uint64) for k in (0, 1))
    names = np.unique(np.concatenate([a, b]))
    regions = Regions(names, np.ones(len(names), np.int64), np.zeros(len(names), bool))
    merges, left, _ = settle(
        Boundaries(a, b, known), regions, Linkage(linkage), threshold, **limits
    )
    assert len(left) == 0
    columns = merges.a, merges.b, merges.scores, merges.sizes
    return sorted(zip(*(c.tolist() for c in columns), strict=True))


def test_scores_are_compared_exactly():
    big = 2**31 + 11
    # a / b < c / d by one part in b * d: the same float64
    a, b, c, d = big, big + 1, big + 1, big + 2
    assert a / b == c / d and a * d < c * b
    edges = {(1, 2): (a, b), (2, 3): (c, d)}
    assert [m[:2] for m in settled(edges, "mean", 0.5)] == [(1, 3), (2, 3)]
    reached = [(1, 3), (2, 3)][a < b * Fraction(a / b) :]
    assert [m[:2] for m in settled(edges, "mean", a / b)] == reached
    third = {(1, 2): (1, 3), (4, 5): (2, 6), (7, 8): (5 * 10**15, 15 * 10**15 + 1)}
    assert len(settled(third, "mean", 1 / 3)) == 2 and Fraction(1 / 3) <= Fraction(1, 3)
    assert settled(third, "mean", math.nextafter(1 / 3, 1)) == []
    large = {(1, 2): 2**62 + 1, (2, 3): 2**62 + 3, (3, 4): 2**62}
    for linkage in ("max", "min"):
        assert [m[:2] for m in settled(large, linkage, 0.0)] == [(1, 3), (2, 3), (3, 4)]
    assert [m[:2] for m in settled(large, "lowest", -math.inf)] == [(1, 2), (2, 4), (3, 4)]
    for heights in ((2**62 + 1, 2**62, 2**62 + 3), (2**60, -(2**62), 5)):
        edges = dict(zip(((1, 2), (3, 4), (5, 6)), heights, strict=True))
        found = settled(edges, "lowest", -float(2**62))
        assert found == [(a, b, float(-h), 2) for (a, b), h in edges.items() if h <= 2**62]
    with pytest.raises(ValueError, match="affinities reach"):
        settled({(1, 2): (2**62, 1), (2, 3): (2**62, 1)}, "mean", 0.0)


@pytest.mark.parametrize("linkage", ["max", "min"])
def test_large_negative_scores_are_compared_exactly(linkage):
    pairs = {"label_a": [1, 2], "label_b": [2, 3]}
    scores = {f"affinity_{linkage}": np.array([-(2**60) - 1, -(2**60)])}  # equal as floats
    merges = bv.agglomerate(pairs | scores, linkage, threshold=-(2.0**61)).to_pyarrow()
    assert merges.to_pydict()["label_b"] == [3, 3]


@pytest.mark.parametrize("linkage", ["mean", "max"])
def test_hubs_and_chains(linkage):
    """A hub with very many neighbours, and a chain through all leaves: each merge changes the hub's name."""
    count = 100_000
    random = np.random.default_rng(0)
    far = np.arange(2, count + 2, dtype=np.uint64)
    for a in (np.ones(count, np.uint64), far - np.uint64(1)):
        known = {"label_a": a, "label_b": far}
        score = random.integers(0, 4, count)
        if linkage == "mean":
            known |= {"affinity_sum": 3 * score, "affinity_count": np.full(count, 3)}
        else:
            known["affinity_max"] = score.astype(np.uint8)
        shards = [{n: c[k::3] for n, c in known.items()} for k in range(3)]
        tree = {"quantile": 0.5, "threshold": 2, "max_size": None}
        got = by_rounds(shards, None, random, linkage=linkage, leaf=1000, radix=4, depth=4, **tree)
        assert len(got) == (score >= 2).sum()
        parents = dict(m[:2] for m in got)
        best = sorted(zip((-score).tolist(), far.tolist(), a.tolist(), strict=True))
        if (a == 1).all():  # by score, then by label; what the hub has become has the larger label
            hub, expected = 1, {}
            for low, b, _ in best:
                if -low >= 2:
                    one, hub = sorted((hub, b))
                    expected[one] = hub
            assert parents == expected
        else:
            joined = np.cumsum(np.concatenate([[0], score < 2]))
            last = np.flatnonzero(np.append(np.diff(joined) > 0, True)) + 1
            keys = np.array(sorted(parents))
            found = roots(keys, np.array([parents[k] for k in keys.tolist()]))
            np.testing.assert_array_equal(found, last[joined[keys - 1]])


@pytest.mark.parametrize("linkage", ["mean", "max", "min", "lowest"])
@pytest.mark.parametrize("limits", [{}, {"min_size": 6}, {"max_size": 9}])
@pytest.mark.parametrize("rounds_", [0, 2, 1000, "little room"])
def test_boundaries_that_are_added_in_parts_merge_in_the_same_order(linkage, limits, rounds_):
    """Also if regions remain open; what a second step adds is merged as if all came at once.

    After some rounds there is no more room, and the second step adds the others. With little room, some
    boundaries that may merge are left to the second step.
    """
    for seed in range(40):
        random = np.random.default_rng(seed)
        a, b = random.integers(1, 40, (2, 150)).astype(np.uint64)
        far = a != b
        a, b = np.minimum(a, b)[far], np.maximum(a, b)[far]
        known = random.integers(0, 6, len(a))
        known = np.stack([3 * known, random.integers(1, 4, len(a))], axis=1)
        known = known if linkage == "mean" else known[:, 0]
        names = np.unique(np.concatenate([a, b]))
        sizes, later = random.integers(1, 9, len(names)), random.random(len(a)) < 0.3
        is_open = np.isin(names, np.concatenate([a[later], b[later]]))
        how = Linkage(linkage), -4.0, limits.get("max_size"), limits.get("min_size")

        def one(rows, is_open, how=how, all_=(a, b, known, names, sizes)):
            a, b, known, names, sizes = all_
            part = Boundaries(a[rows], b[rows], known[rows])
            return settle(part, Regions(names, sizes, is_open), *how)

        expected = one(np.arange(len(a)), np.zeros(len(names), bool))[0]
        parts = [
            Boundaries(a[rows], b[rows], known[rows])
            for rows in np.array_split(np.flatnonzero(~later), 3)
        ]
        calls = iter(
            range(0 if rounds_ == "little room" else rounds_ + 1)
        )  # the first asks for all
        regions = Regions(names, sizes, is_open)

        def room(left, calls=calls, seed=seed):
            if rounds_ == "little room":
                return max(0, 1 + seed - left)
            return 1 + left % 3 if next(calls, None) is not None else 0

        first, left, still = settle_in_parts(parts, regions, room, *how)
        assert len(first) == 0 or rounds_
        assert parts == []
        if rounds_ == 1000 and not limits:
            assert rows_of(first) == rows_of(one(np.flatnonzero(~later), is_open)[0])
        sizes = sizes.copy()
        sizes[np.searchsorted(names, still.names)] = still.sizes
        part = Boundaries.together([left, Boundaries(a[later], b[later], known[later])])
        used = np.unique(np.concatenate([part.a, part.b]))
        own = Regions(used, sizes[np.searchsorted(names, used)], np.zeros(len(used), bool))
        second = settle(part, own, *how)[0]
        assert rows_of(first) | rows_of(second) == rows_of(expected)
        assert len(first) + len(second) == len(expected)


@pytest.mark.parametrize("linkage", ["mean", "max", "quantile"])
def test_boundaries_that_wait_for_open_ends_leave_their_room_to_others(linkage):
    """Layers of regions, open at both ends: only layers near the last added one may still merge."""
    random = np.random.default_rng(0)
    layers, side = 120, 8
    names = np.arange(1, layers * side * side + 1, dtype=np.uint64)
    grid = names.reshape(layers, side, side)
    pairs = [(grid[:-1], grid[1:]), (grid[:, :-1], grid[:, 1:]), (grid[:, :, :-1], grid[:, :, 1:])]
    a, b = (np.concatenate([pair[k].ravel() for pair in pairs]) for k in (0, 1))
    known = random.integers(0, 200, (len(a), 2))
    known[:, 1] = 1
    if linkage == "max":
        known = known[:, 0]
    if linkage == "quantile":
        known = np.eye(256, dtype=np.int64)[known[:, 0]]
    is_open = np.isin(names, np.concatenate([grid[0].ravel(), grid[-1].ravel()]))
    own = np.ones(len(names), np.int64)
    how = Linkage(linkage), 20.0, None, None
    at_once = settle(Boundaries(a, b, known.copy()), Regions(names, own, is_open), *how)
    most, layer = 0, len(a) // layers

    def room(left):
        nonlocal most
        most = max(most, left)
        return layer

    parts = [Boundaries(a[k::3].copy(), b[k::3].copy(), known[k::3].copy()) for k in range(3)]
    in_parts = settle_in_parts(parts, Regions(names, own, is_open), room, *how)
    assert rows_of(in_parts[0]) == rows_of(at_once[0])
    assert len(at_once[0])

    def columns(left, regions):
        pair = np.argsort(left.a * np.uint64(1 << 32) + left.b)
        return (
            left.a[pair],
            left.b[pair],
            left.known[pair],
            regions.names,
            regions.sizes,
            regions.is_open,
        )

    for got, expected in zip(columns(*in_parts[1:]), columns(*at_once[1:]), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert most < 0.9 * len(at_once[1])


def rows_of(merges):
    columns = merges.a, merges.b, merges.scores, merges.sizes
    return set(zip(*(c.tolist() for c in columns), strict=True))


def test_what_is_too_large_is_refused_before_it_is_merged():
    random = np.random.default_rng(0)
    a, b = random.integers(1, 400, (2, 3000)).astype(np.uint64)
    ones = np.ones(3000, np.int64)
    shard = {"label_a": a, "label_b": b, "affinity_sum": ones, "affinity_count": ones}
    step = Agglomeration("agglomerate", "mean", 0.5, 0.0, None, False)
    flow = step.flow(80_000)
    merging = [r for r in flow.rounds if r.name.startswith("node")]
    for r in merging:
        object.__setattr__(r, "step_", None)  # they would fail otherwise
    with pytest.raises(ValueError, match=r"needs [\d,]+ boundaries .* memory= by 1 MiB"):
        rounds.run(flow, [((0,), shard)])


def rows_of_tables(step, *tables, random=None, limit=None):
    """The columns of a step's result for inputs in shards, by shuffled rounds."""
    source = Flow((Given("slabs", ("rows",)),), ("rows",))
    flow = chained([source] * len(tables), [(step, tuple(range(len(tables))))], limit)
    group = rounds.group_by_key if random is None else shuffling(random)
    given_ = [((k,), shards) for k, shards in enumerate(zip(*tables, strict=True))]
    found = sorted(rounds.run(flow, given_, group)["rows"], key=lambda r: r[0])
    return {name: np.concatenate([c[name] for _, c in found]) for name in found[0][1]}


def in_shards(table, random):
    """Three shards of the rows of a table."""
    cuts = np.sort(random.integers(0, len(next(iter(table.values()))) + 1, 2))
    return [{name: np.split(c, cuts)[k] for name, c in table.items()} for k in range(3)]


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.data(), st.integers(0, 2**32), st.integers(1, 9), st.integers(2, 4), st.integers(0, 5))
def test_a_cut_in_a_tree_of_ranges(data, seed, leaf, radix, levels):
    """Segments are the ends of chains, and have the mark of any label, for any ranges and shards."""
    random = np.random.default_rng(seed)
    count = data.draw(st.integers(0, 120))
    names = random.permutation(200)[: count + 1].astype(np.uint64)
    names = np.sort(names << np.uint64(data.draw(st.sampled_from([0, 55]))))
    is_merged = random.random(count) < data.draw(st.sampled_from([0.3, 0.9, 1.0]))
    at = np.flatnonzero(is_merged)
    reach = data.draw(st.sampled_from([1, 5, 200]))
    further = np.minimum(count, at + random.integers(1, reach + 1, len(at)))
    a, b = names[at], names[further]
    order = random.permutation(len(a))
    merges = {"label_a": a[order], "label_b": b[order], "score": random.random(len(a))}
    threshold = data.draw(st.sampled_from([None, 0.5]))
    shards = in_shards(merges, random)
    tree = leaf, radix, levels
    got = rows_of_tables(Cutting("cut", threshold, *tree), shards, random=random)
    used = merges["score"] >= (threshold or 0)
    a, b = merges["label_a"][used], merges["label_b"][used]
    order = np.argsort(a)
    assert np.array_equal(got["label"], a[order])
    assert np.array_equal(got["segment"], roots(a[order], b[order]))
    order = np.argsort(merges["label_a"])
    ends = dict(zip(names.tolist(), names.tolist(), strict=True))
    last = roots(merges["label_a"][order], merges["label_b"][order])
    ends |= zip(merges["label_a"][order].tolist(), last.tolist(), strict=True)
    mark = {end: int(random.integers(-2, 3)) for end in ends.values()}
    one = dict(
        zip(mark, (random.choice([n for n in ends if ends[n] == e]) for e in mark), strict=True)
    )
    own = np.array([mark[ends[n]] * (one[ends[n]] == n) for n in names.tolist()], np.int8)
    columns = "label", "intensity_min", "intensity_max"
    marks = dict(zip(columns, (names, np.minimum(own, 0), np.maximum(own, 0)), strict=True))
    step = Marking("watershed", np.dtype(np.int8), columns, *tree)
    got = rows_of_tables(step, shards, in_shards(marks, random), random=random)
    assert got["label"].tolist() == names.tolist()
    assert got["mark"].tolist() == [mark[ends[n]] for n in names.tolist()]


def test_a_chain_through_all_labels_is_cut_in_little_memory():
    """Only merges across the borders of ranges meet in a step."""
    count = 50_000
    a = np.arange(1, count + 1, dtype=np.uint64)
    merges = {"label_a": a, "label_b": a + np.uint64(1), "score": np.ones(count)}
    source = Flow((Given("slabs", ("rows",)),), ("rows",))
    flow = chained([source], [(Cutting("cut", None), (0,))], 100 * count // 2)
    found = rounds.run(flow, [((0,), (merges,))])["rows"]
    segments = np.concatenate([c["segment"] for _, c in found])
    assert len(segments) == count and (segments == count + 1).all()
    merges["label_a"] = a % np.uint64(7)
    with pytest.raises(ValueError, match="cut: in a table of merges each label_a is there once"):
        rounds.run(flow, [((0,), (merges,))])
    tight = chained([source], [(Cutting("cut", None, radix=16, depth=1), (0,))], 100 * 2_000)
    merges["label_a"] = a
    with pytest.raises(ValueError, match=r"cut: a step needs .* memory= by 1 MiB"):
        rounds.run(tight, [((0,), (merges,))])


def test_marks_of_a_chain_take_the_memory_of_a_step(monkeypatch):
    """The largest step of all takes less than the limit, however many labels there are."""
    count = 200_000
    a = np.arange(1, count + 1, dtype=np.uint64)
    merges = {"label_a": a, "label_b": a + np.uint64(1), "score": np.ones(count)}
    high = (a == 7).astype(np.uint8)
    columns = "label", "intensity_min", "intensity_max"
    marks = dict(zip(columns, (a, np.zeros_like(high), high), strict=True))
    shards = [[{n: c[k::20] for n, c in t.items()} for k in range(20)] for t in (merges, marks)]
    step = Marking("watershed", np.dtype(np.uint8), columns)
    limit, peaks = MERGE_BYTES * count // 4, []
    run = Within.step

    def measured(self, key, values):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        found = list(run(self, key, values))
        if "sample" not in self.name:  # their size is fixed
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        return found

    monkeypatch.setattr(Within, "step", measured)
    tracemalloc.start()
    try:
        got = rows_of_tables(step, *shards, limit=limit)
    finally:
        tracemalloc.stop()
    assert max(peaks) < limit
    assert len(got["label"]) == count and (got["mark"] == 1).all()
    with pytest.raises(ValueError, match=r"watershed: a step needs .* memory= by 2 MiB"):
        rows_of_tables(replace(step, radix=16, depth=1), *shards, limit=limit // 50)


def case(shape=(9, 12, 14), seed=0):
    random = np.random.default_rng(seed)
    blocks = np.indices(shape) // np.array([3, 3, 4])[:, None, None, None]
    labels = (1 + blocks[0] * 16 + blocks[1] * 4 + blocks[2]).astype(np.uint32)
    labels[random.random(shape) < 0.05] = 0
    return labels, random.integers(0, 256, (3, *shape)).astype(np.uint8)


def edges_of(labels, affinities):
    found = {}
    for axis in range(3):
        upper, lower = (np.moveaxis(labels, axis, 0)[s] for s in (slice(1, None), slice(-1)))
        values = np.moveaxis(affinities[axis], axis, 0)[1:]
        faces = (x.ravel().tolist() for x in (upper, lower, values))
        for a, b, v in zip(*faces, strict=True):
            if a != b and a and b:
                s, n = found.get((min(a, b), max(a, b)), (0, 0))
                found[min(a, b), max(a, b)] = s + v, n + 1
    return found


def rows(table):
    return list(zip(*table.to_pydict().values(), strict=True))


def segmented(labels, merges, threshold):
    parent = {a: b for a, b, score, _ in merges if score >= threshold}
    out = labels.copy()
    for label in np.unique(labels).tolist():
        end = label
        while end in parent:
            end = parent[end]
        out[labels == label] = end
    return out


@pytest.mark.parametrize(
    ("slab", "runner"),
    [((2, 5, 14), None), pytest.param((5, 6, 9), "FnApiRunner", marks=thorough)],
)
def test_from_affinities_to_segments_in_one_plan(slab, runner, tmp_path):
    labels, affinities = case()
    sizes = dict(zip(*(a.tolist() for a in np.unique(labels, return_counts=True)), strict=True))
    expected = greedy(edges_of(labels, affinities), "mean", 120.0, sizes, 300)
    assert len(expected) > 10
    for array, name in ((labels, "labels.zarr"), (affinities, "affinities.zarr")):
        chunks = (*(1,) * (array.ndim - 3), 1, 6, 7)
        bv.compute(bv.open(array).to(tmp_path / name, chunks=chunks), runner=None)
    source, edges = bv.open(tmp_path / "labels.zarr"), bv.open(tmp_path / "affinities.zarr")
    graph = bv.region_adjacency(source, affinities=edges)
    counts = bv.regionprops_table(source, properties=["num_pixels"])
    merges = bv.agglomerate(graph, threshold=120, sizes=counts, max_size=300)
    segments = bv.relabel(source, bv.cut(merges, 125), missing="keep", dtype=np.uint32)
    journal = tmp_path / "run" if runner else None
    got, out = bv.compute(merges, segments, slab=slab, runner=runner, journal=journal)
    assert rows(got) == expected
    np.testing.assert_array_equal(out, segmented(labels, expected, 125))


@pytest.mark.parametrize("linkage", ["mean", "max", "min", "lowest", "quantile"])
def test_boundaries_that_no_merge_needs_are_left_out(linkage):
    """A forest remains if scores never change, and otherwise no pair between closed parts."""
    labels, affinities = case(seed=2)
    bins = np.linspace(0, 256, 257) if linkage == "quantile" else None
    part = adjacency(labels, tuple(affinities), "upper", bins)
    threshold = {"mean": 140, "max": 0, "min": 60, "lowest": -255, "quantile": 145}[linkage]
    needed = Needed(Linkage(linkage), threshold, by_forest=True)
    if linkage in ("max", "lowest"):
        kept = needed.of_part(part)
        scores = kept.extremes[:, 1] if linkage == "max" else -kept.extremes[:, 0]
        ties = len(scores) - len(np.unique(scores))
        assert len(np.unique(kept.pairs)) - 1 <= len(kept) <= len(np.unique(kept.pairs)) + ties
        assert len(kept) < len(part) // 2
        return
    closed = needed.of_slab(part, np.empty(0, np.uint64))
    some = needed.of_slab(part, np.unique(part.pairs)[::3])
    every = needed.of_slab(part, np.unique(part.pairs))
    assert len(closed) < len(some) < len(every) == len(part)


@thorough
@pytest.mark.parametrize("linkage", ["mean", "max", "min", "quantile"])
@settings(max_examples=4, deadline=None, derandomize=True)
@given(
    slab=st.tuples(st.integers(2, 9), st.integers(3, 12), st.integers(4, 14)),
    max_size=st.sampled_from([9, None]),
)
def test_slabs_keep_only_columns_and_pairs_that_merges_need(linkage, slab, max_size):
    """The merges of a lazy graph are the merges of its whole table."""
    labels, affinities = case()
    if linkage in ("max", "min"):
        affinities = affinities.astype(np.float32)
        affinities[:, 2:4] = np.nan
    bins = {"bins": 256, "range": (0, 256)} if linkage == "quantile" else {}
    graph = bv.region_adjacency(labels, affinities=affinities, nan="omit", **bins)
    threshold = {"mean": 130, "max": 250, "min": 20, "quantile": 140}[linkage]
    how = {"linkage": linkage, "threshold": threshold, "max_size": max_size}
    merges, table = bv.compute(bv.agglomerate(graph, **how), graph, slab=slab, runner=None)
    assert merges.num_rows > 3
    assert merges.equals(bv.agglomerate(table, **how).to_pyarrow())


def test_tables_from_elsewhere(tmp_path):
    labels, affinities = case()
    graph = bv.region_adjacency(labels, affinities=bv.open(affinities), bins=256)
    kept = bv.compute(graph, runner=None)
    bv.compute(graph.to(tmp_path / "edges.parquet"), runner=None)
    for linkage in ("mean", "max", "quantile"):
        expected = rows(bv.agglomerate(graph, linkage, threshold=120).to_pyarrow())
        for given_ in (kept, kept.to_pandas(), tmp_path / "edges.parquet"):
            merges = bv.agglomerate(given_, linkage, threshold=120)
            assert rows(merges.to_pyarrow()) == expected
    out = np.asarray(bv.relabel(labels, bv.cut(merges), missing="keep", dtype="u4"))
    np.testing.assert_array_equal(out, segmented(labels, expected, 0))
    nothing = {name: [] for name in ("label_a", "label_b", "affinity_max")}
    nothing = {name: np.array(c, np.uint8) for name, c in nothing.items()}
    assert bv.cut(bv.agglomerate(nothing, "max", threshold=0)).to_pyarrow().num_rows == 0


def test_what_is_refused():
    edges = {"label_a": [1], "label_b": [2], "affinity_sum": [1.5], "affinity_count": [1]}
    with pytest.raises(TypeError, match="scale and round"):
        bv.agglomerate(edges, threshold=1)
    with pytest.raises(ValueError, match="no column affinity_max"):
        bv.agglomerate(edges, "max", threshold=1)
    with pytest.raises(ValueError, match="linkage='ward'"):
        bv.agglomerate(edges, "ward", threshold=1)
    edges["affinity_sum"] = [3]
    sizes = {"label": [1], "num_pixels": [4]}
    with pytest.raises(ValueError, match="no row for label 2"):
        bv.agglomerate(edges, threshold=1, sizes=sizes).to_pyarrow()
    merges = bv.agglomerate(edges, threshold=1)
    with pytest.raises(ValueError, match="no value for label 3"):
        np.asarray(bv.relabel(np.array([[1, 3]], np.uint8), bv.cut(merges)))
    table = bv.region_adjacency(np.array([[1, 2]], np.uint8))
    with pytest.raises(ValueError, match="shapes"):
        bv.relabel(np.ones((2, 2), np.uint8), table)


def test_small_basins_are_reckoned_with():
    """Rows of boundaries between basins of noise are what the plan sets room aside for."""
    noise = np.random.default_rng(0).random((16, 32, 32))
    smooth = ndimage.gaussian_filter(noise, 1.5)
    affinities = np.stack([(255 * smooth / smooth.max()).astype(np.uint8)] * 3)
    basins = bv.watershed_affinities(affinities, 0)
    edges = bv.region_adjacency(basins, affinities=affinities)
    survey = edges.barrier.survey
    labels, pairs = bv.compute(bv.max(basins), edges, runner=None)
    assert labels > 10 * basins.size // VOXELS_PER_LABEL
    assert pairs.num_rows <= survey.rows_in(basins.size, survey.voxels_per_label)
    shape = basins.shape
    assert survey.state_bytes(shape, 1) < survey.likely_bytes(shape, 1)
    # However wide its rows are: with a histogram a part is of fewer voxels from the first one on.
    wide = bv.region_adjacency(basins, affinities=affinities, bins=256).barrier.survey
    voxels = wide.folds().voxels
    assert voxels < survey.folds().voxels
    assert voxels * 6 / 16 * wide.fold_bytes <= 64 << 20
    plain = bv.region_adjacency(np.asarray(basins), affinities=affinities).barrier.survey
    assert plain.likely_bytes(shape, 1) == survey.state_bytes(shape, 1)


@pytest.mark.parametrize("linkage", ["max", "min"])
def test_pairs_without_an_affinity_are_left_out_of_stored_tables(linkage, tmp_path):
    column = f"affinity_{linkage}"
    pairs = {"label_a": [1, 1, 2], "label_b": [2, 3, 3], column: [-2.0, 0.0, -3.0]}
    whole = pairs | {"affinity_count": [4, 0, 2]}
    some = {name: [values[0], values[2]] for name, values in whole.items()}
    how = {"linkage": linkage, "threshold": -4}
    expected = bv.compute(bv.agglomerate(some, **how), runner=None)
    assert expected.num_rows and expected == bv.compute(bv.agglomerate(whole, **how), runner=None)
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table(whole), path)
    assert expected == bv.compute(bv.agglomerate(str(path), **how), runner=None)
