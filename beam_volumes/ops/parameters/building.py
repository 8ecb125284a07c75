"""Functions that filters share to build stages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.arithmetic import channels_of, check_alike
from beam_volumes.graph.nodes import StageNode, Value
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.sweep.stage import Padding, Stage


def kernel_input(volume: Volume) -> Volume:
    """The volume in a dtype that kernels support."""
    return volume.astype(kernel_dtype(volume.dtype))


def with_exact_constant(volume: Volume, padding: Padding, dtype: np.dtype) -> Volume:
    """The volume, converted to ``dtype`` if its own cannot hold the constant beyond the edges."""
    constant = any("constant" in m for m in padding.modes)
    return volume.astype(dtype) if constant and not holds(volume.dtype, padding.cval) else volume


def stage_of(volume: Volume, stage: Stage, *values: Value) -> Volume:
    """Apply a stage to a volume, with lazy values as parameters."""
    return volume.map_channels(lambda node: StageNode.of(stage, (node,), values))


def first_channel(volume: Volume) -> Volume:
    """The first channel of a volume; all channels have its shape."""
    return Volume(volume.nodes[0], volume.space.of_one("c"))


def stage_of_volumes(stage: Stage, volumes: Sequence[Volume], *values: Value) -> Volume:
    """Apply a stage to volumes of one grid, channel by channel."""
    like = next((v for v in volumes if v.space.has_channels), volumes[0])
    for v in volumes:
        check_alike(stage.name, like, v)
    by_channel = zip(*(channels_of(v, like) for v in volumes), strict=True)
    made = tuple(StageNode.of(stage, nodes, values) for nodes in by_channel)
    return Volume(made, shared_space(stage.name, *volumes))


def stage_in(dtype: np.dtype, volume: Volume, stage: Stage, *values: Value) -> Volume:
    """Apply a stage with a result in ``dtype``; half precision is computed in single."""
    if values and not volume.size:  # without voxels, the numbers may not exist
        return volume.astype(dtype)
    return stage_of(kernel_input(volume), stage, *values).astype(dtype)


def representable(number: float, dtype: np.dtype) -> bool:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(np.isfinite(dtype.type(number)) or not np.isfinite(number))
    if dtype.kind == "b":
        return number in (0, 1)
    info = np.iinfo(dtype)
    return float(number).is_integer() and info.min <= int(number) <= info.max


def exact(number: float, dtype: np.dtype) -> float:
    """A number of a dtype as a float, or as an int if a float would round it.

    >>> exact(7, np.dtype("i8")), exact(2**53 + 1, np.dtype("i8"))
    (7.0, 9007199254740993)
    """
    whole = int(number) if dtype.kind in "iu" and float(number).is_integer() else 0
    return whole if whole != float(whole) else float(number)


def constant_in(dtype: np.dtype, number: float, what: str, name: str) -> float:
    """The constant beyond the edges, if the dtype can hold it."""
    if not representable(number, dtype):
        raise ValueError(
            f"{name}: {what}={number!r} is not a {dtype} number; cast the volume with astype first"
        )
    return exact(number, dtype)


def kernel_constant(dtype: np.dtype, number: float) -> Any:
    """The constant for a kernel: an integer of the dtype, or a float64, also for interpolation in float32.

    >>> kernel_constant(np.dtype("u8"), 2**53 + 1), kernel_constant(np.dtype("f4"), 0.1)
    (np.uint64(9007199254740993), 0.1)
    """
    return dtype.type(number) if dtype.kind in "iu" else float(number)


def converted(found: np.ndarray, dtype: np.dtype, what: str) -> np.ndarray:
    """Convert the result of a user's function; refuse another kind of numbers, and values that do not fit.

    >>> converted(np.array([1, 255]), np.dtype("u1"), "f")
    array([  1, 255], dtype=uint8)
    >>> converted(np.array([0.5]), np.dtype("u1"), "f")
    Traceback (most recent call last):
    ValueError: f: the function returned float64, but the result is uint8; give dtype="float64", ...
    """
    whole = found.dtype.kind in "ui" and dtype.kind in "ui"
    if not whole and not np.can_cast(found.dtype, dtype, "same_kind"):
        raise ValueError(
            f"{what}: the function returned {found.dtype}, but the result is {dtype}; give "
            f'dtype="{found.dtype}", or convert in the function'
        )
    if found.size and whole and not np.can_cast(found.dtype, dtype):
        for value in (found.min(), found.max()):
            if not representable(int(value), dtype):
                raise ValueError(
                    f"{what}: the function returned {value}, which is not a {dtype} number; give "
                    f'dtype="{found.dtype}", or convert in the function'
                )
    with np.errstate(over="raise"):
        try:
            return found.astype(dtype, copy=False)
        except FloatingPointError:
            raise ValueError(
                f"{what}: the function returned a number of {found.dtype} that is infinite in {dtype}; give "
                f'dtype="{found.dtype}"'
            ) from None


def holds(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype holds a number exactly, so a wider one may be used for computation.

    >>> holds(np.dtype("f4"), 0.5), holds(np.dtype("f4"), 0.1), holds(np.dtype("u1"), 255)
    (True, False, True)
    """
    if dtype.kind != "f":
        return representable(number, dtype)
    with np.errstate(over="ignore"):
        return bool(float(dtype.type(number)) == number or np.isnan(number))


def triple(numbers: Sequence[int]) -> Triple:
    z, y, x = numbers
    return (int(z), int(y), int(x))


P = ParamSpec("P")
Result = TypeVar("Result")


def parameters_of(
    model: Callable[P, Any],
) -> Callable[[Callable[..., Result]], Callable[P, Result]]:
    """Give a function that passes on its arguments the signature of ``model``.

    >>> def erosion(volume, size=None, *, mode="reflect"): ...
    >>> @parameters_of(erosion)
    ... def opening(volume, *element, **options): ...
    >>> import inspect
    >>> print(inspect.signature(opening))
    (volume, size=None, *, mode='reflect')
    """

    def decorate(function: Callable[..., Result]) -> Callable[P, Result]:
        function.__signature__ = inspect.signature(model)  # type: ignore[attr-defined]
        return function

    return decorate
