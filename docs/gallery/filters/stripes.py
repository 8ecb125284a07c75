"""Find stripes of one direction

`gabor` convolves slices with a wave under a Gaussian. It responds to stripes of one frequency and one
direction, such as fibres, lamellae or the pattern of a grating.
"""

import numpy as np

import beam_volumes as bv

# %%
# Noisy stripes with a period of 8 voxels, and a different direction on each side.
rng = np.random.default_rng(9)
z, y, x = np.indices((4, 120, 160))
steep = x < 80
across = np.where(steep, x, 0.6 * x + 0.8 * y)
image = 120 + 40 * np.sin(2 * np.pi * across / 8) + rng.normal(0, 30, across.shape)
stack = bv.open(image.clip(0, 255).astype("u1"))
bv.preview(stack)


# %%
# The result has two parts, for waves of both phases. Their magnitude does not depend on the position
# of the stripes.
def strength(theta):
    real, imaginary = bv.gabor(stack, 1 / 8, theta)
    return np.sqrt(real**2 + imaginary**2)


vertical = strength(0)
bv.preview(vertical)

# %%
# The same for the second direction.
oblique = strength(np.arctan2(0.8, 0.6))
bv.preview(oblique)

# %%
# The stronger response determines the direction.
found = bv.gaussian_filter(vertical - oblique, (0, 3, 3)) > 0
right = (np.asarray(found) == steep).mean()
print(f"the direction of {right:.0%} of the voxels is right")
assert right > 0.95
bv.preview(found)
