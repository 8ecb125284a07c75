"""Threshold under uneven light

One threshold for the whole volume fails where the background is brighter in one corner than the
objects are in another. `threshold_local` compares each voxel with the mean of its surroundings.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The granules are 100 brighter than their background, which rises from 40 to 240 from left to
# right.
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
# Otsu's threshold is one number. It misses granules on the left and takes the background on the
# right.
everywhere = stack > bv.threshold_otsu(stack)
bv.preview(everywhere)

# %%
# `block_size` is the extent of the surroundings, an odd number of voxels. In a block as small as a
# granule, the mean is the granule's own. Only rims are left. A negative `offset` keeps
# noise out: voxels have to be brighter than the mean by that much.
narrow = stack > bv.threshold_local(stack, 5, "mean", offset=-30)
bv.preview(narrow)

# %%
# A block of 41 pixels is several times as wide as a granule. Its mean is near the background.
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
