"""Recipes: YAML files, parsed and checked before any input is opened."""

from __future__ import annotations

import errno
import graphlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from beam_volumes.base.text import counted, nearest
from beam_volumes.plan.run_options import RECIPE_OPTIONS, RunOptions
from beam_volumes.recipes.catalogue import (
    OPEN_OPTIONS,
    OUTPUT_KEYS,
    TOP,
    Operation,
    footprints,
    is_of_tiles,
    operations,
    registration_files,
    registrations,
)
from beam_volumes.recipes.document import Entry, RecipeError, load, placed
from beam_volumes.recipes.override import override, substitute
from beam_volumes.storage.formats.tables.format import table_formats
from beam_volumes.storage.places.credentials import refuse_variables
from beam_volumes.storage.places.place import Place

NAME = re.compile(r"[A-Za-z_][\w-]*")
#: The index of a result of a step: ``0`` in ``name.0``.
_PART = re.compile(r"[0-9]{1,4}")


@dataclass(frozen=True)
class Input:
    """A volume to open."""

    name: str
    what: Any
    options: dict[str, Any]
    where: str


@dataclass(frozen=True)
class RecipeStep:
    """An operation, its inputs by name or number, and its parameters."""

    name: str
    operation: Operation
    inputs: tuple[Entry, ...]
    parameters: dict[str, Entry]
    where: str

    def references(self) -> Iterator[Entry]:
        """Yield the entries that name a step or an input."""
        yield from (i for i in self.inputs if isinstance(i.value, str))
        for name, entry in self.parameters.items():
            if self.operation.volume(name) and isinstance(entry.value, str):
                yield entry
            else:
                yield from _step_references(entry)


@dataclass(frozen=True)
class RecipeOutput:
    """A step to write, or, without a path, a number or table to print."""

    step: str
    path: str | None
    options: dict[str, Any]
    where: str


@dataclass(frozen=True)
class Registration:
    """Transforms to find in an input, and the files to write: a table and what shows it."""

    operation: Operation
    input: str
    parameters: dict[str, Any]
    files: dict[str, str]
    where: str


@dataclass(frozen=True)
class Recipe:
    """A checked recipe."""

    inputs: dict[str, Input]
    steps: dict[str, RecipeStep]
    #: Names of steps in order of execution.
    order: tuple[str, ...]
    outputs: list[RecipeOutput]
    #: Run options by name; the command line overrides them.
    options: dict[str, Any] = field(default_factory=dict)
    description: str = field(default="")
    #: What to do before the plan.
    registrations: tuple[Registration, ...] = ()
    #: The recipe as plain data.
    document: Any = None


def read_recipe(path: str, settings: Sequence[str] = ()) -> Recipe:
    """Read and check a recipe from a path or URL, with ``settings`` of `beam_volumes.recipes.override`."""
    return parse_recipe(read_text(path), path, settings)


def read_text(path: str) -> str:
    """Read the text of a recipe from a path, or a URL in a bucket."""
    try:
        return _read(path).decode()
    except UnicodeDecodeError as error:
        raise RecipeError(
            path, f"is not text in UTF-8 ({error.reason} at byte {error.start})"
        ) from None


def _read(path: str) -> bytes:
    if "://" not in path:
        return Path(path).read_bytes()
    folder, _, name = path.rpartition("/")
    data = Place.of(folder).read(name)
    if data is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return data


def parse_recipe(text: str, name: str = "recipe", settings: Sequence[str] = ()) -> Recipe:
    """Parse and check a recipe given as text."""
    return checked_recipe(load(text, name), settings)


def recipe_from(given: str | Mapping[str, Any], settings: Sequence[str] = ()) -> Recipe:
    """Return a recipe from its path, its text of several lines, or a mapping."""
    if not isinstance(given, str):
        return checked_recipe(placed(given, "recipe"), settings)
    if "\n" in given.strip():
        return parse_recipe(given, "recipe", settings)
    return read_recipe(given.strip(), settings)


def checked_recipe(
    root: Entry, settings: Sequence[str] = (), on_command_line: bool = False
) -> Recipe:
    """Check a parsed document."""
    # A chain, ``on_command_line``, has no variables. Its specs may name environment variables, since the user
    # typed them.
    root.mapping("a recipe")
    for setting in settings:
        override(root, setting)
    root.check_keys(TOP, "a recipe")
    top = root.value if on_command_line else substitute(root).value
    inputs = _inputs(top, root)
    for item in () if on_command_line else inputs.values():
        try:
            refuse_variables([item.what, item.options], item.where)
        except ValueError as error:
            raise RecipeError(item.where, str(error)) from None
    steps = _steps(top.get("steps"), inputs)
    _check_references(inputs, steps)
    order = _order(steps)
    return Recipe(
        inputs,
        steps,
        order,
        _outputs(top, root, inputs, steps, _kinds(steps, order)),
        {name: _run_option(name, top[name]) for name in RECIPE_OPTIONS if name in top},
        str(top["description"].value) if "description" in top else "",
        tuple(_registrations(top.get("register"), inputs)),
        root.plain(),
    )


def _run_option(name: str, entry: Entry) -> Any:
    try:
        RunOptions(**{name: entry.plain()})
    except (ValueError, TypeError) as error:
        raise entry.error(str(error).replace(f"{name}=", f"{name}: ")) from None
    return entry.plain()


def _inputs(top: dict[str, Entry], root: Entry) -> dict[str, Input]:
    if "input" in top and "inputs" in top:
        raise top["inputs"].error("give input or inputs, not both")
    if "input" in top:
        return {"input": _input("input", top["input"])}
    if "inputs" not in top:
        raise root.error("a recipe needs input: PATH or inputs: {name: PATH}")
    entries = top["inputs"].mapping("inputs")
    if not entries:
        raise top["inputs"].error("inputs names no input")
    return {name: _input(_checked_name(name, e), e) for name, e in entries.items()}


def _input(name: str, entry: Entry) -> Input:
    if isinstance(entry.value, str):
        return Input(name, entry.value, {}, entry.where)
    if not isinstance(entry.value, dict):
        raise entry.error(f"the input {name!r} must be a path, or a mapping with path:")
    entry.check_keys([*OPEN_OPTIONS, "spec"], f"the input {name!r}")
    options = {k: e.plain() for k, e in entry.value.items()}
    what = [options.pop(k) for k in ("path", "spec") if k in options]
    if len(what) != 1 or not isinstance(what[0], str | dict):
        raise entry.error(
            f"the input {name!r} needs path: (a string) or spec: (a TensorStore spec)"
        )
    return Input(name, what[0], options, entry.where)


def _checked_name(name: str, entry: Entry) -> str:
    if not NAME.fullmatch(name):
        raise entry.error(
            f"{name!r} is not a name: letters, digits, _ and -, beginning with a letter"
        )
    return name


def _registrations(entry: Entry | None, inputs: dict[str, Input]) -> Iterator[Registration]:
    for name, e in ({} if entry is None else entry.mapping("register")).items():
        given = dict(e.mapping(name))
        op = given.pop("op", None) or Entry(name, e.where)
        operation = registrations().get(str(op.value))
        if operation is None:
            raise op.error(
                f"register: has no operation {op.plain()!r}; use {', '.join(registrations())}"
            )
        own, files = operation.keywords, registration_files(operation)
        Entry(given, e.where).check_keys(["input", *own, *files], operation.name)
        plain = {key: entry.plain() for key, entry in given.items()}
        chosen = plain.pop("input", next(iter(inputs)) if len(inputs) == 1 else None)
        if not isinstance(chosen, str) or chosen not in inputs:
            raise e.error(f"{operation.name} needs input: one of {', '.join(inputs)}")
        if is_of_tiles(inputs[chosen].what) != operation.is_of_many:
            wanted = "tiles: an XML or CSV file" if operation.is_of_many else "a volume"
            raise e.error(f"{operation.name} needs {wanted}, but {chosen!r} is a different input")
        written = {key: plain.pop(key) for key in files if key in plain}
        if not str(written.get("table", "")).lower().endswith(".csv"):
            raise e.error(f"{operation.name} needs table: a path that ends in .csv")
        for key, path in written.items():
            if not isinstance(path, str) or "://" in path:
                raise given[key].error(f"{key}: {path!r} is not the path of a file")
        for key, value in plain.items():
            if own[key].volume and value is not None and value not in tuple(inputs):
                raise given[key].error(
                    f"{key}: {value!r} is not an input; use one of {', '.join(inputs)}"
                )
        parameters = {key: own[key].listed(value) for key, value in plain.items()}
        yield Registration(operation, chosen, parameters, written, e.where)


def _steps(entry: Entry | None, inputs: dict[str, Input]) -> dict[str, RecipeStep]:
    if entry is None or entry.value is None:
        return {}
    steps: dict[str, RecipeStep] = {}
    previous = next(iter(inputs)) if len(inputs) == 1 else None
    for name, e in entry.mapping("steps").items():
        if _checked_name(name, e) in inputs:
            raise e.error(f"{name!r} is the name of an input; give the step a different name")
        steps[name] = _step(name, e, previous)
        previous = name
    return steps


def _step(name: str, entry: Entry, previous: str | None) -> RecipeStep:
    if isinstance(entry.value, str):
        given: dict[str, Entry] = {"op": entry}
    elif entry.value is None:
        given = {}
    else:
        given = dict(entry.mapping(f"the step {name!r}"))
    op = given.pop("op", None) or Entry(name, entry.where)
    operation = operations().get(op.value) if isinstance(op.value, str) else None
    if operation is None:
        hint = nearest(str(op.value), operations()) or (
            "; give the step an op:" if op.value == name else ""
        )
        raise op.error(f"no operation is called {op.plain()!r}{hint}")
    inputs = _step_inputs(name, given, entry, previous)
    filled = operation.filled(len(inputs))
    known = [p for p in operation.parameters if p not in filled]
    for key, e in given.items():
        if key in known:
            continue
        if key in operation.parameters:
            raise e.error(f"{operation.name}: {key!r} is already given by the step's input")
        raise e.error(
            f"{operation.name} has no parameter {key!r}{nearest(key, [*known, 'input', 'inputs'])}"
        )
    if len(inputs) > len(operation.positional) and not operation.is_of_many:
        raise entry.error(
            f"{operation.name} accepts {counted(len(operation.positional), 'input')}, but "
            f"{len(inputs)} are given"
        )
    missing = [r for r in operation.required if r not in (*filled, *given)]
    if missing:
        raise entry.error(f"{operation.name} needs {', '.join(missing)}")
    return RecipeStep(name, operation, inputs, given, entry.where)


def _step_inputs(
    name: str, given: dict[str, Entry], entry: Entry, previous: str | None
) -> tuple[Entry, ...]:
    one, many = given.pop("input", None), given.pop("inputs", None)
    if one is not None and many is not None:
        raise many.error("give input or inputs, not both")
    if one is not None:
        items = [one]
    elif many is not None:
        if not isinstance(many.value, list) or not many.value:
            raise many.error("inputs must be a list of names and numbers")
        items = many.value
    elif previous is None:
        raise entry.error(f"the step {name!r} needs input: one of the recipe's inputs")
    else:
        items = [Entry(previous, entry.where)]
    for item in items:
        if not isinstance(item.value, str | int | float):
            raise item.error(
                f"{item.plain()!r} is not an input: write a step's or input's name, or a number"
            )
    return tuple(items)


def _step_references(entry: Entry) -> Iterator[Entry]:
    """Yield names in ``{step: name}`` within a parameter; other mappings must be footprints."""
    if isinstance(entry.value, list):
        for e in entry.value:
            yield from _step_references(e)
    elif isinstance(entry.value, dict):
        key, inner = next(iter(entry.value.items()), ("", entry))
        if len(entry.value) != 1 or key not in ("step", *footprints()):
            known = ", ".join(f"{{{f}: ...}}" for f in sorted(footprints()))
            raise entry.error(
                f"{entry.plain()!r} is not a parameter{nearest(key, footprints()) if key else ''} "
                f"(a mapping is {{step: name}} or one of {known})"
            )
        if key == "step":
            if not isinstance(inner.value, str):
                raise inner.error(f"{inner.plain()!r} is not the name of a step")
            yield inner


def split_name(text: str) -> tuple[str, int | None]:
    """Split a reference into the name of a step or an input, and the index of a result.

    >>> split_name("tensor.0"), split_name("tensor")
    (('tensor', 0), ('tensor', None))
    """
    name, dot, number = text.rpartition(".")
    return (name, int(number)) if dot and _PART.fullmatch(number) else (text, None)


def _check_references(inputs: dict[str, Input], steps: dict[str, RecipeStep]) -> None:
    names = [*inputs, *steps]
    for step in steps.values():
        for entry in step.references():
            if split_name(entry.value)[0] not in names:
                raise entry.error(
                    f"the step {step.name!r} uses {entry.value!r}, which is neither a step nor an input"
                    f"{nearest(entry.value, names)}"
                )


def _order(steps: dict[str, RecipeStep]) -> tuple[str, ...]:
    used = {s.name: [split_name(e.value)[0] for e in s.references()] for s in steps.values()}
    needs = {name: [n for n in names if n in steps] for name, names in used.items()}
    try:
        return tuple(graphlib.TopologicalSorter(needs).static_order())
    except graphlib.CycleError as error:
        ring = error.args[1]
        first = next(s for s in steps.values() if s.name in ring)
        raise RecipeError(
            first.where, f"steps use each other in a circle: {' -> '.join(ring)}"
        ) from None


def _outputs(
    top: dict[str, Entry],
    root: Entry,
    inputs: dict[str, Input],
    steps: dict[str, RecipeStep],
    kinds: dict[str, str],
) -> list[RecipeOutput]:
    if "output" in top and "outputs" in top:
        raise top["outputs"].error("give output or outputs, not both")
    if "output" in top:
        entries = [top["output"]]
    elif "outputs" in top:
        listed = top["outputs"]
        if not isinstance(listed.value, list) or not listed.value:
            raise listed.error("outputs must be a list: '- {step: name, path: PATH}'")
        entries = listed.value
    else:
        raise root.error(
            "a recipe needs output: PATH, or outputs: a list of {step: name, path: PATH}"
        )
    names = [*inputs, *steps]
    last = names[-1] if steps or len(inputs) == 1 else None
    kinds = {name: kinds[name] for name in steps}
    return [_output(e, names, last, kinds) for e in entries]


def _output(
    entry: Entry, names: list[str], last: str | None, kinds: dict[str, str]
) -> RecipeOutput:
    """Return an output; without a step it is the last one that its path fits."""
    if isinstance(entry.value, str):
        given: dict[str, Entry] = {"path": entry}
    else:
        entry.check_keys(OUTPUT_KEYS, "an output")
        given = dict(entry.value)
    step = given.pop("step", None)
    if step is None and last is None:
        raise entry.error("an output needs step: the name of the step that it writes")
    if step is not None and split_name(str(step.value))[0] not in names:
        raise step.error(
            f"no step or input is called {step.plain()!r}{nearest(str(step.value), names)}"
        )
    path = given.pop("path", None)
    if path is not None and not isinstance(path.value, str):
        raise path.error(f"path: {path.plain()!r} is not a string")
    if path is None and given:
        raise entry.error("an output with options needs path:")
    options = {k: e.plain() for k, e in given.items()}
    if step is None and path is not None:
        kind = str(options.get("format") or path.value.rpartition(".")[2])
        fits = ("table",) if kind in table_formats() else ("volume", "volumes")
        last = next((n for n in reversed(kinds) if kinds[n] in fits), last)
    name = str(step.value) if step is not None else str(last)
    return RecipeOutput(name, path.value if path else None, options, entry.where)


def _kinds(steps: dict[str, RecipeStep], order: Sequence[str]) -> dict[str, str]:
    """Return what each step gives, as `Operation.gives`; arithmetic of numbers gives numbers."""
    kinds: dict[str, str] = {}
    for name in order:
        step = steps[name]
        given = {kinds.get(split_name(e.value)[0]) for e in step.references()}
        is_of_numbers = not step.operation.parameters and given == {"number"}
        axis = step.parameters.get("axis")
        kind = step.operation.gives_along(axis.plain() if axis else None)
        kinds[name] = "number" if is_of_numbers else kind
    return kinds
