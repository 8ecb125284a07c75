"""Touching pairs from blocks against all faces of the whole volume, one by one."""

import functools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from beam_volumes.across import adjacency as adj
from tests.across.test_tables import assert_same_bits, boxes_of, windows_of
from tests.tiers import dtypes_drawn, examples, label_dtypes, thorough

drawn = dtypes_drawn(["f4", "f8", "i2"])
EDGES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])


def brute(labels, boundary, value):
    found = {}
    for axis in range(3):
        for index in np.ndindex(labels.shape):
            if index[axis] == 0:
                continue
            below = tuple(i - (a == axis) for a, i in enumerate(index))
            u, v = int(labels[index]), int(labels[below])
            if u == v or 0 in (u, v):
                continue
            faces, values = found.setdefault((min(u, v), max(u, v)), ([0, 0, 0], []))
            faces[axis] += 1
            p, q = float(boundary[index]), float(boundary[below])
            values.append(max(p, q) if value == "max" else 0.5 * (p + q))
    return found


@st.composite
def cases(draw, dtypes):
    shape = tuple(draw(st.integers(1, 7)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    labels = random.integers(0, draw(st.integers(2, 6)), shape)
    labels = np.where(labels > 0, labels * draw(st.sampled_from([1, 2**33 + 5])), 0)
    dtype = np.uint64 if labels.max() > 2**32 else draw(st.sampled_from(label_dtypes(dtypes)))
    kind = draw(st.sampled_from(dtypes))
    boundary = (random.random(shape) * (1 if kind[0] == "f" else 2)).astype(kind)
    cuts = [draw(st.sets(st.integers(1, n - 1), max_size=3)) if n > 1 else () for n in shape]
    value = draw(st.sampled_from(["max", "mean"]))
    return random, labels.astype(dtype), boundary, cuts, draw(st.integers(1, 4)), value


@thorough
@drawn
@settings(max_examples=examples(200))
@given(data=st.data())
def test_any_partition_and_order(dtypes, data):
    random, labels, boundary, cuts, depth, value = data.draw(cases(dtypes))
    whole = adj.adjacency(labels, boundary, value, EDGES)
    parts = [
        adj.adjacency(
            labels[window],
            boundary[window],
            value,
            EDGES,
            core=core,
            below=None if below is None else (labels[below], boundary[below]),
        )
        for box in boxes_of(labels.shape, cuts)
        for window, core, below in windows_of(labels.shape, box, depth)
    ]
    random.shuffle(parts)
    middle = len(parts) // 2
    merged = adj.merge([adj.merge(parts[middle:]), *parts[:middle]])
    table = adj.columns(merged, boundary=True)
    assert_same_bits(table, adj.columns(whole, boundary=True))
    expected = brute(labels, boundary, value)
    pairs = sorted(expected)
    assert list(zip(table["label_a"].tolist(), table["label_b"].tolist(), strict=True)) == pairs
    for i, pair in enumerate(pairs):
        faces, values = expected[pair]
        assert [table[f"faces-{a}"][i] for a in range(3)] == faces
        np.testing.assert_allclose(table["boundary_mean"][i], np.mean(values), rtol=1e-12)
        assert table["boundary_min"][i] == min(values)
        assert table["boundary_max"][i] == max(values)
        bins = [table[f"boundary_histogram-{b}"][i] for b in range(4)]
        assert bins == np.histogram(values, EDGES)[0].tolist()


def test_without_a_boundary():
    labels = np.array([[[1, 2, 0, 3, 3, 1]]], np.uint32)
    table = adj.columns(adj.adjacency(labels))
    assert sorted(table) == ["faces-0", "faces-1", "faces-2", "label_a", "label_b"]
    assert table["label_b"].tolist() == [2, 3] and table["faces-2"].tolist() == [1, 1]


def test_not_finite():
    labels = np.array([[[1, 2, 3]]], np.uint8)
    boundary = np.array([[[0.5, 1.0, np.nan]]])
    with pytest.raises(ValueError, match="1 boundary"):
        adj.adjacency(labels, boundary)
    table = adj.columns(adj.adjacency(labels, boundary, nan="omit"), boundary=True)
    assert table["faces-2"].tolist() == [1, 1]
    assert table["boundary_mean"][0] == 1 and np.isnan(table["boundary_mean"][1])


def test_many_pairs():
    labels = np.random.default_rng(0).integers(0, 3000, (12, 40, 50)).astype(np.uint32)
    whole = adj.adjacency(labels)
    assert len(whole) > 60_000
    assert whole.faces.sum() == sum(
        np.count_nonzero((a != b) & (a > 0) & (b > 0))
        for k in range(3)
        for a, b in [(np.moveaxis(labels, k, 0)[1:], np.moveaxis(labels, k, 0)[:-1])]
    )


@pytest.mark.parametrize("value", ["max", "mean", "upper"])
def test_room_that_fills_at_any_face(monkeypatch, value):
    """Faces are continued at the one across x, y or z without room, also with the plane before."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 60, (4, 7, 9)).astype(np.uint32)
    voxels = random.random(labels.shape, np.float32)
    boundary = (voxels[1:],) * 3 if value == "upper" else voxels[1:]
    below = labels[0], None if value == "upper" else voxels[0]
    find = functools.partial(
        adj.adjacency, labels[1:], boundary, value, EDGES, core=(3, 6, 8), below=below
    )
    expected = find()
    for room in (1, 2, 4, 8, 16, 32):
        monkeypatch.setattr(adj, "_FIRST_ROOM", room)
        assert_same_bits(adj.columns(find(), boundary=True), adj.columns(expected, boundary=True))
