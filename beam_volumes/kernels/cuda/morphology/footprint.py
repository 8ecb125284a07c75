"""Device code of binary morphology with a ball or any footprint, and of grey morphology that is not flat."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import (
    device_function,
    launch,
    numbers,
    on_device,
    per_voxel,
    unsigned,
    viewed,
)
from beam_volumes.kernels.cuda.rounding import bits_of, stored_dtype
from beam_volumes.kernels.rows import Rows


def binary_footprint(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, offsets: Any, is_dilation: bool,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.footprint.binary_footprint`."""
    box, offsets = (out.firsts.size, y1 - y0, nx), on_device(offsets, stream)
    launch(_binary, box, stream, unsigned(src), unsigned(out), y0, offsets, bool(is_dilation))


def _any_or_all(k, y, x, src, out, y0, offsets, is_dilation):
    result = not is_dilation
    for i in range(len(offsets)):
        row = src.firsts[k + offsets[i, 0]] + y0 + y + offsets[i, 1]
        is_set = src.lines[row, src.left + x + offsets[i, 2]] != 0
        if is_set == is_dilation:
            result = is_dilation
            break
    out.lines[out.firsts[k] + y0 + y, out.left + x] = np.uint8(result)


_binary = per_voxel(_any_or_all)


def binary_ball(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, radii: Any, steps: Any, limit: int,
    is_dilation: bool, stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.ball.binary_ball`: a search from inside to outside.

    It ends at the first voxel that decides the result, so interiors and large backgrounds take the longest.
    """
    box, reach = (out.firsts.size, y1 - y0, nx), [int(r) for r in radii]
    squares = on_device(steps.astype(np.int64), stream)
    launch(
        _within, box, stream, unsigned(src), unsigned(out), y0, *reach, squares, int(limit),
        bool(is_dilation),
    )  # fmt: skip


def _search(k, y, x, src, out, y0, rz, ry, rx, squares, limit, is_dilation):
    found = False
    for z in range(2 * rz + 1):
        from_z = squares[0, abs(z - rz)]
        first = src.firsts[k + z] + y0 + y
        for v in range(2 * ry + 1):
            from_zy = from_z + squares[1, abs(v - ry)]
            if found or from_zy > limit:
                continue
            for u in range(2 * rx + 1):
                if from_zy + squares[2, abs(u - rx)] <= limit:
                    is_set = src.lines[first + v, src.left + x + u] != 0
                    found = found or is_set == is_dilation
    out.lines[out.firsts[k] + y0 + y, out.left + x] = np.uint8(found == is_dilation)


_within = per_voxel(_search)


def grey_footprint(
    src: Rows, out: Rows, y0: int, y1: int, nx: int, offsets: Any, heights: Any, is_max: bool,
    stream: Any = None,
) -> None:  # fmt: skip
    """The twin of `beam_volumes.kernels.morphology.footprint.grey_footprint`."""
    dtype, box = src.lines.dtype, (out.firsts.size, y1 - y0, nx)
    target = viewed(out, stored_dtype(dtype))
    signed = on_device(heights if is_max else -heights, stream)
    launch(
        _grey(dtype), box, stream, numbers(src), target, y0, on_device(offsets, stream), signed,
        bool(is_max),
    )  # fmt: skip


@lru_cache
def _truncated_to(dtype: np.dtype) -> Any:
    """Convert a float64 as C does on x86, where an int64 that is out of range is the lowest one."""
    kind, lowest = dtype.type, np.int64(np.iinfo(np.int64).min)

    @device_function
    def whole(value):
        return np.int64(value) if -(2.0**63) <= value < 2.0**63 else lowest

    if dtype.kind == "f":
        return device_function(lambda value: kind(value))
    if dtype.kind == "b":
        return device_function(lambda value: np.uint8(1) if whole(value) & 255 else np.uint8(0))
    if dtype != np.uint64:
        return device_function(lambda value: kind(whole(value)))

    def unsigned_64(value):
        high = value >= 2.0**63
        low = np.uint64(whole(value - 2.0**63 if high else value))
        return np.uint64(low ^ np.uint64(2**63)) if high else low

    return device_function(unsigned_64)


@lru_cache
def _grey(dtype: np.dtype) -> Any:
    # Sums are in the type of the image, where bool is a byte.
    kind = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    number, height_of, result_of = kind.type, _truncated_to(kind), _truncated_to(dtype)
    stored = bits_of(dtype) if dtype.kind == "f" else device_function(lambda value: value)

    def extreme(k, y, x, src, out, y0, offsets, signed, is_max):
        best = 0.0
        for i in range(len(offsets)):
            row = src.firsts[k + offsets[i, 0]] + y0 + y + offsets[i, 1]
            voxel = src.lines[row, src.left + x + offsets[i, 2]]
            if i == 0:
                best = np.float64(voxel) + signed[0]
            else:
                value = np.float64(number(voxel + height_of(signed[i])))
                better = value > best if is_max else value < best
                best = value if better or value != value else best
        out.lines[out.firsts[k] + y0 + y, out.left + x] = stored(result_of(best))

    return per_voxel(extreme)
