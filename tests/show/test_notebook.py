"""The notebook of the docs runs from top to bottom, and what it shows are pictures."""

import ast
import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "docs/tutorials/cells.ipynb"


def shown(cell, known):
    """What a cell's last expression is, after all of it has been executed."""
    tree = ast.parse("".join(cell["source"]))
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), known)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), "last", "eval"), known)
    )


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = {}
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    results = [shown(cell, known) for cell in cells]
    html = [r._repr_html_() for r in results if hasattr(r, "_repr_html_")]
    assert sum("data:image/png;base64," in h for h in html) >= 2 and any("<svg" in h for h in html)
    rows, labels = results[-1]
    assert rows == labels > 10
