"""Checks of the arguments of public functions, and suggestions for misspelt parameters."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from beam_volumes.base.hints import ALIASES, check_names
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.graph.kinds import Kind, ParameterError, kinds_of, short
from beam_volumes.graph.volume import Volume

Function = TypeVar("Function", bound=Callable[..., Any])

#: Parameters of numbers, and the parameters that follow there in scipy or scikit-image if an array is given.
_OF_ARRAYS = {"size": ("footprint",), "axis": ("labels", "index")}

#: Parameters that take one positional argument, unlike ``*targets``.
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Errors that arguments of a wrong type or value cause.
_OF_ARGUMENTS = (
    TypeError,
    ValueError,
    OverflowError,
    ZeroDivisionError,
    IndexError,
    KeyError,
    AttributeError,
)
_PACKAGE = "beam_volumes"
#: A function that a message begins with, and the parameter behind it.
_PREFIX = re.compile(r"(\w+)(:| needs\b| takes\b)")
_PARAMETER = re.compile(r"(\w+)=")
#: Whether a function with `named_checked` is running.
_INSIDE: ContextVar[bool] = ContextVar("_INSIDE", default=False)


def checked_keywords(function: Function, *, names_call: bool = False) -> Function:
    """Check arguments: parameters by name, and values by annotation.

    With ``names_call``, all errors of the function, which computes nothing yet, begin with its name.

    >>> @checked_keywords
    ... def smooth(volume, sigma: float): ...
    >>> smooth(1, sgima=2)
    Traceback (most recent call last):
    TypeError: smooth has no parameter 'sgima'; did you mean sigma=?
    >>> try:
    ...     smooth(1, sigma="wide")
    ... except TypeError as error:
    ...     print(error)
    smooth: sigma='wide' is not a number
    """
    if not isinstance(function, FunctionType):
        return function
    parameters = inspect.signature(function).parameters
    is_init = function.__name__ == "__init__"
    title = function.__qualname__.split(".")[-2] if is_init else function.__name__
    known = list(parameters)
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    places = [p.name for p in parameters.values() if p.kind in _IN_ORDER]
    has_others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    by_name = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    kinds: dict[str, Kind] = {}

    def listed(name: str, value: Any) -> Any:
        # The check of the values would exhaust an iterator.
        is_spent = isinstance(value, Iterator) and name in kinds and kinds[name].is_iterable
        return list(value) if is_spent else value

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not kinds:
            kinds.update(kinds_of(function))
        args, kwargs = _as_elsewhere(places, known, args, kwargs)
        args = (*map(listed, places, args), *args[len(places) :])
        kwargs = {name: listed(name, value) for name, value in kwargs.items()}
        if by_name and rest is None and len(args) > len(places):
            raise TypeError(
                f"{title} accepts {', '.join(places[is_init:])} by position; give "
                f"{'=, '.join(by_name)}= by name"
            )
        if not has_others:
            check_names(title, kwargs, known[is_init:])
        given = [*zip(places, args, strict=False), *kwargs.items()][is_init:]
        if rest is not None:
            given += [(rest, value) for value in args[len(places) :]]
        wrong = None
        for name, value in given:
            if wrong is None and name in kinds and value is not parameters[name].default:
                wrong = kinds[name].error(title, name, value)
        if not names_call:
            if wrong is not None:
                raise wrong
            return function(*args, **kwargs)
        is_outermost = not _INSIDE.get()
        token = _INSIDE.set(True)
        try:
            result = function(*args, **kwargs)
        except _OF_ARGUMENTS as error:
            if wrong is not None and not _is_own(error):
                raise wrong from error
            if not is_outermost:
                raise
            better = _of_caller(error, title, known, kinds, given)
            if wrong is not None:  # the function's own message has a better remedy
                raise ParameterError(str(better), wrong.name) from error
            raise better from better.__cause__
        finally:
            _INSIDE.reset(token)
        if wrong is not None:
            raise wrong
        return result

    return called  # type: ignore[return-value]


def named_checked(function: Function) -> Function:
    """Check arguments, and begin errors with the function's name."""
    return checked_keywords(function, names_call=True)


def _as_elsewhere(
    places: Sequence[str], known: Sequence[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Accept scikit-image's names of parameters, and arrays in the place of numbers.

    Such arrays are named, as in scikit-image's ``entropy(image, disk(5))``.
    """
    for other, ours in ALIASES.items():
        is_free = ours in known and ours not in {*kwargs, *places[: len(args)]}
        if other in kwargs and other not in known and is_free:
            kwargs = {ours if n == other else n: value for n, value in kwargs.items()}
    for k, (name, value) in enumerate(zip(places, args, strict=False)):
        rest = args[k:]
        names = _OF_ARRAYS.get(name, ())[: len(rest)]
        if len(names) < len(rest) or not {*names} <= {*known} - {*kwargs}:
            continue
        if isinstance(value, Volume) or (isinstance(value, np.ndarray) and value.ndim > 1):
            return args[:k], {**kwargs, **dict(zip(names, rest, strict=False))}
    return args, kwargs


def _of_caller(
    error: Exception,
    function: str,
    known: Sequence[str],
    kinds: Mapping[str, Kind],
    given: Sequence[tuple[str, Any]],
) -> Exception:
    """The error in terms of the function that the user has called, and of its parameters.

    `grey_closing` calls other functions, but its user has called none of them. The call is
    appended to messages of other libraries, and to messages that name no parameter.
    """
    call = f"{function}({', '.join(f'{name}={short(value)}' for name, value in given)})"
    if not _is_raised_here(error):
        if isinstance(error, ValueError | TypeError) and type(error) not in _OF_ARGUMENTS:
            return error  # a library's own type of error, such as UnicodeError
        same = TypeError if isinstance(error, TypeError) else ValueError
        better = same(f"{function}: {str(error).removeprefix(f'{function}: ')}; in {call}")
        better.__cause__ = error
        return better
    text = error.args[0] if error.args else None
    if not isinstance(error, ValueError | TypeError) or not isinstance(text, str):
        return error
    arrays = (v for _, v in given if isinstance(v, np.ndarray) and v.ndim)
    for value in arrays if "array(" in text else ():
        for part in (value, list(value), *value):
            if isinstance(part, np.ndarray | list):
                text = text.replace(repr(part), short(part))
    inner = _PREFIX.match(text)
    if inner is not None and (
        inner[1] in {function, *EXPORTS} or (hasattr(np, inner[1]) and inner[1] not in known)
    ):
        text = text.removeprefix(inner[1]).removeprefix(": ").lstrip()
    text = _renamed(text, known, given)
    separator = " " if inner is not None and inner[2] != ":" else ": "
    is_named = any(_names_parameter(text, name, kinds.get(name)) for name, _ in given)
    end = "" if is_named else f"; in {call}"
    error.args = (f"{function}{separator}{text}{end}", *error.args[1:])
    return error


def _names_parameter(text: str, name: str, kind: Kind | None) -> bool:
    """Whether a message names a parameter.

    Parameters of one letter, and those that hold a volume, only count with "=": in "the volume has 3 axes",
    volume is no parameter.
    """
    end = "=" if len(name) == 1 or (kind is not None and kind.is_volume) else r"\b"
    return re.search(rf"\b{re.escape(name)}{end}", text) is not None


def _renamed(text: str, known: Sequence[str], given: Sequence[tuple[str, Any]]) -> str:
    """Replace the parameter at the beginning of a text by the caller's parameter with its value."""
    named = _PARAMETER.match(text)
    if named is None or named[1] in known:
        return text
    for name, value in given:
        values = value if isinstance(value, list | tuple) else (value,)
        if any(text.startswith(f"{named[1]}={v!r}") for v in (value, *values)):
            return text.replace(f"{named[1]}=", f"{name}=")
    return text


def _is_raised_here(error: BaseException) -> bool:
    """Whether a ``raise`` of this package made an error, and not an operation on a wrong value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        return False
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _is_own(error: Exception) -> bool:
    """Whether a check of this package raised an error."""
    return isinstance(error, TypeError | ValueError) and _is_raised_here(error)
