"""Names of the objects of arrays, by their numbers: to delete them in parts, without a listing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from beam_volumes.storage.places.outside import check_key

#: Objects in a part.
PART = 1000
#: The names of an array's folder that can be names of its chunks: from, and up to.
Span = tuple[str, str]


def in_spans(name: str, spans: Iterable[Span]) -> bool:
    """Whether a name is in one of several spans."""
    return any(begin <= name < end for begin, end in spans)


@dataclass(frozen=True)
class NameGrid:
    """The names of the chunks or shards of an array.

    >>> grid = NameGrid("c/", (3, 40), "/")
    >>> grid.count, grid.name(41), "c/2/39" in grid, "c/2/40" in grid, "c/02/0" in grid
    (120, 'c/1/1', True, False, False)
    >>> NameGrid("8_8_40/", (2, 1), "-", (64, 64), (0, 30), (100, 94)).name(1)
    '8_8_40/64-100_30-94'
    >>> NameGrid("8_8_40/", (32,), "x").name(10)
    '8_8_40/0a.shard'
    """

    prefix: str  #: Of all names
    counts: tuple[int, ...]
    #: The separator of numbers, "/" or "."; "-" for spans of voxels, "x" for one hexadecimal number
    form: str
    #: The voxels of a chunk, the first voxel and the end, for spans
    step: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    stop: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_key("an output", self.prefix)

    @property
    def count(self) -> int:
        return math.prod(self.counts)

    def name(self, k: int) -> str:
        cell = []
        for n in reversed(self.counts):
            k, own = divmod(k, n)
            cell.append(own)
        return self._name(cell[::-1])

    def _name(self, cell: Sequence[int]) -> str:
        if self.form == "x":
            digits = len(f"{self.counts[0] - 1:x}")
            return f"{self.prefix}{cell[0]:0{digits}x}.shard"
        if self.form != "-":
            return self.prefix + self.form.join(map(str, cell))
        spans = []
        for c, step, start, stop in zip(cell, self.step, self.start, self.stop, strict=True):
            first = start + c * step
            spans.append(f"{first}-{min(first + step, stop)}")
        return self.prefix + "_".join(spans)

    def __contains__(self, name: str) -> bool:
        if not name.startswith(self.prefix):
            return False
        rest = name.removeprefix(self.prefix)
        try:
            cell = self._cell(rest)
        except ValueError:
            return False
        inside = len(cell) == len(self.counts) and all(
            0 <= c < n for c, n in zip(cell, self.counts, strict=True)
        )
        return inside and self._name(cell) == name

    def _cell(self, rest: str) -> list[int]:
        if self.form == "x":
            return [int(rest.removesuffix(".shard"), 16)]
        if self.form != "-":
            return [int(number) for number in rest.split(self.form)]
        firsts = [int(span.rpartition("-")[0]) for span in rest.split("_")]
        axes = zip(firsts, self.start, self.step, strict=True)
        return [(first - start) // step for first, start, step in axes]

    def covers(self, other: NameGrid) -> bool:
        """Whether all names of another grid of this kind are names of this one."""
        if (self.prefix, self.form, len(self.counts)) != (
            other.prefix,
            other.form,
            len(other.counts),
        ):
            return False
        if self.form in "-x":
            return self == other
        return all(n >= m for n, m in zip(self.counts, other.counts, strict=True))

    @property
    def span(self) -> Span:
        """The span of names that may be chunks: nothing else in it is looked at."""
        return self.prefix + ("-" if self.form == "-" else "0"), self.prefix + (
            "g" if self.form == "x" else ":"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> NameGrid:
        known: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**known)


def noted_grids(noted: Any) -> list[NameGrid]:
    """Return the grids in a note of JSON; none if they are damaged."""
    try:
        return [NameGrid.from_dict(grid) for grid in noted]
    except (TypeError, AttributeError, ValueError):
        return []


@dataclass(frozen=True)
class Parts:
    """The names of some grids that no other grid has, in parts of bounded size."""

    grids: tuple[NameGrid, ...]
    kept: tuple[NameGrid, ...]

    @classmethod
    def of(cls, grids: Iterable[NameGrid], kept: Iterable[NameGrid]) -> Parts:
        """Omit grids that one of the kept ones covers."""
        kept = tuple(kept)
        left = {grid for grid in grids if not any(k.covers(grid) for k in kept)}
        return cls(tuple(sorted(left, key=lambda grid: grid.prefix)), kept)

    def __len__(self) -> int:
        return sum(-(-grid.count // PART) for grid in self.grids)

    def names(self, k: int) -> Iterator[str]:
        """The names of a part."""
        for grid in self.grids:
            parts = -(-grid.count // PART)
            if k < parts:
                each = map(grid.name, range(k * PART, min((k + 1) * PART, grid.count)))
                yield from (n for n in each if not any(n in kept for kept in self.kept))
                return
            k -= parts
