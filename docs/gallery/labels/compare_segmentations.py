"""Compare a segmentation with the truth

A segmentation can split a cell in two, or merge two cells. The variation of information has one
number for each type of error, which shows where to improve.
"""

import numpy as np

import beam_volumes as bv

# %%
# The true cells fill the volume without gaps.
rng = np.random.default_rng(3)
z, y, x = np.mgrid[:24, :104, :144].astype("f4")
centres = rng.uniform((0, 0, 0), z.shape, (40, 3))
distances = np.stack([(z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2 for a, b, c in centres])
truth = bv.open((distances.argmin(axis=0) + 1).astype("u4"))
bv.preview(truth)

# %%
# The first segmentation cuts all cells at a plane. The second one merges cells in pairs.
split = bv.where(bv.coordinates(truth, 2) < 72, truth, truth + 100)
bv.preview(split)

# %%
merged = (truth + 1) // 2
bv.preview(merged)

# %%
# `split` grows with false splits and `merge` with false merges; both are in bits and 0 at best. The
# adapted Rand error combines both in a number from 0 to 1.
rows = {}
for name, test in (("truth", truth), ("split", split), ("merged", merged)):
    false_splits, false_merges = bv.variation_of_information(truth, test)
    error, _, _ = bv.adapted_rand_error(truth, test)
    rows[name] = bv.compute(false_splits, false_merges, error)
    print(
        "{:7} split {:.2f}  merge {:.2f}  Rand error {:.2f}".format(name, *map(float, rows[name]))
    )
assert tuple(rows["truth"]) == (0, 0, 0)
assert rows["split"][0] > 0 == rows["split"][1]
assert rows["merged"][1] > 0 == rows["merged"][0]

# %%
# `join_segmentations` cuts each cell wherever one of two segmentations has a boundary, and
# `relabel_sequential` numbers labels without gaps.
joined = bv.join_segmentations(split, merged)
numbered, _, _ = bv.relabel_sequential(split)
assert int(bv.max(numbered)) < int(bv.max(split))
bv.preview(joined)

# %%
# `segment_iou` identifies the cells: for each true cell, it returns the best match and its overlap.
table = bv.segment_iou(truth, split)
print(f"{(table['iou'] == 1).sum()} of {len(table['iou'])} cells are whole")
assert 0 < (table["iou"] == 1).sum() < 40
