"""Region tables of slabs of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
from apache_beam.typehints import with_input_types

from beam_volumes.base.geometry import Grid
from beam_volumes.base.space import Space
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.regions import region_table
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.transforms.slab import GivenSlab
from beam_volumes.transforms.steps.components import LabelComponents, grid_of
from beam_volumes.transforms.steps.grids import SlabGrid
from beam_volumes.transforms.steps.measure import MeasureSlabs
from beam_volumes.transforms.steps.render import placeholder
from beam_volumes.transforms.steps.slabs import ReadSlabs


class _Labels(NamedTuple):
    """A division into slabs of labels; ``halo``: None if it is not known."""

    volume: Volume
    grid: Grid
    halo: Any


@with_input_types(GivenSlab)
@documented
class RegionTable(MeasureSlabs):
    """Measure the regions of slabs of labels: ``(SlabKey, Slab)`` to a row for each region.

    Rows are `apache_beam.Row` with a schema. Fields have the names of the columns of `regionprops_table`,
    with ``_`` for ``-``: ``label``, ``area``, ``centroid_0``. Rows are in no particular order.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid, LabelComponents or Grid
        The division of the volume. Labels may have any integer dtype. Some properties need a halo:
        ``surface_area_faces`` (computed by default), ``euler_number`` and ``perimeter_crofton``
        need ``(0, 1)`` along each axis, and ``perimeter`` needs 3.
    intensity : Volume, optional
        A lazy volume of the same shape. Its voxels are read slab by slab, together with the labels.
    properties : sequence of str, optional
        Names of the properties, as in `regionprops_table`, with the same default. ``area_filled``
        is not available.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities are an error or are ignored.

    Raises
    ------
    ValueError
        If a property is unknown or needs ``intensity``, or `ReadSlabs` has a smaller halo than the
        properties need. In a worker, if slabs have a smaller halo, are masks, are missing or arrive
        twice. If an intensity is NaN or infinite and ``nan="raise"``.

    See Also
    --------
    beam_volumes.regionprops_table : Measure a whole volume. MeasureSlabs : Compute any tables and
    numbers.

    Notes
    -----
    Only the sums for each label and slab are shuffled.

    Examples
    --------
    >>> import apache_beam as beam
    >>> labels = bv.open(np.array([[[7, 7, 0]], [[7, 0, 4]], [[0, 0, 4]]], "u4"))
    >>> read = bv.ReadSlabs(labels, depth=2, halo=((0, 1), (0, 1), (0, 1)))
    >>> table = bv.RegionTable(read, labels * 2, ["area", "intensity_mean"])
    >>> with beam.Pipeline("FnApiRunner") as p:
    ...     _ = p | read | table | beam.Map(print)
    Row(label=4, area=2.0, intensity_mean=8.0)
    Row(label=7, area=3.0, intensity_mean=14.0)
    """

    def __init__(
        self,
        slabs: ReadSlabs | SlabGrid | LabelComponents | Grid,
        intensity: Volume | None = None,
        properties: Sequence[str] | None = None,
        *,
        spacing: float | Sequence[float] | str | None = None,
        nan: str = "raise",
    ):
        grid = grid_of(slabs)
        described = slabs.slabs if isinstance(slabs, LabelComponents) else slabs
        labels = getattr(described, "volume", None)
        #: `WriteSlabs` finds it, and refuses to replace it.
        self.intensity = None if intensity is None else as_volume(intensity)
        about = self.intensity if labels is None else labels
        if spacing is not None and about is None:
            raise ValueError(
                f"RegionTable: spacing={spacing!r} needs the axes, which a grid does not have: "
                "give the ReadSlabs of the labels"
            )

        def rows(volume: Volume) -> Table:
            return region_table(volume, self.intensity, properties, spacing, nan, "RegionTable")

        space = Space() if about is None else about.space.of_one("c")
        halo = slabs.halo if isinstance(slabs, ReadSlabs) else None
        # Steps in between may make labels of any integers, except of a volume of floats.
        own = slabs.volume.dtype if isinstance(slabs, ReadSlabs | SlabGrid) else np.dtype("u8")
        dtype = np.dtype("u8") if own.kind in "bui" else own
        super().__init__(_Labels(placeholder(grid.shape, dtype, space), grid, halo), rows=rows)

    _any_labels = True

    def expand(self, slabs: beam.PCollection[Any]) -> Any:
        return super().expand(slabs)["rows"]
