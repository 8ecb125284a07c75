"""Checks arguments against the annotations of public functions, before the functions run.

Functions check ranges, and values that depend on the volume, themselves.
"""

from __future__ import annotations

import inspect
import numbers
import os
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeGuard

import numpy as np

from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.inputs.objects import is_array_object

#: The range of integers with a numpy dtype.
MIN_WHOLE, MAX_WHOLE = -(1 << 63), (1 << 64) - 1

_MODULES = re.compile(r"\b(?:\w+\.)+(?=\w)")


class _Short(reprlib.Repr):
    """Short values for messages: arrays as shapes, and long values truncated."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = self.maxlong = 60

    def repr1(self, x: Any, level: int) -> str:
        return " ".join(super().repr1(x, level).split())

    def repr_ndarray(self, array: np.ndarray, level: int) -> str:
        if array.size <= 8:
            return repr(array)
        return f"<array of shape {array.shape} and dtype {array.dtype}>"


short = _Short().repr


class ParameterError(TypeError, ValueError):
    """An argument of a wrong type or value; callers may catch either error."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True)
class Kind:
    """The values that a parameter accepts."""

    #: The alternatives in messages, None last.
    names: tuple[str, ...]
    accepts: Callable[[Any], bool] = field(compare=False)
    #: Their plural in messages.
    many: str = ""
    #: Whether iterators are accepted, which a check exhausts.
    is_iterable: bool = False

    @property
    def text(self) -> str:
        """The alternatives in one phrase.

        >>> kind_of("int | str | None").text
        'a whole number, a text or None'
        """
        *first, last = self.names
        return f"{', '.join(first)} or {last}" if first else last

    @property
    def is_volume(self) -> bool:
        """Whether only a volume is accepted, and possibly None."""
        return set(self.names) <= {*_NAMED["Volume"].names, "None"}

    def error(self, function: str, name: str, value: Any) -> ParameterError | None:
        """The error for a value of another kind; None if the value is accepted."""
        if self.accepts(value):
            return None
        is_path = self.is_volume and isinstance(value, str | os.PathLike)
        remedy = f"; write bv.open({os.fspath(value)!r})" if is_path else ""
        return ParameterError(f"{function}: {name}={short(value)} is not {self.text}{remedy}", name)


ANYTHING = Kind(("anything",), lambda value: True)


def is_whole(value: Any) -> TypeGuard[int]:
    """Whether a value is an integer with a numpy dtype; a bool is not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        return False
    return MIN_WHOLE <= int(value) <= MAX_WHOLE


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value is a real number; a bool is not."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    return not isinstance(value, int) or is_whole(value)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or (is_whole(value) and value in (0, 1))


def _is_volume(value: Any) -> bool:
    return isinstance(value, Volume | Scalar | np.ndarray) or is_array_object(value)


def _is_array_like(value: Any) -> bool:
    if value is None or isinstance(value, str | bytes | Volume | Scalar):
        return False
    try:
        return np.asarray(value).dtype.kind in "biuf"
    except (TypeError, ValueError, OverflowError):
        return False


def _is_dtype(value: Any) -> bool:
    if value is None:
        return False
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError):
        return False
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _of_types(name: str, *types: type) -> Kind:
    return Kind((name,), lambda value: isinstance(value, types))


#: By their names in annotations.
_NAMED = {
    "int": Kind(("a whole number",), is_whole, "whole numbers"),
    "float": Kind(("a number",), is_number, "numbers"),
    "str": Kind(("a text",), lambda value: isinstance(value, str), "texts"),
    "bool": Kind(("True", "False"), _is_flag),
    "None": Kind(("None",), lambda value: value is None, "None"),
    "PathLike": _of_types("a path", os.PathLike),
    "Volume": Kind(("a volume", "an array"), _is_volume, "volumes or arrays"),
    "Scalar": _of_types("a lazy number", Scalar),
    "Plan": Kind(("a plan, as bv.plan makes it",), lambda value: type(value).__name__ == "Plan"),
    "Table": _of_types("a table", Table),
    "ndarray": _of_types("an array", np.ndarray),
    "ArrayLike": Kind(("an array of numbers",), _is_array_like),
    "DTypeLike": Kind(
        ("a dtype of bool, integers or floats of up to 64 bits, as 'uint8'",), _is_dtype
    ),
    "Callable": Kind(("callable",), callable),
    "Mapping": _of_types("a dict", Mapping),
    "dict": _of_types("a dict", Mapping),
}


def split(text: str, at: str) -> list[str]:
    """Split an annotation outside of brackets.

    >>> split("float | Sequence[float | str] | None", "|")
    ['float', 'Sequence[float | str]', 'None']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == at and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def kind_of(annotation: str, names: Mapping[str, Any] = {}) -> Kind:
    """Parse an annotation, with aliases from ``names``; unknown annotations accept any value.

    >>> kind_of("Sequence[int]").accepts([1, 2.5]), kind_of("Sequence[int]").accepts((1, 2))
    (False, True)
    """
    kinds = [_one(part, names) for part in split(_MODULES.sub("", annotation), "|")]
    if ANYTHING in kinds:
        return ANYTHING
    if len(kinds) == 1:
        return kinds[0]
    texts = dict.fromkeys(name for kind in kinds for name in kind.names)
    return Kind(
        tuple(sorted(texts, key="None".__eq__)),
        lambda value: any(kind.accepts(value) for kind in kinds),
        " or ".join(kind.many or kind.text for kind in kinds),
        any(kind.is_iterable for kind in kinds),
    )


def kinds_of(function: FunctionType) -> dict[str, Kind]:
    parameters = inspect.signature(function).parameters.values()
    return {p.name: kind_of(str(p.annotation), function.__globals__) for p in parameters}


def _one(text: str, names: Mapping[str, Any]) -> Kind:
    name, _, inner = text.removesuffix("]").partition("[")
    if name in ("Sequence", "Iterable"):
        return _sequence(kind_of(inner, names), name == "Iterable")
    if name == "tuple" and inner:
        return _tuple([kind_of(part, names) for part in split(inner, ",")])
    if name in _NAMED:
        return _NAMED[name]
    alias = names.get(name)
    if alias is not None and not isinstance(alias, type):
        return kind_of(str(alias))
    return ANYTHING


def _sequence(item: Kind, any_order: bool) -> Kind:
    kinds = (Sequence, np.ndarray, Iterable) if any_order else (Sequence, np.ndarray)

    def accepts(value: Any) -> bool:
        if isinstance(value, str | bytes | Mapping | Volume | Scalar) or not isinstance(
            value, kinds
        ):
            return False
        if isinstance(value, np.ndarray):
            # The dtype determines the kind of all elements.
            some = value[:1].tolist() if value.dtype.kind in "biuf" and value.ndim else value
            return value.ndim > 0 and all(map(item.accepts, some))
        return isinstance(value, range) or all(map(item.accepts, value))

    return Kind(
        (f"a sequence of {item.many or item.text}",),
        accepts,
        f"sequences of {item.many or item.text}",
        any_order,
    )


def _tuple(items: list[Kind]) -> Kind:
    def accepts(value: Any) -> bool:
        if isinstance(value, str | bytes) or not isinstance(value, Sequence | np.ndarray):
            return False
        if isinstance(value, np.ndarray) and not value.ndim:
            return False
        return len(value) == len(items) and all(
            kind.accepts(item) for kind, item in zip(items, value, strict=True)
        )

    return Kind((f"{len(items)} values ({', '.join(kind.text for kind in items)})",), accepts)
