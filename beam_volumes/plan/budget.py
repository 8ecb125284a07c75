"""What a machine may use: its memory and cores, and what a process takes before any voxel."""

from __future__ import annotations

import os
import re
from pathlib import Path

import psutil

#: Resident bytes of a process with our imports and numba's compiler, measured in fresh processes on
#: Linux (Python 3.11, numba 0.68, apache-beam 2.77); the second with Beam and a runner on top.
BASE_ALONE = 214 << 20
BASE_BEAM = 320 << 20
#: What compiling one kernel for one combination of dtypes adds; less if it comes from numba's cache.
BASE_KERNEL = 32 << 20


_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1 << (10 * _power)
    _UNITS[f"{_letter}b"] = 10 ** (3 * _power)


def parse_bytes(text: int | float | str) -> int:
    """Bytes from a number or a text such as ``"2GiB"`` or ``"500 MB"``.

    Examples
    --------
    >>> parse_bytes("2GiB")
    2147483648
    """
    if isinstance(text, bool):
        raise TypeError(f"memory {text!r} is not a number of bytes")
    if isinstance(text, int | float):
        number, unit = float(text), ""
    else:
        match = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", str(text))
        if not match or match[2].lower() not in _UNITS or match[1].count(".") > 1:
            raise ValueError(
                f"memory {text!r} is not a size; write bytes, or e.g. '2GiB' or '500MB'"
            )
        number, unit = float(match[1]), match[2].lower()
    if not number > 0:
        raise ValueError(f"memory {text!r} must be more than nothing")
    return int(number * _UNITS[unit])


def machine_memory() -> int:
    """RAM of this machine, or the limit of its control group if that is lower."""
    limits = [psutil.virtual_memory().total]
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            limits.append(int(Path(name).read_text()))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return min(limits)


def default_memory() -> int:
    """A quarter of `machine_memory`."""
    return machine_memory() // 4


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
