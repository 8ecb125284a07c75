"""Run pipelines by Beam, and raise the exceptions of their workers."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineState

from beam_volumes.drive.flink import FlinkJob, is_flink, jobs, rest_address, started
from beam_volumes.drive.probe import probed
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import raise_original
from beam_volumes.runs.verify import Verification
from beam_volumes.session.heartbeat import reported_compilations
from beam_volumes.session.requirements import WorkerRequirements
from beam_volumes.session.session import Session
from beam_volumes.transforms.failures import cancelled_if_hopeless
from beam_volumes.transforms.machines import bound
from beam_volumes.transforms.passes import build
from beam_volumes.transforms.verify import build as build_verification
from beam_volumes.transforms.waiting import refuse_threads


def pipeline_options(options: Any) -> PipelineOptions:
    """Return a copy of Beam's options, given in any form; this program's arguments are not read."""
    printed = io.StringIO()
    try:
        # Beam exits the program for invalid options.
        with handlers_kept(), contextlib.redirect_stderr(printed):
            if options is None:
                options = []
            if isinstance(options, Mapping):
                options = PipelineOptions.from_dictionary(dict(options))
            elif isinstance(options, Sequence) and not isinstance(options, str):
                options = PipelineOptions(list(options))
            if not isinstance(options, PipelineOptions):
                raise TypeError(
                    f"options={options!r} is not supported; give PipelineOptions, a list like "
                    "['--direct_running_mode=multi_processing'], or a dict"
                )
            options = copy.deepcopy(options)  # do not change the caller's
            options.get_all_options()
    except SystemExit:
        message = printed.getvalue().strip().rpartition("error: ")[2]
        raise ValueError(f"options: {message}") from None
    return options


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Restore the root logger's handlers: Beam adds one when it makes options."""
    root = logging.getLogger()
    before = root.handlers[:]
    try:
        yield
    finally:
        for handler in root.handlers[:]:
            if handler not in before and type(handler) is logging.StreamHandler:
                root.removeHandler(handler)


def run_here(session: Session, options: PipelineOptions | None) -> None:
    """Run a session by FnApiRunner in this process."""
    options = pipeline_options(options)
    options.view_as(DirectOptions).direct_num_workers = session.plan.workers
    with reported_compilations(session.journal):
        run_pipeline(session, FnApiRunner(), options)


def run_pipeline(
    session: Session,
    runner: Any,
    options: PipelineOptions,
    resource_hints: bool = False,
    needs: WorkerRequirements | None = None,
    accelerator: str | None = None,
) -> None:
    """Run a session's pipeline to its end, and raise a worker's exceptions.

    With ``needs``, workers are checked first.
    """
    journal = session.journal
    assert journal is not None, "numbers are returned through the journal"
    count = len(session.plan.passes)
    on_flink = is_flink(runner)
    name = options.view_as(GoogleCloudOptions).job_name
    if on_flink and not name:  # by which the job is found on the cluster
        name = f"beam-volumes-{session.run_id}"

    def pipeline_of(some: range) -> beam.Pipeline:
        own = options
        if name:
            own = copy.deepcopy(options)
            own.view_as(GoogleCloudOptions).job_name = (
                f"{name}-pass-{some.start + 1}" if some.start else name
            )
        pipeline = beam.Pipeline(runner=runner, options=own)
        ready = None if needs is None else probed(pipeline, needs, session.secret)
        build(pipeline, session, resource_hints, ready, accelerator=accelerator, some=some)
        if resource_hints:
            bound(pipeline, session.plan.sweeps_per_process)
        return pipeline

    if on_flink:
        for pipeline in jobs(count, pipeline_of):
            run_to_end(pipeline, journal, session.launch, session.secret)
    else:
        run_to_end(pipeline_of(range(count)), journal, session.launch, session.secret)


def run_to_end(pipeline: beam.Pipeline, journal: Journal, launch: str, secret: str) -> None:
    """Run a pipeline, wait for its end, and raise a worker's exceptions."""
    try:
        rest = rest_address(pipeline.options)
        result = started(pipeline) if is_flink(pipeline.runner) else pipeline.run()
        job: Any = result
        if rest is not None:
            job = FlinkJob(result, rest, pipeline.options.view_as(GoogleCloudOptions).job_name)
        try:
            with cancelled_if_hopeless(job, journal, launch):
                state = result.wait_until_finish()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(cancelled(job)) from None
    except Exception as error:
        raise_original(error, secret)
        raise
    if state is not None and state != PipelineState.DONE:
        raise RuntimeError(f"the pipeline ended in the state {state}; see its runner's log")


def verify_here(verification: Verification, options: Any, workers: int) -> None:
    """Verify a run by FnApiRunner in this process."""
    options = pipeline_options(options)
    refuse_threads(options)
    options.view_as(DirectOptions).direct_num_workers = workers
    run_verification(verification, FnApiRunner(), options, None)


def run_verification(
    verification: Verification,
    runner: Any,
    options: PipelineOptions,
    needs: WorkerRequirements | None,
) -> None:
    pipeline = beam.Pipeline(runner=runner, options=options)
    ready = None if needs is None else probed(pipeline, needs, verification.secret)
    build_verification(pipeline, verification, ready)
    run_to_end(pipeline, verification.journal, verification.launch, verification.secret)


def cancelled(result: Any) -> str:
    """Cancel a job; return a message, also if its runner cannot cancel it.

    >>> from apache_beam.runners.runner import PipelineResult
    >>> print(cancelled(PipelineResult("RUNNING")))  # doctest: +ELLIPSIS
    the job still runs: its runner did not cancel it (NotImplementedError). Stop it by ...
    """
    try:
        result.cancel()
    except Exception as error:  # any exception of the runner's client
        reason = ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))
        return (
            f"the job still runs: its runner did not cancel it ({reason}). Stop it by the runner's own "
            "tools, or let it end; a new run with overwrite=True replaces it and is not overwritten by it"
        )
    return "the job is cancelled"
