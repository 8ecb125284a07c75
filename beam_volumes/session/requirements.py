"""What a worker must have to take part in a session, looked at before the session reaches it."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from beam_volumes.base.text import format_bytes
from beam_volumes.plan.cost.machine import free_memory
from beam_volumes.runs import Journal
from beam_volumes.session.session import Session
from beam_volumes.storage.places.place import Place, Spec

#: The mark by which workers see that they share the journal's place with the machine that asked.
ASKED = "asked"


@dataclass(frozen=True)
class WorkerRequirements:
    """What a worker must see, may write, and has room for.

    Attributes
    ----------
    journal : Journal
        In which ``asked`` has left a mark.
    asked : str
        The machine that begins the run.
    places : tuple of dict
        The outputs', the journal's, and that of what lies between passes.
    memory : int
        Bytes that a process is predicted to take.
    """

    journal: Journal
    asked: str
    places: tuple[Spec, ...]
    memory: int

    @classmethod
    def of(cls, session: Session, asked: str) -> WorkerRequirements:
        """The needs of a session that has a journal."""
        assert session.journal is not None
        plan = session.plan
        sinks = [sink.kvstore for sink in plan.outputs]
        scratch = [] if plan.scratch_place is None else [plan.scratch_place]
        return cls(
            session.journal, asked, (session.journal.spec, *sinks, *scratch), plan.process_memory
        )

    def check(self) -> None:
        """Raise OSError if this process does not meet them."""
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
                f"the worker on {host} has {format_bytes(free)} of memory, and a worker process of this "
                f"run may take {format_bytes(self.memory)}: give memory={free >> 20}MiB or less, or give "
                "the worker more"
            )

    def _check_shared(self, host: str) -> None:
        """A worker elsewhere would write into folders of its own and lose what it found."""
        if self.journal.marked(ASKED):
            return
        manifest = Journal.load(self.journal.spec)  # there when a runner repeats this
        if manifest is None or manifest.run_id != self.journal.run_id:
            raise OSError(
                f"the worker on {host} does not see {self.journal.url}, where {self.asked} has begun this "
                "run: use places that all machines share, such as a bucket, or give journal= or Beam's "
                "temp_location"
            )
