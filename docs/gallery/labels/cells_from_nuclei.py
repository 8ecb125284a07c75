"""Grow cells from nuclei

Nuclei are easy to segment, and cells are not. A cell is often approximated by its nucleus with a
margin that ends halfway to the next nucleus.
"""

import numpy as np

import beam_volumes as bv

# %%
# Three nuclei, with slices of 40 nm and pixels of 10 nm, and a marker around the first one.
size = (40, 10, 10)
z, y, x = np.meshgrid(
    *(np.arange(n) * s for n, s in zip((12, 80, 80), size, strict=True)), indexing="ij"
)
labels, marker = np.zeros(z.shape, "u1"), np.full(z.shape, 10, "f4")
for number, (cy, cx) in enumerate(((250, 250), (250, 500), (600, 400)), 1):
    from_centre = np.sqrt((z - 240) ** 2 + (y - cy) ** 2 + (x - cx) ** 2)
    labels[from_centre < 100] = number
    marker[from_centre < 180] += 50 * (number == 1)
nuclei = bv.open(labels, voxel_size=size, unit="nm")
bv.preview(nuclei)

# %%
# The margin is a length, and the same along all axes. It needs one pass, with a halo as wide as the
# margin.
cells = bv.expand_labels(nuclei, "100 nm", spacing="voxel_size")
bv.preview(cells)

# %%
# Nuclei keep their voxels, and cells do not overlap.
grown = np.asarray(cells)
assert (grown[labels > 0] == labels[labels > 0]).all() and (grown > 0).sum() > 3 * (
    labels > 0
).sum()

# %%
# The mean of the marker in each cell, for any list of labels, as in `scipy.ndimage`.
means = bv.mean(bv.open(marker), labels=cells, index=[3, 2, 1])
print(np.asarray(means).round(1))
assert np.argmax(np.asarray(means)) == 2

# %%
# The boundaries of the cells, drawn on the marker.
picture = bv.mark_boundaries(bv.open(marker / 60), cells, color="yellow")
assert picture.shape == (3, 12, 80, 80)
bv.preview(picture)

# %%
# `find_boundaries` returns them as a mask.
bv.preview(bv.find_boundaries(cells, mode="inner"))
