"""One slab of a pass, swept and recorded or read from its record."""

from __future__ import annotations

import logging
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.nodes import evaluate
from beam_volumes.plan.cost import machine
from beam_volumes.plan.cost.memory import left_for_slab
from beam_volumes.plan.fit.fitting import without_device
from beam_volumes.plan.fit.partitioning import Partitioning, smaller_slab, smallest_partitions
from beam_volumes.plan.fit.planned_pass import Pass
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.points import PointsPass
from beam_volumes.runs.failure import revived
from beam_volumes.runs.record import Record, packed, ranges
from beam_volumes.session import merging
from beam_volumes.session.heartbeat import OnPart, reported, reported_compilations
from beam_volumes.session.points import compute_point
from beam_volumes.session.session import Session
from beam_volumes.storage.places.claims import Superseded
from beam_volumes.storage.places.context import configure
from beam_volumes.sweep.activity import Meter, error_context
from beam_volumes.sweep.device import Device, DeviceLost, OutOfDeviceMemory
from beam_volumes.sweep.devices import opened
from beam_volumes.sweep.executor import sweep
from beam_volumes.sweep.resources import Arena, gate
from beam_volumes.sweep.survey import NoRoom
from beam_volumes.sweep.writing import SlabResult
from beam_volumes.version import __version__

_LOG = logging.getLogger(__name__)

#: `session.local.run_local`, which sweeps slabs itself.
RunSession = Callable[..., dict[str, Any]]


@dataclass(frozen=True, eq=False)
class SlabPartials:
    """The partial results of a slab, to be merged at the end of the pass."""

    #: Small states of reductions, by token.
    states: dict[str, Any] = field(default_factory=dict)
    #: Summaries of surveys, by barrier.
    summaries: dict[str, Any] = field(default_factory=dict)


def sweep_slab(
    session: Session,
    pass_index: int,
    index: int,
    known: dict[str, Any],
    answers: Mapping[str, Any] | None = None,
    count: Callable[[SlabResult], None] | None = None,
    stop: Callable[[], None] | None = None,
    run: RunSession | None = None,
) -> SlabPartials:
    """Sweep a slab and record it, or read its record; errors name pass, slab, box and stage.

    ``stop``, called after each window, raises to stop the sweep. ``run`` runs a slab that is a time point.
    """
    if session.journal is not None:
        record, failure = session.journal.look(pass_index, index, session.launch)
        if record is not None:
            return _recorded(session, pass_index, record)
        if failure is not None:
            raise revived(failure)
    box = session.plan.passes[pass_index].grid.box(index)
    where = f"pass {pass_index + 1}, slab {index} {box}"
    noted = session.noted(f"pass-{pass_index}-slab-{index}")
    under_way = reported(session.parts, session.journal, pass_index, index, stop)
    with (
        noted,
        error_context(where),
        reported_compilations(session.journal),
        under_way as on_progress,
    ):
        try:
            return _swept(session, pass_index, index, known, answers, count, on_progress, run)
        except OSError:
            # Its files may have been removed because the run has ended, or belong to another run
            # now.
            record = _finished_meanwhile(session, pass_index, index)
            if record is None:
                raise
            return _recorded(session, pass_index, record)


def _recorded(session: Session, pass_index: int, record: Record) -> SlabPartials:
    """The partial results in a record; ValueError if different code wrote it."""
    found: SlabPartials = pickle.loads(record.emission)
    if found.states.keys() != merging.reductions_of(session.plan, pass_index).keys():
        assert session.journal is not None
        raise ValueError(
            f"cannot resume {session.journal.url}: it was begun with different code of the same "
            f"version, beam_volumes {__version__}: its records have different contents; continue "
            "with that code, or start again with overwrite=True"
        )
    return found


def _finished_meanwhile(session: Session, pass_index: int, index: int) -> Record | None:
    """The record of a slab that another attempt has finished in the meantime."""
    if session.journal is None:
        return None
    try:
        session.journal.check()
        return session.journal.read_record(pass_index, index)
    except Superseded:
        raise
    except (OSError, ValueError):  # the first error is reported
        return None


def _swept(
    session: Session,
    pass_index: int,
    index: int,
    known: dict[str, Any],
    answers: Mapping[str, Any] | None,
    count: Callable[[SlabResult], None] | None,
    on_progress: OnPart,
    run: RunSession | None,
) -> SlabPartials:
    p = session.plan.passes[pass_index]
    sinks = [output.sink for output in p.program.outputs]
    session.check(sinks)
    attempt = session.journal.start(pass_index, index) if session.journal is not None else ""
    started = time.time()
    configure(session.plan.threads)
    if isinstance(p, PointsPass):
        near = merging.resolve_numbers(known, p.values, session.journal)
        assert run is not None, "time points need run="
        run_plan = partial(_run_point, session, near, run)
        result, states = compute_point(session.plan, p, index, near, on_progress, run_plan)
    else:
        result = _one_sweep(session, p, index, known, answers, sinks, on_progress)
        loads = merging.loads(p, session.plan.workers)
        own = merging.loads_of_slab(loads, result.summaries)
        states = result.states | own
    emission = SlabPartials(states, result.summaries)
    if count is not None:
        count(result)
    if session.journal is not None:
        session.check(sinks)
        record = Record(
            index,
            p.grid.box(index),
            attempt,
            started,
            time.time() - started,
            result.bytes_read,
            result.bytes_written,
            machine.peak_memory(),
            {name: ranges(units) for name, units in result.written.items()},
            {name: ranges(units) for name, units in result.empty.items()},
            pickle.dumps(emission, protocol=5),
            {name: packed(sums) for name, sums in result.sums.items()},
        )
        session.journal.write_record(pass_index, index, record, lambda: session.flush(sinks))
    return emission


def _run_point(
    session: Session,
    known: dict[str, Any],
    run: RunSession,
    plan: Plan,
    count: Callable[[SlabResult], None],
) -> dict[str, Any]:
    """Run the plan of a time point, which is a slab of this session."""
    own = replace(
        session,
        plan=plan,
        journal=None,
        parts=None,
        inputs={},
        sweeps=session.sweeps or session.plan.sweeps_per_process,
        meters=(),
    )
    return run(own, count=count, known=known)


def _one_sweep(
    session: Session,
    p: Pass,
    index: int,
    known: dict[str, Any],
    answers: Mapping[str, Any] | None,
    sinks: Sequence[Any],
    on_progress: OnPart,
) -> SlabResult:
    near = merging.resolve_numbers(known, p.values, session.journal)
    values = {v.token: evaluate(v, near) for v in p.values}

    def swept(p: Pass, meter: Meter | None) -> SlabResult:
        return _sweep_of(session, p, index, values, answers, sinks, on_progress, meter)

    try:
        return swept(p, session.meters[p.index] if session.meters else None)
    except NoRoom as error:
        raise NoRoom(f"{error}: {_remedy(session.plan, p)}") from error
    except (DeviceLost, OutOfDeviceMemory) as error:
        host = _on_host(session.plan, p)
        if host is None:
            raise
        _LOG.warning("slab %d is computed on the host: %s", index, error)
        return swept(host, None)


def _remedy(plan: Plan, p: Pass) -> str:
    """What to do about a slab with more results than its memory allows."""
    # A run keeps its slabs when it is resumed.
    programs = [q.program for q in plan.passes if q.grid.shape == p.grid.shape]
    smaller = smaller_slab(programs, p.grid, plan.intermediates)
    text = "give the run more memory, with which it can also be resumed"
    return text if smaller is None else f"{text}, or start it anew with slab={smaller}"


def _on_host(plan: Plan, p: Pass) -> Pass | None:
    """The pass for a slab that the device cannot compute, if this was requested and fits the memory."""
    if plan.device != "auto":
        return None
    budget = left_for_slab(plan.memory, plan.base, plan.concurrency)
    return without_device(p, max(budget, p.slab_memory), plan.concurrency)


def _sweep_of(
    session: Session,
    p: Pass,
    index: int,
    values: dict[str, Any],
    answers: Mapping[str, Any] | None,
    sinks: Sequence[Any],
    on_progress: OnPart,
    meter: Meter | None,
) -> SlabResult:
    # A runner may start more sweeps in a process than the memory of host and device allows.
    with (
        gate.admitted(session.sweeps or session.plan.sweeps_per_process) as arena,
        _device(session.plan, p, arena) as device,
    ):
        return sweep(
            p.program,
            p.grid,
            index,
            values,
            arena,
            window=p.partition.window,
            threads=session.plan.threads,
            overlap=p.partition.overlap,
            answers=answers,
            limit_bytes=p.limit_bytes,
            check_ownership=RateLimited(lambda: session.check(sinks)),
            on_progress=on_progress,
            meter=meter,
            device=device,
        )


@contextmanager
def _device(plan: Plan, p: Pass, arena: Arena) -> Iterator[Device | None]:
    """The device for a slab, if its pass runs stages on one."""
    if not p.program.uses_device:
        yield None
        return
    try:
        with opened(arena, p.program, plan.threads) as device:
            yield device
    except OutOfDeviceMemory as error:
        (smallest,) = smallest_partitions([p.program], plan.concurrency)
        raise OutOfDeviceMemory(
            f"the memory of the device does not suffice: {_needs(p.partition)} ({error}). Give a "
            f"smaller device_memory=, or fewer workers: {_needs(smallest)}, and is the smallest. "
            "device='auto' computes such slabs on the host, and device='cpu' needs no device"
        ) from error


def _needs(part: Partitioning) -> str:
    """The memory of a slab on the device."""
    slab = " x ".join(map(str, part.grid.step))
    windows = counted(part.window, "slice")
    return f"a slab of {slab} in windows of {windows} takes {format_bytes(part.device_memory)}"


class RateLimited:
    """Limits a check to a hundredth of the time."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check, self._next = check, 0.0

    def __call__(self) -> None:
        begin = time.perf_counter()
        if begin >= self._next:
            self._check()
            end = time.perf_counter()
            self._next = end + 100 * (end - begin)
