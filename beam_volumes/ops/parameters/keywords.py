"""Parameters that a function has not: which one was meant."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

#: What other libraries call a parameter, and what it may be here.
_ELSEWHERE = {
    "intensity_image": ("intensity",),
    "label_image": ("labels",),
    "input": ("volume", "labels", "mask", "a"),
    "image": ("volume", "labels", "mask", "a"),
    "im": ("volume", "labels", "mask", "a"),
    "array": ("volume", "labels", "mask", "a"),
    "selem": ("footprint", "structure"),
    "structuring_element": ("footprint", "structure"),
    "kernel_size": ("size",),
    "ksize": ("size",),
    "radius": ("size",),
    "voxel_size": ("spacing",),
    "sampling": ("spacing",),
    "num_workers": ("workers",),
    "n_jobs": ("workers",),
    "path": ("targets",),
}

#: What no function here has, and why.
_NOWHERE = {
    "output": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "out": "results are new and lazy: bv.compute(result.to(path)) writes one",
    "inplace": "results are new, and nothing is changed in place",
    "in_place": "results are new, and nothing is changed in place",
    "channel_axis": "channels are an axis c of the volume, and each is filtered by itself",
    "multichannel": "channels are an axis c of the volume, and each is filtered by itself",
    "preserve_range": "voxels are never rescaled",
    "backend": "there is one backend",
    "return_num": "labels.num_labels is their number",
    "scheduler": "runner= says where it runs, and workers= and threads= by how many",
    "across": "it finds something in each point in time. Numbers such as mean and threshold_otsu have "
    "across='t'; objects are told apart by point and label together, as rows of tables are by t and label",
    "chunks": "chunks are those of what is written: result.to(path, chunks=...)",
}


def meant(name: str, known: Sequence[str]) -> str:
    """Say which parameter was meant by one that is not there.

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


def checked_keywords(function: Function) -> Function:
    """Refuse parameters that a function has not by the name that was meant.

    Examples
    --------
    >>> @checked_keywords
    ... def smooth(volume, sigma): ...
    >>> smooth(1, sgima=2)
    Traceback (most recent call last):
    TypeError: smooth has no parameter 'sgima'; did you mean sigma=?
    """
    if not isinstance(function, FunctionType):
        return function
    parameters = inspect.signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return function
    known = [p.name for p in parameters]

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(
                    f"{function.__name__} has no parameter {name!r}{meant(name, known)}"
                )
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]
