"""What fails of a user's function or of the voxels is not tried ten times, wherever it runs."""

import argparse
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineResult, PipelineRunner, PipelineState

import beam_volumes as bv
from beam_volumes.cli.options import run_options, running
from beam_volumes.plan import planner
from beam_volumes.runs import Journal, run_folder
from beam_volumes.runs.failure import as_data, may_pass, revived
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from beam_volumes.transforms import compute_all
from beam_volumes.yaml import ComputeRecipe
from tests.tiers import thorough
from tests.transforms.trees import stored

SHAPE = (6, 8, 8)


class Stubborn(PipelineRunner):
    """Tries a pipeline ten times, as Flink's do; after three times not before it has been waited for."""

    tries = 0
    cancelled = threading.Event()

    def run_pipeline(self, pipeline, options):
        return Tried(pipeline, options)


class Tried(PipelineResult):
    def __init__(self, pipeline, options):
        super().__init__(PipelineState.RUNNING)
        self.how = pipeline, options
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for Stubborn.tries in range(1, 11):
            try:
                FnApiRunner().run_pipeline(*self.how).wait_until_finish()
                self._state = PipelineState.DONE
                return
            except Exception as error:
                self.error = RuntimeError(f"java.lang.RuntimeException: {error!s:.300}...")
            if Stubborn.tries >= 3 and Stubborn.cancelled.wait(60):
                self._state = PipelineState.CANCELLED
                return
        self._state = PipelineState.FAILED

    def cancel(self):
        Stubborn.cancelled.set()

    def wait_until_finish(self, duration=None):
        self.thread.join()
        if self._state == PipelineState.FAILED:
            raise self.error
        return self._state


@pytest.fixture(autouse=True)
def afresh():
    Stubborn.tries = 0
    Stubborn.cancelled = threading.Event()


class Own(Exception):
    """A user's."""


def volume_of(tmp_path):
    array = np.arange(np.prod(SHAPE), dtype="u2").reshape(SHAPE)
    return stored(tmp_path, array, chunks=(2, 8, 8)), array


def calling(tmp_path, error, times=100):
    """Adds 1, notes each call, and at slab 1 raises an error the first times."""

    def add(block):
        with open(tmp_path / "calls", "a") as file:
            file.write(f"{block[0, 0, 0] // 128}\n")
        said = (tmp_path / "calls").read_text().split().count("1")
        if block[0, 0, 0] == 128 and said <= times and not (tmp_path / "mended").exists():
            raise error(said)
        return block + 1

    return add


def calls(tmp_path, slab=1):
    return (tmp_path / "calls").read_text().split().count(str(slab))


ERRORS = {
    "a mistake in the function": (lambda n: KeyError("boom"), RuntimeError, "KeyError: 'boom'"),
    "voxels it does not take": (lambda n: ValueError("boom"), ValueError, "boom"),
    "its own kind": (lambda n: Own(f"boom of {object()!r}"), RuntimeError, "boom"),
    "nothing known": (lambda n: RuntimeError("boom"), RuntimeError, "boom"),
}


@thorough
@pytest.mark.parametrize("name", ERRORS)
def test_a_users_function_that_fails_is_tried_twice(tmp_path, name):
    v, array = volume_of(tmp_path)
    error, kind, text = ERRORS[name]

    target = bv.map_overlap(calling(tmp_path, error), v, dtype=v.dtype, name="add", version=1)
    target = target.to(tmp_path / "out.zarr", chunks=(2, 8, 8))
    how = {"runner": Stubborn(), "slab": (2, 8, 8), "progress": False}
    with pytest.raises(kind, match=rf"pass 1, slab 1 .*{text}") as caught:
        bv.compute(target, **how)
    assert calls(tmp_path) == 2 and Stubborn.cancelled.is_set() and Stubborn.tries == 3
    assert "Traceback" in str(caught.value.__cause__)
    # Continuing the run tries it again, and keeps the finished slabs.
    done = set(Journal.open(run_folder(tmp_path / "out.zarr")).finished(0))
    (tmp_path / "mended").touch()
    (tmp_path / "calls").write_text("")
    written = bv.compute(target, resume=True, **how)
    np.testing.assert_array_equal(np.asarray(written), array + 1)
    assert {slab for slab in range(3) if calls(tmp_path, slab)} == {0, 1, 2} - done


@thorough
@pytest.mark.parametrize("retries", [0, 2])
def test_it_may_be_tried_more_or_less_often(tmp_path, retries):
    """By a number in Python, an option of the command, or a field of Beam YAML's."""
    v, _ = volume_of(tmp_path)
    target = bv.map_overlap(
        calling(tmp_path, lambda n: KeyError("boom")), v, dtype=v.dtype, name="add", version=1
    )
    target = target.to(tmp_path / "out.zarr", chunks=(2, 8, 8))
    how = {"slab": (2, 8, 8), "max_retries": retries}
    with pytest.raises(RuntimeError, match="boom"):
        bv.compute(target, runner=Stubborn(), progress=False, **how)
    assert calls(tmp_path) == retries + 1
    assert bv.Compute(target, resume=True, **how).session.max_retries == retries
    recipe = {"input": v.node.source.name, "steps": {"mean": None}, "outputs": [{"step": "mean"}]}
    made = ComputeRecipe(recipe, max_retries=retries).compute
    assert made.session.max_retries == retries
    parser = argparse.ArgumentParser()
    parser.set_defaults(others=[])
    running(parser)
    said = parser.parse_args([f"--max-retries={retries}"])
    assert run_options(said).max_retries == retries


@pytest.mark.parametrize(
    "error",
    [
        lambda n: OSError("the storage is busy"),
        lambda n: MemoryError(),
        lambda n: RuntimeError("CUDA out of memory"),
        lambda n: ValueError(f"another one each time: {n}"),
    ],
)
def test_what_may_pass_is_tried_again(tmp_path, error):
    v, array = volume_of(tmp_path)
    add = calling(tmp_path, error, times=2)
    target = bv.map_overlap(add, v, dtype=v.dtype, name="add", version=1)
    target = target.to(tmp_path / "out.zarr", chunks=(2, 8, 8))
    Stubborn.cancelled.set()  # never waited for
    Stubborn.cancelled.wait = lambda _: False
    written = bv.compute(target, runner=Stubborn(), slab=(2, 8, 8), progress=False)
    np.testing.assert_array_equal(np.asarray(written), array + 1)
    assert calls(tmp_path) == 3 and Stubborn.tries == 3


def test_the_other_slabs_of_a_run_that_has_failed_are_not_swept(tmp_path):
    v, _ = volume_of(tmp_path)
    add = calling(tmp_path, lambda n: ValueError("boom"))
    target = bv.map_overlap(add, v, dtype=v.dtype, name="add", version=1)
    target = target.to(tmp_path / "out.zarr", chunks=(2, 8, 8))
    session = begin(bv.plan(target, slab=(2, 8, 8)))
    session.prepare()
    for _ in range(2):
        with pytest.raises(ValueError, match="boom"):
            slabs.sweep_slab(session, 0, 1, {})
    with pytest.raises(ValueError, match=r"slab 1 .*boom"):
        slabs.sweep_slab(session, 0, 2, {})
    assert calls(tmp_path, 2) == 0


def test_an_element_of_compute_all_too(tmp_path, monkeypatch):
    v, array = volume_of(tmp_path)
    path, folder = v.node.source.name, Path(tmp_path)
    add = calling(folder, lambda n: ValueError("boom"))

    def make_plan(targets, options):
        return planner.make_plan(targets, replace(options, slab=(2, 8, 8)))

    monkeypatch.setattr(compute_all, "make_plan", make_plan)

    def one(path):
        out = f"{folder}/out.zarr"
        return {"out": bv.map_overlap(add, bv.open(path), dtype=v.dtype).to(out, chunks=(2, 8, 8))}

    each = bv.ComputeAll(one, memory="1GiB").computing.or_named
    for _ in range(4):
        with pytest.raises(RuntimeError, match="boom"):
            each(path)
    assert calls(tmp_path) == 2
    (tmp_path / "mended").touch()  # which another pipeline sees
    _, results = bv.ComputeAll(one, memory="1GiB", overwrite=True).computing.or_named(path)
    np.testing.assert_array_equal(np.asarray(bv.open(results["out"])), array + 1)


def test_failures_are_data():
    for error in (OSError(28, "full", "a"), ValueError("x"), Own("y")):
        assert str(revived(as_data(error))).endswith(str(error))
    chained = ValueError("cannot read")
    chained.__cause__ = ConnectionResetError("gone")
    assert may_pass(chained) and not may_pass(ValueError("cannot read"))
