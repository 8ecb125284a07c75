"""Who does the work on a machine: slabs in flight, the processes they are spread over, and threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Crew:
    """Who does the work on a machine.

    Attributes
    ----------
    workers : int
        Slabs in flight.
    processes : int
        That they are spread over.
    threads : int
        Of each process.
    """

    workers: int = 1
    processes: int = 1
    threads: int = 1

    @property
    def sweeps(self) -> int:
        """The most slabs in flight in a process."""
        return -(-self.workers // self.processes)

    def share(self, size: int) -> int:
        """What a slab has of bytes that each process has once."""
        return -(-size * self.processes // self.workers)
