"""Correct smooth shading of a volume

`n4_bias_field_correction` finds a smooth factor of the brightness, such as the shading of a light
sheet or of an MRI coil. It needs neither a reference image nor a background.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Three tissues with noise. The brightness decreases with depth, and towards the edges of the
# illumination.
rng = np.random.default_rng(0)
shape = (48, 112, 144)
texture = ndimage.gaussian_filter(rng.normal(size=shape), 4)
kinds = np.digitize(texture, np.quantile(texture, [0.4, 0.7]))
z, y, x = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
shading = np.exp(-0.4 * z - 0.5 * (y - 0.2) ** 2 + 0.3 * x)
tissue = np.array([40.0, 70.0, 110.0])[kinds] + rng.normal(0, 4, shape)
stack = bv.open((tissue * shading).clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# The field is fitted to one voxel of each 4 x 4 x 4 window, and evaluated at all voxels.
field = bv.n4_bias_field_correction(stack, shrink_factor=4, return_bias_field=True)
bv.preview(field)

# %%
# By default, the volume is divided by its field.
even = bv.n4_bias_field_correction(stack, shrink_factor=4)
bv.preview(even)


# %%
# Compare how well two thresholds separate the three tissues.
def accuracy(volume):
    """The share of voxels that Otsu's thresholds assign to the right tissue."""
    thresholds = np.asarray(bv.threshold_multiotsu(volume, 3))
    return (np.digitize(np.asarray(volume), thresholds, right=True) == kinds).mean()


for name, volume in (("as acquired", stack), ("corrected", even)):
    print(f"{name:12} {accuracy(volume):.1%}")
assert accuracy(even) > 0.95 > accuracy(stack) + 0.1
