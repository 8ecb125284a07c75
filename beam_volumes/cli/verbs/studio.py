"""``beam-volumes studio``: edit a recipe in the browser, with live sections."""

from __future__ import annotations

import argparse
import threading

from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.verbs.view import browse
from beam_volumes.studio.serve import studio


def register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Edit a recipe in the browser: add functions, change parameters, and see sections of every step and "
        "the cost of the run at once. The page is served on the loopback interface of this machine until "
        "Ctrl-C; nothing is fetched from a network."
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="volumes, and a recipe (.yaml). Without a recipe, or if it does not exist yet, a new one is "
        "started; otherwise the volumes replace its inputs, in order",
    )
    parser.add_argument(
        "--print", action="store_true", help="print the link instead of opening a browser"
    )
    parser.add_argument(
        "--port", metavar="N", type=int, default=0, help="the port (default: a free one)"
    )
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory that a view or a run may use (default: a quarter of this machine's)",
    )
    parser.add_argument(
        "--folder",
        metavar="DIR",
        action="append",
        default=[],
        help="a folder that the recipe may read and write, in addition to the current one and the "
        "folders of the paths; may be repeated",
    )
    parser.epilog = "Needs pip install 'beam-volumes[studio]'."


def act(args: argparse.Namespace) -> None:
    page = studio(*args.paths, port=args.port, memory=args.memory, folders=args.folder)
    with page:
        print_result(page.url)
        if not args.print:
            browse(page.url)
        print_note("serving until Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print_note("")
