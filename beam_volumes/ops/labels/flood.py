"""Flooding: the voxels that are connected to a seed and have its value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.base.space import AXES
from beam_volumes.graph.nodes import StageNode
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.components import connected_to, neighbours
from beam_volumes.ops.measure.folds import Max
from beam_volumes.ops.measure.reductions import fold
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import constant_in
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.pointwise import where
from beam_volumes.sweep.stage import Block, Regrid


@dataclass(frozen=True, eq=False)
class _Seed(Regrid):
    """A mask of one voxel, without input."""

    at: tuple[int, ...]

    cost = 0.1

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        z, y, x = (at - start for at, start in zip(self.at, out.start, strict=True))
        for k in range(out.depth):
            rows = out.slice(k, y0, y1)
            rows[...] = False
            if k == z and y0 <= y < y1 and 0 <= x < out.cols:
                rows[y - y0, x] = True


@documented
def flood(
    image: Volume,
    seed_point: int | Sequence[int],
    *,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    tolerance: float | None = None,
) -> Volume:
    """Select the voxels that are connected to a seed voxel and have the same value.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with one channel and up to three axes.
    seed_point : sequence of int
        The position of the seed, one number for each axis except t.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre.
    connectivity : int, optional
        The largest number of steps along axes between neighbours; by default, voxels that share a
        corner are also neighbours.
    tolerance : float, optional
        The largest difference of a voxel from the seed; 0 by default.

    Returns
    -------
    Volume
        A bool volume.

    Raises
    ------
    ValueError
        If the seed is outside of the volume, or a parameter is out of range.
    TypeError
        If ``image`` is neither a volume nor an array, or a tolerance is given for integers of 64
        bits.

    See Also
    --------
    flood_fill : replaces the selected voxels.
    binary_propagation : grows any seeds in any mask.

    Notes
    -----
    The result is identical to scikit-image's, except that a seed of NaN selects nothing. Three
    sweeps; the first reads only the seed's chunk.

    References
    ----------
    `skimage.segmentation.flood`.

    Examples
    --------
    >>> image = bv.open(np.array([[7, 7, 0, 7], [6, 0, 0, 7]], "u1"))
    >>> np.asarray(bv.flood(image, (0, 0))).astype(int)
    array([[1, 1, 0, 0],
           [0, 0, 0, 0]])
    >>> np.asarray(bv.flood(image, (0, 0), tolerance=1)).astype(int)
    array([[1, 1, 0, 0],
           [1, 0, 0, 0]])
    """
    return _flooded("flood", image, seed_point, footprint, connectivity, tolerance)


@documented_like(flood)
def flood_fill(
    image: Volume,
    seed_point: int | Sequence[int],
    new_value: float,
    *,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    tolerance: float | None = None,
) -> Volume:
    """Replace the voxels that are connected to a seed voxel and have the same value.

    Parameters
    ----------
    new_value : number
        The value of the replaced voxels, of the dtype of ``image``.

    Returns
    -------
    Volume
        A volume of the input's dtype.

    See Also
    --------
    flood : the replaced voxels.

    References
    ----------
    `skimage.segmentation.flood_fill`.

    Examples
    --------
    >>> image = bv.open(np.array([[7, 7, 0, 7], [6, 0, 0, 7]], "u1"))
    >>> np.asarray(bv.flood_fill(image, (0, 3), 5))
    array([[7, 7, 0, 5],
           [6, 0, 0, 5]], dtype=uint8)
    """
    name = "flood_fill"
    image = one_channel(as_volume(image))
    value = constant_in(image.dtype, new_value, "new_value", name)
    filled = _flooded(name, image, seed_point, footprint, connectivity, tolerance)
    return where(filled, image.dtype.type(value), image)


def _flooded(
    name: str, image: Any, seed_point: Any, footprint: Any, connectivity: Any, tolerance: Any
) -> Volume:
    image = one_channel(as_volume(image))
    axes = len(image.space.axes)
    element = neighbours(
        image, axes if connectivity is None else connectivity, footprint, name, "footprint"
    )
    shape = image.shape[-axes:]
    point = (seed_point,) if np.ndim(seed_point) == 0 else tuple(seed_point)
    if len(point) != axes or not all(
        par.is_whole(p) and -n <= p < n for p, n in zip(point, shape, strict=True)
    ):
        raise ValueError(
            f"{name}: seed_point={seed_point!r} is not a voxel of a volume of shape {image.shape} "
            f"({' '.join(image.axes)}); give {axes} numbers, for {', '.join(image.space.axes)}"
        )
    point = tuple(int(p) % n for p, n in zip(point, shape, strict=True))
    box = (..., *(slice(p, p + 1) for p in point))
    if tolerance is None:
        reached = image == _number(image[box])
    else:
        reached = _within(image, image[box], tolerance, name)
    at = dict(zip(image.space.axes, point, strict=True))
    stage = _Seed(
        "seed", np.dtype(bool), (0, 0, 0), image.node.shape, tuple(at.get(a, 0) for a in AXES)
    )
    seed = image.derive(StageNode.of(stage, ()))
    return connected_to(name, reached, seed, element)


def _within(image: Volume, seed: Volume, tolerance: Any, name: str) -> Volume:
    """Return the voxels that differ from the seed by at most a tolerance."""
    if not par.is_number(tolerance) or not tolerance == tolerance:
        raise ValueError(f"{name}: tolerance={tolerance!r}; give a number")
    if image.dtype.kind in "ui" and image.dtype.itemsize == 8:
        raise TypeError(
            f"{name}: tolerance={tolerance!r} is not available for {image.dtype}, because "
            "differences are computed in float64; cast the image with astype first"
        )
    reach = abs(float(tolerance))
    of = np.dtype(np.float64)
    ends = (seed.astype(of) - reach, seed.astype(of) + reach)
    if image.dtype.kind == "f":  # rounded as in scikit-image
        of = image.dtype
    low, high = (_number(end.astype(of)) for end in ends)
    return (image >= low) & (image <= high)


def _number(voxel: Volume) -> Scalar:
    """Return the value of a volume of one voxel, which may be infinite."""
    return fold(replace(Max.of(voxel.dtype), nan="NaN"), voxel, None)
