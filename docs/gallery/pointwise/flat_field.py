"""Correct uneven illumination with a flat field

Illumination is usually brighter in the middle of the field than in the corners. An image without a
specimen, the flat field, shows by how much. Divide by it to correct for the lamp. Arithmetic works
as in numpy.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The corners receive a third of the light in the middle. The camera adds 100 to all pixels.
rng = np.random.default_rng(0)
shape = (16, 112, 144)
y, x = np.mgrid[-1:1:112j, -1:1:144j]
light = np.exp(-(y**2 + x**2) / 2)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0, 0), shape, (60, 3)).T)] = False
tissue = np.where(ndimage.distance_transform_edt(seeds) < 6, 900, 300)
stack = bv.open((100 + light * tissue + rng.normal(0, 8, shape)).astype("u2"))
bv.preview(stack)

# %%
# The flat field is one image. It is repeated for all slices, as in numpy. If the offset of the
# camera is ignored, the corners become too bright.
flat = 100 + 500 * light + rng.normal(0, 1, shape[1:])
careless = stack / flat * 500
bv.preview(careless)

# %%
# Subtract the offset from both first.
corrected = (stack - 100.0) / (flat - 100) * 500
bv.preview(corrected)


# %%
# Compare the background in the corner and in the middle.
def unevenness(volume):
    """The ratio of the backgrounds in the middle and in a corner."""
    middle, corner = volume[:, 48:64, 64:80], volume[:, :16, :16]
    return float(np.divide(*bv.compute(bv.percentile(middle, 30), bv.percentile(corner, 30))))


ratios = {"as acquired": stack, "corrected": corrected, "offset ignored": careless}
ratios = {name: unevenness(volume) for name, volume in ratios.items()}
print({name: round(value, 2) for name, value in ratios.items()})
assert abs(ratios["corrected"] - 1) < 0.05 < abs(ratios["offset ignored"] - 1)
