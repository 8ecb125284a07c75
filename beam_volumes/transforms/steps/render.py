"""Compute a box of an expression as an array, by a normal sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.geometry import NO_HALO, Box, Grid, Halo, Triple, source_range
from beam_volumes.base.space import Space
from beam_volumes.graph.compile import ancestors, compile_program
from beam_volumes.graph.nodes import (
    AcrossNode,
    CropNode,
    Node,
    SourceNode,
    StageNode,
    ViewNode,
    WrappedNode,
)
from beam_volumes.graph.volume import Volume
from beam_volumes.plan.cost.machine import cores
from beam_volumes.plan.fit.partitioning import preferred_window
from beam_volumes.storage.places.context import context
from beam_volumes.storage.sources.source import Source
from beam_volumes.sweep.executor import sweep
from beam_volumes.sweep.resources import gate
from beam_volumes.sweep.stage import Regrid, digest
from beam_volumes.transforms import pipeline_metrics


def render(node: Node, box: Box) -> np.ndarray:
    """The voxels of a box of a node; only its halo is read in addition.

    Boundary modes apply at the border of the volume, not of the box.
    """
    out = np.empty(box.shape, node.dtype)
    if box.size == 0:
        return out
    # Not `CropNode.of`: it would crop, and open, the source again for each box.
    crop = CropNode(
        box.shape, node.dtype, digest("crop", node.token, box.start, box.stop), node, box.start
    )
    sink: Any = ArraySink("a slab", out)  # has the parts of a `Sink` that a sweep uses
    program = compile_program(box.shape, [(crop, sink)], [], [], {})
    width = preferred_window([program], box.shape[1:])
    with gate.admitted(cores()) as arena:
        result = sweep(program, Grid(box.shape, box.shape), 0, {}, arena, window=width)
    if result.bytes_read:
        pipeline_metrics.read(result.bytes_read)
    return out


@dataclass(frozen=True, eq=False)
class ArraySink:
    """An array as an output of a sweep: one write unit."""

    name: str
    array: np.ndarray
    stores_empty = True

    @property
    def unit(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def grid(self) -> Grid:
        z, y, x = self.array.shape
        return Grid((z, y, x), (z, y, x))

    def open(self) -> ts.TensorStore:
        return ts.array(self.array, copy=False, write=True, context=context())


@dataclass(frozen=True, eq=False)
class BlockSource(Source):
    """An array with one box of a volume; the rest cannot be read."""

    block: Box = field(kw_only=True)

    @classmethod
    def of(
        cls,
        array: np.ndarray,
        block: Box,
        shape: Triple,
        space: Space,
        dtype: np.dtype | None = None,
    ) -> BlockSource:
        """Return the source of an array, read as if it had the ``dtype``."""
        z, y, x = (max(1, n) for n in block.shape)
        dtype = array.dtype if dtype is None else dtype
        return cls("the slab", shape, dtype, (z, y, x), space, _Array(array), block=block)

    def open(self) -> ts.TensorStore:
        voxels = self.reader.voxels  # type: ignore[attr-defined]
        store = ts.array(voxels, copy=False, write=False, context=context())
        store = store if voxels.dtype == self.dtype else ts.cast(store, self.dtype)
        return store[ts.d[:].translate_to[self.block.start]]

    def units_touched(self, axis: int, span: tuple[int, int]) -> int:
        return 0  # nothing is read from storage

    def crop(self, box: Box) -> Source:
        raise ValueError("stages of a slab apply to the whole volume; slicing is not possible")

    def view(self, axes: Triple, flipped: tuple[bool, bool, bool]) -> Source:
        raise ValueError("slabs keep their positions; flip and transpose are not possible")

    def subsampled(self, step: Triple) -> Source:
        raise ValueError("slabs keep their positions; downsample is not possible")

    def token(self) -> str:
        # Expressions of different slabs are never combined.
        return digest("block", self.block.start, self.block.stop, self.shape)


def placeholder(shape: Triple, dtype: Any, space: Space) -> Volume:
    """Return a volume without voxels, which slabs replace by theirs."""
    none = Box((0, 0, 0), (0, 0, 0))
    block = BlockSource.of(np.empty((0, 0, 0), dtype), none, shape, space)
    return Volume(SourceNode.of(block), space)


@dataclass(frozen=True, eq=False)
class _Array:
    """Not ``array``: sweeps would assume that its first voxel is at (0, 0, 0)."""

    voxels: np.ndarray
    portable = False
    remote = False
    extents = ()

    def open(self) -> Any:
        raise NotImplementedError

    def token(self) -> str:
        return "array"


def reach(node: Node, source: Node) -> Halo:
    """The halo around a voxel of a node within which it depends on a source.

    >>> v = bv.open(np.zeros((8, 8, 8), "u1"))
    >>> reach(bv.median_filter(v, 3).node, v.node)
    ((1, 1), (1, 1), (1, 1))
    """
    halos: dict[str, Halo] = {node.token: NO_HALO}
    for n in reversed(ancestors([node])):
        if n.token in halos and isinstance(n, StageNode):
            for i, operand in enumerate(n.operands):
                found = _sum(halos[n.token], n.stage.halo(i))
                halos[operand.token] = larger_halo(halos.get(operand.token, NO_HALO), found)
    return halos.get(source.token, NO_HALO)


def needed(node: Node, source: Node, axis: int, wanted: tuple[int, int]) -> tuple[int, int]:
    """The range of a source for a range of a node along an axis; networks need whole patches.

    >>> v = bv.open(np.zeros((8, 8, 8), "u1"))
    >>> needed(bv.median_filter(v, 3).node, v.node, 0, (4, 6))
    (3, 7)
    """
    ranges = {node.token: wanted}
    for n in reversed(ancestors([node])):
        if n.token not in ranges or not isinstance(n, StageNode):
            continue
        for i, operand in enumerate(n.operands):
            a, b = ranges[n.token]
            if isinstance(n.stage, Regrid):
                # Use the whole range along the other axes, in case it matters.
                box = [(0, size) for size in n.shape]
                box[axis] = (a, b)
                a, b = n.stage.needs(axis, (box[0], box[1], box[2]))
            elif axis in n.stage.spans:
                a, b = 0, operand.shape[axis]
            else:
                mode, halo = n.stage.padding.modes[axis], n.stage.halo(i)[axis]
                a, b = source_range(a, b, halo, operand.shape[axis], mode)
            known = ranges.get(operand.token, (a, b))
            ranges[operand.token] = min(a, known[0]), max(b, known[1])
    return ranges.get(source.token, wanted)


def stage_names(node: Node) -> str:
    """The stages below a node, for messages."""
    return ", ".join(dict.fromkeys(n.name for n in ancestors([node]) if isinstance(n, StageNode)))


def check_stages(node: Node, shape: Triple) -> None:
    """Refuse stages that are neither pointwise nor of a neighbourhood."""
    if node.shape != shape:
        raise ValueError(
            f"the stages change the shape {shape} (z, y, x) to {node.shape}; "
            "slabs keep their positions, so slicing is not possible"
        )
    check_no_numbers(node)
    check_not_wrapped(node)
    for n in ancestors([node]):
        if isinstance(n, StageNode) and isinstance(n.stage, Regrid):
            raise ValueError(
                f"{n.name} moves voxels to other positions; slabs keep theirs, so it is not "
                "possible: use Compute"
            )


def check_not_wrapped(node: Node) -> None:
    """Refuse filters that need voxels at the other end of the volume."""
    for n in ancestors([node]):
        if isinstance(n, WrappedNode):
            raise ValueError(
                f"{n.stage.name} with mode='wrap' needs the other end of the volume, which a slab "
                "does not have: use a different mode, or Compute"
            )


def check_no_numbers(node: Node) -> None:
    """Refuse expressions that need several sweeps: with lazy scalars, or of stored volumes."""
    for n in ancestors([node]):
        if n.values:
            raise ValueError(
                f"{n.name} needs {', '.join(v.name for v in n.values)} of the whole volume, not "
                "of a slab: compute it first and pass the number, or use Compute"
            )
        spans_z = isinstance(n, StageNode) and 0 in n.stage.spans
        if spans_z or isinstance(n, AcrossNode | ViewNode):
            raise ValueError(
                f"{n.name} needs the whole of {n.inputs[0].name} before its first voxel, not only "
                "a slab: write it first and open the result, or use Compute"
            )


def _sum(a: Halo, b: Halo) -> Halo:
    z, y, x = ((p[0] + q[0], p[1] + q[1]) for p, q in zip(a, b, strict=True))
    return (z, y, x)


def larger_halo(a: Halo, b: Halo) -> Halo:
    z, y, x = ((max(p[0], q[0]), max(p[1], q[1])) for p, q in zip(a, b, strict=True))
    return (z, y, x)
