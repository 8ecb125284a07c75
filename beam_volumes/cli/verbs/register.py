"""``register-slices``, ``register-frames`` and ``register-tiles``: find transforms from voxels."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

import beam_volumes as bv
from beam_volumes.cli.messages import plain_text, print_result
from beam_volumes.cli.options import opened, opening, parse_index
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.catalogue import operation_of
from beam_volumes.recipes.document import parse_value
from beam_volumes.show.pages.report import report


def register_register_slices(parser: argparse.ArgumentParser) -> None:
    _one_volume(parser, bv.register_slices, "apply_transforms")


def act_register_slices(args: argparse.Namespace) -> None:
    _register(args, bv.register_slices)


def register_register_frames(parser: argparse.ArgumentParser) -> None:
    _one_volume(parser, bv.register_frames, "apply_transforms")


def act_register_frames(args: argparse.Namespace) -> None:
    _register(args, bv.register_frames)


def register_register_tiles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        metavar="SOURCE",
        nargs="+",
        help="an XML file of BigStitcher or TeraStitcher, a .csv file with columns path, z, y and x, or "
        "tiles with positions: OME-TIFF, OME-Zarr, zarr of multiview-stitcher, a plate or a well",
    )
    parser.add_argument("--index", metavar="t=0,c=DAPI", help="the time point and channel to read")
    parser.add_argument("--transform-key", metavar="KEY", help="a transform of multiview-stitcher")
    _arguments(parser, bv.register_tiles)
    parser.add_argument("--pairs", metavar="PAIRS.csv", help="also write the table of pairs")
    parser.add_argument("--report", metavar="PAGE.html", help="also write a page with bad overlaps")
    parser.add_argument(
        "--xml",
        metavar="OUT.xml",
        help="also write the positions for BigStitcher, next to its SOURCE",
    )
    parser.epilog = (
        "To fuse the tiles: beam-volumes chain SOURCE fuse --transforms OUT.csv -o fused.ome.zarr. If SOURCE "
        "is not an XML or CSV file, OUT.csv also has the paths, and takes its place."
    )


def act_register_tiles(args: argparse.Namespace) -> None:
    for path in (args.out, args.pairs, args.report, args.xml):
        _check_new(path, args.overwrite)
    source = args.source[0] if len(args.source) == 1 else args.source
    index = parse_index(args.index)
    tiles, transforms = bv.open_tiles(source, index=index, transform_key=args.transform_key)
    table, pairs = bv.register_tiles(tiles, transforms, **_parameters(args, bv.register_tiles))
    if args.pairs:
        _write(pairs, args.pairs, args.overwrite)
    if args.report:
        bv.tiles_report(args.report, tiles, table, pairs, overwrite=args.overwrite)
    if args.xml:
        bv.save_transforms(source, table, args.xml, index=index, overwrite=args.overwrite)
    _write(_with_paths(table, tiles, args.out), args.out, args.overwrite)


def _one_volume(parser: argparse.ArgumentParser, function: Any, then: str) -> None:
    parser.add_argument("volume", metavar="IN", help="a path, glob or URL")
    _arguments(parser, function)
    parser.add_argument("--report", metavar="PAGE.html", help="also write a page about OUT.csv")
    opening(parser)
    parser.epilog = (
        f"To apply the table: beam-volumes chain IN {then} --transforms OUT.csv -o aligned.ome.zarr"
    )


def _register(args: argparse.Namespace, function: Any) -> None:
    if args.report and not args.out:
        raise ValueError("--report shows a table; give its path with -o OUT.csv")
    if args.report:
        _check_new(args.report, args.overwrite)
    table = function(opened(args.volume, args), **_parameters(args, function))
    _write(table, args.out, args.overwrite)
    if args.report:
        with open(args.report, "w", encoding="utf-8") as file:
            file.write(report(args.out))
        print_result(args.report)


def _arguments(parser: argparse.ArgumentParser, function: Any) -> None:
    """Add the keyword parameters of a function, and the options of its table."""
    for name, p in _keywords(function).items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            metavar="VALUE",
            help=f"{plain_text(p.kind)}. {plain_text(p.text)}".replace("%", "%%"),
        )
    parser.add_argument("-o", "--out", metavar="OUT.csv", help="the table (default: print it)")
    parser.add_argument("--overwrite", action="store_true", help="replace files that exist")


def _keywords(function: Any) -> dict[str, Any]:
    operation = operation_of(function)
    return {n: p for n, p in operation.parameters.items() if n not in operation.positional}


def _parameters(args: argparse.Namespace, function: Any) -> dict[str, Any]:
    """Return the given parameters of a function."""
    _check_new(args.out, args.overwrite)
    found = {}
    for name, p in _keywords(function).items():
        text = getattr(args, name)
        if text is not None:
            option = f"--{name.replace('_', '-')}"
            value = text if p.is_text else parse_value(text, option).plain()
            found[name] = [value] if p.is_sequence and not isinstance(value, list) else value
    return found


def _check_new(path: str | None, overwrite: bool) -> None:
    if path is not None and os.path.exists(path) and not overwrite:
        raise FileExistsError(f"{path} exists: give another path, or --overwrite")


def _write(table: ComputedTable, path: str | None, overwrite: bool) -> None:
    import pyarrow
    from pyarrow import csv

    data = pyarrow.BufferOutputStream()
    csv.write_csv(table.to_pyarrow(), data, csv.WriteOptions(quoting_style="needed"))
    text = data.getvalue().to_pybytes().decode()
    if path is None:
        print_result(text.rstrip())
        return
    _check_new(path, overwrite)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    print_result(path)


def _with_paths(table: ComputedTable, tiles: Sequence[Volume], out: str | None) -> ComputedTable:
    """Return a table with the paths of the tiles, if these are enough to open them."""
    asked = [getattr(tile.nodes[0], "source", None) for tile in tiles]
    found = [{k: v for k, v in (s.asked or {}).items() if v is not None} for s in asked if s]
    if out is None or any(set(f) != {"path_or_spec"} for f in found):
        return table
    folder = os.path.dirname(os.path.abspath(out))
    paths = [os.path.relpath(str(f["path_or_spec"]), folder) for f in found]
    return ComputedTable(table.to_pyarrow().add_column(0, "path", [paths]))
