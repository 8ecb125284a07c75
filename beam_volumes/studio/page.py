"""The page of the studio, built with NiceGUI: cards, sections, and the cost of the run.

NiceGUI has its assets in its wheel, keeps the state of a page in Python, and sends only changes. Streamlit
computes the whole script at every change, Gradio is made for forms of one function, and Dash and Panel keep
state in the browser or in a model of their own.
"""

from __future__ import annotations

from nicegui import background_tasks, events, ui

from beam_volumes.studio.cards import Cards
from beam_volumes.studio.export import as_python
from beam_volumes.studio.neuroglancer_pane import NeuroglancerPane
from beam_volumes.studio.run_pane import RunPane
from beam_volumes.studio.tab import Tab, dialog
from beam_volumes.studio.table_pane import TablePane
from beam_volumes.studio.view_pane import ViewPane
from beam_volumes.studio.workspace import OTHER, FileChanged, Workspace

_STYLE = """
.q-card { padding: 8px }
.q-card .q-btn__content { text-align: left }
.q-btn:focus-visible, [tabindex]:focus-visible { outline: 2px solid #1565c0 }
.studio-text { overflow-wrap: anywhere }
.studio-image { background: #ececec; image-rendering: pixelated; cursor: crosshair }
"""


class StudioPage:
    """The elements of one tab. The recipe belongs to the workspace, which all tabs show."""

    def __init__(self, workspace: Workspace, path: str | None) -> None:
        names = workspace.document.names()
        self._tab = Tab(workspace, names[-1], names[0], refresh=self._refresh)
        self._document = workspace.document
        #: The text and the step for which the cards were made.
        self._shown = ("", "")
        self._costs_of = ""
        ui.add_css(_STYLE)
        ui.colors(primary="#1565c0")  # readable on white
        with ui.row().classes("w-full no-wrap items-start gap-3"):
            with ui.column().classes("w-[330px] shrink-0 gap-2"):
                self._tools(path or "recipe.yaml")
                self._cards = Cards(self._tab)
            with ui.column().classes("grow gap-2 min-w-0"):
                self._view = ViewPane(self._tab)
                self._neuroglancer = NeuroglancerPane(self._tab)
                self._table = TablePane(self._tab)
            with ui.column().classes("w-[280px] shrink-0 gap-2"):
                self._run = RunPane(self._tab, self._ended)
        self._view.on_drag_end = self._build
        self._view.on_click = lambda: background_tasks.create(self._table.find())
        ui.keyboard(self._key)
        ui.timer(0.3, self._tick)
        ui.context.client.on_delete(self._close)

    def _tools(self, path: str) -> None:
        with ui.row().classes("items-center gap-1"):
            button = self._tab.icon_button
            button("undo", "undo (Ctrl+Z)", self._document.undo)
            button("redo", "redo (Ctrl+Y)", self._document.redo)
            button("edit_note", "edit the recipe as text", self._edit_text)
            button("code", "show a program in Python", self._show_python)
            self._file = ui.input("file", value=path).props("dense").classes("w-28")
            button("save", "save the recipe in the file", self._save)
            button("folder_open", "open the recipe in the file", self._load)
        with ui.row().classes("items-center gap-1 no-wrap"):
            self._other = ui.input("compare with", placeholder="this recipe as it is now")
            self._other.props("dense").classes("w-48")
            button("compare", "compare with a recipe", self._compare)

    def _edit_text(self) -> None:
        def replace() -> bool:
            self._document.replace(area.value)
            return True

        def apply() -> None:
            if self._tab.attempt(replace):
                shown.close()

        with dialog() as shown:
            area = ui.textarea(value=self._document.text).props("autogrow outlined")
            area.classes("w-full font-mono")
            ui.button("apply", on_click=apply)

    def _show_python(self) -> None:
        recipe = self._tab.workspace.state().recipe
        if recipe is None:
            raise ValueError("the recipe has errors")
        with dialog():
            ui.code(as_python(recipe), language="python").classes("w-full")

    def _save(self, overwrite: bool = False) -> None:
        path = self._file.value
        try:
            self._tab.workspace.save(path, overwrite)
        except FileChanged as changed:
            with dialog() as shown:
                ui.label(str(changed))
                ui.button(
                    "replace it",
                    on_click=lambda: (shown.close(), self._tab.attempt(lambda: self._save(True))),
                )
                ui.button("cancel", on_click=shown.close)
            return
        ui.notify(f"saved as {path}")

    def _load(self) -> None:
        self._tab.workspace.load(self._file.value)
        self._tab.after = self._document.names()[-1]

    def _compare(self) -> None:
        """Keep another recipe, and show its last volume next to the present one."""
        workspace, tab = self._tab.workspace, self._tab
        workspace.compare_with(self._other.value or "")
        names = [n for n in workspace.names() if n.startswith(OTHER)]
        tab.before = OTHER + tab.after if OTHER + tab.after in names else names[-1]
        tab.mode = "side"

    def _ended(self) -> None:
        """Show the results of a run; a failed run leaves the earlier table."""
        runs = self._tab.workspace.runs
        if runs.run is not None and runs.run.outcome is not None:
            self._table.show(runs.rows())
        self._costs_of = ""  # its outputs exist
        self._refresh()

    def _key(self, e: events.KeyEventArguments) -> None:
        if e.action.keydown and e.modifiers.ctrl and e.key in ("z", "y"):
            self._tab.attempt(self._document.undo if e.key == "z" else self._document.redo)

    def _tick(self) -> None:
        self._run.show_run()
        if self._document.text != self._shown[0]:
            self._refresh()  # it is new, or another tab has changed the recipe

    def _build(self) -> None:
        self._cards.build()
        self._run.build()

    def _refresh(self) -> None:
        """Show the recipe as it is now; views and costs follow when they are computed."""
        tab, names = self._tab, self._tab.workspace.names()
        tab.after = tab.after if tab.after in names else self._document.names()[-1]
        tab.before = tab.before if tab.before in names else names[0]
        before, self._shown = self._shown, (self._document.text, tab.after)
        if before != self._shown and not tab.is_field_edit:
            self._build()
        self._view.choices(names)
        self._cards.show_errors(tab.workspace.state().errors)
        background_tasks.create(self._show())

    async def _show(self) -> None:
        """Show the sections, then the cost, for which a run of the whole volume is planned."""
        if not await self._view.show():
            return
        if self._costs_of != (text := self._document.text):
            self._costs_of = text
            await self._run.show_cost()
        await self._neuroglancer.update()
        if await self._view.compute_exact():
            await self._view.show()

    def _close(self) -> None:
        self._view.close()
        self._run.close()
        self._table.close()
        self._neuroglancer.close()
