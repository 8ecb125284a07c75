"""A recipe that is being edited, with its volumes, views, plan and run; no web server is involved."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import numpy as np

from beam_volumes.base.text import format_number
from beam_volumes.drive.compute import run
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.components import label
from beam_volumes.ops.labels.scores import variation_of_information
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import printed
from beam_volumes.recipes.recipe import read_text
from beam_volumes.show.colours import is_labels
from beam_volumes.show.viewer.layers import PIXELS
from beam_volumes.show.viewer.view import Viewer
from beam_volumes.storage.places.single_file import write_file
from beam_volumes.studio import palette
from beam_volumes.studio.document import Document
from beam_volumes.studio.jobs import Latest
from beam_volumes.studio.preview import Previews, Region, View
from beam_volumes.studio.runs import Rows, Runs
from beam_volumes.studio.state import Evaluator, Folders, State

#: Begins the names of inputs and steps of the other recipe.
OTHER = "other: "


class FileChanged(ValueError):
    """A file holds a recipe that was not loaded, or has changed since."""


@dataclass(frozen=True)
class Agreement:
    """Scores of two masks or label volumes; the objects of a mask are its connected components."""

    #: The overlap of all objects, from 0 to 1; NaN if there are none.
    dice: float
    #: Bits of the variation of information: false splits and false merges of the second volume.
    split: float
    merge: float
    #: Numbers of objects.
    counts: tuple[int, int]

    def __str__(self) -> str:
        before, after = self.counts
        return (
            f"objects: {before:,} and {after:,}; Dice {self.dice:.4g}; variation of information "
            f"{self.split + self.merge:.4g} bits ({self.split:.4g} by splits, {self.merge:.4g} by merges)"
        )


def _compared(before: np.ndarray, after: np.ndarray) -> Agreement:
    """Compare two arrays of one shape.

    >>> print(_compared(np.array([[1, 1, 0, 2]]), np.array([[1, 0, 0, 2]])))
    objects: 2 and 2; Dice 0.8; variation of information 1 bits (0.5 by splits, 0.5 by merges)
    """
    a, b = before > 0, after > 0
    total = int(np.count_nonzero(a)) + int(np.count_nonzero(b))
    dice = 2 * int(np.count_nonzero(a & b)) / total if total else np.nan
    first, second = (label(v) if v.dtype == bool else v for v in map(as_volume, (before, after)))
    counts = [len(np.setdiff1d(np.asarray(v), [0])) for v in (first, second)]
    options = RunOptions(runner=None, progress=False)
    split, merge = run(variation_of_information(first, second), options).results
    return Agreement(dice, float(split), float(merge), (counts[0], counts[1]))


class Workspace:
    """A document with everything that is shown of it; safe to use from several threads.

    Inputs ``given`` by name are volumes of this process. ``loaded`` is the text of the recipe's file by path.
    """

    def __init__(
        self,
        document: Document,
        folders: Folders,
        given: Mapping[str, Volume] | None = None,
        memory: int | str | None = None,
        loaded: Mapping[str, str] | None = None,
    ) -> None:
        self.document, self.folders = document, folders
        #: The texts of files as they were last loaded or saved.
        self._loaded = {os.path.realpath(path): text for path, text in (loaded or {}).items()}
        self.previews = Previews(memory)
        #: Another recipe, to compare with.
        self.other = State("")
        self._jobs: WeakSet[Latest] = WeakSet()
        self._evaluator = Evaluator(folders, given or {})
        self._state = State("")
        self._lock = threading.RLock()
        self.runs = Runs(self.state, self.previews, memory)

    # the recipe

    def state(self) -> State:
        """Return the volumes, numbers and tables of the recipe as it is now, and its errors."""
        with self._lock:
            text = self.document.text
            if self._state.text != text:
                self._state = self._evaluator.state(text, self._state)
            return self._state

    def add(self, op: str, after: str) -> str:
        """Add a step after an input or a step, with parameters to begin with; return its name."""
        # After a number, such as a threshold, the step gets the volume that the number describes. If it is
        # arithmetic or a comparison, it gets the number, too. After a step with several results it gets the
        # first, unless it accepts all of them. After a disabled step it gets the last enabled step, or input,
        # above.
        operation = operations()[op]
        with self._lock:
            items, inputs = self.document.items(), self.document.inputs()
            names = [item.name for item in items]
            index = names.index(after) + 1 if after in names else 0
            above = [*inputs, *(item.name for item in items[:index] if item.is_step)]
            after = after if after in above else above[-1]
            source, number = self.of_number(after)
            item = self.state().item(source)
            is_part = isinstance(item, tuple) and not operation.is_of_many
            if is_part:
                source, item = f"{source}.0", item[0]
            low, high = self.levels(source) if not operation.parameters else (0.0, 1.0)
            middle = (low + high) / 2
            whole = isinstance(item, Volume) and item.dtype.kind in "iu"
            level = round(middle) if whole else float(f"{middle:.4g}")
            volume = item if isinstance(item, Volume) else None
            given = palette.start(operation, source, level, volume, number)
            is_unclear = after in inputs and len(inputs) > 1
            if (number or is_unclear or is_part) and "inputs" not in given:
                given = {"input": source, **given}
            name = self.document.insert(index, op, given)
            if operation.gives == "table" and index == len(names):
                outputs = [*self.document.outputs(), {"step": name, "path": f"{name}.parquet"}]
                self.document.set_outputs(outputs)
            return name

    def of_number(self, name: str) -> tuple[str, str]:
        """Return the volume that a number describes, and the step; the step and no text for others.

        Of several numbers it is the first.
        """
        item = self.state().item(name)
        if isinstance(item, tuple) and isinstance(item[0], Scalar):
            name, item = f"{name}.0", item[0]
        return (self.shown(name), name) if isinstance(item, Scalar) else (name, "")

    def set_field(self, name: str, key: str, value: Any) -> None:
        """Set a field of a step: a parameter, or ``inputs.1`` for the second input."""
        with self._lock:
            base, dot, number = key.partition(".")
            if dot:
                inputs = list(self.document.item(name).given["inputs"])
                inputs[int(number)] = value
                base, value = "inputs", inputs
            instead = {"footprint": "size", "size": "footprint"}.get(base, "")
            self.document.set(name, base, value, instead_of=instead if value else "")

    def fields(self, name: str) -> list[palette.Field]:
        """Return the fields of a step for a form."""
        item = self.document.item(name)
        state = self.state()
        others = []
        for n, found in state.known.items():
            if n != name and not isinstance(found, Table):
                parts = len(found) if isinstance(found, tuple) else 0
                others += [n, *(f"{n}.{k}" for k in range(parts))]
        before = state.input_of(name)
        volume = state.item(before)
        shown = volume if isinstance(volume, Volume) else None
        return palette.fields(item.op, item.given, others, lambda: self.levels(before), shown)

    def levels(self, name: str) -> tuple[float, float]:
        """Return the range of a volume's intensities: of its dtype for bytes, else of a sample."""
        item = self.state().item(name)
        if not isinstance(item, Volume):
            return 0.0, 1.0
        if item.dtype.itemsize == 1:
            return (0.0, 1.0) if item.dtype.kind == "b" else _limits(item.dtype)
        try:
            _, low, high = self.previews.histogram(item)
        except ValueError:
            return 0.0, 1.0
        return low, high

    # views

    def shown(self, name: str) -> str:
        """Return the step to show in sections: for a table or a number its input."""
        state = self.state()
        while isinstance(state.item(name), Table | Scalar) and state.input_of(name):
            name = state.input_of(name)
        return name

    def volume(self, name: str) -> Volume:
        """Return the volume of an input or a step, also of the other recipe; Unavailable if it has none."""
        is_other = name.startswith(OTHER)
        return (self.other if is_other else self.state()).volume(name.removeprefix(OTHER))

    def view(self, name: str, region: Region, stop: threading.Event | None = None) -> View:
        """Return sections of an input or a step; Unavailable if it has none."""
        return self.previews.view(self.volume(name), region, stop)

    def agreement(
        self, before: str, after: str, region: Region, stop: threading.Event | None = None
    ) -> Agreement | None:
        """Compare two masks or label volumes around a position; None for other steps."""
        a, b = self.volume(before), self.volume(after)
        if a.grid_shape != b.grid_shape or not all(
            v.dtype.kind == "b" or is_labels(v) for v in (a, b)
        ):
            return None
        return _compared(*(self.previews.voxels(v, region, stop) for v in (a, b)))

    def compare_with(self, path: str = "") -> None:
        """Keep a recipe to compare with: the one in a file, or the recipe as it is now."""
        text = self.document.text
        if path:
            place = self.folders.check(path)
            _refuse_special(place, path)
            text = Document(read_text(place)).text
        found = self._evaluator.state(text, State(""))
        if not found.known:
            raise ValueError(next(iter(found.errors.values()), f"{path} has no steps"))
        self.other = found

    def names(self) -> list[str]:
        """Return the names of inputs and steps, and of volumes of the other recipe."""
        others = (n for n, item in self.other.known.items() if isinstance(item, Volume))
        return [*self.document.names(), *(f"{OTHER}{n}" for n in others)]

    def number(self, name: str, stop: threading.Event | None = None) -> str:
        """Return a number as text, marked with ~ while it is estimated; empty if it is none."""
        item = self.state().known.get(name)
        if not isinstance(item, Scalar):
            return ""
        try:
            found, estimated = self.previews.number(item, stop)
        except ValueError:
            return "known after a run"
        values = np.asarray(found)
        is_one = values.ndim == 0 and values.dtype.kind in "iuf"
        text = format_number(values.item()) if is_one else str(values)
        return f"~ {text}" if estimated else text

    def viewer(
        self, names: Sequence[str], region: Region, mode: str, stop: threading.Event | None = None
    ) -> Viewer:
        """Serve steps to Neuroglancer, over each other or, for the mode ``side``, side by side."""
        viewer = Viewer({n: self.previews.part(self.volume(n), region, stop) for n in names})
        whole, state = self.volume(names[-1]), viewer.state
        lengths = zip(whole.space.origin, whole.space.voxel_size or (1.0,) * 3, strict=True)
        places = zip(lengths, region.at, whole.grid_shape, strict=True)
        state["position"] = [o / s + at * n for (o, s), at, n in places][::-1]
        state["crossSectionScale"] = region.side / PIXELS
        if mode == "side":
            layers = [layer["name"] for layer in state["layers"]]
            parts = [[x for x in layers if x == n or x.startswith(f"{n} ")] for n in names]
            views = [{"type": "viewer", "layers": part, "layout": "4panel"} for part in parts]
            state["layout"] = {"type": "row", "children": views}
        return viewer

    # tables

    def label_at(self, rows: Rows, region: Region, stop: threading.Event | None = None) -> int:
        """Return the label of a table where sections meet; 0 for none, or if labels are provisional."""
        view = self.view(self.state().input_of(rows.step), region, stop)
        return 0 if view.provisional else int(view.value(region.at))

    def add_gate(self, rows: Rows, ranges: Mapping[str, tuple[float, float]]) -> str:
        """Add steps that keep the objects with columns of a table in ranges; return the last name."""
        with self._lock:
            name, table = self.state().input_of(rows.step), {"step": rows.step}
            for column, (low, high) in ranges.items():
                given = {"input": name, "table": table, "column": column, "low": low, "high": high}
                name = self.document.insert(len(self.document.items()), "keep_labels", given)
            return name

    # files and jobs

    def save(self, path: str, overwrite: bool = False) -> None:
        """Write the recipe; FileChanged if that would replace a text that was not loaded here."""
        place = os.path.realpath(self.folders.check(path))
        if "://" in path or not all(
            name.lower().endswith((".yaml", ".yml")) for name in (path, place)
        ):
            raise ValueError(
                f"{path} is not a local path of a recipe; give one that ends in .yaml or .yml"
            )
        with self._lock, _locked(os.path.dirname(place)):
            text = self.document.text
            _refuse_special(place, path)
            if os.path.exists(place) and os.path.getsize(place):
                try:
                    found = read_text(place)
                    Document(found, path)
                except ValueError as error:
                    raise ValueError(
                        f"{path} is not a recipe; give a different name ({error})"
                    ) from None
                if not overwrite and found not in (self._loaded.get(place), text):
                    raise FileChanged(
                        f"{path} is a different recipe, or has changed since it was loaded"
                    )
            write_file(place, text.encode())
            self._loaded[place] = text

    def load(self, path: str) -> None:
        """Replace the recipe by the one in a file, as one change."""
        place = os.path.realpath(self.folders.check(path))
        _refuse_special(place, path)
        text = read_text(place)
        self.document.replace(text)
        self._loaded[place] = text

    def limit_memory(self, memory: int | str | None) -> None:
        """Set the memory of views and runs; None for the default."""
        self.previews.limit_memory(memory)
        self.runs.memory = memory

    def latest(self) -> Latest:
        """Return a queue of jobs that `close` stops, too."""
        made = Latest()
        self._jobs.add(made)
        return made

    def close(self) -> None:
        """Stop a run and all jobs, for which the process would wait at its end."""
        self.runs.stop()
        for jobs in list(self._jobs):
            jobs.close()


def _refuse_special(place: str, path: str) -> None:
    """Refuse a pipe, a device or a folder: opening one may block for ever."""
    if os.path.exists(place) and not os.path.isfile(place):
        raise ValueError(f"{path} is not a regular file; give the path of a recipe")


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Wait until no other studio saves a recipe in a folder."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # network disks may have no locks of folders
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # A process that was started meanwhile has the handle, too.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _limits(dtype: np.dtype) -> tuple[float, float]:
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def new_text(inputs: Mapping[str, str], output: str) -> str:
    """Return a recipe without steps.

    >>> print(new_text({"input": "em.zarr"}, "out.zarr"))
    input: em.zarr
    steps:
    output: out.zarr
    <BLANKLINE>
    """
    if len(inputs) == 1:
        head = printed({"input": next(iter(inputs.values()))})
    else:
        head = printed({"inputs": dict(inputs)})
    return f"{head}steps:\n{printed({'output': output})}"
