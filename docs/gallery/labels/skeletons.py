"""Skeletons, outlines and hulls of whole objects

Some operations, such as thinning, need whole objects and cannot be computed slab by slab.
`map_labels` applies a function to each object and assembles the results in a volume.
"""

import numpy as np
from skimage.morphology import convex_hull_image, skeletonize

import beam_volumes as bv

# %%
# Three bent fibres and a ring.
z, y, x = np.mgrid[:12, :96, :128]
labels = np.zeros(z.shape, "u1")
for number, offset in enumerate((12, 34, 56), 1):
    middle = offset + 6 * np.sin(x / (9 + 3 * number))
    labels[(y - middle) ** 2 + (z - 6) ** 2 < 16] = number
around = np.hypot(y - 80, x - 64)
labels[(abs(around - 10) < 3) & (abs(z - 6) < 3)] = 4
fibres = bv.open(labels, voxel_size=(2, 1, 1), unit="um")
bv.preview(fibres)

# %%
# The skeleton of each object keeps its label. The bounding boxes of objects are read one by one.
skeletons = bv.map_labels(fibres, lambda region: skeletonize(region.mask))
bv.preview(bv.max(skeletons, axis="z"))

# %%
# Lengths in voxels: the number of voxels of each skeleton.
table = bv.regionprops_table(skeletons, properties=["num_pixels"])
print(table.to_pandas())
assert (table["num_pixels"] > 50).all() and len(table["label"]) == 4

# %%
# The hull of each object fills the ring.
hulls = bv.map_labels(fibres, lambda region: convex_hull_image(region.mask))
assert np.asarray(hulls)[6, 80, 64] == 4
bv.preview(hulls)

# %%
# With a dtype, the function returns a number for each voxel of the object, here the distance from
# its first column, along the fibre's direction.
along = bv.map_labels(
    fibres, lambda region: np.indices(region.mask.shape)[2] * region.voxel_size[2], dtype="f4"
)
bv.preview(bv.max(along, axis="z"))
