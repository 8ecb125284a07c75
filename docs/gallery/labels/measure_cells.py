"""Measure cells and keep the large ones

`regionprops_table` measures every label: size, position, shape and intensity. The table is lazy and
can be computed in the same run as the labels. `relabel` converts a column, or a selection of rows,
back into a volume.
"""

import numpy as np

import beam_volumes as bv

# %%
# Cells have radii from 2 to 4.7 µm. Slices are 1 µm apart, and pixels are 0.5 µm wide.
rng = np.random.default_rng(1)
size = (1, 0.5, 0.5)
z, y, x = (np.arange(n) * s for n, s in zip((24, 112, 160), size, strict=True))
image = np.full((24, 112, 160), 100.0)
for b in range(5):
    for c in range(7):
        away = np.sqrt(
            (z[:, None, None] - 12) ** 2 + (y[:, None] - 6 - 11 * b) ** 2 + (x - 7 - 11 * c) ** 2
        )
        image[away < rng.uniform(2, 4.7)] = rng.uniform(300, 900)
stack = bv.open((image + rng.normal(0, 15, image.shape)).astype("u2"), voxel_size=size, unit="um")
bv.preview(stack)

# %%
cells = bv.label(bv.gaussian_filter(stack, "0.5 um") > 200)
bv.preview(cells)

# %%
# With `spacing="voxel_size"`, lengths are in µm and areas are volumes in µm³. Otherwise, they are
# in voxels.
table = bv.regionprops_table(
    cells, stack, ["area", "equivalent_diameter_area", "intensity_mean"], spacing="voxel_size"
)
in_voxels = bv.regionprops_table(cells, properties=["area"])
diameters = table["equivalent_diameter_area"]
print(f"{len(diameters)} cells; diameters from {diameters.min():.1f} to {diameters.max():.1f} µm")
np.testing.assert_allclose(table["area"], in_voxels["area"] * 0.25)

# %%
# A mapping from labels to numbers gives a volume of these numbers, here of the mean intensities.
means = table["intensity_mean"].astype("f4")
bv.preview(bv.relabel(cells, (table["label"], means), dtype="f4"))

# %%
# With `missing=0`, labels that are not in the mapping become 0. This keeps the cells that are wider
# than 7 µm.
large_cells = table["label"][diameters > 7]
kept = bv.relabel(cells, (large_cells, large_cells), missing=0)
bv.preview(kept)

# %%
assert len(table["label"]) == 35 and 0 < len(large_cells) < 35
assert set(np.unique(np.asarray(kept))) == {0, *large_cells.tolist()}
