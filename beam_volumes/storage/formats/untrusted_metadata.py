"""Metadata that other programs have written, which may be anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Foreign:
    """Takes from a JSON document what it should hold, and says by name what is not so."""

    name: str  #: How messages name the volume
    what: str  #: How they name the metadata
    remedy: str = "mend them"  #: What the user can do

    def error(self, what: str, found: Any) -> ValueError:
        return ValueError(
            f"{self.name}: its {self.what} are not as they should be: {what} is {found}; {self.remedy}"
        )

    def mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(what, f"{value!r}, not an object")
        return value

    def list(self, value: Any, what: str) -> Sequence[Any]:
        """None, for what is not there, is an empty list."""
        if value is not None and not isinstance(value, list):
            raise self.error(what, f"{value!r}, not a list")
        return value or []

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise self.error(what, "missing" if value is None else f"{value!r}, not a text")
        return str(value)

    def numbers(self, value: Any, what: str, many: int | None) -> Sequence[float]:
        """Finite ones, as many as axes or as those that go with them."""
        found = self.list(value, what)
        if not all(
            isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
            for n in found
        ):
            raise self.error(what, f"{value!r}, not a list of numbers")
        if many is not None and len(found) != many:
            raise self.error(what, f"{value!r}, not {many} numbers")
        return [float(n) for n in found]
