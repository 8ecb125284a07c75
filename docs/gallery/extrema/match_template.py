"""Find copies of a pattern

`match_template` correlates a small template with every place of a volume, independent of the
brightness and contrast there. Peaks in the result mark the copies.
"""

import numpy as np

import beam_volumes as bv

# %%
# Twenty noisy rings with different contrast, on a sloping background.
rng = np.random.default_rng(5)
z, y, x = np.indices((5, 13, 13))
distance = np.hypot(y - 6, x - 6)
ring = np.exp(-(((distance - 4) / 1.5) ** 2)) * np.exp(-(((z - 2) / 1.5) ** 2))
image = rng.normal(0, 6, (30, 150, 200)) + np.linspace(20, 120, 200)
places = [(6 + 13 * (k % 2), 12 + 32 * (k // 5), 15 + 36 * (k % 5)) for k in range(20)]
for place in places:
    box = tuple(slice(p, p + n) for p, n in zip(place, ring.shape, strict=True))
    image[box] += rng.uniform(30, 90) * ring
stack = bv.open(image.clip(0, 255).astype("u1"))
bv.preview(stack, at=(8, 82, 93))

# %%
# The similarity at each place, between -1 and 1. The volume is mirrored beyond its edges.
similarity = bv.match_template(stack, ring, pad_input=True, mode="reflect")
bv.preview(similarity, at=(8, 82, 93))

# %%
# Its peaks are in the middle of the rings.
peaks = bv.peak_local_max(similarity, min_distance=5, threshold_abs=0.5).compute()
found = sorted(zip(*(peaks[axis].to_pylist() for axis in "zyx"), strict=True))
print(f"{len(found)} rings")
assert len(found) == 20
middles = sorted((z + 2, y + 6, x + 6) for z, y, x in places)
assert np.abs(np.subtract(found, middles)).max() <= 1
