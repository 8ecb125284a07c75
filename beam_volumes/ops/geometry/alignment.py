"""A transform of its own for each slice or frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.graph.nodes import Fed, FoldValue, Node, StageNode, Value
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.geometry.fields import deformed_plane
from beam_volumes.ops.geometry.displacements import Grid
from beam_volumes.ops.geometry.rearrange import check_indexable
from beam_volumes.ops.geometry.resampling import of_order
from beam_volumes.ops.geometry.stages import Affine, affine_scratch
from beam_volumes.ops.geometry.transforms import matrices_of
from beam_volumes.ops.parameters.building import constant_in, kernel_constant, kernel_input
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.reduction import Reduction
from beam_volumes.sweep.stage import Block, Regrid

#: How planes may be extended beyond their edges.
_MODES = ("constant", "nearest")
#: Positions that are this close to a whole voxel, in voxels, are rounded to it.
_WHOLE = 1e-6


@dataclass(frozen=True, eq=False)
class AffinePlanes(Regrid):
    """The voxel at ``matrices[z] @ position + offsets[z]`` of slice z, or an interpolation around it."""

    matrices: np.ndarray  #: (slices, 2, 2)
    offsets: np.ndarray  #: (slices, 2)
    order: int
    mode: str
    cval: float

    compiled = True
    coupled = frozenset({0, 1, 2})

    @property
    def cost(self) -> float:
        return 2.0 + 0.8 * (1 + self.order) ** 2

    def needs(self, axis: int, wanted: Ranges) -> Range:
        if axis == 0:
            return wanted[0]
        slices = slice(*wanted[0])
        rows = self.matrices[slices, axis - 1]
        first, last = self._ends(slices, axis - 1)
        return _needed(rows, first, last, wanted[1:], self.of[axis])

    def _ends(self, slices: slice, axis: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the largest offset of each slice."""
        return self.offsets[slices, axis], self.offsets[slices, axis]

    def inner(self, axis: int) -> Range:
        return (0, self.grid[0]) if axis == 0 else (0, 0)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return affine_scratch(self.dtype)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            z = out.start[0] + k
            source, result = (
                replace(b, slots=b.slots[at : at + 1], start=(z, *b.start[1:]))
                for b, at in ((inputs[0], z - inputs[0].start[0]), (out, k))
            )
            self._run_slice(z, source, result, y0, y1)

    def _run_slice(self, z: int, source: Block, result: Block, y0: int, y1: int) -> None:
        self._of_slice(z).run((source,), result, y0, y1, ())

    def _of_slice(self, z: int) -> Affine:
        matrix, offset = np.eye(3), np.zeros(3)
        matrix[1:, 1:], offset[1:] = self.matrices[z], self.offsets[z]
        taps = np.array([1, 1 + self.order, 1 + self.order])
        how = matrix, offset, taps, self.mode, self.cval
        return Affine(self.name, self.dtype, self.of, self.grid, *how)


@dataclass(frozen=True, eq=False)
class DeformedPlanes(AffinePlanes):
    """`AffinePlanes` at ``position`` plus the displacement of a grid of nodes."""

    displacements: Grid

    @property
    def cost(self) -> float:
        return 14.0 + super().cost

    def _ends(self, slices: slice, axis: int) -> tuple[np.ndarray, np.ndarray]:
        rows = self.matrices[slices, axis]
        by = np.stack([rows * bound[slices] for bound in self.displacements.bounds])
        offsets = self.offsets[slices, axis]
        return offsets + by.min(axis=0).sum(axis=1), offsets + by.max(axis=0).sum(axis=1)

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        nodes = self.displacements.coefficients.shape[-1]
        return 40 * cols + 16 * nodes + super().scratch_bytes(rows, cols, depth)

    def _run_slice(self, z: int, source: Block, result: Block, y0: int, y1: int) -> None:
        nodes = self.displacements.coefficients[z]
        if not nodes.any():  # whole positions copy voxels
            super()._run_slice(z, source, result, y0, y1)
            return
        deformed_plane(
            source.as_rows, result.as_rows, y0, y1, result.cols, source.start, self.of, result.start,
            self.matrices[z], self.offsets[z], nodes, self.displacements.first, self.displacements.step,
            self.order == 0, self.mode == "nearest", kernel_constant(self.dtype, self.cval),
        )  # fmt: skip


def _needed(
    rows: np.ndarray, first: np.ndarray, last: np.ndarray, wanted: Sequence[Range], n: int
) -> Range:
    """Return the voxels along an axis that some transforms need: a row of each matrix, and offsets."""
    lo, hi = first.copy(), last.copy()
    for k, (a, b) in enumerate(wanted):
        lo += np.minimum(rows[:, k] * a, rows[:, k] * (b - 1))
        hi += np.maximum(rows[:, k] * a, rows[:, k] * (b - 1))
    # One more voxel, because bounds and coordinates are rounded in different orders.
    begin = int(np.clip(np.floor(lo).min() - 1, 0, n - 1))
    return begin, int(np.clip(np.ceil(hi).max() + 2, begin + 1, n))


@dataclass(frozen=True, eq=False)
class AffineFrames(Regrid):
    """The voxel at ``matrices[t] @ position + offsets[t]`` of frame t, or an interpolation around it.

    The frame's number is a value of the stage, so all frames have one stage, and its plan.
    """

    matrices: np.ndarray  #: (frames, 3, 3)
    offsets: np.ndarray  #: (frames, 3)
    order: int
    mode: str
    cval: float

    compiled = True
    coupled = frozenset({0, 1, 2})

    @property
    def cost(self) -> float:
        return 2.0 + 0.8 * (1 + self.order) ** 3

    def needs(self, axis: int, wanted: Ranges) -> Range:
        """Return what any frame needs."""
        offsets = self.offsets[:, axis]
        return _needed(self.matrices[:, axis], offsets, offsets, wanted, self.of[axis])

    def inner(self, axis: int) -> Range:
        return 0, 0

    def scratch_bytes(self, rows: int, cols: int, depth: int) -> int:
        return affine_scratch(self.dtype)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        t = int(values[0])
        taps = np.array([1 + self.order if n > 1 else 1 for n in self.of])
        how = self.matrices[t], self.offsets[t], taps, self.mode, self.cval
        Affine(self.name, self.dtype, self.of, self.grid, *how).run(inputs, out, y0, y1, ())


@dataclass(frozen=True, eq=False)
class OnlyVoxel(Reduction):
    """The value of a volume of one voxel."""

    def zero(self) -> int:
        return 0

    def fold(self, voxels: np.ndarray, mask: np.ndarray | None, values: tuple[Any, ...]) -> int:
        return int(voxels[0, 0])

    def merge(self, a: int, b: int) -> int:
        return a + b

    def finish(self, state: int, values: tuple[Any, ...]) -> np.generic:
        return self.dtype.type(state)


def _frame_number(frames: int) -> Value:
    """Return the number of each frame, as a lazy number of each time point."""
    # One more, since an axis of one point is dropped when it is opened.
    numbers = np.arange(frames + 1, dtype=np.int64).reshape(-1, 1, 1, 1)
    (node,) = open_volume(numbers, axes="tzyx")[:frames].nodes
    return FoldValue.of(OnlyVoxel("frame", np.dtype(np.int64), ()), [Fed(node)])


@documented
def apply_transforms(
    volume: Volume,
    transforms: Any,
    *,
    bounding_box: bool = False,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    displacements: Any = None,
) -> Volume:
    """Apply one transform to each slice, or to each frame of a movie.

    Use it to align serial sections or a drifting movie, with transforms from `register_slices`,
    `register_frames` or a different program.

    Parameters
    ----------
    %(volume)s
    transforms : array_like, table, path or None
        For each slice, the position (y, x) of its first voxel in the aligned volume, in voxels.
        Alternatively, a matrix that maps indices to positions. A matrix is 2 x 2, or homogeneous
        with the position in its last column. A table can be the result of `register_slices`, a
        DataFrame or the path of a CSV file. The table has columns ``y`` and ``x``, and optionally
        the matrix in ``m_yy``, ``m_yx``, ``m_xy`` and ``m_xx``. If the volume has a time axis, pass
        one transform per frame instead, for all spatial axes. None applies only ``displacements``.
    bounding_box : bool, default: False
        Whether to enlarge the result to contain all transformed slices or frames, instead of
        keeping the shape.
    order : {0, 1}, default: 1
        The order of interpolation: 0 is the nearest voxel, 1 is linear. Positions within 1e-6 of an
        integer are rounded; voxels are then copied, not interpolated.
    mode : {"constant", "nearest"}, default: "constant"
        The value outside of a slice: ``cval``, or the nearest voxel of its edge.
    %(outside_cval)s
    displacements : table or path, optional
        The result of `register_elastic`, or the path of its CSV file. The voxel at position ``p`` of
        the aligned volume is taken from ``p + displacement`` of the slice that ``transforms`` alone
        would align. A row has the slice ``z``, the position ``y`` and ``x`` of a node, and its
        displacement ``d_y`` and ``d_x``, in voxels.

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero. With
        ``bounding_box=True``, its origin is the position of its first voxel.

    Raises
    ------
    ValueError
        If a parameter is out of range, a matrix has no inverse, or the number of transforms does
        not match the slices or frames. If the volume has no voxels or no axes y and x. If
        ``displacements`` are not a complete grid for each slice, or the volume has a time axis.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with ``order=1``.

    See Also
    --------
    register_slices : finds the transforms.
    register_elastic : finds the displacements.
    affine_transform : applies one transform to the whole volume.
    fuse : places tiles.

    Notes
    -----
    %(streams)s
    Slices are transformed separately, so each is read once. Slabs of a frame read the voxels that
    any frame needs, so their overlap grows with the drift.

    Displacements between nodes are cubic B-splines with natural ends, and constant outside of the
    nodes. Voxels are interpolated once, for transforms and displacements together. The nodes are in
    memory: 16 bytes for each node and slice.

    References
    ----------
    `scipy.ndimage.affine_transform`, slice by slice or frame by frame, with the inverse of each
    matrix.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 2, 3]], [[2, 3, 0]]], "u1"))
    >>> np.asarray(bv.apply_transforms(v, [(0, 0), (0, 1)])).tolist()
    [[[1, 2, 3]], [[0, 2, 3]]]
    >>> bv.apply_transforms(v, [(0, 0), (0, 1)], bounding_box=True).shape
    (2, 1, 4)
    """
    name = "apply_transforms"
    v = of_order(volume, order, name)
    is_movie = v.space.times > 0
    if not {1, 2} <= {*v.space.visible}:
        raise ValueError(f"{name}: the volume has the axes {', '.join(v.axes)}; y and x are needed")
    if mode not in _MODES:
        raise ValueError(f"{name}: mode={mode!r} is not available; use one of {', '.join(_MODES)}")
    axes = v.space.axes if is_movie else ("y", "x")
    count = v.space.times or v.grid_shape[0]
    each = "frames of the movie" if is_movie else "slices of the volume"
    if transforms is None and displacements is not None:
        transforms = np.zeros((count, len(axes)))
    forward, place = matrices_of(transforms, axes, count, name, each)
    grid_of = None
    if displacements is not None:
        if is_movie:
            raise ValueError(
                f"{name}: displacements= are for slices, but the volume has a time axis; select a time point "
                "by its index"
            )
        grid_of = Grid.of_table(displacements, count, name)
    rounded = np.rint(place)
    place = np.where(abs(place - rounded) < _WHOLE, rounded, place)
    at = ["zyx".index(a) for a in axes]
    first, extent = [0, 0, 0], [*v.grid_shape]
    if bounding_box:
        added = 0 if grid_of is None else math.ceil(np.abs(grid_of.bounds).max())
        for a, low, n in zip(
            at, *bounding_box_of(forward, place, [extent[a] for a in at]), strict=True
        ):
            first[a], extent[a] = low - added, n + 2 * added
    check_indexable(extent, f"{name}: the extent of all {each.partition(' ')[0]}")
    identity = (forward == np.eye(len(axes))).all(axis=(1, 2))
    inverse = np.where(identity[:, None, None], np.eye(len(axes)), np.linalg.inv(forward))
    offsets = -np.einsum("zab,zb->za", inverse, place - np.array([first[a] for a in at]))
    source = kernel_input(v)
    grid: Triple = (extent[0], extent[1], extent[2])
    outside = constant_in(v.dtype, cval, "cval", name)
    parameters: tuple[Value, ...] = ()
    if is_movie:
        whole, starts = np.tile(np.eye(3), (count, 1, 1)), np.zeros((count, 3))
        whole[np.ix_(range(count), at, at)], starts[:, at] = inverse, offsets
        inverse, offsets, parameters = whole, starts, (_frame_number(count),)
    make: Any = AffineFrames if is_movie else AffinePlanes
    if grid_of is not None:
        moved = replace(grid_of, first=grid_of.first - np.array(first[1:]))
        make = partial(DeformedPlanes, displacements=moved)
    stage = make(
        name, source.dtype, source.grid_shape, grid, inverse, offsets, order, mode, outside
    )

    def applied(node: Node) -> Node:
        return StageNode.of(stage, (node,), parameters)

    space = v.space.shifted((first[0], first[1], first[2]))
    return source.map_channels(applied, space).astype(v.dtype)


def bounding_box_of(
    forward: np.ndarray, place: np.ndarray, shape: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return the first voxel of the box of the centres of all slices' voxels, and its shape."""
    reach = np.array(shape) - 1.0
    middle = np.einsum("zab,b->za", forward, reach / 2) + place
    half = np.einsum("zab,b->za", abs(forward), reach / 2)
    low = np.floor((middle - half).min(axis=0) + _WHOLE)
    high = np.ceil((middle + half).max(axis=0) - _WHOLE)
    if max(abs(low).max(), abs(high).max()) >= 2**53:
        raise ValueError("apply_transforms: the positions are too large to index voxels")
    return [int(n) for n in low], [int(n) + 1 for n in high - low]
