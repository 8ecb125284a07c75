"""A user's function that computes with the package gets an error on any thread, and does not wait."""

import threading
from concurrent.futures import ThreadPoolExecutor

import apache_beam as beam
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.graph.protocols import computed, nothing_computed
from tests.waiting import PATIENCE

X = (np.arange(8 * 96 * 96, dtype="f4") % 4).reshape(8, 96, 96)


def pipeline(_):
    with beam.Pipeline("FnApiRunner") as p:
        _ = p | bv.Compute(bv.mean(bv.open(X)))


WAYS = {
    "asarray": lambda a: np.asarray(bv.open(X) + 1),
    "a lazy result": lambda a: bv.gaussian_filter(a, 1),
    "a number": lambda a: a + float(bv.mean(bv.open(X))),
    "a table": lambda a: bv.regionprops_table(a.astype("u1")).to_pyarrow(),
    "compute": lambda a: bv.compute(bv.open(a) * 2, runner=None, progress=False),
    "compute by Beam": lambda a: bv.compute(bv.open(a) * 2, runner="FnApiRunner", progress=False),
    "a pipeline": pipeline,
}


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("threads", [1, 3])
def test_a_function_that_computes_with_the_package_does_not_wait_for_itself(how, threads):
    caught = []

    def run():
        v = bv.map_overlap(WAYS[how], bv.open(X), name="inner")
        try:
            bv.compute(v, runner=None, threads=threads, workers=2, progress=False)
        except ValueError as error:
            caught.append(str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert "the function 'inner' computes with beam_volumes itself" in caught[0]
    # Neither this thread nor the pool's are left in it.
    np.testing.assert_array_equal(bv.compute(bv.open(X) + 1, runner=None, threads=threads), X + 1)


def test_threads_that_refuse_to_compute_leave_it_to_others():
    mean, barrier = bv.mean(bv.open(X)), threading.Barrier(4)

    def refusing(_):
        with nothing_computed():
            barrier.wait()
            with pytest.raises(ValueError, match="cannot be used here"):
                computed(mean)
            barrier.wait()  # all leave at once
        return float(mean)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(refusing, range(4))) == {X.mean()}
    with nothing_computed(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(float, mean).result() == X.mean()
