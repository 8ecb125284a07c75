"""Registrations: transforms that are found in voxels and written as tables, before a plan needs them."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import beam_volumes as bv
from beam_volumes.base.text import format_bytes, format_duration
from beam_volumes.graph.options import MemoryLimit, limited
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.registration.images import Needs
from beam_volumes.ops.geometry.registration.sequences import needs_of_frames, needs_of_slices
from beam_volumes.ops.geometry.registration.tiles import SLICES, needs_of_tiles, of_channel
from beam_volumes.ops.geometry.tile_files import project_of
from beam_volumes.plan.cost.memory import of_base
from beam_volumes.plan.cost.speeds import load
from beam_volumes.plan.fit.planned_pass import serial_share
from beam_volumes.plan.fit.seconds import core_seconds
from beam_volumes.recipes.build import mistakes, open_input
from beam_volumes.recipes.catalogue import Operation
from beam_volumes.recipes.recipe import Input, Recipe, Registration
from beam_volumes.show.pages.report import report
from beam_volumes.storage.places.single_file import write_file

#: Memory in bytes in which everything can be planned.
_ANY_MEMORY = 1 << 44
#: Seconds of a sweep that do not depend on its voxels.
_SWEEP_SECONDS = 0.01


def register_inputs(
    recipe: Recipe,
    crop: str | None = None,
    overwrite: bool = False,
    keep: bool = False,
    memory: int | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> Iterator[str]:
    """Find the transforms under ``register:`` of a recipe, and yield the paths of the files.

    ``keep`` resumes a run: files that exist are kept, and missing ones and truncated tables are written.
    """
    used: list[Any] = [item.what for item in recipe.inputs.values()]
    for r in recipe.registrations:
        with mistakes(r.where, r.operation.name):
            check_files(r.files, used, overwrite or keep)
            _check_rows(r.parameters, r.files)
        used += r.files.values()
    # The run checks its outputs, too, but after the registration.
    for output in recipe.outputs if recipe.registrations else ():
        with mistakes(output.where, "output"):
            if output.path is not None:
                check_files({"path": output.path}, used, overwrite or keep)
    wanted = [(r, _files(r, recipe.inputs[r.input], crop, keep)) for r in recipe.registrations]
    wanted = [(r, files) for r, files in wanted if files]
    limits: list[MemoryLimit | None] = [None] * len(wanted)
    if memory is not None:
        left = replace(recipe, registrations=tuple(r for r, _ in wanted))
        planned = planned_registrations(left, memory, crop)
        limits = [MemoryLimit(p.memory, p.base) for p in planned]
    for (r, files), limit in zip(wanted, limits, strict=True):
        item = recipe.inputs[r.input]
        parameters = {**_parameters(recipe, r, crop), "progress": progress}
        volume = None if r.operation.is_of_many else open_input(item, crop)
        with mistakes(r.where, r.operation.name), limited(limit):
            if volume is None:
                of_tiles(item.what, item.options, parameters, files, overwrite, keep)
            else:
                of_volume(r.operation, volume, parameters, files, r.files["table"], keep)
        yield from files.values()


def _parameters(
    recipe: Recipe, r: Registration, crop: str | None, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the parameters of a registration, with volumes instead of the names of inputs."""
    found = dict(r.parameters)
    for name, value in r.parameters.items():
        if r.operation.volume(name) and value is not None:
            opened = (given or {}).get(value)
            found[name] = open_input(recipe.inputs[value], crop) if opened is None else opened
    return found


def _files(r: Registration, item: Input, crop: str | None, keep: bool) -> Mapping[str, str]:
    """Return the files to write; with ``keep`` those that are missing or cut."""
    opened = open_input(item, crop)  # refuses to crop tiles
    if not r.operation.is_of_many:
        rows = _rows_of(r.operation, opened)
    elif r.parameters.get("model") == SLICES:
        rows = sum(v.grid_shape[0] for v in opened)
    else:
        rows = len(opened)
    return _missing(r.files, rows) if keep else r.files


@dataclass(frozen=True)
class PlannedRegistration:
    """What a registration reads, and its memory in bytes."""

    name: str
    input: str
    bytes_read: int
    memory: int  #: The limit
    base: int  #: Of the process, and of the images during comparisons
    predicted_memory: int
    smallest_memory: int  #: The smallest limit that works
    core_seconds: float  #: Of one core
    seconds: float  #: By the clock, in a process that has started
    is_measured: bool  #: Whether seconds are by measured speeds, and not by rough costs

    def __str__(self) -> str:
        return (
            f"{self.name}, before the plan: reads {format_bytes(self.bytes_read)} of {self.input}; memory "
            f"{format_bytes(self.predicted_memory)} predicted of {format_bytes(self.memory)} allowed, "
            f"at least {format_bytes(self.smallest_memory)}; takes about "
            f"{format_duration(self.seconds, 1)}{'' if self.is_measured else ' by rough costs'}"
        )


def planned_registrations(
    recipe: Recipe,
    memory: int,
    crop: str | None = None,
    given: Mapping[str, Any] | None = None,
    cores: int | None = None,
) -> list[PlannedRegistration]:
    """Plan the registrations of a recipe from metadata, within ``memory`` bytes.

    Inputs ``given`` by name are not opened; ``crop`` is a box for every input. ``cores`` are of a machine
    other than this one.
    """
    result, pending = [], set[str]()
    for r in recipe.registrations:
        item, opened = recipe.inputs[r.input], (given or {}).get(r.input)
        if opened is None:
            opened = open_input(item, crop)  # refuses to crop tiles
        with mistakes(r.where, r.operation.name):
            _check_rows(r.parameters, r.files)
            is_of_many = r.operation.is_of_many
            inputs = bv.open_tiles(item.what, **item.options) if is_of_many else (opened,)
            parameters = _parameters(recipe, r, crop, given)
            needs = _NEEDS[r.operation.name](*inputs, **parameters, pending=pending)
            if cores is not None:
                needs = replace(needs, cores=cores)
            result.append(_planned(r, needs, memory, cores))
        pending.update(r.files.values())
    return result


_NEEDS: Mapping[str, Callable[..., Needs]] = {
    "register_slices": needs_of_slices,
    "register_frames": needs_of_frames,
    "register_tiles": needs_of_tiles,
}


def _planned(r: Registration, needs: Needs, memory: int, cores: int | None) -> PlannedRegistration:
    name = r.operation.name
    if needs.sweep is None:
        base = of_base(None, ())
        return PlannedRegistration(name, r.input, 0, memory, base, base, base, 0.0, 0.0, True)
    largest = bv.plan(needs.sweep, runner=None, memory=_ANY_MEMORY, threads=cores)
    # Comparisons that go on leave the memory of a sweep.
    base = largest.smallest_memory if needs.is_interleaved else largest.base
    own = needs.images + needs.pair
    swept = needs.images + (needs.pair if needs.is_interleaved else 0)
    smallest = max(largest.smallest_memory + swept, base + own)
    if memory < smallest:
        raise ValueError(
            f"{name}: memory {format_bytes(memory)} is too small for a process, images and a comparison. The "
            f"smallest memory that works is {smallest} bytes ({format_bytes(smallest)}); a smaller "
            f"{needs.remedy} needs less"
        )
    with limited(MemoryLimit(memory, base)):
        occupied, threads = needs.occupied, needs.threads
    compared = needs.images + threads * needs.pair
    sweep = bv.plan(needs.sweep, runner=None, memory=memory - occupied, threads=cores)
    speeds = load()
    factor = 1.0 if speeds is None else speeds.comparing(needs.model, needs.ndim)
    comparing = factor * needs.nanoseconds / 1e9
    reading = needs.sweeps * sum(map(core_seconds, sweep.passes)) + needs.runs * _SWEEP_SECONDS
    # Overlaps are read by the threads that compare them, and images by all cores before that.
    readers = (
        threads if needs.is_interleaved else sweep.concurrency.busy(serial_share(sweep.passes))
    )
    return PlannedRegistration(
        name,
        r.input,
        round(needs.sweeps * sweep.bytes_read),
        memory,
        base,
        max(occupied + sweep.predicted_memory, largest.base + compared),
        smallest,
        reading + comparing,
        reading / max(readers, 1.0) + comparing / threads,
        speeds is not None,
    )


def _rows_of(operation: Operation, volume: Volume) -> int:
    """Return the number of slices or frames."""
    by_time = operation.name == "register_frames"
    return (volume.space.times or 1) if by_time else volume.grid_shape[0]


def _missing(files: Mapping[str, str], rows: int) -> dict[str, str]:
    """Return the files that do not exist, and the tables that are cut."""
    return {name: path for name, path in files.items() if not _is_whole(name, path, rows)}


def _is_whole(name: str, path: str, rows: int) -> bool:
    """Whether a file exists, and if it is the table of transforms, has all rows."""
    if not os.path.exists(path):
        return False
    if name not in ("table", "pairs"):
        return True
    text = Path(path).read_text(encoding="utf-8", errors="replace")
    found = list(csv.reader(text.splitlines()))
    return text.endswith("\n") and (name == "pairs" or len(found) > rows)


def check_files(files: Mapping[str, str], used: Sequence[Any], overwrite: bool) -> None:
    """Refuse files that are inputs or other files, and files and folders with files that exist."""
    taken = {os.path.realpath(path) for path in used if isinstance(path, str)}
    for name, path in files.items():
        place = os.path.realpath(path)
        if place in taken:
            raise ValueError(
                f"{name}: {path} is also an input or another output; give a different path"
            )
        taken.add(place)
        is_there = os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path))
        if is_there and not overwrite:
            raise FileExistsError(f"{path} exists; give a different path, or overwrite=True")


def of_volume(
    operation: Operation,
    volume: Volume,
    parameters: Mapping[str, Any],
    files: Mapping[str, str],
    path: str = "",
    keep: bool = False,
) -> ComputedTable:
    """Write the transforms of slices or frames, and a report about the table at ``path``."""
    table: ComputedTable = operation.call(volume, **parameters)
    if "table" in files:
        _write(csv_of(table), files["table"], keep)
    if "report" in files:
        _write(report(path), files["report"])
    return table


def of_tiles(
    source: Any,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any],
    files: Mapping[str, str],
    overwrite: bool,
    keep: bool = False,
) -> ComputedTable:
    """Write the positions of tiles that `open_tiles` opens with options, and other files about them."""
    if "xml" in files:
        project_of(source, "register_tiles")
    _check_rows(parameters, files)
    tiles, transforms = bv.open_tiles(source, **options)
    table, pairs = bv.register_tiles(tiles, transforms, **parameters)
    if "pairs" in files:
        _write(csv_of(pairs), files["pairs"], keep)
    if "report" in files:
        compared = of_channel(tiles, parameters.get("channel"), "register_tiles")
        bv.tiles_report(files["report"], compared, table, pairs, overwrite=overwrite)
    if "xml" in files:
        index = options.get("index")
        bv.save_transforms(source, table, files["xml"], index=index, overwrite=overwrite)
    if "table" in files:
        if parameters.get("model") != SLICES:
            table = _with_paths(table, tiles, files["table"])
        _write(csv_of(table), files["table"], keep)
    return table


def _check_rows(parameters: Mapping[str, Any], files: Mapping[str, str]) -> None:
    """Refuse files that need a row for each tile, if the model finds one for each slice."""
    if parameters.get("model") == SLICES and (refused := {"xml", "report"} & files.keys()):
        raise ValueError(
            f"register_tiles: {min(refused)} needs a row for each tile, and model={SLICES!r} finds one for "
            "each slice; use a different model, or leave it out"
        )


def csv_of(table: ComputedTable) -> str:
    """Return the text of a CSV file."""
    import pyarrow
    import pyarrow.csv

    data = pyarrow.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(table.to_pyarrow(), data, options)
    return data.getvalue().to_pybytes().decode()  # type: ignore[no-any-return]


def _write(text: str, path: str, keep: bool = False) -> None:
    """Write a file. With ``keep``, one that exists is completed, but a different one is not replaced."""
    data = text.encode()
    if keep and os.path.exists(path) and not data.startswith(Path(path).read_bytes()):
        raise ValueError(
            f"{path} is incomplete, and its rows differ from the new ones; delete it to write it "
            "again"
        )
    write_file(path, data)


def _with_paths(table: ComputedTable, tiles: Sequence[Volume], out: str) -> ComputedTable:
    """Return a table with the paths of the tiles, if these are enough to open them."""
    asked = [getattr(tile.nodes[0], "source", None) for tile in tiles]
    found = [{k: v for k, v in (s.asked or {}).items() if v is not None} for s in asked if s]
    if any(set(f) != {"path_or_spec"} for f in found):
        return table
    folder = os.path.dirname(os.path.abspath(out))
    paths = [os.path.relpath(str(f["path_or_spec"]), folder) for f in found]
    return ComputedTable(table.to_pyarrow().add_column(0, "path", [paths]))
