"""A running computation: its data for every worker, and how it is prepared, checked and ended."""

from __future__ import annotations

import bz2
import hashlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

from beam_volumes.graph.options import options as settings
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.failure import as_data, may_pass
from beam_volumes.runs.journal import ENDED, PREPARED, Journal
from beam_volumes.runs.progress import Parts
from beam_volumes.session.identity import (
    Request,
    journal_place,
    make_manifest,
    save_plan,
    stamps_of,
)
from beam_volumes.session.provenance import document
from beam_volumes.storage.inputs.arrays import ArraySink
from beam_volumes.storage.outputs import provenance
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places import temporary
from beam_volumes.storage.places.claims import ANY, Superseded, lost
from beam_volumes.storage.places.context import forget_opened
from beam_volumes.storage.places.place import Place, is_local, url
from beam_volumes.storage.places.single_file import flush
from beam_volumes.storage.sources.stamps import changed
from beam_volumes.sweep.activity import Meter

#: Objects in use in this process, by the digest of their pickles.
_LIVE: WeakValueDictionary[bytes, OncePerProcess] = WeakValueDictionary()
_LOADING = threading.Lock()
_PACKED = "_packed"


class OncePerProcess:
    """An immutable object that is unpickled only once in a process; its bytes are compressed on first use.

    A runner pickles each step separately, and unpickles it for each thread.

    >>> import pickle
    >>> from beam_volumes.session.session import OncePerProcess
    >>> class Setting(OncePerProcess):
    ...     def __init__(self, value):
    ...         self.value = value
    >>> data = cloudpickle.dumps([Setting(7)])
    >>> a, b = pickle.loads(data), pickle.loads(data)
    >>> a[0].value, a[0] is b[0]
    (7, True)
    """

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        state = self.__dict__
        if _PACKED not in state:
            state[_PACKED] = bz2.compress(cloudpickle.dumps((type(self), dict(state))))
        return _unpickled, (state[_PACKED],)


def _unpickled(packed: bytes) -> OncePerProcess:
    name = hashlib.blake2b(packed, digest_size=16).digest()
    with _LOADING:  # concurrent threads wait for the first
        found = _LIVE.get(name)
        if found is None:
            # Arrays may have been replaced since the last run of this process.
            forget_opened()
            kind, state = cloudpickle.loads(bz2.decompress(packed))
            found = kind.__new__(kind)
            found.__dict__.update(state, **{_PACKED: packed})
            _LIVE[name] = found
        return found


@dataclass(frozen=True, eq=False)
class Session(OncePerProcess):
    """A running plan, from `session.begin` or `session.resume`; picklable, and the same on every worker."""

    plan: Plan
    #: Differs between runs with the same outputs.
    run_id: str
    #: None for a run without outputs.
    journal: Journal | None
    overwrite: bool = False
    #: None for a step of a user's pipeline.
    request: Request | None = None
    #: Sweeps that a process admits if it is shared by other runs; by default the plan's slabs in
    #: flight.
    sweeps: int | None = None
    #: Timings of each pass, in this process only.
    meters: tuple[Meter, ...] = ()
    #: Progress of slabs without a journal, in this process only.
    parts: Parts | None = None
    #: Provenance of the outputs without times; {} for a continued run.
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Whether voxels are flushed to disk before they are recorded.
    durable: bool = field(default_factory=lambda: settings.durable)
    #: Differs between the attempts of a continued run.
    launch: str = field(default_factory=lambda: uuid.uuid4().hex)
    #: How often a step that fails with the same error is retried.
    max_retries: int = 1
    #: Ids of the runs in the journal and outputs when this run was requested.
    replaces: Mapping[str, str | None] = field(default_factory=dict)
    #: The note in the outputs of a run without a journal, until it has ended.
    unfinished: Mapping[str, Any] | None = None
    #: Stamps of the inputs by name, for a run without a journal; otherwise in its manifest.
    inputs: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: Whether replaced outputs are deleted in parts.
    clears: bool = False
    #: A folder on this machine for the messages of merges; "" if the runner or `session.local` stores them.
    messages: str = ""
    #: Marks errors of this run in a runner's messages; "" if they are not parsed.
    secret: str = field(default="", repr=False)

    def prepare(self) -> None:
        """Write the manifest and create the outputs, once per run; may be repeated.

        Raises Superseded: another run has taken the place since this one was requested.
        """
        outputs, journal, closed = self.plan.outputs, self.journal, ""
        if journal is not None and journal.now() == self.run_id:
            manifest = Journal.load(journal.spec)
            closed = "" if manifest is None else manifest.closed
        elif journal is not None:
            made = next((s for s in outputs if s.begun_run() == self.run_id), None)
            if made is not None:  # it was prepared, and its journal was removed or replaced then
                journal.check()
            kept, closed = save_plan(self.plan, self.request)
            Journal.create(
                journal.spec,
                replace(
                    make_manifest(self.plan, self.run_id),
                    closed=closed,
                    about=dict(self.about),
                    inputs=stamps_of(self.plan),
                ),
                plan=kept,
                overwrite=True,  # `begin` has checked this
                attempts=journal.attempts,
                replaces=self.replaces.get(journal.url, ANY),
                in_parts=self.clears,
            )
        how = self.unfinished
        if journal is not None and outputs:
            how = self._how_to_continue(journal, closed)
        for sink in outputs:
            before = self.replaces.get(sink.name, ANY)
            sink.create(self.run_id, self.overwrite, before, how, in_parts=self.clears)
        self.make_scratch()
        if journal is None or not journal.marked(ENDED):
            for sink in self.plan.intermediates:
                sink.create(self.run_id, overwrite=True)
        if journal is not None and not journal.marked(PREPARED):
            self.flush(outputs)
            journal.mark(PREPARED)
        if journal is not None and journal.marked(ENDED):
            self.remove_scratch()  # left by a late first step

    def _how_to_continue(self, journal: Journal, closed: str) -> Mapping[str, Any]:
        """The note in outputs of an unfinished run."""
        start = journal.url
        if journal_place(self.plan, None) == journal.spec:
            start = url(self.plan.outputs[0].kvstore).rstrip("/")
        return {"start": start, "by": "program" if closed else "resume"}

    def check(self, sinks: Iterable[Any] = ()) -> None:
        """Raise `Superseded` unless the journal and the outputs still belong to the run."""
        watched = [(sink, claim) for sink in sinks if (claim := sink.watched(self.run_id))]
        if self.journal is not None:
            watched.insert(0, (self.journal, self.journal.watched))
        gone = lost(claim for _, claim in watched)
        for thing, claim in watched:
            if claim in gone and thing is self.journal:
                self.journal.check()
            if claim in gone:
                now = thing.existing_run()
                raise Superseded(
                    f"{thing.name} "
                    f"{'was deleted' if now is None else f'belongs to the run {now}'}: nothing "
                    f"more of the run {self.run_id} is written"
                )

    def check_inputs(self) -> None:
        """Refuse inputs that were replaced since the run was begun: results would be mixed."""
        inputs = self.inputs
        if self.journal is not None:
            if self.journal.marked(ENDED):
                return
            manifest = Journal.load(self.journal.spec)
            inputs = {**(manifest.inputs if manifest is not None else {}), **inputs}
        for name, stamps in inputs.items():
            if (place := changed(stamps)) is not None:
                shown = name if place == name else f"{name} ({place})"
                again = "" if self.journal is None else " with overwrite=True"
                raise ValueError(
                    f"the input {shown} has been replaced or changed since the run was begun, so "
                    f"its results would be mixed; start anew{again} when no program writes it any "
                    "more"
                )

    def end(self) -> None:
        """Mark the run as ended and remove its intermediate results; may be repeated."""
        journal = self.journal
        if journal is not None or self.unfinished is not None:
            self.check(self.plan.outputs)
            if journal is None or not journal.marked(ENDED):
                self._end_outputs()
        if journal is not None:
            self.flush(self.plan.sinks)
            journal.mark(ENDED)
            self.flush()
        self.remove_scratch()

    def _end_outputs(self) -> None:
        """Complete the metadata of outputs, and note in them that the run has ended."""
        for sink in self.plan.outputs:
            whole = isinstance(sink, Sink) and not sink.level and not any(sink.at or ())
            if whole and sink.pyramid is not None:
                sink.complete_metadata(self.run_id)
        if self.journal is not None:
            self._write_provenance(self.journal)
        for sink in {repr(s.extents): s for s in self.plan.outputs}.values():
            sink.note_ended(self.run_id)

    def _write_provenance(self, journal: Journal) -> None:
        """Write the provenance of each output next to it."""
        manifest = Journal.load(journal.spec)
        if manifest is None or manifest.run_id != self.run_id or not manifest.about:
            return
        for sink in self.plan.outputs:
            provenance.write(sink, document(manifest, sink.name))

    def flush(self, sinks: Iterable[Any] = ()) -> None:
        """Flush outputs and journal to disk, if the run is durable."""
        if self.durable and self.journal is not None:
            flush([self.journal.spec, *(sink.kvstore for sink in sinks)])

    def remove_scratch(self) -> None:
        """Remove the intermediate results."""
        place = self.plan.scratch_place
        if place is not None:
            Place.of(place).remove()
            if is_local(place):
                temporary.remove(str(place["path"]))

    def make_scratch(self) -> None:
        """Make the folder for intermediate results of a run without a journal, on this machine.

        It belongs to this process; if the process is killed, another one removes it.
        """
        place = self.plan.scratch_place
        if place is None or self.journal is not None or not is_local(place):
            return
        stored = [s for s in self.plan.intermediates if not isinstance(s, ArraySink)]
        if stored and temporary.is_temporary(str(place["path"])):
            temporary.make(str(place["path"]))

    @contextmanager
    def noted(self, step: str) -> Iterator[None]:
        """Record in the journal why a step fails."""
        try:
            yield
        except Exception as error:
            if self.journal is not None:
                with suppress(OSError):  # the original error is reported instead
                    if isinstance(error, OSError):
                        self._note_unread(self.journal, str(error))
                    if not may_pass(error):
                        data = as_data(error)
                        self.journal.note_failure(step, self.launch, data, self.max_retries)
            raise

    @staticmethod
    def _note_unread(journal: Journal, text: str) -> None:
        manifest = Journal.load(journal.spec)
        for stamps in manifest.inputs.values() if manifest is not None else ():
            for place, _ in stamps:
                if place in text:
                    journal.note_unread(place)
