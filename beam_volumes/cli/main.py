"""The command ``beam-volumes``: finds the verb, and tells of errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import NoReturn

from beam_volumes.base.exports import EXPORTS
from beam_volumes.base.text import nearest
from beam_volumes.cli import completing
from beam_volumes.cli.errors import MISTAKE, quiet, report, warnings_told
from beam_volumes.cli.say import tell
from beam_volumes.cli.verbs import VERBS, module_of
from beam_volumes.version import __version__


class Parser(argparse.ArgumentParser):
    """Tells of wrong arguments as of all other mistakes."""

    def error(self, message: str) -> NoReturn:
        """A line, and the exit code of mistakes."""
        tell(f"beam-volumes: error: {message} ({self.prog} --help tells more)")
        sys.exit(MISTAKE)


def parser(only: str | None = None) -> argparse.ArgumentParser:
    """The arguments of every verb, or of one: each verb's module says its own, and takes time to import."""
    top = Parser(
        prog="beam-volumes",
        description="scipy.ndimage for volumes larger than memory, on any Apache Beam runner",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"beam-volumes {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        if only in (None, name):
            import_module(module_of(name)).register(verbs)
        else:
            verbs.add_parser(name, help=verb.summary, add_help=False)
    return top


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
    if not args.debug:
        quiet()
    try:
        with warnings_told(), _trusting(args.outside):
            code = args.act(args, others)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return report(error, args.debug, recipe=hasattr(args, "recipe"))
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
