"""Runs the notebooks of ``docs/tutorials`` and the scripts of ``docs/gallery``, and makes a page of each.

Notebooks store their output, and the gallery has a README with a picture of each script, so that both can be
read where the repository is looked at; ``make docs`` renews them. For the site, scripts are run again.

A script begins with a docstring: its title, and its purpose. After that, ``# %%`` begins a cell. The comment
that follows it is prose, and the rest of the cell is code.

Cells run in this process, one after the other, in a temporary folder. The value of a cell's last line is
shown as a notebook shows it: a picture, a table, or text.

Examples
--------
python docs/site/run_pages.py docs/tutorials/*.ipynb docs/gallery
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import imagecodecs
import numpy as np

from beam_volumes.base.public_names import EXPORTS

#: The folder of pictures in the gallery, and the pictures of a row of its README.
PICTURES, COLUMNS = "pictures", 4


class Shown(NamedTuple):
    """A cell that was run, or a text."""

    #: "markdown" or "code".
    kind: str
    source: str
    printed: str = ""
    #: The value of the last line, or None.
    value: Any = None
    #: What a notebook stores of it, in Jupyter's format.
    outputs: tuple[dict[str, Any], ...] = ()


class Page(NamedTuple):
    """A page that was written."""

    name: str
    title: str
    #: Its first paragraph.
    about: str


def run(path: Path, execute: bool = True) -> Iterator[Shown]:
    """Run a notebook or a script in a temporary folder, from top to bottom, or only read its cells."""
    known: dict[str, Any] = {}
    cells = list(_cells(path))
    with tempfile.TemporaryDirectory() as folder, _inside(folder):
        for kind, source in cells:
            if kind == "markdown" or not execute:
                yield Shown(kind, source)
                continue
            tree = ast.parse(source)
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            printed, value = io.StringIO(), None
            with contextlib.redirect_stdout(printed):
                exec(compile(tree, path.name, "exec"), known)
                if isinstance(last, ast.Expr):
                    value = eval(compile(ast.Expression(last.value), path.name, "eval"), known)
            outputs = _outputs(printed.getvalue(), value, folder)
            yield Shown(kind, source, printed.getvalue(), value, outputs)


def _outputs(printed: str, value: Any, folder: str) -> tuple[dict[str, Any], ...]:
    """A cell's output in Jupyter's format, with paths relative to the folder."""

    def lines(text: str) -> list[str]:
        return text.replace(f"{folder}/", "").splitlines(keepends=True)

    found: list[dict[str, Any]] = []
    if printed.strip():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed)})
    if value is not None:
        data: dict[str, Any] = {"text/plain": lines(repr(value))}
        if hasattr(value, "_repr_png_"):
            data["image/png"] = base64.b64encode(value._repr_png_()).decode()
        elif hasattr(value, "_repr_html_") and (html := value._repr_html_()):
            data["text/html"] = lines(html)
        result = {"data": data, "execution_count": None, "metadata": {}}
        found.append({**result, "output_type": "execute_result"})
    return tuple(found)


def stored(notebook: Path) -> Iterator[Shown]:
    """Return the cells of a notebook with their stored output."""
    for cell in json.loads(notebook.read_text())["cells"]:
        outputs = tuple(cell.get("outputs", ()))
        yield Shown(cell["cell_type"], "".join(cell["source"]), outputs=outputs)


def store(notebook: Path) -> None:
    """Run a notebook and store its output in its file."""
    written = json.loads(notebook.read_text())
    for k, (cell, shown) in enumerate(zip(written["cells"], run(notebook), strict=True), 1):
        if shown.kind == "code":
            cell["outputs"] = list(shown.outputs)
            cell["execution_count"] = k
            for output in cell["outputs"]:
                if "execution_count" in output:
                    output["execution_count"] = k
    notebook.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")


def _cells(path: Path) -> Iterator[tuple[str, str]]:
    """The cells of a notebook or a script: their kind and their text."""
    text = path.read_text()
    if path.suffix == ".ipynb":
        for cell in json.loads(text)["cells"]:
            yield cell["cell_type"], "".join(cell["source"])
        return
    docstring = ast.parse(text).body[0]
    title, _, purpose = ast.literal_eval(docstring.value).partition("\n")  # type: ignore[attr-defined]
    yield "markdown", f"# {title}\n\n{purpose.strip()}"
    rest = "".join(text.splitlines(keepends=True)[docstring.end_lineno :]).lstrip()
    for cell in re.split(r"^# %%\n", rest, flags=re.MULTILINE):
        comment, code = re.fullmatch(r"((?:#[^\n]*\n)*)(.*)", cell, re.DOTALL).groups()  # type: ignore[union-attr]
        prose = re.sub(r"^# ?", "", comment, flags=re.MULTILINE).strip()
        if prose:
            yield "markdown", prose
        if code.strip():
            yield "code", code.strip()


@contextlib.contextmanager
def _inside(folder: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def write_tutorials(folder: Path, pages: Path) -> None:
    """Write a page for each notebook with its stored output, and ``index.md``, which lists them."""
    pages.mkdir()
    entries = [_write(notebook, pages, "..") for notebook in sorted(folder.glob("*.ipynb"))]
    listed = "\n".join(f"- [{page.title}]({page.name}.md). {page.about}" for page in entries)
    (pages / "index.md").write_text(
        "# Notebooks\n\nNotebooks that make their data and run in seconds. They are in `docs/tutorials`."
        f"\n\n{listed}\n\n{_toctree(page.name for page in entries)}"
    )


def write_gallery(
    folder: Path, pages: Path, families: Mapping[str, str], execute: bool = True
) -> None:
    """Write a page for each script, and ``index.md``, which lists them by family.

    Parameters
    ----------
    folder : Path
        The scripts, in a folder for each family.
    pages : Path
        The folder of the pages, which is made.
    families : mapping
        Titles of families, by the names of their folders. Families without a folder are skipped.
    execute : bool, default: True
        Whether the scripts are run. Otherwise pages have no output.
    """
    parts = [
        "# Gallery\n\nShort examples of every family of functions. Each makes its data and runs in seconds. "
        "The scripts are in `docs/gallery`."
    ]
    for family, title in families.items():
        scripts = sorted((folder / family).glob("*.py"))
        if scripts:
            (pages / family).mkdir(parents=True)
            entries = [_write(script, pages / family, "../..", execute) for script in scripts]
            tiles = "\n\n".join(_tile(family, page, pages) for page in entries)
            names = (f"{family}/{page.name}" for page in entries)
            parts.append(
                f"## {title}\n\n`````{{container}} gallery\n{tiles}\n`````\n\n{_toctree(names)}"
            )
    (pages / "index.md").write_text("\n\n".join(parts))


def write_readme(folder: Path, families: Mapping[str, str]) -> None:
    """Run the scripts of a gallery, and write its README with a small picture of each."""
    shutil.rmtree(folder / PICTURES, ignore_errors=True)
    parts = [
        "# Gallery\n\nShort examples of every family of functions. Each makes its data and runs in seconds: "
        "`python docs/gallery/filters/rolling_ball.py`."
    ]
    for family, title in families.items():
        tiles = []
        for script in sorted((folder / family).glob("*.py")):
            cells = list(run(script))
            picture = f"{PICTURES}/{family}-{script.stem}.png"
            images = [cell.value.image for cell in cells if hasattr(cell.value, "image")]
            (folder / PICTURES).mkdir(exist_ok=True)
            (folder / picture).write_bytes(imagecodecs.png_encode(_small(images[-1])))
            name = cells[0].source.partition("\n")[0].removeprefix("# ")
            link = f"{family}/{script.name}"
            tiles.append(f"[![{name}]({picture})]({link})<br>[{name}]({link})")
        rows = [tiles[k : k + COLUMNS] for k in range(0, len(tiles), COLUMNS)]
        if rows:
            rows[1:1] = [["---"] * len(rows[0])]
            table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
            parts.append(f"## {title}\n\n{table}")
    (folder / "README.md").write_text("\n\n".join(parts) + "\n")


def _small(image: np.ndarray) -> np.ndarray:
    """Reduce a picture to a width of at most 200 by the mean of whole blocks."""
    step = -(-image.shape[1] // 200)
    rows, cols = (n // step for n in image.shape[:2])
    blocks = image[: rows * step, : cols * step].reshape(rows, step, cols, step, 3)
    return np.ascontiguousarray(blocks.mean((1, 3)).round().astype(np.uint8))


def _tile(family: str, page: Page, pages: Path) -> str:
    """The thumbnail, the title and the purpose of an example, in the grid of the gallery."""
    place = f"{family}/{page.name}"
    lines = [f"[{page.title}]({place}.md)", " ".join(page.about.split())]
    if (pages / f"{place}.png").exists():
        lines.insert(0, f"[![{page.title}]({place}.png){{.thumbnail}}]({place}.md)")
    text = "\n\n".join(lines)
    return f"````{{container}} tile\n{text}\n````"


def _toctree(names: Any) -> str:
    return "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def _write(path: Path, pages: Path, root: str, execute: bool = True) -> Page:
    """Write the page of a notebook, or of a script that is run, and its last picture as its thumbnail.

    The page ends with links to the functions that it calls. They lie in the folder `root` of the site.
    """
    cells = list(stored(path) if path.suffix == ".ipynb" else run(path, execute))
    text = "\n\n".join(map(_markdown, cells))
    names = sorted({*re.findall(r"\bbv\.(\w+)\(", text)} & EXPORTS.keys())
    links = (f"[`{n}`]({root}/functions/{n}.md)" for n in names if EXPORTS[n].startswith(".ops."))
    (pages / f"{path.stem}.md").write_text(f"{text}\n\n**Functions**: {', '.join(links)}.\n")
    data = [output["data"] for cell in cells for output in cell.outputs if "data" in output]
    pictures = [base64.b64decode(d["image/png"]) for d in data if "image/png" in d]
    if pictures:
        (pages / f"{path.stem}.png").write_bytes(pictures[-1])
    title = text.partition("\n")[0].removeprefix("# ")
    return Page(path.stem, title, text.split("\n\n")[1])


def _markdown(shown: Shown) -> str:
    """A cell and its output, as MyST."""
    if shown.kind == "markdown":
        return shown.source
    parts = [f"````python\n{shown.source}\n````"]
    for output in shown.outputs:
        data = output.get("data", {"text/plain": output.get("text")})
        if "image/png" in data:
            html = f'<img src="data:image/png;base64,{data["image/png"]}">'
        else:
            html = "".join(data.get("text/html", ()))
        if html:
            parts.append(f'````{{raw}} html\n<div class="shown">{html}</div>\n````')
        else:
            parts.append(f"````text\n{''.join(data['text/plain']).rstrip()}\n````")
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from reference import FAMILIES

    for path in map(Path, sys.argv[1:]):
        if path.is_dir():
            write_readme(path, FAMILIES)
        else:
            store(path)
