"""The interface of operations that need the whole volume before they can yield voxels.

They have two halves. In a first sweep, a `Survey` is fed a slab, window by window, and returns a
summary. The survey's flow of keyed rounds merges the summaries of all slabs, and returns an answer
to each slab. In a later sweep, a `Completion` computes voxels from the same windows of the same
slab, and the answer. Both sweeps have the same slabs and windows.

A slab's *region* is its core and one more plane on the upper side of each axis with a neighbour.
Windows have the region's full width and height. Along z the plane above the core is a separate
window, the last one. A completion only computes it if another step needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.measure import digests
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, PlainData

#: Voxels per label for the minimum reserved memory. With smaller labels a slab may exceed it, which
#: is an error.
VOXELS_PER_LABEL = 2_000
#: Expected voxels per basin of heights: fewer than in smoothed images, which have 170 to 230.
VOXELS_PER_BASIN = 100


class NoRoom(ValueError):
    """A slab has more results than its memory allows; who runs it knows the remedies."""


def windows_of(slab: Triple, window: int) -> int:
    """Count the windows of a slab, with one for the plane beyond its core."""
    return -(-slab[0] // window) + 1


class Surveyor:
    """The survey of one slab."""

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        """Process slices ``z``, counted from the slab's first, as one array per input.

        The arrays may be views of memory that is reused: do not keep or change them. Work may be
        shared by ``threads`` threads.
        """
        raise NotImplementedError

    @property
    def held_bytes(self) -> int:
        """Bytes that it keeps now, to be compared with its limit."""
        return 0

    def finish(self) -> Any:
        """The picklable summary, after all slices of the region."""
        raise NotImplementedError


class StoredOperand(Protocol):
    """A stored table, as resumed runs check it."""

    @property
    def operand(self) -> str:
        """Its name in messages: its place, if it has one."""
        ...

    def token(self) -> str:
        """A digest of its content, the same in every process."""
        ...

    def token_now(self) -> str:
        """The digest of the current content of its place."""
        ...


@dataclass(frozen=True, eq=False)
class Half(PlainData):
    """The common part of both halves: a frozen dataclass of plain data."""

    #: The share of its cost that runs in one thread.
    serial: ClassVar[float] = 0.0
    #: Planes of int32 that it keeps in device memory, if its input is there, and one cell.
    planes_there: ClassVar[int] = 0

    #: Its fields that are expected numbers of voxels per label.
    expectations: ClassVar[tuple[str, ...]] = ()

    name: str  #: Name in messages and plans, e.g. ``"label"``.

    def token(self) -> str:
        # Runs of versions that expected larger basins can be resumed.
        small = [name for name in self.expectations if getattr(self, name) == VOXELS_PER_BASIN]
        if small:
            usual: dict[str, Any] = dict.fromkeys(small, VOXELS_PER_LABEL)
            return replace(self, **usual).token()
        return super().token()

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        """Maximum bytes allocated during a window of this shape."""
        return 0

    def state_bytes(self, shape: Triple, windows: int) -> int:
        """Bytes kept for a slab of this shape; for a survey, the minimum to reserve."""
        return 0

    def has_device_code(self, inputs: int) -> bool:
        """Whether it may be fed a `beam_volumes.sweep.device.MaskThere` instead of its one array."""
        return False

    def planes_copied(self, windows: int) -> tuple[int, int]:
        """The planes of a slab that are copied to the device, and from it, if its input is there."""
        return 0, 0

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        """Bytes that it may well need, estimated from its inputs.

        The plan reserves them if the memory suffices, but only `state_bytes` are required.
        """
        return self.state_bytes(shape, windows)


@dataclass(frozen=True)
class Expected:
    """What a survey is likely to find in a volume."""

    count: float
    what: str  #: "components" or "rows".
    step_bytes: int  #: Bytes of the largest step of the merge.


@dataclass(frozen=True)
class MergeSize:
    """Bytes of the largest step of a merge, as far as they are known before the voxels are read.

    A plan is refused if it has no room for ``certain``. It reserves ``expected`` as far as the memory
    allows, and shows ``maximum``. The actual size is known when the sweep has ended, see `Survey.load`.
    """

    certain: int = 0  #: Needed for any voxels.
    expected: int = 0  #: Needed for usual voxels.
    maximum: int = 0  #: Never exceeded.


@dataclass(frozen=True, eq=False)
class MergeLoad(Reduction):
    """The memory of the largest step of a merge; `finish` raises ValueError if it does not fit.

    It processes no voxels: its states are `of_slab` and merged states.
    """

    def of_slab(self, summary: Any) -> Any:
        """The state of one slab."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Survey(Half):
    """The first half: a frozen dataclass of plain data with the methods below."""

    #: Whether it counts all voxels with a value as one label, so that a run warns of masks.
    counts_each_value: ClassVar[bool] = False

    @property
    def upper(self) -> bool:
        """Whether it is fed the region; otherwise only the core."""
        return True

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The locations of everything that it reads in addition to its inputs."""
        return ()

    @property
    def tables(self) -> tuple[StoredOperand, ...]:
        """The tables that it reads in addition to its inputs."""
        return ()

    @property
    def cost(self) -> float:
        """Approximate nanoseconds per voxel on one core."""
        return 5.0

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        """Bytes of device memory for a window, if it is fed there."""
        return 0

    def merge_size(self, grid: Grid) -> MergeSize:
        """The size of the merge, which begins after the sweeps."""
        return MergeSize()

    @property
    def answer_share(self) -> float:
        """Bytes of an answer, at most, for each byte that the survey counts for a row or component."""
        return 0.5

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        """Begin the survey of a slab; ValueError if it needs more than ``limit_bytes``."""
        raise NotImplementedError

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Any:
        """The `beam_volumes.across.rounds.flow.Flow` that merges summaries under keys ``(index,)``.

        Steps that would need more than ``limit_bytes`` are divided, or raise ValueError.
        """
        raise NotImplementedError

    def no_rows(self, shape: Triple) -> dict[str, np.ndarray]:
        """The columns of its table without rows, for the port ``"rows"``."""
        raise NotImplementedError

    def empty_numbers(self) -> dict[str, Any]:
        """The numbers of a volume without voxels, by name."""
        return {}

    def most_rows(self, voxels: int) -> int:
        """Maximum rows of its table."""
        return voxels

    def likely_rows(self, voxels: int) -> int:
        """Expected rows of its table."""
        return min(voxels, self.most_rows(voxels))

    def expected(self, grid: Grid, part: Grid, whole: Any, summaries: Sequence[Any]) -> Expected:
        """Scale the load of a part of the volume to the slabs ``grid``; only if it depends on voxels.

        ``part``: the slabs of the part, with ``summaries``. ``whole``: its summary as one slab.
        """
        raise NotImplementedError

    def load(
        self, grid: Grid, limit_bytes: int, workers: int | None, slab_limit_bytes: int
    ) -> MergeLoad | None:
        """A reduction of all summaries, if the merge may not fit ``limit_bytes``.

        The error suggests memory with one slab in flight instead of ``workers``, unless that is None.
        A slab may keep ``slab_limit_bytes``.
        """
        return None


class Completer:
    """The second half for one slab."""

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        """Compute slices ``z``, counted from the slab's first, in order.

        With a `beam_volumes.sweep.device.MaskThere` as input, ``out`` is on the device, too.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Completion(Half):
    """The second half: a frozen dataclass of plain data with the methods below."""

    dtype: np.dtype  #: Dtype of the result.

    #: Whether the result is labels.
    yields_labels: ClassVar[bool] = False
    #: Whether it computes the region, along z only if other steps need it; otherwise only the core.
    upper: ClassVar[bool] = True
    #: Whether it keeps more bytes than `state_bytes` if the survey finds more.
    grows: ClassVar[bool] = True
    #: Approximate nanoseconds per voxel on one core.
    cost: ClassVar[float] = 5.0

    @property
    def voxels_per_label(self) -> int:
        """Expected voxels per label of the result."""
        return VOXELS_PER_LABEL

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        raise NotImplementedError


def digested(
    voxels: np.ndarray, threads: int, strip: Callable[[int, int], object], share: int = 1
) -> int:
    """Process strips of a window's rows; return the digest of its voxels.

    ``share``: voxels that are as much work as one voxel of a strip.
    """

    def both(y0: int, y1: int) -> int:
        found = digests.digest(voxels, y0, y1)
        strip(y0, y1)
        return found

    return sum(in_strips(voxels.shape[1], voxels.size // share, threads, both)) % 2**64


def check_same(found: int, first: int) -> None:
    """Raise an error if a window's digest differs from the first sweep."""
    if found != first:
        raise ValueError(
            "its voxels differ from the first sweep: the input has changed, or an operation "
            "before returns different voxels when run again; store its result (deterministic=False)"
        )
