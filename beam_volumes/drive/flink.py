"""Jobs on Flink: as many as its optimizer needs for a run, and ended when they are cancelled."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.runner import PipelineResult

#: A job of thirteen million ways starts within seconds; one of 10^11 had not after nine minutes.
_MAX_WAYS = 10**8
#: States in which a job has given back its slots.
_ENDED = {"FINISHED", "FAILED", "CANCELED", "SUSPENDED"}
#: Seconds that Flink may take to end a job.
_PATIENCE = 60.0


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


def rest_address(options: PipelineOptions) -> str | None:
    """The address of a cluster's REST server, if options name one.

    Examples
    --------
    >>> rest_address(PipelineOptions(["--flink_master=localhost:8081"]))
    'http://localhost:8081'
    >>> rest_address(PipelineOptions(["--flink_master=[local]"]))
    """
    master = options.view_as(FlinkRunnerOptions).flink_master.strip().rstrip("/")
    if master.startswith("["):
        return None
    return master if "://" in master else f"http://{master}"


@dataclass(frozen=True)
class FlinkJob:
    """A job on a cluster, by its name: Beam's job server cancels its own part of it, and Flink goes on."""

    result: PipelineResult
    rest: str
    name: str

    def cancel(self) -> None:
        """Cancel the job, and wait until Flink has ended it.

        Raises
        ------
        RuntimeError
            If Flink has not, or does not answer. The message has the request that ends the job.
        """
        with suppress(Exception):  # what counts is whether Flink has ended it
            self.result.cancel()
        deadline = time.monotonic() + _PATIENCE
        asked: set[str] = set()
        try:
            while jobs := self.running():
                for job in jobs - asked:
                    self._request(f"jobs/{job}?mode=cancel", "PATCH")
                asked |= jobs
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not ended after {_PATIENCE:.0f} s")
                time.sleep(0.2)
        except (OSError, ValueError) as error:
            job = next(iter(asked), "ID")
            raise RuntimeError(
                f"Flink may still run the job {self.name}: {error}; end it with: curl -X PATCH "
                f"'{self.rest}/jobs/{job}?mode=cancel'"
            ) from error

    def running(self) -> set[str]:
        """The ids of the jobs of this name that have not ended."""
        jobs = json.loads(self._request("jobs/overview"))["jobs"]
        return {j["jid"] for j in jobs if j["name"] == self.name and j["state"] not in _ENDED}

    def _request(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.rest}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())
