"""The memory and cores of a machine, and the parsing of sizes and counts from users."""

from __future__ import annotations

import operator
import os
import re
import resource
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

from beam_volumes.base.text import counted
from beam_volumes.graph.options import memory_limit

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1 << (10 * _power)
    _UNITS[f"{_letter}b"] = 10 ** (3 * _power)


#: Sizes below or above these are mistakes.
_MINIMUM, _MAXIMUM = 1000, 64 << 40
#: Limits of slabs in flight and threads: on any machine, and for each core.
_MAX_COUNTS = {"workers": (32, 8), "threads": (64, 16)}


def parse_bytes(text: int | float | str, name: str = "memory") -> int:
    """Bytes from a number or a text such as ``"2GiB"`` or ``"500 MB"``.

    >>> parse_bytes("2GiB")
    2147483648
    """
    if isinstance(text, bool):
        raise TypeError(f"{name} {text!r} is not a number of bytes")
    if isinstance(text, int | float):
        number, unit = float(text), ""
    else:
        match = re.fullmatch(r"\s*([0-9.]+)\s*([a-zA-Z]*)\s*", str(text))
        if not match or match[2].lower() not in _UNITS or match[1].count(".") > 1:
            raise ValueError(
                f"{name} {text!r} is not a size; write bytes, or e.g. '2GiB' or '500MB'"
            )
        number, unit = float(match[1]), match[2].lower()
    if not number > 0:
        raise ValueError(f"{name} {text!r} is not positive; write a size, e.g. '2GiB'")
    size = number * _UNITS[unit]
    if size < _MINIMUM:
        raise ValueError(
            f"{name} {text!r} is {size:g} bytes, less than any run needs; write a size with its "
            "unit, e.g. '2GiB' or '500MB'"
        )
    if size > _MAXIMUM:
        raise ValueError(
            f"{name} {text!r} is more than any machine has; write the limit of one machine, e.g. "
            "'64GiB', or leave it out"
        )
    return int(size)


@cache
def machine_memory() -> int:
    """RAM of this machine, or a lower limit of its control groups or Slurm job, as of the first call."""
    limits = [limit for _, limit in _limits(Path("/"))]
    return min([int(psutil.virtual_memory().total), *limits, *_allocated_memory()])


def _allocated_memory() -> list[int]:
    """The memory of the Slurm job on this machine, if known; not every cluster limits control groups."""
    mib = _slurm("MEM_PER_NODE") or _slurm("MEM_PER_CPU") * _slurm("CPUS_ON_NODE")
    return [mib << 20] if mib else []


def _slurm(name: str) -> int:
    """A number in the environment of a Slurm job, or 0."""
    text = os.environ.get(f"SLURM_{name}", "") if "SLURM_JOB_ID" in os.environ else ""
    return int(text) if text.isdecimal() else 0


def free_memory(root: str | Path = "/") -> int:
    """Memory that this process may use in total: its current memory and the free memory.

    The free memory is limited by the machine and by each control group, for example of a container.
    Cached files that the kernel may drop count as free. A Slurm job has at most its own memory.
    """
    left = [limit - used for limit, used in control_groups(root)]
    own = psutil.Process().memory_info().rss
    free = own + max(0, min([psutil.virtual_memory().available, *left]))
    return min([free, *_allocated_memory()])


class _Files(NamedTuple):
    """The files of a control group."""

    top: str  #: The folder of all groups.
    limit: str
    used: str
    cached: str  #: The part of the use that is droppable file cache, in ``memory.stat``.


#: By the name of the controller: control groups of version 2 and 1.
_GROUPS = {
    "": _Files("", "memory.max", "memory.current", "inactive_file"),
    "memory": _Files(
        "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
    ),
}


def control_groups(root: str | Path = "/") -> Iterator[tuple[int, int]]:
    """The memory limit and use, in bytes, of each control group that limits this process."""
    for (folder, files), limit in _limits(Path(root)):
        try:
            taken = int((folder / files.used).read_text())
            stat = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
        except (OSError, ValueError):
            continue
        yield limit, taken - int(stat.get(files.cached, 0))


def _limits(root: Path) -> Iterator[tuple[tuple[Path, _Files], int]]:
    """The folder and files of each control group that limits this process, and its limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        for files in (_GROUPS[kind] for kind in kinds.split(",") if kind in _GROUPS):
            group = PurePosixPath(path)
            # In a container the path may be the host's, and only the top folder is readable.
            for at in (group, *group.parents):
                folder = root / "sys/fs/cgroup" / files.top / str(at).lstrip("/")
                try:
                    limit = int((folder / files.limit).read_text())
                except (OSError, ValueError):  # not there, or "max"
                    continue
                yield (folder, files), limit


def resident_memory() -> int:
    """Resident memory of this process, counted as in `peak_memory`."""
    memory_info = psutil.Process().memory_info()
    return int(memory_info.rss - getattr(memory_info, "shared", 0))


def peak_memory() -> int:
    """Peak resident memory of this process so far, without mapped files such as libraries.

    The kernel decides how much of mapped files is resident (large folios map 90 MiB more than small
    ones) and may drop it at any time, so it cannot exceed a limit.
    """
    try:
        # Not `ru_maxrss`: Linux includes the peak of the parent process in it.
        with open("/proc/self/status") as status:
            kib = {line.split(":")[0]: line.split()[1] for line in status if line.endswith("kB\n")}
        return int(kib["VmHWM"]) - int(kib["RssFile"]) << 10
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def default_memory() -> int:
    """A quarter of `machine_memory`, or the limit of the recipe during its registration."""
    limit = memory_limit.get()
    return machine_memory() // 4 if limit is None else limit.total


def cores() -> int:
    """Processor cores this process may use, up to the number of its Slurm task."""
    if hasattr(os, "sched_getaffinity"):
        found = len(os.sched_getaffinity(0))
    else:
        found = os.cpu_count() or 1
    return min(found, _slurm("CPUS_PER_TASK") or _slurm("CPUS_ON_NODE") or found)


def checked_count(name: str, number: int | None, default: int, minimum: int = 1) -> int:
    """Return a user's number, or its default; refuse anything but an integer >= ``minimum``."""
    if number is None:
        return default
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < minimum:
        raise ValueError(f"{name}={number!r} is not a whole number of at least {minimum}")
    return operator.index(number)


def check_max_counts(**asked: int | None) -> None:
    """Refuse more slabs in flight, or threads, than this machine can use.

    >>> check_max_counts(workers=32)
    >>> check_max_counts(workers=100_000)
    Traceback (most recent call last):
    ValueError: workers=100000 is too large for this machine ...
    """
    for name, number in asked.items():
        few, each = _MAX_COUNTS[name]
        maximum = max(few, each * cores())
        if number is not None and number > maximum:
            raise ValueError(
                f"{name}={number} is too large for this machine with {counted(cores(), 'core')}; "
                f"more than {maximum} only need more memory. Give fewer, or leave {name}= out"
            )
