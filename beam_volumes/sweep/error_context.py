"""Saying in an exception where it was raised."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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
