"""Runs the notebooks of ``docs/tutorials``, and makes a page of each with what its cells show.

Cells run in this process, one after the other, in a folder that goes afterwards. What the last line of a cell
is worth is shown as a notebook shows it: a picture, a table, or text.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Shown(NamedTuple):
    """A cell that was run, or a text.

    Attributes
    ----------
    kind : {"markdown", "code"}
    source : str
    printed : str
    value : object
        Of the last line, or None.
    """

    kind: str
    source: str
    printed: str = ""
    value: Any = None


def run(notebook: Path) -> Iterator[Shown]:
    """Run a notebook in a folder of its own, from top to bottom."""
    known: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for cell in json.loads(notebook.read_text())["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] != "code":
                yield Shown("markdown", source)
                continue
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            printed, value = io.StringIO(), None
            with contextlib.redirect_stdout(printed):
                exec(compile(tree, notebook.name, "exec"), known)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), notebook.name, "eval"), known)
            yield Shown("code", source, printed.getvalue(), value)


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def write_notebooks(folder: Path, pages: Path) -> str:
    """Write a page for each notebook, and one that lists them, whose name in its folder comes back."""
    pages.mkdir()
    entries = []
    for notebook in sorted(folder.glob("*.ipynb")):
        text = "\n\n".join(map(_page, run(notebook)))
        (pages / f"{notebook.stem}.md").write_text(text + "\n")
        title = text.partition("\n")[0].removeprefix("# ")
        entries.append((notebook.stem, title, text.split("\n\n")[1]))
    listed = "\n".join(f"- [{title}]({name}.md). {about}" for name, title, about in entries)
    names = "\n".join(name for name, *_ in entries)
    (pages / "index.md").write_text(
        "# Gallery\n\nNotebooks that make their data and run in seconds. They are in `docs/tutorials`."
        f"\n\n{listed}\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"
    )
    return "index.md"


def _page(shown: Shown) -> str:
    """A cell, and what it shows, as MyST."""
    if shown.kind == "markdown":
        return shown.source
    parts = [f"````python\n{shown.source}\n````"]
    if shown.printed.strip():
        parts.append(f"````text\n{shown.printed.rstrip()}\n````")
    html = shown.value._repr_html_() if hasattr(shown.value, "_repr_html_") else None
    if html:
        parts.append(f'````{{raw}} html\n<div class="shown">{html}</div>\n````')
    elif shown.value is not None:
        parts.append(f"````text\n{shown.value!r}\n````")
    return "\n\n".join(parts)
