"""``beam-volumes worker-pool``: worker processes for a runner that looks for them at an address."""

from __future__ import annotations

import argparse
import signal
import sys
from typing import Any

from beam_volumes.cli.options import no_others, verb


def register(verbs: Any) -> None:
    parser = verb(verbs, "worker-pool", act)
    parser.epilog = (
        "Pipelines come here with --environment_type=EXTERNAL --environment_config=HOST:PORT. Whoever "
        "reaches the port can run code: keep it to this machine, or to a network that is yours."
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=int,
        default=50000,
        help="the port to listen at (default: 50000)",
    )
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="localhost",
        help="the address to listen at; 0.0.0.0 for all of this machine's (default: %(default)s)",
    )


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    from beam_volumes.drive.worker_pool import serving

    no_others(others, parser)

    def end(*_: Any) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    with serving(args.port, args.host) as port:
        print(f"workers for whoever asks at {args.host}:{port}", file=sys.stderr, flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            return
