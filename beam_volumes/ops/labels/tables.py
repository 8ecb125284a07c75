"""Tables of label volumes: measurements of regions, and touching pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from beam_volumes.across.tables import EXTREMES, QUANTILE, default_properties
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_label
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.labels.comprehension import FilledArea, with_functions
from beam_volumes.ops.labels.regions import region_table, with_operands
from beam_volumes.ops.labels.surveys.table_surveys import AdjacencySurvey, RegionSurvey
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented


@documented
def regionprops_table(
    labels: Volume,
    intensity: Volume | None = None,
    properties: str | Sequence[str] | None = None,
    *,
    spacing: float | Sequence[float] | str | None = None,
    nan: str = "raise",
    intensity_quantiles: Sequence[float] = (),
    extra_properties: Sequence[Any] | Mapping[Any, Any] = (),
) -> Table:
    """Measure every region of a label volume.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Integer labels; 0 is background. Label the objects of a mask with `label` first.
    intensity : Volume or numpy.ndarray, optional
        Intensities for the properties that need them, with the shape of the labels; scikit-image's
        name ``intensity_image`` is also accepted. Each of several channels has its own columns,
        which end with its name or number, as in ``intensity_mean-DAPI``.
    properties : str or sequence of str, optional
        Names of the properties, or one name, as in scikit-image. These are computed by default:
        ``num_pixels``, ``area``, ``bbox``, ``centroid``, ``extent``, ``equivalent_diameter_area``,
        ``axis_major_length``, ``axis_minor_length``, ``inertia_tensor_eigvals``, and
        ``orientation`` for two axes. With ``intensity``, so are ``intensity_min``,
        ``intensity_max``, ``intensity_mean``, ``intensity_std`` and ``centroid_weighted``. The
        defaults also include properties that scikit-image lacks: ``principal_axes``,
        ``surface_area_faces``, ``touches_border`` and ``intensity_sum``. These are computed on
        request: ``area_bbox``, ``area_convex``, ``centroid_local``, ``solidity``,
        ``feret_diameter_max``, ``euler_number``, ``inertia_tensor``, ``moments``,
        ``moments_central`` and ``moments_normalized``. Exponents of moments are up to 3 in total.
        Two axes add ``eccentricity``, and for voxels with equal sides ``perimeter``,
        ``perimeter_crofton`` and ``moments_hu``. With ``intensity``, you can request
        ``centroid_weighted_local``, ``moments_weighted``, ``moments_weighted_central``,
        ``moments_weighted_normalized``, and ``moments_weighted_hu`` for two axes.
        ``minimum_position`` and ``maximum_position`` are in voxels, the first of several; their
        names are scipy's. ``intensity_median`` needs integers of up to 16 bits. ``area_filled``
        includes the holes of a region, and is the last column; it needs stored labels, and reads
        the bounding box of each region.
    %(spacing)s
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities raise an error on computation or are ignored.
    intensity_quantiles : sequence of float, default: ()
        Quantiles to compute, from 0 to 1, as in `numpy.quantile`. Intensities must be integers of
        up to 16 bits. The columns have names such as ``intensity_quantile-0.25``.
    extra_properties : sequence or mapping of callable, default: ()
        Functions of a region's mask in its bounding box, or of its mask and intensities, as in
        scikit-image. Each returns a number for a column with the function's name, as float64 or
        with the dtype from a mapping. Labels and intensities must be stored.

    Returns
    -------
    Table
        A lazy table, sorted by its column ``label``. Properties with several numbers have several
        columns, such as ``bbox-0`` and ``bbox-1``.

    Raises
    ------
    ValueError
        If a property is unknown or needs ``intensity``, or shapes differ. On computation, if an
        intensity is NaN or infinite and ``nan="raise"``, or the regions need more memory than is
        available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    region_adjacency : finds touching regions.
    Table.at : looks up labels, like ``index`` of the measurements in `scipy.ndimage`.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Sums are exact, so the table is the same,
    bit for bit, for any slabs. Lengths of axes are computed with LAPACK, and their last bits may
    differ between machines.

    Memory grows with the labels of one slab, about 300 to 550 bytes each. No worker holds the whole
    table. Sums of floats from 1e-150 to 1e150 need up to 3 kB for each label. Medians and quantiles
    also keep the distinct values of each label (16 bytes each), and convex hulls their vertices (12
    bytes each). Convex hulls and Feret diameters (between centres of faces) are also computed for
    flat regions of a volume, where scikit-image returns 0.

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
    labels, operands = with_operands(labels, intensity, name, "intensity")
    named: Sequence[str] | None = [properties] if isinstance(properties, str) else properties
    fills = named is not None and "area_filled" in named
    named = named and [p for p in named if p != "area_filled"]

    def measured(names: Sequence[str] | None) -> Table:
        return region_table(labels, intensity, names, spacing, nan, name)

    if len(intensity_quantiles):
        if named is None:
            named = default_properties(len(labels.space.visible), intensity is not None)
        named = [*named, *_quantiles(intensity_quantiles, name)]
    table = measured(named)
    functions = extra_properties
    given = list(functions) if isinstance(functions, Sequence | Mapping) else [functions]
    if not all(callable(f) for f in given):
        raise TypeError(
            f"{name}: extra_properties={functions!r}; give functions, or a mapping of them to dtypes"
        )
    if not given and not fills:
        return table
    if not isinstance(functions, Mapping):
        functions = dict.fromkeys(functions, np.dtype(np.float64))
    if fills:
        functions = {FilledArea.of(labels, spacing, name): np.dtype(np.float64), **functions}
    boxes = table if named is None or "bbox" in named else measured([*named, "bbox"])
    image = None if intensity is None else operands[1]
    return with_functions(boxes, labels, image, functions, list(table.columns), name)


def _quantiles(numbers: Sequence[float], name: str) -> list[str]:
    """Return the names of columns of quantiles, with all digits."""
    for q in numbers:
        if not par.is_number(q) or not 0 <= q <= 1:
            raise ValueError(
                f"{name}: intensity_quantiles has {q!r}: give numbers from 0 to 1, e.g. 0.25"
            )
    return [f"{QUANTILE}-{np.format_float_positional(q, trim='-')}" for q in numbers]


@documented
def region_adjacency(
    labels: Volume,
    intensity: Volume | None = None,
    *,
    affinities: Volume | None = None,
    value: str = "max",
    bins: int = 0,
    range: tuple[float, float] | None = None,
    nan: str = "raise",
) -> Table:
    """Find pairs of touching regions, the number of shared faces, and the values between them.

    Parameters
    ----------
    labels : Volume or numpy.ndarray
        Integer labels; 0 is background. Label the objects of a mask with `label` first.
    intensity : Volume or numpy.ndarray, optional
        A boundary volume with the shape of the labels, such as membrane probabilities.
    affinities : Volume or numpy.ndarray, optional
        Instead of ``intensity``, a volume with three channels (axes c, z, y, x), of at most 32
        bits. The channels are the affinity of each voxel with the previous voxel along z, y and x.
    value : {"max", "mean"}, default: "max"
        The value of a face with ``intensity``: the maximum or mean of its two voxels.
    bins : int, default: 0
        Number of bins for a histogram of the values of each pair; 0 for none.
    range : pair of float, optional
        The range of the histogram, which is required; by default (0, 256) for affinities of uint8.
    nan : {"raise", "omit"}, default: "raise"
        Whether NaN and infinite intensities and affinities raise an error on computation or are
        ignored.

    Returns
    -------
    Table
        A lazy table with a row for each pair of labels that share a face, sorted by label;
        ``label_a`` is smaller than ``label_b``. Columns ``faces-0``, ... count the faces across
        each axis of the labels, in order. With ``intensity`` there are ``boundary_mean``,
        ``boundary_min``, ``boundary_max``, and with ``bins`` ``boundary_histogram-0``, ... With
        ``affinities`` there are ``affinity_count``, ``affinity_sum`` (exact, only for integers),
        ``affinity_mean``, ``affinity_min``, ``affinity_max``, and ``affinity_histogram-0``, ...

    Raises
    ------
    ValueError
        If shapes differ or a parameter is out of range. On computation, if an intensity is NaN or
        infinite and ``nan="raise"``, or the pairs need more memory than is available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    regionprops_table : measures each region.
    agglomerate : merges regions with this table.

    Notes
    -----
    One sweep; labels from `label` share its second sweep. Memory grows with the pairs of one slab.

    References
    ----------
    `skimage.graph.RAG` and `skimage.graph.rag_boundary` are such graphs for arrays in memory.

    Examples
    --------
    >>> labels = bv.open(np.array([[1, 1, 3], [2, 2, 3]], "u1"))
    >>> pairs = bv.region_adjacency(labels).to_pyarrow()
    >>> [row[:2] for row in zip(*pairs.to_pydict().values())]
    [(1, 2), (1, 3), (2, 3)]
    """
    name = "region_adjacency"
    labels, operands = with_operands(labels, intensity, name, "intensity")
    each, axes = voxels_per_label(labels.node), tuple(labels.space.visible)
    if affinities is not None:
        if intensity is not None:
            raise ValueError(f"{name}: give intensity= or affinities=, not both")
        _, (_, edges) = with_operands(labels, affinities, name, "affinities")
        check_affinities(edges, name)
        if bins and range is None and edges.dtype == np.uint8:
            range = (0, 256)
        survey = AdjacencySurvey.of(
            labels.dtype, edges.dtype, "upper", bins, range, nan, voxels_per_label=each, axes=axes
        )
        return Table(Barrier.of(survey, (labels.node, *edges.nodes)))
    if value == "upper":
        raise ValueError(f"{name}: value={value!r}; use max or mean")
    boundary = None if intensity is None else operands[1].dtype
    survey = AdjacencySurvey.of(
        labels.dtype, boundary, value, bins, range, nan, voxels_per_label=each, axes=axes
    )
    return Table(Barrier.of(survey, tuple(v.node for v in operands)))


def extremes_of_labels(labels: Volume, intensity: Volume, *ends: str) -> Table:
    """Return a table of ``intensity_min`` or ``intensity_max``, with infinite intensities and without NaN."""
    barrier = regionprops_table(labels, intensity, ends).barrier
    survey = replace(cast(RegionSurvey, barrier.survey), nan=EXTREMES)
    return Table(Barrier.of(survey, barrier.operands))


def check_affinities(affinities: Volume, name: str) -> None:
    """Refuse volumes other than three channels of numbers."""
    if not affinities.space.has_channels or len(affinities.nodes) != 3:
        raise ValueError(
            f"{name}: affinities of shape {affinities.shape} ({' '.join(affinities.axes)}) need the axis c "
            "with three channels, for z, y and x"
        )
    if affinities.dtype.kind not in "uif" or affinities.dtype.itemsize > 4:
        raise TypeError(
            f"{name}: affinities have dtype {affinities.dtype}; use numbers of at most 32 bits"
        )
