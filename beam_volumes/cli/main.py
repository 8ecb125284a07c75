"""The ``beam-volumes`` command: runs a verb and prints errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NoReturn

from beam_volumes.base.public_names import EXPORTS
from beam_volumes.base.text import nearest
from beam_volumes.cli import completing
from beam_volumes.cli.messages import MISTAKE, print_note, quiet, report, short_warnings
from beam_volumes.version import __version__

#: By name: the purpose of a verb, and its module, which is imported when the verb is used.
VERBS = {
    "info": ("describe a volume, a group of volumes, a run, or this machine", "info"),
    "preview": ("write a picture of three sections of a volume", "view"),
    "convert": (
        "write a volume in another format, with other chunks, or as another dtype",
        "convert",
    ),
    "downsample": ("add coarser levels to a volume that has only one level", "convert"),
    "chain": ("apply operations in sequence, without a recipe", "run"),
    "run": ("run a recipe, for one volume or for each of many", "run"),
    "resume": ("continue a run that was stopped", "runs"),
    "verify": ("check that a run is complete and its outputs can be read", "runs"),
    "report": ("write a page about a run, a volume or a table", "runs"),
    "view": ("show volumes and tables in Neuroglancer, from this machine", "view"),
    "studio": ("edit a recipe in the browser, with live sections", "view"),
    "check": ("check a recipe, its inputs and the result of each step", "check"),
    "ops": ("list the operations, or show the parameters of one", "reference"),
    "schema": ("print the JSON schema of recipes, for editors", "reference"),
    "completion": ("print the shell code that completes this command's arguments", "reference"),
    "label": ("number the connected components of a mask", "labels"),
    "stats": ("measure every region of a label volume", "labels"),
    "probe": ("measure the receptive field of a network, for the operation predict", "check"),
    "register-slices": ("find the transform of each slice that aligns a stack", "register"),
    "register-frames": ("find the transform of each frame that aligns a movie", "register"),
    "register-tiles": ("find the positions of overlapping tiles", "register"),
    "demo": ("create a stack, run a recipe on it, and show the result", "demo"),
    "estimate": ("estimate the time and cost of a recipe on a type of machine", "check"),
    "bench": ("time a recipe on a crop and suggest changes", "bench"),
    "worker-pool": ("start workers for Flink and other runners that request them", "services"),
    "expansion-service": (
        "serve the transforms to pipelines in Java, Go and Beam YAML",
        "services",
    ),
    "warm-up": ("compile kernels before workers need them", "warm_up"),
}


class Parser(argparse.ArgumentParser):
    """Reports wrong arguments like all other user errors."""

    def error(self, message: str) -> NoReturn:
        """Print one line, and exit with the code for user errors."""
        print_note(f"beam-volumes: error: {message} (see {self.prog} --help)")
        sys.exit(MISTAKE)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """Make the parser of every verb, or of ``only`` one: importing a verb's module takes time."""
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
    """Add a verb by the two functions that ``VERBS`` of its module lists."""
    summary, home = VERBS[name]
    register, act = import_module(f"beam_volumes.cli.verbs.{home}").VERBS[name]
    found = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--debug", action="store_true", help="show the traceback of an error")
    found.add_argument(
        "--outside",
        action="store_true",
        help="also read files in other folders that headers, links or metadata refer to; use it only for "
        "files you trust",
    )
    found.add_argument(
        "--trust-models",
        action="store_true",
        help="also open networks that are programs (.pt, .pt2); they can read and write any file",
    )
    found.set_defaults(act=act, parser=found, others=[], others_to_beam=False)
    register(found)


@contextmanager
def _trusting(args: argparse.Namespace) -> Iterator[None]:
    """Set the options of trust meanwhile that are given."""
    names = [name for name in ("outside", "trust_models") if getattr(args, name)]
    if not names:
        yield
        return
    from beam_volumes.graph.options import options

    before = {name: getattr(options, name) for name in names}
    try:
        for name in names:
            setattr(options, name, True)
        yield
    finally:
        for name, value in before.items():
            setattr(options, name, value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    It is 0 for success, 2 for a user error, and 1 for another error or problems found by `verify`.
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
        with short_warnings(), _trusting(args):
            if args.others and not args.others_to_beam:
                import_module("beam_volumes.cli.options").no_others(args)
            code = args.act(args)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has closed the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return report(error, args.debug, recipe=hasattr(args, "recipe"))
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
