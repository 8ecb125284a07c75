"""Read YAML safely, with the position of every entry.

Plain scalars follow YAML 1.2: ``1e-3`` is a number, ``no`` and ``0:16`` are strings. Tags are refused, so
the result is plain data. Aliases are expanded up to a limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from beam_volumes.base.text import nearest

#: More than any recipe needs; stops files that grow by nested aliases.
MAX_ENTRIES = 20_000
MAX_DEPTH = 50
MAX_BYTES = 1 << 20
#: Longer integers become floats: no parameter is so large, and formatting them is slow.
MAX_DIGITS = 40

_INT = re.compile(r"[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LINE_END = re.compile("[\n\r\x85\u2028\u2029]")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{s + i: float(s + "inf") for s in ("", "+", "-") for i in (".inf", ".Inf", ".INF")},
}
_PLAIN_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")

#: From this depth on, mappings and lists are written in one line.
_FLOW = 2
_SCALAR_TAGS = {
    type(None): "tag:yaml.org,2002:null",
    bool: "tag:yaml.org,2002:bool",
    int: "tag:yaml.org,2002:int",
    float: "tag:yaml.org,2002:float",
}


class RecipeError(ValueError):
    """An error in a recipe; the message begins with its place."""

    def __init__(self, where: str, message: str) -> None:
        # The place of a step in a chain is its operation, which may begin the message.
        is_placed = message.startswith((f"{where}: ", f"{where} "))
        super().__init__(message if is_placed else f"{where}: {message}")


@dataclass
class Entry:
    """A value and its place."""

    #: A dict of str to Entry, a list of Entry, or a scalar.
    value: Any
    #: For messages, e.g. ``"recipe.yaml:12"``: the place of the key in a mapping, or of the value.
    where: str

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, dict):
            return {k: e.plain() for k, e in self.value.items()}
        if isinstance(self.value, list):
            return [e.plain() for e in self.value]
        return self.value

    def error(self, message: str) -> RecipeError:
        return RecipeError(self.where, message)

    def mapping(self, what: str) -> dict[str, Entry]:
        """Return the value as a mapping, or raise RecipeError."""
        if not isinstance(self.value, dict):
            raise self.error(f"{what} must be a mapping (name: value), not {_kind(self.value)}")
        return self.value

    def check_keys(self, known: Iterable[str], what: str) -> None:
        """Raise RecipeError for unknown keys, with the nearest spelling."""
        known = list(known)
        for key, entry in self.mapping(what).items():
            if key not in known:
                raise entry.error(f"{what} has no {key!r}{nearest(key, known)}")


def load(text: str, name: str) -> Entry:
    r"""Read a YAML document from the file ``name``, without tags, repeated keys and excessive size.

    >>> entry = load("a: 1\nb: [x, 2.5]", "r.yaml")
    >>> entry.plain(), entry.value["b"].where
    ({'a': 1, 'b': ['x', 2.5]}, 'r.yaml:2')
    """
    if len(text) > MAX_BYTES:
        raise RecipeError(name, f"has {len(text)} characters; a recipe has up to {MAX_BYTES}")
    try:
        root = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        raise RecipeError(where, f"not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise RecipeError(name, f"not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise RecipeError(name, "is nested too deeply") from None
    if root is None:
        raise RecipeError(name, "is empty")
    return _Reader(name).entry(root, root, 0)


def plain_node(node: Any) -> Any:
    """Return the value of a node of YAML, as `load` reads it."""
    return _Reader("recipe").entry(node, node, 0).plain()


def parse_value(text: str, where: str) -> Entry:
    """Parse a value of the command line as YAML; every part gets the place ``where``."""
    try:
        entry = load(text, where) if text.strip() else Entry(None, where)
    except RecipeError as error:
        raise RecipeError(where, str(error).split(": ", 1)[-1]) from None
    return _placed(entry, where)


def placed(value: Any, where: str) -> Entry:
    """Convert plain data to a document, with the paths of its parts as places.

    >>> placed({"steps": {"smooth": {"sigma": [1, 2]}}}, "recipe").value["steps"].value["smooth"].where
    'recipe.steps.smooth'
    """
    if isinstance(value, Mapping):
        return Entry({str(k): placed(v, f"{where}.{k}") for k, v in value.items()}, where)
    if isinstance(value, list | tuple):
        return Entry([placed(v, f"{where}.{k}") for k, v in enumerate(value)], where)
    if value is not None and not isinstance(value, str | int | float):
        raise RecipeError(where, f"{value!r} is not plain data; give a string or a number")
    return Entry(value, where)


def _placed(entry: Entry, where: str) -> Entry:
    value = entry.value
    if isinstance(value, dict):
        value = {k: _placed(e, where) for k, e in value.items()}
    elif isinstance(value, list):
        value = [_placed(e, where) for e in value]
    return Entry(value, where)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def entry(self, node: Any, place: Any, depth: int) -> Entry:
        where = f"{self._name}:{place.start_mark.line + 1}"
        self._count += 1
        if self._count > MAX_ENTRIES or depth > MAX_DEPTH:
            raise RecipeError(
                where, "the recipe is too large, nested too deeply, or refers to itself"
            )
        if node.tag not in _PLAIN_TAGS:
            raise RecipeError(
                where, f"the tag {node.tag!r} is not available; a recipe is plain data"
            )
        if isinstance(node, yaml.SequenceNode):
            return Entry([self.entry(n, n, depth + 1) for n in node.value], where)
        if not isinstance(node, yaml.MappingNode):
            return Entry(_scalar(node), where)
        found: dict[str, Entry] = {}
        for key, value in node.value:
            at = f"{self._name}:{key.start_mark.line + 1}"
            if not isinstance(key, yaml.ScalarNode):
                raise RecipeError(at, "a key must be a name")
            if key.value in found:
                raise RecipeError(
                    at, f"{key.value!r} is given twice, first at {found[key.value].where}"
                )
            found[key.value] = self.entry(value, key, depth + 1)
        return Entry(found, where)


def _scalar(node: Any) -> Any:
    return node.value if node.style is not None else plain_scalar(node.value)


def plain_scalar(text: str) -> Any:
    """Parse a scalar without quotes.

    >>> plain_scalar("1e-3"), plain_scalar("no"), plain_scalar("~")
    (0.001, 'no', None)
    """
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        base = {"0x": 16, "0o": 8}.get(text[:2], 10)
        return int(text, base) if len(text) <= MAX_DIGITS else float(text) if base == 10 else text
    return float(text) if _FLOAT.fullmatch(text) else text


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    return "a list" if isinstance(value, list) else repr(value)


def printed(document: Any) -> str:
    """Format dicts, lists, strings, numbers, booleans and None as the text of a recipe.

    >>> print(printed({"input": "em.zarr", "steps": {"crop": {"box": "0:16"}}, "output": "1e-3"}))
    input: em.zarr
    steps:
      crop: {box: '0:16'}
    output: '1e-3'
    <BLANKLINE>
    """
    return yaml.serialize(_node(document, 0), Dumper=yaml.SafeDumper, width=110, allow_unicode=True)


def flow_text(value: Any) -> str:
    """Format plain data as YAML in one line.

    >>> flow_text({"op": "clip", "box": "0:16", "inputs": ["a", 2.0]}), flow_text("no")
    ("{op: clip, box: '0:16', inputs: [a, 2.0]}", "'no'")
    """
    node = _node(value, _FLOW)
    text = yaml.serialize(node, Dumper=yaml.SafeDumper, width=1 << 20, allow_unicode=True)
    return text.strip().removesuffix("\n...")


def _node(value: Any, depth: int) -> yaml.Node:
    flow = depth >= _FLOW
    if isinstance(value, dict):
        pairs = [(_node(str(k), depth), _node(v, depth + 1)) for k, v in value.items()]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow)
    if isinstance(value, list | tuple):
        items = [_node(v, depth + 1) for v in value]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=flow)
    if isinstance(value, str):
        # Quote text that YAML 1.2 or 1.1 would read as another type, and escape ends of lines.
        style = None if plain_scalar(value) == value else "'"
        style = '"' if _LINE_END.search(value) else style
        return yaml.ScalarNode("tag:yaml.org,2002:str", value, style=style)
    text = yaml.safe_dump(value).removesuffix("\n...\n").strip()
    return yaml.ScalarNode(_SCALAR_TAGS[type(value)], text)
