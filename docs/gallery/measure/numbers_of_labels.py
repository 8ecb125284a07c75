"""Measure intensities of labels

The reductions accept `labels=` and `index=`, as in `scipy.ndimage`. `regionprops_table` returns a
row for each label, with medians, quantiles and moments that are exact for any division into slabs.
"""

import numpy as np

import beam_volumes as bv

# %%
# Cells with a bright side. Some have a few very bright voxels, which increase their means.
rng = np.random.default_rng(11)
z, y, x = np.indices((16, 100, 160))
cells = np.zeros(z.shape, "u2")
image = rng.normal(40, 5, z.shape)
angles = rng.uniform(0, 2 * np.pi, 15)
for k in range(15):
    row, column = 18 + 32 * (k // 5), 16 + 32 * (k % 5)
    inside = np.hypot(np.hypot(y - row, x - column), 2 * (z - 8)) < 13
    side = ((y - row) * np.sin(angles[k]) + (x - column) * np.cos(angles[k])) / 13
    cells[inside] = k + 1
    image[inside] = (120 + 60 * side + rng.normal(0, 8, z.shape))[inside]
bright = (rng.random(z.shape) < 0.02) & (cells > 0) & (cells <= 5)
image[bright] = 4000
stack = bv.open(image.astype("u2"))
bv.preview(stack, labels=cells, percentiles=(0.5, 98))

# %%
# Means and medians of some labels, and means of all labels together.
chosen = [1, 8, 15]
print("means  ", np.round(bv.mean(stack, cells, chosen), 1))
print("medians", np.asarray(bv.median(stack, cells, chosen)))
print("all    ", float(bv.median(stack, labels=cells)))
assert bv.compute(bv.mean(stack, cells, 1)) > 1.3 * bv.compute(bv.median(stack, cells, 1))

# %%
# `extrema` returns minima, maxima and their positions. `histogram` has a row of counts for each label.
low, high, _, where = bv.extrema(stack, labels=cells, index=chosen)
counts, edges = bv.histogram(stack, bins=4, range=(0, 400), labels=cells, index=chosen)
print(np.asarray(high), np.asarray(where)[0])
print(np.asarray(counts))

# %%
# The table has a row for each label. Quantiles are not affected by a few bright voxels.
names = ["intensity_mean", "intensity_median", "intensity_std"]
quantiles = {"intensity_quantiles": (0.1, 0.9)}
table = bv.compute(bv.regionprops_table(cells, stack, names, **quantiles))
for name in list(table)[1:]:
    print(f"{name:22}", np.round(table[name].to_numpy()[[0, 7, 14]], 1))
assert np.ptp(table["intensity_median"].to_numpy()) < 0.1 * np.ptp(
    table["intensity_mean"].to_numpy()
)

# %%
# As volumes: the first five cells have different means but the same medians.
for name in ("intensity_mean", "intensity_median"):
    numbers = table["label"].to_numpy(), table[name].to_numpy()
    shown = bv.relabel(cells, numbers, dtype="f4")
    print(name, float(shown.max()))
bv.preview(
    bv.relabel(cells, (table["label"].to_numpy(), table["intensity_mean"].to_numpy()), dtype="f4")
)

# %%
# The weighted centroid is on the bright side. `moments_weighted_central` also describe how the
# intensity spreads around it.
names = ["centroid", "centroid_weighted", "moments_weighted_central"]
table = bv.regionprops_table(cells, stack.clip(0, 250), names)
offset = [table[f"centroid_weighted-{a}"] - table[f"centroid-{a}"] for a in (1, 2)]
turn = np.arctan2(*offset) - angles
print(f"directions differ by at most {np.abs(np.sin(turn)).max():.2f}")
assert np.abs(np.sin(turn[5:])).max() < 0.1 and np.all(np.cos(turn) > 0)
