"""Which runs need no pipeline, where nobody says how they are to be run."""

from __future__ import annotations

from beam_volumes.plan.plan import Plan
from beam_volumes.text import format_bytes

#: Bytes that a run may read and write before a pipeline is worth the seconds that it takes to start.
SMALL = 256 << 20


def why_in_process(plan: Plan) -> str | None:
    """Say why a plan is carried out in the process that made it if nobody names a runner; None if it is not.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> why_in_process(bv.plan(bv.mean(v)))
    'it reads and writes 32.0 KiB, and up to 256.0 MiB need none'
    """
    for p in plan.swept:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                return f"{step.source.name} is in the memory of this process"
    of_others = (sink for sink in plan.sinks if sink not in plan.intermediates)
    for sink in of_others:
        if not sink.portable:
            return f"{sink.name} is in the memory of this process"
    moved = plan.bytes_read + plan.bytes_written
    if moved <= SMALL:
        return (
            f"it reads and writes {format_bytes(moved)}, and up to {format_bytes(SMALL)} need none"
        )
    return None
