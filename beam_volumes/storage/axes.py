"""From the axes a file has to t, c, z, y, x."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.space import AXES, LEADING, METRES, Space

#: What arrays without names of axes are taken for.
DEFAULT_AXES = {2: "yx", 3: "zyx", 4: "czyx", 5: "tczyx"}

UNITS = {
    "angstrom": ("å", "Å", "ångström", "Ångström", "angstroem"),
    "nanometer": ("nm", "nanometre", "nanometers", "nanometres"),
    "micrometer": (
        "um",
        "µm",
        "μm",
        "micron",
        "microns",
        "micrometre",
        "micrometers",
        "micrometres",
    ),
    "millimeter": ("mm", "millimetre", "millimeters", "millimetres"),
    "centimeter": ("cm", "centimetre", "centimeters", "centimetres"),
    "meter": ("m", "metre", "meters", "metres"),
    "picometer": ("pm", "picometre", "picometers", "picometres"),
    "kilometer": ("km", "kilometre", "kilometers", "kilometres"),
    "inch": ("in", "inches"),
    "decimeter": ("dm", "decimetre", "decimeters", "decimetres"),
    "foot": ("ft", "feet"),
    "mil": ("mils", "thou"),
}
_UNIT_NAMES = {alias: name for name, aliases in UNITS.items() for alias in (name, *aliases)}


def unit_name(unit: str | None) -> str | None:
    """The OME-NGFF name of a unit of length.

    Examples
    --------
    >>> unit_name("um")
    'micrometer'
    """
    if unit is None:
        return None
    text = unit.strip() if isinstance(unit, str) else ""
    name = _UNIT_NAMES.get(text) or _UNIT_NAMES.get(text.lower())
    if name is None:
        known = ", ".join(f"{k} ({v[0]})" for k, v in UNITS.items())
        raise ValueError(f"unit={unit!r} is no unit of length; use one of {known}")
    return name


def space_said(
    space: Space,
    name: str,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
) -> Space:
    """The space of a volume with what the user says of it; the rest stays.

    Parameters
    ----------
    space : Space
    name : str
        How messages name the volume.
    voxel_size, origin : float or sequence of float, optional
        One number, or one for each axis that the user sees, in ``unit``.
    unit : str, optional
        A unit of length, by any of its usual names. Without ``voxel_size`` it is what the numbers
        that are known were in all along; with it, an origin that is known is converted.

    Examples
    --------
    >>> known = Space(voxel_size=(0.008,) * 3, unit="micrometer", origin=(0.8, 0, 0))
    >>> space_said(known, "em", 16, "nm").origin, space_said(known, "em", unit="nm").origin
    ((800.0, 0.0, 0.0), (0.8, 0, 0))
    """
    named = unit_name(unit)
    if named is not None and voxel_size is not None and {space.unit, named} <= set(METRES):
        space = space.in_unit(named)
    if voxel_size is not None:
        sizes = _per_axis("voxel_size", voxel_size, space, name, positive=True)
        full = [1.0, 1.0, 1.0] if space.voxel_size is None else list(space.voxel_size)
        for axis, size in zip(space.visible, sizes, strict=True):
            full[axis] = size
        space = space.resized((full[0], full[1], full[2]))
    if named is not None:
        space = replace(space, unit=named)
    if origin is not None:
        at = list(space.origin)
        for axis, place in zip(
            space.visible, _per_axis("origin", origin, space, name), strict=True
        ):
            at[axis] = place
        space = replace(space, origin=(at[0], at[1], at[2]), sliced_from=None)
    return space


def _per_axis(
    what: str, given: Any, space: Space, name: str, positive: bool = False
) -> list[float]:
    """Finite numbers, one for each axis that the user sees."""
    many = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    try:
        numbers = [float(v) for v in given] if many else [float(given)] * len(space.axes)
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != len(space.axes) or not all(
        math.isfinite(v) and (v > 0 or not positive) for v in numbers
    ):
        raise ValueError(
            f"{what}={given!r}: {name} needs one {'positive ' if positive else ''}number, or one per axis "
            f"{', '.join(space.axes)}"
        )
    return numbers


@dataclass(frozen=True)
class Selection:
    """Which dimensions are fixed, and which are the volume's axes."""

    fixed: tuple[tuple[int, int], ...]
    dims: tuple[tuple[str, int], ...]
    channels: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of space that the user sees, in the order z, y, x."""
        names = dict(self.dims)
        return tuple(a for a in AXES if a in names)

    @property
    def leading(self) -> tuple[str, ...]:
        """Those before them, in the order t, c."""
        names = dict(self.dims)
        return tuple(a for a in LEADING if a in names)

    def before(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Values per dimension of the file as values per leading axis."""
        dims = dict(self.dims)
        return tuple(values[dims[a]] for a in self.leading)

    def triple(self, values: Sequence[Any], default: Any) -> tuple[Any, Any, Any]:
        """Values per dimension of the file as values per z, y, x."""
        dims = dict(self.dims)
        z, y, x = (values[dims[a]] if a in dims else default for a in AXES)
        return (z, y, x)

    def apply(self, store: Any) -> Any:
        """The leading axes, z, y, x, from 0, of a `tensorstore.TensorStore` or `tensorstore.Spec`."""
        origin = store.domain.inclusive_min
        store = store[ts.d[:].label[("",) * store.rank]]
        if self.fixed:
            dims = [d for d, _ in self.fixed]
            store = store[ts.d[dims][tuple(origin[d] + i for d, i in self.fixed)]]
        kept = sorted(d for _, d in self.dims)
        order = [kept.index(dict(self.dims)[a]) for a in (*self.leading, *self.axes)]
        if order != sorted(order):
            store = store[ts.d[order].transpose[list(range(len(order)))]]
        first = (slice(None),) * len(self.leading)
        store = store[first + tuple(slice(None) if a in self.axes else ts.newaxis for a in AXES)]
        return store[ts.d[:].translate_to[(0,) * store.rank]]


def names_of_axes(names: Sequence[str | None] | None, ndim: int, name: str) -> tuple[str, ...]:
    """The names of a file's axes: its own where they make sense, else by their number."""
    if names is not None and len(names) == ndim:
        short = [{"channel": "c", "time": "t"}.get(str(n).lower(), str(n).lower()) for n in names]
        if set(short) <= set("tczyx") and len(set(short)) == ndim and {"y", "x"} <= set(short):
            return tuple(short)
    if ndim not in DEFAULT_AXES:
        raise ValueError(
            f"{name} has {ndim} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x), "
            "or names its axes with these letters"
        )
    return tuple(DEFAULT_AXES[ndim])


def select(
    axes: Sequence[str],
    sizes: Sequence[int],
    index: Mapping[str, int | str] | None,
    name: str,
    channels: Sequence[str] = (),
) -> Selection:
    """Choose the volume in an array that may have t and c too: these stay, unless a point is chosen.

    Parameters
    ----------
    axes, sizes : sequence
        Name and extent of each dimension.
    index : mapping, optional
        A position, or for ``c`` a channel's name, per axis to drop. Axes t and c of extent 1 drop
        by themselves.
    name : str
        How messages name the array.
    channels : sequence of str
        Names of the channels, if known.
    """
    index = dict(index or {})
    shown = ", ".join(f"{a}: {n}" for a, n in zip(axes, sizes, strict=True))
    unknown = set(index) - set(axes)
    if unknown:
        raise ValueError(
            f"index={index}: {name} has no axis {sorted(unknown)[0]!r} (it has {shown})"
        )
    fixed, dims = [], []
    for d, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if axis in index:
            fixed.append((d, position_along(axis, index[axis], size, channels, name)))
        elif axis in LEADING and size == 1:
            fixed.append((d, 0))
        else:
            dims.append((axis, d))
    names = dict(zip(axes, sizes, strict=True))
    named = (
        "c" in dict(dims) and len(channels) == names["c"] and len(set(channels)) == len(channels)
    )
    return Selection(tuple(fixed), tuple(dims), tuple(channels) if named else ())


def position_along(
    axis: str, value: int | str, size: int, channels: Sequence[str], name: str
) -> int:
    """The position that an entry of ``index=`` means along an axis, checked."""
    if isinstance(value, str):
        if axis != "c" or value not in channels:
            known = f"channels: {', '.join(channels)}" if channels else "it names no channels"
            raise ValueError(f"index={{{axis!r}: {value!r}}}: {name} has no such channel; {known}")
        return list(channels).index(value)
    position = int(value) + size if int(value) < 0 else int(value)
    if not 0 <= position < size:
        raise ValueError(f"index={{{axis!r}: {value}}}: {name} has {size} along {axis}")
    return position
