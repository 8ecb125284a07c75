"""Parts of an output: one for each unit along leading axes, and for each level of a pyramid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TypeVar

import numpy as np

from beam_volumes.storage.sources.description import Description

_P = TypeVar("_P", bound="PartedOutput")


class PartedOutput(Description):
    """An output that is written in parts with the axes z, y, x."""

    @property
    def parts(self: _P) -> tuple[_P, ...]:
        """The parts along leading axes, each with the axes z, y, x; itself without such axes.

        A part is one unit thick: one channel, or all channels if a chunk holds all.
        """
        if self.pyramid is not None and self.level is None:
            return tuple(part for level in self.every_level for part in level.parts)
        if self.at is not None or not self.leading:
            return (self,)
        counts = [
            1 if a == "t" else n for a, n in zip(self.space.leading, self._units_along, strict=True)
        ]
        return tuple(self._part(at) for at in np.ndindex(*counts))

    def at_time(self: _P, k: int) -> _P:
        """Return the part of time point ``k``, given the part of another time point."""
        assert self.at is not None
        whole = replace(self, at=None, name=self.name.rpartition("[")[0])
        return whole._part((k, *self.at[1:]))

    def _part(self: _P, at: tuple[int, ...]) -> _P:
        axes = zip(self.space.leading, at, self._units_along, strict=True)
        which = ", ".join(f"{a}={k}" for a, k, n in axes if n > 1 or a == "t")
        return replace(self, at=at, name=f"{self.name}[{which}]" if which else self.name)

    @property
    def _units_along(self) -> list[int]:
        """The number of units along each leading axis."""
        return [n // u for n, u in zip(self.leading, self.leading_unit, strict=True)]

    @property
    def unit_count(self) -> int:
        """The number of units, including all parts."""
        if self.pyramid is not None and self.level is None:
            return sum(level.unit_count for level in self.every_level)
        parts = 1 if self.at is not None else math.prod(self._units_along)
        return parts * len(self.grid)

    def unit_of(self, part: PartedOutput, unit: int) -> int:
        """Return the number of a part's unit among all units."""
        if self.pyramid is not None and self.level is None:
            assert part.level is not None
            finer = sum(level.unit_count for level in self.every_level[: part.level])
            return finer + self.of_level(part.level).unit_of(part, unit)
        assert part.at is not None
        k = int(np.ravel_multi_index(part.at, self._units_along))
        return k * len(self.grid) + unit

    def located(self: _P, unit: int) -> tuple[_P, int]:
        """Return the part that contains a unit, and the unit's number there."""
        if self.pyramid is not None and self.level is None:
            for level in self.every_level:
                if unit < level.unit_count:
                    return level.located(unit)
                unit -= level.unit_count
        if self.at is not None or not self.leading:
            return self, unit
        k, own = divmod(unit, len(self.grid))
        at = np.unravel_index(k, self._units_along)
        return self._part(tuple(int(a) for a in at)), own
