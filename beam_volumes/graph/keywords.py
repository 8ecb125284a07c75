"""Checks of the arguments of public functions, and suggestions for misspelt parameters."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from beam_volumes.graph.kinds import Kind, ParameterError, kinds_of, short
from beam_volumes.graph.volume import Volume

Function = TypeVar("Function", bound=Callable[..., Any])

#: Names of parameters in scikit-image that are accepted for ours.
ALIASES = {"intensity_image": "intensity", "label_image": "labels"}
#: Names of parameters in other libraries, and their names here.
_ELSEWHERE = {
    **{other: (ours,) for other, ours in ALIASES.items()},
    "input": ("volume", "labels", "mask", "a"),
    "image": ("volume", "labels", "mask", "a"),
    "im": ("volume", "labels", "mask", "a"),
    "array": ("volume", "labels", "mask", "a"),
    "selem": ("footprint", "structure"),
    "structuring_element": ("footprint", "structure"),
    "kernel_size": ("size",),
    "num_iter": ("iterations",),
    "ksize": ("size",),
    "radius": ("size",),
    "voxel_size": ("spacing",),
    "sampling": ("spacing",),
    "num_workers": ("workers",),
    "n_jobs": ("workers",),
    "path": ("targets",),
}

#: Parameters of other libraries that no function here has, and why.
_NOWHERE = {
    "output": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "out": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "inplace": "results are new, and nothing is changed in place",
    "in_place": "results are new, and nothing is changed in place",
    "channel_axis": "channels are an axis c of the volume, and each is filtered by itself",
    "multichannel": "channels are an axis c of the volume, and each is filtered by itself",
    "preserve_range": "voxels are never rescaled",
    "fast_mode": "it is always on",
    "backend": "there is one backend",
    "return_num": "labels.num_labels is their number",
    "scheduler": "runner= chooses where it runs, and workers= and threads= the parallelism",
    "across": "the function finds objects in each point in time. Numbers such as mean and threshold_otsu "
    "have across='t'; rows of tables identify an object by its t and label together",
    "chunks": "chunks belong to the output: result.to(path, chunks=...)",
}


#: Parameters of numbers, and the parameters that follow there in scipy or scikit-image if an array is given.
_OF_ARRAYS = {"size": ("footprint",), "axis": ("labels", "index")}

#: Parameters that take one positional argument, unlike ``*targets``.
_IN_ORDER = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
#: Errors that show the call, if they name none of its parameters.
_UNNAMED = (
    TypeError,
    ValueError,
    OverflowError,
    ZeroDivisionError,
    IndexError,
    KeyError,
    AttributeError,
)


def meant(name: str, known: Sequence[str]) -> str:
    """Suggest a parameter for an unknown one.

    Examples
    --------
    >>> meant("sgima", ["volume", "sigma"]), meant("intensity_image", ["labels", "intensity"])
    ('; did you mean sigma=?', '; it is intensity= here')
    """
    for other in _ELSEWHERE.get(name, ()):
        if other in known:
            return f"; it is {other}= here"
    if name in _NOWHERE:
        return f": {_NOWHERE[name]}"
    if close := difflib.get_close_matches(name.lower(), known, 1, 0.6):
        return f"; did you mean {close[0]}=?"
    return f"; there are {', '.join(known)}"


def checked_keywords(function: Function, *, names_call: bool = False) -> Function:
    """Check arguments: parameters by name, and values by annotation.

    With ``names_call``, the function computes nothing yet. Then its own errors take precedence if they name a
    parameter, and other errors show the call.

    Examples
    --------
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
    known = list(parameters)
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    places = [p.name for p in parameters.values() if p.kind in _IN_ORDER]
    has_others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    by_name = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    kinds: dict[str, Kind] = {}

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not kinds:
            kinds.update(kinds_of(function))
        args, kwargs = _as_elsewhere(places, known, args, kwargs)
        if by_name and rest is None and len(args) > len(places):
            raise TypeError(
                f"{function.__name__} takes {', '.join(places)} by position; "
                f"give {'=, '.join(by_name)}= by name"
            )
        for name in kwargs:
            if name not in known and not has_others:
                raise TypeError(
                    f"{function.__name__} has no parameter {name!r}{meant(name, known)}"
                )
        given = [*zip(places, args, strict=False), *kwargs.items()]
        if rest is not None:
            given += [(rest, value) for value in args[len(places) :]]
        wrong = None
        for name, value in given:
            if wrong is None and name in kinds and value is not parameters[name].default:
                wrong = kinds[name].error(function.__name__, name, value)
        if not names_call and wrong is not None:
            raise wrong
        try:
            result = function(*args, **kwargs)
        except _UNNAMED as error:
            if wrong is not None:  # the function's own message has a better remedy
                is_own = isinstance(error, TypeError | ValueError) and _names(
                    str(error), wrong.name
                )
                raise (ParameterError(str(error), wrong.name) if is_own else wrong) from error
            if not names_call or _is_named(error, kinds, [name for name, _ in given]):
                raise
            call = ", ".join(f"{name}={short(value)}" for name, value in given)
            same = TypeError if isinstance(error, TypeError) else ValueError
            raise same(f"{error}; in {function.__name__}({call})") from error
        if wrong is not None:
            raise wrong
        return result

    return called  # type: ignore[return-value]


def named_checked(function: Function) -> Function:
    """Check arguments, and show the call in errors that name no parameter."""
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


def _is_named(error: Exception, kinds: Mapping[str, Kind], given: Sequence[str]) -> bool:
    """Whether an error has another library's type, or names a given parameter.

    Parameters of one letter, and those that hold a volume, do not count: in "the volume has 3 axes", volume
    is no parameter.
    """
    if type(error) not in _UNNAMED and not type(error).__module__.startswith("numpy"):
        return True
    ends = {
        name: "=" if kinds[name].is_volume or len(name) == 1 else r"\b"
        for name in given
        if name in kinds
    }
    return any(_names(str(error), name, end) for name, end in ends.items())


def _names(text: str, name: str, end: str = r"\b") -> bool:
    return re.search(rf"\b{re.escape(name)}{end}", text) is not None
