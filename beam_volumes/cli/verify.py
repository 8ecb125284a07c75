"""``beam-volumes verify``: whether a run is complete."""

from __future__ import annotations

import argparse
from itertools import islice
from typing import Any

from beam_volumes.cli.errors import FAILED
from beam_volumes.cli.options import no_others, verb
from beam_volumes.cli.say import say
from beam_volumes.runs.verify import Check

#: Problems that are printed; the search ends there.
MAXIMUM = 100


def register(verbs: Any) -> None:
    parser = verb(verbs, "verify", act)
    parser.add_argument(
        "run",
        metavar="RUN",
        help="the run's first output, its .run folder, or the place of its journal",
    )
    parser.add_argument(
        "--checksums",
        action="store_true",
        help="also compare the voxels with the checksums taken when they were written",
    )
    parser.epilog = "Exit code 0: complete. 1: what is wrong is listed. 2: there is no run."


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> int:
    no_others(others, parser)
    check = Check.of(args.run, args.checksums)
    problems = check.problems()
    code = 0
    for problem in islice(problems, MAXIMUM):
        code = FAILED
        say(" ".join(problem.split()))
    if next(problems, None) is not None:
        say(f"and more: the search ended at {MAXIMUM}")
    elif not code:
        say(check.summary())
    return code
