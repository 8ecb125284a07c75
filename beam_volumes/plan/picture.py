"""Draw a plan: passes from top to bottom, each with its sources, stages and outputs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beam_volumes.base.drawing import (
    DONE,
    EMPTY,
    INK,
    LINE,
    NEXT,
    NOW,
    PAPER,
    SOFT,
    STORED,
    Drawing,
    shortened,
)
from beam_volumes.base.text import counted, format_bytes

#: Steps of a pass, and passes, that are drawn at most.
MAX_STEPS, MAX_PASSES = 40, 30
_W, _H, _GAP_X, _GAP_Y, _HEAD, _EDGE = 172, 26, 34, 8, 44, 14
_FILLS = {
    "source": STORED,
    "stage": PAPER,
    "number": NEXT,
    "survey": NEXT,
    "write": DONE,
    "store": NOW,
}

Document = Mapping[str, Any]


def plan_svg(document: Document, internal: Collection[str] = ()) -> str:
    """Draw a plan as SVG.

    ``document``: from `Plan.to_dict`.
    ``internal``: names of the outputs that are stored between passes.
    """
    passes: Sequence[Document] = document["passes"]
    drawn = [_laid_out(p) for p in passes[:MAX_PASSES]]
    width = max([600.0, *(w for _, w, _ in drawn)]) + 2 * _EDGE
    height = _EDGE + 40 + sum(h + _EDGE for _, _, h in drawn) + 20
    d = Drawing(width, height, "A plan: what each pass reads, computes and writes")
    d.box(0, 0, width, height, PAPER, PAPER)
    d.text(
        _EDGE,
        24,
        f"{counted(len(passes), 'pass')}, {counted(document['workers'], 'slab')} in flight; memory "
        f"{format_bytes(document['predicted_memory'])} of {format_bytes(document['memory'])}; reads "
        f"{format_bytes(document['bytes_read'])} ({document['read_amplification']:.2f}x), writes "
        f"{format_bytes(document['bytes_written'])}",
        13,
        bold=True,
    )
    y = 40.0
    for number, (p, (items, _, h)) in enumerate(zip(passes, drawn, strict=False), 1):
        _pass(d, number, p, items, y, width - 2 * _EDGE, h, internal)
        y += h + _EDGE
    if len(passes) > len(drawn):
        d.text(_EDGE, y + 12, f"and {len(passes) - len(drawn)} more passes", 12, SOFT)
    else:
        _key(d, y + 4)
    return d.svg()


def _laid_out(p: Document) -> tuple[list[tuple[Document, int, int]], float, float]:
    """The boxes of a pass, each with its column and row; the width and height of all of them."""
    items = _items(p)
    columns: list[int] = []
    for item in items:
        columns.append(1 + max((columns[k] for k in item["of"]), default=-1))
    rows: dict[int, int] = {}
    placed = []
    for item, column in zip(items, columns, strict=True):
        placed.append((item, column, rows.get(column, 0)))
        rows[column] = rows.get(column, 0) + 1
    width = 2 * _EDGE + (max(columns, default=0) + 1) * (_W + _GAP_X)
    height = _HEAD + max(rows.values(), default=1) * (_H + _GAP_Y) + 6
    return placed, width, height


def _items(p: Document) -> list[Document]:
    """The boxes of a pass; for long chains only the beginning and the end."""
    items = list(p.get("graph", ()))
    if not items:  # time points, and plans of older versions
        flat = [("source", n) for n in p["sources"]] + [("stage", n) for n in p["stages"]]
        flat += [("number", n) for n in p["folds"]] + [("survey", n) for n in p["surveys"]]
        flat += [("write", n) for n in p["outputs"]]
        items = [
            {"kind": kind, "name": name, "of": [k - 1] if k else []}
            for k, (kind, name) in enumerate(flat)
        ]
    if len(items) <= MAX_STEPS:
        return items
    first, last = MAX_STEPS // 2, len(items) - MAX_STEPS // 2
    between = {"kind": "stage", "name": f"… {last - first} more steps", "of": [first - 1]}

    def moved(k: int) -> int:
        return k if k < first else first if k < last else k - last + first + 1

    shown = [{**i, "of": sorted({moved(k) for k in i["of"]})} for i in items[last:]]
    return [*items[:first], between, *shown]


def _pass(
    d: Drawing,
    number: int,
    p: Document,
    items: Sequence[tuple[Document, int, int]],
    top: float,
    width: float,
    height: float,
    internal: Collection[str],
) -> None:
    d.box(_EDGE, top, width, height, EMPTY)
    # A slab of whole write units may reach beyond the volume.
    inside = [min(n, max(1, m)) for n, m in zip(p["slab"], p["shape"], strict=True)]
    shape, slab = (" x ".join(map(str, extents)) for extents in (p["shape"], inside))
    d.text(
        _EDGE + 10,
        top + 20,
        f"pass {number}: {shape} in {counted(p['slabs'], 'slab')} of {slab}",
        13,
        bold=True,
    )
    d.text(
        _EDGE + 10,
        top + 36,
        f"reads {format_bytes(p['bytes_read'])} ({p['read_amplification']:.2f}x), writes "
        f"{format_bytes(p['bytes_written'])}, a slab takes {format_bytes(p['slab_memory'])}, windows of "
        f"{counted(p['window'], 'slice')}",
        11,
        SOFT,
    )
    at = []
    for item, column, row in items:
        x = 2 * _EDGE + column * (_W + _GAP_X)
        y = top + _HEAD + row * (_H + _GAP_Y)
        at.append((x, y))
        kind = item["kind"]
        if kind == "write" and item["name"] in internal:
            kind = "store"
        words = "kept for this run" if kind == "store" else item["name"]
        d.box(x, y, _W, _H, _FILLS[kind], tooltip=item["name"])
        d.text(x + _W / 2, y + 17, shortened(words, 22), 12, INK, "middle")
        for k in item["of"]:
            x0, y0 = at[k]
            d.curve(x0 + _W, y0 + _H / 2, x, y + _H / 2, LINE)


def _key(d: Drawing, y: float) -> None:
    words = {
        "source": "read",
        "stage": "computed",
        "number": "numbers, summaries",
        "store": "kept for a later pass",
        "write": "written",
    }
    x = float(_EDGE)
    for kind, text in words.items():
        d.box(x, y, 12, 12, _FILLS[kind])
        d.text(x + 17, y + 11, text, 11, SOFT)
        x += 36 + 6.2 * len(text)
