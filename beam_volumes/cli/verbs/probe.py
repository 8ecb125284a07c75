"""``beam-volumes probe``: how far a network sees."""

from __future__ import annotations

import argparse

import beam_volumes as bv
from beam_volumes.cli.messages import print_result
from beam_volumes.cli.options import numbers


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="the path or URL of an ONNX file")
    parser.add_argument(
        "--patch",
        metavar="Z,Y,X",
        default="64",
        help="voxels of its input, more than twice its reach to each side (default: 64)",
    )
    parser.add_argument("--channels", metavar="N", type=int, help="channels that it takes")
    parser.epilog = "What is printed can stand in a recipe's step `op: predict`."


def act(args: argparse.Namespace) -> None:
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
