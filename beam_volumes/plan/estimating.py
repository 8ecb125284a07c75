"""What a plan would take on machines of a kind: hours and what limits them, requests, memory, prices."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.keywords import named_checked
from beam_volumes.plan import accelerators
from beam_volumes.plan.cost.machine import parse_bytes
from beam_volumes.plan.cost.stores import STORES, Store
from beam_volumes.plan.fit.advice import many_objects
from beam_volumes.plan.fit.planned_pass import Pass, serial_share
from beam_volumes.plan.fit.seconds import core_seconds
from beam_volumes.plan.plan import Plan

#: Bytes of an element that names the slabs to sweep, as runners keep it.
_INDEX = 1000


#: What may limit a pass: cores, bytes over bandwidth, or requests over rate and latency.
LIMITS = ("cores", "bandwidth", "requests")
#: Bytes of requests that a process has under way: see `storage.places.transfer.in_flight`.
_IN_FLIGHT = 64 << 20
#: Stores by TensorStore's drivers, and by the schemes of URLs.
_STORES = {"s3": "s3", "gs": "gcs", "gcs": "gcs", "gcs_grpc": "gcs"}
#: One Gbit in bytes.
_GBIT = 10**9 // 8
#: Bandwidth of a machine given by numbers: 1 Gbit/s for each vCPU, up to 32 Gbit/s.
_GBIT_PER_VCPU, _MAX_GBIT = 1.0, 32
#: GiB for each vCPU of Google's machine types, and Gbit/s: N2 sends 2 Gbit/s for each vCPU, up to 32
#: (cloud.google.com/compute/docs/network-bandwidth).
_GOOGLE = {"standard": 4.0, "highmem": 8.0, "highcpu": 1.0}
_GOOGLE_GBIT = 2.0
#: GiB for each vCPU of Amazon's general, compute and memory families, and the Gbit/s that m6i sustains for
#: each: 1.56 of an xlarge, which has 4 (docs.aws.amazon.com/ec2/latest/instancetypes/gp.html).
_AMAZON = {"m": 4.0, "c": 2.0, "r": 8.0}
_AMAZON_GBIT = 0.39
#: List prices in US dollars of N2 on demand in us-central1: cloud.google.com/compute/vm-instance-pricing.
VCPU_HOUR, GIB_HOUR = 0.0316, 0.0042

_GOOGLE_NAME = re.compile(r"(?:n2d?|n4|e2|c2d|c3d?|c4a?|t2d)-(standard|highmem|highcpu)-(\d+)")
_AMAZON_NAME = re.compile(r"([mcr])\d[a-z]*\.(?:(\d*)x)?large")


@dataclass(frozen=True)
class Machine:
    """A machine: its cores, its memory, and its bandwidth to the store.

    >>> Machine.of("8x32GiB"), str(Machine.of((16, "64GiB", "2GiB")))
    (Machine(vcpus=8, gib=32.0, bandwidth=None, cloud=None), '16x64GiBx2048MiB')
    >>> Machine.of("n2-standard-16").bytes_per_second, Machine.of("m6i.4xlarge").gib
    (4000000000, 64.0)
    """

    vcpus: int
    gib: float
    bandwidth: int | None = None  #: Bytes per second, reads and writes together; None if not given.
    cloud: str | None = None  #: The store of its cloud, as `stores.Store` names it.

    @classmethod
    def of(cls, given: Any) -> Machine:
        """Return the machine with a name, or with vCPUs, memory and optionally a bandwidth."""
        if isinstance(given, Machine):
            return given
        if isinstance(given, str) and (named := _named(given)) is not None:
            return named
        parts = given.split("x") if isinstance(given, str) else given
        try:
            vcpus, memory, *more = parts
            (bandwidth,) = map(parse_bytes, more) if more else (None,)
            found = cls(int(vcpus), parse_bytes(memory) / accelerators.GIB, bandwidth)
            if found.vcpus > 0:
                return found
        except (TypeError, ValueError):
            pass
        raise ValueError(
            f"machine_type={given!r} is not a machine type; give vCPUs and memory, '16x64GiB' or "
            "(16, '64GiB'), with a third number for the bytes per second that it reads and "
            "writes, '16x64GiBx2GiB', or a name such as 'n2-standard-16' or 'm6i.4xlarge'"
        )

    @property
    def bytes_per_second(self) -> int:
        """Its bandwidth: as given, or 1 Gbit/s for each vCPU, up to 32 Gbit/s."""
        if self.bandwidth is not None:
            return self.bandwidth
        return int(_GBIT * min(_MAX_GBIT, self.vcpus * _GBIT_PER_VCPU))

    def __str__(self) -> str:
        bandwidth = "" if self.bandwidth is None else f"x{self.bandwidth / (1 << 20):g}MiB"
        return f"{self.vcpus}x{self.gib:g}GiB{bandwidth}"


@dataclass(frozen=True)
class Estimate:
    """The time, requests and costs of a plan on given machines, as returned by `estimate`.

    Attributes
    ----------
    machine : Machine
        ``vcpus``, ``gib`` and ``bandwidth`` of one machine.
    machines : int
        Number of machines.
    hours : float
        Duration of the run: the sum over passes of the longest of three limits.
    vcpu_hours : float
        Paid hours of all vCPUs, idle or not.
    gib_hours : float
        Paid hours of memory.
    core_hours : float
        Hours in which cores compute, read and write.
    shuffle_bytes : int
        Minimum number of shuffled bytes: indices of slabs, and the states of numbers.
    found_bytes : int
        Upper bound of additional shuffled bytes for components, rows and similar results, which
        depend on the voxels.
    memory_needed : int
        Memory that a machine needs, in bytes, including the system.
    bytes_read, bytes_written : int
        Before compression.
    remarks : tuple of str
        Warnings about parts that do not fit or would be idle.
    store : Store
        The store with its request rates, latency and prices.
    requests_read, requests_written : int
        Chunks read, and units written.
    limits : dict of str to float
        Hours for ``"cores"``, ``"bandwidth"`` and ``"requests"``, each as if it were the only
        limit.
    bound_by : str
        The limit with the largest share of ``hours``.
    tail_hours : float
        The part of ``hours`` in which the last slabs of passes run and the remaining machines wait.

    Examples
    --------
    >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
    >>> bv.estimate(bv.plan((v + 1).to("out.zarr")), "4x16GiB")
    <Estimate: 0.0 vCPU-hours in 0.00 hours, bound by cores; print() shows all>
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
    remarks: tuple[str, ...] = ()
    store: Store = STORES["disk"]
    requests_read: int = 0
    requests_written: int = 0
    limits: Mapping[str, float] = field(default_factory=dict)
    bound_by: str = LIMITS[0]
    tail_hours: float = 0.0

    def cost(
        self,
        vcpu_hour: float = VCPU_HOUR,
        gib_hour: float = GIB_HOUR,
        shuffle_gib: float = 0,
        request: float | None = None,
    ) -> float:
        """Add up the prices of machines and requests.

        The defaults are list prices in US dollars: N2 machines of Google Cloud on demand, and the requests of
        the estimate's store. Prices differ between regions, contracts and years.

        Parameters
        ----------
        vcpu_hour : float, default: 0.0316
            Price of one vCPU for an hour.
        gib_hour : float, default: 0.0042
            Price of one GiB of memory for an hour.
        shuffle_gib : float, default: 0
            Price of shuffling one GiB of data.
        request : float, optional
            Price of each request, instead of the store's prices of reads and writes.

        Returns
        -------
        float
            The total cost, in the currency of the prices.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> found = bv.estimate(bv.plan((v + 1).to("out.zarr")), (2, "8GiB"))
        >>> found.cost(vcpu_hour=0, gib_hour=0, request=1) == found.requests
        True
        """
        return (
            self.vcpu_hours * vcpu_hour
            + self.gib_hours * gib_hour
            + self.shuffle_bytes / accelerators.GIB * shuffle_gib
            + (self.request_cost if request is None else self.requests * request)
        )

    @property
    def requests(self) -> int:
        """The number of chunks read and units written."""
        return self.requests_read + self.requests_written

    @property
    def request_cost(self) -> float:
        """Price of the requests at the store's list prices."""
        return self.store.cost(self.requests_read, self.requests_written)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data.

        Returns
        -------
        dict
            All attributes, with the machine and the store as text.

        Examples
        --------
        >>> v = bv.open(np.zeros((8, 64, 64), "u1"))
        >>> bv.estimate(bv.plan((v + 1).to("out.zarr")), "4x16GiB").to_dict()["machine"]
        '4x16GiB'
        """
        numbers = vars(self) | {
            "machine": str(self.machine),
            "store": self.store.name,
            "limits": dict(self.limits),
            "remarks": list(self.remarks),
        }
        return {**numbers, "requests": self.requests, "request_cost": self.request_cost}

    def __str__(self) -> str:
        each = ", ".join(f"{name} {hours:,.2f}" for name, hours in self.limits.items())
        tail = (
            f"; the last slabs of passes run for {self.tail_hours:,.2f}" if self.tail_hours else ""
        )
        found = format_bytes(self.found_bytes)
        lines = [
            f"{counted(self.machines, 'machine')} of {counted(self.machine.vcpus, 'vCPU')} and "
            f"{self.machine.gib:g} GiB: about {self.hours:,.2f} hours, bound by {self.bound_by}",
            f"hours by limit: {each}{tail}",
            f"{self.vcpu_hours:,.1f} vCPU-hours and {self.gib_hours:,.1f} GiB-hours are paid for; "
            f"cores work for {self.core_hours:,.1f} hours",
            f"memory: {format_bytes(self.memory_needed)} of a machine's {self.machine.gib:g} GiB",
            f"shuffled: {format_bytes(self.shuffle_bytes)}"
            + (
                f", and up to {found} of components and rows, depending on the voxels"
                if self.found_bytes
                else ""
            ),
            f"store: reads {format_bytes(self.bytes_read)} by {self.requests_read:,} requests and "
            f"writes {format_bytes(self.bytes_written)} by {self.requests_written:,}, before "
            "compression",
            f"list prices: machines ${self.cost(request=0):,.2f}, requests "
            f"${self.request_cost:,.2f}",
            *([] if self.machine.cloud else [self._sbatch()]),
            *(f"note: {remark}" for remark in self.remarks),
        ]
        return "\n".join(lines)

    def _sbatch(self) -> str:
        """Return the options that request these machines from Slurm, for twice the hours."""
        hours, minutes = divmod(max(10, math.ceil(120 * self.hours)), 60)
        # Slurm gives no job the memory of the node's system.
        mib = (
            max(self.machine.gib - accelerators.SYSTEM / accelerators.GIB, self.machine.gib / 2)
            * 1024
        )
        return (
            f"sbatch: --nodes={self.machines} --ntasks-per-node=1 --cpus-per-task={self.machine.vcpus} "
            f"--mem={int(mib)}M --time={hours}:{minutes:02}:00 (twice the hours)"
        )

    def __repr__(self) -> str:
        return (
            f"<Estimate: {self.vcpu_hours:,.1f} vCPU-hours in {self.hours:,.2f} hours, bound by "
            f"{self.bound_by}; print() shows all>"
        )


@named_checked
def estimate(
    plan: Plan, machine_type: Any, machines: int | None = None, *, store: Any = None
) -> Estimate:
    """Estimate the hours, requests and memory of a plan on given machines, without reading data.

    Use it to choose machines and chunks before you pay for them.

    Parameters
    ----------
    plan : Plan
        The result of `plan`. Plan with ``threads=`` set to a machine's number of vCPUs, and with
        ``memory=`` set to its memory minus 1 GiB for the system.
    machine_type : str or tuple
        The name of a general-purpose machine type, such as ``"n2-standard-16"`` or
        ``"m6i.4xlarge"``, or vCPUs and memory, as ``"16x64GiB"`` or ``(16, "64GiB")``. The
        bandwidth in bytes per second can be appended, as in ``"16x64GiBx2GiB"``; by default, it is
        1 Gbit/s for each vCPU, up to 32 Gbit/s.
    machines : int, optional
        Number of machines; by default the number in the plan.
    store : str or dict, optional
        ``"s3"``, ``"gcs"`` or ``"disk"``; by default the store of the plan's paths. Local paths
        count as a disk for one machine, and as a bucket for several. To change the numbers of a
        store, write ``"s3,prefixes=10"`` or ``{"name": "s3", "prefixes": 10}``. The numbers are
        ``prefixes``, ``reads`` and ``writes`` (requests per second for each prefix), ``latency``
        (seconds), and ``doubling`` (seconds in which the rates double). The prices are
        ``read_price``, ``write_price`` and ``gib_month``.

    Returns
    -------
    Estimate
        The hours, the limiting factor, and the requests with their prices.

    Raises
    ------
    ValueError
        If the machine or store is invalid, or ``machines`` is not a positive integer.

    See Also
    --------
    plan : makes the plan.

    Notes
    -----
    The time of a pass is the maximum of three times. Computation time follows from rough costs of
    operations, or from this machine's speeds after ``beam-volumes bench --calibrate``. Transfer
    time is bytes divided by the machines' bandwidth, unless the store is a disk. Request time is
    limited by the store's rate, and by its latency for concurrent requests. Bytes and requests are
    taken from the plan, before compression. The start of machines, merges across slabs, and the
    journal's five requests for each slab are not included.

    Request rates, latencies and prices are published by the providers. Amazon S3 accepts at least
    3,500 writes and 5,500 reads per second for each prefix. A bucket of Google Cloud Storage starts
    with 1,000 writes and 5,000 reads per second; these rates may double every 20 minutes.

    Examples
    --------
    >>> v = bv.open(np.zeros((256, 512, 512), "u1"))
    >>> plan = bv.plan(bv.median_filter(v, 3).to("out.zarr"), memory="8GiB", threads=4, slab=(64, 512, 512))
    >>> found = bv.estimate(plan, "4x16GiB", machines=2)
    >>> found.machine.gib, found.memory_needed >> 30, found.bytes_read >> 20, found.store.name
    (16.0, 2, 65, 's3')
    >>> round(found.cost(vcpu_hour=0.06, gib_hour=0.004), 2)
    0.0
    """
    machine = Machine.of(machine_type)
    if machines is None:
        machines = plan.machines
    if not isinstance(machines, int) or isinstance(machines, bool) or machines < 1:
        raise ValueError(f"machines={machines!r}: give the number of machines, from 1 on")
    found = Store.of(_default_store(plan, machine, machines) if store is None else store)
    times = []
    reads = writes = 0
    for p in plan.passes:
        # Rates of a store that have grown in one pass stay for the next.
        seconds = -found.seconds(reads, writes)
        reads, writes = reads + p.chunks_read, writes + p.units_written
        seconds += found.seconds(reads, writes)
        times.append(_times(plan, p, machine, machines, seconds, found))
    hours = [max(each.values()) for each in times]
    binding = [max(LIMITS, key=lambda name: each[name]) for each in times]
    spent = {
        name: sum(h for h, bound in zip(hours, binding, strict=True) if bound == name)
        for name in LIMITS
    }
    concurrency = replace(plan.concurrency, machines=machines)
    tails = (
        h * concurrency.tail(len(p.grid))
        for p, h in zip(plan.passes, hours, strict=True)
        if len(p.grid) > concurrency.slots
    )
    needed = (
        max((accelerators.needed(plan, p.index) for p in plan.passes), default=1) * accelerators.GIB
    )
    total = sum(hours)
    return Estimate(
        machine,
        machines,
        total,
        total * machines * machine.vcpus,
        total * machines * machine.gib,
        accelerators.core_hours(plan),
        sum(_shuffled(p) for p in plan.passes),
        sum(p.limit_bytes * len(p.grid) for p in plan.passes if p.program.surveys),
        needed,
        plan.bytes_read,
        plan.bytes_written,
        tuple(_remarks(plan, machine, machines, needed, found)),
        found,
        reads,
        writes,
        {name: sum(each[name] for each in times) for name in LIMITS},
        max(LIMITS, key=lambda name: spent[name]),
        sum(tails),
    )


def _named(name: str) -> Machine | None:
    """Return the machine type of a cloud with a name; None if it is no such name."""
    if match := _GOOGLE_NAME.fullmatch(name):
        vcpus, each, cloud = int(match[2]), _GOOGLE[match[1]], "gcs"
        gbit = min(_MAX_GBIT, vcpus * _GOOGLE_GBIT)
    elif match := _AMAZON_NAME.fullmatch(name):
        vcpus = 2 if match[2] is None else 4 * int(match[2] or 1)
        each, cloud, gbit = _AMAZON[match[1]], "s3", vcpus * _AMAZON_GBIT
    else:
        return None
    return Machine(vcpus, vcpus * each, int(_GBIT * gbit), cloud) if vcpus else None


def _default_store(plan: Plan, machine: Machine, machines: int) -> str:
    """Return the store of a plan's paths; several machines need a bucket instead of a disk."""
    places = [sink.kvstore for sink in plan.outputs]
    places += [e.store for _, extents in plan.inputs for e in extents]
    drivers = [
        place["driver"] if isinstance(place, Mapping) else str(place).partition(":")[0]
        for place in places
    ]
    elsewhere = "disk" if machines == 1 else machine.cloud or "s3"
    return next((_STORES[driver] for driver in drivers if driver in _STORES), elsewhere)


def _times(
    plan: Plan, p: Pass, machine: Machine, machines: int, requests: float, store: Store
) -> dict[str, float]:
    """Hours of a pass by what may limit it; slabs go in rounds of as many as all machines have in flight.

    ``requests``: seconds that the store takes for its requests.
    """
    if not len(p.grid):
        return dict.fromkeys(LIMITS, 0.0)
    of_slab = core_seconds(p) / len(p.grid)
    cores = min(plan.threads * plan.processes, machine.vcpus)
    busy = min(plan.concurrency.busy(serial_share([p])), float(cores))
    in_flight = min(plan.workers * machines, len(p.grid))
    # With fewer slabs than it could have in flight, a machine has more cores for each.
    each = -(-in_flight // machines)
    rounds = -(-len(p.grid) // in_flight)
    used = min(machines, in_flight)
    moved = p.bytes_read + p.bytes_written
    is_limited = store.name != "disk" or machine.bandwidth is not None
    waiting = max(
        _waiting(count, size, store.latency)
        for count, size in (
            (p.chunks_read, p.bytes_read),
            (p.units_written, p.bytes_written),
        )
    )
    seconds = {
        "cores": rounds * of_slab * each / max(busy, 1.0),
        "bandwidth": moved / (machine.bytes_per_second * used) if is_limited else 0.0,
        "requests": max(requests, waiting / (used * plan.processes)),
    }
    return {name: s / 3600 for name, s in seconds.items()}


def _waiting(requests: int, size: int, latency: float) -> float:
    """Seconds that a process waits for requests, if as many are under way as 64 MiB hold."""
    if not requests:
        return 0.0
    return requests * latency / max(1.0, _IN_FLIGHT * requests / max(1, size))


def _shuffled(p: Pass) -> int:
    slabs = len(p.grid)
    states = sum(f.reduction.state_bytes for f in p.program.folds)
    return slabs * (_INDEX + states)


def _remarks(plan: Plan, machine: Machine, machines: int, needed: int, store: Store) -> list[str]:
    remarks = [*many_objects(plan.passes, STORES["s3"] if store.name == "disk" else store)]
    if needed > machine.gib * accelerators.GIB:
        minimum = max(1, math.floor(machine.gib - accelerators.SYSTEM / accelerators.GIB))
        remarks.append(
            f"a machine has too little memory: plan with memory='{minimum}GiB', or choose a larger "
            "machine"
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
            f"more than {counted(maximum, 'machine')} would be idle: plan with "
            f"machines={machines}, or with smaller slabs by slab="
        )
    return remarks
