"""Even out the brightness of slices

In electron microscopy, brightness and contrast vary from slice to slice. `normalize_slices` gives
all slices the same mean and standard deviation, so a single threshold fits all of them.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Each slice has its own gain and offset. The section along z shows stripes.
rng = np.random.default_rng(0)
texture = ndimage.gaussian_filter(rng.normal(size=(32, 112, 144)), 3)
membranes = np.abs(texture) < 0.3 * texture.std()
tissue = np.where(membranes, 80.0, 150.0) + rng.normal(0, 8, texture.shape)
gain, offset = rng.uniform(0.6, 1.2, (32, 1, 1)), rng.uniform(-25, 25, (32, 1, 1))
stack = bv.open((gain * tissue + offset).clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# By default, slices get the mean and the standard deviation of the whole volume.
even = bv.normalize_slices(stack)
bv.preview(even)

# %%
# `percentiles` maps two percentiles of each slice to the range of the dtype instead. Use this to
# store bytes.
stretched = bv.normalize_slices(stack, percentiles=(1, 99))
bv.preview(stretched)


# %%
# Compare how well one threshold finds the membranes.
def accuracy(volume):
    """The share of voxels that Otsu's threshold puts on the right side."""
    return float(bv.mean((volume < bv.threshold_otsu(volume)) == bv.open(membranes)))


for name, volume in (("as acquired", stack), ("mean and std", even), ("percentiles", stretched)):
    print(f"{name:13} {accuracy(volume):.1%}")
assert accuracy(even) > 0.95 > accuracy(stack) + 0.05
slices = np.asarray(bv.mean(even, axis=("y", "x")))
assert np.ptp(slices) < 0.01 * slices.mean()
