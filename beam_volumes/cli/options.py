"""Arguments shared by several verbs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from beam_volumes.base.text import nearest, parsed_json
from beam_volumes.cli import completing
from beam_volumes.cli.messages import plain_text
from beam_volumes.drive.runner_names import UnknownOption, check_arguments
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.run_options import (
    AUTO,
    BEGINNING,
    PLANNING,
    RUNNING,
    USER_OPTIONS,
    RunOptions,
)
from beam_volumes.recipes.document import parse_value


def budgeting(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of verbs that make a plan."""
    _run_arguments(parser, PLANNING)


def _run_arguments(parser: argparse.ArgumentParser, where: str) -> None:
    """Add an argument for each run option of this kind."""
    for name, option in USER_OPTIONS.items():
        if option.metadata["where"] == where:
            kind: dict[str, Any] = {"metavar": option.metadata["metavar"]}
            if option.type == "bool":
                kind = {"action": "store_true"}
            elif str(option.type).removesuffix(" | None") == "int":
                kind |= {"type": int, "default": option.default}
            parser.add_argument(f"--{name.replace('_', '-')}", help=option_help(name), **kind)


def option_help(name: str) -> str:
    """Return the help of a run option: its docstring entry without markup.

    >>> option_help("overwrite")
    'replace existing outputs; otherwise they raise an error'
    """
    option = USER_OPTIONS[name]
    text = " ".join(option.metadata["text"].split("\n", 1)[1].split())
    text = plain_text(text).removeprefix("Whether to ").removesuffix(".")
    default = "" if option.default in (None, False) else f" (default: {option.default})"
    return f"{text[0].lower()}{text[1:]}{default}"


def cropping(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the argument that crops the inputs."""
    parser.add_argument(
        "--crop", metavar="Z0:Z1,Y0:Y1,X0:X1", help=f"{help}; empty parts keep the whole axis"
    )


def running(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of verbs that compute."""
    parser.set_defaults(others_to_beam=True)
    budgeting(parser)
    parser.add_argument(
        "--runner",
        metavar="NAME",
        default=AUTO,
        help="a Beam runner, or none to run in this process without Beam (default: none, or FnApiRunner "
        "for runs that may use more than half of the free memory)",
    )
    _run_arguments(parser, RUNNING)


def recipe_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that specify a recipe and change it."""
    parser.add_argument("recipe", metavar="RECIPE.yaml", help="a path, or a URL in a bucket")
    setting(parser)


def setting(parser: argparse.ArgumentParser) -> None:
    """Add the argument that changes a recipe."""
    change = parser.add_argument(
        "--set",
        metavar="PLACE=VALUE",
        action="append",
        default=[],
        help="change a value of the recipe: input=PATH, steps.smooth.sigma=2, outputs.0.path=PATH, or "
        "NAME=VALUE for a variable; may be repeated",
    )
    change.completer = completing.places  # type: ignore[attr-defined]


def levelling(parser: argparse.ArgumentParser, default: str | None = None) -> None:
    """Add the arguments of a pyramid."""
    usual = "" if default is None else f" (default: {default})"
    parser.add_argument(
        "--levels",
        metavar="N",
        default=default,
        help=f"number of pyramid levels to store, or auto (OME-Zarr, precomputed){usual}",
    )
    parser.add_argument(
        "--method", help="how to downsample: mean, mode, nearest, max, min or median"
    )
    parser.add_argument(
        "--factors",
        metavar="Z,Y,X",
        help="downsampling factor: one number, one per axis, or several of these separated by ; for the "
        "levels after the first",
    )


def levels_asked(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `levelling` as options of `Volume.to`."""
    text = args.levels
    levels = int(text) if text is not None and text.isdigit() else text
    return {"levels": levels, "method": args.method, "factors": factors(args.factors)}


def factors(text: str | None) -> Any:
    """Parse downsampling factors.

    >>> factors("2"), factors("1,2,2"), factors("1,2,2; 2")
    (2, [1, 2, 2], [[1, 2, 2], 2])
    """
    if text is None:
        return None
    each = [extents(part, "--factors") or [] for part in text.split(";")]
    found = [part[0] if len(part) == 1 else part for part in each]
    return found[0] if len(found) == 1 else found


#: The value of ``dry_run`` for a plan with a census.
CENSUS = "census"


def computing(parser: argparse.ArgumentParser, crops: bool = True) -> None:
    """Add the arguments of verbs that write outputs."""
    parser.epilog = "Other options are passed to Beam as pipeline options."
    running(parser)
    _run_arguments(parser, BEGINNING)
    if crops:
        cropping(parser, "crop every input first, e.g. for a test")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the complete plan and write nothing"
    )
    parser.add_argument(
        "--census",
        action="store_const",
        const=CENSUS,
        dest="dry_run",
        help="like --dry-run, and also estimate the number of components and rows of tables from a part of "
        "the inputs",
    )
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")


def run_options(args: argparse.Namespace) -> RunOptions:
    """Return the run options from the arguments of `computing` or `running`."""
    runner = None if args.runner.lower() == "none" else args.runner
    return RunOptions.of(
        vars(args),
        runner=runner,
        beam_options=beam_options(args, runner) or None,
        slab=extents(vars(args).get("slab"), "--slab"),
        progress=not vars(args).get("quiet", False),
    )


def opening(parser: argparse.ArgumentParser, spacing: bool = True) -> None:
    """Add the arguments of verbs that open one volume; with ``spacing`` also its voxel size."""
    parser.add_argument("--dataset", metavar="NAME", help="the array in a group or file")
    parser.add_argument("--level", metavar="N", type=int, help="the pyramid level to read")
    parser.add_argument(
        "--mpp",
        metavar="SIZE",
        type=float,
        help="instead of --level: choose the coarsest level with pixels of at most SIZE micrometres",
    )
    parser.add_argument(
        "--axes",
        metavar="tyx",
        help="the axes, if the file does not specify them or is wrong",
    )
    parser.add_argument("--index", metavar="t=0,c=DAPI", help="the time point and channel to read")
    parser.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a format-specific option of bv.open; may be repeated",
    )
    if not spacing:
        return
    parser.add_argument(
        "--voxel-size", metavar="Z,Y,X", help="voxel size, instead of the stored one"
    )
    parser.add_argument("--unit", metavar="UNIT", help="unit of the voxel size, such as nm")
    parser.add_argument(
        "--origin",
        metavar="Z,Y,X",
        help="position of the first voxel, instead of the stored one",
    )


def opened(path: str, args: argparse.Namespace) -> Volume:
    """Open the volume at a path with the arguments of `opening`."""
    size = numbers(args.voxel_size, "--voxel-size") if args.voxel_size else None
    origin = numbers(args.origin, "--origin") if args.origin else None
    return open_volume(
        parsed_json(path) if path.startswith("{") else path,
        axes=args.axes,
        index=parse_index(args.index),
        dataset=args.dataset,
        level=args.level,
        mpp=args.mpp,
        voxel_size=size[0] if size is not None and len(size) == 1 else size,
        unit=args.unit,
        origin=origin[0] if origin is not None and len(origin) == 1 else origin,
        **parse_options(args.option),
    )


def parse_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """Parse options of the form ``NAME=VALUE`` to keywords.

    >>> parse_options(["shape=[4, 5, 6]", "dtype=u1"])
    {'shape': [4, 5, 6], 'dtype': 'u1'}
    """
    found = {}
    for text in texts:
        name, equals, value = (s.strip() for s in text.partition("="))
        if not (name and equals and value):
            raise ValueError(f"{option} {text}: write it as NAME=VALUE")
        found[name] = parse_value(value, option).plain()
    return found


def parse_index(text: str | None) -> dict[str, int | str] | None:
    """Parse an index such as ``t=0,c=DAPI`` to a mapping.

    >>> parse_index("t=0,c=DAPI")
    {'t': 0, 'c': 'DAPI'}
    """
    if text is None:
        return None
    found = {}
    for part in text.split(","):
        axis, equals, value = (s.strip() for s in part.partition("="))
        if not (axis and equals and value):
            raise ValueError(f"--index {text}: write it as t=0,c=DAPI")
        found[axis] = parse_value(value, "--index").value
    return found


def number(text: str, option: str) -> int | float:
    """Parse a number.

    >>> number("1e-3", "--threshold")
    0.001
    """
    found = parse_value(text, option).value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{option} {text} is not a number")
    return found


def numbers(text: str, option: str) -> list[int | float]:
    """Parse numbers separated by commas.

    >>> numbers("40, 4, 4", "--voxel-size")
    [40, 4, 4]
    """
    return [number(part.strip(), option) for part in text.split(",")]


def extents(text: str | None, option: str) -> list[int] | None:
    """Parse a shape, or return None if there is none.

    >>> extents("64,512,512", "--slab")
    [64, 512, 512]
    """
    if text is None:
        return None
    found = numbers(text, option)
    if any(not isinstance(n, int) or n < 1 for n in found):
        raise ValueError(
            f"{option} {text} is not valid; give whole numbers of at least 1, e.g. 64,512,512"
        )
    return [int(n) for n in found]


def no_others(args: argparse.Namespace) -> None:
    """Raise ValueError for arguments that the verb does not have."""
    if args.others:
        name = args.others[0].partition("=")[0]
        raise ValueError(f"unknown argument {name}{_meant(name, args.parser)}")


def _meant(name: str, parser: argparse.ArgumentParser) -> str:
    """Suggest the intended argument; the output may be a positional one."""
    words = [a for a in parser._actions if not a.option_strings]
    if name in ("-o", "--out", "--output") and any(a.dest == "out" for a in words):
        usage = " ".join(str(a.metavar or a.dest) for a in words)
        return f"; the output is a word of its own: {parser.prog} {usage}"
    options = [o for a in parser._actions for o in a.option_strings if o.startswith("--")]
    return nearest(name, options)


def beam_options(args: argparse.Namespace, runner: str | None) -> list[str]:
    """Return the arguments for Beam: all arguments unknown to the verb but known to Beam."""
    # Some runners have a job server with options of its own. For these runners unknown arguments are passed
    # on, too, unless they look like a misspelt known one.
    others: list[str] = args.others
    if not others:
        return []
    if not others[0].startswith("--"):
        no_others(args)
    try:
        check_arguments(others, runner, lambda name: _meant(name, args.parser))
    except UnknownOption as error:
        ours = "neither this command nor Beam has it"
        raise ValueError(f"unknown argument {error.name}{error.hint or f'; {ours}'}") from None
    return others
