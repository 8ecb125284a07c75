"""The expected numbers of components and rows of a plan, counted in a part of its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from beam_volumes.across.components import region_of
from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.base.space import Space
from beam_volumes.base.text import format_bytes
from beam_volumes.drive.compute import run
from beam_volumes.graph.nodes import Barrier, Node, Value
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table, TableTarget
from beam_volumes.graph.traversal import Item, everything, of_part
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.profile.trial import near_cube
from beam_volumes.sweep.survey import Survey

#: Voxels of the part.
_VOXELS = 1 << 22
_HERE = RunOptions(runner=None, progress=False)
#: Bytes that surveys of the part may keep.
_LIMIT = 1 << 40


def census(plan: Plan) -> dict[str, str]:
    """Describe the expected load of each survey of a plan, by barrier, if it depends on the voxels.

    It reads about 160 voxels a side in the middle of the inputs, and scales the counts by voxels.
    """
    found: dict[str, str] = {}
    barriers = {i.token: i for i in everything(_roots(plan)) if isinstance(i, Barrier)}
    for p in plan.passes:
        for surveyed in p.program.surveys:
            barrier = barriers.get(surveyed.token)
            if barrier is None or type(barrier.survey).expected is Survey.expected:
                continue
            try:
                found[barrier.token] = _described(barrier, p)
            except ValueError as error:
                found[barrier.token] = f"no census: {error}"
    return found


def _roots(plan: Plan) -> Iterator[Item]:
    for target in plan.targets:
        if isinstance(target, Scalar):
            yield target.value
        elif isinstance(target, Table | TableTarget):
            yield (target.table if isinstance(target, TableTarget) else target).barrier
        else:
            yield from (target.volume if isinstance(target, Target) else target).nodes


def _described(barrier: Barrier, p: Pass) -> str:
    box = _box(barrier.shape)
    expected = barrier.survey.expected(p.grid, *_counted(barrier, box))
    few = float(f"{expected.count:.2g}")
    text = (
        f"about {few:,.0f} {expected.what}, {format_bytes(expected.step_bytes)} in the largest step of "
        f"the merge, by the {' x '.join(map(str, box.shape))} voxels in the middle"
    )
    if expected.step_bytes > p.merge_limit_bytes:
        text += (
            f": more than {format_bytes(p.merge_limit_bytes)}, so the run is likely to be refused after "
            f"pass {p.index + 1}"
        )
    return text


def _box(shape: Triple) -> Box:
    """Return a box of about `_VOXELS` in the middle."""
    sides = near_cube(shape, _VOXELS)
    start = tuple((n - side) // 2 for n, side in zip(shape, sides, strict=True))
    return Box.of_shape(sides).translate(start)  # type: ignore[arg-type]


def _counted(barrier: Barrier, box: Box) -> tuple[Grid, Any, list[Any]]:
    """Survey a box as one slab, and as slabs of half its sides; return their grid and summaries.

    Raises ValueError if the box cannot be computed alone.
    """
    inputs: tuple[Node | Value, ...] = (*barrier.operands, *barrier.parameters)
    found = of_part(inputs, box)
    if found is None:
        raise ValueError("its inputs have different shapes, or are cropped or turned after a step")
    wanted = [Volume(i, Space()) if isinstance(i, Node) else Scalar(i) for i in found]
    results = run(wanted, _HERE).results
    many = len(barrier.operands)
    arrays = [np.asarray(array) for array in results[:many]]
    z, y, x = (-(-n // 2) for n in box.shape)
    halves = Grid(box.shape, (z, y, x))
    whole, *parts = (
        _summary(barrier.survey, arrays, results[many:], grid, index)
        for grid in (Grid(box.shape, box.shape), halves)
        for index in range(len(grid))
    )
    return halves, whole, parts


def _summary(
    survey: Survey, arrays: Sequence[np.ndarray], values: tuple[Any, ...], grid: Grid, index: int
) -> Any:
    core, region = region_of(grid, grid.cell(index))
    depth = core.shape[0]
    fed = [a[(region if survey.upper else core).slices] for a in arrays]
    surveyor = survey.begin(grid, index, values, _LIMIT)
    surveyor.feed(tuple(a[:depth] for a in fed), (0, depth))
    if fed[0].shape[0] > depth:  # the plane above is a window of its own
        surveyor.feed(tuple(a[depth:] for a in fed), (depth, depth + 1))
    return surveyor.finish()
