"""`report`: a self-contained HTML page about a volume, a table or a run."""

from __future__ import annotations

from typing import Any

from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume, of_source
from beam_volumes.runs.journal import Journal, find_run
from beam_volumes.show.pages.page import Page
from beam_volumes.show.pages.run_page import add_run
from beam_volumes.show.pages.table_page import add_table, is_table
from beam_volumes.show.pages.volume_page import add_provenance, add_volume
from beam_volumes.storage.outputs.sink import Sink

#: Maximal number of outputs of a run that are shown.
MAX_SHOWN = 6


def report(path: str, volume: Volume | None = None) -> str:
    """Return an HTML page about a volume, a table (``.parquet``, ``.csv``, ``.jsonl``) or a run.

    A run is given by an output, its ``.run`` folder or its journal; ``volume`` is one opened with options.
    """
    page = Page(path.rstrip("/").rpartition("/")[2] or path)
    page.words(path)
    journal = None if volume is not None else _run_of(path)
    if volume is None and (is_table(path) or journal is not None):
        if is_table(path):
            add_table(page, path, "The table")
        if journal is not None:
            _add_whole_run(page, journal, path)
        return page.html()
    volume = open_volume(path) if volume is None else volume
    add_volume(page, volume, "The volume")
    add_provenance(page, path)
    return page.html()


def _run_of(path: str) -> Journal | None:
    try:
        return find_run(path)
    except (FileNotFoundError, ValueError):
        return None


def _add_whole_run(page: Page, journal: Journal, path: str) -> None:
    """Add the outputs of a run, then its course."""
    manifest = Journal.load(journal.spec)
    assert manifest is not None
    # Only the volume of a pyramid is shown; it is read by its levels.
    outputs = [o for o in manifest.outputs if not o.get("internal") and not o.get("level")]
    for output in outputs[:MAX_SHOWN]:
        name = str(output.get("name"))
        heading = f"Output {name.rstrip('/').rpartition('/')[2]}"
        try:
            if "shape" in output:
                add_volume(page, _opened(output), heading)
            elif name.rstrip("/") != path.rstrip("/"):
                add_table(page, name, heading)
        except (OSError, ValueError) as error:
            page.words(f"It cannot be read: {' '.join(str(error).split())}")
    if len(outputs) > MAX_SHOWN:
        page.words(f"And {len(outputs) - MAX_SHOWN} more outputs.")
    add_run(page, journal)


def _opened(output: dict[str, Any]) -> Volume:
    """Open an output by its path, for its pyramid, or by its description in the run."""
    try:
        return open_volume(str(output["name"]))
    except (OSError, ValueError, TypeError):
        return of_source(Sink.from_dict(output).read_back())
