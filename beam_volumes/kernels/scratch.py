"""Scratch: the arrays that a kernel needs during a call, in addition to its input and output.

Kernels do not allocate. A kernel is declared with a function that returns the shapes and dtypes of its
scratch, and receives arrays of these as its last argument, a tuple. Plans count the same declaration, so a
kernel cannot use memory that is not predicted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

#: Shapes and dtypes of arrays.
Scratch = tuple[tuple[tuple[int, ...], Any], ...]


def needs(scratch: Callable[..., Scratch]) -> Callable[[Any], Any]:
    """Return a decorator for kernels that receive their scratch as their last argument.

    ``scratch(rows, cols, depth, dtype, *parameters)`` returns the scratch for an output of this shape and
    dtype. The parameters are the kernel's arguments after those in `beam_volumes.kernels.rows`.
    """

    def declared(kernel: Any) -> Any:
        kernel.scratch = scratch
        return kernel

    return declared


def arrays(scratch: Scratch) -> tuple[np.ndarray, ...]:
    """Allocate the scratch of a call.

    >>> [a.shape for a in arrays((((2, 3), np.float32), ((4,), np.bool_)))]
    [(2, 3), (4,)]
    """
    return tuple(np.empty(shape, dtype) for shape, dtype in scratch)


def nbytes(scratch: Scratch) -> int:
    """The number of bytes of a scratch.

    >>> nbytes((((2, 3), np.float32), ((4,), np.bool_)))
    28
    """
    return sum(math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in scratch)


def stored(dtype: Any) -> np.dtype:
    """The dtype in which kernels compute voxels of a dtype: uint8 for bool."""
    return np.dtype(np.uint8) if dtype == np.bool_ else np.dtype(dtype)
