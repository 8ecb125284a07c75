"""One run of a plan: what every worker needs of it, and the steps that every runner makes alike."""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.across.rounds import Flow, at_once
from beam_volumes.graph.nodes import Value, evaluate, number_token
from beam_volumes.graph.volume import options as settings
from beam_volumes.plan.adapt import repartitioned
from beam_volumes.plan.in_place import check_in_place
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.scratch import with_scratch
from beam_volumes.runs.failure import as_data, may_pass, revived
from beam_volumes.runs.journal import ENDED, PREPARED, Journal, Tally, run_folder
from beam_volumes.runs.manifest import Manifest, compare
from beam_volumes.runs.record import Record, packed, ranges
from beam_volumes.session.compilation import compilation_told
from beam_volumes.session.large import InJournal, at_hand, by_name, numbers_of
from beam_volumes.session.resume import Request, load_plan, python_version, save_plan
from beam_volumes.storage.arrays import ArrayReader
from beam_volumes.storage.claims import ANY, Superseded, lost
from beam_volumes.storage.context import configure
from beam_volumes.storage.durable import flush
from beam_volumes.storage.formats.tables import TableSink
from beam_volumes.storage.kvstore import Spec, is_local, join, kvstore_spec, url
from beam_volumes.storage.remove import remove_tree
from beam_volumes.storage.sink import OutputExistsError, Sink
from beam_volumes.sweep.error_context import error_context
from beam_volumes.sweep.executor import SlabResult, sweep
from beam_volumes.sweep.meter import Meter
from beam_volumes.sweep.nesting import check_not_nested
from beam_volumes.sweep.program import Surveyed
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.resources import gate
from beam_volumes.text import format_bytes
from beam_volumes.version import __version__

#: By token.
Numbers = dict[str, Any]


@dataclass(frozen=True, eq=False)
class SlabPartials:
    """What a slab sends on.

    Attributes
    ----------
    states : dict
        Of reductions, by token; small.
    summaries : dict
        Of surveys, by barrier.
    """

    states: dict[str, Any] = field(default_factory=dict)
    summaries: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Session:
    """A plan under way; picklable, and the same on every worker.

    Attributes
    ----------
    plan : Plan
    run_id : str
        Differs between two runs into the same outputs.
    journal : Journal or None
        None for a run that writes no output.
    overwrite : bool
    request : Request or None
        None for a step of somebody's pipeline.
    sweeps : int, optional
        How many a process admits at a time, where other runs have a share in them: by default this
        plan's slabs in flight.
    meters : tuple of Meter, optional
        For each pass what adds up where its time goes; in this process only.
    """

    plan: Plan
    run_id: str
    journal: Journal | None
    overwrite: bool = False
    request: Request | None = None
    sweeps: int | None = None
    meters: tuple[Meter, ...] = ()
    #: Whether disks hold voxels before records speak of them.
    durable: bool = field(default_factory=lambda: settings.durable)
    #: Tells a run that is continued from the same before.
    launch: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: By place of the journal and of the outputs, the run that was there when this one was asked for.
    replaces: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        plan: Plan,
        *,
        journal: Any = None,
        resume: bool = False,
        overwrite: bool = False,
        attempts: bool = True,
        request: Request | None = None,
        run_id: str | None = None,
        scratch: Any = None,
    ) -> Session:
        """A new run, or with ``resume`` the one whose journal is there; nothing is written yet.

        Parameters
        ----------
        plan : Plan
        journal : path, optional
            Where the journal is kept instead of beside the first output.
        resume, overwrite, attempts : bool
        request : Request, optional
        run_id : str, optional
            The run's name instead of a random one.
        scratch : path, optional
            Where a run without a journal stores what lies between its passes; by default on this machine.

        Raises
        ------
        ValueError
            The run to be resumed computes something else (the message names the field), or an output
            exists and neither ``resume`` nor ``overwrite`` is given, or the journal is another run's.
        """
        check_not_nested()
        if resume and overwrite:
            raise ValueError(
                "resume=True continues a run and overwrite=True replaces it; choose one"
            )
        place = journal_place(plan, journal)
        if journal is not None and place is not None:
            check_in_place(plan.inputs, outputs_of(plan), [place])
        found = Journal.load(place) if place is not None and resume else None
        if found is not None and place is not None:
            manifest = make_manifest(plan, found.run_id)
            different = compare(found, manifest)
            if different:
                raise ValueError(
                    f"cannot resume {Journal(place, '').url}: this run differs in {different[0].field} "
                    f"({len(different)} field(s) in all); start anew with overwrite=True"
                )
            if run_id not in (None, found.run_id):
                raise ValueError(f"resume=True continues the run {found.run_id}, not {run_id!r}")
            begun = Journal(join(place, directory=True), found.run_id, attempts)
            plan = with_scratch(plan, scratch_of(begun))
            return cls._going_on(_as_begun(plan, begun, found), begun, found, request)
        outputs = outputs_of(plan)
        there = {sink.name: sink.begun_run() for sink in outputs}
        for sink in outputs:
            if not overwrite and sink.exists():
                raise OutputExistsError(
                    f"the output {sink.name} exists: pass overwrite=True to replace it, resume=True to "
                    "continue the run that began it, or choose another path"
                )
        run_id = run_id or uuid.uuid4().hex
        if place is None:
            if scratch is not None:
                where = f"beam-volumes-{run_id}-intermediate"
                plan = with_scratch(plan, join(kvstore_spec(scratch), where))
            return cls(plan, run_id, None, overwrite, request, replaces=there)
        book = Journal(join(place, directory=True), run_id, attempts)
        there[book.url] = check_replaceable(book, outputs, overwrite)
        plan = with_scratch(plan, scratch_of(book))
        return cls(plan, run_id, book, overwrite, request, replaces=there)

    @classmethod
    def continued(cls, plan: Plan, journal: Journal, request: Request) -> Session:
        """The run of a journal, with what was recalled of it; nothing is written yet."""
        check_not_nested()
        manifest = Journal.load(journal.spec)
        if manifest is None or manifest.run_id != journal.run_id:
            raise ValueError(f"cannot resume {journal.url}: another run has replaced it just now")
        return cls._going_on(plan, journal, manifest, request)

    @classmethod
    def _going_on(
        cls, plan: Plan, journal: Journal, manifest: Manifest, request: Request | None
    ) -> Session:
        plan = repartitioned(
            plan, [p["slab"] for p in manifest.passes], [p["window"] for p in manifest.passes]
        )
        check_outputs_are_there(plan, journal)
        there = {sink.name: sink.begun_run() for sink in outputs_of(plan)}
        there[journal.url] = journal.run_id
        return cls(plan, journal.run_id, journal, request=request, replaces=there)

    def prepare(self) -> None:
        """Write the manifest and create the outputs, once per run; repeating it changes nothing.

        Raises
        ------
        Superseded
            Another run has taken the place since this one was asked for.
        """
        outputs, journal = outputs_of(self.plan), self.journal
        if journal is not None and journal.now() != self.run_id:
            made = next((s for s in outputs if s.begun_run() == self.run_id), None)
            if made is not None:  # it was prepared, and then its journal removed or replaced
                journal.check()
            kept, closed = save_plan(self.plan, self.request)
            Journal.create(
                journal.spec,
                replace(make_manifest(self.plan, self.run_id), closed=closed),
                plan=kept,
                overwrite=True,  # `begin` has seen that it may be replaced
                attempts=journal.attempts,
                replaces=self.replaces.get(journal.url, ANY),
            )
        for sink in outputs:
            before = self.replaces.get(sink.name, ANY)
            sink.create(self.run_id, overwrite=self.overwrite, replaces=before)
        if journal is None or not journal.marked(ENDED):
            for sink in self.plan.intermediates:
                sink.create(self.run_id, overwrite=True)
        if journal is not None and not journal.marked(PREPARED):
            self._flush(outputs)
            journal.mark(PREPARED)
        if journal is not None and journal.marked(ENDED):
            self._remove_scratch()  # of a first step that came late

    def check(self, sinks: Iterable[Any] = ()) -> None:
        """Raise `Superseded` unless the run is still its manifest's, and outputs are still its own."""
        watched = [(sink, seen) for sink in sinks if (seen := sink.watched(self.run_id))]
        if self.journal is not None:
            watched.insert(0, (self.journal, self.journal.watched))
        gone = lost(seen for _, seen in watched)
        for thing, seen in watched:
            if seen in gone and thing is self.journal:
                self.journal.check()
            if seen in gone:
                now = thing.existing_run()
                raise Superseded(
                    f"{thing.name} is {'gone' if now is None else f'that of the run {now} by now'}: "
                    f"nothing more of the run {self.run_id} is written"
                )

    def end(self) -> None:
        """Say that the run has ended well, and remove what it stored for itself; may be repeated."""
        if self.journal is not None:
            self.check(outputs_of(self.plan))
            self._flush(self.plan.sinks)
            self.journal.mark(ENDED)
            self._flush()
        self._remove_scratch()

    def _flush(self, sinks: Iterable[Any] = ()) -> None:
        """Wait until disks hold what was written, and the journal, if that is asked for."""
        if self.durable and self.journal is not None:
            flush([self.journal.spec, *(sink.kvstore for sink in sinks)])

    def _remove_scratch(self) -> None:
        if self.plan.scratch_place is not None:
            remove_tree(self.plan.scratch_place)

    def slab(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None = None,
        count: Callable[[SlabResult], None] | None = None,
    ) -> SlabPartials:
        """Sweep a slab and record it, or read what its record says.

        Parameters
        ----------
        pass_index, index : int
        known : dict
            Numbers by token.
        answers : mapping, optional
            By barrier, what came back to the slab.
        count : callable, optional
            Told of every slab that was swept.

        Raises
        ------
        Exception
            Whatever went wrong, with pass, slab, box and stage in its message.
        """
        if self.journal is not None:
            record, failure = self.journal.look(pass_index, index, self.launch)
            if record is not None:
                return pickle.loads(record.emission)
            if failure is not None:
                raise revived(failure)
        box = self.plan.passes[pass_index].grid.box(index)
        where = f"pass {pass_index + 1}, slab {index} {box}"
        noted = self._noted(f"pass-{pass_index}-slab-{index}")
        with noted, error_context(where), compilation_told(self.journal):
            try:
                return self._swept(pass_index, index, known, answers, count)
            except OSError:
                # What it reads or writes may be gone because the run has ended, or is another's by now.
                record = self._finished_meanwhile(pass_index, index)
                if record is None:
                    raise
                return pickle.loads(record.emission)

    @contextmanager
    def _noted(self, step: str) -> Iterator[None]:
        """Leave in the journal what goes wrong in a step, if it is for all attempts to go wrong of."""
        try:
            yield
        except Exception as error:
            if self.journal is not None and not may_pass(error):
                with suppress(OSError):  # what went wrong is to be told, not that it is not noted
                    self.journal.note_failure(step, self.launch, as_data(error))
            raise

    def _finished_meanwhile(self, pass_index: int, index: int) -> Record | None:
        """The record of a slab that another attempt has finished, while this one failed."""
        if self.journal is None:
            return None
        try:
            self.journal.check()
            return self.journal.read_record(pass_index, index)
        except Superseded:
            raise
        except (OSError, ValueError):  # what went wrong before is to be told
            return None

    def _swept(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None,
        count: Callable[[SlabResult], None] | None,
    ) -> SlabPartials:
        p = self.plan.passes[pass_index]
        sinks = [output.sink for output in p.program.outputs]
        self.check(sinks)
        attempt = self.journal.start(pass_index, index) if self.journal is not None else ""
        started = time.time()
        configure(self.plan.threads)
        near = at_hand(known, p.values, self.journal)
        values = {v.token: evaluate(v, near) for v in p.values}
        # However many sweeps a runner starts at once in a process, so many are admitted.
        with gate.admitted(self.sweeps or self.plan.sweeps_a_process) as arena:
            result = sweep(
                p.program,
                p.grid,
                index,
                values,
                arena,
                window=p.partition.window,
                threads=self.plan.threads,
                overlap=p.partition.overlap,
                answers=answers,
                limit_bytes=p.limit_bytes,
                may_write=NowAndThen(lambda: self.check(sinks)),
                meter=self.meters[pass_index] if self.meters else None,
            )
        states = dict(result.states)
        for b, _ in self._loads(pass_index):
            states[load_token(b)] = b.survey.load_of(p.grid, index, result.summaries[b.token])
        emission = SlabPartials(states, result.summaries)
        if count is not None:
            count(result)
        if self.journal is not None:
            self.check(sinks)
            record = Record(
                index,
                p.grid.box(index),
                attempt,
                started,
                time.time() - started,
                result.bytes_read,
                result.bytes_written,
                peak_memory(),
                {name: ranges(units) for name, units in result.written.items()},
                {name: ranges(units) for name, units in result.empty.items()},
                pickle.dumps(emission, protocol=5),
                {name: packed(sums) for name, sums in result.sums.items()},
            )
            self.journal.write_record(pass_index, index, record, lambda: self._flush(sinks))
        return emission

    def finish_pass(
        self, pass_index: int, states: dict[str, Any], known: dict[str, Any]
    ) -> dict[str, Any]:
        """The numbers known after a pass, from those before it and its folds' merged states.

        Raises
        ------
        ValueError
            Merging what surveys found would take more memory than there is.
        """
        p = self.plan.passes[pass_index]
        near = at_hand(known, p.values, self.journal)
        if self.journal is not None and (failure := self.journal.failure(self.launch)) is not None:
            raise revived(failure)
        with self._noted(f"finish-{pass_index}"):
            values = {v.token: evaluate(v, near) for v in p.values}
            for b, load in self._loads(pass_index):
                load.finish(states[load_token(b)], ())
            found = {
                f.token: f.reduction.finish(states[f.token], tuple(values[t] for t in f.values))
                for f in p.program.folds
            }
        if self.journal is not None and found:
            self.journal.check()
            self.journal.write_scalars(pass_index, found)
        return known | found

    def by_name(self, before: Numbers, known: Numbers, pass_index: int) -> Numbers:
        """What is known after a pass, for a message: what is large stays in the journal."""
        return known if self.journal is None else by_name(before, known, pass_index)

    def number(self, value: Value, known: Numbers) -> Any:
        """The number of a value."""
        return evaluate(value, at_hand(known, [value], self.journal))

    def put_together(
        self, pass_index: int, pieces: Iterable[tuple[str, int, Any]]
    ) -> dict[str, Any]:
        """The states of a pass of their merged pieces: tokens, numbers and pieces."""
        by_token: dict[str, dict[int, Any]] = {}
        for token, number, piece in pieces:
            by_token.setdefault(token, {})[number] = piece
        reductions = self.reductions(pass_index)
        return {token: reductions[token].put_together(some) for token, some in by_token.items()}

    def merge(self, pass_index: int, parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """The states of many slabs as one."""
        reductions = self.reductions(pass_index)
        merged = {token: reduction.zero() for token, reduction in reductions.items()}
        for part in parts:
            for token, state in part.items():
                merged[token] = reductions[token].merge(merged[token], state)
        return merged

    def reductions(self, pass_index: int) -> dict[str, Reduction]:
        """All that a pass reduces, by token."""
        folds = {f.token: f.reduction for f in self.plan.passes[pass_index].program.folds}
        return folds | {load_token(b): load for b, load in self._loads(pass_index)}

    def _loads(self, pass_index: int) -> list[tuple[Surveyed, Reduction]]:
        p = self.plan.passes[pass_index]
        loads = ((b, b.survey.load(p.grid, p.limit_bytes)) for b in p.program.surveys)
        return [(b, load) for b, load in loads if load is not None]

    def flows(self, pass_index: int) -> dict[str, Flow]:
        """By barrier, how what was found in a pass is merged."""
        p = self.plan.passes[pass_index]
        flows = {b.token: b.survey.flow(p.grid, p.limit_bytes) for b in p.program.surveys}
        # One process has room for what the slabs that are in flight at a time leave.
        if len(p.grid) <= self.plan.sweeps_a_process:
            return {token: at_once(flow) for token, flow in flows.items()}
        return flows

    def write_rows(self, token: str, shard: int, columns: Mapping[str, Any]) -> None:
        """Write a shard of a barrier's table wherever it is wanted; may be repeated."""
        self.check()
        for sink in self.plan.tables.get(token, ()):
            sink.write(shard, columns, self.run_id)

    def finish_merge(
        self,
        pass_index: int,
        numbers: Mapping[str, Mapping[str, Any]],
        known: dict[str, Any],
    ) -> dict[str, Any]:
        """The numbers known after a pass and the merges of its surveys (by barrier and name).

        Once all rows of its tables are written, so that those are complete.
        """
        p = self.plan.passes[pass_index]
        self.check()
        for b in p.program.surveys:
            for sink in self.plan.tables.get(b.token, ()):
                if not len(p.grid):
                    sink.write(0, b.survey.no_rows(p.program.shape), self.run_id)
                shards = {**b.survey.empty_numbers(), **numbers.get(b.token, {})}["shards"]
                sink.finish(shards, self.run_id, self.durable)
        found = {
            number_token(b.token, name): number
            for b in p.program.surveys
            for name, number in {**b.survey.empty_numbers(), **numbers.get(b.token, {})}.items()
        }
        if self.journal is not None and p.program.surveys:
            folds = {f.token: known[f.token] for f in p.program.folds}
            if any(isinstance(number, InJournal) for number in folds.values()):
                there = numbers_of(self.journal, pass_index)
                folds = {token: there[token] for token in folds}
            self.journal.write_scalars(pass_index, folds | found)
        return known | found


class NowAndThen:
    """Calls a check, but not more often than costs a hundredth of the time."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check, self._next = check, 0.0

    def __call__(self) -> None:
        begin = time.perf_counter()
        if begin >= self._next:
            self._check()
            end = time.perf_counter()
            self._next = end + 100 * (end - begin)


def outputs_of(plan: Plan) -> list[Any]:
    """What a run writes for others."""
    return [sink for sink in plan.sinks if sink not in plan.intermediates]


def scratch_of(journal: Journal) -> Spec:
    """Where a run stores what lies between its passes."""
    return join(journal.own, "intermediate")


def check_replaceable(journal: Journal, outputs: Sequence[Any], overwrite: bool) -> str | None:
    """The run whose journal is there, if it may be replaced by that of a run with these outputs.

    Raises
    ------
    OutputExistsError
        It may not: it has not ended, or it is not to be overwritten.
    """
    try:
        manifest = Journal.load(journal.spec)
    except ValueError:
        if overwrite:
            return journal.now()
        raise
    if manifest is None or manifest.run_id == journal.run_id:
        return None if manifest is None else manifest.run_id
    now, other = manifest.run_id, Journal(journal.spec, manifest.run_id)
    writes = [_reopened(o) for o in manifest.outputs if not o["internal"]]
    names = [sink.name for sink in writes]
    if other.marked(PREPARED) and names and all(sink.begun_run() != now for sink in writes):
        return now  # what it wrote is gone
    ended = other.marked(ENDED)
    if ended and not names:
        return now  # numbers were given back: nothing speaks of it any more
    same = bool({_where(s) for s in outputs} & {*map(_where, writes)}) or not (outputs or names)
    if overwrite and (ended or same):
        return now
    wrote = f"{', '.join(names[:3])}{', ...' if names[3:] else ''}" if names else "numbers alone"
    remedy = "resume=True continues it, overwrite=True replaces it"
    if not same:
        also = "overwrite=True replaces it" if ended else "continue that one, or remove the folder"
        remedy = f"give this run a journal= of its own; otherwise {also}"
    raise OutputExistsError(
        f"{journal.url} is the journal of the run {now}, which {'has ended' if ended else 'is unfinished'} "
        f"(it writes {wrote}): {remedy}"
    )


def _where(sink: Any) -> str:
    """An output's place, whatever it is called."""
    return os.path.realpath(sink.name) if is_local(sink.kvstore) else str(sink.name)


def _reopened(output: Mapping[str, Any]) -> Sink | TableSink:
    return Sink.from_dict(output) if "shape" in output else TableSink.from_dict(output)


def load_token(seen: Surveyed) -> str:
    """Under which token the load of a survey's merge is reduced."""
    return f"{seen.token} load"


def _as_begun(plan: Plan, journal: Journal, manifest: Manifest) -> Plan:
    """The plan that a run was begun with, for the machine of a plan that computes the same.

    What is stored between passes, and how many there are, may depend on memory and slabs.
    """
    if not manifest.closed:
        begun, _ = load_plan(journal)
        how = ("memory", "workers", "processes", "threads", "base", "targets", "returns")
        asked = {name: getattr(plan, name) for name in how}
        return replace(begun, results=_as_asked(begun.results, plan.results), **asked)
    stored = {o["name"]: o for o in manifest.outputs if o["internal"]}
    for sink in plan.intermediates:
        now, then = json.loads(json.dumps(sink.to_dict())), stored.get(sink.name, {})
        if any(now.get(name) != then.get(name) for name in ("chunk", "shard")):
            slabs = ", ".join(str(tuple(p["slab"])) for p in manifest.passes)
            raise ValueError(
                f"cannot resume {journal.url}: it stores {sink.name} between its passes in other chunks; "
                f"resume it with the memory= and slab= it was begun with (its slabs are {slabs})"
            )
    return plan


def _as_asked(begun: Sequence[Any], now: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a run in the order in which they are asked for now.

    Volumes are in one order among themselves, and so are numbers: else it is another run.
    """

    def kind(result: Any) -> str:
        if isinstance(result, TableSink):
            return result.name.rpartition("/")[2]
        return "number" if isinstance(result, Value) else "volume"

    left: dict[str, list[Any]] = {}
    for result in begun:
        left.setdefault(kind(result), []).append(result)
    return tuple(left[kind(result)].pop(0) for result in now)


def check_outputs_are_there(plan: Plan, journal: Journal) -> None:
    """Refuse to resume a run whose records speak of outputs that are gone or replaced."""
    ended = journal.marked(ENDED)
    if ended and any(sink in plan.intermediates for sink in plan.results):
        raise ValueError(
            f"the run in {journal.url} has ended, and what it gave back in memory is gone; "
            "compute it again with overwrite=True"
        )
    done = [Tally(journal, p.index, len(p.grid)).update().done for p in plan.passes]
    if ended and plan.intermediates and done != [len(p.grid) for p in plan.passes]:
        raise ValueError(
            f"cannot resume {journal.url}: the run has ended, but records are missing, and what it stored "
            "between its passes is removed; start anew with overwrite=True"
        )
    if not any(done):
        return
    for sink in plan.sinks:
        if sink.existing_run() != journal.run_id and not (ended and sink in plan.intermediates):
            raise ValueError(
                f"cannot resume {journal.url}: its output {sink.name} is gone or was written by another "
                "run; start anew with overwrite=True"
            )


def check_portable(planned: Plan, journal: Any = None) -> None:
    """Refuse what other processes cannot open; ``journal`` is where the user wants it, if they say so."""
    if journal is not None and kvstore_spec(journal).get("driver") == "memory":
        raise ValueError(
            f"the journal {journal} is memory of this process; use a path or runner=None"
        )
    for p in planned.passes:
        for step in p.program.steps:
            if step.source is not None and not step.source.portable:
                raise ValueError(
                    f"{step.source.name} lives in this process ({format_bytes(step.source.nbytes)}): "
                    "a pipeline's workers cannot read it; use runner=None, or write it to a .zarr first"
                )
        sinks: list[Sink | TableSink] = [output.sink for output in p.program.outputs]
        for b in p.program.surveys:
            sinks += planned.tables.get(b.token, ())
        for sink in sinks:
            if not sink.portable:
                raise ValueError(
                    f"{sink.name} is memory of this process; use runner=None or a path"
                )


def check_scratch(plan: Plan, journal: Any, scratch: Any, workers: str) -> None:
    """Refuse to keep on this machine what workers that may be elsewhere store for the run.

    Parameters
    ----------
    plan : Plan
    journal, scratch
        As of `Session.begin`.
    workers : str
        How messages call the workers.
    """
    if plan.scratch_place is None or journal_place(plan, journal) is not None or scratch:
        return
    raise ValueError(
        f"what lies between passes or comes back in memory would be stored on this machine, and {workers} "
        "may be on others: write the results with .to(path), or give journal=, a folder that all of them "
        "share, such as a bucket (bv.compute also takes temp_location in options)"
    )


def check_remote(plan: Plan, journal: Any, runner: str, scratch: Any = None) -> None:
    """Refuse local paths for a runner whose workers are never on this machine."""
    book = journal_place(plan, journal)
    steps = [s for p in plan.passes for s in p.program.steps]
    own = {sink.name for sink in plan.sinks}
    sources = [s.source.stored for s in steps if s.source is not None and s.source.name not in own]
    # Small arrays travel with the plan.
    here = [
        f"the input {source.name}"
        for source in sources
        if not source.reader.remote and not isinstance(source.reader, ArrayReader)
    ]
    outputs = [sink for sink in plan.sinks if sink not in plan.intermediates]
    here += [f"the output {sink.name}" for sink in outputs if is_local(sink.kvstore)]
    if book is not None and is_local(book):
        here.append(f"the journal {url(book)}")
    if plan.scratch_place is not None:
        root = book or (kvstore_spec(scratch) if scratch else plan.scratch_place)
        if is_local(root):
            here.append(f"what lies between passes or comes back in memory, {url(root)},")
    if here:
        raise ValueError(
            f"{here[0]} is on this machine, where {runner} has no workers; use a bucket, gs:// or s3://"
        )


def journal_place(plan: Plan, journal: Any) -> dict[str, Any] | None:
    """Where a plan's journal is kept: beside its first output, or where the user says."""
    if journal is not None:
        return join(kvstore_spec(journal), directory=True)
    outputs = [
        s
        for s in plan.results
        if s is not None and hasattr(s, "kvstore") and s not in plan.intermediates
    ]
    return run_folder(outputs[0].kvstore) if outputs else None  # type: ignore[union-attr]


def make_manifest(plan: Plan, run_id: str) -> Manifest:
    """The identity of a run of a plan."""
    d = plan.to_dict()
    return Manifest(
        run_id,
        plan.fingerprint,
        d.pop("passes"),
        [{**s.to_dict(), "internal": s in plan.intermediates} for s in plan.sinks],
        d,
        __version__,
        python_version(),
    )


def peak_memory() -> int:
    """The most memory this process has had resident so far, but for what is mapped of files.

    Those are libraries. How much of them is resident is the kernel's choice (large folios map 90 MiB more
    than small ones), and what it may drop without writing is not what a limit is exceeded by.
    """
    try:
        # Not `ru_maxrss`, where Linux counts in what the process had that started this one.
        with open("/proc/self/status") as status:
            kib = {line.split(":")[0]: line.split()[1] for line in status if line.endswith("kB\n")}
        return int(kib["VmHWM"]) - int(kib["RssFile"]) << 10
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
