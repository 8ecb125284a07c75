"""Shell completion of verbs, options, operations, their parameters and recipe keys."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any


def offered(arguments: argparse.ArgumentParser) -> None:
    """Answer a completion request of the shell and exit; return if there is none."""
    import argcomplete

    argcomplete.autocomplete(arguments, always_complete_options="long")


def words(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Complete a word of a chain: operations and files, or options of the previous operation.

    >>> words("--si", argparse.Namespace(words=["em.zarr", "gaussian_filter"]))
    ['--sigma']
    """
    from argcomplete.completers import FilesCompleter

    from beam_volumes.recipes.catalogue import operations
    from beam_volumes.recipes.words import WRITE_OPTIONS, spelt

    known, given = operations(), list(parsed_args.words or [])
    if not prefix.startswith("-"):
        found = [*known, *FilesCompleter()(prefix)]
    else:
        last = next((w for w in reversed(given) if w in known or w in ("-o", "--out")), None)
        names = known[last].parameters if last in known else WRITE_OPTIONS if last else ()
        found = [*map(spelt, names), "--as", "--out", "--dry-run", "--print-recipe", "--overwrite"]
    return [w for w in found if w.startswith(prefix)]


def operation_names(prefix: str, **_: Any) -> list[str]:
    """Complete the name of an operation."""
    from beam_volumes.recipes.catalogue import operations

    return [name for name in operations() if name.startswith(prefix)]


def places(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Complete the keys that ``--set`` can change in the named recipe."""
    from beam_volumes.recipes.document import load
    from beam_volumes.recipes.recipe import read_text

    try:
        document = load(read_text(parsed_args.recipe), "recipe").plain()
    except (ValueError, OSError, TypeError):
        return []
    variables = document.pop("variables", None) or {}
    found = [*variables, *_keys(document)]
    return [f"{key}=" for key in found if key.startswith(prefix)]


def _keys(value: Any, before: str = "") -> Iterator[str]:
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inside:
        if isinstance(item, dict | list) and not (
            isinstance(item, list) and before.startswith("steps.")
        ):
            yield from _keys(item, f"{before}{key}.")
        else:
            yield f"{before}{key}"
