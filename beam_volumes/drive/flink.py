"""What Flink's optimizer can take of a run: in one job, or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor

#: A job of thirteen million ways starts within seconds; one of 10^11 had not after nine minutes.
_MAX_WAYS = 10**8


def jobs(passes: int, pipeline_of: Callable[[range], beam.Pipeline]) -> Iterator[beam.Pipeline]:
    """The pipelines of a run, to be run one after the other: as few as Flink's optimizer takes.

    It follows every way through the steps of a job, and the steps of a merge double the number again and
    again: some merges that build on each other have more than it could follow in years.

    Parameters
    ----------
    passes : int
    pipeline_of : callable
        Makes the pipeline of some passes; those before have ended.

    Raises
    ------
    ValueError
        A single pass has too many.
    """
    start = 0
    while True:
        stop = passes
        while (count := ways(pipeline := pipeline_of(range(start, stop)))) > _MAX_WAYS:
            stop -= 1
            if stop <= start:
                raise ValueError(
                    f"FlinkRunner would not start the job of pass {start + 1}: its optimizer follows each "
                    f"of {count:.0e} ways through its steps, and more than {_MAX_WAYS:.0e} are refused. "
                    "Compute the tables that others rest on by themselves, with a path, and the rest from "
                    "what they hold; or take runner='DirectRunner'"
                )
        yield pipeline
        if stop == passes:
            return
        start = stop


def ways(pipeline: beam.Pipeline) -> int:
    """How many ways lead through a pipeline, from where it begins to where it ends."""
    leading: dict[Any, int] = {}
    open_ends: dict[Any, int] = {}

    class Count(PipelineVisitor):
        def visit_transform(self, step: Any) -> None:
            taken = [*step.inputs, *(side.pvalue for side in step.side_inputs)]
            count = sum(leading.get(some, 1) for some in taken) or 1
            for some in taken:
                open_ends.pop(some, None)
            for made in step.outputs.values():
                leading[made] = open_ends[made] = count

    pipeline.visit(Count())
    return sum(open_ends.values())
