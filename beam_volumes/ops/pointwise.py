"""Voxelwise functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.graph.arithmetic import (
    apply_ufunc,
    elementwise_volume,
    with_arrays_opened,
)
from beam_volumes.graph.scalar import Scalar
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.ops.parameters.docs import documented, documented_like


@documented
def where(condition: Volume, x: Any, y: Any) -> Volume:
    """Select voxels from ``x`` where a condition is true, and from ``y`` elsewhere.

    Parameters
    ----------
    condition : Volume or numpy.ndarray
        The condition; nonzero voxels are true.
    x : Volume, numpy.ndarray, Scalar or number
        Values where the condition is true. Shapes are broadcast as in numpy.
    y : Volume, numpy.ndarray, Scalar or number
        Values where the condition is false.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes ``x`` and ``y``.

    Raises
    ------
    ValueError
        If shapes or axes differ, or a number is out of bounds for the dtype of the result.
    TypeError
        If ``condition`` is neither a volume nor an array, or ``x`` or ``y`` has an unsupported
        type.

    Notes
    -----
    %(pointwise)s

    References
    ----------
    `numpy.where`.

    Examples
    --------
    >>> v = bv.open(np.array([[1, 5, 3]]))
    >>> np.asarray(bv.where(v > 2, v, 0))
    array([[0, 5, 3]])
    """
    condition, *items = with_arrays_opened((condition, x, y))
    # numpy promotes the two branches like the operands of a sum.
    stand_ins = [
        np.zeros(1, i.dtype)
        if isinstance(i, Volume)
        else np.ones((), i.dtype)[()]
        if isinstance(i, Scalar)
        else i
        for i in items
    ]
    for i, s in zip(items, stand_ins, strict=True):
        if not isinstance(s, np.ndarray | np.generic | bool | int | float):
            raise TypeError(f"where: cannot choose values from {type(i).__name__} {i!r}")
    dtype = np.result_type(*stand_ins)
    for i in items:
        if (
            type(i) is int
            and dtype.kind in "iu"
            and not np.iinfo(dtype).min <= i <= np.iinfo(dtype).max
        ):
            raise ValueError(
                f"where: {i} is out of bounds for {dtype}; cast the volume with astype first"
            )
    return elementwise_volume("where", "where", dtype, [as_volume(condition), *items])


@documented
def clip(volume: Volume, min: Any = None, max: Any = None) -> Volume:
    """Limit the values of voxels to a range.

    Parameters
    ----------
    %(volume)s
    min : number, Scalar, Volume or numpy.ndarray, optional
        The lower limit; lower voxels are set to this value.
    max : number, Scalar, Volume or numpy.ndarray, optional
        The upper limit; higher voxels are set to this value.

    Returns
    -------
    Volume
        A volume of the dtype to which numpy promotes the volume and the limits.

    Raises
    ------
    ValueError
        If the shape or axes of a limit do not match the volume.
    TypeError
        If ``volume`` is neither a volume nor an array.

    See Also
    --------
    rescale_intensity : clips to a range and stretches it.

    Notes
    -----
    %(pointwise)s

    References
    ----------
    `numpy.clip`.

    Examples
    --------
    >>> np.asarray(bv.clip(bv.open(np.array([[1, 5, 3]])), 2, 4))
    array([[2, 4, 3]])
    """
    return as_volume(volume).clip(min, max)


@documented
def abs(volume: Volume | Scalar) -> Any:
    """Compute absolute values.

    Parameters
    ----------
    %(volume_or_number)s

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype.

    Raises
    ------
    TypeError
        If the input is not a volume, lazy number, array or number.

    Notes
    -----
    %(pointwise)s

    References
    ----------
    `numpy.absolute`.

    Examples
    --------
    >>> np.asarray(bv.abs(bv.open(np.array([[-1.5, 2.0]]))))
    array([[1.5, 2. ]])
    """
    return apply_ufunc("absolute", volume)


@documented_like(abs)
def sqrt(volume: Volume | Scalar) -> Any:
    """Compute square roots, correctly rounded.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers.

    Notes
    -----
    %(pointwise)s

    References
    ----------
    `numpy.sqrt`.

    Examples
    --------
    >>> np.asarray(bv.sqrt(bv.open(np.array([[4.0, 9.0]]))))
    array([[2., 3.]])
    """
    return apply_ufunc("sqrt", volume)


@documented_like(abs)
def exp(volume: Volume | Scalar) -> Any:
    """Compute exponentials, with the same bits on every processor.

    Notes
    -----
    %(pointwise)s

    numpy's results may differ in the last bit, because they depend on the processor.

    References
    ----------
    `numpy.exp`.

    Examples
    --------
    >>> np.asarray(bv.exp(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 2.7183]])
    """
    return apply_ufunc("exp", volume)


@documented_like(abs)
def log(volume: Volume | Scalar) -> Any:
    """Compute natural logarithms, with the same bits on every processor.

    Returns
    -------
    Volume or Scalar
        A result of the same kind, with numpy's dtype; NaN for negative numbers, -inf for 0.

    Notes
    -----
    %(pointwise)s

    numpy's results may differ in the last bit, because they depend on the processor.

    References
    ----------
    `numpy.log`.

    Examples
    --------
    >>> np.asarray(bv.log(bv.open(np.array([[1.0, 10.0]])))).round(4)
    array([[0.    , 2.3026]])
    """
    return apply_ufunc("log", volume)
