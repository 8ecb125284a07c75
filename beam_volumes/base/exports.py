"""Public names are imported on first use.

Importing numba or Apache Beam takes seconds and 100 MB, and many programs need neither.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from beam_volumes.base.hints import hint
from beam_volumes.base.public_names import PUBLIC_NAMES

_PACKAGE = "beam_volumes"

#: Each public name, with its module relative to the package.
EXPORTS = dict(sorted((n, f".{m}") for m, names in PUBLIC_NAMES.items() for n in names.split()))


def public(name: str) -> Any:
    """Return a public name of the package; import its module if necessary."""
    return getattr(import_module(EXPORTS[name], _PACKAGE), name)


def lazy(
    package: str, space: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` for a package; ``space`` is its globals."""

    def get(name: str) -> Any:
        if name not in EXPORTS:
            found = hint(name, EXPORTS)
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{'; ' if found else ''}{found}"
            )
        space[name] = public(name)
        return space[name]

    return get, lambda: list(EXPORTS), list(EXPORTS)
