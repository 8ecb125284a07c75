"""Clean a mask with opening and closing

A thresholded volume has specks in the background and pores in the objects. An opening removes parts
that are thinner than its structuring element. A closing fills gaps that are narrower than it.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The mask shows nuclei. Two per cent of the voxels are wrong.
rng = np.random.default_rng(0)
shape = (24, 112, 160)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (30, 3)).T)] = False
nuclei = ndimage.distance_transform_edt(seeds) < 9
mask = bv.open(nuclei ^ (rng.random(shape) < 0.02))
bv.preview(mask)

# %%
# A closing fills the pores. It comes first, because an opening would widen them. With
# `border_value="ignore"`, only voxels inside the volume are used at its edges.
closed = bv.binary_closing(mask, bv.ball(1), border_value="ignore")
bv.preview(closed)

# %%
# The opening then removes the specks. A ball with a radius of 2 voxels is smaller than a nucleus
# and larger than a speck.
cleaned = bv.binary_opening(closed, bv.ball(2), border_value="ignore")
bv.preview(cleaned)

# %%
# A ball with a radius of 7 removes parts of nuclei as well.
too_large = bv.binary_opening(closed, bv.ball(7), border_value="ignore")
bv.preview(too_large)

# %%
# `area_opening` and `area_closing` select by size instead: components with fewer voxels are
# removed, and others keep their outline.
sized = bv.area_closing(bv.area_opening(mask, 200), 200)
bv.preview(sized)

# %%
# Count the voxels that are wrong.
wrong = {
    name: int(bv.count_nonzero(volume ^ nuclei))
    for name, volume in (("mask", mask), ("cleaned", cleaned), ("radius 7", too_large))
}
print(wrong)
assert wrong["cleaned"] < wrong["mask"] / 4
assert wrong["radius 7"] > 2 * wrong["cleaned"]
