"""Single steps on slabs of voxels: read them, apply stages to each, write them.

Here, unlike in `Compute`, voxels are elements of PCollections: small slabs, with as much halo as the
stages will need. Between two of these steps nothing is shuffled unless a pipeline asks for it.
"""

from __future__ import annotations

import math
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsSingleton
from apache_beam.typehints import Tuple

from beam_volumes.geometry import NO_HALO, Box, Grid, Halo, Triple
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Target, Volume, as_volume
from beam_volumes.plan.compile import ancestors
from beam_volumes.plan.in_place import Named, check_in_place, inputs_below
from beam_volumes.plan.passes import Levels
from beam_volumes.storage.claims import Superseded, lost
from beam_volumes.storage.ownership import OutputExistsError
from beam_volumes.storage.sink import Sink
from beam_volumes.storage.transfer import write_units
from beam_volumes.text import format_bytes
from beam_volumes.transforms.complete import CheckComplete
from beam_volumes.transforms.compute import Compute, slab_ranges
from beam_volumes.transforms.steps.render import (
    BlockSource,
    check_no_numbers,
    check_stages,
    reach,
    render,
    stage_names,
)
from beam_volumes.transforms.steps.slab import MOST_BYTES, Slab, SlabKey

#: What users may give as a halo: one number, or per axis one number or (before, after).
HaloLike = int | Sequence[int | Sequence[int]]


@dataclass(eq=False)
class ReadSlabs(beam.PTransform):
    """Read a volume, or compute an expression, as slabs: applied to a pipeline, a PCollection of `Slab`.

    Parameters
    ----------
    volume : Volume
        Opened, or an expression of pointwise and neighbourhood functions.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, where whole planes are too large.
    halo : int or sequence, default: 0
        Voxels around the core that each slab has too, inside the volume: one number for all
        axes, or for each axis a number or a pair ``(before, after)``.

    Raises
    ------
    ValueError
        If a slab would be larger than 8 MiB (the message says what would do), the volume needs
        numbers of itself, or workers cannot read it.

    See Also
    --------
    ApplyStages, WriteSlabs, LabelComponents : steps that take slabs.
    Compute : computes volumes without slabs in the pipeline.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.zeros((5, 8, 8), "u1"))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | bv.ReadSlabs(em, depth=3, halo=1) | beam.Map(print)
    <Slab [0:3, 0:8, 0:8], halo ((0, 1), (0, 0), (0, 0)), uint8 of (5, 8, 8)>
    <Slab [3:5, 0:8, 0:8], halo ((1, 0), (0, 0), (0, 0)), uint8 of (5, 8, 8)>
    """

    volume: Volume
    depth: int = 32
    tile: tuple[int, int] | None = None
    halo: HaloLike = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.volume = as_volume(self.volume)
        self.halo = as_halo(self.halo, self.volume.axes)
        self.grid = slab_grid(self.volume, self.depth, self.tile, self.halo)
        check_readable(self.volume)

    def expand(self, begin: Any) -> beam.PCollection[Slab]:
        return (
            begin.pipeline
            | "Ranges" >> beam.Create(slab_ranges(len(self.grid)))
            | "Slabs" >> beam.FlatMap(lambda span: range(*span)).with_output_types(int)
            | "Spread" >> beam.Reshuffle()
            | "Read"
            >> beam.Map(read_slab, self.volume, self.grid, self.halo).with_output_types(Slab)
        )


def check_readable(volume: Volume) -> None:
    """Refuse what workers cannot compute slab by slab.

    Raises
    ------
    ValueError
    """
    check_no_numbers(volume.node)
    for node in ancestors([volume.node]):
        if isinstance(node, SourceNode) and not node.source.portable:
            raise ValueError(
                f"{node.source.name} lives in this process ({format_bytes(node.source.nbytes)}): a "
                "pipeline's workers cannot read it; write it to a .zarr first"
            )


def read_slab(index: int, volume: Volume, grid: Grid, halo: Halo) -> Slab:
    """One slab of a grid, with as much of the halo as the volume has."""
    core = grid.box(index)
    box = core.expand(halo).intersect(Box.of_shape(grid.shape))
    return Slab(core, _halo(core, box), render(volume.node, box), grid.shape, volume.space)


@dataclass(eq=False)
class ApplyStages(beam.PTransform):
    """Apply pointwise and neighbourhood functions to slabs: a PCollection of `Slab` to another one.

    Slabs keep their cores; as much is left of their halos as the functions do not use. Boundary
    modes apply at the edges of the volume, and only there: voxels are those of the whole volume's
    result.

    Parameters
    ----------
    function : callable
        Takes a `Volume` and gives one, e.g. ``lambda v: bv.median_filter(v, 3)``. Its argument
        stands for the whole volume, but only functions that need neither numbers nor crops of
        it can be applied.

    Raises
    ------
    ValueError
        In a worker, if the halo of a slab is smaller than the functions need. The message says
        what would do.

    See Also
    --------
    ReadSlabs : makes slabs, with the halo that is needed.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.arange(60, dtype="u1").reshape(5, 3, 4))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     slabs = p | bv.ReadSlabs(em, depth=3, halo=1)
    ...     largest = slabs | bv.ApplyStages(lambda v: bv.maximum_filter(v, 3))
    ...     _ = largest | beam.Map(lambda slab: print(slab.key, slab.voxels.max()))
    SlabKey(z=0, y=0, x=0) 47
    SlabKey(z=3, y=0, x=0) 59
    """

    function: Callable[[Volume], Volume]

    def __post_init__(self) -> None:
        super().__init__()
        if not callable(self.function):
            raise TypeError(f"{self.function!r} is not a function from a Volume to a Volume")

    def expand(self, slabs: beam.PCollection[Slab]) -> beam.PCollection[Slab]:
        return slabs | beam.Map(apply_stages, self.function).with_output_types(Slab)


def apply_stages(slab: Slab, function: Callable[[Volume], Volume]) -> Slab:
    """Compute a slab of what a function makes of the whole volume."""
    node = SourceNode.of(BlockSource.of(slab.data, slab.box, slab.shape, slab.space))
    result = function(Volume(node, slab.space))
    if not isinstance(result, Volume):
        raise ValueError(f"the stages gave a {type(result).__name__}, not a volume: {result!r}")
    check_stages(result.node, slab.shape)
    need = reach(result.node, node)
    left: list[tuple[int, int]] = []
    for (before, after), (n, m), a, b, size in zip(
        slab.halo, need, slab.box.start, slab.box.stop, slab.shape, strict=True
    ):
        # Where the slab ends with the volume, stages pad and use nothing up.
        left.append((before - n if a else before, after - m if b < size else after))
    if min(map(min, left)) < 0:
        raise ValueError(
            f"slab {tuple(slab.key)} of a volume of shape {slab.shape} has the halo {slab.halo}, and "
            f"{stage_names(result.node)} need {need}: read it with ReadSlabs(..., halo={need})"
        )
    halo = (left[0], left[1], left[2])
    size = slab.core.expand(halo).size * result.dtype.itemsize
    if size > MOST_BYTES:
        raise ValueError(
            f"slab {tuple(slab.key)}: its {slab.data.dtype} voxels become {format_bytes(size)} of "
            f"{result.dtype}; elements are at most {format_bytes(MOST_BYTES)}: read smaller slabs, with "
            f"{_remedy(slab.core.shape, halo, result)}"
        )
    data = render(result.node, slab.core.expand(halo))
    return Slab(slab.core, halo, data, slab.shape, result.space)


class WriteSlabs(beam.PTransform):
    """Write slabs to an output: a PCollection of `Slab` to one of the keys of those written.

    The output is made once, by the pipeline's first step. Slabs are whole write units (chunks, or
    shards), so that none is written twice or read, and a retry writes the same again.

    Parameters
    ----------
    path : str, os.PathLike or dict
        A path, a URL (``s3://``, ``gs://``) or the spec of a TensorStore key-value store, which
        all workers reach. It ends in ``.zarr`` (zarr v3) or ``.ome.zarr`` (OME-Zarr 0.5), or in
        anything with ``format``.
    like : Volume
        An expression of the shape, dtype and space that the slabs have.
    overwrite : bool, default: False
        Whether to replace an output that exists; otherwise it is an error.
    partial : bool, default: False
        Whether slabs may be missing: voxels that no slab has written are read as 0. Otherwise
        the pipeline fails, at its end, if the slabs are not the whole volume.
    **options : options
        ``format``, ``chunks``, ``shards``, ``codec``, ``zarr_version`` and ``ome_version``, as
        `Volume.to` takes them.

    Raises
    ------
    ValueError
        If the output exists, or is read by a step before; in a worker, if a slab is not made of
        whole write units or not of the shape and dtype of ``like``, or slabs are missing. The
        message names them.

    See Also
    --------
    ReadSlabs : makes slabs.

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
        like: Volume,
        overwrite: bool = False,
        partial: bool = False,
        **options: Any,
    ):
        super().__init__()
        target: Target = like.to(path, **options)
        self.sink = target.sink
        if not self.sink.portable:
            raise ValueError(f"{self.sink.name} is memory of this process; give a path")
        if not overwrite and self.sink.exists():
            raise OutputExistsError(
                f"the output {self.sink.name} exists: pass overwrite=True to replace it, or choose "
                "another path"
            )
        if partial and self.sink.its.assembles:
            raise ValueError(
                f"{self.sink.name}: {self.sink.format} is put together of all its units, so that slabs must "
                "be the whole volume; leave partial=True out, or write .zarr"
            )
        check_in_place(inputs_below(Levels([target.volume.node], [])), [self.sink])
        self.overwrite, self.partial = overwrite, partial
        self.run_id, self.replaces = uuid.uuid4().hex, self.sink.begun_run()

    def expand(self, slabs: beam.PCollection[Slab]) -> beam.PCollection[SlabKey]:
        steps = list(_steps_before(slabs))
        check_in_place(_read_by(steps), [self.sink])
        made = (
            slabs.pipeline
            | "Begin" >> beam.Create([None])
            | "Make" >> beam.Map(_make, self.sink, self.run_id, self.overwrite, self.replaces)
        )
        write = beam.Map(_write, self.sink, made=AsSingleton(made))
        written = slabs | "Write" >> write.with_output_types(Tuple[SlabKey, Box])
        if not self.partial:
            grid = next(_grids_of(steps, self.sink.shape), None)
            boxes = written | "Boxes" >> beam.Values().with_output_types(Box)
            whole = boxes | "Complete" >> CheckComplete(self.sink.name, self.sink.grid, grid)
            if self.sink.its.assembles:
                _ = whole | "Finish" >> beam.Map(_finish, self.sink, self.run_id)
        return written | "Keys" >> beam.Keys().with_output_types(SlabKey)


def _steps_before(slabs: beam.PCollection) -> Iterator[beam.PTransform]:
    """Find the transforms of the pipeline that some slabs come of, those nearest to them first."""
    steps, seen = deque([slabs.producer]), set()
    while steps:
        step = steps.popleft()
        if step is None or id(step) in seen:
            continue
        seen.add(id(step))
        steps += [step.parent, *(i.producer for i in step.inputs if hasattr(i, "producer"))]
        steps += [side.pvalue.producer for side in step.side_inputs]
        if step.transform is not None:
            yield step.transform


def _read_by(steps: Iterable[beam.PTransform]) -> list[Named]:
    """Return what some transforms read of volumes."""
    found: list[Named] = []
    for step in steps:
        nodes = [v.node for v in vars(step).values() if isinstance(v, Volume)]
        found += inputs_below(Levels(nodes, []))
        if isinstance(step, Compute):
            found += step.session.plan.inputs
    return found


def _grids_of(steps: Iterable[beam.PTransform], shape: Triple) -> Iterator[Grid]:
    """Return the grids of slabs of a volume of a shape that some transforms know."""
    for step in steps:
        grid = getattr(step, "grid", None)
        if isinstance(grid, Grid) and grid.shape == shape:
            yield grid


def _make(_: Any, sink: Sink, run_id: str, overwrite: bool, replaces: str | None) -> str:
    sink.create(run_id, overwrite=overwrite, replaces=replaces)
    return run_id


def _finish(_: int, sink: Sink, run_id: str) -> None:
    sink.finish(run_id)


def _write(slab: Slab, sink: Sink, made: str) -> tuple[SlabKey, Box]:
    return write_slab(slab, sink, made), slab.core


def write_slab(slab: Slab, sink: Sink, made: str | None = None) -> SlabKey:
    """Write a slab's core into an output that is made, by the run ``made`` if that is given."""
    key = tuple(slab.key)
    voxels = slab.voxels
    if slab.shape != sink.shape:
        raise ValueError(
            f"slab {key} is of a volume of shape {slab.shape}, and {sink.name} has {sink.shape}: "
            "give WriteSlabs a like= of the slabs' shape"
        )
    if voxels.dtype != sink.dtype and not (voxels.dtype == bool and sink.dtype == "u1"):
        raise ValueError(
            f"slab {key} holds {voxels.dtype}, and {sink.name} {sink.dtype}: give WriteSlabs the "
            f"expression that the slabs are of as like=, or end ApplyStages with .astype('{sink.dtype}')"
        )
    for axis, a, b, u, n in zip(
        "zyx", slab.core.start, slab.core.stop, sink.unit, sink.shape, strict=True
    ):
        if a % u or (b % u and b != n):
            what = "depth" if axis == "z" else "tile"
            raise ValueError(
                f"slab {key}: its core {slab.core} is not made of whole write units {sink.unit} of "
                f"{sink.name} along {axis}, so that two slabs would write one unit; read with a {what} that "
                f"is a multiple of {u}, or write with chunks= that divide the slabs"
            )
    watched = None if made is None else sink.watched(made)
    if watched is not None and lost([watched]):
        raise Superseded(
            f"slab {key}: {sink.name} is gone, or another run's by now: nothing more is written to it"
        )
    write_units(sink.open(), slab.core, voxels).result()
    return slab.key


def as_halo(halo: HaloLike, axes: Sequence[str]) -> Halo:
    """Return a halo (before, after) along z, y, x, from one number, or one or two per axis.

    Examples
    --------
    >>> as_halo((1, (0, 2)), ("y", "x"))
    ((0, 0), (1, 1), (0, 2))
    """
    per_axis = list(halo) if isinstance(halo, Sequence) else [halo] * len(axes)
    found = dict.fromkeys("zyx", (0, 0))
    if len(per_axis) == len(axes):
        for axis, n in zip(axes, per_axis, strict=True):
            pair = tuple(n) if isinstance(n, Sequence) else (n, n)
            if len(pair) != 2 or not all(isinstance(k, int) and k >= 0 for k in pair):
                break
            found[axis] = (pair[0], pair[1])
        else:
            return (found["z"], found["y"], found["x"])
    raise ValueError(
        f"halo={halo!r}: give a whole number from 0 on, or for each axis of {tuple(axes)} one or (before, "
        "after)"
    )


def slab_grid(volume: Volume, depth: int, tile: Sequence[int] | None, halo: Halo = NO_HALO) -> Grid:
    """Return the cores of a volume's slabs; those with their halos must do as elements.

    Examples
    --------
    >>> slab_grid(bv.open(np.zeros((9, 20, 20), "u1")), 4, (10, 10)).step
    (4, 10, 10)
    """
    shape = volume.node.shape
    wanted = (depth, *(shape[1:] if tile is None else tile))
    for n in wanted:
        if len(wanted) != 3 or not isinstance(n, int) or (n < 1 and n not in shape):
            raise ValueError(
                f"depth={depth!r}, tile={tile!r}: give whole numbers from 1 on, tile=(y, x)"
            )
    z, y, x = (max(1, min(n, size)) for n, size in zip(wanted, shape, strict=True))
    if _bytes((z, y, x), halo, volume) > MOST_BYTES:
        raise ValueError(
            f"slabs of {z} x {y} x {x} {volume.dtype} with the halo {halo} are "
            f"{format_bytes(_bytes((z, y, x), halo, volume))} each; elements are at most "
            f"{format_bytes(MOST_BYTES)}: {_remedy((z, y, x), halo, volume)}"
        )
    return Grid(shape, (z, y, x))


def _bytes(core: Triple, halo: Halo, volume: Volume) -> int:
    shape = volume.node.shape
    extents = (min(n + sum(h), size) for n, h, size in zip(core, halo, shape, strict=True))
    return math.prod(extents) * volume.dtype.itemsize


def _remedy(core: Triple, halo: Halo, volume: Volume) -> str:
    """Return a depth, and a tile, that would do."""
    z, y, x = core
    fits = [d for d in range(z, 0, -1) if _bytes((d, y, x), halo, volume) <= MOST_BYTES]
    offers = []
    if fits:
        # A multiple of what chunks are deep by default, if one fits.
        offers.append(f"depth={max([d for d in fits if d % 16 == 0] or fits)}")
    tiles = [(min(y, e), min(x, e)) for e in (2048, 1024, 512, 256, 128, 64, 32, 16)]
    tile = next((t for t in tiles if _bytes((z, *t), halo, volume) <= MOST_BYTES), None)
    if tile is not None:
        offers.append(f"tile={tile}")
    return f"use {' or '.join(offers)}" if offers else "use a smaller depth and a tile"


def _halo(core: Box, box: Box) -> Halo:
    z, y, x = (
        (a - lo, hi - b)
        for a, b, lo, hi in zip(core.start, core.stop, box.start, box.stop, strict=True)
    )
    return (z, y, x)
