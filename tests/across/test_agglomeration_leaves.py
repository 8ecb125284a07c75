"""How an agglomeration cuts labels into leaves, from samples that meet in one step."""

import numpy as np

from beam_volumes.across.rounds.agglomeration import PER_LEAF, Agglomeration

SHARDS, ROWS, LEAF = 200, 4096, 1024


def shard(k):
    """Boundaries of a chain of regions with distant labels."""
    a = np.arange(k * ROWS, (k + 1) * ROWS, dtype=np.uint64) * np.uint64(1 << 40) + np.uint64(1)
    ones = np.ones(ROWS, np.int64)
    return {
        "label_a": a,
        "label_b": a + np.uint64(1 << 40),
        "affinity_sum": ones,
        "affinity_count": ones,
    }


def test_samples_are_small_and_leaves_alike():
    rounds = Agglomeration("agglomerate", "mean", 0.5, 9.0, None, False, leaf=LEAF).flow().rounds
    edges, census = (next(r for r in rounds if r.name == name) for name in ("edges", "census"))
    sent = [
        value
        for k in range(SHARDS)
        for to, _, value in edges.step((k,), [shard(k)])
        if to == "census"
    ]
    assert len(sent) == SHARDS
    # What meets in one step is so many labels for each leaf, however many a shard has.
    assert sum(len(labels) for _, _, labels, _ in sent) == PER_LEAF * SHARDS * ROWS // LEAF

    # Shards that come twice, or in another order, change nothing.
    found = [list(census.step((), values)) for values in (sent, sent[::-1] + sent[:7])]
    least = [next(value for to, _, value in one if to == "place") for one in found]
    assert np.array_equal(*least)
    assert {key for to, key, _ in found[0] if to == "place"} == {(0, k) for k in range(SHARDS)}

    labels = np.concatenate([shard(k)["label_a"] for k in range(SHARDS)])
    sizes = np.bincount(np.searchsorted(least[0], labels, side="right"))
    assert len(sizes) == SHARDS * ROWS // LEAF
    assert sizes.min() > 0.5 * LEAF and sizes.max() < 1.5 * LEAF
