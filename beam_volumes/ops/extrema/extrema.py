"""Local extrema: plateaus that are higher or lower than all their neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from beam_volumes.across.merge import Keep
from beam_volumes.base.geometry import Halo, Triple
from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.kernels.morphology import plateaus as kernels
from beam_volumes.ops.labels.components import kept_components
from beam_volumes.ops.measure.statistics import all as every
from beam_volumes.ops.parameters.building import kernel_input, stage_of
from beam_volumes.ops.parameters.docs import documented, documented_like
from beam_volumes.ops.parameters.neighbourhood import touching
from beam_volumes.sweep.stage import Block, Stage


@documented
def local_maxima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find plateaus of one or more voxels that are higher than all their neighbours.

    Parameters
    ----------
    image : Volume or numpy.ndarray
        A volume or an array with up to three axes. NaN is never an extremum, but its neighbours can
        be.
    footprint : array_like, optional
        The neighbours of a voxel: an array with 3 entries along each axis, symmetric about the
        centre, including all neighbours that share a face.
    connectivity : {1, 2, 3}, optional
        The largest number of steps along axes between neighbours, instead of ``footprint``; by
        default the number of axes.
    allow_borders : bool, default: True
        Whether to include plateaus that touch the border of the volume.

    Returns
    -------
    Volume
        A bool volume, True in the extrema. A constant volume has no extrema.

    Raises
    ------
    %(component_errors)s

    See Also
    --------
    h_maxima : maxima with a minimum height.
    peak_local_max : positions of peaks with a minimum distance.

    Notes
    -----
    The result is identical to scikit-image's.

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


@documented_like(local_maxima)
def local_minima(
    image: Volume,
    footprint: ArrayLike | None = None,
    connectivity: int | None = None,
    allow_borders: bool = True,
) -> Volume:
    """Find plateaus of one or more voxels that are lower than all their neighbours.

    See Also
    --------
    h_minima : minima with a minimum depth.

    Notes
    -----
    The result is identical to scikit-image's.

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
    # The voxels of a plateau without a higher neighbour are one component; if some are spoilt, all are. They
    # never touch another such plateau: one of two neighbours is higher, or both belong to one plateau.
    spoilt = found == int(kernels.SPOILT)
    extrema = kept_components(found, name, structure, keep=Keep(marked=False), seeds=spoilt)
    # The same as "and not", for which numpy has no vectorized loop with one scalar.
    return apply_ufunc("greater", extrema, every(found))


@dataclass(frozen=True, eq=False)
class Plateaus(Stage):
    """Marks voxels of plateaus by `beam_volumes.kernels.morphology.plateaus` in a volume of ``shape``."""

    shape: Triple
    structure: np.ndarray
    lowest: bool
    #: Per axis, whether extrema at its ends are excluded.
    inside: tuple[bool, bool, bool]

    compiled = True
    cost = 40.0

    @property
    def halos(self) -> tuple[Halo, ...]:
        z, y, x = ((m, m) for m in self.margin)
        return ((z, y, x),)

    @property
    def margin(self) -> tuple[int, int, int]:
        """The reach in voxels: neighbours of neighbours."""
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
