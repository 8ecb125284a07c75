"""What a run takes of memory, predicted: of a machine, a process, and of a slab part by part.

Each part says for itself what it needs: a stage its scratch, a reduction its states, a survey what it
finds, a format what reading and writing take. Here they are added up, and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from beam_volumes.base.geometry import Grid, Triple
from beam_volumes.kernels.cache import is_cached, note_cached
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.rings import Rings, largest_rings
from beam_volumes.storage.outputs.overhead import read_overhead_bytes, write_overhead_bytes
from beam_volumes.sweep.program import Edge, Program
from beam_volumes.sweep.resources import aligned
from beam_volumes.sweep.schedule import Overlap
from beam_volumes.sweep.survey import windows_of

#: Resident bytes of a process with our imports and numba's compiler, measured in fresh processes on
#: Linux (Python 3.11, numba 0.68, apache-beam 2.77); the second with Beam and a runner on top.
BASE_ALONE = 214 << 20
BASE_BEAM = 320 << 20
#: A process of a pipeline on this machine, which finds the kernels that are compiled here: see `_LOCAL`.
LOCAL_PIPELINE: Final = "local pipeline"
Base: TypeAlias = int | Literal["local pipeline"] | None
#: What compiling one kernel for one combination of dtypes adds.
BASE_KERNEL = 32 << 20

#: What such a process takes before any kernel, all libraries imported. Measured as above, as are the next.
_LOCAL = 216 << 20
#: What a run adds, the first kernel, the compiler if a kernel is not in the cache of this machine, and a
#: kernel that is.
_RUNNING, _LLVM, _COMPILER, _CACHED_KERNEL = 8 << 20, 4 << 20, 28 << 20, 3 << 20
#: What numba's libraries add, which it loads with its first kernel, and one of them.
_NUMBA, _NUMBA_MODULE = 20 << 20, "numba.np.arrayobj"
#: What libraries for tables take, and what stands for them among kernels.
_TABLES_BYTES, TABLES = 36 << 20, "tables"
#: What this process holds is rounded up to these, so that plans of like processes are alike.
_ROUNDED = 4 << 20

#: By kernel, what those take that this process has used so far.
_used: dict[str, int] = {}


@dataclass(frozen=True)
class _Process:
    """A process before it runs anything, in bytes.

    Attributes
    ----------
    own : int
        What it holds, and what a run adds.
    numba : int
        What numba's libraries will add.
    most : int
        The most that it is assumed to take, before kernels are compiled.
    """

    own: int
    numba: int
    most: int


@cache
def _this_process() -> _Process:
    """Measure this process at its first plan, without what is more than ours ever takes."""
    held = min(machine.held_memory(), BASE_ALONE - _NUMBA - _LLVM - _COMPILER)
    return _Process(
        -(-held // _ROUNDED) * _ROUNDED + _RUNNING,
        0 if _NUMBA_MODULE in sys.modules else _NUMBA,
        BASE_ALONE,
    )


def of_base(base: Base, kernels: Collection[str]) -> int:
    """Bytes of a process before any voxel, with all its kernels.

    Parameters
    ----------
    base : int, LOCAL_PIPELINE or None
        Before any kernel. None is this process, of which it is measured.
    kernels : collection of str
        Operations with their dtypes.
    """
    compiled = BASE_KERNEL * sum(k != TABLES for k in kernels)
    if isinstance(base, int):
        return base + compiled
    process = _this_process() if base is None else _Process(_LOCAL, 0, BASE_BEAM)
    taken = {k: _kernel_bytes(k) for k in kernels} | (_used if base is None else {})
    first = process.numba + _LLVM if taken.keys() - {TABLES} else 0
    compiler = _COMPILER if BASE_KERNEL in taken.values() else 0
    # A process that has used many kernels keeps less of each than compiling it took.
    total = process.own + first + compiler + sum(taken.values())
    return min(total, process.most + compiled)


def _kernel_bytes(kernel: str) -> int:
    if kernel == TABLES:
        return _TABLES_BYTES
    return _CACHED_KERNEL if is_cached(kernel) else BASE_KERNEL


def note_used(kernels: Collection[str]) -> None:
    """Note that this process has used kernels: they stay in it, and are in the cache of kernels now."""
    new = [k for k in kernels if k not in _used]
    _used.update({k: _kernel_bytes(k) for k in new})
    note_compiled(new)


def note_compiled(kernels: Collection[str]) -> None:
    """Note that kernels are in the cache of this machine now, whichever process has used them."""
    note_cached(k for k in kernels if k != TABLES)


@dataclass(frozen=True)
class MemoryItem:
    """One contribution to a sweep's peak memory.

    Attributes
    ----------
    name : str
    bytes : int
    least : int
        Of what grows with what is found: what is set aside for it at the least. Else 0.
    likely : int
        What it may well grow to, where that is more: see `Partitioning.grown`.
    """

    name: str
    bytes: int
    least: int = 0
    likely: int = 0


def of_machine(base: int, slab: int, concurrency: Concurrency) -> int:
    """Bytes of all processes with their slabs: each is ``base`` before any voxel, a slab ``slab``."""
    return concurrency.processes * base + concurrency.workers * slab


def of_process(base: int, slab: int, concurrency: Concurrency) -> int:
    """Bytes of one process and the slabs that are in flight in it."""
    return base + concurrency.sweeps * slab


def left_for_slab(total: int, base: int, concurrency: Concurrency) -> int:
    """Bytes that each slab in flight may take of a machine's: `of_machine` the other way round."""
    return (total - concurrency.processes * base) // concurrency.workers


def of_slab(
    program: Program, grid: Grid, window: int, overlap: Overlap, concurrency: Concurrency
) -> tuple[MemoryItem, ...]:
    """The peak memory of a grid's largest slab, part by part.

    Parameters
    ----------
    program : Program
    grid : Grid
        Its slabs.
    window : int
        Slices finished at a time.
    overlap : Overlap
        What rings have room for: to read ahead, and to write behind.
    concurrency : Crew
    """
    if len(grid) == 0:
        return ()
    rings = largest_rings(program, grid, window, overlap)
    slab = _Slab(program, grid, window, concurrency, rings)
    items = (
        *slab.rings_of_steps(),
        *slab.answers(),
        *slab.what_is_found(),
        *_states_of_folds(program, concurrency.threads),
        slab.scratch(),
        slab.decoding(),
        slab.encoding(),
    )
    return tuple(item for item in items if item.bytes)


def of_merge(
    program: Program, grid: Grid, sweep: Sequence[MemoryItem], threads: int
) -> tuple[MemoryItem, ...]:
    """The peak memory of a step of the merges after a sweep, part by part.

    The rings and the chunks of the sweep are free by then. Reductions keep their states. With a network,
    which stays in the process, all memory of the sweep counts.
    """
    if len(grid) == 0 or not program.surveys:
        return ()
    if any(s.stage is not None and s.stage.holds for s in program.steps):
        kept = [item for item in sweep if not item.least]
    else:
        kept = list(_states_of_folds(program, threads))
    needs = [(s.survey.merge_bytes(grid), s.survey.name) for s in program.surveys]
    size, name = max(needs)
    return (MemoryItem(f"{name} (a step of its merge)", size, size), *kept)


def _states_of_folds(program: Program, threads: int) -> Iterator[MemoryItem]:
    for fold in program.folds:
        peak = fold.reduction.peak_bytes(threads)
        yield MemoryItem(f"{fold.reduction.name} (state)", peak)


@dataclass(frozen=True)
class _Slab:
    """The largest slab of a program."""

    program: Program
    grid: Grid
    window: int
    concurrency: Concurrency
    rings: Rings

    @property
    def shape(self) -> Triple:
        """The shape of its core."""
        return self.grid.step

    def rings_of_steps(self) -> Iterator[MemoryItem]:
        """Slices of each step: what a window needs, and room to read ahead and to write behind."""
        for i, step in enumerate(self.program.steps):
            depth = self.rings.slices[i] + self.program.constant_slice(i)
            rows, cols = self.rings.rows[i], self.rings.cols[i]
            name = f"{step.name} ({depth} slices of {rows} x {cols} {step.dtype})"
            yield MemoryItem(name, aligned(depth * rows * cols * step.dtype.itemsize))
            if step.stage is not None:
                kept = step.stage.kept_bytes(rows, cols)
                yield MemoryItem(f"{step.name} (kept from window to window)", kept)

    def answers(self) -> Iterator[MemoryItem]:
        """What completions keep of the answers to their barriers."""
        for i, step in enumerate(self.program.steps):
            if step.completion is not None:
                shape = (self.shape[0], self.rings.rows[i], self.rings.cols[i])
                kept = step.completion.state_bytes(shape, self._windows)
                likely = step.completion.likely_bytes(shape, self._windows)
                yield MemoryItem(f"{step.name} (answer)", kept, likely=likely)

    def what_is_found(self) -> Iterator[MemoryItem]:
        """The memory reserved for surveys, which grows with the components and rows of a slab."""
        for seen in self.program.surveys:
            region = self.program.surveyed_shape(seen.survey.upper, self.shape)
            least = seen.survey.state_bytes(region, self._windows)
            likely = seen.survey.likely_bytes(region, self._windows)
            yield MemoryItem(f"{seen.survey.name} (what is found)", least, least, likely)

    def scratch(self) -> MemoryItem:
        """What a stage, a completion or a survey allocates while it works, one after the other."""
        one_at_a_time = (
            *self._scratch_of_stages(),
            *self._scratch_of_completions(),
            *self._scratch_of_surveys(),
        )
        size, name = max(one_at_a_time, default=(0, "a stage"))
        return MemoryItem(f"scratch of {name}", size)

    def decoding(self) -> MemoryItem:
        """Chunks that are being read; the lane they go through is the process's."""
        sources = [s.source for s in self.program.steps if s.source is not None]
        firsts = (self.program.steps[stack[0]].source for stack in self.program.stacks)
        stacks = [source for source in firsts if source is not None]
        size = read_overhead_bytes(sources, self.concurrency.threads, stacks)
        return self._of_process("decoding", size)

    def encoding(self) -> MemoryItem:
        """Units that are being written, likewise."""
        boxes = []
        for o in self.program.outputs:
            # As many voxels as a slab of this shape has at most, in whole units.
            depth, rows, cols = (
                min(n, ((s + f - 1) // f + u - 1) // u * u)
                for n, s, f, u in zip(
                    o.lattice.shape, self.shape, o.lattice.step, o.unit, strict=True
                )
            )
            boxes.append((o.sink, (min(depth, o.unit[0]), rows, cols)))
        bytes_ = write_overhead_bytes(boxes, self.concurrency.threads, self.concurrency.sweeps)
        return self._of_process("encoding", bytes_)

    def _scratch_of_stages(self) -> Iterator[tuple[int, str]]:
        for i, step in enumerate(self.program.steps):
            if step.stage is not None:
                shape = (self.rings.new[i], self.rings.rows[i], self.rings.cols[i])
                yield step.stage.working_bytes(shape, self.concurrency.threads), step.name

    def _scratch_of_completions(self) -> Iterator[tuple[int, str]]:
        for i, step in enumerate(self.program.steps):
            if step.completion is not None:
                rows, cols = self.rings.rows[i], self.rings.cols[i]
                working = step.completion.working_bytes(
                    (self.rings.new[i], rows, cols), self._dtypes(step.edges)
                )
                yield working + self._gathered(step.edges, rows * cols), step.name

    def _scratch_of_surveys(self) -> Iterator[tuple[int, str]]:
        for seen in self.program.surveys:
            depth, rows, cols = self.program.surveyed_shape(seen.survey.upper, self.shape)
            working = seen.survey.working_bytes(
                (min(self.window, depth), rows, cols), self._dtypes(seen.edges)
            )
            yield working + self._gathered(seen.edges, rows * cols), f"survey {seen.survey.name}"

    @property
    def _windows(self) -> int:
        return windows_of(self.shape, self.window)

    def _dtypes(self, edges: Sequence[Edge]) -> tuple:
        return tuple(self.program.steps[e.step].dtype for e in edges)

    def _gathered(self, edges: Sequence[Edge], plane: int) -> int:
        """Bytes of the windows that are copied, since they are no arrays as they lie."""
        return sum(
            self.rings.copied[e.step] * plane * self.program.steps[e.step].dtype.itemsize
            for e in edges
        )

    def _of_process(self, name: str, size: int) -> MemoryItem:
        """The slab's share of what its process has once."""
        once = "" if self.concurrency.sweeps == 1 else ", of which a process has one part"
        return MemoryItem(f"{name}{once}", self.concurrency.share(size))


def at_least(program: Program, slab: Triple) -> int:
    """A lower bound of a slab's peak memory, from the halos alone: quick."""
    box = Grid(program.shape, slab).box(0)
    middle = min(program.shape[0] - 1, box.stop[0] // 2)
    _, y, x = box.ranges
    depths, rows, cols = (program.regions(a, ((middle, middle + 1), y, x)) for a in range(3))
    return (
        sum(
            (z[1] - z[0]) * (y[1] - y[0]) * (x[1] - x[0]) * step.dtype.itemsize
            for step, z, y, x in zip(program.steps, depths, rows, cols, strict=True)
            if step.source is None
        )
        // 2
    )
