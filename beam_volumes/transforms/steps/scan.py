"""Combine states of slabs along z."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.typehints import Tuple, Union, with_input_types, with_output_types

from beam_volumes.across.rounds.flow import Key
from beam_volumes.across.rounds.scans import scan_flow
from beam_volumes.across.scans import Combine
from beam_volumes.base.geometry import Grid
from beam_volumes.base.text import format_bytes
from beam_volumes.transforms.rounds import whole
from beam_volumes.transforms.slab import MAX_BYTES, SlabKey
from beam_volumes.transforms.steps.components import grid_of
from beam_volumes.transforms.steps.grids import SlabGrid
from beam_volumes.transforms.steps.slabs import ReadSlabs
from beam_volumes.transforms.steps.surveys import index_of, run_keyed
from beam_volumes.transforms.waiting import in_global_window, windowed_as


@with_input_types(Tuple[Union[SlabKey, Tuple[int, ...]], Any])
@with_output_types(Tuple[SlabKey, Any])
class SlabScan(beam.PTransform):
    """Combine the states of all previous slabs: ``(SlabKey, state)`` to ``(SlabKey, state)``.

    For each slab, it returns the combined states of all previous slabs along z in the same tile, or
    None for the first. Combine this with the slab's own voxels for running sums, distances and
    similar results.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume.
    combine : callable
        A function ``combine(a, b)`` of neighbouring states in the order of the scan. It must be
        associative.
    backward : bool, default: False
        Whether to scan from the last slab to the first: ``a`` is then the upper neighbour.
    itemsize : int, default: 8
        Bytes of a state for each row and column of the slab. States of more than 4 MB are divided
        into tiles; they must be planes, or dataclasses of planes, that are combined pixel by pixel.
    radix : int, default: 16
        Number of slabs that one step combines.

    Raises
    ------
    ValueError
        If the state of a slab would be larger than 8 MiB.

    Notes
    -----
    States are combined by key, in a tree along z with as many rounds as the grid needs.

    Examples
    --------
    >>> import apache_beam as beam
    >>> from beam_volumes.base.geometry import Grid
    >>> scan = bv.SlabScan(Grid((30, 8, 8), (10, 8, 8)), lambda a, b: a + b)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     states = p | beam.Create([(bv.SlabKey(10 * k, 0, 0), "abc"[k]) for k in range(3)])
    ...     sums = states | scan | beam.MapTuple(lambda key, state: (key.z, state))
    ...     _ = sums | beam.combiners.ToList() | beam.Map(lambda x: print(sorted(x)))
    [(0, None), (10, 'a'), (20, 'ab')]
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | Grid,
        combine: Combine,
        *,
        backward: bool = False,
        itemsize: int = 8,
        radix: int = 16,
    ):
        super().__init__()
        self.backward = backward
        self.grid = grid = grid_of(slabs)
        _, rows, cols = grid.step
        if (size := rows * cols * itemsize) > MAX_BYTES:
            raise ValueError(
                f"SlabScan: states of {rows} x {cols} pixels of {itemsize} bytes are "
                f"{format_bytes(size)} each; elements are at most {format_bytes(MAX_BYTES)}: read "
                "slabs with a smaller tile="
            )
        self.flow = scan_flow(
            grid,
            combine,
            itemsize=itemsize,
            forward=not backward,
            backward=backward,
            radix=radix,
        )

    def expand(self, states: beam.PCollection) -> beam.PCollection:
        which = 2 if self.backward else 1
        carry = beam.Map(_carry, which).with_output_types(Tuple[SlabKey, Any])
        given = states | "In no window" >> in_global_window(states)
        answers = run_keyed(given, self.flow, self.grid, of=_scanned)["answers"]
        return windowed_as(states, answers | beam.GroupByKey() | "Carry" >> carry)


def _scanned(state: tuple[SlabKey, Any], grid: Grid) -> tuple[Key, Any]:
    return index_of(state[0], grid), (None, state[1], state[1])


def _carry(group: tuple[SlabKey, Iterable[bytes]], which: int) -> tuple[SlabKey, Any]:
    (answer,) = whole(group[1])
    return group[0], answer[which]
