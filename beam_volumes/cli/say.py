"""What the command prints: results, and what is told beside them."""

from __future__ import annotations

import sys

from beam_volumes.base.text import printable


def say(text: str) -> None:
    """Print a result."""
    print(printable(text))


def tell(text: str) -> None:
    """Print at once, on standard error, what is no result."""
    print(printable(text), file=sys.stderr, flush=True)
