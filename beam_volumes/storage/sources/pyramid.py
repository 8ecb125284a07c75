"""Pyramids: the factors, shapes and positions of their levels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import Space
from beam_volumes.storage.sources.chunking import per_axis

#: Methods to compute a voxel from the finer level, with their names in `downsample`.
METHODS = {m: m for m in ("mean", "mode", "max", "min", "median")} | {"nearest": "stride"}
#: ``levels="auto"`` ends with a level of at most this size along each axis.
SMALL = 256

#: The options of formats with pyramids: type and description.
OPTIONS = {
    "levels": (
        '``"auto"`` or int',
        "Store a pyramid with this number of levels, including the volume itself. ``auto`` halves the axes "
        "with the smallest voxels until voxels are nearly isotropic, then all axes, until a level has 256 "
        "voxels or less along each axis.",
    ),
    "method": (
        '``"mean"``, ``"mode"``, ``"nearest"``, ``"max"``, ``"min"`` or ``"median"``',
        "How each level is computed from the previous one: see `downsample`; ``nearest`` takes the first "
        "voxel. The default is the mode for labels and masks, otherwise the mean.",
    ),
    "factors": (
        "int, sequence of int, or a sequence of these",
        "How many voxels become one, for all axes or for each, and for all levels or for each level after "
        "the first. The default is 2, or chosen by ``auto``.",
    ),
}


@dataclass(frozen=True)
class Level:
    """One array of a pyramid."""

    shape: Triple
    chunk: Triple
    shard: Triple | None
    space: Space


@dataclass(frozen=True)
class Pyramid:
    """The stored levels of a volume, starting with the volume itself."""

    name: str  #: The name of the whole, for messages
    method: str  #: One of `METHODS`
    factors: tuple[Triple, ...]  #: From each level to the next
    levels: tuple[Level, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Pyramid:
        """Invert `dataclasses.asdict`, also after JSON."""

        def plain(value: Any) -> Any:
            return tuple(map(plain, value)) if isinstance(value, list) else value

        levels = []
        for level in data["levels"]:
            space = Space(**{k: plain(v) for k, v in level["space"].items()})
            levels.append(Level(**{k: plain(v) for k, v in {**level, "space": space}.items()}))
        return cls(data["name"], data["method"], plain(data["factors"]), tuple(levels))


def smaller(shape: Triple, factors: Triple) -> Triple:
    z, y, x = (-(-n // f) for n, f in zip(shape, factors, strict=True))
    return (z, y, x)


def middle_of(method: str) -> float:
    """Return the position of a coarse voxel in its window, from 0 (first voxel) to 1."""
    return 0.0 if method == "nearest" else 0.5


def space_of(space: Space, factors: Triple, method: str) -> Space:
    """Return the space of the next level, centred on the voxels it is made of."""
    known = replace(space, voxel_size=space.voxel_size or (1.0, 1.0, 1.0)).unsliced()
    middle = middle_of(method)
    z, y, x = (middle * (f - 1) for f in factors)
    return known.resampled((float(factors[0]), float(factors[1]), float(factors[2])), (z, y, x))


def factors_between(
    name: str,
    shape: Triple,
    space: Space,
    *,
    levels: str | int | None = None,
    method: str | None = None,
    factors: Any = None,
) -> tuple[Triple, ...]:
    """Return the factors from each level to the next; empty without a pyramid.

    Raises `ValueError`: the message names the output, the option and its valid values.

    >>> factors_between("a", (100, 1000, 1000), Space(voxel_size=(40, 10, 10)), levels="auto")
    ((1, 2, 2), (1, 2, 2))
    >>> factors_between("a", (9, 9, 9), Space(), levels=3, factors=(1, 2, 3))
    ((1, 2, 3), (1, 2, 3))
    """
    if method is not None and method not in METHODS:
        raise ValueError(f"{name}: method={method!r}; use one of {', '.join(METHODS)}")
    for option, value in (("method", method), ("factors", factors)):
        if levels is None and value is not None:
            raise ValueError(
                f"{name}: {option}={value!r} needs levels=, the number of levels or 'auto'"
            )
    if levels is None:
        return ()
    is_count = isinstance(levels, int) and not isinstance(levels, bool) and levels >= 1
    if levels != "auto" and not is_count:
        raise ValueError(
            f"{name}: levels={levels!r}; give 'auto' or the number of levels including the volume itself"
        )
    steps = _steps(name, space, factors, None if levels == "auto" else int(levels) - 1)
    found: list[Triple] = []
    size = list(space.voxel_size or (1.0, 1.0, 1.0))
    while math.prod(shape):
        if isinstance(levels, int) and len(found) == levels - 1:
            break
        if levels == "auto" and max(shape) <= SMALL:
            break
        by = steps[min(len(found), len(steps) - 1)] if steps else _halved(shape, size)
        by = tuple(min(f, n) if n else f for f, n in zip(by, shape, strict=True))  # type: ignore[assignment]
        if math.prod(by) == 1:
            if levels == "auto" and not steps:
                break
            raise ValueError(
                f"{name}: levels={levels!r}: level {len(found) + 1} would be as large as the one before, "
                f"{' x '.join(str(shape[a]) for a in space.visible)}; ask for {len(found) + 1} levels"
            )
        found.append(by)
        size = [s * f for s, f in zip(size, by, strict=True)]
        shape = smaller(shape, by)
    return tuple(found)


def _halved(shape: Triple, size: Sequence[float]) -> Triple:
    """Return factors of 2 for axes with much shorter voxels than the longest, or else for all."""
    able = [a for a in range(3) if shape[a] > 1]
    longest = max((size[a] for a in able), default=1.0)
    short = [a for a in able if size[a] * math.sqrt(2) <= longest * (1 + 1e-9)]
    z, y, x = (2 if a in (short or able) else 1 for a in range(3))
    return (z, y, x)


def _steps(name: str, space: Space, factors: Any, count: int | None) -> list[Triple]:
    """Return the factors of a user: one for all levels, or one for each."""
    if factors is None:
        return []
    each = list(factors) if isinstance(factors, Sequence) else [factors]
    if not any(isinstance(f, Sequence) for f in each):
        each = [factors]
    elif count is not None and len(each) != count:
        raise ValueError(
            f"{name}: factors={factors!r} are for {len(each)} levels after the first, but there are {count}"
        )
    found = []
    for by in each:
        triple = per_axis("factors", by, space, name)
        assert triple is not None
        found.append(triple)
    return found
