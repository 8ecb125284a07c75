"""Histograms, scatter plots and the ranges that are marked on them, as contents of an SVG element."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from beam_volumes.base.text import format_number

_FILL, _MARK = "#7fa7cc", "#b03030"
#: Pixels of the labels below a plot.
AXIS = 16

Range = tuple[float, float]


def bars(counts: np.ndarray, width: float, height: float) -> str:
    """Draw counts as bars with logarithmic heights.

    >>> bars(np.array([0, 9]), 20, 10)
    '<polygon points="0,10 0.0,10.0 10.0,10.0 10.0,2.0 20.0,2.0 20,10" fill="#7fa7cc"/>'
    """
    logs = np.log10(counts + 1.0)
    logs *= 0.8 * height / max(logs.max(), 1e-9)
    step = width / len(counts)
    points = " ".join(
        f"{x * step:.1f},{height - v:.1f}" for k, v in enumerate(logs) for x in (k, k + 1)
    )
    return f'<polygon points="0,{height} {points} {width},{height}" fill="{_FILL}"/>'


def dots(x: np.ndarray, y: np.ndarray) -> str:
    """Draw points at pixels.

    >>> dots(np.array([2.0]), np.array([3.0]))
    '<circle cx="2.0" cy="3.0" r="2" fill="#7fa7cc"/>'
    """
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{_FILL}"/>' for a, b in pairs)


def mark(x: Range, y: Range) -> str:
    """Draw the outline of ranges, which is a line if one of them is a point.

    >>> mark((1, 1), (0, 70))
    '<path d="M1.0 0.0H1.0V70.0H1.0Z" fill="none" stroke="#b03030" stroke-width="3"/>'
    """
    outline = f"M{x[0]:.1f} {y[0]:.1f}H{x[1]:.1f}V{y[1]:.1f}H{x[0]:.1f}Z"
    return f'<path d="{outline}" fill="none" stroke="{_MARK}" stroke-width="3"/>'


def labels(span: Range, name: str, width: float, height: float, top: str = "") -> str:
    """Write the ends and the name of an axis below a plot, in `AXIS` pixels, and a text in its corner.

    >>> labels((0, 65535), "a<b", 300, 70).split("</text>")[1:3]
    ['<text x="150.0" y="82" text-anchor="middle" font-size="11">a&lt;b', '<text x="300" ...>65535']
    """
    low, high = map(format_number, span)
    placed = [
        (0, height + 12, "start", low),
        (width / 2, height + 12, "middle", name),
        (width, height + 12, "end", high),
        (0, 10, "start", top),
    ]
    return "".join(
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="11">{escape(text)}</text>'
        for x, y, anchor, text in placed
    )


def ends(values: np.ndarray) -> Range:
    """Return the range of finite values; it is never empty.

    >>> ends(np.array([2.0, np.nan, 5.0])), ends(np.array([]))
    ((2.0, 5.0), (0.0, 1.0))
    """
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    return low, high if high > low else low + 1


def scaled(values: np.ndarray | Sequence[float], span: Range, size: float) -> np.ndarray:
    """Return the pixels of values of a range.

    >>> scaled([2, 3], (2, 4), 100).tolist()
    [0.0, 50.0]
    """
    return (np.asarray(values, np.float64) - span[0]) / (span[1] - span[0]) * size
