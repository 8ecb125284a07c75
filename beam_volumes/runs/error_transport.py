"""Errors on their way back: a runner makes one long text of an error and its traceback in a worker.

What a step raises goes into that text as data, behind a mark that holds a secret of the run. The rest of the
text may hold anything, names of files for one, and nothing of it is believed or executed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from beam_volumes.base.text import printable
from beam_volumes.runs.failure import as_data, revived


def new_secret() -> str:
    """What marks of a run hold: nobody who names files or writes metadata knows it."""
    return secrets.token_hex(16)


@contextlib.contextmanager
def told(secret: str) -> Iterator[None]:
    """Put an exception, as data, into the message of the one that leaves; without a secret do nothing.

    >>> secret = new_secret()
    >>> try:
    ...     with told(secret):
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
        except UnicodeEncodeError:  # such a text is beyond what workers of Beam can send: they hang
            raise leaving from None
        raise leaving from error


def mark(data: Mapping[str, Any], secret: str) -> str:
    """An error's data as a word that a text may hold."""
    return f"[[beam-volumes:{secret}:{base64.b64encode(json.dumps(data).encode()).decode()}]]"


def unmarked(text: str, secret: str) -> str:
    """A text without marks."""
    return _marks(secret).sub("", text)


def raise_original(error: Exception, secret: str) -> None:
    """Raise the exception that `told` put into a message, if there is one."""
    marks = _marks(secret).findall(str(error)) if secret else []
    if not marks:
        return
    raise revived(json.loads(base64.b64decode(marks[-1])))


def _marks(secret: str) -> re.Pattern[str]:
    return re.compile(rf"\[\[beam-volumes:{secret}:([\w+/=]*)\]\]", re.ASCII)
