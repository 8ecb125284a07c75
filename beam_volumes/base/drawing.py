"""Drawings as SVG: boxes, lines and text, without a library."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

INK, SOFT, LINE = "#1f2933", "#52606d", "#9aa5b1"
PAPER, EMPTY, STORED, NOW, NEXT, DONE = (
    "#ffffff",
    "#eef1f4",
    "#9cc4e4",
    "#f0a04b",
    "#fbe3c2",
    "#8fbf8f",
)


class Drawing:
    """Shapes and text of an SVG image; ``title`` is its description for screen readers.

    >>> d = Drawing(20, 10, "a box")
    >>> d.box(0, 0, 20, 10, "#ffffff")
    >>> d.svg().startswith('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 10"')
    True
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height = width, height
        self.parts = [f"<title>{escape(title)}</title>"]

    def box(
        self, x: float, y: float, w: float, h: float, fill: str, line: str = LINE, tooltip: str = ""
    ) -> None:
        inside = f"<title>{escape(tooltip)}</title>" if tooltip else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" fill="{fill}" '
            f'stroke="{line}">{inside}</rect>'
        )

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 12,
        fill: str = INK,
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
            f"{weight}>{escape(words)}</text>"
        )

    def curve(self, x0: float, y0: float, x1: float, y1: float, line: str = SOFT) -> None:
        m = (x0 + x1) / 2
        self.parts.append(
            f'<path d="M{x0:g},{y0:g} C{m:g},{y0:g} {m:g},{y1:g} {x1:g},{y1:g}" fill="none" '
            f'stroke="{line}" stroke-width="1.3"/>'
        )

    def line(
        self, points: Iterable[tuple[float, float]], line: str = INK, dashed: bool = False
    ) -> None:
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        at = " ".join(f"{x:.5g},{y:.5g}" for x, y in points)
        self.parts.append(
            f'<polyline points="{at}" fill="none" stroke="{line}" stroke-width="1.5"{dash}/>'
        )

    def svg(self) -> str:
        body = "\n".join(self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}" style="max-width:100%;height:auto" '
            f'font-family="Helvetica, Arial, sans-serif" role="img">\n{body}\n</svg>\n'
        )


def shortened(words: str, maximum: int) -> str:
    """Shorten text to at most ``maximum`` letters: keep its beginning, or the end of a path.

    >>> shortened("gaussian_filter", 9), shortened("/data/em.zarr", 9)
    ('gaussian…', '…/em.zarr')
    """
    if len(words) <= maximum:
        return words
    if "/" in words:
        tail = words[-(maximum - 1) :]
        cut = tail.find("/")
        return f"…{tail[cut:] if cut >= 0 else tail}"
    return f"{words[: maximum - 1]}…"
