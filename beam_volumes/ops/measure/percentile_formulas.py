"""Percentiles from counts: small pure functions that run on the driver.

Percentiles use a radix search. Level 0 counts the highest 16 bits of every voxel's order-preserving key. This
determines the group, out of 65536, of each order statistic, and its rank in the group. Level 1 counts the
next 16 bits in these groups, and so on until the key is complete. Sweeps exchange a *search*: an array of
uint64 with a row for each order statistic, and columns for the digits known so far, the remaining rank, and
the number of voxels.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.measure.accumulate import from_keys
from beam_volumes.kernels.measure.histogram import digit_bits

PREFIX, RANK, SIZE = 0, 1, 2


def percentile_levels(dtype: np.dtype) -> int:
    """The number of sweeps of an exact percentile: 1, 2 or 4 for (up to) 16, 32 and 64 bits."""
    return 8 * np.dtype(dtype).itemsize // digit_bits(dtype)


def percentile_dtype(dtype: np.dtype, q: float | tuple[float, ...]) -> np.dtype:
    """The dtype of ``numpy.percentile``: the volume's dtype for floats and a single ``q``."""
    dtype = np.dtype(dtype)
    return dtype if dtype.kind == "f" and not isinstance(q, tuple) else np.dtype(np.float64)


def percentile_ranks(
    size: int, q: float | tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ranks below and above each percentile and the weight between them, for numpy's "linear" method.

    Returns ``lower, upper``, int64 (Q,), ranks from 0 in the sorted voxels, and ``gamma``, float64 (Q,).
    """
    share = np.true_divide(np.atleast_1d(np.asarray(q, np.float64)), 100)
    if not np.all((share >= 0) & (share <= 1)):
        raise ValueError(f"percentiles must be between 0 and 100, not {q}")
    virtual = (size - 1) * share
    lower = np.floor(virtual)
    at_end = virtual >= size - 1
    # numpy uses -1 for the last index and computes gamma from it
    gamma = virtual - np.where(at_end, -1.0, lower)
    lower = np.where(at_end, size - 1, lower).astype(np.int64)
    return lower, np.minimum(lower + 1, size - 1), gamma


def first_search(counts: np.ndarray, q: float | tuple[float, ...]) -> np.ndarray:
    """The search after level 0, from int64 ``counts`` of every highest digit.

    Returns uint64 (2 Q, 3): a row for each lower, then for each upper order statistic.
    """
    size = int(counts.sum())
    if size == 0:
        raise ValueError("percentile of no voxels: the mask selects none, or all are left out")
    lower, upper, _ = percentile_ranks(size, q)
    search = np.zeros((2 * len(lower), 3), np.uint64)
    search[:, RANK] = np.concatenate([lower, upper])
    search[:, SIZE] = size
    return next_search(search, counts.reshape(1, -1))


def next_prefixes(search: np.ndarray) -> np.ndarray:
    """The distinct prefixes to count at the next level, ascending."""
    return np.unique(search[:, PREFIX])


def next_search(search: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The search with one more digit.

    ``counts``, int64 (K, digits), are ``radix_counts`` for the `next_prefixes` of ``search``.
    """
    found = search.copy()
    digits = np.uint64(counts.shape[1])
    cumulative = np.cumsum(counts, axis=1)
    group = np.searchsorted(next_prefixes(search), search[:, PREFIX])
    for i, k in enumerate(group):
        rank = int(search[i, RANK])
        digit = int(np.searchsorted(cumulative[k], rank, side="right"))
        below = int(cumulative[k, digit - 1]) if digit else 0
        found[i, PREFIX] = search[i, PREFIX] * digits + np.uint64(digit)
        found[i, RANK] = rank - below
    return found


def percentile_of_search(
    search: np.ndarray, q: float | tuple[float, ...], dtype: np.dtype
) -> np.generic | np.ndarray:
    """The percentiles of a complete search, identical to ``numpy.percentile``."""
    # There are two differences: bool is 0 and 1 (numpy refuses it), and interpolation does not wrap around
    # (``numpy.percentile(numpy.int8([-100, 100]), 50)`` is 128).
    lower, upper = np.split(from_keys(search[:, PREFIX], dtype), 2)
    _, _, gamma = percentile_ranks(int(search[0, SIZE]), q)
    ours = between(lower, upper, gamma, percentile_dtype(dtype, q))
    return ours if isinstance(q, tuple) else ours[0]


def between(lower: np.ndarray, upper: np.ndarray, gamma: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Percentiles in a dtype, from the order statistics below and above and the weight between them.

    >>> between(np.array([1], "u1"), np.array([4], "u1"), np.array([0.5]), np.dtype("f8"))
    array([2.5])
    """
    if lower.dtype.kind == "f":
        weight = gamma.astype(dtype)
        rest = (1 - gamma).astype(dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            difference = upper - lower
            ours = np.where(gamma >= 0.5, upper - difference * rest, lower + difference * weight)
    else:
        # Modulo 2**64 differences of integers are exact.
        whole = np.uint64 if lower.dtype.kind == "u" else np.int64
        bits = (v.astype(whole).view(np.uint64) for v in (upper, lower))
        difference = np.subtract(*bits).astype(np.float64)
        below, above = lower.astype(np.float64), upper.astype(np.float64)
        ours = np.where(gamma >= 0.5, above - difference * (1 - gamma), below + difference * gamma)
    return ours.astype(dtype)
