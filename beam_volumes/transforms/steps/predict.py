"""Run a network over slabs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.transforms.display import DisplayDataItem
from apache_beam.typehints import with_input_types, with_output_types

from beam_volumes.base.geometry import NO_HALO, Box, Grid, Halo
from beam_volumes.base.space import Space
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.nodes import Node, with_sources
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.networks.predict import predict
from beam_volumes.transforms import pipeline_metrics
from beam_volumes.transforms.failures import Excepting
from beam_volumes.transforms.slab import MAX_BYTES, GivenSlab, KeyedSlab, Slab, SlabKey, slab_of
from beam_volumes.transforms.steps.grids import SlabGrid
from beam_volumes.transforms.steps.render import (
    BlockSource,
    check_no_numbers,
    check_not_wrapped,
    needed,
    placeholder,
    render,
    stage_names,
)
from beam_volumes.transforms.steps.slabs import ReadSlabs, function_name, place_of


@with_input_types(GivenSlab)
@with_output_types(KeyedSlab)
class Predict(Excepting, beam.PTransform):
    """Apply a network to slabs: ``(SlabKey, Slab)`` to slabs with one channel of its result.

    The results are the same as from `predict` of the whole volume, because patches are placed on
    the volume's grid. The halo of a slab must contain the voxels that its patches use; the result
    has no halo.

    Parameters
    ----------
    slabs : ReadSlabs or SlabGrid
        The division of the volume, and its dtype. Its halo must cover the parts of patches beyond
        the slab; the error message contains the required halo.
    model : path, callable or ModelHandler
        The network: a path, a function or a RunInference handler; see `predict`. Each worker reads
        a file from its original path.
    then : callable, optional
        A function that maps the result, a `Volume`, to a new one, such as ``lambda p: p[0] > 0.5``.
        It must select a channel if the network returns several.
    **options : options
        Additional options of `predict`, such as ``patch``, ``context``, ``mode`` and ``normalize``
        with two numbers.

    Raises
    ------
    ValueError
        If the network cannot be run, the halo is too small, or the result has several channels or a
        different shape from the volume.
    TypeError
        If ``slabs`` has no grid of slabs, or ``then`` is not callable.

    See Also
    --------
    ReadSlabs : makes slabs; also computes expressions with a network, without a halo.
    beam_volumes.predict : all options.

    Notes
    -----
    Each process loads the network once. With ``Predict(...).with_resource_hints(accelerator=...,
    min_ram=...)``, Dataflow runs only this step on machines with a GPU.

    Examples
    --------
    >>> import apache_beam as beam
    >>> def brighter(batch):
    ...     return batch + 1
    >>> em = bv.open(np.arange(60, dtype="u1").reshape(5, 3, 4))
    >>> read = bv.ReadSlabs(em, depth=2)
    >>> network = bv.Predict(read, brighter, patch=(2, 3, 4), context=0)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | read | network | beam.Map(lambda pair: print(pair[0], pair[1].voxels.max()))
    (0, 0, 0) 24.0
    (2, 0, 0) 48.0
    (4, 0, 0) 60.0
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid,
        model: Any,
        then: Callable[[Volume], Volume] | None = None,
        **options: Any,
    ):
        super().__init__()
        if not isinstance(slabs, ReadSlabs | SlabGrid):
            raise TypeError(
                f"Predict: slabs={slabs!r} has no grid of slabs: give the ReadSlabs, or a SlabGrid"
            )
        if then is not None and not callable(then):
            raise TypeError(f"Predict: then={then!r} is not a function from a Volume to a Volume")
        volume, self.grid = slabs.volume, slabs.grid
        slab = placeholder(volume.node.shape, volume.dtype, volume.space)
        made = predict(slab, model, **options)
        self.model = made.nodes[0].name
        result = made if then is None else then(made)
        self.function = "" if then is None else function_name(then)
        self.node, self.space = _one_channel(result, len(made.nodes)), result.space.of_one("c")
        if self.node.shape != slab.node.shape:
            raise ValueError(
                f"Predict: the result has the shape {self.node.shape}, but slabs have "
                f"{slab.node.shape}; slabs keep their positions: use Compute"
            )
        check_no_numbers(self.node)
        check_not_wrapped(self.node)
        _check_halo(self.node, slab.node, self.grid, slabs.halo)  # type: ignore[arg-type]
        _check_size(self.node, self.grid)

    def expand(self, slabs: beam.PCollection) -> Any:
        run = partial(_run, node=self.node, space=self.space)
        where = partial(_where, name=self.model)
        return self.tried(slabs, "Run", run, KeyedSlab, where)

    def display_data(self) -> dict[str, Any]:
        return {
            "network": DisplayDataItem(self.model, label="Runs"),
            "function": DisplayDataItem(self.function or "nothing", label="Then"),
        }


def _one_channel(result: Any, made: int) -> Node:
    if not isinstance(result, Volume):
        raise ValueError(
            f"Predict: then= returned a {type(result).__name__}, not a volume: {result!r}"
        )
    if len(result.nodes) > 1:
        raise ValueError(
            f"Predict: the network returns {made} channels, but slabs have one: choose it by "
            "then=lambda p: p[0]"
        )
    return result.nodes[0]


def _check_halo(node: Node, given: Node, grid: Grid, halo: Halo) -> None:
    """Refuse a halo that does not contain the patches of each slab."""
    wanted = []
    for axis, (n, step) in enumerate(zip(grid.shape, grid.step, strict=True)):
        before = after = 0
        for start in range(0, n, step):
            stop = min(start + step, n)
            a, b = needed(node, given, axis, (start, stop))
            before, after = max(before, start - a), max(after, b - stop)
        wanted.append((before, after))
    if any(w > h for ws, hs in zip(wanted, halo, strict=True) for w, h in zip(ws, hs, strict=True)):
        raise ValueError(
            f"Predict: {stage_names(node)} needs the halo {tuple(wanted)} around slabs of "
            f"{grid.step}, but they have {halo}: read them with halo={tuple(wanted)}, or with a "
            "depth that is a multiple of the output of a patch, which needs less"
        )


def _check_size(node: Node, grid: Grid) -> None:
    size = Box.of_shape(grid.step).size * node.dtype.itemsize
    if size > MAX_BYTES:
        raise ValueError(
            f"Predict: slabs of {grid.step} become {format_bytes(size)} of {node.dtype}; elements "
            f"are at most {format_bytes(MAX_BYTES)}: use a smaller depth or a tile, or a smaller "
            "dtype by then="
        )


def _run(pair: Any, node: Node, space: Space) -> tuple[SlabKey, Slab]:
    slab = slab_of(pair, "Predict")
    with pipeline_metrics.timed(slab.core.size):

        def of_slab(source: Any) -> Any:
            if not isinstance(source, BlockSource):
                return source
            return BlockSource.of(slab.data, slab.box, slab.shape, slab.space)

        (own,) = with_sources((node,), of_slab)
        data = render(own, slab.core)
    return pair[0], replace(slab, halo=NO_HALO, data=data, space=space)


def _where(pair: Any, name: str) -> tuple[str, str, str]:
    return (*place_of(pair), name)
