"""The division of a volume into slabs: cores, halos and sizes, known before reading."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from beam_volumes.base.geometry import NO_HALO, Box, Grid, Halo, Triple
from beam_volumes.base.text import format_bytes
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.transforms.slab import MAX_BYTES

#: A halo given by users: one number, or for each axis one number or (before, after).
HaloLike = int | Sequence[int | Sequence[int]]


@dataclass(eq=False)
class SlabGrid:
    """The division of a volume into slabs, for steps that need it before any slab exists.

    `LabelSlabs`, `RegionTable` and similar transforms use it to plan their merges, independent of
    the source of the slabs. A `ReadSlabs` has the same attributes and can be used instead.

    Parameters
    ----------
    volume : Volume
        The volume that is divided, or an expression with the same shape, dtype and space. No voxels
        are read.
    depth : int, default: 32
        Number of slices of a slab's core.
    tile : pair of int, optional
        Rows and columns of a slab's core, if whole planes are too large.
    halo : int or sequence, default: 0
        Number of additional voxels around the core, as in `ReadSlabs`.

    Raises
    ------
    ValueError
        If a slab would be larger than 8 MiB. The message suggests a smaller one.

    Examples
    --------
    >>> cut = bv.SlabGrid(bv.open(np.zeros((9, 20, 20), "u1")), depth=4, halo=1)
    >>> len(cut.grid), str(cut.grid.box(2)), cut.halo
    (3, '[8:9, 0:20, 0:20]', ((1, 1), (1, 1), (1, 1)))
    """

    volume: Volume
    depth: int = 32
    tile: tuple[int, int] | None = None
    halo: HaloLike = 0

    def __post_init__(self) -> None:
        self.volume = as_volume(self.volume)
        self.halo = as_halo(self.halo, self.volume.axes)
        self.grid = slab_grid(self.volume, self.depth, self.tile, self.halo)


def as_halo(halo: HaloLike, axes: Sequence[str]) -> Halo:
    """Return a halo (before, after) along z, y, x, from one number, or one or two per axis.

    >>> as_halo((1, (0, 2)), ("y", "x"))
    ((0, 0), (1, 1), (0, 2))
    """
    per_axis = list(halo) if isinstance(halo, Sequence) else [halo] * len(axes)
    found = dict.fromkeys("zyx", (0, 0))
    if len(per_axis) == len(axes):
        for axis, n in zip(axes, per_axis, strict=True):
            pair = tuple(n) if isinstance(n, Sequence) else (n, n)
            if len(pair) != 2 or not all(isinstance(k, int) and k >= 0 for k in pair):
                break
            found[axis] = (pair[0], pair[1])
        else:
            return (found["z"], found["y"], found["x"])
    raise ValueError(
        f"halo={halo!r}: give a whole number of at least 0, or one number or (before, after) for "
        f"each axis of {tuple(axes)}"
    )


def slab_grid(volume: Volume, depth: int, tile: Sequence[int] | None, halo: Halo = NO_HALO) -> Grid:
    """Return the grid of a volume's slabs; with their halos they must fit elements.

    >>> slab_grid(bv.open(np.zeros((9, 20, 20), "u1")), 4, (10, 10)).step
    (4, 10, 10)
    """
    if volume.space.times:
        raise ValueError(
            f"{volume!r}: slabs have one time point; choose one, as v[0], or use Compute for all"
        )
    shape = volume.node.shape
    wanted = (depth, *(shape[1:] if tile is None else tile))
    for n in wanted:
        if len(wanted) != 3 or not isinstance(n, int) or (n < 1 and n not in shape):
            raise ValueError(
                f"depth={depth!r}, tile={tile!r}: give whole numbers of at least 1, tile=(y, x)"
            )
    z, y, x = (max(1, min(n, size)) for n, size in zip(wanted, shape, strict=True))
    if _bytes((z, y, x), halo, volume) > MAX_BYTES:
        raise ValueError(
            f"slabs of {z} x {y} x {x} {volume.dtype} with the halo {halo} are "
            f"{format_bytes(_bytes((z, y, x), halo, volume))} each; elements are at most "
            f"{format_bytes(MAX_BYTES)}: {remedy((z, y, x), halo, volume)}"
        )
    return Grid(shape, (z, y, x))


def _bytes(core: Triple, halo: Halo, volume: Volume) -> int:
    shape = volume.node.shape
    extents = (min(n + sum(h), size) for n, h, size in zip(core, halo, shape, strict=True))
    return math.prod(extents) * volume.dtype.itemsize


def remedy(core: Triple, halo: Halo, volume: Volume) -> str:
    """Suggest a depth and a tile that fit."""
    z, y, x = core
    fits = [d for d in range(z, 0, -1) if _bytes((d, y, x), halo, volume) <= MAX_BYTES]
    offers = []
    if fits:
        # A multiple of the default chunk depth, if one fits.
        offers.append(f"depth={max([d for d in fits if d % 16 == 0] or fits)}")
    tiles = [(min(y, e), min(x, e)) for e in (2048, 1024, 512, 256, 128, 64, 32, 16)]
    tile = next((t for t in tiles if _bytes((z, *t), halo, volume) <= MAX_BYTES), None)
    if tile is not None:
        offers.append(f"tile={tile}")
    return f"use {' or '.join(offers)}" if offers else "use a smaller depth and a tile"


def halo_of(core: Box, box: Box) -> Halo:
    """Return the halo of a box around its core."""
    z, y, x = (
        (a - lo, hi - b)
        for a, b, lo, hi in zip(core.start, core.stop, box.start, box.stop, strict=True)
    )
    return (z, y, x)
