"""Outputs of slabs: created from the metadata of the slabs, and checked for completeness."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Tuple

from beam_volumes.base.geometry import Triple
from beam_volumes.base.space import Space
from beam_volumes.graph.volume import Target, Volume
from beam_volumes.plan.cut.in_place import Named, check_in_place
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.ownership import OutputExistsError
from beam_volumes.storage.places.place import kvstore_spec, url
from beam_volumes.transforms.slab import Slab
from beam_volumes.transforms.steps.read_all import inputs_of
from beam_volumes.transforms.steps.render import placeholder
from beam_volumes.transforms.waiting import WaitOn, in_global_window

#: What all slabs of an output share: the volume's shape, dtype, space and name.
Kind = tuple[Triple, str, Space, str]
#: The name of an output, and its kind.
Kinds: Any = Tuple[str, Tuple[Any, ...]]
#: The name of an output, and where a box of it starts and stops.
Boxes: Any = Tuple[str, Tuple[int, ...], Tuple[int, ...]]
#: Options of `Volume.to` that decide where an output's metadata are.
_PLACING = ("format", "zarr_version", "ome_version")


@dataclass(frozen=True, eq=False)
class Outputs:
    """The location and options of outputs for slabs."""

    path: Any  #: Path of the output, or a function from the name of a volume to its path.
    overwrite: bool
    partial: bool
    run_id: str  #: The run that outputs belong to.
    options: Mapping[str, Any]  #: Options of `Volume.to`.
    replaces: str | None = None  #: The run in the place of the one output, before this one.

    def name_of(self, volume: str) -> str:
        """The name of a volume's output: the volume's if each has its own, otherwise empty."""
        return volume if callable(self.path) else ""

    def target(self, like: Volume, volume: str = "") -> Target:
        """Return the output for a volume.

        Raises ValueError: If it cannot be written.
        """
        return self._target(like, volume, self.options)

    def place(self) -> Sink:
        """Return the one output, with the shape and dtype of a single byte: they are not known yet."""
        kind: Kind = ((1, 1, 1), "|u1", Space(), "")
        placing = {name: value for name, value in self.options.items() if name in _PLACING}
        sink: Sink = self._target(placeholder(*kind[:3]), "", placing).sink
        return sink

    def _target(self, like: Volume, volume: str, options: Mapping[str, Any]) -> Target:
        path = self.path(volume) if callable(self.path) else self.path
        target: Target = like.to(path, **options)
        sink = target.sink
        if not sink.portable:
            raise ValueError(f"{sink.name} is in the memory of this process; give a path")
        if not self.overwrite and sink.exists() and sink.begun_run() != self.run_id:
            raise OutputExistsError(
                f"the output {sink.name} exists: pass overwrite=True to replace it, or choose "
                "another path"
            )
        if self.partial and sink.assembles:
            raise ValueError(
                f"{sink.name}: {sink.format} is assembled from all its units, so slabs must "
                "fill the whole volume; leave partial=True out, or write .zarr"
            )
        return target

    def unfinished(self, sink: Sink) -> Mapping[str, Any] | None:
        """The mark of an output until all slabs are written; None if some may be missing."""
        return None if self.partial else {"start": sink.name, "by": "pipeline"}

    def sink_of(self, kind: Kind) -> Sink:
        """Return the output for slabs of a kind."""
        sink: Sink = self.target(placeholder(*kind[:3]), kind[-1]).sink
        return sink

    def made(self, kind: Kind, inputs: Sequence[Named] = ()) -> Sink:
        """Return the output for slabs of a kind; the first slab in each process makes it.

        ``inputs``: what steps before read, as far as the pipeline knows it.
        Raises ValueError: If this process has written slabs of another kind to it, or it is an input.
        """
        name = f"made {self.run_id} {self.name_of(kind[-1])}"
        first, sink = opened(name, lambda: (kind, self._made(kind, inputs)))
        one_kind([first, kind])
        return sink  # type: ignore[no-any-return]

    def _made(self, kind: Kind, inputs: Sequence[Named]) -> Sink:
        sink, volume = self.sink_of(kind), kind[-1]
        # A process that has not opened the volume only knows its name, which may be its path.
        own = [(sink.name, sink.extents)] if is_path_of(volume, sink) else []
        check_in_place([*inputs, *(inputs_of(volume) or own)], [sink])
        replaces = sink.begun_run() if callable(self.path) else self.replaces
        sink.create(
            self.run_id,
            overwrite=self.overwrite,
            replaces=None if replaces == self.run_id else replaces,
            unfinished=self.unfinished(sink),
            can_resume=False,
        )
        return sink


def is_path_of(volume: str, sink: Sink) -> bool:
    """Whether the name of a volume is the path of an output."""
    try:
        return bool(volume) and url(kvstore_spec(volume)).rstrip("/") == sink.name.rstrip("/")
    except ValueError:
        return False


def kind_of(slab: Slab) -> Kind:
    """What a slab shares with all slabs of its output."""
    return slab.shape, slab.data.dtype.str, slab.space, slab.volume


def one_kind(kinds: Iterable[Kind]) -> Kind:
    """Return the kind that all slabs of an output have.

    Raises ValueError: If they differ.
    """
    found: list[Kind] = []
    for kind in kinds:
        if kind not in found:
            found.append(kind)
    if len(found) > 1:
        one, other = map(_described, found[:2])
        raise ValueError(
            f"slabs of one output are from different volumes: {one}, and {other}; give WriteSlabs "
            "a function of the volume's name as path"
        )
    return found[0]


def _described(kind: Kind) -> str:
    shape, dtype, _, volume = kind
    return f"{volume or 'one'} of {shape} {np.dtype(dtype)}"


_Corners: Any = Tuple[str, Tuple[Tuple[int, ...], Tuple[int, ...]]]


class CheckEach(beam.PTransform):
    """Fail if boxes are not all of their outputs: PCollections of (name, start, stop) and (name, sink).

    Gives what ``finish`` makes of the sink of each whole output.
    """

    def __init__(self, finish: Callable[[Sink], str]):
        super().__init__()
        self.finish = finish

    def expand(self, given: tuple[beam.PCollection, beam.PCollection]) -> beam.PCollection[str]:
        boxes, sinks = given
        filled = (
            boxes
            | "Together" >> in_global_window(boxes)
            | "Each once" >> beam.Distinct()
            | "By output" >> beam.Map(lambda b: (b[0], (b[1], b[2]))).with_output_types(_Corners)
            | "Fill" >> beam.CombinePerKey(Filled())
        )
        meet = {"filled": filled, "sinks": sinks} | "Meet" >> WaitOn(str)
        check = beam.FlatMap(_check, self.finish).with_output_types(str)
        return meet | "Check" >> check


@dataclass(frozen=True)
class Fill:
    """The voxels of boxes, which start at multiples of ``step`` and have at most ``extents``."""

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
        """Whether boxes with different starts may overlap."""
        return any(0 < s < n for s, n in zip(self.step, self.extents, strict=True))


class Filled(beam.CombineFn):
    """Combines boxes of a volume, each given once.

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


def _check(output: tuple[str, Mapping[str, Any]], finish: Callable[[Sink], str]) -> Iterator[str]:
    _, found = output
    if not found["sinks"]:  # no slab of it could be written
        return
    (sink,), fills = found["sinks"], list(found["filled"])
    fill, whole = sum(fills, Fill()), math.prod(sink.shape)
    if fill.overlaps:
        raise ValueError(
            f"{sink.name}: slabs are from several grids, with cores of up to {fill.extents} "
            f"voxels that start at multiples of {fill.step}: give WriteSlabs the slabs of one "
            "ReadSlabs"
        )
    if fill.voxels != whole:
        raise ValueError(
            f"{sink.name} is not complete: {whole - fill.voxels:,} of {whole:,} voxels were in no "
            "slab, and are 0; give WriteSlabs all slabs, or partial=True to write an incomplete "
            "volume"
        )
    yield finish(sink)
