"""Numpy arrays as sources."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import tensorstore as ts

from beam_volumes.space import AXES, Space
from beam_volumes.storage.axes import DEFAULT_AXES, select
from beam_volumes.storage.context import context
from beam_volumes.storage.source import DTYPES, Source

#: Larger arrays do not travel to other processes.
PORTABLE_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class ArrayReader:
    """An array in memory, z, y, x."""

    array: np.ndarray
    _digest: list[str] = field(default_factory=list, repr=False)

    remote = False

    @property
    def portable(self) -> bool:
        return self.array.nbytes <= PORTABLE_BYTES

    def open(self) -> ts.TensorStore:
        return ts.array(self.array, copy=False, write=False, context=context())

    def token(self) -> str:
        if not self._digest:
            h = hashlib.blake2b(
                f"{self.array.dtype.str}{self.array.shape}".encode(), digest_size=16
            )
            for plane in self.array:
                h.update(np.ascontiguousarray(plane).data)
            self._digest.append(h.hexdigest())
        return self._digest[0]


def open_array(array: np.ndarray, index: Mapping[str, int | str] | None = None) -> Source:
    """A source of an array's voxels; the array must not change while it is in use."""
    name = f"a numpy array of shape {array.shape}"
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    if native.dtype not in DTYPES:
        raise ValueError(
            f"{name} holds {array.dtype}; voxels are one of {', '.join(d.name for d in DTYPES)}"
        )
    if array.ndim not in DEFAULT_AXES:
        raise ValueError(
            f"{name} has {array.ndim} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x)"
        )
    chosen = select(DEFAULT_AXES[array.ndim], array.shape, index, name)
    fixed = dict(chosen.fixed)
    view = native[tuple(fixed.get(d, slice(None)) for d in range(array.ndim))]
    view = view[tuple(slice(None) if a in chosen.axes else None for a in AXES)]
    z, y, x = view.shape
    return Source(
        name=name,
        shape=(z, y, x),
        dtype=native.dtype,
        chunk=(1, max(1, y), max(1, x)),
        chunk_origin=(0, 0, 0),
        space=Space(axes=chosen.axes),
        reader=ArrayReader(view),
        encoded=False,
    )
