"""``register-slices``, ``register-frames`` and ``register-tiles``: find transforms from voxels."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import beam_volumes as bv
from beam_volumes.cli.messages import FAILED, plain_text, print_result
from beam_volumes.cli.options import opened, opening, parse_index
from beam_volumes.graph.table import ComputedTable
from beam_volumes.ops.geometry.registration.tiles import unlinked
from beam_volumes.recipes.catalogue import is_of_tiles, registrations
from beam_volumes.recipes.document import parse_value
from beam_volumes.recipes.registration import check_files, csv_of, of_tiles, of_volume


def register_register_slices(parser: argparse.ArgumentParser) -> None:
    _one_volume(parser, "register_slices")


def act_register_slices(args: argparse.Namespace) -> None:
    _register(args, "register_slices")


def register_register_frames(parser: argparse.ArgumentParser) -> None:
    _one_volume(parser, "register_frames")


def act_register_frames(args: argparse.Namespace) -> None:
    _register(args, "register_frames")


def register_register_tiles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        nargs="+",
        help="an XML file of BigStitcher or TeraStitcher, a .csv file with columns path, z, y and x, or "
        "tiles with positions: OME-TIFF, OME-Zarr, zarr of multiview-stitcher, a plate or a well",
    )
    parser.add_argument("--index", metavar="t=0,c=DAPI", help="the time point and channel to read")
    parser.add_argument(
        "--transform-key", metavar="KEY", help="the name of a multiview-stitcher transform"
    )
    _arguments(parser, "register_tiles")
    parser.add_argument("--pairs", metavar="PAIRS.csv", help="also write the table of pairs")
    parser.add_argument("--report", metavar="PAGE.html", help="also write a report on bad overlaps")
    parser.add_argument(
        "--xml",
        metavar="OUT.xml",
        help="also write the positions for BigStitcher, next to its SOURCE",
    )
    parser.epilog = (
        "To fuse the tiles: beam-volumes chain SOURCE fuse --transforms OUT.csv -o fused.ome.zarr. If SOURCE "
        "is not an XML or CSV file, OUT.csv also has the paths, and takes its place."
    )


def act_register_tiles(args: argparse.Namespace) -> int:
    files = _files(args, args.source)
    source = args.source[0] if len(args.source) == 1 else args.source
    options = {"index": parse_index(args.index), "transform_key": args.transform_key}
    parameters = _parameters(args, "register_tiles")
    table = of_tiles(source, options, parameters, files, args.overwrite)
    _print(table, files)
    has_slices = "tile" in table.column_names
    count = len(set(table["tile"].to_pylist())) if has_slices else len(table)
    return FAILED if count > 1 and unlinked(table) else 0


def _one_volume(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("volume", metavar="IN", help="a path, glob or URL")
    _arguments(parser, name)
    parser.add_argument("--report", metavar="PAGE.html", help="also write a report on OUT.csv")
    opening(parser)
    parser.epilog = (
        "To apply the table: beam-volumes chain IN apply_transforms --transforms OUT.csv "
        "-o aligned.ome.zarr"
    )


def _register(args: argparse.Namespace, name: str) -> None:
    if args.report and not args.out:
        raise ValueError("--report shows a table; give its path with -o OUT.csv")
    files = _files(args, [args.volume])
    volume, parameters = opened(args.volume, args), _parameters(args, name)
    _print(of_volume(registrations()[name], volume, parameters, files, args.out), files)


def _files(args: argparse.Namespace, sources: list[str]) -> dict[str, str]:
    """Return the paths of the files to write."""
    found = {"table": args.out, **{n: getattr(args, n, None) for n in ("report", "pairs", "xml")}}
    files = {name: path for name, path in found.items() if path is not None}
    check_files(files, [*sources, getattr(args, "mask", None)], args.overwrite)
    return files


def _print(table: ComputedTable, files: Mapping[str, str]) -> None:
    """Print the paths of the files; the rows of the table if it is not one of them."""
    if "table" not in files:
        print_result(csv_of(table).rstrip())
    for path in files.values():
        print_result(path)


def _arguments(parser: argparse.ArgumentParser, function: str) -> None:
    """Add the keyword parameters of a function, and the options of its table."""
    for name, p in registrations()[function].keywords.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="VALUE",
            help=f"{plain_text(p.kind)}. {plain_text(p.text)}".replace("%", "%%"),
        )
    parser.add_argument("-o", "--out", metavar="OUT.csv", help="the table (default: print it)")
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")


def _parameters(args: argparse.Namespace, function: str) -> dict[str, Any]:
    """Return the given parameters of a function."""
    found = {}
    for name, p in registrations()[function].keywords.items():
        text = getattr(args, name)
        if text is None:
            continue
        if p.volume:
            found[name] = bv.open_tiles(text)[0] if is_of_tiles(text) else bv.open(text)
        else:
            option = f"--{name.replace('_', '-')}"
            found[name] = p.listed(text if p.is_text else parse_value(text, option).plain())
    return {**found, "progress": False if args.quiet else None}


VERBS = {
    "register-slices": (register_register_slices, act_register_slices),
    "register-frames": (register_register_frames, act_register_frames),
    "register-tiles": (register_register_tiles, act_register_tiles),
}
