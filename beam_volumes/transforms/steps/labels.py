"""Label slabs in one step."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import with_input_types, with_output_types

from beam_volumes.base.geometry import Grid
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.transforms.slab import GivenSlab, KeyedSlab
from beam_volumes.transforms.steps.components import (
    LabelComponents,
    MergeEquivalences,
    RelabelSlabs,
)
from beam_volumes.transforms.steps.grids import SlabGrid
from beam_volumes.transforms.steps.slabs import ReadSlabs


@with_input_types(GivenSlab)
@with_output_types(KeyedSlab)
@documented
class LabelSlabs(beam.PTransform):
    """Label the components of slabs across their borders: ``(SlabKey, Slab)`` to slabs of labels.

    The labels are equal to those from `label` of the whole volume: 1, 2, ... in the raster order of
    first voxels. Slabs may come from any steps, in any order and windows, but all slabs of the grid
    are needed.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid or Grid
        The division of the volume. Slabs need the halo ``(0, 1)`` along each axis, or more: one
        more plane on the upper side.
    %(connectivity)s
    %(neighbours)s
    by_value : bool, default: False
        Whether neighbours are only connected if they are equal.
    background : number or None, default: 0
        With ``by_value``, the value that is left out; None for none.
    min_size : int, optional
        Minimum size of components that are kept, in voxels.
    max_size : int, optional
        Maximum size of components that are kept, in voxels.
    touches_border : bool, optional
        Keep components that touch the border of the volume (True), or those that do not (False).
    k_largest : int, optional
        Keep this number of the largest remaining components.
    dtype : dtype, default: numpy.uint32
        Dtype of the labels; bool for a mask of the components that are kept.
    mask : Volume, optional
        The volume of the slabs, if workers can read it: each then reads its voxels again. By
        default slabs are joined to their labels by key, which shuffles them once.
    memory : int or str, optional
        Memory limit of one step of the merge, e.g. ``"1GiB"``.

    Raises
    ------
    ValueError
        If a parameter is out of its range; in a worker, if a slab lacks the plane above, or a slab
        is missing or arrives twice.

    See Also
    --------
    LabelComponents, MergeEquivalences, RelabelSlabs : its steps.
    beam_volumes.label : the same for a whole volume.

    Examples
    --------
    >>> import apache_beam as beam
    >>> mask = bv.open(np.array([[[1, 0, 1]], [[1, 0, 0]], [[1, 1, 1]]], "u1"))
    >>> read = bv.ReadSlabs(mask, depth=2, halo=1)
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     labels = p | read | bv.LabelSlabs(read)
    ...     _ = labels | beam.MapTuple(lambda key, slab: print(key.z, slab.voxels[:, 0].tolist()))
    0 [[1, 0, 2], [1, 0, 0]]
    2 [[1, 1, 1]]
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | Grid,
        connectivity: int = 1,
        structure: Any = None,
        *,
        by_value: bool = False,
        background: Any = 0,
        min_size: int | None = None,
        max_size: int | None = None,
        touches_border: bool | None = None,
        k_largest: int | None = None,
        dtype: Any = np.uint32,
        mask: Volume | None = None,
        memory: int | float | str | None = None,
    ):
        super().__init__()
        sized = (min_size, max_size, k_largest) != (None, None, None)
        measures = ("size",) * sized + ("touches_border",) * (touches_border is not None)
        as_mask = np.dtype(dtype) == bool
        self.components = LabelComponents(
            slabs,
            connectivity,
            structure,
            by_value=by_value,
            background=background,
            measures=measures,
        )
        self.merge = MergeEquivalences(
            self.components,
            min_size=min_size,
            max_size=max_size,
            touches_border=touches_border,
            k_largest=k_largest,
            as_mask=as_mask,
            dtype=np.uint32 if as_mask else dtype,
            memory=memory,
        )
        self.grid = self.components.grid
        self.relabel = RelabelSlabs(mask, self.components, dtype=dtype)

    def expand(self, slabs: beam.PCollection) -> beam.PCollection:
        answers = (slabs | "Label" >> self.components | "Merge" >> self.merge)["answers"]
        if self.relabel.mask is not None:
            return answers | "Relabel" >> self.relabel
        return {"answers": answers, "slabs": slabs} | "Relabel" >> self.relabel
