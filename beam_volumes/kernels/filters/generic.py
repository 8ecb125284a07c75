"""User functions of the voxels under a footprint, compiled into the loop over voxels."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numba import typeof, types
from numba.core.errors import NumbaError

from beam_volumes.kernels.casting import cast_rounded
from beam_volumes.kernels.jit import made_kernel, user_function
from beam_volumes.kernels.rows import as_bytes
from beam_volumes.kernels.scratch import Scratch, needs

_lock = Lock()


def of_footprint(function: Callable[..., Any]) -> Callable[..., None]:
    """The kernel that calls a function for each voxel; a process makes only one per function."""
    # After the arguments in `beam_volumes.kernels.rows` it takes ``offsets`` (int64, tz, ty, tx in the order
    # of the function's voxels) and ``extra``, a tuple of further arguments. The function gets a float64
    # buffer, which it may change, and returns float64, which is converted by `cast_rounded`.
    with _lock:
        return _kernel(function)[0]


def reason_against(function: Callable[..., Any], extra: tuple[Any, ...]) -> str | None:
    """One line about why numba cannot compile a function of a float64 array and ``extra``, or None."""
    with _lock:
        _, compilable, call = _kernel(function)
    row = types.Array(types.float64, 1, "C")
    try:
        arguments = tuple(map(typeof, extra))
        if compilable is not function:
            # Compiled separately, since numba's message would otherwise be about the caller.
            compilable.get_call_template((row, *arguments), {})
        call.compile((row, types.Tuple(arguments)))
    except (NumbaError, TypeError, ValueError, NotImplementedError) as error:
        return _line_of(str(error)) or type(error).__name__
    given = call.nopython_signatures[-1].return_type
    real = isinstance(given, types.Number | types.Boolean) and not isinstance(given, types.Complex)
    return None if real else f"it returns {given} instead of a number"


def _line_of(message: str) -> str:
    """The first line of numba's message that concerns the function."""
    frame = ("Failed in", "During:", "File ", "- Resolution failure", "[1]", "<source")
    for line in message.splitlines():
        text = " ".join(line.replace("\x1b[1m", "").replace("\x1b[0m", "").split())
        if text and not text.startswith(frame):
            return text
    return ""


def _scratch(
    rows: int, cols: int, depth: int, dtype: np.dtype, offsets: np.ndarray, extra: tuple[Any, ...]
) -> Scratch:
    count = len(offsets)
    return ((count,), np.float64), ((cols,), np.float64), ((2, count), np.int64)


@lru_cache(maxsize=64)
def _kernel(given: Callable[..., Any]) -> tuple[Any, Any, Any]:
    # Compiled without the options of a decorator: no fastmath, and an index out of range is an error.
    plain = getattr(given, "py_func", given)
    function = user_function(plain) if inspect.isfunction(plain) else given

    @made_kernel
    def call(values, extra):
        return function(values, *extra)

    @needs(_scratch)
    @made_kernel
    def kernel(src, out, y0, y1, nx, offsets, extra, scratch):
        lines, firsts, left = as_bytes(src)
        values, results, (rows, cols) = scratch
        count = values.size
        for k in range(out.firsts.size):
            for y in range(y0, y1):
                for i in range(count):
                    rows[i] = firsts[k + offsets[i, 0]] + y + offsets[i, 1]
                    cols[i] = left + offsets[i, 2]
                for x in range(nx):
                    for i in range(count):
                        values[i] = lines[rows[i], cols[i] + x]
                    results[x] = call(values, extra)
                cast_rounded(results, out.lines[out.firsts[k] + y, out.left : out.left + nx])

    return kernel, function, call
