"""Options that are refused for any volumes, with the words of each surface."""

import argparse
from inspect import signature

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes import yaml
from beam_volumes.cli.options import computing
from beam_volumes.expansion.catalogue import CATALOGUE
from beam_volumes.plan.run_options import RECIPE_OPTIONS, USER_OPTIONS, RunOptions
from beam_volumes.recipes.catalogue import TOP

WRONG = [
    ({"memory": "2GoB"}, ValueError, "memory '2GoB' is not a size"),
    ({"memory": 0}, ValueError, "is not positive"),
    ({"workers": 0}, ValueError, "workers=0 is not a whole number from 1 on"),
    ({"threads": 1.5}, ValueError, "threads=1.5 is not a whole number"),
    ({"slab": 3}, TypeError, "slab=3 is not a sequence"),
    ({"slab": (0, 1, 1)}, ValueError, "slab=0 is not a whole number"),
    ({"window": True}, ValueError, "window=True is not"),
    ({"max_retries": -1}, ValueError, "max_retries=-1 is not a whole number from 0 on"),
    ({"accelerator": "t4"}, ValueError, "accelerator='t4' is not a Beam resource hint"),
    ({"resume": True, "overwrite": True}, ValueError, "choose one"),
]


@pytest.mark.parametrize(("wrong", "kind", "says"), WRONG)
def test_refused_alike_wherever_it_is_said(wrong, kind, says):
    mean = bv.mean(bv.open(np.zeros((2, 3, 4), "u1")))
    ways = [
        lambda: RunOptions(**wrong),
        lambda: bv.compute(mean, runner=None, **wrong),
        lambda: bv.Compute(mean, **wrong),
    ]
    if not {"resume", "max_retries", "accelerator"} & {*wrong}:
        ways.append(lambda: bv.plan(mean, **wrong))
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
    for function in (bv.compute, bv.Compute, yaml.ComputeRecipe):
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
