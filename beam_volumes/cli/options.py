"""Arguments that verbs share."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from beam_volumes.cli.document import nearest


def verb(verbs: Any, name: str, act: Any, summary: str) -> argparse.ArgumentParser:
    """A verb's parser; ``act(parser, args, others)`` does the work."""
    found = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--debug", action="store_true", help="show where an error comes from")
    found.set_defaults(act=partial(act, found))
    return found


def running(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that compute."""
    parser.add_argument("--memory", metavar="SIZE", help="what this machine may use, e.g. 2GiB")
    parser.add_argument("--workers", metavar="N", type=int, help="slabs in flight")
    parser.add_argument(
        "--runner",
        metavar="NAME",
        default="FnApiRunner",
        help="a Beam runner, or none for this process without Beam (default: %(default)s)",
    )


def no_others(others: list[str], parser: argparse.ArgumentParser) -> None:
    """Refuse arguments that nobody knows."""
    if others:
        name = others[0].partition("=")[0]
        raise ValueError(f"unknown argument {name}{nearest(name, names(parser))}")


def names(parser: argparse.ArgumentParser) -> list[str]:
    """A parser's option names."""
    return [o for a in parser._actions for o in a.option_strings if o.startswith("--")]


def beam_options(
    others: list[str], parser: argparse.ArgumentParser, runner: str | None
) -> list[str]:
    """Arguments for Beam: all that are not ours, unless one looks like one of ours misspelt.

    Raises
    ------
    ValueError
        There is nobody to take the argument.
    """
    if not others:
        return []
    if not others[0].startswith("--") or runner is None:
        no_others(others, parser)
    known = _known_to_beam()
    for other in others:
        name = other.partition("=")[0]
        hint = nearest(name, names(parser))
        if name.startswith("--") and name not in known and hint.startswith("; did you mean"):
            raise ValueError(f"unknown option {name}{hint}")
    return others


def _known_to_beam() -> set[str]:
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for kind in PipelineOptions.__subclasses__():
        if hasattr(kind, "_add_argparse_args"):
            kind._add_argparse_args(parser)  # type: ignore[arg-type]
    return set(names(parser))
