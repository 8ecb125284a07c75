"""Volumes at other positions: shifted, zoomed, rotated, or by any affine map."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.base.space import Space
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.volume import Volume
from beam_volumes.kernels.casting import kernel_dtype
from beam_volumes.ops.filters.splines import MAX_ORDER, coefficients
from beam_volumes.ops.geometry.rearrange import by_axes, check_indexable, flip, pad
from beam_volumes.ops.geometry.resampling import of_order
from beam_volumes.ops.geometry.stages import Affine, Along, Between
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in, kernel_input, triple
from beam_volumes.ops.parameters.docs import documented, documented_like

#: Voxels that are added on each side where splines have no exact boundary, as in scipy.
_ADDED = 12


@dataclass(frozen=True)
class Interpolation:
    """How a function interpolates: the parameters that all of them share, checked."""

    name: str
    order: int
    mode: str
    cval: float
    prefilter: bool

    @classmethod
    def of(
        cls, v: Volume, name: str, order: int, mode: Any, cval: float, prefilter: Any
    ) -> Interpolation:
        if not isinstance(prefilter, bool | np.bool_):
            raise TypeError(f"{name}: prefilter={prefilter!r} is neither True nor False")
        where, outside = _one_mode(mode, name), constant_in(v.dtype, cval, "cval", name)
        return cls(name, int(order), where, outside, bool(prefilter))

    def orders(self, v: Volume, whole: Sequence[bool]) -> list[int]:
        """Return the order along each axis; 0 where whole positions make no difference."""
        # Linear interpolation of floats skips no axis, since a weight of 0 keeps NaN and infinities. It
        # rounds integers of 64 bits to float64.
        exact = self.prefilter if self.order > 1 else v.dtype.kind in "iu" and v.dtype.itemsize < 8
        visible = v.space.visible
        return [
            self.order if a in visible and not (exact and w) else 0 for a, w in enumerate(whole)
        ]

    @property
    def edges(self) -> str:
        """The mode beyond the edges of `source`; a periodic one has all voxels that positions need."""
        return "nearest" if self.mode == "wrap" else self.mode

    def source(
        self, v: Volume, orders: Sequence[int], positions: Sequence[tuple[float, float]]
    ) -> tuple[Volume, list[int]]:
        """Return voxels or coefficients to interpolate, and the number of voxels added before each axis.

        ``positions`` are the first and the last one along each axis.
        """
        axes = [a for a, order in enumerate(orders) if order > 1]
        if self.mode == "wrap":
            if axes and self.prefilter:
                v = coefficients(v, "spline_filter", self.order, axes, "wrap", np.float64)
            return _repeated(v, orders, positions)
        if not (axes and self.prefilter):
            return v, [0, 0, 0]
        added = [0, 0, 0]
        if self.mode in ("nearest", "grid-constant"):
            for a in axes:
                added[a] = _ADDED
            widths = [(added[a], added[a]) for a in v.space.visible]
            how = ("edge", 0) if self.mode == "nearest" else ("constant", self.cval)
            v = pad(v, widths, *how)
        return coefficients(v, "spline_filter", self.order, axes, self.mode, np.float64), added


def _repeated(
    v: Volume, orders: Sequence[int], positions: Sequence[tuple[float, float]]
) -> tuple[Volume, list[int]]:
    """Return a periodic volume around all positions, and the position of its first voxel there."""
    added, widths = [0, 0, 0], []
    for a in v.space.visible:
        n, (low, high) = v.grid_shape[a], positions[a]
        periods = round(((low + high) / 2 - (n - 1) / 2) / n)
        low, high = low - periods * n, high - periods * n
        is_inside = orders[a] < 2 and low >= 0 and high <= n - 1
        margin = 0 if is_inside else orders[a] // 2 + 1
        before = max(0, math.ceil(-low) + margin)
        added[a] = before - periods * n
        widths.append((before, max(0, math.ceil(high) - n + 1 + margin)))
    if any(b or a for b, a in widths):
        v = pad(v, widths, "wrap")
    return v, added


@documented
def shift(
    volume: Volume,
    shift: float | str | Sequence[float | str],
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Shift the voxels of a volume.

    Parameters
    ----------
    %(volume)s
    shift : float, str or sequence of them
        Distance in voxels, or as a length such as ``"-15 nm"``. Lengths need a volume with a voxel
        size. One value for all axes or one per axis.
    %(order)s
    %(outside)s
    %(outside_cval)s
    %(prefilter)s

    Returns
    -------
    %(resampled)s

    Raises
    ------
    %(resampling_errors)s

    See Also
    --------
    affine_transform : also rotates and scales.
    pad : adds voxels around a volume.

    Notes
    -----
    The result has the shape and the origin of the input.

    %(streams)s

    References
    ----------
    `scipy.ndimage.shift`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"))
    >>> np.asarray(bv.shift(v, (0, 0.5)))
    array([[ 0, 15, 30]], dtype=uint8)
    """
    v = of_order(volume, order, "shift", MAX_ORDER)
    how = Interpolation.of(v, "shift", order, mode, cval, prefilter)
    by = par.per_axis(shift, v.space.visible, 0.0, "shift")
    moved = [(-_signed(v, s, a), 1.0, 0.0) for a, s in enumerate(by)]
    return interpolate_axes(v, how, moved, v.grid_shape, v.space)


@documented
def zoom(
    volume: Volume,
    zoom: float | Sequence[float],
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    grid_mode: bool = False,
) -> Volume:
    """Resize a volume by arbitrary factors.

    Parameters
    ----------
    %(volume)s
    zoom : float or sequence of float
        Factors for the number of voxels, which is rounded; one value for all axes or one per axis.
    %(order)s
    %(outside)s
    %(outside_cval)s
    %(prefilter)s
    grid_mode : bool, default: False
        Whether to keep the extent of the volume instead of the centres of its outer voxels.

    Returns
    -------
    Volume
        A volume of the input's dtype with a new voxel size and origin; integers are rounded half
        away from zero.

    Raises
    ------
    %(resampling_errors)s

    See Also
    --------
    rescale : smooths the volume before it shrinks.
    downsample : uses all voxels of windows, for integer factors.
    upsample : uses integer factors.

    Notes
    -----
    %(streams)s

    When shrinking, each voxel of the result uses only two voxels along each axis: use `rescale`,
    which smooths the volume first, or `downsample`.

    References
    ----------
    `scipy.ndimage.zoom`.

    Examples
    --------
    >>> v = bv.open(np.array([[10, 20, 40]], "u1"), voxel_size=2)
    >>> np.asarray(bv.zoom(v, (1, 5 / 3))), bv.zoom(v, (1, 5 / 3)).voxel_size
    (array([[10, 15, 20, 30, 40]], dtype=uint8), (2.0, 1.0))
    """
    v = of_order(volume, order, "zoom", MAX_ORDER)
    shape = v.grid_shape
    by = par.per_axis(zoom, v.space.visible, 1.0, "zoom")
    for z in by:
        if isinstance(z, str | bool) or not (math.isfinite(z) and z > 0):
            raise ValueError(f"zoom: zoom={zoom!r} is not made of positive numbers")
    grid = [round(n * float(z)) for n, z in zip(shape, by, strict=True)]
    if 0 in grid:
        raise ValueError(f"zoom: zoom={zoom!r} leaves no voxels of the shape {v.shape}")
    check_indexable(grid, f"zoom: zoom={zoom!r}")
    how = Interpolation.of(v, "zoom", order, mode, cval, prefilter)
    half, inner = (0.5, 0) if grid_mode else (0.0, 1)
    scales = [
        (n - inner) / (m - inner) if m > inner else 1.0 for n, m in zip(shape, grid, strict=True)
    ]
    z, y, x = (s if s > 0 else 1.0 for s in scales)
    first = (half * (z - 1), half * (y - 1), half * (x - 1))
    space = v.space.resampled((z, y, x), first)
    return interpolate_axes(v, how, [(0.0, s, half) for s in scales], grid, space)


def interpolate_axes(
    v: Volume,
    how: Interpolation,
    positions: Sequence[tuple[float, float, float]],
    grid: Sequence[int],
    space: Space,
    dtype: np.dtype | None = None,
) -> Volume:
    """Interpolate along each axis; ``positions`` has ``shift``, ``scale`` and ``half`` of `Between`."""
    whole = [scale == 1.0 and float(shift).is_integer() for shift, scale, _ in positions]
    orders = how.orders(v, whole)
    ends = [
        ((shift + half) * scale - half, (n - 1 + shift + half) * scale - half)
        for n, (shift, scale, half) in zip(grid, positions, strict=True)
    ]
    source, added = how.source(v, orders, ends)
    along: list[Along] = []
    for a, (n, (shift, scale, half)) in enumerate(zip(source.grid_shape, positions, strict=True)):
        if a in v.space.visible:
            if orders[a] < 2 and added[a]:  # only splines have a lead
                shift, added[a] = shift + added[a] / scale, 0
            along.append(
                Between(n, 0, how.edges, False, 1, 1, shift, scale, half, orders[a], added[a])
            )
        else:
            along.append(Along(n))
    return by_axes(how.name, source, along, grid, space, how.cval, dtype or v.dtype)


@documented
def affine_transform(
    volume: Volume,
    matrix: ArrayLike,
    offset: float | Sequence[float] = 0.0,
    output_shape: Sequence[int] | None = None,
    *,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Apply an affine map to the grid of a volume.

    Position ``o`` in the result corresponds to position ``matrix @ o + offset`` in the volume.

    Parameters
    ----------
    %(volume)s
    matrix : array_like of float
        A square matrix, its diagonal, or a homogeneous matrix with the offset in its last
        column.
    offset : float or sequence of float, default: 0.0
        The offset in voxels; one number for all axes or one per axis. A homogeneous matrix includes
        the offset.
    output_shape : sequence of int, optional
        Shape of the result; the shape of the volume by default.
    %(order)s
    %(outside)s
    %(outside_cval)s
    %(prefilter)s

    Returns
    -------
    Volume
        A volume of the input's dtype, voxel size, unit and origin; integers are rounded half away
        from zero.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the order of slices would be reversed; the message
        describes the remedy.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool with an order above 0.

    See Also
    --------
    rotate : rotates in a plane.
    flip, transpose : reverse and permute axes.

    Notes
    -----
    Each slice of the result keeps all slices of the volume that it needs in memory. Steep tilts are
    therefore computed in tiles, and the edges of tiles are read several times.

    %(streams)s

    References
    ----------
    `scipy.ndimage.affine_transform`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 2], [3, 4]], "u1"))
    >>> np.asarray(bv.affine_transform(v, [[0, 1], [-1, 0]], offset=(0, 1)))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """
    v = of_order(volume, order, "affine_transform", MAX_ORDER)
    how = Interpolation.of(v, "affine_transform", order, mode, cval, prefilter)
    return _affine(v, how, matrix, offset, output_shape)


@documented_like(shift)
def rotate(
    volume: Volume,
    angle: float,
    axes: Sequence[int] | None = None,
    *,
    reshape: bool = True,
    order: int = 1,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Volume:
    """Rotate a volume in a plane.

    Parameters
    ----------
    %(volume)s
    angle : float
        The angle in degrees.
    axes : sequence of int, optional
        The two axes of the plane, counted from 0, or backwards from -1, in any order; the last two
        by default. (scipy's default is the first two.)
    reshape : bool, default: True
        Whether to enlarge the result to contain the whole rotated plane, instead of keeping the
        shape.
    %(order)s
    %(outside)s
    %(outside_cval)s
    %(prefilter)s

    See Also
    --------
    affine_transform : applies any linear map.
    transpose : exchanges axes.

    Notes
    -----
    Voxels are assumed to be square in this plane. Right angles are exact.

    %(streams)s

    In a plane that contains z, each slice of the result needs many slices of the volume, so it is
    computed in tiles. Beyond 90 degrees, the plane is flipped first: see `flip`.

    References
    ----------
    `scipy.ndimage.rotate`.

    Examples
    --------
    >>> np.asarray(bv.rotate(bv.open(np.array([[1, 2], [3, 4]], "u1")), 90))
    array([[2, 4],
           [1, 3]], dtype=uint8)
    """
    v = of_order(volume, order, "rotate", MAX_ORDER)
    first, second = _plane(v, axes)
    if isinstance(angle, str | bool) or not math.isfinite(angle):
        raise ValueError(f"rotate: angle={angle!r} is not a number of degrees")
    how = Interpolation.of(v, "rotate", order, mode, cval, prefilter)
    cos, sin = _cos_sin(float(angle))
    if first == 0 and cos < 0:
        # A sweep along z cannot reverse slices, but a view can: the rest is a rotation by 180 degrees less.
        last = v.ndim - 3
        v, cos, sin = flip(v, (last + first, last + second)), -cos, -sin
    turn = np.array([[cos, sin], [-sin, cos]])
    plane = np.array([v.grid_shape[first], v.grid_shape[second]])
    high, wide = plane.tolist()
    corners = turn @ np.array([[0, 0, high, high], [0, wide, 0, wide]])
    shape = (np.ptp(corners, axis=1) + 0.5).astype(int) if reshape else plane
    centre = (plane - 1) / 2 - turn @ ((shape - 1) / 2)
    matrix, offset, grid = np.eye(3), np.zeros(3), list(v.grid_shape)
    chosen = [first, second]
    matrix[np.ix_(chosen, chosen)], offset[chosen] = turn, centre
    grid[first], grid[second] = shape.tolist()
    fixed = [a not in chosen for a in range(3)]
    return _mapped(v, how, matrix, offset, grid, fixed)


def _plane(v: Volume, axes: Any) -> tuple[int, int]:
    """Return the two axes of a rotation, by their numbers among z, y, x."""
    if axes is None:
        if 1 not in v.space.visible or 2 not in v.space.visible:
            raise ValueError(
                f"rotate: the volume has the axes {', '.join(v.axes)}; y and x are needed, or "
                "give two of them as axes="
            )
        return 1, 2
    if isinstance(axes, int | np.integer | str) or len(axes) != 2:
        raise ValueError(f"rotate: axes={axes!r} are not two axes")
    first, second = sorted(par.axes_of(v, axes, "rotate"))
    return first, second


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Return both, exact for right angles as in scipy."""
    turn = degrees % 360
    if turn % 90 == 0:
        quarter = int(turn // 90)
        return (1.0, 0.0, -1.0, 0.0)[quarter], (0.0, 1.0, 0.0, -1.0)[quarter]
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def _affine(
    v: Volume,
    how: Interpolation,
    matrix: Any,
    offset: Any,
    output_shape: Sequence[int] | None,
) -> Volume:
    name, visible = how.name, list(v.space.visible)
    inner, inner_offset = _matrix(v, matrix, offset, name)
    full, add = np.eye(3), np.zeros(3)
    full[np.ix_(visible, visible)] = inner
    add[visible] = inner_offset
    grid = list(v.grid_shape)
    if output_shape is not None:
        given = list(output_shape)
        if len(given) != len(v.space.axes):
            raise ValueError(
                f"{name}: output_shape={output_shape!r} has {len(given)} entries for {len(v.space.axes)} axes"
            )
        grid = par.whole_numbers(given, visible, 1, "output_shape", 1)
        check_indexable(grid, f"{name}: output_shape={output_shape!r}")
    if full[0, 0] < 0:
        raise ValueError(
            f"{name}: the matrix reverses the order of slices ({full[0, 0]:g} at its upper left), "
            "which is not available; apply bv.flip along the first axis first, and use the "
            "matrix without the flip"
        )
    return _mapped(v, how, full, add, grid, [a not in visible for a in range(3)])


def _mapped(
    v: Volume,
    how: Interpolation,
    matrix: np.ndarray,
    offset: np.ndarray,
    grid: Sequence[int],
    fixed: Sequence[bool],
) -> Volume:
    """Interpolate at ``matrix @ position + offset``; positions along ``fixed`` axes do not change."""
    whole = [
        float(at).is_integer() and sorted(map(abs, row)) == [0, 0, 1]
        for row, at in zip(matrix.tolist(), offset.tolist(), strict=True)
    ]
    orders = [0 if f else order for f, order in zip(fixed, how.orders(v, whole), strict=True)]
    corners = matrix * (np.array(grid) - 1)
    lowest, highest = np.minimum(corners, 0).sum(axis=1), np.maximum(corners, 0).sum(axis=1)
    ends = list(zip((offset + lowest).tolist(), (offset + highest).tolist(), strict=True))
    source, added = how.source(v, orders, ends)
    source = kernel_input(source)
    stage = Affine(
        how.name, kernel_dtype(v.dtype), source.grid_shape, triple(grid), matrix, offset + added,
        np.array(orders) + 1, how.edges, how.cval,
    )  # fmt: skip
    return source.map_channels(lambda node: StageNode.of(stage, (node,)), v.space).astype(v.dtype)


def _matrix(v: Volume, matrix: Any, offset: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix and offset over the visible axes."""
    m = np.asarray(matrix, np.float64)
    add = np.array(par.per_axis(offset, v.space.visible, 0.0, "offset"), np.float64)
    add = add[list(v.space.visible)]
    n = len(v.space.axes)
    if m.shape == (n,):
        m = np.diag(m)
    elif m.shape in ((n, n + 1), (n + 1, n + 1)):
        if len(m) > n and not np.array_equal(m[n], [0.0] * n + [1.0]):
            raise ValueError(
                f"{name}: the last row of a homogeneous matrix must be zeros and a one, not {m[n]}"
            )
        m, add = m[:n, :n], m[:n, n]
    if m.shape != (n, n):
        raise ValueError(
            f"{name}: the matrix has shape {m.shape}; for {n} axes it must be {n} x {n}, its "
            f"diagonal, or homogeneous ({n} x {n + 1} or {n + 1} x {n + 1})"
        )
    if not (np.isfinite(m).all() and np.isfinite(add).all()):
        raise ValueError(
            f"{name}: matrix and offset must be finite, not {m.tolist()}, {add.tolist()}"
        )
    return m, add


def _one_mode(mode: str, name: str) -> str:
    if not isinstance(mode, str):
        raise TypeError(f"{name}: mode={mode!r} is not a string; give one mode for all axes")
    if mode == "wrap":
        raise ValueError(
            f"{name}: mode='wrap' is not available, because its period is a voxel shorter than the volume; "
            "use mode='grid-wrap', which repeats the volume"
        )
    return par.modes_of(mode, (0, 1, 2), name)[0]


def _signed(v: Volume, length: Any, axis: int) -> float:
    """Return a length in voxels, which may be negative."""
    if isinstance(length, str):
        text = length.strip()
        size = par.in_voxels(v, text.lstrip("+-"), axis, "shift")
        return -size if text.startswith("-") else size
    if not par.is_number(length):
        raise TypeError(f"shift={length!r} is not a length")
    if not math.isfinite(length):
        raise ValueError(f"shift={length!r} is not finite")
    return float(length)
