"""The verbs ``worker-pool`` and ``expansion-service``: servers that run until stopped."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.options import beam_options, no_others


def register_worker_pool(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Pipelines connect with --environment_type=EXTERNAL --environment_config=HOST:PORT. Every client "
        "that reaches the port can run code: restrict it to this machine or a private network."
    )
    _listening(parser, 50000)


def act_worker_pool(args: argparse.Namespace) -> None:
    from beam_volumes.drive.worker_pool import serving

    signal.signal(signal.SIGTERM, _exit)
    with serving(args.port, args.host) as port:
        _serve_until_stopped(f"workers are started on request at {args.host}:{port}")


def register_expansion_service(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Workers are started here, too, unless Beam's --environment_type selects another environment. Every "
        "client that reaches the port can read and write files: restrict it to this machine or a private "
        "network."
    )
    parser.set_defaults(others_to_beam=True)
    _listening(parser, 8097)
    parser.add_argument(
        "--list", action="store_true", help="print the transforms and their fields and exit"
    )


def act_expansion_service(args: argparse.Namespace) -> None:
    if args.list:
        from beam_volumes.expansion.catalogue import listed

        no_others(args)
        print_result("\n".join(listed()))
        return
    options = beam_options(args, "portable")
    from beam_volumes.expansion.service import serving

    signal.signal(signal.SIGTERM, _exit)
    with serving(args.port, args.host, options) as (port, workers):
        what = "transforms and workers" if workers else "transforms"
        _serve_until_stopped(f"{what} are served at {args.host}:{port}")


def _listening(parser: argparse.ArgumentParser, port: int) -> None:
    """Add the arguments for the address of a server."""
    parser.add_argument(
        "--port",
        metavar="N",
        type=int,
        default=port,
        help="the port to listen on (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="localhost",
        help="the address to listen on; 0.0.0.0 for all interfaces (default: %(default)s)",
    )


def _exit(*_: Any) -> None:
    sys.exit(0)


def _serve_until_stopped(note: str) -> None:
    print_note(note)
    try:
        signal.pause()
    except KeyboardInterrupt:
        return


VERBS = {
    "worker-pool": (register_worker_pool, act_worker_pool),
    "expansion-service": (register_expansion_service, act_expansion_service),
}
