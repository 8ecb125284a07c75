"""Choose a method for a threshold

Threshold methods make different assumptions about the histogram. Otsu's method expects two classes
of about the same size. If objects fill only a small part of the volume, other methods work better.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# Axons fill about one per cent of the volume. The background has a wide distribution.
rng = np.random.default_rng(0)
z, y, x = np.mgrid[:24, :112, :144].astype("f4")
axons = np.zeros(z.shape, bool)
for k in range(5):
    row, depth = rng.uniform(15, 97), rng.uniform(11, 14)
    axons |= np.hypot(y - row - 8 * np.sin(x / 20 + k), z - depth) < 1.7
blurred = ndimage.gaussian_filter(axons.astype("f4"), 0.7)
stack = bv.open((100 + 220 * blurred + rng.normal(0, 22, z.shape)).clip(0).astype("u2"))
bv.preview(stack)

# %%
# A threshold is a lazy number. It is computed in the same run as the results that use it.
otsu = stack > bv.threshold_otsu(stack)
bv.preview(otsu)

# %%
# Yen's method is suitable for rare objects.
yen = stack > bv.threshold_yen(stack)
bv.preview(yen)


# %%
# Compare all methods. The overlap is the number of voxels in both masks, divided by the number in
# either.
def overlap(mask):
    """Intersection over union with the true axons."""
    both, either = bv.compute(bv.count_nonzero(mask & axons), bv.count_nonzero(mask | axons))
    return both / either


overlaps = {}
for name in ("otsu", "isodata", "li", "triangle", "yen"):
    threshold = getattr(bv, f"threshold_{name}")(stack)
    overlaps[name] = overlap(stack > threshold)
    print(f"{name:9} {float(threshold):6.1f}   overlap {overlaps[name]:.2f}")
assert overlaps["yen"] > overlaps["otsu"] + 0.2
