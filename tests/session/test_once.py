"""What steps hold in common is pickled once, and one object in each process that has it."""

import gc
import pickle
import threading
import time
import weakref
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.internal import pickler
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.utils import proto_utils

import beam_volumes as bv
from beam_volumes.session.session import OncePerProcess
from beam_volumes.storage.places import context


class Slow(OncePerProcess):
    """Takes long to unpickle, and counts how often that is done."""

    times = 0

    def __init__(self, value):
        self.value = value
        self.part = SlowPart()


class SlowPart:
    def __setstate__(self, state):
        Slow.times += 1
        time.sleep(0.01)

    def __getstate__(self):
        return {"some": "state"}


@pytest.fixture
def times(monkeypatch):
    monkeypatch.setattr(Slow, "times", 0)
    return lambda: Slow.times


def test_threads_that_unpickle_it_have_the_same(times):
    copies = [pickle.dumps(Slow([7])), pickle.dumps({"step": Slow([8])})]
    found = []
    together = threading.Barrier(8)

    def unpickle():
        together.wait()
        found.append((pickle.loads(copies[0]), pickle.loads(copies[1])["step"]))

    threads = [threading.Thread(target=unpickle) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({(id(a), id(b)) for a, b in found}) == 1
    assert [x.value for x in found[0]] == [[7], [8]]
    assert times() == 2


def test_nothing_is_held_that_nobody_holds(times):
    data = pickle.dumps(Slow([7]))
    first = weakref.ref(pickle.loads(data))
    gc.collect()
    assert first() is None
    assert pickle.loads(data).value == [7]
    assert times() == 2


def test_a_pickle_of_a_pickle_is_the_same_bytes():
    data = pickle.dumps(Slow([7]))
    assert pickle.dumps(pickle.loads(data)) == data


class Twice:
    """A function of a user's that counts how often it is unpickled."""

    times = 0

    def __setstate__(self, state):
        Twice.times += 1

    def __getstate__(self):
        return {"some": "state"}

    def __call__(self, block):
        return block * 2


def test_a_plan_is_unpickled_once_for_all_steps_of_a_pipeline(tmp_path, monkeypatch):
    em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    monkeypatch.setattr(Twice, "times", 0)
    twice = bv.map_overlap(Twice(), em, name="twice", version=1)
    pipeline = beam.Pipeline("FnApiRunner")
    _ = pipeline | bv.Compute((twice > bv.mean(em)).to(tmp_path / "bright.zarr"))
    graph = pipeline.to_runner_api().components.transforms.values()
    payloads = [
        proto_utils.parse_Bytes(t.spec.payload, beam_runner_api_pb2.ParDoPayload).do_fn.payload
        for t in graph
        if t.spec.urn == common_urns.primitives.PAR_DO.urn
    ]
    steps = [pickler.loads(payload) for payload in payloads]
    assert len(steps) > 6
    assert Twice.times == 1  # Beam does so too, while it builds the graph


def test_a_session_that_differs_is_another(tmp_path):
    em = bv.open(np.arange(24, dtype="u1").reshape(2, 3, 4))
    session = bv.Compute((em > 3).to(tmp_path / "bright.zarr")).session
    first = pickle.loads(pickle.dumps(session))
    for one in (session, first):  # what is known of its own pickle is not handed on
        other = pickle.loads(pickle.dumps(replace(one, secret="its own")))
        assert other is not first
        assert (other.secret, other.run_id) == ("its own", session.run_id)
        assert first.secret == ""


def test_handles_of_earlier_runs_are_dropped_when_another_arrives():
    """A worker that outlives runs may have handles of arrays that were replaced meanwhile."""
    made = []
    context.opened("array", lambda: made.append(1))
    assert pickle.loads(pickle.dumps(Slow(time.time()))) is not None
    context.opened("array", lambda: made.append(2))
    assert made == [1, 2]
