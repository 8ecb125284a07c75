"""`run --each`: a recipe for many volumes, with a broken one among them."""

import re
import shutil

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.recipes.each import Item, items
from tests.tiers import thorough

RECIPE = """\
input: {path: nothing, voxel_size: 5, unit: nm}
steps:
  mask: {op: greater, inputs: [input, 100]}
  count: {op: count_nonzero}
outputs: [{step: mask, path: anywhere/mask.zarr}, {step: count}]
"""


@pytest.mark.parametrize(
    "runner",
    [(), pytest.param(("--runner", "FnApiRunner"), marks=thorough)],
    ids=["alone", "pipeline"],
)
def test_one_that_fails_does_not_stop_the_others(runner, work, command):
    (work / "r.yaml").write_text(RECIPE)
    for name in ("a", "c"):
        shutil.copytree("slices", f"data/{name}")
    shutil.copytree("slices", "data/b")
    (work / "data/b/z3.tif").write_text("no image")
    line = ("run", "r.yaml", "--each", "data/*", "--out", "results", "--memory", "1GiB", *runner)
    code, out, err = command(*line)
    n = int(bv.compute(bv.count_nonzero(bv.open("slices") > 100), runner=None))
    assert code == 1
    assert [s for s in out.splitlines() if "count" in s] == [f"a: count: {n}", f"c: count: {n}"]
    told = err[err.index("2 of 3 volumes done in") :].splitlines()
    assert "1 failed" in told[0] and told[1].startswith("  data/b: ") and "z3.tif" in told[1]
    assert sorted(p.name for p in (work / "results").iterdir() if p.name != "b") == ["a", "c"]
    for name in ("a", "c"):
        stored = bv.open(f"results/{name}/mask.zarr")
        assert np.array_equal(stored, bv.open("slices") > 100)
    # mended, the same command with --resume does the rest
    shutil.copy("slices/z3.tif", "data/b/z3.tif")
    code, out, err = command(*line, "--resume")
    assert code == 0 and "3 of 3 volumes done" in err and f"b: count: {n}" in out


def test_names_of_many_volumes_differ(work):
    for path in ("m1/em.tif", "m2/em.tif", "m2/em.nrrd", "m2/raw.ome.zarr"):
        (work / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (work / "data" / path).write_text("")
    found = [item.name for item in items("data/*/*")]
    assert found == ["m1/em", "m2/em.nrrd", "m2/em.tif", "m2/raw"]
    assert items("data/m1/*") == [Item("data/m1/em.tif", "em")]


def test_parts_have_all_volumes_with_their_names(work, command):
    """As tasks of an array compute them: names do not depend on the parts."""
    (work / "r.yaml").write_text(RECIPE)
    for path in ("m1/a", "m2/a", "m2/b"):
        shutil.copytree("slices", f"data/{path}")
    line = (
        "run",
        "r.yaml",
        "--each",
        "data/*/*",
        "--out",
        "results",
        "--memory",
        "1GiB",
        "--quiet",
    )
    want = {"1/2": {"m1/a", "m2/b"}, "2/2": {"m2/a"}, "4/4": set()}
    for part, names in want.items():
        code, out, _ = command(*line, "--part", part, "--overwrite")
        assert code == 0
        assert {s.partition(":")[0] for s in out.splitlines() if "count" in s} == names


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--each", "data/*"), "--each needs --out DIR"),
        (("--each", "nothing/*", "--out", "o"), "--each nothing/.: no file matches"),
        (("--each", "s3://b/*", "--out", "o"), "not a pattern for local files"),
        (("--out", "o"), "--out requires --each"),
        (
            (
                "--each",
                "slice*",
                "--out",
                "o",
                "--set",
                "outputs.1={step: count, path: x/mask.zarr}",
            ),
            "two outputs of the recipe are called 'mask.zarr'",
        ),
        (("--each", "slices", "--out", "r", "--part", "3/2"), "--part 3/2: write it as K/N"),
        (("--part", "1/2"), "--part requires --each"),
    ],
)
def test_mistakes_of_each(arguments, message, work, command):
    (work / "r.yaml").write_text(RECIPE)
    code, out, err = command("run", "r.yaml", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err), err
