"""Measure the colocalization of two channels

Pearson's correlation shows whether two proteins occur in the same places. A background that is
common to both channels increases it, so measure it inside a mask.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The proteins only occur in cells. The first two are in the same vesicles, the third is in
# different ones.
rng = np.random.default_rng(3)
shape = (16, 112, 144)
z, y, x = np.mgrid[: shape[0], : shape[1], : shape[2]]
cells = (np.hypot(y - 40, x - 45) < 32) | (np.hypot(y - 70, x - 105) < 32)


def protein(vesicles):
    """An image of a protein that is in vesicles and, more thinly, in all of a cell."""
    return (100 + 100 * cells + 900 * vesicles + rng.normal(0, 20, shape)).astype("f4")


def vesicles():
    """Small blobs at random places in cells."""
    blobs = ndimage.gaussian_filter((rng.random(shape) < 0.01).astype("f4"), 1.5)
    return blobs * cells * 10


shared = vesicles()
names = ["A", "B", "C"]
stack = bv.stack([protein(shared), protein(shared), protein(vesicles())], names=names)
bv.preview(stack)

# %%
# Select channels by name. These two are colocalized.
a, b, c = (stack.sel(c=name) for name in names)
bv.preview(bv.stack([a, b], names=["A", "B"]))

# %%
# These two are not, except that both are in cells.
bv.preview(bv.stack([a, c], names=["A", "C"]))

# %%
# Over all voxels, even the second pair has a high correlation. Inside cells, there is no
# correlation.
results = bv.compute(
    bv.correlation(a, b),
    bv.correlation(a, c),
    bv.correlation(a, b, mask=cells),
    bv.correlation(a, c, mask=cells),
)
for name, value in zip(("A B", "A C", "A B in cells", "A C in cells"), results, strict=True):
    print(f"{name:13} {value:5.2f}")
assert results[1] > 0.2 and abs(results[3]) < 0.1 and results[2] > 0.9
