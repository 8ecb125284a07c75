"""Texts for people: names of files and metadata may hold what a terminal obeys."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""A text in which nothing but letters, spaces and line ends is left to a terminal.

    Examples
    --------
    >>> print(printable("s\x1b[2J\r.png\nnext"))
    s\x1b[2J\r.png
    next
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)
