"""``beam-volumes expansion-service``: the transforms for pipelines in Java, Go and Beam YAML."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from beam_volumes.cli.options import beam_options, no_others, verb


def register(verbs: Any) -> None:
    parser = verb(verbs, "expansion-service", act)
    parser.epilog = (
        "Workers are started here, too, unless Beam's --environment_type says who runs the steps. Whoever "
        "reaches the port can have files read and written: keep it to this machine, or to a network that is "
        "yours."
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=int,
        default=8097,
        help="the port to listen at (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="localhost",
        help="the address to listen at; 0.0.0.0 for all of this machine's (default: %(default)s)",
    )
    parser.add_argument(
        "--list", action="store_true", help="print the transforms and their fields, and end"
    )


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    from beam_volumes.expansion.catalogue import listed

    if args.list:
        no_others(others, parser)
        print("\n".join(listed()))
        return
    options = beam_options(others, parser, "portable")
    from beam_volumes.expansion.service import serving

    def end(*_: Any) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    with serving(args.port, args.host, options) as (port, workers):
        what = "transforms and workers" if workers else "transforms"
        print(f"{what} for whoever asks at {args.host}:{port}", file=sys.stderr, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return
