"""A self-contained HTML page: headings, tables, pictures, and sections with sliders."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from beam_volumes.show.picture import png_uri

_STYLE = """
body{font:15px/1.45 Helvetica,Arial,sans-serif;color:#1f2933;margin:2em auto;max-width:1180px;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2em;border-bottom:1px solid #cbd2d9}
table{border-collapse:collapse;margin:.6em 0}th{text-align:left;font-weight:600;vertical-align:top}
td,th{padding:2px 12px 2px 0;border-bottom:1px solid #eef1f4;overflow-wrap:anywhere}
th,td.n{overflow-wrap:normal}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.row{display:flex;flex-wrap:wrap;gap:18px;align-items:flex-start}
figure{margin:0}figure img{display:block;background:#ececec;image-rendering:pixelated;max-width:100%}
figcaption{color:#52606d;font-size:13px}input[type=range]{width:100%}
pre{background:#eef1f4;padding:.8em;overflow:auto;font-size:12.5px}details{margin:.5em 0}
.plan{overflow:auto}
"""
_SCRIPT = """
for (const f of document.querySelectorAll('figure[data-slices]')) {
  const {uris, at} = JSON.parse(document.getElementById(f.dataset.slices).textContent);
  const image = f.querySelector('img'), range = f.querySelector('input');
  const place = f.querySelector('output');
  const show = () => { image.src = uris[range.value]; place.textContent = at[range.value]; };
  range.addEventListener('input', show);
}
"""


class Page:
    """The parts of a page.

    >>> page = Page("Cells & more")
    >>> page.heading("Sizes")
    >>> page.table({"axes": "z 4, y 5, x 6"})
    >>> "<h1>Cells &amp; more</h1>" in page.html(), "<h2>Sizes</h2>" in page.html()
    (True, True)
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.parts = [f"<h1>{escape(title)}</h1>"]
        self._slices = 0

    def heading(self, words: str) -> None:
        self.parts.append(f"<h2>{escape(words)}</h2>")

    def words(self, words: str) -> None:
        self.parts.append(f"<p>{escape(words)}</p>")

    def table(self, rows: Mapping[str, Any]) -> None:
        """Add names and values."""
        cells = (
            f"<tr><th>{escape(name)}</th><td>{escape(str(text))}</td></tr>"
            for name, text in rows.items()
            if text not in (None, "")
        )
        self.parts.append(f"<table>{''.join(cells)}</table>")

    def rows(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table with a heading for each column."""
        names = "".join(f"<th>{escape(h)}</th>" for h in head)
        body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
        self.parts.append(f"<table><tr>{names}</tr>{body}</table>")

    def side_by_side(self, parts: Sequence[str]) -> None:
        """Add pictures next to each other."""
        self.parts.append(f'<div class="row">{"".join(f"<div>{p}</div>" for p in parts)}</div>')

    def svg(self, picture: str) -> None:
        self.parts.append(f'<div class="plan">{picture}</div>')

    def folded(self, summary: str, text: str) -> None:
        """Add a long text that is hidden until it is opened."""
        self.parts.append(
            f"<details><summary>{escape(summary)}</summary><pre>{escape(text)}</pre></details>"
        )

    def slices(self, pictures: Sequence[np.ndarray], at: Sequence[str], first: int) -> str:
        """Return pictures with a slider to choose one, as HTML for `side_by_side`."""
        self._slices += 1
        name = f"slices{self._slices}"
        uris = [uri(p) for p in pictures]
        data = json.dumps({"uris": uris, "at": list(at)}).replace("<", "\\u003c")
        slider = ""
        if len(uris) > 1:
            slider = f'<input type="range" min="0" max="{len(uris) - 1}" value="{first}"/>'
        return (
            f'<figure data-slices="{name}"><img src="{uris[first]}" alt="{escape(at[first])}"/>'
            f"{slider or '<input type=range hidden>'}<figcaption><output>{escape(at[first])}</output>"
            f'</figcaption></figure><script type="application/json" id="{name}">{data}</script>'
        )

    def html(self) -> str:
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"/>'
            f"<title>{escape(self.title)}</title>"
            '<meta name="viewport" content="width=device-width"/>'
            f"<style>{_STYLE}</style></head><body>{''.join(self.parts)}"
            f"<script>{_SCRIPT}</script></body></html>\n"
        )


def _cell(text: str) -> str:
    kind = " class=n" if text[:1].isdigit() or text[:1] in "-+" else ""
    return f"<td{kind}>{escape(text)}</td>"


def uri(picture: np.ndarray) -> str:
    """Return a picture as a data URI; grey ones need a third of the bytes."""
    if picture.ndim == 3 and (picture == picture[..., :1]).all():
        picture = picture[..., 0]
    return png_uri(picture)
