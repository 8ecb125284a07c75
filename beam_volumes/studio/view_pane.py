"""The middle pane: linked sections of a step, its histogram, and a note of provisional parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from nicegui import events, ui

from beam_volumes.base.space import AXES
from beam_volumes.base.text import format_number
from beam_volumes.graph.nodes import FoldValue
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.show.colours import is_labels
from beam_volumes.show.picture import png_uri
from beam_volumes.show.sampling import along
from beam_volumes.studio.jobs import Replaced
from beam_volumes.studio.palette import unit_of
from beam_volumes.studio.plots import AXIS, bars, labels, mark, scaled
from beam_volumes.studio.preview import (
    GAP,
    Unavailable,
    View,
    joined,
    overlaid,
    painted,
    side_by_side,
)
from beam_volumes.studio.tab import Slider, Tab

#: Pixels of the longest side of a section, and of the histogram.
SIZE, WIDTH, HEIGHT = 512, 300, 70
_SIDES = (128, 256, 512, 1024)
_MODES = {
    "step": "step",
    "curtain": "curtain",
    "side": "side by side",
    "overlay": "overlay",
}


@dataclass(frozen=True, eq=False)
class Shown:
    """The pictures and texts of a step."""

    remark: str
    view: View | None = None
    pictures: dict[int, np.ndarray] = field(default_factory=dict)
    histogram: tuple[np.ndarray, float, float] | None = None
    numbers: tuple[FoldValue, ...] = ()
    is_side_by_side: bool = False


class ViewPane:
    """Sections of the region that is looked at."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self._latest, self._numbers = tab.workspace.latest(), tab.workspace.latest()
        self._shown, self._exact = Shown(""), set[str]()
        self._is_dragged = False
        self.on_drag_end: Callable[[], None] = lambda: None
        #: Called after a click into a section.
        self.on_click: Callable[[], Any] = lambda: None
        self._images: dict[int, ui.interactive_image] = {}
        with ui.row().classes("items-center gap-2"):
            self._controls()
        with ui.row().classes("items-center gap-6"):
            with ui.column().classes("gap-1 w-[260px]"):
                self._positions = [self._position(a) for a in range(3)]
                self._time = self._slider("t", lambda t: tab.look(t=t))
            with ui.column().classes("gap-0"):
                self._histogram = ui.interactive_image(
                    size=(WIDTH, HEIGHT + AXIS),
                    on_mouse=self._drag,
                    events=["mousedown", "mousemove", "mouseup"],
                    sanitize=False,
                )
                self._histogram.classes("studio-histogram").style(f"width: {WIDTH}px")
                self._range = ui.label().classes("text-xs text-gray-600")
        self._remark = ui.label().classes("text-sm studio-text")
        with ui.row().classes("w-full gap-1 items-start"):
            for axis in (0, 2, 1):
                image = ui.interactive_image(
                    on_mouse=partial(self._click, axis), cross="#1976d2", sanitize=False
                )
                self._images[axis] = image.classes("studio-image")

    def _controls(self) -> None:
        tab = self._tab
        self._after = ui.select([], label="step", on_change=lambda e: self._choose(after=e.value))
        self._before = ui.select(
            [], label="before", on_change=lambda e: self._choose(before=e.value)
        ).classes("min-w-[72px]")
        self._mode = ui.toggle(
            _MODES, value=tab.mode, on_change=lambda e: tab.change(mode=e.value)
        ).props('dense no-caps padding="2px 8px"')
        self._curtain = Slider(
            min=0, max=1, step=0.01, value=0.5, on_change=lambda e: tab.change(curtain=e.value)
        )
        self._curtain.classes("w-20").props('aria-label="curtain"')
        ui.select(
            {s: f"{s} voxels" for s in _SIDES},
            value=tab.region.side,
            label="region",
            on_change=lambda e: tab.look(side=e.value),
        )
        self._channel = ui.select(
            {None: "all"}, label="channel", on_change=lambda e: tab.look(c=e.value)
        )
        self._channel.classes("w-24")
        with ui.row().classes("items-center gap-0 no-wrap") as self._busy:
            ui.spinner(size="sm")
            cancel = ui.button(icon="cancel", on_click=self._cancel).props("flat dense size=sm")
            cancel.props('aria-label="stop computing"').tooltip("stop computing")

    def _position(self, axis: int) -> Slider:
        def slid(value: int) -> None:
            n = self._shape()[axis]
            at = list(self._tab.region.at)
            if int(at[axis] * n) != value:
                at[axis] = (value + 0.5) / n
                self._tab.look(at=tuple(at))

        return self._slider(AXES[axis], slid)

    def _slider(self, axis: str, slid: Callable[[int], None]) -> Slider:
        with ui.row().classes("w-full no-wrap items-center gap-2") as row:
            ui.label(axis)
            slider = Slider(min=0, max=1, step=1, on_change=lambda e: slid(int(e.value)))
            slider.props(f'dense aria-label="position along {axis}"')
            place = ui.label().classes("text-xs shrink-0 whitespace-nowrap w-[84px]")
            place.bind_text_from(slider, "value", lambda k: self._place(axis, int(k or 0)))
            row.bind_visibility_from(slider)
        return slider

    def _place(self, axis: str, k: int) -> str:
        """Describe a position along an axis, with its length if the voxel size is known."""
        view = self._shown.view
        volume = None if view is None else view.sections.of
        if axis not in AXES or volume is None or not (unit := unit_of(volume)):
            return str(k)
        assert volume.space.voxel_size is not None
        return f"{k}, {k * volume.space.voxel_size[AXES.index(axis)]:.6g} {unit}"

    def _cancel(self) -> None:
        self._latest.stop()
        self._busy.set_visibility(False)
        self._remark.text = "stopped; a change of the recipe or the position computes again"

    def _choose(self, **values: Any) -> None:
        if None not in values.values():
            self._tab.change(**values)

    def _shape(self) -> tuple[int, ...]:
        view = self._shown.view
        return (1, 1, 1) if view is None else view.sections.of.grid_shape

    def _click(self, axis: int, e: events.MouseEventArguments) -> None:
        """Let the sections meet where the user has clicked."""
        view, picture = self._shown.view, self._shown.pictures.get(axis)
        if view is None or picture is None:
            return
        section = next(s for s in view.sections.sections if s.axis == axis)
        at, shape = list(self._tab.region.at), self._shape()
        rows, columns = picture.shape[:2]
        x = e.image_x
        if self._shown.is_side_by_side:
            columns = (columns - GAP) // 2
            x = x if x <= columns else x - columns - GAP
        for a, (begin, end), part in zip(
            along(axis), section.spans, (e.image_y / rows, x / columns), strict=True
        ):
            voxel = begin + int((end - begin) * min(max(part, 0), 0.9999))
            at[a] = (voxel + 0.5) / shape[a]
        self._tab.look(at=tuple(at))
        self.on_click()

    def _drag(self, e: events.MouseEventArguments) -> None:
        """Let the threshold follow the mouse."""
        step, histogram = self._tab.threshold_step(), self._shown.histogram
        self._is_dragged = self._is_dragged or e.type == "mousedown"
        if self._is_dragged and step and histogram is not None:
            _, low, high = histogram
            level = low + (high - low) * min(max(e.image_x / WIDTH, 0), 1)
            number = round(level) if high - low > 20 else float(f"{level:.4g}")
            self._tab.edit_field(step, "inputs.1", number)
        if e.type == "mouseup":
            self._is_dragged = False
            self.on_drag_end()

    # pictures and texts

    def choices(self, names: list[str]) -> None:
        """Offer the names of steps, and the channels and time points of the one that is shown."""
        tab = self._tab
        for select, value in ((self._after, tab.after), (self._before, tab.before)):
            select.set_options(names, value=value)
        self._mode.value = tab.mode
        self._before.set_visibility(tab.mode != "step")
        self._curtain.set_visibility(tab.mode == "curtain")
        volume = tab.workspace.state().item(tab.workspace.shown(tab.after))
        many, times = 1, 0
        channels: tuple[str, ...] = ()
        if isinstance(volume, Volume):
            many, times, channels = len(volume.nodes), volume.space.times, volume.channels
        self._channel.set_visibility(many > 1)
        self._channel.set_options(
            {None: "all", **dict(enumerate(channels))}, value=tab.region.c
        ) if many > 1 else None
        self._time.set_visibility(times > 1)
        self._time.props["max"] = max(1, times - 1)

    async def show(self) -> bool:
        """Show the sections and the histogram; False if a later call has replaced this one."""
        self._busy.set_visibility(True)
        try:
            found = await asyncio.wrap_future(self._latest.submit(self._compute))
        except Replaced:
            return False
        except Exception as error:  # shown to the user
            found = Shown(str(error))
        self._busy.set_visibility(False)
        self._shown = found
        self._remark.text = found.remark
        scale = _scale({a: p.shape[:2] for a, p in found.pictures.items()})
        for axis, image in self._images.items():
            image.set_visibility(axis in found.pictures)
            if axis in found.pictures:
                image.style(f"width: calc({found.pictures[axis].shape[1]} * {scale})")
                image.set_source(png_uri(found.pictures[axis]))
        for slider, n, at in zip(self._positions, self._shape(), self._tab.region.at, strict=True):
            slider.set_visibility(n > 1)
            slider.props["max"] = n - 1
            slider.value = int(at * n)
        self._show_histogram()
        return True

    async def compute_exact(self) -> bool:
        """Compute exact numbers instead of the estimates that are shown; False if there are none."""
        numbers = self._shown.numbers
        tokens = {n.token for n in numbers}
        if not tokens or tokens == self._exact:
            return False
        self._exact = tokens
        previews = self._tab.workspace.previews
        try:
            job = self._numbers.submit(lambda stop: previews.compute_numbers(numbers, stop))
            return await asyncio.wrap_future(job)
        except Replaced:
            return False
        except Exception as error:  # shown to the user
            self._remark.text = f"{self._remark.text}; {error}"
            return False

    def _compute(self, stop: threading.Event) -> Shown:
        """Compute all of this pane, in a thread."""
        tab, workspace = self._tab, self._tab.workspace
        after, known = workspace.shown(tab.after), workspace.state().known
        texts = [f"{n} = {x}" for n in known if (x := workspace.number(n, stop))]
        if isinstance(known.get(tab.after), Table):
            texts.append(f"{tab.after}: a table")
        try:
            view = workspace.view(after, tab.region, stop)
        except Unavailable as error:
            return Shown("; ".join([str(error), *texts]))
        pictures, mode, before = painted(view, SIZE), tab.mode, workspace.shown(tab.before)
        if mode != "step" and before != after:
            first = painted(workspace.view(before, tab.region, stop), SIZE)
            mixes: dict[str, Callable[[Any, Any], np.ndarray]] = {
                "overlay": overlaid,
                "side": side_by_side,
                "curtain": partial(joined, part=tab.curtain),
            }
            pictures = {a: mixes[mode](first.get(a, p), p) for a, p in pictures.items()}
            found = workspace.agreement(before, after, tab.region, stop)
            texts += (
                [] if found is None else [f"{before} and {after}, around the position: {found}"]
            )
        source = workspace.state().input_of(after) if tab.threshold_step() else after
        item, histogram = workspace.state().item(source), None
        if isinstance(item, Volume) and item.dtype.kind != "b" and not is_labels(item):
            with suppress(ValueError):
                histogram = workspace.previews.histogram(item, tab.region, stop)
        remark = "as the run writes it"
        if view.provisional:
            remark = f"provisional: {'; '.join(view.provisional)}"
        texts = [f"{after}: {remark}", *texts]
        is_side_by_side = mode == "side" and before != after
        return Shown("; ".join(texts), view, pictures, histogram, view.numbers, is_side_by_side)

    def _show_histogram(self) -> None:
        found = self._shown.histogram
        self._histogram.set_visibility(found is not None)
        self._range.set_visibility(found is not None)
        if found is None:
            return
        counts, low, high = found
        top = f"{counts.max():,} voxels, logarithmic"
        content = bars(counts, WIDTH, HEIGHT) + labels((low, high), "intensity", WIDTH, HEIGHT, top)
        text = ""
        name = self._tab.threshold_step()
        if name:
            level = self._tab.workspace.document.item(name).given["inputs"][-1]
            x = float(scaled([level], (low, high), WIDTH)[0])
            content += mark((x, x), (0, HEIGHT))
            text = f"drag the line, {format_number(level)}"
        self._histogram.content, self._range.text = content, text

    def close(self) -> None:
        """Stop what only this pane waits for."""
        self._latest.close()
        self._numbers.close()


def _scale(shapes: Mapping[int, tuple[int, int]]) -> str:
    """Return the width of a pixel in CSS: sections of z and x, side by side, fill the width or the height.

    >>> _scale({0: (300, 400), 2: (300, 20), 1: (20, 400)})
    'min((100% - 8px) / 420, 75vh / 300)'
    """
    above = [shapes[axis] for axis in (0, 2) if axis in shapes] or [*shapes.values()]
    width = sum(columns for _, columns in above)
    height = max((rows for rows, _ in above), default=1)
    return f"min((100% - 8px) / {max(1, width)}, 75vh / {height})"
