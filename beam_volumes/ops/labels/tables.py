"""Tables of label volumes: what each region measures, and which regions touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops import parameters as par
from beam_volumes.ops.labels.table_surveys import AdjacencySurvey, RegionSurvey


def regionprops_table(
    labels: Volume,
    intensity: Volume | None = None,
    properties: Sequence[str] | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = "raise",
) -> Table:
    """Measure every region of a label volume; see `skimage.measure.regionprops_table`.

    Parameters
    ----------
    labels : Volume
        Of bool or integers; 0 is background.
    intensity : Volume, optional
        Of the same shape, for the properties of intensities.
    properties : sequence of str, optional
        Names of scikit-image's (all that are offered by default): ``num_pixels``, ``area``, ``bbox``,
        ``centroid``, ``extent``, ``equivalent_diameter_area``, ``axis_major_length``,
        ``axis_minor_length``, ``inertia_tensor_eigvals``, ``orientation`` (2-D), with ``intensity``
        also ``intensity_min``, ``_max``, ``_mean``, ``_std`` and ``centroid_weighted``; and
        ``principal_axes``, ``surface_area_faces``, ``touches_border`` and ``intensity_sum``.
    spacing : float, sequence of float, or "voxel_size", optional
        Size of a voxel, for areas, centroids and lengths; 1 by default.
    nan : {"raise", "omit"}
        What to do with NaN and infinite intensities.

    Returns
    -------
    Table
        Sorted by ``label``; properties of several numbers have columns ``bbox-0``, ...

    Notes
    -----
    One sweep (of a `label`, its second). Sums are exact, so that the table is the same to the bit
    however the volume is cut up; lengths of axes come from LAPACK and may differ in the last bits
    between machines. Memory grows with the labels of one slab, about 300 to 550 bytes each; the whole
    table is never in one place.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> labels = bv.open(np.array([[1, 1, 0], [0, 2, 2]], "u1"))
    >>> table = bv.regionprops_table(labels, properties=["area", "centroid"])
    >>> table.to_pyarrow().to_pydict()
    {'label': [1, 2], 'area': [2.0, 2.0], 'centroid-0': [0.0, 1.0], 'centroid-1': [0.5, 1.5]}
    """
    name = "regionprops_table"
    labels, operands = _with(labels, intensity, name, "intensity")
    survey = RegionSurvey.of(
        labels.dtype,
        None if intensity is None else operands[1].dtype,
        properties,
        spacing_of(labels, spacing, name),
        2 if labels.ndim == 2 else 3,
        nan,
    )
    return Table(Barrier.of(survey, tuple(v.node for v in operands)))


def region_adjacency(
    labels: Volume,
    intensity: Volume | None = None,
    *,
    value: str = "max",
    bins: int = 0,
    range: tuple[float, float] | None = None,
    nan: str = "raise",
) -> Table:
    """Which regions touch, along how many faces, and what lies between them.

    Parameters
    ----------
    labels : Volume
        Of bool or integers; 0 is background and touches nothing.
    intensity : Volume, optional
        A boundary volume of the same shape, e.g. of membrane probabilities.
    value : {"max", "mean"}
        What a face's value is of the two voxels beside it.
    bins : int
        Bins of a histogram of each pair's values; none by default.
    range : (low, high)
        Of the histogram.
    nan : {"raise", "omit"}
        What to do with NaN and infinite intensities.

    Returns
    -------
    Table
        One row for each pair of labels that share a face, the smaller one first, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> labels = bv.open(np.array([[1, 1, 3], [2, 2, 3]], "u1"))
    >>> pairs = bv.region_adjacency(labels).to_pyarrow()
    >>> [row[:2] for row in zip(*pairs.to_pydict().values())]
    [(1, 2), (1, 3), (2, 3)]
    """
    name = "region_adjacency"
    labels, operands = _with(labels, intensity, name, "intensity")
    boundary = None if intensity is None else operands[1].dtype
    survey = AdjacencySurvey.of(labels.dtype, boundary, value, bins, range, nan)
    return Table(Barrier.of(survey, tuple(v.node for v in operands)))


def _with(labels: Any, other: Any, name: str, what: str) -> tuple[Volume, tuple[Volume, ...]]:
    labels = as_volume(labels)
    if other is None:
        return labels, (labels,)
    other = as_volume(other)
    if other.axes != labels.axes or other.shape != labels.shape:
        raise ValueError(
            f"{name}: labels of shape {labels.shape} ({' '.join(labels.axes)}) and {what} of shape "
            f"{other.shape} ({' '.join(other.axes)}) do not match; crop them to one shape first"
        )
    return labels, (labels, other)


def spacing_of(volume: Volume, spacing: Any, name: str) -> tuple[float, float, float]:
    """The size of a voxel along z, y, x that a table's ``spacing=`` means."""
    if spacing is None:
        return (1.0, 1.0, 1.0)
    if isinstance(spacing, str):
        if spacing != "voxel_size":
            raise ValueError(f'{name}: spacing={spacing!r}: give numbers or "voxel_size"')
        if volume.space.voxel_size is None:
            raise ValueError(
                f'{name}: spacing="voxel_size", but the volume has none; open it with voxel_size='
            )
        z, y, x = volume.space.voxel_size
        return (z, y, x)
    z, y, x = par.per_axis(spacing, volume.space.visible, 1.0, f"{name}: spacing")
    return (z, y, x)
