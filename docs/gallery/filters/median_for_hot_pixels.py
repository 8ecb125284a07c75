"""Remove hot and dead pixels with a median

Defective pixels of a camera are far too bright or far too dark. A Gaussian spreads them out. A
median replaces them with a typical value of their neighbourhood and keeps edges sharp.
"""

import numpy as np

import beam_volumes as bv

# %%
# The specimen consists of cells with thin dark membranes. Five per cent of the voxels are
# defective.
rng = np.random.default_rng(1)
z, y, x = np.mgrid[:16, :120, :160].astype("f4")
centres = rng.uniform((-8, -8, -8), (24, 128, 168), (60, 3)).astype("f4")
distances = np.stack([(z - a) ** 2 + (y - b) ** 2 + (x - c) ** 2 for a, b, c in centres])
first, second = np.sqrt(np.partition(distances, 1, axis=0)[:2])
clean = np.where(second - first < 1.5, 60, 170).astype("u1")
defective = bv.random_noise(bv.open(clean), "s&p", amount=0.05, seed=7)
camera = (defective * 255).astype("u1")
bv.preview(camera)

# %%
# With a Gaussian, each defect leaves a blob.
gaussian = bv.gaussian_filter(camera, 1)
bv.preview(gaussian)

# %%
# `size` is the extent of the median's neighbourhood in voxels. A size of 7 removes the defects, but
# also most membranes, because they fill less than half of a neighbourhood.
bv.preview(bv.median_filter(camera, 7))

# %%
# A size of 3 is enough for single defects, and keeps the membranes.
median = bv.median_filter(camera, 3)
bv.preview(median)


# %%
# Compare the mean error relative to the specimen without defects.
def error(volume):
    """The mean absolute difference."""
    return float(np.abs(np.asarray(volume, "f8") - clean).mean())


for name, volume in (
    ("as acquired", camera),
    ("median, 3", median),
    ("median, 7", bv.median_filter(camera, 7)),
    ("Gaussian", gaussian),
):
    print(f"{name:12} {error(volume):5.1f}")
assert error(median) < error(gaussian)
assert error(median) < error(bv.median_filter(camera, 7))
