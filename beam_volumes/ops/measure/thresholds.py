"""Thresholds of the whole volume: lazy numbers found from exact counts, named as in scikit-image."""

from __future__ import annotations

from typing import Any

from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.measure import folds
from beam_volumes.ops.measure.reductions import fold, max, min
from beam_volumes.ops.measure.threshold_formulas import counts_every_value
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented

#: Classes of `threshold_multiotsu` at most.
_MAX_CLASSES = 256


@documented
def threshold_otsu(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find Otsu's threshold, which separates two classes best.

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
    %(reduction_errors)s

    See Also
    --------
    threshold_multiotsu : for more than two classes.
    threshold_local : a threshold for each voxel.

    Notes
    -----
    %(threshold_sweeps)s

    References
    ----------
    `skimage.filters.threshold_otsu`; N. Otsu, "A threshold selection method from gray-level
    histograms", IEEE Trans. SMC 9 (1979).

    Examples
    --------
    >>> int(bv.threshold_otsu(bv.open(np.array([[1, 2, 9, 9]], "u1"))))
    2
    """
    return _threshold("threshold_otsu", volume, nbins, mask, nan, across)


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
    """Find the thresholds that separate several classes best.

    Parameters
    ----------
    %(volume)s
    classes : int, default: 3
        Number of classes, from 2 on.
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
        When it is computed, if fewer values occur than there are classes.
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : for two classes.

    Notes
    -----
    %(threshold_sweeps)s

    Integers of 16 bits are as quick as those of 8, where scikit-image tries all choices.

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
    classes = par.whole_number(classes, "classes", name, least=2)
    if classes > _MAX_CLASSES:
        raise ValueError(f"{name}: classes={classes}: there may be {_MAX_CLASSES} at most")
    return _threshold(name, volume, nbins, mask, nan, across, (classes,), (classes - 1,))


@documented
def threshold_li(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find Li's threshold, of least cross entropy.

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
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : of greatest variance between classes.

    Notes
    -----
    %(threshold_sweeps)s

    It is found from the counts: for floats from ``nbins`` bins, where scikit-image looks at every
    voxel in each iteration.

    References
    ----------
    `skimage.filters.threshold_li`; C. H. Li, P. K. S. Tam, "An iterative algorithm for minimum
    cross entropy thresholding", Pattern Recognition Letters 19 (1998).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> round(float(bv.threshold_li(v)), 2)
    4.62
    """
    return _threshold("threshold_li", volume, nbins, mask, nan, across)


@documented
def threshold_yen(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find Yen's threshold, of maximum correlation.

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
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : of greatest variance between classes.

    Notes
    -----
    %(threshold_sweeps)s

    References
    ----------
    `skimage.filters.threshold_yen`; J. C. Yen, F. J. Chang, S. Chang, "A new criterion for
    automatic multilevel thresholding", IEEE Trans. Image Processing 4 (1995).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_yen(v))
    3
    """
    return _threshold("threshold_yen", volume, nbins, mask, nan, across)


@documented
def threshold_moments(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find the threshold that keeps the moments, as if there were two values.

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
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : of greatest variance between classes.

    Notes
    -----
    %(threshold_sweeps)s

    The volume is taken for a blurred one of two values, whose first three moments are those of the
    volume. As many voxels are left below the threshold as have the lower value.

    References
    ----------
    ``MomentsThreshold`` of SimpleITK and "Moments" of Fiji; W.-H. Tsai, "Moment-preserving
    thresholding: a new approach", Computer Vision, Graphics, and Image Processing 29 (1985).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_moments(v))
    5
    """
    return _threshold("threshold_moments", volume, nbins, mask, nan, across)


@documented
def threshold_triangle(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find the threshold of the triangle method, for one peak with a long tail.

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
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : for two peaks.

    Notes
    -----
    %(threshold_sweeps)s

    References
    ----------
    `skimage.filters.threshold_triangle`; G. W. Zack, W. E. Rogers, S. A. Latt, "Automatic
    measurement of sister chromatid exchange frequency", J. Histochemistry and Cytochemistry 25
    (1977).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_triangle(v))
    4
    """
    return _threshold("threshold_triangle", volume, nbins, mask, nan, across)


@documented
def threshold_isodata(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find the Ridler-Calvard threshold, half way between the means of both classes.

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
    ValueError
        When it is computed, if no value is half way.
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : of greatest variance between classes.

    Notes
    -----
    %(threshold_sweeps)s

    If several values are half way, it is the least.

    References
    ----------
    `skimage.filters.threshold_isodata`; T. W. Ridler, S. Calvard, "Picture thresholding using an
    iterative selection method", IEEE Trans. SMC 8 (1978).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_isodata(v))
    5
    """
    return _threshold("threshold_isodata", volume, nbins, mask, nan, across)


@documented
def threshold_minimum(
    volume: Volume,
    *,
    nbins: int = 256,
    mask: Volume | None = None,
    nan: str = "raise",
    across: str | None = None,
) -> Scalar:
    """Find the least count between the two peaks of a smoothed histogram.

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
    ValueError
        When it is computed, if there are not two peaks.
    %(reduction_errors)s

    See Also
    --------
    threshold_otsu : of greatest variance between classes.

    Notes
    -----
    %(threshold_sweeps)s

    References
    ----------
    `skimage.filters.threshold_minimum`; J. M. S. Prewitt, M. L. Mendelsohn, "The analysis of cell
    images", Annals of the New York Academy of Sciences 128 (1966).

    Examples
    --------
    >>> v = bv.open(np.repeat(np.arange(12, dtype="u1"), [1, 8, 20, 9, 3, 1, 1, 2, 5, 9, 4, 1])[None])
    >>> int(bv.threshold_minimum(v))
    6
    """
    return _threshold("threshold_minimum", volume, nbins, mask, nan, across)


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
