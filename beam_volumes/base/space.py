"""What the voxels of a volume mean: axes, voxel size, unit and origin."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

AXES = ("z", "y", "x")
#: Axes that stand before these: time, and channels.
LEADING = ("t", "c")
#: Units of length in metres, as decimal numbers: converted by these, 1000 nm are 1 um to the bit.
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
#: Numbers that differ by so little are one: formats such as MRC hold float32, which has 24 bits.
_SAME = 2.0**-23


class DifferentSpaces(ValueError):
    """Two volumes lie differently.

    Attributes
    ----------
    what : str
        In what they differ, e.g. ``"voxel size"``.
    first, second : str
        What each has.
    """

    def __init__(self, what: str, first: str, second: str) -> None:
        super().__init__(f"{what}: {first} and {second}")
        self.what, self.first, self.second = what, first, second


class ImpossibleSpace(ValueError):
    """A voxel size or an origin that no volume has."""


@dataclass(frozen=True)
class Space:
    """Axes and physical grid of a volume.

    Attributes
    ----------
    axes : tuple of str
        The axes the user sees, a subset of ``("z", "y", "x")`` in that order. The others exist
        inside with extent 1.
    voxel_size, origin : tuple of float or None
        Per internal axis z, y, x, in ``unit``. ``origin`` is the centre of voxel (0, 0, 0); it counts
        voxels where no size is known.
    unit : str or None
        The OME-NGFF name of the length unit, e.g. ``"nanometer"``.
    sliced_from : tuple of float or None
        Where slicing in this program has moved ``origin``: the origin before. It is not stored.
    leading : tuple of str
        The axes before these that the user sees: a subset of ``("t", "c")`` in that order.
    channels : tuple of str
        Names of the channels, if they are known and there is an axis of them.
    times : int
        How many points in time there are; 0 without such an axis.
    """

    axes: tuple[str, ...] = AXES
    voxel_size: tuple[float, float, float] | None = None
    unit: str | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)
    sliced_from: tuple[float, float, float] | None = None
    leading: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    times: int = 0

    def __post_init__(self) -> None:
        size = self.voxel_size
        if size is not None and not all(math.isfinite(s) and s > 0 for s in size):
            raise ImpossibleSpace(
                f"a voxel size of {_shown(size)}: sizes are finite and above 0; give voxel_size="
            )
        if not all(map(math.isfinite, self.origin)):
            raise ImpossibleSpace(f"an origin of {_shown(self.origin)}: it is finite; give origin=")

    @property
    def has_channels(self) -> bool:
        """Whether there is an axis of channels."""
        return "c" in self.leading

    @property
    def all_axes(self) -> tuple[str, ...]:
        """All axes that the user sees, time and channels first."""
        return self.leading + self.axes

    def of_one(self, axis: str) -> Space:
        """The space of one point along a leading axis."""
        leading = tuple(a for a in self.leading if a != axis)
        times, channels = (0, self.channels) if axis == "t" else (self.times, ())
        return replace(self, leading=leading, channels=channels, times=times)

    def with_leading(self, times: int, has_channels: bool, channels: tuple[str, ...]) -> Space:
        """The same place with other axes before it."""
        leading = (("t",) if times else ()) + (("c",) if has_channels else ())
        return replace(self, leading=leading, channels=channels, times=times)

    @property
    def visible(self) -> tuple[int, ...]:
        """Positions of the user's axes among z, y, x."""
        return tuple(AXES.index(a) for a in self.axes)

    @property
    def grid_origin(self) -> tuple[float, float, float]:
        """The origin of the whole grid that slices are of."""
        return self.origin if self.sliced_from is None else self.sliced_from

    @property
    def knows_size(self) -> bool:
        """Whether anybody said how large voxels are: 1 without a unit is what formats hold if not."""
        size = self.voxel_size
        return size is not None and (
            self.unit is not None or any(size[a] != 1.0 for a in self.visible)
        )

    @property
    def knows_origin(self) -> bool:
        """Whether anybody said where it lies; of a volume of known voxels 0 is a place, too."""
        return self.knows_size or any(self.grid_origin[a] for a in self.visible)

    def shifted(self, offset: tuple[int, int, int]) -> Space:
        """The space of a crop that starts at voxel ``offset``."""
        size = self.voxel_size or (1.0, 1.0, 1.0)
        z, y, x = (o + s * k for o, s, k in zip(self.origin, size, offset, strict=True))
        return replace(self, origin=(z, y, x), sliced_from=self.grid_origin)

    def unsliced(self) -> Space:
        """The same place, as that of a volume of its own."""
        return replace(self, sliced_from=None)

    def resized(self, voxel_size: tuple[float, float, float], counted: bool | None = None) -> Space:
        """The space of voxels that are said to be of another size; slices begin at the same voxel.

        ``counted`` says whether the origin counts voxels: where no size is known, by default.
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
        """The same with its lengths in another unit; numbers of which the unit is not known stay."""
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
        """What a result of two volumes has, voxel by voxel: all that either of them knows.

        The rule is in docs/internals/rules.md. What both know has to be equal; what one does not know, the
        other says; the unit is the first one that is known. Origins may differ between slices of
        one grid, and the result has that of the first.

        Raises
        ------
        DifferentSpaces
            Both know something, and it is not the same.

        Examples
        --------
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
        if self.knows_origin and other.knows_origin and not _meet(first, second):
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
        """The space with its axes in another order; names stay with positions."""
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
        """The space of voxels ``scale`` times as large, the first at position ``first``, in voxels."""
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
    """A length times a factor, of the decimal number that the length is written as."""
    try:
        return float(Fraction(repr(float(length))) * factor)
    except (OverflowError, ValueError):  # larger than any float, or no number
        return length * math.inf


def _same(a: float, b: float, beside: float = 0.0) -> bool:
    """Whether two lengths are one, but for how they are stored; near 0 beside a voxel."""
    return a == b or abs(a - b) <= _SAME * max(abs(a), abs(b), beside)


def _meet(first: Space, second: Space) -> bool:
    """Whether two volumes of equal voxels lie at one place, or are slices of one grid."""
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
    """Lengths along the axes that the user sees, with their unit."""
    assert lengths is not None
    numbers = between.join(f"{lengths[a]:.12g}" for a in space.visible)
    return f"{numbers} {space.unit or 'without a unit'}"
