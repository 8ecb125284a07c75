"""The schedule of a sweep: windows along z, and the slices that steps keep and compute.

The executor follows the schedule and the planner measures it, so predictions are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from beam_volumes.base.geometry import Range, Ranges
from beam_volumes.sweep.device import DEVICE, ToDevice, ToHost, is_transfer
from beam_volumes.sweep.program import Edge, Program

#: The ranges along y and x of a box, where they do not matter.
_NO_PLANE: tuple[Range, Range] = ((0, 1), (0, 1))


class Overlap(NamedTuple):
    """The room in rings in addition to a window's needs."""

    #: For the next slices of each source, to read while a window is computed. Otherwise only slots
    #: of unneeded slices are used.
    read_ahead: bool = True
    #: For another unit of each output, to be computed during a write, and for another window of
    #: arrays that are copied to or from a device, to be computed during a copy.
    write_behind: bool = True


#: In order of decreasing memory.
OVERLAPS = (Overlap(), Overlap(read_ahead=False), Overlap(read_ahead=False, write_behind=False))


@dataclass(frozen=True)
class Window:
    """One window of the sweep."""

    domain: Range  #: Slices of the domain that it feeds to surveys; may be empty.
    ends: list[Range]  #: Slices that it finishes of each end.
    tops: list[int]  #: For each step, the slice up to which it is filled after the window.
    #: For each step, the first slice that must be kept during the window.
    keeps: list[int]


@dataclass(frozen=True)
class Schedule:
    """All windows of a slab, and the sizes of ring buffers."""

    slab: Range  #: Slices of the domain.
    regions: list[Range]  #: For each step, its slices in this slab.
    windows: list[Window]
    capacity: list[int]  #: For each step, the slices in its ring.
    #: For each step, a slice in slot 0: slice z is in slot ``(z - base) % capacity``.
    base: list[int]
    order: list[int]  #: The steps in the order of their execution in each window.


def delays(program: Program) -> list[int]:
    """For each step, the number of windows by which it is late.

    Device code uses a window's slices after the window in which they are copied to the device, and they
    are copied from it in the next one. So copies, device code and the host run at the same time.
    """
    found: list[int] = []
    for step in program.steps:
        inputs = [_delay(program, found, edge) for edge in step.edges]
        found.append(max(inputs, default=0) + isinstance(step.stage, ToHost))
    return found


def _delay(program: Program, found: list[int], edge: Edge) -> int:
    """The delay of a user of a step."""
    return found[edge.step] + isinstance(program.steps[edge.step].stage, ToDevice)


def layer_of(program: Program, step: int) -> tuple[int, int]:
    """Depth and origin of the units along z in which a step is read or written; otherwise 1."""
    source = program.steps[step].source
    if source is not None:
        return source.chunk[0], source.chunk_origin[0]
    outputs = program.sinks_of(step)
    return (outputs[0].sink.unit[0], outputs[0].edge.offset[0]) if outputs else (1, 0)


def schedule(program: Program, slab: Ranges, window: int, overlap: Overlap) -> Schedule:
    """Move a window of ``window`` slices over a slab, with room for an overlap.

    The slab's ranges along y and x are only used if z is one of the program's coupled axes.
    """
    course = _Course(program, slab, window)
    late = delays(program) if overlap.write_behind else [0] * len(program.steps)
    tops = course.delay(course.tops(), late)
    keeps = course.keeps(tops)
    rings = [
        _ring(program, i, course.regions[i], tops[i], keeps[i], course.layers[i], overlap)
        for i in range(len(program.steps))
    ]
    windows = [
        Window(domain, [e[k] for e in course.ends], [t[k] for t in tops], [n[k] for n in keeps])
        for k, domain in enumerate(course.domains)
    ]
    capacity, base = ([ring[k] for ring in rings] for k in (0, 1))
    # Device code is started first if it needs nothing of this window, and runs during all others.
    order = list(range(len(rings)))
    if any(late):
        order.sort(key=lambda i: program.steps[i].place != DEVICE or is_transfer(program.steps[i]))
    return Schedule(course.z, course.regions, windows, capacity, base, order)


class _Course:
    """The windows of a slab, step by step: each list of a step or an end has one entry per window."""

    def __init__(self, program: Program, slab: Ranges, window: int):
        self.program, self.z = program, slab[0]
        self.regions = program.regions(0, slab)
        #: The ranges of steps along y and x, where those along z depend on them.
        self.planes: list[tuple[Range, Range]] = [_NO_PLANE] * len(self.regions)
        if 0 in program.coupled:
            self.planes = list(zip(program.regions(1, slab), program.regions(2, slab), strict=True))
        self.shares = [end.share(0, self.z) for end in program.ends]
        self.layers = [layer_of(program, i) for i in range(len(program.steps))]
        self.domains = self._domains(window)
        self.ends = [
            end.during(self.domains, share)
            for end, share in zip(program.ends, self.shares, strict=True)
        ]

    def _domains(self, window: int) -> list[Range]:
        begin, end = self.z
        # Units that begin in the slab may end outside it.
        shares = zip(self.program.ends, self.shares, strict=True)
        stop = max([end, *(e.lattice.until(0, b) for e, (a, b) in shares if a < b)])
        stops = [*range(begin + window, end, window), *range(end, stop, window), stop]
        return list(pairwise([begin, *stops])) if begin < stop else []

    def tops(self) -> list[list[int]]:
        """For each step, the slice up to which each window fills it."""
        steps = self.program.steps
        tops = [[lo] * len(self.domains) for lo, _ in self.regions]

        def raise_(edge: Edge, boxes: Sequence[Ranges]) -> None:
            """Extend a step to the needs of a user's boxes; the first ones may be empty."""
            some = [box for box in boxes if box[0][0] < box[0][1]]
            needed = [b for _, b in edge.needs(0, some, steps[edge.step].shape[0])]
            later = len(boxes) - len(some)
            tops[edge.step][later:] = map(max, tops[edge.step][later:], needed)

        def through(last: int) -> list[int]:
            """The end of surveys and completions: the plane above the slab is in its last window."""
            return [upto if upto < self.z[1] else last for _, upto in self.domains]

        for end, ranges, (start, _) in zip(self.program.ends, self.ends, self.shares, strict=True):
            for edge in end.edges:
                raise_(edge, [((start, stop), *_NO_PLANE) for _, stop in ranges])
        for surveyed in self.program.surveys:
            for edge in surveyed.edges:
                last = self.program.reach(surveyed.survey.upper, 0, self.z)[1]
                stops = [stop + edge.offset[0] for stop in through(last)]
                tops[edge.step] = list(map(max, tops[edge.step], stops))
        for i in range(len(steps) - 1, -1, -1):
            step, (low, high) = steps[i], self.regions[i]
            if step.completion is not None:
                tops[i] = through(high)
            depth, origin = self.layers[i] if step.stage is None else (step.stage.grain[0], 0)
            tops[i] = list(accumulate(tops[i], max))
            if step.source is not None or step.stage is not None:
                whole = (origin - (origin - top) // depth * depth for top in tops[i])
                tops[i] = [
                    min(high, to) if top > low else top
                    for top, to in zip(tops[i], whole, strict=True)
                ]
            for edge in step.edges:
                raise_(edge, [((low, top), *self.planes[i]) for top in tops[i]])
        return self._together(tops, max)

    def delay(self, tops: list[list[int]], late: list[int]) -> list[list[int]]:
        """Let steps be late by numbers of windows, with ends and surveys, and return their tops."""
        ends = [max(_delay(self.program, late, e) for e in end.edges) for end in self.program.ends]
        edges = [e for surveyed in self.program.surveys for e in surveyed.edges]
        surveys = max((_delay(self.program, late, e) for e in edges), default=0)
        total = max([*ends, surveys], default=0)
        if not total or not self.domains:
            return tops

        def later(windows: list[Range], by: int) -> list[Range]:
            first, last = windows[0][0], windows[-1][1]
            return [(first, first)] * by + windows + [(last, last)] * (total - by)

        self.ends = [later(windows, by) for windows, by in zip(self.ends, ends, strict=True)]
        self.domains = later(self.domains, surveys)
        return [
            [low] * by + top + top[-1:] * (total - by)
            for (low, _), top, by in zip(self.regions, tops, late, strict=True)
        ]

    def keeps(self, tops: list[list[int]]) -> list[list[int]]:
        """Per step, the first slice that must still be there while each window is computed."""
        steps = self.program.steps
        keeps = [[hi] * len(self.domains) for _, hi in self.regions]

        def lower(step: int, to: Iterable[int]) -> None:
            """Let the first windows keep slices of a step; the last ones may need none."""
            found = list(map(min, keeps[step], to))
            keeps[step][: len(found)] = found

        def keep(edge: Edge, boxes: Sequence[Ranges]) -> None:
            some = [box for box in boxes if box[0][0] < box[0][1]]
            lower(edge.step, (a for a, _ in edge.needs(0, some, steps[edge.step].shape[0])))

        for end, ranges, (_, stop) in zip(self.program.ends, self.ends, self.shares, strict=True):
            for edge in end.edges:
                keep(edge, [((start, stop), *_NO_PLANE) for start, _ in ranges])
        for surveyed in self.program.surveys:
            for edge in surveyed.edges:
                lower(edge.step, (done + edge.offset[0] for done, _ in self.domains))
        for output, ranges, (start, stop) in zip(
            self.program.outputs, self.ends, self.shares, strict=False
        ):
            # Finished slices of a unit are kept until it is complete.
            depth, origin = self.layers[output.edge.step]
            if start < stop:
                begun = (at // depth * depth if at < stop else stop for at, _ in ranges)
                lower(output.edge.step, (origin + max(at, start) for at in begun))
        for i, step in enumerate(steps):
            low, high = self.regions[i]
            for edge in step.edges:
                keep(edge, [((top, high), *self.planes[i]) for top in [low, *tops[i][:-1]]])
        return self._together(keeps, min)

    def _together(self, found: list[list[int]], of: Callable[..., int]) -> list[list[int]]:
        """The same, where sources that are decoded together have one course."""
        for stack in self.program.stacks:
            shared = list(map(of, *(found[i] for i in stack)))
            for i in stack:
                found[i] = shared
        return found


def _ring(
    program: Program,
    step: int,
    region: Range,
    tops: list[int],
    keeps: list[int],
    layer: tuple[int, int],
    overlap: Overlap,
) -> tuple[int, int]:
    """Capacity and base of a step's ring; layers never wrap around."""
    depth, origin = layer

    def floor(at: int) -> int:
        return origin + (at - origin) // depth * depth

    source = program.steps[step].source
    if overlap.read_ahead and source is not None and not source.in_memory:
        tops = _next(tops)
    kept = max((top - floor(keep) for top, keep in zip(tops, keeps, strict=True)), default=0)
    capacity = -(-kept // depth) * depth
    if overlap.write_behind and program.sinks_of(step):
        capacity += depth
    whole = region[1] - region[0]
    if capacity >= whole:
        return whole, region[0]
    return capacity, floor(region[0])


def gathered(program: Program, plan: Schedule) -> list[int]:
    """For each step, the maximum number of slices that are copied for surveys and completions."""
    copies = [0] * len(program.steps)

    def give(edge: Edge, z: Range) -> None:
        i, n = edge.step, z[1] - z[0]
        slot = (z[0] + edge.offset[0] - plan.base[i]) % plan.capacity[i]
        if slot + n > plan.capacity[i]:
            copies[i] = max(copies[i], n)

    tops = [lo for lo, _ in plan.regions]
    for window in plan.windows:
        for surveyed in program.surveys:
            for edge in surveyed.edges if window.domain[0] < plan.slab[1] else ():
                give(edge, window.domain)
        for i, step in enumerate(program.steps):
            if step.completion is not None:
                for edge in step.edges:
                    give(edge, (tops[i], window.tops[i]))
        tops = window.tops
    return copies


def _next(tops: list[int]) -> list[int]:
    """For each window, the top of the next window that needs more."""
    found = list(tops)
    for k in range(len(tops) - 2, -1, -1):
        found[k] = tops[k + 1] if tops[k + 1] > tops[k] else found[k + 1]
    return found
