"""``beam-volumes view``: show volumes, recipes and tables in Neuroglancer."""

from __future__ import annotations

import argparse
import atexit
import html
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from beam_volumes.cli.messages import print_note, print_result
from beam_volumes.cli.options import cropping, opened, opening, setting
from beam_volumes.cli.verbs.preview import stem
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.runs.journal import Journal, find_run
from beam_volumes.show.pages.table_page import is_table
from beam_volumes.show.viewer.view import Viewer, free_name
from beam_volumes.storage.places import temporary

#: A page that leads to an address.
_LEADS_TO = """\
<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>beam-volumes</title><a href="{url}">open</a>
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Show volumes, tables of regions and the results of recipes in Neuroglancer. They are served on the "
        "loopback interface of this machine until Ctrl-C; nothing is fetched from a network."
    )
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="+",
        help="a volume; a table (.parquet, .csv, .jsonl) with bbox or centroid; the .run folder of a run, "
        "for all its outputs; or a recipe (.yaml), with volumes computed on demand",
    )
    parser.add_argument(
        "--print", action="store_true", help="print the link instead of opening a browser"
    )
    parser.add_argument(
        "--port", metavar="N", type=int, default=0, help="the port (default: a free one)"
    )
    cropping(parser, "crop the inputs of recipes")
    setting(parser)
    opening(parser)
    parser.epilog = "Needs pip install 'beam-volumes[view]'."


def act(args: argparse.Namespace) -> None:
    with Viewer(items(args), args.port, progress=True) as viewer:
        for note in viewer.notes:
            print_note(note)
        print_result(viewer.url)
        if not args.print:
            browse(viewer.url)
        print_note("serving until Ctrl-C")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            print_note("")
        for failure in viewer.failed[:10]:
            print_note(failure)


def items(args: argparse.Namespace) -> dict[str, Volume | str]:
    """Open the paths; return volumes and table paths by layer name."""
    found: dict[str, Volume | str] = {}
    for path in paths_of(args.paths):
        if is_table(path):
            found[free_name(stem(path), found)] = path
        elif path.lower().endswith((".yaml", ".yml")):
            built = build(read_recipe(path, args.set), args.crop)
            for target, name in zip(built.targets, built.names, strict=True):
                volume = target.volume if isinstance(target, Target) else target
                if isinstance(volume, Volume):
                    found[free_name(name or "output", found)] = volume
        else:
            found[free_name(stem(path), found)] = opened(path, args)
    if not found:
        raise ValueError(f"{args.paths[0]}: the recipe has no volume among its outputs")
    return found


def paths_of(paths: Sequence[str]) -> list[str]:
    """Return the paths, with the folder of a run replaced by the run's outputs."""
    found: list[str] = []
    for path in paths:
        journal = None
        if path.rstrip("/").endswith(".run"):
            journal = find_run(path)
        manifest = None if journal is None else Journal.load(journal.spec)
        if manifest is None:
            found.append(path)
            continue
        written = []
        for output in manifest.outputs:
            if not output.get("internal") and not output.get("level"):
                # The name of a part, such as a channel, is the name of the whole and an index.
                whole = output["name"].rpartition("[")[0] if output.get("at") else output["name"]
                written.append(whole or output["name"])
        if not written:
            raise ValueError(f"{path}: the run has written no volume and no table")
        found += dict.fromkeys(written)
    return found


def browse(url: str) -> None:
    """Open a browser, if there is one."""
    # It is given a file that leads to the address. Other users of the machine see the arguments of its
    # process, and must not see the secret in the address.
    import webbrowser

    folder = temporary.make()
    atexit.register(temporary.remove, folder)
    with open(os.path.join(folder, "open.html"), "w", encoding="utf-8") as file:
        file.write(_LEADS_TO.format(url=html.escape(url)))
    try:
        webbrowser.open(Path(file.name).as_uri())
    except webbrowser.Error as error:
        print_note(f"no browser was opened: {error}")
