"""Tracks of objects through time, against films with known tracks and a dense assignment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import beam_volumes as bv
from beam_volumes.ops.labels import tracking
from beam_volumes.ops.labels.tracking import _UNLINKED, _assigned, _joined

SIZE = (4.0, 1.0, 2.0)
COLUMNS = ("t", "label", "track")


def film(rng, times=9):
    """Labels of a film and their tracks; track 3 divides at t=4, and track 2 is gone at t=5."""
    labels, truth = np.zeros((times, 6, 60, 40), "u2"), []
    paths = {
        1: [(1, 8 + 2 * t, 8) for t in range(times)],
        2: [(4, 48 - t, 30) for t in range(times)],
    }
    paths[3] = [(2, 10 + t, 30) for t in range(4)]
    paths[4] = [(2, 16 + 2 * (t - 4), 30) for t in range(4, times)]
    paths[5] = [(2, 10 - (t - 4), 30) for t in range(4, times)]
    for t in range(times):
        names = rng.permutation(200)[:5] + 1
        for track, path in paths.items():
            at = t - 4 if track in (4, 5) else t
            if at < 0 or at >= len(path) or (track, t) == (2, 5):
                continue
            z, y, x = path[at]
            half = 3 if track in (4, 5) else 5
            labels[t, z - 1 : z + 2, y - half : y + half, x - 4 : x + 4] = names[track - 1]
            truth.append((t, int(names[track - 1]), track))
    return labels, truth


def renamed(tracks):
    """Tracks by object, as sets: their numbers may differ."""
    found = {}
    for t, label, track in tracks:
        found.setdefault(track, set()).add((t, label))
    return set(map(frozenset, found.values()))


@pytest.mark.parametrize("how", [{"max_distance": 9.0}, {"min_iou": 0.2}, {}])
def test_tracks_of_a_film_with_a_division_and_a_gap(how):
    labels, truth = film(np.random.default_rng(len(how)))
    movie = bv.open(labels, axes="tzyx", voxel_size=SIZE, unit="um")
    spacing = "voxel_size" if "max_distance" in how else None
    found = bv.track(movie, **how, max_gap=1, divisions=True, spacing=spacing)
    rows = list(zip(*(found[c].to_pylist() for c in COLUMNS), strict=True))
    assert renamed(rows) == renamed(truth)
    track_of = {row[:2]: row[2] for row in rows}
    true_of = {row[:2]: row[2] for row in truth}
    parents = dict(zip(found["track"].to_pylist(), found["parent"].to_pylist(), strict=True))
    (mother,) = {track_of[k] for k in rows_of(true_of, 3)}
    assert {t for t, p in parents.items() if p} == {
        track_of[k] for n in (4, 5) for k in rows_of(true_of, n)
    }
    assert set(parents.values()) == {0, mother}
    lasting = np.asarray(bv.relabel(movie, found, columns=COLUMNS))
    expected = np.zeros_like(lasting)
    for (t, label), track in track_of.items():
        expected[t][labels[t] == label] = track
    assert np.array_equal(lasting, expected)
    if spacing:
        assert found["centroid-0"].to_pylist()[0] % SIZE[0] == 0
        how = {"max_gap": 1, "divisions": True, "spacing": spacing}
        assert found.equals(bv.track(movie, max_distance="9 um", **how))


def rows_of(true_of, track):
    return [k for k, v in true_of.items() if v == track]


def test_without_gaps_and_divisions_every_part_is_a_track():
    labels, _ = film(np.random.default_rng(0))
    found = bv.track(bv.open(labels, axes="tzyx"))
    assert set(found["parent"].to_pylist()) == {0}
    assert (
        len(set(found["track"].to_pylist())) == 5
    )  # one daughter keeps the track; the gap cuts one
    nothing = bv.track(bv.open(labels[:2] * 0, axes="tzyx"), max_gap=3)
    assert len(nothing) == 0 and nothing.column_names[:4] == ["t", "label", "track", "parent"]


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_links_have_the_lowest_cost_of_all(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(0, 9, 2)
    costs = np.round(rng.random((n, m)), 1)
    near = rng.random((n, m)) < rng.random()
    a, b = np.nonzero(near)
    i, j = _assigned((a, b, costs[near]))
    assert len(set(i)) == len(i) == len(set(j)) and near[i, j].all()
    dense = np.full((n + m, n + m), 9.0 * (n + m))
    dense[:n, :m][near] = costs[near]
    dense[:n, m:][np.arange(n), np.arange(n)] = _UNLINKED / 2
    dense[n:, :m][np.arange(m), np.arange(m)] = _UNLINKED / 2
    dense[n:, m:] = 0
    best = dense[linear_sum_assignment(dense)].sum() if n + m else 0
    assert np.isclose(costs[i, j].sum() + (n + m - 2 * len(i)) * _UNLINKED / 2, best)


def test_groups_of_objects_are_assigned_apart(monkeypatch):
    """The time of an assignment grows with the square of its objects."""
    rng, sizes = np.random.default_rng(0), []
    a = np.repeat(np.arange(6000), 2)
    pairs = a, a + np.tile([0, 1], 6000) * (a % 3 < 2), rng.random(len(a))
    pairs = tuple(
        each[np.unique(np.stack(pairs[:2]), axis=1, return_index=True)[1]] for each in pairs
    )
    matching = tracking.min_weight_full_bipartite_matching

    def noted(graph):
        sizes.append(graph.shape[0])
        return matching(graph)

    monkeypatch.setattr(tracking, "min_weight_full_bipartite_matching", noted)
    apart = set(zip(*_assigned(pairs), strict=True))
    assert len(sizes) > 5 and max(sizes) < 1010 and sum(sizes) == 6000
    monkeypatch.setattr(tracking, "_BATCH", 10**9)
    assert apart == set(zip(*_assigned(pairs), strict=True)) and sizes[-1] == 6000


def test_errors_of_tracks():
    movie = bv.open(np.zeros((3, 5, 6), "u1"), axes="tyx")
    for call, message in (
        (lambda: bv.track(np.zeros((3, 5, 6), "u1")), 'no time axis; open it with axes="tzyx"'),
        (
            lambda: bv.track(movie, max_distance=3, min_iou=0.5),
            "max_distance= or min_iou=, not both",
        ),
        (lambda: bv.track(movie, max_distance="3 um"), 'needs spacing="voxel_size"'),
        (lambda: bv.track(movie, min_iou=0), "min_iou=0; give a number above 0"),
        (lambda: bv.track(movie, max_gap=-1), "max_gap=-1"),
        (lambda: bv.relabel(movie[0], {}, columns=COLUMNS), "a column of time points"),
        (lambda: bv.relabel(movie, {"t": [0]}, columns=COLUMNS), "no column label, track"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    lookup = {"t": [1], "label": [2], "track": [3]}
    bright = bv.open(np.full((3, 5, 6), 2, "u1"), axes="tyx")
    with pytest.raises(ValueError, match=r"no value for label 2.*at t=0"):
        np.asarray(bv.relabel(bright, lookup, columns=COLUMNS))
    assert _joined([])[0].size == 0


def test_cells_that_do_not_divide_have_no_parents():
    """Others that enter next to them are no daughters, unless divisions are searched."""
    frames = np.zeros((3, 1, 4, 9), "u1")
    frames[:, 0, 1:3, 1:3] = 1
    frames[1:, 0, 1:3, 4:6] = 2
    movie = bv.open(frames, axes="tzyx")
    found = bv.track(movie, max_distance=4)
    assert found["track"].to_pylist() == [1, 1, 2, 1, 2] and set(found["parent"].to_pylist()) == {0}
    assert set(bv.track(movie, max_distance=4, divisions=True)["parent"].to_pylist()) == {0, 1}
