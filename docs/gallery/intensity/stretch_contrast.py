"""Stretch contrast without losing it to outliers

16-bit data often use a small part of their range. `rescale_intensity` stretches it to 8 bits. By
default, a few hot pixels can determine the range; percentiles exclude them.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The tissue has intensities from about 900 to 1300. Four voxels are saturated.
rng = np.random.default_rng(1)
texture = ndimage.gaussian_filter(rng.normal(size=(16, 112, 144)), 3)
image = 1100 + 90 * texture / texture.std()
image[rng.integers(16, size=4), rng.integers(112, size=4), rng.integers(144, size=4)] = 65535
stack = bv.open(image.astype("u2"))
bv.preview(stack, percentiles=(0, 100))

# %%
# The range from the smallest to the largest voxel becomes 0 to 255. The tissue ends up in two or
# three of 256 levels.
whole = bv.rescale_intensity(stack, out_range="uint8")
bv.preview(whole, percentiles=(0, 100))

# %%
# The range from the first to the 99th percentile uses all levels. Voxels outside are clipped.
low, high = bv.percentile(stack, [1, 99])
stretched = bv.rescale_intensity(stack, in_range=(low, high), out_range="uint8")
bv.preview(stretched, percentiles=(0, 100))

# %%
# A gamma above 1 darkens the middle of the range, without changing black and white.
dark = bv.adjust_gamma(stretched, 2)
bv.preview(dark, percentiles=(0, 100))

# %%
# Count the levels in use.
levels = {
    name: len(np.unique(np.asarray(v)))
    for name, v in (("whole", whole), ("percentiles", stretched))
}
print(levels)
assert levels["whole"] < 6 and levels["percentiles"] > 200
assert float(bv.mean(dark)) < float(bv.mean(stretched)) and int(bv.max(dark)) == 255
