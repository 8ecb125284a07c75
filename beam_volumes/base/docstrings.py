"""Paragraphs that several docstrings share, each written once.

A docstring has a line ``%(mode)s``, and a decorator replaces it on import by the paragraph of that name, as
`scipy.ndimage` does. The function, its signature and its annotations do not change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def filled(texts: Mapping[str, str]) -> Callable[[Documented], Documented]:
    r"""Make a decorator that inserts paragraphs into the docstring of a function or class.

    ``texts`` are the paragraphs by name, unindented, without empty lines and a trailing newline. A name
    without a paragraph raises a KeyError. Without docstrings (``python -OO``), the decorator does nothing.

    Examples
    --------
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
