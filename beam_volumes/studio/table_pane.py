"""The table of a run, linked to the sections, with plots of its columns and gates on them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
from nicegui import events, ui

from beam_volumes.base.text import format_number
from beam_volumes.studio import plots
from beam_volumes.studio.jobs import Replaced
from beam_volumes.studio.runs import Rows
from beam_volumes.studio.tab import Tab

#: Pixels of the plot, and bins of a histogram.
WIDTH, HEIGHT, _BINS = 320, 200, 64
_COUNT = "count"


class TablePane:
    """Rows as a table: a click on a row moves the sections, a click on an object finds its row."""

    def __init__(self, tab: Tab) -> None:
        self._tab, self._found = tab, tab.workspace.latest()
        self._rows: Rows | None = None
        #: The columns of the plot, their ranges, and the gate on each.
        self._columns = ["", _COUNT]
        self._spans: list[plots.Range] = []
        self._gates: dict[int, plots.Range] = {}
        self._corner: tuple[float, float] | None = None
        self._card = ui.column().classes("w-full")

    def show(self, rows: Rows | None) -> None:
        """Show the rows of a table."""
        self._rows = rows
        self._card.clear()
        if rows is None:
            return
        numbers = rows.numbers()
        self._columns = [next((n for n in numbers if n != "label"), "label"), _COUNT]
        with self._card, ui.card().classes("w-full"):
            self._table = self._make_table(rows)
            with ui.row().classes("items-start gap-4"):
                self._plot = ui.interactive_image(
                    size=(WIDTH, HEIGHT + plots.AXIS),
                    on_mouse=self._drag,
                    events=["mousedown", "mousemove", "mouseup"],
                    sanitize=False,
                )
                self._plot.classes("studio-plot").style(f"width: {WIDTH}px")
                with ui.column().classes("gap-1 w-[240px]"):
                    self._ranges = [self._axis(k, numbers) for k in range(2)]
                    self._gate_text = ui.label().classes("text-sm")
                    ui.button("keep these objects", on_click=self._add_gate).props("dense")
        self._draw_columns()

    def _make_table(self, rows: Rows) -> ui.table:
        columns = [{"name": n, "label": n, "field": n, "sortable": True} for n in rows.rows[0]]
        shown = [
            {**{n: _rounded(v) for n, v in r.items()}, "row": k} for k, r in enumerate(rows.rows)
        ]
        table = ui.table(
            rows=shown,
            columns=columns,
            row_key="row",
            pagination=10,
            selection="single",
            on_select=lambda e: self._go(*e.selection),
        )
        table.props("dense flat").classes("w-full cursor-pointer")
        table.on("rowClick", self._clicked, js_handler="(event, row) => emit({row: row.row})")
        return table

    def _clicked(self, e: Any) -> None:
        self._table.selected = [r for r in self._table.rows if r["row"] == e.args["row"]]
        self._go(e.args)

    def _axis(self, k: int, numbers: list[str]) -> ui.range:
        """Return the range of a gate, below the choice of its column."""
        choices = [*numbers, _COUNT] if k else numbers
        ui.select(
            choices,
            label=("across", "up")[k],
            value=self._columns[k],
            on_change=lambda e: self._choose(k, e.value),
        ).props("dense").classes("w-full")
        chosen = ui.range(min=0, max=1, step=0.001, value={"min": 0, "max": 1})
        chosen.on("change", lambda: self._slid(k))
        return chosen.props(f'dense aria-label="gate {("across", "up")[k]}"')

    # rows and objects

    def _go(self, *rows: Mapping[str, Any]) -> None:
        """Let the sections meet in the object of a row."""
        for row in rows:
            at = self._rows and self._rows.place(self._rows.rows[row["row"]])
            if at is not None:
                self._tab.look(at=at)

    async def find(self) -> None:
        """Mark the row of the object where the sections meet, as the first one."""
        rows, workspace = self._rows, self._tab.workspace
        if rows is None:
            return
        region = self._tab.region
        job = self._found.submit(lambda stop: workspace.label_at(rows, region, stop))
        try:
            row = rows.of_label(await asyncio.wrap_future(job))
        except (Replaced, ValueError):
            return
        others = sorted(self._table.rows, key=lambda r: (r["row"] != row, r["row"]))
        self._table.pagination = {"rowsPerPage": 10, "page": 1, "sortBy": None}
        self._table.rows = others
        self._table.selected = [] if row is None else others[:1]

    # the plot

    def _choose(self, k: int, column: str) -> None:
        self._columns[k] = column
        self._draw_columns()

    def _draw_columns(self) -> None:
        assert self._rows is not None
        x = self._rows.column(self._columns[0])
        self._gates, self._spans = {}, [plots.ends(x), (0.0, 1.0)]
        if self._columns[1] == _COUNT:
            counts = np.histogram(x[np.isfinite(x)], _BINS, self._spans[0])[0]
            self._drawn = plots.bars(counts, WIDTH, HEIGHT)
            top = f"{counts.max():,} rows, logarithmic"
        else:
            y = self._rows.column(self._columns[1])
            self._spans[1] = plots.ends(y)
            shown = np.isfinite(x) & np.isfinite(y)
            self._drawn = plots.dots(
                plots.scaled(x[shown], self._spans[0], WIDTH),
                HEIGHT - plots.scaled(y[shown], self._spans[1], HEIGHT),
            )
            low, high = map(format_number, self._spans[1])
            top = f"{self._columns[1]} from {low} to {high}"
        self._drawn += plots.labels(self._spans[0], self._columns[0], WIDTH, HEIGHT, top)
        self._show_gate()

    def _show_gate(self) -> None:
        content, texts = self._drawn, []
        if self._gates:
            x, y = (self._gates.get(k, self._spans[k]) for k in range(2))
            left, right = plots.scaled(x, self._spans[0], WIDTH)
            bottom, top = HEIGHT - plots.scaled(y, self._spans[1], HEIGHT)
            content += plots.mark((left, right), (top, bottom))
        for k, column in enumerate(self._columns):
            low, high = self._gates.get(k, self._spans[k])
            begin, end = self._spans[k]
            self._ranges[k].set_visibility(column != _COUNT)
            self._ranges[k].value = {
                "min": (low - begin) / (end - begin),
                "max": (high - begin) / (end - begin),
            }
            if column != _COUNT:
                texts.append(f"{column} from {_rounded(low):,.10g} to {_rounded(high):,.10g}")
        self._plot.content, self._gate_text.text = content, "; ".join(texts)

    def _slid(self, k: int) -> None:
        self._set_gate(k, self._ranges[k].value["min"], self._ranges[k].value["max"])
        self._show_gate()

    def _set_gate(self, k: int, low: float, high: float) -> None:
        """Set a gate by parts of the range of its column."""
        begin, end = self._spans[k]
        self._gates[k] = tuple(begin + (end - begin) * min(max(f, 0.0), 1.0) for f in (low, high))  # type: ignore[assignment]

    def _drag(self, e: events.MouseEventArguments) -> None:
        if e.type == "mousedown":
            self._corner = (e.image_x, e.image_y)
        elif self._corner is not None:
            x, y = self._corner
            self._set_gate(0, *sorted((x / WIDTH, e.image_x / WIDTH)))
            if self._columns[1] != _COUNT:
                self._set_gate(1, *sorted((1 - y / HEIGHT, 1 - e.image_y / HEIGHT)))
            self._show_gate()
        if e.type == "mouseup":
            self._corner = None

    def _add_gate(self) -> None:
        """Add the gates as steps."""
        rows, tab = self._rows, self._tab
        ranges = {
            self._columns[k]: (_rounded(low), _rounded(high))
            for k, (low, high) in sorted(self._gates.items())
        }
        if rows is None or not ranges:
            ui.notify("drag over the plot to choose objects first", type="warning")
            return

        def add() -> None:
            tab.after = tab.workspace.add_gate(rows, ranges)

        tab.attempt(add)

    def close(self) -> None:
        """Stop what only this pane waits for."""
        self._found.close()


def _rounded(value: Any) -> Any:
    """Return a number with five digits, or all of its digits before the point."""
    if not isinstance(value, float) or not np.isfinite(value):
        return value
    return round(value) if abs(value) >= 1e5 else float(f"{value:.5g}")
