"""What the sweep knows of an operation: what it needs and how to run it, never what it is."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Box, Halo, Range, Ranges, Triple
from beam_volumes.kernels.rows import Rows, rows_of
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.resources import in_strips


@dataclass(frozen=True, eq=False)
class Padding:
    """What a stage sees beyond the edges of the volume: a boundary mode per axis and a constant.

    The constant is a float, or an int where a float would round it.
    """

    modes: tuple[str, str, str] = ("reflect", "reflect", "reflect")
    cval: float = 0.0

    @property
    def key(self) -> tuple[tuple[str, str, str], str]:
        """What tells it from another: zeros have signs, and NaN is itself."""
        exact = isinstance(self.cval, int) and float(self.cval) != self.cval
        return self.modes, repr(self.cval if exact else float(self.cval))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Padding) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Block:
    """Some slices of one array, where they lie in its ring buffer.

    Slice ``k`` of the block is ``ring[slots[k]]``; the block's first row and column are ``y`` and
    ``x`` there. ``rows`` and ``cols`` count the halo in, for an input. The ring is C-contiguous.
    ``start`` is the position in the volume of its first voxel.
    """

    ring: np.ndarray
    slots: np.ndarray
    y: int
    x: int
    rows: int
    cols: int
    start: Triple = (0, 0, 0)

    @property
    def depth(self) -> int:
        return len(self.slots)

    @cached_property
    def as_rows(self) -> Rows:
        """What a kernel is given."""
        return rows_of(self.ring, self.slots, self.y, self.x)

    def slice(self, k: int, y0: int = 0, y1: int | None = None) -> np.ndarray:
        """A view of rows ``y0:y1`` of slice ``k``."""
        y1 = self.rows if y1 is None else y1
        return self.ring[self.slots[k], self.y + y0 : self.y + y1, self.x : self.x + self.cols]

    def array(self, y0: int = 0, y1: int | None = None) -> np.ndarray:
        """Rows ``y0:y1`` of all slices as one array: a view if the slots are consecutive, else a copy."""
        y1 = self.rows if y1 is None else y1
        first, n = int(self.slots[0]), len(self.slots)
        consecutive = np.array_equal(self.slots, np.arange(first, first + n))
        rows = self.ring[:, self.y + y0 : self.y + y1, self.x : self.x + self.cols]
        if consecutive:
            result = rows[first : first + n]
        else:
            # A kernel is compiled for parts of arrays or for whole ones: this is what a view would be.
            cols = rows.shape[2]
            beside = not rows.flags.c_contiguous
            result = np.empty((n, rows.shape[1], cols + beside), rows.dtype)[:, :, :cols]
            for k, slot in enumerate(self.slots):
                result[k] = rows[slot]
        result.flags.writeable = False  # other stages read the same ring
        return result


class PlainData:
    """A frozen dataclass of plain data: it pickles, and has one token in every process."""

    def token(self) -> str:
        """A digest of its type and its fields."""
        return digest(type(self).__name__, *(getattr(self, f.name) for f in fields(self)))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Stage(PlainData):
    """One operation on voxels: a kernel together with what the planner must know of it.

    Subclasses are frozen dataclasses whose fields are plain data (numbers, strings, tuples, arrays,
    dtypes), so that a stage pickles and has the same `token` in every process.
    """

    name: str  #: What messages and plans call it, e.g. ``"gaussian_filter"``.
    dtype: np.dtype  #: Of the result.

    #: Whether what it yields are labels, whatever it is given.
    yields_labels: ClassVar[bool] = False
    #: Whether it runs a kernel that is compiled for the dtypes it meets.
    compiled: ClassVar[bool] = False

    @property
    def halos(self) -> tuple[Halo, ...]:
        """Voxels needed around an output voxel, one entry per input; shorter means no halo."""
        return ()

    @property
    def padding(self) -> Padding:
        return Padding()

    @property
    def cost(self) -> float:
        """Rough nanoseconds per voxel on one core, for choosing between plans."""
        return 1.0

    @property
    def deterministic(self) -> bool:
        """Whether a second run gives the same bits (else its result is materialised, never redone)."""
        return True

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where what it was given besides its inputs was read from, if that is stored."""
        return ()

    @property
    def preferred_slices(self) -> int:
        """Slices that it is best asked for at a time, for it shares work among them."""
        return 1

    @property
    def spans(self) -> tuple[int, ...]:
        """Axes of which it needs the whole extent: y (1) or x (2) at once, z (0) slice by slice.

        With y among them `run` is given columns instead of rows: ``y0:y1`` are those to compute.
        With z, slices come in order from the volume's first.
        """
        return ()

    @property
    def grain(self) -> Triple:
        """The cells of the volume's grid that it computes at once.

        Slices come in whole cells, so that each cell is computed once in a slab. A slab that cuts
        cells computes them too, and leaves out what is not its own.
        """
        return (1, 1, 1)

    #: What its process holds for it from sweep to sweep: see `beam_volumes.sweep.resources`.
    holds: ClassVar[str] = ""
    #: Whether it computes on an accelerator where there is one.
    accelerated: ClassVar[bool] = False
    #: What the cells are in words, for plans, if they are worth a word; and the voxels each is given.
    piece: ClassVar[str] = ""
    piece_voxels: ClassVar[int] = 1

    def pieces(self, axis: int, wanted: tuple[int, int]) -> int:
        """How many of these lie along an axis in a range of it."""
        return 1

    def seconds(self, threads: int) -> float | None:
        """What one takes, tried now; None if that cannot be tried without voxels."""
        return None

    @property
    def alternatives(self) -> tuple[Stage, ...]:
        """Stages that give the same voxels, and take other memory or time: a plan may have one instead.

        What they declare is expected; `confirmed` says what is so.
        """
        return ()

    def confirmed(self) -> Stage | None:
        """Itself with what it was found to take when it was tried; None if it cannot stand in."""
        return self

    def begin(self, box: Box) -> Work:
        """What computes the box of a slab, window by window: it may keep what it needs of earlier ones."""
        return InStrips(self)

    def kept_bytes(self, rows: int, cols: int) -> int:
        """Bytes that it keeps from window to window, for so many rows and columns."""
        return 0

    def working_bytes(self, shape: Triple, threads: int) -> int:
        """Bytes that it allocates while it computes so many slices, rows and columns."""
        depth, rows, cols = shape
        strips = max(1, min(threads, rows))
        return strips * self.scratch(-(-rows // strips), cols, depth)

    def scratch(self, rows: int, cols: int, depth: int) -> int:
        """Bytes one call allocates for itself, for an output of this many slices, rows and columns."""
        return 0

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        """Compute rows ``y0:y1`` of every slice of ``out``.

        ``inputs[i]`` covers the output's slices, rows and columns plus the halo of input ``i``:
        output voxel ``(k, y, x)`` sits at ``(k + before_z, y + before_y, x + before_x)`` there.
        ``values`` are the evaluated lazy scalars the stage was built with. Runs without the GIL where
        it can, on several strips of rows at a time, and must give the same bits however it is cut.
        """
        raise NotImplementedError

    def halo(self, i: int) -> Halo:
        return self.halos[i] if i < len(self.halos) else NO_HALO


@dataclass(frozen=True, eq=False)
class Regrid(Stage):
    """A stage whose result has a grid of its own: of another shape, or elsewhere.

    `run` is given blocks that hold what `needs` says, and finds by their ``start`` what is where.
    """

    of: Triple  #: Shape of the input.
    grid: Triple  #: Shape of the result.

    @property
    def stride(self) -> Triple | None:
        """How many voxels of the input each voxel of the result stands for, if it takes no others.

        Voxel v takes some of those from ``v * stride`` to ``(v + 1) * stride``.
        """
        return None

    @property
    def coupled(self) -> frozenset[int]:
        """The axes along which `needs` looks at others of these; along all other axes at none."""
        return frozenset()

    def needs(self, axis: int, wanted: Ranges) -> Range:
        """The range of the input's axis that a box of the result takes.

        Never empty, and inside that of any larger box.
        """
        raise NotImplementedError

    def inner(self, axis: int) -> tuple[int, int]:
        """The range of the result's axis whose voxels all lie in the input; beyond it, it is padded."""
        return 0, self.grid[axis]


def digest(*parts: Any) -> str:
    """A short hash of plain data, the same in every process."""
    h = hashlib.blake2b(digest_size=16)
    _feed(h, parts)
    return h.hexdigest()


def _feed(h: Any, part: Any) -> None:
    if isinstance(part, np.ndarray):
        h.update(f"array{part.dtype.str}{part.shape}".encode())
        h.update(np.ascontiguousarray(part).tobytes())
    elif isinstance(part, tuple | list):
        h.update(f"({len(part)}".encode())
        for p in part:
            _feed(h, p)
    elif isinstance(part, dict):
        h.update(f"dict{len(part)}".encode())
        for k in sorted(part, key=repr):
            _feed(h, (k, part[k]))
    elif part is None or isinstance(
        part, str | bytes | bool | int | float | complex | np.generic | np.dtype
    ):
        h.update(f"{type(part).__name__}:{part!r};".encode())
    elif hasattr(part, "token"):
        h.update(part.token().encode())
    else:
        raise TypeError(f"{type(part).__name__} {part!r} is not plain data; a stage cannot hold it")


class Work(Protocol):
    """What `Stage.begin` gives: it is called window by window, in the order of slices."""

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        """Compute all of ``out``, with as many threads as are given."""


class InStrips:
    """The work of a stage that computes strips of rows by themselves, or of columns if it spans y.

    ``kept`` are planes that stay from window to window: the stage finds them after its values.
    """

    def __init__(self, stage: Stage, kept: tuple[np.ndarray, ...] = ()):
        self.stage, self.kept = stage, kept

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        stage, given = self.stage, values + self.kept
        in_strips(
            out.cols if 1 in stage.spans else out.rows,
            out.rows * out.cols * out.depth,
            threads,
            lambda y0, y1: stage.run(inputs, out, y0, y1, given),
        )


_repeated: ContextVar[Iterator[str] | None] = ContextVar("beam_volumes_repeated", default=None)


def identity(name: str | None, version: Any) -> str:
    """By what the results of a user's function are known again: without a name, by nobody.

    >>> identity("clip", 1) == identity("clip", 1), identity("clip", 1) == identity("clip", 2)
    (True, False)
    >>> identity(None, None) == identity(None, None)
    False
    """
    if name is not None:
        return digest("named", name, version)
    repeated = _repeated.get()
    return uuid.uuid4().hex if repeated is None else next(repeated)


@contextmanager
def repeating(*call: Any) -> Iterator[None]:
    """For a call that may be made again: its functions without a name are the same ones then, in order.

    >>> found = []
    >>> for _ in range(2):
    ...     with repeating("a pipeline", "an element"):
    ...         found.append([identity(None, None), identity(None, None)])
    >>> found[0] == found[1], len({*found[0]})
    (True, 2)
    """
    token = _repeated.set(digest("repeated", *call, k) for k in itertools.count())
    try:
        yield
    finally:
        _repeated.reset(token)
