"""What Flink's optimizer can take of a pipeline."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
from apache_beam.pipeline import PipelineVisitor

#: A job of three million ways started within seconds; one of 10^11 had not after nine minutes.
_MOST_WAYS = 10**9


def check_flink(pipeline: beam.Pipeline) -> None:
    """Refuse a pipeline that Flink's optimizer would not come to the end of.

    It follows every way through the steps of a job, of which those of a merge double the number again and
    again: some merges that build on each other have more than it could follow in years.

    Raises
    ------
    ValueError
        There are too many.
    """
    count = ways(pipeline)
    if count > _MOST_WAYS:
        raise ValueError(
            f"FlinkRunner would not start this job: its optimizer follows each of {count:.0e} ways through "
            f"its steps, and more than {_MOST_WAYS:.0e} are refused. Compute it in parts: first what is "
            "merged first, with a path (fragments.to(...)), then the rest from what bv.open() finds; or take "
            "runner='DirectRunner'"
        )


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
