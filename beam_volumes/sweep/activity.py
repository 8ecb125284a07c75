"""What a sweep does just now: named in the errors that it raises, and metered if asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from beam_volumes.base.geometry import Range
from beam_volumes.sweep.program import Program


class ActivityContext:
    """Names what a sweep does with slices of a step.

    It is of no sweep: two objects that know each other would keep rings until somebody collects garbage.
    """

    def __init__(self, program: Program, meter: Meter | None):
        self.program, self.meter = program, meter

    def __call__(self, kind: str, i: int, z: Range, name: str | None = None) -> Any:
        """Return a context that names what is done, of which step or end, and to which slices."""
        if name is None:
            name = ("reading " if kind == "read" else "") + self.program.steps[i].name
        where = f"{name}, slices {z[0]} to {z[1] - 1}"
        return error_context(where) if self.meter is None else self._metered(where, kind, i, name)

    @contextmanager
    def _metered(self, where: str, kind: str, i: int, name: str) -> Iterator[None]:
        assert self.meter is not None
        with error_context(where), self.meter.timed(Activity(kind, i, name)):
            yield


@contextmanager
def error_context(where: str) -> Iterator[None]:
    """Put a place before the message of whatever is raised inside.

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
    """The exception with a place before its message.

    Of its own type where that is made of a message; else of the nearest type that is, and the message
    names its own.

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
    """Whether nothing but Python's own constructors, or one of this package, makes it."""
    if issubclass(kind, UnicodeError | LookupError) and kind is not IndexError:
        return False
    makers = (k for k in kind.__mro__ if {"__init__", "__new__", "__str__"} & set(vars(k)))
    return issubclass(kind, Exception) and next(makers).__module__ == "builtins"


@dataclass(frozen=True)
class Activity:
    """Something that a sweep does."""

    #: {"read", "stage", "fold", "survey", "pad", "check", "write"}. ``pad`` fills in what lies
    #: beyond the volume's edges, ``check`` takes the checksums of what is written.
    kind: str
    index: int  #: Of the step, or among the program's folds, surveys or outputs.
    name: str


@dataclass
class Spent:
    """Seconds by the clock, in which the sweep did this and nothing else, and of processors."""

    wall: float = 0.0
    cpu: float = 0.0


class Meter:
    """Adds up seconds by activity.

    Those of processors are the whole process's: they are an activity's own where sweeps follow one
    another and, as a meter with ``unoverlapped`` asks them to, neither read ahead nor write behind.

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
        """Count what passes meanwhile."""
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            with self._lock:
                spent = self.spent.setdefault(activity, Spent())
                spent.wall += wall
                spent.cpu += cpu
