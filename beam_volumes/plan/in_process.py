"""Which runs take place in the current process if no runner is given."""

from __future__ import annotations

from beam_volumes.base.text import format_bytes
from beam_volumes.plan.cost import machine
from beam_volumes.plan.plan import Plan


def why_in_process(plan: Plan) -> str | None:
    """Return why a plan runs in the current process by default, or None if it gets a driver process.

    A driver process costs time, and protects its caller from being killed if memory runs out.

    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> why_in_process(bv.plan(bv.mean(v)))  # doctest: +ELLIPSIS
    'it takes at most ... of the ... of memory that are free'
    """
    for p in plan.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return f"{step.source.name} is in the memory of this process"
    for sink in plan.sinks:
        if sink not in plan.intermediates and not sink.portable:
            return f"{sink.name} is in the memory of this process"
    free = machine.free_memory()
    if plan.predicted_memory <= free // 2:
        return (
            f"it takes at most {format_bytes(plan.predicted_memory)} of the {format_bytes(free)} of "
            "memory that are free"
        )
    return None
