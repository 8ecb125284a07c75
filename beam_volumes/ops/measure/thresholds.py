"""Thresholds of the whole volume: lazy numbers from exact counts, named as in scikit-image."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.reductions import fold, max, min
from beam_volumes.ops.measure.threshold_formulas import counts_every_value
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented, documented_as

#: Maximum classes of `threshold_multiotsu`.
_MAX_CLASSES = 256


#: The common docstring of thresholds for two classes.
_DOCSTRING = """{summary}

Parameters
----------
%(volume)s
%(nbins)s
%(where)s
%(nan)s
%(across)s

Returns
-------
%(threshold)s

Raises
------
{raises}%(reduction_errors)s

See Also
--------
{see_also}

Notes
-----
%(threshold_sweeps)s
{notes}
References
----------
{references}

Examples
--------
{examples}
"""
#: A histogram with two peaks, for examples.
_PEAKS = """\
>>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
"""


def _two_classes(
    name: str,
    summary: str,
    references: str,
    examples: str,
    see_also: str = "threshold_otsu : maximizes the variance between classes.",
    raises: str = "",
    notes: str = "",
) -> Callable[..., Scalar]:
    """Make the function for a threshold; its name selects the formula."""
    docstring = _DOCSTRING.format(
        summary=summary,
        raises=f"ValueError\n    On computation, if {raises}.\n" if raises else "",
        see_also=see_also,
        notes=f"\n{notes}\n" if notes else "",
        references=references,
        examples=examples,
    )

    @documented_as(name, docstring)
    def threshold(
        volume: Volume,
        *,
        nbins: int = 256,
        mask: Volume | None = None,
        nan: str = "raise",
        across: str | None = None,
    ) -> Scalar:
        return _threshold(name, volume, nbins, mask, nan, across)

    return threshold


threshold_otsu = _two_classes(
    "threshold_otsu",
    "Compute Otsu's threshold, which separates two classes best.",
    references="""\
`skimage.filters.threshold_otsu`; N. Otsu, "A threshold selection method from gray-level
histograms", IEEE Trans. SMC 9 (1979).""",
    examples="""\
>>> int(bv.threshold_otsu(bv.open(np.array([[1, 2, 9, 9]], "u1"))))
2""",
    see_also="""\
threshold_multiotsu : supports more than two classes.
threshold_local : computes a threshold for each voxel.""",
)


@documented
def threshold_multiotsu(
    volume: Volume,
    classes: int = 3,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Compute the thresholds that separate several classes best.

    Parameters
    ----------
    %(volume)s
    classes : int, default: 3
        Number of classes, at least 2.
    %(nbins)s
    %(where)s
    %(nan)s
    %(across)s

    Returns
    -------
    Scalar
        A lazy array of ``classes - 1`` thresholds, ascending; ``t[0]`` is a lazy number.

    Raises
    ------
    ValueError
        On computation, if there are fewer distinct values than classes.
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : separates two classes.

    Notes
    -----
    %(threshold_sweeps)s

    Integers of 16 bits are as fast as 8 bits, unlike in scikit-image, which tries all combinations.

    References
    ----------
    `skimage.filters.threshold_multiotsu`; P.-S. Liao, T.-S. Chen, P.-C. Chung, "A fast algorithm
    for multilevel thresholding", J. Information Science and Engineering 17 (2001); X. Wu, "Optimal
    quantization by matrix searching", J. Algorithms 12 (1991).

    Examples
    --------
    >>> np.asarray(bv.threshold_multiotsu(bv.open(np.array([[1, 2, 9, 9, 30]], "u1"))))
    array([2, 9])
    """
    name = "threshold_multiotsu"
    classes = par.whole_number(classes, "classes", name, minimum=2)
    if classes > _MAX_CLASSES:
        raise ValueError(f"{name}: classes={classes}: the maximum is {_MAX_CLASSES}")
    return _threshold(name, volume, nbins, mask, nan, across, (classes,), (classes - 1,))


threshold_li = _two_classes(
    "threshold_li",
    "Compute Li's threshold, which minimizes the cross entropy.",
    references="""\
`skimage.filters.threshold_li`; C. H. Li, P. K. S. Tam, "An iterative algorithm for minimum
cross entropy thresholding", Pattern Recognition Letters 19 (1998).""",
    examples=_PEAKS
    + """\
>>> round(float(bv.threshold_li(v)), 2)
4.62""",
    notes="""\
The threshold is computed from counts, for floats from ``nbins`` bins, whereas scikit-image iterates
over all voxels.""",
)
threshold_yen = _two_classes(
    "threshold_yen",
    "Compute Yen's threshold, which maximizes the correlation.",
    references="""\
`skimage.filters.threshold_yen`; J. C. Yen, F. J. Chang, S. Chang, "A new criterion for
automatic multilevel thresholding", IEEE Trans. Image Processing 4 (1995).""",
    examples=_PEAKS
    + """\
>>> int(bv.threshold_yen(v))
3""",
)
threshold_moments = _two_classes(
    "threshold_moments",
    "Compute the threshold that preserves the moments of the histogram.",
    references="""\
``MomentsThreshold`` of SimpleITK and "Moments" of Fiji; W.-H. Tsai, "Moment-preserving
thresholding: a new approach", Computer Vision, Graphics, and Image Processing 29 (1985).""",
    examples=_PEAKS
    + """\
>>> int(bv.threshold_moments(v))
5""",
    notes="""\
The volume is assumed to be a blurred volume with two values and the same first three moments. The
number of voxels below the threshold equals the number of voxels with the lower value.""",
)
threshold_triangle = _two_classes(
    "threshold_triangle",
    "Compute the triangle threshold, for histograms with one peak and a long tail.",
    references="""\
`skimage.filters.threshold_triangle`; G. W. Zack, W. E. Rogers, S. A. Latt, "Automatic
measurement of sister chromatid exchange frequency", J. Histochemistry and Cytochemistry 25
(1977).""",
    examples=_PEAKS
    + """\
>>> int(bv.threshold_triangle(v))
4""",
    see_also="threshold_otsu : is for two peaks.",
)
threshold_isodata = _two_classes(
    "threshold_isodata",
    "Compute the Ridler-Calvard threshold, which is half way between the means of both classes.",
    references="""\
`skimage.filters.threshold_isodata`; T. W. Ridler, S. Calvard, "Picture thresholding using an
iterative selection method", IEEE Trans. SMC 8 (1978).""",
    examples=_PEAKS
    + """\
>>> int(bv.threshold_isodata(v))
5""",
    raises="no value is half way between the means",
    notes="If there are several such values, the smallest is selected.",
)
threshold_minimum = _two_classes(
    "threshold_minimum",
    "Find the minimum between the two peaks of a smoothed histogram.",
    references="""\
`skimage.filters.threshold_minimum`; J. M. S. Prewitt, M. L. Mendelsohn, "The analysis of cell
images", Annals of the New York Academy of Sciences 128 (1966).""",
    examples=_PEAKS
    + """\
>>> int(bv.threshold_minimum(v))
6""",
    raises="there are not two peaks",
)


def _threshold(
    name: str,
    volume: Volume,
    nbins: int,
    mask: Volume | None,
    nan: str,
    across: str | None,
    extra: tuple[Any, ...] = (),
    shape: tuple[int, ...] = (),
) -> Scalar:
    volume = as_volume(volume)
    nbins = par.bins_of(nbins, "nbins", name)
    if counts_every_value(volume.dtype):
        folds.Fold.check(name, volume.dtype, nan)
        of_values = folds.ThresholdOfValues.of(name, volume.dtype, extra, shape)
        return fold(of_values, volume, mask, across=across)
    ends = [f(volume, mask=mask, nan=nan, across=across) for f in (min, max)]
    reduction = folds.ThresholdOfBins.of(name, volume.dtype, nbins, nan, extra, shape)
    return fold(reduction, volume, mask, *ends, across=across)
