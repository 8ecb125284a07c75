"""Agreement of two segmentations: contingency tables and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.across.rounds.lookup import BUCKET, VOXELS
from beam_volumes.across.rounds.scores import Agreement, BestOverlap
from beam_volumes.graph.nodes import Barrier, BarrierValue, Formula, FormulaValue
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.spaces import shared_space
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_part
from beam_volumes.graph.volume import Volume, as_volume, one_channel
from beam_volumes.ops.labels.boundaries import find_boundaries
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.surveys.overlap_surveys import ContingencySurvey
from beam_volumes.ops.measure.reductions import max as max_of
from beam_volumes.ops.measure.reductions import sum as sum_of
from beam_volumes.ops.measure.statistics import count_nonzero, pair
from beam_volumes.ops.morphology.basic import binary_dilation
from beam_volumes.ops.morphology.distance import distance_transform_edt
from beam_volumes.ops.morphology.footprints import ball
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where

#: The largest ball for dilating boundaries; beyond, distances are cheaper.
LARGEST_BALL = 16


@documented
def contingency(a: Volume, b: Volume, *, ignore_labels: Iterable[int] = ()) -> Table:
    """Count the voxels shared by each pair of labels of two volumes.

    Parameters
    ----------
    a, b : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    ignore_labels : iterable of int, default: ()
        Labels of ``a`` to ignore, together with their voxels.

    Returns
    -------
    Table
        A lazy table with columns ``label_a``, ``label_b`` (uint64) and ``count`` (int64), and a row
        for each pair that shares voxels, sorted by label.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs need more memory than
        is available.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information : a score from this table.
    adapted_rand_error : another score.
    segment_iou : finds the best overlap for each label.

    Notes
    -----
    One sweep. Memory grows with the pairs of one slab, about 24 bytes each. While they are merged,
    memory is several times as large. No worker holds the whole table.

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
    a, b, ignored = two_segmentations(a, b, ignore_labels, name)
    each = voxels_per_part(a.node, b.node)
    survey = ContingencySurvey(name, ignored, voxels_per_label=each)
    return Table(Barrier.of(survey, (a.node, b.node)))


def two_segmentations(
    a: Any, b: Any, ignore_labels: Iterable[int], name: str
) -> tuple[Volume, Volume, tuple[int, ...]]:
    """Check two label volumes of one shape; also return the ignored labels, in order."""
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
            raise ValueError(
                f"{name}: ignore_labels has {label!r}; labels must be integers of at least 0"
            )
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
    """Compare two segmentations by their conditional entropies.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` to ignore, together with their voxels, such as ``[0]``.

    Returns
    -------
    split, merge : Scalar
        Lazy numbers in bits. The first is the entropy of ``test`` given ``truth``, which grows with
        false splits. The second is the entropy of ``truth`` given ``test``, which grows with false
        merges. NaN if no voxel counts.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs of labels need more
        memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    adapted_rand_error : another score, from the same sweep.
    contingency : the underlying table.

    Notes
    -----
    One sweep, which all scores that are computed together share. Counts of voxels are exact, and
    each score is rounded once, so its bits are independent of slabs.

    References
    ----------
    `skimage.metrics.variation_of_information`, which returns both as an array.

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
    """Compare two segmentations by the pairs of voxels that share a segment.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` to ignore, together with their voxels.
    alpha : float, default: 0.5
        The weight of precision, from 0 to 1.

    Returns
    -------
    error, precision, recall : Scalar
        Lazy numbers: the error is 1 minus the F-score of precision and recall. NaN if no pair of
        voxels is included.

    Raises
    ------
    ValueError
        If shapes differ or ``alpha`` is out of range. On computation, if a label is negative, or
        the pairs of labels need more memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information : another score.
    contingency : the underlying table.

    Notes
    -----
    One sweep. Counts of pairs of voxels are exact integers of any size. Precision and recall are
    defined as in scikit-image, which divides by the pairs of ``truth`` for precision.

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
    """Compare two segmentations by the voxels at the boundaries of segments.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0. 0 is an ordinary label.
    tolerance : float, default: 0
        The largest distance, in voxels, at which boundaries match.
    ignore_labels : iterable of int, default: ()
        Labels of ``truth`` to ignore, together with their voxels.

    Returns
    -------
    precision, recall : Scalar
        Lazy numbers. Precision is the fraction of boundary voxels of ``test`` near a boundary of
        ``truth``. Recall is the fraction of boundary voxels of ``truth`` near a boundary of
        ``test``. NaN if there are no boundary voxels.

    Raises
    ------
    ValueError
        If shapes differ, or ``tolerance`` is negative or not a number.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    variation_of_information, adapted_rand_error : compare segments.

    Notes
    -----
    A boundary voxel shares a face with a voxel of a different label, as in scikit-image with
    ``connectivity=1`` and ``mode="thick"``. One sweep, or two with a ``tolerance`` above 16. Counts
    of voxels are exact, and each score is rounded once.

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
    truth, test, ignored = two_segmentations(truth, test, ignore_labels, name)
    if not par.is_number(tolerance) or not 0 <= tolerance < math.inf:
        raise ValueError(f"{name}: tolerance={tolerance!r}: give a number of at least 0")
    found = [find_boundaries(v) for v in (truth, test)]
    near = found
    if tolerance > LARGEST_BALL:
        reach = min(float(tolerance), float(sum(truth.shape)))
        distances = [distance_transform_edt(~b, squared=True) for b in found]
        near = [d <= reach**2 * (1 + 1e-12) for d in distances]  # rounded as in `ball`
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


@documented
def segment_iou(truth: Volume, test: Volume, *, ignore_labels: Iterable[int] = (0,)) -> Table:
    """Find the best overlapping segment of a second volume for each segment.

    Parameters
    ----------
    truth, test : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    ignore_labels : iterable of int, default: (0,)
        Labels of ``truth`` to ignore, together with their voxels. The background of ``test``, 0, is
        never the best.

    Returns
    -------
    Table
        A lazy table with a row for each label of ``truth``. ``label`` and ``num_pixels`` describe
        this label, and ``best_label`` and ``best_num_pixels`` the best label of ``test``.
        ``intersection`` is the number of voxels that both share, ``iou`` is the intersection over
        union, and ``dice`` is twice the intersection over the sum of both sizes. The smallest of
        equally good labels is selected; without overlap, all columns of the best label are 0.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, or the pairs of labels need more
        memory than is available.
    TypeError
        If ``truth`` or ``test`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    contingency : the underlying table.

    Notes
    -----
    One sweep. Ratios are compared as fractions of integers.

    References
    ----------
    `skimage.metrics.contingency_table`, from which it selects rows.

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


@documented
def hausdorff_distance(
    a: Volume,
    b: Volume,
    *,
    method: str = "standard",
    sampling: float | Sequence[float] | str | None = None,
) -> Scalar:
    """Compute the Hausdorff distance of two masks: how far a voxel of one is from the other at most.

    Parameters
    ----------
    a, b : Volume or numpy.ndarray
        Masks of the same shape and voxel size. Nonzero voxels are foreground, also NaN.
    method : {"standard", "modified"}, default: "standard"
        The largest distance of a voxel of one mask to the other mask, or the larger one of the two mean
        distances, which depends less on outliers.
    %(sampling)s

    Returns
    -------
    Scalar
        The lazy float64 distance, with ``sampling="voxel_size"`` in the unit of ``a``, or of ``b`` if
        ``a`` has no voxel size. It is 0 if both masks are empty, and infinite if one is.

    Raises
    ------
    ValueError
        If shapes, axes or voxel sizes differ, the volumes have no voxels or several channels, or a
        parameter is out of range.
    TypeError
        If ``a`` or ``b`` is neither a volume nor an array.

    See Also
    --------
    distance_transform_edt : the distances.
    boundary_scores : agreement of boundaries within a tolerance.

    Notes
    -----
    The sweeps of two distance transforms, with float64 distances.

    References
    ----------
    `skimage.metrics.hausdorff_distance`. Dubuisson, M.-P., & Jain, A. K. (1994). A modified Hausdorff
    distance for object matching. ICPR, 566-568.

    Examples
    --------
    >>> a = np.array([[1, 0, 0, 0, 0]], "u1")
    >>> float(bv.hausdorff_distance(a, a[:, ::-1]))
    4.0
    """
    name = "hausdorff_distance"
    if method not in ("standard", "modified"):
        raise ValueError(f'{name}: method={method!r}; use "standard" or "modified"')
    x, y, _, _ = pair(name, a, b, None, "raise")
    if not x.size:
        raise ValueError(f"{name}: the volumes of shape {x.shape} have no voxels")
    known = y if x.space.voxel_size is None else x  # one unit for the distances of both directions
    masks = [one_channel(v).with_space(one_channel(known)) != 0 for v in (x, y)]
    numbers: list[Any] = []
    for of, to in (masks, masks[::-1]):
        # An empty mask is infinitely far away, and sums are of finite numbers.
        squares = distance_transform_edt(~to, sampling, squared=True)
        distances = where(of, np.sqrt(np.minimum(squares, np.finfo("f8").max)), 0.0)
        numbers += [
            max_of(distances) if method == "standard" else sum_of(distances),
            count_nonzero(of),
        ]
    formula = Hausdorff(name, method == "modified")
    return Scalar(FormulaValue.of(formula, tuple(n.value for n in numbers), np.dtype(np.float64)))


@dataclass(frozen=True, eq=False)
class Hausdorff(Formula):
    """The larger distance of two directions, from largest or added distances and numbers of voxels."""

    means: bool

    def evaluate(self, *arguments: Any) -> Any:
        first, voxels_of_a, second, voxels_of_b = map(float, arguments)
        if not (voxels_of_a and voxels_of_b):
            return np.float64(np.inf if voxels_of_a or voxels_of_b else 0.0)
        if self.means:
            first, second = first / voxels_of_a, second / voxels_of_b
        return np.float64(max(first, second))
