"""Flatten a layer

`map_coordinates` reads a volume at arbitrary positions, here parallel to an undulating layer.
`spline_filter` computes the coefficients of a spline once, for several such calls.
"""

import numpy as np

import beam_volumes as bv

# %%
# A layer with a pattern of squares.
z, y, x = np.indices((32, 96, 128))
height = 16 + 6 * np.sin(y / 14) * np.cos(x / 18)
pattern = np.where(np.sin(x / 3) * np.sin(y / 3) > 0, 180, 90)
stack = bv.open(np.where(abs(z - height) < 3.5, pattern, 30).astype("u1"))
bv.preview(stack)

# %%
# The positions have three channels: z, y and x of the voxel to read. Slice 16 reads at the height
# of the layer. No position is more than 6 voxels away, which limits the data that a slab needs.
positions = np.stack([z + height - 16, y, x]).astype("f4")
flat = bv.map_coordinates(stack, positions, max_displacement=7, order=1)
bv.preview(flat)

# %%
# The whole pattern is in one slice.
middle = np.asarray(flat)[16]
correlation = np.corrcoef(middle.ravel(), pattern[0].ravel())[0, 1]
print(f"correlation with the pattern {correlation:.3f}")
assert correlation > 0.95
assert np.corrcoef(np.asarray(stack)[16].ravel(), pattern[0].ravel())[0, 1] < 0.8

# %%
# A cubic spline interpolates between coefficients. `spline_filter` computes them, and
# `prefilter=False` expects them.
coefficients = bv.spline_filter(stack, order=3, mode="mirror")
how = {"max_displacement": 8, "order": 3, "mode": "mirror"}
above, below = (
    bv.map_coordinates(coefficients, positions + np.float32(d), prefilter=False, **how)
    for d in (-0.5, 0.5)
)
bv.preview((above + below) / 2)

# %%
# Without these options, `map_coordinates` computes the coefficients itself.
direct = bv.map_coordinates(stack.astype("f4"), positions - np.float32(0.5), **how)
np.testing.assert_allclose(np.asarray(above), np.asarray(direct), atol=1e-3)

# %%
# `spline_filter1d` filters one axis. Coefficients have more contrast than the voxels.
along = bv.spline_filter1d(stack, 3, axis=2, mode="mirror")
print(f"{float(along.min()):.0f} to {float(along.max()):.0f} instead of 30 to 180")
bv.preview(along)
