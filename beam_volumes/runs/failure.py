"""Failures as plain data: for other processes, and for later attempts.

A runner repeats failed steps, up to ten times. This helps if a machine or a storage has failed. If
voxels or a user's function cause the error, every attempt fails alike. So the run fails when a
second attempt does.
"""

from __future__ import annotations

import base64
import builtins
import contextlib
import json
import re
import secrets
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.places.ownership import OutputExistsError


class WorkerDied(RuntimeError):
    """A process of the run was killed, or ended before its work was done."""


class RemoteTraceback(Exception):
    """The traceback in the driver process: the cause of the exception that the caller gets."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f'\n"""\n{self.text}"""'


_PYTHONS = """
ArithmeticError AssertionError AttributeError BlockingIOError BrokenPipeError BufferError ChildProcessError
ConnectionAbortedError ConnectionError ConnectionRefusedError ConnectionResetError EOFError FileExistsError
FileNotFoundError FloatingPointError ImportError IndexError InterruptedError IsADirectoryError KeyError
LookupError MemoryError ModuleNotFoundError NameError NotADirectoryError NotImplementedError OSError
OverflowError PermissionError ProcessLookupError RecursionError ReferenceError RuntimeError TimeoutError
TypeError ValueError ZeroDivisionError
"""
#: Types of received errors. Other types are replaced by the nearest of their base types here.
KINDS: dict[str, type[Exception]] = {
    **{name: getattr(builtins, name) for name in _PYTHONS.split()},
    **{kind.__name__: kind for kind in (OutputExistsError, VolumeError, WorkerDied)},
}
#: Failures of machines and storages: another attempt may succeed.
_PASSING = (OSError, MemoryError, ImportError, EOFError, BufferError)
_MEMORY = re.compile(r"out of memory|cuda|cannot allocate|unable to allocate", re.I)
_ADDRESS = re.compile(r"0x[0-9a-f]+", re.I)


def as_data(error: Exception) -> dict[str, Any]:
    """An error as plain data: its type, its arguments, and its traceback."""
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    kind = next((k for k in type(error).__mro__ if KINDS.get(k.__name__) is k), RuntimeError)
    text = str(error) if kind is type(error) else f"{type(error).__name__}: {error}"
    found = {"kind": kind.__name__, "arguments": [text], "trace": trace}
    if kind is type(error):
        arguments = list(error.__reduce__()[1])  # type: ignore[arg-type]  # with a file's name
        if all(type(a) in (str, int, float, type(None)) for a in arguments):
            found["arguments"] = arguments
    return found


def revived(data: Mapping[str, Any]) -> Exception:
    """The error of `as_data`; its cause has the original traceback.

    >>> revived(as_data(OSError(28, "No space left")))
    OSError(28, 'No space left')
    """
    error = KINDS.get(data["kind"], RuntimeError)(*data["arguments"])
    error.__cause__ = RemoteTraceback(data["trace"])
    return error


def may_pass(error: BaseException) -> bool:
    """Whether another attempt may succeed: a machine or a storage has failed, not a computation.

    >>> may_pass(ConnectionResetError("storage")), may_pass(ZeroDivisionError("division by zero"))
    (True, False)
    """
    at: BaseException | None = error
    while at is not None:
        if isinstance(at, _PASSING) or _MEMORY.search(f"{type(at).__name__} {at}"):
            return True
        at = at.__cause__
    return False


def are_alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Whether two attempts have failed with the same error."""
    return all(
        _ADDRESS.sub("", str(first[name])) == _ADDRESS.sub("", str(second[name]))
        for name in ("kind", "arguments")
    )


def new_secret() -> str:
    """A secret in the marks of a run, which authors of file names or metadata do not know."""
    return secrets.token_hex(16)


@contextlib.contextmanager
def errors_as_data(secret: str) -> Iterator[None]:
    """Put an exception as data into the message of the raised one; without a secret do nothing.

    >>> secret = new_secret()
    >>> try:
    ...     with errors_as_data(secret):
    ...         raise OSError(28, "No space left")
    ... except RuntimeError as error:
    ...     raise_original(Exception(f"Traceback ... {error} [while running 'Sweep']"), secret)
    Traceback (most recent call last):
    OSError: [Errno 28] No space left
    """
    try:
        yield
    except Exception as error:
        if not secret:
            raise
        data = as_data(error)
        text = printable(f"{type(error).__name__}: {error}")
        leaving = RuntimeError(f"{text} {mark(data, secret)}")
        try:
            data["trace"].encode()
        except UnicodeEncodeError:  # Beam's workers cannot send such text, and hang
            raise leaving from None
        raise leaving from error


def mark(data: Mapping[str, Any], secret: str) -> str:
    """Encode an error's data as a word in a message."""
    return f"[[beam-volumes:{secret}:{base64.b64encode(json.dumps(data).encode()).decode()}]]"


def unmarked(text: str, secret: str) -> str:
    """Remove marks from a message."""
    return _marks(secret).sub("", text)


def raise_original(error: Exception, secret: str) -> None:
    """Raise the exception that `errors_as_data` put into a message, if there is one."""
    marks = _marks(secret).findall(str(error)) if secret else []
    if not marks:
        return
    raise revived(json.loads(base64.b64decode(marks[-1])))


def _marks(secret: str) -> re.Pattern[str]:
    return re.compile(rf"\[\[beam-volumes:{secret}:([\w+/=]*)\]\]", re.ASCII)
