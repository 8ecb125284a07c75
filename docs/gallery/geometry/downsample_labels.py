"""Downsample images and labels

A coarse copy is fast to view and to process. Intensities are averaged, but labels must not be: the
mean of the labels 2 and 8 is 5, a different cell.
"""

import numpy as np

import beam_volumes as bv

# %%
# Cells with labels from 1 to 30, and an image of them.
rng = np.random.default_rng(1)
z, y, x = np.mgrid[:24, :128, :160].astype("f4")
centres = rng.uniform((0, 0, 0), z.shape, (30, 3))
distances = np.stack([(z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2 for a, b, c in centres])
truth = (distances.argmin(axis=0) + 1).astype("u4")
gap = np.diff(np.sqrt(np.partition(distances, 1, axis=0)[:2]), axis=0)[0]
image = np.where(gap < 2, 60, 160) + rng.normal(0, 25, z.shape)
labels = bv.open(truth)
stack = bv.open(image.clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# The mean of windows of 1 x 4 x 4 voxels removes noise as well.
mean = bv.downsample(stack, (1, 4, 4))
bv.preview(mean)

# %%
# `"stride"` selects the first voxel of each window. It is faster but keeps the noise.
stride = bv.downsample(stack, (1, 4, 4), method="stride")
bv.preview(stride)

# %%
bv.preview(labels)

# %%
# `"mode"` selects the most frequent label in a window.
mode = bv.downsample(labels, (1, 4, 4), method="mode")
bv.preview(mode)

# %%
# Compare with the label in the middle of each window: the mean gives wrong labels.
middle = truth[:, 2::4, 2::4]
wrong = {
    "mean": int((np.asarray(bv.downsample(labels, (1, 4, 4))) != middle).sum()),
    "mode": int((np.asarray(mode) != middle).sum()),
}
print(wrong)
assert wrong["mode"] < wrong["mean"] / 2
assert float(bv.std(mean)) < float(bv.std(stride))
