"""Tables of label volumes by surveys and rounds, as a session runs them, against the references."""

import itertools
import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from beam_volumes.across import tables as region_tables
from beam_volumes.across.components import region_of
from beam_volumes.across.exact import RowSize, joined_size, row_size
from beam_volumes.across.rounds import cutting, floods
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.across.rounds import tables as table_rounds
from beam_volumes.across.rounds.agglomeration import SEGMENTS
from beam_volumes.across.rounds.outlines import corner_rows
from beam_volumes.across.rounds.records import RecordRows
from beam_volumes.across.rounds.tables import MEASURED_COPIES, MERGE_COPIES, table_flow
from beam_volumes.base.geometry import Box, Grid
from beam_volumes.ops.labels.outlines import OutlineSurvey
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey, RegionSurvey, Rows
from tests.across import test_adjacency as adjacencies
from tests.across import test_tables
from tests.across.groups import shuffling
from tests.tiers import examples

ROOM = 1 << 30
pytestmark = pytest.mark.usefixtures("thin_strips")


def surveyed(survey, arrays, slab, window, limit_bytes=ROOM, upper=True):
    """The summaries of all slabs, each fed its windows in memory that is used again, by some threads."""
    shape = arrays[0].shape
    grid = Grid(shape, tuple(map(min, slab, shape)))
    for index in range(len(grid)):
        core, region = region_of(grid, grid.cell(index))
        region, depth = (region if upper else core), core.shape[0]
        surveyor = survey.begin(grid, index, (), limit_bytes)
        edges = [*range(0, depth, window), depth]
        if region.shape[0] > depth:
            edges.append(depth + 1)
        memory = [np.empty((max(window, 1), *region.shape[1:]), a.dtype) for a in arrays]
        for a, b in itertools.pairwise(edges):
            z, y, x = region.start
            box = Box((z + a, y, x), (z + b, *region.stop[1:]))
            views = []
            for m, array in zip(memory, arrays, strict=True):
                m[: b - a] = array[box.slices]
                views.append(m[: b - a])
                views[-1].flags.writeable = False
            surveyor.feed(tuple(views), (a, b), 1 + (index + a) % 3)
        yield (index,), surveyor.finish()


def joined(shards):
    """All shards of a table, in order; one that comes twice counts once."""
    parts = [columns for _, columns in sorted(dict(shards).items())]
    return {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def table_by_slabs(survey, arrays, slab, window, random, **how):
    given_ = list(surveyed(survey, arrays, slab, window, upper=survey.upper))
    flow = table_flow(survey.table(arrays[0].shape), len(given_), **how)
    out = rounds.run(flow, given_, shuffling(random))
    shards = out["rows"]
    assert out["numbers"] == [((), {"shards": len(shards)})]
    assert sorted({key for key, _ in shards}) == [(i,) for i in range(len(shards))]
    return joined(shards), [len(columns) for _, columns in sorted(shards, key=lambda s: s[0])]


SLABS = st.permutations([1, 3, 5, 8]).map(lambda sizes: tuple(sizes[:3]))
#: Tiny samples, groups and shards: all paths of the merge.
HOW = st.fixed_dictionaries(
    {"rows": st.integers(1, 40), "sample": st.integers(2, 9), "radix": st.integers(2, 5)}
)


@test_tables.drawn
@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.data(), SLABS, HOW)
def test_regions(dtypes, data, slab, how):
    random, labels, intensity, _, window, spacing = data.draw(test_tables.cases(dtypes))
    dtype = None if intensity is None else intensity.dtype
    survey = RegionSurvey.of(labels.dtype, dtype, spacing=spacing)
    arrays = (labels,) if intensity is None else (labels, intensity)
    got, shards = table_by_slabs(survey, arrays, slab, window, random, **how)
    whole = region_tables.regions(labels, (0, 0, 0), labels.shape, intensity)
    expected = region_tables.properties(whole, labels.shape, spacing=spacing)
    test_tables.assert_same_bits(got, expected)
    once, again = table_by_slabs(survey, arrays, labels.shape, 3, random, **how)
    test_tables.assert_same_bits(once, expected)
    assert shards == again
    # Without a request for faces they are not counted, and planes beyond slabs are not read.
    names = [n for n in region_tables.default_properties(3, bool(dtype)) if "surface" not in n]
    survey = RegionSurvey.of(labels.dtype, dtype, names, spacing=spacing)
    assert not survey.upper
    got, _ = table_by_slabs(survey, arrays, slab, window, random, **how)
    del expected["surface_area_faces"]
    test_tables.assert_same_bits(got, expected)


@adjacencies.drawn
@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(st.data(), SLABS, HOW)
def test_adjacency(dtypes, data, slab, how):
    random, labels, boundary, _, window, value = data.draw(adjacencies.cases(dtypes))
    survey = AdjacencySurvey.of(labels.dtype, boundary.dtype, value, bins=4, range=(0, 1))
    got, _ = table_by_slabs(survey, (labels, boundary), slab, window, random, **how)
    whole = adjacencies.adj.adjacency(labels, boundary, value, survey.edges)
    expected = adjacencies.adj.columns(whole, boundary=True)
    test_tables.assert_same_bits(got, expected)


def test_shards_are_even_and_in_order():
    labels = np.random.default_rng(3).integers(0, 2**62, (12, 40, 50))
    survey = RegionSurvey.of(labels.dtype, properties=["num_pixels"])
    flow = table_flow(survey.table(labels.shape), 6, rows=1000, sample=600, radix=2)
    shards = rounds.run(flow, surveyed(survey, (labels,), (5, 30, 50), 2))["rows"]
    assert [key for key, _ in shards] == [(i,) for i in range(len(shards))]
    sizes = [len(columns["label"]) for _, columns in shards]
    assert 20 <= len(sizes) <= 28 and all(400 < n < 2500 for n in sizes)
    assert np.array_equal(joined(shards)["label"], np.unique(labels[labels > 0]))


@pytest.mark.parametrize("dtype", [None, np.float16, np.uint8])
def test_no_labels_at_all(dtype):
    labels = np.zeros((4, 5, 6), np.int32)
    survey = RegionSurvey.of(labels.dtype, dtype)
    arrays = (labels,) if dtype is None else (labels, labels.astype(dtype))
    table, shards = table_by_slabs(survey, arrays, (2, 5, 3), 1, np.random.default_rng(0))
    assert len(shards) == 1
    kind = survey.table(labels.shape)
    test_tables.assert_same_bits(table, kind.columns(kind.empty()))
    labels[1, 2, 3] = 1
    arrays = (labels, *arrays[1:])
    one, _ = table_by_slabs(survey, arrays, (2, 5, 3), 1, np.random.default_rng(0))
    assert {k: c.dtype for k, c in one.items()} == {k: c.dtype for k, c in table.items()}


def test_refused():
    labels = np.arange(8 * 9 * 10).reshape(8, 9, 10)
    survey = RegionSurvey.of(labels.dtype)
    with pytest.raises(ValueError, match=r"rows of a slab take more than the 97.7 KiB that "):
        list(surveyed(survey, (labels,), (8, 9, 10), 2, limit_bytes=100_000))
    with pytest.raises(ValueError, match=r"the label -1"):
        list(surveyed(survey, (np.where(labels == 719, -1, 1),), (4, 9, 10), 2))
    with pytest.raises(TypeError, match="labels have dtype float32"):
        RegionSurvey.of(np.float32)
    with pytest.raises(ValueError, match="no property 'volume'"):
        RegionSurvey.of(np.uint8, properties=["volume"])
    with pytest.raises(TypeError, match="boundary of complex64"):
        AdjacencySurvey.of(np.uint8, np.complex64)
    with pytest.raises(ValueError, match=r"rows of a slab take more"):
        list(surveyed(AdjacencySurvey.of(np.int64), (labels,), (8, 9, 10), 2, limit_bytes=100_000))


def test_rows_are_merged_before_a_slab_is_refused():
    labels = np.broadcast_to(np.arange(1, 401).reshape(1, 20, 20), (6, 20, 20))
    survey = RegionSurvey.of(labels.dtype)
    room = MERGE_COPIES * survey.row_bytes * 700  # for less than twice the rows
    _, surveyor = next(iter(surveyed(survey, (labels,), labels.shape, 1, limit_bytes=room)))
    assert len(surveyor) == 400


def neurons(slabs, labels=1200):
    """Parts of slabs that all have the same rows."""
    block = np.arange(1, labels + 1, dtype=np.uint32).reshape(1, 1, -1)
    for k in range(slabs):
        yield (k,), region_tables.regions(block, (k, 0, 0), (slabs, 1, labels))


def watching(flow, parts):
    """By name of round, the most rows that a step takes in; and the result."""
    taken, names = {}, iter(flow.rounds)

    def rows_of(value):
        piece = value[1] if isinstance(value, tuple) and len(value) == 2 else value
        return len(piece) if isinstance(piece, region_tables.Regions) else 0

    def watch(pairs):
        name = next(names).name
        groups = list(rounds.group_by_key(pairs))
        taken[name] = max((sum(map(rows_of, values)) for _, values in groups), default=0)
        return groups

    return taken, lambda: rounds.run(flow, parts, watch)


def test_rows_that_every_slab_has_never_meet_all_at_once():
    slabs = 40
    kind = RegionSurvey.of(np.uint32, properties=["num_pixels"]).table((slabs, 1, 1200))
    flow = table_flow(kind, slabs, rows=320, sample=10_000, radix=4)
    taken, run = watching(flow, neurons(slabs))
    shards = run()["rows"]
    assert [len(columns["label"]) for _, columns in shards] == [300] * 4
    assert (joined(shards)["num_pixels"] == slabs).all()
    merges = {name: n for name, n in taken.items() if name.startswith("gather")}
    # Bins of 20 rows, of 4 slabs or groups; 12,000 rows of each shard would meet otherwise.
    assert len(merges) == 3 and max(merges.values()) <= 4 * 20
    assert taken["shard"] <= 320


@pytest.mark.parametrize("sample", [10_000, 200])
def test_what_a_merge_will_hold_is_known_before_it_begins(sample):
    slabs, row = 40, 300
    kind = RegionSurvey.of(np.uint32, properties=["num_pixels"]).table((slabs, 1, 1200))
    how = {"rows": 320, "sample": sample, "radix": 4, "row_bytes": row}
    taken, run = watching(table_flow(kind, slabs, **how), neurons(slabs))
    run()
    most = max(n for name, n in taken.items() if name.startswith("gather") or name == "shard")
    slack = 1 if sample > 1200 else 2
    enough = MERGE_COPIES * row * most * slack
    _, run = watching(table_flow(kind, slabs, **how, limit_bytes=enough), neurons(slabs))
    run()
    few = MERGE_COPIES * row * (most - 1) // slack
    taken, run = watching(table_flow(kind, slabs, **how, limit_bytes=few), neurons(slabs))
    with pytest.raises(ValueError, match=r"needs \d+ rows in one step.*increase memory= by 1 MiB"):
        run()
    assert not any(name.startswith(("cut", "gather")) for name in taken)


#: Properties with sums of floats, and the dtype with the smallest and the largest exponents of 10.
SUMS = ["intensity_mean", "intensity_std", "centroid_weighted", "moments_weighted"]
RANGES = (("f4", -45, 18), ("f8", -320, 150))


def extreme(shape, dtype, low, high):
    rng = np.random.default_rng(0)
    return (rng.choice([-1, 1], shape) * 10.0 ** rng.uniform(low, high, shape)).astype(dtype)


def blocks_of_voxels(shape, size=4):
    z, y, x = np.indices(shape) // size
    return (1 + x + shape[2] * (y + shape[1] * z)).astype("u4")


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
def test_a_fold_of_a_large_range_needs_what_is_counted(name, dtype, low, high):
    shape = (8, 64, 128)
    labels, values = blocks_of_voxels(shape), extreme(shape, dtype, low, high)
    survey = RegionSurvey.of("u4", dtype, [name])
    how = (labels, (0, 0, 0), shape, values), {"arrays": survey.arrays, "with_faces": False}
    region_tables.regions(*how[0], **how[1])  # loads kernels
    tracemalloc.start()
    try:
        part = region_tables.regions(*how[0], **how[1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    usual = survey.fold_bytes * len(part)
    more = survey.fold_excess((np.abs(values[values != 0]).min(), np.abs(values).max()))
    needed = peak - part.nbytes
    assert needed <= usual + more * len(part)
    assert needed > usual or dtype == "f4" or name in SUMS[:2]


@pytest.mark.parametrize(("dtype", "low", "high"), RANGES)
def test_parts_of_other_exponents_are_counted_as_their_merge(dtype, low, high):
    """Each part has few digits; the merged rows have those of both."""
    shape = (4, 64, 64)
    labels, survey = blocks_of_voxels(shape), RegionSurvey.of("u4", dtype, SUMS[:3])
    parts = [
        region_tables.regions(labels, (0, 0, 0), shape, values, arrays=survey.arrays)
        for values in (extreme(shape, dtype, low, low + 2), extreme(shape, dtype, high - 2, high))
    ]
    merged = region_tables.merge(parts)
    rows = Rows(region_tables.merge, survey.row_bytes, 1 << 30)
    rows.parts = [*parts]
    rows._count()
    assert 2 * merged.nbytes < rows.bytes < 10 * merged.nbytes
    size = joined_size(map(row_size, parts))
    assert 0.9 * merged.nbytes < size.row_bytes * len(merged) < 1.2 * merged.nbytes

    kind, n = survey.table(shape), len(merged)
    summaries = [((i,), part) for i, part in enumerate(parts)]
    need = MEASURED_COPIES * 2 * n * size.row_bytes
    how = {"row_bytes": survey.row_bytes}
    rounds.run(table_flow(kind, 2, **how, limit_bytes=need), summaries)
    with pytest.raises(ValueError, match=f"needs {2 * n} rows in one step.*increase memory="):
        rounds.run(table_flow(kind, 2, **how, limit_bytes=need - 1), summaries)


#: Surveys with rows of any kind, each with the dtypes of its inputs.
KINDS = {
    "regions": (RegionSurvey.of("u4"), ()),
    "bytes": (RegionSurvey.of("u4", "u1", SUMS[:3]), ("u1",)),
    "floats": (RegionSurvey.of("u4", "f4", SUMS[:3]), ("f4",)),
    "doubles": (RegionSurvey.of("u4", "f8", SUMS[:3]), ("f8",)),
    "weighted": (RegionSurvey.of("u4", "f4", SUMS[3:]), ("f4",)),
    "pairs": (AdjacencySurvey.of("u4"), ()),
    "boundaries": (AdjacencySurvey.of("u4", "f4", bins=8, range=(0, 1)), ("f4",)),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_step_of_a_merge_needs_what_is_declared(name):
    """No more, and an eighth of the declaration would be too little."""
    survey, dtypes = KINDS[name]
    shape = (16, 128, 128)
    arrays = [(255 * np.random.default_rng(0).random(shape)).astype(d) for d in dtypes]
    labels = blocks_of_voxels(shape)
    (_, part) = next(iter(surveyed(survey, (labels, *arrays), shape, 16)))
    peak = peak_of_a_shard(survey.table(shape), part, part)
    declared = MERGE_COPIES * 2 * len(part) * survey.row_bytes
    assert declared / 8 < peak <= declared


def peak_of_a_shard(kind, *parts):
    """The bytes of a step that merges parts to the rows of a shard, with these parts."""
    step = next(r for r in table_flow(kind, len(parts)).rounds if r.name == "shard")
    values = [((0, k), part) for k, part in enumerate(parts)]
    [*step.step((0,), values[:1])]  # loads kernels
    tracemalloc.start()
    try:
        found = [*step.step((0,), values)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found) == 1
    return peak + sum(part.nbytes for part in parts)


@pytest.mark.parametrize(
    ("kind", "row_bytes"),
    [
        (SEGMENTS, cutting._ROW_BYTES),
        (RecordRows((("label", "<u8"), ("mark", "<f8"))), cutting._ROW_BYTES),
        (floods.Floods("", np.dtype("f8"), ("label", "low"), 0.0).rows, floods._ROW_BYTES),
        (corner_rows(512), OutlineSurvey.row_bytes),
        (RecordRows((("label", "<u8"), ("count", "<i8")), added=("count",)), 16),
        (RecordRows((("label", "<u8"), ("is_kept", "?"))), 9),
    ],
    ids=["segments", "marks", "levels", "corners", "sums", "masks"],
)
def test_a_step_of_a_merge_of_records_needs_what_is_declared(kind, row_bytes):
    """No more, and an eighth of the declaration would be too little; two parts have other rows."""
    numbers = np.random.default_rng(0).permutation(1 << 15)
    parts = [kind.records(dict.fromkeys(dict(kind.names), numbers[k::2])) for k in range(2)]
    declared = MERGE_COPIES * len(numbers) * row_bytes
    assert declared / 8 < peak_of_a_shard(kind, *parts) <= declared


def test_the_samples_of_many_slabs_take_little_memory():
    """With the sizes that runs have: samples of 512 slabs met at once, 700 MiB of them."""
    flow = table_flow(RegionSurvey.of(np.uint32).table((512, 1, 1)), 512)
    first = next(r for r in flow.rounds if r.name == "sample-1")
    rng = np.random.default_rng(0)

    def child(k):
        hashes = np.sort(rng.integers(0, 2**64, table_rounds.SAMPLE, np.uint64))
        sample = table_rounds.Sample(hashes, hashes)
        return k, table_rounds._Child([hashes[[0, -1]]], sample, RowSize(0, 0, ()))

    tracemalloc.start()
    try:
        above = [
            value
            for group in range(512 // table_rounds.RADIX)
            for name, _, value in first.step((group,), list(map(child, range(table_rounds.RADIX))))
            if name == "sample-2"
        ]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(above) == 16 and peak < 64 << 20


def test_edges_of_a_hub_fill_many_shards():
    """One label that touches 6,000 others: its rows are cut by the second label of a pair."""
    edges = 6000
    labels = np.full((4, 2, edges), 1, np.uint32)
    labels[:, 1] = np.arange(2, edges + 2)
    survey = AdjacencySurvey.of(labels.dtype)
    flow = table_flow(survey.table(labels.shape), 4, rows=1000, sample=4000, radix=2)
    shards = rounds.run(flow, surveyed(survey, (labels,), (1, 2, edges), 1))["rows"]
    assert max(len(columns["label_a"]) for _, columns in shards) < 2000
    whole = adjacencies.adj.columns(adjacencies.adj.adjacency(labels))
    test_tables.assert_same_bits(joined(shards), whole)


@pytest.mark.parametrize("survey", [RegionSurvey.of("u1"), AdjacencySurvey.of("u1")])
def test_windows_without_labels_leave_nothing(survey):
    """Of an empty slab nothing grows with its windows, nor with the threads that shared them."""
    grid = Grid((4000, 8, 8), (4000, 8, 8))
    surveyor = survey.begin(grid, 0, (), ROOM)
    window = np.zeros((4, 8, 8), np.uint8)
    for z in range(0, 4000, 4):
        surveyor.feed((window,), (z, z + 4), 2)
    assert len(surveyor.rows.parts) == 1 and len(surveyor.finish()) == 0
