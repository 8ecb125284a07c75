"""Jobs on Flink: a run is split for Flink's optimizer, and jobs are ended when it is cancelled."""

from __future__ import annotations

import functools
import json
import os
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import FlinkRunnerOptions, PipelineOptions
from apache_beam.pipeline import PipelineVisitor
from apache_beam.runners.runner import PipelineResult, PipelineState

from beam_volumes.plan.run_options import runner_name

#: A job with thirteen million paths starts within seconds. A whole run with one of 5 * 10^8 took 90
#: seconds; one with 10^11 had not started after nine minutes.
_MAX_PATHS = 10**8
#: The same for a pass that cannot be divided, which starts within minutes.
_MAX_PATHS_OF_PASS = 4 * 10**9
#: States of a job that has released its slots.
_ENDED = {"FINISHED", "FAILED", "CANCELED", "SUSPENDED"}
#: Seconds to wait until Flink has ended a job.
_MAX_WAIT = 60.0
#: Seconds after which Flink lists a job that an ended job server has sent.
_IN_FLIGHT = 2.0
#: Flink sorts all messages of a task to one key as one record, and fails if this does not fit its memory,
#: unless the job has this setting. In a job with many steps, a sort has a few MB.
SETTINGS = "taskmanager.runtime.large-record-handler: true"
_setting = threading.Lock()


def started(pipeline: beam.Pipeline) -> PipelineResult:
    """Run a pipeline; a job server that Beam starts for it reads `SETTINGS`, or the user's FLINK_CONF_DIR."""
    with _setting, _settings():
        return pipeline.run()


@contextmanager
def _settings() -> Iterator[None]:
    if "FLINK_CONF_DIR" in os.environ:
        yield
        return
    os.environ["FLINK_CONF_DIR"] = _folder().name
    try:
        yield
    finally:
        del os.environ["FLINK_CONF_DIR"]


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """A folder with `SETTINGS` until this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="beam-volumes-flink-")
    Path(folder.name, "flink-conf.yaml").write_text(SETTINGS + "\n")
    return folder


def is_flink(runner: Any) -> bool:
    """Whether Beam starts a job server of Flink for a runner.

    >>> is_flink("FlinkRunner"), is_flink("PortableRunner")
    (True, False)
    """
    return runner_name(runner).lower().startswith("flink")


def jobs(passes: int, pipeline_of: Callable[[range], beam.Pipeline]) -> Iterator[beam.Pipeline]:
    """Yield the pipelines of a run, to be run in order: as few as Flink's optimizer can handle."""
    # It follows every path through the steps of a job, and steps of a merge multiply their number: merges
    # that depend on each other can have more than it could follow in years. ``pipeline_of`` makes the
    # pipeline of some passes. Raises ValueError before the first if a single pass has too many paths.
    start = 0
    while True:
        stop = passes
        while count_paths(pipeline := pipeline_of(range(start, stop))) > _MAX_PATHS:
            if start == 0 and stop == passes:
                for k in range(passes):
                    _check_paths(k, pipeline_of(range(k, k + 1)))
            if stop == start + 1:
                break
            stop -= 1
        yield pipeline
        if stop == passes:
            return
        start = stop


def _check_paths(k: int, pipeline: beam.Pipeline) -> None:
    count = count_paths(pipeline)
    if count > _MAX_PATHS_OF_PASS:
        raise ValueError(
            f"FlinkRunner cannot start the job of pass {k + 1}: its optimizer would follow "
            f"{count:.1e} paths through its steps, more than {_MAX_PATHS_OF_PASS:.1e}. Compute "
            "tables that other results depend on in a separate run, with a path, and the rest from "
            "their files; or use runner='DirectRunner'"
        )


def count_paths(pipeline: beam.Pipeline) -> int:
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
    """Return the address of a cluster's REST server, if options name one.

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
    """A job on a cluster, found by name: Beam's job server cancels only its own part of a job."""

    result: PipelineResult
    rest: str
    name: str

    def cancel(self) -> None:
        """Cancel the job, and wait until Flink has ended it.

        A job that Flink does not list yet would start later, so it is waited for first. Raises
        RuntimeError, with the request that ends the job, if Flink has not ended it or does not answer.
        """
        deadline = time.monotonic() + _MAX_WAIT
        requested: set[str] = set()
        try:
            while not self.running() and not self._has_ended():
                _wait(deadline, "listed")
            with suppress(Exception):  # only the state in Flink matters
                self.result.cancel()
            while jobs := self.running():
                for job in jobs - requested:
                    self._request(f"jobs/{job}?mode=cancel", "PATCH")
                requested |= jobs
                _wait(deadline, "ended")
        except (OSError, ValueError) as error:
            job = next(iter(requested), "ID")
            raise RuntimeError(
                f"Flink may still run the job {self.name}: {error}; end it with: curl -X PATCH "
                f"'{self.rest}/jobs/{job}?mode=cancel'"
            ) from error

    def _has_ended(self) -> bool:
        """Whether the job server reports an end, or does not answer."""
        try:
            return bool(PipelineState.is_terminal(self.result.state))
        except Exception:  # Beam ends its own job server when a run is interrupted
            time.sleep(_IN_FLIGHT)
            return True

    def running(self) -> set[str]:
        """Return the ids of the jobs of this name that have not ended."""
        jobs = json.loads(self._request("jobs/overview"))["jobs"]
        return {j["jid"] for j in jobs if j["name"] == self.name and j["state"] not in _ENDED}

    def _request(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(f"{self.rest}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())


def _wait(deadline: float, state: str) -> None:
    """Wait a moment; TimeoutError after the deadline."""
    if time.monotonic() > deadline:
        raise TimeoutError(f"the job was not {state} after {_MAX_WAIT:.0f} s")
    time.sleep(0.2)
