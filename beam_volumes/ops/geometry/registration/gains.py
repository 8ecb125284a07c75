"""Equal brightness of tiles, from their overlaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage, sparse

from beam_volumes.base.higher import driver
from beam_volumes.graph.table import ComputedTable
from beam_volumes.graph.volume import Volume
from beam_volumes.ops.geometry.computed_tiles import tile_source
from beam_volumes.ops.geometry.fusion import fuse
from beam_volumes.ops.geometry.registration.links import connected, factorized
from beam_volumes.ops.geometry.registration.tiles import opened_tiles, overlapping
from beam_volumes.ops.geometry.resampling import downsample
from beam_volumes.ops.geometry.transforms import matrices_of
from beam_volumes.ops.geometry.validity import marked_volume, masks_of, nodata_of
from beam_volumes.ops.parameters import checks as par
from beam_volumes.ops.parameters.docs import documented
from beam_volumes.ops.pointwise import where
from beam_volumes.runs.console import shown_progress

#: The desired number of blocks of an overlap, their least extent, and their maximum number of voxels.
_BLOCKS, _SIDE, _MAX_VOXELS = 512, 4, 1 << 18
#: The desired number of blocks of all overlaps, and the least share of an overlap.
_ALL_BLOCKS, _MIN_SHARE = 1 << 20, 64
#: Overlaps with fewer blocks are not used.
_MIN_BLOCKS = 4
#: The start of the scale of residuals, relative to the brightness, its least value, and its factor.
_SCALE, _MIN_SCALE, _DECREASE = 1.0, 1e-3, 0.75
#: The share of residuals in their core, and the extent of this share in standard deviations.
_CORE, _CORE_EXTENT, _CORES = 0.25, 0.3186, 2.0
_MAX_STEPS, _CONVERGED = 100, 1e-10
#: The least brightness for relative residuals, compared with the median of all blocks.
_DARK = 0.05
#: Weights of unit gains and of zero offsets: they decide only what overlaps leave open.
_WEAK_GAIN, _WEAK_OFFSET = 1e-9, 1e-7
#: Matrices that differ less from the identity copy voxels.
_ROUNDING = 1e-9


@documented
def match_tiles(
    tiles: Sequence[Volume],
    transforms: Any,
    *,
    offset: bool = False,
    saturation: float | None = None,
    mask: Volume | Sequence[Volume | None] | None = None,
    nodata: float | None = None,
    progress: bool | Callable[..., None] | None = None,
) -> ComputedTable:
    """Find a gain for each tile, so that overlapping tiles are equally bright.

    Use it if seams remain after `estimate_flat_field`, for example because the exposure changes or the
    sample bleaches. Pass the columns to `fuse` as lists, or multiply each tile by its gain.

    Parameters
    ----------
    tiles : sequence of Volume or numpy.ndarray
        Tiles with one channel and the same axes, opened or computed. With rotations, scales or shears,
        the operations of computed tiles must be accepted by `fuse`.
    transforms : array_like, table or path
        For each tile, the position of its first voxel, in voxels, or a matrix, as in `fuse`. The
        table of `register_tiles` is accepted as well.
    offset : bool, default: False
        Whether to find an offset for each tile as well. Overlaps need dark and bright parts.
    saturation : float, optional
        Voxels of at least this value are not used; by default, the largest value of an integer dtype.
    mask : Volume, numpy.ndarray or sequence of these, optional
        Only voxels with a nonzero mask are used: one mask for all tiles, or a list with a mask or
        None for each tile. A mask has the shape of its tile, and bool or integer voxels.
    nodata : float, optional
        The value of voxels without data, such as 0 for black borders. They are not used.
    progress : bool or callable, optional
        Whether to show progress on standard error, or a function to call with the progress, as in
        `compute`.

    Returns
    -------
    ComputedTable
        A row for each tile, in order. ``tile * gain + offset`` is the corrected tile. ``links`` is the
        number of overlaps that are used, and ``residual`` the median relative difference of blocks
        in these overlaps after correction. In each group of linked tiles, the median of 1 / gain is
        1, and the median of offsets is 0. A nearly black tile therefore does not darken the others.
        Tiles without links have the gain 1.

    Raises
    ------
    ValueError
        If a parameter is out of range, or there is not one position for each tile. If tiles differ
        in axes, or have several channels, time points or no voxels. If a mask differs from its tile.
    TypeError
        If a tile is neither a volume nor an array, or has bool or complex voxels, or if a mask has
        floats.

    See Also
    --------
    register_tiles : finds the positions.
    estimate_flat_field : estimates the illumination that all tiles share.
    fuse : accepts the gains and offsets.

    Notes
    -----
    Only overlaps are read, each once for each of its two tiles. An overlap is divided into at most 512
    blocks, or fewer for more than 2,000 overlaps. Memory is about 200 bytes for each block, at most
    200 MiB for up to 16,000 overlaps, in addition to a sweep of one overlap. Overlaps that are black in
    one tile are not used.

    Positions are rounded to whole voxels; tiles with matrices are sampled at the nearest voxel.

    The mean of a block is computed in both tiles, from voxels that are valid in both. The gains of all
    tiles are solved together by least squares of relative differences. Weights are robust: the scale
    of differences decreases to their noise, so blocks with objects that moved count little. A weak
    preference for the gain 1 and the offset 0 decides what overlaps leave open.

    References
    ----------
    S. Uyttendaele, A. Eden and R. Szeliski, "Eliminating ghosting and exposure artifacts in image
    mosaics", Conference on Computer Vision and Pattern Recognition, 2001.

    M. J. Black and A. Rangarajan, "On the unification of line processes, outlier rejection, and
    robust statistics with applications in early vision", International Journal of Computer Vision
    19, 1996.

    Examples
    --------
    >>> film = np.random.default_rng(0).uniform(100, 200, (60, 100))
    >>> left, right = film[:, :60] * 0.8, film[:, 40:] * 1.2
    >>> table = bv.match_tiles([left, right], [(0, 0), (0, 40)])
    >>> gains = table["gain"].to_pylist()
    >>> [round(gain, 3) for gain in gains]
    [1.25, 0.833]
    >>> even = bv.fuse([left, right], [(0, 0), (0, 40)], gain=gains)
    """
    name = "match_tiles"
    if not isinstance(offset, (bool, np.bool_)):
        raise TypeError(f"{name}: offset={offset!r} is neither True nor False")
    if saturation is not None and not (par.is_number(saturation) and math.isfinite(saturation)):
        raise ValueError(f"{name}: saturation={saturation!r} is not a finite number; give a value")
    opened = opened_tiles(tiles, name)
    for k, v in enumerate(opened):
        if v.dtype.kind not in "uif":
            raise TypeError(
                f"{name}: tile {k} has dtype {v.dtype}; give integers or floats, with astype"
            )
    matrices, places = matrices_of(transforms, opened[0].space.axes, len(opened), name, "tiles")
    masks = masks_of(mask, opened, name, "tile")
    if not _are_shifts(matrices, matrices[:1]):
        for k, (v, m) in enumerate(zip(opened, masks, strict=True)):
            tile_source(v.node, v.space, f"{name}: tile {k}", {})
            if m is not None:
                tile_source(m.node, m.space, f"{name}: the mask of tile {k}", {})
    every = _Tiles(
        opened,
        matrices,
        places,
        masks,
        [nodata_of(nodata, v.dtype, name) for v in opened],
        [_saturation(v.dtype, saturation) for v in opened],
    )
    pairs = every.pairs
    limit = min(_BLOCKS, max(_MIN_SHARE, _ALL_BLOCKS // max(1, len(pairs))))
    used, blocks = list[tuple[int, int]](), list[np.ndarray]()
    with shown_progress(name, len(pairs), "pairs", progress) as finished:
        for pair in pairs:
            found = every.means(*pair, limit)
            # No gain makes a black overlap as bright as another.
            if found.shape[1] >= _MIN_BLOCKS and found.any(axis=1).all():
                used.append(pair)
                blocks.append(found)
            finished()
    return _table(len(opened), used, blocks, bool(offset))


def _are_shifts(matrices: np.ndarray, first: np.ndarray) -> bool:
    """Return whether tiles with these matrices are only moved against tiles with the first."""
    return bool((abs(matrices - first) < _ROUNDING).all())


def _saturation(dtype: np.dtype, given: float | None) -> float | None:
    if given is None and dtype.kind in "ui":
        return int(np.iinfo(dtype).max)
    return given


@dataclass(frozen=True)
class _Tiles:
    """Tiles with transforms, and the blocks of their overlaps."""

    opened: Sequence[Volume]
    matrices: np.ndarray
    places: np.ndarray
    masks: Sequence[Volume | None]
    nodata: Sequence[float | None]
    saturation: Sequence[float | None]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of tiles with boxes that overlap."""
        shapes = np.array([v.shape for v in self.opened], np.float64)
        centre = np.einsum("tab,tb->ta", self.matrices, (shapes - 1) / 2) + self.places
        reach = np.einsum("tab,tb->ta", abs(self.matrices), shapes / 2)
        return overlapping(centre - reach, centre + reach)

    def means(self, i: int, j: int, limit: int) -> np.ndarray:
        """Return the means of blocks in both tiles, (2, blocks); there are at most ``limit`` blocks."""
        both = self._overlap(i, j)
        if both is None:
            return np.zeros((2, 0))
        is_common: Any = np.isfinite(both[0]) & np.isfinite(both[1])
        factors = _factors(both[0].shape, limit)
        parts = [downsample(where(is_common, v, np.float32(0)), factors) for v in both]
        share = downsample(is_common.astype("f4"), factors)
        a, b, valid = driver().compute(*parts, share, runner=None, progress=False)
        used = np.flatnonzero(valid >= 0.5)
        if len(used) > limit:  # blocks have a maximum size, so large overlaps have many
            used = used[np.linspace(0, len(used) - 1, limit).astype(int)]
        share = valid.ravel()[used].astype(np.float64)
        return np.stack([v.ravel()[used] / share for v in (a, b)])

    def _overlap(self, i: int, j: int) -> tuple[Volume, Volume] | None:
        """Return both tiles on the voxels of the first, with NaN where they are missing."""
        inverse = np.linalg.inv(self.matrices[i])
        matrix, place = inverse @ self.matrices[j], inverse @ (self.places[j] - self.places[i])
        n, m = (np.array(self.opened[k].shape) for k in (i, j))
        is_shift = _are_shifts(matrix, np.eye(len(n)))
        if is_shift:
            low = np.rint(place).astype(int)
            high = low + m
        else:
            middle, reach = matrix @ ((m - 1) / 2) + place, abs(matrix) @ (m / 2)
            low, high = (np.rint(middle + s * reach).astype(int) for s in (-1, 1))
        start, stop = np.maximum(low, 0), np.minimum(high, n)
        if (start >= stop).any():
            return None
        near = self._valid(i, start, stop)
        if is_shift:
            far = self._valid(j, start - low, stop - low)
        else:
            moved = np.concatenate([matrix, (place - start)[:, None]], axis=1)
            how: dict[str, Any] = {"shape": (stop - start).tolist(), "order": 0, "dtype": "f4"}
            how |= {"mask": self.masks[j], "nodata": self.nodata[j], "fill": math.nan}
            far = self._unsaturated(j, fuse([self.opened[j]], [moved], blending="first", **how))
        return near, far.with_space(near)

    def _valid(self, k: int, start: np.ndarray, stop: np.ndarray) -> Volume:
        """Return a box of a tile."""
        box = tuple(slice(a, b) for a, b in zip(start.tolist(), stop.tolist(), strict=True))
        mask = self.masks[k]
        voxels = marked_volume(
            self.opened[k][box],
            None if mask is None else mask[box],
            self.nodata[k],
            [1] * len(start),
        )
        return self._unsaturated(k, voxels.astype("f4"))

    def _unsaturated(self, k: int, voxels: Volume) -> Volume:
        limit = self.saturation[k]
        if limit is None:
            return voxels
        return where(voxels < np.float32(limit), voxels, np.float32(np.nan))


def _factors(shape: Sequence[int], limit: int) -> list[int]:
    """Return the extent of blocks."""
    extents = np.array(shape)
    factors = np.where(extents >= _SIDE * _SIDE, _SIDE, 1)
    while np.prod(-(-extents // factors)) > limit and 2 * np.prod(factors) <= _MAX_VOXELS:
        factors[int(np.argmax(extents / factors))] *= 2
    return [int(f) for f in factors]


def _table(
    count: int, pairs: Sequence[tuple[int, int]], blocks: Sequence[np.ndarray], has_offset: bool
) -> ComputedTable:
    """Return the table of gains from the pairs and their blocks."""
    import pyarrow

    gains, offsets = np.ones(count), np.zeros(count)
    links = np.zeros(count, np.int64)
    residuals: list[float | None] = [None] * count
    if pairs:
        ends = np.array(pairs)
        links = np.bincount(ends.ravel(), minlength=count)
        of_block = np.repeat(np.arange(len(pairs)), [b.shape[1] for b in blocks])
        equations = _Equations(count, ends, of_block, *np.concatenate(blocks, axis=1))
        gains, offsets = equations.solved(has_offset)
        residuals = equations.medians(gains, offsets)
    columns = {
        "gain": pyarrow.array(gains, pyarrow.float64()),
        "offset": pyarrow.array(offsets, pyarrow.float64()),
        "links": pyarrow.array(links, pyarrow.int64()),
        "residual": pyarrow.array(residuals, pyarrow.float64()),
    }
    return ComputedTable(pyarrow.table(columns))


@dataclass(frozen=True, eq=False)
class _Equations:
    """Blocks of all overlaps, and the gains for which they are equal in both tiles."""

    count: int
    ends: np.ndarray  #: The tiles of each overlap, (overlaps, 2)
    of_block: np.ndarray  #: The overlap of each block
    near: np.ndarray
    far: np.ndarray

    def solved(self, has_offset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the gains and the offsets of all tiles."""
        n, group = self.count, connected(self.ends, self.count)
        bright = self._brightness(np.ones(n), np.zeros(n))
        size = float(np.median(bright[bright > 0]))
        gains, offsets, scale = np.ones(n), np.zeros(n), _SCALE
        i, j = self.ends[self.of_block].T
        for _ in range(_MAX_STEPS):
            residuals, unit = self._residuals(gains, offsets)
            core = float(np.quantile(abs(residuals), _CORE)) / _CORE_EXTENT
            min_scale = max(_MIN_SCALE, _CORES * core)
            weights = 1 / (1 + (residuals / scale) ** 2) ** 2
            # Unknown are relative changes of gains, and offsets in units of the usual brightness. Slopes are
            # equal in both tiles: otherwise, smaller gains of all tiles would make differences smaller.
            near, far = self._corrected(gains, offsets)
            slope = (near - offsets[i] + far - offsets[j]) / (2 * unit)
            slopes = [slope, -slope]
            if has_offset:
                slopes += [size / unit, -size / unit]
            normal, right = self._normal(slopes, weights, residuals, has_offset)
            weak = np.full(n, _WEAK_GAIN)
            before = gains - 1
            if has_offset:
                weak = np.concatenate([weak, np.full(n, _WEAK_OFFSET)])
                before = np.concatenate([before, offsets / size])
            weak = weak * weights.sum() / n
            change = factorized((normal + sparse.diags(weak)).tocsc()).solve(-right - weak * before)
            gains = gains * (1 + np.clip(change[:n], -0.5, 0.5))
            if has_offset:
                offsets = offsets + size * change[n:]
            mean = _means(gains, group)
            gains, offsets = gains / mean, offsets / mean
            offsets = offsets - _means(offsets, group)
            if scale <= min_scale and abs(change).max() < _CONVERGED:
                break
            scale = max(scale * _DECREASE, min(min_scale, scale))
        # The steps keep the mean, which a single dark tile changes for all others.
        bright = _medians(1 / gains, group)
        offsets = bright * offsets
        return bright * gains, offsets - _medians(offsets, group)

    def medians(self, gains: np.ndarray, offsets: np.ndarray) -> list[float | None]:
        """Return the median relative difference in the overlaps of each tile."""
        tiles = self.ends[self.of_block].T.ravel()
        both = np.tile(abs(self._residuals(gains, offsets)[0]), 2)
        order = np.argsort(tiles, kind="stable")
        parts = np.split(both[order], np.searchsorted(tiles[order], np.arange(1, self.count)))
        return [float(np.median(part)) if len(part) else None for part in parts]

    def _corrected(self, gains: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        i, j = self.ends[self.of_block].T
        return gains[i] * self.near + offsets[i], gains[j] * self.far + offsets[j]

    def _brightness(self, gains: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        near, far = self._corrected(gains, offsets)
        return np.asarray((abs(near) + abs(far)) / 2)

    def _residuals(self, gains: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the relative difference of each block, and the brightness that is its unit."""
        near, far = self._corrected(gains, offsets)
        bright = self._brightness(gains, offsets)
        known = bright[bright > 0]
        unit = np.maximum(bright, _DARK * np.median(known) if len(known) else 1.0)
        return (near - far) / unit, unit

    def _normal(
        self,
        slopes: Sequence[np.ndarray],
        weights: np.ndarray,
        residuals: np.ndarray,
        has_offset: bool,
    ) -> tuple[sparse.csc_matrix, np.ndarray]:
        """Return the normal equations, which add up blocks by overlap."""
        i, j = self.ends.T
        columns = [i, j, self.count + i, self.count + j][: len(slopes)]
        total = self.count * (2 if has_offset else 1)
        pairs = [(p, q) for p in range(len(slopes)) for q in range(len(slopes))]

        def summed(values: np.ndarray) -> np.ndarray:
            return np.bincount(self.of_block, values, len(self.ends))

        entries = np.concatenate([summed(weights * slopes[p] * slopes[q]) for p, q in pairs])
        rows = np.concatenate([columns[p] for p, _ in pairs])
        others = np.concatenate([columns[q] for _, q in pairs])
        normal = sparse.coo_matrix((entries, (rows, others)), (total, total)).tocsc()
        right = np.zeros(total)
        for column, slope in zip(columns, slopes, strict=True):
            right += np.bincount(column, summed(weights * slope * residuals), total)
        return normal, right


def _means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the mean of the group of each tile."""
    return np.asarray((np.bincount(group, values) / np.bincount(group))[group])


def _medians(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return the median of the group of each tile."""
    return np.asarray(ndimage.median(values, group, np.arange(group.max() + 1)))[group]
