"""Elementwise functions under numpy's names, with the same bits on every machine.

They are compiled for float64; other dtypes are converted and rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from beam_volumes.kernels.elementary import angles, exponentials

#: By name. Arguments are flat arrays of float64; the last one receives the result.
FUNCTIONS: dict[str, Callable[..., None]] = {
    "log10": exponentials.log10_of,
    "log2": exponentials.log2_of,
    "log1p": exponentials.log1p_of,
    "expm1": exponentials.expm1_of,
    "sinh": exponentials.sinh_of,
    "cosh": exponentials.cosh_of,
    "tanh": exponentials.tanh_of,
    "power": exponentials.power_of,
    "sin": angles.sin_of,
    "cos": angles.cos_of,
    "tan": angles.tan_of,
    "arcsin": angles.arcsin_of,
    "arccos": angles.arccos_of,
    "arctan": angles.arctan_of,
    "arctan2": angles.arctan2_of,
}


def apply(name: str, operands: Sequence[Any], out: np.ndarray) -> None:
    """Write one of `FUNCTIONS` of arrays of one shape, or of numbers, to ``out``, which may be an operand.

    A NaN is written as ``np.nan``.

    >>> out = np.empty(3, np.float32)
    >>> apply("power", [np.array([1, 2, 3], "u1"), 0.5], out)
    >>> out.round(3)
    array([1.   , 1.414, 1.732], dtype=float32)
    """
    flat = [
        np.array(np.broadcast_to(o, out.shape), np.float64, order="C").reshape(-1) for o in operands
    ]
    result = np.empty(out.size, np.float64)
    FUNCTIONS[name](*flat, result)
    result[np.isnan(result)] = np.nan
    with np.errstate(over="ignore", under="ignore"):
        np.copyto(out, result.reshape(out.shape), casting="unsafe")
