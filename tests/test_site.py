"""What the documentation's site is made of; `make site` builds it, with every warning an error."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.cli.main import parser
from beam_volumes.version import __version__

SITE = Path(__file__).parents[1] / "docs/site"


@pytest.fixture
def site(monkeypatch):
    """A module of the site's, by name."""
    monkeypatch.syspath_prepend(str(SITE))
    return lambda name: runpy.run_path(str(SITE / f"{name}.py"))


def test_the_quickstart_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    known = {}
    text = (SITE.parent / "get-started/quickstart.md").read_text()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S):
        exec(compile(block, "quickstart.md", "exec"), known)
    assert "pass 2" in capsys.readouterr().out
    assert known["rows"].num_rows == known["count"] == len(np.unique(bv.open("cells.ome.zarr"))) - 1


def test_pages_show_voxels_of_stored_volumes(site, tmp_path):
    (tmp_path / "page.py").write_text(
        '"""A volume\n\nIt is stored."""\n\nimport numpy as np\n\nimport beam_volumes as bv\n\n'
        "stored = bv.open(np.arange(480, dtype='u1').reshape(6, 8, 10)).to('v.zarr')\n"
        "bv.compute(stored)\n# %%\nbv.open('v.zarr')\n"
    )
    site("run_pages")["_write"](tmp_path / "page.py", tmp_path, ".")
    volume = bv.compute(
        bv.open(np.arange(480, dtype="u1").reshape(6, 8, 10)).to(tmp_path / "v.zarr")
    )
    (picture,) = re.findall(r"base64,([^\"']+)", volume._repr_html_())
    assert picture in (tmp_path / "page.md").read_text()


def test_pictures_are_of_functions_that_are_there(site):
    assert site("function_pictures")["PICTURES"].keys() <= EXPORTS.keys()


def test_every_function_has_a_family(site):
    rooms = {module.split(".")[2] for module in EXPORTS.values() if module.startswith(".ops.")}
    assert rooms <= site("reference")["FAMILIES"].keys()


def test_every_verb_has_an_example_that_is_understood(site):
    reference = site("reference")
    verbs = reference["_subparsers"](parser())
    assert verbs.keys() == reference["EXAMPLES"].keys()
    for verb, example in reference["EXAMPLES"].items():
        program, *arguments = shlex.split(example)
        assert program == "beam-volumes" and arguments[0] == verb
        parser().parse_args(arguments)


def test_pictures_of_concepts_are_current():
    script = SITE.parent / "concept_pictures.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_link_that_leads_nowhere_is_found(site, tmp_path):
    (tmp_path / "b.html").write_text('<p id="here">')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="b.html#there"></a><img src="c.png">'
        '<a href="https://example.org/x"></a><base href="/root/">'
    )
    lines = site("links")["broken_links"](tmp_path)
    assert lines == [
        "a.html: b.html#there: no such place in that page",
        "a.html: c.png is not there",
    ]


def test_addresses_are_those_of_pyproject(site):
    """The README has links within the repository, which become absolute for PyPI."""
    urls = site("project")["metadata"]()["urls"]
    root = SITE.parents[1]
    citation = (root / "CITATION.cff").read_text()
    assert f"\nrepository-code: {urls['Repository']}\n" in citation
    assert f"\nurl: {urls['Documentation']}\n" in citation
    assert f"\nversion: {__version__}\n" in citation
    assert all(urls[name].startswith(urls["Repository"]) for name in ("Issues", "Changelog"))
    ask = [sys.executable, "setup.py", "--quiet", "--long-description"]
    done = subprocess.run(ask, cwd=root, capture_output=True, text=True, check=True)
    links = re.findall(r"\]\(([^)]+)\)", done.stdout)
    assert f"{urls['Repository']}/blob/v{__version__}/docs/get-started/install.md" in links
    assert f"{urls['Repository']}/raw/v{__version__}/docs/images/segments.png" in links
    assert [link for link in links if not link.startswith("https://")] == []


@pytest.mark.parametrize(
    ("page", "source"),
    [
        ("index", "README.md"),
        ("how-to/crop", "docs/how-to/crop.md"),
        ("CONTRIBUTING", "CONTRIBUTING.md"),
        ("notebooks/cells", "docs/tutorials/cells.ipynb"),
        ("gallery/filters/rolling_ball", "docs/gallery/filters/rolling_ball.py"),
        ("functions/gaussian_filter", "beam_volumes/ops/filters/linear.py"),
        ("functions/options", "beam_volumes/graph/options.py"),
        ("classes/Slab", "beam_volumes/transforms/slab.py"),
        ("functions/index", None),
        ("search", None),
    ],
)
def test_pages_are_edited_where_they_are_written(site, page, source):
    assert site("documents")["source_of"](SITE.parents[1], page) == source
