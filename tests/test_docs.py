"""The documentation speaks of things that are there."""

import ast
import builtins
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import apache_beam
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for page in sorted(ROOT.rglob("*.md"))
    if not any(
        part.startswith(".") or part == "node_modules" for part in page.relative_to(ROOT).parts
    )
]
FENCED = re.compile(r"^```.*?^```", re.M | re.S)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
#: Where a path in the documentation may begin.
ROOTS = (ROOT, ROOT / "beam_volumes", ROOT / "docs")
#: Packages of ours, so that `plan.machine` is known for a name of ours, and `np.exp` is not.
ROOMS = {p.name for p in (ROOT / "beam_volumes").iterdir() if (p / "__init__.py").exists()}
#: Folders beside the package, and the names of all that is Python in them.
FOLDERS = {"beam_volumes", "benchmarks", "docs", "engines", "examples", "templates", "tests"}
SCRIPTS = {p.name for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")} | {"setup.py"}
by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def named(page):
    return set(CODE.findall(FENCED.sub("", page.read_text())))


def anchors(page):
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@by_page
def test_links_lead_somewhere(page):
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        there = (page.parent / place) if place else page
        assert there.exists(), link
        assert not anchor or anchor in anchors(there), link


@by_page
def test_files_that_are_named_are_there(page):
    """`sweep/stage.py`, `ops/filters/` and `machine.py`, from the root, the package or a page's folder."""
    for text in named(page):
        if re.fullmatch(r"[\w-]+\.py", text):
            assert text in SCRIPTS, text
        elif re.fullmatch(r"[\w./-]+(\.py|/)", text) and text.split("/")[0] in ROOMS | FOLDERS:
            assert any((root / text).exists() for root in (*ROOTS, page.parent)), text


@by_page
def test_names_that_are_named_are_there(page):
    """`plan.machine`, `sweep.stage.Stage`, `beam_volumes.across.rounds`: modules and what they define."""
    for text in named(page):
        text = re.sub(r"\(.*\)$", "", text).removeprefix("beam_volumes.")
        ours = re.fullmatch(r"\w+(\.\w+)+", text) and text.split(".")[0] in {*ROOMS, "bv"}
        if ours and not text.endswith((".py", ".md", ".zarr")):
            assert found(text), text


def found(name):
    if name.startswith("bv."):
        return has(importlib.import_module("beam_volumes"), name.split(".")[1:])
    parts = ["beam_volumes", *name.split(".")]
    for k in range(len(parts), 1, -1):
        try:
            module = importlib.import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        if k < len(parts):  # what is imported there is defined elsewhere
            first = getattr(module, parts[k], None)
            if getattr(first, "__module__", module.__name__) not in (module.__name__, "builtins"):
                return False
        return has(module, parts[k:])
    return False


def has(thing, names):
    try:
        functools.reduce(getattr, names, thing)
    except AttributeError:
        return False
    return True


@pytest.mark.parametrize("name", ["architecture", "glossary", "rules"])
def test_classes_that_are_named_are_there(name):
    """`Median3`, `Volume.to`: classes of ours, Python's or Beam's; a class has the attribute."""
    for text in named(ROOT / f"docs/{name}.md"):
        text = re.sub(r"\(.*\)$", "", text)
        if not re.fullmatch(r"[A-Z]\w*[a-z]\w*(\.\w+)?", text):
            continue
        head, _, attribute = text.partition(".")
        there = classes().get(head)
        if there is None:
            assert hasattr(builtins, head) or hasattr(apache_beam, head) or head in FOREIGN, text
        else:
            assert not attribute or attribute in there, text


#: Classes of others that the documentation speaks of.
FOREIGN = {"ContextVar"}


@functools.cache
def classes():
    """The classes of the package, with what they define."""
    there = {}
    for file in (ROOT / "beam_volumes").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                inside = {getattr(n, "name", None) for n in node.body}
                inside |= {getattr(getattr(n, "target", None), "id", None) for n in node.body}
                there.setdefault(node.name, set()).update(inside)
    return there


def test_pictures_are_current():
    script = ROOT / "docs/pictures.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
