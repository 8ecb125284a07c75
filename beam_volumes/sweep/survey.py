"""What the sweep knows of an operation that needs the whole volume before it can yield voxels.

Such an operation has two halves. In a first sweep its `Survey` is fed a slab, window by window, and
leaves a summary of it. Summaries of all slabs are merged by the survey's flow of keyed rounds, and
an answer comes back to each slab. In a later sweep its `Completion` turns the same windows of the
same slab, and the answer, into voxels. Slabs and windows of both sweeps are the same.

A slab's *region* is its core and, on the upper side of each axis where it has a neighbour, one plane
more. Windows have the region's full width and height; along z the plane beyond the core is a window
by itself, the last one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.measure import digests
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.resources import in_strips
from beam_volumes.sweep.stage import Block, PlainData

#: Voxels of a label, for what is set aside at the least: of smaller ones a slab may run out of room, which
#: is an error.
VOXELS_PER_LABEL = 2_000


def windows_of(slab: Triple, window: int) -> int:
    """Count the windows of a slab, with one for the plane beyond its core."""
    return -(-slab[0] // window) + 1


class Surveyor:
    """A survey of one slab under way."""

    def feed(self, arrays: tuple[np.ndarray, ...], z: tuple[int, int], threads: int = 1) -> None:
        """Take slices ``z``, counted from the slab's first: one array (slices, rows, columns) per input.

        They may be views of memory that is used again: not to be kept, nor changed. So many ``threads``
        of the process may share the work.
        """
        raise NotImplementedError

    @property
    def held_bytes(self) -> int:
        """What it keeps by now, as the limit that it began with counts it."""
        return 0

    def finish(self) -> Any:
        """The summary, picklable; once all slices of the region were fed."""
        raise NotImplementedError


class StoredOperand(Protocol):
    """A table that is there already, as runs that are resumed look at it."""

    @property
    def operand(self) -> str:
        """What it is called: its place, if it has one."""
        ...

    def token(self) -> str:
        """A digest of what it holds, the same in every process."""
        ...

    def token_now(self) -> str:
        """The same of what lies at its place now."""
        ...


@dataclass(frozen=True, eq=False)
class Half(PlainData):
    """What both halves have: frozen dataclasses of plain data beside the functions below."""

    #: The share of its cost that the threads of a process cannot share.
    serial: ClassVar[float] = 0.0

    name: str  #: What messages and plans call it, e.g. ``"label"``.

    def working_bytes(self, shape: Triple, dtypes: tuple[np.dtype, ...]) -> int:
        """The most bytes that it allocates and gives back for a window of a shape."""
        return 0

    def state_bytes(self, shape: Triple, windows: int) -> int:
        """Bytes that it keeps for a slab of a shape: of a survey, what to set aside at the least."""
        return 0

    def likely_bytes(self, shape: Triple, windows: int) -> int:
        """Bytes that it may well keep, by what its inputs are made of.

        The plan predicts them as far as memory goes, but needs no more than `state_bytes`.
        """
        return self.state_bytes(shape, windows)


@dataclass(frozen=True, eq=False)
class Survey(Half):
    """The first half."""

    @property
    def upper(self) -> bool:
        """Whether it is fed the region, or else the core alone."""
        return True

    @property
    def extents(self) -> tuple[Extent, ...]:
        """Where what it reads besides its inputs is stored."""
        return ()

    @property
    def tables(self) -> tuple[StoredOperand, ...]:
        """The tables that it reads besides its inputs."""
        return ()

    @property
    def cost(self) -> float:
        """Rough nanoseconds per voxel on one core."""
        return 5.0

    def merge_bytes(self, grid: Grid) -> int:
        """Bytes to set aside at the least for a step of the merge, which begins when sweeps have ended."""
        return 0

    def begin(self, grid: Grid, index: int, values: tuple[Any, ...], limit_bytes: int) -> Surveyor:
        """A survey of slab ``index``; one that would keep more than ``limit_bytes`` raises ValueError."""
        raise NotImplementedError

    def flow(self, grid: Grid, limit_bytes: int | None = None) -> Any:
        """The `beam_volumes.across.rounds.flow.Flow` that merges summaries, given under keys ``(index,)``.

        Of what a step would hold more than ``limit_bytes`` bytes of, it is cut finer, or raises ValueError.
        """
        raise NotImplementedError

    def no_rows(self, shape: Triple) -> dict[str, np.ndarray]:
        """The columns, without rows, of the table that comes out at the port ``"rows"``."""
        raise NotImplementedError

    def empty_numbers(self) -> dict[str, Any]:
        """The numbers of a volume without voxels, by name."""
        return {}

    def most_rows(self, voxels: int) -> int:
        """Rows of its table at the very most, of a volume of so many voxels."""
        return voxels

    def most_load(self, grid: Grid) -> int:
        """Bytes that a step of the merge holds at the very most, whatever the voxels."""
        return 0

    def load(
        self, grid: Grid, limit_bytes: int, workers: int, slab_limit_bytes: int
    ) -> Reduction | None:
        """A reduction of `load_of` all slabs that raises in `finish` if merging would take too much.

        The error says what would do with one slab in flight instead of ``workers``. A slab may keep
        ``slab_limit_bytes``.
        """
        return None

    def load_of(self, grid: Grid, index: int, summary: Any) -> Any:
        """The state, of the reduction `load`, of one slab."""
        raise NotImplementedError


class Completer:
    """The second half for one slab, under way."""

    def run(
        self, arrays: tuple[np.ndarray, ...], out: Block, z: tuple[int, int], threads: int
    ) -> None:
        """Compute slices ``z``, counted from the slab's first, from those of the inputs; in order."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Completion(Half):
    """The second half."""

    dtype: np.dtype  #: Of the voxels it yields.

    #: Whether what it yields are labels.
    yields_labels: ClassVar[bool] = False
    #: Whether it yields the region, or else the core alone: as what its survey was fed.
    upper: ClassVar[bool] = True
    #: Rough nanoseconds per voxel on one core.
    cost: ClassVar[float] = 5.0

    @property
    def voxels_per_label(self) -> int:
        """Of labels that it yields: for how many voxels there may well be one."""
        return VOXELS_PER_LABEL

    def begin(self, grid: Grid, index: int, answer: Any) -> Completer:
        raise NotImplementedError


def digested(
    voxels: np.ndarray, threads: int, strip: Callable[[int, int], object], share: int = 1
) -> int:
    """Do work on strips of a window's rows; the digest of its voxels, which each is taken into before.

    ``share`` voxels are as much work as one is, mostly.
    """

    def both(y0: int, y1: int) -> int:
        found = digests.digest(voxels, y0, y1)
        strip(y0, y1)
        return found

    return sum(in_strips(voxels.shape[1], voxels.size // share, threads, both)) % 2**64


def check_same(found: int, first: int) -> None:
    """Raise an error if a window's digest is not that of the first sweep."""
    if found != first:
        raise ValueError(
            "its voxels differ from those of the first sweep: the input has changed, or an operation "
            "before gives other voxels when run again; materialise it (deterministic=False)"
        )
