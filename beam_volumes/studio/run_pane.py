"""The right pane: what a run costs, its outputs, and the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import background_tasks, ui

from beam_volumes.base.text import counted, format_bytes, format_duration
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cost.machine import machine_memory
from beam_volumes.plan.plan import Plan
from beam_volumes.recipes.recipe import split_name
from beam_volumes.show.pages.table_page import FORMATS
from beam_volumes.storage.formats.registry import writable
from beam_volumes.studio.jobs import Replaced, Run
from beam_volumes.studio.runs import on_page
from beam_volumes.studio.tab import Tab

#: The runners that the page starts.
_RUNNERS = {None: "in this process", "FnApiRunner": "Beam on this machine"}


class RunPane:
    """The plan and the run of the recipe; ``on_end`` is called when a run has ended."""

    def __init__(self, tab: Tab, on_end: Callable[[], None]) -> None:
        self._tab, self._document = tab, tab.workspace.document
        self._costs = tab.workspace.latest()
        ui.label("Cost of the run").classes("text-lg")
        self._cost = ui.column().classes("w-full gap-0")
        memory = ui.input("memory limit", placeholder="a quarter of this machine's")
        memory.props("dense").classes("w-full").on("change", lambda: self._limit(memory.value))
        ui.label("Outputs").classes("text-lg")
        self._outputs = ui.column().classes("w-full gap-1")
        ui.select(
            _RUNNERS, label="runner", value=None, on_change=lambda e: self._choose_runner(e.value)
        ).props("dense").classes("w-full")
        self._overwrite = ui.checkbox("replace existing outputs")
        with ui.row().classes("items-center"):
            self._run = ui.button("run", on_click=lambda: self._start(False))
            self._stop = ui.button("stop", on_click=tab.workspace.runs.stop).props("outline")
            self._resume = ui.button("resume", on_click=lambda: self._start(True)).props("flat")
        self._progress = ui.linear_progress(0.0, show_value=False).classes("w-full")
        self._status = ui.label().classes("text-sm w-full whitespace-pre-line studio-text")
        self._on_end = on_end
        #: The last run that has ended, and whether an output exists.
        self._ended: Run | None = None
        self._is_written = False

    def _choose_runner(self, runner: str | None) -> None:
        self._tab.workspace.runs.runner = runner
        background_tasks.create(self.show_cost())

    def _limit(self, memory: str) -> None:
        self._tab.attempt(lambda: self._tab.workspace.limit_memory(memory.strip() or None))
        background_tasks.create(self.show_cost())

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
        recipe = self._tab.workspace.state().recipe
        last = "" if recipe is None or step else f": {recipe.outputs[k].step}"
        names[None] = f"the last step{last}"
        with ui.row().classes("w-full items-center no-wrap gap-1"):
            ui.select(
                names,
                label="step",
                value=step,
                on_change=lambda e: change(step=e.value),
            ).props("dense").classes("grow min-w-0")
            if len(outputs) > 1:
                self._tab.icon_button(
                    "delete",
                    f"remove output {k + 1}",
                    lambda: self._document.set_outputs(outputs[:k] + outputs[k + 1 :]),
                )
        path = ui.input("path", value=output.get("path") or "").props("dense").classes("w-full")
        path.on("change", lambda: change(path=path.value or None))
        suffixes = self._suffixes(output)
        suffix = max((s for s in suffixes if path.value.endswith(s)), key=len, default="")
        with ui.row().classes("w-full items-center no-wrap"):
            if suffixes:
                names = {s: f"{name} ({s})" for s, name in suffixes.items()}
                ui.select(
                    names if suffix else {"": "", **names},
                    label="format",
                    value=suffix,
                    on_change=lambda e: change(
                        path=path.value.removesuffix(suffix) + e.value, format=None
                    ),
                ).props("dense").classes("grow min-w-0")
            own = writable().get(suffixes.get(suffix, ""))
            if own is not None and "levels" in own.options:
                ui.checkbox(
                    "pyramid",
                    value=output.get("levels") == "auto",
                    on_change=lambda e: change(levels="auto" if e.value else None),
                )

    def _suffixes(self, output: dict[str, Any]) -> dict[str, str]:
        """Return the suffixes of paths for an output, and their formats."""
        item = self._tab.workspace.state().known.get(split_name(output.get("step") or "")[0])
        if isinstance(item, Table) or output.get("path", "").endswith(tuple(FORMATS)):
            return FORMATS
        if isinstance(item, Scalar):
            return {}
        return {f.suffixes[0]: f.name for f in writable().values() if f.suffixes}

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
            job = self._costs.submit(lambda _: self._tab.workspace.runs.cost())
            found = await asyncio.wrap_future(job)
        except Replaced:
            return
        self._cost.clear()
        with self._cost:
            for text in (*found.registrations, *_cost_lines(found.plan)):
                ui.label(text).classes("text-sm")
            for text, colour in ((found.error, "red-700"), (found.warning, "gray-700")):
                ui.label(text).classes(f"text-sm text-{colour} studio-text").set_visibility(
                    bool(text)
                )
        self._overwrite.set_visibility(bool(found.warning))
        self._is_written = bool(found.warning)

    def _start(self, resumes: bool) -> None:
        workspace = self._tab.workspace
        if resumes:
            self._tab.attempt(workspace.runs.resume)
        else:
            self._tab.attempt(lambda: workspace.runs.start(bool(self._overwrite.value)))

    def show_run(self) -> None:
        """Show the progress of the run."""
        job = self._tab.workspace.runs.run
        is_running = job is not None and job.is_running
        self._run.set_enabled(not is_running)
        self._stop.set_enabled(is_running and self._tab.workspace.runs.runner is None)
        can_resume = self._is_written if job is None else job.was_stopped or bool(job.error)
        self._resume.set_visibility(not is_running and can_resume)
        if job is not None:
            self._progress.value = round(job.part, 3)
            self._status.text = _status(job)
            self._status.style(f"color: {'#b91c1c' if job.error else 'inherit'}")
        if job is not None and not is_running and job is not self._ended:
            self._ended = job
            self._on_end()

    def close(self) -> None:
        """Stop what only this pane waits for; a run goes on."""
        self._costs.close()


def _cost_lines(plan: Plan | None) -> list[str]:
    if plan is None:
        return []
    seconds = plan.predicted_seconds
    time = "unknown until beam-volumes bench --calibrate has measured this machine"
    return [
        counted(len(plan.passes), "pass"),
        f"memory {format_bytes(plan.predicted_memory)} of {format_bytes(plan.memory)}; this machine has "
        f"{format_bytes(machine_memory())}",
        f"reads {format_bytes(plan.bytes_read)}, {plan.read_amplification:.2f} times",
        f"writes {format_bytes(plan.bytes_written)} before compression",
        f"time: {time if seconds is None else f'about {format_duration(seconds)}'}",
    ]


def _status(job: Run) -> str:
    """Describe a run: its pass, its results, or why it has ended."""
    p = job.progress
    if job.is_running:
        left = f", about {format_duration(p.eta)} left" if p is not None and p.eta else ""
        return "starting" if p is None else f"pass {p.index + 1} of {p.passes}: {p.name}{left}"
    if job.error or job.was_stopped:
        return on_page(job.error) or "stopped; resume continues it"
    assert job.outcome is not None
    texts = [f"done in {format_duration(job.outcome.seconds)}"]
    for result in job.outcome.results:
        if isinstance(result, Volume):
            texts.append(result.nodes[0].name.removesuffix("[c=0]"))
        elif not hasattr(result, "column_names"):
            texts.append(result if isinstance(result, str) else str(np.asarray(result).tolist()))
    return "\n".join(texts)
