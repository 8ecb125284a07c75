"""``beam-volumes report``: a page about a run, a volume or a table, that needs no other file."""

from __future__ import annotations

import argparse
import os
from typing import Any

from beam_volumes.cli.options import no_others, opened, opening, spacing, verb
from beam_volumes.cli.preview import stem
from beam_volumes.cli.say import say
from beam_volumes.show.pages.report import report


def register(verbs: Any) -> None:
    parser = verb(verbs, "report", act)
    parser.description = (
        "Write a page (HTML) about a run, a volume or a table, which needs no other file: sections with "
        "sliders, a histogram, sizes, the plan as a picture, time and memory beside what was predicted, and "
        "a table's columns."
    )
    parser.add_argument(
        "path", metavar="PATH", help="an output of a run, its .run folder, a volume or a table"
    )
    parser.add_argument(
        "out", metavar="OUT.html", nargs="?", help="the page (default: report-NAME.html here)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a page that exists")
    opening(parser)
    spacing(parser)


def act(parser: argparse.ArgumentParser, args: argparse.Namespace, others: list[str]) -> None:
    no_others(others, parser)
    out = args.out or f"report-{stem(args.path)}.html"
    if not out.lower().endswith((".html", ".htm")):
        raise ValueError(f"{out}: a report is HTML; give a path that ends in .html")
    if os.path.exists(out) and not args.overwrite:
        raise ValueError(f"{out} exists: give another path, or --overwrite")
    said = (args.dataset, args.level, args.index, args.voxel_size, args.unit, args.origin)
    special = any(s is not None for s in said) or bool(args.option)
    html = report(args.path, opened(args.path, args) if special else None)
    with open(out, "w", encoding="utf-8") as file:
        file.write(html)
    say(out)
