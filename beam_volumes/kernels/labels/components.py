"""Connected components of a block by runs: union-find over parts of rows instead of voxels.

A *run* is a maximal part of a row with voxels that are connected along x. Runs are found row by row in raster
order, and united with runs of earlier rows (He, Chao, Suzuki, "A run-based two-scan labeling algorithm", IEEE
TIP 2008). The root of a tree is its first run, so roots in this order have the raster order of first voxels,
as in `scipy.ndimage.label`.

Rows are compared as bits, 64 voxels at a time: one bit for each pair of runs that touch. Loops over these
bits have no branch that depends on the voxels, so noise takes little longer than large objects. A pair is
skipped if earlier rows have united both runs with a common neighbour (Wu, Otoo, Suzuki, "Optimizing
two-pass connected-component labeling algorithms", Pattern Analysis and Applications 2009).

No label per voxel is necessary: sizes, equivalences and the final painting work on runs. They are four
arrays::

    offsets : int64 (nz * ny + 1)   row r = z * ny + y has runs offsets[r] to offsets[r + 1]
    starts, stops : int32 (n)       columns of the run, half-open
    labels : uint32 (n)             component of the run, 1..count

A block's ``links``, int64 (m, 5), define which earlier rows touch a row: ``dz, dy, shift, reach, known``.
Voxel x of the row touches ``x + shift - reach`` to ``x + shift + reach`` there, and ``known`` are pairs that
need not be united (see `links_of`).
"""

import numpy as np

from beam_volumes.kernels.jit import kernel, row_kernel
from beam_volumes.kernels.measure.digests import mixed
from beam_volumes.kernels.scratch import Scratch, needs

MASK, VALUES, VALUES_NO_BACKGROUND = 0, 1, 2

#: Bits of ``known``: pairs with column x - 1, x or x + 1 of the other row, if the voxel touches its neighbour
#: along z, and pairs with the neighbour along z, if both are united with the voxel before them along y.
_KNOWN_BEFORE, _KNOWN, _KNOWN_AFTER, _KNOWN_CORNER = 1, 2, 4, 8

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_LAST, _TOP = np.uint64(63), np.uint64(1 << 63)
#: Multiplied with eight bytes that are 0 or 1, the highest byte of the product has one bit for each.
_GATHER, _HIGHEST = np.uint64(0x0102040810204080), np.uint64(56)
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)


def links_of(structure):
    """The half of a structure before its centre, as ``links``, and whether neighbours along x touch.

    ``structure`` is bool (3, 3, 3), centrosymmetric. If they do not touch, every voxel is a run.
    """

    def touches(dz, dy, dx):
        return bool(structure[dz + 1, dy + 1, dx + 1])

    is_joined = touches(0, 0, -1)
    # The neighbour along z comes first, unless the one along y makes it redundant.
    has_corner = touches(0, -1, 0) and touches(-1, 0, 0) and not touches(-1, 1, 0)
    rows = [(0, -1), (-1, 0)] if has_corner else [(-1, 0), (0, -1)]
    links = []
    for dz, dy in (*rows, (-1, -1), (-1, 1)):
        own = [dx for dx in (0, -1, 1) if touches(dz, dy, dx)]
        known = _KNOWN_CORNER * (has_corner and (dz, dy) == (-1, 0))
        if touches(-1, 0, 0) and not (has_corner and dz == 0):
            others = [dx for dx in (-1, 0, 1) if (dz, dy, dx) != (-1, 0, 0)]
            known += sum(1 << (dx + 1) for dx in others if touches(-1 - dz, -dy, -dx))
        if is_joined and len(own) == 3:
            links.append((dz, dy, 0, 1, known))
        else:
            links += [(dz, dy, dx, 0, known) for dx in own]
    return np.array(links, np.int64).reshape(-1, 5), is_joined


@row_kernel
def _unite(parent, i, j):
    """Unite two trees, in which parents have lower indices, by walking and shortening both paths.

    After M. Rem (Dijkstra, "A Discipline of Programming", 1976). A tree's root remains its first member.
    """
    a, b = parent[i], parent[j]
    while a != b:
        if a > b:
            parent[i] = b
            if i == a:
                return
            i = a
            a = parent[i]
        else:
            parent[j] = a
            if j == b:
                return
            j = b
            b = parent[j]


@row_kernel
def _count(bits):
    """The number of bits that are set; the compiler knows this formula as one instruction."""
    bits = bits - ((bits >> _ONE) & _PAIRS)
    bits = (bits & _FOURS) + ((bits >> np.uint64(2)) & _FOURS)
    bits = (bits + (bits >> np.uint64(4))) & _BYTES
    return np.int64((bits * _SUM) >> _HIGHEST)


@row_kernel
def _pack(flags, words):
    """Bits of bytes that are 0 or 1; ``flags`` has eight bytes an entry."""
    for w in range(words.size):
        word = np.uint64(0)
        for k in range(8):
            word |= ((flags[8 * w + k] * _GATHER) >> _HIGHEST) << np.uint64(8 * k)
        words[w] = word


@row_kernel
def _row_bits(row, kind, background, is_joined, flags, each, bits):
    """Bits of a row, uint64 (3, words): voxels of runs, first voxels of runs, first voxels after runs.

    ``flags`` is scratch, of eight bytes an entry, and ``each`` the same bytes; those beyond the row are 0.
    """
    nx, words = row.size, bits.shape[1]
    if kind == 0:
        for x in range(nx):
            each[x] = row[x] != 0
    elif kind == 1:
        for x in range(nx):
            each[x] = row[x] != background
    else:
        for x in range(nx):
            each[x] = 1
    _pack(flags, bits[0])
    if is_joined and kind != 0:
        each[0] = 1
        for x in range(1, nx):
            each[x] = row[x] != row[x - 1]
        _pack(flags, bits[1])
    before = np.uint64(0)
    for w in range(words):
        inside = bits[0, w]
        shifted = inside << _ONE | before
        before = inside >> _LAST
        if not is_joined:
            bits[1, w] = inside
        elif kind == 0:
            bits[1, w] = inside & ~shifted
        else:
            bits[1, w] &= inside
        bits[2, w] = shifted & (bits[1, w] | ~inside)


@row_kernel
def _positions(words, columns, n):
    """Write the positions of bits that are set to ``columns``, from index ``n`` on."""
    for w in range(words.size):
        bits = words[w]
        while bits:
            columns[n] = 64 * w + _count((bits & (~bits + _ONE)) - _ONE)
            n += 1
            bits &= bits - _ONE


@row_kernel
def _touching(row, other, is_mask, shift, inside, inside_other, flags, each, same):
    """Bits of voxels x that are connected with voxel ``x + shift`` of another row."""
    nx, words = row.size, same.size
    if is_mask:
        for w in range(words):
            bits = inside_other[w]
            if shift < 0:
                bits = bits << _ONE
                if w:
                    bits |= inside_other[w - 1] >> _LAST
            elif shift > 0:
                bits = bits >> _ONE
                if w + 1 < words:
                    bits |= inside_other[w + 1] << _LAST
            same[w] = inside[w] & bits
        return
    if shift == 0:
        for x in range(nx):
            each[x] = row[x] == other[x]
    elif shift < 0:
        each[0] = 0
        for x in range(1, nx):
            each[x] = row[x] == other[x - 1]
    else:
        for x in range(nx - 1):
            each[x] = row[x] == other[x + 1]
        each[nx - 1] = 0
    _pack(flags, same)
    for w in range(words):
        same[w] &= inside[w]


@row_kernel
def _unite_touching(parent, same, known, shift, begins, base, begins_other, base_other):
    """Unite runs with a voxel in ``same``, except where the first one is in ``known``."""
    before = np.uint64(0)
    for w in range(same.size):
        word = same[w]
        bits = word & (begins[w] | ~(word << _ONE | before)) & ~known[w]
        before = word >> _LAST
        while bits:
            low = bits & (~bits + _ONE)
            below = low - _ONE
            i = base[w] + _count(begins[w] & (low | below)) - 1
            through = below
            if shift >= 0:
                through |= low
            if shift > 0:
                through |= low << _ONE
            j = base_other[w] + _count(begins_other[w] & through) - 1
            if shift > 0 and low == _TOP and w + 1 < same.size:
                j += np.int64(begins_other[w + 1] & _ONE)
            _unite(parent, i, j)
            bits &= bits - _ONE


@row_kernel
def _unite_diagonal(parent, is_mask, ends_first, known, row, other, own, base, bits, base_other):
    """Unite runs that touch at a corner only: one begins where the other ends."""
    # ``own`` and ``bits`` are `_row_bits` of the rows. ``ends_first``: whether the runs of ``row`` end there.
    # Bits of ``known``, at the voxel of ``row``, are left out.
    before = np.uint64(0)
    for w in range(known.size):
        if ends_first:
            found = own[2, w] & bits[1, w] & ~(known[w] << _ONE | before)
            before = known[w] >> _LAST
        else:
            found = own[1, w] & bits[2, w] & ~known[w]
        while found:
            low = found & (~found + _ONE)
            below = low - _ONE
            x = 64 * w + _count(below)
            if is_mask or row[x - ends_first] == other[x - 1 + ends_first]:
                through, through_other = below, below
                if ends_first:
                    through_other |= low
                else:
                    through |= low
                i = base[w] + _count(own[1, w] & through) - 1
                _unite(parent, i, base_other[w] + _count(bits[1, w] & through_other) - 1)
            found &= found - _ONE


@row_kernel
def _unite_before(parent, rows, ny, links, kind, r, span, bits, base, first, scratch):
    """Unite the runs of row ``r`` with runs that touch them, of rows ``span[0]`` to ``span[1]`` before it."""
    # ``bits`` and ``base`` are of the rows from ``first`` on. ``scratch`` has ``flags`` and ``each`` (see
    # `_row_bits`), and ``same``, uint64 (5, words): voxels connected along z, of this row and the row before
    # it in turns; voxels connected along y; zeros; and voxels connected otherwise.
    flags, each, same = scratch
    y, z, now, words = r % ny, r // ny, r % 2, same.shape[1]
    is_mask = kind == 0
    for w in range(words):
        same[now, w] = 0
    for k in range(links.shape[0]):
        dz, dy, shift, reach, known = links[k]
        q = r + dz * ny + dy
        if q < span[0] or q >= span[1] or z + dz < 0 or y + dy < 0 or y + dy >= ny:
            if dz == 0:
                for w in range(words):
                    same[2, w] = 0
            continue
        to = 4
        if shift == 0 and (dz == 0 or dy == 0):
            to = 2 if dz == 0 else now
        by_corner = known & 8 and to == now
        own, other = bits[r - first], bits[q - first]
        base_own, base_other = base[r - first], base[q - first]
        skip = now if known & (2 if reach else 1 << (shift + 1)) else 3
        if by_corner:
            for w in range(words):
                same[3, w] = same[2, w] & same[1 - now, w]
        _touching(rows[r], rows[q], is_mask, shift, own[0], other[0], flags, each, same[to])
        _unite_touching(parent, same[to], same[skip], shift, own[1], base_own, other[1], base_other)
        if by_corner:
            for w in range(words):
                same[3, w] = 0
        if reach:
            for side in range(2):
                skip = now if known & (1 + 3 * side) else 3
                _unite_diagonal(
                    parent,
                    is_mask,
                    side,
                    same[skip],
                    rows[r],
                    rows[q],
                    own,
                    base_own,
                    other,
                    base_other,
                )


@kernel
def _bits_of(rows, kind, background, is_joined, begin, end, n, offsets, scratch):
    """Bits of rows (see `_row_bits`), and the number of runs before each word and row, from ``n`` on."""
    bits, base, flags, _ = scratch
    words, each = bits.shape[2], flags.view(np.uint8)
    flags[:] = 0
    for r in range(end - begin):
        offsets[r] = n
        _row_bits(rows[begin + r], kind, background, is_joined, flags, each, bits[r])
        for w in range(words):
            base[r, w] = n
            n += _count(bits[r, 1, w])
    return n


def _scratch(rows, cols) -> Scratch:
    words = (cols + 64) // 64  # with one more bit, for the end of the last run
    bits = ((rows, 3, words), np.uint64), ((rows, words), np.int32)
    return *bits, ((8 * words,), np.uint64), ((5, words), np.uint64)


@needs(_scratch)
@kernel
def count_runs(block, is_joined, kind, background, begin, end, offsets, scratch):
    """The number of runs of some rows of a block of voxels; ``offsets`` are counted from the first of these.

    ``block``, C-contiguous, is a mask (non-zero is foreground, also NaN), or has values; see `links_of`.
    """
    # ``kind`` is MASK: foreground is connected; VALUES: voxels with equal values are, except ``background``,
    # a scalar of the block's dtype; or VALUES_NO_BACKGROUND. ``begin`` and ``end`` are row indices in the
    # block. The scratch is for `find_runs`, with the same rows.
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    zero = np.int64(0)  # not a literal, which would compile the rest once more
    return _bits_of(rows, kind, background, is_joined, begin, end, zero, offsets, scratch)


@kernel
def find_runs(block, links, kind, begin, end, span, offsets, starts, stops, parent, scratch):
    """Write the runs that `count_runs` has counted, and unite touching ones in ``parent``, an earlier run.

    They are the runs ``span[0]`` to ``span[1]`` of the block, and offsets are counted from its first run.
    """
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    bits, base, flags, same = scratch
    same[:] = 0
    for i in range(span[0], span[1]):
        parent[i] = i
    work = flags, flags.view(np.uint8), same
    for r in range(begin, end):
        row = r - begin
        offsets[row] += span[0]
        for w in range(base.shape[1]):
            base[row, w] += span[0]
        _positions(bits[row, 1], starts, offsets[row])
        _positions(bits[row, 2], stops, offsets[row])
        _unite_before(parent, rows, ny, links, kind, r, (begin, r), bits, base, begin, work)


@kernel
def join_runs(block, links, is_joined, kind, background, cuts, offsets, parent, scratch):
    """Unite touching runs of separate calls: the block's rows were divided before each of ``cuts``.

    The scratch is for `count_runs` of two slices and two rows, or of the block if this is smaller.
    """
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    bits, base, flags, same = scratch
    for cut in cuts:
        begin, end = max(0, cut - ny - 1), min(cut + ny + 1, nz * ny)
        # Writes the same offsets again
        own = offsets[begin:end]
        _bits_of(rows, kind, background, is_joined, begin, end, own[0], own, scratch)
        same[:] = 0
        work = flags, flags.view(np.uint8), same
        for r in range(cut, end):
            _unite_before(parent, rows, ny, links, kind, r, (begin, cut), bits, base, begin, work)


@kernel
def number_runs(nx, offsets, starts, parent, first):
    """Number the components of runs, and write the index of each component's first voxel.

    Returns the labels of runs, in the memory of ``parent``. ``first``, int64 (count + 1), are increasing
    linear indices in a block with rows of ``nx`` voxels; the last element is not used.
    """
    labels = parent.view(np.uint32)
    count = np.uint32(0)
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            before = parent[i]  # of lower index, or the run itself
            is_root = before == i
            first[count] = np.int64(r) * nx + starts[i]
            count += np.uint32(is_root)
            labels[i] = count if is_root else labels[before]
    return labels


@kernel
def renumber(labels, numbers, which):
    """Number the components that some runs have 1, 2, ... in their order; return how many there are.

    ``numbers``, uint32 (count + 1), are zeros. ``which``, int64 (count + 1), gets the old numbers less 1.
    """
    for i in range(labels.size):
        numbers[labels[i]] = 1
    n = np.uint32(0)
    for k in range(1, numbers.size):
        which[n] = k - 1
        n += numbers[k]
        numbers[k] = n
    for i in range(labels.size):
        labels[i] = numbers[labels[i]]
    return n


@kernel
def paint(offsets, starts, stops, labels, table, out):
    """Write ``table[label]`` to runs, and ``table[0]`` to other voxels."""
    # ``out`` (rows, columns), with contiguous rows, starts at the first row of ``offsets``, and may have
    # fewer columns.
    for y in range(out.shape[0]):
        _paint_row(out[y], starts, stops, labels, table, offsets[y], offsets[y + 1])


@row_kernel
def _paint_row(row, starts, stops, labels, table, begin, end):
    nx, background = row.size, table[0]
    for x in range(nx):
        row[x] = background
    for i in range(begin, end):
        value, a, b = table[labels[i]], np.int64(starts[i]), np.int64(stops[i])
        if b + 4 <= nx:
            # Most runs of noise have up to four voxels: a number of writes that depends on them takes longer.
            at, after = np.uint64(a), np.uint64(b)
            row[at] = value
            row[at + _ONE] = value
            row[at + _TWO] = value
            row[at + _THREE] = value
            for x in range(a + 4, b):
                row[x] = value
            row[after] = background
            row[after + _ONE] = background
            row[after + _TWO] = background
            row[after + _THREE] = background
        else:
            for x in range(a, min(b, nx)):
                row[x] = value


@kernel
def unite_planes(below, above, links, values_a, values_b, parent, base_a, base_b):
    """Unite touching components of two successive slices, each offsets from 0, starts, stops and labels."""
    # ``links`` are from `links_of`; only dz = -1 is used. Components with different ``values_a`` and
    # ``values_b`` do not touch; both are empty for masks. ``parent``, int64, has for each component itself or
    # an earlier one of its class; ``base_a`` and ``base_b`` are the indices of the first component below and
    # above in it.
    is_mask = values_b.size == 0
    for k in range(links.shape[0]):
        if links[k, 0] != -1:
            continue
        dy, shift, reach = links[k, 1], links[k, 2], links[k, 3]
        # A step can miss a diagonal pair of adjacent runs without a gap; single shifts cannot.
        if is_mask:
            _unite_shifted(
                below, above, dy, shift, reach, values_a, values_b, parent, base_a, base_b
            )
            continue
        for one in range(shift - reach, shift + reach + 1):
            _unite_shifted(below, above, dy, one, 0, values_a, values_b, parent, base_a, base_b)


@kernel
def _unite_shifted(below, above, dy, shift, reach, values_a, values_b, parent, base_a, base_b):
    """Unite components that touch along one link; see `unite_planes`."""
    offsets_a, starts_a, stops_a, labels_a = below
    offsets_b, starts_b, stops_b, labels_b = above
    ny = offsets_b.size - 1
    for y in range(max(0, -dy), min(ny, ny - dy)):
        i, i1 = offsets_b[y], offsets_b[y + 1]
        j, j1 = offsets_a[y + dy], offsets_a[y + dy + 1]
        while i < i1 and j < j1:
            if (
                starts_b[i] + shift - reach < stops_a[j]
                and starts_a[j] < stops_b[i] + shift + reach
            ):
                a, b = np.int64(labels_a[j]) - 1, np.int64(labels_b[i]) - 1
                if values_b.size == 0 or values_a[a] == values_b[b]:
                    _unite(parent, base_a + a, base_b + b)
            is_before = np.int64(stops_b[i] + shift < stops_a[j])
            i += is_before
            j += 1 - is_before


@kernel
def labels_at(offsets, starts, stops, labels, rows, columns):
    """The component at each (row, column), or 0."""
    out = np.zeros(rows.size, np.uint32)
    for k in range(rows.size):
        lo, hi = offsets[rows[k]], offsets[rows[k] + 1]
        while lo < hi:  # find the first run that ends after the column
            mid = (lo + hi) // 2
            if stops[mid] <= columns[k]:
                lo = mid + 1
            else:
                hi = mid
        if lo < offsets[rows[k] + 1] and starts[lo] <= columns[k]:
            out[k] = labels[lo]
    return out


@kernel
def digest(offsets, starts, stops, nx, row):
    """A 64-bit hash of the runs in rows of ``nx`` voxels, which are numbered from ``row``.

    It is a sum over runs, so the hashes of successive rows add up modulo 2**64.
    """
    total = np.uint64(0)
    for r in range(offsets.size - 1):
        key = mixed(mixed(np.uint64(row + r)) + np.uint64(nx))
        total += key
        for i in range(offsets[r], offsets[r + 1]):
            total += mixed(key ^ (np.uint64(starts[i]) << np.uint64(32) | np.uint64(stops[i])))
    return total


@kernel
def measure(offsets, starts, stops, labels, ny, core, size, lower, upper):
    """Update sizes and bounding boxes over the first ``core`` slices, rows and columns of a block."""
    # ``size`` is int64 (count + 1), ``lower`` and ``upper`` int64 (count + 1, 3), half-open in the block's
    # coordinates. Entry 0 is unused.
    for z in range(core[0]):
        for y in range(core[1]):
            r = z * ny + y
            for i in range(offsets[r], offsets[r + 1]):
                a, b = starts[i], min(np.int64(stops[i]), core[2])
                if a >= b:
                    continue
                c = labels[i]
                size[c] += b - a
                lower[c, 0] = min(lower[c, 0], z)
                lower[c, 1] = min(lower[c, 1], y)
                lower[c, 2] = min(lower[c, 2], a)
                upper[c, 0] = max(upper[c, 0], z + 1)
                upper[c, 1] = max(upper[c, 1], y + 1)
                upper[c, 2] = max(upper[c, 2], b)


@kernel
def mark(offsets, starts, stops, labels, seeds, marked):
    """Set ``marked[label]``, bool (count + 1), of every component with a non-zero voxel of ``seeds``.

    ``seeds`` (nz, ny, nx) has the rows of the block.
    """
    nz, ny, _ = seeds.shape
    for z in range(nz):
        for y in range(ny):
            row = seeds[z, y]
            r = z * ny + y
            for i in range(offsets[r], offsets[r + 1]):
                found = marked[labels[i]]
                x = starts[i]
                while not found and x < stops[i]:
                    found = row[x] != 0
                    x += 1
                marked[labels[i]] = found


@kernel
def unite_pairs(parent, a, b):
    """Unite ``a[k]`` with ``b[k]``; ``parent`` has for each item itself or an earlier one of its class."""
    for k in range(a.size):
        _unite(parent, a[k], b[k])


@kernel
def continue_values(parent, before, given, values):
    """Write the value of the continued component, or the next of ``given``, for components of a block.

    ``parent`` has the roots of ``before`` first. Returns how many of ``given`` were used.
    """
    n, new = before.size, 0
    for i in range(values.size):
        root = parent[n + i]
        if root < n:
            values[i] = before[root]
        else:
            values[i] = given[new]
            new += 1
    return new


@kernel
def unite(count, pairs):
    """Equivalence classes of ``0..count - 1`` under int64 (n, 2) pairs, each named by its smallest member."""
    parent = np.arange(count)
    for k in range(pairs.shape[0]):
        _unite(parent, pairs[k, 0], pairs[k, 1])
    flatten(parent)
    return parent


@kernel
def flatten(parent):
    """Replace each parent by the root, which is the smallest member of its class."""
    for i in range(parent.size):
        parent[i] = parent[parent[i]]


@kernel
def slabs_of(voxels, shape, step, counts, slabs):
    """Write the slab of each voxel, by linear indices in a volume and in its grid of slabs."""
    _, ny, nx = shape
    for i in range(voxels.size):
        voxel = np.int64(voxels[i])
        row = voxel // nx
        z, y = row // ny // step[0], row % ny // step[1]
        slabs[i] = (z * counts[1] + y) * counts[2] + (voxel - row * nx) // step[2]


@kernel
def number_rows(before, counts, numbers):
    """Number the items of each row from the number of items before it plus one on."""
    n = 0
    for row in range(counts.size):
        for k in range(counts[row]):
            numbers[n] = before[row] + k + 1
            n += 1


@kernel
def count_roots(parent):
    """The number of items that are roots."""
    n = 0
    for i in range(parent.size):
        n += parent[i] == i
    return n


@kernel
def copy_roots(parent, first, values, out, n):
    """Copy ``values`` of roots to ``out``, from index ``n`` on, and return its end.

    ``values`` are of the items from ``first`` on.
    """
    for k in range(values.size):
        if parent[first + k] == first + k:
            out[n] = values[k]
            n += 1
    return n


@kernel
def rank(parent, ranks):
    """Number classes 0, 1, ... by their smallest members; write the number of each item to ``ranks``."""
    count = 0
    for i in range(parent.size):
        if parent[i] == i:
            ranks[i] = count
            count += 1
        else:
            ranks[i] = ranks[parent[i]]  # parents have lower indices
