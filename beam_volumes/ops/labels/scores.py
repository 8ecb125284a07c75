"""How two segmentations agree: the voxels that labels share, and scores of them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from beam_volumes.across.rounds.lookup import BUCKET, VOXELS
from beam_volumes.across.rounds.scores import Agreement, BestOverlap
from beam_volumes.graph.nodes import Barrier, BarrierValue
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.surveys.overlap_surveys import ContingencySurvey
from beam_volumes.ops.measure.statistics import count_nonzero
from beam_volumes.ops.morphology.basic import binary_dilation, grey_dilation, grey_erosion
from beam_volumes.ops.morphology.distance import distance_transform_edt
from beam_volumes.ops.morphology.footprints import ball, cross
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

#: The largest ball that boundaries are dilated by: beyond, distances cost less.
LARGEST_BALL = 16


@documented
def contingency(a: Volume, b: Volume, *, ignore_labels: Iterable[int] = ()) -> Table:
    """Count the voxels that each label of one volume shares with each label of another.

    Parameters
    ----------
    a, b : Volume or numpy.ndarray
        Labels, of bool or integers from 0 on, of one shape. 0 is a label as others are.
    ignore_labels : iterable of int, default: ()
        Labels of ``a`` whose voxels do not count.

    Returns
    -------
    Table
        A lazy table with columns ``label_a``, ``label_b`` (uint64) and ``count`` (int64): a row
        for each pair that shares voxels, sorted.

    Raises
    ------
    ValueError
        If shapes differ; when it is computed, if a label is negative, or the pairs take more
        memory than is left.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    variation_of_information : a score of it.
    adapted_rand_error : another one.
    segment_iou : which labels overlap best.

    Notes
    -----
    One sweep. Memory grows with the pairs of one slab, about 24 bytes each, several times while
    they are merged. The whole table is never in one place.

    References
    ----------
    `skimage.metrics.contingency_table`.

    Examples
    --------
    >>> truth = np.array([[1, 1, 2, 2]], "u1")
    >>> bv.contingency(truth, np.array([[7, 7, 7, 9]], "u2")).to_pyarrow().to_pydict()
    {'label_a': [1, 2, 2], 'label_b': [7, 7, 9], 'count': [2, 1, 1]}
    """
    return _contingency(a, b, ignore_labels, "contingency")


def _contingency(a: Any, b: Any, ignore_labels: Iterable[int], name: str) -> Table:
    a, b, ignored = _two(a, b, ignore_labels, name)
    survey = ContingencySurvey(name, ignored)
    return Table(Barrier.of(survey, (a.node, b.node)))


def _two(
    a: Any, b: Any, ignore_labels: Iterable[int], name: str
) -> tuple[Volume, Volume, tuple[int, ...]]:
    """Two volumes of labels of one shape, and the labels that do not count, in order."""
    a, b = one_channel(as_volume(a)), one_channel(as_volume(b))
    for v in (a, b):
        check_labels(v.dtype, name)
    if a.axes != b.axes or a.shape != b.shape:
        raise ValueError(
            f"{name}: labels of shape {a.shape} ({' '.join(a.axes)}) and labels of shape {b.shape} "
            f"({' '.join(b.axes)}) do not match; crop them to one shape first"
        )
    shared_space(name, a, b)
    ignored = tuple(ignore_labels)
    for label in ignored:
        if not isinstance(label, int | np.integer) or not 0 <= label < 1 << 64:
            raise ValueError(f"{name}: ignore_labels has {label!r}: labels are integers from 0 on")
    return a, b, tuple(sorted(map(int, ignored)))


def _buckets(table: Table) -> int:
    return max(1, math.prod(table.barrier.shape) // VOXELS // BUCKET)


def _scores(a: Any, b: Any, ignore_labels: Iterable[int], alpha: float, name: str) -> Any:
    table = _contingency(a, b, ignore_labels, name)
    barrier = then(Agreement(name, float(alpha), _buckets(table)), [table], name)
    return lambda which: Scalar(BarrierValue.of(barrier, which, np.dtype(np.float64)))


@documented
def variation_of_information(
    truth: Volume, test: Volume, *, ignore_labels: Iterable[int] = ()
) -> tuple[Scalar, Scalar]:
    """Compare two segmentations by the entropy that either leaves of the other.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels, of bool or integers from 0 on, of one shape. 0 is a label as others are.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` whose voxels do not count, e.g. ``[0]``.

    Returns
    -------
    split, merge : Scalar
        Lazy numbers in bits: the entropy of ``test`` given ``truth``, which grows with false
        splits, and that of ``truth`` given ``test``, which grows with false merges. NaN where no
        voxel counts.

    Raises
    ------
    ValueError
        If shapes differ; when they are computed, if a label is negative, or the pairs of labels
        take more memory than is left.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    adapted_rand_error : another score, of the same sweep.
    contingency : what it is computed of.

    Notes
    -----
    One sweep, and one for all scores that are computed together. Voxels are counted exactly, and
    each score is summed and rounded once: it is the same to the bit however the volume is cut.

    References
    ----------
    `skimage.metrics.variation_of_information`, which gives the two as an array.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[1, 1, 1, 1]])
    >>> split, merge = bv.variation_of_information(truth, test)
    >>> float(split), float(merge)
    (0.0, 1.0)
    """
    found = _scores(truth, test, ignore_labels, 0.5, "variation_of_information")
    return found("split"), found("merge")


@documented
def adapted_rand_error(
    truth: Volume, test: Volume, *, ignore_labels: Iterable[int] = (0,), alpha: float = 0.5
) -> tuple[Scalar, Scalar, Scalar]:
    """Compare two segmentations by pairs of voxels that lie in one segment.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels, of bool or integers from 0 on, of one shape.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` whose voxels do not count.
    alpha : float, default: 0.5
        The weight of precision, from 0 to 1.

    Returns
    -------
    error, precision, recall : Scalar
        Lazy numbers: 1 minus the F-score, and what it is of. NaN where no pair of voxels counts.

    Raises
    ------
    ValueError
        If shapes differ or ``alpha`` is out of its range; when they are computed, if a label is
        negative, or the pairs of labels take more memory than is left.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    variation_of_information : another score.
    contingency : what it is computed of.

    Notes
    -----
    One sweep. Pairs of voxels are counted exactly, in integers of any size. Precision and recall
    are those of scikit-image, which divides by the pairs of ``truth`` for the first.

    References
    ----------
    `skimage.metrics.adapted_rand_error`.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[1, 1, 1, 1]])
    >>> [round(float(x), 3) for x in bv.adapted_rand_error(truth, test)]
    [0.5, 1.0, 0.333]
    """
    if not 0 <= alpha <= 1:
        raise ValueError(f"adapted_rand_error: alpha={alpha!r}: give a number from 0 to 1")
    found = _scores(truth, test, ignore_labels, alpha, "adapted_rand_error")
    return found("error"), found("precision"), found("recall")


@documented
def boundary_scores(
    truth: Volume,
    test: Volume,
    *,
    tolerance: float = 0,
    ignore_labels: Iterable[int] = (),
) -> tuple[Scalar, Scalar]:
    """Compare two segmentations by the voxels at boundaries of segments.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels, of bool or integers from 0 on, of one shape. 0 is a label as others are.
    tolerance : float, default: 0
        How far apart, in voxels, boundaries of the two may be to be the same.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` whose voxels do not count.

    Returns
    -------
    precision, recall : Scalar
        Lazy numbers: of the boundary voxels of ``test``, the share that is near one of ``truth``;
        and of those of ``truth``, the share that is near one of ``test``. NaN where there are none.

    Raises
    ------
    ValueError
        If shapes differ, or ``tolerance`` is negative or not a number.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    variation_of_information, adapted_rand_error : scores of segments.

    Notes
    -----
    A boundary voxel has a voxel of another label across a face, as in scikit-image with
    ``connectivity=1`` and ``mode="thick"``. One sweep, or two with a ``tolerance`` above 16. Voxels
    are counted exactly, and each score is rounded once.

    References
    ----------
    `skimage.segmentation.find_boundaries`; D. Martin, C. Fowlkes and J. Malik, "Learning to detect
    natural image boundaries using local brightness, color, and texture cues", IEEE TPAMI 26 (2004).

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 1, 2, 2, 2]]), np.array([[1, 1, 2, 2, 2, 2]])
    >>> [float(x) for x in bv.boundary_scores(truth, test)]
    [0.5, 0.5]
    >>> [float(x) for x in bv.boundary_scores(truth, test, tolerance=1)]
    [1.0, 1.0]
    """
    name = "boundary_scores"
    truth, test, ignored = _two(truth, test, ignore_labels, name)
    if not par.is_number(tolerance) or not 0 <= tolerance < math.inf:
        raise ValueError(f"{name}: tolerance={tolerance!r}: give a number from 0 on")
    found = [_boundaries(v) for v in (truth, test)]
    near = found
    if tolerance > LARGEST_BALL:
        reach = min(float(tolerance), float(sum(truth.shape)))
        apart = [distance_transform_edt(~b, squared=True) for b in found]
        near = [d <= reach**2 * (1 + 1e-12) for d in apart]  # as `ball` rounds
    elif tolerance >= 1:
        near = [binary_dilation(b, ball(tolerance, len(b.space.axes))) for b in found]
    counted = None
    largest = 1 if truth.dtype.kind == "b" else np.iinfo(truth.dtype).max
    for label in ignored:
        if label <= largest:
            other = truth != truth.dtype.type(label)
            counted = other if counted is None else counted & other
    if counted is not None:
        found = [b & counted for b in found]
    a, b = found
    return (
        count_nonzero(b & near[0]) / count_nonzero(b),
        count_nonzero(a & near[1]) / count_nonzero(a),
    )


def _boundaries(labels: Volume) -> Volume:
    """Whether a voxel has one of another label across a face."""
    if labels.dtype.kind == "b":
        labels = labels.astype(np.uint8)
    around = cross(1, len(labels.space.axes))
    return grey_dilation(labels, footprint=around) != grey_erosion(labels, footprint=around)


@documented
def segment_iou(truth: Volume, test: Volume, *, ignore_labels: Iterable[int] = (0,)) -> Table:
    """Find for each segment of one volume the segment of another that it overlaps best.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels, of bool or integers from 0 on, of one shape.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` whose voxels do not count. The background of ``test``, 0, is nobody's
        best.

    Returns
    -------
    Table
        A lazy table with a row for each label of ``truth``: ``label``, ``num_pixels``, the
        ``best_label`` of ``test`` and its ``best_num_pixels``, their ``intersection`` in voxels,
        and ``iou``, intersection over union. The smallest of equally good labels is taken;
        without any it is 0, and so is the rest.

    Raises
    ------
    ValueError
        If shapes differ; when it is computed, if a label is negative, or the pairs of labels take
        more memory than is left.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or of another dtype.

    See Also
    --------
    contingency : what it is computed of.

    Notes
    -----
    One sweep. Ratios are compared as fractions of integers.

    References
    ----------
    `skimage.metrics.contingency_table`, whose rows it chooses from.

    Examples
    --------
    >>> truth, test = np.array([[1, 1, 2, 2]]), np.array([[7, 7, 7, 9]])
    >>> table = bv.segment_iou(truth, test).to_pyarrow()
    >>> table["best_label"].to_pylist(), table["iou"].to_pylist()
    ([7, 9], [0.6666666666666666, 0.5])
    """
    name = "segment_iou"
    table = _contingency(truth, test, ignore_labels, name)
    return Table(then(BestOverlap(name, _buckets(table)), [table], name))
