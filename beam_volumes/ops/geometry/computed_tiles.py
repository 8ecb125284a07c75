"""Computed tiles: lazy volumes as sources that are computed box by box, where a fusion reads them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Box, Triple
from beam_volumes.base.space import Space
from beam_volumes.graph.compile import ancestors, compile_program
from beam_volumes.graph.nodes import AcrossNode, Node, SourceNode, StageNode, ViewNode
from beam_volumes.storage.places.extent import Extent
from beam_volumes.storage.places.place import Spec
from beam_volumes.storage.sources.source import Source, digest
from beam_volumes.sweep.executor import BoxSink, compute_box, program_of_box
from beam_volumes.sweep.program import Program
from beam_volumes.sweep.resources import aligned
from beam_volumes.sweep.schedule import OVERLAPS, maxima, schedule

#: Voxels of a window. The slices of all steps in it fit a cache.
_WINDOW_VOXELS = 1 << 18
_NO_BOX = BoxSink(np.empty((0, 0, 0)))
#: Phases relative to chunks that are tried for the largest rings.
_PHASES = 4
#: Known results of `_needs_of`, by the geometry of a program: tiles are usually alike.
_known: dict[Hashable, int] = {}
_MAX_KNOWN = 256


def tile_source(node: Node, space: Space, what: str, arrays: dict[str, Source]) -> Source:
    """Return the source of a node, which is computed if the node is.

    ``what`` is what the messages of errors call it, such as ``"fuse: tile 0"``. ``arrays`` collects the
    arrays of all tiles by token: equal arrays, such as a flat field, are pickled once.
    """
    if isinstance(node, SourceNode):
        return node.source
    _check(node, what)
    sink: Any = _NO_BOX
    program = _with_sources(
        compile_program(node.shape, [(node, sink)], [], [], {}),
        lambda s: arrays.setdefault(s.token(), s) if s.in_memory else s,
    )
    reader = ComputedReader(program, node.token)
    stored = [s for s in reader.sources if not s.in_memory]
    # Cells of a fusion are large compared with these chunks.
    z, y, x = (1, 1, 1) if not stored else max(stored, key=lambda s: s.nbytes).chunk
    return Source(
        name=node.name,
        shape=node.shape,
        dtype=node.dtype,
        chunk=(min(z, node.shape[0]), min(y, node.shape[1]), min(x, node.shape[2])),
        space=space.with_leading(space.times, False, ()),
        reader=reader,
        encoded=any(s.encoded for s in stored),
        leading=(space.times,) if space.times else (),
        leading_chunk=(1,) if space.times else (),
    )


def _check(node: Node, what: str) -> None:
    """Refuse a node that needs more than the voxels around a box."""
    for n in ancestors([node]):
        if n.values:
            raise ValueError(
                f"{what} needs {', '.join(v.name for v in n.values)}, a number of a whole volume; compute "
                "it first and pass the number, such as float(tile.mean())"
            )
        stage = n.stage if isinstance(n, StageNode) else None
        spans = stage is not None and (0 in stage.spans or stage.holds or not stage.deterministic)
        if spans or isinstance(n, AcrossNode | ViewNode):
            raise ValueError(
                f"{what} cannot be computed in blocks, because of {n.name}; write the tile first and open "
                "the result, or apply the operation to the fused volume"
            )


@dataclass(frozen=True, eq=False)
class ComputedReader:
    """The result of a program with one output, computed box by box in the threads that read it."""

    program: Program
    identity: str  #: The token of its node

    @cached_property
    def sources(self) -> tuple[Source, ...]:
        return tuple(s.source for s in self.program.steps if s.source is not None)

    @property
    def portable(self) -> bool:
        return all(s.portable for s in self.sources)

    @property
    def remote(self) -> bool:
        return any(s.reader.remote for s in self.sources)

    @property
    def extents(self) -> tuple[Extent, ...]:
        of_stages = (s.stage.extents for s in self.program.steps if s.stage is not None)
        of_sources = (s.reader.extents for s in self.sources)
        return tuple(itertools.chain(*of_sources, *of_stages))

    @property
    def kernels(self) -> frozenset[tuple[str, tuple[str, ...]]]:
        steps = self.program.steps
        own = {
            (
                type(s.stage).__name__,
                (*(steps[e.step].dtype.str for e in s.edges), s.dtype.str),
            )
            for s in steps
            if s.stage is not None and s.stage.compiled
        }
        return frozenset(own).union(*(s.kernels for s in self.sources))

    @property
    def remark(self) -> str:
        names = dict.fromkeys(s.name for s in self.program.steps if s.source is None)
        return f"computed in blocks: {', '.join(names)}"

    def token(self) -> str:
        return digest(type(self).__name__, self.identity, [s.token() for s in self.sources])

    def open(self) -> Any:
        raise NotImplementedError("it is read by compute")

    def compute(self, box: Box) -> np.ndarray:
        """Compute a box."""
        if not box.size:
            return np.empty(box.shape, self.program.steps[-1].dtype)
        return compute_box(self.program, box, _window(self.program, box.shape))

    def working_bytes(self, shape: Triple) -> int:
        """Return the maximal bytes to compute a box with at most this shape."""
        key = _geometry(self.program), shape
        if key not in _known:
            if len(_known) >= _MAX_KNOWN:
                _known.clear()
            _known[key] = _needs_of(self.program, shape)
        return _known[key]

    def along_time(self, at: int | tuple[int, int]) -> ComputedReader:
        """Return the reader of a time point, or a range of them; all share the arrays without time."""

        def taken(source: Source) -> Source:
            if "t" not in source.space.leading:
                return source
            return source.point("t", at) if isinstance(at, int) else source.span("t", *at)

        return replace(self, program=_with_sources(self.program, taken))

    def moved(self, move: Callable[[Spec], Spec]) -> ComputedReader:
        moved = _with_sources(self.program, lambda s: s.moved(s.name, move))
        return replace(self, program=moved)


def _with_sources(program: Program, change: Callable[[Source], Source]) -> Program:
    steps = (s if s.source is None else replace(s, source=change(s.source)) for s in program.steps)
    return replace(program, steps=tuple(steps))


def _window(program: Program, shape: Triple) -> int:
    slices = round(_WINDOW_VOXELS / (shape[1] * shape[2]))
    stages = (s.stage for s in program.steps)
    shared = max((s.preferred_slices for s in stages if s is not None), default=1)
    return max(1, min(shape[0], max(shared, slices)))


def _needs_of(program: Program, shape: Triple) -> int:
    """Return the maximal bytes of rings, scratch, reads and the box itself, tried at some positions."""
    z, y, x = (min(n, s) for n, s in zip(program.shape, shape, strict=True))
    window = _window(program, (z, y, x))
    depth = max((s.source.chunk[0] for s in program.steps if s.source is not None), default=1)
    starts = [
        [0, n - s, *((n - s) // 2 + k * -(-depth // _PHASES) for k in range(_PHASES))]
        for n, s in zip(program.shape, (z, y, x), strict=True)
    ]
    several = itertools.product(*starts) if program.coupled else zip(*starts, strict=True)
    slices, new, rows, cols = ([0] * len(program.steps) for _ in range(4))
    for first in several:
        a, b, c = (min(f, n - s) for f, n, s in zip(first, program.shape, (z, y, x), strict=True))
        part = program_of_box(program, Box((a, b, c), (a + z, b + y, c + x)), _NO_BOX.array)
        ranges = Box.of_shape((z, y, x)).ranges
        found = maxima(part, [schedule(part, ranges, window, OVERLAPS[-1])])
        slices, new = list(map(max, slices, found[0])), list(map(max, new, found[1]))
        for axis, extents in ((1, rows), (2, cols)):
            wide = (hi - lo for lo, hi in part.extents(axis, part.regions(axis, ranges)))
            extents[:] = map(max, extents, wide)
    rings = scratch = reading = 0
    for i, step in enumerate(program.steps):
        plane = rows[i] * cols[i] * step.dtype.itemsize
        rings += aligned((slices[i] + program.constant_slice(i)) * plane)
        if step.stage is not None:
            rings += step.stage.kept_bytes(rows[i], cols[i])
            scratch = max(scratch, step.stage.working_bytes((new[i], rows[i], cols[i]), 1))
        elif step.source is not None and not step.source.in_memory:
            own = step.source.bytes_to_read((slices[i], rows[i], cols[i]))
            reading = max(reading, slices[i] * plane + own)
    return rings + max(scratch, reading) + z * y * x * program.steps[-1].dtype.itemsize


def _geometry(program: Program) -> Hashable:
    """All that `_needs_of` depends on."""
    steps = tuple(
        (
            s.shape,
            s.dtype.str,
            s.source and (s.source.chunk, s.source.in_memory, s.source.decode_bytes),
            s.stage and s.stage.token(),
            tuple((e.step, e.offset, e.halo, e.padding) for e in s.edges),
        )
        for s in program.steps
    )
    return program.shape, steps, program.outputs[0].edge.offset
