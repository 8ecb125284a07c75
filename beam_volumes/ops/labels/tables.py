"""Tables of label volumes: what each region measures, and which regions touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.labels.table_surveys import AdjacencySurvey, RegionSurvey
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented


@documented
def regionprops_table(
    labels: Volume,
    intensity: Volume | None = None,
    properties: Sequence[str] | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = "raise",
) -> Table:
    """Measure every region of a label volume.

    Parameters
    ----------
    %(labels)s
    intensity : Volume or numpy.ndarray, optional
        Intensities for the properties that need them, of the shape of the labels.
    properties : sequence of str, optional
        Names of the properties, scikit-image's: ``num_pixels``, ``area``, ``bbox``,
        ``centroid``, ``extent``, ``equivalent_diameter_area``, ``axis_major_length``,
        ``axis_minor_length``, ``inertia_tensor_eigvals``, ``orientation`` (of two axes); with
        ``intensity`` also ``intensity_min``, ``intensity_max``, ``intensity_mean``,
        ``intensity_std`` and ``centroid_weighted``. Besides there are ``principal_axes``,
        ``surface_area_faces``, ``touches_border`` and ``intensity_sum``. By default all that
        are possible.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        NaN and infinite intensities are an error when the table is computed, or they are left
        out.

    Returns
    -------
    Table
        A lazy table, sorted by its column ``label``. Properties of several numbers have columns
        ``bbox-0``, ``bbox-1`` and so on.

    Raises
    ------
    ValueError
        If a property is not known or needs ``intensity``, or shapes differ; when it is
        computed, if an intensity is NaN or infinite and ``nan="raise"``, or the regions take
        more memory than is left.
    TypeError
        If ``labels`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    region_adjacency : which regions touch.
    Table.at : looks up labels, as the ``index`` of `scipy.ndimage`'s measurements does.

    Notes
    -----
    One sweep; for labels of `label` it is the second of its two. Sums are exact, so that the table
    is the same to the bit however the volume is cut. Lengths of axes come from LAPACK, and may
    differ in the last bits between machines.

    Memory grows with the labels of one slab, about 300 to 550 bytes each. The whole table is never
    in one place.

    References
    ----------
    `skimage.measure.regionprops_table`.

    Examples
    --------
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
        par.voxel_sizes(labels, spacing, "spacing", name),
        2 if labels.ndim == 2 else 3,
        nan,
    )
    return Table(Barrier.of(survey, tuple(v.node for v in operands)))


@documented
def region_adjacency(
    labels: Volume,
    intensity: Volume | None = None,
    *,
    value: str = "max",
    bins: int = 0,
    range: tuple[float, float] | None = None,
    nan: str = "raise",
) -> Table:
    """Find which regions touch, along how many faces, and what lies between them.

    Parameters
    ----------
    %(labels)s
    intensity : Volume or numpy.ndarray, optional
        A boundary volume, e.g. probabilities of membranes, of the shape of the labels.
    value : {"max", "mean"}, default: "max"
        The value of a face: the larger one of the two voxels beside it, or their mean.
    bins : int, default: 0
        Number of bins of a histogram of the values of each pair; 0 for none.
    range : pair of float, optional
        The ends of the histogram, which it needs.
    nan : {"raise", "omit"}, default: "raise"
        NaN and infinite intensities are an error when the table is computed, or they are left
        out.

    Returns
    -------
    Table
        A lazy table with a row for each pair of labels that share a face, ``label_a`` the
        smaller one and ``label_b``, sorted. Columns ``faces-0``, ... count the faces across
        each axis; with ``intensity`` there are ``boundary_mean``, ``boundary_min``,
        ``boundary_max``, and ``boundary_histogram-0``, ... if asked for.

    Raises
    ------
    ValueError
        If shapes differ or a parameter is out of its range; when it is computed, if an
        intensity is NaN or infinite and ``nan="raise"``, or the pairs take more memory than is
        left.
    TypeError
        If ``labels`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    regionprops_table : measures each region.

    Notes
    -----
    One sweep; for labels of `label` it is the second of its two. Memory grows with the pairs of one
    slab.

    References
    ----------
    `skimage.graph.RAG` and `skimage.graph.rag_boundary` have such graphs for arrays in memory.

    Examples
    --------
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
