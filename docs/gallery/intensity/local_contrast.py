"""Equalize contrast locally

Structures may be clear in one corner of a volume and faint in another. `equalize_adapthist` equalizes
the histograms of tiles and interpolates between them (CLAHE).
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Stripes of equal width. Their contrast decreases from left to right, and the background becomes
# brighter.
rng = np.random.default_rng(4)
shape = (12, 120, 200)
stripes = ndimage.gaussian_filter(rng.normal(size=shape), (2, 3, 3)) > 0
fading = np.linspace(1, 0.1, shape[2])
image = 120 + 60 * (1 - fading) + 60 * fading * stripes + rng.normal(0, 1, shape)
stack = bv.open(image.astype("u1"))
bv.preview(stack)

# %%
# A single curve for the whole volume does not help: the same grey level is a stripe on the left and
# background on the right.
everywhere = bv.equalize_hist(stack)
bv.preview(everywhere)

# %%
# `kernel_size` is the extent of a tile, larger than the structures. `clip_limit` is the largest
# fraction of a tile's voxels with one level; larger numbers give more contrast but also more noise.
local = bv.equalize_adapthist(stack, (12, 30, 25), clip_limit=0.3)
bv.preview(local)


# %%
# The contrast of the stripes in the right quarter, relative to the left quarter.
def evenness(result):
    """Ratio of differences of means."""
    quarters = []
    for part in (np.s_[..., 150:], np.s_[..., :50]):
        voxels, where = np.asarray(result)[part], stripes[part]
        quarters.append(float(voxels[where].mean() - voxels[~where].mean()))
    return quarters[0] / quarters[1]


for name, result in (("image", stack), ("one curve", everywhere), ("tiles", local)):
    print(f"{name:10} {evenness(result):.2f}")
assert evenness(local) > 0.7 > evenness(everywhere) > evenness(stack)

# %%
# `match_histograms` makes a second stack look like the first one.
darker = bv.open((image * 0.6 - 20).astype("u1"))
matched = bv.match_histograms(darker, stack)
assert abs(float(bv.mean(matched)) - float(bv.mean(stack))) < 1
bv.preview(matched)
