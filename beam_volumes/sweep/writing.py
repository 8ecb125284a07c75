"""The outputs of a sweep, written unit by unit as soon as their slices are complete."""

from __future__ import annotations

import contextlib
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.transfer import Transfer, checksum, write_units
from beam_volumes.sweep.activity import ActivityContext
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.resources import start_strips
from beam_volumes.sweep.rings import Ring, copy
from beam_volumes.sweep.schedule import Window

#: Bytes of voxels that are compared with the fill value at a time.
_COMPARED = 1 << 16
#: Checksums of units; None for units that are not stored.
_Sums: TypeAlias = list[int | None]


@dataclass
class SlabResult:
    """The result of a sweep over one slab, without its voxels."""

    states: dict[str, Any] = field(default_factory=dict)  #: States of the folds by token.
    summaries: dict[str, Any] = field(default_factory=dict)  #: Summaries of surveys, by barrier.
    seconds: float = 0.0
    #: Bytes of whole chunks read, and of voxels written before compression.
    bytes_read: int = 0
    bytes_written: int = 0
    #: By output, indices of the stored write units, and in ``empty`` of units with only the fill
    #: value, which are not stored.
    written: dict[str, list[int]] = field(default_factory=dict)
    empty: dict[str, list[int]] = field(default_factory=dict)
    #: By output, the checksum of each written unit, from `storage.checksums.checksum`.
    sums: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Program) -> SlabResult:
        """An empty result."""
        names = [o.sink.name for o in program.outputs]
        units: list[dict[str, list[int]]] = [{name: [] for name in names} for _ in range(3)]
        states = {f.token: f.reduction.zero() for f in program.folds}
        return cls(states, written=units[0], empty=units[1], sums=units[2])


@dataclass(eq=False)
class Writes:
    """The writes of a slab."""

    program: Program
    rings: Sequence[Ring]
    sinks: Sequence[Any]  #: The opened outputs: arrays of this process, or TensorStore's.
    shares: Sequence[Box]  #: The slab's part of each output.
    in_place: Mapping[int, int]  #: Outputs that are the ring of a step and need no write.
    threads: int
    unoverlapped: bool  #: Whether to wait for each write immediately.
    activity: ActivityContext
    result: SlabResult
    check_ownership: Callable[[], None] | None = None

    def __post_init__(self) -> None:
        self.under_way: deque[tuple[int, int, int, Transfer]] = deque()
        #: For each of them, its units, and a function that waits for their checksums.
        self.checks: deque[tuple[list[int], Callable[[], list[_Sums]]]] = deque()
        self.written = [share.start[0] for share in self.shares]

    def write(self, window: Window) -> None:
        """Start writing the units that a window completes."""
        for k, output in enumerate(self.program.outputs):
            depth, share, (_, done) = output.sink.unit[0], self.shares[k], window.ends[k]
            whole = done if done == share.stop[0] else done // depth * depth
            while self.written[k] < whole and share.size:
                z0 = self.written[k]
                z1 = min(whole, z0 // depth * depth + depth)
                box = Box((z0, *share.start[1:]), (z1, *share.stop[1:]))
                inside = box.translate(output.edge.offset)
                view = self.rings[output.edge.step].view(inside)
                z = inside.start[0], inside.stop[0]
                doing = f"writing {output.sink.name}"
                self.result.bytes_written += view.nbytes
                self.written[k] = z1
                if k in self.in_place:
                    continue
                if isinstance(self.sinks[k], np.ndarray):
                    array = self.sinks[k][box.slices]
                    with self.activity("write", k, z, doing):
                        copy(array, view.view(array.dtype), self.threads)
                    continue
                if view.dtype.names:  # interleaved channels
                    view = view.view(output.sink.dtype).reshape(*view.shape, -1)
                with self.activity("write", k, z, doing):
                    if self.check_ownership is not None:
                        self.check_ownership()
                with self.activity("check", k, z, doing):
                    self.checks.append(self._start_checks(output.sink, box, view))
                    if self.unoverlapped:
                        self.checks[-1][1]()
                with self.activity("write", k, z, doing):
                    transfer = write_units(self.sinks[k], box, view)
                self.under_way.append((*z, k, transfer))
                if self.unoverlapped:
                    self.finish_one()

    def make_room(self, i: int, top: int) -> None:
        """Wait for writes from slots that slices up to ``top`` will use."""
        free = top - self.rings[i].capacity
        outputs = self.program.outputs
        while any(outputs[k].edge.step == i and z0 < free for z0, _, k, _ in self.under_way):
            self.finish_one()

    def finish(self) -> None:
        """Wait for all writes."""
        while self.under_way:
            self.finish_one()

    def finish_one(self) -> None:
        """Wait for the oldest write."""
        z0, z1, k, transfer = self.under_way[0]
        units, wait = self.checks[0]
        name = self.program.outputs[k].sink.name
        with self.activity("check", k, (z0, z1), f"writing {name}"):
            sums = itertools.chain(*wait())
        with self.activity("write", k, (z0, z1), f"writing {name}"):
            transfer.result()
        for index, found in zip(units, sums, strict=True):
            if found is None:
                self.result.empty[name].append(index)
            else:
                self.result.written[name].append(index)
                self.result.sums[name].append(found)
        self.checks.popleft()
        self.under_way.popleft()

    def drain(self) -> None:
        """Wait until no thread uses the rings, also after errors."""
        for wait in [wait for _, wait in self.checks] + [w[-1].result for w in self.under_way]:
            with contextlib.suppress(Exception):
                wait()

    def _start_checks(
        self, sink: Sink, box: Box, view: np.ndarray
    ) -> tuple[list[int], Callable[[], list[_Sums]]]:
        """Start to compute the checksums of a layer's write units; units of zeros are not stored."""
        grid, stores_empty = sink.grid, sink.stores_empty
        _, ny, nx = grid.counts
        z = box.start[0] // grid.step[0]
        units = [
            (z * ny + y) * nx + x
            for y in range(box.start[1] // grid.step[1], -(-box.stop[1] // grid.step[1]))
            for x in range(box.start[2] // grid.step[2], -(-box.stop[2] // grid.step[2]))
        ]

        def sums(a: int, b: int) -> _Sums:
            found: _Sums = []
            for index in units[a:b]:
                voxels = view[grid.box(index).translate([-at for at in box.start]).slices]
                is_stored = stores_empty or any(map(_is_stored, _some_rows(voxels)))
                found.append(checksum(voxels) if is_stored else None)
            return found

        return units, start_strips(len(units), view.size, self.threads, sums)


def _some_rows(voxels: np.ndarray) -> Iterator[np.ndarray]:
    """Slices in parts that fit a cache: usually the first part decides."""
    rows = max(1, _COMPARED // max(1, voxels[:1, :1].nbytes))
    return (plane[y : y + rows] for plane in voxels for y in range(0, len(plane), rows))


def _is_stored(plane: np.ndarray) -> bool:
    """Whether any voxel differs from the fill value; -0.0 does."""
    return bool(plane.any() or (plane.dtype.kind == "f" and np.signbit(plane).any()))
