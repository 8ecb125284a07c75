"""The lowest floods of basins do not depend on the ranges of labels, nor on the order of messages."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_volumes.across.rounds import floods
from tests.across.groups import shuffling
from tests.tiers import thorough


def step_of(**how):
    return floods.Floods("reconstruction", np.dtype("f4"), ("label", "low"), 0.0, **how)


def lowest(a, b, height, level):
    """The heights by relaxing every pass until nothing changes."""
    found = level.copy()
    while True:
        before = found.copy()
        np.minimum.at(found, a, np.maximum(before[b], height))
        np.minimum.at(found, b, np.maximum(before[a], height))
        if np.array_equal(found, before):
            return found


def result(step, labels, level, a, b, height, rng, limit_bytes=None):
    """The rows of a step; its inputs are divided into shards."""
    flow = step.flow(limit_bytes)
    entries = {name: [] for name in step.entries}
    for name, rows in [
        ("passes", {"label_a": labels[a], "label_b": labels[b], "boundary_min": height}),
        ("levels", {"label": labels, "low": level}),
    ]:
        count = len(rows[next(iter(rows))])
        shards = rng.integers(0, 5, count)
        for k in range(5):
            entries[name].append(((k,), {c: v[shards == k] for c, v in rows.items()}))
    boxes = []
    for r in flow.rounds[:2]:
        for key, rows in entries[r.name]:
            boxes += [(to, k, v) for to, k, v in r.step(key, [rows])]
    chaos, inbox = shuffling(rng), {}
    for to, key, value in boxes:
        inbox.setdefault(to, []).append((key, value))
    for r in flow.rounds[2:]:
        for key, values in chaos(inbox.pop(r.name, [])):
            for to, k, v in r.step(key, values):
                inbox.setdefault(to, []).append((k, v))
    rows = [columns for _, columns in sorted(inbox["rows"], key=lambda kv: kv[0])]
    return {name: np.concatenate([c[name] for c in rows]) for name in ("label", "level")}


@thorough
@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(0, 120), st.booleans())
def test_floods_do_not_depend_on_ranges(seed, count, passes, ties):
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.choice(1 << 40, count, replace=False)).astype(np.uint64) + np.uint64(1)
    level = rng.integers(0, 5 if ties else 1 << 20, count).astype("f4")
    a, b = rng.integers(0, count, (2, passes if count > 1 else 0))
    a, b = np.minimum(a, b)[a != b], np.maximum(a, b)[a != b]
    height = rng.integers(0, 5 if ties else 1 << 20, len(a)).astype("f8")
    expected = lowest(a, b, height, level.astype("f8"))
    for leaf, radix, depth in [(1 << 15, 16, 3), (3, 2, 3), (1, 3, 2), (2, 2, 5), (1, 2, 0)]:
        step = step_of(leaf=leaf, radix=radix, depth=depth)
        found = result(step, labels, level, a, b, height, rng)
        np.testing.assert_array_equal(found["label"], labels)
        np.testing.assert_array_equal(found["level"], expected.astype("f4"))


def test_no_step_has_a_large_part_of_all_passes(monkeypatch):
    """A volume of 48 x 48 basins, as neighbours have near labels."""
    rng = np.random.default_rng(5)
    n = 48
    at = np.arange(n * n).reshape(n, n)
    a = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    b = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    height, level = rng.random(len(a)), rng.random(n * n).astype("f4")
    labels = np.arange(1, n * n + 1, dtype=np.uint64)
    step = step_of(leaf=256, radix=4, depth=3)
    sizes, check = [], floods._Up.check
    monkeypatch.setattr(
        floods._Up, "check", lambda self, *counts: (sizes.append(counts), check(self, *counts))
    )
    found = result(step, labels, level, a, b, height, rng)
    np.testing.assert_array_equal(
        found["level"], lowest(a, b, height, level.astype("f8")).astype("f4")
    )
    assert max(passes for passes, _ in sizes) < len(a) / 5
    with pytest.raises(
        ValueError, match=r"a step needs [\d,]+ basins and [\d,]+ passes .* memory="
    ):
        result(step_of(radix=2, depth=1), labels, level, a, b, height, rng, 20_000)
