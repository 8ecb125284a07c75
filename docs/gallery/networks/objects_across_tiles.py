"""Segment in tiles with a function that returns labels

Cellpose, StarDist and similar programs return labels that start again at 1 in each tile.
`map_instances` runs such a function on overlapping tiles and assigns a single label to an object
that is in two tiles.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Thirty nuclei in a volume.
rng = np.random.default_rng(2)
shape = (20, 120, 160)
seeds = np.ones(shape, bool)
for b in range(5):
    for c in range(6):
        seeds[rng.integers(7, 13), 14 + 23 * b, 14 + 26 * c + rng.integers(-3, 4)] = False
nuclei = ndimage.distance_transform_edt(seeds) < 8
stack = bv.open((100 + 200 * nuclei + rng.normal(0, 20, shape)).clip(0).astype("u2"))
bv.preview(stack)


# %%
# This function replaces a network that detects objects.
def segment(tile):
    """Label bright components."""
    return ndimage.label(ndimage.gaussian_filter(tile.astype("f4"), 1) > 200)[0]


# %%
# Without an overlap, nuclei are cut at the edges of tiles.
options = {"name": "bright", "version": 1}
cut = bv.map_instances(stack, segment, tile=(20, 48, 48), overlap=0, **options)
bv.preview(cut)

# %%
# If the overlap is as wide as a nucleus, each nucleus is complete in at least one tile.
# `stitch="iou"` merges labels that have enough voxels in common.
whole = bv.map_instances(stack, segment, tile=(20, 48, 48), overlap=(0, 18, 18), **options)
bv.preview(whole)

# %%
counts = {name: int(v.num_labels) for name, v in (("no overlap", cut), ("overlap of 18", whole))}
print(counts)
assert counts["overlap of 18"] == ndimage.label(nuclei)[1] == 30 < counts["no overlap"]
