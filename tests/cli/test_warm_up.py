"""Kernels compiled ahead: those that a recipe needs, and every operation for some dtype."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import yaml

import beam_volumes as bv
from beam_volumes.cli.verbs import warm_up
from beam_volumes.kernels.labels import components
from beam_volumes.recipes.catalogue import operations
from tests.tiers import thorough


@thorough
def test_a_recipe_compiles_nothing_that_was_warmed_up(tmp_path):
    voxels = np.random.default_rng(0).normal(size=(30, 70, 90)).astype("f4")
    bv.compute(bv.open(voxels).to(tmp_path / "in.zarr", chunks=(8, 32, 32)), runner=None)
    recipe = {
        "input": str(tmp_path / "in.zarr"),
        "steps": {"exp": {}, "mean": {}},
        "outputs": [
            {"step": "exp", "path": str(tmp_path / "out.zarr"), "chunks": [8, 32, 32]},
            {"step": "mean"},
        ],
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    cache = tmp_path / "kernels"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "NUMBA_CPU_NAME": "generic"}

    def python(program):
        """What a fresh process prints, as one that is built into an image and one that runs later."""
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    warm = f"from beam_volumes.cli.main import main; main(['warm-up', {str(path)!r}])"
    said = python(warm)
    assert re.search(r"\d s  _exp_rows", said)
    assert int(re.search(r"(\d+) kernels compiled in \d+ s for generic", said)[1]) > 1
    assert f"cached in {cache}/beam_volumes\n" in said
    assert list((cache / "beam_volumes").glob("*.kernel"))
    assert not (tmp_path / "out.zarr").exists()
    run = (
        "from beam_volumes.kernels.jit import compilations\n"
        "from beam_volumes.cli.main import main\n"
        "with compilations() as found:\n"
        f"    main(['run', {str(path)!r}, '--runner=none', '--slab=8,32,64'])\n"
        "print('compiled', found)\n"
    )
    assert python(run).endswith("compiled []\n")
    assert python(warm).startswith("0 kernels")


def test_every_operation_is_called_for_some_dtype():
    called = set()
    others = {n for n, o in operations().items() if n in warm_up.OTHERS or o.is_of_tables}
    for dtype in (*warm_up.DTYPES, *warm_up.LABELS):
        volume = bv.open(np.zeros(warm_up.SHAPE, dtype))
        for operation in operations().values():
            if operation.name in others:
                continue
            try:
                made = [*warm_up.applied(operation, volume)]
                assert made or not warm_up.calls_of(operation, 1)
            except TypeError:  # there is none of this dtype
                continue
            called.add(operation.name)
    assert called == set(operations()) - others


def test_warm_up_refuses_changes_of_no_recipe(command):
    code, _, told = command("warm-up", "--set", "steps.smooth.sigma=2")
    assert code == 2 and told.endswith("--set changes a recipe; give the recipe\n")
    assert command("warm-up", "--runner=none")[0] == 2


@pytest.mark.parametrize("shape", [(100, 200, 300), (5, 6), (8, 4, 1000)])
def test_a_small_part_is_from_the_middle(shape):
    v = bv.open(np.arange(np.prod(shape), dtype="u4").reshape(shape))
    part = warm_up.middle(v)
    assert all(n <= most for n, most in zip(part.shape, (12, 48, 48)[-len(shape) :], strict=True))
    slices = tuple(
        slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(shape, part.shape, strict=True)
    )
    np.testing.assert_array_equal(part, np.asarray(v)[slices])


@thorough
def test_every_operation_is_carried_out_for_masks():
    assert warm_up.of_dtype("?")[0] == "bool"


def test_results_of_several_strips_are_joined(monkeypatch):
    """Large volumes are divided among threads, and their components are joined by a kernel of its own."""
    joined = []
    join = components.join_runs
    monkeypatch.setattr(components, "join_runs", lambda *a: joined.append(a) or join(*a))
    noise = np.random.default_rng(0).integers(0, 2, warm_up.SHAPE, "u1")
    warm_up._run([bv.label(bv.open(noise))])
    assert joined
