"""Continue a run: checks, refusals, and adaptations.

A run is continued from its folder, which contains its plan (`from_folder`). Or a program requests
the same with ``resume=True`` and its own plan (`asked_again`), for example for a retried element of
`ComputeAll`.

Nothing is written before all checks have passed. Each refusal names the run, the problem and the
remedy. The checks in order:

1. There is a run. One that has ended is not changed (`from_folder`). If none has begun, the program
begins one
   (`asked_again`).
2. The fingerprints of the request and of the run agree (`differences`).
3. The versions of the package and of Python are the same as at the beginning (`check_versions`).
4. The plan exists, and the inputs have not changed, by their metadata and the times of their files
   (`load_plan`, `check_inputs`, `check_stamps`). If the plan could not be stored, the program's is
   used, provided that both have the same intermediate results (`begun_plan`).
5. The plan is adapted to this machine and runner: memory, workers, processes, threads
(`for_this_machine`,
   `begun_plan`). From the folder alone, the original ones are the defaults (`Stopped.as_begun`).
6. Slabs and windows are the same as in the run's records, and fit the memory (`_in_its_own_slabs`).
7. The outputs in the records exist (`check_outputs_are_there`).

The session then repeats all steps of the run; a step that has a record returns it
(`session.slabs`).

Unpickling runs code, so trust a run's folder like a program. Its records contain pickles, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any

import cloudpickle

from beam_volumes.base.nesting import check_not_nested
from beam_volumes.base.text import counted
from beam_volumes.graph.nodes import Value
from beam_volumes.plan.cost.concurrency import Concurrency, default_workers
from beam_volumes.plan.cost.machine import parse_bytes
from beam_volumes.plan.cost.memory import left_for_slab, of_base
from beam_volumes.plan.fit.fitting import costed, refuse, refuse_device, with_room_for_answers
from beam_volumes.plan.fit.partitioning import fit
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import AS_BEGUN, RunOptions
from beam_volumes.runs.journal import ENDED, Journal, Tally, find_run
from beam_volumes.runs.manifest import Difference, Manifest, compare
from beam_volumes.session.identity import (
    Request,
    make_manifest,
    python_version,
    scratch_of,
    stamps_of,
    with_scratch,
)
from beam_volumes.session.session import Session
from beam_volumes.storage.inputs.opening import reopened
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec, join, kvstore_spec, url
from beam_volumes.storage.sources.source import Source
from beam_volumes.storage.sources.stamps import changed, renewed
from beam_volumes.version import __version__

# The two entry points.


@dataclass(frozen=True)
class Stopped:
    """A run that has not ended, read from its folder."""

    journal: Journal
    plan: Plan
    request: Request

    def as_begun(self, options: RunOptions) -> RunOptions:
        """The options, with the run's original options as defaults."""
        if options.runner == AS_BEGUN:
            beam = self.request.beam or options.beam_options
            options = replace(options, runner="FnApiRunner" if beam else None)
        plan = self.plan
        return options.or_else(memory=plan.memory, workers=plan.workers, journal=self.journal.spec)

    def continued(self, options: RunOptions) -> Session:
        """The run, continued on this machine and runner."""
        check_not_nested()
        manifest = Journal.load(self.journal.spec)
        if manifest is None or manifest.run_id != self.journal.run_id:
            raise ValueError(f"cannot resume {self.journal.url}: another run has just replaced it")
        plan = for_this_machine(self.plan, options)
        session = _session(plan, self.journal, manifest, self.request)
        return replace(session, max_retries=options.max_retries)


def from_folder(run: Any) -> Stopped | None:
    """Find a run by an output, its ``.run`` folder or its journal; None if it has ended.

    ValueError if it cannot be continued from its folder.
    """
    journal = find_run(run)
    if journal.marked(ENDED):
        return None
    manifest = Journal.load(journal.spec)
    assert manifest is not None
    check_versions(journal, manifest)
    if manifest.closed:
        raise ValueError(f"cannot resume {journal.url} from its folder alone: {manifest.closed}")
    return Stopped(journal, *load_plan(journal))


def note_of(run: Any) -> Any:
    """The note of the program that began a run; None if it cannot be read."""
    try:
        return load_plan(find_run(run))[1].note
    except (OSError, ValueError):
        return None


def asked_again(
    plan: Plan, place: Spec, run_id: str | None, request: Request | None
) -> Session | None:
    """Continue the run in a journal with the plan of a program; None if there is none.

    Raises ValueError: it computes something else, or cannot be continued here.
    """
    manifest = Journal.load(place)
    if manifest is None:
        return None
    journal = Journal(join(place, directory=True), manifest.run_id)
    if different := differences(manifest, plan):
        raise ValueError(
            f"cannot resume {journal.url}: this run differs in {different[0].field} "
            f"({counted(len(different), 'field')} in all); start anew with overwrite=True"
        )
    if run_id not in (None, manifest.run_id):
        raise ValueError(f"resume=True continues the run {manifest.run_id}, not {run_id!r}")
    check_versions(journal, manifest)
    plan = begun_plan(with_scratch(plan, scratch_of(journal)), journal, manifest)
    return _session(plan, journal, manifest, request)


def _session(plan: Plan, journal: Journal, manifest: Manifest, request: Request | None) -> Session:
    plan = _in_its_own_slabs(plan, manifest)
    tables = {url(kvstore_spec(e.store)) for e in _tables_of(plan)}
    now = {name: found for name, found in stamps_of(plan).items() if name in tables}
    if unread := journal.unread():
        for name, then in manifest.inputs.items():
            now.setdefault(name, renewed(then, unread))
    if not journal.marked(ENDED):
        check_stamps({**manifest.inputs, **now}, journal)
    check_outputs_are_there(plan, journal)
    there = {sink.name: sink.begun_run() for sink in plan.outputs}
    there[journal.url] = journal.run_id
    is_clearing = any(sink.is_clearing(journal.run_id) for sink in plan.outputs)
    clears = is_clearing or journal.parts_left() > 0
    session = Session(plan, journal.run_id, journal, request=request, replaces=there, inputs=now)
    return replace(session, clears=clears)


def _tables_of(plan: Plan) -> Iterator[Extent]:
    """Tables in which labels are looked up: their tokens depend on content, not on times."""
    for p in plan.swept:
        for b in p.program.surveys:
            yield from b.survey.extents


# Checks and adaptations in this order.


def differences(manifest: Manifest, plan: Plan) -> list[Difference]:
    """The differences between the computations of a run and a plan."""
    return compare(manifest, make_manifest(plan, manifest.run_id))


def check_versions(journal: Journal, manifest: Manifest) -> None:
    """Refuse a run of another version of the package or of Python: plan and records are pickles."""
    for name, then, now in (
        ("beam_volumes", manifest.package, __version__),
        ("Python", manifest.python, python_version()),
    ):
        if then != now:
            raise ValueError(
                f"cannot resume {journal.url}: it was begun with {name} {then or 'unknown'}, but "
                f"this is {now}; continue with that version, or start anew with overwrite=True"
            )


def load_plan(journal: Journal) -> tuple[Plan, Request]:
    """The stored plan and request of a run; ValueError if they cannot be loaded or inputs have changed."""
    data = journal.read_plan()
    if data is None:
        raise ValueError(
            f"cannot resume {journal.url}: its plan is missing; run the program again with "
            "resume=True"
        )
    try:
        plan, request = cloudpickle.loads(data)
    except Exception as error:  # unpickling imports modules
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(
            f"cannot resume {journal.url}: its plan cannot be loaded here ({reason}); run the "
            "program again with resume=True, or make its modules importable (PYTHONPATH); if the "
            "code has changed since, start anew with overwrite=True"
        ) from error
    if lacking := _lacking(plan):
        raise ValueError(
            f"cannot resume {journal.url}: it was begun with different code of the same version, "
            f"beam_volumes {__version__}: its plan has no {lacking}; continue with that code, or "
            "start again with overwrite=True"
        )
    check_inputs(plan, journal)
    return plan, request


def _lacking(plan: Plan) -> str | None:
    """A field of its class that a part of an unpickled plan lacks."""
    visited: set[int] = set()
    stack: list[Any] = [plan]
    while stack:
        item = stack.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, Mapping):
            stack += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
        elif is_dataclass(item) and not isinstance(item, type):
            for field in fields(item):
                if not hasattr(item, field.name):
                    return f"{type(item).__name__}.{field.name}"
                stack.append(getattr(item, field.name))
    return None


def check_inputs(plan: Plan, journal: Journal) -> None:
    """Refuse inputs with other metadata than at the beginning of the run."""
    for name, then, now in _inputs_of(plan):
        try:
            same = now() == then
        except (ValueError, OSError) as error:
            raise type(error)(f"cannot resume {journal.url}: input {name}: {error}") from error
        if not same:
            raise ValueError(
                f"cannot resume {journal.url}: the run differs in input {name}, which has changed "
                "since; start anew with overwrite=True"
            )


def check_stamps(inputs: Mapping[str, Any], journal: Journal) -> None:
    """Refuse inputs with files that were written since their stamps were recorded."""
    for name, then in inputs.items():
        if (place := changed(then)) is not None:
            shown = name if place == name else f"{name} ({place})"
            raise ValueError(
                f"cannot resume {journal.url}: its input {shown} has been replaced or changed "
                "since; start anew with overwrite=True"
            )


def _inputs_of(plan: Plan) -> Iterator[tuple[str, str, Callable[[], str]]]:
    """The name of each input, its token in the plan, and a function for its current token."""
    for p in plan.swept:
        for step in p.program.steps:
            if step.source is not None:
                yield step.source.name, step.source.reader.token(), partial(_token_now, step.source)
        for b in p.program.surveys:
            for table in b.survey.tables:
                yield table.operand, table.token(), table.token_now


def _token_now(source: Source) -> str:
    return reopened(source).reader.token()


def for_this_machine(plan: Plan, options: RunOptions) -> Plan:
    """The plan of a run for this machine and runner."""
    concurrency = Concurrency.of(options.slabs_in_flight, options.processes, None)
    given = options.device_memory
    device_memory = plan.device_memory if given is None else parse_bytes(given)
    concurrency = replace(concurrency, device_memory=device_memory)
    if concurrency.device_share < max((p.partition.device_memory for p in plan.passes), default=0):
        refuse_device(plan.passes, concurrency)
    return replace(
        plan.with_concurrency(concurrency),
        device_memory=device_memory,
        memory=options.memory_bytes,
        base=of_base(options.base, plan.kernels),
        workers_asked=plan.workers_asked
        if concurrency.workers == plan.workers
        else concurrency.workers,
    )


def begun_plan(plan: Plan, journal: Journal, manifest: Manifest) -> Plan:
    """The plan that a run was begun with, for the machine of a plan with the same computation.

    Intermediate results, and the number of passes, may depend on memory and slabs.
    """
    if not manifest.closed:
        begun, _ = load_plan(journal)
        how = ("memory", "workers", "workers_asked", "processes", "threads", "base")
        asked = {name: getattr(plan, name) for name in (*how, "targets", "returns")}
        return replace(begun, results=_as_asked(begun.results, plan.results), **asked)
    stored = {o["name"]: o for o in manifest.outputs}
    for sink in plan.sinks:
        now, then = json.loads(json.dumps(sink.to_dict())), stored.get(sink.name, {})
        if any(now.get(name) != then.get(name) for name in ("chunk", "shard")):
            slabs = ", ".join(str(tuple(p["slab"])) for p in manifest.passes)
            raise ValueError(
                f"cannot resume {journal.url}: it stores {sink.name} in different chunks; resume "
                f"it with the memory= and slab= it was begun with (its slabs are {slabs})"
            )
    return plan


def _as_asked(begun: Sequence[Any], now: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a run in the requested order.

    The order among volumes, and among numbers, is the same: otherwise it is another run.
    """

    def kind(result: Any) -> str:
        if isinstance(result, TableSink):
            return result.name.rpartition("/")[2]
        return "number" if isinstance(result, Value) else "volume"

    left: dict[str, list[Any]] = {}
    for result in begun:
        left.setdefault(kind(result), []).append(result)
    return tuple(left[kind(result)].pop(0) for result in now)


def _in_its_own_slabs(plan: Plan, manifest: Manifest) -> Plan:
    """The plan with the slabs and windows that its run was begun with.

    The number of slabs in flight is reduced to fit the memory, unless the user chose it.
    """
    begun = manifest.passes
    if len(begun) != len(plan.passes):
        raise ValueError(
            f"the run was planned in {len(begun)} passes and would now have {len(plan.passes)}; "
            "resume it with the memory= and slab= it was begun with"
        )
    if all(p.point is not None for p in plan.passes):
        return plan  # time points do not depend on slabs
    for concurrency in _concurrencies(plan):
        parts = []
        budget = left_for_slab(plan.memory, plan.base, concurrency)
        for p, then in zip(plan.passes, begun, strict=True):
            if p.point is not None:
                parts.append(p.partition)
                continue
            z, y, x = then["slab"]
            parts += fit([p.program], (z, y, x), then["window"], concurrency, budget)
        largest = max(parts, key=lambda part: part.memory)
        if largest.memory <= budget:
            break
    else:
        refuse(largest, plan.memory, plan.base, concurrency)
    found = zip(plan.passes, parts, strict=True)
    passes = with_room_for_answers(
        [
            p if p.point is not None else costed(p.index, p.program, part, p.values, budget)
            for p, part in found
        ],
        budget,
    )
    return replace(plan.with_concurrency(concurrency), passes=tuple(passes))


def _concurrencies(plan: Plan) -> Iterator[Concurrency]:
    """The plan's concurrency, then fewer slabs in flight unless the user chose their number."""
    yield plan.concurrency
    if plan.workers_asked is None:
        for workers in range(plan.workers - 1, default_workers() - 1, -1):
            fewer = Concurrency.of(workers, plan.processes, plan.threads)
            yield replace(fewer, device_memory=plan.device_memory)


def check_outputs_are_there(plan: Plan, journal: Journal) -> None:
    """Refuse to resume a run with records of outputs that were deleted or replaced."""
    ended = journal.marked(ENDED)
    if ended and any(sink in plan.intermediates for sink in plan.results):
        raise ValueError(
            f"the run in {journal.url} has ended, but its results in memory are gone; "
            "compute it again with overwrite=True"
        )
    done = [Tally(journal, p.index, len(p.grid)).update().done for p in plan.passes]
    if ended and plan.intermediates and done != [len(p.grid) for p in plan.passes]:
        raise ValueError(
            f"cannot resume {journal.url}: the run has ended, but records are missing, and its "
            "intermediate results were removed; start anew with overwrite=True"
        )
    if not any(done):
        return
    for sink in plan.sinks:
        if sink.existing_run() != journal.run_id and not (ended and sink in plan.intermediates):
            raise ValueError(
                f"cannot resume {journal.url}: its output {sink.name} is missing or was written by "
                "another run; start anew with overwrite=True"
            )
