"""Device code of the modules of the same names in `beam_volumes.kernels.measure`.

Host kernels return a state. Their twins add it to ``cells``, an int64 array in device memory that starts with
zeros, so states stay on the device. The arguments are ``src``, ``mask`` (rows or None), the numbers of rows
and columns, ``cells``, and parameters. Integers are exact in any order of threads. A thread takes every
`LANES`-th voxel of a row, and adds its sums to the cells at the end, because one cell takes one thread at a
time.
"""

from __future__ import annotations

from typing import Any

from beam_volumes.kernels.cuda.launching import SIMULATED, launch, numbers
from beam_volumes.kernels.rows import Rows

LANES = 2 if SIMULATED else 32


def launch_lanes(
    kernel: Any, src: Rows, mask: Rows | None, ny: int, nx: int, stream: Any, *arguments: Any
) -> None:
    """Start a kernel of `per_voxel` that has a lane instead of a column."""
    use = src if mask is None else numbers(mask)
    launch(kernel, (src.firsts.size, ny, min(nx, LANES)), stream, src, use, nx, *arguments)
