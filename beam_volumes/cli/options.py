"""Arguments that verbs share."""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from beam_volumes.graph.volume import Volume
from beam_volumes.graph.volume import open as open_volume
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.document import nearest, parse_value


def verb(verbs: Any, name: str, act: Any, summary: str) -> argparse.ArgumentParser:
    """A verb's parser; ``act(parser, args, others)`` does the work."""
    found = verbs.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--debug", action="store_true", help="show where an error comes from")
    found.set_defaults(act=partial(act, found))
    return found


def budgeting(parser: argparse.ArgumentParser) -> None:
    """The arguments that say what may be used."""
    parser.add_argument(
        "--memory", metavar="SIZE", help="memory that the run may use on this machine, e.g. 2GiB"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, help="how many slabs are in flight at a time"
    )


def cropping(parser: argparse.ArgumentParser, help: str) -> None:
    """The argument that takes a part of the inputs."""
    parser.add_argument("--crop", metavar="Z0:Z1,Y0:Y1,X0:X1", help=f"{help}; parts may be empty")


def running(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that compute."""
    budgeting(parser)
    parser.add_argument(
        "--runner",
        metavar="NAME",
        default="FnApiRunner",
        help="a Beam runner, or none for this process without Beam (default: %(default)s)",
    )


def setting(parser: argparse.ArgumentParser) -> None:
    """The argument that changes a recipe."""
    parser.add_argument(
        "--set",
        metavar="PLACE=VALUE",
        action="append",
        default=[],
        help="change the recipe: input=PATH, steps.smooth.sigma=2, outputs.0.path=PATH or a variable's "
        "name=VALUE; may be repeated",
    )


def computing(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that write outputs: `running`, and how."""
    parser.epilog = "Options that are not listed go to Beam as pipeline options."
    running(parser)
    parser.add_argument(
        "--slab", metavar="Z,Y,X", help="the shape of slabs, instead of the plan's choice"
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=int,
        help="threads that compute a slab; give the cores of a worker if it is another machine",
    )
    cropping(parser, "crop every input first, for a trial")
    parser.add_argument("--resume", action="store_true", help="continue a run that was stopped")
    parser.add_argument("--overwrite", action="store_true", help="replace outputs that exist")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the whole plan and write nothing"
    )
    parser.add_argument("--quiet", action="store_true", help="print results and errors only")


def run_options(
    args: argparse.Namespace, others: list[str], parser: argparse.ArgumentParser
) -> RunOptions:
    """What the arguments of `computing`, or of some of it, ask of a run."""
    runner = None if args.runner.lower() == "none" else args.runner
    said = vars(args)
    return RunOptions(
        memory=args.memory,
        workers=args.workers,
        runner=runner,
        beam_options=beam_options(others, parser, runner) or None,
        slab=extents(said.get("slab"), "--slab"),
        threads=said.get("threads"),
        resume=said.get("resume", False),
        overwrite=said.get("overwrite", False),
        progress=not said.get("quiet", False),
    )


def opening(parser: argparse.ArgumentParser) -> None:
    """The arguments of verbs that open one volume."""
    parser.add_argument("--dataset", metavar="NAME", help="the array inside a zarr group")
    parser.add_argument("--level", metavar="N", type=int, help="the level of an OME-Zarr pyramid")
    parser.add_argument("--index", metavar="t=0,c=DAPI", help="the time point and channel to take")


def spacing(parser: argparse.ArgumentParser) -> None:
    """The arguments that say the size of voxels."""
    parser.add_argument(
        "--voxel-size", metavar="Z,Y,X", help="size of a voxel, instead of what the metadata say"
    )
    parser.add_argument("--unit", metavar="UNIT", help="unit of the voxel size, e.g. nm")


def opened(path: str, args: argparse.Namespace) -> Volume:
    """The volume that a path and the arguments of `opening` and `spacing` mean."""
    size = numbers(args.voxel_size, "--voxel-size") if args.voxel_size else None
    return open_volume(
        json.loads(path) if path.startswith("{") else path,
        index=parse_index(args.index),
        dataset=args.dataset,
        level=args.level,
        voxel_size=size[0] if size is not None and len(size) == 1 else size,
        unit=args.unit,
    )


def parse_index(text: str | None) -> dict[str, int | str] | None:
    """``t=0,c=DAPI`` as a mapping.

    Examples
    --------
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
    """A number from the command line.

    Examples
    --------
    >>> number("1e-3", "--threshold")
    0.001
    """
    found = parse_value(text, option).value
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{option} {text}: not a number")
    return found


def numbers(text: str, option: str) -> list[int | float]:
    """Numbers with commas between them.

    Examples
    --------
    >>> numbers("40, 4, 4", "--voxel-size")
    [40, 4, 4]
    """
    return [number(part.strip(), option) for part in text.split(",")]


def extents(text: str | None, option: str) -> list[int] | None:
    """A shape from the command line, if there is one.

    Examples
    --------
    >>> extents("64,512,512", "--slab")
    [64, 512, 512]
    """
    if text is None:
        return None
    found = numbers(text, option)
    if any(not isinstance(n, int) or n < 1 for n in found):
        raise ValueError(f"{option} {text}: whole numbers from 1 on, e.g. 64,512,512")
    return [int(n) for n in found]


def no_others(others: list[str], parser: argparse.ArgumentParser) -> None:
    """Refuse arguments that nobody knows."""
    if others:
        name = others[0].partition("=")[0]
        raise ValueError(f"unknown argument {name}{nearest(name, names(parser))}")


def names(parser: argparse.ArgumentParser) -> list[str]:
    """A parser's option names."""
    return [o for a in parser._actions for o in a.option_strings if o.startswith("--")]


def beam_options(
    others: list[str], parser: argparse.ArgumentParser, runner: str | None
) -> list[str]:
    """Arguments for Beam: all that are not ours, unless one looks like one of ours misspelt.

    Raises
    ------
    ValueError
        There is nobody to take the argument.
    """
    if not others:
        return []
    if not others[0].startswith("--") or runner is None:
        no_others(others, parser)
    known = _known_to_beam()
    for other in others:
        name = other.partition("=")[0]
        hint = nearest(name, names(parser))
        if name.startswith("--") and name not in known and hint.startswith("; did you mean"):
            raise ValueError(f"unknown option {name}{hint}")
    return others


def _known_to_beam() -> set[str]:
    from apache_beam.options.pipeline_options import PipelineOptions

    parser = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
    for kind in PipelineOptions.__subclasses__():
        if hasattr(kind, "_add_argparse_args"):
            kind._add_argparse_args(parser)  # type: ignore[arg-type]
    return set(names(parser))
