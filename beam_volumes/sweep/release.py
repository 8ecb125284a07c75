"""What a process holds from sweep to sweep, such as a network: until a sweep comes that has no use for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

_lock = threading.Lock()
_held: dict[str, Callable[[], None]] = {}


def hold(token: str, drop: Callable[[], None]) -> None:
    """Have ``drop`` called once a sweep begins none of whose stages names ``token`` as its `Stage.holds`."""
    with _lock:
        _held[token] = drop


def release_unused(used: Iterable[str]) -> None:
    """Drop all that is not used.

    Whoever still computes with it has a reference of its own.

    >>> hold("network", lambda: print("gone"))
    >>> release_unused({"network"})
    >>> release_unused(set())
    gone
    """
    kept = set(used)
    with _lock:
        gone = [_held.pop(token) for token in list(_held) if token not in kept]
    for drop in gone:
        drop()
