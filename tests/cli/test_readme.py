"""What the README and the documentation show is run, on small data."""

import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import imagecodecs
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorstore as ts
import yaml
from scipy import ndimage
from skimage import morphology

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.cli.main import parser
from beam_volumes.kernels import cache
from beam_volumes.plan.cost import memory
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import parse_recipe
from beam_volumes.recipes.registration import register_inputs
from tests.transforms.fusion import recording

ROOT = Path(__file__).parents[2]
FENCED = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def snippets(name, language):
    return [text for kind, text in FENCED.findall((ROOT / name).read_text()) if kind == language]


@pytest.fixture
def slices(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    Path("slices").mkdir()
    for z in range(20):
        image = rng.integers(0, 255, (40, 50), "u1")
        Path(f"slices/{z}.png").write_bytes(imagecodecs.png_encode(image))


def test_python(slices):
    for text in snippets("README.md", "python"):
        exec(compile(text, "README.md", "exec"), {})
    smooth = bv.gaussian_filter(bv.open("slices"), 1.5)
    mask = np.asarray(smooth >= bv.threshold_otsu(smooth))
    expected, n = ndimage.label(morphology.remove_small_objects(mask, max_size=500))
    assert np.array_equal(bv.open("cells.ome.zarr"), expected)
    assert pq.read_table("cells.parquet").num_rows == n


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    """The folder that a reader has after the quickstart, here with fewer slices, in the repository."""
    folder, before = tmp_path_factory.mktemp("quickstart"), Path.cwd()
    for name in ("examples", "templates"):
        (folder / name).symlink_to(ROOT / name)
    os.chdir(folder)
    try:
        run_python("docs/get-started/quickstart.md", {"(64, 256, 256)": "(24, 96, 96)"})
    finally:
        os.chdir(before)
    return folder


def run_python(name, changes=()):
    known = {}
    for text in snippets(name, "python"):
        for old in changes:
            text = text.replace(old, changes[old])
        exec(compile(text, name, "exec"), known)
    return known


def shown_cells(known):
    found, _ = ndimage.label(np.asarray(bv.open("slices") > bv.threshold_otsu(bv.open("slices"))))
    assert np.array_equal(bv.open("bright-cells.ome.zarr"), found)
    assert np.array_equal(bv.open("median.zarr"), bv.median_filter(bv.open("slices"), 3))


def shown_gpu(known):
    grey = bv.rgb2gray(bv.open("slide.svs"))
    assert np.array_equal(bv.open("edges.zarr"), bv.sobel(bv.gaussian_filter(grey, 2)))


def shown_numbers(known):
    em = np.asarray(bv.open("slices"))
    assert known["mean"] == em.mean()
    assert np.array_equal(np.asarray(known["top"]), em.max(axis=0))


def shown_channels(known):
    assert known["levels"].shape == (2,) and "intensity_mean-raw" in known["table"].columns


def shown_function(known):
    em = np.asarray(bv.open("slices")).astype("f4")
    expected = em[:, :, 1:] - em[:, :, :-1]
    assert np.array_equal(np.asarray(bv.open("steps.zarr"))[:, :, 1:], expected)


def shown_distance(known):
    voxels = ndimage.distance_transform_edt(np.asarray(known["mask"]), (40, 10, 10))
    assert np.allclose(known["depth"], voxels, rtol=1e-6)
    whole = np.asarray(bv.open("split.ome.zarr"))
    assert np.array_equal(whole > 0, known["mask"]) and np.ptp(whole) > 1


def shown_table(known):
    rows = known["rows"]
    voxels = np.bincount(np.asarray(known["cells"]).ravel())[1:]
    assert np.array_equal(rows["area"], 4000 * voxels[voxels > 0])
    assert pq.read_table("cells.parquet").num_rows == len(rows["label"])


#: What the results of a page are, beyond that it runs from top to bottom.
RESULTS = {
    "arrays": shown_numbers,
    "beam-pipeline": shown_cells,
    "channels-and-time": shown_channels,
    "gpu": shown_gpu,
    "measure": shown_table,
    "own-function": shown_function,
    "split-objects": shown_distance,
}
#: The paragraph of a page with the command that makes its input.
INPUT = re.compile(r"^Input for this page: .*?\n\n", re.M | re.S)
PLACE = ["--project=p", "--region=r", "--temp_location=gs://b/tmp"]


@pytest.mark.parametrize("page", sorted(p.stem for p in (ROOT / "docs/how-to").glob("*.md")))
def test_how_to(page, quickstart, tmp_path, monkeypatch, command):
    """A page runs from its first line to its last, Python and commands, where its reader runs it."""
    folder = shutil.copytree(quickstart, tmp_path / "here", symlinks=True)
    monkeypatch.chdir(folder)
    text = (ROOT / f"docs/how-to/{page}.md").read_text()
    for words in map(shlex.split, re.findall("`([^`]+)`", "".join(INPUT.findall(text)))):
        if len(words) > 1:
            make_input(words, command)
    stored, known = recording(monkeypatch), {}
    for kind, part in FENCED.findall(text):
        if kind == "python":
            exec(compile(part, page, "exec"), known)
        for line in part.replace("\\\n", " ").splitlines() if kind == "sh" else ():
            run_line(shlex.split(line, comments=True), command)
    if page in RESULTS:
        RESULTS[page](known)
    # No runner stores voxels between the steps of these pipelines.
    assert not set().union(*stored) and (page != "beam-pipeline" or len(stored) > 7)


def make_input(words, command):
    if words[0] == "python":
        assert subprocess.run([sys.executable, *words[1:]]).returncode == 0
    else:
        assert words == ["beam-volumes", "demo"]
        assert command("demo", "--shape", "32,96,96", "--runner", "none")[0] == 0


def run_line(words, command):
    program, verb, *rest = words
    if program == "pip":
        assert verb == "install"
    elif verb in ("studio", "view"):  # they serve until they are stopped
        names = [word for word in rest if not word.startswith("-") and word != "cells.yaml"]
        assert all(Path(name).exists() for name in names), words
    else:
        more = PLACE if "DataflowRunner" in rest else []
        code, _, error = command(verb, *rest, *more)
        assert program == "beam-volumes" and code == 0, (words, error)


def test_make():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)
    (text,) = snippets("README.md", "sh")
    for line in text.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "make" and set(arguments) <= set(targets), line


def test_shell(slices, command):
    (recipe,) = snippets("docs/reference/command-line.md", "yaml")
    Path("recipe.yaml").write_text(recipe)
    texts = [
        t
        for page in ("reference/command-line", "how-to/resume", "how-to/verify")
        for t in snippets(f"docs/{page}.md", "sh")
    ]
    for line in "".join(texts).splitlines():
        program, *arguments = shlex.split(line)
        assert program == "beam-volumes"
        runner = (
            []
            if arguments[0] in ("info", "verify", "bench", "ops", "check")
            else ["--runner", "none"]
        )
        code, _, err = command(*arguments, *runner)
        assert code == 0, (line, err)
    assert bv.open("trial.ome.zarr").shape == (16, 40, 50)
    assert bv.open("cells.ome.zarr").voxel_size == (10, 10, 10)
    head, *rows = Path("bright.csv").read_text().splitlines()
    found = np.unique(bv.open("bright.ome.zarr"))
    assert head.startswith("label,") and len(found) > 1
    assert [int(row.split(",")[0]) for row in rows] == found[found > 0].tolist()
    assert pq.read_table("filled.parquet").num_rows == bv.compute(
        bv.max(bv.open("filled.ome.zarr"))
    )


def test_every_verb_is_listed():
    page = (ROOT / "docs/reference/command-line.md").read_text()
    commands = next(a for a in parser()._actions if a.choices)
    assert re.findall(r"^\| `([\w-]+)` \|", page, re.M) != []
    assert set(re.findall(r"^\| `([a-z][\w-]+)` \|", page, re.M)) == set(commands.choices)


def test_the_plan_that_is_shown(tmp_path, monkeypatch):
    """The page shows the plan of the README's example for the demo's slices, line by line."""
    monkeypatch.chdir(tmp_path)
    Path("slices").mkdir()
    image = imagecodecs.png_encode(np.zeros((512, 512), "u1"))
    for z in range(256):
        Path(f"slices/{z:03}.png").write_bytes(image)
    (text,) = snippets("README.md", "python")
    known = {}
    exec(text.partition("print(")[0].replace("slices/*.png", "slices"), known)
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))  # no kernel is compiled yet
    monkeypatch.setattr(memory, "_used", {})
    monkeypatch.setattr(
        memory, "_this_process", lambda: memory._Process(100 << 20, 20 << 20, 214 << 20)
    )
    said = bv.plan(*known["targets"], memory="2GiB", threads=2).explain(verbose=True)
    check_shown("docs/explanation/memory.md", said.replace(f"{tmp_path}/", ""))


def check_shown(page, said):
    """The lines that a page shows of a plan are there, in their order; three dots stand for any text."""
    rest = iter(said.splitlines())
    shown = next(text for text in snippets(page, "text") if "passes, " in text)
    for line in shown.splitlines():
        pattern = re.escape(line).replace(re.escape("..."), ".*")
        assert line == "..." or any(re.fullmatch(pattern, other) for other in rest), (line, said)


def test_the_machines_that_are_shown(tmp_path, monkeypatch, command):
    """Dataflow's page has a plan for a volume that only exists as a description."""
    monkeypatch.chdir(tmp_path)
    store = {"driver": "file", "path": f"{tmp_path}/em.zarr"}
    chunks = {"name": "regular", "configuration": {"chunk_shape": [128, 128, 128]}}
    metadata = {"shape": [8192] * 3, "data_type": "uint8", "chunk_grid": chunks}
    spec = {"driver": "zarr3", "kvstore": store, "metadata": metadata}
    ts.open(spec, create=True).result()
    (recipe,) = snippets("docs/reference/command-line.md", "yaml")
    recipe = recipe.replace("{path: slices,", "{path: em.zarr,").replace("op: less", "op: greater")
    Path("recipe.yaml").write_text(re.sub(r"\n  inside: .*", "", recipe))
    page = "templates/dataflow/README.md"
    line = next(s for s in snippets(page, "sh") if "--dry-run" in s)
    _, *arguments = shlex.split(line)
    code, said, error = command(
        *arguments, "--project=p", "--region=r", "--temp_location=gs://b/tmp"
    )
    assert code == 0, error
    check_shown(page, said)


#: What parts of recipes in the documentation belong to.
WHOLE = """
input: slices
steps:
  smooth: {op: gaussian_filter, sigma: 1}
  threshold: threshold_otsu
  mask: {op: greater, inputs: [smooth, threshold]}
"""


def test_recipes(slices):
    """Whole ones are built; the others are parts of one, and are put into one."""
    bv.compute(bv.open("slices").to("em.zarr"), bv.open("slices").to("masks.ome.zarr"), runner=None)
    group = json.loads(Path("masks.ome.zarr/zarr.json").read_text())
    levels = group["attributes"]["ome"]["multiscales"][0]["datasets"]
    levels.append({**levels[0], "path": "1"})
    Path("masks.ome.zarr/zarr.json").write_text(json.dumps(group))
    shutil.copytree("masks.ome.zarr/0", "masks.ome.zarr/1")
    affinities = bv.stack([bv.open("slices").astype("uint8")] * 3)
    truth = bv.label(bv.open("slices") > 100)
    bv.compute(affinities.to("affinities.zarr"), truth.to("truth.zarr"), runner=None)
    built = []
    for text in snippets("docs/reference/recipes.md", "yaml"):
        if "OPERATION" in text:  # what a recipe may hold, told in words
            continue
        parts = yaml.safe_load(text)
        if "input" not in parts and "inputs" not in parts:
            text = f"{WHOLE}{text}"
        elif "output" not in parts and "outputs" not in parts:
            text += "steps: {bright: {op: greater, inputs: [em, mask]}}\noutput: bright.zarr\n"
        recipe = parse_recipe(text)
        assert len([*register_inputs(recipe)]) == 2 * len(recipe.registrations)
        built.append(build(recipe).targets)
    assert len(built) == 7 and all(built)


def test_the_table_of_functions_is_current():
    """Written by its script; a function that its tables do not name may be on it or not."""
    assert runpy.run_path(str(ROOT / "docs/coverage.py"))["current"]()
    page = (ROOT / "docs/reference/coverage.md").read_text()
    transforms = [n for n, module in EXPORTS.items() if module == ".transforms" and n != "Slab"]
    for name in transforms:
        assert f"`{name}`" in page, name
