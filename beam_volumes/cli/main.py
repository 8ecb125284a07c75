"""The command ``beam-volumes``: finds the verb, and tells of errors in one line."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from beam_volumes.cli import bench, demo, info, label, pool, resume, run, stats, verify, warm_up
from beam_volumes.cli.errors import MISTAKE, quiet, report
from beam_volumes.cli.say import tell
from beam_volumes.version import __version__

VERBS = (info, run, resume, verify, label, stats, demo, bench, pool, warm_up)


class Parser(argparse.ArgumentParser):
    """Tells of wrong arguments as of all other mistakes."""

    def error(self, message: str) -> NoReturn:
        """A line, and the exit code of mistakes."""
        tell(f"beam-volumes: error: {message} ({self.prog} --help tells more)")
        sys.exit(MISTAKE)


def parser() -> argparse.ArgumentParser:
    """The arguments of every verb; each verb's module says its own."""
    top = Parser(
        prog="beam-volumes",
        description="scipy.ndimage for volumes larger than memory, on any Apache Beam runner",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"beam-volumes {__version__}")
    verbs = top.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        verb.register(verbs)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    It is 0, 2 for a user's mistake, 1 for another error and for what `verify` found wrong.
    """
    args, others = parser().parse_known_args(arguments)
    if not args.debug:
        quiet()
    try:
        code = args.act(args, others)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read our output has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        return report(error, args.debug)
    return code or 0


if __name__ == "__main__":
    sys.exit(main())
