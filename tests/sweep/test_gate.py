"""How many sweeps run in a process, for any number of threads and runs."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.across.rounds.flow import Round
from beam_volumes.session import local
from beam_volumes.sweep import resources
from beam_volumes.sweep.resources import Gate, gate
from beam_volumes.transforms.rounds import Take, _Step, pieces


class Sweeps:
    """Threads that pass a gate, and stay until they are let go."""

    def __init__(self, gate):
        self.gate, self.inside, self.most = gate, [], {}
        self.changed = threading.Condition()
        self.go = threading.Event()

    def one(self, name, width):
        with self.gate.admitted(width) as arena:
            with self.changed:
                assert all(arena is not other for _, other in self.inside)
                self.inside.append((name, arena))
                self.most[width] = max(self.most.get(width, 0), len(self.inside))
                self.changed.notify_all()
            self.go.wait()
            with self.changed:
                self.inside.remove((name, arena))

    def wait_for(self, names):
        with self.changed:
            assert self.changed.wait_for(lambda: {n for n, _ in self.inside} == names, 60)


def waiting(gate, count):
    """Wait until so many sweeps stand before the gate."""
    with gate._changed:
        assert gate._changed.wait_for(lambda: len(gate._waiting) == count, 60)


def test_more_threads_than_the_width_wait_their_turn():
    gate = Gate()
    sweeps = Sweeps(gate)
    with ThreadPoolExecutor(20) as pool:
        done = [pool.submit(sweeps.one, k, 3) for k in range(20)]
        waiting(gate, 17)
        assert len(sweeps.inside) == 3
        sweeps.go.set()
        for d in done:
            d.result()
    assert sweeps.most == {3: 3} and len(gate._idle) == 3


def test_sweeps_of_runs_of_different_widths_are_counted_together():
    """One that may run alone waits for those that run, and those that come later for it."""
    gate = Gate()
    sweeps = Sweeps(gate)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(sweeps.one, "a", 2)]
        sweeps.wait_for({"a"})
        done.append(pool.submit(sweeps.one, "alone", 1))
        waiting(gate, 1)
        done.append(pool.submit(sweeps.one, "b", 2))
        waiting(gate, 2)
        assert [n for n, _ in sweeps.inside] == ["a"]
        sweeps.go.set()
        for d in done:
            d.result()
    # When the exclusive sweep was admitted no other was inside.
    assert sweeps.most[1] == 1 and sweeps.most[2] <= 2


def test_who_is_interrupted_while_waiting_holds_nobody_back(monkeypatch):
    gate = Gate()
    sweeps = Sweeps(gate)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(sweeps.one, "first", 1)
        sweeps.wait_for({"first"})

        def interrupted(*_):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(gate._changed, "wait", interrupted)
            with gate.admitted(1):
                raise AssertionError("it was full")
        last = pool.submit(sweeps.one, "last", 1)
        waiting(gate, 1)
        sweeps.go.set()
        first.result()
        last.result()


def test_a_run_that_ends_leaves_others_theirs():
    gate = Gate()
    with gate.admitted(2) as kept:
        (array,) = kept.cut([((1000,), np.dtype("u1"))])
        array[:] = 7
        with gate.admitted(2):
            pass
        gate.release()
        assert gate._idle == [] and (array == 7).all()
    with gate.admitted(1) as again:
        assert again is kept


class Idle(Round):
    """Sends how many arenas are idle."""

    def step(self, key, values):
        yield "idle", key, len(gate._idle)


def test_a_merge_begins_without_the_arenas_of_its_sweep(monkeypatch):
    gate.release()
    idle, load = [], local.Spill.load
    monkeypatch.setattr(local.Spill, "load", lambda *a: idle.append(len(gate._idle)) or load(*a))
    v = bv.open(np.ones((8, 16, 16), "u1"))
    bv.compute(bv.label(v), runner=None, progress=False, slab=(2, 16, 16))
    assert idle[0] == 0  # the first message of a merge is read

    with gate.admitted(2), gate.admitted(2):  # one of a sweep that goes on
        with gate.admitted(3):
            pass
        step = _Step(Idle("idle", ("idle",)), {"idle": Take(lambda key, value: [value], int)})
        assert [sent.value for sent in step.process(((0,), [*pieces(1)]))] == [0]


def test_computations_at_once_run_as_many_sweeps_as_the_widest_may(tmp_path):
    """With one slab or two in flight each: never three."""
    running, most, lock = [0], [0], threading.Lock()

    def counted(block):
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        try:
            return block + 1
        finally:
            with lock:
                running[0] -= 1

    v = bv.open(np.arange(16 * 9 * 8, dtype="u1").reshape(16, 9, 8))
    target = bv.map_overlap(counted, v, name="counted", version=1, dtype="u1")

    def computed(k):
        how = {"runner": None, "workers": 1 + k % 2, "threads": 1, "slab": (1, 9, 8)}
        return bv.compute(target.to(tmp_path / f"{k}.zarr", chunks=(1, 9, 8)), **how)

    with ThreadPoolExecutor(4) as pool:
        for result in pool.map(computed, range(4)):
            assert np.array_equal(np.asarray(result), np.asarray(v) + 1)
    assert most[0] <= 2


def test_strips_do_not_wait_for_other_work_of_the_threads():
    ended, done = threading.Event(), []
    busy = [resources.start_strips(64, 1 << 20, 64, lambda a, b: ended.wait(60)) for _ in range(2)]
    try:
        assert len(resources.in_strips(8, 1 << 20, 8, lambda a, b: done.append((a, b)))) == 8
        assert sorted(done) == [(k, k + 1) for k in range(8)]
    finally:
        ended.set()
        assert all(all(wait()) for wait in busy)


def test_an_error_in_a_strip_is_raised_when_no_strip_runs():
    running = threading.Semaphore(0)

    def work(a, b):
        running.release()
        if a == 1:
            raise ValueError("strip 1")
        running.acquire()

    with pytest.raises(ValueError, match="strip 1"):
        resources.in_strips(4, 1 << 20, 4, work)
