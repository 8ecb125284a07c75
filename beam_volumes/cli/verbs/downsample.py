"""``beam-volumes downsample``: add coarser levels to a volume that is stored in one size."""

from __future__ import annotations

import argparse
from dataclasses import replace

from beam_volumes.cli.execute import dry, finish, note_unless_quiet, summary
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import computing, levelling, levels_asked, run_options
from beam_volumes.drive import compute
from beam_volumes.drive.add_levels import prepared


def register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Add coarser levels to an OME-Zarr or precomputed volume that is stored in one size. The volume "
        "stays as it is. Its metadata list the levels when all are there. One that has levels is refused."
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL of the volume")
    levelling(parser, "auto")
    computing(parser, crops=False)


def act(args: argparse.Namespace) -> None:
    options = run_options(args)
    found = prepared(args.path, **levels_asked(args), resume=options.resume)
    if found is None:
        print_result(f"{args.path}: its levels are there")
        return
    options = replace(options, journal=found.journal)
    if args.dry_run:
        dry(found.targets, options)
        return
    outcome = compute.run(
        found.targets,
        options,
        note=found,
        on_plan=lambda planned: note_unless_quiet(summary(planned), options),
    )
    finish(outcome, found.names, options)
    if outcome.ran:
        found.done()
