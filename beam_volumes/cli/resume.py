"""``beam-volumes resume``: continue a run that was stopped, from its folder alone."""

from __future__ import annotations

import argparse
from typing import Any

from beam_volumes.cli.execute import finish
from beam_volumes.cli.options import run_options, running, verb
from beam_volumes.cli.say import say
from beam_volumes.drive import compute
from beam_volumes.drive.add_levels import Adding
from beam_volumes.plan.run_options import AS_BEGUN
from beam_volumes.session.resume import note_of


def register(verbs: Any) -> None:
    parser = verb(verbs, "resume", act)
    parser.description = (
        "Continue a run that was stopped, in its own slabs. Whatever is needed lies in its folder: its plan "
        "is pickled there, so resume runs that you trust as you trust programs."
    )
    parser.epilog = "Options that are not listed go to Beam as pipeline options."
    parser.add_argument(
        "run",
        metavar="RUN",
        help="the run's first output, its .run folder, or the place of its journal",
    )
    running(parser)
    parser.set_defaults(runner=AS_BEGUN)
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    options = run_options(args, others, parser)
    found = compute.resume(args.run, options)
    if found is None:
        note = note_of(args.run)
        if isinstance(note, Adding):  # it may have been stopped just before
            note.done()
        say(f"{args.run}: the run has ended, there is nothing to resume")
        return
    outcome, note = found
    names = note.names if isinstance(note, Adding) else note
    finish(outcome, names or [""] * len(outcome.results), options)
    if isinstance(note, Adding) and outcome.ran:
        note.done()
