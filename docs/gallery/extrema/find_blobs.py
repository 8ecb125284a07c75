"""Find spots of several sizes

`blob_log` finds bright round spots and measures their sizes, without a threshold that separates them.
Use it for nuclei, granules or particles.
"""

import numpy as np

import beam_volumes as bv

# %%
# Forty balls with radii from 3 to 6 voxels, and noise.
rng = np.random.default_rng(8)
shape = (24, 128, 160)
grid = np.indices(shape)
image = rng.normal(40, 8, shape)
balls = []
while len(balls) < 40:
    radius = rng.uniform(3, 6)
    centre = rng.uniform((6, 8, 8), np.array(shape) - (6, 8, 8))
    if all(np.linalg.norm(centre - c) > radius + r + 4 for c, r in balls):
        balls.append((centre, radius))
        image[radius > np.linalg.norm(grid.T - centre, axis=-1).T] += 100
stack = bv.open(image.clip(0, 255).astype("u1"))
bv.preview(stack)

# %%
# A ball with radius r has the strongest response for a sigma of r divided by the square root of 3.
# The threshold is in units of intensity.
blobs = bv.blob_log(stack, min_sigma=1.5, max_sigma=4, num_sigma=6, threshold=40).compute()
print(f"{len(blobs)} blobs")
assert len(blobs) == len(balls)

# %%
# `blob_dog` subtracts two Gaussian filters instead, which is faster and has fewer scales.
# `blob_doh` is for two-dimensional images and uses the determinant of the second derivatives.
faster = bv.blob_dog(stack, min_sigma=1.5, max_sigma=4, threshold=20).compute()
plane = bv.blob_doh(stack[12], min_sigma=2, max_sigma=8, threshold=0.005).compute()
print(f"{len(faster)} by differences, {len(plane)} in one slice")

# %%
# The measured radii, compared with the true radii.
found = np.stack([blobs[axis].to_numpy() for axis in "zyx"], axis=1)
nearest = [np.linalg.norm(found - c, axis=1).argmin() for c, _ in balls]
radii = blobs["sigma"].to_numpy()[nearest] * np.sqrt(3)
errors = np.abs(radii - [r for _, r in balls])
print(f"radii differ by {errors.mean():.1f} voxels")
assert errors.max() < 1.5

# %%
# Outline a ball with a radius of 6 voxels around each blob.
marks = np.zeros(shape, bool)
marks[tuple(found.astype(int).T)] = True
bv.preview(stack, labels=bv.binary_dilation(marks, bv.ball(6)))
