"""Twins with other arguments than their kernels, on the host: what they add to cells, or write."""

import numpy as np

from beam_volumes.kernels.labels import components
from beam_volumes.kernels.measure import accumulate, digests, histogram
from beam_volumes.kernels.morphology import distance
from beam_volumes.kernels.scratch import arrays


def views(src, mask, ny, nx):
    """The voxels and the mask of each slice."""
    for k in range(len(src.firsts)):
        yield [
            None
            if rows is None
            else rows.lines[rows.firsts[k] : rows.firsts[k] + ny, rows.left : rows.left + nx]
            for rows in (src, mask)
        ]


def extent(src, mask, ny, nx, cells):
    for voxels, where in views(src, mask, ny, nx):
        count, bad, low, high = accumulate.extent(voxels, where)
        cells[:2] += count, bad
        if count:
            of = accumulate.key_bits(src.lines.dtype)
            bits = np.array([low, high], src.lines.dtype).view(of.sign.dtype)
            keys = bits ^ np.where(bits & of.sign, of.negative, of.positive)
            ends = cells.view(np.uint64)[2:]
            every = np.iinfo(of.sign.dtype).max
            ends[:] = np.maximum(ends, [every - keys[0], keys[1]])


def moments(src, mask, ny, nx, cells, squares):
    for voxels, where in views(src, mask, ny, nx):
        voxels = voxels.ravel() if where is None else voxels[where]
        finite = voxels[np.isfinite(voxels)]
        cells[:2] += finite.size, voxels.size - finite.size
        exponent, sign, size = split(finite)
        a, b = size >> np.uint64(32), size & np.uint64(0xFFFFFFFF)
        digits = [b.astype("i8") * sign, a.astype("i8") * sign]
        if squares:
            wholes = [[int(n) for n in p] for p in (b * b, a * b, a * a)]
            low, middle, high = (np.array(w, object) for w in wholes)
            lowest = 0xFFFFFFFF
            digits += [low & lowest, (low >> 32) + 2 * (middle & lowest)]
            digits += [2 * (middle >> 32) + (high & lowest), high >> 32]
        for i, digit in enumerate(digits):
            np.add.at(cells, 2 + exponent * accumulate.DIGITS + i, digit.astype("i8"))


def split(voxels):
    """Exponent, sign and mantissa."""
    if voxels.dtype.kind != "f":
        sign = np.where(voxels < 0, -1, 1)
        size = [abs(int(v)) for v in voxels]
        return np.zeros(voxels.size, "i8"), sign, np.array(size, "u8")
    fraction = 23 if voxels.itemsize == 4 else 52
    bits = voxels.view(f"u{voxels.itemsize}").astype("u8")
    exponent = (bits >> np.uint64(fraction)).astype("i8") & (255 if fraction == 23 else 2047)
    size = (bits & np.uint64(2**fraction - 1)) | (exponent > 0).astype("u8") << np.uint64(fraction)
    return exponent, np.where(np.signbit(voxels), -1, 1), size


def radix_counts(src, mask, ny, nx, cells, counters, level, prefixes):
    for voxels, where in views(src, mask, ny, nx):
        counts, bad = histogram.radix_counts(voxels, level, prefixes, where)
        cells[0] += bad
        cells[1 : 1 + counts.size] += counts.ravel()


def bin_counts(src, mask, ny, nx, cells, edges):
    for voxels, where in views(src, mask, ny, nx):
        counts, bad = histogram.bin_counts(voxels, edges, where)
        cells[0] += bad
        cells[1 : 1 + counts.size] += counts


def runs_of(src, ny, nx, links, is_joined):
    """Offsets, starts, stops and roots."""
    mask = np.array([voxels != 0 for voxels, _ in views(src, None, ny, nx)]).view("u1")
    mask.flags.writeable = False
    rows = len(mask) * ny
    scratch = arrays(components.count_runs.scratch(rows, nx))
    offsets = np.empty(rows + 1, np.int64)
    how = components.MASK, mask.dtype.type(0), 0, rows
    offsets[-1] = n = components.count_runs(mask, is_joined, *how, offsets[:-1], scratch)
    starts, stops, parent = (np.empty(n, np.int32) for _ in range(3))
    part = components.MASK, 0, rows, (0, n)
    components.find_runs(mask, links, *part, offsets[:-1], starts, stops, parent, scratch)
    components.flatten(parent)
    return offsets, starts, stops, parent


def count_runs(src, ny, nx, is_joined, counts):
    links = components.links_of(np.ones((3, 3, 3), bool))[0]
    counts[:-1] = np.diff(runs_of(src, ny, nx, links, is_joined)[0])


def find_runs(src, ny, nx, links, is_joined, offsets, starts, stops, parent):
    starts[:], stops[:], parent[:] = runs_of(src, ny, nx, links, is_joined)[1:]


def array_of(rows, ny, nx):
    return np.array([voxels for voxels, _ in views(rows, None, ny, nx)])


def digest(src, ny, nx, cells):
    cells.view("u8")[0] += np.uint64(digests.digest(array_of(src, ny, nx), 0, ny))


def forward(mask, carry, found, ny, nx):
    (before,) = array_of(carry, ny, nx)
    for voxels, made in views(mask, found, ny, nx):
        distance.forward(voxels[None].view("u1"), before, made[None], 0, ny)
    ((plane, _),) = views(carry, None, ny, nx)
    plane[...] = before


def backward(found, carry, ny, nx):
    ((after, _),) = views(carry, None, ny, nx)
    for made, _ in [*views(found, None, ny, nx)][::-1]:
        distance.backward(made[None], after, 0, ny)


def ends(mask, below, above, ny, nx):
    ((last, first),) = views(below, above, ny, nx)
    distance.ends(array_of(mask, ny, nx).view("u1"), last, first, 0, ny)


def along_y(src, out, ny, nx, far, weight_z, weight):
    for voxels, made in views(src, out, ny, nx):
        of = made.dtype.type
        more = distance.REACH, of(far), of(weight_z), of(weight), True
        scratch = arrays(distance.along_y.scratch(ny, nx, 1, of, distance.REACH))
        distance.along_y(voxels[None], made[None], 0, nx, *more, scratch)


def along_x(src, out, ny, nx, far, weight, scale, root):
    for voxels, made in views(src, out, ny, nx):
        of = voxels.dtype.type
        more = distance.REACH, of(far), of(weight), scale, root, True
        scratch = arrays(distance.along_x.scratch(ny, nx, 1, of, distance.REACH))
        distance.along_x(voxels[None], made[None], 0, ny, *more, scratch)
