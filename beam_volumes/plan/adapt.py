"""A plan that was made, for another machine, or with the slabs of an earlier one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from beam_volumes.plan import machine
from beam_volumes.plan.fitting import costed, refuse
from beam_volumes.plan.memory import BASE_KERNEL, left_for_slab
from beam_volumes.plan.partitioning import fit
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions


def with_resources(plan: Plan, options: RunOptions) -> Plan:
    """The plan for another machine or runner; its slabs stay until it is `repartitioned`.

    Memory and workers that the options do not say are those of the plan.
    """
    options = options.or_else(memory=plan.memory, workers=plan.workers)
    workers = options.slabs_in_flight
    processes = min(options.processes, workers)
    return replace(
        plan,
        memory=options.memory_bytes,
        workers=workers,
        processes=processes,
        threads=max(1, machine.cores() // processes),
        base=options.base + BASE_KERNEL * plan.kernels,
    )


def repartitioned(plan: Plan, slabs: Sequence[Sequence[int]], windows: Sequence[int]) -> Plan:
    """The plan with the partition of an earlier one, to resume its run.

    Raises
    ------
    ValueError
        If that was cut into other passes, or needs more memory than this plan may use.
    """
    if len(slabs) != len(plan.passes):
        raise ValueError(
            f"the run was planned in {len(slabs)} passes and would now be in {len(plan.passes)}; "
            "resume it with the memory= and slab= it was begun with"
        )
    parts = []
    budget = left_for_slab(plan.memory, plan.base, plan.crew)
    for p, slab, window in zip(plan.passes, slabs, windows, strict=True):
        z, y, x = slab
        parts += fit([p.program], (z, y, x), window, plan.crew, budget)
    largest = max(parts, key=lambda part: part.memory)
    if largest.memory > budget:
        refuse(largest, plan.memory, plan.base, plan.crew)
    found = zip(plan.passes, parts, strict=True)
    passes = [costed(p.index, p.program, part, p.values, budget) for p, part in found]
    return replace(plan, passes=tuple(passes))
