"""Who does the work on a machine: slabs in flight, the processes they are spread over, and threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beam_volumes.plan.cost import machine

#: Cores count as busy when they are so for this part of the time.
_BUSY = 0.95


@dataclass(frozen=True)
class Concurrency:
    """Who does the work on a machine."""

    workers: int = 1  #: Slabs in flight.
    processes: int = 1  #: That they are spread over.
    threads: int = 1  #: Of each process.
    machines: int = 1  #: That have as many each.

    @classmethod
    def of(
        cls, workers: int, processes: int | None, threads: int | None, machines: int = 1
    ) -> Concurrency:
        """So many slabs in flight; a process for each, if ``processes`` is None; all cores by default."""
        processes = workers if processes is None else min(processes, workers)
        return cls(workers, processes, threads or max(1, machine.cores() // processes), machines)

    @property
    def slots(self) -> int:
        """Slabs in flight on all machines."""
        return self.workers * self.machines

    def tail(self, slabs: int) -> float:
        """The share of a pass's time in which its last slabs run, and other slots may wait.

        >>> Concurrency(workers=4, machines=5).tail(100), Concurrency(workers=4).tail(3)
        (0.2, 1.0)
        """
        return 1 / max(1, -(-slabs // self.slots))

    @property
    def sweeps(self) -> int:
        """The most slabs in flight in a process."""
        return -(-self.workers // self.processes)

    def share(self, size: int) -> int:
        """What a slab has of bytes that each process has once."""
        return -(-size * self.processes // self.workers)

    def busy(self, serial: float) -> float:
        """Cores that work, of one for each thread, where one thread does a share of a slab's work alone.

        >>> one = Concurrency(workers=1, threads=4)
        >>> one.busy(serial=0.0), one.busy(serial=0.25), one.busy(serial=1.0)
        (4.0, 2.2857142857142856, 1.0)
        >>> Concurrency(workers=2, threads=2).busy(serial=0.25)
        2.0
        """
        of_one_slab = 1 / (serial + (1 - serial) / self.threads)
        return self.processes * min(float(self.threads), self.sweeps * of_one_slab)

    def is_busy(self, serial: float) -> bool:
        """Whether next to no core is idle."""
        return self.busy(serial) >= _BUSY * self.processes * self.threads


def default_workers() -> int:
    """Slabs in flight where nothing asks for more: a window is shared out to all threads."""
    return max(1, machine.cores() // 4)


def larger_crews(
    serial: float, processes: int | None, threads: int | None, most: int
) -> Iterator[Concurrency]:
    """Crews with more slabs in flight than the default, up to ``most``, that leave fewer cores idle.

    From the first one that leaves none down.

    >>> [concurrency.workers for concurrency in larger_crews(0.0, 1, threads=8, most=100)]
    []
    """
    few = Concurrency.of(default_workers(), processes, threads)
    found = []
    while not few.is_busy(serial) and few.workers < most:
        few = Concurrency.of(few.workers + 1, processes, threads)
        found.append(few)
    yield from reversed(found)
