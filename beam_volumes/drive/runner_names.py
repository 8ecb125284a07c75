"""Names of runners, checked before planning."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from beam_volumes.base.text import nearest
from beam_volumes.plan.run_options import runner_name

#: Users' names of Beam's FnApiRunner on this machine, without "Runner".
LOCAL = {"fnapi", "direct", "bundlebaseddirect", "switchingdirect"}
#: Wrong names for runners on this machine.
_HERE = ("local", "here", "threads", "processes", "multiprocessing", "sync", "none", "in_process")


def is_local(runner: Any) -> bool:
    """Whether a runner, by name, class or instance, is FnApiRunner on this machine.

    >>> is_local("DirectRunner"), is_local("FlinkRunner")
    (True, False)
    """
    return runner_name(runner).lower().removesuffix("runner") in LOCAL


def check_runner(runner: Any) -> None:
    """Refuse unknown names of runners with the nearest name; Beam checks classes, instances and full names.

    >>> check_runner("Dirct")
    Traceback (most recent call last):
    ValueError: runner='Dirct': Beam has no such runner; did you mean 'DirectRunner'?
    """
    from apache_beam.options.pipeline_options import StandardOptions
    from apache_beam.runners.runner import PipelineRunner

    if isinstance(runner, str):
        if "." in runner:
            return
        known = [path.rpartition(".")[2] for path in StandardOptions.ALL_KNOWN_RUNNERS]
        if f"{runner.lower().removesuffix('runner')}runner" not in [k.lower() for k in known]:
            if runner.lower() in _HERE:
                raise ValueError(
                    f"runner={runner!r}: Beam has no such runner; give None for this process without Beam, "
                    "or 'DirectRunner' for a pipeline on this machine"
                )
            hint = nearest(f"{runner}Runner", known) or f"; known are {', '.join(known)}"
            raise ValueError(f"runner={runner!r}: Beam has no such runner{hint}")
    elif not isinstance(runner, PipelineRunner) and not (
        isinstance(runner, type) and issubclass(runner, PipelineRunner)
    ):
        raise TypeError(
            f"runner={runner!r} is not a runner; give the name of a runner, a runner of Beam, or None"
        )


class UnknownOption(ValueError):
    """An option that Beam does not have."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"options: Beam has no {name}{hint or '; remove it'}")
        self.name, self.hint = name, hint


def check_arguments(
    arguments: Sequence[str], runner: Any, meant: Callable[[str], str] = lambda name: ""
) -> None:
    """Refuse arguments that Beam does not have, or that end the program.

    Some runners have a job server with options of its own. For these runners unknown arguments are
    passed on, too, unless they look like a misspelt known one.
    """
    known, left = beam_arguments(), list(reversed(arguments))
    while left:
        name, equals, _ = left.pop().partition("=")
        if name in ("-h", "--help"):
            raise ValueError(f"{name} is not an option of a run; remove it")
        if name not in known:
            hint = meant(name) if name.startswith("-") else ""
            beams = difflib.get_close_matches(name, known, 1, 0.8)
            if beams and not hint.startswith("; did you mean"):
                hint = f"; did you mean {beams[0]!r}?"
            if hint.startswith(("; did you mean", "; the output")) or not _has_server(runner):
                raise UnknownOption(name, hint)
        elif runner is None:
            raise ValueError(f"{name} is an option for Beam, but --runner none runs without Beam")
        has_value = known.get(name, 1) and not equals and left and not left[-1].startswith("--")
        if name.startswith("--") and has_value:
            left.pop()


def check_options(options: Any, runner: Any) -> None:
    """Refuse options as a list or a dict that Beam does not have, or with other values than texts.

    >>> check_options({"tmp_location": "/data"}, "DirectRunner")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    UnknownOption: options: Beam has no --tmp_location; did you mean '--temp_location'?
    """
    if isinstance(options, Mapping):
        for name, value in options.items():
            values = value if isinstance(value, list | tuple) else [value]
            if not isinstance(name, str) or not all(
                isinstance(v, str | bool | int | float | np.number | np.bool_) for v in values
            ):
                raise TypeError(
                    f"options has {name!r} with a value of type {type(value).__name__}; give a "
                    "dict from option names to strings, numbers or bools"
                )
        check_arguments([f"--{name}=" for name in options], runner)
    elif isinstance(options, Sequence) and not isinstance(options, str):
        if wrong := [o for o in options if not isinstance(o, str)]:
            raise TypeError(
                f"options has {wrong[0]!r}, which is not a string; give a list like "
                "['--direct_running_mode=multi_processing']"
            )
        check_arguments(options, runner)


def _has_server(runner: Any) -> bool:
    """Whether only a job server knows the options of a runner."""
    name = runner_name(runner).rpartition(".")[2].lower().removesuffix("runner")
    return name in ("flink", "spark", "samza", "portable", "prism", "sparkuber", "kubernetes")


def taking(parser: argparse.ArgumentParser) -> dict[str, int]:
    """Return the options of a parser, and the number of values that each takes: 1 or 0.

    >>> parser = argparse.ArgumentParser(add_help=False)
    >>> _ = parser.add_argument("--memory"), parser.add_argument("--quiet", action="store_true")
    >>> taking(parser)
    {'--memory': 1, '--quiet': 0}
    """
    return {o: int(a.nargs != 0) for a in parser._actions for o in a.option_strings}


def beam_arguments() -> dict[str, int]:
    """Return the options of Beam, and the number of values that each takes: 1 or 0."""
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for kind in PipelineOptions.__subclasses__():
        if hasattr(kind, "_add_argparse_args"):
            kind._add_argparse_args(parser)  # type: ignore[arg-type]
    return taking(parser)
