"""The documentation speaks of things that are there."""

import ast
import builtins
import functools
import graphlib
import importlib
import inspect
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import apache_beam
import pytest

import beam_volumes

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
#: Folders next to the package, and the names of all Python files in them.
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
def test_sentences_begin_with_what_they_are_about(page):
    """Not with "Of" or "What is", which make a reader wait for the verb."""
    opens = re.compile(r"(?:^|[.!?:;] |[|*-] )((?:Of|What is|What are) .{0,40})", re.M)
    assert not opens.findall(FENCED.sub("", page.read_text()))


#: Phrases to avoid in documentation, with a plain replacement.
PHRASES = {
    r"(?-i:what) (?:it|they|is|are|was|were|comes|came)": "name the thing",
    r"(?:that|those) of": "repeat the noun, or use a possessive",
    r"whose|of which|of whom": "write two sentences",
    r"told|said|tells?|says?": "use 'reported', 'documented', 'shows', 'returns'",
    r"besides?": "use 'next to', 'in addition to', 'compared with'",
    r"nobody|whoever|whatever": "name the actor",
    r"but for": "use 'except'",
}


ANY_PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.I)


def phrases(text):
    """The phrases of a text to avoid, except in code, with their replacements."""
    text = CODE.sub("", FENCED.sub("", text))
    if not ANY_PHRASE.search(text):
        return
    for pattern, instead in PHRASES.items():
        for found in re.finditer(rf"\b(?:{pattern})\b", text, re.I):
            yield f"{text[max(0, found.start() - 30) : found.end() + 30]!r}: {instead}"


@by_page
def test_pages_for_users_do_not_lead_to_internals(page):
    guides = {"get-started", "explanation", "how-to", "reference"}
    if page == ROOT / "README.md" or page.parent.name in guides:
        assert [link for link in LINK.findall(page.read_text()) if "internals/" in link] == []


@by_page
def test_phrases_to_avoid(page):
    found = list(phrases(page.read_text()))
    assert found == []


def test_phrases_to_avoid_in_public_docstrings():
    found = []
    for name in beam_volumes.__all__:
        thing = getattr(beam_volumes, name)
        inside = vars(thing).items() if inspect.isclass(thing) else ()
        for public in (thing, *(value for key, value in inside if not key.startswith("_"))):
            text = re.sub(
                r"^ *>>>.*?(?:\n\n|\Z)", "", inspect.getdoc(public) or "", flags=re.M | re.S
            )
            found += [f"{name}: {phrase}" for phrase in phrases(text)]
    assert found == []


def prose(file):
    """The docstrings, messages and comments of a module."""
    yield from scanned(file).texts
    yield from re.findall(r"(?:^|\s)#.*", file.read_text())


class Scanned(NamedTuple):
    """Parts of a module: its texts, its classes with their attributes, and its imports."""

    texts: list[str]
    classes: dict[str, set[str]]
    imports: list[str]


@functools.cache
def scanned(file):
    tree = ast.parse(file.read_text())
    texts, there, found = [], {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            texts += [node.value] if isinstance(node.value, str) else []
        elif isinstance(node, ast.ClassDef):
            inside = {getattr(n, "name", None) for n in node.body}
            inside |= {getattr(getattr(n, "target", None), "id", None) for n in node.body}
            there.setdefault(node.name, set()).update(inside)
        else:
            found += imported(node)
    return Scanned(texts, there, found)


def imported(node):
    """The modules and names that a statement imports, dotted."""
    if isinstance(node, ast.Import):
        return [a.name for a in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{a.name}" for a in node.names]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return [a.value for a in node.args if isinstance(a, ast.Constant)]
    return []


@pytest.mark.parametrize("folder", ["beam_volumes", "benchmarks", "docs", "examples", "templates"])
def test_phrases_to_avoid_in_sources(folder):
    """Docstrings, comments and messages, of private functions, too."""
    found = [
        f"{file.relative_to(ROOT)}: {phrase}"
        for file in sorted((ROOT / folder).rglob("*.py"))
        for text in prose(file)
        for phrase in phrases(text)
    ]
    assert found == []


def test_phrases_to_avoid_are_found():
    assert len(list(phrases("Labels whose ids are those of scipy, as the table says."))) == 3
    assert list(phrases("| Example | What it does |\n\n`that of`\n\n```\ntold\n```\n")) == []


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
    """`plan.cost`, `sweep.stage.Stage`, `beam_volumes.across.merge`: modules and their names."""
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
    for text in named(ROOT / f"docs/internals/{name}.md"):
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
    """The classes of the package, with their attributes."""
    there = {}
    for file in (ROOT / "beam_volumes").rglob("*.py"):
        for name, attributes in scanned(file).classes.items():
            there.setdefault(name, set()).update(attributes)
    return there


def test_the_house_stands_as_it_is_drawn():
    """No import runs upward, and nothing below the floors of Beam imports it."""
    pictures = runpy.run_path(str(ROOT / "docs/pictures.py"))
    floors = [set(rooms.split()) for rooms, _ in pictures["FLOORS"]]
    floors[-1].add("version")
    floors[0].add("providers")  # it stands above all, and only the package imports it
    floor = {room: k for k, rooms in enumerate(floors) for room in rooms}
    for file in (ROOT / "beam_volumes").rglob("*.py"):
        room = file.relative_to(ROOT / "beam_volumes").with_suffix("").parts[0]
        if room in ("__init__", "__main__"):
            continue
        for name in scanned(file).imports:
            ours, _, rest = name.partition(".")
            there = floor.get(rest.split(".")[0], 0)
            assert ours != "beam_volumes" or floor[room] <= there, f"{file.name} imports {name}"
            assert ours != "apache_beam" or floor[room] < pictures["BEAM"], f"{file.name}: {name}"


def test_no_circle_stands():
    """Modules can be loaded one after the other, each after all that it imports anywhere.

    Imports in functions, for type checkers and by `import_module` count as well.
    """
    files = {}
    for file in (ROOT / "beam_volumes").rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    del files["beam_volumes"]  # it imports all on first use
    needed = {
        module: {n if n in files else n.rpartition(".")[0] for n in scanned(file).imports}
        & files.keys() - {module}
        for module, file in files.items()
    }
    assert len(list(graphlib.TopologicalSorter(needed).static_order())) == len(files)


def test_no_circle_of_rooms_stands():
    """Packages stand one above the other, imports in functions and for type checkers included."""
    rooms = {}
    for file in (ROOT / "beam_volumes").rglob("*.py"):
        rooms.setdefault(".".join(file.relative_to(ROOT).parent.parts), []).append(file)
    rooms.pop("beam_volumes")

    def room_of(name):
        while name and name not in rooms:
            name = name.rpartition(".")[0]
        return name

    needed = {
        room: {
            room_of(name) for f in files if f.name != "__init__.py" for name in scanned(f).imports
        }
        for room, files in rooms.items()
    }
    for room, others in needed.items():
        others.difference_update({room, ""})
    assert list(graphlib.TopologicalSorter(needed).static_order())
    assert {room for room, files in rooms.items() if len(files) > 20} <= {"beam_volumes.cli"}


def test_pictures_are_current():
    script = ROOT / "docs/pictures.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_tables_of_speed_are_rendered_from_the_stored_results():
    """``python benchmarks/page.py --render`` changes no page."""
    pages = runpy.run_path(str(ROOT / "benchmarks/page.py"))["rendered"]()
    assert [page.name for page, text in pages.items() if page.read_text() != text] == []


def test_workflows_run_what_the_makefile_has_on_every_python():
    """Targets of make, and the versions of Python that the package declares."""
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    text = (ROOT / ".github/workflows/test.yml").read_text()
    asked = {word for line in re.findall(r"run: make (.*)", text) for word in line.split()}
    assert (
        {"lint", "test", "site", "engines"} <= {word for word in asked if "=" not in word} <= made
    )
    first, end = re.search(
        r'">=3\.(\d+),<3\.(\d+)"', (ROOT / "pyproject.toml").read_text()
    ).groups()
    versions = [f"3.{minor}" for minor in range(int(first), int(end))]
    assert re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", text)[1]) == versions


def test_messages_that_troubleshooting_quotes_are_raised():
    page = (ROOT / "docs/how-to/troubleshooting.md").read_text()
    quoted = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    source = "".join(file.read_text() for file in (ROOT / "beam_volumes").rglob("*.py"))
    # A message may be cut between two lines of the source.
    source = re.sub(r'"\n\s*f?"', "", source)
    assert len(quoted) > 10 and [text for text in quoted if text not in source] == []


def test_the_page_of_installation_lists_all_extras():
    page = (ROOT / "docs/get-started/install.md").read_text()
    listed = re.findall(r"^\| (`.*?) \|", page, re.M)
    named = {name for row in listed for name in re.findall(r"`([\w-]+)`", row)}
    declared = metadata.metadata("beam-volumes").get_all("Provides-Extra")
    assert named == set(declared) - {"test", "test-formats", "lint", "bench", "docs"}


def test_windows_is_refused_in_one_sentence():
    program = "import sys; sys.platform = 'win32'; import beam_volumes"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1 and "install it in WSL" in done.stderr.splitlines()[-1]
