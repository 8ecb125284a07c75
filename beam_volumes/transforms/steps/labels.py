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

    The labels are the same as from `label` of the whole volume: 1, 2, ... in the raster order of
    first voxels. Slabs may come from any steps, in any order and in any windows, but all slabs of
    the grid are needed.

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
        The value to leave unlabelled with ``by_value``; None labels all values.
    min_size : int, optional
        Minimum size of components to keep, in voxels.
    max_size : int, optional
        Maximum size of components to keep, in voxels.
    touches_border : bool, optional
        Whether to keep only components that touch the border of the volume (True), or only those
        that do not (False).
    k_largest : int, optional
        Number of components to keep: the largest that satisfy all other conditions.
    dtype : dtype, default: numpy.uint32
        Dtype of the labels; bool gives a mask of the kept components.
    mask : Volume, optional
        The volume from which the slabs were read, if workers can read it. Its voxels are then read
        a second time. By default, slabs are joined with their labels by key, which shuffles the
        slabs once.
    memory : int or str, optional
        Memory limit of one step of the merge, such as ``"1GiB"``.

    Raises
    ------
    ValueError
        If a parameter is out of range. In a worker, if a slab lacks the plane above, or a slab is
        missing or arrives twice.

    See Also
    --------
    LabelComponents, MergeEquivalences, RelabelSlabs : its steps.
    beam_volumes.label : Label a whole volume.

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
