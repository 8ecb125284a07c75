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

    def view(self, order: tuple[int, int, int]) -> Space:
        """The space with its axes in another order; names stay with positions."""
        (a, b, c), size, origin = order, self.voxel_size, self.origin
        return replace(
            self,
            voxel_size=None if size is None else (size[a], size[b], size[c]),
            origin=(origin[a], origin[b], origin[c]),
        )

    def resampled(
        self, scale: tuple[float, float, float], first: tuple[float, float, float]
    ) -> Space:
        """The space of voxels ``scale`` times as large, the first at position ``first``, in voxels."""
        size = self.voxel_size or (1.0, 1.0, 1.0)
        oz, oy, ox = (o + s * p for o, s, p in zip(self.origin, size, first, strict=True))
        z, y, x = (s * f for s, f in zip(size, scale, strict=True))
        return replace(
            self, voxel_size=None if self.voxel_size is None else (z, y, x), origin=(oz, oy, ox)
        )
