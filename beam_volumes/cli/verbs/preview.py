"""``beam-volumes preview``: write a picture of three sections of a volume in seconds."""

from __future__ import annotations

import argparse
import os
import re

from beam_volumes.cli.messages import print_note, print_result, worded
from beam_volumes.cli.options import numbers, opened, opening
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.recipes.build import Built
from beam_volumes.show.preview import checked_path, preview
from beam_volumes.storage.sources.axes import UnclearSpace


def register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a picture of three sections of a volume at low resolution, for which few chunks are read. "
        "The positions of the sections are printed."
    )
    parser.add_argument("path", metavar="PATH", help="a path, glob or URL, or a TensorStore spec")
    parser.add_argument(
        "out", metavar="OUT.png", nargs="?", help="the picture (default: preview-NAME.png here)"
    )
    parser.add_argument("--at", metavar="Z,Y,X", help="the voxel where the sections intersect")
    parser.add_argument(
        "--size", metavar="N", type=int, default=512, help="number of pixels of the longest section"
    )
    parser.add_argument(
        "--labels",
        action="store_true",
        default=None,
        help="show voxels as labels, each with its own colour",
    )
    opening(parser)


def act(args: argparse.Namespace) -> None:
    at = None if args.at is None else [int(n) for n in numbers(args.at, "--at")]
    out = checked_path(args.out or f"preview-{stem(args.path)}.png")
    try:
        volume = opened(args.path, args)
    except UnclearSpace as error:
        if any(option.startswith("affine=") for option in args.option):
            raise
        print_note(f"beam-volumes: warning: {worded(str(error))}; shown as stored")
        args.option = [*args.option, "affine=drop"]
        volume = opened(args.path, args)
    found = preview(volume, at=at, size=args.size, labels=args.labels)
    found.save(out)
    print_note(found.caption)
    print_result(out)


def of_recipe(built: Built) -> None:
    """Write a picture of each output volume of a recipe to the current folder, without a run."""
    for target, name in zip(built.targets, built.names, strict=True):
        volume = target.volume if isinstance(target, Target) else target
        if not isinstance(volume, Volume):
            print_note(f"{name}: numbers and tables need the run")
            continue
        out = f"preview-{stem(name or 'output')}.png"
        found = preview(volume)
        found.save(out)
        print_note(f"{name}: {found.caption}")
        print_result(out)


def stem(path: str) -> str:
    """Return the name of a place without its ending, for use in a file name.

    Examples
    --------
    >>> stem("s3://bucket/em.ome.zarr/"), stem("slices/*.tif"), stem("cells[0]")
    ('em', 'slices', 'cells-0')
    """
    parts = [p for p in path.rstrip("/").split("/") if p and "*" not in p and "?" not in p]
    name = parts[-1] if parts else "volume"
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(name).split(".")[0]).strip("-")
    return name or "volume"
