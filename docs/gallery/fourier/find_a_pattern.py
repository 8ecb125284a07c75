"""Find a pattern by convolution

A matched filter is a convolution with the reversed pattern. For patterns of more than about a
hundred voxels, `fftconvolve` is faster than direct convolution.
"""

import numpy as np

import beam_volumes as bv

# %%
# Rings in noise.
rng = np.random.default_rng(6)
z, y, x = np.ogrid[-2:3, -8:9, -8:9]
ring = np.exp(-((np.hypot(y, x) - 6) ** 2) / 2) * np.exp(-(z**2) / 2)
places = rng.permutation(
    np.array([(5, y, x) for y in range(12, 90, 22) for x in range(12, 116, 22)])
)[:9]
image = rng.normal(0, 0.5, (10, 96, 128))
for place in places:
    image[
        tuple(slice(p - n // 2, p + n // 2 + 1) for p, n in zip(place, ring.shape, strict=True))
    ] += ring
noisy = bv.open(image.astype("f4"))
bv.preview(noisy)

# %%
# The mean of the pattern is subtracted, so bright areas alone give no response.
score = bv.fftconvolve(noisy, np.flip(ring - ring.mean()), mode="constant")
bv.preview(score)

# %%
found = bv.compute(
    bv.peak_local_max(score, min_distance=5, threshold_rel=0.5, exclude_border=False)
).to_pandas()
print(found)
rows = {tuple(row) for row in found[["z", "y", "x"]].to_numpy().tolist()}
assert all(any(np.abs(np.subtract(r, p)).max() <= 1 for r in rows) for p in places)
