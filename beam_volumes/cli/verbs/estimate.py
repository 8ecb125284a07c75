"""``beam-volumes estimate``: time and cost of a recipe on a type of machine."""

from __future__ import annotations

import argparse
import json

from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import budgeting, cropping, extents, recipe_arguments
from beam_volumes.plan.estimate.accelerators import GIB, SYSTEM
from beam_volumes.plan.estimate.estimating import Machine, estimate
from beam_volumes.plan.planner import make_plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import read_recipe


def register(parser: argparse.ArgumentParser) -> None:
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


def act(args: argparse.Namespace) -> None:
    machine = Machine.of(args.machine_type)
    recipe = read_recipe(args.recipe, args.set)
    if args.memory is None and machine.gib * GIB <= SYSTEM:
        raise ValueError(
            f"--machine-type {args.machine_type} has {machine.gib:g} GiB of memory, of which its "
            "system needs 1 GiB; choose a larger machine"
        )
    options = RunOptions(
        memory=args.memory or int(machine.gib * GIB) - SYSTEM,
        workers=args.workers,
        machines=args.machines,
        threads=machine.vcpus,
        slab=extents(args.slab, "--slab"),
    ).or_else(**recipe.options)
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
        print_result(json.dumps({**found.to_dict(), **cost}, indent=2))
        return
    print_result(str(found))
    if prices:
        print_result(f"at these prices: {found.cost(**prices):,.2f}")
