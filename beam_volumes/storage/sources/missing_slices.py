"""Slices that are lost, and what is read in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from beam_volumes.base.text import counted, printable

#: The option of formats whose slices are files or pages, of which some may be lost.
MISSING = (
    '``"error"`` (the default), ``"repeat"`` or ``"fill"``',
    "Whether slices that are lost are an error, are read as the nearest slice there is (of two, the one "
    "before), or as zeros.",
)
#: What is said of a slice that nothing but zeros can be read for.
ZEROS = "zeros"
_SHOWN = 5


def check_missing(missing: str, where: str) -> str:
    """Refuse what is no way to take slices that are lost."""
    if missing not in ("error", "repeat", "fill"):
        raise ValueError(
            f"missing={missing!r}: {printable(where)} is made of slices; use 'error', 'repeat' or 'fill'"
        )
    return missing


def stand_ins(
    there: Sequence[int] | np.ndarray, lost: Sequence[int] | np.ndarray, missing: str
) -> dict[int, int | None]:
    """Which slice is read for each that is lost; None for zeros.

    - ``there``, ``lost``: in order. At least one slice is there.

    Examples
    --------
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


def told(lost: Mapping[str, str]) -> str:
    """What a plan says of slices that are lost; empty if there are none.

    Examples
    --------
    >>> told({"s3.png": "s2.png", "s9.png": "zeros"})
    '2 slices are lost: s3.png (s2.png instead), s9.png (zeros instead)'
    """
    if not lost:
        return ""
    first = [f"{printable(name)} ({printable(lost[name])} instead)" for name in [*lost][:_SHOWN]]
    more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
    return f"{counted(len(lost), 'slice')} {'are' if len(lost) > 1 else 'is'} lost: {', '.join(first)}{more}"
