"""User functions of the voxels under a footprint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from beam_volumes.graph.elementwise import checked_dtype
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.filters import generic as kernels
from beam_volumes.ops.filters import stages
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.parameters.building import kernel_input, stage_in, with_exact_constant
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.parameters.neighbourhood import Footprint
from beam_volumes.sweep.stage import identity


@documented
def generic_filter(
    volume: Volume,
    function: Callable[..., Any],
    size: int | Sequence[int] | None = None,
    footprint: ArrayLike | None = None,
    *,
    mode: str | Sequence[str] = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    axes: int | Sequence[int] | None = None,
    extra_arguments: Sequence[Any] = (),
    dtype: DTypeLike | None = None,
    name: str | None = None,
    version: str | int | None = None,
) -> Volume:
    """Apply your own function to the voxels around each voxel.

    Parameters
    ----------
    %(volume)s
    function : callable
        A function that returns a number for the voxels under the footprint. The function receives
        these voxels as a 1-D float64 array in raster order. Numba compiles the function, so it can
        be called millions of times per second. The function can be plain Python with the numpy
        functions that numba supports, a function decorated with ``numba.njit`` (its options are
        ignored), or a function such as ``np.median``. The function must return the same number for
        the same voxels, and may modify the array.
    %(size)s
    %(footprint)s
    %(mode)s
    %(cval)s
    %(origin)s
    %(axes)s
    extra_arguments : sequence of numbers or arrays, default: ()
        Additional arguments for the function.
    %(dtype)s
    %(name_and_version)s

    Returns
    -------
    %(float_result)s

    Raises
    ------
    %(errors)s
        If numba cannot compile the function; the message contains the reason.

    See Also
    --------
    map_overlap : applies any function to blocks, without compilation.

    Notes
    -----
    Computation is in float64. The function determines the result for NaN. The bits of the result do
    not depend on slabs, but math functions such as ``sin`` depend on the platform. scipy's
    ``generic_filter1d``, which passes whole lines to its function, is not available.

    %(halo)s

    References
    ----------
    `scipy.ndimage.generic_filter`.

    Examples
    --------
    >>> def span(values):
    ...     return values.max() - values.min()
    >>> v = bv.open(np.array([[5, 1, 4, 9, 8]], "u1"))
    >>> np.asarray(bv.generic_filter(v, span, (1, 3), name="span", version=1))
    array([[4., 4., 8., 5., 1.]], dtype=float32)
    """
    volume = as_volume(volume)
    filter_name = "generic_filter"
    if not callable(function):
        raise TypeError(f"{filter_name}: function={function!r} is not callable")
    around = Footprint.of(volume, filter_name, size, footprint, origin, axes, mode, cval)
    called = str(getattr(function, "__name__", function))
    extra = _plain(extra_arguments, filter_name)
    if reason := kernels.reason_against(function, extra):
        raise TypeError(
            f"{filter_name}: numba cannot compile the function {called!r}: {reason}; change it, "
            "or use map_overlap, which accepts any function of blocks"
        )
    source = with_exact_constant(kernel_input(volume), around.padding, np.dtype(np.float64))
    wanted = accumulator(volume.dtype) if dtype is None else checked_dtype(dtype)
    stage = stages.GenericFootprint(
        name or called,
        *around.fields(wanted, around.padding)[1:],
        around.offsets,
        extra,
        function,
        identity(name, version),
    )
    return stage_in(wanted, source, stage)


def _plain(arguments: Any, name: str) -> tuple[Any, ...]:
    """Convert further arguments to numbers and arrays."""
    if isinstance(arguments, str) or not isinstance(arguments, Sequence):
        raise TypeError(f"{name}: extra_arguments={arguments!r} is not a sequence; write (value,)")
    for a in arguments:
        number = isinstance(a, bool | int | float | np.number | np.bool_)
        if not number and not (isinstance(a, np.ndarray) and a.dtype.kind in "buif"):
            raise TypeError(
                f"{name}: extra_arguments has {a!r}; give numbers or arrays of numbers, and let the "
                "function refer to other values itself"
            )
    plain = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in arguments)
    for a in plain:
        if isinstance(a, np.ndarray):
            a.flags.writeable = False  # numba refuses functions that change it
    return plain
