"""Subtract a background with a rolling ball

`rolling_ball` rolls a ball under the intensities; its path is the background. Objects narrower than
the ball stay, and everything wider is subtracted.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Spots on a background that varies slowly, with voxels that are three times as long along z as
# along y and x.
rng = np.random.default_rng(1)
shape = (12, 120, 160)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (60, 3)).T)] = False
spots = ndimage.distance_transform_edt(seeds, sampling=(3, 1, 1)) < 4
background = 80 + 15 * ndimage.gaussian_filter(rng.normal(size=shape), (6, 25, 25)) / 0.003
image = background.clip(20, 180) + 40 * spots
stack = bv.open(image.astype("u1"), voxel_size=(0.6, 0.2, 0.2), unit="um")
bv.preview(stack)

# %%
# The radius is a length here, so the ball is an ellipsoid of voxels. It has to be larger than a
# spot, which has a diameter of 1.6 micrometers.
level = bv.rolling_ball(stack, radius="3 um")
bv.preview(level)

# %%
# Now one threshold finds the spots everywhere.
even = stack - level
bv.preview(even)

# %%
# Count the voxels of spots that a threshold of 30 finds, and the false positives.
found = np.asarray(even > 30)
print(f"{(found & spots).sum() / spots.sum():.0%} found, {(found & ~spots).sum()} by mistake")
assert (found & spots).sum() > 0.95 * spots.sum()
assert (found & ~spots).sum() < 0.05 * spots.sum()
