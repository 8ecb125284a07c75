"""Which runs need no pipeline, where nobody says how they are to be run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import SourceNode, below
from beam_volumes.graph.target import Target
from beam_volumes.plan.plan import Plan

#: Bytes that a run may read and write before a pipeline is worth the seconds that it takes to start.
SMALL = 256 << 20


def why_in_process(plan: Plan) -> str | None:
    """Say why a plan is carried out in the process that made it if nobody names a runner; None if it is not.

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


def is_large(targets: Sequence[Any]) -> bool:
    """Whether a pipeline is worth its while whatever the plan, for what is written alone; needs none made.

    >>> is_large([(bv.open(np.zeros((8, 64, 64), "u1")) + 1).to("more.zarr")])
    False
    """
    written, stack = 0, list[Any]()
    for t in targets:
        if not isinstance(t, Target) or not t.sink.portable:
            return False
        for volume, sink in t.written:
            written += sum(math.prod(n.shape) for n in volume.nodes) * sink.dtype.itemsize
            stack += volume.nodes
    if written <= SMALL:
        return False
    seen: set[str] = set()
    while stack:
        item = stack.pop()
        if item.token in seen:
            continue
        seen.add(item.token)
        if isinstance(item, SourceNode) and not item.source.portable:
            return False
        stack += below(item)
    return True
