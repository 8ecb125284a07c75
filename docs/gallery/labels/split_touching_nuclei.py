"""Split nuclei that touch

Touching nuclei form a single connected component. A watershed of the distance to the background
splits them at their necks. The smoothness of the distance determines the number of pieces.
"""

import numpy as np

import beam_volumes as bv

# %%
# Twelve nuclei touch in three rows. Their surface is rough.
rng = np.random.default_rng(0)
z, y, x = np.mgrid[:32, :104, :144].astype("f4")
truth = np.zeros(z.shape, "u4")
for k in range(12):
    b, c = 18 + 34 * (k // 4) + rng.uniform(-2, 2), 22 + 19 * (k % 4) + 12 * (k // 4)
    truth[(z - 16) ** 2 + (y - b) ** 2 + (x - c) ** 2 < 11**2] = k + 1
rough = bv.gaussian_filter(bv.open(rng.normal(size=z.shape).astype("f4")), 2)
nuclei = bv.gaussian_filter(bv.open((truth > 0).astype("f4")), 2) + 2.5 * rough > 0.5
nuclei = bv.remove_small_objects(nuclei, max_size=500)
components = bv.label(nuclei)
bv.preview(components)

# %%
# The watershed uses the negative distance, so each nucleus is a basin. Without smoothing, every
# bump on the surface becomes a separate basin.
depth = bv.distance_transform_edt(nuclei)
pieces = bv.watershed(-depth, mask=nuclei)
bv.preview(pieces)

# %%
# Smooth the distance first. A sigma that exceeds the radius of a nucleus loses the necks.
merged = bv.watershed(-bv.gaussian_filter(depth, 12), mask=nuclei)
bv.preview(merged)

# %%
# A fraction of the radius of a nucleus, here a quarter, removes bumps and keeps necks.
split = bv.watershed(-bv.gaussian_filter(depth, 3), mask=nuclei)
bv.preview(split)

# %%
# `watershed_line=True` leaves a line of background between touching pieces, so each piece is a
# separate component of their mask.
lines = bv.watershed(-bv.gaussian_filter(depth, 3), mask=nuclei, watershed_line=True)
assert int(bv.label(lines > 0).num_labels) == 12
bv.preview(lines)

# %%
# Count the pieces, and compare them with the true nuclei. The adapted Rand error is 0 where both
# agree.
counts, errors = {}, {}
candidates = {
    "components": components,
    "no smoothing": pieces,
    "sigma 3": split,
    "sigma 12": merged,
}
for name, labels in candidates.items():
    counts[name] = int(labels.num_labels)
    errors[name] = float(bv.adapted_rand_error(truth, labels)[0])
    print(f"{name:13} {counts[name]:4} pieces, error {errors[name]:.2f}")
assert counts["components"] == 3 and counts["sigma 3"] == 12 < counts["no smoothing"]
assert min(errors, key=errors.get) == "sigma 3"
