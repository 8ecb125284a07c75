"""Extract vesicles by their height

If cells differ in brightness, a single threshold cannot separate vesicles from their cells.
Reconstruction lowers every peak by the same height and leaves the rest of the stack unchanged. In
the difference, all peaks have the same level.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Vesicles are brighter than their cell by 80. Cells have levels from 100 to 500.
rng = np.random.default_rng(5)
z, y, x = np.mgrid[:16, :112, :160].astype("f4")
image = np.full(z.shape, 50, "f4")
seeds = np.ones(z.shape, bool)
for k, (b, c) in enumerate([(30, 35), (75, 45), (30, 95), (80, 110), (45, 138)]):
    image[np.hypot(y - b, x - c) < 24] = 100 + 100 * k
    centres = rng.uniform((3, b - 11, c - 11), (13, b + 12, c + 12), (8, 3))
    seeds[tuple(centres.astype(int).T)] = False
vesicles = ndimage.distance_transform_edt(seeds) <= 2.5
stack = bv.open(image + 80 * vesicles.astype("f4"))
bv.preview(stack, percentiles=(0, 100))

# %%
# The seed is the stack minus a height of 60. It grows below the stack until it reaches the stack or
# is level.
lowered = bv.reconstruction(stack - 60, stack)
bv.preview(lowered, percentiles=(0, 100))

# %%
# The difference is 60 in vesicles and 0 elsewhere, for any level of the cell.
domes = stack - lowered
bv.preview(domes)

# %%
# A height above the height of the vesicles cuts into the cells as well.
too_high = stack - bv.reconstruction(stack - 150, stack)
bv.preview(too_high)

# %%
# Count the voxels that differ from the vesicles.
wrong = {}
for name, mask in (
    ("Otsu", stack > bv.threshold_otsu(stack)),
    ("height 60", domes > 30),
    ("height 150", too_high > 30),
):
    wrong[name] = int(bv.count_nonzero(mask ^ vesicles))
print(wrong)
assert wrong["height 60"] == 0 < wrong["height 150"] and wrong["Otsu"] > vesicles.sum()
