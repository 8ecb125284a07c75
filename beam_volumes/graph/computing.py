"""What turns expressions into arrays where numpy or a user asks for one; and where nothing may."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from beam_volumes.base.exports import public

#: Set by `beam_volumes.drive.compute`: computes volumes and scalars in this process. Graphs know no runners.
_compute: Callable[..., Any] | None = None


def computes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Register what turns expressions into arrays when numpy or a user asks for one."""
    global _compute
    _compute = function
    return function


#: Whether this thread may compute expressions.
_allowed: ContextVar[bool] = ContextVar("beam_volumes_computing_allowed", default=True)


@contextmanager
def nothing_computed() -> Iterator[None]:
    """Refuse what would compute an expression now, e.g. one that stands where an array is needed."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def computed(item: Any) -> Any:
    """Compute an expression in this process, as numpy asks for it."""
    if not _allowed.get():
        raise ValueError(f"{item!r} would have to be computed first, and cannot stand there")
    if _compute is None:  # nobody has asked for it yet
        public("compute")
    assert _compute is not None
    return _compute(item)
