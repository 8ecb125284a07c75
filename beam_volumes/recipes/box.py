"""Boxes as users write them: ``z0:z1,y0:y1,x0:x1``."""

from __future__ import annotations

import re

from beam_volumes.graph.volume import Volume

_PART = re.compile(r"\s*(-?\d+)?\s*:\s*(-?\d+)?\s*|\s*")


def crop(volume: Volume, box: str) -> Volume:
    """The part of a volume inside a box.

    Parameters
    ----------
    volume : Volume
        What is cropped.
    box : str
        A range per axis, with Python's meaning of negative numbers; empty ranges and axes left
        out at the end are whole.

    Examples
    --------
    >>> crop(bv.open(np.zeros((8, 9, 10))), "2:4,,-3:").shape
    (2, 9, 3)
    """
    parts = str(box).split(",")
    matches = [_PART.fullmatch(p) for p in parts]
    if not all(matches):
        raise ValueError(f"the box {box!r} is not of the form z0:z1,y0:y1,x0:x1")
    axes = ", ".join(volume.axes)
    if len(parts) > volume.ndim:
        raise ValueError(f"the box {box!r} has {len(parts)} ranges for the axes {axes}")
    ranges = [slice(*(int(n) if n else None for n in m.groups())) for m in matches if m]
    result = volume[tuple(ranges)]
    if 0 in result.shape and 0 not in volume.shape:
        shape = " x ".join(map(str, volume.shape))
        raise ValueError(f"the box {box!r} holds nothing of a volume of {shape} ({axes})")
    return result
