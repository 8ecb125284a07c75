"""What tells a user's function from another: a name and a version, or that it was given only once."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from beam_volumes.sweep.stage import digest

_repeated: ContextVar[Iterator[str] | None] = ContextVar("beam_volumes_repeated", default=None)


def identity(name: str | None, version: Any) -> str:
    """By what the results of a user's function are known again: without a name, by nobody.

    >>> identity("clip", 1) == identity("clip", 1), identity("clip", 1) == identity("clip", 2)
    (True, False)
    >>> identity(None, None) == identity(None, None)
    False
    """
    if name is not None:
        return digest("named", name, version)
    repeated = _repeated.get()
    return uuid.uuid4().hex if repeated is None else next(repeated)


@contextmanager
def repeating(*call: Any) -> Iterator[None]:
    """For a call that may be made again: its functions without a name are the same ones then, in order.

    >>> found = []
    >>> for _ in range(2):
    ...     with repeating("a pipeline", "an element"):
    ...         found.append([identity(None, None), identity(None, None)])
    >>> found[0] == found[1], len({*found[0]})
    (True, 2)
    """
    token = _repeated.set(digest("repeated", *call, k) for k in itertools.count())
    try:
        yield
    finally:
        _repeated.reset(token)
