"""Find bumps, pits and textures

`shape_index` describes the curvature around each voxel, from -1 for a pit to 1 for a bump. It does
not depend on the height. `local_binary_pattern` compares a voxel with its neighbours, and does not
depend on the brightness.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Bumps on the left and pits on the right, with heights that differ by a factor of ten.
rng = np.random.default_rng(5)
heights = np.zeros((120, 180))
for y in range(15, 120, 30):
    for x in range(15, 180, 30):
        heights[y, x] = (1 if x < 90 else -1) * rng.uniform(1, 10) * 400
surface = bv.open(ndimage.gaussian_filter(heights, 5).astype("f4"))
bv.preview(surface)

# %%
shape = bv.shape_index(surface, sigma=2)
bv.preview(shape)

# %%
# Thresholds on the shape find bumps and pits of all heights. The plane between them has no shape.
is_high, is_low = (shape > 0.9) & (surface > 0.2), (shape < -0.9) & (surface < -0.2)
bumps, pits = (int(bv.label(mask).max()) for mask in (is_high, is_low))
print(f"{bumps} bumps, {pits} pits")
assert (bumps, pits) == (12, 12)

# %%
# Two textures with the same mean and contrast: lines on the left, and grains on the right. The
# light fades to the bottom.
lines = ndimage.gaussian_filter1d(rng.normal(size=(120, 90)), 6, axis=1)
grains = ndimage.gaussian_filter(rng.normal(size=(120, 90)), 1)
both = np.concatenate([lines / lines.std(), grains / grains.std()], axis=1)
image = bv.open((both * 10 + np.linspace(200, 60, 120)[:, None]).astype("u1"))
bv.preview(image)

# %%
# In a uniform pattern the neighbours above the voxel are next to each other. Histograms of patterns
# are different for the two textures, and hardly depend on the light.
pattern = bv.local_binary_pattern(image, 8, 2, "uniform")
counts = [
    np.bincount(np.asarray(part).ravel(), minlength=10)
    for part in (pattern[:60, :90], pattern[60:, :90], pattern[:60, 90:], pattern[60:, 90:])
]
shares = np.array(counts) / np.sum(counts, axis=1, keepdims=True)
within, between = abs(shares[0] - shares[1]).sum(), abs(shares[0] - shares[2]).sum()
print(f"difference of two parts with lines {within:.2f}, of lines and grains {between:.2f}")
assert between > 2 * within
bv.preview(pattern)
