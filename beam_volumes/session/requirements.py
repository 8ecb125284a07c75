"""Requirements of workers: access to the places of a run, and memory."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.text import format_bytes
from beam_volumes.plan.cost.machine import free_memory
from beam_volumes.plan.plan import Plan
from beam_volumes.runs import Journal
from beam_volumes.session.identity import journal_place
from beam_volumes.session.session import Session
from beam_volumes.storage.inputs.arrays import ArrayReader, MappedMask
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.outputs.table_sink import TableSink
from beam_volumes.storage.places.place import Place, Spec, is_local, kvstore_spec, url

#: A file by which workers check that they share the journal's place with the requesting machine.
ASKED = "asked"


@dataclass(frozen=True)
class WorkerRequirements:
    """Places that a worker must be able to read and write, and its memory."""

    #: ``asked`` has written a mark into it.
    journal: Journal
    #: The machine that begins the run.
    asked: str
    #: Places of outputs, the journal, and intermediate results.
    places: tuple[Spec, ...]
    #: Predicted memory of a process in bytes.
    memory: int

    @classmethod
    def of(cls, session: Session, asked: str) -> WorkerRequirements:
        """The requirements of a session with a journal."""
        assert session.journal is not None
        plan = session.plan
        sinks = [sink.kvstore for sink in plan.outputs]
        scratch = [] if plan.scratch_place is None else [plan.scratch_place]
        return cls(
            session.journal, asked, (session.journal.spec, *sinks, *scratch), plan.process_memory
        )

    def check(self) -> None:
        """Raise OSError if this process does not meet the requirements."""
        host = socket.gethostname()
        self._check_shared(host)
        for place in self.places:
            try:
                Place.of(place).check_writable()
            except OSError as error:
                raise OSError(f"the worker on {host}: {error}") from None
        free = free_memory()
        if free < self.memory:
            raise OSError(
                f"the worker on {host} has {format_bytes(free)} of memory, but a worker process "
                f"of this run may need {format_bytes(self.memory)}: give memory={free >> 20}MiB "
                "or less, or give the worker more memory"
            )

    def _check_shared(self, host: str) -> None:
        """A worker that does not share the journal would lose its results in local folders."""
        if self.journal.marked(ASKED):
            return
        manifest = Journal.load(self.journal.spec)  # exists if a runner repeats this
        if manifest is None or manifest.run_id != self.journal.run_id:
            raise OSError(
                f"the worker on {host} cannot access {self.journal.url}, where {self.asked} has "
                "begun this run: use places that all machines share, such as a bucket, or give "
                "journal= or Beam's temp_location"
            )


def check_portable(planned: Plan, journal: Any = None) -> None:
    """Refuse objects that other processes cannot open; ``journal``: given by the user."""
    if journal is not None and kvstore_spec(journal).get("driver") == "memory":
        raise ValueError(
            f"the journal {journal} is in the memory of this process; use a path or runner=None"
        )
    for p in planned.swept:
        for step in p.program.steps:
            source = None if step.source is None else step.source.in_this_process
            if source is not None:
                raise ValueError(
                    f"{source.name} is in the memory of this process "
                    f"({format_bytes(source.nbytes)}), which a pipeline's workers cannot "
                    "read; use runner=None, or write it to a .zarr first"
                )
    for p in planned.passes:
        sinks: list[Sink | TableSink] = [output.sink for output in p.program.outputs]
        if p is planned.passes[0]:
            sinks += [s for some in planned.tables.values() for s in some]
        for sink in sinks:
            if not sink.portable:
                raise ValueError(
                    f"{sink.name} is in the memory of this process; use runner=None or a path"
                )


def check_scratch(plan: Plan, journal: Any, scratch: Any, workers: str) -> None:
    """Refuse to store the run's own files on this machine if its ``workers`` may be on others.

    ``journal`` is the user's place for the journal, and ``scratch`` for the files of a run without one.
    """
    if plan.scratch_place is None or journal_place(plan, journal) is not None or scratch:
        return
    raise ValueError(
        "intermediate results, or results without a path, would be stored on this machine, but "
        f"{workers} may be on different machines: write the results with .to(path), or give "
        "journal=, a folder that all of them share, such as a bucket (bv.compute also takes "
        "temp_location in options)"
    )


def check_remote(plan: Plan, journal: Any, runner: str, scratch: Any = None) -> None:
    """Refuse local paths for a runner with workers on other machines only."""
    book = journal_place(plan, journal)
    steps = [s for p in plan.swept for s in p.program.steps]
    own = {sink.name for sink in plan.sinks}
    sources = [s.source.stored for s in steps if s.source is not None and s.source.name not in own]
    # Small arrays are part of the plan.
    here = [
        f"the input {source.name}"
        for source in sources
        if not source.reader.remote and not isinstance(source.reader, ArrayReader | MappedMask)
    ]
    here += [f"the output {sink.name}" for sink in plan.outputs if is_local(sink.kvstore)]
    if book is not None and is_local(book):
        here.append(f"the journal {url(book)}")
    if plan.scratch_place is not None:
        root = book or (kvstore_spec(scratch) if scratch else plan.scratch_place)
        if is_local(root):
            here.append(
                f"the place of intermediate results or results without a path, {url(root)},"
            )
    if here:
        raise ValueError(
            f"{here[0]} is on this machine, where {runner} has no workers; use a bucket, gs:// or "
            "s3://"
        )
