"""Change a recipe from the command line, and substitute variables.

In ``--set place=value``, a place is a path of keys separated by dots: ``input``, ``inputs.em``,
``steps.smooth.sigma``, ``outputs.0.path``, ``memory``. Its first key may also be the name of a variable, a
step or an input.
"""

from __future__ import annotations

import re
from typing import Any

from beam_volumes.base.text import nearest
from beam_volumes.recipes.catalogue import TOP
from beam_volumes.recipes.document import MAX_BYTES, Entry, RecipeError, parse_value

_TOP = tuple(key for key in TOP if key != "description")
_SECTIONS = ("variables", "steps", "inputs")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def override(root: Entry, setting: str) -> None:
    """Change a recipe by ``place=value``; the value is YAML.

    A string for a mapping with a ``path`` sets the path.
    """
    where = f"--set {setting}"
    place, equals, text = setting.partition("=")
    keys = place.strip().split(".")
    if not equals or not all(keys):
        raise RecipeError(where, "write it as place=value, e.g. steps.smooth.sigma=2")
    value = parse_value(text, where)
    *path, last = _full(root, keys, where)
    at = root
    for depth, key in enumerate(path):
        at = _below(at, key, ".".join(path[: depth + 1]), where)
    if isinstance(at.value, list):
        at.value[_position(at, last, where)] = _renewed(at.value[_position(at, last, where)], value)
    elif isinstance(at.value, dict):
        at.value[last] = _renewed(at.value.get(last), value)
    elif at.value is None or (
        isinstance(at.value, str) and path[0] in ("steps", "input", "inputs")
    ):
        # The short form of a step or an input becomes a mapping.
        key = "op" if path[0] == "steps" else "path"
        at.value = (
            {last: value} if at.value is None else {key: Entry(at.value, at.where), last: value}
        )
    else:
        raise RecipeError(where, f"{'.'.join(path)} holds {at.plain()!r}, which has no {last!r}")


def _full(root: Entry, keys: list[str], where: str) -> list[str]:
    """Return the place with its section, which users may omit."""
    known = list(_TOP)
    if keys[0] in _TOP:
        return keys
    for section in _SECTIONS:
        entries = root.value.get(section)
        if entries is not None and isinstance(entries.value, dict):
            if keys[0] in entries.value:
                return [section, *keys]
            known += entries.value
    raise RecipeError(where, f"the recipe has no {keys[0]!r}{nearest(keys[0], known)}")


def _below(at: Entry, key: str, path: str, where: str) -> Entry:
    if isinstance(at.value, list):
        return at.value[_position(at, key, where)]
    inside = at.value if isinstance(at.value, dict) else {}
    if key not in inside:
        raise RecipeError(where, f"the recipe has no {path!r}{nearest(key, inside)}")
    return inside[key]


def _position(at: Entry, key: str, where: str) -> int:
    if not key.isdigit() or int(key) >= len(at.value):
        raise RecipeError(where, f"{key!r} is not one of 0 to {len(at.value) - 1}")
    return int(key)


def _renewed(old: Entry | None, new: Entry) -> Entry:
    inside = old.value if old is not None and isinstance(old.value, dict) else {}
    if isinstance(new.value, str) and ("path" in inside or "spec" in inside):
        kept = {k: e for k, e in inside.items() if k != "spec"}
        return Entry({**kept, "path": new}, new.where)
    return new


def substitute(root: Entry) -> Entry:
    """Replace each ``${name}`` by the value of the variable.

    A string that consists only of ``${name}`` becomes the value itself, e.g. a number or a list.
    """
    section = root.value.get("variables")
    variables = (
        section.mapping("variables") if section is not None and section.value is not None else {}
    )
    for entry in variables.values():
        if "${" in str(entry.plain()):
            raise entry.error("variables cannot refer to variables")
    _check_growth(root, variables)
    kept = {k: _replaced(e, variables) for k, e in root.value.items() if k != "variables"}
    return Entry(kept, root.where)


def _check_growth(root: Entry, variables: dict[str, Entry]) -> None:
    """Raise RecipeError if variables would make the recipe larger than a file may be."""
    sizes = {name: len(str(entry.plain())) for name, entry in variables.items()}
    grown = 0
    left = [e for k, e in root.value.items() if k != "variables"]
    while left:
        entry = left.pop()
        if isinstance(entry.value, dict | list):
            left += entry.value.values() if isinstance(entry.value, dict) else entry.value
        elif isinstance(entry.value, str):
            grown += sum(sizes.get(name, 0) for name in _VARIABLE.findall(entry.value))
            if grown > MAX_BYTES:
                raise entry.error("variables make the recipe too large")


def _replaced(entry: Entry, variables: dict[str, Entry]) -> Entry:
    value = entry.value
    if isinstance(value, dict):
        return Entry({k: _replaced(e, variables) for k, e in value.items()}, entry.where)
    if isinstance(value, list):
        return Entry([_replaced(e, variables) for e in value], entry.where)
    if not isinstance(value, str) or "${" not in value:
        return entry

    def find(match: re.Match[str]) -> Entry:
        if match[1] not in variables:
            raise entry.error(f"no variable is called {match[1]!r}{nearest(match[1], variables)}")
        return variables[match[1]]

    whole = _VARIABLE.fullmatch(value)
    if whole:
        return _moved(find(whole), entry.where)
    return Entry(_VARIABLE.sub(lambda m: _text(find(m), entry), value), entry.where)


def _moved(entry: Entry, where: str) -> Entry:
    value: Any = entry.value
    if isinstance(value, dict):
        value = {k: _moved(e, where) for k, e in value.items()}
    elif isinstance(value, list):
        value = [_moved(e, where) for e in value]
    return Entry(value, where)


def _text(variable: Entry, entry: Entry) -> str:
    if isinstance(variable.value, dict | list):
        raise entry.error("only strings and numbers can be part of a longer string")
    return str(variable.plain())
