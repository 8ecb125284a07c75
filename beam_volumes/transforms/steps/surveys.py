"""Surveys and completions of slabs that are elements, and the merge between them.

A slab is a single window. Its summary is an element, and so is each piece of the answer to it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.pvalue import AsIter
from apache_beam.typehints import Tuple

from beam_volumes.across.components import region_of
from beam_volumes.across.rounds.flow import Flow, Key
from beam_volumes.base.geometry import NO_HALO, Grid
from beam_volumes.session import merging
from beam_volumes.sweep.stage import Block
from beam_volumes.sweep.survey import Completion, Survey
from beam_volumes.transforms.passes import state_pieces
from beam_volumes.transforms.rounds import FirstRound, RunFlow, Take, pieces
from beam_volumes.transforms.slab import Slab, SlabKey

#: A slab, and a piece of the answer to it.
Answer: Any = Tuple[SlabKey, bytes]
#: The memory of a slab is limited by the size of elements.
NO_LIMIT = 1 << 62


def index_of(key: SlabKey, grid: Grid) -> Key:
    """Return the key of a slab in the merge: its number in the grid."""
    z, y, x, *_ = key
    return (grid.index((z // grid.step[0], y // grid.step[1], x // grid.step[2])),)


def summary_of(survey: Survey, grid: Grid, slab: Slab) -> Any:
    """The summary of a slab by a survey; ValueError if the slab lacks voxels."""
    voxels = _voxels(slab, grid, survey.upper, survey.name)
    surveyor = survey.begin(grid, index_of(slab.key, grid)[0], (), NO_LIMIT)
    surveyor.feed((voxels,), (0, len(voxels)))
    return surveyor.finish()


def completed(completion: Completion, grid: Grid, slab: Slab, answer: Any) -> Slab:
    """The voxels of a slab by a completion, from the answer to its summary."""
    voxels = _voxels(slab, grid, completion.upper, completion.name)
    out = np.empty(slab.core.shape, completion.dtype)
    depth, rows, cols = out.shape
    completer = completion.begin(grid, index_of(slab.key, grid)[0], answer)
    try:
        completer.run((voxels,), Block(out, np.arange(depth), 0, 0, rows, cols), (0, depth), 1)
    except ValueError as error:
        raise ValueError(f"slab {slab.key}: {error}") from error
    return Slab(slab.core, NO_HALO, out, slab.shape, slab.space, slab.volume)


def _voxels(slab: Slab, grid: Grid, upper: bool, name: str) -> np.ndarray:
    """The voxels of a slab's region, or only of its core."""
    core, region = region_of(grid, grid.cell(index_of(slab.key, grid)[0]))
    need = region if upper else core
    if slab.shape != grid.shape:
        raise ValueError(
            f"slab {slab.key} is from a volume of shape {slab.shape}, but the grid of {name} has shape "
            f"{grid.shape}: give it the grid of the step that reads the slabs"
        )
    if slab.core != core or not slab.box.contains(need):
        raise ValueError(
            f"slab {slab.key} has the voxels {slab.box}; {name} needs {need}, one plane beyond the "
            f"core {core}: read them with ReadSlabs(..., halo=(0, 1) for each axis) on the same grid"
        )
    return slab.data[need.translate([-a for a in slab.box.start]).slices]


def run_keyed(
    given: beam.PCollection,
    flow: Flow,
    grid: Grid,
    ready: beam.PCollection | None = None,
    of: Callable[..., tuple[Key, Any]] | None = None,
) -> dict[str, beam.PCollection]:
    """Run a flow with messages from slabs and answers to slabs, by their keys."""
    take = {"answers": under_keys(grid)}
    first = FirstRound(flow, functools.partial(of or _indexed, grid=grid), take)
    ports: dict[str, beam.PCollection] = (
        given | "Begin" >> first | "Merge" >> RunFlow(flow, ready, take)
    )
    return ports


def _indexed(pair: tuple[SlabKey, Any], grid: Grid) -> tuple[Key, Any]:
    return index_of(pair[0], grid), pair[1]


def under_keys(grid: Grid) -> Take:
    """Convert pieces for a slab to elements with its key."""
    return Take(functools.partial(_keyed_pieces, grid=grid), Answer)


def _keyed_pieces(index: Key, value: Any, grid: Grid) -> Iterator[tuple[SlabKey, bytes]]:
    for piece in pieces(value):
        yield SlabKey(*grid.box(index[0]).start), piece


def merges_fit(merged: beam.PCollection, loads: merging.Loads) -> beam.PCollection | None:
    """One element when all loads are known to fit, for which merges wait; None without loads.

    ``merged``: the pieces of `MergeStates`, which may include other states.
    """
    if not loads:
        return None
    if not merged.is_bounded:
        # Flink cannot keep side inputs in the checkpoints of a streaming job.
        one_key = beam.Map(_under_one_key).with_output_types(Tuple[int, merged.element_type])
        check_all = beam.MapTuple(lambda _, pieces: _check(None, loads, pieces))
        together = merged | "Under one key" >> one_key | "Loads" >> beam.GroupByKey()
        return together | "Check loads" >> check_all.with_output_types(bool)
    check = beam.Map(_check, loads, AsIter(merged)).with_output_types(bool)
    return merged.pipeline | "Loads" >> beam.Impulse() | "Check loads" >> check


def _under_one_key(piece: Any) -> tuple[int, Any]:
    return 0, piece


def _check(_: Any, loads: merging.Loads, merged: Iterable[Any]) -> bool:
    own = (piece for _, piece in merged if piece[0] in loads)
    for token, state in merging.put_together(loads, own).items():
        loads[token].finish(state, ())
    return True


def load_pieces(loads: merging.Loads, summaries: Mapping[str, Any]) -> Iterator[Any]:
    """The loads of a slab as elements for `MergeStates`."""
    return state_pieces(merging.loads_of_slab(loads, summaries), loads)
