"""Voxelwise operations: numpy's ufuncs with numpy's casting, one slice at a time.

All operations have the same bits on every processor: IEEE arithmetic through numpy, and compiled functions of
our own for ``exp``, ``sin`` and so on. Our own code also handles two NaNs and the extremum of two zeros, for
which numpy's result depends on the position of the voxel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.kernels.cuda.parts import Part, reason_against
from beam_volumes.kernels.elementary import exp_log, functions, pairs
from beam_volumes.kernels.scratch import Scratch, arrays
from beam_volumes.sweep.stage import Block, Named, Stage

#: Exact by IEEE 754 or integer arithmetic, so the same everywhere.
EXACT_UFUNCS: frozenset[str] = frozenset(
    {
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative",
        "positive", "absolute", "fabs", "sign", "square", "sqrt", "minimum", "maximum", "fmin",
        "fmax", "floor", "ceil", "trunc", "rint", "greater", "greater_equal", "less",
        "less_equal", "equal", "not_equal", "logical_and", "logical_or", "logical_xor",
        "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift",
        "right_shift", "isnan", "isinf", "isfinite", "signbit",
    }
)  # fmt: skip
_COMPILED: dict[str, Callable[..., None]] = {
    "exp": exp_log.exp,
    "log": exp_log.log,
    **functions.FUNCTIONS,
}
SUPPORTED: frozenset[str] = EXACT_UFUNCS | _COMPILED.keys()

#: Functions that programs write as operators.
_OPERATORS = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "remainder": "%",
    "power": "**", "greater": ">", "greater_equal": ">=", "less": "<", "less_equal": "<=", "equal": "==",
    "not_equal": "!=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "invert": "~",
    "negative": "-", "left_shift": "<<", "right_shift": ">>",
}  # fmt: skip
#: Longer expressions are replaced by the name of their last function.
_MAX_EXPRESSION = 40
#: Functions that allocate temporary arrays.
_ALLOCATING = frozenset(("astype", "round", "where", *_COMPILED))
#: Nanoseconds to read or write a voxel of one operand.
_TOUCH = 0.15


#: Voxels per block. Temporary arrays and intermediate results of a block fit the cache.
_BLOCK = 1 << 16


def block_rows(rows: int, cols: int) -> int:
    return min(rows, max(1, _BLOCK // max(1, cols)))


def row_blocks(out: Block, y0: int, y1: int) -> Iterator[tuple[int, int, int]]:
    """Divide rows ``y0:y1`` of every slice into blocks: slice, first row, last row + 1."""
    rows = block_rows(y1 - y0, out.cols)
    for k in range(out.depth):
        for a in range(y0, y1, rows):
            yield k, a, min(y1, a + rows)


class Chain(Stage):
    """Elementwise functions that a device computes as one kernel."""

    shift_invariant = True

    @property
    def device_parts(self) -> tuple[Part, ...]:
        """The functions for `beam_volumes.kernels.cuda.pointwise`."""
        raise NotImplementedError

    def has_device_code(self, dtypes: Sequence[np.dtype], values: Sequence[Any] = ()) -> bool:
        return reason_against(self.device_parts, dtypes, values) is None

    def launch(
        self, device: Any, inputs: tuple[Block, ...], out: Block, values: tuple[Any, ...]
    ) -> None:
        where = out, 0, out.rows, out.cols
        device.launch("pointwise.apply", self.device_parts, inputs, *where, values)


@dataclass(frozen=True, eq=False)
class Elementwise(Chain):
    """A ufunc, ``where`` or ``astype`` of inputs, lazy values and constants."""

    function: str
    #: The operands: ("input", i), ("value", i), ("constant", number) or, inside a `Fused`, ("part", i).
    arguments: tuple[tuple[str, Any], ...]

    def expression(self, inputs: Sequence[Named], values: Sequence[Named]) -> str:
        pick = {"input": inputs, "value": values}
        operands = [pick[k][i].name if k in pick else str(i) for k, i in self.arguments]
        operator = _OPERATORS.get(self.function)
        if operator is None or self.name != self.function:
            bare = (o[1:-1] if o.startswith("(") else o for o in operands)
            text = f"{self.name}({', '.join(bare)})"
        elif len(operands) == 2:
            text = f"({f' {operator} '.join(operands)})"
        else:
            text = operator + operands[0]
        return text if len(text) <= _MAX_EXPRESSION else self.name

    @property
    def device_parts(self) -> tuple[Part, ...]:
        return ((self.function, self.dtype, self.arguments),)

    @property
    def cost(self) -> float:
        slow = {
            **dict.fromkeys(functions.FUNCTIONS, 40.0),
            "exp": 4.0,
            "log": 4.0,
            "divide": 0.5,
            "sqrt": 0.6,
            "floor_divide": 3,
            "remainder": 3,
        }
        return (
            slow.get(self.function, 0.0)
            + _TOUCH * (1 + len(self.arguments)) * self.dtype.itemsize / 2
        )

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        voxels = block_rows(rows, cols) * cols
        if self.function in functions.FUNCTIONS:
            return functions.scratch_of(len(self.arguments), voxels)
        if self.function in _COMPILED:
            return (((voxels,), np.float64),) * 2
        if self.function in pairs.FUNCTIONS and self.dtype.kind == "f":
            return pairs.scratch_of(rows, cols, self.dtype)
        return ()

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        if self.function in _ALLOCATING - _COMPILED.keys():
            # numpy allocates the operand as float64, rounded, and three masks.
            return 19 * block_rows(rows, cols) * cols
        return super().scratch_bytes(rows, cols, depth)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        if self.function in _ALLOCATING:
            for k, a, b in row_blocks(out, y0, y1):
                self.apply([i.slice(k, a, b) for i in inputs], out.slice(k, a, b), values)
            return
        for k in range(out.depth):
            self.apply([i.slice(k, y0, y1) for i in inputs], out.slice(k, y0, y1), values)

    def apply(
        self,
        inputs: Sequence[np.ndarray],
        out: np.ndarray,
        values: Sequence[Any],
        parts: Sequence[np.ndarray] = (),
    ) -> None:
        """Write the result for some voxels into ``out``, which has the shape of the inputs."""
        pick = {"input": inputs, "value": values, "part": parts}
        operands = [pick[k][i] if k in pick else i for k, i in self.arguments]
        with np.errstate(all="ignore"):
            if self.function == "where":
                condition, then, other = operands
                np.copyto(out, other, casting="unsafe")
                np.copyto(
                    out,
                    then,
                    where=np.asarray(condition).astype(bool, copy=False),
                    casting="unsafe",
                )
            elif self.function == "copy":
                np.copyto(out, operands[0])
            elif self.function == "astype":
                cast(operands[0], out)
            elif self.function == "round":
                cast_rounded(operands[0], out)
            elif self.function == "power" and _is_plain(operands[1], out.dtype):
                np.copyto(out, _power(operands[0], operands[1], out.dtype), casting="unsafe")
            elif self.function in functions.FUNCTIONS:
                functions.apply(self.function, operands, out, self._arrays(out))
            elif self.function in _COMPILED:
                _compiled(_COMPILED[self.function], operands[0], out, *self._arrays(out))
            elif _is_open(self.function, operands, out.dtype):
                a, b = (np.asarray(o) for o in operands)
                pairs.apply(self.function, a, b, out, self._arrays(out))
            else:
                getattr(np, self.function)(*operands, out=out, casting="unsafe")
                if self.function in ("floor_divide", "remainder") and out.dtype.kind == "f":
                    pairs.one_nan_of(out)

    def _arrays(self, out: np.ndarray) -> tuple[np.ndarray, ...]:
        rows, cols = out.shape
        return arrays(self.scratch(rows, cols, 1))


@dataclass(frozen=True, eq=False)
class Fused(Chain):
    """A tree of elementwise stages without whole intermediate arrays.

    The last part writes the result. Other parts write blocks of a few rows, which later parts read.
    """

    parts: tuple[Elementwise, ...]

    @property
    def device_parts(self) -> tuple[Part, ...]:
        return tuple((p.function, p.dtype, p.arguments) for p in self.parts)

    @property
    def cost(self) -> float:
        return sum(p.cost for p in self.parts)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        block = block_rows(rows, cols), cols
        return tuple((block, p.dtype) for p in self.parts[:-1])

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        block = block_rows(rows, cols), cols, depth
        own = super().scratch_bytes(*block)
        return own + max(p.scratch_bytes(*block) for p in self.parts)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        parts = arrays(self.scratch(y1 - y0, out.cols, 1))
        for k, a, b in row_blocks(out, y0, y1):
            views = [i.slice(k, a, b) for i in inputs]
            made = [part[: b - a] for part in parts]
            for part, result in zip(self.parts, [*made, out.slice(k, a, b)], strict=True):
                part.apply(views, result, values, made)


def result_dtype(
    function: str, operands: Sequence[np.ndarray | np.generic | int | float | bool]
) -> np.dtype:
    """The dtype of a ufunc's result in numpy, for operands that are empty arrays, numpy scalars or numbers.

    Raises TypeError if the function is not available for these types, and ValueError if a Python integer does
    not fit the volume's dtype.
    """
    if function not in SUPPORTED:
        raise TypeError(
            f"numpy.{function} is not available on volumes; available are {', '.join(sorted(SUPPORTED))}. "
            "For anything else use map_overlap with depth 0"
        )
    try:
        with np.errstate(all="ignore"):
            return np.asarray(getattr(np, function)(*operands)).dtype
    except OverflowError as error:
        raise ValueError(f"{function}: {error}; cast the volume with astype first") from None


def _is_open(function: str, operands: Sequence[Any], dtype: np.dtype) -> bool:
    """Whether numpy's bits may depend on the position of a voxel."""
    if function not in pairs.FUNCTIONS or dtype.kind != "f":
        return False
    if function in ("minimum", "maximum", "fmin", "fmax"):
        return all(np.ndim(o) or o == 0 or o != o for o in operands)
    return all(
        o.dtype.kind == "f" if isinstance(o, np.ndarray) and o.ndim else o != o for o in operands
    )


def _compiled(
    function: Callable[[np.ndarray, np.ndarray], None],
    x: np.ndarray,
    out: np.ndarray,
    source: np.ndarray,
    result: np.ndarray,
) -> None:
    # The compiled functions take float32 and float64; others are converted.
    if x.dtype not in (np.float32, np.float64):
        source = source.reshape(out.shape)
        np.copyto(source, x, casting="unsafe")
        x = source
    if out.dtype in (np.float32, np.float64):
        function(x, out)
    else:
        result = result.reshape(out.shape)
        function(x, result)
        np.copyto(out, result, casting="unsafe")


def _power(x: Any, exponent: Any, dtype: np.dtype) -> np.ndarray:
    """``x ** exponent`` for integers, and for floats with a small whole exponent or a half."""
    if np.issubdtype(dtype, np.integer) or dtype.kind == "b":
        return np.power(x, exponent)
    if exponent == 0.5:
        return np.sqrt(np.asarray(x, dtype))
    base = np.asarray(x, dtype)
    result = np.ones_like(base)
    for _ in range(abs(int(exponent))):
        result = result * base
    return np.divide(1, result, dtype=dtype) if exponent < 0 else result


def _is_plain(exponent: Any, result: np.dtype) -> bool:
    """Whether a power is of integers, or consists of products or a square root."""
    if result.kind != "f":
        return True
    return np.ndim(exponent) == 0 and (
        exponent == 0.5 or (float(exponent).is_integer() and abs(exponent) <= 16)
    )


def check_power(exponent: Any, result: np.dtype) -> None:
    """Refuse negative powers of integers before numpy meets them."""
    if result.kind == "i" and isinstance(exponent, int | np.integer) and exponent < 0:
        raise ValueError(
            f"power: exponent={exponent!r} is negative, so integers become fractions; "
            "cast the volume with astype first"
        )


def of_numbers(function: str, operands: Sequence[Any]) -> Any:
    """A ufunc of numbers and small arrays, with the same bits as for volumes."""
    if function not in _COMPILED:
        return getattr(np, function)(*operands)
    dtype = result_dtype(function, operands)
    several = np.broadcast_arrays(*(np.asarray(o) for o in operands))
    rows = tuple(np.ascontiguousarray(o).reshape(1, -1) for o in several)
    out = np.empty(rows[0].shape, dtype)
    single = operands[1:] if np.ndim(operands[-1]) == 0 else rows[1:]
    arguments = tuple(("input", i) for i in range(len(rows)))
    Elementwise(function, dtype, function, arguments).apply((rows[0], *single), out, ())
    return out.reshape(several[0].shape)[()]


def cast(source: Any, out: np.ndarray) -> None:
    """numpy's ``astype``, but values out of range saturate and NaN becomes 0, which C leaves undefined."""
    source = np.asarray(source)
    np.copyto(out, source, casting="unsafe")
    if np.issubdtype(source.dtype, np.floating) and np.issubdtype(out.dtype, np.integer):
        _saturate(source.astype(np.float64, copy=False), out)


def cast_rounded(source: np.ndarray, out: np.ndarray) -> None:
    """Cast to another dtype; for integers, round half to even, saturate, and replace NaN by 0."""
    if not np.issubdtype(out.dtype, np.integer) or source.dtype == bool:
        np.copyto(out, source, casting="unsafe")
    elif np.issubdtype(source.dtype, np.floating):
        cast(np.rint(source), out)
    else:
        low = max(np.iinfo(out.dtype).min, np.iinfo(source.dtype).min)
        high = min(np.iinfo(out.dtype).max, np.iinfo(source.dtype).max)
        np.copyto(out, np.clip(source, low, high), casting="unsafe")


def _saturate(wide: np.ndarray, out: np.ndarray) -> None:
    info = np.iinfo(out.dtype)
    low, high = np.float64(info.min), np.float64(info.max)
    # The largest 64-bit integers round up to a power of two in float64, so equality is out of range.
    above = wide >= high + 1 if high < 2.0**53 else wide >= high
    below = wide <= low - 1 if low > -(2.0**53) else wide < low
    for wrong, right in ((above, info.max), (below, info.min), (np.isnan(wide), 0)):
        if wrong.any():
            out[wrong] = right


def checked_dtype(dtype: Any) -> np.dtype:
    """Return a dtype of real numbers in native byte order; refuse others."""
    try:
        result = np.dtype(dtype).newbyteorder("=")
    except (TypeError, ValueError):
        result = np.dtype(object)
    if result.kind not in "buif" or result.itemsize > 8:
        raise TypeError(f"dtype={dtype!r}; use bool, an integer or a float of up to 64 bits")
    return result
