"""Integers in few bytes, for those that differ little from the one before, as increasing ids do.

Each is stored as its difference from the one before, with the sign in the lowest bit, in groups of 7 bits.
The highest bit of a byte is set if more follow (as ``sint64`` in Protocol Buffers).
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel

_ONE, _SEVEN, _LOW, _MORE = np.uint64(1), np.uint64(7), np.uint64(127), np.uint64(128)


def pack(values: np.ndarray) -> np.ndarray:
    """Pack integers into bytes.

    >>> packed = pack(np.array([5, 6, 7, 2000], "u4"))
    >>> len(packed), unpack(packed, 4, np.dtype("u4"))
    (5, array([   5,    6,    7, 2000], dtype=uint32))
    """
    # Only the pages that are written take memory.
    packed = np.empty(10 * len(values), np.uint8)
    return packed[: _pack(values, packed)].copy()


def unpack(packed: np.ndarray, count: int, dtype: np.dtype) -> np.ndarray:
    """The integers in bytes from `pack`."""
    values = np.empty(count, dtype)
    _unpack(packed, values)
    return values


@kernel
def _pack(values, packed):
    n, last = 0, np.uint64(0)
    for i in range(values.size):
        step = np.uint64(values[i]) - last
        last = np.uint64(values[i])
        word = (step << _ONE) ^ np.uint64(np.int64(step) >> np.int64(63))
        while word >= _MORE:
            packed[n] = (word & _LOW) | _MORE
            word >>= _SEVEN
            n += 1
        packed[n] = word
        n += 1
    return n


@kernel
def _unpack(packed, values):
    n, last = 0, np.uint64(0)
    for i in range(values.size):
        byte = np.uint64(packed[n])
        n += 1
        word, shift = byte & _LOW, _SEVEN
        while byte >= _MORE:
            byte = np.uint64(packed[n])
            n += 1
            word |= (byte & _LOW) << shift
            shift += _SEVEN
        last += (word >> _ONE) ^ (np.uint64(0) - (word & _ONE))
        values[i] = last
