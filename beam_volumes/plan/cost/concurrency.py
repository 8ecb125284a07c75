"""The concurrency on a machine: slabs in flight, processes that share them, and threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from beam_volumes.plan.cost import machine

#: Cores count as busy if they work for this share of the time.
_BUSY = 0.95


@dataclass(frozen=True)
class Concurrency:
    """Slabs in flight, processes and threads."""

    workers: int = 1  #: Slabs in flight.
    processes: int = 1  #: Worker processes that share them.
    threads: int = 1  #: Threads of each process.
    machines: int = 1  #: That have as many each.
    device_memory: int = 0  #: Bytes of a machine's device for all slabs; 0 without a device.

    @classmethod
    def of(
        cls, workers: int, processes: int | None, threads: int | None, machines: int = 1
    ) -> Concurrency:
        """``processes``: None is one for each slab in flight; ``threads``: by default all cores."""
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
        """The maximum number of slabs in flight in one process."""
        return -(-self.workers // self.processes)

    @property
    def device_share(self) -> int:
        """Bytes of the device for each slab in flight."""
        return self.device_memory // self.workers

    def share(self, size: int) -> int:
        """A slab's share of bytes that each process has."""
        return -(-size * self.processes // self.workers)

    def busy(self, serial: float) -> float:
        """The number of busy cores, if one thread does the share ``serial`` of a slab's work.

        >>> one = Concurrency(workers=1, threads=4)
        >>> one.busy(serial=0.0), one.busy(serial=0.25), one.busy(serial=1.0)
        (4.0, 2.2857142857142856, 1.0)
        >>> Concurrency(workers=2, threads=2).busy(serial=0.25)
        2.0
        """
        of_one_slab = 1 / (serial + (1 - serial) / self.threads)
        return self.processes * min(float(self.threads), self.sweeps * of_one_slab)

    def is_busy(self, serial: float) -> bool:
        """Whether nearly all cores are busy."""
        return self.busy(serial) >= _BUSY * self.processes * self.threads


def default_workers() -> int:
    """Slabs in flight by default: few, because all threads share the work on a window."""
    return max(1, machine.cores() // 4)


def more_workers(
    serial: float, processes: int | None, threads: int | None, maximum: int
) -> Iterator[Concurrency]:
    """Concurrencies with up to ``maximum`` slabs in flight that use more cores than the default.

    The first one keeps all cores busy, the next ones have fewer slabs.

    >>> [concurrency.workers for concurrency in more_workers(0.0, 1, threads=8, maximum=100)]
    []
    """
    few = Concurrency.of(default_workers(), processes, threads)
    found = []
    while not few.is_busy(serial) and few.workers < maximum:
        few = Concurrency.of(few.workers + 1, processes, threads)
        found.append(few)
    yield from reversed(found)
