"""Run sessions as pipelines on any of Beam's runners.

On this machine the runner is FnApiRunner, by name: the meaning of ``DirectRunner`` depends on
downloads. It runs in a driver process (`drive.local_pipeline`). On every runner, numbers are
returned through the session's journal; a run without outputs has a temporary one.
"""

from __future__ import annotations

import socket
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

from beam_volumes.drive.local_pipeline import Here, last_words, numbers, reporting
from beam_volumes.drive.pipelines import (
    handlers_kept,
    pipeline_options,
    run_pipeline,
    run_verification,
)
from beam_volumes.drive.runner_names import check_options, check_runner, is_local
from beam_volumes.plan.cost.memory import BASE_BEAM, LOCAL_PIPELINE
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions, runner_name
from beam_volumes.runs import Journal
from beam_volumes.runs.failure import RemoteTraceback, new_secret
from beam_volumes.runs.progress import Watching, unwatched
from beam_volumes.runs.verify import Verification
from beam_volumes.session.local import Drive
from beam_volumes.session.requirements import ASKED, WorkerRequirements, check_remote, check_scratch
from beam_volumes.session.session import Session
from beam_volumes.storage.places.place import is_local as is_local_place
from beam_volumes.storage.places.place import url
from beam_volumes.transforms.machines import bound, hires
from beam_volumes.transforms.passes import build, end
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

#: The remedy if a job server that this package did not start sent the job.
_LARGE_RECORD = (
    "Flink's memory for a sort is too small for this job: set taskmanager.runtime.large-record-handler: true "
    "in the Flink configuration of the job server (flink-conf.yaml in the folder FLINK_CONF_DIR)"
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
                if "The record exceeds the maximum size of a sort buffer" in str(error):
                    raise RuntimeError(f"{_LARGE_RECORD}. {last_words(session, journal)}") from None
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
        raise ValueError("verify cannot run as a job that is only described; leave out that option")
    run_verification(verification, runner, given, needs)
