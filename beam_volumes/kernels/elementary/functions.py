"""Elementwise functions under numpy's names, with the same bits on every machine.

They are compiled for float64; other dtypes are converted and rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beam_volumes.kernels.elementary.angles import (
    arccos_of,
    arcsin_of,
    arctan2_of,
    arctan_of,
    cos_of,
    sin_of,
    tan_of,
)
from beam_volumes.kernels.elementary.exponentials import (
    cosh_of,
    expm1_of,
    log1p_of,
    log2_of,
    log10_of,
    power_of,
    sinh_of,
    tanh_of,
)
from beam_volumes.kernels.scratch import Scratch, arrays

#: By name. Arguments are flat arrays of float64; the last one receives the result.
FUNCTIONS: dict[str, Callable[..., None]] = {
    "log10": log10_of,
    "log2": log2_of,
    "log1p": log1p_of,
    "expm1": expm1_of,
    "sinh": sinh_of,
    "cosh": cosh_of,
    "tanh": tanh_of,
    "power": power_of,
    "sin": sin_of,
    "cos": cos_of,
    "tan": tan_of,
    "arcsin": arcsin_of,
    "arccos": arccos_of,
    "arctan": arctan_of,
    "arctan2": arctan2_of,
}


def scratch_of(operands: int, voxels: int) -> Scratch:
    """The scratch of `apply` for a number of operands."""
    return *[((voxels,), np.float64)] * (operands + 1), ((voxels,), np.bool_)


def apply(
    name: str,
    operands: Sequence[Any],
    out: np.ndarray,
    scratch: tuple[np.ndarray, ...] | None = None,
) -> None:
    """Write one of `FUNCTIONS` of arrays of one shape, or of numbers, to ``out``, which may be an operand.

    A NaN is written as ``np.nan``. Stages give arrays of `scratch_of`.

    >>> out = np.empty(3, np.float32)
    >>> apply("power", [np.array([1, 2, 3], "u1"), 0.5], out)
    >>> out.round(3)
    array([1.   , 1.414, 1.732], dtype=float32)
    """
    *flat, result, is_nan = scratch or arrays(scratch_of(len(operands), out.size))
    for copy, operand in zip(flat, operands, strict=True):
        np.copyto(copy.reshape(out.shape), operand, casting="unsafe")
    FUNCTIONS[name](*flat, result)
    np.copyto(result, np.nan, where=np.isnan(result, out=is_nan))
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, result.reshape(out.shape), casting="unsafe")
