"""Texts that many docstrings share, each written once.

A docstring names a text on a line of its own, ``%(mode)s``, and a decorator puts it there when the module
is imported, as in `scipy.ndimage`. Signatures, annotations and the function itself stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Documented = TypeVar("Documented", bound=Callable[..., Any])

_PLACE = re.compile(r"^( *)%\((\w+)\)s$", re.MULTILINE)


def filled(texts: Mapping[str, str]) -> Callable[[Documented], Documented]:
    r"""Make a decorator that puts texts where a function's or a class's docstring names them.

    Parameters
    ----------
    texts : mapping of str to str
        The texts by name, not indented, without empty lines and a newline at the end.

    Returns
    -------
    callable
        The decorator. It returns what it is given, with another ``__doc__``; without docstrings
        (``python -OO``) it does nothing. A name without a text is a KeyError.

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
