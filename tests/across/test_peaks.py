"""Peaks and blobs in a tree over ranges of positions, compared with one step."""

import functools
import itertools
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_volumes.across.rounds import extrema
from beam_volumes.across.rounds.blobs import Blobs, without_overlapping
from beam_volumes.across.rounds.extrema import (
    NearbyStep,
    Peaks,
    PeaksOfLabels,
    Ranked,
    RankedOfLabels,
)
from beam_volumes.across.rounds.flow import run
from beam_volumes.across.rounds.tables import table_flow

SHAPES = st.sampled_from([(40, 6, 7), (300, 5), (1, 30, 30), (7, 1, 1), (2000,), (12, 12, 12)])


def result(step, tables, order, cuts, leaf, radix=3, depth=3, maximum=None, then=Ranked):
    """The columns of a step whose tables arrive in shards, in any order."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NearbyStep, "leaf", leaf)
        patch.setattr(extrema, "BATCH", int(order.choice([3, 1000])))
        flow = replace(step, radix=radix, depth=depth).flow()
        first = {entry: [] for entry in step.entries}
        for entry, table in zip(step.entries, tables, strict=True):
            edges = [0, *sorted(cuts % (len(table["label"]) + 1)), len(table["label"])]
            for k, (a, b) in enumerate(itertools.pairwise(edges)):
                shard = {name: column[a:b] for name, column in table.items()}
                first[entry].append(((k,), shard))
        messages = [(e, *m) for e, own in first.items() for m in own]
        boxes = {r.name: [] for r in flow.rounds} | {port: [] for port in flow.ports}
        for k in order.permutation(len(messages)):
            entry, key, value = messages[k]
            boxes[entry] += [(key, value)] * int(order.integers(1, 3))  # some arrive twice
        for r in flow.rounds:
            groups = {}
            for key, value in boxes.pop(r.name):
                groups.setdefault(key, []).append(value)
            for key in [*groups][:: order.choice([-1, 1])]:
                for address, to, value in r.step(key, groups[key]):
                    boxes[address].append((to, value))
    own = (None, maximum) if then is RankedOfLabels else (maximum,)
    ranked = run(then("ranked", step, *own).flow(), sorted(dict(boxes["rows"]).items()))
    shards = [rows for _, rows in sorted(ranked["rows"], key=lambda one: one[0])]
    return {name: np.concatenate([rows[name] for rows in shards]) for name in shards[0]}


def tables_of(rng, shape, dtype, number, density):
    voxels = int(np.prod(shape))
    found = []
    for _ in range(number):
        labels = np.flatnonzero(rng.random(voxels) < density).astype(np.uint64) + np.uint64(1)
        heights = rng.integers(0, 20, len(labels)) - (10 if np.dtype(dtype).kind != "u" else 0)
        found.append({"label": labels, "intensity_max": heights.astype(dtype)})
    return found


@given(
    st.integers(0, 2**32), SHAPES, st.sampled_from(["u1", "u8", "i4", "f4", "f8"]),
    st.sampled_from([0.0, 0.02, 0.3, 1.0]), st.integers(1, 5), st.sampled_from([1, 1.5, 2, np.inf]),
    st.sampled_from([None, None, 1, 7]), st.booleans(),
)  # fmt: skip
def test_peaks_do_not_depend_on_the_ranges(
    seed, shape, dtype, density, distance, p, maximum, is_anisotropic
):
    rng = np.random.default_rng(seed)
    distances = (distance,)
    if is_anisotropic and len(shape) > 1:
        distances = tuple(rng.integers(0, 6, len(shape)).tolist())
        distances = distances if len({*distances}) > 1 else distances[:1]
    axes = "zyx"[-len(shape) :]
    step = Peaks("peaks", shape, tuple(axes), np.dtype(dtype), distances, float(p), maximum)
    tables = tables_of(rng, shape, dtype, 1, density)
    expected = reference(step, tables[0], maximum)
    for leaf in (1, 8, 10**6):
        found = result(step, tables, rng, rng.integers(0, 500, 3), leaf, maximum=maximum)
        assert found["rank"].tolist() == list(range(1, len(expected) + 1))
        places = np.stack([found[a] for a in axes], axis=1)
        assert places.tolist() == expected


@given(
    st.integers(0, 2**32), SHAPES, st.sampled_from(["u1", "u8", "i4", "f4", "f8"]),
    st.sampled_from([0.0, 0.02, 0.3, 1.0]), st.integers(1, 5), st.sampled_from([1, 1.5, 2, np.inf]),
    st.sampled_from([None, None, 0, 1, 7]), st.sampled_from([1, 3, 1000]), st.booleans(),
)  # fmt: skip
def test_peaks_of_labels_do_not_depend_on_the_ranges(
    seed, shape, dtype, density, distance, p, each, labels, is_anisotropic
):
    rng = np.random.default_rng(seed)
    distances = (distance,)
    if is_anisotropic and len(shape) > 1:
        distances = tuple(rng.integers(0, 6, len(shape)).tolist())
        distances = distances if len({*distances}) > 1 else distances[:1]
    axes = tuple("zyx"[-len(shape) :])
    step = PeaksOfLabels("peaks", shape, axes, np.dtype(dtype), distances, float(p), None)
    (peaks,) = tables_of(rng, shape, dtype, 1, density)
    region = rng.integers(1, labels + 1, len(peaks["label"])) * 2**50
    around = {"label": peaks["label"], "intensity_max": region.astype("u8")}
    expected = [
        [label, *place]
        for label in np.unique(region)
        for place in reference(step, {n: c[region == label] for n, c in peaks.items()}, each)
    ]
    with pytest.MonkeyPatch.context() as patch:
        for rows in (3, 1 << 15):  # labels in several shards
            patch.setattr(extrema, "table_flow", functools.partial(table_flow, rows=rows))
            for leaf in (1, 8, 10**6):
                how = dict(maximum=each, then=RankedOfLabels)
                found = result(step, [peaks, around], rng, rng.integers(0, 500, 3), leaf, **how)
                assert found["rank"].tolist() == list(range(1, len(expected) + 1))
                assert np.stack([found[a] for a in ("label", *axes)], axis=1).tolist() == expected


def reference(step, table, maximum):
    """One peak after the other, each compared with all that are kept."""
    places = np.stack(np.unravel_index(table["label"].astype(int) - 1, step.shape), axis=1)
    heights = table["intensity_max"].astype(object)
    order = sorted(range(len(places)), key=lambda k: (-heights[k], k))
    near = step.distance if len(step.distance) > 1 else step.distance * len(step.shape)
    kept, whole = [], len({*near}) == 1
    for k in order:
        steps = abs(places[kept] - places[k])
        steps = steps if whole else steps / np.maximum(near, 1)
        if step.p_norm == 2:
            apart = sum(np.square(steps.T)) ** 0.5
        elif step.p_norm == 1.5:
            apart = sum(steps.T**1.5) ** (1 / 1.5)
        else:
            apart = sum(steps.T) if step.p_norm == 1 else steps.max(axis=1, initial=0)
        # A distance of at most 1 separates no voxels.
        if max(near) <= 1 or not kept or (apart >= (near[0] if whole else 1)).all():
            kept.append(k)
    return places[kept[:maximum]].tolist()


@pytest.mark.parametrize("p", [1, 1.5, 2, 3, np.inf])
@pytest.mark.parametrize("distances", [(4,), (3, 2), (11, 0), (6, 5)])
def test_rounded_distances_do_not_depend_on_the_ranges(p, distances):
    """Lengths such as 10 / 3 - 7 / 3 are rounded; positions do not matter, only their steps."""
    step = Peaks("peaks", (200, 2), ("y", "x"), np.dtype("f8"), distances, p, None)
    rng, found = np.random.default_rng(0), []
    for start in range(150):
        places = np.array([start, start + distances[0]]) * 2 + 1
        table = {"label": places.astype("u8"), "intensity_max": np.array([2.0, 1])}
        for leaf in (1, 8):
            found.append(len(result(step, [table], rng, np.array([1]), leaf)["rank"]))
    assert len({*found}) == 1
    if p not in (1.5, 3):
        assert found[0] == 2


@given(
    st.integers(0, 2**32), SHAPES, st.sampled_from([0.0, 0.01, 0.2]), st.sampled_from([0, 0.3, 0.9]),
    st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_blobs_do_not_depend_on_the_ranges(seed, shape, density, overlap, scales, is_anisotropic):
    rng = np.random.default_rng(seed)
    sigmas = rng.uniform(0.5, 4, (scales, len(shape) if is_anisotropic else 1))
    sigmas = tuple(tuple(s) for s in np.sort(sigmas, axis=0).tolist())
    axes = tuple("zyx"[-len(shape) :])
    step = Blobs("blobs", shape, axes, np.dtype("f4"), sigmas, overlap)
    tables = tables_of(rng, shape, "f4", scales, density)
    expected = result(step, tables, rng, rng.integers(0, 500, 3), 10**9)
    for leaf in (1, 8):
        found = result(step, tables, rng, rng.integers(0, 500, 3), leaf)
        assert found.keys() == expected.keys()
        for name, column in expected.items():
            assert np.array_equal(found[name], column), name


@pytest.mark.parametrize("kind", [Peaks, PeaksOfLabels])
@pytest.mark.parametrize("length", [4_000, 16_000])
def test_a_node_only_has_the_peaks_near_the_ends_of_its_children(kind, length, monkeypatch):
    """The largest step grows with the cross-section, not with the length."""
    shape, rng, sizes = (length, 4, 4), np.random.default_rng(0), []

    class Counted(kind):
        def decided(self, rows, is_open):
            sizes.append(len(rows))
            return super().decided(rows, is_open)

    monkeypatch.setattr(NearbyStep, "leaf", 500)
    step = Counted("peaks", shape, ("z", "y", "x"), np.dtype("f4"), (3,), np.inf, None)
    (table,) = tables_of(rng, shape, "f4", 1, 0.1)
    table["intensity_max"] = rng.random(len(table["label"])).astype("f4")
    around = table | {"intensity_max": rng.integers(1, 4, len(table["label"]))}
    flow, boxes = step.flow(), {}
    for entry, rows in zip(step.entries, (table, around), strict=False):
        boxes[entry] = [((0,), rows)]
    for r in flow.rounds:
        groups = {}
        for key, value in boxes.pop(r.name, []):
            groups.setdefault(key, []).append(value)
        for key, values in groups.items():
            for address, to, value in r.step(key, values):
                boxes.setdefault(address, []).append((to, value))
    assert len(sizes) > length / 500
    assert max(sizes) < 1000


@pytest.mark.parametrize("name", ["peaks", "blobs"])
def test_dense_points_have_the_declared_memory(name):
    """The memory of a step does not grow with the number of near pairs."""
    rng, number = np.random.default_rng(0), 6_000
    is_open = np.arange(number) % 500 == 0
    if name == "peaks":
        places = np.argwhere(np.ones((18, 18, 19), bool))[:number]
        calls = [
            lambda o=o: extrema.spaced(places, (19,), np.inf, None, o) for o in (None, is_open)
        ]
    else:
        places, sigmas = rng.random((number, 3)) * 75, rng.uniform(1, 8, (number, 1))
        calls = [
            lambda o=o: without_overlapping(places, sigmas.round(), 0.5, o)
            for o in (is_open & False, is_open)
        ]
    calls[1]()  # imports
    for call in calls:
        tracemalloc.start()
        call()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < number * extrema.PEAK_BYTES + (4 << 20)
