"""``preview``, ``view`` and ``studio``: show volumes, recipes and tables in a picture or a browser."""

from __future__ import annotations

import argparse
import atexit
import html
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path

from beam_volumes.cli.messages import print_note, print_result, worded
from beam_volumes.cli.options import cropping, numbers, opened, opening, setting
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.recipes.build import Built, build
from beam_volumes.recipes.recipe import read_recipe
from beam_volumes.runs.journal import Journal, find_run
from beam_volumes.show.pages.table_page import is_table
from beam_volumes.show.preview import checked_path, preview
from beam_volumes.show.viewer.view import Viewer, free_name
from beam_volumes.storage.places import temporary
from beam_volumes.storage.sources.axes import UnclearSpace


def register_preview(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write a picture of three sections of a volume at low resolution, for which few chunks are read. "
        "The positions of the sections are printed."
    )
    parser.add_argument("path", metavar="PATH", help="a path, glob or URL, or a TensorStore spec")
    parser.add_argument(
        "out", metavar="OUT.png", nargs="?", help="the picture (default: preview-NAME.png here)"
    )
    parser.add_argument("--at", metavar="Z,Y,X", help="the voxel where the sections intersect")
    parser.add_argument(
        "--size", metavar="N", type=int, default=512, help="number of pixels of the longest section"
    )
    parser.add_argument(
        "--labels",
        action="store_true",
        default=None,
        help="show voxels as labels, each with its own colour",
    )
    opening(parser)


def act_preview(args: argparse.Namespace) -> None:
    at = None if args.at is None else [int(n) for n in numbers(args.at, "--at")]
    out = checked_path(args.out or f"preview-{stem(args.path)}.png")
    try:
        volume = opened(args.path, args)
    except UnclearSpace as error:
        if any(option.startswith("affine=") for option in args.option):
            raise
        print_note(f"beam-volumes: warning: {worded(str(error))}; shown as stored")
        args.option = [*args.option, "affine=drop"]
        volume = opened(args.path, args)
    found = preview(volume, at=at, size=args.size, labels=args.labels)
    found.save(out)
    print_note(found.caption)
    print_result(out)


def preview_outputs(built: Built) -> None:
    """Write a picture of each output volume of a recipe to the current folder, without a run."""
    for target, name in zip(built.targets, built.names, strict=True):
        volume = target.volume if isinstance(target, Target) else target
        if not isinstance(volume, Volume):
            print_note(f"{name}: numbers and tables need the run")
            continue
        out = f"preview-{stem(name or 'output')}.png"
        found = preview(volume)
        found.save(out)
        print_note(f"{name}: {found.caption}")
        print_result(out)


def stem(path: str) -> str:
    """Return the name of a place without its ending, for use in a file name.

    >>> stem("s3://bucket/em.ome.zarr/"), stem("slices/*.tif"), stem("cells[0]")
    ('em', 'slices', 'cells-0')
    """
    parts = [p for p in path.rstrip("/").split("/") if p and "*" not in p and "?" not in p]
    name = parts[-1] if parts else "volume"
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", os.path.basename(name).split(".")[0]).strip("-")
    return name or "volume"


#: A page that leads to an address.
_LEADS_TO = """\
<!DOCTYPE html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>beam-volumes</title><a href="{url}">open</a>
"""


def register_view(parser: argparse.ArgumentParser) -> None:
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


def act_view(args: argparse.Namespace) -> None:
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


def register_studio(parser: argparse.ArgumentParser) -> None:
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


def act_studio(args: argparse.Namespace) -> None:
    from beam_volumes.studio.serve import studio

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


VERBS = {
    "preview": (register_preview, act_preview),
    "view": (register_view, act_view),
    "studio": (register_studio, act_studio),
}
