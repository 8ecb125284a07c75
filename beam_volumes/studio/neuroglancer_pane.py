"""Neuroglancer below the sections: the step that is shown, and the one before it."""

from __future__ import annotations

import asyncio
from typing import Any

from nicegui import ui

from beam_volumes.show.viewer.view import Viewer
from beam_volumes.studio.jobs import Replaced
from beam_volumes.studio.tab import Tab

#: What stays as it is when a parameter changes.
_KEPT = ("position", "crossSectionScale", "projectionOrientation", "projectionScale", "layout")


class NeuroglancerPane:
    """A frame with a viewer of this process, which computes chunks when they are shown."""

    def __init__(self, tab: Tab) -> None:
        self._tab, self._jobs = tab, tab.workspace.latest()
        self._viewer: Viewer | None = None
        #: What the viewer shows.
        self._shown: Any = None
        with ui.row().classes("items-center gap-4"):
            self._switch = ui.switch("Neuroglancer", on_change=lambda: tab.refresh())
            self._switch.props('aria-label="Neuroglancer"')
            self._link = ui.link("open in a new tab", "", new_tab=True)
        self._frame = ui.element("iframe").classes("w-full").style("height: 620px; border: 0")
        self._frame.props('title="Neuroglancer"')
        self._hide()

    def _hide(self) -> None:
        self._frame.set_visibility(False)
        self._link.set_visibility(False)

    async def update(self) -> None:
        """Show the present steps, if the user has asked for this view."""
        tab = self._tab
        if not self._switch.value:
            self._hide()
            return
        names = [tab.after] if tab.mode == "step" else [tab.before, tab.after]
        names = [*map(tab.workspace.shown, names)]
        wanted = (tab.workspace.document.text, names, tab.mode, tab.region.t, tab.region.c)
        if wanted == self._shown:
            return
        region, layout = tab.region, tab.mode
        job = self._jobs.submit(lambda stop: tab.workspace.viewer(names, region, layout, stop))
        try:
            viewer = await asyncio.wrap_future(job)
        except Replaced:
            return
        except (ValueError, OSError) as error:
            self._switch.value = False
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if self._viewer is not None:
            same = self._shown[1:3] == (names, layout)
            kept = {k: v for k, v in self._viewer.state.items() if k in _KEPT}
            viewer.state.update(kept if same else {k: kept[k] for k in kept if k != "layout"})
        self.close_viewer()
        self._viewer, self._shown = viewer, wanted
        self._frame.props(f'src="{viewer.url}"')
        self._link.props(f'href="{viewer.url}"')
        self._frame.set_visibility(True)
        self._link.set_visibility(True)

    def close_viewer(self) -> None:
        if self._viewer is not None:
            self._viewer.close()
        self._viewer = self._shown = None

    def close(self) -> None:
        """Stop serving, and what only this pane waits for."""
        self._jobs.close()
        self.close_viewer()
