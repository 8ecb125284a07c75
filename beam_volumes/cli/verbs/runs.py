"""The verbs ``resume``, ``verify`` and ``report``, for existing runs."""

from __future__ import annotations

import argparse
import os
from contextlib import closing
from dataclasses import replace
from itertools import islice

from beam_volumes.cli.execute import finish
from beam_volumes.cli.messages import FAILED, print_result
from beam_volumes.cli.options import opened, opening, run_options, running
from beam_volumes.cli.verbs.view import stem
from beam_volumes.drive import compute, verify
from beam_volumes.drive.add_levels import Adding
from beam_volumes.plan.run_options import AS_BEGUN
from beam_volumes.runs.verify import Check
from beam_volumes.session.resume import note_of
from beam_volumes.show.pages.report import report
from beam_volumes.storage.places.single_file import write_file

#: Maximum number of problems to print; the check stops there.
MAXIMUM = 100


def register_resume(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Continue a stopped run with the same slabs. Everything it needs is in its folder, including a "
        "pickled plan: as with programs, resume only runs that you trust."
    )
    parser.epilog = "Other options are passed to Beam as pipeline options."
    parser.add_argument(
        "run",
        metavar="RUN",
        help="the run's first output, its .run folder, or the location of its journal",
    )
    running(parser)
    parser.set_defaults(runner=AS_BEGUN)
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")


def act_resume(args: argparse.Namespace) -> None:
    options = run_options(args)
    found = compute.resume(args.run, options)
    if found is None:
        note = note_of(args.run)
        if isinstance(note, Adding):  # it may have been stopped just before this
            note.done()
        print_result(f"{args.run}: the run is complete, there is nothing to resume")
        return
    outcome, note = found
    names = note.names if isinstance(note, Adding) else note
    finish(outcome, names or [""] * len(outcome.results), options)
    if isinstance(note, Adding) and outcome.ran:
        note.done()


def register_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        metavar="RUN",
        help="the run's first output, its .run folder, or the location of its journal",
    )
    parser.add_argument(
        "--checksums",
        action="store_true",
        help="also compare the voxels with the checksums recorded when they were written",
    )
    parser.set_defaults(others_to_beam=True)
    parser.add_argument(
        "--runner",
        metavar="NAME",
        default="none",
        help="a Beam runner, or none to check in threads of this process (default: none)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=int,
        help="number of slabs to check at a time on this machine (default: one for each core)",
    )
    parser.add_argument(
        "--journal",
        metavar="PLACE",
        help="folder for the findings so far, from which a stopped verification can continue (default: "
        "verify in the run's folder if a runner is given, otherwise none)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue a stopped verification with the same options",
    )
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")
    parser.epilog = (
        "Exit code 0: complete. 1: problems were found and listed. 2: there is no run. Other options are "
        "passed to Beam as pipeline options."
    )


def act_verify(args: argparse.Namespace) -> int:
    check = Check.of(args.run, args.checksums, MAXIMUM + 1)
    code = 0
    options = replace(run_options(args), progress=False if args.quiet else None)
    with closing(verify.problems(check, options)) as problems:
        for problem in islice(problems, MAXIMUM):
            code = FAILED
            print_result(" ".join(problem.split()))
        if next(problems, None) is not None:
            print_result(f"and more: the check stopped after {MAXIMUM}")
        elif not code:
            print_result(check.summary())
    return code


def register_report(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a self-contained HTML page about a run, a volume or a table: sections with sliders, a "
        "histogram, sizes, a diagram of the plan, measured and predicted time and memory, and the columns "
        "of tables."
    )
    parser.add_argument(
        "path", metavar="PATH", help="an output of a run, its .run folder, a volume or a table"
    )
    parser.add_argument(
        "out", metavar="OUT.html", nargs="?", help="the page (default: report-NAME.html here)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing page")
    opening(parser)


def act_report(args: argparse.Namespace) -> None:
    out = args.out or f"report-{stem(args.path)}.html"
    if not out.lower().endswith((".html", ".htm")):
        raise ValueError(f"{out}: a report is HTML; give a path that ends in .html")
    if os.path.exists(out) and not args.overwrite:
        raise ValueError(f"{out} exists; give a different path, or --overwrite")
    given = (args.dataset, args.level, args.index, args.voxel_size, args.unit, args.origin)
    special = any(s is not None for s in given) or bool(args.option)
    html = report(args.path, opened(args.path, args) if special else None)
    write_file(out, html.encode())
    print_result(out)


VERBS = {
    "resume": (register_resume, act_resume),
    "verify": (register_verify, act_verify),
    "report": (register_report, act_report),
}
