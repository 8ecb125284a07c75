"""What a stage, an input or an output raises: the error names slab, box and stage, and is of its kind."""

import os
import pickle
import resource
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cloudpickle
import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.runs.journal import find_run
from beam_volumes.session import slabs
from beam_volumes.session.begin import begin
from beam_volumes.session.session import Session
from tests.tiers import few, thorough
from tests.waiting import wait_until

ARRAY = np.random.default_rng(0).integers(1, 200, (8, 16, 16), np.uint8)
HOW = {"slab": (2, 16, 16), "progress": False, "workers": 1}
CHUNKS = {"chunks": (2, 8, 8), "codec": None}


class Refusal(Exception):
    """An exception of somebody's own."""


def fails_at(plane, once, kind, block):
    """Raise where a plane is seen, the first time only if there is a file to note that in."""
    if (block == plane).all(axis=(1, 2)).any() and not (once and os.path.exists(once)):
        if once:
            Path(once).touch()
        raise kind("no luck")
    return block


@pytest.fixture
def volume(tmp_path):
    array = ARRAY.copy()
    array[5] = 250  # in slab 2
    return bv.compute(bv.open(array).to(tmp_path / "in.zarr", **CHUNKS), runner=None)


@pytest.mark.parametrize("runner", few([None, "FnApiRunner"], [None]))
@pytest.mark.parametrize("kind", few([ZeroDivisionError, Refusal], [Refusal]))
def test_a_function_that_raises_once_and_always(tmp_path, volume, runner, kind):
    def wanted(once, out):
        func = partial(fails_at, 250, once and str(once), kind)
        unlucky = bv.map_overlap(func, volume, dtype=volume.dtype, name="unlucky", version=1)
        return (bv.minimum_filter(unlucky, 1) + 1).to(tmp_path / out, **CHUNKS)

    where = r"pass 1, slab 2 \[4:6, 0:16, 0:16\]: unlucky, slices \d to \d: no luck$"
    arrives = kind
    if (
        runner and kind is Refusal
    ):  # a runner passes on text, which makes no class of somebody's own
        arrives, where = RuntimeError, "Refusal: " + where
    always = wanted(None, "always.zarr")
    for resume in (False, True):
        with pytest.raises(arrives, match=where):
            bv.compute(always, runner=runner, resume=resume, **HOW)
    assert "pass 1: slab" in bv.verify(tmp_path / "always.zarr")[0]

    once = wanted(tmp_path / "noted", "once.zarr")
    with pytest.raises(arrives, match=where):
        bv.compute(once, runner=runner, **HOW)
    bv.compute(once, runner=runner, resume=True, **HOW)
    assert bv.verify(tmp_path / "once.zarr", checksums=True) == []
    np.testing.assert_array_equal(bv.open(tmp_path / "once.zarr"), np.asarray(volume) + 1)


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (
            lambda f: (f / "in.zarr/c/2/0/0").write_bytes(b"short"),
            r"slab 2 \[4:6, 0:16, 0:16\]: reading .*in\.zarr, slices 4 to 5: .*damaged",
        ),
        (lambda f: shutil.rmtree(f / "in.zarr"), r"slab 0 \[0:2, 0:16, 0:16\]: .*in\.zarr"),
        (
            lambda f: (f / "out.zarr/c/2").write_text("in the way"),
            r"slab 2 \[4:6, 0:16, 0:16\]: writing .*out\.zarr, slices 4 to 5: ",
        ),
    ],
)
def test_an_input_and_an_output_that_fail(tmp_path, volume, harm, says, monkeypatch):
    create = Session.prepare

    def prepare(self):
        create(self)
        (tmp_path / "out.zarr" / "c").mkdir()
        harm(tmp_path)

    monkeypatch.setattr(Session, "prepare", prepare)
    with pytest.raises(OSError, match="^pass 1, " + says) as error:
        bv.compute((volume + 1).to(tmp_path / "out.zarr", **CHUNKS), runner=None, **HOW)
    assert "\n" not in str(error.value)


def test_what_a_survey_and_a_fold_raise(tmp_path, volume):
    nan = bv.where(volume == 250, np.nan, volume)
    for target in (bv.mean(nan), bv.regionprops_table(volume, nan).to(tmp_path / "t.csv")):
        with pytest.raises(ValueError, match=r"slab 2 \[4:6, 0:16, 0:16\]: \w+, slices .*NaN"):
            bv.compute(target, runner=None, **HOW)


# The same slab twice at a time, as when a runner gives up on a worker that still lives.


def together(folder, parties, block):
    """Wait until so many sweeps are here."""
    me = f"{os.getpid()}-{threading.get_ident()}"
    Path(folder, me).touch()
    wait_until(lambda: len(os.listdir(folder)) >= parties, f"{parties} sweeps")
    return block


def sweep_slab(session: bytes, index: int) -> None:
    slabs.sweep_slab(pickle.loads(session), 0, index, {})


@thorough
@pytest.mark.parametrize(
    "form", few([{}, {"shards": (4, 16, 16)}, {"codec": "zstd", "zarr_version": 2}], [{}])
)
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_a_slab_swept_twice_at_a_time(tmp_path, pool, form):
    parties = 4 if pool == "threads" else 2
    array = ARRAY.copy()
    array[:2, :8, :8] = 0
    v = bv.open(array)
    how = {"chunks": (2, 8, 8), "codec": None, **form}
    bv.compute(v.to(tmp_path / "alone.zarr", **how), runner=None, slab=(4, 16, 16))
    (tmp_path / "here").mkdir()
    func = partial(together, str(tmp_path / "here"), parties)
    target = bv.map_overlap(func, v, dtype=v.dtype, name="together").to(
        tmp_path / "out.zarr", **how
    )
    session = begin(bv.plan(target, slab=(4, 16, 16), window=4, workers=4, threads=1))
    session.prepare()
    data = cloudpickle.dumps(session)
    kinds = {
        "threads": lambda: ThreadPoolExecutor(parties),
        "processes": lambda: ProcessPoolExecutor(parties, get_context("spawn")),
    }
    with kinds[pool]() as workers:
        list(workers.map(sweep_slab, [data] * parties, [0] * parties))
        sweep_slab(data, 1)
    journal = find_run(tmp_path / "out.zarr")
    assert journal.finished(0) == [0, 1]
    assert journal.attempts_of(0) == {0: parties, 1: 1}
    left = {
        name: {
            p.relative_to(tmp_path / name): p.read_bytes()
            for p in (tmp_path / name).rglob("*")
            if p.is_file() and p.suffix not in (".json", ".zattrs") and p.name != ".zattrs"
        }
        for name in ("alone.zarr", "out.zarr")
    }
    assert left["out.zarr"] == left["alone.zarr"]
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []


# A full disk: to a process it looks as a limit of the size of its files does.


@thorough
@pytest.mark.parametrize("runner", few(["none", "FnApiRunner"], ["none"]))
def test_a_full_disk_by_the_command(tmp_path, runner):
    noise = np.random.default_rng(0).integers(0, 200, (64, 256, 256), np.uint8)
    bv.compute(bv.open(noise).to(tmp_path / "in.zarr"), runner=None, progress=False)
    (tmp_path / "recipe.yaml").write_text(
        "input: in.zarr\nsteps: {more: {op: add, inputs: [input, 1]}}\n"
        "outputs: [{step: more, path: out.zarr, chunks: [32, 256, 256], codec: none}]\n"
    )

    def command(*arguments, limit=None):
        def lower():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run(
            [
                sys.executable,
                "-m",
                "beam_volumes.cli.main",
                *arguments,
                "--runner",
                runner,
                "--quiet",
            ],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            preexec_fn=lower if limit else None,
        )

    full = command("run", "recipe.yaml", limit=1_000_000)
    assert full.returncode == 2 and full.stderr.count("\n") == 1, full.stderr
    assert "slab 0 [" in full.stderr and "writing " in full.stderr and "--resume" in full.stderr
    again = command("resume", "out.zarr")
    assert again.returncode == 0, again.stderr
    assert bv.verify(tmp_path / "out.zarr", checksums=True) == []
    np.testing.assert_array_equal(bv.open(tmp_path / "out.zarr"), noise + 1)
