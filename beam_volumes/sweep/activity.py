"""What a sweep does just now: named in whatever goes wrong meanwhile, and metered."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from beam_volumes.base.geometry import Range
from beam_volumes.sweep.error_context import error_context
from beam_volumes.sweep.meter import Activity, Meter
from beam_volumes.sweep.program import Program


class ActivityContext:
    """Names what a sweep does with slices of a step.

    It is of no sweep: two objects that know each other would keep rings until somebody collects garbage.
    """

    def __init__(self, program: Program, meter: Meter | None):
        self.program, self.meter = program, meter

    def __call__(self, kind: str, i: int, z: Range, name: str | None = None) -> Any:
        """Return a context that names what is done, of which step or end, and to which slices."""
        if name is None:
            name = ("reading " if kind == "read" else "") + self.program.steps[i].name
        where = f"{name}, slices {z[0]} to {z[1] - 1}"
        return error_context(where) if self.meter is None else self._metered(where, kind, i, name)

    @contextlib.contextmanager
    def _metered(self, where: str, kind: str, i: int, name: str) -> Iterator[None]:
        assert self.meter is not None
        with error_context(where), self.meter.timed(Activity(kind, i, name)):
            yield
