"""The steps of a label over slabs, in plain Python: a keyed step sees its values in random order,
and some of them twice, as a runner that retries may deliver them."""

import itertools
import pickle

import numpy as np

from beam_volumes.across import components as cc
from beam_volumes.across import merge as mg
from beam_volumes.geometry import Grid


def group_by_key(pairs, rng):
    """Values by key; everything has been pickled, shuffled and partly duplicated."""
    pairs = [pickle.loads(pickle.dumps(p)) for p in pairs]
    pairs += [pairs[i] for i in rng.integers(0, len(pairs), len(pairs) // 3)] if pairs else []
    groups = {}
    for i in rng.permutation(len(pairs)):
        key, value = pairs[i]
        assert all(type(k) is int for k in np.atleast_1d(np.array(key, object)))
        groups.setdefault(key, []).append(value)
    return groups


def by_first(values):
    """Tagged values as a dict: of duplicates, one."""
    return dict(values)


def windows_of(depth, window):
    return [(z, min(z + window, depth)) for z in range(0, depth, window)]


def summarise(read, grid, cell, window, labelling, measures=(), seeds=None, extra=None):
    """The first sweep of one slab; ``read`` yields a box of the mask."""
    labeler = cc.SlabLabeler(grid, cell, labelling, measures)
    for z0, z1 in windows_of(labeler.region.shape[0], window):
        box = window_box(labeler.region, z0, z1)
        labeler.feed(read(box), None if seeds is None else seeds(box), extra)
    return labeler.finish()


def window_box(region, z0, z1):
    z, y, x = region.start
    return type(region)((z + z0, y, x), (z + z1, *region.stop[1:]))


def solve(summaries, grid, radix, rng, keep=None, k_largest=None, as_mask=False, rules=cc.RULES):
    """The merge and back: (cell -> {window: final ids}, number of components, table of kept)."""
    tree = mg.Tree(grid.counts, radix)
    tables, closed_parts, level = {}, [], []

    def emit(up, table, closed):
        tables[table.key] = pickle.loads(pickle.dumps(table))
        closed_parts.extend((c, part) for c, part in mg.by_slab(closed, grid).items())
        level.append(up)

    slabs = group_by_key([((0, *s.cell), s) for s in summaries], rng)
    for values in slabs.values():
        emit(*mg.leaf(values[0]))
    largest_input = group_by_key(
        [kv for up in level for kv in mg.loads(tree, up).items()], np.random.default_rng(0)
    )
    top = level
    for _ in range(tree.levels):
        groups = group_by_key([(tree.parent(s.key), s) for s in level], rng)
        level = []
        for key, values in groups.items():
            taken = sum(len(s.ids) for s in {v.key: v for v in values}.values())
            assert taken <= sum(largest_input[key]) or not taken
            emit(*mg.merge(tree, key, values, rules))
        top = level
    assert len(top) == 1 and len(top[0].ids) == 0

    # Roots, where they live.
    parts = group_by_key(closed_parts, rng)
    if k_largest is not None:
        best = mg.largest(
            (
                mg.largest([mg.Largest(p.payload["size"], p.roots) for p in values], k_largest)
                for values in parts.values()
            ),
            k_largest,
        )
        keep = mg.Keep(cutoff=mg.cutoff_of(best, k_largest))
    slabs = {cell: mg.gather_roots(cell, values, keep) for cell, values in parts.items()}

    # Ranks.
    ny = grid.shape[1]
    rows = {cell: mg.row_counts(s, grid.shape) for cell, s in slabs.items()}
    bands = group_by_key([((z, y), (x, r)) for (z, y, x), r in rows.items()], rng)
    tiles_before, slices = {}, {}
    for (z, y), values in bands.items():
        before, slices[z, y] = mg.interleave_tiles(by_first(values), ny)
        tiles_before |= {(z, y, x): b for x, b in before.items()}
    layers = group_by_key([(z, (y, s)) for (z, y), s in slices.items()], rng)
    bands_before, totals = {}, np.zeros(grid.counts[0], np.int64)
    for z, values in layers.items():
        before, totals[z] = mg.interleave_bands(by_first(values))
        bands_before |= {(z, y): b for y, b in before.items()}
    base = mg.exclusive(totals)

    answers = []
    for (z, y, x), slab in slabs.items():
        before = mg.place_rows(
            rows[z, y, x], tiles_before[z, y, x], slices[z, y], bands_before[z, y], int(base[z]), ny
        )
        ids = mg.flag(slab) if as_mask else mg.number(slab, rows[z, y, x], before)
        answers += [(key, ((z, y, x), a)) for key, a in ids.items()]
    answers = group_by_key(answers, rng)

    # Down.
    result, messages = {}, {}
    for n in range(tree.levels, -1, -1):
        for key, table in tables.items():
            if key[0] != n:
                continue
            of_closed = mg.collect(table, grid, by_first(answers.get(key, ())))
            of_parent = messages.get(key, np.empty(0, np.uint64))
            children = mg.descend(table, of_parent, of_closed)
            if n:
                messages |= children
            else:
                result[key[1:]] = children
    kept = sorted(slabs.values(), key=lambda s: s.cell)
    return result, int(totals.sum()), kept


def label_by_slabs(
    mask,
    slab_shape,
    window,
    labelling,
    seed=0,
    radix=(2, 2, 2),
    measures=(),
    seeds=None,
    dtype=np.uint64,
    **options,
):
    """Labels of an array in memory, by slabs; (labels, number, roots by slab)."""
    rng = np.random.default_rng(seed)
    grid = Grid(mask.shape, slab_shape)
    cells = list(itertools.product(*map(range, grid.counts)))
    read = lambda box: mask[box.slices]  # noqa: E731
    read_seeds = None if seeds is None else lambda box: seeds[box.slices]
    summaries = [summarise(read, grid, c, window, labelling, measures, read_seeds) for c in cells]
    ids, count, kept = solve(summaries, grid, radix, rng, **options)
    digests = {s.cell: s.digests for s in summaries}
    out = np.full(mask.shape, 99, dtype)
    for cell in cells:
        core, region = cc.region_of(grid, cell)
        for w, (z0, z1) in enumerate(windows_of(region.shape[0], window)):
            inside = window_box(core, z0, min(z1, core.shape[0]))
            if inside.size:
                block = mask[window_box(region, z0, z1).slices]
                part = out[inside.slices]
                cc.relabel_window(labelling, block, ids[cell][w], digests[cell][w], part)
    return out, count, kept
