"""How long passes take: by rough costs, or by the measured speeds of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from beam_volumes.plan.cost.concurrency import Concurrency
from beam_volumes.plan.cost.speeds import Speeds, load
from beam_volumes.plan.cost.traffic import units_written
from beam_volumes.plan.fit.planned_pass import (
    Pass,
    compute_seconds,
    serial_share,
    swept,
    transfer_seconds,
)
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.sources.source import ForwardingReader, Source
from beam_volumes.sweep.stage import Stage


def core_seconds(p: Pass) -> float:
    """Seconds of one core to read, compute and write a pass."""
    speeds = load()
    if speeds is None:
        return (compute_seconds([p]) + transfer_seconds([p])) / 1e9
    return measured_seconds(p, speeds)


def measured_seconds(p: Pass, speeds: Speeds) -> float:
    """The same by measured speeds."""
    if p.point is not None:
        return len(p.grid) * sum(measured_seconds(q, speeds) for q in p.point.passes)
    return (sum(_computing(p, speeds)) + _moving(p, speeds)) / 1e9


def run_seconds(
    passes: Sequence[Pass], concurrency: Concurrency, kernels: int, how: str, speeds: Speeds
) -> float:
    """Seconds by the clock of a run in a fresh process, with compiled kernels.

    ``how``: `speeds.PROCESS` or `speeds.PIPELINE`.
    """
    fixed = speeds.fixed[how]
    total = fixed.run + kernels * fixed.kernel
    for p in passes:
        each = [p] if p.point is None else p.point.passes
        surveys = sum(len(q.program.surveys) for q in each)
        slabs = sum(len(q.grid) for q in each) * (1 if p.point is None else len(p.grid))
        busy = concurrency.busy(serial_share([p]))
        total += (
            fixed.a_pass
            + surveys * fixed.survey
            + -(-slabs // concurrency.workers) * fixed.slab
            + speeds.overhead * measured_seconds(p, speeds) / max(1.0, busy)
        )
    return total


def _computing(p: Pass, speeds: Speeds) -> Iterator[float]:
    """Nanoseconds to compute a pass, including halos."""
    steps = p.program.steps
    for step, voxels in zip(steps, swept(p), strict=True):
        dtypes = [steps[e.step].dtype for e in step.edges]
        for stage in parts_of(step.stage) if step.stage is not None else ():
            yield voxels * stage.cost * speeds.cost(stage, stage.name, dtypes)
        if step.completion is not None:
            own = step.completion
            yield voxels * own.cost * speeds.cost(own, step.name, dtypes)
    for surveyed in p.program.surveys:
        dtypes = [steps[e.step].dtype for e in surveyed.edges]
        factor = speeds.cost(surveyed.survey, surveyed.survey.name, dtypes)
        yield p.voxels * surveyed.survey.cost * factor
    for fold in p.program.folds:
        dtypes = [steps[fold.fed[0].voxels.step].dtype]
        factor = speeds.cost(fold.reduction, fold.reduction.name, dtypes)
        yield p.voxels * fold.reduction.cost * factor


def parts_of(stage: Stage) -> Sequence[Stage]:
    """The stages that a chain of pointwise ones consists of; any other stage is one."""
    return getattr(stage, "parts", (stage,))


def _moving(p: Pass, speeds: Speeds) -> float:
    """Nanoseconds to read and write a pass."""
    total = (p.chunks_read + p.units_written) * speeds.unit
    for together, read in zip(p.program.decoded, p.reads, strict=True):
        source = p.program.steps[together[0]].source
        assert source is not None
        total += read.bytes * speeds.reading(kind_of(source))
    for output, (_, size) in zip(p.program.outputs, units_written(p.program), strict=True):
        total += size * speeds.writing(kind_of_sink(output.sink))
    return total


def kind_of_sink(sink: Sink) -> str:
    """The kind of an output, for the speed of writing: format, codec and dtype; masks are bool."""
    return f"{sink.format} {sink.codec[0]} {'|b1' if sink.mask else sink.dtype.str}"


def kind_of(source: Source) -> str:
    """The kind of a source, for the speed of reading: reader, extension of files, and compression."""
    stored = source.stored
    reader: Any = stored.reader
    while isinstance(reader, ForwardingReader):
        reader = reader.inner
    words = [type(reader).__name__, "encoded" if stored.encoded else "plain"]
    if names := getattr(reader, "names", ()):
        words.append(names[0].rpartition(".")[2].lower())
    if segments := getattr(reader, "segments", None):
        words.append(str(segments.compression))
    return " ".join(words)
