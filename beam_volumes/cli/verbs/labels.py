"""``beam-volumes label`` and ``beam-volumes stats``: number the components of a mask, and measure regions."""

from __future__ import annotations

import argparse
from typing import Any

import beam_volumes as bv
from beam_volumes.base.public_names import EXPORTS
from beam_volumes.base.text import nearest
from beam_volumes.cli.execute import execute
from beam_volumes.cli.options import (
    computing,
    extents,
    number,
    numbers,
    opened,
    opening,
    run_options,
)
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import Built
from beam_volumes.recipes.catalogue import crop


def register_label(parser: argparse.ArgumentParser) -> None:
    parser.description = "Number the connected components of a mask, and print how many there are."
    parser.add_argument(
        "mask", metavar="MASK", help="a path, glob or URL; nonzero voxels are foreground"
    )
    parser.add_argument("out", metavar="OUT", help="the path of the labels, e.g. cells.ome.zarr")
    parser.add_argument(
        "--connectivity",
        metavar="N",
        type=int,
        default=1,
        help="maximum number of steps along axes between neighbours: 1, 2 or 3 (default: 1)",
    )
    parser.add_argument(
        "--by-value", action="store_true", help="only neighbours with equal values are connected"
    )
    parser.add_argument(
        "--background",
        metavar="V",
        help="with --by-value: the value to leave unlabelled (default: 0), or none",
    )
    parser.add_argument("--dtype", help="dtype of the labels (default: uint32, if they fit)")
    parser.add_argument(
        "--threshold",
        metavar="T",
        help=f"voxels above T are foreground: a number, or one of {', '.join(thresholds())}",
    )
    parser.add_argument(
        "--fill-holes",
        action="store_true",
        help="first fill holes, which are background enclosed by foreground",
    )
    parser.add_argument(
        "--remove-small",
        metavar="SIZE",
        help='first remove components of at most SIZE, in voxels or as a volume such as "0.001 um^3"',
    )
    parser.add_argument("--chunks", metavar="Z,Y,X", help="chunks of the labels")
    opening(parser)
    computing(parser)


def act_label(args: argparse.Namespace) -> None:
    options = run_options(args)
    volume = opened(args.mask, args)
    cells = labels(volume if args.crop is None else crop(volume, args.crop), args)
    target = cells.to(args.out, chunks=extents(args.chunks, "--chunks"))
    note = ""
    if volume.dtype != bool and args.threshold is None and not args.by_value:
        note = (
            f"beam-volumes: {args.mask} has dtype {volume.dtype}: every nonzero voxel is foreground; "
            "--threshold otsu selects bright voxels"
        )
    execute(Built((target, cells.num_labels), (None, "")), options, args.dry_run, note=note)


def labels(volume: Volume, args: argparse.Namespace) -> Volume:
    """Return the requested labels."""
    _check_dtype(args.dtype)
    if args.by_value:
        for option in ("threshold", "fill_holes", "remove_small"):
            if getattr(args, option):
                name = option.replace("_", "-")
                raise ValueError(f"--{name} makes a mask, which has no values for --by-value")
        background = _background(args.background)
        return bv.label(
            volume, args.connectivity, by_value=True, background=background, dtype=args.dtype
        )
    if args.background is not None:
        raise ValueError("--background requires --by-value; the background of a mask is 0")
    mask = volume if volume.dtype == bool else volume != 0
    if args.threshold is not None:
        mask = volume > _threshold(volume, args.threshold)
    if args.fill_holes:
        mask = bv.binary_fill_holes(mask)
    if args.remove_small is not None:
        mask = bv.remove_small_objects(mask, _size(args.remove_small), args.connectivity)
    return bv.label(mask, args.connectivity, dtype=args.dtype)


def _threshold(volume: Volume, text: str) -> Any:
    if text.lower() in thresholds():
        return getattr(bv, f"threshold_{text.lower()}")(volume)
    try:
        return number(text, "--threshold")
    except ValueError as error:
        raise ValueError(
            f"{error} and not the name of a threshold{nearest(text, thresholds())}"
        ) from None


def thresholds() -> list[str]:
    """List the methods that compute a single threshold."""
    ours = [name for name, module in EXPORTS.items() if module == ".ops.measure.thresholds"]
    return [n.removeprefix("threshold_") for n in ours if n != "threshold_multiotsu"]


def _check_dtype(name: str | None) -> None:
    known = [f"{u}int{bits}" for u in ("u", "") for bits in (8, 16, 32, 64)]
    if name is not None and name not in known:
        raise ValueError(f"--dtype {name}: labels must be integers{nearest(name, known)}")


def _background(text: str | None) -> Any:
    if text is None:
        return 0
    return None if text.lower() == "none" else number(text, "--background")


def _size(text: str) -> Any:
    """Parse a number of voxels; a volume with a unit stays a string."""
    return (
        text if any(c.isalpha() for c in text.replace("e", "")) else number(text, "--remove-small")
    )


def register_stats(parser: argparse.ArgumentParser) -> None:
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


def act_stats(args: argparse.Namespace) -> None:
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


VERBS = {
    "label": (register_label, act_label),
    "stats": (register_stats, act_stats),
}
