"""Enhance blood vessels

`sato` measures how tubular the surroundings of a voxel are. Use it before a threshold to make
vessels stand out from noise and blobs. Its scales determine which diameters are detected.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Two vessels with radii of 2 and 6 voxels cross the volume. There are bright cells between them.
rng = np.random.default_rng(3)
z, y, x = np.mgrid[:32, :112, :160].astype("f4")
thin = np.hypot(y - 30 - 12 * np.sin(x / 20), z - 16) < 2
thick = np.hypot(y - 78 - 8 * np.sin(x / 30), z - 16) < 6
seeds = np.ones(z.shape, bool)
seeds[tuple(rng.integers((0, 0, 0), z.shape, (25, 3)).T)] = False
cells = ndimage.distance_transform_edt(seeds) < 3
image = 300 + 300 * (thin | thick) + 200 * cells + rng.normal(0, 60, z.shape)
scan = bv.open(image.astype("f4"))
bv.preview(scan)

# %%
# `sigmas` are scales in voxels; a tube gives the largest result for a sigma near its radius.
# Vessels are bright, so `black_ridges` is False.
small = bv.sato(scan, [2], black_ridges=False)
bv.preview(small)

# %%
# A larger scale detects the thick vessel, but the thin one only faintly.
large_vessels = bv.sato(scan, [6], black_ridges=False)
bv.preview(large_vessels)

# %%
# With several scales, each voxel has the largest of their results.
both = bv.sato(scan, [2, 6], black_ridges=False)
bv.preview(both)

# %%
# `meijering` and `frangi` are other measures of tubes: `meijering` responds to thin lines such as
# neurites, `frangi` less to blobs.
bv.preview(bv.meijering(scan, [2], black_ridges=False))

# %%
# The ratio of the means in the two vessels shows which scale suits which vessel.
ratios = {}
for sigma, result in ((2, small), (6, large_vessels)):
    means = bv.mean(result, mask=thin), bv.mean(result, mask=thick)
    of_thin, of_thick = bv.compute(*means)
    ratios[sigma] = of_thin / of_thick
    print(f"sigma {sigma}: the thin vessel has {ratios[sigma]:.1f} times the mean of the thick one")
assert ratios[2] > 1 > ratios[6]
