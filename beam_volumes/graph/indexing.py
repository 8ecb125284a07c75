"""Indexing of volumes by integers and slices."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box
from beam_volumes.base.space import AXES
from beam_volumes.graph.core import V, VolumeCore
from beam_volumes.graph.nodes import CropNode, with_sources
from beam_volumes.graph.scalar import Scalar
from beam_volumes.storage.sources.source import Source


def indexed(volume: V, key: Any) -> tuple[V, list[int]]:
    """Crop a volume to a key; also return the steps along its axes, [] if all are 1."""
    keys = list(key) if isinstance(key, tuple) else [key]
    for k in keys:
        _refuse_key(k)
    if sum(k is Ellipsis for k in keys) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = next((n for n, k in enumerate(keys) if k is Ellipsis), None)
    if at is not None:
        keys[at : at + 1] = [slice(None)] * (volume.ndim - len(keys) + 1)
    if len(keys) > volume.ndim:
        raise IndexError(f"too many indices: {len(keys)} for the axes {', '.join(volume.axes)}")
    keys += [slice(None)] * (volume.ndim - len(keys))
    if volume.space.times:
        key = _start_and_stop("t", keys.pop(0), volume.space.times)
        if isinstance(key, int):
            return indexed(at_points(volume, key), tuple(keys))
        if not range(*key):
            raise IndexError("axis t: the index selects no time point")
        if key != (0, volume.space.times):
            keys.insert(0, slice(None))
            return indexed(at_points(volume, key), tuple(keys))
    if volume.space.has_channels:
        key = keys.pop(0)
        if isinstance(key, slice) and key.step not in (None, 1):
            chosen_c = range(*key.indices(len(volume.nodes)))
            rest = [slice(None)] * bool(volume.space.times) + [slice(None), *keys]
            if not chosen_c:
                raise IndexError("axis c: the index selects no channel")
            return indexed(volume.sel(c=list(chosen_c)), tuple(rest))
        key = _start_and_stop("c", key, len(volume.nodes))
        if isinstance(key, int):
            keys = [slice(None)] * bool(volume.space.times) + keys
            return indexed(volume.sel(c=key), tuple(keys))
        if not range(*key):
            raise IndexError("axis c: the index selects no channel")
        chosen = volume.sel(c=list(range(*key)))
    else:
        chosen = volume
    start, stop, steps = [0, 0, 0], list(volume.grid_shape), [1, 1, 1]
    kept = list(volume.space.axes)
    for axis, k in zip(volume.space.axes, keys, strict=True):
        i = AXES.index(axis)
        k, steps[i] = _forwards(k, volume.grid_shape[i])
        found = _start_and_stop(axis, k, volume.grid_shape[i])
        if isinstance(found, int):
            start[i], stop[i] = found, found + 1
            kept.remove(axis)
        else:
            start[i], stop[i] = found
    box = Box(tuple(start), tuple(stop))  # type: ignore[arg-type]
    space = replace(chosen.space.shifted(box.start), axes=tuple(kept))
    cropped = chosen.map_channels(lambda node: CropNode.of(node, box), space)
    taken = [steps[i] for i in space.visible]
    return cropped, taken if set(taken) - {1} else []


def at_points(volume: V, at: int | tuple[int, int]) -> V:
    """Return one or several time points of a volume."""

    def taken(source: Source) -> Source:
        if "t" not in source.space.leading:
            return source
        return source.point("t", at) if isinstance(at, int) else source.span("t", *at)

    nodes = with_sources(volume.nodes, taken)
    if isinstance(at, int):
        return type(volume)(nodes, volume.space.of_one("t"))
    return type(volume)(nodes, replace(volume.space, times=at[1] - at[0]))


def _refuse_key(key: Any) -> None:
    """Refuse keys that only arrays support; the message shows an alternative."""
    if key is None:
        raise IndexError(
            "v[None] is not available, because volumes only have the axes t, c, z, y, x; "
            "bv.stack([v]) adds a channel axis, and np.asarray(v)[None] returns an array with a "
            "further axis"
        )
    if isinstance(key, VolumeCore | Scalar | np.ndarray | list | tuple | bool | np.bool_):
        if (
            getattr(key, "dtype", np.dtype(type(key) if isinstance(key, bool) else object)).kind
            == "b"
        ):
            raise IndexError(
                "v[mask] is not available, because its shape depends on the voxels; use "
                "bv.where(mask, v, 0), or mask=, as in bv.mean(v, mask=mask)"
            )
        raise IndexError(
            f"v[{'...' if hasattr(key, 'shape') else key!r}]: use integers and slices; "
            "bv.concatenate joins several slices, and v.sel(c=[...]) chooses channels"
        )


def _forwards(key: Any, n: int) -> tuple[Any, int]:
    """Return a slice of step 1 that contains the slice of a key, and the step in it; -1 is backwards."""
    if not isinstance(key, slice) or key.step in (None, 1):
        return key, 1
    chosen = range(*key.indices(n))
    if not chosen:
        return slice(0, 0), 1
    return slice(min(chosen), max(chosen) + 1), chosen.step


def _start_and_stop(axis: str, key: Any, n: int) -> int | tuple[int, int]:
    """Parse an integer, or a slice of step 1, for an axis of extent ``n``."""
    if isinstance(key, slice):
        a, b, step = key.indices(n)
        if step != 1:
            raise IndexError(
                f"axis {axis}: step {key.step} is not available; choose points one by one, as v[0]"
                if axis == "t"
                else f"axis {axis}: step {key.step} is not available; slices have step 1"
            )
        return a, max(a, b)
    try:
        at = operator.index(key)
    except TypeError:
        raise IndexError(
            f"axis {axis}: {key!r} is not available; use integers and slices"
        ) from None
    if not -n <= at < n:
        raise IndexError(f"axis {axis}: index {at} is out of range for extent {n}")
    return at % n
