"""The right pane: what a run costs, its outputs, and the run."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from nicegui import ui

from beam_volumes.base.text import counted, format_bytes
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.plan import Plan
from beam_volumes.runs.console import duration
from beam_volumes.studio.jobs import Replaced, Run
from beam_volumes.studio.tab import Tab


class RunPane:
    """The plan and the run of the recipe; rows of its table are shown in ``table``."""

    def __init__(self, tab: Tab, table: ui.column) -> None:
        self._tab, self._document = tab, tab.workspace.document
        self._costs = tab.workspace.latest()
        ui.label("Cost of the run").classes("text-lg")
        self._cost = ui.column().classes("w-full gap-0")
        ui.label("Outputs").classes("text-lg")
        self._outputs = ui.column().classes("w-full gap-1")
        self._overwrite = ui.checkbox("replace existing outputs")
        with ui.row().classes("items-center"):
            self._run = ui.button("run", on_click=lambda: self._start(False))
            self._stop = ui.button("stop", on_click=tab.workspace.stop).props("outline")
            self._resume = ui.button("resume", on_click=lambda: self._start(True)).props("flat")
        self._progress = ui.linear_progress(0.0, show_value=False).classes("w-full")
        self._status = ui.label().classes("text-sm whitespace-pre-line")
        self._table = table
        #: The last run that has ended.
        self._ended: Run | None = None

    def build(self) -> None:
        """Make the forms of the outputs again."""
        outputs = self._document.outputs()
        self._outputs.clear()
        with self._outputs:
            for k, output in enumerate(outputs):
                with ui.card().classes("w-full gap-0"):
                    self._output(k, output, outputs)
            self._tab.icon_button(
                "add",
                "add an output",
                lambda: self._document.set_outputs([*outputs, self._new_output()]),
            )

    def _output(self, k: int, output: dict[str, Any], outputs: list[dict[str, Any]]) -> None:
        def change(**values: Any) -> None:
            new = {n: v for n, v in {**output, **values}.items() if v is not None}
            self._tab.attempt(
                lambda: self._document.set_outputs([*outputs[:k], new, *outputs[k + 1 :]])
            )

        step = output.get("step")
        names: dict[Any, Any] = {n: n for n in (*self._document.names(), step)}
        names[None] = "the last step"
        ui.select(
            names,
            label="step",
            value=step,
            on_change=lambda e: change(step=e.value),
        ).props("dense").classes("w-full")
        path = ui.input("path", value=output.get("path") or "").props("dense").classes("w-full")
        path.on("change", lambda: change(path=path.value or None))
        with ui.row().classes("w-full items-center"):
            ui.checkbox(
                "pyramid",
                value=output.get("levels") == "auto",
                on_change=lambda e: change(levels="auto" if e.value else None),
            )
            if len(outputs) > 1:
                self._tab.icon_button(
                    "delete",
                    f"remove output {k + 1}",
                    lambda: self._document.set_outputs(outputs[:k] + outputs[k + 1 :]),
                )

    def _new_output(self) -> dict[str, Any]:
        name = self._tab.after
        item = self._tab.workspace.state().known.get(name)
        if isinstance(item, Scalar):
            return {"step": name}
        ending = ".parquet" if isinstance(item, Table) else ".ome.zarr"
        return {"step": name, "path": f"{name}{ending}"}

    async def show_cost(self) -> None:
        """Show the plan of the run."""
        try:
            job = self._costs.submit(lambda _: self._tab.workspace.cost())
            found = await asyncio.wrap_future(job)
        except Replaced:
            return
        self._cost.clear()
        with self._cost:
            for text in _cost_lines(found.plan):
                ui.label(text).classes("text-sm")
            for text in filter(None, (found.error, found.warning)):
                ui.label(text).classes("text-sm text-red-700 break-words")
        self._overwrite.set_visibility(bool(found.warning))

    def _start(self, resumes: bool) -> None:
        workspace = self._tab.workspace
        if resumes:
            self._tab.attempt(workspace.resume)
        else:
            self._tab.attempt(lambda: workspace.start(bool(self._overwrite.value)))

    def show_run(self) -> None:
        """Show the progress of the run."""
        job = self._tab.workspace.run
        is_running = job is not None and job.is_running
        self._run.set_enabled(not is_running)
        self._stop.set_enabled(is_running)
        self._resume.set_visibility(job is not None and job.was_stopped)
        if job is not None:
            self._progress.value = round(job.part, 3)
            self._status.text = _status(job)
        if job is not None and not is_running and job is not self._ended:
            self._ended = job
            self._show_table()

    def _show_table(self) -> None:
        """Show the rows of the run's table; a click on a row moves the sections to its object."""
        workspace = self._tab.workspace
        rows = workspace.rows()
        self._table.clear()
        if not rows:
            return

        def clicked(e: Any) -> None:
            at = workspace.place(rows[e.args["row"]])
            tab = self._tab
            if not isinstance(workspace.state().known.get(tab.after), Volume):
                tab.after = workspace.input_of(tab.after) or tab.after
            if at is not None:
                tab.look(at=at)

        columns = [{"name": n, "label": n, "field": n, "sortable": True} for n in rows[0]]
        shown = [{**{n: _rounded(v) for n, v in r.items()}, "row": k} for k, r in enumerate(rows)]
        with self._table, ui.card().classes("w-full"):
            table = ui.table(rows=shown, columns=columns, row_key="row", pagination=10)
            table.props("dense flat").classes("w-full cursor-pointer")
            table.on("rowClick", clicked, js_handler="(event, row) => emit({row: row.row})")

    def close(self) -> None:
        """Stop what only this pane waits for; a run goes on."""
        self._costs.close()


def _rounded(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _cost_lines(plan: Plan | None) -> list[str]:
    if plan is None:
        return []
    seconds = plan.predicted_seconds
    time = "unknown until beam-volumes bench --calibrate has measured this machine"
    return [
        counted(len(plan.passes), "pass"),
        f"memory {format_bytes(plan.predicted_memory)} of {format_bytes(plan.memory)}",
        f"reads {format_bytes(plan.bytes_read)}, {plan.read_amplification:.2f} times",
        f"writes {format_bytes(plan.bytes_written)} before compression",
        f"time: {time if seconds is None else f'about {duration(seconds)}'}",
    ]


def _status(job: Run) -> str:
    """Describe a run: its pass, its results, or why it has ended."""
    p = job.progress
    if job.is_running:
        left = f", about {duration(p.eta)} left" if p is not None and p.eta else ""
        return "starting" if p is None else f"pass {p.index + 1} of {p.passes}: {p.name}{left}"
    if job.error or job.was_stopped:
        return job.error or "stopped; resume continues it"
    if job.outcome is None:
        return "the run has ended already"
    texts = [f"done in {duration(job.outcome.seconds)}"]
    for result in job.outcome.results:
        if isinstance(result, Volume):
            texts.append(result.nodes[0].name.removesuffix("[c=0]"))
        elif not hasattr(result, "column_names"):
            texts.append(result if isinstance(result, str) else str(np.asarray(result).tolist()))
    return "\n".join(texts)
