"""Compute a ratio of two channels

The signal of calcium and pH sensors is the ratio of two channels. Where both are dark, the ratio is
only noise. Use `where` and a mask to replace it.
"""

import numpy as np

import beam_volumes as bv

# %%
# Three cells have ratios of 0.5, 1 and 2, and different brightness.
rng = np.random.default_rng(2)
z, y, x = np.mgrid[:16, :96, :144].astype("f4")
cells = np.zeros(z.shape, "u1")
for k, c in enumerate((28, 72, 116)):
    cells[np.hypot(y - 48, x - c) < 19] = k + 1
brightness = np.array([0, 600, 200, 400])[cells]
ratio = np.array([1, 0.5, 1, 2])[cells]
signals = np.stack([brightness * ratio, brightness]) + rng.normal(0, 15, (2, *z.shape))
sensor = bv.stack([signals[0].astype("f4"), signals[1].astype("f4")], names=["bound", "free"])
bv.preview(sensor)

# %%
# The plain ratio is noise outside of cells.
bound, free = sensor.sel(c="bound"), sensor.sel(c="free")
plain = bound / free
bv.preview(plain, percentiles=(5, 95))

# %%
# `where` uses the ratio inside a mask and 0 elsewhere. The mask needs a threshold, here half the
# intensity of the dimmest cell.
inside = bound + free > 150
masked = bv.where(inside, plain, 0)
bv.preview(masked)

# %%
# `clip` limits the ratio to its possible range. A logarithm makes ratios of 0.5 and 2 equally far
# from 1.
logarithm = bv.where(inside, bv.log2(bv.clip(plain, 0.1, 10)), 0)
bv.preview(logarithm)

# %%
# The mean of the logarithm matches the known value in each cell.
means = bv.compute(*(bv.mean(logarithm, mask=cells == k) for k in (1, 2, 3)))
print(np.round(means, 2))
np.testing.assert_allclose(means, [-1, 0, 1], atol=0.03)
assert float(bv.max(bv.abs(plain))) > 100 > 10 >= float(bv.max(masked))
