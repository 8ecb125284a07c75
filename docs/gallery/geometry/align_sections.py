"""Align serial sections

Sections that were imaged one by one are shifted and rotated against each other. `register_slices`
finds the transform of each, and `apply_transforms` applies them in a sweep.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Sections of a tissue, each in a slightly different position. One is missing.
rng = np.random.default_rng(3)
depth, side = 16, 128
tissue = ndimage.gaussian_filter(rng.normal(size=(depth, 190, 190)), (5, 2.5, 2.5))
tissue = 128 + 40 * tissue / tissue.std()
middle = (side - 1) / 2
sections = []
for plane in tissue:
    angle, place = rng.normal(0, 0.06), rng.normal(31, 4, 2)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    offset = place + middle - turn @ [middle, middle]
    sections.append(ndimage.affine_transform(plane, turn, offset, (side, side)))
sections[5][:] = 0
stack = bv.open(np.stack(sections).clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# The table has a row for each section. The missing one has no links, and is placed between its
# neighbours.
table = bv.register_slices(stack, model="rigid")
print(table["links"].to_pylist())
assert table["links"].to_pylist()[5] == 0

# %%
# `bounding_box=True` enlarges the planes, so no voxel is lost.
aligned = bv.apply_transforms(stack, table, bounding_box=True)
print(stack.shape, "becomes", aligned.shape)
bv.preview(aligned)


# %%
# Successive sections are similar now.
def likeness(volume):
    """The mean correlation of the centres of successive sections."""
    planes = np.asarray(volume)[[0, 1, 2, 3, 4, 6, 7, 8, 9, 10]]
    centre = planes[:, 40:-40, 40:-40].reshape(10, -1).astype("f4")
    return float(np.diag(np.corrcoef(centre), k=1).mean())


print(round(likeness(stack), 2), "becomes", round(likeness(aligned), 2))
assert likeness(aligned) > 0.8 > 0.5 > likeness(stack)
