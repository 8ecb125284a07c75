"""Logarithms, trigonometric and hyperbolic functions and powers, with the same bits on every machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from beam_volumes.graph.arithmetic import apply_ufunc
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.parameters.docs import documented, documented_as


def _elementary(
    name: str, summary: str, example: str, exceptions: str = ""
) -> Callable[[Volume | Scalar], Any]:
    """Make the function for a ufunc; ``example`` is an input and its result for the docstring."""
    given, _, result = example.partition(" -> ")

    @documented_as(
        name,
        f"""{summary}

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype{exceptions}.

    Raises
    ------
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    %(own_bits)s

    References
    ----------
    `numpy.{name}`; fdlibm, Sun Microsystems (1993).

    Examples
    --------
    >>> np.asarray(bv.{name}(bv.open(np.array([[{given}]])))).round(4)
    array([[{result}]])
    """,
    )
    def function(volume: Volume | Scalar) -> Any:
        return apply_ufunc(name, volume)

    return function


_OF_INFINITY = "; NaN for infinity"
log10 = _elementary(
    "log10",
    "Compute logarithms to base 10.",
    "1.0, 1000.0 -> 0., 3.",
    "; NaN for negative numbers, -inf for 0",
)
log2 = _elementary(
    "log2",
    "Compute logarithms to base 2.",
    "1.0, 8.0 -> 0., 3.",
    "; NaN for negative numbers, -inf for 0",
)
log1p = _elementary(
    "log1p",
    "Compute natural logarithms of one plus each voxel, precisely for small values.",
    "0.0, 1.0 -> 0.    , 0.6931",
    "; NaN below -1, -inf for -1",
)
expm1 = _elementary(
    "expm1",
    "Compute exponentials minus one, precisely for small values.",
    "0.0, 1.0 -> 0.    , 1.7183",
)
sin = _elementary(
    "sin", "Compute sines of angles in radians.", "0.0, 1.0 -> 0.    , 0.8415", _OF_INFINITY
)
cos = _elementary(
    "cos", "Compute cosines of angles in radians.", "0.0, 1.0 -> 1.    , 0.5403", _OF_INFINITY
)
tan = _elementary(
    "tan", "Compute tangents of angles in radians.", "0.0, 1.0 -> 0.    , 1.5574", _OF_INFINITY
)
arcsin = _elementary(
    "arcsin",
    "Compute inverse sines, from -pi/2 to pi/2.",
    "0.0, 1.0 -> 0.    , 1.5708",
    "; NaN outside of -1 to 1",
)
arccos = _elementary(
    "arccos",
    "Compute inverse cosines, from 0 to pi.",
    "0.0, 1.0 -> 1.5708, 0.    ",
    "; NaN outside of -1 to 1",
)
arctan = _elementary(
    "arctan", "Compute inverse tangents, from -pi/2 to pi/2.", "0.0, 1.0 -> 0.    , 0.7854"
)
sinh = _elementary("sinh", "Compute hyperbolic sines.", "0.0, 1.0 -> 0.    , 1.1752")
cosh = _elementary("cosh", "Compute hyperbolic cosines.", "0.0, 1.0 -> 1.    , 1.5431")
tanh = _elementary("tanh", "Compute hyperbolic tangents.", "0.0, 1.0 -> 0.    , 0.7616")


@documented
def arctan2(y: Any, x: Any) -> Any:
    """Compute the angle of a point in the plane, from -pi to pi, in the correct quadrant.

    Parameters
    ----------
    y : Volume, Scalar, numpy.ndarray or number
        The vertical coordinate. At least one of the two is a volume or a lazy number.
    x : Volume, Scalar, numpy.ndarray or number
        The horizontal coordinate, with the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        The angle in radians, with numpy's dtype.

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
        The base. At least one of the two is a volume or a lazy number.
    exponent : Volume, Scalar, numpy.ndarray or number
        The exponent, of the same shape, or a number.

    Returns
    -------
    Volume or Scalar
        A result with numpy's dtype. As in numpy, integers wrap around, and a negative base with a
        fractional exponent gives NaN.

    Raises
    ------
    ValueError
        If shapes or axes differ, or integers are raised to a negative integer.
    %(number_errors)s

    Notes
    -----
    %(pointwise)s

    Integer exponents up to 16 are computed by multiplication, and 0.5 as a square root; each step
    is rounded to the dtype of the result. Other powers are computed in float64 and rounded once,
    with an error below 1 unit in the last place.

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
