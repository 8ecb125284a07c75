"""Region tables of slabs of labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.typehints import with_input_types

from beam_volumes.across import tables
from beam_volumes.across.components import region_of
from beam_volumes.across.rounds.flow import Key
from beam_volumes.across.tables import Regions
from beam_volumes.base.geometry import Grid
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.surveys.table_surveys import RegionSurvey
from beam_volumes.ops.parameters.checks import voxel_sizes
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.transforms.passes import row_batches
from beam_volumes.transforms.rounds import FirstRound, RunFlow
from beam_volumes.transforms.rows import rows_of
from beam_volumes.transforms.slab import GivenSlab, Slab, slab_of
from beam_volumes.transforms.steps.components import ABOUT, LabelComponents, grid_of
from beam_volumes.transforms.steps.grids import SlabGrid
from beam_volumes.transforms.steps.render import render
from beam_volumes.transforms.steps.slabs import ReadSlabs, check_readable
from beam_volumes.transforms.waiting import in_global_window, windowed_as

#: Properties that need a plane beyond a slab.
BEYOND = ("surface_area_faces", "euler_number", "perimeter_crofton")


@with_input_types(GivenSlab)
@documented
class RegionTable(beam.PTransform):
    """Measure the regions of slabs of labels: ``(SlabKey, Slab)`` to a row for each region.

    Rows are `apache_beam.Row` with a schema. Fields have the names of the columns of `regionprops_table`,
    with ``_`` for ``-``: ``label``, ``area``, ``centroid_0``. Rows come in no order.

    Parameters
    ----------
    slabs : ReadSlabs, SlabGrid, LabelComponents or Grid
        How the volume is cut. ``surface_area_faces``, which is among the
        properties by default, ``euler_number`` and ``perimeter_crofton`` need one plane more on the
        upper side: the halo ``(0, 1)`` along each axis.
    intensity : Volume, optional
        An expression of the same shape. Its voxels are read slab by slab, where labels are.
    properties : sequence of str, optional
        Names of the properties, as `regionprops_table` has them, except for ``perimeter``; by
        default the same.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        NaN and infinite intensities are an error, or they are left out.

    Raises
    ------
    ValueError
        If a property is not known or needs ``intensity``; in a worker, if a slab lacks the
        plane above, or an intensity is NaN or infinite and ``nan="raise"``.

    See Also
    --------
    beam_volumes.regionprops_table : the same of a whole volume.

    Notes
    -----
    Sums for each label and slab are shuffled, and nothing else.

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
        super().__init__()
        self.grid = grid_of(slabs)
        labels = getattr(slabs, "volume", None)
        self.intensity = None if intensity is None else as_volume(intensity)
        if self.intensity is not None:
            check_readable(self.intensity)
            if self.intensity.node.shape != self.grid.shape:
                raise ValueError(
                    f"RegionTable: the intensities' shape is {self.intensity.node.shape}, but the "
                    f"labels' is {self.grid.shape} (z, y, x); crop them to the same shape first"
                )
            if labels is not None:
                shared_space("RegionTable", labels, self.intensity)
        about = labels if labels is not None else self.intensity
        if spacing is not None and about is None:
            raise ValueError(
                f"RegionTable: spacing={spacing!r} needs the axes, which a grid does not have: "
                "give the ReadSlabs of the labels"
            )
        self.survey = RegionSurvey.of(
            "u8" if labels is None else labels.dtype,
            None if self.intensity is None else self.intensity.dtype,
            properties,
            (1.0, 1.0, 1.0)
            if about is None
            else voxel_sizes(about, spacing, "spacing", "RegionTable"),
            (0, 1, 2) if about is None else tuple(about.space.visible),
            nan,
            "RegionTable",
        )
        if self.survey.with_contour:
            raise ValueError(
                "RegionTable: perimeter needs more of the neighbours of a slab; use perimeter_crofton, or "
                "regionprops_table"
            )

    def expand(self, slabs: beam.PCollection[Any]) -> beam.PCollection[beam.Row]:
        measure = partial(_measured, grid=self.grid, survey=self.survey, intensity=self.intensity)
        flow = self.survey.flow(self.grid)
        # The results of slabs and the shards may be too large for elements.
        all_slabs = slabs | "In no window" >> in_global_window(slabs)
        parts = all_slabs | "Measure" >> FirstRound(flow, measure)
        batches = (parts | "Merge" >> RunFlow(flow, take={"rows": _batches}))["rows"]
        rows = batches | "Rows" >> rows_of(self.survey.no_rows(self.grid.shape))
        return windowed_as(slabs, rows)


def _batches(key: Key, columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return row_batches(columns)


def _measured(
    pair: Any, grid: Grid, survey: RegionSurvey, intensity: Volume | None
) -> tuple[Key, Regions]:
    return measure_slab(slab_of(pair, "RegionTable"), grid, survey, intensity)


def measure_slab(
    slab: Slab, grid: Grid, survey: RegionSurvey, intensity: Volume | None
) -> tuple[Key, Regions]:
    """Return the contribution of a slab to the table, with its index."""
    z, y, x = (c // s for c, s in zip(slab.core.start, grid.step, strict=True))
    core, region = region_of(grid, (z, y, x))
    if slab.shape != grid.shape or slab.core != core:
        raise ValueError(
            f"slab {slab.key}: its core {slab.core} of {slab.shape} is not in the grid of "
            f"{grid.step} in {grid.shape}: give RegionTable the ReadSlabs that yields the slabs"
        )
    if not survey.upper:
        region = core
    if not slab.box.contains(region):
        names = [n for n in BEYOND if n in survey.properties]
        raise ValueError(
            f"slab {slab.key} has the voxels {slab.box}; {names[0]} needs {region}, "
            f"one plane beyond the core: {ABOUT}, or leave it out of properties="
        )
    labels = slab.data[region.translate([-a for a in slab.box.start]).slices]
    values = None if intensity is None else render(intensity.node, core)
    try:
        part = tables.regions(
            labels,
            core.start,
            grid.shape,
            values,
            survey.nan,
            core.shape,
            with_faces=survey.with_faces,
            arrays=survey.arrays,
            hidden=survey.hidden,
        )
    except ValueError as error:
        raise ValueError(f"slab {slab.key}: {error}") from None
    _, ny, nx = grid.counts
    return ((z * ny + y) * nx + x,), part
