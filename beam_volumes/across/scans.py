"""Scans along z: summaries of slabs, their combination, and the state carried into slabs.

A `Scan` folds the slices of a slab into a *summary*, a plane of state. Summaries of adjacent slabs
are combined in order by an associative operation. The state carried into slab ``k`` of a forward
scan combines all slabs before it (of a backward scan: all after it). With it the slab computes its
slices independently. `up` and `down` combine groups of a fixed number of slabs, level by level, so
no step needs more than a group (G. Blelloch, "Prefix sums and their applications", 1990). Only
small planes are sent. State is divided into xy tiles: `state_tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.codecs import compress, decompress
from beam_volumes.kernels.morphology.distance import FAR

#: The largest state of one element, in bytes.
MAX_STATE = 4_000_000

Combine = Callable[[Any, Any], Any]


def state_tiles(
    rows: int, cols: int, itemsize: int, maximum: int = MAX_STATE
) -> list[tuple[slice, slice]]:
    """The fewest even xy tiles of a plane of state with at most ``maximum`` bytes each.

    >>> len(state_tiles(1000, 1000, 4)), len(state_tiles(2048, 2048, 4))
    (1, 5)
    """
    voxels = max(1, maximum // itemsize)
    across = -(-cols // voxels)
    width = -(-cols // across)
    down = -(-rows // max(1, voxels // width))
    return [(y, x) for y in _even(rows, down) for x in _even(cols, across)]


def _even(length: int, parts: int) -> Iterator[slice]:
    for i in range(parts):
        yield slice(i * length // parts, (i + 1) * length // parts)


def combined(combine: Combine, a: Any, b: Any) -> Any:
    """``combine(a, b)``, where None is the summary of no slices."""
    if a is None or b is None:
        return b if a is None else a
    return combine(a, b)


def up(summaries: Sequence[Any], combine: Combine) -> Any:
    """The summary of a group from its members in the order of the scan."""
    total = None
    for summary in summaries:
        total = combined(combine, total, summary)
    return total


def down(carry: Any, summaries: Sequence[Any], combine: Combine) -> list[Any]:
    """The states carried into the members of a group, from the state carried into the group."""
    carries = []
    for summary in summaries:
        carries.append(carry)
        carry = combined(combine, carry, summary)
    return carries


@dataclass(frozen=True)
class Distance:
    """For each column of a slab, the distance from its end to the nearest background."""

    depth: int  #: Slices of the slab.
    #: int32 (rows, columns). From the slab's last slice (in a backward scan: its first) to the
    #: nearest background voxel of the column, or `FAR`.
    distance: np.ndarray


def distance_combine(a: Distance, b: Distance) -> Distance:
    """The `Distance` of two neighbours, ``b`` the later one in the order of the scan."""
    through = np.where(a.distance == FAR, FAR, np.minimum(a.distance, FAR - b.depth) + b.depth)
    return Distance(
        a.depth + b.depth, np.where(b.distance == FAR, through, b.distance).astype(np.int32)
    )


def distance_carry(carry: Distance | None, rows: int, cols: int) -> np.ndarray:
    """The initial plane of `kernels.morphology.distance.forward` or `backward`; a new array."""
    if carry is None:
        return np.full((rows, cols), FAR, np.int32)
    return carry.distance.copy()


def plane_dtype(depth: int) -> np.dtype:
    """The narrowest dtype of distances within ``depth`` slices; its maximum represents `FAR`."""
    return np.dtype(np.uint8 if depth <= 255 else np.uint16 if depth <= 65_535 else np.uint32)


def packed(distance: np.ndarray, depth: int) -> bytes:
    """Compress a plane of distances within ``depth`` slices.

    >>> plane = np.array([[0, 3, FAR]], np.int32)
    >>> unpacked(packed(plane, 4), 4, 1, 3).tolist() == plane.tolist()
    True
    """
    narrow = distance.astype(plane_dtype(depth))  # the low bits of FAR are ones
    return compress(narrow.tobytes())


def unpacked(data: bytes, depth: int, rows: int, cols: int) -> np.ndarray:
    """The inverse of `packed`, as int32."""
    dtype = plane_dtype(depth)
    narrow = np.frombuffer(decompress(data), dtype).reshape(rows, cols)
    distance = narrow.astype(np.int32)
    if dtype != np.uint32:
        distance[narrow == np.iinfo(dtype).max] = FAR
    return distance


def cumsum_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of ``cumsum``: numpy's, 64 bits for bool and integers; float64 for floats."""
    # Integers are exact modulo 2**64, as in numpy. Sums of floats are rounded, so sums of slabs could not be
    # combined to the same bits: a sweep processes the slices in order instead.
    dtype = np.dtype(dtype)
    if dtype.kind not in "biuf":
        raise TypeError(f"cumsum of {dtype} is not available; use bool, integers or floats")
    return np.dtype({"u": np.uint64, "f": np.float64}.get(dtype.kind, np.int64))


def cumsum_combine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a + b


def cut_state(state: Any, tile: tuple[slice, slice]) -> Any:
    """A tile of a state: of a plane, or of every plane in a dataclass; None stays None.

    >>> cut_state(Distance(4, np.eye(3, dtype=np.int32)), (slice(0, 1), slice(0, 2)))
    Distance(depth=4, distance=array([[1, 0]], dtype=int32))
    """
    if isinstance(state, np.ndarray):
        return state[tile]
    if is_dataclass(state) and not isinstance(state, type):
        return replace(state, **{name: plane[tile] for name, plane in _planes(state).items()})
    if state is None:
        return None
    raise TypeError(
        f"a state of type {type(state).__name__} cannot be divided into tiles: use a plane (numpy "
        "array of rows and columns), a dataclass of planes, or smaller tiles of the volume"
    )


def join_states(parts: Sequence[Any], tiles: Sequence[tuple[slice, slice]]) -> Any:
    """Join the tiles of a state in the order of ``tiles``."""
    first = parts[0]
    if len(parts) == 1 or first is None:
        return first
    if isinstance(first, np.ndarray):
        rows, cols = (max(tile[axis].stop for tile in tiles) for axis in (0, 1))
        whole = np.empty((rows, cols, *first.shape[2:]), first.dtype)
        for tile, part in zip(tiles, parts, strict=True):
            whole[tile] = part
        return whole
    names = _planes(first)
    return replace(first, **{n: join_states([getattr(p, n) for p in parts], tiles) for n in names})


def _planes(state: Any) -> dict[str, np.ndarray]:
    values = {f.name: getattr(state, f.name) for f in fields(state)}
    return {n: v for n, v in values.items() if isinstance(v, np.ndarray) and v.ndim >= 2}
