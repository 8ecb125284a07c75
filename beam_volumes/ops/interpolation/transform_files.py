"""Transforms between two volumes from files of elastix, ITK and BigWarp."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from beam_volumes.base.geometry import Range, Ranges
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.opening import open as open_volume
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.geometry.fields import thin_plates
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.geometry.frames import WHOLE, Frame, frames, reversed_axes, voxels_of
from beam_volumes.ops.geometry.rearrange import refuse_empty
from beam_volumes.ops.geometry.registration.images import MODELS
from beam_volumes.ops.geometry.registration.volumes import fit_transform
from beam_volumes.ops.geometry.transforms import existing
from beam_volumes.ops.interpolation.grids import affine_transform
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.storage.inputs.transform_files import (
    Bend,
    FileTransform,
    Landmarks,
    is_invertible,
    read_transform,
)
from beam_volumes.sweep.stage import Block, KernelStage, Regrid

_SPLINE = "thin_plate_spline"
#: The error of interpolated landmarks relative to their extent, above which they are degenerate.
_INEXACT = 1e-6
#: The equations of a spline are solved in memory.
_MAX_LANDMARKS = 4096
#: Control points of zero around a grid: the support of cubic splines.
_AROUND = 3


@dataclass(frozen=True, eq=False)
class ThinPlates(KernelStage, Regrid):
    """A sum of thin-plate splines, without input; see `beam_volumes.kernels.geometry.fields.thin_plates`."""

    matrix: np.ndarray
    offset: np.ndarray
    points: np.ndarray
    weights: np.ndarray

    kernel = staticmethod(thin_plates)

    @property
    def cost(self) -> float:
        return 1.0 + 6.0 * len(self.weights)

    def needs(self, axis: int, wanted: Ranges) -> Range:
        return 0, 0

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return thin_plates.scratch(rows, cols, depth, self.dtype)

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        where = out.start, self.matrix, self.offset
        return out, y0, y1, out.cols, *where, self.points, self.weights


@documented
def open_transform(
    path: str | os.PathLike[str],
    fixed: Volume,
    moving: Volume,
    *,
    model: str | None = None,
    unit: str | None = None,
    direction: Any = None,
) -> tuple[np.ndarray, Volume | None]:
    """Open a transform of elastix, ITK, SimpleITK, ANTs or BigWarp.

    Use it to apply a registration from a different program to a volume of any size.

    Parameters
    ----------
    path : path
        A parameter file of elastix, an ITK file (``.tfm`` or ``.h5``) or landmarks of BigWarp
        (``.csv``). The content of the file determines its format.
    fixed : Volume or numpy.ndarray
        The volume that was not moved. It can have a different voxel size or be cropped since,
        because transforms map positions. Its voxels are not read.
    moving : Volume or numpy.ndarray
        The volume to align, with the same spatial axes. Its voxels are not read.
    model : {"translation", "rigid", "affine", "thin_plate_spline"}, optional
        How to fit landmarks; ``"affine"`` by default. All models except the spline are least
        squares of all active landmarks.
    unit : str, optional
        The unit of lengths in the file, such as ``"mm"``; the unit of ``fixed`` by default.
    direction : array_like, optional
        The direction of ITK: a matrix with a column for each axis x, y, z, for both volumes or for
        each. By default, the ``Direction`` in a file of elastix for both volumes. Without it, axes
        are not rotated.

    Returns
    -------
    matrix : numpy.ndarray
        A homogeneous matrix for `affine_transform`: it maps indices of ``fixed`` to indices of
        ``moving``, in the order z, y, x.
    displacement : Volume or None
        A lazy float64 volume with the shape of ``fixed`` and a channel for each axis, for `warp`.
        None if the transform is a matrix.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    ValueError
        If the file is damaged, has a different number of axes, or contains a transform that is not
        supported. If ``direction`` contradicts the file. If landmarks do not determine the model,
        or a parameter is out of range. If the volumes have different axes or no voxels, or only
        one has a unit.
    TypeError
        If ``fixed`` or ``moving`` is neither a volume nor an array.

    See Also
    --------
    affine_transform, warp : apply the result.
    save_transforms : writes matrices for other programs.
    fit_transform : finds a transform from pairs of points.

    Notes
    -----
    Translations, rotations (Euler angles and versors), similarities, scales, affine maps, B-splines
    and their combinations are supported. ``ScaleVersor3D``, ``ScaleSkewVersor3D`` and
    ``ComposeScaleSkewVersor3D`` of ITK and displacement fields are not supported. This is also true
    of binary files, such as ``0GenericAffine.mat`` of ANTs. Read such a file with SimpleITK, and
    write it as ``.tfm``.

    A file of elastix may refer to an initial transform in the same folder. It contains the
    direction of the fixed image only. If the moving image has a different direction, give
    ``direction`` for each. Either both volumes have a voxel size with a unit, or neither.

    elastix and ITK map positions of ``fixed`` to positions of ``moving``, as does the
    result. The origin of a volume is the centre of its first voxel, as in ITK. For NIfTI, negate
    the origin along y and x first and use ``direction=np.diag([-1, -1, 1])``, because ITK reverses
    these axes.

    A transform with a displacement is applied in two steps: first the matrix, then `warp`. Both
    interpolate, except that a matrix of integers only copies voxels. Voxels of ``moving`` that the
    matrix moves outside of ``fixed`` are not available to `warp`. Pass a padded ``fixed`` to keep
    them.

    Beyond a grid of B-splines, displacements decrease to zero within the support of a spline. ITK
    stops at the edge of the grid instead. Thin-plate splines are evaluated at each voxel and
    landmark: ten landmarks take about as long as a Gaussian filter. Splines are computed in float64
    in the same sweep as `warp`.

    References
    ----------
    S. Klein et al., "elastix: a toolbox for intensity-based medical image registration", IEEE
    Transactions on Medical Imaging 29, 2010; J. A. Bogovic et al., "Robust registration of calcium
    images by learned contrast synthesis", ISBI 2016 (BigWarp); F. L. Bookstein, "Principal warps",
    IEEE Transactions on Pattern Analysis and Machine Intelligence 11, 1989.

    Examples
    --------
    >>> v = bv.open(np.arange(60.0).reshape(3, 4, 5), voxel_size=(2, 1, 1), unit="um")
    >>> moved = np.eye(4)
    >>> moved[:3, 3] = 1, 0, 2
    >>> bv.save_transforms([v, v], moved, "shift.tfm")
    >>> matrix, displacement = bv.open_transform("shift.tfm", v, v)
    >>> matrix[:3, 3], displacement
    (array([1., 0., 2.]), None)
    >>> aligned = bv.affine_transform(v, matrix, output_shape=v.shape).with_space(v)
    """
    name = "open_transform"
    a, b = (refuse_empty(as_volume(v), name) for v in (fixed, moving))
    here, there = frames(a, b, unit, direction, name)
    if model is not None and model not in (*MODELS, _SPLINE):
        known = ", ".join((*MODELS, _SPLINE))
        raise ValueError(f"{name}: model={model!r} is not available; use one of {known}")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name}: path={path!r} is not a path")
    place = existing(path, name, "path")
    found = read_transform(place)
    n = len(a.space.axes)
    ndim = found.fixed.shape[1] if isinstance(found, Landmarks) else len(found.linear) - 1
    if ndim != n:
        raise ValueError(
            f"{name}: {place} is a transform of {ndim} axes, and the volumes have {n}; give volumes with as "
            "many axes"
        )
    if model is not None and not isinstance(found, Landmarks):
        raise ValueError(
            f"{name}: model={model!r} is only for landmarks, and {place} contains a transform; leave it out"
        )
    if isinstance(found, FileTransform) and found.direction is not None:
        if direction is None:
            here, there = frames(a, b, unit, found.direction, name)
        elif not np.allclose(here.direction, found.direction, atol=1e-4):
            raise ValueError(
                f"{name}: direction={direction!r} contradicts the Direction in {place}, "
                f"{found.direction.tolist()}; leave it out, or correct it"
            )
    with np.errstate(all="ignore"):  # numbers that are too large give a matrix that is refused
        return _opened(found, model or "affine", a, here, there, place)


def _opened(
    found: FileTransform | Landmarks,
    model: str,
    fixed: Volume,
    here: Frame,
    there: Frame,
    place: str,
) -> tuple[np.ndarray, Volume | None]:
    if isinstance(found, Landmarks):
        if model == _SPLINE:
            return _thin_plates(found, fixed, here, there, place)
        try:
            linear = fit_transform(found.fixed, found.moving, model=model)
        except ValueError as error:
            reason = str(error).partition(": ")[2]
            raise ValueError(f"open_transform: {place}: {reason}") from None
        return _voxels_of(linear, here, there, place), None
    matrix = _voxels_of(found.linear, here, there, place)
    back = _to_indices(found.linear, here)
    fields = [_of_grid(bend, back, fixed, here) for bend in found.bends]
    if not fields:
        return matrix, None
    total = fields[0]
    for field in fields[1:]:
        total = apply_ufunc("add", total, field)
    return matrix, total


def _voxels_of(linear: np.ndarray, here: Frame, there: Frame, place: str) -> np.ndarray:
    matrix = voxels_of(linear, here, there)
    if not is_invertible(matrix):
        raise ValueError(
            f"open_transform: {place}: its matrix has no inverse; correct the file or the voxel sizes"
        )
    return matrix


def _to_indices(linear: np.ndarray, fixed: Frame) -> np.ndarray:
    """Return the matrix from displacements behind a transform to x, y, z indices before it."""
    return np.linalg.inv(linear[:-1, :-1] @ fixed.forward[:-1, :-1])


def _of_grid(bend: Bend, back: np.ndarray, fixed: Volume, frame: Frame) -> Volume:
    """Return the displacement of a grid of B-splines: the interpolation of its coefficients."""
    grid, n = bend.spline, len(back)
    mixed = np.tensordot(back @ bend.after, grid.coefficients, 1)[::-1]
    coefficients = np.pad(mixed, [(0, 0), *[(_AROUND, _AROUND)] * n])
    matrix = reversed_axes(np.linalg.inv(grid.place) @ bend.before @ frame.forward)
    matrix[:n, n] += _AROUND
    if matrix[0, 0] < 0:  # slices are interpolated in order
        coefficients = coefficients[:, ::-1]
        matrix[0] = -matrix[0]
        matrix[0, n] += coefficients.shape[1] - 1
    matrix[n] = [0.0] * n + [1.0]
    shape = [fixed.grid_shape[a] for a in fixed.space.visible]
    v = open_volume(np.ascontiguousarray(coefficients), axes=f"c{''.join(fixed.space.axes)}")
    made = affine_transform(v, matrix, output_shape=shape, order=grid.order, prefilter=False)
    return _like(made, fixed)


def _like(made: Volume, fixed: Volume) -> Volume:
    space = fixed.space.of_one("t").of_one("c")
    return Volume(made.nodes, space.with_leading(0, True, ()))


def _thin_plates(
    found: Landmarks, fixed: Volume, here: Frame, there: Frame, place: str
) -> tuple[np.ndarray, Volume]:
    """Return a thin-plate spline as its affine map, and the displacement by its bending."""
    name, (count, n) = "open_transform", found.fixed.shape
    if count < n + 1:
        raise ValueError(
            f"{name}: {place} has {count} active landmarks for model={_SPLINE!r}; give at least {n + 1}"
        )
    if count > _MAX_LANDMARKS:
        raise ValueError(
            f"{name}: {place} has {count} active landmarks for model={_SPLINE!r}; deactivate all but "
            f"{_MAX_LANDMARKS}, or use model='affine'"
        )
    middle = found.fixed.mean(axis=0)
    scale = float(np.linalg.norm(found.fixed - middle, axis=1).max()) or 1.0
    points = (found.fixed - middle) / scale
    squares = cdist(points, points, "sqeuclidean")
    bending = 0.5 * squares * np.log(np.where(squares > 0, squares, 1.0))
    flat = np.c_[points, np.ones(count)]
    system = np.block([[bending, flat], [flat.T, np.zeros((n + 1, n + 1))]])
    wanted = np.zeros((count + n + 1, n))
    wanted[:count] = found.moving - found.moving.mean(axis=0)
    try:
        solution = np.linalg.solve(system, wanted)
        error = float(abs(system @ solution - wanted).max())
    except np.linalg.LinAlgError:
        error = np.inf
    is_flat = (np.linalg.svd(points - points.mean(axis=0), compute_uv=False) < _INEXACT).any()
    if is_flat or not error <= _INEXACT * abs(wanted).max():
        raise ValueError(
            f"{name}: the fixed landmarks of {place} coincide, or lie on a line or in a plane, which does "
            f"not determine model={_SPLINE!r}; give other landmarks"
        )
    linear = np.eye(n + 1)
    linear[:n, :n] = solution[count : count + n].T / scale
    linear[:n, n] = solution[-1] + found.moving.mean(axis=0) - linear[:n, :n] @ middle
    matrix = _voxels_of(linear, here, there, place)
    weights = (_to_indices(linear, here) @ solution[:count].T)[::-1]
    # Rounding errors along an axis without bending would move voxels out of the volume.
    is_bent = abs(weights @ bending).max(axis=1) > WHOLE
    weights = np.where(is_bent[:, None], weights, 0.0)
    # In the kernel, axes are z, y, x, and positions are relative to the middle.
    visible = [*fixed.space.visible]
    turn, offset, centres = np.zeros((3, 3)), np.zeros(3), np.zeros((count, 3))
    inner = here.forward[:n, :n][::-1, ::-1] / scale
    turn[np.ix_(visible, visible)] = inner
    offset[visible] = ((here.origin - middle) / scale)[::-1]
    centres[:, visible] = points[:, ::-1]
    float64 = np.dtype(np.float64)
    channels = tuple(
        StageNode.of(
            ThinPlates(
                name, float64, (0, 0, 0), fixed.grid_shape, turn, offset, centres, each.copy()
            ),
            (),
        )
        for each in weights
    )
    return matrix, _like(Volume(channels, fixed.space), fixed)
