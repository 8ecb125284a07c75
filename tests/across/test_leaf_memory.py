"""Steps over leaves of labels stay within the memory of a worker, however many rows there are."""

import tracemalloc

import numpy as np
import pytest

from beam_volumes.across.rounds.agglomeration import LEAF, Agglomeration
from beam_volumes.across.rounds.cutting import Cutting
from beam_volumes.across.rounds.floods import Floods
from beam_volumes.session.spill import Spill

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
    with Spill() as spill:
        boxes = {
            r.name: [((k,), spill.keep(rows(k))) for k in range(shards)]
            for r, rows in zip(flow.rounds, tables, strict=False)
        }
        tracemalloc.start()
        try:
            for r in flow.rounds:
                for key, values in spill.group(boxes.pop(r.name, [])):
                    for address, to, value in r.step(key, values):
                        boxes.setdefault(address, []).append((to, spill.keep(value)))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < limit
