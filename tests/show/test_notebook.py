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
    data = [o["data"] for cell in cells for o in cell.outputs if "data" in o]
    assert (
        sum("image/png" in d or "data:image/png" in "".join(d.get("text/html", ())) for d in data)
        >= 2
    )
    assert path.stat().st_size < 1 << 20
    return cells


def texts(cell):
    """The kinds and the text of each output. Plans depend on the machine."""
    found = [
        (sorted(o.get("data", ())), o.get("text") or o["data"]["text/plain"]) for o in cell.outputs
    ]
    return [(kinds, text) for kinds, text in found if not text[0].startswith("<Plan")]


def test_the_notebook_runs():
    html = [
        cell.value._repr_html_() for cell in shown("cells") if hasattr(cell.value, "_repr_html_")
    ]
    assert any("<svg" in text for text in html)


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
