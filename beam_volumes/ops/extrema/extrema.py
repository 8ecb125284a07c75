"""Local extrema: plateaus that are higher or lower than all around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.morphology import plateaus as kernels
from beam_volumes.ops.labels.components import binary_propagation
from beam_volumes.ops.measure.statistics import all as every
from beam_volumes.ops.parameters.building import kernel_input, stage_of
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.parameters.neighbourhood import touching
from beam_volumes.sweep.stage import Block, Stage


@documented
def local_maxima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find the plateaus, of one voxel or many, that are higher than all voxels around them.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A lazy volume of up to three axes, or an array, which is opened. NaN is no maximum, and lower
        than all else.
    footprint : array_like, optional
        Which voxels are neighbours: 3 entries along each axis, the same when reflected at its
        centre, with those that share a face.
    connectivity : {1, 2, 3}, optional
        Instead of ``footprint``, how many steps along axes neighbours are apart at most; by default
        as many as there are axes.
    allow_borders : bool, default: True
        Whether plateaus that touch the border of the volume count.

    Returns
    -------
    Volume
        A bool volume, True in maxima. A volume of one value has none.

    Raises
    ------
    %(component_errors)s

    See Also
    --------
    h_maxima : of a certain height.
    peak_local_max : positions of peaks that are apart.

    Notes
    -----
    Equal to scikit-image's, voxel for voxel.

    %(component_sweeps)s

    References
    ----------
    `skimage.morphology.local_maxima`.

    Examples
    --------
    >>> np.asarray(bv.local_maxima(np.array([[0, 2, 2, 1, 1, 3]]))).astype(int)
    array([[0, 1, 1, 0, 0, 1]])
    """
    return _extrema("local_maxima", image, footprint, connectivity, allow_borders)


@documented
def local_minima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find the plateaus, of one voxel or many, that are lower than all voxels around them.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A lazy volume of up to three axes, or an array, which is opened. NaN is no minimum, and higher
        than all else.
    footprint : array_like, optional
        Which voxels are neighbours: 3 entries along each axis, the same when reflected at its
        centre, with those that share a face.
    connectivity : {1, 2, 3}, optional
        Instead of ``footprint``, how many steps along axes neighbours are apart at most; by default
        as many as there are axes.
    allow_borders : bool, default: True
        Whether plateaus that touch the border of the volume count.

    Returns
    -------
    Volume
        A bool volume, True in minima. A volume of one value has none.

    Raises
    ------
    %(component_errors)s

    See Also
    --------
    h_minima : of a certain depth.

    Notes
    -----
    Equal to scikit-image's, voxel for voxel.

    %(component_sweeps)s

    References
    ----------
    `skimage.morphology.local_minima`.

    Examples
    --------
    >>> np.asarray(bv.local_minima(np.array([[5, 2, 2, 3, 3, 1]]))).astype(int)
    array([[0, 1, 1, 0, 0, 1]])
    """
    return _extrema("local_minima", image, footprint, connectivity, allow_borders)


def _extrema(
    name: str, image: Any, footprint: Any, connectivity: int | None, allow_borders: bool
) -> Volume:
    image = one_channel(as_volume(image))
    image = kernel_input(image.astype(np.uint8) if image.dtype.kind == "b" else image)
    structure = touching(image, footprint, name, connectivity)
    ends = (False,) * 3
    if not allow_borders:
        z, y, x = (a in image.space.visible for a in range(3))
        ends = (z, y, x)
    stage = Plateaus(
        name, np.dtype(np.uint8), image.node.shape, structure, name == "local_minima", ends
    )
    found = stage_of(image, stage)
    # A plateau is one piece of voxels without a higher neighbour, or some of it are spoilt: those of another
    # plateau never touch it, for of two neighbours one is higher or both are as high.
    visible: tuple[Any, ...] = tuple(
        slice(None) if a in image.space.visible else 1 for a in range(3)
    )
    some = structure[visible]
    highest = found != int(kernels.BELOW)
    spoilt = binary_propagation(found == int(kernels.SPOILT), some, highest)
    several = apply_ufunc("logical_not", every(highest))
    return apply_ufunc("logical_and", highest & ~spoilt, several)


@dataclass(frozen=True, eq=False)
class Plateaus(Stage):
    """What `beam_volumes.kernels.morphology.plateaus` marks.

    Attributes
    ----------
    shape : tuple of int
        Of the volume.
    structure : ndarray of bool (3, 3, 3)
    lowest : bool
    inside : tuple of bool
        Per axis, whether its ends are no place for extrema.
    """

    shape: Triple
    structure: np.ndarray
    lowest: bool
    inside: tuple[bool, bool, bool]

    compiled = True
    cost = 40.0

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((m, m) for m in self.margin)
        return ((z, y, x),)

    @property
    def margin(self) -> tuple[int, int, int]:
        """How far it looks: to the neighbours of neighbours."""
        z, y, x = (2 * bool(np.delete(self.structure, 1, axis=a).any()) for a in range(3))
        return z, y, x

    def run(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> None:
        steps = np.argwhere(self.structure) - 1
        steps = np.ascontiguousarray(steps[(steps != 0).any(axis=1)], np.int64).reshape(-1, 3)
        kernels.mark(
            inputs[0].as_rows, out.as_rows, y0, y1, out.cols, out.start, self.shape, steps, self.margin,
            self.lowest, self.inside,
        )  # fmt: skip
