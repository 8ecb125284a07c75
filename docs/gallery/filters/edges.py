"""Trace edges

`canny` reduces edges to thin lines where the gradient is largest. Weak lines are kept if they are
connected to strong ones anywhere in the volume.
"""

import numpy as np

import beam_volumes as bv

# %%
# A noisy bright ellipsoid with a boundary that fades from left to right.
rng = np.random.default_rng(6)
z, y, x = np.indices((16, 96, 160))
inside = ((z - 8) / 6) ** 2 + ((y - 48) / 34) ** 2 + ((x - 80) / 60) ** 2 < 1
image = 80 + inside * np.linspace(90, 30, 160) + rng.normal(0, 12, inside.shape)
stack = bv.open(image.astype("u1"))
bv.preview(stack)

# %%
# The gradient alone has wide edges and is noisy.
smooth = bv.gaussian_filter(stack, 2)
bv.preview(bv.gaussian_gradient_magnitude(stack.astype("f4"), 2))

# %%
# `scharr` and `farid` depend less on the direction of an edge than `sobel`; `roberts` uses the two
# diagonals of a plane. For smooth edges they differ little.
gradients = [filtered(smooth) for filtered in (bv.scharr, bv.farid)]
first, second = map(np.asarray, gradients)
print(f"correlation {np.corrcoef(first.ravel(), second.ravel())[0, 1]:.3f}")
assert np.corrcoef(first.ravel(), second.ravel())[0, 1] > 0.95
bv.preview(bv.roberts(smooth[8]))

# %%
# Thresholds are gradients of the Sobel filter. With the high threshold alone, the boundary has gaps.
strong = bv.canny(stack, 2, 300, 300)
bv.preview(strong)

# %%
# The low threshold closes the gaps.
edges = bv.canny(stack, 2, 150, 300)
bv.preview(edges)

# %%
# How much of the true boundary is within two voxels of an edge?
boundary = inside & ~np.asarray(bv.binary_erosion(inside))
shares = []
for name, result in (("strong", strong), ("connected", edges)):
    near = np.asarray(bv.binary_dilation(result, bv.ball(2)))
    shares.append(near[boundary].mean())
    print(f"{name:10} {shares[-1]:.0%}")
assert shares[0] < 0.8 and shares[1] > 0.9
