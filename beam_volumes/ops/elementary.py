"""Logarithms, trigonometric and hyperbolic functions and powers of voxels, with the same bits everywhere."""

from __future__ import annotations

from typing import Any

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.parameters.docs import documented


@documented
def log10(volume: Volume | Scalar) -> Any:
    """Take logarithms to base 10.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN for negative
        numbers, -inf for 0.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.log10`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log10(bv.open(np.array([[1.0, 1000.0]])))).round(4)
    array([[0., 3.]])
    """
    return apply_ufunc("log10", volume)


@documented
def log2(volume: Volume | Scalar) -> Any:
    """Take logarithms to base 2.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN for negative
        numbers, -inf for 0.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.log2`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log2(bv.open(np.array([[1.0, 8.0]])))).round(4)
    array([[0., 3.]])
    """
    return apply_ufunc("log2", volume)


@documented
def log1p(volume: Volume | Scalar) -> Any:
    """Take natural logarithms of one plus each voxel, exact for small ones.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN below -1, -inf for
        -1.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.log1p`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.log1p(bv.open(np.array([[0.0, 1e-9]]))))
    array([[0.00000000e+00, 9.99999999e-10]])
    """
    return apply_ufunc("log1p", volume)


@documented
def expm1(volume: Volume | Scalar) -> Any:
    """Take exponentials less one, exact for small voxels.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.expm1`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.expm1(bv.open(np.array([[0.0, 1e-9]]))))
    array([[0.e+00, 1.e-09]])
    """
    return apply_ufunc("expm1", volume)


@documented
def sin(volume: Volume | Scalar) -> Any:
    """Take sines of angles in radians.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN for what is
        infinite.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.sin`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.sin(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.8415]])
    """
    return apply_ufunc("sin", volume)


@documented
def cos(volume: Volume | Scalar) -> Any:
    """Take cosines of angles in radians.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN for what is
        infinite.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.cos`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.cos(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 0.5403]])
    """
    return apply_ufunc("cos", volume)


@documented
def tan(volume: Volume | Scalar) -> Any:
    """Take tangents of angles in radians.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN for what is
        infinite.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.tan`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.tan(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.5574]])
    """
    return apply_ufunc("tan", volume)


@documented
def arcsin(volume: Volume | Scalar) -> Any:
    """Take inverse sines, from -pi/2 to pi/2.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN beyond -1 and 1.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.arcsin`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arcsin(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.5708]])
    """
    return apply_ufunc("arcsin", volume)


@documented
def arccos(volume: Volume | Scalar) -> Any:
    """Take inverse cosines, from 0 to pi.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives; NaN beyond -1 and 1.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.arccos`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arccos(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.5708, 0.    ]])
    """
    return apply_ufunc("arccos", volume)


@documented
def arctan(volume: Volume | Scalar) -> Any:
    """Take inverse tangents, from -pi/2 to pi/2.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.arctan`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.arctan(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.7854]])
    """
    return apply_ufunc("arctan", volume)


@documented
def sinh(volume: Volume | Scalar) -> Any:
    """Take hyperbolic sines.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.sinh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.sinh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 1.1752]])
    """
    return apply_ufunc("sinh", volume)


@documented
def cosh(volume: Volume | Scalar) -> Any:
    """Take hyperbolic cosines.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.cosh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.cosh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 1.5431]])
    """
    return apply_ufunc("cosh", volume)


@documented
def tanh(volume: Volume | Scalar) -> Any:
    """Take hyperbolic tangents.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with the dtype that numpy gives.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.tanh`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.tanh(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[0.    , 0.7616]])
    """
    return apply_ufunc("tanh", volume)


@documented
def arctan2(y: Any, x: Any) -> Any:
    """Take the angle of a point in the plane, from -pi to pi, in the quadrant in which it lies.

    Parameters
    ----------
    y : Volume, Scalar, numpy.ndarray or number
        How far up. One of the two is a volume or a lazy number.
    x : Volume, Scalar, numpy.ndarray or number
        How far to the right; of the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        The angle in radians, with the dtype that numpy gives.

    Raises
    ------
    ValueError
        If shapes or axes differ.
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.arctan2`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> y = bv.open(np.array([[0.0, 1.0, -1.0]]))
    >>> np.asarray(bv.arctan2(y, -1.0)).round(4)
    array([[ 3.1416,  2.3562, -2.3562]])
    """
    return apply_ufunc("arctan2", y, x)


@documented
def power(base: Any, exponent: Any) -> Any:
    """Raise voxels to a power.

    Parameters
    ----------
    base : Volume, Scalar, numpy.ndarray or number
        The base. One of the two is a volume or a lazy number.
    exponent : Volume, Scalar, numpy.ndarray or number
        The power; of the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        A result with the dtype that numpy gives: integers wrap around, as in numpy, and a negative number
        to a power that is not whole is NaN.

    Raises
    ------
    ValueError
        If shapes or axes differ, or integers are raised to a negative integer.
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    Whole exponents to 16 that are given as a number are products, and 0.5 is a square root, each step
    rounded in the dtype of the result. The others are computed in float64 and rounded once: they differ
    from the true power by less than 1 unit in the last place.

    References
    ----------
    `numpy.power`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> v = bv.open(np.array([[1.0, 8.0]]))
    >>> np.asarray(bv.power(v, 1 / 3)).round(4)
    array([[1., 2.]])
    >>> np.asarray(2.0 ** v)
    array([[  2., 256.]])
    """
    return apply_ufunc("power", base, exponent)
