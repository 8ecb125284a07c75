"""Volumes at positions from a stored field: coordinates, or displacements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import NO_HALO, Halo, Triple
from beam_volumes.base.space import AXES
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.kernels.geometry.fields import at_field
from beam_volumes.kernels.geometry.resample import MODES
from beam_volumes.kernels.geometry.splines import scratch_around
from beam_volumes.kernels.scratch import Scratch, arrays
from beam_volumes.ops.filters.splines import MAX_ORDER
from beam_volumes.ops.geometry.rearrange import pad
from beam_volumes.ops.geometry.resampling import of_order
from beam_volumes.ops.interpolation.grids import Interpolation
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import (
    first_channel,
    kernel_constant,
    kernel_input,
    triple,
)
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.sweep.stage import Block, Padding, Stage


@dataclass(frozen=True, eq=False)
class AtField(Stage):
    """The voxels at the positions in a field; inputs are the volume, and a field for each axis that moves.

    The volume of ``extent`` begins at ``lead`` in the voxels of ``shape``.
    """

    shape: Triple
    lead: Triple
    extent: Triple
    moved: tuple[bool, ...]
    relative: bool
    reach: tuple[float, ...]
    taps: np.ndarray
    mode: str
    cval: float

    compiled = True

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = (
            (math.ceil(r) + int(t), math.ceil(r) + int(t)) if m else (0, 0)
            for r, t, m in zip(self.reach, self.taps, self.moved, strict=True)
        )
        return ((z, y, x), *(NO_HALO,) * sum(self.moved))

    @property
    def padding(self) -> Padding:
        return Padding(("nearest",) * 3)  # voxels outside are not used

    @property
    def cost(self) -> float:
        return 20.0 + 1.2 * math.prod(self.taps.tolist())

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return scratch_around(depth + sum(self.halos[0][0]))

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        source, *given = (block.as_rows for block in inputs)
        of_axes = iter(given)
        fields = tuple(next(of_axes) if m else given[0] for m in self.moved)
        wrong = np.zeros(5)
        at_field(
            source, fields, out.as_rows, y0, y1, out.cols, inputs[0].start, self.shape, out.start,
            self.lead, self.extent, self.moved, self.relative, self.reach, self.taps, MODES[self.mode],
            kernel_constant(self.dtype, self.cval), wrong, arrays(self.scratch(y1 - y0, out.cols, out.depth)),
        )  # fmt: skip
        if wrong[0]:
            at = ", ".join(str(int(n)) for n, m in zip(wrong[1:4], self.moved, strict=True) if m)
            names = ", ".join(a for a, m in zip(AXES, self.moved, strict=True) if m)
            limit = ", ".join(f"{r:g}" for r, m in zip(self.reach, self.moved, strict=True) if m)
            raise ValueError(
                f"{self.name}: voxel ({names}) = ({at}) moves by {wrong[4]:g}, and max_displacement= is "
                f"{limit}; increase it, or correct the field"
            )


@documented
def map_coordinates(
    volume: Volume,
    coordinates: Volume,
    *,
    max_displacement: float | str | Sequence[float | str],
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Interpolate a volume at positions from a stored field.

    Parameters
    ----------
    %(volume)s
    coordinates : Volume or numpy.ndarray
        For each voxel of the result, its position in the volume, in voxels. The field has the shape
        of the volume, with a channel for each axis in the order z, y, x.
    max_displacement : float, str or sequence of them
        The maximum distance between a voxel and its position along each axis, in voxels or as a
        length such as ``"200 nm"``. One value for all axes or one per axis. If a voxel is further
        away, the run raises an error that specifies the voxel.
    %(order)s
    %(outside)s
    %(outside_cval)s
    %(prefilter)s

    Returns
    -------
    %(resampled)s

    Raises
    ------
    ValueError
        If a parameter is out of range or does not have one entry for each axis. If the field does not
        match the volume, or the volume has no voxels. On computation, if a position is NaN or too
        far away.
    TypeError
        If an input is neither a volume nor an array, or the volume is bool with an order above 0.

    See Also
    --------
    warp : takes displacements.
    affine_transform : computes positions from a matrix, without a limit.

    Notes
    -----
    One sweep. The halo is ``max_displacement`` plus ``order + 1`` voxels along each axis. The
    result has the shape and origin of the volume. For single positions, index the volume.

    References
    ----------
    `scipy.ndimage.map_coordinates`.

    Examples
    --------
    >>> v = np.array([[10, 20, 40]], "u1")
    >>> at = np.array([[[0, 0, 0]], [[0.5, 0, 2]]])  # y, then x
    >>> np.asarray(bv.map_coordinates(v, at, max_displacement=1))
    array([[15, 10, 40]], dtype=uint8)
    """
    how = order, mode, cval, prefilter
    return _at_field(
        "map_coordinates", volume, coordinates, "coordinates", max_displacement, False, *how
    )


@documented_like(map_coordinates)
def warp(
    volume: Volume,
    displacement: Volume,
    *,
    max_displacement: float | str | Sequence[float | str],
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Deform a volume by a stored displacement field.

    Position ``p`` in the result corresponds to position ``p + displacement`` in the volume.

    Parameters
    ----------
    displacement : Volume or numpy.ndarray
        For each voxel of the result, its displacement in voxels. The field has the shape of the
        volume, with a channel for each axis in the order z, y, x.
    max_displacement : float, str or sequence of them
        The maximum absolute displacement along each axis, in voxels or as a length such as ``"200
        nm"``. One value for all axes or one per axis. If a displacement is larger, the run raises
        an error that specifies the voxel.

    See Also
    --------
    map_coordinates : takes positions, as does scikit-image's function for arrays.
    apply_transforms : applies a transform to each slice.

    Notes
    -----
    One sweep. The halo is ``max_displacement`` plus ``order + 1`` voxels along each axis. The
    result has the shape and origin of the volume.

    Many registration programs store such fields. Divide fields in physical units by the voxel size,
    and reverse the order of channels if they are x, y, z.

    References
    ----------
    `skimage.transform.warp`, with ``inverse_map`` as the sum of the displacements and the positions of
    voxels.

    Examples
    --------
    >>> v = np.array([[10, 20, 40]], "u1")
    >>> by = np.array([[[0, 0, 0]], [[0.5, -1, 0]]])  # y, then x
    >>> np.asarray(bv.warp(v, by, max_displacement=1))
    array([[15, 10, 40]], dtype=uint8)
    """
    how = order, mode, cval, prefilter
    return _at_field("warp", volume, displacement, "displacement", max_displacement, True, *how)


def _at_field(
    name: str,
    volume: Volume,
    given: Any,
    what: str,
    max_displacement: Any,
    relative: bool,
    order: int,
    mode: Any,
    cval: float,
    prefilter: bool,
) -> Volume:
    v = of_order(volume, order, name, MAX_ORDER)
    how = Interpolation.of(v, name, order, mode, cval, prefilter)
    visible = v.space.visible
    field = _field_of(given, v, name, what)
    reach = par.lengths(v, max_displacement, visible, "max_displacement")
    moved = tuple(a in visible for a in range(3))
    orders = [order if m else 0 for m in moved]
    source, added = how.source(
        v, orders, [(-r, n - 1 + r) for r, n in zip(reach, v.grid_shape, strict=True)]
    )
    extent = v.grid_shape
    if any(added):
        widths = [(added[a], added[a]) for a in visible]
        field = pad(field, widths)
    source = kernel_input(source)
    stage = AtField(
        name, kernel_dtype(v.dtype), source.grid_shape, triple(added), extent,
        moved, relative, tuple(reach), np.array(orders) + 1, how.edges, how.cval,
    )  # fmt: skip
    par.not_too_large(
        [a + b + 1 for a, b in stage.halos[0]], f"{name}: max_displacement={max_displacement!r}"
    )
    space = shared_space(name, v, first_channel(as_volume(field))) if not any(added) else v.space
    made = source.map_channels(lambda node: StageNode.of(stage, (node, *field.nodes)), source.space)
    if any(added):
        inside: Any = (Ellipsis, *(slice(added[a], -added[a]) for a in visible))
        made = made[inside]
    return Volume(made.nodes, space).astype(v.dtype)


def _field_of(given: Any, v: Volume, name: str, what: str) -> Volume:
    """Return a field as float64 with a channel for each visible axis."""
    axes = "".join(v.space.axes)
    if isinstance(given, np.ndarray) and given.ndim == 1 + len(axes):
        given = open_volume(given, axes=f"c{axes}")
    field = as_volume(given)
    wanted = first_channel(v).shape
    channels = len(field.nodes) if field.space.has_channels else 0
    if channels != len(axes) or first_channel(field).shape != wanted:
        raise ValueError(
            f"{name}: {what} has shape {field.shape} ({' '.join(field.axes)}), but the volume has "
            f"shape {wanted}; give {len(axes)} channels of this shape"
        )
    if field.dtype.kind not in "iuf":
        raise TypeError(
            f"{name}: {what} has dtype {field.dtype}; give integers or floats, in voxels"
        )
    return field.astype(np.float64)
