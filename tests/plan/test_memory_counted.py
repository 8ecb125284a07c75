"""What the plan counts is what the hungriest slab takes, wherever it lies."""

import re
from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import beam_volumes as bv
from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels import cache
from beam_volumes.plan.cost import machine, memory, rings
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.fit.partitioning import partitioned
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.schedule import OVERLAPS, gathered, schedule
from beam_volumes.sweep.stage import Block
from tests.tiers import examples


def planned(*targets, **options):
    """A plan with options that only runs have, such as the memory of a process."""
    return make_plan(list(targets), RunOptions(**options))


@dataclass(frozen=True, eq=False)
class Nothing:
    """Planned with, never read."""

    name: str

    portable = False
    remote = False
    extents = ()

    def token(self):
        return self.name


def unread(slices, depth, origin):
    space = Space(axes=("z", "y", "x"))
    chunk, starts = (depth, 8, 8), (-origin, 0, 0)
    reader = Nothing(f"{slices} {depth} {origin}")
    source = Source("v", (slices, 8, 8), np.dtype("u1"), chunk, space, reader, starts)
    return Volume(SourceNode.of(source), space)


@st.composite
def sums(draw):
    """For two volumes with layers of chunks that begin elsewhere, filtered or not."""
    slices = draw(st.sampled_from([97, 200, 301]))
    volumes = []
    for _ in range(2):
        depth = draw(st.sampled_from([1, 3, 5, 7, 11, 16, 20, 64]))
        volumes.append(unread(slices, depth, draw(st.integers(0, depth - 1))))
    first, second = volumes
    found = bv.maximum_filter(first, (draw(st.integers(1, 12)), 1, 1)) + second
    if draw(st.booleans()):
        found = bv.maximum_filter(found, (draw(st.integers(1, 6)), 3, 1))
    if draw(st.booleans()):
        found = found[draw(st.integers(0, 9)) :]
    if draw(st.integers(0, 3)) == 0:
        found = bv.downsample(found, (draw(st.sampled_from([2, 3])), 1, 1))
    return found


@given(data=st.data())
@settings(max_examples=examples(150), deadline=None)
def test_no_slab_holds_more_than_was_counted(data):
    volume = data.draw(sums())
    deep = data.draw(st.sampled_from([5, 13, 20, 24, 48, 100]))
    slab = (min(deep, volume.shape[0]), *volume.shape[1:])
    window = data.draw(st.integers(1, 20))
    overlap = data.draw(st.sampled_from(OVERLAPS))
    (p,) = planned(bv.sum(volume), memory="64GiB", slab=slab, window=window).passes
    part = partitioned(p.program, slab, window, overlap, Concurrency(threads=2))
    assert memory.lower_bound(p.program, slab, window, Concurrency(threads=2)) <= part.memory
    counted = [
        int(n) for n in re.findall(r"\((\d+) slices of", " ".join(q.name for q in part.parts))
    ]
    held = [0] * len(counted)
    for box in p.grid:
        course = schedule(p.program, box.ranges, window, overlap)
        held = list(map(max, held, course.capacity))
    assert all(h <= c for h, c in zip(held, counted, strict=True)), (held, counted)


def test_a_merge_takes_the_memory_of_the_sweep_before_it(tmp_path):
    """Rings are free when rows are merged: slabs need not be smaller for that."""
    space, shape = Space(axes=("z", "y", "x")), (64, 1024, 2048)
    source = Source("v", shape, np.dtype("u1"), (16, 512, 512), space, Nothing("v"), (0, 0, 0))
    volume = Volume(SourceNode.of(source), space)
    labels = bv.label(volume > 128)
    table = bv.regionprops_table(labels, volume, ["bbox", "centroid", "intensity_mean"])
    targets = labels.to(tmp_path / "o.zarr"), table.to(tmp_path / "o.parquet")
    how = {"base": 200 << 20, "workers": 1, "threads": 2}
    plan = planned(
        *targets, memory=planned(*targets, memory="8GiB", **how).base + (240 << 20), **how
    )
    assert plan.bytes_read <= 3.75 * volume.size
    last = plan.passes[-1].partition
    assert last.sweep_memory + last.merge_memory > 240 << 20 >= last.memory
    shown = plan.explain(verbose=True)
    assert re.search(r"memory of a step of the merge.*\n +[\d.]+ MiB  regionprops", shown)


def test_a_strip_that_wraps_around_its_ring_copies_its_own_rows_only():
    ring = np.arange(5 * 100 * 40).reshape(5, 100, 40)
    around = Block(ring, np.array([3, 4, 0, 1]), 1, 2, 98, 36)
    in_order = Block(ring, np.array([0, 1, 2, 3]), 1, 2, 98, 36)
    strip = around.array(10, 20)
    np.testing.assert_array_equal(strip, ring[[3, 4, 0, 1], 11:21, 2:38])
    held = strip if strip.base is None else strip.base
    assert held.nbytes <= 4 * 10 * 37 * 8
    assert np.shares_memory(in_order.array(10, 20), ring)
    # Kernels are compiled for whole arrays, and for parts of larger ones.
    assert strip.flags.c_contiguous == in_order.array(10, 20).flags.c_contiguous
    assert not strip.flags.writeable


def test_windows_that_surveys_are_given_as_copies_are_counted(monkeypatch):
    copied, real = [], Block.array

    def noted(block, *rows):
        array = real(block, *rows)
        if not np.shares_memory(array, block.ring):
            copied.append(array.nbytes)
        return array

    monkeypatch.setattr(Block, "array", noted)
    x = np.random.default_rng(0).integers(0, 4, (60, 40, 30)).astype("f8")
    smooth = bv.maximum_filter(bv.open(x), (5, 1, 1))
    table = bv.regionprops_table(bv.open((x > 1).astype("i4")), smooth, ["intensity_mean"])
    other = bv.minimum_filter(smooth, (4, 1, 1))
    how = {"slab": (60, 40, 30), "window": 7}
    plan = planned(table, bv.sum(other), **how)
    bv.compute(table, bv.sum(other), runner=None, progress=False, threads=1, **how)
    (p,) = plan.passes
    course = schedule(p.program, p.grid.box(0).ranges, 7, p.partition.overlap)
    slices = gathered(p.program, course)
    plane = [40 * 30 * s.dtype.itemsize for s in p.program.steps]
    counted = sum(n * b for n, b in zip(slices, plane, strict=True))
    assert copied and max(copied) <= counted
    scratch = next(q.bytes for q in p.partition.parts if q.name.startswith("scratch of "))
    assert scratch >= counted


def test_what_a_process_has_once_is_not_counted_for_each_slab_in_flight(tmp_path):
    """Chunks are read and written through lanes of the process, for any number of sweeps."""
    volume = bv.open(np.zeros((96, 512, 512), "u1")).to(
        tmp_path / "in.zarr", chunks=(32, 512, 512), codec="zstd"
    )
    volume = bv.compute(volume, runner=None, progress=False)
    target = (volume + 1).to(tmp_path / "out.zarr", chunks=(32, 512, 512), codec="zstd")

    def coding(workers, processes):
        how = {"workers": workers, "processes": processes, "threads": 2, "memory": "64GiB"}
        plan = planned(target, slab=(32, 512, 512), **how)
        (p,) = plan.passes
        parts = p.partition.parts
        once = sum(q.bytes for q in parts if q.name.startswith(("decoding", "encoding")))
        own = p.slab_memory - once
        assert plan.predicted_memory == processes * plan.base + workers * (own + once)
        return workers * once, own

    alone, own = coding(1, 1)
    unit = 32 * 512 * 512
    assert alone >= 2 * unit
    for workers, processes in ((8, 1), (8, 4), (7, 3)):
        several, each = coding(workers, processes)
        assert each == own
        # Eight slabs may have more units on their way than one, which has a single one to write.
        assert processes * alone <= several < processes * (2 * alone) and several < workers * alone


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """This process, as if it had planned and run nothing."""
    monkeypatch.setattr(memory, "_used", {})
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    memory._this_process.cache_clear()
    yield
    memory._this_process.cache_clear()


def test_the_base_of_this_process_is_measured_and_kernels_count_once(fresh, monkeypatch):
    monkeypatch.setattr(machine, "resident_memory", lambda: 57 << 20)
    v = bv.open(np.zeros((8, 16, 16), "u1"))
    once, twice = bv.median_filter(v, 3), bv.median_filter(bv.median_filter(v, 3), 3)
    before = bv.plan(once)
    assert before.base == bv.plan(twice).base <= 172 << 20
    bv.compute(once, runner=None, progress=False)
    # What was compiled stays in this process; another one reads it from the cache.
    assert bv.plan(once).base == before.base
    monkeypatch.setattr(memory, "_used", {})
    assert bv.plan(once).base <= 116 << 20
    # Arrays that the process holds for its user are no part of it, and plans do not change while it runs.
    monkeypatch.setattr(machine, "resident_memory", lambda: 5 << 30)
    assert bv.plan(once).base <= 116 << 20
    memory._this_process.cache_clear()
    assert bv.plan(once).base < 256 << 20


def test_a_small_stack_fits_a_gibibyte(fresh):
    v = bv.open(np.zeros((11, 1024, 1024), "u1"))
    smooth = bv.gaussian_filter(v, 2)
    labels = bv.label(smooth > bv.threshold_otsu(smooth))
    assert (
        planned(labels, bv.regionprops_table(labels, v), memory="1GiB").predicted_memory < 1 << 30
    )


def test_a_pipeline_on_this_machine_finds_the_kernels_that_are_compiled_here(fresh):
    v = bv.open(np.zeros((8, 16, 16), "u1"))
    smooth = bv.median_filter(v, 3)

    def base(of):
        return make_plan([smooth], RunOptions(base=of)).base

    before, elsewhere = base(memory.LOCAL_PIPELINE), base(memory.BASE_BEAM)
    assert before < elsewhere == memory.BASE_BEAM + memory.BASE_KERNEL
    memory.note_compiled(planned(smooth).kernels)
    assert base(memory.LOCAL_PIPELINE) <= before - (memory.BASE_KERNEL - (4 << 20))
    # Of a machine elsewhere nothing is known.
    assert base(memory.BASE_BEAM) == elsewhere


def test_slabs_with_too_many_results_are_not_scheduled(monkeypatch):
    """The plan is the same as if they were, and as if no passes shared schedules."""
    space = Space(axes=("z", "y", "x"))
    shape, chunk = (1024, 1024, 1024), (64, 64, 64)
    source = Source("v", shape, np.dtype("u1"), chunk, space, Nothing("v"), (0, 0, 0))
    maxima = bv.h_maxima(Volume(SourceNode.of(source), space), 10)
    plans, numbers, schedules = [], [], rings.schedules
    for bound, alike in ((memory.lower_bound, 192), (lambda *_: 0, 0)):
        windows = []

        def counted(program, slabs, window, overlap, windows=windows):
            windows += [(stop - start) // window for (start, stop), *_ in slabs]
            return schedules(program, slabs, window, overlap)

        monkeypatch.setattr(memory, "lower_bound", bound)
        monkeypatch.setattr(rings, "_alike", OrderedDict())
        monkeypatch.setattr(rings, "_MAX_ALIKE", alike)
        monkeypatch.setattr(rings, "schedules", counted)
        plan = planned(maxima, memory="700MiB", base=200 << 20, workers=1, threads=2)
        plans.append([(p.partition, p.limit_bytes) for p in plan.passes])
        numbers.append(sum(windows))
    assert plans[0] == plans[1]
    assert numbers[0] < numbers[1] / 4, numbers


@pytest.mark.parametrize("memory", ["400MiB", "600MiB", "2GiB"])
def test_answers_and_results_of_a_sweep_share_the_memory_that_is_left(memory):
    """Each gets what the other cannot use: together they never exceed the limit."""
    source = Source(
        "v", (256, 512, 512), np.dtype("u1"), (32, 256, 256), Space(axes=("z", "y", "x")),
        Nothing("v"), (0, 0, 0),
    )  # fmt: skip
    volume = Volume(SourceNode.of(source), source.space)
    labels = bv.label(volume > 128)
    table = bv.regionprops_table(labels, volume, ["bbox", "intensity_mean"])
    how = {"base": 200 << 20, "workers": 1, "threads": 2}
    plan = planned(bv.sum(labels % 7), table, memory=memory, **how)
    first, last = (p for p in plan.passes if p.program.surveys)
    (survey,), part = (s.survey for s in first.program.surveys), last.partition
    answer = max(part.answer_bytes, int(first.limit_bytes * survey.answer_share))
    fixed = part.sweep_memory - part.reserved - part.answer_bytes
    assert part.answer_bytes and part.reserved <= last.limit_bytes
    assert fixed + answer + last.limit_bytes <= plan.memory - plan.base
