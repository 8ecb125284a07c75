"""Deform a volume by landmarks

Landmarks of BigWarp are pairs of points in a moving and a fixed volume. `open_transform` fits a
thin-plate spline to them, and `warp` applies it.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# A tissue, and the same tissue after a swelling around its centre.
rng = np.random.default_rng(0)
tissue = ndimage.gaussian_filter(rng.normal(size=(8, 96, 96)), (1, 2, 2))
tissue = (128 + 40 * tissue / tissue.std()).clip(0, 255)


def swollen(z, y, x):
    """The position in the moving tissue of a point in the fixed one."""
    reach = np.exp(-((y - 48) ** 2 + (x - 48) ** 2) / 800)
    return z, y + 0.3 * (y - 48) * reach, x + 0.3 * (x - 48) * reach


fixed = bv.open(
    ndimage.map_coordinates(tissue, swollen(*np.indices(tissue.shape)), order=1).astype("u1")
)
moving = bv.open(tissue.astype("u1"))
difference = np.abs(np.asarray(fixed, "f4") - np.asarray(moving, "f4"))[:, 16:-16, 16:-16]
print("mean difference", round(float(difference.mean()), 1))
bv.preview(moving)

# %%
# A person would click on corresponding points in BigWarp, which stores them as x, y, z.
rows = []
for k, (z, y, x) in enumerate(np.ndindex(2, 9, 9)):
    point = np.array([7.0 * z, 4 + 11 * y, 4 + 11 * x])
    numbers = [*swollen(*point)[::-1], *point[::-1]]
    rows.append(",".join([f'"Pt-{k}"', '"true"', *(f'"{number}"' for number in numbers)]))
with open("landmarks.csv", "w") as file:
    file.write("\n".join(rows))

# %%
# The transform consists of a matrix and a lazy field of displacements.
matrix, displacement = bv.open_transform("landmarks.csv", fixed, moving, model="thin_plate_spline")
aligned = bv.affine_transform(moving, matrix, output_shape=fixed.shape)
aligned = bv.warp(aligned, displacement, max_displacement=8)
after = np.abs(np.asarray(fixed, "f4") - np.asarray(aligned, "f4"))[:, 16:-16, 16:-16]
print("mean difference", round(float(after.mean()), 1))
assert after.mean() < 0.25 * difference.mean()
bv.preview(aligned)
