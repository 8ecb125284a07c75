"""Align two channels

Lenses bend colours differently, so two channels of a microscope are often shifted by a fraction
of a voxel. `shift` moves one of them.
"""

import numpy as np

import beam_volumes as bv

# %%
# Beads in two channels. The second one is shifted by (0.4, 1.3, -0.7) voxels.
rng = np.random.default_rng(0)
beads = rng.uniform(6, 34, (30, 3)) * (0.5, 1, 1)
moved = (0.4, 1.3, -0.7)
z, y, x = np.indices((20, 40, 40))


def image(positions):
    spots = (np.exp(-((z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2) / 4) for a, b, c in positions)
    return (200 * sum(spots)).clip(0, 255).astype("u1")


green, red = bv.open(image(beads)), bv.open(image(beads + moved))
bv.preview(green)

# %%
# A cubic spline moves the red channel back. The distance may also be a length such as `"40 nm"`,
# if the voxel size is known.
aligned = bv.shift(red, [-m for m in moved], order=3)
bv.preview(aligned)

# %%
before, linear, cubic = bv.compute(
    bv.correlation(green, red),
    bv.correlation(green, bv.shift(red, [-m for m in moved], order=1)),
    bv.correlation(green, aligned),
)
print(f"{float(before):.3f} {float(linear):.3f} {float(cubic):.3f}")
assert before < linear < cubic and cubic > 0.99
