"""Registrations: transforms that are found in voxels and written as tables, before a plan needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import beam_volumes as bv
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.tile_files import project_of
from beam_volumes.recipes.build import mistakes, open_input
from beam_volumes.recipes.catalogue import Operation, is_of_tiles
from beam_volumes.recipes.recipe import Recipe
from beam_volumes.show.pages.report import report


def register_inputs(
    recipe: Recipe, crop: str | None = None, overwrite: bool = False, keep: bool = False
) -> Iterator[str]:
    """Find the transforms under ``register:`` of a recipe, and yield the paths of the files.

    Parameters
    ----------
    recipe : Recipe
    crop : str, optional
        A box to which every input is cropped.
    overwrite : bool, default: False
        Whether to replace files that exist.
    keep : bool, default: False
        Whether to keep tables that exist, to resume a run.

    Raises
    ------
    RecipeError
        If a file or an output exists, or the registration fails, with its line.
    """
    wanted = [r for r in recipe.registrations if not (keep and os.path.exists(r.files["table"]))]
    for r in wanted:
        with mistakes(r.where, r.operation.name):
            check_new(r.files.values(), overwrite)
    # The run checks its outputs, too, but after the registration.
    for output in recipe.outputs if wanted and not keep else ():
        with mistakes(output.where, "output"):
            check_new([output.path], overwrite)
    for r in wanted:
        item = recipe.inputs[r.input]
        if is_of_tiles(item.what) and crop is None:
            with mistakes(r.where, r.operation.name):
                of_tiles(item.what, item.options, r.parameters, r.files, overwrite)
        else:
            volume = open_input(item, crop)  # refuses to crop tiles
            with mistakes(r.where, r.operation.name):
                of_volume(r.operation, volume, r.parameters, r.files)
        yield from r.files.values()


def check_new(paths: Any, overwrite: bool) -> None:
    """Refuse files, and folders with files, that exist."""
    for path in paths:
        if overwrite or path is None or not os.path.exists(path):
            continue
        if not os.path.isdir(path) or os.listdir(path):
            raise FileExistsError(f"{path} exists: give another path, or overwrite=True")


def of_volume(
    operation: Operation, volume: Volume, parameters: Mapping[str, Any], files: Mapping[str, str]
) -> ComputedTable:
    """Write the transforms of slices or frames, and a report."""
    table: ComputedTable = operation.call(volume, **parameters)
    if "table" in files:
        _write(csv_of(table), files["table"])
    if "report" in files:
        _write(report(files["table"]), files["report"])
    return table


def of_tiles(
    source: Any,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any],
    files: Mapping[str, str],
    overwrite: bool,
) -> ComputedTable:
    """Write the positions of tiles that `open_tiles` opens with options, and other files about them."""
    if "xml" in files:
        project_of(source, "register_tiles")
    tiles, transforms = bv.open_tiles(source, **options)
    table, pairs = bv.register_tiles(tiles, transforms, **parameters)
    if "pairs" in files:
        _write(csv_of(pairs), files["pairs"])
    if "report" in files:
        bv.tiles_report(files["report"], tiles, table, pairs, overwrite=overwrite)
    if "xml" in files:
        index = options.get("index")
        bv.save_transforms(source, table, files["xml"], index=index, overwrite=overwrite)
    if "table" in files:
        table = _with_paths(table, tiles, files["table"])
        _write(csv_of(table), files["table"])
    return table


def csv_of(table: ComputedTable) -> str:
    """Return the text of a CSV file."""
    import pyarrow
    from pyarrow import csv

    data = pyarrow.BufferOutputStream()
    csv.write_csv(table.to_pyarrow(), data, csv.WriteOptions(quoting_style="needed"))
    return data.getvalue().to_pybytes().decode()  # type: ignore[no-any-return]


def _write(text: str, path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _with_paths(table: ComputedTable, tiles: Sequence[Volume], out: str) -> ComputedTable:
    """Return a table with the paths of the tiles, if these are enough to open them."""
    asked = [getattr(tile.nodes[0], "source", None) for tile in tiles]
    found = [{k: v for k, v in (s.asked or {}).items() if v is not None} for s in asked if s]
    if any(set(f) != {"path_or_spec"} for f in found):
        return table
    folder = os.path.dirname(os.path.abspath(out))
    paths = [os.path.relpath(str(f["path_or_spec"]), folder) for f in found]
    return ComputedTable(table.to_pyarrow().add_column(0, "path", [paths]))
