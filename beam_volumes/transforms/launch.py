"""Running a session as a pipeline, on this machine or on whatever runner Beam knows.

On this machine that is FnApiRunner, by name: what ``DirectRunner`` stands for depends on what can be
downloaded. It runs in a driver process of its own, because it waits for ever for a worker that was
killed. A session's numbers come back through its journal, on every runner; a run that writes
nothing keeps one in a temporary place for the purpose.
"""

from __future__ import annotations

import base64
import contextlib
import io
import logging
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import apache_beam as beam
import cloudpickle
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    GoogleCloudOptions,
    PipelineOptions,
    StandardOptions,
)
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineState

from beam_volumes.across.rounds import Flow, Key, Message, Round
from beam_volumes.plan import budget
from beam_volumes.plan.budget import checked_count
from beam_volumes.plan.plan import Plan
from beam_volumes.runs import Journal, Watch, call_supervised
from beam_volumes.runs.child import pickled
from beam_volumes.runs.progress import Watching, Work, unwatched
from beam_volumes.runs.supervise import RemoteTraceback
from beam_volumes.session.compilation import compilation_told
from beam_volumes.session.needs import ASKED, Needs
from beam_volumes.session.session import ENDED, Emission, Session, check_portable, check_remote
from beam_volumes.storage.kvstore import join, kvstore_spec
from beam_volumes.storage.remove import remove_tree
from beam_volumes.sweep.executor import SlabResult
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.transforms.compute import build
from beam_volumes.transforms.probe import probed

_LOG = logging.getLogger(__name__)

#: What users call the runners that run on this machine.
LOCAL = {"fnapi", "direct", "bundlebaseddirect", "switchingdirect"}
#: Those whose workers are never on this machine.
REMOTE = {"dataflow"}
#: Errors that say by themselves what was wrong; a log would not add to them.
_CLEAR = (ValueError, TypeError, OSError, OverflowError)
_TAIL = 4000
_MARK = re.compile(r"\[\[beam-volumes:([\w+/=]*)\]\]")

#: Runs a session, its journal followed, and gives the numbers known at the end; none if it only
#: described the job.
Drive = Callable[[Session, Watching], dict[str, Any] | None]


def launcher(runner: Any, options: Any, workers: int | None) -> tuple[Drive, int, int]:
    """How to run sessions on a runner.

    Parameters
    ----------
    runner : str, type or PipelineRunner
        ``"FnApiRunner"`` and ``"DirectRunner"`` are Beam's FnApiRunner on this machine; others are
        run as Beam runs them.
    options : PipelineOptions, sequence of str, mapping or None
        Beam's options.
    workers : int or None
        Slabs in flight.

    Returns
    -------
    drive : callable
        Runs a session.
    processes : int
        Worker processes on a machine, over which the slabs in flight are spread.
    base : int
        Bytes each of them takes before any voxel.
    """
    given = pipeline_options(options)
    named = given.view_as(StandardOptions).runner
    if not is_local(runner):
        return Elsewhere(runner, given, is_remote(runner)), 1, budget.BASE_BEAM
    if named is not None and not is_local(named):
        raise ValueError(f"options name the runner {named}: pass runner={named!r} to run on it")
    direct = given.view_as(DirectOptions)
    if direct.direct_running_mode == "multi_threading":
        raise ValueError(
            "direct_running_mode=multi_threading is refused: it silently loses elements, so slabs would "
            "be missing from outputs that look finished; use in_memory (threads) or multi_processing"
        )
    count = checked_count("workers", workers, max(1, budget.cores() // 4))
    if direct.direct_num_workers not in (1, count):
        raise ValueError(
            f"direct_num_workers={direct.direct_num_workers} and {count} worker(s) do not agree; "
            f"say workers={direct.direct_num_workers} alone"
        )
    processes = count if direct.direct_running_mode == "multi_processing" else 1
    return Here(given), processes, budget.BASE_BEAM


def pipeline_options(options: Any) -> PipelineOptions:
    """Beam's options from whatever form they are given in; this program's arguments are not read."""
    said = io.StringIO()
    logging.basicConfig()  # as Beam does below, where the program's log would go to ``said`` for good
    try:
        with contextlib.redirect_stderr(said):  # Beam ends the program where it does not understand
            if options is None:
                options = []
            if isinstance(options, Mapping):
                options = PipelineOptions.from_dictionary(dict(options))
            elif isinstance(options, Sequence) and not isinstance(options, str):
                options = PipelineOptions(list(options))
            if not isinstance(options, PipelineOptions):
                raise TypeError(
                    f"options={options!r}: give PipelineOptions, a list like "
                    "['--direct_running_mode=multi_processing'], or a dict"
                )
            options.get_all_options()
    except SystemExit:
        said_last = said.getvalue().strip().rpartition("error: ")[2]
        raise ValueError(f"options: {said_last}") from None
    return options


def is_local(runner: Any) -> bool:
    """Whether a runner, by name, class or instance, stands for FnApiRunner on this machine.

    Examples
    --------
    >>> is_local("DirectRunner"), is_local("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in LOCAL


def is_remote(runner: Any) -> bool:
    """Whether a runner's workers are never on this machine: Dataflow's, as yet.

    Examples
    --------
    >>> is_remote("DataflowRunner"), is_remote("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in REMOTE


def check_places(plan: Plan, journal: Any, runner: Any) -> None:
    """Refuse what a runner's workers cannot open."""
    check_portable(plan, journal)
    if is_remote(runner):
        check_remote(plan, journal, runner_name(runner))


def runner_name(runner: Any) -> str:
    """The name of a runner given by name, class or instance."""
    if not isinstance(runner, str):
        runner = (runner if isinstance(runner, type) else type(runner)).__name__
    return runner.rpartition(".")[2]


@dataclass(frozen=True)
class Here:
    """Runs sessions by FnApiRunner in a driver process, and looks after it."""

    options: PipelineOptions

    def __call__(self, session: Session, watching: Watching = unwatched) -> dict[str, Any]:
        with (
            reporting(session, None) as (telling, journal),
            tempfile.TemporaryFile() as log,
            watching(journal),
        ):
            watch = Watch(journal, _works(session.plan), _nobody)

            def last_words() -> str:
                return _last_words(session, watch.last_started())

            try:
                call_supervised(
                    lambda: run_here(telling, self.options), watch=last_words, output=log
                )
            except _CLEAR:
                raise
            except Exception:
                _LOG.error("the log of the run ends with:\n%s", _tail(log))
                raise
            return numbers(session.plan, journal)


@dataclass(frozen=True)
class Elsewhere:
    """Runs sessions as pipelines of any runner, from this process.

    Attributes
    ----------
    runner, options
        As of `launcher`.
    hired : bool
        Whether the runner starts machines for the job, by what its steps say they need.
    """

    runner: Any
    options: PipelineOptions
    hired: bool = False

    def __call__(self, session: Session, watching: Watching = unwatched) -> dict[str, Any] | None:
        runner = self.runner() if isinstance(self.runner, type) else self.runner
        if self.hired:
            check_installed()
            one_process(self.options)
            if self._describes():
                describe(session, runner, self.options)
                return None
        place = self.options.view_as(GoogleCloudOptions).temp_location
        with reporting(session, place) as (telling, journal), watching(journal):
            journal.mark(ASKED)
            try:
                needs = Needs.of(telling.session, socket.gethostname())
                if self.hired:  # machines come with the memory that steps ask for
                    needs = replace(needs, memory=0)
                run_pipeline(telling, runner, self.options, self.hired, needs)
            except RuntimeError as error:
                if isinstance(error.__cause__, RemoteTraceback) or session.journal is None:
                    raise
                # The runner gave up, for one because a worker died.
                watch = Watch(journal, _works(session.plan), _nobody)
                words = _last_words(session, watch.last_started())
                raise RuntimeError(f"{str(error).rstrip('.')}. {words}") from error
            finally:
                if Journal.load(journal.spec) is None:  # no worker has got as far as to begin
                    journal.remove()
            return numbers(session.plan, journal)

    def _describes(self) -> bool:
        """Whether the runner is asked to describe the job, and not to run it."""
        said = self.options.get_all_options()
        return bool(said["dry_run"] or said["template_location"])


def check_installed() -> None:
    """Refuse to go on without what Dataflow's runner needs of Beam."""
    try:
        import apache_beam.runners.dataflow.internal.apiclient  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"DataflowRunner needs more than is installed ({error}): pip install 'beam-volumes[gcp]'"
        ) from None


def one_process(options: PipelineOptions) -> None:
    """Have one worker process on a machine, as plans count, unless the options say otherwise.

    Dataflow starts one for each core. One with all cores has them work on the same slabs.

    Examples
    --------
    >>> options = PipelineOptions([])
    >>> one_process(options)
    >>> options.view_as(DebugOptions).experiments
    ['no_use_multiple_sdk_containers']
    """
    debug = options.view_as(DebugOptions)
    if debug.lookup_experiment("use_multiple_sdk_containers") is None:
        debug.add_experiment("no_use_multiple_sdk_containers")


def describe(session: Session, runner: Any, options: PipelineOptions) -> None:
    """Have a job described that others will start; nothing is read or written, nobody waits for it.

    Raises
    ------
    ValueError
        The job would give something back, and there would be nobody to take it.
    """
    plan = session.plan
    lost = [sink.name for sink in plan.results if sink in plan.intermediates]
    if lost or session.journal is None:
        raise ValueError(
            "a job that is only described gives nothing back: give every volume and table a path"
            + (
                ""
                if lost
                else ", of which there must be one, or give journal=, to keep the numbers"
            )
        )
    telling: Any = Telling(session)
    pipeline = beam.Pipeline(runner=runner, options=options)
    known, _ = build(pipeline, telling, resource_hints=True)
    _ = known[-1] | "End" >> beam.Map(_end, session)
    pipeline.run()


def _end(_: Any, session: Session) -> None:
    """What the driver does after a run that it waits for."""
    if session.plan.scratch_place is not None:
        remove_tree(session.plan.scratch_place)
    if session.journal is not None:
        session.journal.mark(ENDED)


def run_here(session: Any, options: PipelineOptions) -> None:
    """Run a session by FnApiRunner in this process."""
    options.view_as(DirectOptions).direct_num_workers = session.plan.workers
    with compilation_told(session.journal):
        run_pipeline(session, FnApiRunner(), options)


def run_pipeline(
    session: Any,
    runner: Any,
    options: PipelineOptions,
    resource_hints: bool = False,
    needs: Needs | None = None,
) -> None:
    """Run a session's pipeline to its end, and raise what a step raised in a worker.

    With ``needs``, workers are asked first whether they meet them.
    """
    pipeline = beam.Pipeline(runner=runner, options=options)
    ready = None if needs is None else probed(pipeline, needs)
    build(pipeline, session, resource_hints, ready)
    try:
        state = pipeline.run().wait_until_finish()
    except Exception as error:
        raise_original(error)
        raise
    if state is not None and state != PipelineState.DONE:
        raise RuntimeError(f"the pipeline ended in the state {state}; its runner's log says why")


# Errors on their way back. A runner makes one long text of an error and its traceback in the worker.


@dataclass(frozen=True)
class Telling:
    """A session whose steps put what they raise into the message, to be read out of a runner's text."""

    session: Session

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def journal(self) -> Journal | None:
        return self.session.journal

    def prepare(self) -> None:
        with told():
            self.session.prepare()

    def slab(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None = None,
        count: Callable[[SlabResult], None] | None = None,
    ) -> Emission:
        with told():
            return self.session.slab(pass_index, index, known, answers, count)

    def merge(self, pass_index: int, parts: Any) -> dict[str, Any]:
        with told():
            return self.session.merge(pass_index, parts)

    def finish_pass(
        self, pass_index: int, states: dict[str, Any], known: dict[str, Any]
    ) -> dict[str, Any]:
        with told():
            return self.session.finish_pass(pass_index, states, known)

    def reductions(self, pass_index: int) -> dict[str, Reduction]:
        return self.session.reductions(pass_index)

    def flows(self, pass_index: int) -> dict[str, Flow]:
        return {
            token: replace(flow, rounds=tuple(Told(r.name, r.to, r) for r in flow.rounds))
            for token, flow in self.session.flows(pass_index).items()
        }

    def write_rows(self, token: str, shard: int, columns: Mapping[str, Any]) -> None:
        with told():
            self.session.write_rows(token, shard, columns)

    def finish_merge(
        self,
        pass_index: int,
        numbers: Mapping[str, Mapping[str, Any]],
        known: dict[str, Any],
    ) -> dict[str, Any]:
        with told():
            return self.session.finish_merge(pass_index, numbers, known)


@dataclass(frozen=True, eq=False)
class Told(Round):
    """A round of a merge, likewise."""

    round: Round

    def step(self, key: Key, values: list[Any]) -> Iterable[Message]:
        with told():
            yield from self.round.step(key, values)


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Put an exception, pickled, into the message of the one that leaves.

    Examples
    --------
    >>> try:
    ...     with told():
    ...         raise OSError(28, "No space left")
    ... except RuntimeError as error:
    ...     raise_original(Exception(f"Traceback ... {error} [while running 'Sweep']"))
    Traceback (most recent call last):
    OSError: [Errno 28] No space left
    """
    try:
        yield
    except Exception as error:
        mark = base64.b64encode(pickled(error)).decode()
        raise RuntimeError(f"{type(error).__name__}: {error} [[beam-volumes:{mark}]]") from error


def raise_original(error: Exception) -> None:
    """Raise the exception that `told` put into a message, if there is one."""
    mark = _MARK.search(str(error))
    if mark is None:
        return
    original, trace = cloudpickle.loads(base64.b64decode(mark[1]))
    raise original from RemoteTraceback(trace)


def _works(plan: Plan) -> list[Work]:
    return [Work("", len(p.grid)) for p in plan.passes]


def _last_words(session: Session, started: Sequence[tuple[int, int]]) -> str:
    slabs = ", ".join(
        f"pass {k + 1} slab {i} {session.plan.passes[k].grid.box(i)}" for k, i in started
    )
    again = "run again with resume=True to continue" if session.journal is not None else "run again"
    return f"The last slabs started: {slabs or 'none'}; {again}"


def _tail(log: IO[bytes]) -> str:
    log.seek(max(0, log.seek(0, io.SEEK_END) - 100 * _TAIL))
    return _MARK.sub("", log.read().decode(errors="replace"))[-_TAIL:]


def _nobody(_: Any) -> None:
    return None


# Numbers on their way back.


@contextlib.contextmanager
def reporting(session: Session, place: str | None) -> Iterator[tuple[Telling, Journal]]:
    """The session to run in workers, and the journal in which its numbers will be.

    ``place`` is where a run that has no journal keeps one meanwhile: a folder that the workers reach.
    """
    if session.journal is not None:
        yield Telling(session), session.journal
        return
    folder = None if place else tempfile.mkdtemp(prefix="beam-volumes-")
    spec = join(
        kvstore_spec(place or str(folder)), f"beam-volumes-{session.run_id}", directory=True
    )
    journal = Journal(spec, session.run_id, attempts=session.plan.processes > 1)
    try:
        yield Telling(replace(session, journal=journal)), journal
    finally:
        journal.remove()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def numbers(plan: Plan, journal: Journal) -> dict[str, Any]:
    """What every pass has found."""
    known: dict[str, Any] = {}
    for p in plan.passes:
        if p.program.folds or p.program.surveys:
            found = journal.read_scalars(p.index)
            if found is None:
                raise OSError(
                    f"the numbers of pass {p.index + 1} are not in {journal.url}: workers elsewhere need a "
                    "place that they and this machine reach; give journal=, or temp_location in options"
                )
            known.update(found)
    return known
