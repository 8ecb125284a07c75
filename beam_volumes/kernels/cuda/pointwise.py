"""Device code of chains of numpy's functions, fused into one kernel, with numpy's types and bits.

`beam_volumes.kernels.cuda.parts` describes the parts of a chain; the last one is the result. A NaN has the
bits that an x86 processor gives it: of the operand that is NaN, or else of the default NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.launching import launch, numbers, per_voxel, viewed
from beam_volumes.kernels.cuda.operations import cast, loaded, operation, stored
from beam_volumes.kernels.cuda.parts import Part, resolved
from beam_volumes.kernels.cuda.rounding import stored_dtype
from beam_volumes.kernels.rows import Rows


def apply(
    parts: Sequence[Part], inputs: Sequence[Rows], out: Rows, y0: int, y1: int, nx: int,
    values: Sequence[Any] = (), stream: Any = None,
) -> None:  # fmt: skip
    """Write the result of the last part; ``values`` are numbers.

    Raises ValueError with the reason if a part has no device code.
    """
    dtypes = tuple(rows.lines.dtype for rows in inputs)
    code, scalars = resolved(parts, dtypes, values)
    box, target = (out.firsts.size, y1 - y0, nx), viewed(out, stored_dtype(out.lines.dtype))
    rows = [numbers(r) for r in inputs]
    launch(_kernel(code, dtypes), box, stream, y0, target, *rows, *scalars)


@lru_cache(maxsize=256)
def _kernel(code: tuple[Any, ...], dtypes: tuple[np.dtype, ...]) -> Any:
    """One function for all parts, from their source text."""
    space: dict[str, Any] = {}
    lines = []

    def named(function: Any) -> str:
        name = f"f{len(space)}"
        space[name] = function
        return name

    numbers_used = 0
    for i, dtype in enumerate(dtypes):
        at = f"rows{i}.lines[rows{i}.firsts[k] + y0 + y, rows{i}.left + x]"
        lines.append(f"input{i} = {named(loaded(dtype))}({at})")
    for i, (function, takes, gives, result, is_open, names) in enumerate(code):
        operands = []
        for (name, own), taken in zip(names, takes, strict=True):
            numbers_used += name.startswith("number")
            operands.append(name if own == taken else f"{named(cast(own, taken))}({name})")
        call = f"{named(operation(function, takes, gives, is_open))}({', '.join(operands)})"
        lines.append(
            f"part{i} = " + (call if gives == result else f"{named(cast(gives, result))}({call})")
        )
    end = f"{named(stored(code[-1][3]))}(part{len(code) - 1})"
    lines.append(f"out.lines[out.firsts[k] + y0 + y, out.left + x] = {end}")
    arguments = [f"rows{i}" for i in range(len(dtypes))]
    arguments += [f"number{i}" for i in range(numbers_used)]
    head = f"def chain(k, y, x, {', '.join(['y0', 'out', *arguments])}):"
    exec("\n    ".join([head, *lines]), space)
    return per_voxel(space["chain"])
