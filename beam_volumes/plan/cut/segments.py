"""Divide the steps of a program between the host and a device.

Connected steps with device code form a segment. Their rings are on the device. New slices are copied to
the device where a segment begins, and back where other steps or results use them. A source that only a
segment uses is read straight to the device, if its chunks are plain voxels on a disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from beam_volumes.sweep.device import DEVICE, HOST, ToDevice, ToHost, is_transfer
from beam_volumes.sweep.direct import reason_against, way
from beam_volumes.sweep.program import Edge, FedEdges, Program, Step, Surveyed

#: Rough nanoseconds of the host to copy a byte over the bus, with the copy to or from pinned memory.
_BUS = 0.25
#: How much faster than one core of the host a device computes; rough, and not yet measured.
_SPEEDUP = 50.0


def has_device_code(program: Program, step: Step) -> bool:
    if step.completion is not None:
        return step.completion.has_device_code(len(step.edges))
    dtypes = [program.steps[e.step].dtype for e in step.edges]
    return step.stage is not None and step.stage.has_device_code(dtypes, step.examples)


def on_device(program: Program, device: str, threads: int) -> Program:
    """A program with segments on a device.

    ``device``: "cuda" moves each step with device code. "auto" moves segments that compute longer on
    ``threads`` cores than the copies take. "cpu" moves none.
    """
    if device == "cpu":
        return program
    chosen = {
        i
        for segment in _segments(program)
        if device == "cuda" or _is_worthwhile(program, segment, threads)
        for i in segment
    }
    direct = {i for i in _entering(program, chosen) if not reason_for_host(program, i, chosen)}
    return _Placing(program, chosen | direct).placed() if chosen else program


def _entering(program: Program, chosen: set[int]) -> set[int]:
    """The sources that chosen steps use."""
    used = {e.step for i in chosen for e in program.steps[i].edges}
    return {i for i in used if program.steps[i].source is not None}


def reason_for_host(program: Program, i: int, chosen: set[int]) -> str:
    """Why a source of chosen steps is read to the host first; empty if it can be read to the device."""
    source = program.steps[i].source
    assert source is not None
    ends: list[Any] = [*program.ends, *program.surveys]
    used = {e.step for end in ends for e in end.edges}
    if i in used or any(user not in chosen for user, _ in program.users[i]):
        return "the host uses it, too"
    if any(i in stack for stack in program.stacks):
        return "its chunks contain several channels"
    return reason_against(source)


def describe_reads(program: Program) -> Iterator[str]:
    """Describe how the device gets the voxels of each source, for a program with segments."""
    there = {i for i, s in enumerate(program.steps) if s.place == DEVICE and s.source is None}
    for i in sorted(_entering(program, there)):
        source = program.steps[i].source
        assert source is not None
        if program.steps[i].place == DEVICE:
            yield f"{source.name} is read straight to the device, {way()}"
        elif not source.in_memory:
            reason = (
                reason_for_host(program, i, there) or "device_memory= is too small for its chunks"
            )
            yield f"{source.name} is read through the host: {reason}"


def reads_directly(program: Program) -> bool:
    """Whether sources are read straight to the device."""
    return any(s.place == DEVICE and s.source is not None for s in program.steps)


def through_host(program: Program) -> Program:
    """The same program with all sources read to the host first."""
    chosen = {
        i
        for i, step in enumerate(program.steps)
        if step.place == DEVICE and step.source is None and not is_transfer(step)
    }
    return _Placing(program, chosen).placed()


def on_host(program: Program) -> Program:
    """The same program with all stages on the host: the inverse of `on_device`."""
    return _Placing(program, set()).placed()


def _segments(program: Program) -> list[set[int]]:
    """The connected groups of steps with device code."""
    found: list[set[int]] = []
    for i, step in enumerate(program.steps):
        if has_device_code(program, step):
            linked = {i, *(e.step for e in step.edges)}
            touched = [s for s in found if s & linked]
            found = [s for s in found if not s & linked] + [{i}.union(*touched)]
    return found


def _is_worthwhile(program: Program, segment: set[int], threads: int) -> bool:
    steps = program.steps
    stages = (steps[i].stage or steps[i].completion for i in segment)
    computed = sum(stage.cost for stage in stages if stage is not None)
    folds = [f for f in program.folds if f.reduction.has_device_code]
    computed += sum(f.reduction.cost for f in folds for fed in f.fed if fed.voxels.step in segment)
    entering = {e.step for i in segment for e in steps[i].edges} - segment
    entering |= {
        fed.mask.step for f in folds for fed in f.fed if fed.voxels.step in segment and fed.mask
    } - segment
    surveys = [s for s in program.surveys if s.survey.has_device_code(len(s.edges))]
    computed += sum(s.survey.cost for s in surveys if s.edges[0].step in segment)
    others = [s for s in program.surveys if s not in surveys]
    ends: list[Any] = [*(e for e in program.ends if e not in folds), *others]
    results = {e.step for end in ends for e in end.edges}
    leaving = {
        i for i in segment if i in results or {user for user, _ in program.users[i]} - segment
    }
    copied = sum(steps[i].dtype.itemsize for i in (*entering, *leaving))
    return computed / _SPEEDUP + _BUS * copied < computed / threads


class _Placing:
    """Copies the steps of a program, with transfers where an edge leads to another place."""

    def __init__(self, program: Program, chosen: set[int]):
        self.program = program
        self.places = [DEVICE if i in chosen else HOST for i, _ in enumerate(program.steps)]
        self.steps: list[Step] = []
        #: By index in the given program and place: the index of the new step.
        self.made: dict[tuple[int, str], int] = {}

    def placed(self) -> Program:
        for i, step in enumerate(self.program.steps):
            place = self.places[i]
            if is_transfer(step):  # of a program that was placed before
                continue
            edges = tuple(self._edge(e, place) for e in step.edges)
            self.made[i, place] = self._add(replace(step, edges=edges, place=place))
        outputs = tuple(replace(o, edge=self._edge(o.edge)) for o in self.program.outputs)
        folds = tuple(
            replace(f, fed=tuple(self._fed(fed, f.reduction.has_device_code) for fed in f.fed))
            for f in self.program.folds
        )
        surveys = tuple(
            replace(s, edges=tuple(self._edge(e, self._place_of(s)) for e in s.edges))
            for s in self.program.surveys
        )
        return replace(
            self.program, steps=tuple(self.steps), outputs=outputs, folds=folds, surveys=surveys
        )

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def _edge(self, edge: Edge, place: str = HOST) -> Edge:
        at = edge.step
        while is_transfer(step := self.program.steps[at]):
            at = step.edges[0].step
        if (at, place) not in self.made:
            kind = ToDevice if place == DEVICE else ToHost
            stage = kind(step.name, step.dtype)
            origin = Edge(self.made[at, self.places[at]])
            self.made[at, place] = self._add(
                Step(stage.name, step.shape, step.dtype, None, stage, (origin,), place=place)
            )
        return replace(edge, step=self.made[at, place])

    def _place_of(self, surveyed: Surveyed) -> str:
        """The place of a survey's inputs: the device if they are there, and it has device code."""
        is_offered = surveyed.survey.has_device_code(len(surveyed.edges))
        return self.places[surveyed.edges[0].step] if is_offered else HOST

    def _fed(self, fed: FedEdges, has_device_code: bool) -> FedEdges:
        """The input of a reduction: on the device if its voxels are there, and it has device code."""
        place = self.places[fed.voxels.step] if has_device_code else HOST
        return FedEdges(
            self._edge(fed.voxels, place),
            None if fed.mask is None else self._edge(fed.mask, place),
            tuple(self._edge(e, place) for e in fed.others),
        )
