"""Charts as SVG: histograms, measured curves with predictions, and slabs over time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

import numpy as np

from beam_volumes.base.drawing import DONE, INK, LINE, NEXT, NOW, SOFT, STORED, Drawing
from beam_volumes.base.text import format_number

_W, _H, _LEFT, _TOP, _BOTTOM = 560, 190, 78, 26, 26
COLOURS = (STORED, NOW, DONE, "#b9a3d9", "#e8a0a8", NEXT)
#: Maximal numbers of rows of slabs and of names of passes.
MAX_LANES, MAX_NAMES = 32, 24


def histogram(counts: Sequence[int], low: float, high: float, name: str = "intensities") -> str:
    """Draw bars from ``low`` to ``high`` with logarithmic heights."""
    d = _canvas(name, _W, _H)
    logs = np.log10(np.asarray(counts, float) + 1)
    highest = float(logs.max(initial=0)) or 1.0
    width = (_W - _LEFT - 10) / max(1, len(counts))
    for k, (value, count) in enumerate(zip(logs, counts, strict=True)):
        height = (_H - _TOP - _BOTTOM) * value / highest
        x = _LEFT + k * width
        title = f"{format_number(low + (high - low) * k / len(counts))}: {count:,}"
        d.box(x, _H - _BOTTOM - height, max(0.5, width - 0.5), height, STORED, STORED, title)
    _ends(d, format_number(low), format_number(high))
    d.text(_LEFT - 6, _TOP + 8, f"{max(counts, default=0):,}", 11, SOFT, "end")
    d.text(_LEFT - 6, _H - _BOTTOM, "0 (log)", 11, SOFT, "end")
    return d.svg()


def curve(
    name: str,
    times: Sequence[float],
    values: Sequence[float],
    text: Callable[[float], str],
    predicted: float | None = None,
) -> str:
    """Draw values over seconds, and a dashed line for the prediction."""
    d = _canvas(name, _W, _H)
    end = max(times, default=1.0) or 1.0
    top = max([*values, predicted or 0.0]) * 1.05 or 1.0

    def at(t: float, v: float) -> tuple[float, float]:
        return _LEFT + (_W - _LEFT - 10) * t / end, _H - _BOTTOM - (_H - _TOP - _BOTTOM) * v / top

    if len(times):
        steps = [(times[0], values[0])]
        for t, v in zip(times[1:], values[1:], strict=True):
            steps += [(t, steps[-1][1]), (t, v)]
        d.line([at(t, v) for t, v in steps], "#2b6ea8")
    if predicted:
        d.line([at(0, predicted), at(end, predicted)], "#b03030", dashed=True)
        d.text(
            _W - 12, at(0, predicted)[1] - 4, f"predicted {text(predicted)}", 11, "#b03030", "end"
        )
    d.text(_LEFT - 6, _TOP + 8, text(top / 1.05), 11, SOFT, "end")
    d.text(_LEFT - 6, _H - _BOTTOM, "0", 11, SOFT, "end")
    _ends(d, "0 s", f"{end:.3g} s")
    return d.svg()


def series(name: str, values: Sequence[float]) -> str:
    """Draw numbers in their order, from the lowest to the highest."""
    d = _canvas(name, _W, _H)
    low, high = min(values), max(values)
    steps = max(1, len(values) - 1), (high - low) or 1.0

    def at(k: int, v: float) -> tuple[float, float]:
        x = _LEFT + (_W - _LEFT - 10) * k / steps[0]
        return x, _H - _BOTTOM - (_H - _TOP - _BOTTOM) * (v - low) / steps[1]

    d.line([at(k, v) for k, v in enumerate(values)], "#2b6ea8")
    d.text(_LEFT - 6, _TOP + 8, format_number(high), 11, SOFT, "end")
    d.text(_LEFT - 6, _H - _BOTTOM, format_number(low), 11, SOFT, "end")
    _ends(d, "0", str(len(values) - 1))
    return d.svg()


def lanes(spans: Sequence[tuple[float, float, int, str]], names: Sequence[str]) -> str:
    """Draw slabs over time, given start, end, pass and title of each, and the names of the passes."""
    end = max((b for _, b, _, _ in spans), default=1.0) or 1.0
    free: list[tuple[float, int]] = []
    rows = []
    for a, b, k, title in sorted(spans):
        row = heapq.heappop(free)[1] if free and free[0][0] <= a else len(free)
        heapq.heappush(free, (b, row))
        rows.append((row, a, b, k, title))
    many = min(MAX_LANES, 1 + max((r for r, *_ in rows), default=0))
    step = 14
    shown_names = names[:MAX_NAMES]
    width = max((26 + 6 * len(name) for name in shown_names), default=1)
    columns = max(1, (_W - _LEFT) // width)
    legend = 14 * -(-len(shown_names) // columns)
    axis = _TOP + many * step + _BOTTOM - 4
    height = axis + 8 + legend
    d = _canvas("slabs over time", _W, height, below=height - axis + 12)
    scale = (_W - _LEFT - 10) / end
    for row, a, b, k, title in rows:
        if row < many:
            fill = COLOURS[k % len(COLOURS)]
            d.box(
                _LEFT + a * scale,
                _TOP + row * step,
                max(0.7, (b - a) * scale),
                step - 3,
                fill,
                tooltip=title,
            )
    d.text(_LEFT, axis, "0 s", 11, SOFT)
    d.text(_W - 10, axis, f"{end:.3g} s", 11, SOFT, "end")
    for k, name in enumerate(shown_names):
        x, y = _LEFT + k % columns * width, axis + 8 + 14 * (k // columns)
        d.box(x, y, 10, 10, COLOURS[k % len(COLOURS)])
        d.text(x + 14, y + 9, name, 11, SOFT)
    return d.svg()


def _canvas(name: str, width: float, height: float, below: float = _BOTTOM) -> Drawing:
    d = Drawing(width, height, name)
    d.text(_LEFT, 16, name, 12, INK, bold=True)
    d.line([(_LEFT, _TOP - 4), (_LEFT, height - below)], LINE)
    return d


def _ends(d: Drawing, first: str, last: str) -> None:
    d.line([(_LEFT, _H - _BOTTOM), (_W - 10, _H - _BOTTOM)], LINE)
    d.text(_LEFT, _H - 10, first, 11, SOFT)
    d.text(_W - 10, _H - 10, last, 11, SOFT, "end")
