"""The current activity of a sweep, for its error messages and for timing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.geometry import Range
from beam_volumes.sweep.device import name_of
from beam_volumes.sweep.program import Program


class ActivityContext:
    """Names the activities of a sweep.

    It does not refer to the sweep: a reference cycle would keep rings until garbage collection.
    """

    def __init__(self, program: Program, meter: Meter | None):
        self.program, self.meter = program, meter

    def __call__(self, kind: str, i: int, z: Range, name: str | None = None) -> Any:
        """Return a context for an activity on slices of a step or end."""
        if name is None:
            name = ("reading " if kind == "read" else "") + name_of(self.program.steps[i])
        where = f"{name}, slices {z[0]} to {z[1] - 1}"
        return error_context(where) if self.meter is None else self._metered(where, kind, i, name)

    @contextmanager
    def _metered(self, where: str, kind: str, i: int, name: str) -> Iterator[None]:
        assert self.meter is not None
        with error_context(where), self.meter.timed(Activity(kind, i, name)):
            yield


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Prepend a location to the message of errors raised inside.

    >>> with error_context("slab 3"), error_context("median_filter"):
    ...     1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: slab 3: median_filter: division by zero
    """
    try:
        yield
    except Exception as error:
        raise placed(error, where) from error


def placed(error: Exception, where: str) -> Exception:
    """Return an exception with a location before its message.

    The type is kept if it can be made from a message. Otherwise it is the nearest base type that
    can, and the message includes the original type.

    >>> placed(FileNotFoundError("no such file"), "slab 3")
    FileNotFoundError('slab 3: no such file')
    >>> placed(KeyError("a"), "slab 3")
    RuntimeError("slab 3: KeyError: 'a'")
    """
    for kind in type(error).__mro__:
        if kind is Exception:
            break
        is_own = kind is type(error)
        text = f"{where}: {error}" if is_own else f"{where}: {type(error).__name__}: {error}"
        if _made_of_a_message(kind):
            made = kind(text)
            if str(made) == text:
                return made
    return RuntimeError(f"{where}: {type(error).__name__}: {error}")


def _made_of_a_message(kind: type) -> bool:
    """Whether an exception type only uses constructors of Python or of this package."""
    if issubclass(kind, UnicodeError | LookupError) and kind is not IndexError:
        return False
    makers = (k for k in kind.__mro__ if {"__init__", "__new__", "__str__"} & set(vars(k)))
    return issubclass(kind, Exception) and next(makers).__module__ == "builtins"


@dataclass(frozen=True)
class Activity:
    """One activity of a sweep."""

    #: {"read", "stage", "fold", "survey", "pad", "check", "write"}. ``pad`` fills voxels outside
    #: the volume, ``check`` computes checksums of written units.
    kind: str
    index: int  #: Index of the step, or of the program's fold, survey or output.
    name: str


@dataclass
class Spent:
    """Wall seconds of an activity, and processor seconds."""

    wall: float = 0.0
    cpu: float = 0.0


class Meter:
    """Adds up seconds by activity.

    Processor seconds are of the whole process. They belong to the activity only if sweeps run
    one after the other and, with ``unoverlapped``, do not read ahead or write behind.

    >>> meter = Meter()
    >>> with meter.timed(Activity("stage", 1, "exp")):
    ...     _ = sum(range(1000))
    >>> [a.name for a, spent in meter.spent.items() if spent.wall > 0]
    ['exp']
    """

    def __init__(self, unoverlapped: bool = False) -> None:
        self.unoverlapped = unoverlapped
        self.spent: dict[Activity, Spent] = {}
        self._lock = threading.Lock()

    @contextmanager
    def timed(self, activity: Activity) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            with self._lock:
                spent = self.spent.setdefault(activity, Spent())
                spent.wall += wall
                spent.cpu += cpu
