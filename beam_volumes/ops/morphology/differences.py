"""What dilations and erosions leave between them, named as in scipy.ndimage; and hit-or-miss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from beam_volumes.graph.volume import Volume, apply_ufunc, as_volume
from beam_volumes.ops import parameters as par
from beam_volumes.ops.morphology.basic import (
    binary_erosion,
    grey_closing,
    grey_dilation,
    grey_erosion,
    grey_opening,
)
from beam_volumes.ops.signatures import parameters_of


@parameters_of(grey_erosion)
def white_tophat(volume: Volume, *element: Any, **options: Any) -> Volume:
    """A volume without its opening: what is brighter and smaller than the structuring element.

    Parameters as of `grey_erosion`; equal to `scipy.ndimage.white_tophat`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.white_tophat(bv.open(np.array([[1, 9, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """
    volume = as_volume(volume)
    return _minus(volume, grey_opening(volume, *element, **options))


@parameters_of(grey_erosion)
def black_tophat(volume: Volume, *element: Any, **options: Any) -> Volume:
    """The closing without the volume: what is darker and smaller than the structuring element.

    Parameters as of `grey_erosion`; equal to `scipy.ndimage.black_tophat`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.black_tophat(bv.open(np.array([[9, 1, 9, 5, 5, 5]])), (1, 3)))
    array([[0, 8, 0, 0, 0, 0]])
    """
    volume = as_volume(volume)
    return _minus(grey_closing(volume, *element, **options), volume)


@parameters_of(grey_erosion)
def morphological_gradient(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Dilation less erosion; equal to `scipy.ndimage.morphological_gradient`.

    Parameters as of `grey_erosion`. As in numpy, what does not fit an integer dtype wraps around.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.morphological_gradient(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[0, 4, 4, 0, 0]])
    """
    dilated = grey_dilation(volume, *element, **options)
    return _minus(dilated, grey_erosion(volume, *element, **options))


@parameters_of(grey_erosion)
def morphological_laplace(volume: Volume, *element: Any, **options: Any) -> Volume:
    """Dilation plus erosion less twice the volume; equal to `scipy.ndimage.morphological_laplace`.

    Parameters as of `grey_erosion`. As in numpy, what does not fit an integer dtype wraps around: cast
    to a wider one first.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> np.asarray(bv.morphological_laplace(bv.open(np.array([[1, 1, 5, 5, 5]])), (1, 3)))
    array([[ 0,  4, -4,  0,  0]])
    """
    volume = as_volume(volume)
    dilated = grey_dilation(volume, *element, **options)
    eroded = grey_erosion(volume, *element, **options)
    if volume.dtype == bool:
        raise TypeError("morphological_laplace of bool is not a number: cast with astype first")
    both = apply_ufunc("add", dilated, eroded)
    return apply_ufunc("subtract", apply_ufunc("subtract", both, volume), volume)


def _minus(first: Volume, second: Volume) -> Volume:
    # Of masks the difference is where they differ, as in scipy.
    name = "bitwise_xor" if first.dtype == bool else "subtract"
    return apply_ufunc(name, first, second)


def binary_hit_or_miss(
    volume: Volume,
    structure1: Any = None,
    structure2: Any = None,
    origin1: int | Sequence[int] = 0,
    origin2: int | Sequence[int] | None = None,
    *,
    axes: int | Sequence[int] | None = None,
) -> Volume:
    """Where one pattern fits the foreground and another the background.

    Parameters
    ----------
    volume : Volume
    structure1 : array_like of bool, optional
        What must be foreground; the cross of radius 1 by default.
    structure2 : array_like of bool, optional
        What must be background; what ``structure1`` leaves out by default.
    origin1, origin2 : int or sequence of int
        Shifts of the patterns; ``origin2`` is ``origin1`` by default.
    axes : int or sequence of int, optional
        Axes to work along; all by default.

    Returns
    -------
    Volume
        Of bool; equal to `scipy.ndimage.binary_hit_or_miss`.

    Examples
    --------
    >>> import numpy as np
    >>> import beam_volumes as bv
    >>> row = bv.open(np.array([[1, 0, 1, 1, 0]]))
    >>> np.asarray(bv.binary_hit_or_miss(row, [[0, 1, 1]])).astype(int)
    array([[0, 0, 1, 0, 0]])
    """
    volume = as_volume(volume)
    name = "binary_hit_or_miss"
    if structure1 is None:
        chosen = par.axes_of(volume, axes, name)
        structure1 = scipy.ndimage.generate_binary_structure(len(chosen), 1)
    hit = np.asarray(structure1).astype(bool)
    miss = ~hit if structure2 is None else np.asarray(structure2).astype(bool)
    origin2 = origin1 if origin2 is None else origin2
    there = volume if volume.dtype == bool else volume != 0
    fits = binary_erosion(there, hit, origin=origin1, axes=axes)
    if not miss.any():
        return fits
    # Outside of the volume is background: what is missed there fits.
    clear = binary_erosion(~there, miss, border_value=1, origin=origin2, axes=axes)
    return apply_ufunc("logical_and", fits, clear)
