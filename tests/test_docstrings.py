"""Every public name has a complete docstring: help() never refers to another one."""

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import apache_beam as beam
import pytest

import beam_volumes as bv
from beam_volumes import transforms, yaml
from beam_volumes.base.text import filled
from beam_volumes.graph.core import VolumeCore
from tests.tiers import thorough

NAMES = {**{n: getattr(bv, n) for n in bv.__all__}, "SlabKey": transforms.SlabKey}
FUNCTIONS = {n: o for n, o in NAMES.items() if inspect.isfunction(o)}
CLASSES = {n: o for n, o in NAMES.items() if inspect.isclass(o)}
MEMBERS = {
    f"{name}.{member}": value
    for name, owner in CLASSES.items()
    for part in reversed(owner.__mro__)
    if part in (owner, VolumeCore)
    for member, value in vars(part).items()
    if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
}
METHODS = {n: m for n, m in MEMBERS.items() if inspect.isfunction(m)}
PROPERTIES = {n: m for n, m in MEMBERS.items() if isinstance(m, property)}
TRANSFORMS = {n: c for n, c in CLASSES.items() if issubclass(c, beam.PTransform)}
YAML = {n: getattr(yaml, n) for n in yaml.__all__ if n[0].isupper()}
#: Classes that only functions construct: their docstrings have properties instead of parameters.
MADE = {"Volume", "Scalar", "Table"}
#: Those, and classes of results: users read attributes, and have no parameters to pass.
RESULTS = MADE | {"Estimate", "PixelClassifier", "Plan", "TableTarget", "Target"}
#: Methods that only Beam calls.
BEAMS = {
    f"{name}.{method}"
    for name in TRANSFORMS
    for method in ("expand", "display_data", "type_check_inputs")
}
#: No library has it under another name, and no paper.
OURS = {
    "compute",
    "estimate",
    "keep_largest",
    "open",
    "plan",
    "preview",
    "studio",
    "verify",
    "view",
}
OURS |= {"tiles_report"}

HEADING = re.compile(r"^([A-Z][A-Za-z ]+)\n-{3,}$", re.M)
ITEM = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (.+)$")
#: Texts that send the reader to another function, or have not been filled in.
DEFERRAL = re.compile(r"\b[Aa]s (?:of|for|by) `|[Pp]arameters,? as\b|%\(\w+\)s|%%")
#: How no sentence begins.
OPENING = re.compile(r"(?:^\s*|[.!?:] )(?:Of|What is|What are)\b", re.M)


def sections(item):
    """The sections of a docstring by their names; the summary and what follows it has none."""
    parts = HEADING.split(inspect.getdoc(item) or "")
    return {
        "": parts[0].strip(),
        **dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True)),
    }


def described(text):
    """For each parameter of a section, its type and its description."""
    found, lines = {}, text.splitlines()
    for k, line in enumerate(lines):
        if match := ITEM.match(line):
            says = k + 1 < len(lines) and lines[k + 1].startswith("    ")
            for name in match[1].split(", "):
                found[name.lstrip("*")] = match[2], says
    return found


def parameters(item):
    found = inspect.signature(item).parameters.values()
    return {p.name: p for p in found if p.name != "self"}


def wrong_defaults(signature, said):
    """Parameters without their default in the type: "optional" where it is None, else itself."""
    for name, parameter in signature.items():
        kind, _ = said.get(name, ("", False))
        told = re.search(r", default: (.+)$", kind)
        default = parameter.default
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if default is parameter.empty:
            fine = not told and not kind.endswith("optional")
        elif default is None or default is dataclasses._HAS_DEFAULT_FACTORY:
            fine = kind.endswith(", optional")
        elif told and callable(default):
            fine = told[1] == f"numpy.{default.__name__}"
        else:
            fine = bool(told) and ast.literal_eval(told[1]) == default
        if not fine:
            yield f"{name} : {kind} has the default {default!r}"


def problems(item, name=""):
    """What a docstring lacks, or has and should not."""
    found = sections(item)
    text = inspect.getdoc(item) or ""
    first = found[""].splitlines()[0] if found[""] else ""
    if not (first.endswith(".") and found[""].splitlines()[1:2] in ([], [""])):
        yield f"no summary in one line: {first!r}"
    for pattern in (DEFERRAL, OPENING):
        for match in pattern.finditer(text):
            yield f"{match[0].strip()!r} in {text[match.start() : match.end() + 40]!r}"
    signature = parameters(item)
    listed = "Attributes" if "Attributes" in found else "Parameters"
    said = described(found.get(listed, ""))
    there = list(signature)
    if name in MADE:
        there = [p.removeprefix(f"{name}.") for p in PROPERTIES if p.startswith(f"{name}.")]
    if list(said) != there:
        yield f"{listed} describe {list(said)}, and there are {there}"
    yield from (f"{what} says nothing" for what, (_, says) in said.items() if not says)
    if listed == "Parameters":
        yield from wrong_defaults(signature, said)
    if ">>> " not in found.get("Examples", ""):
        yield "no example"
    gives = inspect.isfunction(item) and inspect.signature(item).return_annotation != "None"
    if gives and not found.get("Returns"):
        yield "Returns nothing"
    if name in FUNCTIONS and not found.get("Raises"):
        yield "Raises nothing"
    if name in FUNCTIONS.keys() - OURS and not found.get("References"):
        yield "no References to where it comes from"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    assert list(problems(FUNCTIONS[name], name)) == []


@pytest.mark.parametrize("name", sorted(METHODS.keys() - BEAMS))
def test_methods(name):
    assert list(problems(METHODS[name], name)) == []


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name):
    assert list(problems(CLASSES[name], name)) == []


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - RESULTS))
def test_classes_that_users_construct_have_parameters(name):
    found = sections(CLASSES[name])
    assert "Parameters" in found or not parameters(CLASSES[name])
    if "__post_init__" in vars(CLASSES[name]):
        assert "Raises" in found


@pytest.mark.parametrize("name", sorted(METHODS.keys() - BEAMS))
def test_methods_that_raise_document_it(name):
    """Those that raise errors themselves, and those that check what users pass by other functions."""
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(METHODS[name])))
    raises = any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(text)))
    checked = {"Plan.replanned", "Scalar.compute", "Scalar.item", "Table.compute", "Volume.clip"}
    if raises or name in checked:
        assert sections(METHODS[name]).get("Raises")


@pytest.mark.parametrize("name", YAML)
def test_what_beam_yaml_names(name):
    assert list(problems(YAML[name], name)) == []


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties(name):
    text = inspect.getdoc(PROPERTIES[name]) or ""
    assert text.split("\n\n")[0].endswith(".")
    assert not DEFERRAL.search(text) and not OPENING.search(text)


def test_there_are_as_many_as_we_think():
    """So that none of the tests above runs over nothing."""
    assert len(FUNCTIONS) > 110 and len(TRANSFORMS) >= 12 and len(YAML) == 9
    assert {"Volume.to", "Table.at", "Plan.explain"} <= METHODS.keys()
    assert {"Volume.shape", "Scalar.dtype"} <= PROPERTIES.keys()


def whole(volume, sigma=1.0, mask=None) -> int:
    """Count it.

    Parameters
    ----------
    volume : Volume
        A volume.
    sigma : float, default: 1.0
        Its width.
    mask : Volume, optional
        Where it counts.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> 1
    1
    """


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("", "", None),
        ("Count it.", "Count it", "no summary"),
        ("Count it.\n", "Count it.\n    And more.\n", "no summary"),
        ("A volume.", "As of `other`.", "'As of `'"),
        ("A volume.", "Of any shape.", "'Of'"),
        ("A volume.", "What is counted.", "'What is'"),
        ("Its width.", "%(sigma)s", r"%\(sigma\)s"),
        ("    volume : Volume\n        A volume.\n", "", "describe"),
        ("        Its width.\n", "", "sigma says nothing"),
        ("default: 1.0", "default: 2.0", "has the default 1.0"),
        (", default: 1.0", "", "has the default 1.0"),
        ("Volume, optional", "Volume", "has the default None"),
        ("volume : Volume\n", "volume : Volume, optional\n", "volume : Volume, optional has"),
        ("Returns\n    -------", "Gives\n    -----", "Returns nothing"),
        (">>> 1", "1", "no example"),
    ],
)
def test_what_is_missing_is_found(before, after, problem):
    def broken(volume, sigma=1.0, mask=None) -> int: ...

    assert before in whole.__doc__
    broken.__doc__ = whole.__doc__.replace(before, after)
    broken.__annotations__ = whole.__annotations__
    found = "; ".join(problems(broken))
    assert found == "" if problem is None else re.search(problem, found), found


def test_texts_are_filled_in_and_the_function_stays():
    def lines(axis: int = 0) -> int:
        """Count.

        %(axis)s
            100 %(of)s it
        """
        return axis

    same = filled({"axis": "axis : int\n    Which."})(lines)
    assert same is lines and lines(3) == 3
    assert "        axis : int\n            Which.\n            100 %(of)s it" in lines.__doc__
    with pytest.raises(KeyError, match="axis"):
        filled({})(type("T", (), {"__doc__": "%(axis)s"}))


@thorough
def test_nothing_needs_docstrings():
    """Except Beam's: with ``python -OO`` it cannot be imported, and we can."""
    program = "import beam_volumes as bv; print(bv.white_tophat.__doc__, bv.compute.__doc__)"
    command = [sys.executable, "-OO", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["None", "None"], done.stderr


def asked_for_the_imperative(path):
    """Whether ruff asks a module for it: by the patterns of pyproject.toml that except modules."""
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text()
    (public,) = re.findall(r'^"!(beam_volumes/.*)" = \["D103", "D401"\]', text, re.M)
    (inside,) = re.findall(r'^"(beam_volumes/ops/.*)" = \["D103", "D401"\]', text, re.M)
    letters = {"{": "(", "}": ")", ",": "|", ".": "[.]", "*": ".*"}
    public, inside = (
        re.sub("[*]+", "*", p).translate(str.maketrans(letters)) for p in (public, inside)
    )
    return bool(re.fullmatch(public, path)) and not re.fullmatch(inside, path)


def test_ruff_asks_public_modules_for_the_imperative():
    """Every module of the stub is asked."""
    root = Path(__file__).parents[1]
    for item in (*FUNCTIONS.values(), *CLASSES.values()):
        path = Path(inspect.getsourcefile(inspect.unwrap(item))).relative_to(root).as_posix()
        assert asked_for_the_imperative(path), path
    assert not asked_for_the_imperative("beam_volumes/ops/filters/stages.py")
    assert not asked_for_the_imperative("beam_volumes/ops/filters/tensor_stages.py")
    assert not asked_for_the_imperative("beam_volumes/plan/cost/memory.py")
