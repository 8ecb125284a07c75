"""What the panes of one browser tab share: the step and the region that are shown, and edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from nicegui import ui

from beam_volumes.studio.palette import COMPARISONS
from beam_volumes.studio.preview import Region
from beam_volumes.studio.workspace import Workspace


class Slider(ui.slider):
    """A slider that follows the mouse without waiting for the server."""

    LOOPBACK = False


@contextmanager
def dialog() -> Iterator[ui.dialog]:
    """Open a dialog with the elements that are made meanwhile."""
    with ui.dialog(value=True) as shown, ui.card().classes("w-[800px] max-w-full"):
        yield shown


@dataclass
class Tab:
    """The state of a tab; the recipe itself belongs to the workspace, which tabs share."""

    workspace: Workspace
    #: The step that is shown, and the step that it is compared with.
    after: str
    before: str
    region: Region = field(default_factory=Region)
    #: ``step``, ``curtain``, ``side`` or ``overlay``, and the part that the curtain covers.
    mode: str = "step"
    curtain: float = 0.5
    #: While an element changes its own field, the cards stay as they are.
    is_field_edit: bool = False
    #: Shows the present state.
    refresh: Callable[[], None] = lambda: None

    def attempt(self, action: Callable[[], Any]) -> Any:
        """Do something that the user asked for; show why it is refused."""
        try:
            found = action()
        except (ValueError, KeyError, OSError) as error:
            text = str(error)
            if isinstance(error, OSError) and error.strerror and error.filename:
                text = f"{error.filename}: {error.strerror}"
            ui.notify(text, type="negative", multi_line=True)
            return None
        self.refresh()
        return found

    def edit_field(self, name: str, key: str, value: Any) -> None:
        """Set a field of a step from its own element."""
        self.is_field_edit = True
        try:
            self.attempt(lambda: self.workspace.set_field(name, key, value))
        finally:
            self.is_field_edit = False

    def change(self, **values: Any) -> None:
        """Set the step, the mode, or another choice of the user."""
        if any(getattr(self, name) != value for name, value in values.items()):
            for name, value in values.items():
                setattr(self, name, value)
            self.refresh()

    def look(self, **values: Any) -> None:
        """Change the region."""
        self.change(region=Region(**{**vars(self.region), **values}))

    def threshold_step(self) -> str:
        """Return the step that is shown if it compares with a number, else an empty text."""
        for item in self.workspace.document.items():
            inputs = item.given.get("inputs")
            if item.name == self.after and item.op in COMPARISONS and isinstance(inputs, list):
                return item.name if isinstance(inputs[-1], int | float) else ""
        return ""

    def icon_button(self, icon: str, text: str, action: Callable[[], Any]) -> None:
        """Add a button without words; ``text`` is its name for screen readers."""
        button = ui.button(icon=icon, on_click=lambda: self.attempt(action))
        button.props(f'flat dense size=sm aria-label="{text}"').tooltip(text)
