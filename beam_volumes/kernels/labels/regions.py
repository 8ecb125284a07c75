"""Exact sums for each label of a block of voxels, so blocks merge in any order.

A block has a core, the voxels that it owns, and may have one more plane on the upper side of each axis. It
owns the faces between its core and those planes, and the volume's borders at its core. It owns no faces on
its lower side, unless that plane is given: the last plane of the previous block in the slab, with faces that
are not counted yet. Each run of equal labels along x takes one lookup.
"""

from __future__ import annotations

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.measure.accumulate import _add_square, key_bits
from beam_volumes.kernels.rows import strided
from beam_volumes.kernels.scratch import Scratch, needs

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_LOW = 0xFFFFFFFF

# Columns for integer intensities: digits of 32 bits of the sums of v, v**2, z*v, y*v, x*v.
INTEGER_CELLS = {"sum": (0, 3), "square": (3, 7), "z": (7, 10), "y": (10, 13), "x": (13, 16)}


@row_kernel
def _slot(keys, label):
    """The slot of a label in an open-addressing table, or the free slot for it; free slots are 0."""
    last = keys.size - 1
    i = np.int64((label * _MULTIPLIER) >> np.uint64(20)) & last
    while keys[i] != label and keys[i] != np.uint64(0):
        i = (i + 1) & last
    return i


@kernel
def _grown(keys):
    bigger = np.zeros(4 * keys.size, np.uint64)
    for key in keys:
        if key != np.uint64(0):
            bigger[_slot(bigger, key)] = key
    return bigger


@row_kernel
def _discover_row(row, start, keys, count):
    """Add labels from ``start`` on; return where it stopped, at the latest when the table is half full."""
    end = start
    while end < row.size and 2 * count <= keys.size:
        label = row[end]
        end += 1
        while end < row.size and row[end] == label:
            end += 1
        if label != 0:
            i = _slot(keys, np.uint64(label))
            if keys[i] == np.uint64(0):
                keys[i] = label
                count += 1
    return end, count


@kernel
def _discover(labels, shape, keys, count):
    flat, step_z, step_y = labels
    nz, ny, nx = shape
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            end = np.int64(0)
            while end < nx:
                end, count = _discover_row(row, end, keys, count)
                if 2 * count > keys.size:
                    keys = _grown(keys)
    return keys, count


def discover(labels: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, int]:
    """A table of the nonzero labels in a block and a plane (which may be empty), and their number."""
    keys, count = _discover(strided(labels), labels.shape, np.zeros(1024, np.uint64), 0)
    return _discover(strided(below), (1, *below.shape), keys, count)


def table_of(labels: np.ndarray, below: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sorted labels of a block, and a table from labels to their indices."""
    keys, count = discover(labels, below)
    used = np.flatnonzero(keys)
    order = used[np.argsort(keys[used])]
    place = np.zeros(keys.size, np.int64)
    place[order] = np.arange(count)
    return keys[order], keys, place


@row_kernel
def _count_faces(other, label, i, axis, keys, place, faces):
    """Add the faces between a run of one label and the voxels next to it, for both sides."""
    different = 0
    for x in range(other.size):
        different += np.int64(other[x] != label)
    if different == 0:
        return
    if i >= 0:
        faces[i, axis] += different
    known = np.uint64(0)
    j = 0
    for x in range(other.size):
        neighbour = np.uint64(other[x])
        if neighbour != np.uint64(label) and neighbour != np.uint64(0):
            if neighbour != known:
                j = place[_slot(keys, neighbour)]
                known = neighbour
            faces[j, axis] += 1


def geometry(
    labels: np.ndarray,
    below: np.ndarray,
    core: tuple[int, int, int],
    first: tuple[bool, ...],
    last: tuple[bool, ...],
    keys: np.ndarray,
    place: np.ndarray,
    moments: np.ndarray,
    box: np.ndarray,
    faces: np.ndarray,
) -> None:
    """Accumulate counts, sums of coordinates and of their products, bounding boxes and faces per label.

    ``below`` (rows, columns) is the plane before the first slice, or one without rows; 0 is background.
    """
    # ``core`` is the number of owned slices, rows and columns: all, or all but one. ``first`` and ``last``
    # are, per axis, whether the volume starts with the first plane, and ends with the last owned one.
    # ``keys`` and ``place`` are from `table_of`. The results are relative to the block's first voxel:
    # ``moments``, int64 (labels, 10), the sums of 1, z, y, x, zz, yy, xx, zy, zx, yx, or only the first;
    # ``box``, int64 (labels, 6), minimum z, y, x and maximum plus one; ``faces``, int64 (labels, 3), across
    # z, y and x, including the volume's borders, or an empty array to skip them.
    shape = labels.shape if faces.size else core
    under = below.size > 0
    _geometry(
        strided(labels), shape, strided(below), under, core, first, last, keys, place, moments, box,
        faces,
    )  # fmt: skip


@row_kernel
def _add_moments(m, z, y, start, end):
    n = end - start
    sx = (start + end - 1) * n // 2
    sxx = ((end - 1) * end * (2 * end - 1) - (start - 1) * start * (2 * start - 1)) // 6
    m[0] += n
    m[1] += n * z
    m[2] += n * y
    m[3] += sx
    m[4] += n * z * z
    m[5] += n * y * y
    m[6] += sxx
    m[7] += n * z * y
    m[8] += z * sx
    m[9] += y * sx


@row_kernel
def _extend_box(r, z, y, start, end):
    r[0] = min(r[0], z)
    r[1] = min(r[1], y)
    r[2] = min(r[2], start)
    r[3] = max(r[3], z + 1)
    r[4] = max(r[4], y + 1)
    r[5] = max(r[5], end)


@row_kernel
def _geometry(
    labels, shape, below, under, core, first, last, keys, place, moments, box, faces
):  # fmt: skip
    flat, step_z, step_y = labels
    flat_below, _, step_below = below
    cz, cy, cx = core
    nz, ny, nx = shape
    with_faces = faces.size > 0
    for z in range(nz):
        for y in range(ny if z < cz else cy):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            own = z < cz and y < cy
            end = np.int64(0)
            while end < cx:
                start = end
                label = row[start]
                end += 1
                while end < cx and row[end] == label:
                    end += 1
                i = place[_slot(keys, np.uint64(label))] if label != 0 else -1
                n = end - start
                if with_faces:
                    if y > 0 and z < cz:
                        other = flat[at - step_y + start : at - step_y + end]
                        _count_faces(other, label, i, np.int64(1), keys, place, faces)
                    if z > 0 and y < cy:
                        other = flat[at - step_z + start : at - step_z + end]
                        _count_faces(other, label, i, np.int64(0), keys, place, faces)
                    elif y < cy and under:
                        other = flat_below[y * step_below + start : y * step_below + end]
                        _count_faces(other, label, i, np.int64(0), keys, place, faces)
                    if own and start > 0:
                        _count_faces(
                            row[start - 1 : start], label, i, np.int64(2), keys, place, faces
                        )
                if not own or i < 0:
                    continue
                if with_faces:
                    f = faces[i]
                    f[2] += np.int64(start == 0 and first[2]) + np.int64(end == cx and last[2])
                    f[1] += n * (np.int64(y == 0 and first[1]) + np.int64(y == cy - 1 and last[1]))
                    f[0] += n * (np.int64(z == 0 and first[0]) + np.int64(z == cz - 1 and last[0]))
                if moments.shape[1] > 1:
                    _add_moments(moments[i], z, y, start, end)
                else:
                    moments[i, 0] += n
                _extend_box(box[i], z, y, start, end)
            if with_faces and own and nx > cx:
                label = row[cx]
                i = place[_slot(keys, np.uint64(label))] if label != 0 else -1
                _count_faces(row[cx - 1 : cx], label, i, np.int64(2), keys, place, faces)


def cubes(labels: np.ndarray, keys: np.ndarray, place: np.ndarray, sums: np.ndarray) -> None:
    """Accumulate sums of products of three coordinates, from the block's first voxel.

    ``sums``, int64 (labels, 10), are of zzz, yyy, xxx, zzy, zzx, zyy, zxx, yyx, yxx, zyx.
    """
    _cubes(strided(labels), labels.shape, keys, place, sums)


@row_kernel
def _cubes(labels, shape, keys, place, sums):
    flat, step_z, step_y = labels
    nz, ny, nx = shape
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            end = np.int64(0)
            while end < nx:
                start = end
                label = row[start]
                end += 1
                while end < nx and row[end] == label:
                    end += 1
                if label != 0:
                    _add_cubes(sums[place[_slot(keys, np.uint64(label))]], z, y, start, end)


@row_kernel
def _add_cubes(m, z, y, start, end):
    n = end - start
    before, all_ = start * (start - 1) // 2, end * (end - 1) // 2
    sx = all_ - before
    sxx = ((end - 1) * end * (2 * end - 1) - (start - 1) * start * (2 * start - 1)) // 6
    m[0] += n * z * z * z
    m[1] += n * y * y * y
    m[2] += all_ * all_ - before * before
    m[3] += n * z * z * y
    m[4] += z * z * sx
    m[5] += n * z * y * y
    m[6] += z * sxx
    m[7] += y * y * sx
    m[8] += y * sxx
    m[9] += z * y * sx


@row_kernel
def _add_digits(cells, at, value):
    cells[at] += value & _LOW
    cells[at + 1] += value >> 32


def integers(
    labels: np.ndarray,
    values: np.ndarray,
    keys: np.ndarray,
    place: np.ndarray,
    minimum: np.ndarray,
    maximum: np.ndarray,
    cells: np.ndarray,
) -> None:
    """Accumulate `INTEGER_CELLS`, with coordinates from the block's first voxel, or only extremes.

    ``minimum`` and ``maximum`` are per label, in the dtype of ``values``; without columns in ``cells`` there
    are no sums.
    """
    wide = values.itemsize == 8
    _integers(
        strided(labels), strided(values), labels.shape, keys, place, minimum, maximum, cells, wide
    )


@row_kernel
def _integers(labels, values, shape, keys, place, minimum, maximum, cells, wide):
    flat, step_z, step_y = labels
    voxels, next_z, next_y = values
    nz, ny, nx = shape
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            at = z * next_z + y * next_y
            v = voxels[at : at + nx]
            end = np.int64(0)
            while end < nx:
                start = end
                label = row[start]
                end += 1
                while end < nx and row[end] == label:
                    end += 1
                if label != 0:
                    i = place[_slot(keys, np.uint64(label))]
                    _add_run(v, start, end, z, y, i, minimum, maximum, cells, wide)


def places(
    labels: np.ndarray,
    values: np.ndarray,
    origin: tuple[int, int, int],
    shape: tuple[int, int, int],
    keys: np.ndarray,
    place: np.ndarray,
    minimum: np.ndarray,
    maximum: np.ndarray,
    found: np.ndarray,
) -> None:
    """Write the first voxels with the minimum and the maximum of each label in the block."""
    # ``shape`` is of the volume. ``found``, int64 (labels, 2), are indices into the flattened volume, and
    # larger at first.
    how = labels.shape, origin, shape, keys, place, minimum, maximum, found
    _places(strided(labels), strided(values), *how)


@row_kernel
def _places(labels, values, own, origin, shape, keys, place, minimum, maximum, found):
    flat, step_z, step_y = labels
    voxels, next_z, next_y = values
    for z in range(own[0]):
        for y in range(own[1]):
            at, there = z * step_z + y * step_y, z * next_z + y * next_y
            first = ((origin[0] + z) * shape[1] + origin[1] + y) * shape[2] + origin[2]
            known = np.uint64(0)
            i = np.int64(0)
            low, high = minimum[:1], maximum[:1]
            for x in range(own[2]):
                label = np.uint64(flat[at + x])
                if label == np.uint64(0):
                    continue
                if label != known:
                    i = place[_slot(keys, label)]
                    low, high = minimum[i : i + 1], maximum[i : i + 1]
                    known = label
                v = voxels[there + x]
                if v == low[0]:
                    found[i, 0] = min(found[i, 0], first + x)
                if v == high[0]:
                    found[i, 1] = min(found[i, 1], first + x)


def _value_scratch(voxels: int) -> Scratch:
    """Return a key for each voxel, and marks of the first one of equal keys."""
    return ((voxels,), np.int64), ((voxels,), np.bool_)


@needs(_value_scratch)
def labelled_values(
    labels: np.ndarray,
    values: np.ndarray,
    keys: np.ndarray,
    place: np.ndarray,
    scratch: tuple[np.ndarray, ...],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys of voxels with a label, ascending, and the number of voxels of each.

    A key is a label's row times 2**17, plus the value and 2**15. ``values`` are integers of up to 16 bits.
    """
    found, marks = (s.reshape(labels.size) for s in scratch)
    n = _labelled_values(strided(labels), strided(values), labels.shape, keys, place, found)
    found, marks = found[:n], marks[:n]
    found.sort()
    marks[:1] = True
    np.not_equal(found[1:], found[:-1], out=marks[1:])
    starts = np.flatnonzero(marks)
    return found[starts], np.diff(starts, append=n)


@row_kernel
def _labelled_values(labels, values, shape, keys, place, found):
    flat, step_z, step_y = labels
    voxels, next_z, next_y = values
    n = 0
    known = np.uint64(0)
    base = np.int64(0)
    for z in range(shape[0]):
        for y in range(shape[1]):
            at, there = z * step_z + y * step_y, z * next_z + y * next_y
            for x in range(shape[2]):
                label = np.uint64(flat[at + x])
                if label == np.uint64(0):
                    continue
                if label != known:
                    base = (place[_slot(keys, label)] << 17) + (1 << 15)
                    known = label
                found[n] = base + np.int64(voxels[there + x])
                n += 1
    return n


@row_kernel
def _add_run(v, start, end, z, y, i, minimum, maximum, cells, wide):
    """Add voxels ``start:end`` of a row to row ``i``; ``wide`` is for 64 bits."""
    c = cells[i]
    low, high = minimum[i], maximum[i]
    for x in range(start, end):
        low = min(low, v[x])
        high = max(high, v[x])
    minimum[i] = low
    maximum[i] = high
    if c.size == 0:
        return
    total = 0
    along = 0
    if wide:
        upper_total = 0
        upper_along = 0
        for x in range(start, end):
            lower, upper = np.int64(v[x] & _LOW), np.int64(v[x] >> 32)
            total += lower
            along += x * lower
            upper_total += upper
            upper_along += x * upper
            size = np.uint64(v[x]) if v[x] >= 0 else ~np.uint64(v[x]) + np.uint64(1)
            _add_square(size, c, 3)
        _add_digits(c, np.int64(1), upper_total)
        _add_digits(c, np.int64(8), z * upper_total)
        _add_digits(c, np.int64(11), y * upper_total)
        _add_digits(c, np.int64(14), upper_along)
    else:
        low_squares = 0
        high_squares = 0
        for x in range(start, end):
            value = np.int64(v[x])
            total += value
            along += x * value
            square = np.uint64(abs(value)) * np.uint64(abs(value))
            low_squares += np.int64(square & np.uint64(_LOW))
            high_squares += np.int64(square >> np.uint64(32))
        c[3] += low_squares
        c[4] += high_squares
    _add_digits(c, np.int64(0), total)
    _add_digits(c, np.int64(7), z * total)
    _add_digits(c, np.int64(10), y * total)
    _add_digits(c, np.int64(13), along)


@row_kernel
def _digits_of(value, base):
    """Three signed digits of 32 bits of a finite float64, the second of up to 33, and their position.

    The unit is ``2**base``, which no bit may be below.
    """
    bits = np.float64(value).view(np.int64)
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (np.int64(exponent != 0) << 52)
    position = max(exponent, 1) - 1075 - base
    if position < 0:  # the lowest bits are zeros
        mantissa >>= -position
        position = 0
    shift = position & 31
    sign = 1 if bits >= 0 else -1
    low = (mantissa & _LOW) << shift
    high = (mantissa >> 32) << shift
    middle = (low >> 32) + (high & _LOW)
    return position >> 5, sign * (low & _LOW), sign * middle, sign * (high >> 32)


@row_kernel
def add_double(cells, base, value):
    """Add a finite float64 exactly to 32-bit digits in units of ``2**base``, which no bit may be below."""
    if value == 0:
        return
    i, a, b, c = _digits_of(value, base)
    cells[i] += a
    cells[i + 1] += b
    cells[i + 2] += c


def magnitudes(values: np.ndarray) -> tuple[float, float, int]:
    """The minimum nonzero and the maximum absolute value of finite values; the number of others.

    The minimum of integers is not searched: it is 1.
    """
    if values.dtype.kind in "iu":
        high = max(int(values.max(initial=0)), -int(values.min(initial=0)))
        return (1.0 if high else np.inf), float(high), 0
    # Without the sign, the bits of floats have the order of their values.
    key_of = key_bits(values.dtype)
    bits = values.view(key_of.sign.dtype)
    low, high, bad = _magnitudes(
        strided(bits), (1, *values.shape)[-3:], key_of.magnitude, key_of.infinite
    )
    ends = np.array([low, high], bits.dtype).view(values.dtype)
    return float(ends[0]), float(ends[1]), int(bad)


@row_kernel
def _magnitudes(bits, shape, magnitude, infinite):
    voxels, step_z, step_y = bits
    nz, ny, nx = shape
    low, high = infinite, magnitude ^ magnitude
    bad = 0
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            minimum, maximum, more = _magnitudes_of_row(voxels[at : at + nx], magnitude, infinite)
            low, high = min(low, minimum), max(high, maximum)
            bad += np.int64(more)
    return low, high, bad


@row_kernel
def _magnitudes_of_row(row, magnitude, infinite):
    low, high, bad = infinite, magnitude ^ magnitude, np.uint32(0)
    for x in range(row.size):
        size = row[x] & magnitude
        finite = size < infinite
        bad = np.uint32(bad + np.uint32(not finite))
        low = min(low, size if finite & (size > 0) else infinite)
        high = max(high, size if finite else magnitude ^ magnitude)
    return low, high, bad


def floats(
    labels: np.ndarray,
    values: np.ndarray,
    origin: tuple[int, int, int],
    keys: np.ndarray,
    place: np.ndarray,
    base: int,
    infinite: bool,
    count: np.ndarray,
    minimum: np.ndarray,
    maximum: np.ndarray,
    cells: np.ndarray,
) -> None:
    """Accumulate the first sums of v, v**2, z*v, y*v and x*v of finite values, in coordinates of the volume.

    With ``infinite``, infinite values count, too; then there are no sums.
    """
    # ``cells`` is (labels, sums, digits) for `add_double`, with 0, 1, 2 or 5 sums. All products of float32
    # are exact. Products of float64 and coordinates are rounded once, in the same way for any block.
    single = values.itemsize == 4
    _floats(
        strided(labels), strided(values), labels.shape, origin, keys, place, base, single, infinite,
        count, minimum, maximum, cells,
    )  # fmt: skip


@row_kernel
def _floats(
    labels, values, shape, origin, keys, place, base, single, infinite, count, minimum, maximum, cells
):  # fmt: skip
    flat, step_z, step_y = labels
    voxels, next_z, next_y = values
    nz, ny, nx = shape
    sums = cells.shape[1]
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            at = z * next_z + y * next_y
            known = np.uint64(0)
            i = 0
            for x in range(nx):
                label = np.uint64(row[x])
                if label == np.uint64(0):
                    continue
                v = np.float64(voxels[at + x]) + 0.0  # -0.0 becomes 0.0
                if not (abs(v) < np.inf or (infinite and v == v)):
                    continue
                if label != known:
                    i = place[_slot(keys, label)]
                    known = label
                count[i] += 1
                minimum[i] = min(minimum[i], v)
                maximum[i] = max(maximum[i], v)
                if v != 0 and sums > 0:
                    add_double(cells[i, 0], base, v)
                if v != 0 and sums > 1:
                    _add_square_of(cells[i, 1], base, single, v)
                if v != 0 and sums > 2:
                    add_double(cells[i, 2], base, v * np.float64(origin[0] + z))
                    add_double(cells[i, 3], base, v * np.float64(origin[1] + y))
                    add_double(cells[i, 4], base, v * np.float64(origin[2] + x))


@row_kernel
def _add_square_of(c, base, single, v):
    """Add the exact square, of float64 in two halves."""
    if single:
        add_double(c, base, v * v)
    else:
        bits = np.float64(v).view(np.int64) & ~np.int64(0x3FFFFFF)
        head = np.int64(bits).view(np.float64)
        tail = v - head
        add_double(c, base, head * head)
        if tail != 0:
            add_double(c, base, 2 * head * tail)
            add_double(c, base, tail * tail)


def weighted(
    labels: np.ndarray,
    values: np.ndarray,
    keys: np.ndarray,
    place: np.ndarray,
    base: int,
    exponents: np.ndarray,
    cells: np.ndarray,
) -> None:
    """Accumulate exact sums of finite values times products of coordinates from the block's first voxel."""
    # ``values`` are exact as float64, in units of ``2**base``. ``exponents``, int64 (products, 3), are of z,
    # y and x, up to 3 in total; a block has up to 1024 voxels along each. ``cells`` is (labels, products,
    # digits).
    powers = np.zeros((4, cells.shape[2]), np.int64)
    how = labels.shape, keys, place, base, exponents
    _weighted(strided(labels), strided(values), *how, powers, cells)


@row_kernel
def _weighted(labels, values, shape, keys, place, base, exponents, powers, cells):
    flat, step_z, step_y = labels
    voxels, next_z, next_y = values
    nz, ny, nx = shape
    for z in range(nz):
        for y in range(ny):
            at = z * step_z + y * step_y
            row = flat[at : at + nx]
            at = z * next_z + y * next_y
            end = np.int64(0)
            while end < nx:
                start = end
                label = row[start]
                while end < nx and row[end] == label:
                    end += 1
                if label == 0:
                    continue
                for x in range(start, end):
                    v = np.float64(voxels[at + x])
                    if v != 0 and abs(v) < np.inf:
                        _add_powers(powers, base, v, x)
                _add_run_of_powers(
                    powers, exponents, z, y, cells[place[_slot(keys, np.uint64(label))]]
                )


@row_kernel
def _add_powers(powers, base, value, x):
    """Add ``value * x**p`` to row ``p``."""
    i, a, b, c = _digits_of(value, base)
    for p in range(powers.shape[0]):
        _add_digits(powers[p], i, a)
        _add_digits(powers[p], i + 1, b)
        _add_digits(powers[p], i + 2, c)
        a *= x
        b *= x
        c *= x


@row_kernel
def _add_run_of_powers(powers, exponents, z, y, cells):
    """Add the sums of a run, ``powers``, to all products, and set them to 0."""
    last = powers.shape[1] - 1
    for p in range(powers.shape[0]):
        for k in range(last):
            powers[p, k + 1] += powers[p, k] >> 32
            powers[p, k] &= _LOW
    for m in range(exponents.shape[0]):
        factor = np.int64(1)
        for _ in range(exponents[m, 0]):
            factor *= z
        for _ in range(exponents[m, 1]):
            factor *= y
        p = exponents[m, 2]
        for k in range(last):
            _add_digits(cells[m], k, powers[p, k] * factor)
        cells[m, last] += powers[p, last] * factor
    for p in range(powers.shape[0]):
        for k in range(last + 1):
            powers[p, k] = 0
