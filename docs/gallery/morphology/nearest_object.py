"""Find the nearest object of each voxel

`distance_transform_edt(return_indices=True)` also returns the position of the nearest voxel of the
background. `expand_labels` uses it to grow labels by a given length without merging them.
"""

import numpy as np

import beam_volumes as bv

# %%
# Six vessels of different sizes. Slices are 2 µm apart, and pixels are 1 µm wide.
size = (2, 1, 1)
z, y, x = np.indices((16, 110, 160))
vessels = np.zeros(z.shape, "u1")
for k, (row, column, radius) in enumerate(
    [(25, 30, 4), (30, 80, 9), (28, 135, 6), (80, 30, 8), (82, 85, 4), (78, 130, 10)]
):
    vessels[np.hypot(y - row, x - column - z) < radius] = k + 1
labels = bv.open(vessels, voxel_size=size, unit="um")
bv.preview(labels, labels=True, at=(8, 28, 80))

# %%
# The distance to the nearest vessel, and the position of its nearest voxel. If several are equally
# near, the position with the smallest index is used.
distance, nearest = bv.distance_transform_edt(
    labels == 0, sampling="voxel_size", return_indices=True
)
bv.preview(distance, at=(8, 28, 80))

# %%
# The channels of `nearest` are z, y and x of the nearest voxel. The row y shows which vessel
# supplies each voxel.
bv.preview(nearest.sel(c=1), labels=False, at=(8, 28, 80))

# %%
at, away = np.asarray(nearest), np.asarray(distance)
territory = vessels[tuple(at)]
offsets = (at - np.indices(vessels.shape)) * np.reshape(size, (3, 1, 1, 1))
np.testing.assert_allclose(np.sqrt((offsets**2).sum(axis=0)), away, atol=1e-4)

# %%
# `expand_labels` does this up to a distance.
grown = bv.expand_labels(labels, 12, spacing="voxel_size")
bv.preview(grown, labels=True, at=(8, 28, 80))

# %%
inside = np.asarray(grown)
assert np.array_equal(inside > 0, away <= 12)
same = (inside == territory)[inside > 0].mean()
print(f"{same:.2%} of the voxels have the label of the nearest vessel")
assert same > 0.99

# %%
# `distance_transform_cdt` counts steps between voxels, in integers. It is larger along diagonals.
steps = bv.distance_transform_cdt(labels == 0, "taxicab")
bv.preview(steps, labels=False, at=(8, 28, 80))
