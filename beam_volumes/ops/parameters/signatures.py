"""Functions that hand on what they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

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
