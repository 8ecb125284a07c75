"""Sources: descriptions of readable volumes for workers, opened once per process."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import NO_HALO, Box, Halo, Triple, cells_touched
from beam_volumes.base.space import Space
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.errors import explain
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.places.transfer import Transfer, read_channels, read_into

#: Possible dtypes of voxels.
DTYPES = tuple(
    np.dtype(t) for t in ("bool", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8")
)

#: Dtypes of masks in formats without bool: MRC has no unsigned bytes.
BYTES = (np.dtype(np.uint8), np.dtype(np.int8))


class Reader(Protocol):
    """Plain data of a format that can open an array."""

    @property
    def portable(self) -> bool:
        """Whether another process can open it, too."""
        ...

    @property
    def remote(self) -> bool: ...

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where the bytes are stored; empty for memory of this process."""
        ...

    def open(self) -> ts.TensorStore:
        """Open the array as z, y, x from 0, after the source's leading axes."""
        ...

    def token(self) -> str: ...


def check_dtype(name: str, dtype: np.dtype) -> np.dtype:
    """Return a dtype in the byte order of this machine; refuse unsupported ones."""
    native = dtype.newbyteorder("=")
    if native not in DTYPES:
        known = ", ".join(d.name for d in DTYPES)
        raise ValueError(
            f"{name} has dtype {dtype}, which is not supported; voxels are one of {known}"
        )
    return native


class TokenOfFields:
    """A dataclass of plain data with a digest of all its fields as token.

    A process opens each token once, so the fields must include everything that decoding depends on.
    """

    def token(self) -> str:
        own: Any = self
        return digest(type(self).__name__, *(getattr(self, f.name) for f in fields(own)))


@dataclass(frozen=True, eq=False)
class Source:
    """A readable z, y, x array, or one for each time point and channel.

    Its properties hold for each of these; `point` selects one. `open` and `read` need a single one.
    """

    name: str  #: The path or URL, for messages
    shape: Triple
    dtype: np.dtype
    chunk: Triple  #: The decode unit: a chunk, the inner chunk of a shard, a slice
    space: Space
    reader: Reader
    #: Start of the grid of chunks relative to voxel (0, 0, 0), in ``(-chunk, 0]``; not 0 after a
    #: crop
    chunk_origin: Triple = (0, 0, 0)
    offset: Triple = (0, 0, 0)  #: The position of voxel (0, 0, 0) in the reader's array
    encoded: bool = True  #: Whether a codec compresses the chunks
    #: The arguments of `open_source`, to open it again; None if that is not possible
    asked: Mapping[str, Any] | None = None
    #: Extents of the leading axes, named by ``space.leading``
    leading: tuple[int, ...] = ()
    #: Their points in a decode unit; as long as ``leading``
    leading_chunk: tuple[int, ...] = ()
    labels: bool = False  #: Whether the file marks voxels as labels

    @property
    def chunk_bytes(self) -> int:
        return math.prod(self.chunk) * self.dtype.itemsize

    @property
    def decode_bytes(self) -> int:
        """The bytes that are decoded at once, if more than a chunk; else 0."""
        return getattr(self.reader, "decode_bytes", 0)

    @property
    def channels_per_chunk(self) -> int:
        """The number of channels and time points in a chunk, which are decoded together."""
        return 1 if self.in_memory else getattr(self.reader, "channels_per_chunk", 1)

    @property
    def read_unit(self) -> Triple:
        """The smallest part that can be read: a chunk, or a voxel if it is `in_memory`."""
        return (1, 1, 1) if self.in_memory else self.chunk

    def units_touched(self, axis: int, span: tuple[int, int]) -> int:
        """Return the number of read units in a range along an axis."""
        origin = 0 if self.in_memory else self.chunk_origin[axis]
        return cells_touched(*span, self.read_unit[axis], origin)

    @property
    def nbytes(self) -> int:
        return math.prod((*self.leading, *self.shape)) * self.dtype.itemsize

    @property
    def remark(self) -> str:
        """A remark for plans: why it is slow, or which slices are missing; often empty."""
        return getattr(self.reader, "remark", "")

    @property
    def lost(self) -> Mapping[str, str]:
        return getattr(self.reader, "lost", {})

    @property
    def portable(self) -> bool:
        """Whether other processes can open it (not ``memory://`` nor arrays over 1 MB)."""
        return self.reader.portable

    @property
    def in_this_process(self) -> Source | None:
        """The source that prevents this one from being `portable`: itself, or one that it reads."""
        if self.portable:
            return None
        parts = getattr(self.reader, "sources", ())
        return next((s.in_this_process for s in parts if not s.portable), self)

    @property
    def stored(self) -> Source:
        """The source that this is a view of, or itself."""
        return self.reader.source.stored if isinstance(self.reader, ViewReader) else self

    @property
    def in_memory(self) -> bool:
        """Whether its voxels are in this process's memory."""
        return getattr(self.reader, "in_memory", False)

    @property
    def array(self) -> np.ndarray | None:
        """Its voxels if they are `in_memory`, or None; read-only."""
        whole: np.ndarray | None = getattr(self.reader, "array", None)
        if whole is None:
            return None
        part = whole[Box.of_shape(self.shape).translate(self.offset).slices]
        is_mask = self.dtype == bool and part.dtype in BYTES
        return part.view(bool) if is_mask else part

    @property
    def stack(self) -> str | None:
        """The identity of its decode units, if they contain other channels, too; else None.

        Sources with the same stack are channels of the same units at the same position: see `read_stack`.
        """
        stack = getattr(self.reader, "stack", None)
        return None if stack is None else digest(stack, self.offset, self.shape)

    def open(self) -> ts.TensorStore:
        """Return the handle, with domain ``[0, shape)``, shared by this process."""
        return opened(self.token(), self._open)

    def _open(self) -> ts.TensorStore:
        try:
            handle = self.reader.open()
        except ValueError as error:
            raise explain(error, f"opening {self.name}") from None
        handle = _as_mask(handle, self.dtype)
        if handle.dtype.numpy_dtype != self.dtype:
            raise OSError(
                f"{self.name} has dtype {handle.dtype.name} now, and was opened with {self.dtype}; "
                "open it again"
            )
        box = Box.of_shape(self.shape).translate(self.offset)
        if not Box.of_shape(handle.shape).contains(box):
            raise OSError(
                f"{self.name} has shape {handle.shape} now and no longer contains {box}; open it again"
            )
        return handle[box.slices][ts.d[:].translate_to[0, 0, 0]]

    def point(self, axis: str, at: int) -> Source:
        """Return one time point or channel."""
        d = self.space.leading.index(axis)
        if not 0 <= at < self.leading[d]:
            raise ValueError(
                f"{axis}={at} is out of range; {self.name} has {self.leading[d]} along {axis}"
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
        """Return a source of bytes as bool: for masks in formats without bool.

        If it is `in_memory`, its voxels are 0 and 1.
        """
        return replace(self, dtype=np.dtype(bool)) if self.dtype in BYTES else self

    def span(self, axis: str, first: int, last: int) -> Source:
        """Return a range of time points or channels."""
        d = self.space.leading.index(axis)
        leading = (*self.leading[:d], last - first, *self.leading[d + 1 :])
        return replace(self, reader=self._along(axis, (first, last)), leading=leading, asked=None)

    def _along(self, axis: str, at: int | tuple[int, int]) -> Reader:
        """Return the reader of a point, or a range, along a leading axis."""
        if isinstance(self.reader, ViewReader):
            whole = self.reader.source
            part = whole.point(axis, at) if isinstance(at, int) else whole.span(axis, *at)
            return replace(self.reader, source=part)
        reader = self.reader
        if (along_time := getattr(reader, "along_time", None)) is not None:
            return along_time(at)  # type: ignore[no-any-return]
        if not isinstance(reader, PointReader):
            every = (None,) * len(self.leading)
            reader = PointReader(reader, every, self.leading_chunk, self.chunk_bytes)
        return reader.fixed(self.space.leading.index(axis), at)

    def crop(self, box: Box) -> Source:
        """Return the part inside ``box``, relative to this source's voxel (0, 0, 0)."""
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
        """Return the source with another order of axes, reversed along ``flipped`` axes.

        The space is `Space.view`.
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

    def periodic(self, around: Halo) -> Source:
        """Return the source with more voxels around it, as if it repeated along each axis."""
        before = [b for b, _ in around]
        z, y, x = (n + b + a for n, (b, a) in zip(self.shape, around, strict=True))
        origin = [o + b for o, b in zip(self.chunk_origin, before, strict=True)]
        return replace(
            self,
            shape=(z, y, x),
            chunk_origin=_normal(
                [-(-o % c) for o, c in zip(origin, self.chunk, strict=True)], self.chunk
            ),
            space=self.space.shifted((-before[0], -before[1], -before[2])),
            reader=PeriodicReader(self, around=around),
            offset=(0, 0, 0),
        )

    def moved(self, name: str, move: Callable[[Spec], Spec]) -> Source:
        """Return the source after ``move`` has mapped moved key-value stores to new places.

        Only readers with a method ``moved`` support it.
        """
        moved = getattr(self.reader, "moved", None)
        return self if moved is None else replace(self, name=name, reader=moved(move))

    def subsampled(self, step: Triple) -> Source:
        """Subsample a source with chunks of one voxel along the axes of ``step``."""
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
        """Read a box, or all, as a new array with all channels and time points."""
        if self.leading:
            axis = self.space.leading[0]
            return np.stack([self.point(axis, k).read(box) for k in range(self.leading[0])])
        box = Box.of_shape(self.shape) if box is None else box
        if self.array is not None:
            return self.array[box.slices].astype(self.dtype)
        out = np.empty(box.shape, self.dtype)
        read_into(self.open(), box, out).result()
        return out

    def read_here(self, box: Box) -> np.ndarray:
        """Read a box in this thread, which may be filling a chunk for TensorStore; may be a view."""
        array = self.array
        if array is not None:
            return array[box.slices]
        compute = getattr(self.reader, "compute", None)
        if compute is not None:
            return compute(box.translate(self.offset))  # type: ignore[no-any-return]
        return self.open()[box.slices].read().result()  # type: ignore[no-any-return]

    def bytes_to_read(self, shape: Triple) -> int:
        """Return the maximal bytes for `read_here` of a box with at most this shape, without its voxels."""
        working_bytes = getattr(self.reader, "working_bytes", None)
        if working_bytes is not None:
            return working_bytes(shape)  # type: ignore[no-any-return]
        return 2 * max(self.decode_bytes, 2 * self.chunk_bytes)  # encoded, and decoded

    @property
    def kernels(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        """The kernels that reading it compiles: operations with dtypes."""
        return getattr(self.reader, "kernels", frozenset())

    def token(self) -> str:
        """Return a unique digest that is the same in every process."""
        return digest(
            self.reader.token(),
            self.offset,
            self.shape,
            self.dtype.str,
            repr(self.space),
            self.leading,
        )


def _as_mask(handle: ts.TensorStore, dtype: np.dtype) -> ts.TensorStore:
    """Convert bytes that are marked as bool: nonzero is true."""
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
    """A reader with the properties of another reader."""

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
    def kernels(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        return getattr(self.inner, "kernels", frozenset())

    @property
    def lost(self) -> Mapping[str, str]:
        return getattr(self.inner, "lost", {})

    @property
    def in_memory(self) -> bool:
        return getattr(self.inner, "in_memory", False)


@dataclass(frozen=True, eq=False)
class PointReader(ForwardingReader):
    """One time point or channel of a reader's array."""

    whole: Reader
    #: The position along each leading axis: a number, a range, or None for all
    at: tuple[int | tuple[int, int] | None, ...]
    chunk: tuple[int, ...]  #: Their points in a decode unit
    chunk_bytes: int  #: Bytes of one point in a decode unit

    @property
    def inner(self) -> Reader:
        return self.whole

    def fixed(self, d: int, at: int | tuple[int, int]) -> PointReader:
        """Select a point, or a range, along axis ``d`` of the remaining ones."""
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
        """The bytes of a decode unit with all its points."""
        own = super().decode_bytes
        several = self.channels_per_chunk > 1 and not self.in_memory
        return max(own, self.channels_per_chunk * self.chunk_bytes) if several else own

    @property
    def channels_per_chunk(self) -> int:
        return math.prod(self.chunk)

    @property
    def stack(self) -> str | None:
        if self.in_memory or self.chunk[-1] == 1 or not isinstance(self.at[-1], int):
            return None
        return digest(self.whole.token(), self.at[:-1])

    @property
    def channel(self) -> int:
        """The position along the last leading axis."""
        at = self.at[-1]
        assert isinstance(at, int)
        return at

    def open_all(self) -> ts.TensorStore:
        """Open the array with all channels of its time point: c, z, y, x."""
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
    """A source with another order of axes, some reversed, or subsampled."""

    source: Source
    axes: Triple = (0, 1, 2)
    flipped: tuple[bool, bool, bool] = (False, False, False)
    step: Triple = (1, 1, 1)

    @property
    def inner(self) -> Reader:
        return self.source.reader

    @property
    def array(self) -> np.ndarray | None:
        whole = self.source.array
        if whole is None:
            return None
        back = zip(self.flipped, self.step, strict=True)
        return whole.transpose(self.axes)[tuple(slice(None, None, -s if b else s) for b, s in back)]

    def open(self) -> ts.TensorStore:
        view = self.source.open()[ts.d[self.axes].transpose[0, 1, 2]]
        for axis, (back, step) in enumerate(zip(self.flipped, self.step, strict=True)):
            if back or step > 1:
                view = view[ts.d[axis].stride[-step if back else step]]
        return view[ts.d[:].translate_to[0, 0, 0]]

    def moved(self, move: Callable[[Spec], Spec]) -> ViewReader:
        return replace(self, source=self.source.moved(self.source.name, move))


@dataclass(frozen=True, eq=False)
class PeriodicReader(ViewReader):
    """A source with more voxels before and after it, as if it repeated along each axis."""

    around: Halo = NO_HALO

    @property
    def array(self) -> np.ndarray | None:
        return None  # its voxels are not an array

    def open(self) -> ts.TensorStore:
        view = self.source.open()
        for axis, (before, after) in enumerate(self.around):
            if before or after:
                n = view.shape[axis]
                layers = []
                for k in range(-before // n, -(-after // n) + 1):
                    a, b = max(-before, k * n), min(n + after, (k + 1) * n)
                    part = view[ts.d[axis][a - k * n : b - k * n]]
                    layers.append(part[ts.d[axis].translate_to[0]])
                view = ts.concat(layers, axis=axis)
        return view[ts.d[:].translate_to[0, 0, 0]]


def digest(*parts: Any) -> str:
    """Return a short hash of plain data, the same in every process."""
    text = json.dumps(parts, sort_keys=True, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _plain(part: Any) -> Any:
    """Convert to types of JSON."""
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
    """Add a point to the arguments of `opening.reopened`."""
    return {**asked, "points": (*asked.get("points", ()), (axis, at))}


def _ordered(triple: Triple, axes: Triple) -> Triple:
    return (triple[axes[0]], triple[axes[1]], triple[axes[2]])


def _add(a: Triple, b: Triple) -> Triple:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


def _normal(origin: Sequence[int], chunk: Triple) -> Triple:
    z, y, x = (-(-o % c) for o, c in zip(origin, chunk, strict=True))
    return (z, y, x)
