"""Turn and zoom in one step

Each interpolation loses some detail. Combine successive maps into one matrix, so `affine_transform`
interpolates only once.
"""

import numpy as np

import beam_volumes as bv

# %%
# Stripes with a period of 7 voxels.
y, x = np.indices((90, 90))
stripes = bv.open((120 + 100 * np.sin(2 * np.pi * x / 7)).astype("f4"))
bv.preview(stripes)

# %%
# Rotate by 15 degrees about the middle, and enlarge by 1.5, with one matrix.
angle, middle = np.radians(15), np.array([44.5, 44.5])
turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
matrix = turn / 1.5
once = bv.affine_transform(stripes, matrix, middle - matrix @ middle, order=3)
bv.preview(once)

# %%
# The stripes at these positions are known, so the error can be computed.
positions = np.einsum("ij,jyx->iyx", matrix, np.indices((90, 90)) - 44.5) + 44.5
expected = 120 + 100 * np.sin(2 * np.pi * positions[1] / 7)
inner = (slice(25, 65), slice(25, 65))
turned = bv.affine_transform(stripes, turn, middle - turn @ middle, order=3)
twice = bv.affine_transform(turned, np.eye(2) / 1.5, middle / 3, order=3)
errors = [float(np.abs(np.asarray(v) - expected)[inner].max()) for v in (once, twice)]
print([round(error, 2) for error in errors])
assert errors[0] < 1 and errors[0] < errors[1]
