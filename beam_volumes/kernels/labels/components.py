"""Connected components of a block by runs: union-find over parts of rows instead of voxels.

A *run* is a maximal part of a row with voxels that are connected along x. Runs are found row by row in raster
order, and united with runs of earlier rows (He, Chao, Suzuki, "A run-based two-scan labeling algorithm", IEEE
TIP 2008). The root of a tree is its first run, so roots in this order have the raster order of first voxels,
as in `scipy.ndimage.label`.

No label per voxel is necessary: sizes, equivalences and the final painting work on runs. They are four
arrays::

    offsets : int64 (nz * ny + 1)   row r = z * ny + y has runs offsets[r] to offsets[r + 1]
    starts, stops : int32 (n)       columns of the run, half-open
    labels : uint32 (n)             component of the run, 1..count

A block's ``links``, int64 (m, 4), define which earlier rows touch a row: ``dz, dy, shift, reach``. Voxel x of
the row touches ``x + shift - reach`` to ``x + shift + reach`` there (see `links_of`).
"""

import numpy as np

from beam_volumes.kernels.jit import kernel
from beam_volumes.kernels.measure.digests import mixed

MASK, VALUES, VALUES_NO_BACKGROUND = 0, 1, 2


def links_of(structure, kind):
    """The half of a structure before its centre, as ``links``, and whether neighbours along x touch.

    ``structure`` is bool (3, 3, 3), centrosymmetric; ``kind`` is MASK, VALUES or VALUES_NO_BACKGROUND. If
    neighbours along x do not touch, every voxel is a run.
    """
    is_joined = bool(structure[1, 1, 0])
    # A step of the merge can miss a diagonal pair of adjacent runs without a gap; single shifts cannot.
    has_gaps = is_joined and kind == MASK
    links = []
    for dz, dy in ((-1, -1), (-1, 0), (-1, 1), (0, -1)):
        bits = structure[dz + 1, dy + 1]
        if has_gaps and bits.all():
            links.append((dz, dy, 0, 1))
        else:
            links += [(dz, dy, dx, 0) for dx in (-1, 0, 1) if bits[dx + 1]]
    return np.array(links, np.int64).reshape(-1, 4), is_joined


@kernel
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


@kernel
def _mask_runs(row, is_set, turns, starts, stops, n):
    """Runs of non-zero voxels; ``is_set`` and ``turns`` are scratch of ``row.size + 2`` entries."""
    nx = row.size
    for x in range(nx):
        is_set[x + 1] = row[x] != 0
    is_set[0] = 0
    is_set[nx + 1] = 0
    k = 0
    for x in range(nx + 1):  # without branches, which would often be mispredicted
        turns[k] = x
        k += is_set[x] ^ is_set[x + 1]
    for i in range(k // 2):
        starts[n + i] = turns[2 * i]
        stops[n + i] = turns[2 * i + 1]
    return n + k // 2


@kernel
def _value_runs(row, kind, background, is_joined, starts, stops, n):
    """Runs of equal values, or single voxels of a mask."""
    nx = row.size
    x = 0
    while x < nx:
        value = row[x]
        end = x + 1
        if is_joined:
            while end < nx and row[end] == value:
                end += 1
        if (kind == 0 and value != 0) or (kind == 1 and value != background) or kind == 2:
            starts[n] = x
            stops[n] = end
            n += 1
        x = end
    return n


@kernel
def _grown(array, size):
    out = np.empty(size, array.dtype)
    for i in range(array.size):
        out[i] = array[i]
    return out


@kernel
def _unite_rows(parent, starts, stops, span, shift, reach, is_mask, row, other):
    """Unite the runs ``i`` to ``i1`` of a row with touching runs ``j`` to ``j1`` of another."""
    i, i1, j, j1 = span
    while i < i1 and j < j1:
        if (
            starts[i] + shift - reach < stops[j]
            and starts[j] < stops[i] + shift + reach
            and (is_mask or row[starts[i]] == other[starts[j]])
        ):
            _unite(parent, i, j)
        is_before = np.int64(stops[i] + shift < stops[j])
        i += is_before
        j += 1 - is_before


@kernel
def find_runs(block, links, is_joined, kind, background, begin, end):
    """Runs of some rows of a block of voxels, and unions of touching ones.

    ``block``, C-contiguous (nz, ny, nx), is a mask (non-zero is foreground, also NaN), or has values.
    ``kind`` is MASK: foreground is connected; VALUES: voxels with equal values are, except ``background``, a
    scalar of the block's dtype; or VALUES_NO_BACKGROUND. ``links`` and ``is_joined`` are from `links_of`.
    ``begin`` and ``end`` are row indices in the block. Returns the offsets, starts and stops of these rows,
    and ``parent``, int32 (n): for each run itself or an earlier run of its component.
    """
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    capacity = nx + 1 + 2 * (end - begin)
    starts = np.empty(capacity, np.int32)
    stops = np.empty(capacity, np.int32)
    parent = np.empty(capacity, np.int32)
    offsets = np.empty(end - begin + 1, np.int64)
    is_set = np.empty(nx + 2, np.uint8)
    turns = np.empty(nx + 2, np.int32)
    is_mask = kind == 0
    n = np.int64(0)  # not a literal, which would compile the rest once more
    for r in range(begin, end):
        if n + nx + 1 > capacity:
            capacity = capacity + capacity // 2 + nx + 1
            starts = _grown(starts, capacity)
            stops = _grown(stops, capacity)
            parent = _grown(parent, capacity)
        a0 = n
        offsets[r - begin] = n
        if is_mask and is_joined:
            n = _mask_runs(rows[r], is_set, turns, starts, stops, n)
        else:
            n = _value_runs(rows[r], kind, background, is_joined, starts, stops, n)
        for i in range(a0, n):
            parent[i] = i
        if n == a0:
            continue
        z, y = r // ny, r % ny
        for k in range(links.shape[0]):
            dz, dy, shift, reach = links[k, 0], links[k, 1], links[k, 2], links[k, 3]
            q = r + dz * ny + dy
            if q < begin or z + dz < 0 or y + dy < 0 or y + dy >= ny:
                continue
            span = a0, n, offsets[q - begin], offsets[q - begin + 1]
            _unite_rows(parent, starts, stops, span, shift, reach, is_mask, rows[r], rows[q])
    offsets[end - begin] = n
    return offsets, starts[:n].copy(), stops[:n].copy(), parent[:n].copy()


@kernel
def join_runs(block, links, kind, cuts, offsets, starts, stops, parent):
    """Unite touching runs of separate calls: the block's rows were divided before each of ``cuts``."""
    nz, ny, nx = block.shape
    rows = block.reshape(nz * ny, nx)
    is_mask = kind == 0
    for cut in cuts:
        for r in range(cut, min(cut + ny + 1, nz * ny)):
            z, y = r // ny, r % ny
            for k in range(links.shape[0]):
                dz, dy, shift, reach = links[k, 0], links[k, 1], links[k, 2], links[k, 3]
                q = r + dz * ny + dy
                if q >= cut or z + dz < 0 or y + dy < 0 or y + dy >= ny:
                    continue
                span = offsets[r], offsets[r + 1], offsets[q], offsets[q + 1]
                _unite_rows(parent, starts, stops, span, shift, reach, is_mask, rows[r], rows[q])


@kernel
def number_runs(nx, offsets, starts, parent):
    """Number the components of runs; return their labels, and the index of each component's first voxel.

    ``first``, int64 (count), are increasing linear indices in a block with rows of ``nx`` voxels.
    """
    n = parent.size
    labels = np.empty(n, np.uint32)
    count = 0
    for i in range(n):
        if parent[i] == i:
            count += 1
            labels[i] = count
        else:
            labels[i] = labels[parent[i]]  # parents have lower indices
    first = np.empty(count, np.int64)
    count = 0
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            if parent[i] == i:
                first[count] = np.int64(r) * nx + starts[i]
                count += 1
    return labels, first


@kernel
def paint(offsets, starts, stops, labels, table, out):
    """Write ``table[label]`` to runs, and ``table[0]`` to other voxels.

    ``out`` (rows, columns), with contiguous rows, starts at the first row of ``offsets``, and may have fewer
    columns.
    """
    for y in range(out.shape[0]):
        row = out[y]
        nx = row.size
        row[:] = table[0]
        for i in range(offsets[y], offsets[y + 1]):
            value = table[labels[i]]
            for x in range(starts[i], min(stops[i], nx)):
                row[x] = value


@kernel
def unite_planes(below, above, links, values_a, values_b, parent, base_a, base_b):
    """Unite touching components of two successive slices.

    ``below`` and ``above`` are the offsets, starts, stops and labels of one slice each, with offsets from 0.
    ``links`` are from `links_of`; only dz = -1 is used. Components with different ``values_a`` and
    ``values_b`` do not touch; both are empty for masks. ``parent``, int64, has for each component itself or
    an earlier one of its class; ``base_a`` and ``base_b`` are the indices of the first component below and
    above in it.
    """
    offsets_a, starts_a, stops_a, labels_a = below
    offsets_b, starts_b, stops_b, labels_b = above
    is_mask = values_b.size == 0
    ny = offsets_b.size - 1
    for k in range(links.shape[0]):
        dz, dy, shift, reach = links[k, 0], links[k, 1], links[k, 2], links[k, 3]
        if dz != -1:
            continue
        for y in range(max(0, -dy), min(ny, ny - dy)):
            i, i1 = offsets_b[y], offsets_b[y + 1]
            j, j1 = offsets_a[y + dy], offsets_a[y + dy + 1]
            while i < i1 and j < j1:
                if (
                    starts_b[i] + shift - reach < stops_a[j]
                    and starts_a[j] < stops_b[i] + shift + reach
                ):
                    a, b = np.int64(labels_a[j]) - 1, np.int64(labels_b[i]) - 1
                    if is_mask or values_a[a] == values_b[b]:
                        _unite(parent, base_a + a, base_b + b)
                if stops_b[i] + shift < stops_a[j]:
                    i += 1
                else:
                    j += 1


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
def digest(offsets, starts, stops, labels, nx, values, row):
    """A 64-bit hash of the runs in rows of ``nx`` voxels, which are numbered from ``row``.

    It is a sum over runs, so the hashes of successive rows add up modulo 2**64. ``values`` are uint64, one
    per component, or empty.
    """
    total = np.uint64(0)
    for r in range(offsets.size - 1):
        key = mixed(mixed(np.uint64(row + r)) + np.uint64(nx))
        total += key
        if values.size == 0:
            for i in range(offsets[r], offsets[r + 1]):
                total += mixed(key ^ (np.uint64(starts[i]) << np.uint64(32) | np.uint64(stops[i])))
            continue
        for i in range(offsets[r], offsets[r + 1]):
            run = key ^ (np.uint64(starts[i]) << np.uint64(32) | np.uint64(stops[i]))
            total += mixed(mixed(run) + values[labels[i] - 1])
    return total


@kernel
def measure(offsets, starts, stops, labels, ny, core, size, lower, upper):
    """Sizes and bounding boxes over the first ``core`` slices, rows and columns of a block.

    Updates ``size``, int64 (count + 1), and ``lower`` and ``upper``, int64 (count + 1, 3), half-open in the
    block's coordinates. Entry 0 is unused.
    """
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
