"""Runs in threads of this process."""

import gc
import itertools
import tracemalloc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import ndimage

import beam_volumes as bv
from beam_volumes.across.rounds.flow import Flow, Round, run
from beam_volumes.plan.cost.machine import resident_memory
from beam_volumes.session import local, slabs
from beam_volumes.session.local import Spill
from beam_volumes.sweep import resources


class Along(Round):
    """Sends on each message."""

    def step(self, key, values):
        return [(self.to[0], key, value) for value in values]


def test_messages_of_a_round_take_disk_until_the_round_ends():
    """Of a run of terabytes, messages of all rounds have no place on a disk."""
    boxes, most = [], [0]

    class Counted(Spill):
        def __init__(self):
            super().__init__()
            boxes.append(weakref.ref(self))

        def put(self, key, value):
            super().put(key, value)
            most[0] = max(most[0], sum(box._end for ref in boxes if (box := ref())))

    names = [str(k) for k in range(7)]
    flow = Flow(tuple(Along(a, (b,)) for a, b in itertools.pairwise(names)), (names[-1],))
    given = Counted()
    for k in range(10):
        given.put((k,), bytes(10_000))
    each = given._end
    first = [given]
    del given
    found = run(flow, first.pop(), make=Counted)[names[-1]]
    assert [len(found.load(value)) for _, value in found] == [10_000] * 10
    assert each > 100_000 and most[0] <= 2 * each


def test_many_messages_to_the_same_keys_take_little_memory():
    """A merge of a terabyte has millions."""
    tracemalloc.start()
    try:
        spill = Spill()
        for k in range(60_000):
            spill.put((k % 3000, 1000 + k % 7, 1), k)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    groups = {key: [spill.load(place) for place in places] for key, places in spill.groups()}
    assert held < 120 * 60_000
    assert list(groups) == sorted(groups) and sum(map(len, groups.values())) == len(spill)
    assert groups[3, 1003, 1] == [*range(3, 60_000, 21_000)]


VOXELS = ndimage.gaussian_filter(np.random.default_rng(0).random((16, 24, 24)), 1.5).astype("f4")


@pytest.mark.parametrize(
    "name", ["label", "props", "adjacency", "h_maxima", "skeletons", "gaussian"]
)
def test_what_a_slab_held_is_freed_at_its_end(name, monkeypatch):
    """Objects in a reference cycle would stay until the next garbage collection, with those of many slabs."""
    volume, sweep_slab, found = bv.open(VOXELS), slabs.sweep_slab, []
    mask = volume > float(np.median(VOXELS))
    target = {
        "label": lambda: bv.label(mask),
        "props": lambda: bv.regionprops_table(bv.label(mask), volume, ["bbox", "intensity_mean"]),
        "adjacency": lambda: bv.region_adjacency(bv.watershed(volume), volume),
        "h_maxima": lambda: bv.h_maxima(volume, 0.001),
        "skeletons": lambda: bv.skeleton_table(bv.skeletonize(mask)),
        "gaussian": lambda: bv.gaussian_filter(volume, 1),
    }[name]()

    def swept(*arguments):
        gc.collect()
        gc.disable()
        try:
            result = sweep_slab(*arguments)
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            found.extend(
                o for o in gc.garbage if str(type(o).__module__).startswith("beam_volumes")
            )
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        return result

    monkeypatch.setattr(slabs, "sweep_slab", swept)
    bv.compute(target, runner=None, slab=(8, 24, 24), workers=1, progress=False)
    assert not found, {type(o).__name__ for o in found}


def test_memory_of_merges_is_returned_before_the_next_sweep(monkeypatch):
    """glibc keeps small pieces, which may be as large as a step of a merge."""
    trimmed = []
    monkeypatch.setattr(resources, "trim_heap", lambda: trimmed.append(len(merged)))
    merged = []
    monkeypatch.setattr(local, "run", lambda *a, **how: merged.append(1) or run(*a, **how))
    bv.compute(bv.label(bv.open(VOXELS) > 0.5), runner=None, slab=(8, 24, 24), workers=1)
    assert merged == [1] and trimmed[-1] == 1


@pytest.fixture
def clock(monkeypatch):
    """The seconds that have passed for the trims of the heap, as a list of one number."""
    now = [1.0]
    monkeypatch.setattr(resources, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(resources, "_next_trim", 0.0)
    return now


def test_a_step_gets_the_memory_that_a_long_step_before_it_has_freed(clock):
    """glibc keeps pieces that are free if some after them are not."""
    kept, memory = [], []

    class Fragments(Round):
        def step(self, key, values):
            memory.append(resident_memory())
            pieces = [bytes(100_000) for _ in range(2000)]
            kept.extend(pieces[::10])
            clock[0] += 1
            return []

    flow = Flow((Fragments("fragments", ("numbers",)),), ("numbers",))
    run(flow, [((k,), None) for k in range(2)], local._with_room)
    assert memory[1] - memory[0] < 60e6


def test_small_steps_do_not_wait_for_a_large_heap_each(clock, monkeypatch):
    trims = []

    def trim(pad):
        trims.append(pad)
        clock[0] += 0.3

    monkeypatch.setattr(resources.ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=trim))
    resources.gate.release()
    for _ in range(100):
        resources.make_room()
        clock[0] += 0.005
    assert len(trims) == 2
