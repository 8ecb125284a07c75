"""Run sessions as pipelines on any of Beam's runners.

On this machine the runner is FnApiRunner, by name: the meaning of ``DirectRunner`` depends on
downloads. It runs in a driver process (`drive.local_pipeline`). On every runner, numbers are
returned through the session's journal; a run without outputs has a temporary one.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import grpc
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineState

from beam_volumes.drive.flink import FlinkJob, jobs, rest_address
from beam_volumes.drive.local_pipeline import Here, last_words, numbers, reporting
from beam_volumes.drive.probe import probed
from beam_volumes.drive.runner_names import check_options, check_runner, is_local
from beam_volumes.plan.cost.memory import BASE_BEAM, LOCAL_PIPELINE
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions, runner_name
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import RemoteTraceback, new_secret, raise_original
from beam_volumes.runs.progress import Watching, unwatched
from beam_volumes.runs.verify import Verification
from beam_volumes.session.heartbeat import reported_compilations
from beam_volumes.session.local import Drive
from beam_volumes.session.requirements import ASKED, WorkerRequirements, check_remote, check_scratch
from beam_volumes.session.session import Session
from beam_volumes.storage.places.place import is_local as is_local_place
from beam_volumes.storage.places.place import url
from beam_volumes.transforms.failures import cancelled_if_hopeless
from beam_volumes.transforms.machines import bound, hires
from beam_volumes.transforms.passes import build, end
from beam_volumes.transforms.verify import build as build_verification
from beam_volumes.transforms.waiting import refuse_threads


def launcher(options: RunOptions) -> tuple[Drive, RunOptions]:
    """Return the function that runs sessions on a runner, and the completed options.

    ``"FnApiRunner"`` and ``"DirectRunner"`` are Beam's FnApiRunner on this machine; Beam runs all
    others.
    """
    with handlers_kept():
        return _launcher(options)


def _launcher(options: RunOptions) -> tuple[Drive, RunOptions]:
    runner = options.runner
    check_runner(runner)
    check_options(options.beam_options, runner)
    given = pipeline_options(options.beam_options)
    named = given.view_as(StandardOptions).runner
    if not is_local(runner):
        elsewhere = Elsewhere(runner, given, hires(runner), options.accelerator)
        options = replace(options, processes=1, base=BASE_BEAM)
        return elsewhere, options.or_else(machines=_machines(given, options))
    if named is not None and not is_local(named):
        raise ValueError(f"options select the runner {named}; pass runner={named!r} to run on it")
    direct = given.view_as(DirectOptions)
    refuse_threads(given)
    if (count := direct.direct_num_workers) not in (1, options.workers):
        also = f" and workers={options.workers} differ" if options.workers else " has no effect"
        raise ValueError(f"direct_num_workers={count}{also}; only give workers={count}")
    # None means one process for each slab in flight, as chosen by the plan.
    processes = None if direct.direct_running_mode == "multi_processing" else 1
    return Here(given), replace(options, processes=processes, base=LOCAL_PIPELINE)


def _machines(given: PipelineOptions, options: RunOptions) -> int | None:
    """The number of machines that Beam's options ask for; slots of Flink are slabs in flight."""
    asked = given.get_all_options()
    hired = asked.get("max_num_workers") or asked.get("num_workers")
    slots = asked.get("parallelism") or 0
    return hired or (-(-slots // options.slabs_in_flight) if slots > 0 else None)


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


def check_places(plan: Plan, options: RunOptions) -> str | None:
    """Refuse places that the workers of a remote runner cannot open.

    Returns the place for a run's own files if it has no journal and it is not on this machine.
    """
    runner, journal = options.runner, options.journal
    cloud = pipeline_options(options.beam_options).view_as(GoogleCloudOptions)
    place: str | None = cloud.temp_location
    if hires(runner):
        check_remote(plan, journal, runner_name(runner), place)
    check_scratch(plan, journal, place, f"the workers of {runner_name(runner)}")
    return place


#: Remedies if a runner cannot download a component, by words of Beam's message.
_NOT_FETCHED = {
    "prism binary": "PrismRunner needs the program prism, which Beam failed to download from github.com; "
    "give its path by the option --prism_location=PATH, or use runner='DirectRunner'",
    "job server jar": "this runner needs a job server, which Beam failed to download from "
    "repo.maven.apache.org; give its path by the option --flink_job_server_jar=PATH, or use "
    "runner='DirectRunner'",
}

#: The remedy if Java's stack is too small for a job: nested steps are read recursively.
_STACK = (
    "Flink did not accept the job: it has so many consecutive steps that Java's stack was too small. "
    "Enlarge the stack of the JobManager (env.java.opts.jobmanager: -Xss16m in Flink's configuration) and "
    "of the job server (--job_server_jvm_properties=-Xss16m, if the runner starts it)"
)


@dataclass(frozen=True)
class Elsewhere:
    """Runs sessions as pipelines of any runner, from this process."""

    runner: Any
    options: PipelineOptions
    #: Whether the runner starts machines for the job, by the resource hints of its steps.
    hired: bool = False
    #: The accelerator of machines for passes that run a network.
    accelerator: str | None = None

    def __call__(self, session: Session, watching: Watching = unwatched) -> dict[str, Any] | None:
        runner = self.runner() if isinstance(self.runner, type) else self.runner
        if self.hired:
            check_installed()
            one_process(self.options)
            if _only_describes(self.options):
                describe(session, runner, self.options, self.accelerator)
                return None
        place = self.options.view_as(GoogleCloudOptions).temp_location
        with reporting(session, place) as (reported, journal), watching(journal):
            journal.mark(ASKED)
            try:
                needs = WorkerRequirements.of(reported, socket.gethostname())
                if self.hired:  # machines get the memory of the resource hints
                    needs = replace(needs, memory=0)
                run_pipeline(reported, runner, self.options, self.hired, needs, self.accelerator)
            except (RuntimeError, grpc.RpcError, grpc.FutureTimeoutError) as error:
                for words, remedy in _NOT_FETCHED.items():
                    if "Unable to fetch" in str(error) and words in str(error):
                        raise OSError(remedy) from None
                if "java.lang.StackOverflowError" in str(error):
                    raise RuntimeError(f"{_STACK}. {last_words(session, journal)}") from None
                if isinstance(error.__cause__, RemoteTraceback) or session.journal is None:
                    raise
                # The runner gave up, for example because a worker died.
                words = last_words(session, journal)
                raise RuntimeError(f"{_reason(error)}. {words}") from error
            finally:
                if Journal.load(journal.spec) is None:  # no worker has started
                    journal.remove()
            return numbers(session.plan, journal)


def _reason(error: Exception) -> str:
    """Return the message of a runner's error; the text of gRPC's errors has many lines."""
    if isinstance(error, grpc.FutureTimeoutError):
        return "the runner does not answer; check its address, such as --job_endpoint"
    if isinstance(error, grpc.Call):
        return f"the connection to the runner failed: {error.code().name}, {error.details()}"
    return str(error).rstrip(".")


def _only_describes(options: PipelineOptions) -> bool:
    """Whether a runner only describes the job."""
    given = options.get_all_options()
    return bool(given["dry_run"] or given["template_location"])


def check_installed() -> None:
    """Refuse DataflowRunner if Beam's dependencies for it are missing."""
    try:
        import apache_beam.runners.dataflow.internal.apiclient  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"DataflowRunner needs missing packages ({error}): pip install 'beam-volumes[gcp]'"
        ) from None


def one_process(options: PipelineOptions) -> None:
    """Start one worker process per machine, as plans assume, unless the options define it.

    Dataflow's default is one per core. A single process uses all cores for the same slabs.
    """
    debug = options.view_as(DebugOptions)
    if debug.lookup_experiment("use_multiple_sdk_containers") is None:
        debug.add_experiment("no_use_multiple_sdk_containers")


def describe(
    session: Session, runner: Any, options: PipelineOptions, accelerator: str | None = None
) -> None:
    """Describe a job that others will start, without running it.

    Raises ValueError if the job would return results, as no process receives them.
    """
    plan = session.plan
    lost = [sink.name for sink in plan.results if sink in plan.intermediates]
    if lost or session.journal is None:
        raise ValueError(
            "a job that is only described returns nothing; give every volume and table a path"
            + ("" if lost else " (at least one), or give journal= to keep the numbers")
        )
    pipeline = beam.Pipeline(runner=runner, options=options)
    with_secret = replace(session, secret=new_secret())
    known, _ = build(pipeline, with_secret, resource_hints=True, accelerator=accelerator)
    bound(pipeline, plan.sweeps_per_process)
    _ = known[-1] | "End" >> beam.Map(end, session)
    pipeline.run()


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
    on_flink = runner_name(runner).lower().startswith("flink")
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
        result = pipeline.run()
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
    _verify(verification, FnApiRunner(), options, None)


def verify_elsewhere(
    verification: Verification, options: RunOptions, needs: WorkerRequirements
) -> None:
    """Verify a run by any runner of Beam.

    Raises ValueError: the workers cannot reach a place, or the job would only be described.
    """
    with handlers_kept():
        given = pipeline_options(options.beam_options)
    runner = options.runner() if isinstance(options.runner, type) else options.runner
    if hires(runner):
        check_installed()
        one_process(given)
        check = verification.check
        for place in (check.journal.spec, verification.journal.spec):
            if is_local_place(place):
                raise ValueError(
                    f"{url(place)} is on this machine, where {runner_name(runner)} has no workers; "
                    "use a bucket, gs:// or s3://"
                )
    if _only_describes(given):
        raise ValueError("verify cannot be a job that is only described; leave out that option")
    _verify(verification, runner, given, needs)


def _verify(
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

    Examples
    --------
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
