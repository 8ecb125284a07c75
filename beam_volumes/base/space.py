"""The axes, voxel size, unit and origin of a volume."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

AXES = ("z", "y", "x")
#: Axes before z, y, x: time and channels.
LEADING = ("t", "c")
#: Units of length in metres, as decimal numbers. They convert exactly: 1000 nm are 1 um to the bit.
METRES = {
    "picometer": "1e-12",
    "angstrom": "1e-10",
    "nanometer": "1e-9",
    "micrometer": "1e-6",
    "millimeter": "1e-3",
    "mil": "0.0000254",
    "centimeter": "1e-2",
    "inch": "0.0254",
    "decimeter": "0.1",
    "foot": "0.3048",
    "meter": "1.0",
    "kilometer": "1e3",
}
#: The relative difference up to which lengths are equal: formats such as MRC store float32.
_SAME = 2.0**-23


class DifferentSpaces(ValueError):
    """Two volumes differ in ``what``, e.g. the voxel size."""

    def __init__(self, what: str, first: str, second: str) -> None:
        super().__init__(f"{what}: {first} and {second}")
        self.what, self.first, self.second = what, first, second


class ImpossibleSpace(ValueError):
    """An invalid voxel size or origin."""


@dataclass(frozen=True)
class Space:
    """Axes and physical grid of a volume. Lengths are per internal axis z, y, x, in ``unit``."""

    #: The visible axes, a subset of z, y, x in that order.
    axes: tuple[str, ...] = AXES
    voxel_size: tuple[float, float, float] | None = None
    #: The OME-NGFF name of the unit, e.g. "nanometer".
    unit: str | None = None
    #: The centre of voxel (0, 0, 0), counted in voxels if the voxel size is unknown.
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    #: The origin before slicing in this program; it is not stored.
    sliced_from: tuple[float, float, float] | None = None
    #: The visible axes before z, y, x: a subset of t, c in that order.
    leading: tuple[str, ...] = ()
    #: Names of the channels, if known.
    channels: tuple[str, ...] = ()
    #: Number of time points; 0 without a time axis.
    times: int = 0

    def __post_init__(self) -> None:
        size = self.voxel_size
        if size is not None and not all(math.isfinite(s) and s > 0 for s in size):
            raise ImpossibleSpace(
                f"a voxel size of {_shown(size)} is not finite and positive; give voxel_size="
            )
        if not all(map(math.isfinite, self.origin)):
            raise ImpossibleSpace(f"an origin of {_shown(self.origin)} is not finite; give origin=")

    @property
    def has_channels(self) -> bool:
        return "c" in self.leading

    @property
    def all_axes(self) -> tuple[str, ...]:
        """All visible axes, time and channels first."""
        return self.leading + self.axes

    def of_one(self, axis: str) -> Space:
        """The space of one point along a leading axis."""
        leading = tuple(a for a in self.leading if a != axis)
        times, channels = (0, self.channels) if axis == "t" else (self.times, ())
        return replace(self, leading=leading, channels=channels, times=times)

    def with_leading(self, times: int, has_channels: bool, channels: tuple[str, ...]) -> Space:
        """The same grid with other leading axes."""
        leading = (("t",) if times else ()) + (("c",) if has_channels else ())
        return replace(self, leading=leading, channels=channels, times=times)

    @property
    def visible(self) -> tuple[int, ...]:
        """Positions of the visible axes among z, y, x."""
        return tuple(AXES.index(a) for a in self.axes)

    @property
    def grid_origin(self) -> tuple[float, float, float]:
        """The origin of the whole grid, before slicing."""
        return self.origin if self.sliced_from is None else self.sliced_from

    @property
    def knows_size(self) -> bool:
        """Whether the voxel size is known. Formats without one store 1 without a unit."""
        size = self.voxel_size
        return size is not None and (
            self.unit is not None or any(size[a] != 1.0 for a in self.visible)
        )

    @property
    def knows_origin(self) -> bool:
        """Whether the origin is known. With a known voxel size, 0 is a known origin."""
        return self.knows_size or any(self.grid_origin[a] for a in self.visible)

    def shifted(self, offset: tuple[int, int, int]) -> Space:
        """The space of a crop from voxel ``offset``."""
        size = self.voxel_size or (1.0, 1.0, 1.0)
        z, y, x = (o + s * k for o, s, k in zip(self.origin, size, offset, strict=True))
        return replace(self, origin=(z, y, x), sliced_from=self.grid_origin)

    def unsliced(self) -> Space:
        """The same space, not as a slice."""
        return replace(self, sliced_from=None)

    def resized(self, voxel_size: tuple[float, float, float], counted: bool | None = None) -> Space:
        """The same grid with another voxel size; slices start at the same voxel.

        ``counted``: whether the origin counts voxels, by default if the voxel size is unknown.
        """
        counted = not self.knows_size if counted is None else counted
        old = self.voxel_size or (1.0, 1.0, 1.0)
        if voxel_size == self.voxel_size:
            return self
        root = self.grid_origin
        if counted:
            z, y, x = (r / s * n for r, s, n in zip(root, old, voxel_size, strict=True))
            root = (z, y, x)
        if self.sliced_from is None:
            return replace(self, voxel_size=voxel_size, origin=root)
        moved = (o - r for o, r in zip(self.origin, self.sliced_from, strict=True))
        z, y, x = (r + m / s * n for r, m, s, n in zip(root, moved, old, voxel_size, strict=True))
        return replace(self, voxel_size=voxel_size, origin=(z, y, x), sliced_from=root)

    def in_unit(self, unit: str | None) -> Space:
        """Convert lengths to another unit; without a known unit, the numbers stay."""
        if unit is None or self.unit in (None, unit) or self.voxel_size is None:
            return replace(self, unit=unit or self.unit)
        by = Fraction(METRES[str(self.unit)]) / Fraction(METRES[unit])

        def lengths(given: tuple[float, float, float]) -> tuple[float, float, float]:
            z, y, x = (times(v, by) for v in given)
            return (z, y, x)

        return replace(
            self,
            unit=unit,
            voxel_size=lengths(self.voxel_size),
            origin=lengths(self.origin),
            sliced_from=None if self.sliced_from is None else lengths(self.sliced_from),
        )

    def shared(self, other: Space) -> Space:
        """The space of the voxelwise result of two volumes: the metadata that either of them has.

        Metadata of both must agree, or DifferentSpaces is raised; docs/internals/rules.md has the rule.

        >>> nm = Space(voxel_size=(40, 8, 8), unit="nanometer")
        >>> um = Space(voxel_size=(0.04, 0.008, 0.008), unit="micrometer")
        >>> nm.shared(um) == nm, Space().shared(um) == um
        (True, True)
        >>> nm.shared(Space(voxel_size=(4, 4, 4), unit="nanometer"))
        Traceback (most recent call last):
        beam_volumes.base.space.DifferentSpaces: voxel size: 40x8x8 nanometer and 4x4x4 nanometer
        """
        first, second = self, other
        unit = self.unit or other.unit
        if {self.unit, other.unit} <= {None, *METRES}:
            first, second = self.in_unit(unit), other.in_unit(unit)
        elif None not in (self.unit, other.unit) and self.unit != other.unit:
            raise DifferentSpaces("unit", str(self.unit), str(other.unit))
        size = first.voxel_size
        if self.knows_size and other.knows_size:
            assert size is not None and second.voxel_size is not None
            if not all(_same(size[a], second.voxel_size[a]) for a in self.visible):
                raise DifferentSpaces(
                    "voxel size", _sizes(self, self.voxel_size), _sizes(other, other.voxel_size)
                )
        elif other.knows_size or size is None:
            size = second.voxel_size
        if size is not None:
            first = first.resized(size, counted=not self.knows_size)
            second = second.resized(size, counted=not other.knows_size)
        if self.knows_origin and other.knows_origin and not _on_one_grid(first, second):
            raise DifferentSpaces(
                "origin", _sizes(self, self.origin, ", "), _sizes(other, other.origin, ", ")
            )
        place = second if other.knows_origin and not self.knows_origin else first
        return replace(
            self,
            voxel_size=size,
            unit=unit,
            origin=place.origin,
            sliced_from=place.sliced_from,
        )

    def view(self, order: tuple[int, int, int]) -> Space:
        """The space with permuted axes; axis names stay in place."""
        a, b, c = order

        def ordered(given: tuple[float, float, float]) -> tuple[float, float, float]:
            return (given[a], given[b], given[c])

        return replace(
            self,
            voxel_size=None if self.voxel_size is None else ordered(self.voxel_size),
            origin=ordered(self.origin),
            sliced_from=None if self.sliced_from is None else ordered(self.sliced_from),
        )

    def resampled(
        self, scale: tuple[float, float, float], first: tuple[float, float, float]
    ) -> Space:
        """The space with voxels ``scale`` times as large; ``first`` is the first one's position in voxels."""
        size = self.voxel_size or (1.0, 1.0, 1.0)
        step = tuple(s * p for s, p in zip(size, first, strict=True))

        def moved(given: tuple[float, float, float]) -> tuple[float, float, float]:
            z, y, x = (o + s for o, s in zip(given, step, strict=True))
            return (z, y, x)

        z, y, x = (s * f for s, f in zip(size, scale, strict=True))
        return replace(
            self,
            voxel_size=None if self.voxel_size is None else (z, y, x),
            origin=moved(self.origin),
            sliced_from=None if self.sliced_from is None else moved(self.sliced_from),
        )


def times(length: float, factor: Fraction) -> float:
    """The product of a length and a factor, exact for the decimal digits of the length."""
    try:
        return float(Fraction(repr(float(length))) * factor)
    except (OverflowError, ValueError):  # larger than any float, or no number
        return length * math.inf


def _same(a: float, b: float, scale: float = 0.0) -> bool:
    """Whether two lengths are equal up to the precision of storage; ``scale`` is the scale near 0."""
    return a == b or abs(a - b) <= _SAME * max(abs(a), abs(b), scale)


def _on_one_grid(first: Space, second: Space) -> bool:
    """Whether two volumes of equal voxel size have the same origin or are slices of one grid."""
    size = first.voxel_size or (1.0, 1.0, 1.0)

    def equal(a: tuple[float, float, float], b: tuple[float, float, float]) -> bool:
        return all(_same(a[k], b[k], size[k]) for k in first.visible)

    if equal(first.origin, second.origin):
        return True
    both = first.sliced_from is not None and second.sliced_from is not None
    return both and equal(first.grid_origin, second.grid_origin)


def _shown(lengths: tuple[float, float, float]) -> str:
    return " x ".join(f"{v:g}" for v in lengths)


def _sizes(space: Space, lengths: tuple[float, float, float] | None, between: str = "x") -> str:
    """Lengths along the visible axes, with their unit."""
    assert lengths is not None
    numbers = between.join(f"{lengths[a]:.12g}" for a in space.visible)
    return f"{numbers} {space.unit or 'without a unit'}"
