"""A user's function that a sweep calls must not start another sweep, which would wait for the first one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: The user's function that this thread is calling.
_caller: ContextVar[str | None] = ContextVar("beam_volumes_user_function", default=None)


@contextmanager
def calling(function: str) -> Iterator[None]:
    """Mark the current thread as calling a user's function."""
    token = _caller.set(function)
    try:
        yield
    finally:
        _caller.reset(token)


def check_not_nested() -> None:
    """Refuse to start a sweep inside a user's function.

    >>> with calling("edges"):
    ...     check_not_nested()
    Traceback (most recent call last):
    ValueError: the function 'edges' computes with beam_volumes itself, inside the sweep that calls it, ...
    """
    function = _caller.get()
    if function is not None:
        raise ValueError(
            f"the function {function!r} computes with beam_volumes itself, inside the sweep "
            "that calls it, so the sweep would never end. Use the arrays that it is given, pass "
            "further volumes to map_overlap, and compute numbers beforehand"
        )
