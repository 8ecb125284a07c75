"""Sources: readable volumes as descriptions that travel, opened once per process."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import Box, Triple, cells_touched
from beam_volumes.base.space import Space
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.transfer import Transfer, read_channels, read_into

#: What voxels may be.
DTYPES = tuple(
    np.dtype(t) for t in ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
)

#: As what formats without bool store masks: MRC has no unsigned bytes.
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


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
        """The array as z, y, x from 0, behind the source's leading axes."""
        ...

    def token(self) -> str:
        """A digest that is the same in every process and differs from those of others."""
        ...


def check_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """Refuse a dtype that voxels cannot have; else give it in the byte order of this machine."""
    native = dtype.newbyteorder("=")
    if native not in DTYPES:
        known = ", ".join(d.name for d in DTYPES)
        raise ValueError(f"{name} holds {dtype}; voxels are one of {known}")
    return native


class TokenOfFields:
    """A dataclass of plain data: its token is a digest of all its fields.

    A process opens what has one token once. So nothing that decoding depends on may be left out of it.
    """

    def token(self) -> str:
        """A digest that is the same in every process and differs from those of others."""
        own: Any = self
        return digest(type(self).__name__, *(getattr(self, f.name) for f in fields(own)))


@dataclass(frozen=True, eq=False)
class Source:
    """A readable z, y, x array, or many of them: one for each point in time and each channel.

    What is said of its voxels holds for each of these; `point` chooses one. `open` and `read` are for
    a single one.
    """

    name: str  #: How messages name it: its path or URL
    shape: Triple
    dtype: np.dtype
    chunk: Triple  #: The decode unit: a chunk, the inner chunk of a shard, a slice
    space: Space
    reader: Reader  #: Opens it
    #: Where the grid of chunks starts relative to voxel (0, 0, 0), in ``(-chunk, 0]``; not 0 after a crop
    chunk_origin: Triple = (0, 0, 0)
    offset: Triple = (0, 0, 0)  #: Voxel (0, 0, 0) in what the reader opens
    encoded: bool = True  #: Whether a codec compresses the chunks
    #: What `open_source` was given, to open it anew; None where that is not possible
    asked: Mapping[str, Any] | None = None
    #: Extents of the axes before these, which ``space.leading`` names
    leading: tuple[int, ...] = ()
    #: How many of their points a decode unit holds; as long as ``leading``
    leading_chunk: tuple[int, ...] = ()
    labels: bool = False  #: Whether the file says that its voxels are labels

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def decode_bytes(self) -> int:
        """Of what is decoded in one piece, if that is more than a chunk of it; else 0."""
        return getattr(self.reader, "decode_bytes", 0)

    @property
    def channels_per_chunk(self) -> int:
        """How many channels and points in time a chunk holds, which are decoded with this one."""
        return 1 if self.held else getattr(self.reader, "channels_per_chunk", 1)

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
        return math.prod((*self.leading, *self.shape)) * self.dtype.itemsize

    @property
    def remark(self) -> str:
        """What plans say of how it is read: why it is slow, or which slices are lost; often empty."""
        return getattr(self.reader, "remark", "")

    @property
    def lost(self) -> Mapping[str, str]:
        return getattr(self.reader, "lost", {})

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
        if held is None:
            return None
        part = held[Box.of_shape(self.shape).translate(self.offset).slices]
        is_mask = self.dtype == bool and part.dtype in BYTES
        return part.view(bool) if is_mask else part

    @property
    def stack(self) -> str | None:
        """Tells the units that it is decoded from, if they hold other channels too; else None.

        Sources of one stack are channels of the same units, of the same place: see `read_stack`.
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
        handle = _as_mask(handle, self.dtype)
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

    def point(self, axis: str, at: int) -> Source:
        """One point in time or one channel of it."""
        d = self.space.leading.index(axis)
        if not 0 <= at < self.leading[d]:
            raise ValueError(
                f"{self.name} has {self.leading[d]} along {axis}; {at} is not among them"
            )
        asked = None if self.asked is None else _asked_of(self.asked, axis, at)
        return replace(
            self,
            name=f"{self.name}[{axis}={at}]",
            space=self.space.of_one(axis),
            reader=self._along(axis, at),
            leading=_without(self.leading, d),
            leading_chunk=_without(self.leading_chunk, d),
            asked=None if isinstance(self.reader, ViewReader) else asked,
        )

    def as_mask(self) -> Source:
        """The same as bool, if it holds bytes: for formats without bool that have marked it a mask.

        Memory that is `held` has nothing but 0 and 1 then.
        """
        return replace(self, dtype=np.dtype(bool)) if self.dtype in BYTES else self

    def span(self, axis: str, first: int, last: int) -> Source:
        """A range of its points in time or of its channels."""
        d = self.space.leading.index(axis)
        leading = (*self.leading[:d], last - first, *self.leading[d + 1 :])
        return replace(self, reader=self._along(axis, (first, last)), leading=leading, asked=None)

    def _along(self, axis: str, at: int | tuple[int, int]) -> Reader:
        """What reads a point, or a range, along a leading axis."""
        if isinstance(self.reader, ViewReader):
            whole = self.reader.source
            part = whole.point(axis, at) if isinstance(at, int) else whole.span(axis, *at)
            return replace(self.reader, source=part)
        reader = self.reader
        if not isinstance(reader, PointReader):
            every = (None,) * len(self.leading)
            reader = PointReader(reader, every, self.leading_chunk, self.chunk_bytes)
        return reader.fixed(self.space.leading.index(axis), at)

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

    def moved(self, name: str, move: Callable[[Spec], Spec]) -> Source:
        """The same where its bytes have been moved to.

        - ``name``: how messages name it then.
        - ``move``: gives the place of a key-value store that has been moved, and any other as it
          is. Only readers that have a method ``moved`` of such a function can be.
        """
        moved = getattr(self.reader, "moved", None)
        return self if moved is None else replace(self, name=name, reader=moved(move))

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
        """A box of voxels, or all of them, as a new array; of each channel and point in time there is."""
        if self.leading:
            axis = self.space.leading[0]
            return np.stack([self.point(axis, k).read(box) for k in range(self.leading[0])])
        box = Box.of_shape(self.shape) if box is None else box
        if self.array is not None:
            return self.array[box.slices].astype(self.dtype)
        out = np.empty(box.shape, self.dtype)
        read_into(self.open(), box, out).result()
        return out

    def token(self) -> str:
        """A digest that is the same in every process and differs from those of others."""
        return digest(
            self.reader.token(),
            self.offset,
            self.shape,
            self.dtype.str,
            repr(self.space),
            self.leading,
        )


def _as_mask(handle: ts.TensorStore, dtype: np.dtype) -> ts.TensorStore:
    """What is not 0 as true, of bytes that are marked as bool."""
    is_mask = dtype.kind == "b" and handle.dtype.numpy_dtype in BYTES
    return ts.cast(handle, ts.bool) if is_mask else handle


def read_stack(parts: Sequence[tuple[Source, Box, np.ndarray]]) -> Transfer:
    """Start reading boxes of channels of one `Source.stack`; each unit is decoded once for all."""
    readers: list[Any] = [source.reader for source, _, _ in parts]
    source = parts[0][0]
    return read_channels(
        _as_mask(readers[0].open_all(), source.dtype),
        [
            (r.channel, box.translate(source.offset), out)
            for r, (_, box, out) in zip(readers, parts, strict=True)
        ],
        readers[0].remote,
    )


class ForwardingReader(TokenOfFields):
    """A reader of what another one reads: all but the voxels is the same."""

    @property
    def inner(self) -> Any:
        raise NotImplementedError

    @property
    def portable(self) -> bool:
        return bool(self.inner.portable)

    @property
    def remote(self) -> bool:
        return bool(self.inner.remote)

    @property
    def extents(self) -> tuple[Extent, ...]:
        return self.inner.extents  # type: ignore[no-any-return]

    @property
    def decode_bytes(self) -> int:
        return getattr(self.inner, "decode_bytes", 0)

    @property
    def remark(self) -> str:
        return getattr(self.inner, "remark", "")

    @property
    def lost(self) -> Mapping[str, str]:
        return getattr(self.inner, "lost", {})

    @property
    def held(self) -> bool:
        return getattr(self.inner, "held", False)


@dataclass(frozen=True, eq=False)
class PointReader(ForwardingReader):
    """One point in time or one channel of what a reader opens."""

    whole: Reader
    #: Where along each leading axis: a number, the ends of a range, or None for all of it
    at: tuple[int | tuple[int, int] | None, ...]
    chunk: tuple[int, ...]  #: How many points of these axes a decode unit holds
    chunk_bytes: int  #: Of one point of a decode unit

    @property
    def inner(self) -> Reader:
        return self.whole

    def fixed(self, d: int, at: int | tuple[int, int]) -> PointReader:
        """A point, or a range, along axis ``d`` of those that are left."""
        left = [k for k, a in enumerate(self.at) if not isinstance(a, int)]
        now = list(self.at)
        before = now[left[d]]
        first = before[0] if isinstance(before, tuple) else 0
        now[left[d]] = first + at if isinstance(at, int) else (first + at[0], first + at[1])
        return replace(self, at=tuple(now))

    @property
    def array(self) -> np.ndarray | None:
        whole: np.ndarray | None = getattr(self.whole, "array", None)
        return whole if whole is None else whole[self._index]

    @property
    def decode_bytes(self) -> int:
        """Of a unit with all that it holds."""
        own = super().decode_bytes
        several = self.channels_per_chunk > 1 and not self.held
        return max(own, self.channels_per_chunk * self.chunk_bytes) if several else own

    @property
    def channels_per_chunk(self) -> int:
        return math.prod(self.chunk)

    @property
    def stack(self) -> str | None:
        if self.held or self.chunk[-1] == 1 or not isinstance(self.at[-1], int):
            return None
        return digest(self.whole.token(), self.at[:-1])

    @property
    def channel(self) -> int:
        """Where along the last leading axis."""
        at = self.at[-1]
        assert isinstance(at, int)
        return at

    def open_all(self) -> ts.TensorStore:
        """The array with all channels of its point in time: c, z, y, x."""
        return opened("whole" + self.whole.token(), self.whole.open)[self._index[:-1]]

    def open(self) -> ts.TensorStore:
        view = opened("whole" + self.whole.token(), self.whole.open)[self._index]
        return view[ts.d[:].translate_to[(0,) * view.rank]]

    def moved(self, move: Callable[[Spec], Spec]) -> PointReader:
        moved = getattr(self.whole, "moved", None)
        return self if moved is None else replace(self, whole=moved(move))

    @property
    def _index(self) -> tuple[Any, ...]:
        return tuple(
            slice(None) if a is None else a if isinstance(a, int) else slice(*a) for a in self.at
        )


@dataclass(frozen=True, eq=False)
class ViewReader(ForwardingReader):
    """A source with its axes in another order, some reversed, or only every so many-th voxel."""

    source: Source
    axes: Triple = (0, 1, 2)
    flipped: tuple[bool, bool, bool] = (False, False, False)
    step: Triple = (1, 1, 1)

    @property
    def inner(self) -> Reader:
        return self.source.reader

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

    def moved(self, move: Callable[[Spec], Spec]) -> ViewReader:
        return replace(self, source=self.source.moved(self.source.name, move))


def digest(*parts: Any) -> str:
    """A short hash of plain data, the same in every process."""
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(part: Any) -> Any:
    """Convert to what JSON knows."""
    if hasattr(part, "token"):
        return part.token()
    if is_dataclass(part):
        return [type(part).__name__, *(getattr(part, f.name) for f in fields(part))]
    if isinstance(part, np.ndarray):
        return [part.dtype.str, part.shape, hashlib.blake2b(part.tobytes()).hexdigest()]
    if isinstance(part, np.dtype):
        return part.str
    if isinstance(part, bytes):
        return part.hex()
    return dict(part) if isinstance(part, Mapping) else str(part)


def _without(items: tuple[int, ...], d: int) -> tuple[int, ...]:
    return items[:d] + items[d + 1 :]


def _asked_of(asked: Mapping[str, Any], axis: str, at: int) -> dict[str, Any]:
    """What `opening.reopened` is to take one point of."""
    return {**asked, "points": (*asked.get("points", ()), (axis, at))}


def _ordered(triple: Triple, axes: Triple) -> Triple:
    return (triple[axes[0]], triple[axes[1]], triple[axes[2]])


def _add(a: Triple, b: Triple) -> Triple:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _normal(origin: Sequence[int], chunk: Triple) -> Triple:
    z, y, x = (-(-o % c) for o, c in zip(origin, chunk, strict=True))
    return (z, y, x)
