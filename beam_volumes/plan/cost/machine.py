"""What a machine has: its memory and cores, and what users say of them."""

from __future__ import annotations

import operator
import os
import re
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import psutil

from beam_volumes.base.text import counted

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _UNITS[_letter] = _UNITS[f"{_letter}ib"] = 1 << (10 * _power)
    _UNITS[f"{_letter}b"] = 10 ** (3 * _power)


#: No run takes less, and no machine has more.
_MINIMUM, _MAXIMUM = 1000, 64 << 40
#: Slabs in flight, and threads of a slab, that are too many on any machine or for each of its cores.
_CROWDS = {"workers": (32, 8), "threads": (64, 16)}


def parse_bytes(text: int | float | str) -> int:
    """Bytes from a number or a text such as ``"2GiB"`` or ``"500 MB"``.

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
    size = number * _UNITS[unit]
    if size < _MINIMUM:
        raise ValueError(
            f"memory {text!r} is {size:g} bytes, less than any run needs; write a size with its unit, e.g. "
            "'2GiB' or '500MB'"
        )
    if size > _MAXIMUM:
        raise ValueError(
            f"memory {text!r} is more than any machine has; write what one machine may use, e.g. '64GiB', or "
            "leave it out"
        )
    return int(size)


def machine_memory() -> int:
    """RAM of this machine, or the limit of its control groups if that is lower."""
    return min([psutil.virtual_memory().total, *(limit for limit, _ in control_groups())])


def free_memory(root: str | Path = "/") -> int:
    """RAM that this process may come to hold: what it holds, and what is left to it.

    What is left is what the machine has, and what each of its control groups (of a container, say) may
    still take. Files that the kernel keeps in memory, and may drop, are not counted as taken.
    """
    left = [limit - used for limit, used in control_groups(root)]
    own = psutil.Process().memory_info().rss
    return own + max(0, min([psutil.virtual_memory().available, *left]))


#: Below the folder that control groups are listed in: of a group its limit, what it holds, and of that
#: what files could be dropped (version 2, and 1).
_GROUPS = {
    "": ("", "memory.max", "memory.current", "inactive_file"),
    "memory": (
        "memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
        "total_inactive_file",
    ),
}


def control_groups(root: str | Path = "/") -> Iterator[tuple[int, int]]:
    """The limit and the use of memory, in bytes, of each control group that limits this process."""
    root = Path(root)
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        for kind in kinds.split(","):
            if kind not in _GROUPS:
                continue
            top, maximum, used, cached = _GROUPS[kind]
            group = PurePosixPath(path)
            # In a container the path may be that of outside, and only the top is there to be read.
            for at in (group, *group.parents):
                folder = root / "sys/fs/cgroup" / top / str(at).lstrip("/")
                try:
                    limit = int((folder / maximum).read_text())
                    taken = int((folder / used).read_text())
                    stat = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
                except (OSError, ValueError):  # not there, or "max"
                    continue
                yield limit, taken - int(stat.get(cached, 0))


def held_memory() -> int:
    """Return the memory that is resident now, as `peak_memory` counts it."""
    held = psutil.Process().memory_info()
    return int(held.rss - getattr(held, "shared", 0))


def peak_memory() -> int:
    """The most memory this process has had resident so far, but for what is mapped of files.

    Those are libraries. How much of them is resident is the kernel's choice (large folios map 90 MiB more
    than small ones), and what it may drop without writing is not what a limit is exceeded by.
    """
    try:
        # Not `ru_maxrss`, where Linux counts in what the process had that started this one.
        with open("/proc/self/status") as status:
            kib = {line.split(":")[0]: line.split()[1] for line in status if line.endswith("kB\n")}
        return int(kib["VmHWM"]) - int(kib["RssFile"]) << 10
    except (OSError, KeyError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def default_memory() -> int:
    """A quarter of `machine_memory`."""
    return machine_memory() // 4


def cores() -> int:
    """Processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def checked_count(name: str, number: int | None, default: int, least: int = 1) -> int:
    """A number that a user gave, or what it is by default; refused if it is none that counts."""
    if number is None:
        return default
    if isinstance(number, bool) or not hasattr(number, "__index__") or number < least:
        raise ValueError(f"{name}={number!r} is not a whole number from {least} on")
    return operator.index(number)


def check_crowds(**asked: int | None) -> None:
    """Refuse so many slabs in flight, or threads, on this machine that they would only take memory.

    >>> check_crowds(workers=32)
    >>> check_crowds(workers=100_000)
    Traceback (most recent call last):
    ValueError: workers=100000: this machine has ...
    """
    for name, number in asked.items():
        few, each = _CROWDS[name]
        maximum = max(few, each * cores())
        if number is not None and number > maximum:
            raise ValueError(
                f"{name}={number}: this machine has {counted(cores(), 'core')}, and more than {maximum} only "
                f"take memory; give fewer, or leave {name}= out"
            )
