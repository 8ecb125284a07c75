"""Find the volumes that match a pattern, and adapt a recipe to each."""

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
    """One of many volumes: its path and a unique name."""

    path: str
    name: str


def items(pattern: str, collections: bool = True) -> list[Item]:
    """Return the volumes that match a pattern for local files, sorted by name.

    With ``collections``, a plate or well of OME-Zarr, or an output of bioformats2raw, becomes its images.
    """
    # Names are the file names up to the first dot, with the folders that differ. If two names would be equal,
    # they keep the rest.
    if "://" in pattern:
        raise ValueError(
            f"--each {pattern} is not a pattern for local files; run the recipe in a loop for a bucket"
        )
    paths = sorted(glob.glob(pattern, recursive=True))
    if not paths:
        raise FileNotFoundError(f"--each {pattern}: no file matches")
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
    """Return the images of a collection; a damaged one is kept as one volume that will fail."""
    try:
        found = members(path)
    except (ValueError, OSError):
        return []
    # Names become folders of results, and must not leave the output folder.
    return found if not any(".." in p[len(path) :].split("/") for p in found) else []


def expands(recipe: Recipe, name: str) -> bool:
    """Whether an input uses all images of a collection, since its entry chooses none."""
    return not {"well", "field", "dataset"} & {*recipe.inputs[name].options}


def input_of(recipe: Recipe, given: str) -> tuple[str, str]:
    """Return the varying input and the pattern; ``--each`` may begin with ``NAME=``."""
    name, equals, pattern = given.partition("=")
    if equals and name in recipe.inputs:
        return name, pattern
    if len(recipe.inputs) == 1:
        return next(iter(recipe.inputs)), given
    hint = nearest(name, recipe.inputs) if equals else f"; known are {', '.join(recipe.inputs)}"
    raise ValueError(f"--each {given} does not name an input; write NAME=PATTERN{hint}")


def recipe_for(recipe: Recipe, name: str, item: Item, out: str) -> Recipe:
    """Replace an input of a recipe; outputs go to a folder with the item's name."""
    if recipe.registrations:
        raise ValueError(
            "--each does not support recipes with register:, because all volumes would share its "
            "files"
        )
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
            f"two outputs of the recipe are called {twice.rpartition('/')[2]!r}, and --out writes them to "
            "one folder; give them different names"
        )
    inputs = {**recipe.inputs, name: replace(recipe.inputs[name], what=item.path)}
    return replace(
        recipe, inputs=inputs, outputs=outputs, document=_document_for(recipe, name, item, paths)
    )


def _document_for(recipe: Recipe, name: str, item: Item, paths: list[str]) -> Any:
    """Return the recipe as plain data, with the item's input and outputs."""
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
    """Return the name of a single volume: its file name up to the first dot."""
    last = path.rstrip("/").rpartition("/")[2]
    return last.partition(".")[0] or last


@dataclass(frozen=True)
class Targets:
    """The function of `ComputeAll`: returns the targets of a path by name."""

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
