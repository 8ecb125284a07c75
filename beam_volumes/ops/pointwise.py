"""Voxel-by-voxel functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from beam_volumes.graph.volume import Scalar, Volume, apply_ufunc, as_volume, elementwise_volume


def where(condition: Volume, x: Any, y: Any) -> Volume:
    """``x`` where the condition is true, else ``y``; see `numpy.where`.

    Parameters
    ----------
    condition : Volume
    x, y : Volume, Scalar or number

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> v = bv.open(np.array([[1, 5, 3]]))
    >>> np.asarray(bv.where(v > 2, v, 0))
    array([[0, 5, 3]])
    """
    items = [as_volume(i) if isinstance(i, np.ndarray) and i.ndim else i for i in (x, y)]
    # numpy promotes the two branches as it does the operands of a sum of their dtypes.
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
            raise TypeError(f"where: cannot choose {type(i).__name__} {i!r}")
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


def clip(volume: Volume, min: Any = None, max: Any = None) -> Volume:
    """Limit the values; see `numpy.clip`.

    Parameters
    ----------
    volume : Volume
    min, max : number, Scalar or Volume, optional
        What is below ``min`` becomes it, what is above ``max`` that.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.clip(bv.open(np.array([[1, 5, 3]])), 2, 4))
    array([[2, 4, 3]])
    """
    return as_volume(volume).clip(min, max)


def abs(volume: Volume | Scalar) -> Any:
    """Absolute values; see `numpy.absolute`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.abs(bv.open(np.array([[-1.5, 2.0]]))))
    array([[1.5, 2. ]])
    """
    return apply_ufunc("absolute", volume)


def sqrt(volume: Volume | Scalar) -> Any:
    """Square roots, correctly rounded; see `numpy.sqrt`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.sqrt(bv.open(np.array([[4.0, 9.0]]))))
    array([[2., 3.]])
    """
    return apply_ufunc("sqrt", volume)


def exp(volume: Volume | Scalar) -> Any:
    """Exponentials, the same bits on every processor; see `numpy.exp`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.exp(bv.open(np.array([[0.0, 1.0]])))).round(4)
    array([[1.    , 2.7183]])
    """
    return apply_ufunc("exp", volume)


def log(volume: Volume | Scalar) -> Any:
    """Natural logarithms, the same bits on every processor; see `numpy.log`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.log(bv.open(np.array([[1.0, 10.0]])))).round(4)
    array([[0.    , 2.3026]])
    """
    return apply_ufunc("log", volume)
