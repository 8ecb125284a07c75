"""Extract spots from a varying background

A white top-hat keeps objects brighter than their surroundings, up to a given size. Use it
before counting vesicles or puncta on an uneven background.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The background varies by four times the brightness of the spots, which have a radius of 2 voxels.
rng = np.random.default_rng(1)
shape = (16, 128, 160)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((2, 4, 4), (14, 124, 156), (40, 3)).T)] = False
spots = ndimage.distance_transform_edt(seeds) <= 2
y, x = np.mgrid[: shape[1], : shape[2]]
background = 500 + 200 * np.sin(x / 25) * np.cos(y / 30)
image = background + 100 * spots + rng.normal(0, 5, shape)
stack = bv.open(image.astype("u2"))
bv.preview(stack)

# %%
# `size` is the extent of the neighbourhood in voxels. If it is smaller than a spot, the spot is
# treated as background, and only noise is left.
too_small = bv.white_tophat(stack, size=(3, 3, 3))
bv.preview(too_small)

# %%
# The size has to exceed the width of a spot, which is 5 voxels.
extracted = bv.white_tophat(stack, size=(7, 7, 7))
bv.preview(extracted)

# %%
# A threshold finds the spots in the second result, and few of them in the first.
found = np.asarray(extracted > 70)
lost = np.asarray(too_small > 70)
print(f"{(found & spots).sum()} and {(lost & spots).sum()} of {spots.sum()} voxels are found")
assert (found & spots).sum() > 0.9 * spots.sum() and (found & ~spots).sum() < 0.1 * spots.sum()
assert (lost & spots).sum() < 0.5 * spots.sum()
