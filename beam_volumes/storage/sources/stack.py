"""Stacks: sources of any format joined along z."""

from __future__ import annotations

import glob
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import AXES, DifferentSpaces, Space
from beam_volumes.base.text import printable
from beam_volumes.storage.places.context import callback, opened, threads, waiting_context
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec, is_pattern
from beam_volumes.storage.sources.numbered import describe_lost, in_natural_order, stand_ins
from beam_volumes.storage.sources.source import Source, TokenOfFields

#: Maximal size of a chunk that is a whole volume, if the volumes' chunks are not aligned.
_WHOLE = 16 << 20


@dataclass(frozen=True, eq=False)
class StackReader(TokenOfFields):
    """Sources along z."""

    parts: tuple[Source, ...]
    chunk: tuple[int, ...]  #: With leading axes
    #: The part that replaces each missing one, already in ``parts``; None for zeros
    instead: Mapping[int, int | None] = field(default_factory=dict)
    lost: Mapping[str, str] = field(default_factory=dict)  #: The replacements by name

    @property
    def portable(self) -> bool:
        return all(part.portable for part in self.parts)

    @property
    def remote(self) -> bool:
        return any(part.reader.remote for part in self.parts)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return tuple(extent for part in self.parts for extent in part.reader.extents)

    @property
    def decode_bytes(self) -> int:
        return max(part.decode_bytes for part in self.parts)

    @property
    def remark(self) -> str:
        return describe_lost(self.lost) or next(
            (part.remark for part in self.parts if part.remark), ""
        )

    @property
    def starts(self) -> list[int]:
        """The first slice of each part, and the number of slices."""
        return [0, *accumulate(part.shape[0] for part in self.parts)]

    def open(self) -> ts.TensorStore:
        starts = self.starts
        _, y, x = self.parts[0].shape

        def read(domain: ts.IndexDomain, out: np.ndarray, _: Any) -> None:
            z0, z1 = domain.inclusive_min[-3], domain.exclusive_max[-3]
            for k in range(bisect_right(starts, z0) - 1, len(self.parts)):
                a, b = max(z0, starts[k]), min(z1, starts[k + 1])
                if a >= z1:
                    break
                if self.instead.get(k, k) is None:
                    out[..., a - z0 : b - z0, :, :] = 0
                    continue
                inside = list(domain.index_exp)
                inside[-3] = slice(a - starts[k], b - starts[k])
                there = self._opened(k)[tuple(inside)]
                out[..., a - z0 : b - z0, :, :] = there.read().result()

        return ts.virtual_chunked(
            callback(read),
            dtype=self.parts[0].dtype,
            shape=(*self.parts[0].leading, starts[-1], y, x),
            chunk_layout=ts.ChunkLayout(chunk_shape=self.chunk),
            # These reads wait for reads of the parts, which need the threads of the other context.
            context=waiting_context() if self.remote else waiting_context(threads()),
        )

    def _opened(self, k: int) -> ts.TensorStore:
        part = self.parts[k]
        store = opened("whole" + part.reader.token(), part.reader.open)
        if store.dtype.numpy_dtype != part.dtype or store.shape[-3:] != part.shape:
            raise VolumeError(f"{part.name} has changed since it was opened; open it again")
        return store

    def moved(self, move: Callable[[Spec], Spec]) -> StackReader:
        return replace(self, parts=tuple(part.moved(part.name, move) for part in self.parts))


def with_stand_ins(
    found: Sequence[Source | None], names: Sequence[str], missing: str
) -> tuple[list[Source], dict[int, int | None]]:
    """Replace missing parts of a stack of single slices; also return the replacements."""
    there = [k for k, part in enumerate(found) if part is not None]
    lost = [k for k, part in enumerate(found) if part is None]
    parts = [part for part in found if part is not None]
    deep = next((part for part in parts if part.shape[0] != 1), None)
    if lost and deep is not None:
        raise ValueError(
            f"missing={missing!r}: {printable(names[lost[0]])} does not exist, and {printable(deep.name)} "
            f"has {deep.shape[0]} slices: only single slices may be missing; restore it or leave it out"
        )
    instead = stand_ins(there, lost, missing)
    nearest = stand_ins(there, lost, "repeat")  # gives shape and dtype
    whole = [part or found[nearest[k]] for k, part in enumerate(found)]  # type: ignore[index]
    return [part for part in whole if part is not None], instead


def on_top(
    parts: Sequence[Source],
    name: str,
    instead: Mapping[int, int | None] | None = None,
    lost: Mapping[str, str] | None = None,
) -> Source:
    """Stack sources along z, in order, with equal dtype, y, x, leading axes and voxel size.

    Images are one slice each; ``instead`` and ``lost`` are described in `StackReader`.
    """
    first = parts[0]
    for part in parts[1:]:
        _check(part, first)
    space = _space(parts)
    depth = sum(part.shape[0] for part in parts)
    before = tuple(max(sizes) for sizes in zip(*(p.leading_chunk for p in parts), strict=True))
    chunk = _chunk(parts, depth)
    return Source(
        name=name,
        shape=(depth, *first.shape[1:]),
        dtype=first.dtype,
        chunk=chunk,
        space=space,
        reader=StackReader(tuple(parts), (*before, *chunk), instead or {}, lost or {}),
        encoded=any(part.encoded for part in parts),
        leading=first.leading,
        leading_chunk=before,
    )


def _chunk(parts: Sequence[Source], depth: int) -> Triple:
    """Return the chunk of a stack: the chunks of the parts, if they are aligned."""
    y, x = (max(part.chunk[a] for part in parts) for a in (1, 2))
    z = max(part.chunk[0] for part in parts)
    depths = [part.shape[0] for part in parts[:-1]]
    if all(d % z == 0 for d in depths):
        return (min(z, depth), y, x)
    whole = depths[0] * y * x * parts[0].dtype.itemsize
    if len(set(depths)) == 1 and whole <= _WHOLE:
        return (depths[0], y, x)
    return (math.gcd(z, *depths), y, x)


def _check(part: Source, first: Source) -> None:
    """Refuse a volume that does not match the first one."""
    for what, value, wanted in (
        ("is of", part.dtype, first.dtype),
        ("has y, x", part.shape[1:], first.shape[1:]),
        ("has the axes", part.space.leading, first.space.leading),
        ("has time points or channels", part.leading, first.leading),
        ("has the channels", part.space.channels, first.space.channels),
    ):
        if value != wanted:
            raise ValueError(
                f"{printable(part.name)} {what} {_shown(value)}, and {printable(first.name)} "
                f"{_shown(wanted)}; volumes of a stack must be alike"
            )


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _space(parts: Sequence[Source]) -> Space:
    """Return the space of the first part, if the others are at the next positions or have none."""
    first = parts[0].space
    for part in parts[1:]:
        try:
            _without_place(first).shared(_without_place(part.space))
        except DifferentSpaces as error:
            raise ValueError(
                f"{printable(part.name)} differs from {printable(parts[0].name)}: {error}; volumes of a "
                "stack must be alike"
            ) from None
    if any(part.space.origin != first.origin for part in parts):
        size = first.voxel_size or (1.0, 1.0, 1.0)
        z = 0
        for part in parts:
            wanted = (first.origin[0] + z * size[0], *first.origin[1:])
            unit = part.space.in_unit(first.unit)
            if any(abs(a - b) > s / 2 for a, b, s in zip(unit.origin, wanted, size, strict=True)):
                raise ValueError(
                    f"{printable(part.name)} is at {_shown(unit.origin)}, but as slice {z} of a stack it "
                    f"would be at {_shown(wanted)}; sort the volumes, and leave out overlapping ones"
                )
            z += part.shape[0]
    return of_slices(first)


def of_slices(space: Space) -> Space:
    """Return the space of a stack of volumes; the distance of slices may be unknown."""
    size = space.voxel_size
    if "z" not in space.axes and size is not None and size[0] == 1.0:
        return replace(space, axes=AXES, voxel_size=None, unit=None)
    return replace(space, axes=AXES)


def _without_place(space: Space) -> Space:
    return replace(space, axes=AXES, origin=(0.0, 0.0, 0.0), sliced_from=None)


def matching(path: str) -> list[str] | None:
    """Return the local paths that match a pattern, in natural order; None if it is no pattern.

    A dataset may follow: ``"a/*.h5:/raw"``.
    """
    if not is_pattern(path):
        return None
    # A colon may also be part of a file's name.
    found, inside = in_natural_order(glob.glob(path, recursive=True)), ""
    parts = re.fullmatch(r"(.*\.\w+):([^:]*)", path)
    if not found and parts is not None:
        found, inside = in_natural_order(glob.glob(parts[1], recursive=True)), f":{parts[2]}"
    if not found:
        raise FileNotFoundError(f"no files match {printable(path)}; check the pattern")
    return [name + inside for name in found]
