"""The chunks of an output: defaults and options."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import Space

#: Minimal size of default chunks before compression, if the volume is that large.
CHUNK_BYTES = 2 << 20


def default_chunk(shape: Triple, itemsize: int) -> Triple:
    """Return the default chunk of an output, which only depends on the shape and the size of a voxel.

    >>> default_chunk((5000, 4000, 4000), 1)
    (16, 512, 512)
    >>> default_chunk((1, 20000, 20000), 1)
    (1, 1024, 2048)
    """
    # 16 slices of 512 x 512 voxels (256 x 256 from 4 bytes per voxel on): 4 or 8 MiB. If the volume is
    # smaller along an axis, the others grow, y and x first, until a chunk has 2 MiB.
    edge = 512 if itemsize < 4 else 256
    chunk = [max(1, min(c, n)) for c, n in zip((16, edge, edge), shape, strict=True)]
    while math.prod(chunk) * itemsize < CHUNK_BYTES:
        able = [a for a in (2, 1, 0) if chunk[a] < shape[a]]
        if not able:
            break
        plane = [a for a in able if a > 0]
        axis = min(plane, key=lambda a: chunk[a]) if plane else 0
        chunk[axis] = min(2 * chunk[axis], shape[axis])
    z, y, x = chunk
    return (z, y, x)


def per_axis(
    option: str, value: int | Sequence[int] | None, space: Space, name: str
) -> Triple | None:
    """Convert an option with one number, or one per visible axis, to z, y, x."""
    if value is None:
        return None
    n = len(space.axes)
    values = list(value) if isinstance(value, Sequence | np.ndarray) else [value] * n
    if (
        len(values) == 3
        and n < 3
        and all(values[a] == 1 for a in range(3) if a not in space.visible)
    ):
        values = [values[a] for a in space.visible]
    if len(values) != n or any(int(v) != v or v < 1 for v in values):
        raise ValueError(
            f"{name}: {option}={value!r}; give a positive whole number, or one per axis "
            f"{', '.join(space.axes)}"
        )
    full = [1, 1, 1]
    for axis, v in zip(space.visible, values, strict=True):
        full[axis] = int(v)
    return (full[0], full[1], full[2])


def no_larger(chunk: Triple, shape: Triple) -> Triple:
    """Return a chunk, clipped to the volume."""
    z, y, x = (max(1, min(c, n)) for c, n in zip(chunk, shape, strict=True))
    return (z, y, x)


def whole_chunks(wanted: Triple, chunk: Triple, shape: Triple) -> Triple:
    """Return ``wanted`` as a multiple of ``chunk``, no larger than needed for ``shape``."""
    z, y, x = (
        i * max(1, min(w // i, -(-n // i))) for w, i, n in zip(wanted, chunk, shape, strict=True)
    )
    return (z, y, x)
