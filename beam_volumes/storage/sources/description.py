"""Descriptions of output arrays as plain data for their formats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.base.space import Space
from beam_volumes.storage.sources.pyramid import Pyramid

_D = TypeVar("_D", bound="Description")


@dataclass(frozen=True, eq=False)
class Description:
    """The content, place and layout of an output array."""

    name: str  #: The path or URL, for messages
    format: str  #: The name of a `WritableFormat`
    #: Of z, y, x, even if the file has fewer axes
    shape: Triple
    dtype: np.dtype  #: As stored: uint8 for bool
    chunk: Triple
    shard: Triple | None  #: The write unit, if larger than a chunk
    codec: tuple[str, int | None]  #: Name and level
    space: Space
    kvstore: dict[str, Any]  #: The place of a file or a directory
    #: Options of the format: plain data
    options: Mapping[str, Any] = field(default_factory=dict)
    #: Whether it is intermediate data of a run: all its chunks are stored, and a missing one is an
    #: error
    scratch: bool = False
    #: Whether it is bool, stored as uint8 0 and 1: formats mark it if they can, and readers return
    #: bool
    mask: bool = False
    #: Extents of the stored axes before z, y, x, named by ``space.leading``
    leading: tuple[int, ...] = ()
    leading_unit: tuple[int, ...] = ()  #: Their points in a chunk: one, or all
    #: The position of a part among the units along these axes; else None
    at: tuple[int, ...] | None = None
    labels: bool = False  #: Whether voxels are labels
    pyramid: Pyramid | None = None  #: The stored levels, if there are several
    #: The number of the level; None for the whole, which is described as the finest
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
        """The levels of a pyramid; itself without one."""
        if self.pyramid is None:
            return (self,)
        return tuple(self.of_level(k) for k in range(len(self.pyramid.levels)))

    @property
    def whole(self: _D) -> _D:
        """The whole pyramid, given one of its levels; else itself."""
        return self if self.level is None else replace(self.of_level(0), level=None)

    @property
    def samples(self) -> int:
        """The number of values per voxel in a unit: several, if chunks hold all channels."""
        return math.prod(self.leading_unit)

    @cached_property
    def unit(self) -> Triple:
        """The write unit: the shard, or the chunk if there are no shards."""
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
        return self.kvstore.get("driver") not in ("file", "memory")

    def stored(self, triple: Sequence[Any], leading: Sequence[Any] = ()) -> list[Any]:
        """Arrange values for leading axes and z, y, x by the stored axes."""
        return [*leading, *(triple[a] for a in self.space.visible)]

    def whole_units(self) -> Triple:
        """Return the shape rounded up to whole units."""
        z, y, x = (-(-n // u) * u for n, u in zip(self.shape, self.unit, strict=True))
        return (z, y, x)
