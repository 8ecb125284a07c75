"""Text for users, and text that docstrings share. Names of files may contain terminal control characters."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar


def printable(text: str) -> str:
    r"""Escape all characters except printable ones and newlines.

    >>> print(printable("s\x1b[2J\r.png\nnext"))
    s\x1b[2J\r.png
    next
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def parsed_json(text: str | bytes) -> Any:
    """Parse a JSON document; ValueError if it is invalid or nested too deeply.

    >>> parsed_json("[" * 100_000)
    Traceback (most recent call last):
    ValueError: it is nested too deeply
    """
    try:
        return json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a key that is there twice has no certain value."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"it has the key {printable(repeated(k for k, _ in pairs))!r} twice")
    return found


def repeated(names: Iterable[Any]) -> str:
    """Return the first name that is there twice, or an empty text.

    >>> repeated(["z", "y", "x", "y"]), repeated("zyx")
    ('y', '')
    """
    return next((str(name) for name, count in Counter(names).items() if count > 1), "")


def check_columns(names: Iterable[Any], what: str) -> None:
    """Refuse a table with two columns of one name."""
    if name := repeated(names):
        raise ValueError(
            f"{what} has several columns called {name!r}; rename or remove all but one"
        )


def lined_json(document: Mapping[str, Any]) -> bytes:
    r"""Encode a JSON object with a line for each key: Python indents deeper documents slowly.

    >>> lined_json({"run": "a", "steps": [{"id": 1}]})
    b'{\n"run": "a",\n"steps": [{"id": 1}]\n}'
    """
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items())
    return ("{\n" + ",\n".join(lines) + "\n}").encode()


def counted(n: int, name: str) -> str:
    """Format a number with a noun.

    >>> counted(1, "pass"), counted(2, "pass"), counted(1200, "slab")
    ('1 pass', '2 passes', '1,200 slabs')
    """
    many = f"{name}es" if name.endswith("s") else f"{name}s"
    return f"{n:,} {name if n == 1 else many}"


def format_duration(seconds: float, digits: int = 0) -> str:
    """Format seconds; with ``digits`` decimals below a minute.

    >>> format_duration(7), format_duration(0.42, 1), format_duration(75), format_duration(7500)
    ('7 s', '0.4 s', '1 min 15 s', '2 h 05 min')
    """
    if round(seconds, digits) < 60:
        return f"{seconds:.{digits}f} s"
    s = round(seconds)
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600:,} h {s % 3600 // 60:02d} min"


def format_bytes(n: float) -> str:
    """Format a number of bytes.

    >>> format_bytes(3 << 30)
    '3.0 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(n) < 1024 or unit == "TiB":
            return f"{n:.0f} B" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    raise AssertionError


def format_number(value: float) -> str:
    """Format a number with six digits, or with all digits before the point.

    >>> format_number(65535.0), format_number(1234567.8), format_number(0.000123456789), format_number(7)
    ('65535', '1234568', '0.000123457', '7')
    """
    size = abs(value)
    digits = len(f"{size:.0f}") if 1e6 <= size < 1e15 else 6
    return f"{value:.{digits}g}"


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the nearest known name, or all names if they are few.

    >>> nearest("sigmma", ["sigma", "size"])
    "; did you mean 'sigma'?"
    """
    known = sorted(known)
    close = difflib.get_close_matches(name.lower(), [k.lower() for k in known], 1, 0.6)
    if close:
        match = next(k for k in known if k.lower() == close[0])
        return f"; did you mean {match!r}?"
    if 0 < len(known) <= 12:
        return f"; known are {', '.join(known)}"
    return ""


Documented = TypeVar("Documented", bound=Callable[..., Any])

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def filled(texts: Mapping[str, str]) -> Callable[[Documented], Documented]:
    r"""Make a decorator that inserts paragraphs into the docstring of a function or class.

    ``texts`` are the paragraphs by name, unindented, without a trailing newline.

    >>> @filled({"axis": "axis : int\n    Counted from 0."})
    ... def lines(axis):
    ...     '''Count lines.
    ...
    ...     %(axis)s
    ...     '''
    >>> import inspect
    >>> print(inspect.getdoc(lines))
    Count lines.
    <BLANKLINE>
    axis : int
        Counted from 0.
    """

    def text(place: re.Match[str]) -> str:
        indent, name = place.groups()
        return indent + texts[name].replace("\n", "\n" + indent)

    def decorate(item: Documented) -> Documented:
        if item.__doc__ is not None:
            item.__doc__ = _PLACE.sub(text, item.__doc__)
        return item

    return decorate
