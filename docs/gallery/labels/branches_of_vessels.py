"""Measure the branches of vessels

`skeleton_table` measures every branch of a skeleton: its length, its radius, its ends, and the
junctions at its ends. Use it for vessels, neurites and fibres.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# A vessel that divides twice, with voxels of 2 x 1 x 1 micrometres.
shape, t = (16, 96, 144), np.linspace(0, 1, 300)[:, None]
vessels = np.zeros(shape, bool)
for start, stop, curve, radius in (
    ((8, 48, 6), (8, 48, 138), 8, 5),
    ((8, 56, 66), (4, 12, 110), 6, 3),
    ((8, 55, 84), (11, 86, 124), -4, 3),
):
    line = np.ones(shape, bool)
    bend = curve * np.sin(np.pi * t) * (0, 1, 0)
    line[tuple(np.round(start + np.subtract(stop, start) * t + bend).astype(int).T)] = False
    vessels |= ndimage.distance_transform_edt(line, (2, 1, 1)) < radius
mask = bv.open(vessels, voxel_size=(2, 1, 1), unit="um")
bv.preview(bv.max(mask, axis="z"))

# %%
# The centre lines, and the distance of each voxel from the background.
skeleton = bv.skeletonize(mask, max_num_iter=10)
distances = bv.distance_transform_edt(mask, sampling="voxel_size")
bv.preview(bv.max(skeleton, axis="z"))

# %%
# Lengths and radii in micrometres. `branch_type` is 1 for branches with a free end, and 2 between
# two junctions.
table = bv.skeleton_table(skeleton, distances, spacing="voxel_size").to_pandas()
columns = ["branch_type", "length", "tortuosity", "junction_start", "junction_end", "radius_mean"]
print(table[columns].round(2))

# %%
# The table is a graph: junctions are its nodes, and branches its edges.
junctions = {*table["junction_start"], *table["junction_end"]} - {0}
print(f"{len(table)} branches, {len(junctions)} junctions")
print(f"{table['length'].sum():.0f} um in total")
assert table["branch_type"].tolist() == [1, 1, 1, 2, 1]
