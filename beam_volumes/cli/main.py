"""The command ``beam-volumes``: finds the verb, and prints errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from beam_volumes.base.exports import EXPORTS
from beam_volumes.base.text import nearest
from beam_volumes.cli import completing
from beam_volumes.cli.messages import MISTAKE, print_note, quiet, report, short_warnings
from beam_volumes.version import __version__

#: By name: what a verb is for, and its module, which is imported when the verb is asked for.
VERBS = {
    "info": ("describe a volume, a group of volumes, a run, or this machine", "info"),
    "preview": ("write a picture of three sections of a volume", "preview"),
    "convert": (
        "write a volume in another format, in other chunks, or as another dtype",
        "convert",
    ),
    "downsample": ("add coarser levels to a volume that is stored in one size", "convert"),
    "chain": ("apply operations one after the other, without a recipe", "chain"),
    "run": ("carry out a recipe, for one volume or for each of many", "run"),
    "resume": ("continue a run that was stopped", "runs"),
    "verify": ("check that a run is complete and its outputs can be read", "runs"),
    "report": ("write a page about a run, a volume or a table", "runs"),
    "view": ("show volumes and tables in Neuroglancer, from this machine", "view"),
    "check": ("check a recipe: its words, its inputs, and what each step gives", "check"),
    "ops": ("list the operations, or show the parameters of one", "reference"),
    "schema": ("print the JSON schema of recipes, for editors", "reference"),
    "completion": ("print what makes a shell complete this command's words", "reference"),
    "label": ("number the connected components of a mask", "label"),
    "stats": ("measure every region of a label volume", "stats"),
    "probe": ("find out how far a network sees, for the op predict", "check"),
    "demo": ("make a stack, run a recipe on it, and show the result", "demo"),
    "estimate": ("estimate what a recipe would take on machines of a kind", "estimate"),
    "bench": ("time a recipe on a crop and suggest changes", "bench"),
    "worker-pool": ("start workers for Flink and other runners that ask for them", "services"),
    "expansion-service": (
        "serve the transforms to pipelines in Java, Go and Beam YAML",
        "services",
    ),
    "warm-up": ("compile kernels before workers need them", "warm_up"),
}


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments as all other mistakes."""

    def error(self, message: str) -> NoReturn:
        """A line, and the exit code of mistakes."""
        print_note(f"beam-volumes: error: {message} (see {self.prog} --help)")
        sys.exit(MISTAKE)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The arguments of every verb, or of one: importing a verb's module takes time."""
    top = Parser(
        prog="beam-volumes",
        description="scipy.ndimage for volumes larger than memory, on any Apache Beam runner",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"beam-volumes {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, (summary, _) in VERBS.items():
        if only in (None, name):
            _add_verb(verbs, name)
        else:
            verbs.add_parser(name, help=summary, add_help=False)
    return top


def _add_verb(verbs: Any, name: str) -> None:
    """Add a verb by ``register`` and ``act`` of its module, or ``register_NAME`` and ``act_NAME``."""
    summary, home = VERBS[name]
    module = import_module(f"beam_volumes.cli.verbs.{home}")
    suffix = "" if hasattr(module, "register") else f"_{name.replace('-', '_')}"
    found = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--debug", action="store_true", help="show where an error comes from")
    found.add_argument(
        "--outside",
        action="store_true",
        help="also read files elsewhere that a header, a link or metadata name: trust them",
    )
    act = getattr(module, f"act{suffix}")
    found.set_defaults(act=act, parser=found, others=[], others_to_beam=False)
    getattr(module, f"register{suffix}")(found)


@contextmanager
def _trusting(outside: bool) -> Iterator[None]:
    """Let files name files elsewhere meanwhile, if that is asked for."""
    if not outside:
        yield
        return
    from beam_volumes.graph.options import options

    before, options.outside = options.outside, True
    try:
        yield
    finally:
        options.outside = before


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    It is 0, 2 for a user's mistake, 1 for another error and for what `verify` found wrong.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    verb = next((word for word in words if not word.startswith("-")), "")
    if verb and verb not in VERBS:
        hint = nearest(verb, VERBS)
        if verb in EXPORTS:
            hint = f"; it is an operation: beam-volumes chain IN {verb} ... -o OUT"
        return report(
            ValueError(f"no verb is called {verb!r}{hint} (beam-volumes --help lists them)")
        )
    if "_ARGCOMPLETE" in os.environ:
        line = os.environ.get("COMP_LINE", "").split()[1:]
        completing.offered(parser(next((word for word in line if word in VERBS), "")))
    args, others = parser(verb).parse_known_args(words)
    args.others = others
    if not args.debug:
        quiet()
    try:
        with short_warnings(), _trusting(args.outside):
            if args.others and not args.others_to_beam:
                import_module("beam_volumes.cli.options").no_others(args)
            code = args.act(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return report(error, args.debug, recipe=hasattr(args, "recipe"))
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
