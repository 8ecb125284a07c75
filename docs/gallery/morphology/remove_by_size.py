"""Outline objects, and remove small ones

`morphological_gradient` is bright at edges. `area_opening` removes bright objects with few voxels,
and `diameter_opening` removes objects with a small bounding box. No threshold is needed: all other
voxels keep their value.
"""

import numpy as np

import beam_volumes as bv

# %%
# Disks, small dots and thin fibres with different brightness.
rng = np.random.default_rng(3)
z, y, x = np.indices((9, 110, 160))
image = np.full(z.shape, 40)
for k in range(12):
    row, column = 40 + 38 * (k % 2), 14 + 12 * k
    image[(np.hypot(y - row, x - column) < 8) & (abs(z - 4) < 3)] = rng.integers(90, 200)
for row, column in rng.integers(2, (108, 156), (60, 2)):
    image[4, row : row + 2, column : column + 2] = 230
for row in (20, 60, 95):
    image[4, row, 10:150] = 220
stack = bv.open(image.astype("u1"))
bv.preview(stack)

# %%
# The difference between the maximum and the minimum of a neighbourhood shows the outlines.
outlines = bv.morphological_gradient(stack, footprint=bv.cross(1))
bv.preview(outlines)

# %%
# `morphological_laplace` is positive on the dark side of an edge and negative on the bright side.
bv.preview(bv.morphological_laplace(stack, footprint=bv.cross(1)))

# %%
# Dots have 4 voxels. Fibres and disks have more.
without_dots = bv.area_opening(stack, 20)
bv.preview(without_dots)

# %%
# Disks are 15 voxels wide. Only fibres have a longer bounding box.
fibres = bv.diameter_opening(stack, 30)
bv.preview(fibres)

# %%
left = np.asarray(without_dots)
assert (left == 230).sum() == 0 and (left[4, 20] == 220).sum() > 100
assert (np.asarray(fibres) == 220).sum() > 300 and (np.asarray(fibres)[3] < 220).all()
