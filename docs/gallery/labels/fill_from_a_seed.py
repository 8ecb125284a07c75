"""Select a connected region

`flood` marks the voxels that are connected to a seed and have a similar value, like the magic wand of
an image editor. `flood_fill` replaces them. The region may extend through the whole volume.
"""

import numpy as np

import beam_volumes as bv

# %%
# Two tubes of the same grey value wind through a volume without touching.
z, y, x = np.indices((30, 100, 140))
image = np.full(z.shape, 70.0)
for phase in (0, np.pi):
    row, depth = 50 + 30 * np.sin(x / 22 + phase), 15 + 9 * np.cos(x / 22 + phase)
    image[np.hypot(y - row, z - depth) < 5] = 180
noise = np.random.default_rng(2).normal(0, 8, z.shape)
stack = bv.open((image + noise).clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# A threshold finds both.
bv.preview(bv.open(bv.max(stack > 130, axis="z")))

# %%
# `flood` needs a seed in the first tube, and the accepted difference of values.
seed = (24, 50, 0)
tube = bv.flood(stack, seed, tolerance=50)
bv.preview(bv.open(bv.max(tube, axis="z")))

# %%
# `flood_fill` assigns a new value to these voxels.
bv.preview(bv.open(bv.max(bv.flood_fill(stack, seed, 255, tolerance=50), axis="z")))

# %%
first = np.hypot(y - 50 - 30 * np.sin(x / 22), z - 15 - 9 * np.cos(x / 22)) < 5
found = np.asarray(tube)
print(f"{found.sum():,} voxels, and the tube has {first.sum():,}")
assert (found & first).sum() > 0.98 * first.sum() and not (found & ~first).any()
