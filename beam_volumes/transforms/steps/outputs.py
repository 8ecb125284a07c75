"""Outputs that are made of what slabs say of their volume, one for each, and whether slabs fill them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Tuple

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.target import Target
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.transforms.slab import Slab
from beam_volumes.transforms.steps.render import BlockSource
from beam_volumes.transforms.waiting import WaitOn, in_global_window

#: Of a volume: shape, dtype and space.
Kind = tuple[Triple, str, Space]
#: The name of a volume, and its kind.
Kinds: Any = Tuple[str, Tuple[Any, ...]]
#: The name of a volume, and where a box of it starts and stops.
Boxes: Any = Tuple[str, Tuple[int, ...], Tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Outputs:
    """Where slabs are written, and how."""

    path: Any  #: Of the one output, or from the name of a volume to the path of its output.
    overwrite: bool
    partial: bool
    run_id: str  #: Under which outputs are made.
    options: Mapping[str, Any]  #: Of `Volume.to`.

    def target(self, like: Volume, volume: str = "") -> Target:
        """What is written for a volume.

        Raises ValueError: If it cannot be.
        """
        path = self.path(volume) if callable(self.path) else self.path
        target: Target = like.to(path, **self.options)
        sink = target.sink
        if not sink.portable:
            raise ValueError(f"{sink.name} is memory of this process; give a path")
        if not self.overwrite and sink.exists() and sink.begun_run() != self.run_id:
            raise OutputExistsError(
                f"the output {sink.name} exists: pass overwrite=True to replace it, or choose another path"
            )
        if self.partial and sink.assembles:
            raise ValueError(
                f"{sink.name}: {sink.format} is put together of all its units, so that slabs must "
                "be the whole volume; leave partial=True out, or write .zarr"
            )
        return target

    def unfinished(self, sink: Sink) -> Mapping[str, Any] | None:
        """What is noted in an output until all slabs are written; None if some may be missing."""
        return None if self.partial else {"start": sink.name, "by": "pipeline"}

    def made(self, volume: str, kind: Kind) -> tuple[str, Sink]:
        """Make the output of a volume; again by the same run it is there already."""
        shape, dtype, space = kind
        block = BlockSource.of(np.empty((0, 0, 0), dtype), Box((0, 0, 0), (0, 0, 0)), shape, space)
        sink = self.target(Volume(SourceNode.of(block), space), volume).sink
        replaces = sink.begun_run()
        sink.create(
            self.run_id,
            overwrite=self.overwrite,
            replaces=None if replaces == self.run_id else replaces,
            unfinished=self.unfinished(sink),
        )
        return volume, sink


def kind_of(slab: Slab) -> tuple[str, Kind]:
    """The name of a slab's volume, and its kind."""
    return slab.volume, (slab.shape, slab.data.dtype.str, slab.space)


def one_kind(kinds: Iterable[Kind]) -> Kind:
    """The kind that all slabs of a volume have.

    Raises ValueError: If they differ.
    """
    found: list[Kind] = []
    for kind in kinds:
        if kind not in found:
            found.append(kind)
    if len(found) > 1:
        (shape, dtype, _), (other, another, _) = found[:2]
        raise ValueError(
            f"slabs of one output are of volumes that differ: {shape} of {np.dtype(dtype)}, and {other} of "
            f"{np.dtype(another)}; give WriteSlabs a function of the volume's name as path"
        )
    return found[0]


class CheckEach(beam.PTransform):
    """Fail if boxes are not all of their outputs: PCollections of (volume, start, stop) and (volume, sink).

    Gives the names of volumes whose outputs are whole.
    """

    def __init__(self, finish: Callable[[Sink], None] | None = None):
        super().__init__()
        self.finish = finish

    def expand(self, given: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection:
        boxes, sinks = given
        filled = (
            boxes
            | "Together" >> in_global_window()
            | "Each once" >> beam.Distinct()
            | "By volume" >> beam.Map(lambda b: (b[0], (b[1], b[2])))
            | "Fill" >> beam.CombinePerKey(Filled())
        )
        meet = {"filled": filled, "sinks": sinks} | "Meet" >> WaitOn(str)
        return meet | "Check" >> beam.MapTuple(_check, self.finish)


@dataclass(frozen=True)
class Fill:
    """What boxes fill: so many voxels; all start at multiples of ``step``, and have at most ``extents``."""

    voxels: int = 0
    step: tuple[int, ...] = (0, 0, 0)
    extents: tuple[int, ...] = (0, 0, 0)

    def __add__(self, other: Fill) -> Fill:
        return Fill(
            self.voxels + other.voxels,
            tuple(map(math.gcd, self.step, other.step)),
            tuple(map(max, self.extents, other.extents)),
        )

    @property
    def overlaps(self) -> bool:
        """Whether boxes of different starts may lie over one another."""
        return any(0 < s < n for s, n in zip(self.step, self.extents, strict=True))


class Filled(beam.CombineFn):
    """What boxes, each given once, fill of a volume.

    >>> boxes = [((0, 0, 0), (4, 8, 8)), ((4, 0, 0), (6, 8, 8))]
    >>> Filled().apply(boxes)
    Fill(voxels=384, step=(4, 0, 0), extents=(4, 8, 8))
    """

    def create_accumulator(self) -> Fill:
        return Fill()

    def add_input(self, accumulator: Fill, box: tuple[Triple, Triple]) -> Fill:
        start, stop = (tuple(map(int, corner)) for corner in box)
        extents = tuple(b - a for a, b in zip(start, stop, strict=True))
        return accumulator + Fill(math.prod(extents), start, extents)

    def merge_accumulators(self, accumulators: Iterable[Fill]) -> Fill:
        return sum(accumulators, Fill())

    def extract_output(self, accumulator: Fill) -> Fill:
        return accumulator


def _check(
    volume: str, found: Mapping[str, Any], finish: Callable[[Sink], None] | None = None
) -> str:
    (sink,), fills = found["sinks"], list(found["filled"])
    fill, whole = sum(fills, Fill()), math.prod(sink.shape)
    if fill.overlaps:
        raise ValueError(
            f"{sink.name}: slabs were cut in several ways, with cores of up to {fill.extents} voxels that "
            f"start at multiples of {fill.step}: give WriteSlabs those of one ReadSlabs"
        )
    if fill.voxels != whole:
        raise ValueError(
            f"{sink.name} is not complete: {whole - fill.voxels:,} of {whole:,} voxels were in no slab, and "
            "read as 0; give WriteSlabs all slabs, or partial=True to write those there are"
        )
    if finish is not None:
        finish(sink)
    return volume
