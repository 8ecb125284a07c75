"""What passes cost in processor time, by rough figures, and how much of it threads cannot share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from beam_volumes.plan.cut.passes import READ_COST, WRITE_COST
from beam_volumes.plan.fit.planned_pass import Pass


def compute_seconds(passes: Iterable[Pass]) -> float:
    """Nanoseconds of one core for all that passes compute."""
    return sum(
        p.voxels * sum(cost for cost, _ in _parts(p))
        if p.point is None
        else len(p.grid) * compute_seconds(p.point.passes)
        for p in passes
    )


def transfer_seconds(passes: Iterable[Pass]) -> float:
    """Nanoseconds of one core for all that passes read and write."""
    return sum(p.bytes_read * READ_COST + p.bytes_written * WRITE_COST for p in passes)


def serial_share(passes: Iterable[Pass]) -> float:
    """The share of computing that one thread of a slab does while its others wait."""
    passes = list(passes)
    total = compute_seconds(passes)
    serial = sum(p.voxels * cost * share for p in passes for cost, share in _parts(p))
    return serial / total if total else 0.0


def _parts(p: Pass) -> Iterator[tuple[float, float]]:
    """Nanoseconds a voxel of everything that a pass computes, and what share of each is serial."""
    for step in p.program.steps:
        if step.stage is not None:
            yield step.stage.cost, 0.0
        if step.completion is not None:
            yield step.completion.cost, step.completion.serial
    for seen in p.program.surveys:
        yield seen.survey.cost, seen.survey.serial
    for fold in p.program.folds:
        yield fold.reduction.cost, 0.0
