"""Checked metadata of other programs, and the metadata of this package in other formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.base.space import AXES, Space
from beam_volumes.base.text import parsed_json
from beam_volumes.storage.sources.axes import unit_name
from beam_volumes.storage.sources.description import Description

#: The value of True in formats that are viewed as images.
MASK_VALUE = 255
MASK_OPTION = (
    "int",
    "The stored value of True, 1 to 255. The default 255 makes image viewers show masks in black and "
    "white. It is read back as True.",
)


@dataclass(frozen=True)
class Mark:
    """Space and dtype of a volume, as this package notes them in files of other formats."""

    #: Without leading axes, except the names of channels
    space: Space = field(default_factory=Space)
    mask: bool = False  #: Whether nonzero values are True

    @classmethod
    def of(cls, d: Description) -> Mark:
        return cls(d.space, d.dtype.kind == "b")

    def to_dict(self) -> dict[str, Any]:
        s = self.space
        stated = {"axes": s.axes, "voxel_size": s.voxel_size, "unit": s.unit, "origin": s.origin}
        named = {"channels": s.channels} if s.channels else {}
        return {**stated, **named, "mask": self.mask}

    @classmethod
    def read(cls, found: Any) -> Mark | None:
        """Parse a mark; None if it is missing or invalid.

        Examples
        --------
        >>> Mark.read('{"axes": ["y", "x"], "mask": true}').mask
        True
        """
        try:
            if isinstance(found, str | bytes):
                found = parsed_json(found)
            if not isinstance(found, Mapping):
                return None
            axes = tuple(a for a in AXES if a in found["axes"])
            size, origin = found.get("voxel_size"), found.get("origin") or (0.0, 0.0, 0.0)
            z, y, x = (_finite(o) for o in origin)
            voxel_size = None
            if size is not None:
                a, b, c = (_finite(s) for s in size)
                if min(a, b, c) <= 0:
                    return None
                voxel_size = (a, b, c)
            names = found.get("channels") or ()
            if not isinstance(names, list | tuple) or len({str(n) for n in names}) < len(names):
                names = ()
            space = Space(
                axes,
                voxel_size,
                unit_name(found.get("unit")),
                (z, y, x),
                channels=tuple(str(n) for n in names),
            )
            return cls(space, found.get("mask") is True) if {"y", "x"} <= set(axes) else None
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(value)
    return number


def mask_value(name: str, value: Any, dtype: np.dtype) -> dict[str, int]:
    """Check the option ``mask_value``; return the options to store."""
    if dtype.kind != "b":
        if value is not None:
            raise ValueError(f"{name}: mask_value={value!r} is for masks, not for {dtype}")
        return {}
    number = MASK_VALUE if value is None else value
    if isinstance(number, bool) or number != int(number) or not 1 <= number <= 255:
        raise ValueError(f"{name}: mask_value={value!r}; give a whole number from 1 to 255")
    return {"mask_value": int(number)}


def as_bytes(d: Description, voxels: np.ndarray) -> np.ndarray:
    if voxels.dtype.kind != "b":
        return voxels
    return voxels.view(np.uint8) * np.uint8(d.options.get("mask_value", MASK_VALUE))


@dataclass(frozen=True)
class Foreign:
    """Reads values from a JSON document and reports invalid ones by name."""

    name: str  #: The volume's name in messages
    what: str  #: The name of the metadata in messages
    remedy: str = "correct them"  #: The remedy in messages

    def error(self, what: str, found: Any) -> ValueError:
        return ValueError(f"{self.name} has invalid {self.what}: {what} is {found}; {self.remedy}")

    def mapping(self, value: Any, what: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(what, f"{value!r}, not an object")
        return value

    def list(self, value: Any, what: str) -> Sequence[Any]:
        """Return a list; None gives an empty list."""
        if value is not None and not isinstance(value, list):
            raise self.error(what, f"{value!r}, not a list")
        return value or []

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise self.error(what, "missing" if value is None else f"{value!r}, not a text")
        return str(value)

    def numbers(self, value: Any, what: str, many: int | None) -> Sequence[float]:
        """Return a list of finite numbers, of length ``many`` if given."""
        found = self.list(value, what)
        if not all(
            isinstance(n, int | float) and not isinstance(n, bool) and math.isfinite(n)
            for n in found
        ):
            raise self.error(what, f"{value!r}, not a list of numbers")
        if many is not None and len(found) != many:
            raise self.error(what, f"{value!r}, not {many} numbers")
        return [float(n) for n in found]
