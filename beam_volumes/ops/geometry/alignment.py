"""A transform of its own for each slice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Range, Ranges, Triple
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.rearrange import check_indexable
from beam_volumes.ops.geometry.resampling import of_order
from beam_volumes.ops.geometry.stages import Affine
from beam_volumes.ops.geometry.transforms import matrices_of
from beam_volumes.ops.parameters.building import constant_in, kernel_input
from beam_volumes.ops.parameters.docs import documented
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
        n, slices = self.of[axis], slice(*wanted[0])
        ends = self.offsets[slices, axis - 1]
        lo, hi = ends.copy(), ends.copy()
        for k, (a, b) in enumerate(wanted[1:]):
            row = self.matrices[slices, axis - 1, k]
            lo += np.minimum(row * a, row * (b - 1))
            hi += np.maximum(row * a, row * (b - 1))
        # One more voxel, because bounds and coordinates are rounded in different orders.
        first = int(np.clip(np.floor(lo).min() - 1, 0, n - 1))
        return first, int(np.clip(np.ceil(hi).max() + 2, first + 1, n))

    def inner(self, axis: int) -> Range:
        return (0, self.grid[0]) if axis == 0 else (0, 0)

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        for k in range(out.depth):
            z = out.start[0] + k
            stage = self._of_slice(z)
            parts = (
                replace(b, slots=b.slots[at : at + 1], start=(z, *b.start[1:]))
                for b, at in ((inputs[0], z - inputs[0].start[0]), (out, k))
            )
            source, result = parts
            stage.run((source,), result, y0, y1, values)

    def _of_slice(self, z: int) -> Affine:
        matrix, offset = np.eye(3), np.zeros(3)
        matrix[1:, 1:], offset[1:] = self.matrices[z], self.offsets[z]
        taps = np.array([1, 1 + self.order, 1 + self.order])
        how = matrix, offset, taps, self.mode, self.cval
        return Affine(self.name, self.dtype, self.of, self.grid, *how)


@documented
def apply_transforms(
    volume: Volume,
    transforms: Any,
    *,
    bounding_box: bool = False,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
) -> Volume:
    """Apply one transform to each slice.

    Use it to align serial sections or a drifting film, with the transforms of `register_slices` or
    of another program.

    Parameters
    ----------
    %(volume)s
    transforms : array_like, table or path
        For each slice, the position of its first voxel in the aligned volume, (y, x), or a matrix
        that maps indices to positions: 2 x 2, or homogeneous with the position in its last column. A
        table, such as the result of `register_slices`, a DataFrame or the path of a CSV file, has
        columns ``y`` and ``x``, and optionally the matrix in ``m_yy``, ``m_yx``, ``m_xy`` and
        ``m_xx``. In voxels.
    bounding_box : bool, default: False
        Whether to enlarge the planes of the result to contain all transformed slices, or to keep
        the shape.
    order : {0, 1}, default: 1
        0 is the nearest voxel, 1 is linear. Positions within a millionth of a voxel of whole numbers
        count as whole, and copy voxels.
    mode : {"constant", "nearest"}, default: "constant"
        The value outside of a slice: ``cval``, or the nearest voxel of its edge.
    %(outside_cval)s

    Returns
    -------
    Volume
        A volume of the input's dtype; integers are rounded half away from zero. With
        ``bounding_box=True``, its origin is the position of its first voxel.

    Raises
    ------
    ValueError
        If a parameter is out of range, there is not one transform for each slice, a matrix has no
        inverse, or the volume has no voxels or no axes y and x.
    TypeError
        If ``volume`` is neither a volume nor an array, or of bool with ``order=1``.

    See Also
    --------
    register_slices : finds the transforms.
    affine_transform : applies one transform to the whole volume.
    fuse : places tiles.

    Notes
    -----
    %(streams)s
    Slices are not mixed, so each slice is read once.

    References
    ----------
    `scipy.ndimage.affine_transform`, slice by slice, with the inverse of each matrix.

    Examples
    --------
    >>> v = bv.open(np.array([[[1, 2, 3]], [[2, 3, 0]]], "u1"))
    >>> np.asarray(bv.apply_transforms(v, [(0, 0), (0, 1)])).tolist()
    [[[1, 2, 3]], [[0, 2, 3]]]
    >>> bv.apply_transforms(v, [(0, 0), (0, 1)], bounding_box=True).shape
    (2, 1, 4)
    """
    v = of_order(volume, order, "apply_transforms")
    if v.space.times:
        raise ValueError(
            "apply_transforms: the volume has an axis of time; use affine_transform for each frame, "
            "v[0] to v[-1], with the inverse of its matrix"
        )
    if not {1, 2} <= {*v.space.visible}:
        raise ValueError(
            f"apply_transforms: the volume has the axes {', '.join(v.axes)}; y and x are needed"
        )
    if mode not in _MODES:
        raise ValueError(
            f"apply_transforms: mode={mode!r} is not offered; use one of {', '.join(_MODES)}"
        )
    depth, *plane = v.grid_shape
    forward, place = matrices_of(
        transforms, ("y", "x"), depth, "apply_transforms", "slices of the volume"
    )
    rounded = np.rint(place)
    place = np.where(abs(place - rounded) < _WHOLE, rounded, place)
    first, extent = (0, 0), plane
    if bounding_box:
        first, extent = _bounding_box(forward, place, plane)
    check_indexable([depth, *extent], "apply_transforms: the extent of all slices")
    identity = (forward == np.eye(2)).all(axis=(1, 2))
    inverse = np.where(identity[:, None, None], np.eye(2), np.linalg.inv(forward))
    offsets = -np.einsum("zab,zb->za", inverse, place - np.array(first))
    source = kernel_input(v)
    grid: Triple = (depth, extent[0], extent[1])
    how = inverse, offsets, order, mode, constant_in(v.dtype, cval, "cval", "apply_transforms")
    stage = AffinePlanes("apply_transforms", source.dtype, source.grid_shape, grid, *how)
    space = v.space.shifted((0, *first))
    return source.map_channels(lambda node: StageNode.of(stage, (node,)), space).astype(v.dtype)


def _bounding_box(
    forward: np.ndarray, place: np.ndarray, plane: list[int]
) -> tuple[tuple[int, int], list[int]]:
    """Return the first voxel of the box of the centres of all slices' voxels, and its shape."""
    reach = np.array(plane) - 1.0
    middle = np.einsum("zab,b->za", forward, reach / 2) + place
    half = np.einsum("zab,b->za", abs(forward), reach / 2)
    low = np.floor((middle - half).min(axis=0) + _WHOLE)
    high = np.ceil((middle + half).max(axis=0) - _WHOLE)
    if max(abs(low).max(), abs(high).max()) >= 2**53:
        raise ValueError("apply_transforms: the positions are too large to index voxels")
    return (int(low[0]), int(low[1])), [int(n) + 1 for n in high - low]
