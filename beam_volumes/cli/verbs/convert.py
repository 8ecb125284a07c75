"""``beam-volumes convert`` and ``beam-volumes downsample``.

They write a volume in another format, with other chunks or as another dtype, or add coarser levels.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

import beam_volumes as bv
from beam_volumes.cli.execute import dry, execute, finish, note_unless_quiet, summary
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import (
    CENSUS,
    computing,
    extents,
    levelling,
    levels_asked,
    numbers,
    opened,
    opening,
    parse_options,
    run_options,
)
from beam_volumes.drive import compute
from beam_volumes.drive.add_levels import prepared
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.recipes.build import Built
from beam_volumes.recipes.catalogue import crop
from beam_volumes.recipes.document import parse_value
from beam_volumes.storage.formats import registry


def register_convert(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="IN", help="a path, glob or URL of any volume")
    parser.add_argument(
        "out",
        metavar="OUT",
        help=f"the path of the output; its extension selects the format: {', '.join(endings())}",
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        help=f"the format, if the extension does not select it: {', '.join(registry.writable())}",
    )
    parser.add_argument(
        "--chunks",
        "--chunk",
        metavar="Z,Y,X",
        help="shape of the output's chunks, or one number for all axes",
    )
    parser.add_argument(
        "--shards",
        "--shard",
        metavar="Z,Y,X",
        help="store chunks in shards of this shape, one number for all axes, or auto",
    )
    parser.add_argument(
        "--codec", metavar="NAME[:LEVEL]", help="compression of chunks, e.g. zstd:5, or none"
    )
    levelling(parser)
    parser.add_argument(
        "--dtype", help="dtype to store; integers are rounded half to even and clipped to its range"
    )
    parser.add_argument(
        "--rescale",
        metavar="LOW,HIGH",
        nargs="?",
        const="image",
        help="map these intensities to the range of the dtype (0 to 1 for floats); without numbers, the "
        "minimum and maximum of the volume, which needs an additional pass",
    )
    parser.add_argument(
        "--channels", metavar="A,B", help="channels to write, by name or number, in this order"
    )
    parser.add_argument(
        "--store",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an additional option of Volume.to, such as zarr_version=2; may be repeated",
    )
    opening(parser)
    computing(parser)


def endings() -> list[str]:
    """Return the suffixes of all formats that can be written."""
    return [suffix for f in registry.writable().values() for suffix in f.suffixes]


def act_convert(args: argparse.Namespace) -> None:
    options = run_options(args)
    execute(Built((converted(args),), ("",)), options, args.dry_run)


def converted(args: argparse.Namespace) -> Target:
    """Return the requested output."""
    volume = opened(args.input, args)
    if args.channels is not None:
        volume = chosen(volume, args.channels)
    if args.crop is not None:
        volume = crop(volume, args.crop)
    dtype = None if args.dtype is None else _dtype(args.dtype)
    if args.rescale is not None:
        volume = rescaled(volume, args.rescale, dtype)
    storage: dict[str, Any] = {
        "format": args.format,
        "dtype": dtype,
        "chunks": _shape(args.chunks, "--chunks"),
        "shards": True if args.shards == "auto" else _shape(args.shards, "--shards"),
        "codec": codec(args.codec),
        **levels_asked(args),
        **parse_options(args.store, "--store"),
    }
    return volume.to(args.out, **{k: v for k, v in storage.items() if v is not None})


def chosen(volume: Volume, text: str) -> Volume:
    """Select channels of a volume; a single channel has no channel axis.

    >>> v = bv.stack([np.zeros((2, 3)), np.ones((2, 3))], names=["DAPI", "GFP"])
    >>> chosen(v, "GFP").shape, chosen(v, "1,0").channels
    ((2, 3), ('GFP', 'DAPI'))
    """
    names = [part.strip() for part in text.split(",")]
    found = [int(name) if name.lstrip("-").isdigit() else name for name in names]
    return volume.sel(c=found[0] if len(found) == 1 else found)


def rescaled(volume: Volume, text: str, dtype: np.dtype | None) -> Volume:
    """Map a range of intensities to the range of a dtype, by default the volume's own.

    >>> v = bv.open(np.array([[0, 40, 100, 200]], "u2"))
    >>> np.asarray(rescaled(v, "0,100", np.dtype("u1")))
    array([[  0, 102, 255, 255]], dtype=uint8)
    """
    into = volume.dtype if dtype is None else dtype
    if into.kind == "b":
        raise ValueError("--rescale cannot map to bool; give a different --dtype")
    ends: Any = text
    if text != "image":
        ends = tuple(numbers(text, "--rescale"))
        if len(ends) != 2 or not ends[0] < ends[1]:
            raise ValueError(
                f"--rescale {text}: give two increasing numbers, such as 0,4095, or none"
            )
    return bv.rescale_intensity(volume, ends, into, dtype=into)


def codec(text: str | None) -> Any:
    """Parse a codec and its level for `Volume.to`.

    >>> codec("zstd:5"), codec("none"), codec(None)
    ({'name': 'zstd', 'level': 5}, 'none', None)
    """
    name, colon, level = (text or "").partition(":")
    if not colon:
        return text
    if not level.isdigit():
        raise ValueError(f"--codec {text}: write it as NAME or NAME:LEVEL, e.g. zstd:5")
    return {"name": name, "level": parse_value(level, "--codec").value}


def _dtype(name: str) -> np.dtype:
    try:
        return np.dtype(name)
    except TypeError:
        raise ValueError(f"--dtype {name} does not exist; use e.g. uint8 or float32") from None


def _shape(text: str | None, option: str) -> Any:
    found = extents(text, option)
    return found[0] if found is not None and len(found) == 1 else found


def register_downsample(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Add coarser levels to an OME-Zarr or precomputed volume that has only one level. The voxels of the "
        "volume are not changed. Its metadata list the levels once all are written. A volume that already "
        "has more levels is refused."
    )
    parser.add_argument("path", metavar="PATH", help="a path or URL of the volume")
    levelling(parser, "auto")
    computing(parser, crops=False)


def act_downsample(args: argparse.Namespace) -> None:
    options = run_options(args)
    found = prepared(args.path, **levels_asked(args), resume=options.resume)
    if found is None:
        print_result(f"{args.path}: its levels exist already")
        return
    options = replace(options, journal=found.journal)
    if args.dry_run:
        dry(found.targets, options, args.dry_run == CENSUS)
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


VERBS = {
    "convert": (register_convert, act_convert),
    "downsample": (register_downsample, act_downsample),
}
