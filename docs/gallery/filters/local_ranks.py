"""Compare voxels with their surroundings

Ranks depend on the order of the voxels in a footprint. `entropy` finds textures, `autolevel`
stretches the local contrast, and `enhance_contrast` makes edges steeper. `local_rank` has the
other statistics of a local histogram, such as the most frequent value.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Two materials with the same mean, one smooth and one grainy. The light fades to the right.
rng = np.random.default_rng(8)
shape = (6, 120, 180)
grainy = ndimage.gaussian_filter(rng.normal(size=shape), (2, 12, 12)) > 0
grains = ndimage.gaussian_filter(rng.normal(size=shape), (0, 1, 1))
image = 100 + grains * np.where(grainy, 60, 8)
light = np.linspace(1, 0.4, 180)
stack = bv.open((image * light).clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# The entropy of a window is the number of bits that its voxels need: many values, many bits.
texture = bv.entropy(stack, (1, 15, 15))
bv.preview(texture)

# %%
# A threshold on the entropy separates the materials; no threshold on the intensity can.
found = texture > bv.threshold_otsu(texture)
agreement = (np.asarray(found) == grainy).mean()
by_intensity = (np.asarray(stack > bv.threshold_otsu(stack)) == grainy).mean()
print(f"by entropy {agreement:.0%}, by intensity {by_intensity:.0%}")
assert agreement > 0.85 > by_intensity

# %%
# A small window places edges better, but its classes are noisy. The most frequent class around each
# voxel, the mode, removes the noise.
fine = bv.entropy(stack, (1, 5, 5))
noisy = (fine > bv.threshold_otsu(fine)).astype("u1")
classes = bv.local_rank(noisy, "modal", (1, 11, 11))
before, after = ((np.asarray(v) == grainy).mean() for v in (noisy, classes))
print(f"small windows {before:.0%}, their mode {after:.0%}")
assert after > before
bv.preview(classes)

# %%
# `autolevel` scales each voxel between the minimum and the maximum around it, which removes the
# uneven light.
bv.preview(bv.autolevel(stack, (1, 31, 31)))

# %%
# `enhance_contrast` replaces each voxel with the nearer of these two values.
bv.preview(bv.enhance_contrast(stack, (1, 5, 5)))
