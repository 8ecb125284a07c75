"""`compute`: plan, check, run on the chosen runner, and return results."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, cast

import numpy as np

from beam_volumes.base.text import format_bytes
from beam_volumes.drive.fork_server import start_ahead
from beam_volumes.drive.interrupted import continuation_shown
from beam_volumes.drive.local_pipeline import local_launcher
from beam_volumes.drive.runner_names import is_local
from beam_volumes.graph.keywords import checked_keywords
from beam_volumes.graph.nodes import Value, evaluate
from beam_volumes.graph.options import options as settings
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import ComputedTable, Table, TableTarget
from beam_volumes.graph.volume import Target, Volume, of_source
from beam_volumes.plan.accelerators import check_accelerator
from beam_volumes.plan.cost.machine import check_max_counts
from beam_volumes.plan.cost.memory import LOCAL_PIPELINE, note_compiled, note_used
from beam_volumes.plan.explain import describe_numbers
from beam_volumes.plan.fit.planned_pass import Pass, compute_seconds, transfer_seconds
from beam_volumes.plan.plan import Plan, Return
from beam_volumes.plan.planner import Wanted, in_process_or, make_plan
from beam_volumes.plan.run_options import AUTO, RunOptions, takes_options
from beam_volumes.runs.console import reporter
from beam_volumes.runs.journal import Journal
from beam_volumes.runs.progress import Parts, Watch, Work, unwatched
from beam_volumes.runs.summary import Summary
from beam_volumes.session.begin import begin
from beam_volumes.session.identity import Request
from beam_volumes.session.local import Drive, run_local
from beam_volumes.session.masks import warn_of_inputs
from beam_volumes.session.merging import warn_of_merges
from beam_volumes.session.requirements import check_portable
from beam_volumes.session.resume import from_folder
from beam_volumes.session.session import Session
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.sweep.devices import listed

_LOG = logging.getLogger(__name__)

#: The message for a job that was only described.
DESCRIBED = "the job is described, as the options request; nothing was run or written"

#: The default runner of runs that are not small.
_PIPELINE = "FnApiRunner"


@dataclass(frozen=True)
class Outcome:
    """The results of a run with its plan and measurements."""

    #: For each target an array, a number, or the written volume; None if the job was only
    #: described.
    results: tuple[Any, ...]
    plan: Plan
    #: From the journal, if the run has one.
    summary: Summary | None
    #: From the start of the run to the last byte.
    seconds: float
    #: False if the job was only described.
    ran: bool = True


@checked_keywords
@takes_options(driving=True)
def compute(*targets: Wanted, **options: Any) -> Any:
    """Compute volumes, tables and numbers, and write those that have a path.

    Parameters
    ----------
    *targets : Target, TableTarget, Volume, Table or Scalar
        Objects to compute. ``volume.to(path)`` and ``table.to(path)`` are written; all other
        objects are returned in memory. Lists are accepted as well.
    %(options)s

    Returns
    -------
    object or tuple
        For each target, the written `Volume`, a numpy array or number, or the path of a written
        table. A table without a path is returned as a dict of columns, for pandas, polars and
        ``dict()``, with the methods of `pyarrow.Table`. The results of several targets are returned
        as a tuple. The result is None if ``options`` make Dataflow's runner only describe the job
        (``dry_run``, ``template_location``).

    Raises
    ------
    %(run_errors)s
    WorkerDied
        If a worker process was killed. The message lists the slabs that were started last.

    See Also
    --------
    plan : predicts the memory, I/O and time of a run, without running it.
    Compute : the same as a step of a Beam pipeline.

    Notes
    -----
    All targets are computed together and share passes over the inputs. Memory stays below
    ``memory``, excluding returned arrays, which are limited by `options.max_inmemory`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2, 3]], "u1"))
    >>> bv.compute(v + 1, bv.mean(v), runner=None)
    (array([[2, 3, 4]], dtype=uint8), np.float64(2.0))
    """
    asked = RunOptions.of({"runner": AUTO, **options})
    several = len(targets) == 1 and isinstance(targets[0], list | tuple)
    wanted = tuple(targets[0]) if several else targets  # type: ignore[arg-type]
    try:
        outcome = run(wanted, asked)
    except KeyboardInterrupt as error:
        # The traceback does not help users; the last line shows how to continue.
        raise error.with_traceback(None) from None
    return outcome.results[0] if len(wanted) == 1 and not several else outcome.results


@checked_keywords
@takes_options(driving=True)
def plan(*targets: Wanted, **options: Any) -> Plan:
    """Plan a computation without reading or writing any voxels.

    Use it to check memory, I/O and the number of passes before a long run. `plan` accepts the
    parameters of `compute`, so the calls differ only in the name. Parameters that only matter while
    writing, such as ``overwrite`` and ``progress``, do not change the plan.

    Parameters
    ----------
    *targets : Target, TableTarget, Volume, Table or Scalar
        Targets that `compute` would accept.
    %(options)s

    Returns
    -------
    Plan
        Passes, slabs, windows, memory, and bytes read and written. ``print(plan.explain())`` shows
        them.

    Raises
    ------
    ValueError
        If memory is too small; the message contains the stage and the minimum. If ``slab`` does not
        consist of whole write units, or an output is also an input.
    TypeError
        If a target has an unsupported type.

    See Also
    --------
    compute : plans and runs.
    estimate : predicts the time and the cost on machines of a type.

    Notes
    -----
    Planning reads metadata only. Memory that depends on the voxels, such as for components, is
    planned for the worst case that fits. Returned arrays are not included.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> p = bv.plan((v > bv.threshold_otsu(bv.gaussian_filter(v, 1))).to("mask.zarr"), memory="1GiB")
    >>> len(p.passes), p.sweeps["threshold_otsu"], p.read_amplification
    (3, 2, 1.0)
    """
    if len(targets) == 1 and isinstance(targets[0], list | tuple):
        targets = tuple(targets[0])
    asked = RunOptions.of({"runner": AUTO, **options})
    planned = _prepared(targets, asked)[2]
    check_accelerator(planned, asked.accelerator)
    return planned


def run(
    targets: Sequence[Wanted],
    options: RunOptions,
    *,
    note: Any = None,
    recipe: Any = None,
    on_plan: Callable[[Plan], None] | None = None,
    stop: threading.Event | None = None,
) -> Outcome:
    """Compute targets as `compute` does, and return the plan and measurements, too."""
    # `resume` returns the ``note``. ``recipe`` is part of the outputs' provenance. ``on_plan`` is
    # called with the plan before anything is checked or started. ``stop`` ends a run without a
    # runner: see `beam_volumes.session.local.run_local`.
    for t in targets:
        if isinstance(t, Volume) and t.nbytes > settings.max_inmemory:
            raise ValueError(
                f"{t!r} is larger than options.max_inmemory, {format_bytes(settings.max_inmemory)}; "
                "write it with .to(path), slice it, or raise the limit"
            )
    _check_counts(options)
    drive, options, planned = _prepared(targets, options)
    _start_ahead(options)
    check_accelerator(planned, options.accelerator)
    _check_device(planned, options)
    if on_plan is not None:
        on_plan(planned)
    scratch = _check_places(planned, options)
    warn_of_inputs(planned)
    warn_of_merges(planned)
    request = Request(options.runner is not None, note)
    session = begin(planned, options, request=request, scratch=scratch, recipe=recipe)
    return _carry_out(session, _stoppable(drive, stop), options)


def plan_run(targets: Sequence[Wanted], options: RunOptions) -> Plan:
    """Return the plan of `run` for the same arguments."""
    _check_counts(options)
    return _prepared(targets, options)[2]


def resume(
    run: Any, options: RunOptions, stop: threading.Event | None = None
) -> tuple[Outcome, Any] | None:
    """Continue a run, given its first output, its ``.run`` folder, or its journal."""
    # ``options`` define machine, runner and progress: by default memory, workers and the runner
    # ``AS_BEGUN`` are the run's. Returns the outcome and the ``note`` of `run`; None if the run has
    # ended. Raises FileNotFoundError if there is no run, and ValueError if it cannot be continued.
    stopped = from_folder(run)
    if stopped is None:
        return None
    options = stopped.as_begun(options)
    _check_counts(options)
    drive, options = _driver(options)
    _start_ahead(options)
    check_accelerator(stopped.plan, options.accelerator)
    _check_device(stopped.plan, options)
    _check_places(stopped.plan, options)
    drive = _stoppable(drive, stop)
    return _carry_out(stopped.continued(options), drive, options), stopped.request.note


def _stoppable(drive: Drive, stop: threading.Event | None) -> Drive:
    if stop is None:
        return drive
    assert drive is run_local, "only runs without a runner can be stopped from another thread"
    return partial(run_local, stop=stop)


def _prepared(targets: Sequence[Wanted], options: RunOptions) -> tuple[Drive, RunOptions, Plan]:
    """Return the function that runs targets, the completed options, and the plan."""
    if options.runner != AUTO:
        return _driven(targets, options)
    by_pipeline = partial(_driven, targets, replace(options, runner=_PIPELINE))
    if options.beam_options:
        return by_pipeline()
    made = in_process_or(by_pipeline, targets, options)
    if isinstance(made, Plan):
        return *_driver(replace(options, runner=None)), made
    return made


def _check_counts(options: RunOptions) -> None:
    """Refuse more slabs in flight, or threads, than this machine can use, if it runs them."""
    if options.runner is None or options.runner == AUTO or is_local(options.runner):
        check_max_counts(workers=options.workers, threads=options.threads)


def _driven(targets: Sequence[Wanted], options: RunOptions) -> tuple[Drive, RunOptions, Plan]:
    """Return the same as `_prepared` for a given runner."""
    drive, options = _driver(options)
    return drive, options, _planned(targets, options)


def _driver(options: RunOptions) -> tuple[Drive, RunOptions]:
    """Return the function that runs sessions, and the options with processes and base memory."""
    if options.runner is None:
        return run_local, replace(options, processes=1, base=None)
    if isinstance(options.runner, str) and is_local(options.runner) and not options.beam_options:
        return local_launcher(options)
    from beam_volumes.drive.launch import launcher

    return launcher(options)


def _start_ahead(options: RunOptions) -> None:
    """Let the process of a local pipeline import Beam while this one prepares the run."""
    if options.runner is not None and is_local(options.runner):
        start_ahead()


def _planned(targets: Sequence[Wanted], options: RunOptions) -> Plan:
    # A run is resumed from its folder, which also has its results.
    written = any(isinstance(t, Target | TableTarget) for t in targets)
    kept = written or options.journal is not None
    return make_plan(
        targets, replace(options, in_memory_results=options.runner is None and not kept)
    )


def _check_places(planned: Plan, options: RunOptions) -> str | None:
    if options.runner is None:
        return None
    check_portable(planned, options.journal)
    if is_local(options.runner):
        return None
    from beam_volumes.drive.launch import check_places

    return check_places(planned, options)


def _check_device(planned: Plan, options: RunOptions) -> None:
    """Refuse a plan that needs a device if it would run on a machine without one: this one."""
    here = options.runner is None or is_local(options.runner)
    if here and planned.uses_device and planned.device == "cuda":
        listed()


def _carry_out(session: Session, drive: Drive, options: RunOptions) -> Outcome:
    planned = session.plan
    began = time.perf_counter()
    watches: list[Watch] = []

    shown = reporter(options.progress)

    def watching(followed: Journal | Parts) -> Watch:
        watches.append(Watch(followed, _works(planned), shown))
        return watches[-1]

    kept = session.journal is not None  # its records are summed up in any case
    try:
        session.make_scratch()
        with continuation_shown(session, options) as finish:
            if finish is not None:  # the function is `run_local`
                drive = partial(cast(Any, drive), finish=finish)
            known = drive(session, watching if kept or shown else unwatched)
        if known is None:
            _LOG.warning(DESCRIBED)
            seconds = time.perf_counter() - began
            return Outcome((None,) * len(planned.returns), planned, None, seconds, ran=False)
        left = iter(planned.results)
        results = tuple(
            _result(back, list(islice(left, back.results)), known) for back in planned.returns
        )
        session.end()
        if options.runner is None:
            note_used(planned.kernels)
        elif options.base == LOCAL_PIPELINE:
            note_compiled(planned.kernels)
    finally:
        if session.journal is None:  # a run that can be resumed keeps its intermediate data
            session.end()
    seconds = time.perf_counter() - began
    summary = None
    if session.journal is not None:
        summary = watches[-1].summary()
        if not options.keep_journal:
            session.journal.remove()
    return Outcome(results, planned, summary, seconds)


def _works(plan: Plan) -> list[Work]:
    return [
        Work(
            _yields(plan, p),
            len(p.grid),
            p.bytes_read + p.bytes_written,
            compute_seconds([p]) + transfer_seconds([p]),
        )
        for p in plan.passes
    ]


def _yields(plan: Plan, p: Pass) -> str:
    """Name the results of a pass in a few words."""
    if p.point is not None:
        return ", ".join(dict.fromkeys(_yields(p.point, q) for q in p.point.passes))
    outputs = p.program.outputs
    kept = [o for o in outputs if o.sink not in plan.intermediates]
    stored = [p.program.steps[o.edge.step].name for o in outputs if o not in kept]
    names = describe_numbers(plan, p)
    names += [b.survey.name for b in p.program.surveys]
    names += [_output_name(plan, o.sink) for o in kept] or stored
    return ", ".join(dict.fromkeys(names))


def _output_name(plan: Plan, sink: Sink) -> str:
    """Name an output by its file, and a coarser level by the scale in each axis of its volume."""
    sinks = {o.sink.name.rstrip("/"): o.sink for p in plan.passes for o in p.program.outputs}
    folder, _, name = sink.name.rstrip("/").rpartition("/")
    if folder not in sinks:
        return name
    factors = [round(n / m) for n, m in zip(sinks[folder].shape, sink.shape, strict=True)]
    scale = " x ".join(
        f"1/{f}" if f > 1 else "1" for f in (factors[:1] if len({*factors}) == 1 else factors)
    )
    return f"{folder.rpartition('/')[2]} at {scale}"


def _result(
    back: Return, results: Sequence[Sink | TableSink | Value], known: dict[str, Any]
) -> Any:
    result = results[0]
    if isinstance(result, Value):
        return evaluate(result, known)
    if isinstance(result, TableSink):
        return ComputedTable(result.read()) if back.kind == "rows" else result.name
    if back.kind == "volume":
        return of_source(result.read_back())
    arrays = [_array(back.dtype, sink) for sink in results]
    return (arrays[0] if len(arrays) == 1 else np.stack(arrays)).reshape(back.shape)


def _array(dtype: np.dtype, sink: Any) -> np.ndarray:
    if isinstance(sink, ArraySink):
        return sink.array.view(bool) if dtype.kind == "b" else sink.array
    source = sink.read_back()
    array = source.read() if 0 not in source.shape else np.empty(source.shape, source.dtype)
    return array.astype(dtype, copy=False)


def in_process(item: Volume | Table | Scalar) -> Any:
    """Compute for ``np.asarray``, ``float`` and similar functions, in this process."""
    return compute(item, runner=None, progress=False)
