"""The left pane: the palette of functions, and a card for each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import flow_text, parse_value
from beam_volumes.studio.document import Branch
from beam_volumes.studio.palette import COMPARISONS, Field, Offer, search
from beam_volumes.studio.tab import Slider, Tab, dialog

#: Functions that a search shows.
_OFFERS = 8
#: The colours of branches, in turn, and the pixels by which each is indented.
_COLOURS, _INDENT = ("#1565c0", "#c77700", "#2e7d32", "#8e24aa", "#c62828"), 16


class Cards:
    """The steps of the recipe as cards."""

    def __init__(self, tab: Tab) -> None:
        self._tab, self._document = tab, tab.workspace.document
        self._problems: dict[str, ui.label] = {}
        #: The step that is dragged by its handle.
        self._dragged = ""
        self._problem = ui.label().classes("text-red-700 text-sm studio-text")
        self._words = ui.input("add a function", on_change=self._search)
        self._words.props("dense clearable outlined debounce=150").classes("w-full")
        # The field has sent its text when the key comes up.
        self._words.on("keyup.enter", self._add_first)
        self._offers = ui.column().classes("w-full gap-0")
        self._cards = ui.column().classes("w-full gap-2")

    def build(self) -> None:
        """Make the cards again."""
        self._search()
        self._cards.clear()
        self._problems = {}
        items, branches = self._document.items(), self._document.branches()
        known = self._tab.workspace.state().known
        with self._cards:
            for name in self._document.inputs():
                with self._card(branches[name]):
                    self._title(name, "input", True)
                    about = repr(known.get(name, "")).rpartition(": ")[2].rstrip(">")
                    ui.label(about).classes("text-xs studio-text")
            for k, item in enumerate(items):
                branch = branches.get(item.name, Branch(0))
                card = self._card(branch).classes("" if item.is_enabled else "opacity-50")
                card.on("dragover.prevent", js_handler="() => {}")
                card.on("drop.prevent", lambda k=k: self._drop(k))
                with card:
                    with ui.row().classes("w-full items-center gap-0 no-wrap"):
                        handle = ui.icon("drag_indicator").props("draggable=true")
                        handle.classes("cursor-grab").tooltip("drag to another position")
                        handle.on("dragstart", lambda n=item.name: setattr(self, "_dragged", n))
                        self._title(item.name, item.op, item.is_enabled)
                        self._tools(item.name, item.op, k, len(items), item.is_enabled)
                    if branch.sources:
                        ui.label(f"from {', '.join(branch.sources)}").classes("text-xs")
                    self._problems[item.name] = ui.label().classes(
                        "text-red-700 text-sm studio-text"
                    )
                    if item.is_enabled:
                        self._fields(item.name, item.given)

    def _card(self, branch: Branch) -> ui.card:
        """Return a card with the indentation and the colour of its branch."""
        colour = _COLOURS[branch.lane % len(_COLOURS)]
        indent = _INDENT * min(branch.lane, len(_COLOURS) - 1)
        style = f"border-left: 4px solid {colour}; margin-left: {indent}px; width: auto"
        return ui.card().classes("self-stretch gap-1").style(style)

    def _drop(self, k: int) -> None:
        """Move the dragged step to a position."""
        name, self._dragged = self._dragged, ""
        if name:
            self._tab.attempt(lambda: self._document.move(name, k))

    def show_errors(self, errors: dict[str, str]) -> None:
        """Show messages on their cards, and others above them."""
        for name, label in self._problems.items():
            label.text = errors.get(name, "")
        self._problem.text = "; ".join(e for n, e in errors.items() if n not in self._problems)

    def _title(self, name: str, op: str, is_enabled: bool) -> None:
        text = name if op in (name, "input") else f"{name}: {op}"
        button = ui.button(text, on_click=lambda: self._tab.change(after=name))
        button.props("flat dense no-caps align=left").set_enabled(is_enabled)
        button.classes("grow text-left" + (" font-bold" if name == self._tab.after else ""))
        if op in operations():
            button.tooltip(operations()[op].summary)

    def _tools(self, name: str, op: str, k: int, many: int, is_enabled: bool) -> None:
        document, button = self._document, self._tab.icon_button
        if k > 0:
            button("arrow_upward", f"move {name} up", lambda: document.move(name, k - 1))
        if k < many - 1:
            button("arrow_downward", f"move {name} down", lambda: document.move(name, k + 1))
        icon, what = ("visibility", "disable") if is_enabled else ("visibility_off", "enable")
        button(icon, f"{what} {name}", lambda: document.enable(name, not is_enabled))
        button("content_copy", f"duplicate {name}", lambda: document.duplicate(name))
        button("delete", f"remove {name}", lambda: document.remove(name))
        button("help_outline", f"help about {name}", lambda: self._help(op))

    def _help(self, op: str) -> None:
        """Show the help texts of a function and its parameters."""
        operation = operations().get(op)
        if operation is None:
            return
        texts = [f"**{p.name}** ({p.kind}): {p.text}" for p in operation.parameters.values()]
        with dialog() as shown:
            ui.label(op).classes("text-lg")
            ui.markdown("\n\n".join([operation.summary, *texts]))
            ui.button("close", on_click=shown.close)

    def _fields(self, name: str, given: dict[str, Any]) -> None:
        found = self._tab.workspace.fields(name)
        usual = [f for f in found if f.key in given or "." in f.key]
        visible = usual or [f for f in found if f.key != "input"][:1]
        for item in visible:
            self._field(name, item)
        with ui.expansion("more").props("dense").classes("w-full text-sm"):
            for item in found:
                if item not in visible:
                    self._field(name, item)

    def _field(self, name: str, item: Field) -> None:
        def change(value: Any) -> None:
            self._tab.edit_field(name, item.key, value)

        label = item.label
        element: Any
        if item.kind == "flag":
            element = ui.switch(label, value=item.value, on_change=lambda e: change(e.value))
        elif item.kind in ("choice", "volume"):
            options = {c: str(c) for c in (*item.choices, item.value)}
            if None in options:
                options[None] = "the step before" if item.key == "input" else "none"
            element = ui.select(
                options, value=item.value, label=label, on_change=lambda e: change(e.value)
            ).props("dense")
        else:
            element = self._text_field(name, label, item, change)
        element.classes("w-full")
        if item.text:
            element.tooltip(item.text)

    def _text_field(
        self, name: str, label: str, item: Field, change: Callable[[Any], None]
    ) -> ui.input:
        """Return a text for a value as YAML, with a slider for numbers."""

        def typed() -> None:
            text = (element.value or "").strip()
            try:
                value = parse_value(text, label).plain() if text else None
            except ValueError as error:
                ui.notify(str(error), type="negative")
                return
            change(value)
            if slider is not None and isinstance(value, int | float) and not item.unit:
                slider.value = float(value)
            elif slider is not None and value != item.value:
                self.build()  # for the range of another unit

        slider: Slider | None = None
        shown = "" if item.value in (None, "") else flow_text(item.value)
        element = ui.input(label, value=shown).props("dense")
        if item.default is not None:
            element.props["placeholder"] = flow_text(item.default)
        elif item.key_of_number:
            element.props["placeholder"] = f"{{{item.key_of_number}: radius}}"
        if item.is_length and not item.unit:
            element.props('suffix="voxels"')
        element.on("change", typed)
        if item.kind != "number":
            return element

        def slid(e: Any) -> None:
            number = int(e.value) if item.step == 1 else float(f"{e.value:.6g}")
            value: Any = f"{number} {item.unit}" if item.unit else number
            if item.key_of_number:
                value = {item.key_of_number: number} if number else None
            if parse_value(element.value or "", label).plain() != value:
                element.value = "" if value is None else flow_text(value)
                change(value)

        number = item.value
        if isinstance(number, dict):
            (number,) = number.values()
        number = number.split()[0] if isinstance(number, str) else number or 0
        slider = Slider(
            min=item.low, max=item.high, step=item.step, value=float(number), on_change=slid
        )
        slider.props(f'dense aria-label="{name} {label}"')
        return element

    def _search(self) -> None:
        """Show functions for the words, or comparisons with the number that is selected."""
        self._offers.clear()
        with self._offers:
            for offer in self._offered((self._words.value or "").strip()):
                with ui.row().classes("w-full items-center no-wrap gap-1"):
                    button = ui.button(offer.name, on_click=lambda n=offer.name: self._add(n))
                    button.props("flat dense no-caps").set_enabled(not offer.reason)
                    note = ui.label(offer.reason or offer.summary).classes("text-xs truncate")
                    note.tooltip(offer.reason or offer.summary)

    def _offered(self, words: str) -> list[Offer]:
        source, number = self._tab.workspace.of_number(self._tab.after)
        if not words:
            return [Offer(n, operations()[n].summary) for n in COMPARISONS if number]
        return search(words, self._tab.workspace.state().item(source), _OFFERS)

    def _add_first(self) -> None:
        """Add the best function for the words."""
        words = (self._words.value or "").strip()
        best = next(iter(self._offered(words)), None) if words else None
        if best is not None and not best.reason:
            self._add(best.name)

    def _add(self, op: str) -> None:
        def add() -> None:
            self._tab.after = self._tab.workspace.add(op, self._tab.after)
            self._words.value = ""

        self._tab.attempt(add)
