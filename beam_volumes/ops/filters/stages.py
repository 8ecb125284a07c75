"""Neighbourhood stages, with a kernel, halo, padding, cost and scratch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.base.nesting import calling
from beam_volumes.kernels.filters import (
    extremum,
    generic,
    gradient,
    median,
    rank_box,
    rank_walk,
    separable,
    uniform,
)
from beam_volumes.kernels.filters.columns import Columns, extremum_of_columns
from beam_volumes.kernels.filters.rank import rank_footprint
from beam_volumes.kernels.morphology import ball
from beam_volumes.kernels.morphology import footprint as morphology
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.parameters.building import converted
from beam_volumes.storage.inputs.origins import extents_of
from beam_volumes.storage.places.extent import Extent
from beam_volumes.sweep.stage import Block, KernelStage, Padding, Stage, digest


@dataclass(frozen=True, eq=False)
class Neighbourhood(KernelStage):
    """A stage with a box of ``extent`` voxels along z, y, x; ``before`` of them precede its own voxel."""

    before: Triple
    extent: Triple
    edges: Padding

    shift_invariant = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((b, n - 1 - b) for b, n in zip(self.before, self.extent, strict=True))
        return ((z, y, x),)

    @property
    def padding(self) -> Padding:
        return self.edges

    def with_padding(self, padding: Padding) -> Stage:
        return replace(self, edges=padding)

    def token(self) -> str:
        edges = self.edges.key
        return digest(
            type(self).__name__,
            self.name,
            self.dtype,
            self.before,
            self.extent,
            edges,
            self.parameters(),
        )

    def parameters(self) -> tuple[Any, ...]:
        """The kernel's arguments after those in `beam_volumes.kernels.rows`."""
        raise NotImplementedError

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        return inputs[0], out, y0, y1, out.cols, *self.parameters()

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        needed = getattr(self.kernel, "scratch", None)
        return needed(rows, cols, depth, self.dtype, *self.parameters()) if needed else ()

    def two_blocks(self, rows: int, cols: int, depth: int, itemsize: int) -> int:
        """Bytes of two intermediate results of a block with its margins."""
        padded = (n + e for n, e in zip((depth, rows, cols), self.extent, strict=True))
        return 2 * math.prod(padded) * itemsize


@dataclass(frozen=True, eq=False)
class Correlate(Neighbourhood):
    """One 1-D correlation per axis, computed in the dtype of the weights."""

    weights: tuple[np.ndarray, np.ndarray, np.ndarray]

    kernel = staticmethod(separable.correlate)

    @property
    def cost(self) -> float:
        return 0.4 + 0.06 * sum(self.extent) * self.weights[0].itemsize / 4

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        # Narrower slabs at the edges keep more slices of the z pass, up to this limit.
        row = (cols + self.extent[2]) * self.weights[0].itemsize
        return max(super().scratch_bytes(rows, cols, depth), separable.KEPT_BYTES + 3 * row)

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return self.two_blocks(rows, cols, depth, self.weights[0].itemsize)

    def parameters(self) -> tuple[Any, ...]:
        return self.weights


@dataclass(frozen=True, eq=False)
class Uniform(Neighbourhood):
    """The sum over a box of small integers times ``scale``; see `beam_volumes.kernels.filters.uniform`.

    ``flat`` and ``solid`` are integer types for a sum over z and y, and over the box.
    """

    flat: np.dtype
    solid: np.dtype
    scale: np.floating

    cost = 0.8
    kernel = staticmethod(uniform.uniform_box)

    @property
    def preferred_slices(self) -> int:
        return self.extent[0]

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return self.two_blocks(rows, cols, depth, self.flat.itemsize)

    def parameters(self) -> tuple[Any, ...]:
        return (*self.extent, self.flat.type(0), self.solid.type(0), self.scale)


@dataclass(frozen=True, eq=False)
class GradientMagnitude(Neighbourhood):
    """The magnitude of a gradient over 3 x 3 x 3; see `beam_volumes.kernels.filters.gradient`.

    Differences are computed in the type of ``centre``, and the magnitude in the type of ``real``.
    """

    centre: np.generic
    real: np.floating

    cost = 1.3
    kernel = staticmethod(gradient.gradient_magnitude)

    def parameters(self) -> tuple[Any, ...]:
        return self.centre.dtype.type(0), self.centre, self.real


@dataclass(frozen=True, eq=False)
class CorrelateNd(Neighbourhood):
    """A correlation with any weights."""

    offsets: np.ndarray
    weights: np.ndarray

    kernel = staticmethod(separable.correlate_nd)

    @property
    def cost(self) -> float:
        return 0.4 + 0.15 * len(self.weights)

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.weights


@dataclass(frozen=True, eq=False)
class ExtremumBox(Neighbourhood):
    """The minimum or maximum over a box."""

    largest: bool

    kernel = staticmethod(extremum.extremum_box)

    @property
    def cost(self) -> float:
        return 1.0 * self.dtype.itemsize

    @property
    def preferred_slices(self) -> int:
        return self.extent[0]

    def device_scratch(self, rows: int, cols: int, depth: int) -> int:
        return self.two_blocks(rows, cols, depth, self.dtype.itemsize)

    def parameters(self) -> tuple[Any, ...]:
        return (*self.extent, self.largest)


@dataclass(frozen=True, eq=False)
class ExtremumFootprint(Neighbourhood):
    """The minimum or maximum over any footprint."""

    offsets: np.ndarray
    largest: bool

    kernel = staticmethod(extremum.extremum_footprint)

    @property
    def cost(self) -> float:
        return 0.3 + 0.1 * len(self.offsets) * self.dtype.itemsize

    @property
    def preferred_slices(self) -> int:
        return self.extent[0]

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.largest


@dataclass(frozen=True, eq=False)
class ExtremumColumns(Neighbourhood):
    """The minimum or maximum over a small footprint of columns, except for bytes."""

    columns: Columns
    largest: bool

    kernel = staticmethod(extremum_of_columns)

    @property
    def cost(self) -> float:
        return 0.5 + 0.07 * len(self.columns.parts) * self.dtype.itemsize

    def parameters(self) -> tuple[Any, ...]:
        return (*self.columns, *self.extent[1:], self.largest)


@dataclass(frozen=True, eq=False)
class RankFootprint(Neighbourhood):
    """The value of a rank under a footprint."""

    offsets: np.ndarray
    rank: int

    kernel = staticmethod(rank_footprint)

    @property
    def cost(self) -> float:
        return 8 * self.dtype.itemsize * len(self.offsets) / 30

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.rank


@dataclass(frozen=True, eq=False)
class RankBox(Neighbourhood):
    """The value of a rank over a box of 8-bit integers; see `beam_volumes.kernels.filters.rank_box`."""

    rank: int

    kernel = staticmethod(rank_box.rank_box)

    @property
    def cost(self) -> float:
        return 2.0 if self.dtype.kind == "b" else 50.0

    @property
    def preferred_slices(self) -> int:
        return max(8, self.extent[0])

    def parameters(self) -> tuple[Any, ...]:
        return (*self.extent, self.rank)


@dataclass(frozen=True, eq=False)
class RankWalk(Neighbourhood):
    """The value of a rank over a large box; see `beam_volumes.kernels.filters.rank_walk`."""

    rank: int

    kernel = staticmethod(rank_walk.rank_walk)

    @property
    def cost(self) -> float:
        return 150.0 + 0.03 * self.extent[0] * self.extent[1] * self.extent[2] ** 0.5

    @property
    def preferred_slices(self) -> int:
        return max(8, self.extent[0])

    def parameters(self) -> tuple[Any, ...]:
        return (*self.extent, self.rank)


@dataclass(frozen=True, eq=False)
class Median3(Neighbourhood):
    """The median of 3 x 3 x 3 voxels."""

    kernel = staticmethod(median.median3)

    @property
    def cost(self) -> float:
        return 3.0 * self.dtype.itemsize

    def parameters(self) -> tuple[Any, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class BinaryFootprint(Neighbourhood):
    """Binary erosion or dilation by any structuring element."""

    offsets: np.ndarray
    dilation: bool

    kernel = staticmethod(morphology.binary_footprint)

    @property
    def cost(self) -> float:
        return 0.3 + 0.05 * len(self.offsets)

    @property
    def preferred_slices(self) -> int:
        return self.extent[0]

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.dilation


@dataclass(frozen=True, eq=False)
class BinaryBall(Neighbourhood):
    """Binary erosion or dilation by a ball or ellipsoid, faster than `BinaryFootprint`.

    ``steps`` and ``limit`` are described in `beam_volumes.kernels.morphology.ball.binary_ball`.
    """

    steps: np.ndarray
    limit: int
    dilation: bool

    kernel = staticmethod(ball.binary_ball)

    @property
    def cost(self) -> float:
        return 1.0 + 0.03 * sum(self.extent) * self.steps.itemsize

    @property
    def preferred_slices(self) -> int:
        return self.extent[0]

    def parameters(self) -> tuple[Any, ...]:
        radii = np.array([n // 2 for n in self.extent])
        return radii, self.steps, self.limit, self.dilation


@dataclass(frozen=True, eq=False)
class GreyFootprint(Neighbourhood):
    """Grey erosion or dilation by a structuring element that is not flat."""

    offsets: np.ndarray
    heights: np.ndarray
    dilation: bool

    kernel = staticmethod(morphology.grey_footprint)

    @property
    def cost(self) -> float:
        return 0.5 + 0.8 * len(self.offsets)

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.heights, self.dilation


@dataclass(frozen=True, eq=False)
class GenericFootprint(Neighbourhood):
    """A function of the voxels under a footprint, compiled in the process that runs it."""

    offsets: np.ndarray
    extra: tuple[Any, ...]
    function: Callable[..., Any]
    identity: str

    @property
    def cost(self) -> float:
        return 10.0 + 3.0 * len(self.offsets)

    def token(self) -> str:
        edges = self.edges.key
        where = self.before, self.extent, edges, self.offsets
        return digest("GenericFootprint", self.identity, self.dtype, *where, self.extra)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        # The function may allocate: four arrays of the footprint's voxels.
        return super().scratch_bytes(rows, cols, depth) + 32 * len(self.offsets)

    def parameters(self) -> tuple[Any, ...]:
        return self.offsets, self.extra

    @property
    def kernel_name(self) -> str:
        return ""  # compiled from the user's function

    @property
    def kernel(self) -> Callable[..., None]:
        return generic.of_footprint(self.function)


@dataclass(frozen=True, eq=False)
class Overlap(Stage):
    """A user's function of padded blocks. The result may have channels, as fields of its dtype."""

    function: Callable[..., np.ndarray]
    depth: Halo
    edges: Padding
    inputs: int
    repeatable: bool
    identity: str
    #: Number of inputs for each array of the function: one, or the channels of a volume.
    inputs_per_array: tuple[int, ...] = ()
    nanoseconds: float = 20.0

    passes_views = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        return (self.depth,) * self.inputs

    @property
    def padding(self) -> Padding:
        return self.edges

    def with_padding(self, padding: Padding) -> Stage:
        return replace(self, edges=padding)

    @property
    def cost(self) -> float:
        return self.nanoseconds

    @property
    def deterministic(self) -> bool:
        return self.repeatable

    @property
    def extents(self) -> tuple[Extent, ...]:
        found = extents_of(self.function, texts=False)
        return tuple(e for e in found if e.hidden_by is None)

    def token(self) -> str:
        edges = self.edges.key
        how = self.inputs, self.inputs_per_array, str(self.dtype)
        return digest("Overlap", self.identity, self.depth, edges, *how)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        (bz, az), (by, ay), (bx, ax) = self.depth
        padded = (rows + by + ay) * (cols + bx + ax) * (depth + bz + az)
        # The joined inputs, and assumed temporaries of the function: two float64 arrays.
        gathered = self.inputs * (2 if self.inputs_per_array else 1)
        return padded * 8 * (gathered + 2 * len(self.dtype.names or "1"))

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        (bz, az), (by, ay), (bx, ax) = self.depth
        blocks = [b.array(y0, y1 + by + ay) for b in inputs]
        if self.inputs_per_array:
            left = iter(blocks)
            blocks = [np.stack([next(left) for _ in range(n)]) for n in self.inputs_per_array]
        with calling(self.name):
            result = np.asarray(self.function(*blocks))
        fields = self.dtype.names
        first = (len(fields),) if fields else ()
        core = (out.depth, y1 - y0, out.cols)
        padded = (core[0] + bz + az, core[1] + by + ay, core[2] + bx + ax)
        if result.shape == first + padded:
            result = result[..., bz : bz + core[0], by : by + core[1], bx : bx + core[2]]
        elif result.shape != first + core:
            raise ValueError(
                f"{self.name}: the function returned shape {result.shape} for a block of {first + padded}; "
                f"it must return that shape, or {first + core} without the overlap"
            )
        result = converted(result, self.dtype[0] if fields else self.dtype, self.name)
        for k in range(out.depth):
            to = out.slice(k, y0, y1)
            for c, field in enumerate(fields or ()):
                to[field] = result[c, k]
            if not fields:
                to[...] = result[k]
