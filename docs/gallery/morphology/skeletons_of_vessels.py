"""Trace the centre lines of vessels

`skeletonize` thins vessels to lines along their centres, for volumes of any size. It keeps their
branches and loops. At each voxel of a line, `distance_transform_edt` contains the radius.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Three vessels with different radii. The second one branches off the first, and the third joins
# them to a loop.
shape = (32, 112, 160)
t = np.linspace(0, 1, 400)[:, None]
vessels = np.zeros(shape, bool)
for ends, curve, radius in (
    (((16, 20, 12), (16, 60, 148)), 6, 6),
    (((16, 44, 60), (10, 98, 124)), 12, 4),
    (((16, 54, 120), (11, 92, 112)), 0, 3),
):
    start, stop = np.array(ends)
    line = np.ones(shape, bool)
    bend = curve * np.sin(np.pi * t) * (0, 1, 0)
    line[tuple(np.round(start + (stop - start) * t + bend).astype(int).T)] = False
    vessels |= ndimage.distance_transform_edt(line) < radius
mask = bv.open(vessels)
bv.preview(bv.max(mask, axis="z"))

# %%
# The skeleton. `max_num_iter` is at least the largest radius, and determines how many slices a
# slab reads. If it is too small, the computation stops with an error.
skeleton = bv.skeletonize(mask, max_num_iter=12)
bv.preview(bv.max(skeleton, axis="z"))

# %%
# The radius along the lines, and the length as a number of voxels.
radius = bv.where(skeleton, bv.distance_transform_edt(mask), 0)
bv.preview(bv.max(radius, axis="z"))

# %%
mean_radius, length = bv.compute(bv.mean(radius, mask=skeleton), bv.count_nonzero(skeleton))
print(f"{length} voxels with a mean radius of {mean_radius:.1f} voxels")
assert 3 < mean_radius < 6

# %%
# Branch points have more than two neighbours, and ends have one.
lines = skeleton.astype("u1")
neighbours = bv.convolve(lines, np.ones((3, 3, 3)), mode="constant") - lines
ends = bv.count_nonzero(skeleton & (neighbours == 1))
branches = bv.count_nonzero(skeleton & (neighbours > 2))
count_of_ends, count_of_branches = bv.compute(ends, branches)
print(f"{count_of_ends} ends, {count_of_branches} voxels at branches")
assert count_of_ends == 3
