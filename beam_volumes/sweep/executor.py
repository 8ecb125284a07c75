"""The streaming executor: runs a program over one slab, window by window along z.

Every step has a ring buffer of slices (`rings`). For each window, the executor waits for missing
slices of the sources (reads are started as soon as rings have room), runs each stage once on the
new slices that its users need, and folds finished slices. It writes a unit as soon as its last
slice is complete (`writing`). Voxels outside the volume are filled in per step: rows and columns in
the ring, slices by repeated slots. If possible, the last stage writes results that stay in memory
directly into the output array, which then is its ring. In the same way, an array in memory that
needs no padding is the ring of its source, unless a function of the user receives views of it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Box, Grid, Halo, Lattice, Range, pad_index
from beam_volumes.kernels.rows import pad_margins
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.places.transfer import Transfer, read_into
from beam_volumes.storage.sources.source import Source, read_stack
from beam_volumes.sweep.activity import ActivityContext, Meter
from beam_volumes.sweep.device import DEVICE, Device, FoldedThere, Launched, MaskThere, ToHost
from beam_volumes.sweep.direct import DirectRead, DirectReader
from beam_volumes.sweep.program import Edge, FedEdges, FoldEdge, Output, Program, Step
from beam_volumes.sweep.reduction import Slices
from beam_volumes.sweep.resources import Arena, in_strips, release_unused
from beam_volumes.sweep.rings import Ring, as_dtype, copy, ring_shapes, whole_layer
from beam_volumes.sweep.schedule import OVERLAPS, Overlap, Window, layer_of, schedule
from beam_volumes.sweep.stage import Block, Work
from beam_volumes.sweep.survey import Completer, Surveyor, windows_of
from beam_volumes.sweep.writing import SlabResult, Writes

#: Voxels of slices that a reduction gets as one.
_JOINED = 1 << 16


def sweep(
    program: Program,
    grid: Grid,
    index: int,
    values: dict[str, Any],
    arena: Arena,
    *,
    window: int,
    threads: int = 1,
    overlap: Overlap = OVERLAPS[0],
    answers: Mapping[str, Any] | None = None,
    limit_bytes: int = 1 << 30,
    check_ownership: Callable[[], None] | None = None,
    on_progress: Callable[[float], None] | None = None,
    meter: Meter | None = None,
    device: Device | None = None,
) -> SlabResult:
    """Run a program over one slab of its domain."""
    # ``grid``: the slabs, aligned to the write units of the outputs.
    # ``answers``: the slab's answers for completions, by barrier.
    # ``check_ownership``: called before units are written; raises an error if they must not be.
    # ``on_progress``: called after each window with the finished share of the slab; may raise to
    # stop.
    # ``meter``: collects timings.
    # ``device``: for the steps that run there.
    # Raises Exception: any error of a stage, a read or a write, with the stage and its slices in the
    # message.
    release_unused(s.stage.holds for s in program.steps if s.stage is not None)
    run = _Sweep(program, grid.box(index), values, arena, window, threads, overlap, meter, device)
    run.writes.check_ownership, run.on_progress = check_ownership, on_progress
    limits = program.survey_limits(grid.step, windows_of(grid.step, window), limit_bytes)
    for surveyed, limit in zip(program.surveys, limits, strict=True):
        own = tuple(values[t] for t in surveyed.values)
        run.surveyors.append(surveyed.survey.begin(grid, index, own, limit))
    for i, step in enumerate(program.steps):
        if step.completion is not None:
            answer = (answers or {})[step.barrier]
            run.completers[i] = step.completion.begin(grid, index, answer)
    return run.run()


@dataclass(frozen=True, eq=False)
class BoxSink:
    """An array of this process as the output of `compute_box`."""

    array: np.ndarray
    name = "a box"
    unit = (1, 1, 1)


def compute_box(program: Program, box: Box, window: int) -> np.ndarray:
    """Compute a box of the only output of a program, in this thread.

    It may be called inside of another sweep. Sources are then not read through the lanes of reads, which may
    be full of reads that wait for this one.
    """
    out = np.empty(box.shape, program.steps[program.outputs[0].edge.step].dtype)
    part = program_of_box(program, box, out)
    _Sweep(part, Box.of_shape(box.shape), {}, Arena(), window, 1, OVERLAPS[-1], is_inner=True).run()
    return out


def program_of_box(program: Program, box: Box, out: np.ndarray) -> Program:
    """Return the program of a box of the only output of a program, which is its whole domain."""
    edge = program.outputs[0].edge
    z, y, x = (a + b for a, b in zip(edge.offset, box.start, strict=True))
    sink: Any = BoxSink(out)  # has the parts of a `Sink` that a sweep uses
    output = Output(replace(edge, offset=(z, y, x)), sink, Lattice(box.shape))
    return replace(program, shape=box.shape, outputs=(output,))


class _Sweep:
    def __init__(
        self,
        program: Program,
        box: Box,
        values: dict[str, Any],
        arena: Arena,
        window: int,
        threads: int,
        overlap: Overlap,
        meter: Meter | None = None,
        device: Device | None = None,
        is_inner: bool = False,
    ):
        self.program, self.box, self.threads = program, box, threads
        self._device, self._is_inner = device, is_inner
        self._activity = ActivityContext(program, meter)
        self.unoverlapped = is_inner or (meter is not None and meter.unoverlapped)
        self.on_progress: Callable[[float], None] | None = None
        self.values = values
        self.surveyors: list[Surveyor] = []
        #: By index of a fold, its state on the device.
        self.folded: dict[int, FoldedThere] = {}
        self.completers: dict[int, Completer] = {}
        self.plan = schedule(program, box.ranges, window, overlap)
        self.y, self.x = (program.regions(a, box.ranges) for a in (1, 2))
        self.padded_y, self.padded_x = program.extents(1, self.y), program.extents(2, self.x)
        # Arrays of this process are copied directly; TensorStore handles all others.
        self.sinks: list[Any] = [
            o.sink.array if isinstance(o.sink, ArraySink | BoxSink) else o.sink.open()
            for o in program.outputs
        ]
        self.works = {
            i: self._work(s, Box((z[0], y[0], x[0]), (z[1], y[1], x[1])))
            for i, (s, z, y, x) in enumerate(
                zip(program.steps, self.plan.regions, self.y, self.x, strict=True)
            )
            if s.stage is not None
        }
        spans = list(zip(box.start, box.stop, strict=True))
        self.shares = [[e.share(a, spans[a]) for a in range(3)] for e in program.ends]
        self.in_place = self._in_place()
        self.given = self._given()
        self.rings = self._cut_rings(arena)
        self.tops = [lo for lo, _ in self.plan.regions]
        self.issued = list(self.tops)
        self.reads: list[deque[tuple[int, Transfer | DirectRead]]] = [
            deque() for _ in program.steps
        ]
        #: By index of a source: its array, or a function that starts to read a box into its ring; or itself,
        #: if it is read in this thread.
        self.handles: dict[int, Any] = {
            i: self._reader(s.source, s.place)
            for i, s in enumerate(program.steps)
            if s.source is not None
        }
        # Sources that are decoded together have the same schedule.
        self.stacks = {} if is_inner else {i: stack for stack in program.stacks for i in stack}
        self.result = SlabResult.of(program)
        self.result.bytes_read = sum(map(self._bytes_of, program.decoded))
        self.writes = Writes(
            program=program,
            rings=self.rings,
            sinks=self.sinks,
            shares=[self._box(k) for k in range(len(program.outputs))],
            in_place=self.in_place,
            threads=threads,
            unoverlapped=self.unoverlapped,
            activity=self._activity,
            result=self.result,
        )

    @property
    def device(self) -> Device:
        assert self._device is not None, "a program with steps on a device needs device="
        return self._device

    def _work(self, step: Step, box: Box) -> Work:
        assert step.stage is not None
        if step.place == DEVICE or isinstance(step.stage, ToHost):
            return Launched(step.stage, self.device)
        return step.stage.begin(box)

    def _reader(self, source: Source, place: str) -> Any:
        if place == DEVICE:
            return DirectReader(source, self.device)
        if source.array is not None:
            return source.array
        if self._is_inner:
            return source
        handle = source.open()
        return lambda box, ring: read_into(handle, box, ring.view(box))

    def _in_place(self) -> dict[int, int]:
        """Outputs in memory that can serve as the ring of their step."""
        found: dict[int, int] = {}
        for k, (output, sink) in enumerate(zip(self.program.outputs, self.sinks, strict=True)):
            i = output.edge.step
            if (
                isinstance(sink, np.ndarray)
                and sink[self._box(k).slices].flags.c_contiguous
                and output.edge.offset == (0, 0, 0)
                and [self.plan.regions[i], self.padded_y[i], self.padded_x[i]] == self.shares[k]
                and self.program.steps[i].source is None
                and not self.program.constant_slice(i)
                and i not in found.values()
            ):
                found[k] = i
        return found

    def _given(self) -> dict[int, np.ndarray]:
        """Sources in memory that can serve as their ring, because nothing is written around them."""
        found: dict[int, np.ndarray] = {}
        for i, step in enumerate(self.program.steps):
            array = None if step.source is None else step.source.array
            is_padded = (self.y[i], self.x[i]) != (self.padded_y[i], self.padded_x[i])
            users = (self.program.steps[user].stage for user, _ in self.program.users[i])
            # Compiled code of a user may write to memory although its array is read-only.
            is_exposed = any(stage is not None and stage.passes_views for stage in users)
            if (
                array is None
                or is_padded
                or is_exposed
                or self.program.constant_slice(i)
                or self._is_on_device(i)
            ):
                continue
            part = array[tuple(slice(*r) for r in (self.plan.regions[i], self.y[i], self.x[i]))]
            # Kernels are compiled for one layout, and for arrays that they may write.
            if part.flags.carray and part.dtype == step.dtype:
                found[i] = part.view(np.ndarray)
        return found

    def _box(self, k: int) -> Box:
        """The slab's part of an end."""
        z, y, x = self.shares[k]
        return Box((z[0], y[0], x[0]), (z[1], y[1], x[1]))

    def _cut_rings(self, arena: Arena) -> list[Ring]:
        shapes = ring_shapes(self.program, self.plan, (self.padded_y, self.padded_x))
        capacity, base = list(self.plan.capacity), list(self.plan.base)
        for i in (*self.in_place.values(), *self.given):
            shapes[i] = ((0, 0, 0), shapes[i][1])
        on_device = {i: s for i, s in enumerate(shapes) if self._is_on_device(i)}
        for i, (_, dtype) in on_device.items():
            shapes[i] = ((0, 0, 0), dtype)
        arrays: list[Any] = [*arena.cut(shapes)]
        for i, of_ring in on_device.items():
            arrays[i] = self.device.empty(*of_ring)
        for k, i in self.in_place.items():
            box = self._box(k)
            arrays[i] = self.sinks[k][box.slices].view(shapes[i][1])
            capacity[i], base[i] = len(arrays[i]), box.start[0]
        for i, array in self.given.items():
            arrays[i] = array
            capacity[i], base[i] = len(array), self.plan.regions[i][0]
        for i, array in enumerate(arrays):
            if self.program.constant_slice(i):
                value = as_dtype(self.program.padding(i).cval, shapes[i][1])
                if i in on_device:
                    self.device.fill(array, capacity[i], value)
                else:
                    array[-1] = value
        return [
            Ring(a, c, b, y[0], x[0])
            for a, c, b, y, x in zip(
                arrays, capacity, base, self.padded_y, self.padded_x, strict=True
            )
        ]

    def _is_on_device(self, i: int) -> bool:
        return self.program.steps[i].place == DEVICE

    def run(self) -> SlabResult:
        begin = time.perf_counter()
        try:
            for k, window in enumerate(self.plan.windows):
                self._read(window)
                if not self.unoverlapped:
                    self._read_ahead(k)
                for i in self.plan.order:
                    self._advance(i, window)
                for f in range(len(self.program.folds)):
                    self._fold(f, window.ends[len(self.program.outputs) + f])
                if window.domain[0] < min(window.domain[1], self.box.stop[0]):
                    self._survey(window.domain)
                self.writes.write(window)
                if self.on_progress is not None:
                    self.on_progress((k + 1) / len(self.plan.windows))
            for f, folded in self.folded.items():
                fold, whole = self.program.folds[f], self.shares[len(self.program.outputs) + f][0]
                with self._activity("fold", f, whole, fold.reduction.name):
                    self._merge(fold, folded.collect())
            for surveyed, surveyor in zip(self.program.surveys, self.surveyors, strict=True):
                self.result.summaries[surveyed.token] = surveyor.finish()
            self.writes.finish()
        finally:
            self._drain()
        self.result.seconds = time.perf_counter() - begin
        return self.result

    # -- reading ---------------------------------------------------------------------------------

    def _read(self, window: Window) -> None:
        """Start reading everything that a window needs."""
        for i in self.handles:
            self._issue(i, window.tops[i], window)
            if self.unoverlapped:
                self._await(i, (self.tops[i], window.tops[i]))  # to be counted as waiting time

    def _read_ahead(self, k: int) -> None:
        """Start reading for the windows after ``k``, in order, as far as there is room."""
        windows, ends = self.plan.windows, [hi for _, hi in self.plan.regions]
        stored = [i for i, handle in self.handles.items() if not isinstance(handle, np.ndarray)]
        for later in range(k + 1, len(windows)):
            tops = windows[later].tops
            for i in stored:
                self._issue(i, tops[i], windows[k])
            # Skip sources that are complete, or have full rings.
            stored = [i for i in stored if tops[i] <= self.issued[i] < ends[i]]
            if not stored:
                break

    def _issue(self, i: int, top: int, window: Window) -> None:
        """Start reading up to slice ``top``, in whole layers, as far as the ring has room."""
        ring, (depth, origin) = self.rings[i], layer_of(self.program, i)
        room = (
            window.keeps[i]
            - (window.keeps[i] - ring.base) % whole_layer(depth, ring)
            + ring.capacity
        )
        if room < top:
            top = max(self.issued[i], origin + (room - origin) // depth * depth)
        while self.issued[i] < top:
            at = self.issued[i]
            stop = min(top, at + ring.capacity - (at - ring.base) % ring.capacity)
            handle, stack = self.handles[i], self.stacks.get(i, (i,))
            boxes = {
                j: Box((at, self.y[j][0], self.x[j][0]), (stop, self.y[j][1], self.x[j][1]))
                for j in stack
            }
            boxes = {j: box for j, box in boxes.items() if box.size}  # others are for other tiles
            if not boxes or i in self.given:
                pass
            elif isinstance(handle, np.ndarray):
                with self._activity("read", i, (at, stop)):
                    copy(ring.view(boxes[i]), handle[boxes[i].slices], self.threads)
            elif isinstance(handle, Source):
                with self._activity("read", i, (at, stop)):
                    copy(ring.view(boxes[i]), handle.read_here(boxes[i]), self.threads)
            elif len(stack) == 1:
                self.reads[i].append((at, handle(boxes[i], ring)))
            else:
                sources: list[Any] = [self.program.steps[j].source for j in boxes]
                views = (self.rings[j].view(box) for j, box in boxes.items())
                read = read_stack(list(zip(sources, boxes.values(), views, strict=True)))
                for j in boxes:
                    self.reads[j].append((at, read))
            for j in stack:
                self.issued[j] = stop

    # -- computing -------------------------------------------------------------------------------

    def _advance(self, i: int, window: Window) -> None:
        step, new = self.program.steps[i], (self.tops[i], window.tops[i])
        if new[0] >= new[1]:
            return
        if step.source is not None:
            self._await(i, new)
        else:
            self.writes.make_room(i, new[1])
            self._compute(i, new)
        with self._activity("pad", 0, new, "padding"):
            self._fill_rims(i, new)
        self.tops[i] = new[1]

    def _await(self, i: int, new: Range) -> None:
        """Wait for slices of a source."""
        while self.reads[i] and self.reads[i][0][0] < new[1]:
            _, read = self.reads[i].popleft()
            with self._activity("read", i, new):
                read.result()

    def _compute(self, i: int, new: Range) -> None:
        step = self.program.steps[i]
        if step.completion is not None:
            for part in self._windows(new, self.box.stop[0]):
                self._complete(i, step, part)
            return
        y, x = self.y[i], self.x[i]
        inputs = tuple(self._block(e, new, y, x, e.halo) for e in step.edges)
        out = self._out(i, new)
        if not out.rows * out.cols:
            return
        values = tuple(self.values[t] for t in step.values)
        with self._activity("stage", i, new):
            self.works[i].run(inputs, out, values, self.threads)

    @staticmethod
    def _windows(new: Range, end: int) -> list[Range]:
        """Split off the plane above the slab, a separate window of surveys and completions."""
        return [
            (a, b) for a, b in ((new[0], min(new[1], end)), (max(new[0], end), new[1])) if a < b
        ]

    def _complete(self, i: int, step: Step, z: Range) -> None:
        inputs = tuple(self._whole(e, z, self.y[i], self.x[i]) for e in step.edges)
        with self._activity("stage", i, z):
            self.completers[i].run(inputs, self._out(i, z), self._inside(z), self.threads)

    def _survey(self, domain: Range) -> None:
        """Feed finished slices to the surveys."""
        for k, (surveyed, surveyor) in enumerate(
            zip(self.program.surveys, self.surveyors, strict=True)
        ):
            z, y, x = (
                self.program.reach(surveyed.survey.upper, a, (self.box.start[a], self.box.stop[a]))
                for a in range(3)
            )
            through = domain[1] if domain[1] < self.box.stop[0] else z[1]
            for part in self._windows((domain[0], through), self.box.stop[0]):
                arrays = tuple(self._whole(e, part, y, x) for e in surveyed.edges)
                with self._activity("survey", k, part, surveyed.survey.name):
                    surveyor.feed(arrays, self._inside(part), self.threads)

    def _whole(self, edge: Edge, z: Range, y: Range, x: Range) -> Any:
        """The input of a survey or completion: an array, or a `MaskThere`."""
        block = self._block(edge, z, y, x, NO_HALO)
        on_device = self._is_on_device(edge.step)
        return MaskThere(block, self.device) if on_device else block.array()

    def _inside(self, z: Range) -> Range:
        return z[0] - self.box.start[0], z[1] - self.box.start[0]

    def _out(self, i: int, z: Range) -> Block:
        """The block of a step's new slices."""
        ring, y, x = self.rings[i], self.y[i], self.x[i]
        slots = ring.slots(np.arange(*z, dtype=np.int64))
        rows, cols = y[1] - y[0], x[1] - x[0]
        start = (z[0], y[0], x[0])
        return Block(ring.array, slots, y[0] - ring.y, x[0] - ring.x, rows, cols, start)

    def _block(self, edge: Edge, z: Range, y: Range, x: Range, halo: Halo) -> Block:
        """The block of a user's slices, rows and columns, read through an edge."""
        if edge.regrid is not None:
            z, y, x = (edge.regrid.needs(axis, (z, y, x)) for axis in range(3))
        ring, size = self.rings[edge.step], self.program.steps[edge.step].shape[0]
        index = pad_index(
            z[0] + edge.offset[0] - halo[0][0],
            z[1] + edge.offset[0] + halo[0][1],
            size,
            edge.padding.modes[0],
        )
        return Block(
            ring.array,
            ring.slots(index),
            y[0] + edge.offset[1] - halo[1][0] - ring.y,
            x[0] + edge.offset[2] - halo[2][0] - ring.x,
            y[1] - y[0] + sum(halo[1]),
            x[1] - x[0] + sum(halo[2]),
            (z[0] - halo[0][0], y[0] - halo[1][0], x[0] - halo[2][0]),
        )

    def _fill_rims(self, i: int, new: Range) -> None:
        y, x, padded_y, padded_x = self.y[i], self.x[i], self.padded_y[i], self.padded_x[i]
        if (y, x) == (padded_y, padded_x) or y[0] == y[1] or x[0] == x[1]:
            return
        ring, padding = self.rings[i], self.program.padding(i)
        maps = []
        for axis, extent in ((1, padded_y), (2, padded_x)):
            index = pad_index(*extent, self.program.steps[i].shape[axis], padding.modes[axis])
            maps.append(np.where(index >= 0, index - extent[0], -1))
        slots = ring.slots(np.arange(*new, dtype=np.int64))
        rows, cols = (
            (y[0] - padded_y[0], y[1] - padded_y[0]),
            (x[0] - padded_x[0], x[1] - padded_x[0]),
        )
        cval = as_dtype(padding.cval, self.program.steps[i].dtype)
        if self._is_on_device(i):
            margins = (ring.array, slots, *rows, *cols, *maps, cval)
            self.device.launch("rows.pad_margins", *margins)
            return
        in_strips(
            len(slots),
            len(slots) * (ring.array[0].size - (y[1] - y[0]) * (x[1] - x[0])),
            self.threads,
            lambda a, b: pad_margins(ring.array, slots[a:b], *rows, *cols, maps[0], maps[1], cval),
        )

    def _fold(self, k: int, z: Range) -> None:
        _, y, x = self.shares[len(self.program.outputs) + k]
        if z[0] < z[1] and y[0] < y[1] and x[0] < x[1]:
            for fed in self.program.folds[k].fed:
                self._feed(k, fed, z, y, x)

    def _feed(self, k: int, fed: FedEdges, z: Range, y: Range, x: Range) -> None:
        fold = self.program.folds[k]
        voxels = self._block(fed.voxels, z, y, x, NO_HALO)
        mask = self._block(fed.mask, z, y, x, NO_HALO) if fed.mask is not None else None
        others = [self._block(e, z, y, x, NO_HALO) for e in fed.others]
        values = tuple(self.values[t] for t in fold.values)
        reduction = fold.reduction
        if self._is_on_device(fed.voxels.step):
            if k not in self.folded:
                self.folded[k] = FoldedThere(reduction, self.device, values)
            with self._activity("fold", k, z, reduction.name):
                self.folded[k].feed(voxels, mask)
            return

        blocks = [voxels, *others] if mask is None else [voxels, *others, mask]
        # Not if there are fewer slices than threads: strips then divide rows.
        joins = (
            reduction.joins_slices
            and voxels.depth >= self.threads
            and all(block.has_whole_slices for block in blocks)
        )
        step = max(1, _JOINED // (voxels.rows * voxels.cols)) if joins else 1

        def strip(first: int, end: int) -> Any:
            def cut(block: Block) -> list[np.ndarray]:
                if joins:
                    return [block.joined(a, min(a + step, end)) for a in range(first, end, step)]
                return [block.slice(k, first, end) for k in range(block.depth)]

            where = None if mask is None else cut(mask)
            start = (z[0] + first, y[0], x[0]) if joins else (z[0], y[0] + first, x[0])
            return reduction.fold_slices(
                Slices(cut(voxels), where, tuple(map(cut, others)), start), values
            )

        with self._activity("fold", k, z, reduction.name):
            number = voxels.depth if joins else voxels.rows
            size = voxels.rows * voxels.cols * voxels.depth
            for state in in_strips(number, size, self.threads, strip):
                self._merge(fold, state)

    def _merge(self, fold: FoldEdge, state: Any) -> None:
        states = self.result.states
        states[fold.token] = fold.reduction.merge(states[fold.token], state)

    def _bytes_of(self, together: tuple[int, ...]) -> int:
        """Bytes of the chunks that this slab reads of sources that are decoded together."""
        source = self.program.steps[together[0]].source
        assert source is not None
        units = source.channels_per_chunk
        for axis, regions in enumerate((self.plan.regions, self.y, self.x)):
            first = min(regions[i][0] for i in together)
            last = max(regions[i][1] for i in together)
            units *= source.units_touched(axis, (first, last))
        return units * math.prod(source.read_unit) * source.dtype.itemsize

    def _drain(self) -> None:
        """Wait until no thread uses the rings."""
        transfers = [t for reads in self.reads for _, t in reads]
        for transfer in transfers:
            with contextlib.suppress(Exception):
                transfer.result()
        self.writes.drain()
