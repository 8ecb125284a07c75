"""An output array as plain data, as its format is told of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from beam_volumes.geometry import Grid, Triple
from beam_volumes.space import Space


@dataclass(frozen=True, eq=False)
class Description:
    """What is to be stored, where and how.

    Attributes
    ----------
    name : str
        How messages name it: its path or URL.
    format : str
        The name of a `WritableFormat`.
    shape, chunk : tuple of int
        Of z, y, x, also where the file has fewer axes.
    shard : tuple of int or None
        What is written at once, if that is more than a chunk.
    dtype : numpy.dtype
        As stored: uint8 for bool.
    codec : tuple
        Name and level.
    space : Space
    kvstore : dict
        The place of a file or of a directory.
    options : mapping
        What the format alone understands: plain data.
    scratch : bool
        Whether it is a run's own, between its passes: all its chunks are stored, and one that is not
        there is an error where it is read.
    """

    name: str
    format: str
    shape: Triple
    dtype: np.dtype
    chunk: Triple
    shard: Triple | None
    codec: tuple[str, int | None]
    space: Space
    kvstore: dict[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    scratch: bool = False

    @property
    def unit(self) -> Triple:
        """What is written at once: the shard, or else the chunk."""
        return self.shard or self.chunk

    @property
    def grid(self) -> Grid:
        """The write units."""
        return Grid(self.shape, self.unit)

    @property
    def unit_bytes(self) -> int:
        return math.prod(self.unit) * self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def portable(self) -> bool:
        """Whether other processes can open it."""
        return self.kvstore.get("driver") != "memory"

    @property
    def remote(self) -> bool:
        """Whether it lies in a bucket."""
        return self.kvstore.get("driver") not in ("file", "memory")

    def stored(self, triple: Sequence[Any]) -> list[Any]:
        """Values for z, y, x as values for the axes that are stored."""
        return [triple[a] for a in self.space.visible]

    def whole_units(self) -> Triple:
        """The shape rounded up to whole units."""
        z, y, x = (-(-n // u) * u for n, u in zip(self.shape, self.unit, strict=True))
        return (z, y, x)
