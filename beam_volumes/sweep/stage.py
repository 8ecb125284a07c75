"""The interface between the executor and operations on voxels."""

from __future__ import annotations

import hashlib
import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Box, Halo, Range, Ranges, Triple
from beam_volumes.kernels.cuda import TWINS
from beam_volumes.kernels.rows import Rows, rows_of
from beam_volumes.kernels.scratch import Scratch, arrays, nbytes
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.resources import in_strips


@dataclass(frozen=True, eq=False)
class Padding:
    """The voxels outside the volume for a stage: a boundary mode per axis and a constant.

    The constant is a float, or an int if a float would round it.
    """

    modes: tuple[str, str, str] = ("reflect", "reflect", "reflect")
    cval: float = 0.0

    @property
    def key(self) -> tuple[tuple[str, str, str], str]:
        """A key for comparison: zeros have signs, and NaN equals itself."""
        exact = isinstance(self.cval, int) and float(self.cval) != self.cval
        return self.modes, repr(self.cval if exact else float(self.cval))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Padding) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


@dataclass(frozen=True)
class Block:
    """Some slices of one array in its ring buffer."""

    # Slice ``k`` of the block is ``ring[slots[k]]``; the block's first row and column are ``y`` and
    # ``x`` there. For an input, ``rows`` and ``cols`` include the halo. The ring is C-contiguous.
    # ``start`` is the position in the volume of the first voxel.

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
        """The rows for a kernel."""
        return rows_of(self.ring, self.slots, self.y, self.x)

    def slice(self, k: int, y0: int = 0, y1: int | None = None) -> np.ndarray:
        """A view of rows ``y0:y1`` of slice ``k``."""
        y1 = self.rows if y1 is None else y1
        return self.ring[self.slots[k], self.y + y0 : self.y + y1, self.x : self.x + self.cols]

    @property
    def is_consecutive(self) -> bool:
        first, n = int(self.slots[0]), len(self.slots)
        return np.array_equal(self.slots, np.arange(first, first + n))

    @property
    def has_whole_slices(self) -> bool:
        """Whether the rows of all slices are equally far apart in the ring."""
        return self.rows == self.ring.shape[1] and self.is_consecutive

    def joined(self, z0: int, z1: int) -> np.ndarray:
        """A view of the rows of slices ``z0:z1``, one below the other, if it `has_whole_slices`."""
        first = int(self.slots[0])
        whole = self.ring[first + z0 : first + z1]
        return whole.reshape(-1, whole.shape[2])[:, self.x : self.x + self.cols]

    def array(self, y0: int = 0, y1: int | None = None) -> np.ndarray:
        """Rows ``y0:y1`` of all slices as an array: a view if the slots are consecutive."""
        y1 = self.rows if y1 is None else y1
        first, n = int(self.slots[0]), len(self.slots)
        rows = self.ring[:, self.y + y0 : self.y + y1, self.x : self.x + self.cols]
        if self.is_consecutive:
            result = rows[first : first + n]
        else:
            # Kernels are compiled for contiguous or strided arrays: the copy has the layout that a
            # view would have.
            cols = rows.shape[2]
            is_strided = not rows.flags.c_contiguous
            result = np.empty((n, rows.shape[1], cols + is_strided), rows.dtype)[:, :, :cols]
            for k, slot in enumerate(self.slots):
                result[k] = rows[slot]
        result.flags.writeable = False  # other stages read the same ring
        return result


class PlainData:
    """A frozen dataclass of plain data: it pickles, and has one token in every process."""

    def token(self) -> str:
        """A digest of its type and its fields."""
        return digest(type(self).__name__, *(getattr(self, f.name) for f in fields(self)))  # type: ignore[arg-type]


class Named(Protocol):
    """What has a name in plans."""

    @property
    def name(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Stage(PlainData):
    """One operation on voxels: a kernel with the properties that the planner needs.

    Subclasses are frozen dataclasses of plain data (numbers, strings, tuples, arrays, dtypes), so a
    stage can be pickled and has the same `token` in every process.
    """

    name: str  #: Name in messages and plans, e.g. ``"gaussian_filter"``.
    dtype: np.dtype  #: Dtype of the result.

    #: Whether the result is always labels.
    yields_labels: ClassVar[bool] = False
    #: Whether a voxel of the result depends on the voxels around it, and not on its position.
    shift_invariant: ClassVar[bool] = False
    #: Whether it runs a kernel that is compiled for its dtypes.
    compiled: ClassVar[bool] = False
    #: Whether a function of the user receives views of its inputs.
    passes_views: ClassVar[bool] = False
    #: Whether it detects nothing near NaN of an input; a run warns of such inputs.
    misses_near_nan: ClassVar[bool] = False

    def expression(self, inputs: Sequence[Named], values: Sequence[Named]) -> str:
        """Return the text that plans and messages show for the stage of these inputs and values."""
        return self.name

    @property
    def halos(self) -> tuple[Halo, ...]:
        """Voxels needed around an output voxel, one entry per input, or none without halos."""
        return ()

    @property
    def padding(self) -> Padding:
        return Padding()

    def with_padding(self, padding: Padding) -> Stage:
        """Return the same stage with another padding."""
        raise NotImplementedError

    @property
    def cost(self) -> float:
        """Approximate nanoseconds per voxel on one core, to choose between plans."""
        return 1.0

    @property
    def deterministic(self) -> bool:
        """Whether runs give the same bits; otherwise the result is stored, never recomputed."""
        return True

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The locations of stored parameters, such as tables."""
        return ()

    @property
    def preferred_slices(self) -> int:
        """The best number of slices per call, if it shares work among them."""
        return 1

    @property
    def spans(self) -> tuple[int, ...]:
        """Axes that it needs as a whole: y (1) or x (2) in each call, z (0) slice by slice.

        With y, `run` computes columns instead of rows: ``y0:y1`` are columns. With z, slices are
        computed in order from the volume's first.
        """
        return ()

    @property
    def grain(self) -> Triple:
        """The cells of the volume's grid that it computes at a time.

        Slices are computed in whole cells, so each cell is computed once in a slab. Slabs that
        divide cells compute them several times, and drop the parts outside.
        """
        return (1, 1, 1)

    #: Token of an object that the process caches between sweeps: see
    #: `beam_volumes.sweep.resources`.
    holds: ClassVar[str] = ""
    #: Whether it uses an accelerator if there is one.
    accelerated: ClassVar[bool] = False
    #: What users should know about its result, shown in plans.
    remark: ClassVar[str] = ""
    #: Name of the cells in plans, if they are listed; and the input voxels of each.
    piece: ClassVar[str] = ""
    piece_voxels: ClassVar[int] = 1

    def pieces(self, axis: int, wanted: tuple[int, int]) -> int:
        """The number of cells in a range along an axis."""
        return 1

    def seconds(self, threads: int) -> float | None:
        """The measured time of one cell; None if it cannot be measured without voxels."""
        return None

    @property
    def alternatives(self) -> tuple[Stage, ...]:
        """Stages with the same voxels, but other memory or time, that a plan may choose instead.

        Their costs are estimates; `confirmed` measures them.
        """
        return ()

    def confirmed(self) -> Stage | None:
        """Return the stage with measured costs; None if it does not work."""
        return self

    def begin(self, box: Box) -> Work:
        """Begin the computation of a slab's box, window by window, with state between windows."""
        return InStrips(self)

    def kept_bytes(self, rows: int, cols: int) -> int:
        """Bytes kept between windows."""
        return 0

    def working_bytes(self, shape: Triple, threads: int) -> int:
        """Bytes allocated during a call for an output of this shape."""
        depth, rows, cols = shape
        strips = max(1, min(threads, cols if 1 in self.spans else rows))
        if 1 in self.spans:
            return strips * self.scratch_bytes(rows, -(-cols // strips), depth)
        return strips * self.scratch_bytes(-(-rows // strips), cols, depth)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        """Bytes that one call allocates for an output of this shape."""
        return nbytes(self.scratch(rows, cols, depth))

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        """The arrays that one call needs in addition for an output of this shape."""
        return ()

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        """Compute rows ``y0:y1`` of every slice of ``out``."""
        # ``inputs[i]`` covers the output's slices, rows and columns plus the halo of input ``i``:
        # output voxel ``(k, y, x)`` is at ``(k + before_z, y + before_y, x + before_x)`` there.
        # ``values`` are the evaluated lazy scalars of the stage. It should release the GIL, runs on
        # several strips of rows concurrently, and must give the same bits for any division.
        raise NotImplementedError

    @property
    def kernel_name(self) -> str:
        """Path and name in `beam_volumes.kernels` of the kernel that computes it, for `launch`.

        Empty if it has no single kernel.
        """
        return ""

    def has_device_code(self, dtypes: Sequence[np.dtype], values: Sequence[Any] = ()) -> bool:
        """Whether `launch` computes it from inputs of these dtypes, for all lazy values like these."""
        return self.kernel_name in TWINS

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        """Bytes of device memory that `launch` needs in addition for an output of this shape."""
        return 0

    def launch(
        self, device: Any, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        """Start the computation of all of ``out`` on a `beam_volumes.sweep.device.Device`."""
        raise NotImplementedError

    def halo(self, i: int) -> Halo:
        return self.halos[i] if i < len(self.halos) else NO_HALO


@dataclass(frozen=True, eq=False)
class Regrid(Stage):
    """A stage that changes the grid: its result has another shape, or other positions.

    The blocks of `run` contain the voxels of `needs`; their ``start`` is the position.
    """

    of: Triple  #: Shape of the input.
    grid: Triple  #: Shape of the result.

    @property
    def stride(self) -> Triple | None:
        """The number of input voxels for each voxel of the result, if it uses no others.

        Voxel v uses some of the voxels from ``v * stride`` to ``(v + 1) * stride``.
        """
        return None

    @property
    def coupled(self) -> frozenset[int]:
        """The axes along which `needs` depends on the ranges along other ones of these axes."""
        return frozenset()

    def needs(self, axis: int, wanted: Ranges) -> Range:
        """The range of the input along an axis that a box of the result needs.

        Never empty, and contained in the range of any larger box.
        """
        raise NotImplementedError

    def inner(self, axis: int) -> tuple[int, int]:
        """The range of the result along an axis without padding."""
        return 0, self.grid[axis]


class KernelStage(Stage):
    """A stage that is one call of a kernel, which receives its `scratch` last, as a tuple of arrays."""

    compiled = True

    @property
    def kernel(self) -> Callable[..., None]:
        """A function with the calling convention of `beam_volumes.kernels.rows`."""
        raise NotImplementedError

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The kernel's arguments for rows ``y0:y1``, with blocks, or tuples of blocks, as rows."""
        raise NotImplementedError

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        arguments = with_blocks(
            self.arguments(inputs, out, y0, y1, values), lambda block: block.as_rows
        )
        scratch = self.scratch(y1 - y0, out.cols, out.depth)
        self.kernel(*arguments, *([arrays(scratch)] if scratch else []))

    @property
    def kernel_name(self) -> str:
        kernel = self.kernel
        return f"{kernel.__module__}.{kernel.__name__}".removeprefix("beam_volumes.kernels.")

    def launch(
        self, device: Any, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        device.launch(self.kernel_name, *self.arguments(inputs, out, 0, out.rows, values))


def with_blocks(arguments: Iterable[Any], converted: Callable[[Block], Any]) -> list[Any]:
    """Arguments of a kernel, with its blocks and tuples of blocks converted."""
    return [
        converted(a)
        if isinstance(a, Block)
        else tuple(map(converted, a))
        if isinstance(a, tuple) and a and isinstance(a[0], Block)
        else a
        for a in arguments
    ]


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
        raise TypeError(f"{type(part).__name__} {part!r} is not plain data; stages need plain data")


class Work(Protocol):
    """The state of `Stage.begin`: called window by window, in the order of slices."""

    def run(
        self, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...], threads: int
    ) -> None:
        """Compute all of ``out``, in ``threads`` threads."""


class InStrips:
    """The work of a stage that computes strips of rows independently, or of columns if it spans y.

    ``kept`` are planes that are kept between windows; the stage receives them after its values.
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
    """The identity of a user's function by name and version; unique without a name.

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
    """Give functions without a name the same identities, in order, in repetitions of a call.

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
