"""Make the noise of photon counts even

The noise of a photon count grows with the count. A threshold on a difference then fits either dim
or bright regions. After Anscombe's transform, a square root, the noise has a standard deviation of
about 1 everywhere.
"""

import numpy as np

import beam_volumes as bv

# %%
# Stripes have 5 to 500 photons per voxel.
rng = np.random.default_rng(1)
levels = np.array([5, 20, 80, 200, 500])
expected = np.repeat(levels, 32)[None, None, :] * np.ones((16, 112, 1))
counts = bv.open(rng.poisson(expected).astype("u2"))
bv.preview(counts)

# %%
# Elementary functions are computed voxel by voxel, and add no pass over the data. A logarithm
# overcorrects: noise is then largest in the dim stripes.
logarithm = bv.log1p(counts)
bv.preview(logarithm)

# %%
# With the square root it is the same in all stripes.
stable = 2 * bv.sqrt(counts + 0.375)
bv.preview(stable)

# %%
# The standard deviation of each stripe:
deviations = {}
for name, volume in (("counts", counts), ("square root", stable), ("logarithm", logarithm)):
    stripes = [bv.std(volume[:, :, 32 * k : 32 * k + 32]) for k in range(5)]
    deviations[name] = np.array(bv.compute(*stripes))
    print(f"{name:12}", deviations[name].round(2))
assert np.abs(deviations["square root"] - 1).max() < 0.1
assert deviations["counts"][-1] > 5 * deviations["counts"][0]
assert deviations["logarithm"][0] > 5 * deviations["logarithm"][-1]
