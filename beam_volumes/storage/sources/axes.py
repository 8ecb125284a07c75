"""Map the axes, units and positions of files to t, c, z, y, x."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import tensorstore as ts

from beam_volumes.base.space import AXES, LEADING, METRES, Space, times
from beam_volumes.base.text import printable
from beam_volumes.storage.places.errors import VolumeError
from beam_volumes.storage.sources.source import Reader, Source

#: Axes of arrays without names.
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
#: Words are case-insensitive. Symbols are not: Mm is a megameter.
_UNIT_WORDS = {alias: name for alias, name in _UNIT_NAMES.items() if len(alias) > 3}

#: The option of formats with rotated or reversed axes.
AFFINE = (
    "str",
    'How to open a file with rotated or reversed axes. ``"drop"`` keeps voxels as they are stored, with '
    'their size but without an origin. ``"reorient"`` orders and reverses axes so that positions increase '
    "along z, y and x. By default, such a file is an error.",
)


class UnclearSpace(ValueError):
    """The position of a file's voxels requires a decision of the user, by ``affine=``."""


class UnclearPlace(VolumeError, UnclearSpace):
    """A file does not define the position of its voxels."""


class UnclearSize(UnclearSpace):
    """A file has an invalid voxel size; ``voxel_size=`` replaces it."""


def check_affine(affine: str | None, name: str) -> None:
    """Refuse invalid values of the option ``affine``."""
    if affine not in (None, "drop", "reorient"):
        raise ValueError(f"{printable(name)}: affine={affine!r}; use 'drop' or 'reorient'")


def turned(name: str, what: str, can_reorient: bool = True) -> UnclearSpace:
    """Return the error for a file with rotated or reversed axes, as described by ``what``."""
    remedy = ", or affine='reorient' to order and reverse its axes" if can_reorient else ""
    return UnclearSpace(
        f"{printable(name)}: {what}; give affine='drop' to take voxels as they are stored, with their size "
        f"and without an origin{remedy}"
    )


def unit_name(unit: str | None) -> str | None:
    """Return the OME-NGFF name of a unit of length."""
    if unit is None:
        return None
    text = unit.strip() if isinstance(unit, str) else ""
    name = _UNIT_NAMES.get(text) or _UNIT_WORDS.get(text.lower())
    if name is None:
        known = ", ".join(f"{k} ({v[0]})" for k, v in UNITS.items())
        raise ValueError(f"unit={unit!r} is not a unit of length; use one of {known}")
    return name


def in_one_unit(units: Sequence[Any]) -> tuple[str | None, list[Fraction]] | None:
    """Find one unit for lengths along several axes in the units of a file, and the factor for each."""
    # Mixed units become micrometers. An axis without a unit has the unit of the others. None if some lengths
    # cannot be compared.
    names: list[str | None] = []
    for unit in units:
        text = unit.strip() if isinstance(unit, str) else ""
        try:
            names.append(unit_name(text) if text else None)
        except ValueError:
            names.append(text.lower())
    stated = {name for name in names if name is not None}
    if len(stated) <= 1:
        one = next(iter(stated), None)
        return (one if one in METRES else None), [Fraction(1)] * len(names)
    if None in names or not stated <= set(METRES):
        return None
    base = Fraction(METRES["micrometer"])
    return "micrometer", [Fraction(METRES[str(name)]) / base for name in names]


def converted(
    units: Sequence[Any], *lengths: Sequence[float] | None
) -> tuple[str | None, list[list[float] | None]]:
    """Convert lengths along several axes to one unit, as `in_one_unit`; None if impossible.

    >>> converted(["um", "nm", "nm"], [1, 200, 200], None)
    ('micrometer', [[1.0, 0.2, 0.2], None])
    """
    found = in_one_unit(units)
    if found is None:
        return None, [None] * len(lengths)
    unit, by = found
    return unit, [
        None if given is None else [times(v, f) for v, f in zip(given, by, strict=True)]
        for given in lengths
    ]


def stated_space(
    space: Space,
    name: str,
    voxel_size: float | Sequence[float] | None = None,
    unit: str | None = None,
    origin: float | Sequence[float] | None = None,
) -> Space:
    """Return a volume's space with the values of the user, for each visible axis; others remain.

    Without ``voxel_size``, ``unit`` is of the existing values; with it, an existing origin is converted.

    >>> known = Space(voxel_size=(0.008,) * 3, unit="micrometer", origin=(0.8, 0, 0))
    >>> stated_space(known, "em", 16, "nm").origin, stated_space(known, "em", unit="nm").origin
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
    """Return finite numbers, one for each visible axis."""
    many = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    try:
        numbers = [float(v) for v in given] if many else [float(given)] * len(space.axes)
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != len(space.axes) or not all(
        math.isfinite(v) and (v > 0 or not positive) for v in numbers
    ):
        raise ValueError(
            f"{what}={given!r} does not fit {name}; give one {'positive ' if positive else ''}number, or one "
            f"per axis {', '.join(space.axes)}"
        )
    return numbers


@dataclass(frozen=True)
class Placement:
    """The position of voxels in space, for z, y, x; ``flipped`` axes are reversed."""

    voxel_size: tuple[float, float, float] | None = None
    unit: str | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    flipped: tuple[bool, bool, bool] = (False, False, False)


@dataclass(frozen=True)
class Selection:
    """Dimensions that are fixed, and dimensions that are the volume's axes."""

    fixed: tuple[tuple[int, int], ...]
    dims: tuple[tuple[str, int], ...]
    channels: tuple[str, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The visible spatial axes, in the order z, y, x."""
        names = dict(self.dims)
        return tuple(a for a in AXES if a in names)

    @property
    def leading(self) -> tuple[str, ...]:
        """The leading axes, in the order t, c."""
        names = dict(self.dims)
        return tuple(a for a in LEADING if a in names)

    def before(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Select the values of leading axes from values per dimension of the file."""
        dims = dict(self.dims)
        return tuple(values[dims[a]] for a in self.leading)

    def triple(self, values: Sequence[Any], default: Any) -> tuple[Any, Any, Any]:
        """Select the values of z, y, x from values per dimension of the file."""
        dims = dict(self.dims)
        z, y, x = (values[dims[a]] if a in dims else default for a in AXES)
        return (z, y, x)

    def space(
        self,
        voxel_size: tuple[float, float, float] | None = None,
        unit: str | None = None,
        origin: tuple[float, float, float] = (0.0, 0.0, 0.0),
    ) -> Space:
        return Space(
            self.axes, voxel_size, unit, origin, leading=self.leading, channels=self.channels
        )

    def source(
        self,
        name: str,
        reader: Reader,
        dtype: np.dtype,
        sizes: Sequence[int],
        chunk: Sequence[int],
        space: Space,
        encoded: bool = True,
    ) -> Source:
        """Return a source with the extents and chunk extents of a file's dimensions."""
        return Source(
            name=name,
            shape=self.triple(sizes, 1),
            dtype=dtype,
            chunk=self.triple(chunk, 1),
            space=space,
            reader=reader,
            encoded=encoded,
            leading=self.before(sizes),
            leading_chunk=self.before(chunk),
        )

    def apply(self, store: Any) -> Any:
        """Transform a TensorStore or Spec to leading axes, z, y, x from 0."""
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


def letters_of_axes(names: Sequence[Any], ndim: int) -> tuple[str, ...] | None:
    """Return the letters t, c, z, y, x for names of axes; None if a volume cannot have these axes."""
    short = tuple({"channel": "c", "time": "t"}.get(str(n).lower(), str(n).lower()) for n in names)
    is_valid = len(short) == ndim == len(set(short)) and {"y", "x"} <= set(short) <= set("tczyx")
    return short if is_valid else None


def names_of_axes(names: Sequence[str | None] | None, ndim: int, name: str) -> tuple[str, ...]:
    """Return the names of a file's axes, if valid, else default names."""
    letters = None if names is None else letters_of_axes(names, ndim)
    if letters is not None:
        return letters
    if ndim not in DEFAULT_AXES:
        raise ValueError(
            f"{name} has {ndim} dimensions; a volume has 2 (y, x) to 5 (t, c, z, y, x), "
            "or names its axes with these letters"
        )
    return tuple(DEFAULT_AXES[ndim])


@dataclass(frozen=True)
class IndexRequest:
    """The requested part of an array."""

    #: The position, or a channel's name for ``c``, along each axis to drop
    index: Mapping[str, int | str] | None = None
    #: Whether axes t and c of extent 1 remain. Many formats have these axes in every file.
    keep: bool = field(default=False, kw_only=True)


def select(
    axes: Sequence[str],
    sizes: Sequence[int],
    request: IndexRequest,
    name: str,
    channels: Sequence[str] = (),
) -> Selection:
    """Select the volume in an array that may have t and c: they remain unless a point is chosen.

    ``axes`` and ``sizes`` are of each dimension, ``channels`` the names of channels, if known.
    """
    index = dict(request.index or {})
    shown = ", ".join(f"{a}: {n}" for a, n in zip(axes, sizes, strict=True))
    unknown = set(index) - set(axes)
    if unknown:
        raise ValueError(
            f"index={index}: {name} has no axis {sorted(unknown)[0]!r}; it has {shown}"
        )
    fixed, dims = [], []
    for d, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        if axis in index:
            fixed.append((d, position_along(axis, index[axis], size, channels, name)))
        elif axis in LEADING and size == 1 and not request.keep:
            fixed.append((d, 0))
        else:
            dims.append((axis, d))
    names = dict(zip(axes, sizes, strict=True))
    named = (
        "c" in dict(dims) and len(channels) == names["c"] and len(set(channels)) == len(channels)
    )
    return Selection(tuple(fixed), tuple(dims), tuple(channels) if named else ())


def oriented(source: Source, back: Sequence[bool], affine: str | None) -> Source:
    """Return a source with reversed axes of z, y, x as the option ``affine`` requests.

    Its voxel size is already positive, and its origin belongs to the first stored voxel.
    """
    if not any(back):
        return source
    names = " and ".join(a for a, is_back in zip(AXES, back, strict=True) if is_back)
    if affine is None:
        raise turned(source.name, f"its metadata reverse {names} in space")
    if affine == "drop":
        return replace(source, space=replace(source.space, origin=(0.0, 0.0, 0.0)))
    size = source.space.voxel_size
    assert size is not None
    z, y, x = (
        o - s * (n - 1) if is_back else o
        for o, s, n, is_back in zip(source.space.origin, size, source.shape, back, strict=True)
    )
    view = source.view((0, 1, 2), (back[0], back[1], back[2]))
    return replace(view, space=replace(view.space, origin=(z, y, x)))


def position_along(
    axis: str, value: int | str, size: int, channels: Sequence[str], name: str
) -> int:
    """Return the position of an entry of ``index=`` along an axis, checked."""
    if isinstance(value, str):
        if axis != "c" or value not in channels:
            known = f"channels: {', '.join(channels)}" if channels else "its channels have no names"
            raise ValueError(f"index={{{axis!r}: {value!r}}}: {name} has no such channel; {known}")
        return list(channels).index(value)
    position = int(value) + size if int(value) < 0 else int(value)
    if not 0 <= position < size:
        raise ValueError(
            f"index={{{axis!r}: {value}}} is out of range; {name} has {size} along {axis}"
        )
    return position
