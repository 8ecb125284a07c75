"""The gallery: every script runs, checks its claim, and shows a picture; every family has three."""

import ast
import runpy
from pathlib import Path

import pytest

from tests.tiers import thorough

DOCS = Path(__file__).parents[1] / "docs"
SCRIPTS = sorted((DOCS / "gallery").glob("*/*.py"))
by_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: f"{s.parent.name}-{s.stem}")


@pytest.fixture(scope="module")
def run_pages():
    """The module that runs scripts and makes pages of them."""
    return runpy.run_path(str(DOCS / "site/run_pages.py"))


@thorough
@by_script
def test_a_script_runs(run_pages, script):
    shown = list(run_pages["run"](script))
    title, _, purpose = shown[0].source.partition("\n\n")
    assert shown[0].kind == "markdown" and title.startswith("# ") and purpose
    assert sum(hasattr(cell.value, "_repr_png_") for cell in shown) >= 2


@by_script
def test_a_script_checks_its_claim(script):
    tree = ast.walk(ast.parse(script.read_text()))
    assert any(isinstance(node, ast.Assert) or _is_check(node) for node in tree)


def _is_check(node):
    return isinstance(node, ast.Attribute) and node.attr.startswith("assert_")


def test_every_family_has_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "site"))
    families = runpy.run_path(str(DOCS / "site/reference.py"))["FAMILIES"].keys()
    # Functions of each voxel are one family here.
    for family in families - {"elementary"}:
        assert sum(script.parent.name == family for script in SCRIPTS) >= 3
    assert {script.parent.name for script in SCRIPTS} <= families


def test_a_script_becomes_cells(run_pages, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(
        '"""Title\n\nPurpose.\n"""\n\nx = 1\n\n# %%\n# Prose,\n# and more.\ny = x + 1\n# code\ny\n'
    )
    cells = [(cell.kind, cell.source, cell.value) for cell in run_pages["run"](script)]
    assert cells == [
        ("markdown", "# Title\n\nPurpose.", None),
        ("code", "x = 1", None),
        ("markdown", "Prose,\nand more.", None),
        ("code", "y = x + 1\n# code\ny", 2),
    ]


def test_a_script_whose_claim_is_wrong_fails(run_pages, tmp_path):
    script = tmp_path / "example.py"
    script.write_text('"""Title\n\nPurpose.\n"""\n\n# %%\nassert 1 > 2\n')
    with pytest.raises(AssertionError):
        list(run_pages["run"](script))


@by_script
def test_every_preview_is_shown(run_pages, script):
    # A page shows the value of a cell's last line.
    for kind, source in run_pages["_cells"](script):
        lines = ast.parse(source).body[:-1] if kind == "code" else []
        assert not [ast.unparse(s) for s in lines if ast.unparse(s).startswith("bv.preview(")]


def test_the_readme_shows_every_script():
    """`make docs` writes it."""
    text = (DOCS / "gallery/README.md").read_text()
    for script in SCRIPTS:
        picture = f"pictures/{script.parent.name}-{script.stem}.png"
        assert f"({script.parent.name}/{script.name})" in text and f"({picture})" in text
        assert (DOCS / "gallery" / picture).exists()
