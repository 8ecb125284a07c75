"""Print results, notes, warnings and errors in the terms of the command line."""

from __future__ import annotations

import ast
import logging
import re
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from beam_volumes.base.text import printable

#: Errors the user can fix: a wrong request, or damaged or missing files.
USER_MISTAKES = (ValueError, TypeError, OSError)
#: Number of characters shown from the beginning and from the end of a long message.
SHOWN = 600
MISTAKE, FAILED, INTERRUPTED = 2, 1, 130

#: The last line of a worker's traceback, which pipelines include in their own error.
_REMOTE = re.compile(r"^(?:[\w.]+\.)?(\w*(?:Error|Exception|Died)): (.+)$", re.M)
_STAGE = re.compile(r"\s*\[while running .*", re.S)

#: By the Python expression: the option, or the key of a recipe. Run options are options in both.
_OPTION = {
    r"(?:pass )?\b(overwrite|resume)=True": r"--\1",
    r"\bport=(\d+)": r"--port \1",
    r"\bbeam_volumes\.options\.outside = True": "--outside",
    r"\bbeam_volumes\.options\.trust_models = True": "--trust-models",
}
#: The suffix of errors that name no parameter.
_CALL = re.compile(r"; in \w+\(\w+=.*\)$", re.S)
_PLACED = re.compile(r"\b(voxel_size|unit|format)=(?![=(\[])('[^']*'|)")
_QUOTES = r"['\"]?"
_CHANNEL = r",? (?:(?:such )?as|by) (?:v\[(?:0|:, 0)\] or )?v\.sel\(c='?([^')]*)'?\)"
_COMMAND = {
    _CHANNEL: r" by --index c=\1",
    r"\bindex=\{'?(\w)'?: '?([^'}]*)'?\}": r"--index \1=\2",
    r"\b(well|field)='?([^'\s,;:]*)'?": r"--option \1=\2",
    rf"\b(affine|rescale|reader)={_QUOTES}([^'\"\s,;:]*){_QUOTES}": r"--option \1=\2",
    r"\b(missing)=['\"](repeat|fill|error)['\"]": r"--option \1=\2",
    r"\b(dataset|level)='?([^'\s,;:]*)'?": r"--\1 \2",
}
_RECIPE = {
    _CHANNEL: r" by index: {c: \1} next to the input's path",
    r"\bindex=\{'?(\w)'?: '?([^'}]*)'?\}": r"index: {\1: \2}",
    r"\b(well|field|dataset|level)='?([^'\s,;:]*)'?": r"\1: \2",
    rf"\b(affine|rescale|reader)={_QUOTES}([^'\"\s,;:]*){_QUOTES}": r"\1: \2",
    r"\b(missing)=['\"](repeat|fill|error)['\"]": r"\1: \2",
}


def print_result(text: str) -> None:
    """Print a result."""
    print(printable(text))


def print_note(text: str) -> None:
    """Print a note on standard error and flush it."""
    print(printable(text), file=sys.stderr, flush=True)


def plain_text(text: str) -> str:
    """Remove markup from the text of a docstring.

    >>> plain_text('with ``"constant"`` see `pad`')
    'with constant see pad'
    """
    return re.sub(r"``\"?([^`]*?)\"?``|`([^`]*)`", lambda m: m[1] or m[2] or "", text)


def quiet() -> None:
    """Silence logs: `report` prints errors, and pipelines would also log their tracebacks."""
    # Other runners use the root logger.
    for name in ("", "apache_beam", "beam_volumes"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def short_warnings() -> Iterator[None]:
    """Print warnings of this package in one line each; others are shown as usual."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def print_short(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if category.__module__.startswith("beam_volumes"):
                print_note(f"beam-volumes: warning: {message}")
            else:
                show(message, category, *rest, **more)

        warnings.showwarning = print_short  # type: ignore[assignment]
        yield


def report(error: BaseException, debug: bool = False, recipe: bool = False) -> int:
    """Print an error on standard error and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        words = f": {worded(str(error), recipe)}" if str(error) else ""
        print_note(f"beam-volumes: interrupted{words}")
        return INTERRUPTED
    if debug:
        print_note("".join(traceback.format_exception(error)).rstrip())
    mistake = isinstance(error, USER_MISTAKES)
    more = "" if mistake or debug else " (--debug shows where)"
    text = message(error, recipe)
    if len(text) > 2 * SHOWN:
        text = f"{text[:SHOWN]} ... {text[-SHOWN:]}"
    print_note(f"beam-volumes: error: {text}{more}")
    return MISTAKE if mistake else FAILED


def message(error: BaseException, recipe: bool = False) -> str:
    """Format an error as one line; with ``recipe``, remedies are keys of a recipe."""
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


def worded(text: str, recipe: bool = False) -> str:
    """Replace Python keywords in an error message by options, or by keys of a recipe.

    >>> worded("there are 3: choose one, such as v[0] or v.sel(c='DAPI')")
    'there are 3: choose one by --index c=DAPI'
    >>> worded("the axis c has extent 1: drop it, as v[:, 0] or v.sel(c='0')")
    'the axis c has extent 1: drop it by --index c=0'
    >>> worded("a plate: choose one by well='B/3'"), worded("choose one by dataset=, e.g. dataset='0'")
    ('a plate: choose one by --option well=B/3', 'choose one by --dataset, e.g. --dataset 0')
    >>> worded("give voxel_size=, or affine='drop'")
    'give --voxel-size, or --option affine=drop'
    >>> worded("the name has no suffix; pass format=")
    'the name has no suffix; pass --format'
    >>> print(worded(f"accelerator={chr(39) + 'nvidia' + chr(39)!r} is no hint; port=80: in use"))
    --accelerator 'nvidia' is no hint; --port 80: in use
    >>> worded("a plate: choose one by well='B/3'", recipe=True)
    'a plate: choose one by well: B/3'
    >>> worded("give journal=, or slab=(4, 8, 8)"), worded("give affine='drop'")
    ('give --journal, or --slab 4,8,8', 'give --option affine=drop')
    """
    for python, here in {**_OPTION, **(_RECIPE if recipe else _COMMAND)}.items():
        text = re.sub(python, here, text)
    text = _CALL.sub("", text)
    text = _run_keyword().sub(_as_option, text)
    text = _PLACED.sub(lambda found: _as_key(found) if recipe else _as_option(found), text)
    return re.sub(r"(--[\w-]+|\b\w+:) +([ ,;.)]|$)", r"\1\2", text)


@cache
def _run_keyword() -> re.Pattern[str]:
    """Match the keyword of a run option, with or without a value; sequences are in parentheses."""
    from beam_volumes.plan.run_options import USER_OPTIONS

    names = "|".join(
        ["runner", *(name for name, f in USER_OPTIONS.items() if f.metadata["metavar"])]
    )
    return re.compile(rf"\b({names})=(\([\d, ]*\)|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[\w.]*)")


def _as_option(keyword: re.Match[str]) -> str:
    quoted = keyword[2][:1] in ("'", '"')
    value = ast.literal_eval(keyword[2]) if quoted else re.sub(r"[() ]", "", keyword[2])
    return f"--{keyword[1].replace('_', '-')} {'none' if value == 'None' else value}"


def _as_key(keyword: re.Match[str]) -> str:
    return f"{keyword[1]}: {keyword[2].strip(chr(39))}"
