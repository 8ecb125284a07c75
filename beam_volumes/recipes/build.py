"""Convert a checked recipe to targets for `beam_volumes.compute`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import beam_volumes as bv
from beam_volumes.graph.nodes import named
from beam_volumes.graph.protocols import nothing_computed
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.planner import Wanted
from beam_volumes.recipes.catalogue import crop as cropped
from beam_volumes.recipes.catalogue import footprints, is_of_tiles
from beam_volumes.recipes.document import Entry, RecipeError, load, placed
from beam_volumes.recipes.recipe import (
    Input,
    Recipe,
    RecipeOutput,
    RecipeStep,
    checked_recipe,
    split_name,
)


@dataclass(frozen=True)
class Built:
    """Targets and their names for users; results of targets named None are not printed.

    ``recipe`` is the source of the targets, as plain data.
    """

    targets: tuple[Wanted, ...]
    names: tuple[str | None, ...]
    recipe: Any = None


def build(
    recipe: Recipe,
    crop: str | Callable[[Volume], Volume] | None = None,
    given: Mapping[str, Volume] | None = None,
) -> Built:
    """Open the inputs, except those ``given`` by name, and apply the steps; only metadata are read.

    ``crop`` is a box for every input, or a function that crops them. A RecipeError contains the line.
    """
    for table, where in missing_tables(recipe).items():
        raise RecipeError(
            where,
            f"{table} does not exist yet: `beam-volumes run` writes it before it plans, and "
            "`beam-volumes check --words-only` does not need it",
        )
    with nothing_computed():
        return _built(recipe, crop, given)


def missing_tables(recipe: Recipe) -> dict[str, str]:
    """Return the tables of registrations that do not exist yet, with their places in the recipe."""
    tables = {r.files["table"]: r.where for r in recipe.registrations}
    return {table: where for table, where in tables.items() if not os.path.exists(table)}


def _built(
    recipe: Recipe,
    crop: str | Callable[[Volume], Volume] | None,
    given: Mapping[str, Volume] | None,
) -> Built:
    known = expressions(recipe, crop, given)
    targets: list[Wanted] = []
    names: list[str] = []
    for output in recipe.outputs:
        item = _found(output.step, known, output.where)
        for k, target in enumerate(_targets(output, item)):
            targets.append(target)
            names.append(f"{output.step}[{k}]" if isinstance(item, tuple) else output.step)
    # The recipe for the provenance of outputs includes the crop.
    made_from = recipe.document if crop is None else {**(recipe.document or {}), "crop": str(crop)}
    return Built(tuple(targets), tuple(names), made_from)


def expressions(
    recipe: Recipe,
    crop: str | Callable[[Volume], Volume] | None = None,
    given: Mapping[str, Volume] | None = None,
) -> dict[str, Any]:
    """Return inputs and steps of a recipe by name, as lazy volumes, numbers and tables.

    Inputs that are ``given`` are not opened.
    """
    known: dict[str, Any] = dict(given or {})
    known |= {i.name: open_input(i, crop) for i in recipe.inputs.values() if i.name not in known}
    for name in recipe.order:
        step = recipe.steps[name]
        known[name] = _named(apply(step, known), name)
        axis = step.parameters.get("axis")
        if axis and isinstance(known[name], Volume):
            _check_axis(step, axis)
    return known


def _named(item: Any, name: str) -> Any:
    """Let plans and progress show a volume by the name of its step."""
    if not isinstance(item, Volume):
        return item
    ends = [f"[c={c}]" if item.space.has_channels else "" for c in range(len(item.nodes))]
    nodes = tuple(named(node, name + end) for node, end in zip(item.nodes, ends, strict=True))
    return Volume(nodes, item.space)


def _check_axis(step: RecipeStep, axis: Entry) -> None:
    """Refuse the axes t and c as numbers in reductions: outputs without a step depend on their names."""
    if step.operation.gives_along(axis.plain()) == "number":
        raise axis.error(
            f"axis: {axis.plain()} is along t or c, and the result is a volume; write axis: t, or axis: c"
        )


def open_input(item: Input, crop: str | Callable[[Volume], Volume] | None = None) -> Any:
    """Open an input, cropped as for `build`: a volume, or a tuple of tiles."""
    if is_of_tiles(item.what):
        if crop is not None:
            raise RecipeError(item.where, f"{item.name!r} is tiles, which cannot be cropped")
        with mistakes(item.where, item.name):
            return tuple(bv.open_tiles(item.what, **item.options)[0])
    with mistakes(item.where, item.name):
        volume = bv.open(item.what, **item.options)
    if callable(crop):
        return crop(volume)
    return volume if crop is None else cropped(volume, crop)


def _found(text: str, known: dict[str, Any], where: str) -> Any:
    """Return an input, a step, or one of the results of a step, such as ``name.0``."""
    name, number = split_name(text)
    item = known[name]
    if number is None:
        return item
    if not isinstance(item, tuple):
        raise RecipeError(
            where, f"{text!r}: {name!r} is {_kind(item)} and has no parts; write {name!r}"
        )
    if number >= len(item):
        raise RecipeError(where, f"{text!r}: {name!r} has parts 0 to {len(item) - 1}")
    return item[number]


def apply(step: RecipeStep, known: dict[str, Any]) -> Any:
    """Return the lazy result of a step, given inputs and steps by name."""
    operation = step.operation
    inputs = [_value(i, known) for i in step.inputs]
    by_name = {n: e for n, e in step.parameters.items() if operation.volume(n)}
    if operation.is_of_many and len(inputs) > 1:
        by_position = [("", entry) for entry in step.inputs]
        inputs = [tuple(inputs)]
    else:
        by_position = [*zip(operation.positional, step.inputs, strict=False)]
    for name, entry in [*by_position, *by_name.items()]:
        # If one parameter takes several inputs, each is a volume.
        wanted = operation.volume(name) if name else "volume"
        item = _value(entry, known)
        if name in operation.parameters and operation.parameters[name].is_table:
            if not isinstance(item, Table):
                raise entry.error(
                    f"{operation.name} accepts a table, but {entry.plain()!r} is {_kind(item)}"
                )
            continue
        parameter = operation.parameters.get(name)
        if parameter is not None and parameter.has_volumes and _fits(item, "volumes"):
            continue
        if not _fits(item, wanted):
            what = {"volume": "a volume", "volumes": "a list of volumes"}
            raise entry.error(
                f"{operation.name} accepts {what.get(wanted, 'volumes and numbers')}, but "
                f"{entry.plain()!r} is {_kind(item)}"
            )
    first = next((i for i in inputs if isinstance(i, Volume)), None)
    ndim = first.ndim if first is not None else 3
    axes = step.parameters["axes"].plain() if "axes" in step.parameters else None
    if axes is not None:
        ndim = len(axes) if isinstance(axes, list) else 1
    parameters = {}
    for name, entry in step.parameters.items():
        is_volume = operation.volume(name) and isinstance(entry.value, str)
        parameters[name] = (
            _value(entry, known)
            if is_volume
            else _parameter(entry, known, ndim, operation.parameters[name].is_table)
        )
    with mistakes(step.where, operation.name, step.parameters):
        return operation.call(*inputs, **parameters)


def _value(entry: Entry, known: dict[str, Any]) -> Any:
    return _found(entry.value, known, entry.where) if isinstance(entry.value, str) else entry.value


def _fits(item: Any, wanted: str) -> bool:
    """Whether an item is what an operation wants: a volume, volumes, or also numbers."""
    if wanted == "volumes":
        return isinstance(item, tuple) and all(isinstance(i, Volume) for i in item)
    if wanted == "volume" and item is not None:
        return isinstance(item, Volume)
    return not isinstance(item, Table | tuple)


def _parameter(entry: Entry, known: dict[str, Any], ndim: int, table: bool = False) -> Any:
    if isinstance(entry.value, list):
        return [_parameter(e, known, ndim) for e in entry.value]
    if not isinstance(entry.value, dict):
        return entry.value
    (key, inner), *_ = entry.value.items()
    if key == "step":
        item = _found(inner.value, known, inner.where)
        if isinstance(item, Table) != table:
            raise inner.error(
                f"{inner.value!r} is {_kind(item)}, not a {'table' if table else 'number'}"
            )
        return item
    size = inner.plain()
    with mistakes(entry.where, key):
        if isinstance(size, dict):
            return footprints()[key](**{"ndim": ndim, **size})
        return footprints()[key](size, ndim=ndim)


def _targets(output: RecipeOutput, item: Any) -> Iterator[Wanted]:
    if isinstance(item, tuple) and isinstance(item[0], Volume):
        raise RecipeError(
            output.where,
            f"{output.step!r} is {_kind(item)}: write them one by one, {output.step}.0 to "
            f"{output.step}.{len(item) - 1}",
        )
    if isinstance(item, Volume):
        if output.path is None:
            raise RecipeError(output.where, f"{output.step!r} is a volume: its output needs path:")
        with mistakes(output.where, ""):
            yield item.to(output.path, **output.options)
    elif isinstance(item, Table) and output.path is not None:
        for option in output.options:
            if option != "format":
                raise RecipeError(output.where, f"a table's output has no {option!r}, only format")
        with mistakes(output.where, ""):
            yield item.to(output.path, **output.options)
    elif output.path is not None:
        raise RecipeError(
            output.where, f"{output.step!r} is a number, which is printed; leave out path:"
        )
    else:
        yield from item if isinstance(item, tuple) else (item,)


def _kind(item: Any) -> str:
    if isinstance(item, Table):
        return "a table"
    if isinstance(item, Volume):
        return "a volume"
    if isinstance(item, tuple):
        return f"a list of {len(item)} {'volumes' if isinstance(item[0], Volume) else 'numbers'}"
    return "a list" if isinstance(item, list) else "a number"


@contextlib.contextmanager
def mistakes(where: str, what: str, parameters: dict[str, Entry] | None = None) -> Iterator[None]:
    """Add the place in the recipe to an error, the parameter's if the message names one."""
    try:
        yield
    except (ValueError, TypeError, IndexError, OverflowError, OSError) as error:
        if isinstance(error, RecipeError):
            raise
        text = str(error)
        for name, entry in (parameters or {}).items():
            if f"{name}=" in text:
                where = entry.where
        prefix = "" if not what or text.startswith((f"{what}:", f"{what} ")) else f"{what}: "
        raise RecipeError(where, prefix + text) from error


class Steps:
    """A function that applies steps of a recipe to a volume, their ``input``."""

    def __init__(self, steps: str | Mapping[str, Any]):
        self.steps = dict(mapping_of(steps, "steps"))
        self.__name__ = self.last = list(self.steps)[-1]
        # Check while the pipeline is built.
        self.recipe()

    def recipe(self) -> Recipe:
        """Return the recipe; its input is not opened."""
        document = {"input": "slabs", "steps": self.steps, "outputs": [{"step": self.last}]}
        return checked_recipe(placed(document, "config"))

    def __call__(self, volume: Volume) -> Volume:
        found: Volume = expressions(self.recipe(), given={"input": volume})[self.last]
        return found


def mapping_of(given: str | Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a mapping of a configuration, which may be given as text."""
    found = load(given, f"config.{name}").plain() if isinstance(given, str) else given
    if not isinstance(found, Mapping) or not found:
        raise ValueError(f"config.{name}: {given!r}; give a mapping")
    return found
