"""One run of a plan: what every worker needs of it, and the steps that every runner makes alike."""

from __future__ import annotations

import json
import pickle
import resource
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.across.rounds import Flow, at_once
from beam_volumes.graph.nodes import evaluate, number_token
from beam_volumes.graph.volume import format_bytes
from beam_volumes.plan.adapt import repartitioned
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.journal import ENDED, Journal, run_folder
from beam_volumes.runs.manifest import Manifest, compare
from beam_volumes.runs.record import Record, packed, ranges
from beam_volumes.session.compilation import compilation_told
from beam_volumes.session.recall import Request, pack, python_version, recall
from beam_volumes.storage.arrays import ArrayReader
from beam_volumes.storage.context import configure
from beam_volumes.storage.kvstore import is_local, join, kvstore_spec, url
from beam_volumes.storage.sink import OutputExistsError, Sink
from beam_volumes.storage.tables import TableSink
from beam_volumes.sweep.blame import blaming
from beam_volumes.sweep.executor import SlabResult, sweep
from beam_volumes.sweep.meter import Meter
from beam_volumes.sweep.program import Surveyed
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.resources import gate
from beam_volumes.version import __version__


@dataclass(frozen=True, eq=False)
class Emission:
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
    ) -> Session:
        """A new run, or with ``resume`` the one whose journal is there; nothing is written yet.

        Raises
        ------
        ValueError
            The run to be resumed computes something else (the message names the field), or an output
            exists and neither ``resume`` nor ``overwrite`` is given.
        """
        if resume and overwrite:
            raise ValueError(
                "resume=True continues a run and overwrite=True replaces it; choose one"
            )
        place = journal_place(plan, journal)
        found = Journal.load(place) if place is not None and resume else None
        if found is not None and place is not None:
            manifest = make_manifest(plan, found.run_id)
            different = compare(found, manifest)
            if different:
                raise ValueError(
                    f"cannot resume {Journal(place, '').url}: this run differs in {different[0].field} "
                    f"({len(different)} field(s) in all); start anew with overwrite=True"
                )
            begun = Journal(join(place, directory=True), found.run_id, attempts)
            plan = repartitioned(
                _as_begun(plan, begun, found),
                [p["slab"] for p in found.passes],
                [p["window"] for p in found.passes],
            )
            check_outputs_are_there(plan, begun)
            return cls(plan, found.run_id, begun, request=request)
        run_id = uuid.uuid4().hex
        for target in plan.sinks:
            if not overwrite and target not in plan.intermediates and target.exists():
                raise OutputExistsError(
                    f"the output {target.name} exists: pass overwrite=True to replace it, resume=True to "
                    "continue the run that began it, or choose another path"
                )
        book = None if place is None else Journal(join(place, directory=True), run_id, attempts)
        return cls(plan, run_id, book, overwrite, request)

    def prepare(self) -> None:
        """Write the manifest and create the outputs, once per run; repeating it changes nothing."""
        if self.journal is not None:
            manifest = Journal.load(self.journal.spec)
            if manifest is None or manifest.run_id != self.run_id:
                kept, closed = pack(self)
                # A folder left by a run that is being replaced, or whose output is gone.
                Journal.create(
                    self.journal.spec,
                    replace(make_manifest(self.plan, self.run_id), closed=closed),
                    plan=kept,
                    overwrite=self.overwrite
                    or manifest is None
                    or not any(sink.exists() for sink in self.plan.sinks),
                    attempts=self.journal.attempts,
                )
        ended = self.journal is not None and self.journal.marked(ENDED)
        for sink in self.plan.sinks:
            internal = sink in self.plan.intermediates
            if not (ended and internal):
                sink.create(self.run_id, overwrite=self.overwrite or internal)

    def slab(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None = None,
        count: Callable[[SlabResult], None] | None = None,
    ) -> Emission:
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
            record = self.journal.read_record(pass_index, index)
            if record is not None:
                return pickle.loads(record.emission)
        box = self.plan.passes[pass_index].grid.box(index)
        where = f"pass {pass_index + 1}, slab {index} {box}"
        with blaming(where), compilation_told(self.journal):
            return self._swept(pass_index, index, known, answers, count)

    def _swept(
        self,
        pass_index: int,
        index: int,
        known: dict[str, Any],
        answers: Mapping[str, Any] | None,
        count: Callable[[SlabResult], None] | None,
    ) -> Emission:
        p = self.plan.passes[pass_index]
        attempt = self.journal.start(pass_index, index) if self.journal is not None else ""
        started = time.time()
        configure(self.plan.threads)
        values = {v.token: evaluate(v, dict(known)) for v in p.values}
        # However many sweeps a runner starts at once in a process, so many are admitted.
        width = self.sweeps or -(-self.plan.workers // self.plan.processes)
        with gate(width).admitted() as arena:
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
                room=p.room,
                meter=self.meters[pass_index] if self.meters else None,
            )
        states = dict(result.states)
        for b, _ in self._loads(pass_index):
            states[load_token(b)] = b.survey.load_of(p.grid, index, result.summaries[b.token])
        emission = Emission(states, result.summaries)
        if count is not None:
            count(result)
        if self.journal is not None:
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
            self.journal.write_record(pass_index, index, record)
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
        known = dict(known)
        values = {v.token: evaluate(v, known) for v in p.values}
        for b, load in self._loads(pass_index):
            load.finish(states[load_token(b)], ())
        found = {
            f.token: f.reduction.finish(states[f.token], tuple(values[t] for t in f.values))
            for f in p.program.folds
        }
        known.update(found)
        if self.journal is not None and found:
            self.journal.write_scalars(pass_index, found)
        return known

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
        loads = ((b, b.survey.load(p.grid, p.room)) for b in p.program.surveys)
        return [(b, load) for b, load in loads if load is not None]

    def flows(self, pass_index: int) -> dict[str, Flow]:
        """By barrier, how what was found in a pass is merged."""
        p = self.plan.passes[pass_index]
        flows = {b.token: b.survey.flow(p.grid) for b in p.program.surveys}
        # One process has room for what the slabs that are in flight at a time leave.
        if len(p.grid) <= -(-self.plan.workers // self.plan.processes):
            return {token: at_once(flow) for token, flow in flows.items()}
        return flows

    def write_rows(self, token: str, shard: int, columns: Mapping[str, Any]) -> None:
        """Write a shard of a barrier's table wherever it is wanted; may be repeated."""
        for sink in self.plan.tables.get(token, ()):
            sink.write(shard, columns)

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
        for b in p.program.surveys:
            for sink in self.plan.tables.get(b.token, ()):
                if not len(p.grid):
                    sink.write(0, b.survey.no_rows(p.program.shape))
                sink.finish({**b.survey.nothing(), **numbers.get(b.token, {})}["shards"])
        found = {
            number_token(b.token, name): number
            for b in p.program.surveys
            for name, number in {**b.survey.nothing(), **numbers.get(b.token, {})}.items()
        }
        if self.journal is not None and p.program.surveys:
            folds = {f.token: known[f.token] for f in p.program.folds}
            self.journal.write_scalars(pass_index, folds | found)
        return known | found


def load_token(seen: Surveyed) -> str:
    """Under which token the load of a survey's merge is reduced."""
    return f"{seen.token} load"


def _as_begun(plan: Plan, journal: Journal, manifest: Manifest) -> Plan:
    """The plan that a run was begun with, for the machine of a plan that computes the same.

    What is stored between passes, and how many there are, may depend on memory and slabs.
    """
    if not manifest.closed:
        begun, _ = recall(journal)
        how = ("memory", "workers", "processes", "threads", "base", "targets", "returns")
        return replace(begun, **{name: getattr(plan, name) for name in how})
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


def check_outputs_are_there(plan: Plan, journal: Journal) -> None:
    """Refuse to resume a run whose records speak of outputs that are gone or replaced."""
    ended = journal.marked(ENDED)
    if ended and any(sink in plan.intermediates for sink in plan.results):
        raise ValueError(
            f"the run in {journal.url} has ended, and what it gave back in memory is gone; "
            "compute it again with overwrite=True"
        )
    done = [len(journal.finished(p.index)) for p in plan.passes]
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


def check_remote(plan: Plan, journal: Any, runner: str) -> None:
    """Refuse local paths for a runner whose workers are never on this machine."""
    book = journal_place(plan, journal)
    steps = [s for p in plan.passes for s in p.program.steps]
    sources = [s.source.stored for s in steps if s.source is not None]
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
    if plan.scratch_place is not None and is_local(plan.scratch_place):
        here.append(f"what lies between passes or comes back in memory, {url(plan.scratch_place)},")
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
