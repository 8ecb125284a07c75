"""Correct the drift of a stage

If the stage drifts while a stack is acquired, columns of tissue look slanted. `affine_transform`
shears the volume back; `shift` moves one volume onto another.
"""

import numpy as np
from scipy import ndimage

import beam_volumes as bv

# %%
# The stage drifts by 1.5 pixels along x from slice to slice. Fibres along z are slanted in the
# section below.
rng = np.random.default_rng(2)
tissue = ndimage.gaussian_filter(rng.random((112, 190)), 3)
tissue = 128 + 40 * (tissue - tissue.mean()) / tissue.std()
drift = 1.5
x = np.arange(140)
slices = [
    np.stack([np.interp(x + drift * k, np.arange(190), row) for row in tissue]) for k in range(32)
]
stack = bv.open(np.stack(slices).clip(0, 255).astype("f4"))
bv.preview(stack)

# %%
# The matrix maps a position z, y, x in the result to a position in the input. Its last row is the
# drift: the input is read at x - 1.5 z.
matrix = [[1, 0, 0], [0, 1, 0], [-drift, 0, 1]]
straight = bv.affine_transform(stack, matrix)
bv.preview(straight)

# %%
# `order=0` uses the nearest voxel instead of interpolating. Every second slice is half a pixel off.
nearest = bv.affine_transform(stack, matrix, order=0)
bv.preview(nearest)


# %%
# In a straight stack, the slices are equal wherever all of them have voxels. Compare their mean
# deviation along z.
def deviation(volume):
    """The mean over x and y of the standard deviation along z."""
    return float(bv.mean(bv.open(bv.std(volume[:, :, 50:], axis="z"))))


deviations = {"slanted": stack, "linear": straight, "nearest": nearest}
deviations = {name: deviation(volume) for name, volume in deviations.items()}
print({name: round(value, 1) for name, value in deviations.items()})
assert deviations["linear"] < deviations["nearest"] < deviations["slanted"] / 2

# %%
# To move a whole stack, pass a length with its unit.
moved = bv.shift(bv.open(np.asarray(stack), voxel_size=(50, 10, 10), unit="nm"), (0, 0, "200 nm"))
assert np.array_equal(np.asarray(moved)[:, :, 20:], np.asarray(stack)[:, :, :-20])
