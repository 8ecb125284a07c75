"""Steps over leaves of labels stay within the memory of a worker, however many rows there are."""

import tracemalloc
from collections import defaultdict

import numpy as np
import pytest

from beam_volumes.across.agglomeration import Boundaries, _places, _sort
from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds import extrema
from beam_volumes.across.rounds.agglomeration import LEAF, Agglomeration
from beam_volumes.across.rounds.cutting import Cutting
from beam_volumes.across.rounds.floods import Floods
from beam_volumes.across.rounds.flow import group_by_key
from beam_volumes.across.rounds.lookup import VOXELS, Tally, filter_flow, lookup_flow
from beam_volumes.session.local import Spill
from tests.ops.array_mapping import ArrayMapping
from tests.tiers import thorough

SHARD = 1 << 16


def boundaries(k):
    """Some boundaries of regions in raster order, each with the next one and with the next row."""
    random = np.random.default_rng(k)
    first = np.arange(k * SHARD // 2, (k + 1) * SHARD // 2, dtype=np.uint64) + np.uint64(1)
    a, b = np.tile(first, 2), np.concatenate([first + np.uint64(1), first + np.uint64(200)])
    faces = random.integers(1, 200, SHARD)
    return {
        "label_a": a,
        "label_b": b,
        "affinity_sum": faces * random.integers(0, 256, SHARD),
        "affinity_count": faces,
        "boundary_min": random.random(SHARD),
        "score": random.random(SHARD),
    }


def merges(k):
    """Merges of labels with later ones near them."""
    random = np.random.default_rng(k)
    a = np.arange(k * SHARD, (k + 1) * SHARD, dtype=np.uint64) + np.uint64(1)
    return {
        "label_a": a,
        "label_b": a + random.integers(1, 50, SHARD).astype(np.uint64),
        "score": random.random(SHARD),
    }


def levels(k):
    labels = np.arange(k * SHARD, (k + 1) * SHARD, dtype=np.uint64) + np.uint64(1)
    return {"label": labels, "low": np.random.default_rng(k).random(SHARD).astype("f4")}


def peak_of(flow, boxes):
    """The bytes of the largest step, with its messages, which are stored between steps."""
    tracemalloc.start()
    try:
        for r in flow.rounds:
            box = boxes.pop(r.name, Spill())
            for key, values in group_by_key(box):
                for address, to, value in r.step(key, [box.load(value) for value in values]):
                    boxes[address].put(to, value)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@thorough
@pytest.mark.parametrize(
    ("step", "tables", "mebibytes"),
    [
        (Agglomeration("agglomerate", "mean", 0.5, 180.0, None, False), (boundaries,), 96),
        (Cutting("cut", 0.5), (merges,), 64),
        (Floods("reconstruction", np.dtype("f4"), ("label", "low"), 0.0), (boundaries, levels), 96),
    ],
    ids=["agglomerate", "cut", "floods"],
)
def test_steps_stay_within_the_memory(step, tables, mebibytes):
    shards, limit = 8, mebibytes << 20
    assert shards * SHARD < LEAF  # without a limit there would be one leaf
    flow = step.flow(limit)
    boxes = defaultdict(Spill)
    for r, rows in zip(flow.rounds, tables, strict=False):
        for k in range(shards):
            boxes[r.name].put((k,), rows(k))
    assert peak_of(flow, boxes) < limit


class Shards(ArrayMapping):
    def parts(self):
        return [(k,) for k in range(16)]

    def read(self, part):
        return self.labels[part[0] :: 16], self.values[part[0] :: 16]


@pytest.mark.parametrize("what", ["filter", "largest", "lookup"])
def test_buckets_of_labels_stay_within_the_memory(what):
    slabs, each, limit = 16, 1 << 14, 8 << 20
    names = 1 + np.random.default_rng(0).permutation(slabs * each).astype(np.uint64)
    how = {"voxels": VOXELS * slabs * each, "limit_bytes": limit}
    if what == "lookup":
        flow = lookup_flow(Shards.of((names, names.astype(float))), **how)
    else:
        flow = filter_flow(Keep(min_size=2), 5 if what == "largest" else None, **how)
    boxes = defaultdict(Spill)
    for k, labels in enumerate(np.array_split(names, slabs)):
        tally = Tally(np.sort(labels), np.full(each, 2), np.zeros(each, bool))
        boxes["slabs"].put((k,), tally)
    assert limit // 2 < peak_of(flow, boxes) < limit


def passes_of_few_basins(k):
    a, b = np.triu_indices(200, 1)
    return {
        "label_a": a[k::4].astype("u8") + np.uint64(1),
        "label_b": b[k::4].astype("u8") + np.uint64(1),
        "boundary_min": np.random.default_rng(k).random(len(a[k::4])),
    }


def few_levels(k):
    return {name: column[:50] for name, column in levels(k).items()}


def few_passes(k):
    return {name: column[:9] for name, column in boundaries(k).items()}


def points(k):
    labels = np.arange(k * SHARD // 8, (k + 1) * SHARD // 8, dtype=np.uint64) * np.uint64(64)
    heights = np.random.default_rng(k).random(len(labels)).astype("f4")
    return {"label": labels + np.uint64(1), "intensity_max": heights}


FLOODS = Floods("reconstruction", np.dtype("f4"), ("label", "low"), 0.0)
CUBE = (128, 128, 128), ("z", "y", "x"), np.dtype("f4")


@pytest.mark.parametrize(
    ("step", "tables"),
    [
        (Agglomeration("agglomerate", "mean", 0.5, 180.0, None, False), (boundaries,)),
        (Cutting("cut", 0.5), (merges,)),
        (FLOODS, (boundaries, levels)),
        (FLOODS, (passes_of_few_basins, few_levels)),
        (FLOODS, (few_passes, levels)),
        (extrema.Peaks("peaks", *CUBE, (2, 2, 2), 2.0, None), (points,)),
    ],
    ids=["agglomerate", "cut", "floods", "passes", "basins", "peaks"],
)
def test_all_rows_at_once_take_what_is_declared(step, tables):
    """An eighth of any declaration is too small."""
    shards = [[table(k) for k in range(4)] for table in tables]
    largest_step(step.flow(), [[rows] for rows, *_ in shards])  # loads kernels
    rows = [sum(len(next(iter(shard.values()))) for shard in table) for table in shards]
    declared = step.most_bytes(rows)
    assert declared / 4 < largest_step(step.flow(), shards) < declared


def largest_step(flow, tables):
    """The bytes of the largest step, with its messages."""
    boxes, peaks = defaultdict(Spill), []
    for r, shards in zip(flow.rounds, tables, strict=False):
        for k, shard in enumerate(shards):
            boxes[r.name].put((k,), shard)
    for r in flow.rounds:
        box = boxes.pop(r.name, Spill())
        for key, values in group_by_key(box):
            tracemalloc.start()
            try:
                found = list(r.step(key, [box.load(value) for value in values]))
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
            for address, to, value in found:
                boxes[address].put(to, value)
    return max(peaks)


def grid(count):
    """Regions in a cube with their neighbours along each axis."""
    side = round((count / 3) ** (1 / 3))
    index = np.arange(side**3)
    steps = [side**2, side, 1]
    own = [index[index // step % side > 0] for step in steps]
    far = [some - step for some, step in zip(own, steps, strict=True)]
    return np.concatenate(far), np.concatenate(own)


def star(count):
    return np.zeros(count, np.int64), np.arange(1, count + 1)


def hub(count):
    """A region with boundaries to all regions of a cube."""
    near, far = grid(count * 3 // 4)
    others = np.arange(far.max() + 1)
    return np.concatenate([near + 1, np.zeros_like(others)]), np.concatenate([far + 1, others + 1])


def couples(count):
    return np.arange(0, 2 * count, 2), np.arange(1, 2 * count, 2)


@thorough
@pytest.mark.parametrize(
    ("linkage", "is_large"),
    [
        *((name, False) for name in ("mean", "max", "min", "lowest", "quantile")),
        *((name, True) for name in ("max", "min", "lowest")),
    ],
)
@pytest.mark.parametrize("graph", [grid, hub, star, couples])
@pytest.mark.parametrize("threshold", [0.0, 180.0])
@pytest.mark.parametrize("closed", [1, 2])
def test_a_step_takes_the_bytes_of_its_boundaries(linkage, is_large, graph, threshold, closed):
    """Whether it merges most of its regions or few, and whether all of them are closed or every other one.

    Different integers that floats cannot hold are compared by their ranks.
    """
    random = np.random.default_rng(0)
    a, b = (
        x.astype(np.uint64) + np.uint64(1)
        for x in graph(1 << (11 if linkage == "quantile" else 17))
    )
    known = random.integers(0, 256, len(a))
    if linkage == "mean":
        faces = random.integers(1, 200, len(a))
        known = np.stack([known * faces, faces], axis=1)
    if linkage == "quantile":
        known = random.integers(0, 9, (len(a), 256))
    if is_large:
        known = (random.permutation(len(a)) << 40) + (1 << 60)
        threshold = -(2.0**61) if linkage == "lowest" else 2.0**60 + threshold * 2.0**50
    step = Agglomeration("agglomerate", linkage, 0.5, threshold, None, False, depth=0)
    names = np.unique(np.concatenate([a, b]))[::closed]

    def values():
        parts = [Boundaries(a[k::3].copy(), b[k::3].copy(), known[k::3].copy()) for k in range(3)]
        close = "close", (0,), (names.copy(), np.ones(len(names), np.int64))
        return [close, *(("edges", (k,), part) for k, part in enumerate(parts))]

    node = next(r for r in step.flow().rounds if r.name == "node-0")
    for _ in node.step((0,), values()):  # compiles
        pass
    tracemalloc.start()
    try:
        for _ in node.step((0,), values()):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < step.node_bytes(len(a), len(np.unique([a, b])))


@thorough
@pytest.mark.parametrize("linkage", ["mean", "max", "lowest"])
def test_a_node_adds_boundaries_in_parts_that_fit(linkage):
    """A long stack of layers: few boundaries stay open, so much less memory than for all is enough."""
    random = np.random.default_rng(0)
    layers, side = 2000, 8
    index = np.arange(layers * side**2)
    own = [index[index // step % side > 0] for step in (side, 1)]
    own.append(index[side**2 :])
    far = np.concatenate([o - step for o, step in zip(own, (side, 1, side**2), strict=True)])
    a, b = (x.astype(np.uint64) + np.uint64(1) for x in (far, np.concatenate(own)))
    known = random.integers(0, 256, len(a))
    if linkage == "mean":
        faces = random.integers(1, 200, len(a))
        known = np.stack([known * faces, faces], axis=1)
    threshold = -100.0 if linkage == "lowest" else 100.0
    step = Agglomeration("agglomerate", linkage, 0.5, threshold, None, False, depth=0)
    limit = step.node_bytes(len(a), len(index)) * 9 // 10
    node_peak(step, a, b, known, limit)  # compiles
    assert node_peak(step, a, b, known, limit) < limit


@pytest.mark.parametrize("linkage", ["mean", "max", "min", "lowest"])
@pytest.mark.parametrize("spacing", [1, 2])
def test_a_node_with_as_many_regions_as_boundaries_fits(linkage, spacing):
    """A chain, or pairs: regions and merges take more memory than what is left of the boundaries."""
    a = np.arange(1, spacing * 60_000, spacing, dtype=np.uint64)
    known = np.full(len(a), 200)
    if linkage == "mean":
        known = np.stack([known, np.ones_like(known)], axis=1)
    threshold = -300.0 if linkage == "lowest" else 100.0
    step = Agglomeration("agglomerate", linkage, 0.5, threshold, None, False, depth=0)
    node_peak(step, a[:9], a[:9] + np.uint64(1), known[:9], 1 << 20)  # compiles
    refused, shares = [], [0.45, 0.6, 0.85, 0.95, 1.01]
    for share in shares:
        limit = int(share * step.node_bytes(len(a), spacing * len(a)))
        try:
            assert node_peak(step, a, a + np.uint64(1), known, limit) < limit, share
        except ValueError as error:
            assert "increase memory" in str(error)
            refused.append(share)
    assert refused == shares[: len(refused)]
    assert 0 < len(refused) < len(shares)


@pytest.mark.parametrize("linkage", ["mean", "max", "min", "lowest", "quantile"])
@pytest.mark.parametrize("graph", [couples, star, grid])
@pytest.mark.parametrize("is_closed", [True, False])
def test_a_node_without_room_passes_its_boundaries_on_in_the_memory(linkage, graph, is_closed):
    """Also if labels are far from each other."""
    random = np.random.default_rng(0)
    a, b = (
        (x.astype(np.uint64) + np.uint64(1)) << np.uint64(30)
        for x in graph(1 << (11 if linkage == "quantile" else 16))
    )
    known = random.integers(0, 256, len(a))
    if linkage == "mean":
        known = np.stack([known, np.ones_like(known)], axis=1)
    if linkage == "quantile":
        known = random.integers(0, 9, (len(a), 256))
    threshold = -300.0 if linkage == "lowest" else 0.0
    step = Agglomeration("agglomerate", linkage, 0.5, threshold, None, False, depth=1)
    node_peak(step, a, b, known, 1 << 40, is_closed)  # compiles
    held, most = len(a) * step.held_bytes, step.node_bytes(len(a), len(np.unique([a, b])))
    refused, shares = [], np.array([0, 0.04, *np.linspace(0, 1, 8)[1:]])
    for share in shares:
        limit = int(held + share * (most - held)) + 1
        try:
            assert node_peak(step, a, b, known, limit, is_closed) < limit, share
        except ValueError as error:
            assert "increase memory" in str(error)
            refused.append(share)
    assert refused == shares[: len(refused)].tolist()
    assert len(refused) < 5


@pytest.mark.parametrize("linkage", ["mean", "max"])
@pytest.mark.parametrize("spacing", [1, 7, 9])
def test_the_names_of_a_node_are_found_in_the_memory(linkage, spacing):
    """Names of pairs, each different, with and without a table of them."""
    a = np.arange(1, 2 * spacing * 60_000, 2 * spacing, dtype=np.uint64)
    known = np.stack([np.full(len(a), 200), np.ones(len(a), np.int64)], axis=1)
    known = known if linkage == "mean" else known[:, 0]
    step = Agglomeration("agglomerate", linkage, 0.5, 100.0, None, False, depth=1)
    limit = len(a) * (step.held_bytes + 2 * 17) + 4096
    assert node_peak(step, a, a + np.uint64(spacing), known, limit) < limit


@pytest.mark.parametrize("linkage", ["mean", "max", "min"])
def test_a_node_with_many_small_messages_stays_within_the_memory(linkage):
    random = np.random.default_rng(0)
    a = random.integers(1, 900, 10_000).astype(np.uint64)
    b = a + random.integers(1, 50, len(a)).astype(np.uint64)
    known = np.stack([random.integers(0, 256, len(a)), np.ones(len(a), np.int64)], axis=1)
    known = known if linkage == "mean" else known[:, 0]
    step = Agglomeration("agglomerate", linkage, 0.5, 100.0, None, False, depth=1)
    node_peak(step, a[:9], b[:9], known[:9], 1 << 20)  # compiles
    refused, shares = [], [0.5, 1.0, 1.5, 2.5, 3.0]
    for share in shares:
        limit = int(share * len(a) * step.held_bytes)
        try:
            assert node_peak(step, a, b, known, limit, parts=1000) < limit, share
        except ValueError as error:
            assert "increase memory" in str(error)
            refused.append(share)
    assert refused == shares[: len(refused)]
    assert 0 < len(refused) < len(shares) - 1


def test_small_parts_are_combined_when_they_are_sorted():
    """Each step of a node searches all parts."""
    random = np.random.default_rng(0)
    a, b, known = random.integers(0, 1 << 60, (3, 10_000)).astype(np.uint64)
    rows = [slice(k, k + 10) for k in range(0, 5_000, 10)] + [slice(5_000, 10_000)]
    parts = [Boundaries(a[some], b[some], known[some]) for some in rows]
    _sort(parts)
    assert len(parts) <= 32
    assert all((part.b[1:] >= part.b[:-1]).all() for part in parts)
    found = np.concatenate([np.stack([part.a, part.b, part.known]) for part in parts], axis=1)
    assert set(map(tuple, found.T.tolist())) == set(
        zip(a.tolist(), b.tolist(), known.tolist(), strict=True)
    )


def test_few_names_are_looked_up_without_a_table_of_all():
    names = np.arange(1_000_000, dtype=np.uint64)
    some = names[[5, 80_000, 999_999]]
    tracemalloc.start()
    try:
        assert _places(names, some).tolist() == some.tolist()
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def node_peak(step, a, b, known, limit, is_closed=True, parts=3):
    """The bytes of a node for boundaries of regions that are closed, or open."""
    names = np.unique(np.concatenate([a, b]))[: None if is_closed else 0]
    tracemalloc.start()
    try:
        close = "close", (0,), (names.copy(), np.ones(len(names), np.int64))
        rows = (slice(k, None, parts) for k in range(parts))
        own = [Boundaries(a[some].copy(), b[some].copy(), known[some].copy()) for some in rows]
        values = [close, *(("edges", (k,), part) for k, part in enumerate(own))]
        node = next(r for r in step.flow(limit).rounds if r.name == "node-0")
        del own, close
        for _ in node.step((0,), values):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
