"""The notebooks of the docs run from top to bottom, check their claims, and show pictures."""

import ast
import json
import runpy
from pathlib import Path

import pytest

from tests.tiers import thorough

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))
by_notebook = pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)


def test_the_notebook_runs():
    run = runpy.run_path(str(DOCS / "site/run_pages.py"))["run"]
    results = [cell.value for cell in run(DOCS / "tutorials/cells.ipynb")]
    html = [r._repr_html_() for r in results if hasattr(r, "_repr_html_")]
    assert sum("data:image/png;base64," in h for h in html) >= 2 and any("<svg" in h for h in html)
    rows, labels = next(r for r in reversed(results) if r is not None)
    assert rows == labels > 10


@thorough
@pytest.mark.parametrize("name", [page.stem for page in NOTEBOOKS if page.stem != "cells"])
def test_a_notebook_shows_pictures(name):
    run = runpy.run_path(str(DOCS / "site/run_pages.py"))["run"]
    shown = list(run(DOCS / f"tutorials/{name}.ipynb"))
    assert sum(hasattr(cell.value, "_repr_png_") for cell in shown) >= 2


@by_notebook
def test_a_notebook_checks_its_claim(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    nodes = (node for source in code for node in ast.walk(ast.parse(source)))
    assert any(isinstance(node, ast.Assert) for node in nodes)
