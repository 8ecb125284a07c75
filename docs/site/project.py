"""Reads the project's description and addresses from pyproject.toml."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib


@cache
def metadata() -> dict[str, Any]:
    """The table ``project``: ``description``, ``urls`` and others."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    table: dict[str, Any] = tomllib.loads(text)["project"]
    return table
