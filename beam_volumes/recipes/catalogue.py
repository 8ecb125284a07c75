"""The operations that recipes can name: the package's public functions and numpy's arithmetic.

There is no list to maintain: whatever `beam_volumes` exports that takes a volume or a table first, and no
function, is an operation, and so is every ufunc that volumes support.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.base.exports import EXPORTS
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.elementwise import SUPPORTED
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.recipes.box import crop


@dataclass(frozen=True)
class Operation:
    """An operation and what it takes.

    Attributes
    ----------
    name : str
    call : callable
        Takes inputs by position and parameters by name.
    positional : tuple of str
        What inputs can be given by position, in order.
    required : tuple of str
        What must be given.
    parameters : dict
        For each name that can be given: ``"volume"``, ``"volume or number"`` if a lazy number does
        too, ``"volumes"`` if it takes several, or ``""`` for anything else.
    tables : tuple of str
        Those parameters that take a table: one that a step gives, or the path of files.
    """

    name: str
    call: Callable[..., Any]
    positional: tuple[str, ...]
    required: tuple[str, ...]
    parameters: dict[str, str]
    tables: tuple[str, ...] = ()

    @property
    def is_of_tables(self) -> bool:
        """Whether its first input is a table."""
        return self.positional[0] in self.tables

    @property
    def is_of_many(self) -> bool:
        """Whether its inputs are the volumes of one parameter."""
        return self.parameters.get(self.positional[0]) == "volumes"

    def filled(self, inputs: int) -> tuple[str, ...]:
        """The parameters that a number of inputs fill."""
        return self.positional[: 1 if self.is_of_many else inputs]


def astype(volume: Volume, dtype: str) -> Volume:
    """Cast as numpy does; floats beyond an integer's range saturate.

    Parameters
    ----------
    volume : Volume
    dtype : str
        numpy's name of a dtype, e.g. ``uint8``.
    """
    return as_volume(volume).astype(dtype)


def with_space(
    volume: Volume,
    other: Volume | None = None,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
) -> Volume:
    """Say where voxels lie: as those of another volume, or by numbers.

    Parameters
    ----------
    volume : Volume
    other : Volume, optional
        Its voxels lie where those of the result are to lie.
    voxel_size : float or sequence of float, optional
        Size of a voxel; one for all axes, or one for each.
    unit : str, optional
        Unit of the voxel size, e.g. ``nm``.
    origin : float or sequence of float, optional
        Where the first voxel lies, in the same unit.
    """
    return as_volume(volume).with_space(other, voxel_size=voxel_size, unit=unit, origin=origin)


def sel(volume: Volume, c: str | int | Sequence[str | int]) -> Volume:
    """Choose channels by name or number.

    Parameters
    ----------
    volume : Volume
        One with channels.
    c : str, int or sequence of these
        One channel, or several in the order in which the result has them.
    """
    return as_volume(volume).sel(c=c)


def num_labels(labels: Volume) -> Scalar:
    """Tell how many labels there are of what `label` gave.

    Parameters
    ----------
    labels : Volume
        What `label` gave.
    """
    try:
        return as_volume(labels).num_labels
    except AttributeError as error:
        raise ValueError(str(error)) from None


@cache
def operations() -> dict[str, Operation]:
    """Every operation by name."""
    found = {name: _ufunc(name) for name in sorted(SUPPORTED)}
    for function in (*_public(), astype, crop, sel, with_space, num_labels):
        if not inspect.isfunction(function) or _needs_function(function) or _is_eager(function):
            continue
        if _takes_volume(_first(function)) or _takes_table(_first(function)):
            found[function.__name__] = _function(function)
    return found


@cache
def footprints() -> dict[str, Callable[..., np.ndarray]]:
    """The functions that make structuring elements, by name."""
    return {
        f.__name__: f
        for f in _public()
        if inspect.isfunction(f)
        and inspect.signature(f).return_annotation in ("np.ndarray", np.ndarray)
    }


def _public() -> list[Any]:
    """What `beam_volumes` exports of its operations."""
    return [getattr(bv, name) for name, module in EXPORTS.items() if module.startswith(".ops.")]


def _first(function: Callable[..., Any]) -> inspect.Parameter | None:
    return next(iter(inspect.signature(function).parameters.values()), None)


def _needs_function(function: Callable[..., Any]) -> bool:
    """Whether it takes a function, which no recipe can give."""
    parameters = inspect.signature(function).parameters.values()
    needed = [str(p.annotation) for p in parameters if p.default is p.empty]
    return any(a.startswith("Callable") for a in needed)


def _is_eager(function: Callable[..., Any]) -> bool:
    """Whether it computes when it is called: reading a recipe computes nothing."""
    return str(inspect.signature(function).return_annotation).startswith("list[")


def _takes_volume(parameter: inspect.Parameter | None) -> str:
    if parameter is None or parameter.kind == parameter.VAR_POSITIONAL:
        return ""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if text == "Sequence[Volume]":
        return "volumes"
    words = text.replace("|", " ").split()
    if "Volume" not in words:
        return ""
    return "volume or number" if "Scalar" in words else "volume"


def _takes_table(parameter: inspect.Parameter | None) -> bool:
    return parameter is not None and "Table" in str(parameter.annotation).split(" | ")


def _ufunc(name: str) -> Operation:
    names = tuple(f"input {k + 1}" for k in range(getattr(np, name).nin))
    return Operation(name, partial(apply_ufunc, name), names, names, {})


def _function(function: Callable[..., Any]) -> Operation:
    parameters = inspect.signature(function).parameters.values()
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Operation(
        function.__name__,
        function,
        tuple(p.name for p in by_name if p.kind == p.POSITIONAL_OR_KEYWORD),
        tuple(p.name for p in by_name if p.default is p.empty),
        {p.name: _takes_volume(p) for p in by_name},
        tuple(p.name for p in by_name if _takes_table(p)),
    )
