"""Contrast from histograms of tiles, named as in scikit-image's exposure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beam_volumes.base.geometry import Triple
from beam_volumes.graph.nodes import Formula, FormulaValue, Node
from beam_volumes.graph.volume import Volume, as_volume
from beam_volumes.kernels.casting import kernel_array
from beam_volumes.kernels.elementary.exp_log import flat_rows
from beam_volumes.kernels.intensity import tiles as kernels
from beam_volumes.kernels.scratch import Scratch
from beam_volumes.ops.filters.linear import accumulator
from beam_volumes.ops.intensity.exposure import rescale_intensity
from beam_volumes.ops.measure import reductions
from beam_volumes.ops.measure.folds import Fold
from beam_volumes.ops.measure.folds_along import LIMIT
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.building import stage_in, triple
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.sweep.reduction import Slices
from beam_volumes.sweep.stage import Block, KernelStage, PlainData

#: Counts of all tiles with one position along z, by this position.
TileState = dict[int, np.ndarray]


@dataclass(frozen=True)
class Tiling(PlainData):
    """The tiles of a volume: they start at its first voxel, and the last ones extend beyond it."""

    shape: Triple
    sizes: Triple
    nbins: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """The number of tiles along z, y and x, and of bins."""
        z, y, x = (-(-n // size) for n, size in zip(self.shape, self.sizes, strict=True))
        return z, y, x, self.nbins

    @property
    def levels_per_bin(self) -> int:
        return 1 + kernels.LEVELS // self.nbins

    def repeats(self, axis: int) -> np.ndarray:
        """How often each position occurs in the mirrored part of the last tile."""
        n, size = self.shape[axis], self.sizes[axis]
        period = max(1, 2 * (n - 1))
        beyond = np.arange(n, -(-n // size) * size) % period
        return np.bincount(np.minimum(beyond, period - beyond) if n > 1 else beyond, minlength=n)


@dataclass(frozen=True, eq=False)
class TileCounts(Fold):
    """Counts of levels in each tile. ``values`` are the smallest and largest voxel."""

    tiling: Tiling

    cost = 4.0

    @property
    def state_bytes(self) -> int:
        return 4 * math.prod(self.tiling.counts)

    def zero(self) -> TileState:
        return {}

    def fold_slices(self, slices: Slices, values: tuple[Any, ...]) -> TileState:
        tiling, start = self.tiling, slices.start
        again = [tiling.repeats(axis) for axis in range(3)]
        rows, cols = slices.voxels[0].shape
        along = []
        for axis, n in ((1, rows), (2, cols)):
            at = np.arange(start[axis], start[axis] + n)
            along += [at // tiling.sizes[axis], again[axis][at]]
        state: TileState = {}
        bins = np.empty(cols, np.int64)
        for k, view in enumerate(slices.voxels):
            z = start[0] + k
            flat, pitch = flat_rows(kernel_array(view))
            levels = *ends(*values), float(tiling.levels_per_bin)
            for tile, weight in ((z // tiling.sizes[0], 1), (tiling.counts[0] - 1, again[0][z])):
                if weight:
                    counts = state.setdefault(tile, np.zeros(tiling.counts[1:], np.uint32))
                    kernels.count_in_tiles(
                        flat, pitch, rows, cols, *levels, np.int64(weight), *along, counts, bins
                    )
        return state

    def merge(self, a: TileState, b: TileState) -> TileState:
        both = {k: a[k] + b[k] for k in a.keys() & b.keys()}
        return {**a, **b, **both}

    def pieces(self, state: TileState) -> Iterator[tuple[int, np.ndarray]]:
        yield from state.items()

    def put_together(self, pieces: Mapping[int, Any]) -> TileState:
        return dict(pieces)

    def finish(self, state: TileState, values: tuple[Any, ...]) -> np.ndarray:
        counts = np.zeros(self.shape, self.dtype)
        for tile, own in state.items():
            counts[tile] = own
        return counts


def ends(low: Any, high: Any) -> tuple[float, float]:
    """Return the lower end of a range, and its extent."""
    return float(low), float(high) - float(low)


@dataclass(frozen=True, eq=False)
class TileCurves(Formula):
    """The level of each bin of each tile, from counts."""

    limit: int  #: The maximum count of a bin.
    voxels: int  #: The number of voxels of a tile.

    def evaluate(self, *arguments: Any) -> Any:
        (counts,) = arguments
        curves = np.empty(counts.shape, np.uint16)
        by_tile = counts.reshape(-1, counts.shape[-1]).astype(np.int64)
        kernels.curves_of_tiles(by_tile, self.limit, self.voxels, curves.reshape(by_tile.shape))
        return curves


@dataclass(frozen=True, eq=False)
class BetweenTiles(KernelStage):
    """Levels of voxels, interpolated between tiles. Values are the extremes and the curves."""

    tiling: Tiling

    cost = 12.0
    kernel = staticmethod(kernels.between_tiles)

    def scratch(self, rows: int, cols: int, depth: int) -> Scratch:
        return kernels.between_tiles.scratch(rows, cols, depth, self.dtype)

    def arguments(
        self, inputs: tuple[Block, ...], out: Block, y0: int, y1: int, values: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        low, high, curves = values
        where = inputs[0], out, y0, y1, out.cols, out.start, self.tiling.sizes
        levels = *ends(low, high), float(self.tiling.levels_per_bin)
        return *where, *levels, np.ascontiguousarray(curves)


@documented
def equalize_adapthist(
    volume: Volume,
    kernel_size: int | Sequence[int] | None = None,
    clip_limit: float = 0.01,
    nbins: int = 256,
) -> Volume:
    """Equalize the histogram locally, with limited contrast (CLAHE).

    Use it if structures are visible in some parts of a volume, but too dark or bright in other
    parts. Each tile has a curve that equalizes its histogram. A voxel is mapped by interpolating
    between the curves of the nearest tiles.

    Parameters
    ----------
    %(volume)s
        Each channel is equalized separately.
    kernel_size : int or sequence of int, optional
        Extent of a tile in voxels; one value for all axes or one per axis. By default, an eighth of
        the volume along each axis. 1 along z equalizes slice by slice.
    clip_limit : float, default: 0.01
        The largest fraction of a tile's voxels in one bin: larger numbers give more contrast. 0
        sets no limit.
    nbins : int, default: 256
        Number of bins of a tile's histogram, up to 16384.

    Returns
    -------
    Volume
        A volume from 0 to 1: float32 for integers of up to 16 bits, float16 and float32; float64
        for other dtypes.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the histograms of all tiles need more than 256 MiB. On
        computation, if a voxel is NaN or infinite.
    TypeError
        If ``volume`` is neither a volume nor an array, or is bool.

    See Also
    --------
    equalize_hist : uses one curve for the whole volume.
    normalize_slices : adjusts each slice.

    Notes
    -----
    Four sweeps: the range of the voxels, the histograms of tiles, the range of the result, and the
    result. Tiles belong to the grid of the volume, so the result does not depend on slabs. Every
    worker holds the curves of all tiles, ``2 * nbins`` bytes each. There is no halo.

    The result equals scikit-image's for unsigned integers of up to 16 bits. Other voxels are divided
    into 16384 levels directly, while scikit-image first scales them to 16 bits and clips negative
    voxels. scikit-image also converts colours to HSV; to do the same, equalize the value channel of
    `rgb2hsv`.

    References
    ----------
    `skimage.exposure.equalize_adapthist`; K. Zuiderveld, "Contrast limited adaptive histogram
    equalization", Graphics Gems IV (1994).

    Examples
    --------
    >>> uneven = np.array([[0, 2, 0, 2, 200, 220, 200, 220]], "u1")
    >>> np.asarray(bv.equalize_adapthist(uneven, (1, 4), 0)).round(1)[0]
    array([0. , 1. , 0. , 0.5, 0.5, 1. , 0. , 1. ], dtype=float32)
    """
    volume = as_volume(volume)
    name = "equalize_adapthist"
    if volume.dtype == bool:
        raise TypeError(f"{name}: a bool volume has no contrast; cast it with astype first")
    axes, shape = volume.space.visible, triple(volume.grid_shape)
    default = [max(1, shape[a] // 8) for a in axes]
    given = default if kernel_size is None else kernel_size
    sizes = triple(par.whole_numbers(given, axes, 1, "kernel_size", 1, name))
    if not (par.is_number(clip_limit) and 0 <= clip_limit < math.inf):
        raise ValueError(f"{name}: clip_limit={clip_limit!r} is not a finite number of at least 0")
    nbins = par.bins_of(nbins, "nbins", name)
    if nbins > kernels.LEVELS:
        raise ValueError(f"{name}: nbins={nbins}: the maximum is {kernels.LEVELS} bins")
    tiling = Tiling(shape, sizes, nbins)
    if 4 * math.prod(tiling.counts) > LIMIT:
        raise ValueError(
            f"{name}: kernel_size={kernel_size!r} divides {volume.shape} into "
            f"{math.prod(tiling.counts[:3]):,} tiles, with histograms of more than {LIMIT >> 20} MiB; "
            "use larger tiles or fewer bins"
        )
    if math.prod(sizes) >= 1 << 32:
        raise ValueError(f"{name}: kernel_size={kernel_size!r}: a tile has up to 2**32 voxels")
    result = accumulator(volume.dtype)
    if not volume.size:
        return volume.astype(result)

    def equalized(node: Node) -> Node:
        one = Volume((node,), volume.space.of_one("c"))
        return _equalized(name, one, tiling, clip_limit, result).node

    return volume.map_channels(equalized)


def _equalized(
    name: str, volume: Volume, tiling: Tiling, clip_limit: float, result: np.dtype
) -> Volume:
    low, high = reductions.min(volume), reductions.max(volume)
    source = TileCounts.check(name, volume.dtype, "raise")
    reduction = TileCounts(name, np.dtype(np.uint32), tiling.counts, source, "raise", tiling)
    counts = reductions.fold(reduction, volume, None, low, high)
    voxels = math.prod(tiling.sizes)
    limit = max(1, int(min(clip_limit, 1.0) * voxels)) if clip_limit else voxels
    curves = FormulaValue.of(
        TileCurves(name, limit, voxels), (counts.value,), np.dtype(np.uint16), tiling.counts
    )
    stage = BetweenTiles(name, np.dtype(np.uint16), tiling)
    levels = stage_in(stage.dtype, volume, stage, low.value, high.value, curves)
    return rescale_intensity(levels, out_range=(0.0, 1.0), dtype=result)
