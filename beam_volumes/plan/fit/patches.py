"""Stages that compute in pieces of a grid of their own, such as patches: how many a pass computes."""

from __future__ import annotations

import math

from beam_volumes.base.geometry import Box, Grid
from beam_volumes.plan.cost.traffic import of_all_slabs
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.stage import Regrid


def pieces(p: Pass, index: int) -> int:
    """How many pieces all slabs of a pass compute for one of its steps; 0 if it has none."""
    return in_pieces(p.program, p.grid, index)


def in_pieces(program: Program, grid: Grid, index: int) -> int:
    """The same of a program cut into slabs."""
    stage = program.steps[index].stage
    if stage is None or not stage.piece or not len(grid):
        return 0
    (count,) = of_all_slabs(
        program, grid, lambda axis, regions: [stage.pieces(axis, regions[index])]
    )
    return count


def describe_patches(p: Pass, index: int, timed: bool, threads: int) -> str:
    """What a plan says of the pieces of a step: how many, what share of them is kept; if asked, the time."""
    stage, count = p.program.steps[index].stage, pieces(p, index)
    if stage is None or not count:
        return ""
    whole = Box.of_shape(p.grid.shape).ranges
    regions = [p.program.regions(a, whole)[index] for a in range(3)]
    kept: float = math.prod(b - a for a, b in regions)
    if isinstance(stage, Regrid):
        kept *= math.prod(stage.of) / math.prod(stage.grid)
    share = kept / (count * stage.piece_voxels)
    text = f"{count:,} {stage.piece}, of what they are given {100 * share:.0f} % is kept"
    if timed and (seconds := stage.seconds(threads)) is not None:
        text += f"; about {count * seconds:,.1f} s, by one that took {seconds:.3g} s"
    return text
