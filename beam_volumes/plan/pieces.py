"""Stages that compute in pieces of a grid of their own, such as patches: how many a pass computes."""

from __future__ import annotations

import math

from beam_volumes.plan.planned_pass import Pass
from beam_volumes.sweep.stage import Regrid


def pieces(p: Pass, index: int) -> int:
    """How many pieces all slabs of a pass compute for one of its steps; 0 if it has none."""
    stage = p.program.steps[index].stage
    if stage is None or not stage.piece or not len(p.grid):
        return 0
    total = 1
    for axis, (count, step, n) in enumerate(
        zip(p.grid.counts, p.grid.step, p.grid.shape, strict=True)
    ):
        spans = ((k * step, min(n, (k + 1) * step)) for k in range(count))
        total *= sum(stage.pieces(axis, p.program.regions(axis, span)[index]) for span in spans)
    return total


def told(p: Pass, index: int, timed: bool, threads: int) -> str:
    """What a plan says of the pieces of a step: how many, what share of them is kept; if asked, the time."""
    stage, count = p.program.steps[index].stage, pieces(p, index)
    if stage is None or not count:
        return ""
    regions = [p.program.regions(a, (0, n))[index] for a, n in enumerate(p.grid.shape)]
    kept: float = math.prod(b - a for a, b in regions)
    if isinstance(stage, Regrid):
        kept *= math.prod(stage.of) / math.prod(stage.grid)
    share = kept / (count * stage.piece_voxels)
    text = f"{count:,} {stage.piece}, of what they are given {100 * share:.0f} % is kept"
    if timed and (seconds := stage.seconds(threads)) is not None:
        text += f"; about {count * seconds:,.1f} s, by one that took {seconds:.3g} s"
    return text
