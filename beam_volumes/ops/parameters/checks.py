"""Parsing of common parameters: numbers per axis, lengths with units, boundary modes.

Users give one value per visible axis, or one for all; stages use z, y, x.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from beam_volumes.base.space import METRES
from beam_volumes.graph.kinds import is_number as is_number
from beam_volumes.graph.kinds import is_whole as is_whole
from beam_volumes.graph.kinds import short
from beam_volumes.graph.volume import Volume
from beam_volumes.storage.inputs.arrays import refuse_masked
from beam_volumes.storage.sources.axes import unit_name

#: Maximum voxels of a footprint, and maximum length of weights along an axis.
MAX_VOXELS, MAX_TAPS = 1 << 24, 1 << 22
#: Limits of a voxel's extent, so squares, cubes and moments are finite and not 0.
MIN_VOXEL_SIZE, MAX_VOXEL_SIZE = 1e-50, 1e50
#: Maximum number of bins.
MAX_BINS = 1 << 24
MODES = ("reflect", "mirror", "nearest", "constant", "grid-mirror", "grid-constant")
#: Modes of neighbourhoods; both repeat the volume.
WRAPS = ("wrap", "grid-wrap")


def axes_of(
    volume: Volume, axes: int | Sequence[int] | None, name: str, what: str = "axes"
) -> list[int]:
    """The axes (0, 1, 2 for z, y, x) of an operation.

    ``axes`` counts visible axes; None is all axes except channels. ``what`` names the parameter.
    """
    visible = volume.space.visible
    if axes is None:
        return list(visible)
    first = volume.ndim - len(visible)
    chosen = [axes] if isinstance(axes, int | np.integer) else list(axes)
    result = []
    for a in chosen:
        if not is_whole(a) or not -volume.ndim <= a < volume.ndim:
            raise ValueError(
                f"{name}: {what}={axes!r}; the volume's axes are 0 to {volume.ndim - 1}"
            )
        at = int(a) % volume.ndim - first
        if at < 0:
            raise ValueError(
                f"{name}: {what}={axes!r} includes the axis {volume.axes[at + first]}, which is "
                "not a spatial axis"
            )
        result.append(visible[at])
    if len(set(result)) != len(result):
        raise ValueError(f"{name}: {what}={axes!r} lists an axis twice")
    return result


def axis_of(volume: Volume, axis: Any, name: str) -> int:
    """The axis (0, 1, 2 for z, y, x) of an operation along one axis."""
    if not is_whole(axis):
        raise TypeError(
            f"{name}: axis={axis!r}: give the number of one axis, 0 to {volume.ndim - 1}"
        )
    if not -volume.ndim <= axis < volume.ndim:
        raise ValueError(f"{name}: axis={axis!r}; the volume's axes are 0 to {volume.ndim - 1}")
    return axes_of(volume, axis, name, "axis")[0]


def axes_of_space(volume: Volume) -> range:
    """The visible axes except time and channels, by the numbers of `axes_of`."""
    return range(volume.ndim - len(volume.space.axes), volume.ndim)


def per_axis(
    value: Any, chosen: Sequence[int], default: Any, name: str, function: str = ""
) -> list[Any]:
    """One value for each of z, y, x, from one value or one per chosen axis.

    ``name`` is the parameter of ``function``, for messages.
    """
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        values = [value] * len(chosen)
    else:
        values = list(value)
    if len(values) != len(chosen):
        raise ValueError(
            f"{_of(function)}{name}={value!r} has {len(values)} entries for {len(chosen)} axes"
        )
    result = [default] * 3
    for axis, v in zip(chosen, values, strict=True):
        result[axis] = v
    return result


def _of(function: str) -> str:
    return f"{function}: " if function else ""


def lengths(
    volume: Volume, value: Any, chosen: Sequence[int], name: str, default: float = 0.0
) -> list[float]:
    """Lengths in voxels along z, y, x, from numbers of voxels or texts such as ``"15 nm"``."""
    result = []
    for axis, item in enumerate(per_axis(value, chosen, default, name)):
        number = in_voxels(volume, item, axis, name) if isinstance(item, str) else item
        if not is_number(number):
            raise TypeError(f"{name}={short(value)}: {short(item)} is not a length")
        if not (math.isfinite(number) and number >= 0):
            raise ValueError(f"{name}={value!r} is not a finite length of at least 0")
        result.append(float(number))
    return result


def in_voxels(volume: Volume, text: str, axis: int, name: str) -> float:
    """A length with a unit, in voxels along an axis."""
    number, unit, power = _measure(text, name)
    if power != 1:
        raise ValueError(f"{name}={text!r} is not a length; write e.g. '15 nm'")
    return float(number * Fraction(METRES[unit]) / _voxel(volume, axis, text, name))


def in_unit(volume: Volume, text: str, name: str) -> float:
    """A length with a unit, converted to the volume's unit."""
    number, unit, power = _measure(text, name)
    if power != 1:
        raise ValueError(f"{name}={text!r} is not a length; write e.g. '15 nm'")
    _voxel(volume, volume.space.visible[0], text, name)  # checks that there is a unit
    return float(number * Fraction(METRES[unit]) / Fraction(METRES[str(volume.unit)]))


def voxel_sizes(volume: Volume, given: Any, what: str, name: str) -> tuple[float, float, float]:
    """The extent of a voxel along z, y, x: 1, given numbers, or the volume's voxel size."""
    if isinstance(given, str):
        if given != "voxel_size":
            raise ValueError(
                f'{name}: {what}={given!r}; give numbers, or "voxel_size" for the volume\'s own'
            )
        if volume.space.voxel_size is None:
            raise ValueError(
                f'{name}: {what}="voxel_size", but the volume has none; open it with voxel_size='
            )
        sizes: Sequence[Any] = volume.space.voxel_size
    else:
        sizes = per_axis(
            1.0 if given is None else given, volume.space.visible, 1.0, f"{name}: {what}"
        )
    for size in sizes:
        if not is_number(size):
            raise TypeError(f"{name}: {what}={given!r}: {size!r} is not a number")
        if not MIN_VOXEL_SIZE <= size <= MAX_VOXEL_SIZE:
            raise ValueError(
                f"{name}: {what}={given!r}: a voxel size must be above 0, from {MIN_VOXEL_SIZE} to "
                f"{MAX_VOXEL_SIZE}; use a different unit"
            )
    z, y, x = map(float, sizes)
    return z, y, x


def max_distance(
    volume: Volume, given: Any, what: str, spacing: Any, spacing_name: str, name: str
) -> float:
    """A length above 0, in the unit of ``spacing``; a text such as "5 um" needs the volume's own spacing."""
    if isinstance(given, str):
        if not isinstance(spacing, str):
            raise ValueError(
                f'{name}: {what}={given!r} needs {spacing_name}="voxel_size"; '
                "otherwise distances have no unit"
            )
        given = in_unit(volume, given, what)
    if not is_number(given):
        raise TypeError(f"{name}: {what}={given!r} is not a length")
    if not 0 < given <= float(np.finfo(np.float32).max):
        no_limit = ", or leave max_distance out for no limit" if spacing_name == "sampling" else ""
        raise ValueError(
            f"{name}: {what}={given!r}: give a length above 0 in the range of float32{no_limit}"
        )
    return float(given)


def extent_in_voxels(volume: Volume, value: Any, name: str) -> Any:
    """A number of voxels, from a number or from a volume with a unit such as ``"0.001 um^3"``.

    For a volume with two axes it is an area: ``"2 um^2"``.
    """
    if not isinstance(value, str):
        return value
    number, unit, power = _measure(value, name)
    axes = volume.space.visible
    if power != len(axes):
        raise ValueError(
            f"{name}={value!r}: the volume has {len(axes)} axes; write a number of voxels, or e.g. "
            f"'0.001 um^{len(axes)}'"
        )
    extent = number * Fraction(METRES[unit]) ** power
    for axis in axes:
        extent /= _voxel(volume, axis, value, name)
    return float(extent)


def is_length(text: str) -> bool:
    """Whether a text is a length with a unit, an area or a volume.

    >>> is_length("15 nm"), is_length("2um^3"), is_length("15"), is_length("2.tif")
    (True, True, False, False)
    """
    try:
        _measure(text, "")
    except ValueError:
        return False
    return True


def _measure(text: str, name: str) -> tuple[Fraction, str, int]:
    """The number, unit and power of a text such as ``"15 nm"`` or ``"2 um^3"``."""
    match = re.fullmatch(
        r"\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,2})?)\s*([^\W\d]+)(?:\^([23]))?\s*", text
    )
    try:
        unit = unit_name(match[2]) if match else None
    except ValueError:
        unit = None
    if match is None or unit is None or unit not in METRES:
        raise ValueError(
            f"{name}={text!r} is not a length; write a number of voxels, or e.g. '15 nm'"
        )
    # Decimal fractions, so 15 nm with voxels of 10 nm are exactly 1.5 voxels.
    return Fraction(match[1]), unit, int(match[3] or 1)


def _voxel(volume: Volume, axis: int, text: str, name: str) -> Fraction:
    """The extent of a voxel, in metres."""
    if volume.space.voxel_size is None or volume.unit not in METRES:
        raise ValueError(
            f"{name}={text!r} needs a voxel size with a unit; open the volume with voxel_size= and unit="
        )
    return Fraction(repr(float(volume.space.voxel_size[axis]))) * Fraction(METRES[volume.unit])


def modes_of(
    mode: Any, chosen: Sequence[int], name: str, what: str = "mode", wraps: bool = True
) -> tuple[str, str, str]:
    """Boundary modes along z, y, x; axes without filter get the mode of the first axis with one.

    ``what`` names the parameter. `WRAPS` become ``"wrap"``, or are refused without ``wraps``.
    """
    default = mode[0] if isinstance(mode, Sequence) and not isinstance(mode, str) and mode else mode
    result = per_axis(mode, chosen, default if isinstance(default, str) else "reflect", what, name)
    for m in result:
        if m in WRAPS and not wraps:
            raise ValueError(
                f"{name}: {what}={m!r} is not available; pad the volume with bv.pad(volume, width, 'wrap') "
                f"before, or use one of {', '.join(MODES)}"
            )
        if m not in (*MODES, *WRAPS):
            known = ", ".join((*MODES, *WRAPS) if wraps else MODES)
            raise ValueError(f"{name}: {what}={m!r} is not known; use one of {known}")
    z, y, x = ("wrap" if m in WRAPS else m for m in result)
    return (z, y, x)


def element(given: Any, what: str, name: str, infinite: bool = False) -> np.ndarray:
    """A footprint, structure or weights as an array of numbers, finite unless ``infinite``."""
    refuse_masked(given)
    array = np.asarray(given)
    if array.dtype.kind not in "buif":
        raise TypeError(f"{name}: {what}={given!r}: give an array of bools or numbers")
    if array.dtype.kind == "f" and (np.isnan(array) if infinite else ~np.isfinite(array)).any():
        raise ValueError(f"{name}: {what} has numbers that are NaN or infinite")
    return array


def whole_number(value: Any, what: str, name: str, minimum: int = 1) -> int:
    if not is_whole(value) or value < minimum:
        raise ValueError(f"{name}: {what}={value!r} is not a whole number of at least {minimum}")
    return int(value)


def positive(value: float, what: str, name: str) -> float:
    """A positive number; its square is finite and positive, too."""
    number = float(value)
    if not (number > 0 and 0 < number * number < math.inf):
        raise ValueError(f"{name}: {what}={value!r} is not a number from 1e-150 to 1e150")
    return number


def bins_of(value: Any, what: str, name: str) -> int:
    number = whole_number(value, what, name)
    if number > MAX_BINS:
        raise ValueError(f"{name}: {what}={value}: the maximum is {MAX_BINS} bins")
    return number


def whole_numbers(
    value: Any, chosen: Sequence[int], default: int, name: str, minimum: int, function: str = ""
) -> list[int]:
    if getattr(value, "ndim", 0) > 1:
        raise ValueError(
            f"{_of(function)}{name} is an array of shape {value.shape}; give a number, or one for "
            "each axis. Pass a footprint as footprint= or structure="
        )
    result = per_axis(value, chosen, default, name, function)
    for n in result:
        if not is_whole(n) or n < minimum:
            raise ValueError(
                f"{_of(function)}{name}={value!r}: {n!r} is not a whole number of at least {minimum}"
            )
    return [int(n) for n in result]


def not_too_large(sizes: Sequence[int], what: str) -> None:
    """Refuse a footprint that is too large for any run, before it needs memory."""
    if math.prod(sizes) > MAX_VOXELS:
        raise ValueError(f"{what} is too large: a footprint has up to {MAX_VOXELS:,} voxels")


def not_too_long(taps: float, what: str) -> int:
    """The length of weights along an axis, unless it is too large for any run."""
    if not taps <= MAX_TAPS:
        raise ValueError(
            f"{what} is too large: neighbourhoods have up to {MAX_TAPS:,} voxels along an axis"
        )
    return int(taps)
