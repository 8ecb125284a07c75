"""``check``, ``probe`` and ``estimate``: check a recipe, measure a network, and estimate time and cost."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import beam_volumes as bv
from beam_volumes.base.text import counted, format_bytes
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import budgeting, cropping, extents, numbers, recipe_arguments
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.accelerators import GIB, SYSTEM
from beam_volumes.plan.estimating import Machine, estimate
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import build, expressions, missing_tables
from beam_volumes.recipes.recipe import Recipe, read_recipe
from beam_volumes.recipes.registration import planned_registrations


def register_check(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Reads only metadata. Exit code 0: the recipe can be run. 2: it cannot, and the reason is printed "
        "with its line."
    )
    recipe_arguments(parser)
    parser.add_argument(
        "--words-only",
        action="store_true",
        help="check only names, operations and parameter names; the inputs are not opened and need not exist",
    )


def act_check(args: argparse.Namespace) -> None:
    recipe = read_recipe(args.recipe, args.set)
    if not args.words_only:
        build(recipe)
        for line in given(recipe):
            print_result(line)
    parts = (
        counted(len(recipe.inputs), "input"),
        counted(len(recipe.steps), "step"),
        counted(len(recipe.outputs), "output"),
    )
    print_result(f"{args.recipe}: {', '.join(parts)}; nothing is wrong")


def given(recipe: Recipe) -> Iterator[str]:
    """Describe inputs and steps in order of execution, one line each."""
    for name, item in expressions(recipe).items():
        yield f"{name}: {_what(item)}"


def _what(item: Any) -> str:
    if isinstance(item, tuple):
        return f"{len(item)} times {_what(item[0])}"
    if isinstance(item, Volume):
        shape = " x ".join(map(str, item.shape))
        return f"{shape} ({', '.join(item.axes)}) {item.dtype}, {format_bytes(item.nbytes)}"
    return "a table" if isinstance(item, Table) else f"a number, {item.dtype}"


def register_probe(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the path or URL of an ONNX file")
    parser.add_argument(
        "--patch",
        metavar="Z,Y,X",
        default="64",
        help="size of the test input in voxels, more than twice the receptive radius (default: 64)",
    )
    parser.add_argument("--channels", metavar="N", type=int, help="number of input channels")
    parser.epilog = "Copy the printed values into a step `op: predict` of a recipe."


def act_probe(args: argparse.Namespace) -> None:
    patch = [int(n) for n in numbers(args.patch, "--patch")]
    found = bv.probe_model(
        args.model, patch[0] if len(patch) == 1 else patch, channels=args.channels
    )
    print_result(f"context: {[list(pair) for pair in found.context]}")
    print_result(f"stride: {list(found.stride)}")
    print_result(
        f"# it depends on {' '.join(f'{b}+{a}' for b, a in found.reach)} voxels around each"
    )
    print_result(
        f"# it makes {found.channels} channels, a voxel of {' x '.join(map(str, found.scale))}"
    )


def register_estimate(parser: argparse.ArgumentParser) -> None:
    recipe_arguments(parser)
    cropping(parser, "estimate only this part of the inputs")
    budgeting(parser)
    parser.add_argument(
        "--machine-type",
        metavar="CPUSxMEMORY",
        required=True,
        help="vCPUs and memory such as 16x64GiB, optionally with the I/O in bytes per second as in "
        "16x64GiBx2GiB; or a name such as n2-standard-16",
    )
    parser.add_argument(
        "--store",
        metavar="NAME",
        help="s3, gcs or disk, optionally with numbers such as s3,prefixes=10,latency=0.05 (default: "
        "from the paths)",
    )
    parser.add_argument("--slab", metavar="Z,Y,X", help="the shape of slabs")
    prices = {
        "vcpu-hour": "of one vCPU an hour",
        "gib-hour": "of one GiB of memory an hour",
        "shuffle-gib": "of one GiB shuffled",
        "request": "of one request to the store",
    }
    for name, what in prices.items():
        parser.add_argument(
            f"--{name}",
            metavar="PRICE",
            type=float,
            help=f"your price {what}, instead of a list price",
        )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")


def act_estimate(args: argparse.Namespace) -> None:
    machine = Machine.of(args.machine_type)
    recipe = read_recipe(args.recipe, args.set)
    if args.memory is None and machine.gib * GIB <= SYSTEM:
        raise ValueError(
            f"--machine-type {args.machine_type} has {machine.gib:g} GiB of memory, and its "
            "system needs 1 GiB; choose a larger machine"
        )
    options = RunOptions(
        memory=args.memory or int(machine.gib * GIB) - SYSTEM,
        workers=args.workers,
        machines=args.machines,
        threads=machine.vcpus,
        slab=extents(args.slab, "--slab"),
    ).or_else(**recipe.options)
    registrations = planned_registrations(
        recipe, options.memory_bytes, args.crop, cores=machine.vcpus
    )
    rows = {"registrations": [asdict(one) for one in registrations]} if registrations else {}
    if not args.json:
        for one in registrations:
            print_result(str(one))
    if registrations and (missing := missing_tables(recipe)):
        note = f"the steps are estimated when {', '.join(missing)} exists"
        print_result(json.dumps({**rows, "note": note}, indent=2) if args.json else note)
        return
    found = estimate(
        make_plan(build(recipe, args.crop).targets, options), machine, store=args.store
    )
    prices = {
        name: getattr(args, name)
        for name in ("vcpu_hour", "gib_hour", "shuffle_gib", "request")
        if getattr(args, name) is not None
    }
    if args.json:
        cost = {"cost": found.cost(**prices)} if prices else {}
        print_result(json.dumps({**found.to_dict(), **rows, **cost}, indent=2))
        return
    print_result(str(found))
    if prices:
        print_result(f"at these prices: {found.cost(**prices):,.2f}")


VERBS = {
    "check": (register_check, act_check),
    "probe": (register_probe, act_probe),
    "estimate": (register_estimate, act_estimate),
}
