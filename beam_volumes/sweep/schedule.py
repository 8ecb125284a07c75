"""The course of a window through a slab along z: what each step holds and computes, and when.

The executor follows a schedule and the planner measures it, so that what is predicted is what happens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from beam_volumes.base.geometry import Range, Ranges
from beam_volumes.sweep.program import Edge, Program, reversed_view


class Overlap(NamedTuple):
    """What rings have room for beside what a window needs."""

    #: What each source has to give next: it is read while a window is computed. Without, as much of
    #: it is as slices no longer needed leave room for.
    ahead: bool = True
    behind: bool = True  #: Another unit of each output, to be computed while one is written.


#: From the most memory to the least.
OVERLAPS = (Overlap(), Overlap(ahead=False), Overlap(ahead=False, behind=False))


@dataclass(frozen=True)
class Window:
    """One step of the sweep."""

    domain: Range  #: Slices of the domain that this window finishes.
    ends: list[Range]  #: What it finishes of each of the program's ends.
    tops: list[int]  #: Per step, the slice up to which it is filled when the window is done.
    #: Per step, the first slice that must still be held while the window is computed.
    keeps: list[int]


@dataclass(frozen=True)
class Schedule:
    """All windows of a slab, and the ring buffers they need."""

    slab: Range  #: Slices of the domain.
    regions: list[Range]  #: Per step, the slices it yields in this slab.
    windows: list[Window]
    capacity: list[int]  #: Per step, slices its ring holds.
    #: Per step, a slice that lies in slot 0: slice z is in slot ``(z - base) % capacity``.
    base: list[int]


def layer_of(program: Program, step: int) -> tuple[int, int]:
    """Depth and origin of the units along z in which a step is read or written; 1 if it is neither."""
    source = program.steps[step].source
    if source is not None:
        return source.chunk[0], source.chunk_origin[0]
    outputs = program.sinks_of(step)
    return (outputs[0].sink.unit[0], outputs[0].edge.offset[0]) if outputs else (1, 0)


def schedule(program: Program, slab: Ranges, window: int, overlap: Overlap) -> Schedule:
    """Move a window of ``window`` slices over a slab, with room for an overlap.

    Of the slab, the ranges along y and x count only where z is one of the program's coupled axes.
    """
    z, regions = slab[0], program.regions(0, slab)
    beside: list[tuple[Range, Range]] = [((0, 1), (0, 1))] * len(regions)
    if 0 in program.coupled:
        beside = list(zip(program.regions(1, slab), program.regions(2, slab), strict=True))
    shares = [end.share(0, z) for end in program.ends]
    layers = [layer_of(program, i) for i in range(len(program.steps))]
    windows: list[Window] = []
    tops = [lo for lo, _ in regions]
    done = z[0]
    # Units that begin in the slab may end beyond it.
    over = [e.lattice.until(0, b) for e, (a, b) in zip(program.ends, shares, strict=True) if a < b]
    stop = max([z[1], *over])
    while done < stop:
        upto = min(stop, done + window)
        if done < z[1]:
            upto = min(z[1], upto)
        ends = [e.during((done, upto), s) for e, s in zip(program.ends, shares, strict=True)]
        keeps = _keeps(program, done, ends, shares, tops, regions, beside, layers)
        tops = _tops(program, z, upto, ends, shares, regions, beside, layers, tops)
        windows.append(Window((done, upto), ends, tops, keeps))
        done = upto
    rings = [
        _ring(program, i, regions[i], windows, layers[i], overlap) for i in range(len(regions))
    ]
    return Schedule(z, regions, windows, [c for c, _ in rings], [b for _, b in rings])


def _tops(
    program: Program,
    z: Range,
    upto: int,
    ends: list[Range],
    shares: list[Range],
    regions: list[Range],
    beside: list[tuple[Range, Range]],
    layers: list[tuple[int, int]],
    before: list[int],
) -> list[int]:
    tops = list(before)

    def raise_(edge_step: int, top: int) -> None:
        tops[edge_step] = max(tops[edge_step], top)

    def through(upper: bool) -> int:
        """Up to where surveys and completions are: the plane beyond the slab is with its last window."""
        return upto if upto < z[1] else program.reach(upper, 0, z)[1]

    for end, (_, stop), (start, _) in zip(program.ends, ends, shares, strict=True):
        for edge in end.edges if start < stop else ():
            raise_(edge.step, edge.along(0, (start, stop), program.steps[edge.step].shape[0])[1])
    for seen in program.surveys:
        for edge in seen.edges:
            raise_(edge.step, through(seen.survey.upper) + edge.offset[0])
    last = len(program.steps) - 1
    for k, step in enumerate(reversed_view(list(program.steps))):
        i = last - k
        if step.completion is not None:
            tops[i] = through(step.completion.upper)
        if step.source is not None and tops[i] > regions[i][0]:
            depth, origin = layers[i]
            whole = origin + -(-(tops[i] - origin) // depth) * depth
            tops[i] = min(regions[i][1], whole)
        elif step.stage is not None and tops[i] > regions[i][0]:
            depth = step.stage.grain[0]
            tops[i] = min(regions[i][1], -(-tops[i] // depth) * depth)
        for edge in step.edges:
            if tops[i] > regions[i][0]:
                size = program.steps[edge.step].shape[0]
                box = ((regions[i][0], tops[i]), *beside[i])
                raise_(edge.step, edge.needs(0, box, size)[1])
    for stack in program.stacks:
        maximum = max(tops[i] for i in stack)
        for i in stack:
            tops[i] = maximum
    return tops


def _keeps(
    program: Program,
    done: int,
    ends: list[Range],
    shares: list[Range],
    tops: list[int],
    regions: list[Range],
    beside: list[tuple[Range, Range]],
    layers: list[tuple[int, int]],
) -> list[int]:
    keeps = [hi for _, hi in regions]

    def lower(step: int, keep: int) -> None:
        keeps[step] = min(keeps[step], keep)

    for end, (start, _), (_, stop) in zip(program.ends, ends, shares, strict=True):
        for edge in end.edges if start < stop else ():
            lower(edge.step, edge.along(0, (start, stop), program.steps[edge.step].shape[0])[0])
    for seen in program.surveys:
        for edge in seen.edges:
            lower(edge.step, done + edge.offset[0])
    for output, (start, _), share in zip(program.outputs, ends, shares, strict=False):
        # What of a unit is done stays until all of it is.
        depth, origin = layers[output.edge.step]
        if share[0] < share[1]:
            begun = start // depth * depth if start < share[1] else share[1]
            lower(output.edge.step, origin + max(begun, share[0]))
    for i, step in enumerate(program.steps):
        if tops[i] < regions[i][1]:
            for edge in step.edges:
                size = program.steps[edge.step].shape[0]
                box = ((tops[i], regions[i][1]), *beside[i])
                lower(edge.step, edge.needs(0, box, size)[0])
    for stack in program.stacks:
        minimum = min(keeps[i] for i in stack)
        for i in stack:
            keeps[i] = minimum
    return keeps


def _ring(
    program: Program,
    step: int,
    region: Range,
    windows: list[Window],
    layer: tuple[int, int],
    overlap: Overlap,
) -> tuple[int, int]:
    """Capacity and base of a step's ring: layers are whole and never wrap around."""
    depth, origin = layer

    def floor(at: int) -> int:
        return origin + (at - origin) // depth * depth

    tops = [w.tops[step] for w in windows]
    source = program.steps[step].source
    if overlap.ahead and source is not None and not source.held:
        tops = _next(tops)
    held = max((t - floor(w.keeps[step]) for t, w in zip(tops, windows, strict=True)), default=0)
    capacity = -(-held // depth) * depth
    if overlap.behind and program.sinks_of(step):
        capacity += depth
    whole = region[1] - region[0]
    if capacity >= whole:
        return whole, region[0]
    return capacity, floor(region[0])


def gathered(program: Program, plan: Schedule) -> list[int]:
    """Per step, the most slices at a time that surveys and completions cannot be given as they lie."""
    copies = [0] * len(program.steps)

    def give(edge: Edge, z: Range) -> None:
        i, n = edge.step, z[1] - z[0]
        slot = (z[0] + edge.offset[0] - plan.base[i]) % plan.capacity[i]
        if slot + n > plan.capacity[i]:
            copies[i] = max(copies[i], n)

    tops = [lo for lo, _ in plan.regions]
    for window in plan.windows:
        for seen in program.surveys:
            for edge in seen.edges if window.domain[0] < plan.slab[1] else ():
                give(edge, window.domain)
        for i, step in enumerate(program.steps):
            if step.completion is not None:
                for edge in step.edges:
                    give(edge, (tops[i], window.tops[i]))
        tops = window.tops
    return copies


def _next(tops: list[int]) -> list[int]:
    """For each window, up to where the next one that needs more than it will need it."""
    found = list(tops)
    for k in range(len(tops) - 2, -1, -1):
        found[k] = tops[k + 1] if tops[k + 1] > tops[k] else found[k + 1]
    return found
