"""The schema of recipes, and what shells are offered."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from beam_volumes.cli import completing
from beam_volumes.recipes.document import load
from tests.tiers import thorough

PAGES = [
    Path(__file__).parents[2] / "docs/reference" / name
    for name in ("recipes.md", "command-line.md")
]


@pytest.fixture
def validator(command):
    code, out, _ = command("schema")
    assert code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(out))
    return jsonschema.Draft202012Validator(json.loads(out))


def test_the_schema_takes_what_recipes_take(validator):
    texts = [
        t for p in PAGES for t in re.findall(r"^```yaml\n(.*?)^```", p.read_text(), re.M | re.S)
    ]
    whole = [t for t in texts if "steps" in t and "output" in t and "OPERATION" not in t]
    assert len(whole) >= 4
    for text in whole:
        validator.validate(load(text, "r.yaml").plain())
    good = {"input": "a", "steps": {"gaussian_filter": {"sigma": "${s}"}}, "output": "b"}
    validator.validate(good)
    for steps in (
        {"gaussian_filter": {"sgima": 1}},
        {"x": {"op": "gausian_filter"}},
        {"crop": {"box": 3}},
        {"x": {"sigma": 1}},
    ):
        assert not validator.is_valid({**good, "steps": steps}), steps
    assert not validator.is_valid({**good, "inputs": {}})


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell, command):
    code, out, _ = command("completion", shell)
    assert code == 0 and "beam-volumes" in out and "_ARGCOMPLETE" in out


@thorough
def test_what_is_offered(work):
    (work / "r.yaml").write_text("variables: {width: 2}\ninput: em\nsteps: {blur: {sigma: 1}}\n")
    for line, some in {
        "beam-volumes ch": {"chain", "check"},
        "beam-volumes run --over": {"--overwrite"},
        "beam-volumes run r.yaml --set ": {"width=", "input=", "steps.blur.sigma="},
    }.items():
        env = {**os.environ, "_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line))}
        env |= {"_ARGCOMPLETE_STDOUT_FILENAME": "out.txt", "_ARGCOMPLETE_IFS": "\n"}
        subprocess.run([sys.executable, "-m", "beam_volumes.cli.main"], env=env, check=True)
        found = {word.strip().replace("\\", "") for word in Path("out.txt").read_text().split("\n")}
        assert some <= found, (line, found)
    args = type("Args", (), {"words": ["em.zarr", "median_filter"]})
    assert completing.words("--si", args) == ["--size"]
    assert "gaussian_filter" in completing.words("gauss", args)
