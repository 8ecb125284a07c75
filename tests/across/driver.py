"""The steps of a label over slabs, in plain Python: a keyed step sees its values in random order,
and some of them twice, as a runner that retries may deliver them."""

import itertools

import numpy as np

from beam_volumes.across import components as cc
from beam_volumes.across.rounds.components import component_flow
from beam_volumes.across.rounds.flow import group_by_key, run
from beam_volumes.base.geometry import Grid
from tests.across.groups import shuffling


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


def relabel(labelling, ids, digests, mask, core, region, window, out):
    """The second sweep of one slab, into its part of ``out``."""
    relabeler = cc.SlabRelabeler(labelling, ids, digests)
    for z0, z1 in windows_of(region.shape[0], window):
        inside = window_box(core, z0, min(z1, core.shape[0]))
        if inside.size:
            found, own = relabeler.feed(mask[window_box(region, z0, z1).slices])
            found.paint(cc.painted_with(own, out.dtype), out[inside.slices])


def solve(summaries, grid, rng, **options):
    """The merge: by slab the answer, the number of components, and by slab ids and payload.

    The last where roots are asked for, ``columns=True``.
    """
    flow = component_flow(grid, **options)
    given = [((grid_index(grid, s.cell),), s) for s in summaries]
    # The first round is given one value for each key, the others what a runner makes of it.
    chaos = shuffling(rng)
    first = iter([group_by_key])
    out = run(flow, given, lambda pairs: next(first, chaos)(pairs))
    answers = dict(out["answers"])
    assert sorted(answers) == [(i,) for i in range(len(grid))] and len(answers) == len(grid)
    assert len(out["answers"]) == len(grid)
    ((key, numbers),) = out["numbers"]
    assert key == ()
    components = [value for _, value in sorted(out.get("components", []), key=lambda kv: kv[0])]
    return {grid.cell(i): a for (i,), a in answers.items()}, numbers["count"], components


def grid_index(grid, cell):
    return int(np.ravel_multi_index(cell, grid.counts))


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
    """Labels of an array in memory, by slabs; (labels, number, ids and payload by slab)."""
    rng = np.random.default_rng(seed)
    grid = Grid(mask.shape, slab_shape)
    cells = list(itertools.product(*map(range, grid.counts)))
    read = lambda box: mask[box.slices]  # noqa: E731
    read_seeds = None if seeds is None else lambda box: seeds[box.slices]
    summaries = [summarise(read, grid, c, window, labelling, measures, read_seeds) for c in cells]
    answers, count, components = solve(summaries, grid, rng, radix=radix, dtype=dtype, **options)
    out = np.full(mask.shape, 99, dtype)
    for cell in cells:
        core, region = cc.region_of(grid, cell)
        relabel(labelling, *answers[cell], mask, core, region, window, out)
    return out, count, components
