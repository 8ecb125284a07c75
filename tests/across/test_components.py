"""Components across slabs: equal to scipy in memory, however the volume is cut."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import ndimage as ndi
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from skimage import measure

from beam_volumes.across import components as cc
from beam_volumes.across import merge as mg
from beam_volumes.across.rounds import components as component_rounds
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.kernels.labels import edges
from tests.across.driver import label_by_slabs, solve, summarise
from tests.tiers import examples, few, pairwise, thorough

BOX = ("size", "box", "touches_border")


def centrosymmetric(bits):
    half = np.array([bits >> i & 1 for i in range(13)], bool)
    return np.concatenate([half, [True], half[::-1]]).reshape(3, 3, 3)


structures = st.one_of(
    st.sampled_from([1, 2, 3]).map(cc.connectivity_structure),
    st.integers(0, 2**13 - 1).map(centrosymmetric),
)


@st.composite
def partitions(draw, most=13):
    """A shape, a slab shape, a window, a radix and a seed."""
    shape = [draw(st.integers(1, most)) for _ in range(3)]
    slab = [draw(st.one_of(st.integers(1, n), st.just(n))) for n in shape]
    if draw(st.booleans()):
        tiles = draw(st.sampled_from([(2, 2), (3, 2)]))
        slab[1:] = (-(-n // k) for n, k in zip(shape[1:], tiles, strict=True))
    window = draw(st.integers(1, shape[0] + 1))
    radix = tuple(draw(st.integers(2, 4)) for _ in range(3))
    return tuple(shape), tuple(slab), window, radix, draw(st.integers(0, 2**32 - 1))


def random_mask(shape, rng):
    mask = rng.random(shape) < rng.choice([0.05, 0.2, 0.3, 0.5, 0.7, 0.95])
    return [mask, ndi.binary_dilation(mask), ndi.binary_opening(mask)][
        rng.choice(3, p=[0.6, 0.2, 0.2])
    ]


def at_border(shape):
    """The voxels at the volume's faces."""
    inner = np.pad(np.zeros([max(0, n - 2) for n in shape], bool), 1, constant_values=True)
    return inner[tuple(slice(0, n) for n in shape)]


@settings(max_examples=examples(300))
@given(partitions(), structures)
def test_equal_to_scipy(partition, structure):
    shape, slab, window, radix, seed = partition
    mask = random_mask(shape, np.random.default_rng(seed))
    want, n = ndi.label(mask, structure)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(component_rounds, "_LAYERS", 1 + seed % 3)  # few meet in a step, or all
        got, m, _ = label_by_slabs(mask, slab, window, cc.Labelling(structure), seed, radix)
    assert m == n
    np.testing.assert_array_equal(got, want)


@thorough
@pairwise(
    tiles=[(1, 1), (2, 2), (3, 2), (1, 4)],
    cut=[(1, 1), (4, 1), (4, 3), (20, 7)],
    connectivity=[1, 2, 3],
)
def test_tiles(connectivity, tiles, cut):
    """Larger volumes, with components that touch no face, in 2 x 2, 3 x 2 and other tiles."""
    depth, window = cut
    rng = np.random.default_rng(connectivity)
    shape = (20, 33, 34)
    mask = ndi.gaussian_filter(rng.random(shape), 1) > rng.choice([0.48, 0.5, 0.54])
    structure = cc.connectivity_structure(connectivity)
    slab = (depth, -(-33 // tiles[0]), -(-34 // tiles[1]))
    want, _ = ndi.label(mask, structure)
    got, _, _ = label_by_slabs(mask, slab, window, cc.Labelling(structure), radix=(4, 4, 4))
    np.testing.assert_array_equal(got, want)
    sizes = np.bincount(want.ravel())[1:]
    kept = np.isin(np.arange(len(sizes)), np.lexsort((np.arange(len(sizes)), -sizes))[:20])
    for as_mask in (False, True):
        got, m, _ = label_by_slabs(
            mask, slab, window, cc.Labelling(structure), measures=("size",), radix=(2, 2, 2),
            dtype=bool if as_mask else "u1", k_largest=20, as_mask=as_mask,
        )  # fmt: skip
        ids = np.concatenate([[0], np.cumsum(kept) * kept])[want]
        assert m == kept.sum()
        np.testing.assert_array_equal(got, ids > 0 if as_mask else ids)


def in_raster_order(labels):
    """The same components, numbered by their first voxels."""
    found, first = np.unique(labels, return_index=True)
    order = np.argsort(first[found > 0])
    rank = np.zeros(int(labels.max()) + 1, np.int64)
    rank[found[found > 0][order]] = np.arange(1, len(order) + 1)
    return rank[labels]


@thorough
@settings(max_examples=examples(200))
@given(partitions(), structures, st.sampled_from(["u1", "u4", "f4"]), st.booleans())
def test_by_value(partition, structure, dtype, has_background):
    shape, slab, window, radix, seed = partition
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, rng.integers(2, 6), shape)
    if rng.random() < 0.5:
        labels = ndi.maximum_filter(labels, 2)
    labels = labels.astype(dtype)
    background = 1 if has_background else None
    connectivity = [None, 7, 19, 27].index(structure.sum()) if structure.sum() in (7, 19, 27) else 0
    labelling = cc.Labelling(structure, True, background)
    got, n, _ = label_by_slabs(labels, slab, window, labelling, seed, radix)
    if connectivity and (structure == cc.connectivity_structure(connectivity)).all():
        whole = labels.astype(int)
        other = -1 if background is None else background
        want = measure.label(whole, connectivity=connectivity, background=other)
        # scikit-image turns an axis of extent 1 to the front, and numbers in that order.
        np.testing.assert_array_equal(got, want if min(shape) > 1 else in_raster_order(want))
        assert n == want.max()
    # Value by value, for any structure.
    want = np.zeros(shape, np.int64)
    for value in np.unique(labels):
        if value != background:
            one, _ = ndi.label(labels == value, structure)
            want = np.where(one, one + want.max(), want)
    np.testing.assert_array_equal(got, in_raster_order(want))


@settings(max_examples=examples(40))
@given(
    st.sampled_from([1, 62, 63, 64, 65, 127, 128, 129, 200]),
    structures,
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 2**32 - 1),
)
def test_long_rows_in_strips(width, structure, by_value, threads, seed):
    """Rows are compared in words of 64 voxels, and strips of rows by several threads."""
    rng = np.random.default_rng(seed)
    rows = -(-3 * 16_384 // (4 * width)) if threads > 1 else 9
    values = rng.integers(0, 2 + by_value, (4, rows, width), np.uint8)
    values[rng.random(values.shape) < rng.choice([0.0, 0.4, 0.9])] = 1
    found = cc.Labelling(structure, by_value).find(values, threads)
    got = np.empty(values.shape, np.uint32)
    found.paint(np.arange(len(found.first) + 1, dtype=np.uint32), got)
    want = np.zeros(values.shape, np.int64)
    for value in (1, 2)[: 1 + by_value]:
        one, _ = ndi.label(values == value if by_value else values, structure)
        want = np.where(one, one + want.max(), want)
    np.testing.assert_array_equal(got, in_raster_order(want))


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u8", "f2", "f4", "f8"])
def test_dtypes_and_nan(dtype):
    """Non-zero is foreground for every dtype, NaN included."""
    values = np.random.default_rng(0).integers(0, 2, (5, 6, 7)).astype(dtype)
    if dtype.startswith("f"):
        values[values == 1] = np.random.default_rng(1).choice(
            [np.nan, -0.5, np.inf], (values == 1).sum()
        )
        values[0, 0, 0] = -0.0
    structure = cc.connectivity_structure(1)
    got, n, _ = label_by_slabs(values, (2, 3, 4), 1, cc.Labelling(structure))
    want, m = ndi.label(values != 0, structure)
    assert n == m
    np.testing.assert_array_equal(got, want)


def spiral(n):
    """Two arms of a spiral in each slice, that join only in the last."""
    mask = np.zeros((n, 15, 15), bool)
    plane = np.zeros((15, 15), bool)
    y, x, dy, dx, steps = 0, 0, 0, 1, 0
    plane[0, 0] = True
    while True:
        ny, nx = y + 2 * dy, x + 2 * dx
        if not (0 <= ny < 15 and 0 <= nx < 15) or plane[ny, nx]:
            dy, dx, steps = dx, -dy, steps + 1
            if steps > 1:
                break
            continue
        y, x, steps = y + dy, x + dx, 0
        plane[y, x] = True
    mask[:, plane] = True
    mask[:-1, 7, ::4] = False
    return mask


def comb(n):
    """Teeth along z that are one component only by the last slice."""
    mask = np.zeros((n, 9, 11), bool)
    mask[:, ::2, ::2] = True
    mask[-1] = True
    return mask


def serpent(n):
    """One line of voxels that passes through every slab many times."""
    mask = np.zeros((n, 7, 9), bool)
    mask[:, ::2, ::2] = True
    mask[-1, :, ::4] = True
    mask[0, 0, 2::4] = mask[0, 6, 2::4] = True
    mask[0, ::6, :] = True
    return mask


checkerboard = np.indices((6, 7, 8)).sum(0) % 2 == 0
lines = np.zeros((6, 7, 8), bool)
lines[::2, ::2] = True
ADVERSARIAL = {
    "spiral": spiral(6),
    "comb": comb(6),
    "serpent": serpent(6),
    "checkerboard": checkerboard,
    "foreground": np.ones((6, 7, 8), bool),
    "background": np.zeros((6, 7, 8), bool),
    "lines along x": lines,
    "lines along y": np.ascontiguousarray(lines.transpose(0, 2, 1)),
    "lines along z": np.ascontiguousarray(lines.transpose(2, 0, 1)),
    "one voxel": np.ones((1, 1, 1), bool),
}


ALWAYS = [((1, 99, 99), 1), ((1, 99, 99), 3), ((2, 4, 3), 1), ((2, 4, 3), 3)]
AT_TIMES = [((1, 1, 1), 3), ((99, 4, 4), 1), ((5, 99, 99), 3)]


@pytest.mark.parametrize("name", ADVERSARIAL)
@pytest.mark.parametrize("cut", few(ALWAYS + AT_TIMES, ALWAYS), ids=str)
def test_adversarial(name, cut):
    mask, (slab, connectivity) = ADVERSARIAL[name], cut
    structure = cc.connectivity_structure(connectivity)
    slab = tuple(min(s, n) for s, n in zip(slab, mask.shape, strict=True))
    got, n, _ = label_by_slabs(mask, slab, 2, cc.Labelling(structure), radix=(4, 4, 4))
    want, m = ndi.label(mask, structure)
    assert n == m
    np.testing.assert_array_equal(got, want)


@settings(max_examples=examples(60))
@given(partitions(), st.sampled_from([1, 2, 3]))
@example(((1, 1, 1), (1, 1, 1), 1, (2, 2, 2), 0), 1)
def test_payload(partition, connectivity):
    """Sizes, boxes, borders and marks ride along; each voxel counts once."""
    shape, slab, window, radix, seed = partition
    rng = np.random.default_rng(seed)
    mask, seeds = random_mask(shape, rng), rng.random(shape) < 0.1
    structure = cc.connectivity_structure(connectivity)
    labelling = cc.Labelling(structure)
    _, n, slabs = label_by_slabs(
        mask, slab, window, labelling, seed, radix, measures=BOX, seeds=seeds, columns=True
    )
    ids = np.concatenate([np.empty(0, np.uint64), *(ids for ids, _ in slabs)])
    np.testing.assert_array_equal(np.sort(ids), np.arange(1, n + 1))
    want, m = ndi.label(mask, structure)
    assert n == m
    if not n:
        return
    order = np.argsort(ids)
    got = {k: np.concatenate([p[k] for _, p in slabs])[order] for k in slabs[0][1]}
    boxes = ndi.find_objects(want)
    np.testing.assert_array_equal(got["size"], np.bincount(want.ravel())[1:])
    np.testing.assert_array_equal(got["lower"], [[s.start for s in b] for b in boxes])
    np.testing.assert_array_equal(got["upper"], [[s.stop for s in b] for b in boxes])
    border = np.isin(np.arange(1, n + 1), want[at_border(shape)])
    np.testing.assert_array_equal(got["touches_border"], border)
    np.testing.assert_array_equal(got["marked"], np.isin(np.arange(1, n + 1), want[seeds]))


KINDS = ["size", "k largest", "k largest of some", "touches border", "marked"]


@thorough
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(100))
@given(partitions(), structures, st.integers(1, 4), st.booleans())
def test_filters(kind, partition, structure, k, as_mask):
    """Only components that are kept have an id; ids are 1..n over them, or True."""
    shape, slab, window, radix, seed = partition
    rng = np.random.default_rng(seed)
    mask = random_mask(shape, rng)
    seeds = rng.random(shape) < 0.1 if kind == "marked" else None
    whole, n = ndi.label(mask, structure)
    sizes = np.bincount(whole.ravel(), minlength=n + 1)[1:]
    border = np.isin(np.arange(1, n + 1), whole[at_border(shape)])
    by_size = np.lexsort((np.arange(n), -sizes))
    cases = {
        "size": (
            {"keep": mg.Keep(min_size=k, max_size=4 * k)},
            (sizes >= k) & (sizes <= 4 * k),
        ),
        "k largest": ({"k_largest": k}, np.isin(np.arange(n), by_size[:k])),
        "k largest of some": (
            {"k_largest": k, "keep": mg.Keep(touches_border=False)},
            np.isin(np.arange(n), [c for c in by_size if not border[c]][:k]),
        ),
        "touches border": ({"keep": mg.Keep(touches_border=k % 2 == 0)}, border == (k % 2 == 0)),
        "marked": (
            {"keep": mg.Keep(marked=True)},
            np.isin(np.arange(1, n + 1), whole[seeds]),
        ),
    }
    options, kept = cases[kind]
    want = np.concatenate([[0], np.cumsum(kept) * kept])[whole]
    got, m, _ = label_by_slabs(
        mask, slab, window, cc.Labelling(structure), seed, radix, BOX, seeds,
        dtype=bool if as_mask else np.uint32, as_mask=as_mask, **options,
    )  # fmt: skip
    assert m == kept.sum()
    np.testing.assert_array_equal(got, want > 0 if as_mask else want)


def test_a_slab_keeps_what_begins_in_it_and_not_pieces_of_every_window(monkeypatch):
    monkeypatch.setattr(cc, "_MERGED_AT", 10)
    columns = np.indices((1, 12, 12)).sum(0) % 2 == 0
    mask = np.repeat(columns, 40, 0)
    mask[20] = 0  # all end, and as many begin
    mask[39] = 1  # where the later ones meet
    grid, labelling = Grid(mask.shape, (20, 12, 12)), cc.Labelling(cc.connectivity_structure(1))
    read = lambda box: mask[box.slices]  # noqa: E731
    below, above = (
        summarise(read, grid, (z, 0, 0), 1, labelling, ("size", "box")) for z in range(2)
    )
    n = int(columns.sum())
    assert [len(w) for w in below.windows] == [n] + 20 * [0]
    assert [len(w) for w in above.windows] == [0, n] + 18 * [0]
    assert len(below.ids) == n and len(above.ids) == 1
    assert below.payload["size"].tolist() == n * [20]
    assert above.payload["size"].tolist() == [18 * n + 144]
    assert above.payload["lower"].tolist() == [[21, 0, 0]]
    assert above.payload["upper"].tolist() == [[40, 12, 12]]
    out, count, _ = label_by_slabs(mask, (20, 12, 12), 1, labelling)
    want, found = ndi.label(mask)
    assert count == found
    np.testing.assert_array_equal(out, want)


def test_extra_columns():
    """Any column rides along with its own rule."""
    rng = np.random.default_rng(0)
    mask = rng.random((6, 8, 8)) < 0.4
    labelling, grid = cc.Labelling(cc.connectivity_structure(1)), Grid(mask.shape, (2, 4, 8))
    rules = cc.RULES | {"rows": np.add}

    summaries = []
    for cell in itertools.product(*map(range, grid.counts)):
        core, region = cc.region_of(grid, cell)
        labeler = cc.SlabLabeler(grid, cell, labelling, rules=rules)
        for z in range(region.start[0], region.stop[0]):
            block = mask[z : z + 1, region.start[1] : region.stop[1]]
            ny, is_core = core.shape[1], z < core.stop[0]

            def counted(found, ny=ny, is_core=is_core):
                row = np.repeat(np.arange(len(found.offsets) - 1), np.diff(found.offsets))
                count = np.zeros(len(found.first), np.int64)
                chosen = (row < ny) & is_core & (found.starts == 0)
                np.add.at(count, found.labels[chosen] - 1, 1)
                return {"rows": count}

            labeler.feed(block, extra=counted)
        summaries.append(labeler.finish())
    _, _, slabs = solve(summaries, grid, rng, radix=(2, 2, 2), rules=rules, columns=True)
    ids = np.concatenate([ids for ids, _ in slabs])
    got = np.concatenate([payload["rows"] for _, payload in slabs])[np.argsort(ids)]
    want = ndi.label(mask)[0]
    np.testing.assert_array_equal(
        got, np.bincount(want[:, :, 0].ravel(), minlength=want.max() + 1)[1:]
    )


class TestHuge:
    """A volume of 3000 x 70000 x 70000 voxels, almost empty: ids cross 2**32."""

    shape = (3000, 70000, 70000)

    def test_ids(self):
        """A few tiny slabs of a huge volume: provisional ids are linear indices."""
        grid = Grid(self.shape, (2, 4, 4))
        labelling = cc.Labelling(cc.connectivity_structure(3))
        corner = (1499, 17499, 17499)
        below = (1498, 17499, 17499)
        for cell in (corner, below):
            start = cc.region_of(grid, cell)[0].start
            ones = lambda box: np.ones(box.shape, bool)  # noqa: E731
            summary = summarise(ones, grid, cell, 1, labelling, BOX)
            z, y, x = start
            assert summary.ids.tolist() == [(z * 70000 + y) * 70000 + x]
            assert summary.ids.dtype == np.uint64 and summary.ids[0] > 2**32
            assert summary.payload["lower"].tolist() == [list(start)]
            assert summary.payload["upper"].tolist() == [[z + 2, y + 4, x + 4]]

    def test_merge(self):
        """Single voxels, on and off the shared planes of slabs of 1.2e12 voxels."""
        step = (1000, 35000, 35000)
        grid = Grid(self.shape, step)
        rng = np.random.default_rng(0)
        tree_cells = list(itertools.product(*map(range, grid.counts)))
        voxels = np.concatenate([rng.integers(0, self.shape, (200, 3)) for _ in range(2)])
        voxels[:60, 0] = rng.choice([0, 999, 1000, 1001, 2000, 2999], 60)
        voxels[30:90, 1] = rng.choice([34999, 35000, 0, 69999], 60)
        voxels[60:120, 2] = rng.choice([34999, 35000, 0, 69999], 60)
        ids = np.unique(np.ravel_multi_index(voxels.T, self.shape))
        voxels = np.stack(np.unravel_index(ids, self.shape), 1)
        summaries = []
        for cell in tree_cells:
            core, region = cc.region_of(grid, cell)
            inside = ((voxels >= region.start) & (voxels < region.stop)).all(1)
            own, where = ids[inside], voxels[inside]
            interfaces = {}
            for axis in range(3):
                above = [c + (a == axis) for a, c in enumerate(cell)]
                planes = []
                if cell[axis]:
                    planes.append(((axis, *cell), region.start[axis]))
                if region.stop[axis] > core.stop[axis]:
                    planes.append(((axis, *above), region.stop[axis] - 1))
                for key, plane in planes:
                    interfaces[key] = cc.Interface(np.flatnonzero(where[:, axis] == plane), 0)
            windows = (np.arange(len(own), dtype=np.int32),)
            summaries.append(
                cc.SlabSummary(cell, own.astype(np.uint64), {}, interfaces, windows, (0,))
            )
        got, n, _ = solve(summaries, grid, rng)
        assert n == len(ids)
        for summary in summaries:
            want = np.searchsorted(ids, summary.ids) + 1
            np.testing.assert_array_equal(got[summary.cell][0][0], want)


def test_rounds():
    """As few as the grid needs: each costs a runner something."""
    names = lambda counts, **how: [  # noqa: E731
        r.name for r in component_flow(Grid(counts, (1, 1, 1)), **how).rounds
    ]
    assert names((1, 1, 1)) == ["slabs"]
    assert names((9, 1, 1)) == ["slabs", "merge-1", "roots", "layers", "ranks", "down-1", "down-0"]
    assert names((9, 1, 1), as_mask=True, k_largest=3) == ["slabs", "merge-1", "down-0"]
    assert names((1, 2, 3)) == [
        "slabs", "merge-1", "roots", "tiles", "bands", "ranks", "down-1", "down-0"
    ]  # fmt: skip
    assert len(names((1000, 1, 1))) == 1 + 3 + 3 + 4
    # No step takes in all layers.
    assert len(names((100_000, 1, 1))) == 1 + 5 + 5 + 6


class TestRefusals:
    def labelling(self):
        return cc.Labelling(cc.connectivity_structure(1))

    def test_connectivity(self):
        with pytest.raises(ValueError, match="give 1 to 3"):
            cc.connectivity_structure(4)

    def test_structure(self):
        with pytest.raises(ValueError, match="symmetric about its centre"):
            cc.Labelling(np.indices((3, 3, 3)).sum(0) < 3)

    def test_window(self):
        labeler = cc.SlabLabeler(Grid((4, 4, 4), (4, 4, 4)), (0, 0, 0), self.labelling())
        with pytest.raises(ValueError, match="does not fit"):
            labeler.feed(np.ones((5, 4, 4)))
        with pytest.raises(ValueError, match="0 slices of 4"):
            labeler.finish()

    def test_second_sweep_differs(self):
        found = self.labelling().find(np.ones((2, 2, 2), bool))
        other = np.ones((2, 2, 2), bool)
        other[1, 1, 1] = False
        relabeler = cc.SlabRelabeler(self.labelling(), [np.array([7])], [found.digest()])
        with pytest.raises(ValueError, match="differ from the first sweep"):
            relabeler.feed(other)

    @pytest.mark.parametrize("depth", [2, 8])
    def test_dtype(self, depth):
        mask = np.zeros((8, 16, 16), bool)
        mask[::2, ::2, ::2] = True
        with pytest.raises(ValueError, match=r"256 components, but uint8 .* dtype='uint16'"):
            label_by_slabs(mask, (depth, 16, 16), 2, self.labelling(), dtype="u1")
        with pytest.raises(TypeError, match="integer dtype"):
            component_flow(Grid((1, 1, 1), (1, 1, 1)), dtype=float)

    def test_neighbours_are_missing(self):
        grid, tree = Grid((4, 4, 4), (2, 4, 4)), mg.Tree((2, 1, 1))
        ones = lambda b: np.ones(b.shape)  # noqa: E731
        up = mg.leaf(summarise(ones, grid, (0, 0, 0), 2, self.labelling()))[0]
        with pytest.raises(ValueError, match="are missing, or"):
            mg.merge(tree, (1, 0, 0, 0), [up])

    @pytest.mark.parametrize("axis", range(3))
    @pytest.mark.parametrize("by_value", [False, True])
    @given(st.integers(0, 2**32))
    def test_neighbours_that_see_another_plane_are_not_merged(self, axis, by_value, seed):
        """Any voxel counts, also where first voxels are the same; slabs may have other windows."""
        rng = np.random.default_rng(seed)
        structure = cc.connectivity_structure(int(rng.integers(1, 4)))
        background = rng.choice([0, 1, None]) if by_value else 0
        labelling = cc.Labelling(structure, by_value, background)
        shape = [4, 5, 6]
        step = [-(-n // 2) if a == axis else n for a, n in enumerate(shape)]
        grid = Grid(tuple(shape), tuple(step))
        voxels = rng.choice(np.array([0, 1, 2], rng.choice(["u1", "i8", "f4"])), shape)
        other = voxels.copy()
        plane = np.moveaxis(other, axis, 0)[step[axis]]
        at = tuple(rng.integers(0, n) for n in plane.shape)
        plane[at] = (plane[at] + rng.integers(0, 3)) % 3
        ups = []
        for above, volume in enumerate((voxels, other)):
            cell = tuple(above * (a == axis) for a in range(3))
            width = int(rng.integers(1, 5))
            read = lambda b, v=volume: v[b.slices]  # noqa: E731
            ups.append(mg.leaf(summarise(read, grid, cell, width, labelling))[0])
        tree = mg.Tree(grid.counts)
        same = np.array_equal(voxels, other) if by_value else ((voxels != 0) == (other != 0)).all()
        if same:
            mg.merge(tree, (1, 0, 0, 0), ups)
            return
        with pytest.raises(ValueError, match="have different voxels"):
            mg.merge(tree, (1, 0, 0, 0), ups)


def test_label_in_memory():
    mask = np.random.default_rng(0).random((9, 10, 11)) < 0.4
    for c in (1, 2, 3):
        labels, n = cc.Labelling(cc.connectivity_structure(c)).label(mask)
        want, m = ndi.label(mask, cc.connectivity_structure(c))
        assert n == m and labels.dtype == np.uint32
        np.testing.assert_array_equal(labels, want)


@pytest.mark.parametrize("kind", ["mask", "values", "all values"])
@settings(max_examples=examples(40))
@given(
    st.sampled_from([(1, 1000, 90), (90000, 1, 1), (40, 47, 48), (2, 2, 23000), (300, 300, 1)]),
    structures,
    st.integers(0, 2**32),
)
def test_threads_find_the_same_components(kind, shape, structure, seed):
    """Rows are shared out wherever that cuts a slice: numbers, runs and digests do not know."""
    rng = np.random.default_rng(seed)
    mask = random_mask(shape, rng)
    labelling = cc.Labelling(structure)
    if kind != "mask":
        mask = rng.integers(0, 3, shape, np.uint8) * mask
        labelling = cc.Labelling(structure, True, 0 if kind == "values" else None)
    alone, together = labelling.find(mask), labelling.find(mask, int(rng.integers(2, 6)))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
    assert alone.digest() == together.digest(threads=3)
    out = np.full((2, *shape), 99, np.uint32)
    for labels, threads in zip(out, (1, 4), strict=True):
        table = np.arange(len(alone.first) + 1, dtype=np.uint32)
        alone.paint(table, labels, threads)
    np.testing.assert_array_equal(*out)
    if kind == "mask":
        np.testing.assert_array_equal(out[0], ndi.label(mask, structure)[0])


@pytest.mark.parametrize("shape", [(7, 23, 311), (41, 40, 30), (90_001, 1, 1)])
@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("share", [0, 0.6, 1])
def test_threads_find_the_same_components_of_edges(shape, threads, share):
    """Strips of different heights, and codes of noise in which each strip has other numbers of runs."""
    rng = np.random.default_rng(threads)
    edge = rng.random((3, *shape)) < np.linspace(0, 0.9, shape[0])[:, None, None]
    inside = rng.random(shape) < share
    codes = np.where(inside, edges.INSIDE, np.uint8(0))
    for axis, bit in enumerate((edges.ACROSS_Z, edges.ACROSS_Y, edges.ACROSS_X)):
        edge[axis] &= inside & np.roll(inside, 1, axis)
        edge[axis].swapaxes(0, axis)[0] = False
        codes |= bit * edge[axis]
    labelling = cc.EdgeLabelling()
    alone, together = labelling.find(codes), labelling.find(codes, threads)
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)
    index = np.arange(codes.size).reshape(shape)
    pairs = [(index[found], np.roll(index, 1, axis)[found]) for axis, found in enumerate(edge)]
    first, second = (np.concatenate(side) for side in zip(*pairs, strict=True))
    graph = coo_array((np.ones(len(first), bool), (first, second)), shape=(codes.size,) * 2)
    outside = np.count_nonzero(~inside)
    assert len(alone.first) == connected_components(graph, directed=False)[0] - outside


def test_background_that_the_dtype_lacks():
    values = np.zeros((2, 3, 4), np.uint8)
    labelling = cc.Labelling(cc.connectivity_structure(1), by_value=True, background=-1)
    assert labelling.label(values)[1] == 1


def test_digest_of_values():
    """The same runs and values with other connections are different."""
    labelling = cc.Labelling(cc.connectivity_structure(1), by_value=True, background=None)
    a, b = np.array([[[1, 2]], [[1, 3]]]), np.array([[[1, 2]], [[3, 2]]])
    assert labelling.find(a).digest() != labelling.find(b).digest()


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "u4", "i8", "f2", "f4", "f8"])
def test_digests_tell_any_voxel_and_add_up(dtype):
    """Of all blocks of six voxels, each with three rows of two, no two have one digest."""
    every = np.array(list(itertools.product((0, 1), repeat=6))).astype(dtype).reshape(-1, 3, 1, 2)
    for by_value in (False, True):
        for structure in (cc.connectivity_structure(2), np.zeros((3, 3, 3))):
            labelling = cc.Labelling(structure, by_value, None if by_value else 0)
            digests = [labelling.find(block).digest() for block in every]
            assert len(set(digests)) == len(every)
            for block, whole in zip(every, digests, strict=True):
                lower, upper = labelling.find(block[:1]), labelling.find(block[1:])
                assert (lower.digest() + upper.digest(row=1)) % 2**64 == whole
    wide = np.zeros((1, 1, 3), dtype)
    assert labelling.find(wide).digest() != labelling.find(wide[:, :, :2]).digest()


def test_regions():
    grid = Grid((5, 6, 7), (2, 6, 4))
    assert cc.region_of(grid, (0, 0, 0)) == (Box((0, 0, 0), (2, 6, 4)), Box((0, 0, 0), (3, 6, 5)))
    assert cc.region_of(grid, (2, 0, 1)) == (Box((4, 0, 4), (5, 6, 7)),) * 2


@pytest.mark.parametrize(
    ("shape", "step"),
    [
        ((9, 8, 7), (4, 3, 2)),
        ((9, 8, 7), (2, 8, 7)),
        ((2**12, 2**10, 2**10), (2**12, 2**10, 2**10)),  # the last voxel has the largest uint32
        ((2**12, 2**10, 2**10), (2**12 - 1, 2**10, 2**10)),
        ((2**14, 2**10, 2**10), (100, 2**10, 300)),
    ],
)
def test_roots_by_their_slabs(shape, step):
    grid, size = Grid(shape, step), np.prod(shape)
    assert cc.are_wide(grid) == (size > 2**32)
    dtype = np.uint64 if cc.are_wide(grid) else np.uint32
    some = np.random.default_rng(0).integers(0, size, 200)
    roots = np.unique(np.concatenate([some, [0, size - 1]])).astype(dtype)
    slabs = np.stack(np.unravel_index(roots.astype(np.int64), shape), 1) // step
    closed = mg.Closed((0, 0, 0, 0), roots, {"size": np.arange(len(roots))})
    found = mg.by_slab(closed, grid)
    assert found.keys() == set(map(tuple, slabs.tolist()))
    for cell, part in found.items():
        (own,) = np.nonzero((slabs == cell).all(axis=1))
        assert part.payload["size"].tolist() == own.tolist()
        assert part.roots.tolist() == roots[own].tolist()
    answers = {cell: part.roots for cell, part in found.items()}
    assert mg.collect(roots, grid, answers).tolist() == roots.tolist()
    assert mg.by_slab(mg.Closed((0, 0, 0, 0), roots[:0], {}), grid) == {}


def test_pieces_that_are_united_are_kept_once():
    """A slab keeps as much of each component as of any other, however many windows its pieces begin in."""
    z, x = np.indices((200, 4000))
    comb = (x % 2 == 0) & (z % 8 > x // 2 % 6)  # teeth that begin one after the other
    mask = comb | (z % 8 == 7)  # and are joined in every eighth slice
    grid = Grid((200, 1, 4000), (200, 1, 4000))
    labeler = cc.SlabLabeler(grid, (0, 0, 0), cc.Labelling(cc.connectivity_structure(1)), ("size",))
    for k in range(200):
        labeler.feed(mask[k : k + 1, None])
    assert sum(map(len, labeler._first)) == 50_000 and labeler.pieces < 10_000
    labeler.merge()
    expected, count = ndi.label(mask)
    assert labeler.pieces == count
    summary = labeler.finish()
    assert summary.payload["size"].tolist() == np.bincount(expected.ravel())[1:].tolist()
    first = np.unique(expected, return_index=True)[1][1:]
    assert summary.ids.tolist() == first.tolist()
