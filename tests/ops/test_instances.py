"""Objects found tile by tile: against a plain loop over all tiles, for any slabs and runner."""

import itertools
import tracemalloc
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.across.fragments import RULES
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.ops.labels import instances
from beam_volumes.ops.labels.surveys.fragment_surveys import FragmentSurvey
from beam_volumes.ops.labels.surveys.instance_stages import Tiles
from beam_volumes.sweep.stage import Block
from tests.across.groups import shuffling
from tests.tiers import examples, thorough


def bright(tile):
    return ndimage.label(tile > 140)[0]


def odd_labels(tile):
    """The same objects by labels that do not fit 32 bits."""
    return bright(tile).astype("u8") * np.uint64(2**40 + 7)


def blobs(shape, seed):
    smooth = ndimage.gaussian_filter(np.random.default_rng(seed).random(shape), 1, mode="wrap")
    return ((smooth - smooth.min()) / (np.ptp(smooth) + 1e-9) * 255).astype("u1")


class Plain:
    """Tiles one by one, matched pair by pair."""

    def __init__(self, shape, tile, overlap):
        self.axes = []
        for n, t, o in zip(shape, tile, overlap, strict=True):
            t, o = (t, o) if t < n else (n, 0)
            self.axes.append((n, t, o, t - o, max(1, -(-(n - o) // (t - o)))))
        self.cells = list(itertools.product(*(range(a[-1]) for a in self.axes)))

    def box(self, cell):
        return tuple(
            slice(k * s, min(k * s + t, n))
            for k, (n, t, _, s, _) in zip(cell, self.axes, strict=True)
        )

    def owned(self, cell):
        return tuple(
            slice(k * s + o // 2 if k else 0, n if k + 1 == c else (k + 1) * s + o // 2)
            for k, (n, _, o, s, c) in zip(cell, self.axes, strict=True)
        )

    def stitched(self, shape, tiles, rule, threshold):
        parent = {}

        def root(a):
            while parent.setdefault(a, a) != a:
                a = parent[a]
            return a

        for cell, axis in itertools.product(self.cells, range(3)):
            above = tuple(c + (k == axis) for k, c in enumerate(cell))
            if above in tiles and self.axes[axis][2]:
                for a, b in matched(*self.shared(tiles, cell, above), rule, threshold):
                    parent[root((cell, a))] = root((above, b))
        objects, numbers = np.zeros(shape, "i8"), {}
        for cell in self.cells:
            labels, place = np.unique(tiles[cell], return_inverse=True)
            own = [
                numbers.setdefault(root((cell, n)), len(numbers) + 1) if n else 0
                for n in labels.tolist()
            ]
            box = self.owned(cell)
            inner = (
                slice(a.start - b.start, a.stop - b.start)
                for a, b in zip(box, self.box(cell), strict=True)
            )
            objects[box] = np.array(own)[place.reshape(tiles[cell].shape)][tuple(inner)]
        found, first, place = np.unique(objects, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(np.where(found == 0, -1, first)))
        return (rank + (found[0] > 0)).astype("u4")[place.reshape(shape)]

    def shared(self, tiles, *cells):
        boxes = [self.box(c) for c in cells]
        both = [(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(*boxes, strict=True)]
        for cell, box in zip(cells, boxes, strict=True):
            at = (slice(a - s.start, b - s.start) for (a, b), s in zip(both, box, strict=True))
            yield tiles[cell][tuple(at)]


def matched(a, b, rule, threshold):
    pairs = {}
    for pair in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        if all(pair):
            pairs[pair] = pairs.get(pair, 0) + 1
    for (p, q), n in pairs.items():
        if rule == "iou":
            union = int((a == p).sum() + (b == q).sum()) - n
            fits = Fraction(n, union) >= Fraction(threshold)
        else:
            fits = rule == "touch" or (
                q == min((-m, y) for (x, y), m in pairs.items() if x == p)[1]
                and p == min((-m, x) for (x, y), m in pairs.items() if y == q)[1]
            )
        if fits:
            yield p, q


def reference(array, function, tile, overlap, rule, threshold=0.5):
    plain = Plain(array.shape, tile, overlap)
    tiles = {cell: function(array[plain.box(cell)]) for cell in plain.cells}
    return plain.stitched(array.shape, tiles, rule, threshold)


@st.composite
def cases(draw):
    shape = draw(st.tuples(*[st.integers(1, 20)] * 3))
    tile = draw(st.tuples(*[st.integers(1, 12)] * 3))
    overlap = tuple(draw(st.integers(0, t // 2)) for t in tile)
    slab = tuple(draw(st.integers(max(1, n // 4), n)) for n in shape)
    return shape, tile, overlap, slab


@settings(deadline=None, max_examples=examples(24))
@given(
    case=cases(),
    rule=st.sampled_from(RULES),
    threshold=st.sampled_from([0.3, 0.5, 1]),
    function=st.sampled_from([bright, odd_labels]),
    seed=st.integers(0, 1000),
    window=st.sampled_from([None, 1, 3]),
)
def test_instances_are_those_of_a_loop_over_tiles(case, rule, threshold, function, seed, window):
    shape, tile, overlap, slab = case
    array = blobs(shape, seed)
    found = bv.map_instances(array, function, tile, overlap, rule, threshold)
    expected = reference(array, function, tile, overlap, rule, threshold)
    got, count = bv.compute(found, found.num_labels, slab=slab, window=window, runner=None)
    np.testing.assert_array_equal(got, expected)
    assert int(count) == expected.max()


@thorough
def test_on_a_runner():
    array = blobs((8, 15, 16), 3)
    cells = bv.map_instances(array, bright, 8, 3, "touch", name="bright", version=1)
    got = bv.compute(cells, slab=(4, 8, 16), runner="FnApiRunner")
    np.testing.assert_array_equal(got, reference(array, bright, (8, 8, 8), (3, 3, 3), "touch"))


def test_a_chain(tmp_path):
    array = blobs((12, 21, 22), 3)
    cells = bv.map_instances(bv.open(array), bright, 8, 3, "touch", name="bright", version=1)
    large = bv.remove_small_objects(cells, 20)
    table = bv.regionprops_table(large, properties=["num_pixels"])
    bv.compute(
        large.to(tmp_path / "l.zarr", chunks=(4, 8, 8)), table.to(tmp_path / "t.parquet"),
        slab=(4, 8, 16), runner=None,
    )  # fmt: skip
    whole = reference(array, bright, (8, 8, 8), (3, 3, 3), "touch")
    sizes = np.bincount(whole.ravel())
    kept = np.where(sizes[whole] > 20, whole, 0)
    np.testing.assert_array_equal(np.asarray(bv.open(tmp_path / "l.zarr")), kept)
    assert kept.any()


def test_messages_in_any_order_and_twice(monkeypatch):
    array = blobs((9, 13, 17), 5)
    found = bv.map_instances(array, bright, (4, 6, 7), (2, 3, 3), "largest")
    flow = FragmentSurvey.flow

    def shuffled(self, grid, limit_bytes=None):
        made = flow(self, grid, limit_bytes)
        run = rounds.run

        def again(given_flow, summaries):
            return run(given_flow, summaries, group=shuffling(np.random.default_rng(1)))

        class AtOnce(rounds.Round):
            def step(self, key, values):
                given = list({k: (k, v) for k, v in values}.values())
                for port, messages in again(made, given).items():
                    for to, value in messages:
                        yield port, to, value

        class Gather(rounds.Round):
            def step(self, key, values):
                yield "all", (), (key, values[0])

        return rounds.Flow((Gather("slabs", ("all",)), AtOnce("all", made.ports)), made.ports)

    monkeypatch.setattr(FragmentSurvey, "flow", shuffled)
    got = bv.compute(found, slab=(3, 5, 9), runner=None)
    expected = reference(array, bright, (4, 6, 7), (2, 3, 3), "largest")
    np.testing.assert_array_equal(got, expected)


def test_shapes_axes_and_channels():
    image = blobs((30, 41), 2)
    got = np.asarray(bv.map_instances(image, bright, (12, 16), (4, 6)))
    expected = reference(image[None], bright, (1, 12, 16), (0, 4, 6), "iou")[0]
    np.testing.assert_array_equal(got, expected)
    pair = bv.stack([image, image[::-1]]).with_space(voxel_size=(2, 2), unit="nm")
    both = bv.map_instances(pair, lambda t: bright(np.maximum(*t)), 16, 4)
    assert both.axes == ("y", "x") and both.voxel_size == (2, 2)
    highest = np.maximum(image, image[::-1])
    expected = reference(highest[None], bright, (1, 16, 16), (0, 4, 4), "iou")[0]
    np.testing.assert_array_equal(np.asarray(both), expected)
    for shape in [(0, 4, 5), (1, 1, 1)]:
        got = np.asarray(bv.map_instances(np.full(shape, 200, "u1"), bright, 3, 1))
        np.testing.assert_array_equal(got, np.ones(shape, "u4"))


def three_arrays(tile):
    first = tile.astype("f8") if tile.ndim == 3 else tile.sum(axis=0, dtype="f8")
    second = 2 * first
    return (first + second).astype(int)


@pytest.mark.parametrize("dtype", ["u1", "f8"])
@pytest.mark.parametrize("channels", [1, 5])
def test_tiles_need_what_is_declared(dtype, channels, monkeypatch):
    """No more, and with an eighth of the assumed bytes of a function it would be too little."""
    stages, shape = [], (16, 64, 64)
    monkeypatch.setattr(instances, "Tiles", lambda *a: stages.append(Tiles(*a)) or stages[-1])
    parts = list(np.random.default_rng(0).integers(0, 9, (channels, *shape)).astype(dtype))
    volume = bv.stack([*map(bv.open, parts)]) if channels > 1 else parts[0]
    bv.map_instances(volume, three_arrays, shape, 0, name="test", version=1)
    blocks = [Block(a, np.arange(len(a)), 0, 0, *a.shape[1:]) for a in parts]
    stages[0].found(blocks, (0, 0, 0))  # imports
    tracemalloc.start()
    try:
        stages[0].found(blocks, (0, 0, 0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    declared = stages[0].working_bytes(shape, 1)
    assert declared / 2 < peak <= declared


@pytest.mark.parametrize("rule", RULES)
def test_blocks_of_somebody_else(rule):
    shape, tile, overlap = (11, 14, 19), (6, 8, 9), (2, 4, 3)
    array = blobs(shape, 8)
    plain = Plain(shape, tile, overlap)
    rng = np.random.default_rng(1)
    tiles = {}
    for cell in plain.cells:
        labels = bright(array[plain.box(cell)])
        numbers = np.concatenate([[0], rng.permutation(2**40 + np.arange(labels.max()))])
        tiles[cell] = numbers[labels].astype("u8")
    nz, ny, nx = np.add(plain.cells[-1], 1)
    blocks = [[[tiles[z, y, x] for x in range(nx)] for y in range(ny)] for z in range(nz)]
    got = bv.compute(bv.stitch(blocks, overlap, rule), slab=(4, 9, 19), runner=None)
    np.testing.assert_array_equal(got, plain.stitched(shape, tiles, rule, 0.5))


def test_what_cannot_be_is_refused(tmp_path):
    flat = np.full((6, 6), 200, "u1")

    def refused(match, function=bright, tile=4, overlap=1, kind=ValueError, **kw):
        with pytest.raises(kind, match=match):
            np.asarray(bv.map_instances(flat, function, tile, overlap, **kw))

    refused("overlap=3 along y is more than half a tile of 4", overlap=3)
    refused("stitch='best'; use one of", stitch="best")
    refused("threshold=0: give a number above 0", threshold=0)
    refused("tile=0: 0 is not a whole number of at least 1", tile=0)
    refused("is not callable", function="cellpose", kind=TypeError)
    refused("labels must be integers", dtype="f4", kind=TypeError)
    refused(r"tile \[0:1, 0:4, 0:4\] .* shape \(3, 4\) of uint8; it must", function=lambda t: t[1:])
    refused("of float64; it must return labels", function=lambda t: t * 1.0)
    refused("returned the label -1; labels must be 0", function=lambda t: t.astype(int) - 201)
    with pytest.raises(ValueError, match=r"leaves for it: give the run more memory"):
        noise = np.random.default_rng(0).integers(0, 255, (1, 64, 64), "u1")
        survey = FragmentSurvey.begin
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                FragmentSurvey, "begin", lambda s, g, i, v, limit: survey(s, g, i, v, 999)
            )
            np.asarray(bv.map_instances(noise, bright, (1, 16, 16), (0, 4, 4)))
    bad = {
        "do not fit together; all must have 4": [[flat[:, :4], flat]],
        "nested as deep as blocks have axes": [flat, flat],
        "nested deeper than the 2 axes": [[[flat]]],
        "give at least one block": [],
        "differ along another axis": [[flat, flat[:4]]],
    }
    for match, blocks in bad.items():
        with pytest.raises(ValueError, match=match):
            bv.stitch(blocks, (0, 1))
    with pytest.raises(TypeError, match="labels have dtype float64"):
        bv.stitch([[flat * 0.5]], 1)
