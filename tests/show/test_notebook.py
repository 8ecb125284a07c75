"""The notebook of the docs runs from top to bottom, and shows pictures."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_notebook_runs():
    run = runpy.run_path(str(DOCS / "site/run_pages.py"))["run"]
    results = [cell.value for cell in run(DOCS / "tutorials/cells.ipynb")]
    html = [r._repr_html_() for r in results if hasattr(r, "_repr_html_")]
    assert sum("data:image/png;base64," in h for h in html) >= 2 and any("<svg" in h for h in html)
    rows, labels = next(r for r in reversed(results) if r is not None)
    assert rows == labels > 10
