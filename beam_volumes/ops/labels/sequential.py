"""Consecutive labels, and the labels of two segmentations combined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from beam_volumes.across.rounds.ranks import Ranks
from beam_volumes.across.rounds.sizes import ByLabel, BySize
from beam_volumes.graph.nodes import Barrier
from beam_volumes.graph.table import Table
from beam_volumes.graph.traversal import voxels_per_part
from beam_volumes.graph.volume import Volume, one_channel
from beam_volumes.ops.labels.relabel import by_table
from beam_volumes.ops.labels.scores import two_segmentations
from beam_volumes.ops.labels.surveys.chain_survey import then
from beam_volumes.ops.labels.surveys.mappings import check_labels
from beam_volumes.ops.labels.surveys.overlap_surveys import ContingencySurvey
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where


@documented
def relabel_sequential(
    labels: Volume,
    offset: int = 1,
    *,
    by: str = "label",
    min_size: int | str = 0,
    dtype: DTypeLike | None = None,
) -> tuple[Volume, Table, Table]:
    """Renumber labels without gaps, in order: 1, 2, 3, ...

    Use it after labels have been removed or merged, or to sort labels by their size.

    Parameters
    ----------
    %(labels)s
    offset : int, default: 1
        The smallest new label, above 0.
    by : {"label", "size"}, default: "label"
        The order of new labels. ``"label"`` keeps the order, and ``"size"`` begins with the label
        that has the most voxels. Labels of the same size keep their order.
    min_size : int or str, default: 0
        Labels with fewer voxels become 0. A number of voxels, or a volume such as
        ``"0.001 um^3"``, which needs a voxel size.
    dtype : dtype, optional
        The dtype of the result. By default the dtype of ``labels``, or a wider one if ``offset`` and
        the largest possible number of labels need it; uint8 for bool.

    Returns
    -------
    relabeled : Volume
        The new labels; 0 stays 0.
    forward : Table
        A lazy table with columns ``label``, ``new_label``, sorted by the first. It has no row for
        labels that became 0.
    inverse : Table
        The same rows with columns ``new_label``, ``label``, so ``inverse.at(new, "label")`` looks up
        old labels.

    Raises
    ------
    ValueError
        If ``offset`` is below 1, or ``by`` or ``min_size`` is invalid. On computation, if a label
        is negative, a new label does not fit ``dtype``, or the labels need more memory than is
        available.
    TypeError
        If ``labels`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    relabel : replaces labels by given values.
    remove_small_objects, keep_largest : select labels by size without new numbers.
    join_segmentations : combines the labels of two volumes.

    Notes
    -----
    Two sweeps: the first collects the labels, and the second writes the result. Memory grows with
    the labels of one slab, about 24 bytes each. While they are merged, memory is several times as
    large.

    References
    ----------
    `skimage.segmentation.relabel_sequential`, which returns maps as arrays. ``by="size"`` is
    SimpleITK's ``RelabelComponent``.

    Examples
    --------
    >>> labels = bv.open(np.array([[0, 7, 7, 2, 9]], "u1"))
    >>> relabeled, forward, inverse = bv.relabel_sequential(labels)
    >>> np.asarray(relabeled)
    array([[0, 2, 2, 1, 3]], dtype=uint8)
    >>> forward.at([7, 9], "new_label"), inverse.at([1], "label")
    (array([2, 3], dtype=uint64), array([2], dtype=uint64))

    Begin with the largest label, and drop the labels of fewer than two voxels:

    >>> np.asarray(bv.relabel_sequential(np.array([[3, 5, 5, 5, 8, 8]]), by="size", min_size=2)[0])
    array([[0, 1, 1, 1, 2, 2]])
    """
    name = "relabel_sequential"
    labels = one_channel(labels)
    check_labels(labels.dtype, name)
    if by not in ("label", "size"):
        raise ValueError(f'{name}: by={by!r} is not available; use "label" or "size"')
    size = par.extent_in_voxels(labels, min_size, "min_size")
    if not (par.is_number(size) and 0 <= size < 2**63):
        raise ValueError(f"{name}: min_size={min_size!r} is not a number of voxels from 0 on")
    first = par.whole_number(offset, "offset", name)
    to = np.dtype(dtype if dtype is not None else labels.dtype)
    if dtype is None:
        to = np.dtype(np.uint8) if to.kind == "b" else to
        limit = int(np.iinfo(to).max)
        last = first - 1 + min(limit, math.prod(labels.shape))
        to = to if last <= limit else np.min_scalar_type(min(last, 2**64 - 1))
    if to.kind not in "ui":
        raise TypeError(f"{name}: dtype={dtype!r}; new labels must be integers")
    if first > np.iinfo(to).max:
        raise ValueError(f"{name}: offset={offset!r} does not fit {to}: give a wider dtype=")
    per_label = voxels_per_part(labels.node)
    # Of labels with themselves: each has one row.
    survey = ContingencySurvey(name, (0,), voxels_per_label=per_label)
    each, column = Table(Barrier.of(survey, (labels.node, labels.node))), "label_a"
    voxels, is_by_size, minimum = math.prod(labels.shape), by == "size", math.ceil(size)
    if is_by_size or minimum > 1:
        order = BySize(name, voxels, minimum, is_by_size)
        each, column = Table(then(order, [each], name)), "label"
    ranks, inverse = (
        Table(then(Ranks(name, column, first, is_inverse), [each], name))
        for is_inverse in (False, True)
    )
    forward = Table(then(ByLabel(name, voxels), [ranks], name)) if is_by_size else ranks
    missing = 0 if minimum > 1 else "error"
    new = by_table(labels, ranks, ("label", "new_label"), missing=missing, dtype=to)
    return new, forward, inverse


@documented
def join_segmentations(s1: Volume, s2: Volume, *, dtype: DTypeLike | None = None) -> Volume:
    """Intersect the segments of two label volumes.

    Two voxels have the same label in the result if they have the same label in both volumes.

    Parameters
    ----------
    s1, s2 : Volume or numpy.ndarray
        Labels of the same shape, bool or integers from 0.
    dtype : dtype, optional
        The dtype of the result: uint32 by default, uint64 for volumes of 2**32 or more voxels.

    Returns
    -------
    Volume
        Labels 1, 2, ..., in the order of the labels of ``s1``, then of ``s2``. Voxels that are 0 in
        both volumes are 0.

    Raises
    ------
    ValueError
        If shapes differ. On computation, if a label is negative, a new label does not fit
        ``dtype``, or the labels need more memory than is available.
    TypeError
        If ``s1`` or ``s2`` is neither a volume nor an array, or has an unsupported dtype.

    See Also
    --------
    contingency : ``contingency(joined, s1)`` lists the label in ``s1`` of each joined label.

    Notes
    -----
    Two sweeps, or four for labels of 64 bits, which are renumbered first.

    References
    ----------
    `skimage.segmentation.join_segmentations`.

    Examples
    --------
    >>> a, b = np.array([[0, 0, 1, 1]], "u1"), np.array([[0, 5, 5, 8]], "u1")
    >>> np.asarray(bv.join_segmentations(a, b))
    array([[0, 1, 2, 3]], dtype=uint32)
    """
    name = "join_segmentations"
    a, b, _ = two_segmentations(s1, s2, (), name)
    to = np.dtype(np.uint64 if math.prod(a.shape) >= 1 << 32 else np.uint32)
    a, b = (_in_32_bits(v) for v in (a, b))
    return relabel_sequential(_pairs(a, b), dtype=to if dtype is None else dtype)[0]


def _in_32_bits(labels: Volume) -> Volume:
    if labels.dtype.itemsize < 8:
        return labels
    return relabel_sequential(labels, dtype=np.uint32)[0]


def _pairs(a: Volume, b: Volume) -> Volume:
    """Return a label for each pair of labels, in their order; -1 for negative ones."""
    signed = a.dtype.kind == "i" or b.dtype.kind == "i"
    of: Any = np.int64 if signed else np.uint64
    bits = 8 * b.dtype.itemsize - (b.dtype.kind == "i")
    both = a.astype(of) * of(1 << bits) + b.astype(of)
    negative = [v < 0 for v in (a, b) if v.dtype.kind == "i"]
    for some in negative:
        both = where(some, of(-1), both)
    return both
