"""Sources: readable volumes as descriptions that travel, opened once per process."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import tensorstore as ts

from beam_volumes.geometry import Box, Triple, cells_touched
from beam_volumes.space import Space
from beam_volumes.storage.axes import unit_name
from beam_volumes.storage.context import opened
from beam_volumes.storage.errors import explain
from beam_volumes.storage.extent import Extent
from beam_volumes.storage.transfer import Transfer, read_into

#: What voxels may be.
DTYPES = tuple(
    np.dtype(t) for t in ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
)


class Reader(Protocol):
    """What a format supplies: plain data that can open itself."""

    @property
    def portable(self) -> bool:
        """Whether another process can open it too."""
        ...

    @property
    def remote(self) -> bool:
        """Whether it lies in a bucket."""
        ...

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where its bytes are stored; none if they are memory of this process alone."""
        ...

    def open(self) -> ts.TensorStore:
        """The array as z, y, x from (0, 0, 0)."""
        ...

    def token(self) -> str:
        """What tells it from another, the same in every process."""
        ...


@dataclass(frozen=True, eq=False)
class Source:
    """A readable z, y, x array.

    Attributes
    ----------
    name : str
        How messages name it: its path or URL.
    shape : tuple of int
    dtype : numpy.dtype
    chunk : tuple of int
        The decode unit: a chunk, the inner chunk of a shard, a slice.
    chunk_origin : tuple of int
        Where that grid starts relative to voxel (0, 0, 0), in ``(-chunk, 0]``; not 0 after a crop.
    space : Space
    reader : Reader
        Opens it.
    offset : tuple of int
        Voxel (0, 0, 0) in what the reader opens.
    encoded : bool
        Whether a codec compresses the chunks.
    asked : mapping or None
        What `open_source` was given, to open it anew; None where that is not possible.
    """

    name: str
    shape: Triple
    dtype: np.dtype
    chunk: Triple
    chunk_origin: Triple
    space: Space
    reader: Reader
    offset: Triple = (0, 0, 0)
    encoded: bool = True
    asked: Mapping[str, Any] | None = None

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def decode_bytes(self) -> int:
        """Of what is decoded in one piece, if that is more than a chunk of it; else 0."""
        return getattr(self.reader, "decode_bytes", 0)

    @property
    def read_unit(self) -> Triple:
        """What is read at least: a chunk, or a voxel of what is `held`."""
        return (1, 1, 1) if self.held else self.chunk

    def units_touched(self, axis: int, span: tuple[int, int]) -> int:
        """How many such units a range along an axis needs."""
        origin = 0 if self.held else self.chunk_origin[axis]
        return cells_touched(*span, self.read_unit[axis], origin)

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def portable(self) -> bool:
        """Whether other processes can open it (not ``memory://`` nor arrays over 1 MB)."""
        return self.reader.portable

    @property
    def stored(self) -> Source:
        """What it is a view of: itself, if of nothing."""
        return self.reader.source.stored if isinstance(self.reader, ViewReader) else self

    @property
    def held(self) -> bool:
        """Whether its voxels lie in this process's memory."""
        return getattr(self.reader, "held", False)

    @property
    def array(self) -> np.ndarray | None:
        """Its voxels where they lie, if they are `held`; not to be written to."""
        held: np.ndarray | None = getattr(self.reader, "array", None)
        return (
            held if held is None else held[Box.of_shape(self.shape).translate(self.offset).slices]
        )

    @property
    def stack(self) -> str | None:
        """Tells the slices that it is decoded from, if others are from the same; else None.

        Sources of one stack are parts of the same slices, of the same place: see `read_stack`.
        """
        stack = getattr(self.reader, "stack", None)
        return None if stack is None else digest(stack, self.offset, self.shape)

    def open(self) -> ts.TensorStore:
        """The handle, with domain ``[0, shape)``, shared by this process."""
        return opened(self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        try:
            handle = self.reader.open()
        except ValueError as error:
            raise explain(error, f"opening {self.name}") from None
        if handle.dtype.numpy_dtype != self.dtype:
            raise OSError(
                f"{self.name} holds {handle.dtype.name}, not the {self.dtype} it was opened with"
            )
        box = Box.of_shape(self.shape).translate(self.offset)
        if not Box.of_shape(handle.shape).contains(box):
            raise OSError(
                f"{self.name} has shape {handle.shape} now and no longer holds {box}; open it anew"
            )
        return handle[box.slices][ts.d[:].translate_to[0, 0, 0]]

    def crop(self, box: Box) -> Source:
        """The part of it inside ``box``, which counts from this source's voxel (0, 0, 0)."""
        if not Box.of_shape(self.shape).contains(box):
            raise ValueError(f"the crop {box} reaches outside {self.name} of shape {self.shape}")
        return replace(
            self,
            shape=box.shape,
            offset=_add(self.offset, box.start),
            chunk_origin=_normal(
                [o - s for o, s in zip(self.chunk_origin, box.start, strict=True)], self.chunk
            ),
            space=self.space.shifted(box.start),
        )

    def view(self, axes: Triple, flipped: tuple[bool, bool, bool]) -> Source:
        """Its axes in another order, and reversed where ``flipped`` says so of the result's axis.

        The space is that of the voxels as they lie now: `Space.view`.
        """
        origin = [
            self.shape[a] - self.chunk_origin[a] if back else self.chunk_origin[a]
            for a, back in zip(axes, flipped, strict=True)
        ]
        chunk = _ordered(self.chunk, axes)
        return replace(
            self,
            shape=_ordered(self.shape, axes),
            chunk=chunk,
            chunk_origin=_normal(origin, chunk),
            space=self.space.view(axes),
            reader=ViewReader(self, axes, flipped),
            offset=(0, 0, 0),
        )

    def thinned(self, step: Triple) -> Source:
        """Every so many-th of its voxels, of chunks one voxel thick: others are not read."""
        if any(s > 1 and c > 1 for s, c in zip(step, self.chunk, strict=True)):
            raise ValueError(
                f"every {step}-th voxel of chunks of {self.chunk} cannot be read alone"
            )
        z, y, x = (-(-n // s) for n, s in zip(self.shape, step, strict=True))
        return replace(
            self,
            shape=(z, y, x),
            space=self.space.resampled(step, (0.0, 0.0, 0.0)),
            reader=ViewReader(self, step=step),
            offset=(0, 0, 0),
        )

    def read(self, box: Box | None = None) -> np.ndarray:
        """A box of voxels, or all of them, as a new array."""
        box = Box.of_shape(self.shape) if box is None else box
        if self.array is not None:
            return self.array[box.slices].astype(self.dtype)
        out = np.empty(box.shape, self.dtype)
        read_into(self.open(), box, out).result()
        return out

    def token(self) -> str:
        """The source's identity for fingerprints: what and where it is, not when it was written."""
        return digest(
            self.reader.token(), self.offset, self.shape, self.dtype.str, repr(self.space)
        )


def read_stack(parts: Sequence[tuple[Source, Box, np.ndarray]]) -> Transfer:
    """Start reading boxes of the same slices into arrays: each slice is decoded once for all.

    Parameters
    ----------
    parts : sequence of (Source, Box, numpy.ndarray)
        Sources of one `Source.stack`, and for each what `read_into` takes.
    """
    reader: Any = parts[0][0].reader
    transfer: Transfer = reader.read_together(parts)
    return transfer


@dataclass(frozen=True, eq=False)
class ViewReader:
    """A source with its axes in another order, some reversed, or only every so many-th voxel."""

    source: Source
    axes: Triple = (0, 1, 2)
    flipped: tuple[bool, bool, bool] = (False, False, False)
    step: Triple = (1, 1, 1)

    @property
    def portable(self) -> bool:
        return self.source.portable

    @property
    def remote(self) -> bool:
        return self.source.reader.remote

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.source.reader.extents

    @property
    def decode_bytes(self) -> int:
        return self.source.decode_bytes

    @property
    def held(self) -> bool:
        return self.source.held

    @property
    def array(self) -> np.ndarray | None:
        held = self.source.array
        if held is None:
            return None
        back = zip(self.flipped, self.step, strict=True)
        return held.transpose(self.axes)[tuple(slice(None, None, -s if b else s) for b, s in back)]

    def open(self) -> ts.TensorStore:
        view = self.source.open()[ts.d[self.axes].transpose[0, 1, 2]]
        for axis, (back, step) in enumerate(zip(self.flipped, self.step, strict=True)):
            if back or step > 1:
                view = view[ts.d[axis].stride[-step if back else step]]
        return view[ts.d[:].translate_to[0, 0, 0]]

    def token(self) -> str:
        return digest("view", self.source.token(), self.axes, self.flipped, self.step)


def with_space(
    source: Source, voxel_size: float | Sequence[float] | None, unit: str | None
) -> Source:
    """The source with the voxel size and unit that the user says it has.

    Parameters
    ----------
    voxel_size : float or sequence of float, optional
        One number, or one per axis that the user sees.
    unit : str, optional
        A unit of length, by any of its usual names.
    """
    space = source.space
    if voxel_size is not None:
        many = isinstance(voxel_size, Sequence | np.ndarray)
        sizes = [float(v) for v in voxel_size] if many else [float(voxel_size)] * len(space.axes)  # type: ignore
        if len(sizes) != len(space.axes) or not all(math.isfinite(v) and v > 0 for v in sizes):
            raise ValueError(
                f"voxel_size={voxel_size!r}: {source.name} needs one positive number, or one per axis "
                f"{', '.join(space.axes)}"
            )
        full = [1.0, 1.0, 1.0] if space.voxel_size is None else list(space.voxel_size)
        for axis, size in zip(space.visible, sizes, strict=True):
            full[axis] = size
        space = replace(space, voxel_size=(full[0], full[1], full[2]))
    if unit is not None:
        space = replace(space, unit=unit_name(unit))
    return replace(source, space=space)


def digest(*parts: Any) -> str:
    """A short hash of JSON-like data, the same in every process."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _ordered(triple: Triple, axes: Triple) -> Triple:
    return (triple[axes[0]], triple[axes[1]], triple[axes[2]])


def _add(a: Triple, b: Triple) -> Triple:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _normal(origin: Sequence[int], chunk: Triple) -> Triple:
    z, y, x = (-(-o % c) for o, c in zip(origin, chunk, strict=True))
    return (z, y, x)
