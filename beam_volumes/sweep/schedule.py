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
from beam_volumes.sweep.program import Edge, Program, Step

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
    (found,) = schedules(program, [slab], window, overlap)
    return found


def schedules(
    program: Program, slabs: Sequence[Ranges], window: int, overlap: Overlap
) -> list[Schedule]:
    """As `schedule`, for several slabs at once: each edge is followed once for all their windows."""
    courses = _Courses(program, slabs, window)
    late = delays(program) if overlap.write_behind else [0] * len(program.steps)
    tops = courses.delay(courses.tops(), late)
    keeps = courses.keeps(tops)
    # Device code is started first if it needs nothing of this window, and runs during all others.
    order = list(range(len(program.steps)))
    if any(late):
        order.sort(key=lambda i: program.steps[i].place != DEVICE or is_transfer(program.steps[i]))
    rings = [
        _rings(program, i, courses, tops[i], keeps[i], overlap) for i in range(len(program.steps))
    ]
    found = []
    for k, (slab, run) in enumerate(zip(slabs, courses.runs, strict=True)):
        windows = [
            Window(courses.domains[w], [e[w] for e in courses.ends], list(top), list(keep))
            for w, top, keep in zip(run, _across(tops, run), _across(keeps, run), strict=True)
        ]
        regions = [ranges[k] for ranges in courses.regions]
        capacity, base = ([ring[k][part] for ring in rings] for part in (0, 1))
        found.append(Schedule(slab[0], regions, windows, capacity, base, order))
    return found


def _across(values: list[list[int]], run: range) -> Iterable[tuple[int, ...]]:
    """For each window of a slab, the values of all steps."""
    return zip(*(v[run.start : run.stop] for v in values), strict=True)


class _Courses:
    """The windows of slabs, step by step.

    Each list of a step or an end has one entry per window, slab after slab.
    """

    def __init__(self, program: Program, slabs: Sequence[Ranges], window: int):
        self.program, self.slabs = program, [z for z, _, _ in slabs]
        #: For each step, its slices in each slab.
        self.regions = program.regions_of(0, slabs)
        #: For each step, its ranges along y and x in each slab, if those along z depend on them.
        self.planes: list[list[tuple[Range, Range]]] = [[_NO_PLANE] * len(slabs)] * len(
            self.regions
        )
        if 0 in program.coupled:
            y, x = (program.regions_of(axis, slabs) for axis in (1, 2))
            self.planes = [list(zip(*own, strict=True)) for own in zip(y, x, strict=True)]
        #: For each end, its share of each slab.
        self.shares = [end.shares(0, self.slabs) for end in program.ends]
        self.layers = [layer_of(program, i) for i in range(len(program.steps))]
        self.domains: list[Range] = []
        counts = []
        for k in range(len(slabs)):
            domains = self._domains(k, window)
            self.domains += domains
            counts.append(len(domains))
        self._number(counts)
        self.ends = [
            end.during(self.domains, [share[k] for k in self.slab_of])
            for end, share in zip(program.ends, self.shares, strict=True)
        ]

    def _number(self, counts: Sequence[int]) -> None:
        """Number the windows: ``counts`` of each slab."""
        stops = list(accumulate(counts))
        #: The windows of each slab.
        self.runs = [range(stop - n, stop) for stop, n in zip(stops, counts, strict=True)]
        #: For each window, the index of its slab.
        self.slab_of = [k for k, n in enumerate(counts) for _ in range(n)]

    def _domains(self, slab: int, window: int) -> list[Range]:
        begin, end = self.slabs[slab]
        stop = end
        # Units that begin in the slab may end outside it.
        for e, share in zip(self.program.ends, self.shares, strict=True):
            a, b = share[slab]
            if a < b:
                stop = max(stop, e.lattice.until(0, b))
        stops = [*range(begin + window, end, window), *range(end, stop, window), stop]
        return list(pairwise([begin, *stops])) if begin < stop else []

    def _through(self, lasts: Sequence[int]) -> list[int]:
        """The end of surveys and completions: the plane above a slab is in its last window."""
        ends = [b for _, b in self.slabs]
        return [
            upto if upto < ends[k] else lasts[k]
            for k, (_, upto) in zip(self.slab_of, self.domains, strict=True)
        ]

    def tops(self) -> list[list[int]]:
        """For each step, the slice up to which each window fills it."""
        steps = self.program.steps
        tops = [[own[k][0] for k in self.slab_of] for own in self.regions]

        def raise_(edge: Edge, boxes: Sequence[Ranges]) -> None:
            """Extend a step to the needs of a user's boxes."""
            own = tops[edge.step]
            for w, (_, top) in _needs(edge, boxes, steps):
                own[w] = max(own[w], top)

        for end, ranges, share in zip(self.program.ends, self.ends, self.shares, strict=True):
            boxes: list[Ranges] = [
                ((share[k][0], stop), *_NO_PLANE)
                for k, (_, stop) in zip(self.slab_of, ranges, strict=True)
            ]
            for edge in end.edges:
                raise_(edge, boxes)
        for surveyed in self.program.surveys:
            upper = surveyed.survey.upper
            lasts = [self.program.reach(upper, 0, z)[1] for z in self.slabs]
            through = self._through(lasts)
            for edge in surveyed.edges:
                stops = [stop + edge.offset[0] for stop in through]
                tops[edge.step] = list(map(max, tops[edge.step], stops))
        for i in range(len(steps) - 1, -1, -1):
            step, region = steps[i], self.regions[i]
            if step.completion is not None:
                tops[i] = self._through([high for _, high in region])
            depth, origin = self.layers[i] if step.stage is None else (step.stage.grain[0], 0)
            whole = step.source is not None or step.stage is not None
            own = tops[i]
            for k, run in enumerate(self.runs):
                (low, high), reached = region[k], own[run.start] if run else 0
                for w in run:
                    reached = max(reached, own[w])
                    own[w] = reached
                    if whole and reached > low:
                        own[w] = min(high, origin - (origin - reached) // depth * depth)
            boxes = [
                ((region[k][0], top), *self.planes[i][k])
                for k, top in zip(self.slab_of, own, strict=True)
            ]
            for edge in step.edges:
                raise_(edge, boxes)
        return self._together(tops, max)

    def delay(self, tops: list[list[int]], late: list[int]) -> list[list[int]]:
        """Let steps be late by numbers of windows, with ends and surveys, and return their tops."""
        ends = [max(_delay(self.program, late, e) for e in end.edges) for end in self.program.ends]
        edges = [e for surveyed in self.program.surveys for e in surveyed.edges]
        surveys = max((_delay(self.program, late, e) for e in edges), default=0)
        total = max([*ends, surveys], default=0)
        if not total:
            return tops
        runs = self.runs

        def later(windows: list[Range], by: int) -> list[Range]:
            found = []
            for own in (windows[run.start : run.stop] for run in runs if run):
                first, last = own[0][0], own[-1][1]
                found += [(first, first)] * by + own + [(last, last)] * (total - by)
            return found

        def later_tops(i: int, by: int) -> list[int]:
            found = []
            for (low, _), run in zip(self.regions[i], runs, strict=True):
                own = tops[i][run.start : run.stop]
                found += [low] * by + own + own[-1:] * (total - by) if own else []
            return found

        self.ends = [later(windows, by) for windows, by in zip(self.ends, ends, strict=True)]
        self.domains = later(self.domains, surveys)
        self._number([len(run) + total if run else 0 for run in runs])
        return [later_tops(i, by) for i, by in enumerate(late)]

    def keeps(self, tops: list[list[int]]) -> list[list[int]]:
        """Per step, the first slice that must still be there while each window is computed."""
        steps = self.program.steps
        keeps = [[own[k][1] for k in self.slab_of] for own in self.regions]

        def keep(edge: Edge, boxes: Sequence[Ranges]) -> None:
            """Keep a step's slices for a user's boxes."""
            own = keeps[edge.step]
            for w, (first, _) in _needs(edge, boxes, steps):
                own[w] = min(own[w], first)

        for end, ranges, share in zip(self.program.ends, self.ends, self.shares, strict=True):
            boxes: list[Ranges] = [
                ((start, share[k][1]), *_NO_PLANE)
                for k, (start, _) in zip(self.slab_of, ranges, strict=True)
            ]
            for edge in end.edges:
                keep(edge, boxes)
        for surveyed in self.program.surveys:
            for edge in surveyed.edges:
                firsts = [done + edge.offset[0] for done, _ in self.domains]
                keeps[edge.step] = list(map(min, keeps[edge.step], firsts))
        for output, ranges, share in zip(
            self.program.outputs, self.ends, self.shares, strict=False
        ):
            # Finished slices of a unit are kept until it is complete.
            depth, origin = self.layers[output.edge.step]
            own = keeps[output.edge.step]
            for w, (k, (at, _)) in enumerate(zip(self.slab_of, ranges, strict=True)):
                start, stop = share[k]
                if start < stop:
                    begun = at // depth * depth if at < stop else stop
                    own[w] = min(own[w], origin + max(begun, start))
        for i, step in enumerate(steps):
            if not step.edges:
                continue
            before = [0, *tops[i][:-1]]
            for run, (low, _) in zip(self.runs, self.regions[i], strict=True):
                if run:
                    before[run.start] = low
            boxes = [
                ((top, self.regions[i][k][1]), *self.planes[i][k])
                for k, top in zip(self.slab_of, before, strict=False)
            ]
            for edge in step.edges:
                keep(edge, boxes)
        return self._together(keeps, min)

    def _together(self, found: list[list[int]], of: Callable[..., int]) -> list[list[int]]:
        """The same, where sources that are decoded together have one course."""
        for stack in self.program.stacks:
            shared = list(map(of, *(found[i] for i in stack)))
            for i in stack:
                found[i] = shared
        return found


def _needs(
    edge: Edge, boxes: Sequence[Ranges], steps: Sequence[Step]
) -> Iterable[tuple[int, Range]]:
    """The windows with boxes that are not empty, and the slices of a step that they need."""
    used = [w for w, ((first, last), _, _) in enumerate(boxes) if first < last]
    return zip(
        used, edge.needs(0, [boxes[w] for w in used], steps[edge.step].shape[0]), strict=True
    )


def _rings(
    program: Program,
    step: int,
    courses: _Courses,
    tops: list[int],
    keeps: list[int],
    overlap: Overlap,
) -> list[tuple[int, int]]:
    """Capacity and base of a step's ring in each slab; layers never wrap around."""
    depth, origin = courses.layers[step]
    source = program.steps[step].source
    is_ahead = overlap.read_ahead and source is not None and not source.in_memory
    spare = depth if overlap.write_behind and program.sinks_of(step) else 0
    found = []
    for (low, high), run in zip(courses.regions[step], courses.runs, strict=True):
        filled = tops[run.start : run.stop]
        needed = [
            top - origin - (keep - origin) // depth * depth
            for top, keep in zip(
                _next(filled) if is_ahead else filled, keeps[run.start : run.stop], strict=True
            )
        ]
        capacity = -(-max(needed, default=0) // depth) * depth + spare
        if capacity >= high - low:
            found.append((high - low, low))
        else:
            found.append((capacity, origin + (low - origin) // depth * depth))
    return found


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


def maxima(program: Program, plans: Iterable[Schedule]) -> tuple[list[int], list[int], list[int]]:
    """For each step, the maximum slices of its ring, new slices of a window, and `gathered` slices."""
    capacity, new, copies = ([0] * len(program.steps) for _ in range(3))
    for plan in plans:
        capacity = list(map(max, capacity, plan.capacity))
        copies = list(map(max, copies, gathered(program, plan)))
        before = [lo for lo, _ in plan.regions]
        for window in plan.windows:
            new = [max(n, b - a) for n, a, b in zip(new, before, window.tops, strict=True)]
            before = window.tops
    return capacity, new, copies


def _next(tops: list[int]) -> list[int]:
    """For each window, the top of the next window that needs more."""
    found = list(tops)
    for k in range(len(tops) - 2, -1, -1):
        found[k] = tops[k + 1] if tops[k + 1] > tops[k] else found[k + 1]
    return found
