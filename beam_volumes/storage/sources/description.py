"""An output array as plain data, as its format is told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.space import Space
from beam_volumes.storage.sources.pyramid import Pyramid

_D = TypeVar("_D", bound="Description")


@dataclass(frozen=True, eq=False)
class Description:
    """What is to be stored, where and how."""

    name: str  #: How messages name it: its path or URL
    format: str  #: The name of a `WritableFormat`
    #: Of z, y, x, also where the file has fewer axes
    shape: Triple
    dtype: np.dtype  #: As stored: uint8 for bool
    chunk: Triple
    shard: Triple | None  #: What is written at once, if that is more than a chunk
    codec: tuple[str, int | None]  #: Name and level
    space: Space
    kvstore: dict[str, Any]  #: The place of a file or of a directory
    #: What the format alone understands: plain data
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it is a run's own, between its passes: all its chunks are stored, and one that is not
    #: there is an error where it is read
    scratch: bool = False
    #: Whether it is bool, stored as uint8 0 and 1: formats that can say so mark it, and who opens
    #: it finds bool again
    mask: bool = False
    #: Extents of the axes before z, y and x that are stored, which ``space.leading`` names
    leading: tuple[int, ...] = ()
    leading_unit: tuple[int, ...] = ()  #: How many of their points a chunk holds: one, or all
    #: Of a part of an output, which of the units along these axes it is; else None
    at: tuple[int, ...] | None = None
    labels: bool = False  #: Whether its voxels are labels
    pyramid: Pyramid | None = None  #: The levels that are stored, if there are several
    #: Which of them this is; None of the whole, which is described as the finest
    level: int | None = None

    def of_level(self: _D, k: int) -> _D:
        assert self.pyramid is not None
        level, name = self.pyramid.levels[k], self.pyramid.name
        return replace(
            self,
            name=f"{name}/{k}" if k else name,
            shape=level.shape,
            chunk=level.chunk,
            shard=level.shard,
            space=level.space,
            at=None,
            level=k,
        )

    @property
    def every_level(self: _D) -> tuple[_D, ...]:
        """The levels of a pyramid; itself if it is none."""
        if self.pyramid is None:
            return (self,)
        return tuple(self.of_level(k) for k in range(len(self.pyramid.levels)))

    @property
    def whole(self: _D) -> _D:
        """The whole of a level of a pyramid; else itself."""
        return self if self.level is None else replace(self.of_level(0), level=None)

    @property
    def samples(self) -> int:
        """How many points a unit holds of each voxel: several, if chunks hold all channels."""
        return math.prod(self.leading_unit)

    @property
    def unit(self) -> Triple:
        """What is written at once: the shard, or else the chunk."""
        return self.shard or self.chunk

    @property
    def grid(self) -> Grid:
        return Grid(self.shape, self.unit)

    @property
    def unit_bytes(self) -> int:
        return math.prod(self.unit) * self.samples * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return math.prod((*self.leading, *self.shape)) * self.dtype.itemsize

    @property
    def portable(self) -> bool:
        return self.kvstore.get("driver") != "memory"

    @property
    def remote(self) -> bool:
        """Whether it lies in a bucket."""
        return self.kvstore.get("driver") not in ("file", "memory")

    def stored(self, triple: Sequence[Any], leading: Sequence[Any] = ()) -> list[Any]:
        """Values for z, y, x, behind those for leading axes, as values for the axes that are stored."""
        return [*leading, *(triple[a] for a in self.space.visible)]

    def whole_units(self) -> Triple:
        """The shape rounded up to whole units."""
        z, y, x = (-(-n // u) * u for n, u in zip(self.shape, self.unit, strict=True))
        return (z, y, x)
