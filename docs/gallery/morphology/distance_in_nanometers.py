"""Measure distances to a membrane in nanometers

A distance transform gives each voxel its distance to the background. In a stack with thick slices,
the distance in voxels is wrong. With the voxel size of the volume, it is a length.
"""

import numpy as np

import beam_volumes as bv

# %%
# A round cell with a radius of 600 nm is imaged with slices of 40 nm and pixels of 10 nm.
size = (40, 10, 10)
z, y, x = (np.arange(n) * s for n, s in zip((40, 150, 150), size, strict=True))
radius = np.sqrt((z[:, None, None] - 800) ** 2 + (y[:, None] - 750) ** 2 + (x - 750) ** 2)
cell = bv.open(radius < 600, voxel_size=size, unit="nm")
bv.preview(cell)

# %%
# `sampling="voxel_size"` takes the extent of a voxel from the volume.
depth = bv.distance_transform_edt(cell, sampling="voxel_size")
bv.preview(depth)

# %%
# Without it, all axes are treated alike. The largest distance is then the number of slices from the
# centre to the membrane.
in_voxels = bv.distance_transform_edt(cell)
bv.preview(in_voxels)

# %%
deepest, wrong = bv.compute(bv.max(depth), bv.max(in_voxels))
print(
    f"the centre is {deepest:.0f} nm below the membrane; in voxels the largest distance is {wrong:.0f}"
)
assert abs(deepest - 600) < 10 and wrong <= 16

# %%
# `signed_distance` also measures outside, as negative numbers. A threshold grows or shrinks the
# cell by a length. With `max_distance`, a large volume takes one pass instead of two.
shell = bv.signed_distance(cell, sampling="voxel_size", max_distance="200 nm") > -150
bv.preview(shell)

# %%
# A voxel on the edge of the grown cell is 150 nm away from the cell.
grown = np.asarray(shell)
assert grown[radius < 700].all() and not grown[radius > 750].any()
