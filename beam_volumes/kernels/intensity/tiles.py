"""Histograms of the tiles of a volume, clipped, and voxels mapped by the curves of the nearest tiles."""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.scratch import needs

#: Number of grey levels of voxels and results.
LEVELS = 1 << 14


@kernel
def _bins(row, low, wide, per_bin, bins):
    """The bin of each voxel of a row, of `LEVELS` levels from ``low`` to ``low + wide``."""
    for x in range(bins.size):
        level = np.rint((np.float64(row[x]) - low) / wide * (LEVELS - 1.0))
        level = level if level > 0.0 else 0.0  # also without a range
        level = level if level < LEVELS - 1.0 else LEVELS - 1.0
        bins[x] = np.int64(np.floor(level / per_bin))


@kernel
def count_in_tiles(
    src, pitch, rows, cols, low, wide, per_bin, weight, y, y_more, x, x_more, counts, bins
):
    """Add ``weight`` to the counts of the tiles of each voxel, (tiles along y, along x, bins)."""
    # ``y`` and ``x`` are the tiles of rows and columns. The last tile extends beyond the volume and repeats
    # rows ``y_more`` and columns ``x_more`` times. ``bins``, int64, are a row of scratch.
    last_y, last_x = counts.shape[0] - 1, counts.shape[1] - 1
    for j in range(rows):
        _bins(src[j * pitch : j * pitch + cols], low, wide, per_bin, bins)
        for part in range(2):
            tile = y[j] if part == 0 else last_y
            times = weight if part == 0 else weight * y_more[j]
            if times == 0:
                continue
            for i in range(cols):
                counts[tile, x[i], bins[i]] += times
                if x_more[i]:
                    counts[tile, last_x, bins[i]] += times * x_more[i]


@kernel
def _clip(counts, limit):
    """Clip the counts of a tile, and distribute the rest as scikit-image's ``clip_histogram``."""
    size = counts.size
    rest = 0
    for i in range(size):
        if counts[i] > limit:
            rest += counts[i] - limit
            counts[i] = limit
    step = rest // size
    upper = limit - step
    for i in range(size):
        if counts[i] < upper:
            rest -= step
            counts[i] += step
        elif counts[i] < limit:
            rest += counts[i] - limit
            counts[i] = limit
    while rest > 0:
        before = rest
        for first in range(size):
            below = 0
            for i in range(size):
                below += counts[i] < limit
            for i in range(first, size, max(1, below // rest)):
                if counts[i] < limit:
                    counts[i] += 1
                    rest -= 1
            if rest <= 0:
                break
        if before == rest:
            break


@kernel
def curves_of_tiles(counts, limit, voxels, curves):
    """The level of each bin, for each tile: its share of the ``voxels`` of the tile up to this bin.

    ``counts``, int64 (tiles, bins), are overwritten.
    """
    scale = (LEVELS - 1) / voxels
    for tile in range(len(counts)):
        _clip(counts[tile], limit)
        total = 0
        for i in range(counts.shape[1]):
            total += counts[tile, i]
            level = np.float64(total) * scale
            curves[tile, i] = np.uint16(level if level < LEVELS - 1 else LEVELS - 1)


@kernel
def _nearest(at, size, tiles):
    """The tiles before and after a position, and the share of the second."""
    shifted = at + size // 2
    block = shifted // size
    before = min(max(block - 1, 0), tiles - 1)
    return before, min(block, tiles - 1), np.float64(shifted - block * size) / size


def _scratch(rows, cols, depth, dtype):
    return (
        ((cols,), np.int64),
        ((cols,), np.float32),
        ((2, cols), np.int64),
        ((2, cols), np.float64),
    )


@needs(_scratch)
@kernel
def between_tiles(src, out, y0, y1, nx, start, sizes, low, wide, per_bin, curves, scratch):
    """Interpolate between the levels that the curves of the nearest tiles have for a voxel.

    ``curves`` has the axes z, y and x of tiles, and bins; ``sizes`` are the extent of a tile.
    """
    # Sums are in float32, in the order of scikit-image.
    nz, ny, nx_tiles, nbins = curves.shape
    flat = curves.reshape(-1)
    bins, sums, tiles, shares = scratch
    for x in range(nx):
        before, after, share = _nearest(start[2] + x, sizes[2], nx_tiles)
        tiles[0, x], tiles[1, x] = before * nbins, after * nbins
        shares[0, x], shares[1, x] = 1.0 - share, share
    for k in range(out.firsts.size):
        z_tiles = _nearest(start[0] + k, sizes[0], nz)
        for y in range(y0, y1):
            y_tiles = _nearest(start[1] + y, sizes[1], ny)
            row = src.lines[src.firsts[k] + y, src.left : src.left + nx]
            _bins(row, low, wide, per_bin, bins)
            sums[:] = 0
            for corner in range(4):
                later_z, later_y = corner >> 1, corner & 1
                share_z = z_tiles[2] if later_z else 1.0 - z_tiles[2]
                share_y = y_tiles[2] if later_y else 1.0 - y_tiles[2]
                if share_z == 0.0 or share_y == 0.0:
                    continue
                tz = z_tiles[1] if later_z else z_tiles[0]
                ty = y_tiles[1] if later_y else y_tiles[0]
                first = (tz * ny + ty) * nx_tiles * nbins
                for later_x in range(2):
                    at, share_x = tiles[later_x], shares[later_x]
                    for x in range(nx):
                        weight = share_x[x] * share_y * share_z
                        level = np.float64(flat[first + at[x] + bins[x]])
                        sums[x] += np.float32(level * weight)
            result = out.lines[out.firsts[k] + y, out.left : out.left + nx]
            for x in range(nx):
                result[x] = np.uint16(sums[x])
