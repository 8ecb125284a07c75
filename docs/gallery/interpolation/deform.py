"""Deform a volume by a field

`warp` moves each voxel by a distance stored in a field, such as the result of a nonlinear
registration or the distortion of a camera.
"""

import numpy as np

import beam_volumes as bv

# %%
# A grid of lines.
shape = (8, 160, 160)
z, y, x = np.indices(shape)
grid = np.where((y % 16 < 2) | (x % 16 < 2), 220, 40).astype("u1")
stack = bv.open(grid)
bv.preview(stack)

# %%
# A lens that magnifies the centre: voxels are read from positions closer to the centre.
distance = np.hypot(y - 79.5, x - 79.5)
pull = -0.4 * np.exp(-((distance / 40) ** 2))
field = np.stack([0 * pull, pull * (y - 79.5), pull * (x - 79.5)]).astype("f4")
bv.compute(bv.open(field, axes="czyx").to("field.zarr"), runner=None)

# %%
# The largest displacement determines how much of the neighbourhood is read.
largest = float(np.abs(field).max())
print(f"at most {largest:.1f} voxels")
bent = bv.warp(stack, bv.open("field.zarr"), max_displacement=12)
bv.preview(bent)

# %%
# The opposite displacements, at the new positions, reverse most of the deformation.
back = bv.warp(0 - bv.open("field.zarr"), -field, max_displacement=12, mode="nearest")
flat = bv.warp(bent, back, max_displacement=12)
before = np.abs(np.asarray(bent).astype(int) - grid).mean()
after = np.abs(np.asarray(flat).astype(int) - grid)[:, 20:-20, 20:-20].mean()
print(f"mean difference {before:.0f} before, {after:.0f} after")
assert after < before / 2
bv.preview(flat)
