"""Threshold under uneven light

A single threshold fails if the background in one corner is brighter than the objects in another.
`threshold_local` compares each voxel with the mean of its surroundings.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The granules are brighter than their background by 100. The background rises from 40 on the left
# to 240 on the right.
rng = np.random.default_rng(2)
shape = (12, 128, 192)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (90, 3)).T)] = False
granules = ndimage.distance_transform_edt(seeds) < 5
background = np.linspace(40, 240, shape[2])
image = background + 100 * granules + rng.normal(0, 10, shape)
stack = bv.open(image.clip(0, 65535).astype("u2"))
bv.preview(stack)

# %%
# Otsu's threshold is one number. It misses granules on the left and includes the background on the
# right.
everywhere = stack > bv.threshold_otsu(stack)
bv.preview(everywhere)

# %%
# `block_size` is the extent of the surroundings, an odd number of voxels. If a block is as small as
# a granule, its mean is the brightness of the granule, and only rims are left. A negative `offset`
# excludes noise: voxels have to be brighter than the mean by that much.
narrow = stack > bv.threshold_local(stack, 5, "mean", offset=-30)
bv.preview(narrow)

# %%
# A block of 41 pixels is several times as wide as a granule. Its mean is close to the background.
local = stack > bv.threshold_local(stack, (11, 41, 41), "mean", offset=-30)
bv.preview(local)


# %%
# Compare the masks with the granules: the voxels in both, divided by the voxels in either.
def overlap(mask):
    """Intersection over union."""
    found = np.asarray(mask)
    return float((found & granules).sum() / (found | granules).sum())


for name, mask in (("Otsu", everywhere), ("block of 41", local), ("block of 5", narrow)):
    print(f"{name:12} {overlap(mask):.2f}")
assert overlap(local) > 0.8 > 0.5 > overlap(everywhere)
assert overlap(narrow) < overlap(local)
