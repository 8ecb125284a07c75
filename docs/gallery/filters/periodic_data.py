"""Filter periodic data

In a periodic simulation, the first voxel of an axis follows the last. With `mode="wrap"`, filters
read across these ends, so a structure that is cut by the border of the box is filtered as a whole.
"""

import numpy as np

import beam_volumes as bv

# %%
# A density from a periodic simulation. A drop near the corner is cut into eight parts.
rng = np.random.default_rng(7)
shape = (24, 96, 128)
z, y, x = np.indices(shape)


def drop(centre, radius):
    """Voxels within a radius, across the ends of the axes."""
    away = [
        np.minimum(abs(a - c), n - abs(a - c))
        for a, c, n in zip((z, y, x), centre, shape, strict=True)
    ]
    return sum(d**2 for d in away) < radius**2


density = 60 + 120 * (drop((2, 5, 6), 11) | drop((8, 48, 70), 11))
box = bv.open((density + rng.normal(0, 25, shape)).clip(0, 255).astype("u1"))
bv.preview(box, at=(2, 2, 2))

# %%
# Modes that extrapolate beyond the border create a different object there.
reflected = bv.gaussian_filter(box, 6, mode="reflect")
bv.preview(reflected, at=(2, 2, 2))

# %%
# With `mode="wrap"`, the voxels beyond the border come from the opposite side.
wrapped = bv.gaussian_filter(box, 6, mode="wrap")
bv.preview(wrapped, at=(2, 2, 2))

# %%
# The result does not depend on where the box begins: moving the box moves the result.
moved = np.roll(np.asarray(box), (9, 30, 50), axis=(0, 1, 2))
again = np.roll(np.asarray(bv.gaussian_filter(moved, 6, mode="wrap")), (-9, -30, -50), (0, 1, 2))
assert np.array_equal(again, np.asarray(wrapped))
assert not np.array_equal(np.asarray(reflected), np.asarray(wrapped))

# %%
# Chains of wrapped filters, such as gradients, read the sum of their halos only once.
slope = bv.sobel(bv.median_filter(box, 5, mode="wrap").astype("f4"), mode="wrap")
bv.preview(slope, at=(2, 2, 2))
