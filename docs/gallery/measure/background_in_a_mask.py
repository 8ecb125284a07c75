"""Measure the background inside a mask

The mean of a whole volume depends on how many objects are in it. With `mask`, reductions only use
some of the voxels, for example the background. Signals can then be given in multiples of its
standard deviation.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Nuclei on a background with a mean of 200 and a standard deviation of 20.
rng = np.random.default_rng(1)
shape = (20, 112, 144)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (40, 3)).T)] = False
nuclei = ndimage.distance_transform_edt(seeds) < 7
stack = bv.open((200 + 400 * nuclei + rng.normal(0, 20, shape)).clip(0).astype("u2"))
bv.preview(stack)

# %%
# The mask excludes nuclei and a margin of two voxels around them.
found = bv.gaussian_filter(stack, 1) > bv.threshold_otsu(stack)
outside = ~bv.binary_dilation(found, bv.ball(2))
bv.preview(outside)

# %%
# Several numbers are computed in one run. They share the passes over the volume.
everywhere, mean, std = bv.compute(
    bv.mean(stack), bv.mean(stack, mask=outside), bv.std(stack, mask=outside)
)
print(f"mean of all voxels {everywhere:.0f}; background {mean:.1f} with deviation {std:.1f}")
assert everywhere > 240 and abs(mean - 200) < 1 and abs(std - 20) < 1

# %%
# The result is the signal in standard deviations of the background. At a threshold of 5, almost no
# noise remains.
signal = (stack - mean) / std
bv.preview(signal > 5)

# %%
false_alarms = {k: int(bv.count_nonzero((signal > k) & ~nuclei)) for k in (2, 5)}
print(false_alarms)
assert false_alarms[5] < 5 < 1000 < false_alarms[2]
