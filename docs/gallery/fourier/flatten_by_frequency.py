"""Flatten uneven light by frequency

Uneven light varies over hundreds of voxels, and cells over tens. `butterworth` removes low or high
frequencies without the ringing of a sharp cut.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Blobs in light that fades from the centre to the corners.
rng = np.random.default_rng(3)
cells = ndimage.gaussian_filter((rng.random((8, 128, 192)) < 0.0008).astype("f8"), (1, 4, 4))
y, x = np.mgrid[-1:1:128j, -1:1:192j]
image = 4000 * cells + 80 * np.exp(-(y**2 + x**2)) + rng.normal(0, 0.5, cells.shape)
stack = bv.open(image.astype("f4"))
bv.preview(stack)

# %%
# `axes=(1, 2)` filters each slice by itself. The cutoff is in cycles per voxel: structures of more than
# 40 voxels are removed.
flat = bv.butterworth(stack, cutoff_frequency_ratio=1 / 40, axes=(1, 2))
bv.preview(flat)

# %%
# The background was brighter in the centre than in the corners, and is even now.
corner, centre = np.s_[:, :20, :20], np.s_[:, 54:74, 86:106]
before, after = (
    float(np.median(v[centre]) - np.median(v[corner])) for v in (image, np.asarray(flat))
)
print(f"centre brighter than corner by {before:.0f} before, {after:.1f} after")
assert before > 40 and abs(after) < 5
