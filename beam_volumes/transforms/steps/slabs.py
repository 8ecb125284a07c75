"""Read slabs of voxels as elements, and apply stages to each.

Unlike in `Compute`, voxels are elements of PCollections: small slabs, with the halo that the stages
need. These steps do not shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import with_input_types, with_output_types

from beam_volumes.base.geometry import Box, Grid, Halo
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.compile import ancestors
from beam_volumes.graph.nodes import SourceNode
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.storage.sources.source import Source
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.failures import Excepting
from beam_volumes.transforms.passes import slab_ranges
from beam_volumes.transforms.slab import MAX_BYTES, GivenSlab, KeyedSlab, Slab, SlabKey, slab_of
from beam_volumes.transforms.steps.grids import HaloLike, as_halo, halo_of, remedy, slab_grid
from beam_volumes.transforms.steps.render import (
    BlockSource,
    check_no_numbers,
    check_stages,
    reach,
    render,
    stage_names,
)
from beam_volumes.transforms.waiting import beginning


@with_output_types(KeyedSlab)
@dataclass(eq=False)
class ReadSlabs(Excepting, beam.PTransform):
    """Read a volume, or compute an expression, as slabs: a PCollection of ``(SlabKey, Slab)``.

    Use it if your own steps need voxels as elements. Applied to a pipeline, it starts immediately.
    Applied to a PCollection, it waits until that is complete, such as for the outputs of `Compute`
    or `WriteSlabs`.

    Parameters
    ----------
    volume : Volume
        An opened volume, or an expression of pointwise and neighbourhood functions.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, if whole planes are too large.
    halo : int or sequence, default: 0
        Number of additional voxels around the core of each slab, within the volume: one number for
        all axes, or for each axis a number or a pair ``(before, after)``.

    Raises
    ------
    ValueError
        If a slab would be larger than 8 MiB (the message suggests a smaller one), the expression
        needs numbers of the whole volume, or workers cannot read it.
    TypeError
        If it is applied to neither a pipeline nor a PCollection.

    See Also
    --------
    ApplyStages, WriteSlabs, LabelComponents : steps that take slabs.
    Compute : computes volumes without slabs in the pipeline.

    Examples
    --------
    >>> import apache_beam as beam
    >>> em = bv.open(np.zeros((5, 8, 8), "u1"))
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | bv.ReadSlabs(em, depth=3, halo=1) | beam.MapTuple(lambda key, slab: print(slab))
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

    def expand(self, begin: Any) -> Any:
        pipeline, wait, windowed = beginning(begin, "ReadSlabs")
        indices = beam.FlatMap(_indices, **wait).with_output_types(int)
        spread = (
            pipeline
            | "Ranges" >> beam.Create(slab_ranges(len(self.grid)))
            | "Slabs" >> indices
            | "Spread" >> beam.Reshuffle()
        )
        names = tuple(source_names(self.volume))
        stage = stage_names(self.volume.node) or "read"
        how: dict[str, Any] = {"volume": self.volume, "grid": self.grid, "halo": self.halo}
        read = partial(_read, **how, names=names)
        where = partial(_read_where, grid=self.grid, name=", ".join(names), stage=stage)
        return self.tried(windowed(spread), "Read", read, KeyedSlab, where)

    def display_data(self) -> dict[str, Any]:
        return {
            "volume": DisplayDataItem(", ".join(source_names(self.volume)), label="Reads"),
            "slabs": DisplayDataItem(len(self.grid), label="Number of slabs"),
            "core": DisplayDataItem(str(self.grid.step), label="Voxels of a slab"),
            "halo": DisplayDataItem(str(self.halo), label="Halo"),
        }


def _read(
    index: int, volume: Volume, grid: Grid, halo: Halo, names: tuple[str, ...]
) -> tuple[SlabKey, Slab]:
    slab = read_slab(index, volume, grid, halo)
    pipeline_metrics.reads(names)
    return slab.key, slab


def _read_where(index: int, grid: Grid, name: str, stage: str) -> tuple[str, str, str]:
    return name, str(grid.box(index)), stage


def _indices(span: tuple[int, int], ready: Any = None) -> range:
    return range(*span)


def source_names(volume: Volume) -> list[str]:
    """Names of the sources of an expression."""
    nodes = ancestors([volume.node])
    return list(dict.fromkeys(n.source.name for n in nodes if isinstance(n, SourceNode)))


def check_readable(volume: Volume) -> None:
    """Refuse expressions that workers cannot compute slab by slab."""
    check_no_numbers(volume.node)
    check_portable(n.source for n in ancestors([volume.node]) if isinstance(n, SourceNode))


def check_portable(sources: Iterable[Source]) -> None:
    """Refuse sources that workers cannot read, except for slabs."""
    for source in sources:
        if not source.portable and not isinstance(source, BlockSource):
            raise ValueError(
                f"{source.name} is in the memory of this process "
                f"({format_bytes(source.nbytes)}), which a pipeline's workers cannot read; "
                "write it to a .zarr first"
            )


def read_slab(index: int, volume: Volume, grid: Grid, halo: Halo, name: str = "") -> Slab:
    """One slab of a grid, with its halo inside the volume."""
    core = grid.box(index)
    box = core.expand(halo).intersect(Box.of_shape(grid.shape))
    with pipeline_metrics.timed(core.size):
        voxels = render(volume.node, box)
    return Slab(core, halo_of(core, box), voxels, grid.shape, volume.space, name)


@with_input_types(GivenSlab)
@with_output_types(KeyedSlab)
@dataclass(eq=False)
class ApplyStages(Excepting, beam.PTransform):
    """Apply pointwise and neighbourhood functions to each ``(SlabKey, Slab)``.

    Slabs keep their cores. Functions reduce the halo by the voxels that they need. Boundary modes
    only apply at the edges of the volume, so the voxels equal the result for the whole volume.

    Parameters
    ----------
    function : callable
        A function from a `Volume` to a `Volume`, such as ``lambda v: bv.median_filter(v, 3)``. Its
        argument represents the whole volume, but functions that need numbers or crops of the volume
        cannot be applied.

    Raises
    ------
    ValueError
        In a worker, if the halo of a slab is smaller than the functions need. The message contains
        the required halo.

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
    ...     _ = largest | beam.Map(lambda pair: print(pair[0], pair[1].voxels.max()))
    (0, 0, 0) 47
    (3, 0, 0) 59
    """

    function: Callable[[Volume], Volume]

    def __post_init__(self) -> None:
        super().__init__()
        if not callable(self.function):
            raise TypeError(f"{self.function!r} is not a function from a Volume to a Volume")

    def expand(self, slabs: beam.PCollection) -> Any:
        apply = partial(_apply, function=self.function)
        where = partial(_apply_where, name=function_name(self.function))
        return self.tried(slabs, "Apply", apply, KeyedSlab, where)

    def display_data(self) -> dict[str, Any]:
        return {"function": DisplayDataItem(function_name(self.function), label="Applies")}


def _apply(pair: Any, function: Callable[[Volume], Volume]) -> tuple[SlabKey, Slab]:
    slab = slab_of(pair, "ApplyStages")
    with pipeline_metrics.timed(slab.core.size):
        return pair[0], apply_stages(slab, function)


def _apply_where(pair: Any, name: str) -> tuple[str, str, str]:
    return (*place_of(pair), name)


def function_name(function: Any) -> str:
    """Return the name of a function in messages."""
    return getattr(function, "__name__", type(function).__name__)


def place_of(pair: Any) -> tuple[str, str]:
    """Return the volume and box of any element."""
    slab = pair[1] if isinstance(pair, tuple) and len(pair) == 2 else pair
    return (slab.volume, str(slab.core)) if isinstance(slab, Slab) else ("", "")


def apply_stages(slab: Slab, function: Callable[[Volume], Volume]) -> Slab:
    """Apply a function of the whole volume to a slab."""
    node = SourceNode.of(BlockSource.of(slab.data, slab.box, slab.shape, slab.space))
    result = function(Volume(node, slab.space))
    if not isinstance(result, Volume):
        raise ValueError(f"the stages returned a {type(result).__name__}, not a volume: {result!r}")
    check_stages(result.node, slab.shape)
    need = reach(result.node, node)
    left: list[tuple[int, int]] = []
    for (before, after), (n, m), a, b, size in zip(
        slab.halo, need, slab.box.start, slab.box.stop, slab.shape, strict=True
    ):
        # At the edge of the volume stages pad, and need no halo.
        left.append((before - n if a else before, after - m if b < size else after))
    if min(map(min, left)) < 0:
        raise ValueError(
            f"slab {slab.key} of a volume of shape {slab.shape} has the halo {slab.halo}, but "
            f"{stage_names(result.node)} need {need}: read it with ReadSlabs(..., halo={need})"
        )
    halo = (left[0], left[1], left[2])
    size = slab.core.expand(halo).size * result.dtype.itemsize
    if size > MAX_BYTES:
        raise ValueError(
            f"slab {slab.key}: its {slab.data.dtype} voxels become {format_bytes(size)} of "
            f"{result.dtype}; elements are at most {format_bytes(MAX_BYTES)}: read smaller slabs, "
            f"with {remedy(slab.core.shape, halo, result)}"
        )
    data = render(result.node, slab.core.expand(halo))
    return replace(slab, halo=halo, data=data, space=result.space)
