"""Separate the stains of a slide

In a brightfield slide, haematoxylin and eosin overlap in all three colours. `rgb2hed` computes the
amount of each stain in each pixel. A threshold on haematoxylin finds nuclei.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Tissue is pink with eosin, and nuclei are blue with haematoxylin. `hed2rgb` computes the colours
# from amounts of stain.
rng = np.random.default_rng(2)
shape = (160, 224)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0), shape, (60, 2)).T)] = False
nuclei = ndimage.distance_transform_edt(seeds) < 5
eosin = 0.06 + 0.03 * ndimage.gaussian_filter(rng.normal(size=shape), 6) * 15
amounts = np.stack([0.12 * nuclei + 0.01, eosin.clip(0.02), np.zeros(shape)]).astype("f4")
colours = np.asarray(bv.hed2rgb(bv.open(amounts, axes="cyx"))) + rng.normal(0, 0.01, (3, *shape))
slide = bv.rescale_intensity(bv.open(colours, axes="cyx"), in_range=(0, 1), out_range="uint8")
bv.preview(slide)

# %%
# The result has a channel for each stain. Select channels by name.
stains = bv.rgb2hed(slide)
bv.preview(stains.sel(c="haematoxylin"))

# %%
bv.preview(stains.sel(c="eosin"))

# %%
# Red is the best of the three colours for nuclei, but it also varies with the eosin.
haematoxylin = stains.sel(c="haematoxylin")
red = -1.0 * slide[0].astype("f4")
contrast = {}
for name, volume in (("haematoxylin", haematoxylin), ("red", red)):
    inside, outside, spread = bv.compute(
        bv.mean(volume, mask=nuclei), bv.mean(volume, mask=~nuclei), bv.std(volume, mask=~nuclei)
    )
    contrast[name] = (inside - outside) / spread
print({name: round(float(value), 1) for name, value in contrast.items()})
assert contrast["haematoxylin"] > 2 * contrast["red"]
