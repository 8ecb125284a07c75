"""What the README and the documentation show is run, on small data."""

import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import imagecodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorstore as ts
import yaml
from scipy import ndimage
from skimage import morphology

import beam_volumes as bv
from beam_volumes.base.exports import EXPORTS
from beam_volumes.cli.main import parser
from beam_volumes.kernels import cache
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import parse_recipe

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


#: Pages that go on, in Python, where the README ends.
CONTINUED = ("README.md", "docs/how-to/python.md", "docs/how-to/pipelines.md")


def test_python(slices):
    known = {}
    pq.write_table(pa.table({"label": [1], "value": [7]}), "mapping.parquet")
    for page in CONTINUED:
        for text in snippets(page, "python"):
            exec(compile(text, page, "exec"), known)
    em = bv.open("slices")
    smooth = bv.gaussian_filter(em, 1.5)
    mask = np.asarray(smooth >= bv.threshold_otsu(smooth))
    expected, n = ndimage.label(morphology.remove_small_objects(mask, max_size=500))
    assert np.array_equal(bv.open("cells.ome.zarr"), expected)
    assert np.array_equal(bv.open("again.ome.zarr"), expected)
    assert known["count"] == n == pq.read_table("cells.parquet").num_rows
    depth = ndimage.distance_transform_edt(mask, (10, 10, 10))
    assert np.allclose(bv.open("depth.zarr"), depth, rtol=1e-6)
    assert np.array_equal(bv.open("median.zarr"), bv.median_filter(em, 3))
    assert known["mean"] == np.asarray(em).mean()
    assert known["levels"].shape == (2,) and "intensity_mean-raw" in known["table2"].columns
    assert known["steps"].dtype == np.float32
    assert np.asarray(known["steps"]).shape == em.shape


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
        for page in ("reference/command-line", "how-to/runs")
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
    """The lines of the page are those of the README's example for the demo's slices, in their order."""
    monkeypatch.chdir(tmp_path)
    Path("slices").mkdir()
    image = imagecodecs.png_encode(np.zeros((512, 512), "u1"))
    for z in range(256):
        Path(f"slices/{z:03}.png").write_bytes(image)
    (text,) = snippets("README.md", "python")
    known = {}
    exec(text.partition("print(")[0].replace("slices/*.png", "slices"), known)
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))  # no kernel is compiled yet
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
    """Dataflow's page has a plan for a volume of which there is nothing but its description."""
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
        built.append(build(parse_recipe(text)).targets)
    assert len(built) == 6 and all(built)


def test_the_table_of_functions_is_current():
    """Written by its script; a function that its tables do not name may be on it or not."""
    assert runpy.run_path(str(ROOT / "docs/coverage.py"))["current"]()
    page = (ROOT / "docs/reference/coverage.md").read_text()
    transforms = [n for n, module in EXPORTS.items() if module == ".transforms" and n != "Slab"]
    for name in transforms:
        assert f"`{name}`" in page, name
