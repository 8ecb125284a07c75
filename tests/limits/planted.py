"""Declarations of memory, each of which can be made too small: errors that a measurement has to show."""

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator

import beam_volumes

#: A planted declaration returns this fraction.
FRACTION = 8
#: Packages with declarations of a slab's memory.
_PACKAGES = ("across", "graph", "ops", "sweep")
#: Methods and functions with such names return bytes, except those that convert or keep data.
_ENDING = "_bytes"

_planted: str | None = None
_called: set[str] = set()


def install() -> None:
    """Replace every method and function of the package that declares bytes, so that it can be planted."""
    for found in pkgutil.walk_packages(beam_volumes.__path__, "beam_volumes."):
        if found.name.split(".")[1] in _PACKAGES:
            _install(importlib.import_module(found.name))


def _install(module) -> None:
    for name, item in [*vars(module).items()]:
        if getattr(item, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(item) and name.endswith(_ENDING):
            setattr(module, name, _plantable(item))
        elif inspect.isclass(item):
            for attribute, declared in [*vars(item).items()]:
                if not attribute.endswith(_ENDING):
                    continue
                if isinstance(declared, property):
                    setattr(item, attribute, property(_plantable(declared.fget)))
                elif inspect.isfunction(declared):
                    setattr(item, attribute, _plantable(declared))


def _plantable(declared: Callable) -> Callable:
    name = f"{declared.__module__.removeprefix('beam_volumes.')}.{declared.__qualname__}"

    @functools.wraps(declared)
    def planted(*args, **options):
        result = declared(*args, **options)
        _called.add(name)
        return result // FRACTION if name == _planted else result

    return planted


def each(declared: Callable[[], int]) -> Iterator[tuple[str, int]]:
    """The declarations that a sum uses, and the sum with an error in each of them."""
    global _planted
    _called.clear()
    declared()
    for name in sorted(_called):
        _planted = name
        yield name, declared()
        _planted = None
