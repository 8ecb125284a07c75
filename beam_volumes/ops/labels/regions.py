"""The table of regions that one sweep computes, and their bounding boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.surveys.contour_stage import contour_of
from beam_volumes.ops.labels.surveys.table_surveys import RegionSurvey
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import first_channel


def region_table(
    labels: Volume,
    intensity: Volume | None,
    properties: Sequence[str] | None,
    spacing: float | Sequence[float] | str | None,
    nan: str,
    name: str,
) -> Table:
    """Return the table of properties that one sweep computes; ``name`` is for messages."""
    labels, operands = with_operands(labels, intensity, name, "intensity")
    survey = RegionSurvey.of(
        labels.dtype,
        None if intensity is None else operands[1].dtype,
        properties,
        par.voxel_sizes(labels, spacing, "spacing", name),
        tuple(labels.space.visible),
        nan,
        name,
        channels=operands[-1].channels,
        voxels_per_label=voxels_per_label(labels.node),
    )
    nodes = [n for v in operands for n in v.nodes]
    if survey.with_contour:
        nodes.insert(1, contour_of(labels.node, survey.axes))
    return Table(Barrier.of(survey, tuple(nodes)))


def boxes_of(labels: Any) -> Table:
    """Return the table of bounding boxes of all labels."""
    return region_table(labels, None, ["bbox"], None, "raise", "regionprops_table")


def with_operands(
    labels: Any, other: Any, name: str, what: str
) -> tuple[Volume, tuple[Volume, ...]]:
    """Return labels as a volume, and all operands: labels, and ``other`` if it is given."""
    labels = one_channel(labels)
    if other is None:
        return labels, (labels,)
    other = as_volume(other)
    one = first_channel(other)
    if one.axes != labels.axes or one.shape != labels.shape:
        raise ValueError(
            f"{name}: labels of shape {labels.shape} ({' '.join(labels.axes)}) and {what} of shape "
            f"{other.shape} ({' '.join(other.axes)}) do not match; crop them to one shape first"
        )
    return Volume(labels.node, shared_space(name, labels, one)), (labels, other)
