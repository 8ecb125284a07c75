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


def shown(name):
    """The cells of a notebook that is run, after a comparison with its stored output."""
    pages = runpy.run_path(str(DOCS / "site/run_pages.py"))
    path = DOCS / f"tutorials/{name}.ipynb"
    cells = list(pages["run"](path))
    assert [texts(cell) for cell in pages["stored"](path)] == [texts(cell) for cell in cells]
    assert sum("image/png" in o.get("data", ()) for cell in cells for o in cell.outputs) >= 2
    assert path.stat().st_size < 1 << 20
    return cells


def texts(cell):
    """The kinds and the text of each output."""
    return [
        (sorted(o.get("data", ())), o.get("text") or o["data"]["text/plain"]) for o in cell.outputs
    ]


def test_the_notebook_runs():
    results = [cell.value for cell in shown("cells")]
    html = [r._repr_html_() for r in results if hasattr(r, "_repr_html_")]
    assert sum("data:image/png;base64," in h for h in html) >= 2 and any("<svg" in h for h in html)
    rows, labels = next(r for r in reversed(results) if r is not None)
    assert rows == labels > 10


@thorough
@pytest.mark.parametrize("name", [page.stem for page in NOTEBOOKS if page.stem != "cells"])
def test_a_notebook_is_stored_with_its_output(name):
    """`make docs` stores it."""
    shown(name)


@by_notebook
def test_a_notebook_checks_its_claim(notebook):
    cells = json.loads(notebook.read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    nodes = (node for source in code for node in ast.walk(ast.parse(source)))
    assert any(isinstance(node, ast.Assert) for node in nodes)
