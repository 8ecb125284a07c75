"""Volumes of planes that a library decodes, assembled in TensorStore's threads."""

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
from beam_volumes.storage.sources.axes import IndexRequest, Placement, Selection, select
from beam_volumes.storage.sources.source import Source, TokenOfFields, check_dtype

#: Reads the part ``y``, ``x`` of the plane at a position along the other axes, as y, x or y, x, c.
ReadPlane = Callable[[Mapping[str, int], slice, slice], np.ndarray]


class Planes(Protocol):
    """The planes of a format, as plain data that pickles."""

    @property
    def path(self) -> str:
        """The local file or folder."""
        ...

    @property
    def names(self) -> Sequence[str] | None:
        """The files of the folder; None for all."""
        ...

    def open(self) -> ReadPlane:
        """Return a thread-safe function that reads planes; called once per process."""
        ...

    def token(self) -> str:
        """Return a unique token, the same in every process."""
        ...


@dataclass(frozen=True, eq=False)
class PlaneReader(TokenOfFields):
    """A volume of planes."""

    planes: Planes
    #: The axes of the file. The last ones are y, x, or y, x, c if a plane has all channels.
    axes: tuple[str, ...]
    #: Their extents, and the part that is read at a time: 1 along axes before y
    sizes: tuple[int, ...]
    chunk: tuple[int, ...]
    dtype: np.dtype
    selection: Selection  #: The part that is the volume
    #: The volume's reversed axes of z, y, x
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
    """An image of planes, as described by its file."""

    name: str
    planes: Planes
    #: The axes, their extents including y and x, and the part that is read at a time
    axes: Sequence[str]
    sizes: Sequence[int]
    chunk: Sequence[int]
    dtype: np.dtype
    samples: int | None = None  #: Samples after y and x, if a plane has all channels
    channels: Sequence[str] = ()
    placement: Placement = field(default_factory=Placement)
    encoded: bool = True
    letters: Sequence[str] | None = None  #: The names of the axes in the volume, if not ``axes``

    def source(self, request: IndexRequest) -> Source:
        check_dtype(self.name, self.dtype)
        after, many = ((), ()) if self.samples is None else (("c",), (self.samples,))
        axes, sizes, chunk = (*self.axes, *after), (*self.sizes, *many), (*self.chunk, *many)
        letters = axes if self.letters is None else (*self.letters, *after)
        chosen = select(letters, sizes, request, self.name, self.channels)
        for axis in "yx":
            if axis not in chosen.axes:
                raise ValueError(
                    f"index={dict(request.index or {})}: take one row or column by slicing instead"
                )
        p = self.placement
        reader = PlaneReader(self.planes, axes, sizes, chunk, self.dtype, chosen, p.flipped)
        space = chosen.space(p.voxel_size, p.unit, p.origin)
        part = [max(1, c) for c in chunk]
        return chosen.source(self.name, reader, self.dtype, sizes, part, space, self.encoded)


def refuse_colours(name: str, channels: int, samples: int) -> None:
    if channels > 1 and samples > 1:
        raise ValueError(
            f"{name}: several channels with {samples} colours each are not supported; export it as OME-TIFF"
        )


def named_part(dataset: str | None, count: int, names: Sequence[str], where: str, what: str) -> int:
    """Return the number of an image of a file, given its number or name, or None for the only one.

    ``names`` are of the first images, if any; ``where`` and ``what`` are for messages.

    >>> named_part("left", 2, ("right", "left"), "a.czi", "scene")
    1
    >>> named_part(None, 2, ("right", "left"), "a.czi", "scene")
    Traceback (most recent call last):
    ValueError: a.czi has 2 scenes; choose one by dataset=, e.g. dataset='0'; they are 0 (right), 1 (left)
    """
    shown = [f"{k} ({n})" if n else f"{k}" for k, n in enumerate(names[: min(count, 20)])]
    if len(names) < count:
        shown = [*shown, f"{len(shown)} to {count - 1}"] if shown else [f"0 to {count - 1}"]
    listed = printable(", ".join(shown))
    if dataset is None:
        if count == 1:
            return 0
        raise ValueError(
            f"{where} has {count} {what}s; choose one by dataset=, e.g. dataset='0'; they are {listed}"
        )
    named = [k for k, n in enumerate(names) if n == str(dataset)]
    if len(named) == 1:
        return named[0]
    if str(dataset).isdecimal() and len(str(dataset)) < 10 and int(dataset) < count:
        return int(dataset)
    raise ValueError(f"dataset={dataset!r}: {where} has no such {what}; there are {listed}")
