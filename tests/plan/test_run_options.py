"""Options that are refused for any volumes, with the words of each surface."""

import argparse
from inspect import signature

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes import yaml
from beam_volumes.cli.options import computing
from beam_volumes.drive.compute import run
from beam_volumes.expansion.catalogue import CATALOGUE
from beam_volumes.plan.run_options import RECIPE_OPTIONS, USER_OPTIONS, RunOptions
from beam_volumes.recipes.catalogue import TOP

WRONG = [
    ({"memory": "2GoB"}, ValueError, "memory '2GoB' is not a size"),
    ({"memory": 0}, ValueError, "is not positive"),
    ({"workers": 0}, ValueError, "workers=0 is not a whole number of at least 1"),
    ({"threads": 1.5}, ValueError, "threads=1.5 is not a whole number"),
    ({"slab": 3}, TypeError, "slab=3 is not a sequence"),
    ({"slab": (0, 1, 1)}, ValueError, "slab=0 is not a whole number"),
    ({"window": True}, ValueError, "window=True is not"),
    ({"max_retries": -1}, ValueError, "max_retries=-1 is not a whole number of at least 0"),
    ({"accelerator": "t4"}, ValueError, "accelerator='t4' is not a Beam resource hint"),
    ({"resume": True, "overwrite": True}, ValueError, "choose one"),
]


@pytest.mark.parametrize(("wrong", "kind", "says"), WRONG)
def test_refused_alike_wherever_it_is_said(wrong, kind, says):
    mean = bv.mean(bv.open(np.zeros((2, 3, 4), "u1")))
    ways = [
        lambda: RunOptions(**wrong),
        lambda: bv.compute(mean, runner=None, **wrong),
        lambda: bv.plan(mean, **wrong),
        lambda: bv.Compute(mean, **wrong),
    ]
    if not {"slab", "window"} & {*wrong}:
        ways.append(lambda: bv.ComputeAll(lambda path: {"mean": mean}, **wrong))
    for way in ways:
        with pytest.raises(kind, match=says):
            way()


@pytest.mark.parametrize("journal", [True, False, 3])
def test_a_journal_is_a_place(journal):
    mean = bv.mean(bv.open(np.zeros((2, 3, 4), "u1")))
    for way in (bv.compute, bv.Compute):
        with pytest.raises(TypeError, match=f"journal={journal} is not a place; give a path"):
            way(mean, journal=journal)


def test_what_others_say_counts_where_these_say_nothing():
    options = RunOptions(workers=2).or_else(workers=3, memory="1GiB")
    assert (options.workers, options.memory_bytes) == (2, 1 << 30)


@pytest.mark.parametrize("name", USER_OPTIONS)
def test_an_option_is_known_wherever_runs_begin(name):
    """A new field is on the command line, in YAML and in the service, with its default, by itself."""
    default = USER_OPTIONS[name].default
    parser = argparse.ArgumentParser()
    computing(parser)
    for function in (bv.compute, bv.plan, bv.Compute, yaml.ComputeRecipe):
        assert signature(function).parameters[name].default == default
        assert f"    {name} : " in function.__doc__
    if USER_OPTIONS[name].metadata["where"]:
        assert parser.get_default(name) in (default, None)
        assert f"--{name.replace('_', '-')}" in parser.format_help()
    assert name in CATALOGUE["ComputeRecipe"].config._fields
    assert (name in RECIPE_OPTIONS) == (name in TOP)
    taken = signature(bv.ComputeAll).parameters.keys() & {name}
    assert taken == signature(yaml.ComputeAll).parameters.keys() & {name}
    assert taken == {*CATALOGUE["ComputeAll"].config._fields} & {name}


def test_calls_of_plan_and_compute_have_the_same_parameters():
    assert signature(bv.plan).parameters == signature(bv.compute).parameters
    mean = bv.mean(bv.open(np.zeros((2, 3, 4), "u1")))
    with pytest.raises(TypeError, match="plan has no parameter 'wokers'; did you mean workers"):
        bv.plan(mean, wokers=2)
    with pytest.raises(TypeError, match=r"Compute: wokers=2 is not .* no option of that name"):
        bv.Compute(mean, wokers=2)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"runner": None},
        {"runner": "FnApiRunner", "overwrite": True},
        {"options": ["--direct_running_mode=multi_processing"], "workers": 3},
        {"runner": "FlinkRunner", "options": ["--parallelism=24"], "workers": 2},
        {"journal": "book"},
    ],
)
def test_plan_is_for_the_runner_of_compute(tmp_path, how):
    """Also without the machine of that runner: only the run needs it."""
    how = {"memory": "2GiB", **how}  # the free memory of this machine changes
    bv.compute(bv.open(np.zeros((64, 30, 40), "u1")).to(tmp_path / "in.zarr"), runner=None)
    smooth = bv.gaussian_filter(bv.open(tmp_path / "in.zarr"), 1)
    target = smooth if "journal" in how else smooth.to(tmp_path / "out.zarr")
    planned = []

    class Planned(BaseException):
        pass

    def stop(plan):
        planned.append(plan)
        raise Planned

    with pytest.raises(Planned):
        run([target], RunOptions.of({"runner": "auto", **how}), on_plan=stop)
    plan = bv.plan(target, **how)
    assert plan.explain(verbose=True) == planned[0].explain(verbose=True)
    same = ("memory", "base", "processes", "workers", "machines", "in_process")
    assert [getattr(plan, n) for n in same] == [getattr(planned[0], n) for n in same]
    assert plan.machines == (12 if "FlinkRunner" in how.values() else 1)


def test_a_plan_for_a_larger_machine_is_not_refused():
    smooth = bv.gaussian_filter(bv.open(np.zeros((64, 30, 40), "u1")), 1)
    plan = bv.plan(smooth, memory="600GiB", workers=4000, threads=96_000)
    assert plan.workers == 4000
    with pytest.raises(ValueError, match="workers=4000 is too large for this machine"):
        bv.compute(smooth, workers=4000)


def test_estimate_and_plan_name_machines_alike():
    plan = bv.plan(bv.mean(bv.open(np.zeros((64, 30, 40), "u1"))), machines=3)
    assert bv.estimate(plan, "4x16GiB").machines == 3
    assert bv.estimate(plan, "4x16GiB", machines=5).machines == 5
    with pytest.raises(TypeError, match="estimate has no parameter 'workers'"):
        bv.estimate(plan, "4x16GiB", workers=5)
