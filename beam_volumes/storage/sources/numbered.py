"""Numbered names: their order, and replacements of missing numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any

import numpy as np

from beam_volumes.base.text import counted, printable

#: Names that a message lists.
_SHOWN = 5


@dataclass(frozen=True)
class Series:
    """Numbered names, e.g. ``iso.2600.png`` to ``iso.2849.png``, in constant memory."""

    prefix: str
    first: int
    step: int
    count: int
    width: int
    suffix: str

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, i: int) -> str:
        return f"{self.prefix}{self.first + i * self.step:0{self.width}d}{self.suffix}"


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a key for natural order: ``s9`` before ``s10``."""
    parts = re.split(r"(\d+)", name)
    return (tuple(int(p) if p.isdigit() else p.lower() for p in parts), name)


def in_natural_order(names: Sequence[str]) -> list[str]:
    """Sort names as by `natural_key`, faster if they are numbered."""
    parts = _one_number(names)
    if parts is None:
        return sorted(names, key=natural_key)
    return [name for _, name in sorted(zip(map(int, parts[1]), names, strict=True))]


def series_of(
    names: Sequence[str], where: str, missing: str = "error"
) -> tuple[Series | tuple[str, ...], Mapping[int, int | None]]:
    """Return sorted names, as a `Series` if numbered, and replacements of missing ones."""
    parts = _one_number(names)
    if parts is None:
        return tuple(names), {}
    prefix, digits, suffix = parts
    numbers = [int(d) for d in digits]
    gaps = [b - a for a, b in pairwise(numbers)]
    if 0 in gaps:
        i = gaps.index(0)
        raise ValueError(
            f"{where}: {names[i]} and {names[i + 1]} have the same number; rename or remove one"
        )
    step = math.gcd(*gaps)
    padded = digits[0].startswith("0") or len(set(map(len, digits))) == 1
    width = len(digits[0]) if padded else 1
    there = [(n - numbers[0]) // step for n in numbers]
    series = Series(prefix, numbers[0], step, there[-1] + 1, width, suffix)
    absent = []
    if len(there) < len(series):
        absent = sorted(set(range(len(series))) - set(there))
    if absent and missing == "error":
        shown = ", ".join(series[z] for z in absent[:_SHOWN])
        more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
        raise FileNotFoundError(
            f"{where}: {len(absent)} slice{'s are' if len(absent) > 1 else ' is'} missing between "
            f"{names[0]} and {names[-1]}: {shown}{more}; restore them, select the slices by a "
            'glob, or give missing="repeat" or missing="fill"'
        )
    instead = stand_ins(there, absent, missing) if absent else {}
    if [f"{prefix}{n:0{width}d}{suffix}" for n in numbers] == list(names):
        return series, instead
    named = dict(zip(there, names, strict=True))
    return tuple(named.get(z, series[z]) for z in range(len(series))), instead


def _one_number(names: Sequence[str]) -> tuple[str, list[str], str] | None:
    """Split names that differ in one number into prefix, digits and suffix."""
    if len(names) < 2:
        return None
    # A common prefix of the first and the last name is common to all names between.
    first, last = min(names), max(names)
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    prefix = first[: sum(1 for _ in alike)]
    while prefix and prefix[-1].isdecimal():
        prefix = prefix[:-1]
    rest = names[0][len(prefix) :]
    n = next((k for k, letter in enumerate(rest) if not letter.isdecimal()), len(rest))
    suffix = rest[n:]
    if not all(name.endswith(suffix) for name in names):
        return None
    digits = [name[len(prefix) : len(name) - len(suffix)] for name in names]
    return (prefix, digits, suffix) if all(map(str.isdecimal, digits)) else None


#: The option of formats with slices as files or pages, which may be missing.
MISSING = (
    '``"error"`` (the default), ``"repeat"`` or ``"fill"``',
    "Whether missing slices are an error, or are replaced with the nearest slice (of two, the previous "
    "one) or with zeros.",
)
#: The name of the replacement by zeros.
ZEROS = "zeros"


def check_missing(missing: str, where: str) -> str:
    """Refuse unknown values of the option ``missing``."""
    if missing not in ("error", "repeat", "fill"):
        raise ValueError(
            f"{printable(where)}: missing={missing!r} is not valid; use 'error', 'repeat' or 'fill'"
        )
    return missing


def stand_ins(
    there: Sequence[int] | np.ndarray, lost: Sequence[int] | np.ndarray, missing: str
) -> dict[int, int | None]:
    """Return the replacement of each missing slice; None for zeros.

    >>> stand_ins([2, 3, 7], [0, 1, 4, 5, 6, 8], "repeat")
    {0: 2, 1: 2, 4: 3, 5: 3, 6: 7, 8: 7}
    """
    if missing == "fill":
        return dict.fromkeys(map(int, lost))
    known, asked = np.asarray(there, np.int64), np.asarray(lost, np.int64)
    after = np.searchsorted(known, asked)
    before = known[np.maximum(after - 1, 0)]
    after = known[np.minimum(after, len(known) - 1)]
    nearest = np.where(abs(asked - before) <= abs(after - asked), before, after)
    return {int(z): int(k) for z, k in zip(asked, nearest, strict=True)}


def describe_lost(lost: Mapping[str, str]) -> str:
    """Describe missing slices for a plan; empty if there are none.

    >>> describe_lost({"s3.png": "s2.png", "s9.png": "zeros"})
    '2 slices are missing: s3.png (s2.png instead), s9.png (zeros instead)'
    """
    if not lost:
        return ""
    first = [f"{printable(name)} ({printable(lost[name])} instead)" for name in [*lost][:_SHOWN]]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    missing = f"{counted(len(lost), 'slice')} {'are' if len(lost) > 1 else 'is'} missing"
    return f"{missing}: {', '.join(first)}{more}"
