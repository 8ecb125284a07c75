"""A recipe applied lazily, as far as that is possible; files outside of given folders are refused."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from beam_volumes.graph.protocols import nothing_computed
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume
from beam_volumes.recipes.build import apply, open_input
from beam_volumes.recipes.document import RecipeError
from beam_volumes.recipes.recipe import Input, Recipe, RecipeStep, parse_recipe, split_name
from beam_volumes.storage.inputs.opening import local_paths
from beam_volumes.storage.places.place import is_pattern
from beam_volumes.studio.document import Document
from beam_volumes.studio.preview import Unavailable

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

    def item(self, name: str) -> Any:
        """Return the result of an input or a step, or one of several by ``name.0``; None if unknown."""
        name, number = split_name(name)
        found = self.known.get(name)
        if number is None or not isinstance(found, tuple):
            return found
        return found[number] if number < len(found) else None

    def input_of(self, name: str) -> str:
        """Return the name of the first input of a step, such as ``name.0`` for one of several results."""
        step = None if self.recipe is None else self.recipe.steps.get(split_name(name)[0])
        first = step.inputs[0].value if step is not None else None
        return first if isinstance(first, str) else ""

    def volume(self, name: str) -> Volume:
        """Return the volume of an input or a step; Unavailable if it has none."""
        item = self.item(name)
        if isinstance(item, tuple) and item and isinstance(item[0], Volume):
            item = item[0]
        if not isinstance(item, Volume):
            kind = "a table" if isinstance(item, Table) else "a number"
            reason = kind if item is not None else self.errors.get(name) or "not known yet"
            raise Unavailable(f"{name}: {reason.removeprefix(f'{name}: ')}")
        return item


class Folders:
    """The folders of files that may be read and written; all others are refused.

    >>> Folders(["/data"]).check("/data/em.zarr|zarr3:")
    '/data/em.zarr'
    >>> Folders(["/data"]).check("/data/../etc/passwd")
    Traceback (most recent call last):
    ValueError: /data/../etc/passwd is outside of the folders of this studio, /data; start it with that folder
    """

    def __init__(self, folders: Iterable[str], urls: Iterable[str] = ()) -> None:
        self.folders = list(dict.fromkeys(os.path.realpath(f) for f in folders))
        #: URLs that were given at the start.
        self.urls = set(urls)

    def check(self, path: str, dataset: str | None = None) -> str:
        """Return the absolute path of a place, or its URL; ValueError if it is not below the folders."""
        # All that the path stands for must be below: matches of a pattern, a file before the name of a
        # dataset, and the places that links lead to.
        if path in self.urls:
            return path
        # Unlike the openers, the system follows links before "..".
        if not ("://" in path or self._has(os.path.expanduser(path))):
            raise self._refused(path)
        first = ""
        for place in local_paths(path):
            if not self._has(place):
                raise self._refused(path)
            if not self._has(f"{place}/{dataset or ''}"):
                raise self._refused(f"dataset {dataset} of {path}")
            if is_pattern(place) and not all(map(self._has, _links_of(place))):
                raise self._refused(path)
            first = first or place
        if not first:
            raise self._refused(path)
        return first

    def check_output(self, path: str) -> None:
        """Raise ValueError if an output, or the folder of its run next to it, is not below the folders."""
        place = self.check(path).rstrip(os.sep)
        if path not in self.urls and not self._has(f"{place}.run"):
            raise self._refused(path)

    def check_recipe(self, recipe: Recipe) -> None:
        """Raise ValueError if a recipe reads or writes anything else."""
        for item in recipe.inputs.values():
            if not isinstance(item.what, str):
                raise ValueError(f"the input {item.name!r} is a TensorStore spec; give a path")
            with _at(item.where):
                self.check(item.what, item.options.get("dataset"))
        for output in recipe.outputs:
            with _at(output.where):
                if output.path is not None:
                    self.check_output(output.path)
        for step in recipe.steps.values():
            for name, entry in step.parameters.items():
                if step.operation.parameters[name].is_path and _is_given(entry.value):
                    with _at(entry.where):
                        self.check(entry.value)
        for registration in recipe.registrations:
            declared = registration.operation.parameters
            given = [v for n, v in registration.parameters.items() if declared[n].is_path]
            with _at(registration.where):
                for path in [*registration.files.values(), *filter(_is_given, given)]:
                    self.check(path)

    def _has(self, path: str) -> bool:
        real = os.path.realpath(path)
        return any(os.path.commonpath([real, f]) == f for f in self.folders)

    def _refused(self, path: str) -> ValueError:
        return ValueError(
            f"{path} is outside of the folders of this studio, {', '.join(self.folders)}; start it "
            "with that folder"
        )


def _links_of(pattern: str) -> Iterator[str]:
    """Yield the links to folders that `glob` would list for a pattern, each before it is listed."""
    visited: set[tuple[str, int]] = set()

    def visit(folder: str, parts: Sequence[str]) -> Iterator[str]:
        if os.path.islink(folder):
            yield folder
            key = os.path.realpath(folder), len(parts)
            if key in visited:  # a link to a folder above
                return
            visited.add(key)
        first, *rest = parts
        is_deep = first == "**"
        if is_deep and rest:
            yield from visit(folder, rest)
        elif not (is_deep or rest):
            return
        names = [] if glob.has_magic(first) else [first]
        if not names:
            with contextlib.suppress(OSError), os.scandir(folder) as entries:
                names = [e.name for e in entries if e.is_dir()]
            names = [n for n in names if n[0] != "." or first[0] == "."]
            names = names if is_deep else fnmatch.filter(names, first)
        for name in names:
            yield from visit(os.path.join(folder, name), parts if is_deep else rest)

    parts = pattern.split(os.sep)
    k = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    return visit(os.sep.join(parts[:k]) or os.sep, parts[k:])


@contextlib.contextmanager
def _at(where: str) -> Iterator[None]:
    """Add the line of a recipe to a refusal."""
    try:
        yield
    except ValueError as error:
        raise RecipeError(where, str(error)) from None


def _is_given(value: Any) -> bool:
    """Whether a parameter has a path; the palette writes an empty text for a required one."""
    return isinstance(value, str) and value != ""


def _not_given(step: RecipeStep) -> str:
    """Return what a step needs that is an empty text, as the palette writes it; empty if nothing."""
    for name, entry in step.parameters.items():
        parameter = step.operation.parameters[name]
        if entry.value == "" and parameter.is_required:
            return f"give {name}: {parameter.text.partition('. ')[0].replace('``', '')}"
    return ""


class Evaluator:
    """Applies recipes, and keeps their inputs open; inputs ``given`` by name are volumes of this process."""

    def __init__(self, folders: Folders, given: Mapping[str, Volume]) -> None:
        self._folders, self._given = folders, given
        self._opened: dict[str, Volume] = {}

    def state(self, text: str, before: State) -> State:
        """Apply a recipe; a recipe that cannot be read has the volumes of the state ``before``."""
        try:
            recipe = parse_recipe(text)
            self._folders.check_recipe(self._read_from_files(recipe))
        except ValueError as error:
            return replace(before, text=text, recipe=None, errors=self._placed(text, error))
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
            if problem := _not_given(step):
                errors[name] = problem
                continue
            try:
                with nothing_computed():
                    known[name] = apply(step, known)
            except RecipeError as error:
                errors[name] = _plain(error)
        return State(text, recipe, known, errors)

    def _read_from_files(self, recipe: Recipe) -> Recipe:
        inputs = {n: i for n, i in recipe.inputs.items() if n not in self._given}
        return replace(recipe, inputs=inputs)

    def _open(self, item: Input) -> Volume:
        if item.name in self._given:
            return self._given[item.name]
        key = repr((item.what, item.options))
        if key not in self._opened:
            self._opened[key] = open_input(item)
        return self._opened[key]

    def _placed(self, text: str, error: ValueError) -> dict[str, str]:
        """Return a message under the name of the step that has the line of the error."""
        found = _LINE.match(str(error))
        line = int(found[1]) - 1 if found else -1
        try:
            items = Document(text).items()
        except ValueError:
            items = []
        name = next((i.name for i in items if i.line <= line < i.lines[1]), "")
        return {name: _plain(error)}


def _plain(error: Exception) -> str:
    return _LINE.sub("", str(error))
