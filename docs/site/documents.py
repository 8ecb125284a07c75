"""Copies the repository's documents into the site, with links to the site's pages."""

from __future__ import annotations

import inspect
import os
import re
import shutil
from pathlib import Path

import beam_volumes

#: The parts of the site and their pages. A page of docs/ that is in none is put into the last one.
PARTS = {
    "Get started": [
        "docs/get-started/install.md",
        "docs/get-started/quickstart.md",
        "docs/get-started/choosing.md",
    ],
    "Tutorials": ["docs/tutorials/studio.md", "notebooks", "gallery"],
    "How to process images": [
        "docs/how-to/arrays.md",
        "docs/how-to/crop.md",
        "docs/how-to/background.md",
        "docs/how-to/threshold.md",
        "docs/how-to/channels-and-time.md",
        "docs/how-to/own-function.md",
        "docs/how-to/tiles.md",
        "docs/how-to/align.md",
        "docs/how-to/deconvolve.md",
        "docs/how-to/frequencies.md",
        "docs/how-to/slides.md",
    ],
    "How to find objects": [
        "docs/how-to/split-objects.md",
        "docs/how-to/measure.md",
        "docs/how-to/track.md",
        "docs/how-to/networks.md",
        "docs/how-to/find-objects.md",
        "docs/how-to/segment-neurons.md",
    ],
    "How to read, write and view": [
        "docs/how-to/convert.md",
        "docs/how-to/pyramids.md",
        "docs/how-to/view.md",
        "docs/how-to/other-programs.md",
        "docs/how-to/studio.md",
    ],
    "How to run": [
        "docs/how-to/memory.md",
        "docs/how-to/estimate.md",
        "docs/how-to/gpu.md",
        "docs/how-to/resume.md",
        "docs/how-to/verify.md",
        "docs/how-to/slurm.md",
        "docs/how-to/flink.md",
        "docs/how-to/dataflow.md",
        "templates/flink/README.md",
        "templates/dataflow/README.md",
        "docs/how-to/troubleshooting.md",
    ],
    "How to use Beam": [
        "docs/how-to/beam-pipeline.md",
        "docs/how-to/acquisition.md",
        "docs/how-to/networks-in-beam.md",
        "docs/how-to/other-languages.md",
        "examples/README.md",
    ],
    "Reference": [
        "functions",
        "classes",
        "transforms",
        "verbs",
        "docs/reference/command-line.md",
        "docs/reference/recipes.md",
        "docs/reference/formats.md",
        "docs/reference/pyramids.md",
        "docs/reference/runners.md",
        "docs/reference/coverage.md",
        "docs/reference/differences.md",
        "docs/reference/speed.md",
        "docs/reference/stability.md",
        "CHANGELOG.md",
        "SECURITY.md",
    ],
    "Explanation": [
        "docs/explanation/concepts.md",
        "docs/explanation/memory.md",
        "docs/explanation/runs.md",
        "docs/explanation/segmentation.md",
        "docs/explanation/networks.md",
    ],
    "Internals": [
        "CONTRIBUTING.md",
        "engines/README.md",
        "docs/internals/architecture.md",
        "docs/internals/rules.md",
        "docs/internals/glossary.md",
        "docs/internals/releasing.md",
        "benchmarks/RESULTS.md",
    ],
}
#: Where a link to one of these leads.
INSTEAD = {"examples": "examples/README.md"}
#: Where links with these words lead: the repository has no such page.
WORDS = {"all functions": "functions"}
#: A page with a link to the page of each function and transform that it names.
LINKED = "docs/reference/coverage.md"

#: The gallery has a page of the site's own.
GALLERY = "docs/gallery/README.md"

#: What else the table of contents calls a page.
TITLES = {
    "docs/internals/architecture.md": "Architecture",
}

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
#: How files that are no documents are shown.
LANGUAGES = {".py": "python", ".yaml": "yaml", ".sh": "sh", ".toml": "toml", ".pyi": "python"}


def copy_documents(root: Path, pages: Path, made: dict[str, str]) -> None:
    """Write all documents. The README is the start page, and has the table of contents.

    Parameters
    ----------
    root : Path
        Of the repository.
    pages : Path
        The folder of the site's pages, which holds those that are made.
    made : dict
        By its name in `PARTS`, the page of each part of the reference, relative to `pages`.
    """
    parts = {title: list(names) for title, names in PARTS.items()}
    listed = {name for names in parts.values() for name in names}
    parts["Internals"] += [
        name
        for name in sorted(str(path.relative_to(root)) for path in root.glob("docs/**/*.md"))
        if name not in listed and name != GALLERY
    ]
    where = {name: made.get(name, _place(name)) for names in parts.values() for name in names}
    where["README.md"] = "index.md"
    shutil.copytree(root / "docs/images", pages / "images")
    documents = _Documents(root, pages, where)
    copied = [name for name in where if (root / name).is_file()]
    notebooks = (root / "docs/tutorials").glob("*.ipynb")
    where |= {f"docs/tutorials/{path.name}": f"notebooks/{path.stem}.md" for path in notebooks}
    where[GALLERY] = made["gallery"]
    for name in copied:
        documents.copy(name)
    with (pages / "index.md").open("a") as index:
        for title, names in parts.items():
            entries = "\n".join(_entry(name, where[name]) for name in names)
            index.write(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{entries}\n```\n")


def _entry(name: str, page: str) -> str:
    return f"{TITLES[name]} <{page}>" if name in TITLES else page


def _place(name: str) -> str:
    """Where a document of the repository lies in the site: pages of docs/ at the top."""
    return name.removeprefix("docs/")


def source_of(root: Path, page: str) -> str | None:
    """The file of the repository that a page of the site is made from, if one is.

    Examples
    --------
    >>> source_of(Path(), "how-to/crop"), source_of(Path(), "index"), source_of(Path(), "genindex")
    ('docs/how-to/crop.md', 'README.md', None)
    """
    folder, _, name = page.rpartition("/")
    places = [f"docs/{page}.md", f"docs/{page}.py", f"{page}.md"]
    if page == "index":
        places = ["README.md"]
    elif folder == "notebooks":
        places = [f"docs/tutorials/{name}.ipynb"]
    elif folder in ("functions", "classes", "transforms"):
        thing = getattr(beam_volumes, name, None)
        made = inspect.unwrap(thing if callable(thing) else type(thing))
        places = [] if thing is None else [os.path.relpath(inspect.getfile(made), root)]
    return next((place for place in places if (root / place).is_file()), None)


class _Documents:
    def __init__(self, root: Path, pages: Path, where: dict[str, str]):
        self.root, self.pages, self.where = root, pages, where

    def copy(self, name: str) -> None:
        """Write a document, with links that lead to pages of the site."""
        page = self.where[name]

        def lead(found: re.Match[str]) -> str:
            mark, text, link, place = found[1], found[2], found[3], found[4] or ""
            if "://" in link or link.startswith("mailto:"):
                return found[0]
            target = os.path.normpath(os.path.join(os.path.dirname(name), link))
            target = WORDS.get(text.lower(), target)
            there = os.path.relpath(self._page(name, target), os.path.dirname(page))
            return f"{mark}[{self._words(text, target)}]({there}{place})"

        text = LINK.sub(lead, (self.root / name).read_text())
        self._write(page, self._with_links(text, page) if name == LINKED else text)

    def _with_links(self, text: str, page: str) -> str:
        """A text with a link for each name in backticks that has a page."""

        def link(found: re.Match[str]) -> str:
            for folder in ("functions", "transforms"):
                if (self.pages / folder / f"{found[1]}.md").exists():
                    place = os.path.relpath(f"{folder}/{found[1]}.md", os.path.dirname(page))
                    return f"[{found[0]}]({place})"
            return found[0]

        return re.sub(r"`(\w+)`", link, text)

    def _words(self, text: str, target: str) -> str:
        """The words of a link; where they name a document's file, the document's title."""
        if text.endswith(".md") and target.endswith(text):
            return (self.root / target).read_text().partition("# ")[2].partition("\n")[0]
        return text

    def _page(self, name: str, target: str) -> str:
        """The page or picture for a file of the repository."""
        target = INSTEAD.get(target, target)
        if target in self.where:
            return self.where[target]
        path = self.root / target
        if not path.exists():
            raise FileNotFoundError(f"{name} links to {target}, which is not there")
        if path.is_dir():
            raise IsADirectoryError(f"{name} links to the folder {target}: link to a file in it")
        if path.suffix in (".svg", ".png"):
            place = _place(target)
            (self.pages / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, self.pages / place)
            return place
        self.where[target] = f"files/{target.replace('.', '_')}.md"
        self._show(target)
        return self.where[target]

    def _show(self, target: str) -> None:
        """A page of a file's text."""
        path = self.root / target
        if path.suffix == ".md":
            self.copy(target)
            text = "---\norphan: true\n---\n\n" + (self.pages / self.where[target]).read_text()
        else:
            language = LANGUAGES.get(path.suffix, "text")
            text = (
                f"---\norphan: true\n---\n\n# {target}\n\n````{language}\n{path.read_text()}````\n"
            )
        self._write(self.where[target], text)

    def _write(self, page: str, text: str) -> None:
        place = self.pages / page
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
