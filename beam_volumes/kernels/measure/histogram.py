"""Exact counts per value, per bin, and per digit of order-preserving keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.elementary.exp_log import flat_rows
from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.measure.accumulate import flat_bits, flat_mask, key_bits
from beam_volumes.kernels.measure.projection import strides_of_cells
from beam_volumes.kernels.scratch import Scratch, arrays

DIGIT_BITS = 16
#: Number of values of a digit of 8 bits.
BYTE = 256
#: Copies of the counts of bins that consecutive voxels are counted in.
WAYS = 4
#: Number of voxels per call of `_guess_bins`: a multiple of `WAYS`.
GUESSED = 4096


def digit_bits(dtype: np.dtype) -> int:
    """Bits of a radix digit: 16, or 8 for dtypes of 8 bits."""
    return min(DIGIT_BITS, 8 * np.dtype(dtype).itemsize)


@kernel
def _count_top_digits(bits, pitch, rows, cols, mask, mask_pitch, key_of, shift, counts):
    sign, magnitude, negative, positive, infinite = key_of
    bad = 0
    # Neighbouring voxels are often equal: with several counters, increments need not wait for each other.
    ways = len(counts)
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = bits[y * pitch + x]
            if (b & magnitude) >= infinite:
                bad += 1
                continue
            key = b ^ (negative if b & sign else positive)
            counts[x & (ways - 1), np.int64(key >> shift)] += 1
    return bad


@kernel
def _count_digits(bits, pitch, rows, cols, mask, mask_pitch, key_of, shift, prefixes, counts):
    sign, magnitude, negative, positive, infinite = key_of
    digits = counts.shape[1]
    above = np.uint64(shift + 16)
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = bits[y * pitch + x]
            if (b & magnitude) >= infinite:
                bad += 1
                continue
            key = np.uint64(b ^ (negative if b & sign else positive))
            prefix = key >> above
            low, high = 0, len(prefixes) - 1
            while low < high:
                middle = (low + high) >> 1
                if prefixes[middle] < prefix:
                    low = middle + 1
                else:
                    high = middle
            if prefixes[low] == prefix:
                counts[low, np.int64(key >> np.uint64(shift)) & (digits - 1)] += 1
    return bad


def value_counts(src: np.ndarray, mask: np.ndarray | None = None) -> tuple[np.ndarray, int]:
    """Count each value of an integer dtype of up to 16 bits, or of bool.

    Returns int64 ``counts[v - numpy.iinfo(dtype).min]`` (two for bool), and ``bad``, which is always 0.
    """
    if src.dtype.kind not in "biu" or src.itemsize > 2:
        raise TypeError(
            f"{src.dtype} has too many values to count each: use bool, u8, i8, u16, i16"
        )
    counts, bad = radix_counts(src, 0, mask=mask)
    return counts[0, : 2 if src.dtype == bool else None], bad


def radix_counts(
    src: np.ndarray,
    level: int,
    prefixes: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """Count each digit at one level of the order-preserving keys (see `KeyBits`), and the non-finite voxels.

    Only voxels with a key that starts with one of the ascending ``prefixes`` are counted, in its row.
    """
    # ``level`` is 0 for the highest 16 bits (8 for 8-bit dtypes), 1 for the next, and so on. ``prefixes``,
    # uint64 (K,), are not given at level 0. The counts are int64, (K, 65536) or (1, 256).
    bits, pitch = flat_bits(src)
    used, mask_pitch = flat_mask(mask, src.shape)
    width = digit_bits(src.dtype)
    shift = 8 * src.itemsize - width * (level + 1)
    window = (bits, pitch, *src.shape, used, mask_pitch, key_bits(src.dtype))
    if level == 0:
        ways = 4 if width == 8 else 1
        counts = np.zeros((ways, 1 << width), np.int64)
        bad = _count_top_digits(*window, bits.dtype.type(shift), counts)
        return counts.sum(axis=0, keepdims=True), bad
    prefixes = np.ascontiguousarray(prefixes, np.uint64)
    counts = np.zeros((len(prefixes), 1 << width), np.int64)
    if len(prefixes) == 0:
        raise ValueError(f"level {level} of a radix histogram needs prefixes")
    return counts, _count_digits(*window, shift, prefixes, counts)


@kernel
def _count_digits_along(
    bits, pitch, rows, cols, mask, mask_pitch, at, down, along, key_of, shift, prefixes, counts
):  # fmt: skip
    sign, magnitude, negative, positive, infinite = key_of
    bad = 0
    for y in range(rows):
        for x in range(cols):
            if mask is not None and mask[y * mask_pitch + x] == 0:
                continue
            b = bits[y * pitch + x]
            if (b & magnitude) >= infinite:
                bad += 1
                continue
            cell = at + y * down + x * along
            key = np.uint64(b ^ (negative if b & sign else positive)) >> shift
            digit = np.int64(key) & 255
            if prefixes is None:
                counts[cell, 0, digit] += 1
                continue
            prefix = key >> np.uint64(8)
            for i in range(prefixes.shape[1]):
                if prefixes[cell, i] == prefix:
                    counts[cell, i, digit] += 1
                    break
    return bad


def digits_along(
    views: Sequence[np.ndarray],
    masks: Sequence[np.ndarray] | None,
    kept: tuple[bool, bool, bool],
    level: int,
    prefixes: np.ndarray | None = None,
) -> tuple[np.ndarray, int]:
    """`radix_counts` of slices along the reduced axes, by digits of 8 bits: int64 (z, y, x, K, 256).

    Other parameters are described in `beam_volumes.kernels.measure.projection.sums`.
    """
    # ``prefixes``, uint64 (cells, K), are the higher digits for each cell of the result in raster order; the
    # first of equal ones has the counts. Also returns the number of non-finite voxels.
    shape = (len(views), *views[0].shape)
    cells = tuple(n if k else 1 for n, k in zip(shape, kept, strict=True))
    over, down, along = strides_of_cells(shape, kept)  # type: ignore[arg-type]
    groups = 1 if prefixes is None else prefixes.shape[1]
    counts = np.zeros((cells[0] * cells[1] * cells[2], groups, BYTE), np.int64)
    shift = np.uint64(8 * (views[0].dtype.itemsize - 1 - level))
    bad = 0
    for k, view in enumerate(views):
        bits, pitch = flat_bits(view)
        mask, mask_pitch = flat_mask(None if masks is None else masks[k], view.shape)
        bad += _count_digits_along(
            bits, pitch, *view.shape, mask, mask_pitch, k * over, down, along,
            key_bits(view.dtype), shift, prefixes, counts,
        )  # fmt: skip
    return counts.reshape(*cells, groups, BYTE), int(bad)


@row_kernel
def bin_of(value, edges, start, scale):
    """The bin ``[e[i], e[i+1])`` of a value, the last one closed; -1 outside, -2 if not finite."""
    last = len(edges) - 2
    if not np.isfinite(value):
        return -2
    if value < edges[0] or value > edges[last + 1]:
        return -1
    guess = (0.5 * np.float64(value) - start) * scale
    i = 0
    if guess > 0.0:
        i = np.int64(min(guess, np.float64(last)))
    while i > 0 and value < edges[i]:
        i -= 1
    while i < last and value >= edges[i + 1]:
        i += 1
    return i


@kernel
def _count_bins(src, pitch, rows, cols, mask, mask_pitch, edges, ends, counts, guesses):
    # halves, so the width of the full range of float64 does not overflow
    start = 0.5 * np.float64(edges[0])
    scale = counts.shape[1] / (0.5 * np.float64(edges[-1]) - start)
    last = np.float64(counts.shape[1] - 1)
    bad = 0
    for y in range(rows):
        for left in range(0, cols, guesses.size):
            right = min(left + guesses.size, cols)
            row = src[y * pitch + left : y * pitch + right]
            _guess_bins(row, start, scale, last, guesses)
            if mask is None:
                bad += _count_row(row, None, guesses, edges, ends, start, scale, counts)
            else:
                use = mask[y * mask_pitch + left : y * mask_pitch + right]
                bad += _count_row(row, use, guesses, edges, ends, start, scale, counts)
    return bad


@row_kernel
def _guess_bins(row, start, scale, last, guesses):
    for x in range(row.size):
        guess = (0.5 * np.float64(row[x]) - start) * scale
        guess = guess if guess > 0.0 else 0.0
        guesses[x] = np.uint32(guess if guess < last else last)


@row_kernel
def _count_row(row, use, guesses, edges, ends, start, scale, counts):
    bad = 0
    for x in range(row.size):
        if use is not None and use[x] == 0:
            continue
        # like numpy, compare in the dtype of the edges
        value = edges.dtype.type(row[x])
        i = np.uint64(guesses[x])
        if (value >= edges[i]) & (value < ends[i]):
            # Neighbouring voxels are often in one bin: with several counters, increments need not wait.
            counts[np.uint64(x) & np.uint64(WAYS - 1), i] += 1
            continue
        j = bin_of(value, edges, start, scale)
        if j == -2:
            bad += 1
        elif j >= 0:
            counts[0, j] += 1
    return bad


def scratch_of_bins(bins: int, dtype: np.dtype) -> Scratch:
    """The ends of bins, counts and guesses of `bin_counts`."""
    ends, counts = ((bins,), dtype), ((WAYS, bins), np.int64)
    return ends, counts, ((GUESSED,), np.uint32)


def bin_counts(
    src: np.ndarray, edges: np.ndarray, mask: np.ndarray | None = None
) -> tuple[np.ndarray, int]:
    """Counts of ``numpy.histogram(src, edges)``, the last bin closed, and the number of non-finite voxels."""
    # The bin is guessed as for equal widths, then corrected by comparison with ``edges``, ascending floats as
    # from ``numpy.histogram_bin_edges``. Non-finite voxels and voxels outside the edges are in no bin.
    src = src.astype(np.float32) if src.dtype.kind == "b" else kernel_array(src)
    if edges.dtype != np.float64:
        edges = edges.astype(np.float32)
    flat, pitch = flat_rows(src)
    used, mask_pitch = flat_mask(mask, src.shape)
    edges = np.ascontiguousarray(edges)
    ends, counts, guesses = arrays(scratch_of_bins(len(edges) - 1, edges.dtype))
    ends[:], counts[:] = edges[1:], 0
    ends[-1] = np.nextafter(ends[-1], ends.dtype.type(np.inf))  # the last bin is closed
    window = flat, pitch, *src.shape, used, mask_pitch
    bad = _count_bins(*window, edges, ends, counts, guesses)
    return counts.sum(axis=0), bad
