"""Choose between alternatives with the same voxels: the cheapest that fits the memory.

A stage lists its alternatives with their expected cost. The chosen one is tried first, and then
reports its actual cost. Sources are read through the host if the device has no room for their
chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from beam_volumes.plan.cut.segments import reads_directly, through_host
from beam_volumes.plan.fit.partitioning import Partitioning, TooLarge
from beam_volumes.plan.fit.planned_pass import in_pieces
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.stage import Regrid, Stage

#: Returns partitions of programs, or raises `TooLarge`.
Partition = Callable[[Sequence[Program]], list[Partitioning]]

#: An alternative is tried if it computes less than this share.
_WORTH_TRYING = 0.9


def suited(programs: list[Program], partition: Partition) -> list[Program]:
    """Replace stages by their cheapest alternatives that fit; by the leanest ones if none fit.

    Likewise reads straight to a device.
    """
    stages = {
        id(s.stage): s.stage for p in programs for s in p.steps if s.stage and s.stage.alternatives
    }
    for stage in stages.values():
        programs = _with_best(programs, stage, partition)
    if any(map(reads_directly, programs)):
        offered = programs, list(map(through_host, programs))
        programs = min(offered, key=lambda some: _excess(some, partition))
    return programs


def _excess(programs: list[Program], partition: Partition) -> int:
    """The smallest memory of host and device if it is too large; 0 if it fits."""
    try:
        partition(programs)
    except TooLarge as error:
        return max(part.memory + part.device_memory for part in error.smallest)
    return 0


def _with_best(programs: list[Program], stage: Stage, partition: Partition) -> list[Program]:
    found: dict[int, list[Program]] = {}
    costs: dict[int, float] = {}
    offered = [stage, *stage.alternatives]
    for k, other in enumerate(offered):
        found[k] = with_stage(programs, stage, other)
        costs[k] = _cost(found[k], other, partition)
    # A stage that is known to work is only replaced by a much cheaper one.
    costs = {k: c if k == 0 or c < _WORTH_TRYING * costs[0] else math.inf for k, c in costs.items()}
    while (best := min(costs, key=lambda k: costs[k])) and costs[best] < math.inf:
        sure = offered[best].confirmed()
        del costs[best]
        if sure is not None:
            own = with_stage(programs, stage, sure)
            if _cost(own, sure, partition) < math.inf:
                return own
    if costs[0] < math.inf:
        return programs
    # None fits: the leanest one is tried first.
    for other in sorted(stage.alternatives, key=lambda s: s.working_bytes((1, 1, 1), 1)):
        sure = other.confirmed()
        if sure is not None:
            return with_stage(programs, stage, sure)
    return programs


def _cost(programs: list[Program], stage: Stage, partition: Partition) -> float:
    """Voxels of all patches of a stage in all slabs; infinite if it does not fit."""
    try:
        parts = partition(programs)
    except TooLarge:
        return math.inf
    total = 0
    for program, part in zip(programs, parts, strict=True):
        for k, step in enumerate(program.steps):
            if step.stage is stage:
                total += in_pieces(program, part.grid, k) * stage.piece_voxels
    return total


def with_stage(programs: Sequence[Program], stage: Stage, other: Stage) -> list[Program]:
    """Programs in which a stage is replaced by another."""
    if other is stage:
        return list(programs)

    def changed(program: Program) -> Program:
        steps = []
        for step in program.steps:
            if step.stage is stage:
                edges = step.edges
                if isinstance(other, Regrid):
                    edges = tuple(replace(e, regrid=other) if e.regrid else e for e in edges)
                step = replace(step, stage=other, edges=edges)
            steps.append(step)
        return replace(program, steps=tuple(steps))

    return [changed(p) for p in programs]
