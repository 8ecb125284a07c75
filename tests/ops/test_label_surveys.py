"""Label volumes relabelled and filtered by key, as a session runs it, against numpy on all labels."""

import tracemalloc

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from beam_volumes.across.merge import Keep
from beam_volumes.across.rounds import flow as rounds
from beam_volumes.across.rounds import lookup as lookup_rounds
from beam_volumes.across.rounds.lookup import Tally, add, filter_flow, lookup_flow
from beam_volumes.base.geometry import Grid
from beam_volumes.kernels.labels.lookup import indexed
from beam_volumes.ops.labels.surveys.label_surveys import (
    FilterSurvey,
    Lookup,
    LookupCompletion,
    LookupSurvey,
)
from beam_volumes.ops.labels.surveys.mappings import ParquetMapping
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.place import Place
from beam_volumes.sweep.stage import Block
from tests.across.groups import shuffling
from tests.ops.array_mapping import ArrayMapping
from tests.ops.test_table_surveys import SLABS, surveyed
from tests.tiers import examples

pytestmark = pytest.mark.usefixtures("thin_strips")


def block_of(array):
    return Block(array, np.arange(len(array)), 0, 0, *array.shape[1:])


def by_slabs(survey, flow, labels, slab, window, random, dtype, again=None):
    """Both sweeps and the merge between them: the voxels, and the numbers; the second may see others."""
    out = rounds.run(
        flow, list(surveyed(survey, (labels,), slab, window, upper=False)), shuffling(random)
    )
    answers = dict(out["answers"])
    grid = Grid(labels.shape, tuple(map(min, slab, labels.shape)))
    assert sorted(answers) == [(i,) for i in range(len(grid))]
    result = np.empty(labels.shape, dtype)
    labels = labels if again is None else again
    completion = LookupCompletion(survey.name, np.dtype(dtype))
    for i, box in enumerate(grid):
        completer = completion.begin(grid, i, answers[i,])
        for a in range(0, box.shape[0], window):
            b = min(a + window, box.shape[0])
            here = box.slices
            piece = np.empty((b - a, *box.shape[1:]), dtype)
            core = labels[here][a:b]
            completer.run((core,), block_of(piece), (a, b), 2)
            result[here][a:b] = piece
    return result, dict(out.get("numbers", ())).get(())


@st.composite
def volumes(draw):
    shape = tuple(draw(st.integers(1, 11)) for _ in range(3))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = np.concatenate([[0], random.choice(2**50, 12, replace=False) + 1])
    labels = random.integers(0, draw(st.integers(1, 13)), shape)
    labels *= random.random(shape) < draw(st.sampled_from([0.05, 0.5, 1]))
    dtype = draw(st.sampled_from([np.uint32, np.int64, np.uint64]))
    labels = names[labels] if np.dtype(dtype).itemsize == 8 else labels
    return random, labels.astype(dtype), draw(st.integers(1, 4))


#: So many buckets, or as many as labels that were counted first have need of.
BUCKETS = st.one_of(
    st.fixed_dictionaries({"buckets": st.integers(1, 5)}),
    st.just({"voxels": 10**12, "limit_bytes": 3 * lookup_rounds.LABEL_BYTES}),
)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(volumes(), SLABS, st.sampled_from(["error", "keep", 7]), BUCKETS)
def test_relabel(volume, slab, missing, buckets):
    random, labels, window = volume
    old = np.unique(labels)
    if missing != "error":
        old = old[random.random(len(old)) < 0.6]
    elif random.random() < 0.5:
        old = old[old > 0]
    new = random.integers(0, 2**62, len(old)).astype(np.uint64)
    flat = dict(zip(old.tolist(), new.tolist(), strict=True))

    def value(label):
        if label == 0:
            return flat.get(0, 0)
        return (
            flat[label]
            if missing == "error"
            else flat.get(label, label if missing == "keep" else 7)
        )

    expected = np.array([value(v) for v in labels.ravel().tolist()], np.uint64).reshape(
        labels.shape
    )
    order = random.permutation(len(old))
    mapping = ArrayMapping.of((old[order], new[order]))
    survey = LookupSurvey.of(labels.dtype, mapping, missing)
    flow = lookup_flow(mapping, survey.dtype, missing, **buckets)
    got, _ = by_slabs(survey, flow, labels, slab, window, random, np.uint64)
    assert np.array_equal(got, expected)
    stage = Lookup.of(labels.dtype, (old[order], new[order]), missing)
    out = np.empty(labels.shape, np.uint64)
    stage.run((block_of(labels),), block_of(out), 0, labels.shape[1], ())
    assert np.array_equal(out, expected)


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(
    volumes(),
    SLABS,
    st.sampled_from([None, 1, 2, 5]),
    st.sampled_from([Keep(), Keep(min_size=9), Keep(max_size=20), Keep(touches_border=False)]),
    st.sampled_from([(0, 1, 2), (1, 2)]),
    st.integers(1, 2),
    BUCKETS,
)
def test_filter(volume, slab, k, keep, axes, border, buckets):
    random, labels, window = volume
    found, counts = np.unique(labels[labels > 0], return_counts=True)
    inner = tuple(
        slice(border, n - border) if a in axes else slice(None) for a, n in enumerate(labels.shape)
    )
    outside = np.ones(labels.shape, bool)
    outside[inner] = False
    kept = np.ones(len(found), bool)
    if keep.min_size is not None:
        kept &= counts >= keep.min_size
    if keep.max_size is not None:
        kept &= counts <= keep.max_size
    if keep.touches_border is not None:
        kept &= ~np.isin(found, labels[outside])
    if k is not None:
        largest = np.lexsort((found, -counts))[:k]
        kept &= np.isin(np.arange(len(found)), largest)
    survey = FilterSurvey.of(labels.dtype, keep, k, axes, border)
    flow = filter_flow(keep, k, **buckets)
    got, numbers = by_slabs(survey, flow, labels, slab, window, random, labels.dtype)
    assert np.array_equal(got, np.where(np.isin(labels, found[kept]), labels, 0))
    assert numbers == {"count": kept.sum()}


def test_a_mapping_in_parquet(tmp_path):
    random = np.random.default_rng(0)
    old = random.permutation(5000).astype(np.uint64)
    sink = TableSink.of(tmp_path / "map.parquet")
    sink.create("run")
    for i in range(5):
        part = old[i * 1000 : (i + 1) * 1000]
        sink.write(i, {"label": part, "neuron": (part // 10).astype(np.int32)})
    sink.finish(5)
    mapping = ParquetMapping.of(tmp_path / "map.parquet")
    assert (mapping.rows, mapping.dtype, len(mapping.parts())) == (5000, np.int32, 5)
    labels = random.integers(0, 5000, (9, 10, 11)).astype(np.uint16)
    survey = LookupSurvey.of(labels.dtype, mapping)
    flow = lookup_flow(mapping, buckets=3)
    got, _ = by_slabs(survey, flow, labels, (5, 10, 6), 2, random, np.int32)
    assert np.array_equal(got, labels // 10)
    assert survey.token() == LookupSurvey.of(labels.dtype, mapping).token()
    with open(tmp_path / "map.parquet" / "part-00003.parquet", "rb") as part:
        Place.of("memory://maps/").write("m.parquet", part.read())
    elsewhere = ParquetMapping.of("memory://maps/m.parquet", ("neuron", "label"))
    again = [a.tolist() for a in elsewhere.read((0, 0))]
    assert again == [a.tolist() for a in mapping.read((3, 0))[::-1]]
    with pytest.raises(ValueError, match="columns label, neuron; give the columns"):
        ParquetMapping.of(tmp_path / "map.parquet", ("label", "cell"))


def test_refused():
    random = np.random.default_rng(0)
    labels = np.full((2, 3, 4), 5, np.uint32)
    mapping = ArrayMapping.of({1: 2})
    survey = LookupSurvey.of(labels.dtype, mapping)
    with pytest.raises(ValueError, match="no value for label 5"):
        by_slabs(
            survey, survey.flow(Grid((2, 3, 4), (2, 3, 4))), labels, (2, 3, 4), 1, random, np.int64
        )
    twice = ArrayMapping.of(([5, 5], [1, 2]))
    with pytest.raises(ValueError, match="label 5 with two values, 1 and 2"):
        by_slabs(
            LookupSurvey.of(labels.dtype, twice),
            lookup_flow(twice),
            labels,
            (2, 3, 4),
            1,
            random,
            int,
        )
    with pytest.raises(ValueError, match="value 300 does not fit uint8"):
        Lookup.of(labels.dtype, {5: 300}, dtype=np.uint8)
    with pytest.raises(ValueError, match="missing='drop'"):
        Lookup.of(labels.dtype, {5: 300}, "drop")
    completer = LookupCompletion("relabel", np.dtype(int)).begin(
        Grid((2, 3, 4), (2, 3, 4)), 0, (np.array([0, 4], np.uint64), np.array([0, 1]), (0,))
    )
    with pytest.raises(ValueError, match="label 5 did not exist in the first sweep"):
        completer.run((labels,), block_of(np.empty(labels.shape, int)), (0, 2), 1)


def test_a_bucket_holds_no_more_labels_than_there_is_room_for():
    """Where there may be more than fixed buckets take: as many buckets as were counted to be needed."""
    slabs, each = 5, 4000
    limit_bytes = 500 * lookup_rounds.LABEL_BYTES
    flow = filter_flow(Keep(), voxels=10**12, limit_bytes=limit_bytes)
    assert len(filter_flow(Keep(), voxels=10**6).rounds) < len(flow.rounds)
    held = []

    def watched(pairs):
        groups = rounds.group_by_key(pairs)
        asks = [[v.tally for v in values if hasattr(v, "tally")] for _, values in groups]
        held.extend(sum(map(len, tallies)) for tallies in asks)
        return groups

    def tally(slab):
        labels = np.arange(1 + slab * each // 2, 1 + slab * each // 2 + each, dtype=np.uint64)
        return Tally(labels, np.ones(each, np.int64), np.zeros(each, bool))

    out = rounds.run(flow, [((k,), tally(k)) for k in range(slabs)], watched)
    assert out["numbers"] == [((), {"count": (slabs + 1) * each // 2})]
    assert 400 < max(held) < 650  # labels are spread by their hash
    for (slab,), (labels, kept, _) in out["answers"]:
        assert np.array_equal(labels, tally(slab).labels) and kept.all()


@settings(max_examples=examples(40))
@given(volumes(), SLABS)
def test_a_second_sweep_that_sees_another_voxel_stops(volume, slab):
    """Also where the label that is there instead has a value, or stays."""
    random, labels, window = volume
    other = labels.copy()
    at = tuple(random.integers(0, n) for n in labels.shape)
    others = np.unique(labels[labels != labels[at]])
    other[at] = random.choice(others) if len(others) else labels[at] == 0
    filtering = FilterSurvey.of(labels.dtype, Keep(min_size=2))
    old = np.unique(labels)
    looking = LookupSurvey.of(labels.dtype, ArrayMapping.of((old, old)), "keep")
    for survey, dtype in ((filtering, labels.dtype), (looking, looking.dtype)):
        flow = survey.flow(Grid(labels.shape, slab))
        with pytest.raises(ValueError, match="first sweep"):
            by_slabs(survey, flow, labels, slab, window, random, dtype, other)


@pytest.mark.parametrize("what", ["tallies", "window", "answers", "mapping"])
def test_labels_need_what_is_declared(what):
    """No more, and with an eighth of the bytes of a label the declaration would be too small."""
    count, shape = 8_193, (1, 7_193, 4)  # the tables have just doubled
    survey = FilterSurvey.of("u8", voxels_per_label=4)
    completion = LookupCompletion("", np.dtype("u8"), voxels_per_given=4)
    grid, names = Grid(shape, shape), np.arange(1, count + 1, dtype=np.uint64)
    labels = np.resize(names, shape)

    def tallies():
        parts = np.split(names.copy(), [count // 2])
        add(Tally(a, np.ones(len(a), np.int64), np.ones(len(a), bool)) for a in parts)

    lookup = Lookup.of("u8", (names, names))
    work, declared = {
        "tallies": (tallies, survey.likely_bytes(shape, 1)),
        "window": (
            lambda: survey.begin(grid, 0, (), 1 << 30).feed((labels,), (0, 1)),
            survey.working_bytes(shape, (labels.dtype,)),
        ),
        "answers": (
            lambda: completion.begin(grid, 0, (names.copy(), names.copy(), ())),
            completion.likely_bytes(shape, 1),
        ),
        "mapping": (lambda: lookup._table, lookup.scratch_bytes(1, 1, 1)),
    }[what]
    indexed(names), survey.begin(grid, 0, (), 1 << 30).feed((labels,), (0, 1))  # loads kernels
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert declared / 2 < peak <= declared
