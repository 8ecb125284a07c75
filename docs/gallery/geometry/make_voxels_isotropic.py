"""Make voxels isotropic

Filters, networks and meshes often expect voxels that are as deep as they are wide. `resample`
interpolates slices between the slices of a stack.
"""

import numpy as np

import beam_volumes as bv

# %%
# A round cell with a round nucleus is imaged with slices that are 4 times as far apart as pixels.
size = (2, 0.5, 0.5)
z, y, x = (np.arange(n) * s for n, s in zip((16, 64, 64), size, strict=True))
radius = np.sqrt((z[:, None, None] - 15) ** 2 + (y[:, None] - 16) ** 2 + (x - 16) ** 2)
image = np.where(radius < 6, 200, np.where(radius < 12, 120, 30))
stack = bv.open(image.astype("u1"), voxel_size=size, unit="um")
bv.preview(stack)

# %%
# By default, `resample` interpolates linearly. The volume keeps its extent: 4 slices of 0.5 µm
# replace one of 2 µm.
linear = bv.resample(stack, "0.5 um")
print(linear.shape, linear.voxel_size)
bv.preview(linear, at=(30, 32, 32))

# %%
# `order=0` repeats the nearest slice. It creates no new values, so use it for labels and masks.
nearest = bv.resample(stack, "0.5 um", order=0)
bv.preview(nearest, at=(30, 32, 32))

# %%
assert linear.voxel_size == (0.5, 0.5, 0.5)
assert len(np.unique(np.asarray(nearest))) == 3 < len(np.unique(np.asarray(linear)))

# %%
# Larger voxels save memory. `resample` then smooths y and x first, so no fine detail turns into
# noise.
coarse = bv.resample(stack, "2 um")
print(coarse.shape, coarse.voxel_size)
assert coarse.voxel_size == (2, 2, 2)
bv.preview(coarse)
