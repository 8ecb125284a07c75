"""Machines that are hired: vCPUs, memory and bandwidth to a store, by numbers or by a cloud's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from beam_volumes.plan.cost.machine import parse_bytes
from beam_volumes.plan.estimate.accelerators import GIB

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
            found = cls(int(vcpus), parse_bytes(memory) / GIB, bandwidth)
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


def _named(name: str) -> Machine | None:
    """The machine type of a cloud with a name; None if it is no such name."""
    if match := _GOOGLE_NAME.fullmatch(name):
        vcpus, each, cloud = int(match[2]), _GOOGLE[match[1]], "gcs"
        gbit = min(_MAX_GBIT, vcpus * _GOOGLE_GBIT)
    elif match := _AMAZON_NAME.fullmatch(name):
        vcpus = 2 if match[2] is None else 4 * int(match[2] or 1)
        each, cloud, gbit = _AMAZON[match[1]], "s3", vcpus * _AMAZON_GBIT
    else:
        return None
    return Machine(vcpus, vcpus * each, int(_GBIT * gbit), cloud) if vcpus else None
