"""The cost of a recipe's run, the run itself, and the rows of its table."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.drive import compute
from beam_volumes.graph.table import ComputedTable
from beam_volumes.plan.plan import Plan
from beam_volumes.plan.run_options import RunOptions
from beam_volumes.recipes.build import Built, build
from beam_volumes.recipes.recipe import Recipe
from beam_volumes.recipes.registration import planned_registrations
from beam_volumes.runs.journal import find_run
from beam_volumes.session.begin import begin
from beam_volumes.show.pages.table_page import dataset_of, is_table
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.studio.jobs import Run
from beam_volumes.studio.preview import Previews
from beam_volumes.studio.state import State

#: Rows of a table that are shown.
MAX_ROWS = 2000


@dataclass(frozen=True)
class Cost:
    """What a run needs, or why it cannot begin."""

    plan: Plan | None = None
    error: str = ""
    #: An output that exists.
    warning: str = ""
    #: A line for each registration, which is planned even if the steps are not.
    registrations: tuple[str, ...] = ()


def on_page(text: str) -> str:
    """Return a message with the words of the page instead of keywords.

    >>> on_page("o.zarr exists: pass overwrite=True to replace it, or choose another path")
    "o.zarr exists: use 'replace existing outputs' to replace it, or choose another path"
    """
    text = re.sub(r"\bpass (?=(overwrite|resume)=True)", "use ", text)
    return text.replace("overwrite=True", "'replace existing outputs'").replace(
        "resume=True", "'resume'"
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """The first rows of a table of labels.

    >>> rows = Rows([{"label": 7, "centroid-0": 1, "centroid-1": 2}], "table", (1, 5, 4), (1, 2))
    >>> rows.place(rows.rows[0]), rows.of_label(7), rows.numbers()
    ((0.5, 0.3, 0.625), 0, ['label', 'centroid-0', 'centroid-1'])
    """

    rows: Sequence[Mapping[str, Any]]
    #: The step that measures the labels.
    step: str
    #: The shape of the labels along z, y and x, and the axes that users see.
    shape: Triple
    visible: tuple[int, ...]

    def numbers(self) -> list[str]:
        """Return the columns that have numbers."""
        return [n for n, v in self.rows[0].items() if isinstance(v, int | float)]

    def column(self, name: str) -> np.ndarray:
        """Return a column of numbers."""
        return np.array([row[name] for row in self.rows], np.float64)

    def of_label(self, label: int) -> int | None:
        """Return the row of a label; None if it has none."""
        return next((k for k, row in enumerate(self.rows) if row.get("label") == label), None)

    def place(self, row: Mapping[str, Any]) -> tuple[float, float, float] | None:
        """Return the position of an object by its row, from 0 to 1; None without bbox or centroid."""
        many = len(self.visible)
        if f"bbox-{2 * many - 1}" in row:
            centres = [(row[f"bbox-{k}"] + row[f"bbox-{k + many}"] - 1) / 2 for k in range(many)]
        elif f"centroid-{many - 1}" in row:
            centres = [row[f"centroid-{k}"] for k in range(many)]
        else:
            return None
        at = [0.5] * 3
        for a, centre in zip(self.visible, centres, strict=True):
            at[a] = min(max((int(centre + 0.5) + 0.5) / self.shape[a], 0.0), 1.0)
        return at[0], at[1], at[2]


class Runs:
    """Plans and runs the recipe that ``state`` returns, one run at a time; ``previews`` get the results."""

    def __init__(
        self, state: Callable[[], State], previews: Previews, memory: int | str | None
    ) -> None:
        self._state, self._previews, self.memory = state, previews, memory
        self.run: Run | None = None
        #: The runner; None runs in this process.
        self.runner: str | None = None
        #: The names of the results of the run.
        self._names: tuple[str | None, ...] = ()

    def cost(self) -> Cost:
        """Return the plan of a run in this process, or why there is none."""
        state = self._state()
        if state.recipe is None:
            return Cost(error=next(iter(state.errors.values()), "the recipe has errors"))
        try:
            memory = self._options(state.recipe).memory_bytes
            planned = planned_registrations(state.recipe, memory, given=state.known)
        except (ValueError, TypeError, OSError) as error:
            return Cost(error=on_page(str(error)))
        return replace(
            self._cost_of_steps(state, state.recipe), registrations=(*map(str, planned),)
        )

    def _cost_of_steps(self, state: State, recipe: Recipe) -> Cost:
        if state.errors:
            return Cost(error=next(iter(state.errors.values())))
        try:
            options = self._options(recipe)
            plan = compute.plan_run(self._built(recipe).targets, options)
        except (ValueError, TypeError, OSError) as error:
            return Cost(error=on_page(str(error)))
        try:
            begin(plan, options)
        except OutputExistsError as error:
            return Cost(plan, warning=on_page(str(error)))
        except (ValueError, OSError) as error:
            return Cost(plan, error=on_page(str(error)))
        return Cost(plan)

    def start(self, overwrite: bool = False) -> Run:
        """Run the recipe in a thread."""
        recipe = self._ready()
        self._previews.results.clear()  # the run may replace their files
        return self._begin(recipe, overwrite=overwrite)

    def resume(self) -> Run:
        """Continue the run that was stopped; it fails if the recipe computes something else now."""
        recipe = self._ready()
        path = next((o.path for o in recipe.outputs if o.path is not None), None)
        if path is None:
            raise ValueError("the recipe writes no output, so no run of it can be resumed")
        return self._begin(recipe, resume=path)

    def _begin(self, recipe: Recipe, overwrite: bool = False, resume: str | None = None) -> Run:
        built = self._built(recipe)
        options = replace(self._options(recipe), overwrite=overwrite, resume=resume is not None)

        def run(progress: Any, stop: threading.Event) -> compute.Outcome:
            if resume is not None:
                find_run(resume)  # without it this would be a new run
            outcome = compute.run(
                built.targets,
                replace(options, progress=progress),
                note=built.names,
                recipe=built.recipe,
                stop=stop if options.runner is None else None,
            )
            self._previews.add_results(built.targets, outcome.results)
            return outcome

        self._names, self.run = built.names, Run(run)
        return self.run

    def rows(self) -> Rows | None:
        """Return the first rows of the first table of the run that has ended."""
        outcome = None if self.run is None else self.run.outcome
        for name, result in zip(
            self._names, () if outcome is None else outcome.results, strict=False
        ):
            if rows := _first_rows(result):
                step = str(name).partition("[")[0]
                state = self._state()
                volume = state.volume(state.input_of(step))
                return Rows(rows, step, volume.grid_shape, tuple(volume.space.visible))
        return None

    def stop(self) -> None:
        """Stop a run."""
        if self.run is not None:
            self.run.stop()

    # internals

    def _ready(self) -> Recipe:
        if self.run is not None and self.run.is_running:
            raise ValueError("a run is in progress; stop it first")
        state = self._state()
        if state.recipe is None or state.errors:
            raise ValueError(next(iter(state.errors.values()), "the recipe has errors"))
        return state.recipe

    def _options(self, recipe: Recipe) -> RunOptions:
        own = RunOptions(runner=self.runner, progress=False, base=None, memory=self.memory)
        return own.or_else(**recipe.options)

    def _built(self, recipe: Recipe) -> Built:
        given = {n: v for n, v in self._state().known.items() if n in recipe.inputs}
        return build(recipe, given=given)


def _first_rows(result: Any) -> list[dict[str, Any]]:
    """Return the first rows of a table that a run has returned or written; none of other results."""
    if isinstance(result, ComputedTable):
        return result.to_pyarrow().slice(0, MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
    if isinstance(result, str) and is_table(result):
        return dataset_of(result).head(MAX_ROWS).to_pylist()  # type: ignore[no-any-return]
    return []
