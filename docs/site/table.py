"""The table of docs/coverage.py: functions, their references, kinds and sweeps."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

# Not imported: a module of that name is a well-known tool's, for which others look.
FUNCTIONS: list[tuple[str, str, str, str]] = run_path(
    str(Path(__file__).parents[1] / "coverage.py")
)["FUNCTIONS"]
