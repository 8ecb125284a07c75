"""A recipe that is being edited, with its volumes, views, plan and run; no web server is involved."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

import numpy as np

from beam_volumes.drive import compute
from beam_volumes.graph.protocols import nothing_computed
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.table import ComputedTable, Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import Built, apply, build, open_input
from beam_volumes.recipes.catalogue import operations
from beam_volumes.recipes.document import RecipeError, printed
from beam_volumes.recipes.recipe import Input, Recipe, parse_recipe, split_name
from beam_volumes.session.begin import begin
from beam_volumes.show.pages.table_page import dataset_of, is_table
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.studio import palette
from beam_volumes.studio.document import Document
from beam_volumes.studio.jobs import Latest, Run
from beam_volumes.studio.preview import Previews, Region, Unavailable, View

#: Rows of a table that are shown.
MAX_ROWS = 2000
_LINE = re.compile(r"recipe:(\d+): ")


@dataclass(frozen=True)
class State:
    """The result of applying a recipe lazily, as far as that is possible."""

    text: str
    recipe: Recipe | None = None
    #: Volumes, numbers and tables by the name of their input or step.
    known: dict[str, Any] = field(default_factory=dict)
    #: Messages by step or input; under an empty name messages about the whole recipe.
    errors: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What a run needs, or why it cannot begin."""

    plan: Plan | None = None
    error: str = ""
    #: An output that exists.
    warning: str = ""


class Folders:
    """The folders of files that may be read and written; all others are refused.

    Examples
    --------
    >>> Folders(["/data"]).check("/data/em.zarr")
    >>> Folders(["/data"]).check("/data/../etc/passwd")
    Traceback (most recent call last):
    ValueError: /data/../etc/passwd is outside of the folders of this studio, /data; start it with that folder
    """

    def __init__(self, folders: Iterable[str], urls: Iterable[str] = ()) -> None:
        self.folders = list(dict.fromkeys(os.path.realpath(f) for f in folders))
        #: URLs that were given at the start.
        self.urls = set(urls)

    def check(self, path: str) -> None:
        """Raise ValueError for a place that is not below the folders."""
        if "://" in path:
            allowed = path in self.urls
        else:
            full = os.path.realpath(os.path.expanduser(path))
            allowed = any(os.path.commonpath([full, f]) == f for f in self.folders)
        if not allowed:
            raise ValueError(
                f"{path} is outside of the folders of this studio, {', '.join(self.folders)}; start it "
                "with that folder"
            )

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise ValueError if a recipe reads or writes anything else."""
        for item in recipe.inputs.values():
            if not isinstance(item.what, str):
                raise ValueError(f"the input {item.name!r} is a TensorStore spec; give a path")
            self.check(item.what)
        for output in recipe.outputs:
            if output.path is not None:
                self.check(output.path)
        for step in recipe.steps.values():
            for text in _texts([e.plain() for e in step.parameters.values()]):
                if "://" in text or os.path.exists(os.path.expanduser(text)):
                    self.check(text)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inside for text in _texts(part)]


class Workspace:
    """A document with everything that is shown of it. Safe to use from several threads.

    Parameters
    ----------
    document : Document
    folders : Folders
    given : dict, optional
        Inputs by name that are volumes of this process; they are not opened.
    memory : int or str, optional
        Memory for views and runs, as for `beam_volumes.compute`.
    """

    def __init__(
        self,
        document: Document,
        folders: Folders,
        given: Mapping[str, Volume] | None = None,
        memory: int | str | None = None,
    ) -> None:
        self.document, self.folders, self.given = document, folders, dict(given or {})
        self.previews = Previews(memory)
        self.run: Run | None = None
        self._memory = memory
        self._jobs: WeakSet[Latest] = WeakSet()
        self._opened: dict[str, Volume] = {}
        self._state = State("")
        self._lock = threading.RLock()

    # the recipe

    def state(self) -> State:
        """Return the volumes, numbers and tables of the recipe as it is now, and its errors."""
        with self._lock:
            text = self.document.text
            if self._state.text != text:
                self._state = self._evaluated(text)
            return self._state

    def change(self, edit: Callable[[Document], Any]) -> Any:
        """Edit the document; an edit that leaves no readable recipe is undone, with a ValueError."""
        with self._lock:
            return edit(self.document)

    def add(self, op: str, after: str) -> str:
        """Add a step after an input or a step, with parameters to begin with; return its name."""
        operation = operations()[op]
        with self._lock:
            names = [item.name for item in self.document.items()]
            index = names.index(after) + 1 if after in names else 0
            item = self.state().known.get(after)
            low, high = self.levels(after) if not operation.parameters else (0.0, 1.0)
            middle = (low + high) / 2
            whole = isinstance(item, Volume) and item.dtype.kind in "iu"
            given = palette.start(
                operation, after, round(middle) if whole else float(f"{middle:.4g}")
            )
            if index == 0 and "inputs" not in given and len(self.document.inputs()) > 1:
                given = {"input": after, **given}
            name = self.document.insert(index, op, given)
            if operation.gives in ("table", "number") and index == len(names):
                self._write_too(name, after, operation.gives == "table")
            return name

    def _write_too(self, name: str, last: str, is_table: bool) -> None:
        """Add a table or a number to the outputs; outputs of the last step keep their volume."""
        outputs = [{"step": last, **o} for o in self.document.outputs()]
        path = {"path": f"{name}.parquet"} if is_table else {}
        self.document.set_outputs([*outputs, {"step": name, **path}])

    def set_field(self, name: str, key: str, value: Any) -> None:
        """Set a field of a step: a parameter, or ``inputs.1`` for the second input."""
        with self._lock:
            base, dot, number = key.partition(".")
            if dot:
                inputs = list(self.document.item(name).given["inputs"])
                inputs[int(number)] = value
                base, value = "inputs", inputs
            self.document.set(name, base, value)

    def fields(self, name: str) -> list[palette.Field]:
        """Return the fields of a step for a form."""
        item = self.document.item(name)
        state = self.state()
        others = [n for n, v in state.known.items() if n != name and not isinstance(v, Table)]
        before = self.input_of(name)
        volume = state.known.get(before)
        shown = volume if isinstance(volume, Volume) else None
        return palette.fields(item.op, item.given, others, lambda: self.levels(before), shown)

    def input_of(self, name: str) -> str:
        """Return the name of the first input of a step."""
        recipe = self.state().recipe
        step = None if recipe is None else recipe.steps.get(name)
        first = step.inputs[0].value if step is not None else None
        return split_name(first)[0] if isinstance(first, str) else ""

    def levels(self, name: str) -> tuple[float, float]:
        """Return the range of a volume's intensities: of its dtype for bytes, else of a sample."""
        item = self.state().known.get(name)
        if not isinstance(item, Volume):
            return 0.0, 1.0
        if item.dtype.itemsize == 1:
            return (0.0, 1.0) if item.dtype.kind == "b" else _limits(item.dtype)
        try:
            _, low, high = self.previews.histogram(item)
        except ValueError:
            return 0.0, 1.0
        return low, high

    # views and costs

    def view(self, name: str, region: Region, stop: threading.Event | None = None) -> View:
        """Return sections of an input or a step; Unavailable if it has none."""
        state = self.state()
        item = state.known.get(name)
        if isinstance(item, tuple) and item and isinstance(item[0], Volume):
            item = item[0]
        if not isinstance(item, Volume):
            kind = "a table" if isinstance(item, Table) else "a number"
            reason = kind if item is not None else state.errors.get(name) or "not known yet"
            raise Unavailable(f"{name}: {reason}")
        return self.previews.view(item, region, stop)

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
        text = (
            f"{values[()]:.6g}" if values.ndim == 0 and values.dtype.kind in "iuf" else str(values)
        )
        return f"~ {text}" if estimated else text

    def cost(self) -> Cost:
        """Return the plan of a run in this process, or why there is none."""
        state = self.state()
        if state.recipe is None or state.errors:
            return Cost(error=next(iter(state.errors.values()), "the recipe has errors"))
        try:
            options = self._options(state.recipe)
            plan = compute.plan_run(self._built(state.recipe).targets, options)
        except (ValueError, TypeError, OSError) as error:
            return Cost(error=str(error))
        try:
            begin(plan, options)
        except OutputExistsError as error:
            return Cost(plan, warning=str(error).partition(": pass")[0])
        except (ValueError, OSError) as error:
            return Cost(plan, error=str(error))
        return Cost(plan)

    # runs

    def start(self, overwrite: bool = False) -> Run:
        """Run the recipe in a thread."""
        recipe = self._ready()
        built = self._built(recipe)
        options = replace(self._options(recipe), overwrite=overwrite)

        def work(progress: Any, stop: threading.Event) -> compute.Outcome:
            return compute.run(
                built.targets,
                replace(options, progress=progress),
                note=built.names,
                recipe=built.recipe,
                stop=stop,
            )

        self.run = Run(work)
        return self.run

    def resume(self) -> Run:
        """Continue the run of the first output that was stopped."""
        recipe = self._ready()
        path = next((o.path for o in recipe.outputs if o.path is not None), None)
        if path is None:
            raise ValueError("the recipe writes no output, so no run of it can be resumed")
        options = replace(self._options(recipe), memory=self._memory)

        def work(progress: Any, stop: threading.Event) -> compute.Outcome | None:
            found = compute.resume(path, replace(options, progress=progress), stop)
            return None if found is None else found[0]

        self.run = Run(work)
        return self.run

    def rows(self) -> list[dict[str, Any]]:
        """Return the first rows of the first table of the run that has ended."""
        outcome = None if self.run is None else self.run.outcome
        for result in () if outcome is None else outcome.results:
            if isinstance(result, ComputedTable):
                return result.to_pyarrow().slice(0, MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
            if isinstance(result, str) and is_table(result):
                return dataset_of(result).head(MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
        return []

    def place(self, row: Mapping[str, Any]) -> tuple[float, float, float] | None:
        """Return the position of an object by its row, from 0 to 1; None without bbox or centroid."""
        volume = next(v for v in self.state().known.values() if isinstance(v, Volume))
        visible = volume.space.visible
        many = len(visible)
        if f"bbox-{2 * many - 1}" in row:
            centres = [(row[f"bbox-{k}"] + row[f"bbox-{k + many}"] - 1) / 2 for k in range(many)]
        elif f"centroid-{many - 1}" in row:
            centres = [row[f"centroid-{k}"] for k in range(many)]
        else:
            return None
        at = [0.5] * 3
        for a, centre in zip(visible, centres, strict=True):
            at[a] = min(max((int(centre + 0.5) + 0.5) / volume.grid_shape[a], 0.0), 1.0)
        return at[0], at[1], at[2]

    def save(self, path: str) -> None:
        """Write the recipe."""
        self.folders.check(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.document.text)

    def latest(self) -> Latest:
        """Return a queue of jobs that `close` stops, too."""
        made = Latest()
        self._jobs.add(made)
        return made

    def stop(self) -> None:
        """Stop a run."""
        if self.run is not None:
            self.run.stop()

    def close(self) -> None:
        """Stop a run and all jobs, for which the process would wait at its end."""
        self.stop()
        for jobs in list(self._jobs):
            jobs.close()

    # internals

    def _ready(self) -> Recipe:
        if self.run is not None and self.run.is_running:
            raise ValueError("a run is in progress; stop it first")
        state = self.state()
        if state.recipe is None or state.errors:
            raise ValueError(next(iter(state.errors.values()), "the recipe has errors"))
        return state.recipe

    def _options(self, recipe: Recipe) -> RunOptions:
        own = RunOptions(runner=None, progress=False, base=None, memory=self._memory)
        return own.or_else(**recipe.options)

    def _built(self, recipe: Recipe) -> Built:
        given = {n: v for n, v in self.state().known.items() if n in recipe.inputs}
        return build(recipe, given=given)

    def _evaluated(self, text: str) -> State:
        try:
            recipe = parse_recipe(text)
            self.folders.check_recipe(self._read_from_files(recipe))
        except ValueError as error:
            return replace(self._state, text=text, recipe=None, errors=self._placed(text, error))
        known: dict[str, Any] = {}
        errors: dict[str, str] = {}
        for item in recipe.inputs.values():
            try:
                known[item.name] = self._open(item)
            except RecipeError as error:
                errors[item.name] = _plain(error)
        for name in recipe.order:
            step = recipe.steps[name]
            needed = {split_name(e.value)[0] for e in step.references()}
            if missing := needed - known.keys():
                errors[name] = f"needs {', '.join(sorted(missing))}, which has an error"
                continue
            try:
                with nothing_computed():
                    known[name] = apply(step, known)
            except RecipeError as error:
                errors[name] = _plain(error)
        return State(text, recipe, known, errors)

    def _read_from_files(self, recipe: Recipe) -> Recipe:
        inputs = {n: i for n, i in recipe.inputs.items() if n not in self.given}
        return replace(recipe, inputs=inputs)

    def _open(self, item: Input) -> Volume:
        if item.name in self.given:
            return self.given[item.name]
        key = repr((item.what, item.options))
        if key not in self._opened:
            self._opened[key] = open_input(item)
        return self._opened[key]

    def _placed(self, text: str, error: ValueError) -> dict[str, str]:
        """Return a message under the name of the step that has the line of the error."""
        found = _LINE.match(str(error))
        line = int(found[1]) - 1 if found else -1
        try:
            items = self.document.items()
        except (ValueError, AttributeError):
            items = []
        name = next((i.name for i in items if i.line <= line < i.lines[1]), "")
        return {name: _plain(error)}


def _plain(error: Exception) -> str:
    return _LINE.sub("", str(error))


def _limits(dtype: np.dtype) -> tuple[float, float]:
    info = np.iinfo(dtype)
    return float(info.min), float(info.max)


def new_text(inputs: Mapping[str, str], output: str) -> str:
    """Return a recipe without steps.

    Examples
    --------
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
