"""``beam-volumes stats``: measure every region of a label volume."""

from __future__ import annotations

import argparse

import beam_volumes as bv
from beam_volumes.cli.execute import execute
from beam_volumes.cli.options import computing, numbers, opened, opening, run_options
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import Built
from beam_volumes.recipes.catalogue import crop


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("labels", metavar="LABELS", help="a path, glob or URL; 0 is background")
    parser.add_argument(
        "out",
        metavar="OUT",
        nargs="?",
        help="a .parquet folder, or a .csv or .jsonl file (default: print the table as CSV)",
    )
    parser.add_argument(
        "--intensity",
        metavar="VOLUME",
        help="also measure the intensities of this volume, which must have the same shape",
    )
    parser.add_argument(
        "--properties",
        metavar="a,b,c",
        help="property names as in scikit-image, e.g. area,centroid (default: all)",
    )
    parser.add_argument(
        "--spacing",
        metavar="Z,Y,X",
        help="voxel size for areas and lengths, or voxel_size for the stored one (default: 1)",
    )
    parser.add_argument(
        "--nan",
        metavar="HOW",
        default="raise",
        help="omit ignores NaN and infinite intensities; raise reports them as an error (default: raise)",
    )
    opening(parser)
    computing(parser)


def act(args: argparse.Namespace) -> None:
    options = run_options(args)
    labels = opened(args.labels, args)
    table = measured(labels, args)
    target = table if args.out is None else table.to(args.out)
    note = ""
    if labels.dtype.kind != "b" and labels.dtype.itemsize <= 2:
        note = (
            f"beam-volumes: {args.labels} has dtype {labels.dtype}: all voxels of one value form one region; "
            "to measure objects in an image, first run beam-volumes label --threshold otsu"
        )
    execute(Built((target,), ("",)), options, args.dry_run, note=note)


def measured(labels: Volume, args: argparse.Namespace) -> Table:
    """Return the requested table."""
    intensity = None if args.intensity is None else bv.open(args.intensity)
    if args.crop is not None:
        labels = crop(labels, args.crop)
        intensity = None if intensity is None else crop(intensity, args.crop)
    spacing = args.spacing
    if spacing is not None and spacing != "voxel_size":
        found = numbers(spacing, "--spacing")
        spacing = found[0] if len(found) == 1 else found
    names = args.properties
    return bv.regionprops_table(
        labels,
        intensity,
        None if names is None else [n.strip() for n in names.split(",")],
        spacing=spacing,
        nan=args.nan,
    )
