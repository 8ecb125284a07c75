"""Where a user's function is called by a sweep, no other sweep may begin: it would wait for the first one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: The user's function that this thread is in.
_caller: ContextVar[str | None] = ContextVar("beam_volumes_user_function", default=None)


@contextmanager
def calling(function: str) -> Iterator[None]:
    """Call a user's function inside, on whatever thread."""
    token = _caller.set(function)
    try:
        yield
    finally:
        _caller.reset(token)


def check_not_nested() -> None:
    """Refuse to begin a sweep inside a user's function.

    Raises
    ------
    ValueError
        It would wait for a place among the sweeps of this process, which the one that called has.

    Examples
    --------
    >>> with calling("edges"):
    ...     check_not_nested()
    Traceback (most recent call last):
    ValueError: the function 'edges' computes with beam_volumes itself, inside the sweep that calls it, ...
    """
    function = _caller.get()
    if function is not None:
        raise ValueError(
            f"the function {function!r} computes with beam_volumes itself, inside the sweep that calls it, "
            "which can never end: work on the arrays it is given; give volumes it needs as further volumes "
            "of map_overlap, and numbers as those of a computation before"
        )
