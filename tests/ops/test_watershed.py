"""Watershed against Kruskal's forest under the total order, and scikit-image's, over partitions."""

import numpy as np
import pytest
from skimage.segmentation import watershed as flooded

import beam_volumes as bv
from tests.ops.test_agglomerate import greedy
from tests.tiers import few, thorough

PARTITIONS = [(3, 5, 6), (2, 5, 14), (1, 4, 5), (3, 3, 9), (9, 12, 14), (4, 12, 3), (3, 1, 1)]
SHAPE = (7, 9, 11)


def shape_for(slab):
    """Fewer voxels for the partitions with the smallest slabs, whose merges take the time."""
    return {(3, 1, 1): (5, 5, 6), (1, 4, 5): (5, 9, 11)}.get(slab, SHAPE)


def edges_of(shape):
    """All edges by linear index of the upper voxel, then the axis; (lower voxel, upper voxel, axis)."""
    index = np.arange(np.prod(shape)).reshape(shape)
    found = []
    for axis in range(3):
        lower, upper = (np.moveaxis(index, axis, 0)[s] for s in (slice(-1), slice(1, None)))
        found += [(b, axis, a) for a, b in zip(lower.ravel(), upper.ravel(), strict=True)]
    return [(int(a), int(b), axis) for b, axis, a in sorted(found)]


def numbered(parent, inside):
    """Components in raster order of their first voxels, 0 outside."""
    roots = {}
    out = np.zeros(len(parent), np.int64)
    for v in range(len(parent)):
        if inside[v]:
            root = v
            while parent[root] != root:
                root = parent[root]
            out[v] = roots.setdefault(root, len(roots) + 1)
    return out


def united(parent, a, b):
    while parent[a] != a:
        a = parent[a]
    while parent[b] != b:
        b = parent[b]
    parent[max(a, b)] = min(a, b)


def basins_of_heights(height, inside=None, marked=None):
    """Every voxel's first edge, of those that do not go up, in the order of heights and indices."""
    h = height.ravel()
    inside = np.ones(h.size, bool) if inside is None else inside.ravel()
    m = np.zeros(h.size, int) if marked is None else marked.ravel()
    parent, first = list(range(h.size)), {}
    for k, (a, b, _) in enumerate(edges_of(height.shape)):
        if inside[a] and inside[b]:
            if m[a] and m[a] == m[b]:
                united(parent, a, b)
            for v, other in ((a, b), (b, a)):
                if h[other] <= h[v] and not m[v]:
                    first[v] = min(first.get(v, (h[other], k, other)), (h[other], k, other))
    for v, (_, _, other) in first.items():
        united(parent, v, other)
    return numbered(parent, inside).reshape(height.shape)


def by_markers(basins, height, markers):
    """Basins joined across their lowest passes, unless both have markers."""
    edges, b, h = {}, basins.ravel(), height.ravel()
    for p, q, _ in edges_of(height.shape):
        if b[p] != b[q] and b[p] and b[q]:
            pair = int(min(b[p], b[q])), int(max(b[p], b[q]))
            edges[pair] = min(edges.get(pair, np.inf), float(max(h[p], h[q])))
    marks = {int(k): int(markers[basins == k].max()) for k in np.unique(basins) if k}
    negative = {pair: -pass_ for pair, pass_ in edges.items()}
    sizes = {k: int(m > 0) for k, m in marks.items()}
    names = {k: k for k in marks}
    for a, c, _, _ in greedy(negative, "max", -np.inf, sizes, 1):
        names[a] = c
    out = np.zeros_like(markers)
    groups = {}
    for k in marks:
        end = k
        while names[end] != end:
            end = names[end]
        groups.setdefault(end, []).append(k)
    for members in groups.values():
        out[np.isin(basins, members)] = max(marks[k] for k in members)
    return out


def heights(kind, shape, seed=0):
    random = np.random.default_rng(seed)
    if kind == "ties":
        return random.integers(0, 4, shape).astype(np.uint8)
    if kind == "distinct":
        return random.permutation(np.prod(shape)).reshape(shape).astype(np.float32)
    return np.zeros(shape, np.int16)


@pytest.mark.parametrize(
    ("slab", "kinds"),
    [(PARTITIONS[0], ["ties"])]
    + [pytest.param(p, ["ties", "distinct", "flat"], marks=thorough) for p in PARTITIONS],
)
def test_basins(slab, kinds):
    shape = shape_for(slab)
    for kind in kinds:
        height = heights(kind, shape)
        expected = basins_of_heights(height)
        got = bv.compute(bv.watershed(height), slab=slab, runner=None)
        np.testing.assert_array_equal(got, expected)
        random = np.random.default_rng(1)
        markers = random.integers(1, 4, shape).astype(np.uint16)
        markers[random.random(shape) < 0.97] = 0
        inside = random.random(shape) < 0.9
        basins = basins_of_heights(height, inside, markers)
        expected = by_markers(basins, height, np.where(inside, markers, 0))
        got = bv.compute(bv.watershed(height, markers, inside), slab=slab, runner=None)
        np.testing.assert_array_equal(got, expected)
        assert got.dtype == markers.dtype


def basins_of_affinities(affinities, low, high):
    w = affinities.reshape(3, -1).astype(float)
    parent, first = list(range(w.shape[1])), {}
    inside = np.zeros(w.shape[1], bool)
    for k, (a, b, axis) in enumerate(edges_of(affinities.shape[1:])):
        value = w[axis, b]
        if value >= high:
            united(parent, a, b)
        if value >= low:
            inside[[a, b]] = True
            for v in (a, b):
                first[v] = min(first.get(v, (-value, k, a, b)), (-value, k, a, b))
    for _, _, a, b in first.values():
        united(parent, a, b)
    return numbered(parent, inside).reshape(affinities.shape[1:])


@pytest.mark.parametrize("slab", few(PARTITIONS, PARTITIONS[:1]))
def test_basins_of_affinities(slab):
    random = np.random.default_rng(3)
    for dtype in (np.uint8, np.float32) if slab != PARTITIONS[0] else (np.uint8,):
        shape = 3, *shape_for(slab)
        affinities = (random.integers(0, 20, shape) / (1 if dtype == np.uint8 else 8)).astype(dtype)
        low, high = (6, 19) if dtype == np.uint8 else (0.75, 2.375)
        basins = bv.watershed_affinities(affinities.copy(), low)
        joined = bv.watershed_affinities(affinities, low, high)
        large = bv.watershed_affinities(affinities, low, high, min_size=9)
        got = bv.compute(basins, joined, large, slab=slab, runner=None)
        np.testing.assert_array_equal(got[0], basins_of_affinities(affinities, low, np.inf))
        expected = basins_of_affinities(affinities, low, high)
        np.testing.assert_array_equal(got[1], expected)
        np.testing.assert_array_equal(got[2], grown(expected, affinities, low, 9))


def grown(basins, affinities, low, min_size):
    """Pairs of the largest affinity joined, the best first, if one of the two is small."""
    edges = {}
    b, w = basins.ravel(), affinities.reshape(3, -1)
    for p, q, axis in edges_of(basins.shape):
        if b[p] != b[q] and b[p] and b[q]:
            pair = int(min(b[p], b[q])), int(max(b[p], b[q]))
            edges[pair] = max(edges.get(pair, -np.inf), float(w[axis, q]))
    names = dict(enumerate(range(int(b.max()) + 1)))
    sizes = dict(enumerate(np.bincount(b).tolist()))
    while True:
        fits = [p for p in edges if min(sizes[p[0]], sizes[p[1]]) < min_size and edges[p] >= low]
        if not fits:
            break
        a, c = max(fits, key=lambda p: (edges[p], -p[1], -p[0]))
        sizes[c] += sizes[a]
        names = {k: c if n == a else n for k, n in names.items()}
        old, edges = edges, {}
        for pair, value in old.items():
            p, q = sorted(c if r == a else r for r in pair)
            if p != q:
                edges[p, q] = max(edges.get((p, q), -np.inf), value)
    return np.array([names[k] for k in range(int(b.max()) + 1)])[basins]


def test_beside_scikit_image():
    """Without equal heights basins equal floods, except where two of them meet."""
    height = np.random.default_rng(5).permutation(12 * 20 * 20).reshape(12, 20, 20)
    height = bv.compute(bv.gaussian_filter(height.astype(np.float64), 1.5), runner=None)
    ours = np.asarray(bv.watershed(height))
    theirs = flooded(height, connectivity=1)
    assert ours.max() == theirs.max() > 5
    pairs, counts = np.unique(np.stack([ours.ravel(), theirs.ravel()]), axis=1, return_counts=True)
    same = sum(counts[pairs[0] == k].max() for k in range(1, ours.max() + 1))
    assert same == ours.size  # steepest descent is the flood's order where heights differ


def test_what_is_refused_and_small():
    height = np.zeros((2, 3), np.uint8)
    with pytest.raises(ValueError, match="connectivity=2"):
        bv.watershed(height, connectivity=2)
    with pytest.raises(ValueError, match="do not match"):
        bv.watershed(height, np.zeros((3, 2), np.uint8))
    with pytest.raises(ValueError, match="three channels"):
        bv.watershed_affinities(np.zeros((2, 3, 4, 5), np.uint8), 1)
    with pytest.raises(ValueError, match="less than low"):
        bv.watershed_affinities(np.zeros((3, 3, 4, 5), np.uint8), 2, 1)
    with pytest.raises(ValueError, match="NaN"):
        np.asarray(bv.watershed(np.array([[0.0, np.nan]])))
    inside = bv.watershed(np.array([[0.0, np.nan, 2.0]]), mask=np.array([[1, 0, 1]], "u1"))
    assert np.asarray(inside).tolist() == [[1, 0, 2]]
    assert np.asarray(bv.watershed(height)).tolist() == [[1, 1, 1]] * 2
    assert np.asarray(bv.watershed(np.zeros((1, 1)))).tolist() == [[1]]
    assert np.asarray(bv.watershed(np.zeros((0, 4)), np.zeros((0, 4), "u1"))).shape == (0, 4)
    assert not np.asarray(bv.watershed(height, height)).any()


@thorough
def test_in_a_pipeline(tmp_path):
    random = np.random.default_rng(7)
    affinities = random.integers(0, 256, (3, *SHAPE)).astype(np.uint8)
    bv.compute(bv.open(affinities).to(tmp_path / "in.zarr", chunks=(1, 2, 5, 11)), runner=None)
    segments = bv.watershed_affinities(bv.open(tmp_path / "in.zarr"), 40, 230, min_size=12)
    target = segments.to(tmp_path / "out.zarr", chunks=(2, 5, 11))
    bv.compute(target, slab=(2, 5, 11), runner="FnApiRunner")
    expected = np.asarray(bv.watershed_affinities(affinities, 40, 230, min_size=12))
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "out.zarr")), expected)
