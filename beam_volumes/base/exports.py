"""Public names are imported when they are first asked for; the package's stub says from where.

Compiling needs numba, and pipelines need Apache Beam: seconds and 100 MB that a program which asks for
neither can spare. So there is one list of names, `beam_volumes/__init__.pyi`. It tells editors and type
checkers what there is, and a program where to find it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from beam_volumes.base.hints import hint


def read_stub(stub: Path) -> dict[str, str]:
    """For each name that a stub exports, the module that has it, relative to the stub's package."""
    statements = ast.parse(stub.read_text()).body
    imports = [s for s in statements if isinstance(s, ast.ImportFrom)]
    return dict(sorted((name.name, f".{i.module}") for i in imports for name in i.names))


_PACKAGE = "beam_volumes"

EXPORTS = read_stub(Path(__file__).parents[1] / "__init__.pyi")


def public(name: str) -> Any:
    """Return what the package exports under a name, importing its module if need be."""
    return getattr(import_module(EXPORTS[name], _PACKAGE), name)


#: The modules that methods of expressions call although they lie above them, by what they do. This is the one
#: place where a name leads upward: opening a volume imports neither operations nor runners.
_ABOVE = {
    "array_api": ".ops.array_api.methods",
    "compute": ".drive.compute",
    "notebook": ".show.notebook",
}


def above(what: str) -> Any:
    """Return a module that lies above all rooms that call it, importing it if need be."""
    return import_module(_ABOVE[what], _PACKAGE)


def pictured(item: Any) -> str | None:
    """Return what notebooks show of a volume, a plan or a table, as HTML; None if it cannot be drawn."""
    try:
        html: str = above("notebook").html(item)
    except Exception:
        return None
    return html


def lazy(
    package: str, space: dict[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make the ``__getattr__``, ``__dir__`` and ``__all__`` of a package whose globals are `space`."""

    def get(name: str) -> Any:
        if name not in EXPORTS:
            said = hint(name, EXPORTS)
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}{'; ' if said else ''}{said}"
            )
        space[name] = public(name)
        return space[name]

    return get, lambda: list(EXPORTS), list(EXPORTS)
