"""One recipe for each of many volumes: what is at a pattern, and the recipe that each of them has."""

from __future__ import annotations

import copy
import glob
import os
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from beam_volumes.base.text import nearest
from beam_volumes.recipes.build import build
from beam_volumes.recipes.recipe import Recipe
from beam_volumes.storage.inputs.opening import members


@dataclass(frozen=True)
class Item:
    """A volume of many: its path, and a name that no other one has."""

    path: str
    name: str


def items(pattern: str, collections: bool = True) -> list[Item]:
    """What is at a pattern, in the order of names.

    A plate of OME-Zarr, a well, or what bioformats2raw has written counts as its images if ``collections``.

    Names are the files' up to their first dot, with the folders that differ. Where two would be equal,
    they keep the rest.

    Raises
    ------
    FileNotFoundError
        Nothing is there.
    ValueError
        It is no pattern of this machine's files.
    """
    if "://" in pattern:
        raise ValueError(
            f"--each {pattern}: it takes files of this machine; write a loop for a bucket"
        )
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"--each {pattern}: nothing is there")
    top = os.path.commonpath([os.path.dirname(os.path.abspath(p)) for p in paths])
    full = [os.path.relpath(os.path.abspath(p), top).replace(os.sep, "/") for p in paths]
    short = [os.path.join(os.path.dirname(n), os.path.basename(n).partition(".")[0]) for n in full]
    times = Counter(short)
    names = []
    for brief, whole in zip(short, full, strict=True):
        names.append(brief if times[brief] == 1 and os.path.basename(brief) else whole)
    found: list[Item] = []
    for path, name in zip(paths, names, strict=True):
        inside = _inside(path) if collections and os.path.isdir(path) else []
        begin = len(path.rstrip("/"))
        found += [Item(p, name + p[begin:]) for p in inside] or [Item(path, name)]
    return found


def _inside(path: str) -> list[str]:
    """The images of a collection; none if it is damaged: it is one volume that fails then."""
    try:
        found = members(path)
    except (ValueError, OSError):
        return []
    # Results get folders of these names: none may lead out of the folder of all.
    return found if not any(".." in p[len(path) :].split("/") for p in found) else []


def expands(recipe: Recipe, name: str) -> bool:
    """Whether an input takes all images of a collection: its entry chooses none."""
    return not {"well", "field", "dataset"} & {*recipe.inputs[name].options}


def input_of(recipe: Recipe, given: str) -> tuple[str, str]:
    """The input that is another one each time, and the pattern: ``--each`` may begin with ``NAME=``."""
    name, equals, pattern = given.partition("=")
    if equals and name in recipe.inputs:
        return name, pattern
    if len(recipe.inputs) == 1:
        return next(iter(recipe.inputs)), given
    hint = nearest(name, recipe.inputs) if equals else f"; known are {', '.join(recipe.inputs)}"
    raise ValueError(f"--each {given}: say which input it is, as NAME=PATTERN{hint}")


def recipe_for(recipe: Recipe, name: str, item: Item, out: str) -> Recipe:
    """A recipe with another input; its outputs go into a folder of the item's name.

    Raises
    ------
    ValueError
        Two outputs would be one.
    """
    folder = f"{out.rstrip('/')}/{item.name}"
    outputs = []
    for output in recipe.outputs:
        path = output.path
        if path is not None:
            path = f"{folder}/{path.rstrip('/').rpartition('/')[2]}"
        outputs.append(replace(output, path=path))
    paths = [o.path for o in outputs if o.path is not None]
    if len(set(paths)) < len(paths):
        twice = next(p for p in paths if paths.count(p) > 1)
        raise ValueError(
            f"two outputs of the recipe are called {twice.rpartition('/')[2]!r}, and --out puts them into "
            "one folder: give them different names"
        )
    inputs = {**recipe.inputs, name: replace(recipe.inputs[name], what=item.path)}
    return replace(
        recipe, inputs=inputs, outputs=outputs, document=_document_for(recipe, name, item, paths)
    )


def _document_for(recipe: Recipe, name: str, item: Item, paths: list[str]) -> Any:
    """The recipe as plain data, with the item's input and outputs."""
    changed = copy.deepcopy(recipe.document)
    places, key = (changed, "input") if "input" in changed else (changed["inputs"], name)
    entry = places[key]
    if isinstance(entry, dict):
        rest = {k: v for k, v in entry.items() if k not in ("path", "spec")}
        places[key] = {"path": item.path, **rest}
    else:
        places[key] = item.path
    left = iter(paths)
    entries = changed["outputs"] if "outputs" in changed else [changed["output"]]
    for k, output in enumerate(entries):
        if isinstance(output, str):
            entries[k] = next(left)
        elif output.get("path") is not None:
            entries[k] = {**output, "path": next(left)}
    if "outputs" not in changed:
        changed["output"] = entries[0]
    return changed


def _name(path: str) -> str:
    """The name of a volume where no others are known: its file's, up to the first dot."""
    last = path.rstrip("/").rpartition("/")[2]
    return last.partition(".")[0] or last


@dataclass(frozen=True)
class Targets:
    """What `ComputeAll` calls in a worker: the targets of a path by names of their own."""

    recipe: Recipe
    name: str
    out: str
    names: dict[str, str] | None
    crop: str | None = None

    def __call__(self, path: str) -> dict[str, Any]:
        item = Item(path, _name(path) if self.names is None else self.names[path])
        built = build(recipe_for(self.recipe, self.name, item, self.out), self.crop)
        names = [n or "result" for n in built.names]
        return {
            f"{n} {k + 1}" if names.count(n) > 1 else n: target
            for k, (n, target) in enumerate(zip(names, built.targets, strict=True))
        }
