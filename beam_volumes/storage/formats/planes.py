"""Images that a library decodes plane by plane: a volume is put together of them in TensorStore's threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Protocol

import numpy as np
import tensorstore as ts

from beam_volumes.base.text import printable
from beam_volumes.storage.places.context import callback, context
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.sources.axes import Placement, Selection, select
from beam_volumes.storage.sources.source import Source, TokenOfFields, check_dtype

#: Gives the part ``y``, ``x`` of the plane at a position along each of the other axes, as y, x or as y, x, c.
ReadPlane = Callable[[Mapping[str, int], slice, slice], np.ndarray]


class Planes(Protocol):
    """What a format supplies: where planes lie, as plain data that pickles."""

    @property
    def path(self) -> str:
        """The file, or the folder, on this machine's disks."""
        ...

    @property
    def names(self) -> Sequence[str] | None:
        """Which files of the folder; None if the path is all."""
        ...

    def open(self) -> ReadPlane:
        """The function that reads, from several threads at once; called once in each process."""
        ...

    def token(self) -> str:
        """What tells them from others, the same in every process."""
        ...


@dataclass(frozen=True, eq=False)
class PlaneReader(TokenOfFields):
    """A volume of planes."""

    planes: Planes
    #: Those of the file. The last ones are y, x, or y, x, c where a plane holds all channels.
    axes: tuple[str, ...]
    #: Their extents, and how much of each is read in one piece: 1 of all axes before y
    sizes: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype
    selection: Selection  #: What of it is the volume
    #: Which of the volume's axes z, y, x are reversed
    flipped: tuple[bool, bool, bool] = (False, False, False)

    portable = True
    remote = False

    @property
    def extents(self) -> tuple[Extent, ...]:
        return (Extent({"driver": "file", "path": self.planes.path}, self.planes.names),)

    @property
    def decode_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize

    def open(self) -> ts.TensorStore:
        read, first = self.planes.open(), self.axes.index("y")

        everywhere = (slice(None), slice(None))

        def fill(domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
            *before, y, x = domain.index_exp[: first + 2]
            within = domain.index_exp[first + 2 :]
            for at in product(*(range(s.start, s.stop) for s in before)):
                plane = read(dict(zip(self.axes, at, strict=False)), y, x)
                here = tuple(a - s.start for a, s in zip(at, before, strict=True))
                out[here] = plane[everywhere + within]

        store = ts.virtual_chunked(
            callback(fill),
            dtype=self.dtype,
            shape=self.sizes,
            chunk_layout=ts.ChunkLayout(chunk_shape=[max(1, c) for c in self.chunk]),
            context=context(),
        )
        found = self.selection.apply(store)
        for axis, back in enumerate(self.flipped):
            if back:
                found = found[ts.d[axis - 3].stride[-1]][ts.d[axis - 3].translate_to[0]]
        return found


#: Names of the samples of a pixel.
COLOURS = ("red", "green", "blue", "alpha")


@dataclass(frozen=True)
class PlaneImage:
    """An image of planes, as its file describes it."""

    name: str
    planes: Planes
    #: Those that planes are on, their extents, y and x among them, and what is read in one piece
    axes: Sequence[str]
    sizes: Sequence[int]
    chunk: Sequence[int]
    dtype: np.dtype
    samples: int | None = None  #: Behind y and x, where a plane holds all channels
    channels: Sequence[str] = ()  #: Their names
    placement: Placement = field(default_factory=Placement)
    encoded: bool = True
    letters: Sequence[str] | None = None  #: What axes are called in the volume, if not ``axes``

    def source(self, index: Mapping[str, int | str] | None) -> Source:
        check_dtype(self.name, self.dtype)
        after, many = ((), ()) if self.samples is None else (("c",), (self.samples,))
        axes, sizes, chunk = (*self.axes, *after), (*self.sizes, *many), (*self.chunk, *many)
        letters = axes if self.letters is None else (*self.letters, *after)
        chosen = select(letters, sizes, index, self.name, self.channels)
        for axis in "yx":
            if axis not in chosen.axes:
                raise ValueError(
                    f"index={dict(index or {})}: take one row or column by slicing instead"
                )
        p = self.placement
        reader = PlaneReader(self.planes, axes, sizes, chunk, self.dtype, chosen, p.flipped)
        space = chosen.space(p.voxel_size, p.unit, p.origin)
        part = [max(1, c) for c in chunk]
        return chosen.source(self.name, reader, self.dtype, sizes, part, space, self.encoded)


def refuse_colours(name: str, channels: int, samples: int) -> None:
    if channels > 1 and samples > 1:
        raise ValueError(f"{name}: several channels, each of {samples} colours, are not read")


def named_part(dataset: str | None, count: int, names: Sequence[str], where: str, what: str) -> int:
    """Which of several images of a file is meant, by its number or its name.

    - ``dataset``: what the user says; None where there is only one.
    - ``names``: those of the first ones, if they have any.
    - ``where``, ``what``: how messages call the file, and one of its images.

    Examples
    --------
    >>> named_part("left", 2, ("right", "left"), "a.czi", "scene")
    1
    >>> named_part(None, 2, ("right", "left"), "a.czi", "scene")
    Traceback (most recent call last):
    ValueError: a.czi has 2 scenes: choose one by dataset=, e.g. dataset='0'; they are 0 (right), 1 (left)
    """
    shown = [f"{k} ({n})" if n else f"{k}" for k, n in enumerate(names[: min(count, 20)])]
    if len(names) < count:
        shown = [*shown, f"{len(shown)} to {count - 1}"] if shown else [f"0 to {count - 1}"]
    listed = printable(", ".join(shown))
    if dataset is None:
        if count == 1:
            return 0
        raise ValueError(
            f"{where} has {count} {what}s: choose one by dataset=, e.g. dataset='0'; they are {listed}"
        )
    named = [k for k, n in enumerate(names) if n == str(dataset)]
    if len(named) == 1:
        return named[0]
    if str(dataset).isdecimal() and len(str(dataset)) < 10 and int(dataset) < count:
        return int(dataset)
    raise ValueError(f"dataset={dataset!r}: {where} has no such {what}; there are {listed}")
