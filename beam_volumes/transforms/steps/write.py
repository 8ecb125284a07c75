"""Write slabs to one output, or to one for each volume."""

from __future__ import annotations

import functools
import re
import uuid
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import Tuple, with_input_types, with_output_types

from beam_volumes.base.geometry import Box, Grid, Triple
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cut.in_place import Named, check_in_place, inputs_below
from beam_volumes.plan.cut.passes import Levels
from beam_volumes.storage.outputs.sink import Sink
from beam_volumes.storage.places.claims import Superseded, lost
from beam_volumes.storage.places.context import opened
from beam_volumes.storage.places.transfer import write_units
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.complete import CheckComplete
from beam_volumes.transforms.compute import Compute
from beam_volumes.transforms.failures import Excepting, Failed
from beam_volumes.transforms.slab import GivenSlab, Slab, SlabKey, slab_of
from beam_volumes.transforms.steps.outputs import (
    Boxes,
    CheckEach,
    Kind,
    Kinds,
    Outputs,
    kind_of,
    one_kind,
)
from beam_volumes.transforms.steps.slabs import function_name, place_of
from beam_volumes.transforms.waiting import in_global_window, refuse_written_twice, windowed_as


@with_input_types(GivenSlab)
@with_output_types(str)
class WriteSlabs(Excepting, beam.PTransform):
    """Write slabs to one output, or one for each volume: ``(SlabKey, Slab)`` to paths of outputs.

    The path of an output is emitted once, when all its slabs are written; `ReadAll` accepts it. An
    output is created once, before its first slab is written. Slabs must consist of whole write
    units (chunks or shards). No unit is then written twice or read, and a retry writes the same
    bytes.

    Parameters
    ----------
    path : str, os.PathLike, dict or callable
        A path, a URL (``s3://``, ``gs://``) or the spec of a TensorStore key-value store that all
        workers can access. It ends in ``.zarr`` (zarr v3) or ``.ome.zarr`` (OME-Zarr 0.5); with
        ``format`` it may have any name. A function returns the path for each volume, given the
        ``volume`` of its slabs' keys.
    like : Volume, optional
        An expression with the shape, dtype and space of the slabs. The first step of the pipeline
        then creates the output, and options are checked when the transform is constructed. By
        default, the first slab of a volume determines these properties, and its worker creates the
        output.
    overwrite : bool, default: False
        Whether to replace an existing output; otherwise it raises an error.
    partial : bool, default: False
        Whether slabs may be missing; voxels that no slab has written are then read as 0. Otherwise,
        the pipeline fails at its end if slabs are missing.
    **options : options
        ``format``, ``chunks``, ``shards``, ``codec``, ``zarr_version`` and ``ome_version`` of
        `Volume.to`.

    Raises
    ------
    ValueError
        If the output exists, an earlier step reads it, or another step writes it. In a worker, if a
        slab does not consist of whole write units or differs from ``like`` in shape or dtype, or
        slabs are missing. The message lists them.

    See Also
    --------
    ReadSlabs : makes slabs.
    ReadAll : makes slabs of many volumes.

    Notes
    -----
    One step writes an output. If two pipelines write one place at once, one fails. To combine slabs
    from several steps, flatten them first.

    With `with_exception_handling`, a slab that could not be written is returned as a failure and
    not counted as missing. If a previous step drops slabs, pass ``partial=True``.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(60, dtype="u1").reshape(5, 3, 4))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | bv.ReadSlabs(em, depth=2, halo=1)
    ...     smooth = slabs | bv.ApplyStages(lambda v: bv.median_filter(v, 3))
    ...     _ = smooth | bv.WriteSlabs("out.zarr", like=em, chunks=(2, 3, 4))
    >>> out = np.asarray(bv.open("out.zarr"))
    >>> bool((out == np.asarray(bv.median_filter(em, 3))).all())
    True
    """

    def __init__(
        self,
        path: Any,
        *,
        like: Volume | None = None,
        overwrite: bool = False,
        partial: bool = False,
        **options: Any,
    ):
        super().__init__()
        self.outputs = Outputs(path, overwrite, partial, uuid.uuid4().hex, options)
        self.partial = partial
        #: The output, if it is known now.
        self.sink: Sink | None = None
        #: The one output; without `like`, only its place is known.
        self.place: Sink | None = None
        if like is not None and not callable(path):
            target = self.outputs.target(like)
            self.sink = self.place = target.sink
            check_in_place(inputs_below(Levels([target.volume.node], [])), [self.sink])
        elif like is not None:
            raise ValueError(
                "WriteSlabs: path is a function for several volumes, but "
                "like= is one volume; leave it out"
            )
        elif not callable(path):
            self.place = self.outputs.place()
        if self.place is not None:
            self.outputs = replace(self.outputs, replaces=self.place.begun_run())

    @property
    def written(self) -> list[Sink]:
        """The one output; of outputs for each volume, workers find the places."""
        return [] if self.place is None else [self.place]

    def expand(self, slabs: beam.PCollection[Any]) -> Any:
        steps = list(_steps_before(slabs))
        inputs = _read_by(steps)
        check_in_place(inputs, self.written)
        refuse_written_twice(slabs.pipeline, self, self.written)
        if self.sink is None:
            return self._by_kind(slabs, inputs)
        sink, outputs = self.sink, self.outputs
        make = _Make(sink, outputs)
        # The output is created even without any slab. Steps that write slabs also create it,
        # instead of waiting for this step by a side input: Flink cannot keep those in the
        # checkpoints of a streaming job.
        _ = (
            slabs.pipeline
            | "Begin" >> beam.Create([None])
            | "Make" >> beam.Map(make).with_output_types(NoneType)
        )
        out = self.tried(slabs, "Write", _write_made, Box, _where, make=make)
        boxes, failures = out if isinstance(out, tuple) else (out, None)
        if failures is not None:
            bad = failures | "Failures" >> beam.Map(_box_of).with_output_types(Box)
            boxes = (boxes, bad) | "All" >> beam.Flatten()
        if self.partial:
            count = beam.combiners.Count.Globally()
            whole = (
                boxes
                | "In no window" >> in_global_window(slabs)
                | "Are there" >> (count if slabs.is_bounded else count.without_defaults())
            )
        else:
            grid = next(_grids_of(steps, sink.shape), None)
            whole = boxes | "Complete" >> CheckComplete(sink.name, sink.grid, grid)
        finish = beam.Map(lambda _: _finish(sink, outputs.run_id)).with_output_types(str)
        paths = windowed_as(slabs, whole | "Finish" >> finish)
        return paths if failures is None else (paths, failures)

    def _by_kind(self, slabs: beam.PCollection[Any], inputs: list[Named]) -> Any:
        """Write to outputs with the shape and dtype of their slabs.

        No step waits for the outputs: a runner would store all slabs meanwhile.
        """
        outputs = self.outputs
        how = {"outputs": outputs, "inputs": inputs}
        out = self.tried(slabs, "Write", _write_one, _Written, _where, **how)
        written, failures = out if isinstance(out, tuple) else (out, None)
        sinks = (
            written
            | "Kinds" >> beam.Map(_kind).with_output_types(Kinds)
            | "In no window" >> in_global_window(slabs)
            | "One of each" >> beam.CombinePerKey(one_kind)
            | "Outputs" >> beam.Map(_sink_of, outputs).with_output_types(Tuple[str, Sink])
        )
        finish = functools.partial(_finish, run_id=outputs.run_id)
        if self.partial:
            done = beam.Map(lambda output: finish(output[1])).with_output_types(str)
            paths = sinks | "Finish" >> done
        else:
            boxes = written | "Boxes" >> beam.Map(_corners).with_output_types(Boxes)
            if failures is not None:
                bad = failures | "Failures" >> beam.Map(_failed_box, outputs).with_output_types(
                    Boxes
                )
                boxes = (boxes, bad) | "All" >> beam.Flatten()
            paths = (boxes, sinks) | "Complete" >> CheckEach(finish)
        paths = windowed_as(slabs, paths)
        return paths if failures is None else (paths, failures)

    def display_data(self) -> dict[str, Any]:
        place = self.place
        name = function_name(self.outputs.path) if place is None else place.name
        return {
            "output": DisplayDataItem(name),
            "overwrite": DisplayDataItem(self.outputs.overwrite),
            "partial": DisplayDataItem(self.partial),
        }


def _steps_before(slabs: beam.PCollection) -> Iterator[beam.PTransform]:
    """Return the transforms of the pipeline that produce some slabs, the nearest first."""
    steps, known = deque([slabs.producer]), set()
    while steps:
        step = steps.popleft()
        if step is None or id(step) in known:
            continue
        known.add(id(step))
        steps += [step.parent, *(i.producer for i in step.inputs if hasattr(i, "producer"))]
        steps += [side.pvalue.producer for side in step.side_inputs]
        if step.transform is not None:
            yield step.transform


def _read_by(steps: Iterable[beam.PTransform]) -> list[Named]:
    """Return the volumes that some transforms read."""
    found: list[Named] = []
    for step in steps:
        nodes = [v.node for v in vars(step).values() if isinstance(v, Volume)]
        found += inputs_below(Levels(nodes, []))
        if isinstance(step, Compute):
            found += step.session.plan.inputs
    return found


def _grids_of(steps: Iterable[beam.PTransform], shape: Triple) -> Iterator[Grid]:
    """Return the grids of slabs of volumes with this shape, from the attributes of transforms."""
    for step in steps:
        grid = getattr(step, "grid", None)
        if isinstance(grid, Grid) and grid.shape == shape:
            yield grid


@dataclass(frozen=True, eq=False)
class _Make:
    """Creates an output, once in each process; later callers find it created."""

    sink: Sink
    outputs: Outputs

    def __call__(self, _: Any = None) -> None:
        opened(f"made {self.sink.name} {self.outputs.run_id}", self._made)

    def _made(self) -> bool:
        o, sink = self.outputs, self.sink
        sink.create(o.run_id, o.overwrite, o.replaces, o.unfinished(sink), can_resume=False)
        return True


def _write_made(pair: tuple[SlabKey, Slab], make: _Make) -> Box:
    make()
    return _write(pair, make.sink, make.outputs.run_id)


def _finish(sink: Sink, run_id: str) -> str:
    sink.finish(run_id)
    sink.note_ended(run_id)
    return sink.name


#: Of a slab that is written: the name of its output, its core, and what all slabs of the output share.
_Written: Any = Tuple[str, Box, Tuple[Any, ...]]


def _write(pair: Any, sink: Sink, made: str) -> Box:
    slab = slab_of(pair, "WriteSlabs")
    with pipeline_metrics.timed(slab.core.size):
        write_slab(slab, sink, made)
    pipeline_metrics.wrote(slab.voxels.nbytes)
    pipeline_metrics.writes([sink.name])
    return slab.core


def _write_one(
    pair: tuple[SlabKey, Slab], outputs: Outputs, inputs: list[Named]
) -> tuple[str, Box, Kind]:
    kind = kind_of(slab_of(pair, "WriteSlabs"))
    sink = outputs.made(kind, inputs)
    return outputs.name_of(kind[-1]), _write(pair, sink, outputs.run_id), kind


def _sink_of(output: tuple[str, Kind], outputs: Outputs) -> tuple[str, Sink]:
    name, kind = output
    return name, outputs.sink_of(kind)


def _where(pair: Any) -> tuple[str, str, str]:
    return (*place_of(pair), "write")


def _kind(written: tuple[str, Box, Kind]) -> tuple[str, Kind]:
    return written[0], written[2]


def _corners(written: tuple[str, Box, Kind]) -> tuple[str, Triple, Triple]:
    name, core, _ = written
    return name, core.start, core.stop


def _failed_box(bad: Failed, outputs: Outputs) -> tuple[str, Triple, Triple]:
    box = _box_of(bad)
    return outputs.name_of(bad.volume), box.start, box.stop


def _box_of(bad: Failed) -> Box:
    """Return the box of a slab that was reported as failed."""
    (a, d), (b, e), (c, f) = re.findall(r"(\d+):(\d+)", bad.box)
    return Box((int(a), int(b), int(c)), (int(d), int(e), int(f)))


def write_slab(slab: Slab, sink: Sink, made: str | None = None) -> None:
    """Write a slab's core into an output that exists, by the run ``made`` if given."""
    key = slab.key
    voxels = slab.voxels
    if slab.shape != sink.shape:
        raise ValueError(
            f"slab {key} has a volume of shape {slab.shape}, but {sink.name} has {sink.shape}: "
            "give WriteSlabs a like= with the slabs' shape"
        )
    if voxels.dtype != sink.dtype and not (voxels.dtype == bool and sink.dtype in ("u1", "i1")):
        raise ValueError(
            f"slab {key} has dtype {voxels.dtype}, but {sink.name} {sink.dtype}: give WriteSlabs "
            "the expression of the slabs as like=, or end ApplyStages with "
            f".astype('{sink.dtype}')"
        )
    for axis, a, b, u, n in zip(
        "zyx", slab.core.start, slab.core.stop, sink.unit, sink.shape, strict=True
    ):
        if a % u or (b % u and b != n):
            what = "depth" if axis == "z" else "tile"
            raise ValueError(
                f"slab {slab.key}: its core {slab.core} does not consist of whole write units "
                f"{sink.unit} of {sink.name} along {axis}; read with a {what} that is a multiple "
                f"of {u}, or write with chunks= that divide the slabs"
            )
    watched = None if made is None else sink.watched(made)
    if watched is not None and lost([watched]):
        raise Superseded(
            f"slab {key}: {sink.name} was deleted or belongs to another run; nothing more is "
            "written to it"
        )
    write_units(sink.open(), slab.core, voxels).result()
