"""What a plan would take on machines of a kind: hours, bytes shuffled, memory. Prices are the user's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.keywords import named_checked
from beam_volumes.plan.cost.machine import parse_bytes
from beam_volumes.plan.estimate import accelerators as hiring
from beam_volumes.plan.fit.planned_pass import Pass, compute_seconds, serial_share, transfer_seconds
from beam_volumes.plan.plan import Plan

#: Bytes of an element that says which slabs to sweep, as runners keep it.
_INDEX = 1000


@dataclass(frozen=True)
class Machine:
    """A machine: its cores, its memory, and its bandwidth to the store if that is known.

    >>> Machine.of("8x32GiB"), str(Machine.of((16, "64GiB", "2GiB")))
    (Machine(vcpus=8, gib=32.0, bandwidth=None), '16x64GiBx2048MiB')
    """

    vcpus: int
    gib: float
    bandwidth: int | None = None  #: Bytes a second, read and written together.

    @classmethod
    def of(cls, given: Any) -> Machine:
        """Return the machine of vCPUs and memory, or of these and its bandwidth."""
        if isinstance(given, Machine):
            return given
        parts = given.split("x") if isinstance(given, str) else given
        try:
            vcpus, memory, *more = parts
            found = cls(int(vcpus), parse_bytes(memory) / hiring.GIB, *map(parse_bytes, more))
            if found.vcpus > 0 and found.gib > 0 and found.bandwidth != 0:
                return found
        except (TypeError, ValueError):
            pass
        raise ValueError(
            f"machine_type={given!r} is no machine; give vCPUs and memory, '16x64GiB' or (16, '64GiB'), "
            "and the bytes a second that it reads and writes if they limit it, '16x64GiBx2GiB'"
        )

    def __str__(self) -> str:
        bandwidth = "" if self.bandwidth is None else f"x{self.bandwidth / (1 << 20):g}MiB"
        return f"{self.vcpus}x{self.gib:g}GiB{bandwidth}"


@dataclass(frozen=True)
class Estimate:
    """What a plan would take on so many machines; made by `estimate`.

    Attributes
    ----------
    machine : Machine
        ``vcpus``, ``gib`` and ``bandwidth`` of one.
    machines : int
        How many there are.
    hours : float
        How long it would take.
    vcpu_hours : float
        Hours that are paid for, of all vCPUs, idle or not.
    gib_hours : float
        The same of memory.
    core_hours : float
        Hours that cores compute, read and write.
    shuffle_bytes : int
        Bytes that go through the shuffle for sure: numbers of slabs, and the states of numbers.
    found_bytes : int
        What slabs may send beside them, at most, of components, rows and the like: they depend on the voxels.
    memory_needed : int
        Memory that a machine must have, in bytes, the system's included.
    bytes_read, bytes_written : int
        Before compression.
    requests : int
        Chunks read and units written.
    remarks : tuple of str
        What does not fit, or is not made use of.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> bv.estimate(bv.plan((v + 1).to("out.zarr")), "4x16GiB")
    <Estimate: 0.0 vCPU-hours in 0.00 hours; print() tells all>
    """

    machine: Machine
    machines: int
    hours: float
    vcpu_hours: float
    gib_hours: float
    core_hours: float
    shuffle_bytes: int
    found_bytes: int
    memory_needed: int
    bytes_read: int
    bytes_written: int
    requests: int
    remarks: tuple[str, ...] = ()

    def cost(
        self, vcpu_hour: float = 0, gib_hour: float = 0, shuffle_gib: float = 0, request: float = 0
    ) -> float:
        """Add up what it would cost, by prices of your own.

        Parameters
        ----------
        vcpu_hour : float, default: 0
            Price of one vCPU for an hour.
        gib_hour : float, default: 0
            Price of one GiB of memory for an hour.
        shuffle_gib : float, default: 0
            Price of one GiB of data that is shuffled.
        request : float, default: 0
            Price of one request to the store.

        Returns
        -------
        float
            Their sum, in whatever currency the prices are.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> found = bv.estimate(bv.plan((v + 1).to("out.zarr")), (2, "8GiB"))
        >>> found.cost(request=1) == found.requests
        True
        """
        shuffled = self.shuffle_bytes / hiring.GIB * shuffle_gib
        return (
            self.vcpu_hours * vcpu_hour
            + self.gib_hours * gib_hour
            + shuffled
            + self.requests * request
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data.

        Returns
        -------
        dict
            All attributes; the machine as text.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> bv.estimate(bv.plan((v + 1).to("out.zarr")), "4x16GiB").to_dict()["machine"]
        '4x16GiB'
        """
        found = {k: v for k, v in vars(self).items() if k not in ("machine", "remarks")}
        return {"machine": str(self.machine), **found, "remarks": list(self.remarks)}

    def __str__(self) -> str:
        lines = [
            f"{counted(self.machines, 'machine')} of {counted(self.machine.vcpus, 'vCPU')} and "
            f"{self.machine.gib:g} GiB: about {self.hours:,.2f} hours",
            f"{self.vcpu_hours:,.1f} vCPU-hours and {self.gib_hours:,.1f} GiB-hours are paid for; cores work "
            f"for {self.core_hours:,.1f} hours",
            f"memory: {format_bytes(self.memory_needed)} of a machine's {self.machine.gib:g} GiB",
            f"shuffled: {format_bytes(self.shuffle_bytes)}"
            + (
                f", and up to {format_bytes(self.found_bytes)} of what slabs find, by the voxels"
                if self.found_bytes
                else ""
            ),
            f"store: reads {format_bytes(self.bytes_read)} and writes {format_bytes(self.bytes_written)} "
            f"before compression, {self.requests:,} requests",
            *(f"note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Estimate: {self.vcpu_hours:,.1f} vCPU-hours in {self.hours:,.2f} hours; print() tells all>"


@named_checked
def estimate(plan: Plan, machine_type: Any, workers: int = 1) -> Estimate:
    """Estimate what a plan would take on machines of a kind: hours, bytes shuffled, memory. Nothing is read.

    Parameters
    ----------
    plan : Plan
        As `plan` makes it. ``threads=`` is best the number of a machine's vCPUs, and ``memory=`` what a
        machine has beside 1 GiB for its system.
    machine_type : str or tuple
        vCPUs and memory, as ``"16x64GiB"`` or ``(16, "64GiB")``. With a third number, as
        ``"16x64GiBx2GiB"``, a machine reads and writes at most so many bytes a second.
    workers : int, default: 1
        How many machines there are.

    Returns
    -------
    Estimate
        Its ``cost(vcpu_hour=..., gib_hour=...)`` takes prices.

    Raises
    ------
    ValueError
        If the machine cannot be read, or ``workers`` is no whole number from 1 on.

    See Also
    --------
    plan : what is estimated.

    Notes
    -----
    Times are those of the rough costs by which plans are chosen. They
    contain neither the start of machines nor merges across slabs. Try a crop by ``beam-volumes bench``
    before you rely on them.

    Examples
    --------
    >>> v = bv.open(np.zeros((256, 512, 512), "u1"))
    >>> plan = bv.plan(bv.median_filter(v, 3).to("out.zarr"), memory="8GiB", threads=4, slab=(64, 512, 512))
    >>> found = bv.estimate(plan, "4x16GiB", workers=2)
    >>> found.machine.gib, found.memory_needed >> 30, found.bytes_read >> 20
    (16.0, 2, 65)
    >>> round(found.cost(vcpu_hour=0.06, gib_hour=0.004), 2)
    0.0
    """
    machine = Machine.of(machine_type)
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise ValueError(f"workers={workers!r}: give the number of machines, from 1 on")
    passes = plan.passes
    used = min(plan.threads * plan.processes, machine.vcpus)
    hours = sum(_hours(plan, p, used, workers, machine.bandwidth) for p in passes)
    needed = max((hiring.needed(plan, p.index) for p in passes), default=1) * hiring.GIB
    return Estimate(
        machine,
        workers,
        hours,
        hours * workers * machine.vcpus,
        hours * workers * machine.gib,
        hiring.core_hours(plan),
        sum(_shuffled(p) for p in passes),
        sum(p.limit_bytes * len(p.grid) for p in passes if p.program.surveys),
        needed,
        plan.bytes_read,
        plan.bytes_written,
        sum(p.chunks_read + p.units_written for p in passes),
        tuple(_remarks(plan, machine, workers, needed)),
    )


def _hours(plan: Plan, p: Pass, cores: int, machines: int, bandwidth: int | None) -> float:
    """Hours of a pass: its slabs go in rounds of as many as are in flight at all machines."""
    if not len(p.grid):
        return 0.0
    of_slab = (compute_seconds([p]) + transfer_seconds([p])) / len(p.grid)
    concurrency = plan.concurrency
    busy = min(concurrency.busy(serial_share([p])), float(cores))
    in_flight = min(plan.workers * machines, len(p.grid))
    # A machine that has fewer slabs than it could have in flight has its cores for those.
    each = -(-in_flight // machines)
    rounds = -(-len(p.grid) // in_flight)
    hours = rounds * of_slab * each / max(busy, 1.0) / 3.6e12
    if bandwidth is None:
        return hours
    seconds = (p.bytes_read + p.bytes_written) / (bandwidth * min(machines, in_flight))
    return max(hours, seconds / 3600)


def _shuffled(p: Pass) -> int:
    slabs = len(p.grid)
    states = sum(f.reduction.state_bytes for f in p.program.folds)
    return slabs * (_INDEX + states)


def _remarks(plan: Plan, machine: Machine, machines: int, needed: int) -> list[str]:
    remarks = []
    if needed > machine.gib * hiring.GIB:
        minimum = max(1, math.floor(machine.gib - hiring.SYSTEM / hiring.GIB))
        remarks.append(
            f"a machine has too little memory: plan with memory='{minimum}GiB', or take a larger one"
        )
    used = plan.threads * plan.processes
    if used < machine.vcpus:
        remarks.append(
            f"the plan has {counted(used, 'thread')} for {machine.vcpus} vCPUs: plan with "
            f"threads={machine.vcpus // plan.processes}"
        )
    maximum = max((-(-len(p.grid) // plan.workers) for p in plan.passes), default=1)
    if machines > maximum:
        remarks.append(
            f"more than {counted(maximum, 'machine')} would have nothing to do; smaller slabs, with slab=, "
            "share out further"
        )
    return remarks
