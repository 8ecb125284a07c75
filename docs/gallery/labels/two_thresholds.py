"""Follow faint processes with two thresholds

A high threshold finds the bright parts of a process but breaks it where it is faint. A low
threshold includes noise. A hysteresis threshold keeps voxels above the low threshold that are
connected to voxels above the high one.
"""

import numpy as np

import beam_volumes as bv

# %%
# The brightness of four processes varies along their length.
rng = np.random.default_rng(2)
z, y, x = np.mgrid[:16, :112, :160].astype("f4")
image = np.zeros(z.shape, "f4")
processes = np.zeros(z.shape, bool)
for k in range(4):
    near = np.hypot(y - 18 - 25 * k - 6 * np.sin(x / 14 + k), z - 8) < 2
    processes |= near
    image[near] = (130 + 70 * np.sin(x / 9 + k))[near]
stack = bv.gaussian_filter(bv.open(image + rng.normal(0, 60, z.shape).astype("f4")), 1)
bv.preview(stack)

# %%
# The high threshold breaks each process. The low threshold alone includes noise.
high, low = stack > 90, stack > 30
bv.preview(bv.label(high))

# %%
bv.preview(bv.label(low))

# %%
# With both, each process is one object.
both = bv.label(bv.apply_hysteresis_threshold(stack, 30, 90))
bv.preview(both)

# %%
counts = {
    name: int(labels.num_labels)
    for name, labels in (("high", bv.label(high)), ("low", bv.label(low)), ("both", both))
}
print(counts)
assert counts["high"] > 4 == counts["both"] < counts["low"]
assert processes[np.asarray(both) > 0].mean() > 0.6
