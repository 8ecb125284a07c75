"""Find the pixels of one colour

Equal distances in CIE Lab look about equally different. In red, green and blue, shadows are further
from a colour than other colours are.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Brown spots on a blue background. The light fades from left to right.
rng = np.random.default_rng(6)
shape = (160, 224)
seeds = np.ones(shape, bool)
seeds[tuple(rng.integers((0, 0), shape, (40, 2)).T)] = False
spots = ndimage.distance_transform_edt(seeds) < 7
brown, blue = np.array([150, 95, 60]), np.array([95, 105, 150])
light = np.linspace(1, 0.45, shape[1])
colours = np.where(spots, brown[:, None, None], blue[:, None, None]) * light
slide = bv.open((colours + rng.normal(0, 6, (3, *shape))).clip(0, 255).astype("u1"), axes="cyx")
bv.preview(slide)

# %%
# `rgb2lab` separates lightness from colour, which is a and b. The distance of a and b from brown
# ignores the fading light.
lab = bv.rgb2lab(slide)
target = np.asarray(bv.rgb2lab(bv.open(brown.astype("u1").reshape(3, 1, 1), axes="cyx"))).ravel()
of_colour = np.sqrt((lab[1] - target[1]) ** 2 + (lab[2] - target[2]) ** 2)
bv.preview(of_colour)

# %%
found = of_colour < bv.threshold_otsu(of_colour)
bv.preview(found)

# %%
# The same distance in red, green and blue finds dark background, too.
of_rgb = np.sqrt(sum((slide[k].astype("f4") - float(brown[k])) ** 2 for k in range(3)))
found_in_rgb = of_rgb < bv.threshold_otsu(of_rgb)
wrong = {"Lab": bv.mean(found ^ spots), "RGB": bv.mean(found_in_rgb ^ spots)}
print({name: round(float(share), 3) for name, share in wrong.items()})
assert 5 * float(wrong["Lab"]) < float(wrong["RGB"])
