"""What the voxels of a volume mean: axes, voxel size, unit and origin."""

from __future__ import annotations

from dataclasses import dataclass, replace

AXES = ("z", "y", "x")


@dataclass(frozen=True)
class Space:
    """Axes and physical grid of a volume.

    Attributes
    ----------
    axes : tuple of str
        The axes the user sees, a subset of ``("z", "y", "x")`` in that order. The others exist
        inside with extent 1.
    voxel_size, origin : tuple of float or None
        Per internal axis z, y, x, in ``unit``. ``origin`` is the centre of voxel (0, 0, 0).
    unit : str or None
        The OME-NGFF name of the length unit, e.g. ``"nanometer"``.
    """

    axes: tuple[str, ...] = AXES
    voxel_size: tuple[float, float, float] | None = None
    unit: str | None = None
    origin: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def visible(self) -> tuple[int, ...]:
        """Positions of the user's axes among z, y, x."""
        return tuple(AXES.index(a) for a in self.axes)

    def shifted(self, offset: tuple[int, int, int]) -> Space:
        """The space of a crop that starts at voxel ``offset``."""
        size = self.voxel_size or (1.0, 1.0, 1.0)
        z, y, x = (o + s * k for o, s, k in zip(self.origin, size, offset, strict=True))
        return replace(self, origin=(z, y, x))
