"""Project a volume and correct it for depth

A reduction along some of the axes gives a projection or a profile. Projections show thin structures
in one picture, and the profile along z shows how the signal fades with depth.
"""

import numpy as np

import beam_volumes as bv

# %%
# Fibres run through a volume in which the signal halves every 15 slices.
rng = np.random.default_rng(2)
z, y, x = np.mgrid[:30, :112, :144].astype("f4")
fibres = np.zeros(z.shape, bool)
for k in range(8):
    row, slope, depth = rng.uniform(10, 100), rng.uniform(-0.4, 0.4), rng.uniform(3, 27)
    fibres |= np.hypot(y - row - slope * (x - 72), z - depth - 2 * np.sin(x / 15 + k)) < 1.5
fading = 0.5 ** (z / 15)
stack = bv.open((fading * (100 + 400 * fibres) + rng.normal(0, 10, z.shape)).astype("f4"))
bv.preview(stack)

# %%
# The maximum along z shows all fibres at once. A projection can be opened as a volume again.
bv.preview(bv.open(bv.max(stack, axis="z")))

# %%
# `profile_line` reads the values along one line, here across the fibres of a slice.
values = np.asarray(bv.profile_line(stack[10], (0, 72), (111, 72), linewidth=3))
print(f"{len(values)} values, up to {values.max():.0f}")

# %%
# `cumsum` adds up the signal along an axis, such as the material that a beam has passed through at
# each depth.
passed = bv.cumsum(stack, axis=0)
assert np.allclose(np.asarray(passed)[-1], np.asarray(bv.sum(stack, axis=0)), rtol=1e-4)
bv.preview(passed)

# %%
# The mean has less noise but also less contrast, because each fibre is only in a few slices.
bv.preview(bv.open(bv.mean(stack, axis="z")))

# %%
# The median over y and x is the background of each slice. A mean would depend on the fibres.
profile = np.asarray(bv.percentile(stack, 50, axis=("y", "x")))
for depth in (0, 15, 29):
    print(f"slice {depth:2}: background {profile[depth]:.0f}")
assert abs(profile[15] / profile[0] - 0.5) < 0.05

# %%
# Divide by the profile to correct for the depth. Shapes are broadcast as in numpy.
corrected = stack / profile[:, None, None]
bv.preview(bv.open(bv.max(corrected, axis="z")))

# %%
flat = np.asarray(bv.percentile(corrected, 50, axis=("y", "x")))
assert np.ptp(flat) < 1e-3
