"""HTML of volumes, plans and tables for notebooks. It computes nothing and reads little."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.plan import Plan
from beam_volumes.show.picture import picture, png_uri, windows_of
from beam_volumes.show.sections import sections

#: Size of a thumbnail in pixels, and bytes that may be read for each of its sections.
SIZE, MAX_BYTES = 128, 4 << 20


def html(item: Volume | Plan | Table) -> str:
    """Return a volume, a plan or a table as HTML."""
    if isinstance(item, Plan):
        return of_plan(item)
    return of_table(item) if isinstance(item, Table) else of_volume(item)


def facts(volume: Volume) -> dict[str, str]:
    """Return the properties of a volume as texts."""
    sizes = zip(volume.axes, volume.shape, strict=True)
    found = {
        "axes": ", ".join(f"{axis} {n:,}" for axis, n in sizes),
        "dtype": str(volume.dtype),
        "size": f"{format_bytes(volume.nbytes)} ({volume.size:,} voxels)",
    }
    if volume.chunks:
        found["chunks"] = " x ".join(map(str, volume.chunks))
    if volume.voxel_size:
        sizes_text = " x ".join(f"{v:g}" for v in volume.voxel_size)
        found["voxel"] = f"{sizes_text} {volume.unit or ''}".rstrip()
    if any(volume.origin):
        found["origin"] = ", ".join(f"{o:g}" for o in volume.origin)
    if volume.space.channels:
        names = volume.space.channels
        found["channels"] = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
    return found


def of_volume(volume: Volume) -> str:
    name = volume.nodes[0].name.removesuffix("[c=0]")
    stored = all(isinstance(n, SourceNode) for n in volume.nodes)
    rows = {"of" if stored else "computed by": name, **facts(volume)}
    return (
        '<div style="display:flex;gap:1em;align-items:flex-start">'
        f"{_thumbnail(volume)}{table_html(rows)}</div>"
    )


def _thumbnail(volume: Volume) -> str:
    """Return a picture of a local stored volume, else an empty text."""
    sources = [n.source for n in volume.nodes if isinstance(n, SourceNode)]
    if len(sources) < len(volume.nodes) or any(s.stored.reader.remote for s in sources):
        return ""
    try:
        found = sections(volume, max_size=SIZE, max_bytes=MAX_BYTES)
        windows, labels = windows_of(found, (0.5, 99.5))
        image = picture(found, SIZE, windows, labels)
    except Exception:  # show the properties in any case
        return ""
    return f'<img src="{png_uri(image)}" alt="three sections"/>' if found.sections else ""


def of_plan(plan: Plan) -> str:
    return (
        f"{plan.visualize()}<details><summary>in words</summary>"
        f"<pre>{escape(plan.explain(verbose=True))}</pre></details>"
    )


def of_table(table: Table) -> str:
    rows = {name: str(dtype) for name, dtype in table.columns.items()}
    head = f"lazy table <b>{escape(table.barrier.name)}</b>, {len(rows)} columns; compute gives its rows"
    return f"<div>{head}{table_html(rows)}</div>"


def table_html(rows: Mapping[str, Any]) -> str:
    """Return names and values as a table of two columns."""
    cells = (
        f'<tr><th style="text-align:left">{escape(name)}</th>'
        f'<td style="text-align:left">{escape(str(text))}</td></tr>'
        for name, text in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"
