"""How the command line tells of errors: one line, and an exit code."""

from __future__ import annotations

import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from beam_volumes.cli.error_remedies import worded
from beam_volumes.cli.say import tell

#: What a user can mend: a mistake in the request, or files that are not as they should be.
USER_MISTAKES = (ValueError, TypeError, OSError)
#: Characters shown of the beginning and of the end of a message that cites something long.
SHOWN = 600
MISTAKE, FAILED, INTERRUPTED = 2, 1, 130

#: The last line of a worker's traceback, which pipelines put into the text of their own error.
_REMOTE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Died)): (.+)$", re.M)
_STAGE = re.compile(r"\s*\[while running .*", re.S)


def quiet() -> None:
    """Leave the telling of errors to `report`: pipelines log the traceback of each."""
    # What other runners say comes from the root.
    for name in ("", "apache_beam", "beam_volumes"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def warnings_told() -> Iterator[None]:
    """Tell of this package's warnings in a line each; those of others are shown as ever."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def told(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if category.__module__.startswith("beam_volumes"):
                tell(f"beam-volumes: warning: {message}")
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = told  # type: ignore[assignment]
        yield


def report(error: BaseException, debug: bool = False, recipe: bool = False) -> int:
    """Tell of an error on standard error and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        words = f": {worded(str(error), recipe)}" if str(error) else ""
        tell(f"beam-volumes: interrupted{words}")
        return INTERRUPTED
    if debug:
        tell("".join(traceback.format_exception(error)).rstrip())
    mistake = isinstance(error, USER_MISTAKES)
    more = "" if mistake or debug else " (--debug tells more)"
    text = message(error, recipe)
    if len(text) > 2 * SHOWN:
        text = f"{text[:SHOWN]} ... {text[-SHOWN:]}"
    tell(f"beam-volumes: error: {text}{more}")
    return MISTAKE if mistake else FAILED


def message(error: BaseException, recipe: bool = False) -> str:
    """An error as one line; with remedies that a recipe has, if one is carried out."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}"
    if "Traceback (most recent call last)" in text:
        found = _REMOTE.findall(text)
        if found:
            text = found[-1][1]
    text = " ".join(_STAGE.sub("", text).split())
    text = worded(text, recipe)
    if not text:
        return type(error).__name__
    if isinstance(error, USER_MISTAKES) or type(error).__module__.startswith("beam_volumes"):
        return text
    return text if isinstance(error, RuntimeError) else f"{type(error).__name__}: {text}"
