"""Tables of the branches of skeletons, against a walk along every branch."""

from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage as ndi
from skimage.measure import label as components

import beam_volumes as bv
from beam_volumes.across.rounds.chains import chained, through
from beam_volumes.across.rounds.flow import run
from beam_volumes.ops.labels.surveys.branches import Branches
from tests.tiers import examples


def walked(labels, spacing, distances=None):
    """The rows of `bv.skeleton_table`, by walking from end to end of each branch."""
    objects = components(labels, connectivity=labels.ndim) if labels.dtype == bool else labels
    steps = [s for s in np.ndindex((3,) * labels.ndim) if any(i != 1 for i in s)]
    voxels = [tuple(map(int, at)) for at in np.argwhere(labels)]
    near = {}
    for at in voxels:
        around = [tuple(a + i - 1 for a, i in zip(at, s, strict=True)) for s in steps]
        inside = [
            b for b in around if all(0 <= i < n for i, n in zip(b, labels.shape, strict=True))
        ]
        near[at] = [b for b in inside if labels[b] == labels[at]]
    is_junction = {at: len(near[at]) > 2 for at in voxels}
    junctions, rows, done = {}, [], set()
    for at in voxels:
        if is_junction[at] and at not in junctions:
            number, stack = len(set(junctions.values())) + 1, [at]
            while stack:
                here = stack.pop()
                if here not in junctions:
                    junctions[here] = number
                    stack += [b for b in near[here] if is_junction[b]]

    def walk(before, at):
        """The voxels from ``at`` to the end of the branch, away from ``before``."""
        path = [at]
        while not is_junction[at]:
            onward = [b for b in near[at] if b != before and b not in path]
            if not onward:
                break
            before, at = at, onward[0]
            path.append(at)
        return path

    for at in voxels:
        if is_junction[at] or at in done:
            continue
        one, *other = [walk(at, b) for b in near[at]] or [[]]
        is_cycle = one[-1:] == [at]
        path = [at, *one] if is_cycle else [*(other[0] if other else [])[::-1], at, *one]
        own = [b for b in path[: -1 if is_cycle else None] if not is_junction[b]]
        done |= set(own)
        points = np.array(path) * spacing
        ends = sorted([path[0], path[-1]])
        free = [not is_junction[end] for end in ends]
        row = {
            "label": len(rows) + 1,
            "skeleton": objects[at],
            "branch_type": 3 if is_cycle else 2 - sum(free),
            "num_pixels": len(own),
            "length": np.linalg.norm(np.diff(points, axis=0), axis=1).sum(),
            "distance": np.linalg.norm(points[-1] - points[0]),
            **{f"start-{k}": i for k, i in enumerate(ends[0])},
            **{f"end-{k}": i for k, i in enumerate(ends[1])},
            "junction_start": junctions.get(ends[0], 0),
            "junction_end": junctions.get(ends[1], 0),
        }
        if distances is not None:
            row["radius_mean"] = np.mean([float(distances[b]) for b in own])
        rows.append(row)
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def check(found, expected):
    found = found.to_pydict()
    with np.errstate(divide="ignore", invalid="ignore"):
        tortuosity = np.divide(found["length"], found["distance"])
    np.testing.assert_array_equal(found.pop("tortuosity"), tortuosity)
    assert len(found["label"]) == len(expected.get("label", []))
    if expected:
        assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12, err_msg=name)


def lines(draw, shape):
    """Noise, thin lines, or straight lines that cross."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    kind = draw(st.sampled_from(["noise", "thin", "straight"]))
    if kind == "noise":
        return rng.random(shape) < draw(st.sampled_from([0.02, 0.1, 0.3]))
    if kind == "thin":
        smooth = ndi.gaussian_filter(rng.random(shape), 1)
        return np.asarray(bv.skeletonize(smooth > np.median(smooth)))
    mask = np.zeros(shape, bool)
    for _ in range(4):
        axis = int(rng.integers(len(shape)))
        at: list = [int(rng.integers(n)) for n in shape]
        at[axis] = slice(None, None)
        mask[tuple(at)] = True
    return mask


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u4", "i8", "u8"])
@settings(max_examples=examples(8), deadline=None)
@given(data=st.data())
def test_branches_in_any_partition(dtype, data):
    draw = data.draw
    shape = tuple(draw(st.integers(1, n)) for n in (8, 13, 15))
    shape = shape[draw(st.integers(0, 1)) :]
    mask = lines(draw, shape)
    rng = np.random.default_rng(0)
    labels = mask.astype(dtype)
    if dtype != "?":
        labels[mask] = rng.choice([3, 100], mask.sum(), p=[0.8, 0.2])
    spacing = tuple(draw(st.sampled_from([0.3, 1, 2.5])) for _ in shape)
    distances = rng.random(shape).astype("f4") if draw(st.booleans()) else None
    table = bv.skeleton_table(bv.open(labels), distances, spacing=spacing)
    slab = tuple(draw(st.integers(-(-n // 3), n)) for n in shape)
    window = draw(st.sampled_from([None, 1, 3]))
    how = {"slab": slab, "window": window, "workers": draw(st.integers(1, 3))}
    with mock.patch.object(Branches, "bucket", draw(st.sampled_from([Branches.bucket, 1, 5]))):
        found = bv.compute(table, runner=None, **how)
    whole = bv.compute(table, runner=None, slab=shape)
    assert np.asarray(found).tobytes() == np.asarray(whole).tobytes()
    check(found, walked(labels, spacing, distances))


def test_branches_are_joined_in_as_many_buckets_as_the_memory_needs():
    """All rows are there, in order, and their junctions; one bucket would be refused."""
    count, random = 40_000, np.random.default_rng(0)
    labels = np.arange(1, count + 1, dtype=np.uint64)
    firsts = np.sort(random.integers(1, 10**6, count))
    lasts = firsts + random.integers(0, 10**6, count)
    places = np.unique(lasts[::3])
    numbers = np.arange(1, len(places) + 1, dtype=np.uint64)
    step = Branches("skeleton_table", (2000, 2000), (1.0, 1.0), False)
    tables = {
        "lengths": {"num_pixels": lasts, "intensity_sum": lasts.astype(float)},
        "firsts": {"intensity_min": firsts},
        "lasts": {"intensity_max": lasts},
        "skeletons": {"intensity_max": labels},
    }
    own = [{"label": labels, **columns} for columns in tables.values()]
    own.append({"label": places.astype(np.uint64), "intensity_max": numbers})

    def rows(limit):
        # Each table in two shards.
        parts = [
            {"label": t["label"][k::2], **{n: c[k::2] for n, c in t.items()}}
            for t in own
            for k in range(2)
        ]
        sources = [through() for _ in own]
        flow = chained(sources, [(step, range(len(own)))], limit)
        slabs = [((k,), tuple(parts[2 * n + k] for n in range(len(own)))) for k in range(2)]
        found = sorted(run(flow, slabs)["rows"], key=lambda row: row[0])
        return {name: np.concatenate([r[name] for _, r in found]) for name in found[0][1]}

    whole = rows(None)
    assert np.array_equal(whole["label"], labels)
    ends = {place: k for k, place in enumerate(places.tolist(), 1)}
    assert whole["junction_end"].tolist() == [ends.get(end, 0) for end in lasts.tolist()]
    least = int(1.05 * step.likely_bytes([count] * 5, (1, 2000, 2000)))  # samples are not exact
    parted = rows(least)
    assert all(np.array_equal(whole[name], parted[name]) for name in whole)
    assert least < count * Branches.row_bytes
    with (
        mock.patch.object(Branches, "max_buckets", 1),
        pytest.raises(
            ValueError, match=r"skeleton_table: a step joins 40,000 branches, .* by \d+ MiB"
        ),
    ):
        rows(count * Branches.row_bytes // 2)


def test_kinds_of_branches():
    """A loop, a loop at a junction, a line between two junctions, a line of two, and a voxel."""
    picture = """
        .oo.......o.....o...
        o..o.......o...o....
        o..o........ooo...o.
        .oo........o...o..o.
        ..........o.....o...
        ....................
        o...oo..............
        .ooo..o.......o.....
        o...oo..............
    """
    mask = np.array([[c == "o" for c in line.strip()] for line in picture.split()])
    table = bv.skeleton_table(mask).to_pyarrow().to_pydict()
    check(bv.compute(bv.skeleton_table(mask)), walked(mask, (1, 1)))
    assert sorted(table["branch_type"]) == [0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3]
    at = table["num_pixels"].index(1, table["branch_type"].index(2))
    assert table["length"][at] == 2
    loop = table["branch_type"].index(3)
    assert table["length"][loop] == 4 * 2**0.5 + 4
    loops = [k for k, ratio in enumerate(table["tortuosity"]) if ratio == np.inf]
    assert [table["branch_type"][k] for k in loops] == [3, 2]
    alone = table["length"].index(0)
    assert np.isnan(table["tortuosity"][alone])


def test_distances_elsewhere_do_not_matter():
    lines = np.array([[1, 1, 1, 0], [0, 0, 0, 1]])
    table = bv.compute(bv.skeleton_table(lines, np.where(lines, 2.0, np.nan)), runner=None)
    assert table["radius_mean"].to_pylist() == [2.0]


def test_voxel_sizes_and_computed_distances():
    mask = np.zeros((3, 4, 9), bool)
    mask[1, 2] = True
    volume = bv.open(mask, voxel_size=(3, 2, 0.5), unit="um")
    radius = bv.distance_transform_edt(
        np.pad(np.ones((3, 3, 9)), ((0, 0), (0, 1), (0, 0))), [3, 2, 1]
    )
    table = bv.skeleton_table(volume, radius, spacing="voxel_size")
    assert table["length"].tolist() == table["distance"].tolist() == [4]
    assert (table["end-2"], table["radius_mean"]) == (8, 2)


@pytest.mark.parametrize("shape", [(0, 3, 4), (5, 0), (1, 1, 1), (1, 1), (1, 1, 7), (7, 1, 1)])
def test_tiny(shape):
    for mask in (np.ones(shape, bool), np.zeros(shape, bool)):
        table = bv.skeleton_table(mask, np.ones(shape))
        check(bv.compute(table), walked(mask, (1,) * len(shape), np.ones(shape)))
        assert table["length"].tolist() == ([max(shape) - 1] if mask.any() else [])


def test_time_points():
    masks = np.random.default_rng(0).random((2, 5, 6, 7)) < 0.1
    table = bv.skeleton_table(bv.open(masks, axes="tzyx")).to_pyarrow()
    points = [bv.skeleton_table(mask).to_pyarrow() for mask in masks]
    assert table.column_names == ["t", *points[0].column_names]
    for t, expected in enumerate(points):
        own = table.slice(sum(p.num_rows for p in points[:t]), expected.num_rows)
        for name in expected.column_names:
            np.testing.assert_array_equal(own[name], expected[name])


def test_refused():
    mask = np.zeros((4, 5), bool)
    mask[2] = True
    with pytest.raises(TypeError, match="skeleton_table: labels have dtype float32"):
        bv.skeleton_table(mask.astype("f4"))
    with pytest.raises(ValueError, match="distances of shape"):
        bv.skeleton_table(mask, np.ones((4, 6)))
    with pytest.raises(ValueError, match="channel"):
        bv.skeleton_table(bv.open(np.stack([mask, mask]), axes="cyx"))
    with pytest.raises(ValueError, match="channel"):
        bv.skeleton_table(mask, bv.open(np.ones((2, 4, 5)), axes="cyx"))
    for bad in (0, -1, np.nan, np.inf):
        with pytest.raises(ValueError, match="skeleton_table: spacing="):
            bv.skeleton_table(mask, spacing=bad)
    with pytest.raises(ValueError, match="skeleton_table: nan="):
        bv.skeleton_table(mask, mask.astype("f4"), nan="zero")
    with pytest.raises(ValueError, match="nan="):
        bv.compute(bv.skeleton_table(mask, np.full((4, 5), np.nan)))
    omitted = bv.skeleton_table(mask, np.where(np.indices((4, 5))[1] == 1, np.inf, 2), nan="omit")
    assert omitted["radius_mean"].tolist() == [2]
    with pytest.raises(ValueError, match="negative"):
        bv.compute(bv.skeleton_table(np.array([[0, -3, -3]])))
