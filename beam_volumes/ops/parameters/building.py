"""What the families of filters share when they build a stage."""

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
    """The volume in a dtype that kernels take."""
    return volume.astype(kernel_dtype(volume.dtype))


def holding(volume: Volume, padding: Padding, dtype: np.dtype) -> Volume:
    """The volume, in ``dtype`` if its own has not the very constant that stands beyond its edges."""
    constant = any("constant" in m for m in padding.modes)
    return volume.astype(dtype) if constant and not holds(volume.dtype, padding.cval) else volume


def stage_of(volume: Volume, stage: Stage, *values: Value) -> Volume:
    """What a stage makes of a volume, and of lazy values."""
    return volume.map_channels(lambda node: StageNode.of(stage, (node,), values))


def first_channel(volume: Volume) -> Volume:
    """The first channel of a volume: its shape is that of all."""
    return Volume(volume.nodes[0], volume.space.of_one("c"))


def stage_of_volumes(stage: Stage, volumes: Sequence[Volume], *values: Value) -> Volume:
    """What a stage makes of volumes that go together voxel by voxel, channel by channel."""
    like = next((v for v in volumes if v.space.has_channels), volumes[0])
    for v in volumes:
        check_alike(stage.name, like, v)
    beside = zip(*(channels_of(v, like) for v in volumes), strict=True)
    made = tuple(StageNode.of(stage, nodes, values) for nodes in beside)
    return Volume(made, shared_space(stage.name, *volumes))


def stage_in(dtype: np.dtype, volume: Volume, stage: Stage, *values: Value) -> Volume:
    """The same, in ``dtype``: where this or the volume's is half precision, through single."""
    if values and not volume.size:  # no voxel asks for numbers that there may not be
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
    """What stands beyond the edges, if it is a number of the dtype in which it is to stand there."""
    if not representable(number, dtype):
        raise ValueError(
            f"{name}: {what}={number!r} is not a {dtype} number; cast the volume with astype first"
        )
    return exact(number, dtype)


def holds(dtype: np.dtype, number: float) -> bool:
    """Whether a dtype has the very number, which a wider one may be computed with.

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
    """Say of a function which hands on what it is given that it takes the parameters of ``model``.

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
