"""Smooth noise with a sigma in micrometers

A Gaussian removes noise before a threshold or a watershed. In a stack with thick slices, using the
same sigma in voxels for all axes smooths too much along z. A sigma with a unit smooths by the same
length along each axis.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The stack shows nuclei with a radius of 4 µm. Its slices are 2 µm apart and its pixels are 0.5 µm
# wide.
rng = np.random.default_rng(0)
shape, size = (24, 128, 160), (2, 0.5, 0.5)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (30, 3)).T)] = False
nuclei = 200 + 600 * (ndimage.distance_transform_edt(seeds, sampling=size) < 4)
noisy = (nuclei + rng.normal(0, 150, shape)).clip(0, 65535).astype("u2")
stack = bv.open(noisy, voxel_size=size, unit="um")
bv.preview(stack)

# %%
# A sigma of 3 voxels along all axes is 6 µm along z, longer than the radius of a nucleus. Nuclei
# are smeared across slices.
bv.preview(bv.gaussian_filter(stack, 3))

# %%
# With a unit, the sigma is the same length along all axes. A small sigma keeps edges and some
# noise. A large one removes the noise and blurs the edges.
narrow = bv.gaussian_filter(stack, "0.5 um")
wide = bv.gaussian_filter(stack, "1.5 um")
bv.preview(narrow)

# %%
bv.preview(wide)


# %%
# Compare the error relative to the nuclei without noise.
def error(volume):
    """The root of the mean squared difference."""
    return float(np.sqrt(((np.asarray(volume, "f8") - nuclei) ** 2).mean()))


errors = {
    "as acquired": error(stack),
    "0.5 um": error(narrow),
    "1.5 um": error(wide),
    "3 voxels": error(bv.gaussian_filter(stack, 3)),
}
for sigma, value in errors.items():
    print(f"{sigma:12} {value:6.1f}")
assert errors["0.5 um"] < errors["as acquired"]
assert errors["1.5 um"] < errors["3 voxels"]
